//! Which commands only read: one exact grammar per program.
//!
//! A program that isn't known here is not read-only, and neither is one with an option or a word that its
//! grammar doesn't have. Nothing is shared between programs that merely resemble each other, because the
//! same letter takes a value in one and none in another, and a value that is mistaken for an option is a
//! file that nobody looks at. Where implementations of one program differ, only what all of them read alike
//! is known.
//!
//! `catalog` holds the programs that need nothing but a table of options and a word on their operands. The
//! other modules hold those whose words are a language of their own (`awk`, `sed`, `jq`, `find`, `test`) or a
//! tree of sub-commands (`git`, package managers, clients of services).

mod awk;
mod catalog;
mod checks;
mod containers;
mod find;
mod git;
mod github;
mod jq;
mod kubectl;
mod managers;
mod printers;
#[cfg(test)]
mod reality;
mod sed;
mod shell_words;
mod sub_commands;
mod table;
mod xargs;

pub(super) use git::elsewhere as git_elsewhere;
pub(super) use sed::{in_place_files, runs_its_input};

use super::argument::{Argument, PathOperand};
use super::options::Sorted;
use super::reading::{FolderReading, Obeys, Shows};
use crate::syntax::ShellKind;

/// The properties of a command that only reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    /// Files and folders it names.
    pub(super) paths: Vec<PathOperand>,
    /// Words that become names of files, none of which may look like an option.
    pub(super) names: Vec<PathOperand>,
    /// How much of the files its output shows.
    pub(super) shows: Shows,
    /// Which files below the folders it reads.
    pub(super) below: Option<FolderReading>,
    /// Whose configuration it obeys.
    pub(super) obeys: Obeys,
    /// Set when its output is a list of names of files below `paths`.
    pub(super) lists: Option<Listing>,
}

/// How a command prints names of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listing {
    /// Whether each name starts with the folder that was asked for, so that none looks like an option.
    pub(super) rooted: bool,
    /// Whether nothing of the files but their names decides what is printed.
    pub(super) names_only: bool,
    /// Whether names end with NUL.
    pub(super) with_nul: bool,
}

/// Why a command isn't known to only read, in words for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal(String);

impl Refusal {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    pub(super) fn into_reason(self) -> String {
        self.0
    }
}

impl From<&str> for Refusal {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}

/// Either what it reads, or why it isn't known to only read.
pub(super) type Verdict = Result<Reading, Refusal>;

fn refuse<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(reason))
}

/// The context of the command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings<'a> {
    /// The shell.
    pub(super) shell: ShellKind,
    /// Names of files that come in by a pipe, where they are bounded.
    pub(super) piped_names: Option<&'a PipedNames>,
    /// How many commands this one is nested in (`find -exec`, `xargs`).
    pub(super) depth: usize,
}

/// Names of files that one command prints for the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PipedNames {
    /// The folders that the files lie below.
    pub(super) folders: Vec<PathOperand>,
    /// Which files below them.
    pub(super) reading: FolderReading,
    pub(super) listing: Listing,
}

impl Surroundings<'_> {
    fn deeper(self) -> Self {
        Self {
            depth: self.depth + 1,
            ..self
        }
    }
}

/// Judges a command whose wrappers have been taken off.
pub(super) fn judge(argv: &[Argument], surroundings: Surroundings<'_>) -> Verdict {
    let Some((first, words)) = argv.split_first() else {
        return Ok(Reading::default());
    };
    let Some(name) = first.fixed() else {
        return refuse(format!("the command {} is not fixed", first.text()));
    };
    if surroundings.depth > 3 {
        return refuse("commands nested too deeply");
    }
    // A path could be any program; only these two folders belong to the system alone.
    let name = name
        .strip_prefix("/usr")
        .filter(|rest| rest.starts_with("/bin/"))
        .unwrap_or(name);
    let name = name.strip_prefix("/bin/").unwrap_or(name);
    match name {
        "git" => git::judge(words),
        "find" => find::judge(words, surroundings),
        "xargs" => xargs::judge(words, surroundings),
        "sed" => sed::judge(words),
        "awk" | "gawk" | "mawk" | "nawk" => awk::judge(words),
        "jq" => jq::judge(words),
        "yq" => jq::judge_yq(words),
        "test" | "[" => shell_words::judge_test(name, words, surroundings.shell),
        "ps" => printers::judge_ps(words),
        "printenv" => printers::judge_printenv(words),
        "gh" => github::judge(words),
        "docker" => containers::judge_docker(words),
        "podman" => containers::judge_podman(words),
        "kubectl" => kubectl::judge(words),
        _ => managers::judge(name, words)
            .or_else(|| shell_words::judge_builtin(name, words, surroundings.shell))
            .unwrap_or_else(|| table::judge(name, words)),
    }
}

/// The paths of words that aren't options, for commands that list or read them.
fn paths_of<'a>(operands: impl IntoIterator<Item = &'a &'a Argument>) -> Vec<PathOperand> {
    operands
        .into_iter()
        .filter(|operand| operand.fixed() != Some("-"))
        .map(|operand| operand.path())
        .collect()
}

/// Refuses names of files among the words of a program that has options which do more than read.
fn no_names(sorted: &Sorted<'_>) -> Result<(), Refusal> {
    match sorted.names.first() {
        None => Ok(()),
        Some(name) => refuse(format!("{} could turn into an option", name.text)),
    }
}

/// All words, if all are fixed.
fn all_fixed(words: &[Argument]) -> Option<Vec<&str>> {
    words.iter().map(Argument::fixed).collect()
}
