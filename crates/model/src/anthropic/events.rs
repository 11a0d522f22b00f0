//! Responses as events: decoded from a stream, or made from a whole message.

use crate::classify;
use crate::lenient;
use crate::wire::decoding::Unusable;
use bytes::Bytes;
use lathe_net::sse::SseEvent;
use lathe_protocol::content::{ContentBlock, TextBlock, ThinkingBlock};
use lathe_protocol::message::AssistantMessage;
use lathe_protocol::stream::{Delta, MessageDelta, StreamEvent, StreamPiece};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Event types that this version knows. Any other is news from a newer API, and skipped.
const KNOWN: [&str; 8] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
];

/// Reads one event of a stream; `None` for one that this version doesn't know.
pub(crate) fn read(
    event: SseEvent,
    request_id: Option<&str>,
) -> Result<Option<StreamPiece>, Unusable> {
    let Some(data) = event.data else {
        return Ok(None);
    };
    // What gateways of another family end their streams with.
    if data.as_ref() == b"[DONE]" {
        return Ok(None);
    }
    if let Some(parsed) = growth(&data) {
        return Ok(Some(StreamPiece::new(parsed, data)));
    }
    let parsed = match serde_json::from_slice::<StreamEvent>(&data) {
        Ok(parsed) => parsed,
        Err(error) => match second_look(&data) {
            SecondLook::Event(parsed) => *parsed,
            SecondLook::Unknown(kind) => {
                tracing::debug!(kind, "skipping an event of unknown type");
                return Ok(None);
            }
            SecondLook::Unreadable => {
                let whole = lenient::mended(&data).ok_or(error)?;
                let data = Some(Bytes::from(whole));
                return read(SseEvent { data, ..event }, request_id);
            }
        },
    };
    if let StreamEvent::Error { error } = &parsed {
        return Err(reported(&error.kind, &error.message, request_id));
    }
    Ok(Some(StreamPiece::new(parsed, data)))
}

/// A block grows by words, as the API writes it. Nearly all events are that, and knowing it beforehand
/// spares looking for the type first.
fn growth(data: &[u8]) -> Option<StreamEvent> {
    #[derive(Deserialize)]
    struct Growth<'a> {
        index: usize,
        #[serde(borrow)]
        delta: Words<'a>,
    }
    #[derive(Deserialize)]
    struct Words<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        text: Option<String>,
        partial_json: Option<String>,
        thinking: Option<String>,
    }
    if !data.starts_with(br#"{"type":"content_block_delta","#) {
        return None;
    }
    // Whatever isn't exactly that is left to the thorough reader.
    let Growth { index, delta } = serde_json::from_slice(data).ok()?;
    let delta = match (delta.kind, delta.text, delta.partial_json, delta.thinking) {
        ("text_delta", Some(text), None, None) => Delta::TextDelta { text },
        ("input_json_delta", None, Some(partial_json), None) => {
            Delta::InputJsonDelta { partial_json }
        }
        ("thinking_delta", None, None, Some(thinking)) => Delta::ThinkingDelta { thinking },
        _ => return None,
    };
    Some(StreamEvent::ContentBlockDelta { index, delta })
}

/// The real kind of an event that doesn't name it.
enum SecondLook {
    /// From a server that omits fields.
    Event(Box<StreamEvent>),
    /// Of a type that this version doesn't know.
    Unknown(String),
    Unreadable,
}

fn second_look(data: &[u8]) -> SecondLook {
    let Ok(mut value) = serde_json::from_slice::<Value>(data) else {
        return SecondLook::Unreadable;
    };
    let Some(kind) = value["type"].as_str().map(str::to_owned) else {
        return SecondLook::Unreadable;
    };
    if !KNOWN.contains(&kind.as_str()) {
        return SecondLook::Unknown(kind);
    }
    match kind.as_str() {
        "message_start" => value.get_mut("message").map(complete_message),
        "content_block_start" => value.get_mut("content_block").map(complete_block),
        "message_delta" => value
            .as_object_mut()
            .map(|fields| default(fields, "usage", json!({}))),
        _ => None,
    };
    match serde_json::from_value(value) {
        Ok(event) => SecondLook::Event(Box::new(event)),
        Err(_) => SecondLook::Unreadable,
    }
}

/// An error that the API reports in an answer that began as a success.
fn reported(kind: &str, message: &str, request_id: Option<&str>) -> Unusable {
    let request_id = request_id.map(str::to_owned);
    Unusable::Trouble(classify::stream_error(kind, message, request_id))
}

