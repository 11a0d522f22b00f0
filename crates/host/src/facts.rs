//! Facts about a session, and why it can't be reached.

use lathe_protocol::ids::{RecordId, SessionId};
use lathe_wire::{ClaimError, FolderError};
use std::io;
use std::path::PathBuf;

/// Why a session can't be reached from elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The folder of sockets.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The id.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The socket.
    #[error("the session's socket can't be made: {0}")]
    Socket(#[from] io::Error),
}

/// Facts of a face about its session.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    pub title: Option<String>,
    /// Its working folder.
    pub folder: PathBuf,
    /// The prompts that it has and that wait to be accepted.
    pub waiting: Vec<RecordId>,
}
