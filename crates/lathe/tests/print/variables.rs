//! The effect of settings and environment variables, also under the names of the ecosystem.

use super::server;
use lathe_scripted::{BlockingServer, Reply};
use lathe_testkit::TestHome;
use serde_json::{Value, json};

fn first_request(server: &BlockingServer) -> Value {
    server.requests()[0].body.clone()
}

/// The first request of a run with variables and settings.
fn request_with(variables: &[(&str, &str)], settings: &Value) -> Value {
    let server = server([Reply::text("Fine.")]);
    let mut home = TestHome::with_server(&server);
    for (name, value) in variables {
        home = home.variable(*name, *value);
    }
    let settings = settings.to_string();
    let output = home.run(["-p", "x", "--settings", &settings], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    first_request(&server)
}

/// The output of a shell command.
fn command_output(variables: &[(&str, &str)], commands: &[&str], flags: &[&str]) -> Vec<String> {
    let calls = commands
        .iter()
        .map(|command| Reply::tool_use("Bash", json!({"command": command})));
    let server = server(calls.chain([Reply::text("Done.")]));
    let mut home = TestHome::with_server(&server);
    for (name, value) in variables {
        home = home.variable(*name, *value);
    }
    std::fs::create_dir_all(home.project().join("inner")).unwrap();
    let arguments = [&["-p", "x", "--allowedTools", "Bash"], flags].concat();
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    server.requests()[1..]
        .iter()
        .map(|request| {
            let messages = request.body["messages"].as_array().unwrap();
            messages.last().unwrap()["content"].to_string()
        })
        .collect()
}

fn has_cache_markers(request: &Value) -> bool {
    request.to_string().contains("cache_control")
}

#[test]
fn the_effort_of_the_environment_overrides_settings() {
    let settings = json!({"effort": "high"});
    let request = request_with(&[("CLAUDE_CODE_EFFORT_LEVEL", "low")], &settings);
    assert_eq!(request["output_config"]["effort"], "low");
    let request = request_with(&[("CLAUDE_CODE_EFFORT_LEVEL", "auto")], &settings);
    assert_eq!(request["output_config"]["effort"], Value::Null);
}

#[test]
fn the_prompt_cache_is_chosen_by_setting_and_variable() {
    let none = json!({});
    assert!(has_cache_markers(&request_with(&[], &none)));
    for variables in [
        &[("DISABLE_PROMPT_CACHING", "1")][..],
        &[("LATHE_PROMPT_CACHE", "off")],
        &[
            ("ANTHROPIC_MODEL", "opus"),
            ("DISABLE_PROMPT_CACHING_OPUS", "1"),
        ],
        &[
            ("ANTHROPIC_MODEL", "haiku"),
            ("DISABLE_PROMPT_CACHING_HAIKU", "1"),
        ],
        &[
            ("ANTHROPIC_MODEL", "sonnet"),
            ("DISABLE_PROMPT_CACHING_SONNET", "1"),
        ],
        &[
            ("ANTHROPIC_MODEL", "fable"),
            ("DISABLE_PROMPT_CACHING_FABLE", "1"),
        ],
    ] {
        assert!(
            !has_cache_markers(&request_with(variables, &none)),
            "{variables:?}"
        );
    }
    let other = [
        ("ANTHROPIC_MODEL", "opus"),
        ("DISABLE_PROMPT_CACHING_HAIKU", "1"),
    ];
    assert!(has_cache_markers(&request_with(&other, &none)));
    for settings in [
        json!({"promptCacheTtl": "1h"}),
        json!({"promptCache": "1h"}),
    ] {
        let request = request_with(&[], &settings);
        assert!(request.to_string().contains("\"ttl\":\"1h\""), "{settings}");
    }
}

#[test]
fn fields_for_a_gateway_are_added_to_every_body() {
    let body = r#"{"metadata": {"user_id": "team-a"}}"#;
    let request = request_with(&[("CLAUDE_CODE_EXTRA_BODY", body)], &json!({}));
    assert_eq!(request["metadata"]["user_id"], "team-a");
    let home = TestHome::new()
        .variable("CLAUDE_CODE_EXTRA_BODY", "[1]")
        .variable("ANTHROPIC_API_KEY", "x");
    let wrong = home.run(["-p", "x"], "");
    assert_ne!(wrong.code(), Some(0));
    assert!(
        wrong.stderr.contains("CLAUDE_CODE_EXTRA_BODY"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn without_experiments_no_beta_is_requested() {
    let betas = |variables: &[(&str, &str)]| {
        let server = server([Reply::text("Fine.")]);
        let mut home = TestHome::with_server(&server);
        for (name, value) in variables {
            home = home.variable(*name, *value);
        }
        let output = home.run(["-p", "x", "--betas", "some-beta"], "");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        let request = server.requests()[0].clone();
        request
            .header("anthropic-beta")
            .unwrap_or_default()
            .to_owned()
    };
    assert!(betas(&[]).contains("some-beta"));
    let off = ("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "1");
    assert_eq!(betas(&[off]), "");
    assert_eq!(betas(&[off, ("ANTHROPIC_BETAS", "mine")]), "mine");
}

#[test]
fn memory_is_neither_kept_nor_read_without_auto_memory() {
    let prompt =
        |variables: &[(&str, &str)]| request_with(variables, &json!({}))["system"].to_string();
    assert!(prompt(&[]).contains("memory"));
    let off = prompt(&[("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1")]);
    assert!(!off.contains("/memory"), "{off}");
}

#[test]
fn nothing_is_said_of_git_without_git_instructions() {
    let told = |settings: Value, variables: &[(&str, &str)]| {
        let server = server([Reply::text("Fine.")]);
        let mut home = TestHome::with_server(&server);
        for (name, value) in variables {
            home = home.variable(*name, *value);
        }
        home.git_init();
        assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
        let settings = settings.to_string();
        assert_eq!(
            home.run(["-p", "x", "--settings", &settings], "").code(),
            Some(0)
        );
        first_request(&server)["system"]
            .to_string()
            .contains("Commit messages end")
    };
    let lines = json!({"includeCoAuthoredBy": true});
    assert!(told(lines.clone(), &[]));
    let mut without = lines.clone();
    without["includeGitInstructions"] = false.into();
    assert!(!told(without, &[]));
    assert!(!told(
        lines.clone(),
        &[("CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS", "1")]
    ));
    let mut hidden = lines;
    hidden["attribution"] = false.into();
    assert!(!told(hidden, &[]));
}

#[test]
fn commands_know_the_session_and_its_effort() {
    let command =
        "echo \"id=$CLAUDE_CODE_SESSION_ID same=$LATHE_SESSION_ID effort=$CLAUDE_EFFORT\"";
    let id = "7f8f1c52-5a3a-4a2e-9f2c-1d2e3f4a5b6c";
    let said = command_output(&[], &[command], &["--session-id", id, "--effort", "low"]);
    assert!(
        said[0].contains(&format!("id={id} same={id} effort=low")),
        "{said:?}"
    );
    let unsaid = command_output(&[], &["echo effort=$CLAUDE_EFFORT"], &[]);
    assert!(unsaid[0].contains("effort=high"), "{unsaid:?}");
}

#[test]
fn the_working_folder_stays_where_the_variable_says_so() {
    let commands = ["cd inner && touch here", "pwd"];
    let moved = command_output(&[], &commands, &[]);
    assert!(moved[1].contains("/inner"), "{moved:?}");
    let variable = ("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR", "1");
    let kept = command_output(&[variable], &commands, &[]);
    assert!(!kept[1].contains("/inner"), "{kept:?}");
}

#[test]
fn commands_are_handed_to_the_prefix() {
    let variable = ("CLAUDE_CODE_SHELL_PREFIX", "printf 'got:%s'");
    let said = command_output(&[variable], &["touch 'it is'"], &[]);
    assert!(said[0].contains("got:touch 'it is'"), "{said:?}");
}

#[test]
fn the_window_of_the_environment_counts() {
    let usage = |variables: &[(&str, &str)]| {
        let mut home = TestHome::new();
        for (name, value) in variables {
            home = home.variable(*name, *value);
        }
        let shown = home.run(["context", "--json"], "");
        let usage: Value = serde_json::from_str(&shown.stdout).expect(&shown.stderr);
        let number = |key: &str| usage[key].as_u64().unwrap();
        (number("window"), number("compact_at"))
    };
    let (window, compact_at) = usage(&[]);
    let small = usage(&[("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "50000")]);
    assert_eq!(small.0, 50_000);
    let half = usage(&[("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "50")]);
    assert_eq!(half, (window, window / 2));
    let early = usage(&[("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "60000")]);
    assert!(early.1 < 60_000 && early.1 < compact_at, "{early:?}");
}

#[test]
fn skills_are_offered_as_settings_say() {
    let listing = |how: &str| {
        let server = server([Reply::text("Fine.")]);
        let home = TestHome::with_server(&server);
        let skill = "---\ndescription: sings old songs\n---\nla\n";
        home.write(".lathe/skills/sing/SKILL.md", skill);
        assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
        let settings = json!({"skillOverrides": {"sing": how}}).to_string();
        assert_eq!(
            home.run(["-p", "x", "--settings", &settings], "").code(),
            Some(0)
        );
        let text = first_request(&server)["messages"].to_string();
        (text.contains("- sing"), text.contains("sings old songs"))
    };
    assert_eq!(listing("on"), (true, true));
    assert_eq!(listing("name-only"), (true, false));
    assert_eq!(listing("user-invocable-only"), (false, false));
    assert_eq!(listing("off"), (false, false));
}

#[test]
fn thinking_is_not_summarised_where_settings_say_so() {
    let display = |settings: Value| {
        let variables = [("ANTHROPIC_MODEL", "opus")];
        request_with(&variables, &settings)["thinking"]["display"].clone()
    };
    assert_eq!(display(json!({})), "summarized");
    assert_eq!(display(json!({"showThinkingSummaries": false})), "omitted");
}
