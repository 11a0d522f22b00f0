//! Looking at a conversation: for budgets, compaction and the faces.

use super::History;
use super::piece::PieceKind;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_protocol::message::Role;

/// A call that has no result yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnansweredCall {
    /// The call, as the record names it.
    pub id: ToolUseId,
    /// The tool.
    pub name: String,
}

/// A tool result as it stands in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultView {
    /// The call that it answers, as the records name it.
    pub tool_use_id: ToolUseId,
    /// The tool that was called.
    pub tool_name: String,
    /// Its size in the request.
    pub bytes: usize,
    /// Which round of calls it belongs to, counted from the start; the newest is the greatest.
    pub round: usize,
    /// Whether a replacement stands there already.
    pub replaced: bool,
}

/// Where the words of a record are.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextPlace {
    pub(super) group: usize,
    /// Whether the model said them.
    pub(super) is_said: bool,
    pub(super) at: usize,
}

impl History {
    /// Every block that the model sees, with who said it, in order.
    pub fn blocks(&mut self) -> impl Iterator<Item = (Role, ContentBlock)> + use<> {
        self.messages().into_iter().flat_map(|message| {
            let role = message.role;
            message
                .content
                .into_blocks()
                .into_iter()
                .map(move |block| (role, block))
        })
    }

    /// The calls of the last round that have no result yet.
    #[must_use]
    pub fn unanswered_calls(&self) -> Vec<UnansweredCall> {
        let Some(group) = self.groups.last() else {
            return Vec::new();
        };
        group
            .calls()
            .filter(|(id, _)| !group.has_result(&id.wire))
            .map(|(id, name)| UnansweredCall {
                id: id.recorded(),
                name: name.to_owned(),
            })
            .collect()
    }

    /// The results that stand in the conversation, oldest first.
    #[must_use]
    pub fn results(&self) -> Vec<ResultView> {
        let mut views = Vec::new();
        for (round, group) in self.groups.iter().enumerate() {
            for (id, name) in group.calls() {
                if let Some(piece) = group.result(&id.wire) {
                    views.push(ResultView {
                        tool_use_id: id.recorded(),
                        tool_name: name.to_owned(),
                        bytes: piece.raw.len(),
                        round,
                        replaced: matches!(piece.kind, PieceKind::Result { replaced: true, .. }),
                    });
                }
            }
        }
        views
    }

    /// The results of the newest round. Costs what that round has.
    #[must_use]
    pub fn newest_results(&self) -> Vec<ResultView> {
        let Some(group) = self.groups.last() else {
            return Vec::new();
        };
        let round = self.groups.len() - 1;
        group
            .calls()
            .filter_map(|(id, name)| {
                let piece = group.result(&id.wire)?;
                Some(ResultView {
                    tool_use_id: id.recorded(),
                    tool_name: name.to_owned(),
                    bytes: piece.raw.len(),
                    round,
                    replaced: matches!(piece.kind, PieceKind::Result { replaced: true, .. }),
                })
            })
            .collect()
    }

    /// The words of the newest result with this id; `None` when it holds anything but text.
    #[must_use]
    pub fn result_text(&self, id: &ToolUseId) -> Option<String> {
        let piece = self
            .groups
            .iter()
            .rev()
            .flat_map(|group| &group.user)
            .find(
                |piece| matches!(&piece.kind, PieceKind::Result { id: known, .. } if known.is(id)),
            )?;
        let block = ContentBlock::from_value(serde_json::from_slice(&piece.raw).ok()?).ok()?;
        let content = block.as_tool_result()?.content.clone()?;
        let blocks = content.into_blocks();
        blocks
            .iter()
            .all(|block| matches!(block, ContentBlock::Text(_)))
            .then(|| lathe_protocol::content::joined_text(&blocks))
    }

    /// The words of a result, or of the message whose record has this id.
    pub(super) fn text_of(&self, id: &ToolUseId) -> Option<String> {
        self.result_text(id).or_else(|| {
            let place = self.text_place(id)?;
            let group = self.groups.get(place.group)?;
            let pieces = if place.is_said {
                &group.assistant
            } else {
                &group.user
            };
            let raw = &pieces.get(place.at)?.raw;
            match ContentBlock::from_value(serde_json::from_slice(raw).ok()?).ok()? {
                ContentBlock::Text(text) => Some(text.text),
                _ => None,
            }
        })
    }

    /// Where the words of a record are, if it has nothing else.
    pub(super) fn text_place(&self, id: &ToolUseId) -> Option<TextPlace> {
        let record: RecordId = id.as_str().parse().ok()?;
        let index = self.marks.iter().rposition(|mark| mark.record == record)?;
        let mark = self.marks.get(index)?;
        let group = (mark.groups as usize).checked_sub(1)?;
        let before = index
            .checked_sub(1)
            .and_then(|before| self.marks.get(before));
        let before = before.filter(|before| before.groups == mark.groups);
        let said = before.map_or(0, |before| before.assistant)..mark.assistant;
        let came_in = before.map_or(0, |before| before.user)..mark.user;
        let (is_said, at) = match (said.len(), came_in.len()) {
            (1, 0) => (true, said.start as usize),
            (0, 1) => (false, came_in.start as usize),
            _ => return None,
        };
        let pieces = self.groups.get(group)?;
        let pieces = if is_said {
            &pieces.assistant
        } else {
            &pieces.user
        };
        let is_text = matches!(pieces.get(at)?.kind, PieceKind::Text | PieceKind::Attached);
        is_text.then_some(TextPlace { group, is_said, at })
    }

    /// Whether a result outlives a compaction.
    #[must_use]
    pub fn is_pinned(&self, id: &ToolUseId) -> bool {
        self.pinned.iter().any(|(known, _)| known == id)
    }

    /// The words of the results that outlive a compaction, oldest first.
    #[must_use]
    pub fn pinned_texts(&self) -> Vec<String> {
        let texts = self.pinned.iter();
        texts
            .filter_map(|(id, text)| self.text_of(id).or_else(|| text.clone()))
            .collect()
    }

    /// The ids of the records taken in since the last compaction, oldest first.
    pub fn record_ids(&self) -> impl Iterator<Item = RecordId> + '_ {
        self.marks.iter().map(|mark| mark.record)
    }

    /// The size of the messages in bytes of JSON, without images and documents.
    #[must_use]
    pub fn estimated_bytes(&self) -> usize {
        self.text_bytes
    }

    /// How many images and documents the messages hold.
    #[must_use]
    pub fn media_blocks(&self) -> usize {
        self.media
    }
}
