//! MCP on the real binary, with real servers and a scripted model: in sessions, on the command line, through
//! the SDK protocol, and as a server.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

mod changes;
mod commands;
mod faults;
mod prompts;
mod sdk;
mod secrets;
mod serve;
mod sessions;

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{TestHome, workspace_root};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A model with these replies.
fn model(replies: impl IntoIterator<Item = Reply>) -> BlockingServer {
    let scenario = replies.into_iter().fold(Scenario::new(), Scenario::reply);
    BlockingServer::start(scenario).unwrap()
}

/// A local server with habits, written in Python.
fn fixture(habits: &[&str]) -> Value {
    let script = workspace_root().join("crates/mcp/tests/fixtures/server.py");
    let mut args = vec![script.display().to_string()];
    args.extend(habits.iter().map(|&habit| habit.to_owned()));
    json!({"command": "python3", "args": args})
}

/// An official server from the registry.
///
/// # Panics
/// If it isn't installed: `scripts/setup-tests` does that.
fn official(name: &str, args: &[&str]) -> Value {
    let packages = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || workspace_root().join("target/test-packages"),
        PathBuf::from,
    );
    let script = packages
        .join("mcp/node_modules/@modelcontextprotocol")
        .join(name)
        .join("dist/index.js");
    assert!(
        script.exists(),
        "{} is not there; run scripts/setup-tests",
        script.display()
    );
    let mut all = vec![script.display().to_string()];
    all.extend(args.iter().map(|&arg| arg.to_owned()));
    json!({"command": "node", "args": all})
}

/// The value of `--mcp-config` for servers.
fn config(servers: &Value) -> String {
    json!({"mcpServers": servers}).to_string()
}

/// Everything that the model was sent with a request, as text.
fn sent(server: &BlockingServer, request: usize) -> String {
    server.requests()[request].body["messages"].to_string()
}

/// The names of the tools that the model was offered with a request.
fn offered(server: &BlockingServer, request: usize) -> Vec<String> {
    let requests = server.requests();
    let names = requests[request].tool_names();
    names.into_iter().map(str::to_owned).collect()
}

/// Asserts that nothing of a home's servers is left.
fn nothing_left(home: &TestHome) {
    lathe_testkit::processes::assert_none_left(home);
}

/// The answer to a control request.
#[track_caller]
fn control(session: &mut lathe_testkit::StreamJson, request: &Value) -> Value {
    let answer = session.control(request)["response"].clone();
    assert_eq!(answer["subtype"], "success", "{request}: {answer}");
    answer["response"].clone()
}
