use super::Stage;
use lathe_scripted::{Position, Reply, When};
use serde_json::json;

fn run(stage: &Stage, command: &str, expected: &[&str]) {
    let terminal = stage.open_sized(100, 60);
    terminal.wait_for("claude");
    terminal.say(command);
    // Long answers go off the screen.
    for text in expected {
        terminal.wait_everything(text, |all| all.contains(text));
    }
}

#[test]
fn help_lists_the_commands() {
    run(
        &Stage::replies([]),
        "/help ",
        &["/compact", "/rewind", "runs a shell command"],
    );
}

#[test]
fn context_shows_how_full_the_window_is() {
    let stage = Stage::replies([Reply::text("ok")]);
    let terminal = stage.open_sized(100, 40);
    terminal.say("hello");
    terminal.wait_for("● ok");
    terminal.say("/context ");
    terminal.wait_for("System prompt");
    terminal.wait_for("■");
    terminal.wait_for("esc back");
    terminal.send("\x1b");
    terminal.wait_gone("System prompt");
}

#[test]
fn cost_shows_usage() {
    let stage = Stage::replies([Reply::text("ok")]);
    let terminal = stage.open_sized(100, 40);
    terminal.say("hello");
    terminal.wait_for("● ok");
    // What the answer used is known when the turn is over.
    terminal.wait_gone("esc to interrupt");
    terminal.say("/cost ");
    terminal.wait_for("This session: $");
    terminal.wait_for("cache read");
    terminal.send("q");
    terminal.wait_gone("cache read");
}

#[test]
fn status_names_the_session() {
    run(
        &Stage::replies([]),
        "/status ",
        &["transcript", "key from", "terminal"],
    );
}

#[test]
fn hooks_memory_and_tools_are_listed() {
    let stage = Stage::replies([]);
    stage.home.write("AGENTS.md", "# Rules\n\nUse tabs.\n");
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo stopped"}]}]}})
            .to_string(),
    )
    .unwrap();
    let terminal = stage.open_sized(100, 40);
    terminal.wait_for("claude");
    terminal.say("/hooks ");
    terminal.wait_for("echo stopped");
    terminal.send("\r");
    terminal.wait_for("Hook on Stop");
    terminal.send("\x1b");
    terminal.wait_for("search:");
    terminal.send("\x1b");
    terminal.wait_gone("search:");
    terminal.say("/memory ");
    terminal.wait_for("AGENTS.md");
    terminal.say("/tools ");
    terminal.wait_for("TaskUpdate");
}

#[test]
fn clear_starts_a_new_conversation() {
    let stage = Stage::replies([Reply::text("first answer"), Reply::text("second answer")]);
    let terminal = stage.open();
    terminal.say("remember the number 7");
    terminal.wait_for("● first answer");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/clear ");
    terminal.wait_for("a new conversation");
    terminal.say("which number");
    terminal.wait_for("● second answer");
    let second = stage.server.message_requests()[1].to_json().to_string();
    assert!(!second.contains("number 7"), "{second}");
}

#[test]
fn compact_replaces_the_conversation_by_a_summary() {
    let stage = Stage::replies([
        Reply::text("a long answer"),
        Reply::text("<summary>we talked about seven</summary>")
            .when(When::tools_empty())
            .optional(),
        Reply::text("<summary>we talked about seven</summary>").optional(),
        Reply::text("after it").optional(),
    ]);
    let terminal = stage.open();
    terminal.say("tell me about seven");
    terminal.wait_for("● a long answer");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/compact ");
    terminal.wait_for("the conversation was summarised");
    terminal.wait_gone("esc to interrupt");
}

