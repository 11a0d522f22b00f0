//! Asks the model to bring the session's notes up to date, and puts notes in the place of older history.
//! When notes are due and what they say is [`lathe_memory::notes`].

use crate::context::compaction;
use crate::context::compaction::CompactionError;
use crate::context::room;
use crate::context::summary::with_directive;
use crate::conversation::Conversation;
use crate::session::background;
use crate::session::background::{bound_answer, note_side_usage};
use crate::session::ledger::Part;
use crate::turn::decide::OutputCap;
use crate::turn::frozen;
use lathe_memory::notes::MOST_TOKENS;
use lathe_model::ask::complete;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long an update may take.
const LIMIT: Duration = Duration::from_secs(180);

/// The notes of a session, and what cancels the work beside its turns.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) kept: lathe_memory::notes::Notes,
    pub(crate) cancel: CancellationToken,
}

/// Starts an update if one is due.
pub(crate) fn update_notes(conversation: &mut Conversation) {
    let notes = conversation.shared.state.notes.clone();
    if !notes
        .kept
        .may_be_due(conversation.context.upkeep.calls_since_notes)
        || !background::may_spend(conversation)
    {
        return;
    }
    let tokens = room::message_tokens(conversation);
    let Some(tip) = conversation.tip else { return };
    let Some(directive) = notes.kept.begin(tokens) else {
        return;
    };
    conversation.context.upkeep.calls_since_notes = 0;
    let mut request = conversation.request(OutputCap::Small);
    bound_answer(&mut request, MOST_TOKENS);
    request.messages = with_directive(&request.messages.to_vec(), 0, &directive);
    let shared = conversation.shared.clone();
    let policy = conversation.recovery_policy(&frozen::choices(conversation));
    let paths = lathe_session::SessionPaths::of_transcript(conversation.transcript.path());
    conversation.shared.session.background.spawn(async move {
        let update = notes.kept.update(tip, tokens);
        let provider = shared.session.provider.clone();
        let asked = complete(provider, request, policy, &notes.cancel);
        if let Ok(Ok(answer)) = tokio::time::timeout(LIMIT, asked).await {
            note_side_usage(&shared, Part::Side, &answer.header);
            update.finish(answer.text, &paths);
        }
    });
}

/// Puts recent notes in the place of older history. Gives whether it did.
pub(crate) async fn compact_to_notes(
    conversation: &mut Conversation,
    cancel: &CancellationToken,
) -> bool {
    let Some((text, checkpoint)) = conversation.shared.state.notes.kept.current() else {
        return false;
    };
    match compaction::compact_with_notes(conversation, checkpoint, text, cancel).await {
        Ok(()) => true,
        Err(CompactionError::Prevented(_)) => false,
        Err(error) => {
            tracing::info!(%error, "the notes can't replace the history");
            false
        }
    }
}
