//! The sandbox on the real binary: commands of a session run in it, settings change what it allows, and what it
//! refuses is reported.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests assert by panicking"
)]

use lathe_scripted::{BlockingServer, Reply};
use lathe_testkit::{StreamJson, TestHome, server};
use serde_json::{Value, json};

/// The results of the calls that the model made, with whether each failed.
fn results(server: &BlockingServer) -> Vec<(String, bool)> {
    let requests = server.message_requests();
    let messages = requests.last().unwrap().body["messages"]
        .as_array()
        .unwrap()
        .clone();
    let blocks = messages
        .iter()
        .filter_map(|message| message["content"].as_array().cloned())
        .flatten();
    blocks
        .filter(|block| block["type"] == "tool_result")
        .map(|block| (block["content"].to_string(), block["is_error"] == true))
        .collect()
}

/// A session with these settings of the sandbox, in which the model runs one command after the other.
fn run(sandbox: &Value, arguments: &[&str], inputs: &[Value]) -> (TestHome, Vec<(String, bool)>) {
    let calls = inputs
        .iter()
        .map(|input| Reply::tool_use("Bash", input.clone()));
    let server = server(calls.chain([Reply::text("done")]));
    let home = TestHome::with_server(&server).sandbox_by_default();
    home.git_init();
    home.write("file", "one\n");
    let settings = json!({"sandbox": sandbox});
    home.write(home.config().join("settings.json"), settings.to_string());
    let arguments: Vec<&str> = ["-p", "go"].iter().chain(arguments).copied().collect();
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let results = results(&server);
    server.finish();
    (home, results)
}

/// Says yes to a question.
fn allow(session: &mut StreamJson, question: &Value) {
    session.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"],
        "response": {"behavior": "allow", "updatedInput": question["request"]["input"]}}}));
}

fn command(command: &str) -> Value {
    json!({"command": command})
}

