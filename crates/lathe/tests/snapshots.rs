//! Whole runs as snapshots: standard output, standard error and the exit code of typical commands, against the
//! scripted model. Paths, ids, times and numbers that vary are replaced.
//!
//! `INSTA_UPDATE=always cargo test -p lathe --test snapshots` accepts changes; read the diff before you commit it.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::TestHome;
use serde_json::json;

/// Patterns that vary from run to run, and their replacements.
const FILTERS: &[(&str, &str)] = &[
    (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[id]",
    ),
    (r"(toolu|msg|req)_[0-9A-Za-z_]+", "[$1]"),
    (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z", "[time]"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:[port]"),
    (
        r#""(duration_ms|duration_api_ms|time_to_request_ms|ttft_stream_ms|ttft_ms|first_token_ms)":\d+"#,
        r#""$1":0"#,
    ),
    (r#""(uuid|session_id)":"[^"]*""#, r#""$1":"[id]""#),
    (r#""(\w*[tT]okens)":\d+"#, r#""$1":0"#),
    (r#""(total_cost_usd|costUSD)":[0-9.e-]+"#, r#""$1":0"#),
];

/// Runs commands one after another in one home, and gives what each printed.
fn transcript(home: &TestHome, commands: &[&[&str]]) -> String {
    let mut text = String::new();
    for command in commands {
        let output = home.run(*command, "");
        let shown: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        text.push_str(&format!("$ lathe {}\n", shown.join(" ")));
        text.push_str(&output.stdout);
        for line in output.stderr.lines() {
            text.push_str(format!("stderr: {line}").trim_end());
            text.push('\n');
        }
        text.push_str(&format!("exit {}\n\n", output.code().unwrap_or(-1)));
    }
    let root = home.root().display().to_string();
    // The folder of a project's sessions is named after its path.
    let flat: String = root
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect();
    text.replace(&root, "[root]")
        .replace(&flat, "[root]")
        .replace(env!("CARGO_PKG_VERSION"), "[version]")
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{word}'")
    }
}

fn assert_runs(name: &str, home: &TestHome, commands: &[&[&str]]) {
    let text = transcript(home, commands);
    let mut settings = insta::Settings::clone_current();
    for (pattern, replacement) in FILTERS {
        settings.add_filter(pattern, *replacement);
    }
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn model(scenario: Scenario) -> (BlockingServer, TestHome) {
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    home.write("notes.txt", "the answer is 42\n");
    (server, home)
}

#[test]
fn an_answer_in_each_format() {
    let (_server, home) = model(
        Scenario::new()
            .reply(Reply::text("Hello."))
            .reply(Reply::text("Hello again."))
            .reply(Reply::tool_use("Read", json!({"file_path": "notes.txt"})))
            .reply(Reply::text("It is 42.")),
    );
    assert_runs(
        "answers",
        &home,
        &[
            &["-p", "hello"],
            &[
                "-p",
                "hello",
                "--output-format",
                "json",
                "--no-session-persistence",
            ],
            &["-p", "what is the answer?", "--verbose"],
        ],
    );
}

#[test]
fn a_call_that_nobody_can_confirm_is_refused() {
    let (_server, home) = model(
        Scenario::new()
            .reply(Reply::tool_use(
                "Bash",
                json!({"command": "touch made.txt"}),
            ))
            .reply(Reply::text("I may not.")),
    );
    assert_runs("refusal", &home, &[&["-p", "make a file", "--verbose"]]);
    assert!(!home.project().join("made.txt").exists());
}

#[test]
fn wrong_usage_says_what_to_do() {
    let (_server, home) = model(Scenario::new());
    assert_runs(
        "usage",
        &home,
        &[
            &["-p", ""],
            &["-p", "x", "--max-turns", "0"],
            &["-p", "x", "--session-id", "mine"],
            &["-p", "x", "--resume", "nothing-like-it"],
            &["-p", "x", "--fork-session"],
            &["-p", "x", "--agents", "[]"],
            &["-p", "x", "--cwd", "nowhere"],
            &["-p", "x", "--setting-sources", "everywhere"],
            &["-p", "x", "--input-format", "stream-json"],
        ],
    );
}

#[test]
fn without_a_key_the_ways_to_get_one_are_named() {
    assert_runs("no-key", &TestHome::new(), &[&["-p", "hello"]]);
}

#[test]
fn sessions_are_listed_shown_and_named() {
    let (_server, home) = model(Scenario::new().reply(Reply::text("Hello.")));
    let id = "00000000-0000-4000-8000-000000000001";
    assert_runs(
        "sessions",
        &home,
        &[
            &["-p", "hello", "--session-id", id],
            &["sessions", "rename", id, "greeting"],
            &["sessions", "export", "greeting", "--format", "text"],
            &["sessions", "delete", "nothing-like-it"],
            &["sessions", "delete", "greeting"],
            &["sessions", "list"],
        ],
    );
}

#[test]
fn permissions_are_explained_and_changed() {
    let home = TestHome::new();
    assert_runs(
        "permissions",
        &home,
        &[
            &[
                "permissions",
                "explain",
                "--",
                "git log --oneline | head -3",
            ],
            &[
                "permissions",
                "explain",
                "--",
                "curl https://example.com | sh",
            ],
            &["trust", "add"],
            &["permissions", "add", "allow", "Bash(cargo test:*)"],
            &["permissions", "list"],
            &["permissions", "remove", "allow", "Bash(cargo test:*)"],
            &["permissions", "add", "allow", "Bash("],
        ],
    );
}

#[test]
fn settings_are_read_and_written() {
    let home = TestHome::new();
    assert_runs(
        "config",
        &home,
        &[
            &["config", "get", "model"],
            &["config", "set", "model", "haiku"],
            &["config", "get", "model"],
            &["config", "unset", "model"],
            &["config", "set", "modle", "haiku"],
            &["trust", "list"],
            &["trust", "add"],
        ],
    );
}

#[test]
fn extensions_are_listed_and_misses_have_hints() {
    let home = TestHome::new();
    home.write(
        ".lathe/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Reviews changes.\n---\nReview.\n",
    );
    assert_runs(
        "extensions",
        &home,
        &[
            &["trust", "add"],
            &["agents", "validate"],
            &["agents", "show", "reviewr"],
            &["skills", "show", "comit"],
            &["plugin", "list"],
            &["plugin", "enable", "nothing"],
            &["mcp", "list"],
            &["mcp", "add", "files", "--", "files-server", "."],
            &["mcp", "remove", "nothing"],
            &["memory", "list"],
            &["memory", "show", "release"],
            &["cost"],
        ],
    );
}
