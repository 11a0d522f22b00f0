//! Monitor: the lines of a background command, passed on as they come.

use crate::context::{CallContext, ToolContext};
use crate::host::MonitorOrder;
use crate::task_output::sentence;
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::ids::TaskId;
use lathe_protocol::permission::Subject;
use lathe_shell::run::{BackgroundStatus, RunOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Watches a command.
pub struct Monitor;

/// The command to watch, and the pattern.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The command to run and watch.
    #[serde(default)]
    command: Option<String>,
    /// A background command that runs already.
    #[serde(default)]
    task_id: Option<String>,
    /// A regular expression; only lines that match are passed on.
    #[serde(default)]
    pattern: Option<String>,
    /// A short description.
    #[serde(default)]
    description: Option<String>,
}

fn compile(pattern: Option<&str>) -> Result<Option<regex::Regex>, ToolError> {
    pattern.map(regex::Regex::new).transpose().map_err(|error| {
        ToolError::invalid(format!(
            "pattern is not a valid regular expression: {error}"
        ))
    })
}

impl Tool for Monitor {
    type Input = Input;

    fn name(&self) -> &'static str {
        "Monitor"
    }

    fn description(&self) -> &str {
        include_str!("monitor.md")
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[("task", "task_id")]
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits::default()
    }

    fn subject(&self, input: &Input, context: &ToolContext) -> Subject {
        match &input.command {
            Some(command) => Subject::Shell {
                command: command.clone(),
                cwd: context.working_folder.read().clone(),
                unsandboxed: false,
            },
            // That command was permitted when it was started.
            None => Subject::Nothing,
        }
    }

    fn activity(&self, input: &Input) -> String {
        let what = input.description.as_deref().or(input.command.as_deref());
        format!("Watching {}", what.unwrap_or("a background command"))
    }

    async fn validate(&self, input: &Input, context: &ToolContext) -> Result<(), ToolError> {
        context.needs_host("Monitor")?;
        compile(input.pattern.as_deref())?;
        match (&input.command, &input.task_id) {
            (Some(_), Some(_)) | (None, None) => Err(ToolError::invalid(
                "Give either a command or the task_id of a running one.",
            )),
            _ => Ok(()),
        }
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let pattern = compile(input.pattern.as_deref())?;
        let host = context.session.needs_host("Monitor")?;
        let shell = &context.session.shell;
        let (task, description) = match (input.command, input.task_id) {
            (Some(command), _) => {
                let description = input.description.unwrap_or_else(|| command.clone());
                let options = RunOptions {
                    directory: Some(context.session.working_folder.read().clone()),
                    description: description.clone(),
                    tool_use_id: Some(context.tool_use_id.clone()),
                    sandbox: context.sandbox.clone(),
                    confinement: context.confinement.clone(),
                    ..RunOptions::default()
                };
                let task = shell
                    .start_in_background(&command, options)
                    .await
                    .map_err(|error| {
                        ToolError::failed(format!("The command was not started: {error}."))
                    })?;
                (task, description)
            }
            (None, task) => {
                let task = task.unwrap_or_default();
                let known = shell
                    .background()
                    .get(&task)
                    .map_err(|error| ToolError::failed(sentence(&error)))?;
                if known.status != BackgroundStatus::Running {
                    return Err(ToolError::failed(format!(
                        "Task {task} is no longer running; TaskOutput has its output."
                    )));
                }
                (
                    TaskId::from(task),
                    input.description.unwrap_or(known.command),
                )
            }
        };
        host.monitor(MonitorOrder {
            task: task.clone(),
            description: description.clone(),
            pattern,
        });
        let text = format!(
            "Watching task {task} ({description}). Its lines come as notifications; TaskStop ends it."
        );
        Ok(ToolOutput::new(
            text.clone(),
            json!({"taskId": task, "description": description}),
            Display::Text { text },
        ))
    }
}
