//! Asks the model, after a turn, whether later sessions should know something of it. When to ask, what
//! to ask and what becomes of the answer is [`lathe_memory::extraction`].

use crate::context::room;
use crate::context::summary::with_directive;
use crate::conversation::{Conversation, ConversationShared};
use crate::session::background;
use crate::session::background::{bound_answer, note_side_usage};
use crate::session::ledger::Part;
use crate::turn::decide::OutputCap;
use crate::turn::frozen;
use lathe_memory::AutoMemory;
use lathe_memory::extraction::{Extractor, MOST_TOKENS, apply, directive};
use lathe_model::ask::complete;
use lathe_protocol::event::{News, NoticeLevel, Priority};
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::AbortHandle;

/// How long a look may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Looking for memories: when, and whether a look runs.
#[derive(Debug, Default)]
pub(crate) struct Extracting {
    pub(crate) extractor: Extractor,
    running: Option<AbortHandle>,
}

/// A call is done; what the model remembers by itself needs no second look.
pub(crate) fn note_remembered(conversation: &mut Conversation, tool: &str, paths: &[PathBuf]) {
    let shared = &conversation.shared;
    let extractor = &mut conversation.context.upkeep.extracting.extractor;
    extractor.note_call(tool, paths, || memory_of(shared));
}

/// Looks for something worth remembering, if enough was said since the last look.
pub(crate) fn extract_memory(conversation: &mut Conversation) {
    let tokens = room::message_tokens(conversation);
    let may_spend = background::may_spend(conversation);
    let extracting = &mut conversation.context.upkeep.extracting;
    let busy = extracting
        .running
        .as_ref()
        .is_some_and(|running| !running.is_finished());
    extracting.extractor.note_size(tokens);
    if busy || !may_spend || !extracting.extractor.is_due(tokens) {
        return;
    }
    let mode = extracting.extractor.mode;
    let memory = memory_of(&conversation.shared);
    let Some(directive) = directive(&memory) else {
        return;
    };
    let mut request = conversation.request(OutputCap::Small);
    bound_answer(&mut request, MOST_TOKENS);
    request.messages = with_directive(&request.messages.to_vec(), 0, &directive);
    let policy = conversation.recovery_policy(&frozen::choices(conversation));
    let shared = conversation.shared.clone();
    let cancel = shared.state.notes.cancel.clone();
    let work = async move {
        let provider = shared.session.provider.clone();
        let asked = complete(provider, request, policy, &cancel);
        let Ok(Ok(answer)) = tokio::time::timeout(LIMIT, asked).await else {
            return;
        };
        note_side_usage(&shared, Part::Side, &answer.header);
        if let Some(text) = apply(&memory, mode, &answer.text) {
            shared.events.news(
                News::of("memory", Priority::Medium),
                NoticeLevel::Info,
                text,
            );
        }
    };
    conversation.context.upkeep.extracting.running =
        Some(conversation.shared.session.background.spawn(work));
}

fn memory_of(shared: &ConversationShared) -> AutoMemory {
    let places = &shared.session.settings.loader.places;
    AutoMemory::of(&places.config_home, &places.project)
}
