//! Traffic over the wire, in both directions.
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

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use lathe_model::{
    AnthropicConfig, AnthropicProvider, CacheMarkers, Delivery, ModelError, Provider, Transfer,
};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::Role;
use lathe_protocol::stream::StreamEvent;
use lathe_scripted::reply::Chunks;
use lathe_scripted::{Framing, LineEnd, Position, Reply, Scenario, ScriptedServer};
use serde_json::json;
use std::io::Write as _;
use std::sync::Arc;
use support::{RawServer, answer, config, events, provider, quick, read_request, request, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn rich() -> Reply {
    Reply::thinking("let me see")
        .with_text("Grüße, 世界! 😀 and more words than one delta holds")
        .with_block(json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}))
        .with_block(json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}))
        .with_tool_use_id("toolu_1", "Read", json!({"path": "src/äöü.rs", "limit": 5}))
        .with_tool_use_id("toolu_2", "Now", json!({}))
}

async fn content(server: &ScriptedServer) -> serde_json::Value {
    let outcome = run(provider(&server.base_url()), quick()).await;
    serde_json::to_value(outcome.message.expect("a message").content).unwrap()
}

#[tokio::test]
async fn every_spelling_and_cutting_of_a_stream_gives_the_same_message() {
    let odd = Framing {
        line_end: LineEnd::CrLf,
        byte_order_mark: true,
        comments: true,
        space_after_colon: false,
        event_names: false,
        ping: false,
    };
    let unknown = "event: news\ndata: {\"type\":\"news\",\"x\":[1]}\n\n";
    let variants = [
        rich(),
        rich().framing(odd),
        rich().framing(Framing {
            line_end: LineEnd::Cr,
            ..Framing::default()
        }),
        rich().chunks(Chunks::Bytes(1)),
        rich().chunks(Chunks::Bytes(7)).delta_characters(1),
        rich().chunks(Chunks::Whole),
        rich()
            .insert(Position::BeforeBlock(1), unknown)
            .insert(Position::Start, ": hello\n\n"),
    ];
    let mut scenario = Scenario::new();
    for reply in variants.clone() {
        scenario = scenario.reply(reply);
    }
    let server = ScriptedServer::start(scenario).await.unwrap();
    let expected = content(&server).await;
    assert_eq!(
        expected[1]["text"],
        "Grüße, 世界! 😀 and more words than one delta holds"
    );
    assert_eq!(
        expected[4]["input"],
        json!({"path": "src/äöü.rs", "limit": 5})
    );
    for reply in &variants[1..] {
        let mut got = content(&server).await;
        // The server signs each message for itself.
        got[0]["signature"] = expected[0]["signature"].clone();
        assert_eq!(got, expected, "{reply:?}");
    }
    server.finish();
}

#[tokio::test]
async fn a_whole_response_gives_the_same_message_as_a_streamed_one() {
    let server = ScriptedServer::start(Scenario::new().reply(rich()).reply(rich()))
        .await
        .unwrap();
    let provider = provider(&server.base_url());
    let mut messages = Vec::new();
    for transfer in [Transfer::Streaming, Transfer::Whole] {
        let mut response = provider.stream(&request(), transfer).await.unwrap();
        assert!(response.request_id.is_some());
        let mut assembler = lathe_model::MessageAssembler::default();
        while let Some(event) = response.next().await {
            let event = event.unwrap();
            let reread: StreamEvent = serde_json::from_slice(event.json()).unwrap();
            assert_eq!(reread, event.event);
            assembler.feed(&event.event).unwrap();
        }
        let mut message = serde_json::to_value(assembler.finish().unwrap()).unwrap();
        message["id"] = json!(null);
        message["content"][0]["signature"] = json!(null);
        message["usage"] = json!(null);
        messages.push(message);
    }
    assert_eq!(messages[0], messages[1]);
    assert_eq!(server.requests()[1].body.get("stream"), None);
    server.finish();
}

