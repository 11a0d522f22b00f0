//! Hooks of a session in print mode: what they may refuse, ask for, say and export.

use super::{last_user_text, server};
use lathe_scripted::Reply;
use lathe_testkit::TestHome;
use serde_json::{Value, json};

#[test]
fn hooks_of_settings_run_and_can_refuse() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "echo hi"})),
        Reply::text("refused, I see"),
    ]);
    let home = TestHome::with_server(&server);
    let hook = json!({"hooks": {"PreToolUse": [
        {"matcher": "Bash", "hooks": [
            {"type": "command", "command": "echo 'not on my watch' >&2; exit 2"}
        ]},
        {"matcher": "Write", "hooks": [{"type": "command", "command": "touch of-another-tool"}]},
    ]}});
    home.write(home.config().join("settings.json"), hook.to_string());
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.stdout, "refused, I see\n");
    assert!(!home.project().join("of-another-tool").exists());
    assert!(last_user_text(&server, 1).contains("not on my watch"));
    server.finish();
}

#[test]
fn variables_that_a_session_start_hook_exports_reach_later_commands() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "echo \"have $GREETING\""})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    let hook = json!({"hooks": {"SessionStart": [{"hooks": [
        {"type": "command", "command": "test \"$LATHE_ENV_FILE\" = \"$CLAUDE_ENV_FILE\" && echo 'export GREETING=hello' >> \"$LATHE_ENV_FILE\"; echo 'Today is a good day.'"}
    ]}]}});
    home.write(home.config().join("settings.json"), hook.to_string());
    let output = home.run(["-p", "hi", "--allowedTools", "Bash"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        server.requests()[0].body["messages"]
            .to_string()
            .contains("Today is a good day.")
    );
    assert!(
        last_user_text(&server, 1).contains("have hello"),
        "{}",
        last_user_text(&server, 1)
    );
    server.finish();
}

#[test]
fn a_stop_hook_sends_the_model_back_to_work_but_not_for_ever() {
    let server = server((0..9).map(|_| Reply::text("finished")));
    let home = TestHome::with_server(&server);
    let hook = json!({"hooks": {"Stop": [{"hooks": [
        {"type": "command", "command": "echo '{\"decision\": \"block\", \"reason\": \"tests are missing\"}'"}
    ]}]}});
    home.write(home.config().join("settings.json"), hook.to_string());
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.code(), Some(0));
    assert_eq!(
        server.requests().len(),
        9,
        "the first answer and eight objections"
    );
    assert!(last_user_text(&server, 1).contains("tests are missing"));
    assert!(
        output.stderr.contains("tests are missing"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_hook_may_ask_a_model_and_its_answer_is_used() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "echo hi"}))
            .when(lathe_scripted::When::system_contains("You are Lathe")),
        Reply::text(r#"{"ok": false, "reason": "echo is not welcome here"}"#)
            .when(lathe_scripted::When::system_contains("You check one event")),
        Reply::text("refused").when(lathe_scripted::When::tool_result_for("Bash")),
    ]);
    let home = TestHome::with_server(&server);
    let hook = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
        {"type": "prompt", "prompt": "No echo, please. $ARGUMENTS", "continueOnBlock": true}
    ]}]}});
    home.write(home.config().join("settings.json"), hook.to_string());
    let output = home.run(["-p", "hi", "--allowedTools", "Bash"], "");
    assert_eq!(output.stdout, "refused\n", "{}", output.stderr);
    let asked = server.requests()[1].body.clone();
    assert!(asked["messages"].to_string().contains("echo hi"));
    assert_ne!(
        asked["model"],
        server.requests()[0].body["model"],
        "the small model answers"
    );
    assert!(last_user_text(&server, 2).contains("echo is not welcome here"));
    server.finish();
}

#[test]
fn a_prompt_hook_asks_the_model_that_it_names() {
    let server = server([
        Reply::text(r#"{"ok": true}"#)
            .when(lathe_scripted::When::system_contains("You check one event")),
        Reply::text("done").when(lathe_scripted::When::system_contains("You are Lathe")),
    ]);
    let home = TestHome::with_server(&server);
    let hook = json!({"hooks": {"UserPromptSubmit": [{"hooks": [
        {"type": "prompt", "prompt": "Fine? $ARGUMENTS", "model": "claude-sonnet-4-5"}
    ]}]}});
    home.write(home.config().join("settings.json"), hook.to_string());
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.stdout, "done\n", "{}", output.stderr);
    assert_eq!(server.requests()[0].body["model"], "claude-sonnet-4-5");
    server.finish();
}

