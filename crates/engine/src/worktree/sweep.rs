//! Worktrees that nobody came back for.
//!
//! While an agent or a session works, its process holds the lock of its worktree (`<worktree>.lock` beside it); the
//! system lets go of it when the process dies, however it dies. A session that is opened a day later looks
//! for worktrees whose lock nobody holds and removes those in which nothing was done. Whatever holds a
//! change or a commit stays, and so does everything that git doesn't remove of its own accord.

use super::{Conclusion, Worktree, folder_of, outermost};
use crate::context::git::{Git, repository_of};
use lathe_settings::schema::WorktreeSettings;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long a worktree without an owner waits for its session to be taken up again.
pub(crate) const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// The lock of a worktree.
pub(crate) fn lock_of(worktree: &Path) -> PathBuf {
    let mut name = worktree.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Holds a worktree as its owner, for as long as the file is open. `None` when someone else does, or the
/// system has no locks there; then nothing is swept.
pub(crate) fn hold(worktree: &Path) -> Option<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(lock_of(worktree))
        .ok()?;
    file.try_lock().ok()?;
    // The waiting begins anew.
    let _ = file.set_modified(SystemTime::now());
    Some(file)
}

/// Whether another process, or another session of this one, works in a worktree.
pub(super) fn is_held(worktree: &Path) -> bool {
    let file = File::options().write(true).open(lock_of(worktree));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Removes worktrees of a repository that were left behind and in which nothing was done. Gives those that were removed.
pub(crate) async fn sweep(
    git: &Git,
    settings: &WorktreeSettings,
    patience: Duration,
) -> Vec<PathBuf> {
    let Some(top) = repository_of(git.folder()) else {
        return Vec::new();
    };
    // Most repositories have none, and then git isn't asked where they are.
    if settings.location.is_none()
        && !top.join(".git").is_file()
        && !folder_of(&top, settings).exists()
    {
        return Vec::new();
    }
    let repository = outermost(git, &top).await;
    let mut removed = Vec::new();
    for lock in abandoned(&folder_of(&repository, settings), patience) {
        let worktree = lock.with_extension("");
        let Ok(file) = File::options().write(true).open(&lock) else {
            continue;
        };
        if file.try_lock().is_err() {
            continue;
        }
        if let Some(found) = Worktree::find(git, &worktree).await {
            if found.conclude(None).await == Conclusion::Removed {
                removed.push(worktree);
            }
        } else if !worktree.exists() {
            let _ = std::fs::remove_file(&lock);
        }
    }
    removed
}

/// Locks that have been there for longer than a while.
fn abandoned(worktrees: &Path, patience: Duration) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(worktrees) else {
        return Vec::new();
    };
    let old = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok())
            .is_some_and(|age| age >= patience)
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "lock") && old(path))
        .collect();
    found.sort();
    found
}
