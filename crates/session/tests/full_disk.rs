//! A disk that fills up: nothing half-written, said once, and written when there is room again.
//!
//! The test runs itself again in a process whose files may not grow beyond a limit (which gives the
//! same errors as a full disk does, without having to own one), and lifts the limit later.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_protocol::ids::SessionId;
use lathe_protocol::message::Message;
use lathe_protocol::record::Record;
use lathe_session::writer::ProblemHandler;
use lathe_session::{
    RecordTemplate, SessionError, TranscriptWriter, WriteProblem, WriterOptions, load,
};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

const INNER: &str = "LATHE_TEST_FULL_DISK";
const LIMIT_KB: usize = 64;

#[test]
fn a_full_disk_loses_nothing_that_fits_in_memory_and_says_what_it_loses() {
    if let Some(folder) = std::env::var_os(INNER) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(inside(Path::new(&folder)));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .arg("-c")
        // Ignored signals stay ignored across exec; the write fails instead.
        .arg(format!(
            r#"trap '' XFSZ; ulimit -S -f {LIMIT_KB}; exec "$@""#
        ))
        .arg("bash")
        .arg(std::env::current_exe().unwrap())
        .arg("--nocapture")
        .env(INNER, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("1 passed"), "{said}");
}

fn record(template: &RecordTemplate, number: usize) -> Arc<Record> {
    let text = format!("{number} {}", "x".repeat(3_000));
    Arc::new(Record::Message(Box::new(
        template.user(None, Message::user(text)),
    )))
}

async fn inside(folder: &Path) {
    let session_id = SessionId::random();
    let template = RecordTemplate {
        session_id,
        cwd: String::new(),
        version: String::new(),
        git_branch: String::new(),
        agent_id: None,
    };
    let path = folder.join(format!("{session_id}.jsonl"));
    let problems: Arc<Mutex<Vec<WriteProblem>>> = Arc::default();
    let seen = Arc::clone(&problems);
    let on_problem: ProblemHandler =
        Arc::new(move |problem: &WriteProblem| seen.lock().unwrap().push(problem.clone()));
    let memory_limit = 100_000;
    let options = WriterOptions {
        on_problem: Some(on_problem),
        memory_limit,
        ..WriterOptions::default()
    };
    let writer = TranscriptWriter::create(&path, options).unwrap();

    let mut kept = Vec::new();
    let mut failed = 0;
    for number in 0..40 {
        let record = record(&template, number);
        match writer.append_synced(Arc::clone(&record)).await {
            Ok(()) => assert_eq!(failed, 0, "nothing overtakes what waits"),
            Err(error) => {
                assert!(matches!(error, SessionError::Io { .. }), "{error}");
                failed += 1;
            }
        }
        kept.push(record);
    }
    assert!(failed > 10, "{failed}");
    let on_disk = std::fs::read(&path).unwrap();
    assert!(
        on_disk.len() <= LIMIT_KB * 1024 && on_disk.ends_with(b"\n"),
        "no half line"
    );
    assert_eq!(load(&path).unwrap().records, kept[..40 - failed]);
    assert_eq!(problems.lock().unwrap().len(), 1, "said once");

    // More than may wait in memory: the newest are dropped and counted.
    let mut lost = 0;
    for number in 40..100 {
        let record = record(&template, number);
        match writer.append_synced(Arc::clone(&record)).await {
            Err(SessionError::RecordsLost { count, .. }) => {
                lost += 1;
                assert_eq!(count, lost);
            }
            Err(SessionError::Io { .. }) => {
                assert_eq!(lost, 0);
                kept.push(record);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(lost > 0);

    let pid = std::process::id().to_string();
    let lifted = Command::new("prlimit")
        .args(["--pid", &pid, "--fsize=unlimited"])
        .status()
        .unwrap();
    assert!(lifted.success());
    writer.flush().await.unwrap();
    assert_eq!(load(&path).unwrap().records, kept);
    let after = record(&template, 100);
    writer.append_synced(Arc::clone(&after)).await.unwrap();
    kept.push(after);
    assert_eq!(load(&path).unwrap().records, kept);
    let kinds: Vec<String> = problems
        .lock()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    assert!(kinds[0].contains("wait in memory"), "{kinds:?}");
    assert!(kinds[1].contains("being lost"), "{kinds:?}");
    assert!(
        kinds[2].contains(&format!("(lost records: {lost})")),
        "{kinds:?}"
    );
    assert!(
        matches!(writer.close().await, Err(SessionError::RecordsLost { count, .. }) if count == lost)
    );
}
