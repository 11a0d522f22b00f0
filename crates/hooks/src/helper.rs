//! Commands that settings name and that answer something: `statusLine`, `apiKeyHelper`,
//! `fileSuggestion`. They run like hooks do.

use lathe_process::{self as process, Command, Deadline, Ending, Job};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Why a helper gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// It could not be started.
    #[error("the helper `{command}` can't be started: {error}")]
    Start {
        /// The command.
        command: String,
        /// Why.
        error: process::StartError,
    },
    /// It failed.
    #[error("the helper `{command}` failed {how}{}", shown(stderr))]
    Failed {
        /// The command.
        command: String,
        /// How it ended, as text.
        how: String,
        /// Its standard error.
        stderr: String,
    },
    /// It took too long.
    #[error("the helper `{command}` took longer than {limit:?} and was stopped")]
    TimedOut {
        /// The command.
        command: String,
        /// The limit.
        limit: Duration,
    },
    /// It was cancelled.
    #[error("the helper `{command}` was cancelled")]
    Cancelled {
        /// The command.
        command: String,
    },
}

fn shown(stderr: &str) -> String {
    stderr
        .lines()
        .find(|line| !line.trim().is_empty())
        .map_or_else(String::new, |line| {
            let line: String = line.trim().chars().take(300).collect();
            format!(": {line}")
        })
}

/// Where and how a helper runs.
#[derive(Debug, Clone)]
pub struct HelperContext<'a> {
    /// The working folder.
    pub cwd: &'a Path,
    /// Variables beside the ones that this process has.
    pub environment: BTreeMap<String, String>,
    /// Variables that it doesn't get, beside those of our own keys.
    pub withheld: BTreeSet<String>,
    /// The project's folder, which the command finds as `LATHE_PROJECT_DIR` and `CLAUDE_PROJECT_DIR`.
    pub project: Option<&'a Path>,
    /// After how long it is stopped.
    pub limit: Duration,
    /// Ends it early.
    pub cancel: CancellationToken,
}

/// Runs a helper and gives what it printed, without the line break at the end.
///
/// # Errors
/// When it can't be started, fails, takes too long or is cancelled.
pub async fn run_helper(
    command: &str,
    stdin: &str,
    context: HelperContext<'_>,
) -> Result<String, HelperError> {
    let command = command.to_owned();
    let mut environment = context.environment;
    if let Some(project) = context.project {
        for name in ["LATHE_PROJECT_DIR", "CLAUDE_PROJECT_DIR"] {
            environment.insert(name.to_owned(), project.to_string_lossy().into_owned());
        }
    }
    let job = Job {
        command: lathe_settings::environment::secret_names()
            .map(str::to_owned)
            .chain(context.withheld)
            .fold(
                Command::shell(&command, None)
                    .directory(context.cwd)
                    .variables(environment),
                Command::without_variable,
            ),
        stdin: stdin.as_bytes().to_vec(),
        deadline: Deadline::At(Instant::now() + context.limit),
        cancel: context.cancel,
        first_line: None,
        output: process::OutputSoFar::default(),
    };
    let finished = match process::run(job).await {
        Ok(finished) => finished,
        Err(error) => return Err(HelperError::Start { command, error }),
    };
    match finished.ending {
        Ending::Exited(0) => Ok(finished.stdout.trim_end_matches(['\n', '\r']).to_owned()),
        Ending::Exited(code) => Err(HelperError::Failed {
            command,
            how: format!("with exit code {code}"),
            stderr: finished.stderr,
        }),
        Ending::Signalled => Err(HelperError::Failed {
            command,
            how: "by a signal".into(),
            stderr: finished.stderr,
        }),
        Ending::Flooded => Err(HelperError::Failed {
            command,
            how: "because it printed too much output".into(),
            stderr: finished.stderr,
        }),
        Ending::TimedOut => Err(HelperError::TimedOut {
            command,
            limit: context.limit,
        }),
        Ending::Cancelled => Err(HelperError::Cancelled { command }),
    }
}
