//! Which names a command defines, assigns or prints.

use std::collections::{HashMap, HashSet};

use super::argument::{Argument, PathOperand};
use super::programs::{PipedNames, Reading};
use super::reading::FolderReading;
use super::simple::RUNS_TEXT;
use crate::syntax::{Command, CompoundKind, List, Word};

/// The files whose names a command prints, for `xargs` after it. Filters keep whole lines of what came in.
pub(super) fn listed_names(
    argv: &[Argument],
    reading: &Reading,
    piped: Option<&PipedNames>,
) -> Option<PipedNames> {
    if let Some(listing) = reading.lists {
        let folders = if reading.paths.is_empty() {
            vec![PathOperand::literal(".")]
        } else {
            reading.paths.clone()
        };
        return Some(PipedNames {
            folders,
            reading: reading
                .below
                .clone()
                .unwrap_or_else(FolderReading::everything),
            listing,
        });
    }
    let piped = piped.filter(|piped| !piped.listing.with_nul)?;
    let words: Option<Vec<&str>> = argv.iter().map(Argument::fixed).collect();
    let words = words?;
    let (name, rest) = words.split_first()?;
    let keeps_lines = match *name {
        "grep" => {
            let (options, others): (Vec<&str>, Vec<&str>) =
                rest.iter().partition(|word| word.starts_with('-'));
            others.len() == 1
                && options.iter().all(|option| {
                    matches!(*option, "-v" | "-i" | "-E" | "-F" | "-w" | "-x" | "-iE")
                })
        }
        "head" | "tail" => match rest {
            [] => true,
            [count] => count
                .strip_prefix('-')
                .is_some_and(|count| count.parse::<u32>().is_ok()),
            ["-n", count] => count.parse::<u32>().is_ok(),
            _ => false,
        },
        "sort" => rest
            .iter()
            .all(|word| matches!(*word, "-r" | "-u" | "-f" | "-V" | "-n")),
        "uniq" => rest.is_empty(),
        _ => false,
    };
    keeps_lines.then(|| piped.clone())
}

/// Stands for 'any name at all' among the names that are given a value.
pub(super) const ANY_NAME: &str = "*";

/// Counts where names could be given a value: assignments, loops, and words of commands that are the
/// name or start with it and `=` or `[`, as for `read` and `export`.
pub(super) fn mentions(list: &List, found: &mut HashMap<String, usize>) {
    for command in list.items.iter().flat_map(|item| &item.pipeline.commands) {
        match command {
            Command::Simple(simple) => {
                for assignment in simple.assignments.iter().chain(&simple.array_arguments) {
                    *found.entry(assignment.name.clone()).or_default() += 1;
                }
                let assigns = simple
                    .words
                    .first()
                    .and_then(Word::fixed)
                    .is_none_or(|name| {
                        RUNS_TEXT.contains(&name.as_str())
                            || matches!(
                                name.as_str(),
                                "read" | "printf" | "wait" | "builtin" | "command"
                            )
                    });
                if assigns
                    && simple.words.iter().any(|word| {
                        word.fixed().is_none()
                            || matches!(word.text.as_str(), "eval" | "source" | ".")
                    })
                {
                    *found.entry(ANY_NAME.to_owned()).or_default() += 1;
                }
                for word in simple.words.iter().filter_map(Word::fixed) {
                    let length = word
                        .bytes()
                        .take_while(|byte| *byte == b'_' || byte.is_ascii_alphanumeric())
                        .count();
                    let name = word.get(..length).unwrap_or_default();
                    if !name.is_empty()
                        && matches!(word.as_bytes().get(length), None | Some(b'=' | b'[' | b'+'))
                    {
                        *found.entry(name.to_owned()).or_default() += 1;
                    }
                }
            }
            Command::Compound(compound) => compound_mentions(&compound.kind, found),
            Command::Function(function) => compound_mentions(&function.body.kind, found),
        }
    }
}

fn compound_mentions(kind: &CompoundKind, found: &mut HashMap<String, usize>) {
    if let CompoundKind::For { variable, .. } = kind {
        *found.entry(variable.clone()).or_default() += 1;
    }
    for list in inner_lists(kind) {
        mentions(list, found);
    }
}

/// The lists directly inside a compound command.
pub(super) fn inner_lists(kind: &CompoundKind) -> Vec<&List> {
    match kind {
        CompoundKind::Subshell(list) | CompoundKind::Group(list) => vec![list],
        CompoundKind::If { clauses, otherwise } => clauses
            .iter()
            .flat_map(|(condition, body)| [condition, body])
            .chain(otherwise)
            .collect(),
        CompoundKind::For { body, .. } | CompoundKind::ArithmeticFor { body, .. } => vec![body],
        CompoundKind::While { condition, body } => vec![condition, body],
        CompoundKind::Case { arms, .. } => arms.iter().map(|(_, body)| body).collect(),
        CompoundKind::Conditional { .. } | CompoundKind::Arithmetic { .. } => Vec::new(),
    }
}

/// The names of all functions that are defined anywhere in the command.
pub(super) fn function_names(list: &List, names: &mut HashSet<String>) {
    for command in list.items.iter().flat_map(|item| &item.pipeline.commands) {
        match command {
            Command::Simple(_) => {}
            Command::Compound(compound) => compound_function_names(&compound.kind, names),
            Command::Function(function) => {
                names.insert(function.name.clone());
                compound_function_names(&function.body.kind, names);
            }
        }
    }
}

fn compound_function_names(kind: &CompoundKind, names: &mut HashSet<String>) {
    for list in inner_lists(kind) {
        function_names(list, names);
    }
}
