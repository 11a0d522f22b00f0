//! The frames of the wire, one JSON object per line.
//!
//! Reading is lenient about unknown fields and strict about known ones. A line that is no frame is a [`FrameError`],
//! never the end of a connection by itself: the caller decides.

use crate::folder::HostState;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lathe_protocol::content::Content;
use lathe_protocol::elicitation::ElicitationReply;
use lathe_protocol::ids::{RecordId, RequestId, SessionId};
use lathe_protocol::permission::{PermissionMode, PermissionReply};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The version of the wire.
pub const VERSION: u32 = 1;

/// The largest line, in bytes. Prompts may carry images, and snapshots the last records.
pub const LARGEST_LINE: usize = 32 * 1024 * 1024;

/// How often a host says that it is there.
pub const BEAT: std::time::Duration = std::time::Duration::from_secs(10);

/// How long a client waits for anything before it reconnects.
pub const SILENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Names an operation. The same id sent again is answered again and not repeated.
pub type OpId = uuid::Uuid;

/// A place in the stream of events.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cursor {
    /// Which conversation: `/clear` and `/resume` begin another one.
    pub epoch: String,
    /// The last event that was seen.
    pub seq: u64,
}

/// The kind of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientKind {
    /// A command of `lathe`, such as `ps` or `board`.
    #[default]
    Cli,
    /// A terminal that shows the session's screen.
    Terminal,
    /// A page in a browser.
    Page,
    /// A program.
    Sdk,
    /// Another session.
    Session,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Characters of a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

/// The first frame of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub v: u32,
    /// The name that others see, such as `board` or `phone`.
    #[serde(default)]
    pub client: String,
    /// Its kind.
    #[serde(default)]
    pub kind: ClientKind,
    /// The last event that it has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Cursor>,
    /// The size of a [`ClientKind::Terminal`], which gets the bytes of the screen instead of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
}

impl Hello {
    /// A client that has seen nothing.
    #[must_use]
    pub fn new(client: &str, kind: ClientKind) -> Self {
        Self {
            v: VERSION,
            client: client.to_owned(),
            kind,
            after: None,
            size: None,
        }
    }
}

/// An operation that a client asks a session for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WireOp {
    /// A prompt. Queued during a turn.
    Prompt {
        /// Text, or blocks as the API has them.
        content: Content,
        /// The id of the record it becomes; the id of the operation if it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uuid: Option<RecordId>,
    },
    /// Takes a prompt back that was not delivered yet.
    CancelPrompt {
        /// The prompt.
        uuid: RecordId,
    },
    /// Stops the turn.
    Interrupt {
        /// Whether prompts that wait are dropped too.
        #[serde(default)]
        drop_queued: bool,
    },
    /// Answers a permission question.
    PermissionReply {
        /// The question.
        request_id: RequestId,
        /// The answer.
        reply: PermissionReply,
    },
    /// Answers a question of an MCP server.
    ElicitationReply {
        /// The question.
        request_id: RequestId,
        /// The answer.
        reply: ElicitationReply,
    },
    /// Changes the permission mode.
    SetMode {
        /// The mode.
        mode: PermissionMode,
    },
    /// Changes the model.
    SetModel {
        /// The model.
        model: String,
    },
    /// Changes how much the model may think.
    SetThinking {
        /// The most tokens; 0 for none, absent for the default.
        #[serde(default)]
        max_thinking_tokens: Option<u32>,
    },
    /// Names the session.
    Rename {
        /// The name.
        title: String,
    },
    /// A message of another session.
    Message {
        /// The session that sends it.
        from: SessionId,
        /// Its name, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The text.
        text: String,
    },
    /// Ends the session and its process.
    Stop,
}

/// A line from a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientFrame {
    /// The first line.
    Hello(Hello),
    /// An operation.
    Op {
        /// Names it.
        id: OpId,
        /// The operation.
        op: WireOp,
        /// Who asks, where one connection serves several people (a device's name); else the client's name.
        by: Option<String>,
    },
    /// Bytes typed at an attached terminal.
    Input(Vec<u8>),
    /// The size of an attached terminal changed.
    Size(Size),
}

