//! Session notes: kept beside the turns, and taken when the window is full.

use crate::support::{Place, SUMMARY_REQUEST};
use lathe_scripted::{RecordedRequest, Reply, Scenario};
use serde_json::{Value, json};

fn wants_notes(request: &RecordedRequest) -> bool {
    request
        .last_user_text()
        .contains("Update the notes about this session")
}

fn scenario() -> Scenario {
    Scenario::new().responder(|request| {
        if wants_notes(request) {
            Reply::text(format!(
                "# Task: count the clocks. Known messages: {}",
                request.messages().len()
            ))
        } else if request.last_user_text().contains("question") && request.last_results().is_empty()
        {
            Reply::tool_use("Glob", json!({"pattern": "*.clock"}))
        } else {
            Reply::text("answer ".repeat(500))
        }
    })
}

#[tokio::test]
async fn recent_notes_take_the_place_of_older_history_and_new_messages_stay() {
    let mut place = Place::new(scenario(), 60_000).await;
    place.settings = json!({"sessionNotes": true});
    let mut talk = place.open().await;
    let mut number = 0;
    while talk.seen.compactions.is_empty() {
        let result = talk
            .say(format!("question {number}: {}", "word ".repeat(500)))
            .await;
        assert!(!result.is_error, "{result:?}");
        talk.session.context().notes_settled().await;
        number += 1;
        assert!(number < 120, "the window never fills");
    }
    assert!(
        talk.session
            .context()
            .notes()
            .unwrap()
            .starts_with("# Task")
    );
    let kept = lathe_session::SessionPaths::of_transcript(talk.session.transcript());
    let file = std::fs::read_to_string(kept.session_folder().join("notes.md")).unwrap();
    assert!(file.starts_with("# Task: count the clocks"));
    talk.say("one more question").await;
    let seen = talk.finish().await;
    let (before, after) = seen.compactions[0];
    assert!(after * 5 <= before * 4, "{before} → {after}");
    let requests = place.server.message_requests();
    assert!(
        requests
            .iter()
            .filter(|request| wants_notes(request))
            .count()
            >= 2
    );
    let asked_for_summary =
        |request: &&RecordedRequest| request.last_user_text().contains(SUMMARY_REQUEST);
    assert_eq!(requests.iter().filter(asked_for_summary).count(), 0);
    let last = requests.last().unwrap();
    let text = Value::from(last.messages().to_vec()).to_string();
    assert!(text.contains("# Task: count the clocks"));
    assert!(text.contains(&format!("question {}: ", number - 1)));
    assert!(!text.contains("question 0: "));
    assert_eq!(place.server.problems(), Vec::<String>::new());

    // The session continues across the boundary.
    let mut talk = place.resume().await;
    let result = talk.say("after the resume").await;
    assert!(!result.is_error);
    talk.finish().await;
    let last = place.server.message_requests().pop().unwrap();
    assert!(
        Value::from(last.messages().to_vec())
            .to_string()
            .contains("# Task: count the clocks")
    );
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn no_notes_are_kept_unless_they_are_asked_for() {
    let mut place = Place::new(scenario(), 200_000).await;
    let talk_of = async |place: &Place| {
        let mut talk = place.open().await;
        for number in 0..15 {
            talk.say(format!("question {number}: {}", "word ".repeat(500)))
                .await;
        }
        talk.session.context().notes_settled().await;
        let notes = talk.session.context().notes();
        talk.finish().await;
        notes
    };
    assert_eq!(talk_of(&place).await, None);
    // A variable goes before the setting, both ways.
    place.settings = json!({"sessionNotes": true});
    let switch = |value: &str| vec![("LATHE_SESSION_NOTES".to_owned(), value.to_owned())];
    place.variables = switch("0");
    assert_eq!(talk_of(&place).await, None);
    assert!(!place.server.message_requests().iter().any(wants_notes));
    place.settings = json!({"sessionNotes": false});
    place.variables = switch("1");
    assert!(talk_of(&place).await.is_some());
}

#[tokio::test]
async fn a_document_that_was_read_is_kept_current_and_no_other_file_is_touched() {
    let scenario = Scenario::new().responder(|request| {
        let text = request.last_user_text();
        if text.contains("kept up to date automatically") {
            Reply::text("# MAGIC DOC: clocks\n\nThere are two clocks.")
        } else if text.contains("look") && request.last_results().is_empty() {
            Reply::tool_use("Read", json!({"file_path": "clocks.md"}))
                .with_tool_use("Read", json!({"file_path": "plain.md"}))
        } else {
            Reply::text("seen")
        }
    });
    let mut place = Place::new(scenario, 200_000).await;
    let document = place.project().join("clocks.md");
    std::fs::write(&document, "# MAGIC DOC: clocks\n\nThere is one clock.\n").unwrap();
    std::fs::write(place.project().join("plain.md"), "# Plain\n").unwrap();
    let mut talk = place.open().await;
    talk.say("look at both").await;
    talk.finish().await;
    assert_eq!(
        place.server.message_requests().len(),
        2,
        "off unless asked for"
    );
    place.settings = json!({"magicDocs": true});
    let mut talk = place.open().await;
    talk.say("look at both").await;
    let told = loop {
        if let lathe_protocol::event::Event::Notice { text, .. } = talk.event().await {
            break text;
        }
    };
    assert!(told.contains("clocks.md was updated"), "{told}");
    assert_eq!(
        std::fs::read_to_string(&document).unwrap(),
        "# MAGIC DOC: clocks\n\nThere are two clocks.\n"
    );
    let plain = std::fs::read_to_string(place.project().join("plain.md")).unwrap();
    assert_eq!(plain, "# Plain\n");
    talk.finish().await;
}
