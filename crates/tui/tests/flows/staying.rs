//! Small things that make people stay: nothing is lost, nothing is decided by accident, nothing wrecks the screen.

use super::{Stage, rows, said};
use lathe_scripted::{Position, Reply};
use lathe_testkit::TestHome;
use serde_json::json;

/// An answer that comes in several pieces.
const LONG: &str = "The answer begins here and goes on until it ends.";

fn with_hook(stage: &Stage) {
    let hooks = json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch hook-ran"}]}]}});
    stage.home.write(".lathe/settings.json", hooks.to_string());
}

#[test]
fn a_command_of_many_lines_leaves_the_question_whole() {
    let command =
        "mkdir -p made\ncat > made/a.txt <<'END'\none\ntwo\nEND\ncargo-nothing build --all\n";
    for (columns, height) in [(80, 24), (110, 40), (40, 20)] {
        let stage = Stage::replies([Reply::tool_use("Bash", json!({"command": command}))]);
        let terminal = stage.open_sized(columns, height);
        terminal.say("go");
        terminal.wait_for("Run this command?");
        terminal.wait_for("No, and say why");
        let shown = rows(&terminal);
        let at = |text: &str| shown.iter().position(|row| row.trim() == text);
        let no = shown.iter().position(|row| row.ends_with(". No"));
        let (question, first) = (at("Run this command?"), at("mkdir -p made"));
        assert!(
            question.is_some() && question < first && first < no,
            "{}",
            terminal.screen()
        );
    }
}

#[test]
fn words_typed_before_the_folder_is_trusted_are_kept_and_trust_nothing() {
    let stage = Stage::replies([Reply::text("good day").optional()]);
    with_hook(&stage);
    let terminal = stage.home.terminal::<&str>([], 80, 24);
    terminal.send("hello there\r");
    terminal.wait_for("Do you trust this folder?");
    terminal.wait_for("hello there");
    assert!(!stage.home.project().join("hook-ran").exists());
    // Down turns to the answers where the words are still being typed.
    terminal.send("\x1b[B");
    terminal.wait_for("enter choose");
    terminal.send("2");
    terminal.wait_gone("Do you trust");
    terminal.wait_for("hello there");
    assert!(!stage.home.project().join("hook-ran").exists());
}

#[test]
fn enter_does_not_trust_a_folder_and_no_is_remembered() {
    let stage = Stage::replies([Reply::text("hello"), Reply::text("hello again")]);
    with_hook(&stage);
    let mut terminal = stage.home.terminal::<&str>([], 80, 24);
    terminal.wait_for("Do you trust this folder?");
    terminal.wait_for("esc quit");
    terminal.send("\r");
    terminal.wait_gone("Do you trust");
    terminal.say("hi");
    terminal.wait_for("● hello");
    terminal.leave();
    let terminal = stage.open();
    terminal.say("hi");
    terminal.wait_for("● hello again");
    assert!(!stage.home.project().join("hook-ran").exists());
}

#[test]
fn a_session_that_is_not_there_leaves_this_one_open() {
    let stage = Stage::replies([Reply::text("first answer"), Reply::text("second answer")]);
    let terminal = stage.open();
    terminal.say("/fork ");
    terminal.wait_for("nothing to copy");
    terminal.say("one");
    terminal.wait_for("● first answer");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/resume no-such-session");
    terminal.wait_for("No conversation found");
    terminal.say("two");
    terminal.wait_for("● second answer");
    let second = stage.server.message_requests()[1].to_json().to_string();
    assert!(
        second.contains("first answer"),
        "it is the same conversation"
    );
}

#[test]
fn a_session_that_is_open_elsewhere_leaves_this_one_open() {
    let stage = Stage::replies([
        Reply::text("in the first"),
        Reply::text("in the second"),
        Reply::text("still here"),
    ]);
    let first = stage.open();
    first.say("begin here");
    first.wait_for("● in the first");
    first.wait_gone("esc to interrupt");
    let second = stage.open();
    second.say("begin there");
    second.wait_for("● in the second");
    second.wait_gone("esc to interrupt");
    second.say("/resume begin here");
    second.wait_for("is open in another process");
    second.wait_for("The current conversation stays open");
    second.say("and now");
    second.wait_for("● still here");
    let last = stage.server.message_requests()[2].to_json().to_string();
    assert!(
        last.contains("in the second"),
        "it is the same conversation"
    );
}

