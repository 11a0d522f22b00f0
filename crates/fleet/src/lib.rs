//! Agents as jobs on many machines: durable, restarted elsewhere with conversation and files, watched and answered by
//! people.
//!
//! | module | |
//! |---|---|
//! | [`job`] | a job as JSON |
//! | [`address`] | addresses of servers |
//! | [`entry`] | the state of a job, and its transitions as functions of data |
//! | [`backend`] | the operations of a storage; [`Folders`] on this machine, NATS JetStream for many |
//! | [`fleet`] | the protocol over a storage: claims, fencing, questions, budgets |
//! | [`doctor`] | checks of jobs and workers |
//! | [`worker`] | runs jobs as sessions of our own binary |
//!
//! Steps happen at least once, the transcript is one: every append names the record before it, and an owner that lost
//! its job can't append.
#![forbid(unsafe_code)]

pub mod address;
pub mod backend;
pub mod doctor;
pub mod entry;
mod error;
pub mod fleet;
mod folders;
pub mod job;
pub mod log;
#[cfg(feature = "nats")]
mod nats;
pub mod worker;

pub use error::{JobError, QueueError};
pub use fleet::Fleet;
pub use folders::Folders;
#[cfg(feature = "nats")]
pub use nats::{Nats, NatsOptions};

/// True if a worker meets the conditions of a job.
#[must_use]
pub fn fits(needs: &job::Needs, wanted: &backend::Wanted) -> bool {
    let has = |list: &[String], all: &[String]| all.iter().all(|it| list.contains(it));
    has(&wanted.labels, &needs.labels) && has(&wanted.secrets, &needs.secrets)
}
