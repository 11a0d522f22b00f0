//! Replies of the server: messages, streams, faults.

#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]

mod common;

use common::{body, connect, hello, post, post_to, read_chunk, read_head, send};
use lathe_scripted::reply::Chunks;
use lathe_scripted::{
    BlockingServer, Ending, Framing, LineEnd, Position, Reply, Scenario, Wait, When,
};
use serde_json::{Value, json};
use std::io::BufReader;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

fn serve(scenario: Scenario) -> BlockingServer {
    BlockingServer::start(scenario).unwrap()
}

/// Puts the blocks of a stream together again.
fn assembled(events: &[Value]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut partial = String::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => blocks.push(event["content_block"].clone()),
            "content_block_delta" => {
                let block = blocks.last_mut().unwrap();
                let delta = &event["delta"];
                for name in ["text", "thinking", "signature"] {
                    if let Some(more) = delta[name].as_str() {
                        let so_far = block[name].as_str().unwrap();
                        block[name] = json!(format!("{so_far}{more}"));
                    }
                }
                partial.push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            "content_block_stop" if !partial.is_empty() => {
                blocks.last_mut().unwrap()["input"] = serde_json::from_str(&partial).unwrap();
                partial.clear();
            }
            _ => {}
        }
    }
    blocks
}

fn names(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[test]
fn a_stream_has_the_events_of_the_api_in_order() {
    let server = serve(Scenario::new().reply(Reply::text("hi")));
    let response = post(&server.base_url(), &hello());
    assert_eq!(response.status, 200);
    assert_eq!(
        response.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    assert!(response.header("request-id").unwrap().starts_with("req_"));
    let events = response.events();
    assert_eq!(
        names(&events),
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert_eq!(events[0]["message"]["model"], "m");
    assert_eq!(events[5]["delta"]["stop_reason"], "end_turn");
    assert!(events[5]["usage"]["output_tokens"].as_u64().unwrap() > 0);
    assert!(response.text().starts_with("event: message_start\ndata: {"));
    server.finish();
}

#[test]
fn whole_and_streamed_answers_say_the_same() {
    let blocks = vec![
        json!({"type": "thinking", "thinking": "let me see", "signature": "sig"}),
        json!({"type": "redacted_thinking", "data": "secret"}),
        json!({"type": "text", "text": "naïve 🦀 text that is longer than one delta of the stream"}),
        json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"a": 1}]}),
        json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls", "n": [1, 2]}}),
    ];
    let server = serve(Scenario::new().reply(Reply::blocks(blocks.clone()).times(2)));
    let streamed = post(&server.base_url(), &hello()).events();
    let mut request = hello();
    request["stream"] = json!(false);
    let whole = post(&server.base_url(), &request);
    assert_eq!(whole.header("content-type"), Some("application/json"));
    assert_eq!(whole.json()["content"], json!(blocks));
    assert_eq!(whole.json()["stop_reason"], "tool_use");
    assert_eq!(assembled(&streamed), blocks);
    server.finish();
}

#[test]
fn a_missing_id_or_signature_is_made_up() {
    let reply = Reply::thinking("hm").with_tool_use("Read", json!({"file_path": "/x"}));
    let server = serve(Scenario::new().reply(reply.times(2)));
    let first = assembled(&post(&server.base_url(), &hello()).events());
    let second = assembled(&post(&server.base_url(), &hello()).events());
    assert_eq!(first[0]["signature"].as_str().unwrap().len(), 64);
    assert_eq!(first[0]["signature"], second[0]["signature"]);
    assert!(first[1]["id"].as_str().unwrap().starts_with("toolu_"));
    assert_ne!(first[1]["id"], second[1]["id"]);
}

#[test]
fn every_spelling_of_the_stream_carries_the_same_events() {
    let plain = Framing::default();
    let spellings = [
        Framing {
            line_end: LineEnd::CrLf,
            ..plain.clone()
        },
        Framing {
            line_end: LineEnd::Cr,
            ..plain.clone()
        },
        Framing {
            byte_order_mark: true,
            comments: true,
            ..plain.clone()
        },
        Framing {
            space_after_colon: false,
            event_names: false,
            ping: false,
            ..plain
        },
    ];
    for framing in spellings {
        let server = serve(Scenario::new().reply(Reply::text("hi").framing(framing.clone())));
        let text = post(&server.base_url(), &hello()).text();
        assert_eq!(text.starts_with('\u{feff}'), framing.byte_order_mark);
        assert_eq!(text.contains("\r\n\r\n"), framing.line_end == LineEnd::CrLf);
        assert_eq!(text.contains('\n'), framing.line_end != LineEnd::Cr);
        assert_eq!(text.contains(": scripted"), framing.comments);
        assert_eq!(text.contains("event:"), framing.event_names);
        assert_eq!(text.contains("data: {"), framing.space_after_colon);
        let events: Vec<Value> = text
            .split(['\r', '\n'])
            .filter_map(|line| line.strip_prefix("data:"))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        assert_eq!(names(&events).last(), Some(&"message_stop"));
    }
}

