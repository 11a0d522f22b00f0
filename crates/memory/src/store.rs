//! Memory between sessions: a folder of notes per project, with an index.
//!
//! `<config home>/projects/<project>/memory/MEMORY.md` is the index, a line or two a topic; a topic is
//! a file beside it with front matter (name, description, type). The model reads the index in its
//! system prompt and keeps both with its ordinary file tools; the user adds a line with `#text` or
//! edits the files. Both limits of the index are small on purpose: it is sent with every request.

use crate::extraction::MemoryEntry;
use lathe_session::SessionError;
use lathe_session::paths::{
    create_private_folder, file_stem_of, project_key, projects_folder, write_private_file,
};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Where proposals wait, inside the memory.
const PROPOSED: &str = "proposed";
/// The index's name.
pub const INDEX: &str = "MEMORY.md";
/// Lines of the index that are sent.
pub const MOST_LINES: usize = 200;
/// Bytes of the index that are sent.
pub const MOST_BYTES: usize = 25 * 1024;

/// The memory of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoMemory {
    folder: PathBuf,
    /// The project that the folder belongs to. Its files come with the project, so no link in it is followed:
    /// the index is part of requests.
    project: Option<PathBuf>,
}

/// Whose memory of an agent it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentScope {
    /// The user's, for every project.
    User,
    /// The project's, shared with everyone who works on it.
    Project,
    /// The user's, for this project.
    Local,
}

/// The index as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryIndex {
    /// Its words, cut to the limits.
    pub text: String,
    /// A warning for the user and the model if it was cut.
    pub warning: Option<String>,
}

/// A file of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Topic {
    /// The file.
    pub path: PathBuf,
    /// Its name: of the front matter, or the file's.
    pub name: String,
    /// A short description.
    pub description: String,
    /// `user`, `feedback`, `project` or `reference`; empty if unknown.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its size.
    pub bytes: u64,
}

/// Where memories of agents may lie.
#[derive(Debug, Clone, Copy)]
pub struct AgentHomes<'a> {
    /// The config home.
    pub config_home: &'a Path,
    /// That of the ecosystem, if it is read.
    pub claude_home: Option<&'a Path>,
    /// The project.
    pub project: &'a Path,
}

/// The outcome of looking for a snapshot of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotState {
    /// There is none, or it is known.
    None,
    /// The memory began with it.
    Taken,
    /// The memory has other contents: nothing was changed.
    Newer,
}

/// The file of a snapshot that says how old it is.
const SNAPSHOT: &str = "snapshot.json";
/// The file of a memory that says which snapshot it began with.
const SYNCED: &str = ".snapshot-synced.json";
const MOST_SNAPSHOT_FILES: usize = 200;
const MOST_SNAPSHOT_BYTES: u64 = 256 * 1024;

impl AutoMemory {
    /// The memory of the project in a folder.
    #[must_use]
    pub fn of(config_home: &Path, project: &Path) -> Self {
        let folder = projects_folder(config_home)
            .join(project_key(project))
            .join("memory");
        Self {
            folder,
            project: None,
        }
    }

    /// The memory of a type of agents. Same files, same limits. A folder of the ecosystem is used where only that is
    /// there.
    #[must_use]
    pub fn of_agent(homes: AgentHomes<'_>, agent: &str, scope: AgentScope) -> Self {
        // An agent's name comes from a file that anyone may have written.
        let name = file_stem_of(agent, 80);
        let kind = match scope {
            AgentScope::User | AgentScope::Project => "agent-memory",
            AgentScope::Local => "agent-memory-local",
        };
        let (own, other) = match scope {
            AgentScope::User => (
                homes.config_home.to_owned(),
                homes.claude_home.map(Path::to_owned),
            ),
            _ => (
                homes.project.join(".lathe"),
                Some(homes.project.join(".claude")),
            ),
        };
        let inside = |base: PathBuf| base.join(kind).join(&name);
        let own = inside(own);
        let other = other
            .map(inside)
            .filter(|other| other.is_dir() && !own.exists());
        Self {
            folder: other.unwrap_or(own),
            project: (scope != AgentScope::User).then(|| homes.project.to_owned()),
        }
    }

