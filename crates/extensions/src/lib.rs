//! Extensions that users add as files: agents, skills, commands, output styles, plugins.
//!
//! All of them are Markdown files with [`front_matter`], or folders of such files, in the folders
//! of [`source::Sources`]: the managed folder, the project's `.lathe` and `.claude`, the user's
//! own, and plugins. Loading never fails and never runs anything. A mistake in a file is reported
//! as a [`Problem`] with its line and a fix, and the rest of the file is used. Files in an
//! untrusted folder are used as text only: their hooks, commands and permissions are ignored.
//!
//! Start with [`source`], then [`skills`] and [`agents`]. The engine uses what is loaded here.
#![forbid(unsafe_code)]
#![expect(
    missing_docs,
    reason = "not published; only what names don't say is documented"
)]

pub mod agents;
pub mod commands;
pub mod expand;
mod fields;
mod files;
pub mod front_matter;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod output_style;
pub mod plugin;
pub mod plugins;
pub mod problem;
pub mod skills;
pub mod source;
#[cfg(test)]
mod test_folders;

pub use agents::{AgentCatalog, AgentDefinition, AgentMcpServer, AgentMemory, Isolation};
pub use commands::{Command, CommandAction, CommandRegistry};
pub use output_style::{OutputStyle, OutputStyles};
pub use plugin::PluginContribution;
pub use problem::Problem;
pub use skills::{Skill, SkillCatalog, SkillForm};
pub use source::{ExtensionSource, Kind, Sources};
