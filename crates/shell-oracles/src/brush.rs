//! The parser of the shell brush.
//!
//! It keeps words and substitutions as text, so [`read`] hands them to it again. Because it hangs on some
//! input, tests ask through [`Witness`], which runs it in a child process (`brush-witness`) with a time
//! limit.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use brush_parser::ast::{
    self, AndOr, AssignmentName, AssignmentValue, CommandPrefixOrSuffixItem, CompoundCommand,
    CompoundList, ExtendedTestExpr, IoFileRedirectTarget, IoRedirect, RedirectList,
};
use brush_parser::word::{self, ParameterExpr, WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions};

use crate::{SeenCommand, SeenWord, Testimony};

/// Substitutions inside substitutions that are followed.
const DEPTH: usize = 20;

/// Reads a text with brush's parser. It may never come back.
#[must_use]
pub fn read(text: &str) -> Testimony {
    let mut reader = Reader {
        options: ParserOptions::default(),
        commands: Vec::new(),
        depth: 0,
    };
    match reader.program(text) {
        Ok(()) => Testimony::Commands(reader.commands),
        Err(Refused) => Testimony::Refused,
    }
}

/// The parser can't read it.
struct Refused;

type Outcome = Result<(), Refused>;

struct Reader {
    options: ParserOptions,
    commands: Vec<SeenCommand>,
    depth: usize,
}

