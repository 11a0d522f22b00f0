//! The listener: one address, limits for everything, one task per connection.

use crate::devices::Devices;
use crate::guard::{self, Addresses};
use crate::listen::Listen;
use crate::problem::{Body, Problem};
use crate::relay::pairing::Pairings;
use crate::routes;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use lathe_session::SessionStore;
use lathe_settings::Environment;
use lathe_wire::Folder;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How long a client has for the head of a request, and for its body.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
const BODY_LIMIT: Duration = Duration::from_secs(60);
/// The largest head.
const LARGEST_HEAD: usize = 16 * 1024;
/// The largest body of JSON.
const LARGEST_JSON: usize = 1024 * 1024;
/// The largest upload.
const LARGEST_UPLOAD: usize = 32 * 1024 * 1024;
/// How many connections may be open that have not shown a token yet; the oldest is closed for a new one.
const STRANGERS: usize = 200;

/// How a server runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub listen: Listen,
    /// The relay through which devices elsewhere reach it, as `wss://host`.
    pub relay: Option<String>,
    /// Whether devices with the scope admin may widen permissions.
    pub allow_widening: bool,
    /// The environment, by which projects are found.
    pub environment: Environment,
    /// The configuration folder.
    pub config_home: PathBuf,
    /// The sockets of sessions.
    pub folder: Folder,
    /// The program that starts sessions.
    pub program: PathBuf,
    /// The fleet whose jobs the page shows.
    pub jobs: Option<Arc<dyn crate::jobs::Jobs>>,
}

/// Why a server can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is taken.
    #[error("cannot listen on {address}: {source}; choose another port with --port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// Tokens and conversations would cross a network in plain text.
    #[error(
        "{address} can be reached from other machines, and without TLS everything would be readable on the way; give --tls-cert and --tls-key, name a proxy that ends TLS with --proxy, or listen on 127.0.0.1"
    )]
    PlainText {
        /// The address.
        address: IpAddr,
    },
    /// No host name leads to it.
    #[error(
        "{address} stands for every address of this machine; say with --name under which host name devices reach it"
    )]
    NoName {
        /// The address.
        address: IpAddr,
    },
    /// The certificate or its key.
    #[error("{} can't be used for TLS: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The address of the relay.
    #[error("{relay:?} is no address of a relay: use wss://HOST (ws:// only on this machine)")]
    Relay {
        /// The address.
        relay: String,
    },
    /// The host's place at the relay.
    #[error(transparent)]
    Pairing(#[from] crate::relay::pairing::PairingError),
    /// Another server serves this configuration.
    #[error("another `lathe serve` runs for this configuration folder{}", address.as_ref().map_or_else(String::new, |address| format!(" at {address}")))]
    Running {
        /// Its address.
        address: Option<String>,
    },
    /// Its folder can't be used.
    #[error("cannot write to {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The folder can't be made.
    #[error(transparent)]
    Session(#[from] lathe_session::SessionError),
}

/// State that requests share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) addresses: Addresses,
    pub(crate) devices: Devices,
    pub(crate) store: SessionStore,
    pub(crate) links: crate::notify::Links,
    pub(crate) messages: crate::messages::Conversations,
    pub(crate) relay: watch::Sender<RelayState>,
    strangers: Mutex<VecDeque<(u64, CancellationToken)>>,
    next: std::sync::atomic::AtomicU64,
}

/// Whether the relay is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RelayState {
    /// It was not tried yet.
    #[default]
    Untried,
    /// It was.
    Reached,
    /// It was not, for this reason; it is tried again.
    Failed(String),
}

/// A server that listens. Dropping it ends it.
pub struct Server {
    address: SocketAddr,
    url: String,
    stop: CancellationToken,
    relay: watch::Receiver<RelayState>,
    /// Held as long as the server runs.
    _lock: std::fs::File,
    state: PathBuf,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// The beginning of links to the server that runs for a configuration folder, if one does.
#[must_use]
pub fn running(config_home: &std::path::Path) -> Option<String> {
    let folder = Devices::new(config_home).folder().to_owned();
    let file = std::fs::File::open(folder.join("lock")).ok()?;
    if file.try_lock().is_ok() {
        return None;
    }
    let text = std::fs::read_to_string(folder.join("address")).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// If it can't listen, or another one runs.
    pub async fn start(options: Options) -> Result<Self, ServeError> {
        options.listen.check()?;
        let tls = options.listen.acceptor()?;
        let devices = Devices::new(&options.config_home);
        let folder = devices.folder().to_owned();
        lathe_session::paths::create_private_folder(&folder)?;
        let failed = |source| ServeError::Folder {
            path: folder.clone(),
            source,
        };
        let lock = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join("lock"))
            .map_err(failed)?;
        if lock.try_lock().is_err() {
            return Err(ServeError::Running {
                address: running(&options.config_home),
            });
        }
        let address = SocketAddr::new(options.listen.address, options.listen.port);
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let url = options.listen.url(address.port());
        let state = folder.join("address");
        lathe_session::paths::write_private_file(&state, url.as_bytes())?;
        let station = match &options.relay {
            Some(relay) => {
                check_relay(relay)?;
                Some(Pairings::new(&folder).station(relay)?)
            }
            None => None,
        };
        let shared = Arc::new(Shared {
            addresses: Addresses::new(options.listen.hosts(address.port())),
            store: SessionStore::new(&options.config_home),
            devices,
            links: crate::notify::Links::default(),
            messages: crate::messages::Conversations::default(),
            relay: watch::Sender::default(),
            options,
            strangers: Mutex::default(),
            next: std::sync::atomic::AtomicU64::new(0),
        });
        let stop = CancellationToken::new();
        lathe_spawn::task(crate::schedules::watch(
            shared.options.clone(),
            stop.clone(),
        ));
        let telling = crate::notify::watch(Arc::clone(&shared), url.clone(), stop.clone());
        lathe_spawn::task(telling);
        if let Some(station) = station {
            let remote = crate::relay::host::run(Arc::clone(&shared), station, stop.clone());
            lathe_spawn::task(remote);
        }
        let relay = shared.relay.subscribe();
        lathe_spawn::task(accept(listener, tls, shared, stop.clone()));
        Ok(Self {
            address,
            url,
            stop,
            relay,
            _lock: lock,
            state,
        })
    }

