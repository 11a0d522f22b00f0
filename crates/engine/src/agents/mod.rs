//! Sub-agents: conversations that the model starts, each with the same engine and a context of its own.
//!
//! - [`Agents`] knows every agent of a session: how it is doing, what it said, how to end it. It is
//!   shared by all conversations of the session, the only thing they share but files.
//! - `host` is the part that tools see; `order` starts an agent, `message` reaches one or wakes it.
//! - `start` builds an agent's conversation: model, tools (`filter`), permissions, prompt, folder
//!   (`worktree`), history (`fork`, or its own transcript when it is woken).
//! - `run` runs it to its end, whatever happens, and says how it ended (`notice`).
//! - `restore` finds the agents of a session that is resumed.
//!
//! Every agent ends as completed, failed or killed. A panic in one is its failure. Limits: agents start
//! agents three deep, sixteen live at once, and all spend the session's budget.

mod disk;
mod filter;
pub(crate) mod fork;
mod host;
pub(crate) mod mention;
pub(crate) mod message;
pub(crate) mod monitor;
pub(crate) mod notice;
mod order;
pub(crate) mod restore;
mod run;
pub(crate) mod start;
pub(crate) mod team;
mod web_search;
mod workflow;

pub(crate) use filter::{FORBIDDEN, ToolFilter};
pub(crate) use fork::ForkPoint;
pub(crate) use host::Host;
pub(crate) use order::preloaded;
pub(crate) use start::narrow;
pub use team::own::MemberSeat;
pub(crate) use workflow::{REMOTE, WORKFLOW, WorkflowAgents};

use crate::context::prompt::PromptParts;
use crate::conversation::ConversationShared;
use crate::turn::decide::Limits;
use crate::workflow::Elsewhere;
use crate::worktree::WorktreeError;
use lathe_extensions::{AgentCatalog, AgentDefinition};
use lathe_model::{CacheMarkers, RecoveryPolicy};
use lathe_protocol::event::TaskUsage;
use lathe_protocol::ids::{AgentId, RecordId, TaskId, ToolUseId};
use lathe_protocol::usage::Usage;
use lathe_session::{SessionPaths, WriterOptions};
use lathe_tools::ToolError;
use lathe_tools::host::{AgentStatus, AgentTask};
use parking_lot::{Mutex, RwLock};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How deep agents may start agents: the main conversation is 0.
pub(crate) const MOST_DEPTH: u32 = 3;
/// How many agents may work at once.
pub(crate) const MOST_LIVE: usize = 16;
/// How much of an agent's purpose a note about it has.
const MOST_PURPOSE: usize = 1_536;
/// How long agents may take to end with their session.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Why an agent can't be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error(
        "{MOST_LIVE} agents are running already, which is the limit. Wait for one to finish (you get a notification), or stop one with TaskStop."
    )]
    TooMany,
    #[error("Agent {0} is already being resumed.")]
    Waking(AgentId),
    #[error("The agent's transcript can't be written: {0}.")]
    Transcript(#[from] lathe_session::SessionError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
}

impl From<AgentError> for ToolError {
    fn from(error: AgentError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<WorktreeError> for ToolError {
    fn from(error: WorktreeError) -> Self {
        AgentError::from(error).into()
    }
}

/// Which agent a conversation is.
pub(crate) struct AgentPlace {
    pub(crate) id: AgentId,
    pub(crate) depth: u32,
    /// The types that it may start; `None` is all.
    pub(crate) types: Option<Vec<String>>,
    /// The turn of the main conversation that its changes belong to, for undo.
    pub(crate) turn: RecordId,
    /// Its reminder, repeated with every request.
    pub(crate) reminder: Option<String>,
    /// The main conversation.
    pub(crate) root: Weak<ConversationShared>,
    /// Its entry.
    pub(crate) entry: Arc<AgentEntry>,
}

/// The configuration that agents of a conversation start with.
#[derive(Clone)]
pub(crate) struct Seed {
    pub(crate) prompt: PromptParts,
    pub(crate) limits: Limits,
    pub(crate) policy: RecoveryPolicy,
    pub(crate) betas: Vec<String>,
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) extra: serde_json::Map<String, serde_json::Value>,
    pub(crate) cache: CacheMarkers,
    pub(crate) git_branch: String,
}

/// The agents of a session.
pub(crate) struct Agents {
    entries: Mutex<Vec<Arc<AgentEntry>>>,
    catalog: RwLock<Arc<AgentCatalog>>,
    /// The definitions that the main conversation's model knows of.
    told: Mutex<Arc<AgentCatalog>>,
    /// Agents of an earlier run whose end goes to the model with the next prompt.
    untold: Mutex<Vec<Arc<AgentEntry>>>,
    pub(crate) paths: SessionPaths,
    /// How their transcripts are written; `None` writes none.
    pub(crate) writer: Option<WriterOptions>,
    /// Ends them all with the session.
    pub(crate) cancel: CancellationToken,
    tracker: TaskTracker,
    /// Set when the session ends: no notifications are sent any more.
    ending: AtomicBool,
    /// How long the end of the session waits for those in the background; zero is for ever, `None` not
    /// at all.
    patience: Mutex<Option<Duration>>,
    /// Where agents of workflows run that are not to run here.
    pub(crate) elsewhere: Option<Elsewhere>,
}

impl Agents {
    pub(crate) fn new(
        catalog: Arc<AgentCatalog>,
        paths: SessionPaths,
        writer: Option<WriterOptions>,
    ) -> Self {
        Self {
            entries: Mutex::default(),
            catalog: RwLock::new(catalog.clone()),
            told: Mutex::new(catalog),
            untold: Mutex::default(),
            paths,
            writer,
            cancel: CancellationToken::new(),
            tracker: TaskTracker::new(),
            ending: AtomicBool::new(false),
            patience: Mutex::default(),
            elsewhere: None,
        }
    }

