//! The parts of one message, determined once per distinct message.
//!
//! A conversation is sent again with every request, so a session of a thousand turns would be
//! checked half a million times. Everything that can be said about a message by itself is therefore
//! a fact that is kept by the hash of the message's bytes; what remains per request is a walk over
//! the facts.

use super::issued::{Issued, digest};
use super::media;
use serde_json::{Map, Value};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
    /// Something that the API doesn't know; reported as a problem of its own.
    Unknown,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Unknown => "unknown",
        }
    }
}

/// How long a cache entry lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    FiveMinutes,
    OneHour,
}

/// The kind of a block, with the fields that the checks of the conversation need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Thinking { signature: String, digest: String },
    RedactedThinking { data: String },
    ToolUse { id: String },
    ToolResult { id: String },
    Other,
}

impl Kind {
    pub(crate) fn is_thinking(&self) -> bool {
        matches!(self, Self::Thinking { .. } | Self::RedactedThinking { .. })
    }
}

/// One block.
#[derive(Debug, Clone)]
pub(crate) struct BlockFacts {
    pub(crate) kind: Kind,
    /// Identifies the block's content without its cache marker, which is not part of the prefix.
    pub(crate) hash: u64,
    pub(crate) bytes: u64,
    /// The markers in the block, nested ones included.
    pub(crate) markers: Vec<Lifetime>,
}

/// One message.
#[derive(Debug, Clone)]
pub(crate) struct MessageFacts {
    pub(crate) role: Role,
    /// The problems of the message by itself; each begins with a path inside the message.
    pub(crate) problems: Vec<String>,
    pub(crate) blocks: Vec<BlockFacts>,
    /// Whether the last text ends in white space, which a prefill must not.
    pub(crate) ends_in_white_space: bool,
}

/// The hash of some bytes.
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl MessageFacts {
    pub(crate) fn new(message: &Value, issued: &Issued) -> Self {
        let mut problems = Vec::new();
        let role = match message["role"].as_str() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            other => {
                problems.push(format!("role: must be user or assistant, not {other:?}"));
                Role::Unknown
            }
        };
        match message.as_object() {
            Some(fields) => {
                for name in fields
                    .keys()
                    .filter(|name| *name != "role" && *name != "content")
                {
                    problems.push(format!("{name}: extra inputs are not permitted"));
                }
            }
            None => problems.push("a message must be an object".into()),
        }
        let mut facts = Self {
            role,
            problems,
            blocks: Vec::new(),
            ends_in_white_space: false,
        };
        match &message["content"] {
            Value::String(text) => {
                facts.text(text, "content");
                facts.blocks.push(BlockFacts {
                    kind: Kind::Text,
                    hash: hash_of(text.as_bytes()),
                    bytes: text.len() as u64,
                    markers: Vec::new(),
                });
            }
            Value::Array(blocks) => {
                if blocks.is_empty() {
                    facts.problems.push("content: must not be empty".into());
                }
                for (index, block) in blocks.iter().enumerate() {
                    facts.block(block, &format!("content.{index}"), issued);
                }
            }
            _ => facts
                .problems
                .push("content: must be a string or a list of blocks".into()),
        }
        facts
    }

    fn text(&mut self, text: &str, path: &str) {
        self.ends_in_white_space = text.ends_with(char::is_whitespace);
        if text.is_empty() {
            self.problems
                .push(format!("{path}: text content blocks must be non-empty"));
        } else if text.trim().is_empty() {
            self.problems.push(format!(
                "{path}: text content blocks must contain non-whitespace text"
            ));
        }
    }

    fn block(&mut self, block: &Value, path: &str, issued: &Issued) {
        let Some(fields) = block.as_object() else {
            self.problems
                .push(format!("{path}: a content block must be an object"));
            return;
        };
        let kind_name = block["type"].as_str().unwrap_or_default();
        self.ends_in_white_space = false;
        let kind = match kind_name {
            "text" => {
                self.text(block["text"].as_str().unwrap_or_default(), path);
                Kind::Text
            }
            "thinking" => self.thinking(block, path),
            "redacted_thinking" => {
                let data = required(block, "data", path, &mut self.problems);
                Kind::RedactedThinking { data }
            }
            "tool_use" => self.tool_use(block, path),
            "tool_result" => self.tool_result(block, path),
            "image" | "document" => {
                media::check(block, kind_name, path, &mut self.problems);
                Kind::Other
            }
            _ => Kind::Other,
        };
        self.check_place(kind_name, path, issued);
        self.check_fields(fields, kind_name, path, issued);
        let mut markers = Vec::new();
        collect_markers(block, path, &mut markers, &mut self.problems);
        if !markers.is_empty() && kind.is_thinking() {
            self.problems.push(format!(
                "{path}.cache_control: not permitted on thinking blocks"
            ));
        }
        let bare = without_markers(block).to_string();
        self.blocks.push(BlockFacts {
            kind,
            hash: hash_of(bare.as_bytes()),
            bytes: bare.len() as u64,
            markers,
        });
    }

    fn thinking(&mut self, block: &Value, path: &str) -> Kind {
        let signature = required(block, "signature", path, &mut self.problems);
        if !block["thinking"].is_string() {
            self.problems
                .push(format!("{path}.thinking: field required"));
        }
        let digest = digest(block["thinking"].as_str().unwrap_or_default());
        Kind::Thinking { signature, digest }
    }

    fn tool_use(&mut self, block: &Value, path: &str) -> Kind {
        let id = required(block, "id", path, &mut self.problems);
        if !id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        {
            self.problems.push(format!(
                "{path}.id: must match ^[a-zA-Z0-9_-]+$, not {id:?}"
            ));
        }
        let name = required(block, "name", path, &mut self.problems);
        if name.len() > 200 {
            self.problems
                .push(format!("{path}.name: at most 200 characters"));
        }
        if !block["input"].is_object() {
            self.problems
                .push(format!("{path}.input: must be an object"));
        }
        Kind::ToolUse { id }
    }

    fn tool_result(&mut self, block: &Value, path: &str) -> Kind {
        let id = required(block, "tool_use_id", path, &mut self.problems);
        match &block["content"] {
            Value::Null | Value::String(_) => {}
            Value::Array(parts) => {
                for (index, part) in parts.iter().enumerate() {
                    let path = format!("{path}.content.{index}");
                    let kind = part["type"].as_str().unwrap_or_default();
                    match kind {
                        "text" if part["text"].as_str().unwrap_or_default().is_empty() => self
                            .problems
                            .push(format!("{path}: text content blocks must be non-empty")),
                        "text" | "search_result" | "tool_reference" => {}
                        "image" | "document" => {
                            media::check(part, kind, &path, &mut self.problems);
                        }
                        other => self
                            .problems
                            .push(format!("{path}.type: {other:?} can't be in a tool result")),
                    }
                    if block["is_error"] == true && kind != "text" {
                        self.problems.push(format!(
                            "{path}: all content must be type `text` if `is_error` is true"
                        ));
                    }
                }
            }
            _ => self
                .problems
                .push(format!("{path}.content: must be a string or blocks")),
        }
        if !matches!(block["is_error"], Value::Null | Value::Bool(_)) {
            self.problems
                .push(format!("{path}.is_error: must be a boolean"));
        }
        Kind::ToolResult { id }
    }

    /// Which kinds may stand in whose message.
    fn check_place(&mut self, kind: &str, path: &str, issued: &Issued) {
        let fits = match self.role {
            Role::User => matches!(
                kind,
                "text"
                    | "image"
                    | "document"
                    | "tool_result"
                    | "search_result"
                    | "container_upload"
            ),
            Role::Assistant => {
                matches!(kind, "text" | "thinking" | "redacted_thinking" | "tool_use")
                    || issued.sent_kind(kind)
            }
            Role::Unknown => true,
        };
        if !fits {
            let role = self.role.name();
            self.problems.push(format!(
                "{path}.type: {kind:?} can't be in a {role} message"
            ));
        }
    }

    fn check_fields(
        &mut self,
        fields: &Map<String, Value>,
        kind: &str,
        path: &str,
        issued: &Issued,
    ) {
        let known: &[&str] = match kind {
            "text" => &["text", "citations"],
            "thinking" => &["thinking", "signature"],
            "redacted_thinking" => &["data"],
            "tool_use" => &["id", "name", "input", "caller"],
            "tool_result" => &["tool_use_id", "content", "is_error"],
            "image" => &["source"],
            "document" => &["source", "title", "context", "citations"],
            _ => return,
        };
        for name in fields.keys() {
            let usual = matches!(name.as_str(), "type" | "cache_control");
            if !usual && !known.contains(&name.as_str()) && !issued.sent_field(kind, name) {
                self.problems
                    .push(format!("{path}.{name}: extra inputs are not permitted"));
            }
        }
    }
}

