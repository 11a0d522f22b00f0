//! A long response costs no more memory than a short one. Alone in its process, so that nothing else
//! moves the number that it reads.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]
#![cfg(target_os = "linux")]

mod support;

use futures::StreamExt;
use lathe_model::Delivery;
use support::{RawServer, provider, quick, read_request, request};
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

/// The most memory that this process ever had, in kilobytes.
fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn memory_stays_flat_over_a_long_stream() {
    const EVENTS: usize = 30_000;
    let server = RawServer::start(|_, mut stream| async move {
        read_request(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let (before, after) = {
            let whole = support::events("MARK");
            let (before, after) = whole.split_once("data: {\"type\":\"content_block_delta\"").unwrap();
            let (_, after) = after.split_once("\n\n").unwrap();
            (before.to_owned(), after.to_owned())
        };
        stream.write_all(before.as_bytes()).await.unwrap();
        let delta = format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{}\"}}}}\n\n",
            "x".repeat(2000)
        );
        for _ in 0..EVENTS {
            stream.write_all(delta.as_bytes()).await.unwrap();
        }
        stream.write_all(after.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    })
    .await;
    let mut stream = lathe_model::run(
        provider(&server.url()),
        request(),
        quick(),
        CancellationToken::new(),
    );
    let mut deltas = 0;
    let mut peak_early = 0;
    while let Some(item) = stream.next().await {
        if let Delivery::Event(_) = item.unwrap() {
            deltas += 1;
        }
        if deltas == EVENTS / 10 {
            peak_early = peak_kilobytes();
        }
    }
    assert!(deltas > EVENTS);
    let grown = peak_kilobytes().saturating_sub(peak_early);
    assert!(grown < 4096, "60 MB of events took {grown} KB more");
}
