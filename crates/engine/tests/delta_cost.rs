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
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches nothing else.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
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
