//! The language servers of a session.
//!
//! [`LanguageServers`] is the public interface: it selects the servers for a file, starts them on demand, sends
//! requests and reports changes (`edits`). Whatever a server does, the caller gets at most an error.

use crate::config::{ServerConfig, Servers};
use crate::edits::Edits;
use crate::error::LspError;
use crate::limits::{INSTANCES, NEWS};
use crate::query::{QueryAnswer, Question};
use crate::server::Change;
use crate::slot::{Slot, Standing};
use lathe_process::Confine;
use lathe_settings::Environment;
use lathe_settings::schema::LspDiagnostics;
use parking_lot::{Mutex, RwLock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The context in which servers are started.
pub struct Surroundings {
    /// The environment; keys that are meant for us are not passed on.
    pub environment: Environment,
    /// Our version, sent to servers.
    pub version: String,
    /// The folders that may be worked in, the session's own first.
    pub roots: Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// Puts a server's program into the sandbox.
    pub confine: Confine,
    /// Called once for each server that fails.
    pub on_problem: Box<dyn Fn(String) + Send + Sync>,
}

/// How long a request waits for new diagnostics, from the settings; `None` if they are disabled.
#[must_use]
pub fn patience(settings: Option<&LspDiagnostics>) -> Option<Duration> {
    let Some(settings) = settings else {
        return Some(NEWS);
    };
    if settings.enabled == Some(false) {
        return None;
    }
    let wait = settings.wait_seconds.filter(|wait| wait.is_finite());
    Some(wait.map_or(NEWS, |wait| Duration::from_secs_f64(wait.clamp(0.0, 120.0))))
}

/// The status of a server, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// The program.
    pub command: String,
    /// The files that it is for.
    pub endings: String,
    /// The folder that it runs in, where it was needed.
    pub root: Option<PathBuf>,
    /// Its state.
    pub standing: Standing,
}

/// The language servers of a session. Clones are the same servers.
#[derive(Clone)]
pub struct LanguageServers {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) surroundings: Arc<Surroundings>,
    configs: RwLock<Vec<Arc<ServerConfig>>>,
    slots: Mutex<Vec<Arc<Slot>>>,
    /// How long the next request waits for news; `None` tells none at all.
    patience: RwLock<Option<Duration>>,
    closed: AtomicBool,
    pub(crate) edits: Edits,
}

impl LanguageServers {
    /// The servers of a session. None is started. `patience` is how long a request waits for news after an
    /// edit; `None` tells no news at all.
    #[must_use]
    pub fn new(servers: Servers, surroundings: Surroundings, patience: Option<Duration>) -> Self {
        let configs = servers.list.into_iter().map(Arc::new).collect();
        Self {
            inner: Arc::new(Inner {
                surroundings: Arc::new(surroundings),
                configs: RwLock::new(configs),
                slots: Mutex::default(),
                patience: RwLock::new(patience),
                closed: AtomicBool::new(false),
                edits: Edits::default(),
            }),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.configs.read().is_empty()
    }

    /// Takes other servers; those that are not among them any more, or changed, are ended.
    pub fn set(&self, servers: Servers, patience: Option<Duration>) {
        *self.inner.patience.write() = patience;
        let configs: Vec<Arc<ServerConfig>> = servers.list.into_iter().map(Arc::new).collect();
        let mut gone = Vec::new();
        self.inner.slots.lock().retain(|slot| {
            let stays = configs.iter().any(|config| **config == *slot.config);
            if !stays {
                gone.push(slot.clone());
            }
            stays
        });
        *self.inner.configs.write() = configs;
        if !gone.is_empty() {
            lathe_spawn::task(async move {
                for slot in gone {
                    slot.close().await;
                }
            });
        }
    }

    /// Whether a server is there for a file.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        self.inner.covers(path)
    }

    /// Asks the servers of a file: the first that can answer does.
    ///
    /// # Errors
    /// When there is none, none can answer, or the one that can fails.
    pub async fn ask(
        &self,
        question: &Question,
        cancel: &CancellationToken,
    ) -> Result<QueryAnswer, LspError> {
        let path = &question.path;
        let slots = self.inner.slots_of(path);
        if slots.is_empty() {
            return Err(self.no_server(path));
        }
        let mut failure = None;
        for slot in &slots {
            match self.ask_one(slot, question, cancel).await {
                Err(error @ (LspError::Question(_) | LspError::Cancelled)) => return Err(error),
                Err(error) => {
                    failure.get_or_insert(error);
                }
                Ok(answer) => return Ok(answer),
            }
        }
        Err(failure.unwrap_or_else(|| self.no_server(path)))
    }

