//! Inline code of interpreters: what it does to files, as far as its words and strings show it.

use super::nested::takes_messages;
use super::runs::runs_unknown;
use crate::broad::base_name;
use lathe_shell::analysis::{Argument, Part};

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
    "emacs",
    "R",
    "octave",
    "elixir",
    "iex",
    "erl",
    "racket",
    "sbcl",
    "swipl",
    "scala",
    "groovy",
    "ghc",
    "nim",
    "gnuplot",
    "rails",
    "rake",
    "irb",
    "mix",
    "raku",
    "crystal",
    "luajit",
    "tsx",
    "ts-node",
    "clojure",
    "clj",
    "bb",
    "csi",
    "janet",
    "fennel",
    "ocaml",
    "runghc",
    "runhaskell",
    "ipython",
    "swift",
    "kotlin",
    "xonsh",
];

/// Editors and build tools, whose commands are code too. Their words are files.
const EDITORS: &[&str] = &["vi", "vim", "nvim", "ex", "view", "cmake"];

fn may_hold_code(program: &Argument) -> bool {
    let name = base_name(program.fixed().unwrap_or_default());
    is_interpreter(program) || EDITORS.contains(&name)
}

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
    "delete-directory",
    "deleteDir",
    "delete_directory_and_contents",
    "deleteRecursively",
    "del_dir_r",
    "file delete",
    "REMOVE_RECURSE",
];

/// Words by which code names the home folder.
const HOME_WORDS: &[&str] = &[
    "expanduser",
    "Path.home",
    "homedir",
    "Dir.home",
    "HOME",
    "USERPROFILE",
    "getpwuid",
];

/// Calls that remove a file in most languages, and a folder with everything in it in some.
const CALLS_FOR_EITHER: &[&str] = &[
    "rmdir",
    "unlink",
    "delete",
    "rm",
    "remove",
    "remove_dir",
    "move",
    "rename",
    "renameSync",
];

/// Whether code calls one of these, and whether so that a folder can be meant that no string names.
fn removes_either(code: &str) -> (bool, bool) {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let everything = code.contains("recursive") || code.contains("rf");
    let mut found = (false, false);
    for call in CALLS_FOR_EITHER {
        for (at, _) in code.match_indices(call) {
            let before = code.get(..at).and_then(|front| front.chars().next_back());
            let after = code.get(at + call.len()..).unwrap_or_default().trim_start();
            let lists_files = after.starts_with(['<']) || after.starts_with("glob");
            // Some languages need no parentheses: `File.delete f`.
            let raw = code.get(at + call.len()..).unwrap_or_default();
            let is_bare = raw.starts_with(' ')
                && after.starts_with(|next: char| next.is_alphabetic() || "$@".contains(next))
                && before.is_some_and(|before| ".;{|".contains(before));
            let is_called = lists_files || is_bare || after.starts_with(['(', '\'', '"']);
            if before.is_some_and(is_word) || !is_called {
                continue;
            }
            let named = after.trim_start_matches("glob").trim_start();
            let named = named.trim_start_matches('(').trim_start();
            found.0 = true;
            found.1 |= (everything || lists_files) && !named.starts_with(['\'', '"']);
        }
    }
    found
}

/// Words of code that changes files.
const CHANGING_WORDS: &[&str] = &[
    "'w", "\"w", "'a", "\"a", "'x", "\"x", "'r+", "\"r+", "rite", "ppend", "nlink", "emove",
    "ename", "opy", "ymlink", "hmod", "runcate", "mkdir", "rm", ">", "move", "elete",
];

/// Words of code that unpacks an archive.
const UNPACKING_WORDS: &[&str] = &[
    "unpack_archive",
    "extractall",
    "tarfile",
    "Archive::",
    "extractTo",
    "untar",
    "copytree",
];

/// Inline code of interpreters: the strings in it, and what it does with them.
pub(super) struct Code {
    /// Every string that could name a file.
    pub(super) strings: Vec<String>,
    /// It removes files or folders.
    pub(super) removes: bool,
    /// It removes a folder that isn't a string of the code.
    pub(super) removes_unknown: bool,
    /// It changes files.
    pub(super) changes: bool,
    /// It makes links.
    pub(super) links: bool,
    /// It unpacks an archive, which may hold links.
    pub(super) unpacks: bool,
}

/// Whether inline code of a part runs a text that can't be known.
pub(super) fn code_runs_unknown(part: &Part) -> bool {
    !part.read_only.is_yes()
        && part
            .all_effective
            .iter()
            .any(|argv| !takes_messages(argv) && runs_unknown(argv))
}

