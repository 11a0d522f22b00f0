//! Stable prefixes over long sessions, by the scripted provider's own cache.

use crate::support::{Place, wants_summary};
use lathe_scripted::{RecordedRequest, Reply, Scenario};
use serde_json::{Value, json};

/// A part of a request without cache markers, as text: the order of the fields counts.
fn bare(value: &Value) -> String {
    let mut text = value.to_string();
    for marker in [
        r#","cache_control":{"type":"ephemeral"}"#,
        r#","cache_control":{"ttl":"1h","type":"ephemeral"}"#,
        r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
    ] {
        text = text.replace(marker, "");
    }
    text
}

/// The first thing in which a request doesn't continue the one before.
fn broken(before: &RecordedRequest, after: &RecordedRequest) -> Option<String> {
    for part in ["model", "tools", "system", "thinking"] {
        if bare(&before.body[part]) != bare(&after.body[part]) {
            return Some(part.to_owned());
        }
    }
    let (old, new) = (before.messages(), after.messages());
    if new.len() < old.len() {
        return Some("shorter".to_owned());
    }
    for (index, (one, other)) in old.iter().zip(new).enumerate() {
        let (one, other) = (bare(one), bare(other));
        let grows = index + 1 == old.len() && other.starts_with(one.trim_end_matches("]}"));
        if one != other && !grows {
            return Some(format!("message {index}"));
        }
    }
    None
}

#[tokio::test]
async fn five_hundred_turns_through_compactions_are_read_from_the_cache() {
    let scenario = Scenario::new()
        .cache_minimum_tokens(0)
        .responder(|request| {
            if wants_summary(request) {
                return Reply::text("a summary of what was said");
            }
            let text = request.last_user_text();
            let asks = text.ends_with('7') && request.last_results().is_empty();
            if text.ends_with("number 3") && request.last_results().is_empty() {
                Reply::tool_use(
                    "TodoWrite",
                    json!({"todos": [{"content": "Wind the clock", "status": "pending", "activeForm": "Winding"}]}),
                )
            } else if asks {
                Reply::tool_use("Read", json!({"file_path": "notes.txt"}))
            } else {
                Reply::text("a short answer to it, of a few dozen words ".repeat(3))
            }
        });
    let place = Place::new(scenario, 40_000).await;
    std::fs::write(place.project().join("notes.txt"), "a note\n".repeat(20)).unwrap();
    std::fs::write(place.project().join("AGENTS.md"), "Mind the cuckoo.\n").unwrap();
    lathe_memory::AutoMemory::of(&place.config(), &place.project())
        .add_note("the person likes tabs")
        .unwrap();
    let mut talk = place.open().await;
    let mut last = None;
    for number in 0..500 {
        let result = talk
            .say(format!(
                "{} number {number}",
                "some words of a person ".repeat(10)
            ))
            .await;
        assert!(!result.is_error, "{result:?}");
        last = Some(result);
    }
    let seen = talk.finish().await;
    assert!(seen.compactions.len() >= 2, "{:?}", seen.compactions);
    assert_eq!(place.server.problems(), Vec::<String>::new());

    let requests = place.main_requests();
    // After all of it the model still knows what the page says it must: instructions, memory, the task
    // list, the files it works on, the user's last words before the summary.
    let end = requests.last().unwrap();
    let (system, messages) = (
        end.system_text(),
        Value::from(end.messages().to_vec()).to_string(),
    );
    assert!(
        system.contains("Mind the cuckoo.") && system.contains("the person likes tabs"),
        "{system}\n{messages}"
    );
    for kept in [
        "Wind the clock",
        "notes.txt as it is now",
        "verbatim",
        "number 499",
    ] {
        assert!(messages.contains(kept), "{kept:?} is lost");
    }
    let breaks: Vec<String> = requests
        .windows(2)
        .filter_map(|pair| broken(&pair[0], &pair[1]))
        .collect();
    assert_eq!(breaks.len(), seen.compactions.len(), "{breaks:?}");
    // The user was not told of breaks that are to be expected.
    let told = seen
        .notices
        .iter()
        .filter(|(_, text)| text.contains("cache"));
    assert_eq!(told.count(), 0, "{:?}", seen.notices);

    let usage = &last.unwrap().model_usage["house"];
    let all =
        usage.cache_read_input_tokens + usage.cache_creation_input_tokens + usage.input_tokens;
    assert!(
        usage.cache_read_input_tokens * 100 >= all * 97,
        "{} of {all} were read from the cache",
        usage.cache_read_input_tokens
    );
}

