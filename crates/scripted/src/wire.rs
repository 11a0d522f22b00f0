//! Turns a reply into the bytes that the API would send: a whole message, or its event stream.

use crate::cache::InputTokens;
use crate::dialect::Dialect;
use crate::reply::{Framing, LineEnd, Position, Reply};
use crate::request::RecordedRequest;
use crate::template;
use crate::validate::issued::{redacted_data, sign};
use serde_json::{Map, Value, json};

/// A complete message, not yet on the wire.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) content: Vec<Value>,
    pub(crate) stop_reason: String,
    stop_sequence: Value,
    pub(crate) usage: Map<String, Value>,
}

/// Gives out ids that no other server gives out.
#[derive(Debug)]
pub(crate) struct Ids {
    nonce: u64,
    next: std::sync::atomic::AtomicU64,
}

impl Ids {
    pub(crate) fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // Each `RandomState` has its own random keys.
        Self {
            nonce: RandomState::new().hash_one(0_u8),
            next: 0.into(),
        }
    }

    pub(crate) fn next(&self, kind: &str) -> String {
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        format!("{kind}_{:016x}{number:06}", self.nonce)
    }
}

impl Message {
    /// Completes a reply: templates, ids, signatures, stop reason, usage.
    pub(crate) fn new(
        reply: &Reply,
        request: &RecordedRequest,
        ids: &Ids,
        input: InputTokens,
    ) -> Self {
        let model = reply
            .model
            .clone()
            .unwrap_or_else(|| request.model().to_owned());
        let mut content = reply.all_content();
        for block in &mut content {
            template::fill(block, request);
            let missing = |block: &Value, name: &str| block[name].is_null();
            match block["type"].as_str() {
                Some("tool_use") if missing(block, "id") => {
                    // `id` stands before `name` and `input`, as the API writes it.
                    let mut fields = Map::new();
                    fields.insert("type".into(), json!("tool_use"));
                    fields.insert("id".into(), json!(ids.next("toolu")));
                    fields.extend(block.as_object().cloned().unwrap_or_default());
                    *block = Value::Object(fields);
                }
                Some("thinking") if missing(block, "signature") => {
                    let text = block["thinking"].as_str().unwrap_or_default();
                    block["signature"] = json!(sign(&model, text));
                }
                Some("redacted_thinking") if missing(block, "data") => {
                    block["data"] = json!(redacted_data(&model));
                }
                _ => {}
            }
        }
        let calls = content.iter().any(|block| block["type"] == "tool_use");
        let natural = if calls { "tool_use" } else { "end_turn" };
        let output: usize = content
            .iter()
            .map(|block| block.to_string().len() / 4)
            .sum();
        let mut usage = usage(input, output as u64);
        usage.extend(reply.usage.clone());
        Self {
            id: reply.id.clone().unwrap_or_else(|| ids.next("msg")),
            model,
            content,
            stop_reason: reply
                .stop_reason
                .clone()
                .unwrap_or_else(|| natural.to_owned()),
            stop_sequence: json!(reply.stop_sequence),
            usage,
        }
    }

    /// The answer to a request without `stream`.
    pub(crate) fn whole(&self) -> Value {
        json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": self.content,
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "usage": self.usage,
        })
    }

    /// The events of the stream.
    pub(crate) fn events(&self, reply: &Reply) -> Vec<Event> {
        let mut started = self.usage.clone();
        started.insert("output_tokens".into(), json!(1));
        let mut events = vec![Event::new(
            None,
            json!({"type": "message_start", "message": {
                "id": self.id,
                "type": "message",
                "role": "assistant",
                "model": self.model,
                "content": [],
                "stop_reason": null,
                "stop_sequence": null,
                "usage": started,
            }}),
        )];
        for (index, block) in self.content.iter().enumerate() {
            let (start, deltas) = block_deltas(block, reply.delta_characters.max(1));
            events.push(Event::new(
                Some(index),
                json!({"type": "content_block_start", "index": index, "content_block": start}),
            ));
            if index == 0 && reply.framing.ping {
                events.push(Event::new(None, json!({"type": "ping"})));
            }
            for delta in deltas {
                events.push(Event::new(
                    Some(index),
                    json!({"type": "content_block_delta", "index": index, "delta": delta}),
                ));
            }
            events.push(Event::new(
                Some(index),
                json!({"type": "content_block_stop", "index": index}),
            ));
        }
        events.push(Event::new(
            None,
            json!({
                "type": "message_delta",
                "delta": {"stop_reason": self.stop_reason, "stop_sequence": self.stop_sequence},
                "usage": self.usage,
            }),
        ));
        events.push(Event::new(None, json!({"type": "message_stop"})));
        events
    }

    /// The stream, spelt as the reply wants it.
    pub(crate) fn stream(&self, reply: &Reply, dialect: Dialect) -> Stream {
        let mut bytes = Vec::new();
        if reply.framing.byte_order_mark {
            bytes.extend_from_slice("\u{feff}".as_bytes());
        }
        let mut spans = Vec::new();
        for event in dialect.events(self, reply) {
            let start = bytes.len();
            encode(&event.data, &reply.framing, dialect, &mut bytes);
            spans.push(Span {
                name: event.name,
                block: event.block,
                start,
                end: bytes.len(),
            });
        }
        Stream { bytes, spans }
    }
}

