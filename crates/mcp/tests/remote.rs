//! Remote servers: sessions that are forgotten, tokens that end, servers that go away.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
// The signature of the library's callback.
#![allow(clippy::result_large_err)]

mod common;

use common::{Home, LONG, Person, call, fixture, reason, servers, state, until, wait_for};
use futures::future::BoxFuture;
use futures::{SinkExt as _, StreamExt as _};
use lathe_mcp::auth::{Browser, BrowserError, CredentialStorage, CredentialStore};
use lathe_mcp::{Change, Manager, McpError, Remote, ServerConfig, State, TransportConfig};
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

struct Fixture {
    child: Child,
    port: u16,
}

fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap()
}

impl Fixture {
    async fn start(port: u16) -> Self {
        let mut child = Command::new("python3")
            .arg(fixture("remote.py"))
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines
            .next_line()
            .await
            .unwrap()
            .expect("a port")
            .parse()
            .unwrap();
        Self { child, port }
    }

    async fn with(behaviour: &str) -> Self {
        let fixture = Self::start(0).await;
        fixture.control(behaviour).await;
        fixture
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    async fn control(&self, behaviour: &str) {
        http()
            .get(self.url(&format!("/control?{behaviour}")))
            .send()
            .await
            .unwrap();
    }

    async fn stats(&self) -> Value {
        http()
            .get(self.url("/stats"))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }

    fn config(&self) -> ServerConfig {
        ServerConfig::http(self.url("/mcp"))
    }

    async fn stop(mut self) -> u16 {
        self.child.kill().await.unwrap();
        self.port
    }
}

/// A browser whose person agrees to everything.
struct Agrees;

impl Browser for Agrees {
    fn open<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<(), BrowserError>> {
        let url = url.to_owned();
        Box::pin(async move {
            tokio::spawn(async move { http().get(url).send().await });
            Ok(())
        })
    }
}

async fn connect(home: &Home, config: ServerConfig, at_browser: bool) -> Manager {
    let mut options = home.options();
    options.browser = at_browser.then(|| Arc::new(Agrees) as Arc<dyn Browser>);
    let manager = Manager::new(options, Arc::new(Person));
    manager.set_servers(servers([("s", config)]));
    assert!(manager.settled(LONG).await);
    manager
}

async fn echo(manager: &Manager, text: &str) -> Result<(), McpError> {
    assert_eq!(call(manager, "echo", json!({"text": text})).await?, text);
    Ok(())
}

#[tokio::test]
async fn a_forgotten_session_is_opened_anew_and_the_call_repeated_once() {
    let home = Home::default();
    let server = Fixture::with("").await;
    let manager = connect(&home, server.config(), false).await;
    assert_eq!(state(&manager), State::Connected);
    echo(&manager, "one").await.unwrap();
    server.control("forget_sessions").await;
    echo(&manager, "two").await.unwrap();
    let stats = server.stats().await;
    assert_eq!(
        (&stats["sessions"], &stats["calls"]),
        (&json!(2), &json!(2))
    );
    manager.shutdown().await;
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let home = Home::default();
    let server = Fixture::with("").await;
    let manager = connect(&home, server.config(), false).await;
    let error = call(&manager, "huge", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("more than"), "{error}");
    echo(&manager, "and on").await.unwrap();
    manager.shutdown().await;
}

#[tokio::test]
async fn twenty_remote_servers_start_at_a_time() {
    let home = Home::default();
    // It answers only once twenty requests are waiting.
    let server = Fixture::with("together=20").await;
    let manager = home.manager();
    let all = (0..24).map(|number| (format!("s{number}"), server.config()));
    manager.set_servers(all.collect());
    assert!(manager.settled(LONG).await);
    assert!(
        manager
            .status()
            .iter()
            .all(|server| server.state == State::Connected)
    );
    let stats = server.stats().await;
    assert_eq!(
        (&stats["most"], &stats["sessions"]),
        (&json!(20), &json!(24))
    );
    manager.shutdown().await;
}

#[tokio::test]
async fn without_a_person_a_server_that_wants_a_sign_in_is_reported_with_the_command() {
    let home = Home::default();
    let server = Fixture::with("auth").await;
    let manager = connect(&home, server.config(), false).await;
    assert_eq!(state(&manager), State::NeedsAuth);
    let error = echo(&manager, "x").await.unwrap_err();
    assert!(error.to_string().contains("lathe mcp login s"), "{error}");
    assert_eq!(server.stats().await["register"], 0);
    // Somebody signs in elsewhere: that is all that is needed.
    connect(&home, server.config(), true).await.shutdown().await;
    manager.reconnect("s").await.unwrap();
    echo(&manager, "x").await.unwrap();
    manager.shutdown().await;
}

#[tokio::test]
async fn a_sign_in_is_kept_refreshed_once_for_all_and_given_back() {
    let home = Home::default();
    let server = Fixture::with("auth").await;
    let manager = connect(&home, server.config(), true).await;
    assert_eq!(state(&manager), State::Connected);
    echo(&manager, "x").await.unwrap();
    let signed_in = CredentialStore::new(&home.options().home, &home.environment())
        .summaries()
        .unwrap();
    assert_eq!(signed_in[0].scopes, ["read"]);
    manager.shutdown().await;

    // Stored for the next start, which has no browser.
    let manager = connect(&home, server.config(), false).await;
    assert_eq!(state(&manager), State::Connected);
    // A token that ends in the middle is refreshed, once for all calls.
    server.control("expire").await;
    let calls = (0..10).map(|number| {
        let manager = manager.clone();
        async move { echo(&manager, &number.to_string()).await }
    });
    futures::future::try_join_all(calls).await.unwrap();
    let stats = server.stats().await;
    assert_eq!(
        (&stats["refresh"], &stats["register"], &stats["code"]),
        (&json!(1), &json!(1), &json!(1))
    );

    // What another process refreshed is taken from the store.
    let other = connect(&home, server.config(), false).await;
    server.control("expire").await;
    echo(&other, "first").await.unwrap();
    echo(&manager, "second").await.unwrap();
    assert_eq!(server.stats().await["refresh"], 2);
    other.shutdown().await;

    assert!(manager.log_out("s").await.unwrap());
    assert_eq!(
        server.stats().await["revoked"],
        json!(["refresh_token", "access_token"])
    );
    until(|| state(&manager) == State::NeedsAuth).await;
    assert!(!manager.log_out("s").await.unwrap());
    assert!(
        CredentialStore::new(&home.options().home, &home.environment())
            .summaries()
            .unwrap()
            .is_empty()
    );
    manager.shutdown().await;
}

/// A machine whose keyring is a folder.
fn with_keyring(home: &Home, more: &[(&str, &str)]) -> lathe_mcp::Options {
    let vault = home.path().join("vault");
    std::fs::create_dir_all(&vault).unwrap();
    let programs = std::path::PathBuf::from(fixture("secret-tool"));
    let programs = programs.parent().unwrap().display().to_string();
    let mut options = home.options();
    let variables = &mut options.environment.variables;
    let path = format!("{programs}:{}", variables["PATH"]);
    let vault = vault.display().to_string();
    for (name, value) in [
        ("PATH", path.as_str()),
        ("VAULT", &vault),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere"),
    ]
    .iter()
    .chain(more)
    {
        variables.insert((*name).to_owned(), (*value).to_owned());
    }
    options.browser = Some(Arc::new(Agrees));
    options
}

/// The contents of the keyring.
fn vault(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.path().join("vault")).unwrap();
    let items = entries.map(|entry| entry.unwrap().path()).filter(|path| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("item")
    });
    items
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