fn required(block: &Value, name: &str, path: &str, problems: &mut Vec<String>) -> String {
    match block[name].as_str() {
        Some(text) if !text.is_empty() => text.to_owned(),
        Some(_) => {
            problems.push(format!("{path}.{name}: must not be empty"));
            String::new()
        }
        None => {
            problems.push(format!("{path}.{name}: field required"));
            String::new()
        }
    }
}

/// Finds the cache markers of a block and of the blocks nested in it.
pub(crate) fn collect_markers(
    block: &Value,
    path: &str,
    markers: &mut Vec<Lifetime>,
    problems: &mut Vec<String>,
) {
    if let Some(parts) = block["content"].as_array() {
        for (index, part) in parts.iter().enumerate() {
            collect_markers(part, &format!("{path}.content.{index}"), markers, problems);
        }
    }
    let marker = &block["cache_control"];
    if marker.is_null() {
        return;
    }
    if marker["type"] != "ephemeral" {
        problems.push(format!("{path}.cache_control.type: must be ephemeral"));
    }
    let lifetime = match marker["ttl"].as_str() {
        Some("1h") => Lifetime::OneHour,
        Some("5m") => Lifetime::FiveMinutes,
        None if marker["ttl"].is_null() => Lifetime::FiveMinutes,
        _ => {
            problems.push(format!("{path}.cache_control.ttl: must be 5m or 1h"));
            Lifetime::FiveMinutes
        }
    };
    markers.push(lifetime);
    if block["type"] == "text" && block["text"].as_str().unwrap_or_default().is_empty() {
        problems.push(format!(
            "{path}: cache_control cannot be set for empty text blocks"
        ));
    }
}

/// The block as the prompt cache sees it.
pub(crate) fn without_markers(block: &Value) -> Value {
    let mut block = block.clone();
    strip_markers(&mut block);
    block
}

fn strip_markers(block: &mut Value) {
    if let Some(fields) = block.as_object_mut() {
        fields.shift_remove("cache_control");
        if let Some(parts) = fields.get_mut("content").and_then(Value::as_array_mut) {
            parts.iter_mut().for_each(strip_markers);
        }
    }
}
