//! Waiting times of the user at the terminal: the prompt, a key's echo, and what streaming and doing
//! nothing cost. The program runs in a real terminal (a PTY with an emulator behind it).

use super::{median, megabytes, milliseconds, processor_time, row};
use lathe_scripted::reply::Chunks;
use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{Terminal, TestHome, transcript};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Messages of the long session.
const MESSAGES: usize = 10_000;

/// Tokens that the model writes in a second, and for how long. A token is four characters here.
const TOKENS: usize = 10_000;
const SECONDS: usize = 3;

pub(super) fn rows() {
    launch();
    echo();
    stream();
}

fn home(replies: impl IntoIterator<Item = Reply>) -> (BlockingServer, TestHome) {
    let scenario = replies.into_iter().fold(Scenario::new(), Scenario::reply);
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    (server, home)
}

fn launch() {
    let (_server, home) = home([]);
    let times = (0..15)
        .map(|_| {
            let started = Instant::now();
            let mut terminal = home.terminal::<&str>([], 100, 30);
            terminal.wait_for("❯");
            let time = started.elapsed();
            terminal.wait_for("claude");
            terminal.leave();
            time
        })
        .collect();
    row(
        "terminal: start to the prompt",
        &format!("{:.1} ms", milliseconds(median(times))),
        "≤ 30 ms",
    );
}

/// A session of many messages, made from one short one.
fn long_session(home: &TestHome) -> String {
    let _ = home.run(["-p", "hello"], "");
    let path = transcript::of_home(home).remove(0);
    let lines: Vec<Value> = std::fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let template = |kind: &str| {
        lines
            .iter()
            .find(|line| line["type"] == kind && line["message"].is_object())
            .unwrap()
            .clone()
    };
    let (user, assistant) = (template("user"), template("assistant"));
    let mut parent = lines
        .iter()
        .rev()
        .find(|line| line["type"] == "assistant")
        .map(|line| line["uuid"].clone())
        .unwrap();
    let mut more = String::new();
    for index in 0..MESSAGES / 2 {
        for (number, template) in [(1, &user), (2, &assistant)] {
            let mut record = template.clone();
            let id = Value::from(format!("{index:08x}-0000-4000-8000-00000000000{number}"));
            record["parentUuid"] = parent;
            record["uuid"] = id.clone();
            if number == 1 {
                record["message"]["content"] = json!(format!("question {index}"));
            } else {
                record["message"]["content"] =
                    json!([{"type": "text", "text": format!("answer {index} with `code` in it")}]);
                record["message"]["id"] = json!(format!("msg_{index}"));
            }
            parent = id;
            let _ = writeln!(more, "{record}");
        }
    }
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    std::io::Write::write_all(&mut file, more.as_bytes()).unwrap();
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

fn echo() {
    let (_server, home) = home([Reply::text("hi")]);
    let id = long_session(&home);
    let started = Instant::now();
    let terminal = home.terminal(["--resume", &id], 100, 30);
    let last = format!("answer {}", MESSAGES / 2 - 1);
    terminal.wait_for(&last);
    let opened = started.elapsed();
    terminal.wait_for("claude");
    settle(&terminal);
    let mut typed = String::new();
    let times = (0..60)
        .map(|index| {
            typed.push(char::from(b'a' + index % 26));
            let wanted = format!("❯ {typed}");
            let pressed = Instant::now();
            terminal.send(&typed[typed.len() - 1..]);
            terminal.wait_for(&wanted);
            pressed.elapsed()
        })
        .collect();
    row(
        "terminal: key to echo, 10,000 messages open",
        &format!("{:.2} ms", milliseconds(median(times))),
        &format!("≤ 5 ms (opened in {:.0} ms)", milliseconds(opened)),
    );
    row(
        "terminal: memory with 10,000 messages open",
        &format!("{:.0} MB", megabytes(resident(&terminal))),
        "",
    );
}

fn stream() {
    let words = "Some **words** of an answer, with `code`, and [a link](https://example.com).\n\n- a point\n- another one that is longer than the row it stands in, so that it has to be wrapped\n\n```rust\nfn main() { println!(\"{}\", 42); }\n```\n\n";
    let size = TOKENS * SECONDS * 4;
    let text: String = words.chars().cycle().take(size).collect();
    // A hundred pieces in a second; each delta is a token, and an event of about 125 bytes.
    let (_server, home) = home([
        Reply::text("first"),
        Reply::text(text)
            .delta_characters(4)
            .chunks(Chunks::Bytes(TOKENS * 125 / 100))
            .chunk_delay_ms(10),
    ]);
    let terminal = home.terminal::<&str>([], 100, 30);
    terminal.wait_for("claude");
    terminal.say("hello");
    terminal.wait_for("● first");
    terminal.wait_gone("esc to interrupt");
    let quiet = settle(&terminal);
    row(
        "terminal: wake-ups in an idle second",
        &quiet.to_string(),
        "none",
    );
    row(
        "terminal: memory when idle",
        &format!("{:.1} MB", megabytes(resident(&terminal))),
        "≤ 30 MB",
    );
    let before = processor_time(terminal.pid());
    terminal.say("write");
    terminal.wait_for("esc to interrupt");
    let started = Instant::now();
    terminal.wait_gone("esc to interrupt");
    let took = started.elapsed();
    let used = processor_time(terminal.pid()).saturating_sub(before);
    row(
        "terminal: 10,000 tokens/s, share of a core",
        &format!("{:.2}", used.as_secs_f64() / took.as_secs_f64()),
        &format!(
            "≤ 0.50 ({} tokens in {:.1} s)",
            TOKENS * SECONDS,
            took.as_secs_f64()
        ),
    );
}

/// Waits until the program has come to rest. Gives how often its threads woke up in the calmest second.
fn settle(terminal: &Terminal) -> u64 {
    let wakes = || -> u64 {
        std::fs::read_dir(format!("/proc/{}/task", terminal.pid()))
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
            .filter_map(|status| {
                let line = status
                    .lines()
                    .find(|line| line.starts_with("voluntary_ctxt_switches"))?;
                line.split_whitespace().nth(1)?.parse::<u64>().ok()
            })
            .sum()
    };
    let mut calm = u64::MAX;
    for _ in 0..10 {
        let before = wakes();
        std::thread::sleep(Duration::from_secs(1));
        calm = calm.min(wakes() - before);
        if calm == 0 {
            break;
        }
    }
    calm
}

/// The memory that the program has now.
fn resident(terminal: &Terminal) -> u64 {
    std::fs::read_to_string(format!("/proc/{}/status", terminal.pid()))
        .unwrap()
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}
