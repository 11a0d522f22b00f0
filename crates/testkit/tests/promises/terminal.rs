//! Promises about the terminal.

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
    terminal.wait_for("● fine");
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
    terminal.wait_for("● fine");
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

#[test]
fn a_hook_puts_what_a_person_sees_into_other_words() {
    let server = server([
        lathe_scripted::Reply::text("The key is ABC123 and opens the tower."),
        lathe_scripted::Reply::text("Nobody needs to see this."),
        lathe_scripted::Reply::text("The end."),
    ]);
    let script = r#"input=$(cat)
case "$input" in
  *ABC123*) say="The key is [hidden]." ;;
  *Nobody*) say="" ;;
  *) exit 0 ;;
esac
printf '{"hookSpecificOutput": {"hookEventName": "MessageDisplay", "displayContent": "%s"}}' "$say""#;
    let hook = json!([{"hooks": [{"type": "command", "command": "bash hide.sh"}]}]);
    let home = home_with(&json!({"hooks": {"MessageDisplay": hook}})).server(&server);
    home.write("hide.sh", script);
    let mut terminal = home.terminal([] as [&str; 0], 100, 30);
    terminal.say("where is it");
    terminal.wait_for("The key is [hidden].");
    terminal.say("and now");
    until("the second answer", || server.message_requests().len() == 2);
    terminal.say("the last");
    terminal.wait_for("The end.");
    let drawn = terminal.raw();
    assert!(!drawn.contains("ABC123") && !drawn.contains("Nobody needs"));
    terminal.leave();
    // The model and the transcript have its own words.
    let sent = server.message_requests()[2].body["messages"].to_string();
    assert!(sent.contains("ABC123") && sent.contains("Nobody needs"));
    let file = lathe_testkit::transcript::of_home(&home).remove(0);
    assert!(std::fs::read_to_string(file).unwrap().contains("ABC123"));
}

#[test]
fn a_switch_of_the_model_that_a_hook_asks_about_is_confirmed() {
    let server = chatty();
    let ask = r#"echo '{"hookSpecificOutput": {"hookEventName": "PreModelSwitch", "permissionDecision": "ask", "permissionDecisionReason": "it costs more"}}'"#;
    let hook = json!([{"hooks": [{"type": "command", "command": ask}]}]);
    let home = home_with(&json!({"model": "claude-sonnet-4-5", "hooks": {"PreModelSwitch": hook}}))
        .server(&server);
    let mut terminal = home.terminal([] as [&str; 0], 100, 30);
    terminal.say("/model haiku");
    terminal.wait_for("it costs more");
    terminal.send("\x1b[B\r");
    terminal.wait_for("The model stays as it was");
    terminal.say("/model haiku");
    terminal.wait_for("Switch to haiku?");
    terminal.send("\r");
    terminal.wait_for("model: claude-haiku");
    terminal.say("hi");
    terminal.wait_for("● fine");
    terminal.leave();
    assert!(server.message_requests()[0].model().contains("haiku"));
}

