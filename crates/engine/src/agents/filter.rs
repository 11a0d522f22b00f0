//! Which tools an agent gets.
//!
//! In this order: tools of MCP servers stay; what no agent may use goes; a background agent keeps only
//! what works without anyone watching; then what its definition forbids goes, and of what is left only
//! what its definition names stays (none named, or `*`, is all). `Agent(a, b)` in that list also says
//! which agents it may start.

use crate::agents::MOST_DEPTH;
use lathe_extensions::{AgentDefinition, AgentMcpServer};
use lathe_permissions::parse_rule;
use lathe_protocol::tool_name::server_name;
use lathe_tools::{
    DynTool, ToolRegistry, agent, ask_user_question, config, structured_output, task_list,
    team_create, team_delete, todo_write,
};

/// Tools that no agent may use: they speak for the main conversation.
pub(crate) const FORBIDDEN: [&str; 10] = [
    ask_user_question::NAME,
    config::NAME,
    "EnterWorktree",
    "ExitWorktree",
    "EnterPlanMode",
    "ExitPlanMode",
    structured_output::NAME,
    team_create::NAME,
    team_delete::NAME,
    "Workflow",
];

/// Tools of a background agent.
const IN_BACKGROUND: [&str; 27] = [
    "Agent",
    "Bash",
    "BashInput",
    "Edit",
    "Glob",
    "Grep",
    "LSP",
    "LSPEdit",
    "ListAgents",
    "ListMcpResources",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "ReadMcpResource",
    "SendMessage",
    "Skill",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// Whether a background agent may use a tool.
pub(crate) fn works_in_background(name: &str) -> bool {
    IN_BACKGROUND.contains(&name)
}

/// The tools that keep the task list where `TodoWrite` does not: a definition that names it means whichever is there.
fn names_of_task_list(name: &str) -> impl Iterator<Item = String> + use<> {
    let names = (name == todo_write::NAME).then_some(task_list::NAMES);
    names.into_iter().flatten().map(str::to_owned)
}

/// A definition's word on tools, read once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolFilter {
    /// Names that go.
    removed: Vec<String>,
    /// The only names that stay; `None` is all.
    kept: Option<Vec<String>>,
    /// The agents that it may start; `None` is all.
    pub(crate) types: Option<Vec<String>>,
    /// Forbidden uses of tools that stay, as rules.
    pub(crate) denied: Vec<String>,
    /// The only uses of tools that stay, as rules.
    pub(crate) only: Vec<String>,
    /// Tools that it has for its memory alone.
    pub(crate) for_memory: Vec<&'static str>,
}

impl ToolFilter {
    /// Reads a definition.
    pub(crate) fn of(definition: &AgentDefinition) -> Self {
        let mut filter = Self::default();
        for entry in &definition.disallowed_tools {
            match parse_rule(entry) {
                Ok(rule) if rule.rule_content.is_none() => {
                    filter.removed.extend(names_of_task_list(&rule.tool_name));
                    filter.removed.push(rule.tool_name);
                }
                _ => filter.denied.push(entry.clone()),
            }
        }
        if let Some(tools) = &definition.tools {
            let mut kept = Vec::new();
            let mut limited: Vec<(String, String)> = Vec::new();
            for entry in tools {
                let (name, content) = match parse_rule(entry) {
                    Ok(rule) => (rule.tool_name, rule.rule_content),
                    Err(_) => (entry.clone(), None),
                };
                match content {
                    Some(content) if name == agent::NAME || name == agent::ALIAS => {
                        let types = content.split(',').map(str::trim);
                        let types = types.filter(|name| !name.is_empty()).map(str::to_owned);
                        filter.types.get_or_insert_default().extend(types);
                    }
                    Some(_) => limited.push((name.clone(), entry.clone())),
                    None => {}
                }
                kept.extend(names_of_task_list(&name));
                kept.push(name);
            }
            // A tool that is also named as a whole has all its uses.
            let whole = |name: &str| tools.iter().any(|entry| entry == name || entry == "*");
            filter.only = limited
                .into_iter()
                .filter(|(name, _)| !whole(name))
                .map(|(_, rule)| rule)
                .collect();
            // Servers that it names or brings are for it, whatever else it lists.
            kept.extend(servers(definition).map(server_name));
            filter.kept = Some(kept);
        }
        filter
    }

    /// The same for an agent that keeps a memory, if it does: then it has what that takes, for that.
    pub(crate) fn of_agent(definition: &AgentDefinition) -> Self {
        let mut filter = Self::of(definition);
        if definition.run.memory.is_some()
            && let Some(kept) = &mut filter.kept
        {
            for tool in ["Read", "Edit", "Write"] {
                if !kept.iter().any(|name| name == tool || name == "*") {
                    kept.push(tool.to_owned());
                    filter.for_memory.push(tool);
                }
            }
        }
        filter
    }

