//! One step: a model call and the tool calls that come of it.
//!
//! The stream of deliveries and the running calls are waited for together, so a call begins while the
//! model still writes, and its result is in the transcript as soon as it is its turn. When an answer is
//! withdrawn, the conversation goes back to where it was; calls that had already begun are stopped, and
//! the model learns of their effects, so that nothing is silently done twice.

use crate::agents::fork;
use crate::call::executor::{Delivered, Executor};
use crate::context::room;
use crate::conversation::extraction;
use crate::conversation::magic_docs;
use crate::conversation::model_switch::tell_takeover;
use crate::conversation::records::{FailedRequest, reminder};
use crate::conversation::{Conversation, RunningTurn};
use crate::turn::decide::{CallEnding, Failure, Phase, StepOutcome, StructuredOutcome};
use crate::turn::display::{self, Words};
use crate::turn::frozen::Step;
use crate::turn::guard::Verdict;
use crate::turn::progress::{self, Thought};
use futures::StreamExt as _;
use lathe_model::{
    Amendment, CompletedBlock, Delivery, MessageAssembler, ModelError, ModelRequest, ToolInput,
};
use lathe_protocol::content::{ContentBlock, ToolUseBlock, joined_text};
use lathe_protocol::display::Display;
use lathe_protocol::event::{Event, News, NoticeLevel, Priority};
use lathe_protocol::ids::RecordId;
use lathe_protocol::message::StopReason;
use lathe_protocol::record::{Fact, MessageRecord, Record, RecordMessage};
use lathe_protocol::stream::{StreamEvent, StreamPiece};
use lathe_settings::instructions::InstructionFile;
use lathe_tools::{structured_output, task_list, todo_write};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After so long without a word of a server on this machine, the user is told why that may be.
const SLOW_START: Duration = Duration::from_secs(5);

/// The outcome of a step, with the parts that the turn reports.
pub(crate) struct StepReport {
    pub(crate) outcome: StepOutcome,
    /// The error behind a failure.
    pub(crate) error: Option<ModelError>,
    /// The text of the answer.
    pub(crate) text: Words,
    pub(crate) stop_reason: Option<StopReason>,
    /// The records of the answer and its results.
    pub(crate) records: Vec<RecordId>,
    /// The answer in the caller's shape.
    pub(crate) structured: Option<serde_json::Value>,
}

/// One try at an answer.
struct Attempt {
    assembler: MessageAssembler,
    executor: Executor,
    /// The records of this answer, in order.
    blocks: Vec<RecordId>,
    /// Every record that this attempt appended.
    records: Vec<RecordId>,
    /// Where the conversation stood before.
    base: Option<RecordId>,
    /// The id that this answer's records have in common.
    message_id: Option<String>,
    /// A block that is complete, kept back until the next event: at the end of an answer that event says how it
    /// ended and what it cost, which belongs into the record.
    held: Option<Held>,
    ending: Option<CallEnding>,
    texts: Vec<Words>,
    /// The calls with their results, for a hook that wants them together.
    batch: Vec<serde_json::Value>,
    /// Whether the model learns of the effects of a withdrawn attempt.
    told_effects: bool,
    /// Whether one of its calls asks for a fork.
    forks: bool,
    /// How much the model has thought.
    thought: Thought,
    /// Whether the answer in the caller's shape came, and that answer.
    structured: Option<(StructuredOutcome, serde_json::Value)>,
}

/// A complete block of an answer.
struct Held {
    record: MessageRecord,
    /// The call that it is, with whether its arguments can be used.
    call: Option<(ToolUseBlock, Option<ToolInput>)>,
    /// How long it is kept back at most.
    until: tokio::time::Instant,
}

/// How long a block is kept back at most.
const HOLDING: Duration = Duration::from_millis(20);

/// When a block that is kept back is due.
async fn due(held: Option<&Held>) {
    match held {
        Some(held) => tokio::time::sleep_until(held.until).await,
        None => std::future::pending().await,
    }
}

