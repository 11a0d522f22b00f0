//! TLS, certificates, HTTP/2 and proxies, against real sockets.
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

mod support;

use lathe_model::{AnthropicConfig, AnthropicProvider, ModelError, NetworkTrouble, RecoveryPolicy};
use lathe_net::{ClientIdentity, Network, Proxies};
use lathe_scripted::{Reply, Scenario, ScriptedServer};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use support::{Outcome, RawServer, answer, config, quick, read_request, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The system's authorities and one more.
fn beside(authority: &str) -> Network {
    Network {
        extra_ca_files: vec![data(authority)],
        ..Network::default()
    }
}

/// One authority and no other.
fn only(authority: &str) -> Network {
    Network {
        ca_file: Some(data(authority)),
        ..Network::default()
    }
}

fn through(proxies: Proxies) -> Network {
    Network {
        proxies,
        ..Network::default()
    }
}

fn https_through(proxy: &RawServer) -> Proxies {
    Proxies {
        https: Some(proxy.url()),
        ..Proxies::default()
    }
}

/// Speaks TLS in front of a server that doesn't.
async fn tls_in_front_of(backend: SocketAddr, protocols: &[&str]) -> RawServer {
    tls_by("server", backend, protocols).await
}

/// The same with a certificate of this name.
async fn tls_by(name: &str, backend: SocketAddr, protocols: &[&str]) -> RawServer {
    let chain = vec![CertificateDer::from_pem_file(data(&format!("{name}.pem"))).unwrap()];
    let key = PrivateKeyDer::from_pem_file(data(&format!("{name}.key"))).unwrap();
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = protocols
        .iter()
        .map(|protocol| protocol.as_bytes().to_vec())
        .collect();
    behind(tls, backend).await
}

async fn behind(tls: ServerConfig, backend: SocketAddr) -> RawServer {
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    RawServer::start(move |_, stream| {
        let acceptor = acceptor.clone();
        async move {
            // A client that doesn't trust the certificate hangs up here.
            let Ok(mut outer) = acceptor.accept(stream).await else {
                return;
            };
            let mut inner = TcpStream::connect(backend).await.unwrap();
            let _ = copy_bidirectional(&mut outer, &mut inner).await;
        }
    })
    .await
}

async fn scripted(replies: usize) -> (ScriptedServer, SocketAddr) {
    let scenario = Scenario::new().reply(Reply::text("secure").times(replies));
    let server = ScriptedServer::start(scenario).await.unwrap();
    let address = server
        .base_url()
        .trim_start_matches("http://")
        .parse()
        .unwrap();
    (server, address)
}

async fn run_with(config: &AnthropicConfig) -> Outcome {
    let provider = Arc::new(AnthropicProvider::new(config).unwrap());
    run(
        provider,
        RecoveryPolicy {
            max_retries: 1,
            ..quick()
        },
    )
    .await
}

fn secure(front: &RawServer) -> AnthropicConfig {
    AnthropicConfig {
        network: beside("ca.pem"),
        ..config(&format!("https://localhost:{}", front.address.port()))
    }
}

/// The error of a server whose certificate nobody vouches for.
fn not_trusted(outcome: &Outcome) -> &ModelError {
    let error = outcome.error.as_ref().unwrap();
    let is_certificate = matches!(
        error,
        ModelError::Network {
            trouble: NetworkTrouble::Certificate,
            ..
        }
    );
    assert!(is_certificate, "{error:?}");
    error
}

#[tokio::test]
async fn both_http_versions_work_over_tls() {
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], "HTTP/2.0"),
        (&["http/1.1"][..], "HTTP/1.1"),
    ] {
        let (server, address) = scripted(1).await;
        let front = tls_in_front_of(address, protocols).await;
        assert_eq!(run_with(&secure(&front)).await.text(), "secure");
        assert_eq!(server.request(0).unwrap().http_version, version);
        server.finish();
    }
}

#[tokio::test]
async fn an_unknown_authority_is_refused_at_once_with_the_way_out() {
    let (server, address) = scripted(1).await;
    let front = tls_in_front_of(address, &["http/1.1"]).await;
    // Any other authority will do: here the server's own certificate, which signed nothing.
    let strange = AnthropicConfig {
        network: only("server.pem"),
        ..secure(&front)
    };
    let outcome = run_with(&strange).await;
    let error = not_trusted(&outcome);
    assert!(error.to_string().contains("NODE_EXTRA_CA_CERTS"), "{error}");
    assert_eq!(outcome.steps, ["requesting 1"], "waiting would not mend it");
    assert_eq!(server.request_count(), 0);
}

