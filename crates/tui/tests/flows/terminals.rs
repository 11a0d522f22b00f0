//! Abilities of terminals: images of tools, bindings for dialogs, notices apart from the conversation, the pull request in
//! the status line.

use super::{Stage, rows};
use lathe_scripted::Reply;
use lathe_testkit::TestHome;
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;

/// A bitmap file of one colour, 64 pixels wide and 32 high.
pub(super) fn bitmap() -> Vec<u8> {
    let pixels = [200, 120, 40].repeat(64 * 32);
    let mut file = b"BM".to_vec();
    for value in [54 + 64 * 32 * 3, 0, 54, 40, 64, 32_u32] {
        file.extend(value.to_le_bytes());
    }
    file.extend([1, 0, 24, 0]);
    file.extend([0; 24]);
    file.extend(pixels);
    file
}

fn with_picture() -> Stage {
    let stage = Stage::replies([
        Reply::tool_use("Read", json!({"file_path": "plot.bmp"})),
        Reply::text("I have seen it"),
    ]);
    stage.home.write("plot.bmp", bitmap());
    stage
}

#[test]
fn an_image_that_a_tool_returned_is_shown_in_the_form_that_the_terminal_knows() {
    for (answer, drawn) in [
        (
            "\x1b_Gi=31;OK\x1b\\\x1b[6;16;8t\x1b[?62;22c",
            "\x1b_Ga=T,f=100,c=8,r=2,",
        ),
        ("\x1b[6;16;8t\x1b[?62;4;22c", "\x1bP0;1;0q\"1;1;64;32"),
    ] {
        let stage = with_picture();
        let terminal = stage.open();
        terminal.say("look at it");
        terminal.wait_for_bytes("\x1b[16t\x1b[c");
        terminal.send(answer);
        terminal.wait_for_bytes(drawn);
        terminal.wait_for("● I have seen it");
        let shown = rows(&terminal);
        let at = |text: &str| shown.iter().position(|row| row.contains(text)).unwrap();
        let (call, name) = (at("Read plot.bmp"), at("image · PNG · 64×32"));
        assert_eq!(name, call + 3, "two rows are the image's: {shown:?}");
        assert!(name < at("● I have seen it"), "{shown:?}");
    }
}

#[test]
fn an_image_is_named_where_the_terminal_shows_none_or_does_not_answer() {
    for answer in ["\x1b[?62;22c", ""] {
        let stage = with_picture();
        let terminal = stage.open();
        terminal.say("look at it");
        terminal.wait_for_bytes("\x1b[16t\x1b[c");
        terminal.send(answer);
        terminal.wait_for("● I have seen it");
        terminal.wait_for("Read plot.bmp · image");
        assert!(!terminal.raw().contains("\x1b_Ga=T"));
    }
}

#[test]
fn an_image_is_shown_again_when_the_session_is_resumed() {
    let stage = with_picture();
    let mut terminal = stage.open();
    terminal.say("look at it");
    terminal.wait_for_bytes("\x1b[c");
    terminal.send("\x1b[?62c");
    terminal.wait_for("● I have seen it");
    terminal.wait_gone("esc to interrupt");
    terminal.leave();
    let terminal = stage.open_with(&["--continue"], 80, 24);
    terminal.wait_for_bytes("\x1b[c");
    terminal.send("\x1b_Gi=31;OK\x1b\\\x1b[?62c");
    terminal.wait_for_bytes("\x1b_Ga=T");
    terminal.wait_for("● I have seen it");
}

#[test]
fn always_says_everything_that_it_changes() {
    let command = "mkdir -p made\ncargo-nothing build --all";
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": command})),
        Reply::text("done").optional(),
    ]);
    let terminal = stage.open_sized(100, 30);
    terminal.say("go");
    terminal.wait_for("No, and say why");
    let asked = terminal.screen();
    let rule = "Yes, and always allow Bash(cargo-nothing build:*) in this project (just me)";
    assert!(asked.contains(rule), "{asked}");
    // It may be wrapped.
    let words: Vec<&str> = asked.split_whitespace().collect();
    let more = "and accept all edits this session";
    assert!(words.join(" ").contains(more), "{asked}");
}

