//! The transcript of a job's session: followed line by line, and written anew on another worker.

use lathe_protocol::ids::SessionId;
use lathe_session::paths::{create_private_folder, write_private_file};
use lathe_session::{SessionError, SessionPaths, SessionStore};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// A transcript that grows.
#[derive(Debug)]
pub(super) struct Transcript {
    path: PathBuf,
    position: u64,
}

/// Where the transcript of a session in a folder is.
pub(super) fn place(config_home: &Path, folder: &Path, session: SessionId) -> PathBuf {
    SessionStore::new(config_home)
        .paths(folder, session)
        .transcript()
}

impl Transcript {
    /// A transcript that a session is about to write.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, position: 0 }
    }

    /// Writes the lines of a transcript, for a session that continues it.
    pub(super) fn write(path: PathBuf, lines: &[String]) -> Result<Self, SessionError> {
        let mut text = lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        create_private_folder(SessionPaths::of_transcript(&path).project_folder())?;
        write_private_file(&path, text.as_bytes())?;
        Ok(Self {
            position: text.len() as u64,
            path,
        })
    }

    /// The whole lines that were written since the last call.
    pub(super) fn next(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.position))?;
            file.read_to_end(&mut bytes)
        });
        if read.is_err() {
            return Vec::new();
        }
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        self.position += whole as u64;
        String::from_utf8_lossy(&bytes[..whole])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it with everything that belongs to it.
    pub(super) fn remove(&self) {
        let paths = SessionPaths::of_transcript(&self.path);
        let _ = std::fs::remove_dir_all(paths.session_folder());
        let _ = std::fs::remove_file(&self.path);
        // Gone with its last session.
        let _ = std::fs::remove_dir(paths.project_folder());
    }
}
