//! Calls tools of MCP servers through the manager, and waits for a server that is still being connected.
//! A resource that was read is subscribed to where its server offers that, so that the model learns of changes.

use futures::future::BoxFuture;
use lathe_hooks::{HookTools, ServiceError};
use lathe_mcp::{CallOptions, Manager, McpError, State};
use lathe_tools::mcp_result;
use lathe_tools::mcp_tool::{McpCall, McpCallError, McpCaller, McpProgress, cleaned};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Asks the servers of a manager.
pub(super) struct Caller {
    manager: Manager,
    followed: Mutex<Followed>,
}

/// How many resources are followed at a time.
const MOST_FOLLOWED: usize = 100;

/// Resources that were read: server and address.
#[derive(Default)]
struct Followed {
    all: BTreeSet<(String, String)>,
    changed: BTreeSet<(String, String)>,
}

impl Caller {
    pub(super) fn new(manager: Manager) -> Self {
        Self {
            manager,
            followed: Mutex::default(),
        }
    }

    /// Wants to be told when a resource changes, if its server offers that.
    fn follow(&self, server: &str, uri: &str) {
        let offers = self
            .manager
            .server(server)
            .and_then(|status| status.description)
            .is_some_and(|said| {
                said.capabilities.pointer("/resources/subscribe") == Some(&Value::Bool(true))
            });
        let resource = (server.to_owned(), uri.to_owned());
        {
            let mut followed = self.followed.lock();
            followed.changed.remove(&resource);
            if !offers
                || followed.all.len() >= MOST_FOLLOWED
                || !followed.all.insert(resource.clone())
            {
                return;
            }
        }
        let manager = self.manager.clone();
        lathe_spawn::task(async move {
            let (server, uri) = resource;
            if let Err(error) = manager.subscribe(&server, &uri).await {
                tracing::debug!(server, uri, %error, "can't subscribe to a resource");
            }
        });
    }

    /// A server said that a resource changed.
    pub(super) fn resource_changed(&self, server: String, uri: String) {
        let mut followed = self.followed.lock();
        let resource = (server, uri);
        if followed.all.contains(&resource) {
            followed.changed.insert(resource);
        }
    }

    /// A connection ended, and with it what was followed through it.
    pub(super) fn connection_ended(&self, server: &str) {
        self.followed.lock().all.retain(|(of, _)| of != server);
    }

    /// The resources that changed since they were read, once.
    pub(super) fn changed_resources(&self) -> BTreeSet<(String, String)> {
        std::mem::take(&mut self.followed.lock().changed)
    }

    /// Waits until a server isn't being connected any more. The manager bounds how long that takes.
    pub(super) async fn ready(&self, server: &str) {
        let mut changes = self.manager.changes();
        loop {
            let pending = self
                .manager
                .server(server)
                .is_some_and(|status| status.state == State::Pending);
            if !pending || matches!(changes.recv().await, Err(RecvError::Closed)) {
                return;
            }
        }
    }

    /// The manager of the connections.
    pub(super) fn manager(&self) -> Manager {
        self.manager.clone()
    }

    /// How a server stands.
    pub(super) fn server(&self, name: &str) -> Option<lathe_mcp::ServerStatus> {
        self.manager.server(name)
    }

    /// The server's own name of a tool that the model named.
    fn own_name(&self, server: &str, tool: &str) -> String {
        let Some(status) = self.manager.server(server) else {
            return tool.to_owned();
        };
        let names = || {
            status
                .tools
                .iter()
                .filter_map(|entry| entry.get("name")?.as_str())
        };
        names()
            .find(|name| *name == tool)
            .or_else(|| names().find(|name| cleaned(name) == tool))
            .unwrap_or(tool)
            .to_owned()
    }

    pub(super) async fn call_tool(
        &self,
        server: &str,
        tool: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<Value, McpError> {
        self.ready(server).await;
        let tool = self.own_name(server, tool);
        self.manager
            .call_tool(server, &tool, arguments, options)
            .await
    }
}

impl McpCaller for Caller {
    fn call<'a>(&'a self, call: McpCall<'a>) -> BoxFuture<'a, Result<Value, McpCallError>> {
        Box::pin(async move {
            let (sender, mut progress) = mpsc::channel(16);
            let options = CallOptions {
                progress: Some(sender),
                cancel: call.cancel,
                timeout: None,
                meta: (!call.tool_use_id.is_empty())
                    .then(|| json!({"claudecode/toolUseId": call.tool_use_id})),
            };
            let calling = self.call_tool(call.server, call.tool, call.arguments, options);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    biased;
                    result = &mut calling => return result.map_err(McpCallError::failed),
                    Some(step) = progress.recv() => (call.progress)(McpProgress {
                        progress: step.progress,
                        total: step.total,
                        message: step.message,
                    }),
                }
            }
        })
    }

    fn read_resource<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<Value, McpCallError>> {
        Box::pin(async move {
            self.ready(server).await;
            tokio::select! {
                biased;
                result = self.manager.read_resource(server, uri) => {
                    if result.is_ok() {
                        self.follow(server, uri);
                    }
                    result.map_err(McpCallError::failed)
                }
                () = cancel.cancelled() => Err(McpCallError::Cancelled),
            }
        })
    }

    fn resources(&self) -> Vec<(String, Value)> {
        let mut all: Vec<(String, Value)> = Vec::new();
        for item in self
            .manager
            .resources()
            .into_iter()
            .chain(self.manager.resource_templates())
        {
            all.push((item.server, item.item));
        }
        all
    }
}

/// Calls tools for hooks.
pub(super) struct ToolsOfHooks(pub(super) Arc<Caller>);

impl HookTools for ToolsOfHooks {
    fn call<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        input: Value,
    ) -> BoxFuture<'a, Result<String, ServiceError>> {
        Box::pin(async move {
            let result = self
                .0
                .call_tool(server, tool, input, CallOptions::default())
                .await
                .map_err(ServiceError::other)?;
            let text = mcp_result::text_of(&result);
            if result.get("isError") == Some(&Value::Bool(true)) {
                return Err(ServiceError::Tool(text));
            }
            Ok(text)
        })
    }
}
