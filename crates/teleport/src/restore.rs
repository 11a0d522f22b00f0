//! Putting a git state into a clone, in place or in a worktree of its own.
//!
//! A clone whose files are as its last commit says takes the state in place if its branch only moves forward. Anything
//! else gets a new worktree beside the clone. Afterwards a snapshot of the result is compared with the source's.

use crate::error::{Refusal, TeleportError};
use crate::git::{Git, parts};
use crate::snapshot::{
    FILES_REF, GitState, INDEX_REF, Snapshot, SnapshotOptions, root_commits, top_folder,
};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

/// The largest file that is written here.
const LARGEST: SnapshotOptions = SnapshotOptions {
    largest_file: 1 << 20,
    whole: false,
};

/// Where a state was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Restored {
    /// The top folder.
    pub(crate) top: PathBuf,
    /// The branch that is checked out there.
    pub(crate) branch: Option<String>,
}

/// Puts a state into the repository around `folder`, or into a new one if the bundle has the whole history.
pub(crate) fn restore(
    state: &GitState,
    bundle: &Path,
    folder: &Path,
    session: &str,
    own_worktree: bool,
) -> Result<Restored, TeleportError> {
    let top = match top_folder(folder)? {
        Some(top) => top,
        None => new_repository(state, bundle, folder)?,
    };
    let git = Git::new(&top)?;
    let format = git.line(&["rev-parse", "--show-object-format"])?;
    if format != state.object_format {
        return Err(Refusal::ObjectFormat(format!("{format}, {}", state.object_format)).into());
    }
    check_repository(state, &git)?;
    let bundle = bundle.to_string_lossy().into_owned();
    if git.try_run(&["bundle", "verify", "-q", &bundle])?.is_none() {
        return Err(Refusal::MissingCommits {
            commits: needed(&git, &bundle)?,
            folder: top,
        }
        .into());
    }
    let short: String = session.chars().take(8).collect();
    let [index, files] = [INDEX_REF, FILES_REF]
        .map(|name| name.replace("/teleport/", &format!("/teleport/{short}/")));
    let arguments = [
        "fetch",
        "-q",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        &bundle,
        &format!("+{INDEX_REF}:{index}"),
        &format!("+{FILES_REF}:{files}"),
    ];
    git.run(&arguments)?;
    for (name, tree) in [(&index, &state.index_tree), (&files, &state.files_tree)] {
        if git.line(&["rev-parse", &format!("{name}^{{tree}}")])? != *tree {
            return Err(TeleportError::Archive(
                "the bundle holds other trees than the manifest names".to_owned(),
            ));
        }
    }
    let place = Place {
        git,
        state,
        index: index.clone(),
        files: files.clone(),
    };
    let restored = place.put(&top, &short, own_worktree)?;
    let checked = check_result(state, &restored.top);
    if checked.is_err() && restored.top != top {
        let path = restored.top.to_string_lossy().into_owned();
        place.git.run(&["worktree", "remove", "--force", &path])?;
    }
    checked?;
    for name in [index, files] {
        place.git.run(&["update-ref", "-d", &name])?;
    }
    Ok(restored)
}

fn check_result(state: &GitState, top: &Path) -> Result<(), TeleportError> {
    let after = Snapshot::take(top, LARGEST)?.state;
    let what = match () {
        () if after.head != state.head => "the commit",
        () if after.index_tree != state.index_tree => "the index",
        () if after.files_tree != state.files_tree => "files",
        () => return Ok(()),
    };
    Err(Refusal::Different {
        folder: top.to_owned(),
        what,
    }
    .into())
}

/// A repository in a folder that has none.
fn new_repository(
    state: &GitState,
    bundle: &Path,
    folder: &Path,
) -> Result<PathBuf, TeleportError> {
    let git = Git::new(folder)?;
    if !state.whole {
        let bundle = bundle.to_string_lossy().into_owned();
        return Err(Refusal::NoRepository {
            folder: folder.to_owned(),
            commits: needed(&git, &bundle)?,
        }
        .into());
    }
    let mut entries = fs::read_dir(folder).map_err(TeleportError::io("read", folder))?;
    if entries.next().is_some() {
        return Err(Refusal::UnbornTarget(folder.to_owned()).into());
    }
    let format = format!("--object-format={}", state.object_format);
    let branch = state.branch.as_deref().unwrap_or("main");
    git.run(&["init", "-q", "--template=", &format, "-b", branch])?;
    Ok(folder.to_owned())
}

