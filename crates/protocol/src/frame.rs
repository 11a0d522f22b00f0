//! Frames: the NDJSON lines that an SDK host reads and writes.
//!
//! [`HostFrame`] is what comes in, read leniently: an unknown type is [`HostFrame::Unknown`], never
//! an error. [`frames_of`] turns an engine event into the frames that go out.

use crate::content::Content;
use crate::control::{ControlRequest, ControlRequestError};
use crate::event::{Event, NoticeLevel, SessionInit, SessionState, TerminalReason, TurnResult};
use crate::ids::{RecordId, RequestId, SessionId, ToolUseId};
use crate::notice_frames::{hook_frames, task_frames};
use crate::record::{MessageRecord, RecordKind};
use crate::stream::StreamPiece;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

/// The protocol's compatibility level that hosts check; not our own version.
pub const COMPATIBILITY_VERSION: &str = "2.1.280";

/// Optional parts of the protocol that this version supports.
pub const CAPABILITIES: [&str; 4] = [
    "interrupt_receipt_v1",
    "interrupt_cancel_queued_v1",
    "mcp_read_resource_v1",
    "reload_plugins_refuse_if_busy_v1",
];

/// A line from the host.
#[derive(Debug, Clone, PartialEq)]
pub enum HostFrame {
    /// The host asks for something.
    ControlRequest {
        /// Names the request.
        request_id: RequestId,
        /// The request, or why it is invalid.
        request: Result<ControlRequest, ControlRequestError>,
    },
    /// The host answers one of our requests.
    ControlResponse {
        /// The request.
        request_id: RequestId,
        /// The answer, or the host's error.
        response: Result<Value, HostError>,
    },
    /// The host no longer wants an answer.
    ControlCancel {
        /// The request.
        request_id: RequestId,
    },
    /// A prompt.
    User(Box<UserFrame>),
    /// Keeps the connection alive.
    KeepAlive,
    /// Anything else.
    Unknown {
        /// The frame's `type`.
        kind: String,
    },
}

/// A prompt from the host.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct UserFrame {
    /// The message.
    pub message: UserFrameMessage,
    /// The id of the record it becomes.
    #[serde(default)]
    pub uuid: Option<RecordId>,
    /// Where it comes from.
    #[serde(default)]
    pub origin: Option<Value>,
    /// Deliver as it is.
    #[serde(default)]
    pub client_composed: bool,
    /// `false`: add to the conversation, run no turn.
    #[serde(default, rename = "shouldQuery")]
    pub should_query: Option<bool>,
    /// Not typed by the user.
    #[serde(default, rename = "isSynthetic")]
    pub is_synthetic: bool,
    /// `now`, `next` or `later`.
    #[serde(default)]
    pub priority: Option<String>,
}

/// The message in a [`UserFrame`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct UserFrameMessage {
    /// The content.
    pub content: Content,
}

/// Why a request to the host has no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The host closed its end.
    #[error("Stream closed")]
    Closed,
    /// The host's own error.
    #[error("{0}")]
    Reported(String),
    /// The answer has the wrong shape.
    #[error("the host's answer is invalid: {0}")]
    Malformed(String),
}

/// A host's line that is no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Not JSON.
    #[error("not a JSON object: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON, but a field is missing or wrong.
    #[error("{kind} frame: {problem}")]
    Shape {
        /// The frame's type.
        kind: String,
        /// The reason.
        problem: String,
    },
}

impl HostFrame {
    /// Reads one line.
    ///
    /// # Errors
    /// When the line is not JSON, or a known frame lacks what it needs.
    pub fn parse(line: &str) -> Result<Self, FrameError> {
        let value: Value = serde_json::from_str(line)?;
        let kind = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let shape = |problem: &str| FrameError::Shape {
            kind: kind.clone(),
            problem: problem.into(),
        };
        let id_in = |value: &Value| {
            value
                .get("request_id")
                .and_then(Value::as_str)
                .map(RequestId::from)
        };
        match kind.as_str() {
            "control_request" => Ok(Self::ControlRequest {
                request_id: id_in(&value).ok_or_else(|| shape("request_id is missing"))?,
                request: ControlRequest::parse(value.get("request").unwrap_or(&Value::Null)),
            }),
            "control_response" => {
                let response = value
                    .get("response")
                    .ok_or_else(|| shape("response is missing"))?;
                let request_id =
                    id_in(response).ok_or_else(|| shape("response.request_id is missing"))?;
                let success = response.get("subtype").and_then(Value::as_str) != Some("error");
                let response = if success {
                    Ok(response
                        .get("response")
                        .cloned()
                        .unwrap_or_else(|| json!({})))
                } else {
                    let text = response.get("error").and_then(Value::as_str);
                    let text = text.unwrap_or("the host reported an error without a text");
                    Err(HostError::Reported(text.to_owned()))
                };
                Ok(Self::ControlResponse {
                    request_id,
                    response,
                })
            }
            "control_cancel_request" => Ok(Self::ControlCancel {
                request_id: id_in(&value).ok_or_else(|| shape("request_id is missing"))?,
            }),
            "user" => UserFrame::deserialize(&value)
                .map(|frame| Self::User(Box::new(frame)))
                .map_err(|error| shape(&error.to_string())),
            "keep_alive" => Ok(Self::KeepAlive),
            _ => Ok(Self::Unknown { kind }),
        }
    }
}

