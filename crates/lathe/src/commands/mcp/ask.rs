//! Looking at servers, signing in, and asking them things by hand.

use super::edit::{shown, unknown};
use super::{ConfigArguments, Ground, ItemArguments};
use crate::commands::{finish, print};
use crate::complain;
use indexmap::IndexMap;
use lathe_headless::exit::Exit;
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
    async fn to(ground: &Ground, servers: IndexMap<String, ServerConfig>) -> Self {
        let connected = Self {
            manager: Manager::new(options(ground), Arc::new(Nobody)),
        };
        connected.manager.set_servers(servers);
        connected.manager.settled(LONGEST).await;
        connected
    }

    /// Connects the server of a name.
    async fn one(ground: &Ground, from: &ConfigArguments, name: &str) -> Result<Self, String> {
        let servers = ground.servers(&from.mcp_config)?;
        let server = servers.find(name).ok_or_else(|| unknown(ground, name))?;
        let Some(config) = server.config() else {
            return Err(format!("{name}: {}", server.why_not().unwrap_or_default()));
        };
        let config = ServerConfig {
            disabled: false,
            ..config
        };
        let connected = Self::to(ground, IndexMap::from([(name.to_owned(), config)])).await;
        let problem = connected
            .manager
            .server(name)
            .and_then(|status| error_of(&status));
        match problem {
            Some(problem) => {
                connected.end().await;
                Err(format!("{name}: {problem}"))
            }
            None => Ok(connected),
        }
    }

    async fn end(self) {
        self.manager.shutdown().await;
    }
}

fn options(ground: &Ground) -> Options {
    let mut options = Options::new(ground.environment.clone(), env!("CARGO_PKG_VERSION"));
    options.home.clone_from(&ground.places.config_home);
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

/// A server with what became of the try.
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
pub(super) async fn list(ground: &Ground, as_json: bool) -> Result<String, String> {
    let servers = ground.servers(&[])?;
    let ready: IndexMap<String, ServerConfig> = servers
        .list
        .iter()
        .filter(|server| matches!(server.standing, Standing::Ready(_)))
        .filter_map(|server| Some((server.name.clone(), server.config()?)))
        .collect();
    let connected = Connected::to(ground, ready).await;
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
        complain(problem);
    }
    if as_json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        return Ok(json!({"servers": rows}).to_string());
    }
    if rows.is_empty() {
        return Ok("There are no MCP servers. `lathe mcp add NAME -- COMMAND` adds one, `lathe mcp import` takes them over from another client.".to_owned());
    }
    let lines: Vec<String> = rows.iter().map(Row::line).collect();
    Ok(lines.join("\n"))
}

/// `lathe mcp get`.
pub(super) async fn get(ground: &Ground, name: &str, as_json: bool) -> Exit {
    let servers = match ground.servers(&[]) {
        Ok(servers) => servers,
        Err(error) => return finish(Err(error), Exit::Failure),
    };
    let Some(server) = servers.find(name) else {
        return finish(Err(unknown(ground, name)), Exit::Usage);
    };
    let mut status = None;
    let mut log = String::new();
    if let Standing::Ready(config) = &server.standing {
        let one = IndexMap::from([(name.to_owned(), config.clone())]);
        let connected = Connected::to(ground, one).await;
        status = connected.manager.server(name);
        connected.end().await;
        if status
            .as_ref()
            .is_some_and(|status| matches!(status.state, State::Failed { .. }))
        {
            log = lathe_mcp::log::read(&ground.places.config_home, name).unwrap_or_default();
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
            "    its last words (`lathe mcp logs {name}` shows all):"
        );
        for line in last.iter().rev() {
            let _ = writeln!(said, "    | {}", text::line(line, 300));
        }
    }
    print(&said)
}

/// `lathe mcp login`.
pub(super) async fn login(ground: &Ground, name: &str) -> Result<String, String> {
    let servers = ground.servers(&[])?;
    let server = servers.find(name).ok_or_else(|| unknown(ground, name))?;
    let config = server
        .config()
        .ok_or_else(|| format!("{name}: {}", server.why_not().unwrap_or_default()))?;
    if config.transport.remote().is_none() {
        return Err(format!(
            "{name} is a local server; there is nothing to sign in at"
        ));
    }
    let mut options = options(ground);
    options.browser = Some(Arc::new(SystemBrowser::new(ground.environment.clone())));
    let manager = Manager::new(options, Arc::new(Nobody));
    let config = ServerConfig {
        // Connected by the sign-in itself, not before it.
        disabled: true,
        ..config
    };
    manager.set_servers(IndexMap::from([(name.to_owned(), config)]));
    let mut changes = manager.changes();
    let outcome = tokio::select! {
        outcome = manager.log_in(name) => outcome.map_err(|error| error.to_string()),
        _ = tokio::signal::ctrl_c() => Err("stopped".to_owned()),
    };
    manager.shutdown().await;
    notices(&mut changes);
    outcome?;
    Ok(format!("Signed in at the MCP server {name}."))
}

