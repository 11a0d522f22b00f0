//! TaskOutput: what a background task has printed since it was last asked.

use crate::context::{CallContext, ToolContext};
use crate::host::{AgentStatus, AgentTask, SessionHost};
use crate::task_stop::with_agents;
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use lathe_shell::run::{BackgroundCommand, BackgroundStatus, Exit};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// Reads a background task's new output.
pub struct TaskOutput;

const DEFAULT_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
const MOST_OUTPUT: usize = 30_000;

/// Which task, and whether to wait.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The task's id.
    task_id: String,
    /// A regular expression; only lines that match are returned.
    #[serde(default)]
    filter: Option<String>,
    /// Wait until the task ends; default false.
    #[serde(default)]
    block: Option<bool>,
    /// How long to wait in milliseconds; default 30000, at most 600000.
    #[serde(default)]
    timeout: Option<u64>,
}

impl Tool for TaskOutput {
    type Input = Input;

    fn name(&self) -> &'static str {
        "TaskOutput"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["BashOutput"]
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[("bash_id", "task_id"), ("shell_id", "task_id")]
    }

    fn description(&self) -> &'static str {
        include_str!("task_output.md")
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &Input) -> String {
        format!("Reading the output of {}", input.task_id)
    }

    async fn validate(&self, input: &Input, _context: &ToolContext) -> Result<(), ToolError> {
        compile(input.filter.as_deref()).map(|_| ())
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        let filter = compile(input.filter.as_deref())?;
        let background = context.session.shell.background();
        let failed = |error: lathe_shell::run::BackgroundError| {
            ToolError::failed(with_agents(sentence(&error), &context))
        };
        let blocks = input.block == Some(true);
        let limit = input
            .timeout
            .map_or(DEFAULT_WAIT, Duration::from_millis)
            .min(LONGEST_WAIT);
        if let Some(host) = context.session.host()
            && let Some(agent) = host.agent(&input.task_id)
        {
            return agent_output(host.as_ref(), agent, blocks.then_some(limit), &context).await;
        }
        if let Ok(command) = context.session.shell.terminals().get(&input.task_id) {
            return Ok(crate::interactive::state_now(&command, MOST_OUTPUT));
        }
        let mut task = background.get(&input.task_id).map_err(failed)?;
        if blocks {
            task = tokio::select! {
                task = background.wait(&input.task_id, limit) => task.map_err(failed)?,
                () = context.cancel.cancelled() => {
                    return Err(ToolError::Cancelled(
                        "Waiting was cancelled; the task keeps running.".to_owned(),
                    ));
                }
            };
        }
        let reader = background.clone();
        let id = input.task_id.clone();
        // There may be much to read.
        let new = lathe_spawn::blocking(move || {
            let accepts = filter.map(|filter| move |line: &str| filter.is_match(line));
            let accepts = accepts
                .as_ref()
                .map(|accepts| accepts as &dyn Fn(&str) -> bool);
            reader.read_new(&id, accepts, MOST_OUTPUT)
        })
        .await
        .map_err(|error| ToolError::failed(format!("Reading the output failed: {error}.")))?
        .map_err(failed)?;
        // It may have ended between the wait and the read; the newer state is used.
        task = background.get(&input.task_id).unwrap_or(task);

        let output = new.text.trim_end();
        let mut text = format!("Task {}: {}.", task.id, state(&task));
        if output.is_empty() {
            text.push_str(" No new output.");
        } else {
            text.push_str(" New output:\n");
            text.push_str(output);
        }
        if !task.leftovers.is_empty() {
            text.push_str(&format!(
                "\n[These processes were still running when the shell exited and were killed: {}.]",
                task.leftovers.join(", ")
            ));
        }
        let running = task.status == BackgroundStatus::Running;
        if !running && let Some(host) = context.session.host() {
            host.end_is_known(task.id.as_str());
        }
        let retrieval = retrieval(running, blocks);
        Ok(ToolOutput::new(
            text,
            json!({
                "retrieval_status": retrieval,
                "task": {
                    "task_id": task.id,
                    "task_type": "local_bash",
                    "status": task.status.word(),
                    "description": task.description,
                    "output": output,
                    "exitCode": task.status.exit_code(),
                },
            }),
            Display::Terminal {
                output: output.to_owned(),
                exit_code: task.status.exit_code(),
            },
        ))
    }
}

fn retrieval(running: bool, blocks: bool) -> &'static str {
    match (running, blocks) {
        (true, true) => "timeout",
        (true, false) => "not_ready",
        (false, _) => "success",
    }
}

/// The output of an agent; waits for its end if asked to.
async fn agent_output(
    host: &dyn SessionHost,
    agent: AgentTask,
    wait: Option<Duration>,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let id = agent.id.clone();
    if let Some(limit) = wait {
        tokio::select! {
            () = host.wait_for_agent(id.as_str(), limit) => {}
            () = context.cancel.cancelled() => {
                return Err(ToolError::Cancelled(
                    "Waiting was cancelled; the agent keeps running.".to_owned(),
                ));
            }
        }
    }
    let agent = host.agent(id.as_str()).unwrap_or(agent);
    let running = agent.status == AgentStatus::Running;
    if !running {
        host.end_is_known(id.as_str());
    }
    let (text, view) = crate::agent::task_view(&agent, &host.agent_output(id.as_str()));
    Ok(ToolOutput::new(
        text.clone(),
        json!({"retrieval_status": retrieval(running, wait.is_some()), "task": view}),
        Display::Markdown { text },
    ))
}

fn compile(filter: Option<&str>) -> Result<Option<regex::Regex>, ToolError> {
    filter.map(regex::Regex::new).transpose().map_err(|error| {
        ToolError::invalid(format!("filter is not a valid regular expression: {error}"))
    })
}

/// An error's text as a sentence of its own.
pub(crate) fn sentence(error: &lathe_shell::run::BackgroundError) -> String {
    let text = error.to_string();
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), characters.as_str()),
        None => text,
    }
}

/// How a task is doing, in words.
pub(crate) fn state(task: &BackgroundCommand) -> String {
    let seconds = task.elapsed.as_secs();
    match &task.status {
        BackgroundStatus::Running => format!("running for {seconds} s"),
        BackgroundStatus::Completed => format!("completed after {seconds} s"),
        BackgroundStatus::Failed(Exit::Exited(code)) => {
            format!("failed with exit code {code} after {seconds} s")
        }
        BackgroundStatus::Failed(Exit::Signalled(signal)) => {
            format!("ended by signal {signal} after {seconds} s")
        }
        BackgroundStatus::Failed(_) => format!("failed after {seconds} s"),
        BackgroundStatus::Stopped => format!("stopped after {seconds} s"),
    }
}
