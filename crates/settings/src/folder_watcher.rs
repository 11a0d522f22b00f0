//! Hears of what changes in folders, and of nothing else.
//!
//! The system is asked about changes only. A library that also asks to be told of every file that is
//! opened or read wakes this process for each of them, and folders that are watched for a settings file
//! (`/etc`, the project) are the ones that every program reads from: starting a shell alone opens several
//! files there. On Linux this module therefore speaks to the kernel itself; elsewhere the library does it.

use notify::{Event, RecursiveMode};
use std::path::Path;

/// Watches folders until it is dropped. Nobody waits for its end.
#[derive(Debug)]
pub struct FolderWatcher {
    system: system::Watcher,
}

impl FolderWatcher {
    /// Calls `handler` with each thing that happened, on a thread of its own. An event without a path
    /// says that some were lost.
    ///
    /// # Errors
    /// When the system can't watch files, or gives no thread.
    pub fn new(handler: impl FnMut(Event) + Send + 'static) -> notify::Result<Self> {
        let system = system::Watcher::new(handler)?;
        Ok(Self { system })
    }

    /// Watches a folder, or a single file. Watching it again is fine.
    ///
    /// # Errors
    /// When it isn't there or can't be watched.
    pub fn watch(&mut self, folder: &Path, mode: RecursiveMode) -> notify::Result<()> {
        self.system.watch(folder, mode)
    }

