//! The real binary killed without warning, over and over, at points of chance: in the middle of a
//! stream, of a tool, of a write. After every kill the session must be there again: it resumes,
//! everything that a request carried is in it (prompts, answers, calls, results), the next request is
//! one that the API accepts, and no file is half of one version and half of another.
//!
//! `LATHE_CRASH_CHAINS` says how many sessions are killed five times each: 500 kills by default, 1,000 in
//! `scripts/crash`, or as many as it is asked for.
//!
//! Chains of kills hit one session, so that each resume starts from what the crash before left.
//! The seed is printed; `LATHE_CRASH_SEED` repeats a run (the kernel's scheduling is not repeated,
//! so a failure may need a few tries).
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Position, RecordedRequest, Reply, Scenario};
use lathe_testkit::transcript::{self, Transcript};
use lathe_testkit::{Running, TestHome, processes};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Sessions, each killed several times.
const CHAINS: usize = 100;
/// Kills of one session.
const KILLS: usize = 5;
/// How many of a hundred kills must have hit a process whose prompt had reached the model (the
/// others came when it had just ended). Of 500 that is 420.
const HITS_IN_A_HUNDRED: usize = 84;
/// Places at which a transcript is cut.
const CUTS: usize = 60;
/// Sessions at the same time.
const WORKERS: usize = 4;
const LIMIT: Duration = Duration::from_secs(60);

/// Where a run is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// While the answer of this step is at this byte.
    Stream { step: usize, byte: usize },
    /// While the shell command runs.
    Tool,
    /// This long after the request of this step has come in: in the stream, in a tool that writes,
    /// in the transcript, wherever that is.
    Moment { step: usize, microseconds: u64 },
}

/// The step of the script in which the shell command waits to be killed.
const SHELL_STEP: usize = 3;
/// Steps of the script; the last one ends the turn.
const STEPS: usize = 6;

impl Point {
    fn random(random: &mut fastrand::Rng) -> Self {
        match random.u8(0..10) {
            0..4 => Self::Stream {
                step: random.usize(0..STEPS),
                byte: random.usize(0..1500),
            },
            4..6 => Self::Tool,
            _ => Self::Moment {
                step: random.usize(0..STEPS),
                microseconds: random.u64(0..15_000),
            },
        }
    }
}

/// A version of the file: long, and every line says which version it belongs to.
fn version(number: usize, edited: bool) -> String {
    let body = format!("line of version {number}\n").repeat(700);
    format!(
        "begin {number}\n{body}end {number}{}\n",
        if edited { " edited" } else { "" }
    )
}

/// Whether a text is exactly one version.
fn is_whole(text: &str) -> bool {
    let number = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("begin "))
        .and_then(|number| number.parse().ok());
    number.is_some_and(|number| text == version(number, false) || text == version(number, true))
}

fn prompt(number: usize) -> String {
    format!("prompt number {number}: go on with the work")
}

/// How many answers the model has given since the newest prompt.
fn step_of(request: &RecordedRequest) -> usize {
    let messages = request.messages();
    let newest = messages.iter().rposition(|message| {
        message["role"] == "user" && message["content"].to_string().contains("prompt number")
    });
    let after = messages.iter().skip(newest.unwrap_or(0));
    after
        .filter(|message| message["role"] == "assistant")
        .count()
}

/// The model's action at a step. `number` is the number of the newest prompt.
fn reply_at(step: usize, number: usize, file: &str, point: Option<Point>) -> Reply {
    let other = number + 1;
    match step {
        0 => Reply::text("I write a file.").with_tool_use(
            "Write",
            json!({"file_path": file, "content": version(number, false)}),
        ),
        1 => Reply::tool_use("Read", json!({"file_path": file, "limit": 5}))
            .with_tool_use("Bash", json!({"command": "echo parallel"})),
        2 => Reply::thinking("Which end?")
            .with_text("I change it.")
            .with_tool_use(
                "Edit",
                json!({
                    "file_path": file,
                    "old_string": format!("end {number}\n"),
                    "new_string": format!("end {number} edited\n"),
                }),
            ),
        SHELL_STEP if point == Some(Point::Tool) => Reply::tool_use(
            "Bash",
            json!({"command": format!("touch waiting-{number}; exec sleep 60")}),
        ),
        SHELL_STEP => Reply::tool_use("Bash", json!({"command": "echo short >> log.txt"})),
        4 => Reply::tool_use(
            "Write",
            json!({"file_path": file, "content": version(other, false)}),
        ),
        _ => Reply::text("Done with it."),
    }
}

