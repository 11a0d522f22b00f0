//! All sessions: finding, naming, deleting.
//!
//! There is no index to go stale: a listing reads the first and last 64 KB of each file, newest
//! first and no more files than asked for. Whatever else lies in the folders is passed over.

use crate::error::SessionError;
use crate::facts::Facts;
use crate::line::{Line, LineReader};
use crate::paths::{SessionPaths, key_prefix, project_key, projects_folder};
use crate::peek::Edges;
use crate::writer;
use lathe_protocol::ids::SessionId;
use lathe_protocol::record::{Fact, MessageRecord, Record, RecordKind, RecordMessage};
use serde::Serialize;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The longest first line that a listing reads when it doesn't end within the first part.
const LONG_FIRST_LINE: u64 = 4 << 20;

/// A session in a listing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// The session.
    pub id: SessionId,
    /// Its title: the user's title, the model's, the last prompt, a summary or the first
    /// prompt.
    pub title: Option<String>,
    /// The title that the user gave.
    pub custom_title: Option<String>,
    /// The first prompt.
    pub first_prompt: Option<String>,
    /// The tag.
    pub tag: Option<String>,
    /// The git branch at the end.
    pub branch: Option<String>,
    /// How many messages it has; `None` when the file is too long to count for a listing.
    pub messages: Option<usize>,
    /// The size of the transcript in bytes.
    pub size: u64,
    /// When it began, as the first record says.
    pub created: Option<String>,
    /// When the transcript was last written.
    pub modified: jiff::Timestamp,
    /// The working folder.
    pub cwd: Option<PathBuf>,
    /// The transcript.
    pub path: PathBuf,
    /// The session that it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<SessionId>,
    /// Where it was moved to, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<String>,
}

/// How much of a session's notes is read.
const MOST_NOTES: u64 = 64 * 1024;