#[test]
fn escape_brings_queued_prompts_back() {
    let stage = Stage::replies([
        Reply::text(LONG).gate(Position::MidBlock(0), "never"),
        Reply::text("never sent").optional(),
    ]);
    let terminal = stage.open();
    terminal.say("begin");
    terminal.wait_for("● The answer");
    terminal.say("then this");
    terminal.say("/clear ");
    terminal.wait_for("⧗ /clear");
    terminal.send("\x1b");
    terminal.wait_for("Interrupted. What should I do instead?");
    terminal.wait_for("❯ then this");
    terminal.wait_for("/clear");
    terminal.wait_gone("esc to interrupt");
    assert_eq!(stage.server.message_requests().len(), 1);
}

#[test]
fn escape_before_the_first_word_gives_the_prompt_back() {
    let stage = Stage::replies([
        Reply::text("words").gate(Position::Start, "never"),
        Reply::text("better").optional(),
    ]);
    let terminal = stage.open();
    terminal.say("a long thought");
    terminal.wait_for("Waiting for the model");
    terminal.send("\x1b");
    terminal.wait_for("Interrupted");
    terminal.wait_gone("esc to interrupt");
    terminal.wait("the prompt in the editor", |screen| {
        screen.matches("❯ a long thought").count() == 2
    });
}

#[test]
fn alt_enter_waits_for_the_end_of_the_turn() {
    let stage = Stage::replies([
        Reply::text(LONG).gate(Position::MidBlock(0), "go"),
        Reply::text("and the next"),
    ]);
    let terminal = stage.open();
    terminal.say("begin");
    terminal.wait_for("● The answer");
    terminal.send("later");
    terminal.wait_for("alt+enter after this turn");
    terminal.send("\x1b\r");
    terminal.wait_for("⧗ later");
    terminal.say("/queue ");
    terminal.wait_for("Queued prompts");
    terminal.wait_for("after this turn");
    terminal.send("\x1b");
    terminal.wait_gone("Queued prompts");
    stage.server.gate("go").release();
    terminal.wait_for("● and the next");
    assert_eq!(said(&stage, 1), "later");
}

#[test]
fn a_burst_of_lines_is_a_paste() {
    let stage = Stage::replies([Reply::text("read").optional()]);
    let terminal = stage.open();
    let lines: String = (1..=500).map(|n| format!("pasted line {n}\r")).collect();
    terminal.send(lines);
    terminal.wait_for("[Pasted text #1 +500 lines]");
    assert!(stage.server.message_requests().is_empty());
}

#[test]
fn marks_count_only_where_they_were_typed() {
    let stage = Stage::replies([Reply::text("a heading"), Reply::text("an exclamation")]);
    let terminal = stage.open();
    terminal.paste("# Title\nand words");
    terminal.wait_for("and words");
    terminal.send("\r");
    terminal.wait_for("● a heading");
    terminal.wait_gone("esc to interrupt");
    terminal.paste("! touch made-by-paste");
    terminal.wait_for("made-by-paste");
    terminal.send("\r");
    terminal.wait_for("● an exclamation");
    assert!(!stage.home.project().join("made-by-paste").exists());
}

#[test]
fn a_double_escape_without_a_conversation_says_so() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.wait_for("? for keys");
    terminal.send("\x1b");
    // Two bytes at once would be one key.
    terminal.send("\x1b[I");
    terminal.send("\x1b");
    terminal.wait_for("nothing to rewind to yet");
}

