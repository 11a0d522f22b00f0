//! Print mode on the real binary: what it prints, what it leaves, how it exits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

mod attacks;
mod claude_home;
#[cfg(target_os = "linux")]
mod confined;
mod declared;
mod files;
mod flags;
mod hooks;
#[cfg(unix)]
mod hostile;
mod input;
mod reading;
mod restored;
mod review;
mod terminal_output;
#[cfg(target_os = "linux")]
mod untrusted;
mod variables;

use lathe_scripted::{BlockingServer, Reply};
use lathe_testkit::{TestHome, server};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

fn last_user_text(server: &BlockingServer, request: usize) -> String {
    let body = server.requests()[request].body.clone();
    let messages = body["messages"].as_array().unwrap().clone();
    messages.last().unwrap()["content"].to_string()
}

#[test]
fn a_prompt_gives_its_answer_and_nothing_else() {
    let server = server([Reply::text("Four.")]);
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "two and two?"], "");
    assert_eq!(output.stdout, "Four.\n");
    assert_eq!(output.stderr, "");
    assert_eq!(output.code(), Some(0));
    server.finish();
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_can_not_be_written_is_a_failure_that_says_where_it_is() {
    for format in ["text", "json", "stream-json"] {
        let server = server([Reply::text("Four.")]);
        let home = TestHome::with_server(&server);
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = home
            .command(["-p", "two and two?", "--output-format", format])
            .stdin(std::process::Stdio::null())
            .stdout(full.unwrap())
            .stderr(std::process::Stdio::piped())
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{format}: {errors}");
        assert!(
            errors.contains("standard output") && errors.contains("lathe sessions show"),
            "{format}: {errors}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn help_and_version_that_can_not_be_written_are_failures() {
    let home = TestHome::new();
    for flag in ["--help", "--version", "-h"] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = home
            .command([flag])
            .stdout(full.unwrap())
            .stderr(std::process::Stdio::piped())
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{flag}: {errors}");
        assert!(
            errors.contains("standard output can't be written"),
            "{flag}: {errors}"
        );
    }
}

#[test]
fn wrong_values_are_wrong_usage_and_files_that_can_not_be_written_are_failures() {
    let home = TestHome::new();
    for (words, code, says) in [
        (
            vec!["config", "set", "a..b", "1"],
            2,
            "a part of it is empty",
        ),
        (vec!["config", "get", "a..b"], 2, "a part of it is empty"),
        (vec!["config", "get", "model"], 1, "model is not set"),
        (vec!["trust", "add", "missing"], 2, "is not a folder"),
        (vec!["memory", "add"], 2, "<NOTE>"),
        (
            vec!["sessions", "insights", "--after", "monday"],
            2,
            "\"monday\" is not a day",
        ),
        (vec!["serve", "--address", "192.0.2.1"], 2, "--tls-cert"),
        (vec!["-p", "hi", "--max-budget-usd", "-1"], 2, "above 0"),
    ] {
        let output = home.run(&words, "");
        assert_eq!(output.code(), Some(code), "{words:?}: {output:?}");
        assert!(output.stderr.contains(says), "{words:?}: {output:?}");
    }
    // A folder is in the way of the file.
    std::fs::create_dir_all(home.config().join("settings.json")).unwrap();
    let output = home.run(["config", "set", "model", "opus"], "");
    assert_eq!(output.code(), Some(1), "{output:?}");
}

#[test]
fn files_that_may_not_grow_are_an_error_of_the_tool_and_not_the_end() {
    let edit = json!({"file_path": "large.txt", "old_string": "first", "new_string": "other"});
    let server = server([
        Reply::tool_use("Read", json!({"file_path": "large.txt", "limit": 1})),
        Reply::tool_use("Edit", edit),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    let large = format!("first\n{}", "a line\n".repeat(30_000));
    home.write("large.txt", &large);
    let inner = home.command(["-p", "hi", "--permission-mode", "acceptEdits"]);
    let mut command = std::process::Command::new("bash");
    command
        .args(["-c", r#"ulimit -f 100; exec "$@""#, "bash"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(inner.get_current_dir().unwrap())
        .env_clear()
        .stdin(std::process::Stdio::null());
    for (name, value) in inner.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{:?} {errors}",
        output.status
    );
    assert_eq!(home.read("large.txt"), large);
    let result = server.requests()[2].last_results()[0].clone();
    assert_eq!(result["is_error"], true, "{result}");
    server.finish();
}

#[test]
fn the_prompt_comes_by_a_pipe_too() {
    let server = server([Reply::text("ok"), Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    assert_eq!(home.run(["-p"], "from the pipe").code(), Some(0));
    assert!(last_user_text(&server, 0).contains("from the pipe"));
    assert_eq!(home.run(["-p", "review this"], "the diff").code(), Some(0));
    let text = last_user_text(&server, 1);
    assert!(
        text.contains("review this") && text.contains("the diff"),
        "{text}"
    );
    server.finish();
}

#[test]
fn a_prompt_argument_does_not_wait_for_an_idle_pipe() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    // The pipe stays open and silent until the process has ended by itself.
    let output = home.spawn(["-p", "hi"]).finish();
    assert_eq!(output.stdout, "ok\n");
    server.finish();
}

#[test]
fn json_output_is_one_object_with_cost_and_usage() {
    let server = server([Reply::text("done")]);
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "hi", "--output-format", "json"], "");
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["type"], "result");
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["is_error"], false);
    assert_eq!(result["result"], "done");
    assert_eq!(result["num_turns"], 1);
    assert_eq!(result["terminal_reason"], "completed");
    assert!(result["total_cost_usd"].as_f64().unwrap() > 0.0);
    assert!(result["usage"]["output_tokens"].as_u64().unwrap() > 0);
    assert!(result["modelUsage"].as_object().unwrap().len() == 1);
}

#[test]
fn a_coding_task_runs_from_the_prompt_to_the_edited_file() {
    let server = server([
        Reply::text("Looking.")
            .with_tool_use("Read", json!({"file_path": "main.py"}))
            .with_tool_use("Grep", json!({"pattern": "hello"})),
        Reply::tool_use(
            "Edit",
            json!({"file_path": "main.py", "old_string": "hello", "new_string": "goodbye"}),
        ),
        Reply::tool_use("Bash", json!({"command": "python3 main.py"})),
        Reply::text("It says goodbye now."),
    ]);
    let home = TestHome::with_server(&server);
    home.write("main.py", "print('hello')\n");
    let output = home.run(
        [
            "-p",
            "say goodbye",
            "--permission-mode",
            "acceptEdits",
            "--allowedTools",
            "Bash(python3 main.py)",
            "--output-format",
            "stream-json",
            "--verbose",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(home.read("main.py"), "print('goodbye')\n");
    let frames = output.frames();
    assert_eq!(frames[0]["subtype"], "init");
    let results: Vec<&Value> = frames
        .iter()
        .filter(|frame| frame["type"] == "user")
        .collect();
    assert_eq!(results.len(), 4);
    assert!(
        results[3]["message"]["content"][0]["content"]
            .to_string()
            .contains("goodbye")
    );
    assert_eq!(results[2]["tool_use_result"]["oldString"], "hello");
    assert_eq!(frames.last().unwrap()["type"], "result");
    assert_eq!(output.stderr, "");
    server.finish();
}

#[test]
fn a_call_without_permission_is_refused_with_the_flag_that_would_allow_it() {
    let server = server([
        Reply::tool_use("Write", json!({"file_path": "new.txt", "content": "x"})),
        Reply::tool_use("Bash", json!({"command": "npm run build"})),
        Reply::text("I may not."),
    ]);
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "write", "--output-format", "json"], "");
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["is_error"], false);
    let denied: Vec<&Value> = result["permission_denials"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(denied.len(), 2);
    assert_eq!(denied[0]["tool_name"], "Write");
    assert!(!home.project().join("new.txt").exists());
    assert!(
        last_user_text(&server, 1).contains("acceptEdits"),
        "{}",
        last_user_text(&server, 1)
    );
    assert!(
        last_user_text(&server, 2).contains("--allowedTools"),
        "{}",
        last_user_text(&server, 2)
    );
}

#[test]
fn a_denied_tool_is_not_offered() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    let _ = home.run(["-p", "hi", "--disallowedTools", "Bash Write"], "");
    let tools = server.requests()[0].body["tools"].to_string();
    assert!(!tools.contains("\"name\":\"Bash\"") && !tools.contains("\"name\":\"Write\""));
    assert!(tools.contains("\"name\":\"Read\""));
    let none = TestHome::with_server(&server);
    server.push_reply(Reply::text("ok"));
    let _ = none.run(["-p", "hi", "--tools", ""], "");
    assert!(
        server.requests()[1]
            .body
            .get("tools")
            .is_none_or(|tools| tools.as_array().unwrap().is_empty())
    );
}

