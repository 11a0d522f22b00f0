//! A program that runs beside us and is talked to through pipes: language servers, MCP servers.

use crate::command::{Command, Held};
use crate::family::{Family, Leader, MARKER_VARIABLE, new_marker};
use crate::live::Registration;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

impl Command {
    /// Starts the program as the leader of a process group, with pipes to its standard input, output and
    /// error.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn spawn(self) -> io::Result<Running> {
        let marker = new_marker();
        Running::start(
            self.variable(MARKER_VARIABLE, &marker),
            marker,
            Stdio::piped(),
        )
    }
}

/// A running program. Dropping it kills it, its group, and whatever below it left the group.
#[derive(Debug)]
pub struct Running {
    /// The pipe to its standard input, until it is taken.
    pub stdin: Option<ChildStdin>,
    /// The pipe from its standard output, until it is taken.
    pub stdout: Option<ChildStdout>,
    /// The pipe from its standard error, until it is taken.
    pub stderr: Option<ChildStderr>,
    child: Child,
    group: Group,
    /// The sandbox that it runs in.
    _held: Option<Held>,
}

impl Running {
    pub(crate) fn start(command: Command, marker: String, stdin: Stdio) -> io::Result<Self> {
        let held = command.held();
        let mut command = tokio::process::Command::from(command.prepare());
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            group: Group::new(child.id(), marker),
            child,
            _held: held,
        })
    }

    /// Waits for the end of the program itself. May be called again, and may be dropped while it waits.
    ///
    /// # Errors
    /// If the system can't say how it ended.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.group.leader_ended = true;
        status
    }

    /// Asks the program and everything below it to end (SIGTERM), kills what is left after `grace`, and
    /// waits for its end.
    ///
    /// # Errors
    /// If the system can't say how it ended.
    pub async fn end(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        self.group.signal(Signal::SIGTERM);
        let ended = tokio::time::timeout(grace, self.wait()).await;
        self.kill();
        match ended {
            Ok(status) => status,
            Err(_) => self.wait().await,
        }
    }

    /// Kills the program and everything below it.
    pub fn kill(&mut self) {
        self.group.signal(Signal::SIGKILL);
    }

    /// Lets go of what the program left running after its own end: it may stay.
    pub(crate) fn release(mut self) {
        self.group.release();
    }
}

/// The processes of a [`Running`] program. Kills them when it is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    family: Family,
    leader_ended: bool,
    /// `None` once nothing is to be done any more.
    registration: Option<Registration>,
}

impl Group {
    pub(crate) fn new(leader: Option<u32>, marker: String) -> Self {
        let leader = leader.map_or(0, u32::cast_signed);
        let family = Family::new(leader, marker);
        Self {
            registration: Some(Registration::new(family.clone())),
            family,
            leader_ended: false,
        }
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.leader_ended && !self.family.was_searched() {
            // The process tree is gone with its root, and most programs end in order: a look at every
            // process of the machine would hardly ever find one that the group doesn't have.
            if self.family.leader() > 1 {
                // An error means that nobody is left.
                let _ = killpg(Pid::from_raw(self.family.leader()), signal);
            }
        } else {
            self.family.signal(signal, Leader::Included);
        }
    }

    pub(crate) fn release(&mut self) {
        if let Some(registration) = self.registration.take() {
            registration.ended();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.registration.is_some() {
            self.signal(Signal::SIGKILL);
            self.release();
        }
    }
}
