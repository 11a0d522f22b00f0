//! The part of a conversation that others reach while a turn runs.

use super::ChoiceCell;
use crate::agents::{AgentPlace, ForkPoint, Seed, ToolFilter, notice};
use crate::call::tool_search::DeferredTools;
use crate::context::usage::ContextUsage;
use crate::conversation::hook_points::HookPoints;
use crate::conversation::questions::Questions;
use crate::conversation::undo::Undo;
use crate::session::Session;
use crate::session::events::EventSink;
use crate::session::handles::TaskError;
use crate::session::ledger::{Part, Totals};
use lathe_extensions::{Command, CommandRegistry};
use lathe_model::ModelRequest;
use lathe_permissions::Permissions;
use lathe_protocol::event::SessionInit;
use lathe_protocol::ids::{RecordId, RequestId};
use lathe_protocol::op::Prompt;
use lathe_protocol::record::{MessageRecord, Record};
use lathe_session::TranscriptWriter;
use lathe_settings::Variable;
use lathe_settings::instructions::Instructions;
use lathe_tools::mcp_result::ResultStore;
use lathe_tools::{ToolContext, ToolRegistry};
use parking_lot::{Mutex, RwLock};
use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The part of a conversation that the session actor, tools and other conversations reach while a turn
/// runs.
pub(crate) struct ConversationShared {
    pub(crate) session: Arc<Session>,
    pub(crate) role: Role,
    pub(crate) events: EventSink,
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) hooks: Arc<HookPoints>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) tools: Arc<ToolContext>,
    pub(crate) toolbox: Toolbox,
    pub(crate) inbox: Inbox,
    pub(crate) choices: ChoiceCell,
    /// For facts that don't wait for a turn; the same file as the conversation's own.
    pub(crate) transcript: TranscriptWriter,
    pub(crate) state: ConversationState,
    pub(crate) spending: Spending,
    pub(crate) integrations: Integrations,
    /// The configuration that agents of this conversation start with.
    pub(crate) seed: Arc<Seed>,
}

/// Which conversation of the session this is.
pub(crate) enum Role {
    /// The session's own. Run as an agent, it has that agent's tools only.
    Main {
        /// The tools of the agent.
        filter: Option<ToolFilter>,
    },
    /// An agent.
    Agent(AgentPlace),
    /// An agent that started from its parent's history.
    Fork(AgentPlace),
    /// The conversation of an agent hook: nobody watches it and it keeps no transcript.
    Hook,
}

impl Role {
    /// Where an agent stands among the agents; `None` for other roles.
    pub(crate) fn place(&self) -> Option<&AgentPlace> {
        match self {
            Self::Agent(place) | Self::Fork(place) => Some(place),
            Self::Main { .. } | Self::Hook => None,
        }
    }

    pub(crate) fn is_fork(&self) -> bool {
        matches!(self, Self::Fork(_))
    }

    /// The tools of the agent that the main conversation runs as.
    pub(crate) fn filter(&self) -> Option<&ToolFilter> {
        match self {
            Self::Main { filter } => filter.as_ref(),
            Self::Agent(_) | Self::Fork(_) | Self::Hook => None,
        }
    }
}

/// The tools of a conversation.
#[derive(Default)]
pub(crate) struct Toolbox {
    pub(crate) registry: RwLock<ToolRegistry>,
    /// Tools whose definitions are loaded on demand.
    pub(crate) deferred: Arc<DeferredTools>,
    /// Running calls that can be sent to the background.
    pub(crate) backgrounds: Arc<crate::call::Backgrounds>,
    /// The network of commands in the sandbox.
    pub(crate) network: Arc<crate::call::SandboxNetwork>,
    pub(crate) undo: Option<Arc<Undo>>,
    /// Background commands whose end the model knows of.
    pub(crate) known_ends: Mutex<HashSet<String>>,
}

impl Toolbox {
    /// With these tools, and nothing else.
    pub(crate) fn of(registry: ToolRegistry, undo: Option<Arc<Undo>>) -> Self {
        Self {
            registry: RwLock::new(registry),
            undo,
            ..Self::default()
        }
    }
}

/// Prompts on their way into a conversation.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) queue: Mutex<VecDeque<Prompt>>,
    /// Prompts that were sent and are not in the queue yet. Locked after the queue.
    pub(crate) undelivered: Mutex<Vec<RecordId>>,
    /// Notified when a prompt that isn't the user's was queued, or background work ended.
    pub(crate) wake: Notify,
    /// Whether a turn runs or is about to.
    pub(crate) busy: AtomicBool,
}

