//! OpenAI Chat Completions.

use super::{Read, image_of, push_message};
use crate::reply::Reply;
use crate::wire::{Event, Message, split};
use serde_json::{Map, Value, json};

const KNOWN: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "stop",
    "temperature",
    "top_p",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "enable_thinking",
    "chat_template_kwargs",
    "response_format",
    "top_k",
    "seed",
    "user",
    "metadata",
];

/// Reads a request and holds it to the rules of the format.
pub(super) fn read(body: &Value) -> Read {
    let mut problems = Vec::new();
    let mut units = Vec::new();
    let Some(fields) = body.as_object() else {
        problems.push("the body must be an object".to_owned());
        return Read {
            problems,
            ..Read::default()
        };
    };
    for name in fields.keys() {
        if !KNOWN.contains(&name.as_str()) {
            problems.push(format!("{name}: unknown parameter"));
        }
    }
    if fields.contains_key("stream_options") && body["stream"] != true {
        problems.push("stream_options: only allowed when stream is true".to_owned());
    }
    let mut out = Map::new();
    out.insert("model".into(), body["model"].clone());
    let limit = ["max_completion_tokens", "max_tokens"]
        .into_iter()
        .find_map(|name| body[name].as_u64());
    if limit == Some(0) {
        problems.push("max_tokens: must be at least 1".to_owned());
    }
    out.insert("max_tokens".into(), json!(limit.unwrap_or(4096)));
    out.insert("stream".into(), json!(body["stream"] == true));
    tools(body, &mut out, &mut units, &mut problems);
    let mut messages = Vec::new();
    let mut system = String::new();
    let mut open: Vec<String> = Vec::new();
    let list = body["messages"].as_array().cloned().unwrap_or_default();
    for (index, message) in list.iter().enumerate() {
        units.push(message.to_string());
        let at = format!("messages.[{index}]");
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            problems.push(format!("{at}: calls {open:?} have no tool message"));
            open.clear();
        }
        match role {
            "system" | "developer" => {
                system.push_str(&text_of(&message["content"]));
            }
            "user" => {
                let blocks = parts(&message["content"], &at, &mut problems);
                if blocks.is_empty() {
                    problems.push(format!("{at}.content: must not be empty"));
                }
                push_message(&mut messages, "user", blocks);
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                match open.iter().position(|known| known == id) {
                    Some(place) => {
                        open.remove(place);
                    }
                    None => problems.push(format!("{at}: no call {id:?} was made before")),
                }
                if !message["content"].is_string() {
                    problems.push(format!("{at}.content: must be a string"));
                }
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": message["content"]});
                push_message(&mut messages, "user", vec![result]);
            }
            "assistant" => {
                let blocks = assistant(message, &at, &mut open, &mut problems);
                push_message(&mut messages, "assistant", blocks);
            }
            other => problems.push(format!("{at}.role: {other:?} is not a role")),
        }
    }
    if !open.is_empty() {
        problems.push(format!("calls {open:?} have no tool message"));
    }
    if !system.is_empty() {
        out.insert("system".into(), json!([{"type": "text", "text": system}]));
    }
    out.insert("messages".into(), Value::Array(messages));
    Read {
        body: Value::Object(out),
        problems,
        units,
    }
}

fn tools(
    body: &Value,
    out: &mut Map<String, Value>,
    units: &mut Vec<String>,
    problems: &mut Vec<String>,
) {
    let Some(list) = body.get("tools") else {
        return;
    };
    units.push(list.to_string());
    let list = list.as_array().cloned().unwrap_or_default();
    if list.is_empty() {
        problems.push("tools: [] is too short".to_owned());
    }
    let converted: Vec<Value> = list
        .iter()
        .map(|tool| {
            let function = &tool["function"];
            if tool["type"] != "function" || !function["parameters"].is_object() {
                problems.push("tools: must be functions with parameters".to_owned());
            }
            json!({
                "name": function["name"],
                "description": function["description"],
                "input_schema": function["parameters"],
            })
        })
        .collect();
    out.insert("tools".into(), Value::Array(converted));
}

