//! The heart of the loop: what happens next is a pure function of what happened.
//!
//! A turn is a sequence of steps (model calls). Before each step the [`gate`] may end the turn;
//! after it [`decide`] chooses between another step, with a reason, and the end, with a reason.
//! Each recovery is counted in [`LoopState`], so that none is tried more often than it may be.

use lathe_protocol::event::TerminalReason;
use lathe_protocol::message::StopReason;

use crate::turn::token_budget::TokenBudget;

/// The state of the loop between steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoopState {
    /// Model calls made for this turn.
    pub model_calls: u32,
    /// Which output limit requests carry.
    pub output_cap: OutputCap,
    /// How often the model was told to continue after the output limit.
    pub output_resumes: u32,
    /// How often the conversation was compacted because it didn't fit.
    pub compactions: u32,
    /// How often an image or document was dropped because the API refused it.
    pub media_drops: u32,
    /// How often stop hooks sent the model back to work, in a row.
    pub stop_hook_objections: u32,
    /// How often the model was reminded to give its structured output.
    pub structured_output_reminders: u32,
    /// How often structured output came in the wrong shape.
    pub structured_output_failures: u32,
    /// How often the provider paused its answer, in a row.
    pub pauses: u32,
    /// How often the turn went on for the session's goal.
    pub goal_rounds: u32,
    /// How often it waited for a limit of the provider.
    pub limit_waits: u32,
    /// The tokens that it is to use.
    pub tokens: TokenBudget,
    /// Why the last step was followed by another.
    pub last: Option<Continue>,
}

/// Which output limit a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputCap {
    /// The small one: most answers are short, and providers reserve capacity by this number.
    #[default]
    Small,
    /// The model's own.
    Large,
}

/// The limits of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Model calls of one turn.
    pub max_turns: Option<u32>,
    /// Dollars of this run.
    pub max_budget_usd: Option<f64>,
    /// Dollars of the session's totals that are not part of the budget: a resumed session spent them before
    /// this run. Negative where this run spent some in a session that was cleared.
    pub spent_before_usd: f64,
    /// Tokens of the session, input and output, cached or not.
    pub max_tokens: Option<u64>,
    /// Whether the conversation may be compacted when it doesn't fit.
    pub auto_compact: bool,
    /// Whether the output limit is fixed by the user.
    pub fixed_output_cap: bool,
    /// Whether structured output is wanted.
    pub structured_output: bool,
    /// Output tokens that a turn is to use.
    pub token_budget: Option<u64>,
}

/// How often the model may be told to continue after the output limit.
pub const MAX_OUTPUT_RESUMES: u32 = 3;
/// How often stop hooks may send the model back to work.
pub const MAX_STOP_HOOK_OBJECTIONS: u32 = 8;
/// How often the provider may pause an answer in a row.
pub const MAX_PAUSES: u32 = 20;
/// How often structured output may come in the wrong shape.
pub const MAX_STRUCTURED_OUTPUT_FAILURES: u32 = 5;

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepOutcome {
    /// The model answered.
    Answered {
        /// Why it stopped.
        stop_reason: Option<StopReason>,
        /// How many tool calls it made.
        calls: usize,
        /// Whether it gave its structured output.
        structured_output: Option<StructuredOutcome>,
        /// A call that ends the turn.
        ending: Option<CallEnding>,
    },
    /// The model API failed for good.
    Failed(Failure),
    /// The user interrupted.
    Cancelled(Phase),
}

/// Whether structured output came in the right shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StructuredOutcome {
    /// It fits the schema.
    Valid,
    /// It doesn't.
    Invalid,
}

/// A call that ends the turn.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEnding {
    /// The user refused a call and wants the turn to end.
    Interrupted,
    /// A hook stopped the turn.
    HookStopped {
        /// Why, in the hook's words.
        reason: String,
    },
    /// A hook put a call off; the host will run it.
    Deferred {
        /// The call: id, name, input.
        call: serde_json::Value,
    },
    /// The same call gave the same result too often.
    Repeated {
        /// Which, in words.
        reason: String,
    },
}

