//! Manages all servers of a session.
//!
//! [`Manager::set_servers`] sets the servers; connections are made in the background, and
//! [`Manager::settled`] waits for them. The lists (tools, resources, templates, prompts) are read
//! on connection and whenever the server reports a change, so that reading them here never blocks.
//!
//! A call to a connecting server waits for it; an unauthorised call leads to an authorisation and
//! is repeated; a call whose connection broke is repeated only if the server can't have received
//! it.

mod entry;
mod options;
mod requests;

use crate::auth::CredentialStore;
use crate::error::McpError;
use crate::handlers::Handlers;
use crate::limits::{LOCAL_STARTS, REMOTE_STARTS};
use crate::server::ServerConfig;
use crate::status::{Change, ServerStatus, State};
use entry::{Live, ManagedServer, Order};
use indexmap::IndexMap;
pub use options::{
    Backoff, CallOptions, InProcess, MessageChannel, Options, Progress, ServerItem, UnknownServer,
};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

/// The number of changes buffered for slow subscribers.
const CHANGES: usize = 1024;

/// The result of [`Manager::set_servers`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServersSet {
    /// New servers and those with a changed configuration.
    pub added: Vec<String>,
    /// Removed servers.
    pub removed: Vec<String>,
}

/// The servers of a session. Cheap to clone. [`Manager::shutdown`] ends all servers and waits;
/// dropping the last clone ends them in the background.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
    _last: Arc<Last>,
}

/// Keepers own the inner state too; only managers own this, so its drop means that no manager is
/// left.
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
    /// ConnectionContext by all servers, so that a broken keyring is reported once.
    pub(crate) credentials: CredentialStore,
    pub(crate) handlers: Arc<dyn Handlers>,
    pub(crate) changes: broadcast::Sender<Change>,
    /// Changes whenever the state of a server changes.
    pub(crate) pulse: watch::Sender<u64>,
    pub(crate) local_starts: Semaphore,
    pub(crate) remote_starts: Semaphore,
    servers: Mutex<IndexMap<String, Arc<ManagedServer>>>,
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
    /// Creates a manager without servers.
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

    /// Sets the servers. New and changed ones are connected and removed ones ended, both in the
    /// background; the others are kept. Must be called within a tokio runtime.
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

    /// Starts the keeper of a server, after ending the one it replaces.
    fn start(
        &self,
        name: &str,
        config: ServerConfig,
        before: Option<Arc<ManagedServer>>,
    ) -> Arc<ManagedServer> {
        let (entry, orders) = ManagedServer::new(name, config, &self.inner);
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

    fn entries(&self) -> Vec<Arc<ManagedServer>> {
        self.inner.servers.lock().values().cloned().collect()
    }

    fn entry(&self, name: &str) -> Result<Arc<ManagedServer>, McpError> {
        let found = self.inner.servers.lock().get(name).cloned();
        found.ok_or_else(|| McpError::Unknown(name.to_owned()))
    }

    /// All servers, in the order of the configuration.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        self.entries().iter().map(|entry| entry.status()).collect()
    }

    #[must_use]
    pub fn server(&self, name: &str) -> Option<ServerStatus> {
        Some(self.entry(name).ok()?.status())
    }

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

    /// The tools of all connected servers (entries of `tools/list`, cleaned and cut to size).
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

    /// Waits until no server is pending. Returns false on timeout.
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

    /// Subscribes to changes. A slow subscriber loses the oldest ones.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes.subscribe()
    }

    /// Reconnects a server and waits for the result.
    ///
    /// # Errors
    /// If it is not connected.
    pub async fn reconnect(&self, server: &str) -> Result<(), McpError> {
        let entry = self.entry(server)?;
        order(&entry, Order::Connect).await;
        let state = entry.live.lock().state.clone();
        match state {
            State::Connected => Ok(()),
            _ => Err(entry.not_connected()),
        }
    }

    /// Enables a server (connecting in the background) or disables it.
    ///
    /// # Errors
    /// If there is no such server.
    pub async fn set_enabled(&self, server: &str, enabled: bool) -> Result<(), McpError> {
        let entry = self.entry(server)?;
        let disabled = entry.live.lock().state == State::Disabled;
        if enabled && disabled {
            // Pending at once, so that `settled` waits for it.
            entry.live.lock().state = State::Pending;
            let _ = entry.orders.send(Order::Connect(oneshot::channel().0));
        } else if !enabled && !disabled {
            order(&entry, Order::Disable).await;
        }
        Ok(())
    }

    /// Signs in to a server with the browser of the options, replacing existing tokens, and
    /// connects.
    ///
    /// # Errors
    /// If the server doesn't use OAuth, or the sign-in failed.
    pub async fn log_in(&self, server: &str) -> Result<(), McpError> {
        let entry = self.entry(server)?;
        let authoriser = entry.authoriser.as_ref().ok_or_else(|| {
            McpError::Auth(format!(
                "{server} doesn't use OAuth: it is a local server or has its own Authorization header"
            ))
        })?;
        authoriser.drop_tokens().await;
        self.reconnect(server).await
    }

    /// Revokes and deletes a server's tokens. Returns whether there were any.
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

    /// Ends all connections and local servers, and waits until they are gone.
    pub async fn shutdown(&self) {
        let all = std::mem::take(&mut *self.inner.servers.lock());
        futures::future::join_all(all.values().map(|entry| end(entry))).await;
    }
}

/// Sends an order and waits for its completion.
async fn order(entry: &ManagedServer, make: impl FnOnce(oneshot::Sender<()>) -> Order) {
    let (told, done) = oneshot::channel();
    if entry.orders.send(make(told)).is_ok() {
        // An error means that the keeper has ended already.
        let _ = done.await;
    }
}

async fn end(entry: &ManagedServer) {
    order(entry, Order::Close).await;
}
