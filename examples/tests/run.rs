//! The examples do what they say, against the scripted model.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use serde_json::json;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn run(program: &str, arguments: &[&str], input: &str, server: &BlockingServer) -> Output {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("notes.txt"), "the answer is 42\n").unwrap();
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(&project)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .env("LATHE_CONFIG_DIR", home.path().join("config"))
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("ANTHROPIC_API_KEY", "test-key")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(input.as_bytes()).unwrap();
    drop(pipe);
    child.wait_with_output().unwrap()
}

#[test]
fn the_bot_answers_every_line_in_one_conversation() {
    let scenario = Scenario::new()
        .reply(Reply::tool_use("Read", json!({"file_path": "notes.txt"})))
        .reply(Reply::text("It is 42."))
        .reply(Reply::text("I said it is 42."));
    let server = BlockingServer::start(scenario).unwrap();
    let input = "what is the answer?\nwhat did you say?\n";
    let output = run(env!("CARGO_BIN_EXE_bot"), &[], input, &server);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "It is 42.\nI said it is 42.\n", "{errors}");
    server.check().unwrap();
}

#[test]
fn the_model_can_call_a_custom_tool() {
    let scenario = Scenario::new()
        .reply(Reply::tool_use("RollDice", json!({"sides": 6})))
        .responder(|request| {
            let sent = request.body.to_string();
            assert!(sent.contains("The die shows "), "{sent}");
            Reply::text("rolled")
        });
    let server = BlockingServer::start(scenario).unwrap();
    let output = run(env!("CARGO_BIN_EXE_custom_tool"), &["roll"], "", &server);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "rolled\n",
        "{errors}"
    );
    server.check().unwrap();
}
