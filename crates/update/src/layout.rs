//! The native layout: `~/.local/share/lathe` with `versions`, `staging` and `locks`, and the link
//! `~/.local/bin/lathe` to the version that is in use.

use crate::error::{UpdateError, at};
use crate::lock;
use crate::version::Version;
use lathe_settings::Environment;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// How many versions are kept.
pub const KEPT_VERSIONS: usize = 3;
/// The name of the program.
pub(crate) const PROGRAM: &str = "lathe";

/// Where the native installation lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// `~/.local/share/lathe`.
    pub data: PathBuf,
    /// `~/.local/bin/lathe`.
    pub link: PathBuf,
}

impl Layout {
    /// The layout below the home folder.
    ///
    /// # Errors
    /// If there is no home folder.
    pub fn of(environment: &Environment) -> Result<Self, UpdateError> {
        let home = environment.home.as_ref().ok_or(UpdateError::NoHome)?;
        let local = home.join(".local");
        Ok(Self {
            data: local.join("share").join(PROGRAM),
            link: local.join("bin").join(PROGRAM),
        })
    }

    /// The folder of the versions.
    #[must_use]
    pub fn versions(&self) -> PathBuf {
        self.data.join("versions")
    }

    /// The folder of unfinished work.
    #[must_use]
    pub fn staging(&self) -> PathBuf {
        self.data.join("staging")
    }

    /// The folder of the locks.
    #[must_use]
    pub fn locks(&self) -> PathBuf {
        self.data.join("locks")
    }

    /// The file of what is remembered: serial numbers of manifests, and the last look for an update.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.data.join("state.json")
    }

    /// The program of a version.
    #[must_use]
    pub fn program(&self, version: &Version) -> PathBuf {
        self.versions().join(version.to_string()).join(PROGRAM)
    }

    /// The version that a path of this layout belongs to.
    #[must_use]
    pub fn version_of(&self, program: &Path) -> Option<Version> {
        // The home folder itself may be behind a link.
        let real = fs::canonicalize(self.versions()).ok();
        let inside = [Some(self.versions()), real]
            .into_iter()
            .flatten()
            .find_map(|versions| program.strip_prefix(versions).ok().map(Path::to_path_buf))?;
        let mut parts = inside.components();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Component::Normal(version)), Some(Component::Normal(name)), None)
                if name == PROGRAM =>
            {
                version.to_str()?.parse().ok()
            }
            _ => None,
        }
    }

    /// The version that the link leads to, if it is ours and the program is there.
    #[must_use]
    pub fn current(&self) -> Option<Version> {
        let target = fs::read_link(&self.link).ok()?;
        let version = self.version_of(&target)?;
        self.program(&version).is_file().then_some(version)
    }

    /// The versions that are there, the last installed first.
    #[must_use]
    pub fn installed(&self) -> Vec<Version> {
        let mut found: Vec<(SystemTime, Version)> = fs::read_dir(self.versions())
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let version: Version = entry.ok()?.file_name().to_str()?.parse().ok()?;
                let program = fs::metadata(self.program(&version)).ok()?;
                program.is_file().then(|| {
                    (
                        program.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                        version,
                    )
                })
            })
            .collect();
        found.sort_by(|one, two| two.cmp(one));
        found.into_iter().map(|(_, version)| version).collect()
    }

    /// Whether the name of the link is free or ours.
    #[must_use]
    pub fn owns_link(&self) -> bool {
        match fs::symlink_metadata(&self.link) {
            Err(error) => error.kind() == ErrorKind::NotFound,
            Ok(_) => {
                fs::read_link(&self.link).is_ok_and(|target| self.version_of(&target).is_some())
            }
        }
    }

    /// Makes the folders.
    pub(crate) fn create(&self) -> Result<(), UpdateError> {
        let bin = self.link.parent().unwrap_or(Path::new("/")).to_path_buf();
        for folder in [self.versions(), self.staging(), self.locks(), bin] {
            fs::create_dir_all(&folder).map_err(at(&folder))?;
        }
        Ok(())
    }

    /// Lets the link lead to a version, at once: another process sees the old link or the new one.
    pub(crate) fn switch(&self, version: &Version) -> Result<(), UpdateError> {
        let bin = self.link.parent().unwrap_or(Path::new("/"));
        let fresh = bin.join(format!(".{PROGRAM}-{}", std::process::id()));
        let _ = fs::remove_file(&fresh);
        std::os::unix::fs::symlink(self.program(version), &fresh).map_err(at(&fresh))?;
        let renamed = fs::rename(&fresh, &self.link).map_err(at(&self.link));
        if renamed.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        sync_folder(bin);
        renamed
    }

    /// Removes what earlier processes left when they were killed. The update lock must be held.
    pub(crate) fn clean(&self) {
        for entry in fs::read_dir(self.staging()).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
        let bin = self.link.parent().unwrap_or(Path::new("/"));
        for entry in fs::read_dir(bin).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let left = name.to_str().and_then(|name| {
                let pid = name.strip_prefix('.')?.strip_prefix(PROGRAM)?;
                pid.strip_prefix('-')?.parse::<u32>().ok()
            });
            if left.is_some() && fs::read_link(entry.path()).is_ok() {
                let _ = fs::remove_file(entry.path());
            }
        }
        // A version whose program never arrived.
        for entry in fs::read_dir(self.versions())
            .into_iter()
            .flatten()
            .flatten()
        {
            // Only an empty folder is removed by this.
            let _ = fs::remove_dir(entry.path());
        }
        lock::remove_stale(&self.locks());
    }

    /// Removes old versions: all but the last few, the one in use, `before` and those that run.
    pub(crate) fn prune(&self, before: Option<&Version>) -> Vec<Version> {
        let current = self.current();
        let mut removed = Vec::new();
        let mut kept = 0;
        for version in self.installed() {
            let needed = Some(&version) == current.as_ref() || Some(&version) == before;
            if needed || kept < KEPT_VERSIONS - 1 {
                kept += usize::from(Some(&version) != current.as_ref());
                continue;
            }
            if lock::is_running(&self.locks(), &version) {
                continue;
            }
            let folder = self.versions().join(version.to_string());
            if fs::remove_dir_all(folder).is_ok() {
                removed.push(version);
            }
        }
        removed
    }

    /// Removes the whole installation, and says what was removed.
    ///
    /// # Errors
    /// If another process changes it, or the file system refuses.
    pub fn remove(&self) -> Result<Vec<PathBuf>, UpdateError> {
        let mut removed = Vec::new();
        if !self.data.exists() && !self.owns_link() {
            return Ok(removed);
        }
        let held = self
            .data
            .is_dir()
            .then(|| fs::create_dir_all(self.locks()).map_err(at(self.locks())))
            .transpose()?
            .map(|()| lock::update(&self.locks()))
            .transpose()?;
        if fs::read_link(&self.link).is_ok() && self.owns_link() {
            fs::remove_file(&self.link).map_err(at(&self.link))?;
            removed.push(self.link.clone());
        }
        if self.data.is_dir() {
            fs::remove_dir_all(&self.data).map_err(at(&self.data))?;
            removed.push(self.data.clone());
        }
        drop(held);
        Ok(removed)
    }
}

/// Makes renames in a folder durable; some file systems can't.
pub(crate) fn sync_folder(folder: &Path) {
    let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
}
