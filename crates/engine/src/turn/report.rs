//! The result of a turn: gathered step by step, completed when the turn ends.

use crate::conversation::{Conversation, RunningTurn, extraction, magic_docs, notes};
use crate::session::handles::side_questions;
use crate::turn::decide::{CallEnding, Continue, Done, LoopState, StepOutcome};
use crate::turn::display::Words;
use crate::turn::step::StepReport;
use lathe_model::ModelError;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::event::{TerminalReason, TurnResult};
use lathe_protocol::message::StopReason;
use lathe_protocol::record::{DURATION, Fact, TURN_DURATION};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// The mark of an interruption in the conversation.
const INTERRUPTED: &str = "[Request interrupted by user]";
const INTERRUPTED_IN_TOOLS: &str = "[Request interrupted by user for tool use]";

/// The parts of a turn's result that its steps give.
pub(super) struct Report {
    started: Instant,
    origin: Option<Value>,
    pub(super) text: Words,
    stop_reason: Option<StopReason>,
    pub(super) error: Option<ModelError>,
    deferred: Option<Value>,
    structured: Option<Value>,
}

/// The end of a turn, as its result states it.
struct Ending {
    reason: TerminalReason,
    is_error: bool,
    text: String,
    errors: Vec<String>,
    num_turns: u32,
    api_error_status: Option<u16>,
    /// The word that SDK hosts know a failure of the model API by.
    kind: Option<&'static str>,
}

impl Report {
    pub(super) fn new(origin: Option<Value>) -> Self {
        Self {
            started: Instant::now(),
            origin,
            text: Words::default(),
            stop_reason: None,
            error: None,
            deferred: None,
            structured: None,
        }
    }

    /// Adds a step; `last` is why the step was made.
    pub(super) fn add(&mut self, step: &mut StepReport, last: Option<Continue>) {
        if let Some(structured) = step.structured.take() {
            self.structured = Some(structured);
        }
        let text = std::mem::take(&mut step.text);
        if !text.is_empty() {
            match last {
                // An answer in several pieces: the pieces before belong to it.
                Some(Continue::OutputResumed) => self.text.push("", &text),
                Some(Continue::Paused) if !self.text.is_empty() => self.text.push("\n", &text),
                _ => self.text = text,
            }
        }
        self.stop_reason = step.stop_reason.take();
        self.error = step.error.take();
        if let StepOutcome::Answered {
            ending: Some(CallEnding::Deferred { call }),
            ..
        } = &step.outcome
        {
            self.deferred = Some(call.clone());
        }
    }

    /// Ends the turn: records the end, starts the work that follows a turn, and gives the result.
    pub(super) async fn finish(
        mut self,
        conversation: &mut Conversation,
        turn: &RunningTurn,
        state: &LoopState,
        done: Done,
    ) -> Arc<TurnResult> {
        let ending = self.end(conversation, state, done);
        if ending.is_error {
            let hooks = &conversation.shared.hooks;
            let reason = serde_json::to_value(ending.reason).unwrap_or_default();
            let word = reason.as_str().unwrap_or("unknown");
            let kind = ending.kind.unwrap_or(word);
            hooks
                .stop_failure(kind, ending.reason, &ending.text, &ending.errors)
                .await;
        }
        conversation.shared.end_skills();
        if !ending.is_error {
            notes::update_notes(conversation);
            magic_docs::update_documents(conversation, turn.prompt);
            extraction::extract_memory(conversation);
            side_questions::name_session(conversation);
        }
        self.keep_duration(conversation);
        keep_totals(conversation).await;
        let ledger = &conversation.ledger;
        Arc::new(TurnResult {
            session_id: conversation.shared.session.id,
            terminal_reason: ending.reason,
            is_error: ending.is_error,
            text: ending.text,
            errors: ending.errors,
            stop_reason: self.stop_reason.as_ref().and_then(|reason| {
                let reason = serde_json::to_value(reason).ok()?;
                reason.as_str().map(str::to_owned)
            }),
            num_turns: ending.num_turns,
            duration: self.started.elapsed(),
            duration_api: ledger.turn_api_time(),
            usage: ledger.turn_usage().clone(),
            total_cost_usd: ledger.cost_usd(),
            model_usage: ledger.totals().models.clone(),
            permission_denials: std::mem::take(&mut conversation.denials),
            api_error_status: ending.api_error_status,
            structured_output: self.structured,
            deferred_tool_use: self.deferred,
            origin: self.origin,
            times: conversation.ledger.turn_times(),
        })
    }

