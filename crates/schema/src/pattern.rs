//! Regular expressions of JSON Schema, which are those of ECMAScript.
//!
//! They are translated to the syntax of `fancy_regex`: `\d`, `\w` and `\s` keep their ECMAScript
//! meaning, `[` is literal within a class, and code point escapes are rewritten. Lookaround and
//! backreferences work. Syntax that ECMAScript doesn't have is rejected.

use fancy_regex::Regex;
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

const DIGIT: &str = "0-9";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str = r"\t\n\x0B\f\r\x{FEFF}\x{2028}\x{2029}\p{Zs}";

/// Why a regular expression is rejected.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    #[error("a [ has no closing ]")]
    UnclosedClass,
    #[error("it ends with a backslash")]
    TrailingBackslash,
    #[error("\\c must be followed by a letter")]
    ControlLetter,
    #[error("\\{0} is not an escape sequence")]
    UnknownEscape(char),
    #[error("{text:?} is not {digits} hexadecimal digits")]
    HexadecimalDigits { text: String, digits: usize },
    #[error("{0:?} is not a hexadecimal number")]
    Hexadecimal(String),
    #[error("a surrogate without its pair")]
    LoneSurrogate,
    #[error(transparent)]
    Syntax(#[from] Box<fancy_regex::Error>),
}

pub(crate) struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    pub(crate) fn new(source: &str) -> Result<Self, PatternError> {
        let translated = translate(source)?;
        let regex = Regex::new(&translated).map_err(Box::new)?;
        Ok(Self {
            source: source.to_owned(),
            regex,
        })
    }

    /// The expression before translation.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Searches a text. A search that takes too many steps counts as no match.
    pub(crate) fn occurs_in(&self, text: &str) -> bool {
        self.regex.is_match(text).unwrap_or(false)
    }
}

fn translate(source: &str) -> Result<String, PatternError> {
    let mut out = String::with_capacity(source.len() + 8);
    let mut rest = source.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\\' => escape(&mut rest, &mut out, false)?,
            '[' => class(&mut rest, &mut out)?,
            other => out.push(other),
        }
    }
    Ok(out)
}

/// Translates a class after its opening bracket, up to and including the closing one.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), PatternError> {
    let negated = rest.next_if_eq(&'^').is_some();
    if rest.next_if_eq(&']').is_some() {
        // `[]` matches nothing, `[^]` anything.
        out.push_str(if negated { r"[\s\S]" } else { r"[^\s\S]" });
        return Ok(());
    }
    out.push_str(if negated { "[^" } else { "[" });
    while let Some(character) = rest.next() {
        match character {
            ']' => {
                out.push(']');
                return Ok(());
            }
            '\\' => escape(rest, out, true)?,
            // Literal in ECMAScript classes, operators in ours.
            '[' | '&' | '~' | '^' => {
                out.push('\\');
                out.push(character);
            }
            '-' if rest.peek() == Some(&'-') => out.push_str(r"\-"),
            other => out.push(other),
        }
    }
    Err(PatternError::UnclosedClass)
}

/// Translates an escape sequence after its backslash.
fn escape(
    rest: &mut Peekable<Chars<'_>>,
    out: &mut String,
    in_class: bool,
) -> Result<(), PatternError> {
    let Some(character) = rest.next() else {
        return Err(PatternError::TrailingBackslash);
    };
    let mut set = |members: &str, negated: bool| {
        match (in_class, negated) {
            (true, false) => out.push_str(members),
            (_, true) => {
                let _ = write!(out, "[^{members}]");
            }
            (false, false) => {
                let _ = write!(out, "[{members}]");
            }
        };
    };
    match character {
        'd' => set(DIGIT, false),
        'D' => set(DIGIT, true),
        'w' => set(WORD, false),
        'W' => set(WORD, true),
        's' => set(SPACE, false),
        'S' => set(SPACE, true),
        'b' if in_class => out.push_str(r"\x08"),
        'v' => out.push_str(r"\x0B"),
        '0' if !rest.peek().is_some_and(char::is_ascii_digit) => out.push_str(r"\x00"),
        'c' => match rest.next().filter(char::is_ascii_alphabetic) {
            Some(letter) => push_code(out, u32::from(letter) % 32),
            None => return Err(PatternError::ControlLetter),
        },
        'u' => unicode(rest, out)?,
        'x' => push_code(out, hexadecimal(rest, 2)?),
        'b' | 'B' | 'p' | 'P' | 'k' | 'f' | 'n' | 'r' | 't' | '1'..='9' => {
            out.push('\\');
            out.push(character);
        }
        other if other.is_alphanumeric() => return Err(PatternError::UnknownEscape(other)),
        '<' | '>' => out.push(character),
        other if other.is_ascii_punctuation() => {
            out.push('\\');
            out.push(other);
        }
        other => out.push(other),
    }
    Ok(())
}