/// How a model call failed for good, as far as the loop cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The conversation doesn't fit.
    PromptTooLong,
    /// An image or a document was refused.
    MediaRejected,
    /// Anything else.
    Other,
}

/// The phase in which the user interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The model was writing.
    Streaming,
    /// Tools were running.
    Tools,
}

/// The next move of the loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Transition {
    /// Another step.
    Continue(Continue),
    /// The end.
    Done(Done),
}

/// Why there is another step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continue {
    /// Tool results are to be sent.
    ToolResults,
    /// The answer was cut at the small limit: the same request again with the large one.
    OutputEscalated,
    /// The answer was cut at the large limit: a reminder lets the model continue.
    OutputResumed,
    /// The conversation didn't fit: compact it and try again.
    Compact,
    /// An image or document was refused: drop it and try again.
    DropMedia,
    /// A stop hook objected.
    StopHookObjected,
    /// A server tool paused the answer.
    Paused,
    /// The model stopped without the structured output that is wanted.
    StructuredOutputWanted,
    /// The user typed something meanwhile.
    QueuedPrompt,
    /// The goal of the session isn't reached.
    GoalOpen,
    /// Tokens that are to be used are left.
    TokensLeft,
    /// A limit of the provider has ended.
    LimitEnded,
}

/// Why it ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    /// The model said what it wanted to say.
    Completed,
    /// Anything else.
    Ended {
        /// The reason on the wire.
        reason: TerminalReason,
        /// In words.
        message: String,
    },
}

impl Done {
    fn ended(reason: TerminalReason, message: impl Into<String>) -> Self {
        Self::Ended {
            reason,
            message: message.into(),
        }
    }
}

/// Whether another step may be made at all.
#[must_use]
pub fn gate(state: &LoopState, limits: &Limits, spent_usd: f64) -> Option<Done> {
    if let Some(max_turns) = limits.max_turns
        && state.model_calls >= max_turns
    {
        return Some(Done::ended(
            TerminalReason::MaxTurns,
            format!("Reached maximum number of turns ({max_turns})"),
        ));
    }
    let spent_now = limits.spent_in_run(spent_usd);
    if let Some(budget) = limits.max_budget_usd
        && spent_now >= budget
    {
        return Some(Done::ended(
            TerminalReason::BudgetExhausted,
            format!("Reached maximum budget (${budget}); spent ${spent_now:.4}"),
        ));
    }
    None
}

impl Limits {
    /// The part of a session's dollars that this run spent.
    #[must_use]
    pub fn spent_in_run(&self, session_usd: f64) -> f64 {
        (session_usd - self.spent_before_usd).max(0.0)
    }

    /// How far the session's own dollars may go in this run.
    #[must_use]
    pub fn max_session_usd(&self) -> Option<f64> {
        Some(self.max_budget_usd? + self.spent_before_usd)
    }
}

/// Decides what follows a step.
#[must_use]
pub fn decide(state: &LoopState, limits: &Limits, outcome: &StepOutcome) -> Transition {
    match outcome {
        StepOutcome::Cancelled(Phase::Streaming) => Transition::Done(Done::ended(
            TerminalReason::AbortedStreaming,
            "Interrupted by the user",
        )),
        StepOutcome::Cancelled(Phase::Tools) => Transition::Done(Done::ended(
            TerminalReason::AbortedTools,
            "Interrupted by the user",
        )),
        StepOutcome::Failed(failure) => after_failure(state, limits, *failure),
        StepOutcome::Answered {
            stop_reason,
            calls,
            structured_output,
            ending,
        } => {
            if let Some(ending) = ending {
                return Transition::Done(ending_of(ending));
            }
            match structured_output {
                Some(StructuredOutcome::Valid) => return Transition::Done(Done::Completed),
                Some(StructuredOutcome::Invalid)
                    if state.structured_output_failures + 1 >= MAX_STRUCTURED_OUTPUT_FAILURES =>
                {
                    return Transition::Done(Done::ended(
                        TerminalReason::StructuredOutputRetryExhausted,
                        format!(
                            "Failed to provide valid structured output after {MAX_STRUCTURED_OUTPUT_FAILURES} attempts"
                        ),
                    ));
                }
                _ => {}
            }
            after_answer(state, limits, stop_reason.as_ref(), *calls)
        }
    }
}

