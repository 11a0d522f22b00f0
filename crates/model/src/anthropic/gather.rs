//! Reading a quick stream in gulps.
//!
//! A model that streams hundreds of pieces in a second would wake us for each of them, and being woken
//! costs more than the piece. While pieces come that quickly, what comes within a few milliseconds is
//! read together; nobody sees the difference, and the processor rests in between. A stream that isn't
//! quick, and the first pieces of any, are read at once.

use futures::{FutureExt as _, Stream, StreamExt as _};
use std::time::Duration;
use tokio::time::Instant;

/// Pieces that are closer than this are quick.
const QUICK: Duration = Duration::from_millis(4);
/// So many quick ones in a row make a quick stream.
const STREAK: u32 = 8;
/// How long pieces of a quick stream are gathered.
const GULP: Duration = Duration::from_millis(5);

/// A stream that is read in gulps while it is quick.
pub(super) struct Gathering<S> {
    pieces: S,
    last: Option<Instant>,
    streak: u32,
}

impl<S: Stream + Unpin> Gathering<S> {
    pub(super) fn new(pieces: S) -> Self {
        Self {
            pieces,
            last: None,
            streak: 0,
        }
    }

    /// The next piece.
    pub(super) async fn next(&mut self) -> Option<S::Item> {
        if let Some(piece) = self.ready().await {
            return piece;
        }
        if self.streak >= STREAK {
            tokio::time::sleep(GULP).await;
            if let Some(piece) = self.ready().await {
                self.last = Some(Instant::now());
                return piece;
            }
            // It paused: from here on each piece is read at once again.
            self.streak = 0;
        }
        let piece = self.pieces.next().await;
        let now = Instant::now();
        let is_quick = self.last.is_some_and(|last| now - last < QUICK);
        self.streak = if is_quick { self.streak + 1 } else { 0 };
        self.last = Some(now);
        piece
    }

    /// What has come already.
    async fn ready(&mut self) -> Option<Option<S::Item>> {
        if let Some(piece) = self.pieces.next().now_or_never() {
            return Some(piece);
        }
        if self.streak < STREAK {
            return None;
        }
        // The connection has a task of its own, which hands on one piece at a time.
        tokio::task::yield_now().await;
        self.pieces.next().now_or_never()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::channel::mpsc;

    /// Sends pieces with pauses between them; returns how often the reader was given something anew
    /// after it had to wait, and all pieces.
    async fn read(pause: Duration, count: u32) -> (usize, Vec<u32>) {
        let (sender, receiver) = mpsc::unbounded();
        tokio::spawn(async move {
            for piece in 0..count {
                tokio::time::sleep(pause).await;
                if sender.unbounded_send(piece).is_err() {
                    return;
                }
            }
        });
        let mut gathering = Gathering::new(receiver);
        let (mut waits, mut pieces) = (0, Vec::new());
        let mut last = Instant::now();
        while let Some(piece) = gathering.next().await {
            if last != Instant::now() {
                last = Instant::now();
                waits += 1;
            }
            pieces.push(piece);
        }
        (waits, pieces)
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_stream_is_read_in_gulps_and_nothing_is_lost() {
        let (waits, pieces) = read(Duration::from_millis(1), 1_000).await;
        assert_eq!(pieces, (0..1_000).collect::<Vec<_>>());
        assert!(waits < 260, "{waits}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_not_quick_is_read_as_it_comes() {
        let (waits, pieces) = read(Duration::from_millis(20), 100).await;
        assert_eq!(pieces.len(), 100);
        assert_eq!(waits, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_pieces_are_read_at_once_again() {
        let (sender, receiver) = mpsc::unbounded();
        let mut gathering = Gathering::new(receiver);
        for piece in 0..20 {
            sender.unbounded_send(piece).unwrap();
            assert_eq!(gathering.next().await, Some(piece));
        }
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let _ = sender.unbounded_send(99);
        });
        let before = Instant::now();
        assert_eq!(gathering.next().await, Some(99));
        assert_eq!(before.elapsed(), Duration::from_secs(2));
        assert_eq!(gathering.next().await, None);
    }
}
