use super::{Stage, said};
use lathe_scripted::{Position, Reply};
use lathe_testkit::Terminal;
use nix::sys::signal::Signal;
use serde_json::json;
use std::process::Command;

#[test]
fn a_prompt_is_sent_and_its_answer_is_rendered() {
    let stage = Stage::replies([Reply::text(
        "# Title\n\nSome **bold** words.\n\n- one\n- two",
    )]);
    let mut terminal = stage.open();
    terminal.say("hello there");
    terminal.wait_for("• two");
    let screen = terminal.screen();
    assert!(screen.contains("❯ hello there"), "{screen}");
    assert!(
        screen.contains("● Title") && screen.contains("Some bold words."),
        "{screen}"
    );
    assert!(
        !screen.contains("**") && !screen.contains("# Title"),
        "{screen}"
    );
    assert!(terminal.leave().success());
    stage.server.finish();
}

#[test]
fn leaving_says_how_to_go_on() {
    let stage = Stage::replies([Reply::text("fine")]);
    let mut terminal = stage.open();
    terminal.say("hello");
    terminal.wait_for("● fine");
    terminal.leave();
    assert!(
        terminal
            .everything()
            .contains("Resume with: lathe --resume "),
        "{}",
        terminal.everything()
    );
}

#[test]
fn text_appears_while_it_streams() {
    let stage = Stage::replies([Reply::text("first words\n\nand the rest")
        .delta_characters(4)
        .gate(Position::MidBlock(0), "more")]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("● first");
    terminal.wait_for("esc to interrupt");
    assert!(!terminal.screen().contains("the rest"));
    stage.server.gate("more").release();
    terminal.wait_for("and the rest");
    terminal.wait_gone("esc to interrupt");
}

#[test]
fn text_typed_during_an_answer_stays_in_the_prompt() {
    let stage = Stage::replies([Reply::text("some answer").gate(Position::MidBlock(0), "more")]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("esc to interrupt");
    terminal.send("next thought");
    terminal.wait_for("❯ next thought");
    stage.server.gate("more").release();
    terminal.wait_gone("esc to interrupt");
    assert!(terminal.screen().contains("❯ next thought"));
}

#[test]
fn a_prompt_sent_while_busy_waits_and_comes_next() {
    let stage = Stage::replies([
        Reply::text("one done").gate(Position::MidBlock(0), "more"),
        Reply::text("two done"),
    ]);
    let terminal = stage.open();
    terminal.say("first");
    terminal.wait_for("esc to interrupt");
    terminal.say("second");
    terminal.wait_for("❯ second");
    stage.server.gate("more").release();
    terminal.wait_for("● two done");
    let all = terminal.everything();
    let order: Vec<usize> = ["❯ first", "● one done", "❯ second", "● two done"]
        .iter()
        .map(|text| all.find(text).unwrap())
        .collect();
    assert!(order.is_sorted(), "{all}");
}

#[test]
fn a_waiting_prompt_comes_back_with_up() {
    let stage = Stage::replies([Reply::text("one done").gate(Position::MidBlock(0), "more")]);
    let terminal = stage.open();
    terminal.say("first");
    terminal.wait_for("esc to interrupt");
    terminal.say("second idea");
    terminal.wait("the prompt to be empty", |screen| {
        screen.matches("❯ second idea").count() == 1
            && screen.lines().any(|line| line.trim_end() == "❯")
    });
    terminal.send("\x1b[A");
    terminal.wait("it to be in the editor", |screen| {
        !screen.lines().any(|line| line.trim_end() == "❯")
    });
    terminal.send(" changed");
    terminal.wait_for("❯ second idea changed");
    stage.server.gate("more").release();
    terminal.wait_gone("esc to interrupt");
    assert_eq!(stage.server.message_requests().len(), 1);
}

#[test]
fn escape_interrupts_the_model_while_it_writes() {
    let stage = Stage::replies([
        Reply::text("never finished words").gate(Position::MidBlock(0), "never"),
        Reply::text("second answer"),
    ]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Writing…");
    terminal.send("\x1b");
    terminal.wait_for("Interrupted");
    terminal.say("again");
    terminal.wait_for("● second answer");
}

#[test]
fn escape_interrupts_before_the_first_word() {
    let stage = Stage::replies([Reply::never_answer(), Reply::text("second answer")]);
    let terminal = stage.open();
    terminal.say("go");
    assert!(stage.server.wait_for_requests(1, lathe_testkit::HANG_LIMIT));
    terminal.wait_for("esc to interrupt");
    terminal.send("\x1b");
    terminal.wait_for("Interrupted");
    terminal.say("again");
    terminal.wait_for("● second answer");
}

#[test]
fn escape_interrupts_a_running_command() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "echo begun; sleep 300"})),
        Reply::text("second answer"),
    ]);
    let terminal = stage.open_with(&["--allowedTools", "Bash"], 80, 24);
    terminal.say("go");
    // What it printed, not the command that is to print it.
    terminal.wait_for("\n  begun");
    terminal.send("\x1b");
    terminal.wait_for("Interrupted");
    terminal.say("again");
    terminal.wait_for("● second answer");
}

