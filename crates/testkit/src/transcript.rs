//! Reading transcripts as any other program would: line by line, from the files.

use crate::TestHome;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The lines of a transcript.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// The lines that are JSON.
    pub records: Vec<Value>,
    /// The lines that are not, with their numbers from 1.
    pub damaged: Vec<(usize, String)>,
    /// Whether the last line has no line end, as after a crash.
    pub torn: bool,
}

impl Transcript {
    /// Reads a file.
    ///
    /// # Panics
    /// If it can't be read.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path)
            .unwrap_or_else(|error| panic!("can't read {}: {error}", path.display()));
        let mut transcript = Self {
            torn: bytes.last().is_some_and(|byte| *byte != b'\n'),
            ..Self::default()
        };
        let lines = bytes.split(|byte| *byte == b'\n').enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(record) => transcript.records.push(record),
                Err(_) => {
                    let text = String::from_utf8_lossy(line).into_owned();
                    transcript.damaged.push((index + 1, text));
                }
            }
        }
        transcript
    }

    /// The conversation as other programs read it: from the last message in the file that is
    /// neither a sidechain's nor meta, back by `parentUuid`; oldest first.
    #[must_use]
    pub fn conversation(&self) -> Vec<&Value> {
        let is_message = |record: &&Value| {
            matches!(record["type"].as_str(), Some("user" | "assistant"))
                && record["isSidechain"] != true
        };
        let messages = || self.records.iter().filter(is_message);
        let mut next = messages().rev().find(|record| record["isMeta"] != true);
        let mut chain = Vec::new();
        while let Some(record) = next.filter(|_| chain.len() <= self.records.len()) {
            chain.push(record);
            next = messages().find(|other| {
                !record["parentUuid"].is_null() && other["uuid"] == record["parentUuid"]
            });
        }
        chain.reverse();
        chain
    }

    /// The texts of the prompts: user records that are neither meta nor tool results.
    #[must_use]
    pub fn prompts(&self) -> Vec<String> {
        self.records
            .iter()
            .filter(|record| record["type"] == "user" && record["isMeta"] != true)
            .filter_map(|record| match &record["message"]["content"] {
                Value::String(text) => Some(text.clone()),
                Value::Array(blocks) if blocks.iter().all(|block| block["type"] == "text") => {
                    let texts: Vec<&str> = blocks
                        .iter()
                        .filter_map(|block| block["text"].as_str())
                        .collect();
                    Some(texts.join("\n"))
                }
                _ => None,
            })
            .collect()
    }
}

/// The transcripts of a home, sub-agents' not included.
#[must_use]
pub fn of_home(home: &TestHome) -> Vec<PathBuf> {
    let projects = home.config().join("projects");
    let mut found: Vec<PathBuf> = std::fs::read_dir(projects)
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|project| {
            std::fs::read_dir(project.path())
                .into_iter()
                .flatten()
                .flatten()
        })
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    found.sort();
    found
}