/// Facts about a conversation that its turns publish.
pub(crate) struct ConversationState {
    pub(crate) instructions: Mutex<Option<Instructions>>,
    /// How full the window was at the last request.
    pub(crate) usage: Mutex<ContextUsage>,
    /// A running account of the conversation.
    pub(crate) notes: Arc<crate::conversation::notes::Notes>,
    /// Where forks of the newest answer start.
    pub(crate) fork_point: tokio::sync::watch::Sender<Option<Arc<ForkPoint>>>,
    pub(crate) planning: crate::conversation::plan::Planning,
    /// The worktree that the session is in.
    pub(crate) worktree: crate::worktree::session::Place,
    /// The condition that turns go on for.
    pub(crate) goal: crate::conversation::goal::GoalCell,
    /// Whether the conversation only directs workers.
    pub(crate) coordination: crate::conversation::coordinator::Coordination,
    /// Edits of the context that the next request has.
    pub(crate) surgery: Mutex<Vec<Record>>,
    /// The newest request, from which questions beside the conversation are asked.
    pub(crate) last_request: Mutex<Option<ModelRequest>>,
}

impl ConversationState {
    pub(super) fn new(instructions: Option<Instructions>) -> Self {
        Self {
            instructions: Mutex::new(instructions),
            usage: Mutex::default(),
            notes: Arc::default(),
            fork_point: tokio::sync::watch::Sender::new(None),
            planning: crate::conversation::plan::Planning::default(),
            worktree: crate::worktree::session::Place::default(),
            goal: crate::conversation::goal::GoalCell::default(),
            coordination: crate::conversation::coordinator::Coordination::default(),
            surgery: Mutex::default(),
            last_request: Mutex::default(),
        }
    }
}

/// The usage of a conversation.
#[derive(Default)]
pub(crate) struct Spending {
    /// As of the last step.
    pub(crate) totals: Mutex<Totals>,
    /// The usage of agents and side questions, until the ledger absorbs it.
    pub(crate) waiting: Mutex<Vec<(Part, Totals)>>,
}

/// A conversation's view of MCP servers, language servers, and skills and commands.
pub(crate) struct Integrations {
    pub(crate) mcp: Arc<crate::mcp::Mcp>,
    pub(crate) language: crate::conversation::language::Language,
    pub(crate) extensions: Arc<crate::skills::Extensions>,
    pub(crate) editor: Arc<crate::editor::EditorLink>,
}

impl Integrations {
    /// For a conversation inside another: no MCP servers, and its own record of edits and of what it
    /// was told about skills.
    pub(crate) fn inside(parent: &Self) -> Self {
        Self {
            mcp: Arc::default(),
            language: parent.language.beside(),
            extensions: parent.extensions.for_inner(),
            editor: parent.editor.clone(),
        }
    }
}

impl ConversationShared {
    /// Notes in a record where the conversation works now.
    pub(crate) fn note_folder(&self, record: &mut MessageRecord) {
        let folder = self.tools.working_folder.read();
        if *folder != std::path::Path::new(&record.cwd) {
            record.cwd = folder.to_string_lossy().into_owned();
        }
    }

    /// Takes a prompt off the list of those that were sent but not queued. Returns whether it was on it.
    pub(crate) fn arrived(&self, prompt: RecordId) -> bool {
        let mut undelivered = self.inbox.undelivered.lock();
        let at = undelivered.iter().position(|known| *known == prompt);
        at.map(|at| undelivered.swap_remove(at)).is_some()
    }

    /// The tools that the model is offered: a tool that is denied as a whole isn't.
    pub(crate) fn offered_tools(&self) -> ToolRegistry {
        self.offered_of(self.all_tools())
    }

    /// The tools of a list that calls may use.
    pub(crate) fn offered_of(&self, mut registry: ToolRegistry) -> ToolRegistry {
        if !self.toolbox.deferred.is_active() {
            registry.retain(|tool| tool.name() != crate::call::tool_search::NAME);
        }
        if self.role.is_fork() {
            // A fork is sent the same list as its parent, for the cache; it may use less of it.
            registry.retain(|tool| !crate::agents::FORBIDDEN.contains(&tool.name()));
        }
        registry
    }

    /// As [`Self::offered_tools`], with the search for tools even where nothing waits.
    pub(crate) fn all_tools(&self) -> ToolRegistry {
        let mut registry = self.toolbox.registry.read().clone();
        registry.retain(|tool| !self.permissions.is_blanket_denied(tool.name()));
        if let Some(filter) = self.role.filter() {
            registry.retain(|tool| filter.keeps(tool));
        }
        if self.coordinates() {
            registry.retain(|tool| crate::conversation::coordinator::has(tool.name()));
        }
        registry
    }

