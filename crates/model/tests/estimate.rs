//! The token estimate against two public tokenizers. Their counts are in a file
//! (`scripts/tokenizer-fixture.mjs` writes it), and the file is held against the tokenizers themselves, as
//! `scripts/setup-tests` got them from their registry.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_model::estimate;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, PartialEq, Deserialize)]
struct Sample {
    kind: String,
    anthropic: u64,
    o200k: u64,
    text: String,
}

fn samples() -> Vec<Sample> {
    serde_json::from_str(include_str!("data/tokens.json")).unwrap()
}

#[test]
fn estimates_lie_within_a_fifth_of_what_the_tokenizers_count() {
    let mut kinds: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for sample in samples() {
        let (few, many) = (
            sample.anthropic.min(sample.o200k),
            sample.anthropic.max(sample.o200k),
        );
        let guess = estimate::text(&sample.text);
        // Running over a limit is worse than compacting early.
        assert!(
            guess * 10 >= few * 9,
            "{}: {guess} is too few for {few} to {many}",
            sample.kind
        );
        assert!(
            guess * 10 <= many * 12,
            "{}: {guess} is too many for {few} to {many}",
            sample.kind
        );
        let sums = kinds.entry(sample.kind).or_default();
        *sums = (sums.0 + guess, sums.1 + few, sums.2 + many);
    }
    assert!(kinds.len() >= 10);
    for (kind, (guess, few, many)) in kinds {
        assert!(
            guess * 10 >= many * 8,
            "{kind}: {guess} for {few} to {many}"
        );
    }
}

#[test]
fn the_tokenizers_count_what_the_file_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = std::env::var_os("LATHE_TEST_PACKAGES")
        .map_or_else(|| root.join("target/test-packages"), PathBuf::from);
    let folder = packages.join("tokenizers");
    assert!(
        folder.join("installed").is_file(),
        "the tokenizers are not in {}: run scripts/setup-tests",
        folder.display()
    );
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokens.json");
    let output = Command::new("node")
        .arg(
            root.join("scripts/tokenizer-fixture.mjs")
                .canonicalize()
                .unwrap(),
        )
        .arg("--count")
        .current_dir(&folder)
        .stdin(File::open(data).unwrap())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let counted: Vec<Sample> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(counted, samples());
}
