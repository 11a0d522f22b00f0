//! The flags of a session, in the groups of `--help`.

use super::values::{
    self, InputFormat, OutputFormat, PermissionPrompts, ThinkingDisplayWord, ThinkingWord,
};
use clap::Args;
use lathe_protocol::permission::PermissionMode;
use std::path::PathBuf;
use uuid::Uuid;

/// The arguments of a session.
#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
    /// The prompt. With --print and no prompt, it is read from standard input.
    pub(crate) prompt: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    #[command(flatten)]
    pub(crate) model: ModelArguments,

    #[command(flatten)]
    pub(crate) system: SystemPromptArguments,

    #[command(flatten)]
    pub(crate) permissions: PermissionArguments,

    #[command(flatten)]
    pub(crate) extensions: ExtensionArguments,

    #[command(flatten)]
    pub(crate) session: ResumeArguments,

    #[command(flatten)]
    pub(crate) settings: SettingsArguments,

    #[command(flatten)]
    pub(crate) log: LogArguments,
}

/// Flags about input and output.
#[derive(Debug, Args)]
pub(crate) struct OutputArguments {
    /// Print one answer and exit.
    #[arg(short = 'p', long, help_heading = "Output")]
    pub(crate) print: bool,

    /// Format of the answer.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub(crate) output_format: OutputFormat,

    /// Format of standard input: text, or frames of the SDK protocol.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub(crate) input_format: InputFormat,

    /// With stream-json: include partial messages while they stream.
    #[arg(long, help_heading = "Output")]
    pub(crate) include_partial_messages: bool,

    /// With stream-json: include events of hooks.
    #[arg(long, help_heading = "Output")]
    pub(crate) include_hook_events: bool,

    /// With stream-json: include accepted prompts.
    #[arg(long, help_heading = "Output")]
    pub(crate) replay_user_messages: bool,

    /// With stream-json: include the text of sub-agents.
    #[arg(long, help_heading = "Output")]
    pub(crate) forward_subagent_text: bool,

    /// Whether to suggest the next prompt after a turn, in the terminal and to SDK hosts.
    #[arg(
        long,
        value_name = "ON",
        num_args = 0..=1,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new(),
        help_heading = "Output"
    )]
    pub(crate) prompt_suggestions: Option<bool>,

    /// With --print: also write the answer to a file.
    #[arg(
        short = 'o',
        long,
        value_name = "FILE",
        requires = "print",
        help_heading = "Output"
    )]
    pub(crate) output_last_message: Option<PathBuf>,

    /// Keep background commands running after the end. By default they are stopped and listed.
    #[arg(long, requires = "print", help_heading = "Output")]
    pub(crate) keep_background: bool,

    /// End when the parent process ends.
    #[arg(long, hide = true)]
    pub(crate) end_with_parent: bool,

    /// An image for the prompt. Repeatable.
    #[arg(short = 'i', long, value_name = "FILE", help_heading = "Output")]
    pub(crate) image: Vec<PathBuf>,

    /// With text output: print every tool call to standard error.
    #[arg(long, help_heading = "Output")]
    pub(crate) verbose: bool,

    /// JSON schema of the answer; the model returns structured output.
    #[arg(long, value_name = "SCHEMA", help_heading = "Output")]
    pub(crate) json_schema: Option<String>,
}

