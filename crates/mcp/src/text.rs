//! Makes texts of servers safe to display: no escape sequences or control characters, limited
//! length.

/// Removes control characters except line breaks and tabs, and characters that reorder or hide text
/// in a terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    lathe_protocol::printable::clean(text).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_removed_and_text_stays() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m b\nc\td"), "ared b\nc\td");
        assert_eq!(clean("x\u{1b}]0;title\u{7}y\u{1b}]8;;u\u{1b}\\z"), "xyz");
        assert_eq!(
            clean("bell\u{7} cr\r null\0 c1\u{9b}31m"),
            "bell cr null c1"
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
