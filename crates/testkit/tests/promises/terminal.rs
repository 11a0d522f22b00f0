//! What the terminal shows and tells.

use super::{chatty, heard};
use lathe_testkit::{HANG_LIMIT, TestHome, endless, server};
use serde_json::{Value, json};

fn home_with(settings: &Value) -> TestHome {
    let home = TestHome::new();
    home.write(home.config().join("settings.json"), settings.to_string());
    home
}

/// Waits for what the screen doesn't show.
fn until(what: &str, holds: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < HANG_LIMIT, "{what} never came");
        std::thread::yield_now();
    }
}

#[test]
fn the_terminal_says_what_the_company_wants_said() {
    let server = chatty();
    let said = json!({"companyAnnouncements": ["The tower is closed on Monday."]}).to_string();
    let home = home_with(&json!({}));
    let home = home.server(&server);
    let mut terminal = home.terminal(["--managed-settings", &said], 100, 30);
    terminal.wait_for("The tower is closed on Monday.");
    terminal.leave();
}

#[test]
fn a_slow_hook_is_shown_in_its_own_words() {
    let server = chatty();
    let wait = "while [ ! -e go ]; do sleep 0.02; done";
    let definition =
        json!({"type": "command", "command": wait, "statusMessage": "Sweeping the tower"});
    let settings = json!({"hooks": {"Stop": [{"hooks": [definition]}]}});
    let home = home_with(&settings).server(&server);
    let mut terminal = home.terminal([] as [&str; 0], 100, 30);
    terminal.say("hi");
    terminal.wait_for("Sweeping the tower");
    home.write("go", "");
    terminal.wait_gone("Sweeping the tower");
    terminal.leave();
}

#[test]
fn an_idle_person_and_hooks_are_told_that_lathe_waits() {
    let server = chatty();
    let log = json!({"type": "command", "command": "cat >> log"});
    let settings = json!({"hooks": {"Notification": [{"matcher": "idle_prompt", "hooks": [log]}]}});
    let home = home_with(&settings)
        .server(&server)
        .variable("LATHE_IDLE_PROMPT_SECONDS", "1");
    let mut terminal = home.terminal([] as [&str; 0], 100, 30);
    terminal.say("hi");
    terminal.wait_for("fine");
    until("the hook", || home.project().join("log").exists());
    terminal.leave();
    let heard = heard(&home);
    assert_eq!(heard[0]["notification_type"], "idle_prompt");
    assert_eq!(heard.len(), 1);
}

#[test]
fn hooks_are_told_why_a_session_starts_and_ends() {
    let server = chatty();
    let log = json!([{"hooks": [{"type": "command", "command": "cat >> log"}]}]);
    let settings = json!({"hooks": {"SessionStart": log, "SessionEnd": log}});
    let home = home_with(&settings).server(&server);
    let mut terminal = home.terminal([] as [&str; 0], 100, 30);
    terminal.say("hi");
    terminal.wait_for("fine");
    terminal.say("/clear");
    until("the next session", || heard(&home).len() == 3);
    // Its start hooks ran, and it may not be open yet.
    terminal.leave();
    let words: Vec<(String, String)> = heard(&home)
        .iter()
        .map(|input| {
            let word = input.get("source").or_else(|| input.get("reason")).unwrap();
            let name = input["hook_event_name"].as_str().unwrap();
            (name.to_owned(), word.as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [
        ("SessionStart", "startup"),
        ("SessionEnd", "clear"),
        ("SessionStart", "clear"),
        ("SessionEnd", "prompt_input_exit"),
    ];
    let expected = expected.map(|(event, word)| (event.to_owned(), word.to_owned()));
    assert_eq!(words, expected);
}

#[test]
fn an_agent_is_shown_in_the_color_of_its_file() {
    let order = json!({"description": "look at the dial", "prompt": "Look.",
        "subagent_type": "helper", "run_in_background": true});
    let server = server([
        lathe_scripted::Reply::tool_use("Agent", order),
        endless(),
        endless(),
    ]);
    let home = home_with(&json!({})).server(&server);
    let text = "---\nname: helper\ndescription: helps\ncolor: green\n---\nYou help.\n";
    home.write(home.config().join("agents/helper.md"), text);
    let terminal = home.terminal(["--allowedTools", "Agent"], 100, 30);
    terminal.say("go");
    terminal.wait_screen("a green line", |screen| {
        let (rows, columns) = screen.size();
        (0..rows).any(|row| {
            let line: String = screen.rows(0, columns).nth(row.into()).unwrap_or_default();
            let start = line
                .find("look at the dial")
                .filter(|_| line.contains("├") || line.contains("└"));
            start.is_some_and(|_| {
                let column = line
                    .chars()
                    .position(|letter| letter == 'l')
                    .unwrap_or_default();
                let cell = screen.cell(row, u16::try_from(column).unwrap_or_default());
                cell.is_some_and(|cell| cell.fgcolor() == vt100::Color::Idx(2))
            })
        })
    });
}
