//! Readers that look into every file below a folder.
//!
//! `grep -r` names one folder and shows lines of whatever lies in it, `.env` included. The Grep tool skips
//! secrets; a command doesn't. So before such a command is judged, the folder is looked through for files
//! that need a person's word or that a rule forbids, as the command itself would walk it.

use super::operand::{Meaning, meaning_of};
use crate::broad::base_name;
use crate::context::PermissionContext;
use crate::path::resolve_path;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::WalkBuilder;
use ignore::types::{Types, TypesBuilder};
use lathe_protocol::permission::Behavior;
use lathe_shell::analysis::{Analysis, Argument, Part, PathOperand};
use std::path::{Path, PathBuf};

/// How many files are looked at; a folder with more is not known.
const MOST_FILES: usize = 20_000;
/// One is enough to ask; a few make the question clearer.
const MOST_FOUND: usize = 8;

/// A folder to look through, and which of its files the reader shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) folder: PathBuf,
    reach: Reach,
}

/// Which files below a folder a reader shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Reach {
    /// Whether it also looks at hidden and ignored files.
    everything: bool,
    /// Only files whose names match one of these; empty for all.
    names: Vec<String>,
    /// Only files of these types, as ripgrep knows them; empty for all.
    types: Vec<String>,
}

impl Reach {
    fn everything() -> Self {
        Self {
            everything: true,
            ..Self::default()
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Files(Vec<PathBuf>),
    TooMany,
}

/// The part whose output another one reads, where only a `|` stands between them.
pub(crate) fn piped_into<'a>(
    analysis: &'a Analysis,
    index: usize,
    command: &str,
) -> Option<&'a Part> {
    let part = analysis.parts.get(index)?;
    let before = analysis.parts.get(index.checked_sub(1)?)?;
    let between = command.get(before.span.end..part.span.start)?;
    (between.trim() == "|").then_some(before)
}

/// The folders that a part reads through. `before` is the part whose output it reads.
pub(crate) fn surveys_of(
    part: &Part,
    before: Option<&Part>,
    folders: Option<&[PathBuf]>,
    context: &PermissionContext,
) -> Vec<Survey> {
    if !part.read_only.is_yes() {
        return Vec::new();
    }
    let Some(reach) = reach_of(part, before) else {
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
        surveys.extend(roots.into_iter().map(|folder| Survey {
            folder,
            reach: reach.clone(),
        }));
    }
    surveys
}

/// Which files below a folder a command shows; `None` if it shows no contents of such files.
fn reach_of(part: &Part, before: Option<&Part>) -> Option<Reach> {
    let words: Vec<&str> = part.effective_argv.iter().map(Argument::text).collect();
    let (name, rest) = words.split_first()?;
    match base_name(name) {
        "grep" | "egrep" | "fgrep" | "rgrep" => greps(base_name(name), rest),
        "diff" => (has_short(rest, &['r']) || has_long(rest, &["--rec"])).then(Reach::everything),
        "rg" | "ag" | "ack" => ripgrep(rest),
        "find" if has_long(rest, &["-exec", "-ok"]) => {
            let run = rest
                .iter()
                .skip_while(|word| !word.starts_with("-exec") && !word.starts_with("-ok"))
                .nth(1)?;
            (!is_lister(run)).then(|| found_by(rest))
        }
        // What `xargs` reads is what the part before it names.
        "xargs" => {
            let run = part
                .all_effective
                .iter()
                .skip(1)
                .find_map(|argv| argv.first()?.fixed())?;
            if is_lister(run) {
                return None;
            }
            let named_by = before.map(|before| {
                before
                    .effective_argv
                    .iter()
                    .map(Argument::text)
                    .collect::<Vec<_>>()
            });
            let named_by = named_by.as_deref().and_then(<[&str]>::split_first);
            Some(match named_by {
                Some((&"find", rest)) => found_by(rest),
                Some((&"rg", rest)) => ripgrep(rest).unwrap_or_else(Reach::everything),
                Some((&"grep", rest)) => greps("grep", rest).unwrap_or_else(Reach::everything),
                _ => Reach::everything(),
            })
        }
        _ => None,
    }
}

fn greps(name: &str, words: &[&str]) -> Option<Reach> {
    let recursive = name == "rgrep"
        || has_short(words, &['r', 'R'])
        || has_long(words, &["--rec", "--deref", "--dir"]);
    recursive.then(|| Reach {
        names: values(words, &["--include"]),
        ..Reach::everything()
    })
}

fn ripgrep(words: &[&str]) -> Option<Reach> {
    let contents =
        !has_long(words, &["--files", "--type-list"]) || has_long(words, &["--files-with"]);
    contents.then(|| {
        let mut names = values(words, &["--glob", "--iglob", "-g"]);
        // With a glob that takes files out, what is left is everything else.
        if names
            .iter()
            .any(|name| name.starts_with('!') || name.contains('/'))
        {
            names.clear();
        }
        Reach {
            everything: has_short(words, &['u', '.'])
                || has_long(
                    words,
                    &["--hidden", "--no-ignore", "--unrestricted", "--all"],
                ),
            names,
            types: values(words, &["--type", "-t"]),
        }
    })
}

