//! Subcommands that connect to servers: lists, sign-in, and calls by hand.

use super::edit::{shown, unknown};
use super::{CallArguments, ConfigArguments, ItemArguments, McpConfiguration};
use crate::commands::{exit_if, print};
use crate::error::{CliError, ErrorKind, Kinded as _, Outcome, notice};
use indexmap::IndexMap;
use lathe_mcp::auth::SystemBrowser;
use lathe_mcp::config::{Declared, Standing};
use lathe_mcp::{
    CallOptions, Change, Manager, Nobody, Options, ServerConfig, ServerItem, ServerStatus, State,
    text,
};
use lathe_tools::mcp_result;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

/// Longer than any server may take to start.
const LONGEST: Duration = Duration::from_secs(600);

/// Connections that end with this value.
struct Connected {
    manager: Manager,
}

impl Connected {
    /// Connects servers, and waits until each is connected or failed.
    async fn to(loaded: &McpConfiguration, servers: IndexMap<String, ServerConfig>) -> Self {
        let connected = Self {
            manager: Manager::new(options(loaded), Arc::new(Nobody)),
        };
        connected.manager.set_servers(servers);
        connected.manager.settled(LONGEST).await;
        connected
    }

    /// Connects the server of a name.
    async fn one(
        loaded: &McpConfiguration,
        from: &ConfigArguments,
        name: &str,
    ) -> Result<Self, CliError> {
        let servers = loaded.servers(&from.mcp_config)?;
        let server = servers.find(name).ok_or_else(|| unknown(loaded, name))?;
        let config = server.config().ok_or_else(|| not_ready(server))?;
        let config = ServerConfig {
            disabled: false,
            ..config
        };
        let connected = Self::to(loaded, IndexMap::from([(name.to_owned(), config)])).await;
        let problem = connected
            .manager
            .server(name)
            .and_then(|status| error_of(&status));
        match problem {
            Some(problem) => {
                connected.end().await;
                Err(CliError::failure(problem).about(name))
            }
            None => Ok(connected),
        }
    }

    async fn end(self) {
        self.manager.shutdown().await;
    }
}

fn options(loaded: &McpConfiguration) -> Options {
    let mut options = Options::new(loaded.environment.clone(), env!("CARGO_PKG_VERSION"));
    options.home.clone_from(&loaded.places.config_home);
    options
}

fn error_of(status: &ServerStatus) -> Option<String> {
    match &status.state {
        State::Failed { reason } => Some(reason.clone()),
        State::NeedsAuth => Some(format!(
            "it needs you to sign in: run `lathe mcp login {}`",
            status.name
        )),
        State::Pending => Some("it is still being connected".to_owned()),
        State::Connected | State::Disabled => None,
    }
}

/// The error of a server that can't be started.
fn not_ready(server: &Declared) -> CliError {
    CliError::failure(server.why_not().unwrap_or_default()).about(&server.name)
}

/// A server and the result of connecting to it.
struct Row {
    name: String,
    scope: &'static str,
    transport: &'static str,
    status: &'static str,
    error: Option<String>,
    tools: Option<Vec<String>>,
    what: String,
}

impl Row {
    fn of(server: &Declared, status: Option<&ServerStatus>) -> Self {
        let what = ["url", "command"]
            .into_iter()
            .find_map(|key| server.entry.get(key)?.as_str())
            .unwrap_or_default();
        let mut what = text::line(what, 200);
        for word in server
            .entry
            .get("args")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let _ = write!(what, " {}", text::line(word.as_str().unwrap_or("…"), 200));
        }
        let (state, error) = match (&server.standing, status) {
            (Standing::Ready(_), Some(status)) => (status.state.word(), error_of(status)),
            (Standing::Broken(error), _) => ("failed", Some(error.to_string())),
            _ => ("disabled", server.why_not()),
        };
        Self {
            name: server.name.clone(),
            scope: server.scope.name(),
            transport: server.transport(),
            status: state,
            error,
            tools: status
                .filter(|status| status.state == State::Connected)
                .map(|status| {
                    let names = status
                        .tools
                        .iter()
                        .filter_map(|tool| tool.get("name")?.as_str());
                    names.map(|name| text::line(name, 200)).collect()
                }),
            what,
        }
    }

    fn json(&self) -> Value {
        let mut row = json!({
            "name": self.name, "scope": self.scope, "transport": self.transport,
            "status": self.status,
        });
        if let Some(error) = &self.error {
            row["error"] = error.as_str().into();
        }
        if let Some(tools) = &self.tools {
            row["tools"] = tools.clone().into();
        }
        row
    }

    fn line(&self) -> String {
        let mark = match self.status {
            "connected" => "✓",
            "disabled" => "·",
            "needs-auth" | "pending" => "!",
            _ => "✗",
        };
        let mut line = format!(
            "{mark} {} ({}, {}): {}",
            self.name, self.scope, self.transport, self.what
        );
        let _ = match (&self.error, &self.tools) {
            (Some(error), _) => write!(line, "\n    {}: {}", self.status, text::clean(error)),
            (None, Some(tools)) => write!(line, "\n    {}, {} tools", self.status, tools.len()),
            (None, None) => write!(line, "\n    {}", self.status),
        };
        line
    }
}

