//! Every row of the recovery table, from a scripted fault to success or to a clear error.
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

use futures::StreamExt;
use lathe_model::{
    AnthropicConfig, AnthropicProvider, Delivery, FallbackModel, KeyHelper, KeyHelperError,
    ModelError, ModelRequest, NetworkTrouble, RecoveryPolicy, Thinking,
};
use lathe_protocol::stream::StreamEvent;
use lathe_scripted::{Ending, Position, Reply, Scenario, ScriptedServer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{
    GUARD, Outcome, RawServer, collect, config, provider, quick, read_request, request, run,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

/// Long for a loopback connection even on a busy machine, short for a test.
const SHORT: Duration = Duration::from_millis(800);

async fn play(scenario: Scenario, policy: RecoveryPolicy) -> (Outcome, ScriptedServer) {
    let server = ScriptedServer::start(scenario).await.unwrap();
    let outcome = run(provider(&server.base_url()), policy).await;
    server.finish();
    (outcome, server)
}

fn streamed(server: &ScriptedServer) -> Vec<bool> {
    server
        .requests()
        .iter()
        .map(lathe_scripted::RecordedRequest::wants_stream)
        .collect()
}

#[tokio::test]
async fn a_refusal_for_now_is_retried_with_the_same_bytes() {
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        let scenario = Scenario::new()
            .reply(Reply::error(status))
            .reply(Reply::text("fine"));
        let (outcome, server) = play(scenario, quick()).await;
        assert_eq!(outcome.text(), "fine", "{status}");
        assert_eq!(outcome.steps.len(), 3, "{:?}", outcome.steps);
        assert!(
            outcome.steps[1].starts_with(&format!("retrying 1/10 {status} ")),
            "{:?}",
            outcome.steps
        );
        let requests = server.requests();
        assert_eq!(requests[0].raw_body, requests[1].raw_body);
    }
}

#[tokio::test]
async fn retries_end_at_the_limit_with_the_last_error() {
    let policy = RecoveryPolicy {
        max_retries: 2,
        ..quick()
    };
    let scenario = Scenario::new().reply(Reply::error(500).times(3));
    let (outcome, server) = play(scenario, policy).await;
    assert_eq!(server.request_count(), 3);
    assert!(
        matches!(outcome.error, Some(ModelError::Server(_))),
        "{:?}",
        outcome.error
    );
    assert_eq!(outcome.steps.last().unwrap(), "requesting 3");
}

#[tokio::test]
async fn the_apis_wait_is_honoured() {
    for (name, value, expected) in [
        ("retry-after-ms", "30", Duration::from_millis(30)),
        ("retry-after", "0", Duration::ZERO),
    ] {
        let refusal = Reply::error(429).header(name, value);
        let scenario = Scenario::new().reply(refusal).reply(Reply::text("fine"));
        let policy = RecoveryPolicy {
            base_delay: Duration::from_secs(3600),
            ..quick()
        };
        let (outcome, _) = play(scenario, policy).await;
        assert_eq!(outcome.text(), "fine");
        let waits: Vec<Duration> = outcome
            .deliveries
            .iter()
            .filter_map(|delivery| match delivery {
                Delivery::Retrying { delay, .. } => Some(*delay),
                _ => None,
            })
            .collect();
        assert_eq!(waits, [expected], "{name}");
    }
}

#[tokio::test]
async fn a_wait_of_an_hour_is_an_error_that_says_so() {
    let refusal = Reply::error(429).header("retry-after", "3600");
    let (outcome, _) = play(Scenario::new().reply(refusal), quick()).await;
    let error = outcome.error.unwrap();
    assert!(matches!(error, ModelError::RateLimited(_)));
    assert!(error.to_string().contains("wait 3600 s"), "{error}");
}

#[tokio::test]
async fn the_apis_opinion_on_retrying_is_followed() {
    let no = Reply::error(500).header("x-should-retry", "false");
    let (outcome, server) = play(Scenario::new().reply(no), quick()).await;
    assert_eq!(server.request_count(), 1);
    assert!(outcome.error.is_some());
    let yes = Reply::error(400).header("x-should-retry", "true");
    let (outcome, _) = play(
        Scenario::new().reply(yes).reply(Reply::text("fine")),
        quick(),
    )
    .await;
    assert_eq!(outcome.text(), "fine");
}

#[tokio::test]
async fn what_is_wrong_stays_wrong_and_is_not_retried() {
    let cases = [
        (
            400,
            "invalid_request_error",
            "messages: bad",
            "invalid_request",
        ),
        (
            401,
            "authentication_error",
            "invalid x-api-key",
            "authentication_failed",
        ),
        (403, "permission_error", "no", "authentication_failed"),
        (
            404,
            "not_found_error",
            "model: claude-nope",
            "model_not_found",
        ),
        (
            413,
            "request_too_large",
            "Request exceeds the maximum size",
            "invalid_request",
        ),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "invalid_request",
        ),
    ];
    for (status, kind, message, word) in cases {
        let scenario = Scenario::new().reply(Reply::error_with(status, kind, message));
        let (outcome, server) = play(scenario, quick()).await;
        let error = outcome.error.unwrap();
        assert_eq!((error.status(), error.sdk_kind()), (Some(status), word));
        assert!(
            error
                .to_string()
                .starts_with(&format!("API Error: {status} {message}")),
            "{error}"
        );
        assert!(error.request_id().is_some(), "{error:?}");
        assert_eq!(server.request_count(), 1);
        assert_eq!(outcome.steps, ["requesting 1"]);
    }
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_is_retried() {
    let scenario = Scenario::new()
        .reply(Reply::hang_up())
        .reply(Reply::text("fine"));
    let (outcome, _) = play(scenario, quick()).await;
    assert_eq!(outcome.text(), "fine");
    assert_eq!(outcome.steps[1], "retrying 1/10 unknown");
}

#[tokio::test]
async fn a_refused_connection_names_the_address_and_the_setting() {
    // A port that was free a moment ago.
    let port = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let policy = RecoveryPolicy {
        max_retries: 1,
        ..quick()
    };
    let outcome = run(provider(&format!("http://127.0.0.1:{port}")), policy).await;
    let error = outcome.error.unwrap();
    assert!(
        matches!(
            error,
            ModelError::Network {
                trouble: NetworkTrouble::NotRunning,
                ..
            }
        ),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.contains(&format!("http://127.0.0.1:{port}/v1/messages")),
        "{text}"
    );
    assert!(text.contains("ANTHROPIC_BASE_URL"), "{text}");
}

#[tokio::test]
async fn an_unknown_host_is_told_at_once() {
    let policy = RecoveryPolicy {
        max_retries: 0,
        ..quick()
    };
    let outcome = run(provider("http://no-such-host.invalid"), policy).await;
    let error = outcome.error.unwrap();
    let ModelError::Network { trouble, url, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(
        matches!(
            trouble,
            NetworkTrouble::UnknownHost | NetworkTrouble::NameLookup
        ),
        "{error:?}"
    );
    assert!(url.contains("no-such-host.invalid"), "{url}");
}

#[tokio::test]
async fn an_answer_that_never_comes_is_given_up_and_retried() {
    let policy = RecoveryPolicy {
        request_timeout: Duration::from_secs(1),
        ..quick()
    };
    let scenario = Scenario::new()
        .reply(Reply::never_answer())
        .reply(Reply::text("fine"));
    let (outcome, _) = play(scenario, policy).await;
    assert_eq!(outcome.text(), "fine");
    assert_eq!(
        outcome.steps,
        ["requesting 1", "retrying 1/10 server_error", "requesting 2"]
    );
}

fn with_fallback() -> RecoveryPolicy {
    let rewrite = |request: &ModelRequest| {
        let mut request = request.clone();
        request.max_tokens = 77;
        request
    };
    let fallback = FallbackModel {
        model: "claude-haiku-4-5".into(),
        rewrite: Arc::new(rewrite),
    };
    RecoveryPolicy {
        fallbacks: vec![fallback],
        ..quick()
    }
}

#[tokio::test]
async fn an_overloaded_model_is_replaced_once() {
    let scenario = Scenario::new()
        .reply(Reply::error(529).times(3))
        .reply(Reply::text("from the other"));
    let (outcome, server) = play(scenario, with_fallback()).await;
    assert_eq!(outcome.text(), "from the other");
    assert_eq!(
        outcome.steps,
        [
            "requesting 1",
            "retrying 1/10 529 overloaded",
            "requesting 2",
            "retrying 2/10 529 overloaded",
            "requesting 3",
            "fell back claude-opus-4-5 -> claude-haiku-4-5",
            "requesting 4"
        ]
    );
    let last = server.request(3).unwrap();
    assert_eq!(last.model(), "claude-haiku-4-5");
    assert_eq!(last.body["max_tokens"], 77, "the rewritten request is sent");
}

#[tokio::test]
async fn an_overloaded_fallback_ends_in_an_error() {
    let policy = RecoveryPolicy {
        max_retries: 4,
        ..with_fallback()
    };
    let scenario = Scenario::new().reply(Reply::error(529).forever());
    let (outcome, server) = play(scenario, policy).await;
    assert!(matches!(outcome.error, Some(ModelError::Overloaded(_))));
    assert_eq!(server.request_count(), 3 + 5);
    assert_eq!(
        outcome
            .steps
            .iter()
            .filter(|step| step.starts_with("fell back"))
            .count(),
        1
    );
}

#[tokio::test]
async fn an_overload_in_the_middle_of_a_stream_counts_as_one() {
    let ending = Ending::ErrorEvent {
        kind: "overloaded_error".into(),
        message: "Overloaded".into(),
    };
    let broken =
        Reply::text("half a sentence that is withdrawn").cut(Position::MidBlock(0), ending);
    let scenario = Scenario::new()
        .reply(broken.times(3))
        .reply(Reply::text("whole"));
    let (outcome, server) = play(scenario, with_fallback()).await;
    assert_eq!(outcome.text(), "whole");
    assert_eq!(
        outcome.steps[..3],
        ["requesting 1", "retracted", "retrying 1/10 overloaded"]
    );
    assert!(
        outcome
            .steps
            .contains(&"fell back claude-opus-4-5 -> claude-haiku-4-5".to_owned())
    );
    assert_eq!(
        streamed(&server),
        [true; 4],
        "an overload is no reason to stop streaming"
    );
}

#[tokio::test]
async fn a_bad_request_found_in_the_middle_of_a_stream_is_final() {
    let ending = Ending::ErrorEvent {
        kind: "invalid_request_error".into(),
        message: "odd".into(),
    };
    let broken =
        Reply::text("half a sentence that is withdrawn").cut(Position::MidBlock(0), ending);
    let (outcome, _) = play(Scenario::new().reply(broken), quick()).await;
    assert_eq!(outcome.steps, ["requesting 1", "retracted"]);
    assert!(matches!(outcome.error, Some(ModelError::InvalidRequest(_))));
}

#[tokio::test]
async fn a_stalled_stream_is_cut_and_the_third_try_is_not_streamed() {
    let endings = [
        Ending::Silence,
        Ending::KeepAliveComments { every_ms: 5 },
        Ending::KeepAliveEvents { every_ms: 5 },
    ];
    let runs = endings.map(|ending| async move {
        let stalled = Reply::text("half a sentence that is withdrawn")
            .cut(Position::MidBlock(0), ending.clone());
        let scenario = Scenario::new()
            .reply(stalled.times(2))
            .reply(Reply::text("whole"));
        let policy = RecoveryPolicy {
            idle_timeout: SHORT,
            ..quick()
        };
        let (outcome, server) = play(scenario, policy).await;
        assert_eq!(outcome.text(), "whole", "{ending:?}");
        assert_eq!(
            outcome.steps,
            [
                "requesting 1",
                "retracted",
                "retrying 1/3 server_error",
                "requesting 2",
                "retracted",
                "retrying 2/3 server_error",
                "requesting 3"
            ],
            "{ending:?}"
        );
        assert_eq!(streamed(&server), [true, true, false]);
    });
    futures::future::join_all(runs).await;
}

#[tokio::test]
async fn a_stream_that_never_says_anything_is_cut_too_and_nothing_is_retracted() {
    let silent = Reply::text("x").cut(Position::Start, Ending::KeepAliveComments { every_ms: 5 });
    let scenario = Scenario::new().reply(silent).reply(Reply::text("whole"));
    let policy = RecoveryPolicy {
        idle_timeout: SHORT,
        ..quick()
    };
    let (outcome, _) = play(scenario, policy).await;
    assert_eq!(
        outcome.steps,
        ["requesting 1", "retrying 1/3 server_error", "requesting 2"]
    );
    assert_eq!(outcome.text(), "whole");
}

#[tokio::test]
async fn a_slow_stream_that_moves_is_left_alone() {
    let slow = Reply::text("a text that comes in many small pieces")
        .delta_characters(2)
        .chunk_delay_ms(50);
    let policy = RecoveryPolicy {
        idle_timeout: SHORT,
        ..quick()
    };
    let (outcome, server) = play(Scenario::new().reply(slow), policy).await;
    assert_eq!(outcome.text(), "a text that comes in many small pieces");
    assert_eq!(server.request_count(), 1);
}

#[tokio::test]
async fn a_consumer_that_takes_its_time_is_not_a_stall() {
    let gated = Reply::text("the rest").gate(Position::BeforeBlock(0), "rest");
    let server = ScriptedServer::start(Scenario::new().reply(gated))
        .await
        .unwrap();
    let policy = RecoveryPolicy {
        idle_timeout: SHORT,
        ..quick()
    };
    let mut stream = lathe_model::run(
        provider(&server.base_url()),
        request(),
        policy.clone(),
        CancellationToken::new(),
    );
    let mut complete = false;
    let mut paused = false;
    while let Some(item) = stream.next().await {
        let delivery = item.unwrap();
        assert!(
            matches!(delivery, Delivery::Requesting { .. } | Delivery::Event(_)),
            "{delivery:?}"
        );
        if let Delivery::Event(event) = delivery {
            complete = matches!(event.event, StreamEvent::MessageStop);
            if !paused && matches!(event.event, StreamEvent::MessageStart { .. }) {
                paused = true;
                // Longer than the stream may be idle, while nobody asks it for anything.
                tokio::time::sleep(policy.idle_timeout * 2).await;
                server.gate("rest").release();
            }
        }
    }
    assert!(complete && paused);
}

#[tokio::test]
async fn a_stream_that_ends_half_way_is_withdrawn_and_asked_for_again() {
    for ending in [Ending::Drop, Ending::EndOfBody] {
        for position in [
            Position::MidBlock(0),
            Position::BeforeEvent("message_stop".into()),
        ] {
            let cut = Reply::text("half a sentence that is withdrawn")
                .cut(position.clone(), ending.clone());
            let scenario = Scenario::new().reply(cut).reply(Reply::text("whole"));
            let (outcome, _) = play(scenario, quick()).await;
            assert_eq!(outcome.text(), "whole", "{ending:?} {position:?}");
            assert_eq!(
                outcome.steps,
                [
                    "requesting 1",
                    "retracted",
                    "retrying 1/3 server_error",
                    "requesting 2"
                ]
            );
        }
    }
}

#[tokio::test]
async fn streams_that_always_break_end_in_an_error_after_three_retries() {
    let cut = Reply::text("half a sentence")
        .cut(Position::Byte(40), Ending::Drop)
        .forever();
    let server = ScriptedServer::start(Scenario::new().reply(cut))
        .await
        .unwrap();
    let outcome = run(provider(&server.base_url()), quick()).await;
    assert!(
        matches!(outcome.error, Some(ModelError::Truncated { .. })),
        "{:?}",
        outcome.error
    );
    assert_eq!(streamed(&server), [true, true, false, false]);
}

#[tokio::test]
async fn an_empty_stream_is_a_broken_one() {
    let scenario = Scenario::new()
        .reply(Reply::empty_body())
        .reply(Reply::text("whole"));
    let (outcome, _) = play(scenario, quick()).await;
    assert_eq!(outcome.text(), "whole");
}

#[tokio::test]
async fn garbage_in_a_stream_is_a_broken_stream() {
    let garbage =
        Reply::text("x").insert(Position::AfterBlock(0), "data: {\"type\":\"message_de\n\n");
    let scenario = Scenario::new().reply(garbage).reply(Reply::text("whole"));
    let (outcome, _) = play(scenario, quick()).await;
    assert_eq!(
        outcome.steps,
        [
            "requesting 1",
            "retracted",
            "retrying 1/3 unknown",
            "requesting 2"
        ]
    );
    assert_eq!(outcome.text(), "whole");
}

#[tokio::test]
async fn a_page_instead_of_a_stream_is_final_and_names_the_setting() {
    let page = Reply::raw(
        200,
        "text/html",
        "<html>Welcome to the hotel network</html>",
    );
    let (outcome, server) = play(Scenario::new().reply(page), quick()).await;
    let error = outcome.error.unwrap();
    assert!(matches!(error, ModelError::Protocol { .. }), "{error:?}");
    assert!(error.to_string().contains("text/html"), "{error}");
    assert!(error.to_string().contains("ANTHROPIC_BASE_URL"), "{error}");
    assert_eq!(server.request_count(), 1);
}

#[tokio::test]
async fn reasoning_that_no_longer_fits_is_left_out_by_the_api() {
    let message = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".";
    let refusal = Reply::error_with(400, "invalid_request_error", message);
    let scenario = Scenario::new().reply(refusal).reply(Reply::text("fine"));
    let server = ScriptedServer::start(scenario).await.unwrap();
    let mut request = request();
    request.thinking = Some(Thinking::adaptive());
    let outcome = collect(lathe_model::run(
        provider(&server.base_url()),
        request,
        quick(),
        CancellationToken::new(),
    ))
    .await;
    assert_eq!(outcome.text(), "fine");
    let second = server.request(1).unwrap();
    assert_eq!(
        second.body["thinking"]["block_binding"]["prefix_mismatch_behavior"],
        "drop_block"
    );
    assert_eq!(
        second.header("anthropic-beta"),
        Some("thinking-binding-controls-2026-08-01")
    );
    assert_eq!(server.request(0).unwrap().header("anthropic-beta"), None);
}

fn helper(keys: &'static [&'static str]) -> (KeyHelper, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let helper: KeyHelper = Arc::new(move |refresh| {
        let call = counter.fetch_add(1, Ordering::SeqCst);
        assert_eq!(refresh, call > 0, "only a refused key is asked for again");
        let key = keys.get(call).map_or_else(
            || Err(KeyHelperError("exit status 3".to_owned())),
            |key| Ok(format!("{key}\n")),
        );
        Box::pin(std::future::ready(key))
    });
    (helper, calls)
}

fn with_helper(base_url: &str, helper: KeyHelper) -> Arc<AnthropicProvider> {
    let config = AnthropicConfig {
        api_key: None,
        key_helper: Some(helper),
        ..config(base_url)
    };
    Arc::new(AnthropicProvider::new(&config).unwrap())
}

#[tokio::test]
async fn a_refused_helper_key_is_replaced_once() {
    let scenario = Scenario::new()
        .accept_key("fresh")
        .reply(Reply::text("in"))
        .reply(Reply::text("again"));
    let server = ScriptedServer::start(scenario).await.unwrap();
    let (helper, calls) = helper(&["stale", "fresh"]);
    let provider = with_helper(&server.base_url(), helper);
    let outcome = run(Arc::clone(&provider), quick()).await;
    assert_eq!(outcome.text(), "in");
    assert_eq!(outcome.steps, ["requesting 1", "requesting 2"]);
    // The good key is kept.
    assert_eq!(run(provider, quick()).await.text(), "again");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let sent = server.request(1).unwrap();
    assert_eq!(sent.header("x-api-key"), Some("fresh"));
    assert_eq!(sent.header("authorization"), Some("Bearer fresh"));
    server.finish();
}

#[tokio::test]
async fn a_helper_without_a_good_key_ends_in_a_clear_error() {
    let server = ScriptedServer::start(Scenario::new().accept_key("fresh"))
        .await
        .unwrap();
    let (wrong, calls) = helper(&["stale", "also stale"]);
    let outcome = run(with_helper(&server.base_url(), wrong), quick()).await;
    assert!(
        matches!(outcome.error, Some(ModelError::Authentication(_))),
        "{:?}",
        outcome.error
    );
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    let (failing, _) = helper(&["stale"]);
    let outcome = run(with_helper(&server.base_url(), failing), quick()).await;
    let error = outcome.error.unwrap();
    assert!(
        error
            .to_string()
            .contains("apiKeyHelper failed: exit status 3"),
        "{error}"
    );
    let (silent, _) = helper(&[""]);
    let outcome = run(with_helper(&server.base_url(), silent), quick()).await;
    let error = outcome.error.unwrap();
    assert!(error.to_string().contains("it printed nothing"), "{error}");
}

/// Cancels once the stream has delivered as much as `ready` wants, and expects the end at once.
async fn cancelled_after(
    server: &ScriptedServer,
    policy: RecoveryPolicy,
    ready: impl Fn(&Delivery) -> bool,
) {
    let cancel = CancellationToken::new();
    let mut stream = lathe_model::run(
        provider(&server.base_url()),
        request(),
        policy,
        cancel.clone(),
    );
    let last = tokio::time::timeout(GUARD, async {
        while let Some(item) = stream.next().await {
            match item {
                Ok(delivery) if ready(&delivery) => cancel.cancel(),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
        panic!("the stream ended without an error");
    })
    .await
    .expect("cancelling ends the stream");
    assert_eq!(last, ModelError::Cancelled);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn cancelling_ends_at_once_wherever_it_hits() {
    let never = ScriptedServer::start(Scenario::new().reply(Reply::never_answer()))
        .await
        .unwrap();
    cancelled_after(&never, quick(), |delivery| {
        matches!(delivery, Delivery::Requesting { .. })
    })
    .await;
    let stalled = Reply::text("half a sentence and").cut(Position::MidBlock(0), Ending::Silence);
    let stalled = ScriptedServer::start(Scenario::new().reply(stalled))
        .await
        .unwrap();
    cancelled_after(&stalled, quick(), |delivery| {
        matches!(delivery, Delivery::Event(_))
    })
    .await;
    let refusing = ScriptedServer::start(Scenario::new().reply(Reply::error(529)))
        .await
        .unwrap();
    let patient = RecoveryPolicy {
        base_delay: Duration::from_secs(3600),
        max_delay: Duration::from_secs(3600),
        ..quick()
    };
    cancelled_after(&refusing, patient, |delivery| {
        matches!(delivery, Delivery::Retrying { .. })
    })
    .await;
    assert_eq!(refusing.request_count(), 1);
}

#[tokio::test]
async fn a_cancelled_request_closes_its_connection() {
    let (closed, mut was_closed) = tokio::sync::mpsc::channel(1);
    let server = RawServer::start(move |_, mut stream| {
        let closed = closed.clone();
        async move {
            read_request(&mut stream).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            stream
                .write_all(
                    support::events("x")
                        .split_inclusive("\n\n")
                        .next()
                        .unwrap()
                        .as_bytes(),
                )
                .await
                .unwrap();
            let end = stream.read(&mut [0; 64]).await;
            closed.send(matches!(end, Ok(0) | Err(_))).await.unwrap();
        }
    })
    .await;
    let cancel = CancellationToken::new();
    let mut stream = lathe_model::run(provider(&server.url()), request(), quick(), cancel.clone());
    while let Some(item) = stream.next().await {
        match item {
            Ok(Delivery::Event(_)) => cancel.cancel(),
            Ok(_) => {}
            Err(error) => assert_eq!(error, ModelError::Cancelled),
        }
    }
    // The stream is still held here: cancelling alone must let go of the connection.
    let end = tokio::time::timeout(GUARD, was_closed.recv())
        .await
        .unwrap();
    assert_eq!(end, Some(true));
    drop(stream);
}
