//! The API with a session on a real socket: lists, questions, events, the wire.
use crate::support::Site;
use futures::{SinkExt as _, StreamExt as _};
use lathe_server::DeviceScope::{self, Admin, Approve, Prompt, View};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

#[tokio::test]
async fn sessions_are_listed_and_described() {
    let site = Site::new().await;
    let list = site.get(View, "/v1/sessions").await.json();
    assert_eq!(list["sessions"][0]["id"], site.session.to_string());
    assert_eq!(list["sessions"][0]["state"], "needs-you");
    assert_eq!(list["folders"][0], json!(site.home.path()));
    let one = site
        .get(View, &format!("/v1/sessions/{}", site.session))
        .await
        .json();
    assert_eq!(one["title"], "the session");
    let document = site.get(View, "/openapi.json").await.json();
    assert!(document["paths"]["/v1/sessions"]["get"].is_object());
    let other = site
        .post(
            Prompt,
            "/v1/sessions",
            &json!({"folder": "/etc", "prompt": "x"}),
        )
        .await;
    assert_eq!(other.status, 403, "{other:?}");
}

#[tokio::test]
async fn the_first_answer_wins_and_the_others_are_told() {
    let site = Site::new().await;
    let path = format!("/v1/sessions/{}/questions/", site.session);
    let allow = json!({"reply": {"behavior": "allow"}});
    let deny = json!({"reply": {"behavior": "deny", "message": "use the other file"}});
    let (one, other) = (format!("{path}q"), format!("{path}q"));
    let (one, other) = tokio::join!(
        site.post(Approve, &one, &allow),
        site.post(Admin, &other, &deny)
    );
    let (won, lost) = if one.status == 200 {
        (one, other)
    } else {
        (other, one)
    };
    assert_eq!((won.status, lost.status), (200, 409), "{won:?} {lost:?}");
    assert!(["approve", "admin"].contains(&lost.json()["by"].as_str().unwrap()));
    assert_eq!(lost.json()["reply"]["behavior"], "allow");
    let gone = site.post(Approve, &format!("{path}gone"), &allow).await;
    assert_eq!(gone.status, 410, "{gone:?}");
    let wrong = site
        .post(
            Approve,
            &format!("{path}x"),
            &json!({"reply": {"behavior": "perhaps"}}),
        )
        .await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
}

