//! The messages of a session for a device: by a WebSocket, and through a relay.
use crate::support::Site;
use futures::{SinkExt as _, StreamExt as _};
use lathe_server::DeviceScope;
use lathe_wire::WireOp;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

struct Device(Socket);

impl Device {
    async fn connect(site: &Site, scope: DeviceScope, after: Option<&str>) -> Self {
        let after = after.map_or_else(String::new, |after| format!("&after={after}"));
        let address = format!(
            "ws://{}/v1/messages?session={}{after}",
            site.host_header(),
            site.session
        );
        let mut request = address.into_client_request().unwrap();
        let protocols = format!("lathe.v1, lathe.token.{}", site.tokens[&scope]);
        request
            .headers_mut()
            .insert("sec-websocket-protocol", protocols.parse().unwrap());
        let (socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        Self(socket)
    }

    async fn say(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.0.next().await.unwrap().unwrap() {
                return serde_json::from_str(text.as_str()).unwrap();
            }
        }
    }

    /// Asks, and gives the frames up to the answer, and the answer.
    async fn control(&mut self, request: Value) -> (Vec<Value>, Value) {
        self.say(&json!({"type": "control_request", "requestId": "c", "request": request}))
            .await;
        let mut before = Vec::new();
        loop {
            let frame = self.hear().await;
            if frame["type"] == "control_response" {
                return (before, frame["response"].clone());
            }
            before.push(frame);
        }
    }
}

fn prompts(site: &Site) -> Vec<(String, Option<String>)> {
    let ops = site.peer.ops.lock();
    ops.iter()
        .filter_map(|(op, by)| match op {
            WireOp::Prompt { content, .. } => Some((content.text(), by.clone())),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn a_device_gets_messages_questions_and_answers_to_its_requests() {
    let site = Site::new().await;
    let records = json!([
        {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "fix the parser"}, "origin": {"kind": "human"}},
        {"type": "user", "uuid": "u2", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}},
        {"type": "assistant", "uuid": "u3", "message": {"role": "assistant", "content": []}},
    ]);
    *site.peer.records.lock() = records.as_array().unwrap().clone();
    let mut device = Device::connect(&site, DeviceScope::Approve, None).await;
    let (before, about) = device.control(json!({"subtype": "initialize"})).await;
    let shown: Vec<&Value> = before.iter().map(|frame| &frame["uuid"]).collect();
    assert_eq!(shown, ["u1", "u3"], "{before:?}");
    assert_eq!(about["response"]["title"], "the session");

    // A prompt is handed on once, however often it is delivered, with the file that was uploaded for it and an image that has
    // its type again.
    let file = "0b9f6c1a-6d7e-4a55-9a7e-2f0f9d1f7c11";
    let path = format!(
        "/v1/sessions/{}/uploads?name=a%20b.txt&id={file}",
        site.session
    );
    let headers = format!(
        "Authorization: Bearer {}\r\nContent-Type: application/octet-stream\r\n",
        site.tokens[&DeviceScope::Prompt]
    );
    let stored = site.raw("POST", &path, &headers, b"content").await.json();
    assert_eq!(stored["file_uuid"], file);
    let id = "6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f";
    let prompt = json!({"type": "user", "uuid": id, "message": {"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo="}}, {"type": "text", "text": "look"}]},
        "fileAttachments": [{"file_uuid": file, "file_name": "a b.txt"}, {"file_uuid": "lost", "file_name": "x"}]});
    for dirty in ["{", "[]", "7", "{\"type\":7}"] {
        device.0.send(Message::text(dirty)).await.unwrap();
    }
    device.say(&prompt).await;
    device.say(&prompt).await;
    let (before, _) = device.control(json!({"subtype": "interrupt"})).await;
    let kinds: Vec<&Value> = before.iter().map(|frame| &frame["type"]).collect();
    assert_eq!(
        kinds,
        ["user", "assistant"],
        "no pieces, no progress: {before:?}"
    );
    let stored = stored["path"].as_str().unwrap();
    let wanted = (format!("@{stored} look"), Some("approve".to_owned()));
    assert_eq!(prompts(&site), [wanted]);
    let WireOp::Prompt { content, .. } = site.peer.ops.lock()[0].0.clone() else {
        panic!("a prompt");
    };
    let content = serde_json::to_value(content).unwrap();
    assert_eq!(content[0]["source"]["media_type"], "image/png", "{content}");

    // A question, answered here; another is answered elsewhere.
    for name in ["q1", "q2"] {
        let question = json!({"type": "control_request", "request_id": name, "request": {"subtype": "can_use_tool"}});
        site.peer.ask(&question);
        assert_eq!(device.hear().await["request_id"], name);
    }
    let answer = json!({"type": "control_response", "response": {"subtype": "success", "request_id": "q1",
        "response": {"behavior": "allow"}}});
    device.say(&answer).await;
    let resolved = device.hear().await;
    assert_eq!(
        (&resolved["request_id"], &resolved["by"]),
        (&json!("q1"), &json!("approve"))
    );
    let path = format!("/v1/sessions/{}/questions/q2", site.session);
    let body = json!({"reply": {"behavior": "deny", "message": "no"}});
    assert_eq!(
        site.post(DeviceScope::Admin, &path, &body).await.status,
        200
    );
    let resolved = device.hear().await;
    assert_eq!(
        (&resolved["request_id"], &resolved["by"]),
        (&json!("q2"), &json!("admin"))
    );
    device.say(&json!({"type": "control_response", "response": {"subtype": "success", "request_id": "q2",
        "response": {"behavior": "allow"}}})).await;
    let late = device.hear().await;
    assert_eq!(
        (&late["subtype"], &late["by"]),
        (&json!("answer_refused"), &json!("admin"))
    );

    // It comes back, and gets what it has not had.
    drop(device);
    let mut device = Device::connect(&site, DeviceScope::Approve, Some("u1")).await;
    let (before, _) = device.control(json!({"subtype": "initialize"})).await;
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(before[0]["uuid"], "u3");
}

