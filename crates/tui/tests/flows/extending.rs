use super::Stage;
use lathe_scripted::{Position, Reply, Scenario, When};
use serde_json::json;

#[test]
fn the_model_asks_and_the_user_chooses() {
    let stage = Stage::replies([
        Reply::tool_use(
            "AskUserQuestion",
            json!({"questions": [
                {"question": "Which store?", "header": "Store", "options": [
                    {"label": "SQLite", "description": "one file"}, {"label": "Postgres", "description": "a server"}]},
                {"question": "Which checks?", "header": "Checks", "multiSelect": true, "options": [
                    {"label": "Tests", "description": ""}, {"label": "Lints", "description": ""}]},
            ]}),
        ),
        Reply::text("as you wish"),
    ]);
    let terminal = stage.open_sized(90, 30);
    terminal.say("plan it");
    terminal.wait_for("Which store?");
    terminal.wait_for("a server");
    terminal.send("2");
    terminal.wait_for("Which checks?");
    terminal.send("1");
    terminal.wait_for("[x] Tests");
    // Words of one's own count beside what is offered.
    terminal.send("3benches");
    terminal.wait_for("Something else: benches");
    terminal.send("\r");
    terminal.wait_for("Your answers");
    terminal.wait_for("Tests, benches");
    terminal.send("\r");
    terminal.wait_for("● as you wish");
    let told = stage.server.message_requests()[1].last_tool_result();
    assert!(
        told.contains("Which store? → Postgres") && told.contains("Which checks? → Tests, benches"),
        "{told}"
    );
}

#[test]
fn a_question_that_is_not_answered_stops_the_turn() {
    let stage = Stage::replies([Reply::tool_use(
        "AskUserQuestion",
        json!({"questions": [{"question": "Which store?", "header": "Store", "options": [
            {"label": "SQLite", "description": "one file"}, {"label": "Postgres", "description": "a server"}]}]}),
    )]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Which store?");
    terminal.wait_for("don't answer");
    terminal.send("\x1b");
    terminal.wait_for("Interrupted");
    assert_eq!(stage.server.message_requests().len(), 1);
}

#[test]
fn a_plan_is_approved_and_the_work_goes_on_in_the_chosen_mode() {
    let stage = Stage::replies([
        Reply::tool_use(
            "ExitPlanMode",
            json!({"plan": "# The way\n\n1. Read the **parser**\n2. Mend it"}),
        ),
        Reply::tool_use("ExitPlanMode", json!({"plan": "# The way\n\n1. Only look"})),
        Reply::tool_use("Write", json!({"file_path": "made.txt", "content": "x\n"})),
        Reply::text("carried out"),
    ]);
    let terminal = stage.open_with(&["--permission-mode", "plan"], 90, 30);
    terminal.wait_for("plan mode on");
    terminal.say("mend the parser");
    terminal.wait_for("Go ahead with this plan?");
    terminal.wait_for("1. Read the parser");
    terminal.send("5");
    terminal.wait_for("say what to change");
    terminal.send("only look\r");
    terminal.wait_for("1. Only look");
    let told = stage.server.message_requests()[1].last_tool_result();
    assert!(told.contains("only look"), "{told}");
    terminal.send("1");
    terminal.wait_for("● carried out");
    terminal.wait_for("accept edits on");
    assert!(stage.home.project().join("made.txt").exists());
}

#[test]
fn custom_commands_and_skills_are_offered_and_run() {
    let stage = Stage::replies([Reply::text("good morning")]);
    let commands = stage.home.config().join("commands");
    std::fs::create_dir_all(&commands).unwrap();
    std::fs::write(
        commands.join("greet.md"),
        "---\ndescription: Greets somebody\nargument-hint: <name>\n---\nSay good morning to $ARGUMENTS.\n",
    )
    .unwrap();
    let terminal = stage.open_sized(100, 40);
    terminal.wait_for("claude");
    terminal.send("/gree");
    terminal.wait_for("Greets somebody");
    terminal.send("\t");
    terminal.wait_for("❯ /greet");
    terminal.send("Ada\r");
    terminal.wait_for("● good morning");
    let sent = stage.server.message_requests()[0].to_json().to_string();
    assert!(sent.contains("Say good morning to Ada."), "{sent}");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/skills ");
    terminal.wait_for("Skills and commands");
    terminal.send("greet");
    terminal.wait_for("❯ /greet <name>");
    terminal.send("\r");
    terminal.wait("it in the prompt", |screen| {
        screen.contains("❯ /greet") && !screen.contains("Skills and commands")
    });
}

#[test]
fn the_engine_answers_commands_that_are_not_the_terminals_own() {
    let stage = Stage::replies([]);
    let terminal = stage.open_sized(100, 40);
    terminal.wait_for("claude");
    terminal.say("/fallback ");
    terminal.wait_for("No fallback model is set");
    terminal.say("/tag parser");
    terminal.wait_for("has the tag \"parser\" now");
    terminal.say("/plugin ");
    terminal.wait_for("No plugins are installed");
    terminal.send("\x1b");
    terminal.wait_gone("No plugins are installed");
    terminal.say("/output-style ");
    terminal.wait_for("Output style");
    terminal.wait_for("Explanatory");
    terminal.send("\x1b");
    terminal.wait_gone("Output style");
    terminal.say("/output-style explanatory");
    terminal.wait_for("output style: Explanatory");
}

fn agent(background: bool) -> Reply {
    Reply::tool_use(
        "Agent",
        json!({"description": "Look around", "prompt": "SEARCH THE HOUSE",
               "subagent_type": "general-purpose", "run_in_background": background}),
    )
}

#[test]
fn an_agent_at_work_is_shown_in_a_tree_and_agents_are_listed() {
    let searching = When::last_user_text_contains("SEARCH THE HOUSE");
    let stage = Stage::new(
        Scenario::new()
            .reply(
                Reply::text("nobody there")
                    .when(searching)
                    .gate(Position::MidBlock(0), "found"),
            )
            .reply(agent(false))
            .reply(Reply::text("the house is empty")),
    );
    let terminal = stage.open_sized(100, 30);
    terminal.say("is somebody in");
    terminal.wait_for("└ Look around");
    stage.server.gate("found").release();
    terminal.wait_for("● the house is empty");
    terminal.wait_gone("esc to interrupt");
    terminal.wait_gone("└ Look around");
    terminal.say("/agents ");
    terminal.wait_for("general-purpose");
    terminal.send("\r");
    terminal.wait_for("❯ @agent-");
}

#[test]
fn an_agent_in_the_background_goes_on_until_it_is_stopped() {
    let searching = When::last_user_text_contains("SEARCH THE HOUSE");
    let stage = Stage::new(
        Scenario::new()
            .reply(
                Reply::text("never")
                    .when(searching)
                    .gate(Position::MidBlock(0), "never")
                    .optional(),
            )
            .reply(agent(true))
            .reply(Reply::text("it searches"))
            .reply(Reply::text("it was stopped").optional()),
    );
    let terminal = stage.open_sized(100, 30);
    terminal.say("search");
    terminal.wait_for("● it searches");
    terminal.wait_for("1 agent running");
    terminal.wait_for("└ Look around");
    terminal.say("/tasks ");
    terminal.wait_for("In the background");
    terminal.wait_for("running · general-purpose");
    terminal.send("\x1b");
    terminal.wait_gone("In the background");
    terminal.send("\x18\x0b");
    terminal.wait_for("1 agent stopped");
    terminal.wait_gone("1 agent running");
}