#[test]
fn the_turn_limit_ends_the_turn_with_its_own_subtype() {
    let server = server([
        Reply::tool_use("Glob", json!({"pattern": "*.a"})),
        Reply::tool_use("Glob", json!({"pattern": "*.b"})),
    ]);
    let home = TestHome::with_server(&server);
    let output = home.run(
        ["-p", "hi", "--max-turns", "2", "--output-format", "json"],
        "",
    );
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["subtype"], "error_max_turns");
    assert_eq!(
        result["errors"],
        json!(["Reached maximum number of turns (2)"])
    );
    assert_eq!(result["num_turns"], 3);
    assert!(result.get("result").is_none());
    assert_eq!(output.code(), Some(1));
}

#[test]
fn the_budget_ends_the_turn_before_the_next_call() {
    let server =
        server([Reply::tool_use("Glob", json!({"pattern": "*"})).usage("output_tokens", 100_000)]);
    let home = TestHome::with_server(&server);
    let output = home.run(
        [
            "-p",
            "hi",
            "--max-budget-usd",
            "0.5",
            "--output-format",
            "json",
        ],
        "",
    );
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["subtype"], "error_max_budget_usd");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_changed_line_of_a_transcript_is_found_and_named() {
    let server = server([Reply::text("one"), Reply::text("two")]);
    let home = TestHome::with_server(&server);
    let id = "11111111-2222-4333-8444-555555555555";
    let _ = home.run(["-p", "first", "--session-id", id], "");
    let _ = home.run(["-p", "second", "--continue"], "");
    let verified = |flags: &[&str]| {
        let output = home.run([&["sessions", "verify", id], flags].concat(), "");
        (output.code(), output.stdout)
    };
    let (code, text) = verified(&[]);
    assert!(
        code == Some(0) && text.contains(": intact; last link "),
        "{text}"
    );
    let shown = home.run(["sessions", "verify", id, "--json"], "").stdout;
    let found: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(found[0]["lines"], found[0]["linked"], "{found}");
    assert_eq!(found[0]["begins"], serde_json::json!([1]), "{found}");
    let path = found[0]["path"].as_str().unwrap().to_owned();
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text
        .lines()
        .position(|line| line.contains("\"first\""))
        .unwrap();
    let changed = text.replacen("\"first\"", "\"other\"", 1);
    std::fs::write(&path, changed).unwrap();
    let (code, text) = verified(&[]);
    let named = format!("line {}: its text was changed", at + 1);
    assert!(code == Some(1) && text.contains(&named), "{text}");
    assert!(text.contains("NOT intact"), "{text}");
}

