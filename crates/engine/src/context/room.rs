//! Making room before the window is full.
//!
//! Before each model call the conversation is measured. Near the limit, the cheap way is tried first
//! (old results), then the summary. A compaction that frees too little, or fails, is counted; after
//! [`MOST_FAILURES`] in a row nothing is tried any more and the person is told: this never loops.

use crate::context::Windows;
use crate::context::compaction::CompactionError;
use crate::context::micro;
use crate::conversation::{Conversation, RunningTurn};
use lathe_model::{ModelError, ModelRequest};
use lathe_protocol::event::{Event, NoticeLevel};
use std::time::Duration;

/// Compactions without progress in a row before automatic compaction is switched off.
pub(crate) const MOST_FAILURES: u32 = 3;
/// Refused counts in a row before the provider isn't asked any more.
const MOST_COUNT_FAILURES: u32 = 2;
/// How long a count may take; the guess is good enough otherwise.
const COUNT_LIMIT: Duration = Duration::from_secs(5);
/// What an image counts where nobody looked at it.
const TOKENS_PER_IMAGE: u64 = 1_600;
/// Guesses below this don't change a decision.
const GUESSES_THAT_MATTER: u64 = 2_000;

impl Conversation {
    /// The limits of the present model.
    pub(crate) fn windows(&self) -> Windows {
        Windows::of(&self.shared.session.catalog.resolve(&self.model).info)
    }

    /// A guess for what stands before the messages.
    pub(crate) fn fixed_tokens(&mut self) -> u64 {
        let tools = self.encoded_tools();
        let sizes = self.context.sizes(&self.fixed.system, &tools);
        sizes.system + sizes.tools
    }

    /// Tokens of the next request, as far as is known.
    pub(crate) fn context_tokens(&mut self) -> u64 {
        let fixed = self.fixed_tokens();
        self.context.meter.tokens(fixed)
    }

    /// A guess for the conversation alone.
    pub(crate) fn message_tokens(&self) -> u64 {
        let text = self.history.estimated_bytes() as u64 / 4;
        text + self.history.media_blocks() as u64 * TOKENS_PER_IMAGE
    }

    /// Makes room if the next request needs it.
    pub(crate) async fn make_room(&mut self, turn: &RunningTurn) {
        if !self.fixed.limits.auto_compact {
            return;
        }
        let windows = self.windows();
        let limit = windows.compact_at();
        let mut tokens = self.context_tokens();
        if tokens < windows.warn_at() {
            self.context.warned = false;
            return;
        }
        if tokens + self.context.meter.guessed() / 4 >= limit {
            tokens = self.counted_tokens().await.unwrap_or(tokens);
        }
        if tokens < limit {
            if !self.context.warned {
                self.context.warned = true;
                self.shared.events.notice(
                    NoticeLevel::Info,
                    format!(
                        "The conversation fills {} % of the model's window; it is compacted at {} %.",
                        percent(tokens, windows.window),
                        percent(limit, windows.window),
                    ),
                );
            }
            return;
        }
        if self.context.failures >= MOST_FAILURES {
            return;
        }
        let fixed = self.fixed_tokens();
        if fixed >= limit {
            if !self.context.told_no_room {
                self.context.told_no_room = true;
                self.shared.events.notice(
                    NoticeLevel::Warning,
                    format!(
                        "The system prompt and the tools alone take about {fixed} tokens, and the model {} has a window of {}. Compaction can't help: offer fewer tools (--tools), shorten the instruction files, or choose another model.",
                        self.model, windows.window
                    ),
                );
            }
            return;
        }
        let freed = self.clear_old_results(micro::LEAST_GAIN.min(windows.window / 10));
        if freed > 0 {
            tracing::info!(freed, "old results were cleared");
            if self.context_tokens() < limit {
                return;
            }
        }
        if self.compact_to_notes(&turn.cancel).await {
            self.note_compaction(&Ok(()));
            return;
        }
        if let Err(error) = self.compact("auto", None, &turn.cancel).await
            && !matches!(error, CompactionError::Model(ModelError::Cancelled))
        {
            self.shared.events.send(Event::CompactionFailed {
                reason: error.to_string(),
            });
        }
    }

    /// Counts what an automatic compaction came to.
    pub(crate) fn note_compaction(&mut self, outcome: &Result<(), CompactionError>) {
        match outcome {
            Ok(()) => {
                self.context.failures = 0;
                self.context.warned = false;
            }
            Err(CompactionError::Model(ModelError::Cancelled)) => {}
            Err(_) => {
                self.context.failures += 1;
                if self.context.failures == MOST_FAILURES {
                    self.shared.events.notice(
                        NoticeLevel::Warning,
                        format!(
                            "Compaction made no progress {MOST_FAILURES} times in a row, so it is not tried by itself any more in this session. Run /compact with instructions, rewind, or start a new session."
                        ),
                    );
                }
            }
        }
    }

    /// The provider's own count, where guesses matter and it gives one.
    async fn counted_tokens(&mut self) -> Option<u64> {
        if self.context.meter.guessed() < GUESSES_THAT_MATTER
            || self.context.count_failures >= MOST_COUNT_FAILURES
        {
            return None;
        }
        let request: ModelRequest = self.request(crate::turn::decide::OutputCap::Small);
        let counting = self.shared.session.provider.count_tokens(&request);
        match tokio::time::timeout(COUNT_LIMIT, counting).await {
            Ok(Ok(tokens)) if tokens > 0 => {
                self.context.count_failures = 0;
                self.context.meter.counted(tokens);
                Some(tokens)
            }
            _ => {
                self.context.count_failures += 1;
                None
            }
        }
    }
}

/// A share in percent, rounded down.
fn percent(part: u64, whole: u64) -> u64 {
    (part * 100).checked_div(whole).unwrap_or(100)
}
