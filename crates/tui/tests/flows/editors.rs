//! The editor beside the terminal: an extension that follows the protocol, the real binary, and both dialogs.

use super::Stage;
use super::extension::Extension;
use lathe_scripted::{Reply, Scenario};
use lathe_testkit::Terminal;
use serde_json::json;

/// A stage whose model reads and then edits `x.rs`, with an editor that has the folder open.
struct Edited {
    stage: Stage,
    editor: Extension,
    terminal: Terminal,
    path: std::path::PathBuf,
}

fn editing(arguments: &[&str]) -> Edited {
    let server = Scenario::new().responder(|request| {
        let calls = request
            .messages()
            .iter()
            .filter(|message| message["role"] == "assistant")
            .count();
        match calls {
            0 => Reply::tool_use("Read", json!({"file_path": "x.rs"})),
            1 => Reply::tool_use(
                "Edit",
                json!({"file_path": "x.rs", "old_string": "two", "new_string": "2"}),
            ),
            _ => Reply::text("finished"),
        }
    });
    let stage = Stage::new(server);
    let path = stage.home.project().join("x.rs");
    std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
    let editor = Extension::start(&stage.home, "Fake Editor");
    let terminal = stage.open_with(arguments, 100, 30);
    terminal.wait_for("Fake Editor");
    Edited {
        stage,
        editor,
        terminal,
        path,
    }
}

impl Edited {
    fn text(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }

    /// Everything that the last request told the model.
    fn last_request(&self) -> String {
        let requests = self.stage.server.message_requests();
        json!(requests.last().unwrap().messages()).to_string()
    }
}

#[test]
fn the_terminal_connects_to_the_editor_that_has_its_folder_open() {
    let stage = Stage::replies([Reply::text("hello there")]);
    let editor = Extension::start(&stage.home, "Fake Editor");
    let gone = editor.lock.with_file_name("1.lock");
    std::fs::write(
        &gone,
        json!({"pid": i32::MAX, "ideName": "Gone"}).to_string(),
    )
    .unwrap();
    let terminal = stage.open_with(&[], 100, 30);
    terminal.wait_for("Fake Editor");
    assert_eq!(editor.seen().protocol, Some(json!("2025-03-26")));
    assert!(
        !gone.exists(),
        "the file of an editor that is gone is removed"
    );
    terminal.say("hi");
    terminal.wait_for("● hello there");
    // Of its tools the model sees two.
    let tools: Vec<String> = stage.server.message_requests()[0].body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
        .filter(|name| name.starts_with("mcp__ide__"))
        .collect();
    let announced = stage.server.message_requests()[0].body.to_string();
    for name in ["mcp__ide__getDiagnostics", "mcp__ide__executeCode"] {
        assert!(announced.contains(name), "{name}: {tools:?}");
    }
    assert!(!announced.contains("mcp__ide__openDiff"), "{tools:?}");
}

#[test]
fn an_editor_is_connected_by_itself_only_where_settings_and_environment_agree() {
    for (setting, variable, port, expected) in [
        (Some(false), None, false, false),
        (Some(false), Some("1"), false, true),
        (None, Some("0"), false, false),
        (None, None, true, true),
    ] {
        let mut stage = Stage::replies([Reply::text("hello there")]);
        if let Some(on) = setting {
            let settings = json!({"ide": {"autoConnect": on}}).to_string();
            std::fs::write(stage.home.config().join("settings.json"), settings).unwrap();
        }
        let editor = Extension::start(&stage.home, "Fake Editor");
        // A second one with the same folder: only the port says which.
        let second = port.then(|| Extension::start(&stage.home, "Other Editor"));
        if let Some(value) = variable {
            stage.home = stage.home.variable("ENABLE_IDE_INTEGRATION", value);
        }
        if port {
            stage.home = stage
                .home
                .variable("CLAUDE_CODE_SSE_PORT", editor.port.to_string());
        }
        let mut terminal = stage.open_with(&[], 100, 30);
        if expected {
            terminal.wait_for("Fake Editor");
        }
        terminal.say("hi");
        terminal.wait_for("● hello there");
        assert_eq!(
            editor.seen().connections > 0,
            expected,
            "{setting:?} {variable:?}"
        );
        if let Some(second) = &second {
            assert_eq!(second.seen().connections, 0);
        }
        terminal.leave();
    }
}

