//! The events of a streamed response, in the shape that the Messages API sends them. Providers of
//! other families translate theirs into these.

use crate::Extra;
use crate::content::ContentBlock;
use crate::message::{AssistantMessage, StopReason};
use crate::usage::Usage;
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
        /// What is added.
        delta: Delta,
    },
    /// A block is complete.
    ContentBlockStop {
        /// The block's place.
        index: usize,
    },
    /// The message as a whole changes: stop reason and running totals.
    MessageDelta {
        /// What changes.
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
        /// What went wrong.
        error: StreamError,
    },
}

/// What a block grows by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// More words.
    TextDelta {
        /// The words.
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
    /// What went wrong.
    #[serde(default)]
    pub message: String,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

#[cfg(test)]
mod tests {
    use super::*;

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
