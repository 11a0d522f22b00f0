//! Language servers as processes: a scripted one that behaves as told, and real ones.
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
