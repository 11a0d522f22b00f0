//! The state of a hub: the mirror of its session, its clients, and the operations that wait for an answer.

use crate::mirror::Mirror;
use crate::outbox::{Line, Outbox};
use crate::ring::{OpRing, Ring};
use lathe_process::{Console, TerminalSize};
use lathe_protocol::event::{Event, SessionState};
use lathe_protocol::ids::{RecordId, RequestId, SessionId};
use lathe_wire::frame::event_line;
use lathe_wire::{
    ClientInfo, ClientKind, Hello, HostFrame, HostInfo, Nak, NakCode, OpId, Registration, Size,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// An operation that is answered when its prompt is accepted.
pub(crate) struct Awaited {
    pub(crate) op: OpId,
    /// Whether a session that has nothing to do means that the prompt was not accepted. The end of the turn before may
    /// be told after the prompt came.
    pub(crate) may_end: bool,
}

pub(crate) struct Client {
    pub(crate) info: ClientInfo,
    pub(crate) outbox: Arc<Outbox>,
    /// The size of a terminal.
    pub(crate) size: Option<Size>,
    /// The session that another session is, whatever it says about itself.
    pub(crate) sender: Option<(SessionId, Option<String>)>,
}

pub(crate) struct State {
    pub(crate) mirror: Mirror,
    /// Which session of this process the mirror is of.
    pub(crate) generation: u64,
    /// The session that is being opened.
    pub(crate) next: Option<(u64, Mirror)>,
    /// `None` until the first client: nobody can come back for events.
    pub(crate) ring: Option<Ring>,
    pub(crate) clients: BTreeMap<u64, Client>,
    pub(crate) last_client: u64,
    pub(crate) ops: OpRing,
    /// Prompts whose operation is answered when they are accepted.
    pub(crate) awaited: HashMap<RecordId, Awaited>,
    /// Answers that came too late, until it is known who was first.
    pub(crate) late: Vec<(RequestId, OpId)>,
    /// Prompts that the session has, and must not take twice.
    pub(crate) prompts: HashSet<RecordId>,
    pub(crate) info: Option<HostInfo>,
    pub(crate) registration: Option<Arc<Registration>>,
    pub(crate) console: Option<Arc<Console>>,
    /// The terminal that typed last.
    pub(crate) typed_last: Option<u64>,
}

impl State {
    pub(crate) fn event(&mut self, event: &Event) {
        self.mirror.apply(event);
        if self.ring.is_none() {
            self.mirror.seq += 1;
        } else {
            for frame in self.mirror.frames(event) {
                self.frame(&frame);
            }
        }
        match event {
            Event::PromptAccepted { record } => {
                self.prompts.insert(record.uuid);
                if let Some(Awaited { op, .. }) = self.awaited.remove(&record.uuid) {
                    self.answered(op, &HostFrame::Ack(op));
                }
            }
            Event::StateChanged(SessionState::Running) => {
                for awaited in self.awaited.values_mut() {
                    awaited.may_end = true;
                }
            }
            Event::StateChanged(SessionState::Idle) => {
                self.refuse_awaited(
                    |awaited| std::mem::replace(&mut awaited.may_end, true),
                    "the prompt was not accepted; a hook may have stopped it",
                );
            }
            Event::PermissionResolved { request_id, .. }
            | Event::ElicitationResolved { request_id, .. } => {
                let (now, later) = std::mem::take(&mut self.late)
                    .into_iter()
                    .partition(|(question, _)| question == request_id);
                self.late = later;
                for (question, op) in now {
                    self.answer_late(&question, op);
                }
            }
            _ => {}
        }
    }

    /// Refuses the operations of prompts that will not be accepted.
    pub(crate) fn refuse_awaited(&mut self, is_over: impl Fn(&mut Awaited) -> bool, why: &str) {
        let over: Vec<(RecordId, OpId)> = self
            .awaited
            .iter_mut()
            .filter_map(|(prompt, awaited)| is_over(awaited).then_some((*prompt, awaited.op)))
            .collect();
        for (prompt, id) in over {
            self.awaited.remove(&prompt);
            self.prompts.remove(&prompt);
            let nak = Nak {
                id,
                why: why.to_owned(),
                code: NakCode::Refused,
                by: None,
                reply: None,
            };
            self.answered(id, &HostFrame::Nak(Box::new(nak)));
        }
    }

    /// Sends a frame to everyone, under the next number.
    pub(crate) fn frame(&mut self, frame: &[u8]) {
        self.mirror.seq += 1;
        let Some(ring) = &mut self.ring else {
            return;
        };
        let line: Line = event_line(self.mirror.seq, frame).into();
        ring.push(self.mirror.seq, line.clone());
        for client in self.clients.values() {
            if client.size.is_none() && client.info.kind != ClientKind::Session {
                client.outbox.push(&line);
            }
        }
    }

    pub(crate) fn send_to(&self, number: u64, answer: Line) {
        if let Some(client) = self.clients.get(&number) {
            client.outbox.answer(answer);
        }
    }

    pub(crate) fn answered(&mut self, id: OpId, answer: &HostFrame) {
        let line: Line = answer.to_line().into();
        for number in self.ops.end(id, &line) {
            self.send_to(number, line.clone());
        }
    }

    /// Answers somebody who wanted to answer a question that is closed.
    pub(crate) fn answer_late(&mut self, question: &RequestId, id: OpId) {
        let closed = self.mirror.closed(question).cloned();
        let nak = match closed {
            None => Nak {
                id,
                why: "there is no such question".to_owned(),
                code: NakCode::Unknown,
                by: None,
                reply: None,
            },
            Some(closed) => match closed.by {
                Some(by) => Nak {
                    id,
                    why: format!("{by} answered first"),
                    code: NakCode::Answered,
                    by: Some(by),
                    reply: closed.reply,
                },
                None => Nak {
                    id,
                    why: "the question was withdrawn".to_owned(),
                    code: NakCode::Withdrawn,
                    by: None,
                    reply: None,
                },
            },
        };
        self.answered(id, &HostFrame::Nak(Box::new(nak)));
    }

    /// Sends a client what it has not seen: events if they are all there, else a snapshot.
    pub(crate) fn catch_up(&mut self, number: u64, hello: &Hello) {
        let after = hello.after.as_ref();
        let missed = after
            .filter(|after| after.epoch == self.mirror.epoch)
            .and_then(|after| self.ring.as_ref()?.since(after.seq));
        let (Some(mut lines), Some(client)) = (missed, self.clients.get(&number)) else {
            self.start_over(number);
            return;
        };
        lines.push(HostFrame::Beat(self.mirror.seq).to_line().into());
        client.outbox.start_over(lines);
    }

    /// Begins again with a snapshot. Returns whether it is a terminal, which the face draws for.
    pub(crate) fn start_over(&mut self, number: u64) -> bool {
        let clients = self.clients.values().map(|it| it.info.clone()).collect();
        let Some(client) = self.clients.get(&number) else {
            return false;
        };
        if client.size.is_some() {
            client.outbox.start_over(Vec::new());
            return true;
        }
        if client.info.kind != ClientKind::Session {
            let snapshot = self.mirror.snapshot(clients);
            let beat = HostFrame::Beat(snapshot.seq).to_line().into();
            let snapshot = HostFrame::Snapshot(Box::new(snapshot)).to_line().into();
            client.outbox.start_over(vec![snapshot, beat]);
        }
        false
    }

    /// Gives the console the size that fits every attached terminal: the smallest.
    pub(crate) fn fit_console(&mut self) {
        let sizes = || self.clients.values().filter_map(|client| client.size);
        let columns = sizes().map(|size| size.columns).min();
        let rows = sizes().map(|size| size.rows).min();
        if let (Some(console), Some(columns), Some(rows)) = (&self.console, columns, rows) {
            let size = TerminalSize {
                columns: columns.max(1),
                rows: rows.max(1),
            };
            if let Err(error) = console.resize(size) {
                tracing::warn!(%error, "the console was not resized");
            }
        }
    }

    /// The description of the host as it is now.
    pub(crate) fn described(&mut self) -> Option<HostInfo> {
        let (state, clients) = (self.mirror.state(), self.clients.len());
        let info = self.info.as_mut()?;
        if info.state != state {
            info.changed_ms = now_ms();
        }
        info.state = state;
        info.clients = clients;
        info.failed = self.mirror.failed;
        info.activity.clone_from(&self.mirror.activity);
        Some(info.clone())
    }
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
