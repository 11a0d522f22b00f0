//! Commands inside the words of a command.
//!
//! Any program may run what its words say: an interpreter its `-c` text, a wrapper the words after its own, a build tool
//! an inline rule. Which ones do can't be listed completely. So for deny rules and hard checks every word of a command
//! that isn't known to only read is looked at as if it were a command, and every text in it as if a shell ran it. What
//! is found there makes a question that no rule and no mode answers, never a verdict of its own.

use crate::broad::base_name;
use lathe_shell::analysis::{Analysis, Argument, Part, analyse};
use lathe_shell::syntax::ShellKind;

/// How many texts are looked at, and how long they may be.
const MOST_TEXTS: usize = 24;
const LONGEST_TEXT: usize = 8_192;

/// Programs whose first word names what they do, and may be called like another program.
const WITH_SUB_COMMANDS: &[&str] = &[
    "git",
    "docker",
    "podman",
    "kubectl",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "cargo",
    "gh",
    "pip",
    "pip3",
    "uv",
    "brew",
    "apt",
    "apt-get",
    "helm",
    "go",
    "rustup",
    "systemctl",
    "aws",
    "gcloud",
    "az",
    "terraform",
    "poetry",
    "conda",
];

/// Sub-commands whose words are messages and names, not commands.
fn takes_messages(argv: &[Argument]) -> bool {
    let words: Vec<&str> = argv.iter().map(Argument::text).collect();
    matches!(
        words.as_slice(),
        [
            "echo" | "printf" | "say" | "notify-send" | "logger" | "wall" | "test" | "[" | "gh",
            ..
        ] | [
            "git",
            "commit"
                | "tag"
                | "notes"
                | "stash"
                | "merge"
                | "add"
                | "checkout"
                | "switch"
                | "branch"
                | "log",
            ..
        ]
    )
}

/// The rests of a command's words, each of which another program may run.
pub(super) fn rests(part: &Part) -> Vec<&[Argument]> {
    if part.read_only.is_yes() {
        return Vec::new();
    }
    let mut rests = Vec::new();
    for argv in &part.all_effective {
        let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
        if takes_messages(argv) {
            continue;
        }
        let first = if WITH_SUB_COMMANDS.contains(&base_name(name)) {
            2
        } else {
            1
        };
        for start in first..argv.len() {
            rests.extend(argv.get(start..));
        }
    }
    rests
}

/// The texts in a command's words, taken apart as a shell would.
pub(super) fn texts(part: &Part, shell: ShellKind) -> Vec<Analysis> {
    if part.read_only.is_yes() && part.fed_texts.is_empty() {
        return Vec::new();
    }
    let mut texts: Vec<String> = part.fed_texts.clone();
    for argv in &part.all_effective {
        if takes_messages(argv) {
            continue;
        }
        for word in argv.iter().skip(1).filter_map(Argument::fixed) {
            if !word.contains([' ', ';', '|', '&', '>', '(', '`', '\n'])
                || word.len() > LONGEST_TEXT
            {
                continue;
            }
            texts.push(word.to_owned());
            let quoted = quoted_texts(word);
            // `['rm', '-rf', 'x']` is a command by its words.
            if quoted.len() > 1 {
                texts.push(quoted.join(" "));
            }
            texts.extend(quoted);
        }
    }
    texts.sort();
    texts.dedup();
    texts
        .iter()
        .take(MOST_TEXTS)
        .map(|text| analyse(text, shell))
        .collect()
}

/// What stands in quotes, as most languages write strings.
fn quoted_texts(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(char, String)> = None;
    let mut characters = code.chars();
    while let Some(character) = characters.next() {
        match (&mut open, character) {
            (None, '\'' | '"' | '`') => open = Some((character, String::new())),
            (None, _) => {}
            (Some((quote, text)), _) if character == *quote => {
                if !text.is_empty() {
                    found.push(std::mem::take(text));
                }
                open = None;
            }
            (Some((_, text)), '\\') => text.extend(characters.next()),
            (Some((_, text)), other) => text.push(other),
        }
    }
    found
}
