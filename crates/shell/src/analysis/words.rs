//! Side effects of expanding a word.

use super::variables::{Danger, danger_of, may_hold_secret};
use super::{Concern, ConcernKind};
use crate::syntax::{Arithmetic, List, ShellKind, Word, WordPart};

/// Concerns about a word, and the lists that it would run.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) concerns: Vec<Concern>,
    pub(super) lists: Vec<&'a List>,
}

impl<'a> Found<'a> {
    fn concern(&mut self, kind: ConcernKind, message: impl Into<String>) {
        self.concerns.push(Concern::new(kind, message));
    }

    /// Looks through a word.
    pub(super) fn word(&mut self, word: &'a Word, shell: ShellKind) {
        for part in &word.parts {
            self.part(part, shell);
        }
        self.hidden(word);
        self.special_files(word);
    }

    /// Looks through an arithmetic expression.
    pub(super) fn arithmetic(&mut self, expression: &'a Arithmetic, what: &str, shell: ShellKind) {
        if !expression.is_constant() {
            self.concern(
                ConcernKind::Evaluation,
                format!("{what} evaluates values, and a value can contain a command"),
            );
        }
        for part in &expression.expansions {
            self.part(part, shell);
        }
    }

    fn part(&mut self, part: &'a WordPart, shell: ShellKind) {
        match part {
            WordPart::Literal(_)
            | WordPart::Quoted(_)
            | WordPart::Glob(_)
            | WordPart::Brace
            | WordPart::Tilde(_) => {}
            WordPart::Command { list, .. } | WordPart::Process(list) => self.lists.push(list),
            WordPart::Arithmetic { expression, .. } => {
                self.arithmetic(expression, "an arithmetic expansion", shell);
            }
            WordPart::Opaque(what) => {
                if shell == ShellKind::Zsh {
                    self.concern(ConcernKind::ZshFeature, *what);
                }
            }
            WordPart::Parameter(parameter) => {
                for expression in &parameter.evaluated {
                    self.arithmetic(
                        expression,
                        &format!("the subscript or slice of {}", parameter.name),
                        shell,
                    );
                }
                if parameter.indirect {
                    let message = format!(
                        "${{!{}}} expands the variable that the value names",
                        parameter.name
                    );
                    self.concern(ConcernKind::SecondExpansion, message);
                }
                if parameter.transformation == Some('P') {
                    let message =
                        format!("${{{}@P}} runs the commands in the value", parameter.name);
                    self.concern(ConcernKind::RunsValue, message);
                }
                if parameter.assigns && danger_of(&parameter.name, shell) != Danger::None {
                    self.concern(
                        ConcernKind::DangerousAssignment,
                        format!("assigns {}", parameter.name),
                    );
                }
                if may_hold_secret(&parameter.name) && !parameter.is_number() {
                    self.concern(
                        ConcernKind::SecretVariable,
                        format!("${} can hold a key or a password", parameter.name),
                    );
                }
                if let Some(operand) = &parameter.operand {
                    self.word(operand, shell);
                }
            }
        }
    }

    /// Escapes and braces that keep the user from seeing an option or a path.
    fn hidden(&mut self, word: &Word) {
        if word.text.contains("$'") && word.text.contains('\\') {
            let decoded = word.fixed().unwrap_or_default();
            let escapes = [
                "\\x", "\\u", "\\U", "\\0", "\\1", "\\2", "\\3", "\\4", "\\5", "\\6", "\\7",
            ];
            let coded = escapes.iter().any(|escape| word.text.contains(escape));
            if coded && (decoded.is_empty() || decoded.starts_with('-') || decoded.contains('/')) {
                let message = format!("{} is written in escapes", word.text);
                self.concern(ConcernKind::HiddenWord, message);
            }
        }
        if matches!(word.parts.first(), Some(WordPart::Brace)) && word.text.contains(['-', '/']) {
            let message = format!("{} expands to words with options or paths", word.text);
            self.concern(ConcernKind::HiddenWord, message);
        }
    }

    /// Files that are more than files.
    fn special_files(&mut self, word: &Word) {
        // Quotes and expansions in between must not hide the name: compare without them.
        let text: String = match word.fixed() {
            Some(text) => text,
            None => word
                .text
                .chars()
                .filter(|character| !matches!(character, '\'' | '"' | '\\'))
                .collect(),
        };
        if text.len() < 4 {
            return;
        }
        let compact = text.replace("/./", "/").replace("//", "/");
        if ["/dev/tcp", "/dev/udp", "/inet/", "/inet4/", "/inet6/"]
            .iter()
            .any(|device| compact.contains(device))
        {
            self.concern(
                ConcernKind::NetworkDevice,
                format!("{} opens a connection", word.text),
            );
        }
        let steps: Vec<&str> = compact.split('/').collect();
        let in_process = steps
            .iter()
            .position(|step| *step == "proc")
            .is_some_and(|index| {
                steps.get(index + 1).is_some_and(|step| {
                    matches!(*step, "self" | "thread-self" | "kcore" | "..")
                        || step.contains(['$', '*', '?', '[', '{', '`'])
                        || (!step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()))
                })
            });
        let last = steps.last().copied().unwrap_or_default();
        let harmless = [
            "status", "stat", "statm", "comm", "cgroup", "limits", "mounts", "io", "sched",
        ];
        let reaches = in_process && !(word.fixed().is_some() && harmless.contains(&last));
        if reaches || last == "environ" {
            self.concern(
                ConcernKind::ProcessSecrets,
                format!("{} can show a process's secrets", word.text),
            );
        }
    }
}
