//! The streaming executor: a call starts the moment its block is complete, while the model is still
//! writing.
//!
//! Calls that are concurrency-safe run together, at most [`MAX_TOGETHER`]; any other call runs alone.
//! Order is kept: nothing overtakes a call that must wait. Results are handed out in the order of the
//! calls. On any cancellation every call still gets a result.

use crate::call::{CallEnvironment, CallResult, Stage, boxed_failure, cancelled};
use lathe_model::ToolInput;
use lathe_protocol::content::ToolUseBlock;
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_session::SessionError;
use lathe_tools::InterruptBehavior;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How many concurrency-safe calls run together.
const MAX_TOGETHER: usize = 10;
/// How long cancelled calls may take before they are abandoned. Longer than a call's own grace.
const STOP_GRACE: Duration = Duration::from_secs(8);

/// The calls of one step.
pub(crate) struct Executor {
    environment: Arc<CallEnvironment>,
    slots: Vec<Slot>,
    running: JoinSet<(usize, CallResult)>,
    group: CancellationToken,
    delivered: usize,
    /// Why calls that have not begun will not begin.
    closed: Option<String>,
    /// The effects of delivered calls, for the report after a withdrawn answer.
    effects: Vec<(String, Value, String)>,
}

struct Slot {
    id: ToolUseId,
    name: String,
    input: Value,
    record: RecordId,
    cancel: CancellationToken,
    state: State,
}

enum State {
    Queued(crate::call::ReadyCall),
    Running {
        safe: bool,
        interrupt: InterruptBehavior,
    },
    Done(Box<CallResult>),
    Delivered,
}

/// A result in its turn.
pub(crate) struct Delivered {
    pub(crate) id: ToolUseId,
    pub(crate) name: String,
    pub(crate) input: Value,
    /// The record of the call's block.
    pub(crate) record: RecordId,
    pub(crate) result: CallResult,
}

impl Executor {
    pub(crate) fn new(environment: Arc<CallEnvironment>, group: CancellationToken) -> Self {
        Self {
            environment,
            slots: Vec::new(),
            running: JoinSet::new(),
            group,
            delivered: 0,
            closed: None,
            effects: Vec::new(),
        }
    }

