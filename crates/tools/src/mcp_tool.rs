//! A tool of an MCP server, as one tool among the others.
//!
//! The connections are behind the small trait [`McpCaller`]; this module knows names, schemas, permission
//! subjects and progress, and nothing of transports. Results are converted in
//! [`crate::mcp_result`].

use crate::context::{CallContext, ToolContext};
use crate::mcp_result::{self, ResultStore, clean};
use crate::tool::{CallTraits, DynTool, InterruptBehavior, PreparedCall, ToolError, ToolOutput};
use futures::future::BoxFuture;
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
pub use lathe_protocol::tool_name::{in_tool_names as cleaned, prefix, tool_name};
use lathe_settings::Variable;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How long a tool's name may be; the API takes no longer one.
pub const LONGEST_NAME: usize = 128;
/// How many characters of a description the model reads.
const LONGEST_DESCRIPTION: usize = 2_048;

/// Why a server gave no answer: a text for the model.
#[derive(Debug, thiserror::Error)]
pub enum McpCallError {
    /// The call was given up.
    #[error("stopped")]
    Cancelled,
    /// The server did not answer in time.
    #[error("it took too long")]
    TimedOut,
    /// A failure of the server or of the connection.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl McpCallError {
    /// A failure of the server or of the connection.
    pub fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Failed(Box::new(error))
    }
}

/// Asks MCP servers.
pub trait McpCaller: Send + Sync {
    /// Calls a tool and gives the server's `CallToolResult`. Dropping the future gives the call up.
    fn call<'a>(&'a self, call: McpCall<'a>) -> BoxFuture<'a, Result<Value, McpCallError>>;

    /// Reads a resource and gives the server's `ReadResourceResult`.
    fn read_resource<'a>(
        &'a self,
        server: &'a str,
        uri: &'a str,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<Value, McpCallError>>;

    /// The resources that servers list: the server, and an entry of `resources/list` or of
    /// `resources/templates/list`.
    fn resources(&self) -> Vec<(String, Value)>;
}

/// One call of a server's tool.
pub struct McpCall<'a> {
    /// The server.
    pub server: &'a str,
    /// The tool, by the server's own name.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: Value,
    /// The model's name for the call.
    pub tool_use_id: &'a str,
    /// Gives the call up.
    pub cancel: CancellationToken,
    /// Told how far it is.
    pub progress: Box<dyn Fn(McpProgress) + Send + Sync + 'a>,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub struct McpProgress {
    /// How much is done.
    pub progress: f64,
    /// Of how much, if that is known.
    pub total: Option<f64>,
    /// The current step.
    pub message: Option<String>,
}

impl McpProgress {
    /// In a line for the user.
    #[must_use]
    pub fn text(&self) -> String {
        let count = match self.total {
            Some(total) if total > 0.0 => {
                format!("{:.0} %", (self.progress / total * 100.0).clamp(0.0, 100.0))
            }
            _ => format!("{}", self.progress),
        };
        match &self.message {
            Some(message) => format!("{} ({count})", clean(message)),
            None => count,
        }
    }
}

/// A tool as declared by its server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct McpToolInfo {
    /// The name, without the server's.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The schema of its arguments.
    pub input_schema: Arc<Value>,
    /// The server's own hints (`readOnlyHint`, `destructiveHint`, `openWorldHint`, `title`).
    pub annotations: Map<String, Value>,
    /// Words by which a search should find it.
    pub search_hint: Option<String>,
    /// Whether the model should have it without looking for it.
    pub always_load: bool,
}

impl McpToolInfo {
    /// Reads one entry of `tools/list`; `None` when it has no name.
    #[must_use]
    pub fn parse(value: &Value) -> Option<Self> {
        let name = value.get("name")?.as_str()?.to_owned();
        let schema = value.get("inputSchema").filter(|schema| schema.is_object());
        let meta = |key: &str| value.get("_meta")?.get(key);
        Some(Self {
            name,
            description: value
                .get("description")
                .and_then(Value::as_str)
                .map(shortened)
                .unwrap_or_default(),
            input_schema: schema
                .cloned()
                .unwrap_or_else(|| json!({"type": "object", "properties": {}}))
                .into(),
            annotations: value
                .get("annotations")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            search_hint: meta("anthropic/searchHint")
                .and_then(Value::as_str)
                .map(shortened),
            always_load: meta("anthropic/alwaysLoad") == Some(&Value::Bool(true)),
        })
    }

