//! Tools that are loaded when they are wanted.
//!
//! MCP servers can bring hundreds of tools, and their definitions are part of every request. When they
//! take more than a tenth of the window, the model gets only their names (in a reminder), and it
//! loads those it wants with `ToolSearch`. A loaded tool stays loaded: each change of the list of tools
//! costs the provider's cache. Of the built-in tools, those that few sessions need always wait; they are named in the
//! description of the search. In a small window most of them wait ([`crate::context::lean`]).

use crate::context::lean;
use crate::conversation::Conversation;
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use lathe_tools::{
    CallContext, CallTraits, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput, ToolRegistry,
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The tool's name.
pub(crate) const NAME: &str = "ToolSearch";
/// How many tools a search loads unless told otherwise, and at most.
const USUAL: usize = 5;
const MOST: usize = 20;

/// Which tools wait, and which were loaded.
#[derive(Debug, Default)]
pub(crate) struct DeferredTools {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<ToolDefinition>,
    loaded: BTreeSet<String>,
    generation: u64,
    told: BTreeSet<String>,
    forgotten: u64,
}

/// Which tools wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deferral {
    /// None.
    None,
    /// Those of MCP servers.
    Servers,
    /// All but those that a small window has room for.
    Lean,
}

impl Deferral {
    fn defers(self, tool: &ToolDefinition) -> bool {
        match self {
            Self::None => false,
            Self::Servers => is_deferrable(&tool.name),
            Self::Lean => lean::waits(tool),
        }
    }
}

impl DeferredTools {
    /// Changes when a tool is loaded.
    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Whether any tool waits or waited.
    pub(crate) fn is_active(&self) -> bool {
        let state = self.state.lock();
        !state.waiting.is_empty() || !state.loaded.is_empty()
    }

    /// Loads a tool that was used before.
    pub(crate) fn load(&self, name: &str) {
        let mut state = self.state.lock();
        if state.loaded.insert(name.to_owned()) {
            state.generation += 1;
        }
    }

    /// The definitions to send: without those that wait, and without the search where none does.
    pub(crate) fn choose(
        &self,
        mut all: Vec<ToolDefinition>,
        deferral: Deferral,
    ) -> Vec<ToolDefinition> {
        let mut state = self.state.lock();
        let searchable = all.iter().any(|tool| tool.name == NAME);
        state.waiting.clear();
        if searchable {
            let (now, later): (Vec<_>, Vec<_>) = all.into_iter().partition(|tool| {
                let waits = tool.deferred || deferral.defers(tool);
                tool.always_load || !waits || state.loaded.contains(&tool.name)
            });
            all = now;
            state.waiting = later;
        }
        if state.waiting.is_empty() && state.loaded.is_empty() {
            all.retain(|tool| tool.name != NAME);
        }
        all
    }

    /// Names that wait and that the model hasn't been told of.
    fn untold(&self) -> Vec<String> {
        let mut state = self.state.lock();
        let names: Vec<String> = state
            .waiting
            .iter()
            // Those that always wait are named in the description of the search.
            .filter(|tool| !tool.deferred)
            .map(|tool| tool.name.clone())
            .filter(|name| !state.told.contains(name))
            .collect();
        state.told.extend(names.iter().cloned());
        names
    }

    /// The conversation was compacted: what was told is gone.
    pub(crate) fn forget_told(&self) {
        let mut state = self.state.lock();
        state.told.clear();
        state.forgotten += 1;
    }

    /// How often what was told was forgotten.
    pub(crate) fn times_forgotten(&self) -> u64 {
        self.state.lock().forgotten
    }

    /// Whether a tool waits to be looked for.
    pub(crate) fn waits(&self, name: &str) -> bool {
        let state = self.state.lock();
        state.waiting.iter().any(|tool| tool.name == name)
    }

