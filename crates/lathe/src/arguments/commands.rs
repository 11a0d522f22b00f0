//! The subcommands and their arguments.

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use lathe_protocol::permission::PermissionMode;
use std::path::PathBuf;

/// What else there is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch the real engine find and fix a failing test, driven by a built-in scripted model. Needs no key.
    Demo(DemoArguments),
    /// List, show, export and delete sessions.
    Sessions(SessionsArguments),
    /// Read and change settings.
    Config(ConfigArguments),
    /// Say which folders' own settings, hooks and rules count.
    Trust(TrustArguments),
    /// List hooks, and try them.
    Hooks(HooksArguments),
    /// List, add and remove permission rules, and explain decisions.
    Permissions(PermissionsArguments),
    /// Install, list and switch plugins, and manage the marketplaces that they come from.
    #[command(visible_alias = "plugins")]
    Plugin(crate::commands::plugin::PluginArguments),
    /// Add, list and sign in at MCP servers, ask them things, and be one.
    Mcp(crate::commands::mcp::McpArguments),
    /// Say what is wrong with this installation and its configuration, and how to fix it.
    Doctor(crate::commands::doctor::DoctorArguments),
    /// List agents, show one, and check their files.
    Agents(crate::commands::agents::AgentsArguments),
    /// List skills and custom commands, show one, and check their files.
    Skills(crate::commands::skills::SkillsArguments),
    /// Look inside: what would be sent to the model.
    Debug(DebugArguments),
    #[command(flatten)]
    Report(crate::commands::context::SessionReport),
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the man page (roff).
    Man,
}

/// `lathe demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Keep the sample project and print where it is.
    #[arg(long)]
    pub(crate) keep: bool,
    /// No pauses.
    #[arg(long)]
    pub(crate) fast: bool,
}