    /// Whether the definition forbids a tool as a whole.
    pub(crate) fn removes(&self, tool: &dyn DynTool) -> bool {
        self.removed.iter().any(|name| names(name, tool))
    }

    /// The same by a name: of a tool or of a server's prompt.
    pub(crate) fn removes_named(&self, name: &str) -> bool {
        self.removed.iter().any(|word| means(word, name))
    }

    /// Whether a tool stays by the definition's word.
    pub(crate) fn keeps(&self, tool: &dyn DynTool) -> bool {
        let named = |list: &[String]| list.iter().any(|name| names(name, tool));
        !self.removes(tool) && self.kept.as_deref().is_none_or(named)
    }

    /// The tools of an agent.
    pub(crate) fn apply(&self, all: &ToolRegistry, background: bool, depth: u32) -> ToolRegistry {
        let mut tools = all.clone();
        tools.retain(|tool| {
            let name = tool.name();
            let served = name.starts_with("mcp__");
            let fits = served
                || (!FORBIDDEN.contains(&name)
                    && (!background || IN_BACKGROUND.contains(&name))
                    && (name != agent::NAME || depth < MOST_DEPTH));
            fits && self.keeps(tool)
        });
        tools
    }
}

/// The names of the servers that a definition names or brings.
fn servers(definition: &AgentDefinition) -> impl Iterator<Item = &str> {
    definition
        .mcp_servers
        .iter()
        .flat_map(|server| match server {
            AgentMcpServer::Named(name) => vec![name.as_str()],
            AgentMcpServer::Inline(map) => map.keys().map(String::as_str).collect(),
        })
}

/// Whether a word of a list names a tool: its name, another name of it, or its server.
fn names(word: &str, tool: &dyn DynTool) -> bool {
    means(word, tool.name()) || tool.aliases().iter().any(|alias| alias == word)
}

/// Whether a word of a list is a name, or the server of what has it.
fn means(word: &str, name: &str) -> bool {
    if word == name {
        return true;
    }
    let Some(served) = name.strip_prefix("mcp__") else {
        return false;
    };
    let word = word.strip_suffix("__*").unwrap_or(word);
    word.strip_prefix("mcp__").is_some_and(|server| {
        served
            .strip_prefix(server)
            .is_some_and(|rest| rest.starts_with("__"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_extensions::ExtensionSource;
    use lathe_tools::agent::Agent;
    use lathe_tools::monitor::Monitor;
    use lathe_tools::plan_mode::ExitPlanMode;

    fn definition(tools: Option<&[&str]>, disallowed: &[&str]) -> AgentDefinition {
        let mut definition = AgentDefinition::new("a", "b", "c", ExtensionSource::Builtin);
        definition.tools = tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect());
        definition.disallowed_tools = disallowed.iter().map(|tool| (*tool).to_owned()).collect();
        definition
    }

    fn all() -> ToolRegistry {
        let mut all = lathe_tools::registry::builtin();
        all.add(Agent::new([]));
        all.add(Monitor);
        all.add(ExitPlanMode);
        all
    }

    fn has(tools: &ToolRegistry, name: &str) -> bool {
        tools.find(name).is_some()
    }

    #[test]
    fn without_a_list_an_agent_has_everything_but_what_no_agent_has() {
        let filter = ToolFilter::of(&definition(None, &[]));
        let tools = filter.apply(&all(), false, 1);
        assert!(has(&tools, "Bash") && has(&tools, "Agent") && has(&tools, "Monitor"));
        assert!(!has(&tools, "ExitPlanMode"));
        assert!(!has(&filter.apply(&all(), true, 1), "Monitor"));
        assert!(!has(&filter.apply(&all(), false, MOST_DEPTH), "Agent"));
    }

    #[test]
    fn a_server_with_a_blank_in_its_name_is_kept_by_its_name() {
        let mut definition = definition(Some(&["Read"]), &[]);
        definition.mcp_servers = vec![AgentMcpServer::Named("google calendar".to_owned())];
        let filter = ToolFilter::of(&definition);
        let kept = filter.kept.unwrap();
        assert!(
            kept.iter()
                .any(|word| means(word, "mcp__google_calendar__list"))
        );
        assert!(!kept.iter().any(|word| means(word, "mcp__google__list")));
    }

    #[test]
    fn what_is_forbidden_goes_and_what_is_named_stays() {
        let filter = ToolFilter::of(&definition(
            Some(&["Read", "Bash(git *)", "Task(Explore, Plan)"]),
            &["Read", "Bash(rm *)"],
        ));
        let tools = filter.apply(&all(), false, 1);
        let names: Vec<&str> = tools.names().collect();
        assert_eq!(names, ["Agent", "Bash"]);
        assert_eq!(filter.denied, ["Bash(rm *)"]);
        let types = filter.types.unwrap();
        assert_eq!(types, ["Explore", "Plan"]);
    }
}
