//! `lathe import` on the real binary: what is imported has its effect, and the first start offers it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

use lathe_scripted::Reply;
use lathe_testkit::{Terminal, TestHome};

/// A file in the home folder.
fn put(home: &TestHome, path: &str, content: &str) {
    let path = home.home().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

#[test]
fn imported_instructions_rules_and_commands_have_their_effect() {
    let server = lathe_testkit::server([Reply::text("fine")]);
    let home = TestHome::new().server(&server);
    put(&home, ".codex/AGENTS.md", "Always answer in verse.");
    put(
        &home,
        ".codex/rules/a.rules",
        "prefix_rule(pattern = [\"make\", \"check\"], decision = \"allow\")\n",
    );
    put(&home, ".codex/prompts/greet.md", "Greet $1 kindly.");
    let output = home.run(["import"], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    assert!(output.stdout.contains("imported: 3 items"), "{output:?}");
    let explained = home
        .run(["permissions", "explain", "--", "make check"], "")
        .stdout;
    assert!(explained.contains("allow"), "{explained}");
    let output = home.run(["-p", "/greet Ada"], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    let request = server.requests().last().unwrap().body.to_string();
    assert!(request.contains("Always answer in verse."), "{request}");
    assert!(request.contains("Greet Ada kindly."), "{request}");
}

#[test]
fn an_imported_conversation_resumes() {
    let server = lathe_testkit::server([Reply::text("It was a sum.")]);
    let home = TestHome::new().server(&server);
    let project = home.project().display().to_string();
    let lines = [
        format!(r#"{{"timestamp":"2026-10-02T10:00:00.000Z","type":"session_meta","payload":{{"id":"s1","cwd":"{project}"}}}}"#),
        r#"{"timestamp":"2026-10-02T10:00:02.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"why does the test fail?"}]}}"#.to_owned(),
        r#"{"timestamp":"2026-10-02T10:00:05.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"A sum is wrong."}]}}"#.to_owned(),
    ];
    put(
        &home,
        ".codex/sessions/2026/10/02/rollout-a.jsonl",
        &lines.join("\n"),
    );
    let output = home.run(["import", "codex", "--sessions"], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    let listed = home.run(["sessions", "list"], "").stdout;
    assert!(listed.contains("why does the test"), "{listed}");
    let output = home.run(["-p", "which one?", "--continue"], "");
    assert_eq!(output.stdout.trim(), "It was a sum.", "{output:?}");
    let request = server.requests().last().unwrap().body["messages"].to_string();
    for words in ["why does the test fail?", "A sum is wrong.", "which one?"] {
        assert!(request.contains(words), "{words}: {request}");
    }
    let again = home.run(["import", "codex", "--sessions"], "").stdout;
    assert!(
        again.contains("left     conversation"),
        "the resumed transcript is not replaced: {again}"
    );
}

#[test]
fn the_first_start_offers_an_import_once() {
    let home = TestHome::new()
        .variable("ANTHROPIC_API_KEY", "test-key")
        .variable("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    put(
        &home,
        ".codex/config.toml",
        "model_reasoning_effort = \"high\"\n",
    );
    let mut terminal = Terminal::start(&home.command::<&str>([]), 100, 30);
    terminal.wait_for("Found a setup of codex. Import it?");
    terminal.send("s\r");
    terminal.wait_everything("the plan", |text| text.contains("effort = \"high\""));
    assert!(!home.config().join("settings.json").exists());
    terminal.send("y\r");
    terminal.wait_for("? for keys");
    let settings = std::fs::read_to_string(home.config().join("settings.json")).unwrap();
    assert!(settings.contains("\"effort\": \"high\""), "{settings}");
    terminal.leave();
    std::fs::remove_file(home.config().join("settings.json")).unwrap();
    let mut terminal = Terminal::start(&home.command::<&str>([]), 100, 30);
    terminal.wait_for("? for keys");
    assert!(!terminal.everything().contains("Found a setup"));
    terminal.leave();
}

#[test]
fn an_unknown_agent_and_a_broken_file_of_ours_are_named() {
    let home = TestHome::new();
    let output = home.run(["import", "copilot"], "");
    assert_eq!(output.code(), Some(2), "{output:?}");
    assert!(output.stderr.contains("choose claude, codex"), "{output:?}");
    put(&home, ".codex/config.toml", "model = \"gpt-5\"\n");
    put(&home, ".lathe/settings.json", "{ broken");
    let output = home.run(["import"], "");
    assert_eq!(output.code(), Some(1), "{output:?}");
    assert!(
        output.stderr.contains("settings.json is broken"),
        "{output:?}"
    );
    assert_eq!(
        std::fs::read_to_string(home.config().join("settings.json")).unwrap(),
        "{ broken"
    );
}