#[tokio::test]
async fn at_most_four_markers_go_out_and_live_an_hour_where_asked() {
    let mut place = Place::new(
        Scenario::new()
            .reply(Reply::text("a"))
            .reply(Reply::text("b")),
        200_000,
    )
    .await;
    place
        .variables
        .push(("LATHE_PROMPT_CACHE".to_owned(), "1h".to_owned()));
    let mut talk = place.open().await;
    talk.say("one").await;
    talk.say("two").await;
    talk.finish().await;
    place.server.finish();
    let body = place
        .server
        .message_requests()
        .pop()
        .unwrap()
        .body
        .to_string();
    let markers = body.matches(r#""cache_control""#).count();
    assert_eq!(markers, 4);
    assert_eq!(body.matches(r#""ttl":"1h""#).count(), markers);
}

#[tokio::test]
async fn a_request_with_everything_on_is_small() {
    let place = Place::new(Scenario::new().reply(Reply::text("a")), 200_000).await;
    // The user in the terminal, who has instructions, a memory, and lines for commits.
    std::fs::write(place.project().join("AGENTS.md"), "Use tabs.\n".repeat(20)).unwrap();
    lathe_memory::AutoMemory::of(&place.config(), &place.project())
        .add_note("the person likes tabs")
        .unwrap();
    let mut options = place.options();
    options.interactive = true;
    options.permissions.answerer = lathe_engine::Answerer::Face;
    options.tools.output_schema = Some(json!({"type": "object"}));
    let mut talk = place.open_with(options).await;
    let offered = talk.session.context().tool_names();
    talk.say("hi").await;
    talk.finish().await;
    let request = &place.server.message_requests()[0];
    let sent = request.tool_names();
    // What is offered is sent, or named where it can be loaded: nothing is small because it was left out.
    let tools = request.body["tools"].as_array().unwrap();
    let search = tools.iter().find(|tool| tool["name"] == "ToolSearch");
    let loadable = search.map_or("", |tool| tool["description"].as_str().unwrap());
    for name in &offered {
        let there = sent.contains(&name.as_str()) || loadable.contains(name.as_str());
        assert!(there, "{name} is not in {sent:?}");
    }
    for name in [
        "Agent",
        "AskUserQuestion",
        "Bash",
        "Edit",
        "ExitPlanMode",
        "Grep",
        "Monitor",
        "Read",
        "Skill",
        "TaskOutput",
        "Write",
    ] {
        assert!(sent.contains(&name), "{name} is not in {sent:?}");
    }
    let size = request.raw_body.len();
    assert!(size <= 32 * 1024, "{size} bytes with {} tools", sent.len());
}

#[tokio::test]
async fn what_breaks_the_cache_is_named() {
    let place = Place::new(
        Scenario::new()
            .reply(Reply::text("a"))
            .reply(Reply::text("b")),
        200_000,
    )
    .await;
    let mut talk = place.open().await;
    talk.say("one").await;
    let switching = talk.session.model();
    let switching = switching.switch(Some("other-model"), lathe_engine::SwitchSource::Sdk);
    switching.await.unwrap();
    talk.say("two").await;
    let seen = talk.finish().await;
    assert!(
        seen.notices
            .iter()
            .any(|(_, text)| text.contains("the model changed")),
        "{:?}",
        seen.notices
    );
}
