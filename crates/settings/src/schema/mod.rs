//! Every key of a settings file, declared once.
//!
//! The doc comments here are the descriptions in the JSON schema and in the tables of `docs/settings.md`; the types are what
//! validation holds a file to ([`crate::validate`]). Every key is optional, and keys that this version doesn't know are kept in `extra`.

mod fleet;
mod foreign;
mod hooks;
mod language;
mod models;
mod sandbox;
mod tables;
mod telemetry;
mod updates;
mod work;

pub use fleet::FleetSettings;
pub use foreign::{ForeignKey, foreign_key, foreign_keys};
pub use hooks::{HookDefinition, HookGroup, HookKind};
pub use language::{LanguageServerSettings, LanguageServerTransport, LspDiagnostics};
pub use models::{
    CacheSetting, CacheStyle, Effort, ModelSettings, PriceSettings, ProviderKind, ProviderModels,
    ProviderSettings, QuirkSettings, Thinking, ThinkingMode, key_variables,
};
pub use sandbox::{
    CredentialFile, SandboxCredentials, SandboxFilesystem, SandboxNetwork, SandboxSettings,
};
pub use tables::{
    ALIASES, ANY_TRUE, FINAL, INNER_ALIASES, MANAGED_ONLY, PERSONAL, READ_CLAUDE_HOME,
    REPLACED_LISTS, RESTRICTING, WORDS,
};
pub use telemetry::TelemetrySettings;
pub use updates::{AutoUpdates, UpdateChannel};
pub use work::{BaseRef, BudgetSettings, Notifications, OnTerminalClose, SessionMessages};
pub use work::{TeammateMode, WaitForLimits, WorktreeSettings};

