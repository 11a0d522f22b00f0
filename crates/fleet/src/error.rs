//! Errors of the queue, of jobs and of workers.

use std::path::{Path, PathBuf};

/// A job that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// Not JSON, or a value of another type.
    #[error("{0}")]
    Json(#[source] serde_json::Error),
    /// A key that jobs don't have.
    #[error("a job has no key `{0}`")]
    UnknownKey(String),
    /// A wrong value.
    #[error("`{field}` {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// The reason.
        why: String,
    },
    /// The same, in a file of several.
    #[error("line {line}: {error}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The error there.
        error: Box<Self>,
    },
}

impl JobError {
    pub(crate) fn at_line(self, line: usize) -> Self {
        Self::Line {
            line,
            error: Box::new(self),
        }
    }
}

/// Why an operation of the queue failed.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Somebody else changed it first.
    #[error("another process changed it first")]
    Conflict,
    /// The job belongs to another worker now. Nothing may be published for it.
    #[error("another worker has the job now")]
    Fenced,
    /// There is no such job.
    #[error("there is no job {0}")]
    NoJob(String),
    /// The job is in a state that does not allow it.
    #[error("{job} is {state}")]
    State {
        /// The job.
        job: String,
        /// Its state.
        state: &'static str,
    },
    /// A job that is wrong.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A file operation failed.
    #[error("can't {action} {}: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Stored data that can't be read.
    #[error("{what} is damaged: {why}")]
    Damaged {
        /// The data.
        what: String,
        /// The reason.
        why: String,
    },
    /// The server failed, or can't be reached.
    #[error("{0}")]
    Server(String),
}

impl QueueError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path: path.clone(),
            source,
        }
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "texts, paths and errors alike"
    )]
    pub(crate) fn damaged(what: impl ToString, why: impl ToString) -> Self {
        Self::Damaged {
            what: what.to_string(),
            why: why.to_string(),
        }
    }
}
