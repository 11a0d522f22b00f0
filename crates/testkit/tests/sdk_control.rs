//! Control requests of a host while a session runs, and their answers: frame by frame, at awkward moments too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario, When};
use lathe_testkit::{StreamJson, TestHome, endless, processes, server, success};
use serde_json::{Value, json};

fn bash(command: &str) -> Reply {
    Reply::tool_use("Bash", json!({"command": command}))
}

/// A command that runs until a file is there.
const WAITS: &str = "while [ ! -e go ]; do sleep 0.02; done; echo over";

fn is_result(frame: &Value) -> bool {
    frame["type"] == "result"
}

fn is_question(frame: &Value) -> bool {
    frame["type"] == "control_request" && frame["request"]["subtype"] == "can_use_tool"
}

fn answer(host: &mut StreamJson, question: &Value, response: &Value) {
    host.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"], "response": response,
    }}));
}

fn interrupt(host: &mut StreamJson) {
    let answer = host.control(&json!({"subtype": "interrupt"}));
    assert!(success(&answer)["still_queued"].is_array());
}

#[test]
fn an_interruption_stops_background_work_unless_the_host_stops_it_task_by_task() {
    for spares in [false, true] {
        let server = server([
            Reply::tool_use("Bash", json!({"command": WAITS, "run_in_background": true})),
            endless(),
        ]);
        let home = TestHome::with_server(&server);
        let flags = ["--allowedTools", "Bash", "--include-partial-messages"];
        let mut host = StreamJson::start(&home, flags);
        host.control(&json!({"subtype": "initialize", "perTaskStopAffordance": spares}));
        host.prompt("go");
        let started = host.wait_for(|frame| frame["subtype"] == "task_started");
        host.wait_for(|frame| frame["event"]["delta"]["type"] == "text_delta");
        interrupt(&mut host);
        if spares {
            let result = host.wait_for_result();
            assert_eq!(result["terminal_reason"], "aborted_streaming");
            let stopped =
                host.control(&json!({"subtype": "stop_task", "task_id": started["task_id"]}));
            success(&stopped);
        }
        let ended = host.wait_for(|frame| frame["subtype"] == "task_notification");
        assert_eq!(
            (&ended["task_id"], &ended["status"]),
            (&started["task_id"], &json!("stopped"))
        );
        let _ = host.close();
        assert_eq!(processes::of_home(&home), []);
    }
}

#[test]
fn a_background_agent_asks_the_host_with_its_type_and_task() {
    let respond = |request: &RecordedRequest| {
        if request.messages()[0].to_string().contains("make it") {
            return match request.last_results().is_empty() {
                true => Reply::tool_use("Write", json!({"file_path": "made.txt", "content": "x"})),
                false => Reply::text("made"),
            };
        }
        if request.last_user_text().contains("<task-notification>") {
            return Reply::text("it is made");
        }
        if request.last_results().is_empty() {
            let order = json!({"description": "make a file", "prompt": "make it", "name": "maker"});
            return Reply::tool_use("Agent", order);
        }
        Reply::text("it works")
    };
    let scenario = Scenario::new().responder(respond);
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    host.prompt("go");
    let question = host.wait_for(is_question);
    let asked = &question["request"];
    assert_eq!(asked["tool_name"], "Write");
    assert_eq!(asked["agent_type"], "general-purpose", "{asked}");
    assert_eq!(asked["agent_name"], "maker", "{asked}");
    assert_eq!(asked["agent_task"], "make a file", "{asked}");
    assert!(asked["agent_id"].is_string(), "{asked}");
    answer(&mut host, &question, &json!({"behavior": "allow"}));
    host.wait_for(|frame| frame["type"] == "result" && frame["result"] == "it is made");
    assert!(home.project().join("made.txt").exists());
    assert_eq!(host.close().code(), Some(0));
    server.finish();
}

