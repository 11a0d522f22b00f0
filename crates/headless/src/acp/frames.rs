//! Frames of a session that runs in another process, read back as the events that they were made of.

use super::session::End;
use lathe_protocol::elicitation::ElicitationRequest;
use lathe_protocol::event::{Event, NoticeLevel, SessionState, TaskNotice, TaskStatus, TaskUsage};
use lathe_protocol::ids::{RecordId, RequestId, TaskId, ToolUseId};
use lathe_protocol::permission::{PermissionMode, PermissionRequest};
use lathe_protocol::record::{LOCAL_COMMAND, MessageRecord};
use lathe_protocol::stream::{StreamEvent, StreamPiece};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A frame, as far as an editor is told of it.
#[derive(Debug)]
pub enum Frame {
    /// An event of the session.
    Event(Box<Event>),
    /// A turn is over, with its `result` frame.
    TurnOver(End, Value),
    /// A turn begins: the session's `init` frame.
    Init(Value),
    /// A call runs.
    Running(String),
    /// The session has another name.
    Title(String),
    /// A command was answered without the model.
    Answer(String),
    /// Nothing that is shown.
    Nothing,
}

impl From<Event> for Frame {
    fn from(event: Event) -> Self {
        Self::Event(Box::new(event))
    }
}

/// Reads a frame. One that is not known, or has another shape, is nothing that is shown.
#[must_use]
pub fn read(frame: &Value) -> Frame {
    let kind = frame["type"].as_str().unwrap_or_default();
    let found = match kind {
        "stream_event" => piece(frame),
        "user" | "assistant" => said(frame),
        "result" => End::deserialize(frame)
            .ok()
            .map(|end| Frame::TurnOver(end, frame.clone())),
        "tool_progress" => text(frame, "tool_use_id").map(Frame::Running),
        "control_request" => question(frame),
        "question_resolved" => field::<RequestId>(frame, "request_id").map(|request_id| {
            let (reply, by) = (None, None);
            Event::PermissionResolved {
                request_id,
                reply,
                by,
            }
            .into()
        }),
        "system" => system(frame),
        _ => None,
    };
    found.unwrap_or(Frame::Nothing)
}

fn text(frame: &Value, name: &str) -> Option<String> {
    frame[name].as_str().map(str::to_owned)
}

fn field<T: DeserializeOwned>(frame: &Value, name: &str) -> Option<T> {
    serde_json::from_value(frame.get(name)?.clone()).ok()
}

fn piece(frame: &Value) -> Option<Frame> {
    let event: StreamEvent = field(frame, "event")?;
    let json = serde_json::to_vec(&frame["event"]).ok()?;
    Some(
        Event::Stream {
            event: Arc::new(StreamPiece::new(event, json.into())),
            parent_tool_use_id: field(frame, "parent_tool_use_id"),
        }
        .into(),
    )
}

/// A record, or a prompt that was taken in.
fn said(frame: &Value) -> Option<Frame> {
    let parent: Option<ToolUseId> = field(frame, "parent_tool_use_id");
    let record = json!({
        "type": frame["type"], "parentUuid": null, "isSidechain": parent.is_some(),
        "sessionId": frame["session_id"], "uuid": frame["uuid"],
        "timestamp": frame["timestamp"], "message": frame["message"],
        "toolUseResult": frame.get("tool_use_result"),
    });
    let record: MessageRecord = serde_json::from_value(record).ok()?;
    let record = Arc::new(record);
    let is_prompt = frame["isReplay"] == true && frame["type"] == "user" && parent.is_none();
    let event = if is_prompt {
        Event::PromptAccepted { record }
    } else {
        Event::Record {
            record,
            parent_tool_use_id: parent,
        }
    };
    Some(event.into())
}

fn question(frame: &Value) -> Option<Frame> {
    let mut question = frame["request"].clone();
    let fields = question.as_object_mut()?;
    fields.insert("request_id".to_owned(), frame["request_id"].clone());
    match frame["request"]["subtype"].as_str()? {
        "can_use_tool" => {
            let request: PermissionRequest = serde_json::from_value(question).ok()?;
            Some(Event::PermissionRequested(Arc::new(request)).into())
        }
        "elicitation" => {
            let request = ElicitationRequest {
                request_id: field(&question, "request_id")?,
                mcp_server_name: text(&question, "mcp_server_name")?,
                message: text(&question, "message").unwrap_or_default(),
                kind: serde_json::from_value(question).ok()?,
            };
            Some(Event::ElicitationRequested(Arc::new(request)).into())
        }
        _ => None,
    }
}