    /// Watches a folder no longer.
    ///
    /// # Errors
    /// When it wasn't watched.
    pub fn unwatch(&mut self, folder: &Path) -> notify::Result<()> {
        self.system.unwatch(folder)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
    use notify::event::{
        CreateKind, DataChange, Flag, MetadataKind, ModifyKind, RemoveKind, RenameMode,
    };
    use notify::{Error, Event, EventKind, RecursiveMode};
    use parking_lot::Mutex;
    use std::collections::{HashMap, HashSet};
    use std::io::{self, PipeReader, PipeWriter};
    use std::os::fd::AsFd as _;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    /// Folders below a watched one that are watched with it at most.
    const MOST_BELOW: usize = 10_000;

    /// The watcher.
    #[derive(Debug)]
    pub(super) struct Watcher {
        shared: Arc<Shared>,
        /// Closes with us, which ends the thread.
        _alive: PipeWriter,
    }

    #[derive(Debug)]
    struct Shared {
        inotify: Inotify,
        /// Held while a watch is added, so that its first event finds it here.
        watches: Mutex<HashMap<WatchDescriptor, Watched>>,
    }

    #[derive(Debug)]
    struct Watched {
        path: PathBuf,
        mode: RecursiveMode,
    }

    fn failed(error: Errno) -> Error {
        Error::io(error.into())
    }

    impl Watcher {
        pub(super) fn new(handler: impl FnMut(Event) + Send + 'static) -> notify::Result<Self> {
            let inotify =
                Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map_err(failed)?;
            let shared = Arc::new(Shared {
                inotify,
                watches: Mutex::default(),
            });
            let (end, alive) = io::pipe().map_err(Error::io)?;
            let served = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("folders".to_owned())
                .stack_size(256 * 1024)
                .spawn(move || served.serve(&end, handler))
                .map_err(Error::io)?;
            Ok(Self {
                shared,
                _alive: alive,
            })
        }

        pub(super) fn watch(&self, folder: &Path, mode: RecursiveMode) -> notify::Result<()> {
            let mut watches = self.shared.watches.lock();
            let added = self.shared.add(&mut watches, folder, mode);
            added.map_err(|error| failed(error).add_path(folder.to_owned()))?;
            if mode == RecursiveMode::Recursive {
                self.shared.add_below(&mut watches, folder);
            }
            Ok(())
        }

        pub(super) fn unwatch(&self, folder: &Path) -> notify::Result<()> {
            let mut watches = self.shared.watches.lock();
            let descriptors: Vec<WatchDescriptor> = watches
                .iter()
                .filter(|(_, watched)| watched.path == folder)
                .map(|(descriptor, _)| *descriptor)
                .collect();
            if descriptors.is_empty() {
                return Err(Error::watch_not_found().add_path(folder.to_owned()));
            }
            for descriptor in descriptors {
                let removed = watches.remove(&descriptor);
                // Fails when the folder is gone, and the watch with it.
                let _ = self.shared.inotify.rm_watch(descriptor);
                if removed.is_some_and(|watched| watched.mode == RecursiveMode::Recursive) {
                    watches.retain(|descriptor, watched| {
                        let stays = !watched.path.starts_with(folder);
                        if !stays {
                            let _ = self.shared.inotify.rm_watch(*descriptor);
                        }
                        stays
                    });
                }
            }
            Ok(())
        }
    }

    impl Shared {
        fn add(
            &self,
            watches: &mut HashMap<WatchDescriptor, Watched>,
            path: &Path,
            mode: RecursiveMode,
        ) -> nix::Result<WatchDescriptor> {
            let changes = AddWatchFlags::IN_ATTRIB
                | AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_DELETE
                | AddWatchFlags::IN_DELETE_SELF
                | AddWatchFlags::IN_MODIFY
                | AddWatchFlags::IN_MOVE
                | AddWatchFlags::IN_MOVE_SELF;
            let descriptor = self.inotify.add_watch(path, changes)?;
            let watched = watches.entry(descriptor).or_insert_with(|| Watched {
                path: path.to_owned(),
                mode,
            });
            if mode == RecursiveMode::Recursive {
                watched.mode = mode;
            }
            Ok(descriptor)
        }

        /// Watches the folders below one. A link to a folder is treated as that folder; one that leads back
        /// up is known by its watch, which is the same.
        fn add_below(&self, watches: &mut HashMap<WatchDescriptor, Watched>, folder: &Path) {
            let mut seen = HashSet::new();
            let mut todo = vec![folder.to_owned()];
            while let Some(folder) = todo.pop() {
                let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
                for path in entries.map(|entry| entry.path()) {
                    if seen.len() >= MOST_BELOW {
                        return;
                    }
                    // What vanishes meanwhile, or may not be looked at, is left out.
                    if path.is_dir()
                        && let Ok(descriptor) = self.add(watches, &path, RecursiveMode::Recursive)
                        && seen.insert(descriptor)
                    {
                        todo.push(path);
                    }
                }
            }
        }

        /// Tells of what happens until the other end of the pipe is closed.
        fn serve(&self, end: &PipeReader, mut handler: impl FnMut(Event)) {
            loop {
                let mut waited = [
                    PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN),
                    PollFd::new(end.as_fd(), PollFlags::POLLIN),
                ];
                match poll(&mut waited, PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(_) => return,
                }
                if waited[1].any().unwrap_or(true) {
                    return;
                }
                match self.inotify.read_events() {
                    Ok(events) => events
                        .iter()
                        .filter_map(|event| self.told(event))
                        .for_each(&mut handler),
                    Err(Errno::EAGAIN | Errno::EINTR) => {}
                    Err(_) => return,
                }
            }
        }

        /// The kind of an event, by the library.
        fn told(&self, event: &InotifyEvent) -> Option<Event> {
            let mask = event.mask;
            let has = |flag| mask.intersects(flag);
            if has(AddWatchFlags::IN_Q_OVERFLOW) {
                return Some(Event::new(EventKind::Other).set_flag(Flag::Rescan));
            }
            let mut watches = self.watches.lock();
            if has(AddWatchFlags::IN_IGNORED) {
                // The folder is gone; that was told before.
                watches.remove(&event.wd);
                return None;
            }
            let watched = watches.get(&event.wd)?;
            let recursive = watched.mode == RecursiveMode::Recursive;
            let path = match &event.name {
                Some(name) => watched.path.join(name),
                None => watched.path.clone(),
            };
            let is_folder = has(AddWatchFlags::IN_ISDIR);
            let kind = if has(AddWatchFlags::IN_CREATE) {
                EventKind::Create(if is_folder {
                    CreateKind::Folder
                } else {
                    CreateKind::File
                })
            } else if has(AddWatchFlags::IN_MOVED_TO) {
                EventKind::Modify(ModifyKind::Name(RenameMode::To))
            } else if has(AddWatchFlags::IN_MOVED_FROM | AddWatchFlags::IN_MOVE_SELF) {
                EventKind::Modify(ModifyKind::Name(RenameMode::From))
            } else if has(AddWatchFlags::IN_DELETE | AddWatchFlags::IN_DELETE_SELF) {
                EventKind::Remove(RemoveKind::Any)
            } else if has(AddWatchFlags::IN_MODIFY) {
                EventKind::Modify(ModifyKind::Data(DataChange::Any))
            } else if has(AddWatchFlags::IN_ATTRIB) {
                EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any))
            } else {
                EventKind::Other
            };
            let appeared = has(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO);
            if recursive && appeared && path.is_dir() {
                // What is in it already makes no event of its own; the event says that the folder is new.
                if self
                    .add(&mut watches, &path, RecursiveMode::Recursive)
                    .is_ok()
                {
                    self.add_below(&mut watches, &path);
                }
            }
            Some(Event::new(kind).add_path(path))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher as _};
    use std::path::Path;

    /// The watcher.
    #[derive(Debug)]
    pub(super) struct Watcher(RecommendedWatcher);

    impl Watcher {
        pub(super) fn new(mut handler: impl FnMut(Event) + Send + 'static) -> notify::Result<Self> {
            let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
                // An error may mean that events were lost: that is a reason to look, too.
                let event = event.unwrap_or_default();
                if !event.kind.is_access() {
                    handler(event);
                }
            })?;
            Ok(Self(watcher))
        }

        pub(super) fn watch(&mut self, folder: &Path, mode: RecursiveMode) -> notify::Result<()> {
            self.0.watch(folder, mode)
        }

        pub(super) fn unwatch(&mut self, folder: &Path) -> notify::Result<()> {
            self.0.unwatch(folder)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::mpsc::{Receiver, channel};

    fn watcher() -> (FolderWatcher, Receiver<Event>) {
        let (told, heard) = channel();
        let watcher = FolderWatcher::new(move |event| {
            let _ = told.send(event);
        })
        .unwrap();
        (watcher, heard)
    }

    /// Everything up to the event that names this path.
    fn until(heard: &Receiver<Event>, path: &Path) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        loop {
            paths.extend(heard.recv().unwrap().paths);
            if paths.iter().any(|told| told == path) {
                return paths;
            }
        }
    }

    #[test]
    fn what_is_written_is_told_and_what_is_opened_or_read_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        std::fs::write(&old, "x").unwrap();
        let (mut watcher, heard) = watcher();
        watcher
            .watch(folder.path(), RecursiveMode::NonRecursive)
            .unwrap();
        let _ = std::fs::read(&old).unwrap();
        let _ = std::fs::read_dir(folder.path()).unwrap().count();
        std::fs::write(&new, "x").unwrap();
        assert_eq!(until(&heard, &new), [new]);
        std::fs::write(&old, "y").unwrap();
        assert!(until(&heard, &old).contains(&old));
    }

    #[test]
    fn folders_below_count_where_that_is_asked_for_also_those_that_appear() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        // A link that leads back up is no trap.
        std::os::unix::fs::symlink(folder.path(), below.join("up")).unwrap();
        let (mut watcher, heard) = watcher();
        watcher
            .watch(folder.path(), RecursiveMode::Recursive)
            .unwrap();
        std::fs::write(below.join("file"), "x").unwrap();
        until(&heard, &below.join("file"));
        let fresh = below.join("c");
        std::fs::create_dir(&fresh).unwrap();
        until(&heard, &fresh);
        std::fs::write(fresh.join("file"), "x").unwrap();
        until(&heard, &fresh.join("file"));
    }

    #[test]
    fn folders_below_do_not_count_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a");
        std::fs::create_dir(&below).unwrap();
        let (mut watcher, heard) = watcher();
        watcher
            .watch(folder.path(), RecursiveMode::NonRecursive)
            .unwrap();
        std::fs::write(below.join("file"), "x").unwrap();
        let last = folder.path().join("last");
        std::fs::write(&last, "x").unwrap();
        assert_eq!(until(&heard, &last), [last]);
    }

    #[test]
    fn a_folder_that_goes_is_told_and_can_be_watched_again() {
        let folder = tempfile::tempdir().unwrap();
        let watched = folder.path().join("watched");
        std::fs::create_dir(&watched).unwrap();
        let (mut watcher, heard) = watcher();
        watcher
            .watch(&watched, RecursiveMode::NonRecursive)
            .unwrap();
        std::fs::remove_dir(&watched).unwrap();
        let removed = heard
            .iter()
            .find(|event| matches!(event.kind, notify::EventKind::Remove(_)));
        assert_eq!(removed.unwrap().paths[0], watched);
        assert!(
            watcher
                .watch(&watched, RecursiveMode::NonRecursive)
                .is_err()
        );
        std::fs::create_dir(&watched).unwrap();
        watcher
            .watch(&watched, RecursiveMode::NonRecursive)
            .unwrap();
        std::fs::write(watched.join("file"), "x").unwrap();
        until(&heard, &watched.join("file"));
    }

    #[test]
    fn what_is_no_longer_watched_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        std::fs::create_dir_all(one.join("below")).unwrap();
        std::fs::create_dir(&other).unwrap();
        let (mut watcher, heard) = watcher();
        watcher.watch(&one, RecursiveMode::Recursive).unwrap();
        watcher.watch(&other, RecursiveMode::NonRecursive).unwrap();
        watcher.unwatch(&one).unwrap();
        assert!(watcher.unwatch(&one).is_err());
        std::fs::write(one.join("below/file"), "x").unwrap();
        std::fs::write(one.join("file"), "x").unwrap();
        std::fs::write(other.join("file"), "x").unwrap();
        assert_eq!(until(&heard, &other.join("file")), [other.join("file")]);
    }

    #[test]
    fn the_thread_ends_with_the_watcher() {
        let (watcher, heard) = watcher();
        drop(watcher);
        // The handler is dropped with the thread.
        assert!(heard.recv().is_err());
    }
}