    /// The tier of the sandbox that commands run in.
    pub(crate) fn sandbox_tier(&self) -> Option<&'static str> {
        let on = self.permissions.snapshot().sandbox.bash_sandboxed;
        let sandbox = self.tools.programs.sandbox.as_ref().filter(|_| on)?;
        Some(sandbox.tier().name())
    }

    /// The facts that a face gets at the start of a turn.
    pub(crate) fn session_init(&self, model: &str) -> SessionInit {
        SessionInit {
            cwd: self.tools.working_folder.read().display().to_string(),
            tools: self
                .offered_tools()
                .names()
                // Hosts know the tool by its older name.
                .map(|name| {
                    if name == lathe_tools::agent::NAME {
                        lathe_tools::agent::ALIAS
                    } else {
                        name
                    }
                })
                .map(str::to_owned)
                .collect(),
            agents: self
                .session
                .agents
                .catalog()
                .iter()
                .map(|agent| agent.name.clone())
                .collect(),
            mcp_servers: self.session.mcp_servers.read().clone(),
            model: model.to_owned(),
            permission_mode: self.permissions.mode(),
            slash_commands: self.command_names(),
            skills: self.skill_names(),
            output_style: self.integrations.extensions.style_name(),
            plugins: self.session.plugins.loaded().frames(),
            plugin_errors: self.session.plugins.loaded().error_frames(),
            sandbox: self.sandbox_tier().map(str::to_owned),
            ..self.session.init.clone()
        }
    }

    /// Puts a prompt into the queue and wakes the conversation.
    pub(crate) fn enqueue(&self, prompt: Prompt) {
        self.inbox.queue.lock().push_back(prompt);
        self.inbox.wake.notify_one();
    }

    /// The model knows how a task ended: what waits to tell it isn't needed.
    pub(crate) fn forget_notices(&self, task: &str) {
        self.inbox.queue.lock().retain(|prompt| {
            !(notice::is_notification(prompt) && notice::tasks_of(prompt) == [task])
        });
    }

    /// A notification is in the conversation now.
    pub(crate) fn noted(&self, prompt: &Prompt) {
        if crate::session::schedule::is_fire(prompt) {
            self.session.schedule.accepted(prompt.uuid);
        }
        crate::agents::team::read(self, prompt);
        if !notice::is_notification(prompt) {
            return;
        }
        for task in notice::tasks_of(prompt) {
            if let Some(entry) = self.session.agents.find(&task) {
                entry.set_known(true);
                self.session.agents.keep(&entry);
            }
        }
    }

    /// Whether this conversation is limited to directing workers.
    pub(crate) fn coordinates(&self) -> bool {
        matches!(self.role, Role::Main { .. }) && self.state.coordination.on.load(Ordering::Relaxed)
    }

    /// The scratch folder of the session in coordinator mode; workers ask for it too.
    pub(crate) fn scratch(self: &Arc<Self>) -> Option<PathBuf> {
        self.root().coordinates().then(|| self.scratch_folder())
    }

    pub(super) fn scratch_folder(&self) -> PathBuf {
        self.session.agents.paths.session_folder().join("scratch")
    }

    /// The main conversation.
    pub(crate) fn root(self: &Arc<Self>) -> Arc<Self> {
        self.role
            .place()
            .and_then(|place| place.root.upgrade())
            .unwrap_or_else(|| self.clone())
    }

    pub(crate) fn depth(&self) -> u32 {
        self.role.place().map_or(0, |place| place.depth)
    }

    /// Something else than our tools changed files.
    pub(crate) fn changed_on_disk(&self, paths: &[PathBuf]) {
        if !paths.is_empty() {
            self.integrations.language.servers.changed_on_disk(paths);
        }
    }

    /// Where the parts of a prompt go that are too large to show.
    pub(crate) fn place_of_prompt(&self) -> ResultStore {
        let limit = self.tools.environment.get(Variable::MaxMcpOutputTokens);
        let name = format!("prompt-{}", RequestId::random());
        ResultStore::new(&self.tools.results_folder, &name, limit)
    }

    /// Stops a background task: an agent or a command.
    pub(crate) async fn stop_task(&self, id: &str) -> Result<(), TaskError> {
        if let Some(agent) = self.session.agents.find(id) {
            if !agent.is_running() {
                return Err(TaskError::NotRunning(id.to_owned()));
            }
            agent.cancel.cancel();
            agent.over().await;
            return Ok(());
        }
        let background = self.tools.shell.background();
        background.stop(id).await?;
        Ok(())
    }

    pub(crate) fn commands(&self) -> CommandRegistry {
        CommandRegistry::new(
            &self.integrations.extensions.skills(),
            &self.prompt_commands(),
        )
    }

    fn prompt_commands(&self) -> Vec<Command> {
        self.integrations
            .mcp
            .prompts()
            .iter()
            .map(crate::session::commands::of_server)
            .collect()
    }

    /// The names of commands that work without a terminal.
    pub(crate) fn command_names(&self) -> Vec<String> {
        let skills = self.integrations.extensions.skills();
        CommandRegistry::names_without_terminal(&skills, &self.prompt_commands())
    }
}

/// A running turn, as the session actor sees it.
pub(crate) struct RunningTurn {
    /// The record of the prompt.
    pub(crate) prompt: RecordId,
    pub(crate) cancel: CancellationToken,
    /// Rung when the user typed something meanwhile.
    pub(crate) steered: Notify,
}

impl RunningTurn {
    pub(crate) fn new(prompt: RecordId) -> Self {
        Self {
            prompt,
            cancel: CancellationToken::new(),
            steered: Notify::new(),
        }
    }
}
