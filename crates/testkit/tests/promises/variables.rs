//! Environment variables and settings that no other test shows.

use super::{chatty, heard, hook, run_in, run_with};
use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome, server, workspace_root};
use serde_json::{Value, json};

/// The output of a shell command that the model runs.
fn shell(variables: &[(&str, &str)], command: &str) -> String {
    let replies = vec![
        Reply::tool_use("Bash", json!({"command": command})),
        Reply::text("done"),
    ];
    run_with(variables, &json!({}), replies, &["--allowedTools", "Bash"]).last_result()
}

#[test]
fn commands_know_who_runs_them() {
    let said = shell(
        &[],
        "echo \"$LATHE/$CLAUDECODE/${LATHE_COMMAND_ID:+marked}\"",
    );
    assert_eq!(said.trim(), "1/1/marked");
}

#[test]
fn a_key_of_a_helper_is_used_as_long_as_the_environment_says() {
    let runs = |variables: &[(&str, &str)]| {
        let home = TestHome::new();
        let helper = "echo x >> \"$HOME/asked\"; echo sk-of-the-helper";
        let settings = json!({"apiKeyHelper": helper}).to_string();
        let server = server([
            Reply::tool_use("Bash", json!({"command": "true"})),
            Reply::text("done"),
        ]);
        let mut home = home
            .variable("ANTHROPIC_BASE_URL", server.base_url())
            .variable("ANTHROPIC_API_KEY", "");
        for (name, value) in variables {
            home = home.variable(*name, *value);
        }
        let output = home.run(["-p", "go", "--settings", &settings], "");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        assert_eq!(server.message_requests()[1].key(), Some("sk-of-the-helper"));
        let asked = std::fs::read_to_string(home.home().join("asked")).unwrap();
        asked.lines().count()
    };
    assert_eq!(runs(&[]), 1);
    assert_eq!(runs(&[("CLAUDE_CODE_API_KEY_HELPER_TTL_MS", "0")]), 2);
}

#[test]
fn a_task_list_is_shared_by_its_name() {
    let home = TestHome::new()
        .variable("LATHE_ENABLE_TASKS", "1")
        .variable("LATHE_TASK_LIST_ID", "chores");
    let task = json!({"subject": "Sweep the tower", "description": "all of it"});
    let first = vec![Reply::tool_use("TaskCreate", task), Reply::text("done")];
    let run = run_in(home, first, &["--allowedTools", "TaskCreate"]);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    let second = || vec![Reply::tool_use("TaskList", json!({})), Reply::text("done")];
    let run = run_in(run.home, second(), &[]);
    assert!(
        run.last_result().contains("Sweep the tower"),
        "{}",
        run.last_result()
    );
    let other = run.home.variable("LATHE_TASK_LIST_ID", "other");
    let run = run_in(other, second(), &[]);
    assert!(!run.last_result().contains("Sweep the tower"));
}

#[test]
fn documents_are_kept_current_where_the_environment_says_so() {
    let requests = |value: &str| {
        let home = TestHome::new().variable("LATHE_MAGIC_DOCS", value);
        home.write("guide.md", "# MAGIC DOC: the guide\n\nOld words.\n");
        let replies = vec![
            Reply::tool_use("Read", json!({"file_path": "guide.md"})),
            Reply::tool_use("Write", json!({"file_path": "new.txt", "content": "x"})),
            Reply::text("read"),
            Reply::text("nothing to change").optional(),
        ];
        let flags = ["--permission-mode", "acceptEdits"];
        run_in(home, replies, &flags).requests.len()
    };
    assert_eq!(requests("0"), 3);
    assert_eq!(requests("1"), 4);
}

