use super::*;
use crate::assemble::MessageAssembler;
use crate::providers::{Kind, ModelFacts};
use crate::wire::decoding::Unusable;
use crate::wire::emit::Emitter;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::message::{AssistantMessage, Role, StopReason};
use serde_json::{Value, json};

fn translator() -> Gemini {
    let entry = ProviderEntry::new("house", Kind::Gemini, Some("http://h/v1beta"));
    Gemini::new(Arc::new(entry), Arc::new(|_| ModelFacts::default()))
}

fn request(model: &str, answer: &[ContentBlock], results: &[ContentBlock]) -> ModelRequest {
    let mut request = ModelRequest::new(model, 100);
    let hello = [ContentBlock::text("hello")];
    for (role, blocks) in [
        (Role::User, &hello[..]),
        (Role::Assistant, answer),
        (Role::User, results),
    ] {
        if !blocks.is_empty() {
            request
                .messages
                .push(EncodedMessage::new(role, blocks).unwrap());
        }
    }
    request.tools = Bytes::from_static(
        br##"[{"name":"Read","description":"","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}},{"name":"Bad","description":"","input_schema":{"properties":{"x":{"$ref":"#/no"}}}}]"##,
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

fn received(chunks: &[Value]) -> Result<AssistantMessage, ModelError> {
    let prepared = translator().prepare(&request("gemini-3-pro", &[], &[]), Transfer::Streaming);
    let mut decoder = prepared.ok().unwrap().decoder;
    let mut emitter = Emitter::new("gemini-3-pro");
    let mut outcome = Ok(());
    for chunk in chunks {
        outcome = decoder.event(b"", chunk.to_string().as_bytes(), &mut emitter);
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

#[expect(
    clippy::needless_pass_by_value,
    reason = "a table of JSON reads better without references"
)]
fn parts(parts: Value, finish: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 5, "thoughtsTokenCount": 3}})
}

#[test]
fn a_signature_goes_back_on_the_call_that_it_came_on() {
    let answer = parts(
        json!([{"text": "hm", "thought": true},
            {"functionCall": {"name": "Read", "args": {"a": "1"}}, "thoughtSignature": "sig"},
            {"functionCall": {"name": "Read", "args": {"a": "2"}}}]),
        "STOP",
    );
    let message = received(&[answer]).unwrap();
    assert_eq!(message.stop_reason, Some(StopReason::ToolUse));
    let usage = &message.usage;
    assert_eq!(
        (
            usage.input_tokens,
            usage.cache_read_input_tokens,
            usage.output_tokens
        ),
        (40, 60, 8)
    );
    let results: Vec<ContentBlock> = message
        .content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(ContentBlock::tool_result(
                call.id.clone(),
                "r".to_owned(),
                false,
            )),
            _ => None,
        })
        .collect();
    let back = sent(&request("gemini-3-pro", &message.content, &results));
    let calls = back["contents"][1]["parts"].as_array().unwrap();
    assert_eq!(calls[0]["thoughtSignature"], "sig");
    assert!(calls[1].get("thoughtSignature").is_none());
    let answers = back["contents"][2]["parts"].as_array().unwrap();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["functionResponse"]["name"], "Read");
    assert_eq!(answers[0]["functionResponse"]["response"]["output"], "r");
}

#[test]
fn calls_of_another_model_are_marked_so_where_signatures_are_wanted() {
    let call: ContentBlock =
        serde_json::from_value(json!({"type": "tool_use", "id": "t", "name": "Read", "input": {}}))
            .unwrap();
    let result = [ContentBlock::tool_result("t".into(), "r".to_owned(), true)];
    let modern = sent(&request(
        "gemini-3-pro",
        std::slice::from_ref(&call),
        &result,
    ));
    assert_eq!(
        modern["contents"][1]["parts"][0]["thoughtSignature"],
        "skip_thought_signature_validator"
    );
    assert_eq!(
        modern["contents"][2]["parts"][0]["functionResponse"]["response"]["error"],
        "r"
    );
    let older = sent(&request("gemini-2.5-pro", &[call], &result));
    assert!(
        older["contents"][1]["parts"][0]
            .get("thoughtSignature")
            .is_none()
    );
}

#[test]
fn a_tool_whose_schema_leads_nowhere_is_left_out_and_the_others_stay() {
    let sent = sent(&request("gemini-3-pro", &[], &[]));
    let tools = sent["tools"][0]["functionDeclarations"].as_array().unwrap();
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0]["name"], "Read");
}