    /// The end of the session waits for those in the background, at most this long; zero is for ever.
    pub(crate) fn wait_at_end(&self, limit: Duration) {
        *self.patience.lock() = Some(limit);
    }

    /// How long the end of the session waits.
    pub(crate) fn patience(&self) -> Option<Duration> {
        *self.patience.lock()
    }

    pub(crate) fn catalog(&self) -> Arc<AgentCatalog> {
        self.catalog.read().clone()
    }

    pub(crate) fn set_catalog(&self, catalog: Arc<AgentCatalog>) {
        *self.catalog.write() = catalog;
    }

    /// Changes of the agents since the model got the list, for the end of the conversation: the
    /// description of the Agent tool stays as it is, so that the cached prefix does.
    pub(crate) fn news(&self, types: Option<&[String]>) -> Option<String> {
        let now = self.catalog();
        let before = std::mem::replace(&mut *self.told.lock(), now.clone());
        if Arc::ptr_eq(&before, &now) {
            return None;
        }
        changes(&listed(&before, types, false), &listed(&now, types, false))
    }

    /// The model reads a new description now, so there is nothing to tell beside it.
    pub(crate) fn described(&self) -> Arc<AgentCatalog> {
        let now = self.catalog();
        *self.told.lock() = now.clone();
        now
    }

    /// The model got the agents of the earlier run.
    pub(crate) fn told_of_earlier(&self) {
        for entry in std::mem::take(&mut *self.untold.lock()) {
            entry.set_known(true);
            self.keep(&entry);
        }
    }

    /// The agent of an id or a name; of several with one name the newest.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<AgentEntry>> {
        let entries = self.entries.lock();
        entries
            .iter()
            .find(|entry| entry.id.as_str() == id)
            .or_else(|| {
                entries
                    .iter()
                    .rev()
                    .find(|entry| entry.name.as_deref() == Some(id))
            })
            .cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<AgentEntry>> {
        self.entries.lock().clone()
    }

    /// Takes a new agent in, if there is room for one more.
    fn admit(&self, entry: Arc<AgentEntry>) -> Result<(), AgentError> {
        let mut entries = self.entries.lock();
        Self::room(&entries)?;
        entries.push(entry);
        Ok(())
    }

    fn room(entries: &[Arc<AgentEntry>]) -> Result<(), AgentError> {
        let live = entries.iter().filter(|entry| entry.takes_place()).count();
        if live >= MOST_LIVE {
            return Err(AgentError::TooMany);
        }
        Ok(())
    }

    /// Puts an agent that is woken in the place of what it was.
    fn replace(&self, old: &Arc<AgentEntry>, new: Arc<AgentEntry>) -> Result<(), AgentError> {
        let mut entries = self.entries.lock();
        Self::room(&entries)?;
        match entries.iter_mut().find(|entry| Arc::ptr_eq(entry, old)) {
            Some(place) => {
                *place = new;
                Ok(())
            }
            None => Err(AgentError::Waking(old.id.clone())),
        }
    }

    /// Takes that back: it could not be woken.
    fn put_back(&self, new: &Arc<AgentEntry>, old: Arc<AgentEntry>) {
        let mut entries = self.entries.lock();
        if let Some(place) = entries.iter_mut().find(|entry| Arc::ptr_eq(entry, new)) {
            *place = old;
        }
    }

    /// Takes an agent of an earlier run of the session in.
    fn remember(&self, entry: Arc<AgentEntry>) {
        self.entries.lock().push(entry);
    }

    /// Whether an agent is running whose end the main conversation gets.
    pub(crate) fn owes_an_end(&self) -> bool {
        self.entries
            .lock()
            .iter()
            .any(|entry| entry.is_running() && entry.is_background())
    }

