//! Programs that the user uses: an editor in this terminal, a browser beside it, and what stays behind of a command
//! that the user keeps.

use crate::command::Command;
use crate::run::StartError;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};

impl Command {
    /// Runs a program that has the terminal to itself, and waits for its end. It stays in the process group of
    /// this process, which is the one that the terminal listens to.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn foreground(self) -> Result<ExitStatus, StartError> {
        let failed = StartError::of(&self);
        self.plain()
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit())
            .status()
            .map_err(failed)
    }

    /// Starts a program of the desktop, such as a browser, without a connection to this process. It may run for
    /// longer than this process; a thread waits for it, so that no dead process is left.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn launch(self) -> Result<(), StartError> {
        let failed = StartError::of(&self);
        let mut child = self
            .prepare()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}

/// Has what comes out of a pipe written to a file from now on, also after the end of this process: the programs that
/// write to it must not find it closed.
///
/// # Errors
/// If `cat` can't be started.
pub fn write_on(from: OwnedFd, to: File) -> Result<(), StartError> {
    let command = Command::new("/bin/cat")
        .without_inherited_environment()
        .directory("/");
    let failed = StartError::of(&command);
    let mut child = command
        .prepare()
        .stdin(Stdio::from(from))
        .stdout(Stdio::from(to))
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    std::thread::spawn(move || child.wait());
    Ok(())
}
