use super::Stage;
use lathe_scripted::Reply;
use lathe_testkit::TestHome;

#[test]
fn without_a_key_there_is_a_way_on_and_the_error_names_the_remedy() {
    let home = TestHome::new();
    let mut terminal = home.terminal::<&str>([], 80, 24);
    terminal.wait_for("Which model should be used?");
    terminal.wait_for("Enter a key");
    terminal.wait_for("Name a program that prints the key");
    terminal.send("\x1b");
    assert_eq!(terminal.ended().code(), Some(3));
    assert!(
        terminal.everything().contains("ANTHROPIC_API_KEY"),
        "{}",
        terminal.everything()
    );
    assert!(!terminal.with_screen(vt100::Screen::bracketed_paste));
}

#[test]
fn a_wrong_flag_ends_it_with_the_terminal_as_it_was() {
    let stage = Stage::replies([]);
    let mut terminal = stage.home.terminal(["--resume", "no-such-session"], 80, 24);
    assert!(!terminal.ended().success());
    assert!(
        terminal.everything().contains("no-such-session"),
        "{}",
        terminal.everything()
    );
    assert!(!terminal.with_screen(vt100::Screen::bracketed_paste));
}

#[test]
fn a_broken_key_file_is_named_and_the_rest_works() {
    let stage = Stage::replies([Reply::text("ok")]);
    std::fs::write(stage.home.config().join("keybindings.json"), "{not json").unwrap();
    let terminal = stage.open();
    terminal.wait_for("keybindings.json");
    terminal.say("hello");
    terminal.wait_for("● ok");
}

#[test]
fn a_command_that_does_not_exist_is_answered_with_the_nearest() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.say("/exot now");
    terminal.wait_for("Unknown slash command: /exot. Did you mean /exit");
    assert_eq!(stage.server.request_count(), 0);
}

#[test]
fn a_path_is_not_a_command() {
    let stage = Stage::replies([Reply::text("I see")]);
    let terminal = stage.open();
    terminal.say("/tmp/x is odd");
    terminal.wait_for("● I see");
}

#[test]
fn a_fault_of_its_own_gives_the_terminal_back_and_loses_nothing() {
    let stage = Stage::replies([Reply::text("the answer"), Reply::text("and on it goes")]);
    let mut terminal = stage.open();
    terminal.send("\x1b[?1u");
    terminal.wait_for_bytes("\x1b[>1u");
    terminal.say("the question");
    terminal.wait_for("● the answer");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/panic");
    assert_eq!(terminal.ended().code(), Some(1));
    let all = terminal.everything();
    assert!(
        all.contains("Lathe crashed (this is a bug): it was asked to fall"),
        "{all}"
    );
    assert!(all.contains("Resume it with: lathe --resume "), "{all}");
    assert!(
        !all.contains("? for keys"),
        "the live area is left behind:\n{all}"
    );
    let raw = terminal.raw();
    for sequence in ["\x1b[<u", "\x1b[?2004l", "\x1b[?1004l", "\x1b[?25h"] {
        assert!(raw.contains(sequence), "{sequence:?} is missing");
    }
    assert!(!terminal.with_screen(|screen| screen.bracketed_paste() || screen.hide_cursor()));
    let session = all
        .split("--resume ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap();
    let terminal = stage.open_with(&["--resume", session], 80, 24);
    terminal.wait("the conversation", |screen| {
        screen.contains("❯ the question") && screen.contains("● the answer")
    });
    terminal.say("go on");
    terminal.wait_for("● and on it goes");
}

#[test]
fn a_crashed_job_is_reported_and_the_session_continues() {
    let stage = Stage::replies([Reply::text("still here")]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.say("/panic job");
    terminal.wait_for("a job was asked to fall");
    terminal.say("hello");
    terminal.wait_for("● still here");
}
