//! Plain English in what users and contributors read.
//!
//! Phrases that are odd in technical English, and doc comments that begin with a question word instead of their subject.

use crate::pages::prose;
use crate::sources::{crates, rust_files, shown};
use lathe_testkit::workspace_root;
use std::path::{Path, PathBuf};

/// A phrase, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", "name who it is, such as the caller"),
    ("the person", "the user"),
    ("a person", "the user, or: confirmation"),
    ("nobody can be asked", "there is no user to ask"),
    ("goes on", "continues"),
    ("can be had", "is available"),
    ("brought up to date", "updated"),
    ("come to its end", "ended"),
    ("in the manner", "in the style, or: like"),
    ("asked by itself", "asked automatically"),
    ("out of its reach", "can't be changed by it"),
    ("whilst", "while"),
    ("thereby", "so, or: which"),
    ("whereby", "by which"),
    ("thereof", "of it"),
];

/// The phrases in a line.
fn odd_phrases(line: &str) -> impl Iterator<Item = String> {
    let line = line.to_lowercase();
    PHRASES
        .iter()
        .filter(move |(phrase, _)| {
            line.match_indices(phrase).any(|(at, _)| {
                let is_letter = |letter: char| letter.is_alphanumeric();
                !line[..at].ends_with(is_letter)
                    && !line[at + phrase.len()..].starts_with(is_letter)
            })
        })
        .map(|(phrase, instead)| format!("\"{phrase}\"; write: {instead}"))
}

/// Markdown files below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// The source files of all crates, tests and examples included, but this one.
fn sources() -> impl Iterator<Item = PathBuf> {
    crates()
        .into_iter()
        .flat_map(|folder| rust_files(&folder))
        .filter(|path| !path.ends_with("hygiene/words.rs"))
}

#[test]
fn pages_and_prompts_are_in_plain_english() {
    let root = workspace_root();
    let mut files = pages(&root.join("docs"));
    for folder in crates() {
        files.extend(pages(&folder.join("prompts")));
    }
    let main = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
    ];
    files.extend(main.map(|name| root.join(name)));
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for line in prose(&text) {
            found.extend(odd_phrases(line).map(|odd| format!("{}: {odd}: {line}", shown(&file))));
        }
    }
    assert!(found.is_empty(), "odd English:\n{}", found.join("\n"));
}

#[test]
fn comments_and_messages_are_in_plain_english() {
    let mut found = Vec::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        for (index, line) in text.lines().enumerate() {
            // Made-up words of users and models in tests are not ours.
            let ours = line.trim_start().starts_with("//") || !shown(&path).contains("test");
            let odd = odd_phrases(line).filter(|_| ours);
            found.extend(odd.map(|odd| format!("{}:{}: {odd}", shown(&path), index + 1)));
        }
    }
    assert!(found.is_empty(), "odd English:\n{}", found.join("\n"));
}

#[test]
fn doc_comments_begin_with_their_subject() {
    let mut found = Vec::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut before = "";
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let is_doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
            let begins = !is_doc(before) || before.len() == 3;
            let words = line.get(3..).unwrap_or_default().trim_start();
            if is_doc(line) && begins && words.starts_with("What ") {
                found.push(format!("{}:{}: {line}", shown(&path), index + 1));
            }
            before = line;
        }
    }
    assert!(found.is_empty(), "say what it is:\n{}", found.join("\n"));
}

#[test]
fn odd_phrases_are_found_as_words() {
    let odd = |line: &str| odd_phrases(line).count();
    assert_eq!(odd("Whoever asks a person."), 2);
    assert_eq!(odd("It goes on."), 1);
    assert_eq!(odd("vertigoes on a personal list"), 0);
    assert_eq!(odd("The user gets the answer."), 0);
}
