//! The folder of a sandbox, for as long as a session lives, and what killed sessions left behind.
//!
//! A folder is locked while its session lives; the lock goes with the process, however that ends. The next
//! sandbox of the same person removes folders that nobody locks, and the stand-ins for absent files that
//! are listed in them.

use crate::stubs;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const PREFIX: &str = "run-";
/// A folder that is being removed. The next session that finds one removes the rest.
const GONE_PREFIX: &str = "gone-";
const LOCK: &str = "lock";
/// Names the folder for sockets.
const SOCKETS: &str = "sockets";
const SOCKETS_PREFIX: &str = "lathe-sockets-";
/// The list of stand-ins.
pub(crate) const STUBS: &str = "stubs";

/// The folder of one session. Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct State {
    folder: PathBuf,
    /// Held for as long as the folder is in use.
    _lock: File,
}

impl State {
    /// Makes a folder in `base`, after removing those that nobody uses any more.
    pub(crate) fn new(base: &Path) -> io::Result<Self> {
        private_folder(base)?;
        sweep(base);
        for attempt in 0..100u32 {
            let name = format!("{PREFIX}{}-{attempt}-{:x}", std::process::id(), moment());
            let folder = base.join(name);
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            let lock = open_lock(&folder, true)?;
            if !try_lock(&lock) {
                continue;
            }
            let state = Self {
                folder,
                _lock: lock,
            };
            state.fill()?;
            live().push(state.folder.clone());
            return Ok(state);
        }
        Err(io::Error::other("no free name for a folder was found"))
    }

    fn fill(&self) -> io::Result<()> {
        let temporary = self.temporary();
        fs::DirBuilder::new().mode(0o700).create(&temporary)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        drop(options.open(self.unreadable())?);
        fs::set_permissions(self.unreadable(), fs::Permissions::from_mode(0o000))
    }

    /// A folder for sockets, whose paths must be short. Goes with the session.
    pub(crate) fn sockets(&self) -> io::Result<PathBuf> {
        let note = self.folder.join(SOCKETS);
        if let Ok(path) = fs::read_to_string(&note) {
            return Ok(path.into());
        }
        let name = format!("{SOCKETS_PREFIX}{}-{:x}", std::process::id(), moment());
        let path = std::env::temp_dir().join(name);
        fs::write(&note, path.as_os_str().as_encoded_bytes())?;
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    /// A new folder for what stands for other files. Goes with the session.
    pub(crate) fn masks(&self) -> io::Result<PathBuf> {
        let path = self.folder.join(format!("masks-{:x}", moment()));
        private_folder(&path)?;
        Ok(path)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that is `/tmp` for commands.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// A file that nobody can read, which stands for hidden ones.
    pub(crate) fn unreadable(&self) -> PathBuf {
        self.folder.join("unreadable")
    }
}

impl Drop for State {
    fn drop(&mut self) {
        live().retain(|folder| *folder != self.folder);
        remove(&self.folder);
    }
}

/// The folders of this process.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn live() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes everything that sandboxes of this process keep on disk: for the way out, when nothing runs any more.
pub fn remove_everything() {
    for folder in live().drain(..) {
        if let Some(base) = folder.parent() {
            stubs::remove_listed(base, &folder);
        }
        remove(&folder);
    }
}

/// A number that two folders of one process don't have in common.
fn moment() -> u128 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos())
}

/// Makes a folder that only this person can use.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn open_lock(folder: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .open(folder.join(LOCK))
}

fn try_lock(file: &File) -> bool {
    // SAFETY: the descriptor is open for the length of the call.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// The folders of sessions in `base`, with whether each is in use.
pub(crate) fn sessions(base: &Path) -> Vec<(PathBuf, bool)> {
    let Ok(entries) = fs::read_dir(base) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|entry| {
            let folder = entry.path();
            // A folder without a lock is being made, or was left half-made a while ago.
            let used = match open_lock(&folder, false) {
                Ok(lock) => !try_lock(&lock),
                Err(_) => is_fresh(&folder) && maker_lives(&folder),
            };
            (folder, used)
        })
        .collect()
}