/// Why an operation was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NakCode {
    /// The session refuses it.
    #[default]
    Refused,
    /// Somebody else answered the question first: see `by` and `reply`.
    Answered,
    /// The question was withdrawn.
    Withdrawn,
    /// There is no such question or prompt.
    Unknown,
    /// The frame could not be read.
    Invalid,
}

/// An operation that was not done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nak {
    /// The operation.
    #[serde(rename = "nak")]
    pub id: OpId,
    /// Why, in words.
    pub why: String,
    /// Why, for programs.
    #[serde(default)]
    pub code: NakCode,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The answer that won.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Value>,
}

/// A client, as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its name.
    pub client: String,
    /// Its kind.
    pub kind: ClientKind,
}

/// A prompt that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedPrompt {
    /// Its id.
    pub uuid: RecordId,
    /// Its text.
    pub text: String,
}

/// Everything that a client needs to show a session that it has not seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Which conversation.
    pub epoch: String,
    /// The last event that the snapshot includes.
    pub seq: u64,
    /// The activity of the session.
    pub state: HostState,
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    #[serde(default)]
    pub title: Option<String>,
    /// The `system`/`init` frame; null before the first turn.
    #[serde(default)]
    pub init: Value,
    /// The last records, as frames.
    #[serde(default)]
    pub records: Vec<Value>,
    /// The blocks of the answer that is being written, by index: `{"type":"text","text":…}`.
    #[serde(default)]
    pub partial: Vec<Value>,
    /// Open questions, as `control_request` frames.
    #[serde(default)]
    pub questions: Vec<Value>,
    /// Prompts that wait.
    #[serde(default)]
    pub queue: Vec<QueuedPrompt>,
    /// Background tasks that run, as their `task_started` frames.
    #[serde(default)]
    pub tasks: Vec<Value>,
    /// Who is connected.
    #[serde(default)]
    pub clients: Vec<ClientInfo>,
}

/// A line from a host.
#[derive(Debug, Clone)]
pub enum HostFrame {
    /// The session as it is now. What was seen before it does not matter any more.
    Snapshot(Box<Snapshot>),
    /// An event.
    Event {
        /// Its number; one more than that of the event before it.
        seq: u64,
        /// The frame.
        event: Box<RawValue>,
    },
    /// An operation was done.
    Ack(OpId),
    /// An operation was not done.
    Nak(Box<Nak>),
    /// Everything up to this event was sent.
    Beat(u64),
    /// Bytes for an attached terminal.
    Output(Vec<u8>),
    /// The host ends this connection for good, and why.
    Bye(String),
}

/// A line that is no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Not JSON, or a field has the wrong shape.
    #[error("not a frame: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON that is none of the frames.
    #[error("not a frame: {0}")]
    Shape(&'static str),
    /// Bytes of a terminal that are not base64.
    #[error("not a frame: bytes are not base64")]
    Bytes,
}

#[derive(Deserialize)]
struct ClientFields {
    hello: Option<Hello>,
    id: Option<OpId>,
    op: Option<WireOp>,
    by: Option<String>,
    r#in: Option<String>,
    size: Option<Size>,
}

#[derive(Deserialize)]
struct HostFields {
    snapshot: Option<Box<Snapshot>>,
    seq: Option<u64>,
    event: Option<Box<RawValue>>,
    ack: Option<OpId>,
    nak: Option<OpId>,
    #[serde(default)]
    why: String,
    #[serde(default)]
    code: NakCode,
    by: Option<String>,
    reply: Option<Value>,
    beat: Option<u64>,
    out: Option<String>,
    bye: Option<String>,
}

fn bytes_of(text: &str) -> Result<Vec<u8>, FrameError> {
    STANDARD.decode(text).map_err(|_| FrameError::Bytes)
}

