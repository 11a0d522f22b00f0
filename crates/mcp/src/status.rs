//! What is known of a server while a session runs, and what happens to it.

use serde_json::{Value, json};
use std::sync::Arc;

/// Where a connection stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is being made, or made again.
    Pending,
    /// It works.
    Connected,
    /// It doesn't, and this is why.
    Failed {
        /// What went wrong, for a person.
        reason: String,
    },
    /// The server wants an authorisation that nobody gave yet.
    NeedsAuth,
    /// It is switched off.
    Disabled,
}

impl State {
    /// The word for it in reports.
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

/// What a server said of itself when it was connected.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerDescription {
    /// `{name, version, title?}`.
    pub info: Value,
    /// The version of the protocol that is spoken with it.
    pub protocol_version: String,
    /// Its capabilities, as it sent them.
    pub capabilities: Value,
    /// What it tells the model about itself.
    pub instructions: Option<String>,
}

/// One server, as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerStatus {
    /// Its name in the configuration.
    pub name: String,
    /// `stdio`, `http`, `sse`, `ws` or `sdk`.
    pub transport: &'static str,
    /// Where its connection stands.
    pub state: State,
    /// What it said of itself, once connected.
    pub description: Option<Arc<ServerDescription>>,
    /// Its tools, entries of `tools/list` (descriptions cut to size).
    pub tools: Arc<Vec<Value>>,
    /// What was left out, for a person.
    pub remarks: Vec<String>,
    /// How many entries of its lists had texts that were too long and were cut.
    pub cut: usize,
}

impl ServerStatus {
    /// As SDK hosts are told of it; the caller adds `config`, `scope` and `source`.
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

/// What happened to a server or came from it unasked.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A connection stands elsewhere now.
    State {
        /// The server.
        server: String,
        /// Where it stands.
        state: State,
    },
    /// The tools of a server are others now; they are already read.
    Tools {
        /// The server.
        server: String,
    },
    /// The resources or their templates are others now; they are already read.
    Resources {
        /// The server.
        server: String,
    },
    /// The prompts are others now; they are already read.
    Prompts {
        /// The server.
        server: String,
    },
    /// A resource that was subscribed to has changed.
    ResourceUpdated {
        /// The server.
        server: String,
        /// The resource.
        uri: String,
    },
    /// A server said something for its log.
    Log {
        /// The server.
        server: String,
        /// `debug` … `emergency`.
        level: String,
        /// Which part of the server says it.
        logger: Option<String>,
        /// What it says, control characters removed.
        text: String,
    },
    /// Any notification, by its method (those above come here too, first).
    Notification {
        /// The server.
        server: String,
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// Something the person should be told once.
    Notice {
        /// The server.
        server: String,
        /// What to tell.
        text: String,
    },
}
