//! Streams of Chat Completions and Responses as servers really send them, read by the program.

use crate::peers::{answers, ask, asked, calls, chat, chunk, home, house, result, results, says};
use lathe_testkit::PeerReply;
use serde_json::{Value, json};

/// Runs a loop in which the first answer must be one or more `echo` calls, and gives their results.
fn results_of(first: PeerReply) -> Vec<String> {
    let peer = answers(vec![first, says("done")]);
    let home = home(&house("openai-chat", &format!("{}/v1", peer.url())));
    let result = result(&home, "house/m", &["--allowedTools", "Bash(echo:*)"]);
    assert_eq!(result["result"], "done", "{result}");
    results(&asked(&peer)[1])
}

fn piece(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    let mut call = json!({"function": {"name": name, "arguments": arguments}});
    if !index.is_null() {
        call["index"] = index;
    }
    if !id.is_null() {
        call["id"] = id;
    }
    chunk(&json!({"tool_calls": [call]}), None)
}

fn echo(word: &str) -> String {
    json!({"command": format!("echo {word}")}).to_string()
}

#[test]
fn calls_come_through_in_every_shape_that_servers_give_them() {
    let cut = |text: &str, at: usize| (text[..at].to_owned(), text[at..].to_owned());
    let (one_a, one_b) = cut(&echo("one"), 9);
    let (two_a, two_b) = cut(&echo("two"), 12);
    let nothing = || Value::Null;
    let shapes: Vec<(&str, Vec<Value>)> = vec![
        (
            "interleaved indexes",
            vec![
                piece(json!(0), json!("a1b2"), json!("Bash"), json!(one_a)),
                piece(json!(1), json!("c3d4"), json!("Bash"), json!(two_a)),
                piece(json!(0), nothing(), nothing(), json!(one_b)),
                piece(json!(1), nothing(), nothing(), json!(two_b)),
            ],
        ),
        (
            "words and blanks in the middle of calls",
            vec![
                piece(json!(0), json!("a1b2"), json!("Bash"), json!(one_a)),
                chunk(&json!({"content": "\n"}), None),
                piece(json!(0), nothing(), nothing(), json!(one_b)),
                chunk(&json!({"content": "meanwhile"}), None),
                piece(json!(1), json!("c3d4"), json!("Bash"), json!(echo("two"))),
            ],
        ),
        (
            "reasoning in the middle of a call",
            vec![
                piece(json!(0), json!("a1b2"), json!("Bash"), json!(one_a)),
                chunk(&json!({"reasoning_content": "hm"}), None),
                piece(json!(0), nothing(), nothing(), json!(one_b)),
                piece(json!(1), json!("c3d4"), json!("Bash"), json!(echo("two"))),
            ],
        ),
        (
            "no ids and no indexes",
            vec![
                piece(nothing(), nothing(), json!("Bash"), json!(echo("one"))),
                piece(nothing(), nothing(), json!("Bash"), json!(echo("two"))),
            ],
        ),
        (
            "arguments as objects, always index 0",
            vec![
                piece(
                    json!(0),
                    json!(""),
                    json!("Bash"),
                    json!({"command": "echo one"}),
                ),
                piece(
                    json!(0),
                    json!(""),
                    json!("Bash"),
                    json!({"command": "echo two"}),
                ),
            ],
        ),
        (
            "indexes as texts, ids as numbers",
            vec![
                piece(json!("0"), json!(7), json!("Bash"), json!(echo("one"))),
                piece(json!("1"), json!(8), json!("Bash"), json!(echo("two"))),
            ],
        ),
        (
            "name and arguments beside the id",
            vec![chunk(
                &json!({"tool_calls": [
                    {"id": "a1b2", "name": "Bash", "arguments": echo("one")},
                    {"id": "c3d4", "name": "bash", "arguments": {"command": "echo two"}}]}),
                None,
            )],
        ),
        (
            "everything in one chunk with finish_reason stop",
            vec![chunk(
                &json!({"content": null, "tool_calls": [
                    {"index": 0, "id": "call_0", "function": {"name": "functions.Bash", "arguments": echo("one")}},
                    {"index": 1, "id": "call_0", "function": {"name": "Bash<|channel|>x", "arguments": format!("{:?}", echo("two"))}}]}),
                Some("stop"),
            )],
        ),
    ];
    for (name, chunks) in shapes {
        assert_eq!(results_of(chat(&chunks)), ["one", "two"], "{name}");
    }
}

