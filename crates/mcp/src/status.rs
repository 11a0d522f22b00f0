//! The status of servers and its changes.

use lathe_protocol::diagnostic::Diagnostic;
use serde_json::{Value, json};
use std::sync::Arc;

/// The state of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Connecting or reconnecting.
    Pending,
    Connected,
    Failed {
        reason: String,
    },
    /// The server requires authorisation.
    NeedsAuth,
    Disabled,
}

impl State {
    /// The name in reports.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::Failed { .. } => "failed",
            Self::NeedsAuth => "needs-auth",
            Self::Disabled => "disabled",
        }
    }
}

/// The self-description of a server, from the handshake.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerDescription {
    /// `{name, version, title?}`.
    pub info: Value,
    /// The negotiated protocol version.
    pub protocol_version: String,
    /// Its capabilities as sent.
    pub capabilities: Value,
    /// Its instructions for the model.
    pub instructions: Option<String>,
}

/// The status of one server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerStatus {
    pub name: String,
    /// `stdio`, `http`, `sse`, `ws` or `sdk`.
    pub transport: &'static str,
    pub state: State,
    /// Available once connected.
    pub description: Option<Arc<ServerDescription>>,
    /// Entries of `tools/list` with descriptions cut to size.
    pub tools: Arc<Vec<Value>>,
    /// Remarks about entries that were left out.
    pub remarks: Vec<Diagnostic>,
    /// The number of list entries with texts that were cut.
    pub cut: usize,
}

impl ServerStatus {
    /// The status in the SDK protocol; the caller adds `config`, `scope` and `source`.
    #[must_use]
    pub fn to_frame(&self) -> Value {
        let mut frame = json!({"name": self.name, "status": self.state.word()});
        if let Some(description) = &self.description {
            frame["serverInfo"] = json!({
                "name": description.info.get("name").cloned().unwrap_or_default(),
                "version": description.info.get("version").cloned().unwrap_or_default(),
            });
        }
        match &self.state {
            State::Failed { reason } => frame["error"] = Value::from(reason.clone()),
            State::Connected => {
                frame["tools"] = self.tools.iter().map(tool_frame).collect();
            }
            State::Pending | State::NeedsAuth | State::Disabled => {}
        }
        frame
    }
}

fn tool_frame(tool: &Value) -> Value {
    let mut hints = serde_json::Map::new();
    for (hint, field) in [
        ("readOnlyHint", "readOnly"),
        ("destructiveHint", "destructive"),
        ("openWorldHint", "openWorld"),
    ] {
        if let Some(value) = tool.get("annotations").and_then(|all| all.get(hint)) {
            hints.insert(field.to_owned(), value.clone());
        }
    }
    json!({
        "name": tool.get("name").cloned().unwrap_or_default(),
        "description": tool.get("description").cloned().unwrap_or_else(|| Value::from("")),
        "annotations": hints,
    })
}

/// A change of a server, or a notification from it.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The state of a connection changed.
    State { server: String, state: State },
    /// The tools of a server changed; the new list is available.
    Tools { server: String },
    /// The resources or templates changed; the new lists are available.
    Resources { server: String },
    /// The prompts changed; the new list is available.
    Prompts { server: String },
    /// A subscribed resource changed.
    ResourceUpdated { server: String, uri: String },
    /// A log message of a server.
    Log {
        server: String,
        /// `debug` … `emergency`.
        level: String,
        /// The part of the server that logged it.
        logger: Option<String>,
        /// The text without control characters.
        text: String,
    },
    /// Any notification by method, including those above, which are sent here first.
    Notification {
        server: String,
        method: String,
        params: Value,
    },
    /// A notice for the user.
    Notice { server: String, text: String },
}
