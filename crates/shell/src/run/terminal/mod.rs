//! Commands on a terminal: they ask, and are answered.
//!
//! Such a command runs beside the conversation like one in the background. [`InteractiveCommand::settle`] waits until
//! it is over or waits for an answer, [`InteractiveCommand::type_in`] answers for the model, and a [`Keyboard`] is in
//! the hands of the user. A prompt that does not show what is typed is for the user alone.

mod keys;
mod prompt;
mod screen;

pub use keys::{TerminalKey, UnknownKey};
pub use prompt::{Prompt, PromptLine};
pub use screen::{Screen, ScreenText};

use super::background::known_text;
use super::supervise::{Outcome, StopCause, Supervised};
use super::{Exit, ShellProgram};
use lathe_process::{Reader, TerminalSize, Waits};
use lathe_protocol::ids::{RequestId, TaskId};
use parking_lot::Mutex;
use prompt::Typed;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The size of a terminal that nobody looks at.
pub(super) const USUAL_SIZE: TerminalSize = TerminalSize {
    rows: 40,
    columns: 120,
};

/// How many commands may be on terminals at once.
const MOST: usize = 8;

/// How long a program may leave what is typed unread.
const UNREAD: Duration = Duration::from_secs(5);

/// How often a program is looked at that may be waiting.
const LOOK: Duration = Duration::from_millis(25);
const LONGEST_LOOK: Duration = Duration::from_millis(200);

/// How long nothing is printed before a program counts as waiting: one that reads from the terminal, one that hides
/// what is typed, one that gets each key and stands at a prompt, and one of which less is known.
const QUIET_READING: Duration = Duration::from_millis(40);
const QUIET_HIDING: Duration = Duration::from_millis(150);
const QUIET_KEYS: Duration = Duration::from_millis(300);
const QUIET_UNCERTAIN: Duration = Duration::from_secs(2);
const QUIET_PROMPT_LIKE: Duration = Duration::from_secs(5);

/// Why a command on a terminal can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// No such command.
    #[error("there is no interactive command {id:?}; {}", known_text(.known))]
    Unknown {
        /// The requested one.
        id: String,
        /// The existing ones.
        known: Vec<TaskId>,
    },
    /// Too many at once.
    #[error("{MOST} interactive commands run already; end one of them with TaskStop first")]
    TooMany,
    /// The user types.
    #[error("the user has the keyboard of {0} now; wait until they give it back")]
    UserTypes(TaskId),
    /// The prompt hides what is typed.
    #[error("{0} asks for a secret, which only the user can type")]
    Secret(TaskId),
    /// Nothing reads.
    #[error("the program does not read what is typed: {0} bytes were left over")]
    Unread(usize),
    /// The terminal is gone.
    #[error("nothing could be typed: {0}")]
    Write(std::io::Error),
}

/// The state of a command on a terminal after waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is over.
    Ended(Exit),
    /// It waits for input.
    Waits,
    /// It asks for something that it does not show, with these words.
    WantsSecret(String),
    /// It runs on.
    Runs,
    /// The call was stopped.
    Cancelled,
}

/// The commands on terminals of a session. A clone is the same list.
#[derive(Clone, Default)]
pub struct Terminals {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    commands: Vec<Arc<InteractiveCommand>>,
    /// Tells the user's face which command wants the user.
    user: Option<mpsc::UnboundedSender<TaskId>>,
}

impl std::fmt::Debug for Terminals {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let commands = self.inner.lock().commands.clone();
        let ids = commands.iter().map(|command| command.id.clone());
        formatter.debug_list().entries(ids).finish()
    }
}

