//! Agent definitions: who a sub-agent is, what it may use and how it works.
//!
//! A definition is a Markdown file whose front matter says the rest and whose body is the prompt, or
//! an entry of the JSON that `--agents` and SDK hosts give. [`AgentCatalog::load`] reads every
//! source; the strongest definition of a name counts and the ones that it hides are kept for
//! listings.

use crate::problem::Problem;
use crate::source::{ExtensionSource, Sources};
use indexmap::IndexMap;
use lathe_protocol::permission::PermissionMode;
use lathe_settings::schema::{Effort, HookGroup};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Who a sub-agent is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDefinition {
    /// The name by which it is called (`plugin:name` for a plugin's).
    pub name: String,
    /// When to use it, for the model and for people.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// The only tools that it may use, as written (`Read`, `Bash(git *)`, `Agent(a, b)`, `mcp__x`);
    /// `None` is all. A list that holds `*` is `None` too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Tools that it may not use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// An alias or a model's name; `None` is the parent's (`inherit`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its permission mode; `None` is the parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// The most steps that it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Skills whose bodies it knows from the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Servers that it has beside or instead of the session's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<AgentMcpServer>,
    /// Hooks that count while it runs, by event. Empty unless its file is trusted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Vec<HookGroup>>,
    /// Whose memory it keeps, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<AgentMemory>,
    /// Where it works, if not in the parent's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Whether it runs in the background; `None` leaves it to the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// The colour in which faces show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// How hard its model works; `None` is the parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether instruction files (`AGENTS.md`, …) are left out of its context.
    pub omit_instructions: bool,
    /// What is put before the first words when the main conversation runs as this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_prompt: Option<String>,
    /// Where it comes from.
    pub source: ExtensionSource,
    /// Its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

impl AgentDefinition {
    /// A definition with these words and nothing else.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        prompt: impl Into<String>,
        source: ExtensionSource,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            prompt: prompt.into(),
            tools: None,
            disallowed_tools: Vec::new(),
            model: None,
            permission_mode: None,
            max_turns: None,
            skills: Vec::new(),
            mcp_servers: Vec::new(),
            hooks: BTreeMap::new(),
            memory: None,
            isolation: None,
            background: None,
            color: None,
            effort: None,
            omit_instructions: false,
            initial_prompt: None,
            source,
            path: None,
        }
    }
}

/// A server of an agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum AgentMcpServer {
    /// One of the session's, by name.
    Named(String),
    /// One of its own: name and configuration in the format of `.mcp.json`.
    Inline(BTreeMap<String, Value>),
}

/// Whose memory an agent keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentMemory {
    /// The person's, for every project.
    User,
    /// The project's, shared with everyone who works on it.
    Project,
    /// The person's, for this project.
    Local,
}

/// Where an agent works, if not in the parent's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// In a git worktree of its own.
    Worktree,
}

/// All agents of a session, by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentCatalog {
    agents: IndexMap<String, AgentDefinition>,
    /// Definitions that a stronger one of the same name hides.
    pub hidden: Vec<AgentDefinition>,
    /// What is wrong with files.
    pub problems: Vec<Problem>,
}

impl AgentCatalog {
    /// Reads every source. `flags` is the JSON of `--agents` and of the SDK's `initialize`, each an
    /// object of definitions by name, later ones stronger.
    #[must_use]
    pub fn load(sources: &Sources, flags: &[Value]) -> Self {
        let _ = (sources, flags);
        Self::default()
    }

    /// The agent of a name: as written, else by case, else a plugin's own without its prefix where
    /// only one has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&AgentDefinition> {
        self.agents.get(name)
    }

    /// All agents, in the order of their names within each source.
    pub fn iter(&self) -> impl Iterator<Item = &AgentDefinition> {
        self.agents.values()
    }

    /// Adds a definition; the stronger of two with one name counts.
    pub fn insert(&mut self, definition: AgentDefinition) {
        match self.agents.get(&definition.name) {
            Some(existing) if existing.source > definition.source => self.hidden.push(definition),
            _ => {
                if let Some(weaker) = self.agents.insert(definition.name.clone(), definition) {
                    self.hidden.push(weaker);
                }
            }
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }
}
