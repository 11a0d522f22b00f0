//! The inside of a word: quotes, expansions, globs, braces, tildes.

use super::ShellKind;
use super::parser::{Outcome, Parser, is_delimiter};
use super::tree::{Parameter, Span, Word, WordPart};

/// Collects the pieces of a word, joining neighbouring text.
#[derive(Default)]
pub(super) struct Pieces {
    parts: Vec<WordPart>,
    brace_open: bool,
    brace_expands: bool,
    bracket_open: Option<usize>,
}

impl Pieces {
    fn literal(&mut self, text: &str) {
        if let Some(WordPart::Literal(last)) = self.parts.last_mut() {
            last.push_str(text);
        } else {
            self.parts.push(WordPart::Literal(text.to_owned()));
        }
    }

    fn quoted(&mut self, text: &str) {
        if let Some(WordPart::Quoted(last)) = self.parts.last_mut() {
            last.push_str(text);
        } else {
            self.parts.push(WordPart::Quoted(text.to_owned()));
        }
    }

    fn push(&mut self, part: WordPart) {
        self.parts.push(part);
    }

    /// Turns braces and brackets that expand to nothing back into text.
    fn finish(mut self) -> Vec<WordPart> {
        if !self.brace_open && self.bracket_open.is_none() {
            return self.parts;
        }
        let mut joined = Pieces::default();
        let open = self.bracket_open.unwrap_or(usize::MAX);
        for (index, part) in self.parts.drain(..).enumerate() {
            match part {
                WordPart::Brace if !self.brace_expands => joined.literal("{"),
                WordPart::Glob('[') if index >= open => joined.literal("["),
                WordPart::Literal(text) => joined.literal(&text),
                other => joined.push(other),
            }
        }
        joined.parts
    }
}

/// Blanks that bash takes for ordinary characters, and characters that are invisible or reorder text.
pub(super) fn is_odd(character: char) -> bool {
    matches!(character,
        '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' | '\u{34f}'
        | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180e}'
        | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}'
        | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