    /// Begins the memory of a project's agent with the snapshot that the project brings, if it is empty. The memory of a
    /// user is not for a project to begin.
    pub fn take_snapshot(&self, agent: &str) -> SnapshotState {
        let Some(project) = &self.project else {
            return SnapshotState::None;
        };
        let name = file_stem_of(agent, 80);
        let mut folders = [".lathe", ".claude"].into_iter().map(|base| {
            project
                .join(base)
                .join("agent-memory-snapshots")
                .join(&name)
        });
        let Some(from) = folders.find(|folder| folder.is_dir() && self.is_own(folder)) else {
            return SnapshotState::None;
        };
        let stamp = std::fs::read_to_string(from.join(SNAPSHOT)).unwrap_or_default();
        let synced = self.folder.join(SYNCED);
        let is_empty = std::fs::read_dir(&self.folder).map_or(true, |mut it| it.next().is_none());
        if !is_empty {
            let known = std::fs::read_to_string(synced).is_ok_and(|known| known == stamp);
            return if known {
                SnapshotState::None
            } else {
                SnapshotState::Newer
            };
        }
        let files = std::fs::read_dir(&from).into_iter().flatten().flatten();
        let mut copied = 0;
        for path in files.map(|file| file.path()).take(MOST_SNAPSHOT_FILES) {
            let is_text = path.extension().is_some_and(|end| end == "md");
            let fits = path
                .metadata()
                .is_ok_and(|it| it.is_file() && it.len() <= MOST_SNAPSHOT_BYTES);
            if !is_text
                || !fits
                || !self.is_own(&path)
                || std::fs::create_dir_all(&self.folder).is_err()
            {
                continue;
            }
            if let Some(name) = path.file_name() {
                copied += usize::from(std::fs::copy(&path, self.folder.join(name)).is_ok());
            }
        }
        if copied == 0 {
            return SnapshotState::None;
        }
        let _ = std::fs::write(synced, stamp);
        SnapshotState::Taken
    }

    /// Whether a file of the memory is what it seems: with a project's memory, no link leads to it.
    fn is_own(&self, file: &Path) -> bool {
        let Some(project) = &self.project else {
            return true;
        };
        let written = file.strip_prefix(project).ok();
        let real = std::fs::canonicalize(project)
            .ok()
            .zip(written)
            .map(|(project, inside)| project.join(inside));
        real.is_some() && std::fs::canonicalize(file).ok() == real
    }

    /// Where it is. The folder need not exist.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The index's file.
    #[must_use]
    pub fn index_path(&self) -> PathBuf {
        self.folder.join(INDEX)
    }