fn is_fresh(folder: &Path) -> bool {
    let age = folder
        .metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|time| time.elapsed().ok());
    age.is_none_or(|age| age.as_secs() < 60)
}

/// Whether the process that a folder is named after is there.
fn maker_lives(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
    let Some(number) = number.and_then(|number| number.parse::<libc::pid_t>().ok()) else {
        return false;
    };
    // SAFETY: sends nothing, only looks.
    let found = unsafe { libc::kill(number, 0) };
    found == 0 || io::Error::last_os_error().kind() == io::ErrorKind::PermissionDenied
}

/// Removes what killed sessions left.
fn sweep(base: &Path) {
    for (folder, used) in sessions(base) {
        if used {
            continue;
        }
        stubs::remove_listed(base, &folder);
        remove(&folder);
    }
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(GONE_PREFIX) {
            remove_all(&entry.path());
        }
    }
}

/// Removes the folder of a session. It gets another name first: without its lock it would count as one that is being made.
fn remove(folder: &Path) {
    let name = folder.file_name().and_then(|name| name.to_str());
    let other = name.and_then(|name| name.strip_prefix(PREFIX));
    let other = other.map(|rest| folder.with_file_name(format!("{GONE_PREFIX}{rest}")));
    match other {
        Some(other) if fs::rename(folder, &other).is_ok() => remove_all(&other),
        _ => remove_all(folder),
    }
}

/// Removes a folder with everything in it, also what the kernel's overlay made unreadable there.
fn remove_all(folder: &Path) {
    if let Ok(sockets) = fs::read_to_string(folder.join(SOCKETS)) {
        let sockets = Path::new(&sockets);
        let name = sockets
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        if name.is_some_and(|name| name.starts_with(SOCKETS_PREFIX)) {
            let _ = fs::remove_dir_all(sockets);
        }
    }
    if fs::remove_dir_all(folder).is_ok() {
        return;
    }
    open_up(folder, 0);
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::debug!(folder = %folder.display(), %error, "a folder of the sandbox was not removed");
    }
}

/// Makes folders removable that a command, or the kernel, made unreadable.
fn open_up(folder: &Path, depth: usize) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if depth < 64 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path(), depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_session() {
        let base = tempfile::tempdir().unwrap();
        let state = State::new(base.path()).unwrap();
        let folder = state.folder().to_path_buf();
        assert!(folder.join("tmp").is_dir());
        assert_eq!(sessions(base.path()), [(folder.clone(), true)]);
        drop(state);
        assert!(!folder.exists());
    }

    #[test]
    fn a_removal_that_was_cut_short_is_finished_by_the_next() {
        let base = tempfile::tempdir().unwrap();
        let project = tempfile::tempdir().unwrap();
        let stub = project.path().join("stub");
        // Killed while it removed a folder, and killed before it locked its own: no such process is there any more.
        let half = base.path().join("gone-1-0-abc");
        fs::create_dir_all(half.join("tmp/more")).unwrap();
        let made = base.path().join(format!("run-{}-0-abc", libc::pid_t::MAX));
        fs::create_dir(&made).unwrap();
        let mut list = b"f".to_vec();
        list.extend_from_slice(stub.as_os_str().as_encoded_bytes());
        list.push(0);
        fs::write(made.join(STUBS), list).unwrap();
        fs::write(&stub, "").unwrap();
        let state = State::new(base.path()).unwrap();
        assert!(!half.exists() && !made.exists() && !stub.exists());
        // One that is being made by somebody who lives is left alone.
        let being_made = base
            .path()
            .join(format!("run-{}-9-abc", std::process::id()));
        fs::create_dir(&being_made).unwrap();
        drop(State::new(base.path()).unwrap());
        assert!(being_made.exists());
        drop(state);
    }

    #[test]
    fn what_a_killed_session_left_is_removed_by_the_next() {
        let base = tempfile::tempdir().unwrap();
        let left = base.path().join("run-1-0-abc");
        fs::create_dir_all(left.join("tmp/closed")).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::set_permissions(left.join("tmp/closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let state = State::new(base.path()).unwrap();
        assert!(!left.exists());
        let second = State::new(base.path()).unwrap();
        assert!(state.folder().exists(), "a living session keeps its folder");
        drop(second);
    }
}
