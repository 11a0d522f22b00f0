//! Moves a session to another machine: its conversation, and the git state of its folder.
//!
//! [`push`] packs a session into an archive and brings it to a [`Target`]; [`pull`] takes one in. The source keeps its
//! transcript with a `moved` fact and refuses to go on, unless the session was forked. Nothing at the source is
//! changed before the archive is complete at its target, and a pull writes the transcript last, so that a kill at any
//! point loses nothing: the session is complete at one end at least.
//!
//! The git state is carried as two commits that no ref of the source knows (`snapshot`), and put into a clone
//! or a new worktree (`restore`). Trust, permission rules, the bypass mode, keys and ignored files are not carried.
#![forbid(unsafe_code)]

mod archive;
mod error;
pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod git;
mod moves;
mod restore;
mod session;
mod snapshot;
mod target;

pub use archive::{Manifest, Member};
pub use error::{Refusal, TeleportError};
pub use moves::{Pull, Pulled, Push, Pushed, mark_moved, pull, push};
pub use session::Secrets;
pub use snapshot::{GitState, SnapshotOptions};
pub use target::Target;
