//! Streams that stall, break or end half-way.

use crate::{Run, conversation};
use lathe_scripted::reply::Chunks;
use lathe_scripted::{Ending, Framing, LineEnd, Position, RecordedRequest, Reply, Scenario};
use lathe_testkit::processes;
use serde_json::json;

fn stalls() -> Vec<(&'static str, Ending)> {
    vec![
        ("silence", Ending::Silence),
        ("comments only", Ending::KeepAliveComments { every_ms: 20 }),
        ("ping events only", Ending::KeepAliveEvents { every_ms: 20 }),
    ]
}

/// Fault: An answer stalls
/// Seen: The partial answer is withdrawn and asked for again
/// Kept: Everything
#[test]
fn a_stalled_stream_is_cut_in_the_configured_time_even_with_keep_alives() {
    for (name, ending) in stalls() {
        for place in [
            Position::Start,
            Position::MidBlock(0),
            Position::AfterBlock(0),
        ] {
            let stalled = Reply::text("never finished").cut(place.clone(), ending.clone());
            let run = Run::new(
                Scenario::new()
                    .reply(stalled)
                    .reply(Reply::text("fresh start")),
            )
            .variable("LATHE_STREAM_IDLE_TIMEOUT_MS", "150");
            let output = run.succeeds(&[], "fresh start");
            let requests = run.requests();
            assert_eq!(requests.len(), 2, "{name} at {place:?}: {output:#?}");
            assert!(!conversation(&requests[1]).contains("never finished"));
        }
    }
}

#[test]
fn a_stream_that_keeps_coming_is_never_cut_however_slow() {
    // Twenty chunks of 50 ms are far longer than the limit, but each is progress.
    let slow = Reply::text("slow but steady wins")
        .delta_characters(1)
        .chunk_delay_ms(50);
    let run = Run::new(Scenario::new().reply(slow)).variable("LATHE_STREAM_IDLE_TIMEOUT_MS", "700");
    run.succeeds(&[], "slow but steady wins");
}

fn breaks() -> Vec<(&'static str, Reply)> {
    let text = || Reply::text("broken off in the middle").delta_characters(4);
    let overloaded = Ending::ErrorEvent {
        kind: "overloaded_error".into(),
        message: "Overloaded".into(),
    };
    vec![
        ("dropped early", text().drop_after(40)),
        (
            "dropped in a block",
            text().cut(Position::MidBlock(0), Ending::Drop),
        ),
        (
            "dropped at the end",
            text().cut(Position::BeforeEvent("message_stop".into()), Ending::Drop),
        ),
        (
            "ended early",
            text().cut(Position::MidBlock(0), Ending::EndOfBody),
        ),
        (
            "no stop reason",
            text().cut(
                Position::BeforeEvent("message_delta".into()),
                Ending::EndOfBody,
            ),
        ),
        ("error event", text().cut(Position::MidBlock(0), overloaded)),
        (
            "not JSON",
            text().insert(Position::MidBlock(0), "event: x\ndata: {\"type\":\n\n"),
        ),
        ("empty body", Reply::empty_body()),
    ]
}

/// Fault: An answer breaks off
/// Seen: The partial answer is withdrawn and asked for again
/// Kept: Everything; effects of calls that ran are told to the model
#[test]
fn a_broken_stream_is_withdrawn_and_asked_for_again() {
    for (name, broken) in breaks() {
        let run = Run::new(Scenario::new().reply(broken).reply(Reply::text("unbroken")));
        let output = run.succeeds(&[], "unbroken");
        let requests = run.requests();
        assert_eq!(requests.len(), 2, "{name}: {output:#?}");
        assert_eq!(requests[0].messages(), requests[1].messages(), "{name}");
    }
}

#[test]
fn after_two_broken_streams_the_answer_is_asked_for_whole() {
    let broken = || Reply::text("broken").cut(Position::MidBlock(0), Ending::Drop);
    let run = Run::new(
        Scenario::new()
            .reply(broken().times(2))
            .reply(Reply::text("in one piece")),
    );
    run.succeeds(&[], "in one piece");
    let requests = run.requests();
    let streamed: Vec<bool> = requests.iter().map(RecordedRequest::wants_stream).collect();
    assert_eq!(streamed, [true, true, false]);
}

#[test]
fn streams_that_always_break_end_in_an_error() {
    let broken = Reply::text("broken").cut(Position::Byte(30), Ending::Drop);
    let run = Run::new(Scenario::new().reply(broken.forever()));
    let output = run.fails(&[], &["API Error"]);
    assert_eq!(run.requests().len(), 4, "{output:#?}");
}

#[test]
fn a_call_from_a_withdrawn_stream_is_never_silently_repeated() {
    let call = || Reply::tool_use("Bash", json!({"command": "echo ran >> ran.txt"}));
    let run = Run::new(
        Scenario::new()
            .reply(call().cut(Position::AfterBlock(0), Ending::Silence))
            .reply(Reply::text("seen")),
    )
    .variable("LATHE_STREAM_IDLE_TIMEOUT_MS", "1000");
    run.succeeds(&[], "seen");
    let requests = run.requests();
    assert_eq!(requests.len(), 2);
    if run.home.project().join("ran.txt").exists() {
        assert_eq!(run.home.read("ran.txt"), "ran\n");
        assert!(
            conversation(&requests[1]).contains("ran.txt"),
            "the model must learn what has happened: {}",
            conversation(&requests[1])
        );
    }
    processes::assert_none_left(&run.home);
}

#[test]
fn every_legal_spelling_of_a_stream_is_understood() {
    let plain = Framing::default();
    let framings = [
        Framing {
            line_end: LineEnd::CrLf,
            ..plain.clone()
        },
        Framing {
            line_end: LineEnd::Cr,
            ..plain.clone()
        },
        Framing {
            byte_order_mark: true,
            comments: true,
            ..plain.clone()
        },
        Framing {
            space_after_colon: false,
            event_names: false,
            ping: false,
            ..plain
        },
    ];
    let mut scenario = Scenario::new();
    let count = framings.len();
    for framing in framings {
        let call = Reply::tool_use("Bash", json!({"command": "printf 'naïve 🦀'"}));
        scenario = scenario.reply(
            call.framing(framing)
                .chunks(Chunks::Bytes(1))
                .delta_characters(3),
        );
    }
    scenario = scenario.reply(Reply::text("{{last_tool_result}}").chunks(Chunks::Bytes(7)));
    let run = Run::new(scenario);
    run.succeeds(&[], "naïve 🦀");
    assert_eq!(run.requests().len(), count + 1);
}
