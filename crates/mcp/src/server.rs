//! The configuration of a server.
//!
//! Variables are expanded and scopes merged already; a configuration is plain data. Equal
//! configurations are the same server: [`crate::Manager::set_servers`] keeps such a connection.
//! Secrets are never printed ([`std::fmt::Debug`] hides the values of headers and of the
//! environment).

use indexmap::IndexMap;
use lathe_settings::{Environment, Variable};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    pub transport: TransportConfig,
    /// The time limit for its start, if configured.
    pub start_timeout: Option<Duration>,
    /// The time limit of its tools, if configured.
    pub tool_timeout: Option<Duration>,
    pub protocol: ProtocolChoice,
    /// True if it is shown but not connected.
    pub disabled: bool,
}

impl ServerConfig {
    /// A server with default options.
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

    #[must_use]
    pub fn stdio(command: impl Into<String>, args: impl IntoIterator<Item = String>) -> Self {
        Self::new(TransportConfig::Stdio(Program {
            command: command.into(),
            args: args.into_iter().collect(),
            env: IndexMap::new(),
            cwd: None,
            sandbox: false,
        }))
    }

    /// A remote server over streamable HTTP.
    #[must_use]
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(TransportConfig::Http(Remote::new(url)))
    }
}

/// The protocol version to use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProtocolChoice {
    /// The newest version, else older ones; the result is remembered.
    #[default]
    Auto,
    /// Only this version (`2025-11-25`).
    Only(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum TransportConfig {
    /// A local program over standard input and output.
    Stdio(Program),
    /// Streamable HTTP.
    Http(Remote),
    /// HTTP with server-sent events, as used until 2024.
    Sse(Remote),
    /// WebSocket.
    WebSocket(Remote),
    /// A server inside an SDK host, reached through [`crate::InProcess`].
    Sdk {
        /// The name at the host.
        name: String,
    },
}

impl TransportConfig {
    /// The name in configuration files and reports.
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

    /// The configuration of a remote server, if it is one.
    #[must_use]
    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Http(remote) | Self::Sse(remote) | Self::WebSocket(remote) => Some(remote),
            Self::Stdio(_) | Self::Sdk { .. } => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// Name or path.
    pub command: String,
    pub args: Vec<String>,
    /// Variables in addition to the inherited ones.
    pub env: IndexMap<String, String>,
    /// Defaults to the session's working directory.
    pub cwd: Option<PathBuf>,
    /// Whether it runs in the sandbox of the session.
    pub sandbox: bool,
}

impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Program")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .field("sandbox", &self.sandbox)
            .finish()
    }
}

/// A remote server.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    pub url: String,
    pub headers: Vec<(String, String)>,
    /// A command that prints additional headers as a JSON object.
    pub headers_helper: Option<String>,
    pub oauth: OAuthConfig,
    /// True if a server without streamable HTTP is tried with server-sent events: the configuration
    /// names no transport, or just `http`.
    pub sse_fallback: bool,
}

impl Remote {
    /// A remote server with default options.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            headers_helper: None,
            oauth: OAuthConfig::default(),
            sse_fallback: false,
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

/// OAuth options of a server.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OAuthConfig {
    /// A client that was registered manually.
    pub client_id: Option<String>,
    /// Its secret. Defaults to the one stored by `lathe mcp add --client-secret`.
    pub client_secret: Option<String>,
    /// The port of the callback; any free one by default.
    pub callback_port: Option<u16>,
    /// The address of the authorisation server's metadata, instead of discovery.
    pub metadata_url: Option<String>,
    /// The scopes to request, separated by spaces.
    pub scopes: Option<String>,
    /// True to use the client's own credentials, without the user.
    pub client_credentials: bool,
    /// The client's private key (PEM), for signed client credentials.
    pub client_key: Option<String>,
    /// The signature algorithm (`ES256`, `RS256`); defaults to that of the key.
    pub signing_algorithm: Option<String>,
    /// True if authorisation servers may have private addresses.
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

/// Time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of a server until it is ready (`MCP_TIMEOUT`).
    pub start: Duration,
    /// One tool call (`MCP_TOOL_TIMEOUT`); if not set, a call may take as long as it makes
    /// progress.
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
    /// Reads the limits from the environment.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        let millis = |variable| {
            environment
                .number(variable)
                .filter(|value| *value > 0)
                .map(Duration::from_millis)
        };
        Self {
            start: millis(Variable::McpTimeout).unwrap_or(Self::default().start),
            tool: millis(Variable::McpToolTimeout),
        }
    }
}
