//! Language servers: programs that know a programming language, asked on the model's behalf.
//!
//! A server is configured in settings or comes with a plugin ([`config`]); none is built in. It is started when a
//! file of its kind is first queried or changed, in its own process group (`process`), and speaks JSON-RPC on
//! standard input and output (`framing`, `connection`). `inbox` handles its notifications and requests, `server`
//! tracks the files that are open at it, and `slot` limits restarts. [`query`] has the requests and brings the
//! answers, which servers give in many forms, into one. `edits` finds the problems that an edit caused, and
//! `workspace_edit` works edits out: a rename, a code action.
//!
//! A server is a foreign program: it may be missing, hang, flood or crash. All of that is an [`LspError`] for the
//! caller and one report to the user.
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
mod workspace_edit;

pub use config::{ServerConfig, Servers};
pub use diagnostics::{FileNews, Problem, Severity, new_problems, tell};
pub use edits::Conversation;
pub use error::LspError;
pub use manager::{LanguageServers, Status, Surroundings, patience};
pub use process::find_program;
pub use query::{CodeLocation, Operation, QueryAnswer, Question, Symbol};
pub use slot::Standing;
pub use workspace_edit::{CodeAction, EditOrder, FileChange};