/// Flags about the model and its limits.
#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// The model: an id, or opus, sonnet, haiku, default.
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    pub(crate) model: Option<String>,

    /// The model or models, separated by commas, to use in order when the one before is overloaded or fails.
    #[arg(
        long,
        value_name = "MODEL",
        value_delimiter = ',',
        help_heading = "Model"
    )]
    pub(crate) fallback_model: Vec<String>,

    /// Thinking tokens per answer (0: none).
    #[arg(long, value_name = "TOKENS", help_heading = "Model")]
    pub(crate) max_thinking_tokens: Option<u32>,

    /// How hard the model tries: low, medium, high, xhigh, max, or auto for its own choice.
    #[arg(long, value_parser = ["low", "medium", "high", "xhigh", "max", "auto"], value_name = "LEVEL", help_heading = "Model")]
    pub(crate) effort: Option<String>,

    /// Maximum number of tokens that the API lets one task use.
    #[arg(long, value_name = "TOKENS", help_heading = "Model")]
    pub(crate) task_budget: Option<u64>,

    /// Whether the model thinks before it answers.
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Model")]
    pub(crate) thinking: Option<ThinkingWord>,

    /// How thinking is shown.
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Model")]
    pub(crate) thinking_display: Option<ThinkingDisplayWord>,

    /// Beta features to request from the API, separated by commas.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        help_heading = "Model"
    )]
    pub(crate) betas: Vec<String>,

    /// When to compact the conversation: auto, off, or above a number of tokens.
    #[arg(long, value_name = "WHEN", value_parser = values::compaction, help_heading = "Model")]
    pub(crate) autocompact: Option<serde_json::Value>,

    /// Maximum number of model calls per turn.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Model")]
    pub(crate) max_turns: Option<u32>,

    /// Maximum cost of this run in dollars, without earlier spending of a resumed session.
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = values::positive_dollars, help_heading = "Model")]
    pub(crate) max_budget_usd: Option<f64>,

    /// Continue until this is reached: a condition, or a command after `!`.
    #[arg(long, value_name = "CONDITION", help_heading = "Model")]
    pub(crate) goal: Option<String>,

    /// Have each turn use about this many output tokens, e.g. 500k.
    #[arg(long, value_name = "TOKENS", value_parser = values::tokens, help_heading = "Model")]
    pub(crate) token_budget: Option<u64>,

    /// Maximum number of tokens of the session, input and output together.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Model")]
    pub(crate) max_session_tokens: Option<u64>,
}

/// Flags about the system prompt.
#[derive(Debug, Args)]
pub(crate) struct SystemPromptArguments {
    /// Replace the system prompt.
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        help_heading = "Prompt"
    )]
    pub(crate) system_prompt: Option<String>,

    /// Replace the system prompt with a file's content.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "system_prompt",
        help_heading = "Prompt"
    )]
    pub(crate) system_prompt_file: Option<PathBuf>,

    /// Append to the system prompt.
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        help_heading = "Prompt"
    )]
    pub(crate) append_system_prompt: Option<String>,

    /// Send the variable parts (folder, date, repository) in the conversation instead of the system prompt, so that
    /// the prompt is the same on every machine.
    #[arg(long, help_heading = "Prompt")]
    pub(crate) exclude_dynamic_system_prompt_sections: bool,

    /// Append a file's content to the system prompt.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "append_system_prompt",
        help_heading = "Prompt"
    )]
    pub(crate) append_system_prompt_file: Option<PathBuf>,
}

/// Flags about folders, tools and permissions.
#[derive(Debug, Args)]
pub(crate) struct PermissionArguments {
    /// The working folder.
    #[arg(long, value_name = "FOLDER", help_heading = "Permissions")]
    pub(crate) cwd: Option<PathBuf>,

    /// An additional working folder. Repeatable.
    #[arg(long, value_name = "FOLDER", num_args = 1.., help_heading = "Permissions")]
    pub(crate) add_dir: Vec<PathBuf>,

    /// The built-in tools to offer: names separated by commas, "default" for all, "" for none.
    #[arg(long, value_name = "A,B", help_heading = "Permissions")]
    pub(crate) tools: Option<String>,

    /// Rules for calls that are allowed without asking, e.g. "Edit Bash(git log:*)". Repeatable.
    #[arg(long = "allowedTools", alias = "allowed-tools", value_name = "RULES", num_args = 1.., help_heading = "Permissions")]
    pub(crate) allowed_tools: Vec<String>,

    /// Rules for calls that are denied; a bare name removes the tool. Repeatable.
    #[arg(long = "disallowedTools", alias = "disallowed-tools", value_name = "RULES", num_args = 1.., help_heading = "Permissions")]
    pub(crate) disallowed_tools: Vec<String>,

    /// How to decide calls that no rule matches: default (or manual), acceptEdits, plan, dontAsk,
    /// bypassPermissions, auto.
    #[arg(long, value_name = "MODE", value_parser = values::permission_mode, help_heading = "Permissions")]
    pub(crate) permission_mode: Option<PermissionMode>,