#[tokio::test]
async fn events_are_handed_on_as_they_were_sent() {
    let server = ScriptedServer::start(Scenario::new().reply(Reply::text("hi")))
        .await
        .unwrap();
    let outcome = run(provider(&server.base_url()), quick()).await;
    let kinds: Vec<String> = outcome
        .deliveries
        .iter()
        .filter_map(|delivery| match delivery {
            Delivery::Event(event) => {
                let value: serde_json::Value = serde_json::from_slice(event.json()).unwrap();
                Some(value["type"].as_str().unwrap().to_owned())
            }
            _ => None,
        })
        .collect();
    assert_eq!(kinds.first().map(String::as_str), Some("message_start"));
    assert_eq!(kinds.last().map(String::as_str), Some("message_stop"));
}

#[tokio::test]
async fn a_request_carries_who_what_and_which_version() {
    let server = ScriptedServer::start(Scenario::new().reply(Reply::text("hi")))
        .await
        .unwrap();
    let config = AnthropicConfig {
        auth_token: Some("token".into()),
        betas: vec!["always-1".into()],
        headers: vec![
            ("X-Team".into(), "blue".into()),
            ("anthropic-beta".into(), "custom-1".into()),
        ],
        client_app: Some("editor/2".into()),
        ..config(&server.base_url())
    };
    let provider = Arc::new(AnthropicProvider::new(&config).unwrap());
    let mut request = request();
    request.betas = vec!["this-one-1".into(), "always-1".into()];
    request.cache_markers = CacheMarkers::FiveMinutes;
    let stream = lathe_model::run(
        provider,
        request,
        quick(),
        tokio_util::sync::CancellationToken::new(),
    );
    support::collect(stream).await;
    let sent = server.request(0).unwrap();
    assert_eq!(sent.path, "/v1/messages");
    assert_eq!(sent.header("x-api-key"), Some("test-key"));
    assert_eq!(sent.header("authorization"), Some("Bearer token"));
    assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(
        sent.header("anthropic-beta"),
        Some("custom-1,always-1,this-one-1")
    );
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("x-team"), Some("blue"));
    let agent = sent.header("user-agent").unwrap();
    assert!(
        agent.starts_with("lathe/") && agent.ends_with("(editor/2)"),
        "{agent}"
    );
    assert_eq!(
        sent.messages()[0]["content"][0]["cache_control"]["type"],
        "ephemeral"
    );
    server.finish();
}

#[tokio::test]
async fn a_body_has_a_length_and_is_not_chunked() {
    let (heads, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let server = RawServer::start(move |_, mut stream| {
        let heads = heads.clone();
        async move {
            let (head, body) = answer(&mut stream, "fine").await;
            heads.send((head, body)).unwrap();
        }
    })
    .await;
    assert_eq!(run(provider(&server.url()), quick()).await.text(), "fine");
    let (head, body) = seen.recv().await.unwrap();
    let head = head.to_lowercase();
    assert!(head.starts_with("post /v1/messages http/1.1\r\n"), "{head}");
    assert!(
        head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())),
        "{head}"
    );
    assert!(!head.contains("transfer-encoding"), "{head}");
    let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(value["messages"][0]["content"][0]["text"], "hello");
}

#[tokio::test]
async fn a_compressed_stream_is_read() {
    let server = RawServer::start(|_, mut stream| async move {
        let (head, _) = read_request(&mut stream).await;
        assert!(head.to_lowercase().contains("accept-encoding: ") && head.contains("gzip"), "{head}");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(events("squeezed").as_bytes()).unwrap();
        let body = encoder.finish().unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        for piece in body.chunks(11) {
            stream.write_all(piece).await.unwrap();
            stream.flush().await.unwrap();
        }
        stream.shutdown().await.unwrap();
    })
    .await;
    assert_eq!(
        run(provider(&server.url()), quick()).await.text(),
        "squeezed"
    );
}

#[tokio::test]
async fn a_last_event_without_its_blank_line_still_counts() {
    let server = RawServer::start(|_, mut stream| async move {
        read_request(&mut stream).await;
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
            .write_all(events("fine").trim_end().as_bytes())
            .await
            .unwrap();
        stream.shutdown().await.unwrap();
    })
    .await;
    let outcome = run(provider(&server.url()), quick()).await;
    assert_eq!(outcome.text(), "fine");
    assert_eq!(outcome.steps, ["requesting 1"]);
}

