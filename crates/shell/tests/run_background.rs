//! Commands in the background: output in pieces, events, and an end on request.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(clippy::unwrap_used, reason = "helpers of tests assert too")]

mod run_support;

use lathe_shell::run::{BackgroundEvent, BackgroundStatus, Exit, OnTimeout, RunOptions};
use run_support::{Fixture, HANG, until};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn read(fixture: &Fixture, id: &str) -> String {
    fixture
        .session
        .background()
        .read_new(id, None, 30_000)
        .unwrap()
        .text
}

#[tokio::test(flavor = "multi_thread")]
async fn new_output_is_given_once() {
    let fixture = Fixture::new();
    let background = fixture.session.background();
    let go = fixture.folder.path().join("go");
    let command = format!(
        "echo one; until [ -e {} ]; do sleep 0.01; done; echo two; exit 3",
        go.display()
    );
    let id = fixture
        .session
        .start_in_background(&command, RunOptions::default())
        .await
        .unwrap();
    let id = id.as_str();
    until("the first line is there", || {
        background.get(id).unwrap().total_bytes >= 4
    })
    .await;
    assert_eq!(
        background.get(id).unwrap().status,
        BackgroundStatus::Running
    );
    assert_eq!(read(&fixture, id), "one\n");
    assert_eq!(read(&fixture, id), "");
    std::fs::write(go, "").unwrap();
    let ended = background.wait(id, HANG).await.unwrap();
    assert_eq!(ended.status, BackgroundStatus::Failed(Exit::Exited(3)));
    assert_eq!(read(&fixture, id), "two\n");
    assert_eq!(
        std::fs::read_to_string(ended.output_file).unwrap(),
        "one\ntwo\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_gives_whole_lines_only() {
    let fixture = Fixture::new();
    let background = fixture.session.background();
    let go = fixture.folder.path().join("go");
    let command = format!(
        "printf 'keep 1\\ndrop\\nkeep'; until [ -e {} ]; do sleep 0.01; done; printf ' 2\\nkeep 3'",
        go.display()
    );
    let id = fixture
        .session
        .start_in_background(&command, RunOptions::default())
        .await
        .unwrap();
    let id = id.as_str();
    until("the first part is there", || {
        background.get(id).unwrap().total_bytes >= 16
    })
    .await;
    let filter = |line: &str| line.starts_with("keep");
    let filtered = || background.read_new(id, Some(&filter), 30_000).unwrap().text;
    assert_eq!(filtered(), "keep 1\n");
    std::fs::write(go, "").unwrap();
    background.wait(id, HANG).await.unwrap();
    assert_eq!(filtered(), "keep 2\nkeep 3");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_ends_the_command_with_its_group_and_tells() {
    let fixture = Fixture::new();
    let background = fixture.session.background();
    let mut events = background.subscribe();
    let options = RunOptions {
        description: "a server".to_owned(),
        ..RunOptions::default()
    };
    let id = fixture
        .session
        .start_in_background("setsid sleep 1000 & echo up; sleep 1000", options)
        .await
        .unwrap();
    until("it is up", || {
        background.get(id.as_str()).unwrap().total_bytes > 0
    })
    .await;
    let (before, after) = background.stop(id.as_str()).await.unwrap();
    assert_eq!(before, BackgroundStatus::Running);
    assert_eq!(after.status, BackgroundStatus::Stopped);
    fixture.assert_no_survivor();
    let Some(BackgroundEvent::Started(started)) = events.recv().await else {
        panic!("no start")
    };
    assert_eq!(
        (started.id, started.description.as_str()),
        (id.clone(), "a server")
    );
    let Some(BackgroundEvent::Ended(ended)) = events.recv().await else {
        panic!("no end")
    };
    assert_eq!((ended.id, ended.status), (id, BackgroundStatus::Stopped));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_over_at_once_keeps_its_output() {
    let fixture = Fixture::new();
    let background = fixture.session.background();
    for _ in 0..20 {
        let id = fixture
            .session
            .start_in_background("echo quick", RunOptions::default())
            .await
            .unwrap();
        let ended = background.wait(id.as_str(), HANG).await.unwrap();
        assert_eq!(ended.status, BackgroundStatus::Completed);
        assert_eq!(read(&fixture, id.as_str()), "quick\n");
    }
    assert_eq!(background.list().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_can_send_a_running_command_into_the_background() {
    let fixture = Fixture::new();
    let wish = CancellationToken::new();
    let ready = fixture.folder.path().join("ready");
    let command = format!("seq 20000; touch {}; sleep 0.2; echo end", ready.display());
    let options = RunOptions {
        to_background: wish.clone(),
        spill: Some(fixture.folder.path().join("spill")),
        ..RunOptions::default()
    };
    let (finished, ()) = tokio::join!(fixture.run_with(&command, options), async {
        until("it runs", || ready.exists()).await;
        wish.cancel();
    });
    let Exit::MovedToBackground(id) = finished.exit else {
        panic!("{:?}", finished.exit)
    };
    let ended = fixture
        .session
        .background()
        .wait(id.as_str(), HANG)
        .await
        .unwrap();
    assert_eq!(ended.status, BackgroundStatus::Completed);
    let whole = std::fs::read_to_string(ended.output_file).unwrap();
    assert!(whole.starts_with("1\n2\n") && whole.ends_with("20000\nend\n"));
    assert_eq!(whole.lines().count(), 20_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cancellation_of_the_call_does_not_reach_what_went_into_the_background() {
    let fixture = Fixture::new();
    let cancel = CancellationToken::new();
    let options = RunOptions {
        timeout: Duration::from_millis(50),
        on_timeout: OnTimeout::MoveToBackground,
        cancel: cancel.clone(),
        ..RunOptions::default()
    };
    let finished = fixture.run_with("sleep 0.4; echo survived", options).await;
    let Exit::MovedToBackground(id) = finished.exit else {
        panic!("{:?}", finished.exit)
    };
    cancel.cancel();
    fixture
        .session
        .background()
        .wait(id.as_str(), HANG)
        .await
        .unwrap();
    assert_eq!(read(&fixture, id.as_str()), "survived\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_id_is_answered_with_the_known_ones() {
    let fixture = Fixture::new();
    let background = fixture.session.background();
    let none = background.get("bash_9").unwrap_err().to_string();
    assert!(none.contains("bash_9") && none.contains("none"), "{none}");
    let id = fixture
        .session
        .start_in_background("true", RunOptions::default())
        .await
        .unwrap();
    let some = background.stop("bash_9").await.unwrap_err().to_string();
    assert!(some.contains(id.as_str()), "{some}");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutting_down_ends_them_all() {
    let fixture = Fixture::new();
    for _ in 0..3 {
        fixture
            .session
            .start_in_background(
                "trap '' TERM; setsid sleep 1000 & sleep 1000",
                RunOptions::default(),
            )
            .await
            .unwrap();
    }
    fixture.session.shut_down().await;
    fixture.assert_no_survivor();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_output_file_stops_growing_and_says_so() {
    let fixture = Fixture::new();
    let background = fixture.session.background();
    let options = RunOptions {
        spill_limit: 100,
        ..RunOptions::default()
    };
    let id = fixture
        .session
        .start_in_background("seq 1000; echo the end", options)
        .await
        .unwrap();
    let ended = background.wait(id.as_str(), HANG).await.unwrap();
    assert_eq!(ended.output_file.metadata().unwrap().len(), 100);
    assert!(read(&fixture, id.as_str()).contains("full at 100 bytes"));
    let again = read(&fixture, id.as_str());
    assert!(
        again.contains("the end\n") && again.contains("full"),
        "{again}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_of_a_background_command_goes_on_until_it_is_stopped() {
    let fixture = Fixture::new();
    let background = fixture.session.background();
    let pid_file = fixture.folder.path().join("pid");
    // The shell is done at once; what it started is a session of its own.
    let command = format!(
        "setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 300' > /dev/null 2>&1 & echo started",
        pid_file.display()
    );
    let id = fixture
        .session
        .start_in_background(&command, RunOptions::default())
        .await
        .unwrap();
    let id = id.as_str();
    until("the daemon is there", || pid_file.exists()).await;
    until("the shell said its word", || {
        background.get(id).unwrap().total_bytes >= 8
    })
    .await;
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    let process = std::path::PathBuf::from(format!("/proc/{}", pid.trim()));
    // What a command leaves that is waited for is ended meanwhile.
    let other = fixture.run("sleep 300 & echo x").await;
    assert_eq!(other.leftovers.len(), 1, "{other:?}");
    assert!(process.exists());
    assert_eq!(
        background.get(id).unwrap().status,
        BackgroundStatus::Running
    );
    background.stop(id).await.unwrap();
    until("the daemon is gone", || !process.exists()).await;
    assert_eq!(
        background.wait(id, HANG).await.unwrap().status,
        BackgroundStatus::Stopped
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_keeps_goes_on_after_the_session_and_its_output_is_still_written() {
    let fixture = Fixture::new();
    let background = fixture.session.background();
    let (go, done) = (
        fixture.folder.path().join("go"),
        fixture.folder.path().join("done"),
    );
    let waits = format!(
        "until [ -e {} ]; do sleep 0.02; done; echo last words; touch {}",
        go.display(),
        done.display()
    );
    let daemon = format!("setsid sh -c '{waits}' & echo started");
    let start = async |command: &str| {
        let options = RunOptions::default();
        let started = fixture.session.start_in_background(command, options);
        started.await.unwrap().to_string()
    };
    let kept = start(&daemon).await;
    let other = start("sleep 300").await;
    until("the shell said its word", || {
        background.get(&kept).unwrap().total_bytes >= 8
    })
    .await;
    let view = background.keep(&kept, true).unwrap();
    assert!(
        view.at_session_end()
            .unwrap()
            .starts_with("Kept running: setsid")
    );
    let ended = background.get(&other).unwrap().at_session_end().unwrap();
    assert!(
        ended.starts_with("Ended with the session: sleep 300"),
        "{ended}"
    );
    fixture.session.shut_down().await;
    assert!(
        background
            .keep(&other, true)
            .unwrap_err()
            .to_string()
            .contains("it is over")
    );
    std::fs::write(go, "").unwrap();
    until("it goes on", || done.exists()).await;
    let file = view.output_file;
    until("its output is written", || {
        std::fs::read_to_string(&file).unwrap() == "started\nlast words\n"
    })
    .await;
    until("nothing is left", || {
        run_support::survivors(&fixture.mark).is_empty()
    })
    .await;
}
