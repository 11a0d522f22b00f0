//! Regular expressions of JSON Schema, which are those of ECMAScript.
//!
//! They are turned into what our engine takes: `\d`, `\w` and `\s` mean what they mean there, `[` is
//! plain within brackets, and the escapes of code points are written our way. Looking ahead and
//! behind and references back work. What ECMAScript doesn't have is refused.

use fancy_regex::Regex;
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

const DIGIT: &str = "0-9";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str = r"\t\n\x0B\f\r\x{FEFF}\x{2028}\x{2029}\p{Zs}";

/// A regular expression that values are searched with.
pub(crate) struct Pattern {
    source: String,
    regex: Regex,
}

impl Pattern {
    /// Reads an expression. The error says what is wrong with it.
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        let translated = translate(source)?;
        let regex = Regex::new(&translated).map_err(|error| error.to_string())?;
        Ok(Self {
            source: source.to_owned(),
            regex,
        })
    }

    /// The expression as it was given.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Whether it occurs in a text. An expression that takes too many steps is taken not to.
    pub(crate) fn occurs_in(&self, text: &str) -> bool {
        self.regex.is_match(text).unwrap_or(false)
    }
}

fn translate(source: &str) -> Result<String, String> {
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

/// What follows an opening bracket, up to the closing one.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    let negated = rest.next_if_eq(&'^').is_some();
    if rest.next_if_eq(&']').is_some() {
        // Nothing, or anything.
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
            // These have a meaning in our classes that they don't have there.
            '[' | '&' | '~' | '^' => {
                out.push('\\');
                out.push(character);
            }
            '-' if rest.peek() == Some(&'-') => out.push_str(r"\-"),
            other => out.push(other),
        }
    }
    Err("a [ has no ]".to_owned())
}

/// What follows a backslash.
fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String, in_class: bool) -> Result<(), String> {
    let Some(character) = rest.next() else {
        return Err("it ends in a \\".to_owned());
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
            None => return Err("\\c is not followed by a letter".to_owned()),
        },
        'u' => unicode(rest, out)?,
        'x' => push_code(out, hexadecimal(rest, 2)?),
        'b' | 'B' | 'p' | 'P' | 'k' | 'f' | 'n' | 'r' | 't' | '1'..='9' => {
            out.push('\\');
            out.push(character);
        }
        other if other.is_alphanumeric() => return Err(format!("\\{other} has no meaning")),
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

fn hexadecimal(rest: &mut Peekable<Chars<'_>>, digits: usize) -> Result<u32, String> {
    let text: String = rest.by_ref().take(digits).collect();
    match u32::from_str_radix(&text, 16) {
        Ok(code) if text.len() == digits => Ok(code),
        _ => Err(format!("{text:?} are not {digits} hexadecimal digits")),
    }
}

/// `\u0041`, `\u{1F600}` or a pair of surrogates.
fn unicode(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    if rest.next_if_eq(&'{').is_some() {
        let digits: String = rest
            .by_ref()
            .take_while(|character| *character != '}')
            .collect();
        let code = u32::from_str_radix(&digits, 16)
            .map_err(|_| format!("{digits:?} is no hexadecimal number"))?;
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
        return Err("half a pair of surrogates".to_owned());
    }
    push_code(out, 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_in_javascript() {
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
    fn what_is_no_expression_is_refused() {
        for source in [
            "(", "[a", "a\\", r"\a", r"\Z", r"\u12", r"\uD83D", r"\c1", "^(abc]",
        ] {
            assert!(Pattern::new(source).is_err(), "{source}");
        }
    }
}
