//! SendMessage: words for an agent, also for one that is finished.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The tool's name.
pub const NAME: &str = "SendMessage";

/// Sends a message.
pub struct SendMessage;

/// A message: words, or one of the few forms that members of a team and their leader exchange.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Letter {
    /// Words.
    Text(String),
    /// A form.
    Form(Form),
}

/// A question or an answer with a meaning for the program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Form {
    /// The leader asks a member to end.
    ShutdownRequest {
        /// Why.
        #[serde(default)]
        reason: String,
    },
    /// The member's answer.
    ShutdownResponse {
        /// Which request.
        request_id: String,
        /// Whether it ends.
        approve: bool,
        /// Why not.
        #[serde(default)]
        reason: String,
    },
    /// The leader's answer to a plan.
    PlanApprovalResponse {
        /// Which request.
        request_id: String,
        /// Whether the plan is carried out.
        approve: bool,
        /// Changes that are wanted, or further words.
        #[serde(default)]
        feedback: String,
    },
}

impl JsonSchema for Letter {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Letter".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": ["string", "object"]})
    }
}

/// To whom, and what.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// An id or name; "*" is all; or "session:NAME".
    to: String,
    /// The message.
    message: Letter,
    /// A summary of five to ten words, shown to the user.
    #[serde(default)]
    summary: Option<String>,
}

impl Tool for SendMessage {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        include_str!("send_message.md")
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits {
            read_only: false,
            concurrency_safe: false,
            ..CallTraits::READS
        }
    }

    /// Permission is asked for each of the agent's calls.
    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &Input) -> String {
        let what = input.summary.as_deref().unwrap_or("a message");
        format!("To {}: {what}", input.to)
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        if matches!(&input.message, Letter::Text(text) if text.trim().is_empty()) {
            return Err(ToolError::invalid("message is empty."));
        }
        let session = context.session.clone();
        let host = session.needs_host(NAME)?;
        let to = input.to.clone();
        let text = host.send_message(input.to, input.message, context).await?;
        Ok(ToolOutput::new(
            text.clone(),
            json!({"success": true, "to": to, "message": text}),
            Display::Text { text },
        ))
    }
}
