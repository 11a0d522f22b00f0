//! A git worktree: a folder of its own on a branch of its own, for an agent or for the session itself (`session`).
//!
//! It lies under `.lathe/worktrees/` of the repository, or where settings say, and is removed when nothing was done
//! in it; with changes, or with commits that are on no other branch, it stays. Only [`Worktree::discard`] forces git,
//! after the user's confirmation.

mod furnish;
pub(crate) mod session;
mod sweep;

pub(crate) use sweep::{PATIENCE, sweep};

use crate::context::git::{Git, GitError};
use crate::conversation::ConversationShared;
use crate::conversation::hook_points::WorktreeRefused;
use furnish::{furnish, is_furniture, remove_links};
use lathe_permissions::repository::NotTrusted;
use lathe_settings::schema::{BaseRef, WorktreeSettings};
use std::path::{Path, PathBuf};

/// The prefix of the branches that are made for worktrees.
const BRANCHES: &str = "lathe/";

/// A worktree.
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
    /// Remarks for who works in it.
    pub(crate) remarks: Vec<String>,
    /// Says to other processes that it has an owner.
    held: Option<std::fs::File>,
}

/// The end of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// Nothing was in it, so it is gone.
    Removed,
    /// It stays; the text says why and where.
    Kept(String),
}

/// The work in a worktree that is nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Work {
    /// Files that are not committed.
    pub(crate) files: Vec<String>,
    /// Commits that are on no other branch.
    pub(crate) commits: usize,
    /// Links that were put there when it was made.
    links: Vec<String>,
}

impl Work {
    pub(crate) fn is_none(&self) -> bool {
        self.files.is_empty() && self.commits == 0
    }
}

/// The output of git in a folder of a repository, without the end of its last line.
async fn git(trusted: &Git, folder: &Path, arguments: &[&str]) -> Result<String, GitError> {
    let output = trusted.at(folder)?.run(arguments).await?;
    Ok(output.trim_end().to_owned())
}

/// The repository's folder that is no worktree itself.
async fn outermost(trusted: &Git, top: &Path) -> PathBuf {
    let arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let common = git(trusted, top, &arguments).await.map(PathBuf::from);
    let main = common.ok().and_then(|common| {
        let folder = common.parent().map(Path::to_owned);
        folder.filter(|_| common.ends_with(".git"))
    });
    // A repository whose files are elsewhere (a submodule, a bare one) has no such folder.
    main.unwrap_or_else(|| top.to_owned())
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

/// The folder of a repository's worktrees.
pub(crate) fn folder_of(repository: &Path, settings: &WorktreeSettings) -> PathBuf {
    match &settings.location {
        None => repository.join(".lathe").join("worktrees"),
        Some(location) => {
            let name = repository.file_name().unwrap_or("repository".as_ref());
            repository.join(location).join(name)
        }
    }
}

/// The settings of a session for worktrees.
pub(crate) fn settings_of(shared: &ConversationShared) -> WorktreeSettings {
    let settings = shared.session.settings.value.read();
    let settings = settings.get("worktree").cloned();
    let mut settings: WorktreeSettings = settings
        .and_then(|value| serde_json::from_value(value).ok())
        .unwrap_or_default();
    if let Some(rest) = settings
        .location
        .as_deref()
        .and_then(|it| it.strip_prefix("~/"))
    {
        let folder = shared.tools.home.join(rest);
        settings.location = Some(folder.to_string_lossy().into_owned());
    }
    settings
}

/// Makes a worktree by this name, from where a conversation stands; a hook may make it instead.
pub(crate) async fn make(
    shared: &ConversationShared,
    name: &str,
) -> Result<Worktree, WorktreeError> {
    let by_hook = shared.hooks.worktree_create(name).await?;
    let context = shared.permissions.snapshot();
    match by_hook {
        Some(path) => Ok(Worktree::made_by_hook(path, context.project.clone())),
        None => {
            let folder = shared.tools.working_folder.read().clone();
            let git = Git::new(&context, &folder)?;
            Worktree::create(&git, name, &settings_of(shared)).await
        }
    }
}

/// Why there can be no worktree.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorktreeError {
    #[error("A worktree can't be created: {0}")]
    NotTrusted(#[from] NotTrusted),
    #[error(
        "A worktree can't be created: {} can't be used by git ({source})",
        folder.display()
    )]
    Unusable { folder: PathBuf, source: GitError },
    #[error(
        "The repository has no commit yet, and a worktree starts from one. Commit something first, or work without one."
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