#[test]
fn sessions_go_on_fork_and_are_found_by_id() {
    let server = server([Reply::text("one"), Reply::text("two"), Reply::text("three")]);
    let home = TestHome::with_server(&server);
    let id = "11111111-2222-4333-8444-555555555555";
    let _ = home.run(["-p", "first", "--session-id", id], "");
    let output = home.run(
        ["-p", "second", "--continue", "--output-format", "json"],
        "",
    );
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["session_id"], id);
    let messages = server.requests()[1].body["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 3);
    let output = home.run(
        [
            "-p",
            "third",
            "--resume",
            &id[..8],
            "--fork-session",
            "--output-format",
            "json",
        ],
        "",
    );
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_ne!(result["session_id"], id);
    assert_eq!(
        server.requests()[2].body["messages"]
            .as_array()
            .unwrap()
            .len(),
        5
    );

    let list: Value =
        serde_json::from_str(&home.run(["sessions", "list", "--json"], "").stdout).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 2);
    let shown = home.run(["sessions", "show", id], "");
    assert!(shown.stdout.contains("first"), "{}", shown.stdout);
    let exported = home.run(["sessions", "export", id], "");
    assert!(exported.stdout.contains("second") && exported.stdout.contains("two"));
    // The end of the file's name says how.
    let exported = home.run(["sessions", "export", id, "-o", "talk.html"], "");
    assert_eq!(exported.code(), Some(0), "{exported:?}");
    assert!(home.read("talk.html").starts_with("<!doctype html>"));
    assert_eq!(home.run(["sessions", "delete", id], "").code(), Some(0));
    let gone = home.run(["-p", "x", "--resume", id], "");
    assert_eq!(gone.code(), Some(1));
    assert!(
        gone.stderr
            .contains(&format!("No conversation found with session ID: {id}"))
            && gone.stderr.contains("lathe sessions list"),
        "{}",
        gone.stderr
    );
    server.finish();
}

