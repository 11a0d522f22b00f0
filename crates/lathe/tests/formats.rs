//! Files of every released format, and of a later one: read, and never damaged.
//!
//! `formats/<version>` is a config home as that version wrote it. `formats/later` has fields that no version knows yet.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

use lathe_testkit::run::Output;
use lathe_testkit::{TestHome, workspace_root};
use serde_json::Value;
use std::path::Path;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, target).unwrap();
        }
    }
}

fn home(format: &str) -> TestHome {
    let home = TestHome::new();
    copy(
        &workspace_root()
            .join("crates/lathe/tests/formats")
            .join(format),
        &home.config(),
    );
    home
}

#[track_caller]
fn run(home: &TestHome, arguments: &[&str]) -> Output {
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(0), "{arguments:?}: {output:?}");
    output
}

const SESSION: &str = "6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f";

/// The transcript's file; its session belongs to a folder that isn't here.
fn transcript(home: &TestHome) -> String {
    let folder = home.config().join("projects/-work");
    folder
        .join(format!("{SESSION}.jsonl"))
        .display()
        .to_string()
}

fn json(home: &TestHome, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(home.config().join(name)).unwrap()).unwrap()
}

#[test]
fn files_of_every_released_format_are_read() {
    for format in ["0.1", "later"] {
        let home = home(format);
        assert_eq!(
            run(&home, &["config", "get", "model"]).stdout.trim(),
            "opus",
            "{format}"
        );
        assert!(
            run(&home, &["trust", "list"]).stdout.contains("/work"),
            "{format}"
        );
        let listed = run(&home, &["sessions", "list", "--all"]).stdout;
        assert!(listed.contains("A named session"), "{format}: {listed}");
        let shown = run(
            &home,
            &["sessions", "export", &transcript(&home), "--format", "text"],
        );
        let shown = shown.stdout;
        assert!(
            shown.contains("hello there") && shown.contains("hello to you"),
            "{format}: {shown}"
        );
    }
}

#[test]
fn a_later_file_keeps_what_this_version_does_not_know() {
    let home = home("later");
    run(&home, &["trust", "add"]);
    run(&home, &["config", "set", "effort", "high"]);
    run(
        &home,
        &["sessions", "rename", &transcript(&home), "Another name"],
    );
    let trust = json(&home, "trust.json");
    assert_eq!(trust["folders"]["/work"]["since"], "later");
    let settings = std::fs::read_to_string(home.config().join("settings.json")).unwrap();
    assert!(
        settings.contains("\"unheardOf\": {\"a\": [1, 2]}") && settings.contains("// mine"),
        "{settings}"
    );
    let transcript = std::fs::read_to_string(transcript(&home)).unwrap();
    assert!(
        transcript.contains("\"type\":\"from-the-future\""),
        "{transcript}"
    );
    assert!(transcript.contains("\"unknownField\":7"), "{transcript}");
    let state = std::fs::read_to_string(home.config().join("state.json")).unwrap();
    assert!(state.contains("\"migrationVersion\": 99"), "{state}");
}
