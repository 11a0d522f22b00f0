//! Builds the events of the Messages shape.

use bytes::Bytes;
use lathe_protocol::content::{ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock};
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::message::{AssistantMessage, Role, StopReason};
use lathe_protocol::stream::{Delta, MessageDelta, StreamEvent, StreamPiece};
use lathe_protocol::usage::Usage;
use serde_json::{Map, Value};
use std::collections::VecDeque;

/// The block that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Thinking,
    Call,
}

/// Collects the events of one response.
#[derive(Debug)]
pub(crate) struct Emitter {
    model: String,
    out: VecDeque<StreamPiece>,
    open: Option<Open>,
    next: usize,
    started: bool,
    ended: bool,
    /// Whether anything but reasoning came.
    has_content: bool,
    has_calls: bool,
    /// Bytes of the answer, for estimating tokens.
    written: usize,
}

impl Emitter {
    pub(crate) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            out: VecDeque::new(),
            open: None,
            next: 0,
            started: false,
            ended: false,
            has_content: false,
            has_calls: false,
            written: 0,
        }
    }

    pub(crate) fn pop(&mut self) -> Option<StreamPiece> {
        self.out.pop_front()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn has_content(&self) -> bool {
        self.has_content
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.has_calls
    }

    /// Whether anything came, reasoning included.
    pub(crate) fn has_anything(&self) -> bool {
        self.next > 0
    }

    /// A guess at the tokens that were written.
    pub(crate) fn estimated_output(&self) -> u64 {
        (self.written as u64).div_ceil(4)
    }

    fn push(&mut self, event: StreamEvent) {
        let raw = Bytes::from(serde_json::to_vec(&event).unwrap_or_default());
        self.out.push_back(StreamPiece::new(event, raw));
    }

    /// Passes an event on that is in the Messages shape already.
    pub(crate) fn pass(&mut self, piece: StreamPiece) {
        self.ended |= matches!(piece.event, StreamEvent::MessageStop);
        self.out.push_back(piece);
    }

    /// The response has begun elsewhere; the next block has this place.
    pub(crate) fn go_on(&mut self, next: usize) {
        self.started = true;
        self.next = next;
    }

    /// The response begins. Only the first call counts.
    pub(crate) fn start(&mut self, id: &str) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let id = if id.is_empty() {
            format!("msg_{:016x}", fastrand::u64(..))
        } else {
            id.to_owned()
        };
        let message = AssistantMessage {
            id,
            kind: "message".to_owned(),
            role: Role::Assistant,
            model: self.model.clone(),
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: Usage::default(),
            extra: Map::new(),
        };
        self.push(StreamEvent::MessageStart { message });
    }

    /// Closes the open block, if there is one.
    pub(crate) fn close(&mut self) {
        if self.open.take().is_some() {
            self.push(StreamEvent::ContentBlockStop {
                index: self.next - 1,
            });
        }
    }

    fn open(&mut self, kind: Open, block: ContentBlock) {
        self.start("");
        self.close();
        self.push(StreamEvent::ContentBlockStart {
            index: self.next,
            content_block: block,
        });
        self.next += 1;
        self.open = Some(kind);
    }

    fn delta(&mut self, delta: Delta) {
        self.push(StreamEvent::ContentBlockDelta {
            index: self.next - 1,
            delta,
        });
    }

    /// Words of the answer.
    pub(crate) fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.open != Some(Open::Text) {
            self.open(Open::Text, ContentBlock::Text(TextBlock::default()));
        }
        self.has_content = true;
        self.written += text.len();
        self.delta(Delta::TextDelta {
            text: text.to_owned(),
        });
    }

    /// Whether reasoning is being written.
    pub(crate) fn is_thinking(&self) -> bool {
        self.open == Some(Open::Thinking)
    }

    /// Words of the reasoning.
    pub(crate) fn thinking(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.begin_thinking();
        self.written += text.len();
        self.delta(Delta::ThinkingDelta {
            thinking: text.to_owned(),
        });
    }

    /// Opens reasoning, if it isn't open.
    pub(crate) fn begin_thinking(&mut self) {
        if self.open != Some(Open::Thinking) {
            self.open(
                Open::Thinking,
                ContentBlock::Thinking(ThinkingBlock::default()),
            );
        }
    }

    /// Ends reasoning with what the provider wants back.
    pub(crate) fn sign(&mut self, signature: &str) {
        self.begin_thinking();
        self.delta(Delta::SignatureDelta {
            signature: signature.to_owned(),
        });
        self.close();
    }

    /// A call begins.
    pub(crate) fn call(&mut self, id: &str, name: &str) {
        self.open(
            Open::Call,
            ContentBlock::ToolUse(ToolUseBlock {
                id: ToolUseId::from(id.to_owned()),
                name: name.to_owned(),
                input: Value::Object(Map::new()),
                extra: Map::new(),
            }),
        );
        self.has_content = true;
        self.has_calls = true;
    }

    /// Arguments of the call that is open.
    pub(crate) fn arguments(&mut self, json: &str) {
        if json.is_empty() || self.open != Some(Open::Call) {
            return;
        }
        self.written += json.len();
        self.delta(Delta::InputJsonDelta {
            partial_json: json.to_owned(),
        });
    }

    /// The response ends.
    pub(crate) fn end(&mut self, reason: StopReason, usage: Usage) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.start("");
        self.close();
        self.push(StreamEvent::MessageDelta {
            delta: MessageDelta {
                stop_reason: Some(reason),
                ..MessageDelta::default()
            },
            usage,
            extra: Map::new(),
        });
        self.push(StreamEvent::MessageStop);
    }
}

/// A fresh id of a call.
pub(crate) fn new_call_id() -> String {
    format!("call_{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..))
}
