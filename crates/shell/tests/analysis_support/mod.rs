//! Reading the corpora in `data/`.
#![allow(dead_code, reason = "each test file uses a part of it")]

use lathe_shell::syntax::ShellKind;

/// One line of a corpus: command, shell, verdict, note.
pub(crate) struct Line {
    pub(crate) command: String,
    pub(crate) shell: ShellKind,
    pub(crate) verdict: String,
    pub(crate) note: String,
}

/// Reads a corpus of `command<TAB>shell<TAB>verdict<TAB>note`.
pub(crate) fn corpus(name: &str) -> Vec<Line> {
    rows(name)
        .into_iter()
        .map(|row| Line {
            command: unescape(&row[0]),
            shell: match row[1].as_str() {
                "bash" => ShellKind::Bash,
                "zsh" => ShellKind::Zsh,
                "posix" => ShellKind::Posix,
                other => panic!("unknown shell {other:?} in {name}"),
            },
            verdict: row[2].clone(),
            note: row.get(3).cloned().unwrap_or_default(),
        })
        .collect()
}

/// The lines of a data file, split at tabs. A comment is a line that starts with `#` and has no tab.
pub(crate) fn rows(name: &str) -> Vec<Vec<String>> {
    let path = format!("{}/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines()
        .filter(|line| !line.is_empty() && (!line.starts_with('#') || line.contains('\t')))
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// Undoes the escapes of a Rust string.
pub(crate) fn unescape(text: &str) -> String {
    let mut decoded = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            decoded.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => decoded.push('\n'),
            Some('t') => decoded.push('\t'),
            Some('r') => decoded.push('\r'),
            Some(same @ ('"' | '\\')) => decoded.push(same),
            Some('u') => {
                let code: String = characters
                    .by_ref()
                    .skip(1)
                    .take_while(|next| *next != '}')
                    .collect();
                let value = u32::from_str_radix(&code, 16).expect("a code point in \\u{…}");
                decoded.push(char::from_u32(value).expect("a character in \\u{…}"));
            }
            other => panic!("unknown escape {other:?} in {text}"),
        }
    }
    decoded
}
