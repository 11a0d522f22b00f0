//! Reading a transcript.
//!
//! Nothing in a file makes reading fail: a torn last line is dropped, a damaged line is skipped and
//! named, a kind that this version doesn't know is kept as it is. [`load`] reads everything;
//! [`load_tail`] reads a large file from its end, back to the last compaction that the conversation
//! still hangs on, which is all that the model will see. [`Loaded::chain`] gives the records of the
//! conversation in order; pushing them into a [`crate::history::History`] resumes it.

use crate::chain::{self, Interruption};
use crate::error::SessionError;
use crate::facts::Facts;
use crate::line::{BackwardLines, DamagedLine, Line, LineReader};
use crate::peek;
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::record::{MessageRecord, Record, RecordKind};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files up to this size are read whole: it costs nothing and shows more.
const SMALL_FILE: u64 = 4 << 20;

/// A transcript in memory.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// The file.
    pub path: PathBuf,
    /// The records in the order of the file.
    pub records: Vec<Arc<Record>>,
    /// Lines that hold no record.
    pub damaged: Vec<DamagedLine>,
    /// Whether the last line was cut off and dropped.
    pub torn_tail: bool,
    /// Hashes of stored content that is gone; stand-ins are in its place.
    pub missing_blobs: Vec<String>,
    /// Whether only the part since a compaction was read.
    pub partial: bool,
    /// How much of the file was read.
    pub bytes_read: u64,
    /// Titles, mode, totals, task list.
    pub facts: Facts,
}

/// Reads a whole transcript.
///
/// # Errors
/// Only when the file can't be opened or read.
pub fn load(path: &Path) -> Result<Loaded, SessionError> {
    let file = File::open(path).map_err(SessionError::io("read", path))?;
    let mut input = BufReader::with_capacity(1 << 18, file);
    let mut reader = LineReader::new(path);
    let mut loaded = Loaded {
        path: path.to_owned(),
        ..Loaded::default()
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = input
            .read_until(b'\n', &mut line)
            .map_err(SessionError::io("read", path))?;
        if length == 0 {
            break;
        }
        let offset = loaded.bytes_read;
        loaded.bytes_read += length as u64;
        if let Some(record) = loaded.take_line(&mut reader, offset, &line) {
            loaded.records.push(Arc::new(record));
        }
    }
    loaded.missing_blobs = reader.missing_blobs;
    loaded.finish(Facts::default());
    Ok(loaded)
}

/// Reads a transcript from its end, as far back as the conversation needs.
///
/// # Errors
/// Only when the file can't be opened or read.
pub fn load_tail(path: &Path) -> Result<Loaded, SessionError> {
    let failed = |error: io::Error| SessionError::io("read", path)(error);
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length <= SMALL_FILE {
        return load(path);
    }
    let mut lines = BackwardLines::new(&file, length);
    let mut reader = LineReader::new(path);
    let mut loaded = Loaded {
        path: path.to_owned(),
        ..Loaded::default()
    };
    while let Some((offset, line)) = lines.next_line().map_err(failed)? {
        let Some(record) = loaded.take_line(&mut reader, offset, &line) else {
            continue;
        };
        let boundary = matches!(&record, Record::Message(message) if message.is_compact_boundary());
        loaded.records.push(Arc::new(lightened(record)));
        if boundary && chain::is_complete(&loaded.records) {
            loaded.partial = offset > 0;
            break;
        }
    }
    loaded.bytes_read = lines.bytes_read;
    loaded.records.reverse();
    loaded.damaged.reverse();
    loaded.missing_blobs = reader.missing_blobs;
    let older = if loaded.partial {
        peek::head_facts(&file).map_err(failed)?
    } else {
        Facts::default()
    };
    loaded.finish(older);
    Ok(loaded)
}

/// As [`load_tail`], and as far back as it takes to have a record that isn't on the way to the tip
/// (`--resume-session-at`).
///
/// # Errors
/// Only when the file can't be opened or read; [`Loaded::chain_to`] says when the record isn't there.
pub fn load_to(path: &Path, record: RecordId) -> Result<Loaded, SessionError> {
    let tail = load_tail(path)?;
    if tail.partial && tail.message(record).is_none() {
        return load(path);
    }
    Ok(tail)
}

/// The ids of all records that a transcript holds, before compactions and on branches that were left too.
/// The lines are searched, not parsed.
///
/// # Errors
/// Only when the file can't be opened or read.
pub fn record_ids(path: &Path) -> Result<HashSet<RecordId>, SessionError> {
    const KEY: &[u8] = b"\"uuid\":\"";
    let file = File::open(path).map_err(SessionError::io("read", path))?;
    let mut input = BufReader::with_capacity(1 << 18, file);
    let mut ids = HashSet::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = input
            .read_until(b'\n', &mut line)
            .map_err(SessionError::io("read", path))?;
        if length == 0 {
            return Ok(ids);
        }
        for at in memchr::memmem::find_iter(&line, KEY) {
            let rest = &line[at + KEY.len()..];
            let end = memchr::memchr(b'"', rest).unwrap_or_default();
            let id = std::str::from_utf8(&rest[..end]).ok();
            ids.extend(id.and_then(|id| id.parse::<RecordId>().ok()));
        }
    }
}

