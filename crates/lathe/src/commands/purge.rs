//! `lathe purge`: deletes everything that is kept about a project.

use super::{places, print_line};
use crate::error::{CliError, Kinded as _, Outcome};
use clap::Args;
use lathe_mcp::config::Choices;
use lathe_session::SessionStore;
use lathe_session::paths::{project_key, projects_folder};
use lathe_session::store::Scope;
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, Places};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Files and folders of the configuration folder that are about projects.
const ABOUT_PROJECTS: [&str; 7] = [
    "projects",
    "drafts",
    "schedules",
    "plans",
    "history.jsonl",
    "trust.json",
    "mcp-choices.json",
];

// `lathe purge`.
#[derive(Debug, Args)]
pub(crate) struct PurgeArguments {
    /// The project's folder; it may no longer exist.
    #[arg(default_value = ".", conflicts_with = "all")]
    path: PathBuf,
    /// Show what would be deleted, and delete nothing.
    #[arg(long)]
    dry_run: bool,
    /// The data of all projects.
    #[arg(long)]
    all: bool,
}

/// `lathe purge`.
pub(crate) fn run(environment: Environment, arguments: &PurgeArguments) -> Outcome {
    let places = places(environment);
    let purge = Purge {
        dry_run: arguments.dry_run,
        places,
        report: String::new(),
    };
    if arguments.all {
        purge.everything()
    } else {
        purge.project(&arguments.path)
    }
}

struct Purge {
    dry_run: bool,
    places: Places,
    report: String,
}

impl Purge {
    fn everything(mut self) -> Outcome {
        let store = SessionStore::new(&self.places.config_home);
        for session in store.list(Scope::Everywhere, None) {
            refuse_if_used(&session.path)?;
        }
        for name in ABOUT_PROJECTS {
            let path = self.places.config_home.join(name);
            self.delete(&path)?;
        }
        self.finish("there is no data of any project")
    }

    fn project(mut self, folder: &Path) -> Outcome {
        let written = self.places.environment.resolve(&folder.to_string_lossy());
        let folder = std::fs::canonicalize(&written).unwrap_or(written);
        let home = self.places.config_home.clone();
        self.sessions(&home, &folder)?;
        for draft in lathe_tui::draft_files(&home, &folder) {
            self.delete(&draft)?;
        }
        let prompts = lathe_tui::history_of(&home, &folder, !self.dry_run).or_failure()?;
        if prompts > 0 {
            self.say(&format!("{prompts} prompts of the history"));
        }
        let trust = TrustStore::new(&self.places);
        let known = trust.list().or_failure()?;
        if known.contains_key(&*folder.to_string_lossy()) {
            if !self.dry_run {
                trust.forget(&folder).or_failure()?;
            }
            self.say("the entry in trust.json");
        }
        let choices = Choices::new(&self.places.clone().with_project(folder.clone()));
        if choices.get().or_failure()? != lathe_mcp::config::choices::FolderChoices::default() {
            if !self.dry_run {
                choices.forget_folder().or_failure()?;
            }
            self.say("choices about MCP servers");
        }
        self.finish(&format!("there is no data of {}", folder.display()))
    }

    /// Sessions of the folder, and the rest of its folder: memory, results, checkpoints. Another project may
    /// have the same key; its sessions stay, and then the rest does too.
    fn sessions(&mut self, home: &Path, folder: &Path) -> Result<(), CliError> {
        let store = SessionStore::new(home);
        let sessions = store.list(Scope::Folder(folder), None);
        let is_own = |cwd: &Path| {
            cwd == folder || std::fs::canonicalize(cwd).is_ok_and(|real| real == folder)
        };
        let (own, others): (Vec<_>, Vec<_>) = sessions.into_iter().partition(|session| {
            session
                .cwd
                .as_ref()
                .is_none_or(|cwd| is_own(Path::new(cwd)))
        });
        for session in &own {
            refuse_if_used(&session.path)?;
        }
        for session in &own {
            if !self.dry_run {
                store.delete(session)?;
            }
        }
        if !own.is_empty() {
            self.say(&format!("{} sessions", own.len()));
        }
        if others.is_empty() {
            let project = projects_folder(home).join(project_key(folder));
            self.delete(&project)?;
        }
        Ok(())
    }

    fn delete(&mut self, path: &Path) -> Result<(), CliError> {
        let Ok(found) = std::fs::symlink_metadata(path) else {
            return Ok(());
        };
        if !self.dry_run {
            let deleted = if found.is_dir() {
                std::fs::remove_dir_all(path)
            } else {
                std::fs::remove_file(path)
            };
            deleted.map_err(|error| {
                CliError::failure(format!("{} can't be deleted: {error}", path.display()))
            })?;
        }
        self.say(&path.display().to_string());
        Ok(())
    }

    fn say(&mut self, what: &str) {
        let word = if self.dry_run {
            "would delete"
        } else {
            "deleted"
        };
        let _ = writeln!(self.report, "{word} {what}");
    }

    fn finish(self, nothing: &str) -> Outcome {
        if self.report.is_empty() {
            return print_line(nothing);
        }
        print_line(&self.report)
    }
}

/// A session that a process writes to is not deleted, and neither is anything around it.
fn refuse_if_used(transcript: &Path) -> Result<(), CliError> {
    let holder = lathe_session::writer::holder(transcript).or_failure()?;
    match holder {
        None => Ok(()),
        Some(pid) => {
            let by = pid.map_or_else(String::new, |pid| format!(" (PID {pid})"));
            Err(CliError::failure(format!(
                "{} is in use by another process{by}",
                transcript.display()
            ))
            .hint("end that session first; nothing was deleted"))
        }
    }
}
