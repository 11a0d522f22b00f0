//! Requests in which tools are words.

use super::parse::Offered;
use crate::chat::joined_tools;
use crate::request::ModelRequest;
use crate::wire::cache::Translations;
use bytes::Bytes;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{Message, Role};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

const HOW: &str = "# Tools\nTo use a tool, write this and stop:\n<tool_call>\n{\"name\": \"TOOL\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}\n</tool_call>\nFor several calls write several such blocks. The results come in <tool_response> blocks; never write those yourself. Without a tool, answer in plain words.\n\nThe tools, each with its arguments (? marks those that may be left out):\n";

/// Translations that are kept between requests.
#[derive(Default)]
pub(crate) struct Prompts {
    messages: Translations<EncodedMessage>,
    tools: Translations<(Arc<Offered>, String)>,
    systems: Translations<Bytes>,
}

impl Prompts {
    /// The tools of a request.
    pub(crate) fn offered(&self, request: &ModelRequest) -> Arc<Offered> {
        Arc::clone(&self.described(request).0)
    }

    fn described(&self, request: &ModelRequest) -> Arc<(Arc<Offered>, String)> {
        self.tools.get(&request.tools, 0, || {
            let tools = joined_tools(&request.tools);
            (Arc::new(Offered::new(&tools)), described(&tools))
        })
    }

    /// The request with its tools, calls and results in words.
    pub(crate) fn rewritten(&self, request: &ModelRequest) -> ModelRequest {
        self.tools.begin();
        self.systems.begin();
        self.messages.begin();
        let described = self.described(request);
        let mut rewritten = request.clone();
        if !described.0.names.is_empty() {
            let variant = request.tools.as_ptr().addr() as u64;
            let system = self.systems.get(&request.system, variant, || {
                let mut blocks: Vec<Value> =
                    serde_json::from_slice(&request.system).unwrap_or_default();
                blocks.push(json!({"type": "text", "text": format!("{HOW}{}", described.1)}));
                Bytes::from(Value::Array(blocks).to_string())
            });
            rewritten.system = (*system).clone();
        }
        rewritten.tools = Bytes::new();
        rewritten.extra.shift_remove("tool_choice");
        rewritten.messages = request
            .messages
            .iter()
            .map(|message| {
                let made = self.messages.get(&message.bytes, 0, || in_words(&message));
                EncodedMessage::clone(&made)
            })
            .collect();
        rewritten
    }
}

/// The tools, one a line.
fn described(tools: &[(String, String, Value)]) -> String {
    let mut text = String::new();
    for (name, description, schema) in tools {
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let arguments: Vec<String> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| {
                let mark = if required.contains(&key.as_str()) {
                    ""
                } else {
                    "?"
                };
                let kind = value["type"].as_str().unwrap_or("any");
                format!("{key}{mark}: {kind}")
            })
            .collect();
        // The first paragraph says what it is for.
        let purpose = description.split("\n\n").next().unwrap_or_default();
        let purpose: Vec<&str> = purpose.split_whitespace().collect();
        let _ = writeln!(
            text,
            "- {name}({}): {}",
            arguments.join(", "),
            purpose.join(" ")
        );
    }
    text
}

/// A message whose calls and results are words. The conversation itself keeps real ones.
fn in_words(message: &EncodedMessage) -> EncodedMessage {
    let Ok(parsed) = serde_json::from_slice::<Message>(&message.bytes) else {
        return message.clone();
    };
    let mut blocks = Vec::new();
    for block in parsed.content.into_blocks() {
        match block {
            ContentBlock::ToolUse(call) => {
                let call = json!({"name": call.name, "arguments": call.input});
                blocks.push(ContentBlock::text(format!(
                    "<tool_call>\n{call}\n</tool_call>"
                )));
            }
            ContentBlock::ToolResult(result) => {
                let (mut text, mut images) = (String::new(), Vec::new());
                match result.content {
                    None => {}
                    Some(Content::Text(words)) => text = words,
                    Some(Content::Blocks(inner)) => {
                        text = lathe_protocol::content::joined_text(&inner);
                        let is_image =
                            |block: &ContentBlock| matches!(block, ContentBlock::Image(_));
                        images = inner.into_iter().filter(is_image).collect();
                    }
                }
                blocks.push(ContentBlock::text(format!(
                    "<tool_response>\n{text}\n</tool_response>"
                )));
                blocks.extend(images);
            }
            other => blocks.push(other),
        }
    }
    let role = message.role;
    if role == Role::Assistant {
        // Words and calls of one answer are one text.
        let text = lathe_protocol::content::joined_text(&blocks);
        blocks.retain(|block| !matches!(block, ContentBlock::Text(_)));
        if !text.is_empty() {
            blocks.push(ContentBlock::text(text));
        }
    }
    EncodedMessage::new(role, &blocks).unwrap_or_else(|_| message.clone())
}
