//! Other wire formats. A request is checked by the rules of its format and read into the Messages shape, so that
//! conditions, templates and the checks of the conversation are the same for all; a reply is written in the
//! format of its request.

mod chat;
pub(crate) mod cloud;
mod gemini;
mod responses;

use crate::reply::Reply;
use crate::wire::{Event, Message};
use serde_json::{Value, json};
use std::collections::HashSet;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Google Gemini.
    Gemini,
    /// Claude on Amazon Bedrock.
    Bedrock,
    /// Claude on Google Vertex AI.
    Vertex,
}

/// A request in the Messages shape.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) body: Value,
    pub(crate) problems: Vec<String>,
    /// The pieces that a server would cache, in order.
    pub(crate) units: Vec<String>,
}

impl Dialect {
    /// The format of a path that is posted to.
    pub(crate) fn of(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            return Some(Self::Chat);
        }
        if path.ends_with("/responses") {
            return Some(Self::Responses);
        }
        if path.ends_with("enerateContent") {
            return Some(Self::Gemini);
        }
        if path.ends_with("/invoke-with-response-stream") || path.ends_with("/invoke") {
            return Some(Self::Bedrock);
        }
        if path.ends_with("awPredict") {
            return Some(Self::Vertex);
        }
        (path == "/v1/messages").then_some(Self::Messages)
    }

    /// Whether it is the Messages API, here or on a cloud.
    pub(crate) fn is_messages(self) -> bool {
        matches!(self, Self::Messages | Self::Bedrock | Self::Vertex)
    }

    /// Reads a request.
    pub(crate) fn read(self, path: &str, raw: &[u8]) -> Read {
        let body: Value = match serde_json::from_slice(raw) {
            Ok(body) => body,
            Err(error) => {
                return Read {
                    problems: vec![format!("the body is no JSON: {error}")],
                    ..Read::default()
                };
            }
        };
        match self {
            Self::Messages => Read {
                body,
                ..Read::default()
            },
            Self::Chat => chat::read(&body),
            Self::Responses => responses::read(&body),
            Self::Gemini => gemini::read(path, &body),
            Self::Bedrock => cloud::read(path, body, "bedrock-2023-05-31"),
            Self::Vertex => cloud::read(path, body, "vertex-2023-10-16"),
        }
    }

    /// The events of a reply.
    pub(crate) fn events(self, message: &Message, reply: &Reply) -> Vec<Event> {
        match self {
            Self::Messages | Self::Bedrock | Self::Vertex => message.events(reply),
            Self::Chat => chat::events(message, reply),
            Self::Responses => responses::events(message, reply),
            Self::Gemini => gemini::events(message, reply),
        }
    }

    /// The answer to a request that wants no stream.
    pub(crate) fn whole(self, message: &Message) -> Value {
        match self {
            Self::Messages | Self::Bedrock | Self::Vertex => message.whole(),
            Self::Chat => chat::whole(message),
            Self::Responses => responses::whole(message),
            Self::Gemini => gemini::whole(message),
        }
    }

    /// An error as the format words it.
    pub(crate) fn error(self, status: u16, kind: &str, message: &str, request_id: &str) -> Value {
        match self {
            Self::Messages | Self::Vertex => json!({
                "type": "error",
                "error": {"type": kind, "message": message},
                "request_id": request_id,
            }),
            Self::Chat | Self::Responses => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
            }
            Self::Gemini => json!({"error": {"code": status, "message": message, "status": kind}}),
            Self::Bedrock => json!({"message": message}),
        }
    }

    /// An error in the middle of a stream.
    pub(crate) fn error_event(self, kind: &str, message: &str) -> Value {
        match self {
            Self::Messages | Self::Bedrock | Self::Vertex => {
                json!({"type": "error", "error": {"type": kind, "message": message}})
            }
            Self::Responses => json!({"type": "error", "code": code(kind), "message": message}),
            Self::Gemini => json!({"error": {"status": code(kind), "message": message}}),
            Self::Chat => json!({"error": {"code": code(kind), "message": message}}),
        }
    }

    /// How the format says that a prompt is too long.
    pub(crate) fn too_long(self, tokens: u64, window: u64) -> String {
        match self {
            Self::Messages | Self::Vertex => {
                format!("prompt is too long: {tokens} tokens > {window} maximum")
            }
            Self::Responses => "Your input exceeds the context window of this model. Please adjust your input and try again.".to_owned(),
            Self::Gemini => format!(
                "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
            ),
            Self::Bedrock => "Input is too long for requested model.".to_owned(),
            Self::Chat => format!(
                "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens."
            ),
        }
    }
}

/// The word of another family for a kind of the Messages API.
fn code(kind: &str) -> &str {
    match kind {
        "overloaded_error" => "server_is_overloaded",
        "rate_limit_error" => "rate_limit_exceeded",
        "api_error" => "server_error",
        other => other,
    }
}

/// A cache that needs no markers: what an earlier request began with, too, is read from it.
#[derive(Debug, Default)]
pub(crate) struct AutomaticCache {
    known: HashSet<u64>,
}

impl AutomaticCache {
    /// How many bytes of the pieces were there before, and how many there are.
    pub(crate) fn account(&mut self, units: &[String]) -> (u64, u64) {
        use std::hash::{Hash, Hasher};
        let mut hasher = std::hash::DefaultHasher::new();
        let (mut read, mut total, mut unbroken) = (0, 0, true);
        for unit in units {
            unit.hash(&mut hasher);
            total += unit.len() as u64;
            let known = !self.known.insert(hasher.finish());
            unbroken &= known;
            if unbroken {
                read = total;
            }
        }
        (read, total)
    }
}

/// The text of an image that is given as an address.
pub(crate) fn image_of(url: &str) -> Option<Value> {
    let rest = url.strip_prefix("data:")?;
    let (media_type, data) = rest.split_once(";base64,")?;
    Some(
        json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}),
    )
}

/// Adds a message, merged into the one before if that has the same role.
pub(crate) fn push_message(messages: &mut Vec<Value>, role: &str, blocks: Vec<Value>) {
    if blocks.is_empty() {
        return;
    }
    if let Some(last) = messages.last_mut()
        && last["role"] == role
        && let Some(content) = last["content"].as_array_mut()
    {
        content.extend(blocks);
        return;
    }
    messages.push(json!({"role": role, "content": blocks}));
}
