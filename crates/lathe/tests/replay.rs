//! `lathe replay`: a recorded session again, in a copy.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{Output, TestHome};
use serde_json::{Value, json};
use std::path::Path;

/// A session that reads, edits, runs a command, and is refused one.
struct Recorded {
    home: TestHome,
    server: BlockingServer,
    id: String,
}

fn record(replies: impl IntoIterator<Item = Reply>) -> Recorded {
    let scenario = replies.into_iter().fold(Scenario::new(), Scenario::reply);
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    home.write("a.txt", "one\ntwo\n");
    home.write("b.txt", "other\n");
    let arguments = ["-p", "do it", "--output-format", "json"];
    let bypass = [
        "--permission-mode",
        "bypassPermissions",
        "--disallowedTools",
        "Bash(rm:*)",
    ];
    let output = home.run(arguments.iter().chain(&bypass), "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let id = output.result()["session_id"].as_str().unwrap().to_owned();
    Recorded { home, server, id }
}

fn usual() -> Recorded {
    record([
        Reply::text("I look first.")
            .with_tool_use("Read", json!({"file_path": "a.txt"}))
            .with_tool_use("Grep", json!({"pattern": "o", "output_mode": "content"})),
        Reply::tool_use(
            "Edit",
            json!({"file_path": "a.txt", "old_string": "two", "new_string": "three"}),
        ),
        Reply::tool_use("Bash", json!({"command": "cat a.txt b.txt"}))
            .with_tool_use("Bash", json!({"command": "rm b.txt"}))
            .with_tool_use(
                "WebFetch",
                json!({"url": "http://127.0.0.1:9/", "prompt": "x"}),
            ),
        Reply::text("Done."),
    ])
}

fn replay(recorded: &Recorded, more: &[&str]) -> Output {
    recorded
        .home
        .run(["replay", &recorded.id].iter().chain(more), "")
}

fn no_copy_is_left(home: &TestHome) {
    let left = std::fs::read_dir(home.temporary()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().starts_with("lathe-replay")),
        "{left:?}"
    );
}

#[test]
fn a_session_is_replayed_in_a_copy_without_divergence() {
    let recorded = usual();
    // The project has moved on, by the session's own edit.
    assert_eq!(recorded.home.read("a.txt"), "one\nthree\n");
    let output = replay(&recorded, &[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(output.stdout.contains("no divergence"), "{output:#?}");
    assert!(
        output.stdout.contains("calls: 6 (4 run again)"),
        "{output:#?}"
    );
    assert!(
        output.stdout.contains("not run again: Bash, WebFetch"),
        "{output:#?}"
    );
    assert_eq!(recorded.home.read("a.txt"), "one\nthree\n");
    assert_eq!(recorded.home.read("b.txt"), "other\n");
    no_copy_is_left(&recorded.home);
    let sessions = recorded
        .home
        .run(["sessions", "list", "--all", "--json"], "");
    let sessions: Value = serde_json::from_str(&sessions.stdout).unwrap();
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
}

#[test]
fn a_file_that_changed_since_is_a_divergence() {
    let recorded = usual();
    recorded.home.write("b.txt", "changed\n");
    let output = replay(&recorded, &["--json"]);
    assert_eq!(output.code(), Some(1), "{output:#?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let divergences = report["divergences"].as_array().unwrap();
    let last = divergences.last().unwrap();
    assert_eq!(last["tool"], "Bash");
    assert_eq!(last["recorded"], "other");
    assert_eq!(last["replayed"], "changed");
    let output = replay(&recorded, &["--until", "1", "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["answers"]["recorded"], 1, "{report}");
}

#[test]
fn a_replay_changes_nothing_outside_of_its_copy() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("note.txt");
    let write = json!({"file_path": file, "content": "recorded"});
    let command =
        json!({"command": format!("echo by command > {}/second.txt", outside.path().display())});
    let recorded = record([
        Reply::tool_use("Write", write),
        Reply::tool_use("Bash", command),
        Reply::text("Done."),
    ]);
    std::fs::write(&file, "mine").unwrap();
    std::fs::remove_file(outside.path().join("second.txt")).unwrap();
    let output = replay(&recorded, &[]);
    assert_eq!(output.code(), Some(1), "{output:#?}");
    assert!(
        output.stdout.contains("call 1 (Write) differs"),
        "{output:#?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert!(!outside.path().join("second.txt").exists());
}

#[test]
fn a_session_without_calls_is_replayed_and_an_unknown_one_is_named() {
    let recorded = record([Reply::text("Hello.")]);
    assert_eq!(replay(&recorded, &[]).code(), Some(0));
    let output = recorded.home.run(["replay", "nothing-like-it"], "");
    assert_eq!(output.code(), Some(1), "{output:#?}");
    assert!(output.stderr.contains("nothing-like-it"), "{output:#?}");
}

#[test]
fn another_model_gets_the_same_prompts() {
    let mut recorded = usual();
    let replies = Scenario::new()
        .reply(Reply::tool_use("Read", json!({"file_path": "b.txt"})))
        .reply(Reply::text("I only looked."));
    let other = BlockingServer::start(replies).unwrap();
    recorded.home = recorded.home.server(&other);
    let output = replay(&recorded, &["--against", "claude-haiku-4-5"]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let rows: Vec<Vec<&str>> = output
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(rows.contains(&vec!["answers", "4", "2"]), "{output:#?}");
    assert!(rows.contains(&vec!["Read", "1", "1"]), "{output:#?}");
    assert!(rows.contains(&vec!["Edit", "1", "0"]), "{output:#?}");
    assert_eq!(other.requests()[0].body["model"], "claude-haiku-4-5");
    assert_eq!(recorded.server.requests().len(), 4);
    assert!(Path::new(&recorded.home.project()).join("a.txt").exists());
    let sessions = recorded
        .home
        .run(["sessions", "list", "--all", "--json"], "");
    let sessions: Value = serde_json::from_str(&sessions.stdout).unwrap();
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
}
