//! Fetches with the git command line, restricted to fetching: no prompts, no hooks, no filters, no
//! submodules, no helpers that run programs, one commit deep.

use super::source::{check_git_address, without_secret};
use super::{PluginError, plain};
use lathe_process::{Command, Ending, Job};
use lathe_settings::Environment;
use std::path::Path;
use std::time::Duration;

/// The time limit of one fetch.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Why a git command failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed, or not on the PATH")]
    NotInstalled,
    #[error("git can't be started: {}", .0.reason())]
    Start(#[source] lathe_process::StartError),
    #[error("git took longer than {} s", TIMEOUT.as_secs())]
    Timeout,
    /// git's own message.
    #[error("{0}")]
    Failed(String),
    #[error("it has no commit {0}")]
    NoSuchCommit(String),
}

/// The repository and revision to fetch.
#[derive(Debug, Clone, Copy)]
pub struct Revision<'a> {
    /// The repository's address.
    pub url: &'a str,
    /// A branch or tag; `None` is the default branch.
    pub reference: Option<&'a str>,
    /// The exact commit.
    pub commit: Option<&'a str>,
}

/// Fetches a repository into an empty folder and returns the commit.
///
/// # Errors
/// If git is not installed, fails or times out, or if another commit is received than requested.
pub async fn fetch(
    wanted: Revision<'_>,
    to: &Path,
    environment: &Environment,
) -> Result<String, PluginError> {
    let what = without_secret(wanted.url);
    let failed = |error: GitError| PluginError::fetch(&what, error);
    check_git_address(wanted.url).map_err(|why| PluginError::refused(&what, why))?;
    std::fs::create_dir_all(to).map_err(PluginError::io(to))?;
    let git = Git {
        folder: to,
        environment,
    };
    git.run(&["init", "--quiet", "--template="])
        .await
        .map_err(failed)?;
    let failed = |error: GitError| PluginError::fetch(&what, error);
    let revision = wanted.commit.or(wanted.reference).unwrap_or("HEAD");
    let shallow = git.get(wanted.url, &["--depth=1"], revision).await;
    match (shallow, wanted.commit) {
        (Ok(()), _) => {
            git.run(&["checkout", "--quiet", "--detach", "FETCH_HEAD"])
                .await
                .map_err(failed)?;
        }
        // Not every server allows fetching a commit by its id.
        (Err(_), Some(commit)) => {
            git.get(
                wanted.url,
                &["--tags"],
                "+refs/heads/*:refs/remotes/origin/*",
            )
            .await
            .map_err(failed)?;
            git.run(&["checkout", "--quiet", "--detach", commit])
                .await
                .map_err(|_| failed(GitError::NoSuchCommit(commit.to_owned())))?;
        }
        (Err(error), None) => return Err(failed(error)),
    }
    let failed = |error: GitError| PluginError::fetch(&what, error);
    let commit = git.run(&["rev-parse", "HEAD"]).await.map_err(failed)?;
    let commit = commit.trim().to_owned();
    if let Some(wanted) = wanted.commit
        && !commit.eq_ignore_ascii_case(wanted)
    {
        return Err(PluginError::refused(
            what,
            format!("commit {wanted} was requested, but {commit} was received"),
        ));
    }
    Ok(commit)
}

struct Git<'a> {
    folder: &'a Path,
    environment: &'a Environment,
}

impl Git<'_> {
    async fn get(&self, url: &str, options: &[&str], revision: &str) -> Result<(), GitError> {
        let mut arguments = vec!["fetch", "--quiet", "--no-recurse-submodules"];
        arguments.extend(options);
        arguments.extend(["--", url, revision]);
        self.run(&arguments).await.map(|_| ())
    }

    /// Runs git and returns its standard output.
    async fn run(&self, arguments: &[&str]) -> Result<String, GitError> {
        let mut command = Command::new("git")
            .without_inherited_environment()
            .variables(&self.environment.variables)
            .variable("GIT_TERMINAL_PROMPT", "0")
            .variable("GIT_OPTIONAL_LOCKS", "0")
            .variable("GIT_LFS_SKIP_SMUDGE", "1")
            .variable("GIT_ASKPASS", "true")
            .variable("SSH_ASKPASS", "true")
            .variable("LC_ALL", "C")
            .without_variable("GIT_DIR")
            .without_variable("GIT_WORK_TREE")
            .without_variable("GIT_INDEX_FILE")
            .arguments(["-c", "core.hooksPath=/dev/null"])
            .arguments(["-c", "core.fsmonitor=false"])
            .arguments(["-c", "protocol.ext.allow=never"])
            .arguments(["-c", "submodule.recurse=false"])
            .arguments(["-c", "advice.detachedHead=false"])
            .arguments(arguments)
            .directory(self.folder);
        let unset = |name: &str| self.environment.foreign(name).is_none();
        if unset("GIT_ALLOW_PROTOCOL") {
            command = command.variable("GIT_ALLOW_PROTOCOL", "https:http:ssh:file");
        }
        if unset("GIT_SSH_COMMAND") && unset("GIT_SSH") {
            command = command.variable("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        }
        let finished = lathe_process::run(Job::new(command, TIMEOUT))
            .await
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => GitError::NotInstalled,
                _ => GitError::Start(error),
            })?;
        match finished.ending {
            Ending::Exited(0) => Ok(finished.stdout),
            Ending::TimedOut => Err(GitError::Timeout),
            _ => Err(GitError::Failed(message(&finished.stderr))),
        }
    }
}

/// git's error message in one line, with a hint.
fn message(text: &str) -> String {
    let line = text
        .lines()
        .rev()
        .find(|line| line.starts_with("fatal:") || line.starts_with("error:"))
        .or_else(|| text.lines().rev().find(|line| !line.trim().is_empty()))
        .unwrap_or("git failed without a message");
    let line = line
        .trim_start_matches("fatal: ")
        .trim_start_matches("error: ");
    let hint = if text.contains("could not read Username")
        || text.contains("Authentication failed")
        || text.contains("Permission denied (publickey")
    {
        ". It doesn't exist, or git needs credentials for it: try `git ls-remote` with that address"
    } else {
        ""
    };
    format!("{}{hint}", plain(line, 300))
}
