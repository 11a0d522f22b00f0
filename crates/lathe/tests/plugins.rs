//! `lathe plugin`, plugins at work in sessions, and `lathe doctor`, on the real binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{StreamJson, Terminal, TestHome, processes};
use serde_json::{Value, json};
use std::io::Read as _;
use std::net::TcpListener;
use std::path::PathBuf;

fn server(replies: usize) -> BlockingServer {
    let scenario = (0..replies).fold(Scenario::new(), |scenario, _| {
        scenario.reply(Reply::text("Fine."))
    });
    BlockingServer::start(scenario).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A file below the home's root, with its folders.
fn write(home: &TestHome, path: &str, content: &str) -> PathBuf {
    let path = home.root().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

/// A marketplace `market` with a plugin `greeter` whose SessionStart hook leaves a mark. Returns the
/// marketplace's folder and the mark.
fn market(home: &TestHome) -> (String, PathBuf) {
    let mark = home.root().join("mark");
    let command = format!("echo \"$CLAUDE_PLUGIN_ROOT\" > {}", mark.display());
    let hooks =
        json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}});
    write(
        home,
        "market/.claude-plugin/marketplace.json",
        &json!({"name": "market", "owner": {"name": "Ada"}, "plugins": [{"name": "greeter", "source": "./greeter"}]}).to_string(),
    );
    write(
        home,
        "market/greeter/.claude-plugin/plugin.json",
        &json!({"name": "greeter", "version": "1.0.0", "description": "Says hello"}).to_string(),
    );
    write(home, "market/greeter/hooks/hooks.json", &hooks.to_string());
    write(
        home,
        "market/greeter/commands/hello.md",
        "---\ndescription: Greets\n---\nSay hello to $ARGUMENTS",
    );
    (home.root().join("market").display().to_string(), mark)
}

fn install(home: &TestHome) -> PathBuf {
    let (folder, mark) = market(home);
    assert_eq!(
        home.run(["plugin", "marketplace", "add", &folder], "")
            .code(),
        Some(0)
    );
    let installed = home.run(["plugin", "install", "greeter@market", "--yes"], "");
    assert_eq!(installed.code(), Some(0), "{installed:#?}");
    mark
}

