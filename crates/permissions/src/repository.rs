//! Which git repository a command would use, and whether its configuration could make git run a program.
//!
//! `git status` runs what `core.fsmonitor` names, a filter for a changed file, a hook when it writes the index. In a
//! folder that nobody trusted such commands ask, unless the repository is *plain*: found as git finds it, its
//! configuration read as git reads it, with nothing but keys that can't name a program or another file, no hooks and
//! no repository inside it that git would enter. Whatever can't be read or isn't understood makes it not plain.

use lathe_settings::regular_file::{read, read_text};
use std::path::{Path, PathBuf};

mod config;
mod credentials;
mod index;
mod obeyed;
mod objects;
mod references;
mod trusted;

pub(crate) use config::program_setting;
pub(crate) use credentials::{file_with_credentials, secret_configuration, shows_configuration};
pub(crate) use obeyed::{Obeyed, obeyed_places};
pub(crate) use objects::ObjectKind;

pub use trusted::{NotTrusted, TrustedRepository};

/// The repository that git uses in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repository {
    /// There is none.
    None,
    /// One whose configuration runs nothing.
    Plain {
        /// Where its objects and its configuration lie.
        folder: PathBuf,
    },
    /// One whose configuration could run something, or can't be judged.
    NotPlain {
        /// Where its objects and its configuration lie, if that could be found out.
        folder: Option<PathBuf>,
        /// The reason, in words for the user.
        reason: String,
    },
}

impl Repository {
    /// Finds the repository of a folder and judges its configuration.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        match find(folder) {
            Found::Nothing => Self::None,
            Found::Unclear(reason) => not_plain(None, reason),
            Found::At { folder, worktree } => judge(&folder, worktree.as_deref()),
        }
    }

    /// Where its objects and its configuration lie.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::Plain { folder } => Some(folder),
            Self::NotPlain { folder, .. } => folder.as_deref(),
        }
    }
}

fn not_plain(folder: Option<&Path>, reason: impl Into<String>) -> Repository {
    Repository::NotPlain {
        folder: folder.map(Path::to_path_buf),
        reason: reason.into(),
    }
}

/// Where git finds a repository.
enum Found {
    Nothing,
    /// Something is there that isn't understood.
    Unclear(String),
    At {
        /// The `.git` folder, the folder that a `.git` file names, or a bare repository.
        folder: PathBuf,
        worktree: Option<PathBuf>,
    },
}

/// Finds the repository as git does: from the folder upwards, a `.git` folder or file, or a folder that is laid out
/// like a repository itself.
fn find(folder: &Path) -> Found {
    let folder = crate::path::real_folder(folder);
    for at in folder.ancestors() {
        let dot_git = at.join(".git");
        match std::fs::symlink_metadata(&dot_git) {
            Ok(_) if dot_git.is_dir() => {
                // Without it git looks further up, but nobody makes such a folder for nothing.
                if dot_git.join("HEAD").symlink_metadata().is_err() {
                    return Found::Unclear(format!("`{}` is incomplete", dot_git.display()));
                }
                return Found::At {
                    folder: dot_git,
                    worktree: Some(at.to_path_buf()),
                };
            }
            Ok(_) => return linked(&dot_git, at),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return Found::Unclear(format!("`{}` can't be read", dot_git.display())),
        }
        let bare = at.join("HEAD").symlink_metadata().is_ok()
            && (at.join("objects").exists() || at.join("commondir").exists());
        if bare {
            return Found::At {
                folder: at.to_path_buf(),
                worktree: None,
            };
        }
    }
    Found::Nothing
}

/// A `.git` file names the repository of a worktree or a submodule.
fn linked(dot_git: &Path, worktree: &Path) -> Found {
    let target = read_text(dot_git).ok().and_then(|text| {
        let target = text.strip_prefix("gitdir:")?.trim();
        (!target.is_empty() && !target.contains('\n')).then(|| worktree.join(target))
    });
    match target {
        Some(target) => Found::At {
            folder: crate::path::real_folder(&target),
            worktree: Some(worktree.to_path_buf()),
        },
        None => Found::Unclear(format!("`{}` isn't understood", dot_git.display())),
    }
}

/// The folder that a repository shares with its worktrees.
fn common_folder(folder: &Path) -> std::io::Result<PathBuf> {
    match read_text(&folder.join("commondir")) {
        Ok(text) => Ok(crate::path::real_folder(&folder.join(text.trim()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(folder.to_path_buf()),
        Err(error) => Err(error),
    }
}

/// Judges a repository's folder.
fn judge(folder: &Path, worktree: Option<&Path>) -> Repository {
    let common = match common_folder(folder) {
        Ok(common) => common,
        Err(error) => {
            return not_plain(
                None,
                format!("`{}`: {error}", folder.join("commondir").display()),
            );
        }
    };
    let problem = config::problem(&common.join("config"), folder, worktree)
        .or_else(|| hooks_problem(&common.join("hooks")))
        .or_else(|| index::problem(&folder.join("index")));
    match problem {
        None => Repository::Plain { folder: common },
        Some(reason) => not_plain(Some(&common), reason),
    }
}

/// Some hooks run when the index is written, which `git status` does.
fn hooks_problem(hooks: &Path) -> Option<String> {
    let entries = match std::fs::read_dir(hooks) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => return Some(format!("`{}`: {error}", hooks.display())),
    };
    for entry in entries {
        let Ok(entry) = entry else {
            return Some(format!("`{}` can't be read", hooks.display()));
        };
        if !entry.file_name().to_string_lossy().ends_with(".sample") {
            return Some(format!("`{}` is a hook", entry.path().display()));
        }
    }
    None
}

/// The files that git tracks in the repository of a folder; none when that isn't known.
pub(crate) fn tracked_files(folder: &Path) -> Option<Vec<PathBuf>> {
    match find(folder) {
        // A repository that isn't understood asks where nobody trusted it; in a trusted one git has nothing to show.
        Found::Nothing | Found::Unclear(_) | Found::At { worktree: None, .. } => Some(Vec::new()),
        Found::At {
            folder,
            worktree: Some(top),
        } => match read(&folder.join("index")) {
            Ok(bytes) => {
                let names = index::names(&bytes)?;
                Some(names.iter().map(|name| top.join(name)).collect())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Vec::new()),
            Err(_) => None,
        },
    }
}

#[cfg(test)]
mod tests;
