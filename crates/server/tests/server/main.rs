//! The server as a whole: attacks, the API, and the page in a browser.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests assert by panicking, and stand outside of the program"
)]

mod api;
mod attacks;
mod attacks_table;
mod messages;
#[cfg(target_os = "linux")]
mod page;
mod relay;
mod support;
