//! Prompts that come by themselves, on a clock that the test sets.

use crate::support::{Place, Talk, whole};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use lathe_engine::{ScheduleOptions, SessionClock, SessionOptions};
use lathe_protocol::permission::PermissionMode;
use lathe_scripted::{Position, Reply, Scenario};
use lathe_tools::schedule::Clock;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

struct Hands(watch::Sender<Timestamp>);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn until(&self, moment: Timestamp) -> BoxFuture<'_, ()> {
        let mut now = self.0.subscribe();
        Box::pin(async move {
            let _ = now.wait_for(|now| *now >= moment).await;
        })
    }
}

impl Hands {
    fn new() -> Arc<Self> {
        let start = "2026-03-02T08:00:30Z".parse().unwrap();
        Arc::new(Self(watch::channel(start).0))
    }

    fn advance(&self, minutes: i64) {
        self.0
            .send_modify(|now| *now += SignedDuration::from_mins(minutes));
    }
}

fn timed(mut options: SessionOptions, clock: &Arc<Hands>) -> SessionOptions {
    options.schedule = ScheduleOptions {
        fires: true,
        clock: Some(SessionClock(clock.clone())),
    };
    options
}

/// A model that calls a tool when it is asked with the tool's name, and answers everything else.
fn caller(calls: Vec<(&'static str, &'static str, Value)>) -> Scenario {
    Scenario::new().responder(move |request| {
        if !request.last_results().is_empty() {
            return Reply::text(request.last_tool_result());
        }
        let text = request.last_user_text();
        let call = calls.iter().find(|(words, _, _)| text.starts_with(words));
        match call {
            Some((_, tool, input)) => Reply::tool_use(*tool, input.clone()),
            None => Reply::text(format!("heard {}", text.lines().next().unwrap_or_default())),
        }
    })
}

fn count(place: &Place, words: &str) -> usize {
    let requests = place.server.message_requests();
    let asked = requests
        .iter()
        .filter(|request| request.last_user_text().starts_with(words));
    asked.count()
}

async fn queued(talk: &Talk) {
    while talk.session.history().queued().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_job_fires_between_turns_and_what_it_missed_counts_as_one() {
    let job = json!({"cron": "*/5 * * * *", "prompt": "look at the build"});
    let scenario = Scenario::new().responder(move |request| {
        let text = request.last_user_text();
        if text.starts_with("schedule") && request.last_results().is_empty() {
            Reply::tool_use("CronCreate", job.clone())
        } else if text.starts_with("work") && request.last_results().is_empty() {
            Reply::tool_use("Bash", json!({"command": "echo hi"}))
                .gate(Position::MidBlock(0), "work")
        } else {
            Reply::text("done")
        }
    });
    let mut place = Place::new(scenario).await;
    let log = place.project().join("stops");
    let command = format!("cat >> {0}; echo >> {0}", log.display());
    place.settings =
        json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}});
    let clock = Hands::new();
    let mut talk = place.open_with(timed(place.options(), &clock)).await;
    talk.say("schedule it").await;
    let listed = talk.session.tasks().schedule().list();
    assert_eq!(listed.len(), 1);
    let stop: Value = serde_json::from_str(
        std::fs::read_to_string(&log)
            .unwrap()
            .lines()
            .next()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(stop["session_crons"][0]["schedule"], "*/5 * * * *");
    talk.send("work");
    // The model is in the middle of its call while an hour passes.
    place.server.gate("work").wait_reached(1).await;
    clock.advance(60);
    queued(&talk).await;
    place.server.gate("work").release();
    let work = talk.result().await;
    assert!(work.origin.is_none(), "{:?}", work.origin);
    let fire = talk.result().await;
    assert_eq!(fire.origin.as_ref().unwrap()["kind"], "scheduled-task");
    assert_eq!(
        count(&place, "look at the build"),
        1,
        "twelve times were missed"
    );
    let requests = place.server.message_requests();
    let mentions = |at: usize| whole(&requests[at]).matches("look at the build").count();
    assert_eq!(mentions(3), mentions(2), "not within the turn");
    assert_eq!(mentions(4), mentions(3) + 1);
    clock.advance(6);
    talk.result().await;
    assert_eq!(count(&place, "look at the build"), 2);
    let transcript = std::fs::read_to_string(talk.session.transcript()).unwrap();
    talk.finish().await;
    assert_eq!(transcript.matches("\"scheduled_task_fire\"").count(), 2);
}

