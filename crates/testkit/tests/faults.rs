//! Every row of the recovery table, from a scripted fault to its end: success, or a clear error
//! with the documented exit code. The binary is the real one; only the model is scripted.
//!
//! No test waits for a wall clock: the pauses between retries and the stall limit are set to
//! milliseconds, and a run that hangs is killed and shown by the driver.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]

use lathe_scripted::reply::Chunks;
use lathe_scripted::{
    BlockingServer, Ending, Framing, LineEnd, Position, RecordedRequest, Reply, Scenario, When,
};
use lathe_testkit::transcript::{self, Transcript};
use lathe_testkit::{Output, TestHome, processes};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const MODEL: &str = "claude-sonnet-4-6";
const OTHER_MODEL: &str = "claude-haiku-4-5";

/// A run against a script.
struct Run {
    server: BlockingServer,
    home: TestHome,
}

impl Run {
    fn new(scenario: Scenario) -> Self {
        let server = BlockingServer::start(scenario).unwrap();
        let home = TestHome::with_server(&server)
            .variable("IS_SANDBOX", "1")
            .variable("LATHE_RETRY_BASE_MS", "1")
            .variable("LATHE_STREAM_IDLE_TIMEOUT_MS", "5000");
        Self { server, home }
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.home = self.home.variable(name, value);
        self
    }

    fn go(&self, more: &[&str]) -> Output {
        let usual = [
            "-p",
            "do the thing",
            "--output-format",
            "stream-json",
            "--verbose",
            "--model",
            MODEL,
            "--permission-mode",
            "bypassPermissions",
        ];
        self.home.run(usual.iter().chain(more), "")
    }

    /// Runs, and expects success with this text, good requests and a quiet stderr.
    #[track_caller]
    fn succeeds(&self, more: &[&str], text: &str) -> Output {
        let output = self.go(more);
        let result = output.result();
        assert_eq!(result["is_error"], false, "{output:#?}");
        assert_eq!(result["subtype"], "success", "{output:#?}");
        assert_eq!(result["result"], text, "{output:#?}");
        assert_eq!(output.code(), Some(0), "{output:#?}");
        self.server.finish();
        output
    }

    /// Runs, and expects an error whose text has all of these words.
    #[track_caller]
    fn fails(&self, more: &[&str], words: &[&str]) -> Output {
        let output = self.go(more);
        let result = output.result();
        assert_eq!(result["is_error"], true, "{output:#?}");
        assert_eq!(output.code(), Some(1), "{output:#?}");
        let told = format!("{}{}", result["result"], result["errors"]).to_lowercase();
        for word in words {
            assert!(
                told.contains(&word.to_lowercase()),
                "{word:?} is not in {told}"
            );
        }
        self.server.finish();
        output
    }

    fn requests(&self) -> Vec<RecordedRequest> {
        self.server.message_requests()
    }
}

fn frames_of<'a>(frames: &'a [Value], kind: &str) -> Vec<&'a Value> {
    frames
        .iter()
        .filter(|frame| frame["type"] == kind || frame["subtype"] == kind)
        .collect()
}

/// The text of a request's messages, as one string to search in.
fn conversation(request: &RecordedRequest) -> String {
    request.body["messages"].to_string()
}

// ---------------------------------------------------------------------------------------------
// The output limit.

#[test]
fn an_answer_cut_at_the_small_limit_is_asked_for_again_with_the_large_one() {
    let run = Run::new(
        Scenario::new()
            .reply(Reply::text("half an ans").stop_reason("max_tokens"))
            .reply(Reply::text("the whole answer")),
    );
    run.succeeds(&[], "the whole answer");
    let requests = run.requests();
    assert_eq!(requests.len(), 2);
    let limit = |index: usize| requests[index].body["max_tokens"].as_u64().unwrap();
    assert!(limit(0) < limit(1), "{} then {}", limit(0), limit(1));
    assert_eq!(
        requests[0].messages().len(),
        requests[1].messages().len(),
        "same conversation"
    );
    assert!(!conversation(&requests[1]).contains("half an ans"));
    let path = &transcript::of_home(&run.home)[0];
    let transcript = Transcript::read(path);
    let conversation = transcript.conversation();
    let texts: Vec<String> = conversation
        .iter()
        .map(|record| record["message"]["content"].to_string())
        .collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[1].contains("the whole answer"), "{texts:?}");
}

