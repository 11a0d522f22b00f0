//! Durable files: written aside, synced, and renamed into place; changed under a lock that ends with its process.

use crate::error::QueueError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// A value in a file with its revision.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored<T> {
    pub(super) revision: u64,
    pub(super) value: T,
}

/// Creates a folder for its owner only, with those above it.
pub(super) fn create_folder(folder: &Path) -> Result<(), QueueError> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(QueueError::io("create", folder))
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> Result<(), QueueError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(QueueError::io("sync", folder))
}

/// Writes a file at once: readers see the old content or the new one.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), QueueError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let failed = QueueError::io("write", path);
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(folder)
        .map_err(&failed)?;
    file.write_all(bytes).map_err(&failed)?;
    file.as_file().sync_all().map_err(&failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    sync_folder(folder)
}

/// Writes a file that must be new. False if it is there.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<bool, QueueError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let failed = QueueError::io("write", path);
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(folder)
        .map_err(&failed)?;
    file.write_all(bytes).map_err(&failed)?;
    file.as_file().sync_all().map_err(&failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => sync_folder(folder).map(|()| true),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error.error)),
    }
}

/// Reads a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, QueueError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(QueueError::io("read", path)(error)),
    }
}

/// Reads JSON; `None` if there is no file.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, QueueError> {
    let Some(bytes) = read(path)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| QueueError::damaged(path.display(), error))
}

/// Writes JSON at once.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), QueueError> {
    let bytes =
        serde_json::to_vec(value).map_err(|error| QueueError::damaged(path.display(), error))?;
    write(path, &bytes)
}

/// Takes a lock, waiting for it. It ends when the file is dropped, or with the process.
pub(super) fn lock(path: &Path) -> Result<File, QueueError> {
    let failed = QueueError::io("lock", path);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(&failed)?;
    file.lock().map_err(&failed)?;
    Ok(file)
}

/// Writes a value if its revision is still this one; 0 if there must be none.
pub(super) fn compare_and_set<T: Serialize + DeserializeOwned>(
    path: &Path,
    value: &T,
    revision: u64,
) -> Result<u64, QueueError> {
    let _locked = lock(&path.with_extension("lock"))?;
    let found: Option<Stored<T>> = read_json(path)?;
    if found.map_or(0, |found| found.revision) != revision {
        return Err(QueueError::Conflict);
    }
    #[derive(Serialize)]
    struct Next<'a, T> {
        revision: u64,
        value: &'a T,
    }
    write_json(
        path,
        &Next {
            revision: revision + 1,
            value,
        },
    )?;
    Ok(revision + 1)
}

/// The names in a folder; none if it does not exist. Temporary files are left out.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, QueueError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(QueueError::io("read", folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(QueueError::io("read", folder))?;
        match entry.file_name().into_string() {
            Ok(name) if !name.starts_with('.') => names.push(name),
            _ => {}
        }
    }
    Ok(names)
}

/// Renames a file. False if it is not there any more: another process was first.
pub(super) fn rename(from: &Path, to: &Path) -> Result<bool, QueueError> {
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(QueueError::io("rename", from)(error)),
    }
}

/// Removes a file that may be gone already.
pub(super) fn remove(path: &Path) -> Result<(), QueueError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(QueueError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
