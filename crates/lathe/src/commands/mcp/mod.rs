//! `lathe mcp`: lists, adds and removes MCP servers, signs in, calls them by hand, and is one.
//!
//! `edit` changes files and choices, `ask` connects to servers, `serve` is a server. Connections are made by the
//! same manager as in sessions.

mod ask;
mod edit;
mod serve;

use super::{load_options, places, print_line};
use crate::error::{CliError, ErrorKind, Kinded as _, Outcome};
use clap::{Args, Subcommand, ValueEnum};
use lathe_headless::exit::Exit;
use lathe_mcp::config::{self, PluginServers, Scope, Servers};
use lathe_mcp::probe;
use lathe_settings::{Environment, LoadOptions, Places, Resolved, load};
use std::cell::LazyCell;
use std::net::SocketAddr;
use std::path::PathBuf;

// `lathe mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    #[command(subcommand)]
    command: McpCommand,
}

#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum McpCommand {
    /// Add a server: `lathe mcp add NAME https://…` or `lathe mcp add NAME -- COMMAND ARGUMENTS…`.
    Add(AddArguments),
    /// Add a server, written as in `.mcp.json`.
    AddJson {
        /// Its name.
        name: String,
        /// The entry, such as '{"command": "npx", "args": ["-y", "…"]}'.
        json: String,
        /// The scope.
        #[arg(short, long, value_enum, default_value_t)]
        scope: ScopeWord,
    },
    /// List all servers, and connect to each.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one server, and connect to it.
    Get {
        /// Its name.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove a server.
    Remove {
        /// Its name.
        name: String,
        /// The scope; not needed if only one server has that name.
        #[arg(short, long, value_enum)]
        scope: Option<ScopeWord>,
    },
    /// Enable a server in this folder; this approves a server of the project.
    Enable {
        /// Its name.
        name: String,
    },
    /// Disable a server in this folder.
    Disable {
        /// Its name.
        name: String,
    },
    /// Sign in to a server, in the browser.
    Login {
        /// Its name.
        name: String,
    },
    /// Sign out of a server, and revoke the token if possible.
    Logout {
        /// Its name.
        name: String,
    },
    /// Clear the decisions about which servers of this project are approved.
    ResetProjectChoices,
    /// Import servers from the configuration of another client.
    Import {
        /// Its file; the usual locations are searched if absent.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// The scope.
        #[arg(short, long, value_enum, default_value_t = ScopeWord::User)]
        scope: ScopeWord,
        /// Show what would be imported, and change nothing.
        #[arg(long)]
        preview: bool,
    },
    /// Import the servers of Claude Desktop.
    AddFromClaudeDesktop {
        /// The scope.
        #[arg(short, long, value_enum, default_value_t = ScopeWord::User)]
        scope: ScopeWord,
    },
    /// Print the log of a server.
    Logs {
        /// Its name.
        name: String,
    },
    /// List the tools of a server, or of all.
    Tools(ItemArguments),
    /// List the resources of a server, or of all; or read one.
    Resources {
        #[command(flatten)]
        items: ItemArguments,
        /// Read this resource instead.
        #[arg(long, value_name = "URI", requires = "server")]
        read: Option<String>,
    },
    /// List the prompts of a server, or of all; or get one.
    Prompts {
        #[command(flatten)]
        items: ItemArguments,
        /// Get this prompt instead.
        #[arg(long, value_name = "NAME", requires = "server")]
        get: Option<String>,
        /// Its arguments, as a JSON object.
        #[arg(long, value_name = "JSON", requires = "get")]
        arguments: Option<String>,
    },
    /// Call a tool of a server.
    Call(CallArguments),
    /// Probe one server: connect, list, call, and report each step.
    Probe(Box<super::mcp_probe::ProbeArguments>),
    /// Run as an MCP server: offer the built-in tools, under this folder's permission rules.
    Serve(ServeArguments),
}