    /// Whether the relay is reached, or why it is not, and each change of it.
    #[must_use]
    pub fn relay(&self) -> watch::Receiver<RelayState> {
        self.relay.clone()
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

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        let _ = std::fs::remove_file(&self.state);
    }
}

/// Refuses a relay that would be reached in plain text: it would see the proof of the room.
fn check_relay(relay: &str) -> Result<(), ServeError> {
    let wrong = || ServeError::Relay {
        relay: relay.to_owned(),
    };
    let url = url::Url::parse(relay).map_err(|_| wrong())?;
    let is_here = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "wss" if url.has_host() => Ok(()),
        "ws" if is_here => Ok(()),
        _ => Err(wrong()),
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (shared, stop) = (Arc::clone(&shared), stop.child_token());
                drop(lathe_spawn::task(connection(
                    stream,
                    tls.clone(),
                    shared,
                    stop,
                )));
            }
            // Out of descriptors: others are about to be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    let number = shared.meet(stop.clone());
    let service = {
        let (shared, stop) = (Arc::clone(&shared), stop.clone());
        service_fn(move |request| answer(request, Arc::clone(&shared), number, stop.clone()))
    };
    tokio::select! {
        () = speak(stream, tls, service) => {}
        () = stop.cancelled() => {}
    }
    shared.trust(number);
}

/// Speaks HTTP on a connection, with TLS if there is any.
pub(crate) async fn speak<S>(stream: TcpStream, tls: Option<TlsAcceptor>, service: S)
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Send,
    S::Future: Send,
{
    match tls {
        None => exchange(stream, service).await,
        // Who doesn't finish the handshake is not waited for.
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_LIMIT, tls.accept(stream)).await {
                exchange(stream, service).await;
            }
        }
    }
}

async fn exchange<S>(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, service: S)
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Send,
    S::Future: Send,
{
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A connection that broke needs no reason.
    let _ = serving.await;
}

impl Shared {
    /// Notes a connection that has shown no token, and closes the oldest if there are too many.
    fn meet(&self, stop: CancellationToken) -> u64 {
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut strangers = self.strangers.lock();
        strangers.push_back((number, stop));
        if strangers.len() > STRANGERS
            && let Some((_, oldest)) = strangers.pop_front()
        {
            oldest.cancel();
        }
        number
    }

    fn trust(&self, number: u64) {
        self.strangers.lock().retain(|(other, _)| *other != number);
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    number: u64,
    stop: CancellationToken,
) -> Result<Response<Body>, Infallible> {
    let is_page = guard::is_page(request.uri().path());
    let response = match handle(request, &shared, number, stop).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    Ok(with_headers(response, is_page))
}

/// The headers that every response has.
pub(crate) fn with_headers(mut response: Response<Body>, is_page: bool) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CONTENT_SECURITY_POLICY, routes::CSP),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
    headers.insert(
        "cross-origin-opener-policy",
        HeaderValue::from_static("same-origin"),
    );
    if !headers.contains_key(header::CACHE_CONTROL) {
        let value = if is_page { "no-cache" } else { "no-store" };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(value));
    }
    response
}

async fn handle(
    request: Request<Incoming>,
    shared: &Arc<Shared>,
    number: u64,
    stop: CancellationToken,
) -> Result<Response<Body>, Problem> {
    let (mut head, body) = request.into_parts();
    guard::check(&shared.addresses, &head.method, &head.uri, &head.headers)?;
    if guard::is_page(head.uri.path()) {
        return routes::page(head.uri.path());
    }
    let path = head.uri.path().to_owned();
    if path == "/v1/pair" && head.method == http::Method::POST {
        return routes::pair(shared, &read(body, LARGEST_JSON).await?);
    }
    if path.starts_with("/v1/links") && head.method == http::Method::POST {
        return routes::link(shared, &path, &read(body, LARGEST_JSON).await?).await;
    }
    let token = guard::token(&head.headers).map(str::to_owned);
    let device = match token {
        Some(token) => {
            let shared = Arc::clone(shared);
            lathe_spawn::blocking(move || shared.devices.of_token(&token))
                .await
                .ok()
                .flatten()
        }
        None => None,
    };
    let Some(device) = device else {
        return Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "a token is missing or not known; `lathe web` opens the page with one",
        ));
    };
    shared.trust(number);
    if let Some(speech) = crate::socket::Speech::at(&path) {
        let upgrade = head.extensions.remove::<hyper::upgrade::OnUpgrade>();
        return crate::socket::upgrade(shared, &head, upgrade, device, speech, stop);
    }
    let limit = if path.ends_with("/uploads") {
        LARGEST_UPLOAD
    } else {
        LARGEST_JSON
    };
    let body = read(body, limit).await?;
    routes::route(shared, &head, body, &device, stop).await
}

async fn read(body: Incoming, limit: usize) -> Result<Bytes, Problem> {
    let reading = Limited::new(body, limit).collect();
    match tokio::time::timeout(BODY_LIMIT, reading).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(_)) => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is cut off, or larger than {limit} bytes"),
        )),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body came too slowly",
        )),
    }
}
