//! Requests, from the Messages shape.

use super::SIGNATURE;
use crate::chat::{data_url, document_text, effort_of, is_thinking_off, joined_tools, system_text};
use crate::provider::Transfer;
use crate::providers::ModelFacts;
use crate::request::ModelRequest;
use crate::search::search_tool;
use crate::wire::calls::clean_id;
use bytes::Bytes;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{Message, Role};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// The smallest output limit that the API takes.
const LEAST_OUTPUT: u32 = 16;
const NO_IMAGE: &str = "[image omitted: the model does not accept images]";

/// The tools in the wire format, and their names.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) bytes: Bytes,
    pub(super) names: Arc<Vec<String>>,
}

/// Everything before the instructions, without the closing brace.
pub(super) fn head(
    request: &ModelRequest,
    facts: &ModelFacts,
    body: &Map<String, Value>,
    transfer: Transfer,
) -> Bytes {
    let mut object = Map::new();
    object.insert("model".to_owned(), request.model.as_str().into());
    object.insert(
        "max_output_tokens".to_owned(),
        request.max_tokens.max(LEAST_OUTPUT).into(),
    );
    if transfer == Transfer::Streaming {
        object.insert("stream".to_owned(), true.into());
    }
    // Without it, everything would be kept for thirty days.
    object.insert("store".to_owned(), false.into());
    object.insert("prompt_cache_key".to_owned(), cache_key(request).into());
    if reasons(request, facts) {
        object.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
        let mut reasoning = json!({"summary": "auto"});
        if is_thinking_off(request) {
            reasoning = json!({"effort": "none"});
        } else if let Some(effort) = effort_of(request) {
            reasoning["effort"] = effort.into();
        }
        object.insert("reasoning".to_owned(), reasoning);
    }
    for name in ["temperature", "top_p", "metadata"] {
        if let Some(value) = request.extra.get(name) {
            object.insert(name.to_owned(), value.clone());
        }
    }
    for (name, value) in body {
        object.insert(name.clone(), value.clone());
    }
    let mut text = Value::Object(object).to_string();
    text.pop();
    Bytes::from(text)
}

/// Whether a model reasons: said so, or by its name.
fn reasons(request: &ModelRequest, facts: &ModelFacts) -> bool {
    facts.reasoning.unwrap_or_else(|| {
        let id = request.model.rsplit('/').next().unwrap_or_default();
        ["gpt-5", "gpt-6", "o1", "o3", "o4", "codex"]
            .iter()
            .any(|prefix| id.starts_with(prefix))
    })
}

/// The same for all requests of a conversation.
fn cache_key(request: &ModelRequest) -> String {
    let first = request.messages.get(0).map(|message| message.bytes);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in request.system.iter().chain(&first.unwrap_or_default()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("lathe-{hash:016x}")
}

/// The system prompt as a JSON string.
pub(super) fn instructions(system: &Bytes) -> Bytes {
    Bytes::from(Value::String(system_text(system)).to_string())
}

/// The tools in the wire format.
pub(super) fn tools(tools: &Bytes) -> Tools {
    let own = search_tool(tools);
    let tools = joined_tools(tools);
    let mut list: Vec<Value> = tools
        .iter()
        .map(|(name, description, schema)| {
            // Left out, it would mean true.
            json!({
                "type": "function", "name": name, "description": description,
                "parameters": schema, "strict": is_closed(schema),
            })
        })
        .collect();
    list.extend(own.map(|own| web_search(&own)));
    let bytes = if list.is_empty() {
        Bytes::new()
    } else {
        Bytes::from(Value::Array(list).to_string())
    };
    Tools {
        bytes,
        names: Arc::new(tools.into_iter().map(|(name, _, _)| name).collect()),
    }
}

/// The provider's own search.
fn web_search(own: &Value) -> Value {
    let mut tool = json!({"type": "web_search"});
    for key in ["allowed_domains", "blocked_domains"] {
        if own[key].is_array() {
            tool["filters"][key] = own[key].clone();
        }
    }
    tool
}

/// Whether a schema is what `strict` asks for: every object is closed, and all of its properties are required.
fn is_closed(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else {
        return true;
    };
    if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
        let required = fields.get("required").and_then(Value::as_array);
        let all = properties.keys().all(|name| {
            required.is_some_and(|required| required.iter().any(|known| known == name))
        });
        if !all || fields.get("additionalProperties") != Some(&Value::Bool(false)) {
            return false;
        }
        if !properties.values().all(is_closed) {
            return false;
        }
    } else if fields.get("type").is_some_and(|kind| kind == "object") {
        return false;
    }
    let plain = [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "description",
        "enum",
        "items",
        "title",
    ];
    fields.keys().all(|key| plain.contains(&key.as_str()))
        && fields.get("items").is_none_or(is_closed)
}

