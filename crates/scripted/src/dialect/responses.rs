//! OpenAI Responses.

use super::chat::arguments;
use super::{Read, image_of, push_message};
use crate::reply::Reply;
use crate::wire::{Event, Message, split};
use serde_json::{Map, Value, json};

const KNOWN: &[&str] = &[
    "model",
    "input",
    "instructions",
    "max_output_tokens",
    "stream",
    "store",
    "include",
    "reasoning",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "prompt_cache_key",
    "temperature",
    "top_p",
    "metadata",
    "text",
];

/// Reads a request and holds it to the rules of the format.
pub(super) fn read(body: &Value) -> Read {
    let mut problems = Vec::new();
    let mut units = vec![body["instructions"].to_string(), body["tools"].to_string()];
    for name in body.as_object().into_iter().flatten().map(|(name, _)| name) {
        if !KNOWN.contains(&name.as_str()) {
            problems.push(format!("{name}: unknown parameter"));
        }
    }
    if body["store"] != false {
        problems.push("store: must be false".to_owned());
    }
    if body["max_output_tokens"]
        .as_u64()
        .is_none_or(|limit| limit < 16)
    {
        problems.push("max_output_tokens: must be at least 16".to_owned());
    }
    let mut out = Map::new();
    out.insert("model".into(), body["model"].clone());
    out.insert("max_tokens".into(), body["max_output_tokens"].clone());
    out.insert("stream".into(), json!(body["stream"] == true));
    if let Some(text) = body["instructions"]
        .as_str()
        .filter(|text| !text.is_empty())
    {
        out.insert("system".into(), json!([{"type": "text", "text": text}]));
    }
    tools(body, &mut out, &mut problems);
    let mut messages = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let items = body["input"].as_array().cloned().unwrap_or_default();
    for (index, item) in items.iter().enumerate() {
        units.push(item.to_string());
        let at = format!("input[{index}]");
        match item["type"].as_str().or(item["role"].as_str()) {
            Some("reasoning") => {
                reasoning(
                    item,
                    items.get(index + 1),
                    &at,
                    &mut problems,
                    &mut messages,
                );
                out.insert("thinking".into(), json!({"type": "adaptive"}));
            }
            Some("message" | "user" | "assistant") => {
                message(item, &at, &mut problems, &mut messages);
            }
            Some("function_call") => {
                let id = item["call_id"].as_str().unwrap_or_default();
                let input: Value = serde_json::from_str(item["arguments"].as_str().unwrap_or("?"))
                    .unwrap_or_default();
                if !input.is_object() {
                    problems.push(format!("{at}.arguments: no object"));
                }
                open.push(id.to_owned());
                let call =
                    json!({"type": "tool_use", "id": id, "name": item["name"], "input": input});
                push_message(&mut messages, "assistant", vec![call]);
            }
            Some("function_call_output") => {
                let id = item["call_id"].as_str().unwrap_or_default();
                match open.iter().position(|known| known == id) {
                    Some(place) => {
                        open.remove(place);
                    }
                    None => problems.push(format!(
                        "No tool call found for function call output with call_id {id}."
                    )),
                }
                let content = match &item["output"] {
                    Value::Array(list) => Value::Array(parts(list, &at, &mut problems)),
                    text => text.clone(),
                };
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
                push_message(&mut messages, "user", vec![result]);
            }
            other => problems.push(format!("{at}.type: {other:?} is not known")),
        }
    }
    if !open.is_empty() {
        problems.push(format!("No tool output found for function calls {open:?}."));
    }
    out.insert("messages".into(), Value::Array(messages));
    Read {
        body: Value::Object(out),
        problems,
        units,
    }
}