#[test]
fn an_answer_cut_at_the_large_limit_is_continued_where_it_stopped() {
    let cut = |text: &str| Reply::text(text).stop_reason("max_tokens");
    let run = Run::new(
        Scenario::new()
            .reply(cut("small"))
            .reply(cut("first part"))
            .reply(cut("second part"))
            .reply(Reply::text("third part")),
    );
    run.go(&[]);
    run.server.finish();
    let requests = run.requests();
    assert_eq!(requests.len(), 4);
    let last = conversation(&requests[3]);
    assert!(
        last.contains("first part") && last.contains("second part"),
        "{last}"
    );
    assert!(
        !last.contains("small\""),
        "the small one was withdrawn: {last}"
    );
}

#[test]
fn a_model_that_never_comes_to_an_end_is_stopped_after_three_continuations() {
    let run = Run::new(
        Scenario::new().reply(
            Reply::text("more and more")
                .stop_reason("max_tokens")
                .forever(),
        ),
    );
    let output = run.go(&[]);
    // The small limit, the large limit, three continuations.
    assert_eq!(run.requests().len(), 5);
    let result = output.result();
    // What there is of the answer is given, and that it was cut is said.
    assert_eq!(result["stop_reason"], "max_tokens", "{output:#?}");
    assert_eq!(
        output.code() == Some(1),
        result["is_error"] == true,
        "{output:#?}"
    );
    run.server.finish();
}

// ---------------------------------------------------------------------------------------------
// Too much input.

/// A scenario where the first answer reads a file and the second request is refused.
fn refused_after_read(path: &str, refusal: Reply) -> Scenario {
    Scenario::new()
        .reply(Reply::tool_use("Read", json!({"file_path": path})))
        .reply(refusal)
        .reply(Reply::text("all right now").forever())
}

#[test]
fn a_prompt_that_is_too_long_is_compacted_and_sent_again() {
    for refusal in [
        Reply::error_with(
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
        ),
        Reply::error(413),
    ] {
        let run = Run::new(Scenario::new());
        let path = run.home.write("notes.txt", "some notes\n".repeat(100));
        let server =
            BlockingServer::start(refused_after_read(path.to_str().unwrap(), refusal)).unwrap();
        let run = Run {
            home: run.home.server(&server),
            server,
        };
        let output = run.succeeds(&[], "all right now");
        let frames = output.frames();
        assert_eq!(
            frames_of(&frames, "compact_boundary").len(),
            1,
            "{output:#?}"
        );
        let requests = run.requests();
        let last = requests.last().unwrap();
        assert!(
            !conversation(last).contains("tool_use"),
            "{}",
            conversation(last)
        );
    }
}

#[test]
fn a_prompt_that_stays_too_long_ends_in_a_clear_error() {
    let refusal = Reply::error_with(
        400,
        "invalid_request_error",
        "prompt is too long: 210000 tokens > 200000 maximum",
    );
    let run = Run::new(Scenario::new().reply(refusal.forever()));
    let output = run.fails(&[], &["too long"]);
    assert_eq!(
        output.result()["terminal_reason"],
        "prompt_too_long",
        "{output:#?}"
    );
    assert!(run.requests().len() < 12, "not tried for ever");
}

#[test]
fn an_image_that_is_refused_is_dropped_and_noted() {
    let run = Run::new(Scenario::new());
    let picture = run.home.write("picture.png", PIXEL);
    let refusal = Reply::error_with(
        400,
        "invalid_request_error",
        "messages.2.content.0.content.0.image.source.base64: image exceeds 5 MB maximum: 5600000 bytes > 5242880 bytes",
    );
    let server =
        BlockingServer::start(refused_after_read(picture.to_str().unwrap(), refusal)).unwrap();
    let run = Run {
        home: run.home.server(&server),
        server,
    };
    run.succeeds(&[], "all right now");
    let requests = run.requests();
    assert_eq!(requests.len(), 3);
    assert!(conversation(&requests[1]).contains("\"image\""));
    let last = conversation(&requests[2]);
    assert!(
        !last.contains("\"type\":\"image\""),
        "the image is gone: {last}"
    );
    assert!(last.contains("tool_result"), "its result is not: {last}");
}

/// A picture of one white pixel.
const PIXEL: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53,
    0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0xf8, 0xff, 0xff, 0x3f,
    0x00, 0x05, 0xfe, 0x02, 0xfe, 0x0d, 0xef, 0x46, 0xb8, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
    0x44, 0xae, 0x42, 0x60, 0x82,
];

// ---------------------------------------------------------------------------------------------
// Refused for now.

