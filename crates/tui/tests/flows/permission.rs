use super::Stage;
use lathe_scripted::{Position, Reply};
use serde_json::json;

fn touching() -> Stage {
    Stage::replies([
        Reply::text("I do it.").with_tool_use(
            "Bash",
            json!({"command": "ls; touch made-by-it", "description": "Make a file"}),
        ),
        Reply::text("finished"),
    ])
}

#[test]
fn a_question_shows_command_and_reason_and_yes_runs_it() {
    let stage = touching();
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    let screen = terminal.screen();
    assert!(
        screen.contains("Make a file") && screen.contains("ls; touch made-by-it"),
        "{screen}"
    );
    assert!(screen.contains("Why it asks"), "{screen}");
    assert!(!stage.home.project().join("made-by-it").exists());
    terminal.send("y");
    terminal.wait_for("● finished");
    assert!(stage.home.project().join("made-by-it").exists());
}

#[test]
fn the_risky_part_of_a_command_stands_out() {
    let stage = touching();
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    let bold = |text: &str| {
        terminal.with_screen(|screen| {
            let (rows, columns) = screen.size();
            let row = (0..rows)
                .find(|row| {
                    screen
                        .contents_between(*row, 0, *row, columns)
                        .contains("ls; touch")
                })
                .unwrap();
            let line = screen.contents_between(row, 0, row, columns);
            let column = u16::try_from(line.find(text).unwrap()).unwrap();
            screen.cell(row, column).unwrap().bold()
        })
    };
    assert!(bold("touch") && !bold("ls"));
}

#[test]
fn no_stops_the_turn() {
    let stage = Stage::replies([Reply::tool_use(
        "Bash",
        json!({"command": "touch made-by-it"}),
    )]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    terminal.send("n");
    terminal.wait("the turn to be over", |screen| {
        screen.contains("Interrupted")
            && !screen.contains("Run this command?")
            && !screen.contains("esc to interrupt")
    });
    assert!(!stage.home.project().join("made-by-it").exists());
    assert_eq!(stage.server.message_requests().len(), 1);
}

#[test]
fn escape_is_a_no() {
    let stage = Stage::replies([Reply::tool_use(
        "Bash",
        json!({"command": "touch made-by-it"}),
    )]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    terminal.send("\x1b");
    terminal.wait_gone("Run this command?");
    assert!(!stage.home.project().join("made-by-it").exists());
}

#[test]
fn no_with_a_reason_tells_the_model() {
    let stage = touching();
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    terminal.send("d");
    terminal.wait_for("say why:");
    terminal.send("use another name\r");
    terminal.wait_for("● finished");
    assert!(!stage.home.project().join("made-by-it").exists());
    let told = stage.server.message_requests()[1].last_tool_result();
    assert!(told.contains("use another name"), "{told}");
}

#[test]
fn always_is_remembered_with_the_rule_that_was_shown() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "git init -q one"})),
        Reply::tool_use("Bash", json!({"command": "git init -q two"})),
        Reply::text("finished"),
    ]);
    let terminal = stage.open_sized(100, 30);
    terminal.say("go");
    terminal.wait_for("Run this command?");
    terminal.wait_for("always allow");
    terminal.send("\x1b[B\r");
    terminal.wait_for("● finished");
    assert!(stage.home.project().join("two").exists());
}

#[test]
fn the_rule_can_be_changed_before_it_is_kept() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "git init -q one"})),
        Reply::text("finished"),
    ]);
    let terminal = stage.open_sized(110, 30);
    terminal.say("go");
    terminal.wait_for("always allow");
    terminal.send("e");
    terminal.wait_for("where to save it · esc back");
    // Clear the rule, write a broken one, then a good one.
    terminal.send("\x15Bash(git");
    terminal.wait_for("Bash(git");
    terminal.send("\r");
    terminal.wait_for("has no closing parenthesis");
    terminal.send("\x15Bash(git init:*)");
    terminal.wait_for("Bash(git init:*)");
    terminal.send("\t\t\t\r");
    terminal.wait_for("● finished");
    terminal.say("/permissions");
    terminal.wait_for("Permission rules");
    terminal.wait_for("Bash(git init:*)");
}

#[test]
fn a_change_to_a_file_is_shown_as_a_diff() {
    let stage = Stage::replies([
        Reply::tool_use("Read", json!({"file_path": "a.txt"})),
        Reply::tool_use(
            "Edit",
            json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"}),
        ),
        Reply::text("finished"),
    ]);
    stage.home.write("a.txt", "one\ntwo\nthree\n");
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Change a.txt?");
    let screen = terminal.screen();
    assert!(
        screen.contains("2 - two") && screen.contains("2 + 2") && screen.contains("1   one"),
        "{screen}"
    );
    terminal.send("1");
    terminal.wait_for("● finished");
    assert_eq!(stage.home.read("a.txt"), "one\n2\nthree\n");
    assert!(terminal.screen().contains("Edit a.txt +1 −1"));
}