#[test]
fn a_rewind_puts_the_prompt_back() {
    let stage = Stage::replies([Reply::text("one"), Reply::text("two")]);
    let terminal = stage.open();
    terminal.say("the first thing");
    terminal.wait_for("● one");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/rewind ");
    terminal.wait_for("Rewind to before which prompt?");
    terminal.send("\r");
    terminal.wait_for("What should be rewound?");
    terminal.send("2");
    terminal.wait_for("after the rewind");
    terminal.wait_for("❯ the first thing");
    terminal.send("\r");
    terminal.wait_for("● two");
}

#[test]
fn the_conversation_on_the_full_screen_follows_the_answer() {
    let stage = Stage::replies([Reply::text(LONG).gate(Position::MidBlock(0), "go")]);
    let terminal = stage.open();
    terminal.say("begin");
    terminal.wait_for("● The answer");
    terminal.send("\x0f");
    terminal.wait_for("q back");
    terminal.wait_for("The answer");
    stage.server.gate("go").release();
    terminal.wait_for("until it ends.");
    terminal.send("/answer");
    terminal.wait_for("1 line");
    terminal.send("\r");
    terminal.wait_for("line 1 of 1 with 'answer'");
}

#[test]
fn the_full_screen_shows_and_searches_what_is_finished_of_an_answer_in_progress() {
    let text = format!("The beginning.\n\nThen {}the end.", "more and ".repeat(30));
    let stage = Stage::replies([Reply::text(text).gate(Position::MidBlock(0), "go")]);
    let terminal = stage.open();
    terminal.say("begin");
    terminal.wait_for("Then more");
    terminal.send("\x0f");
    terminal.wait_for("q back");
    terminal.wait_for("The beginning.");
    terminal.send("/beginning\r");
    terminal.wait_for("line 1 of 1 with 'beginning'");
    stage.server.gate("go").release();
    terminal.wait_for("the end.");
    assert_eq!(terminal.screen().matches("The beginning.").count(), 1);
}

#[test]
fn a_status_line_keeps_its_colours_its_lines_and_what_it_last_said() {
    let stage = Stage::replies([Reply::text("hello")]);
    let script =
        "if [ -e broken ]; then exit 3; fi\nprintf '\\033[31mred words\\033[0m\\nsecond line\\n'";
    stage.home.write("status.sh", script);
    let command = format!("sh {}", stage.home.project().join("status.sh").display());
    let settings = json!({"statusLine": {"type": "command", "command": command}});
    let terminal = stage.open_with(&["--settings", &settings.to_string()], 80, 24);
    terminal.wait_for("red words");
    terminal.wait_for("second line");
    let is_red = terminal.with_screen(|screen| {
        let (height, columns) = screen.size();
        (0..height).any(|row| {
            let line = screen.contents_between(row, 0, row, columns);
            line.starts_with("red words")
                && screen.cell(row, 0).unwrap().fgcolor() == vt100::Color::Idx(1)
        })
    });
    assert!(is_red);
    stage.home.write("broken", "");
    terminal.say("hi");
    terminal.wait_for("● hello");
    terminal.wait_for("status line:");
    assert!(
        terminal.screen().contains("second line"),
        "{}",
        terminal.screen()
    );
}

#[test]
fn a_key_can_be_entered_where_there_is_none() {
    // Only the public server needs a key; a proxy that refuses everything stands before it.
    let home = TestHome::new()
        .variable("HTTPS_PROXY", "http://127.0.0.1:1")
        .variable("LATHE_MAX_RETRIES", "0");
    let terminal = home.terminal::<&str>([], 80, 24);
    terminal.wait_for("Enter a key");
    // What this is was said before.
    let shown = rows(&terminal);
    let at = |text: &str| shown.iter().position(|row| row.contains(text)).unwrap();
    assert!(at("works in your project") < at("none yet: no key was found"));
    assert!(at("asks before changes") < at("Which model should be used?"));
    terminal.send("1");
    terminal.wait_for("not stored");
    terminal.send("a-test-key");
    terminal.wait_for("••••••••••");
    terminal.send("\r");
    terminal.wait_for("key from");
    terminal.say("hello");
    terminal.wait_for("not let the request through");
    assert!(!terminal.everything().contains("a-test-key"));
}

