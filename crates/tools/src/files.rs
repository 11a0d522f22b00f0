//! Loading a file and putting another in its place, so that whatever happens the file is either
//! the old one or the new one, whole.
//!
//! A change is written to a temporary file in the same folder, synced, given the old file's mode
//! and owner, and renamed over it. Immediately before the rename the file is looked at once more:
//! if it is no longer what was loaded, nothing is changed. Symlinks stay; what they lead to is
//! replaced.

use sha2::{Digest, Sha256};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The largest file that is loaded to be changed.
pub const LARGEST_FILE: u64 = 1024 * 1024 * 1024;

/// Up to this size a file is compared by its bytes before it is replaced, not only by its time and
/// size: file systems keep time coarsely, so two writes can fall on the same tick.
const COMPARE_BYTES_UP_TO: u64 = 16 * 1024 * 1024;

/// How many symlinks may follow one another, as in the kernel.
const LONGEST_LINK_CHAIN: usize = 40;

/// A SHA-256 of a file's bytes.
pub type ContentHash = [u8; 32];

/// The hash of bytes.
#[must_use]
pub fn hash_of(bytes: &[u8]) -> ContentHash {
    Sha256::digest(bytes).into()
}

/// Identifies a version of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// When it was last written.
    pub modified: Option<SystemTime>,
    /// Its length in bytes.
    pub size: u64,
}

impl Stamp {
    /// The stamp in a file's metadata.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            modified: metadata.modified().ok(),
            size: metadata.len(),
        }
    }

    /// The stamp of a text that is in no file: an editor's buffer that was not saved. Versions of it are told
    /// apart by their hashes.
    #[must_use]
    pub fn unsaved(text: &str) -> Self {
        Self {
            modified: None,
            size: text.len() as u64,
        }
    }

    /// Whether this is the stamp of a buffer.
    #[must_use]
    pub fn is_unsaved(&self) -> bool {
        self.modified.is_none()
    }
}

/// Why a file could not be loaded or replaced. The texts are for the model.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A folder.
    #[error("{0} is a directory, not a file.")]
    Directory(String),
    /// A device, FIFO or socket.
    #[error("{path} is {kind}, not a regular file, so it was not changed.")]
    Special {
        /// The path.
        path: String,
        /// Its kind.
        kind: &'static str,
    },
    /// Too large to be changed in memory.
    #[error(
        "{path} is {size} bytes; files above 1 GiB can't be changed with this tool. Use a shell command (sed, split)."
    )]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        size: u64,
    },
    /// Nobody may write it.
    #[error(
        "{0} is read-only (its mode has no write permission), so it was not changed. If it should be changed, make it writable first (chmod u+w) or ask the user."
    )]
    ReadOnly(String),
    /// Symlinks in a circle.
    #[error("{0} is a symlink that points to itself.")]
    LinkLoop(String),
    /// Someone else changed it meanwhile.
    #[error(
        "{0} was changed by another program while it was being edited, so nothing was written. Read it again and repeat the change."
    )]
    ChangedMeanwhile(String),
    /// Someone else created it meanwhile.
    #[error(
        "{0} was created by another program in the meantime, so nothing was written. Read it first."
    )]
    CreatedMeanwhile(String),
    /// No room.
    #[error(
        "No space left on the disk for {path} ({error}). The file is unchanged; free some space and try again."
    )]
    NoRoom {
        /// The path.
        path: String,
        /// The system's words.
        error: io::Error,
    },
    /// Anything else the system says.
    #[error("{path} could not be {action}: {error}.")]
    System {
        /// The path.
        path: String,
        /// The operation.
        action: &'static str,
        /// The system's words.
        error: io::Error,
    },
}

impl FileError {
    fn system(path: &Path, action: &'static str, error: io::Error) -> Self {
        let path = path.display().to_string();
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::NoRoom { path, error },
            _ => Self::System {
                path,
                action,
                error,
            },
        }
    }
}

/// Follows symlinks by hand, so that a link to something that doesn't exist yet leads somewhere.
///
/// # Errors
/// When the links go in a circle or can't be read.
pub fn follow_links(path: &Path) -> Result<PathBuf, FileError> {
    let mut hops = link_hops(path)?;
    Ok(hops.pop().unwrap_or_else(|| path.to_owned()))
}

/// The path and every path that its last component leads to by symlinks, in order.
///
/// # Errors
/// When the links go in a circle or can't be read.
pub fn link_hops(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut hops = vec![path.to_owned()];
    let mut current = path.to_owned();
    for _ in 0..LONGEST_LINK_CHAIN {
        match std::fs::symlink_metadata(&current) {
            Ok(metadata) if metadata.file_type().is_symlink() => {
                let target = std::fs::read_link(&current)
                    .map_err(|error| FileError::system(&current, "followed", error))?;
                current = match current.parent() {
                    Some(parent) => parent.join(target),
                    None => target,
                };
                hops.push(current.clone());
            }
            _ => return Ok(hops),
        }
    }
    Err(FileError::LinkLoop(path.display().to_string()))
}

