//! The MCP servers of a session: started beside everything else, offered to the model as tools, asked on
//! its behalf, and answered when they ask back.
//!
//! `Mcp::start` reads the configuration and hands it to one [`Manager`]; nothing waits for a server then.
//! A turn that begins waits a moment for those that are being connected (`Mcp::begin_turn`); one that is
//! late joins with the next turn, and the model gets a reminder. While a turn runs, a connected server may change its
//! list of tools: that takes effect with the next request. The tools themselves are those of `lathe_tools`; here is
//! the caller behind them (`caller`), requests of servers to us (`handlers`, `sampling`, `elicitation`),
//! what a prompt can name (`prompts`, `resources`), and what a face can do (`control`).
//!
//! A server is never trusted: its tools can't take the name of another tool, its words are cleaned before
//! anyone sees them, and a failing one is reported once while the session continues.

pub(crate) mod agents;
mod caller;
pub mod control;
mod elicitation;
mod handlers;
pub(crate) mod offer;
pub(crate) mod prompts;
mod reload;
pub(crate) mod resources;
mod sampling;

use crate::conversation::ConversationShared;
use crate::editor;
use crate::session::events::EventSink;
use caller::Caller;
pub use control::{McpControl, McpControlError, McpServer, Prompt, Resource};
pub(crate) use elicitation::Elicitations;
use handlers::SessionHandlers;
use indexmap::IndexMap;
use lathe_mcp::config::{Declared, PluginServers, Servers, Standing};
use lathe_mcp::{
    Change, InProcess, Manager, Options, ServerConfig, ServerStatus, State, TransportConfig, config,
};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::event::{Event, News, NoticeLevel, Priority};
use lathe_settings::{Environment, LoadOptions, Places, Resolved};
use offer::Offer;
use parking_lot::Mutex;
pub(crate) use prompts::PromptError;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// How long a turn waits for servers that are being connected, counted from when they were told to.
const GRACE: Duration = Duration::from_secs(2);
/// How long the end of a session waits for servers to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The version of the protocol that servers inside a host are spoken to in.
pub const HOSTED_PROTOCOL: &str = "2025-11-25";

/// The caller's choices about MCP servers.
#[derive(Clone, Default)]
pub struct McpOptions {
    /// The values of `--mcp-config`.
    pub configs: Vec<String>,
    /// Whether only those are used (`--strict-mcp-config`).
    pub strict: bool,
    /// Servers of plugins.
    pub plugins: Vec<PluginServers>,
    /// Servers that live in an SDK host, by name.
    pub hosted: Vec<String>,
    /// How long a call of theirs may take, where the host says so.
    pub hosted_timeouts: std::collections::BTreeMap<String, Duration>,
    /// The version of the protocol that they speak, where it isn't the usual one.
    pub hosted_protocol: Option<String>,
    /// Reaches them.
    pub in_process: Option<Arc<dyn InProcess>>,
    /// Whether the face answers questions of servers even where it answers no permission questions.
    pub face_answers: bool,
}

impl std::fmt::Debug for McpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpOptions")
            .field("configs", &self.configs)
            .field("strict", &self.strict)
            .field("hosted", &self.hosted)
            .finish_non_exhaustive()
    }
}

/// The inputs of a start.
pub(crate) struct Start<'a> {
    pub(crate) options: &'a McpOptions,
    pub(crate) places: &'a Places,
    pub(crate) settings: &'a Resolved,
    pub(crate) load_options: &'a LoadOptions,
    pub(crate) environment: &'a Environment,
    /// How many dollars the session may have spent when a server asks for an answer of the model.
    pub(crate) max_session_usd: Option<f64>,
}

/// The MCP servers of a session. A conversation inside it shares them. One that was never started has none.
#[derive(Default)]
pub(crate) struct Mcp {
    /// Questions of servers to the user.
    pub(crate) elicitations: Elicitations,
    running: OnceLock<Running>,
    /// Where an agent's skills come from; it starts no servers for the session.
    of_agent: Option<OfAgent>,
}

