//! The files that this conversation has seen, and in which version.
//!
//! A file may only be changed when the model has read it and it is still what was read; the same
//! part of a file that hasn't changed need not be sent again; a file that someone else changed is
//! reported with the difference. All three need to know which version of a file was seen and which
//! lines of it: that is kept here, for at most [`MOST_FILES`] files and [`MOST_BYTES`] of text. When
//! the text doesn't fit any more it is dropped first (only the diff is lost), then whole entries
//! (the file must be read again before it is changed).
//!
//! Content added to the conversation without a call (an instruction file, a mentioned
//! file) is noted as *injected*: it never counts as read.
//!
//! A file is known by its real path, so reading through a symlink and editing behind it agree.

use crate::files::{ContentHash, Stamp, hash_of};
use crate::text_file;
use crate::text_window::Bookmark;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// How many files are remembered.
pub const MOST_FILES: usize = 100;
/// How many bytes of text are kept for diffs.
pub const MOST_BYTES: usize = 25 * 1024 * 1024;
/// The largest file that is read again to find out what changed in it.
const LARGEST_DIFFED: u64 = 1024 * 1024;
/// How many places of one file are kept.
const MOST_BOOKMARKS: usize = 256;
/// The longest diff that is reported.
const LONGEST_DIFF: usize = 8 * 1024;

/// A request to Read: the same request for the same version has the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadQuestion {
    /// First line, as given.
    pub offset: Option<usize>,
    /// Number of lines, as given.
    pub limit: Option<usize>,
    /// Pages, as given.
    pub pages: Option<String>,
}

impl ReadQuestion {
    /// Whether no part was asked for.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.offset.is_none() && self.limit.is_none()
    }
}

/// Which lines of a file the model has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// None: the content was injected, or has changed too much for a diff.
    Nothing,
    /// These, first and last from 1, sorted and apart from one another.
    Lines(Vec<(usize, usize)>),
    /// All.
    Whole,
}

impl Seen {
    fn add(&mut self, first: usize, last: usize, total: Option<usize>) {
        let mut ranges = match std::mem::replace(self, Self::Whole) {
            Self::Whole => return,
            Self::Nothing => Vec::new(),
            Self::Lines(ranges) => ranges,
        };
        ranges.push((first, last));
        ranges.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1 + 1 => previous.1 = previous.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        let whole =
            matches!((merged.as_slice(), total), ([(1, last)], Some(total)) if *last >= total);
        if !whole {
            *self = Self::Lines(merged);
        }
    }
}

#[derive(Clone)]
struct SeenFile {
    /// The path as it was last named.
    named: PathBuf,
    stamp: Stamp,
    /// The version's hash; unknown for a file of which only a part was read from disk.
    hash: Option<ContentHash>,
    /// The whole text, line ends made `\n`.
    text: Option<Arc<str>>,
    seen: Seen,
    /// The questions whose answers stand in the conversation.
    answered: Vec<ReadQuestion>,
    /// Where lines of a large file start, sorted: the next part is found without counting again.
    bookmarks: Vec<Bookmark>,
    used: u64,
}

impl SeenFile {
    /// A version of a file of which nothing has been seen.
    fn unseen(named: &Path, stamp: Stamp) -> Self {
        Self {
            named: named.to_owned(),
            stamp,
            hash: None,
            text: None,
            seen: Seen::Nothing,
            answered: Vec::new(),
            bookmarks: Vec::new(),
            used: 0,
        }
    }
}

/// The result of a Read, to be remembered.
#[derive(Debug)]
pub struct ReadFact<'a> {
    /// The version.
    pub stamp: Stamp,
    /// All bytes, when all were loaded.
    pub bytes: Option<&'a [u8]>,
    /// The text of all bytes.
    pub text: Option<&'a str>,
    /// First and last line that the model is shown, from 1. `None`: all there is.
    pub lines: Option<(usize, usize)>,
    /// How many lines there are, when that is known.
    pub total_lines: Option<usize>,
    /// The request.
    pub question: ReadQuestion,
}

/// How much of a file must have been seen before it may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: a program that has the file worked the change out.
    Nothing,
    /// Some of it: the change itself says what stands there.
    Part,
    /// All of it: the change replaces everything.
    Whole,
}

