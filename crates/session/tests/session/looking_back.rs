//! The tree of a session, the contents of its window, searching, importing, insights.

use crate::support::*;
use lathe_protocol::content::{ContentBlock, ToolUseBlock};
use lathe_protocol::ids::RecordId;
use lathe_protocol::message::Message;
use lathe_protocol::record::Fact;
use lathe_session::cli::{self, Privacy};
use lathe_session::contents::{ItemKind, contents};
use lathe_session::export::ExportFormat;
use lathe_session::import::import;
use lathe_session::insights::gather;
use lathe_session::search::{Query, search};
use lathe_session::tree::{go_to, said_on_the_way, tree};
use lathe_session::{Scope, SessionPaths, SessionStore, load, normalize};
use std::path::{Path, PathBuf};

struct Place {
    home: tempfile::TempDir,
    store: SessionStore,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = SessionStore::new(home.path());
        Self { home, store }
    }

    fn add(&self, script: &Script) -> SessionPaths {
        script.write_under(self.home.path(), Path::new("/work"))
    }

    fn found(&self, words: &str) -> Vec<Vec<String>> {
        let found = search(&self.store, Scope::Everywhere, &Query::parse(words), 10).unwrap();
        let snippets = |found: lathe_session::search::FoundSession| {
            let hits = found.hits.into_iter();
            hits.map(|hit| format!("{}: {}", hit.who, hit.snippet))
                .collect()
        };
        found.into_iter().map(snippets).collect()
    }
}

fn calls(id: &str, name: &str, input: serde_json::Value) -> ContentBlock {
    ContentBlock::ToolUse(ToolUseBlock {
        name: name.to_owned(),
        input,
        ..match call(id) {
            ContentBlock::ToolUse(call) => call,
            other => panic!("{other:?}"),
        }
    })
}

/// A session with a rewind: one, then two; back to one, then three.
fn branched() -> Script {
    let mut script = Script::new();
    script.prompt("one");
    let first = script.says("m1", text("first answer"));
    script.prompt("two");
    script.says("m2", text("what two found"));
    script.fact(Fact::Rewound {
        to: Some(first),
        session_id: script.id(),
    });
    script.parent = Some(first);
    script.prompt("three");
    script.says("m3", text("third answer"));
    script
}

fn rows(path: &Path) -> Vec<(String, usize, bool, Option<String>)> {
    let nodes = tree(&load(path).unwrap());
    let row =
        |node: lathe_session::tree::TreeNode| (node.text, node.depth, node.is_current, node.label);
    nodes.into_iter().map(row).collect()
}

#[test]
fn a_branch_that_was_left_stands_below_what_it_left() {
    let place = Place::new();
    let mut script = branched();
    let named = script.records[2].uuid().unwrap();
    script.fact(Fact::Label {
        record: named,
        label: "first try".to_owned(),
        session_id: script.id(),
    });
    let path = place.add(&script).transcript();
    let row = |text: &str, depth, current, label: Option<&str>| {
        (text.to_owned(), depth, current, label.map(str::to_owned))
    };
    assert_eq!(
        rows(&path),
        [
            row("one", 0, true, None),
            row("two", 1, false, Some("first try")),
            row("three", 0, true, None),
        ]
    );
}

#[test]
fn going_to_a_branch_continues_there_and_loses_nothing() {
    let place = Place::new();
    let path = place.add(&branched()).transcript();
    let nodes = tree(&load(&path).unwrap());
    let two = nodes.iter().find(|node| node.text == "two").unwrap();
    assert_eq!(
        said_on_the_way(&load(&path).unwrap(), two.end),
        "User: two\n\nAgent: what two found"
    );
    go_to(&path, two.end).unwrap();
    let current: Vec<(String, usize, bool)> = rows(&path)
        .into_iter()
        .map(|(text, depth, current, _)| (text, depth, current))
        .collect();
    let row = |text: &str, depth, current| (text.to_owned(), depth, current);
    let wanted = [
        row("one", 0, true),
        row("three", 1, false),
        row("two", 0, true),
    ];
    assert_eq!(current, wanted);
    assert!(go_to(&path, RecordId::random()).is_err());
}

