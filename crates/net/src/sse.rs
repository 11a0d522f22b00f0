//! Server-sent events: bytes in, events out.
//!
//! Written for model APIs and MCP servers: an event is one JSON document, mostly on one `data` line, which is
//! passed on without copying. It copes with whatever a network or a gateway does to such a stream: chunks cut
//! anywhere (inside a character, inside a line end, inside the byte order mark), LF, CRLF and CR,
//! comments, `data:` with and without a space, fields it doesn't know. An event without an end is
//! bounded, so that a broken server can't fill the memory.

use bytes::{Bytes, BytesMut};

/// The largest event taken by default.
pub const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The event's name, empty if it has none.
    pub name: Bytes,
    /// Its data; several `data` lines are joined by line ends. `None` for an event that only carries one of
    /// the fields below.
    pub data: Option<Bytes>,
    /// Its id, from which a stream can be resumed.
    pub id: Option<Bytes>,
    /// How many milliseconds to wait before connecting again.
    pub retry: Option<u64>,
}

/// The stream can't be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event exceeds the limit.
    #[error("an event is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

/// The decoder. Feed it with [`push`](Self::push), then take events until there are none.
#[derive(Debug)]
pub struct SseDecoder {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    scanned: usize,
    /// The last line ended in CR at the edge of what was there: a LF that follows belongs to it.
    skip_line_feed: bool,
    at_start: bool,
    name: Bytes,
    data: Vec<Bytes>,
    id: Option<Bytes>,
    retry: Option<u64>,
    data_bytes: usize,
    limit: usize,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl SseDecoder {
    /// A decoder that refuses events of more than `limit` bytes.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            scanned: 0,
            skip_line_feed: false,
            at_start: true,
            name: Bytes::new(),
            data: Vec::new(),
            id: None,
            retry: None,
            data_bytes: 0,
            limit,
        }
    }

    /// Adds bytes as they came from the network.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete event, or `None` until more bytes are there.
    ///
    /// # Errors
    /// When an event exceeds the limit.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, SseError> {
        while let Some(line) = self.next_line() {
            if line.is_empty() {
                if let Some(event) = self.take_event() {
                    return Ok(Some(event));
                }
            } else {
                self.field(&line);
            }
            self.check_size()?;
        }
        self.check_size()?;
        Ok(None)
    }

    /// Whether the last line that came has no end yet.
    #[must_use]
    pub fn is_within_line(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The rest at the end of the stream: an event without its closing blank line. Whether it
    /// is whole only its reader can tell.
    pub fn finish(&mut self) -> Option<SseEvent> {
        let rest = self.buffer.split().freeze();
        self.scanned = 0;
        if !rest.is_empty() {
            self.field(&rest);
        }
        self.take_event()
    }

    fn check_size(&self) -> Result<(), SseError> {
        if self.data_bytes + self.scanned > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }

    fn next_line(&mut self) -> Option<Bytes> {
        const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
        if self.at_start {
            let known = self.buffer.len().min(BYTE_ORDER_MARK.len());
            if self.buffer[..known] == BYTE_ORDER_MARK[..known] {
                if known < BYTE_ORDER_MARK.len() {
                    return None;
                }
                let _ = self.buffer.split_to(known);
            }
            self.at_start = false;
        }
        if self.skip_line_feed && !self.buffer.is_empty() {
            if self.buffer[0] == b'\n' {
                let _ = self.buffer.split_to(1);
            }
            self.skip_line_feed = false;
        }
        let end = memchr::memchr2(b'\n', b'\r', &self.buffer[self.scanned..]);
        let Some(offset) = end else {
            self.scanned = self.buffer.len();
            return None;
        };
        let length = self.scanned + offset;
        self.skip_line_feed = self.buffer[length] == b'\r';
        self.scanned = 0;
        let mut line = self.buffer.split_to(length + 1).freeze();
        line.truncate(length);
        Some(line)
    }

    fn field(&mut self, line: &Bytes) {
        let colon = line.iter().position(|byte| *byte == b':');
        let name = &line[..colon.unwrap_or(line.len())];
        let value = match colon {
            Some(colon) => {
                let blank = usize::from(line.get(colon + 1) == Some(&b' '));
                line.slice(colon + 1 + blank..)
            }
            None => Bytes::new(),
        };
        match name {
            b"data" => {
                self.data_bytes += value.len();
                self.data.push(value);
            }
            b"event" => self.name = value,
            b"id" if !value.contains(&0) => self.id = Some(value),
            b"retry" => {
                let number = std::str::from_utf8(&value).ok();
                self.retry = number.and_then(|text| text.parse().ok()).or(self.retry);
            }
            // A comment (empty name), or something newer.
            _ => {}
        }
    }

    fn take_event(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        self.data_bytes = 0;
        let (id, retry) = (self.id.take(), self.retry.take());
        let data = match self.data.len() {
            0 if id.is_none() && retry.is_none() => return None,
            0 => None,
            1 => self.data.pop(),
            _ => Some(Bytes::from(self.data.join(&b'\n'))),
        };
        self.data.clear();
        Some(SseEvent {
            name,
            data,
            id,
            retry,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(decoder: &mut SseDecoder) -> Vec<(String, String)> {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        std::iter::from_fn(|| decoder.next_event().unwrap())
            .map(|event| (text(&event.name), text(&event.data.unwrap())))
            .collect()
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    const STREAM: &str = "\u{feff}: hello\r\nevent: a\r\ndata: {\"x\":\"é漢😀\"}\r\n\r\ndata:no space\n\n:\n\nid: 7\nretry: 5\ndata: one\ndata:  two\ndata\n\nevent: empty\n\rdata: cr\r\r";

    fn expected() -> Vec<(String, String)> {
        vec![
            pair("a", "{\"x\":\"é漢😀\"}"),
            pair("", "no space"),
            pair("", "one\n two\n"),
            pair("", "cr"),
        ]
    }

    #[test]
    fn a_stream_cut_at_any_byte_gives_the_same_events() {
        let bytes = STREAM.as_bytes();
        for cut in 0..=bytes.len() {
            let mut decoder = SseDecoder::default();
            decoder.push(&bytes[..cut]);
            let mut events = all(&mut decoder);
            decoder.push(&bytes[cut..]);
            events.extend(all(&mut decoder));
            assert_eq!(events, expected(), "cut at {cut}");
        }
    }

    #[test]
    fn a_stream_of_single_bytes_gives_the_same_events() {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        for byte in STREAM.as_bytes() {
            decoder.push(&[*byte]);
            events.extend(all(&mut decoder));
        }
        assert_eq!(events, expected());
    }

    #[test]
    fn an_event_without_an_end_is_refused_at_the_limit() {
        let mut decoder = SseDecoder::with_limit(100);
        decoder.push(b"data: ");
        for _ in 0..20 {
            decoder.push(b"0123456789");
        }
        assert_eq!(decoder.next_event(), Err(SseError::TooLarge { limit: 100 }));
        let mut decoder = SseDecoder::with_limit(100);
        for _ in 0..20 {
            decoder.push(b"data: 0123456789\n");
        }
        assert_eq!(decoder.next_event(), Err(SseError::TooLarge { limit: 100 }));
    }

    #[test]
    fn many_small_events_never_reach_the_limit() {
        let mut decoder = SseDecoder::with_limit(100);
        for _ in 0..1000 {
            decoder.push(b"data: 0123456789\n\n");
        }
        assert_eq!(all(&mut decoder).len(), 1000);
    }

    #[test]
    fn data_on_one_line_is_not_copied_again() {
        let mut decoder = SseDecoder::default();
        decoder.push(b"data: 0123456789\n\ndata: x\n\n");
        let buffer = decoder.buffer.as_ptr() as usize;
        let event = decoder.next_event().unwrap().unwrap();
        assert_eq!(
            event.data.unwrap().as_ptr() as usize,
            buffer + "data: ".len()
        );
    }

    #[test]
    fn an_id_and_a_pause_are_events_without_data() {
        let mut decoder = SseDecoder::default();
        decoder.push(b"id: 7\n\nretry: 500\nretry: soon\n\nid: \0\n\ndata\n\n");
        let mut next = || decoder.next_event().unwrap();
        let event = next().unwrap();
        assert_eq!((event.id.as_deref(), event.data), (Some(&b"7"[..]), None));
        let event = next().unwrap();
        assert_eq!((event.retry, event.data), (Some(500), None));
        let event = next().unwrap();
        assert_eq!((event.id, event.data.as_deref()), (None, Some(&b""[..])));
        assert_eq!(next(), None);
    }

    #[test]
    fn an_unfinished_event_is_given_out_at_the_end() {
        let mut decoder = SseDecoder::default();
        decoder.push(b"event: last\ndata: {}");
        assert_eq!(decoder.next_event(), Ok(None));
        assert_eq!(decoder.finish().unwrap().data.unwrap(), "{}");
        assert_eq!(decoder.finish(), None);
    }
}
