//! Notices when extensions change while the session runs.

use crate::conversation::ConversationShared;
use lathe_settings::quiet::QuietWatcher;
use notify::RecursiveMode;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long after the start of a session watching begins where nothing was asked.
const LATEST: Duration = Duration::from_secs(5);
/// How long it must be quiet before the files are read again.
const QUIET: Duration = Duration::from_millis(200);

/// Reads agents, skills, commands and output styles again when their files change, until the session
/// ends. Watching is set up in the background; where the system can't, changes take effect after a restart.
pub(crate) fn watch(shared: &Arc<ConversationShared>) {
    let shared = Arc::downgrade(shared);
    lathe_spawn::task(async move {
        // With hundreds of folders this is work, and the first answer goes first.
        let Some(extensions) = shared
            .upgrade()
            .map(|shared| shared.integrations.extensions.clone())
        else {
            return;
        };
        // Whichever comes first.
        drop(tokio::time::timeout(LATEST, extensions.answered.notified()).await);
        drop(extensions);
        // A session of one answer is over by then, and nobody needs to look again.
        tokio::time::sleep(QUIET).await;
        let (sender, mut changes) = mpsc::unbounded_channel();
        let Some(first) = folders(&shared) else {
            return;
        };
        // What changed before that is found by looking once more.
        let _ = sender.send(());
        let starting = lathe_spawn::blocking(move || Watcher::start(&first, sender));
        let Ok(Some(mut watcher)) = starting.await else {
            return;
        };
        while changes.recv().await.is_some() {
            // A burst is one change.
            while changes.try_recv().is_ok() {}
            let Some(alive) = shared.upgrade() else {
                return;
            };
            let reading = lathe_spawn::blocking(move || {
                alive.extensions_changed();
            });
            if reading.await.is_err() {
                return;
            }
            let Some(now) = folders(&shared) else {
                return;
            };
            let following = lathe_spawn::blocking(move || {
                watcher.follow(&now);
                watcher
            });
            let Ok(back) = following.await else {
                return;
            };
            watcher = back;
        }
    });
}

fn folders(shared: &Weak<ConversationShared>) -> Option<Vec<PathBuf>> {
    Some(shared.upgrade()?.integrations.extensions.watched())
}

struct Watcher {
    watcher: QuietWatcher,
    watched: BTreeSet<PathBuf>,
}

impl Watcher {
    fn start(folders: &[PathBuf], changes: mpsc::UnboundedSender<()>) -> Option<Self> {
        let mut interesting: BTreeSet<PathBuf> = folders.iter().cloned().collect();
        interesting.extend(
            folders
                .iter()
                .filter_map(|folder| folder.parent())
                .map(Path::to_path_buf),
        );
        let known: Vec<PathBuf> = folders.to_vec();
        let watcher = QuietWatcher::new(QUIET, move |events| {
            // In the folder above there is other traffic, such as transcripts.
            let concerns = events.iter().flat_map(|event| &event.paths).any(|path| {
                known
                    .iter()
                    .any(|folder| path.starts_with(folder) || folder.starts_with(path))
            });
            if concerns {
                let _ = changes.send(());
            }
        });
        match watcher {
            Ok(watcher) => {
                let mut watcher = Self {
                    watcher,
                    watched: BTreeSet::new(),
                };
                watcher.follow(folders);
                Some(watcher)
            }
            Err(error) => {
                tracing::warn!(%error, "agents, skills and commands are not watched");
                None
            }
        }
    }

    /// Watches folders that are there, and what is above the others for when they appear.
    fn follow(&mut self, folders: &[PathBuf]) {
        self.watched.retain(|folder| folder.is_dir());
        for folder in folders {
            let (folder, mode) = if folder.is_dir() {
                (folder.as_path(), RecursiveMode::Recursive)
            } else {
                let Some(above) = folder
                    .ancestors()
                    .skip(1)
                    .take(2)
                    .find(|above| above.is_dir())
                else {
                    continue;
                };
                (above, RecursiveMode::NonRecursive)
            };
            if self.watched.contains(folder) {
                continue;
            }
            match self.watcher.watch(folder, mode) {
                Ok(()) => {
                    self.watched.insert(folder.to_path_buf());
                }
                Err(error) => tracing::debug!(%error, folder = %folder.display(), "not watched"),
            }
        }
    }
}