/// Says what a person should know.
fn notices(changes: &mut broadcast::Receiver<Change>) {
    while let Ok(change) = changes.try_recv() {
        if let Change::Notice { text, .. } = change {
            complain(&text);
        }
    }
}

/// `lathe mcp logout`.
pub(super) async fn logout(ground: &Ground, name: &str) -> Result<String, String> {
    let servers = ground.servers(&[])?;
    let server = servers.find(name).ok_or_else(|| unknown(ground, name))?;
    let config = server
        .config()
        .ok_or_else(|| format!("{name}: {}", server.why_not().unwrap_or_default()))?;
    let manager = Manager::new(options(ground), Arc::new(Nobody));
    let config = ServerConfig {
        disabled: true,
        ..config
    };
    manager.set_servers(IndexMap::from([(name.to_owned(), config)]));
    let mut changes = manager.changes();
    let outcome = manager
        .log_out(name)
        .await
        .map_err(|error| error.to_string());
    manager.shutdown().await;
    notices(&mut changes);
    Ok(if outcome? {
        format!("Signed out of the MCP server {name}.")
    } else {
        format!("There was no sign-in at the MCP server {name}.")
    })
}

/// `lathe mcp logs`.
pub(super) fn logs(ground: &Ground, name: &str) -> Result<String, String> {
    let words = lathe_mcp::log::read(&ground.places.config_home, name).map_err(|error| {
        let file = lathe_mcp::log::path(&ground.places.config_home, name);
        format!("{} can't be read: {error}", file.display())
    })?;
    if !words.is_empty() {
        return Ok(words);
    }
    // The log of a server that is gone is still there to be read.
    match ground.servers(&[])?.find(name) {
        Some(_) => Ok(format!("The MCP server {name} has written nothing yet.")),
        None => Err(unknown(ground, name)),
    }
}

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tools,
    Resources,
    Prompts,
}

/// `lathe mcp tools`, `resources`, `prompts`.
pub(super) async fn items(ground: &Ground, arguments: &ItemArguments, kind: Kind) -> Exit {
    let connected = match &arguments.server {
        Some(name) => Connected::one(ground, &arguments.from, name).await,
        None => match ground.servers(&arguments.from.mcp_config) {
            Ok(servers) => Ok(Connected::to(ground, servers.configs()).await),
            Err(error) => Err(error),
        },
    };
    let connected = match connected {
        Ok(connected) => connected,
        Err(error) => return finish(Err(error), Exit::Failure),
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
            complain(&format!("{}: {error}", status.name));
        }
    }
    connected.end().await;
    let shown = if arguments.json {
        let all: Vec<Value> = found
            .iter()
            .map(|item| {
                let mut entry = item.item.clone();
                entry["server"] = item.server.as_str().into();
                entry
            })
            .collect();
        let word = match kind {
            Kind::Tools => "tools",
            Kind::Resources => "resources",
            Kind::Prompts => "prompts",
        };
        format!("{}\n", json!({word: all}))
    } else {
        let mut lines = String::new();
        for item in &found {
            let field = |key: &str| item.item.get(key).and_then(Value::as_str);
            let name = match kind {
                Kind::Resources => field("uri").or(field("uriTemplate")),
                Kind::Tools | Kind::Prompts => field("name"),
            };
            let mut about = field("description").unwrap_or_default().to_owned();
            if kind == Kind::Prompts {
                let arguments = item.item.get("arguments").and_then(Value::as_array);
                for argument in arguments.into_iter().flatten() {
                    let name = argument.get("name").and_then(Value::as_str).unwrap_or("?");
                    let required = argument.get("required") == Some(&Value::Bool(true));
                    let _ = write!(
                        about,
                        "{}",
                        if required {
                            format!(" <{name}>")
                        } else {
                            format!(" [{name}]")
                        }
                    );
                }
            }
            let _ = writeln!(
                lines,
                "{}: {}  {}",
                item.server,
                text::line(name.unwrap_or("?"), 200),
                text::line(&about, 160)
            );
        }
        lines
    };
    match print(&shown) {
        Exit::Success if failed && found.is_empty() => Exit::Failure,
        exit => exit,
    }
}

