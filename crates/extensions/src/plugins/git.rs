//! Fetching with git's own command line, told to do nothing but fetch: no prompts, no hooks, no
//! filters, no submodules, no helpers that run programs, one commit deep.

use super::source::{check_git_address, without_secret};
use super::{PluginError, plain};
use lathe_settings::Environment;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

/// How long one fetch may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How much of git's complaints is kept.
const LOUDEST: u64 = 64 * 1024;

/// What to fetch.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The repository's address.
    pub url: &'a str,
    /// A branch or tag; `None` is the default branch.
    pub reference: Option<&'a str>,
    /// The commit that must come.
    pub commit: Option<&'a str>,
}

/// Fetches a repository into an empty folder and returns the commit.
///
/// # Errors
/// When git isn't there, fails, takes too long, or brings another commit than the one wanted.
pub async fn fetch(
    wanted: Wanted<'_>,
    to: &Path,
    environment: &Environment,
) -> Result<String, PluginError> {
    let what = without_secret(wanted.url);
    let failed = |why: String| PluginError::Fetch {
        what: what.clone(),
        why,
    };
    check_git_address(wanted.url).map_err(|why| PluginError::refused(&what, why))?;
    std::fs::create_dir_all(to).map_err(PluginError::io(to))?;
    let git = Git {
        folder: to,
        environment,
    };
    git.run(&["init", "--quiet", "--template="])
        .await
        .map_err(failed)?;
    let failed = |why: String| PluginError::Fetch {
        what: what.clone(),
        why,
    };
    let revision = wanted.commit.or(wanted.reference).unwrap_or("HEAD");
    let shallow = git.get(wanted.url, &["--depth=1"], revision).await;
    match (shallow, wanted.commit) {
        (Ok(()), _) => {
            git.run(&["checkout", "--quiet", "--detach", "FETCH_HEAD"])
                .await
                .map_err(failed)?;
        }
        // Not every server gives a commit by its id.
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
                .map_err(|_| PluginError::Fetch {
                    what: what.clone(),
                    why: format!("it has no commit {commit}"),
                })?;
        }
        (Err(why), None) => return Err(failed(why)),
    }
    let failed = |why: String| PluginError::Fetch {
        what: what.clone(),
        why,
    };
    let commit = git.run(&["rev-parse", "HEAD"]).await.map_err(failed)?;
    let commit = commit.trim().to_owned();
    if let Some(wanted) = wanted.commit
        && !commit.eq_ignore_ascii_case(wanted)
    {
        return Err(PluginError::refused(
            what,
            format!("the commit {wanted} was wanted and {commit} came"),
        ));
    }
    Ok(commit)
}

struct Git<'a> {
    folder: &'a Path,
    environment: &'a Environment,
}

impl Git<'_> {
    async fn get(&self, url: &str, options: &[&str], revision: &str) -> Result<(), String> {
        let mut arguments = vec!["fetch", "--quiet", "--no-recurse-submodules"];
        arguments.extend(options);
        arguments.extend(["--", url, revision]);
        self.run(&arguments).await.map(|_| ())
    }

    /// Runs git and returns what it prints.
    async fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        command
            .env_clear()
            .envs(&self.environment.variables)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_LFS_SKIP_SMUDGE", "1")
            .env("GIT_ASKPASS", "true")
            .env("SSH_ASKPASS", "true")
            .env("LC_ALL", "C")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .args(["-c", "core.hooksPath=/dev/null"])
            .args(["-c", "core.fsmonitor=false"])
            .args(["-c", "protocol.ext.allow=never"])
            .args(["-c", "submodule.recurse=false"])
            .args(["-c", "advice.detachedHead=false"])
            .args(arguments)
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let unset = |name: &str| self.environment.variable(name).is_none();
        if unset("GIT_ALLOW_PROTOCOL") {
            command.env("GIT_ALLOW_PROTOCOL", "https:http:ssh:file");
        }
        if unset("GIT_SSH_COMMAND") && unset("GIT_SSH") {
            command.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        }
        let mut child = command.spawn().map_err(|error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                "git is not installed, or not on the PATH".to_owned()
            } else {
                format!("git can't be started: {error}")
            }
        })?;
        let group = Group(child.id());
        let mut out = child.stdout.take();
        let mut complaints = child.stderr.take();
        let work = async {
            let mut printed = Vec::new();
            let mut complained = Vec::new();
            let read_out = async {
                if let Some(out) = &mut out {
                    let _ = out.take(LOUDEST).read_to_end(&mut printed).await;
                }
            };
            let read_complaints = async {
                if let Some(complaints) = &mut complaints {
                    let _ = complaints.take(LOUDEST).read_to_end(&mut complained).await;
                }
            };
            tokio::join!(read_out, read_complaints);
            (child.wait().await, printed, complained)
        };
        let Ok((status, printed, complained)) = tokio::time::timeout(PATIENCE, work).await else {
            return Err(format!("git took longer than {} s", PATIENCE.as_secs()));
        };
        group.ended();
        let status = status.map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(String::from_utf8_lossy(&printed).into_owned());
        }
        Err(complaint(&String::from_utf8_lossy(&complained)))
    }
}

/// Ends git and whatever it started, unless it ended by itself.
struct Group(Option<u32>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0.and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

/// What git says, in a line, with what to do about it.
fn complaint(text: &str) -> String {
    let line = text
        .lines()
        .rev()
        .find(|line| line.starts_with("fatal:") || line.starts_with("error:"))
        .or_else(|| text.lines().rev().find(|line| !line.trim().is_empty()))
        .unwrap_or("git failed without a word");
    let line = line
        .trim_start_matches("fatal: ")
        .trim_start_matches("error: ");
    let hint = if text.contains("could not read Username")
        || text.contains("Authentication failed")
        || text.contains("Permission denied (publickey")
    {
        ". It doesn't exist, or needs a log-in that git has: try `git ls-remote` with that address"
    } else {
        ""
    };
    format!("{}{hint}", plain(line, 300))
}