#[tokio::test]
async fn the_system_does_not_trust_a_stranger_either() {
    let (_server, address) = scripted(1).await;
    let front = tls_in_front_of(address, &["http/1.1"]).await;
    let system = AnthropicConfig {
        network: Network::default(),
        ..secure(&front)
    };
    not_trusted(&run_with(&system).await);
}

/// Speaks TLS to clients whose certificate comes from our authority, and to nobody else.
async fn tls_for_known_clients(backend: SocketAddr) -> RawServer {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(data("client-ca.pem")).unwrap())
        .unwrap();
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(
            vec![CertificateDer::from_pem_file(data("server.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(data("server.key")).unwrap(),
        )
        .unwrap();
    behind(tls, backend).await
}

#[tokio::test]
async fn a_server_that_asks_for_it_gets_the_clients_certificate() {
    let (server, address) = scripted(1).await;
    let front = tls_for_known_clients(address).await;
    let mut known = secure(&front);
    known.network.identity = Some(ClientIdentity {
        certificate: data("client.pem"),
        key: Some(data("client.key")),
    });
    assert_eq!(run_with(&known).await.text(), "secure");
    assert!(run_with(&secure(&front)).await.error.is_some());
    server.finish();
}

#[tokio::test]
async fn one_file_can_stand_for_all_authorities() {
    let (server, address) = scripted(1).await;
    let front = tls_in_front_of(address, &["h2"]).await;
    let only = AnthropicConfig {
        network: only("ca.pem"),
        ..secure(&front)
    };
    assert_eq!(run_with(&only).await.text(), "secure");
    server.finish();
}

#[tokio::test]
async fn a_server_that_is_its_own_authority_is_trusted_when_it_is_named() {
    let (server, address) = scripted(2).await;
    let front = tls_by("self-signed", address, &["http/1.1"]).await;
    let named = AnthropicConfig {
        network: beside("self-signed.pem"),
        ..secure(&front)
    };
    assert_eq!(run_with(&named).await.text(), "secure");
    let alone = AnthropicConfig {
        network: only("self-signed.pem"),
        ..secure(&front)
    };
    assert_eq!(run_with(&alone).await.text(), "secure");

    // Not without being named, and not under another name than its own.
    not_trusted(&run_with(&secure(&front)).await);
    let target = front.address;
    let proxy = RawServer::start(move |_, stream| tunnel(stream, target)).await;
    let elsewhere = AnthropicConfig {
        base_url: format!("https://127.0.0.2:{}", target.port()),
        network: Network {
            proxies: https_through(&proxy),
            ..named.network.clone()
        },
        ..named
    };
    not_trusted(&run_with(&elsewhere).await);
    server.finish();
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (_server, address) = scripted(1).await;
    let front = tls_in_front_of(address, &["http/1.1"]).await;
    let elsewhere = AnthropicConfig {
        base_url: format!("https://127.0.0.2:{}", front.address.port()),
        ..secure(&front)
    };
    // 127.0.0.2 is the same machine, but not in the certificate. The listener is on 127.0.0.1, so a
    // tunnel is needed to get there at all.
    let target = front.address;
    let proxy = RawServer::start(move |_, stream| tunnel(stream, target)).await;
    let elsewhere = AnthropicConfig {
        network: Network {
            proxies: https_through(&proxy),
            ..elsewhere.network.clone()
        },
        ..elsewhere
    };
    let error = run_with(&elsewhere).await.error.unwrap();
    assert!(
        matches!(
            error,
            ModelError::Network {
                trouble: NetworkTrouble::Certificate,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn plain_text_where_tls_is_expected_is_named() {
    let (_server, address) = scripted(1).await;
    let config = AnthropicConfig {
        network: beside("ca.pem"),
        ..config(&format!("https://{address}"))
    };
    let error = run_with(&config).await.error.unwrap();
    assert!(
        matches!(
            error,
            ModelError::Network {
                trouble: NetworkTrouble::Tls,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_missing_or_empty_authority_file_is_named_when_it_matters() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.pem");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate in here").unwrap();
    for path in [&missing, &empty] {
        let secure = AnthropicConfig {
            network: Network {
                extra_ca_files: vec![path.clone()],
                ..Network::default()
            },
            ..config("https://localhost")
        };
        let Err(error) = AnthropicProvider::new(&secure) else {
            panic!("{} was taken", path.display())
        };
        let text = error.to_string();
        assert!(text.contains(&path.display().to_string()), "{text}");
        assert!(text.contains("NODE_EXTRA_CA_CERTS"), "{text}");
        // Without TLS no certificate is looked at: that is what keeps a local start fast.
        let plain = AnthropicConfig {
            network: Network {
                extra_ca_files: vec![path.clone()],
                ..Network::default()
            },
            ..config("http://localhost")
        };
        assert!(AnthropicProvider::new(&plain).is_ok());
    }
}

/// How a proxy answers CONNECT.
async fn tunnel(mut stream: TcpStream, target: SocketAddr) {
    let (head, _) = read_request(&mut stream).await;
    assert!(head.starts_with("CONNECT "), "{head}");
    let mut inner = TcpStream::connect(target).await.unwrap();
    stream
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await
        .unwrap();
    let _ = copy_bidirectional(&mut stream, &mut inner).await;
}

#[tokio::test]
async fn https_goes_through_a_tunnel() {
    let (server, address) = scripted(1).await;
    let front = tls_in_front_of(address, &["h2"]).await;
    let target = front.address;
    let proxy = RawServer::start(move |_, stream| tunnel(stream, target)).await;
    let config = AnthropicConfig {
        base_url: "https://localhost:9".into(),
        network: Network {
            proxies: Proxies {
                https: Some(format!("127.0.0.1:{}", proxy.address.port())),
                http: Some("http://127.0.0.1:1".into()),
                ..Proxies::default()
            },
            ..beside("ca.pem")
        },
        ..secure(&front)
    };
    assert_eq!(run_with(&config).await.text(), "secure");
    server.finish();
}

#[tokio::test]
async fn http_goes_to_the_proxy_with_the_whole_address_and_the_password() {
    let (heads, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let proxy = RawServer::start(move |_, mut stream| {
        let heads = heads.clone();
        async move { heads.send(answer(&mut stream, "by proxy").await.0).unwrap() }
    })
    .await;
    let config = AnthropicConfig {
        network: through(Proxies {
            all: Some(format!(
                "http://user:pass@127.0.0.1:{}",
                proxy.address.port()
            )),
            ..Proxies::default()
        }),
        ..config("http://far.invalid/base")
    };
    assert_eq!(run_with(&config).await.text(), "by proxy");
    let head = seen.recv().await.unwrap();
    assert!(
        head.starts_with("POST http://far.invalid/base/v1/messages HTTP/1.1"),
        "{head}"
    );
    assert!(
        head.to_lowercase()
            .contains("proxy-authorization: basic dxnlcjpwyxnz"),
        "{head}"
    );
}

#[tokio::test]
async fn exceptions_are_reached_directly() {
    let (server, address) = scripted(1).await;
    let config = AnthropicConfig {
        network: through(Proxies {
            all: Some("http://127.0.0.1:1".into()),
            exceptions: Some("example.com, 127.0.0.1".into()),
            ..Proxies::default()
        }),
        ..config(&format!("http://{address}"))
    };
    assert_eq!(run_with(&config).await.text(), "secure");
    server.finish();
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named() {
    let proxy = RawServer::start(|_, mut stream| async move {
        read_request(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        let _ = stream.read(&mut [0; 16]).await;
    })
    .await;
    let config = AnthropicConfig {
        network: Network {
            proxies: https_through(&proxy),
            ..beside("ca.pem")
        },
        ..config("https://localhost:9")
    };
    let error = run_with(&config).await.error.unwrap();
    assert!(
        matches!(
            error,
            ModelError::Network {
                trouble: NetworkTrouble::Proxy,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("HTTPS_PROXY"), "{error}");
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named() {
    let config = AnthropicConfig {
        network: through(Proxies {
            all: Some("http://127.0.0.1:1".into()),
            ..Proxies::default()
        }),
        ..config("http://proxy-like.example")
    };
    let error = run_with(&config).await.error.unwrap();
    assert!(
        matches!(
            error,
            ModelError::Network {
                trouble: NetworkTrouble::Proxy,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("ALL_PROXY"), "{error}");
}

#[test]
fn a_proxy_address_that_is_none_is_named_without_its_password() {
    let config = AnthropicConfig {
        network: through(Proxies {
            https: Some("http://user:hidden@[bad".into()),
            ..Proxies::default()
        }),
        ..config("https://localhost")
    };
    let Err(error) = AnthropicProvider::new(&config) else {
        panic!("it was taken")
    };
    assert!(error.to_string().contains("HTTPS_PROXY"), "{error}");
    assert!(!error.to_string().contains("hidden"), "{error}");
}
