//! The request for a summary and what comes of it: making the conversation fit once more, and taking the
//! scratch work out of the answer. All of it is pure.

use lathe_model::ModelError;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::encoded::{EncodedMessage, EncodedMessages};
use lathe_protocol::message::{Message, Role};

/// A block of a summary's request that is longer is shortened when the request is too long.
const LONG_BLOCK: usize = 12_000;

/// The beginning of a text, with a word about the rest.
pub(crate) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((at, _)) => format!(
            "{}\n[… {} more bytes omitted]",
            &text[..at],
            text.len() - at
        ),
    }
}

/// A summary without the scratch work that led to it.
pub(crate) fn without_scratch(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(start) = text.find("<analysis>") {
        match text[start..].find("</analysis>") {
            Some(end) => text.replace_range(start..start + end + "</analysis>".len(), ""),
            // It never got to the summary.
            None => text.truncate(start),
        }
    }
    let inner = text.split_once("<summary>").map(|(_, rest)| {
        rest.split_once("</summary>")
            .map_or(rest, |(inner, _)| inner)
    });
    inner.unwrap_or(&text).trim().to_owned()
}

/// Takes images out of messages and shortens long blocks. Returns whether that changed anything.
pub(crate) fn slim(messages: &mut [EncodedMessage]) -> bool {
    let mut changed = false;
    for message in messages {
        let worth_a_look = message.bytes.len() > LONG_BLOCK
            || memchr::memmem::find(&message.bytes, b"\"type\":\"base64\"").is_some();
        if !worth_a_look {
            continue;
        }
        let Ok(decoded) = serde_json::from_slice::<Message>(&message.bytes) else {
            continue;
        };
        let mut blocks = decoded.content.into_blocks();
        let mut shorter = false;
        for block in &mut blocks {
            shorter |= slim_block(block);
        }
        if shorter && let Ok(encoded) = EncodedMessage::new(message.role, &blocks) {
            *message = encoded;
            changed = true;
        }
    }
    changed
}

fn slim_block(block: &mut ContentBlock) -> bool {
    match block {
        ContentBlock::Image(_) | ContentBlock::Document(_) => {
            let kind = block.kind().to_owned();
            *block = ContentBlock::text(format!("[{kind}]"));
            true
        }
        ContentBlock::Text(text) if text.text.len() > LONG_BLOCK => {
            text.text = middle_out(&text.text);
            true
        }
        ContentBlock::ToolResult(result) => match &mut result.content {
            Some(Content::Text(text)) if text.len() > LONG_BLOCK => {
                *text = middle_out(text);
                true
            }
            Some(Content::Blocks(inner)) => {
                let mut shorter = false;
                for block in inner {
                    shorter |= slim_block(block);
                }
                shorter
            }
            _ => false,
        },
        _ => false,
    }
}

/// The two ends of a text.
fn middle_out(text: &str) -> String {
    let (mut head, mut tail) = (LONG_BLOCK / 3, text.len() - LONG_BLOCK / 6);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!(
        "{}\n[… {} bytes omitted …]\n{}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

/// By what share the request is too long, when the API said so.
pub(crate) fn gap_share(error: &ModelError) -> Option<f64> {
    match error {
        #[expect(
            clippy::cast_precision_loss,
            reason = "token counts are far below 2^52"
        )]
        ModelError::PromptTooLong {
            tokens: Some(tokens),
            limit: Some(limit),
            ..
        } if tokens > limit && *tokens > 0 => {
            Some(((tokens - limit) as f64 / *tokens as f64 + 0.05).min(0.9))
        }
        _ => None,
    }
}

/// How many of the oldest messages to leave out so that about a share of the bytes goes.
pub(crate) fn next_skip(messages: &[EncodedMessage], skip: usize, share: f64) -> usize {
    let total: usize = messages
        .iter()
        .skip(skip)
        .map(|message| message.bytes.len())
        .sum();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a size that fits in memory"
    )]
    let wanted = (total as f64 * share) as usize;
    let mut gone = 0;
    let mut next = skip;
    for message in messages.iter().skip(skip) {
        if gone >= wanted && next > skip {
            break;
        }
        gone += message.bytes.len();
        next += 1;
    }
    next
}

