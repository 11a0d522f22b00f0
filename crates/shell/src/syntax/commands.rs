//! Simple and compound commands, functions, assignments.

use super::ShellKind;
use super::parser::{Outcome, Parser, RESERVED_ENDS, is_delimiter, is_name_byte};
use super::redirections;
use super::tree::{
    AssignedValue, Assignment, Command, CompoundCommand, CompoundKind, ConditionalItem,
    FunctionDefinition, List, SimpleCommand, Span, Word,
};

/// Commands whose arguments can be arrays.
const DECLARATIONS: [&str; 5] = ["declare", "typeset", "local", "export", "readonly"];

impl<'a> Parser<'a> {
    // ---- commands -----------------------------------------------------------------------------

    pub(super) fn command(&mut self) -> Outcome<Command> {
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
                word if RESERVED_ENDS.contains(&word) || matches!(word, "in" | "]]") => {
                    return self.refuse(format!("unexpected '{word}'"));
                }
                "repeat" | "foreach" | "nocorrect" if self.shell == ShellKind::Zsh => {
                    return self.refuse("a zsh reserved word");
                }
                _ => return self.simple_or_function(),
            },
        };
        let redirections = redirections::trailing_redirections(self)?;
        let span = self.span_from(start);
        Ok(Command::Compound(Box::new(CompoundCommand {
            span,
            kind,
            redirections,
        })))
    }

    pub(super) fn close_parenthesis(&mut self) -> Outcome<()> {
        self.skip_newlines()?;
        if self.peek() != Some(b')') {
            return self.refuse(format!("')' expected, not {}", self.describe_here()));
        }
        self.operator(1)
    }

    pub(super) fn if_command(&mut self) -> Outcome<CompoundKind> {
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

    pub(super) fn do_group(&mut self) -> Outcome<List> {
        self.take_reserved("do")?;
        let body = self.inner_list()?;
        self.take_reserved("done")?;
        Ok(body)
    }

    pub(super) fn for_command(&mut self) -> Outcome<CompoundKind> {
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

    pub(super) fn case_command(&mut self) -> Outcome<CompoundKind> {
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

    pub(super) fn conditional(&mut self) -> Outcome<CompoundKind> {
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

    pub(super) fn function_keyword(&mut self) -> Outcome<Command> {
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

    pub(super) fn function_body(&mut self, start: usize, name: String) -> Outcome<Command> {
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

    pub(super) fn simple_or_function(&mut self) -> Outcome<Command> {
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
                    let redirection = redirections::redirection(self)?;
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
                    if redirections::at_redirection(self) {
                        let redirection = redirections::redirection(self)?;
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
    pub(super) fn command_word(&mut self) -> Outcome<Word> {
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

    pub(super) fn assignment(&mut self) -> Outcome<Option<Assignment>> {
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

    pub(super) fn array_argument(&mut self) -> Outcome<Option<Assignment>> {
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

    pub(super) fn array_elements(&mut self) -> Outcome<Vec<Word>> {
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
}