/// The kind of special file, if it is one.
#[must_use]
pub fn special_kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_dir() || kind.is_symlink() {
        None
    } else if kind.is_fifo() {
        Some("a named pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("a device")
    } else {
        Some("a special file")
    }
}

/// A file's bytes and the identity of the version that they are.
#[derive(Debug)]
pub struct Loaded {
    /// The file itself, after symlinks.
    pub target: PathBuf,
    /// Its content.
    pub bytes: Vec<u8>,
    /// The hash of the content.
    pub hash: ContentHash,
    /// Time and size.
    pub stamp: Stamp,
    inode: u64,
    mode: u32,
    owner: (u32, u32),
    links: u64,
}

impl Loaded {
    /// How many names the file has beside this one.
    #[must_use]
    pub fn other_names(&self) -> u64 {
        self.links.saturating_sub(1)
    }
}

/// Loads a file that is to be changed. `None` when there is none yet.
///
/// # Errors
/// When it is not a regular file, is read-only or too large, or the system says no.
pub fn load_for_change(path: &Path) -> Result<Option<Loaded>, FileError> {
    let target = follow_links(path)?;
    let shown = || path.display().to_string();
    let metadata = match std::fs::metadata(&target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::system(path, "opened", error)),
    };
    if metadata.is_dir() {
        return Err(FileError::Directory(shown()));
    }
    if let Some(kind) = special_kind(&metadata) {
        return Err(FileError::Special {
            path: shown(),
            kind,
        });
    }
    if metadata.len() > LARGEST_FILE {
        return Err(FileError::TooLarge {
            path: shown(),
            size: metadata.len(),
        });
    }
    // The mode is looked at even for root, whom the system would let pass: a file without any write
    // permission is meant not to be changed.
    if metadata.mode() & 0o222 == 0
        || nix::unistd::access(&target, nix::unistd::AccessFlags::W_OK).is_err()
    {
        return Err(FileError::ReadOnly(shown()));
    }
    let mut file = File::open(&target).map_err(|error| FileError::system(path, "read", error))?;
    let metadata = file
        .metadata()
        .map_err(|error| FileError::system(path, "read", error))?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)
        .map_err(|error| FileError::system(path, "read", error))?;
    Ok(Some(Loaded {
        hash: hash_of(&bytes),
        stamp: Stamp::of(&metadata),
        inode: metadata.ino(),
        mode: metadata.mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        links: metadata.nlink(),
        target,
        bytes,
    }))
}

/// Puts `bytes` in the place of a file that was loaded, or creates it when there was none.
/// `ready` is called when everything is prepared, immediately before the file changes; its refusal
/// leaves the file as it is. Returns the new version's stamp.
///
/// # Errors
/// When anything fails or the file is no longer what was loaded. The file is then as it was.
pub fn replace(
    path: &Path,
    loaded: Option<&Loaded>,
    bytes: &[u8],
    ready: impl FnOnce() -> Result<(), FileError>,
) -> Result<Stamp, FileError> {
    let target = match loaded {
        Some(loaded) => loaded.target.clone(),
        None => follow_links(path)?,
    };
    let folder = target.parent().unwrap_or(Path::new("/"));
    let failed = |action| move |error| FileError::system(path, action, error);
    if loaded.is_none() {
        std::fs::create_dir_all(folder).map_err(failed("created"))?;
    }

    let mut temporary =
        temporary_beside(&target, loaded.map_or(0o666, |_| 0o600)).map_err(failed("written"))?;
    temporary.write_all(bytes).map_err(failed("written"))?;
    if let Some(loaded) = loaded {
        let own = temporary.as_file().metadata().map_err(failed("written"))?;
        if (own.uid(), own.gid()) != loaded.owner {
            // Only root can give a file away; the group alone can often be kept.
            let (uid, gid) = loaded.owner;
            if std::os::unix::fs::fchown(temporary.as_file(), Some(uid), Some(gid)).is_err() {
                let _ = std::os::unix::fs::fchown(temporary.as_file(), None, Some(gid));
            }
        }
        // After the owner: changing that clears the set-user-id bits.
        temporary
            .as_file()
            .set_permissions(Permissions::from_mode(loaded.mode))
            .map_err(failed("written"))?;
    }
    temporary.as_file().sync_all().map_err(failed("written"))?;
    ready()?;

    let file = match loaded {
        Some(loaded) => {
            if !still_is(loaded) {
                return Err(FileError::ChangedMeanwhile(path.display().to_string()));
            }
            temporary
                .persist(&target)
                .map_err(|error| FileError::system(path, "replaced", error.error))?
        }
        None => temporary.persist_noclobber(&target).map_err(|error| {
            if error.error.kind() == io::ErrorKind::AlreadyExists {
                FileError::CreatedMeanwhile(path.display().to_string())
            } else {
                FileError::system(path, "created", error.error)
            }
        })?,
    };
    // The new name is durable once the folder is. A file system that can't sync folders still has
    // the file, so that is no failure.
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    let metadata = file.metadata().map_err(failed("looked at"))?;
    Ok(Stamp::of(&metadata))
}

