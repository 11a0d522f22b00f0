//! The lines of a transcript, as its readers expect them.

use lathe_scripted::Reply;
use lathe_testkit::{TestHome, transcript};
use serde_json::{Value, json};

/// The records of the only session of a home.
fn records(home: &TestHome) -> Vec<Value> {
    let file = transcript::of_home(home).remove(0);
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn lines_say_how_an_answer_ended_what_it_cost_and_where_it_was_given() {
    let enter = Reply::tool_use(
        "Bash",
        json!({"command": "mkdir inner && cd inner && touch x"}),
    );
    let answer = Reply::text("done").usage("output_tokens", 77);
    let server = lathe_testkit::server([
        enter.header("request-id", "req_one"),
        answer.header("request-id", "req_two"),
    ]);
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "go", "--allowedTools", "Bash"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let records = records(&home);
    let answers: Vec<&Value> = records
        .iter()
        .filter(|record| record["type"] == "assistant")
        .collect();
    assert_eq!(answers[0]["message"]["stop_reason"], "tool_use");
    assert_eq!(answers[0]["requestId"], "req_one");
    let last = answers[1];
    assert_eq!(last["message"]["stop_reason"], "end_turn");
    assert_eq!(last["message"]["usage"]["output_tokens"], 77);
    assert_eq!(last["requestId"], "req_two");
    let folder = |record: &Value| record["cwd"].clone();
    assert_eq!(folder(answers[0]), json!(home.project()));
    assert_eq!(folder(last), json!(home.project().join("inner")));
}

#[test]
fn a_request_that_is_repeated_leaves_a_line() {
    let server = lathe_testkit::server([Reply::error(500), Reply::text("done")]);
    let home = TestHome::with_server(&server).variable("LATHE_RETRY_BASE_MS", "1");
    assert_eq!(home.run(["-p", "go"], "").code(), Some(0));
    let records = records(&home);
    let error = records
        .iter()
        .find(|record| record["subtype"] == "api_error")
        .unwrap();
    assert_eq!(
        (&error["type"], &error["level"]),
        (&json!("system"), &json!("error"))
    );
    assert_eq!(error["error"]["status"], 500);
    assert_eq!(error["retryAttempt"], 1);
    let answer = records
        .iter()
        .find(|record| record["type"] == "assistant")
        .unwrap();
    assert_eq!(answer["parentUuid"], error["uuid"]);
}

#[test]
fn commands_that_the_session_answers_leave_lines_that_no_request_carries() {
    let server = super::chatty();
    let home = TestHome::with_server(&server);
    let mut session = lathe_testkit::StreamJson::start(&home, [] as [&str; 0]);
    for prompt in ["/effort high", "hi", "/add-dir", "again"] {
        session.prompt(prompt);
        session.wait_for_result();
    }
    let _ = session.close();
    let records = records(&home);
    let lines: Vec<&str> = records
        .iter()
        .filter(|record| record["subtype"] == "local_command")
        .map(|record| record["content"].as_str().unwrap())
        .collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].contains("<command-name>/effort</command-name>"));
    assert!(lines[0].contains("<command-args>high</command-args>"));
    assert!(lines[1].starts_with("<local-command-stdout>The effort is high"));
    assert!(lines[2].contains("/add-dir"));
    // They stand in the chain: what follows hangs off them.
    let chained = records
        .iter()
        .filter(|record| record["type"] == "user" && record["isMeta"] != true);
    for prompt in chained {
        let parent = records
            .iter()
            .find(|record| record["uuid"] == prompt["parentUuid"])
            .unwrap();
        assert_eq!(parent["subtype"], "local_command", "{prompt}");
    }
    let requests = server.message_requests();
    assert!(
        !requests
            .last()
            .unwrap()
            .body
            .to_string()
            .contains("local-command-stdout")
    );
    let resumed = home.run(["-p", "more", "--continue"], "");
    assert_eq!(resumed.code(), Some(0), "{}", resumed.stderr);
    let last = server.message_requests().pop().unwrap();
    assert_eq!(last.body["messages"].as_array().unwrap().len(), 5);
}
