//! The frames of a run, in order. Most of a frame is in its event; the rest depends on the frames before it: which
//! prompts of the host a turn answers, the number of a result, the background tasks that run. A [`Sequence`] knows
//! those.

use crate::output::{MAX_LINE, line_of, without_separators};
use indexmap::IndexMap;
use lathe_protocol::event::{Event, TaskNotice, TurnResult};
use lathe_protocol::frame::{FrameOptions, frames_of, result_frame, stream_frame};
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::message::AssistantMessage;
use lathe_protocol::stream::StreamEvent;
use lathe_session::template::timestamp_now;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The most prompts that a frame names.
const MOST_NAMED: usize = 64;

/// The state that frames of a run depend on.
#[derive(Debug, Default)]
pub struct Sequence {
    /// Ids that the host gave to prompts which no turn has accepted yet.
    given: HashSet<RecordId>,
    /// The prompts with such ids that the present turn has accepted.
    answered: Vec<RecordId>,
    /// The one of them that the turn began with: the last one, if several began it.
    starter: Option<RecordId>,
    /// Whether a message of the turn named them.
    message_named: bool,
    /// Whether a piece of a message named them.
    piece_named: bool,
    /// Results so far.
    results: u64,
    /// When the model was asked.
    asked: Option<Instant>,
    /// Background tasks that run.
    tasks: IndexMap<String, Value>,
    /// The runs of tasks, with what their frames repeat.
    runs: HashMap<String, Run>,
    /// Runs so far.
    started_runs: u64,
    /// The command that is answered now.
    command: Option<String>,
    /// The commands that the host knows.
    commands: Option<Value>,
}

#[derive(Debug)]
struct Run {
    id: String,
    subagent_type: Option<Value>,
}

impl Sequence {
    /// The host gave this id to a prompt.
    pub fn given(&mut self, prompt: RecordId) {
        self.given.insert(prompt);
    }

    /// The prompt is a command of that name, which is answered without a turn.
    pub fn begin_command(&mut self, name: &str, prompt: RecordId) {
        self.command = Some(name.to_owned());
        self.answered.clear();
        self.accept(prompt);
    }

    /// Background tasks that run.
    pub fn tasks(&self) -> impl Iterator<Item = &Value> {
        self.tasks.values()
    }

    /// The session is over, and its tasks with it.
    pub fn forget_tasks(&mut self) {
        self.tasks.clear();
    }

    /// Notes the commands that the host knows now. Gives whether they are others than before.
    pub fn knows_commands(&mut self, commands: &Value) -> bool {
        let changed = self.commands.as_ref() != Some(commands);
        if changed {
            self.commands = Some(commands.clone());
        }
        changed
    }

    /// The frame of a result; `queued` prompts wait behind it.
    pub fn result(&mut self, result: &TurnResult, queued: usize) -> Value {
        let mut frame = result_frame(result);
        if let Some(fields) = frame.as_object_mut() {
            fields.insert("result_index".to_owned(), self.results.into());
            fields.insert("queued_turn_count".to_owned(), queued.into());
            self.name_prompts(fields);
            if let Some(command) = self.command.take() {
                fields.insert("local_command".to_owned(), command.into());
            }
        }
        self.results += 1;
        self.answered.clear();
        self.starter = None;
        self.message_named = false;
        self.piece_named = false;
        frame
    }

    /// The frame that lists the background tasks.
    pub fn tasks_frame(&self, session_id: SessionId) -> Value {
        let tasks: Vec<&Value> = self.tasks.values().collect();
        json!({
            "type": "system", "subtype": "background_tasks_changed", "tasks": tasks,
            "uuid": RecordId::random(), "session_id": session_id,
        })
    }

