//! The output of servers beside the protocol: standard error, other lines on standard output, log
//! messages. It is written to one file per server of limited size (see `lathe mcp logs`), and the
//! last lines are kept in memory for error messages.

use crate::limits::{LAST_WORDS_BYTES, LOG_BYTES};
use crate::text;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The log of one server. Cheap to clone.
#[derive(Clone)]
pub struct ServerLog {
    inner: Arc<Mutex<Inner>>,
    faulty: Arc<Mutex<Option<TellFault>>>,
}

/// Receives a server's first protocol violation.
type TellFault = Box<dyn FnOnce(&str) + Send>;

struct Inner {
    path: PathBuf,
    file: Option<File>,
    length: u64,
    last_words: VecDeque<u8>,
}

/// The log file of a server.
#[must_use]
pub fn path(home: &Path, server: &str) -> PathBuf {
    let name: String = server
        .chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .take(100)
        .collect();
    home.join("logs").join("mcp").join(format!("{name}.log"))
}

/// The content of a server's log without control characters; empty if there is none.
///
/// # Errors
/// If it exists and can't be read.
pub fn read(home: &Path, server: &str) -> std::io::Result<String> {
    match std::fs::read(path(home, server)) {
        Ok(bytes) => Ok(text::clean(&String::from_utf8_lossy(&bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

impl ServerLog {
    /// The log of a server. The file is created with the first line.
    #[must_use]
    pub fn new(home: &Path, server: &str) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                path: path(home, server),
                file: None,
                length: 0,
                last_words: VecDeque::new(),
            })),
            faulty: Arc::default(),
        }
    }

    /// Sets the receiver of the first protocol violation.
    pub(crate) fn on_fault(&self, tell: impl FnOnce(&str) + Send + 'static) {
        *self.faulty.lock() = Some(Box::new(tell));
    }

    /// Logs a protocol violation, and reports the first one.
    pub(crate) fn fault(&self, what: &str, shown: &str) {
        self.note(&format!("{what}: {shown}"));
        let first = self.faulty.lock().take();
        if let Some(tell) = first {
            tell(what);
        }
    }

    /// Adds output from the server's standard error.
    pub fn words(&self, bytes: &[u8]) {
        let mut inner = self.inner.lock();
        let keep = &bytes[bytes.len().saturating_sub(LAST_WORDS_BYTES)..];
        inner.last_words.extend(keep);
        let over = inner.last_words.len().saturating_sub(LAST_WORDS_BYTES);
        inner.last_words.drain(..over);
        inner.write(bytes);
    }

    /// Adds a line about the server.
    pub fn note(&self, line: &str) {
        let mut line = text::cut(line, crate::limits::TEXT_CHARS);
        line.push('\n');
        self.inner.lock().write(line.as_bytes());
    }

    /// The last line or two of the server's output, for error messages.
    #[must_use]
    pub fn last_words(&self) -> Option<String> {
        let inner = self.inner.lock();
        let bytes: Vec<u8> = inner.last_words.iter().copied().collect();
        let words = text::clean(&String::from_utf8_lossy(&bytes));
        let lines: Vec<String> = words
            .lines()
            .map(|line| text::line(line.trim(), 200))
            .filter(|line| !line.is_empty())
            .collect();
        let last = lines[lines.len().saturating_sub(2)..].join(" / ");
        (!last.is_empty()).then_some(last)
    }

    /// Clears the last output before a new start.
    pub(crate) fn begin(&self) {
        self.inner.lock().last_words.clear();
    }
}

impl Inner {
    /// Errors are ignored: a connection must not fail because of its log.
    fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.try_write(bytes) {
            tracing::debug!(path = %self.path.display(), %error, "a server's log can't be written");
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.file.is_none() {
            self.open()?;
        }
        // A single write must not exceed the limit.
        let most = usize::try_from(LOG_BYTES / 2).unwrap_or(usize::MAX);
        let bytes = &bytes[bytes.len().saturating_sub(most)..];
        if self.length + bytes.len() as u64 > LOG_BYTES {
            self.halve()?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
            self.length += bytes.len() as u64;
        }
        Ok(())
    }

    fn open(&mut self) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).read(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&self.path)?;
        self.length = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    fn halve(&mut self) -> std::io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut kept = Vec::new();
        file.seek(SeekFrom::Start(
            self.length.saturating_sub(LOG_BYTES / 2).max(LOG_BYTES / 2),
        ))?;
        file.take(LOG_BYTES / 2).read_to_end(&mut kept)?;
        let start = kept
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        file.set_len(0)?;
        file.write_all(&kept[start..])?;
        self.length = (kept.len() - start) as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_never_grows_past_its_limit_and_keeps_the_end() {
        let home = tempfile::tempdir().unwrap();
        let log = ServerLog::new(home.path(), "a/../b");
        let line = format!("{}\n", "x".repeat(1000));
        for _ in 0..3000 {
            log.words(line.as_bytes());
        }
        log.words(b"the \x1b[31mend\n");
        let path = path(home.path(), "a/../b");
        assert!(path.starts_with(home.path().join("logs/mcp")));
        assert!(std::fs::metadata(&path).unwrap().len() <= LOG_BYTES);
        assert!(read(home.path(), "a/../b").unwrap().ends_with("the end\n"));
        assert!(log.last_words().unwrap().ends_with("the end"));
        assert_eq!(read(home.path(), "other").unwrap(), "");
    }
}
