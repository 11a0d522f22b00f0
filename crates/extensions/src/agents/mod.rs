//! Agent definitions: prompt, tools and settings of a sub-agent.
//!
//! A definition is a Markdown file with front matter whose body is the prompt, or an entry of the
//! JSON from `--agents` or an SDK host. [`AgentCatalog::load`] reads every source; of several
//! definitions with one name, the one with the highest precedence is used and the others are kept
//! for listings.

mod read;
#[cfg(test)]
mod tests;

pub(crate) use read::EFFORTS;

use crate::files::{self, Reach};
use crate::plugin::PluginContribution;
use crate::problem::Problem;
use crate::source::{ExtensionSource, Folder, Kind, Sources};
use indexmap::IndexMap;
use lathe_protocol::permission::PermissionMode;
use lathe_settings::schema::{Effort, HookGroup};
use read::FileContext;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The definition of a sub-agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDefinition {
    /// `plugin:name` for a plugin's agent.
    pub name: String,
    /// When to use it.
    pub description: String,
    pub prompt: String,
    /// The tools that it may use, as written (`Read`, `Bash(git *)`, `Agent(a, b)`, `mcp__x`);
    /// `None` is all, as is a list with `*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// An alias or a model's name, or [`SMALL_MODEL`]; `None` is the parent's (`inherit`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `None` is the parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Skills whose bodies are part of its context from the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// The servers that it may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<AgentMcpServer>,
    /// Hooks by event, active while it runs. Empty unless its file is trusted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, Vec<HookGroup>>,
    #[serde(flatten)]
    pub run: AgentRun,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// True if it may not change anything, whatever the session allows.
    pub read_only: bool,
    pub source: ExtensionSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// How an agent runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentRun {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// The memory that it reads and writes, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<AgentMemory>,
    /// Where it works, if not in the parent's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Whether it runs in the background; `None` leaves it to the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// The effort of its model; `None` is the parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// True if instruction files (`AGENTS.md`, …) are left out of its context.
    pub omit_instructions: bool,
    /// Put before the first prompt when the main conversation runs as this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_prompt: Option<String>,
    /// Repeated at the end of every request, so that it is never far away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_reminder: Option<String>,
}

impl AgentDefinition {
    /// A definition with these fields and defaults for the others.
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
            skills: Vec::new(),
            mcp_servers: Vec::new(),
            hooks: BTreeMap::new(),
            run: AgentRun::default(),
            color: None,
            read_only: false,
            source,
            path: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum AgentMcpServer {
    /// A server of the session, by name.
    Named(String),
    /// Servers of its own: name and configuration in the format of `.mcp.json`.
    Inline(BTreeMap<String, Value>),
}

/// The scope of an agent's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentMemory {
    /// The user's, for all projects.
    User,
    /// The project's, shared by everyone who works on it.
    Project,
    /// The user's, for this project.
    Local,
}

/// Where an agent works, if not in the parent's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// In a git worktree of its own.
    Worktree,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentCatalog {
    agents: IndexMap<String, AgentDefinition>,
    /// Definitions hidden by one of the same name with higher precedence.
    pub hidden: Vec<AgentDefinition>,
    pub problems: Vec<Problem>,
}

impl AgentCatalog {
    /// Reads every source. `flags` is the JSON of `--agents` and of the SDK's `initialize`, each an
    /// object of definitions by name; later ones take precedence.
    #[must_use]
    pub fn load(sources: &Sources, flags: &[Value]) -> Self {
        let mut catalog = Self::builtin();
        for plugin in &sources.plugins {
            catalog.load_plugin(plugin);
        }
        // Lowest precedence first: a later definition replaces one of the same name.
        for folder in sources.folders(Kind::Agents).into_iter().rev() {
            if folder.source == ExtensionSource::Managed {
                // Takes precedence over flags, so it is loaded after them.
                continue;
            }
            catalog.load_folder(&folder);
        }
        for flag in flags {
            catalog.load_json(flag);
        }
        for folder in sources.folders(Kind::Agents) {
            if folder.source == ExtensionSource::Managed {
                catalog.load_folder(&folder);
            }
        }
        catalog
    }

    #[must_use]
    pub fn builtin() -> Self {
        let mut catalog = Self::default();
        let context = FileContext {
            source: ExtensionSource::Builtin,
            trusted: true,
        };
        for (name, text) in BUILTIN {
            let file = PathBuf::from(format!("built-in:{name}"));
            if let Some(definition) = read::of_text(&file, text, &context, &mut catalog.problems) {
                catalog.insert(definition);
            }
        }
        catalog
    }

