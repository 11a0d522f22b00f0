//! Small questions beside the conversation that a host may want the answers of: what the user may say
//! next, what the calls of a step did, and what agents are doing. They never hold anything up, and never outlive the session.

use super::host::Host;
use super::progress::Progress;
use indexmap::IndexMap;
use lathe_engine::SessionHandle;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::event::{Event, TurnResult};
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::record::MessageRecord;
use lathe_settings::{Environment, Variable};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The helpers of a session.
#[derive(Default)]
pub(super) struct Helpers {
    suggests: bool,
    sums_up: bool,
    turns: usize,
    /// The calls of the present step that have no result yet.
    open: IndexMap<ToolUseId, (String, String)>,
    /// Those that have.
    done: Vec<Done>,
    suggesting: CancellationToken,
    cancel: CancellationToken,
    progress: Progress,
}

struct Done {
    id: ToolUseId,
    name: String,
    input: String,
    output: String,
}

impl Helpers {
    /// The helpers that the environment enables. Suggestions are enabled by the host.
    pub(super) fn new(environment: &Environment) -> Self {
        let mut helpers = Self::default();
        helpers.sums_up = environment.is_on(Variable::ToolUseSummaries);
        helpers
    }

    /// The host wants to know what the user may say next.
    pub(super) fn suggest(&mut self, environment: &Environment) {
        self.suggests = environment.switch(Variable::PromptSuggestions) != Some(false);
    }

    /// The host wants to know what agents are doing.
    pub(super) fn follow_agents(&mut self, environment: &Environment) {
        self.progress.tell(environment);
    }

    /// Looks at what happened, and asks where something is wanted.
    pub(super) fn look(&mut self, event: &Event, session: &Arc<SessionHandle>, host: &Host) {
        self.progress.look(event, session, host);
        match event {
            Event::PromptAccepted { .. } => self.suggesting.cancel(),
            Event::Record {
                record,
                parent_tool_use_id: None,
            } if self.sums_up => self.note(record),
            Event::Requesting if self.sums_up => self.sum_up(session, host),
            Event::TurnFinished(result) => {
                if self.sums_up {
                    self.sum_up(session, host);
                }
                self.turns += 1;
                if self.suggests && self.turns > 1 {
                    self.ask_for_prompt(result, session, host);
                }
            }
            _ => {}
        }
    }

    fn ask_for_prompt(&mut self, result: &TurnResult, session: &Arc<SessionHandle>, host: &Host) {
        let settings = session.settings().json();
        let off = ["promptSuggestions", "promptSuggestionEnabled"]
            .iter()
            .any(|key| settings.get(*key) == Some(&Value::Bool(false)));
        if result.is_error || off || session.permissions().mode() == PermissionMode::Plan {
            return;
        }
        self.suggesting = self.cancel.child_token();
        let cancel = self.suggesting.clone();
        let asking = session.side_questions().next_prompt_later(cancel.clone());
        let (host, session_id) = (host.clone(), session.session_id());
        lathe_spawn::task(async move {
            let suggestion = asking.await;
            if let Some(suggestion) = suggestion.filter(|_| !cancel.is_cancelled()) {
                host.send(json!({
                    "type": "prompt_suggestion", "suggestion": suggestion,
                    "uuid": RecordId::random(), "session_id": session_id,
                }));
            }
        });
    }

    /// Keeps calls and their results until the step is over.
    fn note(&mut self, record: &MessageRecord) {
        let Some(message) = &record.message else {
            return;
        };
        for block in message.blocks() {
            match block {
                ContentBlock::ToolUse(call) => {
                    let facts = (call.name.clone(), call.input.to_string());
                    self.open.insert(call.id, facts);
                }
                ContentBlock::ToolResult(result) => {
                    let output = result.content.map(|content| content.text());
                    if let Some((name, input)) = self.open.shift_remove(&result.tool_use_id) {
                        self.done.push(Done {
                            id: result.tool_use_id,
                            name,
                            input,
                            output: output.unwrap_or_default(),
                        });
                    }
                }
                _ => {}
            }
        }
    }

    fn sum_up(&mut self, session: &Arc<SessionHandle>, host: &Host) {
        let done = std::mem::take(&mut self.done);
        if done.is_empty() {
            return;
        }
        let (session, host, cancel) = (session.clone(), host.clone(), self.cancel.clone());
        lathe_spawn::task(async move {
            let joined = |part: fn(&Done) -> &str| -> String {
                done.iter().map(part).collect::<Vec<_>>().join("\n")
            };
            let (names, inputs, outputs) = (
                joined(|call| &call.name),
                joined(|call| &call.input),
                joined(|call| &call.output),
            );
            let summary = session
                .side_questions()
                .tool_use(&names, &inputs, &outputs, &cancel)
                .await;
            if let Some(summary) = summary.filter(|_| !cancel.is_cancelled()) {
                let ids: Vec<&ToolUseId> = done.iter().map(|call| &call.id).collect();
                host.send(json!({
                    "type": "tool_use_summary", "summary": summary,
                    "preceding_tool_use_ids": ids,
                    "uuid": RecordId::random(), "session_id": session.session_id(),
                }));
            }
        });
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