#[tokio::test]
async fn an_early_refusal_of_a_large_body_is_heard() {
    let server = RawServer::start(|_, mut stream| async move {
        // Only the beginning is read, as a gateway does that looks at the length.
        let mut beginning = [0; 2048];
        stream.read_exact(&mut beginning).await.unwrap();
        let body = r#"{"type":"error","error":{"type":"request_too_large","message":"too many bytes"}}"#;
        let head = format!(
            "HTTP/1.1 413 Payload Too Large\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        // Leaves when the client does: closing with unread bytes would reset the connection.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
    .await;
    let mut request = request();
    let long = ContentBlock::text("x".repeat(8 << 20));
    request.messages = vec![EncodedMessage::new(Role::User, &[long]).unwrap()].into();
    let error = provider(&server.url())
        .stream(&request, Transfer::Streaming)
        .await
        .unwrap_err();
    assert!(matches!(error, ModelError::RequestTooLarge(_)), "{error:?}");
}

#[tokio::test]
async fn what_the_public_api_would_not_take_is_not_uploaded() {
    let config = AnthropicConfig {
        api_key: Some("key".into()),
        ..AnthropicConfig::default()
    };
    let mut request = request();
    let long = ContentBlock::text("x".repeat(33 << 20));
    request.messages = vec![EncodedMessage::new(Role::User, &[long]).unwrap()].into();
    let provider = AnthropicProvider::new(&config).unwrap();
    let error = provider
        .stream(&request, Transfer::Streaming)
        .await
        .unwrap_err();
    assert!(matches!(error, ModelError::RequestTooLarge(_)), "{error:?}");
    assert!(error.to_string().contains("413"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let server = RawServer::start(|_, mut stream| async move {
        read_request(&mut stream).await;
        let head = "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://elsewhere.invalid/v1/messages\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
    })
    .await;
    let error = run(provider(&server.url()), quick()).await.error.unwrap();
    assert!(matches!(error, ModelError::Protocol { .. }), "{error:?}");
    assert!(
        error.to_string().contains("http://elsewhere.invalid"),
        "{error}"
    );
}

#[tokio::test]
async fn tokens_are_counted_by_the_provider() {
    let server = ScriptedServer::start(Scenario::new()).await.unwrap();
    let count = provider(&server.base_url())
        .count_tokens(&request())
        .await
        .unwrap();
    assert!(count > 0);
    let sent = server.request(0).unwrap();
    assert_eq!(sent.path, "/v1/messages/count_tokens");
    assert_eq!(sent.body.get("max_tokens"), None);
}

#[tokio::test]
async fn connections_are_reused() {
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    let server = RawServer::start(move |_, mut stream| {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            for _ in 0..3 {
                read_request(&mut stream).await;
                let body = events("fine");
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(body.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let provider = provider(&server.url());
    for _ in 0..3 {
        assert_eq!(run(Arc::clone(&provider), quick()).await.text(), "fine");
    }
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn without_a_key_only_the_public_api_is_out_of_reach() {
    let public = AnthropicProvider::new(&AnthropicConfig::default()).unwrap();
    assert_eq!(public.check_credentials(), Err(ModelError::NoCredentials));
    let error = public
        .stream(&request(), Transfer::Streaming)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("ANTHROPIC_API_KEY"), "{error}");
    assert!(error.to_string().contains("ANTHROPIC_BASE_URL"), "{error}");
    let server = RawServer::start(|_, mut stream| async move {
        let (head, _) = answer(&mut stream, "open").await;
        let head = head.to_lowercase();
        assert!(
            !head.contains("x-api-key") && !head.contains("authorization"),
            "{head}"
        );
    })
    .await;
    let config = AnthropicConfig {
        api_key: None,
        ..config(&server.url())
    };
    let local = Arc::new(AnthropicProvider::new(&config).unwrap());
    assert_eq!(run(local, quick()).await.text(), "open");
}

#[test]
fn a_key_that_cannot_be_sent_is_told_without_repeating_it() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = AnthropicConfig {
        api_key: Some("sk-hidden\nvalue".into()),
        ..config("http://127.0.0.1:9")
    };
    let provider = AnthropicProvider::new(&config).unwrap();
    let error = runtime
        .block_on(provider.stream(&request(), Transfer::Whole))
        .unwrap_err();
    assert!(
        matches!(error, ModelError::Configuration { .. }),
        "{error:?}"
    );
    assert!(!error.to_string().contains("hidden"), "{error}");
}
