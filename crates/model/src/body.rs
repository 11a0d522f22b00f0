//! The body of a request as a list of byte slices.
//!
//! A conversation is sent again and again, each time a little longer. So a message is serialised
//! once, and a body is only a list of references to those bytes with a small fresh head (model,
//! limits) and a few bytes of punctuation and cache markers between them. Nothing is copied when a
//! body is built, cloned for a retry, or dropped; messages that won't change any more are joined once
//! ([`EncodedMessages`]), so that the list is short too.

use crate::request::{CacheMarkers, ModelRequest};
use bytes::{Bytes, BytesMut};
use lathe_protocol::encoded::{
    CACHE_MARKER, CACHE_MARKER_ONE_HOUR, EncodedMessage, EncodedMessages, SMALL_MESSAGE,
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Pieces up to this size are joined on their way to the socket; larger ones are passed on as they
/// are. Joining happens in one buffer of [`CHUNK`] bytes, whatever the body's size.
const SMALL: usize = SMALL_MESSAGE;
/// The size that joined pieces aim for.
const CHUNK: usize = 16 * 1024;

/// A request body. Cheap to clone, and the same bytes every time it is read.
#[derive(Debug, Clone)]
pub struct RequestBody {
    parts: Arc<Vec<Bytes>>,
    length: u64,
}

/// The purpose of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A response, streamed.
    Streaming,
    /// A response, all at once.
    Whole,
    /// A token count.
    CountTokens,
}

/// Fields with a place of their own in [`ModelRequest`].
const OWN_FIELDS: [&str; 8] = [
    "model",
    "max_tokens",
    "stream",
    "thinking",
    "stop_sequences",
    "system",
    "tools",
    "messages",
];

impl RequestBody {
    /// Lays out the body of a Messages API request.
    #[must_use]
    pub fn messages_api(request: &ModelRequest, purpose: Purpose) -> Self {
        let messages = &request.messages;
        let joined: usize = messages.runs().iter().map(|run| run.parts().len()).sum();
        let mut parts = Vec::with_capacity(joined + messages.tail().len() * 2 + 12);
        parts.push(head(request, purpose));
        if !request.system.is_empty() {
            parts.push(Bytes::from_static(b",\"system\":"));
            parts.push(request.system.clone());
        }
        if !request.tools.is_empty() && request.tools.as_ref() != b"[]" {
            parts.push(Bytes::from_static(b",\"tools\":"));
            parts.push(request.tools.clone());
        }
        parts.push(Bytes::from_static(b",\"messages\":["));
        let marked = marked_messages(messages, request.cache_markers);
        let lay = |parts: &mut Vec<Bytes>, index: usize| {
            let Some(message) = messages.get(index) else {
                return;
            };
            let is_last = index + 1 == messages.len();
            let split = marked.contains(&Some(index)).then(|| {
                Some(&message)
                    .filter(|_| request.shared_results && is_last)
                    .and_then(split_after_results)
                    .or_else(|| message.split_for_marker())
            });
            match split.flatten() {
                Some((before, after)) => {
                    parts.extend([before, marker(request.cache_markers), after]);
                }
                None => parts.push(message.bytes),
            }
            if !is_last {
                parts.push(Bytes::from_static(b","));
            }
        };
        let mut index = 0;
        for run in messages.runs() {
            let numbers = index..index + run.len();
            index = numbers.end;
            // The bytes of a run end in a comma, and a mark would stand in the middle of them.
            let as_it_is = index < messages.len()
                && !marked.iter().flatten().any(|mark| numbers.contains(mark));
            if as_it_is {
                parts.extend_from_slice(run.parts());
            } else {
                numbers.for_each(|number| lay(&mut parts, number));
            }
        }
        (index..messages.len()).for_each(|number| lay(&mut parts, number));
        parts.push(Bytes::from_static(b"]}"));
        Self::of_parts(parts)
    }

    /// A body of these pieces.
    #[must_use]
    pub fn of_parts(parts: Vec<Bytes>) -> Self {
        let length = parts.iter().map(|part| part.len() as u64).sum();
        Self {
            parts: Arc::new(parts),
            length,
        }
    }

