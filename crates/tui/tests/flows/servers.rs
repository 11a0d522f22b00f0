use super::Stage;
use lathe_scripted::Reply;
use lathe_testkit::Terminal;
use serde_json::json;

/// A stage with an MCP server of its own, named on the command line.
fn with_server(stage: &Stage, more: &[&str]) -> Terminal {
    let script = stage.home.root().join("server.sh").display().to_string();
    std::fs::write(&script, include_str!("server.sh")).unwrap();
    let config =
        json!({"mcpServers": {"tickets": {"command": "sh", "args": [script]}}}).to_string();
    let mut arguments = vec!["--mcp-config", &config];
    arguments.extend(more);
    let terminal = stage.open_with(&arguments, 100, 40);
    terminal.wait_for("claude");
    terminal
}

/// Waits in the list of servers until the server is connected: it is made anew until then.
fn connected(terminal: &Terminal) {
    terminal.say("/mcp reconnect tickets");
    terminal.wait_for("MCP server tickets: connected · 1 tool");
}

#[test]
fn servers_are_listed_looked_at_and_switched_off() {
    let stage = Stage::replies([]);
    let terminal = with_server(&stage, &[]);
    connected(&terminal);
    terminal.say("/mcp ");
    terminal.wait_for("MCP servers");
    terminal.wait_for("connected · 1 tool");
    terminal.send("\r");
    terminal.wait_for("MCP server tickets");
    terminal.wait_for("file_ticket");
    terminal.wait_for("server.sh");
    terminal.send("2");
    terminal.wait_for("MCP server tickets: disabled");
    // The dialog stays and offers the way back.
    terminal.wait_for("1. Enable");
    terminal.send("1");
    terminal.wait("it to be on again", |screen| {
        screen.matches("MCP server tickets: connected").count() == 2
    });
}

#[test]
fn prompts_and_resources_of_servers_are_completed_and_sent() {
    let stage = Stage::replies([Reply::text("sorted"), Reply::text("read it")]);
    let terminal = with_server(&stage, &[]);
    connected(&terminal);
    terminal.send("/tria");
    terminal.wait_for("/mcp__tickets__triage");
    terminal.wait_for("Sorts tickets");
    terminal.send("\t");
    terminal.wait_for("❯ /mcp__tickets__triage");
    terminal.send("core\r");
    terminal.wait_for("● sorted");
    terminal.wait_gone("esc to interrupt");
    let sent = stage.server.message_requests()[0].to_json().to_string();
    assert!(sent.contains("sort the tickets of the core team"), "{sent}");
    terminal.send("see @ticke");
    terminal.wait_for("Open tickets");
    terminal.send("\t");
    terminal.wait_for("❯ see @tickets:ticket://open");
    terminal.send("\r");
    terminal.wait_for("● read it");
    let sent = stage.server.message_requests()[1].to_json().to_string();
    assert!(sent.contains("one open ticket"), "{sent}");
}

#[test]
fn a_server_asks_the_user_and_gets_the_answer() {
    let stage = Stage::replies([
        Reply::tool_use("mcp__tickets__file_ticket", json!({})),
        Reply::text("it is filed"),
    ]);
    let terminal = with_server(&stage, &["--allowedTools", "mcp__tickets__file_ticket"]);
    connected(&terminal);
    terminal.say("file it");
    terminal.wait_for("The MCP server tickets asks");
    terminal.wait_for("What is it about?");
    // What has to be filled in is missed before anything is sent.
    terminal.send("\r\r");
    terminal.wait_for("this is required");
    terminal.send("a slow start\r");
    terminal.wait("the answer to be sent next", |screen| {
        screen.contains("a slow start") && screen.contains("❯ 1. Send")
    });
    terminal.send("\r");
    terminal.wait_for("● it is filed");
    let told = stage.server.message_requests()[1].last_tool_result();
    assert!(told.contains("filed: a slow start"), "{told}");
}

