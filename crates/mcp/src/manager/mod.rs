//! All servers of a session: started side by side, kept, asked, told apart.
//!
//! [`Manager::set_servers`] says which servers there should be; connections are made in the
//! background and nobody waits for a slow one unless they ask to ([`Manager::settled`]). Every list
//! (tools, resources, templates, prompts) is read when a server connects and again when it says that
//! the list changed, so that reading one here never waits.
//!
//! A call that meets a server which is just being connected waits for it; one that is refused leads
//! to an authorisation and is repeated; one whose connection broke is repeated only when the server
//! can't have seen it, because it may have happened.

mod entry;
mod options;
mod requests;

use crate::auth::CredentialStore;
use crate::error::McpError;
use crate::handlers::Handlers;
use crate::limits::{LOCAL_STARTS, REMOTE_STARTS};
use crate::server::ServerConfig;
use crate::status::{Change, ServerStatus, State};
use entry::{Entry, Live, Order};
use indexmap::IndexMap;
pub use options::{Backoff, CallOptions, InProcess, MessageChannel, Options, Progress, ServerItem};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

/// How many changes are kept for a reader that is slow.
const CHANGES: usize = 1024;

/// What [`Manager::set_servers`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServersSet {
    /// Servers that are new, or whose configuration is another one now.
    pub added: Vec<String>,
    /// Servers that are gone.
    pub removed: Vec<String>,
}

/// The servers of a session. Cheap to clone; [`Manager::shutdown`] ends them all and waits for it, and
/// they are ended in the background when the last clone is dropped.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
    _last: Arc<Last>,
}

/// Keepers hold the manager's inside; this is held by managers alone, and tells when there is none left.
struct Last(Arc<Inner>);

impl Drop for Last {
    fn drop(&mut self) {
        for entry in self.0.servers.lock().values() {
            let _ = entry.orders.send(Order::Close(oneshot::channel().0));
        }
    }
}

pub(crate) struct Inner {
    pub(crate) options: Options,
    /// One for all servers, so that a broken keyring is waited for and told of once.
    pub(crate) credentials: CredentialStore,
    pub(crate) handlers: Arc<dyn Handlers>,
    pub(crate) changes: broadcast::Sender<Change>,
    /// Beats whenever a server stands elsewhere.
    pub(crate) pulse: watch::Sender<u64>,
    pub(crate) local_starts: Semaphore,
    pub(crate) remote_starts: Semaphore,
    servers: Mutex<IndexMap<String, Arc<Entry>>>,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Manager")
            .field(
                "servers",
                &self.inner.servers.lock().keys().collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}

impl Manager {
    /// No servers yet.
    #[must_use]
    pub fn new(options: Options, handlers: Arc<dyn Handlers>) -> Self {
        let inner = Arc::new(Inner {
            credentials: CredentialStore::new(&options.home, &options.environment),
            options,
            handlers,
            changes: broadcast::channel(CHANGES).0,
            pulse: watch::channel(0).0,
            local_starts: Semaphore::new(LOCAL_STARTS),
            remote_starts: Semaphore::new(REMOTE_STARTS),
            servers: Mutex::default(),
        });
        Self {
            _last: Arc::new(Last(inner.clone())),
            inner,
        }
    }

    /// Says which servers there should be. New ones and those with another configuration are
    /// connected in the background, those that are gone are ended in the background, the others are
    /// left alone. Must be called within a tokio runtime.
    pub fn set_servers(&self, servers: IndexMap<String, ServerConfig>) -> ServersSet {
        let mut all = self.inner.servers.lock();
        let mut set = ServersSet::default();
        let mut next = IndexMap::new();
        for (name, config) in servers {
            let before = all.shift_remove(&name);
            let entry = match before {
                Some(entry) if entry.config == config => entry,
                before => {
                    set.added.push(name.clone());
                    self.start(&name, config, before)
                }
            };
            next.insert(name, entry);
        }
        for (name, entry) in std::mem::replace(&mut *all, next) {
            set.removed.push(name);
            lathe_spawn::task(async move { end(&entry).await });
        }
        drop(all);
        self.inner.pulse.send_modify(|count| *count += 1);
        set
    }

    /// Starts the keeper of a server; one that it replaces is ended first.
    fn start(&self, name: &str, config: ServerConfig, before: Option<Arc<Entry>>) -> Arc<Entry> {
        let (entry, orders) = Entry::new(name, config, &self.inner);
        let entry = Arc::new(entry);
        let (kept, inner) = (entry.clone(), self.inner.clone());
        lathe_spawn::task(async move {
            if let Some(before) = before {
                end(&before).await;
            }
            entry::keep(kept, inner, orders).await;
        });
        entry
    }

    fn entries(&self) -> Vec<Arc<Entry>> {
        self.inner.servers.lock().values().cloned().collect()
    }

    fn entry(&self, name: &str) -> Result<Arc<Entry>, McpError> {
        let found = self.inner.servers.lock().get(name).cloned();
        found.ok_or_else(|| McpError::Unknown(name.to_owned()))
    }