#[test]
fn thinking_is_a_level_for_newer_models_and_a_budget_for_older_ones() {
    for (model, field) in [
        ("gemini-3-pro", "thinkingLevel"),
        ("gemini-2.5-flash", "thinkingBudget"),
    ] {
        let mut request = request(model, &[], &[]);
        request
            .extra
            .insert("output_config".to_owned(), json!({"effort": "high"}));
        let config = &sent(&request)["generationConfig"]["thinkingConfig"];
        assert!(
            config.get(field).is_some() && config["includeThoughts"] == true,
            "{config}"
        );
    }
}

#[test]
fn endings_are_what_the_api_says() {
    let text = json!([{"text": "hi"}]);
    for (finish, reason) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
        ("BLOCKLIST", StopReason::Refusal),
        ("SPII", StopReason::Refusal),
    ] {
        assert_eq!(
            received(&[parts(text.clone(), finish)])
                .unwrap()
                .stop_reason,
            Some(reason),
            "{finish}"
        );
    }
    let malformed = received(&[parts(json!([]), "MALFORMED_FUNCTION_CALL")]).unwrap_err();
    assert!(malformed.is_retryable());
    let blocked = received(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]).unwrap();
    assert_eq!(blocked.stop_reason, Some(StopReason::Refusal));
    let cut = received(&[json!({"candidates": [{"content": {"parts": text}}]})]);
    assert!(matches!(cut, Err(ModelError::Truncated { .. })));
}

#[test]
fn the_providers_own_search_is_asked_for_and_its_sources_are_results() {
    let mut question = request("gemini-3-pro", &[], &[]);
    question.tools =
        Bytes::from_static(br#"[{"type":"web_search_20250305","name":"web_search","max_uses":8}]"#);
    assert_eq!(sent(&question)["tools"], json!([{"google_search": {}}]));
    let message = received(&[
        json!({"candidates": [{"content": {"parts": [{"text": "It is so."}]}}]}),
        json!({"candidates": [{"finishReason": "STOP", "groundingMetadata": {
            "webSearchQueries": ["one", "two"],
            "groundingChunks": [{"web": {"uri": "https://a.example/", "title": "A"}}, {"web": {"uri": "https://a.example/", "title": "A"}}, {"retrievedContext": {}}],
        }}]}),
    ])
    .unwrap();
    assert_eq!(message.usage.server_tool_use.web_search_requests, 2);
    let ContentBlock::Other(results) = &message.content[1] else {
        panic!("{:?}", message.content);
    };
    assert_eq!(results["content"].as_array().unwrap().len(), 1);
    assert_eq!(results["content"][0]["title"], "A");
}

#[test]
fn words_are_read_the_quick_way_and_the_same() {
    let read = |more: Value| {
        let chunk = |parts: Value| {
            let mut chunk = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
                "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 3,
                    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}]},
                "modelVersion": "m", "responseId": "r1"});
            for (name, value) in more.as_object().unwrap() {
                chunk[name] = value.clone();
            }
            format!("data: {chunk}\n\n")
        };
        let end = json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]});
        let stream = chunk(json!([{"text": "I \"think\"", "thought": true}]))
            + &chunk(json!([{"text": "wor\nds "}]))
            + &chunk(json!([{"text": "\u{1f600}"}]))
            + &format!("data: {end}\n\n");
        let prepared = translator().prepare(&request("m", &[], &[]), Transfer::Streaming);
        let mut decoder = prepared.ok().unwrap().decoder;
        let (mut sse, mut emitter) = (lathe_net::sse::SseDecoder::default(), Emitter::new("m"));
        sse.push(stream.as_bytes());
        while let Ok(Some(event)) = sse.next_event() {
            let data = event.data.unwrap_or_default();
            assert!(decoder.event(&event.name, &data, &mut emitter).is_ok());
        }
        assert!(decoder.end(&mut emitter).is_ok());
        let mut assembler = MessageAssembler::default();
        while let Some(piece) = emitter.pop() {
            assembler.feed(&piece.event).unwrap();
        }
        assembler.finish().unwrap()
    };
    // A field that nobody knows makes it careful.
    let careful = read(json!({"somethingNew": 1}));
    assert_eq!(read(json!({})), careful);
    assert_eq!(careful.usage.cache_read_input_tokens, 4);
}
