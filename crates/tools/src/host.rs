//! Services of the session for tools, beyond files and the shell: agents, messages,
//! plan mode, the task list's hooks, lines that are passed on.
//!
//! The engine implements [`SessionHost`]; a tool finds it in [`ToolContext::host`]. A context without
//! one (a test, a helper's own conversation) has none of these things, and the tools say so.
//!
//! [`ToolContext::host`]: crate::context::ToolContext::host

use crate::context::CallContext;
use crate::schedule::Schedule;
use crate::send_message::Letter;
use crate::task_store::{Seat, Task};
use crate::tool::{ToolError, ToolOutput};
use crate::web_search::SearchAnswer;
use futures::future::BoxFuture;
use lathe_protocol::event::TaskUsage;
use lathe_protocol::ids::{TaskId, ToolUseId};
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::usage::Usage;
use lathe_web::search::Query;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Why plan mode can't be entered.
#[derive(Debug, thiserror::Error)]
pub enum PlanModeError {
    /// The session ended.
    #[error("The session is over.")]
    SessionOver,
    /// An agent asked for it.
    #[error("Agents can't present plans to the user; put a plan into your report.")]
    InAgent,
    /// There is no person.
    #[error(
        "There is no user to approve a plan. Think the steps through and continue without plan mode."
    )]
    NobodyToAgree,
    /// The mode is not available.
    #[error(transparent)]
    Refused(#[from] lathe_permissions::ModeRefused),
}

/// The session, as its tools see it. One for each conversation: a sub-agent has its own.
pub trait SessionHost: Send + Sync {
    /// Runs an agent: to its end, or as far as its start when it continues in the background.
    fn run_agent(
        &self,
        order: AgentOrder,
        call: CallContext,
    ) -> BoxFuture<'_, Result<AgentReport, ToolError>>;

