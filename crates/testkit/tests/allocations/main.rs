//! The allocations and copies of a turn, counted in the real process and held against `benches/counts.json`. Where they grew, the crates
//! and functions are named.
//!
//! A small library (`count.c`) stands before the allocator and `memcpy` of the process; for some turns it also keeps the stacks.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

mod stacks;

use lathe_scripted::reply::Chunks;
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::{TestHome, counts};
use serde_json::json;
use stacks::{Counts, Kind, Total};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

const TURNS: usize = 48;
/// The first turns fill caches.
const FIRST: usize = 8;
/// From here on stacks are kept, for so many turns. The turns before are the ones that count.
const TRACED: usize = 40;
const TRACED_TURNS: u64 = 4;

/// Compiles the library that counts.
fn library(home: &TestHome) -> std::path::PathBuf {
    let made = home.root().join("count.so");
    let source = lathe_testkit::workspace_root().join("crates/testkit/tests/allocations/count.c");
    let status = Command::new("cc")
        .args(["-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"])
        // What copies here must not become a call of itself.
        .args(["-fno-builtin", "-fno-tree-loop-distribute-patterns", "-o"])
        .arg(&made)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success(), "the C compiler can't make the library");
    made
}

/// A session of turns that read a file: the totals when each request came in, and the stacks of some turns.
fn session() -> (Vec<Total>, Arc<Counts>) {
    let folder = tempfile::tempdir().unwrap();
    let counts = Arc::new(Counts::create(&folder.path().join("counts")));
    let totals = Arc::new(Mutex::new(Vec::new()));
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder({
            let (counts, totals) = (Arc::clone(&counts), Arc::clone(&totals));
            move |_| {
                let mut totals = totals.lock().unwrap();
                totals.push(counts.total());
                let turn = totals.len();
                counts.trace(turn >= TRACED && turn < TRACED + TRACED_TURNS as usize);
                let reply = if turn > TURNS {
                    Reply::text("done")
                } else {
                    let input = json!({"file_path": "small.txt", "offset": turn % 5 + 1});
                    Reply::tool_use("Read", input)
                };
                reply.chunks(Chunks::Whole)
            }
        });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    home.write("small.txt", "a line\n".repeat(20));
    let mut command = home.command(["-p", "go", "--output-format", "json"]);
    let output = command
        .env("LD_PRELOAD", library(&home))
        .env("COUNT_FILE", counts.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("\"subtype\":\"success\""),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let totals = std::mem::take(&mut *totals.lock().unwrap());
    (totals, counts)
}

#[test]
fn a_turn_allocates_and_copies_no_more_than_it_did() {
    let (totals, counts) = session();
    for kind in Kind::ALL {
        let each = totals[FIRST..TRACED].windows(2);
        let each = each.map(|pair| kind.of(&pair[1]) - kind.of(&pair[0]));
        let count = counts::undisturbed(each.collect());
        assert!(count > 0, "nothing is counted");
        counts::assert_within_by(kind.name(), count, || counts.by_crate(kind, TRACED_TURNS));
    }
}