impl Conversation {
    /// Makes a model call and runs its tool calls.
    pub(crate) async fn step(
        &mut self,
        turn: &RunningTurn,
        step: &Step,
        request: ModelRequest,
    ) -> StepReport {
        self.context.meter.sending();
        self.ledger.note_request();
        *self.shared.state.last_request.lock() = Some(request.clone());
        let amendment = Amendment::default();
        let mut deliveries = lathe_model::run_amendable(
            self.shared.session.provider.clone(),
            request,
            step.policy.clone(),
            amendment.clone(),
            turn.cancel.clone(),
        );
        let mut attempt = self.attempt(turn, step);
        let asked = Instant::now();
        let mut error = None;
        let slow = tokio::time::sleep(SLOW_START);
        tokio::pin!(slow);
        let mut waits_on_local = self.local_provider(&step.choices.model);
        loop {
            tokio::select! {
                biased;
                () = turn.cancel.cancelled() => {
                    self.ledger.note_api_time(asked.elapsed());
                    self.keep_held(&mut attempt).await;
                    return self.cancelled(attempt, Phase::Streaming).await;
                }
                () = attempt.executor.next_done(), if attempt.executor.is_busy() => {
                    self.deliver(&mut attempt).await;
                }
                () = turn.steered.notified() => attempt.executor.interrupt_waiting(),
                () = &mut slow, if waits_on_local.is_some() => {
                    self.tell_slow_start(waits_on_local.take().as_deref());
                }
                () = due(attempt.held.as_ref()) => self.keep_held(&mut attempt).await,
                delivery = deliveries.next() => match delivery {
                    None => break,
                    Some(Err(ModelError::Cancelled)) => {
                        self.ledger.note_api_time(asked.elapsed());
                        self.keep_held(&mut attempt).await;
                    return self.cancelled(attempt, Phase::Streaming).await;
                    }
                    Some(Err(failure)) => {
                        error = Some(failure);
                        break;
                    }
                    Some(Ok(delivery)) => {
                        if matches!(delivery, Delivery::Event(_)) {
                            waits_on_local = None;
                        }
                        let retracted = matches!(
                            delivery,
                            Delivery::Retracted { .. } | Delivery::FellBack { .. }
                        );
                        let taken = self.take(turn, step, &mut attempt, delivery, &amendment);
                        if let Err(failure) = taken.await {
                            error = Some(failure);
                            break;
                        }
                        if retracted && attempt.told_effects {
                            // The request goes out again by itself; if this can't be written, the next one doesn't.
                            let _ = self.hand_over().await;
                            amendment.set(self.request_messages());
                        }
                    }
                },
            }
            if attempt.ending.is_some() {
                break;
            }
        }
        drop(deliveries);
        if error.is_none() {
            self.keep_held(&mut attempt).await;
        }
        self.ledger.note_api_time(asked.elapsed());
        for remark in self.shared.session.provider.remarks() {
            self.shared
                .events
                .news(News::new(Priority::Medium), NoticeLevel::Warning, remark);
        }
        if let Some(error) = error {
            return self.failed(turn, step, attempt, error).await;
        }
        self.run_out(turn, step, attempt).await
    }

    /// Ends a step whose answer was lost: its calls are stopped and the answer is withdrawn.
    async fn failed(
        &mut self,
        turn: &RunningTurn,
        step: &Step,
        mut attempt: Attempt,
        error: ModelError,
    ) -> StepReport {
        attempt.executor.stop("Not run: its answer was lost.").await;
        self.withdraw(turn, step, &mut attempt, "the model's answer was lost")
            .await;
        let failure = match &error {
            ModelError::PromptTooLong { .. } | ModelError::RequestTooLarge(_) => {
                room::judge_compaction(self, None);
                Failure::PromptTooLong
            }
            ModelError::ImageTooLarge { .. } | ModelError::PdfTooLarge { .. } => {
                Failure::MediaRejected
            }
            _ => Failure::Other,
        };
        StepReport {
            outcome: StepOutcome::Failed(failure),
            error: Some(error),
            text: Words::default(),
            stop_reason: None,
            records: Vec::new(),
            structured: None,
        }
    }

    /// The provider of a model, if it is on this machine.
    fn local_provider(&self, model: &str) -> Option<String> {
        let providers = self.shared.session.catalog.providers();
        let entry = providers.get(providers.located(model).provider)?;
        entry.is_local().then(|| entry.name.clone())
    }

    /// A server on this machine says nothing while it loads a model or reads a prompt.
    fn tell_slow_start(&self, provider: Option<&str>) {
        self.shared.events.news(
            News::of("no-answer", Priority::Medium),
            NoticeLevel::Info,
            format!(
                "No answer yet: {} may be loading the model or reading the prompt.",
                provider.unwrap_or("the server")
            ),
        );
    }

