//! The files of a job on this worker: prepared, packed as snapshots, packed as a result, removed.

use crate::entry::{Entry, SnapshotRef};
use crate::job::Place;
use lathe_process::{Command, Ending};
use lathe_teleport::files::{self, Packed};
use lathe_teleport::{GitState, SnapshotOptions, TeleportError};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest that one call of git may take.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Files up to 100 MB are carried.
const OPTIONS: SnapshotOptions = SnapshotOptions {
    largest_file: 100,
    whole: false,
};

/// Why files could not be prepared or packed.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    /// git failed.
    #[error("git {what}: {message}")]
    Git {
        /// The subcommand.
        what: String,
        /// Its message.
        message: String,
    },
    /// A folder that the job names is not here.
    #[error("{} is not a folder of this worker", .0.display())]
    NoFolder(PathBuf),
    /// A file operation failed.
    #[error("can't {action} {}: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The git state can't be carried.
    #[error(transparent)]
    State(#[from] TeleportError),
    /// The description of a snapshot can't be read.
    #[error("a snapshot is damaged: {0}")]
    Snapshot(#[from] serde_json::Error),
}

fn failed(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> CheckoutError + use<> {
    let path = path.to_owned();
    move |source| CheckoutError::Io {
        action,
        path: path.clone(),
        source,
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Result<Vec<u8>, CheckoutError> {
    let what = arguments.first().copied().unwrap_or_default().to_owned();
    let command = Command::git(folder)
        .arguments([
            "-c",
            "protocol.ext.allow=never",
            "-c",
            "advice.detachedHead=false",
        ])
        .arguments(arguments);
    let output = lathe_process::read_blocking(command, LIMIT, 1 << 30).map_err(|error| {
        CheckoutError::Git {
            what: what.clone(),
            message: error.to_string(),
        }
    })?;
    if output.ending == Ending::Exited(0) {
        return Ok(output.stdout);
    }
    Err(CheckoutError::Git {
        what,
        message: output.stderr.trim().to_owned(),
    })
}

fn line(folder: &Path, arguments: &[&str]) -> Result<String, CheckoutError> {
    let bytes = git(folder, arguments)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The files of a job.
#[derive(Debug, Clone)]
pub(super) struct Checkout {
    /// The working folder.
    pub(super) folder: PathBuf,
    /// The commit that it started from; `None` outside of a repository.
    pub(super) base: Option<String>,
    /// Made for this attempt, and removed after it.
    made: Option<PathBuf>,
    /// The repository that a worktree belongs to.
    source: Option<PathBuf>,
}

/// The result of a job in files.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) diff: Option<Vec<u8>>,
    pub(super) bundle: Option<Vec<u8>>,
}

impl Checkout {
    /// Makes the files of a job as they are at its start.
    pub(super) fn prepare(entry: &Entry, work: &Path) -> Result<Self, CheckoutError> {
        fs::create_dir_all(work).map_err(failed("create", work))?;
        let work = fs::canonicalize(work).map_err(failed("read", work))?;
        remove_older(&work, &entry.job.id);
        let made = work.join(format!("{}-{}", entry.job.id, entry.epoch));
        let mut checkout = match &entry.job.place {
            Place {
                repo: Some(repo),
                reference,
                ..
            } => {
                let path = made.to_string_lossy();
                git(&work, &["clone", "-q", "--", repo, &path])?;
                if let Some(reference) = reference {
                    git(&made, &["checkout", "-q", reference, "--"])?;
                }
                Self::made(made)
            }
            Place {
                folder: Some(folder),
                ..
            } if !folder.is_dir() => return Err(CheckoutError::NoFolder(folder.clone())),
            Place {
                folder: Some(folder),
                worktree: true,
                reference,
                ..
            } => {
                git(folder, &["worktree", "prune"])?;
                let from = reference.as_deref().unwrap_or("HEAD");
                let path = made.to_string_lossy();
                git(folder, &["worktree", "add", "-q", "--detach", &path, from])?;
                Self {
                    source: Some(folder.clone()),
                    ..Self::made(made)
                }
            }
            Place {
                folder: Some(folder),
                ..
            } => Self {
                folder: fs::canonicalize(folder).map_err(failed("read", folder))?,
                base: None,
                made: None,
                source: None,
            },
            Place { .. } => {
                fs::create_dir_all(&made).map_err(failed("create", &made))?;
                Self::made(made)
            }
        };
        checkout.base = line(&checkout.folder, &["rev-parse", "-q", "--verify", "HEAD"]).ok();
        Ok(checkout)
    }

    fn made(folder: PathBuf) -> Self {
        Self {
            folder: folder.clone(),
            base: None,
            made: Some(folder),
            source: None,
        }
    }

    /// True if the files belong to this attempt alone, so that they can be restored elsewhere.
    fn is_own(&self) -> bool {
        self.made.is_some() && self.base.is_some()
    }

    /// Puts a snapshot into files that are as at the start.
    pub(super) fn restore(
        &mut self,
        snapshot: &SnapshotRef,
        bundle: &[u8],
        name: &str,
    ) -> Result<(), CheckoutError> {
        let state: GitState = serde_json::from_value(snapshot.state.clone())?;
        self.folder = files::unpack(&state, bundle, &self.folder, name)?;
        Ok(())
    }

    /// The files as they are; `None` if they are not carried: a folder of the worker itself, or no repository.
    pub(super) fn pack(&self) -> Result<Option<Packed>, CheckoutError> {
        if !self.is_own() {
            return Ok(None);
        }
        Ok(files::pack(&self.folder, self.base.as_deref(), OPTIONS)?)
    }

    /// The changes since the start.
    pub(super) fn changes(&self) -> Result<Changes, CheckoutError> {
        let mut changes = Changes::default();
        let (Some(base), Some(packed)) = (&self.base, self.pack()?) else {
            return Ok(changes);
        };
        changes.diff = Some(packed.diff).filter(|diff| !diff.is_empty());
        let head = line(&self.folder, &["rev-parse", "HEAD"])?;
        if head != *base {
            let scratch =
                tempfile::tempdir().map_err(failed("create a folder in", &self.folder))?;
            let path = scratch.path().join("changes.bundle");
            let name = path.to_string_lossy();
            git(
                &self.folder,
                &["bundle", "create", "-q", &name, "HEAD", &format!("^{base}")],
            )?;
            changes.bundle = Some(fs::read(&path).map_err(failed("read", &path))?);
        }
        Ok(changes)
    }

    /// Removes what was made for this attempt.
    pub(super) fn remove(&self) {
        let Some(made) = &self.made else {
            return;
        };
        if let Some(source) = &self.source {
            let path = made.to_string_lossy();
            let _ = git(source, &["worktree", "remove", "--force", &path]);
        }
        let _ = fs::remove_dir_all(made);
    }

    /// True if the folder was made for this attempt, and its transcripts are kept in the log.
    pub(super) fn is_temporary(&self) -> bool {
        self.made.is_some()
    }
}

/// Removes files of earlier attempts of a job, which a killed worker left here.
fn remove_older(work: &Path, job: &str) {
    for entry in fs::read_dir(work).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let epoch = name.strip_prefix(job).and_then(|it| it.strip_prefix('-'));
        if epoch.is_some_and(|epoch| epoch.split('-').all(|it| it.parse::<u64>().is_ok())) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
