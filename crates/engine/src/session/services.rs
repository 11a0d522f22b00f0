//! The services of a session, shared by all its conversations.

use crate::agents::Agents;
use crate::session::background::Background;
use crate::session::live::SettingsLoader;
use crate::session::plugins::Plugins;
use lathe_model::{Catalog, Provider};
use lathe_protocol::event::SessionInit;
use lathe_protocol::ids::SessionId;
use lathe_tools::schedule::Schedule;
use parking_lot::RwLock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The services of all conversations of a session: one per session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) settings: SessionSettings,
    pub(crate) plugins: Arc<Plugins>,
    pub(crate) agents: Arc<Agents>,
    /// The team that the main conversation leads.
    pub(crate) team: RwLock<Option<Arc<crate::agents::team::Team>>>,
    /// Scheduled prompts.
    pub(crate) schedule: Arc<Schedule>,
    /// The session's part of budgets over all sessions.
    pub(crate) purse: crate::session::purse::Purse,
    /// Work beside the turns.
    pub(crate) background: Arc<Background>,
    /// MCP servers and their state, as faces show them.
    pub(crate) mcp_servers: RwLock<Vec<Value>>,
    /// Names under which the model may call tools.
    pub(crate) tool_aliases: BTreeMap<String, String>,
    /// Other sessions that wrote to this one.
    pub(crate) senders: crate::session::messages::Senders,
    /// The unchanging part of what faces get at the start of a turn.
    pub(crate) init: SessionInit,
}

/// The settings of a session, as loaded last.
pub(crate) struct SessionSettings {
    /// The merged settings.
    pub(crate) value: RwLock<Value>,
    /// The settings by source, weakest first.
    pub(crate) layers: RwLock<Vec<Value>>,
    /// Loads settings again when a face changes them.
    pub(crate) loader: SettingsLoader,
    /// Where the API key comes from.
    pub(crate) key_source: String,
    /// Whether the caller named the model: then settings don't change it.
    pub(crate) model_is_pinned: bool,
    /// Whether the command line switched the sandbox off.
    pub(crate) no_sandbox: bool,
    /// Whether the user sits there.
    pub(crate) is_interactive: bool,
    /// The program that members of teams run which are processes of their own.
    pub(crate) program: Option<std::path::PathBuf>,
}
