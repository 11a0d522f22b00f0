//! Reading transcripts, whole and harmed.

use crate::support::*;
use lathe_protocol::ids::RecordId;
use lathe_protocol::message::Message;
use lathe_protocol::record::{Fact, Record};
use lathe_session::{Interruption, SessionError, load, load_tail, load_to, normalize};
use serde_json::json;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder
        .path()
        .join("6f2a8c1e-0000-4000-8000-000000000001.jsonl");
    (folder, path)
}

fn ids(records: &[Arc<Record>]) -> Vec<RecordId> {
    records.iter().filter_map(|record| record.uuid()).collect()
}

#[test]
fn a_file_cut_at_every_byte_loses_no_whole_line() {
    let (_folder, path) = file();
    let mut script = Script::new();
    script.prompt("hällo ✂");
    script.says("m1", text("hi"));
    script.says("m1", call("t1"));
    script.result("t1", "line\nend");
    let whole = script.lines();
    for end in 0..=whole.len() {
        std::fs::write(&path, &whole.as_bytes()[..end]).unwrap();
        let loaded = load(&path).unwrap();
        let before = &whole.as_bytes()[..end];
        let ended = before.iter().filter(|byte| **byte == b'\n').count();
        // A last line that lacks nothing but its end counts too.
        let complete = ended + usize::from(whole.as_bytes().get(end) == Some(&b'\n'));
        assert_eq!(loaded.records.len(), complete, "cut at {end}");
        assert_eq!(loaded.records[..], script.records[..complete]);
        assert!(loaded.damaged.is_empty());
        let torn = end > 0 && !before.ends_with(b"\n") && complete == ended;
        assert_eq!(loaded.torn_tail, torn, "cut at {end}");
    }
}

#[test]
fn damaged_lines_are_skipped_and_named_and_unknown_kinds_kept() {
    let (_folder, path) = file();
    let mut script = Script::new();
    script.prompt("one");
    script.says("m1", text("two"));
    let lines: Vec<String> = script.records.iter().map(|record| line(record)).collect();
    let mut bytes = lines[0].clone().into_bytes();
    bytes.extend_from_slice(b"{\"type\":\"user\",\xff}\n\0\0\0\0\n\n");
    bytes.extend_from_slice(b"{\"type\":\"brand-new\",\"a\":1}\n");
    bytes.extend_from_slice(lines[1].as_bytes());
    std::fs::write(&path, bytes).unwrap();
    let loaded = load(&path).unwrap();
    assert_eq!(loaded.damaged.len(), 2);
    assert_eq!(loaded.damaged[0].offset, lines[0].len() as u64);
    assert_eq!(
        *loaded.records[1],
        Record::Other(json!({"type": "brand-new", "a": 1}))
    );
    assert_eq!(ids(&loaded.chain()), ids(&script.records));
}

#[test]
fn the_chain_follows_the_newest_branch_and_a_rewind() {
    let (_folder, path) = file();
    let mut script = Script::new();
    let first = script.prompt("one");
    let answer = script.says("m1", text("a"));
    let dropped = script.prompt("two");
    script.says("m2", text("b"));
    script.parent = Some(answer);
    let other = script.prompt("two, better");
    script.write(&path);
    let loaded = load(&path).unwrap();
    assert_eq!(ids(&loaded.chain()), [first, answer, other]);
    assert_eq!(loaded.before(dropped).unwrap(), Some(answer));
    assert_eq!(
        ids(&loaded.chain_to(dropped).unwrap()),
        [first, answer, dropped]
    );
    assert!(matches!(
        loaded.chain_to(RecordId::random()),
        Err(SessionError::NoSuchRecord { .. })
    ));
    script.fact(Fact::Rewound {
        to: Some(first),
        session_id: script.id(),
    });
    script.write(&path);
    assert_eq!(ids(&load(&path).unwrap().chain()), [first]);
    script.fact(Fact::Rewound {
        to: None,
        session_id: script.id(),
    });
    script.write(&path);
    assert!(load(&path).unwrap().chain().is_empty());
}

#[test]
fn results_of_parallel_calls_are_recovered() {
    let (_folder, path) = file();
    let mut script = Script::new();
    script.prompt("go");
    let one = script.says("m1", call("t1"));
    let two = script.says("m1", call("t2"));
    let three = script.says("m1", call("t3"));
    script.result_under(two, "t2", "2");
    script.result_under(one, "t1", "1");
    script.result_under(three, "t3", "3");
    script.says("m2", text("done"));
    script.write(&path);
    let chain = load(&path).unwrap().chain();
    let messages = normalize(chain.iter().map(|record| &**record), MODEL);
    assert_eq!(
        shape(&messages)[1..3],
        [
            "Assistant: call t1, call t2, call t3",
            r#"User: result t1 "1", result t2 "2", result t3 "3""#
        ]
    );
}