/// One session and its script.
struct Session {
    server: BlockingServer,
    home: TestHome,
    id: String,
    /// The next step of the script: the number of the run, and where it is held.
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default, Clone)]
struct Held {
    number: usize,
    point: Option<Point>,
}

/// The target of a kill.
struct Hit {
    /// Whether the prompt had reached the model.
    sent: bool,
    /// Whether the process was still running.
    killed: bool,
}

/// The gate that a reply is held at in a run.
fn gate_of(number: usize) -> String {
    format!("kill {number}")
}

impl Session {
    fn start() -> Self {
        let held = Arc::new(Mutex::new(Held::default()));
        let home = TestHome::new();
        let file = home.project().join("data.txt").display().to_string();
        let scenario = Scenario::new().responder({
            let held = Arc::clone(&held);
            move |request| {
                let held = held.lock().unwrap().clone();
                let step = step_of(request);
                let reply = reply_at(step, held.number, &file, held.point);
                match held.point {
                    Some(Point::Stream { step: at, byte }) if at == step => {
                        reply.gate(Position::Byte(byte), gate_of(held.number))
                    }
                    _ => reply,
                }
            }
        });
        let server = BlockingServer::start(scenario).unwrap();
        let home = home
            .server(&server)
            .variable("IS_SANDBOX", "1")
            .variable("LATHE_RETRY_BASE_MS", "1");
        home.write("data.txt", version(0, false));
        Self {
            server,
            home,
            id: uuid_like(),
            held,
        }
    }

    fn spawn(&self, number: usize, point: Option<Point>) -> Running {
        *self.held.lock().unwrap() = Held { number, point };
        let exists = self
            .transcript()
            .is_some_and(|transcript| !transcript.records.is_empty());
        let which = if exists { "--resume" } else { "--session-id" };
        let mut running = self.home.spawn([
            "-p",
            &prompt(number),
            which,
            &self.id,
            "--output-format",
            "json",
            "--permission-mode",
            "bypassPermissions",
        ]);
        running.close_stdin();
        running
    }

    fn transcript(&self) -> Option<Transcript> {
        transcript::of_home(&self.home)
            .first()
            .map(|path| Transcript::read(path))
    }

    /// Waits until the run has come to its point, or to its end.
    fn wait_for(&self, point: Point, number: usize, before: usize, running: &mut Running) {
        let until = Instant::now() + LIMIT;
        let reached = || match point {
            Point::Stream { .. } => self.server.gate(&gate_of(number)).reached() > 0,
            Point::Tool => self
                .home
                .project()
                .join(format!("waiting-{number}"))
                .exists(),
            Point::Moment { step, .. } => self.server.request_count() > before + step,
        };
        while !reached() && !running.ended_within(Duration::from_micros(200)) {
            assert!(
                Instant::now() < until,
                "{point:?} never comes: {}",
                running.stderr_so_far()
            );
        }
        if let Point::Moment { microseconds, .. } = point {
            let moment = Instant::now() + Duration::from_micros(microseconds);
            while Instant::now() < moment && !running.ended_within(Duration::ZERO) {
                std::hint::spin_loop();
            }
        }
    }

