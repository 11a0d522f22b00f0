//! Tags and text of a page, in order.

use super::entities;
use std::borrow::Cow;

/// A piece of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// `<name …>`.
    Open {
        name: String,
        attributes: Vec<(String, Cow<'a, str>)>,
        /// `<name/>`.
        closed: bool,
    },
    /// `</name>`.
    Close { name: String },
    /// Text, with its references replaced.
    Text(Cow<'a, str>),
}

/// Elements whose content is not HTML.
const RAW: [&str; 6] = ["script", "style", "xmp", "iframe", "textarea", "title"];
/// Raw ones whose references are replaced.
const WITH_REFERENCES: [&str; 2] = ["textarea", "title"];
/// The most attributes of an element that are kept.
const MOST_ATTRIBUTES: usize = 64;

/// Reads a page.
pub(super) struct Tokens<'a> {
    rest: &'a str,
    /// The element whose raw content comes next.
    raw: Option<String>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(html: &'a str) -> Self {
        Self {
            rest: html.strip_prefix('\u{feff}').unwrap_or(html),
            raw: None,
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// The content of a raw element: everything to its closing tag.
    fn raw_text(&mut self, name: &str) -> Option<Token<'a>> {
        let end = closing_tag(self.rest, name).unwrap_or(self.rest.len());
        let text = self.take(end);
        if text.is_empty() {
            return None;
        }
        Some(Token::Text(if WITH_REFERENCES.contains(&name) {
            entities::decode(text)
        } else {
            Cow::Borrowed(text)
        }))
    }

    /// A token that begins with `<`: a tag, or markup that isn't shown. `None` if it is only a character.
    fn markup(&mut self) -> Option<Option<Token<'a>>> {
        let after = self.rest.get(1..)?;
        match after.as_bytes().first()? {
            b'!' => {
                self.skip_declaration(after);
                Some(None)
            }
            b'?' => {
                let end = after.find('>').map_or(self.rest.len(), |at| at + 2);
                self.take(end);
                Some(None)
            }
            b'/' => {
                let name = after.get(1..).unwrap_or_default();
                if !name.starts_with(|character: char| character.is_ascii_alphabetic()) {
                    let end = after.find('>').map_or(self.rest.len(), |at| at + 2);
                    self.take(end);
                    return Some(None);
                }
                self.take(2);
                let name = self.tag_name();
                let end = self.rest.find('>').map_or(self.rest.len(), |at| at + 1);
                self.take(end);
                Some(Some(Token::Close { name }))
            }
            first if first.is_ascii_alphabetic() => {
                self.take(1);
                Some(Some(self.open()))
            }
            _ => None,
        }
    }

    fn skip_declaration(&mut self, after: &str) {
        let end = if let Some(comment) = after.strip_prefix("!--") {
            // `<!-->` and `<!--->` are whole comments.
            if comment.starts_with('>') {
                Some(5)
            } else if comment.starts_with("->") {
                Some(6)
            } else {
                end_of_comment(comment).map(|at| at + 4)
            }
        } else if after.starts_with("![CDATA[") {
            after.find("]]>").map(|at| at + 4)
        } else {
            after.find('>').map(|at| at + 2)
        };
        self.take(end.unwrap_or(self.rest.len()));
    }

    fn tag_name(&mut self) -> String {
        let end = self
            .rest
            .find(|character: char| {
                character.is_ascii_whitespace() || matches!(character, '/' | '>')
            })
            .unwrap_or(self.rest.len());
        self.take(end).to_ascii_lowercase()
    }

    /// A tag after its `<`.
    fn open(&mut self) -> Token<'a> {
        let name = self.tag_name();
        let mut attributes: Vec<(String, Cow<'a, str>)> = Vec::new();
        let mut closed = false;
        loop {
            let blank = |character: char| character.is_ascii_whitespace() || character == '/';
            let start = self.rest.find(|character| !blank(character));
            let skipped = self.take(start.unwrap_or(self.rest.len()));
            if self.rest.is_empty() {
                break;
            }
            if self.rest.starts_with('>') {
                closed = skipped.ends_with('/');
                self.take(1);
                break;
            }
            let (key, value) = self.attribute();
            if attributes.len() < MOST_ATTRIBUTES
                && attributes.iter().all(|(known, _)| *known != key)
            {
                attributes.push((key, value));
            }
        }
        if RAW.contains(&name.as_str()) && !closed {
            self.raw = Some(name.clone());
        }
        Token::Open {
            name,
            attributes,
            closed,
        }
    }

    fn attribute(&mut self) -> (String, Cow<'a, str>) {
        // A `=` at the start is part of the name.
        let end = self
            .rest
            .char_indices()
            .find(|(at, character)| {
                character.is_ascii_whitespace()
                    || matches!(character, '/' | '>')
                    || (*at > 0 && *character == '=')
            })
            .map_or(self.rest.len(), |(at, _)| at);
        let key = self.take(end).to_ascii_lowercase();
        let after = self
            .rest
            .trim_start_matches(|c: char| c.is_ascii_whitespace());
        let Some(value) = after.strip_prefix('=') else {
            return (key, Cow::Borrowed(""));
        };
        self.rest = value.trim_start_matches(|c: char| c.is_ascii_whitespace());
        for quote in ['"', '\''] {
            if let Some(inner) = self.rest.strip_prefix(quote) {
                let end = inner.find(quote).unwrap_or(inner.len());
                let value = inner.get(..end).unwrap_or_default();
                self.rest = inner.get(end + 1..).unwrap_or_default();
                return (key, entities::decode(value));
            }
        }
        let end = self
            .rest
            .find(|character: char| character.is_ascii_whitespace() || character == '>')
            .unwrap_or(self.rest.len());
        (key, entities::decode(self.take(end)))
    }
}

