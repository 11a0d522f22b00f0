//! Refused: for now (tried again), for good (said at once), by an overloaded model (replaced), for a
//! stale key (fetched again).

use crate::{MODEL, Run, conversation, frames_of};
use lathe_scripted::{Reply, Scenario, When};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

const OTHER_MODEL: &str = "claude-haiku-4-5";

/// Fault: The server is overloaded or answers with a passing error (408, 409, 429, 5xx)
/// Seen: A countdown, then the answer
/// Kept: Everything
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

/// Fault: The connection is lost
/// Seen: `Retrying`, then the answer
/// Kept: Everything
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
fn retries_end_at_their_limit_with_the_status_and_the_message_of_the_api() {
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

/// Fault: Something else than the API answers (a page of a login portal)
/// Seen: That it is no API, and its address
/// Kept: The prompt
#[test]
fn a_page_that_is_no_api_is_reported_as_such() {
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

/// Fault: The server accepts the request and never answers
/// Seen: An error after the time limit
/// Kept: The prompt
#[test]
fn no_answer_at_all_ends_at_the_time_limit() {
    let run = Run::new(Scenario::new().reply(Reply::never_answer().forever()))
        // Long enough for a request to arrive on a machine that is busy with other tests.
        .variable("API_TIMEOUT_MS", "3000")
        .variable("LATHE_MAX_RETRIES", "1");
    run.fails(&[], &["time"]);
    assert_eq!(run.requests().len(), 2, "tried once more, and not for ever");
}

/// Fault: Nothing listens at the address
/// Seen: The address; exit code 1
/// Kept: The prompt
#[test]
fn a_host_that_is_not_there_is_named() {
    let run = Run::new(Scenario::new())
        .variable("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
        .variable("LATHE_MAX_RETRIES", "1");
    run.fails(&[], &["127.0.0.1:9"]);
}

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
