//! Appending to a transcript.
//!
//! One writer thread per file takes records in order from a queue, so that nothing here ever makes
//! the engine wait for a disk unless it asks to ([`TranscriptWriter::append_synced`],
//! [`TranscriptWriter::flush`]). Plain appends are gathered for 100 ms and written together. It is a
//! thread rather than a task so that what is queued still reaches the disk while the runtime shuts
//! down.
//!
//! - **Torn tail.** A last line without its end is completed (a whole record) or cut off (half a
//!   record) before anything is appended.
//! - **Two processes.** A writer holds an advisory lock on the file. A second one is refused with
//!   [`SessionError::InUse`], which names the process where the system tells; a fork is the way out.
//!   Programs that only append a title line don't take the lock, and needn't: each batch goes out as
//!   one append.
//! - **Full disk.** A batch that can't be written is taken back whole, reported once
//!   ([`WriteProblem::Failing`]), kept in memory and tried again every second and whenever somebody
//!   waits for it. When more than [`WriterOptions::memory_limit`] is waiting, newer records are dropped and
//!   counted ([`WriteProblem::Lost`]): what is on disk stays a true beginning of the session.
//! - **Long files.** Title, tag, mode, totals and task list are repeated near the end, where readers
//!   that look at the two ends of a file find them.
//! - **No persistence.** [`TranscriptWriter::disabled`] has the same methods and writes nothing.

mod file;
mod queue;

use crate::error::SessionError;
use file::TranscriptFile;
use lathe_protocol::record::Record;
use queue::{Receiver, Sender, Silence};
use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Called on the writer's thread after each batch that reached the file.
pub type Observer = Arc<dyn Fn(&Path, &[Arc<Record>]) + Send + Sync>;
/// Called on the writer's thread when writing fails, and when it works again.
pub type ProblemHandler = Arc<dyn Fn(&WriteProblem) + Send + Sync>;

/// How to write.
#[derive(Clone)]
pub struct WriterOptions {
    /// Told of each written batch.
    pub observer: Option<Observer>,
    /// Told of trouble.
    pub on_problem: Option<ProblemHandler>,
    /// How long plain appends are gathered.
    pub batch_window: Duration,
    /// How many bytes may wait in memory while the file can't be written.
    pub memory_limit: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            observer: None,
            on_problem: None,
            batch_window: Duration::from_millis(100),
            memory_limit: 64 << 20,
        }
    }
}

impl fmt::Debug for WriterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriterOptions")
            .field("batch_window", &self.batch_window)
            .field("memory_limit", &self.memory_limit)
            .finish_non_exhaustive()
    }
}

/// Trouble with writing, and its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteProblem {
    /// Records wait in memory because the file can't be written. Said once until it works again.
    #[error("the transcript {} can't be written ({error}); records that wait in memory: {waiting}", path.display())]
    Failing {
        /// The transcript.
        path: PathBuf,
        /// The system's error.
        error: String,
        /// How many records wait.
        waiting: usize,
    },
    /// Too much is waiting: records are being dropped. Said once until it works again.
    #[error("the transcript {} can't be written and memory for it ran out: newer records are being lost", path.display())]
    Lost {
        /// The transcript.
        path: PathBuf,
    },
    /// Everything that waited is written.
    #[error("the transcript {} is written again (lost records: {lost})", path.display())]
    Recovered {
        /// The transcript.
        path: PathBuf,
        /// How many records were dropped since the trouble began.
        lost: u64,
    },
}

type Reply = oneshot::Sender<Result<(), SessionError>>;

enum Command {
    Append(Arc<Record>),
    AppendSynced(Vec<Arc<Record>>, Reply),
    Flush(Reply),
    Sync(Reply),
    Close(Reply),
}

/// A handle to the writer of one transcript. Clones write to the same file in order; when the last
/// one is dropped, what is queued is written and the file closed.
#[derive(Clone)]
pub struct TranscriptWriter {
    path: Arc<Path>,
    sender: Option<Arc<Sender>>,
}

impl fmt::Debug for TranscriptWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TranscriptWriter")
            .field("path", &self.path)
            .field("persistent", &self.is_persistent())
            .finish()
    }
}

impl TranscriptWriter {
    /// A writer of a new transcript. The file (0600, folders 0700) appears with the first record, so
    /// a session in which nothing was said leaves nothing behind.
    ///
    /// # Errors
    /// [`SessionError::AlreadyExists`] when the file is there, or when no thread can be started.
    pub fn create(path: &Path, options: WriterOptions) -> Result<Self, SessionError> {
        let file = TranscriptFile::new(path)?;
        Self::start(path, file, options)
    }

