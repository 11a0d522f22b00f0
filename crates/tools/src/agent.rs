//! Agent: starts a sub-agent.
//!
//! The engine defines and runs agents ([`crate::host::SessionHost`]); this is its
//! door. The description lists the agents that there are, so it is made for each session.

use crate::context::{CallContext, ToolContext};
use crate::host::{AgentOrder, AgentReport, AgentStatus, AgentTask};
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::display::Display;
use lathe_protocol::permission::{PermissionMode, Subject};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The tool's name.
pub const NAME: &str = "Agent";
/// The name that existing files and models also use for it.
pub const ALIAS: &str = "Task";
/// The agent that an order without a type gets.
pub const GENERAL: &str = "general-purpose";
/// The agent type that is a copy of the caller.
pub const FORK: &str = "fork";
/// Bytes of the list of agents in the description.
const LIST_BYTES: usize = 8_000;
/// Bytes of one agent in it, if the list is full.
const ENTRY_BYTES: usize = 400;
/// Bytes of one agent in it, if there is room.
const LONGEST_ENTRY: usize = 1_536;

/// Starts an agent.
pub struct Agent {
    description: String,
}

/// The order.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The task in three to five words.
    description: String,
    /// The task.
    prompt: String,
    /// Which agent; the general one if it is left out.
    #[serde(default)]
    subagent_type: Option<String>,
    /// Another model for it.
    #[serde(default)]
    model: Option<String>,
    /// Whether it runs in the background.
    #[serde(default)]
    run_in_background: Option<bool>,
    /// Where it works, if not here.
    #[serde(default)]
    isolation: Option<Isolation>,
    /// A name by which SendMessage reaches it.
    #[serde(default)]
    name: Option<String>,
    /// A team to join.
    #[serde(default)]
    team_name: Option<String>,
    /// Its permission mode.
    #[serde(default)]
    mode: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Isolation {
    Worktree,
}

impl Agent {
    /// The tool with the agents that it can start: name and when to use it, the most important first.
    #[must_use]
    pub fn new<'a>(agents: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut description = include_str!("agent.md").trim_end().to_owned();
        description.push_str("\n\nTypes of agents:");
        let agents: Vec<(&str, String)> = agents
            .into_iter()
            .map(|(name, purpose)| (name, purpose.trim().replace('\n', " ")))
            .collect();
        let limit = even_limit(&agents);
        let mut left = LIST_BYTES;
        let mut more = Vec::new();
        for (name, purpose) in agents {
            let line = format!("\n- {name}: {}", bounded(&purpose, limit));
            if line.len() > left {
                more.push(name);
                continue;
            }
            left -= line.len();
            description.push_str(&line);
        }
        if !more.is_empty() {
            description.push_str("\nFurther types: ");
            description.push_str(&bounded(&more.join(", "), LIST_BYTES / 2));
        }
        Self { description }
    }
}

/// The length to which purposes are cut, evenly, so that the list fits.
fn even_limit(agents: &[(&str, String)]) -> usize {
    let size = |limit: usize| -> usize {
        let line = |(name, purpose): &(&str, String)| name.len() + 5 + purpose.len().min(limit);
        agents.iter().map(line).sum()
    };
    let (mut fits, mut too_long) = (ENTRY_BYTES, LONGEST_ENTRY + 1);
    while too_long - fits > 1 {
        let middle = fits.midpoint(too_long);
        if size(middle) <= LIST_BYTES {
            fits = middle;
        } else {
            too_long = middle;
        }
    }
    fits
}

/// The beginning of a text, cut at a character.
fn bounded(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

impl Tool for Agent {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        &[ALIAS]
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits {
            concurrency_safe: true,
            destructive: false,
            ..CallTraits::default()
        }
    }

    /// Permission is asked for each of the agent's calls; rules may name its type.
    fn subject(&self, input: &Input, _context: &ToolContext) -> Subject {
        Subject::Named {
            name: input
                .subagent_type
                .clone()
                .unwrap_or_else(|| GENERAL.to_owned()),
            harmless: true,
        }
    }

    fn activity(&self, input: &Input) -> String {
        let kind = input.subagent_type.as_deref().unwrap_or("Agent");
        format!("{kind}: {}", input.description)
    }

    async fn validate(&self, input: &Input, context: &ToolContext) -> Result<(), ToolError> {
        context.needs_host(NAME)?;
        if input.prompt.trim().is_empty() {
            return Err(ToolError::invalid(
                "prompt is empty: say what the agent is to do.",
            ));
        }
        if let Some(mode) = &input.mode {
            mode_of(mode)?;
        }
        if input.mode.is_some() && input.team_name.is_none() {
            return Err(ToolError::invalid(
                "mode is for members of a team: name the team, or leave it out.",
            ));
        }
        Ok(())
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let order = AgentOrder {
            description: input.description,
            prompt: input.prompt,
            agent_type: input.subagent_type.filter(|kind| !kind.trim().is_empty()),
            model: input.model.filter(|model| !model.trim().is_empty()),
            effort: None,
            background: input.run_in_background,
            worktree: input.isolation == Some(Isolation::Worktree),
            name: input.name.filter(|name| !name.trim().is_empty()),
            team: input.team_name.filter(|name| !name.trim().is_empty()),
            mode: input.mode.as_deref().map(mode_of).transpose()?,
            schema: None,
            phase: None,
        };
        let session = context.session.clone();
        let host = session.needs_host(NAME)?;
        match host.run_agent(order, context).await? {
            AgentReport::Finished(task) => Ok(finished(&task)),
            AgentReport::Started(task) => Ok(started(&task)),
        }
    }
}