    /// Starts a workflow, which continues in the background.
    fn start_workflow(
        &self,
        _order: WorkflowOrder,
        _call: CallContext,
    ) -> BoxFuture<'_, Result<WorkflowStarted, ToolError>> {
        Box::pin(async { Err(ToolError::failed("There is no session to run it in.")) })
    }

    /// Gives an agent a message. A finished one is woken and continues in the background.
    fn send_message(
        &self,
        to: String,
        message: Letter,
        call: CallContext,
    ) -> BoxFuture<'_, Result<String, ToolError>>;

    /// An agent of the session, by id or name.
    fn agent(&self, id: &str) -> Option<AgentTask>;

    /// All agents of the session, oldest first.
    fn agents(&self) -> Vec<AgentTask>;

    /// The user's other sessions on this machine.
    fn other_sessions(&self) -> Vec<OtherSession> {
        Vec::new()
    }

    /// The output of an agent since the last call.
    fn agent_output(&self, id: &str) -> String;

    /// Waits until an agent is over, at most this long.
    fn wait_for_agent(&self, id: &str, limit: Duration) -> BoxFuture<'_, ()>;

    /// Ends an agent and everything that it started.
    fn stop_agent(&self, id: &str) -> BoxFuture<'_, ()>;

    /// The model knows how a task ended: no notification is needed.
    fn end_is_known(&self, task: &str);

    /// How planning stands.
    fn plan(&self) -> PlanState;

    /// Enters plan mode.
    ///
    /// # Errors
    /// When it can't be entered here.
    fn enter_plan_mode(&self) -> Result<PlanState, PlanModeError>;

    /// Leaves plan mode, unless a mode was chosen with the approval. Returns the mode.
    fn leave_plan_mode(&self) -> PermissionMode;

    /// Tells the hooks of a change: TaskCreated, TaskCompleted or TaskUpdated. Gives the reason of one that objects.
    fn task_changed(&self, task: Task, change: TaskChange) -> BoxFuture<'_, Option<String>>;

    /// The caller's place in the team of the session; `None` without a team, or for who is no member.
    fn team_seat(&self) -> Option<Seat> {
        None
    }

    /// Tells the new owner of a task, if that is another member.
    fn task_given(&self, _task: &Task) {}

    /// Makes a team that the conversation leads.
    ///
    /// # Errors
    /// When it can't lead one.
    fn create_team(&self, _name: &str, _description: &str) -> Result<TeamMade, ToolError> {
        Err(ToolError::failed("There is no session to lead a team."))
    }

    /// Ends the team of the session. Gives its name.
    ///
    /// # Errors
    /// When there is none, or a member still works.
    fn delete_team(&self) -> Result<String, ToolError> {
        Err(ToolError::failed("There is no team."))
    }

    /// Whether a tool's definition has not been loaded, so that the model can't know its fields.
    fn is_unloaded(&self, _tool: &str) -> bool {
        false
    }

    /// Why the conversation doesn't have a tool that others have, in words for the model.
    fn why_missing(&self, _tool: &str) -> Option<String> {
        None
    }

    /// Asks the small model one question beside the conversation. The cost is the session's.
    fn ask_small_model(
        &self,
        system: &'static str,
        prompt: String,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<String, ToolError>>;

    /// Lets the model's provider search the web. The cost is the session's.
    fn search_by_model(
        &self,
        query: Query,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<SearchAnswer, ToolError>>;

    /// Calls another tool of the session for one that is built on it.
    fn call_tool(
        &self,
        name: String,
        input: Value,
        call: CallContext,
    ) -> BoxFuture<'_, Result<ToolOutput, ToolError>>;

    /// The schema of a tool's input, if the session has the tool. A server that is being connected is waited for.
    fn input_schema(&self, name: String) -> BoxFuture<'_, Option<Value>>;

    /// The conversation has read text from outside, such as a page of this host: what is done afterwards may not be
    /// the user's idea.
    fn read_from_outside(&self, source: &str);

    /// Passes matching lines of a background command on to the conversation.
    fn monitor(&self, order: MonitorOrder);

    /// Moves the session into a worktree: a new one by its name, or one that is there by its path.
    fn enter_worktree(
        &self,
        _wish: WorktreeWish,
    ) -> BoxFuture<'_, Result<WorktreeMove, ToolError>> {
        Box::pin(async { Err(ToolError::failed("There is no session to move.")) })
    }

    /// Moves the session back from its worktree. `remove` removes that if nothing would be lost, or all the same with
    /// `discard`.
    fn exit_worktree(
        &self,
        _remove: bool,
        _discard: bool,
    ) -> BoxFuture<'_, Result<WorktreeMove, ToolError>> {
        Box::pin(async { Err(ToolError::failed("There is no session to move.")) })
    }

    /// The effective settings.
    fn settings(&self) -> Value {
        Value::Null
    }

    /// Changes settings for the rest of the session; `null` takes a change back.
    ///
    /// # Errors
    /// When they are wrong; then nothing changes.
    fn change_settings(&self, _changes: &serde_json::Map<String, Value>) -> Result<(), ToolError> {
        Err(ToolError::failed(
            "This conversation has no settings of its own.",
        ))
    }

    /// The scheduled prompts of the session and its project, with the permission mode that a new one is made in.
    fn schedule(&self) -> Option<(Arc<Schedule>, PermissionMode)> {
        None
    }
}

/// Which worktree a session goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeWish {
    /// One by this name, which is made if it isn't there.
    Named(String),
    /// One that is there.
    At(PathBuf),
}

/// A session that went into a worktree or left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeMove {
    /// The worktree.
    pub path: PathBuf,
    /// Its branch; empty if it is on none.
    pub branch: String,
    /// The folder that the session was started in.
    pub original: PathBuf,
    /// Whether the worktree is gone.
    pub removed: bool,
    /// Files and commits that were discarded.
    pub discarded: (usize, usize),
    /// The text for the model.
    pub message: String,
}

/// Which agent, and what for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentOrder {
    /// A short description.
    pub description: String,
    /// The prompt.
    pub prompt: String,
    /// The agent's type; `None` is the general one.
    pub agent_type: Option<String>,
    /// The model that it should use.
    pub model: Option<String>,
    /// How hard its model should try; `None` is as its definition or its parent says.
    pub effort: Option<String>,
    /// Whether it runs in the background.
    pub background: Option<bool>,
    /// Whether it gets a git worktree of its own.
    pub worktree: bool,
    /// A name by which messages reach it.
    pub name: Option<String>,
    /// The team that it is a member of.
    pub team: Option<String>,
    /// Its permission mode, of a member of a team.
    pub mode: Option<PermissionMode>,
    /// The schema that its answer must fit.
    pub schema: Option<Value>,
    /// The phase of the workflow that it belongs to.
    pub phase: Option<String>,
}

