//! `lathe relay`: passes envelopes between the members of a room, and knows nothing else.
//!
//! It keeps nothing: a frame for somebody who is not there, or does not read, is gone, and the two ends notice. It
//! serves the page too; the link's fragment, with the keys, never reaches it.

use super::envelope::LARGEST;
use super::pairing::room_of;
use super::{HOST, PROOF_PROTOCOL, PROTOCOL};
use crate::guard::{self, Addresses};
use crate::listen::Listen;
use crate::problem::{Body, Problem};
use crate::serve::{self, ServeError};
use crate::{routes, socket};
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

/// How many rooms there may be.
const MOST_ROOMS: usize = 10_000;
/// How many members a room may have.
const MOST_MEMBERS: usize = 32;
/// How many connections may be open.
const MOST_CONNECTIONS: usize = 4_000;
/// How many frames wait for a member.
const QUEUE: usize = 256;
/// How often a silent connection is asked whether it is there.
const PING: Duration = Duration::from_secs(20);

type Rooms = HashMap<String, HashMap<String, (u64, mpsc::Sender<String>)>>;

struct State {
    addresses: Addresses,
    rooms: Mutex<Rooms>,
    connections: AtomicUsize,
    next: std::sync::atomic::AtomicU64,
}

/// A relay that listens. Dropping it ends it.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    url: String,
    stop: CancellationToken,
}

impl Relay {
    /// Starts a relay.
    ///
    /// # Errors
    /// If it can't listen, or would do so in plain text on a network.
    pub async fn start(listen: &Listen) -> Result<Self, ServeError> {
        listen.check()?;
        let tls = listen.acceptor()?;
        let address = SocketAddr::new(listen.address, listen.port);
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let state = Arc::new(State {
            addresses: Addresses::new(listen.hosts(address.port())),
            rooms: Mutex::default(),
            connections: AtomicUsize::new(0),
            next: std::sync::atomic::AtomicU64::new(0),
        });
        let stop = CancellationToken::new();
        let ended = stop.clone();
        lathe_spawn::task(async move {
            tokio::select! {
                () = accept(listener, tls, &state, &ended) => {}
                () = ended.cancelled() => {}
            }
        });
        Ok(Self {
            address,
            url: listen.url(address.port()),
            stop,
        })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The beginning of links to it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<tokio_rustls::TlsAcceptor>,
    state: &Arc<State>,
    stop: &CancellationToken,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: others are about to be closed.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if state.connections.load(Ordering::Relaxed) >= MOST_CONNECTIONS {
            continue;
        }
        let (state, stop, tls) = (Arc::clone(state), stop.child_token(), tls.clone());
        lathe_spawn::task(async move {
            state.connections.fetch_add(1, Ordering::Relaxed);
            let service = {
                let (state, stop) = (Arc::clone(&state), stop.clone());
                hyper::service::service_fn(move |request| {
                    answer(request, Arc::clone(&state), stop.clone())
                })
            };
            tokio::select! {
                () = serve::speak(stream, tls, service) => {}
                () = stop.cancelled() => {}
            }
            state.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
    stop: CancellationToken,
) -> Result<Response<Body>, Infallible> {
    let is_page = guard::is_page(request.uri().path());
    let response = handle(request, &state, stop).unwrap_or_else(Problem::into_response);
    Ok(serve::with_headers(response, is_page))
}

fn handle(
    request: Request<Incoming>,
    state: &Arc<State>,
    stop: CancellationToken,
) -> Result<Response<Body>, Problem> {
    let (mut head, _) = request.into_parts();
    guard::check(&state.addresses, &head.method, &head.uri, &head.headers)?;
    let path = head.uri.path();
    if guard::is_page(path) {
        return routes::page(path);
    }
    if path != "/v1/room" {
        return Err(Problem::not_found("such address at a relay"));
    }
    let upgrade = head.extensions.remove::<OnUpgrade>();
    let room = routes::parameter(&head.uri, "room").unwrap_or_default();
    let member = routes::parameter(&head.uri, "as").unwrap_or_default();
    let fine = |text: &str, length| {
        (1..=length).contains(&text.len())
            && text
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it))
    };
    if !fine(&room, 64) || !fine(&member, 64) {
        return Err(Problem::bad("room and as are names of letters and digits"));
    }
    let proof = guard::protocols(&head.headers).find_map(|word| word.strip_prefix(PROOF_PROTOCOL));
    if member == HOST && proof.map(room_of).as_deref() != Some(room.as_str()) {
        return Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "the proof of this room is missing or wrong",
        ));
    }
    let state = Arc::clone(state);
    socket::accept(
        &head,
        upgrade,
        PROTOCOL,
        LARGEST,
        move |socket| async move {
            tokio::select! {
                () = attend(&state, &room, &member, socket) => {}
                () = stop.cancelled() => {}
            }
        },
    )
}

/// The fields that a relay looks at.
#[derive(Deserialize)]
struct Address<'a> {
    #[serde(borrow)]
    room: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    from: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    to: std::borrow::Cow<'a, str>,
}

/// A member of a room, until it leaves.
async fn attend(state: &State, room: &str, member: &str, mut socket: socket::Socket) {
    let Some((number, mut frames)) = state.enter(room, member) else {
        return;
    };
    let mut ping = tokio::time::interval_at(tokio::time::Instant::now() + PING, PING);
    let mut silent = 0;
    loop {
        let sent = tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => socket.send(Message::text(frame)).await,
                // Somebody took this place.
                None => break,
            },
            _ = ping.tick() => {
                silent += 1;
                if silent > 2 { break }
                socket.send(Message::Ping(bytes::Bytes::new())).await
            },
            message = socket.next() => {
                silent = 0;
                match message {
                    Some(Ok(Message::Text(text))) => {
                        state.pass(room, member, text.as_str());
                        Ok(())
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => Ok(()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                }
            }
        };
        if sent.is_err() {
            break;
        }
    }
    state.leave(room, member, number);
}

impl State {
    /// Takes a member in. A host that comes again takes its place anew; a device can't take another's.
    fn enter(&self, room: &str, member: &str) -> Option<(u64, mpsc::Receiver<String>)> {
        let mut rooms = self.rooms.lock();
        if !rooms.contains_key(room) && rooms.len() >= MOST_ROOMS {
            return None;
        }
        let members = rooms.entry(room.to_owned()).or_default();
        let is_taken = members.contains_key(member) && member != HOST;
        if is_taken || members.len() >= MOST_MEMBERS {
            return None;
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        members.insert(member.to_owned(), (number, sender));
        Some((number, receiver))
    }

    fn leave(&self, room: &str, member: &str, number: u64) {
        let mut rooms = self.rooms.lock();
        if let Some(members) = rooms.get_mut(room) {
            if members.get(member).is_some_and(|(own, _)| *own == number) {
                members.remove(member);
            }
            if members.is_empty() {
                rooms.remove(room);
            }
        }
    }

    /// Passes a frame on as it is, or drops it.
    fn pass(&self, room: &str, member: &str, frame: &str) {
        let Ok(address) = serde_json::from_str::<Address<'_>>(frame) else {
            return;
        };
        if address.room != room || address.from != member {
            return;
        }
        // Devices talk to the host only, and the host to devices.
        if (member == HOST) == (address.to == HOST) {
            return;
        }
        let rooms = self.rooms.lock();
        let to = rooms
            .get(room)
            .and_then(|members| members.get(address.to.as_ref()));
        if let Some((_, to)) = to {
            // Who does not read loses frames, and notices.
            let _ = to.try_send(frame.to_owned());
        }
    }
}