// `lathe mcp add`.
#[derive(Debug, Args)]
struct AddArguments {
    /// Its name, without `/`, `:` and `__`.
    name: String,
    /// The URL of a remote server.
    target: Option<String>,
    /// The command of a local server with its arguments; put `--` before it.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
    /// The scope.
    #[arg(short, long, value_enum, default_value_t)]
    scope: ScopeWord,
    /// The transport; determined from the URL if absent.
    #[arg(short, long, value_enum)]
    transport: Option<TransportWord>,
    /// A variable for a local server: NAME=VALUE. Repeatable.
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A header for a remote server: "Name: value". Repeatable.
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The id of a registered client (OAuth).
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Store that client's secret, from the variable `MCP_CLIENT_SECRET`.
    #[arg(long, requires = "client_id")]
    client_secret: bool,
    /// The port of the sign-in callback on 127.0.0.1.
    #[arg(long, value_name = "PORT")]
    callback_port: Option<u16>,
}

// The server to list.
#[derive(Debug, Args)]
struct ItemArguments {
    /// The server; all of them if absent.
    server: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    from: ConfigArguments,
}

// `lathe mcp call`.
#[derive(Debug, Args)]
struct CallArguments {
    /// The server.
    server: String,
    /// The tool.
    tool: String,
    /// Its arguments, as a JSON object; `-` reads them from standard input.
    arguments: Option<String>,
    /// The whole result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    from: ConfigArguments,
}

// Configuration beside the files.
#[derive(Debug, Args)]
struct ConfigArguments {
    /// Servers as JSON with "mcpServers", or a file with it. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON")]
    mcp_config: Vec<String>,
}

// `lathe mcp serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Serve streamable HTTP at /mcp on this local address, instead of standard input and output.
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// The built-in tools to offer: names separated by commas.
    #[arg(long, value_name = "A,B")]
    tools: Option<String>,
    /// Rules for calls that are allowed: there is no user to ask. Repeatable.
    #[arg(long = "allowedTools", alias = "allowed-tools", value_name = "RULES", num_args = 1..)]
    allowed_tools: Vec<String>,
    /// Rules for calls that are denied. Repeatable.
    #[arg(long = "disallowedTools", alias = "disallowed-tools", value_name = "RULES", num_args = 1..)]
    disallowed_tools: Vec<String>,
    /// How to decide calls that no rule matches.
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<lathe_protocol::permission::PermissionMode>,
    /// An additional working folder. Repeatable.
    #[arg(long, value_name = "FOLDER", num_args = 1..)]
    add_dir: Vec<PathBuf>,
}

/// The scope of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum ScopeWord {
    /// For you, in this project.
    #[default]
    Local,
    /// For everyone who works on this project (`.mcp.json`).
    Project,
    /// For you, everywhere.
    User,
}

impl From<ScopeWord> for Scope {
    fn from(word: ScopeWord) -> Self {
        match word {
            ScopeWord::Local => Self::Local,
            ScopeWord::Project => Self::Project,
            ScopeWord::User => Self::User,
        }
    }
}

/// The transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportWord {
    /// A local program.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, for older servers.
    Sse,
    /// WebSocket.
    Ws,
}

impl TransportWord {
    fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Ws => "ws",
        }
    }
}

/// The configuration that all subcommands read.
struct McpConfiguration {
    places: Places,
    settings: Resolved,
    options: LoadOptions,
    environment: Environment,
    plugins: Vec<PluginServers>,
}

impl McpConfiguration {
    fn new(environment: Environment) -> Self {
        let places = places(environment);
        let options = load_options(&places, &[], None);
        let settings = load(&places, &options);
        let mut environment = places.environment.clone();
        for (name, value) in settings.environment() {
            environment.variables.entry(name).or_insert(value);
        }
        let plugins = PluginServers::of_plugins(
            lathe_extensions::plugins::load(&places, &settings, &[]).mcp_servers(),
        );
        Self {
            places,
            settings,
            options,
            environment,
            plugins,
        }
    }

