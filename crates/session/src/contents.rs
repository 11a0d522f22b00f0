//! The contents of the model's window: messages, files and tool results, with what was decided about each.

use crate::chain::as_message;
use crate::load::Loaded;
use crate::store::one_line;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::record::{
    Fact, INTERRUPTED_BY_USER, MessageRecord, Record, RecordKind, RecordMessage,
};
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::HashMap;

/// The kind of a part of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// The result of a call.
    Result,
    /// The user said it.
    Prompt,
    /// The model said it.
    Answer,
    /// A file that came with a prompt.
    File,
    /// The list of skills.
    Skills,
    /// The summary of what was before.
    Summary,
    /// Lathe told it to the model.
    Note,
    /// An instruction file in the system prompt.
    Memory,
}

impl ItemKind {
    /// A word for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Result => "Result",
            Self::Prompt => "Prompt",
            Self::Answer => "Answer",
            Self::File => "File",
            Self::Skills => "Skills",
            Self::Summary => "Summary",
            Self::Note => "Note",
            Self::Memory => "Memory",
        }
    }
}

/// A part of the conversation that the model is sent with every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextItem {
    /// The call, or the record of the message.
    pub id: ToolUseId,
    /// Whether it is a message, a result or something else.
    pub kind: ItemKind,
    /// The tool, or the name of the kind.
    pub tool: String,
    /// The first argument of the call, the path of the file or the first words, on one line.
    pub about: String,
    /// The turn that it belongs to, counted from 1; 0 for what is before the conversation.
    pub turn: usize,
    /// It as it was; `None` if it holds more than text.
    pub text: Option<String>,
    /// Bytes of it as it was.
    pub bytes: usize,
    /// The text that the model is sent in its place.
    pub replacement: Option<String>,
    /// Whether it outlives a compaction.
    pub is_pinned: bool,
}

impl ContextItem {
    /// A guess for the tokens that it takes now.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let bytes = match &self.replacement {
            Some(text) => text.len(),
            None => self.bytes,
        };
        bytes as u64 / 4
    }

    /// Whether it was dropped or condensed, so that it can be brought back.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        self.replacement.is_some() && self.replacement != self.text
    }
}

/// The parts of a conversation since its last compaction, oldest first.
#[must_use]
pub fn contents(loaded: &Loaded) -> Vec<ContextItem> {
    let mut items: Vec<ContextItem> = Vec::new();
    let mut calls: HashMap<ToolUseId, (String, String)> = HashMap::new();
    let mut turn = 0;
    for record in loaded.chain() {
        match &*record {
            Record::Fact(Fact::Replacement {
                tool_use_id,
                replacement,
                ..
            }) => {
                if let Some(item) = items.iter_mut().rev().find(|it| it.id == *tool_use_id) {
                    item.replacement = Some(replacement.clone());
                }
            }
            Record::Fact(Fact::Pinned {
                tool_use_id,
                pinned,
                ..
            }) => {
                if let Some(item) = items.iter_mut().rev().find(|it| it.id == *tool_use_id) {
                    item.is_pinned = *pinned;
                }
            }
            record => {
                let Some(message) = as_message(record) else {
                    continue;
                };
                turn += usize::from(message.is_prompt());
                items.extend(words(message, turn));
                let blocks = message.message.as_ref().map(RecordMessage::blocks);
                for block in blocks.unwrap_or_default() {
                    take_block(block, turn, &mut calls, &mut items);
                }
            }
        }
    }
    items
}

/// The words of a message that holds nothing else.
fn words(record: &MessageRecord, turn: usize) -> Option<ContextItem> {
    if record.is_virtual || record.is_api_error_message {
        return None;
    }
    let text = |blocks: Vec<ContentBlock>| match <[ContentBlock; 1]>::try_from(blocks) {
        Ok([ContentBlock::Text(text)]) => Some(text.text),
        _ => None,
    };
    let (kind, path, text) = match (record.kind, &record.attachment) {
        (RecordKind::Attachment, Some(attachment)) => {
            let content = Content::deserialize(attachment.get("content")?).ok()?;
            let path = attachment.get("path").and_then(Value::as_str);
            let kind = path.map_or(ItemKind::Note, |_| ItemKind::File);
            (kind, path, text(content.into_blocks())?)
        }
        (RecordKind::Assistant, _) => {
            let blocks = record.message.as_ref()?.blocks();
            (ItemKind::Answer, None, text(blocks)?)
        }
        (RecordKind::User, _) => {
            let kind = if record.is_compact_summary {
                ItemKind::Summary
            } else if record.extra.contains_key("skillNames") {
                ItemKind::Skills
            } else if record.is_prompt() {
                ItemKind::Prompt
            } else {
                ItemKind::Note
            };
            (kind, None, text(record.message.as_ref()?.blocks())?)
        }
        _ => return None,
    };
    if text.trim().is_empty() || text.starts_with(INTERRUPTED_BY_USER) {
        return None;
    }
    let first = text.trim_start_matches("<system-reminder>").trim_start();
    Some(ContextItem {
        id: record.uuid.to_string().into(),
        kind,
        tool: kind.name().to_owned(),
        about: one_line(path.unwrap_or(first), 120),
        turn,
        bytes: text.len(),
        text: Some(text),
        replacement: None,
        is_pinned: false,
    })
}

fn take_block(
    block: ContentBlock,
    turn: usize,
    calls: &mut HashMap<ToolUseId, (String, String)>,
    items: &mut Vec<ContextItem>,
) {
    match block {
        ContentBlock::ToolUse(call) => {
            let about = about(&call.input);
            calls.insert(call.id, (call.name, about));
        }
        ContentBlock::ToolResult(result) => {
            let known = calls.get(&result.tool_use_id).cloned();
            let (tool, about) = known.unwrap_or_default();
            let content = result
                .content
                .unwrap_or_else(|| Content::Text(String::new()));
            let is_text = match &content {
                Content::Text(_) => true,
                Content::Blocks(blocks) => blocks
                    .iter()
                    .all(|block| matches!(block, ContentBlock::Text(_))),
            };
            items.push(ContextItem {
                id: result.tool_use_id,
                kind: ItemKind::Result,
                tool,
                about,
                turn,
                bytes: serde_json::to_string(&content).map_or(0, |text| text.len()),
                text: is_text.then(|| content.text()),
                replacement: None,
                is_pinned: false,
            });
        }
        _ => {}
    }
}

/// The first text of a call's input, which says most about it.
fn about(input: &Value) -> String {
    let first = input
        .as_object()
        .and_then(|fields| fields.values().find_map(Value::as_str));
    one_line(first.unwrap_or_default(), 120)
}
