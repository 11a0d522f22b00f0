//! The line protocol itself, frame by frame: what the SDK packages don't send, and the order of things.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{Ending, Position, Reply, When};
use lathe_testkit::{StreamJson, TestHome, endless, server, success, transcript};
use serde_json::{Value, json};

#[test]
fn a_prompt_works_without_initialize_and_initialize_may_be_repeated() {
    let server = server([Reply::text("one")]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, [""; 0]);
    host.prompt("hi");
    assert_eq!(host.wait_for_result()["result"], "one");
    let first = host.control(&json!({"subtype": "initialize", "hooks": null}));
    let second = host.control(&json!({"subtype": "initialize", "hooks": null}));
    assert_eq!(success(&first), success(&second));
    assert_eq!(success(&first)["hook_on_failure_supported"], true);
    let output = host.close();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn the_receipt_of_an_interruption_comes_before_the_result_and_the_exit_code_tells() {
    let server = server([endless()]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--include-partial-messages"]);
    host.prompt("go");
    host.wait_for(|frame| frame["event"]["type"] == "content_block_delta");
    host.send(
        &json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}}),
    );
    let mut order = Vec::new();
    loop {
        let frame = host.next_frame();
        match frame["type"].as_str().unwrap() {
            "control_response" => order.push("receipt".to_owned()),
            "result" => {
                order.push("result".to_owned());
                assert_eq!(frame["terminal_reason"], "aborted_streaming");
                break;
            }
            "assistant" => {
                assert_eq!(frame["aborted"], true, "{frame}");
                order.push("partial".to_owned());
            }
            "user" => order.push("mark".to_owned()),
            _ => {}
        }
    }
    assert_eq!(order, ["receipt", "partial", "mark", "result"]);
    assert_eq!(host.close().status.code(), Some(1));
}

/// The pieces of text among frames, joined, until one of a kind comes; it is given, too.
fn text_until(host: &mut StreamJson, kind: &str) -> (String, Value) {
    let mut text = String::new();
    loop {
        let frame = host.next_frame();
        if frame["type"] == kind {
            return (text, frame);
        }
        if frame["event"]["delta"]["type"] == "text_delta" {
            text.push_str(frame["event"]["delta"]["text"].as_str().unwrap());
        }
    }
}

