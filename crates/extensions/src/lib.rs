//! What users add as files: agents, skills, commands, output styles, plugins.
//!
//! All of them are Markdown with [`front_matter`], or folders of it, found in the places that
//! [`source::Sources`] knows: the company's folder, the project's `.lathe` and `.claude`, the person's
//! own, and what plugins bring. Reading never fails and never runs anything. What is wrong with a
//! file is a [`Problem`] with its line and a fix, and the rest counts; what comes from a folder that
//! nobody trusts yet is read as words only — hooks, commands and permissions in it don't count.
//!
//! Start with [`source`], then [`skills`] and [`agents`]. What is done with all this — the tools, the
//! prompts, the turns — is the engine's.
#![forbid(unsafe_code)]

pub mod agents;
pub mod commands;
pub mod expand;
mod fields;
mod files;
pub mod front_matter;
pub mod output_style;
pub mod plugin;
pub mod plugins;
pub mod problem;
pub mod skills;
pub mod source;

pub use agents::{AgentCatalog, AgentDefinition, AgentMcpServer, AgentMemory, Isolation};
pub use commands::{Command, CommandAction, CommandRegistry};
pub use output_style::{OutputStyle, OutputStyles};
pub use plugin::PluginContribution;
pub use problem::Problem;
pub use skills::{Skill, SkillCatalog, SkillForm};
pub use source::{ExtensionSource, Kind, Sources};
