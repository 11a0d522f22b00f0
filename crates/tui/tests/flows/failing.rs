use super::Stage;
use lathe_scripted::Reply;
use lathe_testkit::TestHome;

#[test]
fn without_a_key_it_says_what_to_do() {
    let home = TestHome::new();
    let mut terminal = home.terminal::<&str>([], 80, 24);
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
    terminal.wait_for("There is no command /exot; did you mean /exit");
    assert_eq!(stage.server.request_count(), 0);
}

#[test]
fn a_path_is_not_a_command() {
    let stage = Stage::replies([Reply::text("I see")]);
    let terminal = stage.open();
    terminal.say("/tmp/x is odd");
    terminal.wait_for("● I see");
}
