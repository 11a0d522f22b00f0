//! The file into which SessionStart hooks write variables for later shell commands.
//!
//! Hooks append lines such as `export PATH="$PATH:/opt/tool"`. Only a shell can interpret those, so a
//! shell reads the file once, and later commands get the variables that it changed.

use lathe_process::{self as process, Command, Ending, Job};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Variables that a shell sets by itself.
const SHELL_OWN: &[&str] = &[
    "_",
    "SHLVL",
    "PWD",
    "OLDPWD",
    "BASHOPTS",
    "SHELLOPTS",
    "LATHE_ENV_FILE",
    "CLAUDE_ENV_FILE",
];
/// The time limit for reading the file.
const LIMIT: Duration = Duration::from_secs(10);

/// An environment file that has no effect.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentFileError {
    /// It can't be read.
    #[error("{} can't be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No shell can be started.
    #[error(transparent)]
    Shell(#[from] process::StartError),
    /// The shell that reads it failed.
    #[error("{} was not read: {reason}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The first line of its standard error.
        reason: String,
    },
}

/// Reads the file: the variables that it sets or changes, over `base` and this process's own.
///
/// # Errors
/// When a shell can't read it.
pub async fn evaluate(
    file: &Path,
    cwd: &Path,
    base: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, EnvironmentFileError> {
    let failed = |reason: &str| EnvironmentFileError::Failed {
        path: file.to_owned(),
        reason: reason.to_owned(),
    };
    match std::fs::metadata(file) {
        Ok(metadata) if metadata.len() > 0 => {}
        Ok(_) => return Ok(BTreeMap::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => {
            return Err(EnvironmentFileError::Read {
                path: file.to_owned(),
                source,
            });
        }
    }
    let mut environment = base.clone();
    environment.insert("LATHE_ENV_FILE".into(), file.to_string_lossy().into_owned());
    let line = r#"env -0; printf '\1\0'; set -a; . "$LATHE_ENV_FILE" >/dev/null || exit 1; env -0; printf '\1\0'"#;
    let command = Command::shell(line, None)
        .directory(cwd)
        .variables(environment);
    let finished = process::run(Job::new(command, LIMIT)).await?;
    if finished.ending != Ending::Exited(0) {
        let mut lines = finished.stderr.lines();
        return Err(failed(lines.next().unwrap_or("a command in it failed")));
    }
    let mut parts = finished.stdout.split("\u{1}\0");
    let (Some(before), Some(after), Some("")) = (parts.next(), parts.next(), parts.next()) else {
        return Err(failed("it ended the shell"));
    };
    let before = variables(before);
    Ok(variables(after)
        .into_iter()
        .filter(|(name, value)| before.get(name) != Some(value) && !SHELL_OWN.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

fn variables(text: &str) -> BTreeMap<&str, &str> {
    text.split('\0')
        .filter_map(|entry| entry.split_once('='))
        .collect()
}