#[test]
fn ids_that_a_server_uses_in_every_answer_are_made_unique_in_the_session() {
    let peer = answers(vec![
        calls("Bash", &json!({"command": "echo one"})),
        calls("Bash", &json!({"command": "echo two"})),
        says("done"),
    ]);
    let home = home(&house("openai-chat", &format!("{}/v1", peer.url())));
    result(&home, "house/m", &["--allowedTools", "Bash(echo:*)"]);
    let last = asked(&peer)[2].clone();
    let messages = last["messages"].as_array().unwrap();
    let ids: std::collections::BTreeSet<&str> = messages
        .iter()
        .filter_map(|message| message["tool_call_id"].as_str())
        .collect();
    assert_eq!(ids.len(), 2, "{last}");
    assert_eq!(results(&last), ["one", "two"]);
}

#[test]
fn answers_come_through_in_every_framing_that_servers_use() {
    let one = chunk(&json!({"content": "hel"}), None);
    let two = chunk(&json!({"content": "lo"}), Some("stop"));
    let framings: Vec<(&str, PeerReply)> = vec![
        (
            "comments, CRLF and keep-alives",
            PeerReply::events(format!(
                "\u{feff}: PROCESSING\r\n\r\ndata: {one}\r\n\r\n: ping\r\n\r\nevent: ping\r\ndata: {{}}\r\n\r\ndata:{two}\r\n\r\ndata: [DONE]\r\n\r\n"
            )),
        ),
        (
            "nothing between the events",
            PeerReply::events(format!("data: {one}\ndata: {two}\n\n")),
        ),
        (
            "lines of JSON without any framing",
            PeerReply::new(200, "application/x-ndjson", format!("{one}\n{two}\n")),
        ),
        (
            "a list of chunks",
            PeerReply::new(200, "application/json", format!("[{one},{two}]")),
        ),
        (
            "one document though a stream was asked for",
            PeerReply::json(
                &json!({"choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}]}),
            ),
        ),
        (
            "no end mark, empty choices, null deltas",
            PeerReply::events(format!(
                "data: {{\"choices\":[]}}\n\ndata: {{\"choices\":[{{\"delta\":null}}]}}\n\ndata: {one}\n\ndata: {two}\n\n"
            )),
        ),
        (
            "the wrong content type",
            PeerReply::new(200, "text/plain", format!("data: {one}\n\ndata: {two}\n\n")),
        ),
    ];
    for (name, reply) in framings {
        let peer = answers(vec![reply]);
        let home = home(&house("openai-chat", &format!("{}/v1/", peer.url())));
        let result = result(&home, "house/m", &[]);
        assert_eq!(result["result"], "hello", "{name}");
        assert_eq!(asked(&peer).len(), 1, "{name}");
    }
}

#[test]
fn an_error_in_a_stream_that_began_well_is_an_error() {
    let said = chunk(&json!({"content": "hel"}), None);
    let with_words = json!({"choices": [{"index": 0, "delta": {"content": ""}}], "error": {"code": 502, "message": "the provider is gone"}});
    for error in [
        format!("data: {with_words}\n\n"),
        "data: {\"error\": \"overloaded\"}\n\n".to_owned(),
        "event: error\ndata: {\"message\": \"broken pipe\"}\n\n".to_owned(),
        "event: error\ndata: plain words\n\n".to_owned(),
        "data: {\"object\": \"error\", \"message\": \"engine is gone\", \"code\": 500}\n\n"
            .to_owned(),
    ] {
        let peer = answers(vec![
            PeerReply::events(format!("data: {said}\n\n{error}")),
            says("well"),
        ]);
        let home = home(&house("openai-chat", &format!("{}/v1", peer.url())));
        let result = result(&home, "house/m", &[]);
        assert_eq!(result["result"], "well", "{error}");
    }
}

#[test]
fn a_success_whose_body_is_an_error_shows_its_words_on_every_kind() {
    for (kind, base, body) in [
        (
            "openai-chat",
            "/v1",
            json!({"object": "error", "message": "no such engine", "code": 400}),
        ),
        ("openai-chat", "/v1", json!({"detail": "no such engine"})),
        (
            "openai",
            "/v1",
            json!({"status": "failed", "error": {"code": "invalid_prompt", "message": "no such engine"}}),
        ),
        (
            "gemini",
            "/v1beta",
            json!([{"error": {"code": 400, "message": "no such engine"}}]),
        ),
        (
            "anthropic",
            "",
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no such engine"}}),
        ),
    ] {
        let peer = answers(vec![PeerReply::json(&body)]);
        let home = home(&house(kind, &format!("{}{base}", peer.url())));
        let output = ask(&home, "house/m", &[]);
        assert_eq!(output.code(), Some(1), "{kind}: {output:#?}");
        assert!(
            output.stdout.contains("no such engine"),
            "{kind}: {output:#?}"
        );
    }
}

#[test]
fn half_a_character_in_a_piece_does_not_lose_the_answer() {
    for half in [&b"\\ud83d"[..], b"\xf0\x9f"] {
        let mut body = b"data: {\"choices\":[{\"delta\":{\"content\":\"hel".to_vec();
        body.extend_from_slice(half);
        body.extend_from_slice(b"lo\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
        let peer = answers(vec![PeerReply::new(200, "text/event-stream", body)]);
        let home = home(&house("openai-chat", &format!("{}/v1", peer.url())));
        let result = result(&home, "house/m", &[]);
        assert_eq!(result["result"], "hel\u{fffd}lo", "{half:?}");
    }
}

#[test]
fn a_stream_that_is_cut_in_the_middle_of_a_call_is_asked_for_again() {
    let half = piece(
        json!(0),
        json!("a1b2"),
        json!("Bash"),
        json!("{\"command\": \"ec"),
    );
    let peer = answers(vec![
        PeerReply::events(format!("data: {half}\n\n")),
        calls("Bash", &json!({"command": "echo whole"})),
        says("done"),
    ]);
    let home = home(&house("openai-chat", &format!("{}/v1", peer.url())));
    let result = result(&home, "house/m", &["--allowedTools", "Bash(echo:*)"]);
    assert_eq!(result["result"], "done");
    assert_eq!(results(&asked(&peer)[2]), ["whole"]);
}

#[test]
fn a_stream_that_is_cut_in_the_middle_of_a_line_is_asked_for_again() {
    let said = chunk(&json!({"content": "hel"}), None);
    for cut in ["da", "data:", "data: {\"choices\": [{\"del"] {
        let peer = answers(vec![
            PeerReply::events(format!("data: {said}\n\n{cut}")),
            says("hello"),
        ]);
        let home = home(&house("openai-chat", &format!("{}/v1", peer.url())));
        let result = result(&home, "house/m", &[]);
        assert_eq!(result["result"], "hello", "{cut}");
    }
    // The answer was complete, and only its end mark was cut.
    let whole = chunk(&json!({"content": "hello"}), Some("stop"));
    let peer = answers(vec![PeerReply::events(format!(
        "data: {whole}\n\ndata: [DO"
    ))]);
    let home = home(&house("openai-chat", &format!("{}/v1", peer.url())));
    assert_eq!(result(&home, "house/m", &[])["result"], "hello");
    assert_eq!(asked(&peer).len(), 1);
}

#[test]
fn refusals_are_told_as_refusals() {
    let peer = answers(vec![chat(&[chunk(
        &json!({"refusal": "I won't."}),
        Some("stop"),
    )])]);
    let home = home(&house("openai-chat", &format!("{}/v1", peer.url())));
    let output = ask(&home, "house/m", &[]);
    assert!(output.stdout.contains("I won't."), "{output:#?}");
    assert!(output.stdout.contains("refusal"), "{output:#?}");
}

fn responses(events: &[Value]) -> PeerReply {
    let text: String = events
        .iter()
        .map(|event| {
            let name = event["type"].as_str().unwrap_or_default();
            format!("event: {name}\ndata: {event}\n\n")
        })
        .collect();
    PeerReply::events(text)
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": output,
        "usage": {"input_tokens": 5, "output_tokens": 2}}})
}