/// The servers whose prompts an agent has as skills.
struct OfAgent {
    session: Arc<Mcp>,
    /// Its definition's word on what it may use.
    filter: crate::agents::ToolFilter,
    /// Those that only it has. They end with it.
    own: OnceLock<Weak<Caller>>,
}

/// The state once servers were started.
struct Running {
    manager: Manager,
    caller: Arc<Caller>,
    places: Places,
    environment: Environment,
    max_session_usd: Option<f64>,
    face_answers: bool,
    state: Mutex<Known>,
    offer: Mutex<Offer>,
    /// A connected server changed its list, or a face changed something: looked at before the next request.
    changed: AtomicBool,
    /// Model answers that servers asked for in this turn.
    samples: std::sync::atomic::AtomicUsize,
}

/// The known configuration.
struct Known {
    declared: Servers,
    options: McpOptions,
    settings: Resolved,
    load_options: LoadOptions,
    /// Servers that a host or a face declared while the session runs, as they were written.
    dynamic: IndexMap<String, (Value, ServerConfig)>,
    /// Servers of the command line that a host replaced.
    without_flags: bool,
    since: Instant,
}

impl Mcp {
    /// Reads the configuration and starts what is to be started, in the background. Gives what the user
    /// should know.
    pub(crate) fn start(
        &self,
        shared: &Arc<ConversationShared>,
        start: &Start<'_>,
    ) -> Vec<Diagnostic> {
        let declared = config::load(config::Request {
            places: start.places,
            settings: start.settings,
            options: start.load_options,
            environment: start.environment,
            flags: &start.options.configs,
            strict: start.options.strict,
            plugins: &start.options.plugins,
        });
        let remarks = declared.remarks();
        let mut options = Options::new(start.environment.clone(), env!("CARGO_PKG_VERSION"));
        options.home.clone_from(&start.places.config_home);
        options.in_process.clone_from(&start.options.in_process);
        options.confine.clone_from(&shared.tools.programs.confine);
        let handlers = Arc::new(SessionHandlers {
            shared: Arc::downgrade(shared),
        });
        let manager = Manager::new(options, handlers);
        let mut dynamic = IndexMap::new();
        for name in &start.options.hosted {
            let mut config = hosted(name);
            if let Some(version) = &start.options.hosted_protocol {
                config.protocol = lathe_mcp::ProtocolChoice::Only(version.clone());
            }
            config.tool_timeout = start.options.hosted_timeouts.get(name).copied();
            dynamic.insert(name.clone(), (hosted_entry(name), config));
        }
        let running = Running {
            caller: Arc::new(Caller::new(manager.clone())),
            places: start.places.clone(),
            environment: start.environment.clone(),
            max_session_usd: start.max_session_usd,
            face_answers: start.options.face_answers,
            state: Mutex::new(Known {
                declared,
                options: start.options.clone(),
                settings: start.settings.clone(),
                load_options: start.load_options.clone(),
                dynamic,
                without_flags: false,
                since: Instant::now(),
            }),
            offer: Mutex::default(),
            changed: AtomicBool::new(false),
            samples: std::sync::atomic::AtomicUsize::new(0),
            manager,
        };
        if self.running.set(running).is_err() {
            return remarks;
        }
        if let Some(running) = self.running.get() {
            watch(&running.manager, shared);
            running.connect();
            reload::watch(shared);
            shared
                .toolbox
                .registry
                .write()
                .set_late(Arc::new(offer::Late {
                    shared: Arc::downgrade(shared),
                }));
            shared
                .hooks
                .registry
                .set_tools(Arc::new(caller::ToolsOfHooks(running.caller.clone())));
            shared.hooks.note_servers(shared);
        }
        remarks
    }

    /// The servers as an agent of the session sees them: prompts, less those that its definition forbids. Their
    /// tools are in its list.
    pub(crate) fn for_agent(session: &Arc<Self>, filter: crate::agents::ToolFilter) -> Self {
        Self {
            of_agent: Some(OfAgent {
                session: session.clone(),
                filter,
                own: OnceLock::new(),
            }),
            ..Self::default()
        }
    }

