//! The scenarios. Each makes its own server, runs the binary, and asserts on what came out and what was sent.

use crate::house::{House, KEY};
use lathe_scripted::reply::Chunks;
use lathe_scripted::{Ending, Framing, LineEnd, Position, Reply, Scenario, When};
use lathe_testkit::{HANG_LIMIT, StreamJson};
use serde_json::{Value, json};

type Case = (&'static str, fn(&House));

macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(crate) const ALL: &[Case] = &[$((stringify!($name), $name)),*];
    };
}

cases! {
    a_plain_answer,
    the_system_prompt_and_the_tools_reach_the_model,
    a_tool_loop,
    two_calls_in_one_answer,
    three_steps_in_a_row,
    a_call_without_arguments,
    words_before_a_call,
    reasoning_goes_back_with_its_call,
    reasoning_before_an_answer,
    an_image_of_a_result_reaches_the_model,
    an_image_of_the_prompt_reaches_the_model,
    unknown_tools_are_an_error_for_the_model,
    broken_arguments_are_an_error_for_the_model,
    a_denied_call_is_an_error_for_the_model,
    unicode_survives,
    tiny_deltas_are_joined,
    bytes_cut_anywhere_are_read,
    odd_framing_is_read,
    json_instead_of_a_stream_is_taken,
    a_server_error_is_retried,
    an_overload_is_retried,
    a_rate_limit_waits_and_is_retried,
    an_error_inside_of_a_stream_is_retried,
    a_stream_that_is_cut_is_asked_for_again,
    a_connection_that_is_dropped_is_asked_for_again,
    streams_that_keep_breaking_are_asked_for_whole,
    an_invalid_request_is_final,
    a_model_that_does_not_exist_is_named,
    a_server_that_is_not_there_is_named,
    an_error_page_names_the_address,
    a_key_is_never_shown_even_if_the_server_repeats_it,
    a_missing_key_is_named_and_ends_with_3,
    a_helper_gives_the_key_and_is_asked_again_after_a_refusal,
    the_output_limit_is_told,
    a_refusal_is_told,
    usage_and_cost_are_counted,
    an_unknown_price_is_an_unknown_cost,
    the_prefix_is_read_from_the_cache,
    a_prompt_that_is_too_long_is_compacted,
    structured_output_stays_a_tool,
    a_turn_limit_ends_the_loop,
    a_cancelled_answer_ends_the_turn_and_the_session_goes_on,
    a_cancelled_call_has_a_result_when_the_session_goes_on,
    a_session_resumes,
    a_session_resumes_on_another_provider_and_comes_back,
    the_fallback_model_may_be_elsewhere,
    an_agent_may_run_elsewhere,
    the_small_model_is_the_main_one,
    effort_is_accepted,
    init_names_the_provider,
    fields_headers_and_parameters_of_the_user_are_sent,
}

fn text(result: &Value) -> &str {
    result["result"].as_str().unwrap_or_default()
}

fn a_plain_answer(house: &House) {
    let server = house.serve([Reply::text("hello there")]);
    let result = house.result(&[]);
    assert_eq!(text(&result), "hello there");
    assert_eq!(result["is_error"], false);
    assert!(server.requests()[0].last_user_text().contains("the prompt"));
    server.finish();
}

fn the_system_prompt_and_the_tools_reach_the_model(house: &House) {
    let server = house.serve([Reply::text("ok")]);
    house.result(&["--append-system-prompt", "remember the word kumquat"]);
    let request = server.requests().remove(0);
    assert!(request.system_text().contains("kumquat"));
    for tool in ["Read", "Bash", "Edit"] {
        assert!(request.tool_names().contains(&tool), "{tool}");
    }
    server.finish();
}

