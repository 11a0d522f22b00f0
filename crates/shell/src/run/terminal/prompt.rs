//! The program at a prompt, and the text that was typed so far.

use super::keys::TerminalKey;
use super::reads_commands;
use crate::run::ShellProgram;
use lathe_process::Reader;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// The program at a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Its name; empty where that can't be known.
    pub program: String,
    /// Where it works.
    pub directory: Option<PathBuf>,
    /// Whether it is the session's shell at its prompt, which takes commands.
    pub is_shell: bool,
    /// The line so far.
    pub line: PromptLine,
}

/// The line at a prompt, before it is entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptLine {
    /// This text.
    Known(String),
    /// Keys changed it, or the user typed.
    Unknown,
}

impl Prompt {
    pub(super) fn of(reader: Option<&Reader>, typed: &Typed, shell: Option<&ShellProgram>) -> Self {
        let Some(reader) = reader else {
            return Self {
                program: String::new(),
                directory: None,
                is_shell: false,
                line: PromptLine::Unknown,
            };
        };
        Self {
            program: reader.name.clone(),
            directory: reader.directory.clone(),
            is_shell: shell.is_some_and(|shell| reads_commands(reader, shell)),
            line: typed.line_of(reader),
        }
    }
}

/// The text that was typed into a terminal since the last whole line.
#[derive(Debug, Default)]
pub(super) struct Typed {
    /// The process that it was typed to.
    pid: i32,
    line: String,
    is_unknown: bool,
    /// When something was typed last, and how often the reader had waited then.
    last: Option<(Instant, i32, u64)>,
}

impl Typed {
    /// Adds what the model types.
    pub(super) fn add(&mut self, reader: Option<&Reader>, text: &str, keys: &[TerminalKey]) {
        let pid = reader.map_or(0, |reader| reader.pid);
        if self.pid != pid {
            self.pid = pid;
            self.line.clear();
            self.is_unknown = false;
        }
        self.last = reader.map(|reader| (Instant::now(), reader.pid, reader.switches));
        for piece in text.split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(_) => self.enter(),
                None => self.line.push_str(piece),
            }
        }
        for key in keys {
            match key {
                TerminalKey::Enter | TerminalKey::Control('c') => self.enter(),
                _ => self.is_unknown = true,
            }
        }
    }

    /// The user typed something, which is not kept.
    pub(super) fn by_user(&mut self, reader: Option<&Reader>) {
        self.line.clear();
        self.is_unknown = true;
        // The program that reads next stands at a line that is not known here.
        self.pid = 0;
        self.last = reader.map(|reader| (Instant::now(), reader.pid, reader.switches));
    }

    fn enter(&mut self) {
        self.line.clear();
        self.is_unknown = false;
    }

    fn line_of(&self, reader: &Reader) -> PromptLine {
        let by_user = self.pid == 0 && self.is_unknown;
        if by_user || (self.pid == reader.pid && self.is_unknown) {
            PromptLine::Unknown
        } else if self.pid == reader.pid {
            PromptLine::Known(self.line.clone())
        } else {
            PromptLine::Known(String::new())
        }
    }

    /// How long ago something was typed.
    pub(super) fn age(&self) -> Duration {
        self.last.map_or(Duration::MAX, |(when, ..)| when.elapsed())
    }

    /// Whether the program has not run since something was typed.
    pub(super) fn is_unread(&self, reader: &Reader) -> bool {
        self.last
            .is_some_and(|(_, pid, switches)| pid == reader.pid && switches == reader.switches)
    }
}

/// Words for secrets in prompts.
const SECRETS: &[&str] = &[
    "password",
    "passphrase",
    "passcode",
    "passwd",
    "passwort",
    "kennwort",
    "mot de passe",
    "contraseña",
    "secret",
    "token",
    "api key",
    "pin",
    "verification code",
    "one-time code",
    "otp",
];

/// Whether a prompt asks for a secret in words.
pub(super) fn asks_for_secret(line: &str) -> bool {
    let line = line.trim_end();
    let Some(question) = line.strip_suffix([':', '?']) else {
        return false;
    };
    let question = question.to_lowercase();
    let is_word = |word: &str| {
        question.match_indices(word).any(|(at, _)| {
            let before = question[..at].chars().next_back();
            let after = question[at + word.len()..].chars().next();
            before.is_none_or(|c| !c.is_alphanumeric())
                && after.is_none_or(|c| !c.is_alphanumeric())
        })
    };
    SECRETS.iter().any(|word| is_word(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_process::Waits;

    fn reader(pid: i32, switches: u64) -> Reader {
        Reader {
            pid,
            name: "bash".to_owned(),
            arguments: vec!["bash".to_owned()],
            directory: None,
            waits: Waits::ForInput,
            switches,
        }
    }

    fn known(text: &str) -> PromptLine {
        PromptLine::Known(text.to_owned())
    }

    #[test]
    fn a_line_is_known_as_long_as_only_text_was_typed_to_the_same_program() {
        let (bash, other) = (reader(7, 1), reader(8, 1));
        let mut typed = Typed::default();
        typed.add(Some(&bash), "rm ", &[]);
        typed.add(Some(&bash), "-r x", &[]);
        assert_eq!(typed.line_of(&bash), known("rm -r x"));
        assert_eq!(typed.line_of(&other), known(""));
        typed.add(Some(&bash), "", &[TerminalKey::Cursor('A')]);
        assert_eq!(typed.line_of(&bash), PromptLine::Unknown);
        typed.add(Some(&bash), "x\n", &[]);
        assert_eq!(typed.line_of(&bash), known(""));
        typed.by_user(Some(&bash));
        assert_eq!(typed.line_of(&bash), PromptLine::Unknown);
        typed.add(Some(&bash), "", &[TerminalKey::Control('c')]);
        assert_eq!(typed.line_of(&bash), known(""));
    }

    #[test]
    fn what_the_program_has_not_seen_yet_is_told_by_its_waits() {
        let mut typed = Typed::default();
        typed.add(Some(&reader(7, 1)), "x\n", &[]);
        assert!(typed.is_unread(&reader(7, 1)));
        assert!(!typed.is_unread(&reader(7, 2)));
        assert!(!typed.is_unread(&reader(8, 1)));
        assert_eq!(Typed::default().age(), Duration::MAX);
    }

    #[test]
    fn prompts_for_secrets_are_known_by_their_words() {
        for (line, wanted) in [
            ("Password:", true),
            ("[sudo] password for me: ", true),
            ("Enter passphrase for key '/x':", true),
            ("New PIN? ", true),
            ("GitHub token:", true),
            ("Passwort: ", true),
            (">>> ", false),
            ("Continue? ", false),
            ("Shipping address:", false),
            ("tokenizer:", false),
            ("Password: hunter2", false),
        ] {
            assert_eq!(asks_for_secret(line), wanted, "{line}");
        }
    }
}
