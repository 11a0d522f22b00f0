//! A local program over standard input and output, one message per line.
//!
//! The program leads its own process group, which ends with the connection: its input is closed, it
//! gets a moment to exit, then the group gets SIGTERM and SIGKILL. Its standard error is always
//! read to the end, since a program blocks if it can't write it; lines on standard output that are
//! not messages are logged.

use super::{Ending, FarEnd, Link, link};
use crate::error::McpError;
use crate::limits::{FAREWELL, MESSAGE_BYTES};
use crate::log::ServerLog;
use crate::server::Program;
use lathe_process::{Command, Confine, Running};
use lathe_settings::Environment;
use std::process::ExitStatus;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// # Errors
/// If it can't be started.
pub(crate) fn connect(
    program: &Program,
    environment: &Environment,
    confine: Option<&Confine>,
    log: &ServerLog,
    ending: &Ending,
) -> Result<Link, McpError> {
    log.begin();
    let mut running = start(program, environment, confine)?;
    let (Some(stdin), Some(stdout), Some(stderr)) = (
        running.stdin.take(),
        running.stdout.take(),
        running.stderr.take(),
    ) else {
        return Err(McpError::Start(format!(
            "{}: its input and output are not available",
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
        // Its last output may still be in the pipe. Don't wait for a grandchild that keeps it open.
        let _ = tokio::time::timeout(FAREWELL, errors).await;
        ending.because(status);
        drop(running);
        ending.is_gone();
    });
    Ok(near)
}

fn start(
    program: &Program,
    environment: &Environment,
    confine: Option<&Confine>,
) -> Result<Running, McpError> {
    let folder = program
        .cwd
        .as_ref()
        .map_or_else(|| environment.cwd.clone(), |cwd| environment.cwd.join(cwd));
    let command = Command::new(&program.command)
        .arguments(&program.args)
        .without_inherited_environment()
        .variables(environment.without_secrets())
        .directory(&folder);
    let name = &program.command;
    let command = match confine {
        Some(confine) if program.sandbox => confine(command)
            .map_err(|error| McpError::Start(format!("{name} can't be started: {error}")))?,
        None if program.sandbox => {
            return Err(McpError::Start(format!(
                "{name} can't be started: it is to run in the sandbox, and there is none here"
            )));
        }
        _ => command,
    };
    // A server that needs one of our keys is given it by its own `env`.
    command.variables(&program.env).spawn().map_err(|error| {
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

/// Waits for the exit of the program, or for the end of the connection and then ends the program.
async fn supervise(
    running: &mut Running,
    writing: tokio::task::JoinHandle<()>,
    reading: tokio::task::JoinHandle<()>,
) -> String {
    let mut writing = writing;
    let status = tokio::select! {
        status = running.wait() => Some(status),
        // The near end was dropped, and with it the program's input.
        _ = &mut writing => None,
    };
    let status = match status {
        Some(status) => {
            // Read the output from before its exit.
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
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
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
            .map_err(|error| super::SendError(format!("its input is closed ({error})")));
        let failed = sent.is_err();
        let _ = message.sent.send(sent);
        if failed {
            // The exit status is the reason, which other senders get.
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
        // A program that floods must not starve other tasks.
        tokio::task::yield_now().await;
    }
}
