//! The command line, declared once: `--help`, the man page and the shell completions come from here.
//!
//! The flags of a conversation are here, the subcommands in `commands`. Flags that other tools of this ecosystem spell in camel case are accepted in both spellings.

mod commands;

use clap::{Args, Parser, ValueEnum};
use lathe_protocol::permission::PermissionMode;
use std::path::PathBuf;
use uuid::Uuid;

pub(crate) use commands::*;

/// Examples at the end of `--help`.
const EXAMPLES: &str = "\
Examples:
  lathe demo                                   watch the engine fix a failing test, no key needed
  lathe -p \"why does the build fail?\"          one answer, then leave
  git diff | lathe -p \"review this\"            the prompt and what comes in by the pipe
  lathe -p \"fix the tests\" --permission-mode acceptEdits --allowedTools \"Bash(cargo test:*)\"
  lathe -p \"go on\" --continue                  go on with the newest session of this folder
  lathe -p \"list the TODOs\" --output-format json | jq -r .result

Exit codes: 0 done · 1 the turn or the session failed · 2 wrong usage · 3 no key · 130 interrupted · 143 terminated

Environment: ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, ANTHROPIC_BASE_URL, ANTHROPIC_MODEL, LATHE_CONFIG_DIR, …
(`lathe config env` lists all)";

/// A terminal agent harness: wraps a language model with tools, permissions and sessions.
#[derive(Debug, Parser)]
#[command(
    name = "lathe",
    version,
    about,
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = false
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) session: SessionArguments,
}

