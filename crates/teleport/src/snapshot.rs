//! The git state of a folder as two commits, made without touching its index, its stash or its refs.
//!
//! Everything is written to a scratch repository that borrows the objects of the real one and has a copy of its
//! index. The first commit holds the index, the second the files as they are, untracked ones too, byte for byte.
//! What can't be carried in such trees is refused ([`Refusal`]).

use crate::error::{Refusal, TeleportError};
use crate::git::{Git, parts};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Settings of a repository that decide how its files are read.
const CARRIED_SETTINGS: &[&str] = &[
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.excludesfile",
    "core.precomposeunicode",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
];
/// Files of an operation that has not ended, and its name.
const OPERATIONS: &[(&str, &str)] = &[
    ("MERGE_HEAD", "a merge"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or `git am`"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
];
/// The ref of the commit of the index in a bundle.
pub(crate) const INDEX_REF: &str = "refs/lathe/teleport/index";
/// The ref of the commit of the files in a bundle.
pub(crate) const FILES_REF: &str = "refs/lathe/teleport/files";
/// How many paths are given to one call of git.
const BATCH: usize = 2000;

/// The git state of a session, as its archive describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitState {
    /// `sha1` or `sha256`.
    pub object_format: String,
    /// The first commits of the history, by which the repository is recognised; none if it is not known.
    pub roots: Vec<String>,
    /// The commit that is checked out; `None` before the first one.
    pub head: Option<String>,
    /// The branch; `None` for a detached HEAD.
    pub branch: Option<String>,
    /// The tree of the index.
    pub index_tree: String,
    /// The tree of the files.
    pub files_tree: String,
    /// Files whose content is to be added later (`git add -N`).
    pub intent_to_add: Vec<String>,
    /// True if the bundle has the whole history.
    pub whole: bool,
}

/// Options of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotOptions {
    /// The largest file that is carried, in megabytes.
    pub largest_file: u64,
    /// Carry the whole history, also what remotes have.
    pub whole: bool,
}

/// A snapshot, with the scratch repository that holds it.
pub(crate) struct Snapshot {
    pub(crate) state: GitState,
    /// The files that differ from the last commit.
    pub(crate) changed: Vec<String>,
    scratch: TempDir,
    git: Git,
}

/// The top folder of the repository around a folder.
pub(crate) fn top_folder(folder: &Path) -> Result<Option<PathBuf>, TeleportError> {
    let top = Git::new(folder)?.try_line(&["rev-parse", "--show-toplevel"])?;
    Ok(top.map(PathBuf::from))
}

/// The first commits of a history; none for a shallow one, whose first commits are cut.
pub(crate) fn root_commits(git: &Git) -> Result<Vec<String>, TeleportError> {
    if is_shallow(git)? {
        return Ok(Vec::new());
    }
    let roots = git.try_line(&["rev-list", "--max-parents=0", "HEAD"])?;
    Ok(roots
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect())
}

fn is_shallow(git: &Git) -> Result<bool, TeleportError> {
    Ok(git.line(&["rev-parse", "--is-shallow-repository"])? == "true")
}

/// A path of the repository's own folder.
fn git_path(git: &Git, name: &str) -> Result<PathBuf, TeleportError> {
    let path = git.line(&["rev-parse", "--git-path", name])?;
    Ok(git.folder().join(path))
}

impl Snapshot {
    /// Takes a snapshot of the repository whose top folder this is.
    pub(crate) fn take(top: &Path, options: SnapshotOptions) -> Result<Self, TeleportError> {
        let source = Git::new(top)?;
        for (file, name) in OPERATIONS {
            if git_path(&source, file)?.exists() {
                return Err(Refusal::InProgress(name).into());
            }
        }
        let scratch = tempfile::tempdir().map_err(TeleportError::io("create a folder in", top))?;
        let format = source.line(&["rev-parse", "--show-object-format"])?;
        let git = borrow(&source, scratch.path(), top, &format)?;
        let conflicts = git.run(&["ls-files", "-z", "-u"])?;
        if let Some(entry) = parts(&conflicts).next() {
            return Err(Refusal::Conflicts(entry_path(entry)?).into());
        }
        let index = Index::read(&git)?;
        index.check_submodules(top, "")?;
        index.check_hidden(&git, top)?;
        // Fails for files that differ; the copied index is refreshed all the same.
        git.try_run(&["update-index", "-q", "--ignore-submodules", "--refresh"])?;
        let index_tree = git.line(&["write-tree"])?;
        let intent_to_add = intent_to_add(&git)?;
        let changes = Changes::find(&git, top, options.largest_file)?;
        changes.apply(&git, top)?;
        let files_tree = git.line(&["write-tree"])?;
        let head = source.try_line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"])?;
        let state = GitState {
            object_format: format,
            roots: match head {
                Some(_) => root_commits(&source)?,
                None => Vec::new(),
            },
            branch: source.try_line(&["symbolic-ref", "-q", "--short", "HEAD"])?,
            head,
            index_tree,
            files_tree,
            intent_to_add,
            whole: false,
        };
        let mut snapshot = Self {
            changed: Vec::new(),
            state,
            scratch,
            git,
        };
        snapshot.changed = snapshot.changed_files()?;
        Ok(snapshot)
    }