/// Which optional frames the host asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FrameOptions {
    /// `--include-partial-messages`.
    pub partial_messages: bool,
    /// `--include-hook-events`.
    pub hook_events: bool,
    /// `--replay-user-messages`.
    pub replay_user_messages: bool,
    /// How `session_state_changed` frames are sent.
    pub session_state: SessionStateFrames,
    /// Whether sub-agents' text and thinking is shown.
    pub forward_subagent_text: bool,
}

/// How `session_state_changed` frames are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SessionStateFrames {
    /// Not at all.
    #[default]
    Off,
    /// For the SDK itself, marked so.
    HostOnly,
    /// For the caller too.
    Caller,
}

/// The frame of a piece of an answer: the provider's event as it came, with what says whose it is. There
/// are very many of these, so they are written without being taken apart.
#[derive(Debug)]
pub struct StreamFrame<'a> {
    event: &'a StreamPiece,
    parent_tool_use_id: Option<&'a ToolUseId>,
    uuid: RecordId,
    session_id: SessionId,
}

impl StreamFrame<'_> {
    /// The frame, taken apart.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::from_slice(&self.to_json()).unwrap_or_default()
    }

    /// The frame as JSON, put together from bytes that are JSON already.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let event = self.event.json();
        let mut json = Vec::with_capacity(event.len() + 200);
        json.extend_from_slice(br#"{"type":"stream_event","event":"#);
        json.extend_from_slice(event);
        json.extend_from_slice(br#","parent_tool_use_id":"#);
        match self.parent_tool_use_id {
            Some(id) => json.extend_from_slice(Value::from(id.as_str()).to_string().as_bytes()),
            None => json.extend_from_slice(b"null"),
        }
        let mut text = uuid::Uuid::encode_buffer();
        for (name, id) in [("uuid", self.uuid.0), ("session_id", self.session_id.0)] {
            json.extend_from_slice(b",\"");
            json.extend_from_slice(name.as_bytes());
            json.extend_from_slice(b"\":\"");
            json.extend_from_slice(id.hyphenated().encode_lower(&mut text).as_bytes());
            json.push(b'"');
        }
        json.push(b'}');
        json
    }
}

/// The frame of a piece of an answer, if the event is one and pieces are wanted.
#[must_use]
pub fn stream_frame(
    event: &Event,
    session_id: SessionId,
    options: FrameOptions,
) -> Option<StreamFrame<'_>> {
    match event {
        Event::Stream {
            event,
            parent_tool_use_id,
        } if options.partial_messages => Some(StreamFrame {
            event,
            parent_tool_use_id: parent_tool_use_id.as_ref(),
            uuid: RecordId::random(),
            session_id,
        }),
        _ => None,
    }
}