use crate::environment::Variable;
use crate::paths::Environment;
use lathe_protocol::Extra;
use lathe_protocol::permission::PermissionMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The settings of Lathe.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The address of this file's JSON schema, for editors.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The model to talk to: an alias (`opus`, `sonnet`, `haiku`, `default`), a full name, or `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model or models to switch to, in order, when the chosen one is overloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<OneOrMany>,
    /// The model that answers in plan mode; unset is the chosen one. The alias `opusplan` plans with `opus` and works with `sonnet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_model: Option<String>,
    /// The model for small side tasks such as titles, summaries and prompt hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_model: Option<String>,
    /// The only models that may be chosen; unset allows every model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_models: Option<Vec<String>>,
    /// Facts about models that the built-in table lacks or has wrong, by model name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelSettings>,
    /// Prices that the built-in table lacks or has wrong, by model name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, PriceSettings>,
    /// Prices in the form of the ecosystem: `overrides` is read as `prices`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_pricing: Option<ModelPricing>,
    /// Names under which the provider knows models, by model name; read as `models.<model>.name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub model_overrides: BTreeMap<String, String>,
    /// How long the provider caches a request: `5m` (the default), `1h` or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<PromptCache>,
    /// Further services that serve models, by a name of your choice.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, ProviderSettings>,
    /// How hard the model works: `low`, `medium`, `high`, `xhigh` or `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether the model thinks before it answers: a boolean, `adaptive` or `disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Whether summaries of the model's thinking are requested and shown (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_thinking_summaries: Option<bool>,
    /// The most tokens that one thinking step may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_thinking_tokens: Option<u64>,
    /// A shell command that prints an API key; it runs again when the key is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_helper: Option<String>,
    /// A shell command that renews the sign-in at AWS, such as `aws sso login`; it runs when there are no AWS credentials or they
    /// are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_auth_refresh: Option<String>,
    /// A shell command that prints AWS credentials as JSON; they are used instead of the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_credential_export: Option<String>,
    /// The address of a table of models, for `lathe models update`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_table_url: Option<String>,
    /// Environment variables for the session and for every command that it runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
    /// Permission rules: what runs without a question, what asks and what is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<PermissionSettings>,
    /// Checks that run at lifecycle events, by event name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Vec<HookGroup>>,
    /// Switches off every hook (managed hooks stay on unless managed settings say so themselves).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_all_hooks: Option<bool>,
    /// Only hooks from managed settings run. Only effective in managed settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_hooks_only: Option<bool>,
    /// Only permission rules from managed settings apply. Only effective in managed settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_permission_rules_only: Option<bool>,
    /// Addresses that http hooks may call (`*` is a wildcard); unset allows every address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_http_hook_urls: Option<Vec<String>>,
    /// Variables whose values http hooks may put into headers (those of `allowedEnvVars` that are listed here); unset allows every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_hook_allowed_env_vars: Option<Vec<String>>,
    /// How commands are isolated from the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxSettings>,
    /// A command whose output is the status line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_line: Option<StatusLine>,
    /// A command that completes `@` file names; it gets `{"query": "..."}` and prints paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_suggestion: Option<CommandSetting>,
    /// Whether `@` completion leaves out what `.gitignore` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub respect_gitignore: Option<bool>,
    /// The output style, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_style: Option<String>,
    /// Whether commits and pull requests name Lathe as a co-author; `attribution` gives finer control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_co_authored_by: Option<bool>,
    /// The text in commits and pull requests about how they were made; an empty text hides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// Whether the prompt has the state of the repository and instructions for commits and pull requests
    /// (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_git_instructions: Option<bool>,
    /// Dollars that all sessions together may spend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSettings>,
    /// Whether the main conversation only directs workers (coordinator mode).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<bool>,
    /// Whether the scratch folder of coordinator mode stays with the session when it ends (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_scratch: Option<bool>,
    /// How members of a team run: as agents of the session (`in-process`, the default, and `auto`), each as a session in the background (`process`), or as such a session that a pane of tmux shows (`tmux`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teammate_mode: Option<TeammateMode>,
    /// How often a turn continues for a goal that isn't reached; 20 if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal_max_rounds: Option<u32>,
    /// Whether a turn waits for a rate or usage limit to end: `ask` (the default; without a terminal up to six hours),
    /// `always` or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_limits: Option<WaitForLimits>,
    /// How git worktrees of sessions and agents are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeSettings>,
    /// Which skills are offered, by name: `on`, `name-only` (without their description), `user-invocable-only`
    /// (not to the model) or `off`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub skill_overrides: BTreeMap<String, SkillOverride>,
    /// After how many days without use a session is deleted (default 30; 0 keeps none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup_period_days: Option<u32>,
    /// Whether every server of the project's `.mcp.json` is approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_all_project_mcp_servers: Option<bool>,
    /// Servers of the project's `.mcp.json` that are approved, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_mcpjson_servers: Option<Vec<String>>,
    /// Servers of the project's `.mcp.json` that are refused, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_mcpjson_servers: Option<Vec<String>>,
    /// MCP servers by name, in the format of `.mcp.json`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, Value>,
    /// The only MCP servers that may be used; unset allows every server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_mcp_servers: Option<Vec<McpServerMatch>>,
    /// MCP servers that may not be used, even if they are allowed elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied_mcp_servers: Option<Vec<McpServerMatch>>,
    /// Which plugins are on, as `name@marketplace`: `true` or `false`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub enabled_plugins: BTreeMap<String, Value>,
    /// Marketplaces to suggest to everyone who works in this folder, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_known_marketplaces: BTreeMap<String, Value>,
    /// The only marketplaces that may be used; unset allows every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_known_marketplaces: Option<Vec<Value>>,
    /// Marketplaces that may not be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_marketplaces: Option<Vec<Value>>,
    /// Values that users entered for plugins, by plugin.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plugin_configs: BTreeMap<String, Value>,
    /// Language servers by name, in the format of plugins.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lsp_servers: BTreeMap<String, LanguageServerSettings>,
    /// Which problems that language servers find after an edit are sent to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsp_diagnostics: Option<LspDiagnostics>,
    /// How the terminal works together with an editor that runs beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ide: Option<Ide>,
    /// The language in which the model answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The colour theme of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
    /// How the prompt is edited: `normal`, `emacs` or `vim`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub editor_mode: Option<EditorMode>,
    /// Whether the conversation is compacted automatically before it gets too long (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact: Option<bool>,
    /// How many tokens the conversation may fill before it is compacted, where the model's window is larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact_window: Option<u64>,
    /// Whether the model keeps notes about the project between sessions (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_memory: Option<bool>,
    /// How facts worth remembering are handled after a turn, in the terminal: `off`, `propose` (you decide; the
    /// default) or `keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_extraction: Option<MemoryExtraction>,
    /// Whether the model keeps running notes on the session, which replace older history when the context
    /// window is full (default false; `LATHE_SESSION_NOTES` overrides it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_notes: Option<bool>,
    /// Whether documents that begin with `# MAGIC DOC:` and were read in a session are kept current (default
    /// false; `LATHE_MAGIC_DOCS` overrides it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub magic_docs: Option<bool>,
    /// The most dollars that a run may cost, not counting what a resumed session spent before;
    /// `--max-budget-usd` overrides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_budget_usd: Option<f64>,
    /// The most tokens that a session may use, input and output together; `--max-session-tokens` overrides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_session_tokens: Option<u64>,
    /// Whether files are saved before they change, so that a turn can be undone (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_checkpointing_enabled: Option<bool>,
    /// How you are notified that something needs your attention: `auto`, `bell`, `desktop` or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Notifications>,
    /// Whether a session whose terminal is closed during a turn continues in the background: `keep` (default) or `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_terminal_close: Option<OnTerminalClose>,
    /// Whether messages of your other sessions are taken: `accept`, `refuse`, or `ask` the first time (default).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_messages: Option<SessionMessages>,
    /// Whether long output is shown in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
    /// The terminal asks whether to continue each time this many dollars have been spent (default 5; 0 never asks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_threshold_usd: Option<f64>,
    /// Whether hints are shown while waiting (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spinner_tips_enabled: Option<bool>,
    /// Whether the small model suggests the next prompt while the prompt is empty (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_suggestions: Option<bool>,
    /// Whether the small model summarises in one line what happened while the terminal was not focused
    /// (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub away_summary: Option<bool>,
    /// Whether the small model names terminal sessions after their first turn (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_titles: Option<bool>,
    /// Whether animations are disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefers_reduced_motion: Option<bool>,
    /// Whether the terminal shows in its tab or task bar that a turn runs, where it can (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_progress_bar_enabled: Option<bool>,
    /// Letters that leave vim's insert mode when they are typed one after the other: `{"jj": "<Esc>"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_insert_mode_remaps: BTreeMap<String, VimRemap>,
    /// Where plans are kept, relative to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plans_directory: Option<String>,
    /// The agent that the main conversation runs as, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Instruction files that are never loaded, as patterns over absolute paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_excludes: Option<Vec<String>>,
    /// Descriptions that guide the classifier of auto mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_mode: Option<AutoMode>,
    /// The same as `permissions.disableAutoMode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_auto_mode: Option<Disable>,
    /// How WebFetch reads pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_fetch: Option<WebFetch>,
    /// How WebSearch is served; without it, by the search of the model's provider where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_search: Option<WebSearch>,
    /// Messages from the company, shown at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_announcements: Option<Vec<String>>,
    /// Whether `~/.claude` is read as a second, weaker folder of your own: settings, instructions, rules,
    /// extensions and the MCP servers of `~/.claude.json` (default true). Ignored in the files of a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_claude_home: Option<bool>,
    /// Whether new versions are looked for, at most once a day, in the background of a terminal: `off`, `notify` (the
    /// default: the next start names it) or `on` (a native installation updates itself). Off on build servers (`CI`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_updates: Option<AutoUpdates>,
    /// The channel that updates come from: `stable` (the default) or `latest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_updates_channel: Option<UpdateChannel>,
    /// The address that releases are fetched from, such as a mirror. They must be signed with the key in the program.
    /// Ignored in the files of a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_url: Option<String>,
    /// Metrics, events and traces for your own OpenTelemetry collector; nothing is sent unless it is switched on. Ignored
    /// in the files of a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetrySettings>,
    /// The queue of `lathe fleet`. Ignored in the files of a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetSettings>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One text or a list of texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// A single one.
    One(String),
    /// Several, in order.
    Many(Vec<String>),
}

