//! A strict parser for shell commands.
//!
//! The permission decision rests on knowing *exactly* which simple commands a text would run. General
//! purpose parsers are built to be forgiving; this one is built to be believed. Whatever it accepts it
//! takes apart the way bash does (quotes decoded, line continuations joined, here-documents found at
//! their true ends), and whatever it is not sure about it refuses with a reason and a position. A
//! refusal costs a question; a wrong tree costs trust.
//!
//! - [`tree`] has the nodes. There are few kinds, and a new construct is refused until it gets one.
//! - `parser` has the state, lists and pipelines; `commands` simple and compound commands;
//!   `redirections` also here-documents.
//! - `words` has what happens inside a word: quotes, expansions, globs, braces, tildes.
//! - `expansion` has `${…}`, `$((…))` and the decoding of `$'…'`.
//!
//! The parser is one pass over the bytes without backtracking. Nesting is bounded, so that no input can
//! exhaust the stack, and so is the length: the kernel doesn't hand a longer argument to a shell.
//!
//! Start with [`parse`].

mod commands;
mod expansion;
mod parser;
mod redirections;
pub mod tree;
mod words;

pub use parser::{Limits, Parsed, parse, parse_with};
pub use tree::*;

/// Which shell will read the command. They differ in what a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ShellKind {
    /// GNU bash, run non-interactively.
    #[default]
    Bash,
    /// A plain POSIX `sh` such as dash. Bash extensions mean something else there and are refused.
    Posix,
    /// zsh, run non-interactively.
    Zsh,
}

/// Why the parser refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (at byte {at})")]
pub struct NotUnderstood {
    /// The construct, in words for the user.
    pub reason: String,
    /// Byte offset in the command.
    pub at: usize,
}
