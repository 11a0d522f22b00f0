//! Which commands only read, by command and option.
//!
//! A command that isn't in a table here is not read-only, and neither is one with an option that its
//! table doesn't have. Tables list what is *allowed*, so a new or forgotten option of a program costs a
//! question and never a surprise. `entries` and `table` hold the commands that need nothing but a table; the other
//! modules hold those whose words are a language of their own (`awk`, `sed`, `find`, `test`) or a tree
//! of sub-commands (`git`, package managers, clients of services).

mod awk;
mod entries;
mod find;
mod git;
mod managers;
mod sed;
mod services;
mod shell_words;
mod table;

pub(super) use sed::in_place_files;

use super::argument::{Argument, PathOperand};
use crate::syntax::ShellKind;

/// What is known about a command that only reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    /// Files and folders it names.
    pub(super) paths: Vec<PathOperand>,
    /// Whether the folder's own configuration can make it run programs.
    pub(super) needs_trust: bool,
}

/// Either what it reads, or why it isn't known to only read.
pub(super) type Verdict = Result<Reading, String>;

/// What surrounds the command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings<'a> {
    /// The shell.
    pub(super) shell: ShellKind,
    /// File names that come in by a pipe, where they are bounded.
    pub(super) piped_names: Option<&'a [PathOperand]>,
    /// How many commands this one is nested in (`find -exec`, `xargs`).
    pub(super) depth: usize,
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
        return Err(format!("the command {} is not fixed", first.text()));
    };
    if surroundings.depth > 3 {
        return Err("commands nested too deeply".to_owned());
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
        "fd" | "fdfind" => find::judge_fd(words),
        "xargs" => find::judge_xargs(words, surroundings),
        "sed" => sed::judge(words),
        "awk" | "gawk" | "mawk" | "nawk" => awk::judge(words),
        "test" | "[" => shell_words::judge_test(name, words, surroundings.shell),
        "gh" => services::judge_gh(words),
        "docker" | "podman" => services::judge_docker(words),
        "kubectl" => services::judge_kubectl(words),
        "npm" | "yarn" | "pnpm" | "cargo" | "pip" | "pip3" | "go" | "rustup" | "bun" | "gem"
        | "brew" | "apt" | "apt-cache" | "dpkg" | "rpm" | "systemctl" | "conda" | "uv"
        | "poetry" | "composer" | "mvn" | "gradle" | "dotnet" | "deno" => {
            managers::judge(name, words)
        }
        _ => match shell_words::judge_builtin(name, words, surroundings.shell) {
            Some(verdict) => verdict,
            None => table::judge(name, words),
        },
    }
}

/// Whether no argument at all can make the command write a file or run a program.
pub(super) fn takes_anything(name: &str) -> bool {
    table::takes_anything(name)
}

/// The paths of words that aren't options, for commands that list or read them.
fn paths_of<'a>(operands: impl IntoIterator<Item = &'a &'a Argument>) -> Vec<PathOperand> {
    operands
        .into_iter()
        .filter(|operand| operand.fixed() != Some("-"))
        .map(|operand| operand.path())
        .collect()
}

/// All words, if all are fixed.
fn all_fixed(words: &[Argument]) -> Option<Vec<&str>> {
    words.iter().map(Argument::fixed).collect()
}