#[test]
fn a_quick_answer_comes_whole_and_in_order_and_can_be_interrupted() {
    let words: String = (0..400).map(|word| format!("{word:04} ")).collect();
    let quick = || {
        Reply::text(words.clone())
            .delta_characters(5)
            .chunk_delay_ms(1)
    };
    // The second falls silent in the middle, so that it can't end by itself.
    let cut = quick().cut(Position::MidBlock(0), Ending::Silence);
    let server = server([quick(), cut]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--include-partial-messages"]);
    host.prompt("go");
    let (text, message) = text_until(&mut host, "assistant");
    assert_eq!(text, words);
    assert_eq!(message["message"]["content"][0]["text"], words);
    host.wait_for_result();

    host.prompt("again");
    let mut before = String::new();
    while before.len() < 500 {
        let frame = host.wait_for(|frame| frame["event"]["delta"]["type"] == "text_delta");
        before.push_str(frame["event"]["delta"]["text"].as_str().unwrap());
    }
    host.send(
        &json!({"type": "control_request", "request_id": "i", "request": {"subtype": "interrupt"}}),
    );
    let (more, _) = text_until(&mut host, "control_response");
    before.push_str(&more);
    let (more, message) = text_until(&mut host, "assistant");
    before.push_str(&more);
    // Every piece that counts was shown.
    assert_eq!(message["message"]["content"][0]["text"], before.as_str());
    assert!(words.starts_with(&before));
    assert_eq!(
        host.wait_for_result()["terminal_reason"],
        "aborted_streaming"
    );
    assert_eq!(host.close().status.code(), Some(1));
}

#[test]
fn waiting_prompts_can_be_cancelled_one_by_one_and_all_at_once() {
    let server = server([
        endless(),
        Reply::text("kept").when(When::last_user_text_contains("third")),
    ]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--include-partial-messages"]);
    let send = |host: &mut StreamJson, id: &str, text: &str, priority: Value| {
        host.send(&json!({
            "type": "user", "uuid": id, "priority": priority,
            "message": {"role": "user", "content": text},
        }));
    };
    let ids: Vec<String> = (0..4).map(|_| uuid::Uuid::new_v4().to_string()).collect();
    host.prompt("go");
    host.wait_for(|frame| frame["event"]["type"] == "content_block_delta");
    send(&mut host, &ids[0], "first", Value::Null);
    send(&mut host, &ids[1], "second", json!("later"));
    for (id, cancelled) in [(&ids[0], true), (&ids[1], true), (&ids[1], false)] {
        let answer = host.control(&json!({"subtype": "cancel_async_message", "message_uuid": id}));
        assert_eq!(success(&answer)["cancelled"], cancelled, "{answer}");
    }
    send(&mut host, &ids[3], "dropped", json!("later"));
    let answer = host.control(&json!({"subtype": "interrupt", "cancel_queued": true}));
    assert_eq!(success(&answer)["cancelled"], json!([ids[3]]), "{answer}");
    assert_eq!(host.wait_for_result()["is_error"], true);
    send(&mut host, &ids[2], "third", Value::Null);
    assert_eq!(host.wait_for_result()["result"], "kept");
    assert!(host.close().status.success());
    server.finish();
}

#[test]
fn a_prompt_for_later_waits_until_there_is_nothing_else_to_do() {
    let server = server([
        Reply::tool_use(
            "Bash",
            json!({"command": "while [ ! -e go ]; do sleep 0.02; done"}),
        ),
        Reply::text("now").when(When::tool_result_for("Bash")),
        Reply::text("then").when(When::last_user_text_contains("for later")),
    ]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--allowedTools", "Bash"]);
    host.prompt("go");
    host.wait_for(|frame| frame["type"] == "assistant");
    host.send(&json!({
        "type": "user", "priority": "later",
        "message": {"role": "user", "content": "for later"},
    }));
    host.control(&json!({"subtype": "list_models"}));
    home.write("go", "");
    assert_eq!(host.wait_for_result()["result"], "now");
    assert_eq!(host.wait_for_result()["result"], "then");
    assert!(host.close().status.success());
    server.finish();
}

#[test]
fn records_are_mirrored_before_the_result_and_as_they_stand_in_the_file() {
    let server = server([Reply::text("one")]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--session-mirror"]);
    host.prompt("hi");
    let mut mirrored = Vec::new();
    let mut path = String::new();
    loop {
        let frame = host.next_frame();
        if frame["type"] == "transcript_mirror" {
            frame["filePath"].as_str().unwrap().clone_into(&mut path);
            mirrored.extend(frame["entries"].as_array().unwrap().clone());
        } else if frame["type"] == "result" {
            break;
        }
    }
    let seen = mirrored.len();
    assert!(seen >= 2, "{mirrored:?}");
    let output = host.close();
    for line in output.stdout.lines() {
        let frame: Value = serde_json::from_str(line).unwrap();
        if frame["type"] == "transcript_mirror" {
            mirrored.extend(frame["entries"].as_array().unwrap().clone());
        }
    }
    let mut written = transcript::Transcript::read(std::path::Path::new(&path)).records;
    for record in &mut written {
        // The chain of hashes is about the bytes of this file, where a large content lies elsewhere.
        assert!(
            record
                .as_object_mut()
                .unwrap()
                .remove("latheLink")
                .is_some()
        );
    }
    for entry in &mirrored[..seen] {
        assert!(written.contains(entry), "{entry} is not in {path}");
    }
    assert!(path.starts_with(home.config().join("projects").to_str().unwrap()));
}

#[test]
fn questions_of_a_host_about_a_session_are_answered() {
    let server = server([Reply::text("one")]);
    let home = TestHome::with_server(&server);
    home.write("f.txt", "content");
    let settings = r#"{"permissions":{"deny":["Bash(rm:*)"]}}"#;
    let mut host = StreamJson::start(&home, ["--settings", settings, "--effort", "low"]);
    host.control(&json!({"subtype": "initialize", "title": "Of the host"}));
    host.prompt("hi");
    host.wait_for_result();
    let mut ask = |request: Value| success(&host.control(&request)).clone();
    let shown = ask(json!({"subtype": "get_settings"}));
    assert_eq!(shown["applied"]["effort"], "low");
    let sources = shown["sources"].as_array().unwrap();
    assert!(
        sources
            .iter()
            .any(|layer| layer["source"] == "flagSettings"),
        "{shown}"
    );
    let rules = ask(json!({"subtype": "list_permission_rules"}));
    assert!(rules.to_string().contains("Bash(rm:*)"), "{rules}");
    let usage = ask(json!({"subtype": "get_usage"}));
    assert!(usage["session"]["total_cost_usd"].as_f64().unwrap() > 0.0);
    assert!(ask(json!({"subtype": "get_hooks_listing"}))["hooks"].is_array());
    let file = ask(json!({"subtype": "read_file", "path": "f.txt", "max_bytes": 3}));
    assert_eq!(
        (&file["contents"], &file["truncated"]),
        (&json!("con"), &json!(true))
    );
    let models = ask(json!({"subtype": "list_models"}))["models"].clone();
    let mut all = models.as_array().unwrap().iter();
    let opus = all.find(|model| model["value"] == "opus").unwrap();
    let id = opus["resolvedModel"].as_str().unwrap();
    assert!(id.starts_with("claude-opus-"), "{opus}");
    assert_eq!(opus["supportsEffort"], true, "{opus}");
    assert_eq!(opus["supportedEffortLevels"][0], "low", "{opus}");
    assert!(ask(json!({"subtype": "get_binary_version"}))["version"].is_string());
    ask(json!({"subtype": "rename_session", "title": "A title"}));
    ask(
        json!({"subtype": "update_settings", "source": "userSettings", "settings": {"model": "haiku"}}),
    );
    assert!(
        std::fs::read_to_string(home.config().join("settings.json"))
            .unwrap()
            .contains("haiku")
    );
    let refused = host.control(&json!({"subtype": "unheard_of"}));
    assert_eq!(refused["response"]["subtype"], "error");
    assert!(host.close().status.success());
    let file = transcript::of_home(&home).remove(0);
    let text = std::fs::read_to_string(file).unwrap();
    for title in ["Of the host", "A title"] {
        let line = format!(r#""customTitle":"{title}""#);
        assert!(text.contains(&line), "{title}");
    }
}

#[test]
fn a_host_gets_files_policies_and_images() {
    let server = server([]);
    let home = TestHome::with_server(&server);
    home.write("src/clock.rs", "");
    home.write("target/clock.o", "");
    home.write(".gitignore", "target\n");
    home.write("dot.bin", [0_u8, 255, 1]);
    let policy = r#"{"allowManagedPermissionRulesOnly":true,"allowManagedHooksOnly":true,"permissions":{"deny":["Bash(rm:*)"]},"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}}"#;
    let own = r#"{"permissions":{"allow":["Bash(ls:*)"]},"hooks":{"Stop":[{"hooks":[{"type":"command","command":"false"}]}]}}"#;
    let mut host = StreamJson::start(&home, ["--managed-settings", policy, "--settings", own]);
    let mut ask = |request: Value| success(&host.control(&request)).clone();
    let found = ask(json!({"subtype": "file_suggestions", "query": "clock"}));
    assert_eq!(
        found["suggestions"],
        json!([{"path": "src/clock.rs", "displayText": "src/clock.rs", "isDirectory": false}])
    );
    let rules = ask(json!({"subtype": "list_permission_rules"}))["state"].clone();
    assert_eq!(rules["managedOnly"], true, "{rules}");
    let row = |text: &str| {
        let all = rules["rules"].as_array().unwrap();
        all.iter()
            .find(|rule| rule["rule"] == text)
            .unwrap()
            .clone()
    };
    assert_eq!(row("Bash(rm:*)")["editability"], "readonly");
    assert_eq!(row("Bash(ls:*)")["notInEffect"], true);
    let hooks = ask(json!({"subtype": "get_hooks_listing"}));
    assert_eq!(
        hooks["policy"],
        json!({
            "disabledByPolicy": false, "managedOnly": true, "pluginOnly": false,
            "allDisabled": false, "policyHookCount": 1,
        })
    );
    let stop = |source: &str| {
        let all = hooks["hooks"].as_array().unwrap();
        all.iter()
            .find(|hook| hook["source"] == source)
            .unwrap()
            .clone()
    };
    assert_eq!(stop("flagSettings")["disabled"], true, "{hooks}");
    assert_eq!(stop("policySettings")["disabled"], Value::Null);
    assert_eq!(hooks["events"][0]["hookCount"], 2);
    assert!(hooks["eventCatalog"].as_array().unwrap().len() > 20);
    let file = ask(json!({"subtype": "read_file", "path": "dot.bin", "encoding": "base64"}));
    assert_eq!(file["contents"], "AP8B");
    assert!(host.close().status.success());

    let mut host = StreamJson::start(&home, ["--settings", r#"{"disableAllHooks":true}"#]);
    let hooks = success(&host.control(&json!({"subtype": "get_hooks_listing"}))).clone();
    assert_eq!(hooks["policy"]["allDisabled"], true);
    let rules = success(&host.control(&json!({"subtype": "list_permission_rules"}))).clone();
    assert_eq!(rules["state"]["managedOnly"], false);
    assert!(host.close().status.success());
}

#[test]
fn a_start_that_fails_is_a_result_and_a_bad_flag_is_named() {
    let server = server([]);
    let home = TestHome::with_server(&server);
    let unknown = uuid::Uuid::new_v4();
    let mut host = StreamJson::start(&home, [format!("--resume={unknown}")]);
    host.send(&json!({"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}}));
    let result = host.wait_for_result();
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(
        (&result["is_error"], &result["num_turns"]),
        (&json!(true), &json!(0))
    );
    let words = format!("No conversation found with session ID: {unknown}");
    assert_eq!(result["errors"], json!([words]));
    let output = host.close();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.contains(&words));

    for flags in [
        &["--no-such-flag"][..],
        &["--permission-mode=yolo"],
        &["--json-schema={"],
        &["--mcp-config={\"x\":1}"],
        &["--mcp-config=no-such-file.json"],
        &["--effort=extreme"],
    ] {
        let output = StreamJson::start(&home, flags).close();
        assert!(!output.status.success(), "{flags:?} was taken");
        let name = flags[0].split('=').next().unwrap();
        assert!(output.stderr.contains(name), "{flags:?}: {}", output.stderr);
    }

    // The host may bring the agent in its first request, so the name is looked up then.
    let initialize =
        json!({"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}});
    let mut host = StreamJson::start(&home, ["--agent=nobody"]);
    host.send(&initialize);
    assert!(host.wait_for_result().to_string().contains("nobody"));
    assert_eq!(host.close().status.code(), Some(1));
}

#[test]
fn print_mode_gives_structured_output_too() {
    let server = server([Reply::tool_use("StructuredOutput", json!({"n": 4}))]);
    let home = TestHome::with_server(&server);
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let output = home.run(
        [
            "-p",
            "count",
            "--output-format",
            "json",
            "--json-schema",
            schema,
        ],
        "",
    );
    assert!(output.status.success(), "{output:?}");
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["structured_output"], json!({"n": 4}));
    server.finish();
}

#[test]
fn the_command_for_file_suggestions_runs_as_helpers_do() {
    let server = server([]);
    let home = TestHome::with_server(&server);
    home.write("docs/x.md", "");
    let command = r#"cat > asked.json; test "$CLAUDE_PROJECT_DIR" = "$PWD" && printf 'docs\n\nsrc/main.rs\n'"#;
    let own = json!({"fileSuggestion": {"type": "command", "command": command}}).to_string();
    let mut host = StreamJson::start(&home, ["--settings", &own]);
    let mut ask = |request: Value| host.control(&request);
    let found = success(&ask(json!({"subtype": "file_suggestions", "query": "@ma"}))).clone();
    assert_eq!(
        found["suggestions"],
        json!([
            {"path": "docs", "displayText": "docs", "isDirectory": true},
            {"path": "src/main.rs", "displayText": "src/main.rs", "isDirectory": false},
        ])
    );
    let asked = std::fs::read_to_string(home.project().join("asked.json")).unwrap();
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(asked["query"], "ma");

    let broken =
        json!({"fileSuggestion": {"type": "command", "command": "echo 'no index' >&2; exit 4"}});
    success(&ask(
        json!({"subtype": "apply_flag_settings", "settings": broken}),
    ));
    let refused = ask(json!({"subtype": "file_suggestions", "query": "x"})).to_string();
    assert!(
        refused.contains("exit code 4") && refused.contains("no index"),
        "{refused}"
    );
    // One that never ends is stopped, with all that it started.
    let hangs = json!({"fileSuggestion": {"type": "command", "command": "sleep 1000 & echo $! > child; wait"}});
    success(&ask(
        json!({"subtype": "apply_flag_settings", "settings": hangs}),
    ));
    let refused = ask(json!({"subtype": "file_suggestions", "query": "x"})).to_string();
    assert!(refused.contains("took longer than"), "{refused}");
    let child = std::fs::read_to_string(home.project().join("child")).unwrap();
    let child = format!("/proc/{}/stat", child.trim());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while std::fs::read_to_string(&child).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(std::time::Instant::now() < deadline, "the child lives on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
