//! Reading what users wrote, within bounds.
//!
//! A folder of extensions may hold anything: pipes, links in a circle, a film. Only regular files up to
//! [`MOST_BYTES`] are read, folders are walked to a depth, and a folder with more files than anyone
//! writes by hand is cut with a word about it.

use crate::problem::Problem;
use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The largest file that is read.
pub(crate) const MOST_BYTES: u64 = 512 * 1024;
/// The most files of one folder that count.
pub(crate) const MOST_FILES: usize = 2_000;
/// How deep folders are walked.
const DEEPEST: usize = 8;

/// Where a file may really lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reach<'a> {
    /// Anywhere: links of the person's own lead where the person wants.
    Anywhere,
    /// Inside a folder: what comes from others must not name files of this machine.
    Inside(&'a Path),
}

/// Reads a file whole. A file that isn't UTF-8 is read with replacement characters and reported.
pub(crate) fn read(file: &Path, reach: Reach<'_>, problems: &mut Vec<Problem>) -> Option<String> {
    let refused = |problems: &mut Vec<Problem>, message: String| {
        problems.push(Problem::fatal(file, message));
        None
    };
    if let Reach::Inside(base) = reach
        && !is_inside(file, base)
    {
        return refused(
            problems,
            "leads out of its folder by a link, so it doesn't count".to_owned(),
        );
    }
    // Looked at before it is opened: opening a pipe would wait for its other end.
    let metadata = match std::fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) => return refused(problems, format!("can't be read: {error}")),
    };
    if !metadata.is_file() {
        return refused(problems, "is not a regular file".to_owned());
    }
    if metadata.len() > MOST_BYTES {
        return refused(
            problems,
            format!(
                "has {} KB and is not read (at most {} KB)",
                metadata.len() / 1024,
                MOST_BYTES / 1024
            ),
        );
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
    let read = std::fs::File::open(file)
        .and_then(|opened| opened.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return refused(problems, format!("can't be read: {error}"));
    }
    Some(String::from_utf8(bytes).unwrap_or_else(|error| {
        problems.push(
            Problem::field(file, "", "is not UTF-8; other characters were replaced")
                .fix("save it as UTF-8"),
        );
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    }))
}

/// Whether a path really lies inside a folder.
pub(crate) fn is_inside(path: &Path, base: &Path) -> bool {
    match (std::fs::canonicalize(path), std::fs::canonicalize(base)) {
        (Ok(path), Ok(base)) => path.starts_with(base),
        _ => false,
    }
}

/// The Markdown files in a folder and below, sorted, as paths relative to it. A path that is a file
/// itself gives its name.
pub(crate) fn markdown_files(folder: &Path, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    walk(folder, Path::new(""), 0, &mut seen, &mut found);
    found.sort();
    if found.len() > MOST_FILES {
        problems.push(Problem::field(
            folder,
            "",
            format!(
                "has {} files; only the first {MOST_FILES} count",
                found.len()
            ),
        ));
        found.truncate(MOST_FILES);
    }
    found
}

fn walk(
    folder: &Path,
    relative: &Path,
    depth: usize,
    seen: &mut HashSet<PathBuf>,
    found: &mut Vec<PathBuf>,
) {
    // A generous end for a folder that is no folder of extensions at all.
    if depth > DEEPEST || found.len() > 4 * MOST_FILES {
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path = entry.path();
        if kind.is_dir() || (kind.is_symlink() && path.is_dir()) {
            // Links may form a circle.
            let real = if kind.is_symlink() || depth > 0 {
                std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone())
            } else {
                path.clone()
            };
            if seen.insert(real) {
                walk(&path, &relative.join(&name), depth + 1, seen, found);
            }
        } else if path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("md"))
        {
            found.push(relative.join(&name));
        }
    }
}

/// The entries of a folder that are folders, sorted by name.
pub(crate) fn folders_in(folder: &Path, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'))
        .filter(|entry| {
            entry
                .file_type()
                .is_ok_and(|kind| kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()))
        })
        .map(|entry| entry.path())
        .collect();
    found.sort();
    if found.len() > MOST_FILES {
        problems.push(Problem::field(
            folder,
            "",
            format!(
                "has {} folders; only the first {MOST_FILES} count",
                found.len()
            ),
        ));
        found.truncate(MOST_FILES);
    }
    found
}
