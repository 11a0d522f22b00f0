//! Events: what the engine tells the faces.
//!
//! A conversation's content reaches a face as the very records that go into the transcript
//! ([`Event::Record`]); everything else tells what is going on around them.

use crate::display::Display;
use crate::elicitation::{ElicitationReply, ElicitationRequest};
use crate::ids::{AgentId, RecordId, RequestId, SessionId, TaskId, ToolUseId};
use crate::permission::{PermissionDenial, PermissionMode, PermissionReply, PermissionRequest};
use crate::record::MessageRecord;
use crate::stream::StreamPiece;
use crate::usage::Usage;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The engine's word to the faces.
#[derive(Debug, Clone)]
pub enum Event {
    /// The state of the session changed.
    StateChanged(SessionState),
    /// A turn begins.
    TurnStarted(Arc<SessionInit>),
    /// A prompt was taken in: its record as it stands in the transcript.
    PromptAccepted {
        /// The record.
        record: Arc<MessageRecord>,
    },
    /// A request goes to the model.
    Requesting,
    /// An event of the model's stream.
    Stream {
        /// The event, parsed and as it came.
        event: Arc<StreamPiece>,
        /// The call of the sub-agent that it belongs to.
        parent_tool_use_id: Option<ToolUseId>,
    },
    /// The model thinks.
    Thinking {
        /// How many tokens the present piece of thinking has, by estimate.
        estimated_tokens: u64,
        /// How many of them are new.
        delta: u64,
    },
    /// The model refused to answer.
    Refused(Refusal),
    /// A record was added to the conversation.
    Record {
        /// The record.
        record: Arc<MessageRecord>,
        /// The call of the sub-agent that it belongs to.
        parent_tool_use_id: Option<ToolUseId>,
    },
    /// Output that was shown is withdrawn: the request to the model is repeated.
    Retracted {
        /// The records that are withdrawn. Deltas since the last request are withdrawn too.
        records: Vec<RecordId>,
        /// Why.
        reason: String,
    },
    /// A call begins.
    CallStarted {
        /// The call.
        tool_use_id: ToolUseId,
        /// The tool.
        tool_name: String,
        /// The activity, in one line.
        activity: String,
    },
    /// A call continues.
    CallProgress {
        /// The call.
        tool_use_id: ToolUseId,
        /// The tool.
        tool_name: String,
        /// Progress to display.
        display: Display,
        /// How long it has run.
        elapsed: Duration,
    },
    /// A call is over.
    CallFinished {
        /// The call.
        tool_use_id: ToolUseId,
        /// The tool.
        tool_name: String,
        /// The result to display.
        display: Display,
        /// Whether it failed.
        is_error: bool,
        /// How long it ran.
        elapsed: Duration,
    },
    /// Someone must answer.
    PermissionRequested(Arc<PermissionRequest>),
    /// A question needs no answer any more.
    PermissionResolved {
        /// The question.
        request_id: RequestId,
        /// The answer that won; `None` when the question was withdrawn.
        reply: Option<PermissionReply>,
        /// Who gave it: `terminal`, `hook`, `editor`, or the name of a client.
        by: Option<String>,
    },
    /// A call was refused without anyone being asked.
    PermissionDenied {
        /// The call.
        denial: PermissionDenial,
        /// The message for the model.
        message: String,
        /// Why, in words.
        reason: String,
        /// Why, as a kind of reason.
        kind: &'static str,
        /// The sub-agent that made the call.
        agent: Option<AgentId>,
    },
    /// An MCP server asks the user something; `Op::ElicitationReply` answers.
    ElicitationRequested(Arc<ElicitationRequest>),
    /// A server's question needs no answer any more.
    ElicitationResolved {
        /// The question.
        request_id: RequestId,
        /// The answer; `None` when the question was withdrawn.
        reply: Option<ElicitationReply>,
        /// Who gave it: `terminal`, or the name of a client.
        by: Option<String>,
    },
    /// An MCP server reports that a page, which it asked the user to open, is done with.
    ElicitationCompleted {
        /// The server.
        server: String,
        /// Its id for the page.
        elicitation_id: String,
    },
    /// The permission mode changed.
    ModeChanged(PermissionMode),
    /// The model is asked again after trouble.
    Retrying {
        /// Which try comes next, from 1.
        attempt: u32,
        /// How many there may be.
        max_retries: u32,
        /// How long it waits before that.
        delay: Duration,
        /// The HTTP status, if there was one.
        status: Option<u16>,
        /// The error.
        error: String,
    },
    /// Another model took over.
    ModelFellBack {
        /// The model that failed.
        from: String,
        /// The model that answers from now on.
        to: String,
        /// Why.
        reason: String,
    },
    /// Older conversation is being replaced by a summary.
    Compacting,
    /// The session follows another in the same process. The first event of its stream.
    ConversationReset {
        /// The session before it.
        previous: SessionId,
        /// This session.
        next: SessionId,
    },
    /// The conversation was not compacted, though someone asked for it.
    CompactionFailed {
        /// Why not.
        reason: String,
    },
    /// Older conversation was replaced by a summary.
    Compacted {
        /// `manual` or `auto`.
        trigger: String,
        /// Tokens before.
        pre_tokens: u64,
        /// Tokens after.
        post_tokens: Option<u64>,
        /// How long it took.
        duration: Duration,
    },
    /// Commands, skills or plugins were added or removed.
    CommandsChanged,
    /// A hook has a notification or a title for the user's terminal: an escape sequence that was checked.
    TerminalSequence(String),
    /// A hook began or ended.
    Hook(HookNotice),
    /// A background task changed.
    Task(TaskNotice),
    /// The editor beside the session changed: which one it is, or what the user does there.
    Editor(EditorNotice),
    /// Something the user should know.
    Notice {
        /// How much it matters.
        level: NoticeLevel,
        /// In words.
        text: String,
        /// Set where it is about the program itself, not about the conversation.
        news: Option<News>,
    },
    /// The turn is over.
    TurnFinished(Arc<TurnResult>),
    /// The session is over: everything is flushed, nothing more comes.
    SessionEnded,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// A turn runs.
    Running,
    /// A question waits for an answer.
    RequiresAction,
    /// Nothing to do.
    Idle,
}