/// `lathe mcp call`.
pub(super) async fn call(
    ground: &Ground,
    from: &ConfigArguments,
    server: &str,
    tool: &str,
    arguments: Option<&str>,
    as_json: bool,
) -> Exit {
    let arguments = match object(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return finish(Err(error), Exit::Usage),
    };
    let connected = match Connected::one(ground, from, server).await {
        Ok(connected) => connected,
        Err(error) => return finish(Err(error), Exit::Failure),
    };
    let known: Vec<String> = connected
        .manager
        .tools()
        .iter()
        .filter_map(|item| item.item.get("name")?.as_str().map(str::to_owned))
        .collect();
    if !known.iter().any(|name| name == tool) {
        connected.end().await;
        return finish(
            Err(format!(
                "{server} has no tool {tool}; it has: {}",
                known.join(", ")
            )),
            Exit::Usage,
        );
    }
    let result = connected
        .manager
        .call_tool(server, tool, arguments, CallOptions::default())
        .await;
    connected.end().await;
    match result {
        Ok(result) => {
            let failed = result.get("isError") == Some(&Value::Bool(true));
            match show(ground, &result, as_json, mcp_result::of_call) {
                Exit::Success if failed => Exit::Failure,
                exit => exit,
            }
        }
        Err(error) => finish(Err(format!("{tool} failed: {error}")), Exit::Failure),
    }
}

/// `lathe mcp resources SERVER --read URI`.
pub(super) async fn read(
    ground: &Ground,
    arguments: &ItemArguments,
    server: &str,
    uri: &str,
) -> Exit {
    let connected = match Connected::one(ground, &arguments.from, server).await {
        Ok(connected) => connected,
        Err(error) => return finish(Err(error), Exit::Failure),
    };
    let result = connected.manager.read_resource(server, uri).await;
    connected.end().await;
    match result {
        Ok(result) => show(ground, &result, arguments.json, mcp_result::of_resource),
        Err(error) => finish(Err(format!("{uri} can't be read: {error}")), Exit::Failure),
    }
}

/// `lathe mcp prompts SERVER --get NAME`.
pub(super) async fn prompt(
    ground: &Ground,
    arguments: &ItemArguments,
    server: &str,
    name: &str,
    filled: Option<&str>,
) -> Exit {
    let filled = match object(filled) {
        Ok(filled) => filled,
        Err(error) => return finish(Err(error), Exit::Usage),
    };
    let connected = match Connected::one(ground, &arguments.from, server).await {
        Ok(connected) => connected,
        Err(error) => return finish(Err(error), Exit::Failure),
    };
    let result = connected.manager.get_prompt(server, name, filled).await;
    connected.end().await;
    match result {
        Ok(result) if arguments.json => print(&format!("{result}\n")),
        Ok(result) => {
            let mut words = String::new();
            let messages = result.get("messages").and_then(Value::as_array);
            for message in messages.into_iter().flatten() {
                let role = message
                    .get("role")
                    .and_then(Value::as_str)
                    .unwrap_or("user");
                let said = message.pointer("/content/text").and_then(Value::as_str);
                let _ = writeln!(
                    words,
                    "{role}: {}",
                    text::clean(said.unwrap_or("(not text)"))
                );
            }
            print(&words)
        }
        Err(error) => finish(Err(format!("{name} failed: {error}")), Exit::Failure),
    }
}

/// Prints an answer: as it came, or its words, with other parts saved beside the logs.
fn show(
    ground: &Ground,
    result: &Value,
    as_json: bool,
    make: fn(&Value, &mcp_result::Place) -> lathe_tools::ToolOutput,
) -> Exit {
    if as_json {
        return print(&format!("{result}\n"));
    }
    let folder = ground.places.config_home.join("mcp-results");
    let mut place = mcp_result::Place::new(&folder, &uuid::Uuid::new_v4().to_string(), None);
    // A person reads it: nothing is cut.
    place.most_bytes = usize::MAX;
    let output = make(result, &place);
    let mut words = output.content.text();
    if words.is_empty() {
        words.push_str("(pictures only; --json shows them)");
    }
    words.push('\n');
    print(&words)
}

/// Arguments as a JSON object.
fn object(written: Option<&str>) -> Result<Value, String> {
    let text = match written {
        None => return Ok(json!({})),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| format!("standard input can't be read: {error}"))?;
            text
        }
        Some(text) => text.to_owned(),
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => {
            Err("the arguments must be a JSON object, such as '{\"message\": \"hi\"}'".to_owned())
        }
        Err(error) => Err(format!("the arguments are not JSON: {error}")),
    }
}
