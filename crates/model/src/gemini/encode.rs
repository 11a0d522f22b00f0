//! Requests, from the Messages shape.

use super::{SIGNATURE, schema};
use crate::chat::{document_text, effort_of, is_thinking_off, joined_tools, system_text};
use crate::providers::ModelFacts;
use crate::request::ModelRequest;
use crate::search::search_tool;
use bytes::Bytes;
use lathe_protocol::content::{
    Content, ContentBlock, FOLLOWS_WORDS, Source, SourceBlock, ToolResultBlock,
};
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{Message, Role};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const NO_IMAGE: &str = "[image omitted: the model does not accept images]";
/// Tells the API that a call was made by another model.
const FOREIGN: &str = "skip_thought_signature_validator";

/// How requests are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) images: bool,
    /// The model insists on signatures, and takes a level of thinking instead of a budget.
    pub(super) modern: bool,
}

/// A message in the wire format.
#[derive(Debug, Default)]
pub(super) struct Encoded {
    pub(super) bytes: Bytes,
    /// Ids and names of its calls.
    pub(super) calls: Vec<(String, String)>,
}

/// The tools in the wire format, with the name that is sent and the name of the tool.
#[derive(Debug, Default)]
pub(super) struct Tools {
    pub(super) bytes: Bytes,
    pub(super) names: Arc<Vec<(String, String)>>,
    /// Notices about omitted tools.
    pub(super) left_out: Vec<String>,
}

/// Everything before the system prompt, without the closing brace.
pub(super) fn head(
    request: &ModelRequest,
    facts: &ModelFacts,
    wanted: Wanted,
    body: &Map<String, Value>,
) -> Bytes {
    let mut config = Map::new();
    config.insert(
        "maxOutputTokens".to_owned(),
        request.max_tokens.max(1).into(),
    );
    if !request.stop_sequences.is_empty() {
        config.insert(
            "stopSequences".to_owned(),
            request.stop_sequences.clone().into(),
        );
    }
    for (name, theirs) in [
        ("temperature", "temperature"),
        ("top_p", "topP"),
        ("top_k", "topK"),
    ] {
        if let Some(value) = request.extra.get(name) {
            config.insert(theirs.to_owned(), value.clone());
        }
    }
    if let Some(thinking) = thinking(request, facts, wanted) {
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    let mut object = Map::new();
    object.insert("generationConfig".to_owned(), Value::Object(config));
    for (name, value) in body {
        match (object.get_mut(name), value) {
            (Some(Value::Object(mine)), Value::Object(theirs)) => {
                mine.extend(theirs.clone());
            }
            _ => {
                object.insert(name.clone(), value.clone());
            }
        }
    }
    let mut text = Value::Object(object).to_string();
    text.pop();
    Bytes::from(text)
}

fn thinking(request: &ModelRequest, facts: &ModelFacts, wanted: Wanted) -> Option<Value> {
    let by_name = request.model.contains("gemini-2.5") || request.model.contains("gemini-3");
    if !facts.reasoning.unwrap_or(by_name) {
        return None;
    }
    let effort = effort_of(request);
    if wanted.modern {
        let level = match (is_thinking_off(request), effort) {
            (true, _) | (_, Some("low" | "medium")) => Some("low"),
            (_, Some(_)) => Some("high"),
            _ => None,
        };
        let mut config = json!({"includeThoughts": true});
        if let Some(level) = level {
            config["thinkingLevel"] = level.into();
        }
        return Some(config);
    }
    Some(match (is_thinking_off(request), effort) {
        (true, _) => json!({"includeThoughts": false, "thinkingBudget": 0}),
        (_, Some("low")) => json!({"includeThoughts": true, "thinkingBudget": 1024}),
        (_, Some("medium")) => json!({"includeThoughts": true, "thinkingBudget": 8192}),
        (_, Some(_)) => json!({"includeThoughts": true, "thinkingBudget": 24576}),
        _ => json!({"includeThoughts": true}),
    })
}

/// The system prompt.
pub(super) fn system(system: &Bytes) -> Bytes {
    Bytes::from(json!({"parts": [{"text": system_text(system)}]}).to_string())
}

/// A name that the API takes.
fn clean_name(name: &str) -> String {
    let mut clean: String = name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | ':' | '-') {
                letter
            } else {
                '_'
            }
        })
        .take(128)
        .collect();
    if !clean.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
        clean.insert(0, '_');
        clean.truncate(128);
    }
    clean
}

