//! Restoring a conversation from its transcript.

use super::options::OpenError;
use crate::call::tool_search;
use crate::context::KeptPrompt;
use crate::conversation::Conversation;
use crate::session::ledger::{Ledger, Totals};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::ids::RecordId;
use lathe_protocol::record::{Record, RecordMessage};
use lathe_session::Loaded;

/// What a session used before.
pub(super) fn kept_totals(history: Option<&Loaded>) -> Option<Totals> {
    serde_json::from_value(history?.facts.cost.clone()?).ok()
}

/// Takes a history up.
pub(super) fn restore(
    conversation: &mut Conversation,
    history: &Loaded,
    resume_at: Option<RecordId>,
    remarks: &mut Vec<String>,
) -> Result<(), OpenError> {
    let chain = match resume_at {
        Some(record) => history.chain_to(record)?,
        None => history.chain(),
    };
    for record in &chain {
        conversation.history.push(record);
        if let Record::Message(message) = &**record {
            conversation.context.meter.replay(message);
            conversation.shared.integrations.extensions.replay(message);
            if let Some(RecordMessage::Assistant(message)) = &message.message {
                for call in message.content.iter().filter_map(ContentBlock::as_tool_use) {
                    tool_search::note_used_tool(conversation, &call.name);
                }
            }
        }
    }
    conversation.tip = chain.iter().rev().find_map(|record| match &**record {
        Record::Message(message) if !message.is_sidechain => Some(message.uuid),
        _ => None,
    });
    if conversation.context.kept_prompt == KeptPrompt::Wanted
        && let Some(system) = &history.facts.system_prompt
    {
        conversation.fixed.system = system.to_string().into();
        conversation.context.kept_prompt = KeptPrompt::Kept;
    }
    if history.facts.title().is_some() {
        conversation.context.title_wanted = false;
    }
    if let Some(totals) = kept_totals(Some(history)) {
        *conversation.shared.spending.totals.lock() = totals.clone();
        conversation.ledger = Ledger::resume(totals);
    }
    if let Some(todos) = &history.facts.todos
        && let Ok(todos) = serde_json::from_value(todos.clone())
    {
        *conversation.shared.tools.todos.lock() = todos;
    }
    if !history.damaged.is_empty() {
        remarks.push(format!(
            "{} damaged line(s) of the transcript {} were skipped",
            history.damaged.len(),
            history.path.display()
        ));
    }
    Ok(())
}