fn assistant(
    message: &Value,
    at: &str,
    open: &mut Vec<String>,
    problems: &mut Vec<String>,
) -> Vec<Value> {
    let mut blocks = Vec::new();
    match &message["content"] {
        Value::String(text) if !text.is_empty() => {
            blocks.push(json!({"type": "text", "text": text}));
        }
        Value::String(_) | Value::Null => {}
        _ => problems.push(format!("{at}.content: must be a string")),
    }
    let calls = message["tool_calls"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if message.get("tool_calls").is_some() && calls.is_empty() {
        problems.push(format!("{at}.tool_calls: must not be empty"));
    }
    for call in &calls {
        let id = call["id"].as_str().unwrap_or_default().to_owned();
        let arguments = call["function"]["arguments"].as_str().unwrap_or("?");
        let input: Value = serde_json::from_str(arguments).unwrap_or_default();
        if id.is_empty() || open.contains(&id) {
            problems.push(format!(
                "{at}: the id {id:?} of a call is missing or not unique"
            ));
        }
        if !input.is_object() {
            problems.push(format!("{at}: arguments {arguments:?} are no object"));
        }
        let name = &call["function"]["name"];
        blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
        open.push(id);
    }
    if blocks.is_empty() {
        problems.push(format!("{at}: neither content nor tool_calls"));
    }
    blocks
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

fn parts(content: &Value, at: &str, problems: &mut Vec<String>) -> Vec<Value> {
    match content {
        Value::String(text) if !text.is_empty() => vec![json!({"type": "text", "text": text})],
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| match part["type"].as_str() {
                Some("text") => Some(json!({"type": "text", "text": part["text"]})),
                Some("image_url") => {
                    let image = part["image_url"]["url"].as_str().and_then(image_of);
                    if image.is_none() {
                        problems.push(format!("{at}: an image can't be read"));
                    }
                    image
                }
                other => {
                    problems.push(format!("{at}: {other:?} is no part"));
                    None
                }
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn finish_reason(message: &Message) -> &'static str {
    match message.stop_reason.as_str() {
        "tool_use" => "tool_calls",
        "max_tokens" => "length",
        "refusal" => "content_filter",
        _ => "stop",
    }
}

fn usage(message: &Message) -> Value {
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
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": read},
    })
}

/// The answer to a request that wants no stream.
pub(super) fn whole(message: &Message) -> Value {
    let mut text = String::new();
    let mut reasoning = String::new();
    let mut calls = Vec::new();
    for block in &message.content {
        match block["type"].as_str() {
            Some("text") => text.push_str(block["text"].as_str().unwrap_or_default()),
            Some("thinking") => reasoning.push_str(block["thinking"].as_str().unwrap_or_default()),
            Some("tool_use") => calls.push(json!({
                "id": block["id"], "type": "function",
                "function": {"name": block["name"], "arguments": arguments(block)},
            })),
            _ => {}
        }
    }
    let mut answer = json!({"role": "assistant", "content": text});
    if !reasoning.is_empty() {
        answer["reasoning_content"] = reasoning.into();
    }
    if !calls.is_empty() {
        answer["tool_calls"] = calls.into();
    }
    json!({
        "id": message.id, "object": "chat.completion", "model": message.model,
        "choices": [{"index": 0, "message": answer, "finish_reason": finish_reason(message)}],
        "usage": usage(message),
    })
}

pub(super) fn arguments(block: &Value) -> String {
    match &block["input"] {
        Value::String(raw) => raw.clone(),
        other => other.to_string(),
    }
}

/// The chunks of a stream.
pub(super) fn events(message: &Message, reply: &Reply) -> Vec<Event> {
    let size = reply.delta_characters.max(1);
    let chunk = |delta: Value, finish: Value| {
        json!({
            "id": message.id, "object": "chat.completion.chunk", "created": 1, "model": message.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    };
    let mut events = vec![Event::named(
        "message_start",
        None,
        chunk(json!({"role": "assistant", "content": ""}), Value::Null),
    )];
    let mut number = 0;
    for (index, block) in message.content.iter().enumerate() {
        let mut deltas = Vec::new();
        match block["type"].as_str() {
            Some("text") => {
                for part in split(block["text"].as_str().unwrap_or_default(), size) {
                    deltas.push(json!({"content": part}));
                }
            }
            Some("thinking") => {
                for part in split(block["thinking"].as_str().unwrap_or_default(), size) {
                    deltas.push(json!({"reasoning_content": part}));
                }
            }
            Some("tool_use") => {
                deltas.push(
                    json!({"tool_calls": [{"index": number, "id": block["id"], "type": "function",
                    "function": {"name": block["name"], "arguments": ""}}]}),
                );
                for part in split(&arguments(block), size) {
                    deltas.push(
                        json!({"tool_calls": [{"index": number, "function": {"arguments": part}}]}),
                    );
                }
                number += 1;
            }
            _ => {}
        }
        for delta in deltas {
            let data = chunk(delta, Value::Null);
            events.push(Event::named("content_block_delta", Some(index), data));
        }
    }
    let finish = chunk(json!({}), finish_reason(message).into());
    events.push(Event::named("message_delta", None, finish));
    let mut last = json!({
        "id": message.id, "object": "chat.completion.chunk", "created": 1, "model": message.model, "choices": [],
    });
    last["usage"] = usage(message);
    events.push(Event::named("message_delta", None, last));
    events.push(Event::named("message_stop", None, json!("[DONE]")));
    events
}
