//! One scripted reply: what the model says, how the bytes are paced, and what goes wrong.
//!
//! A reply is plain data, so that the same thing can be written in a scenario file and built in
//! Rust. Its parts are independent: the *content* (blocks, stop reason, usage), the *framing* (how
//! the event stream is spelt), the *pacing* (chunks, delays, gates) and the *fault* (an ending that
//! comes too early, or an answer that isn't a message at all).

use crate::scenario::When;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The answer to one request (or to several, see [`Reply::times`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// Only requests like this get the reply; `None` takes the next request in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// How often the reply may be used.
    pub repeat: Repeat,
    /// Whether the scenario is complete without this reply having been used.
    pub optional: bool,
    /// Short form for a text block at the front of `content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The message's blocks as the API writes them. A `tool_use` without `id`, a `thinking` without
    /// `signature` and a `redacted_thinking` without `data` get one; anything else is sent verbatim.
    pub content: Vec<Value>,
    /// Why the model stops; by default `tool_use` if there is a call, else `end_turn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The stop sequence that came up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_sequence: Option<String>,
    /// Fields of `usage` that replace the computed ones.
    pub usage: Map<String, Value>,
    /// The model that the message names; by default the requested one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The id that the message has; by default one of its own. Servers of other makers may give every
    /// message the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Extra response headers, for example `retry-after`.
    pub headers: BTreeMap<String, String>,
    /// Waits before the response's headers are sent.
    pub before_headers: Vec<Wait>,
    /// How the stream is spelt.
    pub framing: Framing,
    /// Characters in one delta of a block.
    pub delta_characters: usize,
    /// How the body is cut into chunks.
    pub chunks: Chunks,
    /// Milliseconds between two chunks.
    pub chunk_delay_ms: u64,
    /// Places in the body where the server waits.
    pub pauses: Vec<Pause>,
    /// Raw bytes put into the body: comments, garbage, unknown events.
    pub insertions: Vec<Insertion>,
    /// Where and how the body ends before it is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// An answer that isn't a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            when: None,
            repeat: Repeat::default(),
            optional: false,
            text: None,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: Map::new(),
            model: None,
            id: None,
            headers: BTreeMap::new(),
            before_headers: Vec::new(),
            framing: Framing::default(),
            delta_characters: 32,
            chunks: Chunks::default(),
            chunk_delay_ms: 0,
            pauses: Vec::new(),
            insertions: Vec::new(),
            cut: None,
            fault: None,
        }
    }
}

/// How often a reply may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// For one request.
    #[default]
    Once,
    /// For every request that it fits.
    Forever,
    /// For this many requests.
    #[serde(untagged)]
    Times(usize),
}

/// A place in the body of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// Before the first byte.
    Start,
    /// After this many bytes.
    Byte(usize),
    /// Before the first event of this name.
    BeforeEvent(String),
    /// Before the block's `content_block_start`.
    BeforeBlock(usize),
    /// Between the deltas of the block.
    MidBlock(usize),
    /// After the block's `content_block_stop`.
    AfterBlock(usize),
    /// After the last byte, the stream still open.
    End,
}

/// Something that the server waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// The test opens the gate of this name.
    Gate(String),
    /// This many milliseconds pass.
    DelayMs(u64),
    /// The client goes away.
    Forever,
}

/// A wait at a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Where.
    pub at: Position,
    /// For what.
    pub wait: Wait,
}

/// Raw bytes at a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Insertion {
    /// Where.
    pub at: Position,
    /// The text, sent as it is.
    pub raw: String,
}

/// An early end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Where the reply stops being itself.
    pub at: Position,
    /// The event.
    pub how: Ending,
}

/// The event where a reply is cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The connection is dropped; the client sees an incomplete body.
    Drop,
    /// The body ends in good order, as if nothing were missing.
    EndOfBody,
    /// Nothing more is sent, the connection stays open.
    Silence,
    /// Only comment lines (`: ping`) are sent, forever.
    KeepAliveComments {
        /// Milliseconds between two of them.
        every_ms: u64,
    },
    /// Only `ping` events are sent, forever.
    KeepAliveEvents {
        /// Milliseconds between two of them.
        every_ms: u64,
    },
    /// An `error` event, then the end.
    ErrorEvent {
        /// For example `overloaded_error`.
        kind: String,
        /// The message.
        message: String,
    },
}

