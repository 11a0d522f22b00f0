//! TaskStop: ends a background task.

use crate::context::{CallContext, ToolContext};
use crate::task_output::{sentence, state};
use crate::tool::{CallTraits, InterruptBehavior, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use lathe_shell::run::BackgroundStatus;
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
        let background = context.session.shell.background();
        let (before, task) = background
            .stop(&input.task_id)
            .await
            .map_err(|error| ToolError::failed(sentence(&error)))?;
        if before != BackgroundStatus::Running {
            return Err(ToolError::failed(format!(
                "Task {} isn't running any more: {}. TaskOutput has what it printed.",
                task.id,
                state(&task)
            )));
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
