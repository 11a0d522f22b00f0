//! A long day in a few minutes: sessions with random tools, faults of the model's server, compactions, agents, kills and resumes.
//!
//! Every request is valid (the scripted server checks each), everything that a request carried is in a transcript,
//! no process and no temporary file is left, and neither memory nor file descriptors grow with the turns.
//!
//! `scripts/soak --minutes N` runs it for longer; the tests run a short form. `LATHE_SOAK_SEED` chooses what happens and is printed;
//! the same seed gives the same prompts, answers, faults and kills (the kernel's scheduling is not repeated).
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests assert by panicking, and a soak tells how it goes"
)]

mod growth;
mod model;

use growth::{Growth, Sample};
use lathe_scripted::{BlockingServer, Scenario};
use lathe_testkit::{StreamJson, TestHome, processes, transcript};
use model::{Model, prompt};
use nix::sys::signal::Signal;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Prompts of the short form: in one process, and to sessions that are killed.
const STEADY_PROMPTS: usize = 60;
const KILLED_PROMPTS: usize = 40;
/// Prompts before memory and descriptors are looked at.
const WARM_UP: usize = 20;
/// Model calls from which on the slope of the memory says something: below, it is the noise of the allocator.
const TURNS_FOR_A_SLOPE: usize = 1_500;
/// Bytes that the memory may grow with each model call.
const MOST_GROWTH: f64 = 1_024.0;
/// Prompts to one session before the next one begins, where sessions are killed.
const PROMPTS_OF_A_SESSION: usize = 12;

fn number_from<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number, not {text}")),
    )
}

/// How long a part of the soak continues: a number of prompts, or a share of the time that was asked for.
struct Length {
    prompts: usize,
    end: Option<Instant>,
}

impl Length {
    /// `parts` of the parts are run one after the other.
    fn new(prompts: usize, parts: u64) -> Self {
        let seconds: Option<u64> = number_from("LATHE_SOAK_SECONDS");
        let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds / parts));
        Self { prompts, end }
    }

    fn goes_on(&self, done: usize) -> bool {
        self.end
            .map_or(done < self.prompts, |end| Instant::now() < end)
    }
}

/// A model, a home, and what was carried by requests so far.
struct Place {
    server: BlockingServer,
    home: TestHome,
    model: Arc<Model>,
}

impl Place {
    fn new(seed: u64) -> Self {
        let home = TestHome::new();
        let model = Arc::new(Model::new(seed, &home.project()));
        let scenario = Scenario::new().keep_requests(false).responder({
            let model = Arc::clone(&model);
            move |request| model.answer(request)
        });
        let server = BlockingServer::start(scenario).unwrap();
        let home = home
            .server(&server)
            .variable("IS_SANDBOX", "1")
            .variable("LATHE_RETRY_BASE_MS", "1")
            // Small, so that there is a compaction every few prompts.
            .variable("LATHE_AUTO_COMPACT_WINDOW", "30000");
        for number in 0..5 {
            home.write(
                format!("src/file-{number}.txt"),
                format!("line of file {number}\n").repeat(60),
            );
        }
        Self {
            server,
            home,
            model,
        }
    }

    fn open(&self, session: &str, resumed: bool) -> StreamJson {
        let which = if resumed { "--resume" } else { "--session-id" };
        StreamJson::start(
            &self.home,
            [which, session, "--permission-mode", "bypassPermissions"],
        )
    }

    /// Everything that a request carried is in a transcript, and every request was valid.
    fn check(&self, context: &str) {
        assert_eq!(self.server.problems(), Vec::<String>::new(), "{context}");
        let mut kept = HashSet::new();
        collect(&self.home.config().join("projects"), &mut kept);
        let carried = self.model.carried();
        let lost: Vec<&String> = carried
            .iter()
            .filter(|part| !kept.contains(*part))
            .collect();
        assert!(
            lost.is_empty(),
            "{} of {} parts that a request carried are in no transcript {context}: {lost:?}",
            lost.len(),
            carried.len()
        );
    }

    /// Nothing is left after the last process has ended in good order.
    fn check_end(&self) {
        processes::assert_none_left(&self.home);
        self.check("at the end");
        let mut left = Vec::new();
        files_below(&self.home.temporary(), &mut left);
        assert!(left.is_empty(), "temporary files are left: {left:?}");
        let broken: Vec<_> = transcript::of_home(&self.home)
            .iter()
            .map(|path| transcript::Transcript::read(path))
            .filter(|transcript| transcript.torn)
            .collect();
        assert!(broken.is_empty(), "{broken:#?}");
    }
}