/// The frames that an event becomes, in order. Most become one, some none.
#[must_use]
pub fn frames_of(event: &Event, session_id: SessionId, options: FrameOptions) -> Vec<Value> {
    let system = |subtype: &str, fields: Value| {
        let mut frame = json!({"type": "system", "subtype": subtype});
        merge(&mut frame, fields);
        merge(
            &mut frame,
            json!({"uuid": RecordId::random(), "session_id": session_id}),
        );
        frame
    };
    match event {
        Event::StateChanged(state) => state_frames(*state, options.session_state, &system),
        Event::TurnStarted(init) => vec![init_frame(init, session_id)],
        Event::PromptAccepted { record } if options.replay_user_messages => {
            let mut frame = record_frame(record, None, session_id);
            merge(&mut frame, json!({"isReplay": true}));
            vec![frame]
        }
        Event::Stream { .. } => stream_frame(event, session_id, options)
            .map(|frame| frame.to_value())
            .into_iter()
            .collect(),
        Event::Record {
            record,
            parent_tool_use_id: parent,
        } => {
            let hidden = parent.is_some() && !options.forward_subagent_text && only_words(record);
            if record.is_virtual || !is_shown(record) || hidden {
                return Vec::new();
            }
            let parent = parent.as_ref().map(ToolUseId::as_str);
            vec![record_frame(record, parent, session_id)]
        }
        Event::CallProgress {
            tool_use_id,
            tool_name,
            elapsed,
            ..
        } => vec![json!({
            "type": "tool_progress", "tool_use_id": tool_use_id, "tool_name": tool_name,
            "parent_tool_use_id": null, "elapsed_time_seconds": elapsed.as_secs_f64(),
            "uuid": RecordId::random(), "session_id": session_id,
        })],
        Event::Thinking {
            estimated_tokens,
            delta,
        } => vec![system(
            "thinking_tokens",
            json!({"estimated_tokens": estimated_tokens, "estimated_tokens_delta": delta}),
        )],
        Event::Hook(notice) => hook_frames(notice, options, &system),
        Event::Task(notice) => task_frames(notice, &system),
        Event::TurnFinished(result) => vec![result_frame(result)],
        // Part of the progress of an answer, like its pieces.
        Event::Requesting if !options.partial_messages => Vec::new(),
        Event::Requesting
        | Event::Retracted { .. }
        | Event::PermissionDenied { .. }
        | Event::Refused(_)
        | Event::ModeChanged(_)
        | Event::Retrying { .. }
        | Event::ModelFellBack { .. }
        | Event::Compacting
        | Event::Compacted { .. }
        | Event::CompactionFailed { .. }
        | Event::Notice { .. } => status_frames(event, &system),
        Event::ElicitationCompleted {
            server,
            elicitation_id,
        } => vec![system(
            "elicitation_complete",
            json!({"mcp_server_name": server, "elicitation_id": elicitation_id}),
        )],
        Event::ConversationReset { previous, next } => vec![json!({
            "type": "conversation_reset", "new_conversation_id": next,
            "uuid": RecordId::random(), "session_id": previous,
        })],
        Event::PromptAccepted { .. }
        | Event::CallStarted { .. }
        | Event::CallFinished { .. }
        | Event::PermissionRequested(_)
        | Event::PermissionResolved { .. }
        | Event::ElicitationRequested(_)
        | Event::ElicitationResolved { .. }
        | Event::Editor(_)
        // The face sends the list.
        | Event::CommandsChanged
        | Event::TerminalSequence(_)
        | Event::SessionEnded => Vec::new(),
    }
}

fn state_frames(
    state: SessionState,
    wanted: SessionStateFrames,
    system: &impl Fn(&str, Value) -> Value,
) -> Vec<Value> {
    let fields = match wanted {
        SessionStateFrames::Off => return Vec::new(),
        SessionStateFrames::HostOnly => json!({"state": state, "sdk_host_only": true}),
        SessionStateFrames::Caller => json!({"state": state}),
    };
    vec![system("session_state_changed", fields)]
}