    fn attempt(&self, turn: &RunningTurn, step: &Step) -> Attempt {
        let group = turn.cancel.child_token();
        Attempt {
            assembler: MessageAssembler::default(),
            executor: Executor::new(step.calls.clone(), group),
            blocks: Vec::new(),
            records: Vec::new(),
            base: self.tip,
            message_id: None,
            held: None,
            ending: None,
            texts: Vec::new(),
            batch: Vec::new(),
            told_effects: false,
            forks: false,
            thought: Thought::default(),
            structured: None,
        }
    }

    async fn take(
        &mut self,
        turn: &RunningTurn,
        step: &Step,
        attempt: &mut Attempt,
        delivery: Delivery,
        amendment: &Amendment,
    ) -> Result<(), ModelError> {
        match delivery {
            Delivery::Requesting { .. } => {
                self.shared.hooks.note_request();
                self.shared.events.send(Event::Requesting);
            }
            Delivery::Event(event) => {
                self.take_event(turn, attempt, event, amendment).await?;
                // A face that reads slowly holds the stream back, but never a cancellation.
                if self.shared.events.is_full() {
                    tokio::select! {
                        () = self.shared.events.room() => {}
                        () = turn.cancel.cancelled() => {}
                    }
                }
            }
            Delivery::Retracted { reason } => {
                attempt
                    .executor
                    .stop("Not run: its answer was withdrawn.")
                    .await;
                self.withdraw(turn, step, attempt, &reason).await;
            }
            Delivery::Retrying {
                attempt: number,
                max_retries,
                delay,
                status,
                error,
                ..
            } => {
                tracing::info!(
                    attempt = number,
                    ?status,
                    error,
                    "retrying the model request"
                );
                let failed = FailedRequest {
                    attempt: number,
                    max_retries,
                    delay,
                    status,
                    error: &error,
                };
                let record = self.records.retry(self.tip, &failed);
                self.append(record);
                if attempt.blocks.is_empty() {
                    attempt.base = self.tip;
                }
                self.shared.events.send(Event::Retrying {
                    attempt: number,
                    max_retries,
                    delay,
                    status,
                    error,
                });
            }
            Delivery::FellBack { from, to, reason } => {
                self.model.clone_from(&to);
                self.history.set_model(&to);
                self.shared.events.send(Event::ModelFellBack {
                    from: from.clone(),
                    to: to.clone(),
                    reason,
                });
                tell_takeover(&self.shared, &from, &to).await;
            }
        }
        Ok(())
    }

    async fn take_event(
        &mut self,
        turn: &RunningTurn,
        attempt: &mut Attempt,
        event: StreamPiece,
        amendment: &Amendment,
    ) -> Result<(), ModelError> {
        if matches!(event.event, StreamEvent::Ping) {
            return Ok(());
        }
        if matches!(event.event, StreamEvent::MessageStart { .. }) {
            // Now there is time to take over the user's shell start-up files; the first request was not
            // held up by it.
            self.shared.tools.shell.prepare();
        }
        let request = || amendment.request_id();
        progress::note(self, turn, &mut attempt.thought, &event.event, request);
        let withheld = display::is_withheld(&self.shared, &event.event);
        let completed = if self.shared.events.wants_pieces() && !withheld {
            let event = Arc::new(event);
            self.shared.events.send(Event::Stream {
                event: event.clone(),
                parent_tool_use_id: self.parent_tool_use_id.clone(),
            });
            attempt.assembler.feed(&event.event)?
        } else {
            attempt.assembler.feed(&event.event)?
        };
        self.keep_held(attempt).await;
        if let Some(completed) = completed.filter(|completed| !completed.block.is_blank()) {
            self.hold(turn, attempt, completed, amendment).await;
        }
        Ok(())
    }

