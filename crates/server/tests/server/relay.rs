//! A device behind a relay: admission, the API and the wire through it, hostile frames, and a relay that knows nothing.
use crate::support::Site;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{SinkExt as _, StreamExt as _};
use lathe_server::relay::channel::{Channel, Received, Side};
use lathe_server::relay::envelope::Envelope;
use lathe_server::relay::keys::{Begun, HostHi};
use lathe_server::relay::pairing::{Pairing, Pairings, Seen, Verdict};
use lathe_server::relay::switchboard::Relay;
use lathe_server::{DeviceScope, Listen, RelayState};
use lathe_testkit::browser::Browser;
use lathe_wire::WireOp;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

type Line =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// The parts of a link.
struct Link {
    room: String,
    key: String,
    pairing: Pairing,
}

fn pairings(site: &Site) -> Pairings {
    Pairings::new(site.devices().folder())
}

fn link(site: &Site, scope: DeviceScope) -> (Link, String) {
    let (pairing, link) = pairings(site).begin(scope).unwrap();
    let part = |name: &str| {
        let (_, rest) = link.split_once(&format!("{name}=")).unwrap();
        rest.split('&').next().unwrap().to_owned()
    };
    let parts = Link {
        room: part("#r"),
        key: part("k"),
        pairing,
    };
    (parts, link)
}

async fn enter(relay: &str, room: &str, member: &str, more: &str) -> Option<Line> {
    let address = format!("{relay}/v1/room?room={room}&as={member}");
    let mut request = address.into_client_request().unwrap();
    let protocols = format!("lathe.relay.v1{more}").parse().unwrap();
    request
        .headers_mut()
        .insert("sec-websocket-protocol", protocols);
    let connected = tokio_tungstenite::connect_async(request).await;
    connected.ok().map(|(line, _)| line)
}

/// Greets until the host answers, which may not be in its room yet; `None` if the relay is gone.
async fn answered(line: &mut Line, hello: &Value) -> Option<Message> {
    loop {
        line.send(Message::text(hello.to_string())).await.ok()?;
        if let Ok(answer) = tokio::time::timeout(Duration::from_millis(300), line.next()).await {
            return answer?.ok();
        }
    }
}

/// A device at the other end of a relay.
struct Device {
    line: Line,
    channel: Channel,
    digits: String,
    /// Frames as they were sent.
    sent: Vec<String>,
}

impl Device {
    /// Connects and agrees on keys. The host may not be in its room yet, so the greeting is repeated.
    async fn greet(relay: &str, room: &str, key: &str, who: &str, known: &str) -> Self {
        loop {
            let member = uuid::Uuid::new_v4().simple().to_string();
            let Some(mut line) = enter(relay, room, &member, "").await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let begun = Begun::new(who, "phone").unwrap();
            let hello = json!({"v": 1, "room": room, "from": member, "to": "host",
                "ct": STANDARD.encode(serde_json::to_vec(&begun.hi).unwrap())});
            let Some(answer) = answered(&mut line, &hello).await else {
                continue;
            };
            let answer: Envelope = serde_json::from_str(answer.to_text().unwrap()).unwrap();
            let answer: HostHi =
                serde_json::from_slice(&STANDARD.decode(answer.ct).unwrap()).unwrap();
            let agreed = begun.finish(key, room, &member, &answer, known).unwrap();
            let digits = agreed.digits.clone();
            let channel = Channel::new(agreed, Side::Device, room, &member, "host");
            return Self {
                line,
                channel,
                digits,
                sent: Vec::new(),
            };
        }
    }

    async fn say(&mut self, message: Value) {
        for frame in self.channel.send(message.to_string().as_bytes()).unwrap() {
            self.sent.push(frame.clone());
            self.line.send(Message::text(frame)).await.unwrap();
        }
    }

    /// The next message that has a field.
    async fn next(&mut self, name: &str) -> Value {
        loop {
            let frame = self.line.next().await.unwrap().unwrap();
            let Message::Text(frame) = frame else {
                continue;
            };
            let frame: Envelope = serde_json::from_str(frame.as_str()).unwrap();
            if let Received::Message(message) = self.channel.receive(&frame).unwrap() {
                let message: Value = serde_json::from_slice(&message).unwrap();
                if message.get(name).is_some() {
                    return message;
                }
            }
        }
    }

