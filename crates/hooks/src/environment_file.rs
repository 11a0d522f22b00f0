//! The file into which SessionStart hooks write variables for later shell commands.
//!
//! Hooks append lines such as `export PATH="$PATH:/opt/tool"`. What those mean only a shell knows, so
//! a shell reads the file once, and the difference it made is what later commands get.

use lathe_process::{self as process, Command, Ending, Job};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Names that a shell sets by itself and that no hook means.
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
/// The file is read within this time, or not at all.
const LIMIT: Duration = Duration::from_secs(10);

/// Reads the file: the variables that it sets or changes, over `base` and this process's own.
///
/// # Errors
/// When a shell can't read it; the text says why.
pub async fn evaluate(
    file: &Path,
    cwd: &Path,
    base: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    match std::fs::metadata(file) {
        Ok(metadata) if metadata.len() > 0 => {}
        Ok(_) => return Ok(BTreeMap::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(format!("{} can't be read: {error}", file.display())),
    }
    let mut environment = base.clone();
    environment.insert("LATHE_ENV_FILE".into(), file.to_string_lossy().into_owned());
    let line = r#"env -0; printf '\1\0'; set -a; . "$LATHE_ENV_FILE" >/dev/null || exit 1; env -0; printf '\1\0'"#;
    let command = Command::shell(line, None)
        .directory(cwd)
        .variables(environment);
    let finished = process::run(Job::new(command, LIMIT))
        .await
        .map_err(|error| error.to_string())?;
    if finished.ending != Ending::Exited(0) {
        let why = finished
            .stderr
            .lines()
            .next()
            .unwrap_or("a command in it failed")
            .to_owned();
        return Err(format!("{} was not read: {why}", file.display()));
    }
    let mut parts = finished.stdout.split("\u{1}\0");
    let (Some(before), Some(after), Some("")) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!(
            "{} was not read: it ended the shell",
            file.display()
        ));
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
