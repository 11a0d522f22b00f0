//! The tools of a session without its model: for callers that bring their own, such as the client of
//! `lathe mcp serve`.
//!
//! A call goes through the same pipeline as one of the model. There is nobody to ask, so a call that would need
//! an answer is refused with the rule that would allow it.

use crate::call::{IncomingCall, Stage};
use crate::conversation::{Conversation, RunningTurn};
use crate::open::options::{HistoryOptions, OpenError, SessionOptions};
use crate::open::{Prepared, prepare};
use crate::session::events::EventStream;
use crate::turn::frozen;
use lathe_protocol::content::{Content, ToolUseBlock};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::ids::{RecordId, RequestId};
use lathe_settings::Environment;
use lathe_tools::ToolDefinition;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Tools that only make sense in a conversation.
const CONVERSATIONAL: [&str; 3] = ["ToolSearch", "StructuredOutput", "AskUserQuestion"];

/// The tools of a session.
pub struct SessionTools {
    conversation: Mutex<Conversation>,
    turn: RunningTurn,
}

/// The result of a call.
#[derive(Debug)]
pub struct ToolAnswer {
    /// The content for a model.
    pub content: Content,
    /// The content for programs.
    pub structured: Value,
    /// Whether it failed or was refused.
    pub is_error: bool,
}

impl SessionTools {
    /// Opens the tools, with remarks for the user.
    ///
    /// # Errors
    /// When the caller's choice is wrong.
    pub async fn open(
        mut environment: Environment,
        options: SessionOptions,
    ) -> Result<(Self, EventStream, Vec<Diagnostic>), OpenError> {
        // No model is asked, so no key is needed; whatever is there stays.
        environment
            .variables
            .entry("ANTHROPIC_AUTH_TOKEN".to_owned())
            .or_insert_with(|| "none".to_owned());
        let options = SessionOptions {
            history: HistoryOptions::ephemeral(),
            ..options
        };
        let Prepared {
            conversation,
            events,
            remarks,
            ..
        } = prepare(environment, options).await?;
        let tools = Self {
            conversation: Mutex::new(conversation),
            turn: RunningTurn::new(RecordId::random()),
        };
        Ok((tools, events, remarks))
    }

    /// The tools that may be called.
    pub async fn tools(&self) -> Vec<ToolDefinition> {
        let mut registry = self.conversation.lock().await.shared.offered_tools();
        registry.retain(|tool| !CONVERSATIONAL.contains(&tool.name()));
        registry.definitions()
    }

    /// Calls a tool; `None` when there is none of that name.
    pub async fn call(
        &self,
        name: &str,
        input: Value,
        cancel: CancellationToken,
    ) -> Option<ToolAnswer> {
        let calls = {
            let conversation = self.conversation.lock().await;
            let offered = conversation.shared.offered_tools();
            Arc::new(frozen::call_environment(&conversation, &self.turn, offered))
        };
        calls
            .registry
            .find(name)
            .filter(|tool| !CONVERSATIONAL.contains(&tool.name()))?;
        let block = ToolUseBlock {
            id: format!("call_{}", RequestId::random()).into(),
            name: name.to_owned(),
            input,
            extra: lathe_protocol::Extra::new(),
        };
        let IncomingCall { id, stage, .. } = calls.prepare(&block, None);
        let result = match stage {
            Stage::Ready(call) => Box::pin(calls.run(id, call, cancel)).await,
            Stage::Refused(refused) => *refused,
        };
        Some(ToolAnswer {
            content: result.content,
            structured: result.structured,
            is_error: result.is_error,
        })
    }

    /// Ends what calls left running.
    pub async fn finish(self) {
        let conversation = self.conversation.into_inner();
        conversation
            .shared
            .integrations
            .language
            .servers
            .shut_down()
            .await;
        conversation.shared.tools.shell.shut_down().await;
    }
}
