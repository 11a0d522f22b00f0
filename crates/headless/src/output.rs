//! Writing lines to standard output: in order, flushed each, and without ever failing loudly. A reader
//! that went away (`lathe … | head -1`) ends the run quietly.

use serde::Serialize;
use std::io::{self, Write};

/// Where lines go.
pub struct Lines<W> {
    writer: W,
    closed: bool,
}

/// The SDKs refuse longer lines.
pub const MAX_LINE: usize = 1_000_000;

impl<W: Write> Lines<W> {
    /// Writes to `writer`.
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            closed: false,
        }
    }

    /// Whether the reader went away.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes a text as it is.
    pub fn text(&mut self, text: &str) {
        self.write(text.as_bytes());
    }

    /// Writes a value as a line of JSON. One that would be too long for readers has its longest texts
    /// cut, and says so.
    pub fn json(&mut self, value: &impl Serialize) {
        let Ok(mut line) = serde_json::to_vec(value) else {
            return;
        };
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
        self.write(&line);
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
        }
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
            text.push_str(&format!("… [{left_out} bytes left out]"));
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
    use serde_json::json;

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
        assert!(value["a"].as_str().unwrap().ends_with("bytes left out]"));
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
        assert!(lines.is_closed());
        lines.text("y");
    }
}