/// Why a file may not be changed yet. The texts are for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFresh {
    /// Never read, or forgotten since.
    #[error("{0} has not been read yet. Read it first, then change it.")]
    NotRead(String),
    /// Not what was read.
    #[error(
        "{0} has changed since it was read (by the user, a formatter or another program). Read it again before changing it."
    )]
    Changed(String),
    /// Only a part was read.
    #[error(
        "Only {seen} of {path} have been read, and Write would replace all of it. Read the rest first, or change the part with Edit."
    )]
    PartlyRead {
        /// The path.
        path: String,
        /// The lines that were.
        seen: String,
    },
}

/// A file that someone else changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file, as it was named when it was read.
    pub path: PathBuf,
    /// The difference as a unified diff, or a sentence where there is none to show.
    pub diff: String,
}

/// The files that this conversation has seen, and in which version.
#[derive(Default)]
pub struct FileCache {
    state: Mutex<State>,
}

#[derive(Default, Clone)]
struct State {
    entries: HashMap<PathBuf, SeenFile>,
    clock: u64,
}

impl State {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Puts an entry in and makes room for it.
    fn put(&mut self, key: PathBuf, mut entry: SeenFile) {
        entry.used = self.tick();
        self.entries.insert(key, entry);
        while self.entries.len() > MOST_FILES {
            let oldest = self
                .entries
                .iter()
                .min_by_key(|(_, entry)| entry.used)
                .map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.entries.remove(&oldest);
        }
        loop {
            let kept: usize = self
                .entries
                .values()
                .filter_map(|entry| entry.text.as_ref())
                .map(|text| text.len())
                .sum();
            if kept <= MOST_BYTES {
                break;
            }
            let oldest = self
                .entries
                .values_mut()
                .filter(|entry| entry.text.is_some())
                .min_by_key(|entry| entry.used);
            match oldest {
                Some(entry) => entry.text = None,
                None => break,
            }
        }
    }
}

