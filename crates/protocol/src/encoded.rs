//! Messages as bytes: each is serialised once, and its bytes are reused in every later request.
//!
//! [`EncodedMessages`] is a conversation of them. It is copied for each request, so it is a list of runs:
//! messages that won't change any more are shared 64 at a time, and a thousand turns cost a request
//! about as much as ten.

use crate::content::ContentBlock;
use crate::message::Role;
use bytes::{Bytes, BytesMut};
use serde::Serialize;
use std::ops::Range;
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

/// 64 messages in a row that won't change any more. Small ones are joined, and stand only there.
pub struct EncodedRun {
    parts: Vec<Bytes>,
    messages: Box<[Place]>,
}

/// A message of a run: who speaks, and where its bytes are.
struct Place {
    role: Role,
    markable: bool,
    part: u32,
    /// Its bytes within the part, if other messages stand there too.
    joined: Option<Range<u32>>,
}

impl EncodedRun {
    fn new(messages: &[EncodedMessage]) -> Self {
        let is_small = |message: &EncodedMessage| message.bytes.len() <= SMALL_MESSAGE;
        let small = messages.iter().filter(|message| is_small(message));
        let room: usize = small.map(|message| message.bytes.len()).sum();
        // Exactly as large as needed: it stays for the rest of the session.
        let mut joined = BytesMut::with_capacity(room + messages.len());
        let mut parts = Vec::new();
        let place = |message: &EncodedMessage| {
            let mut joined_place = None;
            if is_small(message) {
                let start = joined.len();
                joined.extend_from_slice(&message.bytes);
                joined_place = Some(as_u32(start)..as_u32(joined.len()));
            } else {
                if !joined.is_empty() {
                    parts.push(joined.split().freeze());
                }
                parts.push(message.bytes.clone());
            }
            let part = parts.len() - usize::from(joined_place.is_none());
            joined.extend_from_slice(b",");
            Place {
                role: message.role,
                markable: message.markable,
                part: as_u32(part),
                joined: joined_place,
            }
        };
        let places = messages.iter().map(place).collect();
        parts.push(joined.freeze());
        parts.shrink_to_fit();
        Self {
            parts,
            messages: places,
        }
    }

    /// How many messages it has.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a run is never empty")]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// A message by its number in the run.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<EncodedMessage> {
        let place = self.messages.get(index)?;
        let part = self.parts.get(place.part as usize)?;
        let bytes = match &place.joined {
            Some(range) => part.slice(range.start as usize..range.end as usize),
            None => part.clone(),
        };
        Some(EncodedMessage {
            role: place.role,
            bytes,
            markable: place.markable,
        })
    }

    /// The messages in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = EncodedMessage> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The bytes of the messages in order, in few pieces, with a comma after each message.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }
}

