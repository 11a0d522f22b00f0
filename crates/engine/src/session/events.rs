//! The way of events from the engine to a face.
//!
//! Sending never blocks and never fails: a face that is gone is simply not told any more. A face
//! that reads slowly holds the *model stream* back, not the tools: the step waits for
//! [`EventSink::room`] between deltas.

use crate::session::observe::Observer;
use lathe_protocol::event::{Event, News, NoticeLevel};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::{Notify, mpsc};

/// How many events may wait before the model stream is held back.
const HIGH_WATER: usize = 1024;

#[derive(Default)]
struct Pending {
    count: AtomicUsize,
    drained: Notify,
    /// Whether the face has no use for the answer as it comes in.
    wholes_only: AtomicBool,
    /// Whether the face shows the conversation to the user.
    for_people: AtomicBool,
    /// Whether the face shows agents at work.
    with_agents: AtomicBool,
}

/// Where the engine puts its events. Cheap to clone.
#[derive(Clone)]
pub struct EventSink {
    sender: mpsc::UnboundedSender<Event>,
    pending: Arc<Pending>,
    observer: Option<Observer>,
}

/// Where a face takes them.
pub struct EventStream {
    receiver: mpsc::UnboundedReceiver<Event>,
    pending: Arc<Pending>,
}

/// A new way.
#[must_use]
pub fn channel() -> (EventSink, EventStream) {
    observed_channel(None)
}

/// A new way with an observer beside it.
#[must_use]
pub fn observed_channel(observer: Option<Observer>) -> (EventSink, EventStream) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let pending = Arc::new(Pending::default());
    (
        EventSink {
            sender,
            pending: pending.clone(),
            observer,
        },
        EventStream { receiver, pending },
    )
}

impl EventSink {
    /// Tells the face.
    pub fn send(&self, event: Event) {
        if let Some(observer) = &self.observer {
            observer(&event);
        }
        self.pending.count.fetch_add(1, Ordering::Relaxed);
        if self.sender.send(event).is_err() {
            // Nobody listens any more; the count must not hold anyone back.
            self.pending.count.store(0, Ordering::Relaxed);
        }
    }

    /// Tells the user something.
    pub fn notice(&self, level: NoticeLevel, text: impl Into<String>) {
        self.send(Event::Notice {
            level,
            text: text.into(),
            news: None,
        });
    }

    /// Tells the user something about the program itself, which is no part of the conversation.
    pub fn news(&self, news: News, level: NoticeLevel, text: impl Into<String>) {
        self.send(Event::Notice {
            level,
            text: text.into(),
            news: Some(news),
        });
    }

    /// Whether the face wants an answer as it comes in, piece by piece.
    pub fn wants_pieces(&self) -> bool {
        !self.pending.wholes_only.load(Ordering::Relaxed)
    }

    /// Whether the face shows the conversation to the user, who sees nothing before `MessageDisplay` hooks did.
    pub fn shows_people(&self) -> bool {
        self.pending.for_people.load(Ordering::Relaxed)
    }

    /// Whether the face shows agents at work: it gets their answers as they come in.
    pub fn shows_agents(&self) -> bool {
        self.pending.with_agents.load(Ordering::Relaxed)
    }

    /// Whether the face is far behind.
    pub fn is_full(&self) -> bool {
        self.pending.count.load(Ordering::Relaxed) > HIGH_WATER
    }

    /// Waits until the face has caught up.
    pub async fn room(&self) {
        while self.is_full() && !self.sender.is_closed() {
            let drained = self.pending.drained.notified();
            if !self.is_full() {
                return;
            }
            tokio::select! {
                () = drained => {}
                () = self.sender.closed() => {}
            }
        }
    }
}

impl EventStream {
    /// The face has no use for [`Event::Stream`]; the engine saves the trouble.
    pub fn only_wholes(&self) {
        self.pending.wholes_only.store(true, Ordering::Relaxed);
    }

    /// The face shows the conversation to the user: where `MessageDisplay` hooks have a say, it gets answers only
    /// when they have answered.
    pub fn for_people(&self) {
        self.pending.for_people.store(true, Ordering::Relaxed);
    }

    /// The face shows agents at work: it gets their answers piece by piece, too.
    pub fn with_agents(&self) {
        self.pending.with_agents.store(true, Ordering::Relaxed);
    }

    /// The next event; `None` when the session is over.
    pub async fn next(&mut self) -> Option<Event> {
        let event = self.receiver.recv().await?;
        self.taken();
        Some(event)
    }

    /// The next event if it is there already.
    pub fn next_ready(&mut self) -> Option<Event> {
        let event = self.receiver.try_recv().ok()?;
        self.taken();
        Some(event)
    }

    fn taken(&self) {
        let before = self.pending.count.fetch_sub(1, Ordering::Relaxed);
        if before == HIGH_WATER + 1 {
            self.pending.drained.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_face_holds_the_stream_back_and_a_gone_one_does_not() {
        let (sink, mut stream) = channel();
        for _ in 0..=HIGH_WATER {
            sink.send(Event::Requesting);
        }
        let waiting = lathe_spawn::task({
            let sink = sink.clone();
            async move { sink.room().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        stream.next().await.unwrap();
        waiting.await.unwrap();

        for _ in 0..=HIGH_WATER {
            sink.send(Event::Requesting);
        }
        drop(stream);
        sink.room().await;
        sink.send(Event::Requesting);
        sink.room().await;
    }
}
