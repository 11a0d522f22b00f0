//! Work beside the turns of a session: notes, documents, memory. One place knows of all of it, so
//! that the end of a session leaves nothing running and nothing half done where someone asked for it.

use crate::conversation::{Conversation, ConversationShared};
use crate::session::EndReason;
use crate::session::ledger::{Ledger, Part};
use crate::turn::decide::{gate, token_gate};
use lathe_model::ask::{AskError, Question, ask};
use lathe_model::{ModelRequest, Thinking, ThinkingMode};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

/// How long the end of a session waits for what was asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The work beside a session's turns.
#[derive(Debug, Default)]
pub(crate) struct Background {
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Whether the end of the session waits for it: nobody sits there who wants to leave.
    waits_at_end: AtomicBool,
    /// Whether the last request was to stop.
    interrupted: AtomicBool,
    end_reason: Mutex<EndReason>,
}

impl Background {
    /// Whether the end of the session waits for what runs.
    pub(crate) fn wait_at_end(&self, wait: bool) {
        self.waits_at_end.store(wait, Ordering::Relaxed);
    }

    /// Someone wants everything to stop, or to continue.
    pub(crate) fn interrupted(&self, stop: bool) {
        self.interrupted.store(stop, Ordering::Relaxed);
    }

    /// Starts something.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let task = lathe_spawn::task(work);
        let handle = task.abort_handle();
        let mut tasks = self.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
        handle
    }

    /// Ends everything: what may be waited for is waited for, the rest is cancelled.
    pub(crate) async fn finish(&self, cancel: &CancellationToken) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        if self.waits_at_end.load(Ordering::Relaxed) && !self.interrupted.load(Ordering::Relaxed) {
            let all = async {
                for task in tasks {
                    let _ = task.await;
                }
            };
            let _ = tokio::time::timeout(PATIENCE, all).await;
        }
        cancel.cancel();
    }

    /// Waits until nothing runs.
    pub(crate) async fn settled(&self) {
        loop {
            let next = self.tasks.lock().pop();
            match next {
                Some(task) => {
                    let _ = task.await;
                }
                None => return,
            }
        }
    }

    pub(crate) fn set_end_reason(&self, reason: EndReason) {
        *self.end_reason.lock() = reason;
    }

    pub(crate) fn end_reason(&self) -> EndReason {
        *self.end_reason.lock()
    }
}

/// Whether the session may still spend something: work beside the turns is inside its budgets.
pub(crate) fn may_spend(conversation: &Conversation) -> bool {
    let limits = &conversation.fixed.limits;
    let nothing_said = crate::turn::decide::LoopState::default();
    gate(&nothing_said, limits, conversation.ledger.cost_usd()).is_none()
        && token_gate(limits, conversation.ledger.totals().tokens()).is_none()
}

/// Lets an answer have at most so many tokens, where it may think without a budget of its own.
pub(crate) fn bound_answer(request: &mut ModelRequest, tokens: u32) {
    let thinks = matches!(
        request.thinking,
        Some(Thinking {
            mode: ThinkingMode::Budget(_),
            ..
        })
    );
    if !thinks {
        request.max_tokens = request.max_tokens.min(tokens);
    }
}

/// Counts an answer that was asked for beside the conversation.
pub(crate) fn note_side_usage(
    shared: &ConversationShared,
    part: Part,
    header: &lathe_protocol::message::AssistantMessage,
) {
    let mut ledger = Ledger::default();
    ledger.note_part(part, &header.model, &header.usage, &shared.session.catalog);
    let used = (part, ledger.totals().clone());
    shared.spending.waiting.lock().push(used);
}

/// Asks a model one question beside the conversation, and records its cost.
///
/// # Errors
/// When the provider fails for good, or its answer can't be read.
pub(crate) async fn ask_beside(
    shared: &ConversationShared,
    part: Part,
    model: String,
    system: &str,
    prompt: String,
    cancel: &CancellationToken,
) -> Result<String, AskError> {
    let question = Question {
        max_tokens: shared.session.catalog.resolve(&model).info.small_output(),
        model,
        system: system.to_owned(),
        prompt,
    };
    let started = std::time::Instant::now();
    let answer = ask(shared.session.provider.clone(), &question, cancel).await?;
    let header = &answer.header;
    let mut ledger = Ledger::default();
    ledger.note_part(part, &header.model, &header.usage, &shared.session.catalog);
    ledger.note_api_time(started.elapsed());
    let used = (part, ledger.totals().clone());
    shared.spending.waiting.lock().push(used);
    Ok(answer.text)
}
