//! sed: only scripts that write to standard output.

use super::super::argument::{Argument, PathOperand};
use super::super::options::{Order, Sorted, sort};
use super::{Reading, Refusal, Verdict, no_names, paths_of, refuse};

/// `-l` is not among them: it takes a value in one sed and none in another, where the value would be the
/// script.
const OPTIONS: &str = "-n -E -r -e= -s -u -z --quiet --silent --regexp-extended --expression= --separate --unbuffered \
    --null-data --posix --version --sandbox";

pub(super) fn judge(words: &[Argument]) -> Verdict {
    if in_place_files(words).is_some() {
        return refuse("sed -i changes files");
    }
    let sorted = sort(words, OPTIONS, Order::Mixed)?;
    no_names(&sorted)?;
    let (scripts, files) = scripts_and_files(&sorted);
    for script in scripts {
        let Some(script) = script else {
            return refuse("sed's script is not fixed");
        };
        check_script(script)?;
    }
    Ok(Reading {
        paths: paths_of(files),
        ..Reading::default()
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

/// The files that `sed -i` edits, when it is one and is otherwise plain: with a suffix, also the copies.
pub(in super::super) fn in_place_files(words: &[Argument]) -> Option<Vec<PathOperand>> {
    let table = format!("{OPTIONS} -i? --in-place?");
    let sorted = sort(words, &table, Order::Mixed).ok()?;
    if !sorted.has_any(&["-i", "--in-place"]) || !sorted.names.is_empty() {
        return None;
    }
    let mut suffix = "";
    for value in sorted.values("-i").chain(sorted.values("--in-place")) {
        suffix = value.unwrap_or_default();
        // GNU sed puts the file's name in place of a star, and a slash leads anywhere.
        let plain = suffix
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte));
        if !plain {
            return None;
        }
    }
    let (scripts, files) = scripts_and_files(&sorted);
    for script in scripts {
        check_script(script?).ok()?;
    }
    let mut paths = paths_of(files);
    if !suffix.is_empty() {
        let copies: Vec<PathOperand> = paths
            .iter()
            .map(|path| PathOperand {
                kind: path.kind,
                text: format!("{}{suffix}", path.text),
            })
            .collect();
        paths.extend(copies);
    }
    Some(paths)
}

/// Whether a script runs lines of its input as commands: the command `e` by itself, and the flag `e` of `s`.
pub(in super::super) fn runs_its_input(words: &[Argument]) -> bool {
    let table = format!("{OPTIONS} -i? --in-place?");
    let Ok(sorted) = sort(words, &table, Order::Mixed) else {
        return false;
    };
    let (scripts, _) = scripts_and_files(&sorted);
    scripts.into_iter().flatten().any(|script| {
        let mut parser = Script {
            bytes: script.as_bytes(),
            position: 0,
            open: 0,
        };
        if parser.commands().is_ok() {
            return false;
        }
        // It stopped after the command that it doesn't know, or at the flag.
        let rest = script.get(parser.position..).unwrap_or_default();
        let mut flags = rest.split(|letter: char| !letter.is_ascii_alphanumeric());
        let flagged = flags.next().unwrap_or_default().contains('e');
        let before = script.get(..parser.position).unwrap_or_default();
        let alone = before.ends_with('e')
            && rest
                .trim_start_matches([' ', '\t'])
                .starts_with(['\n', ';', '}']);
        let at_end = before.ends_with('e') && rest.trim().is_empty();
        flagged || alone || at_end
    })
}

/// Accepts commands that print, delete and substitute; refuses those that read, write or run. Only forms that
/// GNU and busybox sed read alike are known.
fn check_script(script: &str) -> Result<(), Refusal> {
    let mut parser = Script {
        bytes: script.as_bytes(),
        position: 0,
        open: 0,
    };
    parser.commands()
}

struct Script<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Open braces.
    open: usize,
}

impl Script<'_> {
    fn not_known<T>(what: &str) -> Result<T, Refusal> {
        refuse(format!("sed's {what} isn't known to only print"))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn skip(&mut self, bytes: &[u8]) {
        while self.peek().is_some_and(|byte| bytes.contains(&byte)) {
            self.position += 1;
        }
    }

    fn commands(&mut self) -> Result<(), Refusal> {
        loop {
            self.skip(b" \t\n;");
            if self.peek().is_none() {
                return if self.open == 0 {
                    Ok(())
                } else {
                    Self::not_known("brace")
                };
            }
            if self.address()? {
                self.skip(b" \t");
                if self.peek() == Some(b',') {
                    self.position += 1;
                    self.skip(b" \t");
                    if matches!(self.peek(), Some(b'+' | b'~')) {
                        self.position += 1;
                        self.number()?;
                    } else if !self.address()? {
                        return Self::not_known("address");
                    }
                }
            }
            self.skip(b" \t");
            if self.peek() == Some(b'!') {
                self.position += 1;
                self.skip(b" \t");
            }
            self.command()?;
        }
    }

    /// A line's number, the last line, or an expression in slashes.
    fn address(&mut self) -> Result<bool, Refusal> {
        match self.peek() {
            Some(b'$') => self.position += 1,
            Some(b'0'..=b'9') => {
                self.number()?;
                if self.peek() == Some(b'~') {
                    self.position += 1;
                    self.number()?;
                }
            }
            Some(b'/') => {
                let Some(end) = skip_regex(self.bytes, self.position + 1, b'/') else {
                    return Self::not_known("address");
                };
                self.position = end;
                if matches!(self.peek(), Some(b'I' | b'M')) {
                    self.position += 1;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn number(&mut self) -> Result<(), Refusal> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Self::not_known("number");
        }
        self.skip(b"0123456789");
        Ok(())
    }

    fn command(&mut self) -> Result<(), Refusal> {
        let Some(command) = self.peek() else {
            return Self::not_known("address");
        };
        self.position += 1;
        match command {
            b'{' => {
                self.open += 1;
                return Ok(());
            }
            b'}' => {
                if self.open == 0 {
                    return Self::not_known("brace");
                }
                self.open -= 1;
            }
            b'p' | b'P' | b'd' | b'D' | b'n' | b'N' | b'g' | b'G' | b'h' | b'H' | b'x' | b'='
            | b'l' => {}
            b'q' | b'Q' => {
                self.skip(b" ");
                self.skip(b"0123456789");
            }
            b's' | b'y' => self.substitution(command)?,
            _ => return Self::not_known("command"),
        }
        self.skip(b" \t");
        match self.peek() {
            None | Some(b'\n' | b';' | b'}') => Ok(()),
            Some(_) => Self::not_known("script"),
        }
    }

    fn substitution(&mut self, command: u8) -> Result<(), Refusal> {
        let delimiter = match self.peek() {
            Some(delimiter)
                if delimiter.is_ascii_punctuation() && !b"\\;{}".contains(&delimiter) =>
            {
                delimiter
            }
            _ => return Self::not_known("delimiter"),
        };
        let end = skip_regex(self.bytes, self.position + 1, delimiter)
            .and_then(|middle| skip_delimited(self.bytes, middle, delimiter));
        let Some(end) = end else {
            return Self::not_known("substitution");
        };
        self.position = end;
        if command == b's' {
            self.skip(b"gpiI0123456789");
        }
        Ok(())
    }
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
