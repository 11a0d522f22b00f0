//! MCP servers that live in the host's own process: their JSON-RPC messages travel inside control
//! requests (`mcp_message`), and their tools are tools like any other.
//!
//! A server is declared first and connected after the host's `initialize` was answered. One that can't
//! be connected is shown as failed with the reason; it never ends the session. Servers of other kinds
//! are declared too, so that nobody takes their silence for success.

use super::host::Host;
use futures::future::BoxFuture;
use indexmap::IndexMap;
use lathe_engine::SessionHandle;
use lathe_protocol::ids::RequestId;
use lathe_settings::Environment;
use lathe_tools::DynTool;
use lathe_tools::mcp_tool::{McpCaller, McpTool, McpToolInfo};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The version of MCP that we speak.
const PROTOCOL_VERSION: &str = "2025-06-18";
/// How long a handshake may take unless `MCP_TIMEOUT` says otherwise.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// How many pages of `tools/list` are read: a server that never ends its list is cut off.
const MOST_PAGES: usize = 100;

/// The MCP servers of a session. Cheap to clone.
#[derive(Clone)]
pub struct Servers {
    inner: Arc<Inner>,
}

struct Inner {
    host: Host,
    servers: Mutex<IndexMap<String, Server>>,
    connect_limit: Duration,
    call_limit: Option<Duration>,
    next_id: AtomicU64,
    /// Rung when a server stopped being pending.
    settled: Notify,
}

#[derive(Debug, Clone)]
struct Server {
    /// The configuration; `None` for one that lives in the host.
    config: Option<Value>,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Pending,
    Connected {
        info: Value,
        tools: Vec<McpToolInfo>,
    },
    Failed(String),
    Disabled,
}

impl State {
    fn word(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected { .. } => "connected",
            Self::Failed(_) => "failed",
            Self::Disabled => "disabled",
        }
    }
}

/// Reads the values of `--mcp-config`: each JSON or a file with `{"mcpServers": {…}}`.
///
/// # Errors
/// In words, naming the value that is wrong.
pub fn read_configs(
    values: &[String],
    environment: &Environment,
) -> Result<IndexMap<String, Value>, String> {
    let mut servers = IndexMap::new();
    for value in values {
        let trimmed = value.trim();
        let text = if trimmed.starts_with('{') {
            trimmed.to_owned()
        } else {
            let path = environment.resolve(trimmed);
            std::fs::read_to_string(&path).map_err(|error| {
                format!("--mcp-config: {} can't be read: {error}", path.display())
            })?
        };
        let parsed: Value = serde_json::from_str(&text)
            .map_err(|error| format!("--mcp-config: not JSON: {error}"))?;
        let Some(Value::Object(entries)) = parsed.get("mcpServers") else {
            return Err("--mcp-config: an object with \"mcpServers\" is wanted".to_owned());
        };
        for (name, config) in entries {
            if !config.is_object() {
                return Err(format!("--mcp-config: mcpServers.{name} is not an object"));
            }
            servers.insert(name.clone(), config.clone());
        }
    }
    Ok(servers)
}

impl Servers {
    /// No servers yet.
    #[must_use]
    pub fn new(host: Host, environment: &Environment) -> Self {
        let millis = |name: &str| {
            let value = environment.variable(name)?.parse().ok()?;
            Some(Duration::from_millis(value)).filter(|limit| !limit.is_zero())
        };
        Self {
            inner: Arc::new(Inner {
                host,
                servers: Mutex::default(),
                connect_limit: millis("MCP_TIMEOUT").unwrap_or(CONNECT_LIMIT),
                call_limit: millis("MCP_TOOL_TIMEOUT"),
                next_id: AtomicU64::new(1),
                settled: Notify::new(),
            }),
        }
    }

