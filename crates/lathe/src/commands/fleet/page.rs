//! The board of the fleet on the page of `lathe serve`.

use super::board::group;
use super::open_configured;
use lathe_fleet::Fleet;
use lathe_fleet::backend::Answer;
use lathe_fleet::entry::{Entry, State};
use lathe_fleet::job::JobKey;
use lathe_server::jobs::{JobBoard, JobEntry, JobVerb, Jobs, JobsError, Pending};
use lathe_settings::Places;
use std::cmp::Reverse;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// How many jobs the page shows.
const SHOWN: usize = 200;
/// The longest answer in the list.
const LONGEST: usize = 4_000;

/// The fleet of the user, opened when a page asks for it.
#[derive(Debug)]
struct PageJobs {
    places: Places,
    fleet: OnceCell<Fleet>,
}

/// The jobs for the page.
pub(crate) fn jobs(places: &Places) -> Arc<dyn Jobs> {
    Arc::new(PageJobs {
        places: places.clone(),
        fleet: OnceCell::new(),
    })
}

impl PageJobs {
    async fn fleet(&self) -> Result<&Fleet, JobsError> {
        let opened = self
            .fleet
            .get_or_try_init(|| open_configured(&self.places))
            .await;
        opened.map_err(|error| JobsError::new(error.to_string()))
    }
}

impl Jobs for PageJobs {
    fn board(&self) -> Pending<'_, JobBoard> {
        Box::pin(async move {
            let fleet = self.fleet().await?;
            let mut entries = fleet.entries().await.map_err(JobsError::new)?;
            let total = entries.len();
            entries.sort_by_key(|entry| (group(entry), Reverse(entry.changed)));
            entries.truncate(SHOWN);
            let mut jobs = Vec::with_capacity(entries.len());
            for entry in entries {
                jobs.push(job(fleet, entry).await?);
            }
            let workers = fleet.backend().workers().await.map_err(JobsError::new)?;
            Ok(JobBoard {
                jobs,
                total,
                workers: workers.len(),
                slots: workers.iter().map(|worker| worker.slots).sum(),
                busy: workers.iter().map(|worker| worker.busy).sum(),
            })
        })
    }

    fn act<'a>(&'a self, id: &'a str, verb: JobVerb, device: &'a str) -> Pending<'a, ()> {
        Box::pin(async move {
            let fleet = self.fleet().await?;
            let key = key(fleet, id).await?;
            match verb {
                JobVerb::Cancel => fleet.cancel(&key).await.map(|_| ()).map_err(JobsError::new),
                JobVerb::Retry => fleet.retry(&key).await.map_err(JobsError::new),
                JobVerb::Allow | JobVerb::Deny => {
                    let asks = fleet.asks(&key).await.map_err(JobsError::new)?;
                    let open = asks.iter().find(|ask| ask.answer.is_none());
                    let open = open.ok_or_else(|| JobsError::new("no question is open"))?;
                    let answer = Answer {
                        allow: verb == JobVerb::Allow,
                        message: None,
                        input: None,
                        by: device.to_owned(),
                    };
                    match fleet.answer(&key, &open.id, &answer).await {
                        Ok(true) => Ok(()),
                        Ok(false) => Err(JobsError::new("the question was answered before")),
                        Err(error) => Err(JobsError::new(error)),
                    }
                }
            }
        })
    }
}

async fn key(fleet: &Fleet, id: &str) -> Result<JobKey, JobsError> {
    let keys = fleet.backend().keys().await.map_err(JobsError::new)?;
    let found = keys.into_iter().find(|key| key.id == id);
    found.ok_or_else(|| JobsError::new(format!("there is no job {id}")))
}

async fn job(fleet: &Fleet, entry: Entry) -> Result<JobEntry, JobsError> {
    let question = match entry.state {
        State::Asking | State::Parked => {
            let asks = fleet.asks(&entry.job.key()).await.map_err(JobsError::new)?;
            let open = asks.into_iter().find(|ask| ask.answer.is_none());
            open.map(|ask| ask.title)
        }
        _ => None,
    };
    let result = entry.result.map(|result| result.text);
    let since = (fleet.backend().now() - entry.changed).max(0) / 1000;
    Ok(JobEntry {
        title: entry.job.headline().to_owned(),
        id: entry.job.id,
        state: entry.state.name().to_owned(),
        worker: entry.worker,
        reason: entry.reason,
        cost_usd: entry.cost_usd,
        seconds: u64::try_from(since).unwrap_or_default(),
        question,
        result: result.map(|text| text.chars().take(LONGEST).collect()),
    })
}
