//! Lathe with a real model: SmolLM2 with 135 million parameters, served by llama.cpp, over the three protocols that
//! the server speaks. Run it with `scripts/local-model`, which installs both. What is asserted is protocol and state,
//! never what the model says: it is far too small to make sense.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for the maintainer: it prints, and stops where something is wrong"
)]

use lathe_testkit::{Output, Running, TestHome, transcript, workspace_root};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The protocols, and what is added to the server's address.
const KINDS: [(&str, &str); 3] = [("openai-chat", "/v1"), ("openai", "/v1"), ("anthropic", "")];
/// How long one run may take: a cold prompt takes minutes on a busy processor.
const PATIENCE: Duration = Duration::from_secs(1800);

/// A file beside this program.
fn beside(file: &str) -> PathBuf {
    let folder = workspace_root().join("crates/testkit/examples/local_model");
    folder.join(file)
}

/// A server; it ends when its input does.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// A server with an option whose value is a file beside this program.
    fn start(folder: &Path, option: Option<(&str, &str)>) -> Self {
        let mut command = Command::new(folder.join("bin/python"));
        command
            .arg(workspace_root().join("scripts/small-model-server"))
            .arg(folder.join("SmolLM2-135M-Instruct.Q4_1.gguf"))
            .args(["--port", "0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some((option, file)) = option {
            command.arg(option).arg(beside(file));
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.find_map(|line| {
            let line = line.unwrap();
            line.starts_with("http://").then_some(line)
        });
        Self {
            child,
            url: url.unwrap(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A home whose provider `local` speaks a protocol.
fn home(server: &Server, kind: (&str, &str), body: &Value) -> TestHome {
    let home = TestHome::new();
    let settings = json!({"providers": {"local": {"kind": kind.0, "baseUrl": format!("{}{}", server.url, kind.1),
        "body": body, "models": {"small": {"maxOutputTokens": 64}}}}});
    std::fs::write(home.config().join("settings.json"), settings.to_string()).unwrap();
    home.write("notes.txt", "a note\n");
    home
}

fn ask(home: &TestHome, prompt: &str, more: &[&str]) -> Output {
    let mut arguments = vec![
        "-p",
        prompt,
        "--model",
        "local/small",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--max-turns",
        "2",
    ];
    arguments.extend(more);
    let mut running = Running::start(home.command(arguments));
    running.close_stdin();
    running.finish_within(PATIENCE)
}

/// Conditions that hold for every run, however silly the answer.
fn sound(what: &str, home: &TestHome, output: &Output) {
    let frames = output.frames();
    let result = frames.last().unwrap();
    assert_eq!(result["type"], "result", "{what}: {output:#?}");
    let fine = result["is_error"] == false || result["subtype"] == "error_max_turns";
    assert!(fine, "{what}: {result}");
    assert!(
        result["usage"]["output_tokens"].as_u64().unwrap() > 0,
        "{what}: {result}"
    );
    let calls = blocks(&frames, "assistant", "tool_use");
    let results = blocks(&frames, "user", "tool_result");
    for call in &calls {
        let answered = results.iter().filter(|it| it["tool_use_id"] == call["id"]);
        assert_eq!(answered.count(), 1, "{what}: {call}");
    }
    let files: Vec<PathBuf> = transcript::of_home(home);
    assert!(!files.is_empty(), "{what}: nothing was recorded");
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }
}

/// The blocks of a type in messages of a role.
fn blocks(frames: &[Value], role: &str, kind: &str) -> Vec<Value> {
    let messages = frames.iter().filter(|frame| frame["type"] == role);
    let content = messages.filter_map(|frame| frame["message"]["content"].as_array());
    content
        .flatten()
        .filter(|block| block["type"] == kind)
        .cloned()
        .collect()
}

fn deltas(frames: &[Value]) -> usize {
    let events = frames
        .iter()
        .filter(|frame| frame["type"] == "stream_event");
    events
        .filter(|frame| frame["event"]["type"] == "content_block_delta")
        .count()
}

fn listed(server: &Server, tools: bool) {
    let home = home(server, KINDS[0], &json!({}));
    let output = home.run(["models", "--json"], "");
    let rows: Value = serde_json::from_str(&output.stdout).unwrap();
    let mut rows = rows.as_array().unwrap().iter();
    let row = rows.find(|row| row["provider"] == "local").unwrap();
    assert_eq!(
        (&row["contextWindow"], &row["tools"]),
        (&json!(8192), &json!(tools)),
        "{row}"
    );
    println!("listed with its window, tools: {tools}");
}

fn text(server: &Server) {
    for kind in KINDS {
        let home = home(server, kind, &json!({}));
        let output = ask(&home, "Say hello.", &[]);
        sound(kind.0, &home, &output);
        let pieces = deltas(&output.frames());
        assert!(pieces > 1, "{}: nothing was streamed: {output:#?}", kind.0);
        println!("{}: text streams, {pieces} pieces", kind.0);
        // The same session continues over the next protocol.
        let other = if kind.0 == "openai" {
            KINDS[2]
        } else {
            KINDS[1]
        };
        let settings = home_settings(server, other);
        std::fs::write(home.config().join("settings.json"), settings).unwrap();
        let output = ask(&home, "Once more.", &["-c"]);
        sound(kind.0, &home, &output);
        println!("{}: the session goes on over {}", kind.0, other.0);
    }
}

fn home_settings(server: &Server, kind: (&str, &str)) -> String {
    let other = home(server, kind, &json!({}));
    std::fs::read_to_string(other.config().join("settings.json")).unwrap()
}

/// The model is held to a grammar that knows nothing but a call: by the request, or by its server, whose own grammar
/// counts where a request brings none.
fn constrained(server: &Server) {
    let grammar = std::fs::read_to_string(beside("call.gbnf")).unwrap();
    for kind in KINDS {
        let body = if kind.0 == "openai-chat" {
            json!({"grammar": grammar})
        } else {
            json!({})
        };
        let home = home(server, kind, &body);
        let output = ask(&home, "Which files are here?", &[]);
        sound(kind.0, &home, &output);
        let calls = blocks(&output.frames(), "assistant", "tool_use");
        assert!(!calls.is_empty(), "{}: {output:#?}", kind.0);
        assert!(calls.iter().all(|call| call["name"] == "Glob"), "{calls:?}");
        println!(
            "{}: a call, held to a grammar: {}",
            kind.0, calls[0]["input"]
        );
    }
}

/// Nonsense doesn't end a session.
fn nonsense(server: &Server) {
    for kind in KINDS {
        let wild = json!({"temperature": 4.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0});
        let home = home(server, kind, &wild);
        for more in [&[][..], &["-c"]] {
            let output = ask(&home, "Which files are here?", more);
            sound(kind.0, &home, &output);
        }
        println!("{}: a session survives nonsense", kind.0);
    }
}

/// The server knows tools, and the model may answer as it likes: calls come through natively, if it makes any.
fn native(server: &Server) {
    for kind in KINDS {
        let home = home(server, kind, &json!({}));
        let output = ask(&home, "List the files with Glob.", &[]);
        sound(kind.0, &home, &output);
        let calls = blocks(&output.frames(), "assistant", "tool_use").len();
        println!("{}: tools are offered natively, {calls} calls", kind.0);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap());
    let chosen: Vec<String> = arguments.collect();
    let wants = |part: &str| chosen.is_empty() || chosen.iter().any(|name| name == part);
    if wants("text") || wants("nonsense") {
        let server = Server::start(&folder, None);
        listed(&server, false);
        if wants("text") {
            text(&server);
        }
        if wants("nonsense") {
            nonsense(&server);
        }
    }
    if wants("calls") {
        constrained(&Server::start(&folder, Some(("--grammar", "call.gbnf"))));
    }
    if wants("native") {
        let server = Server::start(&folder, Some(("--template", "tools.jinja")));
        listed(&server, true);
        native(&server);
    }
    println!("fine");
}
