//! The displayed form of an answer, where `MessageDisplay` hooks put it in other words.
//!
//! Whole messages and results have the hooks' words in every face. The pieces of an answer are kept from faces that
//! draw them for the user ([`EventStream::for_people`]); a host that asks for them gets the stream as it comes. The
//! transcript and the model have the model's own words.
//!
//! [`EventStream::for_people`]: crate::session::events::EventStream::for_people

use crate::conversation::{ConversationShared, Role, RunningTurn};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::record::{MessageRecord, RecordMessage};
use lathe_protocol::stream::{Delta, StreamEvent};
use std::sync::Arc;

/// Whether a piece of the stream is not shown as it comes, because a hook has a say in it first.
pub(super) fn is_withheld(shared: &ConversationShared, event: &StreamEvent) -> bool {
    let is_words = match event {
        StreamEvent::ContentBlockStart { content_block, .. } => {
            matches!(content_block, ContentBlock::Text(_))
        }
        StreamEvent::ContentBlockDelta { delta, .. } => matches!(delta, Delta::TextDelta { .. }),
        _ => false,
    };
    is_words && is_for_hooks(shared)
}

/// Whether the user sees of an answer only what hooks have seen before.
pub(super) fn is_for_hooks(shared: &ConversationShared) -> bool {
    matches!(shared.role, Role::Main { .. })
        && shared.events.shows_people()
        && shared.hooks.wants_display()
}

/// The text of an answer.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    /// As the model wrote it.
    pub(crate) said: String,
    /// As it is shown.
    pub(crate) shown: String,
}

impl Words {
    /// The texts of several blocks, a line each.
    pub(super) fn of_blocks(blocks: &[Self]) -> Self {
        let joined = |part: fn(&Self) -> &str| {
            let parts: Vec<&str> = blocks.iter().map(part).collect();
            parts.join("\n")
        };
        Self {
            said: joined(|words| &words.said),
            shown: joined(|words| &words.shown),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Adds what follows it.
    pub(super) fn push(&mut self, between: &str, next: &Self) {
        for (text, next) in [(&mut self.said, &next.said), (&mut self.shown, &next.shown)] {
            text.push_str(between);
            text.push_str(next);
        }
    }
}

/// The displayed form of a block; nothing where a hook hides it.
pub(super) async fn of_block(
    shared: &ConversationShared,
    turn: &RunningTurn,
    record: &MessageRecord,
) -> Option<Arc<MessageRecord>> {
    let mut shown = record.clone();
    if let (Role::Main { .. }, Some(RecordMessage::Assistant(message))) =
        (&shared.role, &mut shown.message)
        && let Some(ContentBlock::Text(block)) = message.content.first_mut()
    {
        let words = shared
            .hooks
            .message_display(turn.prompt, record.uuid, &block.text, &turn.cancel)
            .await;
        if let Some(words) = words {
            if words.trim().is_empty() {
                return None;
            }
            block.text = words;
        }
    }
    Some(Arc::new(shown))
}