/// Reads a whole message, as lenient as a stream is read.
pub(crate) fn message(data: &[u8], request_id: Option<&str>) -> Result<AssistantMessage, Unusable> {
    let unreadable = |error: serde_json::Error| {
        Unusable::Malformed(format!("the message can't be read: {error}"))
    };
    let error = match lenient::parse(data) {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    let mut value: Value = lenient::parse(data).map_err(unreadable)?;
    if let Some(reason) = value.get("error").filter(|reason| reason.is_object()) {
        let text = |name: &str| reason[name].as_str().unwrap_or_default();
        return Err(reported(text("type"), text("message"), request_id));
    }
    // Something else altogether must not become an empty message.
    if value.get("type").and_then(Value::as_str) != Some("message") {
        return Err(unreadable(error));
    }
    complete_message(&mut value);
    serde_json::from_value(value).map_err(unreadable)
}

fn complete_message(message: &mut Value) {
    if let Some(fields) = message.as_object_mut() {
        for (name, value) in [
            ("id", json!("")),
            ("model", json!("")),
            ("content", json!([])),
            ("usage", json!({})),
        ] {
            default(fields, name, value);
        }
        if let Some(blocks) = fields.get_mut("content").and_then(Value::as_array_mut) {
            blocks.iter_mut().for_each(complete_block);
        }
    }
}

fn complete_block(block: &mut Value) {
    let Some(fields) = block.as_object_mut() else {
        return;
    };
    match fields.get("type").and_then(Value::as_str) {
        Some("text") => default(fields, "text", json!("")),
        Some("thinking") => {
            default(fields, "thinking", json!(""));
            default(fields, "signature", json!(""));
        }
        Some("tool_use") => {
            default(fields, "id", json!(""));
            default(fields, "input", json!({}));
        }
        _ => {}
    }
}

/// Fills in a field that is absent or null.
fn default(fields: &mut Map<String, Value>, name: &str, value: Value) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), value);
    }
}

/// The events that a stream would have sent for a whole message.
pub(crate) fn from_message(
    message: AssistantMessage,
) -> Result<Vec<StreamPiece>, serde_json::Error> {
    let mut events = Vec::with_capacity(message.content.len() * 3 + 3);
    let mut start = message;
    let content = std::mem::take(&mut start.content);
    let delta = MessageDelta {
        stop_reason: start.stop_reason.take(),
        stop_sequence: start.stop_sequence.take(),
        extra: Map::new(),
    };
    let usage = start.usage.clone();
    events.push(StreamEvent::MessageStart { message: start });
    for (index, block) in content.into_iter().enumerate() {
        let (content_block, deltas) = taken_apart(block);
        events.push(StreamEvent::ContentBlockStart {
            index,
            content_block,
        });
        events.extend(
            deltas
                .into_iter()
                .map(|delta| StreamEvent::ContentBlockDelta { index, delta }),
        );
        events.push(StreamEvent::ContentBlockStop { index });
    }
    events.push(StreamEvent::MessageDelta {
        delta,
        usage,
        extra: Map::new(),
    });
    events.push(StreamEvent::MessageStop);
    events
        .into_iter()
        .map(|event| {
            let raw = Bytes::from(serde_json::to_vec(&event)?);
            Ok(StreamPiece::new(event, raw))
        })
        .collect()
}

