//! The adapter between the engine's events and `session/update`: pure, and the same for a conversation that
//! is live and one that is loaded.
//!
//! The state of calls (tool, input, updates sent so far) is kept here; nothing else is
//! decided. A model's words come as they are streamed, everything else from the records.

use super::capabilities::ClientCapabilities;
use super::replayed::Replayed;
use super::tool_calls;
use lathe_engine::SessionHandle;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::display::{Display, TodoItem, TodoStatus};
use lathe_protocol::event::{Event, HookNotice, NoticeLevel, TaskNotice, TaskStatus};
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::record::{MessageRecord, RecordKind, RecordMessage};
use lathe_protocol::stream::{Delta, StreamEvent};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// How the transcript marks an interruption.
const INTERRUPTED: &str = "[Request interrupted by user";
/// How many bytes of a running command's output an update shows.
const LONGEST_TAIL: usize = 8 * 1024;

/// Makes updates of events and records.
#[derive(Debug, Default)]
pub struct Updates {
    client: ClientCapabilities,
    calls: HashMap<String, Call>,
    /// The message that is being streamed.
    streaming: String,
    /// Whether its words were sent as they came.
    streamed: bool,
    /// The compaction that runs, and how many there were.
    compaction: Option<String>,
    compactions: usize,
    /// Whether the conversation is one that is loaded.
    replaying: bool,
}

#[derive(Debug)]
struct Call {
    tool: String,
    input: Value,
}

impl Updates {
    /// Updates for a client that can do this much.
    #[must_use]
    pub fn new(client: ClientCapabilities) -> Self {
        Self {
            client,
            ..Self::default()
        }
    }