    /// The servers, with those of `--mcp-config` first.
    fn servers(&self, flags: &[String]) -> Result<Servers, CliError> {
        config::read_flags(flags, &self.environment).or_failure()?;
        Ok(config::load(config::Request {
            places: &self.places,
            settings: &self.settings,
            options: &self.options,
            environment: &self.environment,
            flags,
            strict: false,
            plugins: &self.plugins,
        }))
    }
}

/// `lathe mcp`.
pub(crate) async fn run(environment: Environment, arguments: McpArguments) -> Outcome {
    // `serve` loads its own settings.
    let loaded = LazyCell::new(|| McpConfiguration::new(environment.clone()));
    let usage = |text: Result<String, CliError>| match text {
        Ok(text) => print_line(&text),
        Err(error) => Err(error.with_kind(ErrorKind::Usage)),
    };
    match arguments.command {
        McpCommand::Add(arguments) => usage(edit::add(&loaded, &arguments)),
        McpCommand::AddJson { name, json, scope } => {
            usage(edit::add_json(&loaded, &name, &json, scope.into()))
        }
        McpCommand::Remove { name, scope } => {
            usage(edit::remove(&loaded, &name, scope.map(Scope::from)))
        }
        McpCommand::Enable { name } => usage(edit::enable(&loaded, &name)),
        McpCommand::Disable { name } => usage(edit::disable(&loaded, &name)),
        McpCommand::ResetProjectChoices => print_line(&edit::reset(&loaded)?),
        McpCommand::Import {
            from,
            scope,
            preview,
        } => usage(edit::import(
            &loaded,
            from.as_deref(),
            scope.into(),
            preview,
        )),
        McpCommand::AddFromClaudeDesktop { scope } => {
            let files = config::import::known_files(&loaded.environment);
            let desktop = files
                .iter()
                .find(|file| file.ends_with("claude_desktop_config.json"));
            match desktop {
                Some(file) => usage(edit::import(&loaded, Some(file), scope.into(), false)),
                None => Err(CliError::failure(
                    "there is no configuration of Claude Desktop on this machine",
                )
                .hint("`lathe mcp import --from FILE` imports from another file")),
            }
        }
        McpCommand::Logs { name } => print_line(&ask::logs(&loaded, &name)?),
        McpCommand::List { json } => print_line(&ask::list(&loaded, json).await?),
        McpCommand::Get { name, json } => ask::get(&loaded, &name, json).await,
        McpCommand::Login { name } => print_line(&ask::login(&loaded, &name).await?),
        McpCommand::Logout { name } => print_line(&ask::logout(&loaded, &name).await?),
        McpCommand::Tools(items) => ask::items(&loaded, &items, ask::Kind::Tools).await,
        McpCommand::Resources { items, read } => match (read, &items.server) {
            (Some(uri), Some(server)) => ask::read(&loaded, &items, server, &uri).await,
            _ => ask::items(&loaded, &items, ask::Kind::Resources).await,
        },
        McpCommand::Prompts {
            items,
            get,
            arguments,
        } => match (get, &items.server) {
            (Some(name), Some(server)) => {
                ask::prompt(&loaded, &items, server, &name, arguments.as_deref()).await
            }
            _ => ask::items(&loaded, &items, ask::Kind::Prompts).await,
        },
        McpCommand::Call(arguments) => ask::call(&loaded, &arguments).await,
        McpCommand::Probe(arguments) => {
            let servers = || loaded.servers(&[]);
            let probed = super::mcp_probe::run(loaded.environment.clone(), servers, *arguments);
            Ok(match probed.await? {
                probe::Outcome::Well => Exit::Success,
                probe::Outcome::NotConnected => Exit::Failure,
                probe::Outcome::Failed => Exit::Usage,
            })
        }
        McpCommand::Serve(arguments) => Box::pin(serve::run(environment.clone(), arguments)).await,
    }
}
