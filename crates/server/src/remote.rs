//! A session behind a server elsewhere, for a terminal here: `https://HOST/s/ID#c=CODE`.
//!
//! The code in the fragment admits this machine once; the token that it becomes is kept for the host, in a file of the server's
//! folder, so that the address alone is enough later. A token never stands on a command line, where others could read it.

use crate::devices::Devices;
use crate::guard::{PROTOCOL, TOKEN_PROTOCOL};
use futures::{SinkExt as _, StreamExt as _};
use lathe_net::{ClientOptions, Network};
use lathe_session::paths::{create_private_folder, write_private_file};
use lathe_settings::Environment;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, BufReader, DuplexStream};
use tokio_tungstenite::Connector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use url::Url;

/// How many bytes wait between the socket and its reader.
const BUFFER: usize = 64 * 1024;

/// Why a session elsewhere can't be reached.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Not an address of a session.
    #[error("{0:?} is no address of a session: it looks like https://HOST/s/ID#c=CODE")]
    Address(String),
    /// Everything would be readable on the way.
    #[error(
        "{0} is another machine, and without TLS everything would be readable on the way; use https"
    )]
    PlainText(String),
    /// The host does not know this machine.
    #[error(
        "{0} does not know this machine; make a link there with `lathe web --print --scope admin ID`"
    )]
    Unknown(String),
    /// The code was used, or is too old.
    #[error("{host} refuses the code: {why}")]
    Code {
        /// The host.
        host: String,
        /// Its words.
        why: String,
    },
    /// The host refuses.
    #[error("{host} refuses: {status}")]
    Refused {
        /// The host.
        host: String,
        /// The status of its answer.
        status: http::StatusCode,
    },
    /// The session is not there, or does not run.
    #[error("{host} has no live session {session:?}")]
    NoSession {
        /// The host.
        host: String,
        /// The session.
        session: String,
    },
    /// The network.
    #[error("{host} can't be reached: {reason}")]
    Network {
        /// The host.
        host: String,
        /// Why.
        reason: String,
    },
    /// The token can't be kept.
    #[error(transparent)]
    Keep(#[from] lathe_session::SessionError),
}

/// The address of a session at a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAddress {
    origin: Url,
    session: String,
    code: Option<String>,
}

impl RemoteAddress {
    /// Reads an address; `None` if it is nothing of the web.
    ///
    /// # Errors
    /// If it is an address of the web, but not one of a session.
    pub fn parse(text: &str) -> Option<Result<Self, RemoteError>> {
        if !text.starts_with("https:") && !text.starts_with("http:") {
            return None;
        }
        Some(Self::parsed(text))
    }

    fn parsed(text: &str) -> Result<Self, RemoteError> {
        let without = text.split('#').next().unwrap_or_default();
        let wrong = || RemoteError::Address(without.to_owned());
        let url = Url::parse(text).map_err(|_| wrong())?;
        let is_here = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => return Err(wrong()),
        };
        if url.scheme() == "http" && !is_here {
            let host = url.host_str().unwrap_or_default();
            return Err(RemoteError::PlainText(host.to_owned()));
        }
        let session = url.path().strip_prefix("/s/").ok_or_else(wrong)?;
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if session.is_empty() || !session.bytes().all(fine) {
            return Err(wrong());
        }
        let code = url.fragment().and_then(|fragment| {
            url::form_urlencoded::parse(fragment.as_bytes())
                .find(|(name, _)| name == "c")
                .map(|(_, code)| code.into_owned())
        });
        let session = session.to_owned();
        let mut origin = url;
        origin.set_path("/");
        origin.set_query(None);
        origin.set_fragment(None);
        Ok(Self {
            origin,
            session,
            code,
        })
    }

    fn host(&self) -> String {
        self.origin.host_str().unwrap_or_default().to_owned()
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.origin.clone();
        url.set_path(path);
        url
    }
}

/// Tokens of hosts that admitted this machine.
struct Remotes(PathBuf);

impl Remotes {
    fn new(config_home: &Path) -> Self {
        Self(Devices::new(config_home).folder().join("remotes.json"))
    }

    fn read(&self) -> BTreeMap<String, String> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn keep(&self, origin: &Url, token: &str) -> Result<(), RemoteError> {
        let mut all = self.read();
        all.insert(origin.to_string(), token.to_owned());
        if let Some(folder) = self.0.parent() {
            create_private_folder(folder)?;
        }
        let text = serde_json::to_vec(&all).unwrap_or_default();
        Ok(write_private_file(&self.0, &text)?)
    }
}

/// Exchanges the code of a link for a token, and keeps it.
async fn admit(
    address: &RemoteAddress,
    code: &str,
    network: &Network,
    remotes: &Remotes,
) -> Result<String, RemoteError> {
    let host = address.host();
    let failed = |reason: String| RemoteError::Network {
        host: host.clone(),
        reason,
    };
    let client = network
        .client(&ClientOptions::default())
        .map_err(|error| failed(error.to_string()))?;
    let request = client
        .post(address.at("/v1/pair"))
        .timeout(Duration::from_secs(20))
        .json(&json!({"code": code, "name": "terminal"}));
    let answer = request.send().await;
    let answer = answer.map_err(|error| failed(error.without_url().to_string()))?;
    let is_fine = answer.status().is_success();
    let body: Value = answer.json().await.unwrap_or_default();
    match body["token"].as_str().filter(|_| is_fine) {
        Some(token) => {
            remotes.keep(&address.origin, token)?;
            Ok(token.to_owned())
        }
        None => Err(RemoteError::Code {
            host,
            why: body["detail"].as_str().unwrap_or("no reason").to_owned(),
        }),
    }
}