    fn load_folder(&mut self, folder: &Folder) {
        let context = FileContext {
            source: folder.source.clone(),
            trusted: folder.trusted,
        };
        let reach = Reach::of(folder.trusted, &folder.source, &folder.base);
        let files = files::markdown_files(&folder.path, &mut self.problems);
        let read = files::for_each(&files, |file| {
            let mut problems = Vec::new();
            let path = folder.path.join(file);
            let definition = read::of_file(&path, &reach, &context, &mut problems);
            (definition, problems)
        });
        // Of several files in one folder, the first is used.
        let mut names = HashSet::new();
        for (definition, mut problems) in read {
            self.problems.append(&mut problems);
            match definition {
                Some(definition) if names.insert(definition.name.clone()) => {
                    self.insert(definition);
                }
                Some(definition) => self.hidden.push(definition),
                None => {}
            }
        }
    }

    fn load_plugin(&mut self, plugin: &PluginContribution) {
        let context = FileContext {
            source: ExtensionSource::Plugin(plugin.name.clone()),
            trusted: plugin.trusted,
        };
        let reach = Reach::inside(&plugin.root);
        for path in &plugin.agents {
            let (base, files) = if path.is_dir() {
                let files = files::markdown_files(path, &mut self.problems);
                (path.as_path(), files)
            } else {
                let name = path.file_name().map(PathBuf::from);
                (path.parent().unwrap_or(path), Vec::from_iter(name))
            };
            for file in files {
                if let Some(mut definition) =
                    read::of_file(&base.join(&file), &reach, &context, &mut self.problems)
                {
                    // Folders are part of the name, as for commands.
                    let folders = file.parent().into_iter().flat_map(Path::components);
                    let folders: String = folders
                        .map(|part| format!("{}:", part.as_os_str().to_string_lossy()))
                        .collect();
                    definition.name = format!("{}:{folders}{}", plugin.name, definition.name);
                    definition.prompt = plugin.expand(&definition.prompt);
                    self.insert(definition);
                }
            }
        }
    }

    /// Adds the definitions of a JSON object, from `--agents` or an SDK host. Returns false if it
    /// is not an object.
    pub fn load_json(&mut self, json: &Value) -> bool {
        let file = Path::new("--agents");
        let Value::Object(entries) = json else {
            self.problems.push(
                Problem::fatal(file, "is not a JSON object of agents by name")
                    .fix("write {\"name\": {\"description\": …, \"prompt\": …}}"),
            );
            return false;
        };
        for (name, entry) in entries {
            if let Some(definition) = read::of_json(file, name, entry, &mut self.problems) {
                self.insert(definition);
            }
        }
        true
    }

    /// Finds an agent by exact name, else ignoring case, else by a plugin agent's name without
    /// prefix if it is unique.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&AgentDefinition> {
        if let Some(found) = self.agents.get(name) {
            return Some(found);
        }
        let only = |test: &dyn Fn(&str) -> bool| {
            let mut found = self.agents.values().filter(|agent| test(&agent.name));
            let first = found.next();
            first.filter(|_| found.next().is_none())
        };
        only(&|known| known.eq_ignore_ascii_case(name)).or_else(|| {
            only(&|known| {
                known
                    .rsplit_once(':')
                    .is_some_and(|(_, short)| short.eq_ignore_ascii_case(name))
            })
        })
    }

    /// The known name that is most similar to an unknown one.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&str> {
        lathe_settings::nearest::nearest(name, self.agents.keys().map(String::as_str))
    }

    /// All agents, lowest precedence first.
    pub fn iter(&self) -> impl Iterator<Item = &AgentDefinition> {
        self.agents.values()
    }

    pub fn retain(&mut self, keep: impl Fn(&AgentDefinition) -> bool) {
        self.agents.retain(|_, agent| keep(agent));
    }

    /// Adds a definition. It replaces one of the same name with lower or equal precedence.
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

    #[must_use]
    pub fn len(&self) -> usize {
        self.agents.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }
}

/// The name of the session's small model in built-in definitions.
pub const SMALL_MODEL: &str = "small";

/// The built-in agents: name and text.
const BUILTIN: [(&str, &str); 6] = [
    (
        "general-purpose",
        include_str!("../../prompts/agents/general-purpose.md"),
    ),
    ("Explore", include_str!("../../prompts/agents/explore.md")),
    ("Plan", include_str!("../../prompts/agents/plan.md")),
    (
        "verification",
        include_str!("../../prompts/agents/verification.md"),
    ),
    ("guide", include_str!("../../prompts/agents/guide.md")),
    (
        "statusline-setup",
        include_str!("../../prompts/agents/statusline-setup.md"),
    ),
];
