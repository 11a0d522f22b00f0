//! Runs a fuzz target in the ordinary tests: the seeds in `fuzz/seeds/<target>`, then seeded mutations of them.
//!
//! A target is a function `fuzz_<what>(bytes: &[u8])` in the module `fuzzing` of the crate that has the parser. It
//! panics if the parser breaks a promise. `fuzz/` calls the same functions under libFuzzer, which is guided by
//! coverage; the run here is short, and the same on every machine.
//!
//! For longer runs set `LATHE_FUZZ_INPUTS` to the number of inputs and `LATHE_FUZZ_SEED` to another start.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// The largest input, in bytes.
const LARGEST: usize = 64 * 1024;

/// Runs a target over its seeds and over so many mutations of them, which should take about a second. `words` are
/// pieces of the format to insert.
///
/// # Panics
/// When the target does, after printing the input; or when there are no seeds.
pub fn run(target: &str, inputs: u64, words: &[&str], body: fn(&[u8])) {
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "fuzz/seeds/{target} has no files");
    for seed in &seeds {
        check(target, seed, body);
    }
    let mut mutator = Mutator {
        random: fastrand::Rng::with_seed(number("LATHE_FUZZ_SEED", 1)),
        seeds: &seeds,
        words,
    };
    for _ in 0..number("LATHE_FUZZ_INPUTS", inputs) {
        check(target, &mutator.input(), body);
    }
}

/// The seeds of a target in the order of their names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
        .iter()
        .filter_map(|file| std::fs::read(file).ok())
        .collect()
}

fn check(target: &str, input: &[u8], body: fn(&[u8])) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(input))) {
        report(target, input);
        resume_unwind(panic);
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a test prints what to look at before it fails"
)]
fn report(target: &str, input: &[u8]) {
    eprintln!("{target} failed on b\"{}\"", input.escape_ascii());
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Makes inputs from seeds.
struct Mutator<'a> {
    random: fastrand::Rng,
    seeds: &'a [Vec<u8>],
    words: &'a [&'a str],
}

impl Mutator<'_> {
    fn input(&mut self) -> Vec<u8> {
        let mut input = self.seed().to_vec();
        for _ in 0..=self.random.usize(..6) {
            self.mutate(&mut input);
        }
        input.truncate(LARGEST);
        input
    }

    fn seed(&mut self) -> &[u8] {
        &self.seeds[self.random.usize(..self.seeds.len())]
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let start = self.random.usize(..=input.len());
        let end = (start + self.length()).min(input.len());
        match self.random.u8(..9) {
            0 => flip(input, start, 1 << self.random.u8(..8)),
            1 => flip(input, start, self.random.u8(..)),
            2 => drop(input.drain(start..end)),
            3 => input.truncate(start),
            4 => {
                let copy = input[start..end].to_vec();
                insert(input, start, &copy);
            }
            5 => {
                let bytes: Vec<u8> = (0..self.length()).map(|_| self.random.u8(..)).collect();
                insert(input, start, &bytes);
            }
            6 => {
                let other = self.seed().to_vec();
                let from = self.random.usize(..=other.len());
                let to = (from + self.length()).min(other.len());
                insert(input, start, &other[from..to]);
            }
            7 => {
                let character = self.random.char(..);
                insert(input, start, character.to_string().as_bytes());
            }
            _ => {
                if let Some(word) = self.random.choice(self.words.iter().copied()) {
                    insert(input, start, word.as_bytes());
                }
            }
        }
    }

    /// Mostly a few bytes, sometimes many.
    fn length(&mut self) -> usize {
        let most = [4, 16, 64, 512][self.random.usize(..4)];
        self.random.usize(1..=most)
    }
}

fn flip(input: &mut [u8], at: usize, bits: u8) {
    if let Some(byte) = input.get_mut(at) {
        *byte ^= bits;
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}
