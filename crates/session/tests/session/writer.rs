//! Appending to transcripts.

use crate::support::*;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::ids::AgentId;
use lathe_protocol::message::Message;
use lathe_protocol::record::{Fact, Record};
use lathe_session::writer::{Observer, holder};
use lathe_session::{SessionError, SessionPaths, TranscriptWriter, WriterOptions, load};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn session() -> (tempfile::TempDir, SessionPaths, Script) {
    let home = tempfile::tempdir().unwrap();
    let script = Script::new();
    let paths = SessionPaths::new(home.path(), home.path(), script.id());
    (home, paths, script)
}

/// The lines of a transcript without their links, each of which must be right.
fn written(path: &Path) -> String {
    let Ok(text) = std::fs::read_to_string(path) else {
        return String::new();
    };
    let found = lathe_session::link::verify(path).unwrap();
    assert_eq!((found.linked, found.findings), (found.lines, Vec::new()));
    let plain = |line: &str| format!("{}}}\n", line.rsplit_once(",\"latheLink\":").unwrap().0);
    text.lines().map(plain).collect()
}

fn create(path: &Path) -> TranscriptWriter {
    TranscriptWriter::create(path, WriterOptions::default()).unwrap()
}

fn reopen(path: &Path) -> TranscriptWriter {
    TranscriptWriter::open_append(path, WriterOptions::default()).unwrap()
}