#[test]
fn a_plugins_server_has_a_folder_for_its_data() {
    let home = TestHome::new();
    let command = "printf '%s %s' \"$CLAUDE_PLUGIN_DATA\" \"$LATHE_PLUGIN_DATA\" > \"$OUT\"";
    let manifest = json!({"name": "clockwork", "version": "1.0.0", "mcpServers": {"tower": {
        "command": "sh", "args": ["-c", command], "env": {"OUT": home.project().join("out")}}}});
    home.write("clockwork/.claude-plugin/plugin.json", manifest.to_string());
    let run = run_in(
        home,
        vec![Reply::text("fine")],
        &["--plugin-dir", "clockwork"],
    );
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    let said = run.home.read("out");
    let (one, other) = said.split_once(' ').unwrap();
    assert_eq!(one, other);
    assert!(
        one.starts_with(run.home.config().to_str().unwrap()),
        "{said}"
    );
}

/// An MCP server that never answers a call.
const SLOW: &str = "import sys, json
for line in sys.stdin:
    request = json.loads(line)
    answers = {
        'initialize': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},
                       'serverInfo': {'name': 'slow', 'version': '1'}},
        'tools/list': {'tools': [{'name': 'wait', 'inputSchema': {'type': 'object'}}]},
    }
    if request.get('method') in answers:
        answer = {'jsonrpc': '2.0', 'id': request['id'], 'result': answers[request['method']]}
        print(json.dumps(answer), flush=True)
";

#[test]
fn a_servers_tool_has_the_time_that_the_environment_gives() {
    let home = TestHome::new().variable("MCP_TOOL_TIMEOUT", "300");
    home.write("slow.py", SLOW);
    let servers = json!({"mcpServers": {"slow": {"command": "python3", "args": ["slow.py"]}}});
    let servers = servers.to_string();
    let replies = vec![
        Reply::tool_use("mcp__slow__wait", json!({})),
        Reply::text("done"),
    ];
    let flags = [
        "--mcp-config",
        &servers,
        "--allowedTools",
        "mcp__slow__wait",
    ];
    let run = run_in(home, replies, &flags);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    assert!(run.last_result().contains("0.3 s"), "{}", run.last_result());
}

