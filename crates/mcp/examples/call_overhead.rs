//! The cost of a call of a local tool beyond the server's own time.
//!
//! The same server (this program, with `serve`) answers the same call twice: over a bare pipe, written
//! and read by hand, and through the manager. The difference is ours.
//!
//! `cargo run --release -p lathe-mcp --example call_overhead`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a measurement, run by hand"
)]

use lathe_mcp::{CallOptions, Manager, Nobody, Options, ServerConfig};
use lathe_settings::Environment;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CALLS: usize = 2000;

/// Answers a handshake, a list with one tool, and its calls.
fn serve() {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(id) = message.get("id") else {
            continue;
        };
        let answer = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]})
            }
            _ => {
                let error =
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}});
                writeln!(out, "{error}").unwrap();
                out.flush().unwrap();
                continue;
            }
        };
        writeln!(
            out,
            "{}",
            json!({"jsonrpc": "2.0", "id": id, "result": answer})
        )
        .unwrap();
        out.flush().unwrap();
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn bare(program: &str) -> Duration {
    let mut child = Command::new(program)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let times = (0..CALLS).map(|id| {
        let began = Instant::now();
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}});
        writeln!(input, "{call}").unwrap();
        line.clear();
        output.read_line(&mut line).unwrap();
        began.elapsed()
    });
    let median = median(times.collect());
    drop(input);
    child.wait().unwrap();
    median
}

async fn managed(program: &str) -> Duration {
    let home = tempfile::tempdir().unwrap();
    let environment = Environment {
        variables: [(
            "LATHE_CONFIG_DIR".to_owned(),
            home.path().to_str().unwrap().to_owned(),
        )]
        .into(),
        home: None,
        cwd: home.path().to_owned(),
        ..Environment::default()
    };
    let manager = Manager::new(Options::new(environment, "0"), Arc::new(Nobody));
    let server = ServerConfig::stdio(program, ["serve".to_owned()]);
    manager.set_servers([("echo".to_owned(), server)].into());
    assert!(manager.settled(Duration::from_secs(30)).await);
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        let arguments = json!({"text": "hello"});
        manager
            .call_tool("echo", "echo", arguments, CallOptions::default())
            .await
            .unwrap();
        times.push(began.elapsed());
    }
    manager.shutdown().await;
    median(times)
}

fn main() {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    let bare = bare(program);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let managed = runtime.block_on(managed(program));
    let more = managed.saturating_sub(bare);
    let ratio = managed.as_secs_f64() / bare.as_secs_f64();
    println!(
        "bare pipe {bare:?}, through the manager {managed:?}: {more:?} more a call, {ratio:.1} times (median of {CALLS})"
    );
}