fn credentials_file(home: &Home) -> String {
    std::fs::read_to_string(home.options().home.join("mcp-credentials.json")).unwrap()
}

async fn connected(options: lathe_mcp::Options, config: ServerConfig) -> Manager {
    let manager = Manager::new(options, Arc::new(Person));
    manager.set_servers(servers([("s", config)]));
    assert!(manager.settled(LONG).await);
    assert_eq!(state(&manager), State::Connected);
    manager
}

#[tokio::test]
async fn tokens_lie_in_the_keyring_and_nowhere_else() {
    let home = Home::default();
    let server = Fixture::with("auth").await;
    let options = with_keyring(&home, &[]);
    connected(options.clone(), server.config())
        .await
        .shutdown()
        .await;
    assert_eq!(vault(&home).len(), 1);
    assert!(vault(&home)[0].contains("access-"), "{:?}", vault(&home));
    let nobody = lathe_mcp::Options {
        browser: None,
        ..options
    };
    let manager = connected(nobody.clone(), server.config()).await;
    server.control("expire").await;
    echo(&manager, "x").await.unwrap();
    assert_eq!(server.stats().await["refresh"], 1);
    let store = CredentialStore::new(&nobody.home, &nobody.environment);
    assert_eq!(store.summaries().unwrap()[0].scopes, ["read"]);
    assert_eq!(
        store.keeping(),
        CredentialStorage::Keyring {
            program: "secret-tool"
        }
    );
    assert!(!credentials_file(&home).contains("access-"));
    assert!(!credentials_file(&home).contains("refresh-"));
    let arguments = std::fs::read_to_string(home.path().join("vault/arguments")).unwrap();
    assert!(!arguments.contains("access-"), "{arguments}");
    assert!(manager.log_out("s").await.unwrap());
    assert!(vault(&home).is_empty());
    manager.shutdown().await;
}

