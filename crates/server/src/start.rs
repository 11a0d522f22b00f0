//! Starting sessions in the background, by the program itself.

use crate::serve::Options;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// How long the start of a session may take.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Why a session did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the program can't be run: {0}")]
    Program(#[from] lathe_process::StartError),
    #[error("the session did not start: {0}")]
    Failed(String),
}

/// Starts a session in a folder, and gives its id.
pub(crate) async fn in_background(
    options: &Options,
    folder: &Path,
    arguments: &[String],
) -> Result<String, StartError> {
    let command = lathe_process::Command::new(&options.program)
        .directory(folder)
        .arguments(["--bg", "--output-format", "json"])
        .arguments(arguments);
    let job = lathe_process::Job::new(command, START_LIMIT);
    let finished = lathe_process::run(job).await?;
    let answer: Value = serde_json::from_str(finished.stdout.trim()).unwrap_or_default();
    match answer["session_id"].as_str() {
        Some(session) => Ok(session.to_owned()),
        None => Err(StartError::Failed(finished.stderr.trim().to_owned())),
    }
}
