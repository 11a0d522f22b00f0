//! A token is usable and can't be seen: a real proxy, a real TLS server, and clients that trust the session.

use crate::authority::Authority;
use crate::{Prepared, Proxy, ProxyOptions, prepare};
use lathe_sandbox::{
    AUTHORITIES, CredentialPlace, CredentialSource, Host, HostRule, NetworkPolicy,
};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const SECRET: &str = "ghp_real0123456789abcdef";

/// A TLS client configuration that trusts what a PEM text names.
fn trusting(pem: &str) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        // The system's bundle has some that are not accepted any more.
        let _ = roots.add(certificate.unwrap());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A TLS server that answers every request with its own head, and remembers it.
struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

async fn server(world: &Authority) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = world.server(&Host::parse("localhost").unwrap()).unwrap();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let heads = Arc::clone(&seen);
    drop(lathe_spawn::task(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = TlsAcceptor::from(Arc::clone(&config));
            let heads = Arc::clone(&heads);
            drop(lathe_spawn::task(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let mut text = String::new();
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    text.push_str(&String::from_utf8_lossy(&buffer[..count]));
                    while let Some(end) = text.find("\r\n\r\n") {
                        let head: String = text.drain(..end + 4).collect();
                        let answer = format!(
                            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}",
                            head.len()
                        );
                        heads.lock().push(head);
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            }));
        }
    }));
    Server { port, seen }
}

struct Place {
    _folder: tempfile::TempDir,
    proxy: Proxy,
    made: Prepared,
    server: Server,
}

/// A proxy that knows a token for a host; the server is `localhost`.
async fn place(token_for: &str) -> Place {
    let folder = tempfile::tempdir().unwrap();
    let world = Authority::new().unwrap();
    let server = server(&world).await;
    let source = CredentialSource {
        place: CredentialPlace::Variable("TOKEN".to_owned()),
        hosts: vec![HostRule::parse(token_for).unwrap()],
    };
    let variable = |name: &str| (name == "TOKEN").then(|| SECRET.to_owned());
    let made = prepare(&[source], variable, folder.path(), trusting(&world.pem())).unwrap();
    let policy = NetworkPolicy {
        allowed: vec![HostRule::parse("localhost").unwrap()],
        ..NetworkPolicy::default()
    };
    let proxy = Proxy::start(ProxyOptions {
        folder: folder.path().to_path_buf(),
        policy,
        ask: None,
        log: None,
        masking: Some(Arc::clone(&made.masking)),
    })
    .unwrap();
    Place {
        _folder: folder,
        proxy,
        made,
        server,
    }
}

impl Place {
    fn stand_in(&self) -> String {
        let found = self.made.variables.iter().find(|(name, _)| name == "TOKEN");
        found.unwrap().1.to_string_lossy().into_owned()
    }

    /// The certificates that commands trust: the file that they are pointed to.
    fn bundle(&self) -> String {
        let file = self.made.files.iter();
        let file = file
            .clone()
            .find(|file| file.path == std::path::Path::new(AUTHORITIES))
            .unwrap();
        std::fs::read_to_string(&file.stand_in).unwrap()
    }

