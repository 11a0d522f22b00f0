//! What a host of the SDK protocol waits for and pays.

use super::{median, megabytes, milliseconds, processor_time, row};
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::TestHome;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// A session driven by frames.
struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn start(home: &TestHome, more: &[&str]) -> Self {
        let mut command = home.command([
            "--print",
            "--verbose",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
        ]);
        let mut child = command
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input,
            output,
        }
    }

    fn send(&mut self, frame: &Value) {
        self.input
            .write_all(format!("{frame}\n").as_bytes())
            .unwrap();
    }

    /// Reads frames until one of a kind; counts those whose line has a word.
    fn read_until(&mut self, kind: &str, counted: &str) -> usize {
        let wanted = format!("{{\"type\":\"{kind}\"");
        let mut count = 0;
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "no {kind}");
            count += usize::from(line.contains(counted));
            if line.starts_with(&wanted) {
                return count;
            }
        }
    }

    fn initialize(&mut self) {
        self.send(&json!({
            "type": "control_request", "request_id": "r", "request": {"subtype": "initialize", "hooks": null},
        }));
        self.read_until("control_response", "control_response");
    }

    /// One prompt and its answer; how many of the frames had a word.
    fn turn(&mut self, counted: &str) -> usize {
        self.send(&json!({
            "type": "user", "message": {"role": "user", "content": "go"},
            "parent_tool_use_id": null, "session_id": "",
        }));
        self.read_until("result", counted)
    }

    fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.unwrap().trim().trim_end_matches("kB").trim();
        kilobytes.parse::<u64>().unwrap() * 1024
    }

    fn end(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}

fn server(reply: impl Fn() -> Reply + Send + Sync + 'static) -> BlockingServer {
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder(move |_| reply());
    BlockingServer::start(scenario).unwrap()
}

pub(crate) fn rows() {
    let quiet = server(|| Reply::text("fine"));
    let home = TestHome::with_server(&quiet);
    let starts = (0..15)
        .map(|_| {
            let started = Instant::now();
            let mut session = Session::start(&home, &[]);
            session.initialize();
            let elapsed = started.elapsed();
            session.end();
            elapsed
        })
        .collect();
    row(
        "spawn to the answer to `initialize`",
        &format!("{:.1} ms", milliseconds(median(starts))),
        "≤ 15 ms",
    );

    let words = 1_500;
    let talk = server(move || {
        Reply::text("word ".repeat(words))
            .delta_characters(5)
            .chunk_delay_ms(1)
    });
    let home = TestHome::with_server(&talk);
    let mut session = Session::start(&home, &["--include-partial-messages"]);
    session.initialize();
    let before = processor_time(session.child.id());
    let started = Instant::now();
    let frames = session.turn("\"text_delta\"");
    let took = started.elapsed();
    let used = processor_time(session.child.id()).saturating_sub(before);
    session.end();
    let each = used.as_secs_f64() / f64::from(u32::try_from(frames.max(1)).unwrap());
    row(
        "1,000 partial frames in a second: of one core",
        &format!("{:.1} %", each * 1000.0 * 100.0),
        &format!(
            "≤ 5 % ({frames} frames, {:.0} µs each, in {:.1} s)",
            each * 1e6,
            took.as_secs_f64()
        ),
    );

    let home = TestHome::with_server(&quiet);
    let mut session = Session::start(&home, &[]);
    session.initialize();
    let mut sizes = Vec::new();
    for turn in 1..=500 {
        session.turn("result");
        if turn == 50 || turn == 500 {
            // What the last turn left behind is cleared up a moment later.
            std::thread::sleep(Duration::from_millis(200));
            sizes.push(session.resident());
        }
    }
    session.end();
    row(
        "memory after 500 turns / after 50",
        &format!("{:.2}×", megabytes(sizes[1]) / megabytes(sizes[0])),
        &format!(
            "≤ 1.5× ({:.1} / {:.1} MB)",
            megabytes(sizes[1]),
            megabytes(sizes[0])
        ),
    );
}
