//! Every environment variable that Lathe reads or sets, declared once: the table in
//! `docs/settings.md`, `lathe config env` and the completions come from here.

use crate::paths::Environment;
use serde::Serialize;

/// An environment variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Other names that count when it isn't set, in order.
    pub aliases: &'static [&'static str],
    /// What it does.
    pub meaning: &'static str,
    /// What holds when it isn't set.
    pub default: &'static str,
    /// The part of Lathe that uses it.
    pub used_by: &'static str,
    /// Whether its value is a secret, which is never shown.
    pub secret: bool,
    /// Whether an untrusted folder's settings may set it.
    #[serde(skip)]
    pub harmless: bool,
}

impl Variable {
    /// The value that counts here: the name's, else the first alias's.
    #[must_use]
    pub fn value<'a>(&self, environment: &'a Environment) -> Option<&'a str> {
        environment
            .variable(self.name)
            .or_else(|| environment.first_variable(self.aliases))
    }
}

/// The variable that is declared under a name or an alias.
#[must_use]
pub fn find(name: &str) -> Option<&'static Variable> {
    VARIABLES
        .iter()
        .find(|variable| variable.name == name || variable.aliases.contains(&name))
}

/// The value of a declared variable, by its main name.
#[must_use]
pub fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    find(name).map_or_else(
        || environment.variable(name),
        |variable| variable.value(environment),
    )
}

/// The value of a declared variable as a number; `None` when it isn't set or isn't one.
#[must_use]
pub fn number(environment: &Environment, name: &str) -> Option<u64> {
    value(environment, name)?.trim().parse().ok()
}

/// Whether a declared variable is switched on: `1`, `true`, `yes` or `on`.
#[must_use]
pub fn is_on(environment: &Environment, name: &str) -> bool {
    value(environment, name).is_some_and(|value| {
        matches!(
            value.trim().to_ascii_lowercase().as_str(),
            "1" | "true" | "yes" | "on"
        )
    })
}

/// Variables of other programs that can do no harm: they choose how output looks.
const HARMLESS_ELSEWHERE: &[&str] = &[
    "CI",
    "CLICOLOR",
    "COLORTERM",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_TIME",
    "NODE_ENV",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "TZ",
];

/// Whether an untrusted folder may set a variable. Anything that could run code, redirect traffic or
/// replace a secret is not on the list, and neither is what nobody thought of.
#[must_use]
pub fn is_harmless(name: &str) -> bool {
    HARMLESS_ELSEWHERE.contains(&name) || find(name).is_some_and(|variable| variable.harmless)
}

