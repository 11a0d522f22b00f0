//! Language servers on the real binary, with a scripted model: what it is offered, what it is answered, and
//! what it is told after an edit.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the program"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome, processes, workspace_root};
use serde_json::{Value, json};
use std::path::PathBuf;

fn model(replies: impl IntoIterator<Item = Reply>) -> BlockingServer {
    let scenario = replies.into_iter().fold(Scenario::new(), Scenario::reply);
    BlockingServer::start(scenario).unwrap()
}

/// A language server that behaves as told, for `.words` files.
fn scripted(mode: &str) -> Value {
    let script = workspace_root().join("crates/lsp/tests/fixtures/server.py");
    json!({"command": "python3", "args": [script, mode], "extensionToLanguage": {".words": "words"}})
}

/// Settings with servers; a request waits for what they find, however slow the machine is.
fn settings(servers: &Value) -> String {
    json!({"lspServers": servers, "lspDiagnostics": {"waitSeconds": 120}}).to_string()
}

/// The folder of the language servers that `scripts/setup-tests` installs.
fn packages() -> PathBuf {
    let packages = std::env::var_os("LATHE_TEST_PACKAGES").map_or_else(
        || workspace_root().join("target/test-packages"),
        PathBuf::from,
    );
    packages.join("lsp")
}

fn pyright() -> Value {
    let program = packages().join("node_modules/.bin/pyright-langserver");
    assert!(
        program.is_file(),
        "{} is not there; run scripts/setup-tests",
        program.display()
    );
    json!({
        "command": program, "args": ["--stdio"], "extensionToLanguage": {".py": "python"}, "startupTimeout": 180_000
    })
}

fn run(home: &TestHome, more: &[&str]) -> lathe_testkit::Output {
    let arguments = ["-p", "go", "--output-format", "json"];
    home.run(arguments.iter().chain(more), "")
}

/// The text of a request to the model.
fn sent(server: &BlockingServer, request: usize) -> String {
    server.requests()[request].body["messages"].to_string()
}

fn offered(server: &BlockingServer, request: usize) -> bool {
    server.requests()[request].tool_names().contains(&"LSP")
}

