//! The files of a folder by themselves, for who keeps the conversation elsewhere.

use crate::error::TeleportError;
use crate::restore;
use crate::snapshot::{GitState, Snapshot, SnapshotOptions, top_folder};
use std::fs;
use std::path::{Path, PathBuf};

/// The git state of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Its description.
    pub state: GitState,
    /// The bundle that holds it.
    pub bundle: Vec<u8>,
    /// The difference to the commit that was named, as `git apply` takes it.
    pub diff: Vec<u8>,
}

/// Packs the git state of a folder; `None` outside of a repository. Nothing in the folder is touched. The history of
/// `base` is left out: who unpacks it has that commit.
///
/// # Errors
/// When something can't be carried ([`Refusal`](crate::Refusal)), or git fails.
pub fn pack(
    folder: &Path,
    base: Option<&str>,
    options: SnapshotOptions,
) -> Result<Option<Packed>, TeleportError> {
    let Some(top) = top_folder(folder)? else {
        return Ok(None);
    };
    let mut snapshot = Snapshot::take(&top, options)?;
    let diff = match base {
        Some(base) => snapshot.diff(base)?,
        None => Vec::new(),
    };
    let path = snapshot.bundle_without(&top, options.whole, base)?;
    let bundle = fs::read(&path).map_err(TeleportError::io("read", &path))?;
    Ok(Some(Packed {
        state: snapshot.state,
        bundle,
        diff,
    }))
}

/// Puts a packed state into the repository around a folder, and gives the top folder that has it now.
///
/// # Errors
/// When it can't be put there ([`Refusal`](crate::Refusal)), or git fails.
pub fn unpack(
    state: &GitState,
    bundle: &[u8],
    folder: &Path,
    name: &str,
) -> Result<PathBuf, TeleportError> {
    let scratch = tempfile::tempdir().map_err(TeleportError::io("create", folder))?;
    let path = scratch.path().join("repo.bundle");
    fs::write(&path, bundle).map_err(TeleportError::io("write", &path))?;
    Ok(restore::restore(state, &path, folder, name, false)?.top)
}
