//! A configured server in a folder: not started, running, or given up.
//!
//! A server is started when it is first needed. If it exits by itself it is restarted at the next use, at most
//! three times, failed starts included. A failure is reported to the user once.

use crate::config::ServerConfig;
use crate::error::LspError;
use crate::manager::Surroundings;
use crate::server::Server;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Not needed yet.
    Waiting,
    /// It is being started.
    Starting,
    /// It runs.
    Running,
    /// It runs, and is still reading the project.
    Indexing,
    /// Exited; the next use restarts it.
    Ended,
    /// Failed too often; it is not started again.
    GivenUp(String),
}

impl Standing {
    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Waiting => "not needed yet".to_owned(),
            Self::Starting => "starting".to_owned(),
            Self::Running => "running".to_owned(),
            Self::Indexing => "reading the project".to_owned(),
            Self::Ended => "ended".to_owned(),
            Self::GivenUp(reason) => format!("given up: {reason}"),
        }
    }
}

pub(crate) struct Slot {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) root: PathBuf,
    surroundings: Arc<Surroundings>,
    /// Held while it is started.
    state: Arc<tokio::sync::Mutex<State>>,
    shown: Mutex<Shown>,
    /// Cancelled when it is ended for good.
    closing: CancellationToken,
    /// Changed files are looked at one after the other.
    pub(crate) editing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    server: Option<Arc<Server>>,
    starts: u32,
    given_up: Option<String>,
}

#[derive(Default)]
struct Shown {
    standing: Option<Standing>,
    server: Option<Arc<Server>>,
    told: bool,
}

impl Slot {
    pub(crate) fn new(
        config: Arc<ServerConfig>,
        root: PathBuf,
        surroundings: Arc<Surroundings>,
    ) -> Self {
        Self {
            config,
            root,
            surroundings,
            state: Arc::default(),
            shown: Mutex::default(),
            closing: CancellationToken::new(),
            editing: tokio::sync::Mutex::default(),
        }
    }

    /// The running server; it is started if need be.
    pub(crate) async fn server(self: &Arc<Self>) -> Result<Arc<Server>, LspError> {
        if let Some(server) = self.running() {
            return Ok(server);
        }
        // The caller may stop waiting; the start continues for the next one.
        let slot = self.clone();
        match lathe_spawn::task(async move { slot.ensure().await }).await {
            Ok(result) => result,
            Err(error) => Err(LspError::Start {
                name: self.config.name.clone(),
                reason: error.to_string(),
            }),
        }
    }

    /// The server, if it runs.
    pub(crate) fn running(&self) -> Option<Arc<Server>> {
        let shown = self.shown.lock();
        shown.server.clone().filter(|server| !server.is_over())
    }

    /// Where it stands.
    pub(crate) fn standing(&self) -> Standing {
        let shown = self.shown.lock();
        match (&shown.standing, &shown.server) {
            (None, _) => Standing::Waiting,
            (Some(Standing::Running), Some(server)) if server.is_over() => Standing::Ended,
            (Some(Standing::Running), Some(server)) if server.is_busy() => Standing::Indexing,
            (Some(standing), _) => standing.clone(),
        }
    }

    async fn ensure(&self) -> Result<Arc<Server>, LspError> {
        let mut state = self.state.lock().await;
        let name = self.config.name.clone();
        let mut ended = None;
        match state.server.take() {
            Some(server) if !server.is_over() => {
                state.server = Some(server.clone());
                return Ok(server);
            }
            Some(server) => ended = Some(server.ending().await),
            None => {}
        }
        if self.closing.is_cancelled() {
            return Err(LspError::Cancelled);
        }
        if let Some(reason) = &state.given_up {
            let reason = reason.clone();
            return Err(LspError::GivenUp { name, reason });
        }
        if state.starts > self.config.max_restarts {
            let reason = ended.map_or_else(
                || "it can't be started".to_owned(),
                |error| error.to_string(),
            );
            let reason = match self.config.max_restarts {
                0 => reason,
                times => format!("{reason} (it was started again {times} times)"),
            };
            self.give_up(&mut state, &reason);
            return Err(LspError::GivenUp { name, reason });
        }
        if let Some(error) = ended {
            tracing::info!(%error, "a language server is started again");
        }
        state.starts += 1;
        self.set(Standing::Starting, None);
        let started = Server::start(
            self.config.clone(),
            &self.root,
            &self.surroundings,
            &self.closing,
        );
        match started.await {
            Ok(server) => {
                let server = Arc::new(server);
                state.server = Some(server.clone());
                self.set(Standing::Running, Some(server.clone()));
                Ok(server)
            }
            Err(LspError::Cancelled) => Err(LspError::Cancelled),
            Err(error) => {
                // A program that isn't there won't be there the next time.
                if crate::process::find_program(
                    &self.config.command,
                    &self.config.env,
                    &self.surroundings.environment,
                )
                .is_none()
                {
                    state.given_up = Some(error.to_string());
                    self.set(Standing::GivenUp(error.to_string()), None);
                } else {
                    self.set(Standing::Ended, None);
                }
                self.tell(&error.to_string());
                Err(error)
            }
        }
    }

    fn give_up(&self, state: &mut State, reason: &str) {
        state.given_up = Some(reason.to_owned());
        self.set(Standing::GivenUp(reason.to_owned()), None);
        // Said of it even where a failed start was said before: this is the last word.
        self.shown.lock().told = false;
        self.tell(&format!(
            "the language server {} is off for this session: {reason}",
            self.config.name
        ));
    }

    fn set(&self, standing: Standing, server: Option<Arc<Server>>) {
        let mut shown = self.shown.lock();
        shown.standing = Some(standing);
        shown.server = server;
    }

    /// Tells the user, once.
    fn tell(&self, text: &str) {
        if !std::mem::replace(&mut self.shown.lock().told, true) {
            (self.surroundings.on_problem)(text.to_owned());
        }
    }

    /// Ends it for good.
    pub(crate) async fn close(&self) {
        // A start that continues ends with it.
        self.closing.cancel();
        let server = self.state.lock().await.server.take();
        self.set(Standing::Ended, None);
        if let Some(server) = server {
            server.close().await;
        }
    }
}