/// `lathe mcp list`.
pub(super) async fn list(loaded: &McpConfiguration, as_json: bool) -> Result<String, CliError> {
    let servers = loaded.servers(&[])?;
    let ready: IndexMap<String, ServerConfig> = servers
        .list
        .iter()
        .filter(|server| matches!(server.standing, Standing::Ready(_)))
        .filter_map(|server| Some((server.name.clone(), server.config()?)))
        .collect();
    let connected = Connected::to(loaded, ready).await;
    let statuses = connected.manager.status();
    connected.end().await;
    let rows: Vec<Row> = servers
        .list
        .iter()
        .map(|server| {
            let status = statuses.iter().find(|status| status.name == server.name);
            Row::of(server, status)
        })
        .collect();
    for problem in &servers.problems {
        notice(&problem.to_string());
    }
    if as_json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        return Ok(json!({"servers": rows}).to_string());
    }
    if rows.is_empty() {
        return Ok("There are no MCP servers. `lathe mcp add NAME -- COMMAND` adds one, `lathe mcp import` copies them from another client.".to_owned());
    }
    let lines: Vec<String> = rows.iter().map(Row::line).collect();
    Ok(lines.join("\n"))
}

/// `lathe mcp get`.
pub(super) async fn get(loaded: &McpConfiguration, name: &str, as_json: bool) -> Outcome {
    let servers = loaded.servers(&[])?;
    let server = servers
        .find(name)
        .ok_or_else(|| unknown(loaded, name).with_kind(ErrorKind::Usage))?;
    let mut status = None;
    let mut log = String::new();
    if let Standing::Ready(config) = &server.standing {
        let one = IndexMap::from([(name.to_owned(), config.clone())]);
        let connected = Connected::to(loaded, one).await;
        status = connected.manager.server(name);
        connected.end().await;
        if status
            .as_ref()
            .is_some_and(|status| matches!(status.state, State::Failed { .. }))
        {
            log = lathe_mcp::log::read(&loaded.places.config_home, name).unwrap_or_default();
        }
    }
    let row = Row::of(server, status.as_ref());
    if as_json {
        let mut all = row.json();
        all["config"] = shown(&server.entry);
        if let Some(file) = &server.file {
            all["file"] = file.display().to_string().into();
        }
        if let Some(said) = status
            .as_ref()
            .and_then(|status| status.description.as_ref())
        {
            all["serverInfo"] = said.info.clone();
            all["protocolVersion"] = said.protocol_version.as_str().into();
        }
        return print(&format!("{all}\n"));
    }
    let mut said = format!("{}\n", row.line());
    if let Some(file) = &server.file {
        let _ = writeln!(said, "    in {}", file.display());
    }
    let entry = serde_json::to_string_pretty(&shown(&server.entry)).unwrap_or_default();
    for line in entry.lines() {
        let _ = writeln!(said, "    {}", text::clean(line));
    }
    for tool in row.tools.iter().flatten() {
        let _ = writeln!(said, "    - {tool}");
    }
    let last: Vec<&str> = log.lines().rev().take(10).collect();
    if !last.is_empty() {
        let _ = writeln!(
            said,
            "    the end of its log (`lathe mcp logs {name}` shows all):"
        );
        for line in last.iter().rev() {
            let _ = writeln!(said, "    | {}", text::line(line, 300));
        }
    }
    print(&said)
}

