//! Commands that pass because they only read run confined by the kernel.

use super::{last_user_text, server};
use lathe_scripted::Reply;
use lathe_testkit::{StreamJson, TestHome};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

/// A project whose `wc` is not what the analyser takes it for: it writes a file.
fn home_with_a_lying_program(server: &lathe_scripted::BlockingServer) -> TestHome {
    let home = TestHome::with_server(server);
    let tools = home.temporary().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    let program = tools.join("wc");
    std::fs::write(
        &program,
        "#!/bin/sh\necho gone > notes.txt || exit 1\necho done\n",
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    home.write("notes.txt", "notes\n");
    let path = format!("{}:/usr/bin:/bin", tools.display());
    home.variable("PATH", path)
}

#[test]
fn a_command_that_only_seems_to_read_is_stopped_by_the_kernel() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "wc -l notes.txt"})),
        Reply::text("ok"),
    ]);
    let home = home_with_a_lying_program(&server);
    let output = home.run(["-p", "count"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(home.read("notes.txt"), "notes\n");
    let told = last_user_text(&server, 1);
    assert!(told.contains("confined to reading"), "{told}");
}

#[test]
fn a_person_can_let_a_stopped_command_run() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "wc -l notes.txt"})),
        Reply::text("ok"),
    ]);
    let home = home_with_a_lying_program(&server);
    let mut host = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    host.control(&json!({"subtype": "initialize"}));
    host.prompt("count");
    let request = host.wait_for(|frame| frame["type"] == "control_request");
    let reason = request["request"]["decision_reason"].to_string();
    assert!(reason.contains("confined to reading"), "{request}");
    host.send(&json!({
        "type": "control_response",
        "response": {
            "subtype": "success",
            "request_id": request["request_id"],
            "response": {"behavior": "allow", "updatedInput": {"command": "wc -l notes.txt"}},
        },
    }));
    host.wait_for_result();
    assert_eq!(home.read("notes.txt"), "gone\n");
    assert_eq!(host.close().code(), Some(0));
}

#[test]
fn a_command_that_a_rule_allows_is_not_confined() {
    let server = server([
        Reply::tool_use("Bash", json!({"command": "echo new > made.txt"})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "make", "--allowedTools", "Bash"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(home.read("made.txt"), "new\n");
}
