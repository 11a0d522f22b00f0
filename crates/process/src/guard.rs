//! Ends running commands when this process is killed outright.
//!
//! A parent-death signal reaches the shell but not what the shell started. So one small `sh` waits,
//! in a group of its own, on a pipe that only this process holds open. When the pipe closes
//! without [`dismiss`] having been called, this process is dead, and the guard kills every process
//! that carries its marker.

use crate::command::Command;
use crate::family::{MARKER_VARIABLE, process_marker};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

/// Waits for the pipe's end, then kills by marker until nothing is found.
const SCRIPT: &str = r#"while read -r _; do :; done
for round in 1 2 3 4 5; do
  found=
  for file in $(grep -ls -- "$1" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}
    kill -9 "${pid%/environ}" 2>/dev/null && found=1
  done
  [ -n "$found" ] || exit 0
done"#;

enum State {
    NotStarted,
    Running(Child),
    /// It could not be started.
    Absent,
}

static GUARD: Mutex<State> = Mutex::new(State::NotStarted);

/// Starts the guard unless there is one. Failing to is no reason to fail a command.
pub(crate) fn ensure_running() {
    let mut state = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    if !matches!(*state, State::NotStarted) || !cfg!(target_os = "linux") {
        return;
    }
    *state = match start() {
        Ok(child) => State::Running(child),
        Err(error) => {
            tracing::debug!(%error, "no guard process: commands may outlive a killed process");
            State::Absent
        }
    };
}

fn start() -> std::io::Result<Child> {
    let needle = format!("{MARKER_VARIABLE}={}", process_marker());
    // It has a group of its own like every command, so that a terminal's Ctrl-C doesn't end it.
    Command::new("/bin/sh")
        .arguments(["-c", SCRIPT, "lathe-guard", &needle])
        .without_inherited_environment()
        .variable("PATH", "/usr/local/bin:/usr/bin:/bin")
        .directory("/")
        .prepare()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Ends the guard: everything has been swept already.
pub(crate) fn dismiss() {
    let mut state = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    if let State::Running(mut child) = std::mem::replace(&mut *state, State::NotStarted) {
        // It may have ended by itself; either way it is reaped here.
        drop(child.kill());
        drop(child.wait());
    }
}