/// The files that a `find` with one name finds; anything cleverer may find all.
fn found_by(words: &[&str]) -> Reach {
    let clever = words
        .iter()
        .any(|word| matches!(*word, "-o" | "-or" | "!" | "-not" | ","));
    let names: Vec<String> = words
        .windows(2)
        .filter(|pair| matches!(pair[0], "-name" | "-iname"))
        .map(|pair| pair[1].to_owned())
        .collect();
    Reach {
        names: if clever || names.len() > 1 {
            Vec::new()
        } else {
            names
        },
        ..Reach::everything()
    }
}

/// The values of an option, written as `--option=value`, `--option value` or `-ovalue`.
fn values(words: &[&str], options: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        for option in options {
            let Some(rest) = word.strip_prefix(option) else {
                continue;
            };
            let value = match (rest.strip_prefix('='), rest) {
                (Some(value), _) => Some(value),
                (None, "") => words.get(index + 1).copied(),
                (None, attached) if !option.starts_with("--") => Some(attached),
                (None, _) => None,
            };
            found.extend(value.map(str::to_owned));
        }
    }
    found
}

fn has_short(words: &[&str], letters: &[char]) -> bool {
    words
        .iter()
        .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letters))
}

fn has_long(words: &[&str], starts: &[&str]) -> bool {
    words
        .iter()
        .any(|word| starts.iter().any(|start| word.starts_with(start)))
}

/// Programs that show names, sizes, dates and counts of files, and nothing that is in them.
const LISTERS: &[&str] = &[
    "ls", "dir", "vdir", "du", "df", "stat", "tree", "fd", "fdfind", "test", "[", "basename",
    "dirname", "realpath", "readlink", "pwd", "which", "exa", "eza", "lsd", "cd", "wc", "echo",
    "printf", "file",
];

/// Whether a reading command shows nothing that is in the files it names.
pub(crate) fn shows_names_only(argv: &[Argument]) -> bool {
    let words: Vec<&str> = argv.iter().map(Argument::text).collect();
    let Some((name, rest)) = words.split_first() else {
        return false;
    };
    match base_name(name) {
        "find" => !has_long(rest, &["-exec", "-ok"]),
        "wc" => !has_long(rest, &["--files0-from"]),
        "file" => !has_short(rest, &['f']) && !has_long(rest, &["--files-from"]),
        "rg" => has_long(rest, &["--files"]) && !has_long(rest, &["--files-with"]),
        name => is_lister(name),
    }
}

fn is_lister(name: &str) -> bool {
    LISTERS.contains(&base_name(name))
}

/// Looks through a folder.
pub(crate) fn look_through(survey: &Survey, context: &PermissionContext) -> Found {
    let forbidden: Vec<_> = context
        .rules
        .with(Behavior::Deny)
        .filter(|rule| rule.is_for_reading())
        .collect();
    let Reach {
        everything,
        names,
        types,
    } = &survey.reach;
    let Some((names, types)) = matchers(names, types) else {
        return Found::TooMany;
    };
    let mut files = Vec::new();
    let mut seen = 0;
    let mut builder = WalkBuilder::new(&survey.folder);
    builder.standard_filters(!everything).follow_links(false);
    if let Some(types) = types {
        builder.types(types);
    }
    for entry in builder.build().flatten() {
        if entry.file_type().is_none_or(|kind| kind.is_dir()) {
            continue;
        }
        seen += 1;
        if seen > MOST_FILES {
            return if *everything {
                Found::TooMany
            } else {
                done(files)
            };
        }
        let path = entry.path();
        let shown = names
            .as_ref()
            .is_none_or(|names| names.is_match(entry.file_name()));
        let closed = || {
            context.secret(path).is_some()
                || (!forbidden.is_empty() && is_forbidden(path, &forbidden))
        };
        if shown && closed() {
            files.push(path.to_path_buf());
            if files.len() >= MOST_FOUND {
                break;
            }
        }
    }
    done(files)
}

type Matchers = (Option<GlobSet>, Option<Types>);

/// What names and types must match; `None` when they can't be understood.
fn matchers(names: &[String], types: &[String]) -> Option<Matchers> {
    let globs = if names.is_empty() {
        None
    } else {
        let mut set = GlobSetBuilder::new();
        for name in names {
            set.add(GlobBuilder::new(name).case_insensitive(true).build().ok()?);
        }
        Some(set.build().ok()?)
    };
    let types = if types.is_empty() {
        None
    } else {
        let mut builder = TypesBuilder::new();
        builder.add_defaults();
        for name in types {
            builder.select(name);
        }
        Some(builder.build().ok()?)
    };
    Some((globs, types))
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
