//! Commands on a terminal, on the real binary: in print mode, with a host, in the sandbox and in the terminal.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, RecordedRequest, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome, processes, transcript};
use serde_json::{Value, json};

/// A model that makes these calls one after the other; `ID` in an input is the id of the last interactive command.
fn model(calls: Vec<(&'static str, Value)>) -> BlockingServer {
    let respond = move |request: &RecordedRequest| {
        let made = request
            .messages()
            .iter()
            .filter_map(|message| message["content"].as_array())
            .flatten()
            .filter(|block| block["type"] == "tool_use")
            .count();
        let Some((tool, input)) = calls.get(made) else {
            return Reply::text("all done");
        };
        let so_far = Value::from(request.messages().to_vec()).to_string();
        let id = so_far.rfind("term_").map(|at| &so_far[at..at + 13]);
        let input = input.to_string().replace("ID", id.unwrap_or("none"));
        Reply::tool_use(*tool, serde_json::from_str(&input).unwrap())
    };
    BlockingServer::start(Scenario::new().responder(respond)).unwrap()
}

fn interactive(command: &str) -> (&'static str, Value) {
    ("Bash", json!({"command": command, "interactive": true}))
}

fn input(text: &str) -> (&'static str, Value) {
    ("BashInput", json!({"id": "ID", "text": text}))
}

/// The results of the calls, with whether each failed.
fn results(server: &BlockingServer) -> Vec<(String, bool)> {
    let requests = server.message_requests();
    let messages = requests.last().unwrap().messages().to_vec();
    let blocks = messages
        .iter()
        .filter_map(|message| message["content"].as_array().cloned())
        .flatten();
    blocks
        .filter(|block| block["type"] == "tool_result")
        .map(|block| (block["content"].to_string(), block["is_error"] == true))
        .collect()
}

const SHELL: &str = "bash --norc --noprofile -i";

#[test]
fn without_a_person_a_shell_takes_what_commands_may_do_and_a_password_is_refused() {
    let server = model(vec![
        interactive(SHELL),
        input("pwd\n"),
        input("touch made\n"),
        input("rm -rf "),
        ("BashInput", json!({"id": "ID", "keys": ["Up", "Enter"]})),
        ("BashInput", json!({"id": "ID", "keys": ["C-c"]})),
        ("TaskStop", json!({"task_id": "ID"})),
        input("pwd\n"),
        interactive("read -rsp 'Password: ' p"),
        input("guess\n"),
        ("TaskStop", json!({"task_id": "ID"})),
    ]);
    let home = TestHome::with_server(&server);
    let run = [
        "-p",
        "go",
        "--allowedTools",
        "Bash(bash --norc --noprofile -i)",
        "Bash(read:*)",
    ];
    let output = home.run(run, "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let results = results(&server);
    let has = |number: usize, text: &str, failed: bool| {
        let (found, error) = &results[number];
        assert!(
            found.contains(text) && *error == failed,
            "{number}: {results:#?}"
        );
    };
    has(0, "bash waits for input", false);
    has(1, &home.project().display().to_string(), false);
    has(2, "BashInput with the command `touch made`", true);
    has(3, "rm -rf", true);
    has(4, "BashInput into bash", true);
    has(5, "bash waits for input", false);
    has(6, "is stopped", false);
    has(7, "ended", true);
    has(
        8,
        "only the user may type, and nobody can in this session",
        true,
    );
    has(9, "", true);
    has(10, "is stopped", false);
    assert!(!home.project().join("made").exists());
    assert!(!results[9].0.contains("guess"), "{results:#?}");
    server.finish();
    processes::assert_none_left(&home);
}

#[test]
fn a_host_is_asked_before_the_model_types_into_an_interpreter() {
    let server = model(vec![
        interactive("python3 -q"),
        input("print(6 * 7)\n"),
        input("print('again')\n"),
        input("exit()\n"),
    ]);
    let home = TestHome::with_server(&server);
    let arguments = [
        "--permission-prompt-tool",
        "stdio",
        "--allowedTools",
        "Bash",
    ];
    let mut session = StreamJson::start(&home, arguments);
    session.prompt("go");
    let question = session.wait_for(|frame| frame["type"] == "control_request");
    let request = &question["request"];
    assert_eq!(request["tool_name"], "BashInput", "{question}");
    let program = request["input"]["program"].as_str().unwrap();
    assert!(program.starts_with("python3"), "{question}");
    assert_eq!(request["input"]["command"], Value::Null);
    // Once for the program.
    session.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"],
        "response": {"behavior": "allow", "updatedInput": request["input"],
            "updatedPermissions": request["permission_suggestions"]}}}));
    let result = session.wait_for_result();
    assert_eq!(result["subtype"], "success", "{result}");
    assert_eq!(session.close().code(), Some(0));
    let results = results(&server);
    for (number, shown) in [(0, ">>>"), (1, "42"), (2, "again"), (3, "exit code 0")] {
        let (found, failed) = &results[number];
        assert!(found.contains(shown) && !failed, "{number}: {results:#?}");
    }
    server.finish();
    processes::assert_none_left(&home);
}

