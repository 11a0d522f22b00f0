//! `/loop`, `/loops` and jobs that outlive a process.

use super::Stage;
use lathe_scripted::{Position, Reply, Scenario};
use nix::sys::signal::Signal;
use serde_json::json;

fn asked(stage: &Stage, words: &str) -> usize {
    let requests = stage.server.message_requests();
    let asked = requests
        .iter()
        .filter(|request| request.last_user_text().starts_with(words));
    asked.count()
}

#[test]
fn a_loop_runs_at_once_and_is_listed_paused_and_deleted() {
    let stage = Stage::replies([
        Reply::text("the build is green"),
        Reply::text("one round done"),
    ]);
    let terminal = stage.open_sized(120, 30);
    terminal.say("/loop look at the build every 2 hours");
    terminal.wait_for("0 */2 * * *");
    terminal.wait_for("● the build is green");
    assert_eq!(asked(&stage, "look at the build"), 1);
    terminal.say("/loops ");
    terminal.wait_for("recurring, next");
    let screen = terminal.screen();
    let line = screen
        .lines()
        .find(|line| line.contains("recurring, next"))
        .unwrap();
    let id = line
        .split_whitespace()
        .find(|word| word.len() == 8)
        .unwrap()
        .to_owned();
    terminal.say(&format!("/loops pause {id}"));
    terminal.wait_for(&format!("{id} is paused"));
    terminal.say(&format!("/loops delete {id}"));
    terminal.wait_for(&format!("{id} is deleted"));
    terminal.say("/loops ");
    terminal.wait_for("No prompts are scheduled");
    terminal.say("/loops remove x");
    terminal.wait_for("pause, resume or delete");
    terminal.say("/loop keep an eye on it");
    terminal.wait_for("● one round done");
    let told = stage.server.message_requests()[1].last_user_text();
    assert!(told.contains("ScheduleWakeup"), "{told}");
}

#[test]
fn a_durable_job_is_not_fired_again_by_the_session_after_a_kill() {
    let scenario = Scenario::new()
        .reply(Reply::text("reading the post").gate(Position::MidBlock(0), "never"))
        .reply(Reply::text("hello to you"));
    let stage = Stage::new(scenario);
    let trusted = stage.home.run(["trust", "add"], "");
    assert_eq!(trusted.code(), Some(0), "{trusted:?}");
    let job = json!({"tasks": [{
        "id": "0a1b2c3d", "cron": "* * * * *", "prompt": "look at the post", "createdAt": 1_772_438_400_000_u64,
    }]});
    stage
        .home
        .write(".lathe/scheduled_tasks.json", job.to_string());
    let mut terminal = stage.open();
    terminal.wait_for("Scheduled prompt: look at the post");
    terminal.wait_for("esc to interrupt");
    terminal.signal(Signal::SIGKILL);
    terminal.ended();
    let terminal = stage.open();
    terminal.say("hello");
    terminal.wait_for("● hello to you");
    assert_eq!(asked(&stage, "look at the post"), 1);
    let file = stage.home.project().join(".lathe/scheduled_tasks.json");
    assert!(
        !std::fs::read_to_string(file)
            .unwrap()
            .contains("look at the post")
    );
}
