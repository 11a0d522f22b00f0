//! Checks of a fleet beyond its storage: jobs that nobody can take, workers that are silent, questions that wait.

use crate::backend::{Check, Wanted, WorkerInfo};
use crate::entry::{Entry, State};
use crate::error::QueueError;
use crate::fleet::Fleet;
use std::collections::BTreeMap;
use std::time::Duration;

/// A job that is over its lease by this much is stuck, in milliseconds.
const STUCK: i64 = 30_000;

/// Checks the storage, the workers and the jobs.
///
/// # Errors
/// If the storage can't be reached at all.
pub async fn check(fleet: &Fleet) -> Result<Vec<Check>, QueueError> {
    let mut checks = fleet.backend().checks().await?;
    let workers = fleet.backend().workers().await?;
    let entries = fleet.entries().await?;
    checks.extend(about_jobs(&entries, &workers, fleet.backend().now()));
    Ok(checks)
}

/// The checks of jobs and workers, as a function of data.
#[must_use]
pub fn about_jobs(entries: &[Entry], workers: &[WorkerInfo], now: i64) -> Vec<Check> {
    let slots: usize = workers.iter().map(|worker| worker.slots).sum();
    let queued = entries.iter().filter(|entry| entry.state == State::Queued);
    let mut checks = vec![match (workers.len(), queued.clone().count()) {
        (0, 1..) => Check::wrong(
            "workers",
            "jobs are queued and no worker is there",
            "lathe fleet worker --slots 4",
        ),
        (count, _) => Check::fine("workers", format!("{count} with {slots} slots")),
    }];
    let mut nobody: BTreeMap<String, usize> = BTreeMap::new();
    for entry in queued {
        // Secrets are not listed: their names are the worker's own business.
        let takes = |worker: &WorkerInfo| {
            let wanted = Wanted {
                classes: worker.classes.clone(),
                labels: worker.labels.clone(),
                secrets: entry.job.needs.secrets.clone(),
                lease: Duration::ZERO,
            };
            worker.classes.contains(&entry.job.class) && crate::fits(&entry.job.needs, &wanted)
        };
        if !workers.is_empty() && !workers.iter().any(takes) {
            let mut words = format!("--class {}", entry.job.class);
            if !entry.job.needs.labels.is_empty() {
                words.push_str(&format!(" --labels {}", entry.job.needs.labels.join(",")));
            }
            *nobody.entry(words).or_default() += 1;
        }
    }
    for (words, count) in nobody {
        checks.push(Check::wrong(
            "conditions",
            format!("{count} queued jobs fit no worker"),
            format!("lathe fleet worker {words}"),
        ));
    }
    let stuck: Vec<&str> = entries
        .iter()
        .filter(|entry| entry.state.is_held() && now - entry.deadline > STUCK)
        .map(|entry| entry.job.id.as_str())
        .collect();
    checks.push(if stuck.is_empty() {
        Check::fine("leases", "no job is over its lease")
    } else {
        Check::wrong(
            "leases",
            format!("over their lease: {}", stuck.join(" ")),
            "start a worker of their class: it takes them over",
        )
    });
    let asking: Vec<&str> = entries
        .iter()
        .filter(|entry| matches!(entry.state, State::Asking | State::Parked))
        .map(|entry| entry.job.id.as_str())
        .collect();
    if !asking.is_empty() {
        checks.push(Check::wrong(
            "questions",
            format!("open in: {}", asking.join(" ")),
            "lathe fleet show ID, then lathe fleet answer ID allow|deny",
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;

    fn worker(labels: &[&str]) -> WorkerInfo {
        WorkerInfo {
            name: "w".to_owned(),
            host: "h".to_owned(),
            pid: 1,
            slots: 2,
            busy: 0,
            classes: vec!["default".to_owned()],
            labels: labels.iter().map(|it| (*it).to_owned()).collect(),
            at: 0,
        }
    }

    fn text(checks: &[Check]) -> String {
        let wrong = checks.iter().filter(|check| !check.ok);
        wrong
            .map(|check| {
                format!(
                    "{}: {} → {}\n",
                    check.name,
                    check.text,
                    check.fix.as_deref().unwrap_or_default()
                )
            })
            .collect()
    }

    #[test]
    fn jobs_that_nobody_takes_and_leases_that_are_over_are_found() {
        let mut job = Job::new("p");
        job.needs.labels = vec!["gpu".to_owned()];
        let queued = Entry::new(job, 0);
        assert!(
            text(&about_jobs(std::slice::from_ref(&queued), &[], 0)).contains("no worker is there")
        );
        let found = text(&about_jobs(
            std::slice::from_ref(&queued),
            &[worker(&[])],
            0,
        ));
        assert!(
            found.contains("lathe fleet worker --class default --labels gpu"),
            "{found}"
        );
        assert_eq!(
            text(&about_jobs(
                std::slice::from_ref(&queued),
                &[worker(&["gpu"])],
                0
            )),
            ""
        );
        let held = queued.claimed("w", 0, Duration::from_secs(1));
        let found = text(&about_jobs(
            std::slice::from_ref(&held),
            &[worker(&[])],
            60_000,
        ));
        assert!(found.contains("leases: over their lease"), "{found}");
        let parked = held.released(State::Parked, None, 0);
        assert!(text(&about_jobs(&[parked], &[], 0)).contains("questions: open in"));
    }
}