    /// Runs one prompt and kills it.
    fn run_and_kill(&self, number: usize, point: Point) -> Hit {
        let before = self.server.request_count();
        let asked = self.server.message_requests().len();
        let mut running = self.spawn(number, Some(point));
        self.wait_for(point, number, before, &mut running);
        running.kill();
        let output = running.finish();
        // Whatever was held may go: nobody reads it any more.
        self.server.gate(&gate_of(number)).release();
        let context = format!("after {point:?} of run {number}: {output:?}");
        assert!(output.stderr.is_empty(), "{context}");

        let sent = self.server.request_count() > before;
        let transcript = self.transcript().unwrap_or_default();
        assert!(
            !sent || transcript.prompts().contains(&prompt(number)),
            "the prompt is lost {context}\n{transcript:#?}"
        );
        for request in self.server.message_requests().iter().skip(asked) {
            let lost = missing(request.messages(), &transcript);
            assert!(
                lost.is_empty(),
                "a request carried {lost:?}, which the transcript has not {context}\n{transcript:#?}"
            );
        }
        self.check_file(&context);
        assert_eq!(self.server.problems(), Vec::<String>::new(), "{context}");
        processes::assert_none_left(&self.home);
        Hit {
            sent,
            killed: output.signal() == Some(9),
        }
    }

    /// Resumes a session whose transcript was cut.
    fn resume_after_cut(&self, cut: usize) {
        let output = self.spawn(2, None).finish();
        let context = format!("cut at byte {cut}: {output:#?}");
        assert_eq!(output.code(), Some(0), "{context}");
        assert_eq!(self.server.problems(), Vec::<String>::new(), "{context}");
        let requests = self.server.message_requests();
        let told = requests.last().unwrap().body["messages"].to_string();
        assert!(
            told.contains(&prompt(1)) && told.contains(&prompt(2)),
            "{context}"
        );
    }

    fn check_file(&self, context: &str) {
        let text = self.home.read("data.txt");
        assert!(
            is_whole(&text),
            "half-written ({} bytes) {context}",
            text.len()
        );
    }

    /// Runs the session to its end and checks what the model was told.
    fn complete(&self, prompts: &[usize]) {
        let number = KILLS + 1;
        let output = self.spawn(number, None).finish();
        assert_eq!(output.code(), Some(0), "{output:#?}");
        assert_eq!(output.result()["result"], "Done with it.", "{output:#?}");
        self.server.finish();
        self.check_file("at the end");
        let requests = self.server.message_requests();
        let last: &Value = &requests.last().unwrap().body["messages"];
        let told = last.to_string();
        for &number in prompts {
            assert!(
                told.contains(&prompt(number)),
                "prompt {number} is not told any more: {told}"
            );
        }
        let transcript = self.transcript().unwrap();
        assert!(!transcript.torn, "the last run ended in good order");
        assert!(
            transcript.damaged.len() <= KILLS,
            "{:?}",
            transcript.damaged
        );
    }
}

/// Parts of a conversation by which they are known again: the ids of calls and results, and what was said.
fn parts(role: &str, content: &Value) -> Vec<String> {
    let blocks = match content {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    };
    let part = |block: &Value| match block["type"].as_str()? {
        "tool_use" => Some(format!("call {} {}", block["id"], block["input"])),
        "tool_result" => Some(format!("result {}", block["tool_use_id"])),
        "text" if role == "assistant" => Some(format!("text {}", block["text"])),
        _ => None,
    };
    blocks.iter().filter_map(part).collect()
}

/// Content that a request carried and the transcript lacks.
fn missing(messages: &[Value], transcript: &Transcript) -> Vec<String> {
    let kept: HashSet<String> = transcript
        .records
        .iter()
        .flat_map(|record| {
            let role = record["type"].as_str().unwrap_or_default();
            parts(role, &record["message"]["content"])
        })
        .collect();
    messages
        .iter()
        .flat_map(|message| {
            let role = message["role"].as_str().unwrap_or_default();
            parts(role, &message["content"])
        })
        // A call without a result is given one that says so; that isn't in the file.
        .filter(|part| !kept.contains(part) && !is_added(part, messages))
        .collect()
}

