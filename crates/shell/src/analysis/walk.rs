//! Takes the tree apart into [`Part`]s.

use std::collections::{HashMap, HashSet};

use super::argument::{Argument, PathKind, PathOperand};
use super::fed_text::Input;
use super::names::{ANY_NAME, function_names, mentions};
use super::programs::PipedNames;
use super::variables::{Danger, danger_of};
use super::words::Found;
use super::{
    Concern, ConcernKind, MOST_LISTED, MOST_PARTS, Obeys, Part, PartKind, ReadOnly, Shows,
    WorkingFolder,
};
use crate::syntax::{
    Command, CompoundCommand, CompoundKind, ConditionalItem, Connector, HereDocument, List, Parsed,
    Pipeline, ShellKind, Span, Word, WordPart,
};

/// Gives the parts of a parsed command.
pub(super) fn walk(parsed: &Parsed, shell: ShellKind) -> Vec<Part> {
    let mut functions = HashSet::new();
    function_names(&parsed.list, &mut functions);
    let mut walker = Walker {
        shell,
        documents: &parsed.documents,
        parts: Vec::new(),
        functions,
        folder: WorkingFolder::Start,
        input: Input::Inherited,
        group_input: Input::Inherited,
        bound: HashMap::new(),
        mentioned: HashMap::new(),
    };
    mentions(&parsed.list, &mut walker.mentioned);
    walker.list(&parsed.list);
    walker.parts
}

/// The state of a walk.
pub(super) struct Walker<'a> {
    pub(super) shell: ShellKind,
    pub(super) documents: &'a [HereDocument],
    pub(super) parts: Vec<Part>,
    pub(super) functions: HashSet<String>,
    pub(super) folder: WorkingFolder,
    /// The standard input of the next command of a pipeline.
    pub(super) input: Input,
    /// The standard input of the current group.
    pub(super) group_input: Input,
    /// Loop variables whose values are known, inside their loop.
    pub(super) bound: HashMap<String, Vec<PathOperand>>,
    /// How often each name is given a value, or stands where a command could give it one.
    pub(super) mentioned: HashMap<String, usize>,
}

impl<'a> Walker<'a> {
    pub(super) fn list(&mut self, list: &'a List) {
        for (index, item) in list.items.iter().enumerate() {
            if self.parts.len() > MOST_LISTED {
                return;
            }
            let before = self.folder.clone();
            self.pipeline(&item.pipeline);
            let previous_or = index > 0
                && list
                    .items
                    .get(index - 1)
                    .is_some_and(|item| item.connector == Connector::Or);
            if item.connector == Connector::Background {
                self.folder = before;
            } else if self.folder != before && (item.connector == Connector::Or || previous_or) {
                // What follows runs exactly when the change failed, or it is a second choice.
                self.folder = WorkingFolder::Unknown;
            }
        }
    }

    pub(super) fn pipeline(&mut self, pipeline: &'a Pipeline) {
        let several = pipeline.commands.len() > 1;
        let before = self.folder.clone();
        let mut names: Option<PipedNames> = None;
        self.input = self.group_input.clone();
        for (position, command) in pipeline.commands.iter().enumerate() {
            match command {
                Command::Simple(simple) => {
                    names = self.simple(simple, pipeline.timed, names.as_ref());
                }
                Command::Compound(compound) => {
                    let outer = std::mem::replace(&mut self.group_input, self.input.clone());
                    self.compound(compound);
                    self.group_input = outer;
                    names = None;
                    self.input = Input::Unknown;
                }
                Command::Function(function) => {
                    let mut part =
                        self.blank(function.text.clone(), function.span, PartKind::Function);
                    part.read_only = no("a function is defined");
                    self.parts.push(part);
                    let folder = self.folder.clone();
                    self.compound(&function.body);
                    self.folder = folder;
                    names = None;
                    self.input = Input::Unknown;
                }
            }
            if several {
                // zsh runs the last command of a pipeline in the shell itself, bash can be told to.
                let last = position + 1 == pipeline.commands.len();
                let changed = last && self.folder != before;
                self.folder = if changed {
                    WorkingFolder::Unknown
                } else {
                    before.clone()
                };
            }
        }
    }