    /// Takes a call in and starts what can start. A call that could not be written to the transcript is not run.
    pub(crate) fn submit(
        &mut self,
        block: &ToolUseBlock,
        input: Option<&ToolInput>,
        record: RecordId,
        unwritten: Option<SessionError>,
    ) {
        let call = self.environment.prepare(block, input);
        let state = match (call.stage, unwritten) {
            (Stage::Refused(result), _) => State::Done(result),
            (Stage::Ready(_), Some(error)) => State::Done(boxed_failure(format!(
                "{} was not run, because the call could not be written to the transcript: {error}",
                call.name
            ))),
            (Stage::Ready(ready), None) => State::Queued(ready),
        };
        self.slots.push(Slot {
            id: call.id,
            name: call.name,
            input: call.input,
            record,
            cancel: self.group.child_token(),
            state,
        });
        self.admit();
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Whether a call has not been answered yet, whether it runs, waits or was just refused.
    pub(crate) fn owes_results(&self) -> bool {
        self.delivered < self.slots.len()
    }

    /// The record of the newest call.
    pub(crate) fn newest(&self) -> Option<RecordId> {
        self.slots.last().map(|slot| slot.record)
    }

    /// Whether something runs.
    pub(crate) fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// Stops the running calls that the user's new words make pointless (waiting for something).
    pub(crate) fn interrupt_waiting(&self) {
        for slot in &self.slots {
            if matches!(
                slot.state,
                State::Running {
                    interrupt: InterruptBehavior::Cancel,
                    ..
                }
            ) {
                slot.cancel.cancel();
            }
        }
    }

    /// Waits for a running call to end. Only to be called while [`Self::is_busy`].
    pub(crate) async fn next_done(&mut self) {
        match self.running.join_next().await {
            Some(Ok((index, result))) => self.note_done(index, result),
            // A call catches its own panics, so this is an abort after the grace.
            Some(Err(error)) => tracing::error!(%error, "a call's task ended without a result"),
            None => {}
        }
        self.admit();
    }

    fn note_done(&mut self, index: usize, result: CallResult) {
        let failed_shell = result.cancels_siblings;
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let name = slot.name.clone();
        slot.state = State::Done(Box::new(result));
        if failed_shell {
            self.close(&format!(
                "Not run: the {name} call in parallel with it failed. Look at its result first."
            ));
        }
    }

    /// Cancels everything that runs or waits; later calls of this step won't begin either.
    pub(crate) fn close(&mut self, reason: &str) {
        self.closed = Some(reason.to_owned());
        self.group.cancel();
        self.admit();
    }

    /// Starts what may start.
    fn admit(&mut self) {
        for index in 0..self.slots.len() {
            let running_safe = self.slots.iter().all(|slot| match &slot.state {
                State::Running { safe, .. } => *safe,
                _ => true,
            });
            let running_count = self.running.len();
            let Some(slot) = self.slots.get_mut(index) else {
                return;
            };
            let State::Queued(ready) = &slot.state else {
                continue;
            };
            if self.closed.is_some() || slot.cancel.is_cancelled() {
                let reason = self.closed.clone();
                slot.state =
                    State::Done(Box::new(reason.map_or_else(cancelled, CallResult::failure)));
                continue;
            }
            let traits = ready.traits;
            let may_start = running_count == 0
                || (traits.concurrency_safe && running_safe && running_count < MAX_TOGETHER);
            if !may_start {
                return;
            }
            let state = std::mem::replace(
                &mut slot.state,
                State::Running {
                    safe: traits.concurrency_safe,
                    interrupt: traits.interrupt,
                },
            );
            if let State::Queued(ready) = state {
                let environment = self.environment.clone();
                let (id, cancel) = (slot.id.clone(), slot.cancel.clone());
                self.running
                    .spawn(async move { (index, environment.run(id, ready, cancel).await) });
            }
        }
    }

    /// The next result in the order of the calls, if it is there.
    pub(crate) fn deliver(&mut self) -> Option<Delivered> {
        let slot = self.slots.get_mut(self.delivered)?;
        match std::mem::replace(&mut slot.state, State::Delivered) {
            State::Done(result) => {
                self.delivered += 1;
                if result.had_effects {
                    self.effects.push((
                        slot.name.clone(),
                        slot.input.clone(),
                        result.content.text(),
                    ));
                }
                Some(Delivered {
                    id: slot.id.clone(),
                    name: slot.name.clone(),
                    input: slot.input.clone(),
                    record: slot.record,
                    result: *result,
                })
            }
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// Stops everything and waits until each call has a result.
    pub(crate) async fn stop(&mut self, reason: &str) {
        self.close(reason);
        let all = async {
            while self
                .running
                .join_next()
                .await
                .map(|ended| {
                    if let Ok((index, result)) = ended
                        && let Some(slot) = self.slots.get_mut(index)
                    {
                        slot.state = State::Done(Box::new(result));
                    }
                })
                .is_some()
            {}
        };
        if tokio::time::timeout(STOP_GRACE, all).await.is_err() {
            self.running.abort_all();
            while self.running.join_next().await.is_some() {}
        }
        for slot in &mut self.slots {
            if matches!(slot.state, State::Queued(_) | State::Running { .. }) {
                slot.state = State::Done(Box::new(cancelled()));
            }
        }
    }

    /// The calls whose tool was started and whose results were handed out: name, input and what came
    /// of it.
    pub(crate) fn effects(&mut self) -> Vec<(String, Value, String)> {
        while self.deliver().is_some() {}
        std::mem::take(&mut self.effects)
    }
}
