//! Whatever a host writes, the process neither crashes nor hangs nor leaves anything behind, and every
//! request that can be recognised gets its answer.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{Output, TestHome, processes};
use serde_json::{Value, json};
use std::collections::HashMap;

const FLAGS: [&str; 8] = [
    "--output-format",
    "stream-json",
    "--input-format",
    "stream-json",
    "--verbose",
    "--permission-prompt-tool",
    "stdio",
    "--include-partial-messages",
];

fn model() -> BlockingServer {
    BlockingServer::start(
        Scenario::new()
            .keep_requests(false)
            .responder(|request| Reply::text(format!("answer {}", request.messages().len()))),
    )
    .unwrap()
}

/// Runs it on these bytes to the end of input.
fn feed(server: &BlockingServer, bytes: &[u8]) -> Output {
    let home = TestHome::with_server(server);
    let output = home.run(FLAGS, bytes);
    assert_eq!(processes::of_home(&home), [], "processes are left over");
    assert!(
        !output.stderr.contains("panicked"),
        "it panicked: {}",
        output.stderr
    );
    assert!(
        output.status.code().is_some(),
        "it died of a signal: {output:?}"
    );
    output
}

/// The frames that came out; everything on stdout must be one.
fn frames(output: &Output) -> Vec<Value> {
    output
        .stdout
        .lines()
        .map(|line| {
            assert!(line.len() < 1 << 20, "a line of {} bytes", line.len());
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        })
        .collect()
}

fn request(id: &str, request: &Value) -> String {
    json!({"type": "control_request", "request_id": id, "request": request}).to_string()
}

fn prompt(text: &str) -> String {
    json!({"type": "user", "message": {"role": "user", "content": text}, "session_id": ""})
        .to_string()
}

/// Every request that we know, most of them incomplete.
fn known_requests() -> Vec<Value> {
    let mut all = vec![
        json!({"subtype": "initialize", "hooks": null}),
        json!({"subtype": "initialize", "hooks": {"PreToolUse": [{"matcher": "(", "hookCallbackIds": ["h"]}], "Nothing": []}}),
        json!({"subtype": "initialize", "hooks": 3}),
        json!({"subtype": "initialize", "sdkMcpServers": ["gone"]}),
        json!({"subtype": "set_permission_mode", "mode": "plan"}),
        json!({"subtype": "apply_flag_settings", "settings": {"model": "sonnet", "permissions": {"allow": ["Bash("]}}}),
        json!({"subtype": "update_settings", "source": "userSettings", "settings": {"model": 3}}),
        json!({"subtype": "mcp_set_servers", "servers": {"x": {"type": "stdio"}, "y": 1}}),
        json!({"subtype": "mcp_set_servers", "servers": {"x": {"type": "stdio", "tools": [3, {"name": 1}, {"name": "t", "permission_policy": []}]}}}),
        json!({"subtype": "set_mcp_permission_mode_override", "serverName": "x", "mode": "default"}),
        json!({"subtype": "reload_plugins", "add_plugins": [{"path": "x"}], "refuse_if_busy": 3}),
        json!({"subtype": "mcp_call", "tool": "mcp__x__y", "check_permissions": "yes"}),
        json!({"subtype": "read_file", "path": "/dev/null", "max_bytes": 1}),
        json!({"subtype": "seed_read_state", "path": "x", "mtime": -1e300}),
        json!({"subtype": "seed_read_state", "path": "x", "mtime": 1e300}),
        json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 1e30}),
        json!({"subtype": ["interrupt"]}),
        json!(null),
        json!({}),
    ];
    for subtype in [
        "interrupt",
        "set_permission_mode",
        "set_mcp_permission_mode_override",
        "set_model",
        "set_max_thinking_tokens",
        "mcp_status",
        "mcp_reconnect",
        "mcp_toggle",
        "mcp_set_servers",
        "mcp_call",
        "rewind_files",
        "stop_task",
        "get_context_usage",
        "apply_flag_settings",
        "update_settings",
        "get_settings",
        "list_models",
        "get_binary_version",
        "rename_session",
        "read_file",
        "seed_read_state",
        "background_tasks",
        "cancel_async_message",
        "reload_skills",
        "reload_plugins",
        "reload_output_styles",
        "list_permission_rules",
        "get_hooks_listing",
        "get_usage",
        "get_session_cost",
        "get_task_output",
        "register_repo_root",
        "unheard_of",
        "",
    ] {
        all.push(json!({"subtype": subtype}));
    }
    all
}