#[test]
fn commands_run_in_the_sandbox_without_a_question_and_get_no_further() {
    let (home, results) = run(
        &json!({"enabled": true}),
        &[],
        &[
            command("echo made > made && cat made && echo $LATHE_COMMAND_ID | wc -c"),
            command("echo x > ~/outside"),
            command("echo x > .git/hooks/pre-push; cp file .git/hooks/pre-commit"),
            command("git add -A && git commit -qm sandboxed && git log --oneline"),
            command("ls /proc | grep -c '^[0-9]'"),
        ],
    );
    assert!(
        results[0].0.contains("made") && !results[0].1,
        "{results:?}"
    );
    assert_eq!(home.read("made"), "made\n");
    assert!(
        results[1].1
            && results[1]
                .0
                .contains("The command ran in the sandbox, which refused"),
        "{results:?}"
    );
    assert!(
        results[1]
            .0
            .contains(&format!("writing {}/outside", home.home().display())),
        "{results:?}"
    );
    assert!(
        results[1].0.contains("sandbox.filesystem.allowWrite"),
        "{results:?}"
    );
    assert!(!home.home().join("outside").exists());
    // The user must say yes to this one, and nobody is there.
    assert!(results[2].1, "{results:?}");
    assert!(!home.project().join(".git/hooks/pre-commit").exists());
    assert!(
        results[3].0.contains("sandboxed") && !results[3].1,
        "{results:?}"
    );
    // Its own processes only.
    let seen: usize = results[4]
        .0
        .trim_matches(['"', '\\', 'n'])
        .parse()
        .unwrap_or(999);
    assert!(seen < 10, "{results:?}");
    let left: Vec<_> = std::fs::read_dir(home.config().join("sandbox"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
    for stub in [".lathe/x", ".claude", ".git/commondir"] {
        assert!(!home.project().join(stub).exists(), "{stub}");
    }
}

/// The parameters that the model was offered for a command.
fn offered(server: &BlockingServer) -> Value {
    let requests = server.message_requests();
    let tools = requests.first().unwrap().body["tools"].as_array().cloned();
    let bash = tools
        .unwrap()
        .into_iter()
        .find(|tool| tool["name"] == "Bash");
    bash.unwrap()["input_schema"]["properties"].clone()
}

/// Replies that try to write inside and outside of the project.
fn two_writes() -> [Reply; 2] {
    [
        Reply::tool_use("Bash", command("cp file copy; cp file ~/outside")),
        Reply::text("it is done"),
    ]
}

const EXPLAINED: &str = "Commands run in a sandbox";

#[test]
fn commands_of_the_terminal_run_in_the_sandbox_and_that_is_explained_once() {
    for first in [true, false] {
        let server = server([
            // Nothing that it would have to ask about.
            Reply::tool_use(
                "Bash",
                command("cp file copy; touch /tmp/only-in-the-sandbox"),
            ),
            Reply::text("it is done"),
        ]);
        let home = TestHome::with_server(&server).sandbox_by_default();
        let home = home.variable("LATHE_PROMPT_SUGGESTIONS", "0");
        let home = home.variable("LATHE_SESSION_TITLES", "0");
        home.write("file", "one\n");
        if !first {
            home.write(home.config().join("sandbox-announced"), "");
        }
        let mut terminal = home.terminal([] as [&str; 0], 100, 30);
        terminal.say("go");
        terminal.wait_for("it is done");
        terminal.wait_for("sandbox: bubblewrap");
        terminal.leave();
        let shown = terminal.everything();
        assert_eq!(shown.contains(EXPLAINED), first, "{shown}");
        assert_eq!(home.read("copy"), "one\n");
        assert!(!std::path::Path::new("/tmp/only-in-the-sandbox").exists());
        assert!(offered(&server)["dangerouslyDisableSandbox"].is_object());
        server.finish();
    }
}

#[test]
fn print_mode_has_the_sandbox_only_if_somebody_says_so() {
    for (way, on) in [
        ("default", false),
        ("setting", true),
        ("variable", true),
        ("setting, but the flag", false),
        ("setting, but the variable", false),
        ("setting that says no", false),
    ] {
        let server = server(two_writes());
        let mut home = TestHome::with_server(&server).sandbox_by_default();
        home.write("file", "one\n");
        let mut arguments = vec!["-p", "go"];
        if way.starts_with("setting") {
            let enabled = way != "setting that says no";
            let settings = json!({"sandbox": {"enabled": enabled}});
            home.write(home.config().join("settings.json"), settings.to_string());
        }
        match way {
            "variable" => home = home.variable("LATHE_SANDBOX", "1"),
            "setting, but the variable" => home = home.variable("LATHE_SANDBOX", "0"),
            "setting, but the flag" => arguments.push("--no-sandbox"),
            _ => {}
        }
        let output = home.run(arguments, "");
        assert!(!output.stderr.contains(EXPLAINED), "{way}: {output:#?}");
        // Without it the command needs a permission that nobody gives.
        assert_eq!(home.project().join("copy").exists(), on, "{way}");
        assert!(!home.home().join("outside").exists(), "{way}");
        let field = &offered(&server)["dangerouslyDisableSandbox"];
        assert_eq!(field.is_object(), on, "{way}");
        server.finish();
    }
}

#[test]
fn where_only_a_weak_sandbox_can_be_had_it_is_off_by_default() {
    let home = TestHome::new().sandbox_by_default();
    // In a sandbox no namespaces can be made: Landlock is what is left.
    // The program lies in the project, so that it is seen there even if it was built below /tmp.
    let program = home.project().join("lathe");
    std::fs::copy(home.command([] as [&str; 0]).get_program(), &program).unwrap();
    let mut command = home.command(["sandbox", "run", "--"]);
    command.arg(program).args(["sandbox", "status", "--json"]);
    let output = command.output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert!(
        found["tier"] == "landlock" && found["active"] == false,
        "{output:#?}"
    );
}

/// A TLS server on this machine that answers every request with its `Authorization` header, and prints it.
const SECURE_SERVER: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = self.headers.get("Authorization", "nothing").encode()
        print("got", said.decode(), flush=True)
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print("port", server.server_address[1], flush=True)
server.serve_forever()
"#;

/// A running TLS server. Ends with the test.
struct SecureServer {
    running: lathe_testkit::Running,
    port: u16,
}

impl SecureServer {
    fn start(home: &TestHome) -> Self {
        let data = lathe_testkit::workspace_root().join("crates/model/tests/data");
        let mut command = std::process::Command::new("/usr/bin/python3");
        home.dress(&mut command);
        command
            .args(["-c", SECURE_SERVER])
            .arg(data.join("server.pem"))
            .arg(data.join("server.key"));
        let running = lathe_testkit::Running::start(command);
        running.wait_for_stdout("port ");
        running.wait_for_stdout("\n");
        let said = running.stdout_so_far();
        let port = said.split_whitespace().nth(1).unwrap().parse().unwrap();
        Self { running, port }
    }
}

#[test]
fn a_token_is_used_in_the_sandbox_and_never_seen_there() {
    let token = "ghp_real0123456789abcdef";
    let home = TestHome::new().sandbox_by_default();
    let (named, other) = (SecureServer::start(&home), SecureServer::start(&home));
    let fetch = |port: u16| {
        command(&format!(
            "curl -sS --noproxy '' -H \"Authorization: Bearer $MY_TOKEN\" https://localhost:{port}/"
        ))
    };
    let server = server([
        Reply::tool_use(
            "Bash",
            command("echo \"[$MY_TOKEN]\"; cat ~/.token; env | sort"),
        ),
        Reply::tool_use("Bash", fetch(named.port)),
        Reply::tool_use("Bash", fetch(other.port)),
        Reply::text("done"),
    ]);
    let authority = lathe_testkit::workspace_root().join("crates/model/tests/data/ca.pem");
    let home = home
        .server(&server)
        .variable("LATHE_EXTRA_CA_CERTS", authority.display().to_string())
        .variable("MY_TOKEN", token);
    home.write(home.home().join(".token"), "npm_real0123456789abcdef\n");
    let settings = json!({"sandbox": {
        "network": {"allowedDomains": ["localhost"]},
        "credentials": {
            "env": ["MY_TOKEN"],
            "files": ["~/.token"],
            "hosts": {format!("localhost:{}", named.port): ["MY_TOKEN"]},
        },
    }});
    home.write(home.config().join("settings.json"), settings.to_string());
    let output = home.run(["-p", "go"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let found = results(&server);
    for (text, _) in &found {
        assert!(!text.contains("real0123456789"), "{text}");
    }
    assert!(
        found[0].0.contains("[ghp_") && found[0].0.contains("npm_"),
        "{found:?}"
    );
    // The server got the token, and its answer has the stand-in again.
    named
        .running
        .wait_for_stdout(&format!("got Bearer {token}\n"));
    assert!(
        found[1].0.contains("Bearer ghp_") && !found[1].1,
        "{found:?}"
    );
    // A host that it isn't for gets nothing: the connection isn't looked into, and its authority isn't known inside.
    assert!(found[2].1, "{found:?}");
    assert!(!other.running.stdout_so_far().contains("got"), "{found:?}");
    server.finish();
}

#[test]
fn file_tools_are_held_by_the_same_lists() {
    let server = server([
        Reply::tool_use("Read", json!({"file_path": "~/private/file"})),
        Reply::tool_use("Write", json!({"file_path": "closed/file", "content": "x"})),
        Reply::tool_use("Write", json!({"file_path": "~/open/file", "content": "x"})),
        Reply::tool_use(
            "Grep",
            json!({"pattern": "PRIVATE", "path": ".", "output_mode": "content"}),
        ),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server).sandbox_by_default();
    for name in ["private/file", "open/other"] {
        home.write(home.home().join(name), "PRIVATE\n");
    }
    home.write("closed/other", "x");
    home.write("hidden/file", "PRIVATE\n");
    let settings = json!({"sandbox": {"filesystem": {
        "allowWrite": ["~/open"], "denyWrite": ["closed"], "denyRead": ["~/private", "hidden"]}}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let arguments = [
        "-p",
        "go",
        "--permission-mode",
        "acceptEdits",
        "--allowedTools",
        "Read,Edit",
    ];
    assert_eq!(home.run(arguments, "").code(), Some(0));
    let found = results(&server);
    assert!(
        found[0].1 && found[0].0.contains("sandbox.filesystem.denyRead"),
        "{found:?}"
    );
    assert!(
        found[1].1 && found[1].0.contains("sandbox.filesystem.denyWrite"),
        "{found:?}"
    );
    assert!(!home.project().join("closed/file").exists());
    assert!(
        !found[2].1 && home.home().join("open/file").exists(),
        "{found:?}"
    );
    assert!(!found[3].0.contains("PRIVATE\\n"), "{found:?}");
    server.finish();
}

/// Writes to the project and next to it.
fn traces(name: &str) -> String {
    format!(
        "touch {name}-inside; touch ~/{name}-outside; test -z \"$MY_API_KEY\" && touch {name}-no-key"
    )
}

#[test]
fn servers_and_hooks_run_in_the_sandbox_where_they_are_to() {
    let server = server([
        Reply::tool_use("Write", json!({"file_path": "x.tst", "content": "x\n"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server)
        .sandbox_by_default()
        .variable("MY_API_KEY", "k1");
    let shell = |name: &str| json!({"command": "/bin/sh", "args": ["-c", traces(name)]});
    let with = |mut value: Value, key: &str, more: Value| {
        value[key] = more;
        value
    };
    let hook = |name: &str| json!([{"hooks": [{"type": "command", "command": traces(name)}]}]);
    let settings = json!({
        "sandbox": {"hooks": true},
        "hooks": {"UserPromptSubmit": hook("hook")},
        "lspServers": {"test": with(shell("lsp"), "extensionToLanguage", json!({".tst": "test"}))},
        "lspDiagnostics": {"waitSeconds": 1},
    });
    home.write(home.config().join("settings.json"), settings.to_string());
    let servers = json!({"mcpServers": {
        "kept": with(shell("kept"), "sandbox", json!(true)),
        "free": shell("free"),
    }});
    home.write(home.root().join("mcp.json"), servers.to_string());
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let config = home.root().join("mcp.json").display().to_string();
    let arguments = [
        "-p",
        "go",
        "--mcp-config",
        &config,
        "--permission-mode",
        "acceptEdits",
    ];
    let output = home.run(arguments, "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    for name in ["hook", "lsp", "kept", "free"] {
        let inside = home.project().join(format!("{name}-inside"));
        assert!(inside.exists(), "{name}: {output:#?}");
        let outside = home.home().join(format!("{name}-outside"));
        assert_eq!(outside.exists(), name == "free", "{name}: {output:#?}");
        let no_key = home.project().join(format!("{name}-no-key"));
        assert_eq!(no_key.exists(), name != "free", "{name}: {output:#?}");
    }
    let left: Vec<_> = std::fs::read_dir(home.config().join("sandbox"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
    server.finish();
}

#[test]
fn an_ordinary_failure_is_not_reported_as_a_violation() {
    let (_home, results) = run(
        &json!({"enabled": true}),
        &[],
        &[
            command("cat nothing-here"),
            command("exit 3"),
            command("ls /nothing-there; false"),
        ],
    );
    for (text, failed) in results {
        assert!(failed && !text.contains("sandbox"), "{text}");
    }
}

#[test]
fn folders_of_settings_open_and_close_the_sandbox() {
    let (home, results) = run(
        &json!({"enabled": true, "filesystem": {"allowWrite": ["~/open"], "denyWrite": ["closed"], "denyRead": ["~/private"]}}),
        &[],
        &[
            command("mkdir -p closed; mkdir -p ~/open 2>/dev/null; echo x > file"),
            command("cat ~/private"),
            command("echo x > ~/open/x"),
        ],
    );
    assert!(!results[0].1, "{results:?}");
    assert!(results[1].1, "{results:?}");
    drop(home);
    let server = server([
        Reply::tool_use("Bash", command("echo x > ~/open/x && cat ~/open/x")),
        Reply::tool_use("Bash", command("cat ~/private")),
        Reply::tool_use("Bash", command("echo x > closed/x")),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server).sandbox_by_default();
    home.write(home.home().join("private"), "PRIVATE");
    home.write("closed/file", "x");
    std::fs::create_dir_all(home.home().join("open")).unwrap();
    let settings = json!({"sandbox": {"enabled": true, "filesystem": {
        "allowWrite": ["~/open"], "denyWrite": ["closed"], "denyRead": ["~/private"]}}});
    home.write(home.config().join("settings.json"), settings.to_string());
    assert_eq!(home.run(["-p", "go"], "").code(), Some(0));
    let found = self::results(&server);
    assert!(!found[0].1, "{found:?}");
    assert!(found[1].1 && !found[1].0.contains("PRIVATE\""), "{found:?}");
    assert!(found[1].0.contains("reading"), "{found:?}");
    assert!(
        found[2].1 && found[2].0.contains("closed is protected"),
        "{found:?}"
    );
    server.finish();
}

#[test]
fn secrets_of_the_environment_stay_outside() {
    let server = server([
        Reply::tool_use(
            "Bash",
            command("echo \"[$MY_API_KEY][$INTERNAL_NAME][$PLAIN]\""),
        ),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server)
        .sandbox_by_default()
        .variable("MY_API_KEY", "k1")
        .variable("INTERNAL_NAME", "k2")
        .variable("PLAIN", "seen");
    let settings = json!({"sandbox": {"enabled": true, "scrubEnvironment": ["INTERNAL_*"]}});
    home.write(home.config().join("settings.json"), settings.to_string());
    assert_eq!(home.run(["-p", "go"], "").code(), Some(0));
    assert!(
        results(&server)[0].0.contains("[][][seen]"),
        "{:?}",
        results(&server)
    );
    server.finish();
}

#[test]
fn commands_that_settings_exclude_run_outside_and_are_asked_about() {
    let (home, results) = run(
        &json!({"enabled": true, "excludedCommands": ["touch"]}),
        &["--allowedTools", "Bash(touch:*)"],
        &[
            command("touch ~/outside"),
            command("touch ~/second; cp file ~/third"),
        ],
    );
    assert!(!results[0].1, "{results:?}");
    assert!(home.home().join("outside").exists());
    // One part of it is not excluded, so none is.
    assert!(
        results[1].1 && !home.home().join("second").exists(),
        "{results:?}"
    );
}

#[test]
fn without_auto_allow_a_sandboxed_command_is_asked_about() {
    let (home, results) = run(
        &json!({"enabled": true, "autoAllowBashIfSandboxed": false}),
        &[],
        &[command("cp file copy")],
    );
    assert!(
        results[0].1 && !home.project().join("copy").exists(),
        "{results:?}"
    );
}

#[test]
fn a_command_leaves_the_sandbox_only_by_a_persons_word() {
    let leaves = json!({"command": "cp file ~/outside", "dangerouslyDisableSandbox": true});
    // Nobody is there to say yes.
    let (home, results) = run(
        &json!({"enabled": true}),
        &[],
        std::slice::from_ref(&leaves),
    );
    assert!(
        results[0].1 && !home.home().join("outside").exists(),
        "{results:?}"
    );
    // Settings keep it in, whatever it asks for.
    let (home, results) = run(
        &json!({"enabled": true, "allowUnsandboxedCommands": false}),
        &[],
        std::slice::from_ref(&leaves),
    );
    assert!(
        results[0].1 && results[0].0.contains("which refused"),
        "{results:?}"
    );
    assert!(!home.home().join("outside").exists());
    // The user says yes.
    let server = server([Reply::tool_use("Bash", leaves), Reply::text("done")]);
    let home = TestHome::with_server(&server).sandbox_by_default();
    home.write("file", "one\n");
    home.write(
        home.config().join("settings.json"),
        json!({"sandbox": {"enabled": true}}).to_string(),
    );
    let mut session = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    session.prompt("go");
    let question = session.wait_for(|frame| frame["request"]["subtype"] == "can_use_tool");
    assert!(
        question["request"]["decision_reason"]
            .as_str()
            .unwrap()
            .contains("outside the sandbox"),
        "{question}"
    );
    allow(&mut session, &question);
    session.wait_for_result();
    assert!(home.home().join("outside").exists());
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

#[test]
fn a_command_that_the_sandbox_stopped_runs_outside_if_a_person_says_so() {
    let server = server([
        Reply::tool_use("Bash", command("cp file ~/outside")),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server).sandbox_by_default();
    home.write("file", "one\n");
    home.write(
        home.config().join("settings.json"),
        json!({"sandbox": {"enabled": true}}).to_string(),
    );
    let mut session = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    session.prompt("go");
    let question = session.wait_for(|frame| frame["request"]["subtype"] == "can_use_tool");
    let reason = question["request"]["decision_reason"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        reason.contains("the sandbox refused to write to") && reason.contains("/outside"),
        "{question}"
    );
    assert!(!home.home().join("outside").exists());
    allow(&mut session, &question);
    session.wait_for_result();
    assert!(home.home().join("outside").exists());
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}

#[test]
fn violations_that_settings_ignore_are_not_reported() {
    let (home, results) = run(
        &json!({"enabled": true, "ignoreViolations": {"cp": ["*"]}}),
        &[],
        &[command("cp file ~/outside")],
    );
    assert!(
        results[0].1 && !results[0].0.contains("which refused"),
        "{results:?}"
    );
    assert!(!home.home().join("outside").exists());
}

#[test]
fn a_background_command_is_in_the_sandbox_too() {
    let (home, results) = run(
        &json!({"enabled": true}),
        &[],
        &[
            json!({"command": "echo made > made; cp file ~/outside; sleep 100", "run_in_background": true}),
            command("until test -e made; do :; done"),
        ],
    );
    assert!(!results[1].1, "{results:?}");
    assert!(home.project().join("made").exists() && !home.home().join("outside").exists());
}

#[test]
fn the_command_line_switches_the_sandbox_off() {
    let (home, results) = run(
        &json!({"enabled": true}),
        &["--no-sandbox", "--allowedTools", "Bash(cp:*)"],
        &[command("cp file ~/outside")],
    );
    assert!(
        !results[0].1 && home.home().join("outside").exists(),
        "{results:?}"
    );
}

#[test]
fn the_sandbox_is_reported() {
    let server = server([Reply::text("yes"), Reply::text("yes")]);
    let home = TestHome::with_server(&server).sandbox_by_default();
    let status = home.run(["sandbox", "status", "--json"], "");
    let found: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_ne!(found["tier"], "none", "{found}");
    assert_eq!(found["active"], true, "{found}");
    let settings = json!({"sandbox": {"enabled": true, "failIfUnavailable": true}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    session.prompt("hi");
    let init = session.wait_for(|frame| frame["subtype"] == "init");
    assert_eq!(init["sandbox"], found["tier"]);
    session.wait_for_result();
    session.prompt("/sandbox off");
    assert!(
        session.wait_for_result()["result"]
            .as_str()
            .unwrap()
            .contains("The sandbox is off")
    );
    session.prompt("/sandbox on");
    assert!(
        session.wait_for_result()["result"]
            .as_str()
            .unwrap()
            .contains("The sandbox is on")
    );
    assert_eq!(session.close().code(), Some(0));
    let doctor = home.run(["doctor"], "");
    assert!(
        doctor.stdout.contains("commands run in the sandbox"),
        "{doctor:#?}"
    );
    let output = home.run(["-p", "hi"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    server.finish();
}

#[test]
fn hosts_are_asked_about_and_remembered() {
    // A server on this machine: private addresses need a rule that names them, so no question helps there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answering = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 1024];
        let count = stream.read(&mut buffer).unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            .unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    });
    let fetch = |host: &str| {
        format!(
            "/usr/bin/python3 -c \"import http.client as h; c = h.HTTPConnection('127.0.0.1', 3128); c.request('GET', 'http://{host}/x'); r = c.getresponse(); print(r.read()); exit(r.status != 200)\""
        )
    };
    let server = server([
        Reply::tool_use("Bash", command(&fetch(&format!("127.0.0.1:{port}")))),
        Reply::tool_use("Bash", command(&fetch("unknown.example"))),
        Reply::tool_use("Bash", command(&fetch("denied.example"))),
        Reply::tool_use("Bash", command(&fetch("169.254.169.254"))),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server).sandbox_by_default();
    let settings = json!({"sandbox": {"enabled": true, "network": {
        "allowedDomains": [format!("127.0.0.1:{port}")], "deniedDomains": ["denied.example"]}}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut session = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    session.prompt("go");
    let question = session.wait_for(|frame| frame["request"]["subtype"] == "can_use_tool");
    assert!(
        question["request"]["decision_reason"]
            .as_str()
            .unwrap()
            .contains("connects to unknown.example"),
        "{question}"
    );
    session.send(&json!({"type": "control_response", "response": {"subtype": "success",
        "request_id": question["request_id"], "response": {"behavior": "deny", "message": "not that one"}}}));
    // A failed command asks whether it may run outside: no.
    for _ in 0..3 {
        let question = session.wait_for(|frame| frame["request"]["subtype"] == "can_use_tool");
        session.send(&json!({"type": "control_response", "response": {"subtype": "success",
            "request_id": question["request_id"], "response": {"behavior": "deny", "message": ""}}}));
    }
    session.wait_for_result();
    assert_eq!(session.close().code(), Some(0));
    let found = results(&server);
    assert!(found[0].0.contains("hello") && !found[0].1, "{found:?}");
    let seen = answering.join().unwrap();
    assert!(
        seen.starts_with("GET /x HTTP/1.1\r\nHost: 127.0.0.1:"),
        "{seen}"
    );
    assert!(
        found[1].0.contains("doesn't want this call")
            || found[1].0.contains("not that one")
            || found[1].0.contains("unknown.example"),
        "{found:?}"
    );
    let log = std::fs::read_to_string(home.config().join("sandbox.log")).unwrap();
    for (host, outcome) in [
        ("127.0.0.1", "reached"),
        ("unknown.example", "refused"),
        ("denied.example", "refused"),
        ("169.254.169.254", "refused"),
    ] {
        assert!(
            log.lines()
                .any(|line| line.contains(host) && line.contains(outcome)),
            "{host}: {log}"
        );
    }
    let printed = home.run(["sandbox", "log"], "");
    assert!(printed.stdout.contains("denied.example"), "{printed:#?}");
    server.finish();
}

/// A yes for good is saved as a rule in the project's local settings, and answers the question of another agent for the
/// same host.
#[test]
fn a_host_that_is_allowed_for_good_is_allowed_for_every_agent() {
    let fetch = "/usr/bin/python3 -c \"import http.client as h; c = h.HTTPConnection('127.0.0.1', 3128); c.request('GET', 'http://unknown.example/x'); print('status', c.getresponse().status)\"";
    let scenario = lathe_scripted::Scenario::new().responder(move |request| {
        let first = request.messages()[0]["content"].to_string();
        if first.contains("fetch it") && request.messages().len() == 1 {
            return Reply::tool_use("Bash", command(fetch));
        }
        if first.contains("both") && request.messages().len() == 1 {
            let start = Reply::text("I start two.");
            return ["one", "two"].iter().fold(start, |reply, name| {
                reply.with_tool_use(
                    "Agent",
                    json!({"description": name, "prompt": format!("fetch it, {name}"), "run_in_background": false}),
                )
            });
        }
        Reply::text("done")
    });
    let server = BlockingServer::start(scenario).unwrap();
    let home = TestHome::with_server(&server).sandbox_by_default();
    let settings = json!({"sandbox": {"enabled": true}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut session = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    session.prompt("both");
    let is_host = |frame: &Value| {
        frame["request"]["subtype"] == "can_use_tool" && frame["request"]["tool_name"] == "WebFetch"
    };
    let first = session.wait_for(is_host);
    let second = session.wait_for(is_host);
    assert_ne!(
        first["request"]["agent_id"], second["request"]["agent_id"],
        "{first} {second}"
    );
    let suggestions = &first["request"]["permission_suggestions"];
    session.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": first["request_id"],
        "response": {"behavior": "allow", "updatedInput": first["request"]["input"], "updatedPermissions": suggestions}}}));
    let withdrawn = session.wait_for(|frame| frame["type"] == "control_cancel_request");
    assert_eq!(withdrawn["request_id"], second["request_id"]);
    // The name leads nowhere, so both commands end with an error of the proxy: no to running them outside.
    let mut ended = false;
    while !ended {
        let frame = session.wait_for(|frame| {
            frame["type"] == "result" || frame["request"]["subtype"] == "can_use_tool"
        });
        ended = frame["type"] == "result";
        if !ended {
            assert_ne!(frame["request"]["tool_name"], "WebFetch", "{frame}");
            session.send(&json!({"type": "control_response", "response": {"subtype": "success",
                "request_id": frame["request_id"], "response": {"behavior": "deny", "message": ""}}}));
        }
    }
    assert_eq!(session.close().code(), Some(0));
    let saved = home.read(".lathe/settings.local.json");
    assert!(
        saved.contains("WebFetch(domain:unknown.example)"),
        "{saved}"
    );
    server.finish();
}

/// A server for ssh on this machine, with keys of its own.
struct SshServer {
    folder: tempfile::TempDir,
    process: std::process::Child,
    port: u16,
}

impl SshServer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["host", "key"] {
            let made = std::process::Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", name])
                .current_dir(folder.path())
                .status();
            assert!(made.unwrap().success());
        }
        // It wants a folder for the rights that it gives up, where root runs it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n",
            at("host"),
            at("key.pub")
        );
        std::fs::write(folder.path().join("config"), config).unwrap();
        let process = std::process::Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f", &at("config")])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("sshd: {error}; run scripts/setup-tests"));
        let start = std::time::Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                start.elapsed() < lathe_testkit::HANG_LIMIT,
                "sshd never listened"
            );
            std::thread::yield_now();
        }
        Self {
            folder,
            process,
            port,
        }
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn git_over_ssh_goes_through_the_proxy() {
    let ssh = SshServer::start();
    let repository = ssh.folder.path().join("repository.git");
    let made = std::process::Command::new("git")
        .args(["init", "-q", "--bare"])
        .arg(&repository)
        .status();
    assert!(made.unwrap().success());
    let user = std::process::Command::new("id")
        .arg("-un")
        .output()
        .unwrap();
    let user = String::from_utf8(user.stdout).unwrap();
    let push = |port: u16| {
        format!(
            "export GIT_SSH_COMMAND=\"$GIT_SSH_COMMAND -i key -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null\"; \
             git push -q ssh://{}@127.0.0.1:{port}{} HEAD:refs/heads/pushed",
            user.trim(),
            repository.display()
        )
    };
    let server = server([
        Reply::tool_use("Bash", command(&push(ssh.port))),
        Reply::tool_use("Bash", command(&push(9))),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server).sandbox_by_default();
    home.write("file", "one\n");
    home.git_init();
    let key = std::fs::read(ssh.folder.path().join("key")).unwrap();
    std::fs::write(home.project().join("key"), key).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(home.project().join("key"), private).unwrap();
    let settings = json!({"sandbox": {"enabled": true, "network": {"allowedDomains": [format!("127.0.0.1:{}", ssh.port)]}}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let output = home.run(["-p", "go"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    let found = results(&server);
    assert!(!found[0].1, "{found:?}");
    assert!(found[1].1, "{found:?}");
    let pushed = std::process::Command::new("git")
        .args(["rev-parse", "-q", "--verify", "refs/heads/pushed"])
        .current_dir(&repository)
        .status();
    assert!(pushed.unwrap().success(), "{found:?}");
    server.finish();
}

#[test]
fn a_command_is_run_and_explained_on_the_command_line() {
    let home = TestHome::new().sandbox_by_default();
    home.write("file", "one\n");
    let output = home.run(
        [
            "sandbox",
            "run",
            "--",
            "sh",
            "-c",
            "cat file; echo x > ~/outside; exit 7",
        ],
        "",
    );
    assert_eq!(output.code(), Some(7), "{output:#?}");
    assert!(
        output.stdout.contains("one") && output.stderr.contains("Read-only file system"),
        "{output:#?}"
    );
    home.write(
        "policy.json",
        json!({"filesystem": {"allowWrite": ["~"]}}).to_string(),
    );
    let output = home.run(
        [
            "sandbox",
            "run",
            "--policy",
            "policy.json",
            "--",
            "sh",
            "-c",
            "echo x > ~/outside",
        ],
        "",
    );
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert!(home.home().join("outside").exists());
    home.write("policy.json", json!({"what": 1}).to_string());
    assert_eq!(
        home.run(
            ["sandbox", "run", "--policy", "policy.json", "--", "true"],
            ""
        )
        .code(),
        Some(2)
    );
    home.write(
        home.config().join("settings.json"),
        json!({"sandbox": {"enabled": false}}).to_string(),
    );
    let output = home.run(["sandbox", "explain", "npm install"], "");
    assert!(output.stdout.contains("the sandbox is off"), "{output:#?}");
    let settings = json!({
        "sandbox": {"excludedCommands": ["docker"]},
        "permissions": {"deny": ["Bash(touch denied)"]},
    });
    home.write(home.config().join("settings.json"), settings.to_string());
    for (command, words) in [
        ("npm install", "runs in the sandbox, without confirmation"),
        ("docker ps", "outside the sandbox"),
        // A safety check comes before the sandbox.
        ("rm -rf /etc", "runs in the sandbox, after it is permitted"),
        ("touch denied", "it doesn't run"),
    ] {
        let output = home.run(["sandbox", "explain", command], "");
        assert!(output.stdout.contains(words), "{output:#?}");
    }
}
