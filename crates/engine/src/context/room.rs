//! Making room before the window is full.
//!
//! Before each model call the conversation is measured. Near the limit, the cheap way is tried first
//! (old results), then the summary. A compaction that fails, or after which the provider still counts a
//! full window, made no progress; after [`MOST_FAILURES`] of them in a row nothing is tried any more and the
//! person gets a warning: this never loops.

use crate::context::Windows;
use crate::context::compaction;
use crate::context::compaction::CompactionError;
use crate::context::micro;
use crate::conversation::notes;
use crate::conversation::{Conversation, RunningTurn};
use lathe_model::{ModelError, ModelRequest};
use lathe_protocol::content::Content;
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::event::{Event, News, NoticeLevel, Priority};
use lathe_protocol::message::Role;
use std::time::Duration;

/// Compactions without progress in a row before automatic compaction is disabled.
pub(crate) const MOST_FAILURES: u32 = 3;
/// Refused counts in a row before the provider isn't asked any more.
const MOST_COUNT_FAILURES: u32 = 2;
/// How long a count may take; the guess is good enough otherwise.
const COUNT_LIMIT: Duration = Duration::from_secs(5);
/// The tokens of an image whose size is not known.
const TOKENS_PER_IMAGE: u64 = 1_600;
/// Guesses below this don't change a decision.
const GUESSES_THAT_MATTER: u64 = 2_000;

/// The limits of the present model.
pub(crate) fn windows(conversation: &Conversation) -> Windows {
    let catalog = &conversation.shared.session.catalog;
    Windows::of(&catalog.resolve(&conversation.model).info).limited(catalog.compaction)
}

/// The window of the present model itself, whatever is said about compaction.
pub(crate) fn window_of_model(conversation: &Conversation) -> u64 {
    let catalog = &conversation.shared.session.catalog;
    catalog.resolve(&conversation.model).info.context_window
}

/// A guess for what stands before the messages.
pub(crate) fn fixed_tokens(conversation: &mut Conversation) -> u64 {
    let tools = conversation.encoded_tools();
    let sizes = conversation
        .context
        .sizes(&conversation.fixed.system, &tools);
    sizes.system + sizes.tools
}

/// Tokens of the next request, as far as is known.
pub(crate) fn context_tokens(conversation: &mut Conversation) -> u64 {
    let fixed = fixed_tokens(conversation);
    conversation.context.meter.tokens(fixed)
}

/// A guess for the conversation alone.
pub(crate) fn message_tokens(conversation: &Conversation) -> u64 {
    let text = conversation.history.estimated_bytes() as u64 / 4;
    text + conversation.history.media_blocks() as u64 * TOKENS_PER_IMAGE
}

/// Makes room if the next request needs it.
pub(crate) async fn make_room(conversation: &mut Conversation, turn: &RunningTurn) {
    if !conversation.fixed.limits.auto_compact {
        return;
    }
    let windows = windows(conversation);
    let limit = windows.compact_at();
    let mut tokens = context_tokens(conversation);
    if tokens < windows.warn_at() {
        conversation.context.room.warned = false;
        return;
    }
    if tokens + conversation.context.meter.guessed() / 4 >= limit {
        tokens = counted_tokens(conversation).await.unwrap_or(tokens);
    }
    if tokens < limit {
        if !conversation.context.room.warned {
            conversation.context.room.warned = true;
            conversation.shared.events.news(
                News::of("context", Priority::High),
                NoticeLevel::Info,
                format!(
                    "The conversation fills {} % of the model's window; it will be compacted at {} %.",
                    percent(tokens, windows.window),
                    percent(limit, windows.window),
                ),
            );
        }
        return;
    }
    if conversation.context.room.failures >= MOST_FAILURES {
        return;
    }
    let fixed = fixed_tokens(conversation);
    if fixed >= limit {
        if !conversation.context.room.told_no_room {
            conversation.context.room.told_no_room = true;
            conversation.shared.events.notice(
                NoticeLevel::Warning,
                format!(
                    "The system prompt and the tools alone take about {fixed} tokens, and the model {} has a window of {}. Compaction can't help: offer fewer tools (--tools), shorten the instruction files, or choose another model.",
                    conversation.model, windows.window
                ),
            );
        }
        return;
    }
    let freed = micro::clear_old_results(conversation, micro::LEAST_GAIN.min(windows.window / 10));
    if freed > 0 {
        tracing::info!(freed, "old results were cleared");
        if context_tokens(conversation) < limit {
            return;
        }
    }
    if notes::compact_to_notes(conversation, &turn.cancel).await {
        note_compaction(conversation, &Ok(()));
        return;
    }
    if let Err(error) = compaction::compact(conversation, "auto", None, &turn.cancel).await
        && !matches!(error, CompactionError::Model(ModelError::Cancelled))
    {
        conversation.shared.events.send(Event::CompactionFailed {
            reason: error.to_string(),
        });
    }
}

