//! Checks requests the way the Messages API does.
//!
//! The point of a scripted model is lost if it swallows what the real one would refuse. So each
//! request is held to the API's rules and to one promise of our own: that runs of messages of the
//! same role are merged. `facts` says what can be said of a message alone (kept, so that a long
//! conversation costs what it adds), `conversation` what must hold between messages, and this
//! module what must hold for the request as a whole.

mod body;
pub(crate) mod conversation;
pub(crate) mod facts;
pub(crate) mod issued;
mod media;

pub(crate) use body::{Body, BodyError};
pub use issued::sign;

use crate::cache::{Prefix, PrefixBlock};
use conversation::Reasoning;
use facts::{Lifetime, MessageFacts, collect_markers, hash_of, without_markers};
use issued::Issued;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The top-level fields of a request that the API knows.
pub const KNOWN_FIELDS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "metadata",
    "stop_sequences",
    "stream",
    "temperature",
    "top_k",
    "top_p",
    "thinking",
    "service_tier",
    "container",
    "context_management",
    "mcp_servers",
    "output_config",
    "output_format",
    "inference_geo",
    "speed",
    "cache_control",
];

/// The problems that the API would report in the body of a request to `/v1/messages`, for tests that make
/// requests without sending them. Reasoning must be signed by [`sign`].
#[must_use]
pub fn problems_of(body: &Value) -> Vec<String> {
    let text = body.to_string();
    let mut problems = Vec::new();
    match Body::parse(text.as_bytes(), usize::MAX) {
        Ok(body) => {
            Validator::default().check(&body, Endpoint::Messages, &[], "", &mut problems);
        }
        Err(problem) => problems.push(problem.to_string()),
    }
    problems
}

/// The endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Messages,
    CountTokens,
}

/// Checks requests, and remembers what it has worked out.
#[derive(Debug, Default)]
pub(crate) struct Validator {
    pub(crate) issued: Issued,
    facts: HashMap<u64, Arc<MessageFacts>>,
}

impl Validator {
    /// Checks the fields that don't need the conversation.
    pub(crate) fn check_outline(
        body: &Body<'_>,
        endpoint: Endpoint,
        allowed: &[String],
        problems: &mut Vec<String>,
    ) {
        for name in body.fields.keys() {
            if !KNOWN_FIELDS.contains(&name.as_str()) && !allowed.contains(name) {
                problems.push(format!("{name}: extra inputs are not permitted"));
            }
        }
        if body.field("model").as_str().unwrap_or_default().is_empty() {
            problems.push("model: field required".into());
        }
        match &body.messages {
            None => problems.push("messages: field required".into()),
            Some(messages) if messages.is_empty() => {
                problems.push("messages: at least one message is required".into());
            }
            Some(_) => {}
        }
        if endpoint == Endpoint::Messages {
            match body.field("max_tokens").as_u64() {
                None => problems.push("max_tokens: must be a positive number".into()),
                Some(0) => problems.push("max_tokens: must be greater than 0".into()),
                Some(_) => {}
            }
        }
        check_thinking(body, problems);
    }

    /// Checks everything and gives the prefix for the prompt cache.
    pub(crate) fn check(
        &mut self,
        body: &Body<'_>,
        endpoint: Endpoint,
        allowed: &[String],
        beta: &str,
        problems: &mut Vec<String>,
    ) -> Prefix {
        Self::check_outline(body, endpoint, allowed, problems);
        let mut prefix = Prefix::new(body.field("model").as_str().unwrap_or_default());
        let mut markers = Vec::new();
        check_tools(body.field("tools"), &mut prefix, &mut markers, problems);
        check_tool_choice(body, problems);
        check_system(body.field("system"), &mut prefix, &mut markers, problems);
        // A change of these leaves the cached tools and system prompt alone, but not the messages.
        prefix.salt(&format!(
            "{}{}",
            body.field("tool_choice"),
            body.field("thinking")
        ));

        let messages: Vec<Arc<MessageFacts>> = body
            .messages
            .iter()
            .flatten()
            .map(|raw| self.facts_of(raw.get()))
            .collect();
        for block in messages.iter().flat_map(|message| &message.blocks) {
            markers.extend(&block.markers);
            prefix.push(PrefixBlock {
                hash: block.hash,
                bytes: block.bytes,
                marker: block.markers.last().copied(),
            });
        }
        let thinking = body.field("thinking")["type"].as_str().unwrap_or_default();
        let reasoning = Reasoning {
            model: body.field("model").as_str().unwrap_or_default(),
            on: thinking == "enabled" || thinking == "adaptive",
            interleaved: thinking == "adaptive" || beta.contains("interleaved-thinking"),
        };
        conversation::check(&messages, reasoning, &self.issued, problems);
        conversation::check_markers(&markers, problems);
        prefix
    }

