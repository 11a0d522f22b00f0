//! Every key of a settings file, declared once.
//!
//! The doc comments here are the descriptions in the JSON schema and in the tables of
//! `docs/settings.md`; the types are what validation holds a file to ([`crate::validate`]). Every
//! key is optional, and keys that this version doesn't know are kept in `extra`.

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
    /// The model to talk to: an alias (`opus`, `sonnet`, `haiku`, `default`) or a full name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model or models to switch to, in order, when the chosen one is overloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<OneOrMany>,
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
    /// Further services that serve models, by a name of your choice.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, ProviderSettings>,
    /// How hard the model works: `low`, `medium`, `high`, `xhigh` or `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether the model thinks before it answers: a boolean, `adaptive` or `disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// The most tokens that one thinking step may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_thinking_tokens: Option<u64>,
    /// A shell command that prints an API key; it runs again when the key is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_helper: Option<String>,
    /// Environment variables for the session and for every command that it runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
    /// What may run without a question, what asks and what is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<PermissionSettings>,
    /// Checks that run at lifecycle events, by event name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Vec<HookGroup>>,
    /// Switches off every hook (managed hooks stay on unless managed settings say so themselves).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_all_hooks: Option<bool>,
    /// Only hooks from managed settings run. Counts only in managed settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_hooks_only: Option<bool>,
    /// Only permission rules from managed settings count. Counts only in managed settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_permission_rules_only: Option<bool>,
    /// Addresses that http hooks may call (`*` is a wildcard); unset allows every address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_http_hook_urls: Option<Vec<String>>,
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
    /// Whether commits and pull requests name Lathe as a co-author; `attribution` says it finer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_co_authored_by: Option<bool>,
    /// What commits and pull requests say about how they were made; an empty text hides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// After how many days without use a session is deleted (default 30; 0 keeps none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup_period_days: Option<u32>,
    /// Whether every server of the project's `.mcp.json` counts as approved.
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
    /// MCP servers that may not be used; beats every allowance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied_mcp_servers: Option<Vec<McpServerMatch>>,
    /// Which plugins are on, as `name@marketplace`: `true` or `false`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub enabled_plugins: BTreeMap<String, Value>,
    /// Marketplaces that the folder's people should know, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_known_marketplaces: BTreeMap<String, Value>,
    /// The only marketplaces that may be used; unset allows every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_known_marketplaces: Option<Vec<Value>>,
    /// Marketplaces that may not be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_marketplaces: Option<Vec<Value>>,
    /// What users filled in for plugins, by plugin.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plugin_configs: BTreeMap<String, Value>,
    /// Language servers by name, in the format of plugins.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lsp_servers: BTreeMap<String, Value>,
    /// The language in which the model answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// The colour theme of the terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
    /// How the prompt is edited: `normal`, `emacs` or `vim`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub editor_mode: Option<EditorMode>,
    /// Whether the conversation is compacted by itself before it gets too long (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact: Option<bool>,
    /// Whether the model keeps notes about the project between sessions (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_memory: Option<bool>,
    /// Whether files are saved before they change, so that a turn can be undone (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_checkpointing_enabled: Option<bool>,
    /// Where usage numbers are sent, if anywhere. Nothing is sent unless this is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// How the person is told that something waits: `auto`, `bell`, `desktop` or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Notifications>,
    /// Whether long output is shown whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
    /// Whether hints are shown while waiting (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spinner_tips_enabled: Option<bool>,
    /// Whether animations are kept still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefers_reduced_motion: Option<bool>,
    /// Where plans are kept, relative to the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plans_directory: Option<String>,
    /// The agent as which the main conversation runs, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Instruction files that are never loaded, as patterns over absolute paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instruction_excludes: Option<Vec<String>>,
    /// Descriptions that guide the classifier of auto mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_mode: Option<AutoMode>,
    /// How WebSearch is served where the model's provider has no search of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_search: Option<WebSearch>,
    /// Messages from the company, shown at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_announcements: Option<Vec<String>>,
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

/// How hard the model works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Quick answers.
    Low,
    /// Balanced.
    Medium,
    /// Thorough.
    High,
    /// More thorough.
    Xhigh,
    /// As much as the model can.
    Max,
}

