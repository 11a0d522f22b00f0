//! Commands that run while the conversation continues.
//!
//! A background command is an ordinary one whose caller doesn't wait: started that way, or turned
//! into one when its time was up. Its whole output goes to a file; [`BackgroundCommands::read_new`]
//! gives what was added since it was last asked. Nothing here outlives the process but what the user keeps
//! ([`BackgroundCommands::keep`]).

use super::capture::{into_text, whole_characters};
use super::supervise::{Order, Outcome, StopCause, Supervised};
use super::{Exit, RunError};
use lathe_protocol::ids::{RequestId, TaskId, ToolUseId};
use parking_lot::Mutex;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How a background command is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackgroundStatus {
    /// It runs.
    Running,
    /// It ended by itself with code 0.
    Completed,
    /// It ended by itself in another way.
    Failed(Exit),
    /// It was ended on request.
    Stopped,
}

impl BackgroundStatus {
    fn of(outcome: &Outcome) -> Self {
        match &outcome.exit {
            Exit::Exited(0) => Self::Completed,
            Exit::Cancelled | Exit::TimedOut => Self::Stopped,
            other => Self::Failed(other.clone()),
        }
    }

    /// One word for it, as task events have it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed(_) => "failed",
            Self::Stopped => "killed",
        }
    }

    /// The exit code, when it ended by itself.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Completed => Some(0),
            Self::Failed(Exit::Exited(code)) => Some(*code),
            Self::Running | Self::Failed(_) | Self::Stopped => None,
        }
    }
}

/// A background command as others see it.
#[derive(Debug, Clone)]
pub struct BackgroundCommand {
    /// Names it.
    pub id: TaskId,
    /// The command as written.
    pub command: String,
    /// Its purpose, in the caller's words.
    pub description: String,
    /// The call that started it.
    pub tool_use_id: Option<ToolUseId>,
    /// Where its output goes.
    pub output_file: PathBuf,
    /// How it is doing.
    pub status: BackgroundStatus,
    /// How long it has run.
    pub elapsed: Duration,
    /// How much it has printed.
    pub total_bytes: u64,
    /// Processes that were still running when its shell ended, and were ended with it.
    pub leftovers: Vec<String>,
    /// Whether it serves the session itself (a plugin's monitor).
    pub is_service: bool,
    /// Whether it runs in a sandbox, which ends with the session.
    pub in_sandbox: bool,
    /// Whether the user keeps it when the session ends.
    pub is_kept: bool,
}

impl BackgroundCommand {
    /// Whether it would be ended with the session, and someone should know.
    #[must_use]
    pub fn ends_with_session(&self) -> bool {
        self.status == BackgroundStatus::Running && !self.is_service
    }

    /// Its fate at the end of the session, if that is worth showing.
    #[must_use]
    pub fn at_session_end(&self) -> Option<String> {
        let line = self.in_a_line();
        let text = if self.is_kept {
            let output = self.output_file.display();
            format!("Kept running: {line}. Its output goes to {output}")
        } else {
            format!("Ended with the session: {line}")
        };
        self.ends_with_session().then_some(text)
    }

    /// The command in one short line, with its id.
    #[must_use]
    pub fn in_a_line(&self) -> String {
        let line = self.command.lines().next().unwrap_or_default();
        let mut short: String = line.chars().take(100).collect();
        if short.len() < self.command.trim_end().len() {
            short.push('…');
        }
        format!("{short} ({})", self.id)
    }
}

/// Something happened to a background command.
#[derive(Debug, Clone)]
pub enum BackgroundEvent {
    /// It runs in the background now.
    Started(BackgroundCommand),
    /// It is over.
    Ended(BackgroundCommand),
}

/// The output of a background command since the last query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOutput {
    /// The text, with a note in the middle where it is too much.
    pub text: String,
    /// Whether there was too much for one answer; the file has it all.
    pub truncated: bool,
}