    /// The lines of an event's frames, in order; `queued` prompts wait behind the present turn.
    pub fn lines(
        &mut self,
        event: &Event,
        session_id: SessionId,
        options: FrameOptions,
        queued: usize,
        mut each: impl FnMut(Vec<u8>),
    ) {
        if let Some(frame) = stream_frame(event, session_id, options) {
            if let Some(marked) = self.mark_piece(event, || frame.to_value()) {
                line_of(&marked).into_iter().for_each(each);
                return;
            }
            let mut line = frame.to_json();
            if line.len() > MAX_LINE {
                line_of(&frame.to_value()).into_iter().for_each(each);
            } else {
                line.push(b'\n');
                each(without_separators(line));
            }
            return;
        }
        let mut send = |frame: &Value| line_of(frame).into_iter().for_each(&mut each);
        match event {
            Event::PromptAccepted { record } if !record.is_meta => self.accept(record.uuid),
            Event::Requesting => {
                self.asked = Some(Instant::now());
                self.starter = self.starter.or_else(|| self.answered.last().copied());
            }
            Event::TurnFinished(result) => {
                send(&self.result(result, queued));
                return;
            }
            _ => {}
        }
        let changed = match event {
            Event::Task(notice) => self.note_task(notice),
            _ => false,
        };
        for mut frame in frames_of(event, session_id, options) {
            self.mark(event, &mut frame);
            send(&frame);
        }
        if changed {
            send(&self.tasks_frame(session_id));
        }
    }

    fn accept(&mut self, prompt: RecordId) {
        if self.given.remove(&prompt) && self.answered.len() < MOST_NAMED {
            self.answered.push(prompt);
        }
    }

    /// Names the prompt that the turn began with; a turn of its own is named by the last prompt that it took in.
    fn name_starter(&self, fields: &mut serde_json::Map<String, Value>) {
        if let Some(prompt) = self.starter.as_ref().or(self.answered.last()) {
            fields.insert("user_message_uuid".to_owned(), json!(prompt));
        }
    }

    /// Names the prompts that are answered.
    fn name_prompts(&self, fields: &mut serde_json::Map<String, Value>) {
        if !self.answered.is_empty() {
            self.name_starter(fields);
            fields.insert("user_message_uuids".to_owned(), json!(self.answered));
        }
    }

    /// A piece of an answer that says more than the piece alone: the first of a message how long it was waited for,
    /// the first of a turn which prompts it answers.
    fn mark_piece(&mut self, event: &Event, frame: impl Fn() -> Value) -> Option<Value> {
        let Event::Stream {
            event,
            parent_tool_use_id: None,
        } = event
        else {
            return None;
        };
        let starts = matches!(event.event, StreamEvent::MessageStart { .. });
        let waited = self.asked.filter(|_| starts).map(|asked| asked.elapsed());
        let names = !self.piece_named && !self.answered.is_empty();
        if waited.is_none() && !names {
            return None;
        }
        let mut frame = frame();
        let fields = frame.as_object_mut()?;
        if let Some(waited) = waited {
            let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            fields.insert("ttft_ms".to_owned(), waited.into());
        }
        if names {
            self.name_prompts(fields);
            self.piece_named = true;
        }
        Some(frame)
    }

    fn mark(&mut self, event: &Event, frame: &mut Value) {
        let Some(fields) = frame.as_object_mut() else {
            return;
        };
        match event {
            Event::Record {
                parent_tool_use_id: None,
                ..
            } if fields.get("type") == Some(&json!("assistant")) && !self.message_named => {
                self.name_prompts(fields);
                self.message_named = true;
            }
            Event::Thinking { .. } => self.name_starter(fields),
            Event::ConversationReset { .. } => {
                fields.insert("trigger".to_owned(), "clear".into());
                fields.insert("timestamp".to_owned(), timestamp_now().into());
                self.name_starter(fields);
            }
            Event::Task(notice) => self.mark_task(notice, fields),
            _ => {}
        }
    }

    /// Adds to a task's frame which run it belongs to.
    fn mark_task(&self, notice: &TaskNotice, fields: &mut serde_json::Map<String, Value>) {
        let Some(run) = self.runs.get(task_of(notice)) else {
            return;
        };
        fields.insert("run_id".to_owned(), run.id.as_str().into());
        if let (TaskNotice::Progress { .. }, Some(kind)) = (notice, &run.subagent_type) {
            fields.insert("subagent_type".to_owned(), kind.clone());
        }
        if let Some(Value::Object(patch)) = fields.get_mut("patch") {
            patch.insert("end_time".to_owned(), now_millis().into());
        }
    }