    /// The index, cut to its limits; `None` when there is none.
    #[must_use]
    pub fn index(&self) -> Option<MemoryIndex> {
        let path = self.index_path();
        if !self.is_own(&path) {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        let whole = String::from_utf8_lossy(&bytes);
        if whole.trim().is_empty() {
            return None;
        }
        let lines = whole.lines().count();
        let mut text = String::new();
        for line in whole.split_inclusive('\n').take(MOST_LINES) {
            if text.len() + line.len() > MOST_BYTES {
                break;
            }
            text.push_str(line);
        }
        let shown = text.lines().count();
        let warning = (shown < lines).then(|| {
            format!(
                "{INDEX} has {lines} lines and {} bytes; only the first {shown} lines are used (at most {MOST_LINES} lines and {} KB). Move details into topic files.",
                whole.len(),
                MOST_BYTES / 1024
            )
        });
        Some(MemoryIndex { text, warning })
    }

    /// The part of the system prompt about it.
    #[must_use]
    pub fn prompt(&self) -> String {
        let mut text = format!(
            "Memory: what will matter in later sessions about this person and project is kept in {}. {INDEX} there is the index, a line a topic, at most {MOST_LINES} lines; each topic is a file of its own that begins with front matter (name, description, type: user, feedback, project or reference). When you learn something lasting, keep it there with your file tools, and correct what turned out wrong. Never secrets, never what the repository itself says.",
            self.folder.display()
        );
        match self.index() {
            Some(index) => {
                let _ = write!(text, "\nThe index:\n{}", index.text.trim_end());
                if let Some(warning) = index.warning {
                    let _ = write!(text, "\n[{warning}]");
                }
            }
            None => text.push_str(" There is nothing in it yet."),
        }
        text
    }

    /// The topic files, by name.
    #[must_use]
    pub fn topics(&self) -> Vec<Topic> {
        let mut topics: Vec<Topic> = std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .filter(|path| path.file_name().is_some_and(|name| name != INDEX))
            .filter(|path| self.is_own(path))
            .filter_map(|path| topic(&path))
            .collect();
        topics.sort_by(|one, other| one.path.cmp(&other.path));
        topics
    }

    /// The file that a word names: the index, a topic's name or its file.
    #[must_use]
    pub fn find(&self, word: Option<&str>) -> Option<PathBuf> {
        let Some(word) = word else {
            return Some(self.index_path());
        };
        if word == INDEX {
            return Some(self.index_path());
        }
        self.topics()
            .into_iter()
            .find(|topic| {
                topic.name == word
                    || topic.path.file_name().is_some_and(|name| name == word)
                    || topic.path.file_stem().is_some_and(|name| name == word)
            })
            .map(|topic| topic.path)
    }

    /// Adds a line to the index: what the user typed after `#`. Gives the file.
    ///
    /// # Errors
    /// When there is nothing to add, or the file can't be written.
    pub fn add_note(&self, note: &str) -> Result<PathBuf, MemoryError> {
        let note = note.trim().trim_start_matches('#').trim();
        if note.is_empty() {
            return Err(MemoryError::Empty);
        }
        let path = self.index_path();
        let mut text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(MemoryError::Read { path, source }),
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        for (number, line) in note.lines().enumerate() {
            let _ = writeln!(text, "{}{line}", if number == 0 { "- " } else { "  " });
        }
        create_private_folder(&self.folder)?;
        write_private_file(&path, text.as_bytes())?;
        Ok(path)
    }
}

/// Proposals, which may become part of the memory.
impl AutoMemory {
    fn waiting(&self) -> PathBuf {
        self.folder.join(PROPOSED)
    }

    /// The proposals that wait for a decision of the user, by name.
    #[must_use]
    pub fn proposals(&self) -> Vec<Topic> {
        let waiting = Self {
            folder: self.waiting(),
            project: self.project.clone(),
        };
        waiting.topics()
    }

    /// Lays something down for the user to decide about. Gives the file.
    ///
    /// # Errors
    /// When the memory says so already, or the file can't be written.
    pub fn propose(&self, entry: &MemoryEntry) -> Result<PathBuf, MemoryError> {
        if self.says(entry) {
            return Err(MemoryError::Known);
        }
        let folder = self.waiting();
        create_private_folder(&folder)?;
        let path = folder.join(format!("{}.md", entry.name));
        write_private_file(&path, topic_text(entry).as_bytes())?;
        Ok(path)
    }

    /// Keeps something: as a topic of its own with a line in the index, or at the end of the topic of
    /// its name. Gives the file.
    ///
    /// # Errors
    /// When the memory says so already, the index is full, or a file can't be written.
    pub fn keep(&self, entry: &MemoryEntry) -> Result<PathBuf, MemoryError> {
        if self.says(entry) {
            return Err(MemoryError::Known);
        }
        create_private_folder(&self.folder)?;
        if let Some(path) = self.find(Some(&entry.name)) {
            let mut text = read(&path)?.trim_end().to_owned();
            let _ = write!(text, "\n\n{}\n", entry.text);
            write_private_file(&path, text.as_bytes())?;
            return Ok(path);
        }
        let index = match read(&self.index_path()) {
            Ok(text) => text,
            Err(_) if !self.index_path().exists() => String::new(),
            Err(error) => return Err(error),
        };
        if index.lines().count() >= MOST_LINES {
            return Err(MemoryError::Full {
                path: self.index_path(),
            });
        }
        let path = self.folder.join(format!("{}.md", entry.name));
        write_private_file(&path, topic_text(entry).as_bytes())?;
        self.add_note(&format!(
            "[{0}]({0}.md): {1}",
            entry.name, entry.description
        ))?;
        Ok(path)
    }

