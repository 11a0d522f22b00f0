//! Asks the model, after a turn, to bring documents up to date. Which documents, what is asked and how
//! they are written is [`lathe_memory::magic_docs`].

use crate::context::summary::with_directive;
use crate::conversation::Conversation;
use crate::session::background;
use crate::session::background::note_side_usage;
use crate::session::ledger::Part;
use crate::turn::decide::OutputCap;
use crate::turn::frozen;
use lathe_model::ask::complete;
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_protocol::ids::RecordId;
use std::path::PathBuf;
use std::time::Duration;

/// How long an update may take.
const LIMIT: Duration = Duration::from_secs(180);

/// The documents that a session keeps current, and the update that runs.
#[derive(Debug, Default)]
pub(crate) struct MagicDocs {
    pub(crate) kept: lathe_memory::magic_docs::MagicDocs,
    running: Option<tokio::task::AbortHandle>,
}

/// A call is done; if it showed such a document, that is known from now on.
pub(crate) fn note_documents(conversation: &mut Conversation, tool: &str, paths: &[PathBuf]) {
    conversation
        .context
        .upkeep
        .magic_docs
        .kept
        .note_call(tool, paths);
}

/// Starts an update of the known documents, if something was done since the last one.
pub(crate) fn update_documents(conversation: &mut Conversation, turn: RecordId) {
    let may_spend = background::may_spend(conversation);
    let documents = &mut conversation.context.upkeep.magic_docs;
    let busy = documents
        .running
        .as_ref()
        .is_some_and(|running| !running.is_finished());
    if !documents.kept.is_due() || busy || !may_spend {
        return;
    }
    let shared = conversation.shared.clone();
    let updates = documents.kept.begin(&shared.permissions.snapshot());
    let updates: Vec<_> = updates
        .into_iter()
        .map(|update| {
            let mut request = conversation.request(OutputCap::Large);
            let messages = request.messages.to_vec();
            request.messages = with_directive(&messages, 0, &update.directive);
            (update, request)
        })
        .collect();
    let policy = conversation.recovery_policy(&frozen::choices(conversation));
    let cancel = shared.state.notes.cancel.clone();
    let background = shared.session.background.clone();
    let task = background.spawn(async move {
        for (update, request) in updates {
            let provider = shared.session.provider.clone();
            let asked = complete(provider, request, policy.clone(), &cancel);
            let Ok(Ok(answer)) = tokio::time::timeout(LIMIT, asked).await else {
                continue;
            };
            note_side_usage(&shared, Part::Side, &answer.header);
            let Some(text) = update.new_text(&answer.text) else {
                continue;
            };
            let shown = shared.tools.shown(&update.path);
            // Keeping the old content for undo blocks.
            let to = shared.clone();
            let written = lathe_spawn::blocking(move || update.write(&to.tools, &text, turn));
            match written.await {
                Ok(Ok(())) => shared.events.news(
                    News::new(Priority::Low),
                    NoticeLevel::Info,
                    format!("{shown} was updated."),
                ),
                Ok(Err(error)) => tracing::info!(%error, "a document was not updated"),
                Err(error) => tracing::error!(%error, "updating a document failed"),
            }
        }
    });
    conversation.context.upkeep.magic_docs.running = Some(task);
}
