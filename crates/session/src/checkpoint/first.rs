//! Files as they were before a session changed them for the first time.

use super::state::FileState;
use super::{Event, read_events};
use crate::error::SessionError;
use crate::line::blob_store_of;
use indexmap::IndexMap;
use lathe_protocol::ids::RecordId;
use std::path::{Path, PathBuf};

/// Writes the files that a session changed, as they were before it, to other places: a path that `place` maps to
/// nothing is left out. Gives the paths that were written.
///
/// # Errors
/// When the transcript can't be read, or a file can't be written.
pub fn restore_first(
    transcript: &Path,
    place: impl Fn(&Path) -> Option<PathBuf>,
) -> Result<Vec<PathBuf>, SessionError> {
    let mut first: IndexMap<PathBuf, FileState> = IndexMap::new();
    read_events(transcript, RecordId::random(), &mut |event| {
        if let Event::Snapshot(_, snapshot) = event {
            for (path, state) in snapshot.before {
                first.entry(path).or_insert(state);
            }
        }
    })?;
    let store = blob_store_of(transcript);
    let mut written = Vec::new();
    for (path, state) in first {
        let known = !matches!(state, FileState::Uncovered { .. });
        if let Some(target) = place(&path).filter(|_| known) {
            state.restore(&target, &store)?;
            written.push(target);
        }
    }
    Ok(written)
}
