//! Every flag that the official SDKs pass, in the spelling of each: `--flag value` (Python) and
//! `--flag=value` (TypeScript). A flag that is taken and does nothing would go unnoticed, so each has an
//! effect that is looked for: in the request, in the frames, or in the folders.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario};
use lathe_testkit::{Output, TestHome, transcript};
use serde_json::{Value, json};

/// The result of a run.
struct Run<'a> {
    home: &'a TestHome,
    request: RecordedRequest,
    frames: Vec<Value>,
    output: Output,
}

impl Run<'_> {
    fn frame(&self, kind: &str, subtype: &str) -> Option<&Value> {
        self.frames.iter().find(|frame| {
            frame["type"] == kind && (subtype.is_empty() || frame["subtype"] == subtype)
        })
    }

    fn init(&self) -> &Value {
        self.frame("system", "init").unwrap()
    }

    fn result(&self) -> &Value {
        self.frame("result", "").unwrap()
    }

    fn beta(&self, name: &str) -> bool {
        let betas = self.request.header("anthropic-beta").unwrap_or_default();
        betas.split(',').any(|beta| beta.trim() == name)
    }
}

/// A model that is asked to make a folder when the prompt says so, and answers otherwise.
fn model() -> BlockingServer {
    let call = Reply::tool_use("Bash", json!({"command": "mkdir made"}));
    BlockingServer::start(Scenario::new().responder(move |request| {
        if request.last_user_text().contains("CALL-IT") && request.last_results().is_empty() {
            call.clone()
        } else {
            Reply::text("fine")
        }
    }))
    .unwrap()
}

/// Runs one prompt with these flags to the end.
fn run<'a>(home: &'a TestHome, server: &BlockingServer, flags: &[String], prompt: &str) -> Run<'a> {
    let mut arguments: Vec<String> = [
        "--output-format=stream-json",
        "--verbose",
        "--input-format=stream-json",
    ]
    .map(str::to_owned)
    .into();
    arguments.extend_from_slice(flags);
    let prompt = if prompt.is_empty() { "hello" } else { prompt };
    let words = json!({"type": "user", "message": {"role": "user", "content": prompt}});
    let before = server.message_requests().len();
    let output = home.run(&arguments, format!("{words}\n"));
    let frames = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let request = server.message_requests().get(before).cloned();
    Run {
        home,
        request: request.unwrap_or_else(|| panic!("{flags:?} asked no model: {output:?}")),
        frames,
        output,
    }
}

