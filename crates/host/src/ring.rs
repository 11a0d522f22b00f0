//! The last events, for clients that come back, and the last operations, so that none is done twice.

use crate::outbox::Line;
use lathe_wire::OpId;
use std::collections::{HashMap, VecDeque};

/// How many events are kept.
const EVENTS: usize = 4_096;
/// How many bytes of events are kept.
const EVENT_BYTES: usize = 4 * 1024 * 1024;
/// How many operations are remembered.
const OPS: usize = 2_048;

/// The last events.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    lines: VecDeque<Line>,
    bytes: usize,
    /// The number of the last event.
    last: u64,
}

impl Ring {
    /// An empty ring; `last` is the number of the last event that it does not have.
    pub(crate) fn after(last: u64) -> Self {
        Self {
            last,
            ..Self::default()
        }
    }

    /// Adds the next event.
    pub(crate) fn push(&mut self, seq: u64, line: Line) {
        self.last = seq;
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > EVENTS || (self.bytes > EVENT_BYTES && self.lines.len() > 1) {
            if let Some(old) = self.lines.pop_front() {
                self.bytes -= old.len();
            }
        }
    }

    /// The events after a number; `None` if some of them are gone, or the number is not one of this ring.
    pub(crate) fn since(&self, seq: u64) -> Option<Vec<Line>> {
        let missing = usize::try_from(self.last.checked_sub(seq)?).ok()?;
        let skip = self.lines.len().checked_sub(missing)?;
        Some(self.lines.iter().skip(skip).cloned().collect())
    }
}

/// How an operation stands.
#[derive(Debug)]
pub(crate) enum OpState {
    /// It is being done; these clients wait for the answer.
    Pending(Vec<u64>),
    /// It is over, and this was the answer.
    Over(Line),
}

/// The last operations.
#[derive(Debug, Default)]
pub(crate) struct OpRing {
    states: HashMap<OpId, OpState>,
    order: VecDeque<OpId>,
}

impl OpRing {
    /// Whether an operation is new. If it is not, the answer is given, or the client waits for it.
    pub(crate) fn begin(&mut self, id: OpId, client: u64) -> Begun {
        match self.states.get_mut(&id) {
            Some(OpState::Over(answer)) => return Begun::Answered(answer.clone()),
            Some(OpState::Pending(waiting)) => {
                waiting.push(client);
                return Begun::Waiting;
            }
            None => {}
        }
        self.states.insert(id, OpState::Pending(vec![client]));
        self.order.push_back(id);
        if self.order.len() > OPS
            && let Some(old) = self.order.pop_front()
        {
            self.states.remove(&old);
        }
        Begun::New
    }

    /// Keeps the answer. Gives the clients that wait for it.
    pub(crate) fn end(&mut self, id: OpId, answer: &Line) -> Vec<u64> {
        match self.states.get_mut(&id) {
            Some(state) => match std::mem::replace(state, OpState::Over(answer.clone())) {
                OpState::Pending(waiting) => waiting,
                OpState::Over(_) => Vec::new(),
            },
            None => Vec::new(),
        }
    }
}

/// How an operation that came in is treated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Do it.
    New,
    /// It is being done.
    Waiting,
    /// It was done.
    Answered(Line),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> Line {
        number.to_string().into_bytes().into()
    }

    #[test]
    fn events_come_back_without_a_gap_or_not_at_all() {
        let mut ring = Ring::after(0);
        assert_eq!(ring.since(0), Some(Vec::new()));
        for seq in 1..=10_000 {
            ring.push(seq, line(seq));
        }
        assert_eq!(ring.since(9_998), Some(vec![line(9_999), line(10_000)]));
        assert_eq!(ring.since(10_000), Some(Vec::new()));
        let oldest = 10_000 - EVENTS as u64;
        assert_eq!(ring.since(oldest).map(|lines| lines.len()), Some(EVENTS));
        assert_eq!(ring.since(oldest - 1), None);
        assert_eq!(ring.since(10_001), None, "a number that was never given");
    }

    #[test]
    fn large_events_push_others_out() {
        let mut ring = Ring::after(7);
        for seq in 8..=10 {
            ring.push(seq, vec![0; EVENT_BYTES / 2].into());
        }
        assert_eq!(ring.since(7), None);
        assert_eq!(ring.since(8).map(|lines| lines.len()), Some(2));
        ring.push(11, vec![0; EVENT_BYTES * 2].into());
        assert_eq!(ring.since(10).map(|lines| lines.len()), Some(1));
    }

    #[test]
    fn an_operation_is_done_once_and_answered_as_often_as_it_is_asked() {
        let mut ops = OpRing::default();
        let id = OpId::from_u128(1);
        assert_eq!(ops.begin(id, 1), Begun::New);
        assert_eq!(ops.begin(id, 2), Begun::Waiting);
        assert_eq!(ops.end(id, &line(1)), [1, 2]);
        assert_eq!(ops.begin(id, 3), Begun::Answered(line(1)));
        for number in 2..=OPS as u128 {
            ops.begin(OpId::from_u128(number), 1);
        }
        assert_eq!(ops.begin(id, 3), Begun::Answered(line(1)));
        ops.begin(OpId::from_u128(9_999), 1);
        assert_eq!(
            ops.begin(id, 3),
            Begun::New,
            "older than what is remembered"
        );
    }
}
