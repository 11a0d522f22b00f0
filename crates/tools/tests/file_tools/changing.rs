//! Write, Edit and MultiEdit: what they promise and what they refuse.

use crate::support::{Workshop, text_of};
use lathe_protocol::display::Display;
use lathe_protocol::ids::RecordId;
use lathe_session::SessionError;
use lathe_tools::context::ChangeObserver;
use lathe_tools::files::Stamp;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn an_edit_gives_the_structured_result_that_hosts_read() {
    let workshop = Workshop::new();
    let path = workshop.put("a.txt", "one\ntwo\nthree\n");
    let output = workshop.edit("a.txt", "two", "TWO").await;
    assert_eq!(workshop.bytes("a.txt"), b"one\nTWO\nthree\n");
    assert!(text_of(&output).contains("line 2"), "{}", text_of(&output));
    assert_eq!(
        output.structured,
        json!({
            "filePath": path,
            "oldString": "two",
            "newString": "TWO",
            "originalFile": "one\ntwo\nthree\n",
            "structuredPatch": [{
                "oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3,
                "lines": [" one", "-two", "+TWO", " three"],
            }],
            "userModified": false,
            "replaceAll": false,
        })
    );
    assert!(
        matches!(output.display, Display::Diff { path: shown, hunks } if shown == path && hunks.len() == 1)
    );
}

#[tokio::test]
async fn a_write_says_whether_it_created_or_replaced() {
    let workshop = Workshop::new();
    let created = workshop
        .call(
            "Write",
            json!({"file_path": "deep/er/a.txt", "content": "x\n"}),
        )
        .await
        .unwrap();
    assert_eq!(created.structured["type"], "create");
    assert_eq!(created.structured["originalFile"], json!(null));
    assert_eq!(workshop.bytes("deep/er/a.txt"), b"x\n");
    let replaced = workshop
        .call(
            "Write",
            json!({"file_path": "deep/er/a.txt", "content": "y\n"}),
        )
        .await
        .unwrap();
    assert_eq!(replaced.structured["type"], "update");
    assert_eq!(replaced.structured["originalFile"], "x\n");
    assert_eq!(replaced.structured["content"], "y\n");
}

#[tokio::test]
async fn a_file_that_was_not_read_is_not_changed() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one\n");
    for (tool, input) in [
        ("Write", json!({"file_path": "a.txt", "content": "x"})),
        (
            "Edit",
            json!({"file_path": "a.txt", "old_string": "one", "new_string": "x"}),
        ),
        (
            "MultiEdit",
            json!({"file_path": "a.txt", "edits": [{"old_string": "one", "new_string": "x"}]}),
        ),
    ] {
        let error = workshop.error(tool, input).await;
        assert!(error.contains("has not been read"), "{tool}: {error}");
    }
    assert_eq!(workshop.bytes("a.txt"), b"one\n");
}

#[tokio::test]
async fn an_injected_file_does_not_count_as_read() {
    let workshop = Workshop::new();
    let path = workshop.put("a.txt", "one\n");
    let stamp = Stamp::of(&std::fs::metadata(&path).unwrap());
    workshop.session.file_cache.record_injected(&path, stamp);
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "x"});
    assert!(
        workshop
            .error("Edit", edit)
            .await
            .contains("has not been read")
    );
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_changed() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one\n");
    workshop.read("a.txt").await;
    workshop.put("a.txt", "one and more\n");
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "x"});
    let error = workshop.error("Edit", edit.clone()).await;
    assert!(error.contains("changed since it was read"), "{error}");
    assert_eq!(workshop.bytes("a.txt"), b"one and more\n");

    // Once the difference has been told, the model knows the file again.
    let changes = workshop.session.file_cache.changed_on_disk();
    assert!(changes[0].diff.contains("+one and more"), "{changes:?}");
    workshop.call("Edit", edit).await.unwrap();
    assert_eq!(workshop.bytes("a.txt"), b"x and more\n");
    assert!(workshop.session.file_cache.changed_on_disk().is_empty());
}

