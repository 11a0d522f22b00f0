//! Judging one simple command.

use super::argument::{Argument, PathKind, PathOperand};
use super::fed_text::{Input, fed_to, printed};
use super::files::file_command;
use super::names::{ANY_NAME, listed_names};
use super::programs::{self, PipedNames, Surroundings};
use super::removal::find_removal;
use super::variables::{Danger, danger_of, is_harmless};
use super::walk::{Walker, no};
use super::words::Found;
use super::wrappers::{strip_harmless, through_every_wrapper};
use super::{
    AssignedVariable, Concern, ConcernKind, FileRedirection, MOST_PARTS, Obeys, Part, PartKind,
    RedirectionKind, Shows, WorkingFolder,
};
use crate::syntax::{
    AssignedValue, Assignment, List, Redirection, RedirectionOperator, ShellKind, SimpleCommand,
};

/// Commands that run text, or change what later text means.
pub(super) const RUNS_TEXT: &[&str] = &[
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
    pub(super) fn simple(
        &mut self,
        simple: &'a SimpleCommand,
        timed: bool,
        piped_names: Option<&PipedNames>,
    ) -> Option<PipedNames> {
        let kind = if !simple.words.is_empty() {
            PartKind::Command
        } else if simple.assignments.is_empty() {
            PartKind::Redirection
        } else {
            PartKind::Assignment
        };
        // Substitutions in the words have pipelines of their own.
        let input = std::mem::replace(&mut self.input, Input::Unknown);
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
            self.word_substitution(list);
        }
        part.argv = self.arguments(&simple.words);
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
        let fed = fed_to(
            &part.all_effective,
            &input,
            &simple.redirections,
            self.documents,
            self.shell,
        );
        part.runs_unknown_text = fed.unknown;
        part.fed_texts = fed.texts;
        for argv in fed.commands {
            part.all_effective
                .extend(through_every_wrapper(&argv, self.shell));
        }
        (part.removal, part.losses) = find_removal(&part.all_effective, piped_names);
        self.command_concerns(&mut part, simple);
        let names = self.judge(&mut part, piped_names);
        self.change_folder(&part.effective_argv);
        self.remember_assignments(&part);
        self.input = printed(&part.effective_argv, &part.redirections);
        self.finish(part);
        names
    }

    pub(super) fn assignments(
        &self,
        part: &mut Part,
        simple: &'a SimpleCommand,
        found: &mut Found<'a>,
    ) {
        let alone = simple.words.is_empty();
        for assignment in &simple.assignments {
            assigned_words(assignment, found, self.shell);
            let value = match &assignment.value {
                AssignedValue::Scalar(word) => Argument::from_word(word),
                AssignedValue::Array(_) => Argument::anything("(…)"),
            };
            let plain = assignment.subscript.is_none() && !assignment.append;
            // Only `read` sees it, which then splits nothing: `while IFS= read -r line`.
            let splits_nothing = assignment.name == "IFS"
                && value.fixed() == Some("")
                && simple.words.first().is_some_and(|word| word.text == "read");
            let harmless =
                plain && (splits_nothing || is_harmless(&assignment.name, value.fixed()));
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

    /// Keeps the values of variables that are assigned once, alone and to something known.
    fn remember_assignments(&mut self, part: &Part) {
        if part.kind != PartKind::Assignment {
            return;
        }
        for assignment in &part.assignments {
            let path = assignment.value.path();
            let known = !matches!(
                path.kind,
                PathKind::Unbounded | PathKind::Pipe | PathKind::Pattern | PathKind::HomePattern
            );
            let once = self.mentioned.get(&assignment.name) == Some(&1)
                && !self.mentioned.contains_key(ANY_NAME);
            if known && once && danger_of(&assignment.name, self.shell) == Danger::None {
                self.bound.insert(assignment.name.clone(), vec![path]);
            }
        }
    }

    /// Adds redirections to a part and gives the lists in their words.
    pub(super) fn redirections(
        &self,
        part: &mut Part,
        redirections: &'a [Redirection],
    ) -> Vec<&'a List> {
        let mut found = Found::default();
        for redirection in redirections {
            found.word(&redirection.target, self.shell);
            if let Some(document) = redirection
                .document
                .and_then(|index| self.documents.get(index))
            {
                found.word(&document.body, self.shell);
            }
            let target = self.argument(&redirection.target);
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

    pub(super) fn command_concerns(&self, part: &mut Part, simple: &SimpleCommand) {
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
        if evaluates_subscript(name, words) {
            add(
                ConcernKind::Evaluation,
                format!("{name} evaluates the subscript of a name"),
            );
        }
    }

    /// Decides whether a command only reads. Gives the file names that it prints, if it is one that
    /// lists files.
    pub(super) fn judge(
        &mut self,
        part: &mut Part,
        piped_names: Option<&PipedNames>,
    ) -> Option<PipedNames> {
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
        let elsewhere = programs::git_elsewhere(&part.effective_argv);
        let argv = match &elsewhere {
            Some((_, argv)) => argv,
            None => &part.effective_argv,
        };
        match programs::judge(argv, surroundings) {
            Ok(reading) => {
                let names = listed_names(&part.effective_argv, &reading, piped_names)
                    .filter(|_| part.redirections.iter().all(|redirection| redirection.free))
                    .filter(|_| elsewhere.is_none());
                if let Some((folder, _)) = elsewhere {
                    part.folder = next_folder(part.folder.clone(), Some(folder.clone()));
                    part.read_paths.push(folder);
                }
                part.read_paths.extend(reading.paths);
                part.names_of_files = reading.names;
                part.shows = if reads_redirected_input(part) {
                    Shows::Contents
                } else {
                    reading.shows
                };
                part.below = reading.below;
                part.obeys = reading.obeys;
                if reading.obeys != Obeys::Nothing {
                    part.concerns.push(Concern::new(
                        ConcernKind::NeedsTrustedFolder,
                        "the folder's configuration can name programs to run",
                    ));
                    if part.folder != WorkingFolder::Start {
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
                    part.read_only = no(reason.into_reason());
                }
                None
            }
        }
    }

    pub(super) fn change_folder(&mut self, argv: &[Argument]) {
        let Some(first) = argv.first() else {
            return;
        };
        let Some(name) = first.fixed() else {
            self.folder = WorkingFolder::Unknown;
            return;
        };
        match name {
            "cd" | "pushd" | "chdir" => {}
            // Only looks a name up.
            "command" if matches!(argv.get(1).and_then(Argument::fixed), Some("-v" | "-V")) => {
                return;
            }
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
        let before = std::mem::replace(&mut self.folder, WorkingFolder::Unknown);
        self.folder = next_folder(before, target);
    }
}

/// The folder after one more step.
fn next_folder(before: WorkingFolder, step: Option<PathOperand>) -> WorkingFolder {
    match (before, step) {
        (WorkingFolder::Start, Some(step)) => WorkingFolder::After(vec![step]),
        (WorkingFolder::After(mut steps), Some(step)) if steps.len() < 8 => {
            steps.push(step);
            WorkingFolder::After(steps)
        }
        _ => WorkingFolder::Unknown,
    }
}

/// Whether a command is given the name of a variable whose subscript it would evaluate.
fn evaluates_subscript(name: &str, words: &[Argument]) -> bool {
    let takes_name = |flag: &Argument| {
        let flag = flag.fixed();
        flag.is_some_and(|text| matches!(text, "-v" | "-a" | "-p" | "-R"))
    };
    let apart = matches!(name, "printf" | "read" | "test" | "[" | "wait")
        && words.windows(2).any(|pair| {
            matches!(pair, [flag, name] if takes_name(flag) && (name.text().contains('[') || name.fixed().is_none()))
        });
    // A name can be attached to its option.
    let attached = match name {
        "read" => Some(""),
        "printf" => Some("-v"),
        "wait" => Some("-p"),
        _ => None,
    };
    let joined = attached.is_some_and(|option| {
        words
            .iter()
            .any(|word| word.text().starts_with(option) && word.text().contains('['))
    });
    apart || joined
}

/// Whether a command may show what a file holds that it gets as input. `wc` only counts.
fn reads_redirected_input(part: &Part) -> bool {
    let counts = part.effective_argv.first().and_then(Argument::fixed) == Some("wc");
    !counts
        && part
            .redirections
            .iter()
            .any(|redirection| redirection.kind == RedirectionKind::Read && !redirection.free)
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

/// The kind of a redirection, and whether it touches no real file.
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