/// Whether the tokens that the session may use are used up.
#[must_use]
pub fn token_gate(limits: &Limits, used: u64) -> Option<Done> {
    let limit = limits.max_tokens?;
    (used >= limit).then(|| {
        Done::ended(
            TerminalReason::BudgetExhausted,
            format!("Reached maximum of {limit} tokens; used {used}"),
        )
    })
}

fn ending_of(ending: &CallEnding) -> Done {
    match ending {
        CallEnding::Interrupted => {
            Done::ended(TerminalReason::AbortedTools, "Interrupted by the user")
        }
        CallEnding::HookStopped { reason } => {
            Done::ended(TerminalReason::HookStopped, reason.clone())
        }
        CallEnding::Deferred { .. } => Done::ended(TerminalReason::ToolDeferred, "Call deferred"),
        CallEnding::Repeated { reason } => {
            Done::ended(TerminalReason::RepeatedCalls, reason.clone())
        }
    }
}

fn after_failure(state: &LoopState, limits: &Limits, failure: Failure) -> Transition {
    match failure {
        Failure::PromptTooLong if !limits.auto_compact => Transition::Done(Done::ended(
            TerminalReason::BlockingLimit,
            "The conversation doesn't fit the model's window and automatic compaction is off. Run /compact, or start a new session.",
        )),
        Failure::PromptTooLong if state.compactions == 0 => Transition::Continue(Continue::Compact),
        Failure::PromptTooLong => Transition::Done(Done::ended(
            TerminalReason::PromptTooLong,
            "Prompt is too long, even after compaction",
        )),
        Failure::MediaRejected if state.media_drops == 0 => {
            Transition::Continue(Continue::DropMedia)
        }
        Failure::MediaRejected => Transition::Done(Done::ended(
            TerminalReason::ImageError,
            "An image or document was refused by the model API",
        )),
        Failure::Other => Transition::Done(Done::ended(TerminalReason::ApiError, "API error")),
    }
}

fn after_answer(
    state: &LoopState,
    limits: &Limits,
    stop_reason: Option<&StopReason>,
    calls: usize,
) -> Transition {
    match stop_reason {
        // Calls that were complete before the cut have run: their results go back.
        _ if calls > 0 => Transition::Continue(Continue::ToolResults),
        Some(StopReason::MaxTokens)
            if state.output_cap == OutputCap::Small && !limits.fixed_output_cap =>
        {
            Transition::Continue(Continue::OutputEscalated)
        }
        Some(StopReason::MaxTokens) if state.output_resumes < MAX_OUTPUT_RESUMES => {
            Transition::Continue(Continue::OutputResumed)
        }
        Some(StopReason::MaxTokens) => Transition::Done(Done::ended(
            TerminalReason::ApiError,
            format!(
                "the answer was cut at the output limit, and again after {MAX_OUTPUT_RESUMES} continuations"
            ),
        )),
        Some(StopReason::ModelContextWindowExceeded)
            if limits.auto_compact && state.compactions == 0 =>
        {
            Transition::Continue(Continue::Compact)
        }
        Some(StopReason::PauseTurn) if state.pauses < MAX_PAUSES => {
            Transition::Continue(Continue::Paused)
        }
        Some(StopReason::PauseTurn) => Transition::Done(Done::Ended {
            reason: TerminalReason::ApiError,
            message: format!(
                "The provider paused its answer {MAX_PAUSES} times in a row without finishing"
            ),
        }),
        _ if limits.structured_output && state.structured_output_reminders == 0 => {
            Transition::Continue(Continue::StructuredOutputWanted)
        }
        _ => Transition::Done(Done::Completed),
    }
}

