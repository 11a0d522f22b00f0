//! Where Lathe itself may run git.
//!
//! git obeys the configuration of the repository that it finds, and that can name programs. So Lathe runs git only in a
//! repository that the user trusted, and [`TrustedRepository`] is the proof that its callers need.

use super::{Found, common_folder, find};
use crate::context::PermissionContext;
use crate::path::real_folder;
use std::path::{Path, PathBuf};

/// A repository that the user trusted, with all its worktrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedRepository {
    common: PathBuf,
}

/// Why Lathe runs no git in a folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTrusted {
    /// Nobody trusted the folder.
    #[error(
        "Lathe runs no git in `{}`, because that folder is not trusted: its configuration can name programs to run. Trust it with `lathe trust add`",
        .0.display()
    )]
    Folder(PathBuf),
    /// The folder belongs to another repository than the trusted one.
    #[error(
        "Lathe runs no git in `{}`: it belongs to another repository than the trusted folder, and its configuration can name programs to run",
        .0.display()
    )]
    OtherRepository(PathBuf),
    /// The folder belongs to no repository.
    #[error("`{}` is not in a git repository", .0.display())]
    NoRepository(PathBuf),
}

impl TrustedRepository {
    /// The repository of a folder, if the session's trust covers it: the folder is in the trusted project, and git
    /// would use the same repository there as in the project or in the session's folder.
    ///
    /// # Errors
    /// If the folder is not trusted, or belongs to no repository or another one.
    pub fn of(context: &PermissionContext, folder: &Path) -> Result<Self, NotTrusted> {
        if !context.trusted {
            return Err(NotTrusted::Folder(folder.to_path_buf()));
        }
        let common = match common_of(folder) {
            Ok(Some(common)) => common,
            Ok(None) => return Err(NotTrusted::NoRepository(folder.to_path_buf())),
            Err(Unclear) => return Err(NotTrusted::OtherRepository(folder.to_path_buf())),
        };
        let trusted = [&context.project, &context.cwd]
            .into_iter()
            .any(|own| common_of(own) == Ok(Some(common.clone())));
        if !trusted {
            return Err(NotTrusted::OtherRepository(folder.to_path_buf()));
        }
        Ok(Self { common })
    }

    /// Whether git would use this repository in a folder.
    #[must_use]
    pub fn holds(&self, folder: &Path) -> bool {
        common_of(folder).is_ok_and(|common| common.as_ref() == Some(&self.common))
    }
}

/// Something is there that isn't understood.
#[derive(Debug, PartialEq, Eq)]
struct Unclear;

/// The folder that holds the configuration which git would obey in a folder.
fn common_of(folder: &Path) -> Result<Option<PathBuf>, Unclear> {
    match find(folder) {
        Found::Nothing => Ok(None),
        Found::Unclear(_) => Err(Unclear),
        Found::At { folder, .. } => match common_folder(&folder) {
            Ok(common) => Ok(Some(real_folder(&common))),
            Err(_) => Err(Unclear),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(folder: &Path, arguments: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(arguments)
            .current_dir(folder)
            .status()
            .unwrap();
        assert!(status.success(), "git {arguments:?}");
    }

    fn context(folder: &Path, trusted: bool) -> PermissionContext {
        let mut context = PermissionContext::new(
            folder,
            Path::new("/home/you"),
            Path::new("/home/you/.lathe"),
        );
        context.trusted = trusted;
        context
    }

    #[test]
    fn only_the_repository_of_the_trusted_folder_and_its_worktrees_are_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        let inner = top.join("vendor/inner");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir_all(top.join("src")).unwrap();
        git(&top, &["init", "-q"]);
        git(&top, &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&top, &["worktree", "add", "-q", "../tree"]);
        git(&inner, &["init", "-q"]);
        let trusted = context(&top, true);
        let repository = TrustedRepository::of(&trusted, &top.join("src")).unwrap();
        assert!(repository.holds(&top) && repository.holds(&folder.path().join("tree")));
        assert!(!repository.holds(&inner));
        assert_eq!(
            TrustedRepository::of(&trusted, &inner),
            Err(NotTrusted::OtherRepository(inner.clone()))
        );
        assert_eq!(
            TrustedRepository::of(&trusted, folder.path()),
            Err(NotTrusted::NoRepository(folder.path().to_path_buf()))
        );
        // An ordinary clone is no more than an ordinary clone.
        assert_eq!(
            TrustedRepository::of(&context(&top, false), &top),
            Err(NotTrusted::Folder(top.clone()))
        );
        // A folder that is laid out like a repository is one.
        let bare = top.join("docs/theme");
        std::fs::create_dir_all(bare.join("objects")).unwrap();
        std::fs::create_dir_all(bare.join("refs")).unwrap();
        std::fs::write(bare.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        assert!(!repository.holds(&bare));
    }
}
