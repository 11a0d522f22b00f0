//! The queue of many machines: NATS JetStream.
//!
//! | | subjects | |
//! |---|---|---|
//! | stream `LATHE_JOBS`, work queue | `lathe.job.TENANT.CLASS.PRIORITY.JOB` | one message a job at most; a consumer for each tenant, class and priority, whose `ack_wait` is the lease |
//! | stream `LATHE_LOG` | `lathe.log.TENANT.JOB` | every append names the last sequence of its subject: the fence |
//! | stream `LATHE_BLOB` | `lathe.blob.HASH.PART` | pieces of 256 KB; the description last |
//! | `KV_lathe_job`, `_ask`, `_wait`, `_budget`, `_worker` | `$KV.…` | the newest value of a key; changed by compare-and-set |
//! | core | `lathe.live.…`, `lathe.ctl.…` | frames and requests, not stored |
//!
//! Values are read from the leader of their stream, never from a replica that may lag. Times are those of the server:
//! the clock of a worker decides nothing.

mod checks;
mod table;

use crate::address::{self, User};
use crate::backend::{Answer, Ask, Backend, Check, Pending, Ticket, Versioned, Wanted, WorkerInfo};
use crate::entry::{Budget, Entry};
use crate::error::QueueError;
use crate::job::{JobKey, Needs, Priority};
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::consumer::{AckPolicy, Consumer};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, Stream};
use async_nats::jetstream::{AckKind, Context, Message};
use async_nats::{Client, ConnectOptions};
use futures::StreamExt as _;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use table::Table;
use tokio::sync::mpsc;

/// The size of a piece of a blob.
const PIECE: usize = 256 << 10;
/// How long one request may take: longer than a failover of the servers would only delay its repetition.
const REQUEST: Duration = Duration::from_secs(5);
/// The longest pull: jobs of another priority or tenant that arrive meanwhile wait as long.
const PULL: Duration = Duration::from_millis(500);
/// How long the list of tenants is used.
const TENANTS: Duration = Duration::from_secs(3);
/// Requests at a time where many values are read.
const AT_ONCE: usize = 64;
/// How long a job stays away from a worker that does not meet its conditions.
const MISFIT: Duration = Duration::from_secs(1);

/// Where the servers are.
#[derive(Debug, Clone)]
pub struct NatsOptions {
    /// The addresses, separated by commas.
    pub url: String,
    /// A file with credentials of a user.
    pub credentials: Option<PathBuf>,
    /// How many servers keep each stream; `None` is three in a cluster and one otherwise.
    pub replicas: Option<usize>,
    /// The beginning of the names of streams, so that several fleets share an account.
    pub prefix: String,
}

/// A queue on NATS servers.
#[derive(Debug)]
pub struct Nats {
    options: NatsOptions,
    client: Client,
    context: Context,
    jobs: Stream,
    log: Table,
    blobs: Table,
    entries: Table,
    asks: Table,
    waits: Table,
    budgets: Table,
    workers: Table,
    clock: Mutex<Clock>,
    consumers: Mutex<Consumers>,
    turn: AtomicUsize,
}

/// The server's time at a moment of a clock that nobody sets: the clock of this machine may be wrong, and may jump.
#[derive(Debug)]
struct Clock {
    at: Instant,
    server: i64,
}

#[derive(Debug, Default)]
struct Consumers {
    made: HashMap<String, Consumer<pull::Config>>,
    tenants: Option<(Instant, Vec<(String, String)>)>,
}

/// The content of a message in the queue.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    tenant: String,
    id: String,
    needs: Needs,
}

fn failed(error: impl Display) -> QueueError {
    QueueError::Server(format!("NATS: {error}"))
}

fn milliseconds_of(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn local_now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, milliseconds_of)
}

