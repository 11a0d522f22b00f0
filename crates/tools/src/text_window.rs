//! A window of lines of a text file, numbered, read without loading more than the window.
//!
//! A file of any size costs what is before the window to skip (newlines are counted, nothing is
//! kept) and the window itself to keep. How many lines a very large file has is then an estimate,
//! and is called one.

use crate::text_file::{self, Encoding};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Read};

/// The longest line that is shown whole, in characters.
pub(crate) const LONGEST_LINE: usize = 2000;
/// Bytes of a line that are kept: enough for its characters in any encoding.
const LONGEST_LINE_BYTES: usize = LONGEST_LINE * 4 + 4;
/// Beyond this a window is given up: it is far over what may be shown.
const LARGEST_WINDOW: usize = 1024 * 1024;
/// After the window, a file is read on to count its lines if it is no larger than this.
const COUNTED_UP_TO: u64 = 32 * 1024 * 1024;
const BUFFER: usize = 128 * 1024;

/// How many lines a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineCount {
    /// They were counted.
    Exactly(usize),
    /// Estimated from the part that was read.
    About(usize),
}

impl LineCount {
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Exactly(number) | Self::About(number) => number,
        }
    }

    pub(crate) fn exact(self) -> Option<usize> {
        match self {
            Self::Exactly(number) => Some(number),
            Self::About(_) => None,
        }
    }
}

/// Where a line starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bookmark {
    /// The line's number, from 1.
    pub(crate) line: usize,
    /// The place of its first byte.
    pub(crate) byte: u64,
}

impl Bookmark {
    /// The start of a file.
    pub(crate) const START: Self = Self { line: 1, byte: 0 };
}

/// Lines of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The lines without numbers, joined by `\n`.
    pub(crate) content: String,
    /// The lines with numbers, as the model sees them.
    pub(crate) numbered: String,
    /// The first line's number, from 1.
    pub(crate) first: usize,
    /// How many lines there are in the window.
    pub(crate) count: usize,
    /// How many the file has.
    pub(crate) total: LineCount,
    /// The numbers of lines that were cut.
    pub(crate) cut: Vec<usize>,
    /// How the file is stored.
    pub(crate) encoding: Encoding,
    /// Where the first line after the window starts, if a stream has got there.
    pub(crate) next: Option<Bookmark>,
}

/// Why there is no window.
#[derive(Debug)]
pub(crate) enum WindowError {
    /// It ends before the window starts; its number of lines.
    BeyondEnd(usize),
    /// The window is far too large to be shown; the lines that fitted.
    TooLarge(usize),
    /// The call was stopped.
    Stopped,
    /// The system says no.
    Io(io::Error),
}

impl From<io::Error> for WindowError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Takes lines one by one and numbers them.
struct Lines {
    window: Window,
}

impl Lines {
    fn new(first: usize, encoding: Encoding) -> Self {
        Self {
            window: Window {
                content: String::new(),
                numbered: String::new(),
                first,
                count: 0,
                total: LineCount::Exactly(0),
                cut: Vec::new(),
                encoding,
                next: None,
            },
        }
    }

    fn push(&mut self, line: &str) {
        let window = &mut self.window;
        let number = window.first + window.count;
        let line = line.strip_suffix('\r').unwrap_or(line);
        let shown = match line.char_indices().nth(LONGEST_LINE) {
            Some((end, _)) => {
                window.cut.push(number);
                line.get(..end).unwrap_or(line)
            }
            None => line,
        };
        if window.count > 0 {
            window.content.push('\n');
            window.numbered.push('\n');
        }
        window.content.push_str(shown);
        let _ = write!(window.numbered, "{number:>6}\t{shown}");
        if shown.len() < line.len() {
            window.numbered.push('…');
        }
        window.count += 1;
    }
}

/// The window of a text that is in memory.
pub(crate) fn of_text(
    text: &str,
    encoding: Encoding,
    first: usize,
    most: usize,
) -> Result<Window, WindowError> {
    let total = memchr::memchr_iter(b'\n', text.as_bytes()).count()
        + usize::from(!text.is_empty() && !text.ends_with('\n'));
    if first > total {
        return Err(WindowError::BeyondEnd(total));
    }
    let mut lines = Lines::new(first, encoding);
    for line in text.split('\n').take(total).skip(first - 1).take(most) {
        lines.push(line);
        if lines.window.numbered.len() > LARGEST_WINDOW {
            return Err(WindowError::TooLarge(lines.window.count));
        }
    }
    lines.window.total = LineCount::Exactly(total);
    Ok(lines.window)
}

