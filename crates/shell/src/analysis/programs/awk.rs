//! awk: only programs that neither run commands nor open files of their own.

use super::super::argument::Argument;
use super::super::options::{Order, sort};
use super::sed::skip_regex;
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
    // The two words that matter most are refused wherever they stand, strings included.
    if program.contains("system") || program.contains("getline") {
        return refuse("system or getline");
    }
    let bytes = program.as_bytes();
    let mut position = 0;
    let mut after = After::Operator;
    let mut printing = false;
    // For each open parenthesis, whether it belongs to `if`, `while`, `for` or `switch`.
    let mut parentheses: Vec<bool> = Vec::new();
    let mut keyword = false;
    while let Some(byte) = bytes.get(position).copied() {
        position += 1;
        let follows_keyword = keyword;
        if !matches!(byte, b' ' | b'\t') {
            keyword = false;
        }
        match byte {
            b' ' | b'\t' => {}
            b'\\' if bytes.get(position) == Some(&b'\n') => position += 1,
            b'#' => {
                while bytes.get(position).is_some_and(|byte| *byte != b'\n') {
                    position += 1;
                }
            }
            b'"' => {
                position = skip_quoted(bytes, position).ok_or("awk's string doesn't end")?;
                after = After::Operand;
            }
            b'/' if after == After::Operator => {
                position = skip_regex(bytes, position, b'/')
                    .ok_or("awk's regular expression doesn't end plainly")?;
                after = After::Operand;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let start = position - 1;
                while bytes.get(position).is_some_and(|byte| is_name_byte(*byte)) {
                    position += 1;
                }
                match program.get(start..position).unwrap_or_default() {
                    word @ ("close" | "fflush" | "extension" | "ENVIRON" | "PROCINFO" | "ARGV"
                    | "ARGC") => return refuse(word),
                    "print" | "printf" => {
                        printing = true;
                        after = After::Operator;
                    }
                    "if" | "while" | "for" | "switch" => {
                        keyword = true;
                        after = After::Operator;
                    }
                    "return" | "in" | "else" | "do" | "case" | "exit" | "delete" => {
                        after = After::Operator;
                    }
                    _ => after = After::Operand,
                }
            }
            b'0'..=b'9' | b'.' => {
                position = skip_number(bytes, position);
                // `1f(x)` is a number next to a call.
                if bytes.get(position).is_some_and(|byte| is_name_byte(*byte)) {
                    return refuse("number next to a name");
                }
                after = After::Operand;
            }
            b'|' if bytes.get(position) == Some(&b'|') => {
                position += 1;
                after = After::Operator;
            }
            b'|' => return refuse("pipe"),
            b'>' if printing => return refuse("redirection"),
            b'+' | b'-' if bytes.get(position) == Some(&byte) => {
                position += 1;
                // `x++ / 2` divides; what `++ /` means depends on what came before.
                let rest = bytes.get(position..).unwrap_or_default();
                if rest.iter().find(|byte| !matches!(byte, b' ' | b'\t')) == Some(&b'/') {
                    return refuse("ambiguous slash");
                }
            }
            b'(' => {
                parentheses.push(follows_keyword);
                after = After::Operator;
            }
            b')' => match parentheses.pop() {
                // After a condition a statement starts, and a slash starts a regular expression.
                Some(true) => after = After::Operator,
                Some(false) => after = After::Operand,
                None => return refuse("unbalanced parenthesis"),
            },
            b']' => after = After::Operand,
            // A line can go on after a comma, so its end doesn't end a `print`.
            b'\n' => after = After::Operator,
            b';' => {
                printing &= !parentheses.is_empty();
                after = After::Operator;
            }
            b'{' | b'}' => {
                if !parentheses.is_empty() {
                    return refuse("unbalanced parenthesis");
                }
                printing = false;
                after = After::Operator;
            }
            b'<' | b'>' | b'[' | b',' | b'!' | b'~' | b'=' | b'*' | b'/' | b'%' | b'^' | b'?'
            | b':' | b'&' | b'$' | b'+' | b'-' => after = After::Operator,
            _ => return refuse("special form"),
        }
    }
    Ok(())
}

fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// The position after a decimal number.
fn skip_number(bytes: &[u8], mut position: usize) -> usize {
    let digits = |mut position: usize| {
        while bytes
            .get(position)
            .is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.')
        {
            position += 1;
        }
        position
    };
    position = digits(position);
    if matches!(bytes.get(position), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(position + 1), Some(b'+' | b'-')));
        if bytes
            .get(position + 1 + sign)
            .is_some_and(u8::is_ascii_digit)
        {
            position = digits(position + 1 + sign);
        }
    }
    position
}

fn skip_quoted(bytes: &[u8], mut position: usize) -> Option<usize> {
    loop {
        match *bytes.get(position)? {
            b'"' => return Some(position + 1),
            b'\\' => position += 2,
            b'\n' => return None,
            _ => position += 1,
        }
    }
}