    /// Keeps the lists of tasks. Gives whether the one of background tasks changed.
    fn note_task(&mut self, notice: &TaskNotice) -> bool {
        let task = task_of(notice).to_owned();
        match notice {
            TaskNotice::Started {
                description,
                task_type,
                is_backgrounded,
                extra,
                ..
            } => {
                self.started_runs += 1;
                // Sorts in the order of the starts.
                let id = format!("{:012x}-{:06x}", now_millis(), self.started_runs);
                let subagent_type = extra.get("subagent_type").cloned();
                let mut shown = json!({
                    "task_id": task, "run_id": id, "task_type": task_type,
                    "description": description,
                });
                if let (Some(kind), Some(fields)) = (&subagent_type, shown.as_object_mut()) {
                    fields.insert("subagent_type".to_owned(), kind.clone());
                }
                self.runs.insert(task.clone(), Run { id, subagent_type });
                if *is_backgrounded {
                    self.tasks.insert(task, shown);
                }
                *is_backgrounded
            }
            TaskNotice::Finished { .. } => self.tasks.shift_remove(&task).is_some(),
            TaskNotice::Progress { .. } => false,
        }
    }
}

/// The `assistant` frame of a command's answer, which no model wrote. Many hosts show answers and not results.
#[must_use]
pub fn spoken_frame(text: &str, session_id: SessionId) -> Value {
    json!({
        "type": "assistant", "message": AssistantMessage::synthetic(text),
        "parent_tool_use_id": null, "uuid": RecordId::random(), "session_id": session_id,
        "timestamp": timestamp_now(),
    })
}

fn task_of(notice: &TaskNotice) -> &str {
    match notice {
        TaskNotice::Started { task_id, .. }
        | TaskNotice::Progress { task_id, .. }
        | TaskNotice::Finished { task_id, .. } => task_id.as_str(),
    }
}

