//! The state of a path: recording, comparing and restoring it.

use crate::blob::{BlobStore, content_hash};
use crate::error::SessionError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Files larger than this are not kept.
pub(super) const KEPT_FILE_LIMIT: u64 = 64 << 20;

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub(super) enum FileState {
    /// Nothing.
    Absent {
        /// The topmost folder that wasn't there either.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing_folder: Option<PathBuf>,
    },
    /// A file.
    File { sha256: String, mode: u32 },
    /// A symbolic link.
    Link { target: PathBuf },
    /// Something that isn't kept.
    Uncovered { reason: String },
}

impl FileState {
    /// True if two states are the same for a reader of the file.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent { .. }, Self::Absent { .. }) => true,
            (Self::Uncovered { .. }, _) | (_, Self::Uncovered { .. }) => false,
            (one, other) => one == other,
        }
    }

    /// The current state of a path. With a store, a file's content is saved there.
    pub(super) fn of(path: &Path, store: Option<&BlobStore>) -> Result<Self, SessionError> {
        let failed = |error: io::Error| SessionError::io("read", path)(error);
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(Self::Absent {
                    missing_folder: missing_folder(path),
                });
            }
            Err(error) => return Err(failed(error)),
        };
        if found.is_symlink() {
            return Ok(Self::Link {
                target: fs::read_link(path).map_err(failed)?,
            });
        }
        if !found.is_file() {
            return Ok(Self::Uncovered {
                reason: "it is not a regular file".to_owned(),
            });
        }
        if found.len() > KEPT_FILE_LIMIT {
            let reason = format!("it is larger than {} MB", KEPT_FILE_LIMIT >> 20);
            return Ok(Self::Uncovered { reason });
        }
        let content = fs::read(path).map_err(failed)?;
        let sha256 = match store {
            Some(store) => store.put(&content)?,
            None => content_hash(&content),
        };
        Ok(Self::File {
            sha256,
            mode: found.permissions().mode() & 0o7777,
        })
    }

    /// The text of a file state, for a diff; `None` when it isn't text.
    pub(super) fn text(&self, store: &BlobStore) -> Option<String> {
        match self {
            Self::Absent { .. } => Some(String::new()),
            Self::File { sha256, .. } => String::from_utf8(store.get(sha256).ok()?).ok(),
            Self::Link { .. } | Self::Uncovered { .. } => None,
        }
    }

    /// Makes the path hold this again, completely or not at all.
    pub(super) fn restore(&self, path: &Path, store: &BlobStore) -> Result<(), SessionError> {
        let failed = |error: io::Error| SessionError::io("restore", path)(error);
        let folder = path.parent().unwrap_or(Path::new("/"));
        match self {
            Self::Absent { missing_folder } => {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(failed(error));
                    }
                    _ => {}
                }
                remove_empty_folders(folder, missing_folder.as_deref());
                Ok(())
            }
            Self::File { sha256, mode } => {
                let content = store.get(sha256)?;
                fs::create_dir_all(folder).map_err(failed)?;
                let write = || -> io::Result<()> {
                    let mut file = tempfile::Builder::new()
                        .prefix(".lathe-restore-")
                        .tempfile_in(folder)?;
                    file.write_all(&content)?;
                    file.as_file()
                        .set_permissions(fs::Permissions::from_mode(*mode))?;
                    file.as_file().sync_data()?;
                    file.persist(path).map_err(|error| error.error)?;
                    Ok(())
                };
                write().map_err(failed)
            }
            Self::Link { target } => {
                fs::create_dir_all(folder).map_err(failed)?;
                // A link can't be made over something; made beside and renamed, it replaces it at once.
                let scratch = tempfile::tempdir_in(folder).map_err(failed)?;
                let link = scratch.path().join("link");
                symlink(target, &link)
                    .and_then(|()| fs::rename(&link, path))
                    .map_err(failed)
            }
            Self::Uncovered { reason } => Err(failed(io::Error::other(reason.clone()))),
        }
    }
}

fn missing_folder(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .skip(1)
        .take_while(|folder| !folder.exists())
        .last()
        .map(Path::to_owned)
}

/// Removes folders that a session made, as far as they are empty now.
fn remove_empty_folders(from: &Path, until: Option<&Path>) {
    let Some(until) = until else { return };
    for folder in from
        .ancestors()
        .take_while(|folder| folder.starts_with(until))
    {
        // Not empty: somebody uses it.
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}