    /// All servers, in the order of the configuration.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        self.entries().iter().map(|entry| entry.status()).collect()
    }

    /// One server.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<ServerStatus> {
        Some(self.entry(name).ok()?.status())
    }

    /// The configuration of a server.
    #[must_use]
    pub fn config(&self, name: &str) -> Option<ServerConfig> {
        Some(self.entry(name).ok()?.config.clone())
    }

    fn items(&self, list: impl Fn(&Live) -> &Arc<Vec<Value>>) -> Vec<ServerItem> {
        let mut items = Vec::new();
        for entry in self.entries() {
            let all = list(&entry.live.lock()).clone();
            items.extend(all.iter().map(|item| ServerItem {
                server: entry.name.clone(),
                item: item.clone(),
            }));
        }
        items
    }

    /// The tools of all connected servers (entries of `tools/list`, made safe and cut to size).
    #[must_use]
    pub fn tools(&self) -> Vec<ServerItem> {
        self.items(|live| &live.tools)
    }

    /// The resources of all connected servers (entries of `resources/list`).
    #[must_use]
    pub fn resources(&self) -> Vec<ServerItem> {
        self.items(|live| &live.resources)
    }

    /// The resource templates of all connected servers (entries of `resources/templates/list`).
    #[must_use]
    pub fn resource_templates(&self) -> Vec<ServerItem> {
        self.items(|live| &live.templates)
    }

    /// The prompts of all connected servers (entries of `prompts/list`).
    #[must_use]
    pub fn prompts(&self) -> Vec<ServerItem> {
        self.items(|live| &live.prompts)
    }

    /// Waits until no server is pending, at most this long. Says whether that is so.
    pub async fn settled(&self, at_most: Duration) -> bool {
        let mut pulse = self.inner.pulse.subscribe();
        let settled = async {
            loop {
                pulse.mark_unchanged();
                let pending = self
                    .entries()
                    .iter()
                    .any(|entry| entry.live.lock().state == State::Pending);
                if !pending || pulse.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(at_most, settled).await.is_ok()
    }

    /// What happens from now on. A reader that falls behind loses the oldest.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes.subscribe()
    }

    /// Ends a server's connection, if it has one, and makes a new one. Returns when it is settled.
    ///
    /// # Errors
    /// With the reason why it isn't connected now.
    pub async fn reconnect(&self, server: &str) -> Result<(), McpError> {
        let entry = self.entry(server)?;
        order(&entry, Order::Connect).await;
        let state = entry.live.lock().state.clone();
        match state {
            State::Connected => Ok(()),
            _ => Err(entry.not_connected()),
        }
    }

    /// Switches a server on (its connection is made in the background) or off.
    ///
    /// # Errors
    /// If there is no such server.
    pub async fn set_enabled(&self, server: &str, enabled: bool) -> Result<(), McpError> {
        let entry = self.entry(server)?;
        let disabled = entry.live.lock().state == State::Disabled;
        if enabled && disabled {
            // Pending at once, so that whoever waits for it to settle does wait.
            entry.live.lock().state = State::Pending;
            let _ = entry.orders.send(Order::Connect(oneshot::channel().0));
        } else if !enabled && !disabled {
            order(&entry, Order::Disable).await;
        }
        Ok(())
    }

    /// Signs in to a server anew (with the browser of the options) and connects. The tokens that
    /// there were are forgotten.
    ///
    /// # Errors
    /// If the server knows no authorisation of ours, or it didn't work out.
    pub async fn log_in(&self, server: &str) -> Result<(), McpError> {
        let entry = self.entry(server)?;
        let authoriser = entry.authoriser.as_ref().ok_or_else(|| {
            McpError::Auth(format!(
                "{server} needs no signing in: it is a local server or has an Authorization header of its own"
            ))
        })?;
        authoriser.drop_tokens().await;
        self.reconnect(server).await
    }

    /// Gives a server's tokens back and forgets them. Says whether there were any.
    ///
    /// # Errors
    /// If there is no such server or the credentials can't be read.
    pub async fn log_out(&self, server: &str) -> Result<bool, McpError> {
        let entry = self.entry(server)?;
        let Some(authoriser) = &entry.authoriser else {
            return Ok(false);
        };
        let any = authoriser.log_out().await?;
        if any {
            let _ = entry.orders.send(Order::NeedsAuth);
        }
        Ok(any)
    }

    /// Ends all connections and local servers. Nothing of them is left afterwards.
    pub async fn shutdown(&self) {
        let all = std::mem::take(&mut *self.inner.servers.lock());
        futures::future::join_all(all.values().map(|entry| end(entry))).await;
    }
}

/// Gives an order and waits until it is carried out.
async fn order(entry: &Entry, make: impl FnOnce(oneshot::Sender<()>) -> Order) {
    let (told, done) = oneshot::channel();
    if entry.orders.send(make(told)).is_ok() {
        // A keeper that ended before has nothing left to do.
        let _ = done.await;
    }
}

async fn end(entry: &Entry) {
    order(entry, Order::Close).await;
}