#[test]
fn a_lost_parent_is_bridged_and_a_circle_ends() {
    let (_folder, path) = file();
    let mut script = Script::new();
    let first = script.prompt("one");
    script.says("m1", text("lost line"));
    let last = script.prompt("two");
    script.records.remove(1);
    script.write(&path);
    assert_eq!(ids(&load(&path).unwrap().chain()), [first, last]);
    // Two records that point at each other.
    let mut script = Script::new();
    let mut one = script.template.user(None, Message::user("one"));
    let two = script.template.user(Some(one.uuid), Message::user("two"));
    one.parent_uuid = Some(two.uuid);
    let wanted = [one.uuid, two.uuid];
    script.push(one);
    script.push(two);
    script.write(&path);
    assert_eq!(ids(&load(&path).unwrap().chain()), wanted);
}

#[test]
fn sidechains_are_left_out_of_the_main_conversation_and_are_all_of_their_own() {
    let (_folder, path) = file();
    let mut script = Script::new();
    let prompt = script.prompt("one");
    let mut side = script.template.user(None, Message::user("agent"));
    side.is_sidechain = true;
    let side_id = side.uuid;
    script.push(side);
    script.write(&path);
    assert_eq!(ids(&load(&path).unwrap().chain()), [prompt]);
    script.records.remove(0);
    script.write(&path);
    assert_eq!(ids(&load(&path).unwrap().chain()), [side_id]);
}

#[test]
fn an_interrupted_turn_is_recognised() {
    let (_folder, path) = file();
    let found = |script: &Script| {
        script.write(&path);
        load(&path).unwrap().interruption()
    };
    let mut script = Script::new();
    assert_eq!(found(&script), Interruption::None);
    let prompt = script.prompt("go");
    assert_eq!(found(&script), Interruption::DuringPrompt { prompt });
    script.says("m1", thinking(MODEL));
    assert_eq!(found(&script), Interruption::DuringReply);
    script.says("m1", call("t1"));
    script.says("m1", call("t2"));
    script.result("t2", "r");
    assert_eq!(
        found(&script),
        Interruption::DuringTools {
            unanswered: vec!["t1".into()]
        }
    );
    script.result("t1", "r");
    assert_eq!(found(&script), Interruption::AfterTools);
    script.meta("a reminder");
    assert_eq!(found(&script), Interruption::AfterTools);
    script.says("m2", text("done"));
    // Other programs don't write why an answer ended.
    assert_eq!(found(&script), Interruption::None);
    script.fact(Fact::ModelChoice {
        session_id: script.id(),
        model: MODEL.to_owned(),
        effort: None,
    });
    assert_eq!(found(&script), Interruption::DuringReply);
    script.prompt("[Request interrupted by user]");
    assert_eq!(found(&script), Interruption::None);
}