pub(super) fn is_interpreter(program: &Argument) -> bool {
    let name = base_name(program.fixed().unwrap_or_default());
    let base =
        name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    INTERPRETERS.contains(&name) || INTERPRETERS.contains(&base)
}

/// Whether what a call removes is something else than a string that stands there.
fn removes_unknown(code: &str) -> bool {
    REMOVING_CALLS.iter().any(|call| {
        code.match_indices(call).any(|(at, _)| {
            let after = code.get(at + call.len()..).unwrap_or_default();
            // `fs.rm(` has its parenthesis already; a name that isn't called is imported or defined.
            let value = match after.trim_start().strip_prefix('(') {
                Some(value) => value,
                None if call.ends_with('(') => after,
                None => return false,
            };
            !value.trim_start().starts_with(['\'', '"', '`', '[', '('])
        })
    })
}

/// The inline code in a command's words and in what it is fed.
pub(super) fn code(part: &Part) -> Vec<Code> {
    // `yarn node -e …`: an interpreter can stand behind any program.
    let interprets = |argv: &Vec<Argument>| {
        argv.first().is_some_and(may_hold_code)
            || !takes_messages(argv) && argv.iter().skip(1).any(may_hold_code)
    };
    if part.read_only.is_yes() || !part.all_effective.iter().any(interprets) {
        return Vec::new();
    }
    let words = part
        .all_effective
        .iter()
        .flat_map(|argv| argv.iter().skip(1))
        .map(Argument::text)
        .filter(|text| text.contains(['(', '\'', '"', ' ', '<']));
    words
        .chain(part.fed_texts.iter().map(String::as_str))
        .flat_map(|text| [vec![text.to_owned()], unescaped(text)].concat())
        .map(|text| {
            let text = text.as_str();
            let strings = quoted_texts(text);
            let folders = REMOVING_CALLS.iter().any(|call| text.contains(call));
            let (either, either_unknown) = removes_either(text);
            Code {
                removes: folders || either,
                removes_unknown: either_unknown
                    || (folders || either) && HOME_WORDS.iter().any(|word| text.contains(word))
                    || folders && strings.is_empty()
                    || removes_unknown(text),
                strings,
                links: text.contains("ymlink") || text.contains("link("),
                unpacks: UNPACKING_WORDS.iter().any(|word| text.contains(word)),
                changes: CHANGING_WORDS.iter().any(|word| text.contains(word)),
            }
        })
        .collect()
}

/// The strings of inline code that could name files.
pub(super) fn names_in_code(part: &Part) -> Vec<String> {
    code(part)
        .into_iter()
        .flat_map(|code| code.strings)
        .filter(|text| text.len() <= 4096 && !text.contains(['\n', '\0']))
        .take(64)
        .collect()
}

/// A text with the characters that its escapes by number stand for, if there are any: `\x72m`, `\u{72}m`, `\162m`. Digits
/// alone are octal in most languages, and decimal in Lua.
pub(super) fn unescaped(text: &str) -> Vec<String> {
    if !text.contains('\\') {
        return Vec::new();
    }
    let mut all: Vec<String> = [8, 10]
        .into_iter()
        .map(|radix| decoded(text, radix))
        .collect();
    all.dedup();
    all.retain(|other| other != text);
    all
}

fn decoded(text: &str, radix: u32) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let (digits, skipped, radix) = match after.chars().next() {
            Some('x' | 'X') => (2, 1, 16),
            Some('u') => (4, 1, 16),
            Some('U') => (8, 1, 16),
            Some('o') => (3, 1, 8),
            Some(next) if next.is_ascii_digit() => (3, 0, radix),
            _ => (0, 0, radix),
        };
        let number = after.get(skipped..).unwrap_or_default();
        let (number, end) = match number
            .strip_prefix('{')
            .and_then(|text| text.split_once('}'))
        {
            Some((number, _)) if skipped > 0 => (number, skipped + number.len() + 2),
            _ => {
                let is_digit = |character: &char| character.is_digit(radix);
                let length = number.chars().take(digits).take_while(is_digit).count();
                (number.get(..length).unwrap_or_default(), skipped + length)
            }
        };
        let character = u32::from_str_radix(number, radix)
            .ok()
            .and_then(char::from_u32)
            .filter(|character| !character.is_control());
        match character {
            Some(character) => {
                out.push(character);
                rest = after.get(end..).unwrap_or_default();
            }
            None => {
                // What an escape of another kind means doesn't matter here; a backslash may escape the next one.
                out.push('\\');
                let next = after.chars().next();
                out.extend(next);
                rest = after
                    .get(next.map_or(0, char::len_utf8)..)
                    .unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

/// The quoted strings of a text, as most languages write them.
pub(super) fn quoted_texts(code: &str) -> Vec<String> {
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