fn a_tool_loop(house: &House) {
    house.home.write("notes.txt", "the secret is 42");
    let server = house.serve([
        Reply::tool_use(
            "Read",
            json!({"file_path": house.home.project().join("notes.txt")}),
        ),
        Reply::text("done").when(When::tool_result_for("Read")),
    ]);
    let result = house.result(&[]);
    assert_eq!(text(&result), "done");
    assert!(
        server.requests()[1]
            .last_tool_result()
            .contains("the secret is 42")
    );
    server.finish();
}

fn two_calls_in_one_answer(house: &House) {
    house.home.write("a.txt", "first file");
    house.home.write("b.txt", "second file");
    let read = |name: &str| json!({"file_path": house.home.project().join(name)});
    let server = house.serve([
        Reply::text("both")
            .with_tool_use("Read", read("a.txt"))
            .with_tool_use("Read", read("b.txt")),
        Reply::text("done"),
    ]);
    house.result(&[]);
    let requests = server.requests();
    let results = requests[1].last_results();
    assert_eq!(results.len(), 2);
    assert!(results[0].to_string().contains("first file"));
    assert!(results[1].to_string().contains("second file"));
    server.finish();
}

fn three_steps_in_a_row(house: &House) {
    let echo = |word: &str| {
        Reply::tool_use(
            "Bash",
            json!({"command": format!("echo {word}"), "description": "says"}),
        )
    };
    let server = house.serve([
        echo("one"),
        echo("two"),
        echo("three"),
        Reply::text("{{last_tool_result}}"),
    ]);
    let result = house.result(&["--allowedTools", "Bash(echo:*)"]);
    assert!(text(&result).contains("three"));
    assert_eq!(server.requests().len(), 4);
    server.finish();
}

fn a_call_without_arguments(house: &House) {
    let server = house.serve([Reply::tool_use("Glob", json!({})), Reply::text("done")]);
    house.result(&[]);
    assert_eq!(server.requests()[1].last_results().len(), 1);
    server.finish();
}

fn words_before_a_call(house: &House) {
    let server = house.serve([
        Reply::text("Let me look.")
            .with_tool_use("Bash", json!({"command": "echo hi", "description": "says"})),
        Reply::text("done"),
    ]);
    house.result(&["--allowedTools", "Bash(echo:*)"]);
    let told = server.requests()[1].body["messages"].to_string();
    assert!(told.contains("Let me look."), "{told}");
    server.finish();
}

fn reasoning_goes_back_with_its_call(house: &House) {
    let server = house.serve([
        Reply::thinking("I should look")
            .with_tool_use("Bash", json!({"command": "echo hi", "description": "says"})),
        Reply::thinking("I know now").with_text("done"),
    ]);
    let result = house.result(&["--allowedTools", "Bash(echo:*)"]);
    assert_eq!(text(&result), "done");
    server.finish();
}

