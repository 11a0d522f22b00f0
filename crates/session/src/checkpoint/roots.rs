//! Folders that got another path because the session was moved to another machine.

use super::state::FileState;
use crate::error::SessionError;
use indexmap::IndexMap;
use lathe_protocol::record::{Fact, Record};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// A move: where its line ends, the old and the new path.
pub(super) struct Moved {
    at: u64,
    old: PathBuf,
    new: PathBuf,
}

/// The moves of a transcript in order.
pub(super) fn read(transcript: &Path) -> Result<Vec<Moved>, SessionError> {
    let failed = |error| SessionError::io("read", transcript)(error);
    let mut input = BufReader::with_capacity(1 << 18, File::open(transcript).map_err(failed)?);
    let (mut line, mut at, mut moves) = (Vec::new(), 0, Vec::new());
    loop {
        line.clear();
        let length = input.read_until(b'\n', &mut line).map_err(failed)?;
        if length == 0 {
            return Ok(moves);
        }
        at += length as u64;
        if line.starts_with(br#"{"type":"roots""#)
            && let Ok(Record::Fact(Fact::Roots { roots, .. })) = serde_json::from_slice(&line)
            && let Some(roots) = roots.as_object()
        {
            moves.extend(roots.iter().filter_map(|(old, new)| {
                let (old, new) = (PathBuf::from(old), PathBuf::from(new.as_str()?));
                Some(Moved { at, old, new })
            }));
        }
    }
}

/// Paths that were recorded before some moves, as they are after them.
pub(super) fn mapped(
    moves: &[Moved],
    recorded: u64,
    states: IndexMap<PathBuf, FileState>,
) -> IndexMap<PathBuf, FileState> {
    if moves.iter().all(|moved| moved.at <= recorded) {
        return states;
    }
    states
        .into_iter()
        .map(|(mut path, state)| {
            for moved in moves.iter().filter(|moved| moved.at > recorded) {
                if let Ok(below) = path.strip_prefix(&moved.old) {
                    path = moved.new.join(below);
                }
            }
            (path, state)
        })
        .collect()
}
