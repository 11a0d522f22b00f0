//! The file tools as the engine uses them: by name, from JSON, on real files.
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

mod changing;
mod damage;
mod definitions;
mod notebooks;
mod reading;
mod searching;
mod support;
