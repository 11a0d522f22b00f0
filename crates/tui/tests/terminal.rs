//! The interactive terminal as a person meets it: the real binary in a real PTY, an emulator that
//! shows the screen, and a scripted model.
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

mod flows;
