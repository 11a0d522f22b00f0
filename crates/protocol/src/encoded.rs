//! Messages as bytes: each is serialised once, and its bytes are reused in every later request.
//!
//! [`EncodedMessages`] is a conversation of them. It is copied for each request, so it is a list of runs:
//! messages that won't change any more are shared 64 at a time, and a thousand turns cost a request
//! about as much as ten.

use crate::content::ContentBlock;
use crate::message::Role;
use bytes::{Bytes, BytesMut};
use serde::Serialize;
use std::ops::Index;
use std::sync::Arc;

/// A message in the form that continues the wire. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedMessage {
    /// Who speaks.
    pub role: Role,
    /// `{"role":…,"content":[…]}`, always with a block list.
    pub bytes: Bytes,
    /// Whether the last block may carry a cache marker (reasoning may not).
    pub markable: bool,
}

/// The bytes between a message and its end when its last block has a cache marker.
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

/// How many messages a run holds.
const RUN: usize = 64;
/// How many messages stay out of a run at least: the end of a conversation changes, and has the marks.
const LOOSE: usize = 16;
/// Messages up to this size are joined inside a run; larger ones are kept once, as they are.
pub const SMALL_MESSAGE: usize = 2 * 1024;

/// A conversation as it is sent. Cloning it costs little however long it is.
#[derive(Clone, Default)]
pub struct EncodedMessages {
    runs: Vec<Arc<EncodedRun>>,
    tail: Vec<EncodedMessage>,
}

/// 64 messages in a row that won't change any more, most of them joined already.
pub struct EncodedRun {
    messages: Vec<EncodedMessage>,
    parts: Vec<Bytes>,
}

impl EncodedRun {
    fn new(messages: Vec<EncodedMessage>) -> Self {
        let mut parts = Vec::new();
        let small = |message: &&EncodedMessage| message.bytes.len() <= SMALL_MESSAGE;
        let room: usize = messages.iter().filter(small).map(|it| it.bytes.len()).sum();
        let mut joined = BytesMut::with_capacity(room + messages.len());
        for message in &messages {
            if small(&message) {
                joined.extend_from_slice(&message.bytes);
            } else {
                if !joined.is_empty() {
                    parts.push(joined.split().freeze());
                }
                parts.push(message.bytes.clone());
            }
            joined.extend_from_slice(b",");
        }
        parts.push(joined.freeze());
        Self { messages, parts }
    }

    /// The messages.
    #[must_use]
    pub fn messages(&self) -> &[EncodedMessage] {
        &self.messages
    }

    /// The bytes of the messages in order, in few pieces, with a comma after each message.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }
}

