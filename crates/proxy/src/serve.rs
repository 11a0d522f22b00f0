//! Connections to the proxy, from the greeting of the bridge to their end.
//!
//! A helper in a sandbox greets in one of two ways: for each connection of a command (`LATHE1 http NAME` or `LATHE1
//! socks NAME`, then what the client sends), or once, with the sockets that it listens on in its own network (`LATHE1
//! listen NAME`). Those are served from here for as long as the helper lives, and nobody copies bytes between.

use crate::http::{self, LONGEST_HEAD, Request};
use crate::reach::Unreached;
use crate::socks::{self, Answer};
use crate::terminate::{self, Route};
use crate::{Shared, Wanted};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest,
    copy_bidirectional_with_sizes,
};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

/// How much is copied at once.
pub(crate) const CHUNK: usize = 256 * 1024;
/// How long a client may take to say what it wants.
const HEAD_LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn listen(listener: UnixListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Out of descriptors: those that end make room.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    if let Err(error) = serve(stream, &shared).await {
                        tracing::trace!(%error, "a connection of the sandbox ended");
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A client: the helper's unix socket, or a connection in the sandbox's own network.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}
type Client = Box<dyn Duplex>;

async fn serve(mut stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let greeting = tokio::time::timeout(HEAD_LIMIT, async {
        // Sockets come with the first byte.
        let (first, sockets) = first_byte(&stream).await?;
        let rest = read_until(&mut stream, b"\n", 512).await?;
        Ok::<_, io::Error>((first, rest, sockets))
    });
    let (first, rest, sockets) = greeting.await??;
    let greeting = format!("{}{}", char::from(first), String::from_utf8_lossy(&rest));
    let mut words = greeting.trim_end().splitn(3, ' ');
    let (Some("LATHE1"), Some(kind), command) = (words.next(), words.next(), words.next()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    };
    let command = command.unwrap_or_default();
    match kind {
        "listen" => serve_sockets(stream, sockets, shared, command).await,
        _ => serve_client(Box::new(stream), Kind::of(kind), shared, command.to_owned()).await,
    }
}

async fn first_byte(stream: &UnixStream) -> io::Result<(u8, Vec<OwnedFd>)> {
    let read = || lathe_sandbox::receive_sockets(stream.as_fd());
    stream.async_io(Interest::READABLE, read).await
}

/// The protocol of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Socks,
}

impl Kind {
    fn of(name: &str) -> Self {
        if name == "http" {
            Self::Http
        } else {
            Self::Socks
        }
    }
}