#[test]
fn chunks_may_cut_lines_and_characters() {
    let server = serve(
        Scenario::new()
            .reply(Reply::text("🦀🦀🦀").chunks(Chunks::Bytes(1)))
            .reply(Reply::text("🦀🦀🦀").chunks(Chunks::At(vec![3, 10, 100_000])))
            .reply(Reply::text("🦀🦀🦀").chunks(Chunks::Whole)),
    );
    let bytewise = post(&server.base_url(), &hello());
    assert!(bytewise.chunks.iter().all(|chunk| chunk.len() == 1));
    assert_eq!(assembled(&bytewise.events())[0]["text"], "🦀🦀🦀");
    let cut = post(&server.base_url(), &hello());
    let lengths: Vec<usize> = cut.chunks.iter().take(2).map(Vec::len).collect();
    assert_eq!((lengths, cut.chunks.len()), (vec![3, 7], 3));
    assert_eq!(post(&server.base_url(), &hello()).chunks.len(), 1);
    server.finish();
}

#[test]
fn a_gate_holds_the_stream_until_it_is_released() {
    let reply = Reply::text("one two")
        .gate(Position::MidBlock(0), "middle")
        .delta_characters(4);
    let server = serve(Scenario::new().reply(reply));
    let mut stream = connect(&server.base_url());
    send(&mut stream, "/v1/messages", &hello().to_string());
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    assert_eq!(read_head(&mut reader).unwrap().status, 200);
    assert!(server.wait_for_gate("middle", 1, LIMIT));
    let mut before = String::new();
    while !before.contains("one ") {
        before.push_str(&String::from_utf8(read_chunk(&mut reader).unwrap()).unwrap());
    }
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    assert!(
        read_chunk(&mut reader).is_none(),
        "nothing passes a closed gate"
    );
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    server.gate("middle").release();
    let mut after = String::new();
    while !after.contains("message_stop") {
        after.push_str(&String::from_utf8(read_chunk(&mut reader).unwrap()).unwrap());
    }
    assert!(after.contains("two") && !after.contains("one "));
}

#[test]
fn errors_have_the_apis_form_and_the_given_headers() {
    let server = serve(
        Scenario::new()
            .reply(Reply::error(529))
            .reply(Reply::error(429).header("retry-after", "7"))
            .reply(Reply::error_with(
                400,
                "invalid_request_error",
                "prompt is too long: 9 > 8",
            ))
            .reply(Reply::raw(502, "text/html", "<html>Bad gateway</html>"))
            .reply(Reply::empty_body()),
    );
    let response = post(&server.base_url(), &hello());
    assert_eq!(response.status, 529);
    assert_eq!(response.json()["error"]["type"], "overloaded_error");
    assert_eq!(response.json()["type"], "error");
    let response = post(&server.base_url(), &hello());
    assert_eq!(
        (response.status, response.header("retry-after")),
        (429, Some("7"))
    );
    let response = post(&server.base_url(), &hello());
    assert_eq!(
        response.json()["error"]["message"],
        "prompt is too long: 9 > 8"
    );
    let response = post(&server.base_url(), &hello());
    assert_eq!(
        (response.status, response.text().as_str()),
        (502, "<html>Bad gateway</html>")
    );
    let response = post(&server.base_url(), &hello());
    assert_eq!(
        (response.status, response.bytes().len(), response.complete),
        (200, 0, true)
    );
    server.finish();
}