impl EncodedMessages {
    /// No messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len() * RUN + self.tail.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.tail.is_empty()
    }

    /// A message by its number.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&EncodedMessage> {
        match self.runs.get(index / RUN) {
            Some(run) => run.messages.get(index % RUN),
            None => self.tail.get(index - self.runs.len() * RUN),
        }
    }

    /// The last message.
    #[must_use]
    pub fn last(&self) -> Option<&EncodedMessage> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The messages in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &EncodedMessage> {
        let runs = self.runs.iter().flat_map(|run| &run.messages);
        runs.chain(&self.tail)
    }

    /// The messages as a list of their own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<EncodedMessage> {
        self.iter().cloned().collect()
    }

    /// The runs, which come first.
    #[must_use]
    pub fn runs(&self) -> &[Arc<EncodedRun>] {
        &self.runs
    }

    /// The messages after the runs.
    #[must_use]
    pub fn tail(&self) -> &[EncodedMessage] {
        &self.tail
    }

    /// How many messages at the beginning are the very same as those of another conversation, as far as
    /// can be told without looking at them.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> usize {
        let pairs = self.runs.iter().zip(&other.runs);
        pairs.take_while(|(one, two)| Arc::ptr_eq(one, two)).count() * RUN
    }

    /// Adds a message at the end.
    pub fn push(&mut self, message: EncodedMessage) {
        self.tail.push(message);
        if self.tail.len() >= RUN + LOOSE {
            let run = EncodedRun::new(self.tail.drain(..RUN).collect());
            self.runs.push(Arc::new(run));
        }
    }

    /// Keeps only the first `length` messages.
    pub fn truncate(&mut self, length: usize) {
        let (whole, rest) = (length / RUN, length % RUN);
        if whole >= self.runs.len() {
            self.tail.truncate(length - self.runs.len() * RUN);
            return;
        }
        let cut = self.runs[whole].messages.get(..rest);
        self.tail = cut.unwrap_or_default().to_vec();
        self.runs.truncate(whole);
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Index<usize> for EncodedMessages {
    type Output = EncodedMessage;

    fn index(&self, index: usize) -> &EncodedMessage {
        match self.runs.get(index / RUN) {
            Some(run) => &run.messages[index % RUN],
            None => &self.tail[index - self.runs.len() * RUN],
        }
    }
}

impl Extend<EncodedMessage> for EncodedMessages {
    fn extend<I: IntoIterator<Item = EncodedMessage>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl FromIterator<EncodedMessage> for EncodedMessages {
    fn from_iter<I: IntoIterator<Item = EncodedMessage>>(messages: I) -> Self {
        let mut all = Self::default();
        all.extend(messages);
        all
    }
}

impl From<Vec<EncodedMessage>> for EncodedMessages {
    fn from(messages: Vec<EncodedMessage>) -> Self {
        messages.into_iter().collect()
    }
}

impl PartialEq for EncodedMessages {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for EncodedMessages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: usize) -> EncodedMessage {
        // Every seventh is too large to be joined with others.
        let size = if number % 7 == 3 { SMALL_MESSAGE } else { 5 };
        let text = format!("{number} {}", "x".repeat(size));
        EncodedMessage::new(Role::User, &[ContentBlock::text(text)]).unwrap()
    }

    #[test]
    fn a_conversation_is_its_messages_however_it_was_made_and_cut() {
        let plain: Vec<EncodedMessage> = (0..500).map(numbered).collect();
        let whole: EncodedMessages = plain.iter().cloned().collect();
        assert_eq!(whole.to_vec(), plain);
        assert!(whole.runs().len() > 5 && whole.tail().len() >= LOOSE);
        for length in [0, 1, 63, 64, 65, 128, 200, 447, 448, 499, 500] {
            let mut cut = whole.clone();
            cut.truncate(length);
            assert_eq!((cut.len(), cut.is_empty()), (length, length == 0));
            assert_eq!(cut.to_vec(), plain[..length]);
            assert_eq!(cut.last(), plain[..length].last());
            cut.extend(plain[length..].iter().cloned());
            assert_eq!(cut, whole);
            assert_eq!((cut.get(499), cut.get(500)), (plain.get(499), None));
            assert_eq!(&cut[length.min(499)], &plain[length.min(499)]);
        }
    }

    #[test]
    fn the_parts_of_a_run_are_its_messages_with_commas() {
        let whole: EncodedMessages = (0..500).map(numbered).collect();
        for run in whole.runs() {
            let mut wanted = Vec::new();
            for message in run.messages() {
                wanted.extend_from_slice(&message.bytes);
                wanted.push(b',');
            }
            assert_eq!(run.parts().concat(), wanted);
            assert!(
                run.parts().len() <= 2 * RUN / 7 + 3,
                "{}",
                run.parts().len()
            );
        }
    }

    #[test]
    fn copies_share_what_was_there_before() {
        let before: EncodedMessages = (0..500).map(numbered).collect();
        let mut after = before.clone();
        after.push(numbered(500));
        assert_eq!(after.shared_with(&before), before.runs().len() * RUN);
        after.truncate(100);
        assert_eq!(after.shared_with(&before), RUN);
    }

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
