//! The session as the terminal shows it: model, mode, the running turn, background work, context, cost.

use crate::app::queue::Typed;
use crate::app::spending::Spending;
use lathe_engine::SessionOptions;
use lathe_protocol::event::{EditorView, SessionState, TurnResult};
use lathe_protocol::permission::PermissionMode;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// The running turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) began: Option<Instant>,
    pub(crate) retry: Option<Retry>,
    pub(crate) compacting: bool,
    pub(crate) interrupting: bool,
    /// The prompt that began the turn, until there is an answer to it.
    pub(crate) unanswered: Option<Typed>,
}

impl Turn {
    /// Notes that a turn runs, if that is not known yet.
    pub(crate) fn begin(&mut self) {
        self.began.get_or_insert_with(Instant::now);
    }
}

/// A failed request that is about to be repeated.
#[derive(Debug, Clone)]
pub(crate) struct Retry {
    pub(crate) until: Instant,
    pub(crate) attempt: u32,
    pub(crate) max: u32,
    pub(crate) error: String,
}

/// How much of the context window is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextLeft {
    pub(crate) percent: u64,
    /// Whether to warn about it.
    pub(crate) is_little: bool,
}

/// An agent at work, as far as its progress is known.
#[derive(Debug, Clone)]
pub(crate) struct RunningAgent {
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) last_tool: Option<String>,
    pub(crate) tokens: u64,
    pub(crate) calls: u64,
    /// Dollars.
    pub(crate) cost: f64,
    /// Its type.
    pub(crate) kind: String,
    /// The agent that started it.
    pub(crate) parent: Option<String>,
    pub(crate) began: Instant,
    /// The color that its definition gives it.
    pub(crate) color: Option<String>,
}

/// A shell command that the user runs.
pub(crate) struct ShellRun {
    pub(crate) began: Instant,
    pub(crate) command: String,
    pub(crate) tail: String,
    pub(crate) cancel: tokio_util::sync::CancellationToken,
}

/// The session as it is shown.
pub(crate) struct SessionStatus {
    pub(crate) state: SessionState,
    pub(crate) mode: PermissionMode,
    pub(crate) model: String,
    /// The title that was given to it, as far as it is known.
    pub(crate) title: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) turn: Turn,
    pub(crate) last_result: Option<Arc<TurnResult>>,
    /// `None` while nearly all of the window is free.
    pub(crate) context_left: Option<ContextLeft>,
    pub(crate) agents: Vec<RunningAgent>,
    /// Ids of the commands that run in the background.
    pub(crate) background_commands: BTreeSet<String>,
    pub(crate) spending: Spending,
    pub(crate) shell_run: Option<ShellRun>,
    /// Hooks that run.
    pub(crate) hooks: Vec<RunningHook>,
    /// The editor beside the terminal, and what it shows.
    pub(crate) editor: Option<EditorView>,
}

/// A hook that runs.
#[derive(Debug, Clone)]
pub(crate) struct RunningHook {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The text shown while it runs: its `statusMessage`, else its command.
    pub(crate) display: String,
    pub(crate) event: String,
    pub(crate) began: Instant,
}

impl SessionStatus {
    /// Forgets what belonged to the session that is being replaced. Model, mode and branch stay until the
    /// next one is open.
    pub(crate) fn forget_session(&mut self) {
        self.turn = Turn {
            compacting: self.turn.compacting,
            interrupting: self.turn.interrupting,
            ..Turn::default()
        };
        self.last_result = None;
        self.title = None;
        self.spending = Spending::default();
        self.agents.clear();
        self.background_commands.clear();
        self.hooks.clear();
        self.editor = None;
    }

    pub(crate) fn new(options: &SessionOptions) -> Self {
        Self {
            state: SessionState::Idle,
            mode: options.permissions.mode.unwrap_or_default(),
            model: options.model.name.clone().unwrap_or_default(),
            title: options.history.title.clone(),
            branch: None,
            turn: Turn::default(),
            last_result: None,
            context_left: None,
            agents: Vec::new(),
            background_commands: BTreeSet::new(),
            spending: Spending::default(),
            shell_run: None,
            hooks: Vec::new(),
            editor: None,
        }
    }
}

impl SessionStatus {
    /// Whether something runs beside the conversation that ends with the program.
    pub(crate) fn works_in_background(&self) -> bool {
        !self.agents.is_empty() || !self.background_commands.is_empty()
    }

    /// Whether a turn runs.
    pub(crate) fn busy(&self) -> bool {
        self.turn.began.is_some()
    }

    /// An agent is at work; in the tree it keeps its place.
    pub(crate) fn agent_started(&mut self, id: String, description: String) {
        if !self.agents.iter().any(|agent| agent.id == id) {
            self.agents.push(RunningAgent {
                id,
                description,
                last_tool: None,
                tokens: 0,
                calls: 0,
                cost: 0.0,
                kind: String::new(),
                parent: None,
                began: Instant::now(),
                color: None,
            });
        }
    }

    pub(crate) fn agent_mut(&mut self, id: &str) -> Option<&mut RunningAgent> {
        self.agents.iter_mut().find(|agent| agent.id == id)
    }
}
