//! Running a program from a thread that may wait.

use crate::command::Command;
use crate::group::Group;
use crate::run::{Ending, Finished, KEPT_BYTES, StartError};
use nix::sys::signal::Signal;
use std::io::{Read, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Runs a program to its end, or kills it with everything it started after `limit`. Keeps the calling thread.
///
/// # Errors
/// If it can't be started.
pub fn run_blocking(
    command: Command,
    stdin: Vec<u8>,
    limit: Duration,
) -> Result<Finished, StartError> {
    let output = supervise(command, stdin, limit, KEPT_BYTES)?;
    Ok(Finished {
        ending: output.ending,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: output.stderr,
    })
}

/// The output of a program, also if it is not text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub ending: Ending,
    /// Its output, up to the limit.
    pub stdout: Vec<u8>,
    /// Its errors, up to the limit.
    pub stderr: String,
}

/// As [`run_blocking`], for a program that reads nothing and may print up to `kept` bytes.
///
/// # Errors
/// If it can't be started.
pub fn read_blocking(command: Command, limit: Duration, kept: usize) -> Result<Output, StartError> {
    supervise(command, Vec::new(), limit, kept)
}

fn supervise(
    command: Command,
    stdin: Vec<u8>,
    limit: Duration,
    kept: usize,
) -> Result<Output, StartError> {
    let failed = StartError::of(&command);
    let mut child = command
        .prepare()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut group = Group::new(Some(child.id()), String::new());
    let (sender, finished) = mpsc::channel();
    // The thread also reaps a program that is killed.
    std::thread::spawn(move || {
        let _ = sender.send(complete(&mut child, stdin, kept));
    });
    let finished = finished.recv_timeout(limit);
    if finished.is_err() {
        group.signal(Signal::SIGKILL);
    }
    group.release();
    Ok(finished.unwrap_or_else(|_| Output {
        ending: Ending::TimedOut,
        stdout: Vec::new(),
        stderr: String::new(),
    }))
}

fn complete(child: &mut Child, stdin: Vec<u8>, kept: usize) -> Output {
    let (pipe, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that doesn't read its input closes the pipe.
            pipe.map(|mut pipe| pipe.write_all(&stdin))
        });
        let stderr = scope.spawn(move || read(stderr, kept));
        let stdout = read(stdout, kept);
        let stderr = stderr.join().unwrap_or_default();
        let ending = match child.wait().map(|status| status.code()) {
            Ok(Some(code)) => Ending::Exited(code),
            Ok(None) | Err(_) => Ending::Signalled,
        };
        Output {
            ending,
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    })
}

/// Reads to the end, and keeps the beginning.
fn read(pipe: Option<impl Read>, most: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut pipe) = pipe {
        let limit = most as u64;
        // What can no longer be read is at its end.
        let _ = pipe.by_ref().take(limit).read_to_end(&mut kept);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    }
    kept
}
