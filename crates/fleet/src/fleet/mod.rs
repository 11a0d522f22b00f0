//! The protocol of a fleet over a [`Backend`]: `enqueue claim renew finish park append blob ask answer live control`.
//!
//! At every moment a job has one owner at most. A claim raises the epoch by compare-and-set and opens the log with a
//! record of its own; an owner that lost the job fails at its next renewal, append or end, and publishes nothing.

mod budgets;
mod order;

use crate::backend::{Answer, Ask, Backend, Pending, Ticket, Versioned, Wanted, WorkerInfo};
use crate::entry::{Entry, JobResult, Ready, SnapshotRef, State, Verdict};
use crate::error::QueueError;
use crate::job::{Job, JobKey};
use crate::log::{LARGEST_RECORD, LogRecord};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often a change is tried again that another process came before.
const TRIES: usize = 100;
/// How long a change waits before it is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a step waits for servers that don't answer.
const FAILOVER: Duration = Duration::from_secs(10);
/// How long a job stays away that can't be run yet.
const LATER: Duration = Duration::from_secs(2);

/// A message to the worker that has a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Control {
    /// End the job.
    Cancel,
    /// Look for answers.
    Answered,
    /// Say something to the model.
    Prompt {
        /// The text.
        text: String,
    },
}

/// A job that this process has.
#[derive(Debug)]
pub struct Claim {
    /// The job.
    pub entry: Entry,
    revision: u64,
    ticket: Ticket,
    /// The last record of the log.
    log: u64,
    worker: String,
    lease: Duration,
}

impl Claim {
    /// The name of the job.
    #[must_use]
    pub fn key(&self) -> JobKey {
        self.entry.job.key()
    }

    /// The last record of the log that this claim knows.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.log
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// With a result.
    Done(Box<JobResult>),
    /// With an error; tried again if the job says so.
    Failed(String),
    /// By a request.
    Cancelled,
    /// The worker ends; another one continues.
    HandOver(String),
    /// A question is open; the answer queues it again.
    Parked,
}

/// A fleet.
#[derive(Debug, Clone)]
pub struct Fleet {
    backend: Arc<dyn Backend>,
}

impl Fleet {
    /// A fleet on a storage.
    pub fn new(backend: impl Backend + 'static) -> Self {
        Self {
            backend: Arc::new(backend),
        }
    }

    /// The storage.
    #[must_use]
    pub fn backend(&self) -> &dyn Backend {
        self.backend.as_ref()
    }

    /// Submits a job. False if a job with this id is known already.
    ///
    /// # Errors
    /// If the job is wrong, or the storage fails.
    pub async fn enqueue(&self, job: Job) -> Result<bool, QueueError> {
        job.check()?;
        let key = job.key();
        let entry = Entry::new(job, self.backend.now());
        match self.backend.put(&entry, 0).await {
            Ok(_) => {}
            Err(QueueError::Conflict) => return Ok(false),
            Err(error) => return Err(error),
        }
        for before in &entry.job.needs.after {
            let before = JobKey {
                tenant: key.tenant.clone(),
                id: before.clone(),
            };
            self.backend.put_waiter(&before, &key).await?;
        }
        self.wake(vec![key]).await?;
        Ok(true)
    }