/// The frames of what happens to a turn as a whole.
fn status_frames(event: &Event, system: &impl Fn(&str, Value) -> Value) -> Vec<Value> {
    let (subtype, fields) = match event {
        Event::Requesting => ("status", json!({"status": "requesting"})),
        Event::Retracted { records, reason } => (
            "retracted",
            json!({"retracted_uuids": records, "reason": reason}),
        ),
        Event::PermissionDenied {
            denial,
            message,
            reason,
            kind,
            agent,
        } => {
            let mut fields = json!({
                "tool_name": denial.tool_name, "tool_use_id": denial.tool_use_id,
                "message": message, "decision_reason": reason, "decision_reason_type": kind,
            });
            if let Some(agent) = agent {
                merge(&mut fields, json!({"agent_id": agent}));
            }
            ("permission_denied", fields)
        }
        Event::Refused(refusal) => (
            "model_refusal_no_fallback",
            json!({
                "original_model": refusal.model, "request_id": refusal.request_id,
                "api_refusal_category": refusal.category,
                "api_refusal_explanation": refusal.explanation,
                "refused_user_message_uuid": refusal.prompt, "content": refusal.text(),
            }),
        ),
        Event::ModeChanged(mode) => ("status", json!({"status": null, "permissionMode": mode})),
        Event::Retrying {
            attempt,
            max_retries,
            delay,
            status,
            error,
        } => (
            "api_retry",
            json!({
                "attempt": attempt, "max_retries": max_retries,
                "retry_delay_ms": u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                "error_status": status, "error": error,
            }),
        ),
        Event::ModelFellBack { from, to, reason } => (
            "model_fallback",
            json!({"from_model": from, "to_model": to, "reason": reason}),
        ),
        Event::Compacting => ("status", json!({"status": "compacting"})),
        Event::Compacted {
            trigger,
            pre_tokens,
            post_tokens,
            duration,
        } => {
            let metadata = json!({
                "trigger": trigger, "pre_tokens": pre_tokens, "post_tokens": post_tokens,
                "duration_ms": millis(*duration),
            });
            return vec![
                system(
                    "status",
                    json!({"status": null, "compact_result": "success"}),
                ),
                system("compact_boundary", json!({"compact_metadata": metadata})),
            ];
        }
        Event::CompactionFailed { reason } => {
            let content = format!("The conversation was not compacted: {reason}");
            return vec![
                system(
                    "status",
                    json!({"status": null, "compact_result": "failed", "compact_error": reason}),
                ),
                system(
                    "informational",
                    json!({"level": "warning", "content": content}),
                ),
            ];
        }
        Event::Notice { level, text, .. } => match level {
            NoticeLevel::Info => return Vec::new(),
            NoticeLevel::Notice => ("informational", json!({"level": "notice", "content": text})),
            // Hosts know no stronger word.
            NoticeLevel::Warning | NoticeLevel::Error => (
                "informational",
                json!({"level": "warning", "content": text}),
            ),
        },
        _ => return Vec::new(),
    };
    vec![system(subtype, fields)]
}

/// Whether a host sees the record: the conversation, not the harness's own additions.
fn is_shown(record: &MessageRecord) -> bool {
    matches!(record.kind, RecordKind::User | RecordKind::Assistant) && !record.is_meta
}

fn only_words(record: &MessageRecord) -> bool {
    record.kind == RecordKind::Assistant
        && record.message.as_ref().is_some_and(|message| {
            message
                .blocks()
                .iter()
                .all(|block| block.as_tool_use().is_none())
        })
}

pub(crate) fn merge(into: &mut Value, fields: Value) {
    if let (Some(into), Value::Object(fields)) = (into.as_object_mut(), fields) {
        into.extend(fields);
    }
}

fn init_frame(init: &SessionInit, session_id: SessionId) -> Value {
    let mut frame = json!({"type": "system", "subtype": "init"});
    merge(&mut frame, serde_json::to_value(init).unwrap_or_default());
    merge(
        &mut frame,
        json!({
            "session_id": session_id, "uuid": RecordId::random(),
            "claude_code_version": COMPATIBILITY_VERSION,
            "lathe_version": env!("CARGO_PKG_VERSION"),
            "capabilities": CAPABILITIES,
        }),
    );
    frame
}

fn record_frame(record: &MessageRecord, parent: Option<&str>, session_id: SessionId) -> Value {
    let mut frame = json!({
        "type": record.kind,
        "message": record.message,
        "parent_tool_use_id": parent,
        "session_id": session_id,
        "uuid": record.uuid,
        "timestamp": record.timestamp,
    });
    let optional = [
        ("tool_use_result", record.tool_use_result.clone()),
        ("request_id", record.request_id.clone().map(Value::from)),
        (
            "agent_id",
            record.agent_id.as_ref().map(|id| Value::from(id.0.clone())),
        ),
    ];
    if let Some(object) = frame.as_object_mut() {
        for (name, value) in optional {
            if let Some(value) = value {
                object.insert(name.to_owned(), value);
            }
        }
        for name in [
            "error",
            "aborted",
            "subagent_type",
            "task_description",
            "isReplay",
            "origin",
        ] {
            if let Some(value) = record.extra.get(name) {
                object.insert(name.to_owned(), value.clone());
            }
        }
    }
    frame
}

