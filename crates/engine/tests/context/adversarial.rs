//! Compaction under attack: each case ends in progress or in a clear stop, and never goes round in
//! circles.

use crate::support::{Place, Talk, chatter, wants_summary};
use lathe_protocol::content::{Content, ContentBlock};
use lathe_protocol::event::{NoticeLevel, TerminalReason};
use lathe_protocol::op::Prompt;
use lathe_scripted::{Reply, Scenario};

/// A model that talks much and sums up badly.
fn bad_at_summaries(summary: impl Fn() -> Reply + Send + Sync + 'static) -> Scenario {
    Scenario::new().responder(move |request| {
        if wants_summary(request) {
            summary()
        } else {
            Reply::text("answer ".repeat(300))
        }
    })
}

/// Talks on until automatic compaction gives up.
async fn talk_on(place: &Place, talk: &mut Talk, turns: usize) {
    for number in 0..turns {
        let result = talk
            .say(format!("prompt {number} {}", "word ".repeat(300)))
            .await;
        assert!(!result.is_error, "{result:?}");
    }
    assert!(
        place.summary_requests() <= 3,
        "{} attempts",
        place.summary_requests()
    );
    let off: Vec<_> = talk
        .seen
        .notices
        .iter()
        .filter(|(level, text)| {
            *level == NoticeLevel::Warning && text.contains("automatic compaction is off")
        })
        .collect();
    assert_eq!(off.len(), 1, "{:?}", talk.seen.notices);
}

#[tokio::test]
async fn a_summary_larger_than_the_conversation_changes_nothing_and_ends_after_three() {
    let place = Place::new(
        bad_at_summaries(|| Reply::text("more and more words ".repeat(20_000))),
        40_000,
    )
    .await;
    let mut talk = place.open().await;
    talk_on(&place, &mut talk, 50).await;
    assert!(talk.seen.compactions.is_empty());
    // Nothing was lost: the first words are still sent.
    let last = place.main_requests().pop().unwrap();
    assert!(last.messages()[0].to_string().contains("prompt 0 "));
    talk.finish().await;
}

#[tokio::test]
async fn an_empty_summary_changes_nothing_and_ends_after_three() {
    let place = Place::new(bad_at_summaries(|| Reply::text(" ")), 40_000).await;
    let mut talk = place.open().await;
    talk_on(&place, &mut talk, 50).await;
    assert!(talk.seen.compactions.is_empty());
    talk.finish().await;
}

#[tokio::test]
async fn a_summary_that_fails_changes_nothing_and_ends_after_three() {
    let place = Place::new(bad_at_summaries(|| Reply::error(500)), 40_000).await;
    let mut talk = place.open().await;
    talk_on(&place, &mut talk, 50).await;
    assert!(talk.seen.compactions.is_empty());
    talk.finish().await;
}

#[tokio::test]
async fn a_prompt_that_is_too_long_twice_ends_the_turn_with_a_word() {
    let scenario = Scenario::new().responder(|request| {
        if wants_summary(request) {
            Reply::text("short summary")
        } else {
            Reply::error_with(
                400,
                "invalid_request_error",
                "prompt is too long: 210000 tokens > 200000 maximum",
            )
        }
    });
    let place = Place::new(scenario, 200_000).await;
    let mut talk = place.open().await;
    let result = talk.say("words ".repeat(500)).await;
    assert!(result.is_error);
    assert_eq!(result.terminal_reason, TerminalReason::PromptTooLong);
    assert!(!result.text.is_empty());
    assert_eq!(place.summary_requests(), 1);
    assert_eq!(place.main_requests().len(), 2);
    talk.finish().await;
}

#[tokio::test]
async fn a_window_smaller_than_the_system_prompt_is_said_and_not_compacted() {
    let place = Place::new(chatter(5), 1_500).await;
    let mut talk = place.open().await;
    for _ in 0..3 {
        talk.say("hello").await;
    }
    assert_eq!(place.summary_requests(), 0);
    let told = talk
        .seen
        .notices
        .iter()
        .filter(|(_, text)| text.contains("Compaction can't help"))
        .count();
    assert_eq!(told, 1, "{:?}", talk.seen.notices);
    talk.finish().await;
}

#[tokio::test]
async fn a_five_megabyte_result_costs_a_preview() {
    let scenario = Scenario::new()
        .reply(Reply::tool_use(
            "Bash",
            serde_json::json!({"command": "head -c 5000000 /dev/zero | tr '\\0' x"}),
        ))
        .reply(Reply::text("long"));
    let place = Place::new(scenario, 40_000).await;
    let mut talk = place.open().await;
    let result = talk.say("print much").await;
    assert!(!result.is_error, "{result:?}");
    let request = place.server.message_requests().pop().unwrap();
    assert!(request.raw_body.len() < 100_000);
    talk.finish().await;
}

#[tokio::test]
async fn a_five_megabyte_prompt_ends_in_progress() {
    // The provider refuses what doesn't fit, as the real one does.
    let place = Place::new(chatter(5).context_window(40_000), 40_000).await;
    let mut talk = place.open().await;
    let result = talk.say("word ".repeat(1_000_000)).await;
    assert!(
        !result.is_error || result.terminal_reason == TerminalReason::PromptTooLong,
        "{result:?}"
    );
    assert!(place.summary_requests() <= 4);
    let result = talk.say("are you there?").await;
    assert!(!result.is_error, "{result:?}");
    talk.finish().await;
}

#[tokio::test]
async fn a_thousand_images_end_in_progress() {
    // Each claims to be large, so the window is full after a few dozen.
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    png.extend_from_slice(&1_000u32.to_be_bytes());
    png.extend_from_slice(&1_000u32.to_be_bytes());
    png.extend_from_slice(&[8, 2, 0, 0, 0, 0, 0, 0, 0]);
    // As many bytes as the scripted provider counts tokens for.
    png.extend_from_slice(&[0; 4_500]);
    let data = base64_of(&png);
    let place = Place::new(chatter(5), 100_000).await;
    let mut talk = place.open().await;
    for number in 0..50 {
        let mut blocks = vec![ContentBlock::text(format!("look, part {number}"))];
        blocks.extend((0..20).map(|_| ContentBlock::image("image/png", data.clone())));
        let mut prompt = Prompt::new(String::new());
        prompt.content = Content::Blocks(blocks);
        talk.send(prompt);
        let result = talk.result().await;
        assert!(!result.is_error, "{result:?}");
    }
    let seen = talk.finish().await;
    assert!(!seen.compactions.is_empty());
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_request_for_a_summary_that_is_too_long_loses_images_and_old_rounds_first() {
    // The declared window is larger than the real one: only the provider's word tells.
    let place = Place::new(chatter(200).context_window(30_000), 2_000_000).await;
    let mut talk = place.open().await;
    for number in 0..60 {
        let result = talk
            .say(format!("prompt {number} {}", "word ".repeat(200)))
            .await;
        assert!(!result.is_error, "{result:?}");
    }
    assert!(!talk.seen.compactions.is_empty());
    talk.finish().await;
}

fn base64_of(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let all = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let letter = ALPHABET[(all >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() {
                letter as char
            } else {
                '='
            });
        }
    }
    text
}
