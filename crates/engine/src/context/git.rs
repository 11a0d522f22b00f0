//! The state of the repository around the working folder, for the model: a short status and the last commits.
//!
//! git takes longer than a first request may wait, so it runs beside everything else. Its answer goes with the
//! first request that is made after it. It does not run in a folder that is not trusted: the configuration of a
//! repository can run programs.

use lathe_process::{Command, Ending, Job};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Characters of the status.
const MOST_STATUS: usize = 2_000;
/// How long git may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The folder of the repository that a folder is in, found without asking git.
pub(crate) fn repository_of(folder: &Path) -> Option<PathBuf> {
    folder
        .ancestors()
        .find(|at| at.join(".git").exists())
        .map(Path::to_owned)
}

/// The state of the repository that a folder is in, in words; `None` outside one.
pub(crate) async fn state(folder: &Path) -> Option<String> {
    let (status, commits) = tokio::join!(
        ask(folder, &["status", "--short", "--branch"]),
        ask(folder, &["log", "--oneline", "--no-decorate", "-n", "5"])
    );
    let name = repository_of(folder)?.display().to_string();
    Some(words(
        &name,
        &status?,
        commits.as_deref().unwrap_or_default(),
    ))
}

fn words(name: &str, status: &str, commits: &str) -> String {
    let mut shown: String = status.trim_end().chars().take(MOST_STATUS).collect();
    if shown.len() < status.trim_end().len() {
        shown.push_str("\n[more; run git status]");
    }
    let mut text =
        format!("git status of {name} at this moment; it won't be told again by itself:\n{shown}");
    if !commits.trim().is_empty() {
        text.push_str("\nLast commits:\n");
        text.push_str(commits.trim_end());
    }
    text
}

/// The output of git; `None` when it fails. No program that the repository names is run for it.
pub(crate) async fn ask(folder: &Path, arguments: &[&str]) -> Option<String> {
    let job = Job::new(Command::git(folder).arguments(arguments), LIMIT);
    let finished = lathe_process::run(job).await.ok()?;
    (finished.ending == Ending::Exited(0)).then_some(finished.stdout)
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

    #[tokio::test]
    async fn a_program_that_the_repository_names_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        ask(folder.path(), &["init", "--quiet"]).await.unwrap();
        let config = folder.path().join(".git/config");
        let ran = folder.path().join("ran");
        let text = std::fs::read_to_string(&config).unwrap();
        let monitor = format!(
            "{text}[core]\n\tfsmonitor = \"touch {}; false\"\n",
            ran.display()
        );
        std::fs::write(&config, monitor).unwrap();
        assert!(state(folder.path()).await.is_some());
        assert!(!ran.exists());
    }

    #[tokio::test]
    async fn a_folder_without_a_repository_has_no_state() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(state(folder.path()).await, None);
    }
}
