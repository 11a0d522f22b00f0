//! Guessing tokens where nobody counted them.
//!
//! The API reports what a request was; between two requests the engine must know how close the
//! context window is. These are guesses, a little on the high side, made in one pass over the bytes,
//! once per message: the sum grows with the conversation and nothing is counted twice.

use base64::Engine as _;
use lathe_protocol::content::{Content, ContentBlock, Source};
use lathe_protocol::usage::Usage;
use serde_json::Value;

/// The cost of a message beside its content: roles and separators.
const PER_MESSAGE: u64 = 4;
/// The cost of a block beside its content: type, ids.
const PER_BLOCK: u64 = 8;
/// An image whose size isn't known, and the most that one costs.
const IMAGE_MOST: u64 = 1_600;
/// Pixels per token of an image.
const PIXELS_PER_TOKEN: u64 = 750;
/// Bytes of a PDF per token: a page of 50 KB is about 2,000 tokens of text and picture.
const PDF_BYTES_PER_TOKEN: u64 = 25;

/// Tokens of a text, prose or code. The weights are fitted to two public tokenizers on code, prose,
/// JSON, listings and eight languages (`tests/data/tokens.json`), a little on the high side.
#[must_use]
pub fn text(text: &str) -> u64 {
    let mut before = Kind::Other;
    let mut hundredths: u64 = 0;
    for byte in text.bytes() {
        let cost = &COSTS[before as usize][usize::from(byte)];
        before = cost.kind;
        hundredths += u64::from(cost.hundredths);
    }
    hundredths.div_ceil(100)
}

/// The kind of the previous character: runs of letters and digits cost where they begin.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Letter,
    Digit,
    Blank,
    Blanks,
    Other,
}

/// The cost of a byte after a kind of character, and its own kind.
#[derive(Clone, Copy)]
struct Cost {
    kind: Kind,
    hundredths: u16,
}

/// Every byte after every kind: each text of a conversation is looked at byte by byte, so what to add is
/// looked up.
static COSTS: [[Cost; 256]; 5] = [
    costs(Kind::Letter),
    costs(Kind::Digit),
    costs(Kind::Blank),
    costs(Kind::Blanks),
    costs(Kind::Other),
];

const fn costs(before: Kind) -> [Cost; 256] {
    let mut all = [Cost {
        kind: Kind::Other,
        hundredths: 0,
    }; 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = cost(before, byte as u8);
        byte += 1;
    }
    all
}

const fn cost(before: Kind, byte: u8) -> Cost {
    let (kind, hundredths) = match byte {
        b'a'..=b'z' | b'A'..=b'Z' if matches!(before, Kind::Letter) => (Kind::Letter, 27),
        b'a'..=b'z' | b'A'..=b'Z' => (Kind::Letter, 42),
        b'0'..=b'9' if matches!(before, Kind::Digit) => (Kind::Digit, 35),
        b'0'..=b'9' => (Kind::Digit, 185),
        // One blank belongs to the word after it; a run of them is a piece of its own.
        b' ' | b'\t' => match before {
            Kind::Blank => (Kind::Blanks, 51),
            Kind::Blanks => (Kind::Blanks, 0),
            _ => (Kind::Blank, 0),
        },
        b'\n' | b'\r' => (Kind::Other, 135),
        0x00..=0x7f => (Kind::Other, 27),
        // Continuation bytes are counted with the byte that begins the character.
        0x80..=0xbf => (before, 0),
        // Latin with accents, Greek, Cyrillic, Hebrew, Arabic: pieces of about two letters.
        0xc0..=0xdf => (Kind::Other, 47),
        // Japanese syllables.
        0xe3 => (Kind::Other, 96),
        // Chinese characters.
        0xe4..=0xe9 => (Kind::Other, 71),
        // Korean syllables.
        0xea..=0xed => (Kind::Other, 118),
        // Indic, Thai, signs.
        0xe0..=0xe2 | 0xee..=0xef => (Kind::Other, 110),
        // Emoji and rare scripts.
        0xf0..=0xff => (Kind::Other, 260),
    };
    Cost { kind, hundredths }
}

/// A guess at the input tokens of a request, from its bytes: it costs nothing however long the request is.
#[must_use]
pub fn request(request: &crate::ModelRequest) -> u64 {
    let messages: usize = request
        .messages
        .iter()
        .map(|message| message.bytes.len())
        .sum();
    let bytes = request.system.len() + request.tools.len() + messages;
    (bytes as u64).div_ceil(4)
}

/// Tokens of a JSON value as text.
#[must_use]
pub fn json(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(number) => text(&number.to_string()),
        Value::String(string) => text(string) + 1,
        Value::Array(items) => 1 + items.iter().map(|item| json(item) + 1).sum::<u64>(),
        Value::Object(fields) => {
            1 + fields
                .iter()
                .map(|(name, field)| text(name) + json(field) + 2)
                .sum::<u64>()
        }
    }
}

/// Tokens of one message.
#[must_use]
pub fn message(blocks: &[ContentBlock]) -> u64 {
    PER_MESSAGE + blocks.iter().map(block).sum::<u64>()
}

