//! Errors of sessions. The messages name the session and what to do.

use lathe_protocol::ids::RecordId;
use std::io;
use std::path::{Path, PathBuf};

/// A failure of the transcript store.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb: `write`, `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No session has this id. The text is what SDK hosts look for.
    #[error("No conversation found with session ID: {id}")]
    NotFound {
        /// The value as given.
        id: String,
        /// The folder of a session with that id that belongs to another project.
        elsewhere: Option<PathBuf>,
    },
    /// More than one session fits.
    #[error("{wanted:?} matches {} sessions; give more of the id:\n{}", candidates.len(), candidates.join("\n"))]
    Ambiguous {
        /// The value as given.
        wanted: String,
        /// One line for each session that fits.
        candidates: Vec<String>,
    },
    /// A new session was to get an id that is taken.
    #[error("session id {id} is already in use; resume it, or choose another id")]
    AlreadyExists {
        /// The id.
        id: String,
        /// Its transcript.
        path: PathBuf,
    },
    /// Another process writes to this session.
    #[error(
        "session {} is open in another process{}; close it there, or resume with --fork-session",
        session_name(path), pid_text(*pid)
    )]
    InUse {
        /// The transcript.
        path: PathBuf,
        /// The process that holds it, where the system tells.
        pid: Option<u32>,
    },
    /// The session was moved to another machine.
    #[error("session {id} was moved to {to}; continue there, or copy it with --fork-session")]
    Moved {
        /// The session.
        id: String,
        /// Where it was moved to.
        to: String,
    },
    /// A record that was named is not in this session.
    #[error("session {session} has no message {record}")]
    NoSuchRecord {
        /// The session's transcript name.
        session: String,
        /// The value as given.
        record: RecordId,
    },
    /// No prompt of the session fits what was given.
    #[error("no prompt matches {wanted:?}; the prompts are:\n{}", prompts.join("\n"))]
    NoSuchPrompt {
        /// The value as given.
        wanted: String,
        /// One line for each prompt there is.
        prompts: Vec<String>,
    },
    /// `--resume-drops-turn` names a turn that is not the only one that would be dropped.
    #[error("Resume rejected by --resume-drops-turn: {reason}")]
    DropsOtherTurns {
        /// Which records don't belong to the turn.
        reason: String,
    },
    /// The transcript holds nothing that could be resumed.
    #[error("session {} holds no messages", session_name(path))]
    Empty {
        /// The transcript.
        path: PathBuf,
    },
    /// A stored blob is gone or damaged.
    #[error("stored content {hash} of session {session} is {trouble}")]
    Blob {
        /// Its hash.
        hash: String,
        /// The session's folder name.
        session: String,
        /// `missing` or `damaged`.
        trouble: &'static str,
    },
    /// Records could not be written and the memory kept for them ran out.
    #[error("{count} records could not be written to {} and are lost", path.display())]
    RecordsLost {
        /// How many.
        count: u64,
        /// The transcript.
        path: PathBuf,
    },
    /// The writer was closed before.
    #[error("the transcript {} is closed", path.display())]
    Closed {
        /// The transcript.
        path: PathBuf,
    },
}

impl SessionError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// A second line that says what to do, where there is more to say than the message itself.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound {
                elsewhere: Some(folder),
                ..
            } => Some(format!(
                "a session with this id belongs to {}; run from there",
                folder.display()
            )),
            Self::NotFound { .. } => {
                Some("`lathe sessions list --all` shows every session".to_owned())
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => Some(
                "free some disk space; pending records are written as soon as there is room"
                    .to_owned(),
            ),
            Self::Io { source, .. } if is_out_of_descriptors(source) => Some(
                "raise the limit of open files (`ulimit -n`), or close other programs".to_owned(),
            ),
            _ => None,
        }
    }
}

/// EMFILE and ENFILE: the same numbers on every system that is supported.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(24 | 23))
}

fn session_name(path: &Path) -> String {
    path.file_stem().map_or_else(
        || path.display().to_string(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}
