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
