//! State of a resumed session, on the real binary.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_scripted::{BlockingServer, Position, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome};
use serde_json::json;
use std::time::Duration;

/// A model that always says the same.
fn server() -> BlockingServer {
    BlockingServer::start(Scenario::new().reply(Reply::text("yes").forever())).unwrap()
}

/// Runs one prompt; gives the first frame.
fn init_of(home: &TestHome, arguments: &[&str]) -> serde_json::Value {
    let mut all = vec!["-p", "hi", "--output-format", "stream-json", "--verbose"];
    all.extend(arguments);
    let output = home.run(all, "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(output.stderr, "", "{output:#?}");
    output.frames().remove(0)
}

#[test]
fn a_resumed_session_goes_on_in_its_permission_mode() {
    let server = server();
    let home = TestHome::with_server(&server);
    let first = init_of(&home, &["--permission-mode", "plan"]);
    assert_eq!(first["permissionMode"], "plan");
    assert_eq!(init_of(&home, &["--continue"])["permissionMode"], "plan");
    let named = init_of(&home, &["--continue", "--permission-mode", "acceptEdits"]);
    assert_eq!(named["permissionMode"], "acceptEdits", "a flag wins");
    let home = home.variable("IS_SANDBOX", "1");
    let bypass = ["--continue", "--permission-mode", "bypassPermissions"];
    assert_eq!(
        init_of(&home, &bypass)["permissionMode"],
        "bypassPermissions"
    );
    assert_eq!(
        init_of(&home, &["--continue"])["permissionMode"],
        "default",
        "leave to do everything is given anew"
    );
    server.finish();
}

#[test]
fn a_resumed_session_goes_on_with_its_model_and_effort() {
    let server = server();
    let home = TestHome::with_server(&server);
    init_of(&home, &["--model", "claude-haiku-4-5", "--effort", "low"]);
    let resumed = init_of(&home, &["--continue"]);
    assert_eq!(resumed["model"], "claude-haiku-4-5");
    let request = server.requests().pop().unwrap();
    assert_eq!(
        request.body["output_config"]["effort"], "low",
        "{}",
        request.body
    );
    let named = init_of(&home, &["--continue", "--model", "claude-opus-4-5"]);
    assert_eq!(named["model"], "claude-opus-4-5");
    server.finish();
}

#[test]
fn a_model_that_was_chosen_in_the_session_is_kept_with_it() {
    let server = server();
    let home = TestHome::with_server(&server);
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    session.prompt("one");
    session.wait_for_result();
    session.control(&json!({"subtype": "set_model", "model": "claude-haiku-4-5"}));
    session.prompt("two");
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    assert_eq!(init_of(&home, &["--continue"])["model"], "claude-haiku-4-5");
    server.finish();
}

#[test]
fn a_cleanup_period_of_zero_days_keeps_nothing() {
    let server = server();
    let home = TestHome::with_server(&server);
    init_of(&home, &[]);
    assert_eq!(lathe_testkit::transcript::of_home(&home).len(), 1);
    let settings = json!({"cleanupPeriodDays": 0});
    home.write(home.config().join("settings.json"), settings.to_string());
    init_of(&home, &[]);
    assert_eq!(
        lathe_testkit::transcript::of_home(&home),
        Vec::<std::path::PathBuf>::new()
    );
    server.finish();
}

#[test]
fn a_resumed_session_knows_the_files_that_it_read_and_that_nobody_changed() {
    let read = |file: &str| Reply::tool_use("Read", json!({"file_path": file}));
    let edit = |file: &str| {
        Reply::tool_use(
            "Edit",
            json!({"file_path": file, "old_string": "one", "new_string": "two"}),
        )
    };
    let server = lathe_testkit::server([
        read("same.txt"),
        read("changed.txt"),
        Reply::text("read"),
        edit("same.txt"),
        edit("changed.txt"),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    for file in ["same.txt", "changed.txt"] {
        home.write(file, "one line\n");
    }
    let flags = ["-p", "go", "--permission-mode", "acceptEdits"];
    assert_eq!(home.run(flags, "").code(), Some(0));
    // One is another now, and later than its record.
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    home.write("changed.txt", "one line of somebody else\n");
    let file = std::fs::File::options()
        .write(true)
        .open(home.project().join("changed.txt"))
        .unwrap();
    file.set_modified(later).unwrap();
    let output = home.run([&flags[..], &["--continue"]].concat(), "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(home.read("same.txt"), "two line\n");
    assert_eq!(home.read("changed.txt"), "one line of somebody else\n");
    server.finish();
}

#[test]
fn a_session_that_is_killed_in_its_worktree_continues_there_and_loses_nothing() {
    let scenario = Scenario::new()
        .reply(Reply::tool_use("Bash", json!({"command": "pwd > where"})))
        .reply(Reply::text("never said").gate(Position::MidBlock(0), "killed"))
        .reply(Reply::tool_use(
            "Bash",
            json!({"command": "pwd; cat where"}),
        ))
        .reply(Reply::text("there"));
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server);
    home.write("file", "content");
    home.git_init();
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let bash = ["--allowedTools", "Bash"];
    let tree = home.project().join(".lathe/worktrees/fix");
    let mut running = home.spawn([&["-p", "go", "-w", "fix"][..], &bash[..]].concat());
    running.close_stdin();
    assert!(server.wait_for_gate("killed", 1, Duration::from_secs(60)));
    running.kill();
    drop(running);
    server.gate("killed").release();
    let output = home.run([&["-p", "on", "--continue"][..], &bash[..]].concat(), "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(
        output.stderr.contains("continues in the worktree"),
        "{output:#?}"
    );
    let told = server.requests().pop().unwrap().last_tool_result();
    let path = tree.display().to_string();
    assert_eq!(told.trim(), format!("{path}\n{path}"));
    assert!(tree.join("where").exists(), "it holds work, so it stays");
    server.finish();
}
