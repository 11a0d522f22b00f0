//! A turn: from the user's words to the result.
//!
//! The loop fits on a page: gate, step, decide. What happens next is decided in [`mod@crate::turn::decide`]; this
//! module carries it out.

pub mod decide;
mod display;
pub(crate) mod frozen;
pub(crate) mod guard;
mod limit_wait;
pub(crate) mod models;
mod progress;
pub(crate) mod report;
pub(crate) mod step;
pub mod token_budget;

use crate::context::aggregate;
use crate::context::compaction;
use crate::context::reminders;
use crate::context::room;
use crate::context::room::MOST_FAILURES;
use crate::context::surgery;
use crate::conversation::goal;
use crate::conversation::records::reminder;
use crate::conversation::{Arrival, Conversation, RunningTurn, not_written};
use crate::session::{purse, schedule};
use crate::skills::announce;
use crate::skills::using;
use crate::turn::decide::{
    Continue, Done, LoopState, MAX_STOP_HOOK_OBJECTIONS, Transition, decide, gate, token_gate,
};
use crate::turn::display::Words;
use crate::turn::frozen::Step;
use crate::turn::report::Report;
use crate::turn::token_budget::TokenBudget;
use lathe_model::ModelError;
use lathe_protocol::event::{Event, News, NoticeLevel, Priority, TerminalReason, TurnResult};
use lathe_protocol::ids::RecordId;
use lathe_protocol::op::Prompt;
use lathe_session::history::Tail;
use std::sync::Arc;

/// The reminder after an answer was cut.
const GO_ON: &str = "Your answer was cut at the output limit. Continue exactly where it stopped, without repeating or summarising anything. Work in smaller pieces.";
/// The reminder after an answer without structured output.
const GIVE_OUTPUT: &str =
    "Finish by calling the StructuredOutput tool with your answer in the required format.";
impl Conversation {
    /// Runs a turn to its end. The faces have the result when it returns.
    pub(crate) async fn run_turn(&mut self, prompt: Prompt, turn: &RunningTurn) -> Arc<TurnResult> {
        let mut report = Report::new(prompt.origin.clone());
        self.ledger.start_turn();
        self.denials.clear();
        self.guard.reset();
        // A fallback and the model of a skill end with the turn.
        self.chosen.clear();
        frozen::take_chosen_model(self);
        crate::worktree::session::follow(self, false);
        frozen::learn_model(self).await;

        let shared = self.shared.clone();
        shared
            .integrations
            .mcp
            .begin_turn(&shared, &turn.cancel)
            .await;
        let modes = schedule::narrow(&shared.permissions, &prompt);
        let mut state = LoopState {
            tokens: TokenBudget::new(
                token_budget::of_prompt(&prompt).or(self.fixed.limits.token_budget),
            ),
            ..LoopState::default()
        };
        let done = match self.accept(prompt, Arrival::First, turn).await {
            Ok(()) => self.run_loop(turn, &mut state, &mut report).await,
            Err(done) => done,
        };
        let result = report.finish(self, turn, &state, done).await;
        schedule::widen(&shared.permissions, modes);
        // From now on the usage is what the provider counted, with the last answer in it.
        self.measure_context();
        self.publish_messages();
        self.shared.events.send(Event::TurnFinished(result.clone()));
        result
    }

    async fn run_loop(
        &mut self,
        turn: &RunningTurn,
        state: &mut LoopState,
        report: &mut Report,
    ) -> Done {
        loop {
            if turn.cancel.is_cancelled() {
                return Done::Ended {
                    reason: TerminalReason::AbortedStreaming,
                    message: "Interrupted by the user".to_owned(),
                };
            }
            self.take_extra_usage();
            self.pass_usage_on();
            let (dollars, tokens) = self.spent();
            let limits = &self.fixed.limits;
            let done = gate(state, limits, dollars)
                .or_else(|| token_gate(limits, tokens))
                .or_else(|| purse::check(&self.shared, dollars));
            if let Some(done) = done {
                return done;
            }
            self.take_changes().await;
            surgery::apply(self);
            announce::announce_skills(self);
            reminders::remind(self, turn).await;
            using::follow_choices(self);
            frozen::learn_model(self).await;
            aggregate::bound_newest_results(self);
            room::make_room(self, turn).await;
            let frozen = Step::begin(self, turn);
            let mut request = self.request_with(&frozen.choices, &frozen.tools, state.output_cap);
            if state.last == Some(Continue::Paused) {
                // The provider continues where its own tool paused, so its words come last.
                request.messages = self.history.request_messages_with(Tail::Assistant);
            }
            self.watch_prefix(&request);
            if let Err(error) = self.hand_over().await {
                return not_written("The conversation", &error);
            }
            let base = self.tip;
            state.model_calls += 1;
            let mut step = self.step(turn, &frozen, request).await;
            self.shared.integrations.extensions.answered.notify_one();
            *self.shared.spending.totals.lock() = self.ledger.totals().clone();
            self.pass_usage_on();
            self.shared
                .state
                .usage
                .lock()
                .api_usage
                .clone_from(&self.last_usage);
            report.add(&mut step, state.last);
            let mut transition = decide(state, &self.fixed.limits, &step.outcome);
            if transition == Transition::Done(Done::Completed)
                && let Some(next) = self.before_stop(turn, state, &report.text.said).await
            {
                transition = next;
            }
            if matches!(transition, Transition::Done(Done::Ended { .. }))
                && limit_wait::wait(self, turn, report.error.as_ref(), state.limit_waits).await
            {
                report.error = None;
                transition = Transition::Continue(Continue::LimitEnded);
            }
            match transition {
                Transition::Done(done) => return done,
                Transition::Continue(reason) => {
                    if let Err(done) = self.go_on(turn, reason, base, step.records, report).await {
                        return done;
                    }
                    *state = state.after(&step.outcome, reason);
                }
            }
        }
    }

