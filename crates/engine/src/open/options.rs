//! The choices of a caller about a session, and why one can't be opened.

use crate::conversation::questions::Answerer;
use lathe_model::{ModelError, Thinking};
use lathe_permissions::ModeRefused;
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::permission::PermissionMode;
use lathe_session::SessionError;
use lathe_settings::{LoadOptions, Resolved, Source};
use lathe_tools::editor::Editor;
use lathe_tools::{DynTool, Erased, Tool};
use std::path::PathBuf;
use std::sync::Arc;

/// The choices of the caller. Everything has a default, so callers set what they need:
///
/// ```
/// # use lathe_engine::{PermissionOptions, SessionOptions};
/// # use lathe_protocol::permission::PermissionMode;
/// let options = SessionOptions {
///     permissions: PermissionOptions {
///         mode: Some(PermissionMode::AcceptEdits),
///         ..PermissionOptions::default()
///     },
///     ..SessionOptions::default()
/// };
/// ```
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// The model and how it reasons.
    pub model: ModelOptions,
    /// The system prompt.
    pub prompt: PromptOptions,
    /// The tools, and the shape of the answer.
    pub tools: ToolOptions,
    /// Permissions without a question, and who answers questions.
    pub permissions: PermissionOptions,
    /// Limits of turns and money.
    pub limits: LimitOptions,
    /// Which conversation, and where it is kept.
    pub history: HistoryOptions,
    /// Where settings come from.
    pub settings: SettingsOptions,
    /// Agents, skills and plugins.
    pub extensions: ExtensionOptions,
    /// Scheduled prompts.
    pub schedule: crate::open::schedule::ScheduleOptions,
    /// MCP servers.
    pub mcp: crate::mcp::McpOptions,
    /// The name of the worktree that the session works in; `None` is the folder itself.
    pub worktree: Option<String>,
    /// Where agents of workflows can run that are not to run in this process.
    pub elsewhere: Option<crate::workflow::Elsewhere>,
    /// The session's part in teams.
    pub team: TeamOptions,
    /// Who sees the events besides the face.
    pub observe: crate::session::observe::ObserveOptions,
    /// Whether the user sits there: then work beside the turns is on unless settings say otherwise, and
    /// leaving never waits for it.
    pub interactive: bool,
}

/// The session's part in teams.
#[derive(Debug, Clone, Default)]
pub struct TeamOptions {
    /// The program that members run which are processes of their own; `None` starts no such members.
    pub program: Option<PathBuf>,
    /// The member that the session is.
    pub member: Option<Arc<crate::agents::MemberSeat>>,
}

/// The model and how it reasons.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// The model, or its short name.
    pub name: Option<String>,
    /// The models that take over, in this order, when the one before does not answer; none leaves it to settings.
    pub fallbacks: Vec<String>,
    /// How hard the model should try (`low` … `max`); `None` leaves it to the API.
    pub effort: Option<String>,
    /// How the model may reason, by name; `None` leaves it to the rest.
    pub thinking: Option<Thinking>,
    /// How much of the reasoning is shown; `None` leaves it to settings.
    pub thinking_display: Option<lathe_model::ThinkingDisplay>,
    /// Tokens that the model may think; `Some(0)` switches thinking off.
    pub max_thinking_tokens: Option<u32>,
    /// Beta features to ask for.
    pub betas: Vec<String>,
    /// Tokens that the API lets one task use.
    pub task_budget: Option<u64>,
}

/// The system prompt.
#[derive(Debug, Clone, Default)]
pub struct PromptOptions {
    /// Replaces the system prompt; empty means none.
    pub system: Option<String>,
    /// Added to the system prompt.
    pub append: Option<String>,
    /// Keep the system prompt of the first request with the session and send it as it is ever after, also when
    /// the session is resumed, until a compaction.
    pub keep: bool,
    /// Put the parts of the system prompt that vary into the conversation instead.
    pub varying_apart: bool,
    /// A host's instructions for planning, instead of the built-in ones.
    pub plan_mode_instructions: Option<String>,
}

