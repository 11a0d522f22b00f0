//! One content block, made acceptable to the API and serialised once.
//!
//! A [`Piece`] knows just enough about its block to be put in the right place later (which call it
//! is, which call it answers, which model's reasoning it is). Its JSON is made when the record
//! arrives and never again; a message is its pieces' bytes joined.

use super::small;
use bytes::Bytes;
use lathe_protocol::content::{
    Content, ContentBlock, FOLLOWS_WORDS, Source, SourceBlock, ToolResultBlock, ToolUseBlock,
};
use lathe_protocol::ids::ToolUseId;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// The result of a call that has none.
pub(crate) const UNANSWERED: &str =
    "No result was recorded for this call: the session was interrupted before it finished.";
const NO_OUTPUT: &str = "(no output)";
const SILENT_FAILURE: &str = "The tool failed without a message.";

/// A block in its final bytes.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) kind: PieceKind,
    pub(crate) raw: Bytes,
    /// Its size without the bytes of images and documents.
    pub(crate) text_bytes: u32,
    /// How many images and documents it holds.
    pub(crate) media: u32,
}

/// The role of a piece in its message.
#[derive(Debug, Clone)]
pub(crate) enum PieceKind {
    Text,
    /// An image or a document.
    Media,
    /// Reasoning, good only for the model that wrote it.
    Thinking {
        model: Arc<String>,
        /// Whether it may be the last of its message.
        may_end: bool,
    },
    /// A call of a tool.
    Call {
        id: CallId,
        name: Arc<String>,
    },
    /// The result of a call of the same group.
    Result {
        id: CallId,
        replaced: bool,
    },
    /// A call of a tool that the provider runs, answered within the same message.
    ServerCall {
        id: String,
    },
    /// The answer to such a call.
    ServerResult {
        id: String,
    },
    /// Attached to a result.
    Attached,
    /// Verbatim.
    Other,
}

/// The id of a call. The texts are shared: a session holds each of them in several places for as long as it lasts.
#[derive(Debug, Clone)]
pub(crate) struct CallId {
    /// As it goes to the API: as the records have it, unless that is taken or illegal.
    pub(crate) wire: Arc<str>,
    /// As the records have it, where that is something else.
    renamed: Option<Arc<String>>,
}

impl CallId {
    pub(crate) fn new(original: &str, wire: String) -> Self {
        let renamed = (wire != original).then(|| Arc::new(original.to_owned()));
        Self {
            wire: wire.into(),
            renamed,
        }
    }

    fn original(&self) -> &str {
        self.renamed.as_deref().map_or(&*self.wire, String::as_str)
    }

    /// Whether the records mean this call by an id.
    pub(crate) fn is(&self, id: &ToolUseId) -> bool {
        self.original() == id.as_str()
    }

    /// As the records have it.
    pub(crate) fn recorded(&self) -> ToolUseId {
        ToolUseId(self.original().to_owned())
    }

    fn sent(&self) -> ToolUseId {
        ToolUseId(self.wire.to_string())
    }
}

impl Piece {
    fn new(kind: PieceKind, block: &ContentBlock) -> Option<Self> {
        // Blocks come from JSON, so writing them as JSON works; if it ever didn't, leaving the
        // block out keeps the conversation going.
        let raw = Bytes::from(serde_json::to_vec(block).ok()?);
        let (media, media_bytes) = media_of(block);
        Some(Self {
            kind,
            text_bytes: small(raw.len().saturating_sub(media_bytes)),
            media: small(media),
            raw,
        })
    }

    /// Whether a cache marker may stand in this block.
    pub(crate) fn markable(&self) -> bool {
        match self.kind {
            PieceKind::Text
            | PieceKind::Media
            | PieceKind::Attached
            | PieceKind::Call { .. }
            | PieceKind::Result { .. } => true,
            PieceKind::Thinking { .. }
            | PieceKind::ServerCall { .. }
            | PieceKind::ServerResult { .. }
            | PieceKind::Other => false,
        }
    }

