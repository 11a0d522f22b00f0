//! Programs that the user uses: an editor in this terminal, a browser beside it.

use crate::command::Command;
use crate::run::StartError;
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