#[tokio::test]
async fn several_edits_in_a_row_need_one_read() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one two\n");
    workshop.edit("a.txt", "one", "1").await;
    workshop
        .call(
            "Edit",
            json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"}),
        )
        .await
        .unwrap();
    assert_eq!(workshop.bytes("a.txt"), b"1 2\n");
    // What is shown after an edit is the new content, not a note that nothing changed.
    assert!(workshop.read("a.txt").await.contains("1 2"));
}

#[tokio::test]
async fn a_part_is_enough_for_an_edit_but_not_for_a_write() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one\ntwo\nthree\n");
    workshop
        .text("Read", json!({"file_path": "a.txt", "limit": 1}))
        .await;
    let error = workshop
        .error("Write", json!({"file_path": "a.txt", "content": "x"}))
        .await;
    assert!(error.contains("lines 1-1"), "{error}");
    workshop
        .call(
            "Edit",
            json!({"file_path": "a.txt", "old_string": "one", "new_string": "1"}),
        )
        .await
        .unwrap();
    workshop.text("Read", json!({"file_path": "a.txt"})).await;
    workshop
        .call("Write", json!({"file_path": "a.txt", "content": "x"}))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_ambiguous_edit_names_the_places() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "x\ny\nx\n");
    workshop.read("a.txt").await;
    let edit = json!({"file_path": "a.txt", "old_string": "x", "new_string": "z"});
    let error = workshop.error("Edit", edit).await;
    assert!(error.contains("2 times (lines 1, 3)"), "{error}");
    let all =
        json!({"file_path": "a.txt", "old_string": "x", "new_string": "z", "replace_all": "true"});
    let output = workshop.call("Edit", all).await.unwrap();
    assert!(text_of(&output).contains("2 places"));
    assert_eq!(output.structured["replaceAll"], true);
    assert_eq!(workshop.bytes("a.txt"), b"z\ny\nz\n");
}

#[tokio::test]
async fn a_tolerant_match_is_reported() {
    let workshop = Workshop::new();
    workshop.put("a.md", "It’s “fine”.  \nNext\n");
    let output = workshop
        .edit("a.md", "It's \"fine\".\nNext", "It's \"good\".\nLast")
        .await;
    assert!(text_of(&output).contains("quotes"), "{}", text_of(&output));
    assert_eq!(workshop.bytes("a.md"), "It’s “good”.\nLast\n".as_bytes());
    assert_eq!(output.structured["oldString"], "It’s “fine”.  \nNext");
}

#[tokio::test]
async fn useless_edits_are_refused_before_anyone_is_asked() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "x\n");
    workshop.read("a.txt").await;
    let same = json!({"file_path": "a.txt", "old_string": "x", "new_string": "x"});
    assert!(workshop.error("Edit", same).await.contains("the same"));
    let empty = json!({"file_path": "a.txt", "old_string": "", "new_string": "x"});
    assert!(workshop.error("Edit", empty).await.contains("Write"));
    let missing = json!({"file_path": "b.txt", "old_string": "a", "new_string": "x"});
    assert!(
        workshop
            .error("Edit", missing)
            .await
            .contains("does not exist")
    );
    let none = json!({"file_path": "a.txt", "edits": []});
    assert!(
        workshop
            .error("MultiEdit", none)
            .await
            .contains("at least one")
    );
    let misspelt = json!({"file_path": "a.txt", "edits": [
        {"old_string": "one", "new_string": "1", "replaceAll": true}
    ]});
    let error = workshop.error("MultiEdit", misspelt).await;
    assert!(
        error.contains("replaceAll") && error.contains("replace_all"),
        "{error}"
    );
    workshop.put("a.ipynb", "{}");
    let notebook = json!({"file_path": "a.ipynb", "old_string": "a", "new_string": "b"});
    assert!(
        workshop
            .error("Edit", notebook)
            .await
            .contains("NotebookEdit")
    );
    let folder = json!({"file_path": ".", "content": "x"});
    assert!(workshop.error("Write", folder).await.contains("directory"));
}