    /// The managers of the servers with prompts: an agent's own servers go before the session's.
    fn managers(&self) -> Vec<Manager> {
        let Some(agent) = &self.of_agent else {
            let running = self.running().into_iter();
            return running.map(|running| running.manager.clone()).collect();
        };
        let own = agent.own.get().and_then(Weak::upgrade);
        let mut managers: Vec<Manager> = own.iter().map(|caller| caller.manager()).collect();
        managers.extend(agent.session.managers());
        managers
    }

    /// Takes the servers of other plugins; what that changes is started and ended.
    pub(crate) fn set_plugins(&self, plugins: Vec<PluginServers>) {
        if let Some(running) = self.running() {
            running.state.lock().options.plugins = plugins;
            running.reload();
        }
    }

    /// The manager of the session's servers.
    pub(crate) fn manager(&self) -> Option<Manager> {
        Some(self.running()?.manager.clone())
    }

    fn running(&self) -> Option<&Running> {
        self.running.get()
    }

    /// Waits a moment for servers that are being connected, and offers the tools of those that are.
    pub(crate) async fn begin_turn(&self, shared: &ConversationShared, cancel: &CancellationToken) {
        let Some(running) = self.running() else {
            return;
        };
        running.samples.store(0, Ordering::Relaxed);
        tokio::select! {
            () = running.patience() => {}
            () = cancel.cancelled() => {}
        }
        running.changed.store(false, Ordering::Relaxed);
        running.offer_tools(shared, offer::Which::All);
        running.show(shared);
    }

    /// Takes over what changed while the turn ran: lists of servers that are offered already.
    pub(crate) fn between_requests(&self, shared: &ConversationShared) {
        if let Some(running) = self.running()
            && running.changed.swap(false, Ordering::Relaxed)
        {
            running.offer_tools(shared, offer::Which::Offered);
        }
    }

    /// Ends all servers.
    pub(crate) async fn shut_down(&self) {
        self.elicitations.withdraw_all();
        if let Some(running) = self.running()
            && tokio::time::timeout(END_LIMIT, running.manager.shutdown())
                .await
                .is_err()
        {
            tracing::warn!("MCP servers took too long to end");
        }
    }

    /// The folders that may be worked in are others now.
    pub(crate) fn roots_changed(&self) {
        if let Some(running) = self.running() {
            let manager = running.manager.clone();
            lathe_spawn::task(async move { manager.roots_changed().await });
        }
    }
}

impl Running {
    /// Tells the manager which servers there should be.
    fn connect(&self) -> lathe_mcp::manager::ServersSet {
        let mut state = self.state.lock();
        state.since = Instant::now();
        let servers = state.configs();
        drop(state);
        self.manager.set_servers(servers)
    }

    /// Says which servers there are, and where they stand.
    fn show(&self, shared: &ConversationShared) {
        let mut shown: Vec<Value> = Vec::new();
        let statuses = self.manager.status();
        let known = self.state.lock();
        for status in statuses {
            shown.push(serde_json::json!({
                "name": status.name, "status": status.state.word(),
                "source": known.source(&status.name),
            }));
        }
        for (server, _) in known.waiting() {
            let broken = matches!(server.standing, Standing::Broken(_));
            let status = if broken { "failed" } else { "disabled" };
            shown.push(serde_json::json!({
                "name": server.name, "status": status, "source": server.scope.name(),
            }));
        }
        drop(known);
        *shared.session.mcp_servers.write() = shown;
    }

    /// Waits for servers that are being connected: those in the host as long as they take, others for a
    /// grace.
    async fn patience(&self) {
        let left = GRACE.saturating_sub(self.state.lock().since.elapsed());
        if !left.is_zero() {
            self.manager.settled(left).await;
        }
        let mut changes = self.manager.changes();
        while self.hosted_pending() {
            if matches!(changes.recv().await, Err(RecvError::Closed)) {
                return;
            }
        }
    }

    fn hosted_pending(&self) -> bool {
        self.manager
            .status()
            .iter()
            .any(|server| server.transport == "sdk" && server.state == State::Pending)
    }
}