impl Terminals {
    /// A command of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn get(&self, id: &str) -> Result<Arc<InteractiveCommand>, TerminalError> {
        let inner = self.inner.lock();
        let found = inner
            .commands
            .iter()
            .find(|command| command.id.as_str() == id);
        found.cloned().ok_or_else(|| TerminalError::Unknown {
            id: id.to_owned(),
            known: inner
                .commands
                .iter()
                .map(|command| command.id.clone())
                .collect(),
        })
    }

    /// The command that was started last and runs.
    #[must_use]
    pub fn newest(&self) -> Option<Arc<InteractiveCommand>> {
        let inner = self.inner.lock();
        let mut running = inner.commands.iter().rev();
        running.find(|command| command.exit().is_none()).cloned()
    }

    /// From now on there is a user who can type, and hears of commands that want that.
    #[must_use]
    pub fn serve_user(&self) -> mpsc::UnboundedReceiver<TaskId> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.inner.lock().user = Some(sender);
        receiver
    }

    /// Asks the user to type into a command. Returns whether there is a user.
    #[must_use]
    pub fn call_user(&self, id: &TaskId) -> bool {
        let user = self.inner.lock().user.clone();
        user.is_some_and(|user| user.send(id.clone()).is_ok())
    }

    /// Whether another command may start.
    pub(super) fn check_room(&self) -> Result<(), TerminalError> {
        let inner = self.inner.lock();
        let commands = inner.commands.iter();
        let running = commands.filter(|command| command.exit().is_none()).count();
        if running < MOST {
            Ok(())
        } else {
            Err(TerminalError::TooMany)
        }
    }

    pub(super) fn add(
        &self,
        command: &str,
        screen: Arc<Screen>,
        supervised: Supervised,
        shell: Option<ShellProgram>,
        in_sandbox: bool,
    ) -> Arc<InteractiveCommand> {
        let unique: String = RequestId::random().0.chars().take(8).collect();
        let command = Arc::new(InteractiveCommand {
            id: TaskId(format!("term_{unique}")),
            command: command.to_owned(),
            screen,
            supervised,
            shell,
            in_sandbox,
            typed: Mutex::default(),
            user: watch::Sender::default(),
        });
        self.inner.lock().commands.push(Arc::clone(&command));
        command
    }

    /// The end of the session: ends them all.
    pub(super) async fn end_session(&self) {
        let commands = self.inner.lock().commands.clone();
        for command in &commands {
            command.supervised.stop(StopCause::Cancelled);
        }
        for command in &commands {
            command.supervised.finished().await;
        }
    }
}

/// A command on a terminal.
pub struct InteractiveCommand {
    /// Names it.
    pub id: TaskId,
    /// The command as written.
    pub command: String,
    /// Whether it runs in a sandbox.
    pub in_sandbox: bool,
    screen: Arc<Screen>,
    supervised: Supervised,
    /// The shell whose prompt takes commands as the analyser reads them.
    shell: Option<ShellProgram>,
    typed: Mutex<Typed>,
    user: watch::Sender<UserTurns>,
}

/// The user's turns at the keyboard of a command.
#[derive(Debug, Clone, Copy, Default)]
struct UserTurns {
    /// The user has it now.
    types: bool,
    /// How often it was given back.
    returned: u64,
    /// How many lines the user entered or interrupted in all.
    answers: u64,
}

/// The user's reaction to a request to type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// There is no user.
    Nobody,
    /// The user answered.
    Answered,
    /// The user gave the keyboard back without an answer.
    Declined,
    /// The call was stopped.
    Cancelled,
}

impl std::fmt::Debug for InteractiveCommand {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("InteractiveCommand")
            .field("id", &self.id)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

/// How far a program is.
enum Look {
    Waits,
    WantsSecret(String),
    Works,
}

impl InteractiveCommand {
    /// How it ended, if it did.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        let outcome = self.supervised.outcome.borrow().clone();
        outcome
            .as_deref()
            .map(|outcome: &Outcome| outcome.exit.clone())
    }

