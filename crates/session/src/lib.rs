//! The transcript store.
//!
//! A session is a file of JSON lines, one record each, and a folder of what doesn't fit in lines
//! ([`paths`]). This crate appends to it ([`writer`]), reads it back whatever happened to it
//! ([`mod@load`]), derives from it what the model is sent ([`history`]), finds, forks, names and
//! deletes sessions ([`store`]), and undoes what a session did to files ([`checkpoint`], [`scan`]).
//! [`cli`] is what the `lathe sessions` commands say.
//!
//! The transcript is the truth: what the model sees, what the user sees and what a resume restores
//! are functions of it. So nothing here keeps state that isn't in the file or derived from it, and
//! nothing here talks to a model, runs a tool or prints.
//!
//! Start with [`history::History`], which is the heart of it, then [`load::Loaded`].
#![forbid(unsafe_code)]

pub mod blob;
pub mod chain;
pub mod checkpoint;
pub mod cleanup;
pub mod cli;
pub mod contents;
pub mod error;
pub mod export;
pub mod facts;
pub mod fork;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod history;
pub mod import;
pub mod insights;
pub mod line;
pub mod link;
pub mod load;
pub mod paths;
mod peek;
pub mod sanitize;
pub mod scan;
pub mod search;
pub mod store;
pub mod template;
pub mod tree;
pub mod writer;

pub use chain::Interruption;
pub use checkpoint::{FileHistory, RewindMode, RewindReport};
pub use error::SessionError;
pub use facts::Facts;
pub use history::{History, normalize};
pub use line::DamagedLine;
pub use load::{Loaded, load, load_tail, load_to, record_ids};
pub use paths::SessionPaths;
pub use store::{Scope, SessionInfo, SessionStore};
pub use template::RecordTemplate;
pub use writer::{TranscriptWriter, WriteProblem, WriterOptions};
