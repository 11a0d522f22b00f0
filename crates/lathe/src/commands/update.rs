//! `lathe update`, `lathe install` and `lathe uninstall`, and the daily look for a new version.

use super::{load_options, places, print_line};
use crate::error::{CliError, Kinded as _, Outcome, notice};
use clap::Args;
use lathe_settings::schema::{AutoUpdates, UpdateChannel};
use lathe_settings::{Environment, Settings, load};
use lathe_update::diagnosis::{Facts, facts};
use lathe_update::{Done, Kind, Layout, UpdateError, VERSION, Wanted, check};
use std::fmt::Write as _;
use std::path::Path;

// `lathe update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArguments {
    /// Only report whether there is a newer version.
    #[arg(long)]
    check: bool,
}

// `lathe install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArguments {
    /// `stable`, `latest`, or a version such as 1.2.3. Without it, the channel of settings.
    version: Option<String>,
    /// Reinstall a version that is already installed, and replace a foreign `lathe` in ~/.local/bin.
    #[arg(long)]
    force: bool,
}

// `lathe uninstall`.
#[derive(Debug, Args)]
pub(crate) struct UninstallArguments {
    /// Also delete ~/.lathe: settings, sessions, memory, plugins.
    #[arg(long)]
    purge: bool,
}

fn settings(environment: &Environment) -> Settings {
    let places = places(environment.clone());
    load(&places, &load_options(&places, &[], None)).settings
}

fn this_program() -> Result<std::path::PathBuf, CliError> {
    std::env::current_exe()
        .map_err(|error| CliError::failure(format!("the path of this program is unknown: {error}")))
}

/// `lathe update`.
pub(crate) async fn update(environment: Environment, arguments: UpdateArguments) -> Outcome {
    let settings = settings(&environment);
    let channel = settings.auto_updates_channel.unwrap_or_default();
    let address = settings.release_url.as_deref();
    let facts = facts(&environment, &this_program()?);
    print_line(&summary(&facts, channel))?;
    if arguments.check {
        let found = check::look(&environment, address, channel.name()).await;
        return print_line(&match found.map_err(with_hint)? {
            Some(version) => format!("lathe {version} is available"),
            None => format!("{VERSION} is the newest version"),
        });
    }
    if facts.kind != Kind::Native {
        let how = facts.kind.how_to_update().unwrap_or("lathe install");
        return print_line(&format!("this installation is updated by: {how}"));
    }
    let wanted = Wanted::Update {
        channel: channel.name().to_owned(),
    };
    let done = lathe_update::install::install(&environment, address, &wanted).await;
    print_line(&outcome(&done.map_err(with_hint)?))
}

/// `lathe install`.
pub(crate) async fn install(environment: Environment, arguments: InstallArguments) -> Outcome {
    let settings = settings(&environment);
    let channel = settings.auto_updates_channel.unwrap_or_default().name();
    let name = arguments.version.unwrap_or_else(|| channel.to_owned());
    let wanted = Wanted::Exactly {
        name: name.clone(),
        force: arguments.force,
    };
    let address = settings.release_url.as_deref();
    let done = lathe_update::install::install(&environment, address, &wanted).await;
    let mut text = outcome(&done.map_err(with_hint)?);
    if ["stable", "latest"].contains(&name.as_str()) && name != channel {
        let _ = write!(
            text,
            "\nto stay on this channel: lathe config set autoUpdatesChannel {name}"
        );
    }
    let layout = Layout::of(&environment).or_failure()?;
    if let Some(bin) = layout.link.parent()
        && !is_on_path(&environment, bin)
    {
        let _ = write!(
            text,
            "\n{} is not on the PATH; add it in your shell's start-up file",
            bin.display()
        );
    }
    print_line(&text)
}

fn is_on_path(environment: &Environment, folder: &Path) -> bool {
    let path = environment.foreign("PATH").unwrap_or_default();
    std::env::split_paths(path).any(|part| part == folder)
}