impl Known {
    /// The source of a server for hosts: `sdk` is one that lives in the host, which only the
    /// host can declare.
    fn source(&self, name: &str) -> &'static str {
        let hosted =
            |config: &ServerConfig| matches!(config.transport, TransportConfig::Sdk { .. });
        let (scope, hosted) = match (self.dynamic.get(name), self.declared.find(name)) {
            (Some((_, config)), _) => (config::Scope::Dynamic, hosted(config)),
            (None, Some(declared)) => {
                let config = declared.config();
                (declared.scope, config.is_some_and(|it| hosted(&it)))
            }
            (None, None) => (config::Scope::Dynamic, false),
        };
        if hosted && scope == config::Scope::Dynamic {
            return "sdk";
        }
        scope.name()
    }

    /// The sources of the list of servers.
    fn request<'a>(
        &'a self,
        places: &'a Places,
        environment: &'a Environment,
    ) -> config::Request<'a> {
        config::Request {
            places,
            settings: &self.settings,
            options: &self.load_options,
            environment,
            flags: &self.options.configs,
            strict: self.options.strict,
            plugins: &self.options.plugins,
        }
    }

    /// All servers that a manager should have.
    fn configs(&self) -> IndexMap<String, ServerConfig> {
        let mut servers: IndexMap<String, ServerConfig> = self
            .declared
            .list
            .iter()
            .filter(|server| !self.hides(server))
            .filter_map(|server| {
                let mut config = server.config()?;
                fit_hosted(&mut config);
                Some((server.name.clone(), config))
            })
            .collect();
        for (name, (_, config)) in &self.dynamic {
            if config::refusal(name, config, &self.settings.settings).is_none() {
                servers.insert(name.clone(), config.clone());
            }
        }
        servers
    }

    /// Whether a host replaced a server of the command line.
    fn hides(&self, server: &Declared) -> bool {
        self.without_flags && server.scope == config::Scope::Dynamic
    }

    /// Servers that are declared and can't be started, with the reason.
    fn waiting(&self) -> Vec<(&Declared, String)> {
        self.declared
            .list
            .iter()
            .filter(|server| !self.hides(server) && !self.dynamic.contains_key(&server.name))
            .filter(|server| !matches!(server.standing, Standing::Ready(_) | Standing::Disabled(_)))
            .filter_map(|server| Some((server, server.why_not()?)))
            .collect()
    }
}

/// Where a tool stands in the list that the model gets: what comes and goes with servers is last.
pub(crate) fn rank(tool: &str) -> u8 {
    match tool {
        "ToolSearch" => 1,
        "ListMcpResources" | "ReadMcpResource" => 2,
        name if name.starts_with("mcp__") => 3,
        _ => 0,
    }
}

/// A server inside the host.
fn hosted(name: &str) -> ServerConfig {
    let mut config = ServerConfig::new(TransportConfig::Sdk {
        name: name.to_owned(),
    });
    fit_hosted(&mut config);
    config
}

fn hosted_entry(name: &str) -> Value {
    serde_json::json!({"type": "sdk", "name": name})
}

/// Hosts know the handshake of the stateful protocol, so nothing else is tried on them.
fn fit_hosted(config: &mut ServerConfig) {
    if matches!(config.transport, TransportConfig::Sdk { .. }) {
        config.protocol = lathe_mcp::ProtocolChoice::Only(HOSTED_PROTOCOL.to_owned());
    }
}