    fn hint(&self, name: &str, otherwise: bool) -> bool {
        self.annotations
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or(otherwise)
    }

    /// Whether the server says that it only reads.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.hint("readOnlyHint", false)
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_DESCRIPTION) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
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

    fn input_schema(&self) -> &Arc<Value> {
        &self.info.input_schema
    }

    /// The answer bounds itself.
    fn result_limit(&self) -> Option<usize> {
        None
    }

    fn search_hint(&self) -> Option<&str> {
        self.info.search_hint.as_deref()
    }

    fn always_load(&self) -> bool {
        self.info.always_load
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
        let read_only = self.tool.info.read_only();
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
            read_only: self.tool.info.read_only(),
        }
    }

    fn activity(&self) -> String {
        clean(&format!("{} ({})", self.tool.info.name, self.tool.server))
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
            let shown = context.progress.clone();
            let calling = tool.caller.call(McpCall {
                server: &tool.server,
                tool: &tool.info.name,
                arguments: self.input,
                tool_use_id: context.tool_use_id.as_str(),
                cancel: context.cancel.clone(),
                progress: Box::new(move |progress| {
                    shown.show(Display::Text {
                        text: progress.text(),
                    });
                }),
            });
            let result = tokio::select! {
                biased;
                result = calling => result,
                () = context.cancel.cancelled() => {
                    return Err(ToolError::Cancelled(format!("{} was stopped.", tool.name)));
                }
            };
            match result {
                Ok(result) => answered(result, &context, mcp_result::of_call).await,
                Err(error) => Err(ToolError::failed(format!(
                    "{} failed: {}",
                    tool.name,
                    clean(&error.to_string())
                ))),
            }
        })
    }
}

/// Makes an output of an answer, off the threads that others wait for: there may be pictures in it.
pub(crate) async fn answered(
    result: Value,
    context: &CallContext,
    make: fn(&Value, &ResultStore) -> ToolOutput,
) -> Result<ToolOutput, ToolError> {
    let limit = context
        .session
        .environment
        .get(Variable::MaxMcpOutputTokens);
    let place = ResultStore::new(
        &context.session.results_folder,
        context.tool_use_id.as_str(),
        limit,
    );
    lathe_spawn::blocking(move || make(&result, &place))
        .await
        .map_err(|error| ToolError::failed(format!("The answer can't be read: {error}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_only_what_the_api_takes() {
        assert_eq!(tool_name("my server", "get.x"), "mcp__my_server__get_x");
        assert_eq!(tool_name("a-b", "c_d"), "mcp__a-b__c_d");
        assert_eq!(tool_name("plugin:p:s", "t"), "mcp__plugin_p_s__t");
    }

    #[test]
    fn hints_are_read_and_the_default_is_careful() {
        let careful = McpToolInfo::parse(&json!({"name": "t"})).unwrap();
        assert!(!careful.read_only() && careful.hint("destructiveHint", true));
        assert_eq!(careful.input_schema["type"], "object");
        let reads = McpToolInfo::parse(&json!({"name": "t",
            "annotations": {"readOnlyHint": true, "title": "T"},
            "_meta": {"anthropic/searchHint": "weather", "anthropic/alwaysLoad": true}}))
        .unwrap();
        assert!(reads.read_only() && reads.always_load);
        assert_eq!(reads.search_hint.as_deref(), Some("weather"));
        assert!(McpToolInfo::parse(&json!({"description": "x"})).is_none());
        let long =
            McpToolInfo::parse(&json!({"name": "t", "description": "ä".repeat(60_000)})).unwrap();
        assert_eq!(long.description.chars().count(), 2_049);
    }

    #[test]
    fn progress_is_a_line() {
        let progress = |total, message: Option<&str>| McpProgress {
            progress: 5.0,
            total,
            message: message.map(str::to_owned),
        };
        assert_eq!(progress(Some(20.0), None).text(), "25 %");
        assert_eq!(
            progress(None, Some("reading\u{1b}[31m")).text(),
            "reading (5)"
        );
    }
}
