//! Fetching from servers that want something else.
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

mod search;
mod server;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use lathe_net::{Network, Proxies};
use lathe_web::{
    Access, Content, FetchError, Fetched, Fetcher, Limits, Looking, Lookup, Moved, Outcome, parse,
};
use server::{Answer, Server, answer, page, redirect};
use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use url::Url;

const NEAR: Access = Access {
    private: true,
    plain_http: false,
};
const PUBLIC: Access = Access {
    private: false,
    plain_http: false,
};

/// Gives prepared answers, one after the other; the last one stays.
struct Prepared {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Prepared {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parsed = answers
            .iter()
            .map(|answer| {
                answer
                    .iter()
                    .map(|address| address.parse().unwrap())
                    .collect()
            })
            .collect();
        Arc::new(Self {
            answers: Mutex::new(parsed),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Lookup for Prepared {
    fn lookup<'a>(&'a self, _host: &'a str) -> Looking<'a> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock().unwrap();
        let found = if answers.len() > 1 {
            answers.remove(0)
        } else {
            answers[0].clone()
        };
        Box::pin(async move { Ok(found) })
    }
}

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn small() -> Limits {
    Limits {
        time: Duration::from_secs(20),
        wire: 64 * 1024,
        unpacked: 256 * 1024,
        redirects: 10,
    }
}

fn fetcher() -> Fetcher {
    Fetcher::with(
        Network::default(),
        small(),
        Arc::new(lathe_web::SystemLookup),
    )
}

async fn fetched(url: &Url) -> Fetched {
    match fetcher().fetch(url, NEAR).await.unwrap() {
        Outcome::Fetched(fetched) => *fetched,
        Outcome::Moved(moved) => panic!("{moved:?}"),
    }
}

async fn moved(url: &Url) -> Moved {
    match fetcher().fetch(url, NEAR).await.unwrap() {
        Outcome::Moved(moved) => *moved,
        Outcome::Fetched(fetched) => panic!("{fetched:?}"),
    }
}

async fn failure(url: &Url, access: Access) -> FetchError {
    match fetcher().fetch(url, access).await {
        Err(error) => error,
        Ok(outcome) => panic!("{outcome:?}"),
    }
}

fn text(fetched: &Fetched) -> &str {
    match &fetched.content {
        Content::Text { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_page_is_fetched_without_cookies_and_under_our_own_name() {
    let server = Server::start(|_| {
        answer(
            "200 OK",
            "content-type: text/html\r\nset-cookie: a=b\r\n",
            b"<title>T</title><h1>Hello</h1><p>there",
        )
    })
    .await;
    let first = fetched(&server.url("/a?b=c#part")).await;
    assert_eq!(
        (first.code, first.code_text.as_str(), first.bytes),
        (200, "OK", 38)
    );
    assert_eq!(text(&first), "# Hello\n\nthere");
    assert_eq!(first.url, server.url("/a?b=c"));
    fetched(&server.url("/again")).await;
    for request in server.requests() {
        let request = request.to_ascii_lowercase();
        assert!(request.contains("user-agent: lathe/"), "{request}");
        assert!(
            request.contains("accept: text/markdown, text/html;q=0.9, */*"),
            "{request}"
        );
        assert!(
            request.contains("accept-encoding: gzip, deflate\r\n"),
            "{request}"
        );
        for absent in ["cookie", "authorization", "referer"] {
            assert!(!request.contains(absent), "{request}");
        }
    }
    assert!(server.requests()[0].starts_with("GET /a?b=c HTTP/1.1"));
}

#[tokio::test]
async fn redirects_on_the_host_are_followed_and_others_are_told() {
    let server = Server::start(|target| match target {
        "/start" => redirect("/next"),
        "/next" => redirect("end?x=1#here"),
        "/end?x=1" => page("<p>the end"),
        "/metadata" => redirect("http://169.254.169.254/latest/meta-data/"),
        "/other" => redirect("https://other.example/page"),
        "/same-name" => redirect("//127.0.0.2/x"),
        "/script" => redirect("javascript:alert(1)"),
        "/file" => redirect("file:///etc/passwd"),
        "/secret" => redirect("http://user:word@127.0.0.1/"),
        "/bad" => redirect("http://["),
        "/nowhere" => answer("302 Found", "", b""),
        "/round" => redirect("/round"),
        other => panic!("{other}"),
    })
    .await;
    let end = fetched(&server.url("/start")).await;
    assert_eq!(text(&end), "the end");
    assert_eq!(end.url, server.url("/end?x=1"));
    for (path, to) in [
        ("/metadata", "http://169.254.169.254/latest/meta-data/"),
        ("/other", "https://other.example/page"),
        ("/same-name", "http://127.0.0.2/x"),
    ] {
        let moved = moved(&server.url(path)).await;
        assert_eq!((moved.to.as_str(), moved.code), (to, 302));
    }
    let refused = [
        ("/script", FetchError::Scheme("javascript".to_owned())),
        ("/file", FetchError::Scheme("file".to_owned())),
        ("/secret", FetchError::Credentials),
        ("/bad", FetchError::BadRedirect),
        ("/nowhere", FetchError::BadRedirect),
        ("/round", FetchError::TooManyRedirects(10)),
    ];
    for (path, expected) in refused {
        assert_eq!(failure(&server.url(path), NEAR).await, expected, "{path}");
    }
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_in_every_spelling() {
    let server = Server::start(|_| page("inside")).await;
    let port = server.address.port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "localhost",
        "a.localhost",
        "LOCALHOST.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "0.0.0.0",
        "[::]",
        "10.0.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00::1]",
        "100.100.100.200",
        "\u{2460}27.0.0.1",
    ] {
        let address = url(&format!("http://{host}:{port}/"));
        let error = failure(&address, PUBLIC).await;
        assert!(
            matches!(error, FetchError::NotPublic { .. }),
            "{host}: {error:?}"
        );
        assert!(error.to_string().contains("WebFetch(domain:"), "{error}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_is_resolved_once_and_its_address_is_the_one_that_is_used() {
    let server = Server::start(|_| page("inside")).await;
    let port = server.address.port();
    // Public while it is checked, this machine when it is connected to: there is no second time.
    let lookup = Prepared::new(&[&["192.0.2.1"], &["127.0.0.1"]]);
    let limits = Limits {
        time: Duration::from_millis(300),
        ..small()
    };
    let fetcher = Fetcher::with(Network::default(), limits, lookup.clone());
    let first = fetcher
        .fetch(&url(&format!("https://changing.example:{port}/")), PUBLIC)
        .await;
    assert!(first.is_err());
    assert_eq!(lookup.asked.load(Ordering::Relaxed), 1);
    let second = fetcher
        .fetch(&url(&format!("https://changing.example:{port}/")), PUBLIC)
        .await;
    let expected = FetchError::NotPublic {
        host: "changing.example".to_owned(),
        address: "127.0.0.1".to_owned(),
    };
    assert_eq!(second.unwrap_err(), expected);
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_name_with_one_address_inside_is_refused_as_a_whole() {
    for answers in [
        &["192.0.2.1", "10.0.0.1"][..],
        &["::ffff:127.0.0.1"],
        &["2606:4700::1", "fe80::1"],
    ] {
        let fetcher = Fetcher::with(Network::default(), small(), Prepared::new(&[answers]));
        let error = fetcher
            .fetch(&url("https://mixed.example/"), PUBLIC)
            .await
            .unwrap_err();
        assert!(matches!(error, FetchError::NotPublic { .. }), "{error:?}");
    }
    let nothing = Fetcher::with(Network::default(), small(), Prepared::new(&[&[]]));
    let error = nothing
        .fetch(&url("https://empty.example/"), PUBLIC)
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::Unresolved { .. }), "{error:?}");
}

#[tokio::test]
async fn http_is_tried_encrypted_and_plain_only_where_that_was_agreed_to() {
    let server = Server::start(|_| page("<p>plain")).await;
    let address = url(&format!("http://site.example:{}/", server.address.port()));
    let fetcher = Fetcher::with(
        Network::default(),
        small(),
        Prepared::new(&[&["127.0.0.1"]]),
    );
    let error = fetcher.fetch(&address, NEAR).await.unwrap_err();
    assert!(matches!(error, FetchError::OnlyPlain { .. }), "{error:?}");
    assert!(error.to_string().contains("webFetch.plainHttp"), "{error}");
    let agreed = Access {
        private: true,
        plain_http: true,
    };
    let Outcome::Fetched(page) = fetcher.fetch(&address, agreed).await.unwrap() else {
        panic!("a page");
    };
    assert_eq!(text(&page), "plain");
    assert_eq!(page.url, address);
}

#[tokio::test]
async fn packed_answers_are_unpacked() {
    let server = Server::start(|target| {
        let html = b"<p>packed text";
        let (encoding, body) = match target {
            "/gzip" => ("gzip", gzip(html)),
            "/deflate" => ("deflate", zlib(html)),
            "/bare" => ("deflate", deflate(html)),
            "/twice" => ("gzip, gzip", gzip(&gzip(html))),
            "/mixed" => ("deflate, X-GZIP", gzip(&zlib(html))),
            "/none" => ("identity", html.to_vec()),
            other => panic!("{other}"),
        };
        let headers = format!("content-type: text/html\r\ncontent-encoding: {encoding}\r\n");
        answer("200 OK", &headers, &body)
    })
    .await;
    for path in ["/gzip", "/deflate", "/bare", "/twice", "/mixed", "/none"] {
        assert_eq!(
            text(&fetched(&server.url(path)).await),
            "packed text",
            "{path}"
        );
    }
}

#[tokio::test]
async fn bombs_are_refused_at_their_limit() {
    let large = vec![b' '; 8 * 1024 * 1024];
    let (once, deflated) = (gzip(&large), zlib(&large));
    let twice = gzip(&gzip(&vec![0; 64 * 1024 * 1024]));
    assert!(once.len() < 64 * 1024 && twice.len() < 64 * 1024);
    let server = Server::start(move |target| {
        let (encoding, body) = match target {
            "/gzip" => ("gzip", once.clone()),
            "/deflate" => ("deflate", deflated.clone()),
            "/twice" => ("gzip, gzip", twice.clone()),
            "/many" => ("gzip, gzip, gzip", gzip(&twice)),
            "/brotli" => ("br", b"\x1b\xff\xff".to_vec()),
            "/zstd" => ("zstd", b"\x28\xb5\x2f\xfd".to_vec()),
            "/broken" => ("gzip", b"\x1f\x8b\x08 not really".to_vec()),
            "/cut" => (
                "gzip",
                gzip(b"some text that ends too early")[..20].to_vec(),
            ),
            other => panic!("{other}"),
        };
        let headers = format!("content-type: text/html\r\ncontent-encoding: {encoding}\r\n");
        answer("200 OK", &headers, &body)
    })
    .await;
    let bomb = FetchError::Bomb { limit: 256 * 1024 };
    assert_eq!(failure(&server.url("/gzip"), NEAR).await, bomb);
    assert_eq!(failure(&server.url("/deflate"), NEAR).await, bomb);
    assert_eq!(failure(&server.url("/twice"), NEAR).await, bomb);
    for (path, name) in [("/many", "3 layers"), ("/brotli", "br"), ("/zstd", "zstd")] {
        assert_eq!(
            failure(&server.url(path), NEAR).await,
            FetchError::Packed(name.to_owned())
        );
    }
    for path in ["/broken", "/cut"] {
        let error = failure(&server.url(path), NEAR).await;
        assert!(matches!(error, FetchError::Damaged(_)), "{error:?}");
    }
}

#[tokio::test]
async fn bodies_without_an_end_are_cut_off() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";
    let server = Server::start(move |target| match target {
        "/endless" => Answer::Endless(format!("{head}\r\n").into_bytes(), vec![b'x'; 4_096]),
        "/chunked" => Answer::Endless(
            format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes(),
            b"3e8\r\n"
                .iter()
                .copied()
                .chain([b'y'; 1_000])
                .chain(*b"\r\n")
                .collect(),
        ),
        "/announced" => {
            Answer::Silence(format!("{head}content-length: 99999999999\r\n\r\n").into_bytes())
        }
        "/headers" => Answer::Endless(
            head.as_bytes().to_vec(),
            b"x-more: aaaaaaaaaaaaaaaaaaaaaaaaaa\r\n".to_vec(),
        ),
        "/line" => Answer::Endless(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'z'; 4_096]),
        "/short" => {
            Answer::Bytes(format!("{head}content-length: 50\r\n\r\nonly this").into_bytes())
        }
        "/nonsense" => Answer::Bytes(b"\x16\x03\x01 this is no HTTP\r\n\r\n".to_vec()),
        "/nothing" => Answer::Bytes(Vec::new()),
        other => panic!("{other}"),
    })
    .await;
    let too_large = FetchError::TooLarge { limit: 64 * 1024 };
    for path in ["/endless", "/chunked", "/announced"] {
        assert_eq!(failure(&server.url(path), NEAR).await, too_large, "{path}");
    }
    for path in ["/headers", "/line", "/short", "/nonsense", "/nothing"] {
        let error = failure(&server.url(path), NEAR).await;
        assert!(
            matches!(error, FetchError::Unreachable { .. }),
            "{path}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_slow_answer_ends_at_the_time_limit() {
    let server = Server::start(|target| match target {
        "/silent" => Answer::Silence(Vec::new()),
        _ => Answer::Silence(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nslow".to_vec()),
    })
    .await;
    let time = Duration::from_millis(300);
    let limits = Limits { time, ..small() };
    let fetcher = Fetcher::with(
        Network::default(),
        limits,
        Arc::new(lathe_web::SystemLookup),
    );
    for path in ["/silent", "/body"] {
        let error = fetcher.fetch(&server.url(path), NEAR).await.unwrap_err();
        assert_eq!(error, FetchError::TimedOut(time), "{path}");
    }
}

#[tokio::test]
async fn kinds_of_content_are_told_apart() {
    let png = [b"\x89PNG\r\n\x1a\n".as_slice(), &[0; 20]].concat();
    let server = Server::start(move |target| {
        let (kind, body): (&str, &[u8]) = match target {
            "/json" => ("content-type: application/json\r\n", b"{\"a\": 1}"),
            "/markdown" => (
                "content-type: text/markdown; charset=utf-8\r\n",
                b"# Title\n\n<b>",
            ),
            "/png" => ("content-type: image/png\r\n", &png),
            "/guessed-png" => ("", &png),
            "/pdf" => ("content-type: application/pdf\r\n", b"%PDF-1.7 x"),
            "/guessed-pdf" => ("content-type: application/octet-stream\r\n", b"%PDF-1.7 x"),
            "/lie" => ("content-type: text/html\r\n", b"\x7fELF\x02\x01\x01\0\0\0"),
            "/guessed-html" => ("", b"  <!DOCTYPE html><p>x"),
            "/guessed-text" => ("", b"just text"),
            "/latin" => (
                "content-type: text/html; charset=iso-8859-1\r\n",
                b"<p>caf\xe9",
            ),
            "/svg" => ("content-type: image/svg+xml\r\n", b"<svg/>"),
            other => panic!("{other}"),
        };
        answer("200 OK", kind, body)
    })
    .await;
    let shown = async |path: &str| match fetched(&server.url(path)).await.content {
        Content::Text { text, .. } => text,
        Content::Image(bytes) => format!("image of {}", bytes.len()),
        Content::File {
            extension, bytes, ..
        } => format!("{extension} of {}", bytes.len()),
    };
    let expected = [
        ("/json", "{\"a\": 1}"),
        ("/markdown", "# Title\n\n<b>"),
        ("/png", "image of 28"),
        ("/guessed-png", "image of 28"),
        ("/pdf", "pdf of 10"),
        ("/guessed-pdf", "pdf of 10"),
        ("/lie", "bin of 10"),
        ("/guessed-html", "x"),
        ("/guessed-text", "just text"),
        ("/latin", "café"),
        ("/svg", "<svg/>"),
    ];
    for (path, expected) in expected {
        assert_eq!(shown(path).await, expected, "{path}");
    }
}

#[tokio::test]
async fn errors_of_the_server_have_their_code_and_their_page() {
    let server = Server::start(|_| {
        answer(
            "404 Not Found",
            "content-type: text/html\r\n",
            b"<p>No such page",
        )
    })
    .await;
    let page = fetched(&server.url("/gone")).await;
    assert_eq!((page.code, page.code_text.as_str()), (404, "Not Found"));
    assert_eq!(text(&page), "No such page");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let backend = Server::start(|_| page("<p>secret")).await;
    let tls = tls_in_front_of("self-signed", backend.address).await;
    let error = failure(&url(&format!("https://localhost:{}/", tls.port())), NEAR).await;
    assert!(matches!(error, FetchError::Unreachable { .. }), "{error:?}");
    assert!(
        error.to_string().to_lowercase().contains("certificate"),
        "{error}"
    );
    assert_eq!(backend.requests(), Vec::<String>::new());
    // The same over TLS with an authority that is known.
    let tls = tls_in_front_of("server", backend.address).await;
    let network = Network {
        ca_file: Some(certificates().join("ca.pem")),
        ..Network::default()
    };
    let fetcher = Fetcher::with(network, small(), Arc::new(lathe_web::SystemLookup));
    let address = url(&format!("https://localhost:{}/", tls.port()));
    let Outcome::Fetched(page) = fetcher.fetch(&address, NEAR).await.unwrap() else {
        panic!("a page");
    };
    assert_eq!(text(&page), "secret");
}

#[tokio::test]
async fn from_an_encrypted_address_no_redirect_leads_to_a_plain_one() {
    let backend = Server::start(|_| redirect("http://localhost/plain")).await;
    let tls = tls_in_front_of("server", backend.address).await;
    let network = Network {
        ca_file: Some(certificates().join("ca.pem")),
        ..Network::default()
    };
    let fetcher = Fetcher::with(network, small(), Arc::new(lathe_web::SystemLookup));
    let address = url(&format!("https://localhost:{}/", tls.port()));
    let error = fetcher.fetch(&address, NEAR).await.unwrap_err();
    assert!(matches!(error, FetchError::Downgrade { .. }), "{error:?}");
}

#[tokio::test]
async fn through_a_proxy_names_inside_stay_refused() {
    let proxy = Server::start(|_| page("<p>through the proxy")).await;
    let network = Network {
        proxies: Proxies {
            http: Some(format!("http://proxy.example:{}", proxy.address.port())),
            https: Some(format!("http://proxy.example:{}", proxy.address.port())),
            ..Proxies::default()
        },
        ..Network::default()
    };
    let inside = Fetcher::with(network.clone(), small(), Prepared::new(&[&["10.1.2.3"]]));
    let error = inside
        .fetch(&url("http://intranet.example/"), PUBLIC)
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::NotPublic { .. }), "{error:?}");
    assert_eq!(proxy.requests(), Vec::<String>::new());
    // A proxy may stand inside: its own name is resolved to this machine, the page's to a public address.
    let quick = Limits {
        time: Duration::from_millis(500),
        ..small()
    };
    let outside = Fetcher::with(
        network,
        quick,
        Prepared::new(&[&["192.0.2.7"], &["127.0.0.1"]]),
    );
    let agreed = Access {
        private: false,
        plain_http: true,
    };
    let _ = outside.fetch(&url("http://page.example/"), agreed).await;
    assert!(
        proxy.requests()[0].starts_with("CONNECT page.example:443"),
        "{:?}",
        proxy.requests()
    );
}

#[test]
fn what_is_no_address_is_refused() {
    let fine = [
        "https://example.com",
        "http://example.com:8080/x?y#z",
        "https://[2606:4700::1]/",
        "HTTPS://EXAMPLE.com",
    ];
    for text in fine {
        assert!(parse(text).is_ok(), "{text}");
    }
    let refused = [
        "",
        "example.com",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:1",
        "data:text/html,x",
        "https://",
        "https://user@example.com/",
        "https://user:word@example.com/",
        "https://exa mple.com",
        "http://[::1",
        "https://a:99999/",
    ];
    for text in refused {
        assert!(parse(text).is_err(), "{text}");
    }
    assert!(parse(&format!("https://a.example/{}", "x".repeat(10_000))).is_err());
}

fn certificates() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../model/tests/data")
}

/// Speaks TLS in front of a server that doesn't, with the certificate of this name.
async fn tls_in_front_of(name: &str, backend: std::net::SocketAddr) -> std::net::SocketAddr {
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain =
        vec![CertificateDer::from_pem_file(certificates().join(format!("{name}.pem"))).unwrap()];
    let key = PrivateKeyDer::from_pem_file(certificates().join(format!("{name}.key"))).unwrap();
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that doesn't trust the certificate hangs up here.
                let Ok(mut outer) = acceptor.accept(stream).await else {
                    return;
                };
                let mut inner = TcpStream::connect(backend).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    address
}
