//! The speed numbers, as ratios to something in the same run and as counts. Run it with
//! `scripts/bench`, which builds the release binary first. Words after `--` choose what is measured:
//! `start`, `turns`, `long`, `sessions`, `flat` (instruction counts of late turns; only by its name), `transcripts`, `memory`, `host`, `editor`, `streams`, `translators` (instruction counts of streams), `terminal`, `attached`, `beside`, `compare` (instruction counts beside the committed baseline) and
//! `baseline` (writes it).
//!
//! Our own time in a turn is the processor time that our process used between two requests, read from
//! the kernel when a request arrives: the server's and the machine's other work don't count. What waits
//! for a child process is told by the clock, less the time of a bare exchange: the same request, sent by a
//! client that does nothing else.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the maintainer: it prints, and stops where something is wrong"
)]

mod attached;
mod beside;
mod editor;
mod extensions;
mod instructions;
mod report;
mod sdk;
mod sessions;
mod streams;
mod terminal;

use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::TestHome;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// When requests came in, and how much processor time our process had used by then.
#[derive(Default)]
struct Log {
    pid: AtomicU32,
    arrivals: Mutex<Vec<(Instant, Duration)>>,
    /// The request in the middle of the run, as it came.
    body: Mutex<Vec<u8>>,
}

type Arrivals = Arc<Log>;

/// The processor time of all threads of a process.
fn processor_time(pid: u32) -> Duration {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse().ok())
        .map(Duration::from_nanos)
        .sum()
}

/// The measurements of a run.
struct Run {
    /// Between requests, by the clock.
    gaps: Vec<Duration>,
    /// Between requests, by the processor time that we used.
    own: Vec<Duration>,
    /// From the start to the first request.
    first: Duration,
    /// Peak memory.
    peak: u64,
    /// The request in the middle of it.
    body: Vec<u8>,
}

fn scenario(
    arrivals: &Arrivals,
    turns: usize,
    call: impl Fn(usize) -> Reply + Send + Sync + 'static,
) -> Scenario {
    let arrivals = arrivals.clone();
    Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder(move |request| {
            let now = Instant::now();
            let own = processor_time(arrivals.pid.load(Ordering::Relaxed));
            let mut times = arrivals.arrivals.lock().unwrap();
            times.push((now, own));
            if times.len() == turns / 2 {
                *arrivals.body.lock().unwrap() = request.raw_body.to_vec();
            }
            if times.len() > turns {
                Reply::text("done")
            } else {
                call(times.len())
            }
        })
}

/// Runs the binary through `turns` calls and gives when requests came in, and its peak memory.
fn run(turns: usize, call: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Run {
    let arrivals = Arrivals::default();
    let server = BlockingServer::start(scenario(&arrivals, turns, call)).unwrap();
    let home = TestHome::with_server(&server);
    home.write("small.txt", "a line\n".repeat(20));
    home.write(
        "large.txt",
        format!("{}\n", "0123456789 ".repeat(9)).repeat(200),
    );
    let mut command = home.command([
        "-p",
        "go",
        "--output-format",
        "json",
        "--allowedTools",
        "Bash",
        "--max-turns",
        "5000",
    ]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    arrivals.pid.store(child.id(), Ordering::Relaxed);
    let mut peak = 0;
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = out.read_to_string(&mut text);
        text
    });
    while child.try_wait().unwrap().is_none() {
        peak = lathe_testkit::processes::peak_memory(child.id())
            .unwrap_or(peak)
            .max(peak);
        std::thread::sleep(Duration::from_millis(3));
    }
    let text = reader.join().unwrap();
    assert!(text.contains("\"subtype\":\"success\""), "{text}");
    let body = std::mem::take(&mut *arrivals.body.lock().unwrap());
    let arrivals = arrivals.arrivals.lock().unwrap();
    Run {
        gaps: arrivals
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].0)
            .collect(),
        own: arrivals
            .windows(2)
            .map(|pair| pair[1].1.saturating_sub(pair[0].1))
            .collect(),
        first: arrivals[0].0 - started,
        peak,
        body,
    }
}