/// Why a background command can't be asked.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    /// No such command.
    #[error("there is no background task {id:?}; {}", known_text(.known))]
    Unknown {
        /// The requested value.
        id: String,
        /// The existing ones.
        known: Vec<TaskId>,
    },
    /// Its output can't be read.
    #[error("the output of background task {id} can't be read from {}: {source}", .path.display())]
    Output {
        /// The command.
        id: TaskId,
        /// Its output file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It can't stay when the session ends.
    #[error("background task {id} can't be kept: {why}")]
    NotKept {
        /// The command.
        id: TaskId,
        /// Why not.
        why: &'static str,
    },
}

pub(super) fn known_text(known: &[TaskId]) -> String {
    if known.is_empty() {
        return "none has been started in this session".to_owned();
    }
    let known: Vec<&str> = known.iter().map(TaskId::as_str).collect();
    format!("there are: {}", known.join(", "))
}

struct BackgroundEntry {
    id: TaskId,
    command: String,
    description: String,
    tool_use_id: Option<ToolUseId>,
    output_file: PathBuf,
    supervised: Supervised,
    is_service: bool,
    in_sandbox: bool,
    is_kept: bool,
    /// The most that is written to the file.
    file_limit: u64,
    /// How much of the file has been given out. Behind a lock of its own: reading takes a while.
    offset: Arc<Mutex<u64>>,
}

impl BackgroundEntry {
    fn outcome(&self) -> Option<Arc<Outcome>> {
        self.supervised.outcome.borrow().clone()
    }

    fn view(&self) -> BackgroundCommand {
        let outcome = self.outcome();
        BackgroundCommand {
            id: self.id.clone(),
            command: self.command.clone(),
            description: self.description.clone(),
            tool_use_id: self.tool_use_id.clone(),
            output_file: self.output_file.clone(),
            status: outcome
                .as_deref()
                .map_or(BackgroundStatus::Running, BackgroundStatus::of),
            elapsed: outcome.as_deref().map_or_else(
                || self.supervised.started.elapsed(),
                |outcome| outcome.duration,
            ),
            total_bytes: self.supervised.capture.lock().total(),
            leftovers: outcome.map_or_else(Vec::new, |outcome| outcome.leftovers.clone()),
            is_service: self.is_service,
            in_sandbox: self.in_sandbox,
            is_kept: self.is_kept,
        }
    }
}

#[derive(Default)]
struct Inner {
    entries: Vec<BackgroundEntry>,
    listeners: Vec<mpsc::UnboundedSender<BackgroundEvent>>,
}

impl Inner {
    fn find(&mut self, id: &str) -> Result<&mut BackgroundEntry, BackgroundError> {
        match self
            .entries
            .iter()
            .position(|entry| entry.id.as_str() == id)
        {
            Some(index) => Ok(&mut self.entries[index]),
            None => Err(BackgroundError::Unknown {
                id: id.to_owned(),
                known: self.entries.iter().map(|entry| entry.id.clone()).collect(),
            }),
        }
    }

    fn tell(&mut self, event: &BackgroundEvent) {
        self.listeners
            .retain(|listener| listener.send(event.clone()).is_ok());
    }
}

/// The background commands of a session. A clone is the same list.
#[derive(Clone, Default)]
pub struct BackgroundCommands {
    inner: Arc<Mutex<Inner>>,
}

impl std::fmt::Debug for BackgroundCommands {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.list()).finish()
    }
}

/// A command that goes into the background, and what is said about it.
pub(super) struct Adoption {
    pub(super) supervised: Supervised,
    pub(super) command: String,
    pub(super) description: String,
    pub(super) tool_use_id: Option<ToolUseId>,
    pub(super) is_service: bool,
    pub(super) in_sandbox: bool,
    pub(super) folder: PathBuf,
    pub(super) file_limit: u64,
}