    /// Loads what a query finds.
    fn search(&self, query: &str, most: usize) -> Vec<ToolDefinition> {
        let mut state = self.state.lock();
        let found: Vec<ToolDefinition> = match query.trim().strip_prefix("select:") {
            Some(names) => {
                let names: Vec<&str> = names.split(',').map(str::trim).collect();
                let named = |tool: &&ToolDefinition| names.contains(&tool.name.as_str());
                state.waiting.iter().filter(named).cloned().collect()
            }
            None => ranked(&state.waiting, query, most),
        };
        for tool in &found {
            if state.loaded.insert(tool.name.clone()) {
                state.generation += 1;
            }
        }
        found
    }
}

/// Whether a tool may wait.
fn is_deferrable(name: &str) -> bool {
    name.starts_with("mcp__")
}

/// The tools that fit a query best: words in the name count more than words in the description.
fn ranked(tools: &[ToolDefinition], query: &str, most: usize) -> Vec<ToolDefinition> {
    let lower = query.to_lowercase();
    // A word with a plus must stand in the name.
    let required: Vec<&str> = lower
        .split_whitespace()
        .filter_map(|word| word.strip_prefix('+'))
        .filter(|word| !word.is_empty())
        .collect();
    let words: Vec<&str> = lower
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let score = |tool: &ToolDefinition| -> usize {
        let (name, description) = (tool.name.to_lowercase(), tool.description.to_lowercase());
        let hint = tool
            .search_hint
            .as_deref()
            .unwrap_or_default()
            .to_lowercase();
        words
            .iter()
            .map(|word| {
                3 * usize::from(name.contains(*word))
                    + 2 * usize::from(hint.contains(*word))
                    + usize::from(description.contains(*word))
            })
            .sum()
    };
    let mut scored: Vec<(usize, &ToolDefinition)> = tools
        .iter()
        .filter(|tool| {
            let name = tool.name.to_lowercase();
            required.iter().all(|word| name.contains(word))
        })
        .map(|tool| (score(tool), tool))
        .filter(|(score, _)| *score > 0)
        .collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored
        .into_iter()
        .take(most)
        .map(|(_, tool)| tool.clone())
        .collect()
}

/// The reminder of tools that wait.
pub(crate) fn waiting_tools(conversation: &mut Conversation) -> Option<String> {
    // The list of what waits is made together with the list of tools.
    conversation.encoded_tools();
    let names = conversation.shared.toolbox.deferred.untold();
    (!names.is_empty()).then(|| {
        format!(
            "Further tools that you can load with {NAME} when you need them:\n{}",
            names.join("\n")
        )
    })
}

/// Takes over which tools a conversation used.
pub(crate) fn note_used_tool(conversation: &Conversation, name: &str) {
    let registry = conversation.shared.toolbox.registry.read();
    let waits = registry.find(name).is_some_and(|tool| tool.deferred());
    if is_deferrable(name) || waits || conversation.fixed.prompt.lean {
        conversation.shared.toolbox.deferred.load(name);
    }
}

/// Adds the search to a list of tools.
pub(crate) fn add(registry: &mut ToolRegistry, deferred: &Arc<DeferredTools>) {
    let always = registry.definitions_of(|tool| tool.deferred());
    let waiting: Vec<String> = always.iter().map(|tool| tool.name.clone()).collect();
    // Known before the first request, so that the search is in every list of tools.
    deferred.state.lock().waiting = always;
    let mut description = include_str!("../../prompts/tool_search.md")
        .trim_end()
        .to_owned();
    if !waiting.is_empty() {
        description.push_str(&format!(
            " Always available to load: {}.",
            waiting.join(", ")
        ));
    }
    registry.add(ToolSearch {
        deferred: deferred.clone(),
        description,
    });
}

/// Finds tools that wait and loads them.
struct ToolSearch {
    deferred: Arc<DeferredTools>,
    description: String,
}

/// The query.
#[derive(Debug, Deserialize, JsonSchema)]
struct Input {
    /// Words that the tool's name or description should hold (`+word`: the name must hold it), or
    /// `select:name,name` for tools whose names you know.
    query: String,
    /// How many tools to load at most (5).
    #[serde(default)]
    max_results: Option<usize>,
}

