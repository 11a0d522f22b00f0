//! Requests, from the Messages shape.

use super::GRAMMAR;
use crate::provider::Transfer;
use crate::providers::{EffortField, ModelFacts, Quirks, ReasoningField};
use crate::request::{ModelRequest, ThinkingMode};
use bytes::Bytes;
use lathe_protocol::content::{Content, ContentBlock, Source, SourceBlock, ToolResultBlock};
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{Message, Role};
use lathe_settings::schema::{CacheSetting, CacheStyle};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// Separates a result from the user's text, for servers that require it.
pub(crate) const BRIDGE: &[u8] = br#"{"role":"assistant","content":"I have the results."},"#;
/// Replaces an image that the model can't see.
const NO_IMAGE: &str = "[image omitted: the model does not accept images]";
/// How the signature of reasoning begins that a Chat server gave.
pub(crate) const SIGNATURE: &str = "chat:";

/// How requests are written.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) quirks: Quirks,
    pub(crate) images: bool,
    pub(crate) effort: bool,
    pub(crate) parallel: Option<bool>,
    pub(crate) marks_cache: bool,
    pub(crate) dropped: HashSet<&'static str>,
}

impl Wanted {
    pub(crate) fn system_role(&self) -> &str {
        self.quirks.system_role.as_deref().unwrap_or("system")
    }

    pub(crate) fn max_tokens_field(&self) -> &str {
        self.quirks
            .max_tokens_field
            .as_deref()
            .unwrap_or("max_tokens")
    }
}

/// A message in the wire format: one or several objects, separated by commas.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: Bytes,
    pub(crate) starts_user: bool,
    pub(crate) ends_result: bool,
}

/// The tools in the wire format, and their names.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    pub(crate) bytes: Bytes,
    pub(crate) names: Arc<Vec<String>>,
}

/// Whether parts of messages carry cache markers.
pub(crate) fn marks_cache(facts: &ModelFacts, model: &str) -> bool {
    match facts.cache {
        Some(CacheSetting::Style(CacheStyle::Anthropic)) => true,
        Some(CacheSetting::Switch(_)) => false,
        None => model.starts_with("anthropic/claude"),
    }
}

/// Everything before the tools and the messages, without the closing brace.
pub(crate) fn head(
    request: &ModelRequest,
    wanted: &Wanted,
    body: &Map<String, Value>,
    transfer: Transfer,
) -> Bytes {
    let mut object = Map::new();
    object.insert("model".to_owned(), request.model.as_str().into());
    let field = wanted.max_tokens_field();
    // A limit of 0 would be refused.
    if field != "none" && request.max_tokens > 0 {
        object.insert(field.to_owned(), request.max_tokens.into());
    }
    if transfer == Transfer::Streaming {
        object.insert("stream".to_owned(), true.into());
        if wanted.quirks.stream_usage != Some(false) {
            object.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
    }
    if !request.stop_sequences.is_empty() {
        object.insert("stop".to_owned(), request.stop_sequences.clone().into());
    }
    for name in ["temperature", "top_p"] {
        if let Some(value) = request.extra.get(name) {
            object.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(grammar) = request.extra.get(GRAMMAR)
        && !wanted.dropped.contains(GRAMMAR)
    {
        object.insert(GRAMMAR.to_owned(), grammar.clone());
    }
    if wanted.effort {
        effort(request, wanted.quirks.effort(), &mut object);
    }
    for (name, value) in body {
        object.insert(name.clone(), value.clone());
    }
    let mut text = Value::Object(object).to_string();
    text.pop();
    Bytes::from(text)
}

/// The effort that a request asks for, if it asks for one.
pub(crate) fn effort_of(request: &ModelRequest) -> Option<&str> {
    request.extra.get("output_config")?.get("effort")?.as_str()
}

/// Whether a request wants no reasoning.
pub(crate) fn is_thinking_off(request: &ModelRequest) -> bool {
    request
        .thinking
        .is_some_and(|thinking| thinking.mode == ThinkingMode::Disabled)
}

fn effort(request: &ModelRequest, field: EffortField, object: &mut Map<String, Value>) {
    let off = is_thinking_off(request);
    let level = effort_of(request).map(|level| match level {
        "xhigh" | "max" => "high",
        other => other,
    });
    match field {
        EffortField::ReasoningEffort => {
            if let Some(level) = level.filter(|_| !off) {
                object.insert("reasoning_effort".to_owned(), level.into());
            }
        }
        EffortField::Reasoning => {
            if off {
                object.insert("reasoning".to_owned(), json!({"enabled": false}));
            } else if let Some(level) = level {
                object.insert("reasoning".to_owned(), json!({"effort": level}));
            }
        }
        EffortField::Thinking => {
            let kind = if off { "disabled" } else { "enabled" };
            object.insert("thinking".to_owned(), json!({"type": kind}));
        }
        EffortField::EnableThinking => {
            object.insert("enable_thinking".to_owned(), (!off).into());
        }
        EffortField::TemplateArguments => {
            object.insert(
                "chat_template_kwargs".to_owned(),
                json!({"enable_thinking": !off}),
            );
        }
        EffortField::None => {}
    }
}

/// The system prompt as a message.
pub(crate) fn system(system: &Bytes, wanted: &Wanted) -> Bytes {
    let text = system_text(system);
    let content = if wanted.marks_cache {
        json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}])
    } else {
        Value::String(text)
    };
    Bytes::from(json!({"role": wanted.system_role(), "content": content}).to_string())
}

