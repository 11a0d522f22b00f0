//! The wire as a WebSocket: frames pass as they are, except operations that the device may not ask for.

use crate::devices::Device;
use crate::guard::{self, PROTOCOL};
use crate::problem::{Body, Problem, full};
use crate::serve::Shared;
use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use lathe_wire::{Client, ClientFrame, ClientKind, Hello, HostFrame, HostId, Nak, NakCode};
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

/// The largest frame of a client.
const LARGEST: usize = 8 * 1024 * 1024;
/// How long a client has for its first frame.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// The language of a connection to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    /// The frames of the wire.
    Wire,
    /// Messages, by the rules of a remote conversation.
    Messages,
}

impl Speech {
    /// The language at an address of the server.
    pub(crate) fn at(path: &str) -> Option<Self> {
        match path {
            "/v1/wire" => Some(Self::Wire),
            "/v1/messages" => Some(Self::Messages),
            _ => None,
        }
    }
}

/// A WebSocket of a client.
pub(crate) type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Answers the handshake of a WebSocket to a session.
pub(crate) fn upgrade(
    shared: &Arc<Shared>,
    head: &Parts,
    upgrade: Option<OnUpgrade>,
    device: Device,
    speech: Speech,
    stop: CancellationToken,
) -> Result<Response<Body>, Problem> {
    check(head, PROTOCOL)?;
    let wanted = crate::routes::parameter(&head.uri, "session")
        .ok_or_else(|| Problem::bad("the parameter session is missing"))?;
    let host = shared.host(&wanted)?;
    let after = crate::routes::parameter(&head.uri, "after");
    let shared = Arc::clone(shared);
    accept(head, upgrade, PROTOCOL, LARGEST, move |socket| async move {
        let (out, lines) = socket.split();
        let lines = lines
            .take_while(|message| {
                let open = matches!(message, Ok(message) if !message.is_close());
                std::future::ready(open)
            })
            .filter_map(|message| {
                let text = match message {
                    Ok(Message::Text(text)) => Some(text.as_str().to_owned()),
                    _ => None,
                };
                std::future::ready(text)
            });
        let out = out.with(|line: String| std::future::ready(Ok::<_, Error>(Message::text(line))));
        let speaking = async {
            match speech {
                Speech::Wire => bridge(lines, out, &shared, &host.id, &device).await,
                Speech::Messages => {
                    crate::messages::converse(lines, out, &shared, &host, &device, after).await;
                }
            }
        };
        tokio::select! {
            () = speaking => {}
            () = stop.cancelled() => {}
        }
    })
}

fn no_socket() -> Problem {
    let status = StatusCode::UPGRADE_REQUIRED;
    Problem::new(status, "this is the address of a WebSocket")
}

/// Whether a request is the handshake of a WebSocket; gives its key.
fn check<'a>(head: &'a Parts, protocol: &str) -> Result<&'a HeaderValue, Problem> {
    let wants = head
        .headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let key = head.headers.get(header::SEC_WEBSOCKET_KEY);
    let key = key.filter(|_| wants).ok_or_else(no_socket)?;
    if !guard::protocols(&head.headers).any(|word| word == protocol) {
        return Err(Problem::bad(format!(
            "the subprotocol {protocol} is missing"
        )));
    }
    Ok(key)
}

/// Answers the handshake of a WebSocket, and hands it on once it is open.
pub(crate) fn accept<F>(
    head: &Parts,
    upgrade: Option<OnUpgrade>,
    protocol: &'static str,
    largest: usize,
    serve: impl FnOnce(Socket) -> F + Send + 'static,
) -> Result<Response<Body>, Problem>
where
    F: Future<Output = ()> + Send,
{
    let key = check(head, protocol)?;
    let upgrade = upgrade.ok_or_else(no_socket)?;
    let accept = derive_accept_key(key.as_bytes());
    drop(lathe_spawn::task(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(largest))
            .max_frame_size(Some(largest));
        let upgraded = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
        serve(socket).await;
    }));
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(
        header::SEC_WEBSOCKET_PROTOCOL,
        HeaderValue::from_static(protocol),
    );
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok(response)
}