    pub(super) fn substitution(&mut self, list: &'a List) {
        let before = self.folder.clone();
        self.list(list);
        self.folder = before;
    }

    /// A substitution in a word. What a command there reads isn't known: `>(sh)` runs what is written to it.
    pub(super) fn word_substitution(&mut self, list: &'a List) {
        let outer = std::mem::replace(&mut self.group_input, Input::Unknown);
        self.substitution(list);
        self.group_input = outer;
    }

    pub(super) fn compound(&mut self, compound: &'a CompoundCommand) {
        let first_part = self.parts.len();
        let before = self.folder.clone();
        match &compound.kind {
            CompoundKind::Subshell(list) => self.substitution(list),
            CompoundKind::Group(list) => self.list(list),
            CompoundKind::If { clauses, otherwise } => {
                for (condition, body) in clauses {
                    self.list(condition);
                    self.list(body);
                }
                if let Some(list) = otherwise {
                    self.list(list);
                }
                if self.folder != before {
                    self.folder = WorkingFolder::Unknown;
                }
            }
            CompoundKind::For {
                variable,
                words,
                body,
            } => {
                self.loop_words(
                    variable,
                    words.as_deref().unwrap_or_default(),
                    compound.span,
                );
                let values = words
                    .as_deref()
                    .and_then(|words| self.loop_values(variable, words));
                if let Some(values) = values {
                    self.bound.insert(variable.clone(), values);
                }
                self.list(body);
                self.bound.remove(variable);
                self.looped(first_part, &before);
            }
            CompoundKind::ArithmeticFor { header, body } => {
                let mut found = Found::default();
                found.arithmetic(header, "an arithmetic loop", self.shell);
                self.bare(
                    "for ((…))".to_owned(),
                    compound.span,
                    PartKind::Arithmetic,
                    found,
                );
                self.list(body);
                self.looped(first_part, &before);
            }
            CompoundKind::While { condition, body } => {
                self.list(condition);
                self.list(body);
                self.looped(first_part, &before);
            }
            CompoundKind::Case { subject, arms } => {
                let mut found = Found::default();
                found.word(subject, self.shell);
                for (patterns, _) in arms {
                    for pattern in patterns {
                        found.word(pattern, self.shell);
                    }
                }
                self.interesting(format!("case {}", subject.text), compound.span, found);
                for (_, body) in arms {
                    self.list(body);
                }
                if self.folder != before {
                    self.folder = WorkingFolder::Unknown;
                }
            }
            CompoundKind::Conditional { text, items } => {
                let mut found = Found::default();
                self.conditional(items, &mut found);
                self.bare(text.clone(), compound.span, PartKind::Conditional, found);
            }
            CompoundKind::Arithmetic { text, expression } => {
                let mut found = Found::default();
                found.arithmetic(expression, "an arithmetic command", self.shell);
                self.bare(text.clone(), compound.span, PartKind::Arithmetic, found);
            }
        }
        if !compound.redirections.is_empty() {
            let text: Vec<&str> = compound
                .redirections
                .iter()
                .map(|redirection| redirection.text.as_str())
                .collect();
            let span = compound
                .redirections
                .first()
                .map_or(compound.span, |first| first.span);
            let mut part = self.blank(text.join(" "), span, PartKind::Redirection);
            let lists = self.redirections(&mut part, &compound.redirections);
            for list in lists {
                self.word_substitution(list);
            }
            self.finish(part);
        }
    }

    /// A change of folder in a loop happens again each time round.
    pub(super) fn looped(&mut self, first_part: usize, before: &WorkingFolder) {
        if self.folder == *before {
            return;
        }
        self.folder = WorkingFolder::Unknown;
        for part in self.parts.iter_mut().skip(first_part) {
            part.folder = WorkingFolder::Unknown;
        }
    }

