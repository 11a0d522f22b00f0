//! TeamCreate: makes a team that the conversation leads.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The tool's name.
pub const NAME: &str = "TeamCreate";

/// Makes a team.
pub struct TeamCreate;

/// Which team.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// A short name: letters, digits, - and _.
    team_name: String,
    /// The purpose of the team.
    #[serde(default)]
    description: String,
}

impl Tool for TeamCreate {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        include_str!("team_create.md")
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

    /// Permission is asked for each call of the members.
    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &Input) -> String {
        format!("Creating the team {}", input.team_name)
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let host = context.session.needs_host(NAME)?;
        let made = host.create_team(&input.team_name, &input.description)?;
        let text = format!(
            "Created the team {}; you lead it. Its task list is empty. Start members with Agent and team_name \"{}\".",
            made.name, made.name
        );
        Ok(ToolOutput::new(
            text.clone(),
            json!({
                "team_name": made.name, "team_file_path": made.config, "task_list": made.tasks,
                "lead_agent_id": crate::team::LEADER,
            }),
            Display::Text { text },
        ))
    }
}