#[test]
fn a_selection_is_shown_and_goes_with_the_next_prompt_once() {
    let stage = Stage::replies([Reply::text("I see it"), Reply::text("still there")]);
    let editor = Extension::start(&stage.home, "Fake Editor");
    let terminal = stage.open_with(&[], 100, 30);
    terminal.wait_for("Fake Editor");
    let path = stage.home.project().join("x.rs");
    editor.select(&path, (1, 3), "let a = 1;\nlet b = 2;\nlet c");
    terminal.wait_for("3 lines selected in x.rs");
    terminal.say("what is this");
    terminal.wait_for("● I see it");
    terminal.say("and now");
    terminal.wait_for("● still there");
    let requests = stage.server.message_requests();
    let told = |index: usize| json!(requests[index].messages()).to_string();
    assert!(
        told(0).contains("selected lines 2 to 4 of x.rs in Fake Editor"),
        "{}",
        told(0)
    );
    assert!(told(0).contains("let b = 2;"));
    assert_eq!(told(1).matches("has selected lines").count(), 1);
    // Nothing selected: the open file is what there is to tell.
    editor.select(&path, (0, 0), "");
    terminal.wait_for("x.rs is open");
}

#[test]
fn what_a_rule_closes_is_not_taken_from_the_editor() {
    let stage = Stage::replies([Reply::text("nothing seen")]);
    let settings = json!({"permissions": {"deny": ["Read(./secret.txt)"]}}).to_string();
    std::fs::write(stage.home.config().join("settings.json"), settings).unwrap();
    let secret = stage.home.project().join("secret.txt");
    std::fs::write(&secret, "the password is swordfish\n").unwrap();
    let editor = Extension::start(&stage.home, "Fake Editor");
    let terminal = stage.open_with(&[], 100, 30);
    terminal.wait_for("Fake Editor");
    editor.select(&secret, (0, 0), "the password is swordfish");
    editor.notify(
        "at_mentioned",
        &json!({"filePath": secret, "lineStart": 1, "lineEnd": 1}),
    );
    terminal.wait_for("was not put into the prompt");
    terminal.say("what do you see");
    terminal.wait_for("● nothing seen");
    let told = json!(stage.server.message_requests()[0].messages()).to_string();
    assert!(
        !told.contains("swordfish") && !told.contains("secret.txt"),
        "{told}"
    );
}

