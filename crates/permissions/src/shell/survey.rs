//! Readers that look into every file below a folder.
//!
//! `grep -r` names one folder and shows lines of whatever lies in it, `.env` included. The Grep tool skips
//! secrets; a command doesn't. So before such a command is judged, the folder is looked through for files
//! that need a person's word or that a rule forbids, as the command itself would walk it.

use super::operand::{Meaning, meaning_of};
use crate::context::PermissionContext;
use crate::path::resolve_path;
use ignore::WalkBuilder;
use lathe_protocol::permission::Behavior;
use lathe_shell::analysis::{Argument, Part, PathOperand};
use std::path::{Path, PathBuf};

/// How many files are looked at; a folder with more is not known.
const MOST_FILES: usize = 20_000;
/// One is enough to ask; a few make the question clearer.
const MOST_FOUND: usize = 8;

/// A folder to look through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) folder: PathBuf,
    /// Whether the reader also looks at hidden and ignored files.
    pub(crate) everything: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Files(Vec<PathBuf>),
    TooMany,
}

/// The folders that a part reads through.
pub(crate) fn surveys_of(
    part: &Part,
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
) -> Vec<Survey> {
    if !part.read_only.is_yes() {
        return Vec::new();
    }
    let Some(everything) = reads_through(&part.effective_argv) else {
        return Vec::new();
    };
    let here = [PathOperand::literal(".")];
    let operands: &[PathOperand] = if part.read_paths.is_empty() {
        &here
    } else {
        &part.read_paths
    };
    let mut surveys: Vec<Survey> = Vec::new();
    for operand in operands {
        let roots = match meaning_of(operand, folders, context) {
            Meaning::Paths(paths) => paths,
            Meaning::Pattern { folders, .. } => folders,
            Meaning::Unbounded => continue,
        };
        surveys.extend(
            roots
                .into_iter()
                .map(|folder| Survey { folder, everything }),
        );
    }
    surveys
}

/// Whether a command shows what is in the files below a folder, and if so whether also in hidden and
/// ignored ones.
fn reads_through(argv: &[Argument]) -> Option<bool> {
    let words: Vec<&str> = argv.iter().map(Argument::text).collect();
    let (name, words) = words.split_first()?;
    let short = |letters: &[char]| {
        words
            .iter()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letters))
    };
    let long = |starts: &[&str]| {
        words
            .iter()
            .any(|word| starts.iter().any(|start| word.starts_with(start)))
    };
    match crate::broad::base_name(name) {
        "grep" | "egrep" | "fgrep" => {
            (short(&['r', 'R']) || long(&["--rec", "--deref", "--dir"])).then_some(true)
        }
        "rgrep" | "xargs" => Some(true),
        "find" => long(&["-exec", "-ok"]).then_some(true),
        "diff" => (short(&['r']) || long(&["--rec"])).then_some(true),
        "rg" | "ag" | "ack" => Some(
            short(&['u', '.']) || long(&["--hidden", "--no-ignore", "--unrestricted", "--all"]),
        ),
        _ => None,
    }
}

/// Looks through a folder.
pub(crate) fn look_through(survey: &Survey, context: &PermissionContext) -> Found {
    let forbidden: Vec<_> = context
        .rules
        .with(Behavior::Deny)
        .filter(|rule| rule.is_for_reading())
        .collect();
    let mut files = Vec::new();
    let mut seen = 0;
    let walk = WalkBuilder::new(&survey.folder)
        .standard_filters(!survey.everything)
        .follow_links(false)
        .build();
    for entry in walk.flatten() {
        if entry.file_type().is_none_or(|kind| kind.is_dir()) {
            continue;
        }
        seen += 1;
        if seen > MOST_FILES {
            return if survey.everything {
                Found::TooMany
            } else {
                done(files)
            };
        }
        let path = entry.path();
        let shown = context.secret(path).is_some()
            || (!forbidden.is_empty() && is_forbidden(path, &forbidden));
        if shown {
            files.push(path.to_path_buf());
            if files.len() >= MOST_FOUND {
                break;
            }
        }
    }
    done(files)
}

fn is_forbidden(path: &Path, rules: &[&crate::ruleset::Rule]) -> bool {
    let path = resolve_path(path);
    rules.iter().any(|rule| rule.covers_any_form(&path))
}

fn done(files: Vec<PathBuf>) -> Found {
    if files.is_empty() {
        Found::Nothing
    } else {
        Found::Files(files)
    }
}
