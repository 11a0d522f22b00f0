//! The servers of one agent: there when it begins, gone when it ends.
//!
//! A definition names servers of the session (then the agent waits for them and keeps their tools whatever
//! its list of tools says), or brings servers of its own, which only it has. Those are connected before its
//! first request, with the same policies and the same handshake as the session's; one that can't be
//! connected is reported to the user and to the agent, and the agent works without it.

use super::caller::Caller;
use super::handlers::SessionHandlers;
use super::{END_LIMIT, Mcp, Running};
use crate::conversation::ConversationShared;
use futures::future::BoxFuture;
use indexmap::IndexMap;
use lathe_extensions::{AgentDefinition, AgentMcpServer, ExtensionSource};
use lathe_mcp::config::entry;
use lathe_mcp::{
    Change, Elicitation, ElicitationAnswer, Handlers, Manager, Offers, Options, Root,
    SamplingRefused, ServerConfig, ServerStatus, State, config,
};
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_tools::DynTool;
use lathe_tools::mcp_result::clean;
use lathe_tools::mcp_tool::{LONGEST_NAME, McpCaller, McpTool, McpToolInfo, prefix, tool_name};
use serde_json::Value;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

/// How long an agent waits for its servers; each has a limit of its own that is usually shorter.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many characters of what a server says about itself an agent reads.
const LONGEST_INSTRUCTIONS: usize = 2_048;

/// The servers that an agent has for itself. They end when this is closed.
#[derive(Default)]
pub(crate) struct AgentServers {
    own: Option<Manager>,
    /// Asks them; held so that it is there for a server that has no tools yet.
    caller: Option<Arc<Caller>>,
    /// Remarks for the agent.
    pub(crate) news: Vec<String>,
}

/// An agent and who it belongs to.
pub(crate) struct Owner<'a> {
    /// The agent's conversation.
    pub(crate) agent: &'a Arc<ConversationShared>,
    /// The main conversation.
    pub(crate) root: &'a Arc<ConversationShared>,
    /// The description of the agent, for the user.
    pub(crate) description: &'a str,
    pub(crate) definition: &'a AgentDefinition,
}

impl AgentServers {
    /// Connects what the definition names. Takes as long as the slowest server, within limits.
    pub(crate) async fn connect(&mut self, owner: &Owner<'_>) {
        if owner.definition.mcp_servers.is_empty() {
            return;
        }
        let mcp: Arc<Mcp> = owner.root.integrations.mcp.clone();
        let Some(running) = mcp.running() else {
            return;
        };
        for server in &owner.definition.mcp_servers {
            if let AgentMcpServer::Named(name) = server {
                self.join(owner, running, name).await;
            }
        }
        let own = self.own_configs(owner, running);
        if !own.is_empty() {
            self.start(owner, running, own).await;
        }
    }

    /// Ends the agent's own servers and waits for it.
    pub(crate) async fn close(self) {
        if let Some(manager) = self.own
            && tokio::time::timeout(END_LIMIT, manager.shutdown())
                .await
                .is_err()
        {
            tracing::warn!("an agent's MCP servers took too long to end");
        }
    }

    fn miss(&mut self, owner: &Owner<'_>, server: &str, why: &str) {
        let server = clean(server);
        let why = clean(why);
        owner.root.events.news(
            News::new(Priority::Medium),
            NoticeLevel::Warning,
            format!(
                "Agent \"{}\" works without the MCP server {server}: {why}",
                owner.description
            ),
        );
        self.news
            .push(format!("The MCP server {server} can't be used: {why}"));
    }

