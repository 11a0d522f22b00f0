//! The cost of a stream on each kind of provider, beside the Messages API, whose events need no translation.

use crate::row;
use lathe_scripted::reply::Chunks;
use lathe_scripted::{BlockingServer, Reply, Scenario, Validation};
use lathe_testkit::TestHome;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;

/// Pieces of an answer, a millisecond apart, as a fast model gives them. The server's timer makes two of it, so a run takes
/// three seconds, and all of them about a minute.
const WORDS: usize = 1_500;
/// The least of so many runs counts.
const ROUNDS: usize = 3;
/// The kinds, and what is added to the server's address.
const KINDS: [(&str, &str); 6] = [
    ("anthropic", ""),
    ("openai-chat", "/v1"),
    ("openai", "/v1"),
    ("gemini", "/v1beta"),
    ("bedrock", ""),
    ("vertex", "/v1"),
];

/// The processor time of all children that have ended.
fn used() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.try_into().unwrap())
}

/// A run whose answer has so many words: the server and the home. Without a pause the answer comes in one piece: how often
/// we are woken is then not a part of what is counted.
fn stage(
    (kind, path): (&str, &str),
    words: usize,
    pause: Option<u64>,
) -> (BlockingServer, TestHome) {
    let scenario = Scenario::new()
        .validation(Validation::Light)
        .keep_requests(false)
        .responder(move |_| {
            let reply = Reply::text("word ".repeat(words)).delta_characters(5);
            match pause {
                Some(pause) => reply.chunks(Chunks::PerEvent).chunk_delay_ms(pause),
                None => reply.chunks(Chunks::Whole),
            }
        });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::new()
        .variable("HOUSE_KEY", "k")
        .variable("AWS_ACCESS_KEY_ID", "AK")
        .variable("AWS_SECRET_ACCESS_KEY", "secret");
    let mut entry = json!({"kind": kind, "baseUrl": format!("{}{path}", server.base_url()), "region": "us-east-1",
        "project": "p", "models": {"m": {"contextWindow": 200_000, "maxOutputTokens": 32_000}}});
    if kind != "bedrock" {
        entry["apiKeyEnv"] = json!("HOUSE_KEY");
    }
    let settings = json!({"providers": {"house": entry}});
    std::fs::write(home.config().join("settings.json"), settings.to_string()).unwrap();
    (server, home)
}

const ARGUMENTS: [&str; 8] = [
    "-p",
    "go",
    "--model",
    "house/m",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
];

/// The instructions of the words of an answer.
fn instructions(kind: (&str, &str)) -> f64 {
    let count = |words| {
        let counted = || {
            let (_server, home) = stage(kind, words, None);
            let (mut command, report) = super::instructions::counted(&home, &ARGUMENTS);
            let run = command.stdin(Stdio::null()).stdout(Stdio::null());
            assert!(run.status().unwrap().success(), "{kind:?}");
            super::instructions::count(&report)
        };
        (0..3).map(|_| counted()).min().unwrap()
    };
    #[expect(clippy::cast_precision_loss, reason = "a ratio with three decimals")]
    let words = (count(WORDS) - count(1)) as f64;
    words
}

/// The instructions of a word of a stream on each kind, from the socket to standard output, beside those on the Messages API,
/// whose events need no translation: what is above 1 is the translator's share.
pub(super) fn instruction_rows() {
    let [plain, rest @ ..] = KINDS;
    let plain = instructions(plain);
    for kind in rest {
        row(
            &format!("instructions of a stream on {}", kind.0),
            &format!("{:.3}", instructions(kind) / plain),
            &format!(
                "≤ 1.03 of the Messages API's ({:.0} a word)",
                plain / f64::from(u32::try_from(WORDS).unwrap())
            ),
        );
    }
}

/// The processor time of a run whose answer has so many words.
fn cost(kind: (&str, &str), words: usize) -> Duration {
    let (_server, home) = stage(kind, words, Some(1));
    let before = used();
    let mut command = home.command(ARGUMENTS);
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{kind:?}");
    used().saturating_sub(before)
}

/// The cost of the words themselves on each kind. The kinds take turns, so that other work on the machine meets all of them.
fn streams() -> [f64; KINDS.len()] {
    let mut least = [[Duration::MAX; 2]; KINDS.len()];
    for round in 1..=ROUNDS {
        for (kind, least) in KINDS.iter().zip(&mut least) {
            eprintln!("streams: round {round} of {ROUNDS}, {}", kind.0);
            for (words, least) in [WORDS, 1].into_iter().zip(least) {
                *least = cost(*kind, words).min(*least);
            }
        }
    }
    least.map(|[whole, fixed]| whole.saturating_sub(fixed).as_secs_f64())
}

pub(super) fn rows() {
    let [plain, translated @ ..] = streams();
    for ((kind, _), translated) in KINDS[1..].iter().zip(translated) {
        row(
            &format!("a stream of {WORDS} words on {kind}"),
            &format!("{:.2}", translated / plain),
            &format!(
                "≤ 1.03 of the Messages API's ({:.0} µs a word)",
                plain / f64::from(u32::try_from(WORDS).unwrap()) * 1e6
            ),
        );
    }
}
