//! The state of a session as its events tell it: what a snapshot shows, and the frames of the events.

use indexmap::IndexMap;
use lathe_protocol::event::{Event, SessionInit, SessionState, TaskNotice, TerminalReason};
use lathe_protocol::frame::{FrameOptions, SessionStateFrames, frames_of, stream_frame};
use lathe_protocol::ids::{RequestId, SessionId, TaskId, ToolUseId};
use lathe_protocol::record::{LOCAL_COMMAND, MessageRecord};
use lathe_protocol::stream::{Delta, StreamEvent};
use lathe_wire::{ClientInfo, HostState, QueuedPrompt, Snapshot};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// How many records a snapshot has at most.
const RECORDS: usize = 200;
/// How many bytes of records a snapshot has at most, unless the last one alone is larger.
const RECORD_BYTES: usize = 2 * 1024 * 1024;
/// How many answered questions are remembered, to tell a late answer who was first.
const CLOSED: usize = 256;
/// Characters of an activity.
const ACTIVITY: usize = 120;

/// The frames that clients get.
const FRAMES: FrameOptions = FrameOptions {
    partial_messages: true,
    hook_events: false,
    replay_user_messages: true,
    session_state: SessionStateFrames::Caller,
    forward_subagent_text: true,
};

/// How a question was closed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Closed {
    /// Who answered; `None` if it was withdrawn.
    pub(crate) by: Option<String>,
    pub(crate) reply: Option<Value>,
}

#[derive(Debug, Clone)]
struct Shown {
    record: Arc<MessageRecord>,
    parent: Option<ToolUseId>,
}

/// One conversation.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(crate) epoch: String,
    pub(crate) seq: u64,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) title: Option<String>,
    pub(crate) activity: Option<String>,
    pub(crate) failed: bool,
    state: SessionState,
    init: Option<Arc<SessionInit>>,
    records: VecDeque<Shown>,
    partial: Vec<Value>,
    questions: IndexMap<RequestId, Value>,
    closed: VecDeque<(RequestId, Closed)>,
    queue: Vec<QueuedPrompt>,
    tasks: IndexMap<TaskId, Value>,
}

impl Mirror {
    pub(crate) fn new(epoch: String) -> Self {
        Self {
            epoch,
            seq: 0,
            session_id: None,
            title: None,
            activity: None,
            failed: false,
            state: SessionState::Idle,
            init: None,
            records: VecDeque::new(),
            partial: Vec::new(),
            questions: IndexMap::new(),
            closed: VecDeque::new(),
            queue: Vec::new(),
            tasks: IndexMap::new(),
        }
    }

    /// The activity of the session, for lists.
    pub(crate) fn state(&self) -> HostState {
        if !self.questions.is_empty() {
            return HostState::NeedsYou;
        }
        match self.state {
            SessionState::Idle => HostState::Idle,
            SessionState::Running | SessionState::RequiresAction => HostState::Working,
        }
    }

    /// Takes over the records of a resumed conversation.
    pub(crate) fn resume(&mut self, records: &[MessageRecord]) {
        let from = records.len().saturating_sub(RECORDS);
        for record in &records[from..] {
            self.push_record(&Arc::new(record.clone()), None);
        }
    }

    fn push_record(&mut self, record: &Arc<MessageRecord>, parent: Option<ToolUseId>) {
        if record.is_meta || record.is_virtual {
            return;
        }
        if self.records.len() == RECORDS {
            self.records.pop_front();
        }
        self.records.push_back(Shown {
            record: record.clone(),
            parent,
        });
    }

    /// How a question was closed that is no longer open.
    pub(crate) fn closed(&self, id: &RequestId) -> Option<&Closed> {
        let found = self.closed.iter().rev().find(|(other, _)| other == id);
        found.map(|(_, closed)| closed)
    }

    /// Whether a question is open.
    pub(crate) fn is_open(&self, id: &RequestId) -> bool {
        self.questions.contains_key(id)
    }

    /// The prompts that wait, and the frame that tells clients.
    pub(crate) fn set_queue(&mut self, queue: Vec<QueuedPrompt>) -> Option<Value> {
        if queue == self.queue {
            return None;
        }
        self.queue = queue;
        Some(json!({"type": "system", "subtype": "queue", "queue": self.queue}))
    }

