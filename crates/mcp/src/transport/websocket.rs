//! WebSocket with the subprotocol `mcp`, one message per frame.

use super::{Ending, FarEnd, Link, SendError, link};
use crate::auth::Access;
use crate::limits::MESSAGE_BYTES;
use crate::log::ServerLog;
use futures::{SinkExt as _, StreamExt as _};
use lathe_net::Network;
use lathe_settings::Environment;
use reqwest::header::HeaderMap;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream};
use url::Url;

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The server requires authorisation; the value is its challenge.
    #[error("the server requires authorisation")]
    Unauthorised(String),
    #[error("{0}")]
    Failed(String),
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub(crate) async fn connect(
    url: &Url,
    environment: &Environment,
    headers: &HeaderMap,
    access: &Access,
    log: &ServerLog,
    ending: &Ending,
) -> Result<Link, Refused> {
    let tls = match url.scheme() {
        "wss" => {
            let tls = Network::of(environment).tls();
            let tls = tls.map_err(|error| Refused::Failed(error.to_string()))?;
            Some(Connector::Rustls(Arc::new(tls)))
        }
        _ => None,
    };
    let token = access.bearer().await;
    let socket = match open(url, tls.clone(), headers, token.as_deref()).await {
        Err(Refused::Unauthorised(challenge)) => {
            let fresh = match &token {
                Some(token) => access.refused(token).await,
                None => None,
            };
            match fresh {
                Some(fresh) => open(url, tls, headers, Some(&fresh)).await?,
                None => return Err(Refused::Unauthorised(challenge)),
            }
        }
        opened => opened?,
    };
    let (near, far) = link(log.clone(), ending.clone());
    lathe_spawn::task(run(socket, far));
    Ok(near)
}

async fn open(
    url: &Url,
    tls: Option<Connector>,
    headers: &HeaderMap,
    token: Option<&str>,
) -> Result<Socket, Refused> {
    let failed = |error: Error| Refused::Failed(error.to_string());
    let mut request = url.as_str().into_client_request().map_err(failed)?;
    let all = request.headers_mut();
    all.insert(
        header::SEC_WEBSOCKET_PROTOCOL,
        HeaderValue::from_static("mcp"),
    );
    for (name, value) in headers {
        all.insert(name.clone(), value.clone());
    }
    if let Some(token) = token
        && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {token}"))
    {
        value.set_sensitive(true);
        all.insert(header::AUTHORIZATION, value);
    }
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES))
        .max_frame_size(Some(MESSAGE_BYTES));
    let connecting =
        tokio_tungstenite::connect_async_tls_with_config(request, Some(config), true, tls);
    match connecting.await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response))
            if matches!(
                response.status(),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
            ) =>
        {
            let challenge = response.headers().get(header::WWW_AUTHENTICATE);
            Err(Refused::Unauthorised(
                challenge
                    .and_then(|value| value.to_str().ok())
                    .unwrap_or_default()
                    .to_owned(),
            ))
        }
        Err(error) => Err(failed(error)),
    }
}

async fn run(socket: Socket, mut far: FarEnd) {
    let (mut sink, mut stream) = socket.split();
    loop {
        tokio::select! {
            message = far.outgoing.recv() => {
                let Some(message) = message else { break };
                let sent = sink
                    .send(Message::text(message.text))
                    .await
                    .map_err(|error| SendError(error.to_string()));
                if let Err(error) = &sent {
                    far.ending.because(error.to_string());
                }
                let failed = sent.is_err();
                let _ = message.sent.send(sent);
                if failed {
                    break;
                }
            }
            frame = stream.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    if !far.incoming.text(text.as_bytes()).await {
                        break;
                    }
                }
                Some(Ok(Message::Binary(bytes))) => {
                    if !far.incoming.text(&bytes).await {
                        break;
                    }
                }
                Some(Ok(Message::Close(_))) | None => {
                    far.ending.because("the server has closed the connection");
                    break;
                }
                // Pings are answered by the library.
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    far.ending.because(error.to_string());
                    break;
                }
            },
        }
    }
    drop(far.incoming);
    let _ = sink.close().await;
    far.ending.is_gone();
}
