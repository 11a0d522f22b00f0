//! Text from outside, made safe to print: file names, answers of models, words of servers.
//!
//! A terminal obeys what is printed to it. Escape sequences can write to the clipboard, rename the window or move text
//! around; characters that turn the direction of text hide what a name is.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// The codes of colours and emphasis that Lathe itself prints.
const OWN_CODES: &[&str] = &[
    "", "0", "1", "2", "3", "4", "22", "23", "24", "31", "32", "33", "34", "35", "36", "39",
];

/// Removes escape sequences, control characters except line breaks and tabs, and characters that reorder or hide text.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    cleaned(text, false)
}

/// As [`clean`], but keeps plain colours and emphasis: for whole outputs, which Lathe coloured itself.
#[must_use]
pub fn clean_output(text: &str) -> Cow<'_, str> {
    cleaned(text, true)
}

/// Whether a character is printed as itself, or is a line break or a tab.
#[must_use]
pub fn is_printable(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => false,
        other => !other.is_control(),
    }
}

fn cleaned(text: &str, colours: bool) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                if let Some(codes) = skip_escape(&mut rest).filter(|_| colours) {
                    out.push_str("\u{1b}[");
                    out.push_str(&codes);
                    out.push('m');
                }
            }
            '\u{9b}' => {
                skip_parameters(&mut rest);
            }
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest),
            // Zero-width joiners belong to emoji and to several scripts.
            '\u{200c}' | '\u{200d}' => out.push(character),
            other if is_printable(other) => out.push(other),
            _ => {}
        }
    }
    Cow::Owned(out)
}

/// Skips an escape sequence. Gives the codes of one that sets a plain colour.
fn skip_escape(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    match rest.next()? {
        '[' => {
            let (codes, end) = skip_parameters(rest)?;
            let plain = end == 'm' && codes.split(';').all(|code| OWN_CODES.contains(&code));
            plain.then_some(codes)
        }
        ']' | 'P' | '_' | '^' | 'X' => {
            skip_string(rest);
            None
        }
        ' '..='/' => {
            rest.next();
            None
        }
        _ => None,
    }
}

/// Skips the parameters of a control sequence and its end.
fn skip_parameters(rest: &mut Peekable<Chars<'_>>) -> Option<(String, char)> {
    let mut codes = String::new();
    while let Some(character) = rest.next_if(|character| !character.is_control()) {
        if ('@'..='~').contains(&character) {
            return Some((codes, character));
        }
        codes.push(character);
    }
    None
}

/// Skips a string up to its end, a bell or a string terminator.
fn skip_string(rest: &mut Peekable<Chars<'_>>) {
    while let Some(character) = rest.next() {
        match character {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_hidden_characters_go() {
        for (text, shown) in [
            ("plain", "plain"),
            ("a\tb\nc", "a\tb\nc"),
            ("\u{1b}]0;title\u{7}name", "name"),
            ("\u{1b}]52;c;Y2FsYw==\u{1b}\\name", "name"),
            ("\u{1b}[2J\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{9b}2Jname", "name"),
            ("\u{9d}52;c;x\u{9c}name", "name"),
            ("\u{1b}Pq#0\u{1b}\\name", "name"),
            ("evil\u{202e}gpj.exe", "evilgpj.exe"),
            ("a\rb\u{8}c\u{7}", "abc"),
            ("\u{1b}[", ""),
            ("\u{1b}", ""),
            ("a\u{e0041}b\u{200b}c", "abc"),
            ("\u{1b}(0lq", "lq"),
        ] {
            assert_eq!(clean(text), shown, "{text:?}");
        }
    }

    #[test]
    fn an_output_keeps_its_own_colours_and_nothing_else() {
        for (text, shown) in [
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}[1;32mgreen\u{1b}[m", "\u{1b}[1;32mgreen\u{1b}[m"),
            ("\u{1b}[8mhidden", "hidden"),
            ("\u{1b}[38;5;16mblack", "black"),
            ("\u{1b}[2K\u{1b}[1Aup", "up"),
        ] {
            assert_eq!(clean_output(text), shown, "{text:?}");
        }
    }

    /// Made-up mixtures of control sequences, cut and nested in any way: no character gets through that a terminal
    /// obeys, and text beside them stays. `scripts/effects` makes more of them.
    #[test]
    fn no_made_up_sequence_reaches_the_terminal() {
        const PIECES: &[&str] = &[
            "\u{1b}",
            "[",
            "]",
            "P",
            "_",
            "^",
            "X",
            "\\",
            "\u{7}",
            "\u{9b}",
            "\u{9d}",
            "\u{90}",
            "\u{9c}",
            "\u{98}",
            "0;title",
            "52;c;Y2FsYw==",
            "8;;http://x",
            "?1049h",
            "2J",
            "1;1H",
            "31m",
            "0m",
            "38;5;1m",
            ";",
            "m",
            "!p",
            "(0",
            "#8",
            "c",
            "\r",
            "\u{8}",
            "\u{c}",
            "\u{b}",
            "\u{7f}",
            "\u{85}",
            "\u{202e}",
            "\u{2066}",
            "\u{feff}",
            "\u{200b}",
            "\u{e0041}",
            "\u{18}",
            "\u{1a}",
            "\0",
            "text",
            "\n",
            "\t",
            "日本",
            "\u{1b}[31",
            "\u{1b}\u{1b}[",
        ];
        let mut state: u64 = 20_261_116;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap() % limit
        };
        for _ in 0..20_000 {
            let text: String = (0..1 + below(12))
                .map(|_| PIECES[below(PIECES.len())])
                .collect();
            let plain = clean(&text);
            let odd = |character: char| {
                !is_printable(character) && !matches!(character, '\u{200c}' | '\u{200d}')
            };
            assert!(!plain.contains(odd), "{text:?} -> {plain:?}");
            assert_eq!(clean(&plain), plain, "{text:?}");
            let coloured = clean_output(&text);
            for (index, part) in coloured.split('\u{1b}').enumerate() {
                let rest = if index == 0 {
                    part
                } else {
                    let (codes, rest) = part.strip_prefix('[').unwrap().split_once('m').unwrap();
                    assert!(
                        codes.split(';').all(|code| OWN_CODES.contains(&code)),
                        "{text:?} -> {coloured:?}"
                    );
                    rest
                };
                assert!(!rest.contains(odd), "{text:?} -> {coloured:?}");
            }
        }
    }
}