    /// Takes a job, waiting for one at most this long.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn claim(
        &self,
        worker: &str,
        wanted: &Wanted,
        wait: Duration,
    ) -> Result<Option<Claim>, QueueError> {
        loop {
            let Some(ticket) = self.backend.take(wanted, wait).await? else {
                return Ok(None);
            };
            if let Some(claim) = self.judge(worker, wanted, ticket).await? {
                return Ok(Some(claim));
            }
        }
    }

    async fn judge(
        &self,
        worker: &str,
        wanted: &Wanted,
        ticket: Ticket,
    ) -> Result<Option<Claim>, QueueError> {
        let now = self.backend.now();
        let Some(found) = self.backend.entry(&ticket.key).await? else {
            self.backend.remove(ticket).await?;
            return Ok(None);
        };
        let entry = &found.value;
        let key = ticket.key.clone();
        let end = match entry.judge(now) {
            Verdict::Take if entry.cancel => Some((State::Cancelled, None)),
            Verdict::Take => None,
            Verdict::Drop => {
                if entry.state.is_final() {
                    // The worker before may have ended before it woke them.
                    self.wake_waiters(&key).await?;
                }
                self.backend.remove(ticket).await?;
                return Ok(None);
            }
            Verdict::Wait(left) => {
                self.backend
                    .put_back(ticket, left.min(wanted.lease))
                    .await?;
                return Ok(None);
            }
            Verdict::GiveUp => {
                let reason = format!(
                    "given up: {} workers ended while they had it",
                    entry.attempt
                );
                Some((State::Failed, Some(reason)))
            }
        };
        if let Some((state, reason)) = end {
            let next = entry.released(state, reason, now);
            match self.backend.put(&next, found.revision).await {
                Ok(_) => self.settle(&key, 0.0).await?,
                Err(QueueError::Conflict) => {}
                Err(error) => return Err(error),
            }
            // Looked at once more: the state says that it is over, and who waits for it is woken.
            self.backend.put_back(ticket, Duration::ZERO).await?;
            return Ok(None);
        }
        if self.ready(entry).await? != Ready::Yes {
            self.backend.remove(ticket).await?;
            self.wake(vec![key]).await?;
            return Ok(None);
        }
        if !self.reserve(entry).await? {
            self.remark(&found, "waits for the budget of its tenant")
                .await?;
            self.backend.put_back(ticket, LATER).await?;
            // Others of the tenant wait too: don't go through all of them at once.
            tokio::time::sleep(PAUSE).await;
            return Ok(None);
        }
        let next = entry.claimed(worker, now, wanted.lease);
        let revision = match self.backend.put(&next, found.revision).await {
            Ok(revision) => revision,
            Err(QueueError::Conflict) => {
                self.backend.put_back(ticket, Duration::ZERO).await?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut claim = Claim {
            log: 0,
            revision,
            ticket,
            worker: worker.to_owned(),
            lease: wanted.lease,
            entry: next,
        };
        self.begin(&mut claim, entry.session.is_none()).await?;
        Ok(Some(claim))
    }

    /// Opens the log for this claim: the worker that had the job before can't append any more.
    async fn begin(&self, claim: &mut Claim, fresh: bool) -> Result<(), QueueError> {
        let record = LogRecord::Begin {
            epoch: claim.entry.epoch,
            worker: claim.worker.clone(),
            at: self.backend.now(),
            fresh,
        };
        let bytes = encode(&record)?;
        let key = claim.key();
        for _ in 0..TRIES {
            let records = patiently(|| self.backend.log(&key, claim.log)).await?;
            claim.log = records.last().map_or(claim.log, |last| last.0);
            let append = || self.backend.append(&key, claim.log, bytes.clone());
            match patiently(append).await {
                Ok(position) => {
                    claim.log = position;
                    return Ok(());
                }
                Err(QueueError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(QueueError::Conflict)
    }

    /// Extends the lease, and changes the state and the snapshot that are stored with it.
    ///
    /// # Errors
    /// [`QueueError::Fenced`] if another worker has the job now; also if the storage fails.
    pub async fn renew(
        &self,
        claim: &mut Claim,
        state: State,
        snapshot: Option<SnapshotRef>,
    ) -> Result<(), QueueError> {
        self.backend.keep(&claim.ticket).await?;
        let now = self.backend.now();
        let lease = claim.lease;
        self.change(claim, |entry| {
            if entry.state != state {
                entry.state = state;
                entry.changed = now;
            }
            if snapshot.is_some() {
                entry.snapshot.clone_from(&snapshot);
            }
            entry.renew(now, lease);
        })
        .await
    }

    /// Changes the entry of a claim. A change by somebody else (a request to cancel) is kept; a lost claim is an error.
    async fn change(
        &self,
        claim: &mut Claim,
        change: impl Fn(&mut Entry) + Send + Sync,
    ) -> Result<(), QueueError> {
        let epoch = claim.entry.epoch;
        let until = Instant::now() + claim.lease / 2;
        for _ in 0..TRIES {
            let mut next = claim.entry.clone();
            change(&mut next);
            match self.backend.put(&next, claim.revision).await {
                Ok(revision) => {
                    claim.entry = next;
                    claim.revision = revision;
                    return Ok(());
                }
                Err(QueueError::Conflict) => {
                    let key = claim.key();
                    let found = patiently(|| self.backend.entry(&key)).await?;
                    let found = found.ok_or(QueueError::Fenced)?;
                    if found.value == next {
                        // Our own change, whose answer was lost.
                        claim.entry = next;
                        claim.revision = found.revision;
                        return Ok(());
                    }
                    if !found.value.belongs_to(&claim.worker, epoch) {
                        return Err(QueueError::Fenced);
                    }
                    claim.entry = found.value;
                    claim.revision = found.revision;
                }
                Err(QueueError::Server(_)) if Instant::now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(QueueError::Conflict)
    }

    /// Appends to the log. Servers that fail over are waited for, as long as the lease is safe.
    ///
    /// # Errors
    /// [`QueueError::Fenced`] if another worker has the job now; also if the storage fails.
    pub async fn append(&self, claim: &mut Claim, record: &LogRecord) -> Result<(), QueueError> {
        let mut bytes = encode(record)?;
        if bytes.len() > LARGEST_RECORD {
            let hash = self.put_blob(bytes).await?;
            bytes = encode(&LogRecord::Blob { hash })?;
        }
        let key = claim.key();
        let until = Instant::now() + claim.lease / 2;
        loop {
            match self.backend.append(&key, claim.log, bytes.clone()).await {
                Ok(position) => {
                    claim.log = position;
                    return Ok(());
                }
                Err(QueueError::Conflict) => {
                    // Our own record, whose answer was lost, or another worker's.
                    let next = patiently(|| self.backend.log(&key, claim.log)).await?;
                    return match next.as_slice() {
                        [(position, found)] if *found == bytes => {
                            claim.log = *position;
                            Ok(())
                        }
                        _ => Err(QueueError::Fenced),
                    };
                }
                Err(QueueError::Server(_)) if Instant::now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The log of a job from a position on.
    ///
    /// # Errors
    /// If the storage fails or a record is damaged.
    pub async fn log(&self, key: &JobKey, after: u64) -> Result<Vec<(u64, LogRecord)>, QueueError> {
        let mut records = Vec::new();
        for (position, bytes) in patiently(|| self.backend.log(key, after)).await? {
            let mut record = decode(&bytes)?;
            if let LogRecord::Blob { hash } = &record {
                record = decode(&patiently(|| self.backend.blob(hash)).await?)?;
            }
            records.push((position, record));
        }
        Ok(records)
    }

    /// Stores bytes, and gives their name.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn put_blob(&self, bytes: Vec<u8>) -> Result<String, QueueError> {
        let hash = hash(&bytes);
        patiently(|| self.backend.put_blob(hash.clone(), bytes.clone())).await?;
        Ok(hash)
    }

    /// Reads bytes, and checks that they are those that were stored.
    ///
    /// # Errors
    /// If they are not there, or damaged.
    pub async fn blob(&self, name: &str) -> Result<Vec<u8>, QueueError> {
        let bytes = patiently(|| self.backend.blob(name)).await?;
        if hash(&bytes) == name {
            return Ok(bytes);
        }
        Err(QueueError::damaged(
            format!("blob {name}"),
            "its hash differs",
        ))
    }

    /// Ends an attempt: the state first, then the message, then the jobs that wait for this one.
    ///
    /// # Errors
    /// [`QueueError::Fenced`] if another worker has the job now; also if the storage fails.
    pub async fn finish(&self, mut claim: Claim, end: End, cost: f64) -> Result<State, QueueError> {
        let now = self.backend.now();
        self.change(&mut claim, |entry| {
            *entry = ended(entry, &end, now);
            entry.cost_usd += cost;
        })
        .await?;
        let key = claim.key();
        self.settle(&key, cost).await?;
        let state = claim.entry.state;
        if state == State::Queued {
            let delay = match end {
                End::Failed(_) => Duration::from_secs(u64::from(claim.entry.attempt)),
                _ => Duration::ZERO,
            };
            self.backend.put_back(claim.ticket, delay).await?;
            return Ok(state);
        }
        self.backend.remove(claim.ticket).await?;
        if state.is_final() {
            self.wake_waiters(&key).await?;
        } else {
            // An answer that came meanwhile found a job that was not parked yet.
            self.unpark(&key).await?;
        }
        // Queued again meanwhile, when the message was still there.
        self.wake(vec![key]).await?;
        Ok(state)
    }

    /// Stores a question of a job.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn ask(&self, claim: &Claim, ask: &Ask) -> Result<(), QueueError> {
        let key = claim.key();
        patiently(|| self.backend.put_ask(&key, ask)).await
    }

    /// Answers a question. False if it was answered before; the first answer wins.
    ///
    /// # Errors
    /// If there is no such job, or the storage fails.
    pub async fn answer(
        &self,
        key: &JobKey,
        ask: &str,
        answer: &Answer,
    ) -> Result<bool, QueueError> {
        let first = self.backend.put_answer(key, ask, answer).await?;
        self.unpark(key).await?;
        self.control(key, &Control::Answered).await?;
        Ok(first)
    }

    /// Queues a parked job whose question was answered.
    async fn unpark(&self, key: &JobKey) -> Result<(), QueueError> {
        let open = |asks: &[Ask]| asks.last().is_none_or(|last| last.answer.is_none());
        for _ in 0..TRIES {
            let Some(found) = self.backend.entry(key).await? else {
                return Err(QueueError::NoJob(key.id.clone()));
            };
            if found.value.state != State::Parked || open(&self.backend.asks(key).await?) {
                return Ok(());
            }
            let next = found
                .value
                .released(State::Queued, None, self.backend.now());
            match self.backend.put(&next, found.revision).await {
                Ok(_) => return self.backend.offer(&next).await,
                Err(QueueError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(QueueError::Conflict)
    }

    /// Sends a message to the worker that has a job.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn control(&self, key: &JobKey, control: &Control) -> Result<(), QueueError> {
        self.backend
            .publish(&control_topic(key), encode(control)?)
            .await
    }

    /// Receives messages to the worker that has a job.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn controls(
        &self,
        key: &JobKey,
    ) -> Result<mpsc::UnboundedReceiver<Vec<u8>>, QueueError> {
        self.backend.listen(&control_topic(key)).await
    }

    /// Publishes a frame of a running job for who watches.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn live(&self, key: &JobKey, frame: Vec<u8>) -> Result<(), QueueError> {
        self.backend.publish(&live_topic(key), frame).await
    }

    /// Watches a running job.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn watch(
        &self,
        key: &JobKey,
    ) -> Result<mpsc::UnboundedReceiver<Vec<u8>>, QueueError> {
        self.backend.listen(&live_topic(key)).await
    }

    /// Cancels a job: at once if no worker has it, else by its worker.
    ///
    /// # Errors
    /// If the job is over, or the storage fails.
    pub async fn cancel(&self, key: &JobKey) -> Result<State, QueueError> {
        for _ in 0..TRIES {
            let found = self.existing(key).await?;
            if found.value.state.is_final() {
                return Err(QueueError::State {
                    job: key.id.clone(),
                    state: found.value.state.name(),
                });
            }
            let now = self.backend.now();
            let mut next = found.value.clone();
            next.cancel = true;
            if !next.state.is_held() {
                next = next.released(State::Cancelled, None, now);
            }
            match self.backend.put(&next, found.revision).await {
                Ok(_) if next.state.is_held() => {
                    self.control(key, &Control::Cancel).await?;
                    return Ok(next.state);
                }
                Ok(_) => {
                    self.wake_waiters(key).await?;
                    return Ok(next.state);
                }
                Err(QueueError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(QueueError::Conflict)
    }

    /// Queues a job again that failed or was cancelled, from the start.
    ///
    /// # Errors
    /// If it is in another state, or the storage fails.
    pub async fn retry(&self, key: &JobKey) -> Result<(), QueueError> {
        let found = self.existing(key).await?;
        if !matches!(found.value.state, State::Failed | State::Cancelled) {
            return Err(QueueError::State {
                job: key.id.clone(),
                state: found.value.state.name(),
            });
        }
        let mut next = found
            .value
            .released(State::Queued, None, self.backend.now());
        next.attempt = 0;
        next.cancel = false;
        next.session = None;
        next.snapshot = None;
        next.result = None;
        self.backend.put(&next, found.revision).await?;
        self.wake(vec![key.clone()]).await
    }

    async fn existing(&self, key: &JobKey) -> Result<Versioned<Entry>, QueueError> {
        let found = self.backend.entry(key).await?;
        found.ok_or_else(|| QueueError::NoJob(key.id.clone()))
    }

    /// A job.
    ///
    /// # Errors
    /// If there is none, or the storage fails.
    pub async fn entry(&self, key: &JobKey) -> Result<Entry, QueueError> {
        Ok(self.existing(key).await?.value)
    }

    /// All jobs, oldest first.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn entries(&self) -> Result<Vec<Entry>, QueueError> {
        let mut entries = self.backend.entries().await?;
        entries.sort_by(|a, b| (a.created, &a.job.id).cmp(&(b.created, &b.job.id)));
        Ok(entries)
    }

    /// The questions of a job with their answers.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn asks(&self, key: &JobKey) -> Result<Vec<Ask>, QueueError> {
        patiently(|| self.backend.asks(key)).await
    }

    /// Writes the description of a worker.
    ///
    /// # Errors
    /// If the storage fails.
    pub async fn present(&self, worker: &WorkerInfo) -> Result<(), QueueError> {
        self.backend.put_worker(worker).await
    }

    /// Notes why a job waits, if it doesn't say so yet.
    async fn remark(&self, found: &Versioned<Entry>, reason: &str) -> Result<(), QueueError> {
        if found.value.reason.as_deref() == Some(reason) {
            return Ok(());
        }
        let mut next = found.value.clone();
        next.reason = Some(reason.to_owned());
        match self.backend.put(&next, found.revision).await {
            Ok(_) | Err(QueueError::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Does what may be done twice until the servers answer: while they choose a new leader, none does.
async fn patiently<'a, T>(work: impl Fn() -> Pending<'a, T>) -> Result<T, QueueError> {
    let until = Instant::now() + FAILOVER;
    loop {
        match work().await {
            Err(QueueError::Server(_)) if Instant::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// The state of a job after an attempt.
fn ended(entry: &Entry, end: &End, now: i64) -> Entry {
    // An attempt that somebody else stopped is none of the job's.
    let given_back = |state, reason| {
        let mut next = entry.released(state, reason, now);
        next.attempt = next.attempt.saturating_sub(1);
        next
    };
    match end {
        End::Done(result) => {
            let mut next = entry.released(State::Done, None, now);
            next.result = Some(JobResult::clone(result));
            next
        }
        End::Cancelled => entry.released(State::Cancelled, None, now),
        End::Failed(reason) if entry.cancel => {
            entry.released(State::Cancelled, Some(reason.clone()), now)
        }
        End::Failed(reason) => entry.after_failure(reason.clone(), now),
        End::HandOver(_) | End::Parked if entry.cancel => {
            entry.released(State::Cancelled, None, now)
        }
        End::HandOver(reason) => given_back(State::Queued, Some(reason.clone())),
        End::Parked => given_back(State::Parked, None),
    }
}

fn control_topic(key: &JobKey) -> String {
    format!("ctl.{key}")
}

fn live_topic(key: &JobKey) -> String {
    format!("live.{key}")
}

/// The SHA-256 of bytes as text.
#[must_use]
pub fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, QueueError> {
    serde_json::to_vec(value).map_err(|error| QueueError::damaged("a record", error))
}

fn decode(bytes: &[u8]) -> Result<LogRecord, QueueError> {
    serde_json::from_slice(bytes).map_err(|error| QueueError::damaged("a record of a log", error))
}
