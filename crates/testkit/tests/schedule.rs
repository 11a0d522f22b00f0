//! Scheduled prompts where no terminal is: with an SDK host, and in an editor.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome, processes, transcript};
use serde_json::{Value, json};

/// A model that repeats what it is told, and schedules a prompt when it is told to.
fn model() -> BlockingServer {
    let respond = |request: &RecordedRequest| {
        let said = request.last_user_text();
        let said = said.lines().next().unwrap_or_default();
        if !request.last_results().is_empty() {
            return Reply::text(format!("made: {}", request.last_tool_result()));
        }
        match said {
            "schedule" => Reply::tool_use(
                "CronCreate",
                json!({"cron": "0 9 1 1 *", "prompt": "a happy new year", "recurring": false}),
            ),
            "list" => Reply::tool_use("CronList", json!({})),
            _ => Reply::text(format!("heard: {said}")),
        }
    };
    BlockingServer::start(Scenario::new().responder(respond)).unwrap()
}

/// A trusted project with a prompt whose time passed while no session was there.
fn place(server: &BlockingServer) -> TestHome {
    let home = TestHome::with_server(server).variable("LATHE_SESSION_TITLES", "0");
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let jobs = json!({"tasks": [{
        "id": "missed01", "cron": "0 9 * * *", "prompt": "look at the post", "recurring": false,
        "createdAt": 1_700_000_000_000_i64,
    }]});
    home.write(".lathe/scheduled_tasks.json", jobs.to_string());
    home
}

fn fires(home: &TestHome) -> usize {
    let transcripts = transcript::of_home(home);
    let texts = transcripts.iter().map(|path| home.read(path));
    texts
        .map(|text| text.matches("\"scheduled_task_fire\"").count())
        .sum()
}

#[test]
fn a_host_gets_the_turn_of_a_job_that_was_missed_once_and_jobs_end_with_the_session() {
    let server = model();
    let home = place(&server);
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    session.prompt("hello");
    let mut results: Vec<Value> = vec![session.wait_for_result(), session.wait_for_result()];
    results.sort_by_key(|result| result["result"].to_string());
    assert_eq!(results[0]["result"], "heard: hello", "{results:?}");
    assert_eq!(
        results[1]["result"], "heard: look at the post",
        "{results:?}"
    );
    assert_eq!(
        results[1]["origin"]["kind"], "scheduled-task",
        "{results:?}"
    );
    session.prompt("schedule");
    let made = session.wait_for_result();
    assert!(
        made["result"].as_str().unwrap().contains("Scheduled:"),
        "{made}"
    );
    session.prompt("list");
    let listed = session.wait_for_result();
    assert!(
        listed["result"]
            .as_str()
            .unwrap()
            .contains("a happy new year"),
        "{listed}"
    );
    assert_eq!(session.close().code(), Some(0));
    assert_eq!(fires(&home), 1);
    // The next session has neither.
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    session.prompt("list");
    let listed = session.wait_for_result();
    assert!(
        listed["result"]
            .as_str()
            .unwrap()
            .contains("No prompts are scheduled"),
        "{listed}"
    );
    assert_eq!(session.close().code(), Some(0));
    assert_eq!(fires(&home), 1);
    server.finish();
    processes::assert_none_left(&home);
}

#[test]
fn an_editor_is_shown_the_turn_of_a_job() {
    let server = model();
    let home = place(&server);
    let mut editor = home.spawn(["acp"]);
    let mut send = |message: Value| editor.write(format!("{message}\n").as_bytes());
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}}}));
    send(json!({"jsonrpc": "2.0", "id": 2, "method": "session/new",
        "params": {"cwd": home.project(), "mcpServers": []}}));
    editor.wait_for_stdout("\"id\":2");
    editor.wait_for_stdout("heard: look at the post");
    editor.close_stdin();
    let output = editor.finish();
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(
        output.stdout.contains("agent_message_chunk"),
        "{}",
        output.stdout
    );
    assert_eq!(fires(&home), 1);
    server.finish();
    processes::assert_none_left(&home);
}

/// Ends the sessions of a home in the background.
fn stop_sessions(home: &TestHome) {
    let listed: Value = serde_json::from_str(&home.run(["ps", "--json"], "").stdout).unwrap();
    for session in listed.as_array().unwrap() {
        if session["live"] == true {
            let stopped = home.run(["stop", session["id"].as_str().unwrap()], "");
            assert_eq!(stopped.code(), Some(0));
        }
    }
}

fn wait(what: &str, mut fine: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + lathe_testkit::HANG_LIMIT;
    while !fine() {
        assert!(
            std::time::Instant::now() < until,
            "waited in vain for: {what}"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn the_server_starts_a_session_for_a_job_that_no_session_fires() {
    let server = model();
    let home = place(&server)
        .variable("TERM", "xterm-256color")
        .variable("LATHE_MEMORY_EXTRACTION", "off")
        .variable("LATHE_PROMPT_SUGGESTIONS", "0");
    let serving = home.spawn(["serve", "--port", "0"]);
    serving.wait_for_stdout("serving");
    wait("the fire", || fires(&home) == 1);
    let jobs = || home.read(".lathe/scheduled_tasks.json");
    wait("the end of the job", || !jobs().contains("missed01"));
    // While a session holds the lock, the server leaves the next one to it; once it is gone, the server starts another.
    let sessions = || {
        let listed: Value = serde_json::from_str(&home.run(["ps", "--json"], "").stdout).unwrap();
        let live = listed.as_array().unwrap().iter();
        live.filter(|session| session["live"] == true).count()
    };
    assert_eq!(sessions(), 1);
    stop_sessions(&home);
    serving.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(serving.finish().code(), Some(0));
    assert_eq!(fires(&home), 1);
    server.finish();
    processes::assert_none_left(&home);
}

/// A job whose session was killed between the note and the prompt: the next session fires it, once.
#[test]
fn a_fire_that_was_killed_is_made_up_for_by_the_server() {
    let server = model();
    let home = place(&server)
        .variable("TERM", "xterm-256color")
        .variable("LATHE_MEMORY_EXTRACTION", "off")
        .variable("LATHE_PROMPT_SUGGESTIONS", "0");
    let jobs = json!({"tasks": [{
        "id": "missed01", "cron": "0 9 * * *", "prompt": "look at the post", "recurring": false,
        "createdAt": 1_700_000_000_000_i64,
        "firing": {"record": "6f1c1d5e-0d6e-4c1c-9a3f-1a2b3c4d5e6f", "transcript": home.project().join("gone.jsonl")},
    }]});
    home.write(".lathe/scheduled_tasks.json", jobs.to_string());
    let serving = home.spawn(["serve", "--port", "0"]);
    wait("the fire", || fires(&home) == 1);
    stop_sessions(&home);
    serving.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(serving.finish().code(), Some(0));
    assert_eq!(fires(&home), 1);
    server.finish();
    processes::assert_none_left(&home);
}