fn line_of(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

impl ClientFrame {
    /// Reads a line.
    ///
    /// # Errors
    /// If the line is no frame of a client.
    pub fn parse(line: &[u8]) -> Result<Self, FrameError> {
        let fields: ClientFields = serde_json::from_slice(line)?;
        match fields {
            ClientFields {
                hello: Some(hello), ..
            } => Ok(Self::Hello(hello)),
            ClientFields {
                id: Some(id),
                op: Some(op),
                by,
                ..
            } => Ok(Self::Op { id, op, by }),
            ClientFields {
                r#in: Some(bytes), ..
            } => Ok(Self::Input(bytes_of(&bytes)?)),
            ClientFields {
                size: Some(size), ..
            } => Ok(Self::Size(size)),
            _ => Err(FrameError::Shape("neither hello, id and op, in, nor size")),
        }
    }

    /// The id in a line that is no valid operation, so that it can be refused by name.
    #[must_use]
    pub fn id_in(line: &[u8]) -> Option<OpId> {
        #[derive(Deserialize)]
        struct OnlyId {
            id: OpId,
        }
        let only: OnlyId = serde_json::from_slice(line).ok()?;
        Some(only.id)
    }

    /// The line with its end.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        match self {
            Self::Hello(hello) => line_of(&json!({"hello": hello})),
            Self::Op { id, op, by: None } => line_of(&json!({"id": id, "op": op})),
            Self::Op { id, op, by } => line_of(&json!({"id": id, "op": op, "by": by})),
            Self::Input(bytes) => line_of(&json!({"in": STANDARD.encode(bytes)})),
            Self::Size(size) => line_of(&json!({"size": size})),
        }
    }
}

impl HostFrame {
    /// Reads a line.
    ///
    /// # Errors
    /// If the line is no frame of a host.
    pub fn parse(line: &[u8]) -> Result<Self, FrameError> {
        let fields: HostFields = serde_json::from_slice(line)?;
        if let (Some(seq), Some(event)) = (fields.seq, fields.event) {
            return Ok(Self::Event { seq, event });
        }
        if let Some(snapshot) = fields.snapshot {
            return Ok(Self::Snapshot(snapshot));
        }
        if let Some(id) = fields.ack {
            return Ok(Self::Ack(id));
        }
        if let Some(id) = fields.nak {
            return Ok(Self::Nak(Box::new(Nak {
                id,
                why: fields.why,
                code: fields.code,
                by: fields.by,
                reply: fields.reply,
            })));
        }
        if let Some(seq) = fields.beat {
            return Ok(Self::Beat(seq));
        }
        if let Some(bytes) = fields.out {
            return Ok(Self::Output(bytes_of(&bytes)?));
        }
        fields
            .bye
            .map(Self::Bye)
            .ok_or(FrameError::Shape("no known field"))
    }

    /// The line with its end.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        match self {
            Self::Snapshot(snapshot) => line_of(&json!({"snapshot": snapshot})),
            Self::Event { seq, event } => event_line(*seq, event.get().as_bytes()),
            Self::Ack(id) => line_of(&json!({"ack": id})),
            Self::Nak(nak) => line_of(nak),
            Self::Beat(seq) => line_of(&json!({"beat": seq})),
            Self::Output(bytes) => line_of(&json!({"out": STANDARD.encode(bytes)})),
            Self::Bye(why) => line_of(&json!({"bye": why})),
        }
    }
}

