//! Asks the model to bring the session's notes up to date, and puts notes in the place of older history.
//! When notes are due and what they say is [`lathe_memory::notes`].

use crate::background::{bound_answer, note_side_usage};
use crate::compaction::CompactionError;
use crate::context::summary::with_directive;
use crate::core::Core;
use crate::decide::OutputCap;
use futures::StreamExt as _;
use lathe_memory::notes::MOST_TOKENS;
use lathe_model::{Delivery, MessageAssembler, ModelRequest, RecoveryPolicy};
use lathe_protocol::message::AssistantMessage;
use std::sync::Arc;
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

impl Core {
    /// Starts an update if one is due.
    pub(crate) fn update_notes(&mut self) {
        let notes = self.shared.notes.clone();
        if !notes.kept.may_be_due(self.context.calls_since_notes) || !self.may_spend() {
            return;
        }
        let tokens = self.message_tokens();
        let Some(tip) = self.tip else { return };
        let Some(directive) = notes.kept.begin(tokens) else {
            return;
        };
        self.context.calls_since_notes = 0;
        let mut request = self.request(OutputCap::Small);
        bound_answer(&mut request, MOST_TOKENS);
        request.messages = with_directive(&request.messages.to_vec(), 0, &directive);
        let shared = self.shared.clone();
        let policy = self.recovery_policy();
        let paths = lathe_session::SessionPaths::of_transcript(self.transcript.path());
        self.shared.background.spawn(async move {
            let update = notes.kept.update(tip, tokens);
            let asked = ask(&shared, request, policy, &notes.cancel);
            let answer = tokio::time::timeout(LIMIT, asked).await.ok().flatten();
            if let Some((text, header)) = answer {
                note_side_usage(&shared, &header);
                update.finish(text, &paths);
            }
        });
    }

    /// Puts recent notes in the place of older history. Gives whether it did.
    pub(crate) async fn compact_to_notes(&mut self, cancel: &CancellationToken) -> bool {
        let Some((text, checkpoint)) = self.shared.notes.kept.current() else {
            return false;
        };
        match self.compact_with_notes(checkpoint, text, cancel).await {
            Ok(()) => true,
            Err(CompactionError::Prevented(_)) => false,
            Err(error) => {
                tracing::info!(%error, "the notes can't stand in for the history");
                false
            }
        }
    }
}

/// One question beside the conversation: the answer's words, and its header with the usage.
pub(crate) async fn ask(
    shared: &Arc<crate::core::Shared>,
    request: ModelRequest,
    policy: RecoveryPolicy,
    cancel: &CancellationToken,
) -> Option<(String, AssistantMessage)> {
    let mut deliveries = lathe_model::run(shared.provider.clone(), request, policy, cancel.clone());
    let mut assembler = MessageAssembler::default();
    while let Some(delivery) = deliveries.next().await {
        match delivery.ok()? {
            Delivery::Event(event) => {
                assembler.feed(&event.event).ok()?;
            }
            Delivery::Retracted { .. } | Delivery::FellBack { .. } => {
                assembler = MessageAssembler::default();
            }
            Delivery::Requesting { .. } | Delivery::Retrying { .. } => {}
        }
    }
    let header = assembler.header()?.clone();
    Some((assembler.text(), header))
}