#[test]
fn servers_are_allowed_and_denied_by_their_address() {
    let names = |settings: Value| {
        let servers = json!({"mcpServers": {
            "near": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
            "far": {"type": "http", "url": "http://localhost:9/mcp"}}});
        let servers = servers.to_string();
        let flags = [
            "--mcp-config",
            &servers,
            "--output-format",
            "stream-json",
            "--verbose",
        ];
        let run = run_with(&[], &settings, vec![Reply::text("fine")], &flags);
        let frames = run.output.frames();
        let init = frames
            .iter()
            .find(|frame| frame["subtype"] == "init")
            .unwrap();
        let servers = init["mcp_servers"].as_array().unwrap().clone();
        let tried = servers.iter().filter(|server| {
            let status = server["status"].as_str().unwrap_or_default();
            !matches!(status, "disabled" | "blocked")
        });
        let names = tried.map(|server| server["name"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    assert_eq!(names(json!({})), ["far", "near"]);
    let near = json!([{"serverUrl": "http://127.0.0.1:*"}]);
    assert_eq!(names(json!({"deniedMcpServers": near})), ["far"]);
    assert_eq!(names(json!({"allowedMcpServers": near})), ["near"]);
}

#[test]
fn requests_go_through_the_proxy_of_the_environment() {
    let model = chatty();
    let asked = |variables: &[(&str, &str)]| {
        let before = model.message_requests().len();
        let mut home = TestHome::new()
            .variable("ANTHROPIC_API_KEY", "sk-x")
            .variable("LATHE_MAX_RETRIES", "0");
        for (name, value) in variables {
            home = home.variable(*name, *value);
        }
        let _ = home.run(["-p", "go"], "");
        model.message_requests().len() - before
    };
    let (url, dead) = (model.base_url(), "http://127.0.0.1:9");
    let elsewhere = ("ANTHROPIC_BASE_URL", "http://model.invalid");
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        assert_eq!(asked(&[elsewhere, (name, &url)]), 1, "{name}");
        assert_eq!(
            asked(&[("ANTHROPIC_BASE_URL", &url), (name, dead)]),
            0,
            "{name}"
        );
    }
    let here = ("ANTHROPIC_BASE_URL", url.as_str());
    for name in ["no_proxy", "NO_PROXY"] {
        let direct = [here, ("http_proxy", dead), (name, "127.0.0.1")];
        assert_eq!(asked(&direct), 1, "{name}");
    }
    assert_eq!(asked(&[elsewhere]), 0);
}

#[test]
fn a_full_conversation_is_compacted_unless_settings_say_otherwise() {
    let summaries = |settings: Value| {
        let scenario = Scenario::new().responder(|request| {
            let tools = request.body["tools"].as_array();
            if request.last_user_text().contains("summar") || tools.is_none_or(Vec::is_empty) {
                Reply::text("<summary>what was said</summary>")
            } else {
                Reply::text("fine").usage("input_tokens", 29_000)
            }
        });
        let server = BlockingServer::start(scenario).unwrap();
        let home = TestHome::with_server(&server).variable("LATHE_MAX_CONTEXT_TOKENS", "30000");
        let settings = settings.to_string();
        let mut session = StreamJson::start(&home, ["--settings", &settings]);
        for _ in 0..2 {
            session.prompt("hi");
            session.wait_for_result();
        }
        let output = session.close();
        output.stdout.contains("compact_boundary")
    };
    assert!(summaries(json!({})));
    assert!(!summaries(json!({"autoCompact": false})));
    assert!(!summaries(json!({"autoCompactEnabled": false})));
}

#[test]
fn files_can_be_brought_back_unless_settings_say_otherwise() {
    let rewound = |settings: Value| {
        let write = json!({"file_path": "a.txt", "content": "new"});
        let server = server([Reply::tool_use("Write", write), Reply::text("done")]);
        let home = TestHome::with_server(&server)
            .variable("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "1");
        let settings = settings.to_string();
        let flags = [
            "--settings",
            &settings,
            "--permission-mode",
            "acceptEdits",
            "--replay-user-messages",
        ];
        let mut session = StreamJson::start(&home, flags);
        session.prompt("write");
        let prompt = session.wait_for(|frame| frame["type"] == "user");
        session.wait_for_result();
        let asked = json!({"subtype": "rewind_files", "user_message_id": prompt["uuid"]});
        session.control(&asked);
        let _ = session.close();
        !home.project().join("a.txt").exists()
    };
    assert!(rewound(json!({})));
    assert!(!rewound(json!({"fileCheckpointingEnabled": false})));
}

#[test]
fn problems_that_language_servers_find_are_told_unless_settings_say_otherwise() {
    let told = |enabled: bool| {
        let script = workspace_root().join("crates/lsp/tests/fixtures/server.py");
        let words = json!({"command": "python3", "args": [script, "normal"], "transport": "stdio",
            "extensionToLanguage": {".words": "words"}});
        let settings = json!({"lspServers": {"words": words},
            "lspDiagnostics": {"enabled": enabled, "waitSeconds": 120}});
        let replies = vec![
            Reply::tool_use("Write", json!({"file_path": "a.words", "content": "BAD\n"})),
            Reply::text("done"),
        ];
        let flags = ["--permission-mode", "acceptEdits"];
        let run = run_with(&[], &settings, replies, &flags);
        run.requests[1]
            .body
            .to_string()
            .contains("BAD is not a word")
    };
    assert!(told(true));
    assert!(!told(false));
}

#[test]
fn hosts_hear_nothing_of_the_progress_of_agents_where_the_environment_says_so() {
    let asked = |variables: &[(&str, &str)]| {
        let order = json!({"description": "wait", "prompt": "WAIT-A-WHILE",
            "subagent_type": "general-purpose", "run_in_background": false});
        let scenario = Scenario::new().responder(move |request| {
            let first = request.messages()[0].to_string();
            let results = request.last_results().len();
            if first.contains("WAIT-A-WHILE") && results == 0 && !request.tool_names().is_empty() {
                Reply::tool_use(
                    "Bash",
                    json!({"command": "while [ ! -e go ]; do sleep 0.02; done"}),
                )
            } else if request.tool_names().contains(&"Agent") && results == 0 {
                Reply::tool_use("Agent", order.clone())
            } else {
                Reply::text("fine")
            }
        });
        let server = BlockingServer::start(scenario).unwrap();
        let mut home = TestHome::with_server(&server).variable("LATHE_AGENT_PROGRESS_MS", "20");
        for (name, value) in variables {
            home = home.variable(*name, *value);
        }
        let mut session = StreamJson::start(&home, ["--allowedTools", "Bash,Agent"]);
        session.control(&json!({"subtype": "initialize", "agentProgressSummaries": true}));
        session.prompt("go");
        if variables.is_empty() {
            session.wait_for(|frame| frame["summary"].is_string());
        } else {
            // The agent is at work by then; what would be told is told every 20 ms.
            session.wait_for(|frame| frame["subtype"] == "task_started");
        }
        home.write("go", "");
        session.wait_for_result();
        let output = session.close();
        output
            .frames()
            .iter()
            .any(|frame| frame["subtype"] == "task_progress" && frame["summary"].is_string())
    };
    assert!(asked(&[]));
    let off = ("CLAUDE_CODE_DISABLE_AGENT_PROGRESS_SUMMARIES", "1");
    assert!(!asked(&[off]));
}

#[test]
fn imports_from_outside_the_project_are_read_once_they_are_approved() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("shared.md");
    std::fs::write(&file, "Words from elsewhere.").unwrap();
    let server = chatty();
    let home = TestHome::with_server(&server);
    home.write("AGENTS.md", format!("@{}\n", file.display()));
    let told = |home: &TestHome| {
        let before = server.message_requests().len();
        let output = home.run(["-p", "go"], "");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        let request = server.message_requests()[before].clone();
        request.body.to_string().contains("Words from elsewhere.")
    };
    assert!(!told(&home));
    let approved = home.run(["trust", "add", "--imports"], "");
    assert_eq!(approved.code(), Some(0), "{}", approved.stderr);
    assert!(told(&home));
}

/// A server with one tool, which writes the arguments of its calls to `log`.
const NOTES: &str = "import sys, json
for line in sys.stdin:
    request = json.loads(line)
    if 'id' not in request:
        continue
    result = {
        'initialize': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},
                       'serverInfo': {'name': 'notes', 'version': '1'}},
        'tools/list': {'tools': [{'name': 'note', 'inputSchema': {'type': 'object'}}]},
    }.get(request['method'], {})
    if request['method'] == 'tools/call':
        open('log', 'a').write(json.dumps(request['params']['arguments']) + '\\n')
        result = {'content': [{'type': 'text', 'text': 'noted'}]}
    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)
