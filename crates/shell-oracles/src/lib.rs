//! Other people's shell parsers as witnesses against ours. Used by tests only.
//!
//! The permission decision believes our own parser, so it must not overlook a command. Real bash judges
//! that in `lathe-shell`'s tests, but it only shows what happens to run. A parser shows every branch. Two
//! of them read what ours has understood: tree-sitter's grammar for bash ([`sitter`]) and the parser of
//! the shell brush ([`brush`]). What one of them sees, ours must have seen ([`comparison`]); the other
//! way round ours may see more, since it decodes quotes and reads here-documents exactly.
//!
//! Neither of them is right about everything, which is why we have our own. Where one is known to
//! misread, `data/misreadings.tsv` says so with a reason, and an entry that isn't needed any more fails
//! the test. A text that a witness refuses says nothing.
//!
//! This is a crate of its own because the witnesses take longer to compile than the analyser.
//! [`mutation`] makes variants of the commands in `lathe-shell`'s corpora. Start with
//! `tests/oracles.rs`.
#![forbid(unsafe_code)]

pub mod brush;
pub mod comparison;
pub mod mutation;
pub mod sitter;

use serde::{Deserialize, Serialize};

/// A witness's reading of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Testimony {
    /// These simple commands would run.
    Commands(Vec<SeenCommand>),
    /// It can't read the text.
    Refused,
    /// It didn't answer in time, or died.
    Lost,
}

/// A simple command that a witness sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenCommand {
    /// Its name and, if `complete`, its arguments.
    pub words: Vec<SeenWord>,
    /// Whether the witness tells the arguments in a form that can be compared.
    pub complete: bool,
}

/// A word that a witness sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenWord {
    /// The word as written.
    pub source: String,
    /// The word with its quotes removed, where it has no expansions in it.
    pub value: Option<String>,
}
