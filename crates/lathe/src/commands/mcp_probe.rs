//! `lathe mcp probe`: finds out why a server does not work.
//!
//! Parses the arguments and prints the report as lines. The work is done by `lathe_mcp::probe`, over the same
//! connections as in sessions.

use crate::error::{CliError, Kinded as _};
use clap::{ArgAction, ArgMatches, Args, FromArgMatches, ValueEnum};
use lathe_mcp::auth::SystemBrowser;
use lathe_mcp::config::{self, Servers};
use lathe_mcp::probe::{self, Elicit, Operation, Outcome, Plan};
use lathe_mcp::{Options, ProtocolChoice, Remote, ServerConfig, TransportConfig};
use lathe_settings::{Environment, Variable};
use serde_json::Value;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

// `lathe mcp probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// A server's name, its URL, or file.mcp.json#name.
    target: String,
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// The transport of a URL.
    #[arg(long, value_enum)]
    transport: Option<Kind>,
    /// Use only this version of the protocol.
    #[arg(long, value_name = "VERSION")]
    protocol_version: Option<String>,
    /// The time limit of the start and of each operation.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// Connect and list, nothing else.
    #[arg(long)]
    list_only: bool,
    #[command(flatten)]
    operations: Operations,
    /// The answer to elicitation requests of the server.
    #[arg(long, value_enum, default_value = "decline")]
    elicit: Answer,
    /// The id of a client that is registered with the authorisation server.
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Read the client's secret from MCP_CLIENT_SECRET.
    #[arg(long)]
    client_secret: bool,
    /// Authorise without a user.
    #[arg(long, value_enum)]
    grant: Option<Grant>,
    /// The client's private key (a PEM file) for signed client credentials.
    #[arg(long, value_name = "PEM")]
    client_key: Option<PathBuf>,
    /// Allow authorisation servers on private addresses.
    #[arg(long)]
    allow_private_hosts: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Http,
    Sse,
    Ws,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Answer {
    AcceptDefaults,
    Decline,
    Cancel,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Grant {
    #[value(name = "client_credentials")]
    ClientCredentials,
}

/// The operations, in the order of the command line.
#[derive(Debug, Default)]
struct Operations(Vec<Operation>);

/// The options that are operations: name, value, help.
const OPERATIONS: &[(&str, Option<&str>, &str)] = &[
    ("call", Some("TOOL=JSON"), "Call a tool"),
    ("call-all", None, "Call every tool with minimal arguments"),
    ("prompt", Some("NAME=JSON"), "Get a prompt"),
    ("read", Some("URI"), "Read a resource"),
    ("read-first", None, "Read the first resource"),
    ("pause", Some("SECONDS"), "Wait"),
    (
        "wait-notification",
        Some("METHOD"),
        "Wait for a notification",
    ),
];

impl Args for Operations {
    fn augment_args(mut command: clap::Command) -> clap::Command {
        for (name, value, help) in OPERATIONS {
            let argument = clap::Arg::new(*name).long(*name).help(*help);
            command = command.arg(match value {
                Some(value) => argument.value_name(*value).action(ArgAction::Append),
                // A flag whose position matters: it takes an empty value.
                None => argument
                    .action(ArgAction::Append)
                    .num_args(0)
                    .default_missing_value(""),
            });
        }
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Operations {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        for (name, _, _) in OPERATIONS {
            let places = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten();
            for (place, value) in places.zip(values) {
                let operation = operation(name, value).map_err(|error| {
                    clap::Error::raw(
                        clap::error::ErrorKind::ValueValidation,
                        format!("--{name}: {error}\n"),
                    )
                })?;
                found.push((place, operation));
            }
        }
        found.sort_by_key(|(place, _)| *place);
        Ok(Self(
            found.into_iter().map(|(_, operation)| operation).collect(),
        ))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Why the value of an option is refused.
#[derive(Debug, thiserror::Error)]
enum ValueError {
    #[error("{0} is not a number of seconds")]
    Seconds(String),
    #[error("{0} is not JSON: {1}")]
    Json(String, serde_json::Error),
}

fn seconds(text: &str) -> Result<Duration, ValueError> {
    text.parse()
        .ok()
        .and_then(|number| Duration::try_from_secs_f64(number).ok())
        .ok_or_else(|| ValueError::Seconds(text.to_owned()))
}

fn operation(name: &str, value: &str) -> Result<Operation, ValueError> {
    let pair = || -> Result<(String, Value), ValueError> {
        let (name, json) = value.split_once('=').unwrap_or((value, "{}"));
        let json =
            serde_json::from_str(json).map_err(|error| ValueError::Json(json.to_owned(), error))?;
        Ok((name.to_owned(), json))
    };
    Ok(match name {
        "call" => {
            let (tool, arguments) = pair()?;
            Operation::Call { tool, arguments }
        }
        "call-all" => Operation::CallAll,
        "prompt" => {
            let (name, arguments) = pair()?;
            Operation::Prompt { name, arguments }
        }
        "read" => Operation::Read {
            uri: value.to_owned(),
        },
        "read-first" => Operation::ReadFirst,
        "pause" => Operation::Pause(seconds(value)?),
        _ => Operation::WaitNotification {
            method: value.to_owned(),
        },
    })
}

/// Probes a server and prints the report.
///
/// # Errors
/// When the command line names no server that can be probed.
pub(crate) async fn run(
    environment: Environment,
    servers: impl FnOnce() -> Result<Servers, CliError>,
    arguments: ProbeArguments,
) -> Result<Outcome, CliError> {
    let json = arguments.json;
    let plan = plan(&environment, servers, arguments)?;
    let mut options = Options::new(environment.clone(), env!("CARGO_PKG_VERSION"));
    options.browser = Some(Arc::new(SystemBrowser::new(environment)));
    let (report, mut lines) = mpsc::unbounded_channel();
    let running = lathe_spawn::task(probe::run(plan, options, report));
    while let Some(line) = lines.recv().await {
        let text = if json {
            line.to_string()
        } else {
            probe::words(&line)
        };
        let mut out = lathe_headless::output::Terminal::stdout();
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            // The reader is gone; the server is still shut down properly.
            lines.close();
        }
    }
    running.await.or_usage()
}

fn plan(
    environment: &Environment,
    servers: impl FnOnce() -> Result<Servers, CliError>,
    arguments: ProbeArguments,
) -> Result<Plan, CliError> {
    let (name, mut config) = target(environment, servers, &arguments)?;
    if let Some(version) = arguments.protocol_version {
        config.protocol = ProtocolChoice::Only(version);
    }
    config.disabled = false;
    if let TransportConfig::Http(remote)
    | TransportConfig::Sse(remote)
    | TransportConfig::WebSocket(remote) = &mut config.transport
    {
        let oauth = &mut remote.oauth;
        oauth.client_id = arguments.client_id.or(oauth.client_id.take());
        if arguments.client_secret {
            let secret = environment
                .get(Variable::McpClientSecret)
                .ok_or_else(|| CliError::usage("--client-secret: MCP_CLIENT_SECRET is not set"))?;
            oauth.client_secret = Some(secret.to_owned());
        }
        if let Some(path) = &arguments.client_key {
            let key = std::fs::read_to_string(path).map_err(|error| {
                let path = path.display();
                CliError::usage(format!("--client-key: {path} can't be read: {error}"))
            })?;
            oauth.client_key = Some(key);
        }
        oauth.client_credentials |= arguments.grant.is_some();
        oauth.allow_private_hosts |= arguments.allow_private_hosts;
    }
    Ok(Plan {
        name,
        config,
        operations: if arguments.list_only {
            Vec::new()
        } else {
            arguments.operations.0
        },
        elicit: match arguments.elicit {
            Answer::AcceptDefaults => Elicit::AcceptDefaults,
            Answer::Decline => Elicit::Decline,
            Answer::Cancel => Elicit::Cancel,
        },
        timeout: arguments.timeout,
    })
}

/// The server that the target names.
fn target(
    environment: &Environment,
    servers: impl FnOnce() -> Result<Servers, CliError>,
    arguments: &ProbeArguments,
) -> Result<(String, ServerConfig), CliError> {
    let target = arguments.target.as_str();
    if target.contains("://") {
        let remote = Remote::new(target);
        let kind = arguments.transport.unwrap_or(if target.starts_with("ws") {
            Kind::Ws
        } else {
            Kind::Http
        });
        let transport = match kind {
            Kind::Http => TransportConfig::Http(remote),
            Kind::Sse => TransportConfig::Sse(remote),
            Kind::Ws => TransportConfig::WebSocket(remote),
        };
        return Ok(("probe".to_owned(), ServerConfig::new(transport)));
    }
    if let Some((file, name)) = target.split_once('#') {
        let found = config::read_flags(&[file.to_owned()], environment).or_usage()?;
        let (name, place, entry) = found
            .into_iter()
            .find(|(found, _, _)| found == name)
            .ok_or_else(|| CliError::usage(format!("{file} has no server {name}")))?;
        let lookup = |variable: &str| environment.variables.get(variable).cloned();
        let config = config::entry::parse(&name, &entry, &place, &lookup).or_usage()?;
        return Ok((name, config));
    }
    let servers = servers()?;
    let found = servers.find(target).ok_or_else(|| {
        CliError::usage(format!("there is no server {target}"))
            .hint("`lathe mcp list` shows the servers; a URL works too")
    })?;
    match found.config() {
        Some(config) => Ok((target.to_owned(), config)),
        None => Err(CliError::usage(found.why_not().unwrap_or_default()).about(target)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        probe: ProbeArguments,
    }

    #[test]
    fn operations_keep_the_order_of_the_command_line() {
        let line = Line::try_parse_from([
            "x",
            "http://127.0.0.1/mcp",
            "--read",
            "a://b",
            "--call-all",
            "--call",
            "t={\"x\":1}",
            "--pause",
            "0.5",
            "--call",
            "u",
            "--read-first",
        ])
        .unwrap();
        let kinds: Vec<_> = line
            .probe
            .operations
            .0
            .iter()
            .map(|one| format!("{one:?}"))
            .collect();
        let starts = [
            "Read {",
            "CallAll",
            "Call { tool: \"t\"",
            "Pause(500ms)",
            "Call { tool: \"u\"",
            "ReadFirst",
        ];
        assert_eq!(kinds.len(), starts.len());
        for (kind, start) in kinds.iter().zip(starts) {
            assert!(kind.starts_with(start), "{kind} {start}");
        }
        let wrong = Line::try_parse_from(["x", "http://127.0.0.1/mcp", "--call", "t={"]);
        assert!(wrong.is_err_and(|error| error.to_string().contains("not JSON")));
    }
}
