//! Hooks that misbehave in every way that a process can. None of them stalls or breaks the turn.

use crate::{Bench, HANG, bash, command, input, is_alive, within};
use lathe_hooks::RunOutcome;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

async fn run(hook: Value) -> (lathe_hooks::HookOutcome, Bench) {
    let bench = Bench::with("PreToolUse", &json!([hook]));
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(outcome.runs.len(), 1);
    assert_eq!(
        outcome.permission, None,
        "a hook that fails decides nothing"
    );
    (outcome, bench)
}

#[tokio::test]
async fn a_hook_that_hangs_is_stopped_at_its_limit_with_all_its_children() {
    let line = "sleep 1000 & echo $! > child; sleep 1000";
    let (outcome, bench) = run(json!({"type": "command", "command": line, "timeout": 0.5})).await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::TimedOut);
    assert!(
        outcome.warnings[0].contains("took longer than 500ms and was stopped"),
        "{:?}",
        outcome.warnings
    );
    let child = std::fs::read_to_string(bench.path().join("child")).unwrap();
    assert!(!is_alive(&child), "the child was stopped too");
}

#[tokio::test]
async fn a_hook_that_ignores_the_polite_signal_is_killed() {
    let line = "trap '' TERM; while :; do sleep 0.05; done";
    let (outcome, _bench) = run(json!({"type": "command", "command": line, "timeout": 0.3})).await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::TimedOut);
}

#[tokio::test]
async fn a_hook_that_floods_its_output_is_stopped_and_little_is_kept() {
    let (outcome, _bench) = run(command("yes flooding")).await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::Error);
    assert!(
        outcome.warnings[0].contains("printed too much output"),
        "{:?}",
        outcome.warnings
    );
    assert!(outcome.runs[0].stdout.len() <= lathe_process::KEPT_BYTES);
}

#[tokio::test]
async fn a_hook_that_prints_a_lot_but_ends_is_cut_and_answers() {
    let (outcome, _bench) = run(command("head -c 5000000 /dev/zero | tr '\\0' x >&2")).await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::Success);
    assert_eq!(outcome.runs[0].stderr.len(), lathe_process::KEPT_BYTES);
}

#[tokio::test]
async fn a_hook_that_does_not_read_its_input_is_fine() {
    let bench = Bench::with(
        "PreToolUse",
        &json!([command("exec 0<&-; echo done >&2; exit 2")]),
    );
    let large = "x".repeat(3_000_000);
    let outcome = bench.run("PreToolUse", bash(&large)).await;
    assert_eq!(outcome.permission.unwrap().reason.as_deref(), Some("done"));
}

#[tokio::test]
async fn a_large_input_and_a_large_output_at_the_same_time_do_not_block_each_other() {
    let bench = Bench::with("PreToolUse", &json!([command("cat >&2; exit 2")]));
    let large = "x".repeat(800_000);
    let outcome = bench.run("PreToolUse", bash(&large)).await;
    assert!(outcome.permission.unwrap().reason.unwrap().len() > 800_000);
}

#[tokio::test]
async fn a_hook_that_prints_half_json_says_nothing() {
    let half = r#"printf '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"'"#;
    let (outcome, _bench) = run(command(half)).await;
    assert!(
        outcome.warnings[0].contains("starts like JSON but is invalid"),
        "{:?}",
        outcome.warnings
    );
}

#[tokio::test]
async fn a_hook_that_dies_by_a_signal_is_a_warning() {
    let (outcome, _bench) = run(command("kill -SEGV $$")).await;
    assert_eq!(
        (outcome.runs[0].outcome, outcome.runs[0].exit_code),
        (RunOutcome::Error, None)
    );
    assert!(
        outcome.warnings[0].contains("was ended by a signal"),
        "{:?}",
        outcome.warnings
    );
}

#[tokio::test]
async fn a_hook_that_leaves_a_daemon_with_the_pipe_open_does_not_stall() {
    let line = "(exec sleep 600) & echo $! > daemon; echo said >&2; exit 2";
    let bench = Bench::with("PreToolUse", &json!([command(line)]));
    let started = Instant::now();
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert!(started.elapsed() < HANG / 2, "the daemon was waited for");
    assert_eq!(outcome.permission.unwrap().reason.as_deref(), Some("said"));
    let daemon = std::fs::read_to_string(bench.path().join("daemon")).unwrap();
    assert!(
        is_alive(&daemon),
        "what a hook leaves on purpose is its own business"
    );
    let _ = std::process::Command::new("kill")
        .arg(daemon.trim())
        .status();
}

#[tokio::test]
async fn a_hook_that_can_not_be_started_is_a_warning() {
    let (outcome, _bench) =
        run(json!({"type": "command", "command": "/no/such/program", "args": []})).await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::Error);
    assert!(
        outcome.warnings[0].contains("can't be started"),
        "{:?}",
        outcome.warnings
    );
}

