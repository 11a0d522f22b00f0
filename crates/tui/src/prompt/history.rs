//! The history of prompts, per project.
//!
//! The history is one file of JSON lines for all projects (`<config home>/history.jsonl`); a line that
//! can't be read is skipped. The draft is one small file per project and terminal, written a moment after
//! the last key and removed when the prompt is sent.

use crate::app::App;
use crate::layers::{Item, Layer as _, Picker, Purpose};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The most that is read of the history file, from its end.
const READ_LIMIT: u64 = 2_000_000;
/// The most prompts that are offered.
const KEEP: usize = 1000;

#[derive(Debug, Serialize, Deserialize)]
struct HistoryEntry {
    display: String,
    project: String,
    #[serde(default)]
    timestamp: u64,
}

/// How many prompts of a project the file has; `forget` removes them.
///
/// # Errors
/// If the file can't be written.
pub(crate) fn of_project(
    config_home: &Path,
    project: &Path,
    forget: bool,
) -> std::io::Result<usize> {
    let file = config_home.join("history.jsonl");
    let Ok(text) = std::fs::read_to_string(&file) else {
        return Ok(0);
    };
    let project = project.display().to_string();
    let is_of = |line: &&str| {
        serde_json::from_str::<HistoryEntry>(line).is_ok_and(|entry| entry.project == project)
    };
    let count = text.lines().filter(is_of).count();
    if forget && count > 0 {
        let rest: String = text
            .lines()
            .filter(|line| !is_of(line))
            .flat_map(|line| [line, "\n"])
            .collect();
        lathe_settings::write::replace(&file, rest.as_bytes(), 0o600)?;
    }
    Ok(count)
}

/// The history of a project's prompts.
#[derive(Debug, Default)]
pub(crate) struct History {
    file: PathBuf,
    project: String,
    entries: Vec<String>,
    read: bool,
    /// Where in the entries the user is, and what they had typed.
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
            .filter_map(|line| serde_json::from_str::<HistoryEntry>(line).ok())
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
        let entry = HistoryEntry {
            display: text.to_owned(),
            project: self.project.clone(),
            timestamp: u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0),
        };
        if let Err(error) = self.append(&entry) {
            tracing::warn!(%error, "the history of prompts can't be written");
        }
    }

    fn append(&self, entry: &HistoryEntry) -> std::io::Result<()> {
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

    /// The user typed something: the next search starts over.
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

pub(crate) fn search(app: &mut App) {
    if !app.prompt.history.is_read() {
        app.prompt.search_when_read = true;
        return;
    }
    let items: Vec<Item> = app
        .prompt
        .history
        .all()
        .into_iter()
        .map(|text| Item::new(text.clone(), text.replace('\n', " ⏎ "), ""))
        .collect();
    if items.is_empty() {
        app.alarms.show("no history yet");
        return;
    }
    let mut picker = Picker::new(Purpose::History, "Prompt history", items).filterable();
    if !app.prompt.editor.is_empty() {
        picker.paste(app.prompt.editor.text());
    }
    app.layers.open(picker);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_go_through_prompts_with_the_typed_prefix() {
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
}
