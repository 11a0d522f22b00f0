//! `lathe eval`: the cases of this repository, and runs against a model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{TestHome, workspace_root};
use serde_json::{Value, json};

#[test]
fn the_graders_of_every_case_tell_good_answers_from_bad_ones() {
    let home = TestHome::new();
    let cases = workspace_root().join("evals/cases");
    let count = std::fs::read_dir(&cases).unwrap().count();
    assert!(count >= 40, "{count}");
    let output = home.run(["eval", "check", cases.to_str().unwrap()], "");
    assert_eq!(
        output.stdout,
        format!("cases: {count}, wrong: 0\n"),
        "{output:#?}"
    );
    assert_eq!(output.code(), Some(0));
}

fn case() -> Value {
    json!({
        "about": "A file is made.",
        "prompt": "Make a.txt.",
        "files": {"b.txt": "b"},
        "graders": [{"file": {"path": "a.txt", "has": ["one"]}}, {"unchanged": ["b.txt"]}],
    })
}

#[test]
fn runs_are_graded_counted_and_compared_with_a_plugin() {
    let write =
        |text: &str| Reply::tool_use("Write", json!({"file_path": "a.txt", "content": text}));
    let scenario = [
        write("one"),
        Reply::text("Made."),
        write("two"),
        Reply::text("Made."),
    ]
    .into_iter()
    .fold(Scenario::new(), Scenario::reply);
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    home.write("cases/make.json", case().to_string());
    home.write("plugin/.claude-plugin/plugin.json", r#"{"name": "helper"}"#);
    home.write(
        "plugin/skills/greet/SKILL.md",
        "---\nname: greet\ndescription: Greets people warmly.\n---\nSay hello.\n",
    );
    let arguments = ["eval", "run", "cases", "--with-plugin", "plugin", "--json"];
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(1), "{output:#?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(
        (&rows[0]["plugin"], &rows[0]["passed"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(
        (&rows[1]["plugin"], &rows[1]["passed"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(rows[1]["runs"][0]["failures"][0], "a.txt lacks one");
    assert_eq!(rows[0]["runs"][0]["calls"], 1);
    let sent = |index: usize| server.message_requests()[index].body.to_string();
    assert!(!sent(0).contains("Greets people warmly") && sent(2).contains("Greets people warmly"));
    let sessions = home.run(["sessions", "list", "--all", "--json"], "");
    assert_eq!(sessions.stdout.trim(), "[]", "{sessions:#?}");
}

#[test]
fn a_case_that_is_wrong_is_named_with_its_field() {
    let home = TestHome::new();
    for (text, words) in [
        (r#"{"about": "x"}"#.to_owned(), "missing field `prompt`"),
        (json!({"about": "x", "prompt": "y", "graders": []}).to_string(), "`graders` is empty"),
        (json!({"about": "x", "prompt": "y", "graders": [{"answer": "("}]}).to_string(), "regex parse error"),
        (json!({"about": "x", "prompt": "y", "files": {"../z": ""}, "graders": [{"answer": "a"}]}).to_string(), "../z is outside of the project"),
        (json!({"about": "x", "prompt": "y", "colour": 1, "graders": [{"answer": "a"}]}).to_string(), "unknown field `colour`"),
    ] {
        home.write("wrong.json", text);
        let output = home.run(["eval", "check", "wrong.json"], "");
        assert_eq!(output.code(), Some(2), "{output:#?}");
        assert!(output.stderr.contains("wrong.json"), "{output:#?}");
        assert!(output.stderr.contains(words), "{output:#?}");
    }
    let output = home.run(["eval", "run", "nothing.json"], "");
    assert_eq!(output.code(), Some(2), "{output:#?}");
}