/// `lathe uninstall`.
pub(crate) fn uninstall(environment: &Environment, arguments: &UninstallArguments) -> Outcome {
    let kind = facts(environment, &this_program()?).kind;
    let layout = Layout::of(environment).or_failure()?;
    let mut text = String::new();
    for removed in layout.remove().map_err(with_hint)? {
        let _ = writeln!(text, "removed {}", removed.display());
    }
    if let Some(how) = kind.how_to_remove() {
        let _ = writeln!(text, "this program is removed by: {how}");
    }
    let config_home = places(environment.clone()).config_home;
    if !arguments.purge {
        if config_home.is_dir() {
            let _ = writeln!(
                text,
                "settings and sessions are still in {}",
                config_home.display()
            );
        }
        return print_line(&text);
    }
    // Another folder may hold more than ours.
    let usual = environment.home.as_ref().map(|home| home.join(".lathe"));
    if usual.as_ref() != Some(&config_home) {
        print_line(&text)?;
        return Err(CliError::usage(format!(
            "{} is not ~/.lathe, so it is not deleted",
            config_home.display()
        ))
        .hint("delete it yourself if nothing else is in it"));
    }
    if config_home.is_dir() {
        std::fs::remove_dir_all(&config_home).map_err(|error| {
            CliError::failure(format!(
                "{} can't be deleted: {error}",
                config_home.display()
            ))
        })?;
        let _ = writeln!(text, "removed {}", config_home.display());
    }
    print_line(&text)
}

/// The version, the channel and the state of the installation.
fn summary(facts: &Facts, channel: UpdateChannel) -> String {
    let mut text = format!(
        "lathe {VERSION}, channel {}\n{} installation: {}",
        channel.name(),
        facts.kind.word(),
        facts.program.display()
    );
    if facts.on_path.len() > 1 {
        let others: Vec<String> = facts
            .on_path
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let _ = write!(text, "\nseveral on the PATH: {}", others.join(", "));
    }
    text
}

fn outcome(done: &Done) -> String {
    match done {
        Done::Current(version) => format!("lathe {version} is already in use"),
        Done::Switched { from, to, removed } => {
            let mut text = match from {
                Some(from) => format!("lathe {from} → {to}"),
                None => format!("installed lathe {to}"),
            };
            if let Some(from) = from {
                let _ = write!(text, "\nto go back: lathe install {from}");
            }
            for version in removed {
                let _ = write!(text, "\nremoved the old version {version}");
            }
            text
        }
    }
}

fn with_hint(error: UpdateError) -> CliError {
    let hint = match &error {
        UpdateError::NoKey => {
            Some("fetch a release, or use the package manager of your choice: see docs/install.md")
        }
        UpdateError::Fetch { .. } => Some("the installed version still works; try again later"),
        UpdateError::WrongSignature { .. } => {
            Some("nothing was installed; check `releaseUrl` and the network between")
        }
        _ => None,
    };
    let failure = CliError::failure(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Names a newer version that an earlier look found, and looks again in the background if that was a day ago.
/// Nothing waits for it.
pub(crate) fn look_in_background(environment: &Environment) {
    if check::is_off(environment) || lathe_update::manifest::key(environment).is_err() {
        return;
    }
    let settings = settings(environment);
    let mode = settings.auto_updates.unwrap_or(AutoUpdates::Notify);
    if mode == AutoUpdates::Off {
        return;
    }
    if let Some(version) = check::known(environment) {
        notice(&format!(
            "lathe {version} is available, this is {VERSION}: lathe update"
        ));
    }
    if !check::is_due(environment) {
        return;
    }
    let environment = environment.clone();
    lathe_spawn::task(async move {
        let channel = settings.auto_updates_channel.unwrap_or_default().name();
        let address = settings.release_url.as_deref();
        let found = check::look(&environment, address, channel).await;
        let is_native = std::env::current_exe()
            .is_ok_and(|program| Kind::of(&program, &environment) == Kind::Native);
        let done = match found {
            Ok(Some(_)) if mode == AutoUpdates::On && is_native => {
                let wanted = Wanted::Update {
                    channel: channel.to_owned(),
                };
                lathe_update::install::install(&environment, address, &wanted)
                    .await
                    .map(drop)
            }
            other => other.map(drop),
        };
        if let Err(error) = done {
            tracing::debug!(%error, "checking for a new version failed");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_names_the_way_back() {
        let done = Done::Switched {
            from: "0.1.0".parse().ok(),
            to: "0.2.0".parse().unwrap(),
            removed: vec!["0.0.1".parse().unwrap()],
        };
        let text = outcome(&done);
        assert!(text.contains("0.1.0 → 0.2.0"), "{text}");
        assert!(text.contains("lathe install 0.1.0"), "{text}");
        assert!(text.contains("removed the old version 0.0.1"), "{text}");
    }
}