impl Parser<'_> {
    /// An unquoted word up to the next delimiter.
    pub(super) fn word(&mut self) -> Outcome<Word> {
        self.word_in(false)
    }

    /// The value of an assignment: tildes also count after colons, and braces and globs don't.
    pub(super) fn assigned_word(&mut self) -> Outcome<Word> {
        self.word_in(true)
    }

    fn word_in(&mut self, assigned: bool) -> Outcome<Word> {
        self.words += 1;
        if self.words > self.limits.words {
            return self.refuse("too many words");
        }
        let start = self.position;
        let mut pieces = Pieces::default();
        while let Some(byte) = self.peek() {
            let at_start = self.position == start;
            match byte {
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => {
                    self.needs_extensions("a process substitution")?;
                    self.position += 2;
                    let list = self.substituted_list()?;
                    pieces.push(WordPart::Process(list));
                }
                _ if is_delimiter(byte) => break,
                b'~' if at_start || (assigned && self.previous_is_colon()) => {
                    self.tilde(&mut pieces);
                }
                b'~' if self.previous_is_equals() && !assigned => {
                    // Bash expands it after `name=` in some places and not in others.
                    self.tilde(&mut pieces);
                }
                b'=' if at_start && self.shell == ShellKind::Zsh && !assigned => {
                    self.position += 1;
                    if self
                        .peek()
                        .is_some_and(|next| !is_delimiter(next) && next != b'=')
                    {
                        pieces.push(WordPart::Opaque("zsh's =command"));
                    } else {
                        pieces.literal("=");
                    }
                }
                _ => self.unquoted_piece(byte, &mut pieces)?,
            }
        }
        if self.position == start && !assigned {
            return self.refuse("a word expected");
        }
        let parts = if pieces.parts.is_empty() {
            vec![WordPart::Quoted(String::new())]
        } else {
            pieces.finish()
        };
        let text = self.slice(start).to_owned();
        Ok(Word {
            span: self.span_from(start),
            text,
            parts,
        })
    }

    /// A regular expression after `=~`: parentheses and bars belong to it.
    pub(super) fn regular_expression(&mut self) -> Outcome<Word> {
        let start = self.position;
        let mut pieces = Pieces::default();
        let mut open = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'(' => {
                    open += 1;
                    self.position += 1;
                    pieces.push(WordPart::Glob('('));
                }
                b')' if open > 0 => {
                    open -= 1;
                    self.position += 1;
                    pieces.literal(")");
                }
                b'|' if self.peek_at(1) != Some(b'|') => {
                    self.position += 1;
                    pieces.literal("|");
                }
                b' ' | b'\t' | b'\n' if open == 0 => break,
                _ if is_delimiter(byte) => {
                    return self.refuse("a delimiter in a regular expression");
                }
                _ => self.unquoted_piece(byte, &mut pieces)?,
            }
        }
        if self.position == start || open > 0 {
            return self.refuse("a regular expression that doesn't end");
        }
        let text = self.slice(start).to_owned();
        Ok(Word {
            span: self.span_from(start),
            text,
            parts: pieces.finish(),
        })
    }

    fn unquoted_piece(&mut self, byte: u8, pieces: &mut Pieces) -> Outcome<()> {
        match byte {
            b'\\' => match self.peek_at(1) {
                None => return self.refuse("a backslash at the end"),
                Some(b'\n') => return self.refuse("a line continuation inside a word"),
                Some(_) => {
                    self.position += 1;
                    let character = self.take_character();
                    let mut buffer = [0; 4];
                    pieces.quoted(character.encode_utf8(&mut buffer));
                }
            },
            b'\'' => {
                let text = self.single_quoted()?;
                pieces.quoted(text);
            }
            b'"' => {
                self.position += 1;
                self.double_quoted(pieces)?;
            }
            b'$' => self.dollar(pieces, Quoting::None)?,
            b'`' => {
                let part = self.backticks(Quoting::None)?;
                pieces.push(part);
            }
            b'*' | b'?' => {
                self.position += 1;
                pieces.push(WordPart::Glob(char::from(byte)));
            }
            b'[' => {
                self.position += 1;
                pieces.bracket_open.get_or_insert(pieces.parts.len());
                pieces.push(WordPart::Glob('['));
            }
            b']' => {
                self.position += 1;
                // A closing bracket makes every opening one before it part of a pattern.
                pieces.bracket_open = None;
                pieces.literal("]");
            }
            b'{' => {
                self.position += 1;
                pieces.brace_open = true;
                pieces.push(WordPart::Brace);
            }
            _ => self.literal_run(pieces),
        }
        Ok(())
    }

    /// Plain characters in one go.
    fn literal_run(&mut self, pieces: &mut Pieces) {
        let start = self.position;
        while let Some(byte) = self.peek() {
            if is_delimiter(byte)
                || matches!(
                    byte,
                    b'\\' | b'\'' | b'"' | b'$' | b'`' | b'*' | b'?' | b'[' | b']' | b'{'
                )
                || (byte == b'~' && self.position > start)
            {
                break;
            }
            if byte == b',' || (byte == b'.' && self.peek_at(1) == Some(b'.')) {
                pieces.brace_expands |= pieces.brace_open;
            }
            if !(0x20..0x7f).contains(&byte) {
                self.note_oddity();
            }
            self.position += self.character_length();
        }
        let text = self.slice(start);
        pieces.literal(text);
    }

    fn character_length(&self) -> usize {
        match self.bytes.get(self.position) {
            Some(0xf0..) => 4,
            Some(0xe0..) => 3,
            Some(0xc0..) => 2,
            _ => 1,
        }
    }

    fn take_character(&mut self) -> char {
        let length = self.character_length();
        self.note_oddity();
        let character = self
            .source
            .get(self.position..self.position + length)
            .and_then(|text| text.chars().next())
            .unwrap_or(char::REPLACEMENT_CHARACTER);
        self.position += length;
        character
    }

    fn note_oddity(&mut self) {
        let length = self.character_length();
        let character = self
            .source
            .get(self.position..self.position + length)
            .and_then(|text| text.chars().next());
        if let Some(character) = character.filter(|character| is_odd(*character))
            && self.oddities.len() < 16
        {
            let at = self.outer.map_or(self.position, |span| span.start);
            self.oddities.push((at, character));
        }
    }

    fn previous_is_colon(&self) -> bool {
        self.position > 0 && self.bytes.get(self.position - 1) == Some(&b':')
    }

    fn previous_is_equals(&self) -> bool {
        self.position > 0 && matches!(self.bytes.get(self.position - 1), Some(b'=' | b':'))
    }

    fn tilde(&mut self, pieces: &mut Pieces) {
        self.position += 1;
        let start = self.position;
        while self
            .peek()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_+-.@".contains(&byte))
        {
            self.position += 1;
        }
        let user = self.slice(start).to_owned();
        pieces.push(WordPart::Tilde(user));
    }

    /// Newlines in quotes while a here-document waits for its body are more than anyone writes.
    fn check_newline(&self, byte: u8) -> Outcome<()> {
        if byte == b'\n' && !self.pending.is_empty() {
            return self.refuse("a new line in quotes before a here-document's body");
        }
        Ok(())
    }

    fn single_quoted(&mut self) -> Outcome<&str> {
        self.position += 1;
        let start = self.position;
        while let Some(byte) = self.peek() {
            if byte == b'\'' {
                let end = self.position;
                self.position += 1;
                return Ok(self.source.get(start..end).unwrap_or_default());
            }
            self.check_newline(byte)?;
            self.note_quoted_oddity(byte);
            self.position += 1;
        }
        self.refuse("a single quote that isn't closed")
    }

    /// In quotes only characters that mislead the eye matter; blanks of other scripts are text.
    pub(super) fn note_quoted_oddity(&mut self, byte: u8) {
        let control = byte < 0x20 && byte != b'\t' && byte != b'\n' || byte == 0x7f;
        // U+200E..F, U+202A..E and U+2066..9 reorder text; all start with these two bytes.
        let reordering = byte == 0xe2
            && matches!(
                self.bytes.get(self.position + 1..self.position + 3),
                Some([0x80, 0x8e | 0x8f | 0xaa..=0xae] | [0x81, 0xa6..=0xa9])
            );
        if control || reordering {
            self.note_oddity();
        }
    }

    fn double_quoted(&mut self, pieces: &mut Pieces) -> Outcome<()> {
        self.enter()?;
        pieces.quoted("");
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.position += 1;
                    self.leave();
                    return Ok(());
                }
                _ => self.quoted_piece(byte, pieces, Quoting::Double)?,
            }
        }
        self.refuse("a double quote that isn't closed")
    }

    fn quoted_piece(&mut self, byte: u8, pieces: &mut Pieces, quoting: Quoting) -> Outcome<()> {
        match byte {
            b'\\' => {
                match self.peek_at(1) {
                    Some(b'\n') => {}
                    Some(escaped @ (b'$' | b'`' | b'\\')) => {
                        pieces.quoted(char::from(escaped).encode_utf8(&mut [0; 4]));
                    }
                    Some(b'"') if quoting == Quoting::Double => pieces.quoted("\""),
                    Some(_) => {
                        pieces.quoted("\\");
                        self.position += 1;
                        return Ok(());
                    }
                    None if quoting == Quoting::Document => {
                        pieces.quoted("\\");
                        self.position += 1;
                        return Ok(());
                    }
                    None => return self.refuse("a backslash at the end"),
                }
                self.position += 2;
            }
            b'$' => self.dollar(pieces, quoting)?,
            b'`' => {
                let part = self.backticks(quoting)?;
                pieces.push(part);
            }
            _ => {
                let start = self.position;
                while let Some(byte) = self.peek() {
                    if matches!(byte, b'\\' | b'$' | b'`')
                        || (byte == b'"' && quoting == Quoting::Double)
                    {
                        break;
                    }
                    if quoting == Quoting::Double {
                        self.check_newline(byte)?;
                    }
                    self.note_quoted_oddity(byte);
                    self.position += 1;
                }
                let text = self.slice(start);
                pieces.quoted(text);
            }
        }
        Ok(())
    }

    /// The body of an unquoted here-document, which ends where the visible bytes end.
    pub(super) fn document_text(&mut self) -> Outcome<Word> {
        self.enter()?;
        let start = self.position;
        let mut pieces = Pieces::default();
        while let Some(byte) = self.peek() {
            self.quoted_piece(byte, &mut pieces, Quoting::Document)?;
        }
        self.leave();
        Ok(Word {
            span: self.span_from(start),
            text: String::new(),
            parts: pieces.finish(),
        })
    }

    /// The operand of `${name…word}` up to the closing brace, which is left for the caller.
    pub(super) fn operand(&mut self, quoting: Quoting, pattern: bool) -> Outcome<Word> {
        self.enter()?;
        let start = self.position;
        let mut pieces = Pieces::default();
        loop {
            let Some(byte) = self.peek() else {
                return self.refuse("a parameter expansion that isn't closed");
            };
            match byte {
                b'}' => break,
                b'{' => return self.refuse("a brace in a parameter expansion"),
                b'\n' if !self.pending.is_empty() => {
                    return self.refuse("a new line in quotes before a here-document's body");
                }
                b'\\' if self.peek_at(1) == Some(b'\n') => {
                    return self.refuse("a line continuation inside a word");
                }
                b'\'' | b'"' if quoting != Quoting::None => {
                    // Whether quotes count here depends on the operator and the shell's version.
                    if byte == b'"' || pattern {
                        return self.refuse("quotes in a quoted parameter expansion");
                    }
                    self.position += 1;
                    pieces.quoted("'");
                }
                b'\\' if quoting != Quoting::None => {
                    let Some(next) = self.peek_at(1) else {
                        return self.refuse("a backslash at the end");
                    };
                    if matches!(next, b'}' | b'$' | b'`' | b'\\' | b'"' | b'/') {
                        self.position += 2;
                        pieces.quoted(char::from(next).encode_utf8(&mut [0; 4]));
                    } else {
                        self.position += 1;
                        pieces.quoted("\\");
                    }
                }
                b'<' | b'>' if quoting == Quoting::None && self.peek_at(1) == Some(b'(') => {
                    return self.refuse("a process substitution in a parameter expansion");
                }
                b'$' | b'`' if quoting != Quoting::None => {
                    self.quoted_piece(byte, &mut pieces, quoting)?;
                }
                b'$' | b'`' | b'\'' | b'"' | b'\\' => self.unquoted_piece(byte, &mut pieces)?,
                _ => {
                    if !(0x20..0x7f).contains(&byte) {
                        self.note_oddity();
                    }
                    let from = self.position;
                    self.position += self.character_length();
                    let text = self.source.get(from..self.position).unwrap_or_default();
                    pieces.quoted(text);
                }
            }
        }
        self.leave();
        let text = self.slice(start).to_owned();
        Ok(Word {
            span: self.span_from(start),
            text,
            parts: pieces.finish(),
        })
    }

    fn dollar(&mut self, pieces: &mut Pieces, quoting: Quoting) -> Outcome<()> {
        let quoted = quoting != Quoting::None;
        match self.peek_at(1) {
            Some(b'(') if self.peek_at(2) == Some(b'(') => {
                self.position += 3;
                let expression = self.arithmetic_parentheses()?;
                pieces.push(WordPart::Arithmetic { expression, quoted });
            }
            Some(b'(') => {
                self.position += 2;
                let list = self.substituted_list()?;
                pieces.push(WordPart::Command { list, quoted });
            }
            Some(b'{') => {
                self.position += 2;
                let parameter = self.braced_parameter(quoting)?;
                pieces.push(WordPart::Parameter(Box::new(parameter)));
            }
            Some(b'[') => {
                if self.shell != ShellKind::Posix {
                    return self.refuse("the old form of an arithmetic expansion");
                }
                self.position += 1;
                pieces.quoted("$");
            }
            Some(b'\'') if !quoted => {
                self.needs_extensions("$'…'")?;
                self.position += 2;
                let text = self.ansi_quoted()?;
                pieces.quoted(&text);
            }
            Some(b'"') if !quoted => {
                self.needs_extensions("$\"…\"")?;
                self.position += 2;
                pieces.push(WordPart::Opaque("a translated string"));
                self.double_quoted(pieces)?;
            }
            Some(b'\\') if self.peek_at(2) == Some(b'\n') => {
                return self.refuse("a line continuation inside a word");
            }
            Some(b'_' | b'a'..=b'z' | b'A'..=b'Z') => {
                self.position += 1;
                let name = self.name().to_owned();
                self.zsh_suffix()?;
                pieces.push(WordPart::Parameter(Box::new(Parameter::plain(
                    name, quoted,
                ))));
            }
            Some(byte @ (b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'$' | b'!' | b'-')) => {
                self.position += 2;
                if self.shell == ShellKind::Zsh
                    && self.peek().is_some_and(|next| next.is_ascii_alphanumeric())
                {
                    return self.refuse("a zsh parameter form");
                }
                self.zsh_suffix()?;
                let name = char::from(byte).to_string();
                pieces.push(WordPart::Parameter(Box::new(Parameter::plain(
                    name, quoted,
                ))));
            }
            Some(b'~' | b'=' | b'^' | b'+' | b':') if self.shell == ShellKind::Zsh => {
                return self.refuse("a zsh parameter form");
            }
            _ => {
                self.position += 1;
                pieces.quoted("$");
            }
        }
        Ok(())
    }

    /// One `$…` or backtick expansion on its own, as in an arithmetic expression.
    pub(super) fn single_expansion(&mut self) -> Outcome<Vec<WordPart>> {
        let mut pieces = Pieces::default();
        if self.peek() == Some(b'`') {
            let part = self.backticks(Quoting::None)?;
            pieces.push(part);
        } else {
            if matches!(self.peek_at(1), Some(b'\'' | b'"')) {
                return self.refuse("quotes in an arithmetic expression");
            }
            self.dollar(&mut pieces, Quoting::None)?;
        }
        Ok(pieces.parts)
    }

    /// zsh evaluates a subscript or a modifier right after a plain parameter.
    fn zsh_suffix(&mut self) -> Outcome<()> {
        if self.shell == ShellKind::Zsh && matches!(self.peek(), Some(b'[' | b':')) {
            return self.refuse("a zsh subscript or modifier");
        }
        Ok(())
    }

    fn backticks(&mut self, quoting: Quoting) -> Outcome<WordPart> {
        let start = self.position;
        self.position += 1;
        let mut decoded = Vec::new();
        loop {
            match self.peek() {
                None => return self.refuse("a backtick that isn't closed"),
                Some(b'`') => break,
                Some(b'\\') => {
                    let next = self.peek_at(1);
                    let unescapes = matches!(next, Some(b'$' | b'`' | b'\\'))
                        || (quoting == Quoting::Double && next == Some(b'"'));
                    if !unescapes {
                        decoded.push(b'\\');
                    }
                    decoded.extend(next);
                    self.position += 2;
                }
                Some(b'"') if quoting != Quoting::None => {
                    return self.refuse("quotes in backticks in quotes");
                }
                Some(byte) => {
                    self.check_newline(byte)?;
                    decoded.push(byte);
                    self.position += 1;
                }
            }
        }
        self.position += 1;
        let text = String::from_utf8_lossy(&decoded).into_owned();
        let span = Span {
            start,
            end: self.position,
        };
        let list = self.decoded_list(&text, span)?;
        Ok(WordPart::Command {
            list,
            quoted: quoting != Quoting::None,
        })
    }
}

/// The kind of the surrounding quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoting {
    /// None.
    None,
    /// Double quotes.
    Double,
    /// The body of an unquoted here-document.
    Document,
}

impl Parameter {
    pub(super) fn plain(name: String, quoted: bool) -> Self {
        Self {
            name,
            quoted,
            plain: true,
            length: false,
            indirect: false,
            transformation: None,
            assigns: false,
            evaluated: Vec::new(),
            operand: None,
        }
    }
}