/// The commits that a bundle builds on.
fn needed(git: &Git, bundle: &str) -> Result<String, TeleportError> {
    let text = fs::File::open(bundle)
        .and_then(|file| {
            let mut head = Vec::new();
            std::io::Read::read_to_end(&mut std::io::Read::take(file, 1 << 20), &mut head)?;
            Ok(head)
        })
        .map_err(TeleportError::io("read", Path::new(bundle)))?;
    let mut commits = Vec::new();
    for line in text.split(|byte| *byte == b'\n').skip(1) {
        let line = String::from_utf8_lossy(line);
        if line.is_empty() {
            break;
        }
        if let Some(hash) = line.strip_prefix('-').and_then(|it| it.split(' ').next())
            && git.try_run(&["cat-file", "-e", hash])?.is_none()
        {
            commits.push(hash.chars().take(12).collect::<String>());
        }
    }
    commits.truncate(3);
    Ok(commits.join(", "))
}

/// The repository is recognised by its first commits, so that forks and other names are the same.
fn check_repository(state: &GitState, git: &Git) -> Result<(), TeleportError> {
    let here = root_commits(git)?;
    let same = here.is_empty()
        || state.roots.is_empty()
        || here.iter().any(|root| state.roots.contains(root));
    if same {
        return Ok(());
    }
    let root = state.roots.first().cloned().unwrap_or_default();
    Err(Refusal::OtherRepository {
        folder: git.folder().to_owned(),
        root: root.chars().take(12).collect(),
    }
    .into())
}

struct Place<'a> {
    git: Git,
    state: &'a GitState,
    index: String,
    files: String,
}

impl Place<'_> {
    fn put(&self, top: &Path, short: &str, own: bool) -> Result<Restored, TeleportError> {
        let changes = self.changes()?;
        let free = !own && self.is_clean(top, &changes)?;
        let Some(head) = &self.state.head else {
            let unborn = self
                .git
                .try_line(&["rev-parse", "-q", "--verify", "HEAD"])?
                .is_none();
            if !free || !unborn {
                return Err(Refusal::UnbornTarget(top.to_owned()).into());
            }
            if let Some(branch) = &self.state.branch {
                let name = format!("refs/heads/{branch}");
                self.git.run(&["symbolic-ref", "HEAD", &name])?;
            }
            return self.fill(top, self.state.branch.clone(), &changes);
        };
        let branch = self.branch_that_moves_forward(head)?;
        if free && (branch.is_some() || self.state.branch.is_none()) {
            match &branch {
                Some(branch) => self.git.run(&["checkout", "-q", "-B", branch, head])?,
                None => self.git.run(&["checkout", "-q", "--detach", head])?,
            };
            return self.fill(top, branch, &changes);
        }
        let name = top.file_name().unwrap_or_default().to_string_lossy();
        let folder = unused(&top.with_file_name(format!("{name}-{short}")));
        let path = folder.to_string_lossy().into_owned();
        let taken = self.state.branch.is_some() && self.is_checked_out()?;
        let branch = match branch {
            Some(branch) if !taken => Some(branch),
            _ if self.state.branch.is_none() => None,
            _ => Some(self.unused_branch(short)?),
        };
        match &branch {
            Some(branch) => {
                let arguments = ["worktree", "add", "-q", "-B", branch, &path, head];
                self.git.run(&arguments)?;
            }
            None => {
                let arguments = ["worktree", "add", "-q", "--detach", &path, head];
                self.git.run(&arguments)?;
            }
        }
        self.fill(&folder, branch, &changes)
    }

    /// True if taking the state in place overwrites nothing: no changes, and nothing where new files go.
    fn is_clean(&self, top: &Path, changes: &[Change]) -> Result<bool, TeleportError> {
        let status = [
            "status",
            "--porcelain",
            "-z",
            "--ignore-submodules=dirty",
            "--untracked-files=all",
        ];
        if !self.git.run(&status)?.is_empty() {
            return Ok(false);
        }
        let tracked = self.git.run(&["ls-files", "-z"])?;
        let tracked: std::collections::HashSet<&[u8]> = parts(&tracked).collect();
        Ok(changes.iter().all(|change| {
            tracked.contains(change.path.as_bytes())
                || fs::symlink_metadata(top.join(&change.path)).is_err()
        }))
    }

    /// The branch of the source, if it is not here or only moves forward.
    fn branch_that_moves_forward(&self, head: &str) -> Result<Option<String>, TeleportError> {
        let Some(branch) = &self.state.branch else {
            return Ok(None);
        };
        let name = format!("refs/heads/{branch}");
        let here = self.git.try_line(&["rev-parse", "-q", "--verify", &name])?;
        let forward = match here {
            None => true,
            Some(here) => {
                let arguments = ["merge-base", "--is-ancestor", &here, head];
                self.git.try_run(&arguments)?.is_some()
            }
        };
        Ok(forward.then(|| branch.clone()))
    }

    fn is_checked_out(&self) -> Result<bool, TeleportError> {
        let list = self.git.line(&["worktree", "list", "--porcelain"])?;
        let wanted = self.state.branch.as_deref().unwrap_or_default();
        Ok(list
            .lines()
            .any(|line| line.strip_prefix("branch refs/heads/") == Some(wanted)))
    }

    fn unused_branch(&self, short: &str) -> Result<String, TeleportError> {
        let mut number = 1;
        loop {
            let branch = match number {
                1 => format!("teleport/{short}"),
                _ => format!("teleport/{short}-{number}"),
            };
            let name = format!("refs/heads/{branch}");
            if self
                .git
                .try_line(&["rev-parse", "-q", "--verify", &name])?
                .is_none()
            {
                return Ok(branch);
            }
            number += 1;
        }
    }

    /// The differences between the index and the files of the source.
    fn changes(&self) -> Result<Vec<Change>, TeleportError> {
        let arguments = [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-abbrev",
            &self.index,
            &self.files,
        ];
        let raw = self.git.run(&arguments)?;
        let mut raw = parts(&raw);
        let mut changes = Vec::new();
        while let (Some(head), Some(path)) = (raw.next(), raw.next()) {
            let head = String::from_utf8_lossy(head).into_owned();
            let mut words = head.trim_start_matches(':').split(' ').skip(1);
            let mode = words.next().unwrap_or_default().to_owned();
            let hash = words.nth(1).unwrap_or_default().to_owned();
            let path = String::from_utf8(path.to_vec())
                .map_err(|_| TeleportError::Archive("a name is not UTF-8".to_owned()))?;
            check_path(&path)?;
            changes.push(Change { path, mode, hash });
        }
        Ok(changes)
    }

    /// Fills a folder that has the commit: first the index, then the files byte for byte.
    fn fill(
        &self,
        top: &Path,
        branch: Option<String>,
        changes: &[Change],
    ) -> Result<Restored, TeleportError> {
        let git = Git::new(top)?;
        git.run(&["read-tree", "--reset", "-u", &self.index])?;
        for change in changes.iter().filter(|change| change.is_deletion()) {
            change.remove(top)?;
        }
        for change in changes.iter().filter(|change| !change.is_deletion()) {
            change.write(&git, top)?;
        }
        git.try_run(&["update-index", "-q", "--ignore-submodules", "--refresh"])?;
        for path in &self.state.intent_to_add {
            check_path(path)?;
            git.run(&["--literal-pathspecs", "add", "-N", "-f", "--", path])?;
        }
        Ok(Restored {
            top: top.to_owned(),
            branch,
        })
    }
}

