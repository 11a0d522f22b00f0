use super::Stage;
use lathe_scripted::Reply;
use serde_json::json;

/// A marketplace of one plugin, in a folder beside the project.
fn market(stage: &Stage) -> String {
    let root = stage.home.root().join("market");
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        ".claude-plugin/marketplace.json",
        &json!({"name": "market", "owner": {"name": "Ada"}, "plugins": [{"name": "greeter", "source": "./greeter"}]}).to_string(),
    );
    write(
        "greeter/.claude-plugin/plugin.json",
        &json!({"name": "greeter", "version": "1.0.0", "description": "Says hello"}).to_string(),
    );
    write(
        "greeter/commands/hello.md",
        "---\ndescription: Greets somebody\n---\nSay hello to $ARGUMENTS",
    );
    root.display().to_string()
}

#[test]
fn a_plugin_is_installed_used_switched_and_removed() {
    let stage = Stage::replies([Reply::text("hello, Ada")]);
    let market = market(&stage);
    let terminal = stage.open_sized(110, 36);
    terminal.wait_for("claude");
    terminal.say("/plugin ");
    terminal.wait_for("No plugins are installed");
    // There is no marketplace yet, so one is asked for.
    terminal.send("1");
    terminal.wait_for("A marketplace: a folder");
    // Esc goes back one step only.
    terminal.send("\x1b");
    terminal.wait_for("No plugins are installed");
    terminal.send("2");
    terminal.wait_for("Add a marketplace");
    terminal.send("1");
    terminal.wait_for("A marketplace: a folder");
    terminal.send(format!("{market}\r"));
    terminal.wait_for("added marketplace market: 1 plugin");
    terminal.wait("the marketplace in the list", |screen| {
        screen.contains("1. market") && screen.contains("1 plugin ·")
    });
    terminal.send("\x1b");
    terminal.wait_for("No plugins are installed");
    terminal.send("1");
    terminal.wait_for("Which plugin?");
    terminal.wait_for("❯ greeter@market");
    terminal.send("\r");
    terminal.wait_for("Install this plugin?");
    terminal.wait_for("Says hello");
    assert!(!stage.home.config().join("plugins/cache").exists());
    terminal.send("1");
    terminal.wait_for("installed and enabled greeter@market 1.0.0");
    terminal.wait_for("on · 1.0.0 · user");
    terminal.send("\x1b");
    terminal.wait_gone("Marketplaces …");
    // It counts at once.
    terminal.say("/greeter:hello Ada");
    terminal.wait_for("● hello, Ada");
    terminal.wait_gone("esc to interrupt");
    let sent = stage.server.message_requests()[0].to_json().to_string();
    assert!(sent.contains("Say hello to Ada"), "{sent}");
    terminal.say("/plugin disable greeter");
    terminal.wait_for("greeter@market is disabled");
    terminal.wait_for("off · 1.0.0 · user");
    terminal.send("1");
    terminal.wait_for("Uninstall");
    terminal.send("3");
    terminal.wait_for("removed greeter@market");
    terminal.wait_for("No plugins are installed");
    terminal.send("\x1b");
    terminal.wait_gone("Marketplaces …");
}

#[test]
fn a_missing_plugin_is_reported() {
    let stage = Stage::replies([]);
    market(&stage);
    let terminal = stage.open_sized(110, 30);
    terminal.wait_for("claude");
    terminal.say("/plugin install nothing@nowhere");
    terminal.wait_for("nowhere");
    terminal.wait("the reason", |screen| screen.contains("⚠ "));
    terminal.say("/plugin frobnicate x");
    terminal.wait_for("Unknown: /plugin frobnicate");
}