impl OneOrMany {
    /// The texts in order, without empty ones.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        let all = match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        };
        all.iter()
            .filter(|text| !text.trim().is_empty())
            .cloned()
            .collect()
    }
}

/// The value of an environment variable; numbers and booleans are taken as their text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EnvValue {
    /// A text.
    Text(String),
    /// A boolean, as `true` or `false`.
    Boolean(bool),
    /// A number.
    Number(serde_json::Number),
}

impl EnvValue {
    /// The value as a process sees it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Boolean(value) => value.to_string(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// Permission rules.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PermissionSettings {
    /// Rules for what passes, such as `Bash(npm run test:*)` or `Read(~/notes/**)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Rules for what always asks; takes precedence over `allow`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// Rules for what is refused; takes precedence over everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// The permission mode to start in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<PermissionMode>,
    /// Further folders that may be worked in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<String>,
    /// `disable` disables the mode `bypassPermissions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_bypass_permissions_mode: Option<Disable>,
    /// `disable` disables the mode `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_auto_mode: Option<Disable>,
    /// File tools read nothing outside the working directories, in every mode and under any rule; a shell
    /// command that names a path outside is always asked about. `true` in any source applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_reads_outside_working_directories: Option<bool>,
    /// File tools write nothing outside the working directories and no settings files, in every mode and whatever
    /// rules allow. Shell commands are not limited by it. `true` in any source applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_writes_outside_working_directories: Option<bool>,
    /// A call that needs confirmation is refused at once, and the turn continues; hooks and the classifier of
    /// auto mode decide before. `true` in any source applies; ignored in the files of a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_instead_of_prompting: Option<bool>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The word that switches something off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Disable {
    /// Off.
    Disable,
}