impl Reader {
    fn program(&mut self, text: &str) -> Outcome {
        if self.depth == DEPTH {
            return Err(Refused);
        }
        self.depth += 1;
        let mut parser = Parser::new(text.as_bytes(), &self.options);
        let program = parser.parse_program().map_err(|_| Refused)?;
        for list in &program.complete_commands {
            self.list(list)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn list(&mut self, list: &CompoundList) -> Outcome {
        for item in &list.0 {
            self.pipeline(&item.0.first)?;
            for further in &item.0.additional {
                let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = further;
                self.pipeline(pipeline)?;
            }
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline) -> Outcome {
        pipeline
            .seq
            .iter()
            .try_for_each(|command| self.command(command))
    }

    fn command(&mut self, command: &ast::Command) -> Outcome {
        match command {
            ast::Command::Simple(simple) => self.simple(simple),
            ast::Command::Compound(compound, redirections) => {
                self.compound(compound)?;
                self.redirections(redirections.as_ref())
            }
            ast::Command::Function(function) => {
                self.compound(&function.body.0)?;
                self.redirections(function.body.1.as_ref())
            }
            ast::Command::ExtendedTest(test, redirections) => {
                self.test(&test.expr)?;
                self.redirections(redirections.as_ref())
            }
        }
    }

    fn simple(&mut self, simple: &ast::SimpleCommand) -> Outcome {
        let mut words = Vec::new();
        let mut complete = true;
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                    self.assignment(assignment)?;
                }
                other => self.item(other, &mut words, &mut complete)?,
            }
        }
        if let Some(name) = &simple.word_or_name {
            words.push(self.word(name)?);
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut words, &mut complete)?;
        }
        if simple.word_or_name.is_some() {
            self.commands.push(SeenCommand { words, complete });
        }
        Ok(())
    }

    fn item(
        &mut self,
        item: &CommandPrefixOrSuffixItem,
        words: &mut Vec<SeenWord>,
        complete: &mut bool,
    ) -> Outcome {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirection) => self.redirection(redirection)?,
            CommandPrefixOrSuffixItem::Word(word) => words.push(self.word(word)?),
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                if matches!(assignment.value, AssignmentValue::Array(_)) {
                    self.assignment(assignment)?;
                    *complete = false;
                } else {
                    words.push(self.word(word)?);
                }
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list)?;
                words.push(SeenWord {
                    source: subshell.to_string(),
                    value: None,
                });
            }
        }
        Ok(())
    }

    fn assignment(&mut self, assignment: &ast::Assignment) -> Outcome {
        if let AssignmentName::ArrayElementName(_, subscript) = &assignment.name {
            self.text(subscript)?;
        }
        match &assignment.value {
            AssignmentValue::Scalar(word) => self.word(word).map(drop),
            AssignmentValue::Array(elements) => elements.iter().try_for_each(|(key, value)| {
                if let Some(key) = key {
                    self.word(key)?;
                }
                self.word(value).map(drop)
            }),
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) -> Outcome {
        match compound {
            CompoundCommand::Arithmetic(arithmetic) => self.text(&arithmetic.expr.value).map(drop),
            CompoundCommand::ArithmeticForClause(clause) => {
                let header = [&clause.initializer, &clause.condition, &clause.updater];
                for expression in header.into_iter().flatten() {
                    self.text(&expression.value)?;
                }
                self.list(&clause.body.list)
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            CompoundCommand::ForClause(clause) => {
                for word in clause.values.iter().flatten() {
                    self.word(word)?;
                }
                self.list(&clause.body.list)
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value)?;
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(pattern)?;
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list)?;
                    }
                }
                Ok(())
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition)?;
                self.list(&clause.then)?;
                for branch in clause.elses.iter().flatten() {
                    if let Some(condition) = &branch.condition {
                        self.list(condition)?;
                    }
                    self.list(&branch.body)?;
                }
                Ok(())
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0)?;
                self.list(&clause.1.list)
            }
            CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body),
        }
    }

    fn test(&mut self, expression: &ExtendedTestExpr) -> Outcome {
        match expression {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left)?;
                self.test(right)
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner)
            }
            ExtendedTestExpr::UnaryTest(_, word) => self.word(word).map(drop),
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.word(left)?;
                self.word(right).map(drop)
            }
        }
    }

    fn redirections(&mut self, redirections: Option<&RedirectList>) -> Outcome {
        redirections
            .iter()
            .flat_map(|list| &list.0)
            .try_for_each(|redirection| self.redirection(redirection))
    }

    fn redirection(&mut self, redirection: &IoRedirect) -> Outcome {
        match redirection {
            IoRedirect::File(_, _, target) => match target {
                IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                    self.word(word).map(drop)
                }
                IoFileRedirectTarget::Fd(_) => Ok(()),
                IoFileRedirectTarget::ProcessSubstitution(_, subshell) => self.list(&subshell.list),
            },
            IoRedirect::HereDocument(_, document) if document.requires_expansion => {
                let pieces =
                    word::parse_heredoc(&document.doc.value, &self.options).map_err(|_| Refused)?;
                self.pieces(&pieces).map(drop)
            }
            IoRedirect::HereDocument(..) => Ok(()),
            IoRedirect::HereString(_, word) | IoRedirect::OutputAndError(word, _) => {
                self.word(word).map(drop)
            }
        }
    }

    fn word(&mut self, word: &ast::Word) -> Result<SeenWord, Refused> {
        Ok(SeenWord {
            source: word.value.clone(),
            value: self.text(&word.value)?,
        })
    }

    /// The text of a word without its quotes, if nothing in it is expanded; what runs in it is noted.
    fn text(&mut self, text: &str) -> Result<Option<String>, Refused> {
        let pieces = word::parse(text, &self.options).map_err(|_| Refused)?;
        self.pieces(&pieces)
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource]) -> Result<Option<String>, Refused> {
        let mut whole = Some(String::new());
        for piece in pieces {
            let value = self.piece(&piece.piece)?;
            whole = whole.zip(value).map(|(whole, value)| whole + &value);
        }
        Ok(whole)
    }

    fn piece(&mut self, piece: &WordPiece) -> Result<Option<String>, Refused> {
        match piece {
            WordPiece::Text(text) | WordPiece::SingleQuotedText(text) => Ok(Some(text.clone())),
            WordPiece::AnsiCQuotedText(text) => Ok((!text.contains('\\')).then(|| text.clone())),
            WordPiece::EscapeSequence(text) => Ok(match text.strip_prefix('\\') {
                Some("\n") => Some(String::new()),
                escaped => escaped.map(str::to_owned),
            }),
            WordPiece::DoubleQuotedSequence(pieces) => self.pieces(pieces),
            WordPiece::GettextDoubleQuotedSequence(pieces) => {
                self.pieces(pieces)?;
                Ok(None)
            }
            WordPiece::TildeExpansion(_) => Ok(None),
            WordPiece::ParameterExpansion(expression) => {
                self.parameter(expression)?;
                Ok(None)
            }
            WordPiece::CommandSubstitution(text)
            | WordPiece::BackquotedCommandSubstitution(text) => {
                self.program(text)?;
                Ok(None)
            }
            WordPiece::ArithmeticExpression(expression) => {
                self.text(&expression.value)?;
                Ok(None)
            }
        }
    }

    /// Looks into the words of a `${…}`.
    fn parameter(&mut self, expression: &ParameterExpr) -> Outcome {
        let operand = match expression {
            ParameterExpr::UseDefaultValues {
                default_value: operand,
                ..
            }
            | ParameterExpr::AssignDefaultValues {
                default_value: operand,
                ..
            }
            | ParameterExpr::IndicateErrorIfNullOrUnset {
                error_message: operand,
                ..
            }
            | ParameterExpr::UseAlternativeValue {
                alternative_value: operand,
                ..
            }
            | ParameterExpr::RemoveSmallestSuffixPattern {
                pattern: operand, ..
            }
            | ParameterExpr::RemoveLargestSuffixPattern {
                pattern: operand, ..
            }
            | ParameterExpr::RemoveSmallestPrefixPattern {
                pattern: operand, ..
            }
            | ParameterExpr::RemoveLargestPrefixPattern {
                pattern: operand, ..
            }
            | ParameterExpr::UppercaseFirstChar {
                pattern: operand, ..
            }
            | ParameterExpr::UppercasePattern {
                pattern: operand, ..
            }
            | ParameterExpr::LowercaseFirstChar {
                pattern: operand, ..
            }
            | ParameterExpr::LowercasePattern {
                pattern: operand, ..
            } => operand,
            ParameterExpr::ReplaceSubstring {
                pattern,
                replacement,
                ..
            } => {
                self.text(pattern)?;
                replacement
            }
            ParameterExpr::Substring { offset, length, .. } => {
                self.text(&offset.value)?;
                return match length {
                    Some(length) => self.text(&length.value).map(drop),
                    None => Ok(()),
                };
            }
            ParameterExpr::Parameter { .. }
            | ParameterExpr::ParameterLength { .. }
            | ParameterExpr::Transform { .. }
            | ParameterExpr::VariableNames { .. }
            | ParameterExpr::MemberKeys { .. } => return Ok(()),
        };
        match operand {
            Some(operand) => self.text(operand).map(drop),
            None => Ok(()),
        }
    }
}

