//! The engine: a session takes prompts, calls the model, runs its tools and keeps the transcript.
//!
//! A face opens a session ([`mod@open`]), sends it ops and receives events. Inside, the [`session`] actor
//! runs one turn after another; a turn ([`turn`]) is a loop of steps, and what follows a step is decided by a
//! pure function ([`turn::decide`]). Tool calls (`call`) run while the answer streams, each through the same
//! pipeline: input, hooks, permission, run, hooks, size. What belongs to all conversations of a session is
//! `session::Session`; the main conversation, agents and forks are each a `conversation::Conversation`.
//!
//! The engine never prints, never reads a key and never knows who is watching. What it shows, it sends
//! as events; what it remembers, it writes to the transcript first.
//!
//! Start with [`turn::decide`], then `turn/mod.rs`.
#![forbid(unsafe_code)]

mod agents;
mod call;
pub mod context;
mod conversation;
pub mod editor;
pub mod mcp;
pub mod models;
pub mod open;
pub mod review;
pub mod session;
mod skills;
pub mod turn;
pub mod workflow;
mod worktree;

pub use agents::MemberSeat;
pub use context::prompt;
pub use conversation::coordinator::NoScratch;
pub use conversation::goal::{BadGoal, Goal};
pub use conversation::questions::{self, Answerer};
pub use conversation::undo::write_guard;
pub use editor::{EditorControl, EditorUnknown, RunningEditor};
pub use mcp::{HOSTED_PROTOCOL, McpOptions};
pub use open::change_text::{Change, ChangeTextError, change_text};
pub use open::options::{
    CustomTools, ExtensionOptions, HistoryOptions, LentEditor, LimitOptions, LoadedSettings,
    ModelOptions, OpenError, PermissionOptions, PromptOptions, SessionChoice, SessionOptions,
    SettingsOptions, Setup, TeamOptions, ToolOptions, TranscriptObserver,
};
pub use open::preview::{Preview, PreviewPart, context_usage, preview};
pub use open::restore::LAST_TURN_INTERRUPTED;
pub use open::schedule::{ScheduleOptions, SessionClock};
pub use open::{Opened, SessionTools, ToolAnswer, open};
pub use session::events::EventStream;
pub use session::observe::{BeginObserving, ObserveOptions, Observer};
pub use session::{
    BesideError, Carried, ChangedFilesError, ContextHandle, EFFORTS, EndReason, ExtensionsHandle,
    FlagError, GoalHandle, HistoryHandle, MessageRefused, ModelHandle, PermissionsHandle,
    PluginsHandle, Restart, SessionHandle, SessionMessage, SettingsHandle, SideQuestionsHandle,
    SwitchError, SwitchSource, TaskError, TasksHandle, UnknownEffort, cost, events, ledger,
    plugins,
};
pub use skills::UnknownStyle;
pub use turn::decide;
pub use turn::models::NotAvailable;
