//! Writing lines to standard output: in order, flushed each, and without ever failing loudly. A reader
//! that closed the pipe (`lathe … | head -1`) ends the run quietly; any other write error (a full disk) is
//! kept for the caller to report.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;

/// Where lines go.
pub struct Lines<W> {
    writer: W,
    closed: bool,
    failure: Option<io::Error>,
}

/// The SDKs refuse longer lines.
pub const MAX_LINE: usize = 1_000_000;

impl<W: Write> Lines<W> {
    /// Writes to `writer`.
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            closed: false,
            failure: None,
        }
    }

    /// Whether the reader went away.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Why nothing more can be written, if that isn't a reader that went away.
    #[must_use]
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Writes a text as it is.
    pub fn text(&mut self, text: &str) {
        self.write(text.as_bytes());
    }

    /// Writes a value as a line of JSON; see [`line_of`].
    pub fn json(&mut self, value: &impl Serialize) {
        if let Some(line) = line_of(value) {
            self.write(&line);
        }
    }

    /// Writes lines that are ready.
    pub fn ready(&mut self, lines: &[u8]) {
        self.write(lines);
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.closed {
            return;
        }
        let outcome = self
            .writer
            .write_all(bytes)
            .and_then(|()| self.writer.flush());
        if let Err(error) = outcome
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.closed = true;
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.failure = Some(error);
            }
        }
    }
}

/// Standard output or standard error. Where it is a terminal, everything that is written is cleaned first
/// ([`lathe_protocol::printable`]).
pub struct Terminal<W> {
    writer: W,
    cleans: bool,
    /// The beginning of a character whose rest comes with the next write.
    begun: Vec<u8>,
}

impl Terminal<io::Stdout> {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        let writer = io::stdout();
        let cleans = writer.is_terminal();
        Self::new(writer, cleans)
    }
}

impl Terminal<io::Stderr> {
    /// Standard error.
    #[must_use]
    pub fn stderr() -> Self {
        let writer = io::stderr();
        let cleans = writer.is_terminal();
        Self::new(writer, cleans)
    }
}

impl<W: Write> Terminal<W> {
    fn new(writer: W, cleans: bool) -> Self {
        Self {
            writer,
            cleans,
            begun: Vec::new(),
        }
    }
}

impl<W: AsFd> AsFd for Terminal<W> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.writer.as_fd()
    }
}

impl<W: Write> Write for Terminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.cleans {
            return self.writer.write(bytes);
        }
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Ok(text) => text.len(),
            // Only an unfinished character is kept back; what is no text at all is replaced.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let text = std::mem::replace(&mut self.begun, rest);
        let text = String::from_utf8_lossy(&text);
        let text = lathe_protocol::printable::clean_output(&text);
        self.writer.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A value as a line of JSON. One that would be too long for readers has its longest texts cut, and says
/// so.
#[must_use]
pub fn line_of(value: &impl Serialize) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(value).ok()?;
    if line.len() > MAX_LINE
        && let Ok(mut value) = serde_json::to_value(value)
    {
        let mut limit = MAX_LINE / 4;
        while line.len() > MAX_LINE && limit > 64 {
            cut_texts(&mut value, limit);
            line = serde_json::to_vec(&value).unwrap_or_default();
            limit /= 2;
        }
    }
    line.push(b'\n');
    Some(without_separators(line))
}

/// The line with U+2028 and U+2029 escaped: JSON may hold them as they are, but some readers take them for
/// the end of a line.
pub(crate) fn without_separators(line: Vec<u8>) -> Vec<u8> {
    const FIRST_TWO: &[u8] = b"\xe2\x80";
    let mut escaped = Vec::new();
    let mut copied = 0;
    for at in memchr::memmem::find_iter(&line, FIRST_TWO) {
        let escape: &[u8] = match line.get(at + 2) {
            Some(0xa8) => b"\\u2028",
            Some(0xa9) => b"\\u2029",
            _ => continue,
        };
        escaped.extend_from_slice(&line[copied..at]);
        escaped.extend_from_slice(escape);
        copied = at + 3;
    }
    if copied == 0 {
        return line;
    }
    escaped.extend_from_slice(&line[copied..]);
    escaped
}

