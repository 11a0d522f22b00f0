use super::Stage;
use lathe_scripted::{Position, Reply, Scenario, When};
use lathe_testkit::Terminal;
use serde_json::json;

#[test]
fn escape_goes_back_one_step_at_a_time() {
    let stage = Stage::replies([Reply::text("ok")]);
    let terminal = stage.open_sized(100, 30);
    terminal.say("hello");
    terminal.wait_for("● ok");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/config ");
    terminal.wait_for("Settings");
    terminal.send("editorMode\r");
    terminal.wait_for("editorMode: how the prompt is edited");
    terminal.send("\x1b");
    terminal.wait("the list, with what was searched", |screen| {
        screen.contains("search: editorMode")
    });
    // The search first, then the list.
    terminal.send("\x1b");
    terminal.wait_for("cleanupPeriodDays");
    terminal.send("\x1b");
    terminal.wait_gone("cleanupPeriodDays");
    terminal.say("/rewind ");
    terminal.wait_for("Rewind to before which prompt?");
    terminal.send("\r");
    terminal.wait_for("What should be rewound?");
    terminal.send("\x1b");
    terminal.wait_for("Rewind to before which prompt?");
    terminal.send("\x1b");
    terminal.wait_gone("Rewind to before which prompt?");
    terminal.say("/agents ");
    terminal.wait_for("general-purpose");
    terminal.send("\x0f");
    terminal.wait_for("from    ");
    terminal.send("\x1b");
    terminal.wait_for("search:");
    terminal.send("\x1b");
    terminal.wait_gone("search:");
}

#[test]
fn changes_of_the_session_are_shown_beside_those_git_sees() {
    let stage = Stage::replies([
        Reply::tool_use(
            "Write",
            json!({"file_path": "made.txt", "content": "one\ntwo\n"}),
        ),
        Reply::text("written"),
    ]);
    assert_eq!(stage.home.run(["trust", "add"], "").code(), Some(0));
    let terminal = stage.open_with(&["--permission-mode", "acceptEdits"], 100, 30);
    terminal.say("write it");
    terminal.wait_for("● written");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/diff ");
    // There is no repository here, so the session's side comes first.
    terminal.wait_for("Changes by this session · 1 file +2 −0");
    terminal.wait_for("❯ made.txt");
    terminal.send("\r");
    terminal.wait_for("2 + two");
    terminal.send("\t");
    terminal.wait_for("Changes since the last commit");
    terminal.wait_for("not in a git repository");
    terminal.send("\x1b");
    terminal.wait_gone("Changes since");
}

