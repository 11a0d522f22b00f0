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

#[test]
fn commands_are_answered_in_lines() {
    let mut stage = Stage::replies([Reply::text("one"), Reply::text("two")]);
    stage.home = stage.home.variable("TERM", "dumb");
    let mut terminal = stage.home.terminal::<&str>([], 100, 40);
    terminal.wait_for("> ");
    terminal.send("remember the number 7\n");
    terminal.wait_for("one");
    terminal.send("/cost\n");
    terminal.wait_for("Total cost: $");
    terminal.send("/theme\n");
    terminal.wait_for("/theme needs a terminal");
    terminal.send("/clear\n");
    terminal.wait_for("a new conversation");
    terminal.send("which number\n");
    terminal.wait_for("two");
    terminal.send("/exit\n");
    assert!(terminal.ended().success());
    let second = stage.server.message_requests()[1].to_json().to_string();
    assert!(!second.contains("number 7"), "{second}");
}

#[test]
fn questions_of_the_model_and_plans_are_answered_by_lines() {
    let mut stage = Stage::replies([
        Reply::tool_use(
            "AskUserQuestion",
            json!({"questions": [
                {"question": "Which store?", "header": "Store", "options": [
                    {"label": "SQLite", "description": "one file"}, {"label": "Postgres", "description": "a server"}]},
                {"question": "Which checks?", "header": "Checks", "multiSelect": true, "options": [
                    {"label": "Tests", "description": ""}, {"label": "Lints", "description": ""}]},
            ]}),
        ),
        Reply::tool_use("ExitPlanMode", json!({"plan": "1. Only look"})),
        Reply::text("as you wish"),
    ]);
    stage.home = stage.home.variable("TERM", "dumb");
    let terminal = stage.home.terminal(["--permission-mode", "plan"], 100, 40);
    terminal.wait_for("> ");
    terminal.send("plan it\n");
    terminal.wait_for("2. Postgres: a server");
    terminal.send("2\n");
    terminal.wait_for("Which checks?");
    terminal.wait_for("numbers separated by commas");
    terminal.send("1,2\n");
    terminal.wait_for("1. Only look");
    let told = stage.server.message_requests()[1].last_tool_result();
    assert!(
        told.contains("Which store? → Postgres") && told.contains("Which checks? → Tests, Lints"),
        "{told}"
    );
    terminal.wait_for("say what to change");
    terminal.send("y\n");
    terminal.wait_for("as you wish");
}

#[test]
fn a_question_in_lines_names_every_reason_and_all_that_always_changes() {
    let command = "mkdir -p made\ncargo-nothing build --all";
    let mut stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": command})),
        Reply::tool_use("Bash", json!({"command": "python3 -c 'print(1)'"})),
        Reply::text("done"),
    ]);
    stage.home = stage.home.variable("TERM", "dumb");
    let terminal = stage.home.terminal::<&str>([], 100, 40);
    terminal.wait_for("> ");
    terminal.send("go\n");
    terminal.wait_for("mkdir may change things");
    terminal.wait_for("cargo-nothing may change things");
    terminal.wait_for("a saves the rule: allow Bash(cargo-nothing build:*)");
    terminal.wait_for("a means: accept all edits this session");
    terminal.wait_for("a always");
    terminal.send("y\n");
    // Where no rule would fit again, none is offered.
    terminal.wait_for("python3 -c");
    terminal.wait_for("y yes, n no, or say why not");
    terminal.send("a\n");
    terminal.wait_for("No rule would fit again");
    terminal.send("y\n");
    terminal.wait_for("done");
}

#[test]
fn an_image_is_named_in_lines() {
    let mut stage = Stage::replies([
        Reply::tool_use("Read", json!({"file_path": "plot.bmp"})),
        Reply::text("seen"),
    ]);
    stage.home.write("plot.bmp", super::terminals::bitmap());
    stage.home = stage.home.variable("TERM", "dumb");
    let terminal = stage.home.terminal::<&str>([], 100, 40);
    terminal.wait_for("> ");
    terminal.send("go\n");
    terminal.wait_for("image · PNG");
    terminal.wait_for("seen");
}
