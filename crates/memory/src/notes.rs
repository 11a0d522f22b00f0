//! Session notes: a running account of the conversation, kept beside the turns.
//!
//! After a turn, when enough was said and done since, the model is asked (with the same prefix, so
//! mostly from the cache) to bring the notes up to date. They are written to `notes.md` in the
//! session's folder. When the window fills up and the notes are recent, they take the place of the
//! older history: no summary has to be waited for, and the newest messages stay word for word.
//!
//! It is background work: one update at a time, bounded in time, cancelled when the session ends,
//! counted as a side query, and off unless it was asked for.

use lathe_protocol::ids::RecordId;
use lathe_session::SessionPaths;
use lathe_session::paths::{create_private_folder, write_private_file};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// Tokens of conversation before notes are begun.
const FIRST_AFTER: u64 = 10_000;
/// Tokens that must have come since the last update.
const AGAIN_AFTER: u64 = 5_000;
/// Calls that must have been made since the last update.
const CALLS: u32 = 3;
/// Tokens that notes may have.
pub const MOST_TOKENS: u32 = 4_000;
/// The part of the history that is kept verbatim beside notes: at least this many tokens ...
pub const KEEP_TOKENS: u64 = 10_000;
/// ... and this many messages with words ...
pub const KEEP_MESSAGES: usize = 5;
/// ... and at most this many tokens.
pub const KEEP_AT_MOST: u64 = 40_000;

/// The notes of a session.
#[derive(Debug, Default)]
pub struct Notes {
    enabled: AtomicBool,
    state: Mutex<State>,
    idle: Notify,
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

/// An update that has begun. Dropping it without [`Update::finish`] ends it without a result.
#[derive(Debug)]
pub struct Update<'a> {
    notes: &'a Notes,
    tip: RecordId,
    tokens: u64,
    text: Option<String>,
}

impl Notes {
    /// Switches them on or off.
    pub fn enable(&self, on: bool) {
        self.enabled.store(on, Ordering::Relaxed);
    }

    /// Continues with the notes of a session that is resumed: the next update adds to them.
    pub fn resume(&self, text: String) {
        self.state.lock().text = text;
    }

    /// The notes, if there are any. They stay when a compaction has used them.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let state = self.state.lock();
        (!state.text.is_empty()).then(|| state.text.clone())
    }

    /// The notes and how far they go; `None` while there are none.
    #[must_use]
    pub fn current(&self) -> Option<(String, RecordId)> {
        let state = self.state.lock();
        let checkpoint = state.checkpoint?;
        (!state.text.is_empty()).then(|| (state.text.clone(), checkpoint))
    }

    /// The conversation has a new beginning.
    pub fn start_again(&self) {
        let mut state = self.state.lock();
        state.checkpoint = None;
        state.tokens = 0;
    }

    /// Whether they are on and enough calls were made since the last update.
    #[must_use]
    pub fn may_be_due(&self, calls: u32) -> bool {
        self.enabled.load(Ordering::Relaxed) && calls >= CALLS
    }

    /// Begins an update if one is due for a conversation of this many tokens. Gives what the model is
    /// asked. [`Notes::update`] must follow.
    #[must_use]
    pub fn begin(&self, tokens: u64) -> Option<String> {
        let mut state = self.state.lock();
        let due = if state.checkpoint.is_none() {
            tokens >= FIRST_AFTER
        } else {
            tokens >= state.tokens + AGAIN_AFTER
        };
        if state.running || !due {
            return None;
        }
        state.running = true;
        let known = if state.text.is_empty() {
            "(none)"
        } else {
            &state.text
        };
        Some(format!("{}{known}", include_str!("../prompts/notes.md")))
    }

    /// The update that [`Notes::begin`] began, for a conversation that ends at `tip`.
    #[must_use]
    pub fn update(&self, tip: RecordId, tokens: u64) -> Update<'_> {
        Update {
            notes: self,
            tip,
            tokens,
            text: None,
        }
    }

    /// Waits until no update runs.
    pub async fn settled(&self) {
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
}

impl Update<'_> {
    /// Ends the update with the model's answer, which is written to the session's folder.
    pub fn finish(mut self, text: String, paths: &SessionPaths) {
        if text.trim().is_empty() {
            return;
        }
        let kept = create_private_folder(&paths.session_folder())
            .and_then(|()| write_private_file(&paths.notes(), text.as_bytes()));
        if let Err(error) = kept {
            tracing::warn!(%error, "the session's notes can't be written");
        }
        self.text = Some(text);
    }
}

impl Drop for Update<'_> {
    fn drop(&mut self) {
        let mut state = self.notes.state.lock();
        state.running = false;
        if let Some(text) = self.text.take() {
            state.text = text;
            state.checkpoint = Some(self.tip);
            state.tokens = self.tokens;
        }
        drop(state);
        self.notes.idle.notify_waiters();
    }
}
