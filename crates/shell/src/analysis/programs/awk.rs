//! awk: only programs that neither run commands nor open files of their own.

use super::super::argument::Argument;
use super::super::options::{Order, sort};
use super::{Reading, Verdict};

const OPTIONS: &str =
    "-F= -v= --field-separator= --assign= --posix --traditional --re-interval --version";

pub(super) fn judge(words: &[Argument]) -> Verdict {
    let sorted = sort(words, OPTIONS, Order::OperandsLast)?;
    if sorted.has("--version") {
        return Ok(Reading::default());
    }
    let Some((program, files)) = sorted.operands.split_first() else {
        return Err("awk without a program".to_owned());
    };
    let Some(program) = program.fixed() else {
        return Err("awk's program is not fixed".to_owned());
    };
    check_program(program)?;
    // An operand such as `name=value` assigns; anything else is a file.
    let paths = files
        .iter()
        .filter(|file| {
            file.fixed()
                .is_none_or(|text| text != "-" && !is_assignment(text))
        })
        .map(|file| file.path())
        .collect();
    Ok(Reading {
        paths,
        needs_trust: false,
    })
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
    })
}

/// What the last token allows next: an operand (so that a slash starts a regular expression) or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Operand,
    Operator,
}

fn check_program(program: &str) -> Result<(), String> {
    let refuse = |what: &str| Err(format!("awk's {what} can run commands or write files"));
    let bytes = program.as_bytes();
    let mut position = 0;
    let mut after = After::Operator;
    let mut printing = false;
    let mut open = 0_usize;
    while let Some(byte) = bytes.get(position).copied() {
        position += 1;
        match byte {
            b' ' | b'\t' => {}
            b'\\' if bytes.get(position) == Some(&b'\n') => position += 1,
            b'#' => {
                while bytes.get(position).is_some_and(|byte| *byte != b'\n') {
                    position += 1;
                }
            }
            b'"' => {
                position = skip_quoted(bytes, position, b'"').ok_or("awk's string doesn't end")?;
                after = After::Operand;
            }
            b'/' if after == After::Operator => {
                position =
                    skip_regex(bytes, position).ok_or("awk's regular expression doesn't end")?;
                after = After::Operand;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let start = position - 1;
                while bytes
                    .get(position)
                    .is_some_and(|byte| *byte == b'_' || byte.is_ascii_alphanumeric())
                {
                    position += 1;
                }
                let word = program.get(start..position).unwrap_or_default();
                match word {
                    "system" | "getline" | "close" | "fflush" | "extension" | "ENVIRON"
                    | "PROCINFO" | "ARGV" | "ARGC" => {
                        return refuse(word);
                    }
                    "print" | "printf" => {
                        printing = true;
                        after = After::Operator;
                    }
                    "return" | "in" | "if" | "while" | "else" | "do" | "case" | "exit"
                    | "delete" => after = After::Operator,
                    _ => after = After::Operand,
                }
            }
            b'0'..=b'9' | b'.' => {
                while bytes
                    .get(position)
                    .is_some_and(|byte| *byte == b'.' || byte.is_ascii_alphanumeric())
                {
                    position += 1;
                }
                after = After::Operand;
            }
            b'@' | b'`' | b'\\' => return refuse("special form"),
            b'|' if bytes.get(position) == Some(&b'|') => {
                position += 1;
                after = After::Operator;
            }
            b'|' => return refuse("pipe"),
            b'>' => {
                if printing && open == 0 {
                    return refuse("redirection");
                }
                after = After::Operator;
            }
            b'<' => after = After::Operator,
            b'+' | b'-' if bytes.get(position) == Some(&byte) => {
                position += 1;
                // `x++ / 2` divides, `++ /re/` doesn't exist: the state stays as it was, and a slash
                // right after is refused.
                let next = bytes
                    .get(position..)
                    .unwrap_or_default()
                    .iter()
                    .find(|byte| !matches!(byte, b' ' | b'\t'));
                if next == Some(&b'/') {
                    return refuse("ambiguous slash");
                }
            }
            b'(' => {
                open += 1;
                after = After::Operator;
            }
            b')' => {
                open = open.saturating_sub(1);
                after = After::Operand;
            }
            b']' => after = After::Operand,
            // A line can go on after a comma, so its end doesn't end a `print`.
            b'\n' => after = After::Operator,
            b'{' | b'}' | b';' => {
                printing = false;
                open = 0;
                after = After::Operator;
            }
            b'[' | b',' | b'!' | b'~' | b'=' | b'*' | b'/' | b'%' | b'^' | b'?' | b':' | b'&'
            | b'$' | b'+' | b'-' => {
                after = After::Operator;
            }
            _ => return refuse("special form"),
        }
    }
    Ok(())
}

fn skip_quoted(bytes: &[u8], mut position: usize, quote: u8) -> Option<usize> {
    loop {
        match *bytes.get(position)? {
            byte if byte == quote => return Some(position + 1),
            b'\\' => position += 2,
            b'\n' => return None,
            _ => position += 1,
        }
    }
}

/// Awks disagree on whether a slash in brackets ends the expression, so such an expression is refused.
fn skip_regex(bytes: &[u8], mut position: usize) -> Option<usize> {
    let mut bracket = false;
    loop {
        match *bytes.get(position)? {
            b'/' if bracket => return None,
            b'/' => return Some(position + 1),
            b'[' => {
                bracket = true;
                position += 1;
            }
            b']' => {
                bracket = false;
                position += 1;
            }
            b'\\' => position += 2,
            b'\n' => return None,
            _ => position += 1,
        }
    }
}