impl Nats {
    /// Connects, and makes the streams that are missing.
    ///
    /// # Errors
    /// If the servers can't be reached, or refuse.
    pub async fn connect(options: NatsOptions) -> Result<Self, QueueError> {
        let mut connect = ConnectOptions::new()
            .name("lathe fleet")
            .connection_timeout(REQUEST)
            .request_timeout(Some(REQUEST));
        if let Some(file) = &options.credentials {
            connect = connect
                .credentials_file(file)
                .await
                .map_err(QueueError::io("read", file))?;
        }
        let servers = address::read(&options.url);
        // The client takes no user from an address.
        connect = match servers.user {
            Some(User::Named { name, password }) => connect.user_and_password(name, password),
            Some(User::Token(token)) => connect.token(token),
            None => connect,
        };
        let several = servers.addresses.len() >= 3;
        let client = connect.connect(servers.addresses).await.map_err(failed)?;
        let context = async_nats::jetstream::ContextBuilder::new()
            .timeout(REQUEST)
            .ack_timeout(REQUEST)
            .build(client.clone());
        let prefix = &options.prefix;
        let upper = prefix.to_uppercase();
        let replicas = match options.replicas {
            Some(replicas) => replicas,
            None if several || client.server_info().connect_urls.len() >= 3 => 3,
            None => 1,
        };
        let stream = async |name: String, subjects: String, config: Config| {
            context
                .get_or_create_stream(Config {
                    name,
                    subjects: vec![subjects],
                    num_replicas: replicas,
                    ..config
                })
                .await
                .map_err(failed)
        };
        let queue = Config {
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            max_messages_per_subject: 1,
            ..Config::default()
        };
        let jobs = stream(format!("{upper}_JOBS"), format!("{prefix}.job.>"), queue).await?;
        let table = async |name: &str, max_age: Duration| {
            let subjects = format!("$KV.{prefix}_{name}.");
            let config = Config {
                max_messages_per_subject: 1,
                allow_rollup: true,
                max_age,
                ..Config::default()
            };
            let name = format!("KV_{prefix}_{name}");
            let stream = stream(name, format!("{subjects}>"), config).await?;
            Ok::<_, QueueError>(Table::new(&context, stream, subjects))
        };
        let plain = async |name: &str| {
            let subjects = format!("{prefix}.{name}.");
            let title = format!("{upper}_{}", name.to_uppercase());
            let stream = stream(title, format!("{subjects}>"), Config::default()).await?;
            Ok::<_, QueueError>(Table::new(&context, stream, subjects))
        };
        let nats = Self {
            jobs,
            log: plain("log").await?,
            blobs: plain("blob").await?,
            entries: table("job", Duration::ZERO).await?,
            asks: table("ask", Duration::ZERO).await?,
            waits: table("wait", Duration::ZERO).await?,
            budgets: table("budget", Duration::ZERO).await?,
            workers: table("worker", Duration::from_secs(30)).await?,
            clock: Mutex::new(Clock {
                at: Instant::now(),
                server: local_now(),
            }),
            consumers: Mutex::default(),
            turn: AtomicUsize::new(0),
            client,
            context,
            options,
        };
        nats.measure_skew().await?;
        Ok(nats)
    }

    /// Compares the clocks: a value is written, and its time is the server's.
    async fn measure_skew(&self) -> Result<i64, QueueError> {
        let before = (Instant::now(), local_now());
        let key = format!("clock-{}", uuid::Uuid::new_v4().simple());
        self.workers.put(&key, b"null".to_vec(), Some(0)).await?;
        let took = before.0.elapsed();
        let Some(found) = self.workers.get(&key).await? else {
            return Ok(0);
        };
        let half = took / 2;
        *self.clock.lock() = Clock {
            at: before.0 + half,
            server: found.time,
        };
        Ok(found.time - before.1 - milliseconds_of(half))
    }

    /// The tenants with their classes.
    async fn tenants(&self) -> Result<Vec<(String, String)>, QueueError> {
        if let Some((at, tenants)) = &self.consumers.lock().tenants
            && at.elapsed() < TENANTS
        {
            return Ok(tenants.clone());
        }
        let keys = self.waits.keys("tenant.").await?;
        let pair = |key: &String| {
            let mut words = key.split('.').skip(1);
            Some((words.next()?.to_owned(), words.next()?.to_owned()))
        };
        let tenants: Vec<_> = keys.iter().filter_map(pair).collect();
        self.consumers.lock().tenants = Some((Instant::now(), tenants.clone()));
        Ok(tenants)
    }