#[test]
fn the_request_after_an_edit_has_the_diagnostics_of_pyright() {
    let model = model([
        Reply::tool_use("Read", json!({"file_path": "app.py"})),
        Reply::tool_use(
            "Edit",
            json!({"file_path": "app.py", "old_string": "double(2)", "new_string": "double('two')"}),
        ),
        Reply::text("I see."),
    ]);
    let home = trusted(&model);
    home.write(
        home.config().join("settings.json"),
        settings(&json!({"pyright": pyright()})),
    );
    let text = "def double(x: int) -> int:\n    return x * 2\n\n\nold: int = 'wrong before'\nprint(double(2))\n";
    home.write(home.project().join("app.py"), text);
    let output = run(&home, &["--permission-mode", "acceptEdits"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(output.stderr, "");
    assert!(offered(&model, 0));
    let told = sent(&model, 2);
    assert!(
        told.contains("<system-reminder>\\nLanguage servers report new problems"),
        "{told}"
    );
    assert!(told.contains("app.py\\n  6:14 error:"), "{told}");
    assert!(told.contains("reportArgumentType"), "{told}");
    assert!(
        !told.contains("reportAssignmentType"),
        "what was there before: {told}"
    );
    assert!(!sent(&model, 1).contains("Language servers"));
    model.finish();
    processes::assert_none_left(&home);
}

/// A real language server works in the sandbox: it reads the project and its own files, and needs no more.
#[test]
#[cfg(target_os = "linux")]
fn pyright_works_in_the_sandbox() {
    let model = model([
        Reply::tool_use(
            "Write",
            json!({"file_path": "app.py", "content": "def double(x: int) -> int:\n    return x * 2\n\n\nprint(double('two'))\n"}),
        ),
        Reply::text("I see."),
    ]);
    let home = trusted(&model).sandbox_by_default();
    let servers: Value = settings(&json!({"pyright": pyright()})).parse().unwrap();
    let mut with_sandbox = servers;
    with_sandbox["sandbox"] = json!({"enabled": true, "failIfUnavailable": true});
    // The server is seen there even if it was installed below /tmp, which is private.
    with_sandbox["permissions"] = json!({"additionalDirectories": [packages()]});
    home.write(
        home.config().join("settings.json"),
        with_sandbox.to_string(),
    );
    let output = run(&home, &["--permission-mode", "acceptEdits"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let told = sent(&model, 1);
    assert!(told.contains("reportArgumentType"), "{told}");
    model.finish();
    processes::assert_none_left(&home);
}

#[test]
fn the_tool_answers_without_a_question_and_respects_read_rules() {
    let ask = |operation: &str, file: &str| {
        Reply::tool_use(
            "LSP",
            json!({"operation": operation, "filePath": file, "line": 1, "query": "Outer"}),
        )
    };
    let model = model([
        ask("findReferences", "a.words"),
        ask("documentSymbol", "a.words"),
        ask("hover", "hidden/b.words"),
        ask("hover", "c.txt"),
        ask("diagnostics", "a.words"),
        Reply::text("done"),
    ]);
    let home = trusted(&model);
    home.write(
        home.config().join("settings.json"),
        settings(&json!({"scripted": scripted("normal")})),
    );
    for name in ["a.words", "hidden/b.words", "c.txt"] {
        home.write(home.project().join(name), "class Outer\nBAD line\n");
    }
    let output = run(&home, &["--disallowedTools", "Read(hidden/**)"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        sent(&model, 1).contains("a.words:1:1  class Outer\\na.words:2:1  BAD line"),
        "{}",
        sent(&model, 1)
    );
    assert!(sent(&model, 2).contains("class Outer  1:1\\n  method inner  2:1"));
    assert_eq!(output.result()["permission_denials"][0]["tool_name"], "LSP");
    assert!(sent(&model, 4).contains("no language server is configured for .txt files"));
    assert!(
        sent(&model, 5).contains("2:1 error: BAD is not a word [words bad]"),
        "{}",
        sent(&model, 5)
    );
    model.finish();
    processes::assert_none_left(&home);
}

#[test]
fn a_place_that_a_server_names_shows_no_line_of_a_closed_file() {
    const SECRET: &str = "canary-51c0de";
    let ask = |file: &str| {
        Reply::tool_use(
            "LSP",
            json!({"operation": "findReferences", "filePath": file, "line": 1, "character": 1}),
        )
    };
    let model = model([
        ask("a.words"),
        ask("linked.words"),
        ask("folder/notes.words"),
        ask("kept/plan.words"),
        Reply::text("done"),
    ]);
    let home = trusted(&model);
    let project = home.project().canonicalize().unwrap();
    let outside = home.root().join("other");
    for file in [
        project.join(".env"),
        project.join("kept/plan.words"),
        project.join("closed/b.words"),
        home.home().join(".ssh/id_rsa"),
        outside.join("notes.words"),
    ] {
        home.write(file, format!("{SECRET}\n"));
    }
    home.write(".latheignore", "kept/\n");
    home.write("a.words", "class Outer\nsecond\n");
    std::os::unix::fs::symlink(project.join(".env"), project.join("linked.words")).unwrap();
    std::os::unix::fs::symlink(&outside, project.join("folder")).unwrap();
    let elsewhere: Vec<String> = [
        project.join(".env"),
        project.join("linked.words"),
        project.join("folder/notes.words"),
        project.join("kept/plan.words"),
        project.join("src/../kept/plan.words"),
        project.join("closed/b.words"),
        project.join("../../other/notes.words"),
        home.home().join(".ssh/id_rsa"),
        outside.join("notes.words"),
    ]
    .iter()
    .map(|path| format!("file://{}", path.display()))
    .chain([
        format!(
            "file://{}/%2e%2e/%2e%2e/other/notes.words",
            project.display()
        ),
        format!("file://{}/.%65nv", project.display()),
    ])
    .collect();
    let mut entry = scripted("normal");
    entry["env"] = json!({"LSP_ELSEWHERE": elsewhere.join(" ")});
    home.write(
        home.config().join("settings.json"),
        settings(&json!({"scripted": entry})),
    );
    let output = run(&home, &["--disallowedTools", "Read(closed/**)"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        sent(&model, 1).contains("class Outer"),
        "{}",
        sent(&model, 1)
    );
    for request in 1..=4 {
        let told = sent(&model, request);
        assert!(!told.contains(SECRET), "{told}");
    }
    model.finish();
    processes::assert_none_left(&home);
}

/// A home whose project is trusted: language servers are used nowhere else.
fn trusted(model: &BlockingServer) -> TestHome {
    let home = TestHome::with_server(model);
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    home
}

#[test]
fn no_server_of_the_users_own_starts_in_an_untrusted_folder() {
    let model = model([
        Reply::tool_use("Write", json!({"file_path": "a.words", "content": "BAD"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model);
    let mut entry = scripted("normal");
    let log = home.config().join("log");
    entry["env"] = json!({"LSP_LOG": log});
    home.write(
        home.config().join("settings.json"),
        settings(&json!({"scripted": entry})),
    );
    let output = run(&home, &["--permission-mode", "acceptEdits"]);
    assert!(!offered(&model, 0));
    assert!(
        output.stderr.contains("this folder is not trusted"),
        "{}",
        output.stderr
    );
    assert!(!log.exists());
    model.finish();
}

#[test]
fn without_a_server_there_is_no_tool_and_an_untrusted_folder_adds_none() {
    let model = model([
        Reply::tool_use("Write", json!({"file_path": "a.words", "content": "BAD"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&model);
    let mut entry = scripted("normal");
    let log = home.project().join("log");
    entry["env"] = json!({"LSP_LOG": log});
    home.write(
        home.project().join(".lathe/settings.json"),
        settings(&json!({"scripted": entry})),
    );
    let output = run(&home, &["--permission-mode", "acceptEdits"]);
    assert!(!offered(&model, 0));
    assert!(
        output.stderr.contains("lspServers.scripted: python3"),
        "{}",
        output.stderr
    );
    assert!(!log.exists(), "nothing of an untrusted folder is started");
    model.finish();
}

#[test]
fn a_broken_server_is_reported_once_and_breaks_nothing() {
    let write =
        |text: &str| Reply::tool_use("Write", json!({"file_path": "a.words", "content": text}));
    let model = model([write("one"), write("two"), Reply::text("done")]);
    let home = trusted(&model);
    home.write(
        home.config().join("settings.json"),
        settings(&json!({"scripted": scripted("dies"), "gone": {
            "command": "no-such-language-server", "extensionToLanguage": {".words": "words"},
        }})),
    );
    let output = run(&home, &["--permission-mode", "acceptEdits"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(output.result()["result"], "done");
    assert_eq!(home.read(home.project().join("a.words")), "two");
    for words in [
        "a broken installation",
        "there is no program no-such-language-server",
    ] {
        assert_eq!(output.stderr.matches(words).count(), 1, "{}", output.stderr);
    }
    model.finish();
    processes::assert_none_left(&home);
}

#[test]
fn plugins_bring_servers_and_the_doctor_knows_them() {
    let model = model([
        Reply::tool_use(
            "LSP",
            json!({"operation": "hover", "filePath": "a.words", "line": 1, "character": 3}),
        ),
        Reply::text("done"),
    ]);
    let home = trusted(&model);
    let plugin = home.root().join("plugin");
    let script = workspace_root().join("crates/lsp/tests/fixtures/server.py");
    home.write(
        plugin.join(".claude-plugin/plugin.json"),
        r#"{"name": "words"}"#,
    );
    home.write(plugin.join("server.py"), std::fs::read(script).unwrap());
    home.write(
        plugin.join(".lsp.json"),
        json!({"scripted": {
            "command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py", "normal"],
            "extensionToLanguage": {".words": "words"},
        }})
        .to_string(),
    );
    home.write(home.project().join("a.words"), "some words\n");
    let folder = plugin.display().to_string();
    let output = run(&home, &["--plugin-dir", &folder]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert!(
        sent(&model, 1).contains("rest: me words"),
        "{}",
        sent(&model, 1)
    );
    let doctor = home.run(["doctor", "--plugin-dir", &folder], "");
    assert!(
        doctor.stdout.contains("plugin:words:scripted is "),
        "{}",
        doctor.stdout
    );
    model.finish();
    processes::assert_none_left(&home);
}

#[test]
fn wrong_settings_are_said_with_their_place() {
    let model = model([Reply::text("done")]);
    let home = trusted(&model);
    let file = home.config().join("settings.json");
    home.write(
        &file,
        "{\n  \"lspServers\": {\n    \"py\": {\"args\": []},\n    \"go\": {\"command\": \"gopls\", \"extensionToLanguage\": {\".go\": 7}}\n  }\n}\n",
    );
    let output = run(&home, &[]);
    assert!(
        output.stderr.contains("settings.json:3"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("command"), "{}", output.stderr);
    assert!(
        output.stderr.contains("settings.json:4"),
        "{}",
        output.stderr
    );
    assert!(!offered(&model, 0));
    model.finish();
}

#[test]
fn an_agent_hears_of_its_own_edits_and_its_parent_does_not() {
    let model = model([
        Reply::tool_use(
            "Agent",
            json!({"description": "words", "prompt": "write words", "run_in_background": false}),
        ),
        Reply::tool_use("Write", json!({"file_path": "a.words", "content": "BAD\n"})),
        Reply::text("the agent is done"),
        Reply::text("done"),
    ]);
    let home = trusted(&model);
    home.write(
        home.config().join("settings.json"),
        settings(&json!({"scripted": scripted("normal")})),
    );
    let output = run(&home, &["--permission-mode", "acceptEdits"]);
    assert_eq!(output.code(), Some(0), "{}", output.stdout);
    assert!(offered(&model, 1), "agents have the tool too");
    let told = sent(&model, 2);
    assert!(
        told.contains("a.words\\n  1:1 error: BAD is not a word"),
        "{told}"
    );
    assert!(
        !sent(&model, 3).contains("BAD is not a word"),
        "{}",
        sent(&model, 3)
    );
    model.finish();
    processes::assert_none_left(&home);
}

#[test]
fn servers_come_and_go_with_settings_while_a_session_runs() {
    let model = model([
        Reply::text("one"),
        Reply::tool_use(
            "LSP",
            json!({"operation": "hover", "filePath": "a.words", "line": 1, "character": 1}),
        ),
        Reply::text("two"),
        Reply::text("three"),
    ]);
    let home = trusted(&model);
    home.write(home.project().join("a.words"), "some words\n");
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    let mut turn = |settings: Option<Value>| {
        if let Some(settings) = settings {
            let request = json!({"subtype": "apply_flag_settings", "settings": settings});
            let answer = session.control(&request);
            assert_eq!(answer["response"]["subtype"], "success", "{answer}");
        }
        session.prompt("go");
        session.wait_for_result();
    };
    turn(None);
    turn(Some(
        json!({"lspServers": {"scripted": scripted("normal")}}),
    ));
    turn(Some(json!({"lspServers": null})));
    assert_eq!(session.close().code(), Some(0));
    let offers: Vec<bool> = (0..4).map(|request| offered(&model, request)).collect();
    assert_eq!(offers, [false, true, true, false]);
    assert!(sent(&model, 2).contains("rest: some words"));
    model.finish();
    processes::assert_none_left(&home);
}

fn edit(input: Value) -> Reply {
    Reply::tool_use("LSPEdit", input)
}

/// A project of two files that use each other, with a real server.
fn shop(model: &BlockingServer, settings_more: &Value) -> TestHome {
    let home = trusted(model);
    let mut settings: Value = settings(&json!({"pyright": pyright()})).parse().unwrap();
    for (key, value) in settings_more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    home.write(home.config().join("settings.json"), settings.to_string());
    home.write("a_shop.py", "def total() -> int:\n    return 1\n");
    home.write("b_app.py", "from a_shop import total\n\nprint(total())\n");
    home
}

fn rename() -> Reply {
    edit(
        json!({"operation": "rename", "filePath": "a_shop.py", "line": 1, "query": "total", "newName": "amount"}),
    )
}

#[test]
fn a_rename_of_a_server_changes_all_files_under_the_rules_and_can_be_taken_back() {
    let model = model([
        rename(),
        edit(
            json!({"operation": "replaceSymbol", "filePath": "a_shop.py", "symbol": "amount",
            "text": "def amount() -> int:\n    return 2\n"}),
        ),
        Reply::text("done"),
    ]);
    let home = shop(&model, &json!({}));
    let output = run(&home, &["--permission-mode", "acceptEdits"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(
        home.read("a_shop.py"),
        "def amount() -> int:\n    return 2\n"
    );
    assert_eq!(
        home.read("b_app.py"),
        "from a_shop import amount\n\nprint(amount())\n"
    );
    let told = sent(&model, 1);
    assert!(told.contains("+print(amount())"), "{told}");
    model.finish();
    let id = output.result()["session_id"].as_str().unwrap().to_owned();
    let shown = home.run(["sessions", "show", &id, "--json"], "");
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let prompt = shown["prompts"][0]["id"].as_str().unwrap().to_owned();
    let back = home.run(["sessions", "rewind", &id, &prompt, "--files"], "");
    assert_eq!(back.code(), Some(0), "{back:#?}");
    assert!(home.read("a_shop.py").contains("def total"), "{back:#?}");
    assert!(
        home.read("b_app.py").contains("print(total())"),
        "{back:#?}"
    );
    processes::assert_none_left(&home);
}

#[test]
fn every_file_of_an_edit_is_judged_and_one_that_may_not_change_stops_all() {
    let denied = json!({"permissions": {"deny": ["Edit(**/b_app.py)"]}});
    for (mode, more, reason) in [
        ("default", json!({}), "needs permission"),
        ("plan", json!({}), "plan mode"),
        ("acceptEdits", denied, "is not permitted"),
    ] {
        let model = model([rename(), Reply::text("done")]);
        let home = shop(&model, &more);
        let output = run(&home, &["--permission-mode", mode]);
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        let told = sent(&model, 1);
        assert!(told.contains(reason), "{mode}: {told}");
        assert!(home.read("a_shop.py").contains("total"), "{mode}");
        assert!(home.read("b_app.py").contains("total"), "{mode}");
        model.finish();
    }
}

#[test]
fn a_file_that_changes_meanwhile_leaves_all_files_as_they_were() {
    let touch = json!({"hooks": {"PreToolUse": [{"matcher": "LSPEdit", "hooks": [
        {"type": "command", "command": "echo '# later' >> b_app.py"}]}]}});
    let model = model([rename(), Reply::text("done")]);
    let home = shop(&model, &touch);
    let output = run(&home, &["--permission-mode", "acceptEdits"]);
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let told = sent(&model, 1);
    assert!(told.contains("b_app.py has changed since"), "{told}");
    assert_eq!(
        home.read("a_shop.py"),
        "def total() -> int:\n    return 1\n"
    );
    assert_eq!(
        home.read("b_app.py"),
        "from a_shop import total\n\nprint(total())\n# later\n"
    );
    model.finish();
}