/// The line of an event whose JSON is there already.
#[must_use]
pub fn event_line(seq: u64, event: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(event.len() + 32);
    line.extend_from_slice(format!("{{\"seq\":{seq},\"event\":").as_bytes());
    line.extend_from_slice(event);
    line.extend_from_slice(b"}\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> HostFrame {
        HostFrame::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn frames_of_clients_are_written_as_they_are_read() {
        let id = "6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f";
        let rows = [
            r#"{"hello":{"v":1,"client":"board","kind":"cli"}}"#.to_owned(),
            r#"{"hello":{"v":1,"client":"x","kind":"page","after":{"epoch":"e","seq":7}}}"#
                .to_owned(),
            r#"{"hello":{"v":1,"client":"t","kind":"terminal","size":{"columns":80,"rows":24}}}"#
                .to_owned(),
            format!(r#"{{"id":"{id}","op":{{"type":"prompt","content":"go on"}}}}"#),
            format!(
                r#"{{"id":"{id}","op":{{"type":"prompt","content":[{{"type":"text","text":"a"}}],"uuid":"{id}"}}}}"#
            ),
            format!(r#"{{"id":"{id}","op":{{"type":"cancel_prompt","uuid":"{id}"}}}}"#),
            format!(r#"{{"id":"{id}","op":{{"type":"interrupt","drop_queued":true}}}}"#),
            format!(
                r#"{{"id":"{id}","op":{{"type":"permission_reply","request_id":"r","reply":{{"behavior":"deny","message":"no","interrupt":false}}}},"by":"phone"}}"#
            ),
            format!(
                r#"{{"id":"{id}","op":{{"type":"elicitation_reply","request_id":"r","reply":{{"action":"decline"}}}}}}"#
            ),
            format!(r#"{{"id":"{id}","op":{{"type":"set_mode","mode":"acceptEdits"}}}}"#),
            format!(r#"{{"id":"{id}","op":{{"type":"set_model","model":"opus"}}}}"#),
            format!(r#"{{"id":"{id}","op":{{"type":"set_thinking","max_thinking_tokens":1024}}}}"#),
            format!(r#"{{"id":"{id}","op":{{"type":"rename","title":"release"}}}}"#),
            format!(r#"{{"id":"{id}","op":{{"type":"message","from":"{id}","text":"done"}}}}"#),
            format!(r#"{{"id":"{id}","op":{{"type":"stop"}}}}"#),
            r#"{"in":"G1tB"}"#.to_owned(),
            r#"{"size":{"columns":100,"rows":30}}"#.to_owned(),
        ];
        for row in rows {
            let frame =
                ClientFrame::parse(row.as_bytes()).unwrap_or_else(|error| panic!("{row}: {error}"));
            let line = String::from_utf8(frame.to_line()).unwrap();
            assert_eq!(line.trim_end(), row);
        }
    }

    #[test]
    fn frames_of_hosts_are_written_as_they_are_read() {
        let id = "6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f";
        let rows = [
            format!(
                r#"{{"snapshot":{{"epoch":"e","seq":3,"state":"needs-you","session_id":"{id}","title":null,"init":null,"records":[],"partial":[],"questions":[],"queue":[{{"uuid":"{id}","text":"a"}}],"tasks":[],"clients":[{{"client":"b","kind":"page"}}]}}}}"#
            ),
            r#"{"seq":9,"event":{"type":"system",  "spaces": "stay"}}"#.to_owned(),
            format!(r#"{{"ack":"{id}"}}"#),
            format!(
                r#"{{"nak":"{id}","why":"too late","code":"answered","by":"phone","reply":{{"behavior":"allow"}}}}"#
            ),
            r#"{"beat":12}"#.to_owned(),
            r#"{"out":"G1tB"}"#.to_owned(),
            r#"{"bye":"the session ended"}"#.to_owned(),
        ];
        for row in rows {
            let line = String::from_utf8(host(&row).to_line()).unwrap();
            assert_eq!(line.trim_end(), row);
        }
    }

    #[test]
    fn unknown_fields_are_skipped_and_wrong_ones_are_errors() {
        assert!(matches!(
            host(r#"{"beat":1,"later":true}"#),
            HostFrame::Beat(1)
        ));
        for wrong in [
            "",
            "{}",
            "[]",
            "null",
            "{\"beat\":-1}",
            "{\"ack\":7}",
            "{\"seq\":1}",
            "{\"seq\":1,\"event\":",
            "{\"out\":\"?\"}",
            "{\"snapshot\":{}}",
        ] {
            assert!(HostFrame::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "{}",
            "{\"hello\":{}}",
            "{\"id\":\"x\"}",
            "{\"in\":\"?\"}",
            "{\"size\":{\"columns\":70000,\"rows\":1}}",
            "{\"id\":\"6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f\",\"op\":{\"type\":\"rm_rf\"}}",
        ] {
            assert!(ClientFrame::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let unknown = br#"{"id":"6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f","op":{"type":"later"}}"#;
        assert!(ClientFrame::id_in(unknown).is_some());
    }
}
