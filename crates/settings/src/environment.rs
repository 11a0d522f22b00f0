//! Every environment variable that Lathe reads or sets, declared once: the table in
//! `docs/settings.md`, `lathe config env`, `lathe doctor` and the completions come from here. Code reads a
//! variable by its key ([`Environment::get`]), so none of its names can be forgotten.

use crate::paths::Environment;
use serde::Serialize;

/// The declaration of an environment variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Declaration {
    /// Its name.
    pub name: &'static str,
    /// Other names, in the order in which they are read when it isn't set.
    pub aliases: &'static [&'static str],
    /// Its effect.
    pub meaning: &'static str,
    /// The value that applies when it isn't set.
    pub default: &'static str,
    /// The part of Lathe that uses it.
    pub used_by: &'static str,
    /// Whether its value is a secret, which is never shown.
    pub secret: bool,
    /// Whether an untrusted folder's settings may set it.
    #[serde(skip)]
    pub harmless: bool,
}

impl Declaration {
    /// The name and the aliases, in the order in which they are read.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

impl Variable {
    /// The variable that is declared under a name or an alias.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|variable| variable.declaration().names().any(|known| known == name))
    }

    /// Its main name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.declaration().name
    }

    /// Whether its value is a secret, which is never shown.
    #[must_use]
    pub fn is_secret(self) -> bool {
        self.declaration().secret
    }
}

impl Environment {
    /// The value of a variable under the first of its names that is set, without blanks around it. An
    /// empty value is not set.
    #[must_use]
    pub fn get(&self, variable: Variable) -> Option<&str> {
        self.get_named(variable).map(|(_, value)| value)
    }

    /// The same with the name that is set, for messages.
    #[must_use]
    pub fn get_named(&self, variable: Variable) -> Option<(&'static str, &str)> {
        variable.declaration().names().find_map(|name| {
            let value = self.foreign(name)?.trim();
            (!value.is_empty()).then_some((name, value))
        })
    }

    /// The value of a variable as a number; `None` when it isn't set or isn't a number.
    #[must_use]
    pub fn number(&self, variable: Variable) -> Option<u64> {
        self.get(variable)?.parse().ok()
    }

    /// Whether a variable is switched on or off; `None` when it isn't set or says neither.
    #[must_use]
    pub fn switch(&self, variable: Variable) -> Option<bool> {
        parse_switch(self.get(variable)?)
    }

    /// Whether a variable is switched on.
    #[must_use]
    pub fn is_on(&self, variable: Variable) -> bool {
        self.switch(variable) == Some(true)
    }

    /// The variables that child processes inherit: all but secrets of ours.
    pub fn without_secrets(&self) -> impl Iterator<Item = (&String, &String)> {
        self.variables.iter().filter(|(name, _)| {
            !Variable::find(name).is_some_and(Variable::is_secret)
                && !self.withheld.contains(name.as_str())
        })
    }
}

/// Reads a switch, in any case: `1`, `true`, `yes`, `on` and `0`, `false`, `no`, `off`.
#[must_use]
pub fn parse_switch(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
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
/// replace a secret is not on the list, and neither is what nobody thought of. A value must not name a file:
/// a locale or a time zone with a slash is read from there.
#[must_use]
pub fn is_harmless(name: &str, value: &str) -> bool {
    (HARMLESS_ELSEWHERE.contains(&name) && !value.contains(['/', '\\']))
        || Variable::find(name).is_some_and(|variable| variable.declaration().harmless)
}

/// The names of the variables that hold our own keys.
pub fn secret_names() -> impl Iterator<Item = &'static str> {
    Variable::ALL
        .iter()
        .map(|variable| variable.declaration())
        .filter(|declaration| declaration.secret)
        .flat_map(|declaration| {
            std::iter::once(declaration.name).chain(declaration.aliases.iter().copied())
        })
}

