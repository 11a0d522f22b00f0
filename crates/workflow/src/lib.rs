//! Workflows: scripts that direct agents.
//!
//! A script is JavaScript that begins with `export const meta = {…}` and then calls `agent`, `parallel`, `pipeline`,
//! `phase`, `log` and `workflow`. It runs in an embedded engine that has no files, network, clock or randomness, so
//! that the same script with the same answers does the same: that is what makes a run resumable from its [`Journal`].
//!
//! - [`Script::parse`] reads a script and its `meta` without an engine; [`check`] finds what is wrong with it.
//! - [`run`] runs one on the calling thread. What it wants comes as [`Request`]s, and answers go back over a channel:
//!   the engine of this crate knows nothing of agents.
//! - [`Journal`] keeps the answers of finished calls.
#![forbid(unsafe_code)]
#![expect(
    missing_docs,
    reason = "not published; only what names don't say is documented"
)]

mod check;
mod error;
mod journal;
mod literal;
mod machine;
mod script;
mod token;

pub use check::check;
pub use error::{Position, ScriptError};
pub use journal::{AgentCall, Journal, Recorded, continuable, journal_line};
pub use machine::{Answer, Limits, MOST_ITEMS, Outcome, Request, RunOptions, run};
pub use script::{Meta, Phase, Script};