type Effect = Box<dyn Fn(&Run<'_>) -> bool>;

fn effect(check: impl Fn(&Run<'_>) -> bool + 'static) -> Effect {
    Box::new(check)
}

/// A folder with a plugin that brings a skill and an MCP server.
fn plugin(home: &TestHome) -> String {
    home.write(
        "clockwork/.claude-plugin/plugin.json",
        json!({"name": "clockwork", "version": "1.0.0", "description": "for clocks",
            "mcpServers": {"tower": {"command": "false"}}})
        .to_string(),
    );
    home.write(
        "clockwork/skills/oiling/SKILL.md",
        "---\nname: oiling\ndescription: how clocks are oiled\n---\nOne drop.\n",
    );
    home.project().join("clockwork").display().to_string()
}

fn valued_flags(home: &TestHome) -> Vec<(&'static str, String, &'static str, Effect)> {
    let path = |name: &str| home.project().join(name).display().to_string();
    home.write("prompt.md", "Words of a file.");
    home.write("elsewhere/.claude/settings.json", r#"{"language":"Latin"}"#);
    home.write("beside/keep", "");
    std::fs::write(
        home.config().join("settings.json"),
        r#"{"language":"Welsh"}"#,
    )
    .unwrap();
    let id = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff";
    let plugin = plugin(home);
    let says = |words: &'static str| effect(move |run| run.request.system_text().contains(words));
    let brings_plugin = |servers: usize| {
        effect(move |run| {
            run.init()["plugins"][0]["name"] == "clockwork"
                && run.init()["mcp_servers"].as_array().unwrap().len() == servers
        })
    };
    let text = str::to_owned;
    vec![
        (
            "--system-prompt",
            text("Only this."),
            "",
            effect(|run| run.request.system_text() == "Only this."),
        ),
        ("--system-prompt", text("- a list"), "", says("- a list")),
        (
            "--system-prompt",
            text(""),
            "",
            effect(|run| run.request.system_text().is_empty()),
        ),
        (
            "--system-prompt-file",
            path("prompt.md"),
            "",
            says("Words of a file."),
        ),
        (
            "--append-system-prompt",
            text("-And this."),
            "",
            says("-And this."),
        ),
        (
            "--tools",
            text("Read,Bash"),
            "",
            effect(|run| run.request.tool_names() == ["Bash", "Read"]),
        ),
        (
            "--tools",
            text(""),
            "",
            effect(|run| run.request.tool_names().is_empty()),
        ),
        (
            "--tools",
            text("default"),
            "",
            effect(|run| run.request.tool_names().len() > 10),
        ),
        (
            "--allowedTools",
            text("Bash(mkdir:*),Read"),
            "CALL-IT",
            effect(|run| run.home.project().join("made").is_dir()),
        ),
        (
            "--disallowedTools",
            text("Bash,Skill(x)"),
            "",
            effect(|run| !run.request.tool_names().contains(&"Bash")),
        ),
        (
            "--max-turns",
            text("1"),
            "CALL-IT",
            effect(|run| run.result()["subtype"] == "error_max_turns"),
        ),
        (
            "--max-budget-usd",
            text("0.0000001"),
            "CALL-IT",
            effect(|run| run.result()["subtype"] == "error_max_budget_usd"),
        ),
        (
            "--task-budget",
            text("5000"),
            "",
            effect(|run| {
                run.request.body["output_config"]["task_budget"]["total"] == 5000
                    && run.beta("task-budgets-2026-03-13")
            }),
        ),
        (
            "--model",
            text("claude-haiku-4-5"),
            "",
            effect(|run| {
                run.request.body["model"]
                    .as_str()
                    .unwrap()
                    .starts_with("claude-haiku-4-5")
            }),
        ),
        (
            "--fallback-model",
            text("claude-haiku-4-5"),
            "",
            effect(|run| run.result()["is_error"] == false),
        ),
        (
            "--betas",
            text("one-2026-01-01,two-2026-01-01"),
            "",
            effect(|run| run.beta("one-2026-01-01") && run.beta("two-2026-01-01")),
        ),
        (
            "--permission-mode",
            text("acceptEdits"),
            "",
            effect(|run| run.init()["permissionMode"] == "acceptEdits"),
        ),
        (
            "--permission-mode",
            text("dontAsk"),
            "CALL-IT",
            effect(|run| run.result()["permission_denials"][0]["tool_name"] == "Bash"),
        ),
        (
            "--permission-prompts",
            text("none"),
            "CALL-IT",
            effect(|run| run.result()["permission_denials"][0]["tool_name"] == "Bash"),
        ),
        (
            "--session-id",
            text(id),
            "",
            effect(move |run| run.init()["session_id"] == id),
        ),
        (
            "--settings",
            text(r#"{"language":"Greek"}"#),
            "",
            says("Answer in Greek"),
        ),
        (
            "--settings",
            path("elsewhere/.claude/settings.json"),
            "",
            says("Answer in Latin"),
        ),
        (
            "--managed-settings",
            text(r#"{"language":"Norse"}"#),
            "",
            says("Answer in Norse"),
        ),
        (
            "--setting-sources",
            text(""),
            "",
            effect(|run| !run.request.system_text().contains("Answer in")),
        ),
        (
            "--setting-sources",
            text("user,project"),
            "",
            says("Answer in Welsh"),
        ),
        ("--add-dir", path("beside"), "", says("beside")),
        (
            "--mcp-config",
            text(r#"{"mcpServers":{"gone":{"command":"false"}}}"#),
            "",
            effect(|run| run.init()["mcp_servers"][0]["name"] == "gone"),
        ),
        ("--plugin-dir", plugin.clone(), "", brings_plugin(1)),
        ("--plugin-dir-no-mcp", plugin, "", brings_plugin(0)),
        (
            "--thinking",
            text("disabled"),
            "",
            effect(|run| {
                matches!(
                    run.request.body["thinking"]["type"].as_str(),
                    None | Some("disabled")
                )
            }),
        ),
        (
            "--thinking",
            text("adaptive"),
            "",
            effect(|run| run.request.body["thinking"]["type"] == "adaptive"),
        ),
        (
            "--max-thinking-tokens",
            text("0"),
            "",
            effect(|run| {
                let thinking = &run.request.body["thinking"];
                thinking.is_null() || thinking["type"] == "disabled"
            }),
        ),
        (
            "--effort",
            text("low"),
            "",
            effect(|run| run.request.body["output_config"]["effort"] == "low"),
        ),
        (
            "--json-schema",
            text(r#"{"type":"object"}"#),
            "",
            effect(|run| run.request.tool_names().contains(&"StructuredOutput")),
        ),
        (
            "--agents",
            text(r#"{"watcher":{"description":"watches","prompt":"You watch."}}"#),
            "",
            effect(|run| {
                run.init()["agents"]
                    .as_array()
                    .unwrap()
                    .contains(&json!("watcher"))
            }),
        ),
        (
            "--debug-file",
            path("debug.log"),
            "",
            effect(|run| {
                run.home.project().join("debug.log").is_file() && run.output.stderr.is_empty()
            }),
        ),
    ]
}

#[test]
fn a_flag_with_a_value_has_its_effect_in_both_spellings() {
    let server = model();
    let home = TestHome::with_server(&server);
    for (flag, value, prompt, has_effect) in valued_flags(&home) {
        for flags in [
            vec![flag.to_owned(), value.clone()],
            vec![format!("{flag}={value}")],
        ] {
            for left in ["made", "debug.log"] {
                let _ = std::fs::remove_dir(home.project().join(left));
                let _ = std::fs::remove_file(home.project().join(left));
            }
            let _ = std::fs::remove_dir_all(home.config().join("projects"));
            let run = run(&home, &server, &flags, prompt);
            assert!(
                has_effect(&run),
                "{flags:?} has no effect\n{:#}\n{:#?}",
                run.request.body,
                run.output
            );
        }
    }
}

#[test]
fn a_flag_without_a_value_has_its_effect() {
    let server = model();
    let home = TestHome::with_server(&server);
    home.write("elsewhere/.claude/settings.json", r#"{"language":"Latin"}"#);
    let hook =
        r#"{"hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"true"}]}]}}"#;
    let elsewhere = home.project().join("elsewhere").display().to_string();
    let run_with = |flags: &[&str]| {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        run(&home, &server, &flags, "")
    };
    let has = |run: &Run<'_>, kind: &str, subtype: &str| run.frame(kind, subtype).is_some();

    assert!(has(
        &run_with(&["--include-partial-messages"]),
        "stream_event",
        ""
    ));
    assert!(!has(&run_with(&[]), "stream_event", ""));
    let with_hook = ["--settings", hook];
    assert!(!has(&run_with(&with_hook), "system", "hook_response"));
    let shown = run_with(&[&with_hook[..], &["--include-hook-events"]].concat());
    assert!(has(&shown, "system", "hook_response"));
    let replayed = run_with(&["--replay-user-messages"]);
    assert!(
        replayed
            .frames
            .iter()
            .any(|frame| frame["isReplay"] == true)
    );
    assert!(has(
        &run_with(&["--session-mirror"]),
        "transcript_mirror",
        ""
    ));
    let plugin = format!("--plugin-dir={}", plugin(&home));
    let usual = run_with(&[&plugin]);
    assert_eq!(usual.init()["mcp_servers"].as_array().unwrap().len(), 1);
    let strict = run_with(&[&plugin, "--strict-mcp-config"]);
    assert_eq!(strict.init()["mcp_servers"], json!([]));
    let rooted = run_with(&[
        "--setting-sources=project",
        &format!("--project-config-root={elsewhere}"),
    ]);
    assert!(rooted.request.system_text().contains("Answer in Latin"));

    // The conversation continues, a copy has an id of its own, and without a transcript there is none.
    let first = run_with(&[]).init()["session_id"].clone();
    let continued = run_with(&["--continue"]);
    assert_eq!(continued.init()["session_id"], first);
    assert_eq!(continued.request.messages().len(), 3);
    let copied = run_with(&["--continue", "--fork-session"]);
    assert_ne!(copied.init()["session_id"], first);
    assert!(copied.request.messages().len() > 3);
    let before = transcript::of_home(&home).len();
    run_with(&["--no-session-persistence"]);
    assert_eq!(transcript::of_home(&home).len(), before);

    // Taken as they are: what they ask for is always so, or is asked for later.
    for flags in [
        &["--await-initialize"][..],
        &["--await-initialize", "--managed-settings-in-initialize"],
        &[
            "--await-initialize",
            "--initialize-fields=settings,disallowedTools",
        ],
        &["--allow-dangerously-skip-permissions"],
    ] {
        let run = run_with(flags);
        assert_eq!(run.result()["is_error"], false, "{flags:?}");
        assert_eq!(run.output.stderr, "", "{flags:?}");
    }
    for flag in ["--debug", "--debug-to-stderr", "--debug=debug"] {
        assert!(!run_with(&[flag]).output.stderr.is_empty(), "{flag}");
    }
    assert_eq!(server.problems(), Vec::<String>::new());
}
