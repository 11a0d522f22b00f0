//! The interactive terminal as a user sees it: the real binary in a real PTY, an emulator that
//! shows the screen, and a scripted model.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![expect(clippy::unwrap_used, reason = "tests assert by panicking")]

mod flows;
