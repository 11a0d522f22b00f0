//! The messages sent to the model, derived from the transcript.
//!
//! [`History`] is a fold over records: each record is pushed once, live as it is appended and on
//! resume in the order of the chain, by the same code, so that both give the same bytes. Whatever
//! the records are (cut off, interrupted, damaged, from another program),
//! [`History::request_messages`] gives a sequence that the API accepts:
//!
//! - it starts with a user message, alternates, and ends with a user message; none is empty;
//! - every call is followed by its result, first thing in the next user message and in the order of
//!   the calls (a stand-in where there is none); a result without a call is left out;
//! - ids of calls are unique and legal; a repeated id is renamed together with its result;
//! - reasoning goes only to the model that signed it, never stands last and never alone;
//! - what only the user sees (virtual records, progress, API errors) is left out.
//!
//! How: a *group* is what the model said and everything that came in before it spoke again. Only
//! the last group changes, so earlier messages keep their bytes (the very same buffers) from one
//! request to the next, which is what the provider's prompt cache needs and what makes the cost of a
//! request that of the turn. Blocks are serialised when they arrive (the `piece` module); a message's buffer
//! is its pieces joined, and the pieces then become slices of that buffer; when small messages are joined in turn
//! (`EncodedMessages`), the pieces follow. So content is held once.
//!
//! An `attachment` record reaches the model by the `content` of its attachment (text or a list of
//! blocks); with a `toolUseId` it is placed right after the results, otherwise where it came in.

mod group;
mod media;
mod piece;
mod view;

use bytes::Bytes;
use group::{Group, UserSlot};
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::encoded::{EncodedMessage, EncodedMessages, Joined};
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_protocol::message::{Message, Role};
use lathe_protocol::record::{Fact, MessageRecord, Record, RecordKind, RecordMessage};
use piece::{CallId, Piece, PieceKind, legal_name};
use serde::Deserialize as _;
use std::collections::HashSet;
use std::sync::Arc;

pub use group::LeftOut;
pub use media::media_keys;
pub use view::{ResultView, UnansweredCall};

/// The user message between two turns of the model if there is no other.
pub const CONTINUE_TEXT: &str = "Continue.";
/// The placeholder for a lost beginning.
const LOST_BEGINNING: &str = "(The beginning of this conversation is not available.)";

/// How a request may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// With a user message; [`CONTINUE_TEXT`] is added where the conversation has none.
    User,
    /// With the model's own words, to be continued by it (a paused turn). Falls back to
    /// [`Tail::User`] when the model didn't speak last.
    Assistant,
}

/// The state before a record, so that the record can be undone.
#[derive(Debug, Clone, Copy)]
struct Mark {
    record: RecordId,
    groups: u32,
    ids: u32,
    assistant: u32,
    user: u32,
}

/// The API's id of a message, by its digest: a session holds thousands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct MessageId([u8; 16]);

impl MessageId {
    fn of(id: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, id.as_bytes());
        let mut half = [0; 16];
        half.copy_from_slice(&digest.as_ref()[..16]);
        Self(half)
    }
}

/// A count of records, groups, pieces or bytes. There is one for each record, so they are small.
fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The conversation as the model sees it. See the module's text.
#[derive(Debug, Clone)]
pub struct History {
    model: String,
    groups: Vec<Group>,
    rendered: EncodedMessages,
    /// The first group whose messages are out of date.
    dirty: Option<usize>,
    /// The state after each record.
    marks: Vec<Mark>,
    seen: HashSet<RecordId>,
    call_ids: HashSet<Arc<str>>,
    /// The API's ids of all messages that ever were here.
    message_ids: HashSet<MessageId>,
    /// The ids of the messages of each group, in the order of the groups.
    group_ids: Vec<MessageId>,
    /// Names of tools and models, each kept once however often it comes.
    names: Vec<Arc<String>>,
    /// Images and documents that the API refused, by digests of their content.
    dropped_media: HashSet<String>,
    /// Results and messages that outlive a compaction, with their words once they are no longer here.
    pinned: Vec<(ToolUseId, Option<String>)>,
    text_bytes: usize,
    media: usize,
    /// Whether the model is another one since somebody asked what it can't read.
    switched: bool,
}

