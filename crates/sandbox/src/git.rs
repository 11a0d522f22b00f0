//! Files that git obeys in a repository: hooks, configuration, and the files that lead to other ones.
//!
//! A command may commit, branch and make worktrees, so the repository is writable; what makes git run a
//! program, now or later outside the sandbox, is not.

use crate::sandbox_policy::{Absent, Protected};
use std::fs;
use std::path::{Path, PathBuf};

/// How many repositories in a repository (submodules, worktrees) are looked at.
const MOST: usize = 200;

/// A repository that a writable folder belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repository {
    /// The work tree.
    work_tree: PathBuf,
    /// Folders of the repository outside the work tree, which commits write to.
    pub writable: Vec<PathBuf>,
    /// Paths that may not be written.
    pub protected: Vec<Protected>,
}

/// The paths that a writable folder's repository needs, and the protected ones.
#[must_use]
pub fn repository(work_tree: &Path) -> Repository {
    let mut found = Repository {
        work_tree: work_tree.to_path_buf(),
        ..Repository::default()
    };
    let entry = work_tree.join(".git");
    if entry.is_dir() {
        // Writable by itself, so that it can't be renamed.
        found.writable.push(entry.clone());
        found.folder(&entry, true);
        return found;
    }
    if entry.is_file() {
        found.keep(entry, Absent::Ignored);
    }
    // A linked worktree or a submodule: its folder is elsewhere. So is that of a folder below the top.
    for folder in crate::repository_folders(work_tree) {
        let Ok(folder) = folder.canonicalize() else {
            continue;
        };
        found.writable.push(folder.clone());
        let is_common = folder.join("objects").is_dir();
        found.folder(&folder, is_common && !folder.join("commondir").exists());
    }
    found
}

impl Repository {
    fn keep(&mut self, path: PathBuf, absent: Absent) {
        if !self.protected.iter().any(|known| known.path == path) {
            self.protected.push(Protected { path, absent });
        }
    }

    /// Protects what git obeys in a repository's folder.
    fn folder(&mut self, folder: &Path, pins: bool) {
        let config = folder.join("config");
        let own_worktree = fs::read_to_string(&config)
            .unwrap_or_default()
            .to_lowercase();
        self.keep(config, Absent::Ignored);
        let is_repository = folder.join("objects").is_dir();
        let hooks = if is_repository {
            Absent::Folder
        } else {
            Absent::Ignored
        };
        self.keep(folder.join("hooks"), hooks);
        let per_worktree = if own_worktree.contains("worktreeconfig") {
            Absent::File
        } else {
            Absent::Ignored
        };
        self.keep(folder.join("config.worktree"), per_worktree);
        self.keep(folder.join("gitdir"), Absent::Ignored);
        // Naming the folder itself changes nothing for git, and keeps anyone from naming another.
        let pin = if pins && is_repository && !own_worktree.contains("worktree =") {
            Absent::Text(format!("{}\n", folder.display()))
        } else {
            Absent::Ignored
        };
        self.keep(folder.join("commondir"), pin);
        self.nested(&folder.join("modules"), 3);
        for worktree in folders_in(&folder.join("worktrees")) {
            // Where a command may write to the work tree itself, its pointers protect nothing, and a worktree that
            // a command made must be removable.
            if self.holds(&worktree) {
                continue;
            }
            for name in ["commondir", "gitdir", "config.worktree"] {
                self.keep(worktree.join(name), Absent::Ignored);
            }
        }
    }

    /// Whether the work tree of a linked worktree lies in the work tree itself.
    fn holds(&self, worktree: &Path) -> bool {
        fs::read_to_string(worktree.join("gitdir"))
            .is_ok_and(|text| Path::new(text.trim()).starts_with(&self.work_tree))
    }

    /// Protects the repositories of submodules.
    fn nested(&mut self, folder: &Path, depth: usize) {
        for module in folders_in(folder) {
            if self.protected.len() > MOST {
                return;
            }
            if module.join("HEAD").exists() {
                for name in ["config", "hooks", "commondir", "config.worktree"] {
                    self.keep(module.join(name), Absent::Ignored);
                }
                self.nested(&module.join("modules"), depth);
            } else if depth > 0 {
                self.nested(&module, depth - 1);
            }
        }
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .take(MOST)
        .collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(repository: &Repository, base: &Path) -> Vec<String> {
        let paths = repository.protected.iter().map(|entry| {
            let path = entry.path.strip_prefix(base).unwrap_or(&entry.path);
            path.display().to_string()
        });
        paths.collect()
    }

    #[test]
    fn hooks_configuration_and_pointers_of_a_repository_are_protected() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in [".git/objects", ".git/modules/sub/hooks", ".git/worktrees/w"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        fs::write(base.join(".git/config"), "[core]\n\tbare = false\n").unwrap();
        fs::write(base.join(".git/modules/sub/HEAD"), "ref: x\n").unwrap();
        let found = repository(&base);
        let paths = paths(&found, &base);
        for wanted in [
            ".git/config",
            ".git/hooks",
            ".git/commondir",
            ".git/modules/sub/config",
            ".git/modules/sub/hooks",
            ".git/worktrees/w/commondir",
        ] {
            assert!(
                paths.iter().any(|path| path == wanted),
                "{wanted} in {paths:?}"
            );
        }
        assert_eq!(found.writable, [base.join(".git")]);
        let pin = found
            .protected
            .iter()
            .find(|entry| entry.path.ends_with(".git/commondir"))
            .unwrap();
        assert_eq!(
            pin.absent,
            Absent::Text(format!("{}/.git\n", base.display()))
        );
    }

    #[test]
    fn a_linked_worktree_brings_its_repository() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let own = base.join("main/.git/worktrees/w");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(base.join("main/.git/objects")).unwrap();
        fs::create_dir_all(base.join("w")).unwrap();
        fs::write(base.join("w/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        let found = repository(&base.join("w"));
        assert!(
            found.writable.contains(&own) && found.writable.contains(&base.join("main/.git")),
            "{found:?}"
        );
        let paths = paths(&found, &base);
        for wanted in [
            "w/.git",
            "main/.git/config",
            "main/.git/hooks",
            "main/.git/worktrees/w/commondir",
        ] {
            assert!(
                paths.iter().any(|path| path == wanted),
                "{wanted} in {paths:?}"
            );
        }
    }

    #[test]
    fn a_folder_without_a_repository_has_nothing_to_protect() {
        let folder = tempfile::tempdir().unwrap();
        let found = repository(folder.path());
        assert!(found.writable.is_empty() && found.protected.is_empty());
    }
}