/// A plugin with a theme and two monitors.
fn sky(home: &TestHome) {
    home.write(
        "sky/.claude-plugin/plugin.json",
        json!({"name": "sky", "experimental": {"themes": "./looks/"}}).to_string(),
    );
    let theme =
        json!({"name": "Night", "base": "dark", "overrides": {"promptBorder": "rgb(1,2,3)"}});
    home.write("sky/looks/night.json", theme.to_string());
    home.write(
        "sky/skills/watch/SKILL.md",
        "---\nname: watch\ndescription: watches\n---\nWatch.\n",
    );
    let waits = "\"${CLAUDE_PLUGIN_ROOT}\"/wait.sh";
    let monitors = json!([
        {"name": "moon", "command": format!("{waits} rise moon"), "description": "the moon"},
        {"name": "stars", "command": format!("{waits} rise stars"), "description": "the stars",
            "when": "on-skill-invoke:watch"},
    ]);
    home.write("sky/monitors/monitors.json", monitors.to_string());
    let script = home.write(
        "sky/wait.sh",
        "#!/bin/sh\nuntil [ -e \"$1-$2\" ]; do sleep 0.05; done\necho \"$2 is up\"\nsleep 300\n",
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(script, mode).unwrap();
}

#[test]
fn a_plugins_theme_can_be_chosen() {
    let server = chatty();
    let home = home_with(&json!({"theme": "custom:sky:night"}))
        .server(&server)
        .variable("COLORTERM", "truecolor");
    sky(&home);
    let mut terminal = home.terminal(["--plugin-dir", "sky"], 100, 30);
    terminal.wait_screen("the color of the theme", |screen| {
        let (rows, columns) = screen.size();
        (0..rows).any(|row| {
            (0..columns).any(|column| {
                let cell = screen.cell(row, column);
                cell.is_some_and(|cell| cell.fgcolor() == vt100::Color::Rgb(1, 2, 3))
            })
        })
    });
    terminal.say("/theme");
    terminal.wait_for("Night");
    terminal.wait_for("plugin sky");
    terminal.send("\x1b");
    terminal.wait_gone("plugin sky");
    terminal.leave();
}

#[test]
fn lines_of_a_plugins_monitor_reach_the_model() {
    let server = chatty();
    let home = home_with(&json!({})).server(&server);
    sky(&home);
    let told = |what: &str| {
        let requests = server.message_requests();
        requests
            .iter()
            .any(|it| it.body["messages"].to_string().contains(what))
    };
    let mut terminal = home.terminal(["--plugin-dir", "sky"], 100, 30);
    terminal.wait_for("❯");
    home.write("rise-stars", "");
    home.write("rise-moon", "");
    until("the moon", || told("moon is up"));
    assert!(!told("stars is up"));
    terminal.say("/sky:watch");
    until("the stars", || told("stars is up"));
    // It waits for the turn that the line began.
    terminal.say("/exit");
    assert!(terminal.ended().success());
    lathe_testkit::processes::assert_none_left(&home);
    // Nobody sits in front of a script.
    let printed = home.run(["-p", "hi", "--plugin-dir", "sky"], "");
    assert_eq!(printed.code(), Some(0), "{}", printed.stderr);
    assert!(!printed.stderr.contains("wait.sh"), "{}", printed.stderr);
}

#[test]
fn a_daemon_is_named_at_the_end_and_ended_or_kept() {
    let command = "until [ -e stop ]; do sleep 0.05; done; touch stopped";
    let start = json!({"command": format!("setsid sh -c '{command}' & echo up"), "run_in_background": true});
    for kept in [false, true] {
        let server = server([
            lathe_scripted::Reply::tool_use("Bash", start.clone()),
            lathe_scripted::Reply::text("it runs"),
        ]);
        let home = home_with(&json!({})).server(&server);
        let mut terminal = home.terminal(["--allowedTools", "Bash", "--no-sandbox"], 100, 30);
        terminal.say("go");
        terminal.wait_for("it runs");
        terminal.say("/exit");
        terminal.wait_for("Background work is still running");
        terminal.wait_for("command: setsid sh -c");
        terminal.send(if kept { "\x1b[B\r" } else { "\r" });
        assert!(terminal.ended().success());
        let words = if kept {
            "Kept running: setsid"
        } else {
            "Ended with the session: setsid"
        };
        assert!(
            terminal.everything().contains(words),
            "{}",
            terminal.everything()
        );
        if kept {
            home.write("stop", "");
            until("it goes on", || home.project().join("stopped").exists());
        } else {
            lathe_testkit::processes::assert_none_left(&home);
        }
    }
}

#[test]
fn hooks_and_the_status_line_hear_of_a_folder_that_is_added_in_the_terminal() {
    let server = chatty();
    let settings = json!({
        "hooks": {"DirectoryAdded": [{"hooks": [{"type": "command", "command": "cat >> log"}]}]},
        "statusLine": {"type": "command", "command": "cat > status.tmp; mv status.tmp status; echo mine"},
    });
    let home = home_with(&settings).server(&server);
    let beside = home.root().join("beside");
    std::fs::create_dir_all(&beside).unwrap();
    let mut terminal = home.terminal([] as [&str; 0], 100, 30);
    terminal.wait_for("mine");
    let status = || -> Value { serde_json::from_str(&home.read("status")).unwrap() };
    assert_eq!(status()["workspace"]["added_dirs"], json!([]));
    assert_eq!(status()["effort"]["level"], "high");
    assert_eq!(status()["thinking"]["enabled"], true);
    terminal.say(&format!("/add-dir {}", beside.display()));
    until("the hook", || !heard(&home).is_empty());
    terminal.say("hi");
    until("the folder", || {
        let status = std::fs::read_to_string(home.project().join("status")).unwrap_or_default();
        status.contains("beside\"]")
    });
    terminal.leave();
    let heard = heard(&home);
    assert_eq!(heard[0]["directory"], json!(beside));
    assert_eq!(heard[0]["source"], "slash_command");
}
