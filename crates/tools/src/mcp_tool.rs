//! A tool of an MCP server, as one tool among the others.
//!
//! Whoever holds the connection (a host's in-process server, a client of our own) stands behind the
//! small trait [`McpCaller`]; this module knows names, schemas, permission subjects and what becomes
//! of a result, and nothing of transports.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, DynTool, InterruptBehavior, PreparedCall, ToolError, ToolOutput};
use futures::future::BoxFuture;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Calls tools of MCP servers.
pub trait McpCaller: Send + Sync {
    /// Calls a tool and gives the server's `CallToolResult`. Dropping the future gives the call up.
    fn call<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        arguments: Value,
        tool_use_id: &'a str,
    ) -> BoxFuture<'a, Result<Value, String>>;
}

/// What a server says of one of its tools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct McpToolInfo {
    /// The name, without the server's.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Value,
    /// The server's own hints (`readOnlyHint`, `destructiveHint`, `openWorldHint`, `title`).
    pub annotations: Map<String, Value>,
}

impl McpToolInfo {
    /// Reads one entry of `tools/list`; `None` when it has no name.
    #[must_use]
    pub fn parse(value: &Value) -> Option<Self> {
        let name = value.get("name")?.as_str()?.to_owned();
        let schema = value.get("inputSchema").filter(|schema| schema.is_object());
        Some(Self {
            name,
            description: value
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            input_schema: schema
                .cloned()
                .unwrap_or_else(|| json!({"type": "object", "properties": {}})),
            annotations: value
                .get("annotations")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
        })
    }

    fn hint(&self, name: &str, otherwise: bool) -> bool {
        self.annotations
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or(otherwise)
    }

    /// As hosts are told of it (`mcp_status`).
    #[must_use]
    pub fn status(&self) -> Value {
        let mut hints = Map::new();
        for (hint, field) in [
            ("readOnlyHint", "readOnly"),
            ("destructiveHint", "destructive"),
            ("openWorldHint", "openWorld"),
        ] {
            if let Some(value) = self.annotations.get(hint) {
                hints.insert(field.to_owned(), value.clone());
            }
        }
        json!({"name": self.name, "description": self.description, "annotations": hints})
    }
}

/// The name under which the model calls a server's tool. What the API doesn't take in a name becomes
/// an underscore.
#[must_use]
pub fn tool_name(server: &str, tool: &str) -> String {
    format!("mcp__{}__{}", clean(server), clean(tool))
}

fn clean(name: &str) -> String {
    name.chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .collect()
}

/// A tool of an MCP server.
pub struct McpTool {
    name: String,
    server: String,
    info: McpToolInfo,
    caller: Arc<dyn McpCaller>,
}

impl McpTool {
    /// A server's tool, called through `caller`.
    #[must_use]
    pub fn new(server: &str, info: McpToolInfo, caller: Arc<dyn McpCaller>) -> Self {
        Self {
            name: tool_name(server, &info.name),
            server: server.to_owned(),
            info,
            caller,
        }
    }
}

impl DynTool for McpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> Vec<String> {
        Vec::new()
    }

    fn description(&self) -> &str {
        &self.info.description
    }

    fn input_schema(&self) -> &Value {
        &self.info.input_schema
    }

    fn result_limit(&self) -> Option<usize> {
        Some(100_000)
    }

    /// The server checks its arguments itself and says what is wrong; here they only must be an object.
    fn prepare(
        self: Arc<Self>,
        input: Value,
        _context: &ToolContext,
    ) -> Result<Box<dyn PreparedCall>, ToolError> {
        let input = match input {
            Value::Null => json!({}),
            Value::Object(_) => input,
            other => {
                return Err(ToolError::invalid(format!(
                    "The input of {} must be a JSON object, not {other}.",
                    self.name
                )));
            }
        };
        Ok(Box::new(Prepared { tool: self, input }))
    }
}

struct Prepared {
    tool: Arc<McpTool>,
    input: Value,
}

impl PreparedCall for Prepared {
    fn input(&self) -> &Value {
        &self.input
    }

    fn traits(&self) -> CallTraits {
        let read_only = self.tool.info.hint("readOnlyHint", false);
        CallTraits {
            read_only,
            concurrency_safe: read_only,
            destructive: !read_only && self.tool.info.hint("destructiveHint", true),
            open_world: self.tool.info.hint("openWorldHint", true),
            interrupt: InterruptBehavior::Block,
            failure_cancels_siblings: false,
        }
    }

    fn subject(&self, _context: &ToolContext) -> Subject {
        Subject::Mcp {
            server: self.tool.server.clone(),
            tool: self.tool.info.name.clone(),
            read_only: self.tool.info.hint("readOnlyHint", false),
        }
    }

