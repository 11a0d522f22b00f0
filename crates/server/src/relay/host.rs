//! The host's side of a room: handshakes, the admission of devices, and the API and the wire through channels.
//!
//! Messages inside a channel are JSON:
//!
//! ```text
//! host → device   {"welcome":{"device","scope","name","token"?}}     or {"refused": why}
//! device → host   {"id":N,"req":{"method","path","body"?,"base64"?}}   → {"id":N,"res":{"status","body"}}
//! device → host   {"open":N,"session":ID,"as":"messages"?,"after":UUID?}  {"wire":N,"line":…}  {"close":N}
//! host → device   {"wire":N,"line":…}  {"closed":N}
//! ```

use super::channel::{Channel, Received, Side};
use super::envelope::{Envelope, LARGEST, VERSION};
use super::keys::{self, Hi, Identity};
use super::pairing::{Pairing, Pairings, Seen, Station, Verdict};
use super::{HOST, PROOF_PROTOCOL, PROTOCOL, backoff};
use crate::devices::Device;
use crate::routes;
use crate::serve::{RelayState, Shared};
use crate::socket::Speech;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::BodyExt as _;
use lathe_net::Network;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc;
use tokio_tungstenite::Connector;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_util::sync::CancellationToken;

/// How often acknowledgements and decisions are looked at.
const TICK: Duration = Duration::from_millis(250);
/// How many devices may talk at once.
const MOST_PEERS: usize = 32;
/// How many messages wait to be encrypted.
const QUEUE: usize = 256;
/// How many lines wait for a session.
const LINES: usize = 64;
/// A device that said nothing for this long makes room for another.
const QUIET: Duration = Duration::from_secs(15);
/// A device that said nothing for this long is gone; a page asks every few seconds.
const GONE: Duration = Duration::from_secs(11 * 60);
/// A relay that says nothing for this long is gone.
const SILENCE: Duration = Duration::from_secs(60);

