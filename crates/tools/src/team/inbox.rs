//! An inbox: messages are appended, one a line, and what was delivered is noted beside them.

use super::{TeamError, TeamMessage, locked};
use lathe_session::paths::{create_private_folder, write_private_file};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Messages that may wait in an inbox.
pub const MOST_UNREAD: usize = 1_000;

/// The inbox of one member.
#[derive(Debug, Clone)]
pub struct Inbox {
    name: String,
    file: PathBuf,
}

/// Which messages were delivered: all up to a byte of the file, and some after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    offset: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    also: Vec<String>,
}

/// A line of the file and where the next one begins.
struct Line {
    message: Option<TeamMessage>,
    end: u64,
}

impl Inbox {
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            file: folder.join(format!("{name}.jsonl")),
        }
    }

    /// Adds a message. It is on disk when this returns.
    ///
    /// # Errors
    /// When too many wait already, or it can't be written.
    pub fn append(&self, message: &TeamMessage) -> Result<(), TeamError> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        create_private_folder(folder).map_err(TeamError::private(folder))?;
        let _lock = self.lock()?;
        let mark = self.mark();
        if unread_of(&self.lines(mark.offset)?, &mark).len() >= MOST_UNREAD {
            return Err(TeamError::InboxFull(self.name.clone()));
        }
        let is_new = !self.file.exists();
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        let mut write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new()
                .create(true)
                .read(true)
                .append(true)
                .mode(0o600)
                .open(&self.file)?;
            if !ends_in_line(&mut file)? {
                // A writer was killed in the middle of a line, which nobody was promised.
                line.insert(0, b'\n');
            }
            file.write_all(&line)?;
            file.sync_data()?;
            if is_new {
                File::open(folder)?.sync_all()?;
            }
            Ok(())
        };
        write().map_err(TeamError::file(&self.file))
    }

    /// The messages that were not delivered, oldest first.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn unread(&self) -> Result<Vec<TeamMessage>, TeamError> {
        let mark = self.mark();
        Ok(unread_of(&self.lines(mark.offset)?, &mark))
    }

    /// Notes that messages were delivered.
    ///
    /// # Errors
    /// When it can't be written; then they are delivered again, which their ids tell.
    pub fn mark_read(&self, ids: &[String]) -> Result<(), TeamError> {
        let _lock = self.lock()?;
        let mut mark = self.mark();
        let lines = self.lines(mark.offset)?;
        for id in ids {
            if !mark.also.contains(id) {
                mark.also.push(id.clone());
            }
        }
        for line in &lines {
            match &line.message {
                Some(message) if !mark.also.contains(&message.id) => break,
                Some(message) => mark.also.retain(|id| *id != message.id),
                None => {}
            }
            mark.offset = line.end;
        }
        let path = self.file.with_extension("read");
        let bytes = serde_json::to_vec(&mark).unwrap_or_default();
        write_private_file(&path, &bytes).map_err(TeamError::private(&path))
    }

    fn lock(&self) -> Result<File, TeamError> {
        locked(&self.file.with_extension("lock"))
    }

    /// A mark that can't be read is none: messages are rather delivered twice than lost.
    fn mark(&self) -> Mark {
        std::fs::read(self.file.with_extension("read"))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// The whole lines from a byte on. What is no message is passed over.
    fn lines(&self, from: u64) -> Result<Vec<Line>, TeamError> {
        let mut bytes = Vec::new();
        match File::open(&self.file) {
            Ok(mut file) => {
                let read = file
                    .seek(SeekFrom::Start(from))
                    .and_then(|_| file.read_to_end(&mut bytes));
                read.map_err(TeamError::file(&self.file))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(TeamError::file(&self.file)(error)),
        }
        let mut lines = Vec::new();
        let mut end = from;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\n") {
                break;
            }
            end += line.len() as u64;
            lines.push(Line {
                message: serde_json::from_slice(line).ok(),
                end,
            });
        }
        Ok(lines)
    }
}

fn unread_of(lines: &[Line], mark: &Mark) -> Vec<TeamMessage> {
    let messages = lines.iter().filter_map(|line| line.message.as_ref());
    messages
        .filter(|message| !mark.also.contains(&message.id))
        .cloned()
        .collect()
}

fn ends_in_line(file: &mut File) -> std::io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last[0] == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::MessageKind;

    fn message(text: &str) -> TeamMessage {
        TeamMessage::new("ana", "ben", MessageKind::Message, text)
    }

    #[test]
    fn writers_at_the_same_time_lose_no_message_and_each_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let folder = folder.path();
                scope.spawn(move || {
                    for number in 0..20 {
                        let inbox = Inbox::new(folder, "ben");
                        inbox
                            .append(&message(&format!("{writer} {number}")))
                            .unwrap();
                    }
                });
            }
        });
        let inbox = Inbox::new(folder.path(), "ben");
        let mut seen = Vec::new();
        loop {
            let unread = inbox.unread().unwrap();
            let Some(first) = unread.first() else { break };
            let ids: Vec<String> = unread.iter().take(7).map(|it| it.id.clone()).collect();
            seen.extend(unread.iter().take(7).map(|it| it.text.clone()));
            assert!(ids.contains(&first.id));
            inbox.mark_read(&ids).unwrap();
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 160);
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::new(folder.path(), "ben");
        inbox.append(&message("one")).unwrap();
        let file = folder.path().join("ben.jsonl");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes.extend(b"{\"id\": \"to");
        std::fs::write(&file, bytes).unwrap();
        inbox.append(&message("two")).unwrap();
        let texts: Vec<String> = inbox
            .unread()
            .unwrap()
            .into_iter()
            .map(|it| it.text)
            .collect();
        assert_eq!(texts, ["one", "two"]);
    }

    #[test]
    fn messages_may_be_read_out_of_order() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::new(folder.path(), "ben");
        let all = ["one", "two", "three"].map(message);
        for message in &all {
            inbox.append(message).unwrap();
        }
        inbox.mark_read(&[all[1].id.clone()]).unwrap();
        let left: Vec<String> = inbox
            .unread()
            .unwrap()
            .into_iter()
            .map(|it| it.text)
            .collect();
        assert_eq!(left, ["one", "three"]);
        inbox
            .mark_read(&[all[0].id.clone(), all[2].id.clone()])
            .unwrap();
        assert!(inbox.unread().unwrap().is_empty());
        assert!(inbox.mark().also.is_empty());
    }

    #[test]
    fn an_inbox_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::new(folder.path(), "ben");
        let lines: String = (0..MOST_UNREAD)
            .map(|number| serde_json::to_string(&message(&number.to_string())).unwrap() + "\n")
            .collect();
        std::fs::write(folder.path().join("ben.jsonl"), lines).unwrap();
        let full = inbox.append(&message("more")).unwrap_err();
        assert!(full.to_string().contains("1000 unread"), "{full}");
        let first = inbox.unread().unwrap()[0].id.clone();
        inbox.mark_read(&[first]).unwrap();
        inbox.append(&message("more")).unwrap();
    }
}