fn said(text: &str) -> PeerReply {
    responses(&[completed(
        json!([{"type": "message", "id": "x", "role": "assistant",
        "content": [{"type": "output_text", "text": text}]}]),
    )])
}

#[test]
fn responses_come_through_in_every_shape_that_servers_give_them() {
    let call = |id: &str, word: &str| {
        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": format!("call_{id}xyz"), "name": "Bash",
            "arguments": echo(word)})
    };
    let shapes: Vec<(&str, Vec<Value>)> = vec![
        (
            "only the last event has anything",
            vec![completed(json!([call("a", "one"), call("b", "two")]))],
        ),
        (
            "interleaved pieces",
            vec![
                json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "id": "fc_a", "call_id": "call_axyz", "name": "Bash", "arguments": ""}}),
                json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "id": "fc_b", "call_id": "call_bxyz", "name": "Bash", "arguments": ""}}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"command\":"}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"command\":\"echo two\"}"}),
                json!({"type": "response.output_text.delta", "output_index": 2, "delta": "words"}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "\"echo one\"}"}),
                json!({"type": "response.brand_new.event", "delta": "?"}),
                completed(json!([])),
            ],
        ),
        (
            "no numbers of items",
            vec![
                json!({"type": "response.output_text.delta", "item_id": "m_1", "delta": "Let me."}),
                json!({"type": "response.output_item.done", "item": call("a", "one")}),
                json!({"type": "response.output_item.done", "item": call("b", "two")}),
                completed(json!([])),
            ],
        ),
        (
            "arguments as objects, no call ids",
            vec![completed(json!([
                {"type": "function_call", "name": "Bash", "arguments": {"command": "echo one"}},
                {"type": "function_call", "name": "Bash", "arguments": {"command": "echo two"}}]))],
        ),
    ];
    for (name, events) in shapes {
        let peer = answers(vec![responses(&events), said("done")]);
        let home = home(&house("openai", &format!("{}/v1", peer.url())));
        let result = result(&home, "house/m", &["--allowedTools", "Bash(echo:*)"]);
        assert_eq!(result["result"], "done", "{name}");
        let input = asked(&peer)[1]["input"].clone();
        let outputs: Vec<&str> = input
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|item| item["output"].as_str())
            .collect();
        assert_eq!(outputs, ["one", "two"], "{name}");
    }
}

