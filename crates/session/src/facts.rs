//! Title, settings and cost of a session: the newest value of each fact.

use lathe_protocol::record::{Fact, Record, WaitingPrompt};
use serde_json::Value;

/// The newest value of each fact of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// The title that the user gave.
    pub custom_title: Option<String>,
    /// The title that a model made.
    pub ai_title: Option<String>,
    /// The tag.
    pub tag: Option<String>,
    /// The last prompt.
    pub last_prompt: Option<String>,
    /// A summary.
    pub summary: Option<String>,
    /// The permission mode.
    pub mode: Option<String>,
    /// Usage and cost totals.
    pub cost: Option<Value>,
    /// The task list.
    pub todos: Option<Value>,
    /// The model that was chosen last, and the effort with it.
    pub model_choice: Option<(String, Option<String>)>,
    /// The system prompt that was kept since the last compaction.
    pub system_prompt: Option<Value>,
    /// The worktree that the session is in; `null` if it left one.
    pub worktree: Option<Value>,
    /// The goal of the session; `null` if it ended.
    pub goal: Option<Value>,
    /// Whether coordinator mode is on.
    pub coordinator: Option<bool>,
    /// Where the session was moved to, if it was.
    pub moved: Option<String>,
    /// The prompts that still wait to be accepted.
    pub waiting: Option<Vec<WaitingPrompt>>,
}

impl Facts {
    /// Takes in a record that is later than those before.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Fact(fact) => self.apply_fact(fact),
            Record::Message(message) => {
                if let Some(mode) = &message.permission_mode {
                    self.mode = Some(mode.clone());
                }
                if message.is_compact_summary {
                    self.system_prompt = None;
                }
                if let Some(waiting) = &mut self.waiting {
                    waiting.retain(|prompt| prompt.uuid != message.uuid);
                }
            }
            Record::Other(_) => {}
        }
    }

    fn apply_fact(&mut self, fact: &Fact) {
        let named = |text: &String| (!text.is_empty()).then(|| text.clone());
        match fact {
            Fact::CustomTitle { custom_title, .. } => self.custom_title = named(custom_title),
            Fact::AiTitle { ai_title, .. } => self.ai_title = named(ai_title),
            Fact::Tag { tag, .. } => self.tag = named(tag),
            Fact::LastPrompt { last_prompt, .. } => self.last_prompt = named(last_prompt),
            Fact::Summary { summary, .. } => self.summary = named(summary),
            Fact::Mode { mode, .. } => self.mode = Some(mode.clone()),
            Fact::Cost { totals, .. } => self.cost = Some(totals.clone()),
            Fact::TodoList { todos, .. } => self.todos = Some(todos.clone()),
            Fact::ModelChoice { model, effort, .. } => {
                self.model_choice = Some((model.clone(), effort.clone()));
            }
            Fact::SystemPrompt { system, .. } => self.system_prompt = Some(system.clone()),
            Fact::WorktreeState {
                worktree_session, ..
            } => self.worktree = Some(worktree_session.clone()),
            Fact::Goal { goal, .. } => self.goal = Some(goal.clone()),
            Fact::Coordinator { on, .. } => self.coordinator = Some(*on),
            Fact::Moved { to, .. } => self.moved = Some(to.clone()),
            Fact::WaitingPrompts { prompts, .. } => self.waiting = Some(prompts.clone()),
            Fact::FileHistorySnapshot { .. }
            | Fact::Replacement { .. }
            | Fact::Roots { .. }
            | Fact::MediaDropped { .. }
            | Fact::Label { .. }
            | Fact::Pinned { .. }
            | Fact::Rewound { .. } => {}
        }
    }

    /// Fills what is unknown from facts that are older.
    pub(crate) fn fill_from(&mut self, older: Facts) {
        let Facts {
            custom_title,
            ai_title,
            tag,
            last_prompt,
            summary,
            mode,
            cost,
            todos,
            model_choice,
            worktree,
            goal,
            coordinator,
            moved,
            waiting,
            // What is older than the part that was read is older than a compaction.
            system_prompt: _,
        } = older;
        self.custom_title = self.custom_title.take().or(custom_title);
        self.ai_title = self.ai_title.take().or(ai_title);
        self.tag = self.tag.take().or(tag);
        self.last_prompt = self.last_prompt.take().or(last_prompt);
        self.summary = self.summary.take().or(summary);
        self.mode = self.mode.take().or(mode);
        self.cost = self.cost.take().or(cost);
        self.todos = self.todos.take().or(todos);
        self.model_choice = self.model_choice.take().or(model_choice);
        self.worktree = self.worktree.take().or(worktree);
        self.goal = self.goal.take().or(goal);
        self.coordinator = self.coordinator.or(coordinator);
        self.moved = self.moved.take().or(moved);
        self.waiting = self.waiting.take().or(waiting);
    }

    /// The title, if it has one: the user's, else the model's.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.custom_title.as_deref().or(self.ai_title.as_deref())
    }
}

/// Facts that the end of a long file must repeat, since readers look at its two ends only. Gives a
/// number for each kind; `None` for facts that matter where they stand.
pub(crate) fn repeated_kind(record: &Record) -> Option<u8> {
    let Record::Fact(fact) = record else {
        return None;
    };
    match fact {
        Fact::CustomTitle { .. } => Some(0),
        Fact::AiTitle { .. } => Some(1),
        Fact::Tag { .. } => Some(2),
        Fact::LastPrompt { .. } => Some(3),
        Fact::Mode { .. } => Some(4),
        Fact::Cost { .. } => Some(5),
        Fact::TodoList { .. } => Some(6),
        Fact::ModelChoice { .. } => Some(7),
        Fact::WorktreeState { .. } => Some(8),
        Fact::Goal { .. } => Some(9),
        Fact::Moved { .. } => Some(10),
        Fact::Coordinator { .. } => Some(11),
        Fact::WaitingPrompts { .. } => Some(12),
        Fact::Summary { .. }
        | Fact::FileHistorySnapshot { .. }
        | Fact::Replacement { .. }
        | Fact::MediaDropped { .. }
        | Fact::Label { .. }
        | Fact::Pinned { .. }
        | Fact::SystemPrompt { .. }
        | Fact::Roots { .. }
        | Fact::Rewound { .. } => None,
    }
}