#[test]
fn trusting_a_folder_covers_the_servers_that_were_shown() {
    let stage = Stage::replies([]);
    let script = stage.home.write("server.sh", include_str!("server.sh"));
    let entry = json!({"mcpServers": {"tickets": {"command": "sh", "args": [script]}}});
    stage.home.write(".mcp.json", entry.to_string());
    let terminal = stage.home.terminal::<&str>([], 100, 40);
    terminal.wait_for("Do you trust this folder?");
    // What would run is shown with its arguments, and the answer is about all of it.
    terminal.wait_for("MCP server tickets: sh ");
    terminal.wait_for("server.sh");
    terminal.send("1");
    terminal.wait_gone("Do you trust");
    terminal.wait_for("claude");
    terminal.say("/mcp tickets");
    terminal.wait_for("connected · 1 tool");
    assert!(!terminal.screen().contains("needs approval"));
}

#[test]
fn a_server_that_came_after_the_folder_was_trusted_needs_approval() {
    let stage = Stage::replies([]);
    let script = stage.home.write("server.sh", include_str!("server.sh"));
    assert_eq!(stage.home.run(["trust", "add"], "").code(), Some(0));
    let entry = json!({"mcpServers": {"tickets": {"command": "sh", "args": [script]}}});
    stage.home.write(".mcp.json", entry.to_string());
    let terminal = stage.open_sized(100, 40);
    terminal.wait_for("claude");
    terminal.say("/mcp tickets");
    terminal.wait_for("Approve");
    terminal.wait_for("needs approval");
    terminal.send("1");
    terminal.wait_for("MCP server tickets: approved");
    // The dialog stays, and shows what came of it.
    terminal.wait_for("Reconnect");
    terminal.wait_for("connected · 1 tool");
}

/// A server that wants to know who is there, run by the tests of the MCP crate too.
struct Remote {
    child: std::process::Child,
    port: u16,
}

impl Remote {
    fn start() -> Self {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../mcp/tests/fixtures/remote.py"
        );
        let mut child = std::process::Command::new("python3")
            .args([script, "0"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let port = line.trim().parse().unwrap();
        let remote = Self { child, port };
        remote.get("/control?auth=1");
        remote
    }

    /// Asks it for a page and waits until it was answered.
    fn get(&self, path: &str) {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_user_signs_in_to_a_server_and_out_again() {
    let remote = Remote::start();
    let mut stage = Stage::replies([]);
    // A browser whose person agrees to everything: it follows the redirects, also the one to us.
    let browser = stage.home.write(
        "browser.py",
        "import sys, urllib.request\nurllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=60).read()\n",
    );
    let path = std::env::var("PATH").unwrap_or_default();
    stage.home = stage
        .home
        .variable("BROWSER", format!("python3 {}", browser.display()))
        .variable("PATH", path);
    let config = json!({"mcpServers": {"far": {"type": "http", "url": format!("http://127.0.0.1:{}/mcp", remote.port)}}}).to_string();
    let terminal = stage.open_with(&["--mcp-config", &config], 120, 40);
    terminal.wait_for("claude");
    terminal.say("/mcp reconnect far");
    terminal.wait_for("MCP server far: ");
    terminal.say("/mcp far");
    terminal.wait_for("needs sign-in");
    terminal.wait_for("❯ 1. Sign in");
    terminal.send("1");
    terminal.wait_for("sign in on this page:");
    terminal.wait_for("MCP server far: signed in and connected");
    terminal.say("/mcp far");
    terminal.wait_for("connected · 1 tool");
    terminal.wait_for("Show tools");
    terminal.send("5");
    terminal.wait_for("Tools of far");
    terminal.wait_for("echo");
    terminal.send("\x1b");
    terminal.wait_for("Sign out");
    terminal.send("4");
    terminal.wait_for("MCP server far: signed out");
    terminal.say("/mcp far");
    terminal.wait_for("needs sign-in");
}