#[test]
fn the_first_start_says_what_this_is_and_later_ones_in_a_line() {
    let stage = Stage::replies([Reply::text("hello")]);
    let mut terminal = stage.open();
    terminal.wait_for("works in your project with a language model");
    terminal.wait_for("key from");
    terminal.wait_for("asks before changes");
    // Nothing of it is cut off.
    terminal.wait_for("others need confirmation");
    terminal.wait_for("Say what to do");
    terminal.say("hi");
    terminal.wait_for("● hello");
    terminal.leave();
    let terminal = stage.open();
    terminal.wait_for("▚ Lathe");
    assert!(!terminal.screen().contains("works in your project"));
}

#[test]
fn rules_are_proposed_for_commands_that_came_again() {
    let mut stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "git init -q one"})),
        Reply::tool_use("Bash", json!({"command": "git init -q two"})),
        Reply::text("finished"),
    ]);
    stage.home = stage.home.variable("IS_SANDBOX", "1");
    let terminal = stage.open_with(&["--dangerously-skip-permissions"], 100, 30);
    terminal.say("go");
    terminal.wait_for("● finished");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/fewer-permission-prompts ");
    terminal.wait_for("Bash(git init:*)");
    terminal.wait_for("ran 2 times");
    terminal.send("\r");
    terminal.wait_for("Allowed in this project (just me): Bash(git init:*)");
    assert!(
        stage
            .home
            .read(".lathe/settings.local.json")
            .contains("git init")
    );
}

#[test]
fn a_resumed_conversation_shows_changes_and_unfinished_commands() {
    let mut stage = Stage::replies([
        Reply::tool_use(
            "Write",
            json!({"file_path": "a.txt", "content": "one\ntwo\n"}),
        ),
        Reply::tool_use("Bash", json!({"command": "touch began; sleep 600"})),
    ]);
    stage.home = stage.home.variable("IS_SANDBOX", "1");
    let terminal = stage.open_with(&["--dangerously-skip-permissions"], 80, 24);
    terminal.say("go");
    terminal.wait_for("◌ Bash");
    drop(terminal);
    let terminal = stage.open_with(&["--continue"], 80, 30);
    terminal.wait_for("1 + one");
    terminal.wait_for("Write a.txt +2 −0");
    terminal.wait_for("send \"continue\" to resume");
    // Said once, at the command.
    let shown = rows(&terminal);
    let found = |words: &str| shown.iter().filter(|row| row.contains(words)).count();
    assert_eq!(found("Lathe exited before this finished"), 1, "{shown:?}");
    assert_eq!(found("touch began"), 1, "{shown:?}");
    assert_eq!(found("interrupted"), 0, "{shown:?}");
}

#[test]
fn an_answer_that_was_cut_off_is_said_to_be_so() {
    for (position, said) in [
        (
            Position::AfterBlock(0),
            "interrupted while the model was answering",
        ),
        (
            Position::MidBlock(0),
            "interrupted before an answer was complete",
        ),
    ] {
        let half = Reply::text("The first half.").delta_characters(9);
        let stage = Stage::replies([half.gate(position.clone(), "never")]);
        let terminal = stage.open();
        terminal.say("go");
        terminal.wait_for("● The first");
        if position == Position::AfterBlock(0) {
            // A block is kept back for a moment before it is written.
            let home = &stage.home;
            terminal.wait("the answer in the transcript", |_| {
                let projects = std::fs::read_dir(home.config().join("projects"));
                let files = projects.into_iter().flatten().flatten();
                let files = files.flat_map(|it| std::fs::read_dir(it.path()).into_iter().flatten());
                files.flatten().any(|file| {
                    std::fs::read_to_string(file.path())
                        .is_ok_and(|text| text.contains("The first half."))
                })
            });
        }
        // Killed, as a closed window does it.
        drop(terminal);
        let terminal = stage.open_with(&["--continue"], 80, 24);
        terminal.wait_for("❯ go");
        terminal.wait_for(said);
    }
}