    /// Processes that outlived it and were ended.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let outcome = self.supervised.outcome.borrow().clone();
        outcome.map_or_else(Vec::new, |outcome| outcome.leftovers.clone())
    }

    /// The screen, and before it the lines that left it since the last look.
    #[must_use]
    pub fn look(&self) -> ScreenText {
        self.screen.look()
    }

    /// The rows of the screen with their colours, and the cursor's row and column.
    #[must_use]
    pub fn rows(&self) -> (Vec<String>, (u16, u16)) {
        self.screen.rows()
    }

    /// Changes with every output, and when it is over.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.screen.changes()
    }

    /// Waits until it is over.
    pub async fn ended(&self) {
        self.supervised.finished().await;
    }

    /// Ends it and everything that it started.
    pub async fn stop(&self) {
        self.supervised.stop(StopCause::Cancelled);
        self.supervised.finished().await;
    }

    /// The program that would read what is typed now, and the line so far.
    #[must_use]
    pub fn prompt(&self) -> Prompt {
        let reader = self.screen.reader();
        let typed = self.typed.lock();
        Prompt::of(reader.as_ref(), &typed, self.shell.as_ref())
    }

    /// The words of a prompt that hides what is typed, if it stands at one.
    #[must_use]
    pub fn secret_prompt(&self) -> Option<String> {
        let mode = self.screen.line_mode()?;
        let line = self.screen.cursor_line();
        let hides = mode.whole_lines && !mode.echoes;
        let in_words = || {
            let at_shell = self.prompt().is_shell;
            !at_shell && prompt::asks_for_secret(&line)
        };
        (hides || in_words()).then(|| line.trim().to_owned())
    }

    /// Types for the model.
    ///
    /// # Errors
    /// When the user has the keyboard, a secret is asked for, or nothing reads it.
    pub async fn type_in(&self, text: &str, keys: &[TerminalKey]) -> Result<(), TerminalError> {
        if self.user.borrow().types {
            return Err(TerminalError::UserTypes(self.id.clone()));
        }
        let only_ends = text.is_empty() && keys.iter().all(|key| key.only_ends());
        if !only_ends && self.secret_prompt().is_some() {
            return Err(TerminalError::Secret(self.id.clone()));
        }
        let reader = self.screen.reader();
        self.typed.lock().add(reader.as_ref(), text, keys);
        let application_cursor = self.screen.application_cursor();
        let mut bytes = text.replace('\n', "\r").into_bytes();
        for key in keys {
            bytes.extend(key.bytes(application_cursor));
        }
        self.write(&bytes).await
    }

    async fn write(&self, bytes: &[u8]) -> Result<(), TerminalError> {
        match tokio::time::timeout(UNREAD, self.screen.write(bytes)).await {
            Ok(written) => written.map_err(TerminalError::Write),
            Err(_) => Err(TerminalError::Unread(bytes.len())),
        }
    }

    /// Waits until it is over or waits for input, at most this long; while the user types, without a limit.
    pub async fn settle(&self, limit: Duration, cancel: &CancellationToken) -> Settled {
        let mut deadline = Instant::now() + limit;
        let mut interval = LOOK;
        let mut user = self.user.subscribe();
        loop {
            if let Some(exit) = self.exit() {
                return Settled::Ended(exit);
            }
            let typing = user.borrow_and_update().types;
            if !typing {
                match self.progress() {
                    Look::Waits => return Settled::Waits,
                    Look::WantsSecret(words) => return Settled::WantsSecret(words),
                    Look::Works if Instant::now() >= deadline => return Settled::Runs,
                    Look::Works => {}
                }
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Settled::Cancelled,
                outcome = self.supervised.finished() => {
                    if outcome.is_none() {
                        // The runtime is shutting down.
                        return Settled::Cancelled;
                    }
                }
                changed = user.changed() => {
                    drop(changed);
                    deadline = Instant::now() + limit;
                    interval = LOOK;
                }
                () = tokio::time::sleep(interval), if !typing => {
                    interval = (interval * 2).min(LONGEST_LOOK);
                }
            }
        }
    }

    fn progress(&self) -> Look {
        let (mode, reader) = (self.screen.line_mode(), self.screen.reader());
        let typed = self.typed.lock();
        let quiet = self.screen.last_output().elapsed().min(typed.age());
        let unread = reader.as_ref().is_some_and(|it| typed.is_unread(it));
        drop(typed);
        if self.screen.is_behind() {
            return Look::Works;
        }
        let (Some(mode), Some(reader)) = (mode, reader) else {
            // Where the system does not say what a program does, silence must do.
            return self.after(quiet, QUIET_UNCERTAIN);
        };
        let hides = mode.whole_lines && !mode.echoes;
        let at_prompt = self.screen.is_full() || !self.screen.cursor_line().trim().is_empty();
        let enough = match reader.waits {
            Waits::Not => return Look::Works,
            // What was typed and woke nobody is read later.
            _ if unread => QUIET_UNCERTAIN,
            _ if hides => QUIET_HIDING,
            Waits::ForInput => QUIET_READING,
            _ if !mode.whole_lines && at_prompt => QUIET_KEYS,
            Waits::Unknown => QUIET_UNCERTAIN,
            Waits::ForSomething if !mode.whole_lines => QUIET_UNCERTAIN,
            Waits::ForSomething if at_prompt => QUIET_PROMPT_LIKE,
            Waits::ForSomething => return Look::Works,
        };
        self.after(quiet, enough)
    }

    fn after(&self, quiet: Duration, enough: Duration) -> Look {
        if quiet < enough {
            return Look::Works;
        }
        self.secret_prompt().map_or(Look::Waits, Look::WantsSecret)
    }

    /// Asks the user to type, and waits until the keyboard is given back or the command is over.
    pub async fn ask_user(&self, terminals: &Terminals, cancel: &CancellationToken) -> Asked {
        let mut user = self.user.subscribe();
        let before = *user.borrow_and_update();
        if !terminals.call_user(&self.id) {
            return Asked::Nobody;
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Asked::Cancelled,
            _ = self.supervised.finished() => return Asked::Answered,
            returned = user.wait_for(|turns| turns.returned > before.returned) => drop(returned),
        }
        if self.user.borrow().answers > before.answers {
            Asked::Answered
        } else {
            Asked::Declined
        }
    }

    /// Gives the keyboard to the user.
    #[must_use]
    pub fn keyboard(self: &Arc<Self>) -> Keyboard {
        self.user.send_modify(|turns| turns.types = true);
        let (keys, mut pressed) = mpsc::unbounded_channel::<Vec<u8>>();
        let command = Arc::clone(self);
        // One after the other, also where the program reads slowly.
        lathe_spawn::task(async move {
            while let Some(bytes) = pressed.recv().await {
                if let Err(error) = command.write(&bytes).await {
                    tracing::debug!(%error, "a key of the user was not read");
                }
            }
            command.user.send_modify(|turns| {
                turns.types = false;
                turns.returned += 1;
            });
        });
        Keyboard {
            command: Arc::clone(self),
            secret: None,
            keys,
        }
    }
}