    /// Keeps what waits under a name. Gives the file.
    ///
    /// # Errors
    /// When nothing of that name waits, or a file can't be read or written.
    pub fn accept(&self, name: &str) -> Result<PathBuf, MemoryError> {
        let (topic, path) = self.proposal(name)?;
        let text = read(&path)?;
        let body = text
            .strip_prefix("---\n")
            .and_then(|rest| rest.split_once("\n---\n"))
            .map_or(text.as_str(), |(_, body)| body);
        let entry = MemoryEntry {
            name: topic.name,
            kind: topic.kind,
            description: topic.description,
            text: body.trim().to_owned(),
        };
        let kept = match self.keep(&entry) {
            // It was written down meanwhile: nothing is left to do.
            Err(MemoryError::Known) => Ok(self.index_path()),
            other => other,
        }?;
        self.reject(name)?;
        Ok(kept)
    }

    /// Drops what waits under a name.
    ///
    /// # Errors
    /// When nothing of that name waits, or it can't be removed.
    pub fn reject(&self, name: &str) -> Result<(), MemoryError> {
        let (_, path) = self.proposal(name)?;
        std::fs::remove_file(&path).map_err(|source| MemoryError::Remove { path, source })
    }

    fn proposal(&self, name: &str) -> Result<(Topic, PathBuf), MemoryError> {
        self.proposals()
            .into_iter()
            .find(|topic| topic.name == name)
            .map(|topic| (topic.clone(), topic.path))
            .ok_or_else(|| MemoryError::NotProposed {
                name: name.to_owned(),
            })
    }

