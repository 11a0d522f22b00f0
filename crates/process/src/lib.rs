//! Child processes that always come back, and leave nothing behind.
//!
//! A program is described by a [`Command`] and started in one of these ways:
//!
//! | way | for |
//! |---|---|
//! | [`run()`] | a program that is fed, read and awaited: hooks, helpers, git |
//! | [`run_blocking`], [`read_blocking`] | the same from a thread that may wait: keyrings, git |
//! | [`Command::spawn`] | a program that is talked to through pipes: language servers, MCP servers |
//! | [`session::spawn`] | a shell with a session of its own and a socket to talk with it: the Bash tool |
//! | [`session::spawn_on_terminal`] | the same on a [`Terminal`], for programs that ask and are answered |
//! | [`Command::foreground`] | a program that has the terminal to itself: an editor |
//! | [`Command::launch`] | a program of the desktop that outlives this process: a browser |
//!
//! The first five lead a process group of their own. Its output is bounded, it has a limit or an owner, and
//! when that is over the [`Family`] is killed: the group, and every process below it in the process
//! tree that tried to leave. [`kill_everything`] does the same for all of them on the way out, and a
//! guard process where even that can't run (`guard`).
//!
//! A program that can leave its terminal is split in two by [`stub::split`] and moves to a [`Console`].
//!
//! `unsafe` code is in `system` (what a child does between `clone` and `exec`) and in `stub`.

#![deny(unsafe_code)]

mod blocking;
mod command;
mod console;
mod family;
mod foreground;
mod group;
mod guard;
mod live;
mod run;
pub mod session;
pub mod stub;
mod system;
mod terminal;

pub use blocking::{Output, read_blocking, run_blocking};
pub use command::{Command, Confine, inherited_environment};
pub use console::Console;
pub use family::{Family, Leader, MARKER_VARIABLE, Process, describe, is_marked, parent_of};
pub use foreground::write_on;
pub use group::Running;
pub use live::{Registration, kill_everything};
pub use run::{
    Deadline, Ending, FLOOD_BYTES, Finished, Job, KEPT_BYTES, OutputSoFar, StartError, run,
};
pub use system::Child;
pub use terminal::{LineMode, Reader, Terminal, TerminalSize, Waits};
