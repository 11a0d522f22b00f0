//! Goals, token budgets, budgets over all sessions, and waiting for limits.

use crate::support::{Place, Talk, whole};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use lathe_engine::{Answerer, ScheduleOptions, SessionClock};
use lathe_protocol::event::{Event, TerminalReason};
use lathe_protocol::op::Op;
use lathe_scripted::{Reply, Scenario};
use lathe_tools::ask_user_question;
use lathe_tools::schedule::Clock;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// A model that works, and a judge that gives these answers in turn and then the last one for ever.
fn judged(answers: &'static [&'static str]) -> Scenario {
    let asked = AtomicUsize::new(0);
    Scenario::new().responder(move |request| {
        if request.body["system"]
            .to_string()
            .contains("whether a goal")
        {
            let at = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            return Reply::text(answers[at]);
        }
        Reply::text("worked")
    })
}

fn turns(place: &Place) -> usize {
    let requests = place.server.message_requests();
    let own = requests.iter().filter(|request| {
        !request.body["system"]
            .to_string()
            .contains("whether a goal")
    });
    own.count()
}

#[tokio::test]
async fn a_turn_continues_with_the_reason_until_the_goal_is_reached() {
    const NO: &str = r#"{"ok": false, "reason": "the second test fails"}"#;
    let place = Place::new(judged(&[NO, NO, r#"{"ok": true}"#])).await;
    let mut talk = place.open().await;
    talk.session.goal().set("all tests pass").unwrap();
    talk.say("go").await;
    assert_eq!(turns(&place), 3);
    let last = place.server.message_requests();
    let told = last
        .iter()
        .rev()
        .find(|it| whole(it).contains("the second test fails"));
    assert!(whole(told.unwrap()).contains("all tests pass"));
    assert_eq!(talk.session.goal().current(), None);
    talk.say("and now").await;
    assert_eq!(turns(&place), 4, "a goal that is reached is over");
    talk.finish().await;
}

#[tokio::test]
async fn a_command_judges_by_its_exit_code_and_a_resumed_session_keeps_its_goal() {
    let scenario = Scenario::new().responder(|request| {
        if request.last_results().is_empty() && request.last_user_text().contains("finish it") {
            return Reply::tool_use("Bash", json!({"command": "touch done"}));
        }
        Reply::text("worked")
    });
    let mut place = Place::new(scenario).await;
    place.settings = json!({"goalMaxRounds": 2});
    let mut talk = place.open().await;
    talk.session
        .goal()
        .set("!echo looked; test -e done")
        .unwrap();
    let result = talk.say("begin").await;
    assert!(!result.is_error);
    assert_eq!(
        place.server.message_requests().len(),
        3,
        "two rounds and no more"
    );
    let told = whole(place.server.message_requests().last().unwrap());
    assert!(
        told.contains("exit code 1") && told.contains("looked"),
        "{told}"
    );
    talk.finish().await;
    let mut talk = place.resume().await;
    let goal = talk.session.goal().current().unwrap();
    assert_eq!(goal.command(), Some("echo looked; test -e done"));
    assert!(goal.missing.unwrap().contains("exit code 1"));
    talk.say("finish it").await;
    assert_eq!(talk.session.goal().current(), None);
    talk.finish().await;
    let talk = place.resume().await;
    assert_eq!(talk.session.goal().current(), None);
    talk.finish().await;
}

#[tokio::test]
async fn a_goal_that_can_not_be_reached_or_judged_ends_the_turn_and_stays() {
    const STOP: &str = r#"{"ok": false, "stop": true, "reason": "there is no key"}"#;
    for answers in [&[STOP][..], &["no idea"][..]] {
        let place = Place::new(judged(if answers == [STOP] {
            &[STOP]
        } else {
            &["no idea"]
        }))
        .await;
        let mut talk = place.open().await;
        talk.session.goal().set("deployed").unwrap();
        talk.say("go").await;
        assert_eq!(turns(&place), 1);
        assert!(talk.session.goal().current().is_some());
        assert!(talk.session.goal().clear() && !talk.session.goal().clear());
        talk.finish().await;
    }
}

#[tokio::test]
async fn a_goal_respects_the_limit_of_turns() {
    let place = Place::new(judged(&[r#"{"ok": false, "reason": "no"}"#])).await;
    let mut options = place.options();
    options.limits.max_turns = Some(3);
    options.limits.goal = Some("never reached".to_owned());
    let mut talk = place.open_with(options).await;
    let result = talk.say("go").await;
    assert_eq!(result.terminal_reason, TerminalReason::MaxTurns);
    assert_eq!(turns(&place), 3);
    talk.finish().await;
}

#[tokio::test]
async fn tokens_that_are_to_be_used_keep_the_model_at_work() {
    // 800 tokens an answer at first, then next to nothing.
    let asked = AtomicUsize::new(0);
    let scenario = Scenario::new().responder(move |_| {
        let words = if asked.fetch_add(1, Ordering::SeqCst) < 2 {
            3_000
        } else {
            1
        };
        Reply::text("word ".repeat(words))
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.say("+500k look at everything").await;
    let requests = place.server.message_requests();
    // Two answers of substance, three continuations with little, and the last of these ends it.
    assert_eq!(requests.len(), 5, "{}", whole(requests.last().unwrap()));
    assert!(whole(&requests[1]).contains("of the 500000 output tokens"));
    talk.say("just this").await;
    assert_eq!(place.server.message_requests().len(), 6);
    talk.finish().await;
}

#[tokio::test]
async fn a_budget_of_all_sessions_warns_and_then_ends_turns_in_each_of_them() {
    let scenario = Scenario::new().responder(|_| Reply::text("word ".repeat(50)));
    let mut place = Place::new(scenario).await;
    place.settings = json!({"budget": {"dayUsd": 0.15, "monthUsd": 5}});
    let mut one = place.open().await;
    let mut other = place.open().await;
    let mut warned = 0;
    let mut ended = None;
    for _ in 0..200 {
        for talk in [&mut one, &mut other] {
            talk.send("go on");
            loop {
                match talk.event().await {
                    Event::Notice { text, .. } if text.contains("for today (budget") => {
                        warned += 1;
                    }
                    Event::TurnFinished(result) => {
                        if result.is_error {
                            ended = Some(result);
                        }
                        break;
                    }
                    _ => {}
                }
            }
        }
        if ended.is_some() {
            break;
        }
    }
    let ended = ended.expect("the budget never ended");
    assert_eq!(ended.terminal_reason, TerminalReason::BudgetExhausted);
    assert!(
        ended.errors[0].contains("budget for today is used up"),
        "{ended:?}"
    );
    assert!(warned >= 1);
    for talk in [&mut one, &mut other] {
        assert!(talk.say("once more").await.is_error, "it counts for both");
    }
    one.finish().await;
    other.finish().await;
    // A session that can't count doesn't spend.
    std::fs::write(place.config().join("spending.json"), "{").unwrap();
    let mut talk = place.open().await;
    let result = talk.say("hello").await;
    assert!(
        result.errors[0].contains("delete it to start again from zero"),
        "{result:?}"
    );
    talk.finish().await;
}

/// A clock that a test sets.
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

async fn limited(place: &Place, interactive: bool) -> (Talk, Arc<Hands>) {
    let start = "2026-03-02T08:00:30Z".parse().unwrap();
    let clock = Arc::new(Hands(watch::channel(start).0));
    let mut options = place.options();
    options.schedule = ScheduleOptions {
        fires: true,
        clock: Some(SessionClock(clock.clone())),
    };
    options.interactive = interactive;
    if interactive {
        options.permissions.answerer = Answerer::Face;
    }
    (place.open_with(options).await, clock)
}

/// A model whose provider refuses a number of times.
fn refusing(times: usize) -> Scenario {
    let asked = AtomicUsize::new(0);
    Scenario::new().responder(move |_| {
        if asked.fetch_add(1, Ordering::SeqCst) < times {
            return Reply::error(429).header("retry-after", "7200");
        }
        Reply::text("at last")
    })
}

#[tokio::test]
async fn a_session_that_nobody_watches_waits_for_a_limit_to_end() {
    let place = Place::new(refusing(1)).await;
    let (mut talk, clock) = limited(&place, false).await;
    talk.send("go");
    let delay = loop {
        if let Event::Retrying { delay, .. } = talk.event().await {
            break delay;
        }
    };
    assert!(delay.as_secs() >= 7_200);
    assert_eq!(place.server.message_requests().len(), 1);
    clock
        .0
        .send_modify(|now| *now += SignedDuration::from_hours(3));
    assert_eq!(talk.result().await.text, "at last");
    talk.finish().await;
}

#[tokio::test]
async fn the_user_is_asked_whether_to_wait_and_may_stop_waiting() {
    let place = Place::new(refusing(2)).await;
    let (mut talk, clock) = limited(&place, true).await;
    for (answer, waits) in [("Stop", false), ("Wait", true)] {
        talk.send("go");
        let question = talk.question().await;
        let asked = ask_user_question::questions(&question.input).unwrap();
        assert!(asked[0].question.contains("2 h"), "{asked:?}");
        let chosen = [(asked[0].question.clone(), answer.to_owned())];
        talk.reply(
            &question,
            ask_user_question::answer(&question.input, &chosen),
        );
        if waits {
            while !matches!(talk.event().await, Event::Retrying { .. }) {}
            clock
                .0
                .send_modify(|now| *now += SignedDuration::from_hours(3));
            assert_eq!(talk.result().await.text, "at last");
        } else {
            assert!(talk.result().await.is_error);
        }
    }
    talk.finish().await;
}

#[tokio::test]
async fn settings_may_say_that_no_limit_is_waited_for() {
    let mut place = Place::new(refusing(1)).await;
    place.settings = json!({"waitForLimits": "never"});
    let (mut talk, _) = limited(&place, false).await;
    assert!(talk.say("go").await.is_error);
    talk.finish().await;
    let mut place = Place::new(refusing(1)).await;
    place.settings = json!({"waitForLimits": "always"});
    let (mut talk, _) = limited(&place, true).await;
    talk.send("go");
    while !matches!(talk.event().await, Event::Retrying { .. }) {}
    talk.session.send(Op::Interrupt { drop_queued: false });
    assert!(talk.result().await.is_error, "the wait can be ended");
    talk.finish().await;
}