    /// The updates of a conversation that was held before, in order.
    pub fn replay<'a>(&mut self, records: impl Iterator<Item = &'a Replayed>) -> Vec<Value> {
        self.replaying = true;
        let mut updates = Vec::new();
        for Replayed { record, parent } in records {
            if parent.is_some() {
                // Of an agent, its calls are shown, below the call that runs it.
                updates.extend(self.record(record, parent.as_ref()));
            } else if record.is_compact_boundary() {
                updates.extend(self.compaction_began());
                updates.extend(self.compaction_ended("completed", None));
            } else if record.is_prompt() {
                updates.extend(prompt(record));
            } else if record.is_compact_summary {
                updates.extend(self.summary(record));
            } else if !record.is_meta {
                updates.extend(self.plan_of(record));
                updates.extend(self.record(record, None));
            }
        }
        updates
    }

    /// The conversation that was replayed continues, with the calls that still run.
    pub(super) fn goes_on(&mut self) {
        self.replaying = false;
    }

    /// The updates of an event.
    pub fn event(&mut self, event: &Event) -> Vec<Value> {
        match event {
            Event::Stream {
                event,
                parent_tool_use_id: None,
            } => self.piece(&event.event).into_iter().collect(),
            Event::Record {
                record,
                parent_tool_use_id,
            } => self.record(record, parent_tool_use_id.as_ref()),
            Event::Retracted { reason, .. } => self.retracted(reason),
            Event::CallStarted { tool_use_id, .. } => {
                vec![json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": tool_use_id,
                    "status": "in_progress",
                })]
            }
            Event::CallProgress {
                tool_use_id,
                display,
                ..
            } => progress(tool_use_id, display).into_iter().collect(),
            Event::CallFinished {
                display: Display::Todos { items },
                is_error: false,
                ..
            } => vec![plan(items)],
            Event::Retrying {
                attempt,
                max_retries,
                error,
                ..
            } => self.notice(
                NoticeLevel::Warning,
                &format!("Retrying ({attempt} of {max_retries}): {error}"),
            ),
            Event::ModelFellBack { from, to, reason } => self.notice(
                NoticeLevel::Warning,
                &format!("Switched from {from} to {to}: {reason}"),
            ),
            Event::Compacting => self.compaction_began(),
            Event::Compacted { .. } => self.compaction_ended("completed", None),
            Event::CompactionFailed { reason } => self.compaction_ended("failed", Some(reason)),
            Event::Notice { level, text, .. } => self.notice(*level, text),
            Event::Refused(refusal) => self.notice(NoticeLevel::Warning, &refusal.text()),
            Event::Hook(HookNotice::Finished {
                hook_name,
                stderr,
                outcome,
                ..
            }) if outcome == "error" && !stderr.trim().is_empty() => self.notice(
                NoticeLevel::Warning,
                &format!("Hook {hook_name}: {}", stderr.trim()),
            ),
            Event::Task(notice) => self.task(notice),
            _ => Vec::new(),
        }
    }

    /// A piece of the model's answer.
    fn piece(&mut self, event: &StreamEvent) -> Option<Value> {
        match event {
            StreamEvent::MessageStart { message } => {
                self.streaming.clone_from(&message.id);
                self.streamed = false;
                None
            }
            StreamEvent::ContentBlockStart {
                content_block: ContentBlock::ToolUse(call),
                ..
            } => {
                let known = Call {
                    tool: call.name.clone(),
                    input: Value::Null,
                };
                self.calls.insert(call.id.0.clone(), known);
                Some(json!({
                    "sessionUpdate": "tool_call", "toolCallId": call.id, "title": call.name,
                    "name": call.name, "kind": tool_calls::kind(&call.name), "status": "pending",
                }))
            }
            StreamEvent::ContentBlockDelta { delta, .. } => {
                let (kind, text) = match delta {
                    Delta::TextDelta { text } => ("agent_message_chunk", text),
                    Delta::ThinkingDelta { thinking } => ("agent_thought_chunk", thinking),
                    _ => return None,
                };
                if text.is_empty() {
                    return None;
                }
                self.streamed = true;
                Some(chunk(kind, text, Some(&self.streaming)))
            }
            _ => None,
        }
    }

    /// A record of the conversation, or of a sub-agent that a call runs.
    fn record(&mut self, record: &MessageRecord, parent: Option<&ToolUseId>) -> Vec<Value> {
        let Some(message) = &record.message else {
            return Vec::new();
        };
        match (record.kind, message) {
            (RecordKind::Assistant, RecordMessage::Assistant(message)) => {
                let streamed = self.streamed && self.streaming == message.id;
                let mut updates = Vec::new();
                for block in &message.content {
                    match block {
                        ContentBlock::Text(text) if !streamed && parent.is_none() => {
                            let id = Some(message.id.as_str());
                            updates.push(chunk("agent_message_chunk", &text.text, id));
                        }
                        ContentBlock::Thinking(thinking)
                            if !streamed && parent.is_none() && !thinking.thinking.is_empty() =>
                        {
                            let id = Some(message.id.as_str());
                            updates.push(chunk("agent_thought_chunk", &thinking.thinking, id));
                        }
                        ContentBlock::ToolUse(call) => {
                            updates.push(self.call(
                                call.id.as_str(),
                                &call.name,
                                &call.input,
                                parent,
                            ));
                        }
                        _ => {}
                    }
                }
                updates
            }
            (RecordKind::User, RecordMessage::Plain(_)) => message
                .blocks()
                .iter()
                .filter_map(ContentBlock::as_tool_result)
                .filter_map(|result| {
                    let call = self.calls.remove(result.tool_use_id.as_str())?;
                    let failed = result.is_error == Some(true);
                    let structured = record.tool_use_result.as_ref();
                    let content = match self.terminal_of(structured) {
                        Some(terminal) => vec![terminal],
                        None => tool_calls::outcome(
                            &call.tool,
                            &call.input,
                            structured,
                            result.content.as_ref(),
                            failed,
                        ),
                    };
                    let mut update = json!({
                        "sessionUpdate": "tool_call_update", "toolCallId": result.tool_use_id,
                        "status": if failed { "failed" } else { "completed" },
                        "content": content,
                    });
                    if let (Some(raw), Some(fields)) =
                        (&record.tool_use_result, update.as_object_mut())
                    {
                        fields.insert("rawOutput".to_owned(), raw.clone());
                    }
                    Some(update)
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The client's terminal in which a command ran, while it is there: in a conversation that is loaded it is gone.
    fn terminal_of(&self, structured: Option<&Value>) -> Option<Value> {
        let id = structured?.get("terminalId")?.as_str()?;
        (!self.replaying).then(|| tool_calls::terminal_content(id))
    }

    /// A call with everything that is known of it before it runs.
    fn call(&mut self, id: &str, tool: &str, input: &Value, parent: Option<&ToolUseId>) -> Value {
        let known = Call {
            tool: tool.to_owned(),
            input: input.clone(),
        };
        let begun = self.calls.insert(id.to_owned(), known).is_some();
        let mut update = json!({
            "sessionUpdate": if begun { "tool_call_update" } else { "tool_call" },
            "toolCallId": id,
            "title": tool_calls::title(tool, input),
            "name": tool,
            "kind": tool_calls::kind(tool),
            "rawInput": input,
            "locations": tool_calls::locations(input),
            "content": tool_calls::proposal(tool, input),
        });
        if let Some(fields) = update.as_object_mut() {
            if !begun {
                fields.insert("status".to_owned(), "pending".into());
            }
            if let Some(parent) = parent {
                let meta = json!({"lathe": {"parentToolCallId": parent}});
                fields.insert("_meta".to_owned(), meta);
            }
        }
        update
    }

    /// The task list that a call set, of a conversation that is loaded.
    pub(super) fn plan_of(&self, record: &MessageRecord) -> Option<Value> {
        let message = record.message.as_ref()?;
        let blocks = message.blocks();
        let mut results = blocks.iter().filter_map(ContentBlock::as_tool_result);
        let items = results.find_map(|result| {
            let call = self.calls.get(result.tool_use_id.as_str())?;
            let set = call.tool == "TodoWrite" && result.is_error != Some(true);
            let items = set.then(|| call.input.get("todos").cloned())??;
            serde_json::from_value::<Vec<TodoItem>>(items).ok()
        })?;
        Some(plan(&items))
    }

    /// The request is repeated: calls that were announced and never run are over.
    fn retracted(&mut self, reason: &str) -> Vec<Value> {
        let unfinished = self
            .calls
            .iter()
            .filter(|(_, call)| call.input.is_null())
            .map(|(id, _)| id.clone());
        let unfinished: Vec<String> = unfinished.collect();
        let mut updates: Vec<Value> = Vec::new();
        for id in unfinished {
            self.calls.remove(&id);
            updates.push(json!({
                "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "failed",
                "content": [tool_calls::text_content(reason)],
            }));
        }
        updates.extend(self.notice(
            NoticeLevel::Warning,
            &format!("The answer so far is withdrawn: {reason}"),
        ));
        updates
    }

    fn task(&self, notice: &TaskNotice) -> Vec<Value> {
        match notice {
            TaskNotice::Progress {
                tool_use_id: Some(call),
                usage,
                last_tool_name,
                ..
            } => {
                let last = last_tool_name.as_deref().unwrap_or("…");
                let text = format!(
                    "{} tool uses · {} tokens · {last}",
                    usage.tool_uses, usage.total_tokens
                );
                vec![json!({
                    "sessionUpdate": "tool_call_update", "toolCallId": call,
                    "content": [tool_calls::text_content(&text)],
                })]
            }
            TaskNotice::Finished {
                status, summary, ..
            } => {
                let level = match status {
                    TaskStatus::Completed | TaskStatus::Stopped => NoticeLevel::Info,
                    TaskStatus::Failed => NoticeLevel::Warning,
                };
                self.notice(level, summary)
            }
            TaskNotice::Started { .. } | TaskNotice::Progress { .. } => Vec::new(),
        }
    }

    /// Something that the user should know. A client without notices is sent warnings and errors as text.
    pub fn notice(&self, level: NoticeLevel, text: &str) -> Vec<Value> {
        let severity = match level {
            NoticeLevel::Info | NoticeLevel::Notice => "info",
            NoticeLevel::Warning => "warning",
            NoticeLevel::Error => "error",
        };
        if self.client.notices {
            return vec![json!({
                "sessionUpdate": "notice", "severity": severity, "title": text,
            })];
        }
        match level {
            NoticeLevel::Info | NoticeLevel::Notice => Vec::new(),
            NoticeLevel::Warning | NoticeLevel::Error => {
                let text = format!("\n[{severity}] {text}\n");
                vec![chunk("agent_message_chunk", &text, None)]
            }
        }
    }

    fn compaction_began(&mut self) -> Vec<Value> {
        self.compactions += 1;
        let id = format!("compaction-{}", self.compactions);
        self.compaction = Some(id.clone());
        if !self.client.compactions {
            return Vec::new();
        }
        vec![json!({
            "sessionUpdate": "compaction_update", "compactionId": id, "status": "in_progress",
        })]
    }

    /// The summary that took the place of older conversation, for clients that show compactions.
    #[must_use]
    pub fn summary(&self, record: &MessageRecord) -> Option<Value> {
        let text = record.message.as_ref()?.text();
        let id = match &self.compaction {
            Some(id) => id.clone(),
            None => format!("compaction-{}", self.compactions.max(1)),
        };
        (self.client.compactions && !text.is_empty()).then(|| {
            json!({
                "sessionUpdate": "compaction_summary_chunk", "compactionId": id,
                "content": {"type": "text", "text": text},
            })
        })
    }

    fn compaction_ended(&mut self, status: &str, error: Option<&str>) -> Vec<Value> {
        let id = self.compaction.take().unwrap_or_else(|| {
            self.compactions += 1;
            format!("compaction-{}", self.compactions)
        });
        if self.client.compactions {
            let mut update = Map::new();
            update.insert("sessionUpdate".to_owned(), "compaction_update".into());
            update.insert("compactionId".to_owned(), id.into());
            update.insert("status".to_owned(), status.into());
            if let Some(error) = error {
                update.insert("error".to_owned(), error.into());
            }
            return vec![Value::Object(update)];
        }
        match error {
            Some(error) => self.notice(
                NoticeLevel::Warning,
                &format!("The conversation was not compacted: {error}"),
            ),
            None => self.notice(NoticeLevel::Info, "The conversation was summarised."),
        }
    }
}

/// A piece of a message.
#[must_use]
pub fn chunk(kind: &str, text: &str, message: Option<&str>) -> Value {
    let content = json!({"type": "text", "text": text});
    match message.filter(|message| !message.is_empty()) {
        Some(id) => json!({"sessionUpdate": kind, "content": content, "messageId": id}),
        None => json!({"sessionUpdate": kind, "content": content}),
    }
}

/// The user's words of a conversation that is loaded.
pub(super) fn prompt(record: &MessageRecord) -> Vec<Value> {
    let Some(message) = &record.message else {
        return Vec::new();
    };
    if message.text().starts_with(INTERRUPTED) {
        return Vec::new();
    }
    let blocks = message.blocks();
    let shown = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(text) if !text.text.is_empty() => {
            Some(chunk("user_message_chunk", &text.text, None))
        }
        _ => None,
    });
    shown.collect()
}

/// The end of a running command's output, or what else there is to show.
fn progress(call: &ToolUseId, display: &Display) -> Option<Value> {
    let text = match display {
        Display::Terminal { output: text, .. }
        | Display::Text { text }
        | Display::Markdown { text } => text,
        _ => return None,
    };
    if text.trim().is_empty() {
        return None;
    }
    let from = text.ceil_char_boundary(text.len().saturating_sub(LONGEST_TAIL));
    let tail = text.get(from..).unwrap_or_default();
    Some(json!({
        "sessionUpdate": "tool_call_update", "toolCallId": call,
        "content": [tool_calls::text_content(tail)],
    }))
}

/// The task list with ids, which is no part of a transcript.
pub(super) fn kept_plan(session: &SessionHandle) -> Option<Value> {
    let tools = session.context().tool_names();
    let items = session.tasks().todos();
    let known = tools.iter().any(|name| name == "TaskCreate");
    (known && !items.is_empty()).then(|| plan(&items))
}

/// A task list. The protocol has three states: what was cancelled is left out, what failed says so.
fn plan(items: &[TodoItem]) -> Value {
    let entries: Vec<Value> = items
        .iter()
        .filter(|item| item.status != TodoStatus::Cancelled)
        .map(|item| {
            let (content, status) = match item.status {
                TodoStatus::Failed => (format!("Failed: {}", item.content), TodoStatus::Completed),
                status => (item.content.clone(), status),
            };
            json!({"content": content, "priority": "medium", "status": status})
        })
        .collect();
    json!({"sessionUpdate": "plan", "entries": entries})
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::stream::StreamPiece;
    use std::sync::Arc;

    fn record(kind: &str, message: &Value, structured: &Value) -> MessageRecord {
        let mut record = json!({
            "type": kind, "parentUuid": null, "isSidechain": false,
            "sessionId": "00000000-0000-4000-8000-000000000001",
            "uuid": "00000000-0000-4000-8000-000000000002",
            "timestamp": "2026-01-01T00:00:00Z", "message": message,
        });
        if !structured.is_null() {
            record["toolUseResult"] = structured.clone();
        }
        serde_json::from_value(record).unwrap()
    }

    fn answer(id: &str, content: &Value) -> MessageRecord {
        let message = json!({"id": id, "type": "message", "role": "assistant", "model": "m",
            "content": content, "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 1, "output_tokens": 1}});
        record("assistant", &message, &Value::Null)
    }

    fn result(id: &str, text: &str, structured: &Value) -> MessageRecord {
        let message = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": text}]});
        record("user", &message, structured)
    }

    fn conversation() -> Vec<MessageRecord> {
        vec![
            record(
                "user",
                &json!({"role": "user", "content": "do it"}),
                &Value::Null,
            ),
            answer(
                "m1",
                &json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]),
            ),
            answer("m1", &json!([{"type": "text", "text": "I will."}])),
            answer(
                "m1",
                &json!([{"type": "tool_use", "id": "t1", "name": "Edit",
                "input": {"file_path": "/a", "old_string": "x", "new_string": "y"}}]),
            ),
            result(
                "t1",
                "Edited",
                &json!({"filePath": "/a", "structuredPatch": [
                {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-x", "+y"]}]}),
            ),
            answer(
                "m2",
                &json!([{"type": "tool_use", "id": "t2", "name": "TodoWrite", "input": {"todos": [
                {"content": "look", "status": "in_progress", "activeForm": "Looking"}]}}]),
            ),
            result("t2", "ok", &Value::Null),
            answer("m3", &json!([{"type": "text", "text": "Done."}])),
        ]
    }

    /// The state of an editor after the updates: the text by kind, and the last state of every call and plan.
    fn shown(updates: &[Value]) -> Value {
        let mut state = json!({"words": "", "thoughts": "", "calls": {}, "plan": null});
        for update in updates {
            let text = update["content"]["text"].as_str().unwrap_or_default();
            let add =
                |field: &mut Value| *field = format!("{}{text}", field.as_str().unwrap()).into();
            match update["sessionUpdate"].as_str().unwrap() {
                "agent_message_chunk" => add(&mut state["words"]),
                "agent_thought_chunk" => add(&mut state["thoughts"]),
                "tool_call" | "tool_call_update" => {
                    let id = update["toolCallId"].as_str().unwrap();
                    for (field, value) in update.as_object().unwrap() {
                        if field != "sessionUpdate" {
                            state["calls"][id][field] = value.clone();
                        }
                    }
                }
                "plan" => state["plan"] = update["entries"].clone(),
                _ => {}
            }
        }
        state
    }

    /// The same conversation as it happened.
    fn live() -> Vec<Event> {
        let piece = |event: Value| Event::Stream {
            event: Arc::new(StreamPiece::new(
                serde_json::from_value(event.clone()).unwrap(),
                event.to_string().into(),
            )),
            parent_tool_use_id: None,
        };
        let mut events = vec![
            piece(
                json!({"type": "message_start", "message": {"id": "m1", "type": "message",
                "role": "assistant", "model": "m", "content": [],
                "usage": {"input_tokens": 1, "output_tokens": 1}}}),
            ),
            piece(json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "thinking_delta", "thinking": "hm"}})),
            piece(json!({"type": "content_block_delta", "index": 1,
                "delta": {"type": "text_delta", "text": "I "}})),
            piece(json!({"type": "content_block_delta", "index": 1,
                "delta": {"type": "text_delta", "text": "will."}})),
            piece(json!({"type": "content_block_start", "index": 2,
                "content_block": {"type": "tool_use", "id": "t1", "name": "Edit", "input": {}}})),
        ];
        for record in conversation().into_iter().skip(1) {
            let is_list = record.message.as_ref().is_some_and(|message| {
                let blocks = message.blocks();
                blocks.iter().any(|block| {
                    block
                        .as_tool_result()
                        .is_some_and(|it| it.tool_use_id.as_str() == "t2")
                })
            });
            events.push(Event::Record {
                record: Arc::new(record),
                parent_tool_use_id: None,
            });
            if is_list {
                events.push(Event::CallFinished {
                    tool_use_id: "t2".into(),
                    tool_name: "TodoWrite".into(),
                    display: Display::Todos {
                        items: serde_json::from_value(json!([
                            {"content": "look", "status": "in_progress", "activeForm": "Looking"}]))
                        .unwrap(),
                    },
                    is_error: false,
                    elapsed: std::time::Duration::ZERO,
                });
            }
        }
        events
    }

    #[test]
    fn a_loaded_conversation_looks_as_it_did_live() {
        let mut adapter = Updates::new(ClientCapabilities::default());
        let live: Vec<Value> = live()
            .iter()
            .flat_map(|event| adapter.event(event))
            .collect();
        let records = conversation();
        let mut adapter = Updates::new(ClientCapabilities::default());
        let records: Vec<Replayed> = records.into_iter().map(Replayed::from).collect();
        let loaded = adapter.replay(records.iter());
        assert_eq!(loaded[0]["sessionUpdate"], "user_message_chunk");
        assert_eq!(shown(&live), shown(&loaded));
        let state = shown(&live);
        assert_eq!(state["words"], "I will.Done.");
        assert_eq!(state["calls"]["t1"]["status"], "completed");
        assert_eq!(state["calls"]["t1"]["content"][0]["newText"], "y\n");
        assert_eq!(state["plan"][0]["status"], "in_progress");
    }

    #[test]
    fn notices_are_text_for_clients_that_do_not_know_them() {
        let plain = Updates::new(ClientCapabilities::default());
        assert!(plain.notice(NoticeLevel::Info, "x").is_empty());
        assert_eq!(
            plain.notice(NoticeLevel::Error, "x")[0]["content"]["text"],
            "\n[error] x\n"
        );
        let able = Updates::new(ClientCapabilities {
            notices: true,
            compactions: true,
            ..ClientCapabilities::default()
        });
        let expected = json!({"sessionUpdate": "notice", "severity": "info", "title": "x"});
        assert_eq!(able.notice(NoticeLevel::Info, "x"), [expected]);
        let mut able = able;
        let began = able.event(&Event::Compacting);
        let ended = able.event(&Event::CompactionFailed {
            reason: "no".into(),
        });
        assert_eq!(began[0]["compactionId"], ended[0]["compactionId"]);
        assert_eq!(ended[0]["error"], "no");
    }

    #[test]
    fn calls_of_a_withdrawn_answer_fail() {
        let mut adapter = Updates::new(ClientCapabilities::default());
        for event in live().iter().take(5) {
            adapter.event(event);
        }
        let updates = adapter.event(&Event::Retracted {
            records: Vec::new(),
            reason: "overloaded".into(),
        });
        assert_eq!(updates[0]["toolCallId"], "t1");
        assert_eq!(updates[0]["status"], "failed");
    }
}
