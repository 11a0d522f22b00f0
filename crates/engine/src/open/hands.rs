//! The tools of a session without its model: for callers that bring their own, such as the client of
//! `lathe mcp serve`.
//!
//! A call goes the same way as one of the model: input, hooks, permission, run, hooks, size. Nobody is there to
//! be asked, so what would be asked is refused with the rule that would allow it.

use crate::call::{IncomingCall, Stage};
use crate::conversation::{Conversation, RunningTurn};
use crate::open::options::{OpenError, SessionOptions};
use crate::open::{Prepared, prepare};
use crate::session::events::EventStream;
use crate::turn::frozen;
use lathe_protocol::content::{Content, ToolUseBlock};
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
pub struct Hands {
    conversation: Mutex<Conversation>,
    turn: RunningTurn,
}

/// What came of a call.
#[derive(Debug)]
pub struct Handed {
    /// What the tool gives.
    pub content: Content,
    /// The same for programs.
    pub structured: Value,
    /// Whether it failed or was refused.
    pub is_error: bool,
}

impl Hands {
    /// Gets the tools ready. Gives what the person should know, too.
    ///
    /// # Errors
    /// When the caller's choice is wrong.
    pub async fn open(
        mut environment: Environment,
        options: SessionOptions,
    ) -> Result<(Self, EventStream, Vec<String>), OpenError> {
        // No model is asked, so no key is needed; whatever is there stays.
        environment
            .variables
            .entry("ANTHROPIC_AUTH_TOKEN".to_owned())
            .or_insert_with(|| "none".to_owned());
        let options = SessionOptions {
            persist: false,
            ..options
        };
        let Prepared {
            conversation,
            events,
            remarks,
            ..
        } = prepare(environment, options).await?;
        let hands = Self {
            conversation: Mutex::new(conversation),
            turn: RunningTurn::new(RecordId::random()),
        };
        Ok((hands, events, remarks))
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
    ) -> Option<Handed> {
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
        Some(Handed {
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
