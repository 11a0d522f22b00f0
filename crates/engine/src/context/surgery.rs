//! Editing the context: results that the user drops, condenses, brings back, or keeps over compactions.
//!
//! An edit is a fact of the transcript at once, so a resumed session has it; the conversation takes it in before
//! its next request. All edits since the last request break the provider's cache once.

use crate::conversation::{Conversation, ConversationShared};
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::record::{Fact, Record};

/// The words in the place of a result that the user dropped.
pub const DROPPED: &str = "[The user removed this result from the context. Make the call again if it is needed and does no harm.]";

/// How the text of a condensed result begins.
pub const CONDENSED: &str = "[The user had this result condensed. A summary of it:]\n";

/// Puts another text in the place of a result, from the next request on.
pub(crate) fn replace(shared: &ConversationShared, id: ToolUseId, text: String) {
    edit(
        shared,
        Fact::Replacement {
            tool_use_id: id,
            replacement: text,
            session_id: shared.session.id,
        },
    );
}

/// Keeps a result over compactions, or no longer.
pub(crate) fn pin(shared: &ConversationShared, id: ToolUseId, pinned: bool) {
    edit(
        shared,
        Fact::Pinned {
            tool_use_id: id,
            pinned,
            session_id: shared.session.id,
        },
    );
}

fn edit(shared: &ConversationShared, fact: Fact) {
    let record = Record::Fact(fact);
    shared.transcript.append(record.clone());
    shared.state.surgery.lock().push(record);
}

/// Takes in the edits since the last request.
pub(crate) fn apply(conversation: &mut Conversation) {
    let edits = std::mem::take(&mut *conversation.shared.state.surgery.lock());
    let replaces = |record: &Record| matches!(record, Record::Fact(Fact::Replacement { .. }));
    if !edits.iter().any(replaces) {
        edits
            .iter()
            .for_each(|edit| conversation.history.push(edit));
        return;
    }
    let before = conversation.history.estimated_bytes();
    for edit in &edits {
        conversation.history.push(edit);
    }
    let freed = before.saturating_sub(conversation.history.estimated_bytes());
    conversation.context.meter.take_out(freed as u64 / 4);
    conversation.context.prefix.expect("the context was edited");
    // A file that is read again must be shown again.
    conversation.shared.tools.file_cache.forget_answers();
}
