//! The parser's state, and lists and pipelines.

use super::redirections;
use super::tree::{Connector, HereDocument, List, ListItem, Pipeline, Span};
use super::{NotUnderstood, ShellKind};

/// Longest command looked at. Linux passes no longer single argument to a program.
const MAXIMUM_LENGTH: usize = 128 * 1024;
/// Deepest nesting followed. Real commands stay below ten.
const MAXIMUM_DEPTH: usize = 40;
/// Most words looked at. Real commands stay below a thousand.
const MAXIMUM_WORDS: usize = 20_000;

/// Bounds on what is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest command in bytes.
    pub length: usize,
    /// Deepest nesting of substitutions, quotes and compound commands.
    pub depth: usize,
    /// Most words.
    pub words: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            length: MAXIMUM_LENGTH,
            depth: MAXIMUM_DEPTH,
            words: MAXIMUM_WORDS,
        }
    }
}

/// The result of parsing.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The command; when there is a problem, the top-level commands before it (a shell runs those).
    pub list: List,
    /// The bodies of all here-documents.
    pub documents: Vec<HereDocument>,
    /// Characters that look like something else on a screen, in order: where, and which.
    pub oddities: Vec<(usize, char)>,
    /// Why the rest was not understood.
    pub problem: Option<NotUnderstood>,
    /// How many bytes were looked at, counting each look. Grows linearly with the input.
    pub work: u64,
}

/// Parses a command with the usual limits.
#[must_use]
pub fn parse(source: &str, shell: ShellKind) -> Parsed {
    parse_with(source, shell, Limits::default())
}

/// Parses a command with limits of one's own.
#[must_use]
pub fn parse_with(source: &str, shell: ShellKind, limits: Limits) -> Parsed {
    if source.len() > limits.length {
        return Parsed {
            list: List::default(),
            documents: Vec::new(),
            oddities: Vec::new(),
            problem: Some(NotUnderstood {
                reason: format!("longer than {} bytes", limits.length),
                at: limits.length,
            }),
            work: 0,
        };
    }
    let mut parser = Parser::new(source, shell, limits);
    let mut list = List::default();
    let problem = parser.script(&mut list).err();
    Parsed {
        list,
        documents: parser.documents,
        oddities: parser.oddities,
        problem,
        work: parser.work,
    }
}

/// The result of every parsing function.
pub(super) type Outcome<T> = Result<T, NotUnderstood>;

/// A here-document whose body is still to come.
pub(super) struct PendingDocument {
    pub(super) delimiter: String,
    pub(super) quoted: bool,
    pub(super) strip_tabs: bool,
    pub(super) index: usize,
}

/// The state of one pass over a text.
pub(super) struct Parser<'a> {
    pub(super) source: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) position: usize,
    pub(super) shell: ShellKind,
    pub(super) depth: usize,
    pub(super) limits: Limits,
    pub(super) pending: Vec<PendingDocument>,
    /// Here-documents announced outside the substitution that is being read.
    outer_pending: usize,
    pub(super) substitutions: usize,
    /// Words read so far.
    pub(super) words: usize,
    pub(super) documents: Vec<HereDocument>,
    pub(super) oddities: Vec<(usize, char)>,
    /// Set while reading decoded text: where that text stood.
    pub(super) outer: Option<Span>,
    pub(super) work: u64,
}

