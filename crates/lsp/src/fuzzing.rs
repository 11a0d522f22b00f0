//! The fuzz target of this crate's parsers, for the tests and for `fuzz/`.

use crate::connection::Receiver as _;
use crate::framing::{self, Frame};
use crate::inbox::Inbox;
use crate::position::{Encoding, from_uri, to_uri};
use crate::{diagnostics, query};
use serde_json::Value;
use std::path::Path;
use tokio::io::BufReader;

/// The output of a language server gives the same messages whatever the size of the reads, and every message is
/// dealt with, whatever it claims to be.
pub fn fuzz_language_server(bytes: &[u8]) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else {
        return;
    };
    let (whole, in_pieces) =
        runtime.block_on(async { (frames(bytes, 64 * 1024).await, frames(bytes, 3).await) });
    assert_eq!(whole, in_pieces);
    let inbox = Inbox::new(None, Value::Null);
    for frame in whole {
        let Frame::Message(body) = frame else {
            continue;
        };
        let Ok(message) = serde_json::from_slice::<Value>(&body) else {
            continue;
        };
        let params = message.get("params").cloned().unwrap_or_default();
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            inbox.notified(method, params.clone());
            let _ = inbox.asked(method, params);
        }
        let result = message.get("result").unwrap_or(&Value::Null);
        query::read_any(result);
        let mut problems = diagnostics::read_list(result);
        diagnostics::to_columns(&mut problems, "one\ntwo ünd 😀\n", Encoding::Utf16);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some(path) = from_uri(text)
    {
        assert_eq!(from_uri(&to_uri(&path)).as_deref(), Some(Path::new(&path)));
    }
}

async fn frames(bytes: &[u8], capacity: usize) -> Vec<Frame> {
    let mut input = BufReader::with_capacity(capacity, bytes);
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = framing::read(&mut input).await {
        frames.push(frame);
    }
    frames
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_language_server_may_send_anything() {
        let words = [
            "Content-Length: ",
            "content-length:",
            "\r\n\r\n",
            "\n",
            "99999999999999999999",
            "-1",
            "{}",
            "\"method\":",
            "\"params\":",
            "\"result\":",
            "null",
            "[",
            "]",
            "\"range\":",
            "\"start\":",
            "\"line\":",
            "\"uri\":\"file:///\"",
            "%",
            "18446744073709551615",
        ];
        lathe_fuzzing::run("language_server", 2000, &words, super::fuzz_language_server);
    }
}