fn reasoning_before_an_answer(house: &House) {
    let server = house.serve([Reply::thinking("hm, hm").with_text("the answer")]);
    let output = house.home.run(
        [
            "-p",
            "x",
            "--output-format",
            "stream-json",
            "--verbose",
            "--model",
            "house/m-1",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let frames = output.frames();
    let said = frames.iter().filter(|frame| frame["type"] == "assistant");
    let told: String = said.map(Value::to_string).collect();
    assert!(
        told.contains("hm, hm") && told.contains("the answer"),
        "{told}"
    );
    server.finish();
}

/// A PNG of one pixel.
pub(crate) const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

fn an_image_of_a_result_reaches_the_model(house: &House) {
    house.home.write("pixel.png", PIXEL);
    let server = house.serve([
        Reply::tool_use(
            "Read",
            json!({"file_path": house.home.project().join("pixel.png")}),
        ),
        Reply::text("seen"),
    ]);
    house.result(&[]);
    let told = server.requests()[1].body["messages"].to_string();
    assert!(told.contains("\"type\":\"image\""), "{told}");
    server.finish();
}

fn an_image_of_the_prompt_reaches_the_model(house: &House) {
    house.home.write("pixel.png", PIXEL);
    let server = house.serve([Reply::text("seen")]);
    let output = house
        .home
        .run(["-p", "look at @pixel.png", "--model", "house/m-1"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let told = server.requests()[0].body["messages"].to_string();
    assert!(told.contains("\"type\":\"image\""), "{told}");
    server.finish();
}

fn unknown_tools_are_an_error_for_the_model(house: &House) {
    let server = house.serve([
        Reply::tool_use("Teleport", json!({"to": "x"})),
        Reply::text("sorry"),
    ]);
    house.result(&[]);
    assert!(server.requests()[1].last_tool_result().contains("Teleport"));
    server.finish();
}

fn broken_arguments_are_an_error_for_the_model(house: &House) {
    let server = house.serve([
        Reply::tool_use("Read", json!("{\"file_path\": ")),
        Reply::text("sorry"),
    ]);
    house.result(&[]);
    assert_eq!(server.requests()[1].last_results().len(), 1);
    server.finish();
}

fn a_denied_call_is_an_error_for_the_model(house: &House) {
    let server = house.serve([
        Reply::tool_use(
            "Bash",
            json!({"command": "touch made.txt", "description": "makes"}),
        ),
        Reply::text("understood"),
    ]);
    house.result(&["--disallowedTools", "Bash(touch:*)"]);
    assert!(!house.home.project().join("made.txt").exists());
    server.finish();
}

fn unicode_survives(house: &House) {
    let words = "h\u{e9}llo \u{6f22}\u{5b57} \u{1f600} \"quoted\" \\ back\n\nlines";
    let server = house.serve([Reply::text(words).delta_characters(1)]);
    assert_eq!(text(&house.result(&[])), words);
    server.finish();
}

fn tiny_deltas_are_joined(house: &House) {
    let server = house.serve([
        Reply::tool_use(
            "Bash",
            json!({"command": "echo tiny", "description": "says"}),
        )
        .delta_characters(1),
        Reply::text("{{last_tool_result}}").delta_characters(1),
    ]);
    assert!(text(&house.result(&["--allowedTools", "Bash(echo:*)"])).contains("tiny"));
    server.finish();
}

fn bytes_cut_anywhere_are_read(house: &House) {
    let server = house.serve([Reply::text("cut \u{1f600} anywhere").chunks(Chunks::Bytes(3))]);
    assert_eq!(text(&house.result(&[])), "cut \u{1f600} anywhere");
    server.finish();
}

fn odd_framing_is_read(house: &House) {
    let framing = Framing {
        line_end: LineEnd::CrLf,
        byte_order_mark: true,
        comments: true,
        space_after_colon: false,
        ..Framing::default()
    };
    let server = house.serve([Reply::text("odd").framing(framing)]);
    assert_eq!(text(&house.result(&[])), "odd");
    server.finish();
}

fn json_instead_of_a_stream_is_taken(house: &House) {
    let body = match house.kind.name {
        "openai-chat" => {
            json!({"id": "c", "choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}]})
        }
        "openai" => {
            json!({"id": "r", "status": "completed", "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "whole"}]}]})
        }
        "gemini" => {
            json!({"candidates": [{"content": {"parts": [{"text": "whole"}]}, "finishReason": "STOP"}]})
        }
        _ => {
            json!({"id": "m", "type": "message", "role": "assistant", "model": "m-1", "content": [{"type": "text", "text": "whole"}], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}})
        }
    };
    let server = house.serve([Reply::raw(200, "application/json", body.to_string())]);
    assert_eq!(text(&house.result(&[])), "whole");
    server.finish();
}

fn a_server_error_is_retried(house: &House) {
    let server = house.serve([Reply::error(500), Reply::error(503), Reply::text("at last")]);
    assert_eq!(text(&house.result(&[])), "at last");
    server.finish();
}

fn an_overload_is_retried(house: &House) {
    let server = house.serve([Reply::error(529), Reply::text("at last")]);
    assert_eq!(text(&house.result(&[])), "at last");
    server.finish();
}

fn a_rate_limit_waits_and_is_retried(house: &House) {
    let server = house.serve([
        Reply::error(429).header("retry-after", "0"),
        Reply::text("at last"),
    ]);
    assert_eq!(text(&house.result(&[])), "at last");
    server.finish();
}

fn an_error_inside_of_a_stream_is_retried(house: &House) {
    let how = Ending::ErrorEvent {
        kind: "overloaded_error".into(),
        message: "Overloaded".into(),
    };
    let server = house.serve([
        Reply::text("half an answer").cut(Position::MidBlock(0), how),
        Reply::text("whole"),
    ]);
    assert_eq!(text(&house.result(&[])), "whole");
    server.finish();
}

fn a_stream_that_is_cut_is_asked_for_again(house: &House) {
    let cut = Reply::tool_use("Bash", json!({"command": "echo no", "description": "says"}));
    let server = house.serve([
        cut.cut(Position::Start, Ending::EndOfBody),
        Reply::text("whole"),
    ]);
    assert_eq!(text(&house.result(&[])), "whole");
    server.finish();
}

fn a_connection_that_is_dropped_is_asked_for_again(house: &House) {
    let server = house.serve([
        Reply::text("half an answer").cut(Position::MidBlock(0), Ending::Drop),
        Reply::text("whole"),
    ]);
    assert_eq!(text(&house.result(&[])), "whole");
    server.finish();
}

fn streams_that_keep_breaking_are_asked_for_whole(house: &House) {
    let broken = || Reply::text("half an answer").cut(Position::MidBlock(0), Ending::Drop);
    let server = house.serve([broken(), broken(), Reply::text("whole")]);
    assert_eq!(text(&house.result(&[])), "whole");
    assert!(!server.requests()[2].wants_stream());
    server.finish();
}

fn an_invalid_request_is_final(house: &House) {
    let server = house.serve([Reply::error_with(
        400,
        "invalid_request_error",
        "this will never work",
    )]);
    let output = house.ask(&[]);
    assert_ne!(output.code(), Some(0));
    assert!(
        format!("{output:?}").contains("this will never work"),
        "{output:#?}"
    );
    assert_eq!(server.requests().len(), 1);
    server.finish();
}

fn a_model_that_does_not_exist_is_named(house: &House) {
    let server = house.serve([Reply::error_with(
        404,
        "not_found_error",
        "model: m-1 does not exist",
    )]);
    let output = house.ask(&[]);
    assert_ne!(output.code(), Some(0));
    assert!(format!("{output:?}").contains("m-1"), "{output:#?}");
    server.finish();
}

fn a_server_that_is_not_there_is_named(house: &House) {
    house.settings(&json!({"providers": {"house": house.entry("http://127.0.0.1:9")}}));
    let home = &house.home;
    let mut command = home.command(["-p", "x", "--output-format", "json", "--model", "house/m-1"]);
    command.env("LATHE_MAX_RETRIES", "0");
    let output = lathe_testkit::Running::start(command).finish();
    assert_ne!(output.code(), Some(0));
    assert!(format!("{output:?}").contains("127.0.0.1:9"), "{output:#?}");
}

fn an_error_page_names_the_address(house: &House) {
    let page = "<html><body>Welcome to nginx</body></html>";
    let server = house.serve([Reply::raw(200, "text/html", page).forever()]);
    let output = house.ask(&[]);
    assert_ne!(output.code(), Some(0));
    assert!(
        format!("{output:?}").contains(&server.base_url()),
        "{output:#?}"
    );
}

fn a_key_is_never_shown_even_if_the_server_repeats_it(house: &House) {
    let words = format!("Incorrect API key provided: {KEY}");
    let server = house.serve([Reply::error_with(401, "authentication_error", words).forever()]);
    // Bedrock takes a key as a bearer, too.
    let mut entry = house.entry(&server.base_url());
    entry["apiKeyEnv"] = json!("HOUSE_KEY");
    house.settings(&json!({"providers": {"house": entry}}));
    let output = house.ask(&[]);
    assert_ne!(output.code(), Some(0));
    assert!(format!("{output:?}").contains("[key]"), "{output:#?}");
    assert!(!format!("{output:?}").contains(KEY), "{output:#?}");
    let mut folders = vec![house.home.home()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(!text.contains(KEY), "{}", entry.path().display());
            }
        }
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|request| !request.path.contains(KEY))
    );
}

fn a_missing_key_is_named_and_ends_with_3(house: &House) {
    let server = house.serve([]);
    let mut entry = house.entry(&server.base_url());
    entry["apiKeyEnv"] = json!("NOBODY_SET_THIS");
    house.settings(&json!({"providers": {"house": entry}}));
    let output = house.ask(&[]);
    assert_eq!(output.code(), Some(3), "{output:#?}");
    assert!(
        format!("{output:?}").contains("NOBODY_SET_THIS"),
        "{output:#?}"
    );
}

fn a_helper_gives_the_key_and_is_asked_again_after_a_refusal(house: &House) {
    let server = house.serve_scenario(Scenario::new().reply(Reply::text("in")).accept_key("key-2"));
    let mut entry = house.entry(&server.base_url());
    entry.as_object_mut().unwrap().shift_remove("apiKeyEnv");
    let count = house.home.root().join("count");
    let command = format!(
        "echo x >> {0}; echo key-$(wc -l < {0} | tr -d ' ')",
        count.display()
    );
    entry["apiKeyHelper"] = json!(command);
    house.settings(&json!({"providers": {"house": entry}}));
    assert_eq!(text(&house.result(&[])), "in");
    server.finish();
}

fn the_output_limit_is_told(house: &House) {
    let server = house.serve_scenario(
        Scenario::new().responder(|_| Reply::text("cut off here").stop_reason("max_tokens")),
    );
    let output = house.ask(&["--max-turns", "3"]);
    assert!(
        format!("{output:?}").contains("cut off here") || output.code() != Some(0),
        "{output:#?}"
    );
    assert!(
        server.requests().len() > 1,
        "the limit is raised or the answer continued"
    );
}

fn a_refusal_is_told(house: &House) {
    let server = house.serve([Reply::text("I can't help with that.").stop_reason("refusal")]);
    let output = house.ask(&[]);
    let told = format!("{output:?}").to_lowercase();
    assert!(
        told.contains("refus") || told.contains("declin") || told.contains("can't help"),
        "{output:#?}"
    );
    server.finish();
}

fn usage_and_cost_are_counted(house: &House) {
    let server = house.serve([Reply::text("x")
        .usage("input_tokens", 1000)
        .usage("output_tokens", 500)
        .usage("cache_read_input_tokens", 0)
        .usage("cache_creation_input_tokens", 0)]);
    let result = house.result(&[]);
    assert_eq!(result["usage"]["output_tokens"], 500, "{result}");
    assert_eq!(result["usage"]["input_tokens"], 1000, "{result}");
    let cost = result["total_cost_usd"].as_f64().unwrap();
    assert!((cost - 0.002).abs() < 1e-9, "{cost}");
    assert!(result["modelUsage"].get("house/m-1").is_some(), "{result}");
    server.finish();
}

fn an_unknown_price_is_an_unknown_cost(house: &House) {
    let server = house.serve([Reply::text("x")]);
    let output = house.ask_model("house/nobody-knows", &[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let usage = &output.result()["modelUsage"]["house/nobody-knows"];
    assert_eq!(usage["priceUnknown"], true, "{usage}");
    server.finish();
}

/// A hundred steps, each with a call and its result; the server says what of them it had seen before.
fn the_prefix_is_read_from_the_cache(house: &House) {
    let echo = |number: usize| {
        Reply::tool_use(
            "Bash",
            json!({"command": format!("echo {number}"), "description": "says"}),
        )
    };
    let mut replies: Vec<Reply> = (0..99).map(echo).collect();
    replies.push(Reply::text("done"));
    let scenario = replies
        .into_iter()
        .fold(Scenario::new().cache_minimum_tokens(16), Scenario::reply);
    let server = house.serve_scenario(scenario);
    let result = house.result(&["--allowedTools", "Bash(echo:*)"]);
    assert_eq!(server.request_count(), 100);
    let usage = &result["usage"];
    let number = |name: &str| usage[name].as_f64().unwrap_or_default();
    let read = number("cache_read_input_tokens");
    let all = read + number("input_tokens") + number("cache_creation_input_tokens");
    assert!(read / all >= 0.97, "{} of {usage}", read / all);
    server.finish();
}

fn a_prompt_that_is_too_long_is_compacted(house: &House) {
    let big = "words and more words ".repeat(4000);
    house.home.write("big.txt", &big);
    let scenario = Scenario::new()
        .context_window(24_000)
        .reply(Reply::tool_use(
            "Bash",
            json!({"command": "cat big.txt", "description": "reads"}),
        ))
        .reply(
            Reply::text("summary of it all")
                .when(When::tools_empty())
                .optional()
                .forever(),
        )
        .responder(|request| {
            let text = request.body.to_string();
            if text.contains("summary") {
                Reply::text("went on")
            } else {
                Reply::text("too early")
            }
        });
    let server = house.serve_scenario(scenario);
    let output = house.home.run(
        [
            "-p",
            "read it",
            "--output-format",
            "json",
            "--model",
            "house/m-1",
            "--allowedTools",
            "Bash(cat:*)",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(server.requests().len() >= 2);
}

fn structured_output_stays_a_tool(house: &House) {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
            .to_string();
    let server = house.serve_scenario(Scenario::new().responder(|request| {
        let tool = request
            .tool_names()
            .into_iter()
            .find(|name| name.contains("Structured"))
            .map(str::to_owned);
        match tool {
            Some(tool) if request.last_results().is_empty() => {
                Reply::tool_use(tool, json!({"n": 7}))
            }
            _ => Reply::text("done"),
        }
    }));
    let result = house.result(&["--json-schema", &schema]);
    assert_eq!(result["structured_output"], json!({"n": 7}), "{result}");
    assert_eq!(server.problems(), Vec::<String>::new());
}

fn a_turn_limit_ends_the_loop(house: &House) {
    let server = house.serve_scenario(Scenario::new().responder(|_| {
        Reply::tool_use(
            "Bash",
            json!({"command": format!("echo {}", std::process::id()), "description": "says"}),
        )
    }));
    let output = house.ask(&["--max-turns", "2", "--allowedTools", "Bash(echo:*)"]);
    assert_ne!(output.code(), Some(0));
    assert!(format!("{output:?}").contains("max_turns"), "{output:#?}");
    assert_eq!(server.problems(), Vec::<String>::new());
}

/// A session over the SDK's protocol, which can be interrupted.
fn session(house: &House) -> StreamJson {
    let arguments = ["--model", "house/m-1", "--allowedTools", "Bash"];
    let mut session = StreamJson::start(&house.home, arguments);
    session.control(&json!({"subtype": "initialize", "hooks": null}));
    session
}

fn interrupt(session: &mut StreamJson) {
    let answer = session.control(&json!({"subtype": "interrupt"}));
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    let result = session.wait_for_result();
    assert_eq!(result["subtype"], "error_during_execution", "{result}");
}

fn a_cancelled_answer_ends_the_turn_and_the_session_goes_on(house: &House) {
    let server = house.serve([
        Reply::text("a very long story").gate(Position::MidBlock(0), "middle"),
        Reply::text("a short one"),
    ]);
    let mut session = session(house);
    session.prompt("tell me a story");
    assert!(server.wait_for_gate("middle", 1, HANG_LIMIT));
    interrupt(&mut session);
    session.prompt("a shorter one");
    assert_eq!(session.wait_for_result()["result"], "a short one");
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

fn a_cancelled_call_has_a_result_when_the_session_goes_on(house: &House) {
    let command = json!({"command": "sleep 1000", "description": "waits"});
    let server = house.serve([
        Reply::tool_use("Bash", command),
        Reply::text("gone on").when(When::tool_result_for("Bash")),
    ]);
    let mut session = session(house);
    session.prompt("wait");
    session.wait_for(|frame| frame.to_string().contains("tool_use"));
    interrupt(&mut session);
    session.prompt("never mind");
    assert_eq!(session.wait_for_result()["result"], "gone on");
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

fn a_session_resumes(house: &House) {
    let server = house.serve([
        Reply::thinking("hm").with_tool_use(
            "Bash",
            json!({"command": "echo kumquat", "description": "says"}),
        ),
        Reply::text("first answer"),
        Reply::text("second answer"),
    ]);
    house.result(&["--allowedTools", "Bash(echo:*)"]);
    let output = house.home.run(
        [
            "-p",
            "again",
            "--output-format",
            "json",
            "--model",
            "house/m-1",
            "-c",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let told = server.requests()[2].body["messages"].to_string();
    for said in ["the prompt", "kumquat", "first answer", "again"] {
        assert!(told.contains(said), "{said}");
    }
    server.finish();
}

/// Providers of all other kinds, on the same server.
fn elsewhere(house: &House, base: &str) -> Value {
    let mut providers = json!({"house": house.entry(base)});
    for (name, kind) in [
        ("messages", "anthropic"),
        ("chat", "openai-chat"),
        ("responses", "openai"),
        ("gem", "gemini"),
    ] {
        let path = match kind {
            "anthropic" => "",
            "gemini" => "/v1beta",
            _ => "/v1",
        };
        providers[name] =
            json!({"kind": kind, "baseUrl": format!("{base}{path}"), "apiKeyEnv": "HOUSE_KEY"});
    }
    json!({"providers": providers})
}

fn a_session_resumes_on_another_provider_and_comes_back(house: &House) {
    let mut replies = vec![
        Reply::thinking("hm").with_tool_use(
            "Bash",
            json!({"command": "echo kumquat", "description": "says"}),
        ),
        Reply::text("first answer"),
    ];
    let others = [
        "messages/m-2",
        "chat/m-2",
        "responses/m-2",
        "gem/m-2",
        "house/m-1",
    ];
    for number in 0..others.len() {
        replies.push(Reply::thinking("well").with_tool_use(
            "Bash",
            json!({"command": format!("echo {number}"), "description": "says"}),
        ));
        replies.push(Reply::text(format!("answer {number}")));
    }
    let server = house.serve(replies);
    house.settings(&elsewhere(house, &server.base_url()));
    house.result(&["--allowedTools", "Bash(echo:*)"]);
    for (number, model) in others.iter().enumerate() {
        let output = house.home.run(
            [
                "-p",
                "again",
                "--output-format",
                "json",
                "--model",
                model,
                "-c",
                "--allowedTools",
                "Bash(echo:*)",
            ],
            "",
        );
        assert_eq!(
            output.code(),
            Some(0),
            "{model}: {output:#?} {:?}",
            server.problems()
        );
        assert_eq!(text(&output.result()), format!("answer {number}"));
    }
    let told = server.requests().last().unwrap().body["messages"].to_string();
    assert!(
        told.contains("kumquat") && told.contains("answer 3"),
        "{told}"
    );
    server.finish();
}

fn the_fallback_model_may_be_elsewhere(house: &House) {
    let server = house.serve([
        Reply::error(529).when(When::model("m-1")).times(3),
        Reply::text("from the other").when(When::model("m-2")),
    ]);
    house.settings(&elsewhere(house, &server.base_url()));
    let other = if house.kind.name == "openai-chat" {
        "responses/m-2"
    } else {
        "chat/m-2"
    };
    let result = house.result(&["--fallback-model", other]);
    assert_eq!(text(&result), "from the other");
    server.finish();
}

fn an_agent_may_run_elsewhere(house: &House) {
    let order = json!({"description": "d", "prompt": "say so", "subagent_type": "helper"});
    let scenario = Scenario::new()
        .reply(Reply::text("the agent speaks").when(When::model("m-2")))
        .reply(Reply::tool_use("Agent", order))
        .responder(|_| Reply::text("heard"));
    let server = house.serve_scenario(scenario);
    let settings = elsewhere(house, &server.base_url());
    house.settings(&settings);
    let other = if house.kind.name == "gemini" {
        "chat/m-2"
    } else {
        "gem/m-2"
    };
    let agents = json!({"helper": {"description": "helps", "prompt": "you help", "model": other}})
        .to_string();
    house.result(&["--agents", &agents]);
    let requests = server.requests();
    let told = requests.last().unwrap().body["messages"].to_string();
    assert!(told.contains("the agent speaks"), "{told}");
    server.finish();
}

fn the_small_model_is_the_main_one(house: &House) {
    let server = house.serve_scenario(Scenario::new().responder(|_| Reply::text("a title")));
    let mut command =
        house
            .home
            .command(["-p", "x", "--output-format", "json", "--model", "house/m-1"]);
    command.env("LATHE_SESSION_TITLES", "1");
    let output = lathe_testkit::Running::start(command).finish();
    assert_eq!(output.code(), Some(0), "{output:#?}");
    for request in server.requests() {
        assert_eq!(request.model(), "m-1");
    }
    assert_eq!(server.problems(), Vec::<String>::new());
}

fn effort_is_accepted(house: &House) {
    let server = house.serve([Reply::text("ok")]);
    house.result(&["--effort", "high"]);
    let sent = String::from_utf8(server.requests()[0].raw_body.to_vec()).unwrap();
    assert!(
        sent.contains("high") || sent.contains("24576"),
        "{}",
        &sent[..400]
    );
    server.finish();
}

fn init_names_the_provider(house: &House) {
    let server = house.serve([Reply::text("ok")]);
    let output = house.home.run(
        [
            "-p",
            "x",
            "--output-format",
            "stream-json",
            "--verbose",
            "--model",
            "house/m-1",
        ],
        "",
    );
    let frames = output.frames();
    let init = frames
        .iter()
        .find(|frame| frame["subtype"] == "init")
        .unwrap();
    assert_eq!(init["model"], "house/m-1");
    let said = frames
        .iter()
        .find(|frame| frame["type"] == "assistant")
        .unwrap();
    assert_eq!(said["message"]["model"], "house/m-1");
    server.finish();
}

fn fields_headers_and_parameters_of_the_user_are_sent(house: &House) {
    let scenario = Scenario::new()
        .reply(Reply::text("ok"))
        .allow_field("top_k");
    let server = house.serve_scenario(scenario);
    let mut entry = house.entry(&server.base_url());
    entry["headers"] = json!({"x-team": "${TEAM:-blue}"});
    if house.kind.name != "gemini" && house.kind.name != "openai" {
        entry["body"] = json!({"top_k": 20});
    }
    house.settings(&json!({"providers": {"house": entry}}));
    house.result(&[]);
    let request = server.requests().remove(0);
    assert_eq!(request.header("x-team"), Some("blue"));
    if house.kind.name != "gemini" && house.kind.name != "openai" {
        let sent: Value = serde_json::from_slice(&request.raw_body).unwrap();
        assert_eq!(sent["top_k"], 20);
    }
    server.finish();
}
