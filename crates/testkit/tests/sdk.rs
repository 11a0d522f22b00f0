//! The official packages drive the real binary: the Agent SDKs and the clients of the Agent Client Protocol, both in
//! Python and TypeScript; and so does a real editor, Neovim.
//!
//! The programs in `tests/sdk/` and `tests/acp/` hold the behaviours, many to a process. They talk to a scripted model
//! whose script travels in the prompt: `<model id="…">[reply, reply, …]</model>`, one reply a request; the
//! script of an agent, whose prompt travels inside another one's, lies in a file (`<script id="…"/>`).
//! Each request to the model is written to a file, for the program to look at.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests assert by panicking, and say what ran"
)]

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario};
use lathe_testkit::{Running, TestHome, binary, processes, workspace_root};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

/// How long a program may take before it counts as hanging. Generous: machines differ.
const LIMIT: Duration = Duration::from_secs(600);

/// Where `scripts/setup-tests` puts the packages.
fn packages() -> PathBuf {
    let folder = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || workspace_root().join("target/test-packages"),
        PathBuf::from,
    );
    assert!(
        folder.join("installed").is_file(),
        "the SDK packages are not in {}: run scripts/setup-tests",
        folder.display()
    );
    folder
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|b| b["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The script that the newest prompt brought: its id and the replies.
fn script(request: &RecordedRequest, folder: &Path) -> Option<(String, Vec<Reply>)> {
    request.messages().iter().rev().find_map(|message| {
        let text = text_of(&message["content"]);
        if let Some((_, rest)) = text.split_once("<script id=\"") {
            let (id, _) = rest.split_once('"')?;
            let file = folder.join(format!("{id}.script"));
            let replies = serde_json::from_slice(&std::fs::read(&file).unwrap());
            return Some((id.to_owned(), replies.unwrap()));
        }
        let start = text.rfind("<model id=\"")?;
        let (id, rest) = text[start + 11..].split_once("\">")?;
        let (replies, _) = rest.split_once("</model>")?;
        let replies = serde_json::from_str(replies)
            .unwrap_or_else(|error| panic!("the script {id} is wrong: {error}"));
        Some((id.to_owned(), replies))
    })
}

/// A model that does what the prompts say, and keeps what it was sent.
fn model(requests: PathBuf) -> BlockingServer {
    let counts: Mutex<HashMap<String, usize>> = Mutex::default();
    BlockingServer::start(
        Scenario::new()
            .keep_requests(false)
            .responder(move |request| {
                let Some((id, replies)) = script(request, &requests) else {
                    return Reply::error_with(
                        400,
                        "invalid_request_error",
                        "no script in the prompt",
                    );
                };
                let index = {
                    let mut counts = counts.lock().unwrap();
                    let count = counts.entry(id.clone()).or_default();
                    *count += 1;
                    *count - 1
                };
                let kept = serde_json::json!({
                    "body": request.body, "user_agent": request.header("user-agent"),
                    "betas": request.header("anthropic-beta"),
                });
                let file = requests.join(format!("{id}-{index}.json"));
                std::fs::write(file, kept.to_string()).unwrap();
                replies.get(index).cloned().unwrap_or_else(|| {
                    Reply::error_with(
                        400,
                        "invalid_request_error",
                        format!("the script {id} is over"),
                    )
                })
            }),
    )
    .unwrap()
}

/// Runs a program and gives the behaviours that it held.
fn run(home: &TestHome, server: &BlockingServer, mut program: Command) -> Vec<String> {
    // Only these behaviours, while one works on them.
    let only = std::env::var("LATHE_TEST_ONLY").unwrap_or_default();
    program.args(only.split_whitespace());
    run_all(home, server, program)
}

fn run_all(home: &TestHome, server: &BlockingServer, mut program: Command) -> Vec<String> {
    home.dress(&mut program);
    program
        .env("LATHE_TEST_BINARY", binary::lathe())
        .env("LATHE_TEST_REQUESTS", home.root().join("requests"))
        .env("CLAUDE_CONFIG_DIR", home.config());
    let output = Running::start(program).finish_within(LIMIT);
    let (text, errors) = (output.stdout.clone(), output.stderr.clone());
    let held: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("ok "))
        .map(str::to_owned)
        .collect();
    let failed = text.lines().any(|line| line.starts_with("FAILED "));
    assert!(
        output.status.success() && !failed,
        "{}\n{text}\n--- stderr\n{errors}",
        output.status
    );
    assert_eq!(server.problems(), Vec::<String>::new(), "{text}");
    // A session that its host left may take a moment to end.
    processes::assert_none_left(home);
    held
}

