//! ListAgents: who can be written to.

use crate::context::{CallContext, ToolContext};
use crate::host::OtherSession;
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The tool's name.
pub const NAME: &str = "ListAgents";

/// Lists agents and other sessions.
pub struct ListAgents;

/// Nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {}

impl Tool for ListAgents {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        include_str!("list_agents.md")
    }

    fn deferred(&self) -> bool {
        true
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, _input: &Input) -> String {
        "Looking for agents and sessions".to_owned()
    }

    async fn call(&self, _input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let host = context.session.needs_host(NAME)?;
        let (agents, sessions) = (host.agents(), host.other_sessions());
        let mut text = String::new();
        let mut part = |heading: &str, lines: Vec<String>| {
            text.push_str(&format!("{heading}:"));
            if lines.is_empty() {
                text.push_str(" none");
            }
            for line in lines {
                text.push_str(&format!("\n- {line}"));
            }
            text.push('\n');
        };
        let lines = agents.iter().map(|agent| {
            let name = agent.name.as_ref().map(|name| format!(" ({name})"));
            let (id, status) = (&agent.id, agent.status.word());
            format!(
                "{id}{}: {status}, {}",
                name.unwrap_or_default(),
                agent.description
            )
        });
        part("Agents of this session", lines.collect());
        let lines = sessions.iter().map(OtherSession::line);
        part("Other sessions of this user", lines.collect());
        let known: Vec<_> = agents
            .iter()
            .map(|agent| json!({"id": agent.id, "name": agent.name, "status": agent.status.word()}))
            .collect();
        let structured = json!({"agents": known, "sessions": sessions});
        let text = text.trim_end().to_owned();
        let display = Display::Text { text: text.clone() };
        Ok(ToolOutput::new(text, structured, display))
    }
}
