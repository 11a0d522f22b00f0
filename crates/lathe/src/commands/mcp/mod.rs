//! `lathe mcp`: which MCP servers there are, adding and removing them, signing in, asking them things by hand,
//! and being one.
//!
//! Changing files and choices is in `edit`, looking at servers and asking them in `ask`, being a server in
//! `serve`. The connections are made by the same manager that sessions use.

mod ask;
mod edit;
mod serve;

use super::{finish, load_options, places};
use crate::complain;
use clap::{Args, Subcommand, ValueEnum};
use lathe_headless::exit::Exit;
use lathe_mcp::config::{self, PluginServers, Scope, Servers};
use lathe_mcp::probe::Outcome;
use lathe_settings::{Environment, LoadOptions, Places, Resolved, load};
use std::net::SocketAddr;
use std::path::PathBuf;

/// `lathe mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    #[command(subcommand)]
    command: McpCommand,
}

/// What to do with MCP servers.
#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Add a server: `lathe mcp add NAME https://…` or `lathe mcp add NAME -- COMMAND ARGUMENTS…`.
    Add(AddArguments),
    /// Add a server, written as in `.mcp.json`.
    AddJson {
        /// Its name.
        name: String,
        /// The entry, such as '{"command": "npx", "args": ["-y", "…"]}'.
        json: String,
        /// Where it counts.
        #[arg(short, long, value_enum, default_value_t)]
        scope: ScopeWord,
    },
    /// List all servers, and try each.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one server, and try it.
    Get {
        /// Its name.
        name: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove a server.
    Remove {
        /// Its name.
        name: String,
        /// Where it is; found if there is only one of that name.
        #[arg(short, long, value_enum)]
        scope: Option<ScopeWord>,
    },
    /// Switch a server on in this folder; one that the project brings is approved by that.
    Enable {
        /// Its name.
        name: String,
    },
    /// Switch a server off in this folder.
    Disable {
        /// Its name.
        name: String,
    },
    /// Sign in at a server that asks for it, in the browser.
    Login {
        /// Its name.
        name: String,
    },
    /// Forget a server's sign-in, and revoke it where that is possible.
    Logout {
        /// Its name.
        name: String,
    },
    /// Forget which servers of this project were approved or refused.
    ResetProjectChoices,
    /// Take over servers from the configuration of another client.
    Import {
        /// Its file; without it the usual places are looked at.
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
        /// Where they count.
        #[arg(short, long, value_enum, default_value_t = ScopeWord::User)]
        scope: ScopeWord,
        /// Show what would be taken over, and change nothing.
        #[arg(long)]
        preview: bool,
    },
    /// Print what a server wrote to its log.
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
    /// List the prompts of a server, or of all; or fill one in.
    Prompts {
        #[command(flatten)]
        items: ItemArguments,
        /// Fill in this prompt instead.
        #[arg(long, value_name = "NAME", requires = "server")]
        get: Option<String>,
        /// Its arguments, as a JSON object.
        #[arg(long, value_name = "JSON", requires = "get")]
        arguments: Option<String>,
    },
    /// Call a tool of a server.
    Call {
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
    },
    /// Look at one server closely: connect, list, call, and say what came of it.
    Probe(Box<super::mcp_probe::ProbeArguments>),
    /// Be an MCP server: offer the built-in tools, under this folder's permission rules.
    Serve(ServeArguments),
}

/// `lathe mcp add`.
#[derive(Debug, Args)]
struct AddArguments {
    /// Its name: letters, digits, `_` and `-`.
    name: String,
    /// The address of a remote server.
    target: Option<String>,
    /// The command of a local server, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Where it counts.
    #[arg(short, long, value_enum, default_value_t)]
    scope: ScopeWord,
    /// How it is reached; told from the address if absent.
    #[arg(short, long, value_enum)]
    transport: Option<TransportWord>,
    /// A variable for a local server: NAME=VALUE. Repeatable.
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A header for a remote server: "Name: value". Repeatable.
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The id of a client that was registered by hand (OAuth).
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Keep that client's secret, from the variable `MCP_CLIENT_SECRET`.
    #[arg(long, requires = "client_id")]
    client_secret: bool,
    /// The port of the sign-in's callback on 127.0.0.1.
    #[arg(long, value_name = "PORT")]
    callback_port: Option<u16>,
}

/// Whose items.
#[derive(Debug, Args)]
struct ItemArguments {
    /// The server; all of them if absent.
    server: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    from: ConfigArguments,
}

/// Which configuration counts beside the usual one.
#[derive(Debug, Args)]
struct ConfigArguments {
    /// Servers as JSON with "mcpServers", or a file with it. Repeatable.
    #[arg(long, value_name = "FILE-OR-JSON")]
    mcp_config: Vec<String>,
}