    /// Whether it is reasoning that must lead to something.
    pub(crate) fn leads_on(&self) -> bool {
        matches!(self.kind, PieceKind::Thinking { may_end: false, .. })
    }

    /// A block of the model's, except a call (see [`Piece::call`]).
    pub(crate) fn of_assistant(block: ContentBlock, model: &Arc<String>) -> Option<Self> {
        let kind = match &block {
            ContentBlock::Text(text) if text.text.trim().is_empty() => return None,
            ContentBlock::Text(_) => PieceKind::Text,
            // The API refuses reasoning whose signature is gone.
            ContentBlock::Thinking(thinking) if thinking.signature.is_empty() => return None,
            ContentBlock::RedactedThinking(thinking) if thinking.data.is_empty() => return None,
            ContentBlock::Thinking(thinking) => PieceKind::Thinking {
                model: Arc::clone(model),
                may_end: thinking.signature.starts_with(FOLLOWS_WORDS),
            },
            ContentBlock::RedactedThinking(_) => PieceKind::Thinking {
                model: Arc::clone(model),
                may_end: false,
            },
            ContentBlock::ToolUse(_)
            | ContentBlock::ToolResult(_)
            | ContentBlock::Image(_)
            | ContentBlock::Document(_) => return None,
            ContentBlock::Other(value) => server_kind(value)?,
        };
        Self::new(kind, &without_marker(block))
    }

    /// A call, under the id that goes to the API.
    pub(crate) fn call(mut call: ToolUseBlock, id: CallId, name: Arc<String>) -> Option<Self> {
        call.id = id.sent();
        if !call.input.is_object() {
            call.input = match call.input {
                Value::Null => json!({}),
                other => json!({ "value": other }),
            };
        }
        name.as_str().clone_into(&mut call.name);
        let kind = PieceKind::Call { id, name };
        Self::new(kind, &without_marker(ContentBlock::ToolUse(call)))
    }

    /// A block of a user message, except a result (see [`Piece::result`]).
    pub(crate) fn of_user(block: ContentBlock, attached: bool) -> Option<Self> {
        let block = match block {
            ContentBlock::Image(source) | ContentBlock::Document(source)
                if !is_known_source(&source) =>
            {
                ContentBlock::text("[content no longer available]")
            }
            other => other,
        };
        let kind = match &block {
            ContentBlock::Text(text) if text.text.trim().is_empty() => return None,
            _ if attached => PieceKind::Attached,
            ContentBlock::Text(_) => PieceKind::Text,
            ContentBlock::Image(_) | ContentBlock::Document(_) => PieceKind::Media,
            ContentBlock::Other(_) => PieceKind::Other,
            ContentBlock::Thinking(_)
            | ContentBlock::RedactedThinking(_)
            | ContentBlock::ToolUse(_)
            | ContentBlock::ToolResult(_) => return None,
        };
        let allowed = match &block {
            ContentBlock::Text(_) | ContentBlock::Image(_) | ContentBlock::Document(_) => true,
            other => matches!(other.kind(), "search_result" | "container_upload"),
        };
        allowed
            .then(|| Self::new(kind, &without_marker(block)))
            .flatten()
    }

    /// A result, and what it holds that may not stand in a result and comes after it.
    pub(crate) fn result(mut result: ToolResultBlock, id: CallId) -> (Option<Self>, Vec<Self>) {
        result.tool_use_id = id.sent();
        let failed = result.is_error == Some(true);
        let mut moved = Vec::new();
        let content = match result.content.take() {
            Some(Content::Text(text)) if !text.trim().is_empty() => Some(Content::Text(text)),
            Some(Content::Blocks(blocks)) => {
                let mut kept = Vec::new();
                for block in blocks {
                    match inside_result(block) {
                        // An error may hold text only.
                        Some(block) if failed && !matches!(block, ContentBlock::Text(_)) => {
                            moved.extend(Self::of_user(block, true));
                        }
                        Some(block) => kept.push(block),
                        None => {}
                    }
                }
                (!kept.is_empty()).then_some(Content::Blocks(kept))
            }
            _ => None,
        };
        let blank = if failed { SILENT_FAILURE } else { NO_OUTPUT };
        result.content = Some(content.unwrap_or_else(|| Content::from(blank)));
        let kind = PieceKind::Result {
            id,
            replaced: false,
        };
        (
            Self::new(kind, &without_marker(ContentBlock::ToolResult(result))),
            moved,
        )
    }