    /// Whether the memory holds these words already.
    fn says(&self, entry: &MemoryEntry) -> bool {
        self.find(Some(&entry.name))
            .and_then(|path| read(&path).ok())
            .is_some_and(|text| text.contains(&entry.text))
    }
}

fn read(path: &Path) -> Result<String, MemoryError> {
    std::fs::read_to_string(path).map_err(|source| MemoryError::Read {
        path: path.to_owned(),
        source,
    })
}

fn topic_text(entry: &MemoryEntry) -> String {
    format!(
        "---\nname: {}\ndescription: {}\ntype: {}\n---\n{}\n",
        entry.name, entry.description, entry.kind, entry.text
    )
}

/// Why something was not kept.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The memory says so already.
    #[error("already in memory")]
    Known,
    /// Nothing of that name waits.
    #[error("there is no proposal {name}; `lathe memory proposals` lists them")]
    NotProposed {
        /// The name.
        name: String,
    },
    /// The index has no room.
    #[error("{path} has no room for another topic; shorten it first (`lathe memory edit`)")]
    Full {
        /// The index.
        path: PathBuf,
    },
    /// A file can't be removed.
    #[error("{path} can't be removed: {source}")]
    Remove {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is nothing to add.
    #[error("there is nothing to remember: write it after the #")]
    Empty,
    /// A file can't be read.
    #[error("{path} can't be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file can't be written.
    #[error(transparent)]
    Write(#[from] SessionError),
}

fn topic(path: &Path) -> Option<Topic> {
    let bytes = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut topic = Topic {
        name: path.file_stem()?.to_string_lossy().into_owned(),
        description: String::new(),
        kind: String::new(),
        bytes: bytes.len() as u64,
        path: path.to_owned(),
    };
    let mut lines = text.lines();
    if lines.next() == Some("---") {
        for line in lines.take_while(|line| *line != "---") {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim().trim_matches(['"', '\'']).to_owned();
            match name.trim() {
                "name" if !value.is_empty() => topic.name = value,
                "description" => topic.description = value,
                "type" => topic.kind = value,
                _ => {}
            }
        }
    }
    Some(topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> (tempfile::TempDir, AutoMemory) {
        let folder = tempfile::tempdir().unwrap();
        let memory = AutoMemory::of(folder.path(), Path::new("/work/project"));
        (folder, memory)
    }

    #[test]
    fn a_note_is_a_line_of_the_index() {
        let (_folder, memory) = memory();
        assert_eq!(memory.index(), None);
        assert!(memory.prompt().contains("nothing in it yet"));
        memory.add_note("# use tabs here ").unwrap();
        memory.add_note("two\nlines").unwrap();
        assert!(matches!(memory.add_note(" # "), Err(MemoryError::Empty)));
        let index = memory.index().unwrap();
        assert_eq!(index.text, "- use tabs here\n- two\n  lines\n");
        assert_eq!(index.warning, None);
        assert!(memory.prompt().ends_with("- two\n  lines"));
    }

    #[test]
    fn a_long_index_is_cut_with_a_warning() {
        let (_folder, memory) = memory();
        std::fs::create_dir_all(memory.folder()).unwrap();
        std::fs::write(memory.index_path(), "- a line\n".repeat(500)).unwrap();
        let index = memory.index().unwrap();
        assert_eq!(index.text.lines().count(), MOST_LINES);
        assert!(index.warning.unwrap().contains("500 lines"));
        std::fs::write(
            memory.index_path(),
            format!("{}\n", "x".repeat(2_000)).repeat(100),
        )
        .unwrap();
        let index = memory.index().unwrap();
        assert!(index.text.len() <= MOST_BYTES && index.text.lines().count() == 12);
        assert!(index.warning.is_some());
    }

    #[test]
    fn topics_are_found_by_name_and_file() {
        let (_folder, memory) = memory();
        std::fs::create_dir_all(memory.folder()).unwrap();
        std::fs::write(
            memory.folder().join("style.md"),
            "---\nname: code-style\ndescription: \"how we write\"\ntype: project\n---\nTabs.\n",
        )
        .unwrap();
        std::fs::write(memory.folder().join("plain.md"), "Just words.\n").unwrap();
        let topics = memory.topics();
        assert_eq!(topics.len(), 2);
        assert_eq!(topics[1].name, "code-style");
        assert_eq!(
            (topics[1].description.as_str(), topics[1].kind.as_str()),
            ("how we write", "project")
        );
        for word in ["code-style", "style", "style.md"] {
            assert_eq!(
                memory.find(Some(word)),
                Some(memory.folder().join("style.md"))
            );
        }
        assert_eq!(memory.find(Some("nothing")), None);
        assert_eq!(memory.find(None), Some(memory.index_path()));
    }

    #[test]
    fn what_is_proposed_is_kept_or_dropped_by_a_persons_word() {
        let (_folder, memory) = memory();
        let entry = |name: &str, text: &str| MemoryEntry {
            name: name.into(),
            kind: "feedback".into(),
            description: "how they like it".into(),
            text: text.into(),
        };
        memory.propose(&entry("tabs", "They want tabs.")).unwrap();
        memory.propose(&entry("tea", "They drink tea.")).unwrap();
        assert_eq!(memory.proposals().len(), 2);
        assert!(memory.topics().is_empty() && memory.index().is_none());
        memory.reject("tea").unwrap();
        let path = memory.accept("tabs").unwrap();
        assert!(memory.proposals().is_empty());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.ends_with("type: feedback\n---\nThey want tabs.\n"),
            "{text}"
        );
        assert_eq!(
            memory.index().unwrap().text,
            "- [tabs](tabs.md): how they like it\n"
        );
        assert!(matches!(
            memory.accept("tabs"),
            Err(MemoryError::NotProposed { .. })
        ));
        // What is known is neither proposed nor kept again; what is new about a topic is added to it.
        let again = entry("tabs", "They want tabs.");
        assert!(matches!(memory.propose(&again), Err(MemoryError::Known)));
        assert!(matches!(memory.keep(&again), Err(MemoryError::Known)));
        memory.keep(&entry("tabs", "Of width four.")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("They want tabs.\n\nOf width four.\n"),
            "{text}"
        );
        assert_eq!(memory.index().unwrap().text.lines().count(), 1);
        std::fs::write(memory.index_path(), "- x\n".repeat(MOST_LINES)).unwrap();
        assert!(matches!(
            memory.keep(&entry("new", "words")),
            Err(MemoryError::Full { .. })
        ));
    }

    #[test]
    fn an_agents_memory_lies_where_its_scope_says_and_never_elsewhere() {
        let homes = AgentHomes {
            config_home: Path::new("/c"),
            claude_home: None,
            project: Path::new("/p"),
        };
        let folder = |name: &str, scope| {
            let memory = AutoMemory::of_agent(homes, name, scope);
            memory.folder().display().to_string()
        };
        assert_eq!(
            folder("reviewer", AgentScope::User),
            "/c/agent-memory/reviewer"
        );
        assert_eq!(
            folder("reviewer", AgentScope::Project),
            "/p/.lathe/agent-memory/reviewer"
        );
        assert_eq!(
            folder("../../x", AgentScope::Local),
            "/p/.lathe/agent-memory-local/------x"
        );
    }

    #[test]
    fn a_link_in_the_memory_of_a_project_is_not_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (home, project) = (folder.path().join("home"), folder.path().join("project"));
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        for (file, text) in [(".ssh/MEMORY.md", "KEY"), (".ssh/id_rsa", "KEY")] {
            std::fs::write(home.join(file), text).unwrap();
        }
        let agents = project.join(".lathe/agent-memory");
        std::fs::create_dir_all(agents.join("reviewer")).unwrap();
        std::fs::write(project.join(".env"), "KEY").unwrap();
        symlink("../../../.env", agents.join("reviewer/MEMORY.md")).unwrap();
        symlink(home.join(".ssh/id_rsa"), agents.join("reviewer/x.md")).unwrap();
        symlink(home.join(".ssh"), agents.join("linked")).unwrap();
        let homes = AgentHomes {
            config_home: &home,
            claude_home: None,
            project: &project,
        };
        for name in ["reviewer", "linked"] {
            let memory = AutoMemory::of_agent(homes, name, AgentScope::Project);
            assert_eq!(memory.index(), None, "{name}");
            assert!(memory.topics().is_empty(), "{name}");
            assert!(!memory.prompt().contains("KEY"), "{name}");
        }
        std::fs::remove_file(agents.join("reviewer/MEMORY.md")).unwrap();
        std::fs::write(agents.join("reviewer/MEMORY.md"), "use tabs").unwrap();
        let memory = AutoMemory::of_agent(homes, "reviewer", AgentScope::Project);
        assert!(memory.prompt().contains("use tabs"));
    }

    #[test]
    fn folders_of_the_ecosystem_are_used_where_only_they_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in [
            "claude/agent-memory/a",
            "project/.claude/agent-memory/a",
            "project/.claude/agent-memory-local/a",
            "project/.lathe/agent-memory/b",
            "project/.claude/agent-memory/b",
        ] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        let (config, claude, project) = (at("config"), at("claude"), at("project"));
        let homes = AgentHomes {
            config_home: &config,
            claude_home: Some(&claude),
            project: &project,
        };
        for (name, scope, expected) in [
            ("a", AgentScope::User, "claude/agent-memory/a"),
            ("a", AgentScope::Project, "project/.claude/agent-memory/a"),
            (
                "a",
                AgentScope::Local,
                "project/.claude/agent-memory-local/a",
            ),
            ("b", AgentScope::Project, "project/.lathe/agent-memory/b"),
            ("c", AgentScope::User, "config/agent-memory/c"),
        ] {
            let memory = AutoMemory::of_agent(homes, name, scope);
            assert_eq!(memory.folder(), at(expected));
        }
    }

