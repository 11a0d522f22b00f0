//! Two other parsers read what our analyser has understood; it must have seen every command they see.
//!
//! Every command of `lathe-shell`'s corpora and one variant of each. For longer runs set
//! `LATHE_FUZZ_COMMANDS` to the number of variants and `LATHE_FUZZ_SEED` to another start; those tell of
//! misreadings that aren't in the list, which the user has to judge.

#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

#[path = "../../shell/tests/analysis_support/mod.rs"]
mod analysis_support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use analysis_support::unescape;
use lathe_shell::analysis::analyse;
use lathe_shell::syntax::ShellKind;
use lathe_shell_oracles::brush::Witness;
use lathe_shell_oracles::comparison::overlooked;
use lathe_shell_oracles::mutation::variant;
use lathe_shell_oracles::{Testimony, sitter};

fn data(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of a data file. A comment is a line that starts with `#` and has no tab.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines()
        .filter(|line| !line.is_empty() && (!line.starts_with('#') || line.contains('\t')))
        .map(|line| line.split('\t').collect())
}

/// The commands of every corpus that are written for bash.
fn commands() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in ["ordinary", "bypasses", "quoting", "parser", "words"] {
        let text = data(&format!("../shell/data/{name}.tsv"));
        for row in rows(&text) {
            match name {
                "parser" => found.insert(unescape(row[1])),
                "words" => found.insert(format!("cat {}", unescape(row[0]))),
                _ if row[1] == "bash" => found.insert(unescape(row[0])),
                _ => false,
            };
        }
    }
    found
}

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} isn't a number")))
}

/// The commands and their variants that our analyser claims to understand.
fn understood_texts() -> BTreeSet<String> {
    let commands = commands();
    let seed = number_from_environment("LATHE_FUZZ_SEED").unwrap_or(1);
    let wanted = number_from_environment("LATHE_FUZZ_COMMANDS").map_or(commands.len(), |number| {
        usize::try_from(number).expect("fits")
    });
    let rounds = 0..u64::try_from(wanted.div_ceil(commands.len())).expect("fits");
    let variants: Vec<String> = rounds
        .flat_map(|round| {
            commands
                .iter()
                .map(move |command| variant(command, seed + round))
        })
        .take(wanted)
        .collect();
    commands
        .into_iter()
        .chain(variants)
        .filter(|text| !text.contains('\0'))
        .filter(|text| analyse(text, ShellKind::Bash).understood.is_ok())
        .collect()
}

/// Texts that a witness is known to misread, with the reason.
fn known_misreadings(witness: &str) -> BTreeMap<String, String> {
    let text = data("data/misreadings.tsv");
    let mut known = BTreeMap::new();
    for row in rows(&text) {
        let [name, command, reason] = row.as_slice() else {
            panic!("not three cells: {row:?}")
        };
        assert!(!reason.is_empty(), "no reason for {command}");
        if *name == witness {
            let before = known.insert(unescape(command), (*reason).to_owned());
            assert!(before.is_none(), "{command} is listed twice");
        }
    }
    known
}

/// Holds one witness against the analyser.
fn compare(witness: &str, mut read: impl FnMut(&str) -> Testimony) {
    let known = known_misreadings(witness);
    let mut needed = BTreeSet::new();
    let mut texts = understood_texts();
    texts.extend(known.keys().cloned());
    let (mut agreed, mut refused, mut lost) = (0, 0, 0);
    let mut differences = Vec::new();
    for text in &texts {
        let seen = match read(text) {
            Testimony::Commands(seen) => seen,
            Testimony::Refused => {
                refused += 1;
                continue;
            }
            Testimony::Lost => {
                // Perhaps only slow today: says nothing about an entry of the list.
                lost += 1;
                needed.insert(text.clone());
                continue;
            }
        };
        let analysis = analyse(text, ShellKind::Bash);
        let missing = overlooked(&analysis, &seen);
        if missing.is_empty() {
            agreed += 1;
        } else if known.contains_key(text) {
            needed.insert(text.clone());
        } else {
            let words = |source: &[lathe_shell_oracles::SeenWord]| {
                let words: Vec<&str> = source.iter().map(|word| word.source.as_str()).collect();
                format!("{words:?}")
            };
            let missing: Vec<String> = missing.iter().map(|seen| words(&seen.words)).collect();
            let ours: Vec<_> = analysis.parts.iter().map(|part| &part.argv).collect();
            differences.push(format!(
                "{text:?}\n  only {witness} sees {}\n  we see {ours:?}",
                missing.join(" ")
            ));
        }
    }
    let total = texts.len();
    assert!(
        differences.is_empty(),
        "{} differences in {total} texts ({refused} refused, {lost} lost):\n{}",
        differences.len(),
        differences.join("\n")
    );
    let stale: Vec<&String> = known
        .keys()
        .filter(|text| !needed.contains(*text))
        .collect();
    assert!(
        stale.is_empty(),
        "no longer misread by {witness}, remove from misreadings.tsv: {stale:#?}"
    );
    assert!(
        agreed * 100 >= total * 70,
        "{witness} agreed on only {agreed} of {total} texts ({refused} refused, {lost} lost)"
    );
}

#[test]
fn tree_sitter_sees_no_command_that_the_analyser_overlooks() {
    compare("tree-sitter", |text| {
        sitter::read(text).expect("grammar and library fit together")
    });
}

#[test]
fn brush_sees_no_command_that_the_analyser_overlooks() {
    let program = Path::new(env!("CARGO_BIN_EXE_brush-witness"));
    let mut witness = Witness::new(program, Duration::from_secs(2));
    compare("brush", |text| {
        witness.read(text).expect("the witness can be asked")
    });
}