#[test]
fn the_model_is_chosen_from_a_list() {
    let stage = Stage::replies([Reply::text("I am small")]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.say("/model ");
    terminal.wait_for("Which model?");
    terminal.wait_for("haiku");
    terminal.send("\x1b");
    terminal.wait_gone("Which model?");
    terminal.say("/model haiku");
    terminal.wait_for("model: claude-haiku");
    terminal.say("who are you");
    terminal.wait_for("● I am small");
    assert!(stage.server.message_requests()[0].model().contains("haiku"));
}

#[test]
fn a_key_opens_the_model_list_even_if_a_file_is_called_model() {
    let stage = Stage::replies([Reply::text("of the file")]);
    let commands = stage.home.config().join("commands");
    std::fs::create_dir_all(&commands).unwrap();
    std::fs::write(commands.join("model.md"), "Describe the data model.\n").unwrap();
    let terminal = stage.open();
    terminal.wait_for("claude");
    // The command that is typed is the file's.
    terminal.say("/model ");
    terminal.wait_for("● of the file");
    terminal.wait_gone("esc to interrupt");
    // Alt and p.
    terminal.send("\x1bp");
    terminal.wait_for("Which model?");
    terminal.send("\r");
    terminal.wait_for("model: claude");
    assert_eq!(stage.server.message_requests().len(), 1);
}

#[test]
fn a_command_runs_after_a_compaction_that_failed() {
    let stage = Stage::replies([
        Reply::text("ok"),
        Reply::error_with(400, "invalid_request_error", "no"),
    ]);
    let terminal = stage.open_sized(100, 40);
    terminal.say("hello");
    terminal.wait_for("● ok");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/compact ");
    terminal.wait_for("was not compacted");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/rename after the failure");
    terminal.wait_for("Renamed the session.");
}

#[test]
fn rewind_goes_back_with_conversation_and_files() {
    let stage = Stage::replies([
        Reply::text("noted"),
        Reply::tool_use("Write", json!({"file_path": "made.txt", "content": "x\n"})),
        Reply::text("written"),
        Reply::text("fresh"),
    ]);
    let terminal = stage.open_with(&["--permission-mode", "acceptEdits"], 90, 30);
    terminal.say("first things");
    terminal.wait_for("● noted");
    terminal.say("write the file");
    terminal.wait_for("● written");
    terminal.wait_gone("esc to interrupt");
    assert!(stage.home.project().join("made.txt").exists());
    terminal.say("/rewind ");
    terminal.wait_for("Rewind to before which prompt?");
    terminal.send("\r");
    terminal.wait_for("What should be rewound?");
    terminal.send("1");
    terminal.wait_everything(
        "the first answer again, after a word on what happened",
        |all| {
            all.rsplit_once("after the rewind")
                .is_some_and(|(_, after)| {
                    after.contains("❯ first things") && after.contains("● noted")
                })
        },
    );
    assert!(!stage.home.project().join("made.txt").exists());
    // What was said there is in the prompt again.
    terminal.wait_for("❯ write the file");
    terminal.send("\x15");
    terminal.wait_for("shift+tab changes it");
    terminal.say("go on");
    terminal.wait_for("● fresh");
    let last = stage
        .server
        .message_requests()
        .last()
        .unwrap()
        .to_json()
        .to_string();
    assert!(
        last.contains("first things") && !last.contains("write the file"),
        "{last}"
    );
}

#[test]
fn export_writes_the_conversation() {
    let stage = Stage::replies([Reply::text("an answer worth keeping")]);
    let terminal = stage.open();
    terminal.say("a question");
    terminal.wait_for("● an answer");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/export talk.md");
    terminal.wait_for("Wrote ");
    let text = stage.home.read("talk.md");
    assert!(text.contains("a question") && text.contains("an answer worth keeping"));
}

#[test]
fn copy_puts_the_answer_into_the_clipboard() {
    let stage = Stage::replies([Reply::text("copy me")]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("● copy me");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/copy ");
    // "copy me" in base64.
    terminal.wait_for_bytes("\x1b]52;c;Y29weSBtZQ==");
}

#[test]
fn diff_shows_changes() {
    let stage = Stage::replies([]);
    stage.home.write("a.txt", "one\ntwo\n");
    stage.home.git_init();
    stage.home.write("a.txt", "one\nchanged\n");
    stage.home.write("new.txt", "fresh\n");
    // Git is run only in a folder that the user trusts.
    assert_eq!(stage.home.run(["trust", "add"], "").code(), Some(0));
    let terminal = stage.open_sized(100, 30);
    terminal.wait_for("claude");
    terminal.say("/diff ");
    terminal.wait_for("Changes since the last commit · 2 files +2 −1");
    terminal.wait_for("❯ a.txt");
    terminal.send("\r");
    terminal.wait_for("2 - two");
    terminal.wait_for("2 + changed");
    terminal.send("\x1b[C");
    terminal.wait_for("1 + fresh");
    terminal.send("\x1b");
    terminal.wait_for("enter open");
    terminal.send("\x1b");
    terminal.wait_gone("Changes since");
}

#[test]
fn a_theme_is_tried_and_kept() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.say("/theme ");
    terminal.wait_for("dark-colorblind");
    terminal.send("\x1b[B\x1b[B\r");
    terminal.wait_for("theme: light");
    let settings = std::fs::read_to_string(stage.home.config().join("settings.json")).unwrap();
    assert!(settings.contains("\"theme\": \"light\""), "{settings}");
}

#[test]
fn settings_are_shown_and_changed() {
    let stage = Stage::replies([]);
    let terminal = stage.open_sized(100, 30);
    terminal.wait_for("claude");
    terminal.say("/config ");
    terminal.wait_for("editorMode");
    terminal.send("autoComp\r");
    terminal.wait_for("autoCompact:");
    terminal.send("2");
    terminal.wait_for("autoCompact: false");
    let settings = std::fs::read_to_string(stage.home.config().join("settings.json")).unwrap();
    assert!(settings.contains("\"autoCompact\": false"), "{settings}");
}

#[test]
fn rules_are_added_and_listed() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "touch allowed"})),
        Reply::text("done"),
    ]);
    let terminal = stage.open_sized(100, 30);
    terminal.wait_for("claude");
    terminal.say("/permissions allow Bash(touch:*)");
    terminal.wait_for("Rule added");
    terminal.say("go");
    terminal.wait_for("● done");
    assert!(stage.home.project().join("allowed").exists());
}