/// `lathe sessions`.
#[derive(Debug, Args)]
pub(crate) struct SessionsArguments {
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions of this folder, newest first.
    List {
        /// The sessions of all folders.
        #[arg(long)]
        all: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what was said in a session.
    Show {
        /// Its id, the beginning of it, its title, or its file.
        session: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a session to a file, or to standard output.
    Export {
        /// Its id, the beginning of it, its title, or its file.
        session: String,
        /// The form.
        #[arg(long, value_enum, default_value_t)]
        format: ExportFormat,
        /// The file; standard output if absent.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete sessions for good.
    Delete {
        /// Their ids, the beginnings of them, their titles, or their files.
        #[arg(required = true)]
        sessions: Vec<String>,
        /// As JSON.
        #[arg(long, action = ArgAction::SetTrue)]
        json: bool,
    },
    /// Go back to before a prompt: conversation, files, or both.
    Rewind(RewindArguments),
    /// Give a session a title.
    Rename {
        /// Its id, the beginning of it, its title, or its file.
        session: String,
        /// The title.
        title: String,
    },
    /// Tag a session; an empty tag takes it away.
    Tag {
        /// Its id, the beginning of it, its title, or its file.
        session: String,
        /// The tag.
        tag: String,
    },
}

/// `lathe sessions rewind`.
#[derive(Debug, Args)]
pub(crate) struct RewindArguments {
    /// Its id, the beginning of it, its title, or its file.
    pub(crate) session: String,
    /// The prompt: its id, or the beginning of it (`lathe sessions show` lists them).
    pub(crate) to: String,
    /// Only the files.
    #[arg(long, conflicts_with = "conversation")]
    pub(crate) files: bool,
    /// Only the conversation.
    #[arg(long)]
    pub(crate) conversation: bool,
    /// Show what would change, and change nothing.
    #[arg(long, conflicts_with = "force")]
    pub(crate) preview: bool,
    /// Overwrite files that were changed since outside the session.
    #[arg(long)]
    pub(crate) force: bool,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Scope {
    /// Yours, for every project.
    User,
    /// The project's, shared.
    Project,
    /// Yours, for this project.
    #[default]
    Local,
}

/// `lathe config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
    /// As JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// A settings file, or settings as JSON, above the user's and the project's. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", global = true)]
    pub(crate) settings: Vec<String>,
    /// Which settings files count: user, project, local, separated by commas.
    #[arg(long, value_name = "LIST", global = true)]
    pub(crate) setting_sources: Option<String>,
}

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the value of a key (`permissions.defaultMode`).
    Get {
        /// The key.
        key: String,
    },
    /// Set a key.
    Set {
        /// The key.
        key: String,
        /// The value: JSON, or text.
        value: String,
        /// The file.
        #[arg(long, value_enum, default_value = "user")]
        scope: Scope,
    },
    /// Take a key out.
    Unset {
        /// The key.
        key: String,
        /// The file.
        #[arg(long, value_enum, default_value = "user")]
        scope: Scope,
    },
    /// Print everything that counts, with where it comes from.
    List,
    /// Print which files are read.
    Path,
    /// Open a settings file in your editor.
    Edit {
        /// The file.
        #[arg(long, value_enum, default_value = "user")]
        scope: Scope,
    },
    /// Print the JSON schema of settings files.
    Schema,
    /// Say what is wrong with the settings, and how to fix it.
    Doctor,
    /// List the environment variables that Lathe reads.
    Env,
}

/// `lathe trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArguments {
    #[command(subcommand)]
    pub(crate) command: Option<TrustCommand>,
    /// As JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to do about trust.
#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// List the folders that are remembered.
    List,
    /// Trust a folder: its settings, hooks and rules count from now on.
    Add {
        /// The folder.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Forget a folder.
    Remove {
        /// The folder.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
}

/// `lathe hooks`.
#[derive(Debug, Args)]
pub(crate) struct HooksArguments {
    #[command(subcommand)]
    pub(crate) command: HooksCommand,
    /// As JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// A settings file, or settings as JSON. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", global = true)]
    pub(crate) settings: Vec<String>,
}

/// What to do with hooks.
#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// List all hooks with where they come from.
    List {
        /// List the events instead.
        #[arg(long)]
        events: bool,
    },
    /// Run the hooks of an event once and show what they would do.
    Test {
        /// The event (`PreToolUse`).
        event: String,
        /// A file with the event's fields as JSON; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
    },
}

/// `lathe permissions`.
#[derive(Debug, Args)]
pub(crate) struct PermissionsArguments {
    #[command(subcommand)]
    pub(crate) command: PermissionsCommand,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BehaviorWord {
    /// Let it pass.
    Allow,
    /// Ask a person.
    Ask,
    /// Refuse.
    Deny,
}

/// What to do with permissions.
#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsCommand {
    /// List the rules that count, with where they stand.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Save a rule.
    Add {
        /// What it does.
        behavior: BehaviorWord,
        /// The rule, e.g. "Bash(git log:*)".
        rule: String,
        /// The file.
        #[arg(long, value_enum, default_value_t)]
        scope: Scope,
    },
    /// Take a rule out of a file.
    Remove {
        /// What it does.
        behavior: BehaviorWord,
        /// The rule.
        rule: String,
        /// The file.
        #[arg(long, value_enum, default_value_t)]
        scope: Scope,
    },
    /// Say what would happen to a command, part by part, and why.
    Explain(ExplainArguments),
    /// Check a file of expectations: allow, ask or deny and a command on each line.
    Test {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        options: JudgeArguments,
    },
}

/// `lathe permissions explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// The command, best in single quotes after `--`.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
    #[command(flatten)]
    pub(crate) options: JudgeArguments,
    /// As one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a judgement depends on.
#[derive(Debug, Args)]
pub(crate) struct JudgeArguments {
    /// The permission mode.
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<PermissionMode>,
    /// A further rule with what it does: `allow:Bash(git status:*)`. Repeatable.
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
    /// The folder that the command would run in.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
}

/// `lathe debug`.
#[derive(Debug, Args)]
pub(crate) struct DebugArguments {
    #[command(subcommand)]
    pub(crate) command: DebugCommand,
}

/// What to look at.
#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    /// Print what the next request would hold: system prompt, instruction files, tools, sizes.
    Prompt {
        /// A prompt to put at the end.
        prompt: Option<String>,
        /// The whole request as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExportFormat {
    /// To read.
    #[default]
    Markdown,
    /// Words only.
    Text,
    /// Every record.
    Json,
}