impl SessionInfo {
    /// The notes that the session kept about itself, if it did.
    #[must_use]
    pub fn notes(&self) -> Option<String> {
        let file = File::open(SessionPaths::of_transcript(&self.path).notes()).ok()?;
        let mut bytes = Vec::new();
        file.take(MOST_NOTES).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A few lines on what the session is about, to choose one by: where it stands by
    /// its own notes, or how it began.
    #[must_use]
    pub fn preview(&self, lines: usize) -> Vec<String> {
        let plain = |text: &str| -> Vec<String> {
            text.lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .take(lines)
                .map(|line| one_line(line, 200))
                .collect()
        };
        match self.notes() {
            Some(notes) => plain(state_of(&notes)),
            None => plain(self.first_prompt.as_deref().unwrap_or_default()),
        }
    }
}

/// The current state from the notes; all of the notes if they have no section for it.
fn state_of(notes: &str) -> &str {
    let Some(start) = notes
        .find("# State")
        .filter(|at| *at == 0 || notes[..*at].ends_with('\n'))
    else {
        return notes;
    };
    let body = notes[start..].split_once('\n').map_or("", |(_, body)| body);
    let state = body.split_once("\n# ").map_or(body, |(state, _)| state);
    if state.trim().is_empty() {
        notes
    } else {
        state
    }
}

/// Which sessions to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Every session of every project.
    Everywhere,
    /// Those of a folder, and of the other worktrees of its git repository.
    Project(&'a Path),
    /// Those of a folder only.
    Folder(&'a Path),
}

/// The sessions under a configuration folder.
#[derive(Debug, Clone)]
pub struct SessionStore {
    config_home: PathBuf,
}

impl SessionStore {
    /// The sessions under this configuration folder.
    pub fn new(config_home: impl Into<PathBuf>) -> Self {
        Self {
            config_home: config_home.into(),
        }
    }

    /// The paths of a session of the project in `cwd`.
    #[must_use]
    pub fn paths(&self, cwd: &Path, session: SessionId) -> SessionPaths {
        SessionPaths::new(&self.config_home, cwd, session)
    }

    /// The transcripts of a scope, last written first.
    pub(crate) fn transcripts(&self, scope: Scope<'_>) -> Vec<PathBuf> {
        let mut files: Vec<(std::time::SystemTime, PathBuf)> = self
            .folders(scope)
            .iter()
            .flat_map(|folder| transcripts(folder))
            .filter_map(|path| {
                let found = fs::metadata(&path).ok()?;
                (found.is_file() && found.len() > 0).then_some((found.modified().ok()?, path))
            })
            .collect();
        // Same second: the name decides, so that the order is always the same.
        files.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        files.into_iter().map(|(_, path)| path).collect()
    }

    /// Sessions, last written first.
    #[must_use]
    pub fn list(&self, scope: Scope<'_>, limit: Option<usize>) -> Vec<SessionInfo> {
        let mut seen = HashSet::new();
        self.transcripts(scope)
            .iter()
            .filter_map(|path| info(path))
            .filter(|info| seen.insert(info.id))
            .take(limit.unwrap_or(usize::MAX))
            .collect()
    }

    /// The session to continue with by `--continue`: the newest of this folder.
    #[must_use]
    pub fn newest(&self, cwd: &Path) -> Option<SessionInfo> {
        self.list(Scope::Folder(cwd), Some(1)).pop()
    }

    /// A session by its id, wherever it is.
    #[must_use]
    pub fn find_anywhere(&self, id: SessionId) -> Option<SessionInfo> {
        self.find(id, Scope::Everywhere)
    }

    fn find(&self, id: SessionId, scope: Scope<'_>) -> Option<SessionInfo> {
        let name = format!("{id}.jsonl");
        self.folders(scope)
            .iter()
            .find_map(|folder| info(&folder.join(&name)))
    }

    /// The session that a `--resume` argument means: an id, the beginning of one, a title, or the
    /// path of a transcript. Looked for in the project of `cwd`.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] (which knows when another project has it) or
    /// [`SessionError::Ambiguous`] with the sessions that fit.
    pub fn resolve(&self, wanted: &str, cwd: &Path) -> Result<SessionInfo, SessionError> {
        let not_found = |elsewhere| SessionError::NotFound {
            id: wanted.to_owned(),
            elsewhere,
        };
        let as_path = Path::new(wanted);
        if as_path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            return info(&cwd.join(as_path)).ok_or_else(|| not_found(None));
        }
        if let Ok(id) = wanted.parse::<SessionId>() {
            return self.find(id, Scope::Project(cwd)).ok_or_else(|| {
                not_found(
                    self.find_anywhere(id)
                        .map(|info| info.cwd.unwrap_or(info.path)),
                )
            });
        }
        let wanted_lower = wanted.trim().to_lowercase();
        if wanted_lower.is_empty() {
            return Err(not_found(None));
        }
        let sessions = self.list(Scope::Project(cwd), None);
        let title = |info: &SessionInfo| info.title.as_deref().unwrap_or_default().to_lowercase();
        let fits: [&dyn Fn(&SessionInfo) -> bool; 3] = [
            &|info| info.id.to_string().starts_with(&wanted_lower),
            &|info| title(info) == wanted_lower,
            &|info| title(info).contains(&wanted_lower),
        ];
        for fit in fits {
            let mut found: Vec<&SessionInfo> = sessions.iter().filter(|info| fit(info)).collect();
            match found.len() {
                0 => {}
                1 => return found.pop().cloned().ok_or_else(|| not_found(None)),
                _ => {
                    return Err(SessionError::Ambiguous {
                        wanted: wanted.to_owned(),
                        candidates: found.iter().map(|info| candidate(info)).collect(),
                    });
                }
            }
        }
        Err(not_found(None))
    }

    /// Deletes a session: its transcript and its folder.
    ///
    /// # Errors
    /// [`SessionError::InUse`] while a process writes to it, or when the system refuses.
    pub fn delete(&self, session: &SessionInfo) -> Result<(), SessionError> {
        let held =
            writer::holder(&session.path).map_err(SessionError::io("open", &session.path))?;
        if let Some(pid) = held {
            return Err(SessionError::InUse {
                path: session.path.clone(),
                pid,
            });
        }
        fs::remove_file(&session.path).map_err(SessionError::io("delete", &session.path))?;
        let folder = SessionPaths::of_transcript(&session.path).session_folder();
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SessionError::io("delete", &folder)(error))
            }
            _ => Ok(()),
        }
    }

    /// Gives a session a title; an empty one takes it away.
    ///
    /// # Errors
    /// When the transcript can't be written.
    pub fn rename(&self, session: &SessionInfo, title: &str) -> Result<(), SessionError> {
        let custom_title = title.trim().to_owned();
        append_fact(
            &session.path,
            Fact::CustomTitle {
                custom_title,
                session_id: session.id,
            },
        )
    }

    /// Gives a session a tag; an empty one takes it away.
    ///
    /// # Errors
    /// When the transcript can't be written.
    pub fn tag(&self, session: &SessionInfo, tag: &str) -> Result<(), SessionError> {
        let tag = tag.trim().to_owned();
        append_fact(
            &session.path,
            Fact::Tag {
                tag,
                session_id: session.id,
            },
        )
    }

    /// Notes that a session continues elsewhere: it can't be resumed here, only forked.
    ///
    /// # Errors
    /// When the transcript can't be written.
    pub fn moved(&self, session: &SessionInfo, to: &str) -> Result<(), SessionError> {
        append_fact(
            &session.path,
            Fact::Moved {
                to: to.to_owned(),
                at: crate::template::timestamp_now(),
                session_id: session.id,
            },
        )
    }

    /// The folders that hold the transcripts of a scope.
    fn folders(&self, scope: Scope<'_>) -> Vec<PathBuf> {
        let projects = projects_folder(&self.config_home);
        let mut keys = match scope {
            Scope::Everywhere => return subfolders(&projects),
            Scope::Folder(cwd) | Scope::Project(cwd) => vec![project_key(cwd)],
        };
        if let Scope::Project(cwd) = scope {
            keys.extend(worktrees(cwd).iter().map(|tree| project_key(tree)));
        }
        let mut folders: Vec<PathBuf> = Vec::new();
        for key in keys {
            folders.push(projects.join(&key));
            // Other programs may have hashed a long path their own way.
            if let Some(prefix) = key_prefix(&key) {
                folders.extend(subfolders(&projects).into_iter().filter(|folder| {
                    folder
                        .file_name()
                        .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
                }));
            }
        }
        let mut seen = HashSet::new();
        folders.retain(|folder| seen.insert(folder.clone()));
        folders
    }
}