    fn facts_of(&mut self, raw: &str) -> Arc<MessageFacts> {
        let key = hash_of(raw.as_bytes());
        if let Some(facts) = self.facts.get(&key) {
            return Arc::clone(facts);
        }
        // It is a part of a document that parsed, so it parses.
        let message: Value = serde_json::from_str(raw).unwrap_or_default();
        let facts = Arc::new(MessageFacts::new(&message, &self.issued));
        if facts.problems.is_empty() {
            self.facts.insert(key, Arc::clone(&facts));
        }
        facts
    }
}

fn check_thinking(body: &Body<'_>, problems: &mut Vec<String>) {
    let thinking = body.field("thinking");
    match thinking["type"].as_str() {
        None if thinking.is_null() => return,
        Some("disabled") => return,
        Some("adaptive") => {}
        Some("enabled") => match thinking["budget_tokens"].as_u64() {
            None => problems.push("thinking.budget_tokens: field required".into()),
            Some(budget) => {
                if budget < 1024 {
                    problems.push("thinking.budget_tokens: must be at least 1024".into());
                }
                if let Some(limit) = body.field("max_tokens").as_u64()
                    && limit <= budget
                {
                    problems.push(format!(
                        "max_tokens: must be greater than thinking.budget_tokens ({limit} <= {budget})"
                    ));
                }
            }
        },
        other => problems.push(format!("thinking.type: {other:?} is not known")),
    }
    let temperature = body.field("temperature");
    if !temperature.is_null() && temperature.as_f64() != Some(1.0) {
        problems.push("temperature: may only be 1 while thinking is on".into());
    }
    if !body.field("top_k").is_null() {
        problems.push("top_k: must be unset while thinking is on".into());
    }
    if matches!(
        body.field("tool_choice")["type"].as_str(),
        Some("any" | "tool")
    ) {
        problems.push("tool_choice: thinking may not be on when it forces tool use".into());
    }
}

fn check_tool_choice(body: &Body<'_>, problems: &mut Vec<String>) {
    let choice = body.field("tool_choice");
    let tools = body
        .field("tools")
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    match choice["type"].as_str() {
        None if choice.is_null() => return,
        Some("auto" | "any" | "none") => {}
        Some("tool") => {
            if !tools.iter().any(|tool| tool["name"] == choice["name"]) {
                problems.push(format!("tool_choice: there is no tool {}", choice["name"]));
            }
        }
        other => problems.push(format!("tool_choice.type: {other:?} is not known")),
    }
    if tools.is_empty() {
        problems.push("tool_choice: may only be given together with tools".into());
    }
}

fn check_tools(
    tools: &Value,
    prefix: &mut Prefix,
    markers: &mut Vec<Lifetime>,
    problems: &mut Vec<String>,
) {
    let tools = match tools {
        Value::Null => return,
        Value::Array(tools) => tools,
        _ => {
            problems.push("tools: must be a list".into());
            return;
        }
    };
    let mut names = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let path = format!("tools.{index}");
        let name = tool["name"].as_str().unwrap_or_default();
        let well_formed = (1..=128).contains(&name.len())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !well_formed {
            problems.push(format!(
                "{path}.name: must match ^[a-zA-Z0-9_-]{{1,128}}$: {name:?}"
            ));
        }
        if !names.insert(name) {
            problems.push(format!("{path}.name: tool names must be unique: {name}"));
        }
        // The provider's own tools have a versioned type and no schema.
        let own = matches!(tool["type"].as_str(), None | Some("custom"));
        if own && tool["input_schema"]["type"] != "object" {
            problems.push(format!("{path}.input_schema.type: must be object ({name})"));
        }
        push_block(tool, &path, prefix, markers, problems);
    }
}

fn check_system(
    system: &Value,
    prefix: &mut Prefix,
    markers: &mut Vec<Lifetime>,
    problems: &mut Vec<String>,
) {
    match system {
        Value::Null => {}
        Value::String(text) => prefix.push(PrefixBlock {
            hash: hash_of(text.as_bytes()),
            bytes: text.len() as u64,
            marker: None,
        }),
        Value::Array(blocks) => {
            for (index, block) in blocks.iter().enumerate() {
                let path = format!("system.{index}");
                if block["type"] != "text" {
                    problems.push(format!("{path}.type: must be text"));
                }
                if block["text"].as_str().unwrap_or_default().is_empty() {
                    problems.push(format!("{path}: text content blocks must be non-empty"));
                }
                push_block(block, &path, prefix, markers, problems);
            }
        }
        _ => problems.push("system: must be a string or a list of text blocks".into()),
    }
}

fn push_block(
    block: &Value,
    path: &str,
    prefix: &mut Prefix,
    markers: &mut Vec<Lifetime>,
    problems: &mut Vec<String>,
) {
    let mut own = Vec::new();
    collect_markers(block, path, &mut own, problems);
    markers.extend(&own);
    let bare = without_markers(block).to_string();
    prefix.push(PrefixBlock {
        hash: hash_of(bare.as_bytes()),
        bytes: bare.len() as u64,
        marker: own.last().copied(),
    });
}
