//! Notices when settings change while running.
//!
//! One watcher over the folders of all settings files. A burst of events becomes one look at the
//! files; what this process wrote itself is taken over silently. A file that is broken — someone is
//! in the middle of editing it — keeps its last good content, and that is said.

use crate::document::Document;
use crate::load::{Layer, LoadOptions, Resolved, files, load_with};
use crate::paths::Places;
use crate::quiet::QuietWatcher;
use crate::reading::{Presence, read};
use crate::source::{Problem, Severity, Source};
use crate::write::OwnWrites;
use notify::event::ModifyKind;
use notify::{Event, EventKind, RecursiveMode};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long it must be quiet before the files are looked at.
const QUIET: Duration = Duration::from_millis(150);

/// Settings changed.
#[derive(Debug, Clone)]
pub struct Change {
    /// The files that changed, with their sources.
    pub files: Vec<(Source, PathBuf)>,
    /// The keys whose effective value changed; may be empty when a stronger source hides the change.
    pub keys: Vec<KeyChange>,
    /// Problems in the changed files.
    pub problems: Vec<Problem>,
    /// The settings in effect from now on.
    pub resolved: Arc<Resolved>,
}

/// A key whose effective value changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyChange {
    /// The key.
    pub key: String,
    /// The value before.
    pub old: Option<Value>,
    /// The value now.
    pub new: Option<Value>,
}

impl KeyChange {
    /// The change in a line. The values of variables may be secret and are not shown.
    #[must_use]
    pub fn summary(&self) -> String {
        let secret = self.key.starts_with("env.") || self.key.to_lowercase().contains("header");
        let shown = |value: &Value| {
            if secret {
                return "(hidden)".to_owned();
            }
            let text = value.to_string();
            if text.chars().count() > 80 {
                text.chars().take(79).chain(['…']).collect()
            } else {
                text
            }
        };
        match (&self.old, &self.new) {
            (None, Some(new)) => format!("{} is now {}", self.key, shown(new)),
            (Some(_), None) => format!("{} is no longer set", self.key),
            (Some(old), Some(new)) => format!("{}: {} → {}", self.key, shown(old), shown(new)),
            (None, None) => self.key.clone(),
        }
    }
}

/// Why settings can't be watched.
#[derive(Debug, thiserror::Error)]
#[error("settings can't be watched, so changes take effect after a restart: {0}")]
pub struct WatchError(#[from] notify::Error);

/// Watches until it is dropped.
pub struct SettingsWatcher {
    shared: Arc<Mutex<Shared>>,
}

impl std::fmt::Debug for SettingsWatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SettingsWatcher").finish_non_exhaustive()
    }
}

struct Shared {
    state: WatchState,
    watched: BTreeSet<PathBuf>,
    watcher: Option<QuietWatcher>,
    changes: mpsc::UnboundedSender<Change>,
}

impl SettingsWatcher {
    /// Starts watching. `current` is what was loaded at the start; what changed since then is the
    /// first change that is reported.
    ///
    /// # Errors
    /// When the system can't watch files.
    pub fn start(
        places: Places,
        options: LoadOptions,
        current: Arc<Resolved>,
        own: OwnWrites,
    ) -> Result<(Self, mpsc::UnboundedReceiver<Change>), WatchError> {
        let (changes, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(Mutex::new(Shared {
            state: WatchState::new(places, options, current, own),
            watched: BTreeSet::new(),
            watcher: None,
            changes,
        }));
        let weak: Weak<Mutex<Shared>> = Arc::downgrade(&shared);
        let watcher = QuietWatcher::new(QUIET, move |events| {
            // Which files the events name doesn't matter: links, renames and folders that appear
            // make that unreliable. Looking at the few files there are is cheap.
            if let Some(shared) = weak.upgrade() {
                let mut shared = shared.lock();
                shared.forget_replaced(&events);
                shared.look();
            }
        })?;
        {
            let mut guard = shared.lock();
            guard.watcher = Some(watcher);
            // Something may have changed between loading and watching.
            guard.look();
        }
        Ok((Self { shared }, receiver))
    }

    /// The value now.
    #[must_use]
    pub fn current(&self) -> Arc<Resolved> {
        Arc::clone(&self.shared.lock().state.current)
    }

    /// Loads again with other options (another trust, another working folder) and reports what that
    /// changes.
    pub fn reconfigure(&self, places: Places, options: LoadOptions) {
        let mut shared = self.shared.lock();
        shared.state.places = places;
        shared.state.options = options;
        shared.watch_folders();
        if let Some(change) = shared.state.reload(Vec::new()) {
            let _ = shared.changes.send(change);
        }
    }
}

impl Drop for SettingsWatcher {
    fn drop(&mut self) {
        // The watcher's thread holds only a weak reference, and nobody waits for its end.
        let watcher = self.shared.lock().watcher.take();
        drop(watcher);
    }
}

impl Shared {
    fn look(&mut self) {
        // First, so that what happens in a new folder after this look makes an event.
        self.watch_folders();
        if let Some(change) = self.state.look() {
            // Nobody listens any more when the session is over.
            let _ = self.changes.send(change);
        }
    }

