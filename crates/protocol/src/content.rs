//! Content blocks: the pieces that a message is made of.
//!
//! The same types are used in memory, in the transcript and on the wire. A block kind that this
//! version doesn't know (server tools, citations to come) is kept verbatim as
//! [`ContentBlock::Other`]; a field it doesn't know is kept in the block's `extra`.

use crate::Extra;
use crate::ids::ToolUseId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// One piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock {
    /// Words.
    Text(TextBlock),
    /// The model's reasoning, signed by the model that wrote it.
    Thinking(ThinkingBlock),
    /// Reasoning that only the provider can read.
    RedactedThinking(RedactedThinkingBlock),
    /// The model asks for a tool call.
    ToolUse(ToolUseBlock),
    /// The result of a tool call.
    ToolResult(ToolResultBlock),
    /// A picture.
    Image(SourceBlock),
    /// A document (PDF or text).
    Document(SourceBlock),
    /// Any other kind, verbatim.
    Other(Value),
}

/// Words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TextBlock {
    /// The words.
    pub text: String,
    /// Unknown fields (citations, cache markers).
    #[serde(flatten)]
    pub extra: Extra,
}

/// How the signature of a thinking block begins that belongs to the words before it, so that it may stand at the end of
/// an answer. Reasoning leads to something otherwise.
pub const FOLLOWS_WORDS: &str = "follows:";

/// Signed reasoning.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ThinkingBlock {
    /// The reasoning.
    pub thinking: String,
    /// The signature that the same model wants back unchanged.
    #[serde(default)]
    pub signature: String,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Encrypted reasoning.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RedactedThinkingBlock {
    /// The encrypted bytes.
    pub data: String,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A request for a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUseBlock {
    /// The call's id; the result names it.
    pub id: ToolUseId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments.
    pub input: Value,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResultBlock {
    /// The call that this answers.
    pub tool_use_id: ToolUseId,
    /// The text that the model gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An image or a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceBlock {
    /// Where the bytes are.
    pub source: Source,
    /// Unknown fields (title, context, citations).
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where the bytes of an image or a document are.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// In the message itself.
    Base64 {
        /// For example `image/png`.
        media_type: String,
        /// Base64 text.
        data: String,
    },
    /// Anywhere else (URL, file id, stored blob), verbatim.
    Other(Value),
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Base64 { media_type, data } => {
                #[derive(Serialize)]
                struct Base64<'a> {
                    r#type: &'static str,
                    media_type: &'a str,
                    data: &'a str,
                }
                Base64 {
                    r#type: "base64",
                    media_type,
                    data,
                }
                .serialize(serializer)
            }
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        if let Some(object) = value.as_object_mut() {
            repair_media(object);
            if object.get("type").and_then(Value::as_str) == Some("base64")
                && object.len() == 3
                && let (Some(Value::String(media_type)), Some(Value::String(_))) =
                    (object.get("media_type"), object.get("data"))
            {
                let media_type = media_type.clone();
                // Taken out rather than cloned: images are megabytes.
                if let Some(Value::String(data)) = object.remove("data") {
                    return Ok(Self::Base64 { media_type, data });
                }
            }
        }
        Ok(Self::Other(value))
    }
}

/// How the base64 text of a known kind of bytes starts.
const MEDIA_STARTS: [(&str, &str); 5] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi0", "application/pdf"),
];

/// Gives bytes the media type that they have, where none or another was named: the API refuses the whole
/// request otherwise, and every later one that carries it.
fn repair_media(source: &mut serde_json::Map<String, Value>) {
    if !source.get("data").is_some_and(Value::is_string) {
        return;
    }
    match source.get("type").and_then(Value::as_str) {
        Some("base64") => {}
        None => drop(source.insert("type".to_owned(), "base64".into())),
        Some(_) => return,
    }
    let Some(Value::String(data)) = source.get("data") else {
        return;
    };
    // `data:image/png;base64,…`
    let (start, from_address) = match data.strip_prefix("data:").and_then(|it| it.split_once(',')) {
        Some((_, bytes)) => (bytes, Some(bytes.to_owned())),
        None => (data.as_str(), None),
    };
    let found = MEDIA_STARTS
        .iter()
        .find(|(beginning, _)| start.trim_start().starts_with(beginning));
    if let Some((_, media_type)) = found
        && source.get("media_type").and_then(Value::as_str) != Some(media_type)
    {
        source.insert("media_type".to_owned(), (*media_type).into());
    }
    if let Some(bytes) = from_address {
        source.insert("data".to_owned(), bytes.into());
    }
}

