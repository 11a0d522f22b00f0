//! The speed numbers, as ratios to something in the same run and as counts. Run it with
//! `scripts/bench`, which builds the release binary first.
//!
//! Per-turn times are taken at the model server, between two requests, and have the time of a bare
//! HTTP client doing the same exchange subtracted: what is left is ours.

use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::TestHome;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// When requests came in.
type Arrivals = Arc<Mutex<Vec<Instant>>>;

fn scenario(
    arrivals: &Arrivals,
    turns: usize,
    call: impl Fn(usize) -> Reply + Send + Sync + 'static,
) -> Scenario {
    let arrivals = arrivals.clone();
    Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder(move |_| {
            let mut arrivals = arrivals.lock().unwrap();
            arrivals.push(Instant::now());
            if arrivals.len() > turns {
                Reply::text("done")
            } else {
                call(arrivals.len())
            }
        })
}

/// Runs the binary through `turns` calls and gives when requests came in, and its peak memory.
fn run(
    turns: usize,
    call: impl Fn(usize) -> Reply + Send + Sync + 'static,
) -> (Vec<Duration>, Duration, u64) {
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
        std::thread::sleep(Duration::from_millis(1));
    }
    let text = reader.join().unwrap();
    assert!(text.contains("\"subtype\":\"success\""), "{text}");
    let arrivals = arrivals.lock().unwrap();
    let first = arrivals[0] - started;
    let gaps = arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    (gaps, first, peak)
}

/// The same exchange by a bare client that only sends and reads: what the server and the loopback cost.
fn bare(turns: usize, body_bytes: usize) -> Duration {
    let arrivals = Arrivals::default();
    let server = BlockingServer::start(scenario(&arrivals, turns, |_| {
        Reply::tool_use("Read", json!({"file_path": "small.txt"}))
    }))
    .unwrap();
    let address = server.base_url().trim_start_matches("http://").to_owned();
    let padding = "x".repeat(body_bytes.saturating_sub(150));
    let body = format!(
        r#"{{"model":"claude-opus-5-5","max_tokens":1000,"stream":true,"messages":[{{"role":"user","content":[{{"type":"text","text":"{padding}"}}]}}]}}"#
    );
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {address}\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut buffer = vec![0; 1 << 16];
    for _ in 0..turns {
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"0\r\n\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&buffer[..count]);
        }
    }
    let arrivals = arrivals.lock().unwrap();
    median(arrivals.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn row(what: &str, value: &str, target: &str) {
    println!("{what:<52} {value:>14}   {target}");
}

fn main() {
    let binary = lathe_testkit::binary::lathe();
    println!("{}\n", binary.display());
    row("what", "measured", "wanted");

    let size = std::fs::metadata(binary).unwrap().len();
    row("binary", &format!("{:.1} MB", size as f64 / 1e6), "≤ 20 MB");

    let timed = |arguments: &[&str], program: &std::path::Path| {
        median(
            (0..31)
                .map(|_| {
                    let started = Instant::now();
                    let done = Command::new(program)
                        .args(arguments)
                        .stdout(Stdio::null())
                        .status();
                    assert!(done.unwrap().success());
                    started.elapsed()
                })
                .collect(),
        )
    };
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

    let starts: Vec<(Duration, u64)> = (0..11)
        .map(|_| {
            let (_, first, peak) = run(0, |_| Reply::text("done"));
            (first, peak)
        })
        .collect();
    let first = median(starts.iter().map(|(first, _)| *first).collect());
    row(
        "start to first request",
        &format!("{:.1} ms", milliseconds(first)),
        "≤ 20 ms",
    );
    let peak = starts.iter().map(|(_, peak)| *peak).max().unwrap_or(0);
    row(
        "peak memory of one answer",
        &format!("{:.1} MB", peak as f64 / 1e6),
        "≤ 25 MB",
    );

    let read = |_: usize| Reply::tool_use("Read", json!({"file_path": "small.txt", "limit": 5}));
    let varied = |index: usize| {
        Reply::tool_use(
            "Read",
            json!({"file_path": "small.txt", "offset": 1 + index % 15, "limit": 3}),
        )
    };
    let _ = read;
    let floor = bare(50, 14_000);
    let (gaps, _, _) = run(50, varied);
    let own = median(gaps).saturating_sub(floor);
    row(
        "a Read turn, beyond the bare exchange",
        &format!("{:.2} ms", milliseconds(own)),
        &format!("≤ 0.5 ms (bare: {:.2} ms)", milliseconds(floor)),
    );
    let bash = |index: usize| Reply::tool_use("Bash", json!({"command": format!("true {index}")}));
    let (gaps, _, _) = run(50, bash);
    let own = median(gaps).saturating_sub(floor);
    row(
        "a Bash `true` turn, beyond the bare exchange",
        &format!("{:.2} ms", milliseconds(own)),
        "≤ 3 ms",
    );

    let (gaps, _, _) = run(1_010, varied);
    let near = |at: usize| median(gaps[at - 10..at].to_vec());
    let (early, late) = (near(20), near(1_005));
    let growth = (bare(30, 14_000 + 1_000 * 300)).saturating_sub(floor);
    row(
        "turn 1,000 / turn 10 (own time)",
        &format!(
            "{:.2}×",
            milliseconds(late.saturating_sub(growth)) / milliseconds(early)
        ),
        &format!(
            "≤ 2× ({:.2} / {:.2} ms; body grows by {:.2} ms)",
            milliseconds(late),
            milliseconds(early),
            milliseconds(growth)
        ),
    );

    let large = |index: usize| {
        Reply::tool_use(
            "Read",
            json!({"file_path": "large.txt", "offset": 1 + index % 10, "limit": 190}),
        )
    };
    let (_, _, peak) = run(1_000, large);
    row(
        "peak memory, 1,000 turns with 20 KB results",
        &format!("{:.0} MB", peak as f64 / 1e6),
        "≤ 150 MB",
    );
}