    /// The same as --permission-mode bypassPermissions. Only in a sandbox.
    #[arg(long, conflicts_with = "permission_mode", help_heading = "Permissions")]
    pub(crate) dangerously_skip_permissions: bool,

    /// Run commands without the sandbox; overrides settings.
    #[arg(long, help_heading = "Permissions")]
    pub(crate) no_sandbox: bool,

    /// Allow the host to switch to bypassPermissions later.
    #[arg(long, help_heading = "Permissions")]
    pub(crate) allow_dangerously_skip_permissions: bool,

    /// Answer permission questions with a tool of an MCP server (mcp__server__tool), or "stdio" for the
    /// host on standard input and output.
    #[arg(long, value_name = "NAME", help_heading = "Permissions")]
    pub(crate) permission_prompt_tool: Option<String>,

    /// Whether permission questions go to the host or are denied.
    #[arg(long, value_enum, value_name = "WHO", help_heading = "Permissions")]
    pub(crate) permission_prompts: Option<PermissionPrompts>,
}

/// Flags about MCP servers, plugins and agents.
#[derive(Debug, Args)]
pub(crate) struct ExtensionArguments {
    /// MCP servers: JSON with "mcpServers", or a file with it. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", num_args = 1.., help_heading = "Extensions")]
    pub(crate) mcp_config: Vec<String>,

    /// Use only the MCP servers of --mcp-config.
    #[arg(long, help_heading = "Extensions")]
    pub(crate) strict_mcp_config: bool,

    /// A folder with a plugin. Repeatable.
    #[arg(long, value_name = "FOLDER", help_heading = "Extensions")]
    pub(crate) plugin_dir: Vec<PathBuf>,

    /// A folder with a plugin whose MCP servers the host connects itself. Repeatable.
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) plugin_dir_no_mcp: Vec<PathBuf>,

    /// The agent of the main conversation.
    #[arg(long, value_name = "NAME", help_heading = "Extensions")]
    pub(crate) agent: Option<String>,

    /// Coordinator mode: the main conversation only directs workers.
    #[arg(long, help_heading = "Extensions")]
    pub(crate) coordinator: bool,

    /// Agents, as JSON by name.
    #[arg(long, value_name = "JSON", help_heading = "Extensions")]
    pub(crate) agents: Option<String>,

    /// Offer no skills and no custom commands.
    #[arg(long, help_heading = "Extensions")]
    pub(crate) disable_slash_commands: bool,

    /// Accepted for compatibility: loading always waits for the host's first request.
    #[arg(long, hide = true)]
    pub(crate) await_initialize: bool,

    /// Accepted for compatibility: the host's first request may always carry managed settings.
    #[arg(long, hide = true)]
    pub(crate) managed_settings_in_initialize: bool,

    /// Accepted for compatibility: the host's first request may always carry these fields.
    #[arg(long, value_name = "NAMES", hide = true)]
    pub(crate) initialize_fields: Option<String>,
}