/// Progress is needed for its place in the chain only.
fn lightened(record: Record) -> Record {
    match record {
        Record::Message(mut message) if message.kind == RecordKind::Progress => {
            message.content = None;
            message.extra = lathe_protocol::Extra::new();
            Record::Message(message)
        }
        other => other,
    }
}

impl Loaded {
    /// The whole transcript: read again if this is only the part after the last compaction.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn whole(self) -> Result<Self, SessionError> {
        if self.partial {
            load(&self.path)
        } else {
            Ok(self)
        }
    }

    fn take_line(&mut self, reader: &mut LineReader, offset: u64, line: &[u8]) -> Option<Record> {
        let whole = line.ends_with(b"\n");
        let damaged = |reason| DamagedLine {
            offset,
            length: line.len(),
            reason,
        };
        match reader.read(line) {
            Line::Blank => None,
            Line::Record(record) => Some(record),
            Line::Salvaged(record, reason) => {
                self.damaged.push(damaged(format!(
                    "{reason} (a whole record after it was kept)"
                )));
                Some(record)
            }
            Line::Damaged(_) if !whole => {
                self.torn_tail = true;
                None
            }
            Line::Damaged(reason) => {
                self.damaged.push(damaged(reason));
                None
            }
        }
    }

    fn finish(&mut self, older: Facts) {
        let mut facts = Facts::default();
        for record in &self.records {
            facts.apply(record);
        }
        facts.fill_from(older);
        if facts.todos.is_none() {
            facts.todos = chain::last_todo_list(self);
        }
        self.facts = facts;
    }

    /// The session that the file belongs to: the one that its messages name, else its file name.
    #[must_use]
    pub fn session_id(&self) -> Option<SessionId> {
        self.messages()
            .next()
            .map(|record| record.session_id)
            .or_else(|| self.path.file_stem()?.to_str()?.parse().ok())
    }

    /// The linked records in the order of the file.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &MessageRecord> {
        self.records.iter().filter_map(|record| match &**record {
            Record::Message(message) => Some(&**message),
            Record::Fact(_) | Record::Other(_) => None,
        })
    }

    /// A linked record by its id.
    #[must_use]
    pub fn message(&self, id: RecordId) -> Option<&MessageRecord> {
        self.messages().find(|record| record.uuid == id)
    }

    /// The record that the next one hangs off: the newest leaf of the main conversation, or where
    /// it was rewound to.
    #[must_use]
    pub fn tip(&self) -> Option<RecordId> {
        chain::tip(&self.records)
    }

    /// The conversation up to its tip, oldest first, together with the decisions about replaced
    /// results. Push these into a [`crate::history::History`].
    #[must_use]
    pub fn chain(&self) -> Vec<Arc<Record>> {
        chain::chain(&self.records, self.tip())
    }

    /// The conversation from its very beginning, before compactions too: what the user sees.
    #[must_use]
    pub fn history(&self) -> Vec<Arc<Record>> {
        chain::history(&self.records, self.tip())
    }

    /// The conversation up to and including a record (`--resume-session-at`).
    ///
    /// # Errors
    /// When there is no such record.
    pub fn chain_to(&self, tip: RecordId) -> Result<Vec<Arc<Record>>, SessionError> {
        if self.message(tip).is_none() {
            return Err(self.no_such_record(tip));
        }
        Ok(chain::chain(&self.records, Some(tip)))
    }

    /// The user's prompts of the conversation, oldest first: the places to rewind to.
    #[must_use]
    pub fn prompts(&self) -> Vec<Arc<Record>> {
        let is_prompt = |record: &Arc<Record>| matches!(&**record, Record::Message(message) if message.is_prompt());
        self.chain().into_iter().filter(is_prompt).collect()
    }

    /// Where the conversation stands before a prompt: what to rewind to so that the prompt can be
    /// given again. `Ok(None)` is the beginning.
    ///
    /// # Errors
    /// When there is no such record.
    pub fn before(&self, prompt: RecordId) -> Result<Option<RecordId>, SessionError> {
        self.message(prompt)
            .map(|record| record.parent_uuid)
            .ok_or_else(|| self.no_such_record(prompt))
    }

    /// How the last turn ended.
    #[must_use]
    pub fn interruption(&self) -> Interruption {
        // Other programs leave the end of an answer out of their files, and note no choice of a model.
        chain::interruption(&self.chain(), self.facts.model_choice.is_some())
    }

    /// Checks that resuming at a record drops nothing but the turn of one prompt
    /// (`--resume-drops-turn`).
    ///
    /// # Errors
    /// [`SessionError::DropsOtherTurns`] when it would drop more, [`SessionError::NoSuchRecord`]
    /// when there is no such record.
    pub fn check_dropped_turn(
        &self,
        resume_at: RecordId,
        turn: RecordId,
    ) -> Result<(), SessionError> {
        let kept = self.chain_to(resume_at)?;
        chain::check_dropped_turn(&self.chain(), &kept, turn)
    }

    pub(crate) fn no_such_record(&self, record: RecordId) -> SessionError {
        let session = self
            .path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        SessionError::NoSuchRecord { session, record }
    }
}
