//! The chain of a transcript: every line carries the hash of itself and the line before it.
//!
//! ```json
//! {"type":"user",…,"latheLink":"17.4f0c…"}
//! ```
//! The field is the last one of a line: the number of the line in the chain, and the first 16 bytes of
//! `SHA-256(link before ‖ number ‖ line without the field)`. Other programs skip it, and it is taken off when a line is
//! read, so a record never has it. A line that another program appends (a title) has none; a transcript of an older
//! version has none at all. [`verify`] names lines that were changed, removed, added or moved.

use crate::blob::{BLOBS_FIELD, BlobStore};
use crate::error::SessionError;
use crate::line::{BackwardLines, blob_store_of};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// The field of a line that links it to the one before.
pub(crate) const LINK_FIELD: &str = "latheLink";
const FIELD: &[u8] = b",\"latheLink\":\"";
/// How many lines at the end of a file are looked at for the link to continue from.
const LOOKED_AT: usize = 64;

/// Where a chain stands: the number and the hash of its last line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    number: u64,
    hash: String,
}

impl Chain {
    /// The chain that a file ends with, or the beginning of one.
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        let mut lines = BackwardLines::new(file, file.metadata()?.len());
        for _ in 0..LOOKED_AT {
            match lines.next_line()? {
                Some((_, line)) => {
                    if let Some((_, chain)) = split(&line) {
                        return Ok(chain);
                    }
                }
                None => break,
            }
        }
        Ok(Self::default())
    }

    /// Appends a line (with its end) to a batch, with its link.
    pub(crate) fn append(&mut self, line: &[u8], batch: &mut Vec<u8>) {
        let Some(body) = line
            .strip_suffix(b"\n")
            .and_then(|line| line.strip_suffix(b"}"))
        else {
            batch.extend_from_slice(line);
            return;
        };
        let number = self.number + 1;
        let hash = hash(&self.hash, number, body);
        batch.extend_from_slice(body);
        batch.extend_from_slice(FIELD);
        batch.extend_from_slice(format!("{number}.{hash}\"}}\n").as_bytes());
        *self = Self { number, hash };
    }

    fn text(&self) -> String {
        format!("{}.{}", self.number, self.hash)
    }
}

/// Lines of a new file, each with its link.
pub(crate) fn linked(lines: &[u8]) -> Vec<u8> {
    let mut chain = Chain::default();
    let mut out = Vec::with_capacity(lines.len() + lines.len() / 8);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        chain.append(line, &mut out);
    }
    out
}

/// The hash of a line, which is given without its last brace.
fn hash(before: &str, number: u64, body: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Every line of every turn is hashed: by the library whose code is made for the processor.
    let mut hasher = ring::digest::Context::new(&ring::digest::SHA256);
    hasher.update(before.as_bytes());
    hasher.update(number.to_string().as_bytes());
    hasher.update(body);
    let mut text = String::with_capacity(32);
    for byte in hasher.finish().as_ref().iter().take(16) {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// A line without its link and its last brace, and the link; `None` for a line that has none.
fn split(line: &[u8]) -> Option<(&[u8], Chain)> {
    let line = line.trim_ascii_end();
    let at = memchr::memmem::rfind(line, FIELD)?;
    let link = line[at + FIELD.len()..].strip_suffix(b"\"}")?;
    let (number, hash) = std::str::from_utf8(link).ok()?.split_once('.')?;
    let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let chain = Chain {
        number: number.parse().ok()?,
        hash: hash.to_owned(),
    };
    is_hash.then_some((&line[..at], chain))
}

/// Something that is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Fault {
    /// Its text is not what was written.
    Changed,
    /// Lines before it are gone.
    Missing {
        /// How many.
        lines: u64,
    },
    /// It stands where it was not written: a copy, or lines that changed places.
    Moved,
    /// Content that is stored beside the transcript is gone, or not what was written.
    Content {
        /// Its name.
        sha256: String,
    },
}

/// A line that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The line, from 1.
    pub line: usize,
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
}

/// The chain of one transcript, checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The transcript.
    pub path: PathBuf,
    /// Its lines.
    pub lines: usize,
    /// Those that have a link.
    pub linked: usize,
    /// The lines at which a chain begins; more than one if the file was continued where there was none.
    pub begins: Vec<usize>,
    /// The last link, which shows later that nothing was cut off.
    pub last: Option<String>,
    /// The lines that are not as they were written.
    pub findings: Vec<Finding>,
}

/// Checks every line of a transcript and the content that is stored beside it.
///
/// # Errors
/// When the file can't be read.
pub fn verify(path: &Path) -> Result<Verification, SessionError> {
    let failed = |error: io::Error| SessionError::io("read", path)(error);
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let store = blob_store_of(path);
    let mut found = Verification {
        path: path.to_owned(),
        lines: 0,
        linked: 0,
        begins: Vec::new(),
        last: None,
        findings: Vec::new(),
    };
    let mut chain = Chain::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        found.lines += 1;
        let number = found.lines;
        let mut report = |fault| {
            found.findings.push(Finding {
                line: number,
                fault,
            });
        };
        for sha256 in lost_content(&line, &store) {
            report(Fault::Content { sha256 });
        }
        let Some((body, link)) = split(&line) else {
            continue;
        };
        let fault = fault_of(&chain, &link, body);
        // The chain continues from where a line that doesn't belong here interrupted it.
        let belongs = fault != Some(Fault::Moved);
        if let Some(fault) = fault {
            report(fault);
        }
        found.linked += 1;
        if belongs {
            if link.number == 1 {
                found.begins.push(number);
            }
            chain = link;
        }
    }
    found.last = (found.linked > 0).then(|| chain.text());
    Ok(found)
}

