//! Agents at work: opening one, writing to it, answering its questions; and reviews of changes and plans.

use super::Stage;
use lathe_scripted::{Position, Reply, Scenario, When};
use serde_json::{Value, json};

const CTRL_DOWN: &str = "\x1b[1;5B";
const CTRL_UP: &str = "\x1b[1;5A";

fn order(task: &str, prompt: &str) -> Value {
    json!({"description": task, "prompt": prompt, "subagent_type": "general-purpose"})
}

#[test]
fn an_agent_is_opened_as_it_writes_and_is_written_to() {
    let says = When::last_user_text_contains;
    let stage = Stage::new(
        Scenario::new()
            .reply(
                Reply::text("I look into every room. Nobody is there.")
                    .when(says("SEARCH THE HOUSE"))
                    .gate(Position::MidBlock(0), "found"),
            )
            .reply(Reply::text("The cellar is empty.").when(says("also the cellar")))
            .reply(Reply::text("Still empty.").when(says("look once more")))
            .reply(Reply::tool_use(
                "Agent",
                order("Look around", "SEARCH THE HOUSE"),
            ))
            .reply(Reply::text("it works beside me"))
            .reply(Reply::text("now I know").times(2).optional()),
    );
    let terminal = stage.open_sized(90, 30);
    terminal.send(CTRL_DOWN);
    terminal.wait_for("no agents in this session yet");
    terminal.say("is somebody in");
    terminal.wait_for("● it works beside me");
    terminal.wait_for("└ Look around");
    terminal.send(CTRL_DOWN);
    terminal.wait_for("● general-purpose: Look around");
    terminal.wait_for("agent 1 of 1 · running");
    // What it has written so far, though its answer is not over.
    terminal.wait_for("● I look into");
    assert!(!terminal.screen().contains("Nobody is there."));
    terminal.send("also the cellar\r");
    terminal.wait_for("sent: it reads this with its next step");
    stage.server.gate("found").release();
    terminal.wait_for("● The cellar is empty.");
    terminal.wait_for("✓ general-purpose: Look around");
    // One that is done continues.
    terminal.send("look once more\r");
    terminal.wait_for("● Still empty.");
    terminal.send(CTRL_UP);
    terminal.wait_gone("type to write to it");
    terminal.wait_for("● now I know");
}

#[test]
fn an_agent_in_the_background_asks_with_its_name_and_task() {
    let stage = Stage::new(
        Scenario::new()
            .reply(
                Reply::tool_use("Bash", json!({"command": "touch made.txt"}))
                    .when(When::last_user_text_contains("MAKE IT")),
            )
            .reply(Reply::text("It is made.").when(When {
                tool_result_for: Some("Bash".to_owned()),
                ..When::default()
            }))
            .reply(Reply::tool_use("Agent", order("Make the file", "MAKE IT")))
            .reply(Reply::text("it works beside me"))
            .reply(Reply::text("now I know").optional()),
    );
    let terminal = stage.open_sized(90, 30);
    terminal.say("let somebody make it");
    terminal.wait_for("Run this command?");
    terminal.wait_for("asked by agent general-purpose: Make the file");
    terminal.wait_for("● it works beside me");
    terminal.send("y");
    terminal.wait_for("● now I know");
    terminal.wait_for("? for keys");
    assert!(stage.home.project().join("made.txt").exists());
}