/// The window of a file that is too large to be loaded, read from a place before it on. `size` is
/// the whole file's. UTF-16 can't be read this way.
pub(crate) fn of_stream(
    mut source: impl Read,
    from: Bookmark,
    size: u64,
    first: usize,
    most: usize,
    stopped: impl Fn() -> bool,
) -> Result<Window, WindowError> {
    let mut buffer = vec![0; BUFFER];
    let mut state = Streamed {
        line: from.line,
        place: from.byte,
        first,
        after: first.saturating_add(most),
        kept: Vec::new(),
        current: Vec::new(),
        current_bytes: 0,
        kept_bytes: 0,
        next: None,
    };
    let mut ended = false;
    while !ended {
        if stopped() {
            return Err(WindowError::Stopped);
        }
        let read = match source.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        state.take(buffer.get(..read).unwrap_or_default())?;
        ended = read == 0 || state.place >= size;
        if state.line >= state.after && size > COUNTED_UP_TO {
            break;
        }
    }
    let total = if ended {
        LineCount::Exactly(state.finish())
    } else {
        let share = size as f64 / state.place.max(1) as f64;
        LineCount::About((state.line as f64 * share) as usize)
    };
    if state.kept.is_empty() {
        return Err(WindowError::BeyondEnd(total.number()));
    }
    Ok(state.window(total))
}

/// Where a stream of bytes has got to.
struct Streamed {
    /// The number of the line that the next byte belongs to.
    line: usize,
    /// The place of the next byte in the file.
    place: u64,
    first: usize,
    /// The first line after the window.
    after: usize,
    /// The window's finished lines, each at most [`LONGEST_LINE_BYTES`].
    kept: Vec<Vec<u8>>,
    /// The start of the unfinished line, if it is in the window.
    current: Vec<u8>,
    /// How long the unfinished line is.
    current_bytes: usize,
    kept_bytes: usize,
    next: Option<Bookmark>,
}