/// The text of a system prompt.
pub(crate) fn system_text(system: &Bytes) -> String {
    let blocks: Vec<ContentBlock> = serde_json::from_slice(system).unwrap_or_default();
    lathe_protocol::content::joined_text(&blocks)
}

/// The tools of a request: name, description and schema of those that the client runs.
pub(crate) fn joined_tools(tools: &Bytes) -> Vec<(String, String, Value)> {
    let list: Vec<Value> = serde_json::from_slice(tools).unwrap_or_default();
    list.into_iter()
        .filter_map(|mut tool| {
            let name = tool["name"].as_str()?.to_owned();
            // A tool that only Anthropic's servers have.
            let schema = tool.get_mut("input_schema")?.take();
            let description = tool["description"].as_str().unwrap_or_default().to_owned();
            Some((name, description, schema))
        })
        .collect()
}

/// The tools in the wire format.
pub(crate) fn tools(tools: &Bytes, wanted: &Wanted) -> Tools {
    let tools = joined_tools(tools);
    let strict = wanted
        .quirks
        .strict
        .filter(|_| !wanted.dropped.contains("strict"));
    let list: Vec<Value> = tools
        .iter()
        .map(|(name, description, schema)| {
            let mut function =
                json!({"name": name, "description": description, "parameters": schema});
            if let Some(strict) = strict {
                function["strict"] = strict.into();
            }
            json!({"type": "function", "function": function})
        })
        .collect();
    Tools {
        bytes: Bytes::from(Value::Array(list).to_string()),
        names: Arc::new(tools.into_iter().map(|(name, _, _)| name).collect()),
    }
}

