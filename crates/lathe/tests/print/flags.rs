//! The effect of flags.

use super::server;
use lathe_scripted::{BlockingServer, Reply};
use lathe_testkit::TestHome;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Runs with flags; gives what was printed, and the first request.
fn asked(home: &TestHome, server: &BlockingServer, arguments: &[&str]) -> (String, Value) {
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(0), "{arguments:?}: {}", output.stderr);
    let request = server.requests().last().unwrap().body.clone();
    (output.stdout, request)
}

fn one() -> (BlockingServer, TestHome) {
    let server = server([Reply::text("Fine.")]);
    let home = TestHome::with_server(&server);
    (server, home)
}

#[test]
fn a_short_v_prints_the_version() {
    let home = TestHome::new();
    let long = home.run(["--version"], "").stdout;
    assert!(long.starts_with("lathe "), "{long}");
    for flag in ["-v", "-V"] {
        assert_eq!(home.run([flag], "").stdout, long);
    }
}

#[test]
fn manual_is_the_default_mode() {
    let (server, home) = one();
    let arguments = [
        "-p",
        "x",
        "--permission-mode",
        "manual",
        "--output-format",
        "stream-json",
    ];
    let (stdout, _) = asked(&home, &server, &arguments);
    assert!(
        stdout.contains("\"permissionMode\":\"default\""),
        "{stdout}"
    );
}

#[test]
fn the_effort_auto_sends_none_whatever_settings_say() {
    let server = server([Reply::text("One."), Reply::text("Two.")]);
    let home = TestHome::with_server(&server);
    let settings = r#"{"effort": "low"}"#;
    let (_, request) = asked(&home, &server, &["-p", "x", "--settings", settings]);
    assert_eq!(request["output_config"]["effort"], "low", "{request}");
    let arguments = ["-p", "x", "--settings", settings, "--effort", "auto"];
    let (_, request) = asked(&home, &server, &arguments);
    assert_eq!(request["output_config"]["effort"], Value::Null);
}

#[test]
fn a_name_is_the_title_by_which_the_session_is_resumed() {
    let server = server([Reply::text("One."), Reply::text("Two.")]);
    let home = TestHome::with_server(&server);
    asked(&home, &server, &["-p", "first words", "-n", "release plan"]);
    let listed = home.run(["sessions", "list"], "").stdout;
    assert!(listed.contains("release plan"), "{listed}");
    let (_, request) = asked(&home, &server, &["-p", "go on", "--resume", "release plan"]);
    assert!(request["messages"].to_string().contains("first words"));
}

fn customised(home: &TestHome) {
    home.write("AGENTS.md", "Speak Latin.\n");
    home.write(
        ".lathe/skills/sing/SKILL.md",
        "---\ndescription: sings songs\n---\nla\n",
    );
    home.write(
        ".lathe/settings.json",
        json!({
            "language": "Klingon",
            "hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo a hook spoke"}]}]},
        })
        .to_string(),
    );
    home.write(
        ".mcp.json",
        r#"{"mcpServers": {"none": {"command": "/nonexistent/server"}}}"#,
    );
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
}

#[test]
fn bare_and_safe_mode_leave_out_what_was_added() {
    let server = server([
        Reply::text("1"),
        Reply::text("2"),
        Reply::text("3"),
        Reply::text("4"),
    ]);
    let home = TestHome::with_server(&server);
    customised(&home);
    let (_, whole) = asked(&home, &server, &["-p", "x"]);
    let whole = whole.to_string();
    for part in ["Speak Latin", "Klingon", "a hook spoke", "sings songs"] {
        assert!(whole.contains(part), "{part}");
    }
    let (_, safe) = asked(&home, &server, &["-p", "x", "--safe-mode"]);
    let safe = safe.to_string();
    for part in ["Speak Latin", "a hook spoke", "sings songs"] {
        assert!(!safe.contains(part), "{part}");
    }
    assert!(safe.contains("Klingon"), "settings stay");
    let (_, bare) = asked(&home, &server, &["-p", "x", "--bare"]);
    let bare = bare.to_string();
    for part in ["Speak Latin", "Klingon", "a hook spoke", "sings songs"] {
        assert!(!bare.contains(part), "{part}");
    }
    let named = [
        "-p",
        "x",
        "--bare",
        "--settings",
        r#"{"language": "Elvish"}"#,
    ];
    let (_, named) = asked(&home, &server, &named);
    assert!(named.to_string().contains("Elvish"));
}

