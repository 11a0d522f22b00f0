//! The proxy with real sockets, on this machine alone.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use futures::FutureExt as _;
use lathe_proxy::{AskHost, HostAnswer, Proxy, ProxyOptions, Wanted};
use lathe_sandbox::{HostRule, NetworkPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};

struct Place {
    proxy: Proxy,
    folder: tempfile::TempDir,
}

fn policy(allowed: &[&str]) -> NetworkPolicy {
    NetworkPolicy {
        allowed: allowed
            .iter()
            .map(|text| HostRule::parse(text).unwrap())
            .collect(),
        ..NetworkPolicy::default()
    }
}

fn place(policy: NetworkPolicy, ask: Option<AskHost>) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let options = ProxyOptions {
        folder: folder.path().to_path_buf(),
        policy,
        ask,
        log: Some(folder.path().join("log")),
        masking: None,
    };
    Place {
        proxy: Proxy::start(options).unwrap(),
        folder,
    }
}

impl Place {
    async fn connect(&self, kind: &str) -> UnixStream {
        let mut stream = UnixStream::connect(self.proxy.socket()).await.unwrap();
        stream
            .write_all(format!("LATHE1 {kind} command\n").as_bytes())
            .await
            .unwrap();
        stream
    }

    /// Sends a request and reads to the end.
    async fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect("http").await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// A server that answers each connection with what it read of it first.
async fn echo() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    lathe_spawn::task(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            lathe_spawn::task(async move {
                let mut buffer = vec![0; 65536];
                let read = stream.read(&mut buffer).await.unwrap();
                let body = String::from_utf8_lossy(&buffer[..read]).into_owned();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            });
        }
    });
    (port, count)
}

#[tokio::test]
async fn a_request_is_sent_on_and_only_that_one() {
    let (port, count) = echo().await;
    let place = place(policy(&[&format!("127.0.0.1:{port}")]), None);
    let second = "GET http://169.254.169.254/ HTTP/1.1\r\n\r\n";
    let request = format!(
        "POST http://127.0.0.1:{port}/x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 2\r\nProxy-Authorization: x\r\n\r\nab{second}"
    );
    let answer = place.exchange(&request).await;
    assert!(answer.contains("POST /x HTTP/1.1"), "{answer}");
    assert!(
        answer.contains("Connection: close") && !answer.contains("Proxy-Authorization"),
        "{answer}"
    );
    assert!(
        !answer.contains("169.254"),
        "what follows is not for this server: {answer}"
    );
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_tunnel_carries_anything() {
    let (port, _) = echo().await;
    let place = place(policy(&["localhost"]), None);
    let mut stream = place.connect("http").await;
    stream
        .write_all(format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = [0; 39];
    stream.read_exact(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    stream.write_all(b"\x00\x01anything").await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.ends_with(b"\x00\x01anything"));
}

#[tokio::test]
async fn socks_reaches_names_and_addresses() {
    let (port, _) = echo().await;
    let place = place(policy(&["localhost", "127.0.0.1"]), None);
    for (kind, address) in [(3u8, b"\x09localhost".to_vec()), (1, vec![127, 0, 0, 1])] {
        let mut stream = place.connect("socks").await;
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut method = [0; 2];
        stream.read_exact(&mut method).await.unwrap();
        let mut request = vec![5, 1, 0, kind];
        request.extend(address);
        request.extend(port.to_be_bytes());
        stream.write_all(&request).await.unwrap();
        let mut answer = [0; 10];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[1], 0, "{kind}");
        stream.write_all(b"hello").await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.ends_with(b"hello"));
    }
}

#[tokio::test]
async fn socks_refuses_what_is_not_allowed() {
    let place = place(policy(&["*"]), None);
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];
    for (command, kind, address, wanted) in [
        (1u8, 1u8, vec![169, 254, 169, 254], 2u8),
        (1, 4, mapped.to_vec(), 2),
        (1, 3, b"\x0a2130706433".to_vec(), 8),
        (1, 3, b"\x05a\0b.c".to_vec(), 8),
        (2, 1, vec![1, 1, 1, 1], 7),
        (3, 1, vec![1, 1, 1, 1], 7),
    ] {
        let mut stream = place.connect("socks").await;
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut method = [0; 2];
        stream.read_exact(&mut method).await.unwrap();
        let mut request = vec![5, command, 0, kind];
        request.extend(address);
        request.extend(80u16.to_be_bytes());
        stream.write_all(&request).await.unwrap();
        let mut answer = [0; 10];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[1], wanted, "{request:?}");
    }
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_refused() {
    let (port, count) = echo().await;
    // Everything is allowed, but no rule names the address.
    let place = place(policy(&["*"]), None);
    for host in ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
        let answer = place
            .exchange(&format!("GET http://{host}:{port}/ HTTP/1.1\r\n\r\n"))
            .await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
        assert!(answer.contains("private address"), "{host}: {answer}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let refused = place.proxy.take_refused("command");
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(place.proxy.take_refused("command").is_empty(), "told once");
}

#[tokio::test]
async fn everyone_who_waits_for_a_host_gets_one_answer() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (open, gate) = tokio::sync::watch::channel(false);
    let counted = Arc::clone(&asked);
    let ask: AskHost = Arc::new(move |wanted: Wanted| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await.unwrap();
            HostAnswer::Deny(format!("no {}", wanted.host))
        }
        .boxed()
    });
    let place = Arc::new(place(policy(&[]), Some(ask)));
    let request = "GET http://unknown.example/ HTTP/1.1\r\n\r\n";
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let place = Arc::clone(&place);
            lathe_spawn::task(async move { place.exchange(request).await })
        })
        .collect();
    while asked.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    open.send(true).unwrap();
    for answer in waiting {
        let answer = answer.await.unwrap();
        assert!(answer.contains("no unknown.example"), "{answer}");
    }
    assert!(asked.load(Ordering::SeqCst) <= 5);
    let log = lathe_proxy::read_log(&place.folder.path().join("log")).unwrap();
    assert_eq!(log.lines().count(), 5, "{log}");
}

#[tokio::test]
async fn nobody_to_ask_is_a_no_and_a_strict_list_asks_nobody() {
    let place = place(policy(&["a.example"]), None);
    let answer = place
        .exchange("GET http://b.example/ HTTP/1.1\r\n\r\n")
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 403") && answer.contains("there is no user to ask"),
        "{answer}"
    );
    place.proxy.set_policy(NetworkPolicy {
        strict: true,
        ..policy(&["a.example"])
    });
    let answer = place
        .exchange("CONNECT b.example:443 HTTP/1.1\r\n\r\n")
        .await;
    assert!(
        answer.contains("only the hosts that settings list"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_proxy_of_ones_own_gets_everything_as_it_is() {
    let (port, _) = echo().await;
    let place = place(
        NetworkPolicy {
            own_http_proxy: Some(port),
            ..NetworkPolicy::default()
        },
        None,
    );
    let answer = place
        .exchange("GET http://anything.example/ HTTP/1.1\r\n\r\n")
        .await;
    assert!(
        answer.contains("GET http://anything.example/ HTTP/1.1"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_bad_greeting_gets_nothing() {
    let place = place(policy(&["*"]), None);
    for greeting in ["GET / HTTP/1.1\r\n\r\n".to_owned(), "x".repeat(2000)] {
        let mut stream = UnixStream::connect(place.proxy.socket()).await.unwrap();
        let _ = stream.write_all(greeting.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.is_empty());
    }
}