#[test]
fn changes_that_were_made_are_put_back_by_hunk_and_commented_by_line() {
    let stage = Stage::replies([Reply::text("hello to you"), Reply::text("understood")]);
    let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
    stage.home.write("a.txt", &old);
    stage.home.git_init();
    assert_eq!(stage.home.run(["trust", "add"], "").code(), Some(0));
    let new = old
        .replace("line 2\n", "two\n")
        .replace("line 19\n", "nineteen\n");
    stage.home.write("a.txt", &new);
    let terminal = stage.open_sized(90, 30);
    // Changes are listed when the session is open.
    terminal.say("hello");
    terminal.wait_for("● hello to you");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/diff ");
    terminal.wait_for("enter open · r review");
    terminal.send("r");
    terminal.wait_for("✓ hunk 2 of 2 · kept");
    terminal.send("n");
    terminal.wait_for("✗ hunk 1 of 2 · put back");
    terminal.send("\t");
    terminal.send("j");
    terminal.send("c");
    terminal.wait_for("Comment:");
    terminal.send("spell it 19\r");
    terminal.wait_for("▸ spell it 19");
    terminal.send("\r");
    terminal.wait_for("a.txt is written as you reviewed it");
    terminal.wait_for("I put 1 of 2 hunks of the change to a.txt back");
    let file = std::fs::read_to_string(stage.home.project().join("a.txt")).unwrap();
    assert_eq!(file, old.replace("line 19\n", "nineteen\n"));
    terminal.send("\r");
    terminal.wait_for("● understood");
    let told = super::said(&stage, 1);
    assert!(told.contains("-line 2\n+two"), "{told}");
    assert!(told.contains("a.txt:19 `nineteen`: spell it 19"), "{told}");
}

#[test]
fn a_plan_is_reviewed_by_part_and_commented_by_line() {
    let plan = "# The way\n\n1. Look\n2. Delete everything\n3. Write the report";
    let stage = Stage::replies([
        Reply::tool_use("ExitPlanMode", json!({"plan": plan})),
        Reply::text("I plan again"),
    ]);
    let terminal = stage.open_with(&["--permission-mode", "plan"], 90, 30);
    terminal.wait_for("plan mode on");
    terminal.say("think about it");
    terminal.wait_for("h review by part");
    terminal.send("h");
    terminal.wait_for("✓ part 4 of 4 · accepted");
    terminal.send("\t\t");
    terminal.send("n");
    terminal.wait_for("✗ part 3 of 4 · rejected");
    terminal.send("\t");
    terminal.send("c");
    terminal.wait_for("Comment:");
    terminal.send("keep it short\r");
    terminal.wait_for("▸ keep it short");
    terminal.send("\r");
    terminal.wait_for("Your review goes along: 1 rejected part, 1 comment");
    assert!(!terminal.screen().contains("Delete everything"));
    terminal.send("\r");
    terminal.wait_for("● I plan again");
    let told = stage.server.message_requests()[1].to_json().to_string();
    for words in [
        "I rejected 1 of 4 parts of the plan; leave this out:\\n2. Delete everything",
        "Line 5 of the plan, `3. Write the report`: keep it short",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn an_edit_by_the_shell_is_a_change_that_can_be_reviewed_by_hunk() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "sed -i 's/old/new/' a.txt"})),
        Reply::text("half of it"),
        Reply::tool_use("Bash", json!({"command": "echo text > b.txt"})),
        Reply::text("all of it"),
    ]);
    let old: String = (1..=20)
        .map(|n| format!("{} {n}\n", if n == 2 || n == 19 { "old" } else { "line" }))
        .collect();
    stage.home.write("a.txt", &old);
    let terminal = stage.open_sized(90, 40);
    terminal.say("rename it");
    terminal.wait_for("Run this command?");
    terminal.wait_for("new 19");
    terminal.wait_for("h review by hunk");
    terminal.send("h");
    terminal.wait_for("✓ hunk 2 of 2 · accepted");
    terminal.send("n");
    terminal.wait_for("✗ hunk 1 of 2 · rejected");
    terminal.send("\r");
    terminal.wait_for("● half of it");
    let file = std::fs::read_to_string(stage.home.project().join("a.txt")).unwrap();
    assert_eq!(file, old.replace("old 19", "new 19"));
    let requests = stage.server.message_requests();
    let told = requests[1].to_json().to_string();
    assert!(
        told.contains("I rejected 1 of 2 hunks of the change to a.txt"),
        "{told}"
    );
    // One that is accepted as it is, is shown as the change that it made.
    terminal.say("and another");
    terminal.wait_for("Run this command?");
    terminal.send("y");
    terminal.wait_for("● all of it");
    let shown = terminal.everything();
    let after = shown.rsplit_once("and another").unwrap().1;
    assert!(
        after.contains("+1") && after.contains("1 + text"),
        "{after}"
    );
}
