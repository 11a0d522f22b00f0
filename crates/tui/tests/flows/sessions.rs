use super::Stage;
use lathe_scripted::Reply;

/// A session, and a fork of it.
fn with_a_fork() -> Stage {
    let stage = Stage::replies([
        Reply::text("one"),
        Reply::text("two"),
        Reply::text("three").optional(),
    ]);
    stage.home.write("a.txt", "x\n");
    stage.home.git_init();
    let mut terminal = stage.open();
    terminal.say("first words");
    terminal.wait_for("● one");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/fork ");
    terminal.wait_for("a copy of this conversation");
    terminal.say("second words");
    terminal.wait_for("● two");
    terminal.wait_gone("esc to interrupt");
    terminal.leave();
    stage
}

#[test]
fn sessions_are_listed_with_their_forks_below_them_and_renamed() {
    let stage = with_a_fork();
    let terminal = stage.home.terminal(["--resume"], 100, 30);
    terminal.wait_for("Resume a session");
    terminal.wait_for("❯ first words");
    terminal.wait_for("└ second words");
    // Another title for the first of them.
    terminal.send("\x12");
    terminal.wait_for("A title for this session");
    terminal.wait_for("❯ first words");
    terminal.send("\x15Greetings\r");
    terminal.wait("the list with the new title", |screen| {
        screen.contains("❯ Greetings") && screen.contains("└ second words")
    });
    // Esc leaves the form and nothing else.
    terminal.send("\x12");
    terminal.wait_for("A title for this session");
    terminal.send("\x1b");
    terminal.wait("the list again", |screen| {
        screen.contains("Resume a session") && !screen.contains("A title for this session")
    });
    terminal.send("\r");
    terminal.wait_for("● one");
}

#[test]
fn the_list_shows_one_branch_or_all_and_other_folders() {
    let stage = with_a_fork();
    let terminal = stage.open_sized(100, 30);
    terminal.wait_for("claude");
    terminal.say("/resume ");
    terminal.wait_for("first words");
    terminal.send("\x02");
    terminal.wait_for("only branch ");
    terminal.wait_for("ctrl+b all branches");
    terminal.send("\x02");
    terminal.wait_gone("only branch ");
    terminal.send("\x01");
    terminal.wait_for("all folders ·");
    terminal.wait_for("ctrl+a this project");
    terminal.wait_for(&stage.home.project().display().to_string()[..20]);
    terminal.send("second");
    terminal.wait("only what fits", |screen| {
        screen.contains("second words") && !screen.contains("❯ first words")
    });
    // Esc clears the search, then closes the list.
    terminal.send("\x1b");
    terminal.wait_for("first words");
    terminal.send("\x1b");
    terminal.wait_gone("Resume a session");
}

#[test]
fn a_resumed_session_shows_its_earlier_cost() {
    let usage = serde_json::json!({"input_tokens": 100_000, "output_tokens": 10_000});
    let mut reply = Reply::text("one");
    reply.usage = usage.as_object().unwrap().clone();
    let stage = Stage::replies([reply]);
    let mut terminal = stage.open();
    terminal.say("first words");
    terminal.wait_for("● one");
    terminal.wait_gone("esc to interrupt");
    terminal.wait_for(" · $");
    let spent = cost_in(&terminal.everything());
    terminal.leave();
    let terminal = stage.home.terminal(["--continue"], 100, 30);
    terminal.wait_for("● one");
    terminal.wait_for(" · $");
    assert_eq!(cost_in(&terminal.everything()), spent);
    terminal.say("/cost ");
    terminal.wait_for("This session: $");
    assert!(!terminal.everything().contains("nothing used yet"));
}

/// The dollars in the status line.
fn cost_in(screen: &str) -> String {
    let (_, rest) = screen.rsplit_once(" · $").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}
