use super::{Stage, rows, said};
use lathe_scripted::{Position, Reply};
use serde_json::json;

#[test]
fn keys_edit_the_prompt() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.send("one two three");
    terminal.wait_for("❯ one two three");
    terminal.send("\x17");
    terminal.wait("a word less", |screen| {
        screen.contains("❯ one two") && !screen.contains("three")
    });
    terminal.send("\x01zero ");
    terminal.wait_for("❯ zero one two");
    terminal.send("\x1f");
    terminal.wait_gone("zero");
    terminal.send("\x05\x19");
    terminal.wait_for("one two three");
}

#[test]
fn a_backslash_and_other_keys_begin_new_lines() {
    let stage = Stage::replies([Reply::text("three lines")]);
    let terminal = stage.open();
    terminal.send("first\\\r");
    terminal.wait("a second row", |screen| screen.contains("❯ first\n"));
    terminal.send("second\x1b[13;2uthird");
    terminal.wait_for("  third");
    terminal.send("\r");
    terminal.wait_for("● three lines");
    assert_eq!(said(&stage, 0), "first\nsecond\nthird");
}

#[test]
fn a_paste_of_ten_thousand_lines_is_one_placeholder_and_all_of_it_is_sent() {
    let stage = Stage::replies([Reply::text("read it")]);
    let terminal = stage.open();
    let text: String = (0..10_000).map(|n| format!("pasted line {n}\n")).collect();
    terminal.send("look: ");
    terminal.wait_for("❯ look:");
    terminal.paste(&text);
    terminal.wait_for("[Pasted text #1 +10000 lines]");
    terminal.send("\r");
    terminal.wait_for("● read it");
    let sent = said(&stage, 0);
    assert!(sent.starts_with("look: pasted line 0\n") && sent.contains("pasted line 9999"));
}

#[test]
fn a_short_paste_is_text_and_can_do_nothing_else() {
    let stage = Stage::replies([Reply::text("read it")]);
    let terminal = stage.open();
    terminal.paste("two\nlines\r\x1b[31mred");
    terminal.wait_for("lines");
    assert_eq!(stage.server.request_count(), 0);
    terminal.send("\r");
    terminal.wait_for("● read it");
    assert_eq!(said(&stage, 0), "two\nlines\n[31mred");
}

#[test]
fn the_path_of_an_image_attaches_it() {
    let stage = Stage::replies([Reply::text("nice picture")]);
    // The smallest PNG: one transparent pixel.
    let png = [
        0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0,
        0, 0, 1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0a, 0x49, 0x44,
        0x41, 0x54, 0x78, 0x9c, 0x63, 0, 1, 0, 0, 5, 0, 1, 0x0d, 0x0a, 0x2d, 0xb4, 0, 0, 0, 0,
        0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
    ];
    let path = stage.home.write("dot.png", png);
    let terminal = stage.open();
    terminal.paste(&path.display().to_string());
    terminal.wait_for("[Image #1]");
    terminal.send(" what is it\r");
    terminal.wait_for("● nice picture");
    assert!(
        stage.server.message_requests()[0]
            .to_json()
            .to_string()
            .contains("image/png")
    );
}

#[test]
fn up_restores_earlier_prompts_and_down_the_typed_text() {
    let stage = Stage::replies([Reply::text("ok").times(2)]);
    let terminal = stage.open();
    terminal.say("fix the first");
    terminal.wait_for("● ok");
    terminal.say("look elsewhere");
    terminal.wait("both answers", |screen| screen.matches("● ok").count() == 2);
    terminal.send("fix");
    terminal.wait("it typed", |screen| screen.contains("❯ fix\n"));
    terminal.send("\x1b[A");
    terminal.wait("the prompt from before", |screen| {
        screen.matches("❯ fix the first").count() == 2
    });
    terminal.send("\x1b[B");
    terminal.wait("what was typed", |screen| screen.contains("❯ fix\n"));
}