/// A block as it would begin in a stream, and what would be added to it.
fn taken_apart(block: ContentBlock) -> (ContentBlock, Vec<Delta>) {
    match block {
        ContentBlock::Text(TextBlock { text, extra }) => (
            ContentBlock::Text(TextBlock {
                text: String::new(),
                extra,
            }),
            vec![Delta::TextDelta { text }],
        ),
        ContentBlock::Thinking(ThinkingBlock {
            thinking,
            signature,
            extra,
        }) => (
            ContentBlock::Thinking(ThinkingBlock {
                thinking: String::new(),
                signature: String::new(),
                extra,
            }),
            vec![
                Delta::ThinkingDelta { thinking },
                Delta::SignatureDelta { signature },
            ],
        ),
        ContentBlock::ToolUse(mut call) => {
            let input = std::mem::replace(&mut call.input, Value::Object(Map::new()));
            let delta = Delta::InputJsonDelta {
                partial_json: input.to_string(),
            };
            (ContentBlock::ToolUse(call), vec![delta])
        }
        // Server tools, redacted reasoning and whatever else: whole from the start.
        other => (other, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::MessageAssembler;
    use crate::error::ModelError;

    fn event(data: &str) -> Result<Option<StreamPiece>, Unusable> {
        read(
            SseEvent {
                name: Bytes::new(),
                data: Some(Bytes::from(data.to_owned())),
                id: None,
                retry: None,
            },
            Some("req_1"),
        )
    }

    #[test]
    fn what_grows_by_words_is_read_the_quick_way_and_the_same() {
        let quick = [
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\"\u00e4\n"}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            r#"{"type":"content_block_delta","x":{},"index":1,"delta":{"thinking":"hm","type":"thinking_delta","y":[1]}}"#,
        ];
        for text in quick {
            let thorough: StreamEvent = serde_json::from_str(text).unwrap();
            assert_eq!(growth(text.as_bytes()), Some(thorough), "{text}");
        }
        let left = [
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":null}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}"#,
            r#"{"index":0,"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
        ];
        for text in left {
            assert_eq!(growth(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_whole_message_taken_apart_assembles_to_itself() {
        let message: AssistantMessage = serde_json::from_value(json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "words", "citations": [{"a": 1}]},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"b": [1, 2], "a": {}}},
                {"type": "tool_use", "id": "t2", "name": "Now", "input": {}},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "z"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
            ],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {"input_tokens": 5, "output_tokens": 7}
        }))
        .unwrap();
        let mut assembler = MessageAssembler::default();
        for event in from_message(message.clone()).unwrap() {
            let reread: StreamEvent = serde_json::from_slice(event.json()).unwrap();
            assert_eq!(reread, event.event);
            assembler.feed(&event.event).unwrap();
        }
        assert_eq!(assembler.finish().unwrap(), message);
    }

    #[test]
    fn unknown_events_are_skipped_and_broken_ones_are_not() {
        assert!(matches!(event(r#"{"type":"news","x":1}"#), Ok(None)));
        assert!(matches!(event("[DONE]"), Ok(None)));
        assert!(matches!(event(r#"{"type":"ping"}"#), Ok(Some(_))));
        assert!(matches!(
            event(r#"{"type":"content_block_stop"}"#),
            Err(Unusable::Malformed(_))
        ));
        assert!(matches!(
            event(r#"{"type":"pi"#),
            Err(Unusable::Malformed(_))
        ));
        assert!(matches!(event(""), Err(Unusable::Malformed(_))));
    }

    #[test]
    fn servers_that_leave_out_the_obvious_are_understood() {
        let events = [
            r#"{"type":"message_start","message":{"type":"message","role":"assistant","usage":null,"content":null}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":null,"name":"N"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":null}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":null}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let mut assembler = MessageAssembler::default();
        for data in events {
            let Ok(Some(read)) = event(data) else {
                panic!("{data}")
            };
            assembler.feed(&read.event).unwrap();
        }
        assert_eq!(assembler.finish().unwrap().content.len(), 2);
        let whole = message(
            br#"{"type":"message","content":[{"type":"tool_use","name":"N"}]}"#,
            None,
        );
        assert_eq!(whole.ok().map(|message| message.content.len()), Some(1));
        assert!(matches!(message(b"{}", None), Err(Unusable::Malformed(_))));
        assert!(matches!(message(b"[", None), Err(Unusable::Malformed(_))));
    }

    #[test]
    fn half_a_character_in_an_event_does_not_lose_the_answer() {
        let data = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83d"}}"#;
        let Ok(Some(piece)) = event(data) else {
            panic!("expected an event")
        };
        let text = "a\u{fffd}".to_owned();
        let delta = Delta::TextDelta { text };
        assert_eq!(
            piece.event,
            StreamEvent::ContentBlockDelta { index: 0, delta }
        );
        // What is passed on can be read by others, too.
        assert!(serde_json::from_slice::<Value>(piece.json()).is_ok());
    }

    #[test]
    fn a_whole_answer_that_is_an_error_is_classified_as_one() {
        let body = br#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
        let Err(Unusable::Trouble(error)) = message(body, Some("req_1")) else {
            panic!("expected trouble")
        };
        assert!(matches!(error, ModelError::Overloaded(_)));
        assert_eq!(error.request_id(), Some("req_1"));
    }

    #[test]
    fn an_error_event_is_classified_with_the_requests_id() {
        let outcome =
            event(r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#);
        let Err(Unusable::Trouble(error)) = outcome else {
            panic!("expected trouble")
        };
        assert!(matches!(error, ModelError::Overloaded(_)));
        assert_eq!(error.request_id(), Some("req_1"));
    }
}
