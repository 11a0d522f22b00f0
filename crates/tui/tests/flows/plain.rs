use super::Stage;
use lathe_scripted::Reply;
use serde_json::json;

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let mut stage = Stage::replies([Reply::text("plain **answer**")]);
    stage.home = stage.home.variable("TERM", "dumb");
    let mut terminal = stage.home.terminal::<&str>([], 80, 24);
    terminal.wait_for("> ");
    terminal.send("hello\n");
    terminal.wait_for("plain **answer**");
    terminal.send("/exit\n");
    assert!(terminal.ended().success());
    assert!(!terminal.raw().contains('\x1b'), "{:?}", terminal.raw());
}

#[test]
fn a_dumb_terminal_asks_in_lines_too() {
    let mut stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "touch made"})),
        Reply::text("done"),
    ]);
    stage.home = stage.home.variable("TERM", "dumb");
    let terminal = stage.home.terminal::<&str>([], 80, 24);
    terminal.wait_for("> ");
    terminal.send("go\n");
    terminal.wait_for("Allow Bash: touch made");
    terminal.send("y\n");
    terminal.wait_for("done");
    assert!(stage.home.project().join("made").exists());
}

#[test]
fn prompts_by_a_pipe_are_answered_one_after_another() {
    let stage = Stage::replies([Reply::text("first answer"), Reply::text("second answer")]);
    let output = stage.home.run::<&str>([], "one\ntwo\n");
    assert_eq!(output.code(), Some(0), "{output:?}");
    let first = output.stdout.find("first answer").unwrap();
    let second = output.stdout.find("second answer").unwrap();
    assert!(first < second);
    stage.server.finish();
}

#[test]
fn a_screen_reader_gets_plain_lines() {
    let mut stage = Stage::replies([Reply::text("read aloud")]);
    stage.home = stage.home.variable("LATHE_SCREEN_READER", "1");
    let terminal = stage.home.terminal::<&str>([], 80, 24);
    terminal.wait_for("> ");
    terminal.send("hello\n");
    terminal.wait_for("read aloud");
    assert!(!terminal.raw().contains("\x1b["), "{:?}", terminal.raw());
}
