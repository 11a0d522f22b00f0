//! Commands that try not to come back, not to stop, or to leave something behind. Each one returns,
//! and no process of it survives.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]

mod run_support;

use lathe_shell::run::{Exit, OnTimeout, RunOptions};
use run_support::{Fixture, survivors, until};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn limit(milliseconds: u64) -> RunOptions {
    RunOptions {
        timeout: Duration::from_millis(milliseconds),
        ..RunOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_that_holds_the_output_open_does_not_hold_the_call() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("(sleep 1000; echo never) & disown; echo done")
        .await;
    assert_eq!(finished.exit, Exit::Exited(0));
    assert_eq!(finished.output.text, "done\n");
    assert!(
        finished
            .leftovers
            .iter()
            .any(|line| line.contains("sleep 1000")),
        "{:?}",
        finished.leftovers
    );
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_put_into_the_background_of_the_shell_is_ended_and_named() {
    let fixture = Fixture::new();
    let finished = fixture.run("sleep 1000 >/dev/null 2>&1 &").await;
    assert_eq!(finished.exit, Exit::Exited(0));
    assert_eq!(finished.leftovers.len(), 1, "{:?}", finished.leftovers);
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_lived_background_process_may_finish() {
    let fixture = Fixture::new();
    let finished = fixture.run("(sleep 0.05; echo late) & echo early").await;
    assert_eq!(finished.output.text, "early\nlate\n");
    assert!(finished.leftovers.is_empty(), "{:?}", finished.leftovers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_in_a_session_of_its_own_is_found_when_the_shell_ends() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("setsid sleep 1000 >/dev/null 2>&1 < /dev/null & echo ok")
        .await;
    assert_eq!(finished.output.text, "ok\n");
    assert!(!finished.leftovers.is_empty());
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_in_a_session_of_its_own_is_found_when_the_time_is_up() {
    let fixture = Fixture::new();
    let finished = fixture
        .run_with("setsid --fork sleep 1000; sleep 1000", limit(300))
        .await;
    assert_eq!(finished.exit, Exit::TimedOut);
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_also_cleared_its_environment_is_found() {
    let fixture = Fixture::new();
    // Only its name is left to recognise it by, and only this test does.
    let script = format!(
        "env -i setsid --fork bash -c 'exec -a {} sleep 1000' >/dev/null 2>&1 </dev/null",
        fixture.mark
    );
    let finished = fixture.run(&script).await;
    assert_eq!(finished.exit, Exit::Exited(0));
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ignores_sigterm_is_killed() {
    let fixture = Fixture::new();
    let finished = fixture
        .run_with(
            "trap '' TERM INT HUP; echo up; while :; do sleep 1000; done",
            limit(300),
        )
        .await;
    assert_eq!(finished.exit, Exit::TimedOut);
    assert_eq!(finished.output.text, "up\n");
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leftover_that_ignores_sigterm_is_killed() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("bash -c 'trap \"\" TERM; while :; do sleep 1000; done' & sleep 0.1; echo done")
        .await;
    assert_eq!(finished.output.text, "done\n");
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_standard_input_finds_its_end() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("cat; read -r line; echo \"read: $? [$line]\"")
        .await;
    assert_eq!(finished.exit, Exit::Exited(0));
    assert_eq!(finished.output.text, "read: 1 []\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_terminal_to_ask_on() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("read -r line < /dev/tty; echo \"code $?\"")
        .await;
    assert!(
        finished.output.text.ends_with("code 1\n"),
        "{}",
        finished.output.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_text_is_replaced_and_nothing_else_is_lost() {
    let fixture = Fixture::new();
    let finished = fixture
        .run(r"printf 'a\xff\xfeb\0c\xe2\x82'; sleep 0.05; printf '\xac\xf0\x9f'; sleep 0.05; printf '\x98\x80z'")
        .await;
    assert_eq!(finished.output.text, "a\u{FFFD}\u{FFFD}b\0c€😀z");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_single_line_is_cut_in_the_middle_and_saved() {
    let fixture = Fixture::new();
    let file = fixture.folder.path().join("spill");
    let options = RunOptions {
        output_limit: 1_000,
        spill: Some(file.clone()),
        ..RunOptions::default()
    };
    let finished = fixture
        .run_with(
            "printf start; head -c 5000000 /dev/zero | tr '\\0' x; printf end",
            options,
        )
        .await;
    let text = &finished.output.text;
    assert!(
        text.starts_with("startxxx") && text.ends_with("xxxend"),
        "{text}"
    );
    assert!(text.contains(file.to_str().unwrap()), "{text}");
    assert!(text.len() < 2_000);
    assert_eq!(finished.output.total_bytes, 5_000_008);
    assert_eq!(std::fs::metadata(file).unwrap().len(), 5_000_008);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_fits_makes_no_file() {
    let fixture = Fixture::new();
    let file = fixture.folder.path().join("spill");
    let options = RunOptions {
        spill: Some(file.clone()),
        ..RunOptions::default()
    };
    let finished = fixture.run_with("echo little", options).await;
    assert_eq!(finished.output.file, None);
    assert!(!file.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_cannot_be_saved_is_said_to_be_lost() {
    let fixture = Fixture::new();
    let blocked = fixture.folder.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let options = RunOptions {
        output_limit: 100,
        spill: Some(blocked.join("below-a-file")),
        ..RunOptions::default()
    };
    let finished = fixture.run_with("seq 1000", options).await;
    assert_eq!(finished.exit, Exit::Exited(0));
    assert!(
        finished.output.text.contains("could not be saved"),
        "{}",
        finished.output.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_survives_its_parents_is_ended() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("bash -c 'bash -c \"sleep 1000 & sleep 1000 & exit\" & exit'; echo gone")
        .await;
    assert_eq!(finished.exit, Exit::Exited(0));
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_becomes_another_program_is_followed() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("sleep 1000 & exec bash -c 'echo other; exit 7'")
        .await;
    assert_eq!(finished.exit, Exit::Exited(7));
    assert_eq!(finished.output.text, "other\n");
    fixture.assert_no_survivor();
    let finished = fixture.run_with("exec sleep 1000", limit(200)).await;
    assert_eq!(finished.exit, Exit::TimedOut);
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_kills_itself_is_reported_and_cleaned_up_after() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("setsid sleep 1000 & echo before; kill -9 $$")
        .await;
    assert_eq!(finished.exit, Exit::Signalled(9));
    assert_eq!(finished.output.text, "before\n");
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_closes_everything_still_comes_back() {
    let fixture = Fixture::new();
    let finished = fixture
        .run("sleep 1000 & for fd in /proc/$$/fd/*; do fd=${fd##*/}; eval \"exec $fd>&-\"; done; exit 4")
        .await;
    assert_eq!(finished.exit, Exit::Exited(4));
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_it_with_everything_it_started() {
    let fixture = Fixture::new();
    let cancel = CancellationToken::new();
    let ready = fixture.folder.path().join("ready");
    let command = format!(
        "sleep 1000 | setsid sleep 1000 & touch {}; sleep 1000; echo after > {}",
        ready.display(),
        fixture.folder.path().join("after").display()
    );
    let options = RunOptions {
        cancel: cancel.clone(),
        ..RunOptions::default()
    };
    let (finished, ()) = tokio::join!(fixture.run_with(&command, options), async {
        until("the command runs", || ready.exists()).await;
        cancel.cancel();
    });
    assert_eq!(finished.exit, Exit::Cancelled);
    fixture.assert_no_survivor();
    assert!(
        !fixture.folder.path().join("after").exists(),
        "the next command of the list ran after the cancellation"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_call_ends_the_command() {
    let fixture = Fixture::new();
    let ready = fixture.folder.path().join("ready");
    let command = format!("setsid sleep 1000 & touch {}; sleep 1000", ready.display());
    tokio::select! {
        _ = fixture.session.run(&command, RunOptions::default()) => panic!("it can't have ended"),
        () = until("the command runs", || ready.exists()) => {}
    }
    until("everything is gone", || survivors(&fixture.mark).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_forks_is_ended() {
    let fixture = Fixture::new();
    let finished = fixture
        .run_with(
            "f() { for i in 1 2 3 4 5 6 7 8; do (setsid sleep 1000 &) ; done; }; f; f; sleep 1000",
            limit(500),
        )
        .await;
    assert_eq!(finished.exit, Exit::TimedOut);
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_output_is_cut_by_the_time_limit() {
    let fixture = Fixture::new();
    let finished = fixture.run_with("yes", limit(300)).await;
    assert_eq!(finished.exit, Exit::TimedOut);
    assert!(finished.output.omitted_bytes > 0);
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_at_once_do_not_touch_each_other() {
    let fixture = Arc::new(Fixture::new());
    let runs: Vec<_> = (0..8)
        .map(|index| {
            let command =
                format!("(sleep 0.0{index}; echo {index}) & sleep 0.03; setsid sleep 1000 &");
            let fixture = Arc::clone(&fixture);
            tokio::spawn(async move { fixture.run(&command).await })
        })
        .collect();
    for (index, run) in runs.into_iter().enumerate() {
        assert_eq!(run.await.unwrap().output.text, format!("{index}\n"));
    }
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_can_move_it_into_the_background_instead() {
    let fixture = Fixture::new();
    let options = RunOptions {
        on_timeout: OnTimeout::MoveToBackground,
        ..limit(200)
    };
    let finished = fixture.run_with("echo first; sleep 1000", options).await;
    let Exit::MovedToBackground(id) = finished.exit else {
        panic!("{:?}", finished.exit)
    };
    assert_eq!(finished.output.text, "first\n");
    let (_, stopped) = fixture
        .session
        .background()
        .stop(id.as_str())
        .await
        .unwrap();
    assert_eq!(stopped.status.word(), "killed");
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_stopped_itself_is_ended() {
    let fixture = Fixture::new();
    let finished = fixture
        .run_with("sleep 1000 & kill -STOP $$", limit(200))
        .await;
    assert_eq!(finished.exit, Exit::TimedOut);
    fixture.assert_no_survivor();
}