";

#[test]
fn a_hook_hears_which_server_the_tool_of_a_call_belongs_to() {
    let home = TestHome::new();
    home.write("notes.py", NOTES.replace("'log'", "'calls'"));
    let hook = json!([{"hooks": [{"type": "command", "command": "cat >> log; echo >> log"}]}]);
    let settings = json!({"hooks": {"PreToolUse": hook, "PostToolUse": hook}}).to_string();
    let servers = json!({"mcpServers": {"my notes": {"command": "python3", "args": ["notes.py"]}}});
    let servers = servers.to_string();
    let flags = [
        "--settings",
        &settings,
        "--mcp-config",
        &servers,
        "--allowedTools",
        "mcp__my_notes__note,Bash(true)",
    ];
    let replies = vec![
        Reply::tool_use("mcp__my_notes__note", json!({"words": "x"})),
        Reply::tool_use("Bash", json!({"command": "true"})),
        Reply::text("fine"),
    ];
    let run = run_in(home, replies, &flags);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    let heard = heard(&run.home);
    let servers: Vec<&Value> = heard.iter().map(|input| &input["mcp_server"]).collect();
    let ours = json!({"name": "my notes", "source": "dynamic"});
    assert_eq!(servers, [&ours, &ours, &Value::Null, &Value::Null]);
}

