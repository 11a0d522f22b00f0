//! Each row of the dialects of Chat Completions.
#![expect(
    clippy::needless_pass_by_value,
    reason = "tables of JSON values read better without references"
)]

mod requests;

use super::*;
use crate::assemble::MessageAssembler;
use crate::providers::Kind;
use crate::wire::decoding::{Decode, Unusable};
use crate::wire::emit::Emitter;
use lathe_net::sse::SseDecoder;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{AssistantMessage, Role, StopReason};
use serde_json::{Value, json};

fn translator(url: &str) -> Chat {
    translator_with(url, ModelFacts::default())
}

fn translator_with(url: &str, facts: ModelFacts) -> Chat {
    let entry = ProviderEntry::new("house", Kind::Chat, Some(url));
    Chat::new(Arc::new(entry), Arc::new(move |_| facts.clone()))
}

fn request(messages: &[(Role, Vec<ContentBlock>)]) -> ModelRequest {
    let mut request = ModelRequest::new("m", 100);
    request.tools = Bytes::from_static(
        br#"[{"name":"Read","description":"reads","input_schema":{"type":"object","properties":{}}},{"name":"Bash","description":"runs","input_schema":{"type":"object"}}]"#,
    );
    for (role, blocks) in messages {
        let message = EncodedMessage::new(*role, blocks).unwrap();
        request.messages.push(message);
    }
    request
}

fn hello() -> ModelRequest {
    request(&[(Role::User, vec![ContentBlock::text("hello")])])
}

fn sent(chat: &Chat, request: &ModelRequest) -> Value {
    let prepared = chat.prepare(request, Transfer::Streaming).ok().unwrap();
    serde_json::from_slice(&prepared.body.parts().concat()).unwrap()
}

/// The result of a stream that is cut into chunks of a size.
fn received(stream: &str, size: usize) -> Result<AssistantMessage, ModelError> {
    received_by(&translator("http://h/v1"), stream, size)
}

fn received_by(chat: &Chat, stream: &str, size: usize) -> Result<AssistantMessage, ModelError> {
    let mut decoder = chat
        .prepare(&hello(), Transfer::Streaming)
        .ok()
        .unwrap()
        .decoder;
    let mut emitter = Emitter::new("m");
    let outcome = feed(decoder.as_mut(), &mut emitter, stream, size);
    match outcome {
        Ok(()) => {}
        Err(Unusable::Trouble(error)) => return Err(error),
        Err(Unusable::Malformed(message)) => {
            return Err(ModelError::Protocol {
                url: String::new(),
                message,
            });
        }
    }
    let mut assembler = MessageAssembler::default();
    while let Some(piece) = emitter.pop() {
        assembler.feed(&piece.event).unwrap();
    }
    Ok(assembler.finish().unwrap())
}

fn feed(
    decoder: &mut dyn Decode,
    emitter: &mut Emitter,
    stream: &str,
    size: usize,
) -> Result<(), Unusable> {
    let mut sse = SseDecoder::default();
    for chunk in stream.as_bytes().chunks(size) {
        sse.push(chunk);
        while let Some(event) = sse.next_event().unwrap() {
            if let Some(data) = event.data {
                decoder.event(&event.name, &data, emitter)?;
            }
        }
    }
    if let Some(data) = sse.finish().and_then(|event| event.data) {
        let _ = decoder.event(b"", &data, emitter);
    }
    if emitter.is_ended() {
        Ok(())
    } else {
        decoder.end(emitter)
    }
}

/// A stream of chunks, each the inside of `choices[0]`, ended by `[DONE]`.
fn stream(choices: &[Value]) -> String {
    let mut text = String::new();
    for choice in choices {
        text.push_str(&format!(
            "data: {}\n\n",
            json!({"id": "c", "choices": [choice]})
        ));
    }
    text.push_str("data: [DONE]\n\n");
    text
}

fn deltas(deltas: &[Value]) -> String {
    stream(
        &deltas
            .iter()
            .map(|delta| json!({"delta": delta}))
            .collect::<Vec<_>>(),
    )
}

fn call(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]})
}

fn calls(message: &AssistantMessage) -> Vec<(String, String, Value)> {
    message
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some((
                call.id.as_str().to_owned(),
                call.name.clone(),
                call.input.clone(),
            )),
            _ => None,
        })
        .collect()
}

fn names_and_inputs(message: &AssistantMessage) -> Vec<(String, Value)> {
    calls(message)
        .into_iter()
        .map(|(_, name, input)| (name, input))
        .collect()
}

fn text(message: &AssistantMessage) -> String {
    lathe_protocol::content::joined_text(&message.content)
}

