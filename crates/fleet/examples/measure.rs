//! Measures a fleet on NATS servers: `measure URL [WORKERS]` prints the times of appends, live messages, and of the way of
//! a job to one of many waiting workers, as JSON. `scripts/fleet-test` runs it on servers of its own; it leaves records
//! behind.
#![expect(clippy::print_stdout, reason = "a program of its own")]

use lathe_fleet::backend::{Backend as _, Wanted};
use lathe_fleet::job::{Job, JobKey};
use lathe_fleet::{Fleet, Nats, NatsOptions, QueueError};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many appends and live messages are measured.
const COUNT: usize = 2_000;
/// The size of a record.
const SIZE: usize = 1_024;
/// Workers that share one connection.
const PER_CONNECTION: usize = 50;
/// The lease of the workers.
const LEASE: Duration = Duration::from_secs(60);

async fn connect(url: &str) -> Result<Nats, QueueError> {
    let options = NatsOptions {
        url: url.to_owned(),
        credentials: None,
        replicas: None,
        prefix: "measure".to_owned(),
    };
    Box::pin(Nats::connect(options)).await
}

/// The middle, the 99th percentile and the largest of some times, in milliseconds.
fn summary(mut times: Vec<Duration>) -> Value {
    times.sort();
    let at = |share: usize| {
        let place = (times.len() * share / 100).min(times.len().saturating_sub(1));
        let millis = times.get(place).map_or(0.0, |it| it.as_secs_f64() * 1e3);
        (millis * 100.0).round() / 100.0
    };
    json!({"count": times.len(), "p50": at(50), "p99": at(99), "most": at(100)})
}

/// Appends to a log one after the other, each acknowledged by the servers.
async fn appends(nats: &Nats, run: &str) -> Result<Value, QueueError> {
    let key = JobKey {
        tenant: "measure".to_owned(),
        id: run.to_owned(),
    };
    let record = format!("\"{}\"", "x".repeat(SIZE - 2)).into_bytes();
    let mut times = Vec::with_capacity(COUNT);
    let mut last = 0;
    for _ in 0..COUNT {
        let begun = Instant::now();
        last = nats.append(&key, last, record.clone()).await?;
        times.push(begun.elapsed());
    }
    Ok(summary(times))
}

/// Sends live messages to another connection.
async fn live(nats: &Nats, url: &str, run: &str) -> Result<Value, QueueError> {
    let listener = connect(url).await?;
    let topic = format!("live.measure.{run}");
    let mut received = listener.listen(&topic).await?;
    // The server of this connection may learn of a listener at another one only a moment later.
    for known in 0.. {
        nats.publish(&topic, b"begin".to_vec()).await?;
        let heard = tokio::time::timeout(Duration::from_millis(100), received.recv()).await;
        match heard {
            Ok(Some(_)) => break,
            _ if known == 100 => return Err(nothing_heard()),
            _ => {}
        }
    }
    let mut times = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        let begun = Instant::now();
        nats.publish(&topic, vec![b'x'; SIZE]).await?;
        loop {
            let heard = tokio::time::timeout(LEASE, received.recv()).await;
            match heard.ok().flatten() {
                None => return Err(nothing_heard()),
                Some(message) if message.len() == SIZE => break,
                Some(_) => {}
            }
        }
        times.push(begun.elapsed());
    }
    Ok(summary(times))
}

fn nothing_heard() -> QueueError {
    QueueError::Server("the listener heard nothing".to_owned())
}

/// Submits jobs one after the other while many workers wait, and takes the time from the submission to the claim.
async fn dispatch(url: &str, run: &str, workers: usize) -> Result<Value, QueueError> {
    let (sender, mut claimed) = tokio::sync::mpsc::unbounded_channel();
    let mut fleet = Fleet::new(connect(url).await?);
    for number in 0..workers {
        if number % PER_CONNECTION == 0 {
            fleet = Fleet::new(connect(url).await?);
        }
        let (fleet, sender) = (fleet.clone(), sender.clone());
        let wanted = Wanted {
            classes: vec![run.to_owned()],
            labels: Vec::new(),
            secrets: Vec::new(),
            lease: LEASE,
        };
        lathe_spawn::task(async move {
            let name = format!("w{number}");
            while let Ok(found) = fleet.claim(&name, &wanted, Duration::from_secs(5)).await {
                if let Some(claim) = found {
                    let _ = sender.send((claim.entry.job.id.clone(), Instant::now()));
                }
            }
        });
    }
    let submitter = Fleet::new(connect(url).await?);
    let mut times = Vec::new();
    // The first ones find the consumers, and are not counted.
    for number in 0..workers.min(1_000) + 10 {
        let mut job = Job::new("measure");
        job.id = format!("{run}-{number}");
        job.class = run.to_owned();
        let id = job.id.clone();
        let begun = Instant::now();
        submitter.enqueue(job).await?;
        let found = tokio::time::timeout(LEASE, claimed.recv()).await;
        let Ok(Some((taken, at))) = found else {
            return Err(QueueError::Server(format!("nobody took {id}")));
        };
        if taken == id && number >= 10 {
            times.push(at.duration_since(begun));
        }
    }
    Ok(summary(times))
}

#[tokio::main]
async fn main() -> Result<(), QueueError> {
    let mut words = std::env::args().skip(1);
    let url = words
        .next()
        .ok_or_else(|| QueueError::Server("usage: measure URL [WORKERS]".to_owned()))?;
    let workers: usize = words.next().and_then(|it| it.parse().ok()).unwrap_or(1_000);
    let run = lathe_fleet::job::new_id();
    let nats = Arc::new(connect(&url).await?);
    let appends = appends(&nats, &run).await?;
    let live = live(&nats, &url, &run).await?;
    let dispatch = dispatch(&url, &run, workers).await?;
    let report = json!({"append": appends, "live": live, "dispatch": dispatch, "waiting": workers});
    println!("{report}");
    Ok(())
}