    async fn consumer(
        &self,
        tenant: &str,
        class: &str,
        priority: Priority,
        lease: Duration,
    ) -> Result<Consumer<pull::Config>, QueueError> {
        // Workers with different leases share the jobs; the longest lease that any of them asked for holds.
        let name = format!("{tenant}_{class}_{}", priority.name());
        if let Some(consumer) = self.consumers.lock().made.get(&name) {
            return Ok(consumer.clone());
        }
        let filter = format!(
            "{}.job.{tenant}.{class}.{}.*",
            self.options.prefix,
            priority.name()
        );
        let config = pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: filter,
            ack_policy: AckPolicy::Explicit,
            ack_wait: lease,
            max_deliver: -1,
            max_ack_pending: -1,
            max_waiting: 10_000,
            ..pull::Config::default()
        };
        let found = self.jobs.get_consumer::<pull::Config>(&name).await;
        let consumer = match found {
            Ok(consumer) if consumer.cached_info().config.ack_wait >= lease => consumer,
            _ => self.jobs.create_consumer(config).await.map_err(failed)?,
        };
        self.consumers.lock().made.insert(name, consumer.clone());
        Ok(consumer)
    }

    /// One message of a consumer, waiting for it at most this long.
    async fn pull(
        consumer: &Consumer<pull::Config>,
        wait: Option<Duration>,
    ) -> Result<Option<Message>, QueueError> {
        let mut messages = match wait {
            None => consumer
                .fetch()
                .max_messages(1)
                .messages()
                .await
                .map_err(failed)?,
            Some(wait) => {
                let batch = consumer.batch().max_messages(1).expires(wait);
                batch.messages().await.map_err(failed)?
            }
        };
        match messages.next().await {
            Some(Ok(message)) => Ok(Some(message)),
            Some(Err(error)) => Err(failed(error)),
            None => Ok(None),
        }
    }

    /// One look at all queues that a worker wants, the last one with patience.
    async fn look(
        &self,
        wanted: &Wanted,
        patience: Duration,
    ) -> Result<Option<Message>, QueueError> {
        let mut queues = self.tenants().await?;
        queues.retain(|(_, class)| wanted.classes.contains(class));
        if queues.is_empty() {
            tokio::time::sleep(patience.min(Duration::from_millis(100))).await;
            self.consumers.lock().tenants = None;
            return Ok(None);
        }
        // Every look begins with another tenant.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % queues.len();
        queues.rotate_left(turn);
        for priority in Priority::ALL {
            for (tenant, class) in &queues {
                let consumer = self.consumer(tenant, class, priority, wanted.lease).await?;
                if let Some(message) = Self::pull(&consumer, None).await? {
                    return Ok(Some(message));
                }
            }
        }
        if patience.is_zero() {
            return Ok(None);
        }
        let (tenant, class) = &queues[0];
        let consumer = self
            .consumer(tenant, class, Priority::Normal, wanted.lease)
            .await?;
        Self::pull(&consumer, Some(patience)).await
    }

    async fn put_blob_pieces(&self, hash: &str, bytes: &[u8]) -> Result<(), QueueError> {
        let pieces = bytes.chunks(PIECE).count();
        let end = format!("{hash}.end");
        if self.blobs.get(&end).await?.is_some() {
            return Ok(());
        }
        for (number, piece) in bytes.chunks(PIECE).enumerate() {
            self.blobs
                .put(&format!("{hash}.{number}"), piece.to_vec(), None)
                .await?;
        }
        self.blobs
            .put(&end, pieces.to_string().into_bytes(), None)
            .await?;
        Ok(())
    }

    async fn blob_pieces(&self, hash: &str) -> Result<Vec<u8>, QueueError> {
        let missing = || QueueError::damaged(format!("blob {hash}"), "it is not there");
        let end = self
            .blobs
            .get(&format!("{hash}.end"))
            .await?
            .ok_or_else(missing)?;
        let pieces: usize = String::from_utf8_lossy(&end.bytes)
            .parse()
            .map_err(|_| missing())?;
        let mut bytes = Vec::new();
        for number in 0..pieces {
            let piece = self.blobs.get(&format!("{hash}.{number}")).await?;
            bytes.extend(piece.ok_or_else(missing)?.bytes);
        }
        Ok(bytes)
    }
}

fn read<T: for<'a> Deserialize<'a>>(what: &str, bytes: &[u8]) -> Result<T, QueueError> {
    serde_json::from_slice(bytes).map_err(|error| QueueError::damaged(what, error))
}

fn written(value: &impl Serialize) -> Result<Vec<u8>, QueueError> {
    serde_json::to_vec(value).map_err(|error| QueueError::damaged("a value", error))
}

fn message(ticket: &Ticket) -> Result<&Message, QueueError> {
    ticket
        .message
        .downcast_ref()
        .ok_or_else(|| failed("a message of another queue"))
}

impl Backend for Nats {
    fn describe(&self) -> String {
        address::read(&self.options.url).addresses.join(",")
    }

    fn now(&self) -> i64 {
        let clock = self.clock.lock();
        clock.server + milliseconds_of(clock.at.elapsed())
    }

    fn entry<'a>(&'a self, key: &'a JobKey) -> Pending<'a, Option<Versioned<Entry>>> {
        Box::pin(async move {
            let Some(found) = self.entries.get(&key.to_string()).await? else {
                return Ok(None);
            };
            Ok(Some(Versioned {
                value: read("a job", &found.bytes)?,
                revision: found.revision,
            }))
        })
    }