/// How tools are chosen.
pub(super) fn tool_options(request: &ModelRequest, facts: &ModelFacts) -> Bytes {
    let mut text = String::new();
    if let Some(choice) = request.extra.get("tool_choice") {
        let value = match choice["type"].as_str() {
            Some("any") => json!("required"),
            Some("none") => json!("none"),
            Some("tool") => json!({"type": "function", "name": choice["name"]}),
            _ => json!("auto"),
        };
        let _ = write!(text, r#","tool_choice":{value}"#);
    }
    if let Some(parallel) = facts.parallel_tools {
        let _ = write!(text, r#","parallel_tool_calls":{parallel}"#);
    }
    Bytes::from(text)
}

/// A message of the conversation, as items separated by commas.
pub(super) fn message(message: &EncodedMessage, images: bool) -> Bytes {
    let Ok(parsed) = serde_json::from_slice::<Message>(&message.bytes) else {
        return Bytes::new();
    };
    let blocks = parsed.content.into_blocks();
    let items = match message.role {
        Role::User => user(&blocks, images),
        Role::Assistant => assistant(&blocks),
    };
    let texts: Vec<String> = items.iter().map(Value::to_string).collect();
    Bytes::from(texts.join(","))
}

fn part(block: &ContentBlock, images: bool) -> Option<Value> {
    let words = |text: &str| json!({"type": "input_text", "text": text});
    Some(match block {
        ContentBlock::Text(text) if text.text.is_empty() => return None,
        ContentBlock::Text(text) => words(&text.text),
        ContentBlock::Image(image) => match data_url(image).filter(|_| images) {
            Some(url) => json!({"type": "input_image", "image_url": url, "detail": "auto"}),
            None => words(NO_IMAGE),
        },
        ContentBlock::Document(document) => words(&document_text(document)),
        _ => return None,
    })
}

fn user(blocks: &[ContentBlock], images: bool) -> Vec<Value> {
    let mut items = Vec::new();
    for block in blocks {
        let ContentBlock::ToolResult(result) = block else {
            continue;
        };
        let output = match &result.content {
            None => Value::String("(no output)".to_owned()),
            Some(Content::Text(text)) => Value::String(text.clone()),
            Some(Content::Blocks(blocks)) => {
                let parts: Vec<Value> = blocks.iter().filter_map(|it| part(it, images)).collect();
                if parts.iter().all(|part| part["type"] == "input_text") {
                    let texts: Vec<&str> = parts
                        .iter()
                        .filter_map(|part| part["text"].as_str())
                        .collect();
                    Value::String(texts.join("\n"))
                } else {
                    Value::Array(parts)
                }
            }
        };
        items.push(json!({
            "type": "function_call_output",
            "call_id": clean_id(result.tool_use_id.as_str()),
            "output": output,
        }));
    }
    let parts: Vec<Value> = blocks
        .iter()
        .filter_map(|block| part(block, images))
        .collect();
    if !parts.is_empty() {
        items.push(json!({"role": "user", "content": parts}));
    }
    items
}

fn assistant(blocks: &[ContentBlock]) -> Vec<Value> {
    let mut items = Vec::new();
    // Reasoning is only sent right before the item that it came with: alone it is refused.
    let mut reasoning: Vec<Value> = Vec::new();
    let mut phase = None;
    for block in blocks {
        match block {
            ContentBlock::Thinking(thinking) => {
                let Some(text) = thinking.signature.strip_prefix(SIGNATURE) else {
                    continue;
                };
                let Ok(item) = serde_json::from_str::<Value>(text) else {
                    continue;
                };
                if let Some(word) = item["phase"].as_str() {
                    phase = Some(word.to_owned());
                } else if item["encrypted_content"]
                    .as_str()
                    .is_some_and(|it| !it.is_empty())
                {
                    reasoning.push(item);
                }
            }
            ContentBlock::Text(text) if !text.text.is_empty() => {
                items.append(&mut reasoning);
                let mut item = json!({
                    "type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": text.text}],
                });
                if let Some(phase) = phase.take() {
                    item["phase"] = phase.into();
                }
                items.push(item);
            }
            ContentBlock::ToolUse(call) => {
                items.append(&mut reasoning);
                items.push(json!({
                    "type": "function_call",
                    "call_id": clean_id(call.id.as_str()),
                    "name": call.name,
                    "arguments": call.input.to_string(),
                }));
            }
            _ => {}
        }
    }
    items
}