#[test]
fn the_contents_of_the_window_show_what_was_decided_about_each_result() {
    let mut script = Script::new();
    script.prompt("look");
    let input = serde_json::json!({"file_path": "/work/a.rs"});
    script.says("m1", calls("t1", "Read", input));
    script.result("t1", &"long ".repeat(100));
    script.fact(Fact::Replacement {
        tool_use_id: "t1".into(),
        replacement: "gone".to_owned(),
        session_id: script.id(),
    });
    script.fact(Fact::Pinned {
        tool_use_id: "t1".into(),
        pinned: true,
        session_id: script.id(),
    });
    let place = Place::new();
    let items = contents(&load(&place.add(&script).transcript()).unwrap());
    let [prompt, item] = items.as_slice() else {
        panic!("{items:?}");
    };
    assert_eq!(
        (prompt.kind, prompt.about.as_str()),
        (ItemKind::Prompt, "look")
    );
    assert_eq!(
        (item.tool.as_str(), item.about.as_str()),
        ("Read", "/work/a.rs")
    );
    assert!(item.is_pinned && item.is_replaced() && item.tokens() == 1);
    assert_eq!(item.text.as_deref(), Some("long ".repeat(100).as_str()));
}

#[test]
fn messages_are_replaced_brought_back_and_kept_over_compactions() {
    let mut script = Script::new();
    let prompt = script.prompt("a long prompt");
    script.says("m1", text("a long answer"));
    let answer = script.parent.unwrap();
    script.prompt("and now?");
    let fact = |script: &Script, record: RecordId, words: &str| Fact::Replacement {
        tool_use_id: record.to_string().into(),
        replacement: words.to_owned(),
        session_id: script.id(),
    };
    for (record, words) in [
        (prompt, "gone"),
        (answer, "short"),
        (prompt, "a long prompt"),
    ] {
        script.fact(fact(&script, record, words));
    }
    script.fact(Fact::Pinned {
        tool_use_id: answer.to_string().into(),
        pinned: true,
        session_id: script.id(),
    });
    let place = Place::new();
    let loaded = load(&place.add(&script).transcript()).unwrap();
    let texts = |messages: Vec<Message>| -> Vec<String> {
        messages
            .iter()
            .map(|message| message.content.text())
            .collect()
    };
    // As it continues, and as it is resumed.
    let live = normalize(script.records.iter().map(|record| &**record), MODEL);
    let resumed = normalize(loaded.chain().iter().map(|record| &**record), MODEL);
    assert_eq!(texts(live), ["a long prompt", "short", "and now?"]);
    assert_eq!(texts(resumed), ["a long prompt", "short", "and now?"]);
    let items = contents(&loaded);
    let kinds: Vec<(ItemKind, bool, bool)> = items
        .iter()
        .map(|item| (item.kind, item.is_replaced(), item.is_pinned))
        .collect();
    assert_eq!(
        kinds,
        [
            (ItemKind::Prompt, false, false),
            (ItemKind::Answer, true, true),
            (ItemKind::Prompt, false, false),
        ]
    );
    script.boundary();
    let mut history = lathe_session::History::new(MODEL);
    for record in &script.records {
        history.push(record);
    }
    assert_eq!(history.pinned_texts(), ["short"]);
}

#[test]
fn a_pinned_result_outlives_compactions() {
    let mut script = Script::new();
    script.prompt("look");
    script.says("m1", calls("t1", "Read", serde_json::json!({})));
    script.result("t1", "the words");
    script.fact(Fact::Pinned {
        tool_use_id: "t1".into(),
        pinned: true,
        session_id: script.id(),
    });
    let mut history = lathe_session::History::new(MODEL);
    for record in &script.records {
        history.push(record);
    }
    assert_eq!(history.pinned_texts(), ["the words"]);
    let before = script.records.len();
    script.boundary();
    script.summary("It looked.");
    for record in &script.records[before..] {
        history.push(record);
    }
    assert!(history.results().is_empty());
    assert_eq!(history.pinned_texts(), ["the words"]);
}

#[test]
fn a_search_finds_all_words_of_a_message_whatever_their_case_and_marks() {
    let place = Place::new();
    let mut script = Script::new();
    script.prompt("Why does the \"Parser\" fail?\nIt says: ERROR 7");
    let input = serde_json::json!({"command": "grep -n parser src/main.rs"});
    script.says("m1", calls("t1", "Bash", input));
    script.result("t1", "12: fn parser() {");
    place.add(&script);
    let found = place.found("error parser");
    assert_eq!(
        found,
        [["you: Why does the \"Parser\" fail? It says: ERROR 7"]]
    );
    let all = place.found("PARSER");
    assert_eq!(all[0].len(), 3, "{all:?}");
    assert!(all[0][1].starts_with("Bash: grep -n parser"), "{all:?}");
    assert_eq!(place.found("\"parser\"").len(), 1);
    assert!(place.found("parser nowhere").is_empty());
}