/// How tools are chosen.
pub(crate) fn tool_options(request: &ModelRequest, wanted: &Wanted) -> Bytes {
    let mut text = String::new();
    if let Some(choice) = request.extra.get("tool_choice") {
        let value = match choice["type"].as_str() {
            Some("any") => json!("required"),
            Some("none") => json!("none"),
            Some("tool") => json!({"type": "function", "function": {"name": choice["name"]}}),
            _ => json!("auto"),
        };
        let _ = write!(text, r#","tool_choice":{value}"#);
    }
    if let Some(parallel) = wanted.parallel {
        let _ = write!(text, r#","parallel_tool_calls":{parallel}"#);
    }
    Bytes::from(text)
}

/// A message of the conversation.
pub(crate) fn message(message: &EncodedMessage, wanted: &Wanted) -> Encoded {
    let Ok(parsed) = serde_json::from_slice::<Message>(&message.bytes) else {
        return Encoded::default();
    };
    let blocks = parsed.content.into_blocks();
    match message.role {
        Role::User => user(&blocks, wanted),
        Role::Assistant => assistant(&blocks, wanted),
    }
}

fn user(blocks: &[ContentBlock], wanted: &Wanted) -> Encoded {
    let mut messages: Vec<Value> = Vec::new();
    let mut parts: Vec<Value> = Vec::new();
    for block in blocks {
        if let ContentBlock::ToolResult(result) = block {
            let text = result_text(result, wanted, &mut parts);
            messages.push(json!({
                "role": "tool",
                "tool_call_id": call_id(result.tool_use_id.as_str(), wanted),
                "content": text,
            }));
        }
    }
    if !parts.is_empty() {
        let note = json!({"type": "text", "text": "The images of the results above:"});
        parts.insert(0, note);
    }
    for block in blocks {
        match block {
            ContentBlock::Text(text) if !text.text.is_empty() => {
                parts.push(json!({"type": "text", "text": text.text}));
            }
            ContentBlock::Image(image) => parts.push(image_part(image, wanted)),
            ContentBlock::Document(document) => {
                parts.push(json!({"type": "text", "text": document_text(document)}));
            }
            _ => {}
        }
    }
    let results = messages.len();
    if !parts.is_empty() {
        if results > 0 && wanted.quirks.short_ids() {
            messages.push(json!({"role": "assistant", "content": "I have the results."}));
        }
        let all_text = parts.iter().all(|part| part["type"] == "text");
        let content = if all_text {
            let texts: Vec<&str> = parts
                .iter()
                .filter_map(|part| part["text"].as_str())
                .collect();
            Value::String(texts.join("\n\n"))
        } else {
            Value::Array(parts)
        };
        messages.push(json!({"role": "user", "content": content}));
    }
    let is_role =
        |message: Option<&Value>, role: &str| message.is_some_and(|it| it["role"] == role);
    Encoded {
        starts_user: is_role(messages.first(), "user"),
        ends_result: is_role(messages.last(), "tool"),
        bytes: joined(&messages),
    }
}

fn joined(messages: &[Value]) -> Bytes {
    let texts: Vec<String> = messages.iter().map(Value::to_string).collect();
    Bytes::from(texts.join(","))
}

/// The text of a result; its images go into `images`.
fn result_text(result: &ToolResultBlock, wanted: &Wanted, images: &mut Vec<Value>) -> String {
    let mut text = String::new();
    let mut add = |more: &str| {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(more);
    };
    match &result.content {
        None => {}
        Some(Content::Text(words)) => add(words),
        Some(Content::Blocks(blocks)) => {
            for block in blocks {
                match block {
                    ContentBlock::Text(words) => add(&words.text),
                    ContentBlock::Image(image) if wanted.images => {
                        add("[image: see below]");
                        images.push(image_part(image, wanted));
                    }
                    ContentBlock::Image(_) => add(NO_IMAGE),
                    ContentBlock::Document(document) => add(&document_text(document)),
                    other => add(&serde_json::to_string(other).unwrap_or_default()),
                }
            }
        }
    }
    if text.is_empty() {
        text.push_str("(no output)");
    }
    text
}

/// An image as an address with the bytes in it.
pub(crate) fn data_url(image: &SourceBlock) -> Option<String> {
    match &image.source {
        Source::Base64 { media_type, data } => Some(format!("data:{media_type};base64,{data}")),
        Source::Other(value) => value["url"].as_str().map(str::to_owned),
    }
}

fn image_part(image: &SourceBlock, wanted: &Wanted) -> Value {
    match data_url(image).filter(|_| wanted.images) {
        Some(url) => json!({"type": "image_url", "image_url": {"url": url}}),
        None => json!({"type": "text", "text": NO_IMAGE}),
    }
}

/// The text that replaces a document.
pub(crate) fn document_text(document: &SourceBlock) -> String {
    match &document.source {
        Source::Other(value) if value["type"] == "text" => {
            value["data"].as_str().unwrap_or_default().to_owned()
        }
        Source::Base64 { media_type, .. } => {
            format!("[{media_type} document omitted: the model does not accept documents]")
        }
        Source::Other(_) => "[document omitted: the model does not accept documents]".to_owned(),
    }
}

fn assistant(blocks: &[ContentBlock], wanted: &Wanted) -> Encoded {
    let mut text = String::new();
    let mut calls: Vec<Value> = Vec::new();
    let mut reasoning: Vec<(&str, &str)> = Vec::new();
    for block in blocks {
        match block {
            ContentBlock::Text(words) => text.push_str(&words.text),
            ContentBlock::ToolUse(call) => calls.push(json!({
                "id": call_id(call.id.as_str(), wanted),
                "type": "function",
                "function": {"name": call.name, "arguments": call.input.to_string()},
            })),
            ContentBlock::Thinking(thinking) => {
                if let Some(field) = thinking.signature.strip_prefix(SIGNATURE) {
                    reasoning.push((field, &thinking.thinking));
                }
            }
            _ => {}
        }
    }
    if text.trim().is_empty() && calls.is_empty() {
        return Encoded::default();
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), "assistant".into());
    message.insert("content".to_owned(), text.into());
    put_reasoning(&mut message, &reasoning, !calls.is_empty(), wanted);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    Encoded {
        bytes: Bytes::from(Value::Object(message).to_string()),
        starts_user: false,
        ends_result: false,
    }
}

/// Gives reasoning back under the name that it came with, or that the server insists on.
fn put_reasoning(
    message: &mut Map<String, Value>,
    reasoning: &[(&str, &str)],
    has_calls: bool,
    wanted: &Wanted,
) {
    for (field, _) in reasoning {
        if let Some(details) = field.strip_prefix("reasoning_details:")
            && let Ok(details) = serde_json::from_str::<Value>(details)
        {
            message.insert("reasoning_details".to_owned(), details);
        }
    }
    if !has_calls || message.contains_key("reasoning_details") {
        return;
    }
    let words: Vec<&str> = reasoning.iter().map(|(_, words)| *words).collect();
    let insisted = match wanted.quirks.reasoning() {
        Some(ReasoningField::Content) => Some("reasoning_content"),
        Some(ReasoningField::Reasoning) => Some("reasoning"),
        Some(ReasoningField::None | ReasoningField::Think) => return,
        Some(ReasoningField::Details) | None => None,
    };
    let own = reasoning
        .first()
        .map(|(field, _)| *field)
        .filter(|field| matches!(*field, "reasoning_content" | "reasoning"));
    if let Some(field) = insisted.or(own) {
        message.insert(field.to_owned(), words.join("\n").into());
    }
}

/// The id of a call as the server takes it.
fn call_id(id: &str, wanted: &Wanted) -> String {
    if !wanted.quirks.short_ids() {
        return crate::wire::calls::clean_id(id);
    }
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_owned();
    }
    // FNV-1a: the same id every time, on every machine.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in id.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    (0..9)
        .map(|_| {
            let letter = LETTERS[usize::try_from(hash % 62).unwrap_or_default()];
            hash /= 62;
            char::from(letter)
        })
        .collect()
}

/// A message with a cache marker on its last part.
pub(crate) fn marked(bytes: &Bytes) -> Bytes {
    let text = format!("[{}]", String::from_utf8_lossy(bytes));
    let Ok(mut messages) = serde_json::from_str::<Vec<Value>>(&text) else {
        return bytes.clone();
    };
    let marker = json!({"type": "ephemeral"});
    if let Some(last) = messages.last_mut() {
        match &mut last["content"] {
            Value::String(words) if !words.is_empty() => {
                let words = std::mem::take(words);
                last["content"] = json!([{"type": "text", "text": words, "cache_control": marker}]);
            }
            Value::Array(parts) => {
                if let Some(part) = parts.last_mut() {
                    part["cache_control"] = marker;
                }
            }
            _ => {}
        }
    }
    joined(&messages)
}