#[tokio::test]
async fn an_empty_old_string_creates_a_file_or_fills_an_empty_one() {
    let workshop = Workshop::new();
    let create = |name: &str| json!({"file_path": name, "old_string": "", "new_string": "hello\n"});
    workshop.call("Edit", create("new/a.txt")).await.unwrap();
    assert_eq!(workshop.bytes("new/a.txt"), b"hello\n");
    workshop.put("empty.txt", "");
    workshop.read("empty.txt").await;
    workshop.call("Edit", create("empty.txt")).await.unwrap();
    assert_eq!(workshop.bytes("empty.txt"), b"hello\n");
}

#[tokio::test]
async fn several_edits_are_all_made_or_none() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one\ntwo\n");
    workshop.read("a.txt").await;
    let error = workshop
        .error(
            "MultiEdit",
            json!({"file_path": "a.txt", "edits": [
                {"old_string": "one", "new_string": "1"},
                {"old_string": "three", "new_string": "3"},
            ]}),
        )
        .await;
    assert!(error.contains("edits[1]"), "{error}");
    assert_eq!(workshop.bytes("a.txt"), b"one\ntwo\n");
    let output = workshop
        .call(
            "MultiEdit",
            json!({"file_path": "a.txt", "edits": [
                {"old_string": "one", "new_string": "1\n1"},
                {"old_string": "1\n1\ntwo", "new_string": "2"},
            ]}),
        )
        .await
        .unwrap();
    assert_eq!(workshop.bytes("a.txt"), b"2\n");
    assert_eq!(output.structured["originalFile"], "one\ntwo\n");
}

/// When it was told, of which file, and what stood in it then.
type Note = (String, PathBuf, Option<String>);

/// Notes what it is told.
struct Notes(Arc<Mutex<Vec<Note>>>);

impl ChangeObserver for Notes {
    fn before_change(&self, path: &Path, _turn: RecordId) -> Result<(), SessionError> {
        let content = std::fs::read_to_string(path).ok();
        self.0
            .lock()
            .unwrap()
            .push(("before".into(), path.to_owned(), content));
        Ok(())
    }

    fn after_change(&self, path: &Path, _turn: RecordId) {
        let content = std::fs::read_to_string(path).ok();
        self.0
            .lock()
            .unwrap()
            .push(("after".into(), path.to_owned(), content));
    }
}

#[tokio::test]
async fn the_session_sees_a_file_before_and_after_its_change() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let workshop = Workshop::observed(Notes(Arc::clone(&notes)));
    let path = workshop.put("a.txt", "one");
    workshop.edit("a.txt", "one", "two").await;
    assert_eq!(
        *notes.lock().unwrap(),
        [
            ("before".to_owned(), path.clone(), Some("one".to_owned())),
            ("after".to_owned(), path, Some("two".to_owned())),
        ]
    );
}

struct Refusal;

impl ChangeObserver for Refusal {
    fn before_change(&self, path: &Path, _turn: RecordId) -> Result<(), SessionError> {
        Err(SessionError::Io {
            action: "keep",
            path: path.to_owned(),
            source: std::io::Error::other("no room for the copy"),
        })
    }

    fn after_change(&self, path: &Path, _turn: RecordId) {
        panic!("{} was changed", path.display());
    }
}

#[tokio::test]
async fn what_can_not_be_undone_is_not_done() {
    let workshop = Workshop::observed(Refusal);
    workshop.put("a.txt", "one");
    workshop.read("a.txt").await;
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    assert!(
        workshop
            .error("Edit", edit)
            .await
            .contains("no room for the copy")
    );
    assert_eq!(workshop.bytes("a.txt"), b"one");
}

#[tokio::test]
async fn a_stopped_call_changes_nothing() {
    let workshop = Workshop::new();
    workshop.put("a.txt", "one");
    workshop.read("a.txt").await;
    workshop.cancel.cancel();
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    assert!(workshop.error("Edit", edit).await.contains("Stopped"));
    assert_eq!(workshop.bytes("a.txt"), b"one");
}
