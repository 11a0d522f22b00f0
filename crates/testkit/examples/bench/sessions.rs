//! The cost of long sessions: turns up to the five-thousandth, transcripts up to a gigabyte, edits of large files.

use crate::report::{self, Point};
use crate::{median, megabytes, milliseconds, processor_time, read, row};
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::{TestHome, processes, transcript};
use serde_json::json;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Turns at which the cost is shown.
const TURNS: [usize; 4] = [10, 100, 1_000, 5_000];
/// Half of the turns around one of them whose median is taken.
const AROUND: usize = 10;
/// Sizes of transcripts, in megabytes.
const TRANSCRIPTS: [u64; 4] = [1, 10, 100, 1_000];
/// Words of the request for a summary (`engine`'s own text).
const SUMMARY_REQUEST: &str = "about to be replaced by your summary";

/// A request as it came: when, the processor time used until then, and the memory.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at: Instant,
    own: Duration,
    /// The part of it that is not the kernel's, in ticks of the kernel's clock.
    user: u64,
    bytes: u64,
    /// The part of the memory that is no file's: the kernel takes pages of the program away and brings them back.
    anonymous: u64,
}

#[derive(Debug, Default)]
struct Log {
    pid: AtomicU32,
    arrivals: Mutex<Vec<Arrival>>,
}

fn user_ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may have blanks; user time is the twelfth field after it.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().nth(11);
    ticks.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Memory by its name in the kernel's table.
fn memory(pid: u32, name: &str) -> u64 {
    std::fs::read_to_string(format!("/proc/{pid}/status"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}

/// A server that gives a call for each of the turns, then ends.
fn serve(
    log: &Arc<Log>,
    turns: usize,
    call: impl Fn(usize) -> Reply + Send + Sync + 'static,
) -> BlockingServer {
    let log = Arc::clone(log);
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder(move |_| {
            let pid = log.pid.load(Ordering::Relaxed);
            let mut arrivals = log.arrivals.lock().unwrap();
            arrivals.push(Arrival {
                at: Instant::now(),
                own: processor_time(pid),
                user: user_ticks(pid),
                bytes: memory(pid, "VmRSS:"),
                anonymous: memory(pid, "RssAnon:"),
            });
            if arrivals.len() > turns {
                Reply::text("done")
            } else {
                call(arrivals.len())
            }
        });
    BlockingServer::start(scenario).unwrap()
}

/// Runs to the end; returns the highest memory.
fn finish(mut child: Child) -> u64 {
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(processes::peak_memory(child.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(3));
    }
    assert!(child.wait().unwrap().success());
    peak
}

fn start(home: &TestHome, log: &Log, arguments: &[&str]) -> Child {
    let mut command = home.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    log.pid.store(child.id(), Ordering::Relaxed);
    child
}

pub(crate) fn rows() {
    turns();
    edits();
}

/// The cost of a turn by its number.
fn turns() {
    let last = TURNS[TURNS.len() - 1] + AROUND;
    let log = Arc::new(Log::default());
    let server = serve(&log, last, read);
    let home = TestHome::with_server(&server);
    home.write("small.txt", "a line\n".repeat(20));
    finish(start(&home, &log, &["-p", "go", "--max-turns", "6000"]));
    let arrivals = log.arrivals.lock().unwrap();
    let own: Vec<Duration> = arrivals
        .windows(2)
        .map(|pair| pair[1].own.saturating_sub(pair[0].own))
        .collect();
    let near = |turn: usize| median(own[turn.saturating_sub(AROUND)..turn + AROUND].to_vec());
    for turn in TURNS {
        let bytes = arrivals[turn].bytes;
        row(
            &format!("turn {turn}: our own time, and memory"),
            &format!("{:.2} ms", milliseconds(near(turn))),
            &format!("{:.0} MB", megabytes(bytes)),
        );
    }
    // Many turns, because the clock has few ticks.
    let user = |from: usize| {
        let ticks = arrivals[from + 900].user - arrivals[from].user;
        f64::from(u32::try_from(ticks).unwrap_or(u32::MAX))
    };
    row(
        "turns 4,100–5,000 / 100–1,000, less the kernel's part",
        &format!("{:.2}×", user(4_100) / user(100)),
        "≤ 1.20× (the kernel copies the whole request in each turn)",
    );
    row(
        "turn 5,000 / turn 100, with it",
        &format!(
            "{:.2}×",
            milliseconds(near(5_000)) / milliseconds(near(100))
        ),
        "",
    );
    let (early, late) = (arrivals[100].anonymous, arrivals[5_000].anonymous);
    let slope = late.saturating_sub(early) / 4_900;
    row(
        "memory that a turn adds, requests of all turns",
        &format!("{slope} bytes"),
        "≤ 1,024 bytes",
    );
    for step in 1..=100 {
        let turn = step * TURNS[TURNS.len() - 1] / 100;
        report::point(Point {
            turn,
            milliseconds: milliseconds(near(turn)),
            megabytes: megabytes(arrivals[turn].bytes),
        });
    }
}

/// A piece of a transcript: text, or one of its ids.
enum Piece {
    Text(String),
    Id(String),
}

/// The records of a real session with several compactions, cut at the ids of its records.
fn chapter(home: &TestHome) -> (std::path::PathBuf, Vec<Piece>) {
    let path = transcript::of_home(home).remove(0);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut ids = std::collections::HashSet::new();
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        ids.extend(record["uuid"].as_str().map(str::to_owned));
    }
    let mut pieces = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    while at + 36 <= text.len() {
        let Some(word) = text.get(at..at + 36).filter(|word| ids.contains(*word)) else {
            at += 1;
            continue;
        };
        pieces.push(Piece::Text(text[begin..at].to_owned()));
        pieces.push(Piece::Id(word.to_owned()));
        at += 36;
        begin = at;
    }
    pieces.push(Piece::Text(text[begin..].to_owned()));
    (path, pieces)
}

/// Repeats the chapter up to a size. The ids of each repetition are its own, so that the last is a conversation by itself.
fn write_transcript(path: &Path, pieces: &[Piece], bytes: u64) {
    let mut file = BufWriter::new(std::fs::File::create(path).unwrap());
    let (mut written, mut number) = (0, 0_u32);
    while written < bytes {
        number += 1;
        for piece in pieces {
            let text = match piece {
                Piece::Text(text) => text.as_str(),
                Piece::Id(id) => {
                    write!(file, "{number:08x}").unwrap();
                    written += 8;
                    &id[8..]
                }
            };
            file.write_all(text.as_bytes()).unwrap();
            written += text.len() as u64;
        }
    }
    file.flush().unwrap();
}

/// A session that is compacted a few times.
fn compacted_session() -> (TestHome, BlockingServer) {
    let count = AtomicU32::new(0);
    let scenario = Scenario::new().responder(move |request| {
        if request.last_user_text().contains(SUMMARY_REQUEST) {
            return Reply::text("Numbers were printed.");
        }
        let number = count.fetch_add(1, Ordering::Relaxed);
        if number < 60 {
            let command = format!("seq {number} {}", number + 2_000);
            Reply::tool_use("Bash", json!({"command": command}))
        } else {
            Reply::text("done")
        }
    });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server).variable("LATHE_AUTO_COMPACT_WINDOW", "30000");
    let output = home.run(["-p", "go", "--allowedTools", "Bash"], "");
    assert_eq!(output.code(), Some(0), "{output:?}");
    let text = std::fs::read_to_string(transcript::of_home(&home).remove(0)).unwrap();
    assert!(text.contains("compact_boundary"), "{text}");
    (home, server)
}

