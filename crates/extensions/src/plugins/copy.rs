//! Copies an untrusted folder safely.
//!
//! Only files, folders and links that stay inside are copied, within limits on number and size. Modes
//! are reduced to *executable* or not.

use super::{Cause, PluginError, plain};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

/// The maximum size of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files and folders together.
    pub entries: usize,
    /// One file, in bytes.
    pub file: u64,
    /// All files, in bytes.
    pub total: u64,
    /// Folders in folders.
    pub depth: usize,
}

#[cfg(test)]
impl Limits {
    /// Small enough for a test to go beyond them.
    pub(super) const SMALL: Self = Self {
        entries: 20,
        file: 1024 * 1024,
        total: 2 * 1024 * 1024,
        depth: 8,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries: 10_000,
            file: 50 * 1024 * 1024,
            total: 200 * 1024 * 1024,
            depth: 32,
        }
    }
}

/// Counts what was taken, and refuses what is too much.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    entries: usize,
    total: u64,
}

/// Which of the [`Limits`] was exceeded.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    #[error("it has more than {0} files")]
    Entries(usize),
    #[error("its folders are more than {0} deep")]
    Depth(usize),
    #[error("{path} is larger than {megabytes} MB")]
    File { path: String, megabytes: u64 },
    #[error("it is larger than {megabytes} MB altogether")]
    Total { megabytes: u64 },
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: 0,
            total: 0,
        }
    }

    pub(crate) fn entry(&mut self, path: &Path) -> Result<(), LimitError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(LimitError::Entries(self.limits.entries));
        }
        if path.components().count() > self.limits.depth {
            return Err(LimitError::Depth(self.limits.depth));
        }
        Ok(())
    }

    pub(crate) fn weigh(&mut self, path: &Path, bytes: u64) -> Result<(), LimitError> {
        if bytes > self.limits.file {
            return Err(LimitError::File {
                path: plain(&path.display().to_string(), 120),
                megabytes: self.limits.file / 1024 / 1024,
            });
        }
        self.total = self.total.saturating_add(bytes);
        if self.total > self.limits.total {
            return Err(LimitError::Total {
                megabytes: self.limits.total / 1024 / 1024,
            });
        }
        Ok(())
    }
}

/// Copies a folder without `.git` and returns a fingerprint of its content.
///
/// # Errors
/// If something in it is refused or can't be copied. The copy is then incomplete.
pub fn copy(from: &Path, to: &Path, limits: Limits) -> Result<String, PluginError> {
    let root = fs::canonicalize(from).map_err(PluginError::io(from))?;
    let refuse =
        |cause: Cause| PluginError::refused(format!("the plugin in {}", from.display()), cause);
    fs::create_dir_all(to).map_err(PluginError::io(to))?;
    let mut meter = Meter::new(limits);
    let mut hash = Sha256::new();
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        let here = root.join(&folder);
        let mut names: Vec<_> = fs::read_dir(&here)
            .map_err(PluginError::io(&here))?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<_, _>>()
            .map_err(PluginError::io(&here))?;
        names.sort();
        for name in names {
            if folder.as_os_str().is_empty() && name == ".git" {
                continue;
            }
            let relative = folder.join(&name);
            let shown = plain(&relative.display().to_string(), 120);
            if name.to_string_lossy().chars().any(char::is_control) {
                let text = format!("the name of {shown} contains control characters");
                return Err(refuse(text.into()));
            }
            meter
                .entry(&relative)
                .map_err(|error| refuse(error.into()))?;
            let source = root.join(&relative);
            let target = to.join(&relative);
            let metadata = fs::symlink_metadata(&source).map_err(PluginError::io(&source))?;
            let kind = metadata.file_type();
            hash.update(relative.as_os_str().as_encoded_bytes());
            hash.update([0]);
            if kind.is_symlink() {
                let link = link_inside(&root, &relative)
                    .map_err(|error| refuse(format!("{shown} {error}").into()))?;
                hash.update(link.as_os_str().as_encoded_bytes());
                std::os::unix::fs::symlink(&link, &target).map_err(PluginError::io(&target))?;
            } else if kind.is_dir() {
                fs::create_dir(&target).map_err(PluginError::io(&target))?;
                open.push(relative);
            } else if kind.is_file() {
                meter
                    .weigh(&relative, metadata.len())
                    .map_err(|error| refuse(error.into()))?;
                let bytes = fs::read(&source).map_err(PluginError::io(&source))?;
                hash.update((bytes.len() as u64).to_le_bytes());
                hash.update(&bytes);
                let runs = metadata.permissions().mode() & 0o111 != 0;
                write_file(&target, &bytes, runs).map_err(PluginError::io(&target))?;
            } else {
                let text = format!("{shown} is neither a file nor a folder nor a link");
                return Err(refuse(text.into()));
            }
        }
    }
    let digest = hash.finalize();
    Ok(digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Writes a file, executable or not.
pub(crate) fn write_file(target: &Path, bytes: &[u8], runs: bool) -> std::io::Result<()> {
    fs::write(target, bytes)?;
    let mode = if runs { 0o755 } else { 0o644 };
    fs::set_permissions(target, fs::Permissions::from_mode(mode))
}

/// Why a symbolic link is not copied.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("can't be read: {0}")]
    Unreadable(#[source] std::io::Error),
    #[error("is a link to an absolute path")]
    Absolute,
    #[error("is a link out of the plugin's folder")]
    Outside,
    #[error("is a link to nothing")]
    Dangling,
}

/// The target of a link, if it stays inside both as written and when resolved.
fn link_inside(root: &Path, relative: &Path) -> Result<PathBuf, LinkError> {
    let source = root.join(relative);
    let link = fs::read_link(&source).map_err(LinkError::Unreadable)?;
    let mut depth = relative.components().count() as isize - 1;
    for component in link.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => depth -= 1,
            Component::RootDir | Component::Prefix(_) => {
                return Err(LinkError::Absolute);
            }
        }
        if depth < 0 {
            return Err(LinkError::Outside);
        }
    }
    match fs::canonicalize(&source) {
        Ok(real) if real.starts_with(root) => Ok(link),
        Ok(_) => Err(LinkError::Outside),
        Err(_) => Err(LinkError::Dangling),
    }
}
