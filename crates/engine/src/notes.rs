//! Session notes: a running account of the conversation, kept beside the turns.
//!
//! After a turn, when enough was said and done since, the model is asked (with the same prefix, so
//! mostly from the cache) to bring the notes up to date. They are written to `notes.md` in the
//! session's folder. When the window fills up and the notes are recent, they take the place of the
//! older history: no summary has to be waited for, and the newest messages stay word for word.
//!
//! It is background work: one update at a time, bounded in time, cancelled when the session ends,
//! counted as a side query, and off unless it was asked for.

use crate::background::{bound_answer, note_side_usage};
use crate::compaction::CompactionError;
use crate::context::summary::with_directive;
use crate::core::Core;
use crate::decide::OutputCap;
use futures::StreamExt as _;
use lathe_model::{Delivery, MessageAssembler, ModelRequest, RecoveryPolicy};
use lathe_protocol::ids::RecordId;
use lathe_protocol::message::AssistantMessage;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Tokens of conversation before notes are begun.
const FIRST_AFTER: u64 = 10_000;
/// Tokens that must have come since the last update.
const AGAIN_AFTER: u64 = 5_000;
/// Calls that must have been made since the last update.
const CALLS: u32 = 3;
/// How long an update may take.
const LIMIT: Duration = Duration::from_secs(180);
/// Tokens that notes may have.
const MOST_TOKENS: u32 = 4_000;
/// What stays word for word beside notes: at least this many tokens and messages with words, and at
/// most so many tokens.
pub(crate) const KEEP_TOKENS: u64 = 10_000;
pub(crate) const KEEP_MESSAGES: usize = 5;
pub(crate) const KEEP_AT_MOST: u64 = 40_000;

/// The notes of a session.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    enabled: AtomicBool,
    state: Mutex<State>,
    idle: Notify,
    pub(crate) cancel: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    text: String,
    /// The last record that the notes know of.
    checkpoint: Option<RecordId>,
    /// Tokens of the conversation at that time.
    tokens: u64,
    running: bool,
}

impl Notes {
    /// The notes so far; `None` where there are none. They stay when a compaction has used them.
    pub(crate) fn text(&self) -> Option<String> {
        let state = self.state.lock();
        (!state.text.is_empty()).then(|| state.text.clone())
    }

    /// Waits until no update runs.
    pub(crate) async fn settled(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if !self.state.lock().running {
                return;
            }
            idle.await;
        }
    }

    /// Switches them on or off.
    pub(crate) fn enable(&self, on: bool) {
        self.enabled.store(on, Ordering::Relaxed);
    }

    /// The notes and how far they go; `None` while there are none.
    pub(crate) fn current(&self) -> Option<(String, RecordId)> {
        let state = self.state.lock();
        let checkpoint = state.checkpoint?;
        (!state.text.is_empty()).then(|| (state.text.clone(), checkpoint))
    }

    /// The conversation has a new beginning.
    pub(crate) fn start_again(&self) {
        let mut state = self.state.lock();
        state.checkpoint = None;
        state.tokens = 0;
    }
}

impl Core {
    /// Starts an update if one is due.
    pub(crate) fn update_notes(&mut self) {
        let notes = self.shared.notes.clone();
        if !notes.enabled.load(Ordering::Relaxed)
            || self.context.calls_since_notes < CALLS
            || !self.may_spend()
        {
            return;
        }
        let tokens = self.message_tokens();
        let Some(tip) = self.tip else { return };
        let before = {
            let mut state = notes.state.lock();
            let due = if state.checkpoint.is_none() {
                tokens >= FIRST_AFTER
            } else {
                tokens >= state.tokens + AGAIN_AFTER
            };
            if state.running || !due {
                return;
            }
            state.running = true;
            state.text.clone()
        };
        self.context.calls_since_notes = 0;
        let mut request = self.request(OutputCap::Small);
        bound_answer(&mut request, MOST_TOKENS);
        let known = if before.is_empty() { "(none)" } else { &before };
        let directive = format!("{}{known}", include_str!("../prompts/notes.md"));
        request.messages = with_directive(&request.messages.to_vec(), 0, &directive);
        let shared = self.shared.clone();
        let policy = self.recovery_policy();
        let paths = lathe_session::SessionPaths::of_transcript(self.transcript.path());
        self.shared.background.spawn(async move {
            let asked = ask(&shared, request, policy, &notes.cancel);
            let answer = tokio::time::timeout(LIMIT, asked).await.ok().flatten();
            let mut written = None;
            if let Some((text, header)) = answer {
                note_side_usage(&shared, &header);
                if !text.trim().is_empty() {
                    written = Some(text);
                }
            }
            if let Some(text) = &written {
                let folder = paths.session_folder();
                let kept = lathe_session::paths::create_private_folder(&folder).and_then(|()| {
                    lathe_session::paths::write_private_file(&paths.notes(), text.as_bytes())
                });
                if let Err(error) = kept {
                    tracing::warn!(%error, "the session's notes can't be written");
                }
            }
            let mut state = notes.state.lock();
            state.running = false;
            if let Some(text) = written {
                state.text = text;
                state.checkpoint = Some(tip);
                state.tokens = tokens;
            }
            drop(state);
            notes.idle.notify_waiters();
        });
    }

    /// Puts recent notes in the place of older history. Gives whether it did.
    pub(crate) async fn compact_to_notes(&mut self, cancel: &CancellationToken) -> bool {
        let Some((text, checkpoint)) = self.shared.notes.current() else {
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
