//! What many skills and agents add to a start: the same run with and without them, in turns.

use crate::{milliseconds, row};
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::TestHome;
use std::process::Stdio;
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
}
