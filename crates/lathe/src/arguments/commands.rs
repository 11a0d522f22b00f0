//! The subcommands and their arguments.

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use lathe_protocol::permission::PermissionMode;
use std::path::PathBuf;

// The subcommands.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Watch the engine find and fix a failing test, driven by a built-in scripted model. Needs no key.
    Demo(DemoArguments),
    /// List, show, export and delete sessions.
    Sessions(SessionsArguments),
    /// Run a recorded session again in a scratch copy, and report what differs.
    Replay(crate::commands::replay::ReplayArguments),
    /// Run cases that measure how a model behaves, and whether a plugin helps.
    Eval(crate::commands::eval::EvalArguments),
    /// Read and change settings.
    Config(ConfigArguments),
    /// List, add and remove trusted folders, whose settings, hooks and rules are applied.
    Trust(TrustArguments),
    /// List hooks, and test them.
    Hooks(HooksArguments),
    /// List, add and remove permission rules, and explain decisions.
    Permissions(PermissionsArguments),
    /// Run a command in the sandbox, and show what it can do here.
    Sandbox(crate::commands::sandbox::SandboxArguments),
    /// Install, list, enable and disable plugins, and manage marketplaces.
    #[command(visible_alias = "plugins")]
    Plugin(crate::commands::plugin::PluginArguments),
    /// Add, list, sign in to and call MCP servers, or run as one.
    Mcp(crate::commands::mcp::McpArguments),
    /// Check the installation and its configuration, and print fixes.
    Doctor(crate::commands::doctor::DoctorArguments),
    /// List the available models, including those of local servers, and test one.
    Models(crate::commands::models::ModelsArguments),
    /// Store the key of a provider, read from the terminal or from standard input.
    Login(crate::commands::models::LoginArguments),
    /// Remove the key of a provider.
    Logout(crate::commands::models::LogoutArguments),
    /// Show which providers have a key, and where it comes from.
    Status,
    /// List agents, show one, and check their files.
    Agents(crate::commands::agents::AgentsArguments),
    /// List skills and custom commands, show one, and check their files.
    Skills(crate::commands::skills::SkillsArguments),
    /// Serve an editor over standard input and output (Agent Client Protocol).
    ///
    /// Flags of a session go before the command: `lathe --model haiku acp`.
    Acp {
        /// Store the key of a provider, read from the terminal, instead of serving.
        #[arg(long)]
        login: bool,
    },
    /// Review a change with several agents, and report the findings.
    ///
    /// Flags of a session go before the command: `lathe --model opus review`.
    Review(crate::commands::review::ReviewArguments),
    /// Run scripts that direct agents, list them, show one, or check one.
    ///
    /// Flags of a session go before the command: `lathe --model opus workflow run research`.
    Workflow(crate::commands::workflow::WorkflowArguments),
    /// Connect a browser that sessions can use through the MCP server `browser`.
    Browser(crate::commands::browser::BrowserArguments),
    /// Import the setup of another agent: settings, rules, servers, instructions, agents, commands, skills, hooks.
    Import(crate::commands::import::ImportArguments),
    /// Serve the page and the API for the sessions of this machine, on 127.0.0.1.
    Serve(crate::commands::serve::ServeArguments),
    /// Run a relay: it passes encrypted frames between servers and devices, and can't read them.
    Relay(crate::commands::relay::RelayArguments),
    /// Open the page in a browser; prints the link.
    Web(crate::commands::serve::WebArguments),
    /// List, admit and revoke the devices that may use the page and the API.
    Devices(crate::commands::serve::DevicesArguments),
    /// Move a session with its git state to another machine, or receive one.
    Teleport(crate::commands::teleport::TeleportArguments),
    /// Run agents as jobs on one or many machines: submit, work, watch, answer, fetch results.
    Fleet(crate::commands::fleet::FleetArguments),
    /// Update to the newest version of the channel, or print the command that does.
    Update(crate::commands::update::UpdateArguments),
    /// Install a version for this user, go back to one, or change the channel.
    Install(crate::commands::update::InstallArguments),
    /// Remove the installation; settings and sessions stay unless --purge is given.
    Uninstall(crate::commands::update::UninstallArguments),
    /// Delete all data of a project: sessions, memory, trust, server choices.
    Purge(crate::commands::purge::PurgeArguments),
    /// Inspect the request that would be sent to the model.
    Debug(DebugArguments),
    #[command(flatten)]
    Hosts(crate::commands::hosts::HostsCommand),
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