    #[test]
    fn an_empty_memory_begins_with_the_projects_snapshot_and_a_full_one_is_left_alone() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        let snapshot = project.join(".claude/agent-memory-snapshots/reviewer");
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::write(snapshot.join("MEMORY.md"), "use tabs").unwrap();
        std::fs::write(snapshot.join("snapshot.json"), r#"{"updatedAt": "1"}"#).unwrap();
        std::fs::write(folder.path().join("secret.md"), "KEY").unwrap();
        symlink(folder.path().join("secret.md"), snapshot.join("linked.md")).unwrap();
        let homes = AgentHomes {
            config_home: folder.path(),
            claude_home: None,
            project: &project,
        };
        let user = AutoMemory::of_agent(homes, "reviewer", AgentScope::User);
        assert_eq!(user.take_snapshot("reviewer"), SnapshotState::None);
        let local = AutoMemory::of_agent(homes, "reviewer", AgentScope::Local);
        assert_eq!(local.take_snapshot("other"), SnapshotState::None);
        assert_eq!(local.take_snapshot("reviewer"), SnapshotState::Taken);
        assert!(local.prompt().contains("use tabs"));
        assert!(!local.folder().join("linked.md").exists());
        assert_eq!(local.take_snapshot("reviewer"), SnapshotState::None);
        std::fs::write(snapshot.join("snapshot.json"), r#"{"updatedAt": "2"}"#).unwrap();
        std::fs::write(snapshot.join("MEMORY.md"), "use blanks").unwrap();
        assert_eq!(local.take_snapshot("reviewer"), SnapshotState::Newer);
        assert!(local.prompt().contains("use tabs"));
    }
}