/// The parts of all transcripts below a folder, those of agents included.
fn collect(folder: &Path, kept: &mut HashSet<String>) {
    let mut files = Vec::new();
    files_below(folder, &mut files);
    for file in files {
        if file.extension().is_some_and(|ending| ending == "jsonl") {
            let bytes = std::fs::read(file).unwrap();
            model::parts(&String::from_utf8_lossy(&bytes), kept);
        }
    }
}

fn files_below(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files_below(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

/// A random id in the form that session ids have.
fn session_id(random: &mut fastrand::Rng) -> String {
    let hex = format!("{:032x}", random.u128(..));
    format!(
        "{}-{}-4{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

fn seed() -> u64 {
    let seed = number_from("LATHE_SOAK_SEED").unwrap_or(1);
    eprintln!("LATHE_SOAK_SEED={seed}");
    seed
}

/// One process that is never restarted: whatever leaks shows here.
#[test]
fn a_long_session_neither_leaks_nor_loses_anything() {
    let seed = seed();
    let place = Place::new(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let id = session_id(&mut random);
    let length = Length::new(STEADY_PROMPTS, 2);
    let mut session = place.open(&id, false);
    let pid = session.running().pid();
    let mut growth = Growth::default();
    let mut number = 0;
    while length.goes_on(number) {
        session.prompt(&prompt(number));
        let result = session.wait_for_result();
        assert_eq!(result["subtype"], "success", "{result}");
        number += 1;
        if number > WARM_UP {
            growth.push(Sample::of(pid, place.model.turns()));
        }
    }
    let output = session.close();
    assert_eq!(output.code(), Some(0), "{output:?}");
    place.check_end();
    eprintln!("one process: {number} prompts, {}; {growth}", place.model);
    assert!(growth.descriptors() <= 3, "file descriptors grow: {growth}");
    if place.model.turns() >= TURNS_FOR_A_SLOPE {
        let slope = growth.bytes_a_turn();
        assert!(slope < MOST_GROWTH, "{slope:.0} bytes a turn: {growth}");
    }
    place.model.assert_everything_happened();
}

/// Processes that are killed at any moment, or told to end; the next one continues with the session.
#[test]
fn killed_and_resumed_sessions_lose_nothing() {
    let mut seed = seed();
    let mut tally = Tally::default();
    let length = Length::new(KILLED_PROMPTS, 2);
    while length.goes_on(tally.prompts) {
        seed = seed.wrapping_add(1);
        kill_a_session(seed, &mut tally);
    }
    eprintln!("killed processes: {tally:?}");
    assert!(tally.kills > 0 && tally.ends > 0, "{tally:?}");
}

#[derive(Debug, Default)]
struct Tally {
    prompts: usize,
    kills: usize,
    ends: usize,
    model_calls: usize,
}

/// One session, most of whose processes are killed.
fn kill_a_session(seed: u64, tally: &mut Tally) {
    let place = Place::new(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let id = session_id(&mut random);
    let mut exists = false;
    for number in 0..PROMPTS_OF_A_SESSION {
        let mut session = place.open(&id, exists);
        let before = place.server.request_count();
        session.prompt(&prompt(number));
        tally.prompts += 1;
        // The last one ends in good order, and leaves nothing behind.
        if number + 1 == PROMPTS_OF_A_SESSION || random.u8(0..3) == 0 {
            let result = session.wait_for_result();
            assert_eq!(result["subtype"], "success", "{result}");
            let output = session.close();
            assert_eq!(output.code(), Some(0), "{output:?}");
            exists = true;
            tally.ends += 1;
            continue;
        }
        kill_somewhere(&place, session, before, &mut random);
        tally.kills += 1;
        processes::assert_none_left(&place.home);
        exists |= place.server.request_count() > before;
        place.check(&format!("after kill {number} of seed {seed}"));
    }
    tally.model_calls += place.model.turns();
    place.check_end();
}

/// Somewhere after the request of some step: in its stream, in a tool, in a write.
fn kill_somewhere(place: &Place, session: StreamJson, before: usize, random: &mut fastrand::Rng) {
    let step = random.usize(1..4);
    let moment = Duration::from_micros(random.u64(0..20_000));
    let signal = if random.u8(0..4) == 0 {
        Signal::SIGTERM
    } else {
        Signal::SIGKILL
    };
    // A turn may have fewer steps: then the process is killed at rest.
    let came = place
        .server
        .wait_for_requests(before + step, Duration::from_secs(2));
    let until = Instant::now() + moment;
    while came && Instant::now() < until {
        std::hint::spin_loop();
    }
    session.running().signal(signal);
    let output = session.close();
    assert!(
        output.signal().is_some() || matches!(output.code(), Some(0 | 143)),
        "{output:?}"
    );
}