/// Where the next version of a file is written before it takes the file's place. The name is the same every
/// time, so that the next write finds what a killed one left.
fn temporary_path(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default();
    let short: String = name.to_string_lossy().chars().take(40).collect();
    let digest = hash_of(name.as_encoded_bytes());
    let digest: String = digest
        .iter()
        .take(3)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    target.with_file_name(format!(".{short}.{digest}.tmp"))
}

/// A new file beside one, locked for as long as it is open. Another process that writes the same file at
/// this moment has the usual name; then it gets one of its own.
fn temporary_beside(target: &Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let usual = temporary_path(target);
    let folder = usual.parent().unwrap_or(Path::new("/"));
    let name = usual.file_name().unwrap_or_default();
    let create = |random: usize| {
        tempfile::Builder::new()
            .prefix(name)
            .suffix(if random == 0 { "" } else { ".tmp" })
            .rand_bytes(random)
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder)
    };
    remove_abandoned(&usual);
    let created = match create(0) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => create(6)?,
        other => other?,
    };
    // Where there are no locks, nobody takes it for abandoned either.
    let _ = created.as_file().try_lock();
    Ok(created)
}

/// Removes what a write that was killed left beside a file.
pub fn remove_leftover(path: &Path) {
    if let Ok(target) = follow_links(path) {
        remove_abandoned(&temporary_path(&target));
    }
}

/// Removes a temporary file that nobody has open any more.
fn remove_abandoned(temporary: &Path) {
    let is_file = std::fs::symlink_metadata(temporary).is_ok_and(|found| found.is_file());
    if is_file
        && let Ok(file) = File::options().write(true).open(temporary)
        && file.try_lock().is_ok()
    {
        // If it can't be removed, the write continues under another name.
        let _ = std::fs::remove_file(temporary);
    }
}

/// Whether the file on disk is still the version that was loaded.
fn still_is(loaded: &Loaded) -> bool {
    let Ok(metadata) = std::fs::symlink_metadata(&loaded.target) else {
        return false;
    };
    if !metadata.is_file() || metadata.ino() != loaded.inode || Stamp::of(&metadata) != loaded.stamp
    {
        return false;
    }
    loaded.stamp.size > COMPARE_BYTES_UP_TO
        || std::fs::read(&loaded.target).is_ok_and(|bytes| bytes == loaded.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_a_killed_write_left_is_cleaned_by_the_next_write_or_resume() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let names = || -> Vec<_> {
            let mut names: Vec<_> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        std::fs::write(temporary_path(&path), "half").unwrap();
        replace(&path, None, b"whole", || Ok(())).unwrap();
        assert_eq!(names(), ["a.txt"]);
        std::fs::write(temporary_path(&path), "half").unwrap();
        remove_leftover(&path);
        assert_eq!(names(), ["a.txt"]);
    }

    #[test]
    fn a_write_of_another_process_is_not_taken_for_a_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let other = temporary_beside(&path, 0o600).unwrap();
        remove_leftover(&path);
        assert!(other.path().exists());
        replace(&path, None, b"mine", || Ok(())).unwrap();
        assert!(other.path().exists());
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        // A link with that name is nobody's leftover.
        let outside = folder.path().join("outside");
        std::fs::write(&outside, "kept").unwrap();
        symlink(&outside, temporary_path(&folder.path().join("b.txt"))).unwrap();
        replace(&folder.path().join("b.txt"), None, b"b", || Ok(())).unwrap();
        assert_eq!(std::fs::read(&outside).unwrap(), b"kept");
    }

    #[test]
    fn a_change_between_load_and_rename_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "one").unwrap();
        let loaded = load_for_change(&path).unwrap().unwrap();
        let error = replace(&path, Some(&loaded), b"mine", || {
            std::fs::write(&path, "two").unwrap();
            Ok(())
        })
        .unwrap_err();
        assert!(matches!(error, FileError::ChangedMeanwhile(_)), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let error = replace(&path, None, b"mine", || {
            std::fs::write(&path, "theirs").unwrap();
            Ok(())
        })
        .unwrap_err();
        assert!(matches!(error, FileError::CreatedMeanwhile(_)), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn links_in_a_circle_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        symlink(&b, &a).unwrap();
        symlink(&a, &b).unwrap();
        assert!(matches!(follow_links(&a), Err(FileError::LinkLoop(_))));
    }

    #[test]
    fn set_user_id_bits_and_odd_modes_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o4751)).unwrap();
        let loaded = load_for_change(&path).unwrap().unwrap();
        replace(&path, Some(&loaded), b"y", || Ok(())).unwrap();
        let mode = std::fs::metadata(&path).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o4751);
    }
}