    /// The difference between a commit and the files, as `git apply` takes it.
    pub(crate) fn diff(&self, base: &str) -> Result<Vec<u8>, TeleportError> {
        let files = &self.state.files_tree;
        let arguments = [
            "diff-tree",
            "-r",
            "-p",
            "--binary",
            "--full-index",
            "--no-renames",
            base,
            files,
        ];
        self.git.run(&arguments)
    }

    /// The files that are carried because they differ from the last commit.
    fn changed_files(&self) -> Result<Vec<String>, TeleportError> {
        let empty;
        let base = match &self.state.head {
            Some(head) => head.as_str(),
            None => {
                empty = self.git.feed(&["mktree"], Vec::new())?;
                empty.as_str()
            }
        };
        let arguments = [
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--name-only",
            "--diff-filter=d",
            base,
            &self.state.files_tree,
        ];
        parts(&self.git.run(&arguments)?).map(path_text).collect()
    }

    /// Writes the bundle: the two commits, and the history that no remote has.
    pub(crate) fn bundle(&mut self, source: &Path, whole: bool) -> Result<PathBuf, TeleportError> {
        self.bundle_without(source, whole, None)
    }

    /// The same without the history of a commit that the other side has.
    pub(crate) fn bundle_without(
        &mut self,
        source: &Path,
        whole: bool,
        base: Option<&str>,
    ) -> Result<PathBuf, TeleportError> {
        let source = Git::new(source)?;
        let commit = |tree: &str, parent: Option<&str>| {
            let mut arguments = vec!["commit-tree", tree, "-m", "teleport"];
            if let Some(parent) = parent {
                arguments.extend(["-p", parent]);
            }
            self.git.line(&arguments)
        };
        let index = commit(&self.state.index_tree, self.state.head.as_deref())?;
        let files = commit(&self.state.files_tree, Some(&index))?;
        self.git.run(&["update-ref", INDEX_REF, &index])?;
        self.git.run(&["update-ref", FILES_REF, &files])?;
        let mut known = match whole {
            true => Vec::new(),
            false => source.run(&["for-each-ref", "--format=^%(objectname)", "refs/remotes"])?,
        };
        if let Some(base) = base {
            known.extend(format!("^{base}\n").into_bytes());
        }
        if known.is_empty() && is_shallow(&source)? {
            return Err(Refusal::Shallow.into());
        }
        self.state.whole = known.is_empty();
        let path = self.scratch.path().join("repo.bundle");
        let name = path.to_string_lossy().into_owned();
        let mut input = format!("{INDEX_REF}\n{FILES_REF}\n").into_bytes();
        input.extend(known);
        self.git
            .feed(&["bundle", "create", "-q", &name, "--stdin"], input)?;
        Ok(path)
    }
}

/// A scratch repository that borrows the objects of another, with a copy of its index.
fn borrow(source: &Git, scratch: &Path, top: &Path, format: &str) -> Result<Git, TeleportError> {
    let repository = scratch.join("snapshot.git");
    let name = repository.to_string_lossy().into_owned();
    let format = format!("--object-format={format}");
    source.run(&["init", "-q", "--bare", "--template=", &format, &name])?;
    let copy = |from: &Path, to: &Path| match fs::copy(from, to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(TeleportError::io("copy", from)(error))
        }
        _ => Ok(()),
    };
    fs::create_dir_all(repository.join("info"))
        .map_err(TeleportError::io("create", &repository))?;
    for name in [
        "index",
        "info/exclude",
        "info/attributes",
        "info/sparse-checkout",
        "shallow",
    ] {
        copy(&git_path(source, name)?, &repository.join(name))?;
    }
    let folder = git_path(source, "index")?;
    for entry in folder
        .parent()
        .and_then(|it| fs::read_dir(it).ok())
        .into_iter()
        .flatten()
    {
        let entry = entry.map_err(TeleportError::io("read", top))?;
        if entry.file_name().as_bytes().starts_with(b"sharedindex.") {
            copy(&entry.path(), &repository.join(entry.file_name()))?;
        }
    }
    let mut objects = git_path(source, "objects")?.into_os_string();
    objects.push("\n");
    let alternates = repository.join("objects/info/alternates");
    fs::create_dir_all(repository.join("objects/info"))
        .and_then(|()| fs::write(&alternates, objects.as_bytes()))
        .map_err(TeleportError::io("write", &alternates))?;
    let git = Git::new(top)?.with_repository(&repository, top);
    git.run(&["config", "core.bare", "false"])?;
    for name in CARRIED_SETTINGS {
        if let Some(value) = source.try_line(&["config", "--get", name])? {
            git.run(&["config", name, &value])?;
        }
    }
    Ok(git)
}