#[test]
fn in_the_sandbox_nothing_is_asked_and_nothing_gets_out() {
    let server = model(vec![
        interactive(SHELL),
        input("touch made; touch ~/outside\n"),
        input("python3 -q\n"),
        input("open('by-python', 'w').close()\n"),
        ("BashInput", json!({"id": "ID", "keys": ["C-d"]})),
        input("exit\n"),
    ]);
    let home = TestHome::with_server(&server).sandbox_by_default();
    let settings = json!({"sandbox": {"enabled": true}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let output = home.run(["-p", "go"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let results = results(&server);
    assert!(results.iter().all(|(_, failed)| !failed), "{results:#?}");
    assert!(results[1].0.contains("Read-only"), "{results:#?}");
    assert!(home.project().join("made").exists());
    assert!(home.project().join("by-python").exists());
    assert!(!home.home().join("outside").exists());
    server.finish();
    processes::assert_none_left(&home);
}

const PASSWORD: &str = "correct-horse-7";

#[test]
fn a_password_is_typed_by_the_person_and_goes_nowhere_else() {
    let server = model(vec![
        interactive(
            "read -rsp 'Password: ' p; echo; echo \"got ${#p} letters: $p\"; read -p 'more? ' m",
        ),
        ("TaskStop", json!({"task_id": "ID"})),
    ]);
    let home = TestHome::with_server(&server);
    let log = home.root().join("debug.log");
    let arguments = ["--allowedTools", "Bash", "--debug=trace", "--debug-file"];
    let arguments = arguments.map(str::to_owned).into_iter();
    let arguments = arguments.chain([log.display().to_string()]);
    let mut terminal = home.terminal(arguments, 100, 30);
    terminal.say("go");
    terminal.wait_for("only the command gets what you type");
    terminal.wait_for("Password:");
    terminal.send(PASSWORD);
    terminal.send("\r");
    terminal.wait_for("all done");
    assert!(!terminal.everything().contains(PASSWORD));
    terminal.leave();
    let results = results(&server);
    assert!(
        results[0].0.contains("got 15 letters: [hidden]"),
        "{results:#?}"
    );
    for request in server.message_requests() {
        assert!(!request.body.to_string().contains(PASSWORD));
    }
    for path in transcript::of_home(&home) {
        assert!(!home.read(path).contains(PASSWORD));
    }
    assert!(log.exists() && !home.read(&log).contains(PASSWORD));
    server.finish();
    processes::assert_none_left(&home);
}

#[test]
fn the_person_takes_the_keyboard_and_gives_it_back() {
    let server = model(vec![
        interactive("python3 -q; sleep 1000"),
        ("BashInput", json!({"id": "ID"})),
    ]);
    let home = TestHome::with_server(&server);
    let mut terminal = home.terminal(["--allowedTools", "Bash", "BashInput"], 100, 30);
    terminal.say("go");
    terminal.wait_for("all done");
    terminal.send("\x06");
    terminal.wait_for("the keyboard is yours");
    terminal.send("print(6 * 7)\r");
    terminal.wait_for("42");
    terminal.resize(70, 24);
    terminal.send("import shutil; wide = lambda: shutil.get_terminal_size().columns >= 70\r");
    terminal.send("all(1 for _ in iter(wide, False)) and print('it is ' + 'narrow')\r");
    terminal.wait_for("it is narrow");
    // Control keys are the program's too.
    terminal.send("\x03");
    terminal.wait_for("KeyboardInterrupt");
    terminal.send("\x1b\x1b");
    terminal.wait_gone("the keyboard is yours");
    terminal.leave();
    server.finish();
    processes::assert_none_left(&home);
}

#[test]
fn in_an_editor_a_password_is_refused_and_the_command_is_stopped() {
    let server = model(vec![
        interactive("read -rsp 'Password: ' p"),
        ("TaskStop", json!({"task_id": "ID"})),
    ]);
    let home = TestHome::with_server(&server);
    let settings = json!({"permissions": {"allow": ["Bash"]}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut editor = home.spawn(["acp"]);
    let mut send = |message: Value| editor.write(format!("{message}\n").as_bytes());
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}}}));
    send(json!({"jsonrpc": "2.0", "id": 2, "method": "session/new",
        "params": {"cwd": home.project(), "mcpServers": []}}));
    editor.wait_for_stdout("\"sessionId\":\"");
    let out = editor.stdout_so_far();
    let id = out.split("\"sessionId\":\"").nth(1).unwrap();
    let id = id.split('"').next().unwrap().to_owned();
    let prompt = json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {
        "sessionId": id, "prompt": [{"type": "text", "text": "go"}]}});
    editor.write(format!("{prompt}\n").as_bytes());
    editor.wait_for_stdout("all done");
    editor.close_stdin();
    assert_eq!(editor.finish().code(), Some(0));
    let results = results(&server);
    assert!(
        results[0].0.contains("nobody can in this session"),
        "{results:#?}"
    );
    assert!(results[1].0.contains("is stopped"), "{results:#?}");
    server.finish();
    processes::assert_none_left(&home);
}
