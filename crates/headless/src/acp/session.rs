//! One session of the editor: its prompts, its events, its questions.

use super::capabilities::ClientCapabilities;
use super::choices::Choices;
use super::client::Client;
use super::questions;
use super::updates::{Updates, chunk};
use super::wire::{AUTH_REQUIRED, CANCELLED, RpcError};
use lathe_commands::CommandOutcome;
use lathe_engine::{EventStream, SessionHandle};
use lathe_protocol::command::{BuiltinCommand, Invocation};
use lathe_protocol::event::{Event, NoticeLevel, SessionState, TerminalReason, TurnResult};
use lathe_protocol::ids::{RecordId, RequestId};
use lathe_protocol::op::{Op, Prompt};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::task::AbortHandle;

/// The most events that are shown before the client's room is looked at again.
const EVENTS_AT_ONCE: usize = 32;

/// A session that is open.
pub(super) struct OpenSession {
    pub(super) id: String,
    pub(super) handle: Arc<SessionHandle>,
    pub(super) choices: Choices,
    client: Client,
    able: ClientCapabilities,
    prompts: Mutex<Prompts>,
    /// The commands that the client was told of.
    commands: Mutex<Value>,
}

/// Requests of the client that wait for a turn, or for a compaction, to end.
#[derive(Default)]
struct Prompts {
    waiting: Vec<Waiting>,
    compacting: Option<Value>,
}

struct Waiting {
    /// The record that the prompt becomes.
    uuid: RecordId,
    /// The client's request.
    request: Value,
    accepted: bool,
    cancelled: Option<Cancelled>,
}

/// Who took a prompt back, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// `session/cancel`: the prompt is answered.
    Turn,
    /// `$/cancel_request`: the request fails.
    Request,
}