// `lathe demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Keep the sample project and print where it is.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Do not pause.
    #[arg(long)]
    pub(crate) fast: bool,
}

// `lathe sessions`.
#[derive(Debug, Args)]
pub(crate) struct SessionsArguments {
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SessionsCommand {
    /// List the sessions of this folder, newest first.
    List {
        /// The sessions of all folders.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a session: its properties, prompts and outcome.
    Show {
        /// The session: an id or a prefix of it, a title, or a file.
        session: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Export a session to a file, or to standard output.
    Export {
        /// The session: an id or a prefix of it, a title, or a file.
        session: String,
        /// The format. Default: by the file's extension (.md, .txt, .json, .html), else Markdown.
        #[arg(long, value_enum)]
        format: Option<ExportFormat>,
        /// The file; standard output if absent.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Hide keys, tokens, passwords, mail addresses, and the folders of you and the project.
        #[arg(long)]
        sanitize: bool,
    },
    /// Import a session: a transcript (JSON lines) or a JSON export.
    Import {
        /// The file.
        file: PathBuf,
    },
    /// Check that no line of a session's transcripts was changed, removed or moved.
    ///
    /// Every line carries a hash of itself and the line before it. Exits with 1 if anything was altered.
    Verify {
        /// The session: an id or a prefix of it, a title, or a file.
        session: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Search the text of all sessions.
    Search(SearchArguments),
    /// Show what was done and what it cost, by day, model, project and tool.
    Insights {
        /// Only this folder's project.
        #[arg(long)]
        here: bool,
        /// Only from this day on, such as 2026-11-01.
        #[arg(long, value_name = "DAY")]
        after: Option<String>,
        /// Write a page for a browser to this file.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Delete sessions permanently.
    Delete {
        /// The sessions: ids or prefixes of them, titles, or files.
        #[arg(required = true)]
        sessions: Vec<String>,
        /// Print JSON.
        #[arg(long, action = ArgAction::SetTrue)]
        json: bool,
    },
    /// Restore the state before a prompt: conversation, files, or both.
    Rewind(RewindArguments),
    /// Set the title of a session.
    Rename {
        /// The session: an id or a prefix of it, a title, or a file.
        session: String,
        /// The title.
        title: String,
    },
    /// Tag a session; an empty tag removes it.
    Tag {
        /// The session: an id or a prefix of it, a title, or a file.
        session: String,
        /// The tag.
        tag: String,
    },
}

// `lathe sessions search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArguments {
    /// Words that must all occur in a message.
    #[arg(required = true)]
    pub(crate) words: Vec<String>,
    /// Only sessions of a folder whose path contains this; `.` is this project.
    #[arg(long)]
    pub(crate) folder: Option<String>,
    /// Only sessions that ended on this branch.
    #[arg(long)]
    pub(crate) branch: Option<String>,
    /// Only sessions with this tag.
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Only messages from this day on, such as 2026-11-01.
    #[arg(long, value_name = "DAY")]
    pub(crate) after: Option<String>,
    /// Only messages before this day.
    #[arg(long, value_name = "DAY")]
    pub(crate) before: Option<String>,
    /// Only sessions in which this tool was called.
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only sessions in which a call named a file whose path contains this.
    #[arg(long)]
    pub(crate) file: Option<String>,
    /// Maximum number of sessions to show.
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: usize,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

// `lathe sessions rewind`.
#[derive(Debug, Args)]
pub(crate) struct RewindArguments {
    /// The session: an id or a prefix of it, a title, or a file.
    pub(crate) session: String,
    /// The prompt: its id or a prefix of it (`lathe sessions show` lists them).
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
    /// Overwrite files that were changed outside the session since.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Scope {
    /// Your settings, for all projects.
    User,
    /// The project's settings, shared.
    Project,
    /// Your settings, for this project.
    #[default]
    Local,
}

// `lathe config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// A settings file, or settings as JSON, that overrides the user's and the project's. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", global = true)]
    pub(crate) settings: Vec<String>,
    /// Settings files to load: user, project, local, separated by commas.
    #[arg(long, value_name = "LIST", global = true)]
    pub(crate) setting_sources: Option<String>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
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
    /// Remove a key.
    Unset {
        /// The key.
        key: String,
        /// The file.
        #[arg(long, value_enum, default_value = "user")]
        scope: Scope,
    },
    /// Print all effective settings with their sources.
    List,
    /// Print the settings files.
    Path,
    /// Open a settings file in your editor.
    Edit {
        /// The file.
        #[arg(long, value_enum, default_value = "user")]
        scope: Scope,
    },
    /// Print the JSON schema of settings files.
    Schema,
    /// Check the settings, and print fixes.
    Doctor,
    /// List the environment variables that Lathe reads.
    Env,
}

// `lathe trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArguments {
    #[command(subcommand)]
    pub(crate) command: Option<TrustCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TrustCommand {
    /// List the trusted folders.
    List,
    /// Trust a folder: its settings, hooks and rules are applied.
    Add {
        /// The folder.
        #[arg(default_value = ".")]
        folder: PathBuf,
        /// Also let its instruction files import files from outside the folder.
        #[arg(long)]
        imports: bool,
    },
    /// Remove a folder from the list.
    Remove {
        /// The folder.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
}

// `lathe hooks`.
#[derive(Debug, Args)]
pub(crate) struct HooksArguments {
    #[command(subcommand)]
    pub(crate) command: HooksCommand,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// A settings file, or settings as JSON. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON", global = true)]
    pub(crate) settings: Vec<String>,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum HooksCommand {
    /// List all hooks with their sources.
    List {
        /// List the events instead.
        #[arg(long)]
        events: bool,
    },
    /// Run the hooks of an event once and show the result.
    Test {
        /// The event (`PreToolUse`).
        event: String,
        /// A file with the event's fields as JSON; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        input: Option<PathBuf>,
    },
}

// `lathe permissions`.
#[derive(Debug, Args)]
pub(crate) struct PermissionsArguments {
    #[command(subcommand)]
    pub(crate) command: PermissionsCommand,
}

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BehaviorWord {
    /// Allow the call.
    Allow,
    /// Ask the user.
    Ask,
    /// Deny the call.
    Deny,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PermissionsCommand {
    /// List the effective rules with their sources.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Save a rule.
    Add {
        /// The effect of the rule.
        behavior: BehaviorWord,
        /// The rule, e.g. "Bash(git log:*)".
        rule: String,
        /// The file.
        #[arg(long, value_enum, default_value_t)]
        scope: Scope,
    },
    /// Remove a rule from a file.
    Remove {
        /// The effect of the rule.
        behavior: BehaviorWord,
        /// The rule.
        rule: String,
        /// The file.
        #[arg(long, value_enum, default_value_t)]
        scope: Scope,
    },
    /// Explain how a command would be decided, part by part.
    Explain(ExplainArguments),
    /// Check a file of expectations: allow, ask or deny and a command on each line.
    Test {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        options: JudgeArguments,
    },
}

// `lathe permissions explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// The command, best in single quotes after `--`.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
    #[command(flatten)]
    pub(crate) options: JudgeArguments,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

// The context of a decision.
#[derive(Debug, Args)]
pub(crate) struct JudgeArguments {
    /// The permission mode.
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<PermissionMode>,
    /// An additional rule with its effect: `allow:Bash(git status:*)`. Repeatable.
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
    /// The folder that the command would run in.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
}

// `lathe debug`.
#[derive(Debug, Args)]
pub(crate) struct DebugArguments {
    #[command(subcommand)]
    pub(crate) command: DebugCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum DebugCommand {
    /// Print the next request: system prompt, instruction files, tools, sizes.
    Prompt {
        /// A prompt to put at the end.
        prompt: Option<String>,
        /// The whole request as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown.
    Markdown,
    /// Plain text.
    Text,
    /// Every record.
    Json,
    /// One page for a browser: foldable, searchable.
    Html,
}