/// Flags about the session's start and its transcript.
#[derive(Debug, Args)]
pub(crate) struct ResumeArguments {
    /// Resume the newest session of this folder.
    #[arg(
        short = 'c',
        long = "continue",
        conflicts_with = "resume",
        help_heading = "Session"
    )]
    pub(crate) continue_session: bool,

    /// Resume a session by its id or a prefix of it, its title, or its file.
    #[arg(short = 'r', long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "", help_heading = "Session")]
    pub(crate) resume: Option<String>,

    /// Resume the newest session of this folder that mentions a pull request, by its number or address.
    #[arg(long, value_name = "PR", conflicts_with_all = ["resume", "continue_session"], help_heading = "Session")]
    pub(crate) from_pr: Option<String>,

    /// Start the session in the background and print its id; `lathe attach ID` opens it.
    #[arg(long, conflicts_with_all = ["print", "input_format", "init_only"], help_heading = "Session")]
    pub(crate) bg: bool,

    /// Run as a member of a team: TEAM/NAME. Started by the team's leader.
    #[arg(long, value_name = "TEAM/NAME", hide = true, conflicts_with_all = ["prompt", "print", "resume", "continue_session", "input_format", "init_only"])]
    pub(crate) team_member: Option<String>,

    /// Work in the git worktree of this name, created if it doesn't exist; without a name, in a new one.
    #[arg(short = 'w', long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", value_parser = values::worktree, help_heading = "Session")]
    pub(crate) worktree: Option<String>,

    /// The title of the session.
    #[arg(short = 'n', long, value_name = "NAME", help_heading = "Session")]
    pub(crate) name: Option<String>,

    /// Run the Setup hooks (trigger `init`) before the session starts.
    #[arg(long, help_heading = "Session", conflicts_with = "maintenance")]
    pub(crate) init: bool,

    /// Run the Setup hooks (trigger `init`) and the SessionStart hooks, and exit.
    #[arg(long, help_heading = "Session", conflicts_with_all = ["maintenance", "prompt"])]
    pub(crate) init_only: bool,

    /// Run the Setup hooks (trigger `maintenance`) before the session starts.
    #[arg(long, help_heading = "Session")]
    pub(crate) maintenance: bool,

    /// With --continue or --resume: copy the history into a new session.
    #[arg(long, help_heading = "Session")]
    pub(crate) fork_session: bool,

    /// Id of the new session.
    #[arg(long, value_name = "UUID", value_parser = values::uuid, help_heading = "Session")]
    pub(crate) session_id: Option<Uuid>,

    /// With --resume: the history only up to this record.
    #[arg(
        long,
        value_name = "UUID",
        requires = "resume",
        help_heading = "Session"
    )]
    pub(crate) resume_session_at: Option<Uuid>,

    /// With --resume-session-at: fail unless all dropped records belong to this prompt's turn.
    #[arg(
        long,
        value_name = "UUID",
        requires = "resume_session_at",
        help_heading = "Session"
    )]
    pub(crate) resume_drops_turn: Option<Uuid>,

    /// With stream-json: include every record of the transcript.
    #[arg(long, help_heading = "Session")]
    pub(crate) session_mirror: bool,

    /// Write no transcript.
    #[arg(long, help_heading = "Session")]
    pub(crate) no_session_persistence: bool,
}

/// Flags about settings files.
#[derive(Debug, Args)]
pub(crate) struct SettingsArguments {
    /// A settings file, or settings as JSON, that overrides the user's and the project's. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", help_heading = "Settings")]
    pub(crate) settings: Vec<String>,

    /// One setting: a key and its value, e.g. "model=opus". Also -c key=value. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::setting, help_heading = "Settings")]
    pub(crate) config: Vec<serde_json::Value>,

    /// Read only what flags name: no settings, instruction files, hooks, extensions, MCP servers or memory.
    #[arg(long, help_heading = "Settings")]
    pub(crate) bare: bool,

    /// Ignore everything that was added to Lathe (instruction files, hooks, extensions, MCP servers, memory)
    /// but keep settings and permissions, to find the cause of a problem.
    #[arg(long, help_heading = "Settings")]
    pub(crate) safe_mode: bool,

    /// Treat the folder as untrusted, even if it was trusted before.
    #[arg(long, help_heading = "Settings")]
    pub(crate) restricted: bool,

    /// Settings files to load: user, project, local, separated by commas; "" for none.
    #[arg(long, value_name = "LIST", help_heading = "Settings")]
    pub(crate) setting_sources: Option<String>,

    /// Read nothing of ~/.claude and ~/.claude.json.
    #[arg(long, help_heading = "Settings")]
    pub(crate) no_claude_home: bool,

    /// Policy from a parent process, as a file or JSON. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", hide = true)]
    pub(crate) managed_settings: Vec<String>,

    /// The folder whose .lathe and .claude are the project's.
    #[arg(long, value_name = "FOLDER", help_heading = "Settings")]
    pub(crate) project_config_root: Option<PathBuf>,
}

/// Flags of the debug log.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// Write a debug log to standard error, for the given targets ("lathe_model=debug").
    #[arg(short = 'd', long, value_name = "FILTER", num_args = 0..=1, default_missing_value = "", require_equals = true, help_heading = "Settings")]
    pub(crate) debug: Option<String>,

    /// Write the debug log to a file.
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    pub(crate) debug_file: Option<PathBuf>,

    /// The same as --debug.
    #[arg(long, hide = true)]
    pub(crate) debug_to_stderr: bool,
}
