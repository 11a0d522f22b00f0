//! The wire as a WebSocket: frames pass as they are, except operations that the device may not ask for.

use crate::devices::Device;
use crate::guard::{self, PROTOCOL};
use crate::problem::{Body, Problem, full};
use crate::serve::Shared;
use futures::{SinkExt as _, StreamExt as _};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use lathe_wire::{Client, ClientFrame, ClientKind, Hello, HostFrame, HostId, Nak, NakCode};
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;

/// The largest frame of a client.
const LARGEST: usize = 8 * 1024 * 1024;
/// How long a client has for its first frame.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Answers the handshake of a WebSocket.
pub(crate) fn upgrade(
    shared: &Arc<Shared>,
    head: &Parts,
    upgrade: Option<OnUpgrade>,
    device: Device,
    stop: CancellationToken,
) -> Result<Response<Body>, Problem> {
    let key = head.headers.get(header::SEC_WEBSOCKET_KEY);
    let wants = head
        .headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let (Some(key), Some(upgrade), true) = (key, upgrade, wants) else {
        return Err(Problem::new(
            StatusCode::UPGRADE_REQUIRED,
            "this is the address of a WebSocket",
        ));
    };
    if !guard::protocols(&head.headers).any(|word| word == PROTOCOL) {
        return Err(Problem::bad(format!(
            "the subprotocol {PROTOCOL} is missing"
        )));
    }
    let wanted = crate::routes::parameter(&head.uri, "session")
        .ok_or_else(|| Problem::bad("the parameter session is missing"))?;
    let host = shared.host(&wanted)?;
    let accept = derive_accept_key(key.as_bytes());
    let shared = Arc::clone(shared);
    drop(lathe_spawn::task(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(LARGEST))
            .max_frame_size(Some(LARGEST));
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config))
                .await;
        tokio::select! {
            () = bridge(socket, &shared, &host.id, &device) => {}
            () = stop.cancelled() => {}
        }
    }));
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(
        header::SEC_WEBSOCKET_PROTOCOL,
        HeaderValue::from_static(PROTOCOL),
    );
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok(response)
}

fn text(frame: &HostFrame) -> Message {
    Message::text(
        String::from_utf8_lossy(&frame.to_line())
            .trim_end()
            .to_owned(),
    )
}

/// Passes frames between a browser and a session until either goes away.
async fn bridge(mut socket: Socket, shared: &Shared, id: &HostId, device: &Device) {
    let after = match tokio::time::timeout(HELLO_LIMIT, socket.next()).await {
        Ok(Some(Ok(Message::Text(line)))) => match ClientFrame::parse(line.as_bytes()) {
            Ok(ClientFrame::Hello(hello)) => hello.after,
            _ => return,
        },
        _ => return,
    };
    // The name and the kind are those of the token, whatever the client says.
    let mut hello = Hello::new(&device.name, ClientKind::Page);
    hello.after = after;
    let Ok(mut client) = Client::connect(&shared.options.folder, id, hello).await else {
        let bye = HostFrame::Bye("the session's process is gone".to_owned());
        let _ = socket.send(text(&bye)).await;
        return;
    };
    let sender = client.sender();
    loop {
        tokio::select! {
            frame = client.next() => {
                let Ok(Some(frame)) = frame else { return };
                // A revoked device hears no more, at the next beat at the latest.
                if matches!(frame, HostFrame::Beat(_)) && !shared.is_known(device) {
                    return;
                }
                if socket.send(text(&frame)).await.is_err() {
                    return;
                }
            }
            message = socket.next() => match message {
                Some(Ok(Message::Text(line))) => match checked(line.as_bytes(), shared, device) {
                    Ok(frame) => if sender.post(&frame).await.is_err() { return },
                    Err(Some(nak)) => {
                        if socket.send(text(&HostFrame::Nak(nak))).await.is_err() {
                            return;
                        }
                    }
                    // One dirty frame doesn't end a connection.
                    Err(None) => {}
                },
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            }
        }
    }
}

/// A frame that may pass: operations within the device's scope, under its name.
fn checked(line: &[u8], shared: &Shared, device: &Device) -> Result<ClientFrame, Option<Box<Nak>>> {
    let nak = |id, why: String, code| {
        Some(Box::new(Nak {
            id,
            why,
            code,
            by: None,
            reply: None,
        }))
    };
    match ClientFrame::parse(line) {
        Ok(ClientFrame::Op { id, op, .. }) => match shared.permit(device, &op) {
            Ok(()) => Ok(ClientFrame::Op {
                id,
                op,
                by: Some(device.name.clone()),
            }),
            Err(problem) => Err(nak(id, problem.detail, NakCode::Refused)),
        },
        Ok(_) => Err(None),
        Err(error) => match ClientFrame::id_in(line) {
            Some(id) => Err(nak(id, error.to_string(), NakCode::Invalid)),
            None => Err(None),
        },
    }
}
