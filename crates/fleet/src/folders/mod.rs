//! The queue of one machine: folders where a rename is a claim. Any number of processes use it at the same time.
//!
//! ```text
//! queue/CLASS/  claimed/CLASS/  delayed/CLASS/     messages (see `messages`)
//! jobs/TENANT.ID/entry.json                        the state, changed by compare-and-set under a lock
//! jobs/TENANT.ID/log.jsonl                         the log; a line is a record
//! jobs/TENANT.ID/asks/  waiters/                   questions and answers; jobs that wait for this one
//! blobs/SHA256  budgets/TENANT.json  workers/NAME.json  topics/
//! ```
//! What is written is synced before an operation ends. The folder must be on a local disk: locks and renames over a
//! network are not what this relies on.

mod files;
mod messages;

use crate::backend::{Answer, Ask, Backend, Check, Pending, Ticket, Versioned, Wanted, WorkerInfo};
use crate::entry::{Budget, Entry};
use crate::error::QueueError;
use crate::job::{JobKey, is_word};
use files::Stored;
use messages::{Message, Messages};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often a queue that has nothing is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How often a topic is looked at.
const FOLLOW: Duration = Duration::from_millis(20);
/// A topic that nobody reads for this long is not written.
const UNREAD: i64 = 5_000;
/// The most bytes of a topic that are kept.
const LARGEST_TOPIC: u64 = 4 << 20;
/// How long a worker is listed after it last said something.
const WORKER: i64 = 30_000;

/// The queue of this machine.
#[derive(Debug, Clone)]
pub struct Folders {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    messages: Messages,
    /// Bytes and records of logs that this process appended to.
    lengths: Mutex<HashMap<JobKey, (u64, u64)>>,
}

impl Folders {
    /// Opens the queue in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// If the folder can't be made.
    pub fn open(root: &Path) -> Result<Self, QueueError> {
        for name in [
            "jobs", "queue", "claimed", "delayed", "blobs", "budgets", "workers", "topics",
        ] {
            files::create_folder(&root.join(name))?;
        }
        Ok(Self {
            inner: Arc::new(Inner {
                root: root.to_owned(),
                messages: Messages::new(root),
                lengths: Mutex::default(),
            }),
        })
    }

    /// Runs work on a thread that may wait.
    fn run<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, QueueError> + Send + 'static,
    ) -> Pending<'a, T> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            lathe_spawn::blocking(move || work(&inner))
                .await
                .map_err(|error| QueueError::Server(error.to_string()))?
        })
    }
}

impl Inner {
    fn job(&self, key: &JobKey) -> PathBuf {
        self.root.join("jobs").join(key.to_string())
    }

    fn append(&self, key: &JobKey, last: u64, mut record: Vec<u8>) -> Result<u64, QueueError> {
        let folder = self.job(key);
        let path = folder.join("log.jsonl");
        let failed = QueueError::io("append to", &path);
        let _locked = files::lock(&folder.join("log.lock"))?;
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(&path)
            .map_err(&failed)?;
        let length = file.metadata().map_err(&failed)?.len();
        let known = self.lengths.lock().get(key).copied();
        let count = match known {
            Some((bytes, count)) if bytes == length => count,
            _ => whole_lines(&mut file).map_err(&failed)?,
        };
        if count != last {
            return Err(QueueError::Conflict);
        }
        record.push(b'\n');
        file.write_all(&record).map_err(&failed)?;
        file.sync_data().map_err(&failed)?;
        if length == 0 {
            files::sync_folder(&folder)?;
        }
        let length = file.metadata().map_err(&failed)?.len();
        self.lengths.lock().insert(key.clone(), (length, count + 1));
        Ok(count + 1)
    }