/// Everything about a conversation.
#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
    /// What to do. With --print and no prompt, it is read from standard input.
    pub(crate) prompt: Option<String>,

    /// Print the answer and leave.
    #[arg(short = 'p', long, help_heading = "Output")]
    pub(crate) print: bool,

    /// How the answer is printed.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub(crate) output_format: OutputFormat,

    /// How prompts come in: text, or frames of the SDK protocol on standard input.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub(crate) input_format: InputFormat,

    /// With stream-json: also the pieces of messages as they come.
    #[arg(long, help_heading = "Output")]
    pub(crate) include_partial_messages: bool,

    /// With stream-json: also what hooks do.
    #[arg(long, help_heading = "Output")]
    pub(crate) include_hook_events: bool,

    /// With stream-json: also the prompts that were accepted.
    #[arg(long, help_heading = "Output")]
    pub(crate) replay_user_messages: bool,

    /// Say more: with text output, every tool call on standard error.
    #[arg(long, help_heading = "Output")]
    pub(crate) verbose: bool,

    /// The model: an id, or opus, sonnet, haiku, default.
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    pub(crate) model: Option<String>,

    /// The model that takes over when the first is overloaded.
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    pub(crate) fallback_model: Option<String>,

    /// How many tokens the model may think (0: none).
    #[arg(long, value_name = "TOKENS", help_heading = "Model")]
    pub(crate) max_thinking_tokens: Option<u32>,

    /// How hard the model should try: low, medium, high, xhigh or max.
    #[arg(long, value_parser = ["low", "medium", "high", "xhigh", "max"], value_name = "LEVEL", help_heading = "Model")]
    pub(crate) effort: Option<String>,

    /// Tokens that one task may use, held by the API.
    #[arg(long, value_name = "TOKENS", help_heading = "Model")]
    pub(crate) task_budget: Option<u64>,

    /// The shape of the answer, as a JSON schema: the model hands it over as structured output.
    #[arg(long, value_name = "SCHEMA", help_heading = "Output")]
    pub(crate) json_schema: Option<String>,

    /// How the model may think: adaptive, or disabled.
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Model")]
    pub(crate) thinking: Option<ThinkingWord>,

    /// What of the thinking is shown: summarized, or omitted.
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Model")]
    pub(crate) thinking_display: Option<ThinkingDisplayWord>,

    /// Beta features to ask of the API, separated by commas.
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        help_heading = "Model"
    )]
    pub(crate) betas: Vec<String>,

    /// Model calls of one turn at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Model")]
    pub(crate) max_turns: Option<u32>,

    /// Dollars of this run at most; what a resumed session spent before doesn't count.
    #[arg(long, value_name = "USD", value_parser = positive_dollars, help_heading = "Model")]
    pub(crate) max_budget_usd: Option<f64>,

    /// Tokens of the session at most, input and output together.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Model")]
    pub(crate) max_session_tokens: Option<u64>,

    /// Replace the system prompt.
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        help_heading = "Prompt"
    )]
    pub(crate) system_prompt: Option<String>,

    /// Replace the system prompt by a file's content.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "system_prompt",
        help_heading = "Prompt"
    )]
    pub(crate) system_prompt_file: Option<PathBuf>,

    /// Add to the system prompt.
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        help_heading = "Prompt"
    )]
    pub(crate) append_system_prompt: Option<String>,

    /// Add a file's content to the system prompt.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "append_system_prompt",
        help_heading = "Prompt"
    )]
    pub(crate) append_system_prompt_file: Option<PathBuf>,

    /// The folder to work in.
    #[arg(long, value_name = "FOLDER", help_heading = "Permissions")]
    pub(crate) cwd: Option<PathBuf>,

    /// A further folder that may be worked in. Repeatable.
    #[arg(long, value_name = "FOLDER", num_args = 1.., help_heading = "Permissions")]
    pub(crate) add_dir: Vec<PathBuf>,

    /// The built-in tools to offer: names separated by commas, "default" for all, "" for none.
    #[arg(long, value_name = "A,B", help_heading = "Permissions")]
    pub(crate) tools: Option<String>,

    /// Rules for what may run without asking, e.g. "Edit Bash(git log:*)". Repeatable.
    #[arg(long = "allowedTools", alias = "allowed-tools", value_name = "RULES", num_args = 1.., help_heading = "Permissions")]
    pub(crate) allowed_tools: Vec<String>,

    /// Rules for what may not run; a bare name takes the tool away. Repeatable.
    #[arg(long = "disallowedTools", alias = "disallowed-tools", value_name = "RULES", num_args = 1.., help_heading = "Permissions")]
    pub(crate) disallowed_tools: Vec<String>,

    /// How questions are answered when no rule decides: default, acceptEdits, plan, dontAsk,
    /// bypassPermissions, auto.
    #[arg(long, value_name = "MODE", help_heading = "Permissions")]
    pub(crate) permission_mode: Option<PermissionMode>,

    /// The same as --permission-mode bypassPermissions. Only in a sandbox.
    #[arg(long, conflicts_with = "permission_mode", help_heading = "Permissions")]
    pub(crate) dangerously_skip_permissions: bool,

    /// Lets the host enter bypassPermissions later.
    #[arg(long, help_heading = "Permissions")]
    pub(crate) allow_dangerously_skip_permissions: bool,

    /// Who answers permission questions: a tool of an MCP server (mcp__server__tool), or "stdio", which is
    /// the host on standard input and output.
    #[arg(long, value_name = "NAME", help_heading = "Permissions")]
    pub(crate) permission_prompt_tool: Option<String>,

    /// Whether what would be asked goes to the host, or is denied.
    #[arg(long, value_enum, value_name = "WHO", help_heading = "Permissions")]
    pub(crate) permission_prompts: Option<PermissionPrompts>,

    /// MCP servers: JSON with "mcpServers", or a file with it. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", num_args = 1.., help_heading = "Extensions")]
    pub(crate) mcp_config: Vec<String>,

    /// Only the MCP servers of --mcp-config.
    #[arg(long, help_heading = "Extensions")]
    pub(crate) strict_mcp_config: bool,

    /// A folder with a plugin. Repeatable.
    #[arg(long, value_name = "FOLDER", help_heading = "Extensions")]
    pub(crate) plugin_dir: Vec<PathBuf>,

    /// A folder with a plugin whose MCP servers the host connects itself. Repeatable.
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) plugin_dir_no_mcp: Vec<PathBuf>,

    /// The agent that leads the conversation.
    #[arg(long, value_name = "NAME", help_heading = "Extensions")]
    pub(crate) agent: Option<String>,

    /// Agents, as JSON by name.
    #[arg(long, value_name = "JSON", help_heading = "Extensions")]
    pub(crate) agents: Option<String>,

    /// Wait for the host's first request before anything is loaded, as is always done.
    #[arg(long, hide = true)]
    pub(crate) await_initialize: bool,

    /// Policy of the parent comes with the host's first request, as is always possible.
    #[arg(long, hide = true)]
    pub(crate) managed_settings_in_initialize: bool,

    /// Go on with the newest session of this folder.
    #[arg(
        short = 'c',
        long = "continue",
        conflicts_with = "resume",
        help_heading = "Session"
    )]
    pub(crate) continue_session: bool,

    /// Go on with a session: its id, the beginning of it, its title, or its file.
    #[arg(short = 'r', long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "", help_heading = "Session")]
    pub(crate) resume: Option<String>,

    /// Run the Setup hooks (trigger `init`) before the session starts.
    #[arg(long, help_heading = "Session", conflicts_with = "maintenance")]
    pub(crate) init: bool,

    /// Run the Setup hooks (trigger `init`) and the SessionStart hooks, and end.
    #[arg(long, help_heading = "Session", conflicts_with_all = ["maintenance", "prompt"])]
    pub(crate) init_only: bool,

    /// Run the Setup hooks (trigger `maintenance`) before the session starts.
    #[arg(long, help_heading = "Session")]
    pub(crate) maintenance: bool,

    /// With --continue or --resume: copy the history into a new session and leave the old one alone.
    #[arg(long, help_heading = "Session")]
    pub(crate) fork_session: bool,

    /// The id of the new session.
    #[arg(long, value_name = "UUID", value_parser = uuid, help_heading = "Session")]
    pub(crate) session_id: Option<Uuid>,

    /// With --resume: the history only up to this record.
    #[arg(
        long,
        value_name = "UUID",
        requires = "resume",
        help_heading = "Session"
    )]
    pub(crate) resume_session_at: Option<Uuid>,

    /// With --resume-session-at: refuse unless everything dropped belongs to this prompt's turn.
    #[arg(
        long,
        value_name = "UUID",
        requires = "resume_session_at",
        help_heading = "Session"
    )]
    pub(crate) resume_drops_turn: Option<Uuid>,

    /// With stream-json: also every record that is written to a transcript.
    #[arg(long, help_heading = "Session")]
    pub(crate) session_mirror: bool,

    /// Write no transcript.
    #[arg(long, help_heading = "Session")]
    pub(crate) no_session_persistence: bool,

    /// A settings file, or settings as JSON, above the user's and the project's. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", help_heading = "Settings")]
    pub(crate) settings: Vec<String>,

    /// Which settings files count: user, project, local, separated by commas; "" for none.
    #[arg(long, value_name = "LIST", help_heading = "Settings")]
    pub(crate) setting_sources: Option<String>,

    /// Policy from a parent process, as a file or JSON. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", hide = true)]
    pub(crate) managed_settings: Vec<String>,

    /// The folder whose .lathe and .claude count as the project's.
    #[arg(long, value_name = "FOLDER", help_heading = "Settings")]
    pub(crate) project_config_root: Option<PathBuf>,

    /// Write a log of what happens to standard error, for the given targets ("lathe_model=debug").
    #[arg(short = 'd', long, value_name = "FILTER", num_args = 0..=1, default_missing_value = "", require_equals = true, help_heading = "Settings")]
    pub(crate) debug: Option<String>,

    /// Write that log to a file.
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    pub(crate) debug_file: Option<PathBuf>,

    /// The same as --debug.
    #[arg(long, hide = true)]
    pub(crate) debug_to_stderr: bool,
}

