//! The contents of the model's window: tool results by size, with what was decided about each.

use crate::chain::as_message;
use crate::load::Loaded;
use crate::store::one_line;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::record::{Fact, Record, RecordMessage};
use serde_json::Value;
use std::collections::HashMap;

/// A tool result that the model is sent with every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextItem {
    /// The call.
    pub id: ToolUseId,
    /// The tool.
    pub tool: String,
    /// Its first argument, on one line.
    pub about: String,
    /// The turn that it belongs to, counted from 1.
    pub turn: usize,
    /// The result as it was; `None` if it holds more than text.
    pub text: Option<String>,
    /// Bytes of the result as it was.
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

/// The tool results of a conversation since its last compaction, oldest first.
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
                let blocks = message.message.as_ref().map(RecordMessage::blocks);
                for block in blocks.unwrap_or_default() {
                    take_block(block, turn, &mut calls, &mut items);
                }
            }
        }
    }
    items
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