    /// Keeps how long the turn took, for a face that shows the conversation again.
    fn keep_duration(&self, conversation: &mut Conversation) {
        if !conversation.fixed.keeps_durations {
            return;
        }
        let took = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let tokens = conversation.ledger.turn_usage().output_tokens;
        let mut record = conversation
            .records
            .system(conversation.tip, TURN_DURATION, "");
        record.content = None;
        record.extra.insert(DURATION.to_owned(), took.into());
        record
            .extra
            .insert("outputTokens".to_owned(), tokens.into());
        conversation.append(record);
    }

    /// The end in words, with its record in the conversation where it has one.
    fn end(&mut self, conversation: &mut Conversation, state: &LoopState, done: Done) -> Ending {
        let (reason, message) = match done {
            Done::Completed => (TerminalReason::Completed, String::new()),
            Done::Ended { reason, message } => (reason, message),
        };
        let mut ending = Ending {
            reason,
            is_error: !matches!(
                reason,
                TerminalReason::Completed
                    | TerminalReason::HookStopped
                    | TerminalReason::StopHookPrevented
                    | TerminalReason::ToolDeferred
            ),
            text: std::mem::take(&mut self.text.shown),
            errors: Vec::new(),
            num_turns: state.model_calls,
            api_error_status: None,
            kind: None,
        };
        match reason {
            TerminalReason::ApiError
            | TerminalReason::PromptTooLong
            | TerminalReason::ImageError => {
                let (text, kind) = self.failure(conversation, state, message);
                ending.kind = Some(kind);
                ending.api_error_status = self.error.as_ref().and_then(ModelError::status);
                let record = conversation
                    .records
                    .api_error(conversation.tip, &text, kind);
                conversation.append(record);
                ending.text = text;
            }
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools => {
                let mark = if reason == TerminalReason::AbortedTools {
                    INTERRUPTED_IN_TOOLS
                } else {
                    INTERRUPTED
                };
                let content = Content::Blocks(vec![ContentBlock::text(mark)]);
                let record = conversation.records.user(conversation.tip, content);
                conversation.append(record);
                ending.errors.push(message);
            }
            TerminalReason::MaxTurns => {
                ending.num_turns += 1;
                ending.errors.push(message);
            }
            TerminalReason::HookStopped | TerminalReason::StopHookPrevented => {
                if ending.text.is_empty() {
                    ending.text = message;
                }
            }
            TerminalReason::Completed | TerminalReason::ToolDeferred => {}
            _ => ending.errors.push(message),
        }
        ending
    }

    /// The text and the kind of a failure of the model API.
    fn failure(
        &self,
        conversation: &Conversation,
        state: &LoopState,
        message: String,
    ) -> (String, &'static str) {
        match (&self.error, &self.stop_reason) {
            (Some(error), _) => (error.to_string(), error.sdk_kind()),
            (None, Some(StopReason::MaxTokens)) => {
                let limit = conversation.output_limit(&conversation.model, state.output_cap);
                let text = format!(
                    "API Error: {message} ({limit} tokens each).\nAsk for it in smaller pieces, or allow longer answers with LATHE_MAX_OUTPUT_TOKENS."
                );
                (text, "max_output_tokens")
            }
            (None, _) => (message, "unknown"),
        }
    }
}

/// Keeps the totals with the session, and the transcript on disk.
pub(crate) async fn keep_totals(conversation: &mut Conversation) {
    conversation.take_extra_usage();
    *conversation.shared.spending.totals.lock() = conversation.ledger.totals().clone();
    conversation.append_fact(Fact::Cost {
        totals: serde_json::to_value(conversation.ledger.totals()).unwrap_or_default(),
        session_id: conversation.shared.session.id,
    });
    // A failure is reported by the writer, which keeps the records and tries again.
    let _ = conversation.transcript.flush().await;
}