/// The tools in the wire format. One whose schema can't be expressed is left out.
pub(super) fn tools(tools: &Bytes) -> Tools {
    let mut names = Vec::new();
    let mut declarations = Vec::new();
    let mut left_out = Vec::new();
    for (name, description, parameters) in joined_tools(tools) {
        match schema::projected(&parameters) {
            Ok(parameters) => {
                let sent = clean_name(&name);
                let mut declaration = json!({"name": sent, "description": description});
                // A function without parameters says nothing about them.
                let empty = parameters["properties"]
                    .as_object()
                    .is_none_or(Map::is_empty);
                if !empty {
                    declaration["parameters"] = parameters;
                }
                declarations.push(declaration);
                names.push((sent, name));
            }
            Err(error) => {
                left_out.push(format!(
                    "The tool {name} is not offered to the model: its schema can't be sent to Gemini ({error})."
                ));
            }
        }
    }
    let bytes = match search_tool(tools) {
        Some(_) if declarations.is_empty() => Bytes::from_static(br#"[{"google_search":{}}]"#),
        None if declarations.is_empty() => Bytes::new(),
        _ => Bytes::from(json!([{"functionDeclarations": declarations}]).to_string()),
    };
    Tools {
        bytes,
        names: Arc::new(names),
        left_out,
    }
}

/// How tools are chosen.
pub(super) fn tool_config(request: &ModelRequest) -> Bytes {
    let Some(choice) = request.extra.get("tool_choice") else {
        return Bytes::new();
    };
    let config = match choice["type"].as_str() {
        Some("any") => json!({"mode": "ANY"}),
        Some("none") => json!({"mode": "NONE"}),
        Some("tool") => json!({
            "mode": "ANY",
            "allowedFunctionNames": [clean_name(choice["name"].as_str().unwrap_or_default())],
        }),
        _ => json!({"mode": "AUTO"}),
    };
    Bytes::from(format!(
        r#","toolConfig":{}"#,
        json!({"functionCallingConfig": config})
    ))
}

/// A message of the conversation. `calls` are ids and names of the calls before it.
pub(super) fn message(
    message: &EncodedMessage,
    wanted: Wanted,
    calls: &[(String, String)],
) -> Encoded {
    let Ok(parsed) = serde_json::from_slice::<Message>(&message.bytes) else {
        return Encoded::default();
    };
    let blocks = parsed.content.into_blocks();
    let (role, parts, made) = match message.role {
        Role::User => ("user", user(&blocks, wanted, calls), Vec::new()),
        Role::Assistant => {
            let made = blocks.iter().filter_map(|block| match block {
                ContentBlock::ToolUse(call) => {
                    Some((call.id.as_str().to_owned(), call.name.clone()))
                }
                _ => None,
            });
            ("model", assistant(&blocks, wanted), made.collect())
        }
    };
    if parts.is_empty() {
        return Encoded::default();
    }
    Encoded {
        bytes: Bytes::from(json!({"role": role, "parts": parts}).to_string()),
        calls: made,
    }
}

fn inline(image: &SourceBlock) -> Option<Value> {
    match &image.source {
        Source::Base64 { media_type, data } => {
            Some(json!({"inlineData": {"mimeType": media_type, "data": data}}))
        }
        Source::Other(_) => None,
    }
}

fn part(block: &ContentBlock, wanted: Wanted) -> Option<Value> {
    Some(match block {
        ContentBlock::Text(text) if text.text.is_empty() => return None,
        ContentBlock::Text(text) => json!({"text": text.text}),
        ContentBlock::Image(image) => inline(image)
            .filter(|_| wanted.images)
            .unwrap_or_else(|| json!({"text": NO_IMAGE})),
        // Gemini reads documents as it reads images.
        ContentBlock::Document(document) => inline(document)
            .filter(|_| wanted.images)
            .unwrap_or_else(|| json!({"text": document_text(document)})),
        _ => return None,
    })
}

fn user(blocks: &[ContentBlock], wanted: Wanted, calls: &[(String, String)]) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut beside = Vec::new();
    for block in blocks {
        if let ContentBlock::ToolResult(result) = block {
            parts.push(response(result, wanted, calls, &mut beside));
        }
    }
    parts.append(&mut beside);
    parts.extend(blocks.iter().filter_map(|block| part(block, wanted)));
    parts
}

fn response(
    result: &ToolResultBlock,
    wanted: Wanted,
    calls: &[(String, String)],
    beside: &mut Vec<Value>,
) -> Value {
    let id = result.tool_use_id.as_str();
    let name = calls
        .iter()
        .find(|(known, _)| known == id)
        .map_or("unknown", |(_, name)| name.as_str());
    let mut texts = Vec::new();
    match &result.content {
        None => {}
        Some(Content::Text(text)) => texts.push(text.clone()),
        Some(Content::Blocks(blocks)) => {
            for block in blocks {
                match part(block, wanted) {
                    Some(part) if part.get("inlineData").is_some() => beside.push(part),
                    Some(part) => texts.push(part["text"].as_str().unwrap_or_default().to_owned()),
                    None => {}
                }
            }
        }
    }
    let key = if result.is_error == Some(true) {
        "error"
    } else {
        "output"
    };
    json!({"functionResponse": {
        "id": id, "name": clean_name(name), "response": {key: texts.join("\n")},
    }})
}

fn assistant(blocks: &[ContentBlock], wanted: Wanted) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    let mut signature: Option<String> = None;
    let mut any_call = false;
    for block in blocks {
        match block {
            ContentBlock::Thinking(thinking) => {
                let signed = &thinking.signature;
                let signed = signed.strip_prefix(FOLLOWS_WORDS).unwrap_or(signed);
                let Some(text) = signed.strip_prefix(SIGNATURE) else {
                    continue;
                };
                if let Some(of_call) = text.strip_prefix("call:") {
                    signature = Some(of_call.to_owned());
                } else if let Some(of_part) = text.strip_prefix("part:") {
                    parts.push(json!({"text": "", "thoughtSignature": of_part}));
                } else if let Some(of_text) = text.strip_prefix("text:")
                    && let Some(last) = parts.last_mut()
                    && last.get("text").is_some()
                {
                    last["thoughtSignature"] = of_text.into();
                }
            }
            ContentBlock::Text(text) if !text.text.is_empty() => {
                parts.push(json!({"text": text.text}));
            }
            ContentBlock::ToolUse(call) => {
                let mut part = json!({"functionCall": {
                    "id": call.id.as_str(), "name": clean_name(&call.name), "args": call.input,
                }});
                if let Some(signature) = signature.take() {
                    part["thoughtSignature"] = signature.into();
                } else if wanted.modern && !any_call {
                    // Only the first call of a step has one; another model's has none.
                    part["thoughtSignature"] = FOREIGN.into();
                }
                any_call = true;
                parts.push(part);
            }
            _ => {}
        }
    }
    parts
}