fn line(frame: &HostFrame) -> String {
    let line = frame.to_line();
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

/// Passes frames between a device and a session until either goes away.
pub(crate) async fn bridge(
    mut lines: impl Stream<Item = String> + Unpin,
    mut out: impl Sink<String> + Unpin,
    shared: &Shared,
    id: &HostId,
    device: &Device,
) {
    let said = match tokio::time::timeout(HELLO_LIMIT, lines.next()).await {
        Ok(Some(line)) => match ClientFrame::parse(line.as_bytes()) {
            Ok(ClientFrame::Hello(hello)) => hello,
            _ => return,
        },
        _ => return,
    };
    let is_terminal = said.kind == ClientKind::Terminal && said.size.is_some();
    if is_terminal && let Err(problem) = shared.permit_terminal(device) {
        let _ = out.send(line(&HostFrame::Bye(problem.detail))).await;
        return;
    }
    // The name and the kind are those of the token, whatever the client says.
    let mut hello = Hello::new(&device.name, ClientKind::Page);
    if is_terminal {
        hello.kind = ClientKind::Terminal;
        hello.size = said.size;
    }
    hello.after = said.after;
    let Ok(mut client) = Client::connect(&shared.options.folder, id, hello).await else {
        let bye = HostFrame::Bye("the session's process is gone".to_owned());
        let _ = out.send(line(&bye)).await;
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
                if out.send(line(&frame)).await.is_err() {
                    return;
                }
            }
            received = lines.next() => match received {
                Some(received) => match checked(received.as_bytes(), shared, device, is_terminal) {
                    Ok(frame) => if sender.post(&frame).await.is_err() { return },
                    Err(Some(nak)) => {
                        if out.send(line(&HostFrame::Nak(nak))).await.is_err() {
                            return;
                        }
                    }
                    // One dirty frame doesn't end a connection.
                    Err(None) => {}
                },
                None => return,
            }
        }
    }
}

/// A prompt whose images got their types; `None` if it is nothing with images.
fn repaired(line: &[u8]) -> Option<Vec<u8>> {
    const IMAGE: &[u8] = b"\"image\"";
    if !line.windows(IMAGE.len()).any(|part| part == IMAGE) {
        return None;
    }
    let mut frame: serde_json::Value = serde_json::from_slice(line).ok()?;
    let op = frame.get_mut("op").filter(|op| op["type"] == "prompt")?;
    crate::rules::repair_content(&mut op["content"]);
    serde_json::to_vec(&frame).ok()
}

/// A frame that may pass: operations within the device's scope, under its name.
fn checked(
    line: &[u8],
    shared: &Shared,
    device: &Device,
    is_terminal: bool,
) -> Result<ClientFrame, Option<Box<Nak>>> {
    let nak = |id, why: String, code| {
        Some(Box::new(Nak {
            id,
            why,
            code,
            by: None,
            reply: None,
        }))
    };
    let repaired = repaired(line);
    let line = repaired.as_deref().unwrap_or(line);
    match ClientFrame::parse(line) {
        Ok(ClientFrame::Op { id, op, .. }) => match shared.permit(device, &op) {
            Ok(()) => Ok(ClientFrame::Op {
                id,
                op,
                by: Some(device.name.clone()),
            }),
            Err(problem) => Err(nak(id, problem.detail, NakCode::Refused)),
        },
        Ok(ClientFrame::Input(bytes)) if is_terminal && shared.is_known(device) => {
            Ok(ClientFrame::Input(bytes))
        }
        Ok(ClientFrame::Size(size)) if is_terminal => Ok(ClientFrame::Size(size)),
        Ok(_) => Err(None),
        Err(error) => match ClientFrame::id_in(line) {
            Some(id) => Err(nak(id, error.to_string(), NakCode::Invalid)),
            None => Err(None),
        },
    }
}
