//! Servers that misbehave.

use crate::support::{LONG, Work, is_alive, scripted, until};
use lathe_lsp::{LspError, Operation, QueryAnswer, Question, Standing};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_program_that_is_not_there_is_told_once() {
    let work = Work::with(
        |_| json!({"gone": {"command": "no-such-language-server", "extensionToLanguage": {".words": "words"}}}),
    );
    work.write("a.words", "x\n");
    let error = work.hover().await.unwrap_err().to_string();
    assert!(
        error.contains("no program no-such-language-server; install it"),
        "{error}"
    );
    let again = work.hover().await.unwrap_err();
    assert!(matches!(again, LspError::GivenUp { .. }), "{again}");
    work.edit("a.words", "BAD\n");
    assert_eq!(work.news().await, "");
    assert_eq!(work.problems.lock().len(), 1, "{:?}", work.problems.lock());
    assert!(matches!(
        work.servers.status()[0].standing,
        Standing::GivenUp(_)
    ));
}

#[tokio::test]
async fn a_start_that_never_ends_is_cut_off() {
    let work = Work::with(|root| {
        let mut entry = scripted(root, "never");
        entry["startupTimeout"] = json!(300);
        entry["shutdownTimeout"] = json!(50);
        json!({"scripted": entry})
    });
    work.write("a.words", "x\n");
    let error = work.hover().await.unwrap_err().to_string();
    assert!(error.contains("has not answered within 0.3 s"), "{error}");
    assert_eq!(work.problems.lock().len(), 1);
}

#[tokio::test]
async fn an_end_does_not_wait_for_a_start() {
    let work = Work::with(|root| {
        let mut entry = scripted(root, "never");
        entry["startupTimeout"] = json!(600_000);
        json!({"scripted": entry})
    });
    work.write("a.words", "x\n");
    work.edit("a.words", "y\n");
    until("it is being started", || !work.processes().is_empty()).await;
    let process = work.processes()[0];
    tokio::time::timeout(LONG, work.servers.shut_down())
        .await
        .expect("the end");
    assert!(!is_alive(process));
    assert!(work.problems.lock().is_empty());
}

#[tokio::test]
async fn a_server_that_dies_at_its_start_is_tried_three_times_more_and_told_twice() {
    let work = Work::new("dies");
    work.write("a.words", "x\n");
    let error = work.hover().await.unwrap_err().to_string();
    assert!(
        error.contains("exit code 3; last line of its output: a broken installation"),
        "{error}"
    );
    for _ in 0..3 {
        let error = work.hover().await.unwrap_err();
        assert!(matches!(error, LspError::Start { .. }), "{error}");
    }
    for _ in 0..2 {
        let error = work.hover().await.unwrap_err();
        assert!(matches!(error, LspError::GivenUp { .. }), "{error}");
    }
    assert_eq!(work.processes().len(), 4);
    assert_eq!(work.problems.lock().len(), 2, "{:?}", work.problems.lock());
}

#[tokio::test]
async fn a_server_that_dies_is_started_again_and_asked_again() {
    let work = Work::new("dies-once");
    work.write("a.words", "x\n");
    assert_eq!(work.hover().await.unwrap(), "rest: x");
    assert_eq!(work.processes().len(), 2);
    assert_eq!(
        work.sent("textDocument/didOpen").len(),
        2,
        "the new one is shown the file"
    );
    assert!(work.problems.lock().is_empty());
}

#[tokio::test]
async fn a_server_that_always_dies_is_given_up() {
    let work = Work::new("dies-always");
    work.write("a.words", "x\n");
    let mut last = String::new();
    for _ in 0..3 {
        last = work.hover().await.unwrap_err().to_string();
    }
    assert!(
        last.contains("exit code 7; last line of its output: out of cheese"),
        "{last}"
    );
    assert!(last.contains("started again 3 times"), "{last}");
    assert_eq!(work.processes().len(), 4);
    assert_eq!(work.problems.lock().len(), 1, "{:?}", work.problems.lock());
}

#[tokio::test]
async fn how_often_a_server_is_started_again_is_a_setting() {
    for (key, value, starts) in [
        ("maxRestarts", json!(1), 2),
        ("restartOnCrash", json!(false), 1),
    ] {
        let work = Work::with(|root| {
            let mut entry = scripted(root, "dies-always");
            entry[key] = value;
            json!({"scripted": entry})
        });
        work.write("a.words", "x\n");
        for _ in 0..3 {
            work.hover().await.unwrap_err();
        }
        assert_eq!(work.processes().len(), starts, "{key}");
    }
}

