//! The conversation that the model is sent, rule by rule.

use crate::api_rules::check;
use crate::support::*;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::ids::RecordId;
use lathe_protocol::message::Message;
use lathe_protocol::record::{Fact, Record};
use lathe_session::history::Tail;
use lathe_session::{History, normalize};
use serde_json::{Value, json};
use std::sync::Arc;

fn folded(script: &Script) -> Vec<String> {
    let messages = normalize(script.records.iter().map(|record| &**record), MODEL);
    let values: Vec<Value> = messages
        .iter()
        .map(|it| serde_json::to_value(it).unwrap())
        .collect();
    assert_eq!(check(&values, MODEL), Ok(()));
    shape(&messages)
}

#[test]
fn blocks_of_one_message_come_together_and_results_follow_in_the_order_of_the_calls() {
    let mut script = Script::new();
    script.prompt("go");
    script.says("m1", thinking(MODEL));
    script.says("m1", text("reading"));
    let one = script.says("m1", call("t1"));
    script.result_under(one, "t1", "first");
    script.parent = Some(one);
    let two = script.says("m1", call("t2"));
    let three = script.says("m1", call("t3"));
    script.result_under(three, "t3", "third");
    script.result_under(two, "t2", "second");
    assert_eq!(
        folded(&script),
        [
            r#"User: "go""#,
            r#"Assistant: thinking, "reading", call t1, call t2, call t3"#,
            r#"User: result t1 "first", result t2 "second", result t3 "third""#,
        ]
    );
}

#[test]
fn an_interrupted_call_gets_a_stand_in_and_a_result_without_a_call_is_left_out() {
    let mut script = Script::new();
    script.prompt("go");
    script.says("m1", call("t1"));
    script.says("m1", call("t2"));
    script.result("t2", "done");
    script.result("t9", "whose?");
    script.prompt("and now?");
    assert_eq!(
        folded(&script),
        [
            r#"User: "go""#,
            "Assistant: call t1, call t2",
            r#"User: result t1 "No result was recorded f", result t2 "done", "and now?""#,
        ]
    );
}