fn usage(input: InputTokens, output: u64) -> Map<String, Value> {
    let written = input.written_five_minutes + input.written_one_hour;
    let value = json!({
        "input_tokens": input.plain,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": input.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": input.written_five_minutes,
            "ephemeral_1h_input_tokens": input.written_one_hour,
        },
        "output_tokens": output.max(1),
        "service_tier": "standard",
    });
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[derive(Debug)]
pub(crate) struct Event {
    name: String,
    block: Option<usize>,
    data: Value,
}

impl Event {
    /// An event of another format, at the place of one of the Messages API.
    pub(crate) fn named(name: &str, block: Option<usize>, data: Value) -> Self {
        Self {
            name: name.to_owned(),
            block,
            data,
        }
    }

    fn new(block: Option<usize>, data: Value) -> Self {
        let name = data["type"].as_str().unwrap_or_default().to_owned();
        Self { name, block, data }
    }
}

/// Splits a block into what its start shows and the deltas that complete it.
fn block_deltas(block: &Value, characters: usize) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    let mut deltas = Vec::new();
    match block["type"].as_str().unwrap_or_default() {
        "text" => {
            start["text"] = json!("");
            for part in split(block["text"].as_str().unwrap_or_default(), characters) {
                deltas.push(json!({"type": "text_delta", "text": part}));
            }
        }
        "thinking" => {
            start["thinking"] = json!("");
            start["signature"] = json!("");
            for part in split(block["thinking"].as_str().unwrap_or_default(), characters) {
                deltas.push(json!({"type": "thinking_delta", "thinking": part}));
            }
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            start["input"] = json!({});
            deltas.push(json!({"type": "input_json_delta", "partial_json": ""}));
            // An input that is a string is raw JSON text, so that a broken one can be sent.
            let input = match &block["input"] {
                Value::String(raw) => raw.clone(),
                Value::Object(fields) if fields.is_empty() => String::new(),
                other => other.to_string(),
            };
            for part in split(&input, characters) {
                deltas.push(json!({"type": "input_json_delta", "partial_json": part}));
            }
        }
        _ => {}
    }
    (start, deltas)
}

pub(crate) fn split(text: &str, characters: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .nth(characters)
            .map_or(rest.len(), |(index, _)| index);
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    parts
}

/// Writes one event.
pub(crate) fn encode(data: &Value, framing: &Framing, dialect: Dialect, bytes: &mut Vec<u8>) {
    if dialect == Dialect::Bedrock {
        bytes.extend_from_slice(&crate::dialect::cloud::frame(data));
        return;
    }
    let line_end = match framing.line_end {
        LineEnd::Lf => "\n",
        LineEnd::CrLf => "\r\n",
        LineEnd::Cr => "\r",
    };
    let space = if framing.space_after_colon { " " } else { "" };
    let mut line = |parts: &[&str]| {
        for part in parts {
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes.extend_from_slice(line_end.as_bytes());
    };
    if framing.comments {
        line(&[": scripted"]);
    }
    if framing.event_names && dialect == Dialect::Messages {
        line(&["event:", space, data["type"].as_str().unwrap_or_default()]);
    }
    // A word that isn't JSON, such as `[DONE]`.
    let text = data
        .as_str()
        .map_or_else(|| data.to_string(), str::to_owned);
    line(&["data:", space, &text]);
    line(&[]);
}

/// A stream, with the places of its events.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) bytes: Vec<u8>,
    spans: Vec<Span>,
}

#[derive(Debug)]
struct Span {
    name: String,
    block: Option<usize>,
    start: usize,
    end: usize,
}

impl Stream {
    /// A body that isn't an event stream.
    pub(crate) fn plain(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            spans: Vec::new(),
        }
    }

    /// The byte offset of a place; the end if the reply has no such place.
    pub(crate) fn offset(&self, position: &Position) -> usize {
        let end = self.bytes.len();
        let of_block = |block: usize| {
            self.spans
                .iter()
                .filter(move |span| span.block == Some(block))
        };
        let found = match position {
            Position::Start => Some(0),
            Position::Byte(byte) => Some(*byte),
            Position::End => None,
            Position::BeforeEvent(name) => self
                .spans
                .iter()
                .find(|span| span.name == *name)
                .map(|span| span.start),
            Position::BeforeBlock(block) => of_block(*block).next().map(|span| span.start),
            Position::AfterBlock(block) => of_block(*block).next_back().map(|span| span.end),
            Position::MidBlock(block) => {
                let deltas: Vec<&Span> = of_block(*block)
                    .filter(|span| span.name == "content_block_delta")
                    .collect();
                deltas.get(deltas.len() / 2).map(|span| span.start)
            }
        };
        found.unwrap_or(end).min(end)
    }

    /// The offsets where events end.
    pub(crate) fn event_ends(&self) -> impl Iterator<Item = usize> {
        self.spans.iter().map(|span| span.end)
    }
}