/// Where a comment is over: after `-->` or `--!>`, whichever comes first.
fn end_of_comment(comment: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = comment.get(from..)?.find("--") {
        let after = comment.get(from + at + 2..)?;
        if after.starts_with('>') {
            return Some(from + at + 3);
        }
        if after.starts_with("!>") {
            return Some(from + at + 4);
        }
        from += at + 1;
    }
    None
}

/// Where the closing tag of a raw element begins.
fn closing_tag(text: &str, name: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find("</") {
        let start = from + at;
        let after = start + 2 + name.len();
        let same = bytes
            .get(start + 2..after)
            .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()));
        let ends = bytes
            .get(after)
            .is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'));
        if same && ends {
            return Some(start);
        }
        from = start + 2;
    }
    None
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            if let Some(name) = self.raw.take()
                && let Some(token) = self.raw_text(&name)
            {
                return Some(token);
            }
            if self.rest.is_empty() {
                return None;
            }
            let mut end = 0;
            if self.rest.starts_with('<') {
                match self.markup() {
                    Some(Some(token)) => return Some(token),
                    Some(None) => continue,
                    // A lone `<` is text.
                    None => end = 1,
                }
            }
            let next = self.rest.get(end..).and_then(|rest| rest.find('<'));
            let text = self.take(next.map_or(self.rest.len(), |at| at + end));
            return Some(Token::Text(entities::decode(text)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(html: &str) -> String {
        let one = |token: Token<'_>| match token {
            Token::Open {
                name,
                attributes,
                closed,
            } => {
                let attributes: String = attributes
                    .iter()
                    .map(|(key, value)| format!(" {key}={value}"))
                    .collect();
                format!("<{name}{attributes}{}>", if closed { "/" } else { "" })
            }
            Token::Close { name } => format!("</{name}>"),
            Token::Text(text) => format!("[{text}]"),
        };
        Tokens::new(html).map(one).collect()
    }

    #[test]
    fn a_page_is_tags_and_text() {
        let cases = [
            ("<p class=a>x</p>", "<p class=a>[x]</p>"),
            (
                "<A HREF='x y' B=\"c\" d>t</A >",
                "<a href=x y b=c d=>[t]</a>",
            ),
            ("a < b <3 <", "[a ][< b ][<3 ][<]"),
            ("<br/><br />", "<br/><br/>"),
            ("a<!-- <p> -->b<!---->c<!-->d", "[a][b][c][d]"),
            ("<!doctype html><?xml x?>t", "[t]"),
            (
                "<script>if (a<b) '</p>'</script>x",
                "<script>[if (a<b) '</p>']</script>[x]",
            ),
            ("<script>never closed <p>", "<script>[never closed <p>]"),
            ("<title>a &amp; <b></TITLE>", "<title>[a & <b>]</title>"),
            ("<style></style>x", "<style></style>[x]"),
            ("<a href=x&amp;y>", "<a href=x&y>"),
            ("<a =b c==d>", "<a =b= c==d>"),
            ("<p", "<p>"),
            ("<p a='never", "<p a=never>"),
            ("</>x</ y>z", "[x][z]"),
            ("<![CDATA[x]]>y", "[y]"),
            ("<a a=1 a=2>", "<a a=1>"),
            ("<!--never closed", ""),
        ];
        for (html, expected) in cases {
            assert_eq!(shown(html), expected, "{html}");
        }
    }
}