/// The command that makes the status line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusLine {
    /// Always `command`.
    #[serde(rename = "type", default = "command_word")]
    pub kind: CommandWord,
    /// The shell command; it gets the session as JSON on stdin.
    pub command: String,
    /// Blank columns at both ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<u16>,
    /// How often it runs while nothing happens, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_interval: Option<f64>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A command that answers something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandSetting {
    /// Always `command`.
    #[serde(rename = "type", default = "command_word")]
    pub kind: CommandWord,
    /// The shell command.
    pub command: String,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The word `command`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandWord {
    /// A shell command.
    Command,
}

fn command_word() -> CommandWord {
    CommandWord::Command
}

/// The text in commits and pull requests about how they were made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Attribution {
    /// The lines at the end of a commit message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The lines at the end of a pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pr: Option<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How long the provider keeps what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PromptCache {
    /// Five minutes.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// An hour; writing costs more.
    #[serde(rename = "1h")]
    OneHour,
    /// Not at all.
    #[serde(rename = "off")]
    Off,
}

/// Prices in the form of the ecosystem.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelPricing {
    /// Prices by model name, as in `prices`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, PriceSettings>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How a skill is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SkillOverride {
    /// As it is.
    On,
    /// To the model without its description.
    NameOnly,
    /// To the user only.
    UserInvocableOnly,
    /// To nobody.
    Off,
}

/// How facts worth remembering are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MemoryExtraction {
    /// Nothing is looked for.
    Off,
    /// The user decides.
    Propose,
    /// It is kept at once.
    Keep,
}

/// Names MCP servers, by one of these.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct McpServerMatch {
    /// By name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub server_name: Option<String>,
    /// By the exact command with its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub server_command: Option<Vec<String>>,
    /// By address, with `*` as a wildcard.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub server_url: Option<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How the prompt is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EditorMode {
    /// The usual keys.
    Normal,
    /// Emacs keys.
    Emacs,
    /// Modal editing.
    Vim,
}

