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
    terminal.wait_for("MCP server tickets: off");
    terminal.say("/mcp enable tickets");
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
fn a_server_asks_the_person_and_gets_the_answer() {
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
    terminal.wait_for("this has to be filled in");
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
fn a_server_that_the_project_brings_waits_for_a_persons_word() {
    let stage = Stage::replies([]);
    let script = stage.home.write("server.sh", include_str!("server.sh"));
    let entry = json!({"mcpServers": {"tickets": {"command": "sh", "args": [script]}}});
    stage.home.write(".mcp.json", entry.to_string());
    let terminal = stage.home.terminal::<&str>([], 100, 40);
    terminal.wait_for("Do you trust this folder?");
    terminal.send("1");
    terminal.wait_gone("Do you trust");
    terminal.wait_for("claude");
    terminal.say("/mcp tickets");
    terminal.wait_for("Use it");
    terminal.wait_for("waits for your word");
    terminal.send("1");
    terminal.wait_for("the MCP server tickets is used");
    terminal.say("/mcp reconnect tickets");
    terminal.wait_for("MCP server tickets: connected · 1 tool");
}