#[tokio::test]
async fn events_continue_after_the_last_that_was_seen() {
    let site = Site::new().await;
    let read = async |last: &str, count: usize| {
        let mut stream = site.connect().await;
        let head = format!(
            "GET /v1/sessions/{}/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{last}\r\n",
            site.session,
            site.host_header(),
            site.tokens[&View]
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let mut found = Vec::new();
        while found.len() < count {
            let line = lines.next_line().await.unwrap().unwrap();
            if line.starts_with("id: ")
                || line.starts_with("event: ")
                || line.starts_with("data: {\"number")
            {
                found.push(line);
            }
        }
        found
    };
    assert_eq!(read("", 2).await, ["event: snapshot", "id: e-1-3"]);
    let after = read("Last-Event-ID: e-1-1\r\n", 6).await;
    let wanted = [
        "event: event",
        "id: e-1-2",
        "data: {\"number\":2}",
        "event: event",
        "id: e-1-3",
        "data: {\"number\":3}",
    ];
    assert_eq!(after, wanted);
}

/// A WebSocket of a device, after its hello.
async fn socket(
    site: &Site,
    scope: DeviceScope,
) -> tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>> {
    let address = format!(
        "ws://{}/v1/wire?session={}",
        site.host_header(),
        site.session
    );
    let mut request = address.into_client_request().unwrap();
    let protocols = format!("lathe.v1, lathe.token.{}", site.tokens[&scope]);
    request
        .headers_mut()
        .insert("sec-websocket-protocol", protocols.parse().unwrap());
    let (mut socket, response) = tokio_tungstenite::connect_async(request).await.unwrap();
    assert_eq!(
        response.headers()["sec-websocket-protocol"],
        "lathe.v1",
        "the token is not repeated"
    );
    let hello = json!({"hello": {"v": 1, "client": "root", "kind": "terminal"}});
    socket.send(Message::text(hello.to_string())).await.unwrap();
    socket
}

async fn next(
    socket: &mut (
             impl futures::Stream<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin
         ),
    name: &str,
) -> Value {
    loop {
        let message = socket.next().await.unwrap().unwrap();
        let frame: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        if frame.get(name).is_some() {
            return frame;
        }
    }
}

#[tokio::test]
async fn the_wire_passes_frames_and_refuses_what_the_scope_does_not_allow() {
    let site = Site::new().await;
    let mut viewer = socket(&site, View).await;
    assert_eq!(next(&mut viewer, "snapshot").await["snapshot"]["seq"], 3);
    let id = "6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f";
    let op = json!({"id": id, "op": {"type": "prompt", "content": "x"}, "by": "someone else"})
        .to_string();
    viewer.send(Message::text(op.clone())).await.unwrap();
    let nak = next(&mut viewer, "nak").await;
    assert!(nak["why"].as_str().unwrap().contains("view-only"), "{nak}");
    let mut device = socket(&site, Prompt).await;
    // Dirty frames do not end a connection.
    for dirty in ["", "{", "[]", "{\"in\":\"G1tB\"}", "{\"hello\":{}}"] {
        device.send(Message::text(dirty)).await.unwrap();
    }
    device.send(Message::text(op)).await.unwrap();
    assert_eq!(next(&mut device, "ack").await["ack"], id);
    assert_eq!(next(&mut device, "event").await["seq"], 4);
    let ops = site.peer.ops.lock();
    assert_eq!(ops.len(), 1);
    assert_eq!(
        ops[0].1.as_deref(),
        Some("prompt"),
        "the name is the token's"
    );
}

#[tokio::test]
async fn a_huge_frame_ends_its_connection_alone() {
    let site = Site::new().await;
    let mut device = socket(&site, Prompt).await;
    let huge = "x".repeat(9 * 1024 * 1024);
    let _ = device.send(Message::text(huge)).await;
    while let Some(Ok(_)) = device.next().await {}
    let mut other = socket(&site, Prompt).await;
    next(&mut other, "snapshot").await;
}

#[tokio::test]
async fn files_are_those_that_the_session_reads_without_a_question() {
    let site = Site::new().await;
    let home = site.home.path();
    std::fs::create_dir(home.join("src")).unwrap();
    std::fs::write(home.join("src/main.rs"), "fn main() {}").unwrap();
    std::fs::write(home.join(".env"), "KEY=planted").unwrap();
    std::fs::write(home.join("data.bin"), [0xff, 0xfe, 0]).unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("x"), "planted").unwrap();
    std::os::unix::fs::symlink(outside.path().join("x"), home.join("link")).unwrap();
    std::os::unix::fs::symlink(home.join(".env"), home.join("harmless.txt")).unwrap();
    let get = async |path: &str| {
        let path = format!("/v1/sessions/{}/files?path={path}", site.session);
        site.get(View, &path).await
    };
    assert_eq!(get("src/main.rs").await.json()["text"], "fn main() {}");
    assert_eq!(get("data.bin").await.json()["base64"], "//4A");
    let listed = get("").await.json();
    let names: Vec<&str> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["config", "data.bin", "src"], "{listed}");
    for path in [
        ".env",
        "harmless.txt",
        "link",
        "config/server/devices.json",
        "config/server",
        "../../etc/passwd",
        "/etc/passwd",
        "/proc/self/environ",
        "/etc/shadow",
        "src/none",
        "%00",
    ] {
        let answer = get(path).await;
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(!answer.text.contains("planted"), "{path}");
    }
}

