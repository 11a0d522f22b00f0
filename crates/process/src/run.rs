//! Runs one program to its end so that nothing it does can stall or harm the caller.
//!
//! It leads its own process group, its input is written while its output is read, what it prints is
//! bounded, and it has a deadline. When the deadline comes, or the run is cancelled or dropped, the program
//! and everything below it get SIGTERM and then SIGKILL. A child that it leaves behind may keep the pipe open
//! for ever: reading stops shortly after the program itself has ended.

use crate::command::Command;
use crate::group::Running;
use parking_lot::Mutex;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How much of each stream is kept.
pub const KEPT_BYTES: usize = 1024 * 1024;
/// A program that prints more than this is out of control and is ended.
pub const FLOOD_BYTES: u64 = 64 * 1024 * 1024;
/// How long a program has between SIGTERM and SIGKILL.
const ENDING_TIME: Duration = Duration::from_secs(2);
/// How long its output is read after it has ended, when something still holds the pipe.
const DRAIN_TIME: Duration = Duration::from_millis(250);

/// A program to run to its end.
#[derive(Debug, Clone)]
pub struct Job {
    /// The program.
    pub command: Command,
    /// Its standard input.
    pub stdin: Vec<u8>,
    /// When it must have ended.
    pub deadline: Deadline,
    /// Ends it early.
    pub cancel: CancellationToken,
    /// Gets the first complete line of stdout as soon as it is there.
    pub first_line: Option<mpsc::UnboundedSender<String>>,
    /// Its output, readable while it runs.
    pub output: OutputSoFar,
}

impl Job {
    /// A program that reads nothing and may take this long.
    #[must_use]
    pub fn new(command: Command, limit: Duration) -> Self {
        Self {
            command,
            stdin: Vec::new(),
            deadline: Deadline::At(Instant::now() + limit),
            cancel: CancellationToken::new(),
            first_line: None,
            output: OutputSoFar::default(),
        }
    }
}

/// The output of a program that may still run, at most [`KEPT_BYTES`] of each stream.
#[derive(Debug, Clone, Default)]
pub struct OutputSoFar {
    stdout: Arc<Mutex<Capture>>,
    stderr: Arc<Mutex<Capture>>,
}

impl OutputSoFar {
    /// How many bytes were printed, kept or not.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.stdout.lock().seen + self.stderr.lock().seen
    }

    /// Its output.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.lock().text()
    }

    /// Its errors.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.lock().text()
    }
}

/// When a program must have ended.
#[derive(Debug, Clone)]
pub enum Deadline {
    /// At this moment.
    At(Instant),
    /// At a moment that may be moved while the program runs.
    Movable(watch::Receiver<Instant>),
}

impl Deadline {
    async fn passed(&mut self) {
        match self {
            Self::At(until) => tokio::time::sleep_until(*until).await,
            Self::Movable(deadline) => past(deadline).await,
        }
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that didn't come from here.
    Signalled,
    /// Its deadline passed.
    TimedOut,
    /// It printed too much.
    Flooded,
    /// It was cancelled.
    Cancelled,
}

/// A program that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Its output, at most [`KEPT_BYTES`].
    pub stdout: String,
    /// Its errors, at most [`KEPT_BYTES`].
    pub stderr: String,
}

/// Why a program could not be run at all.
#[derive(Debug, thiserror::Error)]
#[error("{program} can't be started{}: {source}", in_directory(directory.as_ref()))]
pub struct StartError {
    program: String,
    directory: Option<PathBuf>,
    source: io::Error,
}

impl StartError {
    /// Makes the error of a command from that of the system.
    pub(crate) fn of(command: &Command) -> impl FnOnce(io::Error) -> Self + use<> {
        let program = command.program().to_string_lossy().into_owned();
        let directory = command.working_directory().map(PathBuf::from);
        move |source| Self {
            program,
            directory,
            source,
        }
    }

    /// The kind of the system's error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// The system's error alone.
    #[must_use]
    pub fn reason(&self) -> &io::Error {
        &self.source
    }
}

fn in_directory(directory: Option<&PathBuf>) -> String {
    directory.map_or_else(String::new, |directory| {
        format!(" in {}", directory.display())
    })
}

#[derive(Debug, Default)]
struct Capture {
    kept: Vec<u8>,
    seen: u64,
}

impl Capture {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }
}

/// Runs a program to its end. What a program that ended by itself leaves in the background may stay.
///
/// # Errors
/// If it can't be started.
pub async fn run(job: Job) -> Result<Finished, StartError> {
    let Job {
        command,
        stdin,
        mut deadline,
        cancel,
        first_line,
        output,
    } = job;
    let failed = StartError::of(&command);
    let mut running = Running::start(command, String::new(), Stdio::piped()).map_err(failed)?;

    let flooded = CancellationToken::new();
    let writer = running.stdin.take().map(|mut pipe| {
        AbortOnDropHandle::new(lathe_spawn::task(async move {
            // A program that doesn't read its input closes the pipe.
            let _ = pipe.write_all(&stdin).await;
            let _ = pipe.shutdown().await;
        }))
    });
    let readers: Vec<AbortOnDropHandle<()>> = [
        running.stdout.take().map(|pipe| {
            spawn_reader(
                pipe,
                Arc::clone(&output.stdout),
                flooded.clone(),
                first_line,
            )
        }),
        running
            .stderr
            .take()
            .map(|pipe| spawn_reader(pipe, Arc::clone(&output.stderr), flooded.clone(), None)),
    ]
    .into_iter()
    .flatten()
    .collect();

    let early = tokio::select! {
        status = running.wait() => Err(status),
        () = deadline.passed() => Ok(Ending::TimedOut),
        () = flooded.cancelled() => Ok(Ending::Flooded),
        () = cancel.cancelled() => Ok(Ending::Cancelled),
    };
    let ending = match early {
        Err(Ok(status)) => status.code().map_or(Ending::Signalled, Ending::Exited),
        Err(Err(_)) => Ending::Signalled,
        Ok(ending) => {
            let _ = running.end(ENDING_TIME).await;
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
    running.release();
    Ok(Finished {
        ending,
        stdout: output.stdout(),
        stderr: output.stderr(),
    })
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
