//! The storage that a fleet runs on, in the few operations that a queue needs.
//!
//! Two implementations pass the same tests (`tests/suite.rs`): [`Folders`](crate::Folders) on the disk of this
//! machine, and NATS JetStream. The protocol (claims, fencing, parking, budgets) is above, once for both
//! ([`Fleet`](crate::Fleet)).

use crate::entry::{Budget, Entry};
use crate::error::QueueError;
use crate::job::JobKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::any::Any;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;

/// An operation under way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, QueueError>> + Send + 'a>>;

/// A value, and the revision that a change of it must name.
#[derive(Debug, Clone, PartialEq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// The revision.
    pub revision: u64,
}

/// The jobs that a worker takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Their classes.
    pub classes: Vec<String>,
    /// The labels of the worker.
    pub labels: Vec<String>,
    /// The secrets that it passes on.
    pub secrets: Vec<String>,
    /// How long a message stays with a worker that says nothing.
    pub lease: Duration,
}

/// A message of the queue that a worker has.
#[derive(Debug)]
pub struct Ticket {
    /// The job that it is about.
    pub key: JobKey,
    /// The message, as the implementation knows it.
    pub message: Box<dyn Any + Send + Sync>,
}

/// A question of a job, and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// The name of the question within its job.
    pub id: String,
    /// The tool that needs permission.
    pub tool: String,
    /// The input of the call.
    pub input: Value,
    /// A line that describes it.
    pub title: String,
    /// The working folder at that moment; another attempt has another one.
    pub folder: PathBuf,
    /// When it was asked.
    pub at: i64,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

impl Ask {
    /// True if this is the same question for a call that was made again, perhaps in another folder.
    #[must_use]
    pub fn is_about(&self, tool: &str, input: &Value, folder: &Path) -> bool {
        let plain = |input: &Value, folder: &Path| {
            let folder = folder.to_string_lossy();
            input.to_string().replace(folder.as_ref(), ".")
        };
        self.tool == tool && plain(&self.input, &self.folder) == plain(input, folder)
    }
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// True if the call may run.
    pub allow: bool,
    /// A message for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Another input for the call: the answers to questions that the model asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Who answered.
    pub by: String,
}

/// A worker, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerInfo {
    /// Its name.
    pub name: String,
    /// The machine.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// How many jobs it runs at a time.
    pub slots: usize,
    /// How many run now.
    pub busy: usize,
    /// The classes that it takes.
    pub classes: Vec<String>,
    /// Its labels.
    pub labels: Vec<String>,
    /// When it wrote this, in milliseconds of its own clock.
    pub at: i64,
}

/// One check of a storage, for `fleet doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// True if nothing is wrong.
    pub ok: bool,
    /// The finding.
    pub text: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    /// A check that found nothing wrong.
    #[must_use]
    pub fn fine(name: &str, text: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            ok: true,
            text: text.into(),
            fix: None,
        }
    }

    /// A check that found something, with the remedy.
    #[must_use]
    pub fn wrong(name: &str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            ok: false,
            text: text.into(),
            fix: Some(fix.into()),
        }
    }
}

/// A storage. Every change is durable when its future is ready.
pub trait Backend: Send + Sync + Debug {
    /// Where it is, for messages.
    fn describe(&self) -> String;
    /// The time of the queue in milliseconds.
    fn now(&self) -> i64;
    /// A job.
    fn entry<'a>(&'a self, key: &'a JobKey) -> Pending<'a, Option<Versioned<Entry>>>;
    /// All jobs.
    fn entries(&self) -> Pending<'_, Vec<Entry>> {
        Box::pin(async move {
            let mut entries = Vec::new();
            for key in self.keys().await? {
                entries.extend(self.entry(&key).await?.map(|found| found.value));
            }
            Ok(entries)
        })
    }
    /// The names of all jobs.
    fn keys(&self) -> Pending<'_, Vec<JobKey>>;
    /// Writes a job if its revision is still this one; 0 if it must be new. [`QueueError::Conflict`] otherwise.
    fn put<'a>(&'a self, entry: &'a Entry, revision: u64) -> Pending<'a, u64>;
    /// Puts a job into the queue. A job that is there already is there once.
    fn offer<'a>(&'a self, entry: &'a Entry) -> Pending<'a, ()>;
    /// Takes a message, waiting for one at most this long.
    fn take<'a>(&'a self, wanted: &'a Wanted, wait: Duration) -> Pending<'a, Option<Ticket>>;
    /// Keeps a message for another lease.
    fn keep<'a>(&'a self, ticket: &'a Ticket) -> Pending<'a, ()>;
    /// Removes a message.
    fn remove(&self, ticket: Ticket) -> Pending<'_, ()>;
    /// Puts a message back, to be handed out after a delay.
    fn put_back(&self, ticket: Ticket, delay: Duration) -> Pending<'_, ()>;
    /// Appends to the log of a job if its last record is still this one. [`QueueError::Conflict`] otherwise.
    fn append<'a>(&'a self, key: &'a JobKey, last: u64, record: Vec<u8>) -> Pending<'a, u64>;
    /// The records of a log after a position, with their positions.
    fn log<'a>(&'a self, key: &'a JobKey, after: u64) -> Pending<'a, Vec<(u64, Vec<u8>)>>;
    /// Stores bytes under their SHA-256.
    fn put_blob(&self, hash: String, bytes: Vec<u8>) -> Pending<'_, ()>;
    /// Reads bytes.
    fn blob<'a>(&'a self, hash: &'a str) -> Pending<'a, Vec<u8>>;
    /// Writes a question.
    fn put_ask<'a>(&'a self, key: &'a JobKey, ask: &'a Ask) -> Pending<'a, ()>;
    /// Writes the answer to a question if there is none. False if there is.
    fn put_answer<'a>(
        &'a self,
        key: &'a JobKey,
        ask: &'a str,
        answer: &'a Answer,
    ) -> Pending<'a, bool>;
    /// The questions of a job with their answers, oldest first.
    fn asks<'a>(&'a self, key: &'a JobKey) -> Pending<'a, Vec<Ask>>;
    /// Notes that a job waits for another.
    fn put_waiter<'a>(&'a self, before: &'a JobKey, waiter: &'a JobKey) -> Pending<'a, ()>;
    /// The jobs that wait for a job.
    fn waiters<'a>(&'a self, before: &'a JobKey) -> Pending<'a, Vec<JobKey>>;
    /// The budget of a tenant; revision 0 if it has none.
    fn budget<'a>(&'a self, tenant: &'a str) -> Pending<'a, Versioned<Budget>>;
    /// Writes a budget if its revision is still this one.
    fn put_budget<'a>(
        &'a self,
        tenant: &'a str,
        budget: &'a Budget,
        revision: u64,
    ) -> Pending<'a, u64>;
    /// Writes the description of a worker.
    fn put_worker<'a>(&'a self, worker: &'a WorkerInfo) -> Pending<'a, ()>;
    /// The workers that wrote theirs within the last 30 seconds.
    fn workers(&self) -> Pending<'_, Vec<WorkerInfo>>;
    /// True for the first who asks with this name; others get false for at least 30 seconds. For upkeep that one worker of all
    /// does.
    fn is_first<'a>(&'a self, name: &'a str) -> Pending<'a, bool>;
    /// Sends a message to who listens now.
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> Pending<'a, ()>;
    /// Receives the messages of a topic from now on.
    fn listen<'a>(&'a self, topic: &'a str) -> Pending<'a, mpsc::UnboundedReceiver<Vec<u8>>>;
    /// Checks the storage.
    fn checks(&self) -> Pending<'_, Vec<Check>>;
}
