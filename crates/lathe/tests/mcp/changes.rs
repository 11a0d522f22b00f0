//! Changes while a session runs, answers to its questions, and servers of plugins.

use super::*;
use lathe_testkit::StreamJson;

/// Waits until the servers are as they should be.
fn until_servers(session: &mut StreamJson, fits: impl Fn(&Value) -> bool) -> Value {
    loop {
        let status = control(session, &json!({"subtype": "mcp_status"}))["mcpServers"].clone();
        if fits(&status) {
            return status;
        }
    }
}

fn of<'a>(servers: &'a Value, name: &str) -> &'a Value {
    let all = servers.as_array().unwrap();
    let found = all.iter().find(|server| server["name"] == name);
    found.unwrap_or(&Value::Null)
}

#[test]
fn changed_configuration_applies_at_once_and_a_server_of_the_project_needs_approval() {
    let model = model([Reply::text("one"), Reply::text("two")]);
    let home = TestHome::with_server(&model);
    // Whole at once, as a careful editor does it.
    let put = |text: &str| {
        let draft = home.write("draft", text);
        std::fs::rename(draft, home.project().join(".mcp.json")).unwrap();
    };
    let write = |servers: &Value| put(&config(servers));
    write(&json!({"first": fixture(&[])}));
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    assert_eq!(home.run(["mcp", "enable", "first"], "").code(), Some(0));
    let mut session = StreamJson::start(&home, [""; 0]);
    until_servers(&mut session, |all| {
        of(all, "first")["status"] == "connected"
    });
    session.prompt("go");
    session.wait_for_result();
    assert!(offered(&model, 0).contains(&"mcp__first__echo".to_owned()));

    // A new one is told, and not started.
    write(&json!({"first": fixture(&[]), "second": fixture(&[])}));
    let told = session.wait_for(|frame| frame["subtype"] == "informational");
    let told = told["content"].as_str().unwrap();
    assert!(told.contains("second is not started"), "{told}");
    assert!(told.contains("lathe mcp enable second"), "{told}");
    let all = until_servers(&mut session, |_| true);
    assert_eq!(of(&all, "second")["status"], "disabled", "{all}");
    // A word from another terminal is enough.
    assert_eq!(home.run(["mcp", "enable", "second"], "").code(), Some(0));
    until_servers(&mut session, |all| {
        of(all, "second")["status"] == "connected"
    });

    // A file that is being edited changes nothing.
    put("{\"mcpServers\": {");
    let told = session.wait_for(|frame| frame["subtype"] == "informational");
    let told = told["content"].as_str().unwrap();
    assert!(
        told.contains(".mcp.json") && told.contains("stay as they were"),
        "{told}"
    );
    let all = until_servers(&mut session, |_| true);
    assert_eq!(of(&all, "first")["status"], "connected", "{all}");

    write(&json!({"second": fixture(&[])}));
    until_servers(&mut session, |all| of(all, "first").is_null());
    session.prompt("go");
    session.wait_for_result();
    let names = offered(&model, 1);
    assert!(names.contains(&"mcp__second__echo".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("mcp__first")));

    // Settings count too, and a policy ends what runs.
    let policy = json!({"deniedMcpServers": [{"serverName": "second"}]});
    std::fs::write(home.config().join("settings.json"), policy.to_string()).unwrap();
    let told = session.wait_for(|frame| frame["subtype"] == "informational");
    assert!(told.to_string().contains("second was ended"), "{told}");
    assert_eq!(session.close().code(), Some(0));
    model.finish();
    nothing_left(&home);
}