    pub(super) fn loop_words(&mut self, variable: &str, words: &'a [Word], span: Span) {
        let mut found = Found::default();
        for word in words {
            found.word(word, self.shell);
        }
        if danger_of(variable, self.shell) != Danger::None {
            found.concerns.push(Concern::new(
                ConcernKind::DangerousAssignment,
                format!("a loop assigns {variable}"),
            ));
        }
        self.interesting(format!("for {variable}"), span, found);
    }

    /// The values of a loop variable, if all are known and nothing else assigns it.
    pub(super) fn loop_values(&self, variable: &str, words: &[Word]) -> Option<Vec<PathOperand>> {
        if self.mentioned.get(variable) != Some(&1) || self.mentioned.contains_key(ANY_NAME) {
            return None;
        }
        let values: Vec<PathOperand> = words
            .iter()
            .map(|word| Argument::from_word(word).path())
            .collect();
        let known =
            |value: &PathOperand| !matches!(value.kind, PathKind::Unbounded | PathKind::Pipe);
        (!values.is_empty() && values.len() <= MOST_PARTS && values.iter().all(known))
            .then_some(values)
    }

    /// Reads the words of a command. Braces around plain names become the words that the shell makes of them.
    pub(super) fn arguments(&self, words: &[Word]) -> Vec<Argument> {
        let mut arguments = Vec::with_capacity(words.len());
        for (position, word) in words.iter().enumerate() {
            match brace_words(word).filter(|_| position > 0) {
                Some(plain) => arguments.extend(plain.into_iter().map(Argument::Fixed)),
                None => arguments.push(self.argument(word)),
            }
        }
        arguments
    }

    /// Reads a word, with what is known about loop variables.
    pub(super) fn argument(&self, word: &Word) -> Argument {
        let mut argument = Argument::from_word(word);
        if let [WordPart::Parameter(parameter)]
        | [WordPart::Quoted(_), WordPart::Parameter(parameter)] = word.parts.as_slice()
            && matches!(word.parts.first(), Some(WordPart::Parameter(_)))
                | matches!(word.parts.first(), Some(WordPart::Quoted(text)) if text.is_empty())
            && parameter.plain
            && let Some(values) = self.bound.get(&parameter.name)
        {
            argument.bind(values);
        }
        argument
    }

    /// Puts what a loop variable can be in place of its name, and drops pipes.
    pub(super) fn resolve_paths(&self, paths: Vec<PathOperand>) -> Vec<PathOperand> {
        let mut resolved = Vec::new();
        for path in paths {
            let name = path
                .text
                .trim_matches('"')
                .trim_start_matches('$')
                .trim_start_matches('{')
                .trim_end_matches('}');
            match (path.kind, self.bound.get(name)) {
                (PathKind::Pipe, _) => {}
                (PathKind::Unbounded, Some(values))
                    if path.text.starts_with('"')
                        || values.iter().all(PathOperand::stays_whole) =>
                {
                    resolved.extend(values.iter().cloned());
                }
                _ => resolved.push(path),
            }
        }
        resolved
    }

    /// A part for words that aren't a command, if there is something to say about them.
    pub(super) fn interesting(&mut self, text: String, span: Span, found: Found<'a>) {
        for list in &found.lists {
            self.word_substitution(list);
        }
        if !found.concerns.is_empty() {
            let mut part = self.blank(text, span, PartKind::Words);
            part.concerns = found.concerns;
            self.finish(part);
        }
    }

    /// A part without words of its own.
    pub(super) fn bare(&mut self, text: String, span: Span, kind: PartKind, found: Found<'a>) {
        for list in &found.lists {
            self.word_substitution(list);
        }
        let mut part = self.blank(text, span, kind);
        part.concerns = found.concerns;
        self.finish(part);
    }

