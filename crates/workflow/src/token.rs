//! Words of JavaScript with their places, as far as the checks need them.

use crate::error::Position;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word(String),
    Sign(&'static str),
    /// A string, number, template or regular expression.
    Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) at: Position,
}

impl Token {
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            TokenKind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn is(&self, sign: &str) -> bool {
        matches!(&self.kind, TokenKind::Sign(own) if *own == sign)
    }
}

/// Signs that matter, longest first; any other character is a sign of its own kind.
const SIGNS: [&str; 21] = [
    "...", "===", "!==", "=>", "==", "!=", "?.", "<=", ">=", "{", "}", "(", ")", "[", "]", ".",
    ",", ";", ":", "?", "=",
];

/// Words before which a `/` divides nothing.
const BEFORE_PATTERN: [&str; 8] = [
    "return", "typeof", "case", "in", "of", "await", "new", "delete",
];

/// A reader of characters that knows where it is.
pub(crate) struct Cursor<'a> {
    rest: std::str::Chars<'a>,
    pub(crate) at: Position,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            rest: text.chars(),
            at: Position { line: 1, column: 1 },
        }
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    pub(crate) fn text(&self) -> &'a str {
        self.rest.as_str()
    }

    pub(crate) fn take(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        if letter == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(letter)
    }

    pub(crate) fn skip(&mut self, letters: usize) {
        for _ in 0..letters {
            self.take();
        }
    }

    /// Passes blanks and comments.
    pub(crate) fn skip_blanks(&mut self) {
        loop {
            let text = self.text();
            if text.starts_with("//") {
                while self.peek().is_some_and(|letter| letter != '\n') {
                    self.take();
                }
            } else if text.starts_with("/*") {
                self.skip(2);
                while !self.text().is_empty() && !self.text().starts_with("*/") {
                    self.take();
                }
                self.skip(2);
            } else if self
                .peek()
                .is_some_and(|letter| letter.is_whitespace() || letter == '\u{feff}')
            {
                self.take();
            } else {
                return;
            }
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(letter) = self.peek().filter(|letter| is_part(*letter)) {
            word.push(letter);
            self.take();
        }
        word
    }

    /// Passes a quoted string, whose first quote is next.
    fn skip_string(&mut self) {
        let quote = self.take();
        while let Some(letter) = self.take() {
            if letter == '\\' {
                self.take();
            } else if Some(letter) == quote {
                return;
            }
        }
    }

    fn skip_pattern(&mut self) {
        self.take();
        let mut in_class = false;
        while let Some(letter) = self.peek().filter(|letter| *letter != '\n') {
            self.take();
            match letter {
                '\\' => {
                    self.take();
                }
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => break,
                _ => {}
            }
        }
        self.word();
    }
}

fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

/// Splits a script into tokens. What stands in `${}` of a template is among them.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut cursor = Cursor::new(text);
    let mut found: Vec<Token> = Vec::new();
    // For each open template: how many braces are open in its `${}`.
    let mut templates: Vec<usize> = Vec::new();
    loop {
        cursor.skip_blanks();
        let at = cursor.at;
        let Some(letter) = cursor.peek() else {
            return found;
        };
        let kind = if letter == '`' || (letter == '}' && templates.last() == Some(&0)) {
            if letter == '}' {
                templates.pop();
            }
            cursor.take();
            if skip_template(&mut cursor) {
                templates.push(0);
            }
            TokenKind::Value
        } else if letter.is_ascii_digit() {
            while cursor
                .peek()
                .is_some_and(|letter| is_part(letter) || letter == '.')
            {
                cursor.take();
            }
            TokenKind::Value
        } else if letter == '#' {
            // A private field, which only its class can name.
            cursor.take();
            cursor.word();
            TokenKind::Value
        } else if is_part(letter) {
            TokenKind::Word(cursor.word())
        } else if letter == '"' || letter == '\'' {
            cursor.skip_string();
            TokenKind::Value
        } else if letter == '/' && begins_pattern(found.last()) {
            cursor.skip_pattern();
            TokenKind::Value
        } else {
            let sign = SIGNS
                .into_iter()
                .find(|sign| cursor.text().starts_with(sign));
            cursor.skip(sign.map_or(1, str::len));
            match (sign, templates.last_mut()) {
                (Some("{"), Some(open)) => *open += 1,
                (Some("}"), Some(open)) => *open -= 1,
                _ => {}
            }
            TokenKind::Sign(sign.unwrap_or("other"))
        };
        found.push(Token { kind, at });
    }
}

/// Passes the text of a template. Returns whether an expression follows.
fn skip_template(cursor: &mut Cursor<'_>) -> bool {
    loop {
        if cursor.text().starts_with("${") {
            cursor.skip(2);
            return true;
        }
        match cursor.take() {
            None | Some('`') => return false,
            Some('\\') => {
                cursor.take();
            }
            Some(_) => {}
        }
    }
}

/// Whether a `/` after this token begins a regular expression.
fn begins_pattern(before: Option<&Token>) -> bool {
    match before.map(|token| &token.kind) {
        None => true,
        Some(TokenKind::Value) => false,
        Some(TokenKind::Word(word)) => BEFORE_PATTERN.contains(&word.as_str()),
        Some(TokenKind::Sign(sign)) => !matches!(*sign, ")" | "]" | "}"),
    }
}

/// The index of the bracket that closes the one at an index.
pub(crate) fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match &token.kind {
            TokenKind::Sign("(" | "[" | "{") => depth += 1,
            TokenKind::Sign(")" | "]" | "}") => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

/// Where loops begin and end.
pub(crate) fn loops(tokens: &[Token]) -> impl Iterator<Item = (Position, Position)> + Clone {
    let starts = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| matches!(token.word(), Some("while" | "for" | "do")));
    starts.map(move |(index, token)| {
        let end = tokens.get(end_of_loop(tokens, index)).unwrap_or(token);
        (token.at, end.at)
    })
}

/// The index of the last token of a loop.
fn end_of_loop(tokens: &[Token], start: usize) -> usize {
    let mut body = start + 1;
    if tokens[start].word() != Some("do") {
        let head = (start..tokens.len()).find(|at| tokens[*at].is("("));
        body = head.and_then(|head| closing(tokens, head)).unwrap_or(start) + 1;
    }
    if tokens.get(body).is_some_and(|token| token.is("{")) {
        return closing(tokens, body).unwrap_or(body);
    }
    // One statement: to its semicolon, or to the end of the block.
    let mut index = body;
    while let Some(token) = tokens.get(index) {
        match &token.kind {
            TokenKind::Sign("(" | "[" | "{") => index = closing(tokens, index).unwrap_or(index),
            TokenKind::Sign(";" | ")" | "]" | "}") => return index,
            _ => {}
        }
        index += 1;
    }
    tokens.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let all = tokens(text).into_iter();
        all.filter_map(|token| token.word().map(str::to_owned))
            .collect()
    }

    #[test]
    fn words_in_strings_comments_and_patterns_are_none_and_those_in_templates_are() {
        let text =
            "a /* b */ 'c' // d\n \"e\\\"f\" `g ${h + `i ${ {j: 1}.j }`} k`; /l[/]m/g + n / o / p";
        assert_eq!(words(text), ["a", "h", "j", "j", "n", "o", "p"]);
        assert_eq!(tokens("x\n  yy")[1].at, Position { line: 2, column: 3 });
        for broken in ["`a ${", "'x", "/a", "/*", "}", "`${`${"] {
            tokens(broken);
        }
    }
}