#[tokio::test]
async fn tokens_of_the_file_move_into_the_keyring_and_back() {
    let home = Home::default();
    let server = Fixture::with("auth").await;
    let file = with_keyring(&home, &[("LATHE_MCP_CREDENTIALS", "file")]);
    connected(file.clone(), server.config())
        .await
        .shutdown()
        .await;
    assert!(credentials_file(&home).contains("access-"));
    assert!(vault(&home).is_empty());
    let keyring = with_keyring(&home, &[("LATHE_MCP_CREDENTIALS", "keyring")]);
    connected(keyring, server.config()).await.shutdown().await;
    assert!(!credentials_file(&home).contains("access-"));
    assert_eq!(vault(&home).len(), 1);
    let manager = connected(file, server.config()).await;
    assert!(credentials_file(&home).contains("access-"));
    assert!(vault(&home).is_empty());
    assert_eq!(
        server.stats().await["code"],
        1,
        "nobody had to sign in again"
    );
    manager.shutdown().await;
}

#[tokio::test]
async fn a_locked_keyring_is_reported_once_and_the_file_is_used_instead() {
    let home = Home::default();
    let server = Fixture::with("auth").await;
    let options = with_keyring(&home, &[]);
    std::fs::write(home.path().join("vault/locked"), "").unwrap();
    let manager = Manager::new(options.clone(), Arc::new(Person));
    let mut changes = manager.changes();
    let other = ServerConfig::http(format!("{}?other", server.url("/mcp")));
    manager.set_servers(servers([("s", server.config()), ("t", other)]));
    assert!(manager.settled(LONG).await);
    assert_eq!(manager.server("t").unwrap().state, State::Connected);
    let mut notices = Vec::new();
    while let Ok(change) = changes.try_recv() {
        if let Change::Notice { text, .. } = change {
            notices.push(text);
        }
    }
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("locked collection"), "{notices:?}");
    assert!(credentials_file(&home).contains("access-"));
    manager.shutdown().await;
    let store = CredentialStore::new(&options.home, &options.environment);
    assert!(
        matches!(store.keeping(), CredentialStorage::File { why, .. } if why.contains("locked"))
    );
    // And is found there.
    let nobody = lathe_mcp::Options {
        browser: None,
        ..options
    };
    connected(nobody, server.config()).await.shutdown().await;
    // Who wants the keyring and nothing else has no sign-in for the next time.
    let strict = Home::default();
    let options = with_keyring(&strict, &[("LATHE_MCP_CREDENTIALS", "keyring")]);
    std::fs::write(strict.path().join("vault/locked"), "").unwrap();
    connected(options, server.config()).await.shutdown().await;
    assert!(!credentials_file(&strict).contains("access-"));
}

