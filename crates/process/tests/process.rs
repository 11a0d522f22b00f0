//! Programs that hang, flood, leave children or leave their group.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests assert by panicking"
)]

use lathe_process::{Command, Ending, Job, KEPT_BYTES, run, run_blocking};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

const LONG: Duration = Duration::from_secs(60);

fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

async fn gone(pid: &str) {
    let limit = Instant::now() + LONG;
    while is_alive(pid) {
        assert!(Instant::now() < limit, "process {pid} is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Prints the number of a process that has left the group and the session of its parent.
const RUNAWAY: &str = "setsid sh -c 'echo $$; exec sleep 1000' & wait";

#[tokio::test]
async fn a_program_is_fed_and_read_to_its_end() {
    let mut job = Job::new(Command::shell("cat; echo wrong >&2; exit 3", None), LONG);
    job.stdin = b"x".repeat(200_000);
    let finished = run(job).await.unwrap();
    assert_eq!(finished.ending, Ending::Exited(3));
    assert_eq!(finished.stdout.len(), 200_000);
    assert_eq!(finished.stderr, "wrong\n");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named_with_its_folder() {
    let command = Command::new("/nowhere/program").directory("/tmp");
    let error = run(Job::new(command, LONG)).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(
        error
            .to_string()
            .starts_with("/nowhere/program can't be started in /tmp: "),
        "{error}"
    );
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_program_that_takes_too_long_is_killed_with_what_left_its_group() {
    let command = Command::shell(RUNAWAY, Some("/bin/sh"));
    let (lines, mut first) = tokio::sync::mpsc::unbounded_channel();
    let (deadline, watch) = tokio::sync::watch::channel(tokio::time::Instant::now() + LONG);
    let mut job = Job::new(command, LONG);
    job.deadline = lathe_process::Deadline::Movable(watch);
    job.first_line = Some(lines);
    let running = tokio::spawn(run(job));
    let pid = first.recv().await.unwrap();
    assert!(is_alive(&pid));
    deadline.send_replace(tokio::time::Instant::now());
    assert_eq!(running.await.unwrap().unwrap().ending, Ending::TimedOut);
    gone(&pid).await;
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_dropped_program_takes_everything_below_it_along() {
    let mut running = Command::shell(RUNAWAY, Some("/bin/sh")).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let pid = lines.next_line().await.unwrap().unwrap();
    assert!(is_alive(&pid));
    drop(running);
    gone(&pid).await;
}

#[tokio::test]
async fn a_program_ends_by_itself_when_its_input_closes() {
    let mut running = Command::new("cat").spawn().unwrap();
    let mut stdin = running.stdin.take().unwrap();
    stdin.write_all(b"hello\n").await.unwrap();
    drop(stdin);
    let status = running.wait().await.unwrap();
    assert!(status.success());
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("hello"));
}

#[tokio::test]
async fn a_program_that_ignores_the_request_to_end_is_killed() {
    let mut running = Command::shell("trap '' TERM; echo; while :; do sleep 1; done", None)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    lines.next_line().await.unwrap();
    let status = running.end(Duration::from_millis(50)).await.unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
}

#[test]
fn a_thread_gets_the_whole_answer_or_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let cat = Command::new("cat").directory(folder.path());
    let input = vec![b'x'; 300_000];
    let finished = run_blocking(cat, input, LONG).unwrap();
    assert_eq!(finished.ending, Ending::Exited(0));
    assert_eq!(finished.stdout.len(), 300_000);

    let flood = Command::shell("head -c 3000000 /dev/zero; exit 4", None);
    let finished = run_blocking(flood, Vec::new(), LONG).unwrap();
    assert_eq!(finished.ending, Ending::Exited(4));
    assert_eq!(finished.stdout.len(), KEPT_BYTES);

    let note = folder.path().join("pid");
    let hang = Command::shell("echo $$ >pid.new; mv pid.new pid; sleep 1000 & wait", None)
        .directory(folder.path());
    let finished = run_blocking(hang, Vec::new(), Duration::from_millis(500)).unwrap();
    assert_eq!(finished.ending, Ending::TimedOut);
    if let Some(pid) = read(&note) {
        let limit = Instant::now() + LONG;
        while is_alive(&pid) {
            assert!(Instant::now() < limit);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn read(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned())
}
