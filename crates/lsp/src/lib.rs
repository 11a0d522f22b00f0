//! Language servers: programs that know a programming language, asked on the model's behalf.
//!
//! A server is configured in settings or comes with a plugin ([`config`]); nothing is built in. It is started
//! when a file of its kind is first asked about or changed, in a process group of its own (`process`), and
//! spoken to in JSON-RPC over its standard input and output (`framing`, `connection`). What it says by itself
//! is noted and what it asks is answered (`inbox`); which files it knows is kept with it (`server`), and how
//! often it may be started again beside it (`slot`). [`query`] holds the questions and puts the answers, which
//! servers give in many forms, into one. `edits` finds out which problems an edit of ours has brought.
//!
//! A server is somebody else's program: it may be missing, hang, flood or die. All of that is an [`LspError`]
//! to whoever asked, told to the person once, and never more.
//!
//! Start with [`LanguageServers`].
#![forbid(unsafe_code)]

pub mod config;
mod connection;
pub mod diagnostics;
mod edits;
mod error;
mod framing;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod inbox;
mod limits;
mod manager;
pub mod position;
mod process;
pub mod query;
mod server;
mod slot;

pub use config::{ServerConfig, Servers};
pub use diagnostics::{FileNews, Problem, Severity, new_problems, tell};
pub use edits::Conversation;
pub use error::LspError;
pub use manager::{LanguageServers, Status, Surroundings, patience};
pub use process::find_program;
pub use query::{Answer, Operation, Place, Question, Symbol};
pub use slot::Standing;