/// The keyboard of a command, in the hands of the user until it is dropped.
#[derive(Debug)]
pub struct Keyboard {
    command: Arc<InteractiveCommand>,
    /// The hidden characters that were typed so far.
    secret: Option<String>,
    keys: mpsc::UnboundedSender<Vec<u8>>,
}

impl Keyboard {
    /// The command.
    #[must_use]
    pub fn command(&self) -> &Arc<InteractiveCommand> {
        &self.command
    }

    /// Fits the terminal to the user's.
    pub fn resize(&self, rows: u16, columns: u16) {
        self.command.screen.resize(TerminalSize { rows, columns });
    }

    /// Types a key.
    pub fn press(&mut self, key: TerminalKey) {
        let bytes = key.bytes(self.command.screen.application_cursor());
        match key {
            TerminalKey::Enter => self.line_ended(),
            TerminalKey::Control('u') => self.secret = None,
            TerminalKey::Control('c' | 'd' | 'z') => {
                self.secret = None;
                self.line_ended();
            }
            TerminalKey::Fixed("\x7f") => {
                if let Some(secret) = &mut self.secret {
                    secret.pop();
                }
            }
            _ => {}
        }
        self.send(bytes);
    }

    /// Types text.
    pub fn type_text(&mut self, text: &str) {
        if self.secret.is_none() && self.command.secret_prompt().is_some() {
            self.secret = Some(String::new());
        }
        for piece in text.split_inclusive(['\n', '\r']) {
            let line = piece.trim_end_matches(['\n', '\r']);
            if let Some(secret) = &mut self.secret {
                secret.push_str(line);
            }
            if line.len() < piece.len() {
                self.line_ended();
            }
        }
        self.send(text.replace('\n', "\r").into_bytes());
    }

    fn line_ended(&mut self) {
        self.hide_secret();
        self.command.user.send_modify(|turns| turns.answers += 1);
    }

    fn hide_secret(&mut self) {
        if let Some(secret) = self.secret.take() {
            self.command.screen.hide(&secret);
        }
    }

    fn send(&self, bytes: Vec<u8>) {
        let reader = self.command.screen.reader();
        self.command.typed.lock().by_user(reader.as_ref());
        // It is read until the keyboard is given back.
        drop(self.keys.send(bytes));
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.hide_secret();
    }
}

/// Whether a program is a shell that reads commands from the terminal.
fn reads_commands(reader: &Reader, shell: &ShellProgram) -> bool {
    let options = reader
        .arguments
        .iter()
        .skip(1)
        .filter(|word| !word.is_empty());
    let at_prompt = options.clone().all(|word| {
        let is_long = word.starts_with("--");
        word.starts_with('-') && (is_long || !word.contains('c'))
    });
    reader.name == shell.name() && at_prompt
}