/// A message's content: plain text, or a list of blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text, the short form.
    Text(String),
    /// Blocks.
    Blocks(Vec<ContentBlock>),
}

impl Content {
    /// All text of the content, blocks joined by line ends.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => joined_text(blocks),
        }
    }

    /// The content as blocks; plain text becomes one text block (none when empty).
    #[must_use]
    pub fn into_blocks(self) -> Vec<ContentBlock> {
        match self {
            Self::Text(text) if text.is_empty() => Vec::new(),
            Self::Text(text) => vec![ContentBlock::text(text)],
            Self::Blocks(blocks) => blocks,
        }
    }

    /// Whether there is nothing that the model could read.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::Blocks(blocks) => blocks.iter().all(ContentBlock::is_blank),
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<ContentBlock>> for Content {
    fn from(blocks: Vec<ContentBlock>) -> Self {
        Self::Blocks(blocks)
    }
}

/// The text blocks of a list, joined by line ends.
#[must_use]
pub fn joined_text(blocks: &[ContentBlock]) -> String {
    let mut joined = String::new();
    for block in blocks {
        if let ContentBlock::Text(text) = block {
            if !joined.is_empty() {
                joined.push('\n');
            }
            joined.push_str(&text.text);
        }
    }
    joined
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock {
            text: text.into(),
            extra: Extra::new(),
        })
    }

    /// An image block with its bytes in base64.
    pub fn image(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self::Image(SourceBlock {
            source: Source::Base64 {
                media_type: media_type.into(),
                data: data.into(),
            },
            extra: Extra::new(),
        })
    }

    /// A document block with its bytes in base64.
    pub fn document(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self::Document(SourceBlock {
            source: Source::Base64 {
                media_type: media_type.into(),
                data: data.into(),
            },
            extra: Extra::new(),
        })
    }

    /// A tool result.
    pub fn tool_result(id: ToolUseId, content: impl Into<Content>, is_error: bool) -> Self {
        Self::ToolResult(ToolResultBlock {
            tool_use_id: id,
            content: Some(content.into()),
            is_error: is_error.then_some(true),
            extra: Extra::new(),
        })
    }

    /// The block's `type` on the wire.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::Thinking(_) => "thinking",
            Self::RedactedThinking(_) => "redacted_thinking",
            Self::ToolUse(_) => "tool_use",
            Self::ToolResult(_) => "tool_result",
            Self::Image(_) => "image",
            Self::Document(_) => "document",
            Self::Other(value) => value.get("type").and_then(Value::as_str).unwrap_or(""),
        }
    }

    /// Whether the block is text without a visible character.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        matches!(self, Self::Text(text) if text.text.trim().is_empty())
    }

    /// The call, if this block asks for one.
    #[must_use]
    pub fn as_tool_use(&self) -> Option<&ToolUseBlock> {
        match self {
            Self::ToolUse(call) => Some(call),
            _ => None,
        }
    }

    /// The result, if this block is one.
    #[must_use]
    pub fn as_tool_result(&self) -> Option<&ToolResultBlock> {
        match self {
            Self::ToolResult(result) => Some(result),
            _ => None,
        }
    }

    /// Whether the block is reasoning, open or redacted.
    #[must_use]
    pub fn is_thinking(&self) -> bool {
        matches!(self, Self::Thinking(_) | Self::RedactedThinking(_))
    }
}

