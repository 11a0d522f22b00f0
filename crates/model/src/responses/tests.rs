use super::*;
use crate::assemble::MessageAssembler;
use crate::providers::{Kind, ModelFacts};
use crate::wire::decoding::Unusable;
use crate::wire::emit::Emitter;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{AssistantMessage, Role, StopReason};
use serde_json::{Value, json};

fn translator() -> Responses {
    let entry = ProviderEntry::new("house", Kind::Responses, Some("http://h/v1"));
    let facts = ModelFacts {
        reasoning: Some(true),
        ..ModelFacts::default()
    };
    Responses::new(Arc::new(entry), Arc::new(move |_| facts.clone()))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "each test makes its own list"
)]
fn request(blocks: Vec<ContentBlock>) -> ModelRequest {
    let mut request = ModelRequest::new("gpt-5", 5);
    let hello = EncodedMessage::new(Role::User, &[ContentBlock::text("hello")]).unwrap();
    request.messages.push(hello);
    if !blocks.is_empty() {
        let answer = EncodedMessage::new(Role::Assistant, &blocks).unwrap();
        request.messages.push(answer);
    }
    request.tools = Bytes::from_static(
        br#"[{"name":"Open","description":"","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}},{"name":"Closed","description":"","input_schema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}}]"#,
    );
    request
}

fn sent(request: &ModelRequest) -> Value {
    let prepared = translator()
        .prepare(request, Transfer::Streaming)
        .ok()
        .unwrap();
    serde_json::from_slice(&prepared.body.parts().concat()).unwrap()
}

fn received(events: &[Value]) -> Result<AssistantMessage, ModelError> {
    let prepared = translator().prepare(&request(Vec::new()), Transfer::Streaming);
    let mut decoder = prepared.ok().unwrap().decoder;
    let mut emitter = Emitter::new("gpt-5");
    let mut outcome = Ok(());
    for event in events {
        outcome = decoder.event(b"", event.to_string().as_bytes(), &mut emitter);
        if outcome.is_err() {
            break;
        }
    }
    match outcome.and_then(|()| decoder.end(&mut emitter)) {
        Ok(()) => {}
        Err(Unusable::Trouble(error)) => return Err(error),
        Err(Unusable::Malformed(message)) => panic!("{message}"),
    }
    let mut assembler = MessageAssembler::default();
    while let Some(piece) = emitter.pop() {
        assembler.feed(&piece.event).unwrap();
    }
    Ok(assembler.finish().unwrap())
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 7}}})
}

#[test]
fn nothing_is_stored_limits_are_at_least_16_and_strict_is_said() {
    let sent = sent(&request(Vec::new()));
    assert_eq!(
        (&sent["store"], &sent["max_output_tokens"]),
        (&json!(false), &json!(16))
    );
    assert_eq!(sent["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(sent["tools"][0]["strict"], false);
    assert_eq!(sent["tools"][1]["strict"], true);
    assert!(sent.get("previous_response_id").is_none());
}

#[test]
fn reasoning_goes_back_right_before_its_item_and_never_alone() {
    let item =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "enc"});
    let events = [
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "unfinished"}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "call_id": "call_abcdef", "name": "Open", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"a\":"}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": {"type": "function_call", "call_id": "call_abcdef", "name": "Open", "arguments": "{\"a\":\"x\"}"}}),
        completed(),
    ];
    let message = received(&events).unwrap();
    assert_eq!(message.stop_reason, Some(StopReason::ToolUse));
    assert_eq!(
        (
            message.usage.input_tokens,
            message.usage.cache_read_input_tokens
        ),
        (40, 60)
    );
    let back = sent(&request(message.content.clone()));
    assert_eq!(back["input"][1], item);
    assert_eq!(back["input"][2]["arguments"], "{\"a\":\"x\"}");
    // Without the item that it led to, or of another API, it is left out.
    let alone = sent(&request(message.content[..1].to_vec()));
    assert_eq!(alone["input"].as_array().unwrap().len(), 1);
    let foreign: ContentBlock =
        serde_json::from_value(json!({"type": "thinking", "thinking": "x", "signature": "other"}))
            .unwrap();
    let foreign = sent(&request(vec![foreign, ContentBlock::text("hi")]));
    assert_eq!(foreign["input"].as_array().unwrap().len(), 2);
}

#[test]
fn the_finished_item_is_the_truth_where_deltas_are_missing() {
    let events = [
        json!({"type": "response.created", "response": {"id": "r"}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "hel"}),
        json!({"type": "response.something.new", "x": 1}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]}}),
        completed(),
    ];
    let message = received(&events).unwrap();
    assert_eq!(
        lathe_protocol::content::joined_text(&message.content),
        "hello"
    );
}