/// The same exchange by a bare client that only sends and reads: what the server and the loopback cost.
fn bare(turns: usize, body: &[u8]) -> Duration {
    let arrivals = Arrivals::default();
    let server = BlockingServer::start(scenario(&arrivals, turns, |_| {
        Reply::tool_use("Read", json!({"file_path": "small.txt"}))
    }))
    .unwrap();
    let address = server.base_url().trim_start_matches("http://").to_owned();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {address}\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..turns {
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"0\r\n\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&buffer[..count]);
        }
    }
    let arrivals = arrivals.arrivals.lock().unwrap();
    median(
        arrivals
            .windows(2)
            .map(|pair| pair[1].0 - pair[0].0)
            .collect(),
    )
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The least of several rounds: what is above it is what else the machine did.
fn best(mut round: impl FnMut() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}

/// The time of a turn: the medians of runs of fifty, the least of several runs.
struct Turns {
    own: Duration,
    gap: Duration,
    /// The share of the server and the loopback.
    bare: Duration,
}

fn turns(call: impl Fn(usize) -> Reply + Copy + Send + Sync + 'static) -> Turns {
    let runs: Vec<Run> = (0..ROUNDS).map(|_| run(50, call)).collect();
    let least = |times: fn(&Run) -> &Vec<Duration>| {
        let medians = runs.iter().map(|run| median(times(run).clone()));
        medians.min().unwrap_or_default()
    };
    Turns {
        own: least(|run| &run.own),
        gap: least(|run| &run.gaps),
        bare: best(|| bare(50, &runs[0].body)),
    }
}

/// How often a measurement is repeated.
const ROUNDS: usize = 5;

/// How long a program takes from its start to its end.
fn timed(arguments: &[&str], program: &std::path::Path) -> Duration {
    let round = || {
        let started = Instant::now();
        let done = Command::new(program)
            .args(arguments)
            .stdout(Stdio::null())
            .status();
        assert!(done.unwrap().success());
        started.elapsed()
    };
    median((0..31).map(|_| round()).collect())
}

/// A call that reads a few lines, other ones than the call before.
fn read(index: usize) -> Reply {
    let offset = 1 + index % 15;
    Reply::tool_use(
        "Read",
        json!({"file_path": "small.txt", "offset": offset, "limit": 3}),
    )
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn row(what: &str, value: &str, target: &str) {
    report::row(what, value, target);
    println!("{what:<52} {value:>14}   {target}");
}

fn main() -> ExitCode {
    let binary = lathe_testkit::binary::lathe();
    println!("{}\n", binary.display());
    row("what", "measured", "wanted");
    let (json, chosen): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|word| word.starts_with("--json="));
    let wants = |part: &str| chosen.is_empty() || chosen.iter().any(|name| name == part);
    if wants("start") {
        start(binary);
    }
    if wants("turns") {
        short_turns();
    }
    if wants("long") {
        long_session();
    }
    if wants("sessions") {
        sessions::rows();
    }
    // Minutes under valgrind, so only when it is asked for.
    if chosen.iter().any(|name| name == "flat") {
        instructions::flat();
    }
    if wants("transcripts") {
        sessions::transcripts();
    }
    if wants("memory") {
        large_results();
    }
    if wants("host") {
        sdk::rows();
    }
    if wants("editor") {
        editor::rows();
    }
    if wants("translators") {
        streams::instruction_rows();
    }
    if wants("streams") {
        streams::rows();
    }
    if wants("terminal") {
        terminal::rows();
    }
    if wants("attached") {
        attached::rows();
    }
    if wants("beside") {
        beside::rows();
    }
    let mut code = ExitCode::SUCCESS;
    if chosen.iter().any(|name| name == "baseline") {
        instructions::write();
    } else if wants("compare") && !instructions::compare() {
        code = ExitCode::FAILURE;
    }
    if let Some(file) = json.last().and_then(|word| word.split_once('=')) {
        report::write(std::path::Path::new(file.1));
    }
    code
}

