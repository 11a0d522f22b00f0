//! Opens connections: the transport, and the handshake of the right protocol era.
//!
//! Unless the configuration names a version, the newer protocol is tried first and then the older
//! one, on a new transport if the first attempt broke it; the result is remembered
//! ([`crate::eras`]). Failures include the server's last output, which usually is the reason.

use crate::auth::{Access, Authoriser};
use crate::client::{Client, ConnectionContext};
use crate::connection::{CallError, Connection, sort_transport};
use crate::eras;
use crate::headers;
use crate::limits::{FAREWELL, MESSAGE_BYTES};
use crate::manager::Options;
use crate::net;
use crate::server::{ProtocolChoice, ServerConfig, TransportConfig};
use crate::text;
use crate::transport::http::{HttpClient, OwnStream};
use crate::transport::websocket::Refused;
use crate::transport::{Ending, InOrder, Link, sdk, sse, stdio, websocket};
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use url::Url;

/// How long to wait for a server's own stream.
const OWN_STREAM: Duration = Duration::from_secs(2);

/// The inputs for a connection.
pub(crate) struct Recipe<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) options: &'a Options,
    pub(crate) shared: &'a Arc<ConnectionContext>,
    pub(crate) authoriser: Option<&'a Arc<Authoriser>>,
}

pub(crate) async fn open(recipe: &Recipe<'_>) -> Result<Connection, CallError> {
    let home = &recipe.options.home;
    let auto = recipe.config.protocol == ProtocolChoice::Auto;
    let probes = !matches!(
        recipe.config.transport,
        // These two transports predate the newer protocol.
        TransportConfig::Sse(_) | TransportConfig::Sdk { .. }
    );
    let handshake = !probes || eras::needs_handshake(home, recipe.config);
    let first = attempt(recipe, auto && handshake).await;
    let connection = match first {
        // The server fails on the newer protocol, or no longer supports the remembered one.
        Err(CallError::Lost { .. } | CallError::Rpc(_) | CallError::Protocol(_))
            if auto && probes =>
        {
            attempt(recipe, !handshake).await
        }
        opened => opened,
    };
    let connection = match connection {
        Err(CallError::NotServed(reason)) => return over_sse(recipe, reason).await,
        connection => connection?,
    };
    if auto && probes {
        eras::remember(home, recipe.config, !connection.modern);
    }
    Ok(connection)
}

/// Connects with server-sent events to a server that doesn't serve streamable HTTP, if the
/// configuration doesn't insist on it. If that fails too, the first reason is the one to report.
async fn over_sse(recipe: &Recipe<'_>, reason: String) -> Result<Connection, CallError> {
    let TransportConfig::Http(remote) = &recipe.config.transport else {
        return Err(CallError::Failed(reason));
    };
    if !remote.sse_fallback {
        return Err(CallError::Failed(reason));
    }
    let config = ServerConfig {
        transport: TransportConfig::Sse(remote.clone()),
        ..recipe.config.clone()
    };
    let recipe = Recipe {
        config: &config,
        ..*recipe
    };
    match attempt(&recipe, true).await {
        Err(CallError::Auth(challenge)) => Err(CallError::Auth(challenge)),
        Err(_) => Err(CallError::Failed(reason)),
        connection => connection,
    }
}

fn lifecycle(
    choice: &ProtocolChoice,
    handshake: bool,
) -> Result<(ClientLifecycleMode, ProtocolVersion), CallError> {
    let latest = ProtocolVersion::LATEST_WITH_INITIALIZE;
    match choice {
        ProtocolChoice::Auto if handshake => Ok((ClientLifecycleMode::Initialize, latest)),
        ProtocolChoice::Auto => {
            let mode = ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(latest.clone()),
            };
            Ok((mode, latest))
        }
        ProtocolChoice::Only(version) => {
            let version = ProtocolVersion::KNOWN_VERSIONS
                .iter()
                .find(|known| known.as_str() == version)
                .ok_or_else(|| {
                    let known: Vec<_> = ProtocolVersion::KNOWN_VERSIONS
                        .iter()
                        .map(ProtocolVersion::as_str)
                        .collect();
                    CallError::Failed(format!(
                        "the protocol version {version} is unknown; supported: {}",
                        known.join(", ")
                    ))
                })?
                .clone();
            let mode = if version.has_initialize() {
                ClientLifecycleMode::Initialize
            } else {
                ClientLifecycleMode::Discover {
                    preferred_versions: vec![version.clone()],
                }
            };
            Ok((mode, version))
        }
    }
}

