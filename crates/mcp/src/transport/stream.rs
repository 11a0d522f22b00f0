//! Decodes server-sent events from bytes. Supports all three line endings and any chunking; the
//! size of an event is limited.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;
use std::collections::VecDeque;

/// An event exceeds the limit.
#[derive(Debug, thiserror::Error)]
#[error("an event of more than {0} bytes")]
struct TooLong(usize);

#[derive(Debug)]
pub(crate) struct Decoder {
    limit: usize,
    line: Vec<u8>,
    after_return: bool,
    first: bool,
    event: Option<String>,
    data: Option<String>,
    id: Option<String>,
    retry: Option<u64>,
    ready: VecDeque<Sse>,
}

impl Decoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            first: true,
            event: None,
            data: None,
            id: None,
            retry: None,
            ready: VecDeque::new(),
        }
    }

    /// Adds bytes. Returns false if an event exceeds the limit.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            if self.after_return {
                self.after_return = false;
                if bytes[0] == b'\n' {
                    bytes = &bytes[1..];
                    continue;
                }
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            let held = self.data.as_ref().map_or(0, String::len);
            if self.line.len() + part.len() + held > self.limit {
                return false;
            }
            self.line.extend_from_slice(part);
            bytes = rest;
            if end.is_some() {
                self.after_return = bytes[0] == b'\r';
                bytes = &bytes[1..];
                self.end_line();
            }
        }
        true
    }

    pub(crate) fn next(&mut self) -> Option<Sse> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&line);
        if std::mem::take(&mut self.first)
            && let Some(rest) = line.strip_prefix('\u{feff}')
        {
            line = rest.to_owned().into();
        }
        if line.is_empty() {
            self.end_event();
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" => self.retry = value.parse().ok().or(self.retry),
            _ => {}
        }
    }

    fn end_event(&mut self) {
        let event = Sse {
            event: self.event.take(),
            data: self.data.take(),
            id: self.id.take(),
            retry: self.retry.take(),
        };
        if event != Sse::default() {
            self.ready.push_back(event);
        }
    }
}

pub(crate) fn events(
    response: reqwest::Response,
    limit: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let state = (response.bytes_stream().boxed(), Decoder::new(limit), false);
    futures::stream::unfold(state, |(mut bytes, mut decoder, over)| async move {
        loop {
            if let Some(event) = decoder.next() {
                return Some((Ok(event), (bytes, decoder, over)));
            }
            if over {
                return None;
            }
            match bytes.next().await {
                None => return None,
                Some(Err(error)) => {
                    let error = SseError::Body(Box::new(error.without_url()));
                    return Some((Err(error), (bytes, decoder, true)));
                }
                Some(Ok(chunk)) if !decoder.push(&chunk) => {
                    let error = SseError::Body(Box::new(TooLong(decoder.limit)));
                    return Some((Err(error), (bytes, decoder, true)));
                }
                Some(Ok(_)) => {}
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str, step: usize) -> Vec<Sse> {
        let mut decoder = Decoder::new(1000);
        for chunk in text.as_bytes().chunks(step) {
            assert!(decoder.push(chunk));
        }
        std::iter::from_fn(|| decoder.next()).collect()
    }

    #[test]
    fn events_are_the_same_however_their_bytes_are_split() {
        let text =
            "\u{feff}: hello\nid: 7\r\nevent: endpoint\rdata: ü1\ndata:2\n\nretry: 500\n\ndata\n\n";
        let whole = decode(text, text.len());
        assert_eq!(whole.len(), 3);
        assert_eq!(whole[0].event.as_deref(), Some("endpoint"));
        assert_eq!(whole[0].data.as_deref(), Some("ü1\n2"));
        assert_eq!(whole[0].id.as_deref(), Some("7"));
        assert_eq!(whole[1].retry, Some(500));
        assert_eq!(whole[2].data.as_deref(), Some(""));
        for step in 1..7 {
            assert_eq!(decode(text, step), whole, "{step}");
        }
    }

    #[test]
    fn an_event_without_end_is_cut_off() {
        let mut decoder = Decoder::new(100);
        assert!(decoder.push(&[b'a'; 100]));
        assert!(!decoder.push(b"b"));
        let mut lines = Decoder::new(100);
        assert!(!(0..20).all(|_| lines.push(b"data: 12345678901234567890\n")));
    }
}
