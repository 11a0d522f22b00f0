//! Google Gemini.

use super::{Read, push_message};
use crate::reply::Reply;
use crate::validate::issued::sign;
use crate::wire::{Event, Message, split};
use serde_json::{Map, Value, json};

/// Stands for the signature of another model's call.
const SKIP: &str = "skip_thought_signature_validator";
const KNOWN: &[&str] = &[
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
];
const SCHEMA: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "properties",
    "required",
    "anyOf",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "pattern",
    "default",
];

/// The signature of a model's calls.
fn signature(model: &str) -> String {
    sign(model, "gemini")
}

/// Reads a request and holds it to the rules of the format.
pub(super) fn read(path: &str, body: &Value) -> Read {
    let mut problems = Vec::new();
    let name = path.rsplit('/').next().unwrap_or_default();
    let (model, method) = name.split_once(':').unwrap_or((name, ""));
    let mut units = vec![
        body["systemInstruction"].to_string(),
        body["tools"].to_string(),
    ];
    for name in body.as_object().into_iter().flatten().map(|(name, _)| name) {
        if !KNOWN.contains(&name.as_str()) {
            problems.push(format!("Unknown name \"{name}\": Cannot find field."));
        }
    }
    let mut out = Map::new();
    out.insert("model".into(), json!(model));
    out.insert(
        "max_tokens".into(),
        body["generationConfig"]["maxOutputTokens"].clone(),
    );
    out.insert("stream".into(), json!(method == "streamGenerateContent"));
    let system = body["systemInstruction"]["parts"][0]["text"].as_str();
    if let Some(text) = system.filter(|text| !text.is_empty()) {
        out.insert("system".into(), json!([{"type": "text", "text": text}]));
    }
    tools(body, &mut out, &mut problems);
    let mut messages = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    for (index, content) in body["contents"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        units.push(content.to_string());
        let at = format!("contents[{index}]");
        let role = match content["role"].as_str() {
            Some("user") => "user",
            Some("model") => "assistant",
            other => {
                problems.push(format!("{at}.role: {other:?} is not valid"));
                "user"
            }
        };
        let parts = content["parts"].as_array().cloned().unwrap_or_default();
        if parts.is_empty() {
            problems.push(format!("{at}.parts: must not be empty"));
        }
        if role == "assistant" {
            open.clear();
        }
        let mut blocks = Vec::new();
        let mut first_call = true;
        for part in &parts {
            if let Some(call) = part.get("functionCall") {
                check_signature(part, model, first_call, &at, &mut problems);
                first_call = false;
                let id = call["id"].as_str().unwrap_or_default().to_owned();
                let name = call["name"].as_str().unwrap_or_default().to_owned();
                blocks.push(
                    json!({"type": "tool_use", "id": id, "name": name, "input": call["args"]}),
                );
                open.push((id, name));
            } else if let Some(answer) = part.get("functionResponse") {
                blocks.extend(response(answer, &mut open, &at, &mut problems));
            } else if let Some(data) = part.get("inlineData") {
                blocks.push(json!({"type": "image", "source": {
                    "type": "base64", "media_type": data["mimeType"], "data": data["data"]}}));
            } else if part["text"].is_string() {
                blocks.push(json!({"type": "text", "text": part["text"]}));
            } else {
                problems.push(format!("{at}: a part without data"));
            }
        }
        if role == "user" && !open.is_empty() {
            problems.push(format!(
                "Please ensure that the number of function response parts is equal to the number of function call parts ({open:?})"
            ));
            open.clear();
        }
        push_message(&mut messages, role, blocks);
    }
    out.insert("messages".into(), Value::Array(messages));
    Read {
        body: Value::Object(out),
        problems,
        units,
    }
}

fn tools(body: &Value, out: &mut Map<String, Value>, problems: &mut Vec<String>) {
    if let Some(list) = body["tools"][0]["functionDeclarations"].as_array() {
        let converted: Vec<Value> = list
            .iter()
            .map(|tool| {
                let schema = tool.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"}));
                check_schema(&schema, problems);
                json!({"name": tool["name"], "description": tool["description"], "input_schema": schema})
            })
            .collect();
        out.insert("tools".into(), Value::Array(converted));
    }
}