    /// Lets questions beside the conversation see the answer that just ended.
    fn publish_messages(&mut self) {
        let messages = self.history.request_messages_with(Tail::Assistant);
        if let Some(request) = &mut *self.shared.state.last_request.lock() {
            request.messages = messages;
        }
    }

    /// Files that someone else changed since the model read them, and hooks that finished late.
    async fn take_changes(&mut self) {
        let mut texts = self.shared.hooks.take_late_context();
        let changes = self.shared.tools.file_cache.changed_on_disk();
        let paths: Vec<_> = changes.iter().map(|change| change.path.clone()).collect();
        self.shared.changed_on_disk(&paths);
        for change in changes {
            let path = change.path.display();
            // A file that was read with leave, or before a rule closed it, is not shown again by itself.
            texts.push(
                if self.shared.permissions.why_hidden(&change.path).is_some() {
                    format!("{path} was changed on disk since you read it, not by you.")
                } else {
                    format!(
                        "{path} was changed on disk since you read it, not by you. The change:\n{}",
                        change.diff
                    )
                },
            );
        }
        if !texts.is_empty() {
            let record = self.records.meta(self.tip, reminder(&texts.join("\n\n")));
            self.append(record);
        }
    }

    /// The model is finished. Stop hooks may object, and words may have come in meanwhile.
    async fn before_stop(
        &mut self,
        turn: &RunningTurn,
        state: &mut LoopState,
        last_text: &str,
    ) -> Option<Transition> {
        let active = state.stop_hook_objections > 0;
        let verdict = self
            .shared
            .hooks
            .stop(last_text, active, &turn.cancel)
            .await;
        if let Some(reason) = verdict.stop {
            return Some(Transition::Done(Done::Ended {
                reason: TerminalReason::StopHookPrevented,
                message: reason,
            }));
        }
        let Some(objection) = verdict.block else {
            return self.pursue(turn, state).await.map(Transition::Continue);
        };
        if state.stop_hook_objections >= MAX_STOP_HOOK_OBJECTIONS {
            self.shared.events.notice(
                NoticeLevel::Warning,
                format!(
                    "Stop hooks have made the model continue {MAX_STOP_HOOK_OBJECTIONS} times in a row; the turn ends now. Their last objection: {objection}"
                ),
            );
            return None;
        }
        self.shared.events.notice(
            NoticeLevel::Notice,
            format!("A stop hook makes the model continue: {objection}"),
        );
        let record = self.records.meta(
            self.tip,
            reminder(&format!(
                "A stop hook reports that the work is not done:\n{objection}"
            )),
        );
        self.append(record);
        Some(Transition::Continue(Continue::StopHookObjected))
    }

    /// The model is finished and no hook objects: the session's goal, or tokens that are to be used, may have the turn go on.
    async fn pursue(&mut self, turn: &RunningTurn, state: &mut LoopState) -> Option<Continue> {
        let has_goal = self.shared.state.goal.lock().is_some();
        let (words, reason) = if has_goal {
            (
                goal::judge(self, turn, state.goal_rounds).await?,
                Continue::GoalOpen,
            )
        } else {
            state.tokens = state.tokens.after(self.ledger.turn_usage().output_tokens)?;
            (state.tokens.words(), Continue::TokensLeft)
        };
        let record = self.records.meta(self.tip, reminder(&words));
        self.append(record);
        Some(reason)
    }

