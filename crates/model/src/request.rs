//! A request to a model: mostly bytes that were serialised before.

use bytes::Bytes;
use lathe_protocol::encoded::EncodedMessages;
use serde_json::{Map, Value};
use std::fmt;

/// A request. Cloning it copies no message: the bytes are shared.
#[derive(Clone, Default)]
pub struct ModelRequest {
    /// The model's id as the API wants it.
    pub model: String,
    /// The most tokens the model may write.
    pub max_tokens: u32,
    /// The system prompt: a JSON array of text blocks, already serialised. Empty means none.
    pub system: Bytes,
    /// The tools: a JSON array, already serialised. Empty or `[]` means none.
    pub tools: Bytes,
    /// The conversation.
    pub messages: EncodedMessages,
    /// Whether, and for how long, the end of the conversation is cached.
    pub cache_markers: CacheMarkers,
    /// Whether other requests share everything up to the last tool result of the last message, and
    /// only what follows it is this one's own. Then the end of the shared part is marked instead of
    /// the end of the message.
    pub shared_results: bool,
    /// How the model may reason; `None` leaves it to the API.
    pub thinking: Option<Thinking>,
    /// Beta features to ask for, beside those of the provider's configuration.
    pub betas: Vec<String>,
    /// Texts that end the response.
    pub stop_sequences: Vec<String>,
    /// Further top-level fields (`output_config`, `metadata`, `tool_choice`, `temperature`, …).
    /// A field that this struct has a place for is not taken from here.
    pub extra: Map<String, Value>,
}

impl ModelRequest {
    /// A request without system prompt, tools or messages.
    pub fn new(model: impl Into<String>, max_tokens: u32) -> Self {
        Self {
            model: model.into(),
            max_tokens,
            ..Self::default()
        }
    }
}

impl fmt::Debug for ModelRequest {
    /// Sizes instead of contents: a conversation is megabytes, and private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message_bytes: usize = self
            .messages
            .iter()
            .map(|message| message.bytes.len())
            .sum();
        f.debug_struct("ModelRequest")
            .field("model", &self.model)
            .field("max_tokens", &self.max_tokens)
            .field("system_bytes", &self.system.len())
            .field("tools_bytes", &self.tools.len())
            .field("messages", &self.messages.len())
            .field("message_bytes", &message_bytes)
            .field("cache_markers", &self.cache_markers)
            .field("thinking", &self.thinking)
            .field("betas", &self.betas)
            .finish_non_exhaustive()
    }
}

/// Cache markers at the end of the conversation: on the last message, and on the one before it that
/// has the same role, which is where the previous request had its last marker, so that what that
/// request wrote to the cache is found again however many blocks came since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheMarkers {
    /// No markers.
    #[default]
    None,
    /// Entries that live five minutes.
    FiveMinutes,
    /// Entries that live one hour.
    OneHour,
}

/// How the model may reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thinking {
    /// Whether and how much.
    pub mode: ThinkingMode,
    /// How much of it is shown; `None` leaves it to the API.
    pub display: Option<ThinkingDisplay>,
    /// How the API handles earlier reasoning that doesn't belong to this conversation any more.
    pub stale: StaleThinking,
}

/// How reasoning in the conversation is handled that its model doesn't recognise, because
/// something before it was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StaleThinking {
    /// As the API likes: newer models refuse the request.
    #[default]
    Unsaid,
    /// The API leaves it out.
    Drop,
}

/// Whether and how much a model reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingMode {
    /// The model decides.
    Adaptive,
    /// At most this many tokens (older models).
    Budget(u32),
    /// None before the answer, only notes between tool calls: the least that newer models offer.
    BetweenTools,
    /// None.
    Disabled,
}

/// How much of the reasoning is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingDisplay {
    /// A summary.
    Summarized,
    /// Only the signature.
    Omitted,
}

impl Thinking {
    /// This much, shown as the API likes.
    #[must_use]
    pub fn new(mode: ThinkingMode) -> Self {
        Self {
            mode,
            display: None,
            stale: StaleThinking::Unsaid,
        }
    }

    /// The model decides.
    #[must_use]
    pub fn adaptive() -> Self {
        Self::new(ThinkingMode::Adaptive)
    }

    /// At most this many tokens.
    #[must_use]
    pub fn budget(tokens: u32) -> Self {
        Self::new(ThinkingMode::Budget(tokens))
    }

    /// None.
    #[must_use]
    pub fn disabled() -> Self {
        Self::new(ThinkingMode::Disabled)
    }

    /// The same with a choice of what is shown.
    #[must_use]
    pub fn showing(self, display: ThinkingDisplay) -> Self {
        Self {
            display: Some(display),
            ..self
        }
    }

    /// The same, with reasoning that doesn't belong to the conversation any more left out.
    #[must_use]
    pub fn dropping_stale(self) -> Self {
        Self {
            stale: StaleThinking::Drop,
            ..self
        }
    }

    /// The `thinking` field of a request.
    #[must_use]
    pub fn to_value(self) -> Value {
        let mut object = Map::new();
        let kind = match self.mode {
            ThinkingMode::Adaptive => "adaptive",
            ThinkingMode::Budget(_) => "enabled",
            ThinkingMode::BetweenTools => "between_tools",
            ThinkingMode::Disabled => "disabled",
        };
        object.insert("type".to_owned(), kind.into());
        if let ThinkingMode::Budget(tokens) = self.mode {
            object.insert("budget_tokens".to_owned(), tokens.into());
        }
        if let Some(display) = self.display
            && self.mode != ThinkingMode::Disabled
        {
            let word = match display {
                ThinkingDisplay::Summarized => "summarized",
                ThinkingDisplay::Omitted => "omitted",
            };
            object.insert("display".to_owned(), word.into());
        }
        if self.stale == StaleThinking::Drop {
            let binding = serde_json::json!({"prefix_mismatch_behavior": "drop_block"});
            object.insert("block_binding".to_owned(), binding);
        }
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_written_as_the_api_reads_it() {
        let cases = [
            (Thinking::adaptive(), r#"{"type":"adaptive"}"#),
            (
                Thinking::budget(2048),
                r#"{"type":"enabled","budget_tokens":2048}"#,
            ),
            (
                Thinking::adaptive().showing(ThinkingDisplay::Summarized),
                r#"{"type":"adaptive","display":"summarized"}"#,
            ),
            (
                Thinking::disabled().showing(ThinkingDisplay::Summarized),
                r#"{"type":"disabled"}"#,
            ),
            (
                Thinking::adaptive().dropping_stale(),
                r#"{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}"#,
            ),
        ];
        for (thinking, wire) in cases {
            assert_eq!(thinking.to_value().to_string(), wire);
        }
    }

    #[test]
    fn debug_output_holds_no_conversation() {
        let mut request = ModelRequest::new("m", 1);
        request.system = Bytes::from_static(b"[\"secret\"]");
        assert!(!format!("{request:?}").contains("secret"));
    }
}