async fn attempt(recipe: &Recipe<'_>, handshake: bool) -> Result<Connection, CallError> {
    let (mode, version) = lifecycle(&recipe.config.protocol, handshake)?;
    let client = Client {
        shared: recipe.shared.clone(),
        version,
    };
    let ending = Ending::default();
    let (served, lingers) = match &recipe.config.transport {
        TransportConfig::Http(remote) => {
            let url = headers::address(&remote.url)?;
            let fixed = headers::of(remote, &recipe.options.environment).await?;
            let http = net::client(&recipe.options.environment, &url)?;
            let access = Access(recipe.authoriser.cloned());
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
            config.max_sse_event_size = MESSAGE_BYTES;
            let requests = HttpClient::new(http, fixed, access);
            let own_stream = requests.own_stream();
            let transport = StreamableHttpClientTransport::with_client(requests, config);
            let transport = in_order(transport, recipe);
            let served = client.serve_with_lifecycle(transport, mode).await;
            if served.is_ok() {
                opened(own_stream).await;
            }
            (served, false)
        }
        _ => {
            let link = in_order(link(recipe, &ending).await?, recipe);
            (client.serve_with_lifecycle(link, mode).await, true)
        }
    };
    match served {
        Ok(running) => Connection::new(running, recipe.shared.clone(), ending, lingers),
        Err(error) => {
            if lingers {
                // The exit status and the last output often are the reason.
                let _ = tokio::time::timeout(FAREWELL * 2, ending.gone()).await;
            }
            Err(not_connected(&error, &ending, recipe))
        }
    }
}

fn in_order<T>(transport: T, recipe: &Recipe<'_>) -> InOrder<T> {
    InOrder {
        transport,
        shared: recipe.shared.clone(),
    }
}

/// Waits briefly for the stream on which a server with sessions sends requests: those sent before
/// it is open are lost.
async fn opened(mut own_stream: watch::Receiver<OwnStream>) {
    let open = own_stream.wait_for(|stream| *stream != OwnStream::Expected);
    let _ = tokio::time::timeout(OWN_STREAM, open).await;
}

/// Opens a connection made of two channels.
async fn link(recipe: &Recipe<'_>, ending: &Ending) -> Result<Link, CallError> {
    let log = &recipe.shared.log;
    let environment = &recipe.options.environment;
    let confine = recipe.options.confine.as_ref();
    let access = Access(recipe.authoriser.cloned());
    let refused = |refused: Refused| match refused {
        Refused::Unauthorised(challenge) => CallError::Auth(challenge),
        Refused::Failed(reason) => CallError::Failed(reason),
    };
    match &recipe.config.transport {
        TransportConfig::Stdio(program) => {
            stdio::connect(program, environment, confine, log, ending)
                .map_err(|error| CallError::Failed(error.to_string()))
        }
        TransportConfig::Sdk { name } => {
            let host = recipe.options.in_process.as_ref().ok_or_else(|| {
                CallError::Failed("there is no SDK host to reach this server through".to_owned())
            })?;
            let channel = host
                .open(name)
                .map_err(|error| CallError::Failed(error.to_string()))?;
            Ok(sdk::connect(channel, log.clone(), ending))
        }
        TransportConfig::Sse(remote) | TransportConfig::Http(remote) => {
            let url = headers::address(&remote.url)?;
            let fixed = headers::of(remote, environment).await?;
            let http = net::client(environment, &url)?;
            sse::connect(http, &url, fixed, access, log, ending)
                .await
                .map_err(refused)
        }
        TransportConfig::WebSocket(remote) => {
            let url = Url::parse(&remote.url)
                .ok()
                .filter(|url| matches!(url.scheme(), "ws" | "wss"))
                .ok_or_else(|| {
                    CallError::Failed(format!("{:?} is not a ws:// or wss:// address", remote.url))
                })?;
            let fixed = headers::of(remote, environment).await?;
            websocket::connect(&url, environment, &fixed, &access, log, ending)
                .await
                .map_err(refused)
        }
    }
}

fn not_connected(error: &ClientInitializeError, ending: &Ending, recipe: &Recipe<'_>) -> CallError {
    if let Some(challenge) = error.auth_challenge() {
        return CallError::Auth(challenge.to_owned());
    }
    let error = match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => fallback.as_ref(),
        error => error,
    };
    match error {
        ClientInitializeError::JsonRpcError(error) => CallError::Rpc(error.clone()),
        ClientInitializeError::TransportError { error, .. } => {
            let mut sorted = sort_transport(error.error.as_ref());
            if let (CallError::Lost { reason, .. }, Some(ended)) = (&mut sorted, ending.reason()) {
                *reason = with_last_words(ended, recipe);
            }
            sorted
        }
        ClientInitializeError::ConnectionClosed(_) => {
            let reason = ending
                .reason()
                .unwrap_or_else(|| "it closed the connection before it was ready".to_owned());
            CallError::Lost {
                reason: with_last_words(reason, recipe),
                unsent: false,
            }
        }
        ClientInitializeError::NoCompatibleProtocolVersion {
            server_supported, ..
        } => {
            let known: Vec<_> = server_supported
                .iter()
                .map(ProtocolVersion::as_str)
                .collect();
            CallError::Failed(format!(
                "no common protocol version (the server supports {})",
                text::line(&known.join(", "), 200)
            ))
        }
        other => CallError::Protocol(text::line(&other.to_string(), 300)),
    }
}

fn with_last_words(reason: String, recipe: &Recipe<'_>) -> String {
    match recipe.shared.log.last_words() {
        Some(words) if matches!(recipe.config.transport, TransportConfig::Stdio(_)) => {
            format!("{reason}; it said: {words}")
        }
        _ => reason,
    }
}