type Line =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// Keeps the host in its room until the server ends. It never gives up.
pub(crate) async fn run(shared: Arc<Shared>, station: Station, stop: CancellationToken) {
    let Ok(identity) = station.identity() else {
        return;
    };
    let mut attempt = 0;
    let mut room = Room::new(shared, station, identity);
    loop {
        let connected = tokio::select! {
            connected = connect(&room.station, &room.shared) => connected,
            () = stop.cancelled() => return,
        };
        let state = match &connected {
            Ok(_) => RelayState::Reached,
            Err(error) => RelayState::Failed(error.to_string()),
        };
        let told = &room.shared.relay;
        told.send_if_modified(|last| {
            let is_news = std::mem::discriminant(last) != std::mem::discriminant(&state);
            *last = state;
            is_news
        });
        match connected {
            Ok(line) => {
                attempt = 0;
                tokio::select! {
                    () = room.attend(line) => {}
                    () = stop.cancelled() => return,
                }
            }
            Err(error) => tracing::debug!(%error, "the relay can't be reached"),
        }
        let random = f64::from(getrandom::u32().unwrap_or(u32::MAX)) / f64::from(u32::MAX);
        let pause = backoff(attempt, random);
        attempt += 1;
        tokio::select! {
            () = rest(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Waits, and no longer when the machine slept meanwhile.
async fn rest(pause: Duration) {
    let mut left = pause;
    while !left.is_zero() {
        let slice = left.min(Duration::from_secs(1));
        let before = SystemTime::now();
        tokio::time::sleep(slice).await;
        let passed = before.elapsed().unwrap_or_default();
        if passed > slice + Duration::from_secs(5) {
            return;
        }
        left = left.saturating_sub(slice);
    }
}

/// Why the relay can't be reached.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error(transparent)]
    Socket(#[from] Box<tokio_tungstenite::tungstenite::Error>),
    #[error("the address of the relay is wrong")]
    Address,
    #[error("TLS can't be used: {0}")]
    Tls(String),
}

async fn connect(station: &Station, shared: &Shared) -> Result<Line, ConnectError> {
    let tls = if station.relay.starts_with("wss:") {
        let tls = Network::of(&shared.options.environment).tls();
        let tls = tls.map_err(|error| ConnectError::Tls(error.to_string()))?;
        Some(Connector::Rustls(Arc::new(tls)))
    } else {
        None
    };
    let address = format!(
        "{}/v1/room?room={}&as={HOST}",
        station.relay,
        station.room()
    );
    let mut request = address
        .into_client_request()
        .map_err(|_| ConnectError::Address)?;
    let protocols = format!("{PROTOCOL}, {PROOF_PROTOCOL}{}", station.proof());
    let protocols = protocols.parse().map_err(|_| ConnectError::Address)?;
    request
        .headers_mut()
        .insert(http::header::SEC_WEBSOCKET_PROTOCOL, protocols);
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST));
    tokio_tungstenite::connect_async_tls_with_config(request, Some(config), true, tls)
        .await
        .map(|(line, _)| line)
        .map_err(|error| ConnectError::Socket(Box::new(error)))
}

/// Who is at the other end of a channel.
enum Standing {
    /// It waits for the user's decision.
    Waiting(Pairing, String),
    /// A known device.
    Known(Device),
}

struct Peer {
    channel: Channel,
    standing: Standing,
    /// The key of its handshake, and the answer: who asks again gets the same.
    greeting: (String, String),
    /// Lines for the sessions that it has open.
    wires: HashMap<u64, mpsc::Sender<String>>,
    /// When something of it came last.
    heard: Instant,
    /// Ends what it has open.
    stop: CancellationToken,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A message of one of the tasks for a device, by its channel.
struct Outgoing {
    member: String,
    stream: String,
    message: Value,
}

struct Room {
    shared: Arc<Shared>,
    station: Station,
    identity: Identity,
    room: String,
    pairings: Pairings,
    peers: HashMap<String, Peer>,
    sender: mpsc::Sender<Outgoing>,
    outgoing: mpsc::Receiver<Outgoing>,
}

/// A message of a device.
#[derive(Deserialize)]
struct Incoming {
    id: Option<u64>,
    req: Option<Ask>,
    open: Option<u64>,
    session: Option<String>,
    /// The language there: the wire, unless it says `messages`.
    r#as: Option<String>,
    /// The last message that the device has.
    after: Option<String>,
    wire: Option<u64>,
    line: Option<String>,
    close: Option<u64>,
}

#[derive(Deserialize)]
struct Ask {
    method: String,
    path: String,
    body: Option<String>,
    base64: Option<String>,
}

impl Room {
    fn new(shared: Arc<Shared>, station: Station, identity: Identity) -> Self {
        let (sender, outgoing) = mpsc::channel(QUEUE);
        Self {
            pairings: Pairings::new(shared.devices.folder()),
            room: station.room(),
            shared,
            station,
            identity,
            peers: HashMap::new(),
            sender,
            outgoing,
        }
    }

    /// Serves the room as long as the connection lasts. Channels outlive it.
    async fn attend(&mut self, line: Line) {
        let (mut out, mut frames) = line.split();
        let mut tick = tokio::time::interval(TICK);
        let mut heard = tokio::time::Instant::now();
        // What was lost while the connection was gone is asked for again.
        let mut send: Vec<String> = self
            .peers
            .values()
            .map(|it| it.channel.ask_again())
            .collect();
        loop {
            for frame in send.drain(..) {
                if out.send(Message::text(frame)).await.is_err() {
                    return;
                }
            }
            send = tokio::select! {
                message = frames.next() => {
                    heard = tokio::time::Instant::now();
                    match message {
                        Some(Ok(Message::Text(text))) => self.take(text.as_str()),
                        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => Vec::new(),
                        Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    }
                }
                Some(outgoing) = self.outgoing.recv() => self.encrypt(&outgoing),
                _ = tick.tick() => {
                    if heard.elapsed() > SILENCE {
                        return;
                    }
                    self.look()
                }
            };
        }
    }

    /// Takes a frame of the relay. One dirty frame ends nothing.
    fn take(&mut self, text: &str) -> Vec<String> {
        let Ok(envelope) = serde_json::from_str::<Envelope>(text) else {
            return Vec::new();
        };
        if envelope.v != VERSION || envelope.room != self.room || envelope.to != HOST {
            return Vec::new();
        }
        if envelope.stream.is_empty() {
            return self.greet(&envelope).into_iter().collect();
        }
        let Some(peer) = self.peers.get_mut(&envelope.from) else {
            return Vec::new();
        };
        let received = peer.channel.receive(&envelope);
        if matches!(received, Ok(Received::Message(_) | Received::Nothing)) {
            peer.heard = Instant::now();
        }
        match received {
            Ok(Received::Message(message)) => {
                self.message(&envelope.from, &message);
                Vec::new()
            }
            Ok(Received::Gap) => vec![peer.channel.ask_again()],
            Ok(Received::Again(frames)) => frames,
            Ok(Received::Nothing | Received::Replayed) => Vec::new(),
            Ok(Received::Tampered) => {
                tracing::warn!(member = %envelope.from, "a frame was changed on its way through the relay");
                Vec::new()
            }
            Err(broken) => {
                tracing::warn!(member = %envelope.from, %broken, "a channel is over");
                self.peers.remove(&envelope.from);
                Vec::new()
            }
        }
    }

    /// Answers a handshake, if it is of a link that waits or of a device that is known.
    fn greet(&mut self, envelope: &Envelope) -> Option<String> {
        if self.peers.len() >= MOST_PEERS && !self.peers.contains_key(&envelope.from) {
            // Those that left say nothing any more.
            self.peers.retain(|_, peer| peer.heard.elapsed() < QUIET);
            if self.peers.len() >= MOST_PEERS {
                return None;
            }
        }
        let hi: Hi = serde_json::from_slice(&STANDARD.decode(&envelope.ct).ok()?).ok()?;
        if let Some(peer) = self.peers.get(&envelope.from)
            && peer.greeting.0 == hi.e
        {
            return Some(peer.greeting.1.clone());
        }
        let (kind, id) = hi.who.split_once(':')?;
        let (known, pairing) = match kind {
            "pair" => {
                let pairing = self.pairings.find(id)?;
                (pairing.secret.clone(), Some(pairing))
            }
            "device" => {
                let devices = self.shared.devices.list().ok()?;
                let device = devices.into_iter().find(|device| device.id == id)?;
                (device.hash, None)
            }
            _ => return None,
        };
        let (answer, agreed) =
            keys::answer(&self.identity, &self.room, &envelope.from, &hi, &known).ok()?;
        let standing = match pairing {
            Some(pairing) => {
                let seen = Seen {
                    digits: agreed.digits.clone(),
                    name: hi.name.chars().take(40).collect(),
                };
                if !self.pairings.note(&pairing.id, &seen) {
                    return None;
                }
                Standing::Waiting(pairing, seen.name)
            }
            None => {
                let devices = self.shared.devices.list().ok()?;
                Standing::Known(devices.into_iter().find(|device| device.id == id)?)
            }
        };
        let is_known = matches!(standing, Standing::Known(_));
        let channel = Channel::new(agreed, Side::Host, &self.room, HOST, &envelope.from);
        let reply = Envelope {
            v: VERSION,
            room: self.room.clone(),
            from: HOST.to_owned(),
            to: envelope.from.clone(),
            stream: String::new(),
            seq: 0,
            ack: 0,
            part: None,
            ct: STANDARD.encode(serde_json::to_vec(&answer).unwrap_or_default()),
        };
        let reply = reply.to_text();
        let peer = Peer {
            channel,
            standing,
            greeting: (hi.e, reply.clone()),
            wires: HashMap::new(),
            heard: Instant::now(),
            stop: CancellationToken::new(),
        };
        self.peers.insert(envelope.from.clone(), peer);
        if is_known {
            self.welcome(&envelope.from, None);
        }
        Some(reply)
    }

    /// Queues a message for a device.
    fn say(&self, member: &str, message: Value) {
        let Some(peer) = self.peers.get(member) else {
            return;
        };
        let outgoing = Outgoing {
            member: member.to_owned(),
            stream: peer.channel.stream().to_owned(),
            message,
        };
        if self.sender.try_send(outgoing).is_err() {
            tracing::warn!(member, "too much waits for the relay");
        }
    }

    fn welcome(&self, member: &str, token: Option<&str>) {
        let Some(Standing::Known(device)) = self.peers.get(member).map(|peer| &peer.standing)
        else {
            return;
        };
        let mut welcome = json!({"device": device.id, "scope": device.scope, "name": device.name});
        if let Some(token) = token {
            welcome["token"] = token.into();
        }
        self.say(member, json!({"welcome": welcome}));
    }

    fn encrypt(&mut self, outgoing: &Outgoing) -> Vec<String> {
        let Some(peer) = self.peers.get_mut(&outgoing.member) else {
            return Vec::new();
        };
        // It may have come again in another channel.
        if peer.channel.stream() != outgoing.stream {
            return Vec::new();
        }
        match peer.channel.send(outgoing.message.to_string().as_bytes()) {
            Ok(frames) => frames,
            Err(broken) => {
                tracing::debug!(member = %outgoing.member, %broken, "a channel is over");
                self.peers.remove(&outgoing.member);
                Vec::new()
            }
        }
    }

    /// Acknowledges what came, and looks for decisions about devices that wait, and for revoked ones.
    fn look(&mut self) -> Vec<String> {
        let mut send = Vec::new();
        let members: Vec<String> = self.peers.keys().cloned().collect();
        for member in members {
            self.decide(&member);
            let Some(peer) = self.peers.get_mut(&member) else {
                continue;
            };
            let is_revoked = match &peer.standing {
                Standing::Known(device) => !self.shared.is_known(device),
                Standing::Waiting(..) => false,
            };
            if is_revoked || peer.heard.elapsed() > GONE {
                self.peers.remove(&member);
            } else if peer.channel.owes(true) {
                send.extend(peer.channel.send(b"").unwrap_or_default());
            }
        }
        send
    }

    /// Admits or refuses a device that waits, once the user has decided.
    fn decide(&mut self, member: &str) {
        let Some(peer) = self.peers.get_mut(member) else {
            return;
        };
        let Standing::Waiting(pairing, name) = &peer.standing else {
            return;
        };
        let verdict = self.pairings.verdict(&pairing.id);
        let is_over = self.pairings.find(&pairing.id).is_none();
        if verdict.is_none() && !is_over {
            return;
        }
        let (id, scope) = (pairing.id.clone(), pairing.scope);
        let admitted = match verdict {
            Some(Verdict::Admit) if !is_over => self.shared.devices.admit(name, scope).ok(),
            _ => None,
        };
        self.pairings.end(&id);
        match admitted {
            Some((device, token)) => {
                peer.standing = Standing::Known(device);
                self.welcome(member, Some(&token));
            }
            None => self.say(member, json!({"refused": "the device was not admitted"})),
        }
    }

    /// A message of a device. One that is not admitted is not heard.
    fn message(&mut self, member: &str, message: &[u8]) {
        let Ok(incoming) = serde_json::from_slice::<Incoming>(message) else {
            return;
        };
        let Some(peer) = self.peers.get_mut(member) else {
            return;
        };
        let Standing::Known(device) = &peer.standing else {
            return;
        };
        let answering = Answering {
            shared: Arc::clone(&self.shared),
            device: device.clone(),
            sender: self.sender.clone(),
            member: member.to_owned(),
            stream: peer.channel.stream().to_owned(),
        };
        match incoming {
            Incoming {
                id: Some(id),
                req: Some(ask),
                ..
            } => {
                let stop = peer.stop.child_token();
                lathe_spawn::task(answering.request(id, ask, stop));
            }
            Incoming {
                open: Some(number),
                session: Some(session),
                r#as,
                after,
                ..
            } if peer.wires.len() < MOST_PEERS => {
                let speech = match r#as.as_deref() {
                    None | Some("wire") => Speech::Wire,
                    Some("messages") => Speech::Messages,
                    Some(_) => return,
                };
                let (lines, receiver) = mpsc::channel(LINES);
                peer.wires.insert(number, lines);
                let stop = peer.stop.child_token();
                lathe_spawn::task(async move {
                    tokio::select! {
                        () = answering.session(number, session, speech, after, receiver) => {}
                        () = stop.cancelled() => {}
                    }
                });
            }
            Incoming {
                wire: Some(number),
                line: Some(line),
                ..
            } => {
                // A session that does not read loses the connection, not the others theirs.
                let is_lost = |lines: &mpsc::Sender<String>| lines.try_send(line).is_err();
                if peer.wires.get(&number).is_some_and(is_lost) {
                    peer.wires.remove(&number);
                }
            }
            Incoming {
                close: Some(number),
                ..
            } => {
                peer.wires.remove(&number);
            }
            _ => {}
        }
    }
}

/// The answers for one device.
#[derive(Clone)]
struct Answering {
    shared: Arc<Shared>,
    device: Device,
    sender: mpsc::Sender<Outgoing>,
    member: String,
    stream: String,
}

impl Answering {
    async fn say(&self, message: Value) -> Result<(), mpsc::error::SendError<Outgoing>> {
        let outgoing = Outgoing {
            member: self.member.clone(),
            stream: self.stream.clone(),
            message,
        };
        self.sender.send(outgoing).await
    }

    /// A request of the API.
    async fn request(self, id: u64, ask: Ask, stop: CancellationToken) {
        let (status, body) = self.answer(ask, stop).await;
        let message = json!({"id": id, "res": {"status": status, "body": body}});
        // Nobody is there any more otherwise.
        let _ = self.say(message).await;
    }

    async fn answer(&self, ask: Ask, stop: CancellationToken) -> (u16, String) {
        let wrong = (400, r#"{"detail":"the request is wrong"}"#.to_owned());
        let request = http::Request::builder()
            .method(ask.method.as_str())
            .uri(ask.path.as_str())
            .body(());
        let Ok(request) = request else { return wrong };
        let head = request.into_parts().0;
        if head.uri.path().ends_with("/events") || Speech::at(head.uri.path()).is_some() {
            return (
                404,
                r#"{"detail":"streams have no address here"}"#.to_owned(),
            );
        }
        let body = match (ask.body, ask.base64) {
            (Some(body), _) => Bytes::from(body),
            (None, Some(text)) => match STANDARD.decode(text) {
                Ok(bytes) => Bytes::from(bytes),
                Err(_) => return wrong,
            },
            (None, None) => Bytes::new(),
        };
        let response = routes::route(&self.shared, &head, body, &self.device, stop).await;
        let response = response.unwrap_or_else(crate::Problem::into_response);
        let status = response.status().as_u16();
        let body = response.into_body().collect().await;
        let body = body
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// A connection to a session.
    async fn session(
        self,
        number: u64,
        session: String,
        speech: Speech,
        after: Option<String>,
        lines: mpsc::Receiver<String>,
    ) {
        if let Ok(host) = self.shared.host(&session) {
            let lines = futures::stream::unfold(lines, |mut lines| async move {
                let line = lines.recv().await?;
                Some((line, lines))
            });
            let out =
                futures::sink::unfold(self.clone(), move |own: Self, line: String| async move {
                    own.say(json!({"wire": number, "line": line})).await?;
                    Ok::<_, mpsc::error::SendError<Outgoing>>(own)
                });
            let (lines, out) = (Box::pin(lines), Box::pin(out));
            let (shared, device) = (&self.shared, &self.device);
            match speech {
                Speech::Wire => crate::socket::bridge(lines, out, shared, &host.id, device).await,
                Speech::Messages => {
                    crate::messages::converse(lines, out, shared, &host, device, after).await;
                }
            }
        }
        let _ = self.say(json!({"closed": number})).await;
    }
}
