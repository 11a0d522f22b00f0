//! Servers of every kind through the SDK protocol.

use super::*;
use lathe_testkit::StreamJson;

fn statuses(session: &mut StreamJson) -> Value {
    control(session, &json!({"subtype": "mcp_status"}))["mcpServers"].clone()
}

#[test]
fn a_host_reconnects_switches_and_replaces_servers() {
    let model = model([Reply::text("one"), Reply::text("two"), Reply::text("three")]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[]), "broken": fixture(&["fails"])}));
    let mut session = StreamJson::start(&home, ["--mcp-config", &servers]);
    let all = statuses(&mut session);
    assert_eq!(all[0]["status"], "connected", "{all}");
    assert_eq!(all[0]["config"]["command"], "python3");
    assert!(all[0]["tools"].to_string().contains("echo"));
    assert_eq!(all[1]["status"], "failed");
    assert!(all[1]["error"].is_string());

    session.prompt("a");
    let init = session.wait_for(|frame| frame["subtype"] == "init");
    assert!(
        init["tools"].to_string().contains("mcp__local__echo"),
        "{init}"
    );
    assert!(
        init["slash_commands"]
            .to_string()
            .contains("mcp__local__greet"),
        "{init}"
    );
    assert!(
        init["skills"].to_string().contains("mcp__local__greet"),
        "{init}"
    );
    assert_eq!(
        init["mcp_servers"][0],
        json!({"name": "local", "status": "connected", "source": "dynamic"})
    );
    session.wait_for_result();
    // What the server says about itself reaches the model, without what could steer a terminal.
    let told = sent(&model, 0);
    assert!(
        told.contains("Instructions of the MCP server local"),
        "{told}"
    );
    assert!(!told.contains("\\u001b"), "{told}");

    let call =
        json!({"subtype": "mcp_call", "tool": "mcp__local__echo", "arguments": {"text": "direct"}});
    assert!(control(&mut session, &call).to_string().contains("direct"));
    let read = json!({"subtype": "mcp_read_resource", "serverName": "local", "uri": "note://3"});
    assert!(control(&mut session, &read).to_string().contains("words"));
    let first = control(
        &mut session,
        &json!({"subtype": "mcp_call", "tool": "mcp__local__pid"}),
    );
    control(
        &mut session,
        &json!({"subtype": "mcp_reconnect", "serverName": "local"}),
    );
    let second = control(
        &mut session,
        &json!({"subtype": "mcp_call", "tool": "mcp__local__pid"}),
    );
    assert_ne!(first, second, "a new process answers");

    control(
        &mut session,
        &json!({"subtype": "mcp_toggle", "serverName": "local", "enabled": false}),
    );
    assert_eq!(statuses(&mut session)[0]["status"], "disabled");
    session.prompt("b");
    session.wait_for_result();
    assert!(
        !offered(&model, 1)
            .iter()
            .any(|name| name.starts_with("mcp__local"))
    );

    let wanted = json!({"subtype": "mcp_set_servers", "servers": {"other": fixture(&[]), "wrong": {"type": "pigeon"}}});
    let set = control(&mut session, &wanted);
    assert!(set["added"].to_string().contains("other"), "{set}");
    assert!(set["removed"].to_string().contains("local"), "{set}");
    assert!(
        set["errors"]["wrong"].to_string().contains("pigeon"),
        "{set}"
    );
    session.prompt("c");
    session.wait_for_result();
    assert!(offered(&model, 2).contains(&"mcp__other__echo".to_owned()));
    assert_eq!(session.close().code(), Some(0));
    model.finish();
    nothing_left(&home);
}

#[test]
fn a_host_answers_a_servers_question() {
    let model = model([
        Reply::tool_use("mcp__local__elicit", json!({})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let mut session = StreamJson::start(
        &home,
        ["--mcp-config", &servers, "--allowedTools", "mcp__local"],
    );
    session.prompt("ask");
    let asked = session.wait_for(|frame| frame["request"]["subtype"] == "elicitation");
    assert_eq!(asked["request"]["mcp_server_name"], "local");
    assert_eq!(asked["request"]["mode"], "form");
    assert_eq!(asked["request"]["message"], "Who?");
    assert_eq!(
        asked["request"]["requested_schema"]["properties"]["name"]["default"],
        "Ada"
    );
    session.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": asked["request_id"],
        "response": {"action": "accept", "content": {"name": "Grace"}}}}));
    session.wait_for_result();
    assert!(sent(&model, 1).contains("Grace"), "{}", sent(&model, 1));
    assert_eq!(session.close().code(), Some(0));
    model.finish();
}

#[test]
fn a_permission_question_offers_rules_for_the_tool_and_for_the_server() {
    let model = model([
        Reply::tool_use("mcp__local__echo", json!({"text": "x"})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&model);
    let servers = config(&json!({"local": fixture(&[])}));
    let mut session = StreamJson::start(
        &home,
        [
            "--mcp-config",
            &servers,
            "--permission-prompt-tool",
            "stdio",
        ],
    );
    session.prompt("call");
    let asked = session.wait_for(|frame| frame["request"]["subtype"] == "can_use_tool");
    let suggestions = &asked["request"]["permission_suggestions"];
    assert_eq!(suggestions[0]["rules"][0]["toolName"], "mcp__local__echo");
    assert_eq!(suggestions[1]["rules"][0]["toolName"], "mcp__local");
    session.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": asked["request_id"],
        "response": {"behavior": "allow", "updatedInput": {"text": "changed"}}}}));
    session.wait_for_result();
    assert!(sent(&model, 1).contains("changed"), "{}", sent(&model, 1));
    assert_eq!(session.close().code(), Some(0));
    model.finish();
}