#[test]
fn ctrl_c_clears_then_asks_then_leaves() {
    let stage = Stage::replies([]);
    let mut terminal = stage.open();
    terminal.send("some words");
    terminal.wait_for("❯ some words");
    terminal.send("\x03");
    terminal.wait_gone("some words");
    assert!(terminal.leave().success());
}

#[test]
fn ctrl_d_twice_leaves() {
    let stage = Stage::replies([]);
    let mut terminal = stage.open();
    assert!(terminal.leave_with("\x04").success());
    assert!(terminal.raw().contains("press ctrl+d again to exit"));
}

#[test]
fn slash_exit_leaves_and_every_mode_is_put_back() {
    let stage = Stage::replies([]);
    let mut terminal = stage.open();
    terminal.wait_for_bytes("\x1b[?2004h");
    terminal.say("/exit");
    assert!(terminal.ended().success());
    let raw = terminal.raw();
    let end = &raw[raw.len().saturating_sub(200)..];
    for sequence in ["\x1b[?2004l", "\x1b[?1004l", "\x1b[?25h", "\x1b[m"] {
        assert!(end.contains(sequence), "{sequence:?} is missing in {end:?}");
    }
}

#[test]
fn sigterm_restores_the_terminal_and_says_143() {
    let stage = Stage::replies([Reply::text("x").gate(Position::MidBlock(0), "never")]);
    let mut terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("esc to interrupt");
    terminal.signal(Signal::SIGTERM);
    assert_eq!(terminal.ended().code(), Some(143));
    assert!(terminal.raw().contains("\x1b[?2004l"));
    assert!(!terminal.with_screen(vt100::Screen::bracketed_paste));
}

/// Fault: The terminal goes away
/// Seen: (there is nobody)
/// Kept: The transcript and the draft
#[test]
fn sighup_ends_it() {
    let stage = Stage::replies([]);
    let mut terminal = stage.open();
    terminal.signal(Signal::SIGHUP);
    assert_eq!(terminal.ended().code(), Some(143));
}

#[test]
fn a_prompt_entered_before_the_session_is_open_is_sent_when_it_is() {
    let stage = Stage::replies([Reply::text("got it")]);
    // A hook that takes its time at the start of the session.
    stage.home.write("gate", "");
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "while [ -e gate ]; do sleep 0.02; done"}]}]}}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    terminal.say("early words");
    terminal.wait_for("❯ early words");
    assert_eq!(stage.server.request_count(), 0);
    std::fs::remove_file(stage.home.project().join("gate")).unwrap();
    terminal.wait_for("● got it");
}

#[test]
fn a_prompt_typed_before_the_terminal_is_ready_is_sent() {
    let stage = Stage::replies([Reply::text("got it")]);
    let lathe = stage.home.command([""; 0]);
    // A shell that reads one line and leaves the next to the program that takes its place.
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "read -r line && exec \"$0\""])
        .arg(lathe.get_program())
        .current_dir(lathe.get_current_dir().unwrap())
        .env_clear();
    for (name, value) in lathe.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let terminal = Terminal::start(&shell, 80, 24);
    terminal.send("start\rearly words\r");
    terminal.wait_for("● got it");
    assert_eq!(said(&stage, 0), "early words");
}

#[test]
fn a_prompt_on_the_command_line_is_the_first_one() {
    let stage = Stage::replies([Reply::text("hello back")]);
    let terminal = stage.open_with(&["hello from outside"], 80, 24);
    terminal.wait_for("● hello back");
    assert!(terminal.screen().contains("❯ hello from outside"));
}

#[test]
fn a_session_is_taken_up_again_with_its_conversation() {
    let stage = Stage::replies([
        Reply::text("the first answer"),
        Reply::text("the second answer"),
    ]);
    let mut terminal = stage.open();
    terminal.say("first question");
    terminal.wait_for("● the first answer");
    terminal.leave();
    let terminal = stage.open_with(&["--continue"], 80, 24);
    terminal.wait_for("● the first answer");
    assert!(terminal.screen().contains("❯ first question"));
    terminal.say("second question");
    terminal.wait_for("● the second answer");
}

#[test]
fn resume_offers_a_list_to_choose_from() {
    let stage = Stage::replies([Reply::text("about apples")]);
    let mut terminal = stage.open();
    terminal.say("tell me about apples");
    terminal.wait_for("● about apples");
    terminal.leave();
    let terminal = stage.open_with(&["--resume"], 80, 24);
    terminal.wait_for("Resume a session");
    terminal.wait_for("tell me about apples");
    terminal.send("\r");
    terminal.wait_for("● about apples");
}