/// Writes `type` first, as every reader of transcripts expects.
#[derive(Serialize)]
struct Tagged<'a, T: Serialize> {
    r#type: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(body) => Tagged {
                r#type: "text",
                body,
            }
            .serialize(serializer),
            Self::Thinking(body) => Tagged {
                r#type: "thinking",
                body,
            }
            .serialize(serializer),
            Self::RedactedThinking(body) => Tagged {
                r#type: "redacted_thinking",
                body,
            }
            .serialize(serializer),
            Self::ToolUse(body) => Tagged {
                r#type: "tool_use",
                body,
            }
            .serialize(serializer),
            Self::ToolResult(body) => Tagged {
                r#type: "tool_result",
                body,
            }
            .serialize(serializer),
            Self::Image(body) => Tagged {
                r#type: "image",
                body,
            }
            .serialize(serializer),
            Self::Document(body) => Tagged {
                r#type: "document",
                body,
            }
            .serialize(serializer),
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl ContentBlock {
    /// Reads a block from JSON. Only a known kind with a wrong field is an error.
    ///
    /// # Errors
    /// When the value is not an object, or a known kind lacks a required field.
    pub fn from_value(mut value: Value) -> Result<Self, serde_json::Error> {
        let Some(object) = value.as_object_mut() else {
            return Err(serde_json::Error::custom(
                "a content block must be an object",
            ));
        };
        let kind = object
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let known = matches!(
            kind.as_str(),
            "text"
                | "thinking"
                | "redacted_thinking"
                | "tool_use"
                | "tool_result"
                | "image"
                | "document"
        );
        if !known {
            return Ok(Self::Other(value));
        }
        object.shift_remove("type");
        Ok(match kind.as_str() {
            "text" => Self::Text(serde_json::from_value(value)?),
            "thinking" => Self::Thinking(serde_json::from_value(value)?),
            "redacted_thinking" => Self::RedactedThinking(serde_json::from_value(value)?),
            "tool_use" => Self::ToolUse(serde_json::from_value(value)?),
            "tool_result" => Self::ToolResult(serde_json::from_value(value)?),
            "image" => Self::Image(serde_json::from_value(value)?),
            _ => Self::Document(serde_json::from_value(value)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_image_without_its_media_type_or_with_another_is_repaired() {
        let png = "iVBORw0KGgoAAAANSUhEUg==";
        for source in [
            json!({"type": "base64", "data": png}),
            json!({"type": "base64", "data": png, "media_type": null}),
            json!({"type": "base64", "data": png, "media_type": "image/jpeg"}),
            json!({"data": png}),
            json!({"type": "base64", "data": format!("data:image/png;base64,{png}")}),
        ] {
            let block: ContentBlock =
                serde_json::from_value(json!({"type": "image", "source": source})).unwrap();
            assert_eq!(block, ContentBlock::image("image/png", png), "{source}");
        }
        for other in [
            json!({"type": "base64", "data": "AAAA"}),
            json!({"type": "url", "url": "https://example.org/a.png"}),
            json!({"type": "text", "data": png, "media_type": "text/plain"}),
        ] {
            let block = json!({"type": "image", "source": other});
            let read: ContentBlock = serde_json::from_value(block.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), block);
        }
    }

    #[test]
    fn unknown_fields_and_kinds_survive_a_round_trip() {
        let blocks = json!([
            {"type": "text", "text": "hi", "citations": [{"a": 1}]},
            {"type": "thinking", "thinking": "hm", "signature": "s", "new": true},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {"b": 1, "a": 2}, "caller": {"x": 1}},
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "r"}], "is_error": true},
            {"type": "tool_result", "tool_use_id": "t2", "content": "plain", "later": 1},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
            {"type": "image", "source": {"type": "url", "url": "https://x"}},
            {"type": "document", "source": {"type": "text", "data": "d"}, "title": "t"},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "z"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
        ]);
        let parsed: Vec<ContentBlock> = serde_json::from_value(blocks.clone()).unwrap();
        assert_eq!(serde_json::to_value(&parsed).unwrap(), blocks);
        assert!(matches!(parsed.last(), Some(ContentBlock::Other(_))));
    }

    #[test]
    fn type_is_written_first_and_the_order_of_input_is_kept() {
        let block = ContentBlock::from_value(
            json!({"type": "tool_use", "id": "t", "name": "N", "input": {"z": 1, "a": 2}}),
        )
        .unwrap();
        assert_eq!(
            serde_json::to_string(&block).unwrap(),
            r#"{"type":"tool_use","id":"t","name":"N","input":{"z":1,"a":2}}"#
        );
    }

    #[test]
    fn a_known_kind_without_its_field_is_an_error() {
        assert!(ContentBlock::from_value(json!({"type": "text"})).is_err());
        assert!(ContentBlock::from_value(json!("text")).is_err());
    }
}