/// Connects to a session elsewhere. Lines of the wire go both ways.
///
/// # Errors
/// If it can't be reached, or this machine is not admitted there.
pub async fn connect(
    address: &RemoteAddress,
    environment: &Environment,
    config_home: &Path,
) -> Result<DuplexStream, RemoteError> {
    let network = Network::of(environment);
    let remotes = Remotes::new(config_home);
    let token = match &address.code {
        Some(code) => admit(address, code, &network, &remotes).await?,
        None => {
            let known = remotes.read().remove(address.origin.as_str());
            known.ok_or_else(|| RemoteError::Unknown(address.host()))?
        }
    };
    let failed = |reason: String| RemoteError::Network {
        host: address.host(),
        reason,
    };
    let mut wire = address.at("/v1/wire");
    wire.query_pairs_mut()
        .append_pair("session", &address.session);
    let is_plain = address.origin.scheme() == "http";
    let connector = if is_plain {
        Connector::Plain
    } else {
        let tls = network.tls().map_err(|error| failed(error.to_string()))?;
        Connector::Rustls(Arc::new(tls))
    };
    let text = wire.as_str().replacen("http", "ws", 1);
    let mut request = text
        .into_client_request()
        .map_err(|error| failed(error.to_string()))?;
    let protocols = format!("{PROTOCOL}, {TOKEN_PROTOCOL}{token}");
    let protocols = protocols
        .parse()
        .map_err(|_| RemoteError::Unknown(address.host()))?;
    request
        .headers_mut()
        .insert(http::header::SEC_WEBSOCKET_PROTOCOL, protocols);
    let connecting =
        tokio_tungstenite::connect_async_tls_with_config(request, None, true, Some(connector));
    let socket = match connecting.await {
        Ok((socket, _)) => socket,
        Err(Error::Http(answer)) => {
            let host = address.host();
            return Err(match answer.status() {
                http::StatusCode::UNAUTHORIZED => RemoteError::Unknown(host),
                http::StatusCode::NOT_FOUND => RemoteError::NoSession {
                    host,
                    session: address.session.clone(),
                },
                status => RemoteError::Refused { host, status },
            });
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    let (near, far) = tokio::io::duplex(BUFFER);
    lathe_spawn::task(carry(socket, far));
    Ok(near)
}

/// Carries lines between a WebSocket and a stream until either ends.
async fn carry<S>(socket: tokio_tungstenite::WebSocketStream<S>, stream: DuplexStream)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
{
    let (mut out, mut frames) = socket.split();
    let (reader, mut writer) = tokio::io::split(stream);
    let sending = async {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while let Ok(true) = lathe_wire::client::read_line(&mut reader, &mut line).await {
            let text = String::from_utf8_lossy(&line).into_owned();
            if out.send(Message::text(text)).await.is_err() {
                return;
            }
        }
    };
    let receiving = async {
        while let Some(Ok(message)) = frames.next().await {
            let Message::Text(text) = message else {
                continue;
            };
            let line = format!("{}\n", text.as_str());
            if writer.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = sending => {}
        () = receiving => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_host_a_session_and_maybe_a_code() {
        for (text, wanted) in [
            (
                "https://box.example/s/6f2a",
                Some(("https://box.example/", "6f2a", None)),
            ),
            (
                "https://box.example:8443/s/6f2a#c=abc",
                Some(("https://box.example:8443/", "6f2a", Some("abc"))),
            ),
            (
                "http://127.0.0.1:4077/s/6f2a-11#x=1&c=a%2Bb",
                Some(("http://127.0.0.1:4077/", "6f2a-11", Some("a+b"))),
            ),
            (
                "http://localhost:1/s/a",
                Some(("http://localhost:1/", "a", None)),
            ),
            ("http://box.example/s/6f2a", None),
            ("https://box.example/6f2a", None),
            ("https://box.example/s/", None),
            ("https://box.example/s/../x", None),
            ("https://box.example/s/a/b", None),
            ("https:///s/", None),
        ] {
            let parsed = RemoteAddress::parse(text).unwrap().ok();
            let parsed = parsed
                .as_ref()
                .map(|it| (it.origin.as_str(), it.session.as_str(), it.code.as_deref()));
            assert_eq!(parsed, wanted, "{text}");
        }
        for other in ["6f2a", "ssh://host/6f2a", "unix:/x"] {
            assert!(RemoteAddress::parse(other).is_none(), "{other}");
        }
        let error = RemoteAddress::parse("https://box.example/x#c=planted").unwrap();
        assert!(!error.unwrap_err().to_string().contains("planted"));
    }
}