#[test]
fn keys_of_questions_and_lists_can_be_bound_in_both_forms() {
    let ours = json!({"question": {"f3": "yes", "y": null}, "list": {"ctrl+k ctrl+l": "last"}});
    let theirs = json!({"bindings": [
        {"context": "Confirmation", "bindings": {"f3": "confirm:yes", "y": null}},
        {"context": "Select", "bindings": {"ctrl+k ctrl+l": "select:last"}},
    ]});
    for bindings in [ours, theirs] {
        let stage = Stage::replies([
            Reply::tool_use("Bash", json!({"command": "touch made"})),
            Reply::text("It is there."),
        ]);
        let file = stage.home.config().join("keybindings.json");
        std::fs::write(file, bindings.to_string()).unwrap();
        let terminal = stage.open();
        terminal.say("make it");
        terminal.wait_for("Run this command?");
        terminal.wait_for("No, and say why");
        // Taken away: it neither answers nor reaches the prompt.
        terminal.send("y");
        terminal.send("\x1bOR");
        terminal.wait_for("● It is there.");
        assert!(stage.home.project().join("made").exists());
        terminal.wait_gone("esc to interrupt");
        terminal.say("/effort ");
        terminal.wait_for("How much effort");
        terminal.send("\x0b\x0c");
        terminal.wait_for("❯ 7. off");
        terminal.send("\x1b");
        terminal.wait_gone("How much effort");
        terminal.say("/keybindings ");
        terminal.wait_for("of 1");
        terminal.send("G");
        terminal.wait_for("Actions:");
    }
}

#[test]
fn an_agent_is_created_in_the_list_of_agents() {
    let Stage { server, home } = Stage::replies([]);
    let home = home.variable("EDITOR", "sed -i 's/in one sentence/when a file is long/'");
    let stage = Stage { server, home };
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.say("/agents ");
    terminal.wait_for("ctrl+n new");
    terminal.send("\x0e");
    terminal.wait_for("The name of the new agent");
    terminal.say("No Name");
    terminal.wait_for("is no name for an agent");
    terminal.say("/agents ");
    terminal.wait_for("ctrl+n new");
    terminal.send("\x0e");
    terminal.wait_for("The name of the new agent");
    terminal.say("reader");
    terminal.wait_for("Where does reader belong?");
    terminal.send("1");
    terminal.wait_for("Created ");
    let written = stage.home.read(".lathe/agents/reader.md");
    assert!(
        written.contains("name: reader") && written.contains("when a file is long"),
        "{written}"
    );
}

#[test]
fn without_a_key_the_setup_of_another_agent_can_be_imported() {
    let home = TestHome::new();
    let mut terminal = home.terminal::<&str>([], 80, 24);
    terminal.wait_for("4. Import the setup of another agent");
    terminal.wait_for("esc quit");
    terminal.send("4");
    assert!(terminal.ended().success());
    terminal.wait_for("no setup of another agent was found here");
}

#[test]
fn without_a_key_one_can_log_in_to_a_provider() {
    // A proxy that refuses everything stands before the provider.
    let home = TestHome::new()
        .variable("HTTPS_PROXY", "http://127.0.0.1:1")
        .variable("PATH", "/usr/bin:/bin")
        .variable("LATHE_MAX_RETRIES", "0");
    let terminal = home.terminal::<&str>([], 80, 24);
    terminal.wait_for("3. Log in to a provider");
    terminal.send("3");
    terminal.wait_for("Which provider?");
    terminal.send("openai");
    terminal.wait_for("❯ openai");
    terminal.send("\r");
    terminal.wait_for("The key of openai");
    // Back by one step, and again.
    terminal.send("\x1b");
    terminal.wait_for("Which model should be used?");
    terminal.send("3");
    terminal.wait_for("Which provider?");
    terminal.send("openai");
    terminal.wait_for("❯ openai");
    terminal.send("\r");
    terminal.wait_for("The key of openai");
    terminal.send("a-test-key\r");
    terminal.wait_for("The key of openai is in");
    terminal.wait_for("❯ openai/");
    terminal.send("gpt-5.5\r");
    terminal.wait_for("model   ");
    let stored = home.run(["login"], "");
    assert!(stored.stdout.contains("openai"), "{stored:?}");
    assert!(!terminal.everything().contains("a-test-key"));
}