    pub(super) fn conditional(&mut self, items: &'a [ConditionalItem], found: &mut Found<'a>) {
        const NUMERIC: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
        let words: Vec<Option<&Word>> = items
            .iter()
            .map(|item| match item {
                ConditionalItem::Word(word) => Some(word),
                ConditionalItem::Operator(_) => None,
            })
            .collect();
        for word in words.iter().flatten() {
            found.word(word, self.shell);
        }
        for (index, word) in words.iter().enumerate() {
            let Some(text) = word.and_then(Word::fixed) else {
                continue;
            };
            let side = |offset: Option<usize>| {
                offset.and_then(|offset| words.get(offset).copied().flatten())
            };
            // zsh evaluates the descriptor after `-t` as arithmetic.
            let evaluates = matches!(text.as_str(), "-v" | "-R")
                || (text == "-t" && self.shell == ShellKind::Zsh);
            if evaluates && side(index.checked_add(1)).is_some() {
                found.concerns.push(Concern::new(
                    ConcernKind::Evaluation,
                    format!("[[ {text} ]] evaluates the subscript of a name"),
                ));
            }
            if NUMERIC.contains(&text.as_str()) {
                let is_number = |word: &Word| match word.parts.as_slice() {
                    [WordPart::Parameter(parameter)] => parameter.is_number(),
                    _ => word.fixed().is_some_and(|text| text.parse::<i64>().is_ok()),
                };
                let numbers = [side(index.checked_sub(1)), side(index.checked_add(1))]
                    .into_iter()
                    .all(|side| side.is_some_and(is_number));
                if !numbers {
                    found.concerns.push(Concern::new(
                        ConcernKind::Evaluation,
                        format!(
                            "[[ {text} ]] evaluates both sides, and a value can contain a command"
                        ),
                    ));
                }
            }
        }
    }

    pub(super) fn blank(&self, text: String, span: Span, kind: PartKind) -> Part {
        Part {
            text,
            span,
            kind,
            argv: Vec::new(),
            assignments: Vec::new(),
            redirections: Vec::new(),
            wrappers: Vec::new(),
            effective_argv: Vec::new(),
            can_be_allowed: true,
            all_effective: Vec::new(),
            runs_unknown_text: false,
            fed_texts: Vec::new(),
            read_only: ReadOnly::Yes,
            read_only_in_trusted_folder: false,
            concerns: Vec::new(),
            removal: None,
            losses: Vec::new(),
            file_command: None,
            read_paths: Vec::new(),
            names_of_files: Vec::new(),
            shows: Shows::default(),
            below: None,
            obeys: Obeys::default(),
            folder: self.folder.clone(),
        }
    }

    pub(super) fn finish(&mut self, mut part: Part) {
        let reads = part.read_only.is_yes();
        let blocking = part
            .concerns
            .iter()
            .find(|concern| concern.kind != ConcernKind::NeedsTrustedFolder);
        if let (true, Some(concern)) = (reads, blocking) {
            part.read_only_in_trusted_folder = part.concerns.iter().all(|concern| {
                matches!(
                    concern.kind,
                    ConcernKind::NeedsTrustedFolder | ConcernKind::ForeignFolder
                )
            });
            part.read_only = no(concern.message.clone());
        }
        part.read_paths = self.resolve_paths(std::mem::take(&mut part.read_paths));
        self.parts.push(part);
    }
}

pub(super) fn no(reason: impl Into<String>) -> ReadOnly {
    ReadOnly::No {
        reason: reason.into(),
    }
}

/// The words that braces around plain names stand for: `src/{main,lib}.rs`. None for any other form.
fn brace_words(word: &Word) -> Option<Vec<String>> {
    let text = word.text.as_str();
    let plain = |text: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | '+'))
    };
    let (before, rest) = text.split_once('{')?;
    let (inner, after) = rest.split_once('}')?;
    let choices: Vec<&str> = inner.split(',').collect();
    let fits = choices.len() > 1
        && choices.len() <= MOST_PARTS
        && plain(before)
        && plain(after)
        && choices.iter().all(|choice| plain(choice))
        && word
            .parts
            .iter()
            .any(|part| matches!(part, WordPart::Brace));
    fits.then(|| {
        choices
            .iter()
            .map(|choice| format!("{before}{choice}{after}"))
            .filter(|word| !word.is_empty())
            .collect()
    })
}
