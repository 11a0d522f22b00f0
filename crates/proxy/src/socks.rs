//! The few messages of SOCKS5 that the proxy needs: no password, and connections only.

use lathe_sandbox::Host;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The reply to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Done = 0,
    NotAllowed = 2,
    Unreachable = 4,
    UnknownCommand = 7,
    UnknownAddress = 8,
}

/// Reads what a client wants; `None` if it was told that it can't have it.
pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
) -> io::Result<Option<(Host, u16)>> {
    let mut start = [0; 2];
    stream.read_exact(&mut start).await?;
    if start[0] != 5 {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut methods = vec![0; usize::from(start[1])];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&0) {
        stream.write_all(&[5, 0xff]).await?;
        return Ok(None);
    }
    stream.write_all(&[5, 0]).await?;
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => {
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).await?;
            Host::parse(&Ipv4Addr::from(bytes).to_string())
        }
        4 => {
            let mut bytes = [0; 16];
            stream.read_exact(&mut bytes).await?;
            Host::parse(&Ipv6Addr::from(bytes).to_string())
        }
        3 => {
            let length = stream.read_u8().await?;
            let mut bytes = vec![0; usize::from(length)];
            stream.read_exact(&mut bytes).await?;
            String::from_utf8(bytes)
                .ok()
                .and_then(|name| Host::parse(&name))
        }
        _ => None,
    };
    let port = stream.read_u16().await?;
    if request[0] != 5 || request[1] != 1 {
        answer(stream, Answer::UnknownCommand).await?;
        return Ok(None);
    }
    match host.filter(|_| port > 0) {
        Some(host) => Ok(Some((host, port))),
        None => {
            answer(stream, Answer::UnknownAddress).await?;
            Ok(None)
        }
    }
}

/// Tells the client what came of it.
pub(crate) async fn answer<S: AsyncWrite + Unpin>(
    stream: &mut S,
    answer: Answer,
) -> io::Result<()> {
    stream
        .write_all(&[5, answer as u8, 0, 1, 0, 0, 0, 0, 0, 0])
        .await
}