    /// A folder that was removed or renamed is no longer watched, even if there is one of that name
    /// again by now.
    fn forget_replaced(&mut self, events: &[Event]) {
        let replaced = events.iter().filter(|event| {
            matches!(
                event.kind,
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
            )
        });
        for folder in replaced.flat_map(|event| &event.paths) {
            if self.watched.remove(folder)
                && let Some(watcher) = &mut self.watcher
            {
                // Fails when the system has already dropped it with the folder.
                let _ = watcher.unwatch(folder);
            }
        }
    }

    /// Watches the folders of all files. Of a folder that isn't there yet, the folder above.
    fn watch_folders(&mut self) {
        let mut wanted = BTreeSet::new();
        for (_, file) in files(&self.state.places, &self.state.options) {
            let real = std::fs::canonicalize(&file).ok();
            for file in std::iter::once(&file).chain(&real) {
                let mut folders = file.ancestors().skip(1).take(2);
                wanted.extend(
                    folders
                        .find(|folder| folder.is_dir())
                        .map(Path::to_path_buf),
                );
            }
        }
        wanted.extend([
            self.state.places.project.clone(),
            self.state.places.managed.clone(),
        ]);
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        for gone in self.watched.difference(&wanted) {
            let _ = watcher.unwatch(gone);
        }
        self.watched
            .retain(|folder| wanted.contains(folder) && folder.is_dir());
        for folder in wanted {
            if !self.watched.contains(&folder)
                && watcher.watch(&folder, RecursiveMode::NonRecursive).is_ok()
            {
                self.watched.insert(folder);
            }
        }
    }
}

/// The known state of the files, and the pure part of noticing a change.
struct WatchState {
    places: Places,
    options: LoadOptions,
    current: Arc<Resolved>,
    own: OwnWrites,
    /// The content of each file when it was last read; `None` for a file that can't be read.
    seen: HashMap<PathBuf, Option<String>>,
    /// The last valid content of each file.
    good: HashMap<PathBuf, String>,
}

impl WatchState {
    fn new(places: Places, options: LoadOptions, current: Arc<Resolved>, own: OwnWrites) -> Self {
        let mut state = Self {
            places,
            options,
            current,
            own,
            seen: HashMap::new(),
            good: HashMap::new(),
        };
        state.remember_loaded();
        state
    }

    /// Takes as seen what `current` was made from, not what the files hold by now: between loading
    /// and watching lies the whole opening of a session, and what changes meanwhile is a change.
    fn remember_loaded(&mut self) {
        let current = Arc::clone(&self.current);
        // The same content, if not the same text: comments are gone.
        let loaded: HashMap<&Path, &Layer> = current
            .layers
            .iter()
            .filter_map(|layer| Some((layer.path.as_deref()?, layer)))
            .collect();
        for (file, layer) in &loaded {
            let text = layer.document.value.to_string();
            self.good.insert(file.to_path_buf(), text.clone());
            self.seen.insert(file.to_path_buf(), Some(text));
        }
        for (_, file, text) in self.contents() {
            let document = text.as_deref().map(Document::parse);
            let same = match (loaded.get(file.as_path()), &document) {
                (Some(layer), Some(Ok(document))) => layer.document == *document,
                (Some(_), Some(Err(_))) | (None, Some(Ok(_))) => false,
                // A pipe of the command line can be read only once.
                (Some(_), None) => true,
                (None, Some(Err(_)) | None) => current
                    .problems
                    .iter()
                    .any(|problem| problem.file.as_ref() == Some(&file)),
            };
            if !same {
                continue;
            }
            if let (Some(text), Some(Ok(_))) = (&text, &document) {
                self.good.insert(file.clone(), text.clone());
            }
            self.seen.insert(file, text);
        }
    }

    fn contents(&self) -> Vec<(Source, PathBuf, Option<String>)> {
        files(&self.places, &self.options)
            .into_iter()
            .filter_map(|(source, file)| match read(&file, Presence::Optional) {
                Ok(Some(text)) => Some((source, file, Some(text))),
                Ok(None) => None,
                Err(_) => Some((source, file, None)),
            })
            .collect()
    }