/// Counts what an automatic compaction came to.
pub(crate) fn note_compaction(
    conversation: &mut Conversation,
    outcome: &Result<(), CompactionError>,
) {
    match outcome {
        Ok(()) => {
            conversation.context.room.unproven = true;
            conversation.context.room.warned = false;
        }
        Err(CompactionError::Model(ModelError::Cancelled)) => {}
        Err(_) => note_failure(conversation),
    }
}

/// Judges the last compaction by what the provider counted, or refused, since: a guess may be wrong about
/// its progress, and then every request would get a summary of its own.
pub(crate) fn judge_compaction(conversation: &mut Conversation, counted: Option<u64>) {
    if !std::mem::take(&mut conversation.context.room.unproven) {
        return;
    }
    let limit = windows(conversation).compact_at();
    if counted.is_some_and(|counted| counted < limit) {
        conversation.context.room.failures = 0;
    } else {
        note_failure(conversation);
    }
}

fn note_failure(conversation: &mut Conversation) {
    conversation.context.room.failures += 1;
    if conversation.context.room.failures == MOST_FAILURES {
        conversation.shared.events.notice(
            NoticeLevel::Warning,
            format!(
                "Compaction made no progress {MOST_FAILURES} times in a row, so automatic compaction is off for this session. Run /compact with instructions, rewind, or start a new session."
            ),
        );
    }
}

/// The provider's own count, where guesses matter and it gives one.
async fn counted_tokens(conversation: &mut Conversation) -> Option<u64> {
    if conversation.context.meter.guessed() < GUESSES_THAT_MATTER
        || conversation.context.room.count_failures >= MOST_COUNT_FAILURES
    {
        return None;
    }
    let request: ModelRequest = conversation.request(crate::turn::decide::OutputCap::Small);
    conversation.hand_over().await.ok()?;
    let counting = conversation.shared.session.provider.count_tokens(&request);
    match tokio::time::timeout(COUNT_LIMIT, counting).await {
        Ok(Ok(tokens)) if tokens > 0 => {
            conversation.context.room.count_failures = 0;
            conversation.context.meter.counted(tokens);
            Some(tokens)
        }
        _ => {
            conversation.context.room.count_failures += 1;
            None
        }
    }
}

/// The provider's count of a request with these words alone, where it gives one.
pub(crate) async fn count_alone(conversation: &mut Conversation, content: &Content) -> Option<u64> {
    let blocks = content.clone().into_blocks();
    let words = EncodedMessage::new(Role::User, &blocks).ok()?;
    let mut request = conversation.request(crate::turn::decide::OutputCap::Small);
    request.messages = vec![words].into();
    let counting = conversation.shared.session.provider.count_tokens(&request);
    let counted = tokio::time::timeout(COUNT_LIMIT, counting).await;
    counted.ok()?.ok().filter(|tokens| *tokens > 0)
}

/// A share in percent, rounded down.
fn percent(part: u64, whole: u64) -> u64 {
    (part * 100).checked_div(whole).unwrap_or(100)
}
