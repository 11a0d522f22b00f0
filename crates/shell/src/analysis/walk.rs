//! Takes the tree apart into [`Part`]s.

use std::collections::{HashMap, HashSet};

use super::argument::{Argument, PathKind, PathOperand};
use super::files::file_command;
use super::programs::{self, Surroundings};
use super::removal::find_removal;
use super::variables::{Danger, danger_of, is_harmless};
use super::words::Found;
use super::wrappers::{strip_harmless, through_every_wrapper};
use super::{
    AssignedVariable, Concern, ConcernKind, FileRedirection, MOST_PARTS, Part, PartKind, ReadOnly,
    RedirectionKind, WorkingFolder,
};
use crate::syntax::{
    AssignedValue, Assignment, Command, CompoundCommand, CompoundKind, ConditionalItem, Connector,
    HereDocument, List, Parsed, Pipeline, Redirection, RedirectionOperator, ShellKind,
    SimpleCommand, Span, Word, WordPart,
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
        bound: HashMap::new(),
        mentioned: HashMap::new(),
    };
    mentions(&parsed.list, &mut walker.mentioned);
    walker.list(&parsed.list);
    walker.parts
}

struct Walker<'a> {
    shell: ShellKind,
    documents: &'a [HereDocument],
    parts: Vec<Part>,
    functions: HashSet<String>,
    folder: WorkingFolder,
    /// Loop variables whose values are known, inside their loop.
    bound: HashMap<String, Vec<PathOperand>>,
    /// How often each name is given a value, or stands where a command could give it one.
    mentioned: HashMap<String, usize>,
}

/// Commands that run text, or change what later text means.
const RUNS_TEXT: &[&str] = &[
    "eval",
    "source",
    ".",
    "exec",
    "trap",
    "alias",
    "unalias",
    "enable",
    "bind",
    "complete",
    "compgen",
    "compopt",
    "hash",
    "shopt",
    "coproc",
    "fc",
    "history",
    "autoload",
    "zmodload",
    "zle",
    "zstyle",
    "emulate",
    "functions",
    "sched",
    "zcompile",
    "bindkey",
    "setopt",
    "unsetopt",
    "print",
    "disable",
    "let",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "unset",
    "mapfile",
    "readarray",
    "getopts",
];

/// Of those, the ones that only matter when a word has a subscript or isn't fixed.
const ASSIGNERS: &[&str] = &[
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "unset",
    "mapfile",
    "readarray",
    "getopts",
    "print",
];

impl<'a> Walker<'a> {
    // ---- the tree -----------------------------------------------------------------------------