#[tokio::test]
async fn a_dead_refresh_token_needs_a_person_however_the_server_says_it() {
    for way in ["kill_refresh", "kill_refresh&odd"] {
        let home = Home::default();
        let server = Fixture::with("auth").await;
        connect(&home, server.config(), true).await.shutdown().await;
        let manager = connect(&home, server.config(), false).await;
        assert_eq!(state(&manager), State::Connected);
        server.control(&format!("expire&{way}")).await;
        let error = echo(&manager, "x").await.unwrap_err();
        assert!(matches!(error, McpError::NeedsAuth(_)), "{error}");
        until(|| state(&manager) == State::NeedsAuth).await;
        manager.shutdown().await;

        // The user signs in again, with the registration that there is.
        let manager = connect(&home, server.config(), true).await;
        echo(&manager, "x").await.unwrap();
        let stats = server.stats().await;
        assert_eq!(
            (&stats["code"], &stats["register"]),
            (&json!(2), &json!(1)),
            "{stats}"
        );
        manager.shutdown().await;
    }
}

#[tokio::test]
async fn a_dead_registration_is_made_anew() {
    let home = Home::default();
    let server = Fixture::with("auth").await;
    let manager = connect(&home, server.config(), true).await;
    server.control("expire&kill_refresh&forget_clients").await;
    echo(&manager, "x").await.unwrap();
    let stats = server.stats().await;
    assert_eq!((&stats["register"], &stats["code"]), (&json!(2), &json!(2)));
    // Signing in on somebody's word makes new tokens too.
    manager.log_in("s").await.unwrap();
    assert_eq!(server.stats().await["code"], 3);
    manager.shutdown().await;
}

#[tokio::test]
async fn a_server_cannot_send_us_to_addresses_that_only_we_can_reach() {
    for place in [
        "http://169.254.169.254",
        "http://10.0.0.1:81",
        "https://[fd00::1]",
        "file:///etc",
    ] {
        let home = Home::default();
        let place = url::form_urlencoded::byte_serialize(place.as_bytes()).collect::<String>();
        let server = Fixture::with(&format!("auth&as={place}")).await;
        let manager = connect(&home, server.config(), true).await;
        let reason = reason(&manager);
        assert!(reason.contains("; refused"), "{reason}");
        manager.shutdown().await;
    }
}

#[tokio::test]
async fn a_refused_header_of_the_configuration_is_reported_and_nothing_else_tried() {
    let home = Home::default();
    let server = Fixture::with("auth").await;
    let mut remote = Remote::new(server.url("/mcp"));
    remote.headers = vec![("Authorization".to_owned(), "Bearer sesame-opens".to_owned())];
    let config = ServerConfig::new(TransportConfig::Http(remote));
    assert!(!format!("{config:?}").contains("sesame"));
    let manager = connect(&home, config, true).await;
    let reason = reason(&manager);
    assert!(
        reason.contains("Authorization header") && !reason.contains("sesame"),
        "{reason}"
    );
    assert_eq!(server.stats().await["paths"], json!([]));
    manager.shutdown().await;
}

#[tokio::test]
async fn a_server_that_went_away_is_sought_and_found() {
    let home = Home::default();
    let server = Fixture::with("").await;
    let config = server.config();
    let manager = connect(&home, config, false).await;
    let mut changes = manager.changes();
    let port = server.stop().await;
    // Nothing listens there: the call can't have happened, so that it waits for the way back.
    let restarted = async {
        wait_for(&mut changes, |change| {
            matches!(
                change,
                Change::State {
                    state: State::Pending,
                    ..
                }
            )
        })
        .await;
        Fixture::start(port).await
    };
    let (outcome, server) = tokio::join!(echo(&manager, "x"), restarted);
    outcome.unwrap();
    assert_eq!(server.stats().await["calls"], 1);
    manager.shutdown().await;
}

