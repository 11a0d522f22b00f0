//! The tools of MCP servers that the model is offered, and the reminders when they change.

use super::Running;
use crate::conversation::{Conversation, ConversationShared};
use lathe_mcp::{ServerStatus, State};
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_tools::DynTool;
use lathe_tools::mcp_resources::{ListMcpResources, ReadMcpResource};
use lathe_tools::mcp_result::clean;
use lathe_tools::mcp_tool::{LONGEST_NAME, McpCaller, McpTool, McpToolInfo, prefix, tool_name};
use lathe_tools::registry::LateTools;
use lathe_tools::tool::Erased;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Weak};

/// How many characters of what a server says about itself the model reads.
const LONGEST_INSTRUCTIONS: usize = 2_048;
/// How many names of tools one announcement has.
const MOST_NAMES: usize = 60;

/// Whose tools are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those of every connected server.
    All,
    /// Those of servers that are offered already; late ones wait for the next turn.
    Offered,
}

/// The tools that are offered.
#[derive(Default)]
pub(super) struct Offer {
    /// The servers whose tools are offered.
    servers: BTreeSet<String>,
    /// The tools by name, with the entries they were made from: an unchanged one is the same object, so the
    /// encoded list of tools stays the same bytes.
    tools: HashMap<String, (Value, Arc<dyn DynTool>)>,
    /// The tools with which resources are read, while there are any.
    resources: Option<[Arc<dyn DynTool>; 2]>,
    /// The servers and tools that the model knows.
    known: BTreeMap<String, BTreeSet<String>>,
    /// Servers whose words about themselves the model has read.
    introduced: BTreeSet<String>,
    /// Tools that are left out and were reported.
    complained: HashSet<String>,
    /// How often what was told had been forgotten when this was last looked at.
    forgotten: u64,
}

impl Running {
    /// Puts the tools of connected servers into the list of tools.
    pub(super) fn offer_tools(&self, shared: &ConversationShared, which: Which) {
        let mut offer = self.offer.lock();
        let statuses = self.manager.status();
        let connected: Vec<&ServerStatus> = statuses
            .iter()
            .filter(|server| server.state == State::Connected)
            .filter(|server| which == Which::All || offer.servers.contains(&server.name))
            .collect();
        let mut tools: HashMap<String, (Value, Arc<dyn DynTool>)> = HashMap::new();
        let mut list: Vec<Arc<dyn DynTool>> = Vec::new();
        for server in &connected {
            for entry in server.tools.iter() {
                let Some(info) = McpToolInfo::parse(entry) else {
                    continue;
                };
                let editor = &shared.integrations.editor;
                if !crate::editor::is_for_model(editor, &server.name, &info.name) {
                    continue;
                }
                let name = tool_name(&server.name, &info.name);
                if name.len() > LONGEST_NAME {
                    offer.complain(shared, format!(
                        "The tool {} of the MCP server {} is ignored: its full name has {} characters, the limit is {LONGEST_NAME}.",
                        clean(&info.name.chars().take(80).collect::<String>()), server.name, name.len()
                    ));
                    continue;
                }
                if tools.contains_key(&name) {
                    offer.complain(shared, format!(
                        "The tool {} of the MCP server {} is ignored: another tool is already named {name}.",
                        clean(&info.name), server.name
                    ));
                    continue;
                }
                let tool = match offer.tools.get(&name) {
                    Some((before, tool)) if before == entry => tool.clone(),
                    _ => {
                        let caller: Arc<dyn McpCaller> = self.caller.clone();
                        Arc::new(McpTool::new(&server.name, info, caller)) as Arc<dyn DynTool>
                    }
                };
                list.push(tool.clone());
                tools.insert(name, (entry.clone(), tool));
            }
        }
        let has_resources = connected.iter().any(|server| {
            server.description.as_ref().is_some_and(|said| {
                said.capabilities
                    .get("resources")
                    .is_some_and(Value::is_object)
            })
        });
        if has_resources {
            let pair = offer.resources.get_or_insert_with(|| {
                let caller: Arc<dyn McpCaller> = self.caller.clone();
                [
                    Arc::new(Erased::new(ListMcpResources {
                        caller: caller.clone(),
                    })),
                    Arc::new(Erased::new(ReadMcpResource { caller })),
                ]
            });
            list.extend(pair.iter().cloned());
        }
        if which == Which::Offered {
            offer.tell_changes(shared, &tools);
        }
        offer.servers = connected.iter().map(|server| server.name.clone()).collect();
        offer.tools = tools;
        let taken = shared
            .toolbox
            .registry
            .write()
            .replace(|tool| is_ours(tool.name()), list);
        for name in taken {
            offer.complain(
                shared,
                format!("The MCP tool {name} is ignored: another tool already has this name."),
            );
        }
    }
}

