//! Whole conversations over the NDJSON protocol, as a host would hold them: several prompts in one
//! process, a question that the host answers, an interruption.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_scripted::{BlockingServer, Position, Reply, Scenario};
use lathe_testkit::{HANG_LIMIT, StreamJson, TestHome, processes};
use serde_json::json;

const NO_ARGUMENTS: [&str; 0] = [];

#[test]
fn a_process_takes_one_prompt_after_the_other() {
    let server = BlockingServer::start(
        Scenario::new()
            .reply(Reply::text("first answer"))
            .reply(Reply::text("second answer")),
    )
    .unwrap();
    let home = TestHome::with_server(&server);
    let mut session = StreamJson::start(&home, NO_ARGUMENTS);
    let answer = session.control(&json!({"subtype": "initialize", "hooks": null}));
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    session.prompt("first prompt");
    assert_eq!(session.wait_for_result()["result"], "first answer");
    session.prompt("second prompt");
    assert_eq!(session.wait_for_result()["result"], "second answer");
    let output = session.close();
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(output.stderr, "");
    let told = server.requests()[1].body["messages"].to_string();
    for said in ["first prompt", "first answer", "second prompt"] {
        assert!(told.contains(said), "{said:?} is not in {told}");
    }
    server.finish();
}

#[test]
fn a_host_answers_what_the_rules_leave_open() {
    let touch = |file: &str| Reply::tool_use("Bash", json!({"command": format!("touch {file}")}));
    let server = BlockingServer::start(
        Scenario::new()
            .reply(touch("allowed.txt"))
            .reply(touch("denied.txt"))
            .reply(Reply::text("{{last_tool_result}}")),
    )
    .unwrap();
    let home = TestHome::with_server(&server);
    let mut session = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    session.prompt("make files");
    for (answer, file) in [
        (
            json!({"behavior": "allow", "updatedInput": {"command": "touch changed.txt"}}),
            "allowed",
        ),
        (
            json!({"behavior": "deny", "message": "not that one"}),
            "denied",
        ),
    ] {
        let question = session.wait_for(|frame| frame["type"] == "control_request");
        assert_eq!(question["request"]["subtype"], "can_use_tool");
        assert_eq!(question["request"]["tool_name"], "Bash");
        assert_eq!(
            question["request"]["input"]["command"],
            format!("touch {file}.txt")
        );
        session.send(&json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": question["request_id"], "response": answer,
        }}));
    }
    let result = session.wait_for_result();
    let output = session.close();
    assert!(
        result["result"].as_str().unwrap().contains("not that one"),
        "{output:#?}"
    );
    assert_eq!(
        result["permission_denials"].as_array().map(Vec::len),
        Some(1),
        "{result}"
    );
    let exists = |file: &str| home.project().join(file).exists();
    assert!(exists("changed.txt"), "the host changed the input");
    assert!(!exists("allowed.txt") && !exists("denied.txt"));
    assert_eq!(output.code(), Some(0), "{output:#?}");
    server.finish();
}

#[test]
fn an_interruption_ends_the_turn_and_not_the_session() {
    let server = BlockingServer::start(
        Scenario::new()
            .reply(Reply::text("a very long story").gate(Position::MidBlock(0), "middle"))
            .reply(Reply::text("a short one")),
    )
    .unwrap();
    let home = TestHome::with_server(&server);
    let mut session = StreamJson::start(&home, NO_ARGUMENTS);
    session.prompt("tell me a story");
    assert!(server.wait_for_gate("middle", 1, HANG_LIMIT));
    let answer = session.control(&json!({"subtype": "interrupt"}));
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    let result = session.wait_for_result();
    assert_eq!(result["subtype"], "error_during_execution", "{result}");
    assert_eq!(result["terminal_reason"], "aborted_streaming", "{result}");
    session.prompt("a shorter one");
    assert_eq!(session.wait_for_result()["result"], "a short one");
    let output = session.close();
    assert_eq!(
        output.code(),
        Some(0),
        "the last result counts: {output:#?}"
    );
    processes::assert_none_left(&home);
    server.finish();
}

/// The frame of a prompt with an id of the host's.
fn named(id: &str, text: &str) -> serde_json::Value {
    json!({"type": "user", "uuid": id, "session_id": "", "parent_tool_use_id": null,
        "message": {"role": "user", "content": text}})
}

#[test]
fn a_prompt_that_came_before_is_confirmed_and_neither_written_nor_run_again() {
    let server = BlockingServer::start(
        Scenario::new()
            .reply(Reply::text("first answer"))
            .reply(Reply::text("second answer"))
            .reply(Reply::text("third answer")),
    )
    .unwrap();
    let home = TestHome::with_server(&server);
    let (one, other, third) = (
        "11111111-1111-4111-8111-111111111111",
        "22222222-2222-4222-8222-222222222222",
        "33333333-3333-4333-8333-333333333333",
    );
    let id = "44444444-4444-4444-8444-444444444444";
    let echoed = |session: &mut StreamJson, id: &str| {
        session.wait_for(|frame| frame["isReplay"] == true && frame["uuid"] == id)
    };
    let mut session = StreamJson::start(&home, ["--replay-user-messages", "--session-id", id]);
    session.send(&named(one, "first prompt"));
    assert_eq!(session.wait_for_result()["result"], "first answer");
    session.send(&named(one, "first prompt"));
    echoed(&mut session, one);
    session.send(&named(other, "second prompt"));
    assert_eq!(session.wait_for_result()["result"], "second answer");
    assert_eq!(session.close().code(), Some(0));
    let mut session = StreamJson::start(&home, ["--replay-user-messages", "--resume", id]);
    session.send(&named(one, "first prompt"));
    let echo = echoed(&mut session, one);
    assert_eq!(echo["message"]["content"], "first prompt");
    session.send(&named(third, "third prompt"));
    assert_eq!(session.wait_for_result()["result"], "third answer");
    assert_eq!(session.close().code(), Some(0));
    let path = lathe_testkit::transcript::of_home(&home).remove(0);
    let transcript = lathe_testkit::transcript::Transcript::read(&path);
    assert_eq!(
        transcript.prompts(),
        ["first prompt", "second prompt", "third prompt"]
    );
    let told = server.requests().pop().unwrap().body["messages"].to_string();
    for said in [
        "first answer",
        "second prompt",
        "second answer",
        "third prompt",
    ] {
        assert!(told.contains(said), "{said:?} is not in {told}");
    }
    server.finish();
}