#[test]
fn restricted_treats_a_trusted_folder_as_untrusted() {
    let (server, home) = one();
    customised(&home);
    let (_, request) = asked(&home, &server, &["-p", "x", "--restricted"]);
    assert!(!request.to_string().contains("a hook spoke"));
}

#[test]
fn without_slash_commands_there_are_no_skills() {
    let (server, home) = one();
    customised(&home);
    let (_, request) = asked(&home, &server, &["-p", "x", "--disable-slash-commands"]);
    assert!(!request.to_string().contains("sings songs"));
    assert!(request.to_string().contains("Speak Latin"));
}

#[test]
fn autocompact_sets_when_the_conversation_is_compacted() {
    let home = TestHome::new();
    let at = || {
        let usage = home.run(["context", "--json"], "");
        let usage: Value = serde_json::from_str(&usage.stdout).expect(&usage.stderr);
        usage["compact_at"].as_u64().unwrap()
    };
    let usual = at();
    let set = home.run(["config", "set", "autoCompactWindow", "60000"], "");
    assert_eq!(set.code(), Some(0), "{}", set.stderr);
    let early = at();
    assert!(early < 60_000 && early < usual, "{early} {usual}");
    let (server, home) = one();
    asked(&home, &server, &["-p", "x", "--autocompact", "60000"]);
    let wrong = home.run(["-p", "x", "--autocompact", "soon"], "");
    assert_eq!(wrong.code(), Some(2));
    assert!(
        wrong.stderr.contains("number of tokens"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn what_varies_can_be_told_outside_of_the_system_prompt() {
    let (server, home) = one();
    let flag = "--exclude-dynamic-system-prompt-sections";
    let (_, request) = asked(&home, &server, &["-p", "x", flag]);
    let folder = home.project().display().to_string();
    assert!(!request["system"].to_string().contains(&folder));
    assert!(request["messages"].to_string().contains(&folder));
}

#[test]
fn a_session_is_resumed_by_the_pull_request_that_it_mentions() {
    let server = server([Reply::text("1"), Reply::text("2"), Reply::text("3")]);
    let home = TestHome::with_server(&server);
    asked(
        &home,
        &server,
        &["-p", "see https://host.example/o/r/pull/12 please"],
    );
    asked(
        &home,
        &server,
        &["-p", "see https://host.example/o/r/pull/123 please"],
    );
    let (_, request) = asked(&home, &server, &["-p", "go on", "--from-pr", "12"]);
    let text = request["messages"].to_string();
    assert!(text.contains("pull/12 please"), "{text}");
    let none = home.run(["-p", "x", "--from-pr", "7"], "");
    assert_eq!(none.code(), Some(1));
    assert!(none.stderr.contains("/pull/7"), "{}", none.stderr);
    assert_eq!(
        home.run(["-p", "x", "--from-pr", "main"], "").code(),
        Some(2)
    );
}

/// A PNG of one pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1F, 0x15, 0xC4, 0x89, 0, 0, 0, 13, b'I', b'D', b'A', b'T',
    0x78, 0x9C, 0x63, 0xF8, 0xCF, 0xC0, 0xF0, 0x1F, 0, 5, 0, 1, 0xFF, 0x89, 0x99, 0x3D, 0x1D, 0, 0,
    0, 0, b'I', b'E', b'N', b'D', 0xAE, 0x42, 0x60, 0x82,
];

#[test]
fn an_image_of_the_command_line_goes_with_the_prompt() {
    let (server, home) = one();
    home.write("dot.png", PIXEL);
    let (_, request) = asked(&home, &server, &["-p", "what is it?", "-i", "dot.png"]);
    let text = request["messages"][0]["content"].to_string();
    assert!(
        text.contains("\"image\"") && text.contains("what is it?"),
        "{text}"
    );
    home.write("not.png", "text");
    let wrong = home.run(["-p", "x", "--image", "not.png"], "");
    assert_eq!(wrong.code(), Some(2), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("not.png"), "{}", wrong.stderr);
}

#[test]
fn the_answer_is_written_to_a_file_too() {
    let (server, home) = one();
    asked(&home, &server, &["-p", "x", "-o", "answer.txt"]);
    assert_eq!(home.read("answer.txt"), "Fine.");
}

#[test]
fn a_setting_of_the_command_line_wins() {
    let (server, home) = one();
    let arguments = ["-p", "x", "-c", "language=Welsh", "--config", "effort=high"];
    let (_, request) = asked(&home, &server, &arguments);
    assert!(request["system"].to_string().contains("Welsh"));
    assert_eq!(request["output_config"]["effort"], "high");
    let wrong = home.run(["-p", "x", "-c", "effort=huge"], "");
    assert_eq!(wrong.code(), Some(2), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("effort"), "{}", wrong.stderr);
}

#[test]
fn the_second_sigterm_exits_with_143() {
    let server = server([Reply::text("Fine.")]);
    let home = TestHome::with_server(&server);
    let hook = json!({"hooks": {"SessionEnd": [{"hooks": [
        {"type": "command", "command": "touch ending; sleep 100", "timeout": 100}
    ]}]}});
    let running = home.spawn(["-p", "x", "--settings", &hook.to_string()]);
    let ending = home.project().join("ending");
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !ending.exists() && std::time::Instant::now() < limit {
        std::thread::yield_now();
    }
    assert!(ending.exists(), "the session ends");
    running.signal(Signal::SIGTERM);
    running.signal(Signal::SIGTERM);
    assert_eq!(running.finish().code(), Some(143));
}

#[test]
fn plugin_i_installs() {
    let home = TestHome::new();
    let output = home.run(["plugin", "i", "nothing@nowhere"], "");
    assert_eq!(output.code(), Some(2), "{}", output.stderr);
    assert!(
        output.stderr.contains("no marketplace nowhere"),
        "{}",
        output.stderr
    );
}

#[test]
fn commands_in_the_background_end_with_the_session_unless_the_flag_keeps_them() {
    let command = "setsid sh -c 'until [ -e stop ]; do sleep 0.05; done; touch stopped' & echo up";
    let start = json!({"command": command, "run_in_background": true});
    for kept in [false, true] {
        let server = server([
            Reply::tool_use("Bash", start.clone()),
            Reply::text("It runs."),
        ]);
        let home = TestHome::with_server(&server);
        let mut arguments = vec!["-p", "go", "--allowedTools", "Bash", "--no-sandbox"];
        arguments.extend(kept.then_some("--keep-background"));
        let output = home.run(arguments, "");
        assert_eq!(output.code(), Some(0), "{output:#?}");
        assert_eq!(output.stdout, "It runs.\n");
        if kept {
            assert!(
                output.stderr.contains("Kept running: setsid"),
                "{output:#?}"
            );
            home.write("stop", "");
            let start = std::time::Instant::now();
            while !home.project().join("stopped").exists() {
                assert!(start.elapsed() < lathe_testkit::HANG_LIMIT, "it was ended");
                std::thread::yield_now();
            }
        } else {
            let named = output.stderr.contains("Ended with the session: setsid");
            assert!(named, "{output:#?}");
            lathe_testkit::processes::assert_none_left(&home);
        }
    }
}

#[test]
fn goal_and_token_budget_keep_a_print_run_at_work() {
    let replies = (0..7).map(|number| Reply::text(format!("Round {number}.")));
    let server = server(replies.collect::<Vec<_>>());
    let home = TestHome::with_server(&server);
    // The command succeeds the second time.
    let goal = "!test -e seen || { touch seen; exit 3; }";
    let (stdout, request) = asked(&home, &server, &["-p", "x", "--goal", goal]);
    assert!(stdout.contains("Round 1."), "{stdout}");
    assert!(request.to_string().contains("exit code 3"), "{request}");
    let (stdout, request) = asked(&home, &server, &["-p", "x", "--token-budget", "100k"]);
    // Three continuations that bring little end it.
    assert!(stdout.contains("Round 5."), "{stdout}");
    assert!(request.to_string().contains("of the 100000 output tokens"));
    let unmet = r#"{"goalMaxRounds": 0}"#;
    let output = home.run(["-p", "x", "--goal", "!false", "--settings", unmet], "");
    assert_eq!(output.code(), Some(1), "{output:?}");
    assert!(
        output.stderr.contains("the goal is not reached: !false"),
        "{output:?}"
    );
    for wrong in [["--goal", " "], ["--token-budget", "much"]] {
        let output = home.run([&["-p", "x"][..], &wrong[..]].concat(), "");
        assert_eq!(output.code(), Some(2), "{output:?}");
        assert!(output.stderr.contains(wrong[0]), "{output:?}");
    }
}

#[test]
fn a_coordinator_only_directs() {
    let (server, home) = one();
    let (_, request) = asked(&home, &server, &["-p", "x", "--coordinator"]);
    let tools = request["tools"].to_string();
    assert!(
        tools.contains("\"Agent\"") && tools.contains("\"SendMessage\""),
        "{tools}"
    );
    assert!(
        !tools.contains("\"Bash\"") && !tools.contains("\"Read\""),
        "{tools}"
    );
    assert!(request["system"].to_string().contains("You direct workers"));
}
