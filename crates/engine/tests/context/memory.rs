//! Memory between sessions: written without a question, and found beside the turns.

use crate::support::{Place, Talk};
use lathe_engine::SessionOptions;
use lathe_engine::ledger::{Part, Totals};
use lathe_memory::AutoMemory;
use lathe_protocol::event::Event;
use lathe_protocol::permission::PermissionMode;
use lathe_scripted::{Position, RecordedRequest, Reply, Scenario, Wait};
use serde_json::json;

fn looks_for_memory(request: &RecordedRequest) -> bool {
    request
        .last_user_text()
        .contains("later sessions should know")
}

fn finds(entries: &'static str) -> Scenario {
    Scenario::new().responder(move |request| {
        if looks_for_memory(request) {
            Reply::text(entries)
        } else {
            Reply::text("answer ".repeat(50))
        }
    })
}

const TABS: &str = r#"[{"name": "tabs", "type": "feedback", "description": "how they like it", "text": "They want tabs."}, {"name": "key", "text": "it is sk-ant-0123456789abcdefgh"}]"#;

async fn place(scenario: Scenario, mode: Option<&str>) -> (Place, AutoMemory) {
    let mut place = Place::new(scenario, 200_000).await;
    if let Some(mode) = mode {
        let variable = ("LATHE_MEMORY_EXTRACTION".to_owned(), mode.to_owned());
        place.variables.push(variable);
    }
    let memory = AutoMemory::of(&place.config(), &place.project());
    (place, memory)
}

fn long(words: &str) -> String {
    format!("{words} {}", "word ".repeat(4_000))
}

fn looks(place: &Place) -> usize {
    let requests = place.server.message_requests();
    requests
        .iter()
        .filter(|request| looks_for_memory(request))
        .count()
}

#[tokio::test]
async fn what_is_worth_remembering_is_proposed_after_a_turn_and_counted() {
    let (place, memory) = place(finds(TABS), Some("propose")).await;
    let mut talk = place.open().await;
    talk.say("short").await;
    talk.session.tasks().settled().await;
    assert_eq!(looks(&place), 0, "too little was said");
    talk.say(long("use tabs")).await;
    let told = loop {
        match talk.event().await {
            Event::Notice { text, .. } if text.contains("Proposed for memory") => break text,
            _ => {}
        }
    };
    assert!(told.contains("lathe memory accept tabs"), "{told}");
    let waiting = memory.proposals();
    assert_eq!(waiting.len(), 1, "never what looks like a secret");
    assert_eq!(
        (waiting[0].name.as_str(), waiting[0].kind.as_str()),
        ("tabs", "feedback")
    );
    assert!(memory.topics().is_empty() && memory.index().is_none());
    // It is asked with the conversation's own prefix, and once for as much as was said.
    talk.say("and now?").await;
    talk.session.tasks().settled().await;
    assert_eq!(looks(&place), 1);
    let transcript = talk.session.transcript().to_owned();
    talk.finish().await;
    let facts = lathe_session::load(&transcript).unwrap().facts;
    let totals: Totals = serde_json::from_value(facts.cost.unwrap()).unwrap();
    assert_eq!(totals.parts[&Part::Side].calls, 1);
    memory.accept("tabs").unwrap();
    assert!(memory.prompt().contains("[tabs](tabs.md)"));
}

#[tokio::test]
async fn a_session_that_nobody_watches_finishes_its_look_and_keeps_what_it_found_where_asked() {
    let (place, memory) = place(finds(TABS), Some("keep")).await;
    let mut talk = place.open().await;
    talk.say(long("use tabs")).await;
    talk.finish().await;
    assert_eq!(looks(&place), 1);
    assert_eq!(memory.topics()[0].name, "tabs");
    assert!(memory.index().unwrap().text.contains("how they like it"));
}

#[tokio::test]
async fn nothing_is_looked_for_unless_a_person_sits_there_or_it_was_asked_for() {
    let (mut place, _) = place(finds("[]"), None).await;
    let mut talk = place.open().await;
    talk.say(long("a")).await;
    talk.finish().await;
    assert_eq!(looks(&place), 0, "print mode");
    let interactive = |place: &Place| SessionOptions {
        interactive: true,
        ..place.options()
    };
    let mut talk = place.open_with(interactive(&place)).await;
    talk.say(long("b")).await;
    talk.session.tasks().settled().await;
    talk.finish().await;
    assert_eq!(looks(&place), 1, "the terminal");
    for settings in [
        json!({"memoryExtraction": "off"}),
        json!({"autoMemory": false}),
        json!({"maxSessionTokens": 5_000}),
    ] {
        place.settings = settings.clone();
        let mut talk = place.open_with(interactive(&place)).await;
        talk.say(long("c")).await;
        talk.session.tasks().settled().await;
        talk.finish().await;
        assert_eq!(looks(&place), 1, "{settings}");
    }
}

#[tokio::test]
async fn a_person_who_leaves_does_not_wait_for_it() {
    let scenario = Scenario::new().responder(|request| {
        if looks_for_memory(request) {
            Reply::text("[]").pause(Position::Start, Wait::Forever)
        } else {
            Reply::text("fine")
        }
    });
    let (place, _) = place(scenario, Some("propose")).await;
    let options = SessionOptions {
        interactive: true,
        ..place.options()
    };
    let mut talk = place.open_with(options).await;
    talk.say(long("a")).await;
    // Ends although the look never does.
    talk.finish().await;
}

/// A session that asks nobody.
async fn unasked(place: &Place) -> Talk {
    let mut options = place.options();
    options.permissions.mode = Some(PermissionMode::Default);
    options.permissions.allow_bypass = false;
    place.open_with(options).await
}

#[tokio::test]
async fn the_memory_is_written_without_a_question_and_nothing_else_of_lathes_own() {
    let place = Place::new(Scenario::new(), 200_000).await;
    let memory = AutoMemory::of(&place.config(), &place.project());
    let other = AutoMemory::of(&place.config(), std::path::Path::new("/some/other"));
    let inside = memory.index_path();
    let refused = [
        place.config().join("settings.json"),
        memory.folder().join("../settings.json"),
        memory.folder().parent().unwrap().join("x.jsonl"),
        other.index_path(),
    ];
    place.server.push_reply(Reply::tool_use(
        "Write",
        json!({"file_path": inside, "content": "- tabs\n"}),
    ));
    place.server.push_reply(Reply::tool_use(
        "Edit",
        json!({"file_path": inside, "old_string": "tabs", "new_string": "blanks"}),
    ));
    for path in &refused {
        place.server.push_reply(Reply::tool_use(
            "Write",
            json!({"file_path": path, "content": "{}"}),
        ));
    }
    place.server.push_reply(Reply::text("done"));
    let mut talk = unasked(&place).await;
    let result = talk.say("remember").await;
    assert!(!result.is_error, "{result:?}");
    talk.finish().await;
    assert_eq!(std::fs::read_to_string(&inside).unwrap(), "- blanks\n");
    assert_eq!(result.permission_denials.len(), refused.len(), "{result:?}");
    for path in &refused[..3] {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        assert_ne!(text, "{}", "{}", path.display());
    }
    assert!(!other.index_path().exists());
}
