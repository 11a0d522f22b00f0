//! Long conversations: counting, making room, keeping the provider's cache, and what they cost. The
//! model is scripted; everything else is real.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod adversarial;
mod cache;
mod choices;
mod compaction;
mod memory;
mod notes;
mod prompt;
mod results;
mod steps;
mod support;
