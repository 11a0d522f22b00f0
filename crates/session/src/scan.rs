//! The files that a shell command changed.
//!
//! A command can touch any file, so the writable roots are looked over before and after one that
//! isn't read-only: sizes and times of all files, and the contents of small ones, so that they can
//! be put back. Looking is bounded in time and in number; what was not looked at is said
//! ([`Scan::uncovered`]), never passed over in silence.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Folders of things that can be made again: version control, packages, caches.
const PASSED_OVER: [&str; 9] = [
    ".git",
    ".hg",
    ".svn",
    ".jj",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
];
/// The file that marks a folder as a cache (of Cargo and many others).
const CACHE_MARK: &str = "CACHEDIR.TAG";

/// How much to look at.
#[derive(Debug, Clone, Copy)]
pub struct ScanLimits {
    /// How many files.
    pub files: usize,
    /// How long.
    pub time: Duration,
    /// How many bytes of contents are kept in memory, in all.
    pub kept_bytes: u64,
    /// The largest file whose content is kept.
    pub kept_file_bytes: u64,
}

impl Default for ScanLimits {
    fn default() -> Self {
        Self {
            files: 20_000,
            time: Duration::from_millis(200),
            kept_bytes: 8 << 20,
            kept_file_bytes: 256 << 10,
        }
    }
}

impl ScanLimits {
    /// Looks at as much, and keeps no contents: for the look afterwards.
    #[must_use]
    pub fn without_contents(self) -> Self {
        Self {
            kept_bytes: 0,
            ..self
        }
    }
}

/// Identifies a version of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
    mode: u32,
}

/// Something that a scan did not look at, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncovered {
    /// The folder, or the root where looking stopped.
    pub path: PathBuf,
    /// Why.
    pub reason: &'static str,
}

/// The files of some folders at one moment.
#[derive(Debug, Default)]
pub struct Scan {
    stamps: HashMap<PathBuf, Stamp>,
    contents: HashMap<PathBuf, Vec<u8>>,
    /// Paths that were not scanned.
    pub uncovered: Vec<Uncovered>,
    /// Whether a limit cut the look short.
    pub cut_short: bool,
}

/// The difference between two scans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Files that were not there before.
    pub created: Vec<PathBuf>,
    /// Files with another content, mode or time.
    pub modified: Vec<PathBuf>,
    /// Files that are gone.
    pub deleted: Vec<PathBuf>,
    /// Paths that one of the scans left out.
    pub uncovered: Vec<Uncovered>,
}

impl Changes {
    /// Whether nothing is different in what was looked at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.modified.is_empty() && self.deleted.is_empty()
    }
}

/// Looks over folders. `excluded` folders (the session's own files) are left out without a word.
#[must_use]
pub fn scan(roots: &[PathBuf], excluded: &[PathBuf], limits: ScanLimits) -> Scan {
    let mut scan = Scan::default();
    let end = Instant::now() + limits.time;
    let mut kept = 0;
    // Breadth first: the files near the root are the ones that people work on.
    let mut folders: VecDeque<PathBuf> = roots.iter().cloned().collect();
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = fs::read_dir(&folder) else {
            scan.uncovered.push(Uncovered {
                path: folder,
                reason: "it can't be read",
            });
            continue;
        };
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            let Ok(found) = entry.metadata() else {
                continue;
            };
            if found.is_dir() {
                if excluded.contains(&path) {
                    continue;
                }
                match passed_over(&path) {
                    Some(reason) => scan.uncovered.push(Uncovered { path, reason }),
                    None => folders.push_back(path),
                }
                continue;
            }
            if !found.is_file() && !found.is_symlink() {
                continue;
            }
            if scan.stamps.len() >= limits.files || Instant::now() >= end {
                let reason = "there are too many files to look at in the time allowed";
                scan.uncovered.push(Uncovered {
                    path: folder,
                    reason,
                });
                scan.cut_short = true;
                return scan;
            }
            if found.is_file()
                && found.len() <= limits.kept_file_bytes
                && kept + found.len() <= limits.kept_bytes
                && let Ok(content) = fs::read(&path)
            {
                kept += content.len() as u64;
                scan.contents.insert(path.clone(), content);
            }
            scan.stamps.insert(path, Stamp::of(&found));
        }
    }
    scan
}

fn passed_over(folder: &Path) -> Option<&'static str> {
    let name = folder.file_name()?.to_string_lossy();
    if PASSED_OVER.contains(&name.as_ref()) {
        return Some("it belongs to version control or a package manager");
    }
    folder
        .join(CACHE_MARK)
        .exists()
        .then_some("it is marked as a cache")
}

