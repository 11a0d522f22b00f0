//! The promises of the documentation about settings, variables, flags, hooks and files, on the real
//! binary. `tests/effects` names these tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

mod agents;
mod hook_answers;
mod hooks;
mod hosts;
mod live;
mod models;
mod network;
mod settings;
mod terminal;
mod transcripts;
mod variables;

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario};
use lathe_testkit::{HANG_LIMIT, Output, StreamJson, TestHome, server};
use serde_json::{Value, json};

/// A run to its end: what it wrote, and what it asked the model.
struct Run {
    home: TestHome,
    output: Output,
    requests: Vec<RecordedRequest>,
}

impl Run {
    /// The first request's body.
    fn body(&self) -> &Value {
        &self.requests[0].body
    }

    /// Everything that the first request says to the model.
    fn told(&self) -> String {
        let body = self.body();
        format!("{}{}", body["system"], body["messages"])
    }

    /// The result of the last call, as the model got it.
    fn last_result(&self) -> String {
        self.requests.last().unwrap().last_tool_result()
    }
}

/// Runs one prompt in a home that `prepare` gets ready.
fn run_in(home: TestHome, replies: Vec<Reply>, arguments: &[&str]) -> Run {
    let server = server(replies);
    let home = home.server(&server);
    let output = home.run([&["-p", "go"], arguments].concat(), "");
    Run {
        home,
        output,
        requests: server.message_requests(),
    }
}

/// The same with variables and settings; it must succeed.
fn run_with(
    variables: &[(&str, &str)],
    settings: &Value,
    replies: Vec<Reply>,
    arguments: &[&str],
) -> Run {
    let mut home = TestHome::new();
    for (name, value) in variables {
        home = home.variable(*name, *value);
    }
    let settings = settings.to_string();
    let arguments = [arguments, &["--settings", &settings]].concat();
    let run = run_in(home, replies, &arguments);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    run
}

/// A model that answers every prompt with the same words.
fn chatty() -> BlockingServer {
    BlockingServer::start(Scenario::new().responder(|_| Reply::text("fine"))).unwrap()
}

/// The settings of one command hook.
fn hook(event: &str, command: &str) -> Value {
    json!({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}})
}

/// The lines that a hook with `cat >> log` wrote: one JSON object for each time.
fn heard(home: &TestHome) -> Vec<Value> {
    let text = std::fs::read_to_string(home.project().join("log")).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Waits until the settings of a session have a text.
fn wait_for_settings(session: &mut StreamJson, text: &str) {
    let start = std::time::Instant::now();
    loop {
        let settings = session.control(&json!({"subtype": "get_settings"}));
        if settings.to_string().contains(text) {
            return;
        }
        assert!(
            start.elapsed() < HANG_LIMIT,
            "{text} never came: {settings}"
        );
    }
}