impl Effort {
    /// The level's name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// Whether the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Thinking {
    /// On or off.
    Switch(bool),
    /// By a word.
    Mode(ThinkingMode),
}

/// How the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingMode {
    /// The model decides how much.
    Adaptive,
    /// Not at all.
    Disabled,
}

/// Facts about a model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelSettings {
    /// The provider that serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The name under which that provider knows it, when it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many tokens a conversation may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// How many tokens an answer may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Whether it takes images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Whether it can think.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// What a model costs, in US dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PriceSettings {
    /// Input tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<f64>,
    /// Output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
    /// Input tokens that are written to the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Input tokens that are read from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A service that serves models.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSettings {
    /// Which protocol it speaks: `anthropic`, `openai` (Responses) or `openai-chat`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ProviderKind>,
    /// The address under which its API lies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable that holds its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// A shell command that prints its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_helper: Option<String>,
    /// Headers that go with every request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The models that it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Openai,
    /// OpenAI Chat Completions and what imitates it.
    OpenaiChat,
}

/// What may run without a question.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PermissionSettings {
    /// Rules for what passes, such as `Bash(npm run test:*)` or `Read(~/notes/**)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Rules for what always asks; beats `allow`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// Rules for what is refused; beats everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// The permission mode to start in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<PermissionMode>,
    /// Further folders that may be worked in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<String>,
    /// `disable` takes the mode `bypassPermissions` away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_bypass_permissions_mode: Option<Disable>,
    /// `disable` takes the mode `auto` away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_auto_mode: Option<Disable>,
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

/// The hooks that run when a matcher matches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HookGroup {
    /// Which tools (or sources, triggers, types) the hooks are for: empty or `*` for all, a name or
    /// `A|B` for exactly those, anything else is a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub matcher: Option<String>,
    /// The hooks.
    pub hooks: Vec<HookDefinition>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookDefinition {
    /// What kind of hook it is: `command`, `http`, `prompt`, `agent`, `mcp_tool` or `callback`.
    #[serde(rename = "type")]
    pub kind: HookKind,
    /// command: what the shell runs, or the program when `args` is given. It gets JSON on stdin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub command: Option<String>,
    /// command: runs `command` without a shell, with these arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub args: Option<Vec<String>>,
    /// command: the shell to use; `bash` where it is installed, else `sh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// http: the address that gets the JSON by POST.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub url: Option<String>,
    /// http: headers; `$NAME` and `${NAME}` are filled in for the variables of `allowedEnvVars`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// http: the environment variables that headers may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_env_vars: Option<Vec<String>>,
    /// prompt, agent: what is asked; `$ARGUMENTS` stands for the JSON input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub prompt: Option<String>,
    /// prompt, agent: the model that answers (default: the small model).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// callback: the host's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_id: Option<String>,
    /// mcp_tool: the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub server: Option<String>,
    /// mcp_tool: the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub tool: Option<String>,
    /// mcp_tool: the tool's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// A permission rule such as `Bash(git *)`: the hook runs only for calls that match it.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-narrows" = true))]
    pub condition: Option<String>,
    /// After how many seconds it is stopped (default 60).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Whether it runs in the background, its answer going into a later turn.
    #[serde(default, rename = "async", skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// Whether a background hook that blocks wakes the model instead of waiting for the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub async_rewake: Option<bool>,
    /// Whether it runs only once a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<bool>,
    /// What is shown while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// `block` turns a failure or time-out of the hook into a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The kind of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// A shell command.
    Command,
    /// A POST to an address.
    Http,
    /// A question to a model.
    Prompt,
    /// A sub-agent with read tools.
    Agent,
    /// A tool of an MCP server.
    McpTool,
    /// A function of the SDK host.
    Callback,
}

/// What the failure of a hook means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It blocks.
    Block,
    /// It is reported and nothing else.
    #[serde(alias = "allow", alias = "continue")]
    Ignore,
}