impl Streamed {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), WindowError> {
        while !bytes.is_empty() {
            let used = if self.line < self.first {
                self.skip(bytes)
            } else if self.line >= self.after {
                self.line += memchr::memchr_iter(b'\n', bytes).count();
                self.note_rest(bytes);
                bytes.len()
            } else if let Some(end) = memchr::memchr(b'\n', bytes) {
                self.extend(bytes.get(..end).unwrap_or_default());
                self.end_line()?;
                end + 1
            } else {
                self.extend(bytes);
                bytes.len()
            };
            self.place += used as u64;
            bytes = bytes.get(used..).unwrap_or_default();
            if self.line == self.after && self.next.is_none() {
                self.next = Some(Bookmark {
                    line: self.line,
                    byte: self.place,
                });
            }
        }
        Ok(())
    }

    /// Goes through bytes before the window, where only newlines matter: whole buffers are counted
    /// at once. Returns how many bytes were gone through.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let newlines = memchr::memchr_iter(b'\n', bytes);
        let needed = self.first - self.line;
        let there = newlines.clone().count();
        if there < needed {
            self.line += there;
            self.note_rest(bytes);
            return bytes.len();
        }
        let end = newlines.clone().nth(needed - 1).unwrap_or(bytes.len());
        self.line = self.first;
        self.current_bytes = 0;
        end + 1
    }

    /// Remembers whether bytes outside the window leave an unfinished line.
    fn note_rest(&mut self, bytes: &[u8]) {
        let rest = memchr::memrchr(b'\n', bytes).map_or(bytes.len(), |end| bytes.len() - end - 1);
        self.current_bytes = rest;
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.current_bytes += bytes.len();
        let room = LONGEST_LINE_BYTES.saturating_sub(self.current.len());
        self.current
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn end_line(&mut self) -> Result<(), WindowError> {
        self.kept_bytes += self.current.len();
        self.kept.push(std::mem::take(&mut self.current));
        self.current_bytes = 0;
        self.line += 1;
        if self.kept_bytes > LARGEST_WINDOW {
            return Err(WindowError::TooLarge(self.kept.len()));
        }
        Ok(())
    }

    /// The stream has ended: the number of lines.
    fn finish(&mut self) -> usize {
        if self.current_bytes > 0 {
            if self.line >= self.first && self.line < self.after {
                self.kept.push(std::mem::take(&mut self.current));
            }
            self.line
        } else {
            self.line - 1
        }
    }

    fn window(self, total: LineCount) -> Window {
        let starts_file = self.first == 1;
        let mut encoding = Encoding::Utf8;
        // A line that was cut may end in half a character; that doesn't make the file Latin-1.
        let valid = |line: &[u8]| match std::str::from_utf8(line) {
            Ok(_) => true,
            Err(error) => line.len() == LONGEST_LINE_BYTES && error.error_len().is_none(),
        };
        if !self.kept.iter().all(|line| valid(line)) {
            encoding = Encoding::Latin1;
        }
        let mut lines = Lines::new(self.first, encoding);
        for (index, line) in self.kept.iter().enumerate() {
            let mut bytes = line.as_slice();
            if starts_file && index == 0 && bytes.starts_with(&[0xEF, 0xBB, 0xBF]) {
                bytes = bytes.get(3..).unwrap_or_default();
                lines.window.encoding = Encoding::Utf8WithMark;
            }
            let text = match encoding {
                Encoding::Latin1 => text_file::decode_latin1(bytes),
                _ => match std::str::from_utf8(bytes) {
                    Ok(text) => Cow::Borrowed(text),
                    Err(error) => {
                        String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or(bytes))
                    }
                },
            };
            lines.push(&text);
        }
        lines.window.total = total;
        lines.window.next = self.next;
        lines.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(bytes: &[u8], first: usize, most: usize) -> Result<Window, WindowError> {
        of_stream(
            bytes,
            Bookmark::START,
            bytes.len() as u64,
            first,
            most,
            || false,
        )
    }

    #[test]
    fn lines_are_numbered_as_cat_does() {
        let window = of_text("a\n\nc\n", Encoding::Utf8, 1, 10).unwrap();
        assert_eq!(window.numbered, "     1\ta\n     2\t\n     3\tc");
        assert_eq!(window.content, "a\n\nc");
        assert_eq!(window.total, LineCount::Exactly(3));
    }

    #[test]
    fn a_long_line_is_cut_and_said() {
        let text = format!("x\n{}\ny", "é".repeat(LONGEST_LINE + 5));
        for window in [
            of_text(&text, Encoding::Utf8, 1, 10).unwrap(),
            stream(text.as_bytes(), 1, 10).unwrap(),
        ] {
            assert_eq!(window.cut, [2]);
            assert_eq!(window.count, 3);
            assert_eq!(window.encoding, Encoding::Utf8);
            assert_eq!(
                window.content.lines().nth(1).unwrap().chars().count(),
                LONGEST_LINE
            );
        }
    }

    #[test]
    fn a_window_beyond_the_end_says_how_many_lines_there_are() {
        assert!(matches!(
            stream(b"a\nb\n", 3, 5),
            Err(WindowError::BeyondEnd(2))
        ));
        assert!(matches!(
            of_text("a\nb", Encoding::Utf8, 3, 5),
            Err(WindowError::BeyondEnd(2))
        ));
    }

    #[test]
    fn latin1_and_marks_are_told_in_a_stream() {
        let window = stream(b"caf\xE9\nb", 1, 5).unwrap();
        assert_eq!(
            (window.encoding, window.content.as_str()),
            (Encoding::Latin1, "café\nb")
        );
        let window = stream(b"\xEF\xBB\xBFa\nb", 1, 5).unwrap();
        assert_eq!(
            (window.encoding, window.content.as_str()),
            (Encoding::Utf8WithMark, "a\nb")
        );
    }

    #[test]
    fn an_endless_source_is_read_only_as_far_as_the_window() {
        let endless = io::repeat(b'\n');
        let window = of_stream(endless, Bookmark::START, u64::MAX, 1000, 5, || false).unwrap();
        assert_eq!((window.first, window.count), (1000, 5));
        assert!(matches!(window.total, LineCount::About(_)));
        let error = of_stream(io::repeat(b'x'), Bookmark::START, u64::MAX, 2, 5, {
            let calls = std::cell::Cell::new(0);
            move || {
                calls.set(calls.get() + 1);
                calls.get() > 3
            }
        });
        assert!(matches!(error, Err(WindowError::Stopped)));
    }

    proptest! {
        #[test]
        fn a_stream_gives_the_same_window_as_memory(
            text in "[ab\r\n]{0,60}", first in 1_usize..12, most in 1_usize..12, step in 1_usize..7
        ) {
            struct Steps<'a>(&'a [u8], usize);
            impl Read for Steps<'_> {
                fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                    let length = self.1.min(self.0.len()).min(buffer.len());
                    let (now, later) = self.0.split_at(length);
                    buffer[..length].copy_from_slice(now);
                    self.0 = later;
                    Ok(length)
                }
            }
            let memory = of_text(&text, Encoding::Utf8, first, most);
            let size = text.len() as u64;
            let streamed = of_stream(
                Steps(text.as_bytes(), step), Bookmark::START, size, first, most, || false,
            );
            // What comes next can be read from where the window ended.
            if let Ok(Window { next: Some(next), .. }) = &streamed {
                let rest = text.get(next.byte as usize..).unwrap();
                let on = of_stream(rest.as_bytes(), *next, size, next.line, most, || false);
                let again = of_text(&text, Encoding::Utf8, next.line, most);
                prop_assert_eq!(on.ok().map(|window| window.numbered), again.ok().map(|window| window.numbered));
            }
            let streamed = streamed.map(|window| Window { next: None, ..window });
            match (memory, streamed) {
                (Ok(memory), Ok(streamed)) => prop_assert_eq!(memory, streamed),
                (Err(WindowError::BeyondEnd(memory)), Err(WindowError::BeyondEnd(streamed))) => {
                    prop_assert_eq!(memory, streamed);
                }
                (memory, streamed) => prop_assert!(false, "{memory:?} {streamed:?}"),
            }
        }
    }
}
