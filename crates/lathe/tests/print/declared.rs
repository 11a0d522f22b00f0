//! The effect of variables and hook events that no other test shows.

use super::server;
use lathe_scripted::Reply;
use lathe_testkit::TestHome;
use serde_json::{Value, json};

fn request_with(variables: &[(&str, &str)], arguments: &[&str]) -> Value {
    let server = server([Reply::text("Fine.")]);
    let mut home = TestHome::with_server(&server);
    for (name, value) in variables {
        home = home.variable(*name, *value);
    }
    let output = home.run([&["-p", "x"], arguments].concat(), "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    server.requests()[0].body.clone()
}

#[test]
fn short_names_stand_for_the_models_of_the_environment() {
    for (name, variable) in [
        ("fable", "ANTHROPIC_DEFAULT_FABLE_MODEL"),
        ("opus", "ANTHROPIC_DEFAULT_OPUS_MODEL"),
        ("sonnet", "ANTHROPIC_DEFAULT_SONNET_MODEL"),
        ("haiku", "ANTHROPIC_DEFAULT_HAIKU_MODEL"),
    ] {
        let request = request_with(&[(variable, "house-model")], &["--model", name]);
        assert_eq!(request["model"], "house-model", "{variable}");
    }
}

#[test]
fn limits_of_output_and_thinking_come_from_the_environment() {
    let request = request_with(&[("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "1234")], &[]);
    assert_eq!(request["max_tokens"], 1234);
    let thinking = |variables: &[(&str, &str)], settings: &str| {
        let arguments = ["--model", "opus", "--settings", settings];
        request_with(variables, &arguments)["thinking"]["type"].clone()
    };
    // Without thinking, the model has no such field.
    let off = |kind: &Value| kind.is_null() || kind == "disabled";
    assert!(!off(&thinking(&[], "{}")));
    assert!(off(&thinking(&[("MAX_THINKING_TOKENS", "0")], "{}")));
    assert!(off(&thinking(&[], r#"{"maxThinkingTokens": 0}"#)));
}

#[test]
fn a_log_goes_where_the_environment_says() {
    let server = server([Reply::text("1"), Reply::text("2")]);
    let home = TestHome::with_server(&server).variable("LATHE_LOG", "debug");
    let loud = home.run(["-p", "x"], "");
    assert!(loud.stderr.contains("DEBUG"), "{}", loud.stderr);
    let file = home.root().join("log.txt");
    let home = home.variable("LATHE_LOG_FILE", file.display().to_string());
    let quiet = home.run(["-p", "x"], "");
    assert!(!quiet.stderr.contains("DEBUG"), "{}", quiet.stderr);
    assert!(std::fs::read_to_string(file).unwrap().contains("DEBUG"));
}

#[test]
fn files_append_to_the_system_prompt() {
    let server = server([Reply::text("Fine.")]);
    let home = TestHome::with_server(&server);
    home.write("more.txt", "Rhyme always.");
    let output = home.run(["-p", "x", "--append-system-prompt-file", "more.txt"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        server.requests()[0].body["system"]
            .to_string()
            .contains("Rhyme always.")
    );
}

#[test]
fn a_session_ends_at_its_token_limit() {
    let call = || Reply::tool_use("Bash", json!({"command": "echo x"}));
    let server = server([call(), call().optional(), Reply::text("never").optional()]);
    let home = TestHome::with_server(&server);
    let arguments = [
        "-p",
        "x",
        "--allowedTools",
        "Bash",
        "--max-session-tokens",
        "1",
    ];
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(1), "{}", output.stderr);
    assert!(server.requests().len() <= 2, "{}", server.requests().len());
}

#[test]
fn commands_can_tell_that_lathe_runs_them() {
    let call = Reply::tool_use("Bash", json!({"command": "echo inside=$LATHE"}));
    let server = server([call, Reply::text("Done.")]);
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "x", "--allowedTools", "Bash"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        server.requests()[1].body["messages"]
            .to_string()
            .contains("inside=1")
    );
}

#[test]
fn files_are_excluded_from_the_instructions() {
    for key in ["instructionExcludes", "claudeMdExcludes"] {
        let server = server([Reply::text("Fine.")]);
        let home = TestHome::with_server(&server);
        home.write("AGENTS.md", "Speak Latin.\n");
        home.write("CLAUDE.md", "Speak Greek.\n");
        let settings = json!({ (key): ["**/AGENTS.md"] }).to_string();
        let output = home.run(["-p", "x", "--settings", &settings], "");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        let system = server.requests()[0].body["system"].to_string();
        assert!(
            !system.contains("Latin") && system.contains("Greek"),
            "{key}"
        );
    }
}

#[test]
fn other_names_of_settings_have_the_same_effect() {
    let system = |settings: Value| {
        let request = request_with(&[], &["--settings", &settings.to_string()]);
        request["system"].to_string()
    };
    assert!(system(json!({})).contains("/memory"));
    assert!(!system(json!({"autoMemoryEnabled": false})).contains("/memory"));
}

/// The events that hooks saw in a run, in order.
fn events_of(home: &TestHome, arguments: &[&str], events: &[&str]) -> Vec<String> {
    let log = home.root().join("events");
    let command = format!("echo \"$LATHE_HOOK_EVENT\" >> {}", log.display());
    let hooks: serde_json::Map<String, Value> = events
        .iter()
        .map(|event| {
            let hook = json!([{"hooks": [{"type": "command", "command": command}]}]);
            ((*event).to_owned(), hook)
        })
        .collect();
    let settings = json!({ "hooks": hooks }).to_string();
    let _ = home.run([arguments, &["--settings", &settings]].concat(), "");
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn hooks_see_a_failed_call_a_batch_and_a_refusal() {
    let calls = Reply::tool_use("Read", json!({"file_path": "/nonexistent/file"}))
        .with_tool_use("Bash", json!({"command": "touch x"}));
    let server = server([calls, Reply::text("Done.")]);
    let home = TestHome::with_server(&server);
    home.write("AGENTS.md", "Hello.\n");
    let wanted = [
        "InstructionsLoaded",
        "PermissionDenied",
        "PostToolBatch",
        "PostToolUseFailure",
    ];
    let allowed = ["-p", "x", "--allowedTools", "Read(//nonexistent/**)"];
    let seen = events_of(&home, &allowed, &wanted);
    for event in wanted {
        assert!(seen.iter().any(|one| one == event), "{event}: {seen:?}");
    }
}

#[test]
fn hooks_see_a_turn_that_failed() {
    let server = server([Reply::error_with(400, "invalid_request_error", "no").forever()]);
    let home = TestHome::with_server(&server);
    let seen = events_of(&home, &["-p", "x"], &["StopFailure"]);
    assert_eq!(seen, ["StopFailure"]);
}

#[test]
fn hooks_see_a_compaction() {
    let server = server([Reply::text("One."), Reply::text("A summary.").forever()]);
    let home = TestHome::with_server(&server);
    assert_eq!(home.run(["-p", "first"], "").code(), Some(0));
    let wanted = ["PreCompact", "PostCompact"];
    let seen = events_of(&home, &["-p", "/compact", "--continue"], &wanted);
    assert_eq!(seen, wanted);
}

#[test]
fn what_a_summary_costs_is_in_the_result_and_stays_with_the_session() {
    let server = server([Reply::text("One."), Reply::text("A summary.").forever()]);
    let home = TestHome::with_server(&server);
    let cost = |prompt: &str, more: &[&str]| {
        let usual = ["-p", prompt, "--output-format", "json"];
        let output = home.run([&usual[..], more].concat(), "");
        assert_eq!(output.code(), Some(0), "{output:#?}");
        let result: Value = serde_json::from_str(&output.stdout).unwrap();
        result["total_cost_usd"].as_f64().unwrap()
    };
    let before = cost("first", &[]);
    let compacted = cost("/compact", &["--continue"]);
    assert!(before > 0.0 && compacted > before, "{before} {compacted}");
    let later = cost("/cost", &["--continue"]);
    assert!((later - compacted).abs() < 1e-9, "{later} {compacted}");
}

#[test]
fn the_servers_of_claude_desktop_are_imported() {
    let home = TestHome::new();
    let none = home.run(["mcp", "add-from-claude-desktop"], "");
    assert_eq!(none.code(), Some(1));
    let folder = home.home().join(".config/Claude");
    std::fs::create_dir_all(&folder).unwrap();
    let config = r#"{"mcpServers": {"files": {"command": "files-server", "args": ["/"]}}}"#;
    std::fs::write(folder.join("claude_desktop_config.json"), config).unwrap();
    let added = home.run(["mcp", "add-from-claude-desktop"], "");
    assert_eq!(added.code(), Some(0), "{}", added.stderr);
    let settings = std::fs::read_to_string(home.config().join("settings.json")).unwrap();
    assert!(settings.contains("files-server"), "{settings}");
}

#[test]
fn a_style_named_default_applies_where_none_is_chosen() {
    let server = server([Reply::text("Fine.")]);
    let home = TestHome::with_server(&server);
    let file = home.config().join("output-styles/default.md");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(
        file,
        "---\ndescription: mine\nkeep-coding-instructions: true\n---\nTalk like a pirate.\n",
    )
    .unwrap();
    assert_eq!(home.run(["-p", "x"], "").code(), Some(0));
    assert!(
        server.requests()[0].body["system"]
            .to_string()
            .contains("like a pirate")
    );
}

#[test]
fn a_long_instruction_file_is_taken_whole() {
    let server = server([Reply::text("Fine.")]);
    let home = TestHome::with_server(&server);
    let long = format!("{}\nThe last line.\n", "word ".repeat(12_000));
    home.write("AGENTS.md", long);
    assert_eq!(home.run(["-p", "x"], "").code(), Some(0));
    assert!(
        server.requests()[0].body["system"]
            .to_string()
            .contains("The last line.")
    );
}

#[test]
fn rules_with_globs_of_other_tools_always_hold() {
    let server = server([Reply::text("Fine.")]);
    let home = TestHome::with_server(&server);
    home.write(
        ".claude/rules/a.md",
        "---\nglobs: '*.zig'\n---\nMind the gap.\n",
    );
    home.write(
        ".claude/rules/b.md",
        "---\npaths: '*.zig'\n---\nOnly for Zig.\n",
    );
    home.write("CLAUDE.md", "See @README.md.\n");
    home.write("README.md", "A readme.\n");
    assert_eq!(home.run(["-p", "x"], "").code(), Some(0));
    let system = server.requests()[0].body["system"].to_string();
    assert!(
        system.contains("Mind the gap") && system.contains("A readme."),
        "{system}"
    );
    assert!(!system.contains("Only for Zig"));
}