/// The path that a file is known by.
fn key_of(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn kept_text(text: &str) -> Option<Arc<str>> {
    (text.len() <= MOST_BYTES).then(|| Arc::from(text_file::with_lf(text).as_ref()))
}

impl FileCache {
    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers what Read showed the model.
    pub fn record_read(&self, path: &Path, fact: ReadFact<'_>) {
        let key = key_of(path);
        let hash = fact.bytes.map(hash_of);
        let mut state = self.state.lock();
        // Parts of the same version add up.
        let mut entry = state
            .entries
            .remove(&key)
            .filter(|entry| entry.stamp == fact.stamp && (hash.is_none() || entry.hash == hash))
            .unwrap_or_else(|| SeenFile::unseen(path, fact.stamp));
        match fact.lines {
            None => entry.seen = Seen::Whole,
            Some((first, last)) => entry.seen.add(first, last, fact.total_lines),
        }
        if !entry.answered.contains(&fact.question) {
            entry.answered.push(fact.question);
        }
        path.clone_into(&mut entry.named);
        entry.hash = hash;
        entry.text = fact.text.and_then(kept_text);
        state.put(key, entry);
    }

    /// Remembers where a line of this version of a file starts.
    pub(crate) fn add_bookmark(&self, path: &Path, stamp: Stamp, bookmark: Bookmark) {
        let key = key_of(path);
        let mut state = self.state.lock();
        if let Some(entry) = state.entries.get_mut(&key)
            && entry.stamp == stamp
            && entry.bookmarks.len() < MOST_BOOKMARKS
        {
            let place = entry
                .bookmarks
                .partition_point(|other| other.line < bookmark.line);
            entry.bookmarks.insert(place, bookmark);
        }
    }

    /// The last known place at or before a line of this version of a file.
    pub(crate) fn bookmark(&self, path: &Path, stamp: Stamp, line: usize) -> Bookmark {
        let key = key_of(path);
        let state = self.state.lock();
        state
            .entries
            .get(&key)
            .filter(|entry| entry.stamp == stamp)
            .and_then(|entry| {
                entry
                    .bookmarks
                    .iter()
                    .rev()
                    .find(|bookmark| bookmark.line <= line)
            })
            .copied()
            .unwrap_or(Bookmark::START)
    }

    /// Remembers a version that this session wrote. `seen_whole`: the model gave all of its content.
    pub fn record_change(
        &self,
        path: &Path,
        stamp: Stamp,
        hash: ContentHash,
        text: Option<&str>,
        seen_whole: bool,
    ) {
        let key = key_of(path);
        let mut state = self.state.lock();
        let seen = match state.entries.remove(&key) {
            _ if seen_whole => Seen::Whole,
            Some(entry) => entry.seen,
            None => Seen::Nothing,
        };
        state.put(
            key,
            SeenFile {
                hash: Some(hash),
                text: text.and_then(kept_text),
                seen,
                ..SeenFile::unseen(path, stamp)
            },
        );
    }

    /// Notes that a file's content was put into the conversation without being read by the model.
    /// A file that has been read stays read.
    pub fn record_injected(&self, path: &Path, stamp: Stamp) {
        let key = key_of(path);
        let mut state = self.state.lock();
        if !state.entries.contains_key(&key) {
            state.put(key, SeenFile::unseen(path, stamp));
        }
    }

    /// Counts a file as read whole, if it hasn't been written since `modified` (to the millisecond,
    /// as hosts give it). Returns whether it is counted.
    pub fn seed(&self, path: &Path, modified: SystemTime) -> bool {
        let milliseconds = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_millis())
        };
        let Ok(metadata) = std::fs::metadata(path) else {
            return false;
        };
        let stamp = Stamp::of(&metadata);
        let is_newer = stamp
            .modified
            .is_none_or(|on_disk| milliseconds(on_disk) > milliseconds(modified));
        if is_newer || !metadata.is_file() {
            return false;
        }
        let bytes = (metadata.len() <= LARGEST_DIFFED)
            .then(|| std::fs::read(path).ok())
            .flatten();
        let text = bytes
            .as_deref()
            .and_then(|bytes| text_file::decode(bytes).ok())
            .and_then(|(text, _)| kept_text(&text));
        let hash = bytes.as_deref().map(hash_of);
        self.state.lock().put(
            key_of(path),
            SeenFile {
                hash,
                text,
                seen: Seen::Whole,
                ..SeenFile::unseen(path, stamp)
            },
        );
        true
    }

    /// Whether the answer to this question about this version already stands in the conversation.
    /// `hash` gives the file's present hash: time and size can stay the same when the content
    /// doesn't, so it is asked for where the answered version's hash is known.
    pub fn is_answered(
        &self,
        path: &Path,
        stamp: Stamp,
        question: &ReadQuestion,
        hash: impl FnOnce() -> Option<ContentHash>,
    ) -> bool {
        let key = key_of(path);
        let known = {
            let mut state = self.state.lock();
            let now = state.tick();
            match state.entries.get_mut(&key) {
                Some(entry) if entry.stamp == stamp && entry.answered.contains(question) => {
                    entry.used = now;
                    entry.hash
                }
                _ => return false,
            }
        };
        known.is_none_or(|known| hash() == Some(known))
    }

    /// Whether a file whose present version has this stamp (and hash, where it was loaded) may be
    /// changed.
    ///
    /// # Errors
    /// When it hasn't been read, not enough of it, or in another version.
    pub fn check(
        &self,
        path: &Path,
        stamp: Stamp,
        hash: Option<ContentHash>,
        need: Need,
    ) -> Result<(), NotFresh> {
        if need == Need::Nothing {
            return Ok(());
        }
        let shown = || path.display().to_string();
        let key = key_of(path);
        let mut state = self.state.lock();
        let now = state.tick();
        let Some(entry) = state.entries.get_mut(&key) else {
            return Err(NotFresh::NotRead(shown()));
        };
        entry.used = now;
        if entry.seen == Seen::Nothing {
            return Err(NotFresh::NotRead(shown()));
        }
        let same = match (hash, entry.hash) {
            (Some(present), Some(read)) => present == read,
            _ => entry.stamp == stamp,
        };
        if !same {
            return Err(NotFresh::Changed(shown()));
        }
        match &entry.seen {
            Seen::Lines(ranges) if need == Need::Whole => {
                let ranges: Vec<String> = ranges
                    .iter()
                    .map(|(first, last)| format!("{first}-{last}"))
                    .collect();
                Err(NotFresh::PartlyRead {
                    path: shown(),
                    seen: format!("lines {}", ranges.join(", ")),
                })
            }
            _ => Ok(()),
        }
    }

    /// The earlier results are no longer in the conversation (it was compacted): every question is
    /// answered in full again. What was read stays read.
    pub fn forget_answers(&self) {
        for entry in self.state.lock().entries.values_mut() {
            entry.answered.clear();
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.state.lock().entries.clear();
    }

    /// A cache for a sub-agent: it may change what its parent has read, but has been shown nothing.
    #[must_use]
    pub fn for_agent(&self) -> Self {
        let copy = Self {
            state: Mutex::new(self.state.lock().clone()),
        };
        copy.forget_answers();
        copy
    }

    /// The files that were read or changed last, newest first.
    #[must_use]
    pub fn recent(&self, most: usize) -> Vec<PathBuf> {
        let state = self.state.lock();
        let mut entries: Vec<&SeenFile> = state
            .entries
            .values()
            .filter(|entry| entry.seen != Seen::Nothing)
            .collect();
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.used));
        entries
            .into_iter()
            .take(most)
            .map(|entry| entry.named.clone())
            .collect()
    }

    /// The files that someone else changed since they were read, each told once. Looks at every
    /// remembered file on disk (one `stat` each), so call it where blocking is allowed.
    ///
    /// A file whose whole difference is told counts as read in its new version; one whose difference
    /// is too long to tell must be read again before it is changed.
    #[must_use]
    pub fn changed_on_disk(&self) -> Vec<FileChange> {
        let mut remembered: Vec<(PathBuf, SeenFile)> = self
            .state
            .lock()
            .entries
            .iter()
            // What was read from an editor's buffer is compared with that buffer, when the file is changed.
            .filter(|(_, entry)| entry.seen != Seen::Nothing && !entry.stamp.is_unsaved())
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect();
        remembered.sort_by(|(one, _), (other, _)| one.cmp(other));
        remembered
            .into_iter()
            .filter_map(|(key, entry)| self.change_of(&key, entry))
            .collect()
    }

    fn change_of(&self, key: &Path, entry: SeenFile) -> Option<FileChange> {
        let metadata = match std::fs::metadata(key) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            // Not readable at the moment: nothing is known, so nothing is told.
            Err(_) => return None,
        };
        let Some(metadata) = metadata else {
            self.update(key, entry.stamp, None);
            return Some(FileChange {
                path: entry.named,
                diff: "The file no longer exists.".to_owned(),
            });
        };
        let stamp = Stamp::of(&metadata);
        if stamp == entry.stamp {
            return None;
        }
        let bytes = (metadata.is_file() && metadata.len() <= LARGEST_DIFFED)
            .then(|| std::fs::read(key).ok())
            .flatten();
        let hash = bytes.as_deref().map(hash_of);
        let (old_stamp, path) = (entry.stamp, entry.named.clone());
        if hash.is_some() && hash == entry.hash {
            self.update(key, old_stamp, Some(SeenFile { stamp, ..entry }));
            return None;
        }
        let text = bytes
            .as_deref()
            .and_then(|bytes| text_file::decode(bytes).ok())
            .and_then(|(text, _)| kept_text(&text));
        let diff = match (&entry.text, &text) {
            (Some(old), Some(new)) => Some(lathe_diff::unified(&path, old, new)),
            _ => None,
        }
        .filter(|diff| diff.len() <= LONGEST_DIFF);
        let seen = if diff.is_some() {
            entry.seen
        } else {
            Seen::Nothing
        };
        self.update(
            key,
            old_stamp,
            Some(SeenFile {
                hash,
                text,
                seen,
                used: entry.used,
                ..SeenFile::unseen(&path, stamp)
            }),
        );
        Some(FileChange {
            path,
            diff: diff.unwrap_or_else(|| {
                "It changed too much to show here. Read it again before relying on it.".to_owned()
            }),
        })
    }

    /// Replaces an entry, unless a call has replaced it meanwhile.
    fn update(&self, key: &Path, expected: Stamp, entry: Option<SeenFile>) {
        let mut state = self.state.lock();
        if state
            .entries
            .get(key)
            .is_none_or(|entry| entry.stamp != expected)
        {
            return;
        }
        match entry {
            Some(entry) => {
                state.entries.insert(key.to_owned(), entry);
            }
            None => {
                state.entries.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