/// The fault of a line that follows a chain.
fn fault_of(chain: &Chain, link: &Chain, body: &[u8]) -> Option<Fault> {
    let before = if link.number == 1 { "" } else { &chain.hash };
    if link.number == 1 || link.number == chain.number + 1 {
        return (hash(before, link.number, body) != link.hash).then_some(Fault::Changed);
    }
    Some(match link.number.checked_sub(chain.number + 1) {
        Some(lines) => Fault::Missing { lines },
        None => Fault::Moved,
    })
}

/// The stored contents of a line that are gone or changed.
fn lost_content(line: &[u8], store: &BlobStore) -> Vec<String> {
    if memchr::memmem::find(line, BLOBS_FIELD.as_bytes()).is_none() {
        return Vec::new();
    }
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return Vec::new();
    };
    let blobs = value.get(BLOBS_FIELD).and_then(Value::as_array);
    blobs
        .into_iter()
        .flatten()
        .filter_map(|blob| blob.get("sha256").and_then(Value::as_str))
        .filter(|hash| store.get(hash).is_err())
        .map(str::to_owned)
        .collect()
}

impl Verification {
    /// In words, a line or more.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{}: ", self.path.display());
        if self.linked == 0 {
            let _ = writeln!(
                out,
                "{} without a chain (written by an older version, or empty)",
                lines(self.lines)
            );
        } else {
            let _ = write!(out, "{}, {} linked", lines(self.lines), self.linked);
            if self.begins.first().is_some_and(|first| *first > 1) || self.begins.len() > 1 {
                let at: Vec<String> = self.begins.iter().map(usize::to_string).collect();
                let _ = write!(out, " (a chain begins at line {})", at.join(", "));
            }
            let state = if self.findings.is_empty() {
                "intact"
            } else {
                "NOT intact"
            };
            let last = self.last.as_deref().unwrap_or_default();
            let _ = writeln!(out, ": {state}; last link {last}");
        }
        for finding in &self.findings {
            let what = match &finding.fault {
                Fault::Changed => "its text was changed".to_owned(),
                Fault::Missing { lines: gone } => {
                    let gone = usize::try_from(*gone).unwrap_or(usize::MAX);
                    format!("{} before it removed", lines(gone))
                }
                Fault::Moved => "it is a copy, or was moved here".to_owned(),
                Fault::Content { sha256 } => {
                    format!("its stored content {sha256} is gone or changed")
                }
            };
            let _ = writeln!(out, "  line {}: {what}", finding.line);
        }
        out
    }
}

fn lines(count: usize) -> String {
    match count {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("s.jsonl");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn faults(folder: &Path, lines: &[String]) -> Vec<(usize, Fault)> {
        let found = verify(&file(folder, &lines.concat())).unwrap();
        let faults = found.findings.into_iter();
        faults.map(|it| (it.line, it.fault)).collect()
    }

    #[test]
    fn a_changed_removed_copied_or_moved_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let plain: String = (1..=6)
            .map(|n| format!("{{\"type\":\"x\",\"n\":{n}}}\n"))
            .collect();
        let text = String::from_utf8(linked(plain.as_bytes())).unwrap();
        let lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        assert_eq!(faults(folder.path(), &lines), []);
        let with = |change: &dyn Fn(&mut Vec<String>)| {
            let mut lines = lines.clone();
            change(&mut lines);
            faults(folder.path(), &lines)
        };
        let changed = |lines: &mut Vec<String>| lines[2] = lines[2].replace("\"n\":3", "\"n\":4");
        assert_eq!(with(&changed), [(3, Fault::Changed)]);
        let gone = |lines: &mut Vec<String>| drop(lines.drain(1..3));
        assert_eq!(with(&gone), [(2, Fault::Missing { lines: 2 })]);
        let copied = |lines: &mut Vec<String>| lines.insert(3, lines[1].clone());
        assert_eq!(with(&copied), [(4, Fault::Moved)]);
        // Another program's title has no link, and is no fault.
        let titled = |lines: &mut Vec<String>| lines.insert(3, "{\"type\":\"t\"}\n".to_owned());
        assert_eq!(with(&titled), []);
    }

    #[test]
    fn a_chain_continues_where_the_file_ends_and_older_files_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let old = "{\"type\":\"x\"}\n{\"type\":\"y\"}\n";
        let path = file(folder.path(), old);
        let found = verify(&path).unwrap();
        assert_eq!((found.linked, found.last.as_deref()), (0, None));
        assert!(found.text().contains("without a chain"), "{}", found.text());
        let mut text = old.as_bytes().to_vec();
        for line in ["{\"type\":\"a\"}\n", "{\"type\":\"b\"}\n"] {
            let opened = File::open(file(folder.path(), std::str::from_utf8(&text).unwrap()));
            let mut chain = Chain::of_file(&opened.unwrap()).unwrap();
            chain.append(line.as_bytes(), &mut text);
        }
        let found = verify(&file(folder.path(), std::str::from_utf8(&text).unwrap())).unwrap();
        assert_eq!((found.lines, found.linked), (4, 2));
        assert_eq!(found.begins, [3]);
        assert_eq!(found.findings, []);
        assert!(found.text().contains("a chain begins at line 3"));
    }
}
