//! TaskStop: ends a background task.

use crate::context::{CallContext, ToolContext};
use crate::host::{AgentStatus, AgentTask, SessionHost};
use crate::task_output::{sentence, state};
use crate::tool::{CallTraits, InterruptBehavior, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use lathe_shell::run::{BackgroundStatus, InteractiveCommand};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Ends a background task.
pub struct TaskStop;

/// Which task.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The task's id.
    task_id: String,
}

impl Tool for TaskStop {
    type Input = Input;

    fn name(&self) -> &'static str {
        "TaskStop"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["KillShell", "KillBash"]
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[("shell_id", "task_id"), ("bash_id", "task_id")]
    }

    fn description(&self) -> &'static str {
        include_str!("task_stop.md")
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits {
            read_only: false,
            interrupt: InterruptBehavior::Block,
            ..CallTraits::READS
        }
    }

    /// It ends what the session itself started, which was permitted then.
    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &Input) -> String {
        format!("Stopping {}", input.task_id)
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        if let Some(host) = context.session.host()
            && let Some(agent) = host.agent(&input.task_id)
        {
            return stop_agent(host.as_ref(), &agent).await;
        }
        if let Ok(command) = context.session.shell.terminals().get(&input.task_id) {
            return stop_interactive(&command).await;
        }
        let background = context.session.shell.background();
        let (before, task) = background
            .stop(&input.task_id)
            .await
            .map_err(|error| ToolError::failed(with_agents(sentence(&error), &context)))?;
        if before != BackgroundStatus::Running {
            return Err(ToolError::failed(format!(
                "Task {} is no longer running: {}. TaskOutput has its output.",
                task.id,
                state(&task)
            )));
        }
        if let Some(host) = context.session.host() {
            host.end_is_known(task.id.as_str());
        }
        let message = format!("Task {} is stopped ({}).", task.id, task.command);
        Ok(ToolOutput::new(
            message.clone(),
            json!({
                "message": message,
                "task_id": task.id,
                "task_type": "local_bash",
                "command": task.command,
            }),
            Display::Text { text: message },
        ))
    }
}

async fn stop_interactive(command: &InteractiveCommand) -> Result<ToolOutput, ToolError> {
    if command.exit().is_some() {
        return Err(ToolError::failed(format!(
            "{} is no longer running. TaskOutput has its output.",
            command.id
        )));
    }
    command.stop().await;
    let message = format!("{} is stopped ({}).", command.id, command.command);
    Ok(ToolOutput::new(
        message.clone(),
        json!({
            "message": message, "task_id": command.id, "task_type": "local_bash",
            "command": command.command,
        }),
        Display::Text { text: message },
    ))
}

/// The error about a task that isn't there, with the agents that are tasks as well.
pub(crate) fn with_agents(mut text: String, context: &CallContext) -> String {
    let host = context.session.host();
    let agents = host.map(|host| host.agents()).unwrap_or_default();
    if !agents.is_empty() {
        let names: Vec<String> = agents
            .iter()
            .map(|agent| match &agent.name {
                Some(name) => format!("{} ({name})", agent.id),
                None => agent.id.to_string(),
            })
            .collect();
        text.push_str(&format!(" Agents: {}.", names.join(", ")));
    }
    text
}

async fn stop_agent(host: &dyn SessionHost, agent: &AgentTask) -> Result<ToolOutput, ToolError> {
    if agent.status != AgentStatus::Running {
        return Err(ToolError::failed(format!(
            "Agent {} is no longer running: it {}. TaskOutput has its result.",
            agent.id,
            agent.status.word()
        )));
    }
    host.stop_agent(agent.id.as_str()).await;
    host.end_is_known(agent.id.as_str());
    let message = format!("Agent {} is stopped ({}).", agent.id, agent.description);
    Ok(ToolOutput::new(
        message.clone(),
        json!({
            "message": message, "task_id": agent.id, "task_type": "local_agent",
            "command": agent.description,
        }),
        Display::Text { text: message },
    ))
}