fn path_text(bytes: &[u8]) -> Result<String, TeleportError> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Refusal::Name(String::from_utf8_lossy(bytes).into_owned()).into())
}

/// The path of an entry of `ls-files -s -z`, after the tab.
fn entry_path(entry: &[u8]) -> Result<String, TeleportError> {
    let at = entry.iter().position(|byte| *byte == b'\t');
    path_text(at.map_or(entry, |at| &entry[at + 1..]))
}

/// Entries of an index that need a look before a snapshot.
struct Index {
    /// Submodules, with the commits that the index names.
    submodules: Vec<(String, String)>,
    /// Files that git was told not to look at, with their hashes.
    hidden: Vec<(String, String)>,
}

impl Index {
    fn read(git: &Git) -> Result<Self, TeleportError> {
        let mut index = Self {
            submodules: Vec::new(),
            hidden: Vec::new(),
        };
        // "H 100644 <hash> 0\t<path>": a small letter is assume-unchanged, S is skip-worktree.
        for entry in parts(&git.run(&["ls-files", "-z", "-s", "-v"])?) {
            let path = entry_path(entry)?;
            let head = String::from_utf8_lossy(entry);
            let mut words = head.split_ascii_whitespace();
            let (Some(tag), Some(mode), Some(hash)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if mode == "160000" {
                index.submodules.push((path, hash.to_owned()));
            } else if tag.starts_with(|letter: char| letter.is_ascii_lowercase() || letter == 'S') {
                index.hidden.push((path, hash.to_owned()));
            }
        }
        Ok(index)
    }

    /// Refuses submodules with work that only they have.
    fn check_submodules(&self, top: &Path, above: &str) -> Result<(), TeleportError> {
        for (path, commit) in &self.submodules {
            let folder = top.join(path);
            if !folder.join(".git").exists() {
                continue;
            }
            let refused = |reason| Refusal::Submodule {
                path: format!("{above}{path}"),
                reason,
            };
            let git = Git::new(&folder)?;
            if git.try_line(&["rev-parse", "HEAD"])?.as_deref() != Some(commit) {
                return Err(refused("is at another commit than the index says").into());
            }
            let status = ["status", "--porcelain", "-z", "--ignore-submodules=all"];
            if !git.run(&status)?.is_empty() {
                return Err(refused("has changes of its own").into());
            }
            Self::read(&git)?.check_submodules(&folder, &format!("{above}{path}/"))?;
        }
        Ok(())
    }

    /// Refuses changes in files that git was told not to look at.
    fn check_hidden(&self, git: &Git, top: &Path) -> Result<(), TeleportError> {
        for (path, hash) in &self.hidden {
            if fs::symlink_metadata(top.join(path)).is_err() {
                continue;
            }
            if hash_of(git, top, path)?.1 != *hash {
                return Err(Refusal::HiddenChange(path.clone()).into());
            }
        }
        Ok(())
    }
}

/// Files whose content is to be added later.
fn intent_to_add(git: &Git) -> Result<Vec<String>, TeleportError> {
    let added = git.run(&[
        "diff-files",
        "-z",
        "--name-only",
        "--no-renames",
        "--diff-filter=A",
    ])?;
    parts(&added).map(path_text).collect()
}

/// The mode and hash of a file or link, stored as it is.
fn hash_of(git: &Git, top: &Path, path: &str) -> Result<(&'static str, String), TeleportError> {
    let full = top.join(path);
    let failed = TeleportError::io("read", &full);
    let found = match fs::symlink_metadata(&full) {
        Ok(found) => found,
        Err(error) => return Err(failed(error)),
    };
    if found.is_symlink() {
        let target = fs::read_link(&full).map_err(failed)?;
        let input = target.as_os_str().as_bytes().to_vec();
        return Ok((
            "120000",
            git.feed(&["hash-object", "-w", "--stdin"], input)?,
        ));
    }
    let hash = git.line(&["hash-object", "-w", "--no-filters", "--", path])?;
    Ok((mode_of(&found), hash))
}

fn mode_of(found: &fs::Metadata) -> &'static str {
    if found.permissions().mode() & 0o100 != 0 {
        "100755"
    } else {
        "100644"
    }
}

