//! Events in which calls in words are real ones.

use super::Mode;
use super::parse::{Found, Offered, Splitter, may_be_call};
use crate::wire::emit::{Emitter, new_call_id};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::message::StopReason;
use lathe_protocol::stream::{Delta, StreamEvent, StreamPiece};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rewrites the events of one response.
pub(crate) struct Reader {
    offered: Arc<Offered>,
    out: VecDeque<StreamPiece>,
    state: State,
}

enum State {
    /// Every word is looked at.
    Splitting(Box<Splitting>),
    /// The beginning may be a call: events are held back.
    Undecided {
        held: Vec<StreamPiece>,
        text: String,
    },
    /// Everything is passed on as it is.
    Passing,
}

struct Splitting {
    emitter: Emitter,
    splitter: Splitter,
}

impl Reader {
    pub(crate) fn new(offered: Arc<Offered>, mode: Mode) -> Self {
        let state = if offered.names.is_empty() {
            State::Passing
        } else if mode == Mode::Prompted {
            State::Splitting(Box::new(Splitting {
                emitter: Emitter::new(""),
                splitter: Splitter::default(),
            }))
        } else {
            State::Undecided {
                held: Vec::new(),
                text: String::new(),
            }
        };
        Self {
            offered,
            out: VecDeque::new(),
            state,
        }
    }

    pub(crate) fn pop(&mut self) -> Option<StreamPiece> {
        self.out.pop_front()
    }

    pub(crate) fn take(&mut self, piece: StreamPiece) {
        match &mut self.state {
            State::Passing => self.out.push_back(piece),
            State::Splitting(splitting) => {
                splitting.take(piece, &self.offered);
                while let Some(piece) = splitting.emitter.pop() {
                    self.out.push_back(piece);
                }
            }
            State::Undecided { held, text } => {
                let mut decided = None;
                match &piece.event {
                    StreamEvent::ContentBlockDelta {
                        delta: Delta::TextDelta { text: more },
                        ..
                    } => {
                        text.push_str(more);
                        decided = may_be_call(text);
                    }
                    StreamEvent::ContentBlockStart {
                        content_block: ContentBlock::ToolUse(_),
                        ..
                    } => decided = Some(false),
                    // Reasoning is shown while it comes.
                    _ if text.is_empty() && !is_text_start(&piece) => {
                        self.out.push_back(piece);
                        return;
                    }
                    StreamEvent::MessageDelta { .. } => {
                        held.push(piece);
                        self.decide();
                        return;
                    }
                    _ => {}
                }
                held.push(piece);
                if decided == Some(false) {
                    self.out.extend(std::mem::take(held));
                    self.state = State::Passing;
                }
            }
        }
    }

    /// The answer is whole: either it is nothing but calls, or it is what it is.
    fn decide(&mut self) {
        let State::Undecided { held, text } = &mut self.state else {
            return;
        };
        let held = std::mem::take(held);
        let mut splitter = Splitter::default();
        let mut found = splitter.push(text, &self.offered);
        found.extend(splitter.finish(&self.offered));
        let only_calls = !found.is_empty()
            && found.iter().all(|part| match part {
                Found::Calls(_) => true,
                Found::Words(words) => words.trim().is_empty(),
            });
        self.state = State::Passing;
        if !only_calls {
            self.out.extend(held);
            return;
        }
        let first = held.iter().find_map(|piece| match &piece.event {
            StreamEvent::ContentBlockStart { index, .. } => Some(*index),
            _ => None,
        });
        let mut emitter = Emitter::new("");
        emitter.go_on(first.unwrap_or_default());
        for part in found {
            if let Found::Calls(calls) = part {
                for call in calls {
                    emitter.call(&new_call_id(), &call.name);
                    emitter.arguments(&call.arguments);
                    emitter.close();
                }
            }
        }
        while let Some(piece) = emitter.pop() {
            self.out.push_back(piece);
        }
        for piece in held {
            if let StreamEvent::MessageDelta {
                delta,
                usage,
                extra,
            } = piece.event
            {
                let mut delta = delta;
                delta.stop_reason = Some(StopReason::ToolUse);
                let event = StreamEvent::MessageDelta {
                    delta,
                    usage,
                    extra,
                };
                let raw = serde_json::to_vec(&event).unwrap_or_default();
                self.out.push_back(StreamPiece::new(event, raw.into()));
            }
        }
    }

    pub(crate) fn finish(&mut self) {
        if let State::Undecided { held, .. } = &mut self.state {
            self.out.extend(std::mem::take(held));
            self.state = State::Passing;
        }
    }
}

fn is_text_start(piece: &StreamPiece) -> bool {
    matches!(
        &piece.event,
        StreamEvent::ContentBlockStart {
            content_block: ContentBlock::Text(_),
            ..
        } | StreamEvent::MessageDelta { .. }
    )
}

impl Splitting {
    fn take(&mut self, piece: StreamPiece, offered: &Offered) {
        match piece.event {
            StreamEvent::MessageStart { .. } => {
                self.emitter.go_on(0);
                self.emitter.pass(piece);
            }
            StreamEvent::ContentBlockDelta { delta, .. } => match delta {
                Delta::TextDelta { text } => {
                    let found = self.splitter.push(&text, offered);
                    self.emit(found);
                }
                Delta::ThinkingDelta { thinking } => self.emitter.thinking(&thinking),
                Delta::SignatureDelta { signature } => self.emitter.sign(&signature),
                Delta::InputJsonDelta { partial_json } => self.emitter.arguments(&partial_json),
                _ => {}
            },
            StreamEvent::ContentBlockStart {
                content_block: ContentBlock::ToolUse(call),
                ..
            } => self.emitter.call(call.id.as_str(), &call.name),
            StreamEvent::MessageDelta { delta, usage, .. } => {
                let found = self.splitter.finish(offered);
                self.emit(found);
                let reason = if self.emitter.has_calls() {
                    StopReason::ToolUse
                } else {
                    delta.stop_reason.unwrap_or(StopReason::EndTurn)
                };
                self.emitter.end(reason, usage);
            }
            _ => {}
        }
    }

    fn emit(&mut self, found: Vec<Found>) {
        for part in found {
            match part {
                Found::Words(words) => self.emitter.text(&words),
                Found::Calls(calls) => {
                    for call in calls {
                        self.emitter.call(&new_call_id(), &call.name);
                        self.emitter.arguments(&call.arguments);
                        self.emitter.close();
                    }
                }
            }
        }
    }
}
