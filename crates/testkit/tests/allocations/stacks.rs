//! The counts of a process, and who in it caused them.

use lathe_testkit::counts::Part;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Equal to the constants and structures of `count.c`.
const FRAMES: usize = 24;
const STACKS: usize = 1 << 15;
const WORD: usize = 8;
const HEADER: usize = 6 * WORD;
const STACK: usize = (4 + FRAMES) * WORD;
/// Where the word stands that switches stacks on, and the one with the address that the program was loaded at.
const TRACED: u64 = 4 * WORD as u64;
const BASE: usize = 5;

/// The events that are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Allocations,
    Allocated,
    Copied,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Total([u64; 3]);

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Allocations, Self::Allocated, Self::Copied];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allocations => "allocations of a turn",
            Self::Allocated => "bytes allocated in a turn",
            Self::Copied => "bytes copied in a turn",
        }
    }

    pub(crate) fn of(self, total: &Total) -> u64 {
        total.0[self as usize]
    }
}

/// The file that the process counts in.
#[derive(Debug)]
pub(crate) struct Counts {
    path: PathBuf,
    file: File,
}

impl Counts {
    pub(crate) fn create(path: &Path) -> Self {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .unwrap();
        file.set_len((HEADER + STACKS * STACK) as u64).unwrap();
        Self {
            path: path.to_owned(),
            file,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn words(&self, at: usize, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; count * WORD];
        self.file.read_exact_at(&mut bytes, at as u64).unwrap();
        let words = bytes.chunks_exact(WORD);
        words
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect()
    }

    pub(crate) fn total(&self) -> Total {
        let words = self.words(WORD, 3);
        Total([words[0], words[1], words[2]])
    }

    /// Whether stacks are kept from now on.
    pub(crate) fn trace(&self, on: bool) {
        let word = u64::from(on).to_ne_bytes();
        self.file.write_all_at(&word, TRACED).unwrap();
    }

    /// The crates of a kind of count in a turn, each with its functions: the innermost of our own on the stack is to blame.
    pub(crate) fn by_crate(&self, kind: Kind, turns: u64) -> BTreeMap<String, Part> {
        let base = self.words(0, HEADER / WORD)[BASE];
        let symbols = Symbols::of(lathe_testkit::binary::lathe());
        let mut found: HashMap<(String, String), u64> = HashMap::new();
        for number in 0..STACKS {
            let words = self.words(HEADER + number * STACK, STACK / WORD);
            let count = words[1 + kind as usize];
            if count == 0 {
                continue;
            }
            let mut frames = words[4..].iter().filter(|frame| **frame != 0);
            let ours = frames.find_map(|frame| symbols.own(frame.wrapping_sub(base)));
            let (krate, function) =
                ours.unwrap_or_else(|| ("others".to_owned(), "others".to_owned()));
            *found.entry((krate, function)).or_default() += count;
        }
        let mut crates: BTreeMap<String, Part> = BTreeMap::new();
        for ((krate, function), count) in found {
            let part = crates.entry(krate).or_default();
            part.count += count / turns;
            part.functions.push((count / turns, function));
        }
        crates
    }
}

/// The functions of a program by their addresses.
struct Symbols(Vec<(u64, String)>);

impl Symbols {
    fn of(program: &Path) -> Self {
        let output = Command::new("nm")
            .args(["--demangle", "--defined-only", "--numeric-sort"])
            .arg(program)
            .output()
            .unwrap();
        assert!(output.status.success(), "nm can't read {program:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        let symbol = |line: &str| {
            let (address, rest) = line.split_once(' ')?;
            let (kind, name) = rest.split_once(' ')?;
            let is_function = kind.eq_ignore_ascii_case("t") || kind.eq_ignore_ascii_case("w");
            let address = u64::from_str_radix(address, 16).ok()?;
            is_function.then(|| (address, name.to_owned()))
        };
        Self(text.lines().filter_map(symbol).collect())
    }

    /// The crate and the function at an address, if it is one of our own.
    fn own(&self, address: u64) -> Option<(String, String)> {
        let after = self.0.partition_point(|(start, _)| *start < address);
        let name = &self.0.get(after.checked_sub(1)?)?.1;
        // `<lathe_a::B as core::C>::d` and `lathe_a::b::{closure#0}` begin with our own name; a foreign function with one of
        // our types between its brackets does not.
        let plain = name.trim_start_matches(['<', '&', '_']);
        let krate = plain
            .split("::")
            .next()
            .filter(|it| it.starts_with("lathe"))?;
        Some((krate.to_owned(), name.clone()))
    }
}
