//! Hooks that continue after the turn has gone on, and variables that hooks leave behind.

use crate::{Bench, bash, input, is_alive, within};
use lathe_hooks::{RunOutcome, environment_file};
use serde_json::json;
use std::collections::BTreeMap;

#[tokio::test]
async fn a_hook_marked_async_does_not_hold_up_and_answers_later() {
    let line = "while [ ! -e go ]; do sleep 0.02; done; echo '{\"systemMessage\": \"late\"}'";
    let mut bench = Bench::with(
        "PostToolUse",
        &json!([{"type": "command", "command": line, "async": true}]),
    );
    let outcome = bench.run("PostToolUse", bash("ls")).await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::Background);
    assert!(outcome.is_silent());
    assert!(bench.late.try_recv().is_err(), "it waits for the file");
    std::fs::write(bench.path().join("go"), "").unwrap();
    let late = within(bench.late.recv()).await.unwrap();
    assert_eq!(late.answer.system_message.as_deref(), Some("late"));
    assert!(!late.rewake && late.run.outcome == RunOutcome::Success);
}

#[tokio::test]
async fn a_hook_with_async_rewake_runs_in_the_background_and_wakes_by_an_objection() {
    let mut bench = Bench::with(
        "PostToolUse",
        &json!([{"type": "command", "asyncRewake": true,
            "command": "while [ ! -e go ]; do sleep 0.02; done; echo broken >&2; exit 2"}]),
    );
    let outcome = bench.run("PostToolUse", bash("ls")).await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::Background);
    std::fs::write(bench.path().join("go"), "").unwrap();
    within(bench.registry.rewoken()).await;
    let late = bench.late.try_recv().unwrap();
    assert!(late.rewake);
    assert_eq!(late.answer.block.as_deref(), Some("broken"));
}

#[tokio::test]
async fn a_background_hook_is_reported_when_it_ends_with_its_exit_code() {
    let mut bench = Bench::with(
        "PostToolUse",
        &json!([{"type": "command", "async": true,
            "command": "while [ ! -e go ]; do sleep 0.02; done; echo done; exit 3"}]),
    );
    let reports = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut context = bench.context();
    let sink = reports.clone();
    context.observer = Some(std::sync::Arc::new(
        move |notice: lathe_protocol::event::HookNotice| {
            if let lathe_protocol::event::HookNotice::Finished {
                exit_code, stdout, ..
            } = notice
            {
                sink.lock().unwrap().push((exit_code, stdout));
            }
        },
    ));
    bench
        .registry
        .run(&input("PostToolUse", bash("ls")), &context)
        .await;
    assert_eq!(*reports.lock().unwrap(), []);
    std::fs::write(bench.path().join("go"), "").unwrap();
    within(bench.late.recv()).await.unwrap();
    assert_eq!(*reports.lock().unwrap(), [(Some(3), "done\n".to_owned())]);
}

#[tokio::test]
async fn a_hook_can_decide_by_its_first_line_to_go_to_the_background() {
    let line = "echo '{\"async\": true, \"asyncTimeout\": 30000}'; while [ ! -e go ]; do sleep 0.02; done; echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PostToolUse\", \"additionalContext\": \"checked\"}}'";
    let mut bench = Bench::with(
        "PostToolUse",
        &json!([{"type": "command", "command": line}]),
    );
    let outcome = bench.run("PostToolUse", bash("ls")).await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::Background);
    std::fs::write(bench.path().join("go"), "").unwrap();
    let late = within(bench.late.recv()).await.unwrap();
    assert_eq!(late.answer.additional_context.as_deref(), Some("checked"));
}

#[tokio::test]
async fn a_background_hook_has_its_own_limit_and_outlives_the_turn() {
    let line = "echo '{\"async\": true, \"asyncTimeout\": 200}'; echo $$ > id; sleep 1000";
    let mut bench = Bench::with(
        "PostToolUse",
        &json!([{"type": "command", "command": line}]),
    );
    let context = bench.context();
    let outcome = within(
        bench
            .registry
            .run(&input("PostToolUse", bash("ls")), &context),
    )
    .await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::Background);
    context.cancel.cancel();
    let late = within(bench.late.recv()).await.unwrap();
    assert_eq!(
        late.run.outcome,
        RunOutcome::TimedOut,
        "the limit ended it, not the turn"
    );
}

#[tokio::test]
async fn the_end_of_the_session_ends_background_hooks() {
    let line = "echo $$ > id; echo '{\"async\": true}'; sleep 1000";
    let bench = Bench::with(
        "PostToolUse",
        &json!([{"type": "command", "command": line}]),
    );
    bench.run("PostToolUse", bash("ls")).await;
    within(bench.registry.shut_down()).await;
    assert!(!is_alive(
        &std::fs::read_to_string(bench.path().join("id")).unwrap()
    ));
}

#[tokio::test]
async fn an_answer_whose_first_line_is_something_else_is_read_whole() {
    let line = r#"echo '{'; echo '"decision": "block", "reason": "spread over lines"}'"#;
    let bench = Bench::with(
        "PostToolUse",
        &json!([{"type": "command", "command": line}]),
    );
    let outcome = bench.run("PostToolUse", bash("ls")).await;
    assert_eq!(outcome.block.as_deref(), Some("spread over lines"));
}

#[tokio::test]
async fn exports_of_session_start_hooks_reach_later_commands() {
    let bench = Bench::new(&json!({"hooks": {
        "SessionStart": [{"hooks": [
            {"type": "command", "command": "echo 'export NODE_ENV=production' >> \"$CLAUDE_ENV_FILE\""},
            {"type": "command", "command": "printf 'export PATH=\"$PATH:/opt/tool\"\\nexport QUOTED='\"'\"'a b = c'\"'\"'\\nPLAIN=also\\n' >> \"$LATHE_ENV_FILE\""},
        ]}],
        "PreToolUse": [{"hooks": [{"type": "command", "command": "[ -z \"$CLAUDE_ENV_FILE\" ] || exit 2"}]}]
    }}));
    let file = bench.path().join("exports");
    let mut context = bench.context();
    context.environment_file = Some(file.clone());
    within(bench.registry.run(
        &input("SessionStart", json!({"source": "startup"})),
        &context,
    ))
    .await;
    let base = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    let exports = environment_file::evaluate(&file, &bench.path(), &base)
        .await
        .unwrap();
    let names: Vec<&str> = exports.keys().map(String::as_str).collect();
    assert_eq!(names, ["NODE_ENV", "PATH", "PLAIN", "QUOTED"]);
    assert_eq!(exports["QUOTED"], "a b = c");
    assert!(exports["PATH"].ends_with(":/opt/tool") && exports["PATH"].starts_with(&base["PATH"]));
    let other = within(
        bench
            .registry
            .run(&input("PreToolUse", bash("ls")), &context),
    )
    .await;
    assert!(other.is_silent(), "other events get no such file");
}

#[tokio::test]
async fn a_broken_or_missing_export_file_is_an_error_or_nothing() {
    let bench = Bench::new(&json!({}));
    let file = bench.path().join("exports");
    let none = environment_file::evaluate(&file, &bench.path(), &BTreeMap::new()).await;
    assert_eq!(none.unwrap(), BTreeMap::new());
    std::fs::write(&file, "export A='never closed\n").unwrap();
    let error = environment_file::evaluate(&file, &bench.path(), &BTreeMap::new())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("was not read"), "{error}");
    std::fs::write(&file, "export A=1\nexit 0\n").unwrap();
    let error = environment_file::evaluate(&file, &bench.path(), &BTreeMap::new())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("it ended the shell"), "{error}");
}
