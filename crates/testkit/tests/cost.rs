//! The cost of a turn, as counts that don't depend on how busy the machine is.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_scripted::reply::Chunks;
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::{TestHome, counts};
use serde_json::json;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// How often the threads of a process went to sleep so far.
fn sleeps(pid: u32) -> u64 {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok())
        .filter_map(|status| {
            let mut lines = status.lines();
            let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            count.trim().parse::<u64>().ok()
        })
        .sum()
}

/// Handing work from thread to thread is what costs most in a turn that does little. One that reads a file
/// needs the network twice, a thread for the file, and now and then the transcript's.
#[test]
fn a_turn_is_not_handed_from_thread_to_thread() {
    const TURNS: usize = 60;
    const FIRST: usize = 10;
    /// Four or five are usual; on several threads it was twenty-five.
    const MOST: u64 = 8;

    let pid = Arc::new(AtomicU32::new(0));
    let sleeping = Arc::new(Mutex::new(Vec::new()));
    let transfers = Arc::new(Mutex::new(Vec::new()));
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder({
            let (pid, sleeping) = (Arc::clone(&pid), Arc::clone(&sleeping));
            let transfers = Arc::clone(&transfers);
            move |_| {
                let mut sleeping = sleeping.lock().unwrap();
                let process = pid.load(Ordering::Relaxed);
                sleeping.push(sleeps(process));
                let both = counted(process, "syscr:") + counted(process, "syscw:");
                transfers.lock().unwrap().push(both);
                let reply = if sleeping.len() > TURNS {
                    Reply::text("done")
                } else {
                    let input = json!({"file_path": "small.txt", "offset": sleeping.len() % 5 + 1});
                    Reply::tool_use("Read", input)
                };
                reply.chunks(Chunks::Whole)
            }
        });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    home.write("small.txt", "a line\n".repeat(20));
    let mut command = home.command(["-p", "go", "--output-format", "json"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    pid.store(child.id(), Ordering::Relaxed);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"subtype\":\"success\""), "{text}");

    let sleeping = sleeping.lock().unwrap();
    let mut each: Vec<u64> = sleeping[FIRST..]
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .collect();
    each.sort_unstable();
    // On a busy machine an answer comes in pieces, and each piece wakes us. The turns that were
    // disturbed least tell of us; handed from thread to thread, not one of them would be below.
    let undisturbed = each[each.len() / 10];
    assert!(
        undisturbed <= MOST,
        "a turn sleeps {undisturbed} times: {each:?}"
    );
    let transfers = transfers.lock().unwrap();
    let each = transfers[FIRST..].windows(2);
    let each = each.map(|pair| pair[1].saturating_sub(pair[0])).collect();
    counts::assert_within("reads and writes of a turn", counts::undisturbed(each));
}

/// Bytes cost where a terminal is far away.
#[test]
fn a_terminal_start_writes_no_more_than_it_did() {
    let server = BlockingServer::start(Scenario::new()).unwrap();
    let home = TestHome::with_server(&server);
    let least = (0..3).map(|_| {
        let mut terminal = home.terminal([] as [&str; 0], 100, 30);
        terminal.wait_for("❯");
        terminal.wait_for("claude");
        let written = terminal.bytes_written();
        terminal.leave();
        written as u64
    });
    counts::assert_within("bytes of a terminal start", least.min().unwrap());
}

/// How often a process has read from a file or a socket so far.
fn reads(pid: u32) -> u64 {
    counted(pid, "syscr:")
}

/// A number that the kernel counts for a process.
fn counted(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix(name));
    count
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

/// How often a session reads before its first request.
fn reads_at_start(fill: impl Fn(&TestHome)) -> u64 {
    let pid = Arc::new(AtomicU32::new(0));
    let count = Arc::new(Mutex::new(None));
    let scenario = Scenario::new().responder({
        let (pid, count) = (Arc::clone(&pid), Arc::clone(&count));
        move |_| {
            let pid = loop {
                // The request may be here before the test knows the process.
                match pid.load(Ordering::Acquire) {
                    0 => std::thread::yield_now(),
                    pid => break pid,
                }
            };
            count.lock().unwrap().get_or_insert_with(|| reads(pid));
            Reply::text("done")
        }
    });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    fill(&home);
    let mut command = home.command(["-p", "go"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    pid.store(child.id(), Ordering::Release);
    assert!(child.wait().unwrap().success());
    let count = count.lock().unwrap();
    count.unwrap()
}

/// Many skills and agents cost a start one look at each file and nothing else.
#[test]
fn a_file_of_a_skill_or_an_agent_is_read_once_at_the_start() {
    const SKILLS: u64 = 200;
    const AGENTS: u64 = 50;
    /// Other differences that are allowed between two starts.
    const SLACK: u64 = 40;

    let bare = reads_at_start(|_| {});
    let full = reads_at_start(|home| {
        for number in 0..SKILLS {
            home.write(
                home.config()
                    .join(format!("skills/skill-{number}/SKILL.md")),
                format!("---\ndescription: Number {number}\n---\nWords.\n"),
            );
        }
        for number in 0..AGENTS {
            home.write(
                home.config().join(format!("agents/agent-{number}.md")),
                format!("---\nname: agent-{number}\ndescription: Number {number}\n---\nWords.\n"),
            );
        }
    });
    assert!(bare > 0, "the count can be read here");
    let added = full.saturating_sub(bare);
    assert!(
        (SKILLS + AGENTS).abs_diff(added) <= SLACK,
        "{added} reads for {} files",
        SKILLS + AGENTS
    );
}
