//! Frames of native messaging: four bytes of length, little-endian, and as many bytes of JSON.

use serde_json::Value;

/// The largest message, in both directions.
pub const MOST_BYTES: usize = 1_048_576;

/// A stream of frames that can't be read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is 0 or too large: what follows can't be found any more.
    #[error("invalid message length: {0}")]
    Length(u32),
    /// The message is no JSON.
    #[error("a message is not JSON: {0}")]
    NotJson(String),
    /// A message of ours is too large for the browser.
    #[error("a message of {0} bytes is larger than the browser takes (1 MB)")]
    TooLarge(usize),
}

/// Takes frames out of bytes that come in any pieces.
#[derive(Debug, Default)]
pub struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// When the length is wrong or the message is no JSON.
    pub fn next_message(&mut self) -> Result<Option<Value>, FrameError> {
        let Some(length) = self.buffer.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length);
        let size = usize::try_from(length).unwrap_or(usize::MAX);
        if size == 0 || size > MOST_BYTES {
            return Err(FrameError::Length(length));
        }
        if self.buffer.len() < 4 + size {
            return Ok(None);
        }
        let message = serde_json::from_slice(&self.buffer[4..4 + size]);
        self.buffer.drain(..4 + size);
        message
            .map(Some)
            .map_err(|error| FrameError::NotJson(error.to_string()))
    }
}

/// A message as a frame.
///
/// # Errors
/// When it is too large.
pub fn frame(message: &Value) -> Result<Vec<u8>, FrameError> {
    let text = message.to_string();
    let length = u32::try_from(text.len())
        .ok()
        .filter(|_| text.len() <= MOST_BYTES)
        .ok_or(FrameError::TooLarge(text.len()))?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn frames_are_read_from_pieces_of_any_size() {
        let messages = [json!({"a": 1}), json!("ö"), json!([1, 2, 3])];
        let bytes: Vec<u8> = messages
            .iter()
            .flat_map(|one| frame(one).unwrap())
            .collect();
        for size in 1..=bytes.len() {
            let mut reader = Reader::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                reader.push(piece);
                while let Some(message) = reader.next_message().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, messages, "in pieces of {size}");
        }
    }

    #[test]
    fn a_wrong_length_ends_the_stream() {
        for length in [0_u32, 1_048_577, u32::MAX] {
            let mut reader = Reader::default();
            reader.push(&length.to_le_bytes());
            let refused = reader.next_message().unwrap_err();
            assert_eq!(refused, FrameError::Length(length));
            assert!(refused.to_string().starts_with("invalid message length"));
        }
        let mut reader = Reader::default();
        reader.push(&1_048_576_u32.to_le_bytes());
        assert_eq!(reader.next_message(), Ok(None));
        reader.push(&vec![b' '; 1_048_575]);
        reader.push(b"1");
        assert_eq!(reader.next_message(), Ok(Some(json!(1))));
    }

    #[test]
    fn a_message_that_the_browser_would_refuse_is_not_written() {
        let long = "x".repeat(MOST_BYTES);
        assert_eq!(
            frame(&json!(long)),
            Err(FrameError::TooLarge(MOST_BYTES + 2))
        );
        assert!(frame(&json!(long[4..])).is_ok());
    }
}
