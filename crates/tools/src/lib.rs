//! The hands: the [`Tool`] trait and the built-in tools, one module each.
//!
//! A tool is code and a description text side by side (`read.rs`, `read.md`). It names its input
//! type, from which the schema that the model sees is generated, and does its work in `call`;
//! everything else has a default, and every default is the safe one. A tool never asks for
//! permission and never runs hooks: the engine's executor does that around the call, from what the
//! tool says about itself in `traits` and `subject`.
//!
//! Tools use the session through [`ToolContext`]; this crate knows nothing of
//! the engine.
//!
//! Start with [`tool::Tool`], then read [`todo_write`], the smallest one. The tools that change files
//! share one way of doing it (`change`): only what has been read and is unchanged ([`file_cache`]),
//! in the file's own encoding ([`text_file`]), whole or not at all ([`files`]).
#![forbid(unsafe_code)]

pub mod agent;
pub mod ask_user_question;
pub mod bash;
pub mod bash_input;
pub mod config;
pub mod context;
pub mod cron;
pub mod edit;
pub mod editor;
pub mod file_cache;
pub mod files;
pub mod glob;
pub mod grep;
pub mod host;
pub mod input;
pub mod list_agents;
pub mod lsp;
pub mod lsp_edit;
pub mod mcp_resources;
pub mod mcp_result;
pub mod mcp_tool;
pub mod monitor;
pub mod multi_edit;
pub mod notebook_edit;
pub mod plan_mode;
pub mod project_files;
pub mod proposal;
pub mod read;
pub mod registry;
pub mod replacement;
pub mod report_findings;
pub mod schedule;
pub mod send_message;
pub mod structured_output;
pub mod task_list;
pub mod task_output;
pub mod task_stop;
pub mod task_store;
pub mod team;
pub mod team_create;
pub mod team_delete;
pub mod text_file;
pub mod todo_write;
pub mod tool;
pub mod web_fetch;
pub mod web_search;
pub mod workflow;
pub mod write;

mod change;
mod editor_terminal;
mod grep_lines;
mod interactive;
mod missing_file;
mod newest_files;
mod notebook;
mod notebook_view;
mod outline;
mod pdf;
mod stored_schemas;
mod text_window;
pub mod wakeup;
mod walk;
pub mod worktree;

pub use context::{CallContext, ToolContext};
pub use project_files::project_files;
pub use registry::{ToolDefinition, ToolRegistry};
pub use tool::{
    CallTraits, DynTool, Erased, InterruptBehavior, PreparedCall, Tool, ToolError, ToolOutput,
};