    /// Prepares the next step.
    async fn go_on(
        &mut self,
        turn: &RunningTurn,
        reason: Continue,
        base: Option<RecordId>,
        records: Vec<RecordId>,
        report: &mut Report,
    ) -> Result<(), Done> {
        match reason {
            Continue::ToolResults | Continue::QueuedPrompt => {
                self.take_queued(turn).await?;
            }
            Continue::OutputEscalated => {
                self.shared.events.send(Event::Retracted {
                    records,
                    reason: "the answer was cut at the output limit; retrying with a larger limit"
                        .to_owned(),
                });
                self.rewind_to(base);
                report.text = Words::default();
            }
            Continue::OutputResumed => {
                let record = self.records.meta(self.tip, GO_ON);
                self.append(record);
            }
            Continue::StructuredOutputWanted => {
                let record = self.records.meta(self.tip, reminder(GIVE_OUTPUT));
                self.append(record);
            }
            Continue::Compact if self.context.room.failures >= MOST_FAILURES => {
                return Err(Done::Ended {
                    reason: TerminalReason::PromptTooLong,
                    message: "Prompt is too long, and compaction made no progress before. Rewind, or start a new session.".to_owned(),
                });
            }
            Continue::Compact => {
                if let Err(error) = compaction::compact(self, "auto", None, &turn.cancel).await {
                    return Err(Done::Ended {
                        reason: TerminalReason::PromptTooLong,
                        message: format!(
                            "Prompt is too long, and compacting the conversation failed: {error}"
                        ),
                    });
                }
            }
            Continue::DropMedia => {
                let at = match &report.error {
                    Some(
                        ModelError::ImageTooLarge { at, .. } | ModelError::PdfTooLarge { at, .. },
                    ) => *at,
                    _ => None,
                };
                if !self.drop_media(at) {
                    return Err(Done::Ended {
                        reason: TerminalReason::ImageError,
                        message: report
                            .error
                            .as_ref()
                            .map_or_else(String::new, ToString::to_string),
                    });
                }
                self.shared.events.notice(
                    NoticeLevel::Warning,
                    "The model API refused an image or document; it was removed and the request repeated.",
                );
            }
            Continue::StopHookObjected
            | Continue::Paused
            | Continue::GoalOpen
            | Continue::TokensLeft
            | Continue::LimitEnded => {}
        }
        Ok(())
    }

    /// Notes when a request doesn't continue the one before: that costs money.
    fn watch_prefix(&mut self, request: &lathe_model::ModelRequest) {
        let Some(found) = self.context.prefix.look(request) else {
            return;
        };
        self.ledger.note_cache_break(&found.to_string());
        tracing::info!(%found, "the provider's cache can't be used");
        if found.expected.is_none() {
            self.shared.events.news(
                News::of("cache", Priority::Low),
                NoticeLevel::Info,
                format!("This request misses the provider's cache, so it costs more: {found}."),
            );
        }
    }

    /// Counts what conversations inside this one used.
    pub(crate) fn take_extra_usage(&mut self) {
        // Held until the totals have it: agents that look at both see each dollar once.
        let mut waiting = self.shared.spending.waiting.lock();
        if waiting.is_empty() {
            return;
        }
        for (part, totals) in waiting.drain(..) {
            self.ledger.absorb_as(part, &totals);
        }
        *self.shared.spending.totals.lock() = self.ledger.totals().clone();
    }

    /// Passes what an agent used on to the session that pays for it.
    pub(crate) fn pass_usage_on(&mut self) {
        let Some(place) = self.shared.role.place() else {
            let (shared, ledger) = (&self.shared, &mut self.ledger);
            crate::agents::team::spent(shared, || ledger.take_fresh());
            return;
        };
        let Some(root) = place.root.upgrade() else {
            return;
        };
        let fresh = self.ledger.take_fresh();
        if !fresh.models.is_empty() {
            root.spending
                .waiting
                .lock()
                .push((crate::session::ledger::Part::Agents, fresh));
        }
    }

    /// The dollars and tokens that the session has spent, agents included.
    fn spent(&self) -> (f64, u64) {
        let root = self.shared.role.place().map(|place| place.root.upgrade());
        let Some(Some(root)) = root else {
            let totals = self.ledger.totals();
            return (totals.cost_usd(), totals.tokens());
        };
        let waiting = root.spending.waiting.lock();
        let totals = root.spending.totals.lock();
        let mut spent = (totals.cost_usd(), totals.tokens());
        for (_, used) in waiting.iter() {
            spent.0 += used.cost_usd();
            spent.1 += used.tokens();
        }
        spent
    }

    /// Delivers what the user typed meanwhile.
    async fn take_queued(&mut self, turn: &RunningTurn) -> Result<(), Done> {
        loop {
            // A scheduled prompt waits for the end of the turn.
            let next = {
                let mut queue = self.shared.inbox.queue.lock();
                let at = queue.iter().position(|prompt| !schedule::is_fire(prompt));
                at.and_then(|at| queue.remove(at))
            };
            let Some(prompt) = next else {
                return Ok(());
            };
            let arrival = if prompt.context_only {
                Arrival::ContextOnly
            } else {
                Arrival::Steering
            };
            self.guard.reset();
            self.accept(prompt, arrival, turn).await?;
        }
    }
}