fn thinking(message: &AssistantMessage) -> String {
    let blocks = message.content.iter().filter_map(|block| match block {
        ContentBlock::Thinking(block) => Some(block.thinking.as_str()),
        _ => None,
    });
    blocks.collect()
}

#[test]
fn an_id_that_is_missing_empty_or_the_same_every_turn_is_made() {
    let mut seen = HashSet::new();
    for id in [
        json!(null),
        json!(""),
        json!("call_0"),
        json!(0),
        json!("call_0"),
    ] {
        let message = received(
            &deltas(&[call(json!(0), id, json!("Read"), json!("{}"))]),
            7,
        )
        .unwrap();
        let made = calls(&message).remove(0).0;
        assert!(made.len() > 8 && seen.insert(made.clone()), "{made}");
        assert_eq!(message.stop_reason, Some(StopReason::ToolUse));
    }
}

#[test]
fn arguments_that_are_an_object_empty_or_doubly_encoded_are_taken() {
    for (arguments, input) in [
        (json!({"a": 1}), json!({"a": 1})),
        (json!(""), json!({})),
        (json!(null), json!({})),
        (json!("\"{\\\"a\\\":1}\""), json!({"a": 1})),
        (json!("{\"a\":1}"), json!({"a": 1})),
    ] {
        let one = call(
            json!(0),
            json!("idone12345"),
            json!("Read"),
            arguments.clone(),
        );
        let message = received(&deltas(&[one]), 11).unwrap();
        assert_eq!(
            names_and_inputs(&message),
            [("Read".to_owned(), input)],
            "{arguments}"
        );
    }
}

#[test]
fn an_index_that_is_missing_or_always_zero_still_gives_two_calls() {
    for index in [json!(null), json!(0)] {
        for ids in [["call_aaaaaa", "call_bbbbbb"], ["", ""]] {
            let message = received(
                &deltas(&[
                    call(
                        index.clone(),
                        json!(ids[0]),
                        json!("Read"),
                        json!("{\"a\":1}"),
                    ),
                    call(
                        index.clone(),
                        json!(ids[1]),
                        json!("Bash"),
                        json!("{\"b\":2}"),
                    ),
                ]),
                1000,
            )
            .unwrap();
            let expected = [
                ("Read".to_owned(), json!({"a": 1})),
                ("Bash".to_owned(), json!({"b": 2})),
            ];
            assert_eq!(names_and_inputs(&message), expected, "{index} {ids:?}");
        }
    }
    // The same tool twice, whole, without ids.
    let twice = [
        call(json!(0), json!(""), json!("Read"), json!("{\"a\":1}")),
        call(json!(0), json!(""), json!("Read"), json!("{\"a\":2}")),
    ];
    assert_eq!(calls(&received(&deltas(&twice), 1000).unwrap()).len(), 2);
}

#[test]
fn the_first_name_and_id_that_are_not_empty_count() {
    let message = received(
        &deltas(&[
            call(
                json!(0),
                json!("call_abcdef1"),
                json!("Read"),
                json!("{\"a\""),
            ),
            call(json!(0), json!(null), json!(""), json!(":")),
            call(json!(0), json!("call_abcdef1"), json!(null), json!("1}")),
        ]),
        1000,
    )
    .unwrap();
    assert_eq!(
        calls(&message),
        [(
            "call_abcdef1".to_owned(),
            "Read".to_owned(),
            json!({"a": 1})
        )]
    );
}

#[test]
fn calls_that_come_interleaved_are_put_together() {
    let message = received(
        &deltas(&[
            call(
                json!(0),
                json!("call_aaaaaa"),
                json!("Read"),
                json!("{\"a\":"),
            ),
            call(
                json!(1),
                json!("call_bbbbbb"),
                json!("Bash"),
                json!("{\"b\":"),
            ),
            call(json!(0), json!(null), json!(null), json!("1}")),
            call(json!(1), json!(null), json!(null), json!("2}")),
        ]),
        1000,
    )
    .unwrap();
    let expected = [
        ("Read".to_owned(), json!({"a": 1})),
        ("Bash".to_owned(), json!({"b": 2})),
    ];
    assert_eq!(names_and_inputs(&message), expected);
}

#[test]
fn calls_decide_whatever_the_finish_reason_says() {
    for finish in [
        json!("stop"),
        json!("eos"),
        json!("function_call"),
        json!(null),
        json!("length"),
    ] {
        let one = call(json!(0), json!("call_aaaaaa"), json!("Read"), json!("{}"));
        let message = received(
            &stream(&[json!({"delta": one, "finish_reason": finish})]),
            9,
        )
        .unwrap();
        assert_eq!(message.stop_reason, Some(StopReason::ToolUse), "{finish}");
    }
}