#[test]
fn a_hook_that_calls_a_servers_tool_passes_its_own_input() {
    let home = TestHome::new();
    home.write("notes.py", NOTES);
    let definition = json!({"type": "mcp_tool", "server": "notes", "tool": "note",
        "input": {"words": "a prompt came"}});
    let settings = json!({"hooks": {"UserPromptSubmit": [{"hooks": [definition]}]}});
    let settings = settings.to_string();
    let servers = json!({"mcpServers": {"notes": {"command": "python3", "args": ["notes.py"]}}});
    let servers = servers.to_string();
    let flags = ["--settings", &settings, "--mcp-config", &servers];
    let run = run_in(home, vec![Reply::text("fine")], &flags);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    assert_eq!(heard(&run.home)[0]["words"], "a prompt came");
}

#[test]
fn hooks_know_the_project_the_event_and_who_started_lathe() {
    let command = "echo \"$LATHE_PROJECT_DIR|$CLAUDE_PROJECT_DIR|$LATHE_HOOK_EVENT|$CLAUDE_CODE_ENTRYPOINT\" > said";
    let run = run_with(
        &[("CLAUDE_CODE_ENTRYPOINT", "sdk-py")],
        &hook("SessionStart", command),
        vec![Reply::text("fine")],
        &[],
    );
    let project = run.home.project().display().to_string();
    let said = run.home.read("said");
    assert_eq!(
        said.trim(),
        format!("{project}|{project}|SessionStart|sdk-py")
    );
}

#[test]
fn clients_of_our_own_server_send_the_token_of_the_environment() {
    use std::io::{Read as _, Write as _};
    let home = TestHome::new().variable("LATHE_MCP_SERVE_TOKEN", "open-sesame");
    let server = home.spawn(["mcp", "serve", "--http", "127.0.0.1:0"]);
    let address = loop {
        let said = server.stderr_so_far();
        if let Some((_, rest)) = said.split_once("serving MCP at http://")
            && let Some((url, _)) = rest.split_once('\n')
        {
            break url.to_owned();
        }
        std::thread::yield_now();
    };
    let (host, path) = address.split_once('/').unwrap();
    let status = |token: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}})
        .to_string();
        let mut stream = std::net::TcpStream::connect(host).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST /{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        String::from_utf8_lossy(&first[9..]).into_owned()
    };
    assert_eq!(status("open-sesame"), "200");
    assert_eq!(status("something-else"), "401");
    server.kill();
}

#[test]
fn the_secret_of_a_client_comes_from_the_environment() {
    let home = TestHome::new()
        .variable("MCP_CLIENT_SECRET", "hush-hush")
        .variable("LATHE_MCP_CREDENTIALS", "file");
    let added = home.run(
        [
            "mcp",
            "add",
            "--scope",
            "user",
            "--transport",
            "http",
            "clocks",
            "http://127.0.0.1:9/mcp",
            "--client-id",
            "us",
            "--client-secret",
        ],
        "",
    );
    assert_eq!(added.code(), Some(0), "{}", added.stderr);
    let mut found = Vec::new();
    let mut folders = vec![home.config()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read_to_string(&path)
                .unwrap_or_default()
                .contains("hush-hush")
            {
                found.push(path);
            }
        }
    }
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(found.len(), 1, "{found:?}");
    let mode = std::fs::metadata(&found[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "only the person may read it");
}