    /// The pieces, in order.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// The body's size in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The body in chunks of a size that suits a socket.
    #[must_use]
    pub fn chunks(&self) -> Chunks {
        Chunks {
            parts: Arc::clone(&self.parts),
            next: 0,
        }
    }
}

/// See [`RequestBody::chunks`].
#[derive(Debug)]
pub struct Chunks {
    parts: Arc<Vec<Bytes>>,
    next: usize,
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let first = self.parts.get(self.next)?.clone();
        self.next += 1;
        let joinable = |part: &Bytes| part.len() <= SMALL;
        if !joinable(&first) || !self.parts.get(self.next).is_some_and(joinable) {
            return Some(first);
        }
        let mut joined = BytesMut::with_capacity(CHUNK);
        joined.extend_from_slice(&first);
        while let Some(part) = self.parts.get(self.next)
            && joinable(part)
            && joined.len() + part.len() <= CHUNK
        {
            joined.extend_from_slice(part);
            self.next += 1;
        }
        Some(joined.freeze())
    }
}

/// Everything before the system prompt: `{"model":…,"max_tokens":…`, without the closing brace.
fn head(request: &ModelRequest, purpose: Purpose) -> Bytes {
    let mut object = Map::new();
    object.insert("model".to_owned(), request.model.as_str().into());
    if purpose != Purpose::CountTokens {
        object.insert("max_tokens".to_owned(), request.max_tokens.into());
        if purpose == Purpose::Streaming {
            object.insert("stream".to_owned(), true.into());
        }
        if !request.stop_sequences.is_empty() {
            object.insert(
                "stop_sequences".to_owned(),
                request.stop_sequences.clone().into(),
            );
        }
    }
    if let Some(thinking) = request.thinking {
        object.insert("thinking".to_owned(), thinking.to_value());
    }
    for (name, value) in &request.extra {
        let counted = purpose != Purpose::CountTokens || name == "tool_choice";
        if counted && !OWN_FIELDS.contains(&name.as_str()) {
            object.insert(name.clone(), value.clone());
        }
    }
    let mut text = Value::Object(object).to_string();
    text.pop();
    Bytes::from(text)
}

fn marker(markers: CacheMarkers) -> Bytes {
    match markers {
        CacheMarkers::None => Bytes::new(),
        CacheMarkers::FiveMinutes => Bytes::from_static(CACHE_MARKER.as_bytes()),
        CacheMarkers::OneHour => Bytes::from_static(CACHE_MARKER_ONE_HOUR.as_bytes()),
    }
}