#[test]
fn facts_are_recovered_and_the_newest_counts() {
    let (_folder, path) = file();
    let mut script = Script::new();
    let session_id = script.id();
    script.fact(Fact::CustomTitle {
        custom_title: "old".into(),
        session_id,
    });
    script.prompt("go");
    script.fact(Fact::CustomTitle {
        custom_title: "new".into(),
        session_id,
    });
    script.fact(Fact::Mode {
        mode: "plan".into(),
        session_id,
    });
    script.fact(Fact::Cost {
        totals: json!({"usd": 1}),
        session_id,
    });
    script.fact(Fact::Cost {
        totals: json!({"usd": 2}),
        session_id,
    });
    script.fact(Fact::Tag {
        tag: "x".into(),
        session_id,
    });
    script.fact(Fact::Tag {
        tag: String::new(),
        session_id,
    });
    script.says(
        "m1",
        serde_json::from_value(
            json!({"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {"todos": [1]}}),
        )
        .unwrap(),
    );
    script.write(&path);
    let facts = load(&path).unwrap().facts;
    assert_eq!(facts.title(), Some("new"));
    assert_eq!(facts.mode.as_deref(), Some("plan"));
    assert_eq!(facts.cost, Some(json!({"usd": 2})));
    assert_eq!(facts.tag, None);
    assert_eq!(facts.todos, Some(json!([1])));
    script.fact(Fact::TodoList {
        todos: json!([2]),
        session_id,
    });
    script.write(&path);
    assert_eq!(load(&path).unwrap().facts.todos, Some(json!([2])));
}

#[test]
fn dropping_more_than_one_turn_is_refused_in_the_words_that_hosts_know() {
    let (_folder, path) = file();
    let mut script = Script::new();
    let one = script.prompt("one");
    let first_answer = script.says("m1", text("a"));
    let two = script.prompt("two");
    let second_answer = script.says("m2", text("b"));
    let three = script.prompt("three");
    script.says("m3", text("c"));
    script.write(&path);
    let loaded = load(&path).unwrap();
    loaded.check_dropped_turn(second_answer, three).unwrap();
    let refused = loaded
        .check_dropped_turn(first_answer, three)
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("Resume rejected by --resume-drops-turn:"),
        "{refused}"
    );
    assert!(refused.contains(&two.to_string()), "{refused}");
    assert!(loaded.check_dropped_turn(one, two).is_err());
}

/// Writes filler that nobody needs, then a compaction and a little more.
fn large_file(path: &std::path::Path, script: &mut Script) {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let filler = "x".repeat(4_000);
    for number in 0..1_200 {
        script.prompt(&filler);
        if number % 16 == 0 {
            script.says(&format!("old{number}"), text("yes"));
        }
        for record in script.records.drain(..) {
            out.write_all(line(&record).as_bytes()).unwrap();
        }
    }
    out.flush().unwrap();
}

fn append(path: &std::path::Path, script: &mut Script) {
    let mut out = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    for record in script.records.drain(..) {
        out.write_all(line(&record).as_bytes()).unwrap();
    }
}

#[test]
fn a_large_file_is_read_back_to_its_last_compaction_only() {
    let (_folder, path) = file();
    let mut script = Script::new();
    large_file(&path, &mut script);
    let session_id = script.id();
    let old = script.parent.unwrap();
    let boundary = script.boundary();
    let summary = script.summary("what was");
    script.fact(Fact::Mode {
        mode: "plan".into(),
        session_id,
    });
    let answer = script.says("m1", text("on"));
    append(&path, &mut script);
    let loaded = load_tail(&path).unwrap();
    assert!(loaded.partial);
    assert!(loaded.bytes_read < 1 << 20, "{}", loaded.bytes_read);
    assert_eq!(ids(&loaded.chain()), [boundary, summary, answer]);
    assert_eq!(loaded.facts.mode.as_deref(), Some("plan"));
    assert!(loaded.chain_to(old).is_err());
    assert_eq!(
        load_to(&path, summary)
            .unwrap()
            .chain_to(summary)
            .unwrap()
            .len(),
        2
    );
    let whole = load_to(&path, old).unwrap();
    assert_eq!(whole.chain_to(old).unwrap().len(), 1_200 + 75);
    assert_eq!(ids(&whole.chain()), [boundary, summary, answer]);
    assert_eq!(
        whole.history().len(),
        1_200 + 75 + 3,
        "the person still sees everything"
    );
}

#[test]
fn a_compaction_on_a_branch_that_was_left_does_not_cut_the_conversation() {
    let (_folder, path) = file();
    let mut script = Script::new();
    large_file(&path, &mut script);
    let before = script.parent;
    script.boundary();
    script.summary("what was");
    script.fact(Fact::Rewound {
        to: before,
        session_id: script.id(),
    });
    script.parent = before;
    let last = script.prompt("instead");
    append(&path, &mut script);
    let loaded = load_tail(&path).unwrap();
    assert!(!loaded.partial);
    let chain = ids(&loaded.chain());
    assert_eq!(chain.len(), 1_200 + 75 + 1);
    assert_eq!(chain.last(), Some(&last));
}

#[test]
fn a_compaction_without_its_summary_is_ignored() {
    let (_folder, path) = file();
    let mut script = Script::new();
    let prompt = script.prompt("one");
    let answer = script.says("m1", text("a"));
    let boundary = script.boundary();
    script.write(&path);
    let loaded = load(&path).unwrap();
    assert_eq!(loaded.tip(), Some(answer));
    assert_eq!(ids(&loaded.chain()), [prompt, answer]);
    // Earlier versions continued from the boundary.
    let next = script.prompt("two");
    script.write(&path);
    let loaded = load(&path).unwrap();
    assert_eq!(ids(&loaded.chain()), [prompt, answer, next]);
    assert_eq!(ids(&loaded.history()), [prompt, answer, next]);
    let second = script.boundary();
    let summary = script.summary("what was");
    script.write(&path);
    let loaded = load(&path).unwrap();
    assert_eq!(ids(&loaded.chain()), [second, summary]);
    assert_eq!(
        ids(&loaded.history()),
        [prompt, answer, next, second, summary]
    );
    assert!(loaded.message(boundary).is_some());
}

#[test]
fn a_large_file_is_read_past_a_compaction_without_its_summary() {
    let (_folder, path) = file();
    let mut script = Script::new();
    large_file(&path, &mut script);
    script.boundary();
    let next = script.prompt("on");
    append(&path, &mut script);
    let loaded = load_tail(&path).unwrap();
    assert!(!loaded.partial);
    let chain = ids(&loaded.chain());
    assert_eq!((chain.len(), chain.last()), (1_200 + 75 + 1, Some(&next)));
}

#[test]
fn the_ids_of_all_records_are_found_without_parsing_them() {
    let (_folder, path) = file();
    let mut script = Script::new();
    let quoted = RecordId::random();
    let prompt = script.prompt(&format!("a \"uuid\":\"{quoted}\" in words"));
    script.parent = None;
    let branch = script.prompt("left");
    let boundary = script.boundary();
    script.write(&path);
    let found = lathe_session::record_ids(&path).unwrap();
    assert_eq!(found, [prompt, branch, boundary].into());
}

#[test]
fn a_missing_file_is_an_error_that_names_it() {
    let error = load(std::path::Path::new("/nowhere/x.jsonl"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/x.jsonl"), "{error}");
}
