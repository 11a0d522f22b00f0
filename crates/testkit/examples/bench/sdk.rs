//! Waiting time and cost of a host of the SDK protocol.

mod talker;

use super::{median, megabytes, milliseconds, processor_time, row};
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::TestHome;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};
use talker::Talker;

/// How many words the long answer has: five seconds of them.
const WORDS: usize = 5_000;

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

    /// Reads frames until one of a kind, and shows each.
    fn read_until(&mut self, kind: &str, mut each: impl FnMut(&str)) {
        let wanted = format!("{{\"type\":\"{kind}\"");
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "no {kind}");
            each(&line);
            if line.starts_with(&wanted) {
                return;
            }
        }
    }

    fn initialize(&mut self) {
        self.send(&json!({
            "type": "control_request", "request_id": "r", "request": {"subtype": "initialize", "hooks": null},
        }));
        self.read_until("control_response", |_| {});
    }

    /// One prompt and its answer, whose frames are shown.
    fn turn(&mut self, each: impl FnMut(&str)) {
        self.send(&json!({
            "type": "user", "message": {"role": "user", "content": "go"},
            "parent_tool_use_id": null, "session_id": "",
        }));
        self.read_until("result", each);
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

/// The cost of an answer that comes at a thousand words a second, each of them a frame. The cost of a turn
/// without any words is apart.
fn partial_frames() {
    let talker = Talker::start();
    let home = TestHome::new()
        .variable("ANTHROPIC_BASE_URL", talker.address())
        .variable("ANTHROPIC_API_KEY", "test-key");
    let mut session = Session::start(&home, &["--include-partial-messages"]);
    session.initialize();
    let pid = session.child.id();
    // The first turn connects and sets up; the second is one like any other.
    talker.say(0, pid);
    session.turn(|_| {});
    let before = processor_time(pid);
    session.turn(|_| {});
    let fixed = processor_time(pid).saturating_sub(before);

    talker.say(WORDS, pid);
    let mut seen = Vec::with_capacity(WORDS);
    session.turn(|line| {
        if line.starts_with("{\"type\":\"stream_event\"")
            && let Some((_, text)) = line.split_once("\"text_delta\",\"text\":\"")
        {
            assert_eq!(text[..7].parse::<usize>().unwrap(), seen.len(), "{line}");
            seen.push(Instant::now());
        }
    });
    session.end();
    let talk = talker.last();
    assert_eq!((seen.len(), talk.sent.len()), (WORDS, WORDS));
    let mut delays: Vec<Duration> = seen
        .iter()
        .zip(&talk.sent)
        .map(|(seen, sent)| seen.saturating_duration_since(*sent))
        .collect();
    delays.sort_unstable();
    let count = f64::from(u32::try_from(WORDS).unwrap());
    let speaking = talk.sent[WORDS - 1].duration_since(talk.sent[0]);
    row(
        "1,000 partial frames in a second: of one core",
        &format!(
            "{:.1} %",
            talk.used.as_secs_f64() / talk.took.as_secs_f64() * 100.0
        ),
        &format!(
            "≤ 5 % ({:.0} frames/s for {:.1} s, {:.0} µs each; a turn without any {:.1} ms)",
            (count - 1.0) / speaking.as_secs_f64(),
            speaking.as_secs_f64(),
            talk.used.as_secs_f64() / count * 1e6,
            milliseconds(fixed)
        ),
    );
    row(
        "a word until its frame: half of them, 99 of 100",
        &format!(
            "{:.1} / {:.1} ms",
            milliseconds(delays[WORDS / 2]),
            milliseconds(delays[WORDS * 99 / 100])
        ),
        &format!(
            "≤ 10 ms (the last of all {:.1})",
            milliseconds(delays[WORDS - 1])
        ),
    );
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

    partial_frames();

    let home = TestHome::with_server(&quiet);
    let mut session = Session::start(&home, &[]);
    session.initialize();
    let mut sizes = Vec::new();
    for turn in 1..=500 {
        session.turn(|_| {});
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
