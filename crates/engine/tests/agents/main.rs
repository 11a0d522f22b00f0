//! Sub-agents, task lists, questions and plans, against a scripted model.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests say what they expect"
)]

mod coordinator;
mod forks;
mod goals;
mod limits;
mod plans;
mod reviews;
mod running;
mod schedule;
mod support;
mod surroundings;
mod tasks;
mod teams;
mod worktrees;
