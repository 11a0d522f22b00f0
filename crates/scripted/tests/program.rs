//! The program: `lathe-scripted serve scenario.json`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]

mod common;

use common::{hello, post};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

fn start(scenario: &Value, folder: &Path) -> (Child, String) {
    let file = folder.join("scenario.json");
    std::fs::write(&file, scenario.to_string()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_lathe-scripted"))
        .arg("serve")
        .arg(&file)
        .args(["--port", "0", "--record"])
        .arg(folder.join("requests.jsonl"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = line
        .trim_end()
        .strip_prefix("listening on ")
        .expect("the address first")
        .to_owned();
    (child, url)
}

fn terminate(mut child: Child) -> (ExitStatus, String) {
    let killed = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let mut errors = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut errors).unwrap();
    (child.wait().unwrap(), errors)
}

#[test]
fn it_serves_a_scenario_file_and_records_the_requests() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = json!({"replies": [
        {"text": "hello from a file"},
        {"when": {"last_user_text_contains": "hello"}, "content": [{"type": "text", "text": "matched"}],
         "chunks": {"bytes": 3}, "cut": {"at": "end", "how": "end_of_body"}},
        {"fault": {"error": {"status": 529}}, "repeat": 2}
    ]});
    let (child, url) = start(&scenario, folder.path());
    assert!(post(&url, &hello()).text().contains("matched"));
    assert!(post(&url, &hello()).text().contains("hello from a file"));
    assert_eq!(post(&url, &hello()).status, 529);
    let (status, errors) = terminate(child);
    assert!(status.success(), "{errors}");
    assert!(
        errors.contains("unused reply") && errors.contains("529"),
        "{errors}"
    );
    let recorded = std::fs::read_to_string(folder.path().join("requests.jsonl")).unwrap();
    let lines: Vec<Value> = recorded
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["body"], hello());
}

#[test]
fn a_bad_request_makes_it_fail_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (child, url) = start(
        &json!({"replies": [{"text": "x", "optional": true}]}),
        folder.path(),
    );
    assert_eq!(
        post(&url, &json!({"model": "m", "messages": []})).status,
        400
    );
    let (status, errors) = terminate(child);
    assert_eq!(status.code(), Some(1));
    assert!(errors.contains("at least one message"), "{errors}");
}

#[test]
fn a_scenario_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.json");
    std::fs::write(&file, r#"{"replys": []}"#).unwrap();
    for (path, complaint) in [
        (file, "unknown field `replys`"),
        (folder.path().join("no"), "can't read"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_lathe-scripted"))
            .arg("serve")
            .arg(&path)
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(
            errors.contains(complaint) && errors.contains(path.to_str().unwrap()),
            "{errors}"
        );
    }
}