    /// Shows a block that is complete, and keeps it back for a moment.
    async fn hold(
        &mut self,
        turn: &RunningTurn,
        attempt: &mut Attempt,
        completed: CompletedBlock,
        amendment: &Amendment,
    ) {
        let Some(header) = attempt.assembler.header() else {
            return;
        };
        let parent = attempt.blocks.last().copied().or(attempt.base);
        let said = match &completed.block {
            ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        };
        let call = match &completed.block {
            ContentBlock::ToolUse(call) => Some((call.clone(), completed.tool_input)),
            _ => None,
        };
        let mut record = self.records.assistant(parent, header, completed.block);
        record.request_id = amendment.request_id();
        self.give_own_id(attempt, &mut record);
        self.shared.note_folder(&mut record);
        attempt.blocks.push(record.uuid);
        attempt.records.push(record.uuid);
        let shown = display::of_block(&self.shared, turn, &record).await;
        if let Some(said) = said {
            let shown = shown.as_ref().and_then(|record| record.message.as_ref());
            let shown = shown.map(RecordMessage::text).unwrap_or_default();
            attempt.texts.push(Words { said, shown });
        }
        if let Some(record) = shown {
            self.shared.events.send(Event::Record {
                record,
                parent_tool_use_id: self.parent_tool_use_id.clone(),
            });
        }
        attempt.held = Some(Held {
            record,
            call,
            until: tokio::time::Instant::now() + HOLDING,
        });
    }

    /// Appends a block that was kept back, and runs it if it is a call.
    async fn keep_held(&mut self, attempt: &mut Attempt) {
        let Some(Held {
            mut record, call, ..
        }) = attempt.held.take()
        else {
            return;
        };
        if let (Some(header), Some(RecordMessage::Assistant(message))) =
            (attempt.assembler.header(), &mut record.message)
        {
            message.usage.clone_from(&header.usage);
            message.stop_reason.clone_from(&header.stop_reason);
            message.stop_sequence.clone_from(&header.stop_sequence);
        }
        let uuid = record.uuid;
        self.take_in(Record::Message(Box::new(record)));
        self.tip = Some(uuid);
        let Some((mut meant, input)) = call else {
            return;
        };
        if let Some(name) = self.shared.session.tool_aliases.get(&meant.name) {
            meant.name.clone_from(name);
        }
        attempt.forks |= meant.input.get("subagent_type").and_then(|it| it.as_str())
            == Some(lathe_tools::agent::FORK);
        // A call that runs is known to have been made, however this process ends.
        let written = self.transcript.flush().await;
        attempt
            .executor
            .submit(&meant, input.as_ref(), uuid, written.err());
        // A call that was refused at once has its result already.
        self.deliver(attempt).await;
    }

    /// Sees to it that an answer's id is its own: what belongs together is known by it, and servers of
    /// other makers give every answer the same one, or none.
    fn give_own_id(&self, attempt: &mut Attempt, record: &mut MessageRecord) {
        let Some(RecordMessage::Assistant(message)) = &mut record.message else {
            return;
        };
        let id = attempt.message_id.get_or_insert_with(|| {
            if message.id.is_empty() || self.history.knows_message(&message.id) {
                format!("msg_{}", RecordId::random())
            } else {
                message.id.clone()
            }
        });
        message.id.clone_from(id);
    }

    /// The answer is complete: waits for its calls.
    async fn run_out(
        &mut self,
        turn: &RunningTurn,
        step: &Step,
        mut attempt: Attempt,
    ) -> StepReport {
        if attempt.forks {
            fork::publish_fork_point(self, step);
        }
        while attempt.executor.is_busy() && attempt.ending.is_none() {
            tokio::select! {
                biased;
                () = turn.cancel.cancelled() => return self.cancelled(attempt, Phase::Tools).await,
                () = attempt.executor.next_done() => self.deliver(&mut attempt).await,
                () = turn.steered.notified() => attempt.executor.interrupt_waiting(),
            }
        }
        if attempt.ending.is_some() {
            attempt
                .executor
                .stop("Not run: the turn ended before it.")
                .await;
        }
        self.deliver(&mut attempt).await;

        let calls = attempt.executor.count();
        if calls > 0 {
            let batch = std::mem::take(&mut attempt.batch);
            let (record, ending) = progress::after_batch(self, batch).await;
            attempt.records.extend(record);
            attempt.ending = attempt.ending.or(ending);
        }
        let mut stop_reason = None;
        if let Some(header) = attempt.assembler.header().cloned() {
            self.ledger
                .note_response(&header.model, &header.usage, &self.shared.session.catalog);
            self.context.meter.answered(&header.usage);
            room::judge_compaction(self, Some(header.usage.total_input()));
            self.last_usage = Some(header.usage.clone());
            stop_reason = header.stop_reason;
        }
        let (structured_output, structured) = match attempt.structured {
            Some((StructuredOutcome::Valid, value)) => {
                (Some(StructuredOutcome::Valid), Some(value))
            }
            Some((StructuredOutcome::Invalid, _)) => (Some(StructuredOutcome::Invalid), None),
            None => (None, None),
        };
        StepReport {
            outcome: StepOutcome::Answered {
                stop_reason: stop_reason.clone(),
                calls,
                structured_output,
                ending: attempt.ending,
            },
            error: None,
            text: Words::of_blocks(&attempt.texts),
            stop_reason,
            records: attempt.records,
            structured,
        }
    }

