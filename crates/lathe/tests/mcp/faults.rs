//! Servers that do what they shouldn't, in sessions: the session continues, and the user is told once.

use super::*;
use lathe_testkit::StreamJson;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// Runs a turn in which one tool of a server with habits is called, in print mode. Gives what was printed
/// and what the model got.
fn call_once(habits: &[&str], tool: &str, input: Value) -> (lathe_testkit::Output, String) {
    let model = model([Reply::tool_use(tool, input), Reply::text("done")]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(habits)}));
    let output = home.run(
        [
            "-p",
            "go",
            "--mcp-config",
            &servers,
            "--allowedTools",
            "mcp__local",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{habits:?}: {output:#?}");
    assert_eq!(output.stdout, "done\n");
    let result = sent(&model, 1);
    model.finish();
    nothing_left(&home);
    (output, result)
}

/// How many lines of what was told hold some words.
fn lines_with(text: &str, words: &str) -> usize {
    text.lines().filter(|line| line.contains(words)).count()
}

#[test]
fn a_server_that_never_answers_is_reported_once() {
    let model = model([
        Reply::tool_use("mcp__mute__echo", json!({})),
        Reply::tool_use("mcp__mute__echo", json!({})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model).variable("MCP_TIMEOUT", "300");
    let servers = config(&json!({"mute": fixture(&["silent"])}));
    let output = home.run(
        [
            "-p",
            "go",
            "--mcp-config",
            &servers,
            "--allowedTools",
            "mcp__mute",
        ],
        "",
    );
    assert_eq!(output.stdout, "done\n", "{output:#?}");
    assert_eq!(lines_with(&output.stderr, "mute"), 1, "{}", output.stderr);
    let limit = "within 0.3 s (MCP_TIMEOUT)";
    assert!(output.stderr.contains(limit), "{}", output.stderr);
    model.finish();
    nothing_left(&home);
}

#[test]
fn messages_outside_of_the_protocol_are_ignored_and_reported_once() {
    let echo = "mcp__local__echo";
    for (habit, what) in [
        ("invalid", "invalid JSON"),
        ("wrong-ids", "an answer to no request"),
    ] {
        let (output, result) = call_once(&[habit], echo, json!({"text": "through"}));
        assert!(
            result.contains("through") && !result.contains("\"wrong\""),
            "{result}"
        );
        assert_eq!(lines_with(&output.stderr, what), 1, "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    }
}

#[test]
fn floods_and_endless_texts_are_truncated() {
    let (output, result) = call_once(&[], "mcp__local__flood", json!({}));
    assert!(result.contains("flooded"), "{result}");
    assert_eq!(output.stderr, "");

    let model = model([Reply::text("done")]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&["long"])}));
    let mut session = StreamJson::start(&home, ["--mcp-config", &servers]);
    control(&mut session, &json!({"subtype": "mcp_status"}));
    session.prompt("go");
    session.wait_for_result();
    let requests = model.requests();
    let tools = requests[0].body["tools"].as_array().unwrap().clone();
    let long = tools
        .iter()
        .find(|tool| tool["name"] == "mcp__local__long")
        .unwrap();
    let length = long["description"].as_str().unwrap().chars().count();
    assert!((2000..=2100).contains(&length), "{length}");
    assert_eq!(session.close().code(), Some(0));
}

#[test]
fn invalid_entries_are_reported_once() {
    let model = model([Reply::text("one"), Reply::text("two")]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"evil": fixture(&["evil"])}));
    let mut session = StreamJson::start(&home, ["--mcp-config", &servers]);
    control(&mut session, &json!({"subtype": "mcp_status"}));
    for _ in 0..2 {
        session.prompt("go");
        session.wait_for_result();
    }
    let output = session.close();
    assert_eq!(
        lines_with(&output.stdout, "The MCP server evil:"),
        1,
        "{}",
        output.stdout
    );
    assert!(!output.stdout.contains("\\u001b") && !output.stdout.contains('\u{1b}'));
}

#[test]
fn nothing_runs_without_permission_and_no_link_is_followed() {
    let model = model([
        Reply::tool_use("mcp__evil__links", json!({}))
            .with_tool_use("mcp__evil__Bash", json!({"command": "touch owned"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model);
    let secret = home.write("secret.txt", "the-secret-words");
    let servers =
        config(&json!({"evil": fixture(&["links", &format!("file={}", secret.display())])}));
    let output = home.run(
        [
            "-p",
            "go",
            "--output-format",
            "json",
            "--mcp-config",
            &servers,
            "--allowedTools",
            "mcp__evil__links",
            "Bash",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let result = sent(&model, 1);
    // The link is shown, what it names is not read, and a rule for Bash is none for a tool that calls itself so.
    assert!(result.contains("secret.txt"), "{result}");
    assert!(!result.contains("the-secret-words"), "{result}");
    let denied = &output.result()["permission_denials"];
    assert_eq!(denied[0]["tool_name"], "mcp__evil__Bash", "{denied}");
    assert!(!home.project().join("owned").exists());
    model.finish();
}

/// The remote fixture, as a process.
struct Remote {
    child: Child,
    port: u16,
}

impl Remote {
    fn start(behaviour: &str) -> Self {
        let script = workspace_root().join("crates/mcp/tests/fixtures/remote.py");
        let mut child = Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let remote = Self {
            child,
            port: line.trim().parse().unwrap(),
        };
        remote.get(&format!("/control?{behaviour}"));
        remote
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn stats(&self) -> Value {
        serde_json::from_str(&self.get("/stats")).unwrap()
    }

    fn add(&self, home: &TestHome) {
        let url = format!("http://127.0.0.1:{}/mcp", self.port);
        assert_eq!(home.run(["mcp", "add", "far", &url], "").code(), Some(0));
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn echoes(count: usize) -> Vec<Reply> {
    let call =
        |number| Reply::tool_use("mcp__far__echo", json!({"text": format!("word-{number}")}));
    (0..count)
        .flat_map(|number| [call(number), Reply::text("done")])
        .collect()
}

#[test]
fn an_expired_session_is_opened_anew_without_a_word() {
    let model = model(echoes(2));
    let home = TestHome::with_server(&model);
    let remote = Remote::start("");
    remote.add(&home);
    let mut session = StreamJson::start(&home, ["--allowedTools", "mcp__far"]);
    control(&mut session, &json!({"subtype": "mcp_status"}));
    session.prompt("one");
    session.wait_for_result();
    remote.get("/control?forget_sessions");
    session.prompt("two");
    session.wait_for_result();
    assert!(sent(&model, 3).contains("word-1"), "{}", sent(&model, 3));
    assert_eq!(remote.stats()["sessions"], 2);
    let output = session.close();
    assert_eq!(
        (
            output.stderr.as_str(),
            lines_with(&output.stdout, "informational")
        ),
        ("", 0)
    );
    model.finish();
}

#[test]
fn an_expired_token_is_refreshed_and_a_lost_sign_in_is_reported_once_with_the_command() {
    let model = model(echoes(4));
    let browser = workspace_root().join("crates/testkit/tests/mcp/browser.py");
    let home =
        TestHome::with_server(&model).variable("BROWSER", format!("python3 {}", browser.display()));
    let remote = Remote::start("auth");
    remote.add(&home);
    let signed_in = home.run(["mcp", "login", "far"], "");
    assert_eq!(signed_in.code(), Some(0), "{signed_in:#?}");
    let mut session = StreamJson::start(&home, ["--allowedTools", "mcp__far"]);
    control(&mut session, &json!({"subtype": "mcp_status"}));
    session.prompt("one");
    session.wait_for_result();
    remote.get("/control?expire");
    session.prompt("two");
    session.wait_for_result();
    assert!(sent(&model, 3).contains("word-1"), "{}", sent(&model, 3));
    assert_eq!(remote.stats()["refresh"], 1);
    // Now nothing helps but the user.
    remote.get("/control?expire&kill_refresh");
    for _ in 0..2 {
        session.prompt("more");
        session.wait_for_result();
    }
    let output = session.close();
    let told: Vec<Value> = output
        .frames()
        .into_iter()
        .filter(|frame| frame["subtype"] == "informational")
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].to_string().contains("lathe mcp login far"),
        "{told:?}"
    );
    // Tokens are in no file but the one for them, and in nothing that was printed.
    assert!(!output.stdout.contains("access-") && !output.stderr.contains("access-"));
    let log = home.run(["mcp", "logs", "far"], "");
    assert!(!log.stdout.contains("access-"), "{}", log.stdout);
    let signed_out = home.run(["mcp", "logout", "far"], "");
    assert_eq!(signed_out.code(), Some(0), "{signed_out:#?}");
}
