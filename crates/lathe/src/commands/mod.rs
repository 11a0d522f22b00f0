//! Commands that answer by themselves: no turn, no model. The work is done in the crates; here it is
//! printed.

pub(crate) mod agents;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod debug;
pub(crate) mod doctor;
mod extensions;
pub(crate) mod hooks;
pub(crate) mod mcp;
pub(crate) mod mcp_probe;
pub(crate) mod memory;
pub(crate) mod permissions;
pub(crate) mod plugin;
pub(crate) mod sessions;
pub(crate) mod skills;
pub(crate) mod suggest;

use crate::arguments::Scope;
use crate::complain;
use lathe_headless::exit::Exit;
use lathe_settings::trust_store::TrustStore;
use lathe_settings::{Environment, LoadOptions, Places, Source};
use std::fmt::Display;
use std::io::Write as _;

/// Prints a text and says whether that worked. A reader that went away is no failure.
fn print(text: &str) -> Exit {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Exit::Success,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Success,
        Err(error) => {
            complain(&format!("standard output can't be written: {error}"));
            Exit::Failure
        }
    }
}

/// Prints a text with a line end, or says what is wrong.
fn finish<E: Display>(outcome: Result<String, E>, wrong: Exit) -> Exit {
    match outcome {
        Ok(text) if text.is_empty() || text.ends_with('\n') => print(&text),
        Ok(text) => print(&format!("{text}\n")),
        Err(error) => {
            complain(&error.to_string());
            wrong
        }
    }
}

/// The places of an environment, with the working folder as a real path.
fn places(mut environment: Environment) -> Places {
    if let Ok(real) = std::fs::canonicalize(&environment.cwd) {
        environment.cwd = real;
    }
    Places::new(environment)
}

/// How a person's own commands load settings: what is trusted counts.
fn load_options(places: &Places, flags: &[String], sources: Option<Vec<Source>>) -> LoadOptions {
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
