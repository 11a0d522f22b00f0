//! Reading the host's lines: NDJSON on standard input, on a thread of its own.

use std::io::{BufRead, BufReader, Read};
use tokio::sync::mpsc;

/// The longest line that is taken. Images and documents are megabytes; a line beyond this is a fault.
pub const MAX_LINE: usize = 64 * 1024 * 1024;

/// One line, or why it was left out.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line with something on it.
    Text(String),
    /// A line that was too long; its length.
    TooLong(usize),
    /// A line that isn't UTF-8.
    NotText,
}

/// Reads lines until the end of input. Blank lines and lines that can't be a frame are left out.
pub fn lines(input: impl Read + Send + 'static) -> mpsc::UnboundedReceiver<Line> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let reading = std::thread::Builder::new()
        .name("host".to_owned())
        .spawn(move || {
            let mut reader = BufReader::with_capacity(1 << 16, input);
            while let Some(line) = next_line(&mut reader) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    if let Err(error) = reading {
        tracing::error!(%error, "standard input can't be read");
    }
    receiver
}

pub(crate) fn next_line(reader: &mut impl BufRead) -> Option<Line> {
    loop {
        let mut bytes = Vec::new();
        let taken = reader
            .take(MAX_LINE as u64 + 1)
            .read_until(b'\n', &mut bytes)
            .ok()?;
        if taken == 0 {
            return None;
        }
        if bytes.len() > MAX_LINE && !bytes.ends_with(b"\n") {
            let skipped = skip_line(reader);
            return Some(Line::TooLong(bytes.len() + skipped));
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return Some(Line::NotText);
        };
        let text = text.trim();
        if !text.is_empty() {
            return Some(Line::Text(text.to_owned()));
        }
    }
}

fn skip_line(reader: &mut impl BufRead) -> usize {
    let mut skipped = 0;
    loop {
        let Ok(buffer) = reader.fill_buf() else {
            return skipped;
        };
        if buffer.is_empty() {
            return skipped;
        }
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                reader.consume(end + 1);
                return skipped + end + 1;
            }
            None => {
                let length = buffer.len();
                reader.consume(length);
                skipped += length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_left_out_and_the_last_needs_no_end() {
        let mut reader = BufReader::new(&b"\n  \n{\"a\":1}\r\n\xff\xfe\nlast"[..]);
        assert_eq!(next_line(&mut reader), Some(Line::Text("{\"a\":1}".into())));
        assert_eq!(next_line(&mut reader), Some(Line::NotText));
        assert_eq!(next_line(&mut reader), Some(Line::Text("last".into())));
        assert_eq!(next_line(&mut reader), None);
    }

    #[test]
    fn a_line_that_never_ends_is_skipped_without_keeping_it() {
        let endless = std::io::repeat(b'x').take(MAX_LINE as u64 + 1000);
        let mut reader = BufReader::new(endless.chain(&b"\nnext\n"[..]));
        assert_eq!(next_line(&mut reader), Some(Line::TooLong(MAX_LINE + 1001)));
        assert_eq!(next_line(&mut reader), Some(Line::Text("next".into())));
    }
}
