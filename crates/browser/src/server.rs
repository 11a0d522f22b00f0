//! The MCP server `browser`: tools for the model, each one question to the extension.

use crate::host;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};

/// How long the browser may take.
const LIMIT: Duration = Duration::from_secs(60);
const PROTOCOL: &str = "2025-06-18";
const NOT_CONNECTED: &str = "no browser is connected: open the browser that has the Lathe extension, and run `lathe browser install` if that was not done yet";

fn tool(
    name: &str,
    description: &str,
    properties: &Value,
    required: &[&str],
    reads: bool,
) -> Value {
    json!({
        "name": name, "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": required},
        "annotations": {"readOnlyHint": reads, "openWorldHint": true},
    })
}

/// The tools.
#[must_use]
pub fn tools() -> Vec<Value> {
    let tab = json!({"type": "integer", "description": "The tab's id; the active tab if absent."});
    let selector =
        json!({"type": "string", "description": "A CSS selector; the first match is used."});
    vec![
        tool(
            "tabs",
            "List open tabs: id, address, title, which is active.",
            &json!({}),
            &[],
            true,
        ),
        tool(
            "navigate",
            "Open an address in a tab and wait until it is loaded.",
            &json!({"url": {"type": "string"}, "tab": tab}),
            &["url"],
            false,
        ),
        tool(
            "read_page",
            "Read the visible text of a page, with its links and fields and a selector for each.",
            &json!({"tab": tab}),
            &[],
            true,
        ),
        tool(
            "click",
            "Click an element.",
            &json!({"selector": selector, "tab": tab}),
            &["selector"],
            false,
        ),
        tool(
            "type",
            "Put text into a field; submit presses Enter after it.",
            &json!({"selector": selector, "text": {"type": "string"}, "submit": {"type": "boolean"}, "tab": tab}),
            &["selector", "text"],
            false,
        ),
        tool(
            "screenshot",
            "Take a picture of the visible part of the active tab.",
            &json!({}),
            &[],
            true,
        ),
    ]
}

/// Serves a session over standard input and output.
///
/// # Errors
/// When they can't be read or written.
pub async fn run(
    config_home: &Path,
    mut input: impl AsyncBufRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        // A notification wants no answer.
        if message.get("id").is_none() {
            continue;
        }
        let answer = answer(config_home, &message).await;
        output.write_all(format!("{answer}\n").as_bytes()).await?;
        output.flush().await?;
    }
}

async fn answer(config_home: &Path, message: &Value) -> Value {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": PROTOCOL,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "browser", "version": env!("CARGO_PKG_VERSION")},
        }),
        Some("ping") => json!({}),
        Some("tools/list") => json!({"tools": tools()}),
        Some("tools/call") => call(config_home, &message["params"]).await,
        _ => {
            let error = json!({"code": -32601, "message": "there is no such method"});
            return json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}

fn failed(why: &str) -> Value {
    json!({"content": [{"type": "text", "text": why}], "isError": true})
}

async fn call(config_home: &Path, params: &Value) -> Value {
    let name = params["name"].as_str().unwrap_or_default();
    if !tools().iter().any(|tool| tool["name"] == name) {
        return failed(&format!("there is no tool {name}"));
    }
    let asked = tokio::time::timeout(LIMIT, ask(config_home, name, &params["arguments"])).await;
    match asked {
        Err(_) => failed("the browser did not answer within a minute"),
        Ok(None) => failed(NOT_CONNECTED),
        Ok(Some(answer)) => match (&answer["error"], &answer["result"]) {
            (Value::String(why), _) => failed(why),
            (_, Value::Object(result)) if result.contains_key("image") => json!({"content": [{
                "type": "image", "data": result["image"],
                "mimeType": result.get("mimeType").cloned().unwrap_or_else(|| json!("image/png")),
            }]}),
            (_, Value::String(text)) => json!({"content": [{"type": "text", "text": text}]}),
            (_, result) => json!({"content": [{"type": "text", "text": result.to_string()}]}),
        },
    }
}

/// Asks the extension; `None` where no browser is connected, or it goes away.
async fn ask(config_home: &Path, name: &str, arguments: &Value) -> Option<Value> {
    let stream = host::connect(config_home).await?;
    let (reading, mut writing) = stream.into_split();
    let question = json!({"id": 1, "method": name, "params": arguments});
    writing
        .write_all(format!("{question}\n").as_bytes())
        .await
        .ok()?;
    let mut line = String::new();
    BufReader::new(reading).read_line(&mut line).await.ok()?;
    serde_json::from_str(&line).ok()
}