/// The API messages of a list of records, in the order of the chain.
#[must_use]
pub fn normalize<'a>(records: impl IntoIterator<Item = &'a Record>, model: &str) -> Vec<Message> {
    let mut conversation = History::new(model);
    for record in records {
        conversation.push(record);
    }
    conversation.messages()
}

impl History {
    /// An empty conversation with a model.
    #[must_use]
    pub fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            groups: Vec::new(),
            rendered: EncodedMessages::new(),
            dirty: None,
            marks: Vec::new(),
            seen: HashSet::new(),
            call_ids: HashSet::new(),
            message_ids: HashSet::new(),
            group_ids: Vec::new(),
            names: Vec::new(),
            dropped_media: HashSet::new(),
            pinned: Vec::new(),
            text_bytes: 0,
            media: 0,
            switched: true,
        }
    }

    /// Whether a message of the model's with this id is or was a part of this conversation. The records
    /// of a message are known by it, so another message needs another one.
    #[must_use]
    pub fn knows_message(&self, id: &str) -> bool {
        self.message_ids.contains(&MessageId::of(id))
    }

    /// Whether a record with this id is a part of this conversation.
    #[must_use]
    pub fn knows_record(&self, id: RecordId) -> bool {
        self.seen.contains(&id)
    }

    /// Takes in a record. One that was taken in before (by its id) changes nothing.
    pub fn push(&mut self, record: &Record) {
        match record {
            Record::Message(record) => self.push_message(record),
            Record::Fact(Fact::Replacement {
                tool_use_id,
                replacement,
                ..
            }) => {
                self.replace_result(tool_use_id, replacement);
            }
            Record::Fact(Fact::MediaDropped { media, .. }) => self.drop_media(media),
            Record::Fact(Fact::Pinned {
                tool_use_id,
                pinned,
                ..
            }) => self.pin(tool_use_id, *pinned),
            Record::Fact(Fact::Rewound { to, .. }) => {
                self.rewind_to(*to);
            }
            Record::Fact(_) | Record::Other(_) => {}
        }
    }

    fn push_message(&mut self, record: &MessageRecord) {
        if record.is_compact_boundary() {
            self.keep_pinned();
            self.clear();
        }
        if !self.seen.insert(record.uuid) {
            return;
        }
        let hidden = record.is_virtual || record.is_api_error_message;
        match record.kind {
            RecordKind::User if !hidden => self.push_user(record),
            RecordKind::Assistant if !hidden => self.push_assistant(record),
            RecordKind::Attachment if !hidden => self.push_attachment(record),
            _ => {}
        }
        let last = self.groups.last();
        self.marks.push(Mark {
            record: record.uuid,
            groups: small(self.groups.len()),
            ids: small(self.group_ids.len()),
            assistant: last.map_or(0, |group| small(group.assistant.len())),
            user: last.map_or(0, |group| small(group.user.len())),
        });
    }

    fn push_assistant(&mut self, record: &MessageRecord) {
        let Some(message) = &record.message else {
            return;
        };
        let (id, model) = match message {
            RecordMessage::Assistant(message) => (message.id.clone(), message.model.as_str()),
            RecordMessage::Plain(_) => (record.uuid.to_string(), ""),
        };
        let blocks = message.blocks();
        self.open_group(&id);
        let model = self.name(model);
        for block in blocks {
            let piece = match block {
                ContentBlock::ToolUse(call) => {
                    let id = self.free_call_id(call.id.as_str());
                    let name = self.name(&legal_name(&call.name));
                    Piece::call(call, id, name)
                }
                other => Piece::of_assistant(other, &model),
            };
            let Some(piece) = piece else { continue };
            if let PieceKind::Call { id, .. } = &piece.kind {
                self.call_ids.insert(Arc::clone(&id.wire));
            }
            self.count(&piece);
            if let Some(group) = self.groups.last_mut() {
                group.assistant.push(piece);
                group.words_current = false;
            }
        }
        self.touch_last();
    }

    /// Makes the last group the one that a message of the model's belongs to.
    fn open_group(&mut self, id: &str) {
        let id = MessageId::of(id);
        let joins = self.groups.last().is_some_and(|group| {
            let ids = self.ids_of_last(group);
            // The next block of the same message (results of its first calls may lie between), or
            // words that follow words with nothing in between.
            ids.contains(&id) || (!ids.is_empty() && group.user.is_empty() && !group.has_calls())
        });
        if !joins {
            // Right as long as the groups before are rendered; if they aren't, rendering starts there.
            let first_message = Some(small(self.rendered.len()));
            if let Some(closed) = self.groups.last_mut() {
                closed.close();
            }
            self.groups.push(Group {
                first_message,
                first_id: small(self.group_ids.len()),
                ..Group::of_one()
            });
        }
        self.message_ids.insert(id);
        if let Some(group) = self.groups.last()
            && self.ids_of_last(group).last() != Some(&id)
        {
            self.group_ids.push(id);
        }
    }

    /// The ids of the messages of the last group.
    fn ids_of_last(&self, group: &Group) -> &[MessageId] {
        let ids = self.group_ids.get(group.first_id as usize..);
        ids.unwrap_or_default()
    }

    /// A name that comes again and again, kept once.
    fn name(&mut self, name: &str) -> Arc<String> {
        // Tools and models are few.
        if let Some(known) = self.names.iter().find(|known| known.as_str() == name) {
            return Arc::clone(known);
        }
        let kept = Arc::new(name.to_owned());
        self.names.push(Arc::clone(&kept));
        kept
    }

    fn free_call_id(&self, id: &str) -> CallId {
        let legal = legal_name(id);
        let mut free = legal.clone();
        let mut number = 2;
        while self.call_ids.contains(free.as_str()) {
            free = format!("{legal}_{number}");
            number += 1;
        }
        CallId::new(id, free)
    }

    fn push_user(&mut self, record: &MessageRecord) {
        let Some(message) = &record.message else {
            return;
        };
        for mut block in message.blocks() {
            self.leave_out_refused(&mut block);
            match block {
                ContentBlock::ToolResult(result) => self.push_result(result),
                other => self.add_to_user(Piece::of_user(other, false)),
            }
        }
    }

    fn push_result(&mut self, result: lathe_protocol::content::ToolResultBlock) {
        let Some(id) = self
            .groups
            .last()
            .and_then(|group| group.open_call(&result.tool_use_id))
        else {
            return;
        };
        let (piece, moved) = Piece::result(result, id);
        self.add_to_user(piece);
        for piece in moved {
            self.add_to_user(Some(piece));
        }
    }

    fn push_attachment(&mut self, record: &MessageRecord) {
        let Some(attachment) = &record.attachment else {
            return;
        };
        let Some(content) = attachment
            .get("content")
            .and_then(|it| Content::deserialize(it).ok())
        else {
            return;
        };
        let attached = attachment
            .get("toolUseId")
            .is_some_and(serde_json::Value::is_string);
        for mut block in content.into_blocks() {
            self.leave_out_refused(&mut block);
            self.add_to_user(Piece::of_user(block, attached));
        }
    }

    fn add_to_user(&mut self, piece: Option<Piece>) {
        let Some(piece) = piece else { return };
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        self.count(&piece);
        if let Some(group) = self.groups.last_mut() {
            group.user.push(piece);
        }
        self.touch_last();
    }

    /// Replaces the words of the newest result with this id, or of the message whose record has it.
    fn replace_result(&mut self, id: &ToolUseId, replacement: &str) {
        for (index, group) in self.groups.iter_mut().enumerate().rev() {
            let found = group.user.iter_mut().find(
                |piece| matches!(&piece.kind, PieceKind::Result { id: known, .. } if known.is(id)),
            );
            if let Some(piece) = found {
                if let Some(replaced) = piece.replaced(replacement) {
                    let (new, old) = (replaced.text_bytes, piece.text_bytes);
                    self.text_bytes = self.text_bytes + new as usize - old as usize;
                    self.media = self.media + replaced.media as usize - piece.media as usize;
                    *piece = replaced;
                    self.touch(index);
                }
                return;
            }
        }
        self.replace_text(id, replacement);
    }

    fn replace_text(&mut self, id: &ToolUseId, replacement: &str) {
        let Some(place) = self.text_place(id) else {
            return;
        };
        let Some(group) = self.groups.get_mut(place.group) else {
            return;
        };
        let pieces = if place.is_said {
            group.words_current = false;
            &mut group.assistant
        } else {
            &mut group.user
        };
        if let Some(piece) = pieces.get_mut(place.at)
            && let Some(replaced) = piece.replaced(replacement)
        {
            *piece = replaced;
            self.recount();
            self.touch(place.group);
        }
    }

    fn pin(&mut self, id: &ToolUseId, pinned: bool) {
        self.pinned.retain(|(known, _)| known != id);
        if pinned {
            self.pinned.push((id.clone(), None));
        }
    }

    /// Keeps the words of pinned results and messages that are about to go.
    fn keep_pinned(&mut self) {
        let mut pinned = std::mem::take(&mut self.pinned);
        for (id, text) in &mut pinned {
            *text = self.text_of(id).or(text.take());
        }
        self.pinned = pinned;
    }

    fn leave_out_refused(&self, block: &mut ContentBlock) {
        if !self.dropped_media.is_empty() {
            media::leave_out(block, &self.dropped_media);
        }
    }

    /// Puts a word in the place of images and documents that the API refused, now and from now on.
    fn drop_media(&mut self, refused: &[String]) {
        self.dropped_media.extend(refused.iter().cloned());
        let mut first = None;
        for (index, group) in self.groups.iter_mut().enumerate() {
            for piece in group.user.iter_mut().filter(|piece| piece.media > 0) {
                if let Some(without) = piece.without_media(&self.dropped_media) {
                    *piece = without;
                    first.get_or_insert(index);
                }
            }
        }
        if let Some(index) = first {
            self.recount();
            self.touch(index);
        }
    }

    /// Takes everything after a record back; `None` takes back everything. Gives `false`, and
    /// changes nothing, when the record isn't here (it lies before a compaction: load it again).
    pub fn rewind_to(&mut self, record: Option<RecordId>) -> bool {
        let Some(record) = record else {
            self.clear();
            return true;
        };
        let Some(index) = self.marks.iter().rposition(|mark| mark.record == record) else {
            return false;
        };
        let mark = self.marks[index];
        for gone in self.marks.drain(index + 1..) {
            self.seen.remove(&gone.record);
        }
        self.groups.truncate(mark.groups as usize);
        self.group_ids.truncate(mark.ids as usize);
        if let Some(group) = self.groups.last_mut() {
            group.words_current &= group.assistant.len() == mark.assistant as usize;
            group.assistant.truncate(mark.assistant as usize);
            group.user.truncate(mark.user as usize);
        }
        self.recount();
        self.touch_last();
        if self.groups.is_empty() {
            self.rendered.clear();
        }
        true
    }

    /// Starts afresh, as after a compaction.
    fn clear(&mut self) {
        self.groups.clear();
        self.group_ids.clear();
        self.rendered.clear();
        self.marks.clear();
        self.seen.clear();
        self.dropped_media.clear();
        self.dirty = None;
        self.recount();
    }

    /// Continues with another model: reasoning that it didn't sign is left out from now on.
    pub fn set_model(&mut self, model: &str) {
        if self.model != model {
            model.clone_into(&mut self.model);
            self.switched = true;
            self.groups
                .iter_mut()
                .for_each(|group| group.words_current = false);
            self.touch(0);
        }
    }

    /// The model whose reasoning is kept.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Whether nothing has been said that the model could see.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups
            .iter()
            .all(|group| group.assistant.is_empty() && group.user.is_empty())
    }

    /// The messages of the next request, always acceptable to the API. Messages that were sent before
    /// are the same buffers as before.
    pub fn request_messages(&mut self) -> EncodedMessages {
        self.request_messages_with(Tail::User)
    }

    /// As [`History::request_messages`], choosing how the request may end.
    pub fn request_messages_with(&mut self, tail: Tail) -> EncodedMessages {
        self.render(tail);
        let mut messages = self.rendered.clone();
        let spoke_last = messages
            .last()
            .is_some_and(|last| last.role == Role::Assistant);
        if messages.is_empty() || (spoke_last && tail == Tail::User) {
            messages.push(single_text(CONTINUE_TEXT));
        }
        messages
    }

    /// Whether a request now would need [`CONTINUE_TEXT`] at its end. An engine that means to continue
    /// appends a record that says so instead: that way it is part of the history.
    pub fn lacks_user_message(&mut self) -> bool {
        self.render(Tail::User);
        self.rendered
            .last()
            .is_none_or(|last| last.role == Role::Assistant)
    }

    /// The messages as values, for views, compaction and exports.
    pub fn messages(&mut self) -> Vec<Message> {
        self.request_messages()
            .iter()
            .filter_map(|message| serde_json::from_slice(&message.bytes).ok())
            .collect()
    }

    fn count(&mut self, piece: &Piece) {
        self.media += piece.media as usize;
        self.text_bytes += piece.text_bytes as usize;
    }

    fn recount(&mut self) {
        self.text_bytes = 0;
        self.media = 0;
        self.call_ids.clear();
        for piece in self
            .groups
            .iter()
            .flat_map(|group| group.assistant.iter().chain(&group.user))
        {
            self.media += piece.media as usize;
            self.text_bytes += piece.text_bytes as usize;
            if let PieceKind::Call { id, .. } = &piece.kind {
                self.call_ids.insert(Arc::clone(&id.wire));
            }
        }
    }

    fn touch(&mut self, group: usize) {
        self.dirty = Some(self.dirty.map_or(group, |dirty| dirty.min(group)));
    }

    fn touch_last(&mut self) {
        if let Some(last) = self.groups.len().checked_sub(1) {
            self.touch(last);
        }
    }

    /// Brings `rendered` up to date, from the first group that changed.
    fn render(&mut self, tail: Tail) {
        let Some(last) = self.groups.len().checked_sub(1) else {
            return;
        };
        if tail == Tail::Assistant {
            // A paused call of a server tool stays only in a request that continues it.
            self.groups[last].words_current = false;
            self.touch(last);
        }
        let Some(dirty) = self.dirty.take() else {
            return;
        };
        let mut from = dirty.min(last);
        // What follows words that aren't shown belongs to the user message before them.
        while from > 0
            && (self.groups[from].first_message.is_none()
                || self.groups[from].spoken(&self.model, false).is_empty())
        {
            from -= 1;
        }
        // Before the first group stands at most a stand-in, which its words decide about.
        let first = self.groups[from].first_message.filter(|_| from > 0);
        let kept_words = self.groups[from]
            .first_message
            .filter(|_| self.groups[from].words_current);
        let kept = kept_words.map_or(first.unwrap_or(0), |words| words + 1);
        self.rendered.truncate(kept as usize);
        let mut run: Vec<Slot> = Vec::new();
        for index in from..=last {
            let open_end = tail == Tail::Assistant && index == last;
            let keeps_words = index == from && kept_words.is_some();
            let spoken = if keeps_words {
                Vec::new()
            } else {
                self.groups[index].first_message = None;
                self.groups[index].words_current = !open_end;
                self.groups[index].spoken(&self.model, open_end)
            };
            if !spoken.is_empty() {
                self.compose(Role::User, &mut run);
                if self.rendered.is_empty() {
                    self.rendered.push(single_text(LOST_BEGINNING));
                }
                // What came before the words stays when the words change.
                self.groups[index].first_message = Some(small(self.rendered.len()));
                let mut slots = spoken
                    .into_iter()
                    .map(|piece| Slot::Assistant(index, piece))
                    .collect();
                self.compose(Role::Assistant, &mut slots);
            }
            run.extend(
                self.groups[index]
                    .user_message()
                    .into_iter()
                    .map(|slot| match slot {
                        UserSlot::Piece(piece) => Slot::User(index, piece),
                        UserSlot::StandIn(piece) => Slot::StandIn(piece),
                    }),
            );
        }
        self.compose(Role::User, &mut run);
        if tail == Tail::Assistant {
            self.touch(last);
        }
    }

    /// Joins pieces into a message and lets them share its buffer.
    fn compose(&mut self, role: Role, slots: &mut Vec<Slot>) {
        let slots = std::mem::take(slots);
        let Some(markable) = slots
            .last()
            .and_then(|slot| self.piece(slot))
            .map(Piece::markable)
        else {
            return;
        };
        let opening: &[u8] = match role {
            Role::User => br#"{"role":"user","content":["#,
            Role::Assistant => br#"{"role":"assistant","content":["#,
        };
        // Exactly as large as needed: it stays for the rest of the session.
        let pieces: usize = slots
            .iter()
            .filter_map(|slot| self.piece(slot))
            .map(|piece| piece.raw.len() + 1)
            .sum();
        let mut buffer = Vec::with_capacity(opening.len() + pieces + 1);
        buffer.extend_from_slice(opening);
        let mut places = Vec::with_capacity(slots.len());
        for (number, slot) in slots.iter().enumerate() {
            if number > 0 {
                buffer.extend_from_slice(b",");
            }
            let start = buffer.len();
            if let Some(piece) = self.piece(slot) {
                buffer.extend_from_slice(&piece.raw);
            }
            places.push(start..buffer.len());
        }
        buffer.extend_from_slice(b"]}");
        let bytes = Bytes::from(buffer);
        for (slot, place) in slots.iter().zip(places) {
            let piece = match slot {
                Slot::Assistant(group, piece) => self.groups[*group].assistant.get_mut(*piece),
                Slot::User(group, piece) => self.groups[*group].user.get_mut(*piece),
                Slot::StandIn(_) => None,
            };
            if let Some(piece) = piece {
                piece.raw = bytes.slice(place);
            }
        }
        let joined = self.rendered.push(EncodedMessage {
            role,
            bytes,
            markable,
        });
        if let Some(joined) = joined {
            self.follow(&joined);
        }
    }

    /// Lets the pieces of messages that were joined share the buffer that stays.
    fn follow(&mut self, joined: &Joined) {
        let end = self.rendered.len() - self.rendered.tail().len();
        let begin = end - self.rendered.runs().last().map_or(0, |run| run.len());
        for group in self.groups.iter_mut().rev() {
            for piece in group.assistant.iter_mut().chain(&mut group.user) {
                if let Some(raw) = joined.follow(&piece.raw) {
                    piece.raw = raw;
                }
            }
            // What came in after the words of this group may stand in the next message.
            let first = group.first_message.map(|first| first as usize);
            if first.is_some_and(|first| first + 1 < begin) {
                break;
            }
        }
    }

    fn piece<'a>(&'a self, slot: &'a Slot) -> Option<&'a Piece> {
        match slot {
            Slot::Assistant(group, piece) => self.groups[*group].assistant.get(*piece),
            Slot::User(group, piece) => self.groups[*group].user.get(*piece),
            Slot::StandIn(piece) => Some(piece),
        }
    }
}

/// Where a block of a message comes from.
enum Slot {
    Assistant(usize, usize),
    User(usize, usize),
    StandIn(Piece),
}

/// A user message of a few fixed words.
fn single_text(text: &'static str) -> EncodedMessage {
    // Fixed words without a character that JSON would escape.
    let bytes = Bytes::from(format!(
        r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}"#
    ));
    EncodedMessage {
        role: Role::User,
        bytes,
        markable: true,
    }
}