#[tokio::test]
async fn another_address_needs_tls_and_is_served_with_it() {
    let certificates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/data");
    let tls = lathe_server::TlsFiles {
        certificate: certificates.join("server.pem"),
        key: certificates.join("server.key"),
    };
    let site = Site::new().await;
    let mut options = site.options();
    options.listen.address = "0.0.0.0".parse().unwrap();
    let refused = lathe_server::Server::start(options.clone())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("--tls-cert"), "{refused}");
    options.listen.names = vec!["localhost".to_owned()];
    options.listen.tls = Some(lathe_server::TlsFiles {
        key: certificates.join("ca.pem"),
        ..tls.clone()
    });
    let refused = lathe_server::Server::start(options).await.unwrap_err();
    assert!(
        refused.to_string().contains("can't be used for TLS"),
        "{refused}"
    );

    let secure = Site::changed(|options| {
        options.listen.address = "0.0.0.0".parse().unwrap();
        options.listen.names = vec!["localhost".to_owned()];
        options.listen.tls = Some(tls);
    })
    .await;
    let port = secure.server.address().port();
    assert_eq!(secure.server.url(), format!("https://localhost:{port}"));
    let curl = |address: String, authority: &str| {
        let mut command = tokio::process::Command::new("curl");
        command
            .args([
                "-s",
                "--noproxy",
                "*",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
            ])
            .args(["--cacert", certificates.join(authority).to_str().unwrap()])
            .args([
                "-H",
                &format!("Authorization: Bearer {}", secure.tokens[&View]),
            ])
            .arg(address);
        async move { String::from_utf8(command.output().await.unwrap().stdout).unwrap() }
    };
    let sessions = |scheme: &str| format!("{scheme}://localhost:{port}/v1/sessions");
    assert_eq!(curl(sessions("https"), "ca.pem").await, "200");
    assert_eq!(
        curl(sessions("http"), "ca.pem").await,
        "000",
        "nothing in plain text"
    );
    assert_eq!(curl(sessions("https"), "self-signed.pem").await, "000");
    // Who says nothing after connecting is not waited for, and harms nobody.
    let silent = secure.connect().await;
    assert_eq!(curl(sessions("https"), "ca.pem").await, "200");
    drop(silent);
}

/// Takes one request and gives it as text.
async fn caught(listener: &tokio::net::TcpListener) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase();
            let length = length.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
            if body.len() >= length {
                break;
            }
        }
    }
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(answer).await.unwrap();
    text
}

#[tokio::test]
async fn a_question_is_pushed_with_links_that_answer_once() {
    let ntfy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhook = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = |listener: &tokio::net::TcpListener| {
        format!("http://{}/topic", listener.local_addr().unwrap())
    };
    let targets = lathe_server::notify::Targets {
        ntfy: Some(address(&ntfy)),
        webhook: Some(address(&webhook)),
        link: Some("https://box.example".to_owned()),
        after_seconds: 0,
    };
    let plain = lathe_server::notify::Targets {
        ntfy: Some("http://ntfy.example/topic".to_owned()),
        ..targets.clone()
    };
    let site = Site::changed(|options| {
        assert!(plain.save(&options.config_home).is_err(), "in plain text");
        targets.save(&options.config_home).unwrap();
    })
    .await;
    site.peer.ask(&json!({"type": "control_request", "request_id": "q1", "request": {"subtype": "can_use_tool",
        "tool_name": "Bash", "title": "Look around", "input": {"command": "make \u{1b}[31mall", "description": "Look around"}}}));
    let pushed = caught(&ntfy).await;
    let lower = pushed.to_lowercase();
    assert!(
        pushed.contains("the session: Bash: make") && !pushed.contains('\u{1b}'),
        "{pushed}"
    );
    assert!(
        lower.contains("actions: view, allow, https://box.example/#a="),
        "{pushed}"
    );
    assert!(lower.contains("click: https://box.example/#s="), "{pushed}");
    let hook = caught(&webhook).await;
    let body: Value = serde_json::from_str(hook.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["session"], site.session.to_string());
    let code = |name: &str| {
        let link = body[name].as_str().unwrap();
        link.split_once("#a=").unwrap().1.to_owned()
    };
    let (yes, no) = (code("allow"), code("deny"));
    let post = async |path: &str, code: &str| {
        let kind = "Content-Type: application/json\r\n";
        let body = json!({"code": code}).to_string();
        site.raw("POST", path, kind, body.as_bytes()).await
    };
    // Looking answers nothing.
    let seen = post("/v1/links", &yes).await;
    assert_eq!(
        seen.json(),
        json!({"question": "Bash: make all", "whole": "Bash\ncommand: make all\ndescription: Look around", "allow": true})
    );
    assert_eq!(post("/v1/links", &no).await.json()["allow"], false);
    assert_eq!(post("/v1/links", "guess").await.status, 410);
    assert!(site.peer.ops.lock().is_empty());
    assert_eq!(post("/v1/links/use", &yes).await.status, 200);
    assert_eq!(post("/v1/links/use", &yes).await.status, 410);
    assert_eq!(post("/v1/links/use", &no).await.status, 410);
    let ops = site.peer.ops.lock();
    assert_eq!(ops.len(), 1);
    assert_eq!(ops[0].1.as_deref(), Some("link"));
}