    fn log(&self, key: &JobKey, after: u64) -> Result<Vec<(u64, Vec<u8>)>, QueueError> {
        let bytes = files::read(&self.job(key).join("log.jsonl"))?.unwrap_or_default();
        let lines = bytes
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| line.ends_with(b"\n"));
        let skipped = usize::try_from(after).unwrap_or(usize::MAX);
        Ok((after + 1..)
            .zip(lines.skip(skipped))
            .map(|(position, line)| (position, line[..line.len() - 1].to_vec()))
            .collect())
    }

    fn asks(&self, key: &JobKey) -> Result<Vec<Ask>, QueueError> {
        let folder = self.job(key).join("asks");
        let mut asks = Vec::new();
        for name in files::names(&folder)? {
            let Some(id) = name.strip_suffix(".ask.json") else {
                continue;
            };
            let Some(mut ask): Option<Ask> = files::read_json(&folder.join(&name))? else {
                continue;
            };
            ask.answer = files::read_json(&folder.join(format!("{id}.answer.json")))?;
            asks.push(ask);
        }
        asks.sort_by_key(|ask| ask.at);
        Ok(asks)
    }

    fn publish(&self, topic: &str, mut message: Vec<u8>) -> Result<(), QueueError> {
        let path = self.root.join("topics").join(topic);
        let read = path.with_file_name(format!("{topic}.read"));
        let failed = QueueError::io("write", &path);
        let Ok(touched) = std::fs::metadata(&read).and_then(|found| found.modified()) else {
            return Ok(());
        };
        let silent = touched.elapsed().unwrap_or_default().as_millis();
        if silent > UNREAD.unsigned_abs().into() {
            files::remove(&path)?;
            return files::remove(&read);
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(&failed)?;
        if file.metadata().map_err(&failed)?.len() > LARGEST_TOPIC {
            file.set_len(0).map_err(&failed)?;
        }
        message.push(b'\n');
        file.write_all(&message).map_err(&failed)
    }

    fn checks(&self) -> Result<Vec<Check>, QueueError> {
        let mut checks = vec![Check::fine(
            "queue",
            format!("folders in {}", self.root.display()),
        )];
        let probe = self.root.join("probe.json");
        let begun = Instant::now();
        files::write(&probe, b"{}")?;
        let took = begun.elapsed();
        files::remove(&probe)?;
        let text = format!("a durable write takes {:.1} ms", took.as_secs_f64() * 1e3);
        checks.push(if took < Duration::from_millis(100) {
            Check::fine("disk", text)
        } else {
            Check::wrong("disk", text, "move the folder to a faster local disk")
        });
        let (held, silent) = self.messages.silent()?;
        checks.push(if silent == 0 {
            Check::fine("messages", format!("{held} are with workers"))
        } else {
            Check::wrong(
                "messages",
                format!("{silent} of {held} workers are silent for longer than their lease"),
                "start a worker: it takes their jobs over",
            )
        });
        Ok(checks)
    }
}

/// Counts the records of a log, and removes a last one that was cut off by a crash.
fn whole_lines(file: &mut File) -> std::io::Result<u64> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let whole = end.map_or(0, |at| at + 1);
    if whole < bytes.len() {
        file.set_len(whole as u64)?;
    }
    Ok(bytes[..whole].iter().filter(|byte| **byte == b'\n').count() as u64)
}

fn message(ticket: &Ticket) -> Result<&Message, QueueError> {
    ticket
        .message
        .downcast_ref()
        .ok_or_else(|| QueueError::Server("a message of another queue".to_owned()))
}

impl Backend for Folders {
    fn describe(&self) -> String {
        self.inner.root.display().to_string()
    }

    fn now(&self) -> i64 {
        messages::now()
    }

    fn entry<'a>(&'a self, key: &'a JobKey) -> Pending<'a, Option<Versioned<Entry>>> {
        let key = key.clone();
        self.run(move |inner| {
            let stored: Option<Stored<Entry>> =
                files::read_json(&inner.job(&key).join("entry.json"))?;
            Ok(stored.map(|stored| Versioned {
                value: stored.value,
                revision: stored.revision,
            }))
        })
    }

