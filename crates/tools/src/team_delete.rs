//! TeamDelete: ends the team that the conversation leads.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The tool's name.
pub const NAME: &str = "TeamDelete";

/// Ends a team.
pub struct TeamDelete;

/// Nothing to say: there is only one.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {}

impl Tool for TeamDelete {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        include_str!("team_delete.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits {
            concurrency_safe: false,
            ..CallTraits::READS
        }
    }

    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, _input: &Input) -> String {
        "Ending the team".to_owned()
    }

    async fn call(&self, _input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let host = context.session.needs_host(NAME)?;
        let name = host.delete_team()?;
        let text = format!("Ended the team {name}. The task list is the session's own again.");
        Ok(ToolOutput::new(
            text.clone(),
            json!({"success": true, "team_name": name}),
            Display::Text { text },
        ))
    }
}
