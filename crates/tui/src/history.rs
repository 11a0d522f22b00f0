//! What was typed before, per project, and the draft that survives a crash.
//!
//! The history is one file of JSON lines for all projects (`<config home>/history.jsonl`); a line that
//! can't be read is skipped. The draft is one small file per project and terminal, written a moment after
//! the last key and removed when the prompt is sent.

use crate::editor::Attachment;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The most that is read of the history file, from its end.
const READ_LIMIT: u64 = 2_000_000;
/// The most prompts that are offered.
const KEEP: usize = 1000;

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    display: String,
    project: String,
    #[serde(default)]
    timestamp: u64,
}

/// The history of a project's prompts.
#[derive(Debug, Default)]
pub(crate) struct History {
    file: PathBuf,
    project: String,
    entries: Vec<String>,
    read: bool,
    /// Where in the entries the person is, and what they had typed.
    at: Option<(usize, String)>,
}

impl History {
    pub(crate) fn new(config_home: &Path, project: &Path) -> Self {
        Self {
            file: config_home.join("history.jsonl"),
            project: project.display().to_string(),
            entries: Vec::new(),
            read: false,
            at: None,
        }
    }

    /// Whether what is in the file is known.
    pub(crate) fn is_read(&self) -> bool {
        self.read
    }

    /// Reads the file, off the main thread.
    pub(crate) fn read(file: &Path, project: &str) -> Vec<String> {
        use std::io::{Read as _, Seek as _, SeekFrom};
        let Ok(mut opened) = File::open(file) else {
            return Vec::new();
        };
        let length = opened.metadata().map_or(0, |metadata| metadata.len());
        if length > READ_LIMIT {
            let _ = opened.seek(SeekFrom::Start(length - READ_LIMIT));
        }
        let mut bytes = Vec::new();
        let _ = opened.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let mut entries: Vec<String> = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Entry>(line).ok())
            .filter(|entry| entry.project == project)
            .map(|entry| entry.display)
            .collect();
        entries.dedup();
        let skip = entries.len().saturating_sub(KEEP);
        entries.drain(..skip);
        entries
    }

    /// Where the history is kept, and whose it is.
    pub(crate) fn place(&self) -> (PathBuf, String) {
        (self.file.clone(), self.project.clone())
    }

    /// Takes what was read; what was typed meanwhile stays newest.
    pub(crate) fn loaded(&mut self, mut entries: Vec<String>) {
        entries.append(&mut self.entries);
        self.entries = entries;
        self.read = true;
    }

    /// Remembers a prompt.
    pub(crate) fn add(&mut self, text: &str) {
        self.at = None;
        if text.trim().is_empty() || self.entries.last().is_some_and(|last| last == text) {
            return;
        }
        self.entries.push(text.to_owned());
        let entry = Entry {
            display: text.to_owned(),
            project: self.project.clone(),
            timestamp: u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0),
        };
        if let Err(error) = self.append(&entry) {
            tracing::warn!(%error, "the history of prompts can't be written");
        }
    }

    fn append(&self, entry: &Entry) -> std::io::Result<()> {
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = std::fs::OpenOptions::new();
        options.create(true).append(true);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        options.open(&self.file)?.write_all(line.as_bytes())
    }

    /// The prompt before that begins with what was typed.
    pub(crate) fn previous(&mut self, typed: &str) -> Option<String> {
        let (from, prefix) = match &self.at {
            Some((at, prefix)) => (*at, prefix.clone()),
            None => (self.entries.len(), typed.to_owned()),
        };
        let found = (0..from).rev().find(|index| {
            self.entries[*index].starts_with(&prefix) && self.entries[*index] != prefix
        })?;
        self.at = Some((found, prefix));
        self.entries.get(found).cloned()
    }

    /// The prompt after; at the end, what was typed.
    pub(crate) fn next(&mut self) -> Option<String> {
        let (at, prefix) = self.at.clone()?;
        match (at + 1..self.entries.len()).find(|index| self.entries[*index].starts_with(&prefix)) {
            Some(found) => {
                self.at = Some((found, prefix));
                self.entries.get(found).cloned()
            }
            None => {
                self.at = None;
                Some(prefix)
            }
        }
    }

    /// The person typed something: the next search begins anew.
    pub(crate) fn reset(&mut self) {
        self.at = None;
    }

    /// Everything, newest first, each once.
    pub(crate) fn all(&self) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        self.entries
            .iter()
            .rev()
            .filter(|entry| seen.insert(entry.as_str()))
            .cloned()
            .collect()
    }
}

