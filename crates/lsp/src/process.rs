//! The process of a server: in a group of its own that ends with it, and with what we know it by.

use crate::config::ServerConfig;
use crate::limits::LAST_WORDS;
use crate::manager::Surroundings;
use lathe_process::{Command, Running};
use lathe_settings::Environment;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// A started server.
pub(crate) struct Process {
    /// The program with its group, which ends with this.
    pub(crate) running: Running,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) words: LastWords,
    /// Ends when its standard error does.
    pub(crate) errors: tokio::task::JoinHandle<()>,
}

/// Why a server's program can't be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("there is no program {0}; install it, or give its full path in \"command\"")]
    NoProgram(String),
    #[error("{program}: {source}")]
    Spawn {
        program: String,
        source: std::io::Error,
    },
    #[error("{0}: its standard input and output are not available")]
    NoPipes(String),
    #[error(transparent)]
    Sandbox(#[from] lathe_sandbox::SandboxError),
}

/// Starts a server's program in a folder.
pub(crate) fn start(
    config: &ServerConfig,
    root: &Path,
    surroundings: &Surroundings,
) -> Result<Process, StartError> {
    let environment = &surroundings.environment;
    let name = &config.command;
    let program = find_program(name, &config.env, environment)
        .ok_or_else(|| StartError::NoProgram(name.clone()))?;
    let command = Command::new(program)
        .arguments(&config.args)
        .without_inherited_environment()
        .variables(environment.without_secrets())
        .directory(root);
    let mut running = (surroundings.confine)(command)?
        // A server that needs one of our keys is given it by its own `env`.
        .variables(&config.env)
        .spawn()
        .map_err(|source| StartError::Spawn {
            program: name.clone(),
            source,
        })?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (
        running.stdin.take(),
        running.stdout.take(),
        running.stderr.take(),
    ) else {
        return Err(StartError::NoPipes(name.clone()));
    };
    let words = LastWords::default();
    let errors = lathe_spawn::task(drain(stderr, words.clone()));
    Ok(Process {
        running,
        stdin,
        stdout,
        words,
        errors,
    })
}

/// Where a program is: a path as it is written, a name on the `PATH` that the program will have.
#[must_use]
pub fn find_program(
    command: &str,
    own: &std::collections::BTreeMap<String, String>,
    environment: &Environment,
) -> Option<PathBuf> {
    if command.is_empty() {
        return None;
    }
    if command.contains('/') {
        let path = environment.resolve(command);
        return is_program(&path).then_some(path);
    }
    let path = own
        .get("PATH")
        .or_else(|| environment.variables.get("PATH"))?;
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(command))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// How a process ended, in words.
pub(crate) fn describe(status: std::io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status.map(|status| (status.code(), status.signal())) {
        Ok((Some(code), _)) => format!("exit code {code}"),
        Ok((None, Some(signal))) => format!("signal {signal}"),
        Ok((None, None)) => "it ended".to_owned(),
        Err(error) => format!("it can't be waited for: {error}"),
    }
}

/// The end of what a server printed as errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<Vec<u8>>>);

impl LastWords {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock();
        kept.extend_from_slice(bytes);
        let surplus = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..surplus);
    }

    /// Its last line that says something, shortened.
    pub(crate) fn line(&self) -> Option<String> {
        let kept = self.0.lock();
        let text = String::from_utf8_lossy(&kept);
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        let plain = line
            .trim()
            .chars()
            .filter(|character| !character.is_control());
        Some(plain.take(300).collect())
    }
}

/// Read to the end whatever happens: a program that can't write its errors stops.
async fn drain(mut stderr: ChildStderr, words: LastWords) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        words.add(&buffer[..count]);
        tokio::task::yield_now().await;
    }
}
