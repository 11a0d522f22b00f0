//! `lathe mcp` for people and scripts.

use super::*;

fn json_of(output: &lathe_testkit::Output) -> Value {
    serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("not JSON ({error}): {output:#?}"))
}

/// Adds the fixture under a name.
fn add(home: &TestHome, name: &str, habits: &[&str]) {
    let entry = fixture(habits).to_string();
    let output = home.run(["mcp", "add-json", name, &entry], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
}

#[test]
fn a_command_is_added_with_its_options_and_without_dashes() {
    let home = TestHome::new();
    for (arguments, args) in [
        (
            &["plain", "true", "-y", "a-package", "--flag"][..],
            ["-y", "a-package", "--flag"],
        ),
        (
            &["dashed", "--", "true", "-y", "a-package", "-e"],
            ["-y", "a-package", "-e"],
        ),
    ] {
        let name = arguments[0];
        let output = home.run([&["mcp", "add"], arguments].concat(), "");
        assert_eq!(output.code(), Some(0), "{output:#?}");
        let one = json_of(&home.run(["mcp", "get", name, "--json"], ""));
        assert_eq!(one["config"]["command"], "true", "{one}");
        assert_eq!(one["config"]["args"], serde_json::json!(args), "{one}");
    }
}

#[test]
fn a_server_is_added_listed_shown_and_removed() {
    let home = TestHome::new();
    let script = workspace_root().join("crates/mcp/tests/fixtures/server.py");
    let script = script.to_str().unwrap();
    let output = home.run(
        [
            "mcp",
            "add",
            "--scope",
            "user",
            "-e",
            "KEY=secret",
            "mine",
            "--",
            "python3",
            script,
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{output:#?}");
    add(&home, "broken", &["fails"]);
    let list = json_of(&home.run(["mcp", "list", "--json"], ""));
    let servers = list["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2);
    assert_eq!(servers[0]["name"], "mine");
    assert_eq!(servers[0]["scope"], "user");
    assert_eq!(servers[0]["transport"], "stdio");
    assert_eq!(servers[0]["status"], "connected", "{list}");
    assert!(servers[0]["tools"].to_string().contains("echo"));
    assert_eq!(servers[1]["status"], "failed");
    assert!(servers[1]["error"].is_string());

    let shown = home.run(["mcp", "get", "mine", "--json"], "");
    let one = json_of(&shown);
    assert_eq!(one["status"], "connected");
    assert_eq!(one["config"]["command"], "python3");
    assert!(!shown.stdout.contains("secret"), "{}", shown.stdout);
    let broken = home.run(["mcp", "get", "broken"], "");
    assert!(
        broken.stdout.contains("a reason in red"),
        "{}",
        broken.stdout
    );
    let logs = home.run(["mcp", "logs", "broken"], "");
    assert!(logs.stdout.contains("a reason in red") && !logs.stdout.contains('\u{1b}'));

    assert_eq!(home.run(["mcp", "remove", "mine"], "").code(), Some(0));
    let again = home.run(["mcp", "remove", "mine"], "");
    assert_eq!(again.code(), Some(2));
    assert!(
        again.stderr.contains("mine") && again.stderr.contains("broken"),
        "{}",
        again.stderr
    );
    nothing_left(&home);
}

#[test]
fn tools_prompts_and_resources_are_used_by_hand() {
    let home = TestHome::new();
    add(&home, "local", &[]);
    let called = home.run(
        ["mcp", "call", "local", "echo", r#"{"text": "by hand"}"#],
        "",
    );
    assert_eq!(
        (called.stdout.as_str(), called.code()),
        ("by hand\n", Some(0))
    );
    let whole = json_of(&home.run(
        ["mcp", "call", "local", "echo", "-", "--json"],
        r#"{"text": "piped"}"#,
    ));
    assert_eq!(whole["content"][0]["text"], "piped");
    let unknown = home.run(["mcp", "call", "local", "nope"], "");
    assert_eq!(unknown.code(), Some(2));
    assert!(unknown.stderr.contains("echo"), "{}", unknown.stderr);
    let wrong = home.run(["mcp", "call", "local", "echo", "{"], "");
    assert!(wrong.stderr.contains("not JSON"), "{}", wrong.stderr);

    assert!(
        home.run(["mcp", "tools", "local"], "")
            .stdout
            .contains("local: echo")
    );
    let tools = json_of(&home.run(["mcp", "tools", "--json"], ""));
    assert!(tools["tools"].as_array().unwrap().len() > 5);
    assert!(home.run(["mcp", "prompts"], "").stdout.contains("greet"));
    let filled = home.run(
        [
            "mcp",
            "prompts",
            "local",
            "--get",
            "greet",
            "--arguments",
            r#"{"who": "Ada"}"#,
        ],
        "",
    );
    assert!(filled.stdout.contains("Greet Ada"), "{filled:#?}");
    assert!(
        home.run(["mcp", "resources", "local"], "")
            .stdout
            .contains("note://1")
    );
    let read = home.run(["mcp", "resources", "local", "--read", "note://1"], "");
    assert!(read.stdout.contains("words"), "{read:#?}");
    nothing_left(&home);
}

#[test]
fn servers_are_switched_approved_and_forgotten() {
    let home = TestHome::new();
    add(&home, "local", &[]);
    let status = |name: &str| {
        let one = json_of(&home.run(["mcp", "get", name, "--json"], ""));
        one["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status("local"), "connected");
    assert_eq!(home.run(["mcp", "disable", "local"], "").code(), Some(0));
    assert_eq!(status("local"), "disabled");
    assert_eq!(home.run(["mcp", "enable", "local"], "").code(), Some(0));
    assert_eq!(status("local"), "connected");

    home.write(".mcp.json", config(&json!({"shared": fixture(&[])})));
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    assert_eq!(status("shared"), "disabled");
    assert_eq!(home.run(["mcp", "enable", "shared"], "").code(), Some(0));
    assert_eq!(status("shared"), "connected");
    let reset = home.run(["mcp", "reset-project-choices"], "");
    assert!(reset.stdout.contains("shared"), "{reset:#?}");
    assert_eq!(status("shared"), "disabled");
}

#[test]
fn mistakes_name_what_to_write_instead() {
    let home = TestHome::new();
    for (arguments, words) in [
        (&["mcp", "add", "x"][..], "lathe mcp add x https://"),
        (&["mcp", "add", "a__b", "https://h/mcp"], "`__`"),
        (&["mcp", "add", "x", "https://h", "--", "y"], "not both"),
        (&["mcp", "add", "x", "https://h", "-e", "A=b"], "--header"),
        (
            &["mcp", "add", "x", "https://h", "--header", "nope"],
            "Name: value",
        ),
        (&["mcp", "add", "x", "-e", "nope", "--", "y"], "NAME=VALUE"),
        (
            &["mcp", "add", "x", "--transport", "http", "somewhere"],
            "https://example.org/mcp",
        ),
        (&["mcp", "add-json", "x", "{"], "not JSON"),
        (&["mcp", "add-json", "x", "{}"], "command"),
        (&["mcp", "get", "x"], "no MCP server named x"),
        (&["mcp", "enable", "x"], "no MCP server named x"),
        (&["mcp", "import", "--from", "gone.json"], "gone.json"),
        (
            &[
                "mcp",
                "add",
                "x",
                "https://h",
                "--client-id",
                "c",
                "--client-secret",
            ],
            "MCP_CLIENT_SECRET",
        ),
        (&["mcp", "serve", "--http", "0.0.0.0:0"], "127.0.0.1"),
    ] {
        let output = home.run(arguments, "");
        assert_ne!(output.code(), Some(0), "{arguments:?}");
        assert!(
            output.stderr.contains(words),
            "{arguments:?}: {}",
            output.stderr
        );
    }
    assert!(
        !home.project().join(".lathe").exists(),
        "nothing was written"
    );
}

#[test]
fn servers_of_another_client_are_taken_over() {
    let home = TestHome::new();
    home.write(
        "other.json",
        json!({"servers": {"their server": fixture(&[])}}).to_string(),
    );
    let preview = home.run(["mcp", "import", "--from", "other.json", "--preview"], "");
    assert!(preview.stdout.contains("their_server"), "{preview:#?}");
    assert!(!home.config().join("settings.json").exists());
    assert_eq!(
        home.run(["mcp", "import", "--from", "other.json"], "")
            .code(),
        Some(0)
    );
    let called = home.run(
        ["mcp", "call", "their_server", "echo", r#"{"text": "hi"}"#],
        "",
    );
    assert_eq!(called.stdout, "hi\n", "{called:#?}");
}

#[test]
fn a_policy_refuses_and_says_so() {
    let home = TestHome::new();
    add(&home, "local", &[]);
    let settings = json!({"deniedMcpServers": [{"serverCommand": fixture(&[])["args"].as_array().map(|args| {
        let mut words = vec![json!("python3")];
        words.extend(args.clone());
        words
    })}]});
    std::fs::write(home.config().join("settings.json"), settings.to_string()).unwrap();
    let one = json_of(&home.run(["mcp", "get", "local", "--json"], ""));
    assert_eq!(one["status"], "disabled");
    assert!(
        one["error"].as_str().unwrap().contains("deniedMcpServers"),
        "{one}"
    );
}

#[test]
fn servers_can_come_through_a_pipe() {
    let model = model([
        Reply::tool_use("mcp__local__echo", json!({"text": "piped"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let pipe = home.root().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let say = || {
        let (pipe, servers) = (pipe.clone(), servers.clone());
        // Opening it waits for a reader.
        std::thread::spawn(move || std::fs::write(pipe, servers).unwrap())
    };
    let name = pipe.display().to_string();
    let said = say();
    let tools = home.run(["mcp", "tools", "local", "--mcp-config", &name], "");
    said.join().unwrap();
    assert!(tools.stdout.contains("echo"), "{tools:#?}");
    let said = say();
    let arguments = [
        "-p",
        "go",
        "--mcp-config",
        &name,
        "--allowedTools",
        "mcp__local",
    ];
    let output = home.run(arguments, "");
    said.join().unwrap();
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("done\n", "")
    );
    assert!(sent(&model, 1).contains("piped"), "{}", sent(&model, 1));
    model.finish();
}

#[test]
fn a_transport_is_written_where_someone_names_it_or_others_need_it() {
    let home = TestHome::new();
    let url = "http://127.0.0.1:9/mcp";
    for (arguments, kind) in [
        (&["mcp", "add", "one", url][..], Value::Null),
        (&["mcp", "add", "-t", "sse", "one", url], json!("sse")),
        (&["mcp", "add", "-s", "project", "one", url], json!("http")),
        (&["mcp", "add", "one", "ws://127.0.0.1:9/mcp"], json!("ws")),
    ] {
        let added = home.run(arguments, "");
        assert_eq!(added.code(), Some(0), "{added:#?}");
        let shown = json_of(&home.run(["mcp", "get", "one", "--json"], ""));
        assert_eq!(shown["config"]["type"], kind, "{arguments:?}: {shown}");
        assert_eq!(home.run(["mcp", "remove", "one"], "").code(), Some(0));
    }
}
