//! The heart: a session takes prompts, calls the model, runs its tools and keeps the transcript.
//!
//! A face opens a session ([`mod@open`]), sends it ops and hears events. Inside, the [`session`] actor runs
//! one turn after another; a turn (`turn`) is a loop of steps (`step`), and what follows a step is
//! decided by a pure function ([`decide`]). Tool calls run in the streaming `executor`, each through
//! the same pipeline (`call`): input, hooks, permission, run, hooks, size.
//!
//! The engine never prints, never reads a key and never knows who is watching. What it shows, it sends
//! as events; what it remembers, it writes to the transcript first.
//!
//! Start with [`decide`], then `turn.rs`.
#![forbid(unsafe_code)]

mod agents;
mod attachments;
mod background;
mod call;
mod change_text;
mod commands;
mod compaction;
pub mod context;
mod conversation;
pub mod cost;
pub mod decide;
pub mod events;
mod executor;
mod extraction;
mod guard;
pub mod hands;
mod hook_model;
mod hook_points;
mod language;
pub mod ledger;
mod live;
mod magic_docs;
pub mod mcp;
mod models;
mod notes;
pub mod open;
mod open_agents;
mod open_model;
mod open_parts;
pub mod options;
mod plan;
pub mod plugins;
mod preview;
pub mod prompt;
pub mod questions;
mod records;
mod results;
pub mod session;
mod skills;
mod step;
mod today;
mod tool_search;
mod turn;
mod undo;
mod watched_files;

pub use change_text::{Change, ChangeTextError, change_text};
pub use events::EventStream;
pub use mcp::{HOSTED_PROTOCOL, McpOptions};
pub use open::{Opened, open};
pub use options::{
    CustomTools, OpenError, SessionChoice, SessionOptions, Setup, TranscriptObserver,
};
pub use preview::{Preview, PreviewPart, context_usage, preview};
pub use questions::Answerer;
pub use session::{
    ContextHandle, EndReason, ExtensionsHandle, HistoryHandle, ModelHandle, PermissionsHandle,
    PluginsHandle, SessionHandle, SettingsHandle, SideQuestionsHandle, TasksHandle,
};
