//! The fuzz target of this crate's parsers, for the tests and for `fuzz/`.

use crate::history;
use crate::load::load;
use serde_json::Value;
use std::path::Path;

#[path = "../tests/session/api_rules.rs"]
mod api_rules;

const MODEL: &str = "claude-sonnet-4-5";

/// A file of any bytes loads as a transcript whose conversation the API accepts.
pub fn fuzz_transcript(bytes: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else {
        return;
    };
    let path = folder.path().join("session.jsonl");
    if std::fs::write(&path, bytes).is_ok() {
        check(&path);
    }
}

fn check(path: &Path) {
    let loaded = load(path);
    assert!(loaded.is_ok(), "{loaded:?}");
    let Ok(loaded) = loaded else { return };
    let _ = (loaded.tip(), loaded.history(), loaded.prompts());
    let _ = loaded.interruption();
    let chain = loaded.chain();
    let messages: Vec<Value> = history::normalize(chain.iter().map(AsRef::as_ref), MODEL)
        .iter()
        .filter_map(|message| serde_json::to_value(message).ok())
        .map(checkable)
        .collect();
    if !messages.is_empty() {
        assert_eq!(api_rules::check(&messages, MODEL), Ok(()));
    }
}

/// A message in the terms of the checker, which knows few kinds of blocks, and signatures by the name of the model.
fn checkable(mut message: Value) -> Value {
    const KNOWN: [&str; 4] = ["text", "thinking", "redacted_thinking", "tool_use"];
    if message["role"] != "assistant" {
        return message;
    }
    for block in message["content"].as_array_mut().into_iter().flatten() {
        match block["type"].as_str().map(str::to_owned).as_deref() {
            Some("thinking") => block["signature"] = format!("signed by {MODEL}").into(),
            Some("redacted_thinking") => block["data"] = MODEL.into(),
            Some(kind) if !KNOWN.contains(&kind) && kind != "tool_result" => {
                block["type"] = "some_new_block".into();
            }
            _ => {}
        }
    }
    message
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_file_loads_as_a_transcript() {
        let words = [
            "\n",
            "{",
            "}",
            "null",
            "\"uuid\":",
            "\"parentUuid\":",
            "\"type\":",
            "tool_use",
            "tool_result",
            "compact_boundary",
            "summary",
            "\u{0}",
            "\"message\":",
            "[]",
        ];
        lathe_fuzzing::run("transcript", 500, &words, super::fuzz_transcript);
    }
}