impl OpenSession {
    pub(super) fn new(
        handle: Arc<SessionHandle>,
        client: Client,
        able: ClientCapabilities,
        allow_bypass: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: handle.session_id().to_string(),
            choices: Choices::new(able, allow_bypass),
            handle,
            client,
            able,
            prompts: Mutex::default(),
            commands: Mutex::default(),
        })
    }

    /// The answer to a request that opened the session.
    pub(super) fn opened(&self) -> Value {
        json!({
            "sessionId": self.id,
            "modes": self.choices.modes(&self.handle),
            "configOptions": self.choices.options(&self.handle),
        })
    }

    fn update(&self, update: &Value) {
        self.client.update(&self.id, update);
    }

    /// Tells the client of a change to the options.
    pub(super) fn options_changed(&self) {
        let options = self.choices.options(&self.handle);
        self.update(&json!({"sessionUpdate": "config_option_update", "configOptions": options}));
    }

    /// Sends the commands if they are others than before.
    pub(super) fn show_commands(&self) {
        let registry = self.handle.extensions().commands();
        let listed = registry.listed().filter(|command| {
            // The editor has its own way to begin and end a conversation.
            ![BuiltinCommand::Clear.name(), BuiltinCommand::Exit.name()]
                .contains(&command.name.as_str())
        });
        let commands: Vec<Value> = listed
            .map(|command| {
                let mut shown = json!({"name": command.name, "description": command.description});
                if let Some(hint) = &command.argument_hint {
                    shown["input"] = json!({"hint": hint});
                }
                shown
            })
            .collect();
        let commands = Value::from(commands);
        let mut told = self.commands.lock();
        if *told != commands {
            told.clone_from(&commands);
            drop(told);
            self.update(&json!({
                "sessionUpdate": "available_commands_update", "availableCommands": commands,
            }));
        }
    }

    /// Takes a prompt. It is answered when its turn is over.
    pub(super) fn submit(&self, prompt: Prompt, request: Value) {
        self.prompts.lock().waiting.push(Waiting {
            uuid: prompt.uuid,
            request,
            accepted: false,
            cancelled: None,
        });
        self.handle.send(Op::Prompt(prompt));
    }

    /// Runs a command; one that is a prompt for the model is passed on.
    pub(super) async fn command(&self, prompt: Prompt, command: Invocation, request: Value) {
        let answer = match lathe_commands::run(&self.handle, &command).await {
            CommandOutcome::Prompt => return self.submit(prompt, request),
            CommandOutcome::Answer(text) | CommandOutcome::Refused(text) => text,
            CommandOutcome::Clear => {
                "Start a new session in the editor for a new conversation.".to_owned()
            }
            CommandOutcome::Compact(instructions) => {
                self.prompts.lock().compacting = Some(request);
                self.handle.send(Op::Compact { instructions });
                return;
            }
        };
        self.update(&chunk("agent_message_chunk", &answer, None));
        self.show_commands();
        self.options_changed();
        self.client.respond(&request, Ok(stopped("end_turn")));
    }

    /// Stops the turn. Prompts that it hasn't begun with are answered now, the others when it has ended.
    pub(super) async fn cancel(&self, how: Cancelled) {
        self.handle.processed().await;
        let queued = self.handle.history().queued();
        self.handle.send(Op::Interrupt { drop_queued: true });
        let mut dropped = Vec::new();
        {
            let mut prompts = self.prompts.lock();
            prompts.waiting.retain_mut(|waiting| {
                waiting.cancelled = Some(how);
                let is_queued = queued.contains(&waiting.uuid);
                if is_queued {
                    dropped.push(waiting.request.clone());
                }
                !is_queued
            });
        }
        for request in dropped {
            self.client.respond(&request, cancelled(how));
        }
    }

    /// Whether a request is a prompt that isn't answered yet.
    pub(super) fn is_waiting(&self, request: &Value) -> bool {
        let prompts = self.prompts.lock();
        prompts
            .waiting
            .iter()
            .any(|waiting| waiting.request == *request)
    }

    /// Ends the session: nothing runs any more and everything is written.
    pub(super) fn end(&self) {
        self.handle.send(Op::Interrupt { drop_queued: true });
        self.handle.send(Op::Shutdown);
    }

    /// Shows events until the session has ended.
    pub(super) async fn follow(self: Arc<Self>, mut events: EventStream, mut updates: Updates) {
        let mut asked: HashMap<RequestId, AbortHandle> = HashMap::new();
        let mut title = None;
        loop {
            // A client that doesn't read holds the session back instead of filling the memory.
            self.client.host().room().await;
            let Some(first) = events.next().await else {
                break;
            };
            let _together = self.client.host().together();
            let mut next = Some(first);
            let mut left = EVENTS_AT_ONCE;
            while let Some(event) = next.take() {
                if matches!(event, Event::Compacted { .. }) && self.able.compactions {
                    self.tell_summary(&updates).await;
                }
                for update in updates.event(&event) {
                    self.update(&update);
                }
                match &event {
                    Event::SessionEnded => {
                        self.answer_rest();
                        return;
                    }
                    Event::TurnFinished(result) => {
                        self.tell_title(&mut title).await;
                        self.turn_finished(result);
                    }
                    _ => self.look(&event, &mut asked),
                }
                left -= 1;
                if left > 0 {
                    next = events.next_ready();
                }
            }
        }
        self.answer_rest();
    }

    fn look(&self, event: &Event, asked: &mut HashMap<RequestId, AbortHandle>) {
        let (client, session, able) = (self.client.clone(), self.handle.clone(), self.able);
        match event {
            Event::TurnStarted(_) => self.show_commands(),
            Event::PromptAccepted { record } => {
                let mut prompts = self.prompts.lock();
                let mut waiting = prompts.waiting.iter_mut();
                if let Some(waiting) = waiting.find(|waiting| waiting.uuid == record.uuid) {
                    waiting.accepted = true;
                }
            }
            Event::PermissionRequested(request) => {
                let (id, request) = (self.id.clone(), request.clone());
                let request_id = request.request_id.clone();
                let task = lathe_spawn::task(async move {
                    let answer = questions::permission(&client, able, &id, &request).await;
                    session.send(Op::PermissionReply {
                        request_id: request.request_id.clone(),
                        reply: answer.unwrap_or_else(|alone| alone),
                    });
                });
                asked.insert(request_id, task.abort_handle());
            }
            Event::ElicitationRequested(request) => {
                let (id, request) = (self.id.clone(), request.clone());
                let request_id = request.request_id.clone();
                let task = lathe_spawn::task(async move {
                    let answer = questions::elicitation(&client, able, &id, &request).await;
                    session.send(Op::ElicitationReply {
                        request_id: request.request_id.clone(),
                        reply: answer.unwrap_or_else(|alone| alone),
                    });
                });
                asked.insert(request_id, task.abort_handle());
            }
            Event::PermissionResolved { request_id, .. }
            | Event::ElicitationResolved { request_id, .. } => {
                if let Some(task) = asked.remove(request_id) {
                    task.abort();
                }
            }
            Event::ElicitationCompleted { elicitation_id, .. } if self.able.pages => {
                let params = json!({"elicitationId": elicitation_id});
                client.notify("elicitation/complete", &params);
            }
            Event::ModeChanged(mode) => {
                let mode = json!({
                    "sessionUpdate": "current_mode_update", "currentModeId": mode.name(),
                });
                self.update(&mode);
                self.options_changed();
            }
            Event::ModelFellBack { .. } => self.options_changed(),
            Event::StateChanged(SessionState::Idle) => {
                let compacted = self.prompts.lock().compacting.take();
                if let Some(request) = compacted {
                    self.tell_usage();
                    self.client.respond(&request, Ok(stopped("end_turn")));
                }
            }
            _ => {}
        }
    }

    /// How full the window is and what the session cost. An unknown price is left out.
    fn tell_usage(&self) {
        let usage = self.handle.context().usage();
        let totals = self.handle.history().totals();
        let mut update = json!({
            "sessionUpdate": "usage_update", "used": usage.used(), "size": usage.window,
        });
        if totals.unpriced_models.is_empty() {
            let cost: f64 = totals.models.values().map(|model| model.cost_usd).sum();
            update["cost"] = json!({"amount": cost, "currency": "USD"});
        }
        self.update(&update);
    }

    /// The summary that took the place of older conversation.
    async fn tell_summary(&self, updates: &Updates) {
        let transcript = self.handle.transcript().to_owned();
        let reading = lathe_spawn::blocking(move || {
            let loaded = lathe_session::load_tail(&transcript).ok()?;
            let mut messages = loaded.messages().rev();
            messages.find(|record| record.is_compact_summary).cloned()
        });
        if let Ok(Some(record)) = reading.await
            && let Some(update) = updates.summary(&record)
        {
            self.update(&update);
        }
    }

    /// The session's title, when it is another one.
    async fn tell_title(&self, told: &mut Option<String>) {
        let transcript = self.handle.transcript().to_owned();
        let reading = lathe_spawn::blocking(move || lathe_session::store::info(&transcript));
        let Ok(Some(info)) = reading.await else {
            return;
        };
        let title = info.custom_title.or(info.title).or(info.first_prompt);
        if title.is_some() && title != *told {
            self.update(&json!({
                "sessionUpdate": "session_info_update", "title": title,
                "updatedAt": info.modified.to_string(),
            }));
            *told = title;
        }
    }

    /// Answers the prompts of a turn that is over.
    fn turn_finished(&self, result: &TurnResult) {
        self.tell_usage();
        let mut over = Vec::new();
        self.prompts.lock().waiting.retain_mut(|waiting| {
            let ends = waiting.accepted || waiting.cancelled.is_some();
            if ends {
                over.push((waiting.request.clone(), waiting.cancelled));
            }
            !ends
        });
        for (request, how) in over {
            let outcome = match how {
                Some(how) => cancelled(how),
                None => outcome_of(&End::from(result)),
            };
            self.client.respond(&request, outcome);
        }
    }

    /// The session is over: nobody may wait for an answer for ever.
    fn answer_rest(&self) {
        let prompts = std::mem::take(&mut *self.prompts.lock());
        let waiting = prompts.waiting.into_iter().map(|waiting| waiting.request);
        for request in waiting.chain(prompts.compacting) {
            self.client.respond(&request, Ok(stopped("cancelled")));
        }
    }

    /// Shows a remark of the start.
    pub(super) fn remark(&self, updates: &Updates, text: &str) {
        for update in updates.notice(NoticeLevel::Warning, text) {
            self.update(&update);
        }
    }
}