#[test]
fn nothing_is_installed_without_a_confirmation() {
    let home = TestHome::new();
    let (folder, _) = market(&home);
    let added = home.run(["plugin", "marketplace", "add", &folder], "");
    assert_eq!(added.code(), Some(0), "{added:#?}");
    assert!(added.stdout.contains("greeter"), "{}", added.stdout);
    let refused = home.run(["plugin", "install", "greeter"], "y\n");
    assert_eq!(refused.code(), Some(2), "{refused:#?}");
    assert!(
        refused.stderr.contains("runs automatically"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("SessionStart"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    let list = parsed(&home.run(["plugin", "list", "--json"], "").stdout);
    assert_eq!(list["plugins"], json!([]));
}

#[test]
fn a_user_at_a_terminal_is_asked() {
    let home = TestHome::new();
    let (folder, _) = market(&home);
    assert_eq!(
        home.run(["plugin", "marketplace", "add", &folder], "")
            .code(),
        Some(0)
    );
    for (answer, code, state) in [("n\r", 1, None), ("y\r", 0, Some("on"))] {
        let command = home.command(["plugin", "install", "greeter@market"]);
        let mut terminal = Terminal::start(&command, 100, 40);
        terminal.wait_for("Install it? [y/N]");
        assert!(terminal.everything().contains("SessionStart"));
        terminal.send(answer);
        assert_eq!(terminal.ended().code(), Some(code));
        let list = parsed(&home.run(["plugin", "list", "--json"], "").stdout);
        assert_eq!(list["plugins"][0]["state"].as_str(), state);
    }
}

#[test]
fn an_installed_plugin_takes_part_in_sessions_until_it_is_switched_off() {
    let server = server(3);
    let home = TestHome::with_server(&server);
    let mark = install(&home);
    let arguments = ["-p", "hi", "--output-format", "stream-json", "--verbose"];
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let root = home.config().join("plugins/cache/market/greeter/1.0.0");
    assert_eq!(
        std::fs::read_to_string(&mark).unwrap().trim(),
        root.display().to_string()
    );
    let frames = output.frames();
    let init = frames
        .iter()
        .find(|frame| frame["subtype"] == "init")
        .unwrap();
    assert_eq!(init["plugins"][0]["name"], "greeter");
    assert_eq!(init["plugins"][0]["version"], "1.0.0");
    let commands = init["slash_commands"].as_array().unwrap();
    assert!(commands.contains(&json!("greeter:hello")), "{commands:?}");

    let used = home.run(["-p", "/greeter:hello Ada"], "");
    assert_eq!(used.code(), Some(0), "{used:#?}");
    let sent = server.requests()[1].body["messages"].to_string();
    assert!(sent.contains("Say hello to Ada"), "{sent}");

    std::fs::remove_file(&mark).unwrap();
    let off = home.run(["plugin", "disable", "greeter"], "");
    assert_eq!(off.code(), Some(0), "{off:#?}");
    assert_eq!(home.run(["-p", "hi"], "").code(), Some(0));
    assert!(!mark.exists());
    server.finish();
}

#[test]
fn plugins_that_a_project_requests_run_nothing_until_they_are_installed() {
    let server = server(1);
    let home = TestHome::with_server(&server);
    let (folder, mark) = market(&home);
    home.write(
        ".lathe/settings.json",
        json!({
            "enabledPlugins": {"greeter@market": true},
            "extraKnownMarketplaces": {"market": {"source": {"source": "directory", "path": folder}}},
        })
        .to_string(),
    );
    let list = home.run(["plugin", "list"], "");
    assert!(
        list.stdout.contains("folder not trusted"),
        "{}",
        list.stdout
    );
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let list = home.run(["plugin", "list"], "");
    assert!(list.stdout.contains("not installed"), "{}", list.stdout);
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(
        output
            .stderr
            .contains("lathe plugin install greeter@market"),
        "{}",
        output.stderr
    );
    assert!(!mark.exists());
    // The marketplace that the project names is added on the way.
    let installed = home.run(
        [
            "plugin",
            "install",
            "greeter@market",
            "--scope",
            "project",
            "--yes",
        ],
        "",
    );
    assert_eq!(installed.code(), Some(0), "{installed:#?}");
    let list = parsed(&home.run(["plugin", "list", "--json"], "").stdout);
    assert_eq!(list["plugins"][0]["state"], "on");
    assert_eq!(list["plugins"][0]["scope"], "project");
    server.finish();
}

#[test]
fn a_folder_can_be_taken_for_one_session() {
    let server = server(2);
    let home = TestHome::with_server(&server);
    let (_, mark) = market(&home);
    let output = home.run(["-p", "hi", "--plugin-dir", "../market/greeter"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(mark.exists());
    let output = home.run(["-p", "hi", "--plugin-dir", "../nowhere"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(
        output.stderr.contains("is not a folder"),
        "{}",
        output.stderr
    );
    server.finish();
}

#[test]
fn a_server_that_comes_as_a_bundle_is_unpacked_and_used() {
    let server = BlockingServer::start(
        Scenario::new()
            .reply(Reply::tool_use(
                "mcp__plugin_packed_greeter__echo",
                json!({"text": "from the bundle"}),
            ))
            .reply(Reply::text("Fine.")),
    )
    .unwrap();
    let home = TestHome::with_server(&server);
    let manifest = write(
        &home,
        "work/manifest.json",
        &json!({"manifest_version": "0.3", "name": "greeter", "version": "1.0.0", "server": {
            "type": "python", "entry_point": "server/server.py",
            "mcp_config": {"command": "python3", "args": ["${__dirname}/server/server.py"]}}})
        .to_string(),
    );
    let plugin = write(
        &home,
        "work/packed/.claude-plugin/plugin.json",
        &json!({"name": "packed", "mcpServers": "./greeter.mcpb"}).to_string(),
    );
    let plugin = plugin.ancestors().nth(2).unwrap();
    // As the ecosystem's own tools would: any zip archive will do.
    let pack = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as bundle:\n    bundle.write(sys.argv[2], 'manifest.json')\n    bundle.write(sys.argv[3], 'server/server.py')";
    let script = lathe_testkit::workspace_root().join("crates/mcp/tests/fixtures/server.py");
    let mut python = std::process::Command::new("python3");
    home.dress(&mut python);
    python.args(["-c", pack]).arg(plugin.join("greeter.mcpb"));
    assert!(
        python
            .args([&manifest, &script])
            .status()
            .unwrap()
            .success()
    );
    let folder = plugin.display().to_string();
    let checked = home.run(["plugin", "validate", &folder], "");
    assert_eq!(checked.code(), Some(0), "{checked:#?}");
    assert!(
        !home.config().join("plugins/data").exists(),
        "it was only looked at"
    );
    let arguments = [
        "-p",
        "go",
        "--plugin-dir",
        &folder,
        "--allowedTools",
        "mcp__plugin_packed_greeter",
    ];
    let output = home.run(arguments, "");
    assert_eq!(output.stdout.trim(), "Fine.", "{}", output.stderr);
    let said = server.requests()[1].body["messages"].to_string();
    assert!(said.contains("from the bundle"), "{said}");
    server.finish();
    processes::assert_none_left(&home);
}

#[test]
fn a_host_gives_plugins_and_has_them_read_again() {
    let server = server(2);
    let home = TestHome::with_server(&server);
    let (folder, _) = market(&home);
    let mut host = StreamJson::start(&home, ["--await-initialize"]);
    let answer = &host.control(&json!({
        "subtype": "initialize",
        "plugins": [{"type": "local", "path": format!("{folder}/greeter")}],
    }))["response"]["response"];
    assert_eq!(answer["plugins_applied"], true, "{answer}");
    host.prompt("hi");
    let init = host.wait_for(|frame| frame["subtype"] == "init");
    assert_eq!(init["plugins"][0]["name"], "greeter");
    host.wait_for_result();
    write(
        &home,
        "market/greeter/.claude-plugin/plugin.json",
        "{ broken",
    );
    let answer = &host.control(&json!({"subtype": "reload_plugins"}))["response"]["response"];
    assert_eq!(answer["plugins"], json!([]));
    assert_eq!(answer["error_count"], 1);
    host.prompt("again");
    let init = host.wait_for(|frame| frame["subtype"] == "init");
    assert_eq!(init["plugins"], json!([]));
    assert_eq!(init["plugin_errors"].as_array().unwrap().len(), 1);
    host.wait_for_result();
    assert_eq!(host.close().code(), Some(0));
    server.finish();
}

#[test]
fn a_killed_installation_has_no_effect() {
    let home = TestHome::new();
    // A server that takes a question and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    write(
        &home,
        "market/.claude-plugin/marketplace.json",
        &json!({"name": "market", "owner": {"name": "x"}, "plugins": [
            {"name": "slow", "source": {"source": "url", "url": format!("http://{address}/slow.git")}},
            {"name": "quick", "source": "./quick"},
        ]})
        .to_string(),
    );
    write(&home, "market/quick/commands/a.md", "a");
    let folder = home.root().join("market").display().to_string();
    assert_eq!(
        home.run(["plugin", "marketplace", "add", &folder], "")
            .code(),
        Some(0)
    );
    let running = home.spawn(["plugin", "install", "slow@market", "--yes"]);
    let (mut asked, _) = listener.accept().unwrap();
    let _ = asked.read(&mut [0; 64]).unwrap();
    running.kill();
    drop((running, asked, listener));
    let plugins = home.config().join("plugins");
    assert!(!plugins.join("cache").exists());
    let list = parsed(&home.run(["plugin", "list", "--json"], "").stdout);
    assert_eq!(list, json!({"plugins": [], "problems": []}));
    assert_eq!(
        home.run(["plugin", "install", "quick@market", "--yes"], "")
            .code(),
        Some(0)
    );
    let left: Vec<_> = std::fs::read_dir(plugins)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    processes::assert_none_left(&home);
}

#[test]
fn validate_reports_problems_to_authors() {
    let home = TestHome::new();
    home.write(
        "good/.claude-plugin/plugin.json",
        r#"{"name": "good", "version": "1", "description": "d"}"#,
    );
    home.write("bad/.claude-plugin/plugin.json", r#"{"name": "../bad"}"#);
    let good = home.run(["plugin", "validate", "good"], "");
    assert_eq!(good.code(), Some(0), "{good:#?}");
    let bad = home.run(["plugin", "validate", "bad", "--json"], "");
    assert_eq!(bad.code(), Some(1), "{bad:#?}");
    assert_eq!(parsed(&bad.stdout)["valid"], false);
    // What lies in its files counts, too.
    home.write("good/agents/a.md", "---\nname: a\n---\nText");
    home.write(
        "good/skills/s/SKILL.md",
        "---\nname: s\nmodel: [1]\n---\nText",
    );
    let files = home.run(["plugin", "validate", "good"], "");
    assert_eq!(files.code(), Some(0), "{files:#?}");
    assert!(files.stdout.contains("agents/a.md"), "{}", files.stdout);
    assert!(
        files.stdout.contains("SKILL.md:3: model"),
        "{}",
        files.stdout
    );
    home.write(
        "list/.claude-plugin/marketplace.json",
        r#"{"name": "list", "owner": {"name": "A"}, "plugins": [{"name": "out", "source": "../good"}]}"#,
    );
    let list = home.run(["plugin", "validate", "list"], "");
    assert_eq!(list.code(), Some(1), "{list:#?}");
    assert!(list.stdout.contains("leads out of"), "{}", list.stdout);
}

#[test]
fn the_doctor_finds_nothing_wrong_with_a_fresh_home_and_shows_no_key() {
    let home = TestHome::new().variable("ANTHROPIC_API_KEY", "sk-very-secret");
    let output = home.run(["doctor"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    for area in [
        "installation",
        "keys",
        "settings",
        "permissions",
        "hooks",
        "agents",
        "skills",
        "plugins",
        "mcp servers",
        "sandbox",
        "terminal",
        "search",
        "git",
        "sessions",
        "disk",
        "environment",
    ] {
        assert!(output.stdout.contains(area), "{area} in {}", output.stdout);
    }
    let json = home.run(["doctor", "--json"], "");
    let diagnosis = parsed(&json.stdout);
    assert_eq!(diagnosis["healthy"], true);
    for finding in diagnosis["findings"].as_array().unwrap() {
        assert!(
            finding["severity"] == "fine" || finding["fix"].is_string(),
            "{finding}"
        );
    }
    for text in [&output.stdout, &json.stdout] {
        assert!(!text.contains("very-secret"));
    }
}

#[test]
fn the_doctor_knows_which_programs_of_hooks_are_not_there() {
    let home = TestHome::new();
    home.write("checks/there.sh", "");
    let hook = |command: &str| json!({"hooks": [{"type": "command", "command": command}]});
    let hooks = json!([
        hook("\"$CLAUDE_PROJECT_DIR\"/checks/there.sh --now"),
        hook("${CLAUDE_PROJECT_DIR}/checks/gone.sh"),
        hook("no-such-program-here --x"),
        hook("if true; then cat; fi"),
        hook("cat | sort"),
        hook("X=1 no-such-program-either"),
        json!({"hooks": [{"type": "prompt", "prompt": "Look at it"}]}),
    ]);
    let settings = json!({"hooks": {"Stop": hooks}}).to_string();
    let output = home.run(["doctor", "--json", "--settings", &settings], "");
    let diagnosis = parsed(&output.stdout);
    let findings = diagnosis["findings"].as_array().unwrap();
    let missing: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["area"] == "hooks" && finding["severity"] == "warning")
        .map(|finding| finding["what"].as_str().unwrap())
        .collect();
    assert_eq!(missing.len(), 2, "{missing:#?}");
    assert!(missing[0].contains("checks/gone.sh"), "{missing:#?}");
    assert!(missing[1].contains("no-such-program-here"), "{missing:#?}");
}

#[test]
fn the_doctor_names_what_is_wrong_with_a_fix() {
    let home = TestHome::new().variable("LATHE_MAX_RETRYS", "3");
    install(&home);
    std::fs::write(
        home.config().join("settings.json"),
        r#"{"permissions": {"allow": ["Bash(git push:*)", "Bash("], "deny": ["Bash(git:*)"]},
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/nowhere/check.sh"}]}]},
            "enabledPlugins": {"greeter@market": true, "gone@market": true}, "modle": "x"}"#,
    )
    .unwrap();
    std::fs::write(
        home.config()
            .join("plugins/cache/market/greeter/1.0.0/.claude-plugin/plugin.json"),
        "{",
    )
    .unwrap();
    home.write(
        ".mcp.json",
        r#"{"mcpServers": {"waits": {"command": "true"}}}"#,
    );
    let output = home.run(["doctor", "--no-connect"], "");
    assert_eq!(output.code(), Some(1), "{output:#?}");
    for word in [
        "there is no key",
        "Bash(git push:*)",
        "has no effect",
        "/nowhere/check.sh, which does not exist",
        "greeter@market",
        "gone@market is enabled in settings but not installed",
        "waits",
        "did you mean model",
        "LATHE_MAX_RETRYS is set but unknown",
        "did you mean LATHE_MAX_RETRIES?",
    ] {
        assert!(output.stdout.contains(word), "{word} in {}", output.stdout);
    }
}
