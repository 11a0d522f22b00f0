//! The facts that a listing needs, read from the first and last 64 KB of a transcript.

use crate::facts::Facts;
use crate::line::{Line, LineReader};
use lathe_protocol::record::Record;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How much of each end is read. Other readers use the same size.
pub(crate) const EDGE: u64 = 64 * 1024;

/// The two ends of a transcript.
pub(crate) struct Edges {
    /// Records of the first part.
    pub(crate) head: Vec<Record>,
    /// Records of the last part; empty when the first part is the whole file.
    pub(crate) tail: Vec<Record>,
    /// Whether the two parts are the whole file.
    pub(crate) whole: bool,
    pub(crate) size: u64,
}

impl Edges {
    pub(crate) fn read(file: &File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let head = read_at(file, 0, size.min(EDGE))?;
        let tail_start = size.saturating_sub(EDGE).max(EDGE.min(size));
        let tail = read_at(file, tail_start, size - tail_start)?;
        if tail.is_empty() {
            return Ok(Self {
                head: records(&head),
                tail: Vec::new(),
                whole: true,
                size,
            });
        }
        if tail_start == EDGE {
            // Both parts meet: nothing is missing, and a line may span them.
            let whole = [head, tail].concat();
            return Ok(Self {
                head: records(&whole),
                tail: Vec::new(),
                whole: true,
                size,
            });
        }
        let head_end = head
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let tail_begin = tail
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(tail.len(), |at| at + 1);
        Ok(Self {
            head: records(&head[..head_end]),
            tail: records(&tail[tail_begin..]),
            whole: false,
            size,
        })
    }

    pub(crate) fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.head.iter().chain(&self.tail)
    }

    pub(crate) fn facts(&self) -> Facts {
        let mut facts = Facts::default();
        for record in self.records() {
            facts.apply(record);
        }
        facts
    }
}

/// The facts of the first part of a file.
pub(crate) fn head_facts(file: &File) -> io::Result<Facts> {
    Ok(Edges::read(file)?.facts())
}

fn read_at(file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

fn records(bytes: &[u8]) -> Vec<Record> {
    // Stored content isn't restored for a listing: the path leads nowhere.
    let mut reader = LineReader::new(Path::new(""));
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| match reader.read(line) {
            Line::Record(record) | Line::Salvaged(record, _) => Some(record),
            Line::Blank | Line::Damaged(_) => None,
        })
        .collect()
}
