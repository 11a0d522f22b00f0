//! Reloads themes and key bindings when their files change.
//!
//! The config home and its `themes` folder are watched. An event only says that something may have
//! changed: a moment later the files are read in the background, and what differs from before takes
//! effect. A file that someone is in the middle of editing is named as broken, and what counted before
//! continues counting. Settings themselves are watched by the engine, which says what changed; the
//! terminal then looks at the keys that concern it.

use crate::app::jobs::JobResult;
use crate::app::notices::{Notice, Priority};
use crate::app::{App, settings};
use crate::prompt::keymap::Keymap;
use crate::render::theme_files;
use lathe_settings::folder_watcher::FolderWatcher;
use notify::RecursiveMode;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long it must be quiet before the files are read: editors write in several steps.
const QUIET: Duration = Duration::from_millis(100);

/// The files' contents when they were last read, by path.
pub(crate) type Contents = BTreeMap<PathBuf, String>;

/// Watches until it is dropped.
pub(crate) struct Watching {
    watcher: FolderWatcher,
    /// When to read the files.
    due: Option<Instant>,
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watching").finish_non_exhaustive()
    }
}

impl Watching {
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }
}

fn key_file(config_home: &Path) -> PathBuf {
    config_home.join("keybindings.json")
}

/// Reads the files that are watched.
pub(crate) fn contents(config_home: &Path) -> Contents {
    let mut files = vec![key_file(config_home)];
    for entry in std::fs::read_dir(config_home.join("themes"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    files
        .into_iter()
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
        .collect()
}

/// Starts watching, off the loop: it takes a thread and a few system calls.
pub(crate) fn start(app: &mut App) {
    if app.settings.watching.is_some() {
        return;
    }
    let config_home = app.places.config_home.clone();
    let sender = app.jobs.sender();
    app.jobs.blocking(move || {
        let home = config_home.clone();
        let handler = move |event: notify::Event| {
            let ours =
                |path: &PathBuf| *path == key_file(&home) || path.starts_with(home.join("themes"));
            if event.paths.is_empty() || event.paths.iter().any(ours) {
                let _ = sender.send(JobResult::FilesTouched);
            }
        };
        let mut watcher = match FolderWatcher::new(handler) {
            Ok(watcher) => watcher,
            Err(error) => {
                tracing::warn!(%error, "themes and key bindings are not watched");
                return None;
            }
        };
        watch_folders(&mut watcher, &config_home);
        Some(JobResult::Watching(Box::new(Watching {
            watcher,
            // Something may have changed between loading and watching.
            due: Some(Instant::now()),
        })))
    });
}

/// A file may have changed.
pub(crate) fn touched(app: &mut App) {
    if let Some(watching) = &mut app.settings.watching {
        watching.due = Some(Instant::now() + QUIET);
    }
}

/// Reads the watched files, if it is time.
pub(crate) fn read_when_due(app: &mut App, now: Instant) {
    let config_home = app.places.config_home.clone();
    let Some(watching) = &mut app.settings.watching else {
        return;
    };
    if watching.due.is_none_or(|due| due > now) {
        return;
    }
    watching.due = None;
    watch_folders(&mut watching.watcher, &config_home);
    app.jobs
        .blocking(move || Some(JobResult::FilesRead(contents(&config_home))));
}

/// The watched files were read: what differs takes effect.
pub(crate) fn read(app: &mut App, now: Contents) {
    let config_home = app.places.config_home.clone();
    let files = settings::theme_files(app);
    let theme = theme_files::find(&files, &app.look.theme_name);
    let theme = theme.map_or_else(PathBuf::new, |file| file.path.clone());
    let differs = |path: &Path| app.settings.known_files.get(path) != now.get(path);
    let (theme_differs, keys_differ) = (differs(&theme), differs(&key_file(&config_home)));
    app.settings.known_files = now;
    if keys_differ {
        let (keymap, problems) = Keymap::load(&crate::prompt::keymap::files(&app.places));
        if problems.is_empty() {
            let words = "reloaded the key bindings";
            let notice = Notice::new("keys", Priority::Low, words);
            app.alarms.notices.add(notice);
        }
        for problem in problems {
            app.warn(problem);
        }
        app.prompt.keymap = keymap;
        app.prompt.chord.clear();
    }
    if theme_differs {
        let name = app.look.theme_name.clone();
        settings::set_theme(app, &name);
    }
}

fn watch_folders(watcher: &mut FolderWatcher, config_home: &Path) {
    for folder in [config_home.to_owned(), config_home.join("themes")] {
        // A folder that isn't there yet is watched when it appears: that makes an event above it.
        if folder.is_dir()
            && let Err(error) = watcher.watch(&folder, RecursiveMode::NonRecursive)
        {
            tracing::warn!(%error, folder = %folder.display(), "not watched");
        }
    }
}