fn now_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::local_result;
    use lathe_protocol::stream::StreamPiece;
    use std::sync::Arc;

    fn frames(sequence: &mut Sequence, event: &Event) -> Vec<Value> {
        let options = FrameOptions {
            partial_messages: true,
            ..FrameOptions::default()
        };
        let mut frames = Vec::new();
        sequence.lines(event, SessionId::random(), options, 2, |line| {
            frames.push(serde_json::from_slice(&line).unwrap());
        });
        frames
    }

    fn piece(words: &'static str) -> Event {
        Event::Stream {
            event: Arc::new(StreamPiece::new(
                serde_json::from_str(words).unwrap(),
                words.into(),
            )),
            parent_tool_use_id: None,
        }
    }

    fn accepted(uuid: RecordId, is_meta: bool) -> Event {
        let record = json!({
            "type": "user", "uuid": uuid, "sessionId": SessionId::random(), "parentUuid": null,
            "timestamp": "2026-01-01T00:00:00.000Z", "isMeta": is_meta,
            "message": {"role": "user", "content": "x"},
        });
        Event::PromptAccepted {
            record: Arc::new(serde_json::from_value(record).unwrap()),
        }
    }

    #[test]
    fn a_piece_of_an_answer_is_the_providers_own_words_on_one_line() {
        let words = r#"{"type":"content_block_delta", "index":0,"delta":{"type":"text_delta","text":"a\nä\u0041"},"new":1e2}"#;
        let event = Event::Stream {
            event: Arc::new(StreamPiece::new(
                serde_json::from_str(words).unwrap(),
                words.into(),
            )),
            parent_tool_use_id: Some("toolu_1".into()),
        };
        let session_id = SessionId::random();
        let wanted = FrameOptions {
            partial_messages: true,
            ..FrameOptions::default()
        };
        let mut lines = Vec::new();
        Sequence::default().lines(&event, session_id, wanted, 0, |line| lines.push(line));
        Sequence::default().lines(&event, session_id, FrameOptions::default(), 0, |line| {
            lines.push(line);
        });
        assert_eq!(lines.len(), 1);
        let line = std::str::from_utf8(&lines[0]).unwrap();
        assert!(line.contains(words) && line.ends_with("}\n"), "{line}");
        // The same as the frame that is taken apart, but for its id.
        let mut fast: Value = serde_json::from_str(line).unwrap();
        let mut slow = frames_of(&event, session_id, wanted).remove(0);
        for frame in [&mut fast, &mut slow] {
            assert!(frame["uuid"].take().is_string());
        }
        assert_eq!(fast, slow);
        assert_eq!(fast["parent_tool_use_id"], "toolu_1");
        assert!(
            fast.to_string()
                .starts_with(r#"{"type":"stream_event","event":"#)
        );
    }

    #[test]
    fn the_first_piece_and_the_result_of_a_turn_name_the_prompts_that_they_answer() {
        let mut sequence = Sequence::default();
        let [merged, first, second, own] = [(); 4].map(|()| RecordId::random());
        for prompt in [merged, first, second] {
            sequence.given(prompt);
        }
        // A prompt without an id of the host's is not named; of several, the last one began the turn.
        frames(&mut sequence, &accepted(own, false));
        frames(&mut sequence, &accepted(merged, false));
        frames(&mut sequence, &accepted(first, false));
        frames(&mut sequence, &Event::Requesting);
        let delta = piece(
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
        );
        let named = frames(&mut sequence, &delta).remove(0);
        assert_eq!(named["user_message_uuid"], json!(first));
        assert_eq!(named["user_message_uuids"], json!([merged, first]));
        let later = frames(&mut sequence, &delta).remove(0);
        assert_eq!(later.get("user_message_uuid"), None);
        // One that was sent during the turn belongs to the same result.
        frames(&mut sequence, &accepted(second, false));
        let result = local_result(SessionId::random(), "x", IndexMap::new());
        let finished = Event::TurnFinished(Arc::new(result));
        let frame = frames(&mut sequence, &finished).remove(0);
        assert_eq!(frame["user_message_uuid"], json!(first));
        assert_eq!(frame["user_message_uuids"], json!([merged, first, second]));
        assert_eq!(
            (&frame["result_index"], &frame["queued_turn_count"]),
            (&json!(0), &json!(2))
        );
        let frame = frames(&mut sequence, &finished).remove(0);
        assert_eq!(frame["result_index"], 1);
        assert_eq!(frame.get("user_message_uuid"), None);
    }

    #[test]
    fn the_frames_of_a_task_name_its_run() {
        let mut sequence = Sequence::default();
        let started = |background| {
            Event::Task(TaskNotice::Started {
                task_id: lathe_protocol::ids::TaskId("t".to_owned()),
                description: "d".to_owned(),
                tool_use_id: None,
                task_type: "local_agent".to_owned(),
                is_backgrounded: background,
                extra: [("subagent_type".to_owned(), json!("helper"))]
                    .into_iter()
                    .collect(),
            })
        };
        let one = frames(&mut sequence, &started(false));
        assert_eq!(one.len(), 1);
        let two = frames(&mut sequence, &started(true));
        assert_eq!(two[1]["subtype"], "background_tasks_changed");
        assert_eq!(two[1]["tasks"][0]["run_id"], two[0]["run_id"]);
        assert!(one[0]["run_id"].as_str() < two[0]["run_id"].as_str());
        let progress = Event::Task(TaskNotice::Progress {
            task_id: lathe_protocol::ids::TaskId("t".to_owned()),
            description: "d".to_owned(),
            tool_use_id: None,
            usage: lathe_protocol::event::TaskUsage::default(),
            last_tool_name: None,
        });
        let progress = frames(&mut sequence, &progress).remove(0);
        assert_eq!(progress["subagent_type"], "helper");
        assert_eq!(progress["run_id"], two[0]["run_id"]);
    }

    #[test]
    fn a_list_of_commands_is_sent_only_if_it_is_another() {
        let mut sequence = Sequence::default();
        assert!(sequence.knows_commands(&json!(["a"])));
        assert!(!sequence.knows_commands(&json!(["a"])));
        assert!(sequence.knows_commands(&json!(["a", "b"])));
    }
}