    /// Appends the results that are due, in the order of the calls.
    async fn deliver(&mut self, attempt: &mut Attempt) {
        let mut added = Vec::new();
        let mut loaded = Vec::new();
        while let Some(delivered) = attempt.executor.deliver() {
            self.deliver_one(attempt, delivered, &mut added, &mut loaded);
        }
        if !added.is_empty() {
            let record = self.records.meta(self.tip, reminder(&added.join("\n\n")));
            let uuid = self.append(record);
            attempt.records.push(uuid);
        }
        self.shared.hooks.instructions_loaded(&loaded).await;
    }

    fn deliver_one(
        &mut self,
        attempt: &mut Attempt,
        delivered: Delivered,
        added: &mut Vec<String>,
        loaded: &mut Vec<InstructionFile>,
    ) {
        let Delivered {
            id,
            name,
            input,
            record: call,
            result,
        } = delivered;
        self.context.upkeep.calls_since_notes += 1;
        magic_docs::note_documents(self, &name, &result.touched);
        extraction::note_remembered(self, &name, &result.touched);
        let (lines_added, lines_removed) = changed_lines(&result.display);
        self.ledger
            .note_call(result.elapsed, lines_added, lines_removed);
        let window = room::window_of_model(self);
        let is_small = crate::context::lean::is_small_model(&self.model, window);
        match self
            .guard
            .note(&name, &input, &result.content.text(), is_small)
        {
            Verdict::Fine => {}
            Verdict::Remind { count } => added.push(format!(
                "You have made the same {name} call {count} times in a row with the same result. It won't change: try something else, or say what blocks you."
            )),
            Verdict::Stop { count } => {
                attempt.ending.get_or_insert(CallEnding::Repeated {
                    reason: format!(
                        "The same {name} call was made {count} times in a row with the same result, so the turn was ended"
                    ),
                });
            }
        }
        if self.shared.hooks.wants_batches() {
            attempt.batch.push(serde_json::json!({
                "tool_name": name, "tool_input": input, "tool_use_id": id,
                "tool_response": result.content.text(),
            }));
        }
        if let Some(denial) = result.denial {
            self.denials.push(denial);
        }
        if let Some(ending) = result.ending {
            attempt.ending.get_or_insert(ending);
        }
        added.extend(result.added_context);
        for file in self.touched_instructions(&result.touched) {
            added.push(format!(
                "Instructions for this part of the project, from {}:\n{}",
                file.path.display(),
                file.text_with_notice()
            ));
            loaded.push(file);
        }
        if self.shared.integrations.extensions.touched(&result.touched) {
            self.shared.events.send(Event::CommandsChanged);
        }
        if name == structured_output::NAME && self.fixed.limits.structured_output {
            let valid = if result.is_error {
                StructuredOutcome::Invalid
            } else {
                StructuredOutcome::Valid
            };
            if !matches!(attempt.structured, Some((StructuredOutcome::Valid, _))) {
                attempt.structured = Some((valid, result.structured.clone()));
            }
        }
        if !result.is_error {
            self.note_task_list(&name);
        }
        self.shared.events.send(Event::CallFinished {
            tool_use_id: id.clone(),
            tool_name: name,
            display: result.display,
            is_error: result.is_error,
            elapsed: result.elapsed,
        });
        let block = ContentBlock::tool_result(id, result.content, result.is_error);
        let record = self
            .records
            .tool_result(call, block, result.structured, result.elapsed);
        let uuid = self.append(record);
        attempt.records.push(uuid);
    }

    /// Instruction files that come with the files that were touched.
    fn touched_instructions(&self, paths: &[std::path::PathBuf]) -> Vec<InstructionFile> {
        let mut instructions = self.shared.state.instructions.lock();
        let Some(instructions) = instructions.as_mut() else {
            return Vec::new();
        };
        let touched = paths.iter().flat_map(|path| instructions.on_touch(path));
        touched.collect()
    }

    /// Notes that a call was about the task list.
    fn note_task_list(&mut self, tool: &str) {
        if tool == todo_write::NAME {
            self.keep_todos();
        } else if task_list::NAMES.contains(&tool) {
            self.context.reminders.since_todo = 0;
        }
    }

