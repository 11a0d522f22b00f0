//! A terminal of our own that takes the place of the user's, for a process that continues without one.

use crate::terminal::TerminalSize;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// The other side of the terminal that this process writes to and reads from.
#[derive(Debug)]
pub struct Console {
    master: OwnedFd,
    program_side: OwnedFd,
}

impl Console {
    /// Puts a new terminal in the place of standard input and output, in a session of its own. What was there before is
    /// closed. Standard error stays, see [`Console::take_errors`].
    ///
    /// # Errors
    /// If there is no new terminal, or this process leads a process group and so can't leave its session.
    pub fn take_over(size: TerminalSize) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = openpt(flags)?;
        rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let program_side: OwnedFd = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(PathBuf::from(name.to_string_lossy().into_owned()))?
            .into();
        rustix::termios::tcsetwinsize(&master, size.into())?;
        // The session of a process that was started by `init`, or from outside its process namespace, has the id 0, which
        // rustix does not accept.
        if nix::unistd::getpid() != nix::unistd::getsid(None)? {
            nix::unistd::setsid()?;
        }
        rustix::process::ioctl_tiocsctty(&program_side)?;
        rustix::stdio::dup2_stdin(&program_side)?;
        rustix::stdio::dup2_stdout(&program_side)?;
        Ok(Self {
            master,
            program_side,
        })
    }

    /// Takes standard error over too, unless it goes to a file. The reader of a pipe would wait for its end.
    ///
    /// # Errors
    /// If it can't be replaced.
    pub fn take_errors(&self) -> io::Result<()> {
        let errors = io::stderr().as_fd().try_clone_to_owned();
        let to_file = errors.and_then(|errors| std::fs::File::from(errors).metadata());
        if !to_file.is_ok_and(|it| it.is_file()) {
            rustix::stdio::dup2_stderr(&self.program_side)?;
        }
        Ok(())
    }

    /// Waits for what this process wrote to its terminal.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(&self.master, &mut *buffer) {
                Err(rustix::io::Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Types bytes.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.master, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Changes the size; this process is told by a signal.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        Ok(rustix::termios::tcsetwinsize(&self.master, size.into())?)
    }
}
