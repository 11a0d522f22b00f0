//! Making room: by itself, by hand, in part; and what comes back after it.

use crate::support::{Place, chatter, wants_summary};
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::record::Record;
use lathe_scripted::{Reply, Scenario, When};
use serde_json::json;

#[tokio::test]
async fn a_conversation_that_fills_the_window_is_summed_up_before_it_is_full() {
    let place = Place::new(chatter(400), 40_000).await;
    let mut talk = place.open().await;
    let mut last = None;
    for number in 0..60 {
        let result = talk
            .say(format!("prompt {number} {}", "word ".repeat(200)))
            .await;
        assert!(!result.is_error, "{result:?}");
        last = Some(result);
    }
    let usage = talk.session.context().usage();
    assert!(usage.counted && usage.messages > 0);
    assert_eq!(usage.window, 40_000);
    assert!(usage.used() < usage.thresholds.compact_at, "{usage:?}");
    let parts: u64 = usage.parts().iter().map(|part| part.tokens).sum();
    assert_eq!(parts, usage.window);
    let seen = talk.finish().await;
    assert!(seen.compactions.len() >= 2, "{seen:?}");
    for (before, after) in &seen.compactions {
        assert!(after * 5 <= before * 4, "{before} → {after}");
    }
    let warnings = seen
        .notices
        .iter()
        .filter(|(_, text)| text.contains("% of"));
    assert!(warnings.count() >= 1, "{:?}", seen.notices);
    // Every request fits the window.
    for request in place.server.message_requests() {
        assert!(request.raw_body.len() / 4 < 40_000);
    }
    assert!(last.unwrap().total_cost_usd > 0.0);
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn the_summary_is_asked_for_with_the_same_prefix_and_nothing_of_the_scratch_stays() {
    let place = Place::new(chatter(30), 200_000).await;
    let mut talk = place.open().await;
    talk.say("the first words").await;
    talk.session.send(Op::Compact {
        instructions: Some("mind the tests".into()),
    });
    assert!(talk.compacted().await);
    talk.say("the second words").await;
    let seen = talk.finish().await;
    assert_eq!(seen.compactions.len(), 1);
    let requests = place.server.message_requests();
    assert_eq!(requests.len(), 3);
    let (first, summary, after) = (&requests[0], &requests[1], &requests[2]);
    assert_eq!(first.body["system"], summary.body["system"]);
    assert_eq!(first.body["tools"], summary.body["tools"]);
    assert!(summary.last_user_text().contains("mind the tests"));
    let text = after.messages()[0].to_string();
    assert!(text.contains("everything so far") && text.contains("the first words"));
    assert!(!text.contains("scratch"));
    assert!(text.contains("the second words"));
}

#[tokio::test]
async fn what_the_model_works_on_comes_back_after_a_summary() {
    let scenario = Scenario::new()
        .reply(
            Reply::tool_use("Read", json!({"file_path": "notes.txt"}))
                .with_tool_use(
                    "TodoWrite",
                    json!({"todos": [
                        {"content": "Find the fault", "status": "completed", "activeForm": "Finding"},
                        {"content": "Mend the fault", "status": "in_progress", "activeForm": "Mending"}
                    ]}),
                )
                .with_tool_use(
                    "Bash",
                    json!({"command": "sleep 600", "run_in_background": true}),
                ),
        )
        .reply(Reply::text("looked"))
        .reply(
            Reply::text("<summary>all that was</summary>")
                .when(When::last_user_text_contains("replaced by your summary")),
        )
        .reply(Reply::text("on I go").when(When::last_user_text_contains("go on")));
    let mut place = Place::new(scenario, 200_000).await;
    let mark = place.project().join("hook-ran");
    place.settings = json!({"hooks": {"SessionStart": [{"matcher": "compact", "hooks": [
        {"type": "command", "command": format!("touch {}; echo from the hook", mark.display())}
    ]}]}});
    std::fs::write(place.project().join("notes.txt"), "a very special note\n").unwrap();
    let mut talk = place.open().await;
    talk.say("look at the notes").await;
    std::fs::write(place.project().join("AGENTS.md"), "Be kind to notes.\n").unwrap();
    talk.session.send(Op::Compact { instructions: None });
    assert!(talk.compacted().await);
    talk.say("please go on").await;
    talk.finish().await;
    place.server.finish();
    let request = place.server.message_requests().pop().unwrap();
    let text = serde_json::Value::from(request.messages().to_vec()).to_string();
    for wanted in [
        "all that was",
        "look at the notes",
        "a very special note",
        "[now] Mend the fault",
        "sleep 600",
        "from the hook",
        "please go on",
    ] {
        assert!(text.contains(wanted), "{wanted:?} is lost: {text}");
    }
    assert!(request.system_text().contains("Be kind to notes."));
    assert!(mark.exists());
}

#[tokio::test]
async fn what_is_typed_during_a_compaction_is_answered_after_it() {
    let scenario = Scenario::new()
        .reply(Reply::text("one"))
        .reply(
            Reply::text("summary")
                .when(When::last_user_text_contains("replaced by your summary"))
                .gate(lathe_scripted::Position::MidBlock(0), "summary"),
        )
        .reply(Reply::text("two"))
        .reply(Reply::text("three"));
    let place = Place::new(scenario, 200_000).await;
    let mut talk = place.open().await;
    talk.say("first").await;
    talk.session.send(Op::Compact { instructions: None });
    place.server.wait_for_requests(2).await;
    talk.send(Prompt::new("typed meanwhile".to_owned()));
    place.server.gate("summary").release();
    let result = talk.result().await;
    assert_eq!(result.text, "two");
    assert_eq!(talk.seen.compactions.len(), 1);
    talk.say("third").await;
    talk.finish().await;
    let request = place.server.message_requests().pop().unwrap();
    let text = serde_json::Value::from(request.messages().to_vec()).to_string();
    assert!(text.contains("typed meanwhile") && text.contains("third"));
}

#[tokio::test]
async fn a_compaction_asked_for_during_a_turn_happens_after_it() {
    let scenario = Scenario::new()
        .reply(Reply::text("slow answer").gate(lathe_scripted::Position::MidBlock(0), "answer"))
        .reply(
            Reply::text("summary").when(When::last_user_text_contains("replaced by your summary")),
        );
    let place = Place::new(scenario, 200_000).await;
    let mut talk = place.open().await;
    talk.send(Prompt::new("go".to_owned()));
    place.server.wait_for_requests(1).await;
    talk.session.send(Op::Compact { instructions: None });
    // The op is read before the turn may end.
    while !matches!(
        talk.event().await,
        lathe_protocol::event::Event::Notice { .. }
    ) {}
    place.server.gate("answer").release();
    talk.result().await;
    assert!(talk.compacted().await);
    talk.finish().await;
    place.server.finish();
}

#[tokio::test]
async fn a_compacted_session_goes_on_after_a_resume_with_the_same_bytes() {
    let place = Place::new(chatter(50), 200_000).await;
    let mut talk = place.open().await;
    talk.say("before the boundary").await;
    talk.session.send(Op::Compact { instructions: None });
    assert!(talk.compacted().await);
    talk.say("after the boundary").await;
    talk.finish().await;
    let mut talk = place.resume().await;
    talk.say("after the resume").await;
    let usage = talk.session.context().usage();
    assert!(usage.counted);
    talk.finish().await;
    let requests = place.main_requests();
    let (live, resumed) = (&requests[1], &requests[2]);
    let plain = |request: &lathe_scripted::RecordedRequest| {
        serde_json::Value::from(request.messages().to_vec())
            .to_string()
            .replace(r#","cache_control":{"type":"ephemeral"}"#, "")
    };
    let before = plain(live);
    let before = before
        .trim_end_matches(']')
        .trim_end_matches('}')
        .to_owned();
    let cut = before.trim_end_matches(']');
    assert!(plain(resumed).starts_with(cut), "{cut}\n{}", plain(resumed));
    assert!(!plain(resumed).contains(r#""before the boundary"},{"#));
}

#[tokio::test]
async fn old_results_are_cleared_in_one_step_and_stay_cleared_after_a_resume() {
    let scenario = Scenario::new().responder(|request| {
        if wants_summary(request) {
            return Reply::text("summary");
        }
        let text = request.last_user_text();
        if text.contains("read") && request.last_results().is_empty() {
            let number = text.rsplit(' ').next().unwrap_or_default().to_owned();
            Reply::tool_use("Read", json!({"file_path": format!("file{number}.txt")}))
        } else {
            Reply::text("read it")
        }
    });
    let place = Place::new(scenario, 120_000).await;
    for number in 0..14 {
        std::fs::write(
            place.project().join(format!("file{number}.txt")),
            format!("contents of file {number} words words words\n").repeat(900),
        )
        .unwrap();
    }
    let mut talk = place.open().await;
    for number in 0..14 {
        talk.say(format!("read {number}")).await;
    }
    let seen = talk.finish().await;
    assert_eq!(seen.compacting, 0, "clearing results was enough: {seen:?}");
    let requests = place.main_requests();
    let marker = "cleared to make room";
    let cleared: Vec<usize> = requests
        .iter()
        .map(|request| {
            let text = serde_json::Value::from(request.messages().to_vec()).to_string();
            text.matches(marker).count()
        })
        .collect();
    let most = *cleared.last().unwrap();
    assert!(most >= 3, "{cleared:?}");
    // Not every turn: once, perhaps twice.
    let steps = cleared.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(steps <= 2, "{cleared:?}");
    let mut talk = place.resume().await;
    talk.say("and now").await;
    talk.finish().await;
    let resumed = place.main_requests().pop().unwrap();
    let text = serde_json::Value::from(resumed.messages().to_vec()).to_string();
    assert_eq!(text.matches(marker).count(), most);
}

#[tokio::test]
async fn a_conversation_is_summed_up_up_to_a_chosen_message() {
    let place = Place::new(chatter(10), 200_000).await;
    let mut talk = place.open().await;
    talk.say("ancient words").await;
    let chosen = Prompt::new("middle words".to_owned());
    let id = chosen.uuid;
    talk.send(chosen);
    talk.result().await;
    talk.say("recent words").await;
    talk.session.send(Op::CompactUpTo {
        record: id,
        instructions: None,
    });
    assert!(talk.compacted().await);
    talk.say("newest words").await;
    talk.finish().await;
    let last = place.main_requests().pop().unwrap();
    let text = serde_json::Value::from(last.messages().to_vec()).to_string();
    assert!(text.contains("everything so far") && text.contains("recent words"));
    assert!(!text.contains("ancient words") && !text.contains("middle words"));
    // The transcript has the whole history still, and what was kept once more.
    let mut talk = place.resume().await;
    talk.say("after the resume").await;
    talk.finish().await;
    let resumed = place.main_requests().pop().unwrap();
    let text = serde_json::Value::from(resumed.messages().to_vec()).to_string();
    assert!(text.contains("recent words") && text.contains("newest words"));
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn the_boundary_is_a_record_that_says_what_was_there() {
    let place = Place::new(chatter(10), 200_000).await;
    let mut talk = place.open().await;
    talk.say("hello").await;
    let transcript = talk.session.transcript().to_owned();
    talk.session.send(Op::Compact { instructions: None });
    assert!(talk.compacted().await);
    talk.finish().await;
    let loaded = lathe_session::load(&transcript).unwrap();
    let boundary = loaded
        .messages()
        .find(|record| record.is_compact_boundary())
        .unwrap()
        .clone();
    assert_eq!(boundary.extra["compactMetadata"]["trigger"], "manual");
    assert!(
        boundary.extra["compactMetadata"]["preTokens"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert!(boundary.logical_parent_uuid.is_some());
    let history = loaded.history();
    assert!(history.iter().any(|record| matches!(&**record,
        Record::Message(message) if message.is_prompt())));
}

/// A model that works on and on, and whose provider counts a full window whatever was said.
fn always_full(rounds: usize) -> Scenario {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Scenario::new().responder(move |request| {
        if wants_summary(request) {
            return Reply::text("<summary>short</summary>").usage("input_tokens", 39_000);
        }
        let number = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let reply = if number < rounds {
            Reply::tool_use("Bash", json!({"command": format!("echo {number}")}))
        } else {
            Reply::text("done")
        };
        reply.usage("input_tokens", 39_000)
    })
}

#[tokio::test]
async fn compaction_ends_when_the_provider_counts_a_full_window_after_each_summary() {
    let place = Place::new(always_full(12), 40_000).await;
    let mut talk = place.open().await;
    let result = talk.say(format!("work {}", "word ".repeat(400))).await;
    assert_eq!(result.text, "done", "{result:?}");
    let result = talk.say("and on").await;
    assert!(!result.is_error, "{result:?}");
    let seen = talk.finish().await;
    assert_eq!(place.summary_requests(), 3, "{seen:?}");
    let told = |text: &str| text.contains("no progress 3 times in a row");
    let notices = seen.notices.iter().filter(|(_, text)| told(text)).count();
    assert_eq!(notices, 1, "{seen:?}");
}

#[tokio::test]
async fn long_last_words_survive_a_summary_whole() {
    let place = Place::new(chatter(30), 60_000).await;
    let mut talk = place.open().await;
    talk.say("the first words").await;
    let long = format!("begin {} the very end", "of a long order ".repeat(3_000));
    talk.say(long.clone()).await;
    talk.session.send(Op::Compact { instructions: None });
    assert!(talk.compacted().await);
    talk.say("go on").await;
    talk.finish().await;
    let request = place.main_requests().pop().unwrap();
    let text = request.messages()[0].to_string();
    assert!(text.contains(&long), "the words were cut");
}

#[tokio::test]
async fn a_prompt_that_the_provider_finds_too_long_is_refused_and_not_cut() {
    let scenario = Scenario::new().responder(|request| {
        if wants_summary(request) {
            Reply::text("<summary>short</summary>")
        } else {
            Reply::error_with(
                400,
                "invalid_request_error",
                "prompt is too long: 41000 tokens > 40000 maximum",
            )
        }
    });
    let place = Place::new(scenario, 40_000).await;
    let mut talk = place.open().await;
    let result = talk.say("many words ".repeat(14_000)).await;
    assert!(result.is_error, "{result:?}");
    assert!(result.text.contains("too long"), "{result:?}");
    talk.finish().await;
    assert_eq!(place.summary_requests(), 0);
}

#[tokio::test]
async fn a_summary_does_not_hide_what_of_the_tasks_budget_is_used() {
    let place = Place::new(chatter(300), 200_000).await;
    let mut options = place.options();
    options.model.task_budget = Some(50_000);
    let mut talk = place.open_with(options).await;
    let mut left = Vec::new();
    for round in 0..2 {
        talk.say(format!("round {round} {}", "word ".repeat(2_000)))
            .await;
        talk.session.send(Op::Compact { instructions: None });
        assert!(talk.compacted().await);
        talk.say(format!("after summary {round}")).await;
        let last = place.main_requests().pop().unwrap();
        let budget = last.body["output_config"]["task_budget"].clone();
        assert_eq!(budget["total"], 50_000, "{budget}");
        left.push(budget["remaining"].as_u64().unwrap());
    }
    let first = &place.main_requests()[0].body["output_config"]["task_budget"];
    assert_eq!(
        first["remaining"],
        json!(null),
        "before a summary the API counts itself"
    );
    assert!((2_000..50_000 - 2_000).contains(&left[0]), "{left:?}");
    assert!(
        left[1] + 2_000 <= left[0],
        "each summary takes its own part: {left:?}"
    );
    talk.finish().await;
    assert_eq!(place.server.problems(), Vec::<String>::new());
}