/// The files that differ from the index.
struct Changes {
    deleted: Vec<String>,
    /// With the mode of the index, or none if the file is new there.
    written: Vec<(String, Option<String>)>,
    trusts_modes: bool,
    hash_length: usize,
}

impl Changes {
    fn find(git: &Git, top: &Path, largest: u64) -> Result<Self, TeleportError> {
        let mut changes = Self {
            deleted: Vec::new(),
            written: Vec::new(),
            trusts_modes: git
                .try_line(&["config", "--get", "core.filemode"])?
                .as_deref()
                != Some("false"),
            hash_length: git.feed(&["mktree"], Vec::new())?.len(),
        };
        let raw = [
            "diff-files",
            "-z",
            "--raw",
            "--no-renames",
            "--ignore-submodules=all",
        ];
        let raw = git.run(&raw)?;
        let mut raw = parts(&raw);
        while let (Some(head), Some(path)) = (raw.next(), raw.next()) {
            let head = String::from_utf8_lossy(head);
            let mode = head.trim_start_matches(':').split(' ').next();
            let path = path_text(path)?;
            if head.ends_with('D') {
                changes.deleted.push(path);
            } else {
                changes.written.push((path, mode.map(str::to_owned)));
            }
        }
        for path in parts(&git.run(&["ls-files", "-z", "-o", "--exclude-standard"])?) {
            let path = path_text(path)?;
            if path.ends_with('/') {
                return Err(Refusal::NestedRepository(path).into());
            }
            changes.written.push((path, None));
        }
        for (path, _) in &changes.written {
            let size = fs::symlink_metadata(top.join(path)).map_or(0, |found| found.len());
            if size > largest << 20 {
                return Err(Refusal::LargeFile {
                    path: path.clone(),
                    megabytes: size >> 20,
                    limit: largest,
                }
                .into());
            }
        }
        Ok(changes)
    }

    /// Makes the copied index hold the files as they are.
    fn apply(&self, git: &Git, top: &Path) -> Result<(), TeleportError> {
        let zero = "0".repeat(self.hash_length);
        let mut lines = Vec::new();
        for path in &self.deleted {
            lines.extend_from_slice(format!("0 {zero}\t{path}\0").as_bytes());
        }
        // Names with line ends can't be given in a list.
        let (plain, odd): (Vec<_>, Vec<_>) = self.written.iter().partition(|(path, _)| {
            !path.contains('\n')
                && fs::symlink_metadata(top.join(path)).is_ok_and(|found| !found.is_symlink())
        });
        for (path, known) in odd {
            let (mode, hash) = hash_of(git, top, path)?;
            self.line(&mut lines, mode, known.as_deref(), &hash, path);
        }
        for batch in plain.chunks(BATCH) {
            let list: String = batch.iter().map(|(path, _)| format!("{path}\n")).collect();
            let arguments = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
            let hashes = git.feed(&arguments, list.into_bytes())?;
            for ((path, known), hash) in batch.iter().zip(hashes.lines()) {
                let full = top.join(path);
                let found = fs::metadata(&full).map_err(TeleportError::io("read", &full))?;
                self.line(&mut lines, mode_of(&found), known.as_deref(), hash, path);
            }
        }
        if !lines.is_empty() {
            git.feed(&["update-index", "-z", "--index-info"], lines)?;
        }
        Ok(())
    }

    /// A line for `update-index --index-info`. Where modes mean nothing, the index keeps its own.
    fn line(&self, lines: &mut Vec<u8>, mode: &str, known: Option<&str>, hash: &str, path: &str) {
        let regular = |mode: &str| mode.starts_with("100");
        let mode = match known {
            Some(known) if !self.trusts_modes && regular(known) && regular(mode) => known,
            _ => mode,
        };
        lines.extend_from_slice(format!("{mode} {hash}\t{path}\0").as_bytes());
    }
}