impl Tool for ToolSearch {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn traits(&self, _: &Input) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, _: &Input, _: &ToolContext) -> Subject {
        Subject::Nothing
    }

    fn activity(&self, input: &Input) -> String {
        format!("Looking for tools: {}", input.query)
    }

    async fn call(&self, input: Input, _: CallContext) -> Result<ToolOutput, ToolError> {
        let most = input.max_results.unwrap_or(USUAL).clamp(1, MOST);
        let found = self.deferred.search(&input.query, most);
        if found.is_empty() {
            return Err(ToolError::failed(format!(
                "No tool matches {:?}. Use other keywords, or select:NAME with a name from the list.",
                input.query
            )));
        }
        let names: Vec<&str> = found.iter().map(|tool| tool.name.as_str()).collect();
        let text = format!(
            "Loaded; you can call these now:\n{}",
            serde_json::to_string(&found).unwrap_or_default()
        );
        let structured = json!({"matches": names, "query": input.query});
        Ok(ToolOutput::new(text, structured, Display::None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.to_owned(),
            description: description.to_owned(),
            input_schema: json!({"type": "object"}).into(),
            search_hint: None,
            always_load: false,
            deferred: false,
        }
    }

    fn all() -> Vec<ToolDefinition> {
        vec![
            tool("Read", "Reads a file."),
            tool(NAME, "Finds tools."),
            tool("mcp__mail__send", "Sends a letter."),
            tool("mcp__mail__list", "Lists letters in a mailbox."),
            tool("mcp__db__query", "Asks the database."),
        ]
    }

    fn names(tools: &[ToolDefinition]) -> Vec<&str> {
        tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn few_tools_are_all_sent_and_need_no_search() {
        let deferred = DeferredTools::default();
        let sent = deferred.choose(all(), Deferral::None);
        assert_eq!(
            names(&sent),
            [
                "Read",
                "mcp__mail__send",
                "mcp__mail__list",
                "mcp__db__query"
            ]
        );
        assert!(deferred.untold().is_empty());
    }

    #[test]
    fn a_servers_own_hints_count() {
        let deferred = DeferredTools::default();
        let mut tools = all();
        tools[2].always_load = true;
        tools[4].search_hint = Some("rows of a ledger".to_owned());
        assert_eq!(
            names(&deferred.choose(tools, Deferral::Servers)),
            ["Read", NAME, "mcp__mail__send"]
        );
        assert_eq!(names(&deferred.search("ledger", 5)), ["mcp__db__query"]);
    }

    #[test]
    fn many_tools_wait_until_they_are_found() {
        let deferred = DeferredTools::default();
        assert_eq!(
            names(&deferred.choose(all(), Deferral::Servers)),
            ["Read", NAME]
        );
        assert_eq!(deferred.untold().len(), 3);
        assert!(deferred.untold().is_empty(), "told once");
        let before = deferred.generation();
        assert_eq!(
            names(&deferred.search("letter list", 1)),
            ["mcp__mail__list"]
        );
        assert!(deferred.generation() > before);
        assert_eq!(
            names(&deferred.choose(all(), Deferral::Servers)),
            ["Read", NAME, "mcp__mail__list"]
        );
        let selected = deferred.search("select: mcp__db__query, mcp__mail__send", 1);
        assert_eq!(selected.len(), 2);
        assert!(deferred.search("weather", 5).is_empty());
        assert_eq!(
            names(&ranked(&all(), "+mail letters", 5)),
            ["mcp__mail__list", "mcp__mail__send"]
        );
        assert_eq!(names(&ranked(&all(), "+db letters", 5)), ["mcp__db__query"]);
        assert!(ranked(&all(), "+weather letters", 5).is_empty());
        // All are loaded: the search stays, so that the list of tools doesn't change once more.
        assert_eq!(deferred.choose(all(), Deferral::Servers).len(), 5);
    }
}
