//! Comments in instruction files: they are notes for the people who keep the file.

use super::imports::fence_of;

/// A text without the HTML comments that begin a line. Comments in code blocks and within a line are
/// part of the text, and so is one that is never closed.
pub(super) fn without_comments(text: String) -> String {
    if !text.contains("<!--") {
        return text;
    }
    let mut kept = String::with_capacity(text.len());
    let mut fence: Option<(char, usize)> = None;
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let line = &rest[..end];
        let trimmed = line.trim_start();
        match (fence, fence_of(trimmed)) {
            (None, Some(opened)) => fence = Some(opened),
            (Some((open, needed)), Some((mark, length)))
                if mark == open && length >= needed && trimmed.trim_end().len() == length =>
            {
                fence = None;
            }
            _ => {}
        }
        let comment = (fence.is_none() && trimmed.starts_with("<!--"))
            .then(|| rest.find("-->"))
            .flatten();
        match comment {
            Some(close) => {
                rest = &rest[close + "-->".len()..];
                // The end of a line that held nothing else goes with it.
                let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
                if rest[blank..].starts_with('\n') {
                    rest = &rest[blank + 1..];
                }
            }
            None => {
                kept.push_str(line);
                rest = &rest[end..];
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::without_comments;

    #[test]
    fn comments_that_begin_a_line_are_left_out() {
        for (written, left) in [
            ("a\n<!-- note -->\nb\n", "a\nb\n"),
            ("a\n  <!--\n @x.md\n-->\nb", "a\nb"),
            ("<!-- a --> b\n", " b\n"),
            ("a <!-- within --> b\n", "a <!-- within --> b\n"),
            (
                "```\n<!-- code -->\n```\n<!-- x -->",
                "```\n<!-- code -->\n```\n",
            ),
            ("<!-- never closed\na\n", "<!-- never closed\na\n"),
            ("no comment\n", "no comment\n"),
            ("<!-- a --><!-- b -->\nc", "c"),
        ] {
            assert_eq!(without_comments(written.to_owned()), left, "{written:?}");
        }
    }
}
