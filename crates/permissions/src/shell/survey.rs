//! Readers that look into every file below a folder.
//!
//! `grep -r` names one folder and shows lines of whatever lies in it, `.env` included. The Grep tool skips
//! secrets; a command doesn't. So before such a command is judged, the folder is looked through for files
//! that need confirmation or that a rule forbids, as the command itself would walk it.

use super::operand::{Meaning, meaning_of};
use crate::context::PermissionContext;
use crate::glob::could_match;
use crate::path::resolve_path;
use ignore::types::{Types, TypesBuilder};
use ignore::{DirEntry, WalkBuilder};
use lathe_protocol::permission::Behavior;
use lathe_settings::regular_file::has_endless_ignore_file;
use lathe_shell::analysis::{FileAction, FolderReading, NamesAsWords, Part, PathOperand, Shows};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many files are looked at; a folder with more is not known.
const MOST_FILES: usize = 20_000;
/// The same where ignored files are left out, as in the sources of a large project.
const MOST_SOURCES: usize = 200_000;
/// One is enough to ask; a few make the question clearer.
const MOST_FOUND: usize = 8;

/// A folder to look through, and which of its files the reader shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) folder: PathBuf,
    reading: FolderReading,
    /// Whether what is in the files is shown.
    contents: bool,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Files(Vec<PathBuf>),
    /// A name that would be taken for something else when it is given as a word.
    OddName(PathBuf),
    TooMany,
}

/// The folders that a part reads through.
pub(crate) fn surveys_of(
    part: &Part,
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
) -> Vec<Survey> {
    let Some(reading) = &part.below else {
        return copied(part, folders, context);
    };
    let contents = part.shows == Shows::Contents;
    if !contents && reading.names_as_words == NamesAsWords::Any {
        return Vec::new();
    }
    let here = [PathOperand::literal(".")];
    let operands: &[PathOperand] = if part.read_paths.is_empty() || reading.tracked {
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
        surveys.extend(roots.into_iter().map(|folder| Survey {
            folder,
            reading: reading.clone(),
            contents,
        }));
    }
    surveys
}

/// The folders whose files a part copies or moves: under another name a rule would not know them.
fn copied(part: &Part, folders: Option<&[PathBuf]>, context: &PermissionContext) -> Vec<Survey> {
    let Some(command) = &part.file_command else {
        return Vec::new();
    };
    let ignored = match command.action {
        FileAction::Copy => true,
        FileAction::Move => false,
        _ => return Vec::new(),
    };
    let sources = command
        .paths
        .split_last()
        .map_or(&[][..], |(_, sources)| sources);
    let mut roots = Vec::new();
    for operand in sources {
        match meaning_of(operand, folders, context) {
            Meaning::Paths(paths) => roots.extend(paths),
            Meaning::Pattern { folders, .. } => roots.extend(folders),
            Meaning::Unbounded => {}
        }
    }
    let reading = FolderReading {
        ignored,
        follows_links: false,
        enters_links: false,
        ..FolderReading::everything()
    };
    roots
        .into_iter()
        .map(|folder| Survey {
            folder,
            reading: reading.clone(),
            contents: true,
        })
        .collect()
}

/// Looks through a folder.
pub(crate) fn look_through(survey: &Survey, context: &PermissionContext) -> Found {
    let forbidden: Vec<_> = context
        .rules
        .with(Behavior::Deny)
        .filter(|rule| rule.is_for_reading())
        .collect();
    let reading = &survey.reading;
    if reading.tracked {
        let Some(tracked) = crate::repository::tracked_files(&survey.folder) else {
            return Found::TooMany;
        };
        let closed = |path: &PathBuf| {
            context.secret(path).is_some()
                || (!forbidden.is_empty() && is_forbidden(path, &forbidden))
        };
        let found = tracked.into_iter().filter(closed).take(MOST_FOUND);
        return done(found.collect());
    }
    let Some(types) = types_of(&reading.types) else {
        return Found::TooMany;
    };
    let mut files = Vec::new();
    let mut seen = 0;
    let mut builder = WalkBuilder::new(&survey.folder);
    builder
        .standard_filters(!reading.ignored)
        .hidden(!reading.hidden)
        .follow_links(reading.follows_links);
    if let Some(types) = types {
        builder.types(types);
    }
    // What these take in is read although it is hidden or another file ignores it.
    if !reading.ignored {
        builder.add_custom_ignore_filename(".rgignore");
    }
    let has_odd = Arc::new(AtomicBool::new(false));
    if !reading.ignored {
        if survey.folder.ancestors().any(has_endless_ignore_file) {
            return Found::TooMany;
        }
        let has_odd = Arc::clone(&has_odd);
        builder.filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            let odd = is_folder && has_endless_ignore_file(entry.path());
            if odd {
                has_odd.store(true, Ordering::Relaxed);
            }
            !odd
        });
    }
    for entry in builder.build().flatten() {
        let is_folder = entry.file_type().is_none_or(|kind| kind.is_dir());
        // A program that walks by itself reads what is below a linked folder, which is not a link itself.
        if is_folder && reading.names_as_words == NamesAsWords::Any {
            if survey.contents && reading.enters_links && leads_elsewhere(&entry, context) {
                files.push(entry.into_path());
            }
            continue;
        }
        seen += 1;
        let most = if reading.ignored {
            MOST_FILES
        } else {
            MOST_SOURCES
        };
        if seen > most {
            return Found::TooMany;
        }
        let path = entry.path();
        let name = entry.file_name().to_string_lossy();
        let shown = reading.names.is_empty()
            || reading
                .names
                .iter()
                .any(|pattern| could_match(pattern, &name));
        if !shown {
            continue;
        }
        if is_odd(path, &survey.folder, reading.names_as_words) {
            return Found::OddName(path.to_path_buf());
        }
        if is_folder || !survey.contents {
            continue;
        }
        let closed = context.secret(path).is_some()
            || (reading.follows_links && leads_elsewhere(&entry, context))
            || (!forbidden.is_empty() && is_forbidden(path, &forbidden));
        if closed {
            files.push(path.to_path_buf());
            if files.len() >= MOST_FOUND {
                break;
            }
        }
    }
    if has_odd.load(Ordering::Relaxed) {
        return Found::TooMany;
    }
    done(files)
}

/// Whether a link leads out of the roots, or to a secret.
fn leads_elsewhere(entry: &DirEntry, context: &PermissionContext) -> bool {
    if !entry.path_is_symlink() {
        return false;
    }
    let resolved = resolve_path(entry.path());
    !resolved.inside(&context.roots) || resolved.forms().any(|form| context.secret(form).is_some())
}

/// Whether a name, given to a command as a word, is taken for something else.
fn is_odd(path: &Path, folder: &Path, names: NamesAsWords) -> bool {
    let inside = path.strip_prefix(folder).unwrap_or(path);
    let text = inside.to_string_lossy();
    match names {
        NamesAsWords::Any => false,
        NamesAsWords::NoDash => text.starts_with('-'),
        NamesAsWords::Plain => {
            text.starts_with('-')
                || text.contains(|character: char| {
                    character.is_whitespace()
                        || character.is_control()
                        || matches!(character, '\'' | '"' | '\\')
                })
        }
    }
}

/// The types of files; `None` when they can't be understood.
#[expect(
    clippy::option_option,
    reason = "no types at all is different from types that aren't known"
)]
fn types_of(types: &[String]) -> Option<Option<Types>> {
    if types.is_empty() {
        return Some(None);
    }
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for name in types {
        builder.select(name);
    }
    builder.build().ok().map(Some)
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
