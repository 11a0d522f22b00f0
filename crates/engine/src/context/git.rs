//! What git says about the working folder, for the model: a short status and the last commits.
//!
//! Asking git takes longer than a first request may wait, so it is asked beside everything else. What
//! is there when a request is put together goes with it; otherwise it comes with a later one. A folder
//! that nobody trusts is not asked about: a repository's own configuration can run programs.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

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
    let both = async {
        tokio::join!(
            ask(folder, &["status", "--short", "--branch"]),
            ask(folder, &["log", "--oneline", "--no-decorate", "-n", "5"])
        )
    };
    let (status, commits) = tokio::time::timeout(LIMIT, both).await.ok()?;
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

/// What git answers; `None` when it fails. No program that the repository names is run for it.
pub(crate) async fn ask(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        // No program that the repository names: neither a monitor nor a pager nor a hook.
        .args([
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.hooksPath=/dev/null",
            "--no-pager",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
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
    async fn no_program_that_the_repository_names_is_run() {
        let folder = tempfile::tempdir().unwrap();
        let ran = folder.path().join("ran");
        let monitor = format!("touch {} #", ran.display());
        ask(folder.path(), &["init", "-q"]).await.unwrap();
        ask(folder.path(), &["config", "core.fsmonitor", &monitor])
            .await
            .unwrap();
        std::fs::write(folder.path().join("a"), "x").unwrap();
        assert!(ask(folder.path(), &["add", "a"]).await.is_some());
        assert!(ask(folder.path(), &["status", "--short"]).await.is_some());
        assert!(!ran.exists(), "the monitor was run");
    }

    #[tokio::test]
    async fn a_folder_without_a_repository_has_no_state() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(state(folder.path()).await, None);
    }
}
