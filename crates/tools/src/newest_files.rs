//! The newest files whose names match, of a whole tree.
//!
//! This is its own walk, since it can do less than one that hands on every file: a file is held against
//! the glob first, only what matches is held against the rules of ignore files, and only what is left is
//! asked for its time, by its name in the folder that is open anyway. The rules are those of
//! [`crate::walk`]. Threads take folders from one list; each keeps its own newest files.

use crate::walk::{self, Ignored, VERSION_CONTROL};
use globset::GlobSet;
use ignore::IncrementalIgnore;
use lathe_settings::regular_file::has_endless_ignore_file;
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use parking_lot::{Condvar, Mutex};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// When a file was changed: seconds and billionths since 1970.
type Time = (i64, i64);

/// The newest files of many. The greatest of them is the one that goes first: the oldest, and of equally
/// old ones the last by name.
pub(crate) struct Newest {
    files: BinaryHeap<(Reverse<Time>, PathBuf)>,
    most: usize,
    /// How many there were in all.
    pub(crate) total: usize,
}

impl Newest {
    fn new(most: usize) -> Self {
        Self {
            files: BinaryHeap::new(),
            most,
            total: 0,
        }
    }

    /// Counts a file, and keeps it if it is one of the newest.
    fn add(&mut self, modified: Time, path: &Path) {
        self.total += 1;
        if self.files.len() >= self.most {
            let is_older = self.files.peek().is_some_and(|(oldest, last)| {
                (&Reverse(modified), path) >= (oldest, last.as_path())
            });
            if is_older {
                return;
            }
            self.files.pop();
        }
        self.files.push((Reverse(modified), path.to_owned()));
    }

    fn absorb(&mut self, other: Self) {
        let left_out = other.total - other.files.len();
        for (Reverse(modified), path) in other.files {
            self.add(modified, &path);
        }
        self.total += left_out;
    }

    /// The files, newest first.
    pub(crate) fn into_paths(self) -> impl Iterator<Item = PathBuf> {
        let files = self.files.into_sorted_vec();
        files.into_iter().map(|(_, path)| path)
    }
}

/// The newest files below a folder that match, by their paths in it. Folders that can't be read are left
/// out, as in a shell; a search that was cancelled finds part.
pub(crate) fn find(
    base: &Path,
    set: &GlobSet,
    ignored: Ignored,
    most: usize,
    cancel: &CancellationToken,
) -> Newest {
    let mut rules = match ignored {
        Ignored::LeftOut if base.ancestors().any(has_endless_ignore_file) => None,
        Ignored::LeftOut => walk::walk(base, ignored)
            .build_matchers()
            .into_iter()
            .next(),
        Ignored::Included => None,
    };
    if let Some(rules) = &mut rules {
        // What the threads share is read once, before there are several.
        rules.matched("a", false);
    }
    let search = Search {
        base,
        set,
        rules,
        most,
        cancel,
        waiting: Mutex::new(Waiting {
            folders: vec![Vec::new()],
            busy: 0,
        }),
        news: Condvar::new(),
        found: Mutex::new(Newest::new(most)),
    };
    std::thread::scope(|scope| {
        for _ in 1..walk::threads() {
            scope.spawn(|| search.work());
        }
        search.work();
    });
    search.found.into_inner()
}

/// Folders that nobody has looked into yet, by their paths below the base.
struct Waiting {
    folders: Vec<Vec<u8>>,
    /// How many threads look into one.
    busy: usize,
}

/// State shared by the threads of a search.
struct Search<'a> {
    base: &'a Path,
    set: &'a GlobSet,
    /// The rules of ignore files, to be copied: each thread learns those of the folders it sees.
    rules: Option<IncrementalIgnore>,
    most: usize,
    cancel: &'a CancellationToken,
    waiting: Mutex<Waiting>,
    news: Condvar,
    found: Mutex<Newest>,
}

impl Search<'_> {
    /// Looks into folders until there are none.
    fn work(&self) {
        let mut worker = Worker {
            search: self,
            rules: self.rules.clone(),
            own: Newest::new(self.most),
            below: Vec::new(),
        };
        while let Some(looking) = self.next() {
            if !self.cancel.is_cancelled() {
                worker.look_into(&looking.folder);
            }
            self.waiting.lock().folders.append(&mut worker.below);
        }
        self.found.lock().absorb(worker.own);
    }

    /// The next folder; waits for one while other threads may still find some.
    fn next(&self) -> Option<Looking<'_>> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(folder) = waiting.folders.pop() {
                waiting.busy += 1;
                return Some(Looking {
                    search: self,
                    folder,
                });
            }
            if waiting.busy == 0 {
                return None;
            }
            self.news.wait(&mut waiting);
        }
    }
}

/// A folder that is looked into. However that ends, the others hear of it.
struct Looking<'a> {
    search: &'a Search<'a>,
    folder: Vec<u8>,
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.search.waiting.lock().busy -= 1;
        self.search.news.notify_all();
    }
}

/// One thread of a search.
struct Worker<'a> {
    search: &'a Search<'a>,
    rules: Option<IncrementalIgnore>,
    own: Newest,
    /// Folders that were found.
    below: Vec<Vec<u8>>,
}

