//! Images and documents: the media type is allowed, the base64 is sound, the size fits, and the
//! bytes are what the media type says.

use serde_json::Value;

/// Limits of the API, in base64 characters.
const IMAGE_LIMIT: usize = 5 * 1024 * 1024;
const DOCUMENT_LIMIT: usize = 32 * 1024 * 1024;

/// Checks the `source` of an image or a document.
pub(crate) fn check(block: &Value, kind: &str, path: &str, problems: &mut Vec<String>) {
    let source = &block["source"];
    match source["type"].as_str() {
        Some("base64") => {}
        Some("url" | "file") => return,
        Some("text" | "content") if kind == "document" => return,
        other => {
            problems.push(format!("{path}.source.type: {other:?} is not allowed"));
            return;
        }
    }
    let media_type = source["media_type"].as_str().unwrap_or_default();
    let data = source["data"].as_str().unwrap_or_default();
    let allowed: &[&str] = if kind == "image" {
        &["image/jpeg", "image/png", "image/gif", "image/webp"]
    } else {
        &["application/pdf"]
    };
    if !allowed.contains(&media_type) {
        problems.push(format!(
            "{path}.source.media_type: {media_type:?} is none of {allowed:?}"
        ));
    }
    if !is_base64(data) {
        problems.push(format!("{path}.source.data: not valid base64"));
        return;
    }
    let limit = if kind == "image" {
        IMAGE_LIMIT
    } else {
        DOCUMENT_LIMIT
    };
    if data.len() > limit {
        problems.push(format!(
            "{path}.source.data: {kind} exceeds the maximum: {} bytes > {limit} bytes",
            data.len()
        ));
    }
    let start = decode_start(data);
    let matches = match media_type {
        "image/jpeg" => start.starts_with(&[0xff, 0xd8, 0xff]),
        "image/png" => start.starts_with(b"\x89PNG"),
        "image/gif" => start.starts_with(b"GIF8"),
        "image/webp" => start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP"),
        "application/pdf" => start.starts_with(b"%PDF-"),
        _ => true,
    };
    if !matches {
        problems.push(format!("{path}.source: the bytes are not {media_type}"));
    }
}

/// Whether the text is padded standard base64 of at least one byte.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !body.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|byte| value_of(byte).is_some())
}

/// The first bytes, enough for a file signature.
fn decode_start(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for value in text.bytes().take(16).map_while(value_of) {
        bits = (bits << 6) | value;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}

fn value_of(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems_of(kind: &str, media_type: &str, data: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let block = json!({"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}});
        check(&block, kind, "content.0", &mut problems);
        problems
    }

    #[test]
    fn sound_media_pass() {
        assert_eq!(
            problems_of("image", "image/png", "iVBORw0KGgo="),
            Vec::<String>::new()
        );
        assert_eq!(
            problems_of("image", "image/gif", "R0lGODlh"),
            Vec::<String>::new()
        );
        assert_eq!(
            problems_of("document", "application/pdf", "JVBERi0xLjQK"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn wrong_media_are_named() {
        assert!(problems_of("image", "image/bmp", "Qk0AAAAA")[0].contains("image/bmp"));
        assert!(problems_of("image", "image/png", "iVBORw0KGg")[0].contains("base64"));
        assert!(problems_of("image", "image/png", "iVBO Rw0")[0].contains("base64"));
        assert!(problems_of("image", "image/png", "R0lGODlh")[0].contains("not image/png"));
        let huge = format!("iVBORw0K{}", "A".repeat(IMAGE_LIMIT));
        assert!(problems_of("image", "image/png", &huge)[0].contains("exceeds"));
    }
}
