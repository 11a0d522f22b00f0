//! `~/.claude` as a second folder of the user's own.

use super::server;
use lathe_scripted::Reply;
use lathe_testkit::TestHome;
use serde_json::json;

fn write(home: &TestHome, path: &str, content: &str) {
    let path = home.home().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn filled(home: &TestHome) {
    write(
        home,
        ".claude/settings.json",
        &json!({
            "env": {"FROM_CLAUDE": "1"},
            "permissions": {"deny": ["Bash(touch:*)"]},
            "hooks": {"UserPromptSubmit": [{"hooks": [
                {"type": "command", "command": "echo said by a hook"}
            ]}]},
        })
        .to_string(),
    );
    write(home, ".claude/CLAUDE.md", "Answer like a pirate.\n");
    write(home, ".claude/rules/tone.md", "Mention herons.\n");
    write(home, ".claude/.credentials.json", "{\"claudeAiOauth\": {}}");
}

#[test]
fn what_lies_in_dot_claude_applies_and_the_first_start_says_so() {
    let server = server([Reply::text("One."), Reply::text("Two."), Reply::text("3.")]);
    let home = TestHome::with_server(&server);
    filled(&home);
    let before = listing(&home);
    let first = home.run(["-p", "hello"], "");
    assert_eq!(first.stdout, "One.\n", "{}", first.stderr);
    let said: Vec<&str> = first
        .stderr
        .lines()
        .filter(|line| line.contains(".claude is read"))
        .collect();
    assert_eq!(said.len(), 1, "{}", first.stderr);
    for part in ["settings.json", "CLAUDE.md", "rules (1)", "readClaudeHome"] {
        assert!(said[0].contains(part), "{part}: {}", said[0]);
    }
    let second = home.run(["-p", "hello"], "");
    assert!(
        !second.stderr.contains(".claude is read"),
        "{}",
        second.stderr
    );
    let off = home.run(["-p", "--no-claude-home", "hello"], "");
    assert_eq!(off.stdout, "3.\n");
    assert_eq!(listing(&home), before, "nothing is written there");
    let texts: Vec<String> = server
        .requests()
        .iter()
        .map(|request| request.body.to_string())
        .collect();
    for part in ["like a pirate", "Mention herons", "said by a hook"] {
        assert!(texts[0].contains(part), "{part}");
        assert!(texts[1].contains(part), "{part}");
        assert!(!texts[2].contains(part), "{part}");
    }
    server.finish();
}

fn listing(home: &TestHome) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![home.home().join(".claude")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                files.push(format!("{}: {text}", entry.path().display()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn rules_of_dot_claude_refuse() {
    let call = Reply::tool_use("Bash", json!({"command": "touch made"}));
    let server = server([call, Reply::text("Refused.")]);
    let home = TestHome::with_server(&server);
    filled(&home);
    let output = home.run(["-p", "--allowedTools", "Bash", "--", "touch it"], "");
    assert_eq!(output.stdout, "Refused.\n", "{}", output.stderr);
    assert!(!home.project().join("made").exists());
    server.finish();
}

#[test]
fn plugins_that_are_installed_in_dot_claude_are_loaded_where_settings_enable_them() {
    let server = server([Reply::text("1.")]);
    let home = TestHome::with_server(&server);
    let plugin = home
        .home()
        .join(".claude/plugins/cache/market/deploy/1.0.0");
    let installed = json!({"version": 2, "plugins": {"deploy@market": [
        {"scope": "user", "installPath": plugin, "version": "1.0.0"}]}});
    write(
        &home,
        ".claude/plugins/installed_plugins.json",
        &installed.to_string(),
    );
    let folder = ".claude/plugins/cache/market/deploy/1.0.0";
    let manifest = r#"{"name": "deploy", "version": "1.0.0"}"#;
    write(
        &home,
        &format!("{folder}/.claude-plugin/plugin.json"),
        manifest,
    );
    write(
        &home,
        &format!("{folder}/commands/ship.md"),
        "Ship it to $ARGUMENTS.",
    );
    let enabled = |on: bool| json!({"enabledPlugins": {"deploy@market": on}}).to_string();
    write(&home, ".claude/settings.json", &enabled(true));
    let before = listing(&home);
    let output = home.run(["-p", "/deploy:ship Oslo"], "");
    assert_eq!(output.stdout, "1.\n", "{}", output.stderr);
    assert!(output.stderr.contains("plugins (1)"), "{}", output.stderr);
    assert!(
        server.requests()[0]
            .body
            .to_string()
            .contains("Ship it to Oslo.")
    );
    assert_eq!(listing(&home), before, "nothing is written there");
    write(&home, ".claude/settings.json", &enabled(false));
    let off = home.run(["-p", "/deploy:ship Oslo"], "");
    assert_eq!(off.code(), Some(1), "{}", off.stderr);
}