#[test]
fn hints_name_the_keys_that_are_bound() {
    let stage = Stage::replies([Reply::tool_use("Bash", json!({"command": "touch a"}))]);
    let file = stage.home.config().join("keybindings.json");
    let keys = json!({
        "global": {"ctrl+o": null, "f2": "transcript"},
        "prompt": {"ctrl+s": null, "ctrl+k ctrl+s": "stash"},
        "question": {"esc": null, "ctrl+q": "cancel"},
    });
    std::fs::write(file, keys.to_string()).unwrap();
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.send("?");
    terminal.wait_for("f2           whole conversation");
    terminal.wait_for("ctrl+k ctrl+s");
    assert!(!terminal.screen().contains("ctrl+o"));
    terminal.say("go");
    terminal.wait_for("Run this command?");
    terminal.wait_for("tab add a comment · ctrl+q no");
    terminal.send("\x11");
    terminal.wait_for("You said no.");
}

#[test]
fn the_effort_is_chosen_with_the_model() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.say("/model ");
    terminal.wait_for("‹default›");
    terminal.wait_for("Prices are");
    terminal.send("\x1b[C\x1b[C");
    terminal.wait_for("‹medium›");
    terminal.send("\r");
    terminal.wait_for("effort: medium");
    terminal.say("/effort ");
    terminal.wait_for("medium ✓");
}

#[test]
fn news_about_the_program_stand_below_the_prompt_and_not_in_the_conversation() {
    let stage = Stage::replies([Reply::text("good day")]);
    let terminal = stage.open();
    terminal.say("hello");
    terminal.wait_for("● good day");
    terminal.wait_gone("esc to interrupt");
    let settings = stage.home.config().join("settings.json");
    std::fs::write(settings, json!({"verbose": true}).to_string()).unwrap();
    terminal.wait_for("Settings changed");
    let shown = rows(&terminal);
    let at = |text: &str| shown.iter().rposition(|row| row.contains(text)).unwrap();
    assert!(at("❯") < at("Settings changed"), "{shown:?}");
    terminal.say("/status ");
    terminal.wait_for("❯ /status");
    terminal.wait_for("Notices");
}

#[test]
fn the_status_line_gets_the_pull_request_of_the_branch() {
    let Stage { server, home } = Stage::replies([]);
    let tools = home.root().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    let gh = tools.join("gh");
    let printed = r#"{"number":42,"url":"https://example.invalid/42","state":"OPEN","isDraft":false,"reviewDecision":"APPROVED"}"#;
    std::fs::write(&gh, format!("#!/bin/sh\necho '{printed}'\n")).unwrap();
    std::fs::set_permissions(&gh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let home = home.variable("PATH", format!("{}:{path}", tools.display()));
    let stage = Stage { server, home };
    stage.home.git_init();
    assert_eq!(stage.home.run(["trust", "add"], "").code(), Some(0));
    let command = r#"cat > status.json; grep -o '"number":42' status.json; grep -o '"review_state":"[a-z]*"' status.json; true"#;
    let settings = json!({"statusLine": {"type": "command", "command": command}});
    std::fs::write(
        stage.home.config().join("settings.json"),
        settings.to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    terminal.wait_for(r#""number":42"#);
    terminal.wait_for(r#""review_state":"approved""#);
}