#[test]
fn a_mention_of_the_editor_is_put_into_the_prompt() {
    let stage = Stage::replies([Reply::text("read it")]);
    let path = stage.home.project().join("x.rs");
    let lines: String = (1..=30).map(|line| format!("line {line}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    let editor = Extension::start(&stage.home, "Fake Editor");
    let terminal = stage.open_with(&[], 100, 30);
    terminal.wait_for("Fake Editor");
    editor.notify(
        "at_mentioned",
        &json!({"filePath": path, "lineStart": 10, "lineEnd": 20}),
    );
    terminal.wait_for("@x.rs#L10-20");
    terminal.say("explain");
    terminal.wait_for("● read it");
    let told = json!(stage.server.message_requests()[0].messages()).to_string();
    assert!(told.contains("@x.rs#L10-20 explain"), "{told}");
    assert!(
        told.contains("line 20") && !told.contains("line 21"),
        "{told}"
    );
}

#[test]
fn the_editor_answers_first_and_what_was_changed_there_is_written() {
    let it = editing(&[]);
    it.terminal.say("go");
    it.terminal.wait_for("Change x.rs?");
    let diff = it.editor.called("openDiff");
    assert_eq!(diff["new_file_contents"], "one\n2\nthree\n");
    assert_eq!(diff["old_file_path"], json!(it.path));
    it.editor
        .leave_diff(&["FILE_SAVED", "one\nmy own two\nthree\n"]);
    it.terminal.wait_for("● finished");
    assert!(!it.terminal.screen().contains("Change x.rs?"));
    assert_eq!(it.text(), "one\nmy own two\nthree\n");
    let told = it.last_request();
    assert!(
        told.contains("The user changed your edit of x.rs"),
        "{told}"
    );
    assert!(told.contains("+my own two"), "{told}");
}

#[test]
fn the_terminal_answers_first_and_the_diff_is_closed() {
    let it = editing(&[]);
    it.terminal.say("go");
    it.terminal.wait_for("Change x.rs?");
    let diff = it.editor.called("openDiff");
    it.terminal.send("y");
    it.terminal.wait_for("● finished");
    assert_eq!(it.text(), "one\n2\nthree\n");
    assert_eq!(it.editor.called("close_tab")["tab_name"], diff["tab_name"]);
    // An answer that comes too late changes nothing.
    it.editor.leave_diff(&["DIFF_REJECTED", "tab"]);
    assert_eq!(it.text(), "one\n2\nthree\n");
}

#[test]
fn a_diff_that_is_rejected_in_the_editor_is_a_no() {
    let it = editing(&[]);
    it.terminal.say("go");
    it.terminal.wait_for("Change x.rs?");
    it.editor.leave_diff(&["DIFF_REJECTED", "tab"]);
    it.terminal.wait_for("● finished");
    assert_eq!(it.text(), "one\ntwo\nthree\n");
    assert!(
        it.last_request()
            .contains("rejected this change in the editor")
    );
}

#[test]
fn a_tab_that_is_closed_leaves_the_question_to_the_terminal() {
    let it = editing(&[]);
    it.terminal.say("go");
    it.terminal.wait_for("Change x.rs?");
    it.editor.leave_diff(&["TAB_CLOSED"]);
    it.editor.called("close_tab");
    assert!(it.terminal.screen().contains("Change x.rs?"));
    it.terminal.send("y");
    it.terminal.wait_for("● finished");
    assert_eq!(it.text(), "one\n2\nthree\n");
}

#[test]
fn problems_that_come_up_with_an_edit_are_told_once() {
    let it = editing(&["--permission-mode", "acceptEdits"]);
    let problem = |line: u64, message: &str| json!({"message": message, "severity": "Error", "range": {"start": {"line": line, "character": 0}}});
    it.editor.seen().problems = vec![
        ("one", problem(0, "an old problem")),
        ("2", problem(1, "no such name")),
    ];
    it.terminal.say("go");
    it.terminal.wait_for("● finished");
    assert_eq!(it.text(), "one\n2\nthree\n");
    let told = it.last_request();
    assert_eq!(
        told.matches("x.rs:2: error: no such name").count(),
        1,
        "{told}"
    );
    assert!(!told.contains("an old problem"), "{told}");
}

#[test]
fn a_buffer_that_was_not_saved_is_asked_about_and_saved_first() {
    let it = editing(&["--permission-mode", "acceptEdits"]);
    let typed = "one\ntwo\nthree\nand what I typed\n".to_owned();
    it.editor
        .seen()
        .unsaved
        .insert(it.path.clone(), typed.clone());
    it.terminal.say("go");
    it.terminal.wait_for("Change x.rs?");
    it.terminal.wait_for("not saved");
    it.terminal.send("y");
    it.terminal.wait_for("● finished");
    it.editor.called("saveDocument");
    // The file isn't what the model read any more: it has to read it again, and nothing is lost.
    assert_eq!(it.text(), typed);
    assert!(
        it.last_request().contains("changed since"),
        "{}",
        it.last_request()
    );
}

#[test]
fn code_runs_in_the_editor_only_with_permission() {
    let stage = Stage::new(Scenario::new().responder(|request| {
        let calls = request.messages().iter();
        match calls
            .filter(|message| message["role"] == "assistant")
            .count()
        {
            0 => Reply::tool_use(
                "ToolSearch",
                json!({"query": "select:mcp__ide__executeCode"}),
            ),
            1 => Reply::tool_use("mcp__ide__executeCode", json!({"code": "6 * 7"})),
            _ => Reply::text("finished"),
        }
    }));
    let editor = Extension::start(&stage.home, "Fake Editor");
    let terminal = stage.open_with(&[], 100, 30);
    terminal.wait_for("Fake Editor");
    terminal.say("go");
    terminal.wait_for("executeCode?");
    let ran = |editor: &Extension| {
        let seen = editor.seen();
        seen.calls.iter().any(|(name, _)| name == "executeCode")
    };
    assert!(!ran(&editor));
    terminal.send("y");
    terminal.wait_for("● finished");
    assert!(ran(&editor));
    let requests = stage.server.message_requests();
    let told = json!(requests.last().unwrap().messages()).to_string();
    assert!(told.contains("forty-two"), "{told}");
}

#[test]
fn ide_shows_the_editors_and_chooses_one() {
    let stage = Stage::replies([Reply::text("hello there")]);
    let first = Extension::start(&stage.home, "First Editor");
    let second = Extension::start(&stage.home, "Second Editor");
    let terminal = stage.open_with(&[], 100, 30);
    // Both have the folder open, so none is chosen.
    terminal.say("/ide");
    terminal.wait_for("Connect to which editor?");
    terminal.wait_for("has this folder open");
    terminal.send("\u{1b}");
    terminal.wait_gone("Connect to which editor?");
    terminal.say("/ide Second Editor");
    terminal.wait_for("connected to Second Editor");
    assert_eq!(second.seen().connections, 1);
    assert_eq!(first.seen().connections, 0);
    terminal.say("/ide");
    terminal.wait_for("connected ·");
    terminal.send("\u{1b}");
    terminal.wait_gone("Connect to which editor?");
    terminal.say("/ide nobody");
    terminal.wait_for("no editor 'nobody' found");
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let stage = Stage::replies([Reply::text("I see it")]);
    let editor = Extension::start(&stage.home, "Fake Editor");
    let terminal = stage.open_with(&[], 100, 30);
    terminal.wait_for("Fake Editor");
    editor.hang_up();
    editor.until("a second connection", |seen| {
        (seen.connections > 1).then_some(())
    });
    terminal.wait_for("Fake Editor");
    let path = stage.home.project().join("y.rs");
    editor.select(&path, (0, 1), "a\nb");
    terminal.wait_for("2 lines selected in y.rs");
}

#[test]
fn the_editor_that_was_chosen_stays_after_clear() {
    let stage = Stage::replies([Reply::text("hello there"), Reply::text("hello again")]);
    let settings = json!({"ide": {"autoConnect": false}}).to_string();
    std::fs::write(stage.home.config().join("settings.json"), settings).unwrap();
    let first = Extension::start(&stage.home, "First Editor");
    let second = Extension::start(&stage.home, "Second Editor");
    let terminal = stage.open_with(&[], 100, 30);
    terminal.say("/ide Second Editor");
    terminal.wait_for("connected to Second Editor");
    terminal.say("hi");
    terminal.wait_for("● hello there");
    terminal.say("/clear");
    // The next conversation connects again and looks at what is open.
    second.until("a second connection", |seen| {
        let looks = seen.calls.iter().filter(|it| it.0 == "getOpenEditors");
        (looks.count() == 2).then_some(())
    });
    second.select(&stage.home.project().join("z.rs"), (0, 2), "a\nb\nc");
    terminal.wait_for("3 lines selected in z.rs");
    assert_eq!(first.seen().connections, 0);
}

#[test]
fn an_editor_that_starts_anew_is_found_with_the_next_prompt() {
    let stage = Stage::replies([Reply::text("hello there"), Reply::text("hello again")]);
    let terminal = stage.open_with(&[], 100, 30);
    terminal.wait_for("claude");
    // It comes after the terminal, on its own.
    let editor = Extension::start(&stage.home, "Late Editor");
    terminal.say("hi");
    terminal.wait_for("● hello there");
    terminal.wait_for("Late Editor");
    // Its window is loaded anew: another port, another file.
    editor.quit();
    let _again = Extension::start(&stage.home, "Loaded Anew");
    terminal.wait_gone("Late Editor");
    terminal.say("and now");
    terminal.wait_for("● hello again");
    terminal.wait_for("Loaded Anew");
}

#[test]
fn a_file_is_opened_in_the_editor() {
    let stage = Stage::replies([]);
    let path = stage.home.project().join("x.rs");
    std::fs::write(&path, "one\ntwo\nthree\none\n").unwrap();
    let editor = Extension::start(&stage.home, "Fake Editor");
    let terminal = stage.open_with(&[], 100, 30);
    terminal.wait_for("Fake Editor");
    terminal.say("/ide open x.rs:2");
    terminal.wait_for("opened x.rs in Fake Editor");
    let asked = editor.called("openFile");
    assert_eq!(asked["filePath"], json!(path));
    assert_eq!(asked["startLine"], 2);
    assert_eq!(asked["startText"], "two");
    // A text that stands in two places names neither.
    terminal.say("/ide open x.rs:4");
    let asked = editor.until("the second file", |seen| {
        let mut calls = seen.calls.iter().rev();
        let call = calls.find(|(name, _)| name == "openFile")?;
        (call.1["startLine"] == 4).then(|| call.1.clone())
    });
    assert_eq!(asked.get("startText"), None);
    terminal.say("/ide open none.rs");
    terminal.wait_for("There is no file none.rs");
}

#[test]
fn an_editor_is_asked_for_its_folders_and_diffs_that_were_left_are_closed() {
    let stage = Stage::replies([]);
    let editor = Extension::start(&stage.home, "Fake Editor");
    let added = stage.home.home().join("added-since");
    std::fs::create_dir_all(&added).unwrap();
    editor.seen().opened_since = vec![stage.home.project(), added];
    let terminal = stage.open_with(&[], 160, 30);
    terminal.wait_for("Fake Editor");
    editor.called("closeAllDiffTabs");
    editor.called("getWorkspaceFolders");
    // What is asked after it has been answered when this was.
    editor.called("getOpenEditors");
    terminal.say("/ide");
    terminal.wait_for("added-since");
}