#[test]
fn gemini_streams_come_through_with_signatures_on_their_parts() {
    let event = |parts: Value, finish: Value| {
        format!(
            "data: {}\r\n\r\n",
            json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
                "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}})
        )
    };
    let first = event(json!([{"text": "I think", "thought": true}]), Value::Null)
        + &event(
            json!([
                {"functionCall": {"name": "Bash", "args": {"command": "echo one"}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "Bash", "args": "{\"command\": \"echo two\"}"}}]),
            json!("STOP"),
        );
    let second = event(json!([{"text": "done"}]), Value::Null)
        + &event(
            json!([{"text": "", "thoughtSignature": "bGFzdA=="}]),
            json!("STOP"),
        );
    let peer = answers(vec![
        PeerReply::events(first),
        PeerReply::events(second.clone()),
        PeerReply::events(second),
    ]);
    let home = home(&house("gemini", &format!("{}/v1beta", peer.url())));
    let result = result(&home, "house/m", &["--allowedTools", "Bash(echo:*)"]);
    assert_eq!(result["result"], "done");
    let again = ask(&home, "house/m", &["-c"]);
    assert_eq!(again.code(), Some(0), "{again:#?}");
    let sent = asked(&peer);
    let contents = sent[1]["contents"].as_array().unwrap();
    let call_parts = contents[contents.len() - 2]["parts"].as_array().unwrap();
    assert_eq!(call_parts[0]["thoughtSignature"], "c2ln", "{call_parts:?}");
    assert_eq!(call_parts[1]["thoughtSignature"], Value::Null);
    let answered = contents[contents.len() - 1]["parts"].as_array().unwrap();
    assert_eq!(answered[0]["functionResponse"]["response"]["output"], "one");
    assert_eq!(answered[1]["functionResponse"]["response"]["output"], "two");
    let whole = sent[2]["contents"].to_string();
    assert!(
        whole.contains(r#"{"text":"","thoughtSignature":"bGFzdA=="}"#),
        "{whole}"
    );
}