#[test]
fn the_history_is_kept_for_the_next_time_and_searched() {
    let stage = Stage::replies([Reply::text("ok").times(2)]);
    let mut terminal = stage.open();
    terminal.say("paint the fence");
    terminal.wait_for("● ok");
    terminal.say("mow the lawn");
    terminal.wait("both", |screen| screen.matches("● ok").count() == 2);
    terminal.leave();
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.send("\x12");
    terminal.wait_for("Prompt history");
    terminal.send("fen");
    terminal.wait_gone("mow the lawn");
    terminal.send("\r");
    terminal.wait("it in the prompt", |screen| {
        screen.contains("❯ paint the fence") && !screen.contains("Prompt history")
    });
}

#[test]
fn a_draft_survives_a_kill() {
    let stage = Stage::replies([]);
    let mut terminal = stage.open();
    terminal.send("half a thought");
    terminal.wait_for("❯ half a thought");
    let drafts = stage.home.config().join("drafts");
    let until = std::time::Instant::now() + lathe_testkit::HANG_LIMIT;
    while !std::fs::read_dir(&drafts).is_ok_and(|mut folder| {
        folder.any(|entry| {
            std::fs::read_to_string(entry.unwrap().path())
                .is_ok_and(|text| text.contains("half a thought"))
        })
    }) {
        assert!(
            std::time::Instant::now() < until,
            "the draft is never written"
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    terminal.signal(nix::sys::signal::Signal::SIGKILL);
    terminal.ended();
    let terminal = stage.open();
    terminal.wait_for("❯ half a thought");
}

#[test]
fn a_prompt_can_be_put_aside_and_taken_back() {
    let stage = Stage::replies([Reply::text("ok")]);
    let terminal = stage.open();
    terminal.send("for later");
    terminal.wait_for("❯ for later");
    terminal.send("\x13");
    terminal.wait_for("stashed");
    terminal.say("first this");
    terminal.wait_for("● ok");
    terminal.send("\x13");
    terminal.wait_for("❯ for later");
}

#[test]
fn the_external_editor_writes_the_prompt() {
    let mut stage = Stage::replies([Reply::text("ok")]);
    let script = stage
        .home
        .write("edit.sh", "#!/bin/sh\nprintf 'from the editor' > \"$1\"\n");
    stage.home = stage
        .home
        .variable("EDITOR", format!("sh {}", script.display()));
    let terminal = stage.open();
    terminal.send("before");
    terminal.wait_for("❯ before");
    terminal.send("\x07");
    terminal.wait_for("❯ from the editor");
    terminal.send("\r");
    terminal.wait_for("● ok");
    assert_eq!(said(&stage, 0), "from the editor");
}

#[test]
fn commands_are_completed() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.send("/statu");
    terminal.wait_for("❯ /status");
    terminal.wait_for("Show session, model, folder and settings");
    terminal.send("\t");
    terminal.wait_for("❯ /status");
    terminal.send("\r");
    terminal.wait_for("transcript");
}

#[test]
fn files_are_completed_and_sent_by_name() {
    let stage = Stage::replies([Reply::text("read")]);
    stage.home.write("src/deep/engine_room.rs", "x");
    stage.home.write("src/other.rs", "x");
    let terminal = stage.open();
    terminal.send("see @engroom");
    terminal.wait_for("src/deep/engine_room.rs");
    terminal.send("\t");
    terminal.wait_for("❯ see @src/deep/engine_room.rs");
    terminal.send("\r");
    terminal.wait_for("● read");
    assert!(
        stage.server.message_requests()[0]
            .to_json()
            .to_string()
            .contains("engine_room.rs")
    );
}

#[test]
fn a_file_suggestion_command_finds_files_and_the_index_replaces_it_on_failure() {
    let stage = Stage::replies([]);
    stage.home.write("src/engine_room.rs", "x");
    let command = "read -r line; case $line in *broken*) echo 'no index here' >&2; exit 7;; *) echo found/by/command.rs;; esac";
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"fileSuggestion": {"type": "command", "command": command}}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    // Before the session is open its settings are not known.
    terminal.wait_for("claude");
    terminal.send("@x");
    terminal.wait_for("found/by/command.rs");
    terminal.send("\t");
    terminal.wait_for("❯ @found/by/command.rs");
    terminal.send("@broken");
    terminal.wait_for("no index here");
    terminal.wait_for("fileSuggestion");
    terminal.send("\x15@engroom");
    terminal.wait_for("src/engine_room.rs");
}

