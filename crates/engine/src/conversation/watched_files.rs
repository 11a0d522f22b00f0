//! Files that hooks want to hear of: `watchPaths` in the answer of a `SessionStart`, `CwdChanged` or
//! `FileChanged` hook names them, and `FileChanged` hooks run when one appears, changes or goes.
//!
//! A report of the system is only a reason to look: a file has changed if it is another one than it
//! was. A folder stands for the files in it, not for those below. Nothing runs before the first path is
//! named, and everything ends with the session.

use crate::conversation::hook_points::HookPoints;
use lathe_protocol::hook::HookEvent;
use lathe_settings::quiet::QuietWatcher;
use notify::RecursiveMode;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, watch};

/// How long it must be quiet before a change is reported.
const QUIET: Duration = Duration::from_millis(100);
/// Files that are watched at most.
const MOST: usize = 1_000;

/// The state of a file at the last look.
type Stamp = (Option<SystemTime>, u64);

/// The files that hooks want to hear of.
#[derive(Default)]
pub(crate) struct WatchedFiles {
    hooks: OnceLock<Weak<HookPoints>>,
    wanted: OnceLock<watch::Sender<Wanted>>,
}

/// The files to watch, with their state when they were named: a change between then and the first look is
/// told too.
#[derive(Clone, Default)]
struct Wanted {
    paths: Vec<PathBuf>,
    known: BTreeMap<PathBuf, Option<Stamp>>,
}

impl WatchedFiles {
    /// The hooks to run. Without them nothing is watched.
    pub(crate) fn tell(&self, hooks: &Arc<HookPoints>) {
        let _ = self.hooks.set(Arc::downgrade(hooks));
    }

    /// Takes the list of an answer, if it has one: it replaces the one before.
    pub(crate) fn take(&self, answer: &lathe_protocol::Extra, folder: &Path) {
        let Some(paths) = answer.get("watchPaths").and_then(Value::as_array) else {
            return;
        };
        let paths: Vec<PathBuf> = paths
            .iter()
            .filter_map(Value::as_str)
            .filter(|path| !path.is_empty())
            .take(MOST)
            .map(|path| folder.join(path))
            .collect();
        let Some(hooks) = self.hooks.get() else {
            return;
        };
        let wanted = self.wanted.get_or_init(|| {
            let (sender, receiver) = watch::channel(Wanted::default());
            lathe_spawn::task(follow(hooks.clone(), receiver));
            sender
        });
        let known = look(&paths);
        wanted.send_replace(Wanted { paths, known });
    }
}

/// Watches until the session ends.
async fn follow(hooks: Weak<HookPoints>, mut wanted: watch::Receiver<Wanted>) {
    let (sender, mut changes) = mpsc::unbounded_channel();
    let watcher = QuietWatcher::new(QUIET, move |_| {
        let _ = sender.send(());
    });
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "the files that hooks name are not watched");
            return;
        }
    };
    let mut watched = BTreeSet::new();
    let Wanted {
        mut paths,
        mut known,
    } = wanted.borrow_and_update().clone();
    watch_folders(&mut watcher, &mut watched, &paths);
    loop {
        let now = look(&paths);
        let told = differences(&known, &now);
        known = now;
        for (path, event) in told {
            let Some(hooks) = hooks.upgrade() else { return };
            hooks.file_changed(&path, event).await;
        }
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                let next = wanted.borrow_and_update().clone();
                paths = next.paths;
                watch_folders(&mut watcher, &mut watched, &paths);
                // What was watched before keeps its stamp: a change meanwhile is still told.
                known = next
                    .known
                    .into_iter()
                    .map(|(path, stamp)| {
                        let stamp = known.get(&path).copied().unwrap_or(stamp);
                        (path, stamp)
                    })
                    .collect();
            }
            change = changes.recv() => if change.is_none() { return },
        }
    }
}

fn watch_folders(watcher: &mut QuietWatcher, watched: &mut BTreeSet<PathBuf>, paths: &[PathBuf]) {
    let folders: BTreeSet<PathBuf> = paths
        .iter()
        .filter_map(|path| {
            if path.is_dir() {
                return Some(path.clone());
            }
            let above = path.parent()?;
            above.is_dir().then(|| above.to_path_buf())
        })
        .collect();
    for folder in watched.difference(&folders) {
        let _ = watcher.unwatch(folder);
    }
    for folder in folders.difference(watched) {
        if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
            tracing::warn!(%error, folder = %folder.display(), "not watched");
        }
    }
    *watched = folders;
}

/// The state of the files now; `None` is one that doesn't exist.
fn look(paths: &[PathBuf]) -> BTreeMap<PathBuf, Option<Stamp>> {
    let stamp = |path: &Path| {
        let facts = std::fs::metadata(path)
            .ok()
            .filter(|facts| !facts.is_dir())?;
        Some((facts.modified().ok(), facts.len()))
    };
    let mut found = BTreeMap::new();
    for path in paths {
        match std::fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries.flatten() {
                    let inside = entry.path();
                    if let Some(stamp) = stamp(&inside) {
                        found.insert(inside, Some(stamp));
                    }
                    if found.len() >= MOST {
                        return found;
                    }
                }
            }
            Err(_) => {
                found.insert(path.clone(), stamp(path));
            }
        }
    }
    found
}

/// The changes in between, by path.
fn differences(
    before: &BTreeMap<PathBuf, Option<Stamp>>,
    now: &BTreeMap<PathBuf, Option<Stamp>>,
) -> Vec<(PathBuf, &'static str)> {
    let mut told = Vec::new();
    for (path, stamp) in now {
        match (before.get(path).copied().flatten(), stamp) {
            (None, Some(_)) => told.push((path.clone(), "add")),
            (Some(_), None) => told.push((path.clone(), "unlink")),
            (Some(old), Some(new)) if old != *new => told.push((path.clone(), "change")),
            _ => {}
        }
    }
    for (path, stamp) in before {
        if stamp.is_some() && !now.contains_key(path) {
            told.push((path.clone(), "unlink"));
        }
    }
    told
}

impl HookPoints {
    /// A file that hooks want to hear of changed.
    async fn file_changed(&self, path: &Path, event: &str) {
        let fields = || json!({"file_path": path, "event": event});
        self.fire_change(HookEvent::FileChanged, fields).await;
    }

    /// Takes the list of files that hooks want to hear of.
    pub(crate) fn take_watch_list(&self, answer: &lathe_protocol::Extra) {
        let folder = self.tools.working_folder.read().clone();
        self.watched.take(answer, &folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_went_and_changed_is_told_by_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("inside")).unwrap();
        std::fs::write(path("inside/one"), "1").unwrap();
        std::fs::write(path("gone"), "1").unwrap();
        let paths = vec![path("inside"), path("gone"), path("new")];
        let before = look(&paths);
        assert_eq!(differences(&before, &look(&paths)), []);
        std::fs::write(path("inside/one"), "12").unwrap();
        std::fs::write(path("inside/two"), "2").unwrap();
        std::fs::write(path("new"), "3").unwrap();
        std::fs::remove_file(path("gone")).unwrap();
        assert_eq!(
            differences(&before, &look(&paths)),
            [
                (path("gone"), "unlink"),
                (path("inside/one"), "change"),
                (path("inside/two"), "add"),
                (path("new"), "add"),
            ]
        );
        std::fs::remove_file(path("inside/one")).unwrap();
        let now = look(&paths);
        assert_eq!(
            differences(&before, &now).last().unwrap(),
            &(path("inside/one"), "unlink")
        );
    }
}
