//! Messages on a stream: `Content-Length: n`, an empty line, n bytes.
//!
//! Anything else between two messages (a server that prints to its standard output) is skipped, and a header
//! that starts in the middle of it is found. A message that is too long
//! is read past without being kept.

use crate::limits::{HEADER_BYTES, MESSAGE_BYTES};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// A message from the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A message.
    Message(Vec<u8>),
    /// A message of so many bytes that is too long; it is gone.
    TooLong(u64),
}

/// Why nothing more can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FramingError {
    /// The stream failed.
    #[error("its output can't be read: {0}")]
    Io(#[from] std::io::Error),
    /// There is no end to what should be a header.
    #[error("it sent {} KB without a message", HEADER_BYTES / 1024)]
    Noise,
}

/// The bytes of a message with its header.
pub(crate) fn frame(body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Reads the next message; `None` at the end of the stream, also in the middle of a message.
pub(crate) async fn read<R>(input: &mut R) -> Result<Option<Frame>, FramingError>
where
    R: AsyncBufRead + Unpin,
{
    let mut length = None;
    let mut line = Vec::new();
    let mut read = 0;
    loop {
        line.clear();
        if !read_line(input, &mut line, HEADER_BYTES - read).await? {
            return Ok(None);
        }
        read += line.len();
        if read >= HEADER_BYTES {
            return Err(FramingError::Noise);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        match (text.is_empty(), length) {
            (true, Some(length)) => return body(input, length).await,
            (true, None) => {}
            (false, _) => length = content_length(text).or(length),
        }
    }
}

/// Reads to the end of the line or to the limit. Gives whether anything was there.
async fn read_line<R>(input: &mut R, line: &mut Vec<u8>, limit: usize) -> std::io::Result<bool>
where
    R: AsyncBufRead + Unpin,
{
    while line.len() < limit {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            return Ok(false);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end
            .map_or(available.len(), |end| end + 1)
            .min(limit - line.len());
        line.extend_from_slice(&available[..taken]);
        input.consume(taken);
        if line.last() == Some(&b'\n') {
            break;
        }
    }
    Ok(true)
}

fn content_length(line: &str) -> Option<u64> {
    const NAME: &str = "content-length:";
    let start = line.to_ascii_lowercase().rfind(NAME)? + NAME.len();
    line.get(start..)?.trim().parse().ok()
}

async fn body<R>(input: &mut R, length: u64) -> Result<Option<Frame>, FramingError>
where
    R: AsyncBufRead + Unpin,
{
    if length > MESSAGE_BYTES {
        let skipped = tokio::io::copy_buf(&mut input.take(length), &mut tokio::io::sink()).await?;
        return Ok((skipped == length).then_some(Frame::TooLong(length)));
    }
    // The length is only a promise: memory is taken as bytes come.
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes).await?;
    let whole = u64::try_from(bytes.len()).is_ok_and(|read| read == length);
    Ok(whole.then_some(Frame::Message(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(mut input: &[u8]) -> (Vec<String>, bool) {
        let mut found = Vec::new();
        loop {
            match read(&mut input).await {
                Ok(Some(Frame::Message(bytes))) => found.push(String::from_utf8(bytes).unwrap()),
                Ok(Some(Frame::TooLong(length))) => found.push(format!("too long: {length}")),
                Ok(None) => return (found, true),
                Err(_) => return (found, false),
            }
        }
    }

    #[tokio::test]
    async fn messages_are_read_one_after_the_other() {
        let mut bytes = frame(b"{\"a\":1}");
        bytes.extend(b"content-length:2\r\nContent-Type: application/json\r\n\r\n{}");
        assert_eq!(
            all(&bytes).await,
            (vec!["{\"a\":1}".into(), "{}".into()], true)
        );
    }

    #[tokio::test]
    async fn noise_between_messages_is_skipped() {
        let mut bytes = b"Starting up...\n\nwarning: x\r\n".to_vec();
        bytes.extend(frame(b"1"));
        bytes.extend(b"no line break");
        bytes.extend(frame(b"2"));
        bytes.extend(b"Content-Length: many\r\n\r\n");
        bytes.extend(frame(b"3"));
        assert_eq!(
            all(&bytes).await.0,
            ["1".to_owned(), "2".to_owned(), "3".to_owned()]
        );
    }

    #[tokio::test]
    async fn a_torn_message_is_the_end() {
        let whole = frame(b"{\"jsonrpc\":\"2.0\"}");
        for cut in 0..whole.len() {
            let (found, ended) = all(&whole[..cut]).await;
            assert!(found.is_empty() && ended, "cut at {cut}: {found:?}");
        }
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_is_thrown_away_and_reading_goes_on() {
        let length = MESSAGE_BYTES + 1;
        let mut bytes = format!("Content-Length: {length}\r\n\r\n").into_bytes();
        bytes.resize(bytes.len() + usize::try_from(length).unwrap(), b'x');
        bytes.extend(frame(b"next"));
        assert_eq!(
            all(&bytes).await.0,
            [format!("too long: {length}"), "next".to_owned()]
        );
    }

    #[tokio::test]
    async fn a_header_without_end_is_an_error() {
        let (found, ended) = all(&vec![b'x'; HEADER_BYTES * 2]).await;
        assert!(found.is_empty() && !ended);
        // A length that nobody could keep takes no memory.
        assert!(
            all(b"Content-Length: 18446744073709551615\r\n\r\nx")
                .await
                .1
        );
    }
}