#[test]
fn a_tool_of_a_server_answers_permission_questions_in_print_mode() {
    let model = model([
        Reply::tool_use("Bash", json!({"command": "touch yes.txt"}))
            .with_tool_use("Bash", json!({"command": "touch no.txt"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"gate": fixture(&["approves"])}));
    let arguments = |tool: &'static str| {
        [
            "-p",
            "go",
            "--mcp-config",
            &servers,
            "--permission-prompt-tool",
            tool,
        ]
        .map(str::to_owned)
    };
    let output = home.run(arguments("mcp__gate__approve"), "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("done\n", "")
    );
    assert!(home.project().join("yes.txt").exists());
    assert!(!home.project().join("no.txt").exists());
    assert!(sent(&model, 1).contains("not that"), "{}", sent(&model, 1));
    model.finish();

    // A tool that isn't there is a mistake, not a session in which everything is denied.
    let output = home.run(arguments("mcp__gate__other"), "");
    assert_eq!(output.code(), Some(2), "{output:#?}");
    assert!(
        output.stderr.contains("mcp__gate__approve"),
        "{}",
        output.stderr
    );
    let output = home.run(arguments("approve"), "");
    assert_eq!(output.code(), Some(2), "{output:#?}");
    assert!(
        output.stderr.contains("mcp__server__tool"),
        "{}",
        output.stderr
    );
}

#[test]
fn servers_of_plugins_are_listed_asked_and_switched_by_hand() {
    let home = TestHome::new();
    let market = home.root().join("market");
    let write = |path: &str, content: &Value| {
        let file = market.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content.to_string()).unwrap();
    };
    write(
        ".claude-plugin/marketplace.json",
        &json!({"name": "market", "owner": {"name": "Ada"}, "plugins": [{"name": "tools", "source": "./tools"}]}),
    );
    write(
        "tools/.claude-plugin/plugin.json",
        &json!({"name": "tools", "version": "1.0.0", "description": "Brings a server"}),
    );
    write(
        "tools/.mcp.json",
        &json!({"mcpServers": {"local": fixture(&[])}}),
    );
    let market = market.display().to_string();
    for command in [
        ["plugin", "marketplace", "add", &market].as_slice(),
        &["plugin", "install", "tools@market", "--yes"],
    ] {
        let output = home.run(command, "");
        assert_eq!(output.code(), Some(0), "{output:#?}");
    }
    let name = "plugin:tools:local";
    let list = home.run(["mcp", "list", "--json"], "");
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(list["servers"][0]["name"], name);
    assert_eq!(list["servers"][0]["scope"], "plugin");
    assert_eq!(list["servers"][0]["status"], "connected", "{list}");
    let called = home.run(["mcp", "call", name, "echo", r#"{"text": "by hand"}"#], "");
    assert!(called.stdout.contains("by hand"), "{called:#?}");
    let probed = home.run(["mcp", "probe", name, "--list-only"], "");
    assert_eq!(probed.code(), Some(0), "{probed:#?}");
    let removed = home.run(["mcp", "remove", name], "");
    assert_eq!(removed.code(), Some(2), "{removed:#?}");
    assert!(
        removed.stderr.contains("lathe plugin disable tools"),
        "{}",
        removed.stderr
    );
    assert_eq!(home.run(["mcp", "disable", name], "").code(), Some(0));
    let list = home.run(["mcp", "list"], "");
    assert!(list.stdout.contains("disabled"), "{}", list.stdout);
    assert_eq!(home.run(["mcp", "enable", name], "").code(), Some(0));
    nothing_left(&home);
}

#[test]
fn servers_are_informed_about_added_folders() {
    let model = model([
        Reply::tool_use("mcp__local__roots", json!({})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&model);
    let more = home.root().join("more");
    std::fs::create_dir(&more).unwrap();
    let servers = config(&json!({"local": fixture(&[])}));
    let arguments = ["--mcp-config", &servers, "--allowedTools", "mcp__local"];
    let mut session = StreamJson::start(&home, arguments);
    until_servers(&mut session, |all| {
        of(all, "local")["status"] == "connected"
    });
    session.prompt(&format!("/add-dir {}", more.display()));
    session.wait_for_result();
    loop {
        let log = home.run(["mcp", "logs", "local"], "").stdout;
        if log.contains("<- notifications/roots/list_changed") {
            break;
        }
    }
    session.prompt("go");
    session.wait_for_result();
    assert!(sent(&model, 1).contains("/more"), "{}", sent(&model, 1));
    assert_eq!(session.close().code(), Some(0));
    model.finish();
}

#[test]
fn a_resource_that_was_read_is_subscribed_and_its_change_is_reported() {
    let model = model((0..50).map(|_| Reply::text("ok")));
    let home = TestHome::with_server(&model);
    // The fixture says that a resource changed as soon as somebody follows it.
    let servers = config(&json!({"local": fixture(&[])}));
    let mut session = StreamJson::start(&home, ["--mcp-config", &servers]);
    until_servers(&mut session, |all| {
        of(all, "local")["status"] == "connected"
    });
    session.prompt("what is @local:note://1 about?");
    session.wait_for_result();
    let told = "The resource note://1 of the MCP server local has changed since it was read";
    let count = |request: usize| sent(&model, request).matches(told).count();
    let first = (1..50).find(|request| {
        session.prompt("and now?");
        session.wait_for_result();
        count(*request) > 0
    });
    let first = first.expect("the change is told");
    session.prompt("and now?");
    session.wait_for_result();
    assert_eq!(count(first + 1), 1, "told again");
    assert_eq!(session.close().code(), Some(0));
}

#[test]
fn servers_of_settings_are_started_and_their_tools_offered() {
    let model = model([Reply::text("ok")]);
    let home = TestHome::with_server(&model);
    home.write(
        home.config().join("settings.json"),
        config(&json!({"local": fixture(&[])})),
    );
    let output = home.run(["-p", "go"], "");
    assert_eq!(output.stdout, "ok\n", "{output:#?}");
    assert!(offered(&model, 0).contains(&"mcp__local__echo".to_owned()));
    model.finish();
}
