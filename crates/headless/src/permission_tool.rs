//! A tool of an MCP server that answers permission questions (`--permission-prompt-tool`).
//!
//! It is called with `tool_name`, `input` and `tool_use_id`, and answers with JSON in a text:
//! `{"behavior": "allow", "updatedInput"?: …}` or `{"behavior": "deny", "message": …}`. An answer that
//! can't be understood denies.

use lathe_engine::mcp::McpControl;
use lathe_protocol::permission::{PermissionReply, PermissionRequest};
use serde_json::{Value, json};
use std::fmt::Display;

/// No connected server has the tool.
#[derive(Debug, thiserror::Error)]
#[error("--permission-prompt-tool {tool}: {known}")]
pub(crate) struct NoSuchTool {
    tool: String,
    /// The tools that there are, as text.
    known: String,
}

/// Whether a connected server has the tool. Waits for servers that are being connected.
///
/// # Errors
/// When no server has it.
pub(crate) async fn find(mcp: &McpControl, tool: &str) -> Result<(), NoSuchTool> {
    mcp.settled().await;
    let known: Vec<String> = mcp
        .tool_sizes()
        .iter()
        .filter_map(|entry| Some(entry.get("name")?.as_str()?.to_owned()))
        .collect();
    if known.iter().any(|name| name == tool) {
        return Ok(());
    }
    let known = match known.len() {
        0 => "no MCP server is connected that has tools".to_owned(),
        1..=20 => format!("there are: {}", known.join(", ")),
        many => format!("no tool of an MCP server has this name ({many} are known)"),
    };
    Err(NoSuchTool {
        tool: tool.to_owned(),
        known,
    })
}

/// Why the tool gave no answer.
#[derive(Debug, thiserror::Error)]
enum ToolAnswerError {
    /// The call failed.
    #[error("{0}")]
    Call(String),
    #[error("{tool} gave no JSON: {source}")]
    NotJson {
        tool: String,
        source: serde_json::Error,
    },
}

/// Asks the tool.
pub(crate) async fn ask(
    mcp: &McpControl,
    tool: &str,
    request: &PermissionRequest,
) -> PermissionReply {
    reply_of(answer(mcp, tool, request).await)
}

async fn answer(
    mcp: &McpControl,
    tool: &str,
    request: &PermissionRequest,
) -> Result<Value, ToolAnswerError> {
    let arguments = json!({
        "tool_name": request.tool_name, "input": request.input,
        "tool_use_id": request.tool_use_id,
    });
    mcp.settled().await;
    let result = mcp
        .call(tool, arguments)
        .await
        .map_err(|error| ToolAnswerError::Call(error.to_string()))?;
    if let Some(answer) = result.get("structuredContent")
        && answer.get("behavior").is_some()
    {
        return Ok(answer.clone());
    }
    let text = lathe_tools::mcp_result::text_of(&result);
    serde_json::from_str(&text).map_err(|source| ToolAnswerError::NotJson {
        tool: tool.to_owned(),
        source,
    })
}

/// The reply to the session that an answer stands for.
pub(crate) fn reply_of(answer: Result<Value, impl Display>) -> PermissionReply {
    match answer {
        Ok(answer) => serde_json::from_value(answer).unwrap_or_else(|error| {
            PermissionReply::deny(format!(
                "The answer to the permission question doesn't fit: {error}"
            ))
        }),
        Err(error) => PermissionReply::deny(format!("The permission question failed: {error}")),
    }
}