#[test]
fn an_end_without_done_is_an_end_if_something_came_and_broken_if_not() {
    let chunk = |choices: Value| format!("data: {}\n\n", json!({"choices": choices}));
    let some = chunk(json!([{"delta": {"content": "hi"}}]))
        + &chunk(json!([]))
        + &chunk(json!([{"delta": null}]));
    assert_eq!(text(&received(&some, 5).unwrap()), "hi");
    let nothing = chunk(json!([])) + &chunk(json!([{"delta": null}]));
    assert!(matches!(
        received(&nothing, 5),
        Err(ModelError::Truncated { .. })
    ));
    assert!(matches!(received("", 5), Err(ModelError::Truncated { .. })));
}

#[test]
fn usage_is_read_wherever_it_is_and_else_estimated_and_marked() {
    let counts = json!({"prompt_tokens": 10, "completion_tokens": 3});
    for body in [
        json!({"choices": [], "usage": counts}),
        json!({"choices": [{"delta": {}, "usage": counts}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": counts}),
        json!({"choices": [], "x_groq": {"usage": counts}}),
        json!({"choices": [{"delta": {"content": "."}}], "usage": counts}),
        json!({"choices": [{"delta": {"content": "."}, "usage": counts}]}),
        json!({"choices": [{"delta": {"content": "."}}], "x_groq": {"usage": counts}}),
    ] {
        let text = format!(
            "data: {}\n\ndata: {body}\n\n",
            json!({"choices": [{"delta": {"content": "hi"}}], "usage": null})
        );
        let usage = received(&text, 13).unwrap().usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (10, 3), "{body}");
        assert!(usage.extra.get("estimated").is_none());
    }
    let guess = received(&deltas(&[json!({"content": "hello you"})]), 13)
        .unwrap()
        .usage;
    assert_eq!(guess.extra.get("estimated"), Some(&json!(true)));
    assert!(guess.input_tokens > 0 && guess.output_tokens > 0);
}

#[test]
fn cached_tokens_are_part_of_the_prompt_and_counted_once() {
    for (usage, expected) in [
        (
            json!({"prompt_tokens": 100, "completion_tokens": 1, "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}),
            (40, 60, 0),
        ),
        (
            json!({"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 60}}),
            (40, 60, 0),
        ),
        (
            json!({"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 90, "cache_write_tokens": 30}}),
            (10, 60, 30),
        ),
    ] {
        let usage = decode::usage(&usage).unwrap();
        let got = (
            usage.input_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
        );
        assert_eq!(got, expected);
        assert_eq!(usage.total_input(), 100);
    }
}

#[test]
fn reasoning_is_read_from_its_first_field_and_goes_back_under_its_name() {
    for (delta, field) in [
        (json!({"reasoning_content": "hm"}), "reasoning_content"),
        (json!({"reasoning": "hm"}), "reasoning"),
        (
            json!({"reasoning": "hm", "reasoning_content": "hm"}),
            "reasoning_content",
        ),
        (
            json!({"reasoning_content": "", "reasoning": "hm"}),
            "reasoning",
        ),
        (
            json!({"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]}),
            "reasoning_details",
        ),
    ] {
        let one = call(json!(0), json!("call_aaaaaa"), json!("Read"), json!("{}"));
        let message = received(&deltas(&[delta.clone(), one]), 17).unwrap();
        assert_eq!(thinking(&message), "hm", "{delta}");
        let back = request(&[
            (Role::User, vec![ContentBlock::text("x")]),
            (Role::Assistant, message.content.clone()),
            (
                Role::User,
                vec![ContentBlock::tool_result(
                    "call_aaaaaa".into(),
                    "r".to_owned(),
                    false,
                )],
            ),
        ]);
        let sent = sent(&translator("http://h/v1"), &back);
        let answer = &sent["messages"][1];
        for name in ["reasoning_content", "reasoning", "reasoning_details"] {
            assert_eq!(
                answer.get(name).is_some(),
                name == field,
                "{delta}: {answer}"
            );
        }
        if field == "reasoning_details" {
            assert_eq!(answer[field][0]["signature"], "s");
        } else {
            assert_eq!(answer[field], "hm");
        }
    }
}

#[test]
fn reasoning_that_must_be_passed_back_is_and_is_empty_for_foreign_history() {
    let chat = translator("http://h/v1");
    let use_block = received(
        &deltas(&[call(
            json!(0),
            json!("call_aaaaaa"),
            json!("Read"),
            json!("{}"),
        )]),
        50,
    )
    .unwrap()
    .content;
    let back = request(&[
        (Role::User, vec![ContentBlock::text("x")]),
        (Role::Assistant, use_block),
        (
            Role::User,
            vec![ContentBlock::tool_result(
                "call_aaaaaa".into(),
                "r".to_owned(),
                false,
            )],
        ),
        (Role::Assistant, vec![ContentBlock::text("done")]),
    ]);
    assert!(
        sent(&chat, &back)["messages"][1]
            .get("reasoning_content")
            .is_none()
    );
    assert!(chat.learn(
        &back,
        &refusal(
            400,
            "The reasoning_content in the thinking mode must be passed back to the API"
        )
    ));
    let sent = sent(&chat, &back);
    assert_eq!(sent["messages"][1]["reasoning_content"], "");
    assert!(sent["messages"][3].get("reasoning_content").is_none());
}

fn refusal(status: u16, message: &str) -> ModelError {
    ModelError::InvalidRequest(Box::new(crate::ApiFailure {
        status: Some(status),
        message: message.to_owned(),
        ..crate::ApiFailure::default()
    }))
}

#[test]
fn think_tags_are_split_off_even_with_only_the_closing_one() {
    let tagged = deltas(&[
        json!({"content": "<thi"}),
        json!({"content": "nk>hm</th"}),
        json!({"content": "ink>\n\nyes"}),
    ]);
    let message = received(&tagged, 3).unwrap();
    assert_eq!(
        (text(&message), thinking(&message)),
        ("yes".to_owned(), "hm".to_owned())
    );
    let half = deltas(&[json!({"content": "hm</thi"}), json!({"content": "nk>yes"})]);
    let chat = translator("http://h/v1");
    // The first time nobody knows; from then on it is expected.
    assert!(!text(&received_by(&chat, &half, 9).unwrap()).contains("think>"));
    let message = received_by(&chat, &half, 9).unwrap();
    assert_eq!(
        (text(&message), thinking(&message)),
        ("yes".to_owned(), "hm".to_owned())
    );
    let message = received_by(&chat, &deltas(&[json!({"content": "plain"})]), 9).unwrap();
    assert_eq!(text(&message), "plain");
}

#[test]
fn comments_line_ends_and_marks_of_any_kind_are_read() {
    let odd = "\u{feff}: OPENROUTER PROCESSING\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"h\u{e9}\"}}]}\r\n\r\n: x\r\n\r\ndata: [DONE]\r\n\r\n";
    for size in 1..=odd.len() {
        assert_eq!(text(&received(odd, size).unwrap()), "h\u{e9}", "{size}");
    }
}

#[test]
fn an_error_inside_of_a_stream_is_classified_as_over_http() {
    for (event, kind) in [
        (
            "data: {\"error\":{\"message\":\"busy\",\"code\":429}}\n\n",
            "rate_limit",
        ),
        (
            "data: {\"error\":{\"message\":\"oops\",\"code\":502}}\n\n",
            "server_error",
        ),
        (
            "event: error\ndata: {\"message\":\"model crashed\"}\n\n",
            "server_error",
        ),
        (
            "data: {\"error\":{\"message\":\"This model's maximum context length is 4096 tokens\",\"code\":400}}\n\n",
            "invalid_request",
        ),
    ] {
        let text = format!(
            "data: {}\n\n{event}",
            json!({"choices": [{"delta": {"content": "hi"}}]})
        );
        let error = received(&text, 30).unwrap_err();
        assert_eq!(error.sdk_kind(), kind, "{error}");
    }
}

#[test]
fn json_is_taken_though_a_stream_was_asked_for() {
    let chat = translator("http://h/v1");
    let mut decoder = chat
        .prepare(&hello(), Transfer::Streaming)
        .ok()
        .unwrap()
        .decoder;
    let mut emitter = Emitter::new("m");
    let body = json!({"id": "c", "choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}]});
    assert!(
        decoder
            .whole(body.to_string().as_bytes(), &mut emitter)
            .is_ok()
    );
    let mut assembler = MessageAssembler::default();
    while let Some(piece) = emitter.pop() {
        assembler.feed(&piece.event).unwrap();
    }
    assert_eq!(text(&assembler.finish().unwrap()), "whole");
}

#[test]
fn names_with_prefixes_and_leftovers_are_matched() {
    for name in ["functions.Read", "read", "Read<|channel|>commentary"] {
        let message = received(
            &deltas(&[call(
                json!(0),
                json!("call_aaaaaa"),
                json!(name),
                json!("{}"),
            )]),
            40,
        )
        .unwrap();
        assert_eq!(names_and_inputs(&message)[0].0, "Read");
    }
    let message = received(
        &deltas(&[call(
            json!(0),
            json!("call_aaaaaa"),
            json!("Nope"),
            json!("{}"),
        )]),
        40,
    )
    .unwrap();
    assert_eq!(names_and_inputs(&message)[0].0, "Nope");
}