#[test]
fn filters_narrow_a_search_down() {
    let place = Place::new();
    let mut script = Script::new();
    script.prompt("needle");
    let input = serde_json::json!({"file_path": "/work/src/lexer.rs"});
    script.says("m1", calls("t1", "Read", input));
    script.fact(Fact::Tag {
        tag: "release".to_owned(),
        session_id: script.id(),
    });
    place.add(&script);
    let mut other = Script::new();
    other.prompt("needle too");
    place.add(&other);
    for (words, sessions) in [
        ("needle", 2),
        ("needle tag:release", 1),
        ("needle branch:main", 2),
        ("needle branch:topic", 0),
        ("needle folder:work", 2),
        ("needle folder:elsewhere", 0),
        ("needle tool:Read", 1),
        ("needle tool:Bash", 0),
        ("needle file:lexer", 1),
        ("needle file:parser", 0),
        ("needle after:2000-01-01", 2),
        ("needle after:2900-01-01", 0),
        ("needle before:2000-01-01", 0),
    ] {
        assert_eq!(place.found(words).len(), sessions, "{words}");
    }
}

#[test]
fn a_line_that_is_longer_than_a_piece_is_searched_as_a_whole() {
    let place = Place::new();
    let mut script = Script::new();
    script.prompt("begin");
    script.says("m1", text(&format!("{} needle", "x".repeat(900_000))));
    script.says("m2", text(&format!("{} needle", "y".repeat(900_000))));
    place.add(&script);
    assert_eq!(place.found("needle")[0].len(), 2);
}

#[test]
fn an_export_can_be_taken_in_again_and_one_for_others_hides_secrets() {
    let place = Place::new();
    let mut script = Script::new();
    let key = format!("sk-{}", "a1".repeat(12));
    script.prompt(&format!("use the key {key} in /home/ada/x"));
    script.says("m1", text("<script>alert(1)</script>"));
    let path = place.add(&script).transcript();
    let id = script.id().to_string();
    let cwd = Path::new("/work");
    let export = |format, privacy| cli::export(&place.store, &id, cwd, format, privacy).unwrap();
    let home = PathBuf::from("/home/ada");
    let page = export(ExportFormat::Html, Privacy::Sanitized(Some(&home)));
    assert!(page.contains("use the key [hidden] in ~/x"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(!page.contains(&key) && !page.contains("/home/ada"));
    let json = place.home.path().join("export.json");
    std::fs::write(&json, export(ExportFormat::Json, Privacy::Whole)).unwrap();
    // Beside the original it gets an id of its own; without it, it keeps its own.
    for source in [&json, &path] {
        let copy = import(&place.store, source, Path::new("/other")).unwrap();
        assert_ne!(copy, script.id());
        let copied = place.store.find_anywhere(copy).unwrap();
        assert_eq!(copied.cwd.as_deref(), Some(Path::new("/other")));
        assert_eq!(copied.messages, Some(2));
    }
    let kept = std::fs::read(&json).unwrap();
    let fresh = Place::new();
    let file = fresh.home.path().join("export.json");
    std::fs::write(&file, kept).unwrap();
    assert_eq!(import(&fresh.store, &file, cwd).unwrap(), script.id());
    std::fs::write(&file, "{}").unwrap();
    assert!(import(&fresh.store, &file, cwd).is_err());
}

#[test]
fn insights_count_each_answer_once() {
    let place = Place::new();
    let mut script = Script::new();
    script.prompt("go");
    let answer = |block| {
        let mut answer = assistant(MODEL, "m1", vec![block]);
        answer.usage.input_tokens = 1_000;
        answer.usage.output_tokens = 50;
        answer
    };
    for block in [text("one"), calls("t1", "Read", serde_json::json!({}))] {
        let record = script.template.assistant(script.parent, answer(block));
        script.push(record);
    }
    place.add(&script);
    let price = |_: &str, usage: &lathe_protocol::usage::Usage| Some(usage.output_tokens as f64);
    let insights = gather(&place.store, Scope::Everywhere, None, &price);
    assert_eq!((insights.sessions, insights.prompts), (1, 1));
    assert_eq!((insights.total.input, insights.total.output), (1_000, 50));
    assert_eq!(insights.tools["Read"], 1);
    let shown = insights.text(80);
    for wanted in [
        "1 session, 1 prompt",
        "By day",
        "model-a",
        "/work",
        "Read",
        "█",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    assert!(insights.html().contains("<h2>By model</h2>"));
    let none = gather(&place.store, Scope::Everywhere, Some("2900-01-01"), &price);
    assert_eq!(none.sessions, 0);
}
