//! The transcript of a job's session with the files beside it: followed line by line, and written anew on another worker.

use crate::log::{Conversation, LogRecord};
use lathe_protocol::ids::SessionId;
use lathe_session::paths::{create_private_folder, write_private_file};
use lathe_session::{SessionError, SessionPaths, SessionStore};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// The largest file beside a transcript that is carried as a whole.
const LARGEST_WHOLE: u64 = 1 << 20;

/// A file of lines that grows.
#[derive(Debug, Default)]
struct Followed {
    path: PathBuf,
    position: u64,
}

impl Followed {
    /// The whole lines that were written since the last call.
    fn next(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.position))?;
            file.read_to_end(&mut bytes)
        });
        if read.is_err() {
            return Vec::new();
        }
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        self.position += whole as u64;
        String::from_utf8_lossy(&bytes[..whole])
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

/// A transcript that grows, with those of the session's agents.
#[derive(Debug)]
pub(super) struct Transcript {
    main: Followed,
    /// Files of lines in the folder of the agents, by name.
    lines: BTreeMap<String, Followed>,
    /// Other files there, with what was seen of them last.
    wholes: BTreeMap<String, String>,
}

/// Where the transcript of a session in a folder is.
pub(super) fn place(config_home: &Path, folder: &Path, session: SessionId) -> PathBuf {
    SessionStore::new(config_home)
        .paths(folder, session)
        .transcript()
}

fn has_lines(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "jsonl")
}

/// True for the name of a file, without a way to other folders.
fn is_name(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|it| it == name)
}

impl Transcript {
    /// A transcript that a session is about to write.
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            main: Followed { path, position: 0 },
            lines: BTreeMap::new(),
            wholes: BTreeMap::new(),
        }
    }

    /// Writes a transcript and the files beside it, for a session that continues it.
    pub(super) fn write(path: PathBuf, conversation: &Conversation) -> Result<Self, SessionError> {
        let mut text = conversation.lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        create_private_folder(SessionPaths::of_transcript(&path).project_folder())?;
        write_private_file(&path, text.as_bytes())?;
        let mut written = Self::new(path);
        written.main.position = text.len() as u64;
        let folder = written.folder();
        let beside = conversation.beside.iter();
        for (name, text) in beside.filter(|(name, _)| is_name(name)) {
            create_private_folder(&folder)?;
            let path = folder.join(name);
            write_private_file(&path, text.as_bytes())?;
            if has_lines(name) {
                let position = text.len() as u64;
                let followed = Followed { path, position };
                written.lines.insert(name.clone(), followed);
            } else {
                written.wholes.insert(name.clone(), text.clone());
            }
        }
        Ok(written)
    }

    /// The folder of the agents' transcripts.
    fn folder(&self) -> PathBuf {
        SessionPaths::of_transcript(&self.main.path).subagents()
    }

    /// The files in the folder of the agents.
    fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder());
        let names = files.into_iter().flatten().flatten();
        let mut names: Vec<String> = names
            .filter_map(|file| file.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The lines and files that were written since the last call. Agents come first: the line that tells of an agent follows its own lines.
    pub(super) fn next(&mut self) -> Vec<LogRecord> {
        let mut records = Vec::new();
        let folder = self.folder();
        let main = self.main.next();
        for name in self.names() {
            let path = folder.join(&name);
            if has_lines(&name) {
                let position = 0;
                let followed = self.lines.entry(name.clone());
                let followed = followed.or_insert_with(|| Followed { path, position });
                records.extend(followed.next().into_iter().map(|line| LogRecord::Beside {
                    name: name.clone(),
                    line,
                }));
                continue;
            }
            // A file that is being replaced is read the next time.
            let small = path.metadata().is_ok_and(|it| it.len() <= LARGEST_WHOLE);
            let text = small.then(|| std::fs::read_to_string(&path).ok()).flatten();
            if let Some(text) = text
                && self.wholes.get(&name) != Some(&text)
            {
                self.wholes.insert(name.clone(), text.clone());
                records.push(LogRecord::Whole { name, text });
            }
        }
        records.extend(main.into_iter().map(|line| LogRecord::Line { line }));
        records
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.main.path
    }

    /// The files beside it.
    pub(super) fn files_beside(&self) -> Vec<(String, Vec<u8>)> {
        let folder = self.folder();
        let read = |name: String| {
            let bytes = std::fs::read(folder.join(&name)).ok()?;
            Some((name, bytes))
        };
        self.names().into_iter().filter_map(read).collect()
    }

    /// Removes it with everything that belongs to it.
    pub(super) fn remove(&self) {
        let paths = SessionPaths::of_transcript(&self.main.path);
        let _ = std::fs::remove_dir_all(paths.session_folder());
        let _ = std::fs::remove_file(&self.main.path);
        // Gone with its last session.
        let _ = std::fs::remove_dir(paths.project_folder());
    }
}
