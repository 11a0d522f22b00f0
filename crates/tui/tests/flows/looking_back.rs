//! Looking back and beside: the tree of the session, what was said in others, the contents of the window, a question
//! beside the conversation.

use super::{Stage, said};
use lathe_scripted::{Position, Reply, When};
use lathe_testkit::Terminal;
use serde_json::json;

/// Says something and waits for the end of the turn.
fn turn(terminal: &Terminal, prompt: &str, answer: &str) {
    terminal.say(prompt);
    terminal.wait_for(&format!("● {answer}"));
    terminal.wait_gone("esc to interrupt");
}

#[test]
fn a_question_beside_the_turn_is_answered_and_never_enters_the_conversation() {
    let stage = Stage::replies([
        Reply::text("The long work goes on until it ends.").gate(Position::MidBlock(0), "go"),
        Reply::text("It is a **lathe**.").when(When {
            last_user_text_contains: Some("What is this?".to_owned()),
            ..When::default()
        }),
        Reply::text("the next answer"),
    ]);
    let terminal = stage.open();
    terminal.say("begin");
    terminal.wait_for("● The long");
    terminal.say("/btw What is this?");
    terminal.wait_for("btw: What is this?");
    terminal.wait_for("It is a lathe.");
    stage.server.gate("go").release();
    terminal.wait_for("until it ends.");
    terminal.wait_gone("esc to interrupt");
    turn(&terminal, "and now", "the next answer");
    let requests = stage.server.message_requests();
    let [first, beside, last] = &requests[..] else {
        panic!("{}", requests.len());
    };
    // The same beginning, so that the provider's cache is used.
    let (first, beside) = (first.to_json(), beside.to_json());
    assert_eq!(first["system"], beside["system"]);
    assert_eq!(first["tools"], beside["tools"]);
    let last = last.to_json().to_string();
    assert!(
        !last.contains("What is this?") && !last.contains("It is a"),
        "{last}"
    );
    assert!(last.contains("until it ends."), "{last}");
}

#[test]
fn the_tree_leads_to_a_branch_that_was_left_and_brings_its_conclusions_back() {
    let stage = Stage::replies([
        Reply::text("first answer"),
        Reply::text("what two found"),
        Reply::text("third answer"),
        Reply::text("two found seven").when(When {
            system_contains: Some("one branch of a conversation".to_owned()),
            ..When::default()
        }),
        Reply::text("fourth answer"),
    ]);
    let terminal = stage.open_sized(100, 40);
    turn(&terminal, "one", "first answer");
    turn(&terminal, "two", "what two found");
    terminal.say("/rewind ");
    terminal.wait_for("Rewind to before which prompt?");
    terminal.send("\r");
    terminal.wait_for("What should be rewound?");
    terminal.send("2");
    terminal.wait_for("❯ two");
    terminal.send("\x15");
    turn(&terminal, "three", "third answer");
    terminal.say("/tree ");
    terminal.wait_for("└ ○ two");
    terminal.wait_for("you are here");
    terminal.send("\x1b[A");
    terminal.wait_for("❯ └ ○ two");
    terminal.send("l");
    terminal.wait_for("A name for this place");
    terminal.send("first try\r");
    terminal.wait_for("[first try] two");
    terminal.send("m");
    terminal.wait_for("From the branch \"first try\":");
    terminal.wait_for("two found seven");
    // The words can be changed, or not be used at all.
    terminal.send("\x03");
    terminal.wait_gone("two found seven");
    terminal.say("/tree ");
    terminal.wait_for("[first try] two");
    terminal.send("\x1b[A\r");
    terminal.wait_for("the conversation after: two");
    terminal.wait_for("? for keys");
    turn(&terminal, "four", "fourth answer");
    let requests = stage.server.message_requests();
    let last = requests.last().unwrap().to_json().to_string();
    assert!(
        last.contains("what two found") && !last.contains("third answer"),
        "{last}"
    );
}