/// The messages from `skip` on, with the directive at the end, in a shape that the API accepts.
pub(crate) fn with_directive(
    messages: &[EncodedMessage],
    skip: usize,
    directive: &str,
) -> EncodedMessages {
    let mut kept: Vec<EncodedMessage> = messages.get(skip..).unwrap_or_default().to_vec();
    if skip > 0 {
        // A conversation begins with the user, and a result needs its call.
        while kept
            .first()
            .is_some_and(|first| first.role == Role::Assistant || starts_with_result(first))
        {
            kept.remove(0);
        }
    }
    let note = ContentBlock::text(directive);
    match kept.pop() {
        Some(last) if last.role == Role::User => {
            let decoded: Option<Message> = serde_json::from_slice(&last.bytes).ok();
            let mut blocks = decoded
                .map(|message| message.content.into_blocks())
                .unwrap_or_default();
            blocks.push(note);
            kept.extend(EncodedMessage::new(Role::User, &blocks).ok());
        }
        Some(last) => {
            kept.push(last);
            kept.extend(EncodedMessage::new(Role::User, &[note]).ok());
        }
        None => kept.extend(EncodedMessage::new(Role::User, &[note]).ok()),
    }
    kept.into()
}

fn starts_with_result(message: &EncodedMessage) -> bool {
    message
        .bytes
        .starts_with(br#"{"role":"user","content":[{"type":"tool_result""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, text: &str) -> EncodedMessage {
        EncodedMessage::new(role, &[ContentBlock::text(text)]).unwrap()
    }

    #[test]
    fn what_is_left_begins_with_the_person_and_ends_with_the_directive() {
        let result = EncodedMessage::new(
            Role::User,
            &[ContentBlock::tool_result("t".into(), "r", false)],
        )
        .unwrap();
        let messages = [
            message(Role::User, "first"),
            message(Role::Assistant, "call"),
            result,
            message(Role::Assistant, "words"),
            message(Role::User, "second"),
        ];
        let kept = with_directive(&messages, 1, "sum up");
        assert_eq!(kept.len(), 1);
        let first = kept.get(0).unwrap();
        let text = std::str::from_utf8(&first.bytes).unwrap();
        assert!(text.contains("second") && text.contains("sum up"));
        assert_eq!(with_directive(&messages, 0, "sum up").len(), 5);
        assert_eq!(with_directive(&messages, 99, "sum up").len(), 1);
    }

    #[test]
    fn a_share_of_the_bytes_goes_and_always_something() {
        let messages: Vec<_> = (0..10).map(|_| message(Role::User, "0123456789")).collect();
        assert_eq!(next_skip(&messages, 0, 0.2), 2);
        assert_eq!(next_skip(&messages, 2, 0.0), 3);
        assert_eq!(next_skip(&messages, 10, 0.5), 10);
    }

    #[test]
    fn scratch_work_is_taken_out_of_a_summary() {
        assert_eq!(without_scratch("plain"), "plain");
        assert_eq!(
            without_scratch("<analysis>hm</analysis>\n<summary>\n1. all\n</summary> bye"),
            "1. all"
        );
        assert_eq!(without_scratch("<summary>cut off"), "cut off");
        assert_eq!(without_scratch("<analysis>never ends"), "");
    }

    #[test]
    fn images_and_long_blocks_are_shortened_and_the_rest_stays() {
        let image = ContentBlock::image("image/png", "AAAA");
        let long = "é".repeat(LONG_BLOCK);
        let mut messages = vec![
            message(Role::User, "short"),
            EncodedMessage::new(
                Role::User,
                &[
                    image,
                    ContentBlock::tool_result("t".into(), long.as_str(), false),
                ],
            )
            .unwrap(),
        ];
        let before = messages[0].clone();
        assert!(slim(&mut messages));
        assert_eq!(messages[0], before);
        let text = std::str::from_utf8(&messages[1].bytes).unwrap();
        assert!(text.contains("[image]") && text.contains("bytes omitted"));
        assert!(text.len() < LONG_BLOCK, "{}", text.len());
        assert!(!slim(&mut messages));
    }

    #[test]
    fn the_last_words_are_cut_with_a_note() {
        assert_eq!(cut("äö", 2), "äö");
        assert!(cut("äöü", 2).starts_with("äö\n[… 2 more bytes"));
    }
}
