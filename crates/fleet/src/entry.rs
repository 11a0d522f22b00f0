//! The state of a job, and every transition of it as a function of data.

use crate::job::Job;
use lathe_protocol::event::ModelUsage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a job is given to a worker before it is given up: a job that kills its workers must not kill them all.
pub const MOST_ATTEMPTS: u32 = 5;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Waits for a worker, or for the jobs before it.
    Queued,
    /// A worker has it.
    Running,
    /// A worker has it, and a question is open.
    Asking,
    /// A question is open and no worker has it.
    Parked,
    /// Finished.
    Done,
    /// Given up.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl State {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Asking => "asking",
            Self::Parked => "parked",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// True if nothing happens with it any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// True if a worker has it.
    #[must_use]
    pub fn is_held(self) -> bool {
        matches!(self, Self::Running | Self::Asking)
    }
}

/// The files of a job at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRef {
    /// The git bundle.
    pub blob: String,
    /// The description of the git state.
    pub state: Value,
    /// The position of the log at that moment.
    pub log: u64,
    /// When it was taken, in milliseconds.
    pub at: i64,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobResult {
    /// The last answer.
    pub text: String,
    /// The answer that fits the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The changes as a diff that `git apply` takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The commits that were made, as a git bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// The transcript.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// Transcripts of sub-agents, and the runs of workflows: the blob of each file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub beside: BTreeMap<String, String>,
    /// The commit that the changes are relative to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Model calls.
    pub turns: u64,
    /// The tokens and the cost of the last attempt, by model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: BTreeMap<String, ModelUsage>,
    /// Milliseconds of the last attempt.
    pub duration_ms: u64,
}

/// A job with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The job.
    pub job: Job,
    /// The state.
    pub state: State,
    /// Grows with every claim. Who has an older one may publish nothing.
    pub epoch: u64,
    /// How often it was given to a worker.
    pub attempt: u32,
    /// The worker that has it.
    pub worker: Option<String>,
    /// Until when the worker has it unless it renews, in milliseconds of the queue's clock.
    pub deadline: i64,
    /// The id of its session.
    pub session: Option<String>,
    /// The cost so far, in dollars.
    pub cost_usd: f64,
    /// True if it is to end.
    #[serde(default)]
    pub cancel: bool,
    /// Why it is in this state.
    #[serde(default)]
    pub reason: Option<String>,
    /// Its result.
    #[serde(default)]
    pub result: Option<JobResult>,
    /// Its newest snapshot.
    #[serde(default)]
    pub snapshot: Option<SnapshotRef>,
    /// When it was submitted.
    pub created: i64,
    /// When the state changed.
    pub changed: i64,
}

/// The decision of a worker about a job that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Claim it.
    Take,
    /// Nothing is to be done: the message is obsolete.
    Drop,
    /// Another worker has it; look again later.
    Wait(Duration),
    /// It was tried too often.
    GiveUp,
}

impl Entry {
    /// A job that was submitted.
    #[must_use]
    pub fn new(job: Job, now: i64) -> Self {
        Self {
            job,
            state: State::Queued,
            epoch: 0,
            attempt: 0,
            worker: None,
            deadline: 0,
            session: None,
            cost_usd: 0.0,
            cancel: false,
            reason: None,
            result: None,
            snapshot: None,
            created: now,
            changed: now,
        }
    }

    /// Decides what to do with a job that the queue hands out.
    #[must_use]
    pub fn judge(&self, now: i64) -> Verdict {
        match self.state {
            State::Done | State::Failed | State::Cancelled | State::Parked => Verdict::Drop,
            State::Running | State::Asking if self.deadline > now => {
                let left = u64::try_from(self.deadline - now).unwrap_or_default();
                Verdict::Wait(Duration::from_millis(left))
            }
            _ if self.attempt >= MOST_ATTEMPTS => Verdict::GiveUp,
            State::Queued | State::Running | State::Asking => Verdict::Take,
        }
    }

    /// The job in the hands of a worker.
    #[must_use]
    pub fn claimed(&self, worker: &str, now: i64, lease: Duration) -> Self {
        let mut next = self.clone();
        next.state = State::Running;
        next.epoch += 1;
        next.attempt += 1;
        next.worker = Some(worker.to_owned());
        next.session
            .get_or_insert_with(|| uuid::Uuid::new_v4().to_string());
        next.reason = None;
        next.renew(now, lease);
        next.changed = now;
        next
    }

    /// Extends the lease.
    pub fn renew(&mut self, now: i64, lease: Duration) {
        let lease = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 4);
        self.deadline = now.saturating_add(lease);
    }

    /// True if this is the claim of this worker in this epoch.
    #[must_use]
    pub fn belongs_to(&self, worker: &str, epoch: u64) -> bool {
        self.state.is_held() && self.epoch == epoch && self.worker.as_deref() == Some(worker)
    }

    /// Without a worker, in a state.
    #[must_use]
    pub fn released(&self, state: State, reason: Option<String>, now: i64) -> Self {
        let mut next = self.clone();
        next.state = state;
        next.worker = None;
        next.deadline = 0;
        next.reason = reason;
        next.changed = now;
        next
    }

    /// The state after an attempt that failed: again, or given up.
    #[must_use]
    pub fn after_failure(&self, reason: String, now: i64) -> Self {
        let again = self.attempt <= self.job.limits.retries && self.attempt < MOST_ATTEMPTS;
        let state = if again { State::Queued } else { State::Failed };
        let mut next = self.released(state, Some(reason), now);
        // A new attempt begins from the start: what failed is not continued.
        if again {
            next.session = None;
            next.snapshot = None;
        }
        next
    }
}

