//! Prints what the proxy of the sandbox costs: bytes per second through it and without it, and how much longer a
//! connection takes. `cargo run --release -p lathe-proxy --example proxy_cost`
#![expect(clippy::print_stdout, reason = "a program for people")]

use lathe_proxy::{Proxy, ProxyOptions};
use lathe_sandbox::{HostRule, NetworkPolicy};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};

const BYTES: u64 = 1 << 30;
const CONNECTIONS: usize = 300;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    // Sends as many bytes as it is asked for.
    drop(lathe_spawn::task(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            drop(lathe_spawn::task(async move {
                let Ok(mut left) = stream.read_u64().await else {
                    return;
                };
                let chunk = vec![7; 256 * 1024];
                while left > 0 {
                    let count = chunk
                        .len()
                        .min(usize::try_from(left).unwrap_or(chunk.len()));
                    let Some(bytes) = chunk.get(..count) else {
                        return;
                    };
                    if stream.write_all(bytes).await.is_err() {
                        return;
                    }
                    left -= count as u64;
                }
            }));
        }
    }));
    let proxy = Proxy::start(ProxyOptions {
        folder: folder.path().to_path_buf(),
        policy: NetworkPolicy {
            allowed: vec![HostRule::parse("127.0.0.1")?],
            ..NetworkPolicy::default()
        },
        ask: None,
        log: None,
        masking: None,
    })?;
    let socket = proxy.socket();
    let direct = fetch(TcpStream::connect(("127.0.0.1", port)).await?, BYTES).await?;
    let through = fetch(tunnel(&socket, port).await?, BYTES).await?;
    let speed = |time: Duration| (BYTES >> 20) as f64 / time.as_secs_f64();
    println!(
        "{:.0} MB/s through the proxy, {:.0} without it (ratio {:.2})",
        speed(through),
        speed(direct),
        speed(through) / speed(direct)
    );
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let began = Instant::now();
        fetch(TcpStream::connect(("127.0.0.1", port)).await?, 1).await?;
        direct.push(began.elapsed());
        let began = Instant::now();
        fetch(tunnel(&socket, port).await?, 1).await?;
        through.push(began.elapsed());
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times.get(CONNECTIONS / 2).copied().unwrap_or_default()
    };
    let (direct, through) = (median(&mut direct), median(&mut through));
    println!(
        "a connection (median): {through:?} through the proxy, {direct:?} without it: {:?} more",
        through.saturating_sub(direct)
    );
    Ok(())
}

async fn tunnel(socket: &Path, port: u16) -> Result<UnixStream, Box<dyn Error>> {
    let mut stream = UnixStream::connect(socket).await?;
    let head = format!("LATHE1 http bench\nCONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await?);
    }
    Ok(stream)
}

/// Asks for bytes and reads them all. Gives the time that this took.
async fn fetch<S: AsyncRead + tokio::io::AsyncWrite + Unpin>(
    mut stream: S,
    bytes: u64,
) -> Result<Duration, Box<dyn Error>> {
    let began = Instant::now();
    stream.write_u64(bytes).await?;
    let mut buffer = vec![0; 256 * 1024];
    let mut left = bytes;
    while left > 0 {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err("the connection ended early".into());
        }
        left = left.saturating_sub(count as u64);
    }
    Ok(began.elapsed())
}