    fn look(&mut self) -> Option<Change> {
        let contents = self.contents();
        let mut changed: Vec<(Source, PathBuf)> = Vec::new();
        for (source, file, text) in &contents {
            if self.seen.get(file) == Some(text) {
                continue;
            }
            changed.push((*source, file.clone()));
            if let Some(text) = text
                && Document::parse(text).is_ok()
            {
                self.good.insert(file.clone(), text.clone());
            }
        }
        let now: HashMap<PathBuf, Option<String>> = contents
            .into_iter()
            .map(|(_, file, text)| (file, text))
            .collect();
        for (source, file) in files(&self.places, &self.options) {
            if self.seen.contains_key(&file) && !now.contains_key(&file) {
                self.good.remove(&file);
                changed.push((source, file));
            }
        }
        // A file of `managed-settings.d` that is gone is no longer among the files.
        for file in self.seen.keys().filter(|file| !now.contains_key(*file)) {
            if !changed.iter().any(|(_, known)| known == file) {
                self.good.remove(file);
                changed.push((Source::Managed, file.clone()));
            }
        }
        self.seen = now;
        if changed.is_empty() {
            None
        } else {
            self.reload(changed)
        }
    }

    /// Loads again. `None` when nothing is to be told: all changes were our own.
    fn reload(&mut self, changed: Vec<(Source, PathBuf)>) -> Option<Change> {
        let (seen, good) = (&self.seen, &self.good);
        let mut held_back: Vec<PathBuf> = Vec::new();
        let mut resolved = load_with(&self.places, &self.options, &mut |file, presence| {
            let text = match seen.get(file) {
                Some(Some(text)) => text.clone(),
                Some(None) => match good.get(file) {
                    Some(text) => {
                        held_back.push(file.to_path_buf());
                        return Ok(Some(text.clone()));
                    }
                    None => return read(file, presence),
                },
                None => return read(file, presence),
            };
            match (Document::parse(&text), good.get(file)) {
                (Err(_), Some(good)) => {
                    held_back.push(file.to_path_buf());
                    Ok(Some(good.clone()))
                }
                _ => Ok(Some(text)),
            }
        });
        for (source, file) in changed.iter().filter(|(_, file)| held_back.contains(file)) {
            resolved
                .problems
                .retain(|problem| problem.file.as_ref() != Some(file));
            resolved.problems.push(self.broken(*source, file));
        }
        let resolved = Arc::new(resolved);
        let keys = difference(&self.current.value, &resolved.value);
        let before = std::mem::replace(&mut self.current, Arc::clone(&resolved));
        let foreign = changed.iter().any(|(_, file)| match self.seen.get(file) {
            Some(Some(text)) => !self.own.wrote(file, text),
            _ => true,
        });
        if !changed.is_empty() && !foreign || changed.is_empty() && keys.is_empty() {
            return None;
        }
        let problems = resolved
            .problems
            .iter()
            // What was only a warning is said once, and an error as long as it is there.
            .filter(|problem| problem.severity == Severity::Error || !is_known(&before, problem))
            .filter(|problem| {
                changed.is_empty()
                    || changed
                        .iter()
                        .any(|(_, file)| problem.file.as_ref() == Some(file))
            })
            .cloned()
            .collect();
        Some(Change {
            files: changed,
            keys,
            problems,
            resolved,
        })
    }

    fn broken(&self, source: Source, file: &Path) -> Problem {
        let error = match self.seen.get(file) {
            Some(Some(text)) => Document::parse(text).err(),
            _ => None,
        };
        Problem {
            severity: Severity::Error,
            source,
            file: Some(file.to_path_buf()),
            line: error.as_ref().map(|error| error.position.line),
            column: error.as_ref().map(|error| error.position.column),
            key: String::new(),
            message: error.map_or_else(|| "can't be read".to_owned(), |error| error.message),
            fix: Some("its last valid content stays in effect".to_owned()),
            restriction_lost: false,
        }
    }
}

fn is_known(before: &Resolved, problem: &Problem) -> bool {
    before.problems.iter().any(|known| {
        (&known.file, &known.key, &known.message) == (&problem.file, &problem.key, &problem.message)
    })
}

/// Which keys differ between two merged settings, down to what isn't an object.
fn difference(old: &Value, new: &Value) -> Vec<KeyChange> {
    let mut before = BTreeMap::new();
    let mut after = BTreeMap::new();
    leaves(old, &mut Vec::new(), &mut before);
    leaves(new, &mut Vec::new(), &mut after);
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| KeyChange {
            key: key.clone(),
            old: before.get(key).map(|value| (*value).clone()),
            new: after.get(key).map(|value| (*value).clone()),
        })
        .collect()
}

fn leaves<'a>(value: &'a Value, path: &mut Vec<String>, found: &mut BTreeMap<String, &'a Value>) {
    match value {
        Value::Object(map) if !map.is_empty() || path.is_empty() => {
            for (name, value) in map {
                path.push(name.clone());
                leaves(value, path, found);
                path.pop();
            }
        }
        leaf => {
            found.insert(crate::key::KeyPath(path.clone()).to_string(), leaf);
        }
    }
}
