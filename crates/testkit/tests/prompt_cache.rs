//! Stable prefixes: what was sent once is sent again byte for byte, within a session and after a
//! resume, so that the provider's prompt cache hits. The scripted model keeps such a cache, so the
//! usage that it reports is the proof.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario};
use lathe_testkit::TestHome;
use serde_json::{Value, json};

fn scenario() -> Scenario {
    let call = |number: usize| {
        Reply::thinking(format!("thought {number}"))
            .with_text(format!("words {number}"))
            .with_tool_use(
                "Bash",
                json!({"command": format!("seq 1 {}", number * 100)}),
            )
            .with_tool_use("Read", json!({"file_path": "notes.txt"}))
    };
    Scenario::new()
        .cache_minimum_tokens(0)
        .reply(call(1))
        .reply(call(2))
        .reply(call(3))
        .reply(Reply::text("done"))
        .reply(call(4))
        .reply(Reply::text("done again"))
}

/// A request's part without cache markers, which are not part of the prefix.
fn bare(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(bare).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "cache_control")
            .map(|(name, value)| (name.clone(), bare(value)))
            .collect(),
        other => other.clone(),
    }
}

#[track_caller]
fn assert_continues(earlier: &RecordedRequest, later: &RecordedRequest) {
    for part in ["system", "tools", "model", "thinking"] {
        assert_eq!(
            bare(&earlier.body[part]),
            bare(&later.body[part]),
            "{part} changed"
        );
    }
    for (index, (before, after)) in earlier.messages().iter().zip(later.messages()).enumerate() {
        // As text: the order of the fields counts.
        let (before, after) = (bare(before).to_string(), bare(after).to_string());
        let last = index + 1 == earlier.messages().len();
        // The last message of a request may grow until the model has answered it.
        let same = if last {
            after.starts_with(before.trim_end_matches("]}"))
        } else {
            before == after
        };
        assert!(same, "message {index} changed\nfrom {before}\nto   {after}");
    }
}

#[test]
fn a_session_is_read_from_the_cache_step_by_step_and_after_a_resume() {
    let server = BlockingServer::start(scenario()).unwrap();
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    home.write("notes.txt", "a note\n".repeat(50));
    let usual = [
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "bypassPermissions",
    ];
    let mut usages: Vec<Value> = Vec::new();
    for arguments in [
        &["-p", "first prompt"][..],
        &["-p", "second prompt", "--continue"],
    ] {
        let output = home.run(arguments.iter().chain(&usual), "");
        assert_eq!(output.code(), Some(0), "{output:#?}");
        let mut last_id = Value::Null;
        for frame in output
            .frames()
            .iter()
            .filter(|frame| frame["type"] == "assistant")
        {
            let message = &frame["message"];
            if message["id"] != last_id {
                last_id = message["id"].clone();
                usages.push(message["usage"].clone());
            }
        }
    }
    server.finish();
    let requests = server.message_requests();
    assert_eq!((requests.len(), usages.len()), (6, 6));
    for pair in requests.windows(2) {
        assert_continues(&pair[0], &pair[1]);
    }
    let tokens = |usage: &Value, name: &str| usage[name].as_u64().unwrap();
    for (index, pair) in usages.windows(2).enumerate() {
        let kept = tokens(&pair[0], "cache_read_input_tokens")
            + tokens(&pair[0], "cache_creation_input_tokens");
        assert!(kept > 0, "request {index} marks nothing: {}", pair[0]);
        let read = tokens(&pair[1], "cache_read_input_tokens");
        assert_eq!(
            read,
            kept,
            "request {} reads less than the one before left",
            index + 1
        );
    }
}