#[test]
fn what_was_said_in_another_session_is_found_and_shown() {
    let stage = Stage::replies([
        Reply::text("The flux capacitor needs 1.21 gigawatts."),
        Reply::text("nothing here"),
    ]);
    let mut terminal = stage.open();
    turn(&terminal, "how much power", "The flux");
    terminal.leave();
    let terminal = stage.open_sized(90, 30);
    turn(&terminal, "something else", "nothing here");
    terminal.say("/resume ");
    terminal.wait_for("ctrl+s search the text");
    terminal.send("gigawatts");
    terminal.wait_for("No matches");
    terminal.send("\x13");
    terminal.wait_for("'gigawatts' in 1 session");
    terminal.wait_for("model: The flux capacitor");
    terminal.send("\r");
    terminal.wait_for("line 1 of 1 with 'gigawatts.'");
    terminal.wait_for("how much power");
    terminal.send("q");
    terminal.wait_for("another conversation");
}

/// Goes down to a row of a list.
fn choose(terminal: &Terminal, row: &str) {
    let is_chosen = |line: &str| line.starts_with("❯ ") && line.contains(row);
    while !terminal.screen().lines().any(is_chosen) {
        let before = terminal.screen();
        terminal.send("\x1b[B");
        terminal.wait("the next row", |screen| *screen != before);
    }
}

#[test]
fn results_are_dropped_from_the_context_and_brought_back() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "printf 'first-%s' output"})),
        Reply::text("ran it"),
        Reply::text("without it"),
        Reply::text("with it"),
    ]);
    let terminal = stage.open_sized(110, 36);
    turn(&terminal, "go", "ran it");
    terminal.say("/context ");
    terminal.wait_for("e edit");
    terminal.send("e");
    terminal.wait_for("What fills the context");
    choose(&terminal, "Bash printf");
    terminal.send("d");
    terminal.wait_for("1 edit with the next request");
    terminal.wait_for("dropped");
    terminal.send("\x1b\x1b[I");
    terminal.wait_gone("What fills the context");
    terminal.send("\x1b\x1b[I");
    terminal.wait_gone("Free space");
    turn(&terminal, "again", "without it");
    let sent = |prompt: &str| {
        let requests = stage.server.message_requests();
        let request = requests
            .iter()
            .find(|it| it.last_user_text().starts_with(prompt));
        request.unwrap().to_json().to_string()
    };
    let without = sent("again");
    assert!(
        without.contains("The user removed this result"),
        "{without}"
    );
    assert!(!without.contains("first-output"), "{without}");
    terminal.say("/context ");
    terminal.wait_for("e edit");
    terminal.send("e");
    terminal.wait_for("What fills the context");
    choose(&terminal, "Bash printf");
    terminal.send("u");
    terminal.wait_for("1 edit with the next request");
    terminal.send("\x1b\x1b[I");
    terminal.wait_gone("What fills the context");
    terminal.send("\x1b\x1b[I");
    terminal.wait_gone("Free space");
    turn(&terminal, "and again", "with it");
    let with = sent("and again");
    assert!(with.contains("first-output"), "{with}");
}

