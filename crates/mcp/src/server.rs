//! What is known of a server before it is connected: where it is and how it is reached.
//!
//! Variables are already expanded here and scopes already merged; a configuration is plain data that
//! can be compared. Two equal configurations are the same server: [`crate::Manager::set_servers`]
//! leaves such a connection alone. Secrets are never printed ([`std::fmt::Debug`] hides the values of
//! headers and of the environment).

use indexmap::IndexMap;
use lathe_settings::{Environment, environment};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How a server is reached, and what is special about it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// How it is reached.
    pub transport: TransportConfig,
    /// How long it may take to start, where the configuration says so.
    pub start_timeout: Option<Duration>,
    /// How long one of its tools may take, where the configuration says so.
    pub tool_timeout: Option<Duration>,
    /// Which version of the protocol to speak.
    pub protocol: ProtocolChoice,
    /// Whether it is switched off: known, shown, not connected.
    pub disabled: bool,
}

impl ServerConfig {
    /// A server with nothing special about it.
    #[must_use]
    pub fn new(transport: TransportConfig) -> Self {
        Self {
            transport,
            start_timeout: None,
            tool_timeout: None,
            protocol: ProtocolChoice::Auto,
            disabled: false,
        }
    }

    /// A local program.
    #[must_use]
    pub fn stdio(command: impl Into<String>, args: impl IntoIterator<Item = String>) -> Self {
        Self::new(TransportConfig::Stdio(Program {
            command: command.into(),
            args: args.into_iter().collect(),
            env: IndexMap::new(),
            cwd: None,
        }))
    }

    /// A server behind an address (streamable HTTP).
    #[must_use]
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(TransportConfig::Http(Remote::new(url)))
    }
}

/// Which version of the protocol is spoken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProtocolChoice {
    /// The newest is tried first, older ones after it; what a server turned out to speak is remembered.
    #[default]
    Auto,
    /// This one (`2025-11-25`), and nothing else.
    Only(String),
}

/// The ways to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum TransportConfig {
    /// A local program that speaks on its standard input and output.
    Stdio(Program),
    /// Streamable HTTP.
    Http(Remote),
    /// HTTP with server-sent events, as it was up to 2024.
    Sse(Remote),
    /// WebSocket.
    WebSocket(Remote),
    /// A server inside an SDK host, reached through [`crate::InProcess`].
    Sdk {
        /// The name under which the host knows it.
        name: String,
    },
}

impl TransportConfig {
    /// The word for it in configuration files and reports.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
            Self::Sse(_) => "sse",
            Self::WebSocket(_) => "ws",
            Self::Sdk { .. } => "sdk",
        }
    }

    /// What is known of a server behind an address.
    #[must_use]
    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Http(remote) | Self::Sse(remote) | Self::WebSocket(remote) => Some(remote),
            Self::Stdio(_) | Self::Sdk { .. } => None,
        }
    }
}

/// A local program.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// The program, by name or path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables beyond those it inherits.
    pub env: IndexMap<String, String>,
    /// Its working folder; the session's if none is given.
    pub cwd: Option<PathBuf>,
}

impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Program")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// A server behind an address.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its address.
    pub url: String,
    /// Headers sent with each request.
    pub headers: Vec<(String, String)>,
    /// A command that prints more headers as a JSON object.
    pub headers_helper: Option<String>,
    /// How to be authorised, where the server asks for it.
    pub oauth: OAuthConfig,
}

impl Remote {
    /// An address with nothing special about it.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            headers_helper: None,
            oauth: OAuthConfig::default(),
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        formatter
            .debug_struct("Remote")
            .field("url", &self.url)
            .field("headers", &names)
            .field("headers_helper", &self.headers_helper)
            .field("oauth", &self.oauth)
            .finish()
    }
}

/// How to be authorised at a server.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OAuthConfig {
    /// A client that was registered by hand.
    pub client_id: Option<String>,
    /// Its secret. Where it is absent, one that `lathe mcp add --client-secret` stored is used.
    pub client_secret: Option<String>,
    /// The port of the callback; any free one if none is given.
    pub callback_port: Option<u16>,
    /// Where the authorisation server describes itself, if the MCP server doesn't say it.
    pub metadata_url: Option<String>,
    /// The scopes to ask for, separated by blanks.
    pub scopes: Option<String>,
    /// Without a person: the client's own credentials.
    pub client_credentials: bool,
    /// The client's private key (PEM), for client credentials that are signed instead of sent.
    pub client_key: Option<String>,
    /// The algorithm of the signature (`ES256`, `RS256`); the key's own if none is given.
    pub signing_algorithm: Option<String>,
    /// Whether descriptions of authorisation servers may lie on private addresses.
    pub allow_private_hosts: bool,
}

impl fmt::Debug for OAuthConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OAuthConfig")
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.as_ref().map(|_| "…"))
            .field("callback_port", &self.callback_port)
            .field("metadata_url", &self.metadata_url)
            .field("scopes", &self.scopes)
            .field("client_credentials", &self.client_credentials)
            .field("client_key", &self.client_key.as_ref().map(|_| "…"))
            .field("allow_private_hosts", &self.allow_private_hosts)
            .finish_non_exhaustive()
    }
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of a server until it is ready (`MCP_TIMEOUT`).
    pub start: Duration,
    /// One call of a tool (`MCP_TOOL_TIMEOUT`); without one a call may take as long as it makes progress.
    pub tool: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            tool: None,
        }
    }
}

impl Timeouts {
    /// As the environment says.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        let millis = |name: &str| {
            environment::number(environment, name)
                .filter(|value| *value > 0)
                .map(Duration::from_millis)
        };
        Self {
            start: millis("MCP_TIMEOUT").unwrap_or(Self::default().start),
            tool: millis("MCP_TOOL_TIMEOUT"),
        }
    }
}
