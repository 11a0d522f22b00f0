//! sed: only scripts that write to standard output.

use super::super::argument::{Argument, PathOperand};
use super::super::options::{Order, Sorted, sort};
use super::{Reading, Verdict, paths_of};

/// `-l` is not among them: it takes a value in one sed and none in another, where the value would be the
/// script.
const OPTIONS: &str = "-n -E -r -e= -s -u -z --quiet --silent --regexp-extended --expression= --separate --unbuffered \
    --null-data --posix --debug --version --sandbox";

pub(super) fn judge(words: &[Argument]) -> Verdict {
    let sorted = sort(words, OPTIONS, Order::Mixed)?;
    let (scripts, files) = scripts_and_files(&sorted);
    for script in scripts {
        let Some(script) = script else {
            return Err("sed's script is not fixed".to_owned());
        };
        check_script(script)?;
    }
    Ok(Reading {
        paths: paths_of(files),
        needs_trust: false,
    })
}

fn scripts_and_files<'s, 'a>(sorted: &'s Sorted<'a>) -> (Vec<Option<&'s str>>, &'s [&'a Argument]) {
    let mut scripts: Vec<Option<&str>> = sorted
        .values("-e")
        .chain(sorted.values("--expression"))
        .collect();
    let mut files = sorted.operands.as_slice();
    if scripts.is_empty() {
        let (script, rest) = match files.split_first() {
            Some((first, rest)) => (Some(*first), rest),
            None => (None, files),
        };
        scripts.extend(script.map(Argument::fixed));
        files = rest;
    }
    (scripts, files)
}

/// The files that `sed -i` edits, when it is one and is otherwise plain.
pub(in super::super) fn in_place_files(words: &[Argument]) -> Option<Vec<PathOperand>> {
    let table = format!("{OPTIONS} -i? --in-place?");
    let sorted = sort(words, &table, Order::Mixed).ok()?;
    if !sorted.has("-i") && !sorted.has("--in-place") {
        return None;
    }
    let (scripts, files) = scripts_and_files(&sorted);
    for script in scripts {
        check_script(script?).ok()?;
    }
    Some(paths_of(files))
}

/// Accepts commands that print, delete and substitute; refuses those that read, write or run.
fn check_script(script: &str) -> Result<(), String> {
    let refuse = |what: &str| Err(format!("sed's {what} isn't known to only print"));
    let bytes = script.as_bytes();
    let mut position = 0;
    while let Some(byte) = bytes.get(position).copied() {
        position += 1;
        match byte {
            b' '
            | b'\t'
            | b'\n'
            | b';'
            | b'{'
            | b'}'
            | b'!'
            | b','
            | b'0'..=b'9'
            | b'$'
            | b'+'
            | b'~' => {}
            b'/' => {
                position = skip_regex(bytes, position, b'/').ok_or("sed's address doesn't end")?;
            }
            b'I' | b'M' if position >= 2 && bytes.get(position - 2) == Some(&b'/') => {}
            b'p' | b'P' | b'd' | b'D' | b'n' | b'N' | b'g' | b'G' | b'h' | b'H' | b'x' | b'='
            | b'l' => {
                // GNU sed ends each of these at a blank, `;`, `}` or a number; anything else is unknown.
                if !matches!(
                    bytes.get(position),
                    None | Some(b' ' | b'\t' | b'\n' | b';' | b'}')
                ) {
                    return refuse("script");
                }
            }
            b'q' | b'Q' => {
                while bytes
                    .get(position)
                    .is_some_and(|byte| byte.is_ascii_digit() || *byte == b' ')
                {
                    position += 1;
                }
            }
            b's' | b'y' => {
                let delimiter = match bytes.get(position) {
                    Some(delimiter) if delimiter.is_ascii_punctuation() && *delimiter != b'\\' => {
                        *delimiter
                    }
                    _ => return refuse("delimiter"),
                };
                let middle = skip_regex(bytes, position + 1, delimiter)
                    .ok_or("sed's substitution doesn't end")?;
                position = skip_delimited(bytes, middle, delimiter)
                    .ok_or("sed's substitution doesn't end")?;
                while let Some(flag) = bytes.get(position) {
                    match flag {
                        b'g' | b'p' | b'i' | b'I' | b'm' | b'M' | b'0'..=b'9' if byte == b's' => {
                            position += 1;
                        }
                        b' ' | b'\t' | b'\n' | b';' | b'}' => break,
                        _ => return refuse("flag"),
                    }
                }
            }
            _ => return refuse("command"),
        }
    }
    Ok(())
}

/// The position after a regular expression's delimiter. Programs disagree on whether a delimiter in
/// brackets ends the expression, and on where brackets end, so only expressions pass on which all agree.
pub(super) fn skip_regex(bytes: &[u8], mut position: usize, delimiter: u8) -> Option<usize> {
    loop {
        match *bytes.get(position)? {
            byte if byte == delimiter => return Some(position + 1),
            b'\\' => position += 2,
            b'\n' => return None,
            b'[' => position = skip_bracket(bytes, position + 1, delimiter)?,
            _ => position += 1,
        }
    }
}

/// The position after a bracket expression.
fn skip_bracket(bytes: &[u8], mut position: usize, delimiter: u8) -> Option<usize> {
    if bytes.get(position) == Some(&b'^') {
        position += 1;
    }
    // A bracket that comes first is a member of the set to some and its end to others.
    if bytes.get(position) == Some(&b']') {
        return None;
    }
    loop {
        match *bytes.get(position)? {
            b']' => return Some(position + 1),
            byte if byte == delimiter => return None,
            b'\n' => return None,
            // Whether a backslash escapes in brackets differs too; one before a bracket decides.
            b'\\' if matches!(bytes.get(position + 1), Some(b']' | b'\\')) => return None,
            b'\\' if bytes.get(position + 1) == Some(&delimiter) => return None,
            b'[' if bytes.get(position + 1) == Some(&b':') => {
                let rest = bytes.get(position + 2..)?;
                let length = rest.iter().position(|byte| !byte.is_ascii_lowercase())?;
                if rest.get(length..length + 2) != Some(b":]") {
                    return None;
                }
                position += length + 4;
            }
            b'[' if matches!(bytes.get(position + 1), Some(b'.' | b'=')) => return None,
            _ => position += 1,
        }
    }
}

/// The position after the next unescaped delimiter. Newlines don't belong there.
fn skip_delimited(bytes: &[u8], mut position: usize, delimiter: u8) -> Option<usize> {
    loop {
        match *bytes.get(position)? {
            byte if byte == delimiter => return Some(position + 1),
            b'\\' => position += 2,
            b'\n' => return None,
            _ => position += 1,
        }
    }
}