    /// The same result, or the same text, with other words in it.
    pub(crate) fn replaced(&self, replacement: &str) -> Option<Self> {
        let block = ContentBlock::from_value(serde_json::from_slice(&self.raw).ok()?).ok()?;
        let mut result = match block {
            ContentBlock::ToolResult(result) => result,
            ContentBlock::Text(_) => {
                return Self::new(self.kind.clone(), &ContentBlock::text(replacement));
            }
            _ => return None,
        };
        result.content = Some(Content::from(replacement));
        let mut kind = self.kind.clone();
        if let PieceKind::Result { replaced, .. } = &mut kind {
            *replaced = true;
        }
        Self::new(kind, &ContentBlock::ToolResult(result))
    }

    /// The same with a word in the place of refused images and documents; `None` when it has none.
    pub(crate) fn without_media(&self, refused: &HashSet<String>) -> Option<Self> {
        let mut block = ContentBlock::from_value(serde_json::from_slice(&self.raw).ok()?).ok()?;
        if !super::media::leave_out(&mut block, refused) {
            return None;
        }
        let kind = match &self.kind {
            PieceKind::Media => PieceKind::Text,
            other => other.clone(),
        };
        Self::new(kind, &block)
    }

    /// The placeholder for a missing result.
    pub(crate) fn unanswered(id: &CallId) -> Option<Self> {
        let kind = PieceKind::Result {
            id: id.clone(),
            replaced: false,
        };
        Self::new(
            kind,
            &ContentBlock::tool_result(id.sent(), UNANSWERED, true),
        )
    }
}

/// How many images and documents a block holds, and the size of their bytes.
fn media_of(block: &ContentBlock) -> (usize, usize) {
    match block {
        ContentBlock::Image(block) | ContentBlock::Document(block) => match &block.source {
            Source::Base64 { data, .. } => (1, data.len()),
            Source::Other(_) => (1, 0),
        },
        ContentBlock::ToolResult(ToolResultBlock {
            content: Some(Content::Blocks(blocks)),
            ..
        }) => blocks
            .iter()
            .map(media_of)
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        _ => (0, 0),
    }
}

/// Keeps what the API takes inside a result.
fn inside_result(block: ContentBlock) -> Option<ContentBlock> {
    match block {
        ContentBlock::Text(text) if text.text.trim().is_empty() => None,
        ContentBlock::Image(source) | ContentBlock::Document(source)
            if !is_known_source(&source) =>
        {
            Some(ContentBlock::text("[content no longer available]"))
        }
        ContentBlock::Text(_) | ContentBlock::Image(_) | ContentBlock::Document(_) => {
            Some(without_marker(block))
        }
        ContentBlock::Other(_) if matches!(block.kind(), "search_result" | "tool_reference") => {
            Some(without_marker(block))
        }
        other => Some(ContentBlock::text(format!(
            "[omitted: a block of kind {:?}]",
            other.kind()
        ))),
    }
}

fn is_known_source(block: &SourceBlock) -> bool {
    match &block.source {
        Source::Base64 { data, .. } => !data.is_empty(),
        Source::Other(value) => {
            let has = |field: &str| {
                let text = value.get(field).and_then(Value::as_str);
                text.is_some_and(|text| !text.is_empty())
            };
            match value.get("type").and_then(Value::as_str) {
                Some("base64") => has("data"),
                Some("url") => has("url"),
                Some("file" | "text" | "content") => true,
                _ => false,
            }
        }
    }
}