#[test]
fn a_hundred_thousand_files_are_no_hindrance() {
    let stage = Stage::replies([]);
    // In memory where that is possible: it is not the disk that is tested.
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    for sub in 0..100 {
        let path = folder.path().join(format!("d{sub}"));
        std::fs::create_dir(&path).unwrap();
        for file in 0..1000 {
            std::fs::File::create(path.join(format!("file_{file}.txt"))).unwrap();
        }
    }
    std::fs::write(folder.path().join("d50/needle_in_there.rs"), "x").unwrap();
    let terminal = stage.open_with(&["--cwd", folder.path().to_str().unwrap()], 80, 24);
    terminal.send("@needlethere");
    // Typing continues while the files are looked up.
    terminal.wait_for("❯ @needlethere");
    terminal.wait_for("d50/needle_in_there.rs");
}

#[test]
fn escape_closes_the_completion_and_nothing_else() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.send("/he");
    terminal.wait_for("Show help");
    terminal.send("\x1b");
    terminal.wait_gone("what can be done here");
    assert!(terminal.screen().contains("❯ /he"));
}

#[test]
fn a_shell_command_runs_here_and_the_model_hears_of_it() {
    let stage = Stage::replies([Reply::text("I saw it")]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.say("!echo from-the-shell; exit 4");
    terminal.wait_for("exit 4");
    terminal.wait_for("  from-the-shell");
    assert_eq!(stage.server.request_count(), 0);
    terminal.say("what happened");
    terminal.wait_for("● I saw it");
    let sent = stage.server.message_requests()[0].to_json().to_string();
    assert!(
        sent.contains("from-the-shell") && sent.contains("<exit-code>4"),
        "{sent}"
    );
}

#[test]
fn a_shell_command_can_be_stopped() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.say("!echo begun; sleep 300");
    terminal.wait_for("  begun");
    terminal.send("\x1b");
    terminal.wait("the live part to go", |screen| {
        screen.matches("begun").count() >= 2 && screen.lines().any(|line| line.trim_end() == "❯")
    });
}

#[test]
fn memory_is_written_where_the_user_chooses() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.say("# always use tabs");
    terminal.wait_for("Where should this be remembered?");
    terminal.send("1");
    terminal.wait_for("Remembered in");
    assert_eq!(stage.home.read("AGENTS.md"), "- always use tabs\n");
}

#[test]
fn vim_keys_work() {
    let stage = Stage::replies([]);
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"editorMode": "vim"}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    terminal.wait_for("INSERT");
    terminal.send("one two");
    terminal.wait_for("❯ one two");
    terminal.send("\x1b");
    terminal.wait_for("NORMAL");
    terminal.send("bdwa");
    terminal.wait_for("INSERT");
    terminal.send("three");
    terminal.wait_for("❯ one three");
}

