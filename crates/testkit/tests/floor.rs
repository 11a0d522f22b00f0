//! The floor of a request: what is sent before the user has said anything, by mode, in bytes and in tokens of two public tokenizers.
//!
//! `benches/floor.json` holds the numbers; `UPDATE_FLOOR=1` writes them. A change that makes the floor larger has to say so there.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_testkit::{TestHome, workspace_root};
use serde_json::{Map, Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Paths, dates and names of the machine make a difference of some tokens.
const TOLERANCE: f64 = 0.02;
/// The most that the lean set may have, by either tokenizer.
const LEAN: u64 = 3_000;
/// Modes: name, window, permission mode.
const MODES: [(&str, u64, &str); 5] = [
    ("default", 200_000, "default"),
    ("acceptEdits", 200_000, "acceptEdits"),
    ("plan", 200_000, "plan"),
    ("window of 16k", 16_384, "default"),
    ("window of 8k", 8_192, "default"),
];

/// The text that counts: system prompt, tools and everything else but the user's words.
fn request(window: u64, mode: &str) -> String {
    let home = TestHome::new().variable("HOUSE_KEY", "k");
    let settings = json!({"providers": {"house": {
        "kind": "anthropic", "baseUrl": "http://127.0.0.1:9", "apiKeyEnv": "HOUSE_KEY",
        "models": {"m": {"contextWindow": window, "maxOutputTokens": 4_096}},
    }}, "model": "house/m", "permissions": {"defaultMode": mode}});
    std::fs::write(home.config().join("settings.json"), settings.to_string()).unwrap();
    let output = home.run(["debug", "prompt", "--json"], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    let value: Value = serde_json::from_str(&output.stdout).unwrap();
    let request = &value["request"];
    assert!(request["tools"].is_array(), "{request}");
    [&request["system"], &request["tools"], &request["messages"]]
        .map(Value::to_string)
        .join("\n")
}

/// The tokens of texts by both tokenizers.
fn tokens(texts: &[String]) -> Vec<(u64, u64)> {
    let packages = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || workspace_root().join("target/test-packages"),
        PathBuf::from,
    );
    let rows: Vec<Value> = texts
        .iter()
        .map(|text| json!({"kind": "floor", "text": text}))
        .collect();
    let mut node = Command::new("node")
        .arg(workspace_root().join("scripts/tokenizer-fixture.mjs"))
        .arg("--count")
        .current_dir(packages.join("tokenizers"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = Value::from(rows).to_string();
    node.stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "run scripts/setup-tests");
    let counted: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
    counted
        .iter()
        .map(|row| (number(row, "anthropic"), number(row, "o200k")))
        .collect()
}

#[test]
fn the_floor_of_a_request_is_what_is_written_down() {
    let texts: Vec<String> = MODES
        .iter()
        .map(|(_, window, mode)| request(*window, mode))
        .collect();
    let mut now = Map::new();
    for ((name, window, _), (text, counted)) in MODES.iter().zip(texts.iter().zip(tokens(&texts))) {
        let row = json!({"bytes": text.len(), "anthropic": counted.0, "o200k": counted.1});
        if *window <= 16_384 {
            assert!(counted.0.max(counted.1) < LEAN, "{name}: {row}");
        }
        now.insert((*name).to_owned(), row);
    }
    let now = Value::Object(now);
    let file = workspace_root().join("benches/floor.json");
    if std::env::var_os("UPDATE_FLOOR").is_some() {
        std::fs::write(&file, format!("{now:#}\n")).unwrap();
    }
    let before: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    for (name, _, _) in MODES {
        for unit in ["bytes", "anthropic", "o200k"] {
            let (now, before) = (now[name][unit].as_f64(), before[name][unit].as_f64());
            let ratio = now.unwrap() / before.unwrap();
            assert!(
                (ratio - 1.0).abs() <= TOLERANCE,
                "{name}, {unit}: {now:?} instead of {before:?}; UPDATE_FLOOR=1 writes the new numbers"
            );
        }
    }
}
