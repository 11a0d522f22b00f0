//! The change that is reviewed, from git or from `gh`.

use super::diff::{FileDiff, parse};
use crate::context::git::{Git, GitError};
use lathe_process::{Command, Ending};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The object name of an empty tree, which every repository knows.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// The largest file that is reviewed without a difference.
const LARGEST_FILE: u64 = 512 * 1024;
/// How long `gh` may take.
const GH_LIMIT: Duration = Duration::from_secs(120);
/// How much of its output is read.
const MOST_OF_GH: usize = 32 * 1024 * 1024;

/// The change to review.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReviewTarget {
    /// Changes that are not committed; without any, the commits since the default branch.
    #[default]
    Changes,
    /// Everything since the branch left this one, uncommitted changes included.
    Base(String),
    /// A commit.
    Commit(String),
    /// Changes that are not committed, new files included.
    Uncommitted,
    /// A pull request, through `gh`.
    PullRequest(u64),
}

/// Why there is nothing to review.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// git fails.
    #[error(transparent)]
    Git(#[from] GitError),
    /// There are no changes.
    #[error("there are no changes to review ({0})")]
    Nothing(String),
    /// `gh` fails.
    #[error("gh failed: {0}; `gh auth status` shows whether it is signed in")]
    Gh(String),
    /// `gh` can't be started.
    #[error("reviewing a pull request requires gh (https://cli.github.com): {0}")]
    NoGh(#[from] lathe_process::StartError),
    /// A path is not in the repository.
    #[error("{} can't be read in the repository: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The change with a name for it.
pub(super) struct Change {
    /// The repository's folder; paths are relative to it.
    pub(super) top: PathBuf,
    pub(super) name: String,
    pub(super) files: Vec<FileDiff>,
}

/// Arguments of every `git diff`: no program of the user's, plain output.
const DIFF: [&str; 6] = [
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--find-renames",
    "--unified=8",
];

/// Reads the change. `paths` limits it; where nothing changed there, the files are reviewed as they are.
pub(super) async fn change(
    git: &Git,
    target: &ReviewTarget,
    paths: &[String],
) -> Result<Change, TargetError> {
    let top = git.run(&["rev-parse", "--show-toplevel"]).await?;
    let top = PathBuf::from(top.trim_end());
    let (name, mut files) = match target {
        ReviewTarget::Uncommitted => uncommitted(git, &top, paths).await?,
        ReviewTarget::Base(base) => since(git, &top, base, paths).await?,
        ReviewTarget::Commit(commit) => of_commit(git, commit, paths).await?,
        ReviewTarget::PullRequest(number) => of_pull_request(&top, *number).await?,
        ReviewTarget::Changes => {
            let found = uncommitted(git, &top, paths).await?;
            match default_base(git).await {
                Some(base) if found.1.is_empty() => since(git, &top, &base, paths).await?,
                _ => found,
            }
        }
    };
    if files.is_empty() && *target == ReviewTarget::Changes && !paths.is_empty() {
        files = whole_files(git, &top, paths).await?;
    }
    files.retain(|file| !file.is_empty());
    if files.is_empty() {
        return Err(TargetError::Nothing(name));
    }
    Ok(Change { top, name, files })
}

/// The difference that git shows for some arguments.
async fn diff(git: &Git, arguments: &[&str], paths: &[String]) -> Result<Vec<FileDiff>, GitError> {
    let mut all = DIFF.to_vec();
    all.extend(arguments);
    all.push("--");
    all.extend(paths.iter().map(String::as_str));
    Ok(parse(&git.run(&all).await?))
}

async fn uncommitted(
    git: &Git,
    top: &Path,
    paths: &[String],
) -> Result<(String, Vec<FileDiff>), TargetError> {
    let head = git.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await;
    let base = head.map_or(EMPTY_TREE.to_owned(), |head| head.trim_end().to_owned());
    let mut files = diff(git, &[&base], paths).await?;
    files.extend(untracked(git, top, paths).await?);
    Ok(("uncommitted changes".to_owned(), files))
}

/// New files that git doesn't know yet.
async fn untracked(git: &Git, top: &Path, paths: &[String]) -> Result<Vec<FileDiff>, GitError> {
    let mut list = vec![
        "ls-files",
        "-z",
        "--others",
        "--exclude-standard",
        "--full-name",
        "--",
    ];
    list.extend(paths.iter().map(String::as_str));
    let whole = git.at(top)?;
    let listed = if paths.is_empty() {
        whole.run(&list).await?
    } else {
        git.run(&list).await?
    };
    let names = listed.split('\0').filter(|name| !name.is_empty());
    Ok(names
        .filter_map(|name| read(top, name).ok().flatten())
        .collect())
}

/// A file as it is; `None` if it is no text or too large.
fn read(top: &Path, name: &str) -> std::io::Result<Option<FileDiff>> {
    let path = top.join(name);
    let known = path.symlink_metadata()?;
    if !known.is_file() || known.len() > LARGEST_FILE {
        return Ok(None);
    }
    let bytes = std::fs::read(&path)?;
    if bytes.contains(&0) {
        return Ok(None);
    }
    Ok(Some(FileDiff::whole(
        name,
        &String::from_utf8_lossy(&bytes),
    )))
}

async fn whole_files(
    git: &Git,
    top: &Path,
    paths: &[String],
) -> Result<Vec<FileDiff>, TargetError> {
    let mut list = vec!["ls-files", "-z", "--full-name", "--error-unmatch", "--"];
    list.extend(paths.iter().map(String::as_str));
    let listed = git.run(&list).await?;
    let mut files = Vec::new();
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        let found = read(top, name).map_err(|source| TargetError::Path {
            path: PathBuf::from(name),
            source,
        })?;
        files.extend(found);
    }
    Ok(files)
}

/// The branch that work starts from.
async fn default_base(git: &Git) -> Option<String> {
    for name in [
        "origin/HEAD",
        "origin/main",
        "origin/master",
        "main",
        "master",
    ] {
        let commit = format!("{name}^{{commit}}");
        if git
            .run(&["rev-parse", "--verify", "--quiet", &commit])
            .await
            .is_ok()
        {
            return Some(name.to_owned());
        }
    }
    None
}

async fn since(
    git: &Git,
    top: &Path,
    base: &str,
    paths: &[String],
) -> Result<(String, Vec<FileDiff>), TargetError> {
    // A name that begins with a dash is an option to git.
    let commit = format!("{base}^{{commit}}");
    let commit = git
        .run(&["rev-parse", "--verify", "--end-of-options", &commit])
        .await?;
    let merge_base = git.run(&["merge-base", commit.trim_end(), "HEAD"]).await?;
    let mut files = diff(git, &[merge_base.trim_end()], paths).await?;
    files.extend(untracked(git, top, paths).await?);
    Ok((format!("changes since {base}"), files))
}

async fn of_commit(
    git: &Git,
    commit: &str,
    paths: &[String],
) -> Result<(String, Vec<FileDiff>), TargetError> {
    let name = format!("{commit}^{{commit}}");
    let found = git
        .run(&["rev-parse", "--verify", "--end-of-options", &name])
        .await?;
    let found = found.trim_end();
    let parent = git
        .run(&["rev-parse", "--verify", "--quiet", &format!("{found}^")])
        .await;
    let parent = parent.map_or(EMPTY_TREE.to_owned(), |it| it.trim_end().to_owned());
    let files = diff(git, &[&parent, found], paths).await?;
    let short = found.get(..10).unwrap_or(found);
    Ok((format!("commit {short}"), files))
}

async fn of_pull_request(top: &Path, number: u64) -> Result<(String, Vec<FileDiff>), TargetError> {
    let number_text = number.to_string();
    let text = gh(top, &["pr", "diff", &number_text, "--color", "never"]).await?;
    Ok((format!("pull request {number}"), parse(&text)))
}

/// `gh` in a folder.
fn gh_command(top: &Path, arguments: &[&str]) -> Command {
    Command::new("gh")
        .arguments(arguments.iter().copied())
        .variable("GH_PROMPT_DISABLED", "1")
        .directory(top)
}

/// The output of `gh`.
async fn gh(top: &Path, arguments: &[&str]) -> Result<String, TargetError> {
    let command = gh_command(top, arguments);
    let run = lathe_spawn::blocking(|| lathe_process::read_blocking(command, GH_LIMIT, MOST_OF_GH));
    let output = run
        .await
        .map_err(|_| TargetError::Gh("it was interrupted".to_owned()))??;
    match output.ending {
        Ending::Exited(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => Err(TargetError::Gh(output.stderr.trim().to_owned())),
    }
}

/// Gives `gh` something to send.
pub(super) async fn gh_send(
    top: &Path,
    arguments: &[&str],
    input: Vec<u8>,
) -> Result<(), TargetError> {
    let command = gh_command(top, arguments);
    let run = lathe_spawn::blocking(|| lathe_process::run_blocking(command, input, GH_LIMIT));
    let output = run
        .await
        .map_err(|_| TargetError::Gh("it was interrupted".to_owned()))??;
    match output.ending {
        Ending::Exited(0) => Ok(()),
        _ => Err(TargetError::Gh(output.stderr.trim().to_owned())),
    }
}