#[tokio::test]
async fn a_fire_never_has_more_rights_than_the_job_was_made_with() {
    let write = json!({"file_path": "made.txt", "content": "x"});
    let job = json!({"cron": "0 9 * * *", "prompt": "write it down", "recurring": false});
    let scenario = caller(vec![
        ("schedule", "CronCreate", job),
        ("write", "Write", write),
    ]);
    let place = Place::new(scenario).await;
    let clock = Hands::new();
    let mut options = timed(place.options(), &clock);
    options.permissions.mode = Some(PermissionMode::Default);
    let mut talk = place.open_with(options).await;
    talk.say("schedule it").await;
    let permissions = talk.session.permissions();
    permissions.set_mode(PermissionMode::AcceptEdits).unwrap();
    clock.advance(120);
    talk.result().await;
    assert!(!place.project().join("made.txt").exists());
    assert_eq!(
        talk.session.permissions().mode(),
        PermissionMode::AcceptEdits
    );
    talk.say("write it down").await;
    assert!(
        place.project().join("made.txt").exists(),
        "a person's own words have the mode of now"
    );
    talk.finish().await;
}

#[tokio::test]
async fn a_loop_paces_itself_until_it_stops() {
    let next = json!({"delaySeconds": 5, "reason": "the build runs", "prompt": "round two"});
    let scenario = caller(vec![
        ("begin", "ScheduleWakeup", next),
        ("round two", "ScheduleWakeup", json!({"stop": true})),
    ]);
    let place = Place::new(scenario).await;
    let clock = Hands::new();
    let mut talk = place.open_with(timed(place.options(), &clock)).await;
    let told = talk.say("begin").await;
    assert!(told.text.contains("in 60 s"), "{}", told.text);
    clock.advance(1);
    let told = talk.result().await;
    assert!(told.text.contains("The loop has ended"), "{}", told.text);
    assert!(talk.session.tasks().schedule().list().is_empty());
    talk.finish().await;
}

#[tokio::test]
async fn a_durable_job_waits_for_the_next_session_and_fires_there_once() {
    let job = json!({"cron": "0 9 * * *", "prompt": "look at the post", "recurring": false, "durable": true});
    let scenario = caller(vec![("schedule", "CronCreate", job)]);
    let place = Place::new(scenario).await;
    let clock = Hands::new();
    let mut refused = place.open_with(timed(place.options(), &clock)).await;
    let told = refused.say("schedule it").await;
    assert!(told.text.contains("trust"), "{}", told.text);
    refused.finish().await;
    let mut talk = place
        .open_with(timed(place.trusting_options(), &clock))
        .await;
    let told = talk.say("schedule it").await;
    assert!(told.text.contains("durable, next"), "{}", told.text);
    talk.finish().await;
    let file = place.project().join(".lathe/scheduled_tasks.json");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("look at the post")
    );
    clock.advance(24 * 60 * 3);
    let mut talk = place
        .open_with(timed(place.trusting_options(), &clock))
        .await;
    let fired = talk.result().await;
    assert_eq!(fired.text, "heard look at the post");
    talk.finish().await;
    let mut talk = place
        .open_with(timed(place.trusting_options(), &clock))
        .await;
    talk.say("hello").await;
    talk.finish().await;
    assert_eq!(count(&place, "look at the post"), 1);
    assert!(
        !std::fs::read_to_string(&file)
            .unwrap()
            .contains("look at the post")
    );
}

#[tokio::test]
async fn a_session_that_ends_with_its_answer_keeps_no_jobs_of_its_own() {
    let job = json!({"cron": "0 9 * * *", "prompt": "p"});
    let place = Place::new(caller(vec![("schedule", "CronCreate", job)])).await;
    let mut talk = place.open().await;
    let told = talk.say("schedule it").await;
    assert!(told.text.contains("ends with its answer"), "{}", told.text);
    talk.finish().await;
}
