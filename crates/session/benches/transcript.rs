//! The cost of a transcript and a conversation by themselves: writing records, reading them back, and assembling the next request
//! of a conversation of so many messages, which must not depend on their number.
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use divan::Bencher;
use lathe_protocol::ids::SessionId;
use lathe_protocol::message::{AssistantMessage, Message};
use lathe_protocol::record::Record;
use lathe_session::{History, RecordTemplate, TranscriptWriter, WriterOptions, load};
use std::path::Path;
use std::sync::Arc;

/// Records that are written and read.
const RECORDS: usize = 1_000;
const MODEL: &str = "claude-sonnet-4-5";

fn main() {
    divan::main();
}

/// Records of about a kilobyte, questions and answers in turns.
fn records(count: usize) -> Vec<Arc<Record>> {
    let template = RecordTemplate {
        session_id: SessionId::random(),
        cwd: "/work/project".to_owned(),
        version: "0.1.0".to_owned(),
        git_branch: "main".to_owned(),
        agent_id: None,
    };
    let mut parent = None;
    (0..count)
        .map(|number| {
            let text = format!("message {number}: {}", "words of a line ".repeat(32));
            let record = if number % 2 == 0 {
                template.user(parent, Message::user(text))
            } else {
                template.assistant(parent, AssistantMessage::synthetic(text))
            };
            parent = Some(record.uuid);
            Arc::new(Record::Message(Box::new(record)))
        })
        .collect()
}

fn write(path: &Path, records: &[Arc<Record>], runtime: &tokio::runtime::Runtime) {
    let writer = TranscriptWriter::create(path, WriterOptions::default()).unwrap();
    for record in records {
        writer.append(Arc::clone(record));
    }
    runtime.block_on(writer.flush()).unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn write_1000_records(bencher: Bencher<'_, '_>) {
    let (records, runtime) = (records(RECORDS), runtime());
    bencher
        .with_inputs(|| tempfile::tempdir().unwrap())
        .bench_local_refs(|folder| write(&folder.path().join("t.jsonl"), &records, &runtime));
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn read_1000_records(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    write(&path, &records(RECORDS), &runtime());
    bencher.bench_local(|| load(&path).unwrap());
}

/// An answer and a prompt more, and the messages of the request that follows.
#[divan::bench(args = [100, 1_000, 5_000], sample_count = 100, sample_size = 1)]
fn next_request_after_messages(bencher: Bencher<'_, '_>, messages: usize) {
    let mut history = History::new(MODEL);
    for record in records(messages) {
        history.push(&record);
    }
    let _ = history.request_messages();
    bencher.with_inputs(|| records(2)).bench_local_refs(|more| {
        for record in more {
            history.push(record);
        }
        history.request_messages()
    });
}
