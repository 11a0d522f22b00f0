//! Messages: what the model API takes ([`Message`]) and gives ([`AssistantMessage`]).

use crate::Extra;
use crate::content::{Content, ContentBlock};
use crate::usage::Usage;
use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user, and tool results.
    User,
    /// The model.
    Assistant,
}

/// A message as the API takes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The content.
    pub content: Content,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Message {
    /// A user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self {
            role: Role::User,
            content: content.into(),
            extra: Extra::new(),
        }
    }

    /// An assistant message.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self {
            role: Role::Assistant,
            content: content.into(),
            extra: Extra::new(),
        }
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It said what it wanted to say.
    EndTurn,
    /// The output limit cut it off.
    MaxTokens,
    /// A stop sequence came up.
    StopSequence,
    /// It wants tool results.
    ToolUse,
    /// A server tool paused the turn; sending the conversation back continues it.
    PauseTurn,
    /// It declined.
    Refusal,
    /// The context window is full.
    ModelContextWindowExceeded,
    /// A reason that this version doesn't know.
    #[serde(untagged)]
    Other(String),
}

/// A message as the API gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The API's id of the message.
    pub id: String,
    /// Always `message`.
    #[serde(rename = "type", default = "message_type")]
    pub kind: String,
    /// Always `assistant`.
    #[serde(default = "assistant_role")]
    pub role: Role,
    /// The model that wrote it.
    pub model: String,
    /// The content blocks.
    #[serde(default)]
    pub content: Vec<ContentBlock>,
    /// Why it stopped; absent while it is still writing.
    #[serde(default)]
    pub stop_reason: Option<StopReason>,
    /// The stop sequence that came up.
    #[serde(default)]
    pub stop_sequence: Option<String>,
    /// Tokens used.
    #[serde(default)]
    pub usage: Usage,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The model name of messages that no model wrote (an API error shown in the conversation).
pub const SYNTHETIC_MODEL: &str = "<synthetic>";

impl AssistantMessage {
    /// An assistant message that no model wrote.
    pub fn synthetic(text: impl Into<String>) -> Self {
        Self {
            id: format!("msg_local_{}", uuid::Uuid::new_v4().simple()),
            kind: message_type(),
            role: Role::Assistant,
            model: SYNTHETIC_MODEL.to_owned(),
            content: vec![ContentBlock::text(text)],
            stop_reason: Some(StopReason::StopSequence),
            stop_sequence: Some(String::new()),
            usage: Usage::default(),
            extra: Extra::new(),
        }
    }
}

fn message_type() -> String {
    "message".to_owned()
}

fn assistant_role() -> Role {
    Role::Assistant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_stop_reason_survives() {
        let reason: StopReason = serde_json::from_str("\"tired\"").unwrap();
        assert_eq!(reason, StopReason::Other("tired".into()));
        assert_eq!(serde_json::to_string(&reason).unwrap(), "\"tired\"");
        let reason: StopReason = serde_json::from_str("\"tool_use\"").unwrap();
        assert_eq!(reason, StopReason::ToolUse);
    }

    #[test]
    fn an_assistant_message_round_trips_with_unknown_fields() {
        let text = r#"{"id":"m","type":"message","role":"assistant","model":"x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0}},"container":{"id":"c"}}"#;
        let message: AssistantMessage = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), text);
    }
}