impl BackgroundCommands {
    /// Takes a running command over.
    pub(super) async fn adopt(&self, adoption: Adoption) -> Result<TaskId, RunError> {
        let Adoption {
            supervised,
            command,
            description,
            tool_use_id,
            is_service,
            in_sandbox,
            folder,
            file_limit,
        } = adoption;
        let unique: String = RequestId::random().0.chars().take(8).collect();
        let id = TaskId(format!("bash_{unique}"));
        let wanted = folder.join(format!("{id}.output"));
        let (reply, answer) = oneshot::channel();
        // Nothing is sent or answered when it is over already; then its outcome knows the output.
        drop(
            supervised
                .orders
                .send(Order::WriteTo(wanted.clone(), reply)),
        );
        let output_file = match answer.await {
            Ok(Ok(path)) => path,
            Ok(Err(reason)) => {
                supervised.stop(StopCause::Cancelled);
                supervised.finished().await;
                return Err(RunError::OutputFile {
                    reason: reason.to_string(),
                });
            }
            Err(_) => write_late(&supervised, wanted).await?,
        };
        let entry = BackgroundEntry {
            id: id.clone(),
            command,
            description,
            tool_use_id,
            output_file,
            supervised: supervised.clone(),
            is_service,
            in_sandbox,
            is_kept: false,
            file_limit,
            offset: Arc::default(),
        };
        {
            let mut inner = self.inner.lock();
            let event = BackgroundEvent::Started(entry.view());
            inner.entries.push(entry);
            inner.tell(&event);
        }
        let inner = Arc::downgrade(&self.inner);
        let watched = id.clone();
        lathe_spawn::task(async move {
            supervised.finished().await;
            if let Some(inner) = inner.upgrade() {
                let mut inner = inner.lock();
                if let Ok(entry) = inner.find(watched.as_str())
                    && !entry.is_kept
                {
                    let event = BackgroundEvent::Ended(entry.view());
                    inner.tell(&event);
                }
            }
        });
        Ok(id)
    }

    /// All of them, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<BackgroundCommand> {
        self.inner
            .lock()
            .entries
            .iter()
            .map(BackgroundEntry::view)
            .collect()
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn get(&self, id: &str) -> Result<BackgroundCommand, BackgroundError> {
        self.inner.lock().find(id).map(|entry| entry.view())
    }