#[test]
fn without_persistence_nothing_is_written() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    let _ = home.run(["-p", "hi", "--no-session-persistence"], "");
    assert!(lathe_testkit::transcript::of_home(&home).is_empty());
}

#[test]
fn system_prompts_replace_and_append() {
    let server = server([Reply::text("ok"), Reply::text("ok"), Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    let _ = home.run(["-p", "hi", "--system-prompt", "You are a pirate."], "");
    let system = server.requests()[0].body["system"].clone();
    assert_eq!(system[0]["text"], "You are a pirate.");
    home.write("prompt.md", "From a file.");
    let _ = home.run(
        [
            "-p",
            "hi",
            "--system-prompt-file",
            "prompt.md",
            "--append-system-prompt",
            "More.",
        ],
        "",
    );
    let system = server.requests()[1].body["system"].clone();
    assert_eq!(
        (&system[0]["text"], &system[1]["text"]),
        (&json!("From a file."), &json!("More."))
    );
    let _ = home.run(["-p", "hi"], "");
    assert!(
        server.requests()[2].body["system"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("You are Lathe")
    );
    let missing = home.run(["-p", "hi", "--system-prompt-file", "nope.md"], "");
    assert_eq!(missing.code(), Some(2));
    assert!(missing.stderr.contains("nope.md"));
}

#[test]
fn an_interruption_ends_cleanly_with_the_transcript_flushed_and_no_child_left() {
    let server = server([Reply::tool_use(
        "Bash",
        json!({"command": "sleep 300; echo never"}),
    )]);
    let home = TestHome::with_server(&server);
    let running = home.spawn([
        "-p",
        "hi",
        "--allowedTools",
        "Bash",
        "--output-format",
        "stream-json",
        "--verbose",
    ]);
    running.wait_for_stdout("\"tool_use\"");
    running.signal(Signal::SIGINT);
    let output = running.finish();
    assert_eq!(output.code(), Some(130), "{}", output.stderr);
    let result = output.result();
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(result["terminal_reason"], "aborted_tools");
    lathe_testkit::processes::assert_none_left(&home);
    let transcripts = lathe_testkit::transcript::of_home(&home);
    let text = std::fs::read_to_string(&transcripts[0]).unwrap();
    assert!(text.contains("[Request interrupted by user for tool use]"));
    // The next request is one that the API accepts.
    server.push_reply(Reply::text("back"));
    assert_eq!(home.run(["-p", "again", "--continue"], "").stdout, "back\n");
    server.finish();
}

#[test]
fn a_termination_while_the_model_writes_keeps_what_was_said() {
    let server = server([Reply::text("a long answer that is never finished")
        .delta_characters(5)
        .gate(lathe_scripted::Position::MidBlock(0), "hold")]);
    let home = TestHome::with_server(&server);
    let running = home.spawn([
        "-p",
        "hi",
        "--output-format",
        "stream-json",
        "--include-partial-messages",
        "--verbose",
    ]);
    running.wait_for_stdout("text_delta");
    running.signal(Signal::SIGTERM);
    let output = running.finish();
    assert_eq!(output.code(), Some(143));
    assert_eq!(output.result()["terminal_reason"], "aborted_streaming");
    let partial = output
        .frames()
        .into_iter()
        .find(|frame| frame["aborted"] == true)
        .unwrap();
    assert!(
        partial["message"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("a l")
    );
}

#[test]
fn wrong_usage_is_named_and_exits_with_two() {
    let home = TestHome::new();
    for (arguments, named) in [
        (&["-p", "x", "--no-such-flag"][..], "--no-such-flag"),
        (&["-p", "x", "--permission-mode", "yolo"], "yolo"),
        (&["-p", "x", "--settings", "{\"model\": "], "--settings"),
        (&["-p", "x", "--settings", "missing.json"], "missing.json"),
        (&["-p", "x", "--cwd", "no/such/folder"], "no/such/folder"),
        (&["-p", "x", "--resume"], "sessions list"),
        (&["-p", "x", "--fork-session"], "--resume"),
    ] {
        let home = home.run(arguments, "");
        assert_eq!(home.code(), Some(2), "{arguments:?}: {}", home.stderr);
        assert!(
            home.stderr.contains(named),
            "{arguments:?}: {}",
            home.stderr
        );
        assert_eq!(home.stdout, "", "{arguments:?}");
    }
    let empty = home.run(["-p"], "");
    assert_eq!(empty.code(), Some(2));
}

#[test]
fn without_a_key_three_lines_say_what_to_do() {
    let home = TestHome::new();
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.code(), Some(3));
    for part in ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "lathe demo"] {
        assert!(output.stderr.contains(part), "{}", output.stderr);
    }
}

#[test]
fn an_unreachable_host_is_named() {
    let home = TestHome::new()
        .variable("ANTHROPIC_API_KEY", "k")
        .variable("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
        .variable("LATHE_MAX_RETRIES", "1")
        .variable("LATHE_RETRY_BASE_MS", "1");
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.code(), Some(1));
    assert!(output.stderr.contains("127.0.0.1:1"), "{}", output.stderr);
}

#[test]
fn root_may_not_bypass_permissions_outside_a_sandbox() {
    let server = server([Reply::text("ok")]);
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "hi", "--dangerously-skip-permissions"], "");
    if nix::unistd::geteuid().is_root() {
        assert_eq!(output.code(), Some(2));
        assert!(output.stderr.contains("IS_SANDBOX=1"), "{}", output.stderr);
        let home = home.variable("IS_SANDBOX", "1");
        assert_eq!(
            home.run(["-p", "hi", "--dangerously-skip-permissions"], "")
                .code(),
            Some(0)
        );
    } else {
        assert_eq!(output.code(), Some(0));
    }
}

