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
use lathe_process::{Command, Running};
use lathe_settings::{Environment, environment};
use std::process::ExitStatus;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

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
    let mut running = start(program, environment)?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (
        running.stdin.take(),
        running.stdout.take(),
        running.stderr.take(),
    ) else {
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
        let status = supervise(&mut running, writing, reading).await;
        // Its last words may still be in the pipe. A grandchild that holds it open isn't waited for.
        let _ = tokio::time::timeout(FAREWELL, errors).await;
        ending.because(status);
        drop(running);
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

fn start(program: &Program, environment: &Environment) -> Result<Running, McpError> {
    let folder = program
        .cwd
        .as_ref()
        .map_or_else(|| environment.cwd.clone(), |cwd| environment.cwd.join(cwd));
    let command = Command::new(&program.command)
        .arguments(&program.args)
        .without_inherited_environment()
        .variables(inherited(environment))
        .variables(&program.env)
        .directory(&folder);
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
    running: &mut Running,
    writing: tokio::task::JoinHandle<()>,
    reading: tokio::task::JoinHandle<()>,
) -> String {
    let mut writing = writing;
    let status = tokio::select! {
        status = running.wait() => Some(status),
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
            let status = farewell(running).await;
            reading.abort();
            status
        }
    };
    running.kill();
    match status {
        Ok(status) => describe(status),
        Err(error) => format!("it can't be waited for: {error}"),
    }
}

async fn farewell(running: &mut Running) -> std::io::Result<ExitStatus> {
    if let Ok(status) = tokio::time::timeout(FAREWELL, running.wait()).await {
        return status;
    }
    running.end(FAREWELL / 2).await
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
