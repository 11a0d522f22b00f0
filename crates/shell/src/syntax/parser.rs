//! The grammar: lists, pipelines, simple and compound commands, redirections, here-documents.

use super::tree::{
    AssignedValue, Assignment, Command, CompoundCommand, CompoundKind, ConditionalItem, Connector,
    FunctionDefinition, HereDocument, List, ListItem, Pipeline, Redirection, RedirectionOperator,
    SimpleCommand, Span, Word,
};
use super::{NotUnderstood, ShellKind};

/// Longest command looked at. Linux passes no longer single argument to a program.
const MAXIMUM_LENGTH: usize = 128 * 1024;
/// Deepest nesting followed. Real commands stay below ten.
const MAXIMUM_DEPTH: usize = 40;

/// Bounds on what is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest command in bytes.
    pub length: usize,
    /// Deepest nesting of substitutions, quotes and compound commands.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            length: MAXIMUM_LENGTH,
            depth: MAXIMUM_DEPTH,
        }
    }
}

/// What the parser found.
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

/// What every parsing function returns.
pub(super) type Outcome<T> = Result<T, NotUnderstood>;

/// A here-document whose body is still to come.
pub(super) struct PendingDocument {
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
    index: usize,
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
    pub(super) documents: Vec<HereDocument>,
    pub(super) oddities: Vec<(usize, char)>,
    /// Set while reading decoded text: where that text stood.
    pub(super) outer: Option<Span>,
    pub(super) work: u64,
}

