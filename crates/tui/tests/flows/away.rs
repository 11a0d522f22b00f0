//! The summary for a user who comes back.

use super::{Stage, said};
use lathe_scripted::{Position, Reply, When};
use lathe_testkit::Terminal;
use serde_json::json;
use std::time::Duration;

const TOLD: &str = "While you were away:";

/// A turn that ends when the test says so, and what comes after it.
fn stage(after: impl IntoIterator<Item = Reply>) -> Stage {
    let turn = Reply::text("it is mended").gate(Position::MidBlock(0), "more");
    let mut stage = Stage::replies(std::iter::once(turn).chain(after));
    stage.home = stage.home.variable("LATHE_AWAY_SUMMARY_SECONDS", "0");
    stage
}

fn summary(text: &str) -> Reply {
    Reply::text(text).when(When::system_contains("The user was away"))
}

/// The focus goes, and that was taken note of: what the terminal answers next is heard after it.
fn look_elsewhere(terminal: &Terminal) {
    terminal.send("\x1b[O\x1b[?1u");
    terminal.wait_for_bytes("\x1b[>1u");
}

/// Begins a turn, looks elsewhere until it is done, and comes back.
fn be_away(stage: &Stage, terminal: &Terminal) {
    terminal.say("mend it");
    terminal.wait_for("esc to interrupt");
    look_elsewhere(terminal);
    stage.server.gate("more").release();
    terminal.wait_for("● it is mended");
    terminal.wait_gone("esc to interrupt");
    terminal.send("\x1b[I");
}

fn questions(stage: &Stage) -> usize {
    let requests = stage.server.message_requests();
    let asks = |request: &&lathe_scripted::RecordedRequest| {
        request.system_text().contains("The user was away")
    };
    requests.iter().filter(asks).count()
}

#[test]
fn a_returning_user_gets_one_summary() {
    let stage = stage([
        summary("The clock was mended.\n\nNothing waits."),
        Reply::text("well then"),
    ]);
    let terminal = stage.open();
    be_away(&stage, &terminal);
    terminal.wait_for("While you were away: The clock was mended. Nothing waits.");
    assert!(
        stage.server.message_requests()[1]
            .body
            .to_string()
            .contains("mend it")
    );
    // Nothing continued since.
    terminal.send("\x1b[O\x1b[I");
    terminal.say("and now");
    terminal.wait_for("● well then");
    terminal.wait_gone("esc to interrupt");
    assert_eq!(said(&stage, 2), "and now");
    assert_eq!(questions(&stage), 1);
    assert_eq!(terminal.everything().matches(TOLD).count(), 1);
    // It is kept in the transcript, for those who read it later.
    let transcript = lathe_testkit::transcript::of_home(&stage.home).remove(0);
    let kept: Vec<serde_json::Value> = std::fs::read_to_string(transcript)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|record: &serde_json::Value| record["subtype"] == "away_summary")
        .collect();
    assert_eq!(kept.len(), 1);
    let text = kept[0]["content"].as_str().unwrap();
    assert!(text.contains("The clock was mended."), "{text}");
    stage.server.finish();
}

#[test]
fn a_user_who_returns_during_a_turn_gets_its_progress() {
    let stage = stage([summary("The clock is being mended.")]);
    let terminal = stage.open();
    terminal.say("mend it");
    terminal.wait_for("esc to interrupt");
    look_elsewhere(&terminal);
    terminal.send("\x1b[I");
    terminal.wait_for("While you were away: The clock is being mended.");
    terminal.wait_for("esc to interrupt");
    stage.server.gate("more").release();
    terminal.wait_for("● it is mended");
    terminal.wait_gone("esc to interrupt");
    stage.server.finish();
}

#[test]
fn a_user_who_continues_at_once_gets_no_summary() {
    let stage = stage([
        summary("Too late.").gate(Position::MidBlock(0), "late"),
        Reply::text("next is done"),
        Reply::text("last is done"),
    ]);
    let terminal = stage.open();
    be_away(&stage, &terminal);
    assert!(
        stage
            .server
            .wait_for_gate("late", 1, Duration::from_secs(60))
    );
    terminal.say("next");
    terminal.wait_for("● next is done");
    terminal.wait_gone("esc to interrupt");
    stage.server.gate("late").release();
    terminal.say("last");
    terminal.wait_for("● last is done");
    terminal.wait_gone("esc to interrupt");
    assert!(!terminal.everything().contains(TOLD));
}

#[test]
fn no_summary_is_requested_if_settings_disable_it() {
    let stage = stage([Reply::text("next is done")]);
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"awaySummary": false}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    be_away(&stage, &terminal);
    terminal.say("next");
    terminal.wait_for("● next is done");
    terminal.wait_gone("esc to interrupt");
    assert_eq!(questions(&stage), 0);
    assert!(!terminal.everything().contains(TOLD));
    stage.server.finish();
}
