//! The cost of putting a request together is that of what came since the last one, counted by the
//! allocator: a long conversation is neither copied nor serialised again.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_model::body::{Purpose, RequestBody};
use lathe_model::{CacheMarkers, ModelRequest};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::record::Record;
use lathe_session::History;
use serde_json::{Value, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicUsize = AtomicUsize::new(0);
/// The counts are those of the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches nothing else.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        FREED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn record(role: &str, number: usize, text: &str) -> Record {
    let block = serde_json::to_value(ContentBlock::text(text)).unwrap();
    let message = if role == "user" {
        json!({"role": "user", "content": [block]})
    } else {
        json!({"id": format!("m{number}"), "type": "message", "role": "assistant", "model": "m",
            "content": [block], "stop_reason": null, "stop_sequence": null, "usage": {}})
    };
    let value: Value = json!({
        "type": role, "parentUuid": null, "sessionId": SessionId::random(), "message": message,
        "uuid": RecordId::random(), "timestamp": "2026-01-01T00:00:00.000Z",
    });
    Record::from_value(value)
}

/// Bytes and calls that the next turn's request costs after so many messages.
fn cost_after(messages: usize, words: usize) -> (usize, usize) {
    let text = "some words ".repeat(words);
    let mut conversation = History::new("m");
    for number in 0..messages {
        let role = ["user", "assistant"][number % 2];
        conversation.push(&record(role, number, &text));
    }
    conversation.request_messages();
    let new = [
        record("user", messages, "a question"),
        record("assistant", messages + 1, "an answer"),
        record("user", messages + 2, "more"),
    ];
    let before = (BYTES.load(Ordering::Relaxed), CALLS.load(Ordering::Relaxed));
    for record in &new {
        conversation.push(record);
    }
    let mut request = ModelRequest::new("m", 1_000);
    request.cache_markers = CacheMarkers::FiveMinutes;
    request.messages = conversation.request_messages();
    let body = RequestBody::messages_api(&request, Purpose::Streaming);
    // What the socket is given.
    let sent: usize = body.chunks().map(|chunk| chunk.len()).sum();
    let after = (BYTES.load(Ordering::Relaxed), CALLS.load(Ordering::Relaxed));
    assert_eq!(sent as u64, body.length());
    assert!(sent > messages * words * 11);
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn a_request_after_a_thousand_messages_costs_what_the_turn_adds() {
    let _alone = ALONE.lock().unwrap();
    for words in [10, 200] {
        // Both conversations end at the same place in a run.
        let (few_bytes, few_calls) = cost_after(36, words);
        let (many_bytes, many_calls) = cost_after(36 + 64 * 15, words);
        // A list of what is shared grows a little with the conversation; its words are neither copied
        // nor listed one by one, on the way to the socket included.
        let listed = if words < 100 { 64 } else { 150 };
        assert!(
            many_bytes < few_bytes + 1_000 * listed,
            "{few_bytes} → {many_bytes} bytes"
        );
        assert!(
            many_calls <= few_calls + 20,
            "{few_calls} → {many_calls} allocations"
        );
    }
}

/// A call and its result, as a session has thousands of them.
fn read_turn(number: usize) -> [Record; 2] {
    let id = format!("toolu_01{number:022}");
    let input =
        json!({"file_path": "/home/user/project/src/file.rs", "offset": number, "limit": 3});
    let call = json!({"type": "tool_use", "id": id, "name": "Read", "input": input});
    let lines = format!("{number}\ta line\n{number}\tanother\n{number}\tand one more\n");
    let result = ContentBlock::tool_result(id.into(), lines, false);
    let answer = json!({"id": format!("msg_01{number:022}"), "type": "message", "role": "assistant", "model": "m",
        "content": [call], "stop_reason": null, "stop_sequence": null, "usage": {}});
    let question = json!({"role": "user", "content": [serde_json::to_value(result).unwrap()]});
    [("assistant", answer), ("user", question)].map(|(kind, message)| {
        Record::from_value(json!({
            "type": kind, "parentUuid": null, "sessionId": SessionId::random(), "message": message,
            "uuid": RecordId::random(), "timestamp": "2026-01-01T00:00:00.000Z",
        }))
    })
}

#[test]
fn a_turn_keeps_its_words_once_and_little_beside_them() {
    /// Lists and tables double: at both ends they are nearly full.
    const EARLY: usize = 890;
    const LATE: usize = 3_560;
    let _alone = ALONE.lock().unwrap();
    let mut conversation = History::new("m");
    conversation.push(&record("user", 0, "go"));
    let mut upto = |turns: std::ops::Range<usize>| {
        for number in turns {
            for record in read_turn(number) {
                conversation.push(&record);
            }
            drop(conversation.request_messages());
        }
        let kept = BYTES.load(Ordering::Relaxed) - FREED.load(Ordering::Relaxed);
        let messages = conversation.request_messages();
        (
            kept,
            messages.iter().map(|it| it.bytes.len()).sum::<usize>(),
        )
    };
    let early = upto(0..EARLY);
    let late = upto(EARLY..LATE);
    let a_turn = |late: usize, early: usize| (late - early) / (LATE - EARLY);
    let (kept, words) = (a_turn(late.0, early.0), a_turn(late.1, early.1));
    let said = format!("{kept} bytes a turn, of which {words} are its messages");
    eprintln!("{said}");
    assert!(kept < words + 550, "{said}");
}
