//! `lathe-scripted`: the scripted model server as a program of its own.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use lathe_scripted::{Scenario, ScriptedServer};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// A model server that answers from a script and checks every request it gets.
#[derive(Debug, Parser)]
#[command(version, name = "lathe-scripted")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a scenario until SIGINT or SIGTERM; the exit code is 1 if a request was bad.
    Serve {
        /// The scenario: a JSON file such as {"replies": [{"text": "Hello"}]}.
        scenario: PathBuf,
        /// The port on 127.0.0.1; any free one by default.
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Write every request to this file, one JSON object a line.
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Command::Serve {
        scenario,
        port,
        record,
    } = Arguments::parse().command;
    match serve(scenario, port, record).await {
        Ok(code) => code,
        Err(message) => {
            // There is nothing to do if stderr is closed too.
            let _ = writeln!(io::stderr(), "lathe-scripted: {message}");
            ExitCode::from(2)
        }
    }
}

/// Why the server ended early.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Scenario(#[from] lathe_scripted::ScenarioError),
    #[error("can't write {}: {error}", path.display())]
    Record { path: PathBuf, error: io::Error },
    #[error("can't wait for signals: {0}")]
    Signals(io::Error),
    #[error("can't listen on port {port}: {error}")]
    Listen { port: u16, error: io::Error },
    #[error("can't write to stdout: {0}")]
    Output(io::Error),
    #[error("can't record a request: {0}")]
    Request(io::Error),
}

async fn serve(path: PathBuf, port: u16, record: Option<PathBuf>) -> Result<ExitCode, ServeError> {
    let scenario = Scenario::from_file(&path)?;
    let mut file = match record {
        Some(path) => match File::create(&path) {
            Ok(file) => Some(file),
            Err(error) => return Err(ServeError::Record { path, error }),
        },
        None => None,
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let server = ScriptedServer::start_on(scenario, port)
        .await
        .map_err(|error| ServeError::Listen { port, error })?;
    let mut output = io::stdout();
    writeln!(output, "listening on {}", server.base_url())
        .and_then(|()| output.flush())
        .map_err(ServeError::Output)?;

    let mut written = 0;
    loop {
        let more = tokio::select! {
            _ = interrupt.recv() => false,
            _ = terminate.recv() => false,
            () = server.wait_for_requests(written + 1) => true,
        };
        while let Some(request) = server.request(written) {
            if let Some(file) = &mut file {
                writeln!(file, "{}", request.to_json()).map_err(ServeError::Request)?;
            }
            written += 1;
        }
        if !more {
            break;
        }
    }
    let problems = server.problems();
    let notes = server
        .unused_replies()
        .into_iter()
        .map(|reply| format!("unused reply: {reply}"));
    for line in problems.iter().cloned().chain(notes) {
        let _ = writeln!(io::stderr(), "{line}");
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
