//! Language servers as processes: a scripted one that behaves as told, and real ones.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests assert by panicking"
)]

mod asking;
mod editing;
mod faults;
mod real;
mod support;
