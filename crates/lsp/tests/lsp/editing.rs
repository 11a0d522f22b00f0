//! New problems after an edit.

use crate::support::{Work, scripted, until};
use lathe_lsp::{EditOrder, Operation, QueryAnswer};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const NEWS: &str = "Language servers report new problems in files since you changed them:\n";

#[tokio::test]
async fn only_what_an_edit_brought_is_told_and_only_once() {
    for mode in ["normal", "pull", "sulks"] {
        let work = Work::new(mode);
        work.write("a.words", "an old BAD\nODD\nfine\n");
        work.edit(
            "a.words",
            "first\nan old BAD\nODD\nnew BAD\nmore ODD\na HINT\n",
        );
        assert_eq!(
            work.news().await,
            format!(
                "{NEWS}a.words\n  4:5 error: BAD is not a word [words bad]\n  5:6 warning: ODD is not a word [words odd]"
            ),
            "{mode}"
        );
        assert_eq!(work.news().await, "", "{mode}");
        work.edit("a.words", "BAD\nBAD\nODD\nnew BAD\nmore ODD\n");
        let news = work.news().await;
        assert!(
            news.ends_with("1:1 error: BAD is not a word [words bad]"),
            "{mode}: {news}"
        );
        work.edit("a.words", "fine\n");
        assert_eq!(work.news().await, "", "{mode}");
        assert_eq!(work.processes().len(), 1);
    }
}

#[tokio::test]
async fn a_file_that_is_new_has_only_new_problems() {
    let work = Work::new("normal");
    work.edit("made/a.words", "fine\nBAD\n");
    assert!(work.news().await.contains("2:1 error"));
    let open = &work.sent("textDocument/didOpen")[0]["params"]["textDocument"];
    assert_eq!(open["text"], "fine\nBAD\n");
}

#[tokio::test]
async fn edits_that_follow_each_other_are_judged_by_their_end() {
    let work = Work::new("normal");
    work.write("a.words", "old ODD\n");
    work.edit("a.words", "BAD\n");
    work.edit("a.words", "ODD\n");
    work.edit("a.words", "ODD\nBAD at last\n");
    assert_eq!(
        work.news().await,
        format!("{NEWS}a.words\n  2:1 error: BAD is not a word [words bad]")
    );
}

#[tokio::test]
async fn servers_hear_of_an_edit_as_an_editor_would_tell_them() {
    let work = Work::new("normal");
    work.write("a.words", "one\n");
    work.edit("a.words", "two BAD\n");
    work.news().await;
    let open = work.sent("textDocument/didOpen");
    assert_eq!(open[0]["params"]["textDocument"]["text"], "one\n");
    assert_eq!(open[0]["params"]["textDocument"]["languageId"], "words");
    let change = &work.sent("textDocument/didChange")[0]["params"];
    assert_eq!(change["contentChanges"][0]["text"], "two BAD\n");
    assert_eq!(change["textDocument"]["version"], 2);
    until("the file is saved", || {
        work.sent("textDocument/didSave").len() == 1
    })
    .await;
    assert_eq!(
        work.sent("workspace/didChangeWatchedFiles")[0]["params"]["changes"][0]["type"],
        2
    );
}

