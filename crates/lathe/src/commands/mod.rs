//! The subcommands. Each parses its arguments, calls the crate that does the work, and prints the result.

pub(crate) mod agents;
pub(crate) mod attach;
pub(crate) mod board;
pub(crate) mod browser;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod debug;
pub(crate) mod doctor;
pub(crate) mod eval;
mod extensions;
pub(crate) mod fleet;
pub(crate) mod hooks;
pub(crate) mod hosts;
pub(crate) mod import;
pub(crate) mod mcp;
pub(crate) mod mcp_probe;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod permissions;
pub(crate) mod plugin;
pub(crate) mod purge;
mod recording;
pub(crate) mod relay;
pub(crate) mod replay;
pub(crate) mod review;
pub(crate) mod sandbox;
mod scripted;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod skills;
pub(crate) mod suggest;
pub(crate) mod teleport;
pub(crate) mod update;
pub(crate) mod workflow;

use crate::arguments::Scope;
use crate::error::{CliError, Kinded as _, Outcome};
use crate::options::setting_sources;
use lathe_headless::exit::Exit;
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, LoadOptions, Places, Source};
use std::io::Write as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled by SIGINT or SIGTERM, for commands that run until then.
fn stopped_by_signals() -> Result<CancellationToken, CliError> {
    let mut interrupt = signal(SignalKind::interrupt()).or_failure()?;
    let mut terminate = signal(SignalKind::terminate()).or_failure()?;
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    lathe_spawn::task(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        stopping.cancel();
    });
    Ok(stop)
}

/// Prints a text. A reader that closed the pipe is no failure.
fn print(text: &str) -> Outcome {
    print_bytes(text.as_bytes())
}

/// Prints bytes. A reader that closed the pipe is no failure.
pub(crate) fn print_bytes(bytes: &[u8]) -> Outcome {
    let mut out = lathe_headless::output::Terminal::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::failure(
            format!("standard output can't be written: {error}"),
        )),
        _ => Ok(Exit::Success),
    }
}

/// Prints a text and ends the last line.
fn print_line(text: &str) -> Outcome {
    if text.is_empty() || text.ends_with('\n') {
        print(text)
    } else {
        print(&format!("{text}\n"))
    }
}

/// Success, or failure where a check found something wrong that was printed already.
pub(crate) fn exit_if(healthy: bool) -> Exit {
    if healthy {
        Exit::Success
    } else {
        Exit::Failure
    }
}

/// Opens a file in the user's editor and waits until it is closed.
fn open_editor(editor: &str, file: &std::path::Path) -> Outcome {
    // Through a shell: EDITOR may hold arguments ("code --wait").
    let status = lathe_process::Command::new("sh")
        .arguments(["-c", &format!("{editor} \"$1\""), "sh"])
        .argument(file)
        .foreground()
        .map_err(|error| {
            CliError::failure(format!("the editor `{editor}` can't be started: {error}"))
                .hint("set EDITOR")
        })?;
    if status.success() {
        return Ok(Exit::Success);
    }
    Err(CliError::failure(format!(
        "the editor `{editor}` failed ({status})"
    )))
}

/// The paths of an environment, with the working folder resolved.
pub(crate) fn places(mut environment: Environment) -> Places {
    if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    Places::new(environment)
}

/// Load options of a subcommand: the project's settings apply if the folder is trusted.
pub(crate) fn load_options(
    places: &Places,
    flags: &[String],
    sources: Option<Vec<Source>>,
) -> LoadOptions {
    LoadOptions {
        flags: flags.to_vec(),
        managed_flags: Vec::new(),
        sources,
        trust: TrustStore::new(places).trust(&places.project),
    }
}

impl From<Scope> for Source {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::User => Self::User,
            Scope::Project => Self::Project,
            Scope::Local => Self::Local,
        }
    }
}
