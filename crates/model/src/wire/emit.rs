//! Builds the events of the Messages shape.

use bytes::{BufMut as _, BytesMut};
use lathe_protocol::content::{ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock};
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::message::{AssistantMessage, Role, StopReason};
use lathe_protocol::stream::{Delta, MessageDelta, StreamEvent, StreamPiece};
use lathe_protocol::usage::Usage;
use serde_json::{Map, Value};
use std::collections::VecDeque;

/// How much JSON shares a buffer.
const JSON_BUFFER: usize = 4 * 1024;

/// The block that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Thinking,
    Call,
}

/// Content that arrived during a call and is emitted after it.
#[derive(Debug)]
enum Later {
    Text(String),
    Thinking(String),
    Signature(String),
}

/// Collects the events of one response.
#[derive(Debug)]
pub(crate) struct Emitter {
    model: String,
    out: VecDeque<StreamPiece>,
    /// Where the JSON of the events is written, many in one buffer.
    json: BytesMut,
    open: Option<Open>,
    later: Vec<Later>,
    next: usize,
    started: bool,
    ended: bool,
    ended_empty: bool,
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
            json: BytesMut::with_capacity(JSON_BUFFER),
            open: None,
            later: Vec::new(),
            next: 0,
            started: false,
            ended: false,
            ended_empty: false,
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

    /// Whether it ended by itself without a word and without a call.
    pub(crate) fn ended_empty(&self) -> bool {
        self.ended_empty
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

    /// Usage that nobody counted, marked as a guess.
    pub(crate) fn estimated_usage(&self, input: u64) -> Usage {
        let mut guess = Usage {
            input_tokens: input,
            output_tokens: self.estimated_output(),
            ..Usage::default()
        };
        guess.extra.insert("estimated".to_owned(), true.into());
        guess
    }

    /// A guess at the tokens that were written.
    pub(crate) fn estimated_output(&self) -> u64 {
        (self.written as u64).div_ceil(4)
    }

    fn push(&mut self, event: StreamEvent) {
        if !write_words(&event, &mut self.json)
            && serde_json::to_writer((&mut self.json).writer(), &event).is_err()
        {
            self.json.clear();
        }
        let json = self.json.split().freeze();
        self.out.push_back(StreamPiece::written(event, json));
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

    /// The response begins. Later calls have no effect.
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

    /// Closes the open block, if there is one, and gives out what came in the middle of it.
    pub(crate) fn close(&mut self) {
        if self.open.take().is_none() {
            return;
        }
        self.push(StreamEvent::ContentBlockStop {
            index: self.next - 1,
        });
        for later in std::mem::take(&mut self.later) {
            match later {
                Later::Text(text) if text.trim().is_empty() => {}
                Later::Text(text) => self.text(&text),
                Later::Thinking(text) => self.thinking(&text),
                Later::Signature(signature) => self.sign(&signature),
            }
        }
        if self.open.is_some() {
            self.close();
        }
    }

    /// Whether a call is being written: everything else waits until it is whole, or its arguments would be cut.
    fn is_in_call(&self) -> bool {
        self.open == Some(Open::Call)
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
        if self.is_in_call() {
            if let Some(Later::Text(held)) = self.later.last_mut() {
                held.push_str(text);
            } else {
                self.later.push(Later::Text(text.to_owned()));
            }
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

    /// A block that is whole.
    pub(crate) fn block(&mut self, block: ContentBlock) {
        self.open(Open::Text, block);
        self.close();
        self.has_content = true;
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
        if self.is_in_call() {
            if let Some(Later::Thinking(held)) = self.later.last_mut() {
                held.push_str(text);
            } else {
                self.later.push(Later::Thinking(text.to_owned()));
            }
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
        if self.is_in_call() {
            self.later.push(Later::Signature(signature.to_owned()));
            return;
        }
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
        self.ended_empty = reason == StopReason::EndTurn && !self.has_content;
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

/// Writes the JSON of the events that nearly all of a stream consists of, without the detour of the general way.
/// `false` for any other event, and then nothing is written.
fn write_words(event: &StreamEvent, json: &mut BytesMut) -> bool {
    let StreamEvent::ContentBlockDelta { index, delta } = event else {
        return false;
    };
    let (kind, text) = match delta {
        Delta::TextDelta { text } => (r#","delta":{"type":"text_delta","text":"#, text),
        Delta::ThinkingDelta { thinking } => {
            (r#","delta":{"type":"thinking_delta","thinking":"#, thinking)
        }
        Delta::InputJsonDelta { partial_json } => (
            r#","delta":{"type":"input_json_delta","partial_json":"#,
            partial_json,
        ),
        _ => return false,
    };
    json.reserve(text.len() + 112);
    json.extend_from_slice(br#"{"type":"content_block_delta","index":"#);
    write_number(*index, json);
    json.extend_from_slice(kind.as_bytes());
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        json.put_u8(b'"');
        json.extend_from_slice(text.as_bytes());
        json.put_u8(b'"');
    } else if serde_json::to_writer(json.writer(), text).is_err() {
        // Text can always be written; nothing half-written goes out in any case.
        json.clear();
        return false;
    }
    json.extend_from_slice(b"}}");
    true
}

/// Writes a number, in digits.
fn write_number(number: usize, json: &mut BytesMut) {
    if number >= 10 {
        write_number(number / 10, json);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a digit")]
    json.put_u8(b'0' + (number % 10) as u8);
}

/// A fresh id of a call.
pub(crate) fn new_call_id() -> String {
    format!("call_{:016x}{:08x}", fastrand::u64(..), fastrand::u32(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_the_quick_way_is_the_same_json() {
        let text = "a \"quote\", \\ a line\nand \u{1f600}\u{7}".to_owned();
        for delta in [
            Delta::TextDelta {
                text: "plain, \u{e4} and \u{7f}".to_owned(),
            },
            Delta::TextDelta { text: text.clone() },
            Delta::ThinkingDelta {
                thinking: text.clone(),
            },
            Delta::InputJsonDelta { partial_json: text },
        ] {
            let event = StreamEvent::ContentBlockDelta { index: 120, delta };
            let mut json = BytesMut::new();
            assert!(write_words(&event, &mut json));
            assert_eq!(
                std::str::from_utf8(&json).unwrap(),
                serde_json::to_string(&event).unwrap()
            );
        }
        let mut json = BytesMut::new();
        assert!(!write_words(&StreamEvent::MessageStop, &mut json));
        assert!(json.is_empty());
    }
}
