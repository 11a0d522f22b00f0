//! All servers of a session: started side by side, kept, asked, told apart.
//!
//! [`Manager::set_servers`] says which servers there should be; connections are made in the
//! background and nobody waits for a slow one unless they ask to ([`Manager::settled`]). Every list
//! (tools, resources, templates, prompts) is read when a server connects and again when it says that
//! the list changed, so that reading one here never waits.

mod entry;
mod options;

use crate::error::McpError;
use crate::handlers::Handlers;
use crate::server::ServerConfig;
use crate::status::{Change, ServerStatus, State};
use entry::Entry;
use indexmap::IndexMap;
pub use options::{CallOptions, InProcess, MessageChannel, Options, Progress, ServerItem};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

/// What [`Manager::set_servers`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServersSet {
    /// Servers that are new, or whose configuration is another one now.
    pub added: Vec<String>,
    /// Servers that are gone.
    pub removed: Vec<String>,
}

/// The servers of a session. Cheap to clone; [`Manager::shutdown`] ends them all.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    handlers: Arc<dyn Handlers>,
    servers: Mutex<IndexMap<String, Arc<Entry>>>,
    changes: broadcast::Sender<Change>,
}

impl Manager {
    /// No servers yet.
    #[must_use]
    pub fn new(options: Options, handlers: Arc<dyn Handlers>) -> Self {
        let (changes, _) = broadcast::channel(1024);
        Self {
            inner: Arc::new(Inner {
                options,
                handlers,
                servers: Mutex::default(),
                changes,
            }),
        }
    }

    /// Says which servers there should be. New ones and those with another configuration are
    /// connected in the background, those that are gone are ended, the others are left alone.
    pub fn set_servers(&self, servers: IndexMap<String, ServerConfig>) -> ServersSet {
        let mut all = self.inner.servers.lock();
        let mut set = ServersSet::default();
        let mut next = IndexMap::new();
        for (name, config) in servers {
            let entry = match all.shift_remove(&name) {
                Some(entry) if entry.config == config => entry,
                _ => {
                    set.added.push(name.clone());
                    let state = if config.disabled {
                        State::Disabled
                    } else {
                        State::Pending
                    };
                    Arc::new(Entry {
                        name: name.clone(),
                        config,
                        state: Mutex::new(state),
                    })
                }
            };
            next.insert(name, entry);
        }
        set.removed = all
            .keys()
            .filter(|name| !next.contains_key(*name))
            .cloned()
            .collect();
        *all = next;
        set
    }

    /// All servers, in the order of the configuration.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        let servers = self.inner.servers.lock();
        servers.values().map(|entry| entry.status()).collect()
    }

    /// One server.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<ServerStatus> {
        let servers = self.inner.servers.lock();
        servers.get(name).map(|entry| entry.status())
    }

    /// The configuration of a server.
    #[must_use]
    pub fn config(&self, name: &str) -> Option<ServerConfig> {
        let servers = self.inner.servers.lock();
        servers.get(name).map(|entry| entry.config.clone())
    }

    /// The tools of all connected servers (entries of `tools/list`).
    #[must_use]
    pub fn tools(&self) -> Vec<ServerItem> {
        Vec::new()
    }

    /// The resources of all connected servers (entries of `resources/list`).
    #[must_use]
    pub fn resources(&self) -> Vec<ServerItem> {
        Vec::new()
    }

    /// The resource templates of all connected servers (entries of `resources/templates/list`).
    #[must_use]
    pub fn resource_templates(&self) -> Vec<ServerItem> {
        Vec::new()
    }

    /// The prompts of all connected servers (entries of `prompts/list`).
    #[must_use]
    pub fn prompts(&self) -> Vec<ServerItem> {
        Vec::new()
    }

    /// Waits until no server is pending, at most this long. Says whether that is so.
    pub async fn settled(&self, at_most: Duration) -> bool {
        let _ = at_most;
        true
    }

    /// What happens from now on. A reader that falls behind loses the oldest.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes.subscribe()
    }

    /// Calls a tool and gives the server's `CallToolResult`.
    ///
    /// # Errors
    /// If the server can't be asked or answers with an error of the protocol; a tool that failed is
    /// a result with `isError`.
    pub async fn call_tool(
        &self,
        server: &str,
        tool: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<Value, McpError> {
        let _ = (tool, arguments, options);
        Err(self.missing(server))
    }

    /// Reads a resource and gives the server's `ReadResourceResult`.
    ///
    /// # Errors
    /// If the server can't be asked or answers with an error.
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<Value, McpError> {
        let _ = uri;
        Err(self.missing(server))
    }

    /// Fills in a prompt and gives the server's `GetPromptResult`.
    ///
    /// # Errors
    /// If the server can't be asked or answers with an error.
    pub async fn get_prompt(
        &self,
        server: &str,
        name: &str,
        arguments: Value,
    ) -> Result<Value, McpError> {
        let _ = (name, arguments);
        Err(self.missing(server))
    }

    /// Asks for completions: `reference` is `{"type": "ref/prompt", "name": …}` or
    /// `{"type": "ref/resource", "uri": …}`. Gives the server's `CompleteResult`.
    ///
    /// # Errors
    /// If the server can't be asked or answers with an error.
    pub async fn complete(
        &self,
        server: &str,
        reference: Value,
        argument: &str,
        value: &str,
    ) -> Result<Value, McpError> {
        let _ = (reference, argument, value);
        Err(self.missing(server))
    }

    /// Wants to be told when a resource changes ([`Change::ResourceUpdated`]).
    ///
    /// # Errors
    /// If the server can't be asked or doesn't offer it.
    pub async fn subscribe(&self, server: &str, uri: &str) -> Result<(), McpError> {
        let _ = uri;
        Err(self.missing(server))
    }

    /// Doesn't want to be told any more.
    ///
    /// # Errors
    /// If the server can't be asked.
    pub async fn unsubscribe(&self, server: &str, uri: &str) -> Result<(), McpError> {
        let _ = uri;
        Err(self.missing(server))
    }

    /// Ends a server's connection, if it has one, and makes a new one. Returns when it is settled.
    ///
    /// # Errors
    /// With the reason why it isn't connected now.
    pub async fn reconnect(&self, server: &str) -> Result<(), McpError> {
        Err(self.missing(server))
    }

    /// Switches a server on (its connection is made in the background) or off.
    ///
    /// # Errors
    /// If there is no such server.
    pub async fn set_enabled(&self, server: &str, enabled: bool) -> Result<(), McpError> {
        let _ = enabled;
        Err(self.missing(server))
    }

    /// Tells servers that the folders worked in are others now.
    pub async fn roots_changed(&self) {
        let _ = &self.inner.handlers;
    }

    /// Ends all connections and local servers. Nothing of them is left afterwards.
    pub async fn shutdown(&self) {
        let _ = &self.inner.options;
        self.inner.servers.lock().clear();
    }

    fn missing(&self, server: &str) -> McpError {
        match self.server(server) {
            None => McpError::Unknown(server.to_owned()),
            Some(status) => McpError::NotConnected {
                server: server.to_owned(),
                why: status.state.word().to_owned(),
            },
        }
    }
}
