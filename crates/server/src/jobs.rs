//! The jobs of a fleet on the page. The queue is the caller's: this crate knows only what the page shows and asks for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::pin::Pin;

/// Why a fleet can't do what a page asks for, in its own words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct JobsError(Box<dyn std::error::Error + Send + Sync>);

impl JobsError {
    /// An error with the words of another one.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// An operation under way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, JobsError>> + Send + 'a>>;

/// The jobs and workers of a fleet.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobBoard {
    /// The jobs, first those that need the user; the newest where there are too many.
    pub jobs: Vec<JobEntry>,
    /// How many jobs there are.
    pub total: usize,
    /// How many workers are there.
    pub workers: usize,
    /// How many jobs they can run at a time.
    pub slots: usize,
    /// How many they run now.
    pub busy: usize,
}

/// A job on the board.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobEntry {
    /// Its id.
    pub id: String,
    /// A line that describes it.
    pub title: String,
    /// queued, running, asking, parked, done, failed or cancelled.
    pub state: String,
    /// The worker that has it.
    pub worker: Option<String>,
    /// Why it is in this state.
    pub reason: Option<String>,
    /// Dollars so far.
    pub cost_usd: f64,
    /// Seconds since the state changed.
    pub seconds: u64,
    /// The open question.
    pub question: Option<String>,
    /// Its answer.
    pub result: Option<String>,
}

/// A request of a device about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobVerb {
    /// Answer the open question with yes.
    Allow,
    /// Answer it with no.
    Deny,
    /// End the job.
    Cancel,
    /// Queue it again, from the start.
    Retry,
}

/// The body of a request about a job.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct JobAct {
    /// The request.
    pub act: JobVerb,
}

/// A fleet, as the page needs it.
pub trait Jobs: Send + Sync + Debug {
    /// Its jobs and workers now.
    fn board(&self) -> Pending<'_, JobBoard>;
    /// Does something with a job, for a device of this name.
    fn act<'a>(&'a self, id: &'a str, verb: JobVerb, device: &'a str) -> Pending<'a, ()>;
}