/// The bytes of a message around the place in its last tool result where a marker goes.
fn split_after_results(message: &EncodedMessage) -> Option<(Bytes, Bytes)> {
    #[derive(serde::Deserialize)]
    struct Blocks<'a> {
        #[serde(borrow)]
        content: Vec<&'a serde_json::value::RawValue>,
    }
    let blocks: Blocks<'_> = serde_json::from_slice(&message.bytes).ok()?;
    let last = blocks
        .content
        .iter()
        .map(|block| block.get())
        .rfind(|block| block.starts_with(r#"{"type":"tool_result""#))?;
    let start = last.as_ptr().addr() - message.bytes.as_ptr().addr();
    // Before the brace that closes the block.
    let at = start + last.len() - 1;
    Some((message.bytes.slice(..at), message.bytes.slice(at..)))
}

/// The messages that carry a marker; see [`CacheMarkers`].
fn marked_messages(messages: &EncodedMessages, markers: CacheMarkers) -> [Option<usize>; 2] {
    if markers == CacheMarkers::None {
        return [None, None];
    }
    let numbered = (0..messages.len()).rev().zip(messages.iter().rev());
    let mut candidates = numbered.filter(|(_, message)| message.markable);
    let Some((last, message)) = candidates.next() else {
        return [None, None];
    };
    let before = candidates.find(|(_, earlier)| earlier.role == message.role);
    [Some(last), before.map(|(index, _)| index)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Thinking;
    use lathe_protocol::content::ContentBlock;
    use lathe_protocol::message::Role;
    use serde_json::json;

    fn message(role: Role, text: &str) -> EncodedMessage {
        EncodedMessage::new(role, &[ContentBlock::text(text)]).unwrap()
    }

    fn conversation(length: usize) -> ModelRequest {
        let mut request = ModelRequest::new("claude-test", 8192);
        request.system = Bytes::from_static(br#"[{"type":"text","text":"be brief"}]"#);
        request.tools = Bytes::from_static(br#"[{"name":"Read"}]"#);
        // Message by message, as a conversation grows.
        request.messages.extend((0..length).map(|index| {
            let role = if index % 2 == 0 {
                Role::User
            } else {
                Role::Assistant
            };
            message(
                role,
                &format!("message {index} {}", "x".repeat(index * 37 % 5000)),
            )
        }));
        request
    }

    fn joined(body: &RequestBody) -> Vec<u8> {
        body.parts().concat()
    }

    #[test]
    fn the_body_is_the_request_as_json() {
        let mut request = conversation(3);
        request.cache_markers = CacheMarkers::OneHour;
        request.thinking = Some(Thinking::budget(1024));
        request.stop_sequences = vec!["END".into()];
        request
            .extra
            .insert("metadata".into(), json!({"user_id": "u"}));
        request.extra.insert("model".into(), json!("not this one"));
        let body = RequestBody::messages_api(&request, Purpose::Streaming);
        let value: Value = serde_json::from_slice(&joined(&body)).unwrap();
        assert_eq!(value["model"], "claude-test");
        assert_eq!(value["stream"], true);
        assert_eq!(value["max_tokens"], 8192);
        assert_eq!(
            value["thinking"],
            json!({"type": "enabled", "budget_tokens": 1024})
        );
        assert_eq!(value["stop_sequences"], json!(["END"]));
        assert_eq!(value["metadata"]["user_id"], "u");
        assert_eq!(value["system"][0]["text"], "be brief");
        assert_eq!(value["tools"][0]["name"], "Read");
        assert_eq!(value["messages"].as_array().unwrap().len(), 3);
        assert_eq!(body.length(), joined(&body).len() as u64);
    }

    #[test]
    fn the_last_message_and_the_earlier_one_of_its_role_are_marked() {
        let mut request = conversation(5);
        request.cache_markers = CacheMarkers::FiveMinutes;
        let body = RequestBody::messages_api(&request, Purpose::Streaming);
        let value: Value = serde_json::from_slice(&joined(&body)).unwrap();
        let marked: Vec<usize> = (0..5)
            .filter(|index| {
                value["messages"][*index]["content"][0]
                    .get("cache_control")
                    .is_some()
            })
            .collect();
        assert_eq!(marked, [2, 4]);
    }

    #[test]
    fn the_end_of_shared_results_is_marked_instead_of_what_follows_them() {
        let results = [
            ContentBlock::tool_result("a".into(), "same".to_owned(), false),
            ContentBlock::tool_result("b".into(), "same}]}".to_owned(), false),
            ContentBlock::text("its own"),
        ];
        let mut request = conversation(2);
        request
            .messages
            .push(EncodedMessage::new(Role::User, &results).unwrap());
        request.cache_markers = CacheMarkers::FiveMinutes;
        request.shared_results = true;
        let body = RequestBody::messages_api(&request, Purpose::Streaming);
        let value: Value = serde_json::from_slice(&joined(&body)).unwrap();
        let content = &value["messages"][2]["content"];
        assert_eq!(content[1]["cache_control"]["type"], "ephemeral");
        assert_eq!(content[1]["content"], "same}]}");
        for other in [0, 2] {
            assert!(content[other].get("cache_control").is_none());
        }
    }

    #[test]
    fn a_long_conversation_is_whole_wherever_its_marks_stand() {
        let mut request = conversation(300);
        request.cache_markers = CacheMarkers::FiveMinutes;
        for unmarkable in [0, 20, 80, 240, 300] {
            for length in [300, 256, 192, 65, 64, 1] {
                let mut messages: Vec<EncodedMessage> =
                    request.messages.iter().take(length).collect();
                let first = length.saturating_sub(unmarkable);
                messages[first..]
                    .iter_mut()
                    .for_each(|it| it.markable = false);
                let mut cut = request.clone();
                cut.messages.clear();
                cut.messages.extend(messages.clone());
                if unmarkable == 0 {
                    // Cut at the end of a run: nothing follows it.
                    cut.messages = request.messages.clone();
                    cut.messages.truncate(length);
                }
                let body = RequestBody::messages_api(&cut, Purpose::Streaming);
                let value: Value = serde_json::from_slice(&joined(&body)).unwrap();
                let sent = value["messages"].as_array().unwrap();
                assert_eq!(sent.len(), length);
                let mut marks = Vec::new();
                for (index, (sent, message)) in sent.iter().zip(&messages).enumerate() {
                    let mut sent = sent.clone();
                    let block = sent["content"][0].as_object_mut().unwrap();
                    if block.shift_remove("cache_control").is_some() {
                        marks.push(index);
                    }
                    let known: Value = serde_json::from_slice(&message.bytes).unwrap();
                    assert_eq!(sent, known);
                }
                let wanted: Vec<usize> = [first.checked_sub(3), first.checked_sub(1)]
                    .into_iter()
                    .flatten()
                    .collect();
                assert_eq!(marks, wanted, "{unmarkable} of {length}");
            }
        }
    }

    #[test]
    fn without_tools_and_system_those_fields_are_absent() {
        let mut request = ModelRequest::new("m", 1);
        request.tools = Bytes::from_static(b"[]");
        request.messages = vec![message(Role::User, "hi")].into();
        let body = RequestBody::messages_api(&request, Purpose::Whole);
        let value: Value = serde_json::from_slice(&joined(&body)).unwrap();
        assert_eq!(
            value.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["model", "max_tokens", "messages"]
        );
    }

    #[test]
    fn a_count_asks_for_no_output() {
        let mut request = conversation(1);
        request.extra.insert("temperature".into(), json!(1));
        let body = RequestBody::messages_api(&request, Purpose::CountTokens);
        let value: Value = serde_json::from_slice(&joined(&body)).unwrap();
        assert_eq!(
            value.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["model", "system", "tools", "messages"]
        );
    }

    #[test]
    fn building_a_long_conversation_copies_only_what_is_new() {
        let mut request = conversation(1000);
        request.cache_markers = CacheMarkers::FiveMinutes;
        let body = RequestBody::messages_api(&request, Purpose::Streaming);
        let joined = request.messages.runs().iter();
        let shared: Vec<std::ops::Range<usize>> = request
            .messages
            .iter()
            .map(|message| message.bytes)
            .chain(joined.flat_map(|run| run.parts().iter().cloned()))
            .chain([request.system.clone(), request.tools.clone()])
            .map(|bytes| {
                let start = bytes.as_ptr() as usize;
                start..start + bytes.len()
            })
            .collect();
        let fresh: usize = body
            .parts()
            .iter()
            .filter(|part| {
                let start = part.as_ptr() as usize;
                !shared.iter().any(|range| range.contains(&start))
            })
            .map(Bytes::len)
            .sum();
        // Head, punctuation (a comma for each of the newest) and two markers; two million bytes of
        // messages are not in it, nor a part for each of them.
        assert!(fresh < 400, "{fresh} bytes are new");
        assert!(body.length() > 2_000_000);
        let large = |message: &EncodedMessage| message.bytes.len() > SMALL;
        let most = request.messages.iter().filter(large).count() * 2 + 200;
        assert!(body.parts().len() < most, "{} parts", body.parts().len());
    }

    #[test]
    fn chunks_are_the_same_bytes_in_few_pieces_and_can_be_read_again() {
        let request = conversation(1000);
        let body = RequestBody::messages_api(&request, Purpose::Streaming);
        for _ in 0..2 {
            let chunks: Vec<Bytes> = body.chunks().collect();
            assert_eq!(chunks.concat(), joined(&body));
            assert!(chunks.len() < body.parts().len());
        }
        let large = request
            .messages
            .iter()
            .find(|message| message.bytes.len() > SMALL)
            .unwrap();
        assert!(
            body.chunks()
                .any(|chunk| chunk.as_ptr() == large.bytes.as_ptr())
        );
    }
}
