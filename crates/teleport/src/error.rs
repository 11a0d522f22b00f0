//! Errors of a teleport, and the reasons to refuse one.

use lathe_session::SessionError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a session was not moved.
#[derive(Debug, thiserror::Error)]
pub enum TeleportError {
    /// The transcript store failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program failed.
    #[error("{what} failed: {message}")]
    Program {
        /// The program and its subcommand.
        what: String,
        /// Its error output.
        message: String,
    },
    /// The archive is damaged, or not one of ours.
    #[error("the archive is damaged: {0}")]
    Archive(String),
    /// The state can't be carried, or can't be put here.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A state that is not carried, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another process has the session open.
    #[error("session {id} is in use{}; close it there, or end it with --interrupt", pid.map_or_else(String::new, |pid| format!(" by process {pid}")))]
    InUse {
        /// The session.
        id: String,
        /// The process.
        pid: Option<u32>,
    },
    /// The process that has the session did not end.
    #[error(
        "process {0} still has the session open 10 seconds after it was asked to end; end it yourself"
    )]
    StillInUse(u32),
    /// It was moved before.
    #[error(
        "session {id} was moved to {to}; continue there, or copy it with `lathe --resume {id} --fork-session`"
    )]
    Moved {
        /// The session.
        id: String,
        /// Where to.
        to: String,
    },
    /// The working folder of the session is gone.
    #[error("the folder of the session, {}, does not exist", .0.display())]
    NoFolder(PathBuf),
    /// A merge, rebase or the like has not ended.
    #[error("{0} is in progress; finish or abort it first")]
    InProgress(&'static str),
    /// The index has conflicts.
    #[error("the index has conflicts ({0}); resolve them first")]
    Conflicts(String),
    /// A submodule has something that only it knows.
    #[error("the submodule {path} {reason}; commit and push there, and stage it here")]
    Submodule {
        /// The submodule.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// Another repository lies in this one.
    #[error("{0} is a repository of its own inside this one; ignore it, or move it away")]
    NestedRepository(String),
    /// A file is too large.
    #[error(
        "{path} has {megabytes} MB, more than the limit of {limit} MB; ignore it, remove it, or raise --max-file-mb"
    )]
    LargeFile {
        /// The file.
        path: String,
        /// Its size.
        megabytes: u64,
        /// The limit.
        limit: u64,
    },
    /// git was told to look away from a file that changed.
    #[error(
        "{0} differs from the index but is marked assume-unchanged or skip-worktree; `git update-index --no-assume-unchanged --no-skip-worktree` clears the mark"
    )]
    HiddenChange(String),
    /// A name that is not UTF-8.
    #[error("{0:?} is not a UTF-8 name; rename it first")]
    Name(String),
    /// A shallow clone whose own commits can't be told from the cut ones.
    #[error(
        "the clone is shallow and has no remote branch to build on; `git fetch --unshallow` first"
    )]
    Shallow,
    /// The remote's configuration in the repository would run a program.
    #[error(
        "the repository's own configuration names a program ({0}); remove it, or use another target"
    )]
    RepositoryProgram(String),
    /// Secrets were found.
    #[error("there seem to be secrets in {}; --redact hides them in the conversation, --with-secrets carries them", .0.join(", "))]
    Secrets(Vec<String>),
    /// Secrets in files can't be hidden.
    #[error("there seem to be secrets in files that would be carried: {}; remove them, or carry them with --with-secrets", .0.join(", "))]
    SecretFiles(Vec<String>),
    /// The target has no repository.
    #[error("{} is not in a git repository, and the archive needs commits of one ({commits}); clone it first and pull there", folder.display())]
    NoRepository {
        /// The target.
        folder: PathBuf,
        /// Some commits that are needed.
        commits: String,
    },
    /// The target is another repository.
    #[error("{} is another repository: it shares no first commit with the session's ({root})", folder.display())]
    OtherRepository {
        /// The target.
        folder: PathBuf,
        /// The first commit of the source.
        root: String,
    },
    /// The target lacks commits.
    #[error("{} lacks commits that the archive builds on ({commits}); `git fetch` there first", folder.display())]
    MissingCommits {
        /// The target.
        folder: PathBuf,
        /// The commits.
        commits: String,
    },
    /// The target has commits in another hash format.
    #[error("the repositories use different hash formats ({0})")]
    ObjectFormat(String),
    /// A repository without commits can't be put beside another state.
    #[error("{} has changes or commits, and the session's repository has no commit yet; pull into an empty folder", .0.display())]
    UnbornTarget(PathBuf),
    /// The session is here already.
    #[error(
        "session {0} is here already and went on since; --fork takes the arriving one as a copy"
    )]
    AlreadyHere(String),
    /// Several sessions could be meant.
    #[error("{source_name} holds several sessions; name one as {source_name}#ID: {}", ids.join(", "))]
    Several {
        /// The source as given.
        source_name: String,
        /// The sessions.
        ids: Vec<String>,
    },
    /// The folder has no session that could leave.
    #[error("no session of {} is here to be moved; `lathe sessions list --all` lists all, and `lathe teleport push ID TARGET` names one", .0.display())]
    NoSession(PathBuf),
    /// Nothing is there.
    #[error("{0} holds no teleported session")]
    Nothing(String),
    /// The target can't be understood.
    #[error("{0:?} is not a target; use a file, git:REMOTE, or ssh://host/path")]
    Target(String),
    /// The files that arrived are not those that left.
    #[error("the files in {} differ from those of the source after the move ({what}); nothing was taken over, the session stays where it was", folder.display())]
    Different {
        /// The folder.
        folder: PathBuf,
        /// Index or files.
        what: &'static str,
    },
}

impl TeleportError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
