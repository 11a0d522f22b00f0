//! The transcript store from outside: real files, real processes, real git.
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

mod api_rules;
mod conversation;
mod load;
mod looking_back;
mod properties;
mod store;
mod support;
mod undo;
mod writer;