fn mode_of(name: &str) -> Result<PermissionMode, ToolError> {
    name.parse().map_err(|_| {
        let known: Vec<&str> = PermissionMode::ALL.iter().map(|mode| mode.name()).collect();
        ToolError::invalid(format!(
            "There is no mode {name:?}. Modes: {}.",
            known.join(", ")
        ))
    })
}

fn finished(task: &AgentTask) -> ToolOutput {
    let usage = task.usage;
    let failed = task.status != AgentStatus::Completed;
    let result = match task.status {
        AgentStatus::Completed if task.result.trim().is_empty() => {
            "(The agent finished without a report.)".to_owned()
        }
        AgentStatus::Completed => task.result.clone(),
        status => format!("The agent {}: {}", ended_word(status), task.result),
    };
    let mut note = format!(
        "[Agent {}: {} tool call{}, {} tokens, {:.1} s. SendMessage with to: \"{}\" continues it.",
        task.id,
        usage.tool_uses,
        if usage.tool_uses == 1 { "" } else { "s" },
        usage.total_tokens,
        std::time::Duration::from_millis(usage.duration_ms).as_secs_f64(),
        task.name.as_deref().unwrap_or(task.id.as_str()),
    );
    if let Some(worktree) = &task.worktree {
        note.push(' ');
        note.push_str(worktree);
    }
    note.push(']');
    let mut tokens = json!(task.tokens);
    if tokens.get("service_tier").is_none() {
        tokens["service_tier"] = Value::Null;
    }
    let mut output = ToolOutput::blocks(
        vec![ContentBlock::text(result.clone()), ContentBlock::text(note)],
        json!({
            "status": task.status.word(), "prompt": task.prompt,
            "agentId": task.id, "agentType": task.agent_type,
            "content": [{"type": "text", "text": task.result}],
            "totalDurationMs": usage.duration_ms, "totalTokens": usage.total_tokens,
            "totalToolUseCount": usage.tool_uses, "worktree": task.worktree,
            "resolvedModel": task.model, "usage": tokens,
        }),
        Display::Markdown { text: result },
    );
    output.is_error = failed;
    output
}

fn started(task: &AgentTask) -> ToolOutput {
    let text = format!(
        "Agent {} works in the background. A notification with its result comes when it is done; don't wait for it in a loop. Its output: {}",
        task.id,
        task.output_file.display()
    );
    ToolOutput::new(
        text,
        json!({
            "status": "async_launched", "isAsync": true, "agentId": task.id,
            "agentType": task.agent_type, "description": task.description,
            "prompt": task.prompt, "outputFile": task.output_file,
        }),
        Display::Text {
            text: format!("Working in the background as {}", task.id),
        },
    )
}

fn ended_word(status: AgentStatus) -> &'static str {
    match status {
        AgentStatus::Killed => "was stopped",
        _ => "failed",
    }
}

/// The text of TaskOutput for an agent.
#[must_use]
pub(crate) fn task_view(task: &AgentTask, new_output: &str) -> (String, Value) {
    let mut text = format!("Agent {} ({}): {}.", task.id, task.description, {
        let seconds = task.usage.duration_ms / 1_000;
        match task.status {
            AgentStatus::Running => format!("running for {seconds} s"),
            status => format!("{} after {seconds} s", status.word()),
        }
    });
    let output = if task.status == AgentStatus::Running {
        new_output.trim_end()
    } else {
        task.result.trim_end()
    };
    match (task.status, output.is_empty()) {
        (AgentStatus::Running, true) => text.push_str(" Nothing new."),
        (AgentStatus::Running, false) => {
            text.push_str(" New since you last asked:\n");
            text.push_str(output);
        }
        (_, true) => text.push_str(" It said nothing."),
        (_, false) => {
            text.push_str(" Its result:\n");
            text.push_str(output);
        }
    }
    if let Some(worktree) = &task.worktree {
        text.push('\n');
        text.push_str(worktree);
    }
    let view = json!({
        "task_id": task.id, "task_type": "local_agent", "status": task.status.word(),
        "description": task.description, "output": output, "prompt": task.prompt,
        "result": (task.status != AgentStatus::Running).then_some(&task.result),
    });
    (text, view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_agents_stays_within_its_bytes() {
        let long = "x".repeat(1_000);
        let names: Vec<String> = (0..100).map(|number| format!("agent-{number}")).collect();
        let tool = Agent::new(names.iter().map(|name| (name.as_str(), long.as_str())));
        let list = tool.description.split("Types of agents:").nth(1).unwrap();
        assert!(
            list.len() < LIST_BYTES + LIST_BYTES / 2 + 100,
            "{}",
            list.len()
        );
        assert!(list.contains("- agent-0: x"), "{list}");
        assert!(list.contains("Further types: ") && list.contains("agent-99"));
        let few = Agent::new([("a", "does\na")]);
        assert!(few.description.ends_with("- a: does a"));
    }
}
