//! Control of the MCP servers of a session for faces, also while a turn runs.

use super::offer::Which;
use super::prompts::McpPrompt;
use super::resources::{McpResource, resources};
use super::{Running, fit_hosted};
use crate::conversation::ConversationShared;
use indexmap::IndexMap;
use lathe_mcp::auth::Browser;
use lathe_mcp::config::choices::ChoiceError;
use lathe_mcp::config::{self, Choices, ConfigError, ConfigLocation, Scope, entry};
use lathe_mcp::handlers::Nobody;
use lathe_mcp::{CallOptions, Manager, McpError, Options, ServerConfig, ServerStatus, State};
use lathe_tools::mcp_tool::{McpCallError, McpCaller as _, tool_name};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub use super::prompts::McpPrompt as Prompt;
pub use super::resources::McpResource as Resource;

/// A server as a face shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// Its name.
    pub name: String,
    /// Where it is declared: `local`, `project`, `user`, `plugin`, `dynamic` or `managed`.
    pub scope: &'static str,
    /// `stdio`, `http`, `sse`, `ws` or `sdk`.
    pub transport: &'static str,
    /// Where its connection stands.
    pub state: State,
    /// Why it isn't connected, and what to do.
    pub error: Option<String>,
    /// Whether the project brings it and the user has to say yes or no.
    pub needs_approval: bool,
    /// The entry as it is written, for the user who has to decide.
    pub entry: Value,
    /// Its own description.
    pub info: Value,
    /// Its tools: name and description.
    pub tools: Vec<(String, String)>,
    /// Parts that were left out or cut.
    pub remarks: Vec<String>,
}

/// Controls the MCP servers of a session. Cheap to clone.
#[derive(Clone)]
pub struct McpControl {
    pub(crate) shared: Arc<ConversationShared>,
}