/// The tools, and the shape of the answer.
#[derive(Debug, Clone, Default)]
pub struct ToolOptions {
    /// The built-in tools to offer; `None` is all of them.
    pub only: Option<Vec<String>>,
    /// Tools of the embedding program, beside the built-in ones.
    pub custom: CustomTools,
    /// Other names for tools: the name that the model uses → the tool.
    pub aliases: std::collections::BTreeMap<String, String>,
    /// The JSON Schema that the answer must fit.
    pub output_schema: Option<serde_json::Value>,
    /// The editor that runs the session, for tools that use its buffers and terminals.
    pub editor: Option<LentEditor>,
}

/// An editor that lends its buffers and terminals to the tools.
#[derive(Clone)]
pub struct LentEditor(pub Arc<dyn Editor>);

impl std::fmt::Debug for LentEditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LentEditor").field(&self.0.lends()).finish()
    }
}

/// Permissions without a question, and who answers questions.
#[derive(Debug, Clone, Default)]
pub struct PermissionOptions {
    /// The permission mode; `None` leaves it to settings.
    pub mode: Option<PermissionMode>,
    /// Whether bypassPermissions may be entered later.
    pub allow_bypass: bool,
    /// Rules of the command line that allow.
    pub allow: Vec<String>,
    /// Rules of the command line that deny.
    pub deny: Vec<String>,
    /// Further working folders.
    pub folders: Vec<PathBuf>,
    /// Who answers permission questions.
    pub answerer: Answerer,
    /// Whether the sandbox is off, whatever settings say.
    pub no_sandbox: bool,
}

/// Limits of turns and money, and what turns go on for.
#[derive(Debug, Clone, Default)]
pub struct LimitOptions {
    /// Model calls of one turn.
    pub max_turns: Option<u32>,
    /// Dollars of this run, without those that a resumed session spent before.
    pub max_budget_usd: Option<f64>,
    /// Tokens of the session, input and output together.
    pub max_session_tokens: Option<u64>,
    /// Output tokens that each turn is to use.
    pub token_budget: Option<u64>,
    /// The condition that turns go on for, or a command after `!`.
    pub goal: Option<String>,
}

/// Which conversation, and where it is kept.
#[derive(Debug, Clone)]
pub struct HistoryOptions {
    /// The title of the session.
    pub title: Option<String>,
    /// Which conversation.
    pub session: SessionChoice,
    /// Copy the history under a new id.
    pub fork: bool,
    /// The id of a new session or fork.
    pub session_id: Option<SessionId>,
    /// Take the history only up to this record.
    pub resume_at: Option<RecordId>,
    /// Refuse unless everything that `resume_at` drops belongs to this prompt's turn.
    pub resume_drops_turn: Option<RecordId>,
    /// Whether a transcript is written.
    pub persist: bool,
    /// Called with every batch of records that reached the transcript.
    pub observer: Option<TranscriptObserver>,
    /// State taken over from the session that this one follows.
    pub carried: Option<crate::session::Carried>,
    /// Let hooks prepare the workspace before the session starts.
    pub setup: Option<Setup>,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self {
            title: None,
            session: SessionChoice::New,
            fork: false,
            session_id: None,
            resume_at: None,
            resume_drops_turn: None,
            persist: true,
            observer: None,
            carried: None,
            setup: None,
        }
    }
}

impl HistoryOptions {
    /// A new conversation without a transcript.
    #[must_use]
    pub fn ephemeral() -> Self {
        Self {
            persist: false,
            ..Self::default()
        }
    }
}

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct SettingsOptions {
    /// Treat the folder as untrusted.
    pub restricted: bool,
    /// The values of `--settings`.
    pub flags: Vec<String>,
    /// The value of `--setting-sources`.
    pub sources: Option<Vec<Source>>,
    /// The values of `--managed-settings`.
    pub managed: Vec<String>,
    /// Settings that the face has just loaded, so that they are not loaded again.
    pub loaded: Option<Arc<LoadedSettings>>,
    /// The folder of the project's settings; `None` is found from the working folder.
    pub project_root: Option<PathBuf>,
}

