//! Changes of a team's files that other processes make.

use lathe_settings::folder_watcher::FolderWatcher;
use lathe_tools::team::{TeamError, TeamStore};
use notify::RecursiveMode;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the files are looked at where they can't be watched.
const LOOK: Duration = Duration::from_millis(250);

/// Counts changes.
#[derive(Default)]
pub(super) struct Changes {
    count: Arc<watch::Sender<u64>>,
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Unwatched,
    Watched {
        _watcher: FolderWatcher,
    },
    /// The system can't watch them.
    LookedAt,
}

impl Changes {
    /// Watches from now on. Returns whether nobody did before.
    pub(super) fn begin(&self, store: &TeamStore) -> bool {
        let mut state = self.state.lock();
        if !matches!(*state, State::Unwatched) {
            return false;
        }
        *state = match watcher(store, &self.count) {
            Ok(watcher) => State::Watched { _watcher: watcher },
            Err(error) => {
                tracing::warn!(%error, "the files of the team are looked at again and again");
                let count = Arc::downgrade(&self.count);
                lathe_spawn::task(async move {
                    while let Some(count) = count.upgrade() {
                        count.send_modify(|count| *count += 1);
                        drop(count);
                        tokio::time::sleep(LOOK).await;
                    }
                });
                State::LookedAt
            }
        };
        true
    }

    /// Hears of every change from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}

/// Why the files can't be watched.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Team(#[from] TeamError),
    #[error(transparent)]
    System(#[from] notify::Error),
}

fn watcher(
    store: &TeamStore,
    count: &Arc<watch::Sender<u64>>,
) -> Result<FolderWatcher, WatchError> {
    let folders = store.watched()?;
    let count = count.clone();
    let mut watcher = FolderWatcher::new(move |_| count.send_modify(|count| *count += 1))?;
    for folder in folders {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}
