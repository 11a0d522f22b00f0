//! Restrictions of settings, on the real binary: each holds wherever the thing can be chosen.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_scripted::{BlockingServer, Reply};
use lathe_testkit::{StreamJson, TestHome, server};
use serde_json::json;

/// A home whose settings allow one model only.
fn only_haiku(server: &BlockingServer) -> TestHome {
    let home = TestHome::with_server(server);
    let settings = json!({"availableModels": ["claude-haiku-4-5"], "model": "claude-haiku-4-5"});
    home.write(home.config().join("settings.json"), settings.to_string());
    home
}

#[test]
fn available_models_hold_for_flags_and_variables() {
    let server = server([Reply::text("yes")]);
    let home = only_haiku(&server);
    for arguments in [
        vec!["-p", "hi", "--model", "claude-opus-4-5"],
        vec!["-p", "hi", "--fallback-model", "claude-opus-4-5"],
    ] {
        let output = home.run(arguments.clone(), "");
        assert_ne!(output.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.contains("availableModels"), "{output:#?}");
    }
    let output = home.run(["-p", "hi", "--model", "claude-haiku-4-5"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(server.requests()[0].body["model"], "claude-haiku-4-5");
    let home = home.variable("ANTHROPIC_MODEL", "claude-opus-4-5");
    assert_ne!(home.run(["-p", "hi"], "").code(), Some(0));
    server.finish();
}

#[test]
fn available_models_hold_for_hosts_commands_and_agents() {
    let agent = json!({"description": "d", "prompt": "p", "subagent_type": "general-purpose",
        "model": "opus", "run_in_background": false});
    let server = server([
        Reply::tool_use("Agent", agent),
        Reply::text("from the agent"),
        Reply::text("done"),
    ]);
    let home = only_haiku(&server);
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    let answer = session.control(&json!({"subtype": "initialize", "hooks": null}));
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    let answer = session.control(&json!({"subtype": "set_model", "model": "claude-opus-4-5"}));
    assert_eq!(answer["response"]["subtype"], "error", "{answer}");
    session.prompt("/model claude-opus-4-5");
    let result = session.wait_for_result();
    assert!(
        result["result"]
            .as_str()
            .unwrap()
            .contains("availableModels"),
        "{result}"
    );
    session.prompt("ask an agent");
    assert_eq!(session.wait_for_result()["result"], "done");
    assert_eq!(session.close().code(), Some(0));
    for request in server.message_requests() {
        assert_eq!(request.body["model"], "claude-haiku-4-5");
    }
    server.finish();
}

#[test]
fn instruction_files_of_sources_that_were_not_selected_are_not_loaded() {
    for (sources, user, project, local) in [
        ("user,project,local", true, true, true),
        ("project", false, true, false),
        ("user", true, false, false),
        ("local", false, false, true),
        ("project,local", false, true, true),
        ("", false, false, false),
    ] {
        let server = server([Reply::text("yes")]);
        let home = TestHome::with_server(&server);
        home.write(home.config().join("AGENTS.md"), "words of the user\n");
        home.write("AGENTS.md", "words of the project\n");
        home.write("AGENTS.local.md", "words of the folder's owner\n");
        let output = home.run(["-p", "hi", "--setting-sources", sources], "");
        assert_eq!(output.code(), Some(0), "{sources}: {output:#?}");
        let body = server.requests()[0].body.to_string();
        let has = |words: &str| body.contains(words);
        assert_eq!(
            (
                has("words of the user"),
                has("words of the project"),
                has("words of the folder's owner")
            ),
            (user, project, local),
            "{sources:?}"
        );
        server.finish();
    }
}

#[test]
fn a_mode_that_settings_disable_while_the_session_runs_is_left_at_once() {
    let server = server([Reply::text("one")]);
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    let mut session = StreamJson::start(&home, ["--dangerously-skip-permissions"]);
    session.prompt("hi");
    session.wait_for_result();
    let settings = json!({"permissions": {"disableBypassPermissionsMode": "disable"}});
    home.write(home.config().join("settings.json"), settings.to_string());
    session.wait_for(|frame| {
        frame["content"]
            .as_str()
            .is_some_and(|text| text.contains("disable the mode bypassPermissions"))
    });
    let asked = json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"});
    let answer = session.control(&asked);
    assert_eq!(answer["response"]["subtype"], "error", "{answer}");
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

/// The result of the call that the model made, in the next request.
fn result_of_call(server: &BlockingServer) -> (String, bool) {
    let requests = server.message_requests();
    let blocks = requests[1].body["messages"].as_array().unwrap().iter();
    let mut blocks = blocks.flat_map(|message| message["content"].as_array().cloned());
    let result = blocks.by_ref().flatten();
    let result = result.filter(|block| block["type"] == "tool_result").last();
    let result = result.unwrap();
    let failed = result["is_error"] == true;
    (result["content"].to_string(), failed)
}

/// Runs one call in a home with settings; gives its result and whether it failed.
fn call(
    settings: &serde_json::Value,
    arguments: &[&str],
    tool: &str,
    input: serde_json::Value,
) -> (String, bool) {
    let server = server([Reply::tool_use(tool, input), Reply::text("done")]);
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    home.write(home.config().join("settings.json"), settings.to_string());
    let output = home.run([&["-p", "go"], arguments].concat(), "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let result = result_of_call(&server);
    server.finish();
    result
}

const BYPASS: &[&str] = &["--dangerously-skip-permissions"];

#[test]
fn reads_outside_the_working_directories_are_blocked_in_every_mode() {
    let blocks = json!({"permissions": {"blockReadsOutsideWorkingDirectories": true,
        "allow": ["Read(//etc/**)", "Grep", "Glob"]}});
    for arguments in [
        BYPASS,
        &["--permission-mode", "acceptEdits"],
        &["--allowedTools", "Read"],
    ] {
        for (tool, input) in [
            ("Read", json!({"file_path": "/etc/hostname"})),
            ("Grep", json!({"pattern": ".", "path": "/etc"})),
            ("Glob", json!({"pattern": "*", "path": "/etc"})),
        ] {
            let (text, failed) = call(&blocks, arguments, tool, input);
            assert!(
                failed && text.contains("blockReadsOutside"),
                "{tool}: {text}"
            );
        }
        let (text, failed) = call(
            &blocks,
            arguments,
            "Bash",
            json!({"command": "cat /etc/hostname"}),
        );
        assert!(failed, "nobody can be asked about a command: {text}");
    }
    let (text, failed) = call(
        &json!({}),
        BYPASS,
        "Read",
        json!({"file_path": "/etc/hostname"}),
    );
    assert!(!failed, "{text}");
    let (text, failed) = call(
        &blocks,
        BYPASS,
        "Bash",
        json!({"command": "echo inside > a; cat a"}),
    );
    assert!(!failed && text.contains("inside"), "{text}");
}

#[test]
fn writes_outside_the_working_directories_and_of_settings_are_blocked_in_every_mode() {
    let blocks = json!({"permissions": {"blockWritesOutsideWorkingDirectories": true,
        "allow": ["Edit(//tmp/**)", "Write"]}});
    let outside = std::env::temp_dir().join(format!("lathe-outside-{}", std::process::id()));
    for path in [outside.to_str().unwrap(), ".lathe/settings.json"] {
        let input = json!({"file_path": path, "content": "x"});
        let (text, failed) = call(&blocks, BYPASS, "Write", input);
        assert!(failed && text.contains("blockWritesOutside"), "{text}");
        assert!(!outside.exists());
    }
    let (text, failed) = call(
        &blocks,
        BYPASS,
        "Write",
        json!({"file_path": "a.txt", "content": "x"}),
    );
    assert!(!failed, "{text}");
}

#[test]
fn a_restriction_of_one_source_is_not_lifted_by_another() {
    let server = server([
        Reply::tool_use("Read", json!({"file_path": "/etc/hostname"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    let on = json!({"permissions": {"blockReadsOutsideWorkingDirectories": true}});
    home.write(home.config().join("settings.json"), on.to_string());
    let off = json!({"permissions": {"blockReadsOutsideWorkingDirectories": false}}).to_string();
    let output = home.run(["-p", "go", BYPASS[0], "--settings", &off], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let (text, failed) = result_of_call(&server);
    assert!(failed && text.contains("blockReadsOutside"), "{text}");
    server.finish();
}

#[test]
fn calls_are_denied_instead_of_prompted_about_and_the_host_is_not_asked() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "touch x"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    let settings = json!({"permissions": {"denyInsteadOfPrompting": true}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut session = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    session.prompt("go");
    let mut asked = false;
    session.wait_for(|frame| {
        asked |= frame["request"]["subtype"] == "can_use_tool";
        frame["type"] == "result"
    });
    assert!(!asked, "the host was asked");
    let (text, failed) = result_of_call(&server);
    assert!(failed, "{text}");
    assert!(!home.project().join("x").exists());
    let tools = server.message_requests()[0].body["tools"].to_string();
    for tool in ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"] {
        assert!(!tools.contains(&format!("\"{tool}\"")), "{tool} is offered");
    }
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

#[test]
fn a_host_is_not_asked_where_a_flag_denies_all_questions() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "touch x"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    let flags = ["--permission-prompt-tool", "stdio", "--permission-prompts"];
    let mut session = StreamJson::start(&home, flags.into_iter().chain(["none"]));
    session.prompt("go");
    let last = session.wait_for(|frame| {
        frame["request"]["subtype"] == "can_use_tool" || frame["type"] == "result"
    });
    assert_eq!(last["type"], "result", "the host was asked: {last}");
    assert_eq!(last["permission_denials"][0]["tool_name"], "Bash");
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

#[test]
fn a_folder_does_not_decide_that_nobody_is_asked() {
    let home = TestHome::new();
    let settings = json!({"permissions": {"denyInsteadOfPrompting": true}});
    home.write(".lathe/settings.json", settings.to_string());
    let output = home.run(["config", "doctor"], "");
    assert!(
        output
            .stdout
            .contains("not allowed in the files of a folder"),
        "{output:#?}"
    );
}

/// The system prompt of the classifier's request, which judges the first call.
fn notes_of_the_classifier(auto_mode: &serde_json::Value) -> String {
    let verdict = Reply::text(r#"{"verdict": "deny", "reason": "no"}"#);
    let server = server([
        Reply::tool_use("Bash", json!({"command": "make release"})),
        verdict,
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    home.write(
        home.config().join("settings.json"),
        json!({"autoMode": auto_mode}).to_string(),
    );
    let output = home.run(["-p", "go", "--permission-mode", "auto"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let system = server.message_requests()[1].body["system"].to_string();
    server.finish();
    system
}

#[test]
fn the_classifier_is_told_what_settings_say_in_both_spellings() {
    for (soft, hard) in [("softDeny", "hardDeny"), ("soft_deny", "hard_deny")] {
        let mut auto = json!({"allow": ["fine: lint"], "environment": ["a build machine"]});
        auto[soft] = json!(["$defaults", "ask: publish"]);
        auto[hard] = json!(["never: wipe"]);
        let system = notes_of_the_classifier(&auto);
        for words in [
            "fine: lint",
            "a build machine",
            "ask: publish",
            "never: wipe",
        ] {
            assert!(system.contains(words), "{words} of {soft}: {system}");
        }
        assert!(!system.contains("$defaults"));
    }
}

#[test]
fn every_shell_command_is_classified_where_settings_say_so() {
    let deny = r#"{"verdict": "deny", "reason": "not today"}"#;
    for (all, denied) in [(true, true), (false, false)] {
        let mut replies = vec![Reply::tool_use("Bash", json!({"command": "sh build.sh"}))];
        replies.extend(denied.then(|| Reply::text(deny)));
        replies.push(Reply::text("done"));
        let server = server(replies);
        let home = TestHome::with_server(&server);
        let settings = json!({"autoMode": {"classifyAllShell": all},
            "permissions": {"allow": ["Bash(sh build.sh)"]}});
        home.write(home.config().join("settings.json"), settings.to_string());
        home.write("build.sh", "touch made");
        let output = home.run(["-p", "go", "--permission-mode", "auto"], "");
        assert_eq!(output.code(), Some(0), "{output:#?}");
        assert_eq!(home.project().join("made").exists(), !denied);
        server.finish();
    }
}

#[test]
fn auto_mode_is_disabled_by_either_key() {
    for settings in [
        json!({"disableAutoMode": "disable"}),
        json!({"permissions": {"disableAutoMode": "disable"}}),
    ] {
        let server = server([]);
        let home = TestHome::with_server(&server);
        home.write(home.config().join("settings.json"), settings.to_string());
        let output = home.run(["-p", "go", "--permission-mode", "auto"], "");
        assert_ne!(output.code(), Some(0), "{output:#?}");
        assert!(output.stderr.contains("disableAutoMode"), "{output:#?}");
        server.finish();
    }
}

#[test]
fn with_managed_rules_only_neither_files_nor_flags_nor_skills_grant() {
    let policy = json!({"allowManagedPermissionRulesOnly": true,
        "permissions": {"allow": ["Bash(touch policy)"]}})
    .to_string();
    for (command, runs) in [("touch other", false), ("touch policy", true)] {
        let server = server([
            Reply::tool_use("Bash", json!({"command": command})),
            Reply::text("done"),
        ]);
        let home = TestHome::with_server(&server);
        let rules =
            json!({"permissions": {"allow": ["Bash(touch:*)"], "ask": ["Bash(touch policy)"]}});
        home.write(home.config().join("settings.json"), rules.to_string());
        let skill = "---\nname: t\ndescription: t\nallowed-tools: Bash(touch:*)\n---\nTouch.";
        home.write(home.config().join("skills/t/SKILL.md"), skill);
        let arguments = [
            "-p",
            "/t",
            "--allowedTools",
            "Bash(touch:*)",
            "--managed-settings",
            &policy,
        ];
        let output = home.run(arguments, "");
        assert_eq!(output.code(), Some(0), "{output:#?}");
        let (text, failed) = result_of_call(&server);
        assert_eq!(failed, !runs, "{command}: {text}");
        server.finish();
    }
}

#[test]
fn restrictions_that_settings_add_while_the_session_runs_hold_for_the_next_call() {
    let read = || Reply::tool_use("Read", json!({"file_path": "/etc/hostname"}));
    let server = server([read(), Reply::text("one"), read(), Reply::text("two")]);
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    let hook = json!({"ConfigChange": [{"hooks": [{"type": "command", "command": "true"}]}]});
    let mut settings = json!({"hooks": hook});
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut session = StreamJson::start(&home, [BYPASS[0], "--include-hook-events"]);
    session.prompt("hi");
    session.wait_for_result();
    settings["permissions"] = json!({"blockReadsOutsideWorkingDirectories": true});
    home.write(home.config().join("settings.json"), settings.to_string());
    session.wait_for(|frame| frame["hook_event"] == "ConfigChange");
    session.prompt("again");
    session.wait_for_result();
    let last = server.message_requests()[3].body["messages"].to_string();
    assert!(last.contains("blockReadsOutside"), "{last}");
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}