/// Whether a tool comes from here.
fn is_ours(name: &str) -> bool {
    name.starts_with("mcp__") || matches!(name, "ListMcpResources" | "ReadMcpResource")
}

impl Offer {
    /// Tells the user which tools of servers came and went during a turn.
    fn tell_changes(
        &self,
        shared: &ConversationShared,
        now: &HashMap<String, (Value, Arc<dyn DynTool>)>,
    ) {
        let sorted = |mut names: Vec<&str>| {
            names.sort_unstable();
            some(&names)
        };
        let of = |one: &'_ HashMap<String, (Value, Arc<dyn DynTool>)>,
                  other: &HashMap<String, (Value, Arc<dyn DynTool>)>| {
            one.keys()
                .filter(|name| !other.contains_key(*name))
                .cloned()
                .collect::<Vec<String>>()
        };
        let (came, gone) = (of(now, &self.tools), of(&self.tools, now));
        for (names, what) in [(came, "came"), (gone, "went")] {
            if !names.is_empty() {
                let names = sorted(names.iter().map(String::as_str).collect());
                let text = format!("Tools of MCP servers that {what}: {names}.");
                shared
                    .events
                    .news(News::new(Priority::Low), NoticeLevel::Info, text);
            }
        }
    }

    fn complain(&mut self, shared: &ConversationShared, text: String) {
        if self.complained.len() < 200 && self.complained.insert(text.clone()) {
            shared
                .events
                .news(News::new(Priority::Medium), NoticeLevel::Warning, text);
        }
    }

    /// Changes for the model: servers that came and went, and their instructions.
    fn news(
        &mut self,
        shared: &ConversationShared,
        manager: &lathe_mcp::Manager,
        first: bool,
    ) -> Vec<String> {
        let forgotten = shared.toolbox.deferred.times_forgotten();
        if forgotten != self.forgotten {
            self.forgotten = forgotten;
            self.introduced.clear();
        }
        let mut now: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for server in &self.servers {
            let start = prefix(server);
            let names = self
                .tools
                .keys()
                .filter(|name| name.starts_with(&start))
                .filter(|name| !shared.permissions.is_blanket_denied(name))
                .cloned()
                .collect();
            now.insert(server.clone(), names);
        }
        let mut texts = Vec::new();
        if !first {
            self.changes(&now, shared, &mut texts);
        }
        for server in now.keys() {
            if self.introduced.insert(server.clone())
                && let Some(words) = manager
                    .server(server)
                    .and_then(|status| status.description)
                    .and_then(|said| said.instructions.clone())
                    .filter(|words| !words.trim().is_empty())
            {
                let words: String = clean(&words).chars().take(LONGEST_INSTRUCTIONS).collect();
                texts.push(format!(
                    "Instructions of the MCP server {server}:\n{}",
                    words.trim()
                ));
            }
        }
        self.known = now;
        texts
    }