/// A place in a run, which has 64 messages of 2 KB at most that are joined.
fn as_u32(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Messages whose bytes were joined with others: the buffers that they had, and the ones that they have now.
#[derive(Debug)]
pub struct Joined(Vec<(Bytes, Bytes)>);

impl Joined {
    /// The same bytes in the buffer that stays, for a slice of one that doesn't.
    #[must_use]
    pub fn follow(&self, slice: &Bytes) -> Option<Bytes> {
        let at = slice.as_ptr().addr();
        self.0.iter().find_map(|(before, now)| {
            let start = at.checked_sub(before.as_ptr().addr())?;
            let end = start + slice.len();
            (end <= before.len()).then(|| now.slice(start..end))
        })
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
    pub fn get(&self, index: usize) -> Option<EncodedMessage> {
        match self.runs.get(index / RUN) {
            Some(run) => run.get(index % RUN),
            None => self.tail.get(index - self.runs.len() * RUN).cloned(),
        }
    }

    /// The last message.
    #[must_use]
    pub fn last(&self) -> Option<EncodedMessage> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The messages in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = EncodedMessage> {
        let runs = self.runs.iter().flat_map(|run| run.iter());
        runs.chain(self.tail.iter().cloned())
    }

    /// The messages as a list of their own.
    #[must_use]
    pub fn to_vec(&self) -> Vec<EncodedMessage> {
        self.iter().collect()
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

    /// Adds a message at the end. Tells if the bytes of earlier messages have moved: who holds slices of them keeps the old
    /// buffers alive.
    pub fn push(&mut self, message: EncodedMessage) -> Option<Joined> {
        self.tail.push(message);
        if self.tail.len() < RUN + LOOSE {
            return None;
        }
        let run = EncodedRun::new(&self.tail[..RUN]);
        let before = self.tail.drain(..RUN).map(|message| message.bytes);
        let now = run.iter().map(|message| message.bytes);
        let moved = before
            .zip(now)
            .filter(|(before, now)| before.as_ptr() != now.as_ptr());
        let joined = Joined(moved.collect());
        self.runs.push(Arc::new(run));
        Some(joined)
    }

    /// Keeps only the first `length` messages.
    pub fn truncate(&mut self, length: usize) {
        let (whole, rest) = (length / RUN, length % RUN);
        if whole >= self.runs.len() {
            self.tail.truncate(length - self.runs.len() * RUN);
            return;
        }
        self.tail = self.runs[whole].iter().take(rest).collect();
        self.runs.truncate(whole);
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Extend<EncodedMessage> for EncodedMessages {
    fn extend<I: IntoIterator<Item = EncodedMessage>>(&mut self, messages: I) {
        messages
            .into_iter()
            .for_each(|message| drop(self.push(message)));
    }
}

impl FromIterator<EncodedMessage> for EncodedMessages {
    fn from_iter<I: IntoIterator<Item = EncodedMessage>>(messages: I) -> Self {
        messages.into_iter().collect::<Vec<_>>().into()
    }
}

/// A list that is there already is taken as it is: a conversation that is rewritten for each request would be copied
/// each time, and what is kept about its messages is found by the place of their bytes.
impl From<Vec<EncodedMessage>> for EncodedMessages {
    fn from(messages: Vec<EncodedMessage>) -> Self {
        Self {
            runs: Vec::new(),
            tail: messages,
        }
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

    /// A conversation that grew message by message.
    fn grown(count: usize) -> EncodedMessages {
        let mut whole = EncodedMessages::new();
        whole.extend((0..count).map(numbered));
        whole
    }

    fn numbered(number: usize) -> EncodedMessage {
        // Every seventh is too large to be joined with others.
        let size = if number % 7 == 3 { SMALL_MESSAGE } else { 5 };
        let text = format!("{number} {}", "x".repeat(size));
        EncodedMessage::new(Role::User, &[ContentBlock::text(text)]).unwrap()
    }

    #[test]
    fn a_conversation_is_its_messages_however_it_was_made_and_cut() {
        let plain: Vec<EncodedMessage> = (0..500).map(numbered).collect();
        let whole = grown(500);
        assert_eq!(whole.to_vec(), plain);
        assert!(whole.runs().len() > 5 && whole.tail().len() >= LOOSE);
        for length in [0, 1, 63, 64, 65, 128, 200, 447, 448, 499, 500] {
            let mut cut = whole.clone();
            cut.truncate(length);
            assert_eq!((cut.len(), cut.is_empty()), (length, length == 0));
            assert_eq!(cut.to_vec(), plain[..length]);
            assert_eq!(cut.last().as_ref(), plain[..length].last());
            cut.extend(plain[length..].iter().cloned());
            assert_eq!(cut, whole);
            assert_eq!(
                (cut.get(499).as_ref(), cut.get(500)),
                (plain.get(499), None)
            );
            let number = length.min(499);
            assert_eq!(cut.get(number).as_ref(), plain.get(number));
        }
    }

    #[test]
    fn the_parts_of_a_run_are_its_messages_with_commas() {
        let whole = grown(500);
        for run in whole.runs() {
            let mut wanted = Vec::new();
            for message in run.iter() {
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
    fn slices_of_joined_messages_follow_them_and_others_stay() {
        let plain: Vec<EncodedMessage> = (0..RUN + LOOSE).map(numbered).collect();
        let mut whole = EncodedMessages::new();
        let mut joined = plain.iter().filter_map(|it| whole.push(it.clone()));
        let joined = joined.next().unwrap();
        for (number, message) in plain.iter().enumerate() {
            let slice = message.bytes.slice(3..9);
            let follows = number < RUN && message.bytes.len() <= SMALL_MESSAGE;
            let now = joined.follow(&slice);
            assert_eq!(now.is_some(), follows, "{number}");
            if let Some(now) = now {
                assert_eq!(now, slice);
                let place = whole.get(number).unwrap().bytes.slice(3..9);
                assert_eq!(now.as_ptr(), place.as_ptr());
            }
        }
    }

    #[test]
    fn a_list_that_is_there_already_keeps_its_buffers() {
        let plain: Vec<EncodedMessage> = (0..500).map(numbered).collect();
        let mut whole: EncodedMessages = plain.iter().cloned().collect();
        assert_eq!(whole, grown(500));
        for (one, other) in whole.iter().zip(&plain) {
            assert_eq!(one.bytes.as_ptr(), other.bytes.as_ptr());
        }
        whole.extend((500..700).map(numbered));
        assert_eq!(whole, grown(700));
    }

    #[test]
    fn copies_share_what_was_there_before() {
        let before = grown(500);
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
