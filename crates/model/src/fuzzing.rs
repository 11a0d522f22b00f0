//! The fuzz targets of this crate's parsers, for the tests and for `fuzz/`.

use crate::anthropic::events;
use crate::assemble::MessageAssembler;
use crate::chat::Chat;
use crate::cloud::translate::{Cloud, OnCloud};
use crate::gemini::Gemini;
use crate::provider::Transfer;
use crate::providers::{Kind, ModelFacts, ProviderEntry};
use crate::request::ModelRequest;
use crate::responses::Responses;
use crate::text_calls::Mode;
use crate::text_calls::prompt::Prompts;
use crate::text_calls::read::Reader;
use crate::wire::Translator;
use crate::wire::decoding::Decode;
use crate::wire::emit::Emitter;
use lathe_net::sse::{SseDecoder, SseEvent};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::stream::StreamPiece;
use serde_json::Value;
use std::sync::Arc;

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

/// A stream of another family is read the same in any pieces, and what is made of it is a message or an error. The first
/// byte chooses the family: `r` Responses, `g` Gemini, `w` calls in words, else Chat Completions.
pub fn fuzz_dialects(bytes: &[u8]) {
    let Some((family, stream)) = bytes.split_first() else {
        return;
    };
    let whole = answer(*family, stream, stream.len().max(1));
    for size in [1, 3, 16] {
        assert_eq!(answer(*family, stream, size), whole, "in chunks of {size}");
    }
    // A whole document is taken, too.
    let mut emitter = Emitter::new("m");
    let _ = decoder(*family).whole(stream, &mut emitter);
    let _ = assembled(pieces(&mut emitter));
}

/// Frames are read the same in any pieces, whatever they hold.
pub fn fuzz_event_frames(bytes: &[u8]) {
    let read = |size: usize| {
        let cloud = OnCloud {
            cloud: Cloud::Bedrock,
        };
        let mut decoder = prepared(&cloud);
        let mut emitter = Emitter::new("m");
        let mut fine = true;
        for chunk in bytes.chunks(size) {
            fine = fine && matches!(decoder.frames(chunk, &mut emitter), Some(Ok(())));
        }
        let fine = fine && decoder.end(&mut emitter).is_ok();
        (assembled(pieces(&mut emitter)), fine)
    };
    let whole = read(bytes.len().max(1));
    for size in [1, 5, 64] {
        assert_eq!(read(size), whole, "in chunks of {size}");
    }
}

fn request() -> ModelRequest {
    let mut request = ModelRequest::new("m", 100);
    let tools = r#"[{"name":"Read","description":"reads","input_schema":{"type":"object","properties":{"path":{}}}},{"name":"Bash","description":"runs","input_schema":{"type":"object"}}]"#;
    request.tools = tools.into();
    request
}

fn prepared(translator: &dyn Translator) -> Box<dyn Decode> {
    match translator.prepare(&request(), Transfer::Streaming) {
        Ok(prepared) => prepared.decoder,
        Err(error) => unreachable!("a plain request is prepared: {error}"),
    }
}

fn decoder(family: u8) -> Box<dyn Decode> {
    let facts = Arc::new(|_: &str| ModelFacts::default());
    let entry = |kind| Arc::new(ProviderEntry::new("house", kind, Some("http://h/v1")));
    match family {
        b'r' => prepared(&Responses::new(entry(Kind::Responses), facts)),
        b'g' => prepared(&Gemini::new(entry(Kind::Gemini), facts)),
        _ => prepared(&Chat::new(entry(Kind::Chat), facts)),
    }
}

fn pieces(emitter: &mut Emitter) -> Vec<StreamPiece> {
    std::iter::from_fn(|| emitter.pop()).collect()
}

/// The content of a stream, and whether it is complete.
fn answer(family: u8, stream: &[u8], size: usize) -> (Vec<String>, bool) {
    let mut decoder = decoder(family);
    let (mut sse, mut emitter) = (SseDecoder::default(), Emitter::new("m"));
    let mut fine = true;
    for chunk in stream.chunks(size) {
        sse.push(chunk);
        while let Ok(Some(event)) = sse.next_event() {
            if let Some(data) = event.data.filter(|_| fine && !emitter.is_ended()) {
                fine = decoder.event(&event.name, &data, &mut emitter).is_ok();
            }
        }
    }
    let fine = fine && (emitter.is_ended() || decoder.end(&mut emitter).is_ok());
    let mut pieces = pieces(&mut emitter);
    if family == b'w' {
        let offered = Prompts::default().offered(&request());
        let mut reader = Reader::new(offered, Mode::Prompted);
        pieces.drain(..).for_each(|piece| reader.take(piece));
        reader.finish();
        pieces = std::iter::from_fn(|| reader.pop()).collect();
    }
    (assembled(pieces), fine)
}

/// The blocks of an answer, without the ids that are made.
fn assembled(pieces: Vec<StreamPiece>) -> Vec<String> {
    let mut assembler = MessageAssembler::default();
    for piece in pieces {
        let _ = assembler.feed(&piece.event);
    }
    let Ok(message) = assembler.finish() else {
        return Vec::new();
    };
    let shown = |block: &ContentBlock| match block {
        ContentBlock::ToolUse(call) => format!("{}({})", call.name, call.input),
        other => serde_json::to_value(other)
            .unwrap_or(Value::Null)
            .to_string(),
    };
    message.content.iter().map(shown).collect()
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

    #[test]
    fn streams_of_other_families_are_read_the_same_in_any_pieces() {
        let words = [
            "data: ",
            "\n\n",
            "[DONE]",
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "```json",
            "\"arguments\":",
            "\"tool_calls\":[",
            "\"error\":",
            "\"index\":0",
            "\"delta\":",
            "\"type\":\"response.completed\"",
            "null",
            "{}",
            "\u{feff}",
        ];
        lathe_fuzzing::run("dialects", 1000, &words, super::fuzz_dialects);
    }

    #[test]
    fn frames_are_read_the_same_in_any_pieces() {
        let words = [
            "\0\0\0\u{10}",
            ":message-type",
            "event",
            "exception",
            "\u{7}",
        ];
        lathe_fuzzing::run("event_frames", 1000, &words, super::fuzz_event_frames);
    }
}
