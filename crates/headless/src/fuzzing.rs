//! The fuzz target of this crate's parsers, for the tests and for `fuzz/`.

use crate::sdk::input::{Line, next_line};
use lathe_protocol::frame::HostFrame;
use std::io::BufReader;

/// The lines of a host are the same whatever the size of the reads, and each is a frame or an error.
pub fn fuzz_sdk_frames(bytes: &[u8]) {
    let whole = lines(bytes, 1 << 16);
    assert_eq!(lines(bytes, 3), whole);
    for line in whole {
        let Line::Text(text) = line else { continue };
        if let Err(error) = HostFrame::parse(&text) {
            assert!(!error.to_string().is_empty());
        }
    }
}

fn lines(bytes: &[u8], capacity: usize) -> Vec<Line> {
    let mut reader = BufReader::with_capacity(capacity, bytes);
    std::iter::from_fn(|| next_line(&mut reader)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_line_of_a_host_is_a_frame_or_an_error() {
        let words = [
            "\n",
            "\r\n",
            "{",
            "}",
            "\"type\":",
            "\"user\"",
            "\"control_request\"",
            "\"control_response\"",
            "\"request_id\":",
            "\"request\":",
            "\"subtype\":",
            "null",
            "[]",
            "\"message\":",
            "\"content\":",
            "{}",
        ];
        lathe_fuzzing::run("sdk_frames", 2000, &words, super::fuzz_sdk_frames);
    }
}