/// Agents, skills and plugins.
#[derive(Debug, Clone, Default)]
pub struct ExtensionOptions {
    /// Load nothing of files: agents, skills, commands, output styles.
    pub without_files: bool,
    /// Offer no skills and no custom commands.
    pub without_skills: bool,
    /// The agent that the main conversation runs as.
    pub agent: Option<String>,
    /// Whether the main conversation only directs workers.
    pub coordinator: bool,
    /// Agents by name, as `--agents` and SDK hosts give them, weakest first.
    pub agents: Vec<serde_json::Value>,
    /// The only skills to load; `None` is all.
    pub skills: Option<Vec<String>>,
    /// Folders with plugins, for this session only (`--plugin-dir`).
    pub plugin_folders: Vec<PathBuf>,
    /// Those of them whose MCP servers the host connects itself (`--plugin-dir-no-mcp`).
    pub plugins_without_servers: Vec<PathBuf>,
    /// Contributions of enabled plugins.
    pub plugins: Vec<lathe_extensions::PluginContribution>,
}

/// Called with every batch of records that reached the transcript.
#[derive(Clone)]
pub struct TranscriptObserver(pub lathe_session::writer::Observer);

impl std::fmt::Debug for TranscriptObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TranscriptObserver")
    }
}

/// Tools of the embedding program.
#[derive(Clone, Default)]
pub struct CustomTools(Vec<Arc<dyn DynTool>>);

impl CustomTools {
    /// Adds a tool. A built-in tool of the same name takes precedence.
    #[must_use]
    pub fn with<T: Tool>(mut self, tool: T) -> Self {
        self.0.push(Arc::new(Erased::new(tool)));
        self
    }

    /// The tools.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn DynTool>> {
        self.0.iter()
    }
}

impl std::fmt::Debug for CustomTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.0.iter().map(|tool| tool.name());
        f.debug_list().entries(names).finish()
    }
}

/// Settings that a face loaded before the session is opened. They are used if the session would load them the
/// same way.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedSettings {
    /// The project they belong to.
    pub project: PathBuf,
    /// How they were loaded.
    pub options: LoadOptions,
    /// All sources together.
    pub resolved: Resolved,
}

/// Why a workspace is prepared; `Setup` hooks get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    /// It is new here.
    Init,
    /// It is looked after.
    Maintenance,
}

impl Setup {
    /// The word for hooks.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Maintenance => "maintenance",
        }
    }
}

/// Which conversation to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one.
    New,
    /// The newest of this folder; a new one if there is none.
    Continue,
    /// The one with this id, title or file.
    Resume(String),
}

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The caller's choice is wrong.
    #[error("{0}")]
    Usage(String),
    /// There is no key.
    #[error(
        "no key for a model was found.\n  Set one:        export ANTHROPIC_API_KEY=…, or `lathe login <provider>` (openai, gemini, openrouter, …)\n  A local model:  lathe --model ollama/<name> (`lathe models` lists them), or a server named in ANTHROPIC_BASE_URL\n  Without a key:  lathe demo"
    )]
    NoCredentials,
    /// Settings need a sandbox, and there is none.
    #[error(
        "settings require a sandbox (sandbox.enabled with sandbox.failIfUnavailable), and none is available: {reasons}; install bubblewrap, or run Lathe elsewhere"
    )]
    NoSandbox {
        /// Why not.
        reasons: String,
    },
    /// The session's files.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The provider.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The mode may not be entered.
    #[error(transparent)]
    Mode(#[from] ModeRefused),
}
