//! Locks: one process changes the installation at a time, and a version that runs is not removed.
//!
//! The system holds the locks (`flock`), so they end with their process. The files name it, for people.

use crate::error::{UpdateError, at};
use crate::layout::Layout;
use crate::version::Version;
use lathe_settings::Environment;
use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The lock of those who change the installation.
const UPDATE: &str = "update";
/// Before the version and the process id of a running program.
const RUN: &str = "run-";

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Held {
    file: File,
    /// Removed at the end, for locks with a name of their own.
    path: Option<PathBuf>,
}

impl Drop for Held {
    fn drop(&mut self) {
        match &self.path {
            Some(path) => drop(fs::remove_file(path)),
            // Another process may have the same file open, so it stays.
            None => drop(self.file.set_len(0)),
        }
    }
}

/// Takes the lock of those who change the installation.
pub(crate) fn update(locks: &Path) -> Result<Held, UpdateError> {
    let path = locks.join(UPDATE);
    let mut file = open(&path).map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let holder = match pid.trim().parse::<u32>() {
                Ok(pid) => format!("PID {pid}"),
                Err(_) => "which has just started".to_owned(),
            };
            return Err(UpdateError::Busy { holder });
        }
        Err(TryLockError::Error(error)) => return Err(at(&path)(error)),
    }
    let _ = file.set_len(0);
    let _ = write!(file, "{}", std::process::id());
    Ok(Held { file, path: None })
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(path)
}

/// Marks this process as one that runs a version of the native layout. Costs a look at the program's own path
/// where the installation is of another kind.
#[must_use]
pub fn running(environment: &Environment) -> Option<Held> {
    let program = std::env::current_exe().ok()?;
    let layout = Layout::of(environment).ok()?;
    let version = layout.version_of(&program)?;
    let path = layout
        .locks()
        .join(format!("{RUN}{version}-{}", std::process::id()));
    let mut file = open(&path).ok()?;
    file.try_lock().ok()?;
    let _ = write!(file, "{}", std::process::id());
    Some(Held {
        file,
        path: Some(path),
    })
}

/// A lock, as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The name of its file.
    pub name: String,
    /// The process that it names.
    pub pid: Option<u32>,
    /// Whether a process holds it.
    pub held: bool,
}

/// The locks that are there; an update lock that was given back is none.
#[must_use]
pub fn list(locks: &Path) -> Vec<Found> {
    let mut found: Vec<Found> = fs::read_dir(locks)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let found = Found {
                name: entry.file_name().to_string_lossy().into_owned(),
                pid: text.trim().parse().ok(),
                held: is_held(&entry.path()),
            };
            (found.held || found.pid.is_some() || found.name != UPDATE).then_some(found)
        })
        .collect();
    found.sort_by(|one, two| one.name.cmp(&two.name));
    found
}

fn is_held(path: &Path) -> bool {
    let file = File::options().read(true).open(path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether a process runs a version.
pub(crate) fn is_running(locks: &Path, version: &Version) -> bool {
    let beginning = format!("{RUN}{version}-");
    list(locks).iter().any(|lock| {
        let rest = lock.name.strip_prefix(&beginning);
        lock.held && rest.is_some_and(|pid| pid.parse::<u32>().is_ok())
    })
}

/// Removes the locks of processes that are gone.
pub(crate) fn remove_stale(locks: &Path) {
    for lock in list(locks) {
        if !lock.held && lock.name.starts_with(RUN) {
            let _ = fs::remove_file(locks.join(lock.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_changes_the_installation_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let held = update(folder.path()).unwrap();
        let refused = update(folder.path()).unwrap_err().to_string();
        let pid = std::process::id();
        assert!(refused.contains(&format!("PID {pid}")), "{refused}");
        let found = list(folder.path());
        assert!(found[0].held && found[0].pid == Some(pid), "{found:?}");
        drop(held);
        assert_eq!(list(folder.path()), []);
        drop(update(folder.path()).unwrap());
    }

    #[test]
    fn a_lock_without_a_process_is_stale_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let version: Version = "0.1.0".parse().unwrap();
        let path = folder.path().join("run-0.1.0-4000000");
        fs::write(&path, "4000000").unwrap();
        assert!(!is_running(folder.path(), &version));
        let holder = File::open(&path).unwrap();
        holder.lock().unwrap();
        assert!(is_running(folder.path(), &version));
        assert!(!is_running(
            folder.path(),
            &"0.1.0-4000000".parse().unwrap()
        ));
        remove_stale(folder.path());
        assert!(path.exists());
        drop(holder);
        remove_stale(folder.path());
        assert!(!path.exists());
    }
}