#[tokio::test]
async fn files_that_a_command_changed_are_told_to_servers_that_run() {
    let work = Work::new("normal");
    let path = work.write("a.words", "one\n");
    work.servers.changed_on_disk(std::slice::from_ref(&path));
    work.hover().await.unwrap();
    work.write("a.words", "two\n");
    let (new, other) = (
        work.write("new.words", "x\n"),
        work.write("other.txt", "x\n"),
    );
    work.servers.changed_on_disk(&[path, new, other]);
    until("the open file is shown", || {
        !work.sent("textDocument/didChange").is_empty()
    })
    .await;
    let told = work.sent("workspace/didChangeWatchedFiles");
    assert_eq!(
        told.len(),
        1,
        "a server that doesn't run isn't started for it"
    );
    assert_eq!(told[0]["params"]["changes"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_an_edit_breaks_in_another_changed_file_is_told_too() {
    // The scripted server finds fault with a file that another one names.
    let work = Work::new("pull");
    work.write("a.words", "x\n");
    work.write("b.words", "x\n");
    work.edit("a.words", "see b.words\n");
    work.edit("b.words", "fine\n");
    assert_eq!(work.news().await, "");
    work.edit("b.words", "BREAKS\n");
    let told = async {
        loop {
            let news = work.news().await;
            if !news.is_empty() {
                return news;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let news = tokio::time::timeout(crate::support::LONG, told)
        .await
        .unwrap();
    assert!(
        news.contains("a.words\n  1:1 error: b.words is broken"),
        "{news}"
    );
}

#[tokio::test]
async fn conversations_beside_each_other_hear_of_their_own_edits() {
    let work = Work::new("normal");
    work.write("a.words", "x\n");
    work.edit("a.words", "BAD\n");
    let cancel = CancellationToken::new();
    let other = work.servers.conversation();
    let other = work.servers.news(other, &cancel).await;
    assert!(other.is_empty());
    let mine = work.servers.news(work.conversation, &cancel).await;
    assert_eq!(mine.len(), 1);
}

#[tokio::test]
async fn a_server_that_says_only_what_is_wrong_is_heard_too() {
    let work = Work::with(|root| json!({"scripted": scripted(root, "only-errors")}));
    work.write("a.words", "x BAD\n");
    work.edit("a.words", "x BAD\nBAD\n");
    assert!(work.news().await.contains("2:1 error"));
}

#[tokio::test]
async fn what_a_compiler_says_after_a_save_is_waited_for() {
    let work = Work::new("compiles");
    work.write("a.words", "x\n");
    work.edit("a.words", "BAD\n");
    assert!(work.news().await.contains("1:1 error"));
    work.edit("a.words", "BAD\nODD\n");
    assert!(work.news().await.contains("2:1 warning"));
}

#[tokio::test]
async fn whoever_waited_in_vain_gets_the_news_later() {
    // No patience at all: the first question comes too early, whatever the machine.
    let work = Work::patient(
        |root| json!({"scripted": scripted(root, "normal")}),
        Some(Duration::ZERO),
    );
    work.write("a.words", "x\n");
    work.edit("a.words", "BAD\n");
    assert_eq!(work.news().await, "");
    let told = async {
        loop {
            let news = work.news().await;
            if !news.is_empty() {
                return news;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let news = tokio::time::timeout(crate::support::LONG, told)
        .await
        .unwrap();
    assert!(news.contains("1:1 error"), "{news}");
}

#[tokio::test]
async fn news_can_be_switched_off_for_all_and_for_one() {
    let work = Work::patient(|root| json!({"scripted": scripted(root, "normal")}), None);
    work.write("a.words", "x\n");
    work.edit("a.words", "BAD\n");
    assert_eq!(work.news().await, "");
    assert!(work.log().is_empty(), "nothing is started for it");
    let work = Work::with(|root| {
        let mut entry = scripted(root, "normal");
        entry["diagnostics"] = json!(false);
        json!({"scripted": entry})
    });
    work.write("a.words", "x\n");
    work.edit("a.words", "BAD\n");
    assert_eq!(work.news().await, "");
    assert!(work.log().is_empty());
}

fn rename() -> EditOrder {
    EditOrder::Rename {
        new_name: "new".to_owned(),
    }
}

#[tokio::test]
async fn a_rename_gives_the_new_texts_and_changes_nothing() {
    let work = Work::new("normal");
    work.write("a.words", "old text\n");
    let changes = work.edited("a.words", Some((1, "old")), &rename()).await;
    let changes = changes.unwrap();
    assert_eq!(changes[0].before, "old text\n");
    assert_eq!(changes[0].after, "new text\n");
    let file = std::fs::read_to_string(work.root.join("a.words")).unwrap();
    assert_eq!(file, "old text\n");
    work.servers.shut_down().await;
}

#[tokio::test]
async fn edits_that_do_more_than_change_text_are_refused_whole() {
    for (mode, reason) in [
        ("moves", "would also rename the file"),
        ("overlaps", "overlap"),
        ("unnamed", "nothing can be renamed there"),
        ("few", "can't answer rename"),
    ] {
        let work = Work::new(mode);
        work.write("a.words", "old text\n");
        let error = work.edited("a.words", Some((1, "old")), &rename()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(reason), "{mode}: {error}");
        work.servers.shut_down().await;
    }
}

#[tokio::test]
async fn code_actions_come_with_the_problems_of_the_line_and_commands_are_not_run() {
    let work = Work::new("normal");
    work.write("a.words", "BAD text\n\nBAD\n");
    let answer = work.ask(Operation::CodeActions, "a.words", 1, 1).await;
    let QueryAnswer::Actions(actions) = answer.unwrap() else {
        panic!("no actions");
    };
    let shown: Vec<(&str, Option<&str>)> = actions
        .iter()
        .map(|action| (action.title.as_str(), action.refused.as_deref()))
        .collect();
    assert_eq!(shown[1], ("fix 1", None), "{shown:?}");
    for (index, reason) in [
        (0, "runs a command"),
        (2, "the moon is wrong"),
        (3, "would also create the file"),
        (4, "runs a command"),
    ] {
        assert!(shown[index].1.unwrap().contains(reason), "{shown:?}");
        let order = EditOrder::CodeAction {
            title: shown[index].0.to_owned(),
        };
        let refused = work.edited("a.words", Some((1, "BAD")), &order).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let order = EditOrder::CodeAction {
        title: "fix 1".to_owned(),
    };
    let changes = work
        .edited("a.words", Some((1, "BAD")), &order)
        .await
        .unwrap();
    assert_eq!(changes[0].after, "good text\n\nBAD\n");
    assert!(work.sent("workspace/executeCommand").is_empty());
    work.servers.shut_down().await;
}