/// A file that is not as the index says.
struct Change {
    path: String,
    mode: String,
    hash: String,
}

impl Change {
    fn is_deletion(&self) -> bool {
        self.mode == "000000"
    }

    fn remove(&self, top: &Path) -> Result<(), TeleportError> {
        let path = top.join(&self.path);
        real_folders(top, &self.path)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(TeleportError::io("remove", &path)(error));
            }
            _ => {}
        }
        // git keeps no empty folders.
        for folder in path.ancestors().skip(1).take_while(|it| *it != top) {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, git: &Git, top: &Path) -> Result<(), TeleportError> {
        let path = top.join(&self.path);
        let failed = TeleportError::io("write", &path);
        real_folders(top, &self.path)?;
        let folder = path.parent().unwrap_or(top);
        let content = git.run(&["cat-file", "blob", &self.hash])?;
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(folder)?;
            if self.mode == "120000" {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error)?,
                    _ => {}
                }
                return symlink(std::ffi::OsStr::from_bytes(&content), &path);
            }
            let mut file = tempfile::Builder::new()
                .prefix(".lathe-teleport-")
                .tempfile_in(folder)?;
            file.write_all(&content)?;
            let mode = if self.mode == "100755" { 0o755 } else { 0o644 };
            file.as_file()
                .set_permissions(fs::Permissions::from_mode(mode))?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(failed)
    }
}

/// Refuses names that lead out of the folder or into git's own.
fn check_path(path: &str) -> Result<(), TeleportError> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
    let same = Path::new(path).components().all(is_plain);
    if path.is_empty() || path.starts_with('/') || !same || path.contains("//") {
        return Err(TeleportError::Archive(format!(
            "the name {path:?} is not allowed"
        )));
    }
    Ok(())
}

/// Refuses a path through a link: it would lead out of the folder.
fn real_folders(top: &Path, path: &str) -> Result<(), TeleportError> {
    for folder in Path::new(path).ancestors().skip(1) {
        let folder = top.join(folder);
        if fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
            return Err(TeleportError::Archive(format!(
                "{path:?} would be written through a link"
            )));
        }
    }
    Ok(())
}

fn unused(path: &Path) -> PathBuf {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut number = 1;
    let mut free = path.to_owned();
    while fs::symlink_metadata(&free).is_ok() {
        number += 1;
        free = path.with_file_name(format!("{name}-{number}"));
    }
    free
}
