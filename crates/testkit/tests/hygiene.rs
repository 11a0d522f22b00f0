//! Cheap promises about the sources that no compiler holds.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_testkit::workspace_root;
use std::path::{Path, PathBuf};

/// Process code needs unsafe calls between fork and exec; everything else forbids them.
const MAY_BE_UNSAFE: &[&str] = &["shell", "sandbox"];

/// A module that is longer tells more than one story.
const LONGEST_MODULE: usize = 800;

/// The Rust files below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn crates() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(workspace_root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect();
    found.sort();
    assert!(found.len() >= 3, "where are the crates?");
    found
}

/// `lib.rs` and `main.rs` of every crate.
fn roots() -> Vec<PathBuf> {
    crates()
        .iter()
        .flat_map(|folder| [folder.join("src/lib.rs"), folder.join("src/main.rs")])
        .filter(|path| path.is_file())
        .collect()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(workspace_root())
        .unwrap_or(path)
        .display()
        .to_string()
}

fn assert_none(found: &[String], promise: &str) {
    assert!(found.is_empty(), "{promise}:\n{}", found.join("\n"));
}

#[test]
fn every_crate_opens_with_its_essay() {
    let found: Vec<String> = roots()
        .iter()
        .filter(|path| !std::fs::read_to_string(path).unwrap().starts_with("//! "))
        .map(|path| shown(path))
        .collect();
    assert_none(&found, "these don't open with `//!`");
}

#[test]
fn unsafe_code_is_forbidden_where_it_is_not_needed() {
    let found: Vec<String> = roots()
        .iter()
        .filter(|path| {
            let name = path.ancestors().nth(2).and_then(Path::file_name).unwrap();
            !MAY_BE_UNSAFE.iter().any(|allowed| *allowed == name)
        })
        .filter(|path| {
            !std::fs::read_to_string(path)
                .unwrap()
                .contains("\n#![forbid(unsafe_code)]\n")
        })
        .map(|path| shown(path))
        .collect();
    assert_none(&found, "these lack #![forbid(unsafe_code)]");
}

#[test]
fn no_module_tells_two_stories() {
    let found: Vec<String> = crates()
        .iter()
        .flat_map(|folder| rust_files(&folder.join("src")))
        .map(|path| {
            (
                std::fs::read_to_string(&path).unwrap().lines().count(),
                path,
            )
        })
        .filter(|(lines, _)| *lines > LONGEST_MODULE)
        .map(|(lines, path)| format!("{} ({lines} lines)", shown(&path)))
        .collect();
    assert_none(
        &found,
        &format!("these have more than {LONGEST_MODULE} lines"),
    );
}

#[test]
fn nothing_is_left_to_do() {
    // Put together here, so that this file doesn't find itself.
    let marks = [
        ["todo", "!("],
        ["unimplemented", "!("],
        ["TO", "DO"],
        ["FIX", "ME"],
    ]
    .map(|mark| mark.concat());
    let found: Vec<String> = crates()
        .iter()
        .flat_map(|folder| rust_files(folder))
        .flat_map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().enumerate();
            lines
                .filter(|(_, line)| marks.iter().any(|mark| has_word(line, mark)))
                .map(|(index, line)| format!("{}:{}: {}", shown(&path), index + 1, line.trim()))
                .collect::<Vec<String>>()
        })
        .collect();
    assert_none(&found, "unfinished work");
}

/// Whether the mark stands in the line as a word of its own, not as a part of a longer one.
fn has_word(line: &str, mark: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let before = line.get(..at).unwrap_or_default().chars().next_back();
        let after = line
            .get(at + mark.len()..)
            .unwrap_or_default()
            .chars()
            .next();
        let open_ended = mark.ends_with('(');
        !before.is_some_and(part_of_word) && (open_ended || !after.is_some_and(part_of_word))
    })
}

#[test]
fn words_are_told_from_parts_of_words() {
    let mark = ["TO", "DO"].concat();
    assert!(has_word(&format!("// {mark}: later"), &mark));
    assert!(!has_word(&format!("{mark}S"), &mark));
    assert!(!has_word(&format!("MY_{mark}"), &mark));
}
