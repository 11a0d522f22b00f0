//! The last safety net: what happens to running commands when this process is killed outright.
//!
//! A parent-death signal reaches the shell but not what the shell started. So one small `sh` waits,
//! in a group of its own, on a pipe that only this process holds open. When the pipe closes
//! without [`dismiss`] having been called, this process is dead, and the guard kills every process
//! that carries its marker.

use super::family::{MARKER_VARIABLE, process_marker};
use std::process::{Child, Command, Stdio};
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
    /// It could not be started, or has been sent away.
    Absent,
}

static GUARD: Mutex<State> = Mutex::new(State::NotStarted);

/// Starts the guard unless there is one. Failing to is no reason to fail a command.
pub(super) fn ensure_running() {
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
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "lathe-guard", &needle])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // A terminal's Ctrl-C goes to the terminal's foreground group; the guard must outlive it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn()
}

/// Sends the guard away: everything has been swept already.
pub(super) fn dismiss() {
    let mut state = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    if let State::Running(mut child) = std::mem::replace(&mut *state, State::NotStarted) {
        // It may have ended by itself; either way it is reaped here.
        drop(child.kill());
        drop(child.wait());
    }
}