macro_rules! variables {
    ($($(#[$kind:ident])* $name:literal $(| $alias:literal)* => $used:literal, $default:literal, $meaning:literal;)*) => {
        /// All variables.
        pub const VARIABLES: &[Variable] = &[$(Variable {
            name: $name,
            aliases: &[$($alias),*],
            meaning: $meaning,
            default: $default,
            used_by: $used,
            secret: false $(|| is_kind(stringify!($kind), "secret"))*,
            harmless: false $(|| is_kind(stringify!($kind), "harmless"))*,
        }),*];
    };
}

const fn is_kind(kind: &str, wanted: &str) -> bool {
    let (kind, wanted) = (kind.as_bytes(), wanted.as_bytes());
    if kind.len() != wanted.len() {
        return false;
    }
    let mut index = 0;
    while index < kind.len() {
        if kind[index] != wanted[index] {
            return false;
        }
        index += 1;
    }
    true
}

variables! {
    "LATHE_CONFIG_DIR" | "CLAUDE_CONFIG_DIR" => "settings", "~/.lathe", "The folder of your own settings, sessions and extensions.";
    #[secret] "ANTHROPIC_API_KEY" => "model", "", "The key for the model API, sent as `x-api-key`.";
    #[secret] "ANTHROPIC_AUTH_TOKEN" => "model", "", "A bearer token for the model API, sent as `authorization`.";
    "ANTHROPIC_BASE_URL" => "model", "https://api.anthropic.com", "The address of the model API.";
    #[harmless] "ANTHROPIC_MODEL" | "LATHE_MODEL" => "model", "", "The model, where neither flag nor settings name one.";
    #[harmless] "ANTHROPIC_SMALL_FAST_MODEL" | "LATHE_SMALL_MODEL" => "model", "", "The model for small side tasks.";
    "ANTHROPIC_BETAS" => "model", "", "Beta features for the `anthropic-beta` header, separated by commas.";
    "ANTHROPIC_CUSTOM_HEADERS" => "model", "", "Headers for the model API, one `Name: value` a line.";
    #[secret] "OPENAI_API_KEY" => "model", "", "The key for providers of the types `openai` and `openai-chat`.";
    "OPENAI_BASE_URL" => "model", "https://api.openai.com/v1", "The address of the OpenAI API.";
    #[harmless] "LATHE_MAX_RETRIES" | "CLAUDE_CODE_MAX_RETRIES" => "model", "10", "How often a failed request is tried again.";
    #[harmless] "LATHE_RETRY_BASE_MS" => "model", "500", "The first pause between retries in milliseconds; it doubles each time.";
    #[harmless] "LATHE_STREAM_IDLE_TIMEOUT_MS" => "model", "90000", "After how many milliseconds without a byte a stream counts as stalled.";
    #[harmless] "API_TIMEOUT_MS" => "model", "600000", "The time limit of one request in milliseconds.";
    #[harmless] "LATHE_MAX_OUTPUT_TOKENS" | "CLAUDE_CODE_MAX_OUTPUT_TOKENS" => "model", "", "The most tokens of one answer.";
    #[harmless] "MAX_THINKING_TOKENS" => "model", "", "The most tokens of one thinking step; 0 switches thinking off.";
    #[harmless] "LATHE_PROMPT_CACHE" => "engine", "5m", "How long the provider keeps what was sent: `5m`, `1h` or `off`.";
    #[harmless] "LATHE_MAGIC_DOCS" => "engine", "", "`1` keeps documents that begin with `# MAGIC DOC:` and were read in a session current, `0` doesn't, whatever `magicDocs` says.";
    #[harmless] "LATHE_SESSION_TITLES" => "engine", "", "`1` names sessions after their first turn, by the small model, in print mode too; `0` never does, whatever `sessionTitles` says.";
    #[harmless] "LATHE_SESSION_NOTES" => "engine", "", "`1` keeps a running account of the session, which stands in for older history when the window is full; `0` doesn't, whatever `sessionNotes` says.";
    #[harmless] "LATHE_MEMORY_EXTRACTION" => "engine", "", "`propose` or `keep`: looks after turns for what is worth remembering, in print mode too; `off` never does.";
    #[harmless] "LATHE_MAX_SESSION_TOKENS" => "engine", "", "The most tokens that a session may use, input and output together.";
    "HTTPS_PROXY" | "https_proxy" => "model, mcp, tools", "", "The proxy for https addresses.";
    "HTTP_PROXY" | "http_proxy" => "model, mcp, tools", "", "The proxy for http addresses.";
    "ALL_PROXY" | "all_proxy" => "model, mcp, tools", "", "The proxy for every address; may be a SOCKS proxy.";
    "NO_PROXY" | "no_proxy" => "model, mcp, tools", "", "Hosts that are reached without a proxy, separated by commas.";
    "CLAUDE_CODE_API_KEY_HELPER_TTL_MS" => "model", "300000", "How long a key that `apiKeyHelper` gave is used, in milliseconds.";
    "SSL_CERT_FILE" | "NODE_EXTRA_CA_CERTS" | "LATHE_EXTRA_CA_CERTS" => "model, mcp, tools", "", "A PEM file with further certificate authorities.";
    "SSL_CERT_DIR" => "model, mcp, tools", "", "A folder of certificate authorities, as `openssl rehash` makes it, instead of the system's. Not looked at with `SSL_CERT_FILE`.";
    "IS_SANDBOX" => "permissions", "", "`1` says that this machine is a throw-away sandbox: root may use bypassPermissions.";
    #[harmless] "BASH_DEFAULT_TIMEOUT_MS" => "tools", "120000", "The time limit of a shell command that asks for none, in milliseconds.";
    #[harmless] "BASH_MAX_TIMEOUT_MS" => "tools", "600000", "The longest time limit that a shell command may ask for, in milliseconds.";
    #[harmless] "BASH_MAX_OUTPUT_LENGTH" => "tools", "30000", "How many characters of a shell command's output the model gets.";
    #[harmless] "LATHE_DISABLE_BACKGROUND_TASKS" | "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS" => "tools", "", "`1` keeps shell commands out of the background: one that reaches its time limit is ended.";
    "LATHE_COMMAND_ID" => "set for shell commands", "", "Marks the processes of a command, so that all of them are found when it ends.";
    "SHELL" => "shell", "/bin/bash", "The shell whose start-up files the shell tool reads.";
    #[harmless] "MCP_TIMEOUT" => "mcp", "30000", "How long a server may take to start, in milliseconds.";
    #[harmless] "MCP_TOOL_TIMEOUT" => "mcp", "", "How long a server's tool may take, in milliseconds.";
    #[harmless] "MAX_MCP_OUTPUT_TOKENS" => "mcp", "25000", "How many tokens of a server's answer the model gets.";
    "MCP_OAUTH_CLIENT_METADATA_URL" => "mcp", "", "The address of this client's metadata document, for servers that ask for one.";
    "LATHE_MCP_CREDENTIALS" => "mcp", "auto", "Where sign-ins at MCP servers are kept: `auto` (the system's keyring where it works, else a file that only you can read), `keyring`, `file`.";
    #[harmless] "LATHE_MCP_LOG_LEVEL" => "mcp", "info", "From which level on MCP servers send their log: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert`, `emergency`.";
    #[secret] "MCP_CLIENT_SECRET" => "mcp", "", "The client secret for `lathe mcp add --client-secret`.";
    #[harmless] "ENABLE_TOOL_SEARCH" => "engine", "", "`false` offers every tool from the start instead of letting the model search for them.";
    #[harmless] "LATHE_SUBAGENT_MODEL" | "CLAUDE_CODE_SUBAGENT_MODEL" => "engine", "", "The model of every sub-agent, whatever its definition and its call say.";
    #[harmless] "LATHE_ENABLE_TASKS" | "CLAUDE_CODE_ENABLE_TASKS" => "engine", "", "`1` offers the task list of `TaskCreate`, `TaskUpdate`, `TaskGet` and `TaskList` instead of `TodoWrite`.";
    #[harmless] "LATHE_TASK_LIST_ID" | "CLAUDE_CODE_TASK_LIST_ID" => "engine", "the session's own", "The name of a task list that several sessions share.";
    #[harmless] "LATHE_PRINT_BACKGROUND_WAIT_MS" | "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS" => "headless", "600000", "How long print mode waits for background work at the end; 0 is without limit.";
    #[harmless] "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS" => "headless", "", "`1` adds session-state frames to the output.";
    #[harmless] "LATHE_TOOL_USE_SUMMARIES" | "CLAUDE_CODE_EMIT_TOOL_USE_SUMMARIES" => "headless", "", "`1` tells hosts in a few words what the calls of each step did, by the small model.";
    #[harmless] "CLAUDE_CODE_DISABLE_AGENT_PROGRESS_SUMMARIES" => "headless", "", "`1` tells hosts nothing of what agents are doing, even if they ask for it.";
    #[harmless] "LATHE_AGENT_PROGRESS_MS" => "headless", "30000", "How often hosts that ask for it are told what an agent is doing, in milliseconds.";
    "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT" => "engine", "markdown", "Set by SDK hosts: `html` where they render the previews of `AskUserQuestion`.";
    "CLAUDE_CODE_SDK_READS_SESSION_STATE" => "headless", "", "Set by SDK hosts that read session-state frames.";
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING" => "headless", "", "Set by SDK hosts that want file checkpoints.";
    "CLAUDE_CODE_ENTRYPOINT" => "headless", "", "Set by SDK hosts: who started Lathe.";
    "CLAUDE_AGENT_SDK_VERSION" => "headless", "", "Set by SDK hosts: their version.";
    "CLAUDE_AGENT_SDK_CLIENT_APP" => "model", "", "Set by SDK hosts: the application, added to the user agent.";
    "TRACEPARENT" => "model", "", "The trace that requests belong to.";
    #[harmless] "LATHE_DISABLE_TELEMETRY" | "DISABLE_TELEMETRY" => "lathe", "", "`1` sends no usage numbers, whatever settings say.";
    "OTEL_EXPORTER_OTLP_ENDPOINT" => "lathe", "", "The OpenTelemetry collector, where settings name none.";
    #[harmless] "NO_COLOR" => "every face", "", "Any value switches colours off.";
    "LATHE_LOG" => "lathe", "", "What is logged, such as `debug` or `lathe_engine=trace`.";
    "LATHE_LOG_FILE" => "lathe", "", "The file into which is logged, instead of stderr.";
    "EDITOR" | "VISUAL" => "lathe, tui", "vi", "The editor for `lathe config edit` and for long prompts.";
    "LATHE_PROJECT_DIR" | "CLAUDE_PROJECT_DIR" => "set for hooks and helpers", "", "The project's folder.";
    "LATHE_ENV_FILE" | "CLAUDE_ENV_FILE" => "set for SessionStart, Setup and CwdChanged hooks", "", "A file; variables that a hook exports there reach later shell commands.";
    "LATHE_PLUGIN_ROOT" | "CLAUDE_PLUGIN_ROOT" => "set for hooks and servers of plugins", "", "The plugin's folder.";
    "LATHE_PLUGIN_DATA" | "CLAUDE_PLUGIN_DATA" => "set for servers of plugins", "", "A folder in which the plugin may keep data between versions.";
    "LATHE_HOOK_EVENT" => "set for hooks", "", "The name of the event.";
    "LATHE" | "CLAUDECODE" => "set for commands", "", "`1` in every command that Lathe runs.";
    #[harmless] "LATHE_SCREEN_READER" => "tui", "", "`1` gives plain lines instead of a drawn screen, for screen readers.";
    #[harmless] "LATHE_PROMPT_SUGGESTIONS" | "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION" => "tui, headless", "by settings", "`0` or `1`: whether the next prompt is suggested, whatever settings say.";
    #[harmless] "LATHE_AWAY_SUMMARY_SECONDS" => "tui", "180", "After how many seconds without the focus you are told what happened meanwhile (see `awaySummary`).";
    #[harmless] "LATHE_TERMINAL_REWRAPS" => "tui", "by the terminal", "`0` or `1`: whether the terminal rewraps its lines when its width changes.";
}