#[tokio::test]
async fn records_are_written_in_order_as_compact_lines_in_a_private_file() {
    let (_home, paths, mut script) = session();
    let writer = create(&paths.transcript());
    assert!(
        !paths.transcript().exists(),
        "nothing said, nothing left behind"
    );
    for number in 0..500 {
        script.prompt(&number.to_string());
    }
    for record in &script.records {
        writer.append(Arc::clone(record));
    }
    writer.flush().await.unwrap();
    let bytes = written(&paths.transcript());
    assert_eq!(bytes, script.lines());
    assert!(bytes.contains(r#""sessionId":""#) && !bytes.contains("\": "));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&paths.transcript()), 0o600);
    assert_eq!(mode(paths.project_folder()), 0o700);
    assert_eq!(load(&paths.transcript()).unwrap().records, script.records);
}

#[tokio::test]
async fn a_synced_record_is_in_the_file_when_the_call_returns() {
    let (_home, paths, mut script) = session();
    let writer = create(&paths.transcript());
    script.prompt("queued before");
    script.prompt("synced");
    writer.append(Arc::clone(&script.records[0]));
    writer
        .append_synced(Arc::clone(&script.records[1]))
        .await
        .unwrap();
    assert_eq!(written(&paths.transcript()), script.lines());
    writer.sync().await.unwrap();
}

#[tokio::test]
async fn queued_records_are_written_by_themselves_and_the_observer_sees_them_afterwards() {
    let (_home, paths, mut script) = session();
    let (sender, receiver) = std::sync::mpsc::channel();
    let observer: Observer = Arc::new(move |path: &Path, records: &[Arc<Record>]| {
        let written = written(path);
        sender.send((written, records.to_vec())).unwrap();
    });
    let options = WriterOptions {
        observer: Some(observer),
        ..WriterOptions::default()
    };
    let writer = TranscriptWriter::create(&paths.transcript(), options).unwrap();
    script.prompt("one");
    script.says("m1", text("two"));
    script
        .records
        .iter()
        .for_each(|record| writer.append(Arc::clone(record)));
    let (written, records) = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(written, script.lines());
    assert_eq!(records, script.records, "one batch");
}

#[tokio::test]
async fn a_panicking_observer_does_not_end_the_writing() {
    let (_home, paths, mut script) = session();
    let observer: Observer =
        Arc::new(|_: &Path, _: &[Arc<Record>]| panic!("a fault of the observer"));
    let options = WriterOptions {
        observer: Some(observer),
        ..WriterOptions::default()
    };
    let writer = TranscriptWriter::create(&paths.transcript(), options).unwrap();
    for text in ["one", "two"] {
        script.prompt(text);
        writer
            .append_synced(script.records.last().unwrap().clone())
            .await
            .unwrap();
    }
    assert_eq!(written(&paths.transcript()), script.lines());
}

#[tokio::test]
async fn a_file_torn_at_any_byte_is_repaired_before_anything_is_appended() {
    let (_home, paths, mut script) = session();
    script.prompt("first");
    let kept = script.lines().len();
    script.prompt("törn");
    let whole = script.lines();
    script.prompt("added");
    let added = Arc::clone(&script.records[2]);
    std::fs::create_dir_all(paths.project_folder()).unwrap();
    for end in kept..=whole.len() {
        std::fs::write(paths.transcript(), &whole.as_bytes()[..end]).unwrap();
        let writer = reopen(&paths.transcript());
        writer.append(Arc::clone(&added));
        writer.close().await.unwrap();
        let loaded = load(&paths.transcript()).unwrap();
        assert!(
            loaded.damaged.is_empty() && !loaded.torn_tail,
            "cut at {end}"
        );
        let survives = end + 1 >= whole.len();
        assert_eq!(
            loaded.records.len(),
            if survives { 3 } else { 2 },
            "cut at {end}"
        );
        assert_eq!(*loaded.records.last().unwrap(), added);
    }
}

/// Killed between the fork and the exec of a child, a process leaves a copy of its lock behind for a moment.
#[tokio::test]
async fn a_lock_whose_owner_was_killed_is_waited_for() {
    use std::process::{Command, Stdio};
    let (_home, paths, mut script) = session();
    script.prompt("one");
    let writer = create(&paths.transcript());
    writer
        .append_synced(Arc::clone(&script.records[0]))
        .await
        .unwrap();
    writer.close().await.unwrap();
    let mut owner = Command::new("python3")
        .args(["-c", "import fcntl, os, sys\nfile = open(sys.argv[1], 'a')\nfcntl.flock(file, fcntl.LOCK_EX)\nif os.fork(): os._exit(0)\nsys.stdin.read()"])
        .arg(paths.transcript())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let held = owner.stdin.take().unwrap();
    // Its end is waited for without closing the pipe that keeps the copy.
    while owner.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let path = paths.transcript();
    let opening = std::thread::spawn(move || {
        TranscriptWriter::open_append(&path, WriterOptions::default()).map(drop)
    });
    // Longer than a lock of somebody who only looks is waited for.
    std::thread::sleep(Duration::from_millis(150));
    drop(held);
    opening.join().unwrap().unwrap();
}

#[tokio::test]
async fn a_second_writer_is_refused_until_the_first_is_closed() {
    let (_home, paths, mut script) = session();
    script.prompt("one");
    let writer = create(&paths.transcript());
    writer
        .append_synced(Arc::clone(&script.records[0]))
        .await
        .unwrap();
    let refused = TranscriptWriter::open_append(&paths.transcript(), WriterOptions::default());
    let error = refused.unwrap_err();
    assert!(matches!(error, SessionError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("--fork-session"), "{error}");
    assert!(holder(&paths.transcript()).unwrap().is_some());
    writer.close().await.unwrap();
    assert!(holder(&paths.transcript()).unwrap().is_none());
    reopen(&paths.transcript()).close().await.unwrap();
    writer.close().await.unwrap();
    assert!(matches!(
        writer.flush().await,
        Err(SessionError::Closed { .. })
    ));
    let taken =
        TranscriptWriter::create(&paths.transcript(), WriterOptions::default()).unwrap_err();
    assert!(
        matches!(taken, SessionError::AlreadyExists { .. }),
        "{taken}"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_process_that_holds_a_session_is_named() {
    let (_home, paths, mut script) = session();
    script.prompt("one");
    script.write(&paths.transcript());
    // `flock` of util-linux is another process with its own lock.
    let mut other = Command::new("flock")
        .arg(paths.transcript())
        .args(["bash", "-c", "echo held; read"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(other.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert_eq!(said, "held\n");
    let error =
        TranscriptWriter::open_append(&paths.transcript(), WriterOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains(&format!("(pid {})", other.id())),
        "{error}"
    );
    drop(other.stdin.take());
    other.wait().unwrap();
    reopen(&paths.transcript());
}

#[tokio::test]
async fn what_is_queued_reaches_the_file_when_the_last_handle_is_dropped() {
    let (_home, paths, mut script) = session();
    script.prompt("one");
    let writer = create(&paths.transcript());
    let clone = writer.clone();
    writer.append(Arc::clone(&script.records[0]));
    drop((writer, clone));
    let deadline = Instant::now() + Duration::from_secs(30);
    while written(&paths.transcript()) != script.lines() {
        assert!(Instant::now() < deadline, "never written");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn without_persistence_everything_works_and_nothing_is_written() {
    let (home, paths, mut script) = session();
    script.prompt("one");
    let writer = TranscriptWriter::disabled(&paths.transcript());
    writer.append(Arc::clone(&script.records[0]));
    writer
        .append_synced(Arc::clone(&script.records[0]))
        .await
        .unwrap();
    writer.flush().await.unwrap();
    writer.close().await.unwrap();
    assert!(!writer.is_persistent());
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn lines_that_others_append_meanwhile_survive() {
    let (_home, paths, mut script) = session();
    script.prompt("one");
    script.prompt("two");
    let writer = create(&paths.transcript());
    writer
        .append_synced(Arc::clone(&script.records[0]))
        .await
        .unwrap();
    let title = Fact::CustomTitle {
        custom_title: "mine".into(),
        session_id: script.id(),
    };
    let mut other = std::fs::OpenOptions::new()
        .append(true)
        .open(paths.transcript())
        .unwrap();
    let foreign = line(&Record::Fact(title));
    other.write_all(foreign.trim_end().as_bytes()).unwrap();
    writer
        .append_synced(Arc::clone(&script.records[1]))
        .await
        .unwrap();
    let loaded = load(&paths.transcript()).unwrap();
    assert!(loaded.damaged.is_empty());
    assert_eq!(loaded.records.len(), 3);
    assert_eq!(loaded.facts.title(), Some("mine"));
}

#[tokio::test]
async fn titles_are_found_near_the_end_of_a_long_file_also_after_a_resume() {
    let (_home, paths, mut script) = session();
    let session_id = script.id();
    let title = |text: &str| {
        Record::Fact(Fact::CustomTitle {
            custom_title: text.into(),
            session_id,
        })
    };
    let near_end = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        let tail = &bytes[bytes.len().saturating_sub(64 * 1024)..];
        String::from_utf8_lossy(tail).into_owned()
    };
    let writer = create(&paths.transcript());
    writer.append(title("first name"));
    writer.append(Record::Fact(Fact::Tag {
        tag: "t".into(),
        session_id,
    }));
    for round in 0..200 {
        script.prompt(&"x".repeat(3_000));
        writer.append(script.records.pop().unwrap());
        if round % 20 == 19 {
            writer.flush().await.unwrap();
            assert!(
                near_end(&paths.transcript()).contains(r#""customTitle":"first name""#),
                "{round}"
            );
        }
    }
    writer.append(title("second name"));
    writer.close().await.unwrap();
    let writer = reopen(&paths.transcript());
    for _ in 0..60 {
        script.prompt(&"y".repeat(3_000));
        writer.append(script.records.pop().unwrap());
    }
    writer.close().await.unwrap();
    let tail = near_end(&paths.transcript());
    assert!(tail.contains(r#""customTitle":"second name""#) && !tail.contains("first name"));
    assert!(
        tail.contains("\n{\"type\":\"tag\",\"tag\":\"t\""),
        "as readers search for it"
    );
    let lines = std::fs::read_to_string(paths.transcript())
        .unwrap()
        .lines()
        .count();
    assert!(
        lines < 262 + 60,
        "repeated now and then, not always: {lines}"
    );
}

#[tokio::test]
async fn pictures_are_stored_beside_the_transcript_and_come_back() {
    let (_home, paths, mut script) = session();
    let picture = ContentBlock::image("image/png", "iVBOR".repeat(10_000));
    let agent = AgentId::from("a1");
    script.push(
        script
            .template
            .user(None, Message::user(vec![picture.clone()])),
    );
    let mut result = script.template.user(
        script.parent,
        Message::user(vec![ContentBlock::tool_result(
            "t".into(),
            vec![picture],
            false,
        )]),
    );
    result.tool_use_result = Some(serde_json::json!({"stdout": "o".repeat(300_000)}));
    script.push(result);
    for path in [paths.transcript(), paths.agent_transcript(&agent)] {
        let writer = create(&path);
        script
            .records
            .iter()
            .for_each(|record| writer.append(Arc::clone(record)));
        writer.close().await.unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() < 4_000);
        let loaded = load(&path).unwrap();
        assert_eq!(loaded.records, script.records);
        assert!(loaded.missing_blobs.is_empty());
    }
    assert_eq!(
        std::fs::read_dir(paths.blobs()).unwrap().count(),
        2,
        "stored once for all"
    );
    std::fs::remove_dir_all(paths.blobs()).unwrap();
    let loaded = load(&paths.transcript()).unwrap();
    assert_eq!(loaded.missing_blobs.len(), 3);
    assert_eq!(loaded.records.len(), 2, "still a session");
}
