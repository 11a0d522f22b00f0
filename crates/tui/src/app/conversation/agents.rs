//! The work of agents: what each said and did, and what it is writing now.

use super::Conversation;
use crate::render::cell::{self, Cell, Fold};
use crate::render::markdown::{self, Look};
use crate::render::style::Line;
use lathe_protocol::record::MessageRecord;
use lathe_protocol::stream::StreamEvent;
use std::path::Path;

/// The work of one agent, kept as a conversation that is not printed.
pub(crate) struct AgentWork {
    conversation: Box<Conversation>,
    /// How often its finished part changed.
    version: u64,
}

impl AgentWork {
    pub(super) fn new(cwd: &Path) -> Self {
        let mut conversation = Conversation::new(cwd);
        conversation.quiet = true;
        Self {
            conversation: Box::new(conversation),
            version: 0,
        }
    }

    /// A message of the agent, or a result that it got.
    pub(super) fn record(&mut self, record: &MessageRecord, look: Look<'_>) {
        self.version += 1;
        if record.is_prompt() && !record.is_meta {
            if let Some(message) = &record.message {
                self.conversation.cells.push(Cell::User(message.text()));
            }
        } else {
            self.conversation.agent_message(record, look);
        }
        self.conversation.out.clear();
    }

    /// A piece of the answer that the agent is writing.
    pub(super) fn stream(&mut self, event: &StreamEvent, look: Look<'_>) {
        self.conversation.stream(event, look);
        // Nothing of it is printed; the whole text is rendered where it is shown.
        self.conversation.out.clear();
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Messages and calls.
    pub(crate) fn cells(&self) -> &[Cell] {
        &self.conversation.cells
    }

    /// The messages and calls as rows of a width.
    pub(crate) fn lines(&self, look: Look<'_>, fold: Fold) -> Vec<Line> {
        let mut out = Vec::new();
        for (index, cell) in self.cells().iter().enumerate() {
            let calls = |cell: &Cell| matches!(cell, Cell::Call(_) | Cell::Run(_));
            let before = index.checked_sub(1).and_then(|at| self.cells().get(at));
            if before.is_some_and(|before| !(calls(before) && calls(cell))) {
                out.push(Line::empty());
            }
            for line in cell::lines(cell, look, fold, self.conversation.cwd()) {
                out.extend(crate::render::text::wrap(&line, look.columns, 0));
            }
        }
        out
    }

    /// The answer that is being written, as far as it has come.
    pub(crate) fn writing(&self, look: Look<'_>) -> Vec<Line> {
        let Some(text) = self.conversation.written() else {
            return self
                .conversation
                .activity()
                .map(|doing| Line::styled(format!("{doing}…"), look.theme.muted))
                .into_iter()
                .collect();
        };
        let inner = Look {
            columns: look.columns.saturating_sub(2).max(8),
            ..look
        };
        markdown::render(text, inner)
            .into_iter()
            .enumerate()
            .map(|(index, line)| cell::bullet(line, look.theme.accent, index == 0))
            .collect()
    }
}