/// How the event stream is spelt. Every form is legal; clients must read them all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Framing {
    /// How lines end.
    pub line_end: LineEnd,
    /// Whether the stream begins with a byte order mark.
    pub byte_order_mark: bool,
    /// Whether a comment line precedes every event.
    pub comments: bool,
    /// Whether a space follows `data:` and `event:`.
    pub space_after_colon: bool,
    /// Whether `event:` lines are sent at all.
    pub event_names: bool,
    /// Whether a `ping` event follows the first block's start, as the API sends it.
    pub ping: bool,
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            line_end: LineEnd::Lf,
            byte_order_mark: false,
            comments: false,
            space_after_colon: true,
            event_names: true,
            ping: true,
        }
    }
}

/// How lines of the event stream end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineEnd {
    /// A line feed.
    #[default]
    Lf,
    /// Carriage return and line feed.
    CrLf,
    /// A carriage return.
    Cr,
}

/// How the body is cut into chunks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chunks {
    /// One chunk per event.
    #[default]
    PerEvent,
    /// One chunk for the whole body.
    Whole,
    /// Chunks of this many bytes, wherever that cuts a line or a character.
    Bytes(usize),
    /// Cuts at these byte offsets.
    At(Vec<usize>),
}

/// An answer that isn't a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// An HTTP error with the API's error body.
    Error {
        /// The HTTP status.
        status: u16,
        /// The error's `type`; by default the one that belongs to the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// The error's message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Any status with any body, for example a proxy's HTML page.
    Raw {
        /// The HTTP status.
        status: u16,
        /// The content type.
        content_type: String,
        /// The body.
        body: String,
    },
    /// The connection is closed without an answer.
    HangUp,
    /// No answer ever comes.
    NeverAnswer,
}

