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

/// To whom, and what.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The agent's id or name; "*" is all; "session:<name>" another session of the user.
    to: String,
    /// The message.
    message: String,
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
        if input.message.trim().is_empty() {
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