fn system(frame: &Value) -> Option<Frame> {
    let notice = |level, text: String| {
        let news = None;
        Frame::from(Event::Notice { level, text, news })
    };
    let found = match frame["subtype"].as_str()? {
        "init" => Frame::Init(frame.clone()),
        "title" => Frame::Title(text(frame, "title")?),
        LOCAL_COMMAND => Frame::Answer(text(frame, "content")?),
        "session_state_changed" => {
            Event::StateChanged(field::<SessionState>(frame, "state")?).into()
        }
        "status" => status(frame)?,
        "compact_boundary" => Event::Compacted {
            trigger: text(&frame["compact_metadata"], "trigger").unwrap_or_default(),
            pre_tokens: frame["compact_metadata"]["pre_tokens"]
                .as_u64()
                .unwrap_or_default(),
            post_tokens: frame["compact_metadata"]["post_tokens"].as_u64(),
            duration: Duration::ZERO,
        }
        .into(),
        "retracted" => Event::Retracted {
            records: field::<Vec<RecordId>>(frame, "retracted_uuids").unwrap_or_default(),
            reason: text(frame, "reason").unwrap_or_default(),
        }
        .into(),
        "api_retry" => Event::Retrying {
            attempt: field(frame, "attempt")?,
            max_retries: field(frame, "max_retries")?,
            delay: Duration::from_millis(frame["retry_delay_ms"].as_u64().unwrap_or_default()),
            status: field(frame, "error_status"),
            error: text(frame, "error").unwrap_or_default(),
        }
        .into(),
        "model_fallback" => Event::ModelFellBack {
            from: text(frame, "from_model")?,
            to: text(frame, "to_model")?,
            reason: text(frame, "reason").unwrap_or_default(),
        }
        .into(),
        "model_refusal_no_fallback" => notice(NoticeLevel::Warning, text(frame, "content")?),
        "informational" => {
            let words = text(frame, "content")?;
            // Told by the failure itself.
            if words.starts_with("The conversation was not compacted: ") {
                return None;
            }
            let level = match frame["level"].as_str() {
                Some("notice") => NoticeLevel::Notice,
                _ => NoticeLevel::Warning,
            };
            notice(level, words)
        }
        "elicitation_complete" => Event::ElicitationCompleted {
            server: text(frame, "mcp_server_name")?,
            elicitation_id: text(frame, "elicitation_id")?,
        }
        .into(),
        "task_progress" | "task_notification" => Event::Task(task(frame)?).into(),
        _ => return None,
    };
    Some(found)
}

/// The event of a `status` frame: another mode, or the state of a compaction.
fn status(frame: &Value) -> Option<Frame> {
    if let Some(mode) = field::<PermissionMode>(frame, "permissionMode") {
        return Some(Event::ModeChanged(mode).into());
    }
    if frame["compact_result"] == "failed" {
        let reason = text(frame, "compact_error").unwrap_or_default();
        return Some(Event::CompactionFailed { reason }.into());
    }
    (frame["status"] == "compacting").then(|| Event::Compacting.into())
}