fn tools(body: &Value, out: &mut Map<String, Value>, problems: &mut Vec<String>) {
    if let Some(list) = body.get("tools").and_then(Value::as_array) {
        if list.is_empty() {
            problems.push("tools: [] is too short".to_owned());
        }
        let converted: Vec<Value> = list
            .iter()
            .map(|tool| {
                if tool["strict"] != false && !is_closed(&tool["parameters"]) {
                    problems.push(format!(
                        "Invalid schema for function {}: strict needs additionalProperties false and all required",
                        tool["name"]
                    ));
                }
                json!({"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]})
            })
            .collect();
        out.insert("tools".into(), Value::Array(converted));
    }
}

fn reasoning(
    item: &Value,
    next: Option<&Value>,
    at: &str,
    problems: &mut Vec<String>,
    messages: &mut Vec<Value>,
) {
    let follows = next.is_some_and(|next| {
        next["type"] == "function_call"
            || next["type"] == "reasoning"
            || (next["type"] == "message" && next["role"] == "assistant")
    });
    if !follows {
        problems.push(format!(
            "Item '{}' of type 'reasoning' was provided without its required following item.",
            item["id"]
        ));
    }
    let Some(content) = item["encrypted_content"].as_str() else {
        problems.push(format!(
            "{at}: items are not persisted when `store` is false"
        ));
        return;
    };
    let summary = item["summary"].as_array().into_iter().flatten();
    let text: String = summary.filter_map(|part| part["text"].as_str()).collect();
    let block = json!({"type": "thinking", "thinking": text, "signature": content});
    push_message(messages, "assistant", vec![block]);
}

fn message(item: &Value, at: &str, problems: &mut Vec<String>, messages: &mut Vec<Value>) {
    let role = item["role"].as_str().unwrap_or_default();
    let list = item["content"].as_array().cloned().unwrap_or_default();
    if role == "assistant" {
        let blocks: Vec<Value> = list
            .iter()
            .map(|part| {
                if part["type"] != "output_text" {
                    problems.push(format!(
                        "{at}: the content of an assistant must be output_text"
                    ));
                }
                json!({"type": "text", "text": part["text"]})
            })
            .collect();
        push_message(messages, "assistant", blocks);
    } else {
        push_message(messages, "user", parts(&list, at, problems));
    }
}

fn parts(list: &[Value], at: &str, problems: &mut Vec<String>) -> Vec<Value> {
    list.iter()
        .filter_map(|part| match part["type"].as_str() {
            Some("input_text") => Some(json!({"type": "text", "text": part["text"]})),
            Some("input_image") => {
                let image = part["image_url"].as_str().and_then(image_of);
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
        .collect()
}

fn is_closed(schema: &Value) -> bool {
    let Some(properties) = schema["properties"].as_object() else {
        return schema["type"] != "object";
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    schema["additionalProperties"] == false
        && properties
            .keys()
            .all(|name| required.iter().any(|known| known == name))
        && properties.values().all(is_closed)
}

/// The items of the output.
fn items(message: &Message) -> Vec<(usize, Value)> {
    let mut items = Vec::new();
    for (index, block) in message.content.iter().enumerate() {
        let id = format!("item_{}_{index}", message.id);
        let item = match block["type"].as_str() {
            Some("text") => json!({
                "type": "message", "id": id, "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": block["text"], "annotations": []}],
            }),
            Some("thinking") => json!({
                "type": "reasoning", "id": id, "encrypted_content": block["signature"],
                "summary": [{"type": "summary_text", "text": block["thinking"]}],
            }),
            Some("tool_use") => json!({
                "type": "function_call", "id": id, "call_id": block["id"], "name": block["name"],
                "arguments": arguments(block), "status": "completed",
            }),
            _ => continue,
        };
        items.push((index, item));
    }
    items
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
    let input = number("input_tokens") + read + number("cache_creation_input_tokens");
    let output = number("output_tokens");
    json!({
        "input_tokens": input, "input_tokens_details": {"cached_tokens": read},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + output,
    })
}

/// The answer to a request that wants no stream.
pub(super) fn whole(message: &Message) -> Value {
    let (status, details) = match message.stop_reason.as_str() {
        "max_tokens" => ("incomplete", json!({"reason": "max_output_tokens"})),
        "refusal" => ("incomplete", json!({"reason": "content_filter"})),
        _ => ("completed", Value::Null),
    };
    let output: Vec<Value> = items(message).into_iter().map(|(_, item)| item).collect();
    json!({
        "id": message.id, "object": "response", "created_at": 1, "model": message.model, "status": status,
        "incomplete_details": details, "error": null, "output": output, "usage": usage(message),
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
    })
}

/// The events of a stream.
pub(super) fn events(message: &Message, reply: &Reply) -> Vec<Event> {
    let size = reply.delta_characters.max(1);
    let created = json!({"type": "response.created", "response": {"id": message.id, "status": "in_progress"}});
    let mut events = vec![Event::named("message_start", None, created)];
    for (place, (index, item)) in items(message).into_iter().enumerate() {
        let mut push = |name: &str, data: Value| events.push(Event::named(name, Some(index), data));
        let mut added = item.clone();
        let (kind, text) = match item["type"].as_str() {
            Some("message") => {
                added["content"] = json!([]);
                (
                    "response.output_text.delta",
                    item["content"][0]["text"].clone(),
                )
            }
            Some("reasoning") => {
                added["summary"] = json!([]);
                added["encrypted_content"] = Value::Null;
                (
                    "response.reasoning_summary_text.delta",
                    item["summary"][0]["text"].clone(),
                )
            }
            _ => {
                added["arguments"] = json!("");
                (
                    "response.function_call_arguments.delta",
                    item["arguments"].clone(),
                )
            }
        };
        push(
            "content_block_start",
            json!({"type": "response.output_item.added", "output_index": place, "item": added}),
        );
        for part in split(text.as_str().unwrap_or_default(), size) {
            push(
                "content_block_delta",
                json!({"type": kind, "output_index": place, "item_id": item["id"], "delta": part}),
            );
        }
        push(
            "content_block_stop",
            json!({"type": "response.output_item.done", "output_index": place, "item": item}),
        );
    }
    let response = whole(message);
    let kind = format!(
        "response.{}",
        response["status"].as_str().unwrap_or_default()
    );
    events.push(Event::named(
        "message_delta",
        None,
        json!({"type": kind, "response": response}),
    ));
    events
}