/// A team that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamMade {
    /// Its name.
    pub name: String,
    /// Its file.
    pub config: PathBuf,
    /// The folder of its task list.
    pub tasks: PathBuf,
}

/// Which workflow, and what for. One of the first three, or the script of the run that is resumed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkflowOrder {
    /// The script itself.
    pub script: Option<String>,
    /// A saved or built-in one.
    pub name: Option<String>,
    /// A file.
    pub path: Option<PathBuf>,
    /// Its arguments.
    pub args: Value,
    /// A run whose finished agents are not run again.
    pub resume: Option<String>,
    /// Whether its agents are jobs of the fleet.
    pub fleet: bool,
}

/// A workflow that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowStarted {
    /// Names the run; also the id of its task.
    pub run_id: String,
    /// The name of the workflow.
    pub name: String,
    /// Where its output is.
    pub output_file: PathBuf,
}

/// The outcome of a request to start an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentReport {
    /// It is over.
    Finished(Box<AgentTask>),
    /// It continues in the background.
    Started(Box<AgentTask>),
}

/// How an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentStatus {
    /// It works.
    Running,
    /// It finished its task.
    Completed,
    /// It could not.
    Failed,
    /// It was ended.
    Killed,
}

impl AgentStatus {
    /// One word for it, as task events have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

/// Another session of the user on this machine.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OtherSession {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Its working folder.
    pub folder: PathBuf,
    /// Its activity, in words.
    pub state: String,
}

impl OtherSession {
    /// One line about it.
    #[must_use]
    pub fn line(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" ({name})"));
        let (name, folder) = (name.unwrap_or_default(), self.folder.display());
        format!("session:{}{name}: {}, in {folder}", self.id, self.state)
    }
}

/// An agent as others see it.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentTask {
    /// Names it; also the id of its task.
    pub id: TaskId,
    /// The name that it was given.
    pub name: Option<String>,
    /// Its type.
    pub agent_type: String,
    /// Its description.
    pub description: String,
    /// Its prompt.
    pub prompt: String,
    /// How it is doing.
    pub status: AgentStatus,
    /// Whether it continues beside the conversation.
    pub background: bool,
    /// Its final message, or why it failed.
    pub result: String,
    /// Its usage.
    pub usage: TaskUsage,
    /// Where its output is.
    pub output_file: PathBuf,
    /// The state of its worktree, for continuing the work.
    pub worktree: Option<String>,
    /// The tool that it used last.
    pub last_tool: Option<String>,
    /// The call that started it, which its records and events name.
    pub tool_use_id: Option<ToolUseId>,
    /// The agent that started it; `None` is the main conversation.
    pub parent: Option<TaskId>,
    /// The phase of the workflow that it belongs to.
    pub phase: Option<String>,
    /// The answer in the shape that was asked for.
    pub structured: Option<Value>,
    /// Dollars that it has cost; 0 where the price is unknown.
    pub cost_usd: f64,
    /// Its model.
    pub model: String,
    /// The tokens of its requests by kind.
    pub tokens: Usage,
}

/// How planning stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanState {
    /// Whether plan mode is on.
    pub active: bool,
    /// The plan's file.
    pub file: PathBuf,
    /// The plan as it stands; empty when there is none.
    pub text: String,
    /// Whether an agent plans, not the main conversation.
    pub in_agent: bool,
}

/// A change of a task in the task list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskChange {
    /// It was added.
    Created,
    /// It is done.
    Completed,
    /// It is about to change.
    Updated(TaskUpdated),
}

/// An update of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskUpdated {
    /// Its status before.
    pub from: &'static str,
    /// Its status afterwards; `deleted` when it is removed.
    pub to: &'static str,
    /// The fields that change.
    pub fields: Vec<&'static str>,
}

/// Which lines to pass on.
#[derive(Debug, Clone)]
pub struct MonitorOrder {
    /// The background command.
    pub task: TaskId,
    /// A short description.
    pub description: String,
    /// Lines that don't match are left out.
    pub pattern: Option<regex::Regex>,
}
