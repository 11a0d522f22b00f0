//! The services that hooks need: functions of the SDK host, a model, MCP tools.

use futures::future::BoxFuture;
use lathe_protocol::frame::HostError;
use lathe_protocol::hook::{HookEvent, HookInput, HookOutput};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Calls functions of the SDK host.
pub trait CallbackHost: Send + Sync {
    /// Calls one. When the returned future is dropped, the question is moot and may be withdrawn.
    fn call<'a>(
        &'a self,
        callback_id: &'a str,
        input: &'a HookInput,
        tool_use_id: Option<&'a str>,
    ) -> BoxFuture<'a, Result<HookOutput, HostError>>;
}

/// The question of a prompt or agent hook.
#[derive(Debug, Clone)]
pub struct HookQuestion {
    /// The question, with the input filled in.
    pub prompt: String,
    /// The model that answers; `None` is the small model.
    pub model: Option<String>,
    /// The event.
    pub event: HookEvent,
    /// Ends the question.
    pub cancel: CancellationToken,
}

/// The answer to a prompt or agent hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookVerdict {
    /// Whether it has no objection.
    pub ok: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// Why a service of the session gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The session ended.
    #[error("the session is over")]
    SessionOver,
    /// The tool failed; its text.
    #[error("{0}")]
    Tool(String),
    /// An agent hook ended without a verdict; its last words.
    #[error("the agent gave no verdict; it said: {0}")]
    NoVerdict(String),
    /// The conversation of an agent hook failed; the errors.
    #[error("{0}")]
    Agent(String),
    /// Another failure of the service.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl ServiceError {
    /// A failure of the service.
    pub fn other(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Other(Box::new(error))
    }
}

/// Answers prompt and agent hooks.
pub trait HookModel: Send + Sync {
    /// Asks a model once. The text it gives should be `{"ok": true}` or `{"ok": false, "reason": …}`.
    fn ask(&self, question: HookQuestion) -> BoxFuture<'_, Result<String, ServiceError>>;

    /// Lets a sub-agent with read tools look into it, at most 50 turns.
    fn run_agent(&self, question: HookQuestion)
    -> BoxFuture<'_, Result<HookVerdict, ServiceError>>;
}

/// Calls MCP tools for hooks of the type `mcp_tool`.
pub trait HookTools: Send + Sync {
    /// Calls one and gives its text.
    fn call<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        input: Value,
    ) -> BoxFuture<'a, Result<String, ServiceError>>;
}