#[test]
fn a_session_that_costs_much_is_asked_about_once() {
    let stage = Stage::replies([
        Reply::text("one"),
        Reply::text("two"),
        Reply::text("three").optional(),
    ]);
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"costThresholdUsd": 0.000_001}).to_string(),
    )
    .unwrap();
    let terminal = stage.open_sized(100, 30);
    terminal.say("hello");
    terminal.wait_for("● one");
    terminal.wait_for("This session has cost $");
    terminal.send("2");
    terminal.wait_for("cache written");
    terminal.send("\x1b");
    // Back to the question, which is answered for good.
    terminal.wait_for("Don't ask again");
    terminal.send("3");
    terminal.wait_for("You won't be asked again");
    let settings = std::fs::read_to_string(stage.home.config().join("settings.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings["costThresholdUsd"], 0);
    terminal.say("again");
    terminal.wait_for("● two");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/version ");
    terminal.wait_for("lathe 0.");
}

#[test]
fn login_shows_the_key_source_and_sets_and_removes_a_program() {
    let stage = Stage::replies([]);
    let settings = stage.home.config().join("settings.json");
    let terminal = stage.open_sized(110, 30);
    terminal.wait_for("claude");
    terminal.say("/logout ");
    terminal.wait_for("unset it where you set it");
    terminal.say("/login ");
    terminal.wait_for("This session's API key comes from ANTHROPIC_API_KEY");
    terminal.send("2");
    terminal.wait_for("A command that prints the key");
    terminal.send("printf test-key\r");
    terminal.wait_for("Saved in your settings; new sessions");
    let text = std::fs::read_to_string(&settings).unwrap();
    assert!(
        text.contains("\"apiKeyHelper\": \"printf test-key\""),
        "{text}"
    );
    // The session reads its settings anew by itself; until then there is nothing to forget.
    loop {
        terminal.say("/logout ");
        terminal.wait("an answer", |screen| {
            let last = screen.rfind("/logout").map_or(screen, |at| &screen[at..]);
            last.contains("Remove the API key program?")
                || last.contains("unset it where you set it")
        });
        if terminal.screen().contains("Remove the API key program?") {
            break;
        }
    }
    terminal.send("1");
    terminal.wait_for("Removed the program");
    let text = std::fs::read_to_string(&settings).unwrap();
    assert!(!text.contains("apiKeyHelper"), "{text}");
    assert!(!terminal.everything().contains("test-key\n"));
}

#[test]
fn editors_are_found_and_a_failed_connection_is_reported() {
    let stage = Stage::replies([]);
    let terminal = stage.open_sized(110, 30);
    terminal.wait_for("claude");
    terminal.say("/ide ");
    terminal.wait_for("No editor found");
    // A port that nobody listens on, and a process that lives.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let folder = stage.home.home().join(".claude/ide");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join(format!("{port}.lock")),
        json!({"pid": std::process::id(), "ideName": "Some Editor", "transport": "ws",
               "workspaceFolders": [stage.home.project()], "authToken": "t"})
        .to_string(),
    )
    .unwrap();
    terminal.say("/ide ");
    terminal.wait_for("Connect to which editor?");
    terminal.wait_for("has this folder open");
    terminal.send("\r");
    terminal.wait_for("can't connect to Some Editor");
}

#[test]
fn an_agent_goes_on_in_the_background_when_it_is_sent_there() {
    let searching = When::last_user_text_contains("SEARCH THE HOUSE");
    let stage = Stage::new(
        Scenario::new()
            .reply(
                Reply::text("nobody there")
                    .when(searching)
                    .gate(Position::MidBlock(0), "found"),
            )
            .reply(Reply::tool_use(
                "Agent",
                json!({"description": "Look around", "prompt": "SEARCH THE HOUSE",
                       "subagent_type": "general-purpose", "run_in_background": false}),
            ))
            .reply(Reply::text("it goes on elsewhere"))
            .reply(Reply::text("now I know").optional()),
    );
    let terminal = stage.open_sized(100, 30);
    terminal.say("is somebody in");
    terminal.wait_for("└ Look around");
    terminal.send("\x02");
    terminal.wait_for("● it goes on elsewhere");
    terminal.wait_for("1 agent running");
    // It can be looked at, and what it found comes back.
    terminal.say("/tasks ");
    terminal.wait_for("running · general-purpose");
    terminal.send("\r");
    terminal.wait_for("type to write to it");
    terminal.send("\x1b");
    terminal.wait_for("In the background");
    terminal.send("\x1b");
    terminal.wait_gone("In the background");
    stage.server.gate("found").release();
    terminal.wait_for("● now I know");
}

#[test]
fn verbose_shows_tool_output_unfolded() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "seq 1 40"})),
        Reply::text("counted"),
    ]);
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"verbose": true}).to_string(),
    )
    .unwrap();
    let terminal = stage.open_with(&["--allowedTools", "Bash"], 80, 24);
    terminal.say("count");
    terminal.wait_for("● counted");
    let all = terminal.everything();
    for number in 1..=40 {
        assert!(
            all.lines().any(|line| line.trim() == number.to_string()),
            "{number} is missing:\n{all}"
        );
    }
}

