//! The events of a streamed response, in the shape that the Messages API sends them. Providers of
//! other families translate theirs into these.

use crate::Extra;
use crate::content::ContentBlock;
use crate::message::{AssistantMessage, StopReason};
use crate::usage::Usage;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event of a streamed response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamEvent {
    /// The response begins.
    MessageStart {
        /// The message so far: id, model, input usage, no content.
        message: AssistantMessage,
    },
    /// A block begins.
    ContentBlockStart {
        /// The block's place.
        index: usize,
        /// The block so far.
        content_block: ContentBlock,
    },
    /// A block grows.
    ContentBlockDelta {
        /// The block's place.
        index: usize,
        /// The addition.
        delta: Delta,
    },
    /// A block is complete.
    ContentBlockStop {
        /// The block's place.
        index: usize,
    },
    /// The message as a whole changes: stop reason and running totals.
    MessageDelta {
        /// The changes.
        delta: MessageDelta,
        /// Totals so far.
        #[serde(default)]
        usage: Usage,
        /// Unknown fields.
        #[serde(flatten)]
        extra: Extra,
    },
    /// The response is complete.
    MessageStop,
    /// Keeps the connection alive; means nothing.
    Ping,
    /// The provider reports trouble in the middle of the stream.
    Error {
        /// The error message.
        error: StreamError,
    },
}

/// An addition to a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// More text.
    TextDelta {
        /// The text.
        text: String,
    },
    /// More of a call's arguments, as JSON text.
    InputJsonDelta {
        /// A piece of JSON; pieces concatenate.
        partial_json: String,
    },
    /// More reasoning.
    ThinkingDelta {
        /// The reasoning.
        thinking: String,
    },
    /// The reasoning's signature.
    SignatureDelta {
        /// The signature.
        signature: String,
    },
    /// A citation for the text.
    CitationsDelta {
        /// The citation, verbatim.
        citation: Value,
    },
    /// A kind that this version doesn't know, verbatim.
    #[serde(untagged)]
    Other(Value),
}

/// Changes to the message as a whole.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MessageDelta {
    /// Why the model stopped.
    #[serde(default)]
    pub stop_reason: Option<StopReason>,
    /// The stop sequence that came up.
    #[serde(default)]
    pub stop_sequence: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An error as the API words it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamError {
    /// For example `overloaded_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The error message.
    #[serde(default)]
    pub message: String,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An event together with the JSON that it was read from. Nobody needs to parse it again: what looks
/// into the event takes it parsed, what passes it on takes the bytes.
#[derive(Debug, Clone)]
pub struct StreamPiece {
    /// The event.
    pub event: StreamEvent,
    json: Bytes,
}

impl StreamPiece {
    /// An event and the JSON that it was read from. The JSON is kept as it came, but on one line: outside
    /// of strings, where a line can't end, every kind of space is the same.
    #[must_use]
    pub fn new(event: StreamEvent, json: Bytes) -> Self {
        let is_text = std::str::from_utf8(&json).is_ok();
        let json = if !is_text {
            // Fields that were skipped may hold anything; what was read is text.
            serde_json::to_vec(&event).unwrap_or_default().into()
        } else if memchr::memchr2(b'\n', b'\r', &json).is_some() {
            let spaced = json.iter().map(|byte| match byte {
                b'\n' | b'\r' => b' ',
                other => *other,
            });
            spaced.collect()
        } else {
            json
        };
        Self { event, json }
    }

    /// An event and its JSON as `serde_json` writes it: UTF-8, on one line. It is not looked at again.
    #[must_use]
    pub fn written(event: StreamEvent, json: Bytes) -> Self {
        debug_assert!(std::str::from_utf8(&json).is_ok_and(|text| !text.contains(['\n', '\r'])));
        Self { event, json }
    }

    /// The event as JSON: UTF-8, on one line.
    #[must_use]
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Whether the model got any further by it. Keep-alives are no progress.
    #[must_use]
    pub fn is_progress(&self) -> bool {
        !matches!(self.event, StreamEvent::Ping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_an_event_stay_as_they_came_on_one_line() {
        let json = |came: &'static [u8]| {
            let piece = StreamPiece::new(StreamEvent::Ping, Bytes::from_static(came));
            String::from_utf8(piece.json().to_vec()).unwrap()
        };
        assert_eq!(
            json(br#"{"type": "ping","b":"\n","c":1e2}"#),
            r#"{"type": "ping","b":"\n","c":1e2}"#
        );
        assert_eq!(json(b"{\"type\":\r\n\"ping\"}"), "{\"type\":  \"ping\"}");
        assert_eq!(
            json(b"{\"type\":\"ping\",\"x\":\"\xff\"}"),
            r#"{"type":"ping"}"#
        );
    }

    #[test]
    fn events_parse_as_the_api_sends_them() {
        let cases = [
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"compaction_delta","x":1}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_stop"}"#,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
        ];
        for case in cases {
            let event: StreamEvent = serde_json::from_str(case).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), case);
        }
        let event: StreamEvent = serde_json::from_str(
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}"#,
        )
        .unwrap();
        assert!(
            matches!(event, StreamEvent::MessageDelta { usage, .. } if usage.output_tokens == 5)
        );
    }
}