/// git reads the state of all worktrees when it adds one, and fails where another is half made.
static ADDING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// How often a worktree is added again that met one which another process was making.
const MOST_TRIES: usize = 5;

/// Adds a worktree, after those that are being added.
async fn add_one(trusted: &Git, repository: &Path, add: &[&str]) -> Result<(), GitError> {
    let _one = ADDING.lock().await;
    let mut tries = 1;
    loop {
        match git(trusted, repository, add).await {
            Ok(_) => return Ok(()),
            Err(error) if tries < MOST_TRIES && error.to_string().contains("commondir") => {
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

impl Worktree {
    /// Makes a worktree of the repository that a folder belongs to. A branch of that name that an earlier worktree
    /// left is continued.
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
        let repository = outermost(trusted, &top).await;
        let base = git(trusted, &top, &["rev-parse", "--verify", "HEAD^{commit}"])
            .await
            .map_err(|_| WorktreeError::NoCommit)?;
        let mut base = match settings.base_ref {
            Some(BaseRef::Fresh) => default_branch(trusted, &top).await.unwrap_or(base),
            Some(BaseRef::Head) | None => base,
        };
        let worktrees = folder_of(&repository, settings);
        prepare(&worktrees, &repository).map_err(|source| WorktreeError::Folder {
            folder: worktrees.clone(),
            source,
        })?;
        let path = worktrees.join(name.replace('/', "+"));
        let branch = format!("{BRANCHES}{name}");
        // Before anything is there: a process that dies from now on leaves something that is swept.
        let held = sweep::hold(&path);
        let shown = path.to_string_lossy().into_owned();
        let mut add = vec!["worktree", "add", "--quiet"];
        if !settings.sparse_paths.is_empty() {
            add.push("--no-checkout");
        }
        let left = git(trusted, &top, &["merge-base", &base, &branch]).await;
        match &left {
            Ok(shared) => {
                base.clone_from(shared);
                add.extend([shown.as_str(), &branch]);
            }
            Err(_) => add.extend(["-b", &branch, &shown, &base]),
        }
        if let Err(error) = add_one(trusted, &repository, &add).await {
            if held.is_some() {
                let _ = std::fs::remove_file(sweep::lock_of(&path));
            }
            return Err(WorktreeError::Add(error));
        }
        let mut remarks = Vec::new();
        if left.is_ok() {
            remarks.push(format!("It continues the existing branch {branch}."));
        }
        furnish(trusted, &repository, &path, settings, &mut remarks).await?;
        let dirty = ["status", "--porcelain", "--untracked-files=normal"];
        let dirty = git(trusted, &top, &dirty).await.unwrap_or_default();
        if !dirty.is_empty() {
            remarks.push(
                "Changes that are not committed in the original folder are not in the worktree."
                    .to_owned(),
            );
        }
        if path.join(".gitmodules").exists() {
            remarks.push(
                "Submodules are not checked out in the worktree; `git submodule update --init` does that.".to_owned(),
            );
        }
        Ok(Self {
            git: Some(trusted.clone()),
            held,
            repository,
            path,
            branch,
            base,
            remarks,
        })
    }

    /// A folder that a hook made.
    pub(crate) fn made_by_hook(path: PathBuf, project: PathBuf) -> Self {
        Self {
            git: None,
            repository: project,
            path,
            branch: String::new(),
            base: String::new(),
            remarks: Vec::new(),
            held: None,
        }
    }

    /// The text for an agent that works in it.
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
        // A plain folder in the repository is no worktree of it.
        let top = git(trusted, path, &["rev-parse", "--show-toplevel"])
            .await
            .ok()?;
        if std::fs::canonicalize(top).ok()? != std::fs::canonicalize(path).ok()? {
            return None;
        }
        let branch = git(trusted, path, &["symbolic-ref", "--short", "HEAD"])
            .await
            .unwrap_or_default();
        let repository = outermost(trusted, path).await;
        // What it started from isn't known any more: the newest commit that the branch shares.
        let base = git(trusted, &repository, &["merge-base", "HEAD", &branch])
            .await
            .unwrap_or_default();
        trusted.at(path).ok()?;
        Some(Self {
            git: Some(trusted.clone()),
            repository,
            path: path.to_owned(),
            branch,
            base,
            remarks: Vec::new(),
            held: None,
        })
    }

    /// As [`Self::find`], by someone who works in it from now on.
    pub(crate) async fn take_up(trusted: &Git, path: &Path) -> Option<Self> {
        let mut found = Self::find(trusted, path).await?;
        found.held = sweep::hold(path);
        Some(found)
    }

    /// The work in it that is nowhere else. `files` are those that an agent read or wrote; `None`, when that isn't
    /// known, takes everything that lies there for work, but for what was put there when it was made.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) async fn work(&self, files: Option<&[PathBuf]>) -> Result<Work, GitError> {
        let Some(trusted) = &self.git else {
            return Ok(Work::default());
        };
        let status = git(
            trusted,
            &self.path,
            &[
                "status",
                "--porcelain",
                "-z",
                "--no-renames",
                "--untracked-files=normal",
                "--ignored=traditional",
            ],
        )
        .await?;
        let mut work = Work::default();
        for line in status.split('\0').filter(|line| line.len() > 3) {
            let (state, name) = line.split_at(3);
            if state.starts_with(['?', '!']) && is_furniture(&self.repository, &self.path, name) {
                work.links.push(name.to_owned());
                continue;
            }
            // Git would remove files that it ignores without a word. What a build leaves fills whole folders;
            // single files, and those that the agent's own tools had in hand, are somebody's work.
            let folder = self.path.join(name);
            let left_by_build = state == "!! "
                && name.ends_with('/')
                && files.is_some_and(|files| !files.iter().any(|file| file.starts_with(&folder)));
            if !left_by_build {
                work.files.push(name.to_owned());
            }
        }
        let mut count = vec!["rev-list", "--count", "HEAD"];
        let own = format!("refs/heads/{}", self.branch);
        let excluded = format!("--exclude={}", self.branch);
        if !self.branch.is_empty() {
            count.push(&own);
        }
        count.extend(["--not", &excluded, "--branches", "--remotes"]);
        if !self.base.is_empty() {
            count.push(&self.base);
        }
        let commits = git(trusted, &self.path, &count).await?;
        work.commits = commits.trim().parse().unwrap_or(usize::MAX);
        Ok(work)
    }

    /// Removes it if nothing was done in it that is nowhere else.
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
                "The work is in {}, which a WorktreeCreate hook made; the folder stays.",
                self.path.display()
            ));
        };
        let work = match self.work(files).await {
            Ok(work) if work.is_none() => work,
            Ok(_) => return kept("The changes are"),
            Err(_) => return kept("It could not be checked, so its files were kept"),
        };
        remove_links(&self.repository, &self.path, &work.links);
        if let Err(error) = self.remove(trusted, false).await {
            return kept(&format!(
                "git didn't remove it ({error}), so its files were kept"
            ));
        }
        Conclusion::Removed
    }

    /// Removes it with everything in it, after the user's confirmation.
    ///
    /// # Errors
    /// When git refuses, or a hook made it.
    pub(crate) async fn discard(&self) -> Result<(), GitError> {
        let Some(trusted) = &self.git else {
            return Err(GitError::Failed(
                "a WorktreeCreate hook made the folder, so only you can remove it".to_owned(),
            ));
        };
        self.remove(trusted, true).await
    }

    async fn remove(&self, trusted: &Git, force: bool) -> Result<(), GitError> {
        let shown = self.path.to_string_lossy();
        let mut remove = vec!["worktree", "remove", &shown];
        if force {
            remove.push("--force");
        }
        git(trusted, &self.repository, &remove).await?;
        let _ = std::fs::remove_file(sweep::lock_of(&self.path));
        // Branches that others made stay.
        if self.branch.starts_with(BRANCHES) {
            let _ = git(
                trusted,
                &self.repository,
                &["branch", "-D", "--quiet", &self.branch],
            )
            .await;
        }
        Ok(())
    }
}

/// Makes the folder of worktrees. The repository must not see them as files of its own.
fn prepare(worktrees: &Path, repository: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(worktrees)?;
    let ignore = worktrees.join(".gitignore");
    if ignore.exists() || !worktrees.starts_with(repository) {
        return Ok(());
    }
    std::fs::write(ignore, "*\n")
}

#[cfg(test)]
mod tests;