    /// Declares a server. One that doesn't live in the host fails at once.
    pub fn declare(&self, name: &str, config: &Value) {
        let kind = config.get("type").and_then(Value::as_str);
        let server = if kind == Some("sdk") {
            Server {
                config: None,
                state: State::Pending,
            }
        } else {
            let kind = kind.unwrap_or("stdio");
            Server {
                config: Some(config.clone()),
                state: State::Failed(format!(
                    "MCP servers of the type {kind} can't be connected by this version"
                )),
            }
        };
        self.inner.servers.lock().insert(name.to_owned(), server);
    }

    /// The servers that are declared and not connected yet.
    #[must_use]
    pub fn pending(&self) -> Vec<String> {
        let servers = self.inner.servers.lock();
        let pending = servers
            .iter()
            .filter(|(_, server)| matches!(server.state, State::Pending));
        pending.map(|(name, _)| name.clone()).collect()
    }

    /// Waits until no server is being connected.
    pub async fn settled(&self) {
        loop {
            let settled = self.inner.settled.notified();
            tokio::pin!(settled);
            // Listening begins before the look, so that nothing is missed in between.
            settled.as_mut().enable();
            if self.pending().is_empty() {
                return;
            }
            settled.await;
        }
    }

    /// Connects one server: the handshake and its list of tools.
    ///
    /// # Errors
    /// In words; the server is shown as failed then.
    pub async fn connect(&self, name: &str) -> Result<(), String> {
        let is_here = match self.inner.servers.lock().get(name) {
            None => return Err(format!("Server not found: {name}")),
            Some(server) => server.config.is_none(),
        };
        let outcome = if is_here {
            let limit = self.inner.connect_limit;
            tokio::time::timeout(limit, self.handshake(name))
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {} ms", limit.as_millis())))
        } else {
            Err("servers outside the host can't be connected by this version".to_owned())
        };
        let mut servers = self.inner.servers.lock();
        // It may have been removed meanwhile.
        let Some(server) = servers.get_mut(name) else {
            return Err(format!("Server not found: {name}"));
        };
        let outcome = match outcome {
            Ok((info, tools)) => {
                server.state = State::Connected { info, tools };
                Ok(())
            }
            Err(error) => {
                server.state = State::Failed(error.clone());
                Err(error)
            }
        };
        drop(servers);
        self.inner.settled.notify_waiters();
        outcome
    }

    async fn handshake(&self, name: &str) -> Result<(Value, Vec<McpToolInfo>), String> {
        let hello = json!({
            "protocolVersion": PROTOCOL_VERSION, "capabilities": {},
            "clientInfo": {"name": "lathe", "version": env!("CARGO_PKG_VERSION")},
        });
        let answer = self.request(name, "initialize", hello).await?;
        self.notify(name, "notifications/initialized").await?;
        let info = answer.get("serverInfo").cloned().unwrap_or(Value::Null);
        let mut tools: Vec<McpToolInfo> = Vec::new();
        let mut cursor: Option<Value> = None;
        for _ in 0..MOST_PAGES {
            let params = cursor
                .take()
                .map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            let page = self.request(name, "tools/list", params).await?;
            let entries = page.get("tools").and_then(Value::as_array);
            tools.extend(entries.into_iter().flatten().filter_map(McpToolInfo::parse));
            match page.get("nextCursor") {
                Some(next) if !next.is_null() => cursor = Some(next.clone()),
                _ => break,
            }
        }
        Ok((info, tools))
    }