#[tokio::test]
async fn floods_half_messages_noise_and_wrong_numbers_are_read_past() {
    for mode in ["floods", "halves", "wrong-ids", "huge"] {
        let work = Work::new(mode);
        work.write("a.words", "x BAD\n");
        assert_eq!(work.hover().await.unwrap(), "rest: x BAD", "{mode}");
        let answer = work
            .ask(Operation::Diagnostics, "a.words", 1, 1)
            .await
            .unwrap();
        assert!(
            matches!(&answer, QueryAnswer::Problems(problems) if problems.len() == 1),
            "{mode}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_stops_reading_is_given_up_and_holds_nobody() {
    let work = Work::with(|root| {
        let mut entry = scripted(root, "deaf");
        entry["shutdownTimeout"] = json!(50);
        entry["maxRestarts"] = json!(0);
        json!({"scripted": entry})
    });
    // More than a pipe holds, so that the writer is stuck with the first of them.
    let text = "x".repeat(200 * 1024);
    work.write("a.words", &text);
    let cancel = CancellationToken::new();
    let question = Question {
        operation: Operation::Hover,
        path: work.root.join("a.words"),
        line: Some(1),
        character: Some(1),
        query: None,
    };
    // Nobody waits for these: what can be seen is that the queue in front of the server has an end.
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..600 {
        let (servers, question, cancel) = (work.servers.clone(), question.clone(), cancel.clone());
        asked.spawn(async move { servers.ask(&question, &cancel).await });
    }
    let mut reasons = Vec::new();
    while let Some(answer) = asked.join_next().await {
        reasons.push(answer.unwrap().unwrap_err().to_string());
    }
    assert!(
        reasons
            .iter()
            .any(|reason| reason.contains("stopped reading")),
        "{:?}",
        reasons.last()
    );
}

#[tokio::test]
async fn what_a_server_asks_is_answered() {
    let work = Work::with(|root| {
        let mut entry = scripted(root, "asks");
        entry["settings"] = json!({"words": {"list": ["a"]}});
        json!({"scripted": entry})
    });
    work.write("a.words", "x\n");
    let answers: Value = serde_json::from_str(&work.hover().await.unwrap()).unwrap();
    assert_eq!(answers["1"], json!([["a"], null]));
    assert_eq!(answers["two"], Value::Null);
    assert_eq!(answers["3"], Value::Null);
    assert_eq!(answers["4"]["applied"], false);
    assert_eq!(answers["5"]["code"], -32601);
    assert_eq!(
        work.sent("workspace/didChangeConfiguration")[0]["params"]["settings"]["words"]["list"][0],
        "a"
    );
}

#[tokio::test]
async fn an_empty_answer_is_doubted_while_the_project_is_being_read() {
    let work = Work::new("indexing");
    work.write("a.words", "x\n");
    // Until its work has ended, the server knows nothing.
    assert_eq!(work.hover().await.unwrap(), "rest: x");
    assert_eq!(work.servers.status()[0].standing, Standing::Running);
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_is_taken_back() {
    let work = Work::new("silent");
    work.write("a.words", "x\n");
    let cancel = CancellationToken::new();
    let question = Question {
        operation: Operation::Hover,
        path: work.root.join("a.words"),
        line: Some(1),
        character: Some(1),
        query: None,
    };
    let servers = work.servers.clone();
    let stop = cancel.clone();
    let asked = tokio::spawn(async move { servers.ask(&question, &stop).await });
    until("the question is there", || {
        !work.sent("textDocument/hover").is_empty()
    })
    .await;
    cancel.cancel();
    assert_eq!(asked.await.unwrap(), Err(LspError::Cancelled));
    let number = work.sent("textDocument/hover")[0]["id"].clone();
    until("it is taken back", || {
        !work.sent("$/cancelRequest").is_empty()
    })
    .await;
    assert_eq!(work.sent("$/cancelRequest")[0]["params"]["id"], number);
}

#[tokio::test]
async fn a_refusal_is_passed_on() {
    let work = Work::new("refuses");
    work.write("a.words", "x\n");
    assert_eq!(
        work.hover().await.unwrap_err().to_string(),
        "the language server scripted refused textDocument/hover: no thanks"
    );
    assert!(work.problems.lock().is_empty());
}