    /// Sends a text over TLS through the proxy, and gives what came back until the answer's end.
    async fn send(&self, tls: rustls::ClientConfig, text: &str) -> std::io::Result<String> {
        let mut stream = UnixStream::connect(self.proxy.socket()).await?;
        let port = self.server.port;
        let connect = format!("LATHE1 http test\nCONNECT localhost:{port} HTTP/1.1\r\n\r\n");
        stream.write_all(connect.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(tls))
            .connect(name, stream)
            .await?;
        stream.write_all(text.as_bytes()).await?;
        let mut answer = String::new();
        let mut buffer = [0; 4096];
        while !answer.contains("\r\n\r\n") || !answer.ends_with('\n') {
            let count = stream.read(&mut buffer).await?;
            if count == 0 {
                break;
            }
            answer.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        Ok(answer)
    }

    fn request(&self, header: &str) -> String {
        let port = self.server.port;
        format!("GET /x HTTP/1.1\r\nHost: localhost:{port}\r\n{header}\r\n\r\n")
    }
}

#[tokio::test]
async fn a_token_reaches_its_host_and_never_comes_back() {
    let place = place("localhost").await;
    let stand_in = place.stand_in();
    assert!(stand_in.starts_with("ghp_") && stand_in != SECRET);
    let text = place.request(&format!("Authorization: Bearer {stand_in}"));
    let answer = place.send(trusting(&place.bundle()), &text).await.unwrap();
    let seen = place.server.seen.lock().join("");
    assert!(
        seen.contains(&format!("Authorization: Bearer {SECRET}\r\n")),
        "{seen}"
    );
    assert!(seen.contains("Accept-Encoding: identity\r\n"), "{seen}");
    // The server says back what it got; inside, that is the stand-in again.
    assert!(answer.contains(&format!("Bearer {stand_in}")), "{answer}");
    assert!(!answer.contains(SECRET), "{answer}");
}

#[tokio::test]
async fn two_requests_of_one_connection_and_bodies_in_pieces_pass() {
    let place = place("localhost").await;
    let stand_in = place.stand_in();
    let port = place.server.port;
    let chunked = format!(
        "POST /x HTTP/1.1\r\nHost: localhost:{port}\r\nTransfer-Encoding: chunked\r\nX: {stand_in}\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
    );
    place
        .send(trusting(&place.bundle()), &chunked)
        .await
        .unwrap();
    let length = format!(
        "POST /y HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 4\r\n\r\nabcd{}",
        place.request(&format!("X: {stand_in}"))
    );
    place
        .send(trusting(&place.bundle()), &length)
        .await
        .unwrap();
    let seen = place.server.seen.lock().join("");
    assert_eq!(
        seen.matches(&format!("X: {SECRET}\r\n")).count(),
        2,
        "{seen}"
    );
}

#[tokio::test]
async fn a_token_for_another_host_stays_a_stand_in() {
    let place = place("api.example").await;
    let stand_in = place.stand_in();
    // The connection is not looked into: who trusts the session alone doesn't trust the server.
    let text = place.request(&format!("Authorization: Bearer {stand_in}"));
    let refused = place.send(trusting(&place.bundle()), &text).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(place.server.seen.lock().is_empty());
}

#[tokio::test]
async fn a_request_for_another_host_in_the_same_connection_is_refused() {
    let place = place("localhost").await;
    let stand_in = place.stand_in();
    for host in ["evil.example", "localhost.evil.example"] {
        let text = format!("GET /x HTTP/1.1\r\nHost: {host}\r\nX: {stand_in}\r\n\r\n");
        let answer = place.send(trusting(&place.bundle()), &text).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert!(place.server.seen.lock().is_empty());
}

#[tokio::test]
async fn only_the_sandbox_trusts_the_session_and_the_server_is_checked() {
    let place = place("localhost").await;
    let text = place.request("X: y");
    let stranger = trusting(&Authority::new().unwrap().pem());
    assert!(place.send(stranger, &text).await.is_err());
    // A server that nobody vouches for gets nothing.
    let folder = tempfile::tempdir().unwrap();
    let source = CredentialSource {
        place: CredentialPlace::Variable("TOKEN".to_owned()),
        hosts: vec![HostRule::parse("localhost").unwrap()],
    };
    let nobody = trusting(&Authority::new().unwrap().pem());
    let made = prepare(
        &[source],
        |_| Some(SECRET.to_owned()),
        folder.path(),
        nobody,
    )
    .unwrap();
    place.proxy.set_masking(Some(Arc::clone(&made.masking)));
    let bundle = std::fs::read_to_string(&made.files[0].stand_in).unwrap();
    let answer = place.send(trusting(&bundle), &text).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert!(place.server.seen.lock().is_empty());
}