#[tokio::test]
async fn a_server_that_stays_away_is_given_up_and_reported_once() {
    let home = Home::default();
    let server = Fixture::with("").await;
    let mut options = home.options();
    options.backoff.tries = 3;
    let manager = Manager::new(options, Arc::new(Person));
    manager.set_servers(servers([("s", server.config())]));
    assert!(manager.settled(LONG).await);
    let mut changes = manager.changes();
    server.stop().await;
    echo(&manager, "x").await.unwrap_err();
    let notice = wait_for(&mut changes, |change| {
        matches!(change, Change::Notice { .. })
    })
    .await;
    assert!(matches!(notice, Change::Notice { text, .. } if text.contains("can't be reached")));
    assert!(matches!(state(&manager), State::Failed { .. }));
    echo(&manager, "x").await.unwrap_err();
    while let Ok(change) = changes.try_recv() {
        assert!(!matches!(change, Change::Notice { .. }));
    }
    manager.shutdown().await;
}

#[tokio::test]
async fn an_event_stream_cannot_have_messages_posted_elsewhere() {
    let home = Home::default();
    let server = Fixture::with("").await;
    let config = ServerConfig::new(TransportConfig::Sse(Remote::new(server.url("/sse"))));
    let manager = connect(&home, config, false).await;
    assert!(
        reason(&manager).contains("another origin"),
        "{}",
        reason(&manager)
    );
    manager.shutdown().await;
}

#[tokio::test]
async fn a_server_without_streamable_http_is_reached_by_its_event_stream() {
    let home = Home::default();
    let server = Fixture::with("").await;
    let mut remote = Remote::new(server.url("/legacy"));
    let named = ServerConfig::new(TransportConfig::Http(remote.clone()));
    let manager = connect(&home, named, false).await;
    assert!(reason(&manager).contains("405"), "{}", reason(&manager));
    manager.shutdown().await;
    remote.sse_fallback = true;
    let config = ServerConfig::new(TransportConfig::Http(remote));
    let manager = connect(&home, config, false).await;
    assert_eq!(state(&manager), State::Connected);
    assert_eq!(manager.tools()[0].item["name"], "echo");
    manager.shutdown().await;
}

/// Answers one WebSocket connection by hand; `goodbye` ends it.
async fn websocket(listener: &tokio::net::TcpListener) {
    let (stream, _) = listener.accept().await.unwrap();
    let greet = |request: &Request, mut response: Response| {
        let protocol = request.headers().get("sec-websocket-protocol").cloned();
        assert_eq!(protocol.as_ref().unwrap(), "mcp");
        assert_eq!(request.headers()["x-key"], "k");
        response
            .headers_mut()
            .insert("sec-websocket-protocol", protocol.unwrap());
        Ok(response)
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, greet)
        .await
        .unwrap();
    while let Some(Ok(frame)) = socket.next().await {
        let Message::Text(text) = frame else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "ws", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            "tools/call" if message["params"]["arguments"]["text"] == "goodbye" => return,
            "tools/call" => {
                json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]})
            }
            "server/discover" => {
                let error = json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}});
                socket.send(Message::text(error.to_string())).await.unwrap();
                continue;
            }
            _ => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        socket
            .send(Message::text(answer.to_string()))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_websocket_carries_messages_and_is_opened_again_when_it_breaks() {
    let home = Home::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            websocket(&listener).await;
        }
    });
    let mut remote = Remote::new(format!("ws://127.0.0.1:{port}/"));
    remote.headers = vec![("X-Key".to_owned(), "k".to_owned())];
    let manager = connect(
        &home,
        ServerConfig::new(TransportConfig::WebSocket(remote)),
        false,
    )
    .await;
    assert_eq!(state(&manager), State::Connected);
    echo(&manager, "one").await.unwrap();
    let mut changes = manager.changes();
    // Sent and not answered: it may have happened, so that it isn't repeated.
    assert!(matches!(
        echo(&manager, "goodbye").await,
        Err(McpError::Broken { .. })
    ));
    wait_for(&mut changes, |change| {
        matches!(
            change,
            Change::State {
                state: State::Connected,
                ..
            }
        )
    })
    .await;
    echo(&manager, "two").await.unwrap();
    manager.shutdown().await;
}
