//! Makes texts of servers safe to display: no escape sequences or control characters, limited
//! length.

/// Removes control characters except line breaks and tabs, and characters that reorder or hide text
/// in a terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    if text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character == '\u{1b}' {
            skip_escape(&mut rest);
        } else if is_plain(character) {
            out.push(character);
        }
    }
    out
}

/// Cleans a text and cuts it to a number of characters, with an ellipsis.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    let clean = clean(text);
    match clean.char_indices().nth(most) {
        None => clean,
        Some((end, _)) => format!("{}…", &clean[..end]),
    }
}

/// Cleans a text and puts it on one line.
#[must_use]
pub fn line(text: &str, most: usize) -> String {
    cut(&clean(text).replace(['\n', '\t'], " "), most)
}

fn is_plain(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        // True for invisible characters and those that change the direction of text.
        '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{feff}' => false,
        other => !other.is_control(),
    }
}

/// Skips an escape sequence: a CSI sequence, a string up to its end, or one character.
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => {
            for character in rest.by_ref() {
                if ('@'..='~').contains(&character) {
                    break;
                }
            }
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(character) = rest.next() {
                if character == '\u{7}' || character == '\u{9c}' {
                    break;
                }
                if character == '\u{1b}' && rest.peek() == Some(&'\\') {
                    rest.next();
                    break;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_removed_and_text_stays() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m b\nc\td"), "ared b\nc\td");
        assert_eq!(clean("x\u{1b}]0;title\u{7}y\u{1b}]8;;u\u{1b}\\z"), "xyz");
        assert_eq!(
            clean("bell\u{7} cr\r null\0 c1\u{9b}31m"),
            "bell cr null c131m"
        );
        assert_eq!(clean("abc\u{202e}fed"), "abcfed");
        assert_eq!(clean("Grüße 你好"), "Grüße 你好");
    }

    #[test]
    fn what_is_cut_is_marked() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüx", 3), "äöü…");
        assert_eq!(line("a\nb\tc", 10), "a b c");
    }
}
