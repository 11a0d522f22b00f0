//! The sandbox with real processes and the real kernel, as root and as somebody else, in every tier.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests assert by panicking and use the programs that are installed"
)]

mod attack_cases;
mod attacks;
mod cost;
mod daily;
mod support;
mod swaps;