#[test]
fn a_stream_can_be_dropped_at_a_byte_and_at_an_event() {
    let server = serve(
        Scenario::new()
            .reply(Reply::text("hello").drop_after(57))
            .reply(Reply::text("hello").cut(Position::AfterBlock(0), Ending::Drop))
            .reply(Reply::text("hello").cut(
                Position::BeforeEvent("message_delta".into()),
                Ending::EndOfBody,
            )),
    );
    let dropped = post(&server.base_url(), &hello());
    assert_eq!((dropped.bytes().len(), dropped.complete), (57, false));
    let dropped = post(&server.base_url(), &hello());
    assert_eq!(names(&dropped.events()).last(), Some(&"content_block_stop"));
    assert!(!dropped.complete);
    let ended = post(&server.base_url(), &hello());
    assert_eq!(names(&ended.events()).last(), Some(&"content_block_stop"));
    assert!(ended.complete);
}

#[test]
fn an_error_event_ends_the_stream_and_raw_bytes_can_be_put_in() {
    let server = serve(
        Scenario::new()
            .reply(Reply::text("hello").cut(
                Position::MidBlock(0),
                Ending::ErrorEvent {
                    kind: "overloaded_error".into(),
                    message: "busy".into(),
                },
            ))
            .reply(Reply::text("hello").insert(Position::BeforeBlock(0), "data: {not json\n\n")),
    );
    let events = post(&server.base_url(), &hello()).events();
    assert_eq!(events.last().unwrap()["error"]["type"], "overloaded_error");
    let text = post(&server.base_url(), &hello()).text();
    assert!(text.contains("data: {not json\n\nevent: content_block_start"));
    assert!(text.ends_with("data: {\"type\":\"message_stop\"}\n\n"));
}

#[test]
fn keep_alives_go_on_while_nothing_else_does() {
    for ending in [
        Ending::KeepAliveComments { every_ms: 1 },
        Ending::KeepAliveEvents { every_ms: 1 },
    ] {
        let comments = matches!(ending, Ending::KeepAliveComments { .. });
        let server =
            serve(Scenario::new().reply(Reply::text("hello").cut(Position::Start, ending)));
        let mut stream = connect(&server.base_url());
        send(&mut stream, "/v1/messages", &hello().to_string());
        let mut reader = BufReader::new(stream);
        read_head(&mut reader).unwrap();
        for _ in 0..5 {
            let chunk = String::from_utf8(read_chunk(&mut reader).unwrap()).unwrap();
            assert_eq!(chunk == ": ping\n\n", comments, "{chunk}");
            assert!(chunk.contains("ping"));
        }
    }
}

#[test]
fn hanging_up_gives_no_answer_and_slow_headers_wait_for_their_gate() {
    let server = serve(
        Scenario::new()
            .reply(Reply::hang_up())
            .reply(Reply::text("late").wait_before_headers(Wait::Gate("headers".into()))),
    );
    assert!(post_to(&server.base_url(), "/v1/messages", &hello().to_string()).is_none());
    let url = server.base_url();
    let client = std::thread::spawn(move || post(&url, &hello()).text());
    assert!(server.wait_for_gate("headers", 1, LIMIT));
    assert!(!client.is_finished());
    server.gate("headers").release();
    assert!(client.join().unwrap().contains("late"));
    server.finish();
}

#[test]
fn conditions_come_before_the_order() {
    let server = serve(
        Scenario::new()
            .reply(Reply::text("first"))
            .reply(Reply::text("title").when(When::system_contains("make a title")))
            .reply(Reply::text("second"))
            .reply(Reply::text("after {{last_tool_result}}").when(When::tool_result_for("Bash")))
            .reply(Reply::text("small").when(When::model("small")).forever()),
    );
    let url = server.base_url();
    let text = |request: &Value| assembled(&post(&url, request).events())[0]["text"].clone();
    assert_eq!(text(&hello()), "first");
    let mut request = hello();
    request["system"] = json!([{"type": "text", "text": "You make a title."}]);
    assert_eq!(text(&request), "title");
    let mut request = hello();
    request["model"] = json!("small");
    assert_eq!(
        (text(&request), text(&request)),
        (json!("small"), json!("small"))
    );
    let request = body(json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "42"}]}
    ]));
    assert_eq!(text(&request), "after 42");
    assert_eq!(text(&hello()), "second");
    server.finish();
}

#[test]
fn a_responder_and_pushed_replies_fill_in_when_the_list_is_short() {
    let scenario = Scenario::new()
        .responder(|request| Reply::text(format!("{} messages", request.messages().len())));
    let server = serve(scenario);
    let url = server.base_url();
    assert!(post(&url, &hello()).text().contains("1 messages"));
    server.push_reply(Reply::text("pushed"));
    assert!(post(&url, &hello()).text().contains("pushed"));
    assert_eq!(server.requests().len(), 2);
    server.finish();
}

