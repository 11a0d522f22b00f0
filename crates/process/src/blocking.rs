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
        let _ = sender.send(complete(&mut child, stdin));
    });
    let finished = finished.recv_timeout(limit);
    if finished.is_err() {
        group.signal(Signal::SIGKILL);
    }
    group.release();
    Ok(finished.unwrap_or_else(|_| Finished {
        ending: Ending::TimedOut,
        stdout: String::new(),
        stderr: String::new(),
    }))
}

fn complete(child: &mut Child, stdin: Vec<u8>) -> Finished {
    let (pipe, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that doesn't read its input closes the pipe.
            pipe.map(|mut pipe| pipe.write_all(&stdin))
        });
        let stderr = scope.spawn(move || read(stderr));
        let stdout = read(stdout);
        let stderr = stderr.join().unwrap_or_default();
        let ending = match child.wait().map(|status| status.code()) {
            Ok(Some(code)) => Ending::Exited(code),
            Ok(None) | Err(_) => Ending::Signalled,
        };
        Finished {
            ending,
            stdout,
            stderr,
        }
    })
}

/// Reads to the end, and keeps the beginning.
fn read(pipe: Option<impl Read>) -> String {
    let mut kept = Vec::new();
    if let Some(mut pipe) = pipe {
        let limit = KEPT_BYTES as u64;
        // What can't be read any more is at its end.
        let _ = pipe.by_ref().take(limit).read_to_end(&mut kept);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    }
    String::from_utf8_lossy(&kept).into_owned()
}