#[test]
fn the_second_answer_of_an_edit_accepts_all_edits() {
    let stage = Stage::replies([
        Reply::tool_use("Write", json!({"file_path": "a.txt", "content": "a\n"})),
        Reply::tool_use("Write", json!({"file_path": "b.txt", "content": "b\n"})),
        Reply::text("finished"),
    ]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Write a.txt?");
    terminal.send("2");
    terminal.wait_for("● finished");
    terminal.wait_for("accept edits on");
    assert_eq!(stage.home.read("b.txt"), "b\n");
}

#[test]
fn a_yes_can_carry_a_comment() {
    let stage = touching();
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    terminal.send("\t");
    terminal.wait_for("and:");
    terminal.send("be quick about it\r");
    terminal.wait_for("● finished");
    let second = stage.server.message_requests()[1].to_json().to_string();
    assert!(second.contains("be quick about it"), "{second}");
}

#[test]
fn a_question_waits_while_the_user_is_typing() {
    let stage = Stage::replies([
        Reply::text("words first")
            .gate(Position::MidBlock(0), "go")
            .with_tool_use("Bash", json!({"command": "touch made-by-it"})),
        Reply::text("finished"),
    ]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("esc to interrupt");
    terminal.send("next: y");
    terminal.wait_for("❯ next: y");
    stage.server.gate("go").release();
    terminal.wait_for("Run this command?");
    // Keys continue being words until the user turns to the question.
    terminal.send("yes1");
    terminal.wait_for("❯ next: yyes1");
    assert!(!stage.home.project().join("made-by-it").exists());
    terminal.send("\r");
    terminal.wait_for("enter choose");
    assert!(!stage.home.project().join("made-by-it").exists());
    terminal.send("1");
    terminal.wait_for("● finished");
    assert!(stage.home.project().join("made-by-it").exists());
    assert!(terminal.screen().contains("❯ next: yyes1"));
}

#[test]
fn several_questions_come_one_after_another() {
    let stage = Stage::replies([
        Reply::text("both")
            .with_tool_use("Write", json!({"file_path": "a.txt", "content": "a\n"}))
            .with_tool_use("Write", json!({"file_path": "b.txt", "content": "b\n"})),
        Reply::text("finished"),
    ]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Write a.txt?");
    terminal.send("1");
    terminal.wait_for("Write b.txt?");
    terminal.send("1");
    terminal.wait_for("● finished");
    assert_eq!(stage.home.read("b.txt"), "b\n");
}

#[test]
fn interrupting_takes_the_question_away() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "touch made-by-it"})),
        Reply::text("again"),
    ]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    terminal.send("\x03");
    terminal.wait_gone("Run this command?");
    terminal.wait_for("Interrupted");
    assert!(!stage.home.project().join("made-by-it").exists());
}

#[test]
fn a_denial_by_rule_is_shown() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "touch made-by-it"})),
        Reply::text("finished"),
    ]);
    let terminal = stage.open_with(&["--disallowedTools", "Bash(touch:*)"], 80, 24);
    terminal.say("go");
    terminal.wait_for("● finished");
    assert!(
        terminal.screen().contains("⊘ Bash"),
        "{}",
        terminal.screen()
    );
}

#[test]
fn shift_tab_goes_through_the_modes() {
    let stage = Stage::replies([]);
    let terminal = stage.open();
    terminal.wait_for("claude");
    terminal.send("\x1b[Z");
    terminal.wait_for("accept edits on");
    terminal.send("\x1b[Z");
    terminal.wait_for("plan mode on");
}

