//! Tens of thousands of texts put together from pieces of the corpora: no panic, no more work than the
//! length allows, nothing made milder by what stands around it.
//!
//! For longer runs set `LATHE_FUZZ_COMMANDS` to the number of texts and `LATHE_FUZZ_SEED` to another
//! start, or let `cargo fuzz` search (see AGENTS.md).

#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod analysis_support;
#[path = "analysis_support/promises.rs"]
mod promises;

use analysis_support::{corpus, rows, unescape};
use fastrand::Rng;

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} isn't a number")))
}

/// Every command of the corpora, as characters.
fn commands() -> Vec<Vec<char>> {
    ["ordinary.tsv", "bypasses.tsv", "quoting.tsv"]
        .into_iter()
        .flat_map(corpus)
        .map(|line| line.command)
        .chain(rows("parser.tsv").iter().map(|row| unescape(&row[1])))
        .map(|command| command.chars().collect())
        .collect()
}

/// A few stretches of commands one after the other, some with a character changed.
fn text(commands: &[Vec<char>], random: &mut Rng) -> String {
    const CHARACTERS: &[char] = &[
        ' ', '\n', '\t', '\r', ';', '&', '|', '<', '>', '(', ')', '{', '}', '[', ']', '$', '`',
        '\'', '"', '\\', '#', '!', '*', '?', '~', '=', '-', ',', '@', 'a', '0', 'é', '\u{a0}',
        '\0',
    ];
    let mut text = Vec::new();
    for _ in 0..random.usize(1..4) {
        let command = &commands[random.usize(..commands.len())];
        // Often from the start or to the end, where the words are that give the rest its meaning.
        let start = if random.bool() {
            0
        } else {
            random.usize(..=command.len())
        };
        let end = if random.bool() {
            command.len()
        } else {
            random.usize(start..=command.len())
        };
        text.extend_from_slice(&command[start..end]);
        if random.bool() {
            let place = random.usize(..=text.len());
            text.insert(place, CHARACTERS[random.usize(..CHARACTERS.len())]);
        }
    }
    text.into_iter().collect()
}

#[test]
fn the_promises_are_kept_for_texts_made_of_pieces() {
    let wanted = number_from_environment("LATHE_FUZZ_COMMANDS").unwrap_or(0);
    let seed = number_from_environment("LATHE_FUZZ_SEED").unwrap_or(1);
    let mut random = Rng::with_seed(seed);
    let commands = commands();
    for _ in 0..wanted.max(30_000) {
        let text = text(&commands, &mut random);
        promises::keep(&text, random.usize(..promises::WRAPPERS.len()));
    }
}