/// How commands are isolated.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxSettings {
    /// Whether shell commands run in the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether it is an error when no sandbox can be had here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_if_unavailable: Option<bool>,
    /// Whether a sandboxed command runs without a question (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_allow_bash_if_sandboxed: Option<bool>,
    /// Commands that always run outside the sandbox.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub excluded_commands: Vec<String>,
    /// Whether the model may ask to run a command outside the sandbox (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unsandboxed_commands: Option<bool>,
    /// What of the file system is reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<SandboxFilesystem>,
    /// What of the network is reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<SandboxNetwork>,
    /// Patterns of environment variables that commands don't see, beside the built-in ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scrub_environment: Vec<String>,
    /// Whether a weaker sandbox is fine inside a container that has no namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_weaker_nested_sandbox: Option<bool>,
    /// Violations that are not reported, by command.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ignore_violations: BTreeMap<String, Vec<String>>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// What of the file system a sandboxed command reaches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxFilesystem {
    /// Further paths that may be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_write: Vec<String>,
    /// Paths that may not be written, even inside writable ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_write: Vec<String>,
    /// Paths that may not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_read: Vec<String>,
    /// Paths that may be read inside unreadable ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_read: Vec<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// What of the network a sandboxed command reaches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SandboxNetwork {
    /// Hosts that may be reached; `*.example.com` covers sub-domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    /// Hosts that may not be reached; beats `allowedDomains`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_domains: Vec<String>,
    /// Unix sockets that may be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_unix_sockets: Vec<String>,
    /// Whether every unix socket may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_all_unix_sockets: Option<bool>,
    /// Whether commands may listen on local ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_local_binding: Option<bool>,
    /// Only hosts from managed settings count. Counts only in managed settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_managed_domains_only: Option<bool>,
    /// The port of an HTTP proxy of your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_proxy_port: Option<u16>,
    /// The port of a SOCKS proxy of your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socks_proxy_port: Option<u16>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The command that makes the status line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusLine {
    /// Always `command`.
    #[serde(rename = "type", default = "command_word")]
    pub kind: CommandWord,
    /// What the shell runs; it gets the session as JSON on stdin.
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
    /// What the shell runs.
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

/// What commits and pull requests say about how they were made.
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

/// Where usage numbers go.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Telemetry {
    /// Whether they are sent at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The OpenTelemetry collector that gets them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Headers for the collector.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How the person is notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Notifications {
    /// What the terminal can do.
    Auto,
    /// The terminal's bell.
    Bell,
    /// A desktop notification.
    Desktop,
    /// Not at all.
    Off,
}

/// Descriptions for the classifier of auto mode.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoMode {
    /// What is fine, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// What should rather be asked, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub soft_deny: Vec<String>,
    /// What the classifier should know about the surroundings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// Keys that this version doesn't know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// A search service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebSearch {
    /// An address that takes `?q=` and answers JSON.
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

/// Top-level keys under another name that files of this ecosystem use; read as the key beside it.
pub const ALIASES: &[(&str, &str)] = &[
    ("effortLevel", "effort"),
    ("autoCompactEnabled", "autoCompact"),
    ("autoMemoryEnabled", "autoMemory"),
    ("alwaysThinkingEnabled", "thinking"),
    ("claudeMdExcludes", "instructionExcludes"),
    ("smallFastModel", "smallModel"),
];

/// Keys whose lists are not united over the sources: the highest source's list counts as it is. They
/// are either ordered choices or restrictions, which a lower source must not widen.
pub const REPLACED_LISTS: &[&str] = &[
    "fallbackModel",
    "availableModels",
    "allowedMcpServers",
    "strictKnownMarketplaces",
    "allowedHttpHookUrls",
];

/// Keys that restrict. When one of them has to be ignored, that is said louder.
pub const RESTRICTING: &[&str] = &[
    "permissions.deny",
    "permissions.ask",
    "permissions.disableBypassPermissionsMode",
    "permissions.disableAutoMode",
    "hooks",
    "sandbox",
    "allowManagedHooksOnly",
    "allowManagedPermissionRulesOnly",
    "availableModels",
    "allowedMcpServers",
    "deniedMcpServers",
    "disabledMcpjsonServers",
    "strictKnownMarketplaces",
    "blockedMarketplaces",
    "allowedHttpHookUrls",
];

/// Keys of managed policy: anywhere else they are ignored, with a warning.
pub const MANAGED_ONLY: &[&str] = &[
    "allowManagedHooksOnly",
    "allowManagedPermissionRulesOnly",
    "sandbox.network.allowManagedDomainsOnly",
    "strictKnownMarketplaces",
    "blockedMarketplaces",
    "companyAnnouncements",
];

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