/// One line about a session, for an error that lists several.
fn candidate(info: &SessionInfo) -> String {
    format!(
        "  {}  {}",
        info.id,
        info.title.as_deref().unwrap_or("(no title)")
    )
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    folders
}

fn transcripts(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl") && id_of(path).is_some())
        .collect()
}

fn id_of(path: &Path) -> Option<SessionId> {
    path.file_stem()?.to_str()?.parse().ok()
}

/// The worktrees of the git repository around a folder, read from git's files: git itself would obey the
/// repository's configuration, which can name programs.
fn worktrees(cwd: &Path) -> Vec<PathBuf> {
    let Some(top) = cwd.ancestors().find(|at| at.join(".git").exists()) else {
        return Vec::new();
    };
    let dot_git = top.join(".git");
    let repository = match fs::read_to_string(&dot_git) {
        Ok(text) => match text.trim().strip_prefix("gitdir:") {
            Some(target) => top.join(target.trim()),
            None => return Vec::new(),
        },
        Err(_) => dot_git,
    };
    let common = match fs::read_to_string(repository.join("commondir")) {
        Ok(text) => repository.join(text.trim()),
        Err(_) => repository,
    };
    let Ok(common) = fs::canonicalize(common) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if common.file_name().is_some_and(|name| name == ".git") {
        found.extend(common.parent().map(Path::to_path_buf));
    }
    for worktree in subfolders(&common.join("worktrees")) {
        let linked = fs::read_to_string(worktree.join("gitdir"));
        let linked = linked.ok().map(|text| worktree.join(text.trim()));
        found.extend(linked.and_then(|dot_git| dot_git.parent().map(Path::to_path_buf)));
    }
    found
}