/// Tokens of one block.
#[must_use]
pub fn block(block: &ContentBlock) -> u64 {
    PER_BLOCK
        + match block {
            ContentBlock::Text(words) => text(&words.text),
            ContentBlock::Thinking(reasoning) => text(&reasoning.thinking),
            ContentBlock::RedactedThinking(reasoning) => reasoning.data.len() as u64 / 4,
            ContentBlock::ToolUse(call) => text(&call.name) + json(&call.input),
            ContentBlock::ToolResult(result) => result.content.as_ref().map_or(0, content),
            ContentBlock::Image(image) => image_source(&image.source),
            ContentBlock::Document(document) => document_source(&document.source),
            ContentBlock::Other(value) => json(value),
        }
}

/// Tokens of a message's or a tool result's content.
#[must_use]
pub fn content(content: &Content) -> u64 {
    match content {
        Content::Text(words) => text(words),
        Content::Blocks(blocks) => blocks.iter().map(block).sum(),
    }
}

fn image_source(source: &Source) -> u64 {
    match source {
        Source::Base64 { data, .. } => dimensions(data).map_or(IMAGE_MOST, |(width, height)| {
            (width * height)
                .div_ceil(PIXELS_PER_TOKEN)
                .clamp(1, IMAGE_MOST)
        }),
        Source::Other(_) => IMAGE_MOST,
    }
}

fn document_source(source: &Source) -> u64 {
    match source {
        Source::Base64 { data, .. } => {
            (data.len() as u64 / 4 * 3 / PDF_BYTES_PER_TOKEN).max(PER_BLOCK)
        }
        Source::Other(value) => match value.get("data").and_then(Value::as_str) {
            Some(words) => text(words),
            None => json(value),
        },
    }
}

/// Width and height from the first bytes of a PNG or GIF; other formats keep them elsewhere.
fn dimensions(base64_text: &str) -> Option<(u64, u64)> {
    let head = base64_text.get(..32)?;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(head)
        .ok()?;
    let big = |at: usize| -> Option<u64> {
        Some(u64::from(u32::from_be_bytes(
            bytes.get(at..at + 4)?.try_into().ok()?,
        )))
    };
    let little = |at: usize| -> Option<u64> {
        Some(u64::from(u16::from_le_bytes(
            bytes.get(at..at + 2)?.try_into().ok()?,
        )))
    };
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some((big(16)?, big(20)?))
    } else if bytes.starts_with(b"GIF8") {
        Some((little(6)?, little(8)?))
    } else {
        None
    }
}

/// The size of a conversation: what the API last counted, and guesses for what came since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunningEstimate {
    counted: u64,
    guessed: u64,
}

impl RunningEstimate {
    /// Adds a guess for something new: a message, a system prompt, tools.
    pub fn add(&mut self, tokens: u64) {
        self.guessed += tokens;
    }

    /// Takes over the API's count. Everything guessed so far is in it, and so is the response.
    pub fn counted(&mut self, usage: &Usage) {
        self.counted = usage.total_input() + usage.output_tokens;
        self.guessed = 0;
    }

    /// Forgets everything, as after a compaction.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Tokens in the conversation.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.counted + self.guessed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn guesses_are_near_what_tokenizers_count() {
        // Token counts of these texts by current tokenizers lie in the given ranges.
        let prose = "The quick brown fox jumps over the lazy dog, and then it sleeps. ".repeat(20);
        let code =
            "fn main() {\n    let x = vec![1, 2, 3];\n    println!(\"{:?}\", x);\n}\n".repeat(20);
        let chinese = "今天天气很好，我们去公园散步吧。".repeat(20);
        let cases = [(prose, 280..460), (code, 400..760), (chinese, 240..480)];
        for (sample, range) in cases {
            let tokens = text(&sample);
            assert!(
                range.contains(&tokens),
                "{tokens} not in {range:?}: {}",
                &sample[..20]
            );
        }
        assert_eq!(text(""), 0);
        assert_eq!(text("a"), 1);
    }

    #[test]
    fn an_image_costs_by_its_pixels_not_by_its_bytes() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend_from_slice(&300u32.to_be_bytes());
        png.extend_from_slice(&250u32.to_be_bytes());
        png.extend_from_slice(&[0; 3000]);
        let data = base64::engine::general_purpose::STANDARD.encode(&png);
        assert_eq!(
            block(&ContentBlock::image("image/png", data)),
            PER_BLOCK + 100
        );
        let jpeg = ContentBlock::image("image/jpeg", "A".repeat(4_000_000));
        assert_eq!(block(&jpeg), PER_BLOCK + IMAGE_MOST);
    }

    #[test]
    fn a_call_and_its_result_count_with_their_contents() {
        let call = ContentBlock::from_value(
            json!({"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a/b/c.rs"}}),
        )
        .unwrap();
        assert!(block(&call) > PER_BLOCK + 5);
        let small = ContentBlock::tool_result("t".into(), "ok", false);
        let large = ContentBlock::tool_result("t".into(), "word ".repeat(1000), false);
        assert!(message(&[large]) > message(&[small]) + 900);
    }

    #[test]
    fn the_apis_count_replaces_the_guesses() {
        let mut estimate = RunningEstimate::default();
        estimate.add(1000);
        let usage = Usage {
            input_tokens: 10,
            cache_read_input_tokens: 700,
            output_tokens: 50,
            ..Usage::default()
        };
        estimate.counted(&usage);
        estimate.add(40);
        assert_eq!(estimate.tokens(), 800);
    }
}
