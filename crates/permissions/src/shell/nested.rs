//! Commands inside the words of a command.
//!
//! Any program may run what its words say: an interpreter its `-c` text, a wrapper the words after its own, a build tool
//! an inline rule. Which ones do can't be listed completely. So for deny rules and hard checks every word of a command
//! that isn't known to only read is looked at as if it were a command, and every text in it as if a shell ran it. What
//! is found there makes a question that no rule and no mode answers, never a verdict of its own.

use crate::broad::base_name;
use lathe_shell::analysis::{Analysis, Argument, ConcernKind, Part, PathKind, analyse};
use lathe_shell::syntax::ShellKind;

/// How many texts are looked at, and how long they may be.
const MOST_TEXTS: usize = 200;
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
pub(super) fn takes_messages(argv: &[Argument]) -> bool {
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

/// The commands that the words of a part could be, taken apart as a shell would.
pub(super) struct Nested {
    pub(super) commands: Vec<Analysis>,
    /// There were more texts than are looked at.
    pub(super) too_many: bool,
}

/// The texts in a command's words, taken apart as a shell would.
pub(super) fn texts(part: &Part, shell: ShellKind) -> Nested {
    let mut texts: Vec<String> = Vec::new();
    if !part.read_only.is_yes() || !part.fed_texts.is_empty() {
        for text in &part.fed_texts {
            add_text(text, &mut texts);
        }
        for argv in &part.all_effective {
            if !takes_messages(argv) {
                words_as_texts(argv, &mut texts);
            }
        }
    }
    // What such a variable holds is run later, or by another program.
    let dangerous = part
        .concerns
        .iter()
        .any(|concern| concern.kind == ConcernKind::DangerousAssignment);
    for assignment in part.assignments.iter().filter(|_| dangerous) {
        if let Some(text) = assignment.value.fixed() {
            add_text(text, &mut texts);
        }
    }
    texts.sort();
    texts.dedup();
    Nested {
        too_many: texts.len() > MOST_TEXTS,
        commands: texts
            .iter()
            .take(MOST_TEXTS)
            .map(|text| analyse(text, shell))
            .collect(),
    }
}

/// The texts of a command that isn't understood: what could be a removal or a write in it.
pub(super) fn texts_of_command(command: &str, shell: ShellKind) -> Nested {
    let mut texts = Vec::new();
    verb_texts(command, &mut texts);
    Nested {
        too_many: texts.len() > MOST_TEXTS,
        commands: texts
            .iter()
            .take(MOST_TEXTS)
            .map(|text| analyse(text, shell))
            .collect(),
    }
}

fn words_as_texts(argv: &[Argument], texts: &mut Vec<String>) {
    // A variable whose value is known stands for the command.
    if let Some(Argument::Variable(variable)) = argv.first()
        && variable.path.kind == PathKind::Literal
    {
        let rest = argv.iter().skip(1).map(in_quotes);
        let words: Vec<String> = std::iter::once(variable.path.text.clone())
            .chain(rest)
            .collect();
        texts.push(words.join(" "));
    }
    for (index, word) in argv.iter().enumerate().skip(1) {
        let text = word.text();
        // The rest of the words, where it starts like a command that removes or writes.
        if VERBS.contains(&base_name(text)) {
            let rest: Vec<String> = argv.iter().skip(index).map(in_quotes).collect();
            texts.push(rest.join(" "));
        }
        if text.contains([' ', ';', '|', '&', '>', '(', '`', '\n']) {
            add_text(text, texts);
        }
    }
}

/// A word as a shell reads it back.
fn in_quotes(word: &Argument) -> String {
    match word {
        Argument::Fixed(text) => format!("'{}'", text.replace('\'', r"'\''")),
        Argument::Variable(variable) => variable.source.clone(),
    }
}

/// A text as a command, the strings in it as commands, and whatever in it starts like a removal or a write.
fn add_text(text: &str, texts: &mut Vec<String>) {
    verb_texts(text, texts);
    if text.len() > LONGEST_TEXT {
        return;
    }
    texts.push(text.to_owned());
    let quoted = quoted_texts(text);
    // `['rm', '-rf', 'x']` is a command by its words.
    if quoted.len() > 1 {
        texts.push(quoted.join(" "));
    }
    texts.extend(quoted);
}

/// Programs that remove what their words name, or write to it.
const VERBS: &[&str] = &[
    "rm", "rmdir", "unlink", "shred", "srm", "rimraf", "dd", "mkfs", "wipefs", "find", "fd", "tee",
    "cp", "mv", "ln", "install", "truncate", "chmod", "chown", "rsync", "sponge", "touch", "mkdir",
];

/// How much of a text after such a program is looked at.
const LONGEST_TAIL: usize = 512;

/// The parts of a text that start with such a program, as far as the command could go.
fn verb_texts(text: &str, texts: &mut Vec<String>) {
    let part_of_name = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    for verb in VERBS {
        for (at, _) in text.match_indices(verb).take(MOST_TEXTS) {
            let before = text.get(..at).and_then(|front| front.chars().next_back());
            let after = text
                .get(at + verb.len()..)
                .and_then(|back| back.chars().next());
            // `-Orm …` is an option with its value.
            let is_value = at == 2 && text.starts_with('-');
            if before.is_some_and(part_of_name) && !is_value
                || !after.is_some_and(|next| " \t'\"".contains(next))
            {
                continue;
            }
            let tail: String = text
                .get(at..)
                .unwrap_or_default()
                .chars()
                .take(LONGEST_TAIL)
                .take_while(|character| !"\n;|&".contains(*character))
                .map(|character| match character {
                    '\'' | '"' | '`' | ',' | ']' => ' ',
                    other => other,
                })
                .collect();
            let closed = tail.matches(')').count() > tail.matches('(').count();
            let tail = if closed { tail.replace(')', " ") } else { tail };
            texts.push(tail);
        }
    }
}

/// Programs whose words can hold code in a language of their own.
const INTERPRETERS: &[&str] = &[
    "python",
    "python2",
    "python3",
    "pypy3",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "tclsh",
    "Rscript",
    "julia",
    "osascript",
    "pwsh",
    "guile",
];

/// Calls that remove a folder with everything in it.
const REMOVING_CALLS: &[&str] = &[
    "rmtree",
    "rmSync",
    "rmdirSync",
    "fs.rm(",
    "rm_rf",
    "rm_r",
    "remove_tree",
    "rimraf",
    "RemoveAll",
    "remove_entry_secure",
    "emptyDir",
    "removeSync",
];

/// Words of code that changes files.
const CHANGING_WORDS: &[&str] = &[
    "'w", "\"w", "'a", "\"a", "'x", "\"x", "'r+", "\"r+", "rite", "ppend", "nlink", "emove",
    "ename", "opy", "ymlink", "hmod", "runcate", "mkdir", "rm", ">", "move",
];

/// Inline code of interpreters: the strings in it, and what it does with them.
pub(super) struct Code {
    /// Every string that could name a file.
    pub(super) strings: Vec<String>,
    /// It removes folders.
    pub(super) removes: bool,
    /// It changes files.
    pub(super) changes: bool,
}

/// The inline code in a command's words and in what it is fed.
pub(super) fn code(part: &Part) -> Vec<Code> {
    let interprets = part.all_effective.iter().any(|argv| {
        let name = argv.first().and_then(Argument::fixed).unwrap_or_default();
        let base = base_name(name)
            .trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
        INTERPRETERS.contains(&base_name(name)) || INTERPRETERS.contains(&base)
    });
    if !interprets {
        return Vec::new();
    }
    let words = part
        .all_effective
        .iter()
        .flat_map(|argv| argv.iter().skip(1))
        .map(Argument::text)
        .filter(|text| text.contains(['(', '\'', '"', ' ']));
    words
        .chain(part.fed_texts.iter().map(String::as_str))
        .map(|text| Code {
            strings: quoted_texts(text),
            removes: REMOVING_CALLS.iter().any(|call| text.contains(call)),
            changes: CHANGING_WORDS.iter().any(|word| text.contains(word)),
        })
        .collect()
}

/// The quoted strings of a text, as most languages write them.
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