#[test]
fn messages_and_memory_are_dropped_condensed_and_brought_back() {
    let stage = Stage::replies([
        Reply::text("a long answer"),
        Reply::text("without them"),
        Reply::text("with a summary"),
        Reply::text("with all of it"),
    ]);
    stage
        .home
        .write("AGENTS.md", "Use four spaces everywhere.\n");
    let terminal = stage.open_sized(110, 40);
    turn(&terminal, "the first prompt", "a long answer");
    let sent = |prompt: &str| {
        let requests = stage.server.message_requests();
        let request = requests
            .iter()
            .find(|it| it.last_user_text().starts_with(prompt));
        request.unwrap().to_json().to_string()
    };
    let edit = |row: &str, key: &str| {
        terminal.say("/context ");
        terminal.wait_for("e edit");
        terminal.send("e");
        terminal.wait_for("What fills the context");
        choose(&terminal, row);
        terminal.send(key);
        terminal.wait_for("1 edit with the next request");
        terminal.send("\x1b\x1b[I");
        terminal.wait_gone("What fills the context");
        terminal.send("\x1b\x1b[I");
        terminal.wait_gone("Free space");
    };
    assert!(sent("the first prompt").contains("Use four spaces"));
    edit("Memory ", "d");
    turn(&terminal, "again", "without them");
    let request = sent("again");
    assert!(!request.contains("Use four spaces"), "{request}");
    assert!(request.contains("The user removed this file"), "{request}");
    edit("Answer a long", "d");
    turn(&terminal, "and now", "with a summary");
    let request = sent("and now");
    assert!(!request.contains("a long answer"), "{request}");
    assert!(
        request.contains("The user removed this message"),
        "{request}"
    );
    // What was decided is part of the session.
    terminal.say("/exit");
    terminal.wait_for("Resume with");
    let terminal = stage.open_with(&["--continue"], 110, 40);
    terminal.wait_for("● with a summary");
    turn(&terminal, "and then", "with all of it");
    let request = sent("and then");
    for gone in ["Use four spaces", "a long answer"] {
        assert!(!request.contains(gone), "{request}");
    }
}

#[test]
fn an_accepted_plan_can_start_a_new_conversation() {
    let stage = Stage::replies([
        Reply::tool_use("ExitPlanMode", json!({"plan": "1. Write made.txt"})),
        Reply::tool_use("Write", json!({"file_path": "made.txt", "content": "x\n"})),
        Reply::text("carried out"),
    ]);
    let terminal = stage.open_with(&["--permission-mode", "plan"], 90, 30);
    terminal.wait_for("plan mode on");
    terminal.say("think about it");
    terminal.wait_for("in a new conversation with the plan alone");
    terminal.send("4");
    terminal.wait_for("● carried out");
    terminal.wait_for("accept edits on");
    assert!(stage.home.project().join("made.txt").exists());
    assert_eq!(said(&stage, 1), "Carry out this plan:\n\n1. Write made.txt");
    let second = stage.server.message_requests()[1].to_json().to_string();
    assert!(!second.contains("think about it"), "{second}");
}

#[test]
fn insights_show_what_was_done_and_are_written_as_a_page() {
    let stage = Stage::replies([Reply::text("hello")]);
    let terminal = stage.open_sized(100, 30);
    turn(&terminal, "hi", "hello");
    terminal.say("/insights ");
    terminal.wait_for("1 session, 1 prompt");
    terminal.wait_for("By model");
    terminal.send("h");
    terminal.wait_for("insights.html");
    let page = stage.home.config().join("insights.html");
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .contains("By project")
    );
}

#[test]
fn a_change_is_reviewed_by_hunk_and_the_model_learns_what_was_rejected() {
    let old = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";
    let new = old.replace("two", "2").replace("ten", "10");
    let stage = Stage::replies([
        Reply::tool_use("Read", json!({"file_path": "a.txt"})),
        Reply::tool_use("Write", json!({"file_path": "a.txt", "content": new})),
        Reply::text("understood"),
    ]);
    stage.home.write("a.txt", old);
    let terminal = stage.open_sized(90, 30);
    terminal.say("digits please");
    terminal.wait_for("h review by hunk");
    terminal.send("h");
    terminal.wait_for("Review the change to a.txt");
    terminal.wait_for("✓ hunk 2 of 2 · accepted");
    terminal.send("n");
    terminal.wait_for("✗ hunk 1 of 2 · rejected");
    terminal.send("\tc");
    terminal.wait_for("Comment:");
    terminal.send("good\r");
    terminal.wait_for("▸ good");
    terminal.send("\r");
    terminal.wait_for("● understood");
    assert_eq!(stage.home.read("a.txt"), old.replace("ten", "10"));
    let last = stage.server.message_requests()[2].to_json().to_string();
    for told in [
        "I rejected 1 of 2 hunks",
        "-two",
        "+2",
        "a.txt:10 `ten`: good",
    ] {
        assert!(last.contains(told), "{told}: {last}");
    }
}