#[test]
fn a_hook_may_send_an_agent_that_looks_and_gives_a_verdict() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "echo hi"}))
            .when(lathe_scripted::When::system_contains("You are Lathe")),
        Reply::tool_use("Read", json!({"file_path": "rules.txt"}))
            .when(lathe_scripted::When::system_contains("You check one event")),
        Reply::tool_use(
            "GiveVerdict",
            json!({"ok": false, "reason": "rules.txt forbids it"}),
        )
        .when(lathe_scripted::When::tool_result_for("Read")),
        Reply::text("done").when(lathe_scripted::When::tool_result_for("GiveVerdict")),
        Reply::text("refused").when(lathe_scripted::When::tool_result_for("Bash")),
    ]);
    let home = TestHome::with_server(&server);
    home.write("rules.txt", "no echo\n");
    let hook = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
        {"type": "agent", "prompt": "Check rules.txt. $ARGUMENTS"}
    ]}]}});
    home.write(home.config().join("settings.json"), hook.to_string());
    let output = home.run(
        [
            "-p",
            "hi",
            "--allowedTools",
            "Bash",
            "--output-format",
            "json",
        ],
        "",
    );
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["result"], "refused", "{}", output.stderr);
    assert_eq!(
        result["modelUsage"].as_object().unwrap().len(),
        2,
        "its cost counts to the session"
    );
    let last = server.requests().len() - 1;
    assert!(last_user_text(&server, last).contains("rules.txt forbids it"));
    server.finish();
}

#[test]
fn a_hook_can_not_allow_what_a_deny_rule_or_a_hard_check_stops() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "touch made"})),
        Reply::tool_use(
            "Write",
            json!({"file_path": ".git/hooks/pre-commit", "content": "x"}),
        ),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    let yes = r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'"#;
    let hook = json!({
        "permissions": {"deny": ["Bash(touch:*)"]},
        "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": yes}]}]},
    });
    home.write(home.config().join("settings.json"), hook.to_string());
    let output = home.run(["-p", "hi", "--output-format", "json"], "");
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        result["permission_denials"].as_array().unwrap().len(),
        2,
        "{result}"
    );
    assert!(!home.project().join("made").exists());
    assert!(!home.project().join(".git/hooks/pre-commit").exists());
    server.finish();
}

/// Settings in which a hook of each of these events writes its input to a file.
fn keeps_inputs(home: &TestHome, events: &[&str]) {
    let file = home.project().join("inputs.jsonl");
    let command = format!(
        "tr -d '\\n' >> {0}; echo >> {0}; env | grep '^CLAUDE_' > {1}",
        file.display(),
        home.project().join("variables").display()
    );
    let hooks: serde_json::Map<String, Value> = events
        .iter()
        .map(|event| {
            let hook = json!([{"hooks": [{"type": "command", "command": command}]}]);
            ((*event).to_owned(), hook)
        })
        .collect();
    let settings = json!({"hooks": hooks});
    home.write(home.config().join("settings.json"), settings.to_string());
}