    /// Ends every agent that works. Returns how many.
    pub(crate) fn kill_all(&self) -> usize {
        let mut count = 0;
        for entry in self.entries.lock().iter() {
            // One that is ending already, by itself or by someone's word, is not stopped by this one.
            if entry.is_running() && !entry.cancel.is_cancelled() {
                entry.cancel.cancel();
                count += 1;
            }
        }
        count
    }

    /// Ends all of them with the session, and waits until they are gone.
    pub(crate) async fn shut_down(&self) {
        self.ending.store(true, Ordering::Relaxed);
        self.cancel.cancel();
        self.kill_all();
        self.tracker.close();
        if tokio::time::timeout(END_LIMIT, self.tracker.wait())
            .await
            .is_err()
        {
            tracing::warn!("an agent didn't end with its session");
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
}

/// One agent.
pub(crate) struct AgentEntry {
    pub(crate) id: AgentId,
    pub(crate) name: Option<String>,
    pub(crate) agent_type: String,
    pub(crate) description: String,
    pub(crate) prompt: String,
    pub(crate) tool_use_id: Option<ToolUseId>,
    /// The agent that started it; `None` is the main conversation.
    pub(crate) parent: Option<AgentId>,
    pub(crate) output_file: PathBuf,
    pub(crate) cancel: CancellationToken,
    background: AtomicBool,
    /// Whether the model knows how it ended.
    known: AtomicBool,
    state: Mutex<State>,
    /// Whether it is over.
    over: watch::Sender<bool>,
    read: Mutex<u64>,
    /// Whether a run of a workflow starts no agents for now.
    pub(crate) paused: watch::Sender<bool>,
}

/// The changing state of an agent.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) status: AgentStatus,
    pub(crate) result: String,
    pub(crate) usage: TaskUsage,
    /// Dollars that it has cost in this run of the session.
    pub(crate) cost_usd: f64,
    /// The tokens of its requests by kind.
    pub(crate) tokens: Usage,
    pub(crate) last_tool: Option<String>,
    pub(crate) worktree_note: Option<String>,
    pub(crate) worktree: Option<PathBuf>,
    /// Whether it works in a worktree, also when that was removed because nothing was in it.
    pub(crate) isolated: bool,
    pub(crate) model: String,
    /// The record of the main transcript that a fork continues from.
    pub(crate) forked_from: Option<RecordId>,
    /// The phase of the workflow that it belongs to.
    pub(crate) phase: Option<String>,
    /// The schema that its answer must fit, and the answer.
    pub(crate) schema: Option<serde_json::Value>,
    pub(crate) structured: Option<serde_json::Value>,
    /// The permission mode of a member of a team, where it has its own.
    pub(crate) mode: Option<lathe_protocol::permission::PermissionMode>,
    /// The turn of the main conversation that its changes belong to; `None` until it worked in this process.
    pub(crate) turn: Option<RecordId>,
    started: Instant,
    /// The calls that it made, so that what they left running ends with it.
    pub(crate) calls: HashSet<ToolUseId>,
    /// Its conversation while it works, for messages.
    pub(crate) conversation: Weak<ConversationShared>,
}

/// The facts of a new agent.
pub(crate) struct NewAgent {
    pub(crate) id: AgentId,
    pub(crate) name: Option<String>,
    pub(crate) agent_type: String,
    pub(crate) description: String,
    pub(crate) prompt: String,
    pub(crate) tool_use_id: Option<ToolUseId>,
    pub(crate) parent: Option<AgentId>,
    pub(crate) output_file: PathBuf,
    pub(crate) background: bool,
    pub(crate) cancel: CancellationToken,
    pub(crate) status: AgentStatus,
}

impl AgentEntry {
    pub(crate) fn new(new: NewAgent) -> Arc<Self> {
        let running = new.status == AgentStatus::Running;
        Arc::new(Self {
            id: new.id,
            name: new.name,
            agent_type: new.agent_type,
            description: new.description,
            prompt: new.prompt,
            tool_use_id: new.tool_use_id,
            parent: new.parent,
            output_file: new.output_file,
            cancel: new.cancel,
            background: AtomicBool::new(new.background),
            known: AtomicBool::new(false),
            state: Mutex::new(State {
                status: new.status,
                result: String::new(),
                usage: TaskUsage::default(),
                cost_usd: 0.0,
                tokens: Usage::default(),
                last_tool: None,
                worktree_note: None,
                worktree: None,
                isolated: false,
                model: String::new(),
                forked_from: None,
                phase: None,
                schema: None,
                structured: None,
                mode: None,
                turn: None,
                started: Instant::now(),
                calls: HashSet::new(),
                conversation: Weak::new(),
            }),
            over: watch::Sender::new(!running),
            read: Mutex::new(0),
            paused: watch::Sender::new(false),
        })
    }