    /// Waits for one of the session's servers and sees to it that the agent has its tools.
    async fn join(&mut self, owner: &Owner<'_>, running: &Running, name: &str) {
        running.caller.ready(name).await;
        match running.manager.server(name) {
            Some(status) if status.state == State::Connected => {
                give(owner.agent, owner.definition, &running.caller, &status);
            }
            Some(status) => self.miss(owner, name, &standing(&status)),
            None => {
                let known = running.state.lock();
                let why = known
                    .declared
                    .find(name)
                    .and_then(config::Declared::why_not)
                    .unwrap_or_else(|| {
                        "no server of that name is declared here (`lathe mcp list` shows them)"
                            .to_owned()
                    });
                drop(known);
                self.miss(owner, name, &why);
            }
        }
    }

    /// The servers that the definition brings, as far as they may be started.
    fn own_configs(
        &mut self,
        owner: &Owner<'_>,
        running: &Running,
    ) -> IndexMap<String, ServerConfig> {
        let definition = owner.definition;
        let place = match &definition.path {
            Some(path) => config::ConfigLocation::file(path),
            None => config::ConfigLocation::flag("--agents"),
        };
        let lookup = |name: &str| running.environment.foreign(name).map(str::to_owned);
        let (strict, settings) = {
            let known = running.state.lock();
            (known.options.strict, known.settings.settings.clone())
        };
        let mut configs = IndexMap::new();
        for (name, written) in definition.mcp_servers.iter().flat_map(own) {
            if strict && definition.source != ExtensionSource::Flag {
                self.miss(
                    owner,
                    name,
                    "--strict-mcp-config leaves only what the command line declares",
                );
                continue;
            }
            if !entry::is_name(name) {
                self.miss(
                    owner,
                    name,
                    "a server's name has at most 64 characters, without `/`, `:`, `__` and control characters",
                );
                continue;
            }
            match entry::parse(name, written, &place, &lookup) {
                Err(error) => self.miss(owner, name, &error.to_string()),
                Ok(parsed) => match config::refusal(name, &parsed, &settings) {
                    Some(why) => self.miss(owner, name, &why),
                    None if parsed.disabled => {}
                    None => {
                        configs.insert(name.to_owned(), parsed);
                    }
                },
            }
        }
        configs
    }

    async fn start(
        &mut self,
        owner: &Owner<'_>,
        running: &Running,
        configs: IndexMap<String, ServerConfig>,
    ) {
        let mut environment = running.environment.clone();
        environment
            .cwd
            .clone_from(&owner.agent.tools.working_folder.read());
        let mut options = Options::new(environment, env!("CARGO_PKG_VERSION"));
        options.home.clone_from(&running.places.config_home);
        options.in_process = running.state.lock().options.in_process.clone();
        options
            .confine
            .clone_from(&owner.agent.tools.programs.confine);
        let manager = Manager::new(
            options,
            Arc::new(AgentHandlers {
                agent: Arc::downgrade(owner.agent),
                session: SessionHandlers {
                    shared: Arc::downgrade(owner.root),
                },
            }),
        );
        // Held from here on, so that an agent that is stopped meanwhile ends them too.
        self.own = Some(manager.clone());
        let caller = Arc::new(Caller::new(manager.clone()));
        owner.agent.integrations.mcp.take_own(&caller);
        let changes = manager.changes();
        manager.set_servers(configs);
        manager.settled(PATIENCE).await;
        for status in manager.status() {
            if status.state != State::Connected {
                self.miss(owner, &status.name, &standing(&status));
                continue;
            }
            give(owner.agent, owner.definition, &caller, &status);
            let words = status
                .description
                .as_ref()
                .and_then(|said| said.instructions.clone())
                .filter(|words| !words.trim().is_empty());
            if let Some(words) = words {
                let words: String = clean(&words).chars().take(LONGEST_INSTRUCTIONS).collect();
                self.news.push(format!(
                    "Instructions of the MCP server {}:\n{}",
                    status.name,
                    words.trim()
                ));
            }
        }
        follow(changes, &manager, &caller, owner);
        self.caller = Some(caller);
    }
}

