//! The frames in which AWS streams events.

use bytes::{Buf as _, Bytes, BytesMut};
use std::borrow::Cow;

/// The largest frame taken.
const MOST: usize = 32 * 1024 * 1024;
/// Lengths and their checksum.
const PRELUDE: usize = 12;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The headers as they came; they can be read.
    headers: Bytes,
    pub(crate) payload: Bytes,
}

impl Frame {
    /// The value of a text header.
    pub(crate) fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut rest: &[u8] = &self.headers;
        while let Ok(Some(header)) = next_header(&mut rest) {
            if header.is_text && header.name == name.as_bytes() {
                return Some(String::from_utf8_lossy(header.value));
            }
        }
        None
    }
}

/// The stream can't be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame is larger than {MOST} bytes")]
    TooLarge,
    #[error("the lengths of a frame don't fit together")]
    Lengths,
    #[error("the checksum of a frame is wrong")]
    Checksum,
    #[error("a header of a frame can't be read")]
    Header,
}

/// The decoder. Feed it, then take frames until there are none.
#[derive(Debug, Default)]
pub(crate) struct FrameDecoder {
    buffer: BytesMut,
}

impl FrameDecoder {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if self.buffer.len() < PRELUDE {
            return Ok(None);
        }
        let mut prelude = &self.buffer[..PRELUDE];
        let total = prelude.get_u32() as usize;
        let headers = prelude.get_u32() as usize;
        if crc32fast::hash(&self.buffer[..8]) != prelude.get_u32() {
            return Err(FrameError::Checksum);
        }
        if total > MOST {
            return Err(FrameError::TooLarge);
        }
        if total < PRELUDE + headers + 4 {
            return Err(FrameError::Lengths);
        }
        if self.buffer.len() < total {
            return Ok(None);
        }
        let frame = self.buffer.split_to(total).freeze();
        let (body, mut checksum) = frame.split_at(total - 4);
        if crc32fast::hash(body) != checksum.get_u32() {
            return Err(FrameError::Checksum);
        }
        let mut unread = &body[PRELUDE..PRELUDE + headers];
        while next_header(&mut unread)?.is_some() {}
        Ok(Some(Frame {
            headers: frame.slice(PRELUDE..PRELUDE + headers),
            payload: frame.slice(PRELUDE + headers..total - 4),
        }))
    }
}

struct Header<'a> {
    name: &'a [u8],
    value: &'a [u8],
    is_text: bool,
}

/// Reads one header; `None` at the end.
fn next_header<'a>(bytes: &mut &'a [u8]) -> Result<Option<Header<'a>>, FrameError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let name = take(bytes, 1)?;
    let name = take(bytes, usize::from(name[0]))?;
    let kind = take(bytes, 1)?[0];
    let length = match kind {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        6 | 7 => {
            let length = take(bytes, 2)?;
            usize::from(u16::from_be_bytes([length[0], length[1]]))
        }
        9 => 16,
        _ => return Err(FrameError::Header),
    };
    Ok(Some(Header {
        name,
        value: take(bytes, length)?,
        is_text: kind == 7,
    }))
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], FrameError> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(FrameError::Header)?;
    *bytes = rest;
    Ok(taken)
}

/// A frame as the server sends it.
#[cfg(test)]
pub(super) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(u8::try_from(name.len()).unwrap());
        encoded.extend_from_slice(name.as_bytes());
        encoded.push(7);
        encoded.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        encoded.extend_from_slice(value.as_bytes());
    }
    let total = u32::try_from(PRELUDE + encoded.len() + payload.len() + 4).unwrap();
    let mut bytes = total.to_be_bytes().to_vec();
    bytes.extend_from_slice(&u32::try_from(encoded.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(&encoded);
    bytes.extend_from_slice(payload);
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(decoder: &mut FrameDecoder) -> Vec<Frame> {
        std::iter::from_fn(|| decoder.next_frame().unwrap()).collect()
    }

    #[test]
    fn frames_cut_at_any_byte_are_the_same() {
        let mut bytes = frame(&[(":message-type", "event")], b"one");
        bytes.extend(frame(
            &[(":message-type", "exception"), (":exception-type", "x")],
            b"",
        ));
        for cut in 0..=bytes.len() {
            let mut decoder = FrameDecoder::default();
            decoder.push(&bytes[..cut]);
            let mut frames = all(&mut decoder);
            decoder.push(&bytes[cut..]);
            frames.extend(all(&mut decoder));
            assert_eq!(frames.len(), 2, "{cut}");
            assert_eq!(frames[0].payload, "one");
            assert_eq!(frames[1].header(":exception-type").as_deref(), Some("x"));
        }
    }

    #[test]
    fn a_damaged_frame_is_refused() {
        let good = frame(&[(":message-type", "event")], b"payload");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            let mut decoder = FrameDecoder::default();
            decoder.push(&bad);
            assert!(decoder.next_frame().is_err(), "byte {at}");
        }
    }
}