fn home_with(server: impl FnOnce(&Path) -> BlockingServer) -> (TestHome, BlockingServer) {
    let home = TestHome::new();
    let requests = home.root().join("requests");
    std::fs::create_dir_all(&requests).unwrap();
    let server = server(&requests);
    (home.server(&server), server)
}

fn python(program: &str) -> Vec<String> {
    let (home, server) = home_with(|folder| model(folder.to_owned()));
    let mut command = Command::new(packages().join("venv/bin/python"));
    command.arg(workspace_root().join("tests/sdk").join(program));
    run(&home, &server, command)
}

fn node(program: &str) -> Vec<String> {
    let (home, server) = home_with(|folder| model(folder.to_owned()));
    let mut command = Command::new("node");
    command.arg(workspace_root().join("tests").join(program));
    let modules = packages().canonicalize().unwrap().join("node_modules");
    // `dress` clears the environment, so the path goes as an argument.
    command.arg(modules);
    run(&home, &server, command)
}

/// No behaviour got lost: a program that ends early must not look as if all was well.
#[track_caller]
fn at_least(count: usize, held: &[String]) {
    if std::env::var_os("LATHE_TEST_ONLY").is_none() {
        assert!(held.len() >= count, "only {}: {held:?}", held.len());
    }
}

#[test]
fn python_conversations() {
    at_least(28, &python("conversations.py"));
}

#[test]
fn python_permissions_and_hooks() {
    at_least(28, &python("permissions.py"));
}

#[test]
fn python_sessions_and_stress() {
    at_least(18, &python("sessions.py"));
}

#[test]
fn python_corners_of_the_protocol() {
    at_least(21, &python("protocol.py"));
}

#[test]
fn python_agents_tasks_skills_and_plugins() {
    at_least(18, &python("extending.py"));
}

#[test]
fn typescript_options() {
    at_least(33, &node("sdk/options.mjs"));
}

#[test]
fn typescript_agents_servers_and_plugins() {
    at_least(20, &node("sdk/extending.mjs"));
}

#[test]
fn typescript_behaviours() {
    at_least(31, &node("sdk/behaviours.mjs"));
}

#[test]
fn editors_drive_sessions() {
    at_least(43, &node("acp/behaviours.mjs"));
}

#[test]
fn editors_lend_buffers_terminals_and_servers() {
    at_least(16, &node("acp/lent.mjs"));
}

#[test]
fn editors_attach_to_sessions_that_run() {
    at_least(13, &node("acp/attached.mjs"));
}

#[test]
fn the_python_client_drives_sessions() {
    let (home, server) = home_with(|folder| model(folder.to_owned()));
    let python = packages().join("acp-python/bin/python");
    assert!(
        python.exists(),
        "the Python client is not in {}: run scripts/setup-tests",
        python.display()
    );
    let mut command = Command::new(python);
    command.arg(workspace_root().join("tests/acp/client.py"));
    at_least(16, &run(&home, &server, command));
}

#[test]
fn neovim_drives_a_session() {
    let (home, server) = home_with(|folder| model(folder.to_owned()));
    let mut command = Command::new("nvim");
    command.args(["--headless", "-u", "NONE", "-i", "NONE", "-n", "-S"]);
    command.arg(workspace_root().join("tests/acp/neovim.lua"));
    at_least(4, &run_all(&home, &server, command));
}
