//! Too much: an answer that is cut at the output limit, a prompt that doesn't fit, an image that is
//! refused.

use crate::{Run, conversation, frames_of};
use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::transcript::{self, Transcript};
use serde_json::json;

#[test]
fn an_answer_cut_at_the_small_limit_is_asked_for_again_with_the_large_one() {
    let run = Run::new(
        Scenario::new()
            .reply(Reply::text("half an ans").stop_reason("max_tokens"))
            .reply(Reply::text("the whole answer")),
    );
    run.succeeds(&[], "the whole answer");
    let requests = run.requests();
    assert_eq!(requests.len(), 2);
    let limit = |index: usize| requests[index].body["max_tokens"].as_u64().unwrap();
    assert!(limit(0) < limit(1), "{} then {}", limit(0), limit(1));
    assert_eq!(
        requests[0].messages().len(),
        requests[1].messages().len(),
        "same conversation"
    );
    assert!(!conversation(&requests[1]).contains("half an ans"));
    let path = &transcript::of_home(&run.home)[0];
    let transcript = Transcript::read(path);
    let conversation = transcript.conversation();
    let texts: Vec<String> = conversation
        .iter()
        // What the harness adds (the skills that there are) is not what was said.
        .filter(|record| record["isMeta"] != true)
        .map(|record| record["message"]["content"].to_string())
        .collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[1].contains("the whole answer"), "{texts:?}");
}

#[test]
fn an_answer_cut_at_the_large_limit_is_continued_where_it_stopped() {
    let cut = |text: &str| Reply::text(text).stop_reason("max_tokens");
    let run = Run::new(
        Scenario::new()
            .reply(cut("small"))
            .reply(cut("first part, "))
            .reply(cut("second part, "))
            .reply(Reply::text("third part")),
    );
    let output = run.go(&[]);
    run.server.finish();
    assert_eq!(
        output.result()["result"],
        "first part, second part, third part",
        "the pieces are one answer"
    );
    let requests = run.requests();
    assert_eq!(requests.len(), 4);
    let last = conversation(&requests[3]);
    assert!(
        last.contains("first part") && last.contains("second part"),
        "{last}"
    );
    assert!(
        !last.contains("small\""),
        "the small one was withdrawn: {last}"
    );
}

#[test]
fn a_model_that_never_comes_to_an_end_is_stopped_after_three_continuations() {
    let run = Run::new(
        Scenario::new().reply(
            Reply::text("more and more")
                .stop_reason("max_tokens")
                .forever(),
        ),
    );
    let output = run.go(&[]);
    // The small limit, the large limit, three continuations.
    assert_eq!(run.requests().len(), 5);
    let result = output.result();
    // An answer without its end is an error that names the limit; what there is of it was shown.
    assert_eq!(result["stop_reason"], "max_tokens", "{output:#?}");
    assert_eq!(result["terminal_reason"], "api_error", "{output:#?}");
    assert_eq!(
        (result["subtype"].as_str(), result["is_error"].as_bool()),
        (Some("success"), Some(true))
    );
    let told = result["result"].as_str().unwrap();
    assert!(
        told.starts_with("API Error: ") && told.contains("output limit") && told.contains("64000"),
        "{told}"
    );
    assert_eq!(output.code(), Some(1), "{output:#?}");
    let frames = output.frames();
    let answers = frames_of(&frames, "assistant");
    assert_eq!(answers.last().unwrap()["error"], "max_output_tokens");
    assert!(
        answers
            .iter()
            .filter(|frame| frame.to_string().contains("more and more"))
            .count()
            >= 4
    );
    run.server.finish();
}

/// A scenario where the first answer reads a file and the second request is refused.
fn refused_after_read(path: &str, refusal: Reply) -> Scenario {
    Scenario::new()
        .reply(Reply::tool_use("Read", json!({"file_path": path})))
        .reply(refusal)
        .reply(Reply::text("all right now").forever())
}

/// Fault: The conversation is too long for the model
/// Seen: A compaction, then the answer
/// Kept: The summary and the newest messages; the transcript has all of it
#[test]
fn a_prompt_that_is_too_long_is_compacted_and_sent_again() {
    for refusal in [
        Reply::error_with(
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
        ),
        Reply::error(413),
    ] {
        let run = Run::new(Scenario::new());
        let path = run.home.write("notes.txt", "some notes\n".repeat(100));
        let server =
            BlockingServer::start(refused_after_read(path.to_str().unwrap(), refusal)).unwrap();
        let run = Run {
            home: run.home.server(&server),
            server,
        };
        let output = run.succeeds(&[], "all right now");
        let frames = output.frames();
        assert_eq!(
            frames_of(&frames, "compact_boundary").len(),
            1,
            "{output:#?}"
        );
        let requests = run.requests();
        let last = requests.last().unwrap();
        assert!(
            !conversation(last).contains("tool_use"),
            "{}",
            conversation(last)
        );
    }
}

#[test]
fn a_prompt_that_stays_too_long_ends_in_a_clear_error() {
    let refusal = Reply::error_with(
        400,
        "invalid_request_error",
        "prompt is too long: 210000 tokens > 200000 maximum",
    );
    let run = Run::new(Scenario::new().reply(refusal.forever()));
    let output = run.fails(&[], &["too long"]);
    assert_eq!(
        output.result()["terminal_reason"],
        "prompt_too_long",
        "{output:#?}"
    );
    assert!(run.requests().len() < 12, "not tried for ever");
}

#[test]
fn an_image_that_is_refused_is_dropped_and_noted() {
    let run = Run::new(Scenario::new());
    let picture = run.home.write("picture.png", PIXEL);
    let refusal = Reply::error_with(
        400,
        "invalid_request_error",
        "messages.2.content.0.content.0.image.source.base64: image exceeds 5 MB maximum: 5600000 bytes > 5242880 bytes",
    );
    let server =
        BlockingServer::start(refused_after_read(picture.to_str().unwrap(), refusal)).unwrap();
    let run = Run {
        home: run.home.server(&server),
        server,
    };
    run.succeeds(&[], "all right now");
    let requests = run.requests();
    assert_eq!(requests.len(), 3);
    assert!(conversation(&requests[1]).contains("\"image\""));
    let last = conversation(&requests[2]);
    assert!(
        !last.contains("\"type\":\"image\""),
        "the image is gone: {last}"
    );
    assert!(last.contains("tool_result"), "its result is not: {last}");

    // The decision is in the transcript: after a resume it isn't sent and refused once more.
    run.succeeds(&["--continue"], "all right now");
    let requests = run.requests();
    assert_eq!(requests.len(), 4);
    let resumed = conversation(&requests[3]);
    assert!(resumed.contains("An image removed") && !resumed.contains("base64"));
}

/// A picture of one white pixel.
const PIXEL: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00, 0x00, 0x90, 0x77, 0x53,
    0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0xf8, 0xff, 0xff, 0x3f,
    0x00, 0x05, 0xfe, 0x02, 0xfe, 0x0d, 0xef, 0x46, 0xb8, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e,
    0x44, 0xae, 0x42, 0x60, 0x82,
];
