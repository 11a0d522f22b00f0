//! Options of the manager and of calls.

use crate::auth::Browser;
use crate::server::Timeouts;
use lathe_process::Confine;
use lathe_settings::{Environment, Variable, paths};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Options for all servers of a session.
#[derive(Clone)]
pub struct Options {
    /// Time limits.
    pub timeouts: Timeouts,
    /// The client version reported to servers.
    pub client_version: String,
    /// The config home, for credentials, logs and protocol eras.
    pub home: PathBuf,
    /// The environment and working directory of local servers.
    pub environment: Environment,
    /// Opens a channel to a server inside an SDK host.
    pub in_process: Option<Arc<dyn InProcess>>,
    /// Puts the program of a server that asks for it into the sandbox; with `None` there is none.
    pub confine: Option<Confine>,
    /// Opens authorisation pages; with `None`, a server that needs one is reported as
    /// [`crate::State::NeedsAuth`].
    pub browser: Option<Arc<dyn Browser>>,
    /// The delays of reconnection to a remote server.
    pub backoff: Backoff,
    /// The minimum level of servers' log messages: `debug` … `emergency`.
    pub log_level: &'static str,
}

const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// From the environment; all messages if Lathe itself is being debugged.
fn log_level(environment: &Environment) -> &'static str {
    let wanted = environment.get(Variable::McpLogLevel).unwrap_or_default();
    let known = LEVELS
        .into_iter()
        .find(|level| wanted.trim().eq_ignore_ascii_case(level));
    known.unwrap_or(if tracing::enabled!(tracing::Level::DEBUG) {
        "debug"
    } else {
        "info"
    })
}

/// The delays of reconnection to a remote server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay before the first attempt, doubled after each.
    pub first: Duration,
    pub longest: Duration,
    pub tries: u32,
    /// When to give up, regardless of the number of attempts.
    pub give_up: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(30),
            tries: 5,
            give_up: Duration::from_secs(600),
        }
    }
}

impl Options {
    /// Default options: limits from the environment, no browser.
    #[must_use]
    pub fn new(environment: Environment, client_version: impl Into<String>) -> Self {
        Self {
            timeouts: Timeouts::of(&environment),
            client_version: client_version.into(),
            home: paths::config_home(&environment),
            log_level: log_level(&environment),
            environment,
            in_process: None,
            confine: None,
            browser: None,
            backoff: Backoff::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("timeouts", &self.timeouts)
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

/// Reaches servers that live in the process of an SDK host.
pub trait InProcess: Send + Sync {
    /// Opens a channel to the server of this name.
    ///
    /// # Errors
    /// If there is no such server.
    fn open(&self, name: &str) -> Result<MessageChannel, UnknownServer>;
}

/// An SDK host has no server of this name.
#[derive(Debug, thiserror::Error)]
#[error("there is no server {0}")]
pub struct UnknownServer(pub String);

/// A connection made of two channels of JSON-RPC messages. Closing `incoming` ends it.
#[derive(Debug)]
pub struct MessageChannel {
    pub outgoing: mpsc::Sender<Value>,
    pub incoming: mpsc::Receiver<Value>,
}

/// The progress of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub progress: f64,
    pub total: Option<f64>,
    /// Without control characters.
    pub message: Option<String>,
}

/// Options of a call.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// Receives progress; messages are dropped if it is full.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Cancels the call, as does dropping the future.
    pub cancel: CancellationToken,
    /// Overrides the configured limit.
    pub timeout: Option<Duration>,
    /// Sent along as `_meta`.
    pub meta: Option<Value>,
}

/// An entry of a list, with its server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerItem {
    pub server: String,
    /// The entry in the format of the protocol.
    pub item: Value,
}