fn inputs(home: &TestHome) -> Vec<Value> {
    let text = home.read("inputs.jsonl");
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn hooks_are_told_the_prompt_the_effort_and_what_an_event_is_about() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "echo one"}))
            .with_tool_use("Bash", json!({"command": "echo two"})),
        Reply::tool_use("Read", json!({"file_path": "sub/a.txt"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    home.write("sub/AGENTS.md", "Here: no semicolons.\n");
    home.write("sub/a.txt", "x\n");
    keeps_inputs(
        &home,
        &[
            "SessionStart",
            "InstructionsLoaded",
            "UserPromptExpansion",
            "UserPromptSubmit",
            "PostToolBatch",
            "MessageDisplay",
            "Stop",
        ],
    );
    home.write("AGENTS.md", "Be brief.\n");
    home.write(".lathe/commands/hello.md", "Say hello to $ARGUMENTS\n");
    let arguments = [
        "-p",
        "/hello world",
        "--effort",
        "low",
        "--allowedTools",
        "Bash",
    ];
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let inputs = inputs(&home);
    let of = |event: &str| {
        let found = inputs
            .iter()
            .find(|input| input["hook_event_name"] == event);
        found.unwrap_or_else(|| panic!("{event} is missing: {inputs:#?}"))
    };
    assert!(of("SessionStart")["model"].is_string());
    let loaded = of("InstructionsLoaded");
    assert_eq!(
        loaded["file_path"],
        home.project().join("AGENTS.md").display().to_string()
    );
    assert_eq!(loaded["memory_type"], "Project");
    assert_eq!(loaded["load_reason"], "session_start");
    assert_eq!(loaded.get("effort"), None, "nobody tries yet");
    let started = |event: &str| {
        let mut all = inputs.iter();
        all.position(|input| input["hook_event_name"] == event)
    };
    assert!(started("SessionStart") < started("InstructionsLoaded"));
    let nested = inputs
        .iter()
        .find(|input| input["load_reason"] == "nested_traversal");
    let nested = nested.unwrap_or_else(|| panic!("{inputs:#?}"));
    assert_eq!(nested["effort"]["level"], "low");
    assert_eq!(
        nested["trigger_file_path"],
        home.project().join("sub/a.txt").display().to_string()
    );
    let expansion = of("UserPromptExpansion");
    assert_eq!(expansion["command_source"], "projectSettings");
    assert_eq!(expansion["expansion_type"], "slash_command");
    let prompt = &of("UserPromptSubmit")["prompt_id"];
    assert!(prompt.is_string());
    for event in [
        "UserPromptExpansion",
        "PostToolBatch",
        "MessageDisplay",
        "Stop",
    ] {
        assert_eq!(&of(event)["prompt_id"], prompt, "{event}");
    }
    let batch = of("PostToolBatch");
    assert_eq!(batch["effort"]["level"], "low");
    let calls = batch["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "{batch}");
    assert_eq!(calls[1]["tool_input"]["command"], "echo two");
    assert_eq!(calls[1]["tool_response"], "two");
    assert_eq!(of("MessageDisplay")["delta"], "done");
    assert_eq!(of("Stop")["background_tasks"], json!([]));
    let variables = home.read("variables");
    for wanted in [
        "CLAUDE_CODE_SESSION_ID=",
        "CLAUDE_CODE_ENTRYPOINT=sdk-cli",
        "CLAUDE_EFFORT=low",
    ] {
        assert!(variables.contains(wanted), "{wanted} is not in {variables}");
    }
    server.finish();
}

#[test]
fn the_hooks_of_an_agent_know_the_prompt_of_the_session_and_the_effort_of_the_agent() {
    let server = server([
        Reply::tool_use(
            "Agent",
            json!({"description": "look", "prompt": "Look.", "subagent_type": "scout", "run_in_background": false}),
        ),
        Reply::tool_use("Bash", json!({"command": "echo from the agent"})),
        Reply::text("looked"),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    keeps_inputs(
        &home,
        &[
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "SubagentStop",
        ],
    );
    home.write(
        ".lathe/agents/scout.md",
        "---\nname: scout\ndescription: looks around\neffort: low\n---\nYou look around.\n",
    );
    let output = home.run(
        ["-p", "go", "--effort", "medium", "--allowedTools", "Bash"],
        "",
    );
    assert_eq!(output.stdout, "done\n", "{output:#?}");
    let inputs = inputs(&home);
    let told = |event: &str, tool: &str| {
        let found = inputs.iter().find(|input| {
            input["hook_event_name"] == event && (tool.is_empty() || input["tool_name"] == tool)
        });
        found.unwrap_or_else(|| panic!("{event} {tool} is missing: {inputs:#?}"))
    };
    let prompt = &told("UserPromptSubmit", "")["prompt_id"];
    assert!(prompt.is_string());
    for (event, tool, effort) in [
        ("PreToolUse", "Agent", "medium"),
        ("PreToolUse", "Bash", "low"),
        ("PostToolUse", "Bash", "low"),
        ("SubagentStop", "", "low"),
        ("PostToolUse", "Agent", "medium"),
    ] {
        let input = told(event, tool);
        assert_eq!(&input["prompt_id"], prompt, "{event} {tool}");
        assert_eq!(input["effort"]["level"], effort, "{event} {tool}");
    }
    let answer = &told("PostToolUse", "Agent")["tool_response"];
    assert!(answer["resolvedModel"].is_string(), "{answer}");
    assert!(
        answer["usage"]["output_tokens"].as_u64().unwrap() > 0,
        "{answer}"
    );
    server.finish();
}

#[test]
fn hooks_hear_once_of_a_worktree_that_is_entered_and_left() {
    let server = server([
        Reply::tool_use("EnterWorktree", json!({"name": "fix"})),
        Reply::tool_use("ExitWorktree", json!({"action": "remove"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    home.write("file", "content");
    home.git_init();
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    keeps_inputs(&home, &["CwdChanged"]);
    let allowed = ["-p", "go", "--allowedTools", "EnterWorktree,ExitWorktree"];
    let output = home.run(allowed, "");
    assert_eq!(output.stdout, "done\n", "{output:#?}");
    let project = home.project().display().to_string();
    let tree = home.project().join(".lathe/worktrees/fix");
    let tree = tree.display().to_string();
    let moves: Vec<_> = inputs(&home)
        .iter()
        .map(|input| ["old_cwd", "new_cwd"].map(|field| input[field].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(
        moves,
        [
            [project.clone(), tree.clone()],
            [tree.clone(), project.clone()]
        ]
    );
    server.finish();
}

/// A `PermissionRequest` hook that approves everything, with what it sends along.
fn approving(home: &TestHome, extra: &str, permissions: &Value) {
    let answer = format!(
        r#"{{"hookSpecificOutput": {{"hookEventName": "PermissionRequest", "decision": {{"behavior": "allow"{extra}}}}}}}"#
    );
    let file = home.write("approve.json", answer);
    let command = format!("cat '{}'", file.display());
    let settings = json!({
        "permissions": permissions,
        "hooks": {"PermissionRequest": [{"hooks": [{"type": "command", "command": command}]}]},
    });
    home.write(home.config().join("settings.json"), settings.to_string());
}

#[test]
fn a_permission_request_hook_does_not_answer_what_needs_a_person() {
    let calls = [
        json!({"command": "echo x >> ~/.bashrc"}),
        json!({"command": "cat .env"}),
        json!({"command": "curl -s http://127.0.0.1:9/x; cat .env"}),
        json!({"command": "make deploy"}),
        json!({"command": "touch made.txt"}),
    ];
    let replies = calls
        .iter()
        .map(|call| Reply::tool_use("Bash", call.clone()))
        .chain([Reply::text("ok")]);
    let server = server(replies);
    let home = TestHome::with_server(&server);
    home.write(".env", "PASSWORD=hunter2\n");
    approving(&home, "", &json!({"ask": ["Bash(make deploy:*)"]}));
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    for request in 1..=4 {
        let result = server.requests()[request].last_results()[0].clone();
        assert_eq!(result["is_error"], true, "{request}: {result}");
        assert!(!result.to_string().contains("hunter2"), "{result}");
    }
    assert!(!home.home().join(".bashrc").exists());
    // An ordinary question is what such hooks are for.
    assert!(home.project().join("made.txt").exists());
}

#[test]
fn what_a_permission_request_hook_changes_is_judged_again_and_widens_nothing() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "touch a"})),
        Reply::tool_use("Bash", json!({"command": "rm -f keep.txt"})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    home.write("keep.txt", "x");
    approving(
        &home,
        r#", "updatedInput": {"command": "echo x >> ~/.bashrc"}, "updatedPermissions": [
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
            {"type": "removeRules", "rules": [{"toolName": "Bash", "ruleContent": "rm:*"}], "behavior": "deny", "destination": "userSettings"},
            {"type": "addDirectories", "directories": ["/"], "destination": "session"}]"#,
        &json!({"deny": ["Bash(rm:*)"]}),
    );
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(!home.home().join(".bashrc").exists());
    assert!(home.project().join("keep.txt").exists());
    let settings = home.read(home.config().join("settings.json"));
    assert!(settings.contains("Bash(rm:*)"), "{settings}");
}

#[test]
fn the_condition_of_a_hook_is_a_permission_rule() {
    let calls = [
        "cd sub && rm x",
        "timeout 5 rm x",
        "/bin/rm x",
        "ls | xargs rm",
        "true; rm x",
    ];
    let replies = calls
        .iter()
        .map(|call| Reply::tool_use("Bash", json!({"command": call})))
        .chain([
            Reply::tool_use(
                "Write",
                json!({"file_path": "./src/../src/a.rs", "content": "x"}),
            ),
            Reply::tool_use("Bash", json!({"command": "echo farm x"})),
            Reply::text("ok"),
        ]);
    let server = server(replies);
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    let hooks = json!({"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": "echo 'not by rule' >&2; exit 2", "if": "Bash(rm:*)"},
        {"type": "command", "command": "echo 'not by rule' >&2; exit 2", "if": "Edit(/src/**)"},
    ]}]}});
    home.write(home.config().join("settings.json"), hooks.to_string());
    std::fs::create_dir_all(home.project().join("src")).unwrap();
    let output = home.run(
        [
            "-p",
            "hi",
            "--dangerously-skip-permissions",
            "--add-dir",
            ".",
        ],
        "",
    );
    let requests = server.requests();
    for (request, call) in (1..).zip(calls) {
        let result = requests[request].last_results()[0].to_string();
        assert!(
            result.contains("not by rule"),
            "{call}: {result} {}",
            output.stderr
        );
    }
    let written = requests[calls.len() + 1].last_results()[0].to_string();
    assert!(written.contains("not by rule"), "{written}");
    let fine = requests[calls.len() + 2].last_results()[0].to_string();
    assert!(!fine.contains("not by rule"), "{fine}");
}

#[test]
fn hooks_and_commands_do_not_get_our_keys() {
    let server = server([
        Reply::tool_use(
            "Bash",
            json!({"command": "echo \"key=[$ANTHROPIC_API_KEY$ANTHROPIC_AUTH_TOKEN]\"; printenv > env.txt"}),
        ),
        Reply::tool_use(
            "Bash",
            json!({"command": "echo \"cloud=[$AWS_SECRET_ACCESS_KEY]\""}),
        ),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server)
        .variable("ANTHROPIC_API_KEY", "model-secret")
        .variable("AWS_SECRET_ACCESS_KEY", "cloud-secret")
        .variable("CDPATH", "/");
    let dump = home.root().join("hook.txt");
    let asked = home.root().join("asked.txt");
    let hook = |file: &std::path::Path| format!("printenv > '{}'", file.display());
    let hooks = json!({"hooks": {"SessionStart": [{"hooks": [
        {"type": "command", "command": hook(&dump)},
        {"type": "command", "command": hook(&asked), "allowedEnvVars": ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]},
    ]}]}});
    home.write(home.config().join("settings.json"), hooks.to_string());
    let output = home.run(["-p", "hi", "--allowedTools", "Bash(printenv:*),Edit"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let token = "model-secret";
    let dumped = std::fs::read_to_string(&dump).unwrap();
    assert!(!dumped.contains(token), "{dumped}");
    assert!(std::fs::read_to_string(&asked).unwrap().contains(token));
    let requests = server.requests();
    let first = requests[1].last_results()[0].to_string();
    assert!(!first.contains(token), "{first}");
    let printed = std::fs::read_to_string(home.project().join("env.txt")).unwrap_or_default();
    assert!(
        !printed.contains(token) && !printed.contains("CDPATH"),
        "{printed}"
    );
    // Nobody was asked about this one, so it sees no secret at all.
    let second = requests[2].last_results()[0].to_string();
    assert!(!second.contains("cloud-secret"), "{second}");
}

#[test]
fn an_agent_hook_without_a_verdict_is_asked_again() {
    let contains = lathe_scripted::When::last_user_text_contains;
    let server = server([
        Reply::text("I would say yes").when(contains("Judge the prompt")),
        Reply::tool_use(
            "GiveVerdict",
            json!({"ok": false, "reason": "it is too late"}),
        )
        .when(contains("not given your verdict")),
        Reply::text("noted").when(lathe_scripted::When::tool_result_for("GiveVerdict")),
    ]);
    let home = TestHome::with_server(&server);
    let settings = json!({"hooks": {"UserPromptSubmit": [{"hooks": [
        {"type": "agent", "prompt": "Judge the prompt: $ARGUMENTS"}
    ]}]}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let output = home.run(["-p", "work at night"], "");
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(said.contains("it is too late"), "{output:#?}");
    server.finish();
}

#[test]
fn an_agent_hook_can_read_the_transcript() {
    let id = "55555555-5555-4555-8555-555555555555";
    let home = TestHome::new();
    let key: String = home
        .project()
        .canonicalize()
        .unwrap()
        .to_string_lossy()
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect();
    let transcript = home.config().join(format!("projects/{key}/{id}.jsonl"));
    let server = server([
        Reply::text("The answer is 42."),
        Reply::tool_use("Read", json!({"file_path": transcript})).when(
            lathe_scripted::When::last_user_text_contains("Look at the transcript"),
        ),
        Reply::tool_use("GiveVerdict", json!({"ok": true}))
            .when(lathe_scripted::When::tool_result_for("Read")),
        Reply::text("fine").when(lathe_scripted::When::tool_result_for("GiveVerdict")),
    ]);
    let home = home.server(&server);
    let settings = json!({"hooks": {"Stop": [{"hooks": [
        {"type": "agent", "prompt": "Look at the transcript: $ARGUMENTS"}
    ]}]}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let output = home.run(["-p", "what is it?", "--session-id", id], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let read = server.requests()[2].last_results()[0].to_string();
    assert!(read.contains("what is it?"), "{read}");
    server.finish();
}