#[test]
fn a_folder_is_added() {
    let stage = Stage::replies([]);
    let other = stage.home.root().join("other");
    std::fs::create_dir(&other).unwrap();
    let terminal = stage.open_sized(120, 30);
    terminal.wait_for("claude");
    terminal.say(&format!("/add-dir {}", other.display()));
    terminal.wait_for("Lathe may now work in");
    terminal.say("/add-dir /no/such/folder");
    terminal.wait_for("is not a folder");
}

#[test]
fn background_tasks_are_listed_and_stopped() {
    let stage = Stage::replies([
        Reply::tool_use(
            "Bash",
            json!({"command": "sleep 300", "run_in_background": true, "description": "Sleep long"}),
        ),
        Reply::text("it sleeps"),
    ]);
    let terminal = stage.open_with(&["--allowedTools", "Bash"], 100, 30);
    terminal.say("go");
    terminal.wait_for("● it sleeps");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/tasks ");
    terminal.wait_for("In the background");
    terminal.wait_for("Sleep long");
    terminal.send("x");
    terminal.wait_for("was stopped");
    // The list stays, and shows it.
    terminal.wait("the list to show it", |screen| {
        screen.contains("In the background") && screen.contains("· killed ·")
    });
    terminal.send("\x1b");
    terminal.wait_gone("In the background");
}

#[test]
fn a_key_in_the_list_of_tasks_keeps_a_command_at_exit() {
    let stage = Stage::replies([
        Reply::tool_use(
            "Bash",
            json!({"command": "sleep 300", "run_in_background": true, "description": "Sleep long"}),
        ),
        Reply::text("it sleeps"),
    ]);
    let terminal = stage.open_with(&["--allowedTools", "Bash"], 100, 30);
    terminal.say("go");
    terminal.wait_for("● it sleeps");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/tasks ");
    terminal.wait_for("Sleep long");
    terminal.send("k");
    terminal.wait_for("· kept at exit");
    terminal.send("k");
    terminal.wait_gone("· kept at exit");
    terminal.send("x");
    terminal.wait_for("· killed ·");
}

#[test]
fn ctrl_b_lets_a_command_go_on_in_the_background() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "echo begun; sleep 300"})),
        Reply::text("it goes on"),
    ]);
    let terminal = stage.open_with(&["--allowedTools", "Bash"], 100, 30);
    terminal.say("go");
    // Only what runs can continue elsewhere: wait for what it printed.
    terminal.wait_for("\n  begun");
    terminal.send("\x02");
    terminal.wait_for("● it goes on");
}

#[test]
fn entries_during_a_turn_run_after_it_in_order() {
    let stage = Stage::replies([
        Reply::text("first answer").gate(Position::MidBlock(0), "go"),
        Reply::text("second answer"),
    ]);
    let terminal = stage.open();
    terminal.say("remember the number 7");
    terminal.wait_for("esc to interrupt");
    terminal.say("/clear ");
    terminal.wait("it to wait", |screen| {
        screen.lines().any(|line| line.trim_end() == "⧗ /clear")
    });
    terminal.say("which number");
    terminal.wait("both to wait", |screen| {
        screen
            .lines()
            .any(|line| line.trim_end() == "⧗ which number")
    });
    // The last of them can be taken back and sent again.
    terminal.send("\x1b[A");
    terminal.wait_for("❯ which number");
    terminal.send(" was it\r");
    stage.server.gate("go").release();
    terminal.wait_for("a new conversation");
    terminal.wait_for("● second answer");
    let requests = stage.server.message_requests();
    let second = requests[1].to_json().to_string();
    assert!(
        second.contains("which number was it") && !second.contains("number 7"),
        "{second}"
    );
}

#[test]
fn a_session_is_renamed_and_found_by_its_title() {
    let stage = Stage::replies([Reply::text("ok"), Reply::text("again")]);
    let mut terminal = stage.open();
    terminal.say("hello");
    terminal.wait_for("● ok");
    terminal.say("/rename My fine title");
    terminal.wait_for("Renamed the session.");
    terminal.leave();
    let terminal = stage.open_with(&["--resume", "My fine title"], 80, 24);
    terminal.wait_for("● ok");
}

#[test]
fn two_escapes_open_the_rewind_list() {
    let stage = Stage::replies([Reply::text("ok")]);
    let terminal = stage.open();
    terminal.say("hello");
    terminal.wait_for("● ok");
    terminal.wait_gone("esc to interrupt");
    terminal.send("\x1b\x1b");
    terminal.wait_for("Rewind to before which prompt?");
    terminal.send("\x1b");
    terminal.wait_gone("Rewind to before");
}

#[test]
fn keys_and_checks_are_listed() {
    let stage = Stage::replies([]);
    let terminal = stage.open_sized(110, 70);
    terminal.wait_for("claude");
    terminal.say("/keybindings ");
    terminal.wait_for("ctrl+r");
    terminal.send("G");
    terminal.wait_for("keybindings.json");
    terminal.send("\x1b");
    terminal.wait_gone("keybindings.json");
    terminal.say("/doctor ");
    terminal.wait_for("Doctor: ");
    terminal.wait_for("key bindings are valid");
    terminal.wait_for("esc back");
}
