//! A copy of a project as it was before a session.

use crate::error::CliError;
use ignore::WalkBuilder;
use lathe_session::checkpoint::restore_first;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most that is copied.
const MOST_BYTES: u64 = 2 << 30;

/// A project in a folder of its own, which goes with this.
pub(super) struct Scratch {
    folder: tempfile::TempDir,
    pub(super) project: PathBuf,
}

impl Scratch {
    /// Copies what git does not ignore, then brings the files that the session changed back to what they held before it.
    pub(super) fn of(project: &Path, transcript: &Path) -> Result<Self, CliError> {
        let folder = tempfile::Builder::new().prefix("lathe-replay-").tempdir();
        let folder = folder.map_err(|error| {
            CliError::failure(error).about("a folder for the replay can't be made")
        })?;
        let copy = fs::canonicalize(folder.path())
            .map_err(|error| CliError::failure(error).about("the folder of the replay"))?
            .join("project");
        copy_tree(project, &copy).map_err(|error| {
            CliError::failure(error).about(format!("{} can't be copied", project.display()))
        })?;
        let place = |path: &Path| path.strip_prefix(project).ok().map(|rest| copy.join(rest));
        restore_first(transcript, place)?;
        Ok(Self {
            folder,
            project: copy,
        })
    }

    /// The folder for settings and sessions of the replay.
    pub(super) fn config(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    /// Keeps the folder, and says where it is.
    pub(super) fn keep(self) -> PathBuf {
        drop(self.folder.keep());
        self.project
    }
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let mut bytes = 0;
    let mut walk = WalkBuilder::new(from);
    for entry in walk.hidden(false).parents(true).follow_links(false).build() {
        let entry = entry.map_err(io::Error::other)?;
        let Ok(rest) = entry.path().strip_prefix(from) else {
            continue;
        };
        let target = to.join(rest);
        let kind = entry.path().symlink_metadata()?.file_type();
        if kind.is_dir() {
            fs::create_dir_all(&target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            bytes += fs::copy(entry.path(), &target)?;
            if bytes > MOST_BYTES {
                return Err(io::Error::other("it is larger than 2 GB"));
            }
        }
    }
    Ok(())
}