/// Checks whether a short line can be written without blocking: a pipe, a socket or a file that has room
/// for it.
pub struct OutputRoom {
    file: File,
}

impl OutputRoom {
    /// The most bytes that can be written at once: as many as a pipe takes as a whole.
    pub const MOST: usize = 4096;

    /// For a descriptor; `None` where it can't be known beforehand whether a write blocks (a terminal).
    #[must_use]
    pub fn new(descriptor: OwnedFd) -> Option<Self> {
        let file = File::from(descriptor);
        let kind = file.metadata().ok()?.file_type();
        (kind.is_fifo() || kind.is_socket() || kind.is_file()).then_some(Self { file })
    }

    /// Whether there is room for a line of at most [`Self::MOST`] bytes now. True if the reader closed the
    /// pipe; the next write reports it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let mut asked = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
        poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

fn cut_texts(value: &mut serde_json::Value, limit: usize) {
    match value {
        serde_json::Value::String(text) if text.len() > limit => {
            let mut end = limit;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let left_out = text.len() - end;
            text.truncate(end);
            text.push_str(&format!("… [{left_out} bytes omitted]"));
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| cut_texts(item, limit)),
        serde_json::Value::Object(fields) => {
            fields
                .values_mut()
                .for_each(|field| cut_texts(field, limit));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_gets_is_cleaned_and_what_a_pipe_gets_is_not() {
        let text = "a\u{1b}]52;c;x\u{7}\u{e4}\u{1b}[31mred\u{1b}[0m\n";
        let mut shown = Vec::new();
        let mut terminal = Terminal::new(&mut shown, true);
        // A character may be split over two writes.
        let (one, two) = text.as_bytes().split_at(11);
        terminal.write_all(one).unwrap();
        terminal.write_all(two).unwrap();
        assert_eq!(
            String::from_utf8(shown).unwrap(),
            "a\u{e4}\u{1b}[31mred\u{1b}[0m\n"
        );
        let mut piped = Vec::new();
        Terminal::new(&mut piped, false)
            .write_all(text.as_bytes())
            .unwrap();
        assert_eq!(piped, text.as_bytes());
    }

    use serde_json::json;

    #[test]
    fn line_separators_inside_texts_are_escaped() {
        let value = serde_json::json!({"a": "x\u{2028}y\u{2029}\u{2028}–é", "b": "…"});
        let line = String::from_utf8(line_of(&value).unwrap()).unwrap();
        assert_eq!(line, "{\"a\":\"x\\u2028y\\u2029\\u2028–é\",\"b\":\"…\"}\n");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&line).unwrap(),
            value
        );
    }

    #[test]
    fn a_line_stays_below_what_readers_take() {
        let mut bytes = Vec::new();
        let huge = "ä\"\n".repeat(1_000_000);
        Lines::new(&mut bytes)
            .json(&json!({"type": "user", "a": huge, "b": [huge.clone()], "c": 1}));
        assert!(bytes.len() <= MAX_LINE + 1);
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["c"], 1);
        assert!(value["a"].as_str().unwrap().ends_with("bytes omitted]"));
    }

    #[test]
    fn a_full_pipe_has_no_room_until_it_is_read() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let room = OutputRoom::new(writer.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let mut written = 0;
        while room.has_room() {
            writer.write_all(&[b'x'; OutputRoom::MOST]).unwrap();
            written += OutputRoom::MOST;
        }
        assert!(written >= OutputRoom::MOST);
        let mut some = vec![0; written];
        io::Read::read_exact(&mut reader, &mut some).unwrap();
        assert!(room.has_room());
        drop(reader);
        assert!(room.has_room() && writer.write_all(b"x").is_err());
    }

    #[test]
    fn a_reader_that_went_away_is_noticed_once() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut lines = Lines::new(Gone);
        lines.text("x");
        assert!(lines.is_closed() && lines.failure().is_none());
        lines.text("y");
    }
}