/// An event of the editor beside the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditorNotice {
    /// Its current view; `None` when no editor is connected.
    Shows(Option<EditorView>),
    /// The user sent lines of a file to the prompt: the mention to put there.
    Mentioned(String),
}

/// An editor that is connected, and what the user has before them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EditorView {
    /// The editor's name.
    pub name: String,
    /// The open file, as it is shown to the user.
    pub file: Option<String>,
    /// How many lines of it are selected.
    pub selected_lines: usize,
}

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoticeLevel {
    /// Good to know.
    Info,
    /// Said to the user by somebody else: a hook.
    Notice,
    /// Something is not as it should be.
    Warning,
    /// Something failed.
    Error,
}

/// How soon news about the program are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// When nothing else waits.
    Low,
    /// Before what is low.
    Medium,
    /// Before what is medium.
    High,
    /// At once, in the place of any other.
    Immediate,
}

/// A notice about the program itself. A face may show it apart from the conversation, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    /// Replaces older news of this key; its own text if there is none.
    pub key: Option<&'static str>,
    /// How soon it is shown.
    pub priority: Priority,
    /// Keys of news that it makes untrue.
    pub invalidates: &'static [&'static str],
}

impl News {
    /// News that replace nothing but the same words.
    #[must_use]
    pub const fn new(priority: Priority) -> Self {
        Self {
            key: None,
            priority,
            invalidates: &[],
        }
    }

    /// News that replace older ones of the same key.
    #[must_use]
    pub const fn of(key: &'static str, priority: Priority) -> Self {
        Self {
            key: Some(key),
            ..Self::new(priority)
        }
    }
}

/// A model that refused to answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refusal {
    /// The model.
    pub model: String,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The provider's word for the kind of refusal.
    pub category: Option<String>,
    /// The provider's explanation.
    pub explanation: Option<String>,
    /// The prompt of the turn.
    pub prompt: Option<RecordId>,
}

impl Refusal {
    /// The message for the user.
    #[must_use]
    pub fn text(&self) -> String {
        let why = match (&self.explanation, &self.category) {
            (Some(explanation), _) => format!(": {explanation}"),
            (None, Some(category)) => format!(" ({category})"),
            (None, None) => String::new(),
        };
        format!(
            "{} refused to answer{why}. Say it in other words, or choose another model.",
            self.model
        )
    }
}

/// The facts about a session that a face gets at the start of every turn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionInit {
    /// The working folder.
    pub cwd: String,
    /// The tools that the model is offered.
    pub tools: Vec<String>,
    /// MCP servers and their state.
    pub mcp_servers: Vec<Value>,
    /// The model.
    pub model: String,
    /// The permission mode.
    #[serde(rename = "permissionMode")]
    pub permission_mode: PermissionMode,
    /// Slash commands.
    pub slash_commands: Vec<String>,
    /// Where the key comes from.
    #[serde(rename = "apiKeySource")]
    pub api_key_source: String,
    /// The output style.
    pub output_style: String,
    /// Agent types.
    pub agents: Vec<String>,
    /// Skills.
    pub skills: Vec<String>,
    /// Plugins.
    pub plugins: Vec<Value>,
    /// Plugins that should be there and aren't, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugin_errors: Vec<Value>,
    /// The tier of the sandbox that commands run in; absent if they run without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Beta features asked of the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub betas: Vec<String>,
}

/// A hook began, continues or ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HookNotice {
    /// It began.
    Started {
        /// Names this run.
        hook_id: String,
        /// The hook, as the user would recognise it.
        hook_name: String,
        /// The event.
        hook_event: String,
        /// The text shown while it runs: its `statusMessage`, else its command.
        display: String,
    },
    /// It printed something and continues.
    Progress {
        /// Names this run.
        hook_id: String,
        /// The hook.
        hook_name: String,
        /// The event.
        hook_event: String,
        /// Its standard output so far.
        stdout: String,
        /// Its standard error so far.
        stderr: String,
    },
    /// It ended.
    Finished {
        /// Names this run.
        hook_id: String,
        /// The hook.
        hook_name: String,
        /// The event.
        hook_event: String,
        /// Its standard output.
        stdout: String,
        /// Its standard error.
        stderr: String,
        /// Its exit code.
        exit_code: Option<i32>,
        /// `success`, `error` or `cancelled`.
        outcome: String,
    },
}