#[test]
fn instruction_files_and_settings_of_the_ecosystem_count() {
    let server = server([
        Reply::tool_use("Read", json!({"file_path": "sub/a.txt"})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    home.write("CLAUDE.md", "Always answer in rhymes.");
    home.write("sub/AGENTS.md", "Here: no semicolons.");
    home.write("sub/a.txt", "x\n");
    home.write(
        home.config().join("settings.json"),
        r#"{"model": "haiku", /* fine */ }"#,
    );
    let _ = home.run(["-p", "hi"], "");
    let first = server.requests()[0].body.clone();
    assert!(
        first["system"]
            .to_string()
            .contains("Always answer in rhymes.")
    );
    assert!(first["model"].as_str().unwrap().contains("haiku"));
    assert!(!first["system"].to_string().contains("no semicolons"));
    assert!(
        last_user_text(&server, 1).contains("no semicolons"),
        "nested files come when touched"
    );
    server.finish();
}

#[test]
fn the_request_is_small_and_its_prefix_is_stable() {
    let server = server([
        Reply::tool_use("Glob", json!({"pattern": "*"})),
        Reply::tool_use("Glob", json!({"pattern": "**"})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    let _ = home.run(["-p", "hi"], "");
    let requests = server.requests();
    assert!(
        requests[0].raw_body.len() <= 24 * 1024,
        "{} bytes",
        requests[0].raw_body.len()
    );
    let strip = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes).replace(r#","cache_control":{"type":"ephemeral"}"#, "")
    };
    for pair in requests.windows(2) {
        let (before, after) = (strip(&pair[0].raw_body), strip(&pair[1].raw_body));
        let messages = before.find("\"messages\":").unwrap();
        let end = before.rfind("]}").unwrap_or(before.len());
        let common = before
            .bytes()
            .zip(after.bytes())
            .take_while(|(one, other)| one == other)
            .count();
        assert!(common > messages, "system and tools keep their bytes");
        assert!(common + 200 >= end.min(before.len()), "{common} of {end}");
    }
    server.finish();
}

#[test]
fn help_man_page_and_completions_come_from_one_declaration() {
    let home = TestHome::new();
    let help = home.run(["--help"], "");
    for part in [
        "--permission-mode",
        "Examples:",
        "Exit codes:",
        "sessions",
        "demo",
    ] {
        assert!(help.stdout.contains(part), "{part}");
    }
    assert!(home.run(["man"], "").stdout.contains(".TH lathe"));
    assert!(
        home.run(["completions", "bash"], "")
            .stdout
            .contains("--output-format")
    );
    assert_eq!(
        home.run(["--version"], "").stdout,
        format!("lathe {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn the_demo_fixes_the_failing_test_without_a_key() {
    let home = TestHome::new().sandbox_by_default();
    let output = home.run(["demo", "--fast"], "");
    assert_eq!(
        output.code(),
        Some(0),
        "{}\n{}",
        output.stdout,
        output.stderr
    );
    for part in [
        "FAIL",
        "exit code 1",
        "refused",
        "0 failed",
        "tests pass now",
    ] {
        assert!(output.stdout.contains(part), "{part} in {}", output.stdout);
    }
    assert!(
        !home.config().join("projects").exists(),
        "the user's sessions are not touched"
    );
}

#[test]
fn the_same_call_over_and_over_is_stopped_with_a_reason() {
    let call = || Reply::tool_use("Glob", json!({"pattern": "*.none"}));
    let server = server((0..10).map(|_| call()));
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "hi", "--output-format", "json"], "");
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["terminal_reason"], "repeated_calls");
    assert!(result["errors"][0].as_str().unwrap().contains("Glob"));
    assert_eq!(server.requests().len(), 10);
    assert!(last_user_text(&server, 5).contains("same Glob call 5 times"));
    assert_eq!(output.code(), Some(1));
}

#[test]
fn a_large_result_goes_to_a_file_that_the_model_may_read() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "seq 1 20000"})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "hi", "--allowedTools", "Bash"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let told = last_user_text(&server, 1);
    assert!(told.len() < 40_000, "{} bytes", told.len());
    let start = told
        .find(&*home.config().to_string_lossy())
        .expect("the path of the file");
    let path = told[start..]
        .split(['\"', '\\', ' ', ';', ',', ')', ']', '\n'])
        .next()
        .unwrap();
    let stored = std::fs::read_to_string(path.trim_end_matches('.')).unwrap();
    assert!(stored.ends_with("20000\n"));
}

#[test]
fn a_mistyped_command_is_not_sent_as_a_prompt() {
    let server = server([Reply::text("as a prompt")]);
    let home = TestHome::with_server(&server);
    for (word, hint) in [
        ("updaet", "lathe -- updaet"),
        ("isntall", "lathe -- isntall"),
        ("docter", "did you mean: lathe doctor"),
    ] {
        let refused = home.run([word], "");
        assert_eq!(refused.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains(hint), "{}", refused.stderr);
    }
    assert_eq!(server.message_requests().len(), 0);
    let asked = home.run(["-p", "update"], "");
    assert_eq!(asked.stdout.trim(), "as a prompt");
}