/// Runs a command and waits for what it shows; closes the dialog, if it opens one.
fn shows(terminal: &Terminal, command: &str, expected: &str, closes: bool) {
    terminal.say(command);
    terminal.wait_for(expected);
    if closes {
        terminal.send("\x1b");
        terminal.wait_gone("esc back");
    }
}

#[test]
fn every_command_works_or_says_why() {
    let stage = Stage::replies([Reply::text("ok")]);
    stage.home.write("sub/a.txt", "x\n");
    let terminal = stage.open_sized(110, 40);
    terminal.say("hello");
    terminal.wait_for("● ok");
    terminal.wait_gone("esc to interrupt");
    let (answers, dialog) = (false, true);
    let table: &[(&str, &str, bool)] = &[
        ("/help ", "In the prompt", dialog),
        ("/help cost", "Show tokens used and cost", answers),
        ("/context ", "System prompt", dialog),
        ("/usage ", "cache read", dialog),
        ("/config ", "editorMode", dialog),
        ("/model ", "Which model?", dialog),
        ("/fallback ", "No fallback model is set", answers),
        ("/effort ", "How much effort should the model use?", dialog),
        ("/permissions ", "Permission rules", dialog),
        ("/hooks ", "Hooks", dialog),
        ("/mcp ", "No MCP servers", answers),
        ("/agents ", "Explore", dialog),
        ("/skills ", "Skills and commands", dialog),
        ("/plugin ", "No plugins are installed", dialog),
        ("/memory ", "Instruction files", answers),
        ("/rename ", "A title for this session", dialog),
        ("/tag parser", "has the tag", answers),
        ("/rewind ", "Rewind to before which prompt?", dialog),
        ("/diff ", "Changes ", dialog),
        ("/export talk.txt", "Wrote ", answers),
        ("/copy ", "Copied the last answer", answers),
        ("/status ", "key from", answers),
        ("/statusline ", "statusLine in settings.json", answers),
        ("/doctor ", "Doctor: ", dialog),
        ("/theme ", "dark-colorblind", dialog),
        ("/keybindings ", "send the prompt", dialog),
        ("/output-style ", "Output style", dialog),
        ("/add-dir ", "Which folder?", dialog),
        ("/cd sub", "The working folder is", answers),
        ("/tasks ", "Nothing is running in the background", answers),
        ("/todos ", "No task list yet.", answers),
        ("/sandbox ", "The sandbox is off", answers),
        ("/ide ", "No editor found", answers),
        ("/login ", "API key", dialog),
        ("/logout ", "unset it where you set it", answers),
        ("/release-notes ", "Added", dialog),
        ("/feedback it is fine", "nothing was sent", answers),
        ("/stats ", "waited for the model", answers),
        (
            "/config language=Deutsch",
            "language is set for this",
            answers,
        ),
        ("/config language", "Deutsch", answers),
        ("/version ", "lathe 0.", answers),
        ("/mode ", "Permission mode", dialog),
        ("/vim ", "Vim keys are on", answers),
        ("/vim ", "Vim keys are off", answers),
        ("/plan ", "plan mode on", answers),
    ];
    for (command, expected, closes) in table {
        shows(&terminal, command, expected, *closes);
    }
    assert!(!terminal.everything().contains("Unknown slash command"));
}

#[test]
fn commands_for_the_model_become_turns() {
    let names = ["init", "review", "security-review", "commit", "pr-comments"];
    let stage = Stage::replies(names.map(|name| Reply::text(format!("did {name}"))));
    stage.home.write("a.txt", "x\n");
    stage.home.git_init();
    let terminal = stage.open_sized(100, 30);
    for name in names {
        terminal.say(&format!("/{name} "));
        terminal.wait_for(&format!("● did {name}"));
        terminal.wait_gone("esc to interrupt");
    }
    for (index, request) in stage.server.message_requests().iter().enumerate() {
        let sent = request.to_json().to_string();
        assert!(sent.len() > 2_000, "{}: {sent}", names[index]);
    }
}