fn uuid(text: &str) -> Result<Uuid, String> {
    Uuid::parse_str(text)
        .map_err(|_| "a UUID is wanted, such as the one that `uuidgen` prints".to_owned())
}

fn positive_dollars(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(dollars) if dollars > 0.0 && dollars.is_finite() => Ok(dollars),
        _ => Err("a number of dollars above 0 is wanted, for example 2.50".to_owned()),
    }
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer's words.
    #[default]
    Text,
    /// One object with the answer, its cost and how it ended.
    Json,
    /// A line of JSON for everything that happens.
    StreamJson,
}

/// How a model may think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThinkingWord {
    /// As much as it likes.
    Adaptive,
    /// Not at all.
    Disabled,
}

/// What of the thinking is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThinkingDisplayWord {
    /// A summary.
    Summarized,
    /// Nothing.
    Omitted,
}

/// Who answers permission questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PermissionPrompts {
    /// The host.
    Host,
    /// Nobody: they are denied.
    None,
}

/// How prompts come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum InputFormat {
    /// Words.
    #[default]
    Text,
    /// Frames of the SDK protocol.
    StreamJson,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_declaration_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn both_spellings_and_both_forms_are_accepted() {
        let parse = |args: &[&str]| {
            Arguments::try_parse_from([&["lathe", "-p", "x"], args].concat())
                .unwrap()
                .session
        };
        for args in [
            &["--allowedTools", "Read,Edit"][..],
            &["--allowed-tools", "Read,Edit"],
            &["--allowedTools=Read,Edit"],
        ] {
            assert_eq!(parse(args).allowed_tools, ["Read,Edit"]);
        }
        assert_eq!(parse(&["--tools", ""]).tools.as_deref(), Some(""));
        assert_eq!(
            parse(&["--system-prompt=-x"]).system_prompt.as_deref(),
            Some("-x")
        );
        assert_eq!(
            parse(&["--setting-sources="]).setting_sources.as_deref(),
            Some("")
        );
        assert_eq!(parse(&["--resume=abc"]).resume.as_deref(), Some("abc"));
        assert_eq!(parse(&["--debug"]).debug.as_deref(), Some(""));
        assert_eq!(
            parse(&["--debug=lathe_model=trace"]).debug.as_deref(),
            Some("lathe_model=trace")
        );
    }

    #[test]
    fn a_wrong_value_is_named_with_what_is_right() {
        let error = Arguments::try_parse_from(["lathe", "-p", "x", "--permission-mode", "yolo"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("yolo") && error.contains("acceptEdits"),
            "{error}"
        );
        let error =
            Arguments::try_parse_from(["lathe", "-p", "x", "--max-turns", "0"]).unwrap_err();
        assert!(error.to_string().contains("max-turns"));
        let error =
            Arguments::try_parse_from(["lathe", "-p", "x", "--session-id", "mine"]).unwrap_err();
        assert!(error.to_string().contains("a UUID is wanted"), "{error}");
    }
}