    /// Keeps the task list with the session.
    fn keep_todos(&mut self) {
        self.context.reminders.since_todo = 0;
        let todos = serde_json::to_value(&*self.shared.tools.todos.lock()).unwrap_or_default();
        self.append_fact(Fact::TodoList {
            todos,
            session_id: self.shared.session.id,
        });
    }

    /// Takes an answer back. The executor has been stopped before.
    async fn withdraw(
        &mut self,
        turn: &RunningTurn,
        step: &Step,
        attempt: &mut Attempt,
        reason: &str,
    ) {
        if let Some(header) = attempt.assembler.header() {
            // What was withdrawn has been paid for all the same.
            self.ledger.note_response(
                &header.model.clone(),
                &header.usage.clone(),
                &self.shared.session.catalog,
            );
        }
        let effects = attempt.executor.effects();
        self.shared.events.send(Event::Retracted {
            records: std::mem::take(&mut attempt.records),
            reason: reason.to_owned(),
        });
        self.rewind_to(attempt.base);
        let told_effects = attempt.told_effects || !effects.is_empty();
        *attempt = Attempt {
            told_effects,
            ..self.attempt(turn, step)
        };
        if !effects.is_empty() {
            let mut text = "An earlier attempt at your answer was lost in transit, after these calls had already run. Their effects are real; check before you repeat any of them:".to_owned();
            for (name, input, result) in effects {
                let result: String = result.chars().take(500).collect();
                let _ = write!(text, "\n- {name} {input}\n  gave: {result}");
            }
            let record = self.records.meta(self.tip, reminder(&text));
            self.append(record);
            attempt.base = self.tip;
        }
    }

    /// The user interrupted: everything is stopped, every call gets a result, what was said stays.
    async fn cancelled(&mut self, mut attempt: Attempt, phase: Phase) -> StepReport {
        // A call that was made a moment ago may have been answered as interrupted before it began.
        let ends_with_call = attempt.executor.count() > 0
            && attempt.executor.newest() == attempt.blocks.last().copied();
        let phase = if attempt.executor.owes_results() || ends_with_call {
            Phase::Tools
        } else {
            phase
        };
        attempt
            .executor
            .stop("The call was stopped: the user interrupted.")
            .await;
        let (mut added, mut loaded) = (Vec::new(), Vec::new());
        while let Some(delivered) = attempt.executor.deliver() {
            self.deliver_one(&mut attempt, delivered, &mut added, &mut loaded);
        }
        if let Some(header) = attempt.assembler.header() {
            self.ledger.note_response(
                &header.model.clone(),
                &header.usage.clone(),
                &self.shared.session.catalog,
            );
        }
        let unfinished = attempt
            .assembler
            .partial()
            .filter(|_| !attempt.assembler.is_complete());
        if let Some(partial) = unfinished
            && let Some(block) = partial.content.get(attempt.blocks.len()).cloned()
        {
            let said = joined_text(std::slice::from_ref(&block));
            let is_hidden = display::is_for_hooks(&self.shared);
            let shown = if is_hidden { "" } else { &said };
            let shown = shown.to_owned();
            attempt.texts.push(Words { said, shown });
            let parent = attempt.blocks.last().copied().or(attempt.base);
            let parent = if attempt.executor.count() > 0 {
                self.tip
            } else {
                parent
            };
            let mut record = self.records.assistant(parent, &partial, block);
            self.give_own_id(&mut attempt, &mut record);
            record.extra.insert("aborted".into(), true.into());
            if is_hidden {
                self.shared.note_folder(&mut record);
                let uuid = record.uuid;
                self.take_in(Record::Message(Box::new(record)));
                self.tip = Some(uuid);
            } else {
                self.append(record);
            }
        }
        StepReport {
            outcome: StepOutcome::Cancelled(phase),
            error: None,
            text: Words::of_blocks(&attempt.texts),
            stop_reason: None,
            records: attempt.records,
            structured: None,
        }
    }
}

/// How many lines a change added and removed.
fn changed_lines(display: &Display) -> (u64, u64) {
    let Display::Diff { hunks, .. } = display else {
        return (0, 0);
    };
    let mut counts = (0, 0);
    for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
        match line.as_bytes().first() {
            Some(b'+') => counts.0 += 1,
            Some(b'-') => counts.1 += 1,
            _ => {}
        }
    }
    counts
}
