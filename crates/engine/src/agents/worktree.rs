//! A git worktree for an agent: a folder of its own on a branch of its own.
//!
//! It lies under `.lathe/worktrees/` of the repository and is removed when the agent leaves nothing in
//! it; with changes or commits it stays, and the result of the agent says where. Nothing is ever
//! forced: what git refuses to remove stays.

use crate::agents::sweep;
use crate::context::git::{Git, GitError};
use crate::conversation::hook_points::WorktreeRefused;
use lathe_permissions::repository::NotTrusted;
use lathe_settings::schema::{BaseRef, WorktreeSettings};
use std::path::{Path, PathBuf};

/// An agent's worktree.
#[derive(Debug)]
pub(crate) struct Worktree {
    /// `None` for a folder that a hook made: nothing is known of it.
    git: Option<Git>,
    /// The repository's own folder.
    pub(crate) repository: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) branch: String,
    /// The commit that it started from.
    pub(crate) base: String,
    /// Remarks for the agent.
    pub(crate) remarks: Vec<String>,
    /// Says to other processes that it has an owner.
    _held: Option<std::fs::File>,
}

/// The end of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// Nothing was in it, so it is gone.
    Removed,
    /// It stays; the text says why and where.
    Kept(String),
}

/// The repository's folder that is no agent's worktree itself.
fn outermost(top: &Path) -> PathBuf {
    let mut folder = top;
    while let Some(worktrees) = folder.parent()
        && worktrees.ends_with(".lathe/worktrees")
        && let Some(above) = worktrees.ancestors().nth(2)
        && above.join(".git").exists()
    {
        folder = above;
    }
    folder.to_owned()
}

/// The output of git in a folder of a repository, without the end of its last line.
async fn git(trusted: &Git, folder: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let output = trusted.at(folder)?.run(arguments).await?;
    Ok(output.trim_end().to_owned())
}

/// The newest known commit of the remote's default branch.
async fn default_branch(trusted: &Git, top: &Path) -> Option<String> {
    for name in ["origin/HEAD", "origin/main", "origin/master"] {
        let commit = format!("{name}^{{commit}}");
        if let Ok(commit) = git(trusted, top, &["rev-parse", "--verify", "--quiet", &commit]).await
        {
            return Some(commit);
        }
    }
    None
}

/// Checks out the part that settings name, and links the folders that they name.
async fn furnish(
    trusted: &Git,
    repository: &Path,
    path: &Path,
    settings: &WorktreeSettings,
    remarks: &mut Vec<String>,
) -> Result<(), WorktreeError> {
    if !settings.sparse_paths.is_empty() {
        let mut sparse = vec!["sparse-checkout", "set", "--cone", "--"];
        sparse.extend(settings.sparse_paths.iter().map(String::as_str));
        git(trusted, path, &sparse)
            .await
            .map_err(WorktreeError::Sparse)?;
        git(trusted, path, &["checkout", "--quiet"])
            .await
            .map_err(WorktreeError::Sparse)?;
        remarks.push(format!(
            "Only these folders are checked out: {}.",
            settings.sparse_paths.join(", ")
        ));
    }
    for name in &settings.symlink_directories {
        let inside = Path::new(name)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        let (target, link) = (repository.join(name), path.join(name));
        if !inside || !target.is_dir() || link.symlink_metadata().is_ok() {
            continue;
        }
        let made = link
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::os::unix::fs::symlink(&target, &link));
        remarks.push(match made {
            Ok(()) => format!(
                "{name} is shared with the original folder: changes there are seen by both."
            ),
            Err(error) => format!("{name} can't be linked: {error}."),
        });
    }
    Ok(())
}