/// Whether the jobs before a job let it begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// All are done.
    Yes,
    /// One is not finished.
    NotYet,
    /// One failed or was cancelled.
    Never(String),
}

/// Looks at the jobs that a job waits for.
#[must_use]
pub fn ready(after: &[String], state_of: &BTreeMap<String, State>) -> Ready {
    let mut result = Ready::Yes;
    for id in after {
        match state_of.get(id) {
            Some(State::Done) => {}
            Some(State::Failed | State::Cancelled) => return Ready::Never(id.clone()),
            _ => result = Ready::NotYet,
        }
    }
    result
}

/// The money and the concurrency of a tenant.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    /// The most that its jobs may cost together, in dollars.
    pub limit_usd: Option<f64>,
    /// The most jobs at the same time.
    pub concurrency: Option<u32>,
    /// The cost of its jobs so far.
    pub spent_usd: f64,
    /// The running jobs, with what they may still cost.
    pub reserved: BTreeMap<String, f64>,
}

impl Budget {
    /// True if jobs of the tenant need a reservation.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.limit_usd.is_some() || self.concurrency.is_some()
    }

    /// Reserves money and a place for a job. False if there is not enough.
    pub fn reserve(&mut self, job: &str, usd: f64) -> bool {
        let others = || self.reserved.iter().filter(|(id, _)| *id != job);
        let promised: f64 = others().map(|(_, usd)| usd).sum();
        let left = |limit: f64| limit - self.spent_usd - promised;
        let has_place = self
            .concurrency
            .is_none_or(|most| others().count() < most as usize);
        let has_money = self
            .limit_usd
            .is_none_or(|limit| left(limit) > 0.0 && left(limit) + 1e-9 >= usd);
        let fits = has_place && has_money;
        if fits {
            self.reserved.insert(job.to_owned(), usd);
        }
        fits
    }

    /// Ends the reservation of a job, with what it cost.
    pub fn settle(&mut self, job: &str, cost: f64) {
        self.reserved.remove(job);
        self.spent_usd += cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn entry() -> Entry {
        Entry::new(Job::new("p"), 1_000)
    }

    #[test]
    fn a_job_is_taken_when_nobody_has_it_or_the_lease_is_over() {
        let queued = entry();
        assert_eq!(queued.judge(0), Verdict::Take);
        let held = queued.claimed("w1", 1_000, LEASE);
        assert_eq!((held.epoch, held.attempt), (1, 1));
        assert_eq!(held.judge(31_000), Verdict::Wait(Duration::from_secs(30)));
        assert_eq!(held.judge(61_000), Verdict::Take);
        let again = held.claimed("w2", 61_000, LEASE);
        assert_eq!(again.epoch, 2);
        assert_eq!(again.session, held.session, "the conversation continues");
        assert!(!again.belongs_to("w1", 1) && again.belongs_to("w2", 2));
        for state in [State::Done, State::Failed, State::Cancelled, State::Parked] {
            assert_eq!(again.released(state, None, 0).judge(0), Verdict::Drop);
        }
    }

    #[test]
    fn a_job_that_kills_its_workers_is_given_up() {
        let mut entry = entry();
        for number in 0..MOST_ATTEMPTS {
            assert_eq!(entry.judge(i64::MAX), Verdict::Take, "{number}");
            entry = entry.claimed("w", 0, LEASE);
        }
        assert_eq!(entry.judge(i64::MAX), Verdict::GiveUp);
    }

    #[test]
    fn a_failure_is_tried_again_as_often_as_the_job_says() {
        let first = entry().claimed("w", 0, LEASE);
        let again = first.after_failure("no".to_owned(), 5);
        assert_eq!((again.state, again.session.as_ref()), (State::Queued, None));
        let second = again
            .claimed("w", 6, LEASE)
            .after_failure("no".to_owned(), 7);
        assert_eq!(second.state, State::Failed);
        assert_eq!(second.reason.as_deref(), Some("no"));
    }

    #[test]
    fn a_job_waits_for_others_and_ends_with_one_that_failed() {
        let states = |list: &[(&str, State)]| -> BTreeMap<String, State> {
            list.iter()
                .map(|(id, state)| ((*id).to_owned(), *state))
                .collect()
        };
        let after = ["a".to_owned(), "b".to_owned()];
        assert_eq!(ready(&[], &states(&[])), Ready::Yes);
        assert_eq!(ready(&after, &states(&[("a", State::Done)])), Ready::NotYet);
        let both = states(&[("a", State::Done), ("b", State::Done)]);
        assert_eq!(ready(&after, &both), Ready::Yes);
        let failed = states(&[("a", State::Running), ("b", State::Failed)]);
        assert_eq!(ready(&after, &failed), Ready::Never("b".to_owned()));
    }

    #[test]
    fn a_budget_is_never_promised_twice() {
        let mut budget = Budget {
            limit_usd: Some(10.0),
            ..Budget::default()
        };
        assert!(budget.reserve("a", 6.0));
        assert!(budget.reserve("a", 6.0), "the same job again");
        assert!(!budget.reserve("b", 6.0));
        budget.settle("a", 3.0);
        assert!(budget.reserve("b", 6.0));
        assert!(!budget.reserve("c", 1.5));
        budget.settle("b", 7.0);
        assert!(!budget.reserve("c", 0.0), "nothing is left");
        let mut places = Budget {
            concurrency: Some(1),
            ..Budget::default()
        };
        assert!(places.reserve("a", 0.0) && places.reserve("a", 0.0));
        assert!(!places.reserve("b", 0.0), "one at a time");
        places.settle("a", 1.0);
        assert!(places.reserve("b", 0.0));
    }
}