fn push_code(out: &mut String, code: u32) {
    let _ = write!(out, r"\x{{{code:X}}}");
}

fn hexadecimal(rest: &mut Peekable<Chars<'_>>, digits: usize) -> Result<u32, PatternError> {
    let text: String = rest.by_ref().take(digits).collect();
    match u32::from_str_radix(&text, 16) {
        Ok(code) if text.len() == digits => Ok(code),
        _ => Err(PatternError::HexadecimalDigits { text, digits }),
    }
}

/// `\u0041`, `\u{1F600}` or a pair of surrogates.
fn unicode(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), PatternError> {
    if rest.next_if_eq(&'{').is_some() {
        let digits: String = rest
            .by_ref()
            .take_while(|character| *character != '}')
            .collect();
        let code =
            u32::from_str_radix(&digits, 16).map_err(|_| PatternError::Hexadecimal(digits))?;
        push_code(out, code);
        return Ok(());
    }
    let first = hexadecimal(rest, 4)?;
    if !(0xD800..0xDC00).contains(&first) {
        push_code(out, first);
        return Ok(());
    }
    let paired = rest.next() == Some('\\') && rest.next() == Some('u');
    let second = if paired { hexadecimal(rest, 4)? } else { 0 };
    if !(0xDC00..0xE000).contains(&second) {
        return Err(PatternError::LoneSurrogate);
    }
    push_code(out, 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_as_in_ecmascript() {
        for (source, text, expected) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "१२", false),
            (r"^\w$", "é", false),
            (r"^\W$", "é", true),
            (r"^\s$", "\u{a0}", true),
            (r"^\S$", "\u{feff}", false),
            (r"^[\D]$", "x", true),
            (r"^[^\d\s]+$", "a b", false),
            (r"^[[a]$", "[", true),
            (r"^[a&&b]+$", "&a&b", true),
            (r"^a\/b\-c$", "a/b-c", true),
            (r"^\cC$", "\u{3}", true),
            (r"^\u0041\u{42}\x43$", "ABC", true),
            (r"^\uD83D\uDE00$", "😀", true),
            (r"^[\b]$", "\u{8}", true),
            (r"^a$", "a\n", false),
            (r"^(?!\.)(?!.*\.\.)[a-z.]+$", "a.b", true),
            (r"^(?!\.)(?!.*\.\.)[a-z.]+$", "a..b", false),
            (r"^(a|b)\1$", "aa", true),
            (r"^(a|b)\1$", "ab", false),
            (r"\p{Letter}", "é", true),
            (r"^[^]$", "\n", true),
            (r"^[]", "", false),
            ("es", "expression", true),
        ] {
            let pattern = Pattern::new(source).unwrap_or_else(|error| panic!("{source}: {error}"));
            assert_eq!(pattern.occurs_in(text), expected, "{source} {text}");
            assert_eq!(pattern.source(), source);
        }
    }

    #[test]
    fn an_invalid_expression_is_rejected() {
        for source in [
            "(", "[a", "a\\", r"\a", r"\Z", r"\u12", r"\uD83D", r"\c1", "^(abc]",
        ] {
            assert!(Pattern::new(source).is_err(), "{source}");
        }
    }
}