/// A new process: its size, what it costs to begin.
fn start(binary: &std::path::Path) {
    row(
        "binary",
        &format!("{:.1} MB", megabytes(instructions::size())),
        "",
    );

    let version = timed(&["--version"], binary);
    let nothing = timed(&[], std::path::Path::new("/bin/true"));
    row(
        "lathe --version (and beside it: true)",
        &format!(
            "{:.1} / {:.1} ms",
            milliseconds(version),
            milliseconds(nothing)
        ),
        "≤ 3 ms",
    );

    let starts: Vec<Run> = (0..11).map(|_| run(0, |_| Reply::text("done"))).collect();
    let first = median(starts.iter().map(|start| start.first).collect());
    row(
        "start to first request",
        &format!("{:.1} ms", milliseconds(first)),
        "≤ 20 ms",
    );
    extensions::rows();
    let peak = starts.iter().map(|start| start.peak).max().unwrap_or(0);
    row(
        "peak memory of one answer",
        &format!("{:.1} MB", megabytes(peak)),
        "≤ 25 MB",
    );
}

/// Turns at the beginning of a session.
fn short_turns() {
    let reads = turns(read);
    row(
        "a Read turn: our own time",
        &format!("{:.2} ms", milliseconds(reads.own)),
        &format!(
            "≤ 0.5 ms (by the clock {:.2}, bare exchange {:.2})",
            milliseconds(reads.gap),
            milliseconds(reads.bare)
        ),
    );
    let ten = |index: usize| {
        let calls = (0..10).map(|call| {
            let input = json!({"file_path": "small.txt", "offset": 1 + (index + call) % 15, "limit": 3});
            json!({"type": "tool_use", "id": format!("toolu_{index}_{call}"), "name": "Read", "input": input})
        });
        Reply::blocks(calls.collect())
    };
    row(
        "ten parallel Reads: our own time",
        &format!("{:.2} ms", milliseconds(turns(ten).own)),
        "≤ 2 ms",
    );
    let bash = |index: usize| Reply::tool_use("Bash", json!({"command": format!("true {index}")}));
    let commands = turns(bash);
    let shell = best(|| timed(&["-c", "true"], std::path::Path::new("/bin/bash")));
    row(
        "a Bash `true` turn by the clock, less a bare exchange",
        &format!(
            "{:.2} ms",
            milliseconds(commands.gap.saturating_sub(commands.bare))
        ),
        &format!(
            "≤ 3 ms (our own time {:.2}, bash -c true {:.2}, bare exchange {:.2})",
            milliseconds(commands.own),
            milliseconds(shell),
            milliseconds(commands.bare)
        ),
    );
    let beyond = commands.gap.saturating_sub(commands.bare + shell);
    row(
        "the same, beyond the shell's own start",
        &format!("{:.2} ms", milliseconds(beyond)),
        "≤ 1.5 ms",
    );
}

/// The cost of a turn late in a session, beside early.
fn long_session() {
    let long = run(1_010, read);
    let near = |at: usize| median(long.own[at - 10..at].to_vec());
    let (early, late) = (near(20), near(1_005));
    row(
        "turn 1,000 / turn 10: our own time",
        &format!("{:.2}×", milliseconds(late) / milliseconds(early)),
        &format!(
            "≤ 2× ({:.2} / {:.2} ms)",
            milliseconds(late),
            milliseconds(early)
        ),
    );
}

/// Memory after large results.
fn large_results() {
    let large = |index: usize| {
        let offset = 1 + index % 10;
        Reply::tool_use(
            "Read",
            json!({"file_path": "large.txt", "offset": offset, "limit": 190}),
        )
    };
    let peak = run(1_000, large).peak;
    row(
        "peak memory, 1,000 turns with 20 KB results",
        &format!("{:.0} MB", megabytes(peak)),
        "≤ 150 MB",
    );
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
