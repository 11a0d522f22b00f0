//! The rules of the API, written down apart from the code that has to keep to it.

use serde_json::Value;
use std::collections::HashSet;

/// Names the first rule that a request's messages break.
pub(crate) fn check(messages: &[Value], model: &str) -> Result<(), String> {
    if messages.is_empty() {
        return Err("no messages".to_owned());
    }
    let mut ids = HashSet::new();
    let mut owed: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let at = |what: &str| format!("messages.{index}: {what}: {message}");
        let role = message["role"].as_str().ok_or_else(|| at("no role"))?;
        let wanted = if index % 2 == 0 { "user" } else { "assistant" };
        if role != wanted {
            return Err(at(&format!("role must be {wanted}")));
        }
        let blocks = message["content"]
            .as_array()
            .ok_or_else(|| at("content is not a list"))?;
        if blocks.is_empty() {
            return Err(at("empty content"));
        }
        if message.to_string().contains("\"cache_control\"") {
            return Err(at("a stored cache marker"));
        }
        let mut results = Vec::new();
        let mut other_seen = false;
        for block in blocks {
            let kind = block["type"]
                .as_str()
                .ok_or_else(|| at("a block without a type"))?;
            check_block(role, kind, block, model).map_err(|what| at(&what))?;
            if kind == "tool_result" {
                if other_seen {
                    return Err(at("a result after another block"));
                }
                results.push(block["tool_use_id"].as_str().unwrap_or_default().to_owned());
            } else {
                other_seen = true;
            }
            if kind == "tool_use"
                && !ids.insert(block["id"].as_str().unwrap_or_default().to_owned())
            {
                return Err(at("a call id that is used before"));
            }
        }
        if role == "user" {
            if results != owed {
                return Err(at(&format!("results {results:?} where {owed:?} are owed")));
            }
            owed.clear();
        } else {
            check_assistant(blocks).map_err(|what| at(&what))?;
            owed = blocks
                .iter()
                .filter(|block| block["type"] == "tool_use")
                .map(|block| block["id"].as_str().unwrap_or_default().to_owned())
                .collect();
        }
    }
    if messages.len().is_multiple_of(2) {
        return Err("the last message is the model's".to_owned());
    }
    Ok(())
}

fn check_block(role: &str, kind: &str, block: &Value, model: &str) -> Result<(), String> {
    match (role, kind) {
        (_, "text") => not_blank(block),
        ("user", "image" | "document") => check_source(block),
        ("user", "tool_result") => check_result(block),
        ("user", "search_result" | "container_upload") => Ok(()),
        ("assistant", "tool_use") => {
            let id = block["id"].as_str().unwrap_or_default();
            let name = block["name"].as_str().unwrap_or_default();
            if !is_legal(id) || !is_legal(name) {
                return Err("an illegal id or name of a call".to_owned());
            }
            if block["input"].is_object() {
                Ok(())
            } else {
                Err("input is not an object".to_owned())
            }
        }
        ("assistant", "thinking") => {
            if block["signature"] == format!("signed by {model}") {
                Ok(())
            } else {
                Err("reasoning that this model didn't sign".to_owned())
            }
        }
        ("assistant", "redacted_thinking") => {
            if block["data"]
                .as_str()
                .is_some_and(|data| data.ends_with(model))
            {
                Ok(())
            } else {
                Err("redacted reasoning of another model".to_owned())
            }
        }
        ("assistant", "server_tool_use" | "web_search_tool_result" | "some_new_block") => Ok(()),
        _ => Err(format!(
            "a {kind} block may not stand in a message of the {role}"
        )),
    }
}

fn check_assistant(blocks: &[Value]) -> Result<(), String> {
    let kinds: Vec<&str> = blocks
        .iter()
        .filter_map(|block| block["type"].as_str())
        .collect();
    if kinds.last().is_some_and(|kind| kind.ends_with("thinking")) {
        return Err("reasoning at the end".to_owned());
    }
    for (index, block) in blocks.iter().enumerate() {
        let pairs = |kind: &str, field: &str, id: &Value, part: &[Value]| {
            part.iter()
                .filter(|other| other["type"] == kind && other[field] == *id)
                .count()
        };
        if block["type"] == "server_tool_use" {
            let id = &block["id"];
            if pairs(
                "web_search_tool_result",
                "tool_use_id",
                id,
                &blocks[index..],
            ) != 1
                || pairs("server_tool_use", "id", id, blocks) != 1
            {
                return Err("a server call without exactly one answer".to_owned());
            }
        }
        if block["type"] == "web_search_tool_result"
            && pairs(
                "server_tool_use",
                "id",
                &block["tool_use_id"],
                &blocks[..index],
            ) != 1
        {
            return Err("a server answer without its call".to_owned());
        }
    }
    Ok(())
}

fn check_result(block: &Value) -> Result<(), String> {
    let failed = block["is_error"] == true;
    match &block["content"] {
        Value::String(text) if text.is_empty() && failed => {
            Err("an error without words".to_owned())
        }
        Value::String(_) => Ok(()),
        Value::Array(blocks) => {
            if blocks.is_empty() && failed {
                return Err("an error without words".to_owned());
            }
            for block in blocks {
                match block["type"].as_str() {
                    Some("text") => not_blank(block)?,
                    Some("image" | "document") if !failed => check_source(block)?,
                    Some("search_result" | "tool_reference") if !failed => {}
                    other => return Err(format!("{other:?} inside a result")),
                }
            }
            Ok(())
        }
        other => Err(format!("content of a result: {other}")),
    }
}

fn not_blank(block: &Value) -> Result<(), String> {
    match block["text"].as_str() {
        Some(text) if !text.trim().is_empty() => Ok(()),
        _ => Err("blank text".to_owned()),
    }
}

fn check_source(block: &Value) -> Result<(), String> {
    let source = &block["source"];
    let fits = match source["type"].as_str() {
        Some("base64") => source["data"].as_str().is_some_and(|data| !data.is_empty()),
        Some("url") => source["url"].is_string(),
        Some("file" | "text" | "content") => true,
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err("an image or document from nowhere".to_owned())
    }
}

fn is_legal(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

#[test]
fn the_checker_itself_refuses_what_the_api_refuses() {
    use serde_json::json;
    let user = |content: Value| json!({"role": "user", "content": content});
    let model = |content: Value| json!({"role": "assistant", "content": content});
    let words = json!([{"type": "text", "text": "a"}]);
    let call = json!([{"type": "tool_use", "id": "t", "name": "N", "input": {}}]);
    let result = json!([{"type": "tool_result", "tool_use_id": "t", "content": "r"}]);
    let late = json!([{"type": "text", "text": "a"}, {"type": "tool_result", "tool_use_id": "t", "content": "r"}]);
    let thought = json!([{"type": "thinking", "thinking": "", "signature": "signed by m"}]);
    assert_eq!(
        check(
            &[
                user(words.clone()),
                model(call.clone()),
                user(result.clone())
            ],
            "m"
        ),
        Ok(())
    );
    for bad in [
        vec![],
        vec![user(json!([]))],
        vec![user(json!([{"type": "text", "text": " "}]))],
        vec![model(words.clone())],
        vec![user(words.clone()), model(words.clone())],
        vec![user(words.clone()), user(words.clone())],
        vec![user(result)],
        vec![
            user(words.clone()),
            model(call.clone()),
            user(words.clone()),
        ],
        vec![user(words.clone()), model(call), user(late)],
        vec![user(words.clone()), model(thought), user(words)],
    ] {
        assert!(check(&bad, "m").is_err(), "{bad:?}");
    }
}
