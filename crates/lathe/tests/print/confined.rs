//! Commands that pass because they only read run confined by the kernel.

use super::{last_user_text, server};
use lathe_scripted::Reply;
use lathe_testkit::{Output, StreamJson, TestHome};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

/// The ways to run a session: as the user of the tests, and as a user without special rights.
const WAYS: [fn(&TestHome, &str) -> Output; 2] = [
    |home, prompt| home.run(["-p", prompt], ""),
    |home, prompt| home.run_unprivileged(["-p", prompt]),
];

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
    for run in WAYS {
        let server = server([
            Reply::tool_use("Bash", json!({"command": "wc -l notes.txt"})),
            Reply::text("ok"),
        ]);
        let home = home_with_a_lying_program(&server);
        let output = run(&home, "count");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        assert_eq!(home.read("notes.txt"), "notes\n");
        let told = last_user_text(&server, 1);
        assert!(told.contains("confined to reading"), "{told}");
    }
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

/// A project with a program in the search path that reads what it wasn't asked to.
fn home_with_a_curious_program(server: &lathe_scripted::BlockingServer, script: &str) -> TestHome {
    let home = TestHome::with_server(server);
    let tools = home.temporary().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    let program = tools.join("head");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", tools.display());
    home.variable("PATH", path)
}

#[test]
fn secrets_of_the_project_are_hidden_from_a_command_that_only_seems_to_read() {
    for run in WAYS {
        let server = server([
            Reply::tool_use("Bash", json!({"command": "head notes.txt"})),
            Reply::text("ok"),
        ]);
        let home =
            home_with_a_curious_program(&server, "cat notes.txt; cat .env config/server.pem");
        home.write("notes.txt", "these are notes\n");
        home.write(".env", "KEY=canary-51c0de\n");
        home.write("config/server.pem", "canary-51c0de\n");
        let output = run(&home, "look");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        let told = last_user_text(&server, 1);
        assert!(told.contains("these are notes"), "{told}");
        assert!(!told.contains("canary"), "{told}");
    }
}

#[test]
fn a_command_that_only_seems_to_read_reaches_no_network_and_runs_nothing_of_the_folder() {
    for run in WAYS {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = server([
            Reply::tool_use("Bash", json!({"command": "head notes.txt"})),
            Reply::text("ok"),
        ]);
        let script = format!(
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'; ./own; cat notes.txt"
        );
        let home = home_with_a_curious_program(&server, &script);
        home.write("notes.txt", "these are notes\n");
        let own = home.write("own", "#!/bin/sh\necho it-ran\n");
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
        let output = run(&home, "look");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        let told = last_user_text(&server, 1);
        assert!(!told.contains("it-ran"), "{told}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "{told}");
    }
}

#[test]
fn secrets_in_the_history_of_git_are_not_shown() {
    for run in WAYS {
        let server = server([
            Reply::tool_use("Bash", json!({"command": "git log -p"})),
            Reply::tool_use("Bash", json!({"command": "git show HEAD~1"})),
            Reply::tool_use("Bash", json!({"command": "git diff HEAD~2 HEAD~1"})),
            Reply::text("ok"),
        ]);
        let home = TestHome::with_server(&server);
        let git = |words: &[&str]| {
            let status = std::process::Command::new("git")
                .args(["-c", "user.name=a", "-c", "user.email=a@b"])
                .args(words)
                .current_dir(home.project())
                .status();
            assert!(status.unwrap().success(), "git {words:?}");
        };
        git(&["init", "-q"]);
        home.write("notes.txt", "first notes\n");
        git(&["add", "-A"]);
        git(&["commit", "-qm", "one"]);
        home.write(".env", "KEY=canary-51c0de\n");
        home.write("keys/Server.PEM", "canary-51c0de\n");
        home.write("notes.txt", "second notes\n");
        git(&["add", "-A"]);
        git(&["commit", "-qm", "two"]);
        git(&["rm", "-q", ".env", "keys/Server.PEM"]);
        git(&["commit", "-qm", "three"]);
        let output = run(&home, "look");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        for request in 1..=3 {
            let told = last_user_text(&server, request);
            assert!(!told.contains("canary"), "{told}");
            assert!(told.contains("notes"), "{told}");
        }
    }
}