/// The `result` frame of a turn.
#[must_use]
pub fn result_frame(result: &TurnResult) -> Value {
    let subtype = result_subtype(result);
    let mut frame = json!({
        "type": "result", "subtype": subtype, "is_error": result.is_error,
        "duration_ms": millis(result.duration), "duration_api_ms": millis(result.duration_api),
        "num_turns": result.num_turns,
    });
    if subtype == "success" {
        merge(&mut frame, json!({"result": result.text}));
    } else {
        merge(&mut frame, json!({"errors": result.errors}));
    }
    merge(
        &mut frame,
        json!({
            "stop_reason": result.stop_reason, "session_id": result.session_id,
            "total_cost_usd": result.total_cost_usd, "usage": result.usage,
            "modelUsage": result.model_usage, "permission_denials": result.permission_denials,
            "terminal_reason": result.terminal_reason,
        }),
    );
    let times = &result.times;
    let time = |time: Option<Duration>| time.map(|time| Value::from(millis(time)));
    for (name, value) in [
        ("time_to_request_ms", time(times.request)),
        ("ttft_stream_ms", time(times.stream)),
        ("ttft_ms", time(times.content)),
        ("api_error_status", result.api_error_status.map(Value::from)),
        ("structured_output", result.structured_output.clone()),
        ("deferred_tool_use", result.deferred_tool_use.clone()),
        ("origin", result.origin.clone()),
    ] {
        if let Some(value) = value {
            merge(&mut frame, json!({name: value}));
        }
    }
    merge(&mut frame, json!({"uuid": RecordId::random()}));
    frame
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The `subtype` of a turn's `result` frame.
#[must_use]
pub fn result_subtype(result: &TurnResult) -> &'static str {
    match result.terminal_reason {
        TerminalReason::MaxTurns => "error_max_turns",
        TerminalReason::BudgetExhausted => "error_max_budget_usd",
        TerminalReason::AbortedStreaming
        | TerminalReason::AbortedTools
        | TerminalReason::InternalError
        | TerminalReason::RepeatedCalls
        | TerminalReason::BlockingLimit => "error_during_execution",
        TerminalReason::StructuredOutputRetryExhausted => "error_max_structured_output_retries",
        TerminalReason::Completed
        | TerminalReason::ApiError
        | TerminalReason::StopHookPrevented
        | TerminalReason::HookStopped
        | TerminalReason::ToolDeferred
        | TerminalReason::PromptTooLong
        | TerminalReason::ImageError => "success",
    }
}

/// A line that answers a host's request.
#[must_use]
pub fn control_success(request_id: &RequestId, response: Value) -> Value {
    let mut frame = json!({
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id},
    });
    // Moved in, not copied: an answer may be large.
    if let Some(Value::Object(inner)) = frame.get_mut("response") {
        inner.insert("response".to_owned(), response);
    }
    frame
}

/// A line that refuses a host's request.
#[must_use]
pub fn control_error(request_id: &RequestId, error: &str) -> Value {
    json!({
        "type": "control_response",
        "response": {"subtype": "error", "request_id": request_id, "error": error},
    })
}

/// A line that asks the host.
#[must_use]
pub fn control_request(request_id: &RequestId, request: Value) -> Value {
    let mut frame = json!({"type": "control_request", "request_id": request_id});
    if let Some(fields) = frame.as_object_mut() {
        fields.insert("request".to_owned(), request);
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_frames_parse() {
        let frame = HostFrame::parse(
            r#"{"type":"control_request","request_id":"r1","request":{"subtype":"interrupt"}}"#,
        )
        .unwrap();
        assert!(
            matches!(frame, HostFrame::ControlRequest { request_id, .. } if request_id.0 == "r1")
        );
        let frame = HostFrame::parse(
            r#"{"type":"user","message":{"role":"user","content":"hi"},"session_id":"","parent_tool_use_id":null}"#,
        )
        .unwrap();
        assert!(
            matches!(frame, HostFrame::User(user) if user.message.content == Content::from("hi"))
        );
        let frame = HostFrame::parse(
            r#"{"type":"control_response","response":{"subtype":"error","request_id":"a","error":"no"}}"#,
        )
        .unwrap();
        assert!(
            matches!(frame, HostFrame::ControlResponse { response: Err(HostError::Reported(text)), .. } if text == "no")
        );
        assert_eq!(
            HostFrame::parse(r#"{"type":"keep_alive"}"#).unwrap(),
            HostFrame::KeepAlive
        );
        assert!(matches!(
            HostFrame::parse(r#"{"type":"new"}"#).unwrap(),
            HostFrame::Unknown { .. }
        ));
        assert!(
            HostFrame::parse(r#"{"type":"user"}"#)
                .unwrap_err()
                .to_string()
                .contains("message")
        );
        assert!(HostFrame::parse("{").is_err());
    }
}
