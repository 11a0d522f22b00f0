//! Imports from other agents: settings, permission rules, MCP servers, instructions, agents, commands, skills, hooks
//! and conversations.
//!
//! Reading and deciding come first: each agent's module (`agents`) reads its files and puts `plan::Action`s on a
//! `plan::Plan`, with a line for everything that is left and the reason. Only then `apply` writes, and it never
//! replaces what is there: an entry that says something else is left and named. So a second import changes nothing.
//!
//! Secrets are not copied. Where they are is part of the report.
#![forbid(unsafe_code)]

mod agents;
pub mod apply;
mod hooks;
mod permissions;
pub mod plan;
mod read;
mod servers;
pub mod sessions;

pub use agents::Agent;
pub use apply::{ImportError, apply};
pub use plan::{Fate, Line, Plan, Report};

use lathe_settings::Places;

/// Reads the setup of an agent, of the user and of the project, and plans its import.
#[must_use]
pub fn plan(places: &Places, agent: Agent, with_sessions: bool) -> Plan {
    let mut plan = Plan::new(agent, places);
    agent.read(places, &mut plan);
    if with_sessions {
        sessions::read(places, agent, &mut plan);
    }
    plan
}

/// The agents that have a setup on this machine or in this project.
#[must_use]
pub fn found(places: &Places) -> Vec<Agent> {
    Agent::ALL
        .into_iter()
        .filter(|agent| agent.is_there(places))
        .collect()
}
