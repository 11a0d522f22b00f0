//! Secrets that a confined command can't read although they lie in the roots.

use crate::context::PermissionContext;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// How many folders are looked at: a command must not wait for more than a fraction of a millisecond.
const MOST_FOLDERS: usize = 24;
/// How many entries of a folder are looked at.
const MOST_ENTRIES: usize = 256;
/// Folders that are large and hold no secrets of the project.
const SKIPPED: [&str; 6] = [".git", "node_modules", "target", ".venv", "venv", "vendor"];

/// The secrets near the top of the roots, and beside the files that a command names, without the ones that it names
/// itself. Deeper ones are found by the survey of commands that read below folders.
pub(super) fn secrets(context: &PermissionContext, named: &[&Path]) -> Vec<PathBuf> {
    let mut folders: VecDeque<PathBuf> = context.roots.iter().cloned().collect();
    let beside = named.iter().filter_map(|path| path.parent());
    for folder in beside.filter(|folder| within(folder, &context.roots)) {
        if !folders.iter().any(|known| known == folder) {
            folders.push_back(folder.to_path_buf());
        }
    }
    let mut found = Vec::new();
    let mut looked_at = 0;
    while let Some(folder) = folders.pop_front() {
        looked_at += 1;
        if looked_at > MOST_FOLDERS {
            break;
        }
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let entries: Vec<_> = entries.flatten().take(MOST_ENTRIES + 1).collect();
        if entries.len() > MOST_ENTRIES {
            continue;
        }
        for entry in entries {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            if kind.is_dir() {
                if !is_skipped(&entry.file_name()) {
                    folders.push_back(path);
                }
            } else if kind.is_file()
                && may_be_secret(&entry.file_name(), context)
                && context.secret(&path).is_some()
                && !named.contains(&path.as_path())
            {
                found.push(path);
            }
        }
    }
    found
}

fn within(folder: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| folder.starts_with(root))
}

fn is_skipped(name: &OsStr) -> bool {
    SKIPPED.iter().any(|skipped| name == *skipped)
}

/// A quick look at the name before the whole check.
fn may_be_secret(name: &OsStr, context: &PermissionContext) -> bool {
    let name = name.to_string_lossy();
    context.files.ignore.is_some()
        || name.starts_with(['.', '_'])
        || name.starts_with("id_")
        || name.contains('.')
}

/// Files that git must show no patches of, in any commit. The letters match in either case.
const SECRET_PATTERNS: [&str; 13] = [
    ".env",
    ".env.*",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.ppk",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "id_*",
    ".netrc",
];

/// Patterns for files that are there to be read, although one of the others matches them.
const TEMPLATES: [&str; 6] = [
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    ".env.defaults",
    "id_*.pub",
];

/// Lines for git's attributes file: the user's own first, then the secrets.
pub(super) fn git_attributes(home: &Path) -> String {
    let own = std::fs::read_to_string(home.join(".config/git/attributes")).unwrap_or_default();
    let mut lines = own;
    if !lines.is_empty() && !lines.ends_with('\n') {
        lines.push('\n');
    }
    for (patterns, attribute) in [(&SECRET_PATTERNS[..], "-diff"), (&TEMPLATES[..], "!diff")] {
        for pattern in patterns {
            lines.push_str(&in_any_case(pattern));
            lines.push(' ');
            lines.push_str(attribute);
            lines.push('\n');
        }
    }
    lines
}

fn in_any_case(pattern: &str) -> String {
    pattern
        .chars()
        .map(|character| {
            if character.is_ascii_alphabetic() {
                format!(
                    "[{}{}]",
                    character.to_ascii_lowercase(),
                    character.to_ascii_uppercase()
                )
            } else {
                character.to_string()
            }
        })
        .collect()
}
