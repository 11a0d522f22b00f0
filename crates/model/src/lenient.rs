//! JSON as servers write it: text that can't be text is replaced instead of losing the answer.
//!
//! Servers that cut their output into pieces of bytes or of UTF-16 send halves of characters: bytes that are no UTF-8, and
//! escapes of one half of a surrogate pair (`\ud83d`). Both become U+FFFD.

use serde::de::DeserializeOwned;

/// Parses JSON, with halves of characters replaced if there are any.
pub(crate) fn parse<T: DeserializeOwned>(data: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(data).or_else(|error| match mended(data) {
        Some(whole) => serde_json::from_slice(&whole),
        None => Err(error),
    })
}

/// The same JSON with halves of characters replaced; `None` if there are none.
pub(crate) fn mended(data: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(data);
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let first = code_unit(escape);
        let second = escape.get(6..).and_then(code_unit);
        let (taken, is_half) = match (first, second) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (12, false),
            (Some(0xD800..=0xDFFF), _) => (6, true),
            (Some(_), _) => (6, false),
            // `\\` and `\"` must not be taken for the beginning of the next escape.
            (None, _) => (escape.chars().take(2).map(char::len_utf8).sum(), false),
        };
        let (escape, after) = escape.split_at(taken);
        out.push_str(if is_half { "\\ufffd" } else { escape });
        rest = after;
    }
    out.push_str(rest);
    (out.as_bytes() != data).then(|| out.into_bytes())
}

/// The number of an escape such as `\u00e9` at the beginning of a text.
fn code_unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| all_digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn halves_of_characters_are_replaced_and_everything_else_stays() {
        for (data, expected) in [
            (&br#"{"a":"x\ud83d"}"#[..], json!({"a": "x\u{fffd}"})),
            (br#"{"a":"\ude00 y"}"#, json!({"a": "\u{fffd} y"})),
            (br#"{"a":"\ud83d\ud83d\ude00"}"#, json!({"a": "\u{fffd}😀"})),
            (
                br#"{"a":"\\ud83d \ud83d"}"#,
                json!({"a": "\\ud83d \u{fffd}"}),
            ),
            (b"{\"a\":\"x\xf0\x9f\"}", json!({"a": "x\u{fffd}"})),
            (br#"{"a":"\"\\\n\u00e9"}"#, json!({"a": "\"\\\né"})),
        ] {
            let parsed: Value = parse(data).unwrap();
            assert_eq!(parsed, expected, "{}", String::from_utf8_lossy(data));
        }
    }

    #[test]
    fn what_is_whole_is_not_touched_and_what_is_broken_stays_broken() {
        for data in [
            &br#"{"a":"\ud83d\ude00 \\u \" \u00e9"}"#[..],
            br#"{"a":"\u12"#,
            br#"{"a":"\"#,
            "{\"a\":\"\\é\"}".as_bytes(),
        ] {
            assert_eq!(mended(data), None, "{}", String::from_utf8_lossy(data));
        }
        assert!(parse::<Value>(br#"{"a":"\ud83d"#).is_err());
        // Mending once is enough.
        let once = mended(b"\"\\ud83d\xff\\\"").unwrap();
        assert_eq!(mended(&once), None);
    }
}