impl Stamp {
    fn of(found: &fs::Metadata) -> Self {
        Self {
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            inode: found.ino(),
            mode: found.mode(),
        }
    }
}

impl Scan {
    /// How many files were looked at.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stamps.len()
    }

    /// Whether there was no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// The content of a file at that moment, if it was kept, with its mode.
    pub(crate) fn content(&self, path: &Path) -> Option<(&[u8], u32)> {
        let stamp = self.stamps.get(path)?;
        self.contents
            .get(path)
            .map(|content| (content.as_slice(), stamp.mode & 0o7777))
    }

    /// The changes up to a later scan.
    #[must_use]
    pub fn changes(&self, later: &Scan) -> Changes {
        let mut changes = Changes::default();
        for (path, stamp) in &later.stamps {
            match self.stamps.get(path) {
                Some(before) if before == stamp => {}
                Some(_) => changes.modified.push(path.clone()),
                // When the first look was cut short, the file may have been there all along.
                None if self.cut_short => changes.uncovered.push(Uncovered {
                    path: path.clone(),
                    reason: "it was not checked before the command",
                }),
                None => changes.created.push(path.clone()),
            }
        }
        for path in self
            .stamps
            .keys()
            .filter(|path| !later.stamps.contains_key(*path))
        {
            let gone = fs::symlink_metadata(path).is_err_and(|error| {
                error.kind() == io::ErrorKind::NotFound
                    || error.kind() == io::ErrorKind::NotADirectory
            });
            if gone {
                changes.deleted.push(path.clone());
            }
        }
        for list in [
            &mut changes.created,
            &mut changes.modified,
            &mut changes.deleted,
        ] {
            list.sort();
        }
        // A file that looks new in a look cut short is one of many that weren't seen: say so once.
        changes.uncovered.truncate(20);
        for uncovered in self.uncovered.iter().chain(&later.uncovered) {
            if !changes.uncovered.contains(uncovered) {
                changes.uncovered.push(uncovered.clone());
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[PathBuf]) -> Vec<String> {
        paths
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn what_a_command_created_changed_and_deleted_is_found() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["same", "edited", "deleted", "chmodded"] {
            fs::write(at(name), name).unwrap();
        }
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("sub/inner"), "x").unwrap();
        let roots = [root.path().to_owned()];
        let before = scan(&roots, &[], ScanLimits::default());
        let status = std::process::Command::new("bash")
            .args(["-c", "echo more >> edited; rm deleted; chmod 700 chmodded; echo n > sub/new; rm -r sub/inner"])
            .current_dir(root.path())
            .status()
            .unwrap();
        assert!(status.success());
        let after = scan(&roots, &[], ScanLimits::default().without_contents());
        let changes = before.changes(&after);
        assert_eq!(names(&changes.created), ["new"]);
        assert_eq!(names(&changes.modified), ["chmodded", "edited"]);
        assert_eq!(names(&changes.deleted), ["deleted", "inner"]);
        assert!(changes.uncovered.is_empty());
        assert_eq!(before.content(&at("edited")).unwrap().0, b"edited");
        assert!(after.contents.is_empty());
    }

    #[test]
    fn what_is_not_looked_at_is_said() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("node_modules/a")).unwrap();
        fs::create_dir_all(root.path().join("build")).unwrap();
        fs::write(root.path().join("build").join(CACHE_MARK), "").unwrap();
        fs::write(root.path().join("node_modules/a/b"), "").unwrap();
        fs::create_dir_all(root.path().join("own")).unwrap();
        fs::write(root.path().join("own/file"), "").unwrap();
        let roots = [root.path().to_owned()];
        let look = scan(&roots, &[root.path().join("own")], ScanLimits::default());
        assert_eq!(look.len(), 0);
        assert_eq!(look.uncovered.len(), 2);
        assert!(!look.cut_short);
    }

    #[test]
    fn a_look_that_was_cut_short_claims_nothing_about_what_it_missed() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..10 {
            fs::write(root.path().join(number.to_string()), "").unwrap();
        }
        let roots = [root.path().to_owned()];
        let limits = ScanLimits {
            files: 3,
            ..ScanLimits::default()
        };
        let before = scan(&roots, &[], limits);
        assert!(before.cut_short);
        let changes = before.changes(&scan(&roots, &[], ScanLimits::default()));
        assert!(changes.is_empty(), "{changes:?}");
        assert!(changes.uncovered.len() >= 7);
        // The other way round: not seen again is not gone.
        let whole = scan(&roots, &[], ScanLimits::default());
        assert!(whole.changes(&scan(&roots, &[], limits)).is_empty());
    }
}