impl LoopState {
    /// The state for the next step, as a whole.
    #[must_use]
    pub fn after(&self, outcome: &StepOutcome, reason: Continue) -> Self {
        let mut next = self.clone();
        if matches!(
            outcome,
            StepOutcome::Answered {
                structured_output: Some(StructuredOutcome::Invalid),
                ..
            }
        ) {
            next.structured_output_failures += 1;
        }
        match reason {
            Continue::OutputEscalated => next.output_cap = OutputCap::Large,
            Continue::OutputResumed => next.output_resumes += 1,
            Continue::Compact => next.compactions += 1,
            Continue::DropMedia => next.media_drops += 1,
            Continue::StopHookObjected => next.stop_hook_objections += 1,
            Continue::StructuredOutputWanted => next.structured_output_reminders += 1,
            Continue::GoalOpen => next.goal_rounds += 1,
            Continue::LimitEnded => next.limit_waits += 1,
            Continue::TokensLeft => {}
            Continue::ToolResults | Continue::Paused | Continue::QueuedPrompt => {
                next.output_resumes = 0;
            }
        }
        next.pauses = match reason {
            Continue::Paused => next.pauses + 1,
            _ => 0,
        };
        next.last = Some(reason);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_paused_for_ever_ends_the_turn() {
        let mut state = LoopState::default();
        let paused = answered(StopReason::PauseTurn, 0);
        for _ in 0..MAX_PAUSES {
            let next = decide(&state, &Limits::default(), &paused);
            assert_eq!(next, Transition::Continue(Continue::Paused));
            state = state.after(&paused, Continue::Paused);
        }
        let last = decide(&state, &Limits::default(), &paused);
        assert!(
            matches!(last, Transition::Done(Done::Ended { .. })),
            "{last:?}"
        );
        let between = state.after(&paused, Continue::ToolResults);
        assert_eq!(between.pauses, 0, "only those in a row count");
    }

    fn answered(stop_reason: StopReason, calls: usize) -> StepOutcome {
        StepOutcome::Answered {
            stop_reason: Some(stop_reason),
            calls,
            structured_output: None,
            ending: None,
        }
    }

    const LIMITS: Limits = Limits {
        max_turns: None,
        max_budget_usd: None,
        spent_before_usd: 0.0,
        max_tokens: None,
        auto_compact: true,
        fixed_output_cap: false,
        structured_output: false,
        token_budget: None,
    };

    /// Runs the same outcome again and again and lists the reasons.
    fn run(limits: &Limits, outcome: &StepOutcome) -> (Vec<Continue>, Done) {
        let mut state = LoopState::default();
        let mut reasons = Vec::new();
        loop {
            match decide(&state, limits, outcome) {
                Transition::Continue(reason) => {
                    assert!(reasons.len() < 50, "the loop doesn't end: {reasons:?}");
                    state = state.after(outcome, reason);
                    reasons.push(reason);
                }
                Transition::Done(done) => return (reasons, done),
            }
        }
    }

    #[test]
    fn calls_go_on_and_words_end_the_turn() {
        let state = LoopState::default();
        assert_eq!(
            decide(&state, &LIMITS, &answered(StopReason::ToolUse, 2)),
            Transition::Continue(Continue::ToolResults)
        );
        assert_eq!(
            decide(&state, &LIMITS, &answered(StopReason::EndTurn, 0)),
            Transition::Done(Done::Completed)
        );
        // Complete calls count even when the answer was cut after them.
        assert_eq!(
            decide(&state, &LIMITS, &answered(StopReason::MaxTokens, 1)),
            Transition::Continue(Continue::ToolResults)
        );
    }

    #[test]
    fn the_output_limit_is_escalated_once_and_resumed_three_times() {
        let (reasons, done) = run(&LIMITS, &answered(StopReason::MaxTokens, 0));
        assert_eq!(
            reasons,
            [
                Continue::OutputEscalated,
                Continue::OutputResumed,
                Continue::OutputResumed,
                Continue::OutputResumed
            ]
        );
        // An answer without its end is no answer.
        assert!(
            matches!(&done, Done::Ended { reason: TerminalReason::ApiError, message } if message.contains("output limit")),
            "{done:?}"
        );
        let fixed = Limits {
            fixed_output_cap: true,
            ..LIMITS
        };
        assert_eq!(run(&fixed, &answered(StopReason::MaxTokens, 0)).0.len(), 3);
    }

    #[test]
    fn a_prompt_that_is_too_long_is_compacted_once() {
        let (reasons, done) = run(&LIMITS, &StepOutcome::Failed(Failure::PromptTooLong));
        assert_eq!(reasons, [Continue::Compact]);
        assert!(matches!(
            done,
            Done::Ended {
                reason: TerminalReason::PromptTooLong,
                ..
            }
        ));
        let off = Limits {
            auto_compact: false,
            ..LIMITS
        };
        let (reasons, done) = run(&off, &StepOutcome::Failed(Failure::PromptTooLong));
        assert!(reasons.is_empty());
        assert!(matches!(
            done,
            Done::Ended {
                reason: TerminalReason::BlockingLimit,
                ..
            }
        ));
    }

    #[test]
    fn a_refused_image_is_dropped_once() {
        let (reasons, done) = run(&LIMITS, &StepOutcome::Failed(Failure::MediaRejected));
        assert_eq!(reasons, [Continue::DropMedia]);
        assert!(matches!(
            done,
            Done::Ended {
                reason: TerminalReason::ImageError,
                ..
            }
        ));
    }

    #[test]
    fn structured_output_is_asked_for_once_and_may_fail_five_times() {
        let limits = Limits {
            structured_output: true,
            ..LIMITS
        };
        let (reasons, done) = run(&limits, &answered(StopReason::EndTurn, 0));
        assert_eq!(reasons, [Continue::StructuredOutputWanted]);
        assert_eq!(done, Done::Completed);
        let invalid = StepOutcome::Answered {
            stop_reason: Some(StopReason::ToolUse),
            calls: 1,
            structured_output: Some(StructuredOutcome::Invalid),
            ending: None,
        };
        let (reasons, done) = run(&limits, &invalid);
        assert_eq!(reasons.len(), 4);
        assert!(matches!(
            done,
            Done::Ended {
                reason: TerminalReason::StructuredOutputRetryExhausted,
                ..
            }
        ));
    }

    #[test]
    fn the_gate_counts_calls_and_dollars() {
        let limits = Limits {
            max_turns: Some(2),
            max_budget_usd: Some(1.0),
            ..LIMITS
        };
        let state = LoopState {
            model_calls: 1,
            ..LoopState::default()
        };
        assert_eq!(gate(&state, &limits, 0.5), None);
        let full = LoopState {
            model_calls: 2,
            ..LoopState::default()
        };
        assert!(matches!(
            gate(&full, &limits, 0.0),
            Some(Done::Ended {
                reason: TerminalReason::MaxTurns,
                ..
            })
        ));
        assert!(matches!(
            gate(&state, &limits, 1.0),
            Some(Done::Ended {
                reason: TerminalReason::BudgetExhausted,
                ..
            })
        ));
        // What a resumed session spent before is not this run's; what a cleared one spent is.
        let resumed = Limits {
            spent_before_usd: 5.0,
            ..limits
        };
        assert_eq!(gate(&state, &resumed, 5.9), None);
        assert!(gate(&state, &resumed, 6.0).is_some());
        assert_eq!(resumed.max_session_usd(), Some(6.0));
        let cleared = Limits {
            spent_before_usd: -0.75,
            ..limits
        };
        assert!(gate(&state, &cleared, 0.25).is_some());
    }

    #[test]
    fn tokens_may_be_limited_too() {
        assert_eq!(token_gate(&LIMITS, u64::MAX), None);
        let limits = Limits {
            max_tokens: Some(1_000),
            ..LIMITS
        };
        assert_eq!(token_gate(&limits, 999), None);
        assert!(matches!(
            token_gate(&limits, 1_000),
            Some(Done::Ended {
                reason: TerminalReason::BudgetExhausted,
                ..
            })
        ));
    }

    #[test]
    fn a_call_that_ends_the_turn_beats_everything() {
        let outcome = StepOutcome::Answered {
            stop_reason: Some(StopReason::ToolUse),
            calls: 1,
            structured_output: None,
            ending: Some(CallEnding::HookStopped {
                reason: "no".into(),
            }),
        };
        assert!(matches!(
            decide(&LoopState::default(), &LIMITS, &outcome),
            Transition::Done(Done::Ended {
                reason: TerminalReason::HookStopped,
                ..
            })
        ));
    }
}