/// `lathe mcp login`.
pub(super) async fn login(loaded: &McpConfiguration, name: &str) -> Result<String, CliError> {
    let servers = loaded.servers(&[])?;
    let server = servers.find(name).ok_or_else(|| unknown(loaded, name))?;
    let config = server.config().ok_or_else(|| not_ready(server))?;
    if config.transport.remote().is_none() {
        return Err(CliError::failure(format!(
            "{name} is a local server; it has no sign-in"
        )));
    }
    let mut options = options(loaded);
    options.browser = Some(Arc::new(SystemBrowser::new(loaded.environment.clone())));
    let manager = Manager::new(options, Arc::new(Nobody));
    let config = ServerConfig {
        // Connected by the sign-in itself, not before it.
        disabled: true,
        ..config
    };
    manager.set_servers(IndexMap::from([(name.to_owned(), config)]));
    let mut changes = manager.changes();
    let outcome = tokio::select! {
        outcome = manager.log_in(name) => outcome.or_failure(),
        _ = tokio::signal::ctrl_c() => Err(CliError::failure("sign-in cancelled")),
    };
    manager.shutdown().await;
    notices(&mut changes);
    outcome?;
    Ok(format!("Signed in at the MCP server {name}."))
}

/// Prints notices of the manager.
fn notices(changes: &mut broadcast::Receiver<Change>) {
    while let Ok(change) = changes.try_recv() {
        if let Change::Notice { text, .. } = change {
            notice(&text);
        }
    }
}

/// `lathe mcp logout`.
pub(super) async fn logout(loaded: &McpConfiguration, name: &str) -> Result<String, CliError> {
    let servers = loaded.servers(&[])?;
    let server = servers.find(name).ok_or_else(|| unknown(loaded, name))?;
    let config = server.config().ok_or_else(|| not_ready(server))?;
    let manager = Manager::new(options(loaded), Arc::new(Nobody));
    let config = ServerConfig {
        disabled: true,
        ..config
    };
    manager.set_servers(IndexMap::from([(name.to_owned(), config)]));
    let mut changes = manager.changes();
    let outcome = manager.log_out(name).await.or_failure();
    manager.shutdown().await;
    notices(&mut changes);
    Ok(if outcome? {
        format!("Signed out of the MCP server {name}.")
    } else {
        format!("There was no sign-in at the MCP server {name}.")
    })
}

/// `lathe mcp logs`.
pub(super) fn logs(loaded: &McpConfiguration, name: &str) -> Result<String, CliError> {
    let words = lathe_mcp::log::read(&loaded.places.config_home, name).map_err(|error| {
        let file = lathe_mcp::log::path(&loaded.places.config_home, name);
        CliError::failure(format!("{} can't be read: {error}", file.display()))
    })?;
    if !words.is_empty() {
        return Ok(words);
    }
    // The log of a removed server can still be read.
    match loaded.servers(&[])?.find(name) {
        Some(_) => Ok(format!("The log of the MCP server {name} is empty.")),
        None => Err(unknown(loaded, name)),
    }
}

/// The items to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tools,
    Resources,
    Prompts,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
        }
    }

    /// The line of an item: its server, its name, and its description.
    fn line(self, item: &ServerItem) -> String {
        let field = |key: &str| item.item.get(key).and_then(Value::as_str);
        let name = match self {
            Self::Resources => field("uri").or(field("uriTemplate")),
            Self::Tools | Self::Prompts => field("name"),
        };
        let mut about = field("description").unwrap_or_default().to_owned();
        if self == Self::Prompts {
            let arguments = item.item.get("arguments").and_then(Value::as_array);
            for argument in arguments.into_iter().flatten() {
                let name = argument.get("name").and_then(Value::as_str).unwrap_or("?");
                let required = argument.get("required") == Some(&Value::Bool(true));
                let _ = if required {
                    write!(about, " <{name}>")
                } else {
                    write!(about, " [{name}]")
                };
            }
        }
        let name = text::line(name.unwrap_or("?"), 200);
        format!("{}: {name}  {}\n", item.server, text::line(&about, 160))
    }
}

/// `lathe mcp tools`, `resources`, `prompts`.
pub(super) async fn items(
    loaded: &McpConfiguration,
    arguments: &ItemArguments,
    kind: Kind,
) -> Outcome {
    let connected = match &arguments.server {
        Some(name) => Connected::one(loaded, &arguments.from, name).await?,
        None => {
            let servers = loaded.servers(&arguments.from.mcp_config)?;
            Connected::to(loaded, servers.configs()).await
        }
    };
    let manager = &connected.manager;
    let found: Vec<ServerItem> = match kind {
        Kind::Tools => manager.tools(),
        Kind::Prompts => manager.prompts(),
        Kind::Resources => {
            let mut all = manager.resources();
            all.extend(manager.resource_templates());
            all
        }
    };
    let mut failed = false;
    for status in manager.status() {
        if let Some(error) = error_of(&status) {
            failed = true;
            notice(&format!("{}: {error}", status.name));
        }
    }
    connected.end().await;
    if arguments.json {
        let all: Vec<Value> = found
            .iter()
            .map(|item| {
                let mut entry = item.item.clone();
                entry["server"] = item.server.as_str().into();
                entry
            })
            .collect();
        print(&format!("{}\n", json!({kind.word(): all})))?;
    } else {
        let lines: String = found.iter().map(|item| kind.line(item)).collect();
        print(&lines)?;
    }
    Ok(exit_if(!(failed && found.is_empty())))
}