    /// A writer that continues with a transcript. A torn tail is repaired now.
    ///
    /// # Errors
    /// [`SessionError::InUse`] when another writer holds it, or when it can't be opened.
    pub fn open_append(path: &Path, options: WriterOptions) -> Result<Self, SessionError> {
        let file = TranscriptFile::open(path)?;
        Self::start(path, file, options)
    }

    /// A writer that writes nothing (`--no-session-persistence`).
    #[must_use]
    pub fn disabled(path: &Path) -> Self {
        Self {
            path: path.into(),
            sender: None,
        }
    }

    fn start(
        path: &Path,
        file: TranscriptFile,
        options: WriterOptions,
    ) -> Result<Self, SessionError> {
        let (sender, receiver) = queue::channel();
        let worker = Worker {
            path: path.to_owned(),
            file,
            options,
            waiting: Vec::new(),
            waiting_bytes: 0,
            failing: false,
            lost: 0,
            lost_in_all: 0,
        };
        std::thread::Builder::new()
            .name("transcript".to_owned())
            .spawn(move || worker.run(receiver))
            .map_err(SessionError::io("start the writer of", path))?;
        Ok(Self {
            path: path.into(),
            sender: Some(Arc::new(sender)),
        })
    }

    /// The transcript.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether anything is written at all.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.sender.is_some()
    }

    /// Queues a record. Never blocks; problems go to [`WriterOptions::on_problem`].
    pub fn append(&self, record: impl Into<Arc<Record>>) {
        if let Some(sender) = &self.sender
            && sender.send(Command::Append(record.into())).is_err()
        {
            tracing::error!(path = %self.path.display(), "a record came after the transcript was closed");
        }
    }

    /// Queues a record and waits until it, and everything before it, is safely on disk.
    ///
    /// # Errors
    /// When it isn't. The record is kept and tried again, unless the error is
    /// [`SessionError::RecordsLost`] or [`SessionError::Closed`].
    pub async fn append_synced(&self, record: impl Into<Arc<Record>>) -> Result<(), SessionError> {
        self.append_all_synced(vec![record.into()]).await
    }

    /// As [`TranscriptWriter::append_synced`], for records that belong together: they are one write.
    ///
    /// # Errors
    /// As for one record.
    pub async fn append_all_synced(&self, records: Vec<Arc<Record>>) -> Result<(), SessionError> {
        self.ask(|reply| Command::AppendSynced(records, reply))
            .await
    }

    /// Waits until everything queued has been handed to the system: it survives the end of this
    /// process, however it ends.
    ///
    /// # Errors
    /// When it can't be written; it is kept and tried again.
    pub async fn flush(&self) -> Result<(), SessionError> {
        self.ask(Command::Flush).await
    }

    /// As [`TranscriptWriter::flush`], and it survives a loss of power too.
    ///
    /// # Errors
    /// When it can't be written; it is kept and tried again.
    pub async fn sync(&self) -> Result<(), SessionError> {
        self.ask(Command::Sync).await
    }

    /// Writes what is queued, releases the file and ends the thread. Later appends are refused.
    /// Closing twice does nothing.
    ///
    /// # Errors
    /// When something could not be written; it is lost then.
    pub async fn close(&self) -> Result<(), SessionError> {
        match self.ask(Command::Close).await {
            Err(SessionError::Closed { .. }) => Ok(()),
            other => other,
        }
    }

    async fn ask(&self, command: impl FnOnce(Reply) -> Command) -> Result<(), SessionError> {
        let Some(sender) = &self.sender else {
            return Ok(());
        };
        let closed = || SessionError::Closed {
            path: self.path.to_path_buf(),
        };
        let (reply, answer) = oneshot::channel();
        sender.send(command(reply)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

/// A record that isn't in the file yet.
struct Waiting {
    record: Arc<Record>,
    line: Vec<u8>,
}

struct Worker {
    path: PathBuf,
    file: TranscriptFile,
    options: WriterOptions,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    failing: bool,
    /// Records dropped since the trouble began.
    lost: u64,
    lost_in_all: u64,
}

/// How often a failing write is tried again by itself.
const RETRY_EVERY: Duration = Duration::from_secs(1);

impl Worker {
    // By value: when the thread ends, its end of the queue is dropped.
    fn run(mut self, commands: Receiver) {
        let mut due: Option<Instant> = None;
        loop {
            // While writing fails, each record is taken as it comes: memory for them is limited.
            match commands.receive(due, !self.failing) {
                Ok(received) => {
                    for command in received {
                        match command {
                            Command::Close(reply) => {
                                let result = self.finish();
                                // The lock must be gone before the answer is: the next writer may be
                                // waiting.
                                drop(self);
                                drop(commands);
                                let _ = reply.send(result);
                                return;
                            }
                            other => self.obey(other),
                        }
                    }
                }
                Err(Silence::Due) => {}
                Err(Silence::Abandoned) => {
                    let _ = self.finish();
                    return;
                }
            }
            let now = Instant::now();
            if due.is_some_and(|due| due <= now) {
                // Reported by `write` itself.
                let _ = self.write(false);
            }
            let wait = if self.failing {
                RETRY_EVERY
            } else {
                self.options.batch_window
            };
            due = match due {
                _ if self.waiting.is_empty() => None,
                Some(due) if due > now => Some(due),
                _ => Some(now + wait),
            };
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Append(record) => self.take(record),
            Command::AppendSynced(records, reply) => {
                let lost = self.lost_in_all;
                for record in records {
                    self.take(record);
                }
                let result = if self.lost_in_all > lost {
                    Err(self.records_lost())
                } else {
                    self.write(true)
                };
                // The caller may have stopped waiting; the record is written anyway.
                let _ = reply.send(result);
            }
            Command::Flush(reply) => drop(reply.send(self.write(false))),
            Command::Sync(reply) | Command::Close(reply) => drop(reply.send(self.write(true))),
        }
    }

    fn take(&mut self, record: Arc<Record>) {
        let line = match serde_json::to_vec(&*record) {
            Ok(mut line) => {
                line.push(b'\n');
                line
            }
            Err(error) => {
                // Records are made of JSON, so this is a fault in a record's own code.
                tracing::error!(%error, "a record can't be written as JSON");
                return;
            }
        };
        if self.failing && self.waiting_bytes + line.len() > self.options.memory_limit {
            if self.lost == 0 {
                self.report(&WriteProblem::Lost {
                    path: self.path.clone(),
                });
            }
            self.lost += 1;
            self.lost_in_all += 1;
            return;
        }
        self.waiting_bytes += line.len();
        self.waiting.push(Waiting { record, line });
    }

    /// Writes everything that waits, all or nothing.
    fn write(&mut self, sync: bool) -> Result<(), SessionError> {
        let result = self.write_waiting(sync);
        match &result {
            Ok(()) if self.failing => {
                let problem = WriteProblem::Recovered {
                    path: self.path.clone(),
                    lost: self.lost,
                };
                self.failing = false;
                self.lost = 0;
                self.report(&problem);
            }
            Err(error) if !self.failing => {
                self.failing = true;
                self.report(&WriteProblem::Failing {
                    path: self.path.clone(),
                    error: error.to_string(),
                    waiting: self.waiting.len(),
                });
            }
            _ => {}
        }
        result
    }

    fn write_waiting(&mut self, sync: bool) -> Result<(), SessionError> {
        if !self.waiting.is_empty() {
            let lines = self
                .waiting
                .iter()
                .map(|waiting| (&*waiting.record, waiting.line.as_slice()));
            self.file.append(lines)?;
            self.waiting_bytes = 0;
            let written: Vec<Arc<Record>> = self
                .waiting
                .drain(..)
                .map(|waiting| waiting.record)
                .collect();
            if let Some(observer) = &self.options.observer {
                contained(|| observer(&self.path, &written));
            }
        }
        if sync { self.file.sync() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), SessionError> {
        self.write(true)?;
        if self.lost_in_all > 0 {
            Err(self.records_lost())
        } else {
            Ok(())
        }
    }

    fn records_lost(&self) -> SessionError {
        SessionError::RecordsLost {
            count: self.lost_in_all,
            path: self.path.clone(),
        }
    }

    fn report(&self, problem: &WriteProblem) {
        tracing::warn!("{problem}");
        if let Some(handler) = &self.options.on_problem {
            contained(|| handler(problem));
        }
    }
}

/// Keeps a fault in somebody's callback from ending the writing.
fn contained(callback: impl FnOnce()) {
    if std::panic::catch_unwind(AssertUnwindSafe(callback)).is_err() {
        tracing::error!("a callback of the transcript writer panicked");
    }
}

/// Whether another writer holds a transcript: its process, where the system tells.
///
/// # Errors
/// When the file can't be opened.
pub fn holder(path: &Path) -> io::Result<Option<Option<u32>>> {
    file::holder(path)
}