/// The parser in a child process, started again whenever it is lost.
pub struct Witness {
    program: PathBuf,
    limit: Duration,
    running: Option<Running>,
}

struct Running {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; all that matters is that it's gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Witness {
    /// Asks through the program at `program`, which may think for `limit` about one text.
    #[must_use]
    pub fn new(program: &Path, limit: Duration) -> Self {
        Self {
            program: program.to_owned(),
            limit,
            running: None,
        }
    }

    /// Its reading of a text, which must not contain a NUL.
    ///
    /// # Errors
    /// If the program can't be started or answers with something else than a testimony.
    pub fn read(&mut self, text: &str) -> std::io::Result<Testimony> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => start(&self.program)?,
        };
        let sent = running
            .input
            .write_all(text.as_bytes())
            .and_then(|()| running.input.write_all(b"\0"));
        // A child that died of the text before it could read it all is lost like any other.
        let answer = sent
            .ok()
            .and_then(|()| running.answers.recv_timeout(self.limit).ok());
        let Some(answer) = answer else {
            return Ok(Testimony::Lost);
        };
        self.running = Some(running);
        Ok(serde_json::from_str(&answer)?)
    }
}

fn start(program: &Path) -> std::io::Result<Running> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(std::io::Error::other("the child has no pipes"));
    };
    let (sender, answers) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(Running {
        child,
        input,
        answers,
    })
}