impl Worker<'_> {
    /// Visits the entries of a folder. Those that can't be read are left out.
    fn look_into(&mut self, folder: &[u8]) -> Option<()> {
        let path = self.search.base.join(OsStr::from_bytes(folder));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let open = nix::fcntl::open(&path, flags, Mode::empty()).ok()?;
        let mut listing = Dir::from_fd(open.try_clone().ok()?).ok()?;
        // The path of an entry below the base; only its end changes.
        let mut relative = folder.to_vec();
        if !folder.is_empty() {
            relative.push(b'/');
        }
        let start = relative.len();
        for entry in listing.iter() {
            let Ok(entry) = entry else { break };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            relative.truncate(start);
            relative.extend_from_slice(name.to_bytes());
            let status = |name: &CStr| fstatat(&open, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok();
            // Not every file system says what an entry is.
            let known = entry.file_type();
            let kind = known.or_else(|| status(name).and_then(|status| kind_of(&status)));
            match kind {
                Some(Type::Directory) => self.enter(&relative, name),
                Some(kind) if self.search.set.is_match(path_of(&relative)) => {
                    if self.is_wanted(&relative, kind)
                        && let Some(status) = status(name)
                    {
                        let modified = (status.st_mtime, status.st_mtime_nsec);
                        self.own.add(modified, path_of(&relative));
                    }
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Notes a folder, unless it is left out.
    fn enter(&mut self, relative: &[u8], name: &CStr) {
        let is_left_out = VERSION_CONTROL
            .iter()
            .any(|folder| folder.as_bytes() == name.to_bytes())
            || self.is_ignored(relative, true);
        let is_endless = self.rules.is_some()
            && has_endless_ignore_file(&self.search.base.join(path_of(relative)));
        if !is_left_out && !is_endless {
            self.below.push(relative.to_vec());
        }
    }

    /// Whether a match is used: not if it is ignored, and a link to a folder is not a file.
    fn is_wanted(&mut self, relative: &[u8], kind: Type) -> bool {
        !self.is_ignored(relative, false)
            && (kind != Type::Symlink || self.search.base.join(path_of(relative)).is_file())
    }

    fn is_ignored(&mut self, relative: &[u8], is_folder: bool) -> bool {
        let path = path_of(relative);
        let rules = self.rules.as_mut();
        rules.is_some_and(|rules| rules.matched(path, is_folder).is_ignore())
    }
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn kind_of(status: &FileStat) -> Option<Type> {
    match SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFDIR => Some(Type::Directory),
        SFlag::S_IFLNK => Some(Type::Symlink),
        SFlag::S_IFREG => Some(Type::File),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_many_are_kept_whatever_their_order() {
        // Each time twice, so that names decide too.
        let mut files: Vec<(Time, PathBuf)> = (0..1_000)
            .map(|number| {
                (
                    (number / 2, 0),
                    PathBuf::from(format!("{:04}", number % 7 * 1_000 + number)),
                )
            })
            .collect();
        let mut wanted = files.clone();
        wanted.sort_by_key(|(at, path)| (Reverse(*at), path.clone()));
        wanted.truncate(100);
        let wanted: Vec<PathBuf> = wanted.into_iter().map(|(_, path)| path).collect();
        for turn in 0..3 {
            files.rotate_left(turn * 331);
            let mut threads = [(); 3].map(|()| Newest::new(100));
            for (number, (modified, path)) in files.iter().enumerate() {
                threads[number % (turn + 1)].add(*modified, path);
            }
            let mut all = Newest::new(100);
            threads.into_iter().for_each(|own| all.absorb(own));
            assert_eq!(all.total, 1_000);
            assert_eq!(all.into_paths().collect::<Vec<_>>(), wanted);
        }
    }

    #[test]
    fn what_is_found_is_what_the_other_walk_finds() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        let write = |path: &str, text: &str| {
            let path = base.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(".gitignore", "*.log\n/build/\nsecret*\n!keep.log\n");
        write(".ignore", "docs/draft.md\n");
        write("a/.gitignore", "!secret.txt\nlocal/\n*.tmp\n");
        write("a/b/.ignore", "!x.tmp\n");
        for path in [
            "one.txt",
            "two.log",
            "keep.log",
            "build/x.txt",
            "deep/build/x.txt",
            "secret.txt",
            "a/secret.txt",
            "a/local/x.txt",
            "a/x.tmp",
            "a/b/x.tmp",
            "a/b/local/y",
            "docs/draft.md",
            "docs/final.md",
            ".hidden/file",
            ".git/config",
            "a/.hg/store",
            "a/b/ä ö.txt",
        ] {
            write(path, "");
        }
        std::os::unix::fs::symlink("a", base.join("link-to-folder")).unwrap();
        std::os::unix::fs::symlink("one.txt", base.join("link-to-file")).unwrap();
        std::os::unix::fs::symlink("nowhere", base.join("broken")).unwrap();
        let mut set = globset::GlobSetBuilder::new();
        walk::add(&mut set, "*").unwrap();
        let set = walk::build(&set).unwrap();
        for ignored in [Ignored::LeftOut, Ignored::Included] {
            let found = find(base, &set, ignored, 1_000, &CancellationToken::new());
            let total = found.total;
            let mut found: Vec<PathBuf> = found.into_paths().collect();
            found.sort();
            let mut wanted: Vec<PathBuf> = walk::walk(base, ignored)
                .build()
                .filter_map(Result::ok)
                .filter(|entry| entry.file_type().is_some_and(|kind| !kind.is_dir()))
                .filter(|entry| entry.path().is_file())
                .map(|entry| entry.path().strip_prefix(base).unwrap().to_owned())
                .collect();
            wanted.sort();
            assert_eq!(found, wanted);
            assert_eq!(total, wanted.len());
            assert!(wanted.len() >= 10, "{wanted:?}");
        }
    }
}