/// A background task changed.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskNotice {
    /// It began.
    Started {
        /// The task.
        task_id: TaskId,
        /// A short description.
        description: String,
        /// The call that began it.
        tool_use_id: Option<ToolUseId>,
        /// `local_bash`, `local_agent`.
        task_type: String,
        /// Whether the turn continues without it.
        is_backgrounded: bool,
        /// Further fields of the frame (`subagent_type`, `prompt`).
        extra: crate::Extra,
    },
    /// It continues.
    Progress {
        /// The task.
        task_id: TaskId,
        /// A short description.
        description: String,
        /// The call that began it.
        tool_use_id: Option<ToolUseId>,
        /// Usage so far.
        usage: TaskUsage,
        /// The tool it used last.
        last_tool_name: Option<String>,
    },
    /// It ended.
    Finished {
        /// The task.
        task_id: TaskId,
        /// The call that began it.
        tool_use_id: Option<ToolUseId>,
        /// How it ended.
        status: TaskStatus,
        /// Where its output is.
        output_file: String,
        /// The outcome, in one line.
        summary: String,
        /// Its usage.
        usage: Option<TaskUsage>,
    },
}

/// How a background task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// By itself, well.
    Completed,
    /// By itself, badly.
    Failed,
    /// It was stopped.
    Stopped,
}

/// Usage of a background task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskUsage {
    /// Tokens.
    pub total_tokens: u64,
    /// Tool calls.
    pub tool_uses: u64,
    /// Time.
    pub duration_ms: u64,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalReason {
    /// The model said what it wanted to say.
    Completed,
    /// The limit of model calls was reached.
    MaxTurns,
    /// The dollars or tokens allowed are spent.
    BudgetExhausted,
    /// The model API failed for good.
    ApiError,
    /// Interrupted while the model wrote.
    AbortedStreaming,
    /// Interrupted while tools ran.
    AbortedTools,
    /// A stop hook ended it.
    StopHookPrevented,
    /// A hook stopped the turn.
    HookStopped,
    /// A hook put a call off; the host will run it.
    ToolDeferred,
    /// No valid structured output came in the allowed tries.
    StructuredOutputRetryExhausted,
    /// The conversation doesn't fit, even after recovery.
    PromptTooLong,
    /// An image or document was refused, even after recovery.
    ImageError,
    /// There is no room and automatic compaction is off.
    BlockingLimit,
    /// The same call was repeated without end.
    RepeatedCalls,
    /// A fault of our own.
    InternalError,
}

/// The outcome of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    /// The session.
    pub session_id: SessionId,
    /// Why it ended.
    pub terminal_reason: TerminalReason,
    /// Whether the turn failed.
    pub is_error: bool,
    /// The last text of the model, or the API error in words.
    pub text: String,
    /// The errors, for endings without a text.
    pub errors: Vec<String>,
    /// The model's last stop reason.
    pub stop_reason: Option<String>,
    /// Model calls of this turn.
    pub num_turns: u32,
    /// Wall time.
    pub duration: Duration,
    /// Time spent waiting for the model API.
    pub duration_api: Duration,
    /// Tokens of this turn.
    pub usage: Usage,
    /// Dollars of the whole session so far.
    pub total_cost_usd: f64,
    /// The session's totals so far, per model.
    pub model_usage: IndexMap<String, ModelUsage>,
    /// Calls that were refused in this turn.
    pub permission_denials: Vec<PermissionDenial>,
    /// The HTTP status of a final API error.
    pub api_error_status: Option<u16>,
    /// The validated structured output.
    pub structured_output: Option<Value>,
    /// The call that a hook put off.
    pub deferred_tool_use: Option<Value>,
    /// Where the turn's prompt came from.
    pub origin: Option<Value>,
    /// How soon the model was asked and answered.
    pub times: TurnTimes,
}

/// How soon the first request of a turn was sent and answered, from the start of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnTimes {
    /// When it was sent.
    pub request: Option<Duration>,
    /// When the first event of the answer came.
    pub stream: Option<Duration>,
    /// When the first piece of its content came.
    pub content: Option<Duration>,
}

/// A model's totals, in the shape that hosts read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelUsage {
    /// Uncached input.
    pub input_tokens: u64,
    /// Output.
    pub output_tokens: u64,
    /// Input read from the cache.
    pub cache_read_input_tokens: u64,
    /// Input written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Web searches.
    pub web_search_requests: u64,
    /// Dollars; 0 where the model's price is unknown.
    #[serde(rename = "costUSD")]
    pub cost_usd: f64,
    /// Whether a price is missing: then the cost is not known, and the dollars are too few.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub price_unknown: bool,
    /// The model's window.
    pub context_window: u64,
    /// The model's output limit.
    pub max_output_tokens: u64,
}