    /// Takes an event in.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::StateChanged(state) => self.state = *state,
            Event::TurnStarted(init) => {
                self.init = Some(init.clone());
                self.partial.clear();
                self.failed = false;
            }
            Event::PromptAccepted { record } => {
                self.queue.retain(|prompt| prompt.uuid != record.uuid);
                self.push_record(record, None);
            }
            Event::Requesting | Event::Retracted { .. } => self.withdrawn(event),
            Event::Stream {
                event,
                parent_tool_use_id: None,
            } => self.stream(&event.event),
            Event::Record {
                record,
                parent_tool_use_id,
            } => {
                if parent_tool_use_id.is_none() {
                    self.partial.clear();
                }
                self.push_record(record, parent_tool_use_id.clone());
            }
            Event::CallStarted { activity, .. } => self.activity = Some(line_of(activity)),
            Event::PermissionRequested(request) => {
                let mut question = serde_json::to_value(&**request).unwrap_or_default();
                let words = request.title.as_deref().unwrap_or(&request.tool_name);
                self.activity = Some(line_of(words));
                question["subtype"] = "can_use_tool".into();
                self.asked(&request.request_id, question);
            }
            Event::ElicitationRequested(request) => {
                let mut question = serde_json::to_value(&**request).unwrap_or_default();
                self.activity = Some(line_of(&request.message));
                question["subtype"] = "elicitation".into();
                self.asked(&request.request_id, question);
            }
            Event::PermissionResolved {
                request_id,
                reply,
                by,
            } => {
                let reply = reply.as_ref().map(to_value);
                self.resolved(request_id, by.clone(), reply);
            }
            Event::ElicitationResolved {
                request_id,
                reply,
                by,
            } => {
                let reply = reply.as_ref().map(to_value);
                self.resolved(request_id, by.clone(), reply);
            }
            Event::Task(notice) => self.task(notice),
            Event::TurnFinished(result) => {
                self.failed = result.is_error && !is_interrupted(result.terminal_reason);
                self.partial.clear();
                let text = if result.text.is_empty() {
                    result.errors.join(" ")
                } else {
                    result.text.clone()
                };
                self.activity = Some(line_of(&text));
            }
            _ => {}
        }
    }

    /// The answer that is being written starts over.
    fn withdrawn(&mut self, event: &Event) {
        self.partial.clear();
        if let Event::Retracted { records, .. } = event {
            self.records
                .retain(|shown| !records.contains(&shown.record.uuid));
        }
    }

    fn asked(&mut self, id: &RequestId, mut question: Value) {
        if let Some(fields) = question.as_object_mut() {
            fields.shift_remove("request_id");
        }
        let frame = json!({"type": "control_request", "request_id": id, "request": question});
        self.questions.insert(id.clone(), frame);
    }

    fn resolved(&mut self, id: &RequestId, by: Option<String>, reply: Option<Value>) {
        self.questions.shift_remove(id);
        if self.closed.len() == CLOSED {
            self.closed.pop_front();
        }
        self.closed.push_back((id.clone(), Closed { by, reply }));
    }

    fn task(&mut self, notice: &TaskNotice) {
        match notice {
            TaskNotice::Started { task_id, .. } => {
                let event = Event::Task(notice.clone());
                let frame = frames_of(&event, self.id(), FRAMES).into_iter().next();
                self.tasks
                    .insert(task_id.clone(), frame.unwrap_or_default());
            }
            TaskNotice::Finished { task_id, .. } => {
                self.tasks.shift_remove(task_id);
            }
            TaskNotice::Progress { .. } => {}
        }
    }

    /// The blocks of the answer, so that somebody who comes in the middle sees it from its beginning.
    fn stream(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::MessageStart { .. } => self.partial.clear(),
            StreamEvent::ContentBlockStart {
                index,
                content_block,
            } => {
                if *index > 10_000 {
                    return;
                }
                while self.partial.len() <= *index {
                    self.partial.push(Value::Null);
                }
                self.partial[*index] = to_value(content_block);
            }
            StreamEvent::ContentBlockDelta { index, delta } => {
                let (name, piece) = match delta {
                    Delta::TextDelta { text } => ("text", text),
                    Delta::ThinkingDelta { thinking } => ("thinking", thinking),
                    Delta::InputJsonDelta { partial_json } => ("partial_json", partial_json),
                    _ => return,
                };
                let block = self.partial.get_mut(*index).and_then(Value::as_object_mut);
                let Some(block) = block else { return };
                match block.get_mut(name) {
                    Some(Value::String(text)) => text.push_str(piece),
                    _ => {
                        block.insert(name.to_owned(), piece.as_str().into());
                    }
                }
            }
            _ => {}
        }
    }

    fn id(&self) -> SessionId {
        self.session_id.unwrap_or(SessionId(Default::default()))
    }

    /// The frames of an event, as JSON.
    pub(crate) fn frames(&self, event: &Event) -> Vec<Vec<u8>> {
        let id = self.id();
        if let Some(frame) = stream_frame(event, id, FRAMES) {
            return vec![frame.to_json()];
        }
        let question = |id: &RequestId| self.questions.get(id).cloned().into_iter().collect();
        let resolved = |id: &RequestId| -> Vec<Value> {
            let closed = self.closed(id);
            vec![json!({
                "type": "question_resolved", "request_id": id,
                "by": closed.and_then(|closed| closed.by.clone()),
                "reply": closed.and_then(|closed| closed.reply.clone()),
            })]
        };
        let frames = match event {
            Event::PermissionRequested(request) => question(&request.request_id),
            Event::ElicitationRequested(request) => question(&request.request_id),
            Event::PermissionResolved { request_id, .. }
            | Event::ElicitationResolved { request_id, .. } => resolved(request_id),
            Event::PromptAccepted { record } if record.is_meta => Vec::new(),
            Event::Record { record, .. } if is_local_command(record) => {
                vec![local_command_frame(record, id)]
            }
            _ => frames_of(event, id, FRAMES),
        };
        frames
            .iter()
            .map(|frame| serde_json::to_vec(frame).unwrap_or_default())
            .collect()
    }

    /// Everything that a client needs to begin.
    pub(crate) fn snapshot(&self, clients: Vec<ClientInfo>) -> Snapshot {
        let mut records = VecDeque::new();
        let mut bytes = 0;
        for shown in self.records.iter().rev() {
            let event = if shown.record.is_prompt() && shown.parent.is_none() {
                Event::PromptAccepted {
                    record: shown.record.clone(),
                }
            } else {
                Event::Record {
                    record: shown.record.clone(),
                    parent_tool_use_id: shown.parent.clone(),
                }
            };
            let frame = if is_local_command(&shown.record) {
                Some(local_command_frame(&shown.record, self.id()))
            } else {
                frames_of(&event, self.id(), FRAMES).into_iter().next()
            };
            let Some(frame) = frame else {
                continue;
            };
            bytes += frame.to_string().len();
            if bytes > RECORD_BYTES && !records.is_empty() {
                break;
            }
            records.push_front(frame);
        }
        let init = self.init.as_ref().map_or(Value::Null, |init| {
            let event = Event::TurnStarted(init.clone());
            let frame = frames_of(&event, self.id(), FRAMES).into_iter().next();
            frame.unwrap_or_default()
        });
        Snapshot {
            epoch: self.epoch.clone(),
            seq: self.seq,
            state: self.state(),
            session_id: self.id(),
            title: self.title.clone(),
            init,
            records: records.into(),
            partial: self.partial.clone(),
            questions: self.questions.values().cloned().collect(),
            queue: self.queue.clone(),
            tasks: self.tasks.values().cloned().collect(),
            clients,
        }
    }
}

/// Whether somebody stopped a turn, which is no failure.
fn is_interrupted(reason: TerminalReason) -> bool {
    matches!(
        reason,
        TerminalReason::AbortedStreaming | TerminalReason::AbortedTools
    )
}

/// Whether a record is a command that was answered without the model, or its answer.
fn is_local_command(record: &MessageRecord) -> bool {
    record.subtype.as_deref() == Some(LOCAL_COMMAND)
}

fn local_command_frame(record: &MessageRecord, session: SessionId) -> Value {
    json!({
        "type": "system", "subtype": LOCAL_COMMAND, "content": record.content, "uuid": record.uuid,
        "session_id": session, "timestamp": record.timestamp,
    })
}

fn to_value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The first line of a text, cut.
fn line_of(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or_default()
        .trim()
        .chars()
        .filter(|character| !character.is_control())
        .take(ACTIVITY)
        .collect()
}