#[test]
fn keys_can_be_rebound() {
    let stage = Stage::replies([]);
    std::fs::write(
        stage.home.config().join("keybindings.json"),
        json!({"prompt": {"ctrl+k ctrl+s": "stash", "ctrl+q": "fly"}}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    terminal.wait_for("'fly'");
    terminal.send("aside");
    terminal.wait_for("❯ aside");
    terminal.send("\x0b");
    terminal.wait_for("ctrl+k …");
    terminal.send("\x13");
    terminal.wait_for("stashed");
}

#[test]
fn wide_and_right_to_left_text_keeps_the_cursor_where_it_is() {
    let stage = Stage::replies([Reply::text("漢字と絵文字 👩‍👩‍👧 and שלום עולם, e\u{301}tude")]);
    let terminal = stage.open();
    terminal.send("漢字 שלום");
    terminal.wait_for("❯ 漢字 שלום");
    let (_, column) = terminal.cursor();
    assert_eq!(column, 2 + 4 + 1 + 4);
    terminal.send("\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D");
    terminal.wait("the cursor between the wide characters", |_| true);
    terminal.send("X");
    terminal.wait_for("❯ 漢X字");
    terminal.send("\r");
    terminal.wait_for("שלום עולם");
}

#[test]
fn a_long_prompt_wraps_and_scrolls() {
    let stage = Stage::replies([]);
    let terminal = stage.open_sized(40, 12);
    let text: String = (0..60).map(|n| format!("word{n} ")).collect();
    terminal.paste(&text);
    terminal.wait_for("word59");
    assert!(rows(&terminal).iter().all(|row| row.chars().count() <= 40));
    terminal.send("\x1b[1;5H");
    terminal.wait_for("❯ word0");
}

#[test]
fn a_question_mark_shows_the_short_help() {
    let stage = Stage::replies([Reply::text("x").gate(Position::MidBlock(0), "g").optional()]);
    let terminal = stage.open();
    terminal.send("?");
    terminal.wait_for("external editor");
    terminal.send("\x1b");
    terminal.wait_gone("external editor");
    terminal.send("a?");
    terminal.wait_for("❯ a?");
}

#[test]
fn a_suggestion_is_shown_and_accepted_with_tab() {
    let mut stage = Stage::replies([
        Reply::text("it is fixed"),
        Reply::text("now run the tests"),
        Reply::text("all green"),
        Reply::text("commit it"),
    ]);
    stage.home = stage.home.variable("LATHE_PROMPT_SUGGESTIONS", "1");
    let terminal = stage.open();
    terminal.say("fix it");
    terminal.wait_for("❯ now run the tests");
    terminal.wait_for("tab accepts the suggestion");
    terminal.send("\t");
    terminal.wait("it in the prompt", |screen| {
        screen.contains("❯ now run the tests") && screen.contains("enter send")
    });
    terminal.send("\r");
    terminal.wait_for("● all green");
    assert_eq!(said(&stage, 2), "now run the tests");
    // Typing goes over the suggestion.
    terminal.wait_for("❯ commit it");
    terminal.send("x");
    terminal.wait("only what was typed", |screen| {
        screen.contains("❯ x") && !screen.contains("commit it")
    });
    stage.server.finish();
}

#[test]
fn no_suggestion_is_asked_for_when_settings_say_so() {
    let mut stage = Stage::replies([Reply::text("one"), Reply::text("two")]);
    stage.home = stage.home.variable("LATHE_PROMPT_SUGGESTIONS", "");
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"promptSuggestions": false}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    terminal.say("first");
    terminal.wait_for("● one");
    terminal.wait_gone("esc to interrupt");
    terminal.say("second");
    terminal.wait_for("● two");
    terminal.wait_gone("esc to interrupt");
    assert_eq!(stage.server.message_requests().len(), 2);
    stage.server.finish();
}

#[test]
fn changed_key_bindings_count_at_once() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    let file = stage.home.config().join("keybindings.json");
    std::fs::write(&file, json!({"prompt": {"ctrl+q": "stash"}}).to_string()).unwrap();
    terminal.wait_for("reloaded the key bindings");
    terminal.send("aside");
    terminal.wait_for("❯ aside");
    terminal.send("\x11");
    terminal.wait_for("stashed");
    std::fs::write(&file, json!({"prompt": {"ctrl+q": "fly"}}).to_string()).unwrap();
    terminal.wait_for("'fly'");
}

#[test]
fn a_changed_theme_is_seen_at_once() {
    let mut stage = Stage::replies([]);
    stage.home = stage.home.variable("COLORTERM", "truecolor");
    let themes = stage.home.config().join("themes");
    std::fs::create_dir_all(&themes).unwrap();
    std::fs::write(
        themes.join("mine.json"),
        json!({"muted": "#010203"}).to_string(),
    )
    .unwrap();
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"theme": "mine"}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    terminal.wait_for_bytes("38;2;1;2;3");
    terminal.wait_for("claude");
    std::fs::write(
        themes.join("mine.json"),
        json!({"muted": "#070809"}).to_string(),
    )
    .unwrap();
    terminal.wait_for_bytes("38;2;7;8;9");
}

#[test]
fn a_changed_terminal_setting_takes_effect_at_once() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"editorMode": "vim"}).to_string(),
    )
    .unwrap();
    terminal.wait_for("INSERT");
}
