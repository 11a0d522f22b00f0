//! The configured servers, from files, settings, plugins and flags.
//!
//! Of several servers with one name, the one with the highest precedence is used: managed settings,
//! `--mcp-config`, the user's local settings, the project (`.mcp.json`), the user's own settings,
//! `~/.claude.json` ([`claude_servers`]), plugins. A declared server is not necessarily started: a project's server needs the folder's
//! trust and the user's approval ([`choices`]), a policy may deny it ([`policy`]), and its
//! variables must be set ([`expand`]). [`load()`] determines the status of each server and never
//! fails: a problem concerns one server only.
//!
//! [`edit`] changes the files and preserves their other content, [`import`] reads those of other
//! clients.
//!
//! Start with [`load()`] and [`Standing`].

pub mod choices;
mod claude;
pub mod edit;
pub mod entry;
pub mod expand;
pub mod import;
mod judge;
mod load;
pub mod policy;

pub use choices::Choices;
pub use claude::{ClaudeServers, claude_servers};
pub use entry::{ConfigError, ConfigLocation};
pub use judge::refusal;
pub use load::{
    Declared, PluginServers, Request, Scope, Servers, Standing, files, load, own_servers,
    read_flags,
};
