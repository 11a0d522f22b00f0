//! What users add as files: agents, skills, commands, output styles, plugins.
#![forbid(unsafe_code)]

pub mod agents;
pub mod commands;
pub mod output_style;
pub mod plugin;
pub mod problem;
pub mod skills;
pub mod source;

pub use agents::{AgentCatalog, AgentDefinition, AgentMcpServer, AgentMemory, Isolation};
pub use commands::{Command, CommandKind};
pub use output_style::OutputStyle;
pub use plugin::PluginContribution;
pub use problem::Problem;
pub use skills::Skill;
pub use source::{ExtensionSource, Kind, Sources};