    fn list(&mut self, list: &'a List) {
        for (index, item) in list.items.iter().enumerate() {
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

    fn pipeline(&mut self, pipeline: &'a Pipeline) {
        let several = pipeline.commands.len() > 1;
        let before = self.folder.clone();
        let mut names: Option<Vec<PathOperand>> = None;
        for (position, command) in pipeline.commands.iter().enumerate() {
            match command {
                Command::Simple(simple) => {
                    names = self.simple(simple, pipeline.timed, names.as_deref());
                }
                Command::Compound(compound) => {
                    self.compound(compound);
                    names = None;
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

    fn substitution(&mut self, list: &'a List) {
        let before = self.folder.clone();
        self.list(list);
        self.folder = before;
    }

    fn compound(&mut self, compound: &'a CompoundCommand) {
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
                self.substitution(list);
            }
            self.finish(part);
        }
    }

    /// A change of folder in a loop happens again each time round.
    fn looped(&mut self, first_part: usize, before: &WorkingFolder) {
        if self.folder == *before {
            return;
        }
        self.folder = WorkingFolder::Unknown;
        for part in self.parts.iter_mut().skip(first_part) {
            part.folder = WorkingFolder::Unknown;
        }
    }

    fn loop_words(&mut self, variable: &str, words: &'a [Word], span: Span) {
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

    /// What a loop variable can be, if all of it is known and nothing else assigns it.
    fn loop_values(&self, variable: &str, words: &[Word]) -> Option<Vec<PathOperand>> {
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

    /// Reads a word, with what is known about loop variables.
    fn argument(&self, word: &Word) -> Argument {
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
    fn resolve_paths(&self, paths: Vec<PathOperand>) -> Vec<PathOperand> {
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
    fn interesting(&mut self, text: String, span: Span, found: Found<'a>) {
        for list in &found.lists {
            self.substitution(list);
        }
        if !found.concerns.is_empty() {
            let mut part = self.blank(text, span, PartKind::Words);
            part.concerns = found.concerns;
            self.finish(part);
        }
    }

    /// A part without words of its own.
    fn bare(&mut self, text: String, span: Span, kind: PartKind, found: Found<'a>) {
        for list in &found.lists {
            self.substitution(list);
        }
        let mut part = self.blank(text, span, kind);
        part.concerns = found.concerns;
        self.finish(part);
    }

    fn conditional(&mut self, items: &'a [ConditionalItem], found: &mut Found<'a>) {
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
            if matches!(text.as_str(), "-v" | "-R") && side(index.checked_add(1)).is_some() {
                found.concerns.push(Concern::new(
                    ConcernKind::Evaluation,
                    format!("[[ {text} ]] evaluates the subscript of a name"),
                ));
            }
            if NUMERIC.contains(&text.as_str()) {
                let numbers = [side(index.checked_sub(1)), side(index.checked_add(1))]
                    .into_iter()
                    .all(|side| {
                        side.and_then(Word::fixed)
                            .is_some_and(|text| text.parse::<i64>().is_ok())
                    });
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

    // ---- simple commands ----------------------------------------------------------------------

    fn simple(
        &mut self,
        simple: &'a SimpleCommand,
        timed: bool,
        piped_names: Option<&[PathOperand]>,
    ) -> Option<Vec<PathOperand>> {
        let kind = if !simple.words.is_empty() {
            PartKind::Command
        } else if simple.assignments.is_empty() {
            PartKind::Redirection
        } else {
            PartKind::Assignment
        };
        let mut part = self.blank(simple.text.clone(), simple.span, kind);
        let mut found = Found::default();
        for word in &simple.words {
            found.word(word, self.shell);
        }
        self.assignments(&mut part, simple, &mut found);
        for array in &simple.array_arguments {
            assigned_words(array, &mut found, self.shell);
            part.read_only = no("a declaration changes the shell's variables");
        }
        let Found {
            concerns,
            mut lists,
        } = found;
        part.concerns.extend(concerns);
        lists.extend(self.redirections(&mut part, &simple.redirections));
        for list in lists {
            self.substitution(list);
        }
        part.argv = simple
            .words
            .iter()
            .map(|word| self.argument(word))
            .collect();
        if timed {
            part.wrappers.push("time".to_owned());
        }
        let (wrappers, rest) = strip_harmless(&part.argv);
        let effective = rest.to_vec();
        part.wrappers.extend(wrappers);
        part.effective_argv = effective;
        part.can_be_allowed = kind != PartKind::Command
            || part
                .assignments
                .iter()
                .all(|assignment| assignment.harmless);
        part.all_effective = through_every_wrapper(&part.argv, self.shell);
        part.removal = find_removal(&part.all_effective);
        self.command_concerns(&mut part, simple);
        let names = self.judge(&mut part, piped_names);
        self.change_folder(&part.effective_argv);
        self.finish(part);
        names
    }

    fn assignments(&self, part: &mut Part, simple: &'a SimpleCommand, found: &mut Found<'a>) {
        let alone = simple.words.is_empty();
        for assignment in &simple.assignments {
            assigned_words(assignment, found, self.shell);
            let value = match &assignment.value {
                AssignedValue::Scalar(word) => Argument::from_word(word),
                AssignedValue::Array(_) => Argument::anything("(…)"),
            };
            let harmless = assignment.subscript.is_none()
                && !assignment.append
                && is_harmless(&assignment.name, value.fixed());
            let dangerous = danger_of(&assignment.name, self.shell) != Danger::None && !harmless;
            if dangerous {
                found.concerns.push(Concern::new(
                    ConcernKind::DangerousAssignment,
                    format!("{} changes what programs do", assignment.name),
                ));
            }
            if !alone && !harmless && part.read_only.is_yes() {
                part.read_only = no(format!("{} is set for the command", assignment.name));
            }
            part.assignments.push(AssignedVariable {
                name: assignment.name.clone(),
                value,
                harmless,
            });
        }
    }

    /// Adds redirections to a part and gives the lists in their words.
    fn redirections(&self, part: &mut Part, redirections: &'a [Redirection]) -> Vec<&'a List> {
        let mut found = Found::default();
        for redirection in redirections {
            found.word(&redirection.target, self.shell);
            if let Some(document) = redirection
                .document
                .and_then(|index| self.documents.get(index))
            {
                found.word(&document.body, self.shell);
            }
            let target = Argument::from_word(&redirection.target);
            let (kind, free) = classify(redirection.operator, &target);
            if !free {
                match kind {
                    RedirectionKind::Read => part.read_paths.push(target.path()),
                    RedirectionKind::Write
                    | RedirectionKind::Append
                    | RedirectionKind::ReadWrite => {
                        part.read_only = no(format!("writes to {}", target.text()));
                    }
                    RedirectionKind::Duplicate => {
                        part.read_only = no(format!(
                            "redirects to {}, which is not fixed",
                            target.text()
                        ));
                    }
                    RedirectionKind::HereDocument => {}
                }
            }
            part.redirections.push(FileRedirection {
                text: redirection.text.clone(),
                span: redirection.span,
                kind,
                target,
                free,
            });
        }
        part.concerns.extend(found.concerns);
        found.lists
    }

    fn command_concerns(&self, part: &mut Part, simple: &SimpleCommand) {
        let Some(first) = simple.words.first() else {
            return;
        };
        let mut add = |kind, message: String| part.concerns.push(Concern::new(kind, message));
        let Some(name) = part.effective_argv.first().and_then(Argument::fixed) else {
            // A program below the home folder is known well enough to be named by a rule.
            let path = part.effective_argv.first().map(Argument::path);
            if path.is_none_or(|path| path.kind != PathKind::Home) {
                let message = format!("the command {} is not fixed", first.text);
                add(ConcernKind::VariableCommand, message);
            }
            return;
        };
        if first.text.contains("$'") {
            add(
                ConcernKind::HiddenWord,
                format!("the command {} is written in escapes", first.text),
            );
        }
        if name.is_empty() {
            add(
                ConcernKind::HiddenWord,
                "the command's name is empty".to_owned(),
            );
        }
        if self.functions.contains(name) {
            add(
                ConcernKind::FunctionUse,
                format!("{name} is a function of this command"),
            );
        }
        let words = part.effective_argv.get(1..).unwrap_or_default();
        if matches!(name, "history" | "fc") {
            add(
                ConcernKind::History,
                format!("{name} shows or changes the history"),
            );
        } else if matches!(
            name,
            "zmodload" | "zle" | "autoload" | "emulate" | "sched" | "zcompile"
        ) {
            add(
                ConcernKind::ZshFeature,
                format!("{name} loads or runs code"),
            );
        } else if RUNS_TEXT.contains(&name) {
            let plain = ASSIGNERS.contains(&name)
                && words.iter().all(|word| {
                    word.fixed().is_some_and(|text| {
                        !text.split('=').next().unwrap_or_default().contains('[')
                            && !text.starts_with("-C")
                    })
                });
            let listing = matches!(
                name,
                "trap" | "alias" | "shopt" | "hash" | "declare" | "typeset"
            ) && words.is_empty();
            if !plain && !listing {
                add(
                    ConcernKind::RunsText,
                    format!("{name} runs or redefines what its words say"),
                );
            }
        }
        if ASSIGNERS.contains(&name) {
            for word in words {
                let assigned = word
                    .text()
                    .split('=')
                    .next()
                    .unwrap_or_default()
                    .trim_end_matches('+');
                if danger_of(assigned, self.shell) != Danger::None && !assigned.is_empty() {
                    add(
                        ConcernKind::DangerousAssignment,
                        format!("{assigned} changes what programs do"),
                    );
                }
            }
        }
        let subscripts = matches!(name, "printf" | "read" | "test" | "[" | "wait")
            && words.windows(2).any(|pair| {
                matches!(pair, [flag, name] if flag.fixed().is_some_and(|text| matches!(text, "-v" | "-a" | "-p" | "-R")) && (name.text().contains('[') || name.fixed().is_none()))
            });
        let reads_into_subscript =
            name == "read" && words.iter().any(|word| word.text().contains('['));
        if subscripts || reads_into_subscript {
            add(
                ConcernKind::Evaluation,
                format!("{name} evaluates the subscript of a name"),
            );
        }
    }

    /// Decides whether a command only reads. Gives the file names that it prints, if it is one that
    /// lists files.
    fn judge(
        &mut self,
        part: &mut Part,
        piped_names: Option<&[PathOperand]>,
    ) -> Option<Vec<PathOperand>> {
        part.file_command = file_command(&part.effective_argv);
        if part.effective_argv.is_empty() {
            return None;
        }
        if self.parts.len() >= MOST_PARTS * 2 {
            part.read_only = no("one of too many parts");
            return None;
        }
        let surroundings = Surroundings {
            shell: self.shell,
            piped_names,
            depth: 0,
        };
        match programs::judge(&part.effective_argv, surroundings) {
            Ok(reading) => {
                let names = listed_names(&part.effective_argv, &reading.paths, piped_names);
                part.read_paths.extend(reading.paths);
                if reading.needs_trust {
                    part.concerns.push(Concern::new(
                        ConcernKind::NeedsTrustedFolder,
                        "the folder's configuration can name programs to run",
                    ));
                    if self.folder != WorkingFolder::Start {
                        part.concerns.push(Concern::new(
                            ConcernKind::ForeignFolder,
                            "after a change of folder, the configuration there can name programs to run",
                        ));
                    }
                }
                names
            }
            Err(reason) => {
                if part.read_only.is_yes() {
                    part.read_only = no(reason);
                }
                None
            }
        }
    }

    fn change_folder(&mut self, argv: &[Argument]) {
        let Some(name) = argv.first().and_then(Argument::fixed) else {
            self.folder = WorkingFolder::Unknown;
            return;
        };
        match name {
            "cd" | "pushd" | "chdir" => {}
            "popd" | "eval" | "source" | "." | "command" | "builtin" => {
                self.folder = WorkingFolder::Unknown;
                return;
            }
            _ => return,
        }
        let words: Vec<&Argument> = argv
            .iter()
            .skip(1)
            .filter(|word| !matches!(word.fixed(), Some("--" | "-P" | "-L" | "-e")))
            .collect();
        let target = match words.as_slice() {
            [] => Some(PathOperand {
                kind: PathKind::Home,
                text: String::new(),
            }),
            [only]
                if matches!(only.path().kind, PathKind::Literal | PathKind::Home)
                    && !only.text().starts_with(['-', '+']) =>
            {
                Some(only.path())
            }
            _ => None,
        };
        self.folder = match (
            std::mem::replace(&mut self.folder, WorkingFolder::Unknown),
            target,
        ) {
            (WorkingFolder::Start, Some(target)) => WorkingFolder::After(vec![target]),
            (WorkingFolder::After(mut steps), Some(target)) if steps.len() < 8 => {
                steps.push(target);
                WorkingFolder::After(steps)
            }
            _ => WorkingFolder::Unknown,
        };
    }

    // ---- making parts -------------------------------------------------------------------------

    fn blank(&self, text: String, span: Span, kind: PartKind) -> Part {
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
            read_only: ReadOnly::Yes,
            read_only_in_trusted_folder: false,
            concerns: Vec::new(),
            removal: None,
            file_command: None,
            read_paths: Vec::new(),
            folder: self.folder.clone(),
        }
    }

    fn finish(&mut self, mut part: Part) {
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

fn no(reason: impl Into<String>) -> ReadOnly {
    ReadOnly::No {
        reason: reason.into(),
    }
}

fn assigned_words<'a>(assignment: &'a Assignment, found: &mut Found<'a>, shell: ShellKind) {
    if let Some(subscript) = &assignment.subscript {
        found.arithmetic(subscript, "a subscript", shell);
    }
    match &assignment.value {
        AssignedValue::Scalar(word) => found.word(word, shell),
        AssignedValue::Array(words) => {
            for word in words {
                found.word(word, shell);
                // `([subscript]=value)` evaluates the subscript.
                let constant = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
                if word.text.starts_with('[')
                    && !word
                        .text
                        .get(1..)
                        .and_then(|rest| rest.split_once(']'))
                        .is_some_and(|(subscript, _)| constant(subscript))
                {
                    found.concerns.push(Concern::new(
                        ConcernKind::Evaluation,
                        "a subscript is evaluated",
                    ));
                }
            }
        }
    }
}

/// What a redirection does, and whether it touches nothing of anyone's.
fn classify(operator: RedirectionOperator, target: &Argument) -> (RedirectionKind, bool) {
    const FREE: [&str; 3] = ["/dev/null", "/dev/stdout", "/dev/stderr"];
    let free = target.fixed().is_some_and(|text| FREE.contains(&text));
    let descriptor = target.fixed().is_some_and(|text| {
        let number = text.strip_suffix('-').unwrap_or(text);
        !text.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    match operator {
        RedirectionOperator::Input => {
            let free =
                free || target.fixed() == Some("/dev/stdin") || target.text().starts_with("<(");
            (RedirectionKind::Read, free)
        }
        RedirectionOperator::Output | RedirectionOperator::OutputAndError => {
            (RedirectionKind::Write, free)
        }
        RedirectionOperator::Append | RedirectionOperator::AppendOutputAndError => {
            (RedirectionKind::Append, free)
        }
        RedirectionOperator::ReadWrite => (RedirectionKind::ReadWrite, free),
        RedirectionOperator::DuplicateInput => (RedirectionKind::Duplicate, descriptor),
        // `>&word` with anything but a descriptor writes to a file of that name.
        RedirectionOperator::DuplicateOutput if descriptor => (RedirectionKind::Duplicate, true),
        RedirectionOperator::DuplicateOutput => (RedirectionKind::Write, free),
        RedirectionOperator::HereDocument | RedirectionOperator::HereString => {
            (RedirectionKind::HereDocument, true)
        }
    }
}

/// The files whose names a command prints, for `xargs` after it. Filters keep what came in.
fn listed_names(
    argv: &[Argument],
    paths: &[PathOperand],
    piped: Option<&[PathOperand]>,
) -> Option<Vec<PathOperand>> {
    let words: Vec<&str> = argv.iter().map(Argument::text).collect();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    let short = |letter: char| {
        words
            .iter()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter))
    };
    let lists = match words.first().copied()? {
        "find" => !has(&["-printf", "-exec", "-execdir", "-ls"]),
        "fd" | "fdfind" => true,
        "rg" => {
            has(&[
                "--files",
                "--files-with-matches",
                "-l",
                "--files-without-match",
            ]) || short('l')
        }
        "grep" => {
            short('l') || short('L') || has(&["--files-with-matches", "--files-without-match"])
        }
        "git" => words.get(1) == Some(&"ls-files") || has(&["--name-only"]),
        "ls" => paths.is_empty(),
        _ => false,
    };
    if lists {
        return Some(if paths.is_empty() {
            vec![PathOperand::literal(".")]
        } else {
            paths.to_vec()
        });
    }
    let filters = matches!(
        words.first(),
        Some(&("grep" | "head" | "tail" | "sort" | "uniq" | "shuf"))
    ) && paths.is_empty();
    if filters {
        piped.map(<[PathOperand]>::to_vec)
    } else {
        None
    }
}

/// Stands for 'any name at all' among the names that are given a value.
const ANY_NAME: &str = "*";

/// Counts where names could be given a value: assignments, loops, and words of commands that are the
/// name or start with it and `=` or `[`, as for `read` and `export`.
fn mentions(list: &List, found: &mut HashMap<String, usize>) {
    for command in list.items.iter().flat_map(|item| &item.pipeline.commands) {
        match command {
            Command::Simple(simple) => {
                for assignment in simple.assignments.iter().chain(&simple.array_arguments) {
                    *found.entry(assignment.name.clone()).or_default() += 1;
                }
                let assigns = simple
                    .words
                    .first()
                    .and_then(Word::fixed)
                    .is_none_or(|name| {
                        RUNS_TEXT.contains(&name.as_str())
                            || matches!(
                                name.as_str(),
                                "read" | "printf" | "wait" | "builtin" | "command"
                            )
                    });
                if assigns
                    && simple.words.iter().any(|word| {
                        word.fixed().is_none()
                            || matches!(word.text.as_str(), "eval" | "source" | ".")
                    })
                {
                    *found.entry(ANY_NAME.to_owned()).or_default() += 1;
                }
                for word in simple.words.iter().filter_map(Word::fixed) {
                    let length = word
                        .bytes()
                        .take_while(|byte| *byte == b'_' || byte.is_ascii_alphanumeric())
                        .count();
                    let name = word.get(..length).unwrap_or_default();
                    if !name.is_empty()
                        && matches!(word.as_bytes().get(length), None | Some(b'=' | b'[' | b'+'))
                    {
                        *found.entry(name.to_owned()).or_default() += 1;
                    }
                }
            }
            Command::Compound(compound) => compound_mentions(&compound.kind, found),
            Command::Function(function) => compound_mentions(&function.body.kind, found),
        }
    }
}

fn compound_mentions(kind: &CompoundKind, found: &mut HashMap<String, usize>) {
    if let CompoundKind::For { variable, .. } = kind {
        *found.entry(variable.clone()).or_default() += 1;
    }
    for list in inner_lists(kind) {
        mentions(list, found);
    }
}

/// The lists directly inside a compound command.
fn inner_lists(kind: &CompoundKind) -> Vec<&List> {
    match kind {
        CompoundKind::Subshell(list) | CompoundKind::Group(list) => vec![list],
        CompoundKind::If { clauses, otherwise } => clauses
            .iter()
            .flat_map(|(condition, body)| [condition, body])
            .chain(otherwise)
            .collect(),
        CompoundKind::For { body, .. } | CompoundKind::ArithmeticFor { body, .. } => vec![body],
        CompoundKind::While { condition, body } => vec![condition, body],
        CompoundKind::Case { arms, .. } => arms.iter().map(|(_, body)| body).collect(),
        CompoundKind::Conditional { .. } | CompoundKind::Arithmetic { .. } => Vec::new(),
    }
}

/// The names of all functions that are defined anywhere in the command.
fn function_names(list: &List, names: &mut HashSet<String>) {
    for command in list.items.iter().flat_map(|item| &item.pipeline.commands) {
        match command {
            Command::Simple(_) => {}
            Command::Compound(compound) => compound_function_names(&compound.kind, names),
            Command::Function(function) => {
                names.insert(function.name.clone());
                compound_function_names(&function.body.kind, names);
            }
        }
    }
}

fn compound_function_names(kind: &CompoundKind, names: &mut HashSet<String>) {
    for list in inner_lists(kind) {
        function_names(list, names);
    }
}