/// Resuming transcripts of several sizes: the time to the first request, and the highest memory.
pub(crate) fn transcripts() {
    let (home, _server) = compacted_session();
    let (path, pieces) = chapter(&home);
    let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
    for size in TRANSCRIPTS {
        write_transcript(&path, &pieces, size * 1_000_000);
        let (mut least, mut memory) = (Duration::MAX, 0);
        for _ in 0..3 {
            let log = Arc::new(Log::default());
            let server = serve(&log, 0, |_| Reply::text("done"));
            let mut command = home.command(["-p", "again", "--resume", &id]);
            command.env("ANTHROPIC_BASE_URL", server.base_url());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let started = Instant::now();
            let child = command.spawn().unwrap();
            log.pid.store(child.id(), Ordering::Relaxed);
            memory = memory.max(finish(child));
            let first = log.arrivals.lock().unwrap()[0].at;
            least = least.min(first - started);
        }
        row(
            &format!("resume of {size} MB: to the first request"),
            &format!("{:.0} ms", milliseconds(least)),
            &format!("≤ 2,000 ms, ≤ 200 MB (peak {:.0} MB)", megabytes(memory)),
        );
    }
}

/// A changed line in files of several sizes.
fn edits() {
    for (name, size) in [("1 KB", 1_000), ("1 MB", 1_000_000), ("10 MB", 10_000_000)] {
        let log = Arc::new(Log::default());
        let server = serve(&log, 21, |number| {
            if number == 1 {
                let input = json!({"file_path": "large.txt", "offset": 1, "limit": 3});
                return Reply::tool_use("Read", input);
            }
            let (old, new) = (format!("mark {}", number - 1), format!("mark {number}"));
            let old = if number == 2 {
                "mark 0".to_owned()
            } else {
                old
            };
            let input = json!({"file_path": "large.txt", "old_string": old, "new_string": new});
            Reply::tool_use("Edit", input)
        });
        let home = TestHome::with_server(&server);
        let lines = "some words in a line of the file\n".repeat(size / 33 / 2);
        home.write("large.txt", format!("{lines}mark 0\n{lines}"));
        let mode = ["-p", "go", "--permission-mode", "acceptEdits"];
        finish(start(&home, &log, &mode));
        assert!(home.read("large.txt").contains("mark 21\n"), "{name}");
        let arrivals = log.arrivals.lock().unwrap();
        let own = arrivals
            .windows(2)
            .skip(2)
            .map(|pair| pair[1].own.saturating_sub(pair[0].own))
            .collect();
        row(
            &format!("an Edit turn in a file of {name}: our own time"),
            &format!("{:.2} ms", milliseconds(median(own))),
            "",
        );
    }
}
