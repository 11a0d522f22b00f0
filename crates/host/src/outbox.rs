//! The lines that wait for one client. The sender never waits: a client that does not read loses deltas and
//! gets a snapshot instead.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

/// How many lines wait at most.
const LINES: usize = 1_024;
/// How many bytes wait at most.
const BYTES: usize = 4 * 1024 * 1024;

/// A line, shared by all clients that get it.
pub(crate) type Line = Arc<[u8]>;

#[derive(Debug, Default)]
struct Waiting {
    /// Events and bytes of the screen; dropped when they are too many.
    stream: VecDeque<Line>,
    /// Answers, which are never dropped.
    answers: VecDeque<Line>,
    bytes: usize,
    overflowed: bool,
    closed: bool,
}

/// The lines that wait for one client.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

/// The next step of the writer of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Write these.
    Lines(Vec<Line>),
    /// Lines were dropped, and everything before was written: begin again with a snapshot.
    StartOver,
    /// Nothing more comes.
    Closed,
}

impl Outbox {
    /// Puts a line of the stream in, unless the client is too far behind.
    pub(crate) fn push(&self, line: &Line) {
        let mut waiting = self.waiting.lock();
        if waiting.overflowed || waiting.closed {
            return;
        }
        if waiting.stream.len() >= LINES || waiting.bytes + line.len() > BYTES {
            waiting.stream.clear();
            waiting.bytes = 0;
            waiting.overflowed = true;
        } else {
            waiting.bytes += line.len();
            waiting.stream.push_back(line.clone());
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Puts lines in that replace everything that waited, such as a snapshot.
    pub(crate) fn start_over(&self, lines: Vec<Line>) {
        let mut waiting = self.waiting.lock();
        waiting.stream.clear();
        waiting.bytes = lines.iter().map(|line| line.len()).sum();
        waiting.stream.extend(lines);
        waiting.overflowed = false;
        drop(waiting);
        self.changed.notify_one();
    }

    /// Puts an answer in.
    pub(crate) fn answer(&self, line: Line) {
        self.waiting.lock().answers.push_back(line);
        self.changed.notify_one();
    }

    /// Lets the writer end after what waits.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_one();
    }

    fn take(&self) -> Option<Next> {
        let mut waiting = self.waiting.lock();
        let mut lines: Vec<Line> = waiting.stream.drain(..).collect();
        waiting.bytes = 0;
        // After the events that came before the answer.
        lines.extend(waiting.answers.drain(..));
        if !lines.is_empty() {
            return Some(Next::Lines(lines));
        }
        if waiting.closed {
            return Some(Next::Closed);
        }
        waiting.overflowed.then_some(Next::StartOver)
    }

    /// Waits for something to do. Cancellation safe.
    pub(crate) async fn next(&self) -> Next {
        loop {
            let changed = self.changed.notified();
            if let Some(next) = self.take() {
                return next;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Arc::from(text.as_bytes())
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_starts_over_and_keeps_its_answers() {
        let outbox = Outbox::default();
        for _ in 0..=LINES {
            outbox.push(&line("event"));
        }
        outbox.answer(line("ack"));
        outbox.push(&line("dropped"));
        assert_eq!(outbox.next().await, Next::Lines(vec![line("ack")]));
        assert_eq!(outbox.next().await, Next::StartOver);
        outbox.start_over(vec![line("snapshot")]);
        outbox.push(&line("event"));
        let expected = vec![line("snapshot"), line("event")];
        assert_eq!(outbox.next().await, Next::Lines(expected));
        outbox.close();
        assert_eq!(outbox.next().await, Next::Closed);
    }

    #[tokio::test]
    async fn bytes_are_limited_as_well_as_lines() {
        let outbox = Outbox::default();
        let large: Line = vec![0; BYTES / 2].into();
        outbox.push(&large);
        outbox.push(&large);
        outbox.push(&line("one too many"));
        assert_eq!(outbox.next().await, Next::StartOver);
    }
}
