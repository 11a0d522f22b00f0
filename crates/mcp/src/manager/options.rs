//! What the manager is told once, and what a call is told.

use crate::auth::Browser;
use crate::server::Timeouts;
use lathe_settings::{Environment, environment, paths};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What holds for all servers of a session.
#[derive(Clone)]
pub struct Options {
    /// How long things may take.
    pub timeouts: Timeouts,
    /// The version that servers are told ours is.
    pub client_version: String,
    /// The configuration folder: credentials, logs, and what servers turned out to speak.
    pub home: PathBuf,
    /// What local servers inherit, and the working folder they start in.
    pub environment: Environment,
    /// Opens a channel to a server inside an SDK host.
    pub in_process: Option<Arc<dyn InProcess>>,
    /// Who opens authorisation pages; with `None` a server that wants one is reported as
    /// [`crate::State::NeedsAuth`] and nobody waits.
    pub browser: Option<Arc<dyn Browser>>,
    /// How a lost remote server is sought again.
    pub backoff: Backoff,
    /// From which level on servers send their log: `debug` … `emergency`.
    pub log_level: &'static str,
}

/// The levels of a server's log.
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

/// What the environment says; everything where we are being debugged ourselves.
fn log_level(environment: &Environment) -> &'static str {
    let wanted = environment::value(environment, "LATHE_MCP_LOG_LEVEL").unwrap_or_default();
    let known = LEVELS
        .into_iter()
        .find(|level| wanted.trim().eq_ignore_ascii_case(level));
    known.unwrap_or(if tracing::enabled!(tracing::Level::DEBUG) {
        "debug"
    } else {
        "info"
    })
}

/// How a lost remote server is sought again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// How long before the first try; doubled after each.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// How many tries.
    pub tries: u32,
    /// When to give up, whatever the number of tries.
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
    /// The usual ones: limits from the environment, nobody at a browser.
    #[must_use]
    pub fn new(environment: Environment, client_version: impl Into<String>) -> Self {
        Self {
            timeouts: Timeouts::of(&environment),
            client_version: client_version.into(),
            home: paths::config_home(&environment),
            log_level: log_level(&environment),
            environment,
            in_process: None,
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
    /// In words, if there is no such server.
    fn open(&self, name: &str) -> Result<MessageChannel, String>;
}

/// Two channels that make a connection: JSON-RPC messages to the server and from it. Closing
/// `incoming` ends the connection.
#[derive(Debug)]
pub struct MessageChannel {
    /// What is sent to the server.
    pub outgoing: mpsc::Sender<Value>,
    /// What comes from it.
    pub incoming: mpsc::Receiver<Value>,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How much is done.
    pub progress: f64,
    /// Of how much, if that is known.
    pub total: Option<f64>,
    /// What is being done, control characters removed.
    pub message: Option<String>,
}

/// How a call is made.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// Where progress is told; what finds no room there is left out.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Gives the call up; so does dropping the future.
    pub cancel: CancellationToken,
    /// A limit of its own instead of the configured one.
    pub timeout: Option<Duration>,
    /// Sent along as `_meta`.
    pub meta: Option<Value>,
}

/// One entry of a list, and whose it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerItem {
    /// The server.
    pub server: String,
    /// The entry, in the protocol's own shape.
    pub item: Value,
}
