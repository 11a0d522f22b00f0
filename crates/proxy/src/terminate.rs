//! TLS connections to hosts that credentials are for: ended here, looked into, and made again to the host.

use crate::http::{self, BadRequest, Body, LONGEST_HEAD};
use crate::masking::{Masking, Masks, Pair, Replacer};
use crate::serve::{CHUNK, read_until};
use lathe_sandbox::Host;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use std::io;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt,
    BufReader,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The longest line before a piece of a body.
const LONGEST_LINE: usize = 4096;

/// Where a connection leads, and what is put into it.
pub(crate) struct Route<'a> {
    pub(crate) host: &'a Host,
    pub(crate) port: u16,
    pub(crate) masking: &'a Masking,
    pub(crate) masks: &'a Masks<'a>,
}

/// Why requests are not passed on any more.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("{0}")]
    Bad(#[from] BadRequest),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Stands between a client that begins TLS and a server.
pub(crate) async fn serve<C: AsyncRead + AsyncWrite + Unpin>(
    client: C,
    server: TcpStream,
    route: &Route<'_>,
) -> io::Result<()> {
    let config = route.masking.authority.server(route.host);
    let config = config.map_err(io::Error::other)?;
    let client = TlsAcceptor::from(config).accept(client).await?;
    let (reader, mut writer) = tokio::io::split(client);
    let name = match route.host {
        Host::Name(name) => {
            ServerName::try_from(name.clone()).map_err(|_| io::ErrorKind::InvalidInput)?
        }
        Host::Address(address) => ServerName::from(*address),
    };
    let connector = TlsConnector::from(route.masking.tls.clone());
    let server = match connector.connect(name, server).await {
        Ok(server) => server,
        Err(error) => {
            let text = format!("{} was not reached: {error}", route.host);
            return refuse(&mut writer, "502 Bad Gateway", &text).await;
        }
    };
    let (mut answers, mut requests) = tokio::io::split(server);
    let hides = Mutex::new(route.masks.pairs());
    let refused = {
        let up = pass_requests(BufReader::new(reader), &mut requests, route, &hides);
        let down = pass_answers(&mut answers, &mut writer, &hides);
        tokio::pin!(up, down);
        tokio::select! {
            outcome = &mut up => match outcome {
                Ok(()) => {
                    down.await?;
                    None
                }
                Err(Ended::Bad(bad)) => Some(bad),
                Err(Ended::Io(error)) => return Err(error),
            },
            outcome = &mut down => {
                outcome?;
                None
            }
        }
    };
    match refused {
        Some(bad) => refuse(&mut writer, "400 Bad Request", &bad.to_string()).await,
        None => Ok(()),
    }
}

async fn refuse<W: AsyncWrite + Unpin>(writer: &mut W, status: &str, text: &str) -> io::Result<()> {
    let body = format!("lathe: {text}\n");
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    writer.write_all(answer.as_bytes()).await?;
    writer.shutdown().await
}

/// Passes requests on, one after the other, with the real credentials in their headers.
async fn pass_requests<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin>(
    mut client: R,
    server: &mut W,
    route: &Route<'_>,
    hides: &Mutex<Vec<Pair>>,
) -> Result<(), Ended> {
    loop {
        if client.fill_buf().await?.is_empty() {
            server.shutdown().await?;
            return Ok(());
        }
        let head = read_until(&mut client, b"\r\n\r\n", LONGEST_HEAD).await?;
        let request = http::parse_inner(&head, route.host, route.port)?;
        let mut text = request.first.clone();
        for (name, value) in &request.headers {
            // What is packed can't be searched for what must not come back.
            if name.eq_ignore_ascii_case("accept-encoding") {
                continue;
            }
            match route.masks.reveal(value) {
                Some((revealed, pair)) => {
                    let mut hides = hides.lock();
                    if let Some(pair) = pair.filter(|pair| !hides.contains(pair)) {
                        hides.push(pair);
                    }
                    drop(hides);
                    text.push_str(&format!("{name}: {revealed}\r\n"));
                }
                None => text.push_str(&format!("{name}: {value}\r\n")),
            }
        }
        text.push_str("Accept-Encoding: identity\r\n\r\n");
        server.write_all(text.as_bytes()).await?;
        match request.body {
            Body::Length(length) => {
                let mut exactly = (&mut client).take(length);
                tokio::io::copy_buf(&mut exactly, server).await?;
            }
            Body::Chunked => pass_chunks(&mut client, server).await?,
        }
        server.flush().await?;
        if request.upgrades {
            tokio::io::copy_buf(&mut client, server).await?;
            server.shutdown().await?;
            return Ok(());
        }
    }
}

/// Passes a body on that comes in pieces.
async fn pass_chunks<R: AsyncBufRead + Unpin, W: AsyncWrite + Unpin>(
    client: &mut R,
    server: &mut W,
) -> Result<(), Ended> {
    loop {
        let line = read_until(client, b"\r\n", LONGEST_LINE).await?;
        let digits: Vec<u8> = line
            .iter()
            .copied()
            .take_while(u8::is_ascii_hexdigit)
            .collect();
        let length = std::str::from_utf8(&digits)
            .ok()
            .filter(|digits| !digits.is_empty() && digits.len() <= 15)
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .filter(|_| matches!(line.get(digits.len()), Some(b';' | b'\r')))
            .ok_or(BadRequest("a piece of the body has no length"))?;
        server.write_all(&line).await?;
        if length == 0 {
            // What follows are headers, up to an empty line.
            loop {
                let line = read_until(client, b"\r\n", LONGEST_LINE).await?;
                server.write_all(&line).await?;
                if line == b"\r\n" {
                    return Ok(());
                }
            }
        }
        let mut exactly = (&mut *client).take(length);
        tokio::io::copy_buf(&mut exactly, server).await?;
        let mut end = [0; 2];
        client.read_exact(&mut end).await?;
        if end != *b"\r\n" {
            return Err(BadRequest("a piece of the body is longer than it says").into());
        }
        server.write_all(&end).await?;
        server.flush().await?;
    }
}

/// Passes answers on, with stand-ins for the credentials that are in them.
async fn pass_answers<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    server: &mut R,
    client: &mut W,
    hides: &Mutex<Vec<Pair>>,
) -> io::Result<()> {
    let mut replacer = Replacer::default();
    let mut buffer = vec![0; CHUNK.min(64 * 1024)];
    loop {
        let count = match server.read(&mut buffer).await {
            Ok(count) => count,
            // Many servers end a connection without saying so.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        if count == 0 {
            client.write_all(&replacer.finish()).await?;
            return client.shutdown().await;
        }
        let pairs = hides.lock().clone();
        let passed = replacer.push(buffer.get(..count).unwrap_or_default(), &pairs);
        client.write_all(&passed).await?;
        client.flush().await?;
    }
}

#[cfg(test)]
#[path = "terminate_tests.rs"]
mod tests;