/// Reserved words that end a list.
pub(super) const RESERVED_ENDS: [&str; 8] =
    ["then", "else", "elif", "fi", "do", "done", "esac", "}"];

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a str, shell: ShellKind, limits: Limits) -> Self {
        Self {
            source,
            bytes: source.as_bytes(),
            position: 0,
            shell,
            depth: 0,
            limits,
            pending: Vec::new(),
            outer_pending: 0,
            substitutions: 0,
            words: 0,
            documents: Vec::new(),
            oddities: Vec::new(),
            outer: None,
            work: 0,
        }
    }

    // ---- looking and moving -------------------------------------------------------------------

    pub(super) fn peek(&mut self) -> Option<u8> {
        self.work += 1;
        self.bytes.get(self.position).copied()
    }

    pub(super) fn peek_at(&mut self, offset: usize) -> Option<u8> {
        self.work += 1;
        self.bytes.get(self.position + offset).copied()
    }

    pub(super) fn starts_with(&mut self, text: &str) -> bool {
        self.work += 1;
        self.bytes
            .get(self.position..)
            .is_some_and(|rest| rest.starts_with(text.as_bytes()))
    }

    pub(super) fn slice(&self, start: usize) -> &'a str {
        self.source.get(start..self.position).unwrap_or_default()
    }

    pub(super) fn span_from(&self, start: usize) -> Span {
        self.outer.unwrap_or(Span {
            start,
            end: self.position,
        })
    }

    pub(super) fn refuse<T>(&self, reason: impl Into<String>) -> Outcome<T> {
        let at = self.outer.map_or(self.position, |span| span.start);
        Err(NotUnderstood {
            reason: reason.into(),
            at,
        })
    }

    pub(super) fn enter(&mut self) -> Outcome<()> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return self.refuse("nested too deeply");
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Only bash and zsh give this construct its meaning.
    pub(super) fn needs_extensions(&self, what: &str) -> Outcome<()> {
        if self.shell == ShellKind::Posix {
            return self.refuse(format!("{what} means something else to a plain sh"));
        }
        Ok(())
    }

    pub(super) fn is_continuation(&mut self) -> bool {
        self.starts_with("\\\n")
    }

    /// Skips blanks, continuations between words, and a comment.
    pub(super) fn skip_blanks(&mut self) -> Outcome<()> {
        let mut at_word_start = self.position == 0
            || self
                .bytes
                .get(self.position - 1)
                .is_some_and(|byte| is_delimiter(*byte));
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => {
                    self.position += 1;
                    at_word_start = true;
                }
                Some(b'\\') if self.is_continuation() => self.position += 2,
                Some(b'#') if at_word_start => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Outcome<()> {
        while let Some(byte) = self.peek().filter(|byte| *byte != b'\n') {
            // An interactive zsh has no comments: what could run there is refused.
            if self.shell == ShellKind::Zsh && b";&|<>`$(){}'\"\\".contains(&byte) {
                return self.refuse("a comment that an interactive zsh would run");
            }
            self.note_quoted_oddity(byte);
            self.position += 1;
        }
        Ok(())
    }

    /// Skips blanks and newlines, reading the bodies of here-documents on the way.
    pub(super) fn skip_newlines(&mut self) -> Outcome<()> {
        loop {
            self.skip_blanks()?;
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    pub(super) fn newline(&mut self) -> Outcome<()> {
        self.position += 1;
        if self.outer_pending > 0 {
            return self.refuse("a new line in a substitution before a here-document's body");
        }
        for document in std::mem::take(&mut self.pending) {
            redirections::here_document_body(self, &document)?;
        }
        Ok(())
    }

    /// An operator must not be glued to a continuation that could complete a longer operator.
    pub(super) fn operator(&mut self, length: usize) -> Outcome<()> {
        self.position += length;
        if self.is_continuation() {
            let mut next = self.position;
            while self
                .bytes
                .get(next..)
                .is_some_and(|rest| rest.starts_with(b"\\\n"))
            {
                next += 2;
            }
            self.work += (next - self.position) as u64;
            if self
                .bytes
                .get(next)
                .is_some_and(|byte| b"&|;<>()-".contains(byte))
            {
                return self.refuse("a line continuation inside an operator");
            }
        }
        Ok(())
    }

    // ---- lists --------------------------------------------------------------------------------

    pub(super) fn script(&mut self, list: &mut List) -> Outcome<()> {
        self.list_into(list)?;
        if self.position < self.bytes.len() {
            return self.refuse(format!("unexpected {}", self.describe_here()));
        }
        if !self.pending.is_empty() {
            return self.refuse("a here-document without its body");
        }
        Ok(())
    }

    pub(super) fn describe_here(&self) -> String {
        match self
            .source
            .get(self.position..)
            .and_then(|rest| rest.chars().next())
        {
            Some(character) => format!("{character:?}"),
            None => "end of the command".to_owned(),
        }
    }

    /// A list inside another construct; it can't be empty.
    pub(super) fn inner_list(&mut self) -> Outcome<List> {
        self.enter()?;
        let mut list = List::default();
        self.list_into(&mut list)?;
        self.leave();
        if list.items.is_empty() {
            return self.refuse("nothing to run where a command belongs");
        }
        Ok(list)
    }

    /// The contents of `$(…)`, `<(…)` up to and including the closing parenthesis.
    pub(super) fn substituted_list(&mut self) -> Outcome<List> {
        if self.is_continuation() {
            return self.refuse("a line continuation inside a substitution's opening");
        }
        self.enter()?;
        let outer = std::mem::take(&mut self.pending);
        self.outer_pending += outer.len();
        self.substitutions += 1;
        let mut list = List::default();
        self.list_into(&mut list)?;
        if self.peek() != Some(b')') {
            return self.refuse(format!(
                "a substitution that isn't closed before {}",
                self.describe_here()
            ));
        }
        if !self.pending.is_empty() {
            return self.refuse("a here-document without its body");
        }
        self.position += 1;
        self.substitutions -= 1;
        self.outer_pending -= outer.len();
        self.pending = outer;
        self.leave();
        Ok(list)
    }

    /// Text that was decoded first, as backticks are.
    pub(super) fn decoded_list(&mut self, text: &str, span: Span) -> Outcome<List> {
        self.enter()?;
        let mut inner = Parser::new(text, self.shell, self.limits);
        inner.depth = self.depth;
        inner.words = self.words;
        inner.outer = Some(self.outer.unwrap_or(span));
        inner.documents = std::mem::take(&mut self.documents);
        let mut list = List::default();
        let outcome = inner.script(&mut list);
        self.documents = inner.documents;
        self.work += inner.work;
        self.words = inner.words;
        let place = self.outer.unwrap_or(span).start;
        self.oddities
            .extend(inner.oddities.into_iter().map(|(_, odd)| (place, odd)));
        outcome?;
        self.leave();
        Ok(list)
    }

    pub(super) fn list_into(&mut self, list: &mut List) -> Outcome<()> {
        loop {
            self.skip_newlines()?;
            if self.at_list_end() {
                return Ok(());
            }
            loop {
                let pipeline = self.pipeline()?;
                self.skip_blanks()?;
                let connector = match self.peek() {
                    Some(b'&') if self.peek_at(1) == Some(b'&') => {
                        self.operator(2)?;
                        Connector::And
                    }
                    Some(b'|') if self.peek_at(1) == Some(b'|') => {
                        self.operator(2)?;
                        Connector::Or
                    }
                    Some(b'&') => {
                        self.operator(1)?;
                        if self.shell == ShellKind::Zsh && matches!(self.peek(), Some(b'!' | b'|'))
                        {
                            return self.refuse("zsh's way to disown a job");
                        }
                        Connector::Background
                    }
                    Some(b';')
                        if self.peek_at(1) != Some(b';') && self.peek_at(1) != Some(b'&') =>
                    {
                        self.operator(1)?;
                        if self.peek() == Some(b'|') {
                            return self.refuse("';|'");
                        }
                        Connector::Sequence
                    }
                    Some(b'\n') => {
                        self.newline()?;
                        Connector::Sequence
                    }
                    Some(b';' | b')') | None => {
                        list.items.push(ListItem {
                            pipeline,
                            connector: Connector::Sequence,
                        });
                        return Ok(());
                    }
                    Some(_) => {
                        // The commands so far would run before a shell meets what stands here, but
                        // only whole lines; what is on this line would not.
                        return self.refuse(format!("unexpected {}", self.describe_here()));
                    }
                };
                list.items.push(ListItem {
                    pipeline,
                    connector,
                });
                match connector {
                    Connector::And | Connector::Or => {
                        self.skip_newlines()?;
                        if self.at_list_end() {
                            return self.refuse("a command missing after && or ||");
                        }
                    }
                    Connector::Sequence | Connector::Background => break,
                }
            }
        }
    }

    /// Whether the list can't continue here. What may follow is the caller's business.
    pub(super) fn at_list_end(&mut self) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => matches!(self.peek_at(1), Some(b';' | b'&')),
            _ => RESERVED_ENDS.contains(&self.upcoming_word()),
        }
    }

    /// The raw text up to the next delimiter. Equal to a reserved word only if unquoted.
    pub(super) fn upcoming_word(&mut self) -> &'a str {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        // Reserved words are short; looking further would cost quadratic time on long words.
        let length = rest.iter().take(10).position(|byte| is_delimiter(*byte));
        self.work += 10;
        match length {
            Some(length) => self
                .source
                .get(self.position..self.position + length)
                .unwrap_or_default(),
            None if rest.len() <= 10 => self
                .source
                .get(self.position..self.position + rest.len())
                .unwrap_or_default(),
            None => "",
        }
    }

    pub(super) fn take_reserved(&mut self, word: &str) -> Outcome<()> {
        self.skip_newlines()?;
        if self.upcoming_word() != word {
            return self.refuse(format!("'{word}' expected, not {}", self.describe_here()));
        }
        self.position += word.len();
        Ok(())
    }

    // ---- pipelines ----------------------------------------------------------------------------

    pub(super) fn pipeline(&mut self) -> Outcome<Pipeline> {
        let mut timed = false;
        loop {
            match self.upcoming_word() {
                "!" => self.position += 1,
                "time" if self.shell != ShellKind::Posix => {
                    timed = true;
                    self.position += 4;
                    self.skip_blanks()?;
                    // Any other word is the command, even one that starts with a dash.
                    if self.upcoming_word() == "-p" {
                        self.position += 2;
                        self.skip_blanks()?;
                    }
                    if self.upcoming_word() == "--" {
                        self.position += 2;
                    }
                }
                _ => break,
            }
            self.skip_blanks()?;
            if self.at_list_end() || matches!(self.peek(), Some(b'\n' | b';' | b'&' | b'|')) {
                return self.refuse("a command missing after '!' or 'time'");
            }
        }
        let mut commands = vec![self.command()?];
        loop {
            self.skip_blanks()?;
            if self.peek() != Some(b'|') || self.peek_at(1) == Some(b'|') {
                return Ok(Pipeline { timed, commands });
            }
            let both = self.peek_at(1) == Some(b'&');
            if both {
                self.needs_extensions("'|&'")?;
            }
            self.operator(if both { 2 } else { 1 })?;
            self.skip_newlines()?;
            if self.at_list_end() {
                return self.refuse("a command missing after '|'");
            }
            if self.upcoming_word() == "!" {
                return self.refuse("'!' inside a pipeline");
            }
            commands.push(self.command()?);
        }
    }
}

/// Whether a byte ends an unquoted word.
pub(super) fn is_delimiter(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>'
    )
}

/// Whether a byte can stand in a variable's name.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}
