//! Instruction counts, compared with the committed baseline.
//!
//! Counted by cachegrind, so other work on the machine doesn't matter; threads make them vary by about one percent. The
//! program looks at the process table and has timers, so it runs with a process table of its own where bubblewrap is
//! installed, and the least of three runs is taken.
//! `benches/baseline.json` holds the counts that a change is compared with, and the share of each crate; `scripts/bench
//! baseline` writes it. Where a count grew, the crates and functions that grew are named, if the program has its symbols
//! (`scripts/bench` builds it with them).

use super::row;
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::counts::{self, Part};
use lathe_testkit::{Terminal, TestHome, profile, workspace_root};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// More than this is a regression.
const MOST: f64 = 1.03;
/// The same for the size of the program.
const MOST_BYTES: f64 = 1.01;
/// A crate with less than this part of all instructions is not listed by itself.
const LISTED: u64 = 500;

/// How the names of profiles begin.
const PROFILE: &str = "profile-";

/// The instructions of a run, and the profile that divides them.
struct Counted {
    total: u64,
    profile: String,
}

impl Counted {
    /// The crates; the small ones together.
    fn by_crate(&self) -> BTreeMap<String, Part> {
        let (large, small): (BTreeMap<_, _>, BTreeMap<_, _>) = profile::by_crate(&self.profile)
            .into_iter()
            .partition(|(_, part)| part.count > self.total / LISTED);
        let mut crates = large;
        let others = crates.entry("others".to_owned()).or_default();
        for part in small.into_values() {
            others.count += part.count;
            others.functions.extend(part.functions);
        }
        crates
    }
}

fn baseline_path() -> PathBuf {
    workspace_root().join("benches/baseline.json")
}

/// Prints each count beside the baseline. Returns whether all are within the limit.
pub(super) fn compare() -> bool {
    let text = std::fs::read_to_string(baseline_path()).unwrap();
    let baseline: Value = serde_json::from_str(&text).unwrap();
    let mut fine = true;
    for (name, counted) in measure() {
        let count = counted.total;
        let Some(before) = baseline["instructions"][name].as_f64() else {
            row(
                &format!("instructions: {name}"),
                &count.to_string(),
                "no baseline",
            );
            continue;
        };
        let ratio = over(count, before);
        fine &= ratio <= MOST;
        row(
            &format!("instructions: {name}"),
            &format!("{ratio:.3}×"),
            &format!("≤ {MOST}× ({:.1} M)", over(count, 1e6)),
        );
        if ratio > MOST {
            let known = &baseline["instructions by crate"][name];
            println!("{}", counts::grown(&counted.by_crate(), known));
        }
    }
    if let Some(before) = baseline["bytes of the binary"].as_f64() {
        let ratio = over(size(), before);
        fine &= ratio <= MOST_BYTES;
        row(
            "size of the binary",
            &format!("{ratio:.3}×"),
            &format!("≤ {MOST_BYTES}× ({:.1} MB)", over(size(), 1e6)),
        );
    }
    fine
}

