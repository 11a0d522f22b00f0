//! Interrupting in every phase of a turn.

use super::Stage;
use lathe_scripted::{Position, Reply, Scenario, When};
use serde_json::json;

/// Esc stops what runs, and the next prompt is answered.
fn interrupted_and_going_on(terminal: &lathe_testkit::Terminal) {
    terminal.send("\x1b");
    terminal.wait_for("Interrupted");
    terminal.wait_gone("esc to interrupt");
    terminal.say("go on");
    terminal.wait_for("● all is well");
}

#[test]
fn while_the_model_thinks() {
    let stage = Stage::replies([
        Reply::thinking("let me see").gate(Position::MidBlock(0), "never"),
        Reply::text("all is well"),
    ]);
    let terminal = stage.open();
    terminal.say("think");
    terminal.wait_for("Thinking…");
    interrupted_and_going_on(&terminal);
}

#[test]
fn while_the_model_writes_a_call() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "touch made"}))
            .gate(Position::MidBlock(0), "never"),
        Reply::text("all is well"),
    ]);
    let terminal = stage.open();
    terminal.say("do it");
    terminal.wait_for("Preparing Bash…");
    interrupted_and_going_on(&terminal);
    assert!(!stage.home.project().join("made").exists());
}

#[test]
fn while_waiting_to_ask_again() {
    let stage = Stage::replies([
        Reply::error(529).header("retry-after", "20"),
        Reply::text("all is well"),
    ]);
    let terminal = stage.open();
    terminal.say("hello");
    terminal.wait_for("Retrying in");
    interrupted_and_going_on(&terminal);
}

#[test]
fn while_an_agent_works() {
    let searching = When::last_user_text_contains("SEARCH THE HOUSE");
    let stage = Stage::new(
        Scenario::new()
            .reply(
                Reply::text("never")
                    .when(searching)
                    .gate(Position::MidBlock(0), "never")
                    .optional(),
            )
            .reply(Reply::tool_use(
                "Agent",
                json!({"description": "Look around", "prompt": "SEARCH THE HOUSE",
                       "subagent_type": "general-purpose", "run_in_background": false}),
            ))
            .reply(Reply::text("all is well")),
    );
    let terminal = stage.open();
    terminal.say("search");
    terminal.wait_for("└ Look around");
    interrupted_and_going_on(&terminal);
    terminal.wait_gone("└ Look around");
}

#[test]
fn while_the_conversation_is_summarised() {
    let stage = Stage::new(
        Scenario::new()
            .reply(Reply::text("a long answer"))
            .reply(Reply::text("<summary>x</summary>").gate(Position::MidBlock(0), "never"))
            .reply(Reply::text("all is well")),
    );
    let terminal = stage.open();
    terminal.say("tell me about seven");
    terminal.wait_for("● a long answer");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/compact ");
    terminal.wait_for("Summarising the conversation");
    assert!(stage.server.wait_for_requests(2, lathe_testkit::HANG_LIMIT));
    terminal.send("\x1b");
    terminal.wait_gone("Summarising the conversation");
    terminal.wait_gone("esc to interrupt");
    terminal.say("go on");
    terminal.wait_for("● all is well");
}