    fn entries(&self) -> Pending<'_, Vec<Entry>> {
        Box::pin(async move {
            let keys = self.keys().await?;
            let read = |key: JobKey| async move { self.entry(&key).await };
            let mut found = futures::stream::iter(keys).map(read).buffered(AT_ONCE);
            let mut entries = Vec::new();
            while let Some(entry) = found.next().await {
                entries.extend(entry?.map(|found| found.value));
            }
            Ok(entries)
        })
    }

    fn keys(&self) -> Pending<'_, Vec<JobKey>> {
        Box::pin(async move {
            let keys = self.entries.keys("").await?;
            Ok(keys.iter().filter_map(|key| JobKey::parse(key)).collect())
        })
    }

    fn put<'a>(&'a self, entry: &'a Entry, revision: u64) -> Pending<'a, u64> {
        Box::pin(async move {
            let key = entry.job.key().to_string();
            self.entries
                .put(&key, written(entry)?, Some(revision))
                .await
        })
    }

    fn offer<'a>(&'a self, entry: &'a Entry) -> Pending<'a, ()> {
        Box::pin(async move {
            let job = &entry.job;
            let tenant = format!("tenant.{}.{}", job.tenant, job.class);
            let known = self
                .consumers
                .lock()
                .tenants
                .as_ref()
                .is_some_and(|(_, known)| {
                    known
                        .iter()
                        .any(|it| it.0 == job.tenant && it.1 == job.class)
                });
            if !known {
                self.waits.put(&tenant, b"null".to_vec(), None).await?;
            }
            let subject = format!(
                "{}.job.{}.{}.{}.{}",
                self.options.prefix,
                job.tenant,
                job.class,
                job.priority.name(),
                job.id
            );
            let offer = Offer {
                tenant: job.tenant.clone(),
                id: job.id.clone(),
                needs: job.needs.clone(),
            };
            table::publish_unless_there(&self.context, subject, written(&offer)?).await
        })
    }

    fn take<'a>(&'a self, wanted: &'a Wanted, wait: Duration) -> Pending<'a, Option<Ticket>> {
        Box::pin(async move {
            let until = Instant::now() + wait;
            loop {
                let left = until.saturating_duration_since(Instant::now());
                let Some(message) = self.look(wanted, left.min(PULL)).await? else {
                    if left.is_zero() {
                        return Ok(None);
                    }
                    continue;
                };
                let offer: Offer = read("a message", &message.payload)?;
                if !crate::fits(&offer.needs, wanted) {
                    let nak = AckKind::Nak(Some(MISFIT));
                    message.ack_with(nak).await.map_err(failed)?;
                    if left.is_zero() {
                        return Ok(None);
                    }
                    continue;
                }
                return Ok(Some(Ticket {
                    key: JobKey {
                        tenant: offer.tenant,
                        id: offer.id,
                    },
                    message: Box::new(message),
                }));
            }
        })
    }

    fn keep<'a>(&'a self, ticket: &'a Ticket) -> Pending<'a, ()> {
        Box::pin(async move {
            let message = message(ticket)?;
            message.ack_with(AckKind::Progress).await.map_err(failed)
        })
    }

    fn remove(&self, ticket: Ticket) -> Pending<'_, ()> {
        Box::pin(async move { message(&ticket)?.double_ack().await.map_err(failed) })
    }

    fn put_back(&self, ticket: Ticket, delay: Duration) -> Pending<'_, ()> {
        Box::pin(async move {
            let delay = Some(delay).filter(|delay| !delay.is_zero());
            let message = message(&ticket)?;
            message.ack_with(AckKind::Nak(delay)).await.map_err(failed)
        })
    }

    fn append<'a>(&'a self, key: &'a JobKey, last: u64, record: Vec<u8>) -> Pending<'a, u64> {
        Box::pin(async move { self.log.put(&key.to_string(), record, Some(last)).await })
    }

    fn log<'a>(&'a self, key: &'a JobKey, after: u64) -> Pending<'a, Vec<(u64, Vec<u8>)>> {
        Box::pin(async move { self.log.history(&key.to_string(), after).await })
    }

    fn put_blob(&self, hash: String, bytes: Vec<u8>) -> Pending<'_, ()> {
        Box::pin(async move { self.put_blob_pieces(&hash, &bytes).await })
    }

    fn blob<'a>(&'a self, hash: &'a str) -> Pending<'a, Vec<u8>> {
        Box::pin(async move { self.blob_pieces(hash).await })
    }

    fn put_ask<'a>(&'a self, key: &'a JobKey, ask: &'a Ask) -> Pending<'a, ()> {
        Box::pin(async move {
            let name = format!("{key}.{}.ask", ask.id);
            self.asks.put(&name, written(ask)?, None).await.map(|_| ())
        })
    }

    fn put_answer<'a>(
        &'a self,
        key: &'a JobKey,
        ask: &'a str,
        answer: &'a Answer,
    ) -> Pending<'a, bool> {
        Box::pin(async move {
            let name = format!("{key}.{ask}.answer");
            match self.asks.put(&name, written(answer)?, Some(0)).await {
                Ok(_) => Ok(true),
                Err(QueueError::Conflict) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    fn asks<'a>(&'a self, key: &'a JobKey) -> Pending<'a, Vec<Ask>> {
        Box::pin(async move {
            let mut asks: Vec<Ask> = Vec::new();
            for name in self.asks.keys(&format!("{key}.")).await? {
                let Some(stem) = name.strip_suffix(".ask") else {
                    continue;
                };
                let Some(found) = self.asks.get(&name).await? else {
                    continue;
                };
                let mut ask: Ask = read("a question", &found.bytes)?;
                if let Some(found) = self.asks.get(&format!("{stem}.answer")).await? {
                    ask.answer = Some(read("an answer", &found.bytes)?);
                }
                asks.push(ask);
            }
            asks.sort_by_key(|ask| ask.at);
            Ok(asks)
        })
    }

    fn put_waiter<'a>(&'a self, before: &'a JobKey, waiter: &'a JobKey) -> Pending<'a, ()> {
        Box::pin(async move {
            let name = format!("after.{before}.{waiter}");
            self.waits
                .put(&name, b"null".to_vec(), None)
                .await
                .map(|_| ())
        })
    }

    fn waiters<'a>(&'a self, before: &'a JobKey) -> Pending<'a, Vec<JobKey>> {
        Box::pin(async move {
            let start = format!("after.{before}.");
            let keys = self.waits.keys(&start).await?;
            let rest = keys.iter().filter_map(|key| key.strip_prefix(&start));
            Ok(rest.filter_map(JobKey::parse).collect())
        })
    }

    fn budget<'a>(&'a self, tenant: &'a str) -> Pending<'a, Versioned<Budget>> {
        Box::pin(async move {
            Ok(match self.budgets.get(tenant).await? {
                Some(found) => Versioned {
                    value: read("a budget", &found.bytes)?,
                    revision: found.revision,
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
        Box::pin(async move {
            self.budgets
                .put(tenant, written(budget)?, Some(revision))
                .await
        })
    }

    fn put_worker<'a>(&'a self, worker: &'a WorkerInfo) -> Pending<'a, ()> {
        Box::pin(async move {
            let name = format!("worker-{}", worker.name);
            self.workers.put(&name, written(worker)?, None).await?;
            // Clocks drift; a worker lives long.
            self.measure_skew().await.map(|_| ())
        })
    }

    fn is_first<'a>(&'a self, name: &'a str) -> Pending<'a, bool> {
        Box::pin(async move {
            let key = format!("turn-{name}");
            match self.workers.put(&key, b"null".to_vec(), Some(0)).await {
                Ok(_) => Ok(true),
                Err(QueueError::Conflict) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    fn workers(&self) -> Pending<'_, Vec<WorkerInfo>> {
        Box::pin(async move {
            let mut workers: Vec<WorkerInfo> = Vec::new();
            for key in self.workers.keys("").await? {
                if key.starts_with("worker-")
                    && let Some(found) = self.workers.get(&key).await?
                {
                    workers.push(read("a worker", &found.bytes)?);
                }
            }
            workers.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(workers)
        })
    }

    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> Pending<'a, ()> {
        Box::pin(async move {
            let subject = format!("{}.{topic}", self.options.prefix);
            self.client
                .publish(subject, message.into())
                .await
                .map_err(failed)
        })
    }

    fn listen<'a>(&'a self, topic: &'a str) -> Pending<'a, mpsc::UnboundedReceiver<Vec<u8>>> {
        Box::pin(async move {
            let subject = format!("{}.{topic}", self.options.prefix);
            let mut messages = self.client.subscribe(subject).await.map_err(failed)?;
            // The subscription is at the server before the first message is sent.
            self.client.flush().await.map_err(failed)?;
            let (sender, receiver) = mpsc::unbounded_channel();
            lathe_spawn::task(async move {
                loop {
                    tokio::select! {
                        () = sender.closed() => return,
                        message = messages.next() => match message {
                            Some(message) => {
                                let _ = sender.send(message.payload.to_vec());
                            }
                            None => return,
                        },
                    }
                }
            });
            Ok(receiver)
        })
    }

    fn checks(&self) -> Pending<'_, Vec<Check>> {
        Box::pin(checks::run(self))
    }
}