/// Listens to what happens to servers, until the session ends. Each event is reported once.
fn watch(manager: &Manager, shared: &Arc<ConversationShared>) {
    let mut changes = manager.changes();
    let shared = Arc::downgrade(shared);
    lathe_spawn::task(async move {
        let mut told = Told::default();
        loop {
            let change = match changes.recv().await {
                Ok(change) => change,
                Err(RecvError::Lagged(_)) => {
                    // What was missed may have been a list.
                    match note_change(&shared) {
                        Some(()) => continue,
                        None => return,
                    }
                }
                Err(RecvError::Closed) => return,
            };
            let Some(shared) = Weak::upgrade(&shared) else {
                return;
            };
            match change {
                Change::Tools { server } | Change::Resources { server } => {
                    if let Some(running) = shared.integrations.mcp.running() {
                        running.changed.store(true, Ordering::Relaxed);
                        told.lists(running.manager.server(&server), &shared.events);
                    }
                }
                Change::State { server, state } => {
                    if let Some(running) = shared.integrations.mcp.running()
                        && !matches!(state, State::Connected)
                    {
                        running.changed.store(true, Ordering::Relaxed);
                        running.caller.connection_ended(&server);
                    }
                    if let Some(running) = shared.integrations.mcp.running() {
                        running.show(&shared);
                        told.lists(running.manager.server(&server), &shared.events);
                    }
                    let editor = &shared.integrations.editor;
                    if server == editor::SERVER {
                        editor.server_is(&shared, &state);
                    }
                    if server != editor::SERVER || !editor.is_used() {
                        told.state(&server, &state, &shared.events);
                    }
                }
                Change::Notice { server, text } => {
                    let editor = &shared.integrations.editor;
                    if server != editor::SERVER || !editor.is_used() {
                        told.notice(&server, &text, &shared.events);
                    }
                }
                Change::Log {
                    server,
                    level,
                    text,
                    ..
                } => tracing::debug!(server, level, text, "an MCP server says"),
                Change::ResourceUpdated { server, uri } => {
                    if let Some(running) = shared.integrations.mcp.running() {
                        running.caller.resource_changed(server, uri);
                    }
                }
                Change::Notification {
                    server,
                    method,
                    params,
                } if server == editor::SERVER => {
                    let editor = &shared.integrations.editor;
                    editor.notified(&shared, &method, &params);
                }
                Change::Notification {
                    server,
                    method,
                    params,
                } if method == "notifications/elicitation/complete" => {
                    if let Some(id) = params.get("elicitationId").and_then(Value::as_str) {
                        shared.events.send(Event::ElicitationCompleted {
                            server,
                            elicitation_id: lathe_tools::mcp_result::clean(id),
                        });
                    }
                }
                Change::Prompts { .. } | Change::Notification { .. } => {}
            }
        }
    });
}

fn note_change(shared: &Weak<ConversationShared>) -> Option<()> {
    let shared = shared.upgrade()?;
    let running = shared.integrations.mcp.running()?;
    running.changed.store(true, Ordering::Relaxed);
    Some(())
}

/// The remarks that the user got.
#[derive(Default)]
struct Told {
    texts: HashSet<String>,
}

impl Told {
    fn state(&mut self, server: &str, state: &State, events: &EventSink) {
        match state {
            State::Failed { reason } => {
                let text = format!("The MCP server {server} can't be used: {reason}");
                self.once(&text, NoticeLevel::Warning, events);
            }
            State::NeedsAuth => {
                let text = format!(
                    "The MCP server {server} needs you to sign in: run `lathe mcp login {server}`."
                );
                self.once(&text, NoticeLevel::Warning, events);
            }
            State::Pending | State::Connected | State::Disabled => {}
        }
    }

    /// The parts of a server's lists that aren't used.
    fn lists(&mut self, server: Option<ServerStatus>, events: &EventSink) {
        let Some(server) = server.filter(|server| server.state == State::Connected) else {
            return;
        };
        let name = &server.name;
        if let [first, rest @ ..] = server.remarks.as_slice() {
            let more = match rest.len() {
                0 => String::new(),
                count => format!("; and {count} more, which `/mcp` shows"),
            };
            let text = format!("The MCP server {name}: {first}{more}");
            self.once(&text, NoticeLevel::Warning, events);
        }
        if server.cut > 0 {
            let text = format!(
                "The MCP server {name}: {} of its descriptions were too long and were cut.",
                server.cut
            );
            self.once(&text, NoticeLevel::Info, events);
        }
    }

    fn notice(&mut self, server: &str, text: &str, events: &EventSink) {
        let text = if text.contains(server) {
            text.to_owned()
        } else {
            format!("{server}: {text}")
        };
        self.once(&text, NoticeLevel::Warning, events);
    }

    fn once(&mut self, text: &str, level: NoticeLevel, events: &EventSink) {
        // A server that invents new reasons for ever must not fill the memory.
        if self.texts.len() < 1_000 && self.texts.insert(text.to_owned()) {
            events.news(
                News::new(Priority::Medium),
                level,
                lathe_tools::mcp_result::clean(text),
            );
        }
    }
}