fn task(frame: &Value) -> Option<TaskNotice> {
    let task_id: TaskId = field(frame, "task_id")?;
    let tool_use_id = field(frame, "tool_use_id");
    if frame["subtype"] == "task_progress" {
        return Some(TaskNotice::Progress {
            task_id,
            description: text(frame, "description").unwrap_or_default(),
            tool_use_id,
            usage: field::<TaskUsage>(frame, "usage").unwrap_or_default(),
            last_tool_name: text(frame, "last_tool_name"),
        });
    }
    Some(TaskNotice::Finished {
        task_id,
        tool_use_id,
        status: field::<TaskStatus>(frame, "status")?,
        output_file: text(frame, "output_file").unwrap_or_default(),
        summary: text(frame, "summary").unwrap_or_default(),
        usage: field(frame, "usage"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::capabilities::ClientCapabilities;
    use crate::acp::updates::Updates;
    use lathe_protocol::frame::{FrameOptions, SessionStateFrames, frames_of};
    use lathe_protocol::ids::SessionId;

    const FRAMES: FrameOptions = FrameOptions {
        partial_messages: true,
        hook_events: false,
        replay_user_messages: true,
        session_state: SessionStateFrames::Caller,
        forward_subagent_text: true,
    };

    fn record(message: &Value) -> Arc<MessageRecord> {
        let record = json!({
            "type": message["role"], "parentUuid": null, "isSidechain": false,
            "sessionId": "00000000-0000-4000-8000-000000000001",
            "uuid": "00000000-0000-4000-8000-000000000002",
            "timestamp": "2026-01-01T00:00:00Z", "message": message,
        });
        Arc::new(serde_json::from_value(record).unwrap())
    }

    fn events() -> Vec<Event> {
        let start = StreamEvent::ContentBlockDelta {
            index: 0,
            delta: lathe_protocol::stream::Delta::TextDelta { text: "hé".into() },
        };
        let json = serde_json::to_vec(&start).unwrap();
        let call = json!({"id": "m1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}],
            "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 1, "output_tokens": 1}});
        let result = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "a\nb"}]});
        let level = NoticeLevel::Warning;
        vec![
            Event::Stream {
                event: Arc::new(StreamPiece::new(start, json.into())),
                parent_tool_use_id: None,
            },
            Event::Record {
                record: record(&call),
                parent_tool_use_id: None,
            },
            Event::Record {
                record: record(&result),
                parent_tool_use_id: None,
            },
            Event::Retrying {
                attempt: 1,
                max_retries: 3,
                delay: Duration::ZERO,
                status: Some(529),
                error: "busy".into(),
            },
            Event::ModelFellBack {
                from: "a".into(),
                to: "b".into(),
                reason: "busy".into(),
            },
            Event::Compacting,
            Event::Compacted {
                trigger: "auto".into(),
                pre_tokens: 9,
                post_tokens: Some(3),
                duration: Duration::ZERO,
            },
            Event::CompactionFailed {
                reason: "no room".into(),
            },
            Event::Notice {
                level,
                text: "careful".into(),
                news: None,
            },
            Event::Task(TaskNotice::Progress {
                task_id: TaskId("x".into()),
                description: "look".into(),
                tool_use_id: Some(ToolUseId("t1".into())),
                usage: TaskUsage::default(),
                last_tool_name: Some("Read".into()),
            }),
            Event::Task(TaskNotice::Finished {
                task_id: TaskId("x".into()),
                tool_use_id: None,
                status: TaskStatus::Failed,
                output_file: String::new(),
                summary: "it failed".into(),
                usage: None,
            }),
            Event::Retracted {
                records: Vec::new(),
                reason: "cut".into(),
            },
        ]
    }

    /// The updates of a session that runs here and of one that runs elsewhere are the same.
    #[test]
    fn what_came_over_the_wire_is_shown_like_what_happened_here() {
        let everything = json!({"session": {"notices": {}, "compaction": {}}});
        for able in [
            ClientCapabilities::default(),
            ClientCapabilities::of(&everything),
        ] {
            let (mut here, mut elsewhere) = (Updates::new(able), Updates::new(able));
            for event in events() {
                let expected = here.event(&event);
                let frames = frames_of(&event, SessionId::random(), FRAMES);
                let read = frames.iter().map(read);
                let shown: Vec<Value> = read
                    .flat_map(|frame| match frame {
                        Frame::Event(event) => elsewhere.event(&event),
                        _ => Vec::new(),
                    })
                    .collect();
                assert_eq!(shown, expected, "{event:?}");
            }
        }
    }

    #[test]
    fn frames_of_another_shape_are_nothing() {
        for frame in [
            json!(null),
            json!({"type": "assistant", "message": 7}),
            json!({"type": "control_request", "request": {"subtype": "can_use_tool"}}),
            json!({"type": "system", "subtype": "init_of_later"}),
            json!({"type": "result"}),
            json!({"type": "stream_event", "event": {"type": "new"}}),
        ] {
            let read = read(&frame);
            assert!(matches!(read, Frame::Nothing), "{frame}: {read:?}");
        }
    }
}
