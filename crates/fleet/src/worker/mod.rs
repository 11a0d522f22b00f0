//! A worker: takes jobs and runs each as a session of our own binary, with a lease that it renews while it lives.

mod attempt;
mod checkout;
mod session;
mod transcript;

pub use checkout::CheckoutError;

use crate::backend::{Wanted, WorkerInfo};
use crate::entry::State;
use crate::error::QueueError;
use crate::fleet::{Claim, Fleet};
use attempt::Attempt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// How long one look for a job takes.
const LOOK: Duration = Duration::from_secs(2);
/// How often the worker describes itself.
const PRESENT: Duration = Duration::from_secs(10);
/// How often lost messages are looked for.
const SWEEP: Duration = Duration::from_secs(30);
/// How long a worker waits after the storage failed.
const TROUBLE: Duration = Duration::from_secs(1);

/// Times of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long a job stays with a worker that says nothing.
    pub lease: Duration,
    /// How long a question is open before the job is parked.
    pub park_after: Duration,
    /// How often files are saved while a turn runs.
    pub snapshot: Duration,
    /// How long running jobs may go on after a request to end.
    pub grace: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            park_after: Duration::from_secs(600),
            snapshot: Duration::from_secs(300),
            grace: Duration::from_secs(30),
        }
    }
}

/// Rights that a worker gives to jobs beyond the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowed {
    /// Jobs that switch the sandbox off.
    pub no_sandbox: bool,
    /// Jobs with the mode bypassPermissions.
    pub bypass: bool,
}

/// Options of a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Its name.
    pub name: String,
    /// The machine.
    pub host: String,
    /// How many jobs it runs at a time.
    pub slots: usize,
    /// The jobs that it takes.
    pub wanted: Wanted,
    /// The times.
    pub times: Times,
    /// The rights of jobs.
    pub allowed: Allowed,
    /// The folder for files of jobs.
    pub work: PathBuf,
    /// Our own binary.
    pub program: PathBuf,
    /// The folder of settings and sessions.
    pub config_home: PathBuf,
    /// End when no job is queued or running.
    pub until_empty: bool,
}

/// The jobs that a worker ended, by outcome.
#[derive(Debug, Default)]
pub struct Summary {
    /// Done.
    pub done: AtomicUsize,
    /// Everything else.
    pub other: AtomicUsize,
}

/// A report about one attempt, for the worker's own output.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// Runs jobs until it is asked to end; then running jobs end or are handed over.
///
/// # Errors
/// If the storage fails before the first job.
pub async fn run(
    fleet: Fleet,
    options: WorkerOptions,
    stop: CancellationToken,
    report: Report,
) -> Result<Arc<Summary>, QueueError> {
    let options = Arc::new(options);
    let summary = Arc::new(Summary::default());
    let slots = Arc::new(Semaphore::new(options.slots));
    present(&fleet, &options, 0).await?;
    let background = stop.child_token();
    lathe_spawn::task(upkeep(
        fleet.clone(),
        Arc::clone(&options),
        Arc::clone(&slots),
        background.clone(),
    ));
    while !stop.is_cancelled() {
        let permit = tokio::select! {
            permit = Arc::clone(&slots).acquire_owned() => permit,
            () = stop.cancelled() => break,
        };
        let Ok(permit) = permit else { break };
        // Not given up half way: the lease of a job that was just taken would have to run out.
        let claim = match fleet.claim(&options.name, &options.wanted, LOOK).await {
            Ok(Some(claim)) => claim,
            Ok(None) => {
                drop(permit);
                if options.until_empty && is_empty(&fleet).await {
                    break;
                }
                continue;
            }
            Err(error) => {
                tracing::warn!("no job could be taken: {error}");
                report(&format!("no job could be taken: {error}"));
                tokio::time::sleep(TROUBLE).await;
                continue;
            }
        };
        let work = Box::pin(one(
            fleet.clone(),
            Arc::clone(&options),
            claim,
            stop.clone(),
            Arc::clone(&report),
            Arc::clone(&summary),
        ));
        lathe_spawn::task(async move {
            work.await;
            drop(permit);
        });
    }
    // Every slot is free when every job ended.
    let all = u32::try_from(options.slots).unwrap_or(u32::MAX);
    drop(slots.acquire_many(all).await);
    background.cancel();
    Ok(summary)
}

/// One job, from its claim to the end of the attempt.
async fn one(
    fleet: Fleet,
    options: Arc<WorkerOptions>,
    claim: Claim,
    stop: CancellationToken,
    report: Report,
    summary: Arc<Summary>,
) {
    let id = claim.entry.job.id.clone();
    report(&format!("{id} begins (attempt {})", claim.entry.attempt));
    let ended = Attempt::run(fleet, options, claim, stop).await;
    let count = match &ended {
        Ok(State::Done) => &summary.done,
        _ => &summary.other,
    };
    count.fetch_add(1, Ordering::Relaxed);
    match ended {
        Ok(state) => report(&format!("{id} {}", state.name())),
        Err(error) => report(&format!("{id} was lost: {error}")),
    }
}

async fn is_empty(fleet: &Fleet) -> bool {
    match fleet.entries().await {
        Ok(entries) => entries
            .iter()
            .all(|entry| entry.state.is_final() || entry.state == State::Parked),
        Err(_) => false,
    }
}

async fn present(fleet: &Fleet, options: &WorkerOptions, busy: usize) -> Result<(), QueueError> {
    fleet
        .present(&WorkerInfo {
            name: options.name.clone(),
            host: options.host.clone(),
            pid: std::process::id(),
            slots: options.slots,
            busy,
            classes: options.wanted.classes.clone(),
            labels: options.wanted.labels.clone(),
            at: wall_clock(),
        })
        .await
}

/// The time of this machine in milliseconds.
fn wall_clock() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

/// Describes the worker, and looks for lost messages.
async fn upkeep(
    fleet: Fleet,
    options: Arc<WorkerOptions>,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
) {
    let mut presents = tokio::time::interval(PRESENT);
    // Workers that start together do not sweep together.
    let first = tokio::time::Instant::now()
        + SWEEP
        + Duration::from_millis(u64::from(std::process::id() % 10_000));
    let mut sweeps = tokio::time::interval_at(first, SWEEP);
    loop {
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            _ = presents.tick() => {
                let busy = options.slots.saturating_sub(slots.available_permits());
                present(&fleet, &options, busy).await
            }
            _ = sweeps.tick() => fleet.sweep_in_turn().await,
        };
        if let Err(error) = ended {
            tracing::warn!("upkeep of the queue failed: {error}");
        }
    }
}