    pub(crate) fn task_id(&self) -> TaskId {
        TaskId(self.id.0.clone())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state.lock().status == AgentStatus::Running
    }

    /// Whether it is one of the agents that work at once here. A run of a workflow only waits for some.
    pub(crate) fn takes_place(&self) -> bool {
        self.is_running() && self.agent_type != WORKFLOW && self.agent_type != REMOTE
    }

    pub(crate) fn is_background(&self) -> bool {
        self.background.load(Ordering::Relaxed)
    }

    pub(crate) fn set_background(&self) {
        self.background.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    pub(crate) fn set_known(&self, known: bool) {
        self.known.store(known, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
    }

    /// Its usage until now.
    pub(crate) fn usage(&self) -> TaskUsage {
        let state = self.state.lock();
        let mut usage = state.usage;
        if state.status == AgentStatus::Running {
            usage.duration_ms =
                u64::try_from(state.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        }
        usage
    }

    /// Waits until it is over.
    pub(crate) async fn over(&self) {
        let mut over = self.over.subscribe();
        // The sender lives as long as this entry.
        let _ = over.wait_for(|over| *over).await;
    }

    /// As tools and faces see it.
    pub(crate) fn view(&self) -> AgentTask {
        let usage = self.usage();
        let state = self.state.lock();
        AgentTask {
            id: self.task_id(),
            name: self.name.clone(),
            agent_type: self.agent_type.clone(),
            description: self.description.clone(),
            prompt: self.prompt.clone(),
            status: state.status,
            background: self.is_background(),
            result: state.result.clone(),
            usage,
            output_file: self.output_file.clone(),
            worktree: state.worktree_note.clone(),
            last_tool: state.last_tool.clone(),
            tool_use_id: self.tool_use_id.clone(),
            parent: self.parent.as_ref().map(|parent| TaskId(parent.0.clone())),
            phase: state.phase.clone(),
            structured: state.structured.clone(),
            cost_usd: state.cost_usd,
            model: state.model.clone(),
            tokens: state.tokens.clone(),
        }
    }

    /// The part of its output that was written since the last call.
    fn new_output(&self) -> String {
        use std::io::{Read as _, Seek as _, SeekFrom};
        const MOST: u64 = 30_000;
        let mut read = self.read.lock();
        let Ok(mut file) = std::fs::File::open(&self.output_file) else {
            return String::new();
        };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let from = (*read).max(length.saturating_sub(MOST));
        *read = length;
        let mut bytes = Vec::new();
        if file.seek(SeekFrom::Start(from)).is_err()
            || file.take(length - from).read_to_end(&mut bytes).is_err()
        {
            return String::new();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The agents in the list for the model: the definitions that an agent may start, with the fork.
pub(crate) fn listed(
    catalog: &AgentCatalog,
    types: Option<&[String]>,
    with_fork: bool,
) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> = catalog
        .iter()
        .filter(|definition| is_listed(definition, types))
        .map(|definition| (definition.name.clone(), purpose(definition)))
        .collect();
    if with_fork && types.is_none_or(|types| types.iter().any(|name| name == "fork")) {
        list.push((
            "fork".to_owned(),
            "A copy of yourself with this whole conversation.".to_owned(),
        ));
    }
    list
}

/// How two lists of agents differ, in words.
fn changes(before: &[(String, String)], now: &[(String, String)]) -> Option<String> {
    let mut text = String::new();
    let mut add = |head: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(head);
            text.push_str(&lines.concat());
        }
    };
    let line = |(name, purpose): &(String, String)| {
        let purpose: String = purpose.chars().take(MOST_PURPOSE).collect();
        format!("\n- {name}: {}", purpose.replace('\n', " "))
    };
    let new = now.iter().filter(|agent| !before.contains(agent));
    add(
        "Types of agents that are new or changed since the Agent tool was described:",
        new.map(line).collect(),
    );
    let gone = before
        .iter()
        .filter(|(name, _)| !now.iter().any(|(other, _)| other == name));
    add(
        "Removed types of agents:",
        gone.map(|(name, _)| format!("\n- {name}")).collect(),
    );
    (!text.is_empty()).then_some(text)
}

fn is_listed(definition: &AgentDefinition, types: Option<&[String]>) -> bool {
    types.is_none_or(|types| types.contains(&definition.name))
}

/// The purpose and the tools of an agent, in a line.
fn purpose(definition: &AgentDefinition) -> String {
    match &definition.tools {
        Some(tools) => format!("{} (Tools: {})", definition.description, tools.join(", ")),
        None => definition.description.clone(),
    }
}