#[test]
fn an_image_without_a_media_type_is_sent_with_the_one_that_it_has() {
    let server = BlockingServer::start(Scenario::new().reply(Reply::text("a dot"))).unwrap();
    let home = TestHome::with_server(&server);
    let mut session = StreamJson::start(&home, NO_ARGUMENTS);
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    session.send(
        &json!({"type": "user", "session_id": "", "parent_tool_use_id": null,
        "message": {"role": "user", "content": [
            {"type": "text", "text": "what is it?"},
            {"type": "image", "source": {"type": "base64", "data": png}},
        ]}}),
    );
    assert_eq!(session.wait_for_result()["result"], "a dot");
    let output = session.close();
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let told = server.requests()[0].body["messages"].to_string();
    assert!(told.contains(r#""media_type":"image/png""#), "{told}");
    server.finish();
}

#[test]
fn a_background_hook_that_objects_wakes_the_model() {
    let server = BlockingServer::start(
        Scenario::new()
            .reply(Reply::text("first answer"))
            .reply(Reply::text("I look into it")),
    )
    .unwrap();
    let home = TestHome::with_server(&server);
    let settings = json!({"hooks": {"Stop": [{"hooks": [{
        "type": "command", "asyncRewake": true,
        "command": "[ -e woken ] && exit 0; touch woken; until [ -e go ]; do sleep 0.02; done; echo 'the build is broken' >&2; exit 2",
    }]}]}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut session = StreamJson::start(&home, NO_ARGUMENTS);
    session.prompt("work");
    assert_eq!(session.wait_for_result()["result"], "first answer");
    home.write("go", "");
    assert_eq!(session.wait_for_result()["result"], "I look into it");
    assert_eq!(session.close().code(), Some(0));
    let told = server.requests()[1].body["messages"].to_string();
    assert!(told.contains("the build is broken"), "{told}");
    server.finish();
}

#[test]
fn a_permission_hook_is_heard_before_a_host_that_answers_at_once() {
    let server = BlockingServer::start(
        Scenario::new()
            .reply(Reply::tool_use(
                "Bash",
                json!({"command": "touch made.txt"}),
            ))
            .reply(Reply::text("{{last_tool_result}}")),
    )
    .unwrap();
    let home = TestHome::with_server(&server);
    let settings = json!({"hooks": {"PermissionRequest": [{"hooks": [{
        "type": "command", "command": "echo 'not today' >&2; exit 2",
    }]}]}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut session = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    session.prompt("make it");
    let result = session.wait_for(|frame| {
        assert_ne!(frame["type"], "control_request", "the host was asked first");
        frame["type"] == "result"
    });
    assert!(
        result["result"].as_str().unwrap().contains("not today"),
        "{result}"
    );
    assert!(!home.project().join("made.txt").exists());
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

#[test]
fn a_hook_that_looks_at_files_leaves_what_the_model_knows_of_them_alone() {
    let system = lathe_scripted::When::system_contains;
    let hook = || system("You check one event");
    let look = || Reply::tool_use("Read", json!({"file_path": "plan.txt"})).when(hook());
    let verdict = || Reply::tool_use("GiveVerdict", json!({"ok": true})).when(hook());
    let server = BlockingServer::start(
        Scenario::new()
            .reply(look())
            .reply(verdict())
            .reply(Reply::text("fine").when(hook()))
            .reply(Reply::tool_use("Read", json!({"file_path": "notes.txt"})))
            .reply(Reply::text("read"))
            .reply(look())
            .reply(verdict())
            .reply(Reply::text("fine").when(hook()))
            .reply(Reply::tool_use(
                "Write",
                json!({"file_path": "plan.txt", "content": "overwritten"}),
            ))
            .reply(Reply::text("{{last_tool_result}}")),
    )
    .unwrap();
    let home = TestHome::with_server(&server);
    home.write("plan.txt", "the person's plan\n");
    home.write("notes.txt", "one\n");
    let settings = json!({"hooks": {"UserPromptSubmit": [{"hooks": [
        {"type": "agent", "prompt": "Look at plan.txt and @notes.txt"}
    ]}]}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut session = StreamJson::start(&home, ["--permission-mode", "acceptEdits"]);
    session.prompt("read the notes");
    assert_eq!(session.wait_for_result()["result"], "read");
    home.write("notes.txt", "one\ntwo, by the person\n");
    session.prompt("go on");
    let result = session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    assert_eq!(home.read("plan.txt"), "the person's plan\n", "{result}");
    let main = |request: &&lathe_scripted::RecordedRequest| {
        !request.system_text().contains("You check one event")
    };
    let requests = server.requests();
    let told = requests.iter().filter(main).nth(2).unwrap();
    let told = told.body["messages"].to_string();
    assert!(
        told.contains("changed on disk") && told.contains("two, by the person"),
        "the hook took the notice away: {told}"
    );
    server.finish();
}