#[test]
fn every_passing_refusal_is_tried_again() {
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        let run = Run::new(
            Scenario::new()
                .reply(Reply::error(status).times(2))
                .reply(Reply::text("at last")),
        );
        let output = run.succeeds(&[], "at last");
        let frames = output.frames();
        let retries = frames_of(&frames, "api_retry");
        assert_eq!(retries.len(), 2, "{status}: {output:#?}");
        assert_eq!(retries[0]["error_status"], status);
        assert_eq!(
            (&retries[0]["attempt"], &retries[1]["attempt"]),
            (&json!(1), &json!(2))
        );
        let requests = run.requests();
        assert_eq!(requests[0].body, requests[2].body, "the same request again");
    }
}

#[test]
fn a_lost_connection_is_tried_again() {
    let run = Run::new(
        Scenario::new()
            .reply(Reply::hang_up().times(2))
            .reply(Reply::text("connected")),
    );
    run.succeeds(&[], "connected");
    assert_eq!(run.requests().len(), 3);
}

#[test]
fn the_servers_own_wish_for_a_pause_is_honoured() {
    let run = Run::new(
        Scenario::new()
            .reply(Reply::error(429).header("retry-after", "1"))
            .reply(Reply::error(529).header("retry-after-ms", "30"))
            .reply(Reply::text("rested")),
    );
    let frames = run.succeeds(&[], "rested").frames();
    let retries = frames_of(&frames, "api_retry");
    let delay = retries[0]["retry_delay_ms"].as_u64().unwrap();
    assert!((1000..2000).contains(&delay), "{delay}");
}

#[test]
fn retries_end_at_their_limit_with_the_status_and_the_apis_words() {
    let run = Run::new(Scenario::new().reply(Reply::error(529).forever()))
        .variable("LATHE_MAX_RETRIES", "3");
    let output = run.fails(&[], &["API Error", "529", "overloaded"]);
    assert_eq!(run.requests().len(), 4);
    let result = output.result();
    assert_eq!(result["subtype"], "success", "{result}");
    assert_eq!(result["api_error_status"], 529, "{result}");
    assert_eq!(result["terminal_reason"], "api_error", "{result}");
}

#[test]
fn the_other_name_of_the_retry_limit_works_too() {
    let run = Run::new(Scenario::new().reply(Reply::error(500).forever()))
        .variable("CLAUDE_CODE_MAX_RETRIES", "0");
    run.fails(&[], &["500"]);
    assert_eq!(run.requests().len(), 1);
}

#[test]
fn a_refusal_that_will_not_pass_is_final_at_once() {
    for (status, kind, message) in [
        (400, "invalid_request_error", "max_tokens: something is off"),
        (402, "billing_error", "Your credit balance is too low"),
        (403, "permission_error", "this key may not do that"),
        (404, "not_found_error", "model: no-such-model"),
    ] {
        let run = Run::new(Scenario::new().reply(Reply::error_with(status, kind, message)));
        let output = run.fails(&[], &[&status.to_string(), message]);
        assert_eq!(run.requests().len(), 1, "{status}");
        assert_eq!(output.result()["api_error_status"], status);
    }
}

#[test]
fn a_page_that_is_no_api_is_told_as_such() {
    let page = Reply::raw(
        200,
        "text/html",
        "<html><body>Sign in to the network</body></html>",
    );
    let run = Run::new(Scenario::new().reply(page.forever())).variable("LATHE_MAX_RETRIES", "1");
    let output = run.go(&[]);
    assert_eq!(output.code(), Some(1), "{output:#?}");
    assert_eq!(output.result()["is_error"], true);
    assert!(run.requests().len() <= 4, "not tried for ever");
}

#[test]
fn a_refusal_without_json_still_shows_its_status() {
    let page = Reply::raw(502, "text/html", "<html>Bad gateway</html>");
    let run = Run::new(Scenario::new().reply(page.forever())).variable("LATHE_MAX_RETRIES", "1");
    run.fails(&[], &["502"]);
    assert_eq!(run.requests().len(), 2);
}

