//! Messages as bytes: each is serialised once, and its bytes are reused in every later request.

use crate::content::ContentBlock;
use crate::message::Role;
use bytes::Bytes;
use serde::Serialize;

/// A message in the form that goes on the wire. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedMessage {
    /// Who speaks.
    pub role: Role,
    /// `{"role":…,"content":[…]}`, always with a block list.
    pub bytes: Bytes,
    /// Whether the last block may carry a cache marker (reasoning may not).
    pub markable: bool,
}

/// What stands between the bytes of a message and its end when its last block is marked.
pub const CACHE_MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// As [`CACHE_MARKER`], with the one-hour lifetime.
pub const CACHE_MARKER_ONE_HOUR: &str = r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#;

impl EncodedMessage {
    /// Serialises a message.
    ///
    /// # Errors
    /// When a block can't be written as JSON (a map with non-text keys; can't happen for data that
    /// came from JSON).
    pub fn new(role: Role, blocks: &[ContentBlock]) -> Result<Self, serde_json::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            role: Role,
            content: &'a [ContentBlock],
        }
        let bytes = Bytes::from(serde_json::to_vec(&Wire {
            role,
            content: blocks,
        })?);
        let markable = blocks.last().is_some_and(|block| {
            !block.is_thinking() && !block.is_blank() && !matches!(block, ContentBlock::Other(_))
        });
        Ok(Self {
            role,
            bytes,
            markable,
        })
    }

    /// The bytes in two parts around the place where a cache marker goes: before and after.
    /// `None` where no marker may stand.
    #[must_use]
    pub fn split_for_marker(&self) -> Option<(Bytes, Bytes)> {
        const TAIL: usize = "}]}".len();
        let at = self.bytes.len().checked_sub(TAIL)?;
        (self.markable && self.bytes.ends_with(b"}]}"))
            .then(|| (self.bytes.slice(..at), self.bytes.slice(at..)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_lands_in_the_last_block() {
        let message = EncodedMessage::new(
            Role::User,
            &[ContentBlock::text("a"), ContentBlock::text("b}]}")],
        )
        .unwrap();
        let (head, tail) = message.split_for_marker().unwrap();
        let marked = [head.as_ref(), CACHE_MARKER.as_bytes(), tail.as_ref()].concat();
        let value: serde_json::Value = serde_json::from_slice(&marked).unwrap();
        assert_eq!(value["content"][1]["cache_control"]["type"], "ephemeral");
        assert_eq!(value["content"][1]["text"], "b}]}");
        assert!(value["content"][0].get("cache_control").is_none());
    }

    #[test]
    fn reasoning_and_empty_messages_take_no_marker() {
        let thinking = ContentBlock::Thinking(crate::content::ThinkingBlock::default());
        let message = EncodedMessage::new(Role::Assistant, &[thinking]).unwrap();
        assert!(message.split_for_marker().is_none());
        assert!(
            EncodedMessage::new(Role::User, &[])
                .unwrap()
                .split_for_marker()
                .is_none()
        );
    }
}