/// Why there can be no worktree.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorktreeError {
    #[error("{0}, so a worktree can't be created. Start the agent without isolation.")]
    NotTrusted(#[from] NotTrusted),
    #[error(
        "{} can't be used by git ({source}), so a worktree can't be created. Start the agent without isolation.",
        folder.display()
    )]
    Unusable { folder: PathBuf, source: GitError },
    #[error(
        "The repository has no commit yet, and a worktree starts from one. Commit something first, or start the agent without isolation."
    )]
    NoCommit,
    #[error("{} can't be made: {source}.", folder.display())]
    Folder {
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error("git can't create a worktree: {0}")]
    Add(#[source] GitError),
    #[error("There is no worktree: {0}.")]
    Hook(#[from] WorktreeRefused),
    #[error("worktree.sparsePaths can't be used: {0}")]
    Sparse(#[source] GitError),
}

impl Worktree {
    /// Makes a worktree of the repository that a folder belongs to.
    ///
    /// # Errors
    /// When git refuses.
    pub(crate) async fn create(
        trusted: &Git,
        name: &str,
        settings: &WorktreeSettings,
    ) -> Result<Self, WorktreeError> {
        let folder = trusted.folder();
        let top = git(trusted, folder, &["rev-parse", "--show-toplevel"])
            .await
            .map_err(|source| WorktreeError::Unusable {
                folder: folder.to_owned(),
                source,
            })?;
        let top = PathBuf::from(top);
        // An agent's own worktree goes when the agent is done; what it starts must not go with it.
        let repository = outermost(&top);
        let base = git(trusted, &top, &["rev-parse", "--verify", "HEAD^{commit}"])
            .await
            .map_err(|_| WorktreeError::NoCommit)?;
        let base = match settings.base_ref {
            Some(BaseRef::Fresh) => default_branch(trusted, &top).await.unwrap_or(base),
            Some(BaseRef::Head) | None => base,
        };
        let worktrees = repository.join(".lathe").join("worktrees");
        std::fs::create_dir_all(&worktrees)
            .and_then(|()| {
                // The repository must not see them as files of its own.
                let ignore = worktrees.join(".gitignore");
                if ignore.exists() {
                    Ok(())
                } else {
                    std::fs::write(ignore, "*\n")
                }
            })
            .map_err(|source| WorktreeError::Folder {
                folder: worktrees.clone(),
                source,
            })?;
        let path = worktrees.join(name);
        let branch = format!("lathe/{name}");
        let shown = path.to_string_lossy().into_owned();
        let mut add = vec!["worktree", "add", "--quiet", "-b", &branch];
        if !settings.sparse_paths.is_empty() {
            add.push("--no-checkout");
        }
        add.extend([shown.as_str(), &base]);
        git(trusted, &repository, &add)
            .await
            .map_err(WorktreeError::Add)?;
        let mut remarks = Vec::new();
        furnish(trusted, &repository, &path, settings, &mut remarks).await?;
        let dirty = git(
            trusted,
            &top,
            &["status", "--porcelain", "--untracked-files=normal"],
        )
        .await
        .unwrap_or_default();
        if !dirty.is_empty() {
            remarks.push(
                "Changes that are not committed in the original folder are not in the worktree."
                    .to_owned(),
            );
        }
        if path.join(".gitmodules").exists() {
            remarks.push(
                "Submodules are not checked out in the worktree; `git submodule update --init` does that where they are needed.".to_owned(),
            );
        }
        Ok(Self {
            git: Some(trusted.clone()),
            _held: sweep::hold(&path),
            repository,
            path,
            branch,
            base,
            remarks,
        })
    }

    /// A folder that a hook made.
    pub(crate) fn made_by_hook(path: PathBuf) -> Self {
        Self {
            git: None,
            repository: path.clone(),
            path,
            branch: String::new(),
            base: String::new(),
            remarks: Vec::new(),
            _held: None,
        }
    }

    /// The text for the agent.
    pub(crate) fn briefing(&self, parent: &Path) -> String {
        if self.git.is_none() {
            return format!(
                "You work in your own folder: {}. It replaces {}: translate the paths in your task, and write only in your folder.",
                self.path.display(),
                parent.display()
            );
        }
        let mut text = format!(
            "You work in your own git worktree: {} (branch {}). It is a copy of {}. Paths in your task or in the conversation may be in the original: translate them to the worktree, read a file again before you change it, and write only in the worktree.",
            self.path.display(),
            self.branch,
            parent.display()
        );
        for remark in &self.remarks {
            text.push(' ');
            text.push_str(remark);
        }
        text
    }

    /// The worktree at a path that an earlier run of the session made; `None` when it is gone.
    pub(crate) async fn find(trusted: &Git, path: &Path) -> Option<Self> {
        if !path.is_dir() {
            return None;
        }
        let common = git(
            trusted,
            path,
            &["rev-parse", "--path-format=absolute", "--git-common-dir"],
        )
        .await
        .ok()?;
        let branch = git(trusted, path, &["symbolic-ref", "--short", "HEAD"])
            .await
            .unwrap_or_default();
        // What it started from isn't known any more: the newest commit that the branch shares.
        let repository = Path::new(&common).parent()?.to_owned();
        let base = git(trusted, &repository, &["merge-base", "HEAD", &branch])
            .await
            .unwrap_or_default();
        Some(Self {
            git: Some(trusted.clone()),
            repository,
            path: path.to_owned(),
            branch,
            base,
            remarks: Vec::new(),
            _held: None,
        })
    }

    /// As [`Self::find`], by someone who works in it from now on.
    pub(crate) async fn take_up(trusted: &Git, path: &Path) -> Option<Self> {
        let mut found = Self::find(trusted, path).await?;
        found._held = sweep::hold(path);
        Some(found)
    }

    /// Whether anything was done in it.
    async fn is_changed(&self, trusted: &Git, files: Option<&[PathBuf]>) -> Result<bool, GitError> {
        let status = git(
            trusted,
            &self.path,
            &[
                "status",
                "--porcelain",
                "--untracked-files=normal",
                "--ignored=traditional",
            ],
        )
        .await?;
        // Git would remove files that it ignores without a word. What a build leaves fills whole folders;
        // single files, and those that the agent's own tools had in hand, are somebody's work.
        let is_work = |line: &str| match line.strip_prefix("!! ") {
            Some(ignored) if ignored.ends_with('/') => {
                let folder = self.path.join(ignored);
                files.is_none_or(|files| files.iter().any(|file| file.starts_with(&folder)))
            }
            _ => true,
        };
        let head = git(trusted, &self.path, &["rev-parse", "HEAD"]).await?;
        Ok(status.lines().any(is_work) || head != self.base)
    }

    /// Removes it if nothing was done in it. `files` are those that the agent read or wrote; `None`, when
    /// that isn't known any more, takes everything that lies there for work.
    pub(crate) async fn conclude(&self, files: Option<&[PathBuf]>) -> Conclusion {
        let kept = |why: &str| {
            Conclusion::Kept(format!(
                "{why} in the worktree {} on branch {}; merge them or remove it with `git worktree remove`.",
                self.path.display(),
                self.branch
            ))
        };
        let Some(trusted) = &self.git else {
            return Conclusion::Kept(format!(
                "It worked in {}, which a WorktreeCreate hook made; the folder stays.",
                self.path.display()
            ));
        };
        match self.is_changed(trusted, files).await {
            Ok(true) => return kept("Its changes are"),
            Err(_) => return kept("It could not be checked, so its files were kept"),
            Ok(false) => {}
        }
        let shown = self.path.to_string_lossy();
        if let Err(error) = git(trusted, &self.repository, &["worktree", "remove", &shown]).await {
            return kept(&format!(
                "git didn't remove it ({error}), so its files were kept"
            ));
        }
        let _ = std::fs::remove_file(sweep::lock_of(&self.path));
        let tip = git(trusted, &self.repository, &["rev-parse", &self.branch]).await;
        if tip.is_ok_and(|tip| tip == self.base) {
            let _ = git(
                trusted,
                &self.repository,
                &["branch", "-D", "--quiet", &self.branch],
            )
            .await;
        }
        Conclusion::Removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), &["init", "--quiet", "-b", "main"]).await;
        folder
    }

    async fn run(folder: &Path, arguments: &[&str]) -> String {
        let mut all = vec!["-c", "user.name=a", "-c", "user.email=a@b"];
        all.extend(["-c", "protocol.file.allow=always"]);
        all.extend(arguments);
        let output = tokio::process::Command::new("git")
            .args(&all)
            .current_dir(folder)
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{all:?}");
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    /// git in a folder that the user trusted.
    fn trusted(folder: &Path) -> Git {
        Git::new(&context(folder), folder).unwrap()
    }

    fn context(folder: &Path) -> lathe_permissions::PermissionContext {
        let home = Path::new("/home/you");
        let mut context = lathe_permissions::PermissionContext::new(folder, home, home);
        context.trusted = true;
        context
    }

    async fn created(folder: &tempfile::TempDir, name: &str) -> Worktree {
        let repository = trusted(folder.path());
        Worktree::create(&repository, name, &WorktreeSettings::default())
            .await
            .unwrap()
    }

    async fn with_commit() -> tempfile::TempDir {
        let folder = repository().await;
        std::fs::write(folder.path().join("a.txt"), "a\n").unwrap();
        run(folder.path(), &["add", "a.txt"]).await;
        run(folder.path(), &["commit", "--quiet", "-m", "one"]).await;
        folder
    }

    #[tokio::test]
    async fn settings_say_what_a_worktree_holds_and_where_it_starts() {
        let folder = with_commit().await;
        let root = folder.path();
        let first = run(root, &["rev-parse", "HEAD"]).await;
        run(root, &["update-ref", "refs/remotes/origin/main", &first]).await;
        for name in ["wanted/x", "other/y"] {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), "z").unwrap();
        }
        run(root, &["add", "-A"]).await;
        run(root, &["commit", "--quiet", "-m", "two"]).await;
        std::fs::create_dir_all(root.join("node_modules/m")).unwrap();
        let settings = WorktreeSettings {
            symlink_directories: vec!["node_modules".to_owned(), "../..".to_owned()],
            sparse_paths: vec!["wanted".to_owned()],
            ..WorktreeSettings::default()
        };
        let sparse = Worktree::create(&trusted(root), "sparse", &settings)
            .await
            .unwrap();
        assert!(sparse.path.join("wanted/x").exists());
        assert!(!sparse.path.join("other").exists());
        assert!(sparse.path.join("node_modules/m").exists());
        let settings = WorktreeSettings {
            base_ref: Some(BaseRef::Fresh),
            ..WorktreeSettings::default()
        };
        let fresh = Worktree::create(&trusted(root), "fresh", &settings)
            .await
            .unwrap();
        assert_eq!(fresh.base, first);
        assert!(!fresh.path.join("wanted").exists());
    }

    #[tokio::test]
    async fn an_untouched_worktree_is_removed_with_its_branch() {
        let folder = with_commit().await;
        let worktree = created(&folder, "one").await;
        assert!(worktree.path.join("a.txt").exists());
        assert!(worktree.remarks.is_empty());
        let status = run(folder.path(), &["status", "--porcelain"]).await;
        assert_eq!(status, "", "the repository doesn't see it");
        assert_eq!(worktree.conclude(Some(&[])).await, Conclusion::Removed);
        assert!(!worktree.path.exists());
        let branches = run(folder.path(), &["branch", "--list", "lathe/*"]).await;
        assert_eq!(branches, "");
    }

    #[tokio::test]
    async fn a_hook_of_the_repository_does_not_run() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = with_commit().await;
        let ran = folder.path().join("ran");
        let hook = folder.path().join(".git/hooks/post-checkout");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, format!("#!/bin/sh\ntouch '{}'\n", ran.display())).unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        created(&folder, "one").await;
        assert!(!ran.exists());
    }

    #[tokio::test]
    async fn changes_and_commits_are_kept() {
        let folder = with_commit().await;
        let dirty = created(&folder, "dirty").await;
        std::fs::write(dirty.path.join("new.txt"), "x").unwrap();
        assert!(
            matches!(dirty.conclude(Some(&[])).await, Conclusion::Kept(text) if text.contains("dirty"))
        );
        assert!(dirty.path.join("new.txt").exists());
        let committed = created(&folder, "committed").await;
        std::fs::write(committed.path.join("a.txt"), "b\n").unwrap();
        run(&committed.path, &["commit", "--quiet", "-am", "two"]).await;
        assert!(matches!(
            committed.conclude(Some(&[])).await,
            Conclusion::Kept(_)
        ));
        let again = Worktree::find(&trusted(folder.path()), &committed.path)
            .await
            .unwrap();
        assert_eq!(
            (&again.branch, &again.base),
            (&committed.branch, &committed.base)
        );
        assert!(matches!(
            again.conclude(Some(&[])).await,
            Conclusion::Kept(_)
        ));
    }

    #[tokio::test]
    async fn files_that_git_ignores_are_work_unless_a_build_left_them() {
        let folder = with_commit().await;
        std::fs::write(folder.path().join(".gitignore"), "target/\n*.env\n").unwrap();
        run(folder.path(), &["add", ".gitignore"]).await;
        run(folder.path(), &["commit", "--quiet", "-m", "ignore"]).await;
        let file = created(&folder, "file").await;
        std::fs::write(file.path.join("local.env"), "KEY=1").unwrap();
        assert!(matches!(
            file.conclude(Some(&[])).await,
            Conclusion::Kept(_)
        ));
        let build = created(&folder, "build").await;
        let left = build.path.join("target/debug/report.txt");
        std::fs::create_dir_all(left.parent().unwrap()).unwrap();
        std::fs::write(&left, "x").unwrap();
        // Who wrote it isn't known, or the agent did: it stays.
        assert!(matches!(build.conclude(None).await, Conclusion::Kept(_)));
        let own = [left.clone()];
        assert!(matches!(
            build.conclude(Some(&own)).await,
            Conclusion::Kept(_)
        ));
        assert!(left.exists());
        assert_eq!(build.conclude(Some(&[])).await, Conclusion::Removed);
    }

    #[tokio::test]
    async fn a_worktree_that_an_agent_in_a_worktree_asks_for_outlives_that_one() {
        let folder = with_commit().await;
        let outer = created(&folder, "outer").await;
        std::fs::write(outer.path.join("a.txt"), "outer\n").unwrap();
        run(&outer.path, &["commit", "--quiet", "-am", "two"]).await;
        let inner = Worktree::create(&trusted(&outer.path), "inner", &WorktreeSettings::default())
            .await
            .unwrap();
        assert_eq!(inner.path.parent(), outer.path.parent());
        assert_eq!(
            std::fs::read_to_string(inner.path.join("a.txt")).unwrap(),
            "outer\n",
            "it starts from where the one that asked stands"
        );
        std::fs::write(inner.path.join("new.txt"), "x").unwrap();
        run(&outer.path, &["reset", "--quiet", "--hard", "HEAD~1"]).await;
        assert_eq!(outer.conclude(Some(&[])).await, Conclusion::Removed);
        assert!(inner.path.join("new.txt").exists());
    }

    #[tokio::test]
    async fn a_dirty_tree_a_detached_head_and_submodules_are_said_or_work() {
        let folder = with_commit().await;
        let module = with_commit().await;
        let url = module.path().to_string_lossy().into_owned();
        run(
            folder.path(),
            &["submodule", "--quiet", "add", &url, "module"],
        )
        .await;
        run(folder.path(), &["commit", "--quiet", "-am", "module"]).await;
        run(folder.path(), &["checkout", "--quiet", "--detach"]).await;
        std::fs::write(folder.path().join("a.txt"), "changed\n").unwrap();
        let worktree = created(&folder, "x").await;
        let briefing = worktree.briefing(folder.path());
        assert!(briefing.contains("not committed") && briefing.contains("Submodules"));
        assert_eq!(
            std::fs::read_to_string(worktree.path.join("a.txt")).unwrap(),
            "a\n"
        );
        assert_eq!(worktree.conclude(Some(&[])).await, Conclusion::Removed);
        assert_eq!(
            std::fs::read_to_string(folder.path().join("a.txt")).unwrap(),
            "changed\n"
        );
    }

    #[tokio::test]
    async fn what_nobody_came_back_for_is_swept_unless_something_was_done_in_it() {
        use std::time::Duration;
        let folder = with_commit().await;
        let empty = created(&folder, "empty").await;
        let dirty = created(&folder, "dirty").await;
        let owned = created(&folder, "owned").await;
        let committed = created(&folder, "committed").await;
        std::fs::write(dirty.path.join("new.txt"), "x").unwrap();
        std::fs::write(committed.path.join("a.txt"), "b\n").unwrap();
        run(&committed.path, &["commit", "--quiet", "-am", "two"]).await;
        let paths = [&empty, &dirty, &committed].map(|worktree| worktree.path.clone());
        // Their process is gone; the owned one's isn't.
        drop((empty, dirty, committed));
        let soon = sweep(&trusted(folder.path()), sweep::PATIENCE).await;
        assert_eq!(soon, Vec::<PathBuf>::new(), "their session may come back");
        // A process that another test is just starting holds copies of all locks until its program runs.
        let mut swept = Vec::new();
        while swept.is_empty() {
            swept = sweep(&trusted(folder.path()), Duration::ZERO).await;
        }
        assert_eq!(
            swept,
            [folder
                .path()
                .canonicalize()
                .unwrap()
                .join(".lathe/worktrees/empty")]
        );
        assert!(!paths[0].exists() && !sweep::lock_of(&paths[0]).exists());
        assert!(paths[1].join("new.txt").exists() && paths[2].exists());
        assert!(owned.path.exists());
        let branches = run(folder.path(), &["branch", "--list", "lathe/*"]).await;
        assert!(!branches.contains("empty") && branches.contains("committed"));
        let back = Worktree::take_up(&trusted(folder.path()), &paths[1])
            .await
            .unwrap();
        std::fs::remove_file(back.path.join("new.txt")).unwrap();
        let none = sweep(&trusted(folder.path()), Duration::ZERO).await;
        assert_eq!(none, Vec::<PathBuf>::new(), "someone works in it again");
    }

    #[tokio::test]
    async fn a_locked_worktree_stays_and_other_folders_are_refused() {
        let folder = with_commit().await;
        let locked = created(&folder, "locked").await;
        let path = locked.path.to_string_lossy().into_owned();
        run(folder.path(), &["worktree", "lock", &path]).await;
        assert!(
            matches!(locked.conclude(Some(&[])).await, Conclusion::Kept(text) if text.contains("lock"))
        );
        assert!(locked.path.exists());
        let plain = tempfile::tempdir().unwrap();
        let error = Git::new(&context(plain.path()), plain.path()).unwrap_err();
        let error = WorktreeError::from(error);
        assert!(
            error.to_string().contains("not in a git repository"),
            "{error}"
        );
        let empty = repository().await;
        let error = Worktree::create(&trusted(empty.path()), "a", &WorktreeSettings::default())
            .await
            .unwrap_err();
        assert!(error.to_string().contains("no commit yet"), "{error}");
        let taken = Worktree::create(
            &trusted(folder.path()),
            "locked",
            &WorktreeSettings::default(),
        )
        .await
        .unwrap_err();
        assert!(
            taken.to_string().contains("git can't create a worktree"),
            "{taken}"
        );
    }
}
