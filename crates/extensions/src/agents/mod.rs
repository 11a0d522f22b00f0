//! Agent definitions: who a sub-agent is, what it may use and how it works.
//!
//! A definition is a Markdown file whose front matter says the rest and whose body is the prompt, or
//! an entry of the JSON that `--agents` and SDK hosts give. [`AgentCatalog::load`] reads every
//! source; the strongest definition of a name counts and the ones that it hides are kept for
//! listings.

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
use read::Standing;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
    /// An alias or a model's name, or [`SMALL_MODEL`]; `None` is the parent's (`inherit`).
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
    /// Whether it changes nothing, whatever the session allows.
    pub read_only: bool,
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
            read_only: false,
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
        let mut catalog = Self::builtin();
        for plugin in &sources.plugins {
            catalog.load_plugin(plugin);
        }
        // Weakest first: a later definition of the same name counts.
        for folder in sources.folders(Kind::Agents).into_iter().rev() {
            if folder.source == ExtensionSource::Managed {
                // Stronger than flags, which come in between.
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

    /// The agents that come with Lathe.
    #[must_use]
    pub fn builtin() -> Self {
        let mut catalog = Self::default();
        let standing = Standing {
            source: ExtensionSource::Builtin,
            trusted: true,
        };
        for (name, text) in BUILTIN {
            let file = PathBuf::from(format!("built-in:{name}"));
            if let Some(definition) = read::of_text(&file, text, &standing, &mut catalog.problems) {
                catalog.insert(definition);
            }
        }
        catalog
    }

    fn load_folder(&mut self, folder: &Folder) {
        let standing = Standing {
            source: folder.source.clone(),
            trusted: folder.trusted,
        };
        let reach = Reach::of(folder.trusted, &folder.base);
        let files = files::markdown_files(&folder.path, &mut self.problems);
        let read = files::for_each(&files, |file| {
            let mut problems = Vec::new();
            let path = folder.path.join(file);
            let definition = read::of_file(&path, &reach, &standing, &mut problems);
            (definition, problems)
        });
        for (definition, mut problems) in read {
            self.problems.append(&mut problems);
            if let Some(definition) = definition {
                self.insert(definition);
            }
        }
    }

    fn load_plugin(&mut self, plugin: &PluginContribution) {
        let standing = Standing {
            source: ExtensionSource::Plugin(plugin.name.clone()),
            trusted: plugin.trusted,
        };
        let reach = Reach::inside(&plugin.root);
        for path in &plugin.agents {
            let files = if path.is_dir() {
                let files = files::markdown_files(path, &mut self.problems);
                files.into_iter().map(|file| path.join(file)).collect()
            } else {
                vec![path.clone()]
            };
            for file in files {
                if let Some(mut definition) =
                    read::of_file(&file, &reach, &standing, &mut self.problems)
                {
                    definition.name = format!("{}:{}", plugin.name, definition.name);
                    definition.prompt = plugin.expand(&definition.prompt);
                    self.insert(definition);
                }
            }
        }
    }

    /// Adds the definitions of a JSON object, as `--agents` and SDK hosts give it. Gives whether it
    /// was an object.
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

    /// The agent of a name: as written, else by case, else a plugin's own without its prefix where
    /// only one has it.
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

    /// The names that someone who wrote `name` may have meant.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&str> {
        lathe_settings::nearest::nearest(name, self.agents.keys().map(String::as_str))
    }

    /// All agents, weakest source first.
    pub fn iter(&self) -> impl Iterator<Item = &AgentDefinition> {
        self.agents.values()
    }

    /// Keeps the agents that a test likes.
    pub fn retain(&mut self, keep: impl Fn(&AgentDefinition) -> bool) {
        self.agents.retain(|_, agent| keep(agent));
    }

    /// Adds a definition; the stronger of two with one name counts, of two that are equally strong
    /// the one that came last.
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

/// The model name of the session's small model in definitions that come with Lathe.
pub const SMALL_MODEL: &str = "small";

/// What comes with Lathe: the file's name and its text.
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