impl Mcp {
    /// The servers that only this agent has: their prompts are skills of it.
    fn take_own(&self, caller: &Arc<Caller>) {
        if let Some(agent) = &self.of_agent {
            // An agent begins once; a second list would be a mistake, and the first one stays.
            let _ = agent.own.set(Arc::downgrade(caller));
        }
    }
}

fn own(server: &AgentMcpServer) -> Vec<(&str, &Value)> {
    match server {
        AgentMcpServer::Named(_) => Vec::new(),
        AgentMcpServer::Inline(map) => map
            .iter()
            .map(|(name, config)| (name.as_str(), config))
            .collect(),
    }
}

/// Why a server that isn't connected isn't.
fn standing(status: &ServerStatus) -> String {
    match &status.state {
        State::Failed { reason } => reason.clone(),
        State::NeedsAuth => format!("it requires a sign-in: `lathe mcp login {}`", status.name),
        State::Disabled => "it is disabled".to_owned(),
        State::Pending | State::Connected => "it took too long to connect".to_owned(),
    }
}

/// Puts the tools of a server into an agent's list; those that its definition forbids stay out.
fn give(
    agent: &ConversationShared,
    definition: &AgentDefinition,
    caller: &Arc<Caller>,
    status: &ServerStatus,
) {
    let filter = crate::agents::ToolFilter::of(definition);
    let mut tools: Vec<Arc<dyn DynTool>> = Vec::new();
    for info in status.tools.iter().filter_map(McpToolInfo::parse) {
        if tool_name(&status.name, &info.name).len() > LONGEST_NAME {
            continue;
        }
        let caller: Arc<dyn McpCaller> = caller.clone();
        let tool = McpTool::new(&status.name, info, caller);
        if !filter.removes(&tool) {
            tools.push(Arc::new(tool));
        }
    }
    let start = prefix(&status.name);
    let mut registry = agent.toolbox.registry.write();
    registry.replace(|tool| tool.name().starts_with(&start), tools);
}

/// Follows the lists of the agent's own servers while it works.
fn follow(
    mut changes: tokio::sync::broadcast::Receiver<Change>,
    manager: &Manager,
    caller: &Arc<Caller>,
    owner: &Owner<'_>,
) {
    let agent = Arc::downgrade(owner.agent);
    let definition = owner.definition.clone();
    // Its clone would keep the servers alive; what is asked is asked of the caller's.
    let names: Vec<String> = manager
        .status()
        .into_iter()
        .map(|status| status.name)
        .collect();
    let caller = Arc::downgrade(caller);
    lathe_spawn::task(async move {
        loop {
            let changed = match changes.recv().await {
                Ok(Change::Tools { server, .. }) => vec![server],
                Ok(_) => continue,
                Err(RecvError::Lagged(_)) => names.clone(),
                Err(RecvError::Closed) => return,
            };
            let (Some(agent), Some(caller)) = (agent.upgrade(), caller.upgrade()) else {
                return;
            };
            for name in changed {
                if let Some(status) = caller
                    .server(&name)
                    .filter(|status| status.state == State::Connected)
                {
                    give(&agent, &definition, &caller, &status);
                }
            }
        }
    });
}

/// Answers an agent's servers: its own folders; the user and a model as the session has them.
struct AgentHandlers {
    agent: Weak<ConversationShared>,
    session: SessionHandlers,
}

impl Handlers for AgentHandlers {
    fn offers(&self) -> Offers {
        self.session.offers()
    }

    fn roots(&self) -> Vec<Root> {
        SessionHandlers {
            shared: self.agent.clone(),
        }
        .roots()
    }

    fn elicit<'a>(
        &'a self,
        server: &'a str,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitationAnswer> {
        self.session.elicit(server, question)
    }

    fn sample<'a>(
        &'a self,
        server: &'a str,
        request: Value,
    ) -> BoxFuture<'a, Result<Value, SamplingRefused>> {
        self.session.sample(server, request)
    }
}
