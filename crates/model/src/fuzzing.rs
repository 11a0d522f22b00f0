//! The fuzz target of this crate's parsers, for the tests and for `fuzz/`.

use crate::anthropic::events;
use crate::assemble::MessageAssembler;
use lathe_net::sse::{SseDecoder, SseEvent};

/// A stream of server-sent events gives the same events however it is cut into chunks, and an answer is put
/// together from whatever they say.
pub fn fuzz_sse(bytes: &[u8]) {
    let whole = decoded(bytes, bytes.len().max(1));
    for size in [1, 2, 7] {
        assert_eq!(decoded(bytes, size), whole, "in chunks of {size}");
    }
    let mut assembler = MessageAssembler::default();
    for event in whole {
        if let Ok(Some(read)) = events::read(event, None) {
            // An event that doesn't fit is an error, never a panic.
            let _ = assembler.feed(&read.event);
        }
    }
    let _ = (assembler.partial(), assembler.text());
    let _ = assembler.finish();
}

fn decoded(bytes: &[u8], size: usize) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::default();
    let mut events = Vec::new();
    for chunk in bytes.chunks(size) {
        decoder.push(chunk);
        while let Ok(Some(event)) = decoder.next_event() {
            events.push(event);
        }
    }
    events.extend(decoder.finish());
    events
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_stream_is_read_the_same_in_any_pieces() {
        let words = [
            "data: ",
            "event: ",
            "\n\n",
            "\r\n",
            "\r",
            ":",
            "[DONE]",
            "\u{feff}",
            "{}",
            "\"type\":",
            "content_block_delta",
            "message_stop",
            "input_json_delta",
            "null",
            "-1",
            "1e999",
        ];
        lathe_fuzzing::run("sse", 1000, &words, super::fuzz_sse);
    }
}