    fn changes(
        &self,
        now: &BTreeMap<String, BTreeSet<String>>,
        shared: &ConversationShared,
        texts: &mut Vec<String>,
    ) {
        let nothing = BTreeSet::new();
        for (server, names) in now {
            let before = self.known.get(server);
            let old = before.unwrap_or(&nothing);
            // Tools that wait to be loaded are announced by `tool_search`.
            let new: Vec<&str> = names
                .difference(old)
                .map(String::as_str)
                .filter(|name| !shared.toolbox.deferred.waits(name))
                .collect();
            if before.is_none() && names.is_empty() {
                continue;
            }
            if before.is_none() {
                let list = if new.is_empty() {
                    "ToolSearch finds its tools.".to_owned()
                } else {
                    format!("Its tools: {}.", some(&new))
                };
                texts.push(format!("The MCP server {server} is connected now. {list}"));
            } else if !new.is_empty() {
                texts.push(format!(
                    "New tools of the MCP server {server}: {}.",
                    some(&new)
                ));
            }
            let gone: Vec<&str> = old.difference(names).map(String::as_str).collect();
            if !gone.is_empty() {
                texts.push(format!(
                    "Removed tools of the MCP server {server}: {}.",
                    some(&gone)
                ));
            }
        }
        for server in self
            .known
            .keys()
            .filter(|server| !now.contains_key(*server))
        {
            texts.push(format!(
                "The MCP server {server} and its tools are no longer available."
            ));
        }
    }
}

fn some(names: &[&str]) -> String {
    let mut text = names
        .iter()
        .take(MOST_NAMES)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MOST_NAMES {
        text.push_str(&format!(" and {} more", names.len() - MOST_NAMES));
    }
    text
}

/// Changes of the servers since the last request, for the model.
fn news(shared: &ConversationShared, first: bool) -> Vec<String> {
    let Some(running) = shared.integrations.mcp.running() else {
        return Vec::new();
    };
    let mut texts = running.offer.lock().news(shared, &running.manager, first);
    for (server, uri) in running.caller.changed_resources() {
        let uri = clean(&uri);
        texts.push(format!(
            "The resource {uri} of the MCP server {server} has changed since it was read."
        ));
    }
    texts
}

/// Takes over the changes of MCP servers since the last request, and gives the text for the model.
pub(crate) fn mcp_news(conversation: &mut Conversation) -> Vec<String> {
    let shared = conversation.shared.clone();
    shared.integrations.mcp.between_requests(&shared);
    let before = conversation
        .tools_encoded
        .as_ref()
        .map(|(_, bytes)| bytes.clone());
    let now = conversation.encoded_tools();
    if before.as_ref().is_some_and(|before| *before != now) {
        conversation
            .context
            .prefix
            .expect("the tools of MCP servers changed");
    }
    news(&shared, before.is_none())
}

/// Finds tools of servers that are still being connected, or that joined after the turn began.
pub(super) struct Late {
    pub(super) shared: Weak<ConversationShared>,
}

impl LateTools for Late {
    fn find(&self, name: &str) -> Option<Arc<dyn DynTool>> {
        let shared = self.shared.upgrade()?;
        if !name.starts_with("mcp__") || shared.permissions.is_blanket_denied(name) {
            return None;
        }
        let running = shared.integrations.mcp.running()?;
        running.manager.status().into_iter().find_map(|server| {
            let tool = name.strip_prefix(&prefix(&server.name))?;
            let caller: Arc<dyn McpCaller> = running.caller.clone();
            let info = match server.state {
                State::Pending => McpToolInfo {
                    name: tool.to_owned(),
                    ..McpToolInfo::default()
                },
                State::Connected => server
                    .tools
                    .iter()
                    .filter_map(McpToolInfo::parse)
                    .find(|info| tool_name(&server.name, &info.name) == name)?,
                _ => return None,
            };
            Some(Arc::new(McpTool::new(&server.name, info, caller)) as Arc<dyn DynTool>)
        })
    }
}
