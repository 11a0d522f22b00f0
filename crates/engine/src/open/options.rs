//! What a caller chooses about a session, and why one can't be opened.

use crate::conversation::questions::Answerer;
use lathe_model::{ModelError, Thinking};
use lathe_permissions::ModeRefused;
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::permission::PermissionMode;
use lathe_session::SessionError;
use lathe_settings::{LoadOptions, Resolved, Source};
use lathe_tools::{DynTool, Erased, Tool};
use std::path::PathBuf;
use std::sync::Arc;

/// What the caller chose.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Further roots.
    pub add_dirs: Vec<PathBuf>,
    /// The model, or its short name.
    pub model: Option<String>,
    /// The model that takes over when the first is overloaded.
    pub fallback_model: Option<String>,
    /// Replaces the system prompt; empty means none.
    pub system_prompt: Option<String>,
    /// Added to the system prompt.
    pub append_system_prompt: Option<String>,
    /// Keep the system prompt of the first request with the session and send it as it is ever after, also when
    /// the session is resumed, until a compaction.
    pub keep_system_prompt: bool,
    /// Tell what varies of the system prompt in the conversation instead.
    pub varying_apart: bool,
    /// Names under which the model may call tools: what it says → the tool that is meant.
    pub tool_aliases: std::collections::BTreeMap<String, String>,
    /// The built-in tools to offer; `None` is all of them.
    pub tools: Option<Vec<String>>,
    /// Tools of the embedding program, beside the built-in ones.
    pub custom_tools: CustomTools,
    /// Rules of the command line that allow.
    pub allowed_tools: Vec<String>,
    /// Rules of the command line that deny.
    pub disallowed_tools: Vec<String>,
    /// Folders with plugins, for this session only (`--plugin-dir`).
    pub plugin_folders: Vec<PathBuf>,
    /// Those of them whose MCP servers the host connects itself (`--plugin-dir-no-mcp`).
    pub plugins_without_servers: Vec<PathBuf>,
    /// MCP servers.
    pub mcp: crate::mcp::McpOptions,
    /// The permission mode; `None` leaves it to settings.
    pub permission_mode: Option<PermissionMode>,
    /// Whether bypassPermissions may be entered later.
    pub allow_bypass: bool,
    /// Who answers permission questions.
    pub answerer: Answerer,
    /// Model calls of one turn.
    pub max_turns: Option<u32>,
    /// Dollars of this run: what a resumed session spent before doesn't count.
    pub max_budget_usd: Option<f64>,
    /// Tokens of the session, input and output together.
    pub max_session_tokens: Option<u64>,
    /// How the model may reason, by name; `None` leaves it to the rest.
    pub thinking: Option<Thinking>,
    /// Tokens that the model may think; `Some(0)` switches thinking off.
    pub max_thinking_tokens: Option<u32>,
    /// Beta features to ask for.
    pub betas: Vec<String>,
    /// Which conversation.
    pub session: SessionChoice,
    /// Let hooks prepare the workspace before the session starts.
    pub setup: Option<Setup>,
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
    /// The values of `--settings`.
    pub settings_flags: Vec<String>,
    /// The value of `--setting-sources`.
    pub setting_sources: Option<Vec<Source>>,
    /// The values of `--managed-settings`.
    pub managed_settings: Vec<String>,
    /// Settings that the face has just loaded, so that they are not loaded again.
    pub loaded_settings: Option<Arc<LoadedSettings>>,
    /// The folder whose settings count as the project's; `None` is found from the working folder.
    pub project_root: Option<PathBuf>,
    /// The shape that the answer must have.
    pub json_schema: Option<serde_json::Value>,
    /// How hard the model should try (`low` … `max`); `None` leaves it to the API.
    pub effort: Option<String>,
    /// Tokens that the API lets one task use.
    pub task_budget: Option<u64>,
    /// Told of every batch of records that reached the transcript.
    pub observer: Option<TranscriptObserver>,
    /// What it takes over from the session that it follows.
    pub carried: Option<crate::session::Carried>,
    /// The agent that the main conversation runs as.
    pub agent: Option<String>,
    /// Agents by name, as `--agents` and SDK hosts give them, weakest first.
    pub agents: Vec<serde_json::Value>,
    /// The only skills that count; `None` is all.
    pub skills: Option<Vec<String>>,
    /// What a host says about how to plan, instead of our own words.
    pub plan_mode_instructions: Option<String>,
    /// What enabled plugins bring.
    pub plugins: Vec<lathe_extensions::PluginContribution>,
    /// Whether a person sits there: then work beside the turns is on unless settings say otherwise, and
    /// leaving never waits for it.
    pub interactive: bool,
}

/// Told of every batch of records that reached the transcript.
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

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            add_dirs: Vec::new(),
            model: None,
            fallback_model: None,
            system_prompt: None,
            append_system_prompt: None,
            keep_system_prompt: false,
            varying_apart: false,
            tool_aliases: std::collections::BTreeMap::new(),
            tools: None,
            custom_tools: CustomTools::default(),
            allowed_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            plugin_folders: Vec::new(),
            plugins_without_servers: Vec::new(),
            mcp: crate::mcp::McpOptions::default(),
            permission_mode: None,
            allow_bypass: false,
            answerer: Answerer::Nobody,
            max_turns: None,
            max_budget_usd: None,
            max_session_tokens: None,
            thinking: None,
            max_thinking_tokens: None,
            betas: Vec::new(),
            session: SessionChoice::New,
            setup: None,
            fork: false,
            session_id: None,
            resume_at: None,
            resume_drops_turn: None,
            persist: true,
            settings_flags: Vec::new(),
            setting_sources: None,
            managed_settings: Vec::new(),
            loaded_settings: None,
            project_root: None,
            json_schema: None,
            effort: None,
            task_budget: None,
            observer: None,
            carried: None,
            agent: None,
            agents: Vec::new(),
            skills: None,
            plan_mode_instructions: None,
            plugins: Vec::new(),
            interactive: false,
        }
    }
}

/// Why a workspace is prepared: what `Setup` hooks are told.
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
        "no key for the model API was found.\n  Set one:        export ANTHROPIC_API_KEY=…   (or apiKeyHelper in settings.json)\n  A local model:  export ANTHROPIC_BASE_URL=http://localhost:8080 ANTHROPIC_AUTH_TOKEN=local\n  Without a key:  lathe demo"
    )]
    NoCredentials,
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
