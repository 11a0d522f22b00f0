//! One round of the conversation: what the model said, and what came in before it spoke again.

use super::piece::{CallId, Piece, PieceKind, same_model};
use lathe_protocol::ids::ToolUseId;
use std::collections::HashSet;

impl super::History {
    /// Parts of the conversation that a model may not be able to have. Told once after each change of the model; nothing
    /// otherwise.
    pub fn newly_left_out(&mut self) -> LeftOut {
        let mut left_out = LeftOut::default();
        if !std::mem::take(&mut self.switched) {
            return left_out;
        }
        for piece in self.groups.iter().flat_map(|group| &group.assistant) {
            match &piece.kind {
                PieceKind::Thinking { model, .. } if !same_model(model, &self.model) => {
                    left_out.reasoning += 1;
                }
                PieceKind::ServerCall { .. } => left_out.server_calls += 1,
                _ => {}
            }
        }
        let is_document = |piece: &&Piece| {
            piece.media > 0 && memchr::memmem::find(&piece.raw, br#""type":"document""#).is_some()
        };
        let heard = self.groups.iter().flat_map(|group| &group.user);
        left_out.documents = heard.filter(is_document).count();
        left_out
    }
}

/// Parts of the conversation that not every model can have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Pieces of reasoning that another model wrote: only that one can read them.
    pub reasoning: usize,
    /// Calls of tools that a provider ran on its side.
    pub server_calls: usize,
    /// Messages and results with documents.
    pub documents: usize,
}

/// A message of the model and everything that follows it until the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub(super) assistant: Vec<Piece>,
    pub(super) user: Vec<Piece>,
    /// Where the API's ids of the messages merged here begin in `History::group_ids`.
    pub(super) first_id: u32,
    /// Where the model's words of this group stand in `rendered`; `None` if none are shown, so that
    /// what came in after them belongs to the message before.
    pub(super) first_message: Option<u32>,
    /// Whether the model's words stand in `rendered` as they are now, so that only what came in after
    /// them has to be written anew.
    pub(super) words_current: bool,
}

/// A block of what follows the model's words.
pub(super) enum UserSlot {
    Piece(usize),
    StandIn(Piece),
}

impl Group {
    /// With room for what most groups hold: one call and its result. A session has thousands of groups.
    pub(super) fn of_one() -> Self {
        Self {
            assistant: Vec::with_capacity(1),
            user: Vec::with_capacity(1),
            ..Self::default()
        }
    }

    /// Gives back the room that it won't need any more.
    pub(super) fn close(&mut self) {
        self.assistant.shrink_to_fit();
        self.user.shrink_to_fit();
    }

    /// The calls and their tools.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&CallId, &str)> {
        self.assistant.iter().filter_map(|piece| match &piece.kind {
            PieceKind::Call { id, name } => Some((id, name.as_str())),
            _ => None,
        })
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls().next().is_some()
    }

    pub(super) fn result(&self, wire: &str) -> Option<&Piece> {
        self.result_index(wire).map(|index| &self.user[index])
    }

    pub(super) fn result_index(&self, wire: &str) -> Option<usize> {
        self.user.iter().position(
            |piece| matches!(&piece.kind, PieceKind::Result { id, .. } if *id.wire == *wire),
        )
    }

    pub(super) fn has_result(&self, wire: &str) -> bool {
        self.result_index(wire).is_some()
    }

    /// The first call with this id that waits for a result.
    pub(super) fn open_call(&self, id: &ToolUseId) -> Option<CallId> {
        self.calls()
            .find(|(call, _)| call.is(id) && !self.has_result(&call.wire))
            .map(|(call, _)| call.clone())
    }

    /// Which pieces of the model's words a request shows. `open_end`: the request lets the model continue
    /// from exactly here, so a server call may wait for its answer.
    pub(super) fn spoken(&self, model: &str, open_end: bool) -> Vec<usize> {
        let answered = |id: &str, from: usize| {
            self.assistant[from..].iter().any(
                |piece| matches!(&piece.kind, PieceKind::ServerResult { id: answered } if answered == id),
            )
        };
        let open_end = open_end && self.user.is_empty();
        let mut asked: HashSet<&str> = HashSet::new();
        let mut told: HashSet<&str> = HashSet::new();
        let mut shown: Vec<usize> = Vec::new();
        for (index, piece) in self.assistant.iter().enumerate() {
            let show = match &piece.kind {
                PieceKind::Thinking { model: signer, .. } => same_model(signer, model),
                PieceKind::ServerCall { id } => {
                    (open_end || answered(id, index)) && asked.insert(id)
                }
                PieceKind::ServerResult { id } => asked.contains(id.as_str()) && told.insert(id),
                _ => true,
            };
            if show {
                shown.push(index);
            }
        }
        // Reasoning that leads to nothing was cut off; the API takes none at the end.
        while shown
            .last()
            .is_some_and(|index| self.assistant[*index].leads_on())
        {
            shown.pop();
        }
        shown
    }

    /// The user message after it: results in the order of the calls, what is attached to them,
    /// then the rest as it came in.
    pub(super) fn user_message(&self) -> Vec<UserSlot> {
        let mut slots = Vec::with_capacity(self.user.len());
        for (id, _) in self.calls() {
            match self.result_index(&id.wire) {
                Some(index) => slots.push(UserSlot::Piece(index)),
                None => slots.extend(Piece::unanswered(id).map(UserSlot::StandIn)),
            }
        }
        let of_kind = |attached: bool| {
            self.user
                .iter()
                .enumerate()
                .filter_map(move |(index, piece)| match piece.kind {
                    PieceKind::Result { .. } => None,
                    PieceKind::Attached => attached.then_some(UserSlot::Piece(index)),
                    _ => (!attached).then_some(UserSlot::Piece(index)),
                })
        };
        slots.extend(of_kind(true));
        slots.extend(of_kind(false));
        slots
    }
}
