//! One line of a transcript: read leniently, and found from either end of a file.

use crate::blob::{BLOBS_FIELD, BlobStore, put_back};
use crate::link::LINK_FIELD;
use crate::paths::SessionPaths;
use lathe_protocol::ids::SessionId;
use lathe_protocol::record::Record;
use serde_json::Value;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A line that holds no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedLine {
    /// Where it starts in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub length: usize,
    /// The reason.
    pub reason: String,
}

/// The content of a line.
pub(crate) enum Line {
    Blank,
    Record(Record),
    /// Damaged at its start, but a whole record follows: two lines that a crash glued together.
    Salvaged(Record, String),
    Damaged(String),
}

/// Reads the lines of one transcript, with the stores of their large content.
pub(crate) struct LineReader {
    paths: SessionPaths,
    store: BlobStore,
    pub(crate) missing_blobs: Vec<String>,
}

impl LineReader {
    pub(crate) fn new(transcript: &Path) -> Self {
        Self {
            paths: SessionPaths::of_transcript(transcript),
            store: blob_store_of(transcript),
            missing_blobs: Vec::new(),
        }
    }

    pub(crate) fn read(&mut self, bytes: &[u8]) -> Line {
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            return Line::Blank;
        }
        match serde_json::from_slice::<Value>(bytes) {
            Ok(value) if value.is_object() => Line::Record(self.record(value)),
            Ok(_) => Line::Damaged("not a JSON object".to_owned()),
            Err(error) => match salvage(bytes) {
                Some(value) => Line::Salvaged(self.record(value), error.to_string()),
                None => Line::Damaged(error.to_string()),
            },
        }
    }

    fn record(&mut self, mut value: Value) -> Record {
        if let Some(fields) = value.as_object_mut() {
            // It says where the line stands, not what the record is.
            fields.shift_remove(LINK_FIELD);
        }
        if value.get(BLOBS_FIELD).is_some() {
            let mut stores = vec![self.store.clone()];
            // A fork made by another program copies lines but not our stored content.
            let source = value
                .pointer("/forkedFrom/sessionId")
                .and_then(Value::as_str)
                .and_then(|id| id.parse::<SessionId>().ok());
            if let Some(source) = source {
                stores.push(BlobStore::new(self.paths.sibling(source).blobs()));
            }
            self.missing_blobs.extend(put_back(&mut value, &stores));
        }
        Record::from_value(value)
    }
}

/// The store of a transcript's large content. Sub-agents share that of their session.
pub(crate) fn blob_store_of(transcript: &Path) -> BlobStore {
    let folder = transcript.parent().unwrap_or(Path::new(""));
    if folder.file_name().is_some_and(|name| name == "subagents") {
        return BlobStore::new(folder.parent().unwrap_or(folder).join("blobs"));
    }
    BlobStore::new(SessionPaths::of_transcript(transcript).blobs())
}

/// A whole record at the end of a damaged line. A piece of the damaged record itself isn't mistaken
/// for one: it would be followed by the rest of the object around it, or lack a record's ids.
fn salvage(bytes: &[u8]) -> Option<Value> {
    const TRIES: usize = 64;
    let starts = bytes
        .windows(2)
        .enumerate()
        .skip(1)
        .filter(|(_, pair)| pair == b"{\"");
    starts
        .take(TRIES)
        .filter_map(|(at, _)| serde_json::from_slice::<Value>(&bytes[at..]).ok())
        .find(|value| {
            let has = |field: &str| value.get(field).is_some_and(Value::is_string);
            has("type")
                && ["uuid", "sessionId", "leafUuid", "messageId"]
                    .into_iter()
                    .any(has)
        })
}

/// The lines of a file from its last to its first.
pub(crate) struct BackwardLines<'a> {
    file: &'a File,
    /// The bytes from `start` on that haven't been given out.
    buffer: Vec<u8>,
    start: u64,
    chunk: usize,
    pub(crate) bytes_read: u64,
}

impl<'a> BackwardLines<'a> {
    const CHUNK: usize = 1 << 18;

    pub(crate) fn new(file: &'a File, length: u64) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            start: length,
            chunk: Self::CHUNK,
            bytes_read: 0,
        }
    }

    /// The line before those given out so far, with where it starts. The first one given may lack
    /// its line end.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        loop {
            // The last byte is the line's own end; a line starts after the end before that.
            let body = self.buffer.len().saturating_sub(1);
            if let Some(end) = self.buffer[..body].iter().rposition(|byte| *byte == b'\n') {
                let line = self.buffer.split_off(end + 1);
                self.chunk = Self::CHUNK;
                return Ok(Some((self.start + end as u64 + 1, line)));
            }
            if self.start == 0 {
                let line = std::mem::take(&mut self.buffer);
                return Ok((!line.is_empty()).then_some((0, line)));
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        let size = self
            .chunk
            .min(usize::try_from(self.start).unwrap_or(usize::MAX));
        let mut bytes = vec![0; size];
        self.start -= size as u64;
        self.file.read_exact_at(&mut bytes, self.start)?;
        self.bytes_read += size as u64;
        bytes.append(&mut self.buffer);
        self.buffer = bytes;
        // A line longer than the chunk is copied a few times only.
        self.chunk *= 2;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_from_the_end_whatever_their_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let long = "x".repeat(BackwardLines::CHUNK * 3 + 17);
        let lines = ["first", "", long.as_str(), "é", "no end"];
        for text in [lines.join("\n"), format!("{}\n", lines.join("\n"))] {
            std::fs::write(&path, &text).unwrap();
            let file = File::open(&path).unwrap();
            let mut reader = BackwardLines::new(&file, text.len() as u64);
            let mut found = Vec::new();
            while let Some((offset, line)) = reader.next_line().unwrap() {
                assert_eq!(&text.as_bytes()[offset as usize..][..line.len()], line);
                found.push(
                    String::from_utf8(line)
                        .unwrap()
                        .trim_end_matches('\n')
                        .to_owned(),
                );
            }
            found.reverse();
            assert_eq!(found, lines);
        }
    }

    #[test]
    fn a_record_glued_to_a_torn_one_is_saved() {
        let torn = r#"{"type":"user","message":{"content":[{"type":"text","te"#;
        let whole = r#"{"type":"custom-title","customTitle":"{\"type\":\"x\"}","sessionId":"6f2a8c1e-0000-4000-8000-000000000001"}"#;
        let mut reader = LineReader::new(Path::new("/none.jsonl"));
        let Line::Salvaged(record, _) = reader.read(format!("{torn}{whole}").as_bytes()) else {
            panic!("not saved");
        };
        assert_eq!(serde_json::to_string(&record).unwrap(), whole);
        assert!(matches!(reader.read(torn.as_bytes()), Line::Damaged(_)));
        assert!(matches!(reader.read(b"[1]"), Line::Damaged(_)));
        assert!(matches!(reader.read(b" \r"), Line::Blank));
    }
}