    fn activity(&self) -> String {
        format!("{} ({})", self.tool.info.name, self.tool.server)
    }

    fn validate<'a>(&'a self, _context: &'a ToolContext) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async { Ok(()) })
    }

    fn call(
        self: Box<Self>,
        context: CallContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let tool = self.tool;
            let calling = tool.caller.call(
                &tool.server,
                &tool.info.name,
                self.input,
                context.tool_use_id.as_str(),
            );
            let result = tokio::select! {
                biased;
                () = context.cancel.cancelled() => {
                    return Err(ToolError::Cancelled(format!("{} was stopped.", tool.name)));
                }
                result = calling => result,
            };
            match result {
                Ok(result) => Ok(output(&result)),
                Err(error) => Err(ToolError::failed(format!("{} failed: {error}", tool.name))),
            }
        })
    }
}

/// What becomes of a `CallToolResult`: text and images as blocks, everything else as text that says
/// what it was.
#[must_use]
pub fn output(result: &Value) -> ToolOutput {
    let items = result.get("content").and_then(Value::as_array);
    let mut blocks: Vec<ContentBlock> = items.into_iter().flatten().filter_map(block).collect();
    if blocks.is_empty()
        && let Some(structured) = result.get("structuredContent")
    {
        blocks.push(ContentBlock::text(structured.to_string()));
    }
    if blocks.is_empty() {
        blocks.push(ContentBlock::text("(The tool gave no content.)"));
    }
    let is_error = result
        .get("isError")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let content = Content::Blocks(blocks);
    let text = content.text();
    let structured = if is_error {
        Value::from(format!("Error: {text}"))
    } else {
        serde_json::to_value(&content).unwrap_or_default()
    };
    ToolOutput {
        display: Display::Text { text },
        content,
        structured,
        is_error,
    }
}

fn block(item: &Value) -> Option<ContentBlock> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    match text("type")? {
        "text" => Some(ContentBlock::text(text("text")?)),
        "image" => match text("mimeType")? {
            kind @ ("image/png" | "image/jpeg" | "image/gif" | "image/webp") => {
                Some(ContentBlock::image(kind, text("data")?))
            }
            other => Some(ContentBlock::text(format!(
                "[An image of the type {other}, which the model can't see.]"
            ))),
        },
        "resource" => {
            let resource = item.get("resource")?;
            let uri = resource.get("uri").and_then(Value::as_str).unwrap_or("?");
            Some(match resource.get("text").and_then(Value::as_str) {
                Some(text) => ContentBlock::text(format!("[Resource {uri}]\n{text}")),
                None => ContentBlock::text(format!("[The binary resource {uri}]")),
            })
        }
        "resource_link" => Some(ContentBlock::text(format!(
            "[Link to a resource: {} {}]",
            text("name").unwrap_or_default(),
            text("uri").unwrap_or_default()
        ))),
        other => Some(ContentBlock::text(format!(
            "[Content of the kind {other}, which can't be shown.]"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_only_what_the_api_takes() {
        assert_eq!(tool_name("my server", "get.x"), "mcp__my_server__get_x");
        assert_eq!(tool_name("a-b", "c_d"), "mcp__a-b__c_d");
    }

    #[test]
    fn results_become_blocks_and_failures_say_so() {
        let result = output(&json!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "mimeType": "image/png", "data": "AA=="},
            {"type": "resource", "resource": {"uri": "x://y", "text": "inner"}},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
        ]}));
        let Content::Blocks(blocks) = &result.content else {
            panic!("not blocks");
        };
        assert_eq!(blocks.len(), 4);
        assert_eq!(blocks[1].kind(), "image");
        assert!(result.content.text().contains("inner"));
        assert!(result.structured.is_array() && !result.is_error);

        let failed = output(&json!({"content": [{"type": "text", "text": "no"}], "isError": true}));
        assert!(failed.is_error);
        assert_eq!(failed.structured, "Error: no");
        assert!(output(&json!({})).content.text().contains("no content"));
    }

    #[test]
    fn hints_are_read_and_the_default_is_careful() {
        let careful = McpToolInfo::parse(&json!({"name": "t"})).unwrap();
        assert!(!careful.hint("readOnlyHint", false) && careful.hint("destructiveHint", true));
        assert_eq!(careful.input_schema["type"], "object");
        let reads = McpToolInfo::parse(
            &json!({"name": "t", "annotations": {"readOnlyHint": true, "title": "T"}}),
        )
        .unwrap();
        assert_eq!(reads.status()["annotations"], json!({"readOnly": true}));
        assert!(McpToolInfo::parse(&json!({"description": "x"})).is_none());
    }
}