/// The result of a call, which must be the next that is open.
fn response(
    answer: &Value,
    open: &mut Vec<(String, String)>,
    at: &str,
    problems: &mut Vec<String>,
) -> Option<Value> {
    let name = answer["name"].as_str().unwrap_or_default();
    if open.is_empty() {
        problems.push(format!("{at}: a function response without its call"));
        return None;
    }
    let (id, wanted) = open.remove(0);
    if wanted != name {
        problems.push(format!("{at}: the response of {wanted} is called {name}"));
    }
    let response = &answer["response"];
    let text = response["output"].as_str().or(response["error"].as_str());
    let mut block = json!({"type": "tool_result", "tool_use_id": id, "content": text});
    if response.get("error").is_some() {
        block["is_error"] = json!(true);
    }
    Some(block)
}

fn check_signature(part: &Value, model: &str, first: bool, at: &str, problems: &mut Vec<String>) {
    match part["thoughtSignature"].as_str() {
        Some(SKIP) => {}
        Some(known) if known == signature(model) => {}
        Some(_) => problems.push("Corrupted thought signature.".to_owned()),
        None if first && !model.contains("gemini-2") => {
            problems.push(format!(
                "{at}: Function call is missing a thought_signature"
            ));
        }
        None => {}
    }
}

fn check_schema(schema: &Value, problems: &mut Vec<String>) {
    let Some(fields) = schema.as_object() else {
        problems.push("a schema must be an object".to_owned());
        return;
    };
    for key in fields.keys() {
        if !SCHEMA.contains(&key.as_str()) {
            problems.push(format!(
                "Unknown name \"{key}\" at 'parameters': Cannot find field."
            ));
        }
    }
    if !schema["type"].is_string() && schema.get("anyOf").is_none() {
        problems.push(format!("a schema without a type: {schema}"));
    }
    if schema["type"] == "array" && schema.get("items").is_none() {
        problems.push("parameters.items: missing field.".to_owned());
    }
    for inner in schema["properties"].as_object().into_iter().flatten() {
        check_schema(inner.1, problems);
    }
    if let Some(items) = schema.get("items") {
        check_schema(items, problems);
    }
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        check_schema(choice, problems);
    }
}

/// The parts of an answer, with the blocks that they belong to, text in pieces.
fn parts(message: &Message, size: usize) -> Vec<(usize, Value)> {
    let mut parts = Vec::new();
    let mut signed = false;
    for (index, block) in message.content.iter().enumerate() {
        match block["type"].as_str() {
            Some("text") => {
                for part in split(block["text"].as_str().unwrap_or_default(), size) {
                    parts.push((index, json!({"text": part})));
                }
            }
            Some("thinking") => {
                for part in split(block["thinking"].as_str().unwrap_or_default(), size) {
                    parts.push((index, json!({"text": part, "thought": true})));
                }
            }
            Some("tool_use") => {
                let args = match &block["input"] {
                    Value::String(raw) => serde_json::from_str(raw).unwrap_or_else(|_| json!({})),
                    other => other.clone(),
                };
                let mut part = json!({"functionCall": {"id": block["id"], "name": block["name"], "args": args}});
                if !signed {
                    part["thoughtSignature"] = signature(&message.model).into();
                    signed = true;
                }
                parts.push((index, part));
            }
            _ => {}
        }
    }
    parts
}

fn end(message: &Message) -> Value {
    let number = |name: &str| {
        message
            .usage
            .get(name)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    let read = number("cache_read_input_tokens");
    let prompt = number("input_tokens") + read + number("cache_creation_input_tokens");
    let output = number("output_tokens");
    let reason = match message.stop_reason.as_str() {
        "max_tokens" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        _ => "STOP",
    };
    json!({
        "candidates": [{"content": {"role": "model", "parts": []}, "finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": prompt, "cachedContentTokenCount": read,
            "candidatesTokenCount": output, "totalTokenCount": prompt + output},
        "modelVersion": message.model, "responseId": message.id,
    })
}

/// The answer to a request that wants no stream.
pub(super) fn whole(message: &Message) -> Value {
    let mut answer = end(message);
    let all: Vec<Value> = parts(message, usize::MAX)
        .into_iter()
        .map(|(_, part)| part)
        .collect();
    answer["candidates"][0]["content"]["parts"] = Value::Array(all);
    answer
}

/// The chunks of a stream.
pub(super) fn events(message: &Message, reply: &Reply) -> Vec<Event> {
    let chunk = |part: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
            "modelVersion": message.model, "responseId": message.id})
    };
    let mut events: Vec<Event> = parts(message, reply.delta_characters.max(1))
        .into_iter()
        .map(|(index, part)| Event::named("content_block_delta", Some(index), chunk(part)))
        .collect();
    events.push(Event::named("message_delta", None, end(message)));
    events
}