#[test]
fn work_that_an_interruption_spares_comes_to_its_own_end() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": WAITS, "run_in_background": true})),
        endless(),
        Reply::text("I see.").optional(),
    ]);
    let home = TestHome::with_server(&server);
    let flags = ["--allowedTools", "Bash", "--include-partial-messages"];
    let mut host = StreamJson::start(&home, flags);
    host.control(&json!({"subtype": "initialize", "perTaskStopAffordance": true}));
    host.prompt("go");
    host.wait_for(|frame| frame["event"]["delta"]["type"] == "text_delta");
    interrupt(&mut host);
    host.wait_for_result();
    home.write("go", "");
    let ended = host.wait_for(|frame| frame["subtype"] == "task_notification");
    assert_eq!(ended["status"], "completed", "{ended}");
    let _ = host.close();
}

#[test]
fn a_question_about_another_folder_names_the_path_and_its_answer_opens_the_folder() {
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().canonicalize().unwrap();
    let write = |name: &str| {
        let path = folder.join(name);
        Reply::tool_use("Write", json!({"file_path": path, "content": "x"}))
    };
    let server = server([write("a"), write("b"), Reply::text("done")]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    host.prompt("go");
    let question = host.wait_for(is_question);
    let request = &question["request"];
    assert_eq!(
        (&request["tool_name"], &request["blocked_path"]),
        (&json!("Write"), &json!(folder.join("a")))
    );
    assert_eq!(request["decision_reason_type"], "workingDir");
    assert!(
        request["tool_use_id"].is_string() && request["decision_reason"].is_string(),
        "{request}"
    );
    let suggestions = request["permission_suggestions"].as_array().unwrap();
    let kinds: Vec<&str> = suggestions
        .iter()
        .map(|s| s["type"].as_str().unwrap())
        .collect();
    assert!(
        kinds.contains(&"addDirectories") && kinds.contains(&"setMode"),
        "{kinds:?}"
    );
    answer(
        &mut host,
        &question,
        &json!({"behavior": "allow", "updatedInput": request["input"], "updatedPermissions": suggestions}),
    );
    // The second call asks nobody.
    let next = host.wait_for(|frame| is_question(frame) || is_result(frame));
    assert_eq!(next["result"], "done", "{next}");
    assert!(folder.join("b").is_file());
    assert!(host.close().status.success());
}

#[test]
fn a_file_that_the_host_has_read_may_be_changed_at_once() {
    let edit = |old: &str, new: &str| {
        Reply::tool_use(
            "Edit",
            json!({"file_path": "f.txt", "old_string": old, "new_string": new}),
        )
    };
    let server = server([
        edit("one", "two"),
        Reply::text("a"),
        edit("one", "two"),
        Reply::text("b"),
    ]);
    let home = TestHome::with_server(&server);
    let file = home.write("f.txt", "one\n");
    let mut host = StreamJson::start(&home, ["--permission-mode", "acceptEdits"]);
    host.prompt("go");
    host.wait_for_result();
    assert_eq!(
        home.read("f.txt"),
        "one\n",
        "what was not read is not changed"
    );
    let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
    let modified = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    let seeded = host.control(&json!({
        "subtype": "seed_read_state", "path": file,
        "mtime": u64::try_from(modified.as_millis()).unwrap(),
    }));
    success(&seeded);
    host.prompt("again");
    host.wait_for_result();
    assert_eq!(home.read("f.txt"), "two\n");
    assert!(host.close().status.success());
}

#[test]
fn a_command_that_takes_long_can_be_sent_to_the_background() {
    let server = server([
        bash(WAITS),
        Reply::text("meanwhile").when(When::tool_result_for("Bash")),
        Reply::text("it is over"),
    ]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--allowedTools", "Bash"]);
    host.prompt("go");
    let call = host.wait_for(|frame| frame["type"] == "assistant");
    let call = &call["message"]["content"][0]["id"];
    // The call must have begun; a request before that finds nothing to send away.
    let started = loop {
        success(&host.control(&json!({"subtype": "background_tasks", "tool_use_id": call})));
        let frame = host.next_frame();
        if frame["subtype"] == "task_started" {
            break frame;
        }
    };
    assert_eq!(
        (&started["tool_use_id"], &started["is_backgrounded"]),
        (call, &json!(true))
    );
    assert_eq!(host.wait_for_result()["result"], "meanwhile");
    home.write("go", "");
    let ended = host.wait_for(|frame| frame["subtype"] == "task_notification");
    assert_eq!(ended["status"], "completed");
    assert_eq!(host.wait_for_result()["result"], "it is over");
    assert!(host.close().status.success());
}

#[test]
fn a_mode_a_folder_and_a_trace_of_the_host_count() {
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().canonicalize().unwrap();
    let write = Reply::tool_use(
        "Write",
        json!({"file_path": folder.join("a"), "content": "x"}),
    );
    let server = server([write, Reply::text("done")]);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let home = TestHome::with_server(&server).variable("TRACEPARENT", trace);
    let mut host = StreamJson::start(&home, [""; 0]);
    host.control(&json!({"subtype": "initialize"}));
    host.send(
        &json!({"type": "control_request", "request_id": "m", "request": {
            "subtype": "set_permission_mode", "mode": "acceptEdits",
        }}),
    );
    let status = host.wait_for(|frame| frame["subtype"] == "status");
    assert_eq!(
        (&status["status"], &status["permissionMode"]),
        (&Value::Null, &json!("acceptEdits"))
    );
    success(&host.control(&json!({"subtype": "register_repo_root", "directory": folder})));
    success(&host.control(&json!({"subtype": "set_has_subscribers", "has_subscribers": false})));
    host.prompt("go");
    assert_eq!(host.wait_for_result()["permission_denials"], json!([]));
    assert!(folder.join("a").is_file());
    assert!(host.close().status.success());
    let sent = server.message_requests();
    let passed_on = sent[0].header("traceparent").unwrap();
    assert!(
        passed_on.contains("0af7651916cd43dd8448eb211c80319c"),
        "{passed_on}"
    );
}

#[test]
fn the_end_of_input_waits_for_agents_only_as_long_as_the_environment_says() {
    let server = server([
        Reply::tool_use(
            "Agent",
            json!({"description": "d", "prompt": "look at the clock", "subagent_type": "general-purpose", "run_in_background": true}),
        ),
        Reply::text("started").when(When::tool_result_for("Agent")),
        endless().when(When::last_user_text_contains("look at the clock")),
    ]);
    let home =
        TestHome::with_server(&server).variable("CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS", "50");
    let mut host = StreamJson::start(&home, [""; 0]);
    host.prompt("go");
    assert_eq!(host.wait_for_result()["result"], "started");
    // An agent that never comes to its end doesn't keep the process.
    let output = host.close();
    assert!(output.status.code().is_some(), "{output:?}");
    assert_eq!(processes::of_home(&home), []);
}

#[test]
fn interruptions_at_awkward_moments_leave_a_session_that_goes_on() {
    let elsewhere = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| elsewhere.path().join(name));
    for path in &paths {
        std::fs::write(path, "not for everyone").unwrap();
    }
    let reads = Reply::tool_use("Read", json!({"file_path": paths[0]}))
        .with_tool_use("Read", json!({"file_path": paths[1]}));
    let server = BlockingServer::start(Scenario::new().responder(move |request| {
        let text = request.last_user_text();
        if text.contains("ENDLESS") {
            endless()
        } else if text.contains("ASK-IT") {
            reads.clone()
        } else if text.contains("RUN-IT") {
            bash(WAITS)
        } else {
            Reply::text("fine")
        }
    }))
    .unwrap();
    let home = TestHome::with_server(&server);
    let flags = [
        "--include-partial-messages",
        "--permission-prompt-tool",
        "stdio",
        "--allowedTools",
        "Bash(while:*)",
    ];
    let mut host = StreamJson::start(&home, flags);
    let hooks = json!({"UserPromptSubmit": [{"matcher": null, "hookCallbackIds": ["h"]}]});
    host.control(&json!({"subtype": "initialize", "hooks": hooks}));
    let is_hook = |frame: &Value| frame["request"]["subtype"] == "hook_callback";
    let begin = |host: &mut StreamJson, words: &str| {
        host.prompt(words);
        let question = host.wait_for(is_hook);
        answer(host, &question, &json!({}));
    };

    // With nothing to do, twice.
    interrupt(&mut host);
    interrupt(&mut host);
    // While a function of the host runs that looks at the prompt: the question is withdrawn.
    host.prompt("looked at");
    let question = host.wait_for(is_hook);
    interrupt(&mut host);
    let withdrawn = host.wait_for(|frame| frame["type"] == "control_cancel_request");
    assert_eq!(withdrawn["request_id"], question["request_id"]);
    // An answer that comes too late is nobody's.
    answer(
        &mut host,
        &question,
        &json!({"decision": "block", "reason": "late"}),
    );
    host.wait_for(is_result);
    // While the model writes, twice in a row.
    begin(&mut host, "ENDLESS");
    host.wait_for(|frame| frame["event"]["type"] == "content_block_delta");
    for id in ["first", "second"] {
        let request = json!({"subtype": "interrupt"});
        host.send(&json!({"type": "control_request", "request_id": id, "request": request}));
    }
    // The turn may be over before the second is heard; then that one finds nothing to do.
    let (mut receipts, mut reason) = (0, None);
    while receipts < 2 || reason.is_none() {
        let frame = host.next_frame();
        if frame["type"] == "control_response" {
            success(&frame);
            receipts += 1;
        }
        if is_result(&frame) {
            assert!(receipts > 0, "a result before the receipt");
            reason = Some(frame["terminal_reason"].clone());
        }
    }
    assert_eq!(reason, Some(json!("aborted_streaming")));
    // While two questions are open: both are withdrawn.
    begin(&mut host, "ASK-IT");
    host.wait_for(is_question);
    host.wait_for(is_question);
    interrupt(&mut host);
    let mut cancelled = 0;
    let result = loop {
        let frame = host.next_frame();
        if frame["type"] == "control_cancel_request" {
            cancelled += 1;
        }
        if is_result(&frame) {
            break frame;
        }
    };
    assert_eq!(
        (cancelled, &result["terminal_reason"]),
        (2, &json!("aborted_tools"))
    );
    // While a command runs.
    begin(&mut host, "RUN-IT");
    host.wait_for(|frame| frame["type"] == "assistant");
    interrupt(&mut host);
    let reason = host.wait_for_result()["terminal_reason"].clone();
    assert!(
        reason == "aborted_tools" || reason == "aborted_streaming",
        "{reason}"
    );
    // And the session continues.
    begin(&mut host, "hello");
    assert_eq!(host.wait_for_result()["result"], "fine");
    assert!(host.close().status.success());
    assert_eq!(processes::of_home(&home), []);
    assert_eq!(server.problems(), Vec::<String>::new());
}

#[test]
fn a_host_gets_the_result_of_the_handshakes_that_it_sends() {
    let server = server([
        Reply::tool_use("mcp__good__strike", json!({})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--allowedTools", "mcp__good"]);
    let hello = |version: &str| json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}});
    let tools = json!({"tools": [{"name": "strike", "inputSchema": {"type": "object"}}]});
    let request = json!({
        "subtype": "initialize", "sdkMcpServers": ["good", "old", "bad", "bare"],
        "sdkMcpServerManifests": {
            "good": {"initializeResult": hello("2025-11-25"), "toolsListResult": tools},
            "old": {"initializeResult": hello("2024-11-05")},
            "bad": {"initializeResult": 3},
            "nobody": {"initializeResult": hello("2025-11-25")},
        },
    });
    let first = host.control(&request);
    assert_eq!(
        success(&first)["sdk_mcp_manifests_parked"],
        json!({"good": "parked", "old": "protocol_version_mismatch", "bad": "malformed"})
    );
    host.prompt("go");
    // Those without a handshake are shaken hands with; the good one is only ever called.
    let result = loop {
        let frame = host.next_frame();
        if is_result(&frame) {
            break frame;
        }
        if frame["request"]["subtype"] != "mcp_message" {
            continue;
        }
        let (name, message) = (
            &frame["request"]["server_name"],
            &frame["request"]["message"],
        );
        let response = match (name.as_str().unwrap(), message["method"].as_str().unwrap()) {
            ("good", "tools/call") => json!({"content": [{"type": "text", "text": "struck"}]}),
            ("good", other) => panic!("{other} was sent to it"),
            (_, "initialize") => hello("2025-11-25"),
            (_, "tools/list") => json!({"tools": []}),
            _ => json!({}),
        };
        let response = json!({"jsonrpc": "2.0", "id": message["id"], "result": response});
        answer(&mut host, &frame, &json!({"mcp_response": response}));
    };
    assert_eq!(result["result"], "done", "{result}");
    let again = host.control(&request);
    assert_eq!(
        success(&again)["sdk_mcp_manifests_parked"]["good"],
        "already_connected"
    );
    let malformed =
        json!({"subtype": "initialize", "sdkMcpServers": ["good"], "sdkMcpServerManifests": 7});
    let malformed = host.control(&malformed);
    assert_eq!(
        success(&malformed)["sdk_mcp_manifests_parked"]["good"],
        "malformed"
    );
    assert!(host.close().status.success());
}

#[test]
fn the_main_conversation_runs_as_the_agent_that_is_named() {
    let server = server([Reply::text("one"), Reply::text("two")]);
    let home = TestHome::with_server(&server);
    let agents =
        r#"{"watcher":{"description":"watches","prompt":"You watch clocks.","tools":["Read"]}}"#;
    let mut host = StreamJson::start(&home, ["--agents", agents, "--agent", "watcher"]);
    host.prompt("go");
    host.wait_for_result();
    assert!(host.close().status.success());
    // The host may bring the agent itself.
    let mut host = StreamJson::start(&home, ["--agent=watcher"]);
    let agents: Value = serde_json::from_str(agents).unwrap();
    host.control(&json!({"subtype": "initialize", "agents": agents}));
    host.prompt("go");
    host.wait_for_result();
    assert!(host.close().status.success());
    for request in server.message_requests() {
        assert!(request.system_text().contains("You watch clocks."));
        assert_eq!(request.tool_names(), ["Read"]);
    }
}

#[test]
fn the_model_changes_a_preference_after_a_question_and_nothing_else() {
    let config = |input: Value| Reply::tool_use("Config", input);
    let server = server([
        config(json!({"setting": "effort", "value": "low"})),
        config(json!({"setting": "effort"})),
        config(json!({"setting": "permissions", "value": {"allow": ["Bash"]}})),
        config(json!({"setting": "autoCompact", "value": "perhaps"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    let arguments = [
        "--permission-prompt-tool",
        "stdio",
        "--permission-mode",
        "acceptEdits",
    ];
    let mut session = StreamJson::start(&home, arguments);
    session.prompt("go");
    let question = session.wait_for(|frame| frame["type"] == "control_request");
    assert_eq!(question["request"]["tool_name"], "Config", "{question}");
    session.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"],
        "response": {"behavior": "allow", "updatedInput": question["request"]["input"]}}}));
    let result = session.wait_for_result();
    assert_eq!(result["subtype"], "success", "{result}");
    assert_eq!(session.close().code(), Some(0));
    let requests = server.message_requests();
    let told = requests.last().unwrap().body["messages"].to_string();
    for words in [
        "effort is \\\"low\\\" for this session",
        "effort: \\\"low\\\"",
        "is not a setting that can be read or changed here",
        "expected",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    server.finish();
    let server = server_of_one(config(json!({"setting": "effort", "value": "low"})));
    let home = TestHome::with_server(&server);
    assert_eq!(home.run(["-p", "go"], "").code(), Some(0));
    let requests = server.message_requests();
    let told = requests.last().unwrap().body["messages"].to_string();
    assert!(told.contains("There is no user to agree"), "{told}");
    server.finish();
}

fn server_of_one(reply: Reply) -> BlockingServer {
    server([reply, Reply::text("done")])
}