    fn keys(&self) -> Pending<'_, Vec<JobKey>> {
        self.run(|inner| {
            let names = files::names(&inner.root.join("jobs"))?;
            Ok(names
                .iter()
                .filter_map(|name| JobKey::parse(name))
                .collect())
        })
    }

    fn put<'a>(&'a self, entry: &'a Entry, revision: u64) -> Pending<'a, u64> {
        let entry = entry.clone();
        self.run(move |inner| {
            let folder = inner.job(&entry.job.key());
            if revision == 0 {
                files::create_folder(&folder)?;
                files::sync_folder(&inner.root.join("jobs"))?;
            }
            files::compare_and_set(&folder.join("entry.json"), &entry, revision)
        })
    }

    fn offer<'a>(&'a self, entry: &'a Entry) -> Pending<'a, ()> {
        let entry = entry.clone();
        self.run(move |inner| inner.messages.offer(&entry))
    }

    fn take<'a>(&'a self, wanted: &'a Wanted, wait: Duration) -> Pending<'a, Option<Ticket>> {
        Box::pin(async move {
            let until = Instant::now() + wait;
            loop {
                let wanted = wanted.clone();
                let taken = self.run(move |inner| inner.messages.take(&wanted)).await?;
                if let Some((key, message)) = taken {
                    return Ok(Some(Ticket {
                        key,
                        message: Box::new(message),
                    }));
                }
                if Instant::now() >= until {
                    return Ok(None);
                }
                tokio::time::sleep(LOOK).await;
            }
        })
    }

    fn keep<'a>(&'a self, ticket: &'a Ticket) -> Pending<'a, ()> {
        Box::pin(async move { self.inner.messages.keep(message(ticket)?) })
    }

    fn remove(&self, ticket: Ticket) -> Pending<'_, ()> {
        self.run(move |inner| inner.messages.remove(message(&ticket)?))
    }

    fn put_back(&self, ticket: Ticket, delay: Duration) -> Pending<'_, ()> {
        self.run(move |inner| inner.messages.put_back(message(&ticket)?, delay))
    }

    fn append<'a>(&'a self, key: &'a JobKey, last: u64, record: Vec<u8>) -> Pending<'a, u64> {
        let key = key.clone();
        self.run(move |inner| inner.append(&key, last, record))
    }

    fn log<'a>(&'a self, key: &'a JobKey, after: u64) -> Pending<'a, Vec<(u64, Vec<u8>)>> {
        let key = key.clone();
        self.run(move |inner| inner.log(&key, after))
    }

    fn put_blob(&self, hash: String, bytes: Vec<u8>) -> Pending<'_, ()> {
        self.run(move |inner| {
            files::write_new(&inner.root.join("blobs").join(hash), &bytes).map(|_| ())
        })
    }

    fn blob<'a>(&'a self, hash: &'a str) -> Pending<'a, Vec<u8>> {
        let hash = hash.to_owned();
        self.run(move |inner| {
            let missing = || QueueError::damaged(format!("blob {hash}"), "it is not there");
            if !is_word(&hash) {
                return Err(missing());
            }
            files::read(&inner.root.join("blobs").join(&hash))?.ok_or_else(missing)
        })
    }

    fn put_ask<'a>(&'a self, key: &'a JobKey, ask: &'a Ask) -> Pending<'a, ()> {
        let (key, ask) = (key.clone(), ask.clone());
        self.run(move |inner| {
            let folder = inner.job(&key).join("asks");
            files::create_folder(&folder)?;
            files::write_json(&folder.join(format!("{}.ask.json", ask.id)), &ask)
        })
    }

    fn put_answer<'a>(
        &'a self,
        key: &'a JobKey,
        ask: &'a str,
        answer: &'a Answer,
    ) -> Pending<'a, bool> {
        let (key, ask, answer) = (key.clone(), ask.to_owned(), answer.clone());
        self.run(move |inner| {
            let folder = inner.job(&key).join("asks");
            files::create_folder(&folder)?;
            let bytes = serde_json::to_vec(&answer)
                .map_err(|error| QueueError::damaged("an answer", error))?;
            files::write_new(&folder.join(format!("{ask}.answer.json")), &bytes)
        })
    }

    fn asks<'a>(&'a self, key: &'a JobKey) -> Pending<'a, Vec<Ask>> {
        let key = key.clone();
        self.run(move |inner| inner.asks(&key))
    }

    fn put_waiter<'a>(&'a self, before: &'a JobKey, waiter: &'a JobKey) -> Pending<'a, ()> {
        let (before, waiter) = (before.clone(), waiter.to_string());
        self.run(move |inner| {
            let folder = inner.job(&before).join("waiters");
            files::create_folder(&folder)?;
            files::write(&folder.join(waiter), b"")
        })
    }

    fn waiters<'a>(&'a self, before: &'a JobKey) -> Pending<'a, Vec<JobKey>> {
        let before = before.clone();
        self.run(move |inner| {
            let names = files::names(&inner.job(&before).join("waiters"))?;
            Ok(names
                .iter()
                .filter_map(|name| JobKey::parse(name))
                .collect())
        })
    }

    fn budget<'a>(&'a self, tenant: &'a str) -> Pending<'a, Versioned<Budget>> {
        let tenant = tenant.to_owned();
        self.run(move |inner| {
            let path = inner.root.join("budgets").join(format!("{tenant}.json"));
            let stored: Option<Stored<Budget>> = files::read_json(&path)?;
            Ok(match stored {
                Some(stored) => Versioned {
                    value: stored.value,
                    revision: stored.revision,
                },
                None => Versioned {
                    value: Budget::default(),
                    revision: 0,
                },
            })
        })
    }

    fn put_budget<'a>(
        &'a self,
        tenant: &'a str,
        budget: &'a Budget,
        revision: u64,
    ) -> Pending<'a, u64> {
        let (tenant, budget) = (tenant.to_owned(), budget.clone());
        self.run(move |inner| {
            let path = inner.root.join("budgets").join(format!("{tenant}.json"));
            files::compare_and_set(&path, &budget, revision)
        })
    }

    fn put_worker<'a>(&'a self, worker: &'a WorkerInfo) -> Pending<'a, ()> {
        let worker = worker.clone();
        self.run(move |inner| {
            let path = inner
                .root
                .join("workers")
                .join(format!("{}.json", worker.name));
            files::write_json(&path, &worker)
        })
    }

    fn workers(&self) -> Pending<'_, Vec<WorkerInfo>> {
        self.run(|inner| {
            let folder = inner.root.join("workers");
            let now = messages::now();
            let mut workers: Vec<WorkerInfo> = Vec::new();
            for name in files::names(&folder)? {
                let path = folder.join(name);
                match files::read_json::<WorkerInfo>(&path)? {
                    Some(worker) if now - worker.at < WORKER => workers.push(worker),
                    _ => files::remove(&path)?,
                }
            }
            workers.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(workers)
        })
    }

    fn is_first<'a>(&'a self, name: &'a str) -> Pending<'a, bool> {
        let name = name.to_owned();
        self.run(move |inner| {
            let folder = inner.root.join("turns");
            files::create_folder(&folder)?;
            let first = files::write_new(&folder.join(&name), b"")?;
            if first {
                for older in files::names(&folder)?.iter().filter(|it| **it != name) {
                    files::remove(&folder.join(older))?;
                }
            }
            Ok(first)
        })
    }

    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> Pending<'a, ()> {
        let topic = topic.to_owned();
        self.run(move |inner| inner.publish(&topic, message))
    }

    fn listen<'a>(&'a self, topic: &'a str) -> Pending<'a, mpsc::UnboundedReceiver<Vec<u8>>> {
        let path = self.inner.root.join("topics").join(topic);
        let read = path.with_file_name(format!("{topic}.read"));
        Box::pin(async move {
            let mark = move || std::fs::write(&read, b"").map_err(QueueError::io("write", &read));
            mark()?;
            let mut position = std::fs::metadata(&path).map_or(0, |found| found.len());
            let (sender, receiver) = mpsc::unbounded_channel();
            lathe_spawn::task(async move {
                let mut marked = Instant::now();
                while !sender.is_closed() {
                    for line in follow(&path, &mut position) {
                        if sender.send(line).is_err() {
                            return;
                        }
                    }
                    if marked.elapsed() > Duration::from_secs(1) {
                        marked = Instant::now();
                        if mark().is_err() {
                            return;
                        }
                    }
                    tokio::time::sleep(FOLLOW).await;
                }
            });
            Ok(receiver)
        })
    }

    fn checks(&self) -> Pending<'_, Vec<Check>> {
        self.run(Inner::checks)
    }
}

/// The whole lines of a file after a position, which moves on.
fn follow(path: &Path, position: &mut u64) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut read = || -> std::io::Result<()> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        if length < *position {
            *position = 0;
        }
        if length > *position {
            file.seek(SeekFrom::Start(*position))?;
            file.read_to_end(&mut bytes)?;
        }
        Ok(())
    };
    if read().is_err() {
        return Vec::new();
    }
    let whole = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    *position += whole as u64;
    bytes[..whole]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}