#[tokio::test]
async fn a_working_folder_that_is_gone_is_no_reason_not_to_run() {
    let bench = Bench::with("PreToolUse", &json!([command("exit 2")]));
    let mut context = bench.context();
    context.cwd = bench.path().join("gone");
    let outcome = within(
        bench
            .registry
            .run(&input("PreToolUse", bash("ls")), &context),
    )
    .await;
    assert!(outcome.permission.is_some());
}

#[tokio::test]
async fn cancelling_the_turn_ends_its_hooks() {
    let bench = Bench::with("PreToolUse", &json!([command("echo $$ > id; sleep 1000")]));
    let context = bench.context();
    let given = input("PreToolUse", bash("ls"));
    let running = bench.registry.run(&given, &context);
    let cancelling = async {
        wait_for(&bench, "id").await;
        context.cancel.cancel();
    };
    let (outcome, ()) = within(async { tokio::join!(running, cancelling) }).await;
    assert_eq!(outcome.runs[0].outcome, RunOutcome::Cancelled);
    assert!(
        outcome.is_silent(),
        "a cancelled hook says nothing: {outcome:?}"
    );
    assert!(!is_alive(
        &std::fs::read_to_string(bench.path().join("id")).unwrap()
    ));
}

#[tokio::test]
async fn dropping_the_run_ends_its_hooks() {
    let bench = Bench::with("PreToolUse", &json!([command("echo $$ > id; sleep 1000")]));
    let given = input("PreToolUse", bash("ls"));
    let context = bench.context();
    {
        let running = bench.registry.run(&given, &context);
        tokio::pin!(running);
        tokio::select! {
            _ = &mut running => panic!("it sleeps"),
            () = wait_for(&bench, "id") => {}
        }
    }
    let id = std::fs::read_to_string(bench.path().join("id")).unwrap();
    within(async {
        while is_alive(&id) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Polls for a file with content; the hook writes it when it is where the test wants it.
async fn wait_for(bench: &Bench, name: &str) {
    let path = bench.path().join(name);
    within(async {
        while std::fs::read_to_string(&path)
            .unwrap_or_default()
            .trim()
            .is_empty()
        {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_hooks_are_all_alive_at_once() {
    // Each says that it is there and continues only when all ten are: one after the other they would
    // wait for ever.
    let barrier =
        "mkdir -p here; : > here/$$; while [ \"$(ls here | wc -l)\" -lt 10 ]; do sleep 0.05; done";
    let hooks: Vec<Value> = (0..10)
        .map(|number| command(&format!("{barrier} # {number}")))
        .collect();
    let bench = Bench::with("PreToolUse", &Value::Array(hooks));
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(outcome.runs.len(), 10);
    assert!(
        outcome
            .runs
            .iter()
            .all(|run| run.outcome == RunOutcome::Success),
        "{outcome:#?}"
    );
}

#[tokio::test]
async fn one_hook_that_fails_does_not_silence_the_others() {
    let bench = Bench::with(
        "PreToolUse",
        &json!([
            command("kill -9 $$"),
            {"type": "command", "command": "sleep 1000", "timeout": 0.2},
            command("echo guarded >&2; exit 2"),
            command("exit 7"),
        ]),
    );
    let outcome = bench.run("PreToolUse", bash("ls")).await;
    assert_eq!(
        outcome.permission.unwrap().reason.as_deref(),
        Some("guarded")
    );
    assert_eq!(outcome.warnings.len(), 3);
}

#[tokio::test]
async fn who_watches_hears_of_every_command_that_begins_and_ends() {
    use lathe_protocol::event::HookNotice;
    let bench = Bench::with(
        "SessionStart",
        &json!([{"type": "command", "command": "echo hi", "statusMessage": "Greeting"}]),
    );
    let heard: Arc<parking_lot::Mutex<Vec<HookNotice>>> = Arc::default();
    let mut context = bench.context();
    let sink = Arc::clone(&heard);
    context.observer = Some(Arc::new(move |progress| sink.lock().push(progress)));
    within(bench.registry.run(
        &input("SessionStart", json!({"source": "startup"})),
        &context,
    ))
    .await;
    let heard = heard.lock();
    assert_eq!(heard.len(), 2);
    let HookNotice::Started {
        hook_id,
        hook_name,
        display,
        ..
    } = &heard[0]
    else {
        panic!("{heard:?}")
    };
    assert_eq!(hook_name, "SessionStart:startup");
    assert_eq!(display, "Greeting");
    let HookNotice::Finished {
        hook_id: ended,
        stdout,
        exit_code,
        outcome,
        ..
    } = &heard[1]
    else {
        panic!("{heard:?}")
    };
    assert_eq!(
        (ended, stdout.as_str(), *exit_code, outcome.as_str()),
        (hook_id, "hi\n", Some(0), "success")
    );
}