#[test]
fn every_request_gets_exactly_one_answer_however_wrong_it_is() {
    let server = model();
    let mut input = String::new();
    let requests = known_requests();
    for (index, body) in requests.iter().enumerate() {
        input.push_str(&request(&format!("r{index}"), body));
        input.push('\n');
    }
    let output = feed(&server, input.as_bytes());
    let mut answers: HashMap<String, usize> = HashMap::new();
    for frame in frames(&output) {
        if frame["type"] == "control_response" {
            let id = frame["response"]["request_id"].as_str().unwrap().to_owned();
            *answers.entry(id).or_default() += 1;
        }
    }
    for (index, body) in requests.iter().enumerate() {
        let count = answers.get(&format!("r{index}")).copied().unwrap_or(0);
        assert_eq!(count, 1, "{body} got {count} answers\n{}", output.stderr);
    }
}

#[test]
fn lines_that_are_no_frames_are_passed_over_and_the_prompt_after_them_is_answered() {
    let server = model();
    let mut input: Vec<u8> = Vec::new();
    for line in [
        "",
        "   ",
        "hello",
        "[1,2]",
        "3",
        "{",
        "{\"type\":",
        "{}",
        "{\"type\":7}",
        "null",
        "{\"type\":\"user\"}",
        "{\"type\":\"user\",\"message\":5}",
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}}",
        "{\"type\":\"control_request\"}",
        "{\"type\":\"control_response\"}",
        "{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"nobody\"}}",
        "{\"type\":\"control_cancel_request\",\"request_id\":\"nobody\"}",
        "{\"type\":\"keep_alive\"}",
        "{\"type\":\"from the future\",\"x\":[{}]}",
    ] {
        input.extend(line.as_bytes());
        input.push(b'\n');
    }
    input.extend([0xff, 0xfe, b'\n', 0, b'\n']);
    input.extend(vec![b'x'; 3_000_000]);
    input.push(b'\n');
    input.extend(format!("{{\"deep\":{}1{}}}\n", "[".repeat(5000), "]".repeat(5000)).as_bytes());
    input.extend(prompt("hello").as_bytes());
    // The last line has no end.
    let output = feed(&server, &input);
    let results: Vec<Value> = frames(&output)
        .into_iter()
        .filter(|frame| frame["type"] == "result")
        .collect();
    assert!(
        results.iter().any(|result| result["result"] == "answer 1"
            || result["result"]
                .as_str()
                .is_some_and(|text| text.starts_with("answer"))),
        "{}\n{}",
        output.stdout,
        output.stderr
    );
}

#[test]
fn random_cut_doubled_and_shuffled_frames_never_crash_or_hang() {
    let server = model();
    let seed = std::env::var("LATHE_FUZZ_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    // Shown when the test fails: the same seed gives the same bytes.
    eprintln!("LATHE_FUZZ_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..12 {
        let mut lines: Vec<Vec<u8>> = Vec::new();
        for index in 0..30 {
            let line = match random.u8(0..6) {
                0 => prompt(&"word ".repeat(random.usize(1..2000))),
                1 => json!({"type": "control_response", "response": {
                    "subtype": "success", "request_id": format!("r{}", random.u8(0..30)), "response": {},
                }})
                .to_string(),
                _ => {
                    let all = known_requests();
                    request(&format!("r{index}"), &all[random.usize(0..all.len())])
                }
            };
            let mut line = line.into_bytes();
            match random.u8(0..8) {
                0 => line.truncate(random.usize(0..line.len())),
                1 => {
                    let at = random.usize(0..line.len());
                    line[at] = random.u8(..);
                }
                2 => {
                    let again = line.clone();
                    lines.push(again);
                }
                3 => {
                    let at = random.usize(0..line.len());
                    let junk: Vec<u8> = (0..random.usize(1..40)).map(|_| random.u8(..)).collect();
                    line.splice(at..at, junk);
                }
                _ => {}
            }
            lines.push(line);
        }
        random.shuffle(&mut lines);
        let mut input = lines.join(&b'\n');
        if random.bool() {
            input.push(b'\n');
        }
        let output = feed(&server, &input);
        frames(&output);
    }
}