const RESERVED_ENDS: [&str; 8] = ["then", "else", "elif", "fi", "do", "done", "esac", "}"];
const DECLARATIONS: [&str; 5] = ["declare", "typeset", "local", "export", "readonly"];

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

    fn is_continuation(&mut self) -> bool {
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
                Some(b'#') if at_word_start => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.position += 1;
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// Skips blanks and newlines, reading the bodies of here-documents on the way.
    fn skip_newlines(&mut self) -> Outcome<()> {
        loop {
            self.skip_blanks()?;
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.newline()?;
        }
    }

    fn newline(&mut self) -> Outcome<()> {
        self.position += 1;
        if self.outer_pending > 0 {
            return self.refuse("a new line in a substitution before a here-document's body");
        }
        for document in std::mem::take(&mut self.pending) {
            self.here_document_body(&document)?;
        }
        Ok(())
    }

    /// An operator must not be glued to a continuation that could complete a longer operator.
    fn operator(&mut self, length: usize) -> Outcome<()> {
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

    fn script(&mut self, list: &mut List) -> Outcome<()> {
        self.list_into(list)?;
        if self.position < self.bytes.len() {
            return self.refuse(format!("unexpected {}", self.describe_here()));
        }
        if !self.pending.is_empty() {
            return self.refuse("a here-document without its body");
        }
        Ok(())
    }

    fn describe_here(&self) -> String {
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
    fn inner_list(&mut self) -> Outcome<List> {
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
        inner.outer = Some(self.outer.unwrap_or(span));
        inner.documents = std::mem::take(&mut self.documents);
        let mut list = List::default();
        let outcome = inner.script(&mut list);
        self.documents = inner.documents;
        self.work += inner.work;
        let place = self.outer.unwrap_or(span).start;
        self.oddities
            .extend(inner.oddities.into_iter().map(|(_, odd)| (place, odd)));
        outcome?;
        self.leave();
        Ok(list)
    }

    fn list_into(&mut self, list: &mut List) -> Outcome<()> {
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

    /// Whether the list can't go on here. What may follow is the caller's business.
    fn at_list_end(&mut self) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => matches!(self.peek_at(1), Some(b';' | b'&')),
            _ => RESERVED_ENDS.contains(&self.upcoming_word()),
        }
    }

    /// The raw text up to the next delimiter. Equal to a reserved word only if unquoted.
    fn upcoming_word(&mut self) -> &'a str {
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

    fn take_reserved(&mut self, word: &str) -> Outcome<()> {
        self.skip_newlines()?;
        if self.upcoming_word() != word {
            return self.refuse(format!("'{word}' expected, not {}", self.describe_here()));
        }
        self.position += word.len();
        Ok(())
    }

    // ---- pipelines ----------------------------------------------------------------------------

    fn pipeline(&mut self) -> Outcome<Pipeline> {
        let mut timed = false;
        loop {
            match self.upcoming_word() {
                "!" => self.position += 1,
                "time" if self.shell != ShellKind::Posix && self.time_is_reserved() => {
                    timed = true;
                    self.position += 4;
                    self.skip_blanks()?;
                    if self.upcoming_word() == "-p" {
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

    /// `time -o file command` is the program of that name, or a mistake; never the reserved word.
    fn time_is_reserved(&self) -> bool {
        let rest = self.bytes.get(self.position + 4..).unwrap_or_default();
        let mut next = rest.iter().skip_while(|byte| matches!(byte, b' ' | b'\t'));
        match (next.next(), next.next(), next.next()) {
            (Some(b'-'), Some(b'p'), Some(b' ' | b'\t')) => true,
            (Some(b'-'), ..) => false,
            (Some(b'\\'), ..) => false,
            _ => true,
        }
    }

    // ---- commands -----------------------------------------------------------------------------

    fn command(&mut self) -> Outcome<Command> {
        let start = self.position;
        let kind = match self.peek() {
            Some(b'(') if self.peek_at(1) == Some(b'(') => {
                self.needs_extensions("'(('")?;
                self.position += 2;
                let expression = self.arithmetic_parentheses()?;
                CompoundKind::Arithmetic {
                    text: self.slice(start).to_owned(),
                    expression,
                }
            }
            Some(b'(') => {
                self.operator(1)?;
                let list = self.inner_list()?;
                self.close_parenthesis()?;
                CompoundKind::Subshell(list)
            }
            _ => match self.upcoming_word() {
                "{" => {
                    self.position += 1;
                    let list = self.inner_list()?;
                    self.take_reserved("}")?;
                    CompoundKind::Group(list)
                }
                "if" => self.if_command()?,
                "for" | "select" => self.for_command()?,
                "while" | "until" => {
                    self.position += 5;
                    let condition = self.inner_list()?;
                    let body = self.do_group()?;
                    CompoundKind::While { condition, body }
                }
                "case" => self.case_command()?,
                "[[" => {
                    self.needs_extensions("'[['")?;
                    self.conditional()?
                }
                "function" => {
                    self.needs_extensions("'function'")?;
                    return self.function_keyword();
                }
                "coproc" if self.shell != ShellKind::Posix => return self.refuse("a coprocess"),
                word if RESERVED_ENDS.contains(&word) || word == "in" => {
                    return self.refuse(format!("unexpected '{word}'"));
                }
                "repeat" | "foreach" | "nocorrect" if self.shell == ShellKind::Zsh => {
                    return self.refuse("a zsh reserved word");
                }
                _ => return self.simple_or_function(),
            },
        };
        let redirections = self.trailing_redirections()?;
        let span = self.span_from(start);
        Ok(Command::Compound(Box::new(CompoundCommand {
            span,
            kind,
            redirections,
        })))
    }

    fn close_parenthesis(&mut self) -> Outcome<()> {
        self.skip_newlines()?;
        if self.peek() != Some(b')') {
            return self.refuse(format!("')' expected, not {}", self.describe_here()));
        }
        self.operator(1)
    }

    fn if_command(&mut self) -> Outcome<CompoundKind> {
        self.position += 2;
        let mut clauses = Vec::new();
        let mut otherwise = None;
        loop {
            let condition = self.inner_list()?;
            self.take_reserved("then")?;
            clauses.push((condition, self.inner_list()?));
            self.skip_newlines()?;
            match self.upcoming_word() {
                "elif" => self.position += 4,
                "else" => {
                    self.position += 4;
                    otherwise = Some(self.inner_list()?);
                    break;
                }
                _ => break,
            }
        }
        self.take_reserved("fi")?;
        Ok(CompoundKind::If { clauses, otherwise })
    }

    fn do_group(&mut self) -> Outcome<List> {
        self.take_reserved("do")?;
        let body = self.inner_list()?;
        self.take_reserved("done")?;
        Ok(body)
    }

    fn for_command(&mut self) -> Outcome<CompoundKind> {
        let select = self.upcoming_word() == "select";
        if select {
            self.needs_extensions("'select'")?;
        }
        self.position += if select { 6 } else { 3 };
        self.skip_blanks()?;
        if !select && self.starts_with("((") {
            self.needs_extensions("'for (('")?;
            self.position += 2;
            let header = self.arithmetic_for_header()?;
            self.skip_blanks()?;
            if self.peek() == Some(b';') {
                self.operator(1)?;
            }
            let body = self.do_group()?;
            return Ok(CompoundKind::ArithmeticFor { header, body });
        }
        let variable = self.name().to_owned();
        if variable.is_empty() || !self.peek().is_none_or(is_delimiter) {
            return self.refuse("a loop variable that isn't a plain name");
        }
        self.skip_newlines()?;
        let mut words = None;
        if self.upcoming_word() == "in" {
            self.position += 2;
            let mut found = Vec::new();
            loop {
                self.skip_blanks()?;
                match self.peek() {
                    Some(b';' | b'\n') => break,
                    Some(b'&' | b'|' | b'(' | b')') | None => {
                        return self.refuse("a 'for' list that doesn't end");
                    }
                    Some(b'<' | b'>') if self.peek_at(1) != Some(b'(') => {
                        return self.refuse("a redirection in a 'for' list");
                    }
                    _ => found.push(self.word()?),
                }
            }
            words = Some(found);
        }
        self.skip_blanks()?;
        if self.peek() == Some(b';') {
            self.operator(1)?;
        }
        let body = self.do_group()?;
        Ok(CompoundKind::For {
            variable,
            words,
            body,
        })
    }

    fn case_command(&mut self) -> Outcome<CompoundKind> {
        self.enter()?;
        self.position += 4;
        self.skip_blanks()?;
        let subject = self.word()?;
        self.take_reserved("in")?;
        let mut arms = Vec::new();
        loop {
            self.skip_newlines()?;
            if self.upcoming_word() == "esac" {
                self.position += 4;
                break;
            }
            if self.peek() == Some(b'(') {
                self.operator(1)?;
                self.skip_blanks()?;
            }
            let mut patterns = Vec::new();
            loop {
                self.skip_blanks()?;
                patterns.push(self.word()?);
                self.skip_blanks()?;
                match self.peek() {
                    Some(b'|') => self.operator(1)?,
                    Some(b')') => {
                        self.operator(1)?;
                        break;
                    }
                    _ => {
                        return self
                            .refuse(format!("a 'case' pattern with {}", self.describe_here()));
                    }
                }
            }
            let mut body = List::default();
            self.enter()?;
            self.list_into(&mut body)?;
            self.leave();
            arms.push((patterns, body));
            if self.starts_with(";;&") {
                self.operator(3)?;
            } else if self.starts_with(";;") || self.starts_with(";&") {
                self.operator(2)?;
            } else {
                self.take_reserved("esac")?;
                break;
            }
        }
        self.leave();
        Ok(CompoundKind::Case { subject, arms })
    }

    fn conditional(&mut self) -> Outcome<CompoundKind> {
        let start = self.position;
        self.position += 2;
        let mut items = Vec::new();
        let mut regular_expression = false;
        loop {
            self.skip_newlines()?;
            if self.upcoming_word() == "]]" && !regular_expression {
                self.position += 2;
                break;
            }
            let operator = match self.peek() {
                None => return self.refuse("'[[' without ']]'"),
                _ if regular_expression => None,
                Some(b'&') if self.starts_with("&&") => Some("&&"),
                Some(b'|') if self.starts_with("||") => Some("||"),
                Some(b'(') => Some("("),
                Some(b')') => Some(")"),
                Some(b'<') if self.peek_at(1) != Some(b'(') => Some("<"),
                Some(b'>') if self.peek_at(1) != Some(b'(') => Some(">"),
                Some(b'!') if self.upcoming_word() == "!" => Some("!"),
                Some(b';' | b'&' | b'|') => {
                    return self.refuse(format!("{} inside '[['", self.describe_here()));
                }
                _ => None,
            };
            if let Some(operator) = operator {
                self.operator(operator.len())?;
                items.push(ConditionalItem::Operator(operator));
                continue;
            }
            let word = if regular_expression {
                self.regular_expression()?
            } else {
                self.word()?
            };
            regular_expression = !regular_expression && word.plain_literal() == Some("=~");
            items.push(ConditionalItem::Word(word));
            if matches!(self.peek(), Some(b'(')) {
                return self.refuse("a parenthesis in a pattern");
            }
        }
        if items.is_empty() {
            return self.refuse("an empty '[['");
        }
        Ok(CompoundKind::Conditional {
            text: self.slice(start).to_owned(),
            items,
        })
    }

    fn function_keyword(&mut self) -> Outcome<Command> {
        let start = self.position;
        self.position += 8;
        self.skip_blanks()?;
        let word = self.word()?;
        let Some(name) = word.plain_literal().map(str::to_owned) else {
            return self.refuse("a function name that isn't plain");
        };
        self.skip_blanks()?;
        if self.starts_with("()") {
            self.operator(2)?;
        }
        self.function_body(start, name)
    }

    fn function_body(&mut self, start: usize, name: String) -> Outcome<Command> {
        self.skip_newlines()?;
        self.enter()?;
        let compound = match self.peek() {
            Some(b'(') => true,
            _ => matches!(
                self.upcoming_word(),
                "{" | "if" | "for" | "while" | "until" | "case" | "[[" | "select"
            ),
        };
        if !compound {
            return self.refuse("a function body that isn't a compound command");
        }
        let Command::Compound(body) = self.command()? else {
            return self.refuse("a function body that isn't a compound command");
        };
        self.leave();
        let text = self.slice(start).to_owned();
        let span = self.span_from(start);
        Ok(Command::Function(Box::new(FunctionDefinition {
            span,
            text,
            name,
            body: *body,
        })))
    }

    fn simple_or_function(&mut self) -> Outcome<Command> {
        let start = self.position;
        let mut end = start;
        let mut assignments = Vec::new();
        let mut array_arguments = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        let mut redirections = Vec::new();
        loop {
            self.skip_blanks()?;
            match self.peek() {
                None | Some(b'\n' | b';' | b'|' | b')') => break,
                Some(b'&') => {
                    if self.peek_at(1) == Some(b'>') {
                        self.needs_extensions("'&>'")?;
                    } else {
                        break;
                    }
                    let redirection = self.redirection()?;
                    redirections.push(redirection);
                }
                Some(b'(') => {
                    let name = match words.as_slice() {
                        [only] if assignments.is_empty() && redirections.is_empty() => {
                            only.plain_literal().map(str::to_owned)
                        }
                        _ => None,
                    };
                    self.position += 1;
                    self.skip_blanks()?;
                    match name {
                        Some(name) if self.peek() == Some(b')') => {
                            self.operator(1)?;
                            return self.function_body(start, name);
                        }
                        _ => return self.refuse("a parenthesis inside a command"),
                    }
                }
                _ => {
                    if self.at_redirection() {
                        let redirection = self.redirection()?;
                        redirections.push(redirection);
                    } else if words.is_empty() {
                        match self.assignment()? {
                            Some(assignment) => assignments.push(assignment),
                            None => words.push(self.command_word()?),
                        }
                    } else {
                        let declares = words
                            .first()
                            .and_then(Word::plain_literal)
                            .is_some_and(|name| DECLARATIONS.contains(&name));
                        match if declares {
                            self.array_argument()?
                        } else {
                            None
                        } {
                            Some(assignment) => array_arguments.push(assignment),
                            None => words.push(self.word()?),
                        }
                    }
                }
            }
            end = self.position;
        }
        if words.is_empty() && assignments.is_empty() && redirections.is_empty() {
            return self.refuse(format!("a command expected, not {}", self.describe_here()));
        }
        let text = self.source.get(start..end).unwrap_or_default().to_owned();
        let span = self.outer.unwrap_or(Span { start, end });
        Ok(Command::Simple(SimpleCommand {
            span,
            text,
            assignments,
            words,
            array_arguments,
            redirections,
        }))
    }

    /// The first word of a command. `name[…` would be read as an assignment with blanks inside.
    fn command_word(&mut self) -> Outcome<Word> {
        let mut length = 0;
        while self.peek_at(length).is_some_and(is_name_byte) {
            length += 1;
        }
        if length > 0 && self.peek_at(length) == Some(b'[') {
            return self.refuse("a command name with a bracket");
        }
        self.word()
    }

    // ---- assignments --------------------------------------------------------------------------

    /// A name: letters, digits and underscores, not starting with a digit.
    pub(super) fn name(&mut self) -> &'a str {
        let start = self.position;
        if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return "";
        }
        while self.peek().is_some_and(is_name_byte) {
            self.position += 1;
        }
        self.slice(start)
    }

    fn assignment(&mut self) -> Outcome<Option<Assignment>> {
        let start = self.position;
        let name = self.name().to_owned();
        if name.is_empty() {
            self.position = start;
            return Ok(None);
        }
        let mut subscript = None;
        if self.peek() == Some(b'[') {
            self.needs_extensions("a subscript")?;
            self.position += 1;
            subscript = Some(self.subscript()?);
        }
        let append = self.peek() == Some(b'+') && self.peek_at(1) == Some(b'=');
        if append {
            self.needs_extensions("'+='")?;
            self.position += 1;
        }
        if self.peek() != Some(b'=') {
            if subscript.is_some() {
                return self.refuse("a command name with a bracket");
            }
            self.position = start;
            return Ok(None);
        }
        self.position += 1;
        let value = if self.peek() == Some(b'(') {
            self.needs_extensions("an array")?;
            if subscript.is_some() {
                return self.refuse("an array inside an array");
            }
            AssignedValue::Array(self.array_elements()?)
        } else {
            AssignedValue::Scalar(self.assigned_word()?)
        };
        Ok(Some(Assignment {
            name,
            subscript,
            append,
            value,
        }))
    }

    fn array_argument(&mut self) -> Outcome<Option<Assignment>> {
        let start = self.position;
        let name = self.name().to_owned();
        let append = !name.is_empty() && self.starts_with("+=(");
        if !append && (name.is_empty() || !self.starts_with("=(")) {
            self.position = start;
            return Ok(None);
        }
        self.position += if append { 2 } else { 1 };
        let value = AssignedValue::Array(self.array_elements()?);
        Ok(Some(Assignment {
            name,
            subscript: None,
            append,
            value,
        }))
    }

    fn array_elements(&mut self) -> Outcome<Vec<Word>> {
        self.operator(1)?;
        self.enter()?;
        let mut elements = Vec::new();
        loop {
            self.skip_newlines()?;
            match self.peek() {
                Some(b')') => {
                    self.position += 1;
                    if !self.peek().is_none_or(is_delimiter) {
                        return self.refuse("text after an array");
                    }
                    self.leave();
                    return Ok(elements);
                }
                Some(b'(' | b';' | b'&' | b'|') | None => {
                    return self.refuse("an array that isn't closed");
                }
                Some(b'<' | b'>') if self.peek_at(1) != Some(b'(') => {
                    return self.refuse("a redirection in an array");
                }
                _ => elements.push(self.word()?),
            }
        }
    }

    // ---- redirections -------------------------------------------------------------------------

    /// Whether a redirection starts here: an operator, perhaps after a descriptor or `{name}`.
    fn at_redirection(&mut self) -> bool {
        let mut offset = 0;
        if self.peek() == Some(b'{') {
            offset = 1;
            while self.peek_at(offset).is_some_and(is_name_byte) {
                offset += 1;
            }
            if offset == 1 || self.peek_at(offset) != Some(b'}') {
                return false;
            }
            offset += 1;
        } else {
            // Descriptors are short; a long run of digits is a word.
            while offset < 20
                && self
                    .peek_at(offset)
                    .is_some_and(|byte| byte.is_ascii_digit())
            {
                offset += 1;
            }
        }
        match self.peek_at(offset) {
            Some(b'<' | b'>') => offset > 0 || self.peek_at(1) != Some(b'('),
            _ => false,
        }
    }

    fn trailing_redirections(&mut self) -> Outcome<Vec<Redirection>> {
        let mut found = Vec::new();
        loop {
            self.skip_blanks()?;
            let both = self.starts_with("&>");
            if both {
                self.needs_extensions("'&>'")?;
            }
            if !both && !self.at_redirection() {
                return Ok(found);
            }
            found.push(self.redirection()?);
        }
    }

    fn redirection(&mut self) -> Outcome<Redirection> {
        let start = self.position;
        if self.peek() == Some(b'{') {
            return self.refuse("a redirection to a named descriptor");
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
        if self.position - start > 1 {
            self.needs_extensions("a descriptor of two digits")?;
        }
        let (operator, length) = [
            ("&>>", RedirectionOperator::AppendOutputAndError),
            ("&>", RedirectionOperator::OutputAndError),
            ("<<<", RedirectionOperator::HereString),
            ("<<-", RedirectionOperator::HereDocument),
            ("<<", RedirectionOperator::HereDocument),
            ("<&", RedirectionOperator::DuplicateInput),
            ("<>", RedirectionOperator::ReadWrite),
            (">>", RedirectionOperator::Append),
            (">&", RedirectionOperator::DuplicateOutput),
            (">|", RedirectionOperator::Output),
            ("<", RedirectionOperator::Input),
            (">", RedirectionOperator::Output),
        ]
        .into_iter()
        .find(|(text, _)| self.starts_with(text))
        .map_or((RedirectionOperator::Output, 1), |(text, operator)| {
            (operator, text.len())
        });
        if operator == RedirectionOperator::HereString {
            self.needs_extensions("'<<<'")?;
        }
        let strip_tabs = operator == RedirectionOperator::HereDocument && length == 3;
        self.operator(length)?;
        if self.shell == ShellKind::Zsh && matches!(self.peek(), Some(b'!' | b'|')) {
            return self.refuse("a zsh redirection");
        }
        self.skip_blanks()?;
        match self.peek() {
            None | Some(b'\n' | b';' | b'&' | b'|' | b')' | b'(') => {
                return self.refuse("a redirection without a target");
            }
            Some(b'<' | b'>') if self.peek_at(1) != Some(b'(') => {
                return self.refuse("a redirection without a target");
            }
            _ => {}
        }
        let target = self.word()?;
        let mut document = None;
        if operator == RedirectionOperator::HereDocument {
            document = Some(self.announce_document(&target, strip_tabs)?);
        }
        let text = self.slice(start).to_owned();
        Ok(Redirection {
            span: self.span_from(start),
            text,
            operator,
            target,
            document,
        })
    }

    fn announce_document(&mut self, target: &Word, strip_tabs: bool) -> Outcome<usize> {
        let delimiter = self.delimiter(target)?;
        if delimiter.contains('\n') {
            return self.refuse("a here-document delimiter of several lines");
        }
        let quoted = target.text.contains(['\'', '"', '\\']);
        let index = self.documents.len();
        self.documents.push(HereDocument {
            quoted,
            body: Word::default(),
        });
        self.pending.push(PendingDocument {
            delimiter,
            quoted,
            strip_tabs,
            index,
        });
        Ok(index)
    }

    /// Only quotes are removed from a delimiter; anything that looks like more is refused.
    fn delimiter(&self, target: &Word) -> Outcome<String> {
        let odd = target
            .text
            .contains(['$', '`', '~', '*', '?', '[', '{', '(']);
        match target.fixed() {
            Some(delimiter) if !odd => Ok(delimiter),
            _ => self.refuse("a here-document delimiter that isn't plain"),
        }
    }

    fn here_document_body(&mut self, document: &PendingDocument) -> Outcome<()> {
        let start = self.position;
        let mut joined = false;
        loop {
            if self.position >= self.bytes.len() {
                return self.refuse(format!(
                    "a here-document without its end '{}'",
                    document.delimiter
                ));
            }
            let line_start = self.position;
            let rest = self.bytes.get(line_start..).unwrap_or_default();
            let length = rest
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or(rest.len());
            self.work += length as u64 + 1;
            let line = self
                .source
                .get(line_start..line_start + length)
                .unwrap_or_default();
            self.position = (line_start + length + 1).min(self.bytes.len());
            let stripped = if document.strip_tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            if stripped == document.delimiter {
                if joined {
                    return self.refuse("a line continuation before a here-document's end");
                }
                // Bash ends the body at the delimiter even without a final newline.
                let body_end = line_start;
                return self.document_expansions(document, start, body_end);
            }
            if self.substitutions > 0 || self.outer.is_some() {
                let close = stripped.strip_prefix(document.delimiter.as_str());
                if close.is_some_and(|tail| tail.trim_start().starts_with([')', '`'])) {
                    return self.refuse("a here-document whose end shares its line");
                }
            }
            let backslashes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
            joined = !document.quoted && backslashes % 2 == 1;
        }
    }

    /// Reads the expansions in the body of a here-document, which is like text in double quotes.
    fn document_expansions(
        &mut self,
        document: &PendingDocument,
        start: usize,
        end: usize,
    ) -> Outcome<()> {
        if document.quoted {
            return Ok(());
        }
        let resume = self.position;
        let whole = self.bytes;
        self.bytes = whole.get(..end).unwrap_or_default();
        self.position = start;
        let outer = std::mem::take(&mut self.pending);
        let body = self.document_text()?;
        self.pending = outer;
        self.bytes = whole;
        self.position = resume;
        if let Some(slot) = self.documents.get_mut(document.index) {
            slot.body = body;
        }
        Ok(())
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
