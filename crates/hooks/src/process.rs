//! Runs one foreign process so that nothing it does can stall or harm the one who waits.
//!
//! It gets its own process group, its input is written while its output is read, what it prints is
//! bounded, and it has a deadline. When the deadline comes, or the run is cancelled or dropped, the
//! whole group is told to end and then made to. A child that it leaves behind may keep the pipe open
//! for ever: reading stops shortly after the process itself has ended.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How much of each stream is kept.
pub const KEPT_BYTES: usize = 1024 * 1024;
/// A process that prints more than this is out of control and is ended.
pub const FLOOD_BYTES: u64 = 64 * 1024 * 1024;
/// How long a process may take to end after it was asked to.
const ENDING_TIME: Duration = Duration::from_secs(2);
/// How long its output is read after it has ended, when something still holds the pipe.
const DRAIN_TIME: Duration = Duration::from_millis(250);

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A line for the shell.
    Shell {
        /// The line.
        line: String,
        /// The shell; `None` is bash where there is one, else sh.
        shell: Option<String>,
    },
    /// A program with its arguments, without a shell.
    Direct {
        /// The program.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

/// A process to run.
#[derive(Debug, Clone)]
pub struct Job {
    /// What is run.
    pub program: Program,
    /// Where.
    pub cwd: PathBuf,
    /// Variables beside the ones that this process has.
    pub environment: BTreeMap<String, String>,
    /// What it reads on stdin.
    pub stdin: Vec<u8>,
    /// When it must have ended. It may be moved while the process runs.
    pub deadline: watch::Receiver<Instant>,
    /// Ends it early.
    pub cancel: CancellationToken,
    /// Gets the first complete line of stdout as soon as it is there.
    pub first_line: Option<mpsc::UnboundedSender<String>>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that somebody else sent, or its own fault.
    Signalled,
    /// It had too much time.
    TimedOut,
    /// It printed too much.
    Flooded,
    /// It was cancelled.
    Cancelled,
}

/// What a process left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Its output, at most [`KEPT_BYTES`].
    pub stdout: String,
    /// Its errors, at most [`KEPT_BYTES`].
    pub stderr: String,
}

/// Why a process could not be run at all.
#[derive(Debug, thiserror::Error)]
#[error("{program} can't be started in {}: {error}", cwd.display())]
pub struct StartError {
    program: String,
    cwd: PathBuf,
    error: std::io::Error,
}

/// Ends what is left of a process group when the run is dropped half-way.
struct GroupGuard {
    group: Option<Pid>,
}

impl GroupGuard {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The group may be gone already; there is nothing to do about that.
            let _ = killpg(group, signal);
        }
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

#[derive(Default)]
struct Capture {
    kept: Vec<u8>,
    seen: u64,
}

impl Capture {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }
}

/// Runs a process to its end.
///
/// # Errors
/// When it can't be started.
pub async fn run(job: Job) -> Result<Finished, StartError> {
    let Job {
        program,
        cwd,
        environment,
        stdin,
        mut deadline,
        cancel,
        first_line,
    } = job;
    let mut command = command(&program);
    command
        .current_dir(&cwd)
        .envs(&environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| StartError {
        program: command
            .as_std()
            .get_program()
            .to_string_lossy()
            .into_owned(),
        cwd: cwd.clone(),
        error,
    })?;
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .map(Pid::from_raw);
    let mut guard = GroupGuard { group };

    let flooded = CancellationToken::new();
    let (stdout, stderr) = (Arc::default(), Arc::default());
    let writer = child.stdin.take().map(|mut pipe| {
        AbortOnDropHandle::new(lathe_spawn::task(async move {
            // A process that doesn't read its input closes the pipe; that is its right.
            let _ = pipe.write_all(&stdin).await;
            let _ = pipe.shutdown().await;
        }))
    });
    let readers: Vec<AbortOnDropHandle<()>> = [
        child
            .stdout
            .take()
            .map(|pipe| spawn_reader(pipe, Arc::clone(&stdout), flooded.clone(), first_line)),
        child
            .stderr
            .take()
            .map(|pipe| spawn_reader(pipe, Arc::clone(&stderr), flooded.clone(), None)),
    ]
    .into_iter()
    .flatten()
    .collect();

    let early = tokio::select! {
        status = child.wait() => Err(status),
        () = past(&mut deadline) => Ok(Ending::TimedOut),
        () = flooded.cancelled() => Ok(Ending::Flooded),
        () = cancel.cancelled() => Ok(Ending::Cancelled),
    };
    let ending = match early {
        Err(Ok(status)) => status.code().map_or(Ending::Signalled, Ending::Exited),
        Err(Err(_)) => Ending::Signalled,
        Ok(ending) => {
            end_group(&mut child, &guard).await;
            ending
        }
    };
    drop(writer);
    let drain = async {
        for reader in readers {
            let _ = reader.await;
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIME, drain).await;
    // What a hook that ended by itself leaves in the background is its own business.
    guard.group = None;
    let (stdout, stderr) = (stdout.lock().text(), stderr.lock().text());
    Ok(Finished {
        ending,
        stdout,
        stderr,
    })
}

fn command(program: &Program) -> Command {
    match program {
        Program::Shell { line, shell } => {
            let mut command =
                Command::new(shell.as_ref().map_or_else(default_shell, OsString::from));
            command.arg("-c").arg(line);
            command
        }
        Program::Direct { program, arguments } => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
    }
}

/// bash where there is one: most commands that people write assume it.
fn default_shell() -> OsString {
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]
        .into_iter()
        .find(|path| std::path::Path::new(path).exists())
        .unwrap_or("/bin/sh")
        .into()
}

async fn past(deadline: &mut watch::Receiver<Instant>) {
    loop {
        let until = *deadline.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(until) => return,
            changed = deadline.changed() => {
                if changed.is_err() {
                    // Nobody can move it any more.
                    tokio::time::sleep_until(until).await;
                    return;
                }
            }
        }
    }
}

async fn end_group(child: &mut Child, guard: &GroupGuard) {
    guard.signal(Signal::SIGTERM);
    let ended = tokio::time::timeout(ENDING_TIME, child.wait())
        .await
        .is_ok();
    guard.signal(Signal::SIGKILL);
    if !ended {
        let _ = child.wait().await;
    }
}

fn spawn_reader(
    mut pipe: impl AsyncRead + Unpin + Send + 'static,
    capture: Arc<Mutex<Capture>>,
    flooded: CancellationToken,
    mut first_line: Option<mpsc::UnboundedSender<String>>,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(lathe_spawn::task(async move {
        let mut buffer = vec![0_u8; 16 * 1024];
        loop {
            match pipe.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let mut capture = capture.lock();
                    let room = KEPT_BYTES.saturating_sub(capture.kept.len());
                    capture.kept.extend_from_slice(&buffer[..count.min(room)]);
                    capture.seen += count as u64;
                    if capture.seen > FLOOD_BYTES {
                        flooded.cancel();
                        return;
                    }
                    if first_line.is_some()
                        && let Some(end) = capture.kept.iter().position(|byte| *byte == b'\n')
                        && let Some(sender) = first_line.take()
                    {
                        let _ =
                            sender.send(String::from_utf8_lossy(&capture.kept[..end]).into_owned());
                    }
                }
            }
        }
    }))
}
