//! A local program that speaks on its standard input and output, one message a line.
//!
//! The program leads a process group of its own, and the group goes with the connection: its input
//! is closed, it gets a moment to end, then the whole group is asked to (TERM) and made to (KILL).
//! Its standard error is read to the end whatever happens, because a program that can't write it
//! stops; lines on standard output that are no messages are noise and go to the log.

use super::{Ending, FarEnd, Link, link};
use crate::error::McpError;
use crate::limits::{FAREWELL, MESSAGE_BYTES};
use crate::log::ServerLog;
use crate::server::Program;
use lathe_settings::{Environment, environment};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// Starts a program and connects to it.
///
/// # Errors
/// If it can't be started, with the way out.
pub(crate) fn connect(
    program: &Program,
    environment: &Environment,
    log: &ServerLog,
    ending: &Ending,
) -> Result<Link, McpError> {
    log.begin();
    let mut child = start(program, environment)?;
    let group = Group(child.id());
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(McpError::Start(format!(
            "{}: its input and output can't be had",
            program.command
        )));
    };
    let (near, far) = link(log.clone(), ending.clone());
    let FarEnd {
        outgoing,
        incoming,
        ending,
    } = far;
    let errors = lathe_spawn::task(drain(stderr, log.clone()));
    let reading = lathe_spawn::task(read(stdout, incoming, ending.clone()));
    let writing = lathe_spawn::task(write(stdin, outgoing));
    lathe_spawn::task(async move {
        let status = supervise(child, &group, writing, reading).await;
        // Its last words may still be in the pipe. A grandchild that holds it open isn't waited for.
        let _ = tokio::time::timeout(FAREWELL, errors).await;
        ending.because(status);
        drop(group);
        ending.is_gone();
    });
    Ok(near)
}

/// What a program inherits: everything but the keys that are meant for us. A server that needs one of
/// them is given it by its own `env`.
fn inherited(environment: &Environment) -> impl Iterator<Item = (&String, &String)> {
    environment
        .variables
        .iter()
        .filter(|(name, _)| !environment::find(name).is_some_and(|variable| variable.secret))
}

fn start(program: &Program, environment: &Environment) -> Result<Child, McpError> {
    let folder = program
        .cwd
        .as_ref()
        .map_or_else(|| environment.cwd.clone(), |cwd| environment.cwd.join(cwd));
    let mut command = Command::new(&program.command);
    command
        .args(&program.args)
        .env_clear()
        .envs(inherited(environment))
        .envs(&program.env)
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command.spawn().map_err(|error| {
        let name = &program.command;
        McpError::Start(match error.kind() {
            std::io::ErrorKind::NotFound if !folder.is_dir() => {
                format!("{name} can't be started: there is no folder {}", folder.display())
            }
            std::io::ErrorKind::NotFound => format!(
                "{name} can't be started: there is no such program; install it or give its full path"
            ),
            _ => format!("{name} can't be started: {error}"),
        })
    })
}

/// Waits for the end: of the program itself, or of the connection, and then of the program.
async fn supervise(
    mut child: Child,
    group: &Group,
    writing: tokio::task::JoinHandle<()>,
    reading: tokio::task::JoinHandle<()>,
) -> String {
    let mut writing = writing;
    let status = tokio::select! {
        status = child.wait() => Some(status),
        // Our side was dropped: the writer is gone, and with it the program's input.
        _ = &mut writing => None,
    };
    let status = match status {
        Some(status) => {
            // What it wrote before it ended is still read.
            let _ = tokio::time::timeout(FAREWELL, reading).await;
            writing.abort();
            status
        }
        None => {
            let status = farewell(&mut child, group).await;
            reading.abort();
            status
        }
    };
    group.signal(Signal::SIGKILL);
    match status {
        Ok(status) => describe(status),
        Err(error) => format!("it can't be waited for: {error}"),
    }
}

async fn farewell(child: &mut Child, group: &Group) -> std::io::Result<ExitStatus> {
    if let Ok(status) = tokio::time::timeout(FAREWELL, child.wait()).await {
        return status;
    }
    group.signal(Signal::SIGTERM);
    if let Ok(status) = tokio::time::timeout(FAREWELL / 2, child.wait()).await {
        return status;
    }
    group.signal(Signal::SIGKILL);
    child.wait().await
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with the exit code {code}"),
        (None, Some(signal)) => format!("it was ended by the signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}

async fn write(mut stdin: ChildStdin, mut outgoing: tokio::sync::mpsc::Receiver<super::Outgoing>) {
    while let Some(message) = outgoing.recv().await {
        let mut line = message.text.into_bytes();
        line.push(b'\n');
        let sent = async {
            stdin.write_all(&line).await?;
            stdin.flush().await
        };
        let sent = sent
            .await
            .map_err(|error| format!("its input is closed ({error})"));
        let failed = sent.is_err();
        let _ = message.sent.send(sent);
        if failed {
            // The reason is in how the program ended; whoever else wants to send is told so.
            outgoing.close();
        }
    }
}

async fn read(stdout: ChildStdout, incoming: super::Incoming, ending: Ending) {
    let mut stdout = BufReader::with_capacity(64 * 1024, stdout);
    let mut line = Vec::new();
    loop {
        let available = match stdout.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(available) => available,
        };
        let (taken, ended) = match available.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (available.len(), false),
        };
        line.extend_from_slice(&available[..taken]);
        stdout.consume(taken);
        if line.len() > MESSAGE_BYTES {
            ending.because(format!(
                "it sent a message of more than {} MB",
                MESSAGE_BYTES / 1024 / 1024
            ));
            return;
        }
        if ended {
            if !incoming.text(&line).await {
                return;
            }
            line.clear();
            line.shrink_to(64 * 1024);
        }
    }
    let _ = incoming.text(&line).await;
}

async fn drain(mut stderr: ChildStderr, log: ServerLog) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        log.words(&buffer[..count]);
        // A program that floods mustn't keep everybody else from their turn.
        tokio::task::yield_now().await;
    }
}

/// A process group that doesn't outlive this value.
struct Group(Option<u32>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0.and_then(|leader| i32::try_from(leader).ok()) {
            // Nobody is left: that is what was wanted.
            let _ = killpg(Pid::from_raw(leader), signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}