/// Whether a variable usually holds a secret, by its name.
#[must_use]
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    const PARTS: &[&str] = &["SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];
    const ENDINGS: &[&str] = &[
        "_KEY",
        "_TOKEN",
        "_PAT",
        "_PWD",
        "_AUTH",
        "_DSN",
        "APIKEY",
        "_APITOKEN",
        "_COOKIE",
    ];
    const BEGINNINGS: &[&str] = &["AWS_", "AZURE_", "GOOGLE_APPLICATION_", "VAULT_"];
    const WHOLE: &[&str] = &[
        "TOKEN",
        "API_KEY",
        "DATABASE_URL",
        "REDIS_URL",
        "MONGODB_URI",
        "PGPASSFILE",
    ];
    Variable::find(&name).is_some_and(Variable::is_secret)
        || PARTS.iter().any(|part| name.contains(part))
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
        || WHOLE.contains(&name.as_str())
}

macro_rules! variables {
    ($($(#[$kind:ident])* $key:ident: $name:literal $(| $alias:literal)* => $used:literal, $default:literal, $meaning:literal;)*) => {
        /// An environment variable that Lathe reads or sets.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Variable {
            $(#[doc = $meaning] $key),*
        }

        impl Variable {
            /// All variables, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$key),*];

            /// Its declaration.
            #[must_use]
            pub const fn declaration(self) -> &'static Declaration {
                match self {
                    $(Self::$key => const { &Declaration {
                        name: $name,
                        aliases: &[$($alias),*],
                        meaning: $meaning,
                        default: $default,
                        used_by: $used,
                        secret: false $(|| is_kind(stringify!($kind), "secret"))*,
                        harmless: false $(|| is_kind(stringify!($kind), "harmless"))*,
                    } }),*
                }
            }
        }
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
    ConfigDir: "LATHE_CONFIG_DIR" | "CLAUDE_CONFIG_DIR" => "settings", "~/.lathe", "The folder of your own settings, sessions and extensions.";
    ReadClaudeHome: "LATHE_READ_CLAUDE_HOME" => "settings", "1", "`0` leaves `~/.claude` and `~/.claude.json` unread; overrides `readClaudeHome`.";
    #[secret] ApiKey: "ANTHROPIC_API_KEY" => "model", "", "The key for the model API, sent as `x-api-key`.";
    #[secret] AuthToken: "ANTHROPIC_AUTH_TOKEN" => "model", "", "A bearer token for the model API, sent as `authorization`.";
    BaseUrl: "ANTHROPIC_BASE_URL" => "model", "https://api.anthropic.com", "The address of the model API.";
    Model: "LATHE_MODEL" | "ANTHROPIC_MODEL" => "model", "", "The model, where no flag names one; overrides `model`.";
    DefaultModel: "ANTHROPIC_DEFAULT_MODEL" => "model", "", "The model where nothing else names one, and that the short name `default` means.";
    SmallModel: "LATHE_SMALL_MODEL" | "ANTHROPIC_SMALL_FAST_MODEL" => "model", "", "The model for small side tasks; overrides `smallModel`.";
    DefaultFableModel: "ANTHROPIC_DEFAULT_FABLE_MODEL" => "model", "", "The model that the short name `fable` means.";
    DefaultOpusModel: "ANTHROPIC_DEFAULT_OPUS_MODEL" => "model", "", "The model that the short name `opus` means.";
    DefaultSonnetModel: "ANTHROPIC_DEFAULT_SONNET_MODEL" => "model", "", "The model that the short name `sonnet` means.";
    DefaultHaikuModel: "ANTHROPIC_DEFAULT_HAIKU_MODEL" => "model", "", "The model that the short name `haiku` means.";
    Betas: "ANTHROPIC_BETAS" => "model", "", "Beta features for the `anthropic-beta` header, separated by commas.";
    CustomHeaders: "ANTHROPIC_CUSTOM_HEADERS" => "model", "", "Headers for the model API, one `Name: value` a line.";
    #[secret] OpenaiApiKey: "OPENAI_API_KEY" => "model", "", "The key for providers of the types `openai` and `openai-chat`.";
    #[secret] GeminiApiKey: "GEMINI_API_KEY" | "GOOGLE_API_KEY" => "model", "", "The key for the provider `gemini`.";
    #[secret] OpenrouterApiKey: "OPENROUTER_API_KEY" => "model", "", "The key for the provider `openrouter`.";
    #[secret] GroqApiKey: "GROQ_API_KEY" => "model", "", "The key for the provider `groq`.";
    #[secret] MistralApiKey: "MISTRAL_API_KEY" => "model", "", "The key for the provider `mistral`.";
    #[secret] DeepseekApiKey: "DEEPSEEK_API_KEY" => "model", "", "The key for the provider `deepseek`.";
    #[secret] XaiApiKey: "XAI_API_KEY" => "model", "", "The key for the provider `xai`.";
    UseBedrock: "CLAUDE_CODE_USE_BEDROCK" => "model", "", "`1` makes `bedrock` the provider of models that name none.";
    UseVertex: "CLAUDE_CODE_USE_VERTEX" => "model", "", "`1` makes `vertex` the provider of models that name none.";
    UseFoundry: "CLAUDE_CODE_USE_FOUNDRY" => "model", "", "`1` makes `foundry` the provider of models that name none.";
    BedrockBaseUrl: "ANTHROPIC_BEDROCK_BASE_URL" => "model", "", "The URL of Bedrock; default: the region's.";
    #[secret] BedrockToken: "AWS_BEARER_TOKEN_BEDROCK" => "model", "", "A bearer token for Bedrock, instead of signed requests.";
    SkipBedrockAuth: "CLAUDE_CODE_SKIP_BEDROCK_AUTH" => "model", "", "`1` sends requests to Bedrock unsigned, for a gateway that signs them.";
    VertexBaseUrl: "ANTHROPIC_VERTEX_BASE_URL" => "model", "", "The URL of Vertex AI; default: the region's.";
    VertexRegion: "CLOUD_ML_REGION" => "model", "global", "The region of Vertex AI.";
    VertexProject: "ANTHROPIC_VERTEX_PROJECT_ID" => "model", "", "The project of Vertex AI.";
    FoundryResource: "ANTHROPIC_FOUNDRY_RESOURCE" => "model", "", "The resource of Microsoft Foundry, from which its address is made.";
    FoundryBaseUrl: "ANTHROPIC_FOUNDRY_BASE_URL" => "model", "", "The address of Microsoft Foundry.";
    #[secret] FoundryApiKey: "ANTHROPIC_FOUNDRY_API_KEY" => "model", "", "The key for the provider `foundry`.";
    OpenaiBaseUrl: "OPENAI_BASE_URL" => "model", "https://api.openai.com/v1", "The address of the OpenAI API.";
    #[harmless] MaxRetries: "LATHE_MAX_RETRIES" | "CLAUDE_CODE_MAX_RETRIES" => "model", "10", "How often a failed request is retried.";
    #[harmless] RetryBase: "LATHE_RETRY_BASE_MS" => "model", "500", "The first pause between retries in milliseconds; it doubles each time.";
    #[harmless] StreamIdleTimeout: "LATHE_STREAM_IDLE_TIMEOUT_MS" => "model", "90000", "After how many milliseconds without a byte a stream is treated as stalled.";
    #[harmless] ApiTimeout: "API_TIMEOUT_MS" => "model", "600000", "The time limit of one request in milliseconds.";
    #[harmless] MaxOutputTokens: "LATHE_MAX_OUTPUT_TOKENS" | "CLAUDE_CODE_MAX_OUTPUT_TOKENS" => "model", "", "The maximum number of tokens of one answer.";
    #[harmless] MaxThinkingTokens: "MAX_THINKING_TOKENS" => "model", "", "The maximum number of tokens of one thinking step; 0 disables thinking.";
    #[harmless] PromptCache: "LATHE_PROMPT_CACHE" => "engine", "5m", "How long the provider caches a request: `5m`, `1h` or `off`.";
    #[harmless] DisablePromptCaching: "DISABLE_PROMPT_CACHING" => "engine", "", "`1` disables prompt caching.";
    #[harmless] DisablePromptCachingHaiku: "DISABLE_PROMPT_CACHING_HAIKU" => "engine", "", "The same for models whose name contains `haiku`.";
    #[harmless] DisablePromptCachingSonnet: "DISABLE_PROMPT_CACHING_SONNET" => "engine", "", "The same for models whose name contains `sonnet`.";
    #[harmless] DisablePromptCachingOpus: "DISABLE_PROMPT_CACHING_OPUS" => "engine", "", "The same for models whose name contains `opus`.";
    #[harmless] DisablePromptCachingFable: "DISABLE_PROMPT_CACHING_FABLE" => "engine", "", "The same for models whose name contains `fable`.";
    #[harmless] Effort: "LATHE_EFFORT" | "CLAUDE_CODE_EFFORT_LEVEL" => "engine", "", "How hard the model works: `low`, `medium`, `high`, `xhigh`, `max`, or `auto` for the model's own choice; overrides settings.";
    #[harmless] MaxContextTokens: "LATHE_MAX_CONTEXT_TOKENS" | "CLAUDE_CODE_MAX_CONTEXT_TOKENS" => "engine", "the model's", "Context window in tokens; overrides the model table.";
    #[harmless] AutoCompactWindow: "LATHE_AUTO_COMPACT_WINDOW" | "CLAUDE_CODE_AUTO_COMPACT_WINDOW" => "engine", "", "How many tokens the conversation may fill before it is compacted; overrides `autoCompactWindow`.";
    #[harmless] AutoCompactPercent: "LATHE_AUTO_COMPACT_PERCENT" | "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE" => "engine", "", "At what percentage of the window the conversation is compacted, from 1 to 100, where that is earlier than usual.";
    #[harmless] DisableAutoMemory: "LATHE_DISABLE_AUTO_MEMORY" | "CLAUDE_CODE_DISABLE_AUTO_MEMORY" => "engine", "", "`1` keeps no notes between sessions and reads none; overrides `autoMemory`.";
    #[harmless] DisableGitInstructions: "LATHE_DISABLE_GIT_INSTRUCTIONS" | "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS" => "engine", "", "`1` leaves out the repository's state and the commit instructions; overrides `includeGitInstructions`.";
    ExtraBody: "LATHE_EXTRA_BODY" | "CLAUDE_CODE_EXTRA_BODY" => "model", "", "A JSON object that is added to the body of every request.";
    #[harmless] DisableExperimentalBetas: "LATHE_DISABLE_EXPERIMENTAL_BETAS" | "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS" => "model", "", "`1` requests no beta features but those of `ANTHROPIC_BETAS`, for gateways that refuse them.";
    #[harmless] KeepWorkingFolder: "LATHE_KEEP_WORKING_FOLDER" | "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR" => "tools", "", "`1` runs every shell command in the session's folder: a `cd` does not persist.";
    ShellPrefix: "LATHE_SHELL_PREFIX" | "CLAUDE_CODE_SHELL_PREFIX" => "tools", "", "A wrapper that gets every shell command as its last argument, such as a script that logs and runs it.";
    SessionId: "LATHE_SESSION_ID" | "CLAUDE_CODE_SESSION_ID" => "set for commands", "", "The id of the session.";
    EffortOfSession: "CLAUDE_EFFORT" => "set for commands", "", "How hard the model works at the start of the session or since `/effort`.";
    MagicDocs: "LATHE_MAGIC_DOCS" => "engine", "", "`1` keeps documents up to date that begin with `# MAGIC DOC:` and were read in a session, `0` doesn't; overrides `magicDocs`.";
    #[harmless] SessionTitles: "LATHE_SESSION_TITLES" => "engine", "", "`1` lets the small model name sessions after their first turn, in print mode too; `0` never does. Overrides `sessionTitles`.";
    #[harmless] SessionNotes: "LATHE_SESSION_NOTES" => "engine", "", "`1` keeps running notes on the session, which replace older history when the context window is full; `0` doesn't. Overrides `sessionNotes`.";
    MemoryExtraction: "LATHE_MEMORY_EXTRACTION" => "engine", "", "`propose` or `keep`: looks for facts worth remembering after turns, in print mode too; `off` never does.";
    MaxSessionTokens: "LATHE_MAX_SESSION_TOKENS" => "engine", "", "The maximum number of tokens that a session may use, input and output together.";
    HttpsProxy: "https_proxy" | "HTTPS_PROXY" => "net", "", "The proxy for https addresses.";
    HttpProxy: "http_proxy" | "HTTP_PROXY" => "net", "", "The proxy for http addresses.";
    AllProxy: "all_proxy" | "ALL_PROXY" => "net", "", "The proxy for every address; may be a SOCKS proxy.";
    NoProxy: "no_proxy" | "NO_PROXY" => "net", "", "Hosts that are reached without a proxy, separated by commas.";
    ApiKeyHelperTtl: "CLAUDE_CODE_API_KEY_HELPER_TTL_MS" => "model", "300000", "How long a key that `apiKeyHelper` gave is used, in milliseconds.";
    CaFile: "SSL_CERT_FILE" => "net", "", "A PEM file with the certificate authorities to trust instead of the system's.";
    NodeExtraCaFile: "NODE_EXTRA_CA_CERTS" => "net", "", "A PEM file with certificate authorities to trust besides the system's.";
    ExtraCaFile: "LATHE_EXTRA_CA_CERTS" => "net", "", "Another such file, read as well.";
    CaDir: "SSL_CERT_DIR" => "net", "", "A folder of certificate authorities, as `openssl rehash` makes it, instead of the system's. Ignored with `SSL_CERT_FILE`.";
    ClientCertificate: "LATHE_CLIENT_CERT" | "CLAUDE_CODE_CLIENT_CERT" => "net", "", "A PEM file with the certificate that identifies this client to servers that ask for one (mTLS).";
    ClientKey: "LATHE_CLIENT_KEY" | "CLAUDE_CODE_CLIENT_KEY" => "net", "", "A PEM file with the private key of the client certificate; it must not be encrypted.";
    Sandbox: "LATHE_SANDBOX" => "permissions", "", "`0` runs commands without the sandbox, as `--no-sandbox` does; `1` asks for it, as `sandbox.enabled` does.";
    IsSandbox: "IS_SANDBOX" => "permissions", "", "`1` declares this machine a throw-away sandbox: root may use bypassPermissions.";
    #[harmless] BashDefaultTimeout: "BASH_DEFAULT_TIMEOUT_MS" => "tools", "120000", "The time limit of a shell command that asks for none, in milliseconds.";
    #[harmless] BashMaxTimeout: "BASH_MAX_TIMEOUT_MS" => "tools", "600000", "The longest time limit that a shell command may ask for, in milliseconds.";
    #[harmless] BashMaxOutput: "BASH_MAX_OUTPUT_LENGTH" => "tools", "30000", "How many characters of a shell command's output the model gets.";
    #[harmless] DisableBackgroundTasks: "LATHE_DISABLE_BACKGROUND_TASKS" | "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS" => "tools", "", "`1` disables background commands: a command is ended at its time limit.";
    CommandId: "LATHE_COMMAND_ID" => "set for commands and servers", "", "Marks the processes of a command, so that all of them are found when it ends.";
    Shell: "SHELL" => "shell", "/bin/bash", "The shell whose start-up files the shell tool reads.";
    #[harmless] McpTimeout: "MCP_TIMEOUT" => "mcp", "30000", "How long a server may take to start, in milliseconds.";
    #[harmless] McpToolTimeout: "MCP_TOOL_TIMEOUT" => "mcp", "", "How long a server's tool may take, in milliseconds.";
    #[harmless] MaxMcpOutputTokens: "MAX_MCP_OUTPUT_TOKENS" => "mcp", "25000", "How many tokens of a server's answer the model gets.";
    McpClientMetadataUrl: "MCP_OAUTH_CLIENT_METADATA_URL" => "mcp", "", "The address of this client's metadata document, for servers that ask for one.";
    McpCredentials: "LATHE_MCP_CREDENTIALS" => "mcp", "auto", "Where sign-ins at MCP servers and keys of `lathe login` are kept: `auto` (the system's keyring where it works, else a file that only you can read), `keyring`, `file`.";
    #[harmless] McpLogLevel: "LATHE_MCP_LOG_LEVEL" => "mcp", "info", "From which level on MCP servers send their log: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert`, `emergency`.";
    #[secret] McpClientSecret: "MCP_CLIENT_SECRET" => "mcp", "", "The client secret for `lathe mcp add --client-secret`.";
    #[secret] McpServeToken: "LATHE_MCP_SERVE_TOKEN" => "mcp", "a new one at each start", "The token that clients of `lathe mcp serve --http` send.";
    #[harmless] EnableToolSearch: "ENABLE_TOOL_SEARCH" => "engine", "", "`false` offers every tool from the start instead of letting the model search for them.";
    SubagentModel: "LATHE_SUBAGENT_MODEL" | "CLAUDE_CODE_SUBAGENT_MODEL" => "engine", "", "The model of every sub-agent; overrides its definition and its call.";
    #[harmless] EnableTasks: "LATHE_ENABLE_TASKS" | "CLAUDE_CODE_ENABLE_TASKS" => "engine", "by the model", "`1` offers the task list of `TaskCreate`, `TaskUpdate`, `TaskGet` and `TaskList`, `0` that of `TodoWrite`. Without it, Claude models from 4.5 on get the first and all others the second.";
    TaskListId: "LATHE_TASK_LIST_ID" | "CLAUDE_CODE_TASK_LIST_ID" => "engine", "the session's own", "The name of a task list that several sessions share.";
    #[harmless] PrintBackgroundWait: "LATHE_PRINT_BACKGROUND_WAIT_MS" | "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS" => "headless", "600000", "How long print mode waits for background work at the end; 0 is without limit.";
    #[harmless] EmitSessionState: "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS" => "headless", "", "`1` adds session-state frames to the output.";
    #[harmless] ToolUseSummaries: "LATHE_TOOL_USE_SUMMARIES" | "CLAUDE_CODE_EMIT_TOOL_USE_SUMMARIES" => "headless", "", "`1` sends hosts a short summary of the calls of each step, written by the small model.";
    #[harmless] DisableAgentProgress: "CLAUDE_CODE_DISABLE_AGENT_PROGRESS_SUMMARIES" => "headless", "", "`1` sends hosts no progress of agents, even if they ask for it.";
    #[harmless] AgentProgressInterval: "LATHE_AGENT_PROGRESS_MS" => "headless", "30000", "How often hosts that ask for it get the progress of an agent, in milliseconds.";
    QuestionPreviewFormat: "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT" => "engine", "markdown", "Set by SDK hosts: `html` where they render the previews of `AskUserQuestion`.";
    HostReadsSessionState: "CLAUDE_CODE_SDK_READS_SESSION_STATE" => "headless", "", "Set by SDK hosts that read session-state frames.";
    HostFileCheckpointing: "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING" => "headless", "", "Set by SDK hosts that use file checkpoints.";
    Entrypoint: "CLAUDE_CODE_ENTRYPOINT" => "headless", "", "Set by SDK hosts: who started Lathe.";
    SdkVersion: "CLAUDE_AGENT_SDK_VERSION" => "headless", "", "Set by SDK hosts: their version, added to the user agent.";
    ClientApp: "CLAUDE_AGENT_SDK_CLIENT_APP" => "model", "", "Set by SDK hosts: the application, added to the user agent.";
    TraceParent: "TRACEPARENT" => "model", "", "The trace that requests belong to.";
    #[harmless] NoColor: "NO_COLOR" => "every face", "", "Any value switches colours off.";
    EnableTelemetry: "LATHE_ENABLE_TELEMETRY" | "CLAUDE_CODE_ENABLE_TELEMETRY" => "telemetry", "", "`1` sends metrics, events and traces to your own OpenTelemetry collector, `0` never does; overrides `telemetry.enabled`.";
    OtelEndpoint: "OTEL_EXPORTER_OTLP_ENDPOINT" => "telemetry", "http://localhost:4318", "The address of the collector; overrides `telemetry.endpoint`.";
    OtelMetricsEndpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" => "telemetry", "", "The whole address for metrics.";
    OtelLogsEndpoint: "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT" => "telemetry", "", "The whole address for events.";
    OtelTracesEndpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" => "telemetry", "", "The whole address for traces.";
    #[secret] OtelHeaders: "OTEL_EXPORTER_OTLP_HEADERS" => "telemetry", "", "Headers for the collector: `name=value`, separated by commas.";
    OtelTimeout: "OTEL_EXPORTER_OTLP_TIMEOUT" => "telemetry", "10000", "How long the collector may take, in milliseconds.";
    OtelMetricsExporter: "OTEL_METRICS_EXPORTER" => "telemetry", "otlp", "Where metrics go: `otlp`, `console`, `prometheus`, `none`, or several, separated by commas.";
    OtelLogsExporter: "OTEL_LOGS_EXPORTER" => "telemetry", "otlp", "Where events go: `otlp`, `console`, `none`.";
    OtelTracesExporter: "OTEL_TRACES_EXPORTER" => "telemetry", "otlp", "Where traces go: `otlp`, `console`, `none`.";
    OtelMetricInterval: "OTEL_METRIC_EXPORT_INTERVAL" => "telemetry", "60000", "How often metrics are sent, in milliseconds.";
    OtelLogsInterval: "OTEL_LOGS_EXPORT_INTERVAL" => "telemetry", "5000", "How often events and traces are sent, in milliseconds.";
    OtelPrometheusPort: "OTEL_EXPORTER_PROMETHEUS_PORT" => "telemetry", "9464", "The port on this machine where Prometheus finds metrics.";
    OtelResourceAttributes: "OTEL_RESOURCE_ATTRIBUTES" => "telemetry", "", "Attributes of everything that is sent: `name=value`, separated by commas.";
    OtelServiceName: "OTEL_SERVICE_NAME" => "telemetry", "lathe", "The name of the service.";
    OtelDisabled: "OTEL_SDK_DISABLED" => "telemetry", "", "`true` sends nothing, whatever else is set.";
    OtelLogUserPrompts: "OTEL_LOG_USER_PROMPTS" => "telemetry", "", "`1` adds the text of prompts to events; otherwise only their length is sent.";
    #[harmless] ProfileStartup: "LATHE_PROFILE_STARTUP" => "lathe", "", "`1` prints the time of each step of a start to standard error.";
    DisableAutoUpdates: "LATHE_DISABLE_AUTO_UPDATES" | "DISABLE_AUTOUPDATER" => "lathe", "", "`1` looks for no new version; overrides `autoUpdates`. `lathe update` still works.";
    Log: "LATHE_LOG" => "lathe", "", "The log filter, such as `debug` or `lathe_engine=trace`.";
    LogFile: "LATHE_LOG_FILE" => "lathe", "", "The log file, instead of stderr.";
    Editor: "VISUAL" | "EDITOR" => "lathe, tui", "vi", "The editor for `lathe config edit` and for long prompts.";
    IdePort: "LATHE_IDE_PORT" | "CLAUDE_CODE_SSE_PORT" => "engine", "", "Set by editors in their terminals: the port of the editor that a session there connects to.";
    #[harmless] IdeIntegration: "LATHE_IDE" | "ENABLE_IDE_INTEGRATION" => "engine", "", "`0` or `1`: whether a session in the terminal connects to an editor by itself; overrides `ide.autoConnect`.";
    ProjectDir: "LATHE_PROJECT_DIR" | "CLAUDE_PROJECT_DIR" => "set for hooks and helpers", "", "The project's folder.";
    EnvFile: "LATHE_ENV_FILE" | "CLAUDE_ENV_FILE" => "set for SessionStart, Setup and CwdChanged hooks", "", "A file; variables that a hook exports there reach later shell commands.";
    PluginRoot: "LATHE_PLUGIN_ROOT" | "CLAUDE_PLUGIN_ROOT" => "set for hooks and servers of plugins", "", "The plugin's folder.";
    PluginData: "LATHE_PLUGIN_DATA" | "CLAUDE_PLUGIN_DATA" => "set for servers of plugins", "", "A folder for the plugin's data, kept between versions.";
    HookEvent: "LATHE_HOOK_EVENT" => "set for hooks", "", "The name of the event.";
    InsideLathe: "LATHE" | "CLAUDECODE" => "set for commands", "", "`1` in every command that Lathe runs.";
    #[harmless] ScreenReader: "LATHE_SCREEN_READER" => "tui", "", "`1` gives plain lines instead of a drawn screen, for screen readers.";
    #[harmless] PromptSuggestions: "LATHE_PROMPT_SUGGESTIONS" | "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION" => "tui, headless", "by settings", "`0` or `1`: whether the next prompt is suggested; overrides settings.";
    #[harmless] AwaySummarySeconds: "LATHE_AWAY_SUMMARY_SECONDS" => "tui", "180", "After how many seconds without focus a summary is shown on return (see `awaySummary`).";
    #[harmless] BackgroundIdleSeconds: "LATHE_BACKGROUND_IDLE_SECONDS" => "tui", "1800", "Seconds after which a background session ends that has nothing to do and no clients.";
    #[harmless] IdlePromptSeconds: "LATHE_IDLE_PROMPT_SECONDS" => "tui", "60", "Seconds without input after a turn until a notification is sent and `Notification` hooks (`idle_prompt`) run.";
    #[harmless] TerminalRewraps: "LATHE_TERMINAL_REWRAPS" => "tui", "by the terminal", "`0` or `1`: whether the terminal rewraps its lines when its width changes.";
}