impl Reply {
    /// A message of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().with_text(text)
    }

    /// A message that calls one tool.
    pub fn tool_use(name: impl Into<String>, input: Value) -> Self {
        Self::default().with_tool_use(name, input)
    }

    /// A message of one thinking block; add text or a call to it.
    pub fn thinking(thinking: impl Into<String>) -> Self {
        Self::default().with_thinking(thinking)
    }

    /// A message of these blocks, as the API writes them.
    #[must_use]
    pub fn blocks(content: Vec<Value>) -> Self {
        Self {
            content,
            ..Self::default()
        }
    }

    /// An HTTP error with the API's type and wording for that status.
    #[must_use]
    pub fn error(status: u16) -> Self {
        Self::fault(Fault::Error {
            status,
            kind: None,
            message: None,
        })
    }

    /// An HTTP error with this type and message.
    pub fn error_with(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self::fault(Fault::Error {
            status,
            kind: Some(kind.into()),
            message: Some(message.into()),
        })
    }

    /// Any status with any body.
    pub fn raw(status: u16, content_type: impl Into<String>, body: impl Into<String>) -> Self {
        Self::fault(Fault::Raw {
            status,
            content_type: content_type.into(),
            body: body.into(),
        })
    }

    /// A `200` with nothing in it.
    #[must_use]
    pub fn empty_body() -> Self {
        Self::raw(200, "text/event-stream; charset=utf-8", "")
    }

    /// The connection is closed without an answer.
    #[must_use]
    pub fn hang_up() -> Self {
        Self::fault(Fault::HangUp)
    }

    /// No answer ever comes.
    #[must_use]
    pub fn never_answer() -> Self {
        Self::fault(Fault::NeverAnswer)
    }

    /// An answer that isn't a message.
    #[must_use]
    pub fn fault(fault: Fault) -> Self {
        Self {
            fault: Some(fault),
            ..Self::default()
        }
    }

    /// Adds a text block.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.with_block(json!({"type": "text", "text": text.into()}))
    }

    /// Adds a tool call; the server makes up its id.
    #[must_use]
    pub fn with_tool_use(self, name: impl Into<String>, input: Value) -> Self {
        self.with_call(None, name.into(), input)
    }

    /// Adds a tool call with an id of your choice.
    #[must_use]
    pub fn with_tool_use_id(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        input: Value,
    ) -> Self {
        self.with_call(Some(id.into()), name.into(), input)
    }

    fn with_call(self, id: Option<String>, name: String, input: Value) -> Self {
        let mut call = Map::new();
        call.insert("type".into(), json!("tool_use"));
        if let Some(id) = id {
            call.insert("id".into(), json!(id));
        }
        call.insert("name".into(), Value::String(name));
        call.insert("input".into(), input);
        self.with_block(Value::Object(call))
    }

    /// Adds a thinking block; the server signs it.
    #[must_use]
    pub fn with_thinking(self, thinking: impl Into<String>) -> Self {
        self.with_block(json!({"type": "thinking", "thinking": thinking.into()}))
    }

    /// Adds a block verbatim.
    #[must_use]
    pub fn with_block(mut self, block: Value) -> Self {
        self.content.push(block);
        self
    }

    /// Only requests like this get the reply.
    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = Some(when);
        self
    }

    /// The reply may be used this often.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.repeat = Repeat::Times(times);
        self
    }

    /// The reply answers every request that it fits.
    #[must_use]
    pub fn forever(mut self) -> Self {
        self.repeat = Repeat::Forever;
        self
    }

    /// The scenario is complete without this reply.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Replaces one field of the computed usage.
    #[must_use]
    pub fn usage(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.usage.insert(field.into(), value.into());
        self
    }

    /// The model that the message names.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The id that the message has.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Adds a response header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Waits before the response's headers.
    #[must_use]
    pub fn wait_before_headers(mut self, wait: Wait) -> Self {
        self.before_headers.push(wait);
        self
    }

    /// Sets how the stream is spelt.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Sets how many characters one delta holds.
    #[must_use]
    pub fn delta_characters(mut self, characters: usize) -> Self {
        self.delta_characters = characters;
        self
    }

    /// Sets how the body is cut into chunks.
    #[must_use]
    pub fn chunks(mut self, chunks: Chunks) -> Self {
        self.chunks = chunks;
        self
    }

    /// Waits this long between two chunks.
    #[must_use]
    pub fn chunk_delay_ms(mut self, milliseconds: u64) -> Self {
        self.chunk_delay_ms = milliseconds;
        self
    }

    /// Waits at a place until the test opens the gate.
    #[must_use]
    pub fn gate(self, at: Position, name: impl Into<String>) -> Self {
        self.pause(at, Wait::Gate(name.into()))
    }

    /// Waits at a place.
    #[must_use]
    pub fn pause(mut self, at: Position, wait: Wait) -> Self {
        self.pauses.push(Pause { at, wait });
        self
    }

    /// Puts raw bytes into the body.
    #[must_use]
    pub fn insert(mut self, at: Position, raw: impl Into<String>) -> Self {
        self.insertions.push(Insertion {
            at,
            raw: raw.into(),
        });
        self
    }

    /// Ends the body early.
    #[must_use]
    pub fn cut(mut self, at: Position, how: Ending) -> Self {
        self.cut = Some(Cut { at, how });
        self
    }

    /// Drops the connection after this many bytes of the body.
    #[must_use]
    pub fn drop_after(self, bytes: usize) -> Self {
        self.cut(Position::Byte(bytes), Ending::Drop)
    }

    /// The blocks with the short form in front.
    pub(crate) fn all_content(&self) -> Vec<Value> {
        let first = self
            .text
            .iter()
            .map(|text| json!({"type": "text", "text": text}));
        first.chain(self.content.iter().cloned()).collect()
    }
}

impl Reply {
    /// A short description for messages.
    pub(crate) fn summary(&self) -> Value {
        let mut summary = Map::new();
        if let Some(when) = &self.when {
            summary.insert("when".into(), json!(when));
        }
        match &self.fault {
            Some(fault) => summary.insert("fault".into(), json!(fault)),
            None => summary.insert("content".into(), Value::Array(self.all_content())),
        };
        Value::Object(summary)
    }
}
