//! The kind of the installation, others beside it, its locks, updates, and completions of the shell.

use crate::{Installation, Report};
use lathe_settings::Variable;
use lathe_update::diagnosis::{Facts, facts};
use lathe_update::{Kind, check};
use std::path::{Path, PathBuf};

pub(crate) fn installation(
    installation: &Installation<'_>,
    program: &Path,
    report: &mut Report<'_>,
) {
    let facts = facts(&installation.environment, program);
    report.fine(format!(
        "the kind of the installation: {}",
        facts.kind.word()
    ));
    others(&facts, report);
    updates(installation, &facts, report);
    native(&facts, report);
    completions(installation, report);
}

fn others(facts: &Facts, report: &mut Report<'_>) {
    if facts.on_path.len() < 2 {
        return;
    }
    let all: Vec<String> = facts
        .on_path
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    report.warning(
        format!("there are several installations: {}", all.join(", ")),
        "keep one; `lathe uninstall` of the others, or their package manager, removes them",
    );
}

fn updates(installation: &Installation<'_>, facts: &Facts, report: &mut Report<'_>) {
    let settings = &installation.settings.settings;
    let channel = settings.auto_updates_channel.unwrap_or_default().name();
    match (&facts.kind, &facts.why_not) {
        (Kind::Native, Some(why)) => report.warning(
            format!("it can't update itself: {why}"),
            "correct that, or install it again (docs/install.md)",
        ),
        (Kind::Native, None) => {
            report.fine(format!("it can update itself, from the channel {channel}"));
        }
        (_, how) => report.fine(format!("updates: {}", how.as_deref().unwrap_or("by hand"))),
    }
    if check::is_off(&installation.environment) {
        report.fine("no new versions are looked for (CI or LATHE_DISABLE_AUTO_UPDATES)");
    } else if let Some(version) = check::known(&installation.environment) {
        report.note(format!("lathe {version} is available"), "lathe update");
    }
}

/// Versions, locks and leftovers of the native layout.
fn native(facts: &Facts, report: &mut Report<'_>) {
    if !facts.versions.is_empty() {
        let all: Vec<String> = facts.versions.iter().map(ToString::to_string).collect();
        match &facts.current {
            Some(current) => report.fine(format!(
                "native versions: {}; in use: {current}",
                all.join(", ")
            )),
            None => report.warning(
                format!(
                    "native versions: {}; ~/.local/bin/lathe leads to none",
                    all.join(", ")
                ),
                format!("lathe install {}", all[0]),
            ),
        }
    }
    for lock in &facts.locks {
        let pid = lock
            .pid
            .map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
        if lock.held {
            report.fine(format!("lock {}: running, PID {pid}", lock.name));
        } else {
            report.note(
                format!("lock {}: stale, PID {pid} is gone", lock.name),
                "nothing to do: the next update removes it",
            );
        }
    }
    let busy = facts
        .locks
        .iter()
        .any(|lock| lock.held && lock.name == "update");
    if facts.unfinished && !busy {
        report.note(
            "an update was interrupted",
            "nothing to do: the version in use works, and the next update cleans up",
        );
    }
}

/// Whether the user's shell completes `lathe`.
fn completions(installation: &Installation<'_>, report: &mut Report<'_>) {
    let environment = &installation.environment;
    let Some(home) = &environment.home else {
        return;
    };
    let shell = environment.get(Variable::Shell).unwrap_or_default();
    let name = shell.rsplit('/').next().unwrap_or_default();
    let file: PathBuf = match name {
        "bash" => home.join(".local/share/bash-completion/completions/lathe"),
        "zsh" => home.join(".zfunc/_lathe"),
        "fish" => home.join(".config/fish/completions/lathe.fish"),
        _ => {
            report.fine("the shell's completions can't be checked: SHELL is not bash, zsh or fish");
            return;
        }
    };
    let system = [
        "/usr/share/bash-completion/completions/lathe",
        "/usr/share/zsh/vendor-completions/_lathe",
        "/usr/share/fish/vendor_completions.d/lathe.fish",
    ];
    let of_shell = system.iter().find(|path| path.contains(name));
    if file.is_file() || of_shell.is_some_and(|path| Path::new(path).is_file()) {
        report.fine(format!("completions for {name} are installed"));
    } else {
        report.note(
            format!("completions for {name} are not installed"),
            format!("lathe completions {name} > {}", file.display()),
        );
    }
}