/// A prompt that is not sent yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Draft {
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) attachments: Vec<Attachment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stash: Option<String>,
}

/// How many terminals in one folder have a draft of their own.
const MOST_DRAFTS: usize = 32;

/// Locks a file, unless somebody has.
fn lock(file: &Path) -> std::io::Result<Option<File>> {
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(file)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

impl Draft {
    /// The file of a draft that no other terminal writes to: the project's first that is free, so that
    /// what a terminal that fell left behind is found, and what is being typed in another is not. It is
    /// taken for as long as the lock lives.
    pub(crate) fn claim(config_home: &Path, project: &Path) -> (PathBuf, Option<File>) {
        for number in 1..=MOST_DRAFTS {
            let file = Self::file(config_home, project, number);
            match lock(&file.with_extension("lock")) {
                Ok(Some(lock)) => return (file, Some(lock)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "the draft can't be locked");
                    return (file, None);
                }
            }
        }
        (Self::file(config_home, project, MOST_DRAFTS + 1), None)
    }

    /// The file of one of a project's drafts.
    fn file(config_home: &Path, project: &Path, number: usize) -> PathBuf {
        let name: String = project
            .display()
            .to_string()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let start = name.len().saturating_sub(150);
        config_home.join("drafts").join(match number {
            1 => format!("{}.json", &name[start..]),
            number => format!("{}.{number}.json", &name[start..]),
        })
    }

    pub(crate) fn load(file: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }

    /// Writes the draft, or removes its file when there is none.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(crate) fn save(&self, file: &Path) -> std::io::Result<()> {
        if self.text.is_empty() && self.stash.is_none() {
            return match std::fs::remove_file(file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let bytes = serde_json::to_vec(self)?;
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(&bytes)?;
        temporary.persist(file).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_go_through_what_begins_as_typed() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::new(folder.path(), Path::new("/p"));
        for text in ["fix a", "look", "fix b"] {
            history.add(text);
        }
        assert_eq!(history.previous("fix").as_deref(), Some("fix b"));
        assert_eq!(history.previous("fix b").as_deref(), Some("fix a"));
        assert_eq!(history.previous("fix a"), None);
        assert_eq!(history.next().as_deref(), Some("fix b"));
        assert_eq!(history.next().as_deref(), Some("fix"));
        assert_eq!(history.next(), None);
    }

    #[test]
    fn a_projects_history_is_read_back_and_damage_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::new(folder.path(), Path::new("/p"));
        history.add("one");
        History::new(folder.path(), Path::new("/other")).add("not mine");
        let (file, project) = history.place();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap()
            .write_all(b"{torn\n")
            .unwrap();
        history.add("two");
        assert_eq!(History::read(&file, &project), ["one", "two"]);
    }

    #[test]
    fn a_draft_is_kept_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, _lock) = Draft::claim(folder.path(), Path::new("/a/b"));
        let draft = Draft {
            text: "half a thou".into(),
            ..Draft::default()
        };
        draft.save(&file).unwrap();
        assert_eq!(Draft::load(&file), Some(draft));
        Draft::default().save(&file).unwrap();
        assert_eq!(Draft::load(&file), None);
        Draft::default().save(&file).unwrap();
    }

    #[test]
    fn each_terminal_has_a_draft_of_its_own_and_finds_what_a_fallen_one_left() {
        let folder = tempfile::tempdir().unwrap();
        let claim = || Draft::claim(folder.path(), Path::new("/a/b"));
        let (first, first_lock) = claim();
        let (second, second_lock) = claim();
        assert!(first_lock.is_some() && second_lock.is_some());
        assert_ne!(first, second);
        let draft = Draft {
            text: "typed in the second".into(),
            ..Draft::default()
        };
        draft.save(&second).unwrap();
        drop(second_lock);
        let (third, _lock) = claim();
        assert_eq!(Draft::load(&third), Some(draft));
        let (elsewhere, _lock) = Draft::claim(folder.path(), Path::new("/c"));
        assert_eq!(Draft::load(&elsewhere), None);
    }
}