/// Whether a part is the result that a request gives to a call which has none.
fn is_added(part: &str, messages: &[Value]) -> bool {
    let result = |block: &&Value| {
        block["type"] == "tool_result" && part == format!("result {}", block["tool_use_id"])
    };
    let found = messages
        .iter()
        .flat_map(|message| message["content"].as_array().into_iter().flatten())
        .find(result);
    found.is_some_and(|block| {
        block["content"]
            .to_string()
            .contains("No result was recorded for this call")
    })
}

/// A random id in the form that session ids have.
fn uuid_like() -> String {
    let random: u128 = fastrand::u128(..);
    let hex = format!("{random:032x}");
    format!(
        "{}-{}-4{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

fn number_from<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number, not {text}")),
    )
}

fn seed() -> u64 {
    number_from("LATHE_CRASH_SEED").unwrap_or(1)
}

/// Fault: SIGKILL at any point (500 random ones in the tests)
/// Seen: The interrupted turn, and the offer to go on
/// Kept: Everything that a request carried; no torn file, no process
#[test]
fn a_killed_session_always_comes_back_whole() {
    let seed = seed();
    eprintln!("LATHE_CRASH_SEED={seed}");
    // Fewer are enough to look into one failure.
    let chains = number_from("LATHE_CRASH_CHAINS").unwrap_or(CHAINS);
    let next = AtomicUsize::new(0);
    let points = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let chain = next.fetch_add(1, Ordering::Relaxed);
                    if chain >= chains {
                        return;
                    }
                    let mut random = fastrand::Rng::with_seed(seed.wrapping_add(chain as u64));
                    let session = Session::start();
                    let mut prompts = Vec::new();
                    for number in 1..=KILLS {
                        let hit = session.run_and_kill(number, Point::random(&mut random));
                        if hit.sent {
                            prompts.push(number);
                            points.fetch_add(usize::from(hit.killed), Ordering::Relaxed);
                        }
                    }
                    session.complete(&prompts);
                }
            });
        }
    });
    let points = points.into_inner();
    let wanted = (chains * KILLS * HITS_IN_A_HUNDRED).div_ceil(100);
    assert!(
        points >= wanted,
        "only {points} kills hit a session at work, not {wanted}"
    );
}

/// Fault: The process is killed between any two records, or the transcript is cut at any byte (a crash of the machine)
/// Seen: The conversation up to there
/// Kept: Every whole line before the cut
#[test]
fn a_transcript_cut_at_any_byte_resumes() {
    let seed = seed();
    eprintln!("LATHE_CRASH_SEED={seed}");
    let left = AtomicUsize::new(CUTS);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let left = &left;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed.wrapping_add(worker as u64));
                let session = Session::start();
                let output = session.spawn(1, None).finish();
                assert_eq!(output.code(), Some(0), "{output:#?}");
                let path = transcript::of_home(&session.home).remove(0);
                let whole = std::fs::read(&path).unwrap();
                // From the end of the prompt's line on there is a conversation.
                let text = String::from_utf8(whole.clone()).unwrap();
                let prompt = text.find(&prompt(1)).unwrap();
                let first = prompt + text[prompt..].find('\n').unwrap() + 1;
                let cut_at = |cut: usize| {
                    std::fs::write(&path, &whole[..cut]).unwrap();
                    session.resume_after_cut(cut);
                };
                // Between any two records first: what a process that is killed there leaves.
                let ends = text.match_indices('\n').map(|(at, _)| at + 1);
                for end in ends.filter(|end| worker == 0 && *end >= first) {
                    cut_at(end);
                }
                let one_less = |left: usize| left.checked_sub(1);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                    .is_ok()
                {
                    cut_at(random.usize(first..=whole.len()));
                }
            });
        }
    });
}

#[test]
fn half_a_version_is_told_from_a_whole_one() {
    let whole = version(7, true);
    assert!(is_whole(&whole) && is_whole(&version(7, false)));
    assert!(!is_whole(&whole[..whole.len() / 2]));
    assert!(!is_whole(&whole.replace("end 7", "end 8")));
    assert!(!is_whole(""));
}