/// How a turn ended, as far as it is told: read from the `result` frame of a session that runs elsewhere.
#[derive(Debug, Deserialize)]
pub struct End {
    terminal_reason: TerminalReason,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    result: String,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    api_error_status: Option<u16>,
}

impl From<&TurnResult> for End {
    fn from(result: &TurnResult) -> Self {
        Self {
            terminal_reason: result.terminal_reason,
            stop_reason: result.stop_reason.clone(),
            result: result.text.clone(),
            errors: result.errors.clone(),
            api_error_status: result.api_error_status,
        }
    }
}

pub(super) fn stopped(reason: &str) -> Value {
    json!({"stopReason": reason})
}

pub(super) fn cancelled(how: Cancelled) -> Result<Value, RpcError> {
    match how {
        Cancelled::Turn => Ok(stopped("cancelled")),
        Cancelled::Request => Err(RpcError::new(CANCELLED, "the request was cancelled")),
    }
}

/// The answer to a prompt whose turn ended like this.
pub(super) fn outcome_of(result: &End) -> Result<Value, RpcError> {
    use TerminalReason as R;
    let reason = match result.terminal_reason {
        R::AbortedStreaming | R::AbortedTools => "cancelled",
        R::MaxTurns | R::BudgetExhausted | R::RepeatedCalls => "max_turn_requests",
        R::Completed | R::StopHookPrevented | R::HookStopped | R::ToolDeferred => {
            match result.stop_reason.as_deref() {
                Some("max_tokens") => "max_tokens",
                Some("refusal") => "refusal",
                _ => "end_turn",
            }
        }
        R::ApiError
        | R::StructuredOutputRetryExhausted
        | R::PromptTooLong
        | R::ImageError
        | R::BlockingLimit
        | R::InternalError => {
            let words = if result.errors.is_empty() {
                result.result.clone()
            } else {
                result.errors.join("\n")
            };
            return Err(match result.api_error_status {
                Some(401 | 403) => RpcError::new(AUTH_REQUIRED, words),
                _ => RpcError::internal(words),
            });
        }
    };
    Ok(stopped(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_turn_has_an_answer() {
        use TerminalReason as R;
        let result = |reason: R, stop: Option<&str>, status: Option<u16>| TurnResult {
            session_id: lathe_protocol::ids::SessionId::random(),
            terminal_reason: reason,
            is_error: false,
            text: "why".into(),
            errors: Vec::new(),
            stop_reason: stop.map(str::to_owned),
            num_turns: 1,
            duration: std::time::Duration::ZERO,
            duration_api: std::time::Duration::ZERO,
            usage: lathe_protocol::usage::Usage::default(),
            total_cost_usd: 0.0,
            model_usage: indexmap::IndexMap::new(),
            permission_denials: Vec::new(),
            api_error_status: status,
            structured_output: None,
            deferred_tool_use: None,
            origin: None,
            times: lathe_protocol::event::TurnTimes::default(),
        };
        for (reason, stop, expected) in [
            (R::Completed, Some("end_turn"), "end_turn"),
            (R::Completed, Some("refusal"), "refusal"),
            (R::Completed, Some("max_tokens"), "max_tokens"),
            (R::MaxTurns, None, "max_turn_requests"),
            (R::AbortedTools, None, "cancelled"),
            (R::StopHookPrevented, None, "end_turn"),
        ] {
            assert_eq!(
                outcome_of(&End::from(&result(reason, stop, None))),
                Ok(stopped(expected))
            );
        }
        let failed = outcome_of(&End::from(&result(R::ApiError, None, Some(529)))).unwrap_err();
        assert_eq!(failed, RpcError::internal("why"));
        let key = outcome_of(&End::from(&result(R::ApiError, None, Some(401)))).unwrap_err();
        assert_eq!(key.code, AUTH_REQUIRED);
    }
}
