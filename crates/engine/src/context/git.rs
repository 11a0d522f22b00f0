//! The git that Lathe itself runs, and the status that it shows to the model.
//!
//! A repository's own configuration can run programs, so there is a [`Git`] only for a repository that the user
//! trusted. In other folders the branch is read from git's files and the rest is not shown.
//!
//! Asking git takes longer than a first request may wait, so it is asked beside everything else. What
//! is there when a request is put together goes with it; otherwise it comes with a later one.

use lathe_permissions::PermissionContext;
use lathe_permissions::repository::{NotTrusted, TrustedRepository};
use lathe_process::{Command, Ending};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Characters of the status.
const MOST_STATUS: usize = 2_000;
/// How long the status may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How much of git's output is read.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// How long any other command may take.
const LONGEST: Duration = Duration::from_secs(120);

/// The folder of the repository that a folder is in, found without asking git.
pub(crate) fn repository_of(folder: &Path) -> Option<PathBuf> {
    folder
        .ancestors()
        .find(|at| at.join(".git").exists())
        .map(Path::to_owned)
}

/// Why git gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Nobody trusted the folder.
    #[error(transparent)]
    NotTrusted(#[from] NotTrusted),
    /// git can't be started.
    #[error(transparent)]
    NotStarted(#[from] lathe_process::StartError),
    /// Lathe is about to end.
    #[error("git was interrupted")]
    Interrupted,
    /// git took too long.
    #[error("git {0} took too long")]
    TooSlow(String),
    /// The error that git printed.
    #[error("{0}")]
    Failed(String),
}

/// git in a folder of a trusted repository.
#[derive(Debug, Clone)]
pub struct Git {
    repository: TrustedRepository,
    folder: PathBuf,
}

impl Git {
    /// git in a folder.
    ///
    /// # Errors
    /// If no person trusted the repository that git would use there.
    pub fn new(context: &PermissionContext, folder: &Path) -> Result<Self, NotTrusted> {
        Ok(Self {
            repository: TrustedRepository::of(context, folder)?,
            folder: folder.to_path_buf(),
        })
    }

    /// git in another folder of the same repository.
    ///
    /// # Errors
    /// If the folder belongs to another repository.
    pub fn at(&self, folder: &Path) -> Result<Self, NotTrusted> {
        if !self.repository.holds(folder) {
            return Err(NotTrusted::OtherRepository(folder.to_path_buf()));
        }
        Ok(Self {
            repository: self.repository.clone(),
            folder: folder.to_path_buf(),
        })
    }

    /// The folder that it runs in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs git without the repository's hooks, monitor and pager, and returns its output.
    ///
    /// # Errors
    /// If git can't be started, fails, or takes too long.
    pub async fn run(&self, arguments: &[&str]) -> Result<String, GitError> {
        let command = Command::git(&self.folder)
            .arguments(["-c", "core.quotepath=false", "-c", "color.ui=false"])
            .without_variable("GIT_COMMON_DIR")
            .arguments(arguments);
        let run =
            lathe_spawn::blocking(|| lathe_process::read_blocking(command, LONGEST, MOST_BYTES));
        let output = run.await.map_err(|_| GitError::Interrupted)??;
        match output.ending {
            Ending::Exited(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Ending::TimedOut => Err(GitError::TooSlow(arguments.join(" "))),
            _ => Err(GitError::Failed(output.stderr.trim().to_owned())),
        }
    }

    /// The state of the repository in words; `None` if git fails.
    pub(crate) async fn state(&self) -> Option<String> {
        let both = async {
            tokio::join!(
                self.run(&["status", "--short", "--branch"]),
                self.run(&["log", "--oneline", "--no-decorate", "-n", "5"])
            )
        };
        let (status, commits) = tokio::time::timeout(LIMIT, both).await.ok()?;
        let name = repository_of(&self.folder)?.display().to_string();
        Some(words(&name, &status.ok()?, &commits.unwrap_or_default()))
    }
}

fn words(name: &str, status: &str, commits: &str) -> String {
    let mut shown: String = status.trim_end().chars().take(MOST_STATUS).collect();
    if shown.len() < status.trim_end().len() {
        shown.push_str("\n[more; run git status]");
    }
    let mut text =
        format!("git status of {name} at this moment; it is not updated automatically:\n{shown}");
    if !commits.trim().is_empty() {
        text.push_str("\nLast commits:\n");
        text.push_str(commits.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_status_is_cut() {
        let status = "?? file\n".repeat(1_000);
        let text = words("/w", &status, "abc First\n");
        assert!(text.len() < MOST_STATUS + 200);
        assert!(text.contains("[more; run git status]") && text.ends_with("abc First"));
    }
}