#[tokio::test]
async fn control_requests_never_succeed_falsely() {
    let site = Site::new().await;
    let mut device = Device::connect(&site, DeviceScope::Approve, None).await;
    for (request, wanted) in [
        (json!({"subtype": "set_model", "model": "opus"}), None),
        (
            json!({"subtype": "set_model", "model": "none"}),
            Some("no such model"),
        ),
        (
            json!({"subtype": "set_model", "model": "silent"}),
            Some("did not answer"),
        ),
        (
            json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 7}),
            None,
        ),
        (
            json!({"subtype": "set_permission_mode", "mode": "plan"}),
            None,
        ),
        (
            json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"}),
            Some("widening"),
        ),
        (json!({"subtype": "mcp_message"}), Some("not a request")),
    ] {
        let (_, answer) = device.control(request.clone()).await;
        match wanted {
            None => assert_eq!(answer["subtype"], "success", "{request}: {answer}"),
            Some(part) => {
                let error = answer["error"].as_str();
                let error = error.unwrap_or_else(|| panic!("{request}: {answer}"));
                assert!(error.contains(part), "{request}: {error}");
            }
        }
    }
    let mut viewer = Device::connect(&site, DeviceScope::View, None).await;
    let (_, answer) = viewer.control(json!({"subtype": "initialize"})).await;
    assert_eq!(answer["subtype"], "success");
    let (_, answer) = viewer.control(json!({"subtype": "interrupt"})).await;
    assert!(
        answer["error"].as_str().unwrap().contains("view-only"),
        "{answer}"
    );
    viewer
        .say(&json!({"type": "user", "message": {"content": "x"}}))
        .await;
    let refused = viewer.hear().await;
    assert!(
        refused["error"].as_str().unwrap().contains("view-only"),
        "{refused}"
    );
    assert!(prompts(&site).is_empty());
    let thinking = site.peer.ops.lock().iter().any(|(op, _)| {
        matches!(
            op,
            WireOp::SetThinking {
                max_thinking_tokens: Some(7)
            }
        )
    });
    assert!(thinking);
}

#[tokio::test]
async fn ids_are_known_from_the_transcript_after_a_restart() {
    let site = Site::new().await;
    let id = "6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f";
    let folder = site.home.path().join("config/projects/p");
    std::fs::create_dir_all(&folder).unwrap();
    let record = json!({"type": "user", "uuid": id, "parentUuid": null, "sessionId": site.session, "cwd": "/",
        "timestamp": "2026-01-01T00:00:00.000Z", "message": {"role": "user", "content": "x"}});
    let file = folder.join(format!("{}.jsonl", site.session));
    std::fs::write(file, format!("{record}\n")).unwrap();
    let site = site.restart().await;
    let mut device = Device::connect(&site, DeviceScope::Prompt, None).await;
    let again = json!({"type": "user", "uuid": id, "message": {"role": "user", "content": "x"}});
    device.say(&again).await;
    let other = json!({"type": "user", "uuid": "0b9f6c1a-6d7e-4a55-9a7e-2f0f9d1f7c11",
        "message": {"role": "user", "content": "new"}});
    device.say(&other).await;
    device.control(json!({"subtype": "interrupt"})).await;
    let texts: Vec<String> = prompts(&site).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["new"]);
}