/// `lathe mcp call`. Fails if the tool reports an error.
pub(super) async fn call(loaded: &McpConfiguration, arguments: &CallArguments) -> Outcome {
    let (server, tool) = (arguments.server.as_str(), arguments.tool.as_str());
    let input = object(arguments.arguments.as_deref())?;
    let connected = Connected::one(loaded, &arguments.from, server).await?;
    let known: Vec<String> = connected
        .manager
        .tools()
        .iter()
        .filter_map(|item| item.item.get("name")?.as_str().map(str::to_owned))
        .collect();
    if !known.iter().any(|name| name == tool) {
        connected.end().await;
        return Err(CliError::usage(format!("{server} has no tool {tool}"))
            .hint(format!("it has {}", known.join(", "))));
    }
    let result = connected
        .manager
        .call_tool(server, tool, input, CallOptions::default())
        .await;
    connected.end().await;
    let result = result.map_err(|error| CliError::failure(format!("{tool} failed: {error}")))?;
    show(loaded, &result, arguments.json, mcp_result::of_call)?;
    Ok(exit_if(result.get("isError") != Some(&Value::Bool(true))))
}

/// `lathe mcp resources SERVER --read URI`.
pub(super) async fn read(
    loaded: &McpConfiguration,
    arguments: &ItemArguments,
    server: &str,
    uri: &str,
) -> Outcome {
    let connected = Connected::one(loaded, &arguments.from, server).await?;
    let result = connected.manager.read_resource(server, uri).await;
    connected.end().await;
    let result =
        result.map_err(|error| CliError::failure(format!("{uri} can't be read: {error}")))?;
    show(loaded, &result, arguments.json, mcp_result::of_resource)
}

/// `lathe mcp prompts SERVER --get NAME`.
pub(super) async fn prompt(
    loaded: &McpConfiguration,
    arguments: &ItemArguments,
    server: &str,
    name: &str,
    filled: Option<&str>,
) -> Outcome {
    let filled = object(filled)?;
    let connected = Connected::one(loaded, &arguments.from, server).await?;
    let result = connected.manager.get_prompt(server, name, filled).await;
    connected.end().await;
    let result = result.map_err(|error| CliError::failure(format!("{name} failed: {error}")))?;
    if arguments.json {
        return print(&format!("{result}\n"));
    }
    let mut words = String::new();
    let messages = result.get("messages").and_then(Value::as_array);
    for message in messages.into_iter().flatten() {
        let role = message.get("role").and_then(Value::as_str);
        let said = message.pointer("/content/text").and_then(Value::as_str);
        let said = text::clean(said.unwrap_or("(not text)"));
        let _ = writeln!(words, "{}: {said}", role.unwrap_or("user"));
    }
    print(&words)
}

/// Prints a result: as JSON, or its text, with other parts saved beside the logs.
fn show(
    loaded: &McpConfiguration,
    result: &Value,
    as_json: bool,
    make: fn(&Value, &mcp_result::ResultStore) -> lathe_tools::ToolOutput,
) -> Outcome {
    if as_json {
        return print(&format!("{result}\n"));
    }
    let folder = loaded.places.config_home.join("mcp-results");
    let mut place = mcp_result::ResultStore::new(&folder, &uuid::Uuid::new_v4().to_string(), None);
    // Output for the user is not shortened.
    place.most_bytes = usize::MAX;
    let output = make(result, &place);
    let mut words = output.content.text();
    if words.is_empty() {
        words.push_str("(images only; --json shows them)");
    }
    words.push('\n');
    print(&words)
}

/// Arguments as a JSON object.
fn object(written: Option<&str>) -> Result<Value, CliError> {
    let text = match written {
        None => return Ok(json!({})),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .or_usage()
                .map_err(|error| error.about("standard input can't be read"))?;
            text
        }
        Some(text) => text.to_owned(),
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(CliError::usage(
            "the arguments must be a JSON object, such as '{\"message\": \"hi\"}'",
        )),
        Err(error) => Err(CliError::usage(format!(
            "the arguments are not JSON: {error}"
        ))),
    }
}