/// `lathe mcp serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Serve streamable HTTP at /mcp on this address of this machine, instead of standard input and output.
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// The built-in tools to offer: names separated by commas.
    #[arg(long, value_name = "A,B")]
    tools: Option<String>,
    /// Rules for what may run: nobody is there to be asked. Repeatable.
    #[arg(long = "allowedTools", alias = "allowed-tools", value_name = "RULES", num_args = 1..)]
    allowed_tools: Vec<String>,
    /// Rules for what may not run. Repeatable.
    #[arg(long = "disallowedTools", alias = "disallowed-tools", value_name = "RULES", num_args = 1..)]
    disallowed_tools: Vec<String>,
    /// How questions are answered when no rule decides.
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<lathe_protocol::permission::PermissionMode>,
    /// A further folder that may be worked in. Repeatable.
    #[arg(long, value_name = "FOLDER", num_args = 1..)]
    add_dir: Vec<PathBuf>,
}

/// Where a server counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum ScopeWord {
    /// For you, in this project.
    #[default]
    Local,
    /// For everybody who works on this project (`.mcp.json`).
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

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TransportWord {
    /// A local program.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, as older servers have it.
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

/// What all subcommands look at.
struct Ground {
    places: Places,
    settings: Resolved,
    options: LoadOptions,
    environment: Environment,
    plugins: Vec<PluginServers>,
}

impl Ground {
    fn new(environment: Environment) -> Self {
        let places = places(environment);
        let options = load_options(&places, &[], None);
        let settings = load(&places, &options);
        let mut environment = places.environment.clone();
        for (name, value) in settings.environment() {
            environment.variables.entry(name).or_insert(value);
        }
        let plugins = lathe_engine::plugins::servers_of(&lathe_extensions::plugins::load(
            &places,
            &settings,
            &[],
        ));
        Self {
            places,
            settings,
            options,
            environment,
            plugins,
        }
    }

    /// The servers, with those of `--mcp-config` on top.
    fn servers(&self, flags: &[String]) -> Result<Servers, String> {
        config::read_flags(flags, &self.environment).map_err(|error| error.to_string())?;
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
pub(crate) async fn run(environment: Environment, arguments: McpArguments) -> Exit {
    if let McpCommand::Serve(arguments) = arguments.command {
        return Box::pin(serve::run(environment, arguments)).await;
    }
    let ground = Ground::new(environment);
    match arguments.command {
        McpCommand::Add(arguments) => finish(edit::add(&ground, &arguments), Exit::Usage),
        McpCommand::AddJson { name, json, scope } => finish(
            edit::add_json(&ground, &name, &json, scope.into()),
            Exit::Usage,
        ),
        McpCommand::Remove { name, scope } => {
            let scope = scope.map(Scope::from);
            finish(edit::remove(&ground, &name, scope), Exit::Usage)
        }
        McpCommand::Enable { name } => finish(edit::enable(&ground, &name), Exit::Usage),
        McpCommand::Disable { name } => finish(edit::disable(&ground, &name), Exit::Usage),
        McpCommand::ResetProjectChoices => finish(edit::reset(&ground), Exit::Failure),
        McpCommand::Import {
            from,
            scope,
            preview,
        } => finish(
            edit::import(&ground, from.as_deref(), scope.into(), preview),
            Exit::Usage,
        ),
        McpCommand::Logs { name } => finish(ask::logs(&ground, &name), Exit::Failure),
        McpCommand::List { json } => finish(ask::list(&ground, json).await, Exit::Failure),
        McpCommand::Get { name, json } => ask::get(&ground, &name, json).await,
        McpCommand::Login { name } => finish(ask::login(&ground, &name).await, Exit::Failure),
        McpCommand::Logout { name } => finish(ask::logout(&ground, &name).await, Exit::Failure),
        McpCommand::Tools(items) => ask::items(&ground, &items, ask::Kind::Tools).await,
        McpCommand::Resources { items, read } => match (read, &items.server) {
            (Some(uri), Some(server)) => ask::read(&ground, &items, server, &uri).await,
            _ => ask::items(&ground, &items, ask::Kind::Resources).await,
        },
        McpCommand::Prompts {
            items,
            get,
            arguments,
        } => match (get, &items.server) {
            (Some(name), Some(server)) => {
                ask::prompt(&ground, &items, server, &name, arguments.as_deref()).await
            }
            _ => ask::items(&ground, &items, ask::Kind::Prompts).await,
        },
        McpCommand::Call {
            server,
            tool,
            arguments,
            json,
            from,
        } => ask::call(&ground, &from, &server, &tool, arguments.as_deref(), json).await,
        McpCommand::Probe(arguments) => {
            let environment = ground.environment.clone();
            let servers = || ground.servers(&[]);
            match super::mcp_probe::run(environment, servers, *arguments).await {
                Ok(Outcome::Well) => Exit::Success,
                Ok(Outcome::NotConnected) => Exit::Failure,
                Ok(Outcome::Failed) => Exit::Usage,
                Err(error) => finish(Err(error), Exit::Usage),
            }
        }
        McpCommand::Serve(_) => {
            complain("serve was handled already");
            Exit::Failure
        }
    }
}