#[test]
fn tool_calls_are_shown_with_their_output() {
    let stage = Stage::replies([
        Reply::text("I look.")
            .with_tool_use("Read", json!({"file_path": "a.txt"}))
            .with_tool_use("Glob", json!({"pattern": "*.txt"})),
        Reply::tool_use("Bash", json!({"command": "echo out; exit 3"})),
        Reply::text("done"),
    ]);
    stage.home.write("a.txt", "one\ntwo\n");
    let terminal = stage.open_with(&["--allowedTools", "Bash"], 100, 30);
    terminal.say("look");
    terminal.wait_for("● done");
    let screen = terminal.screen();
    assert!(screen.contains("● Read 1 file, searched once"), "{screen}");
    assert!(
        screen.contains("Bash echo out; exit 3")
            && screen.contains("exit 3")
            && screen.contains("  out"),
        "{screen}"
    );
}

#[test]
fn a_running_command_shows_its_last_lines() {
    let stage = Stage::replies([
        Reply::tool_use(
            "Bash",
            json!({"command": "echo step one; while [ ! -e go ]; do sleep 0.05; done; echo step two"}),
        ),
        Reply::text("done"),
    ]);
    let terminal = stage.open_with(&["--allowedTools", "Bash"], 80, 24);
    terminal.say("run");
    terminal.wait_for("step one");
    terminal.wait_for("◌ Bash");
    stage.home.write("go", "");
    terminal.wait_for("● done");
    assert!(terminal.everything().contains("step two"));
}

#[test]
fn thinking_is_folded_and_the_transcript_unfolds_it() {
    let stage = Stage::replies([Reply::thinking("deep thoughts about it").with_text("the answer")]);
    let terminal = stage.open();
    terminal.say("think");
    terminal.wait_for("● the answer");
    assert!(
        terminal.screen().contains("✻ Thought") && !terminal.screen().contains("deep thoughts")
    );
    terminal.send("\x0f");
    terminal.wait_for("deep thoughts about it");
    terminal.send("q");
    terminal.wait_gone("deep thoughts");
}

#[test]
fn the_task_list_is_shown_and_hidden() {
    let todos = json!({"todos": [
        {"content": "Write it", "status": "completed", "activeForm": "Writing it"},
        {"content": "Test it", "status": "in_progress", "activeForm": "Testing it"},
    ]});
    let mut stage = Stage::replies([
        Reply::tool_use("TodoWrite", todos),
        Reply::text("more to do").gate(Position::MidBlock(0), "more"),
    ]);
    stage.home = stage.home.variable("LATHE_ENABLE_TASKS", "0");
    let terminal = stage.open();
    terminal.say("plan");
    terminal.wait_for("esc to interrupt");
    terminal.wait("both lists", |screen| {
        screen.matches("▸ Testing it").count() == 2
    });
    terminal.send("\x14");
    terminal.wait("the live list to go", |screen| {
        screen.matches("▸ Testing it").count() == 1
    });
    stage.server.gate("more").release();
    terminal.wait_for("● more to do");
}

#[test]
fn tasks_are_listed_with_owners_and_what_they_wait_for_and_come_back_on_resume() {
    let stage = Stage::replies([
        Reply::tool_use(
            "TaskCreate",
            json!({"subject": "Saw it", "description": "d"}),
        )
        .with_tool_use(
            "TaskCreate",
            json!({"subject": "Glue it", "description": "d"}),
        )
        .with_tool_use(
            "TaskCreate",
            json!({"subject": "Paint it", "description": "d"}),
        ),
        Reply::tool_use(
            "TaskUpdate",
            json!({"taskId": "1", "status": "in_progress", "owner": "ana"}),
        )
        .with_tool_use("TaskUpdate", json!({"taskId": "2", "addBlockedBy": ["1"]}))
        .with_tool_use("TaskUpdate", json!({"taskId": "3", "status": "cancelled"})),
        Reply::text("more to do").gate(Position::MidBlock(0), "more"),
    ]);
    let mut terminal = stage.open();
    terminal.say("plan");
    terminal.wait_for("▸ Saw it · ana");
    terminal.wait_for("☐ Glue it · waits for Saw it");
    terminal.wait_for("⊘ Paint it");
    stage.server.gate("more").release();
    terminal.wait_for("● more to do");
    terminal.wait_for("TaskUpdate");
    assert!(
        terminal.everything().contains("#3 cancelled"),
        "{}",
        terminal.everything()
    );
    terminal.leave();
    let terminal = stage.open_with(&["--continue"], 80, 24);
    terminal.wait_for("☐ Glue it · waits for Saw it");
}

#[test]
fn trouble_with_the_model_is_counted_down_and_survived() {
    let stage = Stage::replies([
        Reply::error(529).header("retry-after", "1"),
        Reply::text("at last"),
    ]);
    let terminal = stage.open();
    terminal.say("go");
    // The countdown is over after a second: it must have been shown, whenever we look.
    terminal.wait_for_bytes("Retrying in");
    terminal.wait_for("● at last");
}

#[test]
fn an_api_error_is_shown() {
    let stage = Stage::replies([Reply::error_with(
        400,
        "invalid_request_error",
        "that was wrong",
    )]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("that was wrong");
    terminal.wait_gone("esc to interrupt");
}