    /// Hears of every start and end from now on.
    #[must_use]
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<BackgroundEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.inner.lock().listeners.push(sender);
        receiver
    }

    /// The output since the last call. With a filter only the lines that it accepts;
    /// the others are gone for good. A line or character that is still being printed waits for the
    /// next time.
    ///
    /// # Errors
    /// When there is no such command, or its output can't be read.
    pub fn read_new(
        &self,
        id: &str,
        filter: Option<&dyn Fn(&str) -> bool>,
        limit: usize,
    ) -> Result<NewOutput, BackgroundError> {
        let (over, path, file_limit, offset, supervised) = {
            let mut inner = self.inner.lock();
            let entry = inner.find(id)?;
            (
                entry.outcome().is_some(),
                entry.output_file.clone(),
                entry.file_limit,
                Arc::clone(&entry.offset),
                entry.supervised.clone(),
            )
        };
        let mut given_out = offset.lock();
        let fail = |source| BackgroundError::Output {
            id: TaskId::from(id),
            path: path.clone(),
            source,
        };
        // Read in pieces and kept like a command's own output, so a gigabyte costs no more here.
        let mut kept = super::capture::Capture::new(limit);
        let mut file = std::fs::File::open(&path).map_err(fail)?;
        file.seek(SeekFrom::Start(*given_out)).map_err(fail)?;
        let mut piece: Vec<u8> = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        let mut offset = *given_out;
        loop {
            let count = file.read(&mut chunk).map_err(fail)?;
            piece.extend_from_slice(&chunk[..count]);
            let last = count == 0;
            let usable = match filter {
                _ if last && over => piece.len(),
                Some(_) => piece
                    .iter()
                    .rposition(|&byte| byte == b'\n')
                    .map_or(0, |at| at + 1),
                None => whole_characters(&piece),
            };
            match filter {
                Some(filter) => {
                    for line in piece[..usable].split_inclusive(|&byte| byte == b'\n') {
                        let text = String::from_utf8_lossy(line);
                        if filter(text.trim_end_matches(['\n', '\r'])) {
                            kept.push(line);
                        }
                    }
                }
                None => kept.push(&piece[..usable]),
            }
            offset += usable as u64;
            piece.drain(..usable);
            if last {
                break;
            }
        }
        let grew = offset > *given_out;
        *given_out = offset;
        let truncated = kept.omitted() > 0;
        let mut text = kept.text(|cut| {
            let path = path.display();
            format!("\n\n[{cut} bytes omitted; the full output is in {path}]\n\n")
        });
        let total = supervised.capture.lock().total();
        if offset >= file_limit && total > offset {
            if !grew {
                text.push_str(&supervised.capture.lock().last_lines(20, 4_000));
            }
            text.push_str(&format!(
                "\n[the output file is full at {file_limit} bytes of {total} and no longer grows]\n"
            ));
        }
        Ok(NewOutput { text, truncated })
    }

    /// Waits until it is over, at most this long; says how it is doing then.
    ///
    /// # Errors
    /// When there is none of that name.
    pub async fn wait(
        &self,
        id: &str,
        limit: Duration,
    ) -> Result<BackgroundCommand, BackgroundError> {
        let supervised = self.inner.lock().find(id)?.supervised.clone();
        // Running on past the limit is an answer too.
        drop(tokio::time::timeout(limit, supervised.finished()).await);
        self.get(id)
    }

    /// Ends it and everything it started; says how it was doing before and how it is now.
    ///
    /// # Errors
    /// When there is none of that name.
    pub async fn stop(
        &self,
        id: &str,
    ) -> Result<(BackgroundStatus, BackgroundCommand), BackgroundError> {
        let (before, supervised) = {
            let mut inner = self.inner.lock();
            let entry = inner.find(id)?;
            (entry.view().status, entry.supervised.clone())
        };
        supervised.stop(StopCause::Cancelled);
        supervised.finished().await;
        Ok((before, self.get(id)?))
    }

    /// Keeps it when the session ends, or no longer: the user's word.
    ///
    /// # Errors
    /// When there is none of that name, it is over, or it runs in a sandbox.
    pub fn keep(&self, id: &str, is_kept: bool) -> Result<BackgroundCommand, BackgroundError> {
        let mut inner = self.inner.lock();
        let entry = inner.find(id)?;
        let why = if entry.outcome().is_some() {
            Some("it is over")
        } else if entry.in_sandbox {
            Some("its sandbox ends with the session")
        } else if entry.is_service {
            Some("it belongs to a plugin")
        } else {
            None
        };
        if let Some(why) = why.filter(|_| is_kept) {
            let id = entry.id.clone();
            return Err(BackgroundError::NotKept { id, why });
        }
        entry.is_kept = is_kept;
        Ok(entry.view())
    }

    /// The end of the session: lets those go that the user keeps, and ends all others.
    pub async fn end_session(&self) {
        let all: Vec<(Supervised, bool)> = {
            let inner = self.inner.lock();
            let entries = inner.entries.iter();
            entries
                .map(|entry| (entry.supervised.clone(), entry.is_kept))
                .collect()
        };
        for (command, is_kept) in &all {
            if *is_kept {
                // An error means that it is over already.
                drop(command.orders.send(Order::LetGo));
            } else {
                command.stop(StopCause::Cancelled);
            }
        }
        for (command, _) in &all {
            command.finished().await;
        }
    }
}

/// The command was over before it could be told to write a file: its output is all in its outcome.
async fn write_late(supervised: &Supervised, path: PathBuf) -> Result<PathBuf, RunError> {
    let outcome = supervised.finished().await;
    let output = outcome.map(|outcome| outcome.output.clone());
    if let Some(path) = output.as_ref().and_then(|output| output.file.clone()) {
        return Ok(path);
    }
    let bytes = supervised.capture.lock().kept();
    let write = |path: &Path| {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, into_text(bytes))
    };
    write(&path).map_err(|error| RunError::OutputFile {
        reason: format!("{}: {error}", path.display()),
    })?;
    Ok(path)
}