#[test]
fn a_request_without_a_reply_is_a_problem_and_so_is_an_unused_reply() {
    let server = serve(Scenario::new());
    assert_eq!(post(&server.base_url(), &hello()).status, 400);
    assert!(server.problems()[0].contains("no reply left"));
    let server = serve(
        Scenario::new()
            .reply(Reply::text("x"))
            .reply(Reply::text("y").optional()),
    );
    let complaint = server.check().unwrap_err().to_string();
    assert!(complaint.contains("never asked for"));
    assert_eq!(complaint.lines().count(), 1);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.finish())).is_err());
}

#[test]
fn tokens_are_counted_and_models_listed() {
    let server = serve(Scenario::new());
    let mut request = hello();
    request.as_object_mut().unwrap().remove("max_tokens");
    request.as_object_mut().unwrap().remove("stream");
    let counted = post_to(
        &server.base_url(),
        "/v1/messages/count_tokens",
        &request.to_string(),
    )
    .unwrap();
    assert_eq!(counted.json(), json!({"input_tokens": 2}));
    assert_eq!(
        post_to(&server.base_url(), "/v1/nothing", "{}")
            .unwrap()
            .status,
        404
    );
    assert_eq!(server.problems().len(), 1);
}

#[test]
fn usage_follows_the_prompt_cache() {
    let server = serve(Scenario::new().reply(Reply::text("ok").times(3)));
    let marked = |text: String| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    let request = |messages: Value| {
        let mut request = body(messages);
        request["system"] = json!([marked("s".repeat(8000))]);
        request
    };
    let usage = |request: &Value| {
        post(&server.base_url(), request)
            .events()
            .last_chunk::<2>()
            .unwrap()[0]["usage"]
            .clone()
    };
    let long = "u".repeat(8000);
    let first = usage(&request(
        json!([{"role": "user", "content": [marked(long.clone())]}]),
    ));
    assert_eq!(first["cache_read_input_tokens"], 0);
    let written = first["cache_creation_input_tokens"].as_u64().unwrap();
    assert!((4000..4100).contains(&written), "{first}");
    let second = usage(&request(json!([
        {"role": "user", "content": [{"type": "text", "text": long}]},
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
        {"role": "user", "content": [marked("more".into())]}
    ])));
    assert_eq!(second["cache_read_input_tokens"].as_u64(), Some(written));
    assert!(
        second["cache_creation_input_tokens"].as_u64().unwrap() < 40,
        "{second}"
    );
    let other = usage(&request(
        json!([{"role": "user", "content": [marked("else".into())]}]),
    ));
    let system_only = other["cache_read_input_tokens"].as_u64().unwrap();
    assert!((2000..2050).contains(&system_only), "{other}");
}

#[test]
fn a_request_over_the_window_is_refused_without_being_a_problem() {
    let server = serve(Scenario::new().context_window(10).accept_key("k"));
    let request = body(json!([{"role": "user", "content": "x".repeat(100)}]));
    let response = post(&server.base_url(), &request);
    assert_eq!(response.status, 400);
    assert_eq!(
        response.json()["error"]["message"],
        "prompt is too long: 25 tokens > 10 maximum"
    );
    server.finish();
}

#[tokio::test]
async fn http_2_is_spoken_too() {
    use http_body_util::{BodyExt, Full};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let scenario = Scenario::new()
        .reply(Reply::text("over two"))
        .reply(Reply::text("x").drop_after(10));
    let server = lathe_scripted::ScriptedServer::start(scenario)
        .await
        .unwrap();
    let address = server
        .base_url()
        .strip_prefix("http://")
        .unwrap()
        .to_owned();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = || {
        http::Request::post(format!("{}/v1/messages", server.base_url()))
            .header("x-api-key", "k")
            .header("anthropic-version", "2023-06-01")
            .header("content-type", "application/json")
            .body(Full::new(bytes::Bytes::from(hello().to_string())))
            .unwrap()
    };
    let response = sender.send_request(request()).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&bytes).contains("over two"));
    let response = sender.send_request(request()).await.unwrap();
    assert!(
        response.into_body().collect().await.is_err(),
        "a dropped stream is an error"
    );
    assert_eq!(server.requests()[0].http_version, "HTTP/2.0");
    server.finish();
}