#[test]
fn an_untrusted_folder_is_asked_about_first() {
    let stage = Stage::replies([Reply::text("hello")]);
    stage.home.write(".lathe/settings.json", json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch hook-ran"}]}]}}).to_string());
    let terminal = stage.home.terminal::<&str>([], 80, 24);
    terminal.wait_for("Do you trust this folder?");
    terminal.wait_for("touch hook-ran");
    terminal.send("2");
    terminal.wait_gone("Do you trust");
    terminal.say("hi");
    terminal.wait_for("● hello");
    assert!(!stage.home.project().join("hook-ran").exists());
}

#[test]
fn trust_is_remembered() {
    let stage = Stage::replies([Reply::text("hello"), Reply::text("hello again")]);
    stage.home.write(".lathe/settings.json", json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch hook-ran"}]}]}}).to_string());
    let mut terminal = stage.home.terminal::<&str>([], 80, 24);
    terminal.wait_for("Do you trust this folder?");
    terminal.send("1");
    terminal.wait_gone("Do you trust");
    terminal.say("hi");
    terminal.wait_for("● hello");
    assert!(stage.home.project().join("hook-ran").exists());
    terminal.leave();
    let terminal = stage.open();
    terminal.say("hi");
    terminal.wait_for("● hello again");
}

#[test]
fn a_change_that_is_too_long_for_the_question_is_shown_in_full_by_ctrl_o() {
    let content: String = (1..=60).map(|n| format!("written line {n}\n")).collect();
    let stage = Stage::replies([Reply::tool_use(
        "Write",
        json!({"file_path": "long.txt", "content": content}),
    )]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Write long.txt?");
    terminal.wait_for("more lines (ctrl+o");
    assert!(!terminal.screen().contains("written line 60"));
    terminal.send("\x0f");
    terminal.wait_for("written line 60");
    terminal.send("q");
    terminal.wait_for("Yes, this once");
}

/// Calls that need confirmation whatever the rules say: one key too many, or an enter, is no approval.
#[test]
fn no_is_chosen_beforehand_where_a_safety_check_asks() {
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": "echo x >> ~/.bashrc; ls"})),
        Reply::text("finished"),
    ]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    let screen = terminal.screen();
    assert!(screen.contains("runs when a shell or a"), "{screen}");
    let chosen = screen.lines().rfind(|line| line.contains('❯')).unwrap();
    assert!(chosen.contains("No"), "{screen}");
    terminal.send("\r");
    terminal.wait_gone("Run this command?");
    assert!(!stage.home.home().join(".bashrc").exists());
}

/// A long harmless beginning doesn't push off what the command does.
#[test]
fn the_dangerous_part_of_a_long_command_is_on_the_screen() {
    let mut command: String = (1..=60).map(|n| format!("echo harmless {n}\n")).collect();
    command.push_str("touch made-by-it\n");
    command.extend((61..=90).map(|n| format!("echo harmless {n}\n")));
    let stage = Stage::replies([
        Reply::tool_use("Bash", json!({"command": command})),
        Reply::text("finished"),
    ]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    terminal.wait_for("touch made-by-it");
    terminal.wait_for("more lines (ctrl+o");
    terminal.send("\x0f");
    terminal.wait_for("harmless 90");
    terminal.send("q");
    terminal.wait_for("Run this command?");
    terminal.send("n");
    terminal.wait_gone("Run this command?");
    assert!(!stage.home.project().join("made-by-it").exists());
}

/// Names that carry escape sequences and invisible characters are shown as what they are.
#[test]
fn a_command_can_not_draw_over_the_question() {
    let stage = Stage::replies([
        Reply::tool_use(
            "Bash",
            json!({"command": "touch 'a\u{1b}[2J\u{1b}[1;1Hls' 'b\u{202e}sl'"}),
        ),
        Reply::text("finished"),
    ]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Run this command?");
    let screen = terminal.screen();
    assert!(screen.contains("touch 'a"), "{screen}");
    assert!(!screen.contains('\u{202e}'), "{screen}");
    terminal.send("n");
    terminal.wait_gone("Run this command?");
}

/// Keys that were typed before the trust question appeared don't answer it.
#[test]
fn keys_typed_ahead_do_not_trust_a_folder() {
    let stage = Stage::replies([Reply::text("hello")]);
    stage.home.write(
        ".lathe/settings.json",
        json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch hook-ran"}]}]}}).to_string(),
    );
    let terminal = stage.home.terminal::<&str>([], 80, 24);
    terminal.send("1\r\ry\r");
    terminal.wait_for("Do you trust this folder?");
    terminal.wait_for("touch hook-ran");
    terminal.send("2");
    terminal.wait_gone("Do you trust");
    terminal.say("hi");
    terminal.wait_for("● hello");
    assert!(!stage.home.project().join("hook-ran").exists());
}

#[test]
fn questions_of_background_agents_wait_in_a_queue_with_name_type_and_task() {
    let scenario = lathe_scripted::Scenario::new().responder(|request| {
        let first = request.messages()[0].to_string();
        let file = ["one.txt", "two.txt"]
            .into_iter()
            .find(|file| first.contains(&format!("make {file}")));
        if let Some(file) = file {
            return match request.last_results().is_empty() {
                true => Reply::tool_use("Write", json!({"file_path": file, "content": "x"})),
                false => Reply::text("made"),
            };
        }
        if request.last_user_text().contains("<task-notification>") {
            return Reply::text("an agent is done");
        }
        if request.last_results().is_empty() {
            let call = |file: &str| json!({"description": format!("write {file}"), "prompt": format!("make {file}"), "name": file});
            return Reply::tool_use("Agent", call("one.txt")).with_tool_use("Agent", call("two.txt"));
        }
        Reply::text("both work")
    });
    let stage = Stage::new(scenario);
    let terminal = stage.open_sized(100, 30);
    terminal.say("go");
    terminal.wait_for("● both work");
    terminal.wait_for("1 more question waits");
    let asked = |name: &str| format!("asked by agent {name}, general-purpose: write {name}");
    let screen = terminal.screen();
    let (first, second) = if screen.contains(&asked("one.txt")) {
        ("one.txt", "two.txt")
    } else {
        ("two.txt", "one.txt")
    };
    assert!(screen.contains(&asked(first)), "{screen}");
    terminal.send("y");
    terminal.wait_for(&asked(second));
    terminal.wait_gone("1 more question waits");
    terminal.send("y");
    terminal.wait_for("● an agent is done");
    terminal.wait_gone("asked by agent");
    for file in [first, second] {
        assert!(stage.home.project().join(file).exists(), "{file}");
    }
}