#[test]
fn an_item_grows_the_same_whether_events_number_it_or_name_it() {
    let events = |of: &dyn Fn(usize, &str) -> Value| {
        let grow = |kind: &str, place: usize, id: &str, delta: &str| {
            let mut event = of(place, id);
            event["type"] = format!("response.{kind}.delta").into();
            event["delta"] = delta.into();
            event
        };
        let add = |place: usize, id: &str, item: Value| {
            let mut event = of(place, id);
            event["type"] = "response.output_item.added".into();
            event["item"] = item;
            event
        };
        let call =
            json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "Open"});
        received(&[
            json!({"type": "response.created", "response": {"id": "resp_1"}}),
            grow("reasoning_text", 0, "rs_1", "hm"),
            add(1, "m_1", json!({"type": "message", "id": "m_1"})),
            grow("output_text", 1, "m_1", "a \"word\"\n"),
            grow("output_text", 1, "m_1", "and \u{e4}nother"),
            add(2, "fc_1", call),
            grow("function_call_arguments", 2, "fc_1", "{\"a\":"),
            grow("function_call_arguments", 2, "fc_1", "\"x\"}"),
            completed(),
        ])
    };
    // Ids of calls that are too short are made anew, each time another one.
    let without_ids = |mut message: AssistantMessage| {
        for block in &mut message.content {
            if let ContentBlock::ToolUse(call) = block {
                call.id = "call".into();
            }
        }
        message
    };
    let numbered = events(&|place, id| json!({"output_index": place, "item_id": id})).unwrap();
    let named = events(&|_, id| json!({"item_id": id})).unwrap();
    let numbered = without_ids(numbered);
    assert_eq!(numbered, without_ids(named));
    let text = lathe_protocol::content::joined_text(&numbered.content);
    assert_eq!(text, "a \"word\"\nand \u{e4}nother");
}

#[test]
fn the_phase_of_a_message_goes_back() {
    let item = json!({"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "hi"}]});
    let message = received(&[
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        completed(),
    ])
    .unwrap();
    assert_eq!(
        sent(&request(message.content))["input"][1]["phase"],
        "commentary"
    );
}

#[test]
fn endings_are_what_the_api_says() {
    let text = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "hi"});
    assert!(matches!(
        received(std::slice::from_ref(&text)),
        Err(ModelError::Truncated { .. })
    ));
    let cut = json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}});
    assert_eq!(
        received(&[text.clone(), cut]).unwrap().stop_reason,
        Some(StopReason::MaxTokens)
    );
    let filtered = json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}});
    assert_eq!(
        received(&[text, filtered]).unwrap().stop_reason,
        Some(StopReason::Refusal)
    );
    for (code, retried) in [
        ("server_error", true),
        ("rate_limit_exceeded", true),
        ("server_is_overloaded", true),
        ("invalid_prompt", false),
        ("insufficient_quota", false),
    ] {
        let failed = json!({"type": "response.failed", "response": {"error": {"code": code, "message": "no"}}});
        assert_eq!(
            received(&[failed]).unwrap_err().is_retryable(),
            retried,
            "{code}"
        );
        let event = json!({"type": "error", "code": code, "message": "no"});
        assert_eq!(
            received(&[event]).unwrap_err().is_retryable(),
            retried,
            "{code}"
        );
    }
    let long = json!({"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "no"}}});
    assert!(matches!(
        received(&[long]),
        Err(ModelError::PromptTooLong { .. })
    ));
}

#[test]
fn the_providers_own_search_is_asked_for_and_its_sources_are_results() {
    let mut question = request(Vec::new());
    question.tools = Bytes::from_static(
        br#"[{"type":"web_search_20250305","name":"web_search","max_uses":8,"allowed_domains":["a.example"]}]"#,
    );
    let tools = &sent(&question)["tools"];
    assert_eq!(
        *tools,
        json!([{"type": "web_search", "filters": {"allowed_domains": ["a.example"]}}])
    );
    let note = |url: &str| json!({"type": "url_citation", "url": url, "title": "A", "start_index": 0, "end_index": 3});
    let text = json!({"type": "output_text", "text": "It is so.", "annotations": [note("https://a.example/"), note("https://a.example/")]});
    let message = received(&[
        json!({"type": "response.output_item.done", "output_index": 0, "item": {"type": "web_search_call", "id": "ws_1", "status": "completed"}}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": {"type": "message", "content": [text]}}),
        completed(),
    ])
    .unwrap();
    assert_eq!(message.usage.server_tool_use.web_search_requests, 1);
    let ContentBlock::Other(results) = &message.content[1] else {
        panic!("{:?}", message.content);
    };
    assert_eq!(results["type"], "web_search_tool_result");
    assert_eq!(results["content"].as_array().unwrap().len(), 1);
    assert_eq!(results["content"][0]["url"], "https://a.example/");
}
