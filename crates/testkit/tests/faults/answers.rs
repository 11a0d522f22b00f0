//! Answers that are odd, not broken; and signals while one comes.

use crate::Run;
use lathe_scripted::{Position, Reply, Scenario};
use lathe_testkit::processes;
use lathe_testkit::transcript::{self, Transcript};
use nix::sys::signal::Signal;
use serde_json::json;
use std::time::Duration;

/// Fault: SIGINT or SIGTERM during an answer
/// Seen: Exit code 130 or 143
/// Kept: The transcript with the prompt
#[test]
fn a_signal_while_streaming_ends_the_run_with_its_transcript_flushed() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let reply = Reply::text("a long story").gate(Position::MidBlock(0), "middle");
        let run = Run::new(Scenario::new().reply(reply));
        let running = run.home.spawn(["-p", "tell me a story"]);
        assert!(
            run.server
                .wait_for_gate("middle", 1, Duration::from_secs(60))
        );
        running.signal(signal);
        let output = running.finish();
        assert_eq!(output.code(), Some(code), "{signal}: {output:#?}");
        let path = transcript::of_home(&run.home).remove(0);
        let transcript = Transcript::read(&path);
        assert_eq!(
            transcript.prompts().first().map(String::as_str),
            Some("tell me a story")
        );
        assert!(!transcript.torn && transcript.damaged.is_empty());
        processes::assert_none_left(&run.home);
    }
}

/// Fault: SIGTERM while a command runs
/// Seen: Exit code 143
/// Kept: The transcript; no process is left
#[test]
fn a_signal_while_a_command_runs_leaves_no_process_behind() {
    let command = "touch started; sleep 1000 & setsid sleep 1001 & sleep 1002";
    let run = Run::new(Scenario::new().reply(Reply::tool_use("Bash", json!({"command": command}))));
    let running = run
        .home
        .spawn(["-p", "wait", "--permission-mode", "bypassPermissions"]);
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !run.home.project().join("started").exists() {
        assert!(
            std::time::Instant::now() < until,
            "{}",
            running.stderr_so_far()
        );
        std::thread::yield_now();
    }
    running.signal(Signal::SIGTERM);
    let output = running.finish();
    assert_eq!(output.code(), Some(143), "{output:#?}");
    processes::assert_none_left(&run.home);
}

/// Fault: The model sends a call that is not JSON
/// Seen: The model gets the error
/// Kept: Everything; nothing is run
#[test]
fn a_call_whose_arguments_are_not_json_is_answered_and_not_run() {
    // A string as input is sent as raw text.
    let broken = Reply::tool_use("Bash", json!("{\"command\": \"touch ran.txt"));
    let run = Run::new(Scenario::new().reply(broken).reply(Reply::text("I see")));
    run.succeeds(&[], "I see");
    let request = &run.requests()[1];
    let result = request.last_results()[0].clone();
    assert_eq!(result["is_error"], true, "{result}");
    assert!(!run.home.project().join("ran.txt").exists());
}

#[test]
fn a_call_of_a_tool_that_is_not_there_is_answered() {
    let run = Run::new(
        Scenario::new()
            .reply(Reply::tool_use("Teleport", json!({"to": "the moon"})))
            .reply(Reply::text("{{last_tool_result}}")),
    );
    let output = run.go(&[]);
    let told = output.result()["result"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(
        told.contains("Teleport") && told.contains("Bash"),
        "names what there is: {told}"
    );
    run.server.finish();
}

#[test]
fn results_of_the_providers_own_tools_are_sent_back_verbatim() {
    let blocks = vec![
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "lathe"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
            {"type": "web_search_result", "url": "https://example.invalid", "title": "t", "encrypted_content": "abc"}
        ]}),
        json!({"type": "text", "text": "found it", "citations": [{"type": "x", "cited_text": "y"}]}),
        json!({"type": "tool_use", "name": "Bash", "input": {"command": "echo on"}}),
    ];
    let run = Run::new(
        Scenario::new()
            .reply(Reply::blocks(blocks.clone()))
            .reply(Reply::text("end")),
    );
    run.succeeds(&[], "end");
    let requests = run.requests();
    let sent_back = requests[1].messages()[1]["content"].as_array().unwrap();
    assert_eq!(sent_back[..3], blocks[..3]);
}

#[test]
fn a_server_that_gives_every_answer_the_same_id_is_understood_also_after_a_resume() {
    for id in ["msg_always", ""] {
        let call = |command: &str| Reply::tool_use("Bash", json!({"command": command})).id(id);
        let run = Run::new(
            Scenario::new()
                .reply(call("echo one"))
                .reply(call("echo two"))
                .reply(Reply::text("end").id(id))
                .reply(Reply::text("later").id(id)),
        );
        assert_eq!(run.go(&[]).code(), Some(0));
        assert_eq!(run.go(&["--continue"]).code(), Some(0));
        let roles = |index: usize| -> Vec<String> {
            let requests = run.requests();
            let messages = requests[index].messages();
            messages
                .iter()
                .map(|message| message["role"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(roles(2).len(), 5, "each answer is a message of its own");
        assert_eq!(roles(3).len(), 7, "as before");
        let requests = run.requests();
        let second = requests[3].messages()[4]["content"].to_string();
        assert!(
            second.contains("two") && !second.contains("one"),
            "{second}"
        );
        run.server.finish();
    }
}

#[test]
fn a_paused_answer_is_continued() {
    let paused = Reply::blocks(vec![
        json!({"type": "text", "text": "Let me look."}),
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}),
    ])
    .stop_reason("pause_turn");
    let run = Run::new(Scenario::new().reply(paused).reply(Reply::text("and done")));
    run.succeeds(&[], "Let me look.\nand done");
    let requests = run.requests();
    let last = requests[1].messages().last().unwrap();
    assert_eq!(last["role"], "assistant", "sent back as it is: {last}");
}

#[test]
fn an_answer_with_nothing_in_it_ends_the_turn() {
    let run = Run::new(Scenario::new().reply(Reply::blocks(Vec::new())));
    let output = run.go(&[]);
    assert_eq!(output.code(), Some(0), "{output:#?}");
    run.server.finish();
}

#[test]
fn a_declined_answer_and_an_unknown_stop_reason_end_the_turn() {
    for reason in ["refusal", "a_reason_to_come"] {
        let run = Run::new(Scenario::new().reply(Reply::text("no").stop_reason(reason)));
        let output = run.go(&[]);
        assert_eq!(output.result()["stop_reason"], reason, "{output:#?}");
        run.server.finish();
    }
}
