//! The cost of many skills and agents at a start: the same run with and without them, in turns. Time is what
//! counts, and depends on what else the machine does; instructions (where valgrind is there) don't.

use crate::{milliseconds, row};
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::TestHome;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ROUNDS: usize = 15;

/// Writes 500 skills and 100 agents of a usual size.
fn fill(home: &TestHome) {
    for number in 0..500 {
        let text = format!(
            "---\nname: skill-{number}\ndescription: Does the thing number {number} when the person asks for it, with care\nallowed-tools: Read, Grep\n---\n# Skill {number}\n\n{}",
            "Words of instruction that go on for a while.\n".repeat(40)
        );
        home.write(
            home.config()
                .join(format!("skills/skill-{number}/SKILL.md")),
            text,
        );
    }
    for number in 0..100 {
        let text = format!(
            "---\nname: agent-{number}\ndescription: Looks after part {number} of the project\ntools: Read, Grep\nmodel: inherit\n---\n{}",
            "Words of instruction that go on for a while.\n".repeat(40)
        );
        home.write(
            home.config().join(format!("agents/agent-{number}.md")),
            text,
        );
    }
}

/// From the start to the first request.
fn start(home: &TestHome, arrived: &Mutex<Option<Instant>>) -> Duration {
    *arrived.lock().unwrap() = None;
    let mut command = home.command(["-p", "go"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    assert!(command.status().unwrap().success());
    arrived.lock().unwrap().unwrap() - started
}

/// The instructions of a whole run, of all its threads. `None` without valgrind.
fn instructions(home: &TestHome) -> Option<u64> {
    let mut command = Command::new("valgrind");
    home.dress(&mut command);
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(lathe_testkit::binary::lathe())
        .args(["-p", "go"])
        .stdin(Stdio::null());
    let output = command.output().ok().filter(|run| run.status.success())?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, counted) = told.split_once("Collected : ")?;
    counted.split_whitespace().next()?.parse().ok()
}

pub(crate) fn rows() {
    let arrived = Arc::new(Mutex::new(None));
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder({
            let arrived = Arc::clone(&arrived);
            move |_| {
                arrived.lock().unwrap().get_or_insert_with(Instant::now);
                Reply::text("done")
            }
        });
    let server = BlockingServer::start(scenario).unwrap();
    let (bare, full) = (
        TestHome::with_server(&server),
        TestHome::with_server(&server),
    );
    fill(&full);
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        times.0.push(start(&bare, &arrived));
        times.1.push(start(&full, &arrived));
    }
    let counted = instructions(&bare).zip(instructions(&full));
    // The best of each: what else the machine does only adds.
    let best = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    let (bare, full) = (best(&times.0), best(&times.1));
    row(
        "500 skills and 100 agents add to a start",
        &format!("{:.1} ms", milliseconds(full.saturating_sub(bare))),
        &format!(
            "≤ 5 ms ({:.1} / {:.1} ms)",
            milliseconds(bare),
            milliseconds(full)
        ),
    );
    let added = counted.map_or("no valgrind".to_owned(), |(bare, full)| {
        format!("{:.1} M", full.saturating_sub(bare) as f64 / 1e6)
    });
    row("the same in instructions, of all threads", &added, "");
}