/// Serves sockets that listen in the network of a sandbox, HTTP and SOCKS, until the helper that sent them is gone.
async fn serve_sockets(
    mut helper: UnixStream,
    sockets: Vec<OwnedFd>,
    shared: &Arc<Shared>,
    command: &str,
) -> io::Result<()> {
    let listener = |socket: OwnedFd| {
        let socket = std::net::TcpListener::from(socket);
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket)
    };
    let Ok([http, socks]) = <[OwnedFd; 2]>::try_from(sockets) else {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    };
    let (http, socks) = (listener(http)?, listener(socks)?);
    let mut connections = JoinSet::new();
    let mut more = [0];
    loop {
        let (accepted, kind) = tokio::select! {
            accepted = http.accept() => (accepted, Kind::Http),
            accepted = socks.accept() => (accepted, Kind::Socks),
            // It sends nothing else: this is its end, and that of every process in the sandbox.
            _ = helper.read(&mut more) => return Ok(()),
            Some(_) = connections.join_next() => continue,
        };
        let Ok((client, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let _ = client.set_nodelay(true);
        let (shared, command) = (Arc::clone(shared), command.to_owned());
        connections.spawn(async move {
            let served = serve_client(Box::new(client), kind, &shared, command).await;
            if let Err(error) = served {
                tracing::trace!(%error, "a connection of the sandbox ended");
            }
        });
    }
}

async fn serve_client(
    mut client: Client,
    kind: Kind,
    shared: &Shared,
    command: String,
) -> io::Result<()> {
    let own = {
        let policy = shared.policy.read();
        match kind {
            Kind::Http => policy.own_http_proxy,
            Kind::Socks => policy.own_socks_proxy,
        }
    };
    if let Some(port) = own {
        let mut theirs = TcpStream::connect(("127.0.0.1", port)).await?;
        return join(&mut client, &mut theirs).await;
    }
    match kind {
        Kind::Http => serve_http(client, shared, command).await,
        Kind::Socks => serve_socks(client, shared, command).await,
    }
}

/// Reads byte by byte up to an end, so that nothing behind it is taken.
pub(crate) async fn read_until<R: AsyncRead + Unpin>(
    reader: &mut R,
    end: &[u8],
    most: usize,
) -> io::Result<Vec<u8>> {
    let mut read = Vec::with_capacity(256);
    while !read.ends_with(end) {
        if read.len() >= most {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        read.push(reader.read_u8().await?);
    }
    Ok(read)
}

async fn serve_http(stream: Client, shared: &Shared, command: String) -> io::Result<()> {
    let mut stream = tokio::io::BufReader::new(stream);
    let head = tokio::time::timeout(
        HEAD_LIMIT,
        read_until(&mut stream, b"\r\n\r\n", LONGEST_HEAD),
    )
    .await??;
    let request = match http::parse(&head) {
        Ok(request) => request,
        Err(error) => return refuse(&mut stream, "400 Bad Request", &error.to_string()).await,
    };
    let (Request::Connect { host, port } | Request::Forward { host, port, .. }) = &request;
    let wanted = Wanted {
        host: host.clone(),
        port: *port,
        command,
    };
    let server = match shared.reach(&wanted).await {
        Ok(server) => server,
        Err(Unreached::Refused(reason)) => {
            let text = format!("the sandbox does not allow {}: {reason}", wanted.host);
            return refuse(&mut stream, "403 Forbidden", &text).await;
        }
        Err(Unreached::Failed(reason)) => {
            let text = format!("{} was not reached: {reason}", wanted.host);
            return refuse(&mut stream, "502 Bad Gateway", &text).await;
        }
    };
    match request {
        Request::Connect { .. } => {
            stream
                .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                .await?;
            through(stream, server, shared, &wanted).await
        }
        Request::Forward { head, body, .. } => {
            let mut server = server;
            server.write_all(&head).await?;
            let mut exactly = (&mut stream).take(body);
            tokio::io::copy(&mut exactly, &mut server).await?;
            // The answer, and nothing else: what else the client sends is not for this server.
            tokio::io::copy(&mut server, &mut stream).await?;
            stream.shutdown().await
        }
    }
}

async fn refuse(
    stream: &mut tokio::io::BufReader<Client>,
    status: &str,
    text: &str,
) -> io::Result<()> {
    let body = format!("lathe: {text}\n");
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

async fn serve_socks(mut stream: Client, shared: &Shared, command: String) -> io::Result<()> {
    let accepted = tokio::time::timeout(HEAD_LIMIT, socks::accept(&mut stream)).await??;
    let Some((host, port)) = accepted else {
        return Ok(());
    };
    let wanted = Wanted {
        host,
        port,
        command,
    };
    match shared.reach(&wanted).await {
        Ok(server) => {
            socks::answer(&mut stream, Answer::Done).await?;
            let stream = tokio::io::BufReader::new(stream);
            through(stream, server, shared, &wanted).await
        }
        Err(Unreached::Refused(_)) => socks::answer(&mut stream, Answer::NotAllowed).await,
        Err(Unreached::Failed(_)) => socks::answer(&mut stream, Answer::Unreachable).await,
    }
}

/// Connects a client with a server; a TLS connection to a host that credentials are for is looked into.
async fn through(
    mut stream: tokio::io::BufReader<Client>,
    mut server: TcpStream,
    shared: &Shared,
    wanted: &Wanted,
) -> io::Result<()> {
    let masking = shared.masking.read().clone();
    let masks = masking
        .as_deref()
        .and_then(|masking| Some((masking, masking.masks(&wanted.host, wanted.port)?)));
    let Some((masking, masks)) = masks else {
        return join(&mut stream, &mut server).await;
    };
    let mut first = [0];
    let is_tls = tokio::select! {
        // TLS begins with this byte, from the client.
        began = stream.fill_buf() => began?.first() == Some(&0x16),
        // Another protocol, in which the server speaks first.
        _ = server.peek(&mut first) => false,
    };
    if !is_tls {
        return join(&mut stream, &mut server).await;
    }
    let _ = server.set_nodelay(true);
    let route = Route {
        host: &wanted.host,
        port: wanted.port,
        masking,
        masks: &masks,
    };
    terminate::serve(stream, server, &route).await
}

/// Copies both ways until both have ended.
async fn join<C: AsyncRead + AsyncWrite + Unpin>(
    client: &mut C,
    server: &mut TcpStream,
) -> io::Result<()> {
    let _ = server.set_nodelay(true);
    copy_bidirectional_with_sizes(client, server, CHUNK, CHUNK)
        .await
        .map(drop)
}