    async fn request(&self, server: &str, method: &str, params: Value) -> Result<Value, String> {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut answer = self.send(server, message).await?;
        if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
            let words = error.get("message").and_then(Value::as_str);
            return Err(words.map_or_else(|| error.to_string(), str::to_owned));
        }
        Ok(answer
            .get_mut("result")
            .map(Value::take)
            .unwrap_or_default())
    }

    async fn notify(&self, server: &str, method: &str) -> Result<(), String> {
        let message = json!({"jsonrpc": "2.0", "method": method});
        self.send(server, message).await.map(|_| ())
    }

    async fn send(&self, server: &str, message: Value) -> Result<Value, String> {
        let request = json!({"subtype": "mcp_message", "server_name": server, "message": message});
        let mut answer = self.inner.host.ask(RequestId::random(), request).await?;
        Ok(answer
            .get_mut("mcp_response")
            .map(Value::take)
            .unwrap_or_default())
    }

    /// Switches a server off, or on again. Gives whether it must be connected now.
    ///
    /// # Errors
    /// When there is no such server.
    pub fn toggle(&self, name: &str, enabled: bool) -> Result<bool, String> {
        let mut servers = self.inner.servers.lock();
        let Some(server) = servers.get_mut(name) else {
            return Err(format!("Server not found: {name}"));
        };
        match (enabled, &server.state) {
            (false, _) => {
                server.state = State::Disabled;
                Ok(false)
            }
            (true, State::Connected { .. }) => Ok(false),
            (true, _) => {
                server.state = State::Pending;
                Ok(true)
            }
        }
    }

    /// Replaces the set of servers. Gives the names that came and went.
    pub fn replace(&self, wanted: &Map<String, Value>) -> (Vec<String>, Vec<String>) {
        let removed: Vec<String> = {
            let mut servers = self.inner.servers.lock();
            let gone = servers.keys().filter(|name| !wanted.contains_key(*name));
            let gone: Vec<String> = gone.cloned().collect();
            for name in &gone {
                servers.shift_remove(name);
            }
            gone
        };
        let mut added = Vec::new();
        for (name, config) in wanted {
            if !self.inner.servers.lock().contains_key(name) {
                self.declare(name, config);
                added.push(name.clone());
            }
        }
        (added, removed)
    }

    /// Why a server can't be used, if it can't.
    #[must_use]
    pub fn failure(&self, name: &str) -> Option<String> {
        match &self.inner.servers.lock().get(name)?.state {
            State::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Gives the session the tools of the connected servers, and the state of all.
    pub fn offer(&self, session: &SessionHandle) {
        let servers = self.inner.servers.lock();
        let caller: Arc<dyn McpCaller> = Arc::new(self.clone());
        let mut tools: Vec<Arc<dyn DynTool>> = Vec::new();
        let mut shown = Vec::new();
        for (name, server) in servers.iter() {
            shown.push(json!({"name": name, "status": server.state.word()}));
            if let State::Connected { tools: list, .. } = &server.state {
                for info in list {
                    tools.push(Arc::new(McpTool::new(name, info.clone(), caller.clone())));
                }
            }
        }
        drop(servers);
        session.set_mcp(tools, shown);
    }

    /// All servers, as `mcp_status` shows them.
    #[must_use]
    pub fn status(&self) -> Vec<Value> {
        let servers = self.inner.servers.lock();
        let mut all = Vec::new();
        for (name, server) in servers.iter() {
            let mut entry = Map::new();
            entry.insert("name".to_owned(), name.as_str().into());
            entry.insert("status".to_owned(), server.state.word().into());
            match &server.state {
                State::Connected { info, tools } => {
                    entry.insert("serverInfo".to_owned(), info.clone());
                    let tools = tools.iter().map(McpToolInfo::status).collect();
                    entry.insert("tools".to_owned(), Value::Array(tools));
                }
                State::Failed(error) => {
                    entry.insert("error".to_owned(), error.as_str().into());
                }
                State::Pending | State::Disabled => {}
            }
            if let Some(config) = &server.config {
                entry.insert("config".to_owned(), config.clone());
            }
            entry.insert("scope".to_owned(), "dynamic".into());
            all.push(Value::Object(entry));
        }
        all
    }

    /// The tools with their sizes in tokens, as `get_context_usage` shows them.
    #[must_use]
    pub fn tool_sizes(&self) -> Vec<Value> {
        let servers = self.inner.servers.lock();
        let mut all = Vec::new();
        for (name, server) in servers.iter() {
            let State::Connected { tools, .. } = &server.state else {
                continue;
            };
            for tool in tools {
                let bytes = tool.description.len() + tool.input_schema.to_string().len();
                all.push(json!({
                    "name": lathe_tools::mcp_tool::tool_name(name, &tool.name),
                    "serverName": name, "tokens": bytes / 4, "isLoaded": true,
                }));
            }
        }
        all
    }

    /// Reads a resource of a connected server.
    ///
    /// # Errors
    /// When there is no such server, or it has no such resource.
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<Value, String> {
        if !self.inner.servers.lock().contains_key(server) {
            return Err(format!("Server not found: {server}"));
        }
        self.request(server, "resources/read", json!({"uri": uri}))
            .await
    }

    /// Calls a tool by the name that the model uses.
    ///
    /// # Errors
    /// When no connected server has it, or the call fails.
    pub async fn call_by_name(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let found = {
            let servers = self.inner.servers.lock();
            servers.iter().find_map(|(server, entry)| {
                let State::Connected { tools, .. } = &entry.state else {
                    return None;
                };
                let tool = tools
                    .iter()
                    .find(|tool| lathe_tools::mcp_tool::tool_name(server, &tool.name) == name)?;
                Some((server.clone(), tool.name.clone()))
            })
        };
        match found {
            Some((server, tool)) => self.call(&server, &tool, arguments, "").await,
            None => Err(format!("no connected MCP server has the tool {name}")),
        }
    }
}

impl McpCaller for Servers {
    fn call<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        arguments: Value,
        tool_use_id: &'a str,
    ) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            let mut params = json!({"name": tool, "arguments": arguments});
            if !tool_use_id.is_empty()
                && let Some(fields) = params.as_object_mut()
            {
                let meta = json!({"claudecode/toolUseId": tool_use_id});
                fields.insert("_meta".to_owned(), meta);
            }
            let calling = self.request(server, "tools/call", params);
            match self.inner.call_limit {
                Some(limit) => tokio::time::timeout(limit, calling)
                    .await
                    .unwrap_or_else(|_| Err(format!("no answer within {} ms", limit.as_millis()))),
                None => calling.await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn environment(cwd: &Path) -> Environment {
        Environment {
            variables: BTreeMap::new(),
            home: None,
            cwd: cwd.to_owned(),
        }
    }

    #[test]
    fn configurations_come_as_json_and_as_files_and_mistakes_are_named() {
        let folder = std::env::temp_dir().join(format!("lathe-mcp-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let environment = environment(&folder);
        std::fs::write(
            folder.join("mcp.json"),
            r#"{"mcpServers":{"b":{"command":"x"}}}"#,
        )
        .unwrap();
        let inline = r#"{"mcpServers":{"a":{"type":"sdk","name":"a"}}}"#.to_owned();
        let servers = read_configs(&[inline, "mcp.json".to_owned()], &environment).unwrap();
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["a", "b"]);
        for (wrong, word) in [
            ("{", "not JSON"),
            ("{}", "mcpServers"),
            (r#"{"mcpServers":{"a":1}}"#, "mcpServers.a"),
            ("missing.json", "missing.json"),
        ] {
            let error = read_configs(&[wrong.to_owned()], &environment).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_server_outside_the_host_fails_with_the_reason_and_an_unknown_one_is_not_found() {
        let (host, _writer) = Host::start(std::io::sink()).unwrap();
        let servers = Servers::new(host.clone(), &environment(Path::new("/")));
        servers.declare("far", &json!({"type": "http", "url": "http://x"}));
        servers.declare("near", &json!({"type": "sdk"}));
        assert_eq!(servers.pending(), ["near"]);
        assert!(servers.failure("far").unwrap().contains("http"));
        assert!(servers.connect("none").await.unwrap_err().contains("none"));
        // The host is gone: the handshake fails instead of waiting.
        host.close();
        assert_eq!(servers.connect("near").await.unwrap_err(), "Stream closed");
        servers.settled().await;
        let status = servers.status();
        assert_eq!(status[1]["status"], "failed");
        assert!(status[1].get("config").is_none() && status[0].get("config").is_some());
    }
}