/// Why something can't be done with an MCP server.
#[derive(Debug, thiserror::Error)]
pub enum McpControlError {
    /// The session was opened without servers.
    #[error("this session has no MCP servers")]
    NoServers,
    /// No server has this name.
    #[error("Server not found: {0}")]
    NotFound(String),
    /// The server is declared but may not be used.
    #[error("{name}: {why}")]
    NotUsable {
        /// The server.
        name: String,
        /// Why, for the user.
        why: String,
    },
    /// A policy forbids the server; the text says which.
    #[error("{0}")]
    Forbidden(String),
    /// The server was added, but is not connected; why.
    #[error("{0}")]
    NotConnected(String),
    /// No connected server has this tool.
    #[error("no connected MCP server has the tool {0}")]
    NoTool(String),
    /// The entry of the server is wrong.
    #[error(transparent)]
    Entry(#[from] ConfigError),
    /// The user's decision can't be kept.
    #[error(transparent)]
    Decision(#[from] ChoiceError),
    /// The server or the connection failed.
    #[error(transparent)]
    Server(#[from] McpError),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] McpCallError),
}

impl McpControl {
    fn running(&self) -> Result<&Running, McpControlError> {
        self.shared
            .integrations
            .mcp
            .running()
            .ok_or(McpControlError::NoServers)
    }

    /// All servers with where they stand, also those that wait for the user's word.
    #[must_use]
    pub fn servers(&self) -> Vec<McpServer> {
        let Ok(running) = self.running() else {
            return Vec::new();
        };
        let known = running.state.lock();
        let mut servers: Vec<McpServer> = running
            .manager
            .status()
            .into_iter()
            .map(|status| {
                let (scope, entry) = match known.dynamic.get(&status.name) {
                    Some((entry, _)) => (Scope::Dynamic, entry.clone()),
                    None => known
                        .declared
                        .find(&status.name)
                        .map_or((Scope::Dynamic, Value::Null), |declared| {
                            (declared.scope, declared.entry.clone())
                        }),
                };
                server(status, scope, entry)
            })
            .collect();
        for (declared, why) in known.waiting() {
            let broken = matches!(declared.standing, config::Standing::Broken(_));
            servers.push(McpServer {
                name: declared.name.clone(),
                scope: declared.scope.name(),
                transport: declared.transport(),
                state: if broken {
                    State::Failed {
                        reason: why.clone(),
                    }
                } else {
                    State::Disabled
                },
                error: Some(why),
                needs_approval: matches!(declared.standing, config::Standing::NeedsApproval),
                entry: declared.entry.clone(),
                info: Value::Null,
                tools: Vec::new(),
                remarks: Vec::new(),
            });
        }
        servers
    }

    /// All servers, in the form for SDK hosts (`mcp_status`).
    #[must_use]
    pub fn frames(&self) -> Vec<Value> {
        let Ok(running) = self.running() else {
            return Vec::new();
        };
        let statuses = running.manager.status();
        self.servers()
            .into_iter()
            .map(|server| {
                let mut frame = statuses
                    .iter()
                    .find(|status| status.name == server.name)
                    .map_or_else(
                        || json!({"name": server.name, "status": server.state.word()}),
                        ServerStatus::to_frame,
                    );
                if let Some(error) = &server.error {
                    frame["error"] = error.as_str().into();
                }
                frame["scope"] = server.scope.into();
                let hosted = server.transport == "sdk" && server.scope == Scope::Dynamic.name();
                frame["source"] = if hosted { "sdk" } else { server.scope }.into();
                if server.transport != "sdk" && !server.entry.is_null() {
                    // What the host itself gave, it gets back; other people's secrets are hidden.
                    frame["config"] = if server.scope == Scope::Dynamic.name() {
                        server.entry.clone()
                    } else {
                        without_secrets(&server.entry)
                    };
                }
                frame
            })
            .collect()
    }

    /// The server that a tool belongs to, by the name that the model uses, and where that server is
    /// declared, in the form for hosts.
    #[must_use]
    pub fn provenance(&self, tool: &str) -> Option<Value> {
        let running = self.running().ok()?;
        let listed = running.manager.tools().into_iter().find(|item| {
            let name = item.item.get("name").and_then(Value::as_str);
            name.is_some_and(|name| tool_name(&item.server, name) == tool)
        });
        // A server that is still being connected has no list.
        let server = match listed {
            Some(item) => item.server,
            None => {
                let mut names = running.manager.status().into_iter().map(|it| it.name);
                names.find(|name| tool.starts_with(&tool_name(name, "")))?
            }
        };
        let source = running.state.lock().source(&server);
        Some(json!({"name": server, "source": source}))
    }

    /// The tools with their sizes in tokens, as `get_context_usage` shows them.
    #[must_use]
    pub fn tool_sizes(&self) -> Vec<Value> {
        let Ok(running) = self.running() else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for item in running.manager.tools() {
            let name = item
                .item
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let name = tool_name(&item.server, name);
            let bytes = item.item.to_string().len();
            let loaded = !self.shared.toolbox.deferred.waits(&name);
            all.push(json!({
                "name": name, "serverName": item.server, "tokens": bytes / 4, "isLoaded": loaded,
            }));
        }
        all
    }

    /// The prompts of connected servers, as commands.
    #[must_use]
    pub fn prompts(&self) -> Vec<McpPrompt> {
        self.shared.integrations.mcp.prompts()
    }

    /// The resources of connected servers, for completion after `@`.
    #[must_use]
    pub fn resources(&self) -> Vec<McpResource> {
        let running = self.shared.integrations.mcp.running();
        running.map_or_else(Vec::new, |running| resources(&running.manager))
    }

    /// Waits until no server is being connected.
    pub async fn settled(&self) {
        if let Ok(running) = self.running() {
            // The manager bounds how long a server may take to start.
            let longest = std::time::Duration::from_secs(600);
            running.manager.settled(longest).await;
        }
    }

    /// Connects a server anew, and offers its tools from the next request on.
    ///
    /// # Errors
    /// With the reason why it isn't connected now.
    pub async fn reconnect(&self, name: &str) -> Result<(), McpControlError> {
        let running = self.running()?;
        self.must_be_known(running, name)?;
        let outcome = running.manager.reconnect(name).await;
        running.offer_tools(&self.shared, Which::All);
        running.show(&self.shared);
        Ok(outcome?)
    }

    /// Signs in at a server, with someone who can open its page, and connects it. What was signed in
    /// before is forgotten.
    ///
    /// # Errors
    /// When there is nothing to sign in at, or the sign-in fails.
    pub async fn log_in(
        &self,
        name: &str,
        browser: Arc<dyn Browser>,
    ) -> Result<(), McpControlError> {
        let running = self.running()?;
        self.must_be_known(running, name)?;
        let config = running
            .manager
            .config(name)
            .ok_or_else(|| McpControlError::NotFound(name.to_owned()))?;
        // A manager of its own: in the session's nobody is at a browser, so that no server can open
        // pages by itself.
        let mut options = Options::new(running.environment.clone(), env!("CARGO_PKG_VERSION"));
        options.home.clone_from(&running.places.config_home);
        options.browser = Some(browser);
        let manager = Manager::new(options, Arc::new(Nobody));
        let config = ServerConfig {
            // Connected by the sign-in itself, not before it.
            disabled: true,
            ..config
        };
        manager.set_servers(IndexMap::from([(name.to_owned(), config)]));
        let outcome = manager.log_in(name).await;
        manager.shutdown().await;
        outcome?;
        self.reconnect(name).await
    }

    /// Gives a server's tokens back and forgets them. Says whether there were any.
    ///
    /// # Errors
    /// When there is no such server, or what is kept can't be read.
    pub async fn log_out(&self, name: &str) -> Result<bool, McpControlError> {
        let running = self.running()?;
        self.must_be_known(running, name)?;
        let any = running.manager.log_out(name).await?;
        running.offer_tools(&self.shared, Which::All);
        running.show(&self.shared);
        Ok(any)
    }

    /// Adds a server for this session, or puts it in the place of one of that name that was added
    /// before, and waits until it is connected or not.
    ///
    /// # Errors
    /// When the entry is wrong, policy forbids it, or it can't be connected.
    pub async fn add_server(&self, name: &str, written: &Value) -> Result<(), McpControlError> {
        let running = self.running()?;
        {
            let mut known = running.state.lock();
            let lookup = |name: &str| running.environment.variables.get(name).cloned();
            let config = entry::parse(name, written, &ConfigLocation::flag("session"), &lookup)?;
            if let Some(why) = config::refusal(name, &config, &known.settings.settings) {
                return Err(McpControlError::Forbidden(why));
            }
            known
                .dynamic
                .insert(name.to_owned(), (written.clone(), config));
        }
        running.connect();
        self.settled().await;
        running.offer_tools(&self.shared, Which::All);
        running.show(&self.shared);
        match running.manager.server(name).map(|status| status.state) {
            Some(State::Connected) => Ok(()),
            Some(State::Failed { reason }) => Err(McpControlError::NotConnected(reason)),
            Some(state) => Err(McpControlError::NotConnected(state.word().to_owned())),
            None => Err(McpControlError::NotFound(name.to_owned())),
        }
    }

    /// Switches a server off or on for this session. On means connected, when this returns.
    ///
    /// # Errors
    /// When there is no such server.
    pub async fn set_enabled(&self, name: &str, enabled: bool) -> Result<(), McpControlError> {
        let running = self.running()?;
        self.must_be_known(running, name)?;
        running.manager.set_enabled(name, enabled).await?;
        if enabled {
            let longest = std::time::Duration::from_secs(600);
            running.manager.settled(longest).await;
        }
        running.offer_tools(&self.shared, Which::All);
        running.show(&self.shared);
        Ok(())
    }

    /// The user's decision on a server of the project: saved, and the server started if it is a yes.
    ///
    /// # Errors
    /// When there is no such server, or the decision can't be saved.
    pub fn decide(&self, name: &str, approve: bool) -> Result<(), McpControlError> {
        let running = self.running()?;
        let entry = {
            let known = running.state.lock();
            let server = known.declared.find(name);
            server
                .map(|server| server.entry.clone())
                .ok_or_else(|| McpControlError::NotFound(name.to_owned()))?
        };
        Choices::new(&running.places).decide(name, &entry, approve)?;
        running.reload();
        Ok(())
    }

    fn must_be_known(&self, running: &Running, name: &str) -> Result<(), McpControlError> {
        if running.manager.server(name).is_some() {
            return Ok(());
        }
        let known = running.state.lock();
        match known
            .declared
            .find(name)
            .and_then(config::Declared::why_not)
        {
            Some(why) => Err(McpControlError::NotUsable {
                name: name.to_owned(),
                why,
            }),
            None => Err(McpControlError::NotFound(name.to_owned())),
        }
    }

    /// Replaces the servers that a host or the command line declared. Gives the names that came and went,
    /// and what is wrong with those that can't be used.
    pub async fn set_servers(
        &self,
        wanted: &Map<String, Value>,
    ) -> (Vec<String>, Vec<String>, IndexMap<String, String>) {
        let mut errors = IndexMap::new();
        let Ok(running) = self.running() else {
            return (Vec::new(), Vec::new(), errors);
        };
        {
            let mut known = running.state.lock();
            let lookup = |name: &str| running.environment.variables.get(name).cloned();
            let mut dynamic = IndexMap::new();
            for (name, written) in wanted {
                match entry::parse(
                    name,
                    written,
                    &ConfigLocation::flag("mcp_set_servers"),
                    &lookup,
                ) {
                    Ok(mut config) => {
                        fit_hosted(&mut config);
                        if let Some(why) = config::refusal(name, &config, &known.settings.settings)
                        {
                            errors.insert(name.clone(), why);
                        }
                        dynamic.insert(name.clone(), (written.clone(), config));
                    }
                    Err(error) => {
                        errors.insert(name.clone(), error.to_string());
                    }
                }
            }
            known.dynamic = dynamic;
            known.without_flags = true;
        }
        let set = running.connect();
        self.settled().await;
        running.offer_tools(&self.shared, Which::All);
        running.show(&self.shared);
        for name in &set.added {
            if let Some(status) = running.manager.server(name)
                && let Some(error) = server(status, Scope::Dynamic, Value::Null).error
            {
                errors.insert(name.clone(), error);
            }
        }
        (set.added, set.removed, errors)
    }

    /// Calls a tool by the name that the model uses, and gives the server's `CallToolResult`.
    ///
    /// # Errors
    /// When no connected server has it, or the call fails.
    pub async fn call(&self, name: &str, arguments: Value) -> Result<Value, McpControlError> {
        let running = self.running()?;
        let found = running.manager.tools().into_iter().find_map(|item| {
            let tool = item.item.get("name")?.as_str()?.to_owned();
            (tool_name(&item.server, &tool) == name).then_some((item.server, tool))
        });
        let Some((server, tool)) = found else {
            return Err(McpControlError::NoTool(name.to_owned()));
        };
        let called = running
            .manager
            .call_tool(&server, &tool, arguments, CallOptions::default());
        Ok(called.await?)
    }

    /// Reads a resource and gives the server's `ReadResourceResult`.
    ///
    /// # Errors
    /// When there is no such server, or it has no such resource.
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<Value, McpControlError> {
        let running = self.running()?;
        self.must_be_known(running, server)?;
        let read = running
            .caller
            .read_resource(server, uri, CancellationToken::new());
        Ok(read.await?)
    }

    /// Completions for an argument of a prompt, as its server gives them.
    ///
    /// # Errors
    /// When the server doesn't complete.
    pub async fn complete_prompt(
        &self,
        prompt: &McpPrompt,
        argument: &str,
        typed: &str,
    ) -> Result<Vec<String>, McpControlError> {
        let reference = json!({"type": "ref/prompt", "name": prompt.name});
        let result = self
            .running()?
            .manager
            .complete(&prompt.server, reference, argument, typed)
            .await?;
        let values = result
            .pointer("/completion/values")
            .and_then(Value::as_array);
        Ok(values
            .into_iter()
            .flatten()
            .filter_map(|value| value.as_str().map(lathe_tools::mcp_result::clean))
            .collect())
    }
}

impl Running {
    /// Reads the configuration again, and starts and ends what that changes.
    pub(super) fn reload(&self) {
        let declared = self.read_again();
        self.state.lock().declared = declared;
        self.connect();
    }
}

fn server(status: ServerStatus, scope: Scope, entry: Value) -> McpServer {
    let error = match &status.state {
        State::Failed { reason } => Some(reason.clone()),
        State::NeedsAuth => Some(format!(
            "it needs you to sign in: run `lathe mcp login {}`",
            status.name
        )),
        State::Pending | State::Connected | State::Disabled => None,
    };
    let text = |tool: &Value, key: &str| {
        let words = tool.get(key).and_then(Value::as_str).unwrap_or_default();
        lathe_tools::mcp_result::clean(words)
    };
    McpServer {
        scope: scope.name(),
        transport: status.transport,
        error,
        needs_approval: false,
        entry,
        info: status
            .description
            .as_ref()
            .map(|said| said.info.clone())
            .unwrap_or_default(),
        tools: status
            .tools
            .iter()
            .map(|tool| (text(tool, "name"), text(tool, "description")))
            .collect(),
        remarks: status.remarks.iter().map(ToString::to_string).collect(),
        state: status.state,
        name: status.name,
    }
}

/// An entry without the values of its environment and headers.
fn without_secrets(entry: &Value) -> Value {
    let mut shown = entry.clone();
    for field in ["env", "headers"] {
        if let Some(values) = shown.get_mut(field).and_then(Value::as_object_mut) {
            for (_, value) in values.iter_mut() {
                *value = "…".into();
            }
        }
    }
    if let Some(secret) = shown.pointer_mut("/oauth/clientSecret") {
        *secret = "…".into();
    }
    shown
}