/// The meaning of letters in vim's insert mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VimRemap {
    /// Leave insert mode.
    #[serde(rename = "<Esc>", alias = "<esc>")]
    Escape,
}

/// Descriptions for the classifier of auto mode.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoMode {
    /// Actions that are fine, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Actions that are refused unless your own words ask for exactly them, in words; also `soft_deny`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub soft_deny: Vec<String>,
    /// Actions that are always refused, described in prose; also `hard_deny`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hard_deny: Vec<String>,
    /// Whether the classifier judges every shell command: allow rules for Bash are suspended in auto mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classify_all_shell: Option<bool>,
    /// Facts about the environment for the classifier.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A search service with a format of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SearchProvider {
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// Google's Programmable Search Engine.
    GoogleCse,
    /// Kagi.
    Kagi,
}

/// The editor beside the terminal.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Ide {
    /// Whether a session in the terminal connects to the editor that started it, or to the only one that has its
    /// folder open (default true). `/ide` connects to any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_connect: Option<bool>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How pages are fetched.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebFetch {
    /// Whether a small model reads the page and only its answer is kept: for long pages (`auto`, the default),
    /// `always` or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract: Option<Extract>,
    /// Whether well-known documentation is fetched without a question (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documentation_hosts: Option<bool>,
    /// Hosts that may be fetched over unencrypted http.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plain_http: Vec<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// When a small model reads a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Extract {
    /// When the page is long.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: the page itself is given.
    Never,
}

/// A search service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebSearch {
    /// A service: `brave`, `tavily`, `exa`, `google-cse` or `kagi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<SearchProvider>,
    /// The variable that holds the service's key. Commands don't see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The search engine's id, for `google-cse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_id: Option<String>,
    /// An address that takes `?q=` and answers JSON as SearXNG does; with `provider`, where that service is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers for it; `${NAME}` is filled in from the environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// An MCP tool that searches, as `mcp__server__tool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl WebSearch {
    /// Whether anything is named that searches.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.url.is_some() || self.provider.is_some() || self.tool.is_some()
    }
}

/// Takes over the environment variables that are stronger than settings.
pub fn apply_variables(settings: &mut Settings, environment: &Environment) {
    if environment.is_on(Variable::DisableAutoMemory) {
        settings.auto_memory = Some(false);
    }
    if environment.is_on(Variable::DisableGitInstructions) {
        settings.include_git_instructions = Some(false);
    }
    if let Some(tokens) = environment.number(Variable::AutoCompactWindow) {
        settings.auto_compact_window = Some(tokens);
    }
    if let Some(effort) = environment.get(Variable::Effort) {
        settings.effort = Effort::named(effort);
    }
    if environment.is_on(Variable::DisablePromptCaching) {
        settings.prompt_cache = Some(PromptCache::Off);
    }
    match environment.get(Variable::PromptCache) {
        Some("1h") => settings.prompt_cache = Some(PromptCache::OneHour),
        Some("5m") => settings.prompt_cache = Some(PromptCache::FiveMinutes),
        Some("off") => settings.prompt_cache = Some(PromptCache::Off),
        _ => {}
    }
}

impl Settings {
    /// The settings that a merged value holds, unless a part of it can't be understood.
    /// Reading this many keys is a lot of code, and it is compiled for each way in; this is the one.
    #[must_use]
    pub fn from_merged(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }
}

/// The JSON schema of a settings file, with the aliases of [`ALIASES`].
#[must_use]
pub fn json_schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema = schemars::generate::SchemaSettings::draft2020_12()
            .into_generator()
            .into_root_schema_for::<Settings>()
            .to_value();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            for (alias, key) in ALIASES {
                let Some(mut property) = properties.get(*key).cloned() else {
                    continue;
                };
                if let Some(property) = property.as_object_mut() {
                    property.insert("description".into(), format!("The same as `{key}`.").into());
                }
                properties.insert((*alias).to_owned(), property);
            }
        }
        schema
    })
}
