//! The token estimate against two public tokenizers. Their counts are in a file
//! (`scripts/tokenizer-fixture.mjs` writes it), so nothing is fetched here.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_model::estimate;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
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