#[test]
fn no_answer_at_all_ends_at_the_time_limit() {
    let run = Run::new(Scenario::new().reply(Reply::never_answer().forever()))
        .variable("API_TIMEOUT_MS", "200")
        .variable("LATHE_MAX_RETRIES", "1");
    run.fails(&[], &["time"]);
    assert_eq!(run.requests().len(), 2);
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let run = Run::new(Scenario::new())
        .variable("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
        .variable("LATHE_MAX_RETRIES", "1");
    run.fails(&[], &["127.0.0.1:9"]);
}

// ---------------------------------------------------------------------------------------------
// The fallback model.

#[test]
fn an_overloaded_model_is_replaced_and_its_reasoning_left_behind() {
    let overloaded = Reply::error(529).when(When {
        tool_result_for: Some("Bash".into()),
        ..When::model(MODEL)
    });
    let run = Run::new(
        Scenario::new()
            .reply(Reply::thinking("hm").with_tool_use("Bash", json!({"command": "echo one"})))
            .reply(overloaded.times(3))
            .reply(Reply::text("from the other").when(When::model(OTHER_MODEL))),
    );
    run.succeeds(&["--fallback-model", OTHER_MODEL], "from the other");
    let requests = run.requests();
    assert_eq!(requests.len(), 5);
    assert_eq!(requests[3].model(), MODEL);
    assert_eq!(requests[4].model(), OTHER_MODEL);
    assert!(conversation(&requests[3]).contains("signature"));
    assert!(!conversation(&requests[4]).contains("signature"));
    assert!(
        conversation(&requests[4]).contains("echo one"),
        "the call itself stays"
    );
}

#[test]
fn without_a_fallback_model_the_overload_is_just_retried() {
    let run = Run::new(
        Scenario::new()
            .reply(Reply::error(529).times(4))
            .reply(Reply::text("patience")),
    );
    run.succeeds(&[], "patience");
    assert!(
        run.requests()
            .iter()
            .all(|request| request.model() == MODEL)
    );
}

// ---------------------------------------------------------------------------------------------
// Streams that stall, break or end half-way.

fn stalls() -> Vec<(&'static str, Ending)> {
    vec![
        ("silence", Ending::Silence),
        ("comments only", Ending::KeepAliveComments { every_ms: 20 }),
        ("ping events only", Ending::KeepAliveEvents { every_ms: 20 }),
    ]
}

#[test]
fn a_stalled_stream_is_cut_in_the_configured_time_even_with_keep_alives() {
    for (name, ending) in stalls() {
        for place in [
            Position::Start,
            Position::MidBlock(0),
            Position::AfterBlock(0),
        ] {
            let stalled = Reply::text("never finished").cut(place.clone(), ending.clone());
            let run = Run::new(
                Scenario::new()
                    .reply(stalled)
                    .reply(Reply::text("fresh start")),
            )
            .variable("LATHE_STREAM_IDLE_TIMEOUT_MS", "150");
            let output = run.succeeds(&[], "fresh start");
            let requests = run.requests();
            assert_eq!(requests.len(), 2, "{name} at {place:?}: {output:#?}");
            assert!(!conversation(&requests[1]).contains("never finished"));
        }
    }
}

#[test]
fn a_stream_that_keeps_coming_is_never_cut_however_slow() {
    // Twenty chunks of 50 ms are far longer than the limit, but each is progress.
    let slow = Reply::text("slow but steady wins")
        .delta_characters(1)
        .chunk_delay_ms(50);
    let run = Run::new(Scenario::new().reply(slow)).variable("LATHE_STREAM_IDLE_TIMEOUT_MS", "700");
    run.succeeds(&[], "slow but steady wins");
}

fn breaks() -> Vec<(&'static str, Reply)> {
    let text = || Reply::text("broken off in the middle").delta_characters(4);
    let overloaded = Ending::ErrorEvent {
        kind: "overloaded_error".into(),
        message: "Overloaded".into(),
    };
    vec![
        ("dropped early", text().drop_after(40)),
        (
            "dropped in a block",
            text().cut(Position::MidBlock(0), Ending::Drop),
        ),
        (
            "dropped at the end",
            text().cut(Position::BeforeEvent("message_stop".into()), Ending::Drop),
        ),
        (
            "ended half-way",
            text().cut(Position::MidBlock(0), Ending::EndOfBody),
        ),
        (
            "no stop reason",
            text().cut(
                Position::BeforeEvent("message_delta".into()),
                Ending::EndOfBody,
            ),
        ),
        ("error event", text().cut(Position::MidBlock(0), overloaded)),
        (
            "not JSON",
            text().insert(Position::MidBlock(0), "event: x\ndata: {\"type\":\n\n"),
        ),
        ("empty body", Reply::empty_body()),
    ]
}

#[test]
fn a_broken_stream_is_withdrawn_and_asked_for_again() {
    for (name, broken) in breaks() {
        let run = Run::new(Scenario::new().reply(broken).reply(Reply::text("unbroken")));
        let output = run.succeeds(&[], "unbroken");
        let requests = run.requests();
        assert_eq!(requests.len(), 2, "{name}: {output:#?}");
        assert_eq!(requests[0].messages(), requests[1].messages(), "{name}");
    }
}

#[test]
fn after_two_broken_streams_the_answer_is_asked_for_whole() {
    let broken = || Reply::text("broken").cut(Position::MidBlock(0), Ending::Drop);
    let run = Run::new(
        Scenario::new()
            .reply(broken().times(2))
            .reply(Reply::text("in one piece")),
    );
    run.succeeds(&[], "in one piece");
    let requests = run.requests();
    let streamed: Vec<bool> = requests.iter().map(RecordedRequest::wants_stream).collect();
    assert_eq!(streamed, [true, true, false]);
}

#[test]
fn streams_that_always_break_end_in_an_error() {
    let broken = Reply::text("broken").cut(Position::Byte(30), Ending::Drop);
    let run = Run::new(Scenario::new().reply(broken.forever()));
    let output = run.fails(&[], &["API Error"]);
    assert_eq!(run.requests().len(), 4, "{output:#?}");
}

#[test]
fn a_call_from_a_withdrawn_stream_is_never_silently_repeated() {
    let call = || Reply::tool_use("Bash", json!({"command": "echo ran >> ran.txt"}));
    let run = Run::new(
        Scenario::new()
            .reply(call().cut(Position::AfterBlock(0), Ending::Silence))
            .reply(Reply::text("seen")),
    )
    .variable("LATHE_STREAM_IDLE_TIMEOUT_MS", "1000");
    run.succeeds(&[], "seen");
    let requests = run.requests();
    assert_eq!(requests.len(), 2);
    if run.home.project().join("ran.txt").exists() {
        assert_eq!(run.home.read("ran.txt"), "ran\n");
        assert!(
            conversation(&requests[1]).contains("ran.txt"),
            "the model must learn what has happened: {}",
            conversation(&requests[1])
        );
    }
    processes::assert_none_left(&run.home);
}

#[test]
fn every_legal_spelling_of_a_stream_is_understood() {
    let plain = Framing::default();
    let framings = [
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
    let mut scenario = Scenario::new();
    let count = framings.len();
    for framing in framings {
        let call = Reply::tool_use("Bash", json!({"command": "printf 'naïve 🦀'"}));
        scenario = scenario.reply(
            call.framing(framing)
                .chunks(Chunks::Bytes(1))
                .delta_characters(3),
        );
    }
    scenario = scenario.reply(Reply::text("{{last_tool_result}}").chunks(Chunks::Bytes(7)));
    let run = Run::new(scenario);
    run.succeeds(&[], "naïve 🦀");
    assert_eq!(run.requests().len(), count + 1);
}

// ---------------------------------------------------------------------------------------------
// Keys.

#[test]
fn a_stale_key_is_fetched_again_from_its_helper_once() {
    let run = Run::new(
        Scenario::new()
            .accept_key("second")
            .reply(Reply::text("let in")),
    );
    // Each run of the helper gives the next key.
    let helper = run.home.write(
        "helper.sh",
        "#!/bin/sh\nif [ -e \"$HOME/used\" ]; then echo second; else touch \"$HOME/used\"; echo first; fi\n",
    );
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = json!({"apiKeyHelper": helper}).to_string();
    let run = run.variable("ANTHROPIC_API_KEY", "");
    run.succeeds(&["--settings", &settings], "let in");
    let keys: Vec<String> = run
        .requests()
        .iter()
        .map(|request| request.key().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(keys, ["first", "second"]);
}

#[test]
fn a_wrong_key_without_a_helper_is_final_and_named() {
    let run = Run::new(Scenario::new().accept_key("another"));
    let output = run.fails(&[], &["401"]);
    assert_eq!(run.requests().len(), 1);
    let result = output.result();
    assert_eq!(result["api_error_status"], 401);
    let told = result["result"].as_str().unwrap_or_default();
    assert!(
        told.contains("ANTHROPIC_API_KEY") || told.contains("x-api-key"),
        "{told}"
    );
}

// ---------------------------------------------------------------------------------------------
// Signals.

#[test]
fn a_signal_while_streaming_ends_the_run_with_its_transcript_flushed() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let reply = Reply::text("a long story").gate(Position::MidBlock(0), "middle");
        let run = Run::new(Scenario::new().reply(reply));
        let running = run.home.spawn(["-p", "tell me a story"]);
        assert!(
            run.server
                .wait_for_gate("middle", 1, Duration::from_secs(60))
        );
        running.signal(signal);
        let output = running.finish();
        assert_eq!(output.code(), Some(code), "{signal}: {output:#?}");
        let path = transcript::of_home(&run.home).remove(0);
        let transcript = Transcript::read(&path);
        assert_eq!(
            transcript.prompts().first().map(String::as_str),
            Some("tell me a story")
        );
        assert!(!transcript.torn && transcript.damaged.is_empty());
        processes::assert_none_left(&run.home);
    }
}

#[test]
fn a_signal_while_a_command_runs_leaves_no_process_behind() {
    let command = "touch started; sleep 1000 & setsid sleep 1001 & sleep 1002";
    let run = Run::new(Scenario::new().reply(Reply::tool_use("Bash", json!({"command": command}))));
    let running = run
        .home
        .spawn(["-p", "wait", "--permission-mode", "bypassPermissions"]);
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !run.home.project().join("started").exists() {
        assert!(
            std::time::Instant::now() < until,
            "{}",
            running.stderr_so_far()
        );
        std::thread::yield_now();
    }
    running.signal(Signal::SIGTERM);
    let output = running.finish();
    assert_eq!(output.code(), Some(143), "{output:#?}");
    processes::assert_none_left(&run.home);
}

// ---------------------------------------------------------------------------------------------
// Answers that are odd, not broken.

#[test]
fn a_call_whose_arguments_are_not_json_is_answered_and_not_run() {
    // A string as input is sent as raw text.
    let broken = Reply::tool_use("Bash", json!("{\"command\": \"touch ran.txt"));
    let run = Run::new(Scenario::new().reply(broken).reply(Reply::text("I see")));
    run.succeeds(&[], "I see");
    let request = &run.requests()[1];
    let result = request.last_results()[0].clone();
    assert_eq!(result["is_error"], true, "{result}");
    assert!(!run.home.project().join("ran.txt").exists());
}

#[test]
fn a_call_of_a_tool_that_is_not_there_is_answered() {
    let run = Run::new(
        Scenario::new()
            .reply(Reply::tool_use("Teleport", json!({"to": "the moon"})))
            .reply(Reply::text("{{last_tool_result}}")),
    );
    let output = run.go(&[]);
    let told = output.result()["result"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(
        told.contains("Teleport") && told.contains("Bash"),
        "names what there is: {told}"
    );
    run.server.finish();
}

#[test]
fn what_the_providers_own_tools_say_goes_back_verbatim() {
    let blocks = vec![
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "lathe"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
            {"type": "web_search_result", "url": "https://example.invalid", "title": "t", "encrypted_content": "abc"}
        ]}),
        json!({"type": "text", "text": "found it", "citations": [{"type": "x", "cited_text": "y"}]}),
        json!({"type": "tool_use", "name": "Bash", "input": {"command": "echo on"}}),
    ];
    let run = Run::new(
        Scenario::new()
            .reply(Reply::blocks(blocks.clone()))
            .reply(Reply::text("end")),
    );
    run.succeeds(&[], "end");
    let requests = run.requests();
    let sent_back = requests[1].messages()[1]["content"].as_array().unwrap();
    assert_eq!(sent_back[..3], blocks[..3]);
}

#[test]
fn a_paused_answer_is_continued() {
    let paused = Reply::blocks(vec![
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}),
    ])
    .stop_reason("pause_turn");
    let run = Run::new(Scenario::new().reply(paused).reply(Reply::text("and done")));
    run.succeeds(&[], "and done");
    let requests = run.requests();
    let last = requests[1].messages().last().unwrap();
    assert_eq!(last["role"], "assistant", "sent back as it is: {last}");
}

#[test]
fn an_answer_with_nothing_in_it_ends_the_turn() {
    let run = Run::new(Scenario::new().reply(Reply::blocks(Vec::new())));
    let output = run.go(&[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    run.server.finish();
}

#[test]
fn a_declined_answer_and_an_unknown_stop_reason_end_the_turn() {
    for reason in ["refusal", "a_reason_to_come"] {
        let run = Run::new(Scenario::new().reply(Reply::text("no").stop_reason(reason)));
        let output = run.go(&[]);
        assert_eq!(output.result()["stop_reason"], reason, "{output:#?}");
        run.server.finish();
    }
}