fn server_kind(value: &Value) -> Option<PieceKind> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = text("type")?;
    Some(
        if matches!(kind.as_str(), "server_tool_use" | "mcp_tool_use") {
            PieceKind::ServerCall { id: text("id")? }
        } else if kind.ends_with("_tool_result") {
            PieceKind::ServerResult {
                id: text("tool_use_id")?,
            }
        } else {
            PieceKind::Other
        },
    )
}

/// Cache markers are set anew for each request; a stored one would count against the four allowed.
fn without_marker(mut block: ContentBlock) -> ContentBlock {
    const MARKER: &str = "cache_control";
    match &mut block {
        ContentBlock::Text(block) => drop(block.extra.shift_remove(MARKER)),
        ContentBlock::ToolUse(block) => drop(block.extra.shift_remove(MARKER)),
        ContentBlock::ToolResult(block) => drop(block.extra.shift_remove(MARKER)),
        ContentBlock::Image(block) | ContentBlock::Document(block) => {
            drop(block.extra.shift_remove(MARKER));
        }
        ContentBlock::Other(value) => {
            if let Some(fields) = value.as_object_mut() {
                fields.shift_remove(MARKER);
            }
        }
        ContentBlock::Thinking(_) | ContentBlock::RedactedThinking(_) => {}
    }
    block
}

/// Letters, digits, `_` and `-`, which is what the API takes in names and ids.
pub(crate) fn legal_name(name: &str) -> String {
    let legal: String = name
        .chars()
        .take(128)
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || "_-".contains(letter) {
                letter
            } else {
                '_'
            }
        })
        .collect();
    if legal.is_empty() {
        "unknown".to_owned()
    } else {
        legal
    }
}

/// Whether two names mean the same model: a dated name and its alias do, and so does a name with
/// the provider's prefix or a window suffix.
pub(crate) fn same_model(one: &str, other: &str) -> bool {
    /// The provider, the part before the first slash: reasoning of one provider is useless to another.
    fn provider(name: &str) -> &str {
        let provider = name.split_once('/').map_or("", |(provider, _)| provider);
        if provider == "anthropic" {
            ""
        } else {
            provider
        }
    }
    if provider(one) != provider(other) {
        return false;
    }
    fn plain(name: &str) -> &str {
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
        let name = name
            .rsplit_once("anthropic.")
            .map_or(name, |(_, name)| name);
        let name = name.split_once("-v1:").map_or(name, |(name, _)| name);
        let name = name.strip_suffix("-latest").unwrap_or(name);
        match name.rsplit_once(['-', '@']) {
            Some((rest, date))
                if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                rest
            }
            _ => name,
        }
    }
    one == other || plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dated_name_and_its_alias_are_the_same_model() {
        assert!(same_model(
            "claude-sonnet-4-5",
            "claude-sonnet-4-5-20250929"
        ));
        assert!(same_model(
            "claude-sonnet-4-5[1m]",
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
        ));
        assert!(same_model(
            "claude-opus-4-1@20250805",
            "anthropic/claude-opus-4-1"
        ));
        assert!(!same_model("claude-opus-4-1", "claude-opus-4"));
        assert!(!same_model("a", "b"));
    }

    #[test]
    fn an_error_holds_text_only_and_its_pictures_follow() {
        let picture = ContentBlock::image("image/png", "AAAA");
        let block = ContentBlock::tool_result(
            "t".into(),
            vec![ContentBlock::text("bad"), picture, ContentBlock::text("  ")],
            true,
        );
        let ContentBlock::ToolResult(result) = block else {
            unreachable!()
        };
        let (piece, moved) = Piece::result(result, CallId::new("t", "t".to_owned()));
        assert_eq!(
            piece.unwrap().raw,
            r#"{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"bad"}],"is_error":true}"#
        );
        assert_eq!(moved.len(), 1);
    }

    #[test]
    fn stored_cache_markers_are_removed() {
        let block: ContentBlock = serde_json::from_value(
            json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}),
        )
        .unwrap();
        assert_eq!(
            Piece::of_user(block, false).unwrap().raw,
            r#"{"type":"text","text":"a"}"#
        );
    }
}