    async fn ask(&mut self, path: &str) -> Value {
        self.say(json!({"id": 1, "req": {"method": "GET", "path": path}}))
            .await;
        self.next("res").await["res"].clone()
    }
}

async fn seen(site: &Site, pairing: &Pairing) -> Seen {
    loop {
        match pairings(site).seen(&pairing.id) {
            Some(seen) => return seen,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn site(relay: &Relay) -> Site {
    let address = relay.url().replacen("http", "ws", 1);
    Site::changed(|options| options.relay = Some(address)).await
}

fn socket_url(relay: &Relay) -> String {
    relay.url().replacen("http", "ws", 1)
}

/// A device that was admitted, and its welcome.
async fn admitted(site: &Site, relay: &str, scope: DeviceScope) -> (Device, Link, Value) {
    let (link, _) = link(site, scope);
    let who = format!("pair:{}", link.pairing.id);
    let mut device = Device::greet(relay, &link.room, &link.key, &who, &link.pairing.secret).await;
    assert_eq!(seen(site, &link.pairing).await.digits, device.digits);
    // Nothing is answered before the user has decided.
    device
        .say(json!({"id": 9, "req": {"method": "GET", "path": "/v1/sessions"}}))
        .await;
    pairings(site)
        .decide(&link.pairing.id, Verdict::Admit)
        .unwrap();
    let welcome = device.next("welcome").await["welcome"].clone();
    (device, link, welcome)
}

#[tokio::test]
async fn a_device_is_admitted_by_digits_and_works_through_the_relay() {
    let relay = Relay::start(&Listen::default()).await.unwrap();
    let site = site(&relay).await;
    let url = socket_url(&relay);
    let (mut device, link, welcome) = admitted(&site, &url, DeviceScope::Prompt).await;
    assert_eq!(welcome["scope"], "prompt");
    let listed = device.ask("/v1/sessions").await;
    assert_eq!(listed["status"], 200);
    assert!(
        listed["body"].as_str().unwrap().contains("the session"),
        "{listed}"
    );
    assert_eq!(device.ask("/v1/pair").await["status"], 404);

    // The wire, with the rights and the name of the device.
    device
        .say(json!({"open": 5, "session": site.session.to_string()}))
        .await;
    let hello = json!({"hello": {"v": 1, "client": "root", "kind": "terminal"}}).to_string();
    device.say(json!({"wire": 5, "line": hello})).await;
    let snapshot = device.next("wire").await;
    assert!(
        snapshot["line"].as_str().unwrap().contains("snapshot"),
        "{snapshot}"
    );
    let op = json!({"id": uuid::Uuid::new_v4(), "op": {"type": "prompt", "content": "go on"}});
    device.say(json!({"wire": 5, "line": op.to_string()})).await;
    while !device.next("wire").await["line"]
        .as_str()
        .unwrap()
        .contains("\"ack\"")
    {}
    // The same session in messages, by the rules of a remote conversation.
    device
        .say(json!({"open": 6, "session": site.session.to_string(), "as": "messages"}))
        .await;
    let initialize =
        json!({"type": "control_request", "request_id": "c", "request": {"subtype": "initialize"}});
    device
        .say(json!({"wire": 6, "line": initialize.to_string()}))
        .await;
    loop {
        let frame = device.next("wire").await;
        let line: Value = serde_json::from_str(frame["line"].as_str().unwrap()).unwrap();
        if frame["wire"] == 6 && line["type"] == "control_response" {
            assert_eq!(line["response"]["response"]["title"], "the session");
            break;
        }
    }
    device.say(json!({"close": 6})).await;
    // A relay that repeats a frame, or invents one, achieves nothing.
    let repeated = device.sent.last().unwrap().clone();
    let mut changed: Envelope = serde_json::from_str(&repeated).unwrap();
    changed.seq += 1;
    for frame in [repeated, changed.to_text(), "{".to_owned(), "[]".to_owned()] {
        device.line.send(Message::text(frame)).await.unwrap();
    }
    assert_eq!(device.ask("/v1/sessions").await["status"], 200);
    let prompts = || {
        let ops = site.peer.ops.lock();
        let names: Vec<Option<String>> = ops
            .iter()
            .filter(|(op, _)| matches!(op, WireOp::Prompt { .. }))
            .map(|(_, by)| by.clone())
            .collect();
        names
    };
    assert_eq!(
        prompts(),
        [Some("phone".to_owned())],
        "once, by the device's name"
    );

    // It comes back with its token; a revoked one does not.
    drop(device);
    let token = welcome["token"].as_str().unwrap();
    let id = welcome["device"].as_str().unwrap();
    let known = site.devices().of_token(token).unwrap();
    let who = format!("device:{id}");
    let mut again = Device::greet(&url, &link.room, &link.key, &who, &known.hash).await;
    assert_eq!(again.next("welcome").await["welcome"]["token"], Value::Null);
    assert_eq!(again.ask("/v1/sessions").await["status"], 200);
    site.devices().revoke(id).unwrap();
    again
        .say(json!({"id": 2, "req": {"method": "GET", "path": "/v1/sessions"}}))
        .await;
    let member = enter(&url, &link.room, "x1", "").await;
    let mut member = member.unwrap();
    let begun = Begun::new(&who, "phone").unwrap();
    let hello = json!({"v": 1, "room": link.room, "from": "x1", "to": "host",
        "ct": STANDARD.encode(serde_json::to_vec(&begun.hi).unwrap())});
    member.send(Message::text(hello.to_string())).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(1), member.next()).await;
    assert!(answer.is_err(), "a revoked device is not answered");
}

#[tokio::test]
async fn a_server_knows_whether_its_relay_is_reached() {
    let relay = Relay::start(&Listen::default()).await.unwrap();
    let near = site(&relay).await;
    let mut state = near.server.relay();
    let reached = state.wait_for(|state| *state == RelayState::Reached).await;
    assert!(reached.is_ok());
    let address = socket_url(&relay);
    drop((near, relay));
    // Nobody listens there any more.
    let far = Site::changed(|options| options.relay = Some(address)).await;
    let mut state = far.server.relay();
    let failed = state
        .wait_for(|state| matches!(state, RelayState::Failed(_)))
        .await;
    assert!(failed.is_ok());
}

#[tokio::test]
async fn a_link_admits_nobody_without_the_users_word() {
    let relay = Relay::start(&Listen::default()).await.unwrap();
    let site = site(&relay).await;
    let url = socket_url(&relay);
    let (link, _) = link(&site, DeviceScope::Admin);
    let who = format!("pair:{}", link.pairing.id);
    let mut device = Device::greet(&url, &link.room, &link.key, &who, &link.pairing.secret).await;
    seen(&site, &link.pairing).await;
    device
        .say(json!({"id": 1, "req": {"method": "GET", "path": "/v1/sessions"}}))
        .await;
    pairings(&site)
        .decide(&link.pairing.id, Verdict::Refuse)
        .unwrap();
    let refused = device.next("refused").await;
    assert!(refused["refused"].is_string());
    assert!(device.sent.len() == 1 && site.devices().list().unwrap().len() == 4);
    assert_eq!(
        pairings(&site).find(&link.pairing.id),
        None,
        "the link is used up"
    );
}

#[tokio::test]
async fn a_room_has_one_host_and_devices_see_only_it() {
    let relay = Relay::start(&Listen::default()).await.unwrap();
    let site = site(&relay).await;
    let url = socket_url(&relay);
    let (link, _) = link(&site, DeviceScope::View);
    for proof in ["", ", lathe.proof.guess"] {
        assert!(
            enter(&url, &link.room, "host", proof).await.is_none(),
            "{proof:?}"
        );
    }
    assert!(enter(&url, "../x", "d1", "").await.is_none());
    let mut one = enter(&url, &link.room, "d1", "").await.unwrap();
    let mut two = enter(&url, &link.room, "d2", "").await.unwrap();
    // Neither to another device, nor in its name, nor in another room.
    for (from, to, room) in [
        ("d1", "d2", link.room.as_str()),
        ("host", "d2", link.room.as_str()),
        ("d2", "d2", link.room.as_str()),
        ("d1", "d2", "other"),
    ] {
        let frame = json!({"v": 1, "room": room, "from": from, "to": to, "ct": "AAAA"});
        one.send(Message::text(frame.to_string())).await.unwrap();
    }
    let heard = tokio::time::timeout(Duration::from_millis(300), two.next()).await;
    assert!(heard.is_err(), "{heard:?}");
    // A huge frame ends its own connection.
    let _ = one.send(Message::text("x".repeat(1 << 20))).await;
    while let Some(Ok(_)) = one.next().await {}
    two.send(Message::text("{}")).await.unwrap();
    assert!(enter(&url, &link.room, "d3", "").await.is_some());
}

/// The relay of [`a_relay_process_never_has_the_text`]: this test's own program, run again.
#[tokio::test]
async fn helper_relay() {
    if std::env::var_os("LATHE_TEST_RELAY").is_none() {
        return;
    }
    let relay = Relay::start(&Listen::default()).await.unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "RELAY {}", relay.url()).unwrap();
    out.flush().unwrap();
    let (sender, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    let _ = ended.await;
}

/// Whether a process has some bytes in its memory.
fn has_in_memory(pid: u32, wanted: &[u8]) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    maps.lines().any(|line| {
        let (range, rest) = line.split_once(' ').unwrap();
        if !rest.starts_with("rw") {
            return false;
        }
        let (from, to) = range.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (from, to) = (number(from), number(to));
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        memory.seek(std::io::SeekFrom::Start(from)).unwrap();
        // Some pages can't be read; what can be is looked at.
        let _ = memory.read_exact(&mut bytes);
        bytes.windows(wanted.len()).any(|part| part == wanted)
    })
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_process_never_has_the_text() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["relay::helper_relay", "--exact", "--nocapture"])
        .env("LATHE_TEST_RELAY", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let url = loop {
        let mut line = String::new();
        assert!(
            out.read_line(&mut line).unwrap() > 0,
            "the relay did not start"
        );
        if let Some((_, url)) = line.trim().split_once("RELAY http") {
            break format!("ws{url}");
        }
    };
    let site = Site::changed(|options| options.relay = Some(url.clone())).await;
    let (mut device, link, _) = admitted(&site, &url, DeviceScope::Prompt).await;
    // In both directions, and more than once: what is freed is looked for too.
    let secret = format!("planted-{}", uuid::Uuid::new_v4());
    site.peer
        .records
        .lock()
        .push(json!({"type": "user", "message": {"role": "user", "content": secret}}));
    device
        .say(json!({"open": 5, "session": site.session.to_string()}))
        .await;
    let hello = json!({"hello": {"v": 1, "client": "x", "kind": "page"}}).to_string();
    device.say(json!({"wire": 5, "line": hello})).await;
    assert!(
        device.next("wire").await.to_string().contains(&secret),
        "the device reads it"
    );
    for number in 0..20 {
        let content = format!("{secret} {number}");
        let op = json!({"id": uuid::Uuid::new_v4(), "op": {"type": "prompt", "content": content}});
        device.say(json!({"wire": 5, "line": op.to_string()})).await;
        while !device.next("wire").await["line"]
            .as_str()
            .unwrap()
            .contains("\"ack\"")
        {}
    }
    let pid = child.id();
    assert!(has_in_memory(pid, link.room.as_bytes()), "the search works");
    assert!(
        !has_in_memory(pid, secret.as_bytes()),
        "the relay has the text"
    );
    assert!(
        !has_in_memory(pid, link.pairing.secret.as_bytes()),
        "the relay has the secret of the link"
    );
    drop(child.stdin.take());
    let mut printed = String::new();
    out.read_to_string(&mut printed).unwrap();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    child.wait().unwrap();
    assert!(!printed.contains("planted-"), "{printed}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_page_of_a_relay_is_admitted_and_works() {
    let relay = Relay::start(&Listen::default()).await.unwrap();
    let site = site(&relay).await;
    let (link, address) = link(&site, DeviceScope::Approve);
    let browser = tokio::task::spawn_blocking(Browser::start).await.unwrap();
    let shown = tokio::task::spawn_blocking(move || {
        browser.open(&address);
        browser.wait("document.getElementById('digits').textContent");
        let shown = browser.run("return document.getElementById('digits').textContent");
        browser.picture("web-pairing.png");
        (browser, shown)
    });
    let (browser, shown) = shown.await.unwrap();
    let digits = seen(&site, &link.pairing).await.digits;
    assert_eq!(shown.as_str().unwrap().replace(' ', ""), digits);
    pairings(&site)
        .decide(&link.pairing.id, Verdict::Admit)
        .unwrap();
    let site = std::sync::Arc::new(site);
    let peer = std::sync::Arc::clone(&site.peer);
    let secret = link.pairing.secret.clone();
    tokio::task::spawn_blocking(move || {
        browser.wait_text("the session");
        browser.run("document.querySelector('#sessions button').click()");
        browser.wait("document.getElementById('state').textContent === 'needs you'");
        browser.type_prompt("through the relay");
        browser.wait_text("Streamed words");
        let kept = browser.run("return location.hash + document.cookie");
        assert!(!kept.to_string().contains(&secret), "{kept}");
        // The tab comes back by its own token.
        browser.run("location.reload()");
        browser.wait_text("the session");
        browser.wait("!document.getElementById('pairing').open");
    })
    .await
    .unwrap();
    let ops = peer.ops.lock();
    assert!(ops.iter().any(|(op, by)| {
        matches!(op, WireOp::Prompt { .. }) && matches!(by.as_deref(), Some("browser"))
    }));
}

/// Kills the relay again and again: the host comes back by itself, and the device misses no event and sees none twice.
/// `LATHE_KILLS` says how often.
#[tokio::test]
async fn a_relay_that_dies_costs_no_event() {
    let kills: u64 = std::env::var("LATHE_KILLS").map_or(3, |text| text.parse().unwrap());
    let mut relay = Relay::start(&Listen::default()).await.unwrap();
    let site = site(&relay).await;
    let url = socket_url(&relay);
    let (device, link, welcome) = admitted(&site, &url, DeviceScope::View).await;
    drop(device);
    let id = welcome["device"].as_str().unwrap();
    let known = site.devices().of_token(welcome["token"].as_str().unwrap());
    let (who, known) = (format!("device:{id}"), known.unwrap().hash);
    let mut seen: Option<u64> = None;
    for round in 0..kills {
        let mut device = Device::greet(&url, &link.room, &link.key, &who, &known).await;
        device
            .say(json!({"open": 1, "session": site.session.to_string()}))
            .await;
        let after = seen.map(|seq| json!({"epoch": "e-1", "seq": seq}));
        let hello = json!({"hello": {"v": 1, "client": "x", "kind": "page", "after": after}});
        device
            .say(json!({"wire": 1, "line": hello.to_string()}))
            .await;
        site.peer
            .emit(&json!({"round": round, "when": "connected"}));
        let last = 3 + 2 * round + 1;
        while seen != Some(last) {
            let line = device.next("wire").await["line"]
                .as_str()
                .unwrap()
                .to_owned();
            let frame: Value = serde_json::from_str(&line).unwrap();
            if let Some(snapshot) = frame.get("snapshot") {
                assert_eq!(seen, None, "a snapshot only at the beginning");
                seen = snapshot["seq"].as_u64();
            } else if let Some(seq) = frame["seq"].as_u64() {
                assert_eq!(seen.map(|seen| seen + 1), Some(seq));
                seen = Some(seq);
            }
        }
        let port = relay.address().port();
        drop(relay);
        // Nobody is there for this one.
        site.peer.emit(&json!({"round": round, "when": "away"}));
        let listen = Listen {
            port,
            ..Listen::default()
        };
        relay = loop {
            match Relay::start(&listen).await {
                Ok(relay) => break relay,
                Err(_) => tokio::task::yield_now().await,
            }
        };
    }
}