/// The bytes of the program, without its symbols.
pub(super) fn size() -> u64 {
    let program = lathe_testkit::binary::lathe();
    let bytes = |path: &Path| std::fs::metadata(path).unwrap().len();
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("lathe");
    let stripped = Command::new("strip")
        .arg("-o")
        .arg(&bare)
        .arg(program)
        .status();
    if stripped.is_ok_and(|status| status.success()) {
        bytes(&bare)
    } else {
        bytes(program)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio with three decimals")]
fn over(count: u64, by: f64) -> f64 {
    count as f64 / by
}

/// Writes the baseline.
pub(super) fn write() {
    let (mut counts, mut crates) = (Map::new(), Map::new());
    for (name, counted) in measure() {
        let count = counted.total;
        row(&format!("instructions: {name}"), &count.to_string(), "");
        counts.insert(name.to_owned(), count.into());
        let parts = counted.by_crate().into_iter();
        let parts: Map<String, Value> = parts.map(|(of, part)| (of, part.count.into())).collect();
        crates.insert(name.to_owned(), parts.into());
    }
    let value = json!({
        "counted by": "valgrind --tool=cachegrind, release profile, x86-64 Linux",
        "instructions": counts,
        "instructions by crate": crates,
        "bytes of the binary": size(),
    });
    let path = baseline_path();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("{value:#}\n")).unwrap();
}

fn measure() -> Vec<(&'static str, Counted)> {
    let start = || run(&["debug", "prompt"], Vec::new());
    let answer = || run(&["-p", "hello"], vec![Reply::text("Hello.")]);
    vec![
        ("start", least(start)),
        ("one answer", least(answer)),
        ("20 turns", least(twenty_turns)),
        ("terminal start", least(terminal_start)),
    ]
}

fn least(count: impl Fn() -> Counted) -> Counted {
    let counts = (0..3).map(|_| count());
    counts.min_by_key(|counted| counted.total).unwrap()
}

fn twenty_turns() -> Counted {
    turns(20)
}

/// A session of so many turns, the last of which is the answer.
fn turns(count: u32) -> Counted {
    let read = |index: u32| {
        let input = json!({"file_path": "small.txt", "offset": 1 + index % 15, "limit": 3});
        Reply::tool_use("Read", input)
    };
    let mut replies: Vec<Reply> = (1..count).map(read).collect();
    replies.push(Reply::text("Done."));
    run(
        &["-p", "go", "--output-format", "json", "--max-turns", "6000"],
        replies,
    )
}

/// The instructions of late turns beside those of early ones: our own work without the kernel's, which copies the
/// whole request in each turn.
pub(super) fn flat() {
    const EARLY: u32 = 100;
    const LATE: u32 = 4_800;
    const MANY: u32 = 200;
    let of_turns = |from: u32| {
        over(
            turns(from + MANY).total - turns(from).total,
            f64::from(MANY),
        )
    };
    let (early, late) = (of_turns(EARLY), of_turns(LATE));
    row(
        "instructions of turns 4,800–5,000 / 100–300",
        &format!("{:.2}×", late / early),
        &format!("≤ 1.20× ({:.2} / {:.2} M a turn)", late / 1e6, early / 1e6),
    );
}

/// The program under cachegrind, and the file with its report.
pub(super) fn counted(home: &TestHome, arguments: &[&str]) -> (Command, PathBuf) {
    let report = home.root().join("cachegrind.txt");
    let alone = ["--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc"];
    let mut command = if Command::new("bwrap")
        .args(alone)
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        let mut command = Command::new("bwrap");
        command.args(alone).args(["--die-with-parent", "valgrind"]);
        command
    } else {
        Command::new("valgrind")
    };
    home.dress(&mut command);
    command
        .args(["--tool=cachegrind", "--cache-sim=no"])
        .arg(format!(
            "--cachegrind-out-file={}",
            home.root().join(format!("{PROFILE}%p")).display()
        ))
        .arg(format!("--log-file={}", report.display()))
        .arg(lathe_testkit::binary::lathe())
        .args(arguments);
    (command, report)
}

/// The count in a report: `I refs: 12,345`, with more blanks in some versions of valgrind.
pub(super) fn count(report: &Path) -> u64 {
    let text = std::fs::read_to_string(report).unwrap();
    let (_, rest) = text.split_once("refs:").unwrap();
    let digits: String = rest
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

fn home(replies: Vec<Reply>) -> (BlockingServer, TestHome) {
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false);
    let scenario = replies.into_iter().fold(scenario, Scenario::reply);
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    home.write("small.txt", "a line\n".repeat(20));
    (server, home)
}

fn run(arguments: &[&str], replies: Vec<Reply>) -> Counted {
    let (_server, home) = home(replies);
    let (mut command, report) = counted(&home, arguments);
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{arguments:?}");
    read(&home, &report)
}

/// The counts that cachegrind wrote about a run. A process that was forked writes a profile too: the longest is that of the program.
fn read(home: &TestHome, report: &Path) -> Counted {
    let files = std::fs::read_dir(home.root()).unwrap().flatten();
    let files = files.filter(|file| file.file_name().to_string_lossy().starts_with(PROFILE));
    let profiles = files.map(|file| std::fs::read_to_string(file.path()).unwrap());
    Counted {
        total: count(report),
        profile: profiles.max_by_key(String::len).unwrap_or_default(),
    }
}

fn terminal_start() -> Counted {
    let (_server, home) = home(Vec::new());
    let (command, report) = counted(&home, &[]);
    let mut terminal = Terminal::start(&command, 100, 30);
    terminal.wait_for("❯");
    terminal.wait_for("claude");
    terminal.leave();
    read(&home, &report)
}
