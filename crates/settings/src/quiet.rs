//! Watching files without a clock: nothing runs until something happens.
//!
//! Events are collected until none arrives for a moment, or for so long that waiting
//! for quiet would be waiting for ever, and is then passed on at once. Between two changes the thread
//! sleeps without a time limit, so that a program at rest stays at rest. That something was opened or read
//! is no change.

use crate::folder_watcher::FolderWatcher;
use notify::{Event, RecursiveMode};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// After how many times the quiet moment a change is passed on although there is no quiet.
const PATIENCE: u32 = 10;
/// Events that are kept for one change; more of them say nothing more.
const MOST: usize = 1_000;

/// Watches until it is dropped. Nobody waits for its end.
#[derive(Debug)]
pub struct QuietWatcher {
    watcher: FolderWatcher,
}

impl QuietWatcher {
    /// Calls `handler` with what happened, on a thread of its own, after it was quiet for a while.
    ///
    /// # Errors
    /// When the system can't watch files, or gives no thread.
    pub fn new(
        quiet: Duration,
        handler: impl FnMut(Vec<Event>) + Send + 'static,
    ) -> notify::Result<Self> {
        let (sender, events) = channel();
        let watcher = FolderWatcher::new(move |event| {
            // Fails when the watcher has just been dropped.
            let _ = sender.send(event);
        })?;
        std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || gather(&events, quiet, handler))
            .map_err(notify::Error::io)?;
        Ok(Self { watcher })
    }

    /// Watches a folder.
    ///
    /// # Errors
    /// When it isn't there or can't be watched.
    pub fn watch(&mut self, folder: &Path, mode: RecursiveMode) -> notify::Result<()> {
        self.watcher.watch(folder, mode)
    }

    /// Watches a folder no longer.
    ///
    /// # Errors
    /// When it wasn't watched.
    pub fn unwatch(&mut self, folder: &Path) -> notify::Result<()> {
        self.watcher.unwatch(folder)
    }
}

/// Hands changes over until the watcher is gone.
fn gather(events: &Receiver<Event>, quiet: Duration, mut handler: impl FnMut(Vec<Event>)) {
    while let Ok(first) = events.recv() {
        let until = Instant::now() + quiet * PATIENCE;
        let mut gathered = vec![first];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match events.recv_timeout(quiet.min(left)) {
                Ok(event) if gathered.len() < MOST => gathered.push(event),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if left.is_zero() {
                break;
            }
        }
        handler(gathered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::EventKind;
    use notify::event::CreateKind;
    use std::path::PathBuf;

    #[test]
    fn a_burst_is_passed_on_once_and_the_end_ends_it() {
        let (sender, events) = channel();
        let (told, handed) = channel();
        for number in 0..5 {
            let event = Event::new(EventKind::Create(CreateKind::File))
                .add_path(PathBuf::from(format!("/{number}")));
            sender.send(event).unwrap();
        }
        let thread = std::thread::spawn(move || {
            gather(&events, Duration::from_millis(20), |events| {
                let _ = told.send(events.len());
            });
        });
        assert_eq!(handed.recv().unwrap(), 5);
        drop(sender);
        thread.join().unwrap();
        assert!(handed.recv().is_err());
    }

    #[test]
    fn traffic_without_end_is_passed_on_all_the_same() {
        let (sender, events) = channel();
        let (told, handed) = channel();
        std::thread::spawn(move || {
            gather(&events, Duration::from_millis(20), |events| {
                let _ = told.send(events.len());
            });
        });
        let busy = std::thread::spawn(move || {
            // Until it has been received.
            while handed.try_recv().is_err() {
                let event = Event::new(EventKind::Create(CreateKind::File));
                if sender.send(event).is_err() {
                    return;
                }
                std::thread::yield_now();
            }
        });
        busy.join().unwrap();
    }

    #[test]
    fn a_file_that_appears_is_told_and_one_that_is_read_is_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("old"), "x").unwrap();
        let (told, handed) = channel();
        let mut watcher = QuietWatcher::new(Duration::from_millis(20), move |events| {
            let _ = told.send(events);
        })
        .unwrap();
        watcher
            .watch(folder.path(), RecursiveMode::NonRecursive)
            .unwrap();
        let _ = std::fs::read(folder.path().join("old")).unwrap();
        std::fs::write(folder.path().join("new"), "x").unwrap();
        let events = handed.recv().unwrap();
        assert!(
            events
                .iter()
                .flat_map(|event| &event.paths)
                .all(|path| path.ends_with("new")),
            "{events:?}"
        );
        assert!(!events.iter().any(|event| event.kind.is_access()));
    }
}