/// The listing entry of a transcript; `None` for a file that isn't a session.
#[must_use]
pub fn info(path: &Path) -> Option<SessionInfo> {
    let id = id_of(path)?;
    let file = File::open(path).ok()?;
    let mut edges = Edges::read(&file).ok()?;
    if edges.head.is_empty() && !edges.whole {
        edges.head.extend(first_line(&file));
    }
    let messages = || edges.records().filter_map(as_message);
    let first = messages().next()?;
    if first.is_sidechain {
        return None;
    }
    let last = messages().next_back()?;
    let facts = edges.facts();
    let first_prompt = messages().find_map(shown_prompt);
    let modified = file.metadata().and_then(|found| found.modified()).ok()?;
    Some(SessionInfo {
        id,
        title: title(&facts, first_prompt.as_deref()),
        custom_title: facts.custom_title.clone(),
        tag: facts.tag.clone(),
        moved: facts.moved.clone(),
        branch: Some(last.git_branch.clone()).filter(|branch| !branch.is_empty()),
        messages: edges
            .whole
            .then(|| messages().filter(|record| is_counted(record)).count()),
        size: edges.size,
        created: Some(first.timestamp.clone()),
        modified: jiff::Timestamp::try_from(modified).ok()?,
        cwd: Some(&last.cwd)
            .filter(|cwd| !cwd.is_empty())
            .map(PathBuf::from),
        first_prompt,
        path: path.to_owned(),
        forked_from: first
            .extra
            .get("forkedFrom")
            .and_then(|from| from.get("sessionId")?.as_str()?.parse().ok()),
    })
}

fn as_message(record: &Record) -> Option<&MessageRecord> {
    crate::chain::as_message(record)
}

/// The first record of a file whose first line is longer than the part that a listing reads.
fn first_line(file: &File) -> Option<Record> {
    struct At<'a>(&'a File, u64);
    impl io::Read for At<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.read_at(buffer, self.1)?;
            self.1 += count as u64;
            Ok(count)
        }
    }
    let mut line = Vec::new();
    BufReader::new(At(file, 0).take(LONG_FIRST_LINE))
        .read_until(b'\n', &mut line)
        .ok()?;
    match LineReader::new(Path::new("")).read(&line) {
        Line::Record(record) => Some(record),
        _ => None,
    }
}

fn is_counted(record: &MessageRecord) -> bool {
    matches!(record.kind, RecordKind::User | RecordKind::Assistant)
        && !record.is_sidechain
        && !record.is_meta
}

/// A prompt's text as a listing shows it: not a command, not a note of the harness.
fn shown_prompt(record: &MessageRecord) -> Option<String> {
    if !record.is_prompt() || record.is_sidechain {
        return None;
    }
    let text = record.message.as_ref().map(RecordMessage::text)?;
    let text = text.trim();
    let hidden = text.is_empty()
        || text.starts_with("<command-")
        || text.starts_with("<local-command-")
        || text.starts_with(lathe_protocol::record::INTERRUPTED_BY_USER);
    (!hidden).then(|| one_line(text, 200))
}

fn title(facts: &Facts, first_prompt: Option<&str>) -> Option<String> {
    facts
        .title()
        .or(facts.last_prompt.as_deref())
        .or(facts.summary.as_deref())
        .or(first_prompt)
        .map(|title| one_line(title, 200))
}

/// Text on one line, cut to a number of characters.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    for (number, word) in text.split_whitespace().enumerate() {
        if number > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().count() > limit {
            return line
                .chars()
                .take(limit.saturating_sub(1))
                .chain(['…'])
                .collect();
        }
    }
    line
}

/// Appends a fact to a transcript that may be in use: one line, in one write.
pub(crate) fn append_fact(path: &Path, fact: Fact) -> Result<(), SessionError> {
    let append = || -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).append(true).open(path)?;
        let length = file.metadata()?.len();
        let mut line = Vec::new();
        let mut last = *b"\n";
        if length > 0 {
            file.read_exact_at(&mut last, length - 1)?;
        }
        if last != *b"\n" {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, &Record::Fact(fact))?;
        line.push(b'\n');
        file.write_all(&line)?;
        file.sync_data()
    };
    append().map_err(SessionError::io("write", path))
}
