//! Servers in print mode: tools, results, prompts, resources, questions, and servers that fail.

use super::*;

/// Runs one turn in a session whose servers are all connected before it, however slow the machine is.
fn settled_turn(home: &TestHome, arguments: &[&str]) -> lathe_testkit::Output {
    let mut session = lathe_testkit::StreamJson::start(home, arguments);
    control(&mut session, &json!({"subtype": "mcp_status"}));
    session.prompt("go");
    session.wait_for_result();
    session.close()
}

#[test]
fn a_tool_of_a_server_is_called_and_nothing_is_left_behind() {
    let model = model([
        Reply::tool_use("mcp__local__echo", json!({"text": "hello there"})),
        Reply::text("It said hello there."),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&["noise"])}));
    let output = home.run(
        [
            "-p",
            "echo",
            "--output-format",
            "json",
            "--mcp-config",
            &servers,
            "--strict-mcp-config",
            "--allowedTools",
            "mcp__local__echo",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(output.stderr, "");
    assert_eq!(output.result()["result"], "It said hello there.");
    assert!(sent(&model, 1).contains("hello there"));
    model.finish();
    nothing_left(&home);
}

#[test]
fn without_a_rule_the_tool_is_refused_with_the_rule_that_would_allow_it() {
    let model = model([
        Reply::tool_use("mcp__local__echo", json!({"text": "x"})),
        Reply::text("I may not."),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let output = home.run(
        [
            "-p",
            "echo",
            "--output-format",
            "json",
            "--mcp-config",
            &servers,
        ],
        "",
    );
    let denials = &output.result()["permission_denials"];
    assert_eq!(denials[0]["tool_name"], "mcp__local__echo");
    assert!(
        sent(&model, 1).contains("--allowedTools"),
        "{}",
        sent(&model, 1)
    );
    model.finish();
}

#[test]
fn official_servers_work_side_by_side_with_pictures_structure_and_files() {
    let model = model([
        Reply::tool_use("mcp__everything__get-sum", json!({"a": 19, "b": 23}))
            .with_tool_use("mcp__everything__get-tiny-image", json!({}))
            .with_tool_use(
                "mcp__everything__get-structured-content",
                json!({"location": "New York"}),
            )
            .with_tool_use("mcp__everything__get-resource-links", json!({"count": 2}))
            .with_tool_use("mcp__memory__read_graph", json!({})),
        Reply::text("All seen."),
    ]);
    let home = TestHome::with_server(&model);
    home.write("a.txt", "x");
    let project = home.project().display().to_string();
    let servers = config(&json!({
        "everything": official("server-everything", &["stdio"]),
        "memory": official("server-memory", &[]),
        "files": official("server-filesystem", &[&project]),
    }));
    let output = home.run(
        [
            "-p",
            "look",
            "--mcp-config",
            &servers,
            "--allowedTools",
            "mcp__everything",
            "mcp__memory",
            "--output-format",
            "stream-json",
            "--verbose",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let init = &output.frames()[0];
    for server in init["mcp_servers"].as_array().unwrap() {
        assert_ne!(server["status"], "failed", "{init}");
    }
    let results = model.requests()[1].body["messages"].to_string();
    assert!(results.contains("42"), "{results}");
    assert!(
        results.contains("\"media_type\":\"image/png\""),
        "{results}"
    );
    assert!(results.contains("temperature"), "{results}");
    assert!(results.contains("A link to the resource"), "{results}");
    assert!(results.contains("entities"), "{results}");
    model.finish();
    nothing_left(&home);
}

#[test]
fn the_servers_of_a_project_wait_for_trust_and_a_word() {
    let model = model([Reply::text("one"), Reply::text("two"), Reply::text("three")]);
    let home = TestHome::with_server(&model);
    home.write(".mcp.json", config(&json!({"shared": fixture(&[])})));
    let first = home.run(["-p", "hi"], "");
    assert!(
        first.stderr.contains("shared") && first.stderr.contains("trust"),
        "{}",
        first.stderr
    );
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let second = home.run(["-p", "hi"], "");
    assert!(
        second.stderr.contains("lathe mcp enable shared"),
        "{}",
        second.stderr
    );
    assert!(
        !offered(&model, 1)
            .iter()
            .any(|name| name.starts_with("mcp__"))
    );
    assert_eq!(home.run(["mcp", "enable", "shared"], "").code(), Some(0));
    let third = home.run(["-p", "hi"], "");
    assert_eq!(third.stderr, "");
    let shown = home.run(["mcp", "get", "shared", "--json"], "");
    assert!(
        shown.stdout.contains("\"status\":\"connected\""),
        "{shown:#?}"
    );
    model.finish();
}

#[test]
fn a_missing_variable_is_named_and_the_session_goes_on() {
    let model = model([Reply::text("ok")]);
    let home = TestHome::with_server(&model);
    let servers =
        config(&json!({"needy": {"command": "python3", "env": {"TOKEN": "${LATHE_TEST_UNSET}"}}}));
    let output = home.run(["-p", "hi", "--mcp-config", &servers], "");
    assert_eq!(output.code(), Some(0));
    for words in ["needy", "mcpServers.needy.env.TOKEN", "LATHE_TEST_UNSET"] {
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    model.finish();
}

#[test]
fn a_slow_server_is_not_waited_for_and_its_tools_come_with_the_next_turn() {
    let model = model([Reply::text("without"), Reply::text("with")]);
    let home = TestHome::with_server(&model);
    let gate = home.root().join("gate");
    let times = home.root().join("times");
    // It is ready when the test says so.
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.05; done; exec python3 {} times={}",
        gate.display(),
        workspace_root()
            .join("crates/mcp/tests/fixtures/server.py")
            .display(),
        times.display(),
    );
    let servers = config(&json!({"slow": {"command": "bash", "args": ["-c", script]}}));
    let mut session = lathe_testkit::StreamJson::start(&home, ["--mcp-config", &servers]);
    session.prompt("first");
    assert_eq!(session.wait_for_result()["result"], "without");
    assert!(
        !offered(&model, 0)
            .iter()
            .any(|name| name.starts_with("mcp__"))
    );
    std::fs::write(&gate, "").unwrap();
    let status = control(&mut session, &json!({"subtype": "mcp_status"}));
    assert_eq!(status["mcpServers"][0]["status"], "connected", "{status}");
    session.prompt("second");
    assert_eq!(session.wait_for_result()["result"], "with");
    assert!(offered(&model, 1).contains(&"mcp__slow__echo".to_owned()));
    // What was there before stands where it stood, byte for byte.
    let tools = |request: usize| model.requests()[request].body["tools"].clone();
    let (before, after) = (tools(0), tools(1));
    let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
    assert!(after.len() > before.len() && after.starts_with(before));
    let told = sent(&model, 1);
    assert!(
        told.contains("The MCP server slow is connected now"),
        "{told}"
    );
    assert_eq!(session.close().code(), Some(0));
    model.finish();
    nothing_left(&home);
}

#[test]
fn twenty_servers_start_together() {
    let model = model([Reply::text("ok")]);
    let home = TestHome::with_server(&model);
    let mut servers = serde_json::Map::new();
    for number in 0..20 {
        servers.insert(format!("s{number}"), fixture(&[]));
    }
    let servers = config(&Value::Object(servers));
    let mut session = lathe_testkit::StreamJson::start(&home, ["--mcp-config", &servers]);
    let status = control(&mut session, &json!({"subtype": "mcp_status"}));
    let all = status["mcpServers"].as_array().unwrap();
    assert_eq!(all.len(), 20);
    assert!(
        all.iter().all(|server| server["status"] == "connected"),
        "{status}"
    );
    session.prompt("hi");
    session.wait_for_result();
    assert!(offered(&model, 0).contains(&"mcp__s19__echo".to_owned()));
    assert_eq!(session.close().code(), Some(0));
    nothing_left(&home);
}

#[test]
fn a_server_that_dies_in_a_call_is_reported_once_and_the_session_continues() {
    let model = model([
        Reply::tool_use("mcp__local__die", json!({})),
        Reply::tool_use("mcp__local__die", json!({})),
        Reply::text("It is gone."),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let output = home.run(
        [
            "-p",
            "die",
            "--mcp-config",
            &servers,
            "--allowedTools",
            "mcp__local",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(output.stdout, "It is gone.\n");
    let lines: Vec<&str> = output.stderr.lines().collect();
    let mut once = lines.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), lines.len(), "told twice: {}", output.stderr);
    model.finish();
    nothing_left(&home);
}

#[test]
fn a_list_that_changes_in_a_turn_is_used_from_the_next_request() {
    let model = model([
        Reply::tool_use("mcp__local__change", json!({"name": "brandnew"})),
        Reply::tool_use("mcp__local__echo", json!({"text": "a"})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let output = settled_turn(
        &home,
        &["--mcp-config", &servers, "--allowedTools", "mcp__local"],
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    // The notification may be heard a moment after the answer, but not later than the next call's.
    assert!(!offered(&model, 0).contains(&"mcp__local__brandnew".to_owned()));
    assert!(offered(&model, 2).contains(&"mcp__local__brandnew".to_owned()));
    let told = sent(&model, 2);
    assert!(
        told.contains("New tools of the MCP server local: mcp__local__brandnew"),
        "{told}"
    );
    model.finish();
}

#[test]
fn a_large_answer_goes_to_a_file_with_a_preview() {
    let model = model([
        Reply::tool_use("mcp__local__echo", json!({"text": "word ".repeat(2_000)})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&model).variable("MAX_MCP_OUTPUT_TOKENS", "500");
    let servers = config(&json!({"local": fixture(&[])}));
    let output = home.run(
        [
            "-p",
            "x",
            "--mcp-config",
            &servers,
            "--allowedTools",
            "mcp__local",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let results = sent(&model, 1);
    assert!(
        results.contains("too large to show") && results.contains("tool-results"),
        "{results}"
    );
    model.finish();
}

#[test]
fn prompts_are_commands_and_resources_are_mentions() {
    let model = model([Reply::text("one"), Reply::text("two")]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let output = home.run(
        ["-p", "/mcp__local__greet Ada", "--mcp-config", &servers],
        "",
    );
    assert_eq!(output.stdout, "one\n", "{}", output.stderr);
    assert!(sent(&model, 0).contains("Greet Ada"), "{}", sent(&model, 0));
    let output = home.run(
        [
            "-p",
            "what is @local:note://1 about?",
            "--mcp-config",
            &servers,
        ],
        "",
    );
    assert_eq!(output.stdout, "two\n", "{}", output.stderr);
    let told = sent(&model, 1);
    assert!(
        told.contains("words") && told.contains("note://1"),
        "{told}"
    );
    // What is missing is said, and no model is asked.
    let output = home.run(["-p", "/mcp__local__greet", "--mcp-config", &servers], "");
    assert_eq!(output.code(), Some(1));
    assert!(
        format!("{}{}", output.stdout, output.stderr).contains("<who>"),
        "{output:?}"
    );
    model.finish();
}

#[test]
fn a_server_that_gives_out_files_is_no_way_around_the_rules_for_reading() {
    let model = model([
        Reply::tool_use(
            "ReadMcpResource",
            json!({"server": "local", "uri": "FILE:///nowhere/%2Eenv"}),
        ),
        Reply::text("ok"),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let more = [
        "--mcp-config",
        &servers,
        "--allowedTools",
        "ReadMcpResource",
    ];
    let output = settled_turn(&home, &more);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let told = sent(&model, 1);
    assert!(
        told.contains("may contain secrets") && !told.contains("words"),
        "{told}"
    );
    let prompt = format!(
        "see @local:file://{}/.env and @local:note://1",
        home.project().display()
    );
    let output = home.run(["-p", &prompt, "--mcp-config", &servers], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        output.stderr.contains("/.env was not attached"),
        "{}",
        output.stderr
    );
    let told = sent(&model, 2);
    assert_eq!(told.matches("The user mentioned").count(), 1, "{told}");
    model.finish();
}

#[test]
fn resources_can_be_listed_and_read_by_the_model() {
    let model = model([
        Reply::tool_use("ListMcpResources", json!({})),
        Reply::tool_use(
            "ReadMcpResource",
            json!({"server": "local", "uri": "note://7"}),
        ),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let output = settled_turn(
        &home,
        &[
            "--mcp-config",
            &servers,
            "--allowedTools",
            "ReadMcpResource",
        ],
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        sent(&model, 1).contains("note://{id}"),
        "{}",
        sent(&model, 1)
    );
    assert!(sent(&model, 2).contains("words"), "{}", sent(&model, 2));
    model.finish();
}

#[test]
fn a_hook_answers_a_servers_question_and_without_one_it_is_declined() {
    let model = model([
        Reply::tool_use("mcp__local__elicit", json!({})),
        Reply::text("ok"),
        Reply::tool_use("mcp__local__elicit", json!({})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let arguments = [
        "-p",
        "x",
        "--mcp-config",
        &servers,
        "--allowedTools",
        "mcp__local",
    ];
    let output = home.run(arguments, "");
    assert!(sent(&model, 1).contains("decline"), "{}", sent(&model, 1));
    assert!(
        output.stderr.contains("local asked") && output.stderr.contains("Elicitation hook"),
        "{}",
        output.stderr
    );
    let answer = r#"{"hookSpecificOutput":{"hookEventName":"Elicitation","action":"accept","content":{"name":"Grace"}}}"#;
    let settings = json!({"hooks": {"Elicitation": [{"matcher": "local", "hooks": [
        {"type": "command", "command": format!("echo '{answer}'")}]}]}});
    std::fs::write(home.config().join("settings.json"), settings.to_string()).unwrap();
    let output = home.run(arguments, "");
    assert!(
        sent(&model, 3).contains("Grace"),
        "{}\n{}",
        sent(&model, 3),
        output.stderr
    );
    model.finish();
}

#[test]
fn a_server_that_asks_the_model_needs_confirmation_each_time() {
    let model = model([
        Reply::tool_use("mcp__local__sample", json!({})),
        Reply::text("ok"),
        Reply::tool_use("mcp__local__sample", json!({})),
        Reply::text("a model's words"),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let arguments = [
        "-p",
        "x",
        "--output-format",
        "json",
        "--mcp-config",
        &servers,
        "--allowedTools",
        "mcp__local",
    ];
    assert_eq!(home.run(arguments, "").code(), Some(0));
    assert!(
        sent(&model, 1).contains("no user to approve"),
        "{}",
        sent(&model, 1)
    );
    let answer = r#"{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}"#;
    let settings = json!({"hooks": {"PermissionRequest": [{"matcher": "mcp__local__sampling", "hooks": [
        {"type": "command", "command": format!("echo '{answer}'")}]}]}});
    std::fs::write(home.config().join("settings.json"), settings.to_string()).unwrap();
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        sent(&model, 4).contains("a model's words"),
        "{}",
        sent(&model, 4)
    );
    // The server's question counts to the session.
    let models = output.result()["modelUsage"].as_object().unwrap().clone();
    let requests: u64 = models
        .values()
        .map(|usage| usage["outputTokens"].as_u64().unwrap())
        .sum();
    assert!(requests > 0 && models.len() == 2, "{models:?}");
    model.finish();
}

#[test]
fn ten_thousand_tools_wait_to_be_looked_for() {
    let model = model([
        Reply::tool_use("ToolSearch", json!({"query": "select:mcp__many__t9999"})),
        Reply::text("found"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"many": fixture(&["many=10000"])}));
    let mut session = lathe_testkit::StreamJson::start(&home, ["--mcp-config", &servers]);
    let status = control(&mut session, &json!({"subtype": "mcp_status"}));
    assert_eq!(status["mcpServers"][0]["status"], "connected");
    session.prompt("find");
    session.wait_for_result();
    assert!(offered(&model, 0).contains(&"ToolSearch".to_owned()));
    assert!(
        !offered(&model, 0)
            .iter()
            .any(|name| name.starts_with("mcp__"))
    );
    assert_eq!(session.close().code(), Some(0));
}

#[test]
fn a_malicious_server_shadows_nothing_and_steers_nothing() {
    let model = model([Reply::text("ok")]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"evil": fixture(&["evil"])}));
    let output = settled_turn(&home, &["--mcp-config", &servers]);
    let names = offered(&model, 0);
    assert_eq!(names.iter().filter(|name| *name == "Bash").count(), 1);
    assert!(names.contains(&"mcp__evil__Bash".to_owned()), "{names:?}");
    assert!(names.iter().all(|name| name.len() <= 128));
    assert!(!output.stderr.contains('\u{1b}') && !output.stdout.contains('\u{1b}'));
    model.finish();
}

#[test]
fn a_host_sends_servers_settings_and_deny_rules_in_its_first_request() {
    let model = model([
        Reply::tool_use("mcp__local__echo", json!({"text": "hello there"})),
        Reply::text("It said so."),
    ]);
    let home = TestHome::with_server(&model);
    let flags = [
        "--await-initialize",
        "--initialize-fields",
        "settings,disallowedTools",
    ];
    let mut host = lathe_testkit::StreamJson::start(&home, flags);
    let request = json!({
        "subtype": "initialize",
        "mcpServers": {"local": fixture(&[]), "broken": 7},
        "settings": {"permissions": {"allow": ["mcp__local__echo"]}},
        "disallowedTools": ["WebFetch"],
    });
    let applied = |answer: &Value| {
        let answer = &answer["response"]["response"];
        [
            "mcp_servers_applied",
            "settings_applied",
            "disallowed_tools_applied",
        ]
        .map(|field| answer[field].clone())
    };
    let answer = host.control(&request);
    assert_eq!(applied(&answer), [true, true, true], "{answer}");
    control(&mut host, &json!({"subtype": "mcp_status"}));
    host.prompt("echo");
    let init = host.wait_for(|frame| frame["subtype"] == "init");
    let servers = init["mcp_servers"].to_string();
    assert!(servers.contains("broken"), "{servers}");
    let tools = init["tools"].to_string();
    assert!(tools.contains("mcp__local__echo"), "{tools}");
    assert!(!tools.contains("WebFetch"), "{tools}");
    host.wait_for_result();
    assert!(sent(&model, 1).contains("hello there"));
    // The same again is what the session started with; others are not read any more.
    assert_eq!(applied(&host.control(&request)), [true, true, true]);
    let other = json!({
        "subtype": "initialize", "mcpServers": {}, "settings": {}, "disallowedTools": ["Read"],
    });
    assert_eq!(applied(&host.control(&other)), [false, false, false]);
    let none = applied(&host.control(&json!({"subtype": "initialize"})));
    assert_eq!(none, [Value::Null, Value::Null, Value::Null]);
    assert_eq!(host.close().code(), Some(0));
    model.finish();
    nothing_left(&home);
}
