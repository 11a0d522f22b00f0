//! Background sessions that are over, so that lists show how they ended: `<config>/background/<id>.json`.

use lathe_wire::{Folder, HostId, HostInfo};
use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A background session, as it was last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// The session.
    #[serde(flatten)]
    pub info: HostInfo,
    /// When it ended, in milliseconds since 1970; `None` if its process was killed, or still runs.
    #[serde(default)]
    pub ended_ms: Option<u64>,
}

impl Past {
    /// Whether it did not end well: its last turn failed, or its process was killed.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.info.failed || self.ended_ms.is_none()
    }
}

fn folder(config_home: &Path) -> PathBuf {
    config_home.join("background")
}

fn closed(config_home: &Path) -> PathBuf {
    folder(config_home).join("closed")
}

/// Notes how a background session stands.
///
/// # Errors
/// If the file can't be written.
pub fn note(past: &Past) -> io::Result<()> {
    let folder = folder(&past.info.config_home);
    std::fs::create_dir_all(&folder)?;
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    serde_json::to_writer(&mut file, past)?;
    file.flush()?;
    file.persist(folder.join(format!("{}.json", past.info.id)))?;
    Ok(())
}

/// The background sessions whose process is gone, the newest first.
#[must_use]
pub fn list(wire: &Folder) -> Vec<Past> {
    let Ok(entries) = std::fs::read_dir(folder(wire.config_home())) else {
        return Vec::new();
    };
    let mut all: Vec<Past> = entries
        .flatten()
        .filter_map(|entry| serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok())
        .filter(|past: &Past| !wire.is_live(&past.info.id))
        .collect();
    all.sort_by_key(|past| std::cmp::Reverse(past.info.changed_ms));
    all
}

/// Notes that the terminal of a session was closed while it worked: the next start says where it is.
///
/// # Errors
/// If the file can't be written.
pub fn note_closed(info: &HostInfo) -> io::Result<()> {
    let folder = closed(&info.config_home);
    std::fs::create_dir_all(&folder)?;
    let text = serde_json::to_vec(info)?;
    std::fs::write(folder.join(format!("{}.json", info.id)), text)
}

/// The sessions whose terminal was closed, as they were then. Each is given once.
#[must_use]
pub fn take_closed(wire: &Folder) -> Vec<HostInfo> {
    let entries = std::fs::read_dir(closed(wire.config_home()));
    let taken = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let text = std::fs::read(entry.path()).ok()?;
        // Of two starts at the same moment, one removes it.
        std::fs::remove_file(entry.path()).ok()?;
        serde_json::from_slice(&text).ok()
    });
    taken.collect()
}

/// A session was opened again: its closed terminal is no news.
pub fn forget_closed(wire: &Folder, id: &HostId) {
    let _ = std::fs::remove_file(closed(wire.config_home()).join(format!("{id}.json")));
}

/// Removes a session from the list. Its transcript stays. Returns whether it was there.
///
/// # Errors
/// If the file can't be removed.
pub fn remove(wire: &Folder, id: &HostId) -> io::Result<bool> {
    let file = folder(wire.config_home()).join(format!("{id}.json"));
    match std::fs::remove_file(file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
