//! Requests to servers, and adaptation to their refusals.

use super::*;

#[test]
fn refused_fields_are_dropped_or_renamed_once_and_remembered() {
    let chat = translator("https://api.openai.com/v1");
    let mut hello = hello();
    hello.system = Bytes::from_static(br#"[{"type":"text","text":"be brief"}]"#);
    let first = sent(&chat, &hello);
    assert_eq!(first["messages"][0]["role"], "developer");
    assert_eq!(first["max_completion_tokens"], 100);
    assert!(chat.learn(
        &hello,
        &refusal(
            400,
            "Unrecognized request argument supplied: stream_options"
        )
    ));
    assert!(chat.learn(&hello, &refusal(400, "Unsupported parameter: 'max_completion_tokens' is not supported, use 'max_tokens' instead")));
    assert!(chat.learn(
        &hello,
        &refusal(
            400,
            "'developer' is not one of ['system', 'assistant', 'user']"
        )
    ));
    let second = sent(&chat, &hello);
    assert!(second.get("stream_options").is_none());
    assert_eq!(
        (&second["max_tokens"], second.get("max_completion_tokens")),
        (&json!(100), None)
    );
    assert_eq!(second["messages"][0]["role"], "system");
    assert!(!chat.learn(
        &hello,
        &refusal(
            400,
            "Unrecognized request argument supplied: stream_options"
        )
    ));
    let old = translator("http://h/v1");
    assert!(old.learn(&hello, &refusal(400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")));
    assert_eq!(sent(&old, &hello)["max_completion_tokens"], 100);
}

#[test]
fn mistral_gets_short_ids_and_no_user_after_a_result() {
    let chat = translator("https://api.mistral.ai/v1");
    let back = request(&[
        (Role::User, vec![ContentBlock::text("x")]),
        (Role::Assistant, vec![serde_json::from_value(json!({"type": "tool_use", "id": "toolu_01ABCDEF", "name": "Read", "input": {}})).unwrap()]),
        (Role::User, vec![ContentBlock::tool_result("toolu_01ABCDEF".into(), "r".to_owned(), false), ContentBlock::text("go on")]),
    ]);
    let sent = sent(&chat, &back);
    let id = sent["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(
        id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{id}"
    );
    assert_eq!(sent["messages"][2]["tool_call_id"], id);
    let roles: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
    assert!(sent.get("stream_options").is_none());
}

#[test]
fn effort_is_said_as_each_provider_wants_it_and_only_to_models_that_reason() {
    let facts = ModelFacts {
        reasoning: Some(true),
        ..ModelFacts::default()
    };
    let mut hello = hello();
    hello
        .extra
        .insert("output_config".to_owned(), json!({"effort": "max"}));
    for (url, field, value) in [
        ("https://h/v1", "reasoning_effort", json!("high")),
        (
            "https://openrouter.ai/api/v1",
            "reasoning",
            json!({"effort": "high"}),
        ),
        (
            "https://api.deepseek.com",
            "thinking",
            json!({"type": "enabled"}),
        ),
        (
            "https://dashscope.aliyuncs.com/v1",
            "enable_thinking",
            json!(true),
        ),
        (
            "http://localhost:8000/v1",
            "chat_template_kwargs",
            json!({"enable_thinking": true}),
        ),
    ] {
        let sent = sent(&translator_with(url, facts.clone()), &hello);
        assert_eq!(sent[field], value, "{url}");
    }
    let silent = sent(&translator_with("https://api.x.ai/v1", facts), &hello);
    assert!(silent.get("reasoning_effort").is_none());
    let unknown = sent(&translator("https://h/v1"), &hello);
    assert!(unknown.get("reasoning_effort").is_none());
}

#[test]
fn parts_carry_cache_markers_where_the_provider_wants_them() {
    let chat = translator("https://openrouter.ai/api/v1");
    let mut request = hello();
    request.model = "anthropic/claude-x".to_owned();
    request.system = Bytes::from_static(br#"[{"type":"text","text":"be brief"}]"#);
    let sent_to = sent(&chat, &request);
    assert_eq!(
        sent_to["messages"][0]["content"][0]["cache_control"]["type"],
        "ephemeral"
    );
    assert_eq!(
        sent_to["messages"][1]["content"][0]["cache_control"]["type"],
        "ephemeral"
    );
    request.model = "other/model".to_owned();
    assert!(!sent(&chat, &request).to_string().contains("cache_control"));
}

#[test]
fn an_unknown_server_gets_the_plain_form() {
    let mut hello = hello();
    hello.system = Bytes::from_static(br#"[{"type":"text","text":"be brief"}]"#);
    let sent_with = sent(&translator("http://h/v1"), &hello);
    assert_eq!(
        sent_with["messages"][0],
        json!({"role": "system", "content": "be brief"})
    );
    assert_eq!(
        sent_with["messages"][1],
        json!({"role": "user", "content": "hello"})
    );
    assert_eq!(sent_with["stream_options"], json!({"include_usage": true}));
    for absent in [
        "store",
        "parallel_tool_calls",
        "reasoning_effort",
        "tool_choice",
    ] {
        assert!(sent_with.get(absent).is_none(), "{absent}");
    }
    assert!(sent_with["tools"][0]["function"].get("strict").is_none());
    hello.tools = Bytes::from_static(b"[]");
    assert!(
        sent(&translator("http://h/v1"), &hello)
            .get("tools")
            .is_none()
    );
}

#[test]
fn images_of_results_follow_after_all_results_and_are_a_note_for_models_that_see_none() {
    let result: ContentBlock = serde_json::from_value(json!({"type": "tool_result", "tool_use_id": "a", "content": [
        {"type": "text", "text": "one"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]})).unwrap();
    let back = request(&[(
        Role::User,
        vec![
            result,
            ContentBlock::tool_result("b".into(), "two".to_owned(), false),
        ],
    )]);
    let seen = sent(&translator("http://h/v1"), &back);
    let roles: Vec<&Value> = seen["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["role"])
        .collect();
    assert_eq!(roles, ["tool", "tool", "user"]);
    assert_eq!(
        seen["messages"][2]["content"][1]["image_url"]["url"],
        "data:image/png;base64,AAAA"
    );
    let facts = ModelFacts {
        images: Some(false),
        ..ModelFacts::default()
    };
    let blind = sent(&translator_with("http://h/v1", facts), &back);
    assert!(
        blind.to_string().contains("does not accept images") && !blind.to_string().contains("AAAA")
    );
}

#[test]
fn a_window_that_is_full_without_a_word_is_an_overflow() {
    let silent = stream(&[json!({"delta": {}, "finish_reason": "length"})]);
    assert!(matches!(
        received(&silent, 9),
        Err(ModelError::PromptTooLong { .. })
    ));
    let cut = stream(&[json!({"delta": {"content": "a"}, "finish_reason": "length"})]);
    assert_eq!(
        received(&cut, 9).unwrap().stop_reason,
        Some(StopReason::MaxTokens)
    );
}

#[test]
fn an_answer_without_content_is_not_sent_back() {
    let back = request(&[
        (Role::User, vec![ContentBlock::text("x")]),
        (Role::Assistant, vec![ContentBlock::text(" ")]),
        (Role::User, vec![ContentBlock::text("y")]),
    ]);
    let sent = sent(&translator("http://h/v1"), &back);
    assert_eq!(sent["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn the_prefix_of_a_conversation_stays_the_same_bytes() {
    let chat = translator("http://h/v1");
    let mut request = hello();
    let mut before: Option<Vec<u8>> = None;
    for turn in 0..40 {
        let body = chat
            .prepare(&request, Transfer::Streaming)
            .ok()
            .unwrap()
            .body
            .parts()
            .concat();
        if let Some(before) = &before {
            assert!(body.starts_with(&before[..before.len() - 2]), "turn {turn}");
        }
        before = Some(body);
        let role = if turn % 2 == 0 {
            Role::Assistant
        } else {
            Role::User
        };
        let message = EncodedMessage::new(role, &[ContentBlock::text(format!("{turn}"))]).unwrap();
        request.messages.push(message);
    }
}