#[test]
fn runs_of_user_messages_merge_and_what_only_the_person_sees_is_left_out() {
    let mut script = Script::new();
    script.prompt("one");
    script.progress();
    let mut hidden = script
        .template
        .user(script.parent, Message::user("shown only"));
    hidden.is_virtual = true;
    script.push(hidden);
    let mut error = script.template.assistant(
        script.parent,
        lathe_protocol::message::AssistantMessage::synthetic("API Error: 500"),
    );
    error.is_api_error_message = true;
    script.push(error);
    script.meta("two");
    script.prompt("   ");
    assert_eq!(folded(&script), [r#"User: "one", "two""#]);
}

#[test]
fn attachments_follow_the_results_that_they_belong_to() {
    let mut script = Script::new();
    script.prompt("go");
    script.says("m1", call("t1"));
    script.says("m1", call("t2"));
    script.result("t1", "one");
    script.meta("a reminder");
    let attached = json!({"type": "diagnostics", "toolUseId": "t1", "content": "2 warnings"});
    script.push(script.template.attachment(script.parent, attached));
    script.push(
        script
            .template
            .attachment(script.parent, json!({"type": "unknown"})),
    );
    script.result("t2", "two");
    assert_eq!(
        folded(&script)[2],
        r#"User: result t1 "one", result t2 "two", "2 warnings", "a reminder""#
    );
}

#[test]
fn reasoning_alone_and_blank_words_are_dropped_and_neighbours_merge() {
    let mut script = Script::new();
    script.prompt("one");
    script.says("m1", thinking(MODEL));
    script.prompt("two");
    script.says("m2", text(" \n"));
    script.prompt("three");
    script.says("m3", text("yes"));
    script.says("m3", thinking(MODEL));
    script.prompt("four");
    assert_eq!(
        folded(&script),
        [
            r#"User: "one", "two", "three""#,
            r#"Assistant: "yes""#,
            r#"User: "four""#
        ]
    );
}

#[test]
fn reasoning_goes_only_to_the_model_that_signed_it_and_comes_back_with_it() {
    let mut script = Script::new();
    script.prompt("go");
    script.says("m1", thinking(MODEL));
    script.says("m1", text("a"));
    script.prompt("on");
    let mut conversation = History::new(MODEL);
    script
        .records
        .iter()
        .for_each(|record| conversation.push(record));
    let first = conversation.request_messages();
    assert_eq!(
        json(first.get(1).unwrap())["content"][0]["type"],
        "thinking"
    );
    conversation.set_model("model-b");
    let other = conversation.request_messages();
    assert_eq!(
        json(other.get(1).unwrap())["content"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    conversation.set_model(MODEL);
    assert_eq!(conversation.request_messages(), first);
}

#[test]
fn a_conversation_that_starts_or_ends_with_the_model_is_completed() {
    let mut script = Script::new();
    script.says("m1", text("hello"));
    assert_eq!(
        folded(&script),
        [
            r#"User: "(The beginning of this conversation is not available.)""#,
            r#"Assistant: "hello""#,
            r#"User: "Continue.""#,
        ]
    );
    assert_eq!(folded(&Script::new()), [r#"User: "Continue.""#]);
    let mut conversation = History::new(MODEL);
    assert!(conversation.is_empty() && conversation.lacks_user_message());
    conversation.push(&script.records[0]);
    assert!(conversation.lacks_user_message());
    assert_eq!(conversation.request_messages_with(Tail::Assistant).len(), 2);
}

#[test]
fn a_paused_server_call_stays_only_in_the_request_that_continues_it() {
    let server_call = ContentBlock::Other(
        json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
    );
    let answer = ContentBlock::Other(
        json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}),
    );
    let mut script = Script::new();
    script.prompt("search");
    script.says("m1", text("looking"));
    script.says("m1", server_call);
    let mut conversation = History::new(MODEL);
    script
        .records
        .iter()
        .for_each(|record| conversation.push(record));
    let paused = conversation.request_messages_with(Tail::Assistant);
    assert_eq!(
        json(paused.last().unwrap())["content"][1]["type"],
        "server_tool_use"
    );
    let given_up = conversation.request_messages();
    assert_eq!(
        json(given_up.get(1).unwrap())["content"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // Continued: the next message's blocks complete the pair.
    let at = script.records.len();
    script.says("m2", answer);
    script.says("m2", text("found"));
    script.prompt("thanks");
    script.records[at..]
        .iter()
        .for_each(|record| conversation.push(record));
    assert_eq!(
        shape(&conversation.messages()),
        [
            r#"User: "search""#,
            r#"Assistant: "looking", server_tool_use, web_search_tool_result, "found""#,
            r#"User: "thanks""#,
        ]
    );
}

#[test]
fn server_calls_and_answers_stay_in_pairs_whatever_their_order() {
    let server_call = ContentBlock::Other(
        json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
    );
    let answer = ContentBlock::Other(
        json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}),
    );
    let mut script = Script::new();
    script.prompt("search");
    for block in [
        answer.clone(),
        server_call.clone(),
        answer.clone(),
        server_call,
        answer,
    ] {
        script.says("m1", block);
    }
    assert_eq!(
        folded(&script)[1],
        "Assistant: server_tool_use, web_search_tool_result"
    );
}

#[test]
fn repeated_and_illegal_ids_are_renamed_with_their_results() {
    let mut script = Script::new();
    script.prompt("go");
    script.says("m1", call("functions.Read:0"));
    script.result("functions.Read:0", "one");
    script.says("m2", call("functions.Read:0"));
    script.says("m2", call("functions.Read:0"));
    script.result("functions.Read:0", "two");
    script.result("functions.Read:0", "three");
    assert_eq!(
        folded(&script),
        [
            r#"User: "go""#,
            "Assistant: call functions_Read_0",
            r#"User: result functions_Read_0 "one""#,
            "Assistant: call functions_Read_0_2, call functions_Read_0_3",
            r#"User: result functions_Read_0_2 "two", result functions_Read_0_3 "three""#,
        ]
    );
}

#[test]
fn a_compaction_starts_afresh() {
    let mut script = Script::new();
    script.prompt("old");
    script.says("m1", call("t1"));
    script.boundary();
    let mut summary = script
        .template
        .user(script.parent, Message::user("what was"));
    summary.is_compact_summary = true;
    script.push(summary);
    script.says("m2", call("t1"));
    script.result("t1", "r");
    assert_eq!(
        folded(&script),
        [
            r#"User: "what was""#,
            "Assistant: call t1",
            r#"User: result t1 "r""#
        ]
    );
}

#[test]
fn messages_that_were_sent_keep_their_buffers() {
    let mut script = Script::new();
    let mut conversation = History::new(MODEL);
    let mut sent: Vec<*const u8> = Vec::new();
    let mut pushed = 0;
    for round in 0..20 {
        if round % 5 == 0 {
            script.prompt("go on");
        }
        script.says(&format!("m{round}"), thinking(MODEL));
        script.says(&format!("m{round}"), call(&format!("t{round}")));
        script.result(&format!("t{round}"), "r");
        script.records[pushed..]
            .iter()
            .for_each(|record| conversation.push(record));
        pushed = script.records.len();
        let request = conversation.request_messages();
        let pointers: Vec<*const u8> = request.iter().map(|it| it.bytes.as_ptr()).collect();
        // All but the newest user message, which may still have grown.
        let fixed = sent.len().saturating_sub(1);
        assert_eq!(pointers[..fixed], sent[..fixed], "round {round}");
        assert_eq!(
            request,
            conversation.request_messages(),
            "asking changes nothing"
        );
        sent = pointers;
    }
}

#[test]
fn a_request_starts_with_the_bytes_of_the_one_before() {
    let mut script = Script::new();
    let mut conversation = History::new(MODEL);
    script.prompt("go");
    let mut last: Vec<u8> = Vec::new();
    let mut pushed = 0;
    for round in 0..10 {
        script.says(&format!("m{round}"), call(&format!("t{round}")));
        script.result(&format!("t{round}"), "r");
        script.records[pushed..]
            .iter()
            .for_each(|record| conversation.push(record));
        pushed = script.records.len();
        let joined = conversation
            .request_messages()
            .iter()
            .fold(Vec::new(), |mut all, message| {
                all.extend_from_slice(&message.bytes);
                all
            });
        assert!(joined.starts_with(&last));
        last = joined;
    }
}

#[test]
fn a_replaced_result_stays_replaced_and_keeps_its_error_mark() {
    let mut script = Script::new();
    script.prompt("go");
    script.says("m1", call("t1"));
    let blocks = vec![ContentBlock::tool_result(
        "t1".into(),
        "x".repeat(9_000),
        true,
    )];
    script.push(script.template.user(script.parent, Message::user(blocks)));
    let mut conversation = History::new(MODEL);
    script
        .records
        .iter()
        .for_each(|record| conversation.push(record));
    let large = conversation.estimated_bytes();
    assert!(!conversation.results()[0].replaced);
    conversation.push(&Record::Fact(Fact::Replacement {
        tool_use_id: "t1".into(),
        replacement: "see /tmp/t1".into(),
        session_id: script.id(),
    }));
    let request = conversation.request_messages();
    assert_eq!(
        json(request.get(2).unwrap())["content"][0],
        json!({"type": "tool_result", "tool_use_id": "t1", "content": "see /tmp/t1", "is_error": true})
    );
    assert!(conversation.results()[0].replaced);
    assert!(conversation.estimated_bytes() < large - 8_000);
}

#[test]
fn rewinding_gives_the_bytes_that_were_sent_then() {
    let mut script = Script::new();
    let mut conversation = History::new(MODEL);
    script.prompt("one");
    script.says("m1", text("a"));
    let mut marks: Vec<(RecordId, Vec<Value>, usize)> = Vec::new();
    let mut pushed = 0;
    // Enough for messages that were joined, and are taken apart again.
    for round in 0..100 {
        script.prompt(&format!("prompt {round}"));
        script.says(&format!("n{round}"), call(&format!("t{round}")));
        script.result(&format!("t{round}"), "r");
        script.records[pushed..]
            .iter()
            .for_each(|record| conversation.push(record));
        pushed = script.records.len();
        let bytes = conversation.request_messages().iter().map(json).collect();
        marks.push((
            script.parent.unwrap(),
            bytes,
            conversation.estimated_bytes(),
        ));
    }
    for (record, bytes, size) in marks.iter().rev() {
        conversation.push(&Record::Fact(Fact::Rewound {
            to: Some(*record),
            session_id: script.id(),
        }));
        let now: Vec<Value> = conversation.request_messages().iter().map(json).collect();
        assert_eq!(now, *bytes);
        assert_eq!(conversation.estimated_bytes(), *size);
    }
    assert!(
        !conversation.rewind_to(Some(RecordId::random())),
        "an unknown record changes nothing"
    );
    assert!(!conversation.is_empty());
    assert!(conversation.rewind_to(None));
    assert!(conversation.is_empty());
}

#[test]
fn a_record_that_comes_twice_counts_once() {
    let mut script = Script::new();
    script.prompt("go");
    script.says("m1", call("t1"));
    let twice: Vec<Arc<Record>> = script
        .records
        .iter()
        .flat_map(|record| [Arc::clone(record), Arc::clone(record)])
        .collect();
    script.records = twice;
    assert_eq!(folded(&script)[1], "Assistant: call t1");
}

#[test]
fn pictures_count_apart_from_text() {
    let mut script = Script::new();
    script.prompt("go");
    script.says("m1", call("t1"));
    let blocks = vec![ContentBlock::tool_result(
        "t1".into(),
        vec![
            ContentBlock::image("image/png", "A".repeat(100_000)),
            text("a picture"),
        ],
        false,
    )];
    script.push(script.template.user(script.parent, Message::user(blocks)));
    let mut conversation = History::new(MODEL);
    script
        .records
        .iter()
        .for_each(|record| conversation.push(record));
    assert!(conversation.estimated_bytes() < 1_000);
    assert_eq!(conversation.media_blocks(), 1);
    assert!(conversation.unanswered_calls().is_empty());
}

/// A prompt with a picture, and the picture's digest.
fn picture(script: &mut Script, letter: &str) -> Vec<String> {
    let image = ContentBlock::image("image/png", letter.repeat(400));
    let keys = lathe_session::history::media_keys(&image);
    let blocks = vec![text("look"), image];
    script.push(script.template.user(script.parent, Message::user(blocks)));
    keys
}

#[test]
fn refused_pictures_are_left_out_now_later_and_after_a_resume() {
    let mut script = Script::new();
    let refused = picture(&mut script, "A");
    script.says("m1", text("seen"));
    let accepted = picture(&mut script, "B");
    assert_ne!(refused, accepted);
    let mut live = History::new(MODEL);
    script.records.iter().for_each(|record| live.push(record));
    assert_eq!(live.media_blocks(), 2);
    script.fact(Fact::MediaDropped {
        media: refused,
        session_id: script.id(),
    });
    live.push(script.records.last().unwrap());
    assert_eq!(live.media_blocks(), 1);
    // The same picture again, as itself and within a result.
    script.says("m2", call("t1"));
    let again = ContentBlock::tool_result(
        "t1".into(),
        vec![ContentBlock::image("image/png", "A".repeat(400))],
        false,
    );
    script.push(
        script
            .template
            .user(script.parent, Message::user(vec![again])),
    );
    script.records[4..]
        .iter()
        .for_each(|record| live.push(record));
    assert_eq!(live.media_blocks(), 1);
    let sent: Vec<Value> = live.request_messages().iter().map(json).collect();
    let words = Value::from(sent.clone()).to_string();
    assert_eq!(words.matches("An image removed").count(), 2, "{words}");
    assert_eq!(words.matches("BBBB").count(), 100);

    let mut resumed = History::new(MODEL);
    script
        .records
        .iter()
        .for_each(|record| resumed.push(record));
    let again: Vec<Value> = resumed.request_messages().iter().map(json).collect();
    assert_eq!(again, sent);
}