    async fn ask_one(
        &self,
        slot: &Arc<Slot>,
        question: &Question,
        cancel: &CancellationToken,
    ) -> Result<QueryAnswer, LspError> {
        let mut again = true;
        loop {
            let server = tokio::select! {
                server = slot.server() => server?,
                () = cancel.cancelled() => return Err(LspError::Cancelled),
            };
            if !question.operation.is_known_to(&server) {
                return Err(LspError::Unsupported {
                    name: slot.config.name.clone(),
                    operation: question.operation.name().to_owned(),
                });
            }
            match server.answer(question, cancel).await {
                // It may have been the server's bad day rather than the question.
                Err(LspError::Ended { .. }) if again => again = false,
                answer => return answer,
            }
        }
    }

    pub(crate) fn no_server(&self, path: &Path) -> LspError {
        let name = path.extension().map_or_else(
            || path.display().to_string(),
            |ending| format!(".{} files", ending.display()),
        );
        let known: Vec<String> = self
            .inner
            .configs
            .read()
            .iter()
            .map(|config| format!("{} ({})", config.name, config.endings()))
            .collect();
        LspError::NoServer(format!("{name}; there are: {}", known.join(", ")))
    }

    /// Tells running servers of files that something else than our tools changed.
    pub fn changed_on_disk(&self, paths: &[PathBuf]) {
        for slot in self.inner.slots.lock().clone() {
            let changed: Vec<(PathBuf, Change)> = paths
                .iter()
                .filter(|path| path.starts_with(&slot.root))
                .filter(|path| slot.config.language_of(path).is_some())
                .take(1000)
                .map(|path| {
                    let change = if path.exists() {
                        Change::Changed
                    } else {
                        Change::Deleted
                    };
                    (path.clone(), change)
                })
                .collect();
            if let (false, Some(server)) = (changed.is_empty(), slot.running()) {
                lathe_spawn::task(async move { server.files_changed(&changed).await });
            }
        }
    }

    /// All servers and where they stand.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let slots = self.inner.slots.lock().clone();
        let mut list = Vec::new();
        for config in self.inner.configs.read().iter() {
            let status = |root, standing| Status {
                name: config.name.clone(),
                command: config.command.clone(),
                endings: config.endings(),
                root,
                standing,
            };
            let before = list.len();
            for slot in slots.iter().filter(|slot| slot.config == *config) {
                list.push(status(Some(slot.root.clone()), slot.standing()));
            }
            if list.len() == before {
                list.push(status(None, Standing::Waiting));
            }
        }
        list
    }

    /// Ends all servers.
    pub async fn shut_down(&self) {
        self.inner.closed.store(true, Ordering::SeqCst);
        let slots = std::mem::take(&mut *self.inner.slots.lock());
        let ends: Vec<_> = slots
            .into_iter()
            .map(|slot| lathe_spawn::task(async move { slot.close().await }))
            .collect();
        for end in ends {
            let _ = end.await;
        }
    }
}

impl Inner {
    pub(crate) fn patience(&self) -> Option<Duration> {
        *self.patience.read()
    }

    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.configs
            .read()
            .iter()
            .any(|config| config.language_of(path).is_some())
    }

    /// The servers of a file, in the order in which they are asked.
    pub(crate) fn slots_of(&self, path: &Path) -> Vec<Arc<Slot>> {
        if self.closed.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let roots = (self.surroundings.roots)();
        let mut slots = self.slots.lock();
        let mut found = Vec::new();
        for config in self.configs.read().iter() {
            if config.language_of(path).is_none() {
                continue;
            }
            let root = config.root_of(path, &roots);
            let same = |slot: &&Arc<Slot>| slot.config.name == config.name;
            let known = slots.iter().filter(same).find(|slot| slot.root == root);
            let slot = match known {
                Some(slot) => slot.clone(),
                // A server that would run in very many folders keeps to those that it has.
                None => match slots.iter().filter(same).nth(INSTANCES - 1) {
                    Some(last) => last.clone(),
                    None => {
                        let slot = Slot::new(config.clone(), root, self.surroundings.clone());
                        slots.push(Arc::new(slot));
                        slots[slots.len() - 1].clone()
                    }
                },
            };
            found.push(slot);
        }
        found
    }
}
