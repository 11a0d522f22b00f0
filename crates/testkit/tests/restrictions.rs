//! Restrictions of settings, on the real binary: each holds wherever the thing can be chosen.
#![allow(clippy::unwrap_used, reason = "tests assert by panicking")]

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome};
use serde_json::json;

fn server(replies: impl IntoIterator<Item = Reply>) -> BlockingServer {
    let scenario = replies.into_iter().fold(Scenario::new(), Scenario::reply);
    BlockingServer::start(scenario).unwrap()
}

/// A home whose settings allow one model only.
fn only_haiku(server: &BlockingServer) -> TestHome {
    let home = TestHome::with_server(server);
    let settings = json!({"availableModels": ["claude-haiku-4-5"], "model": "claude-haiku-4-5"});
    home.write(home.config().join("settings.json"), settings.to_string());
    home
}

#[test]
fn available_models_hold_for_flags_and_variables() {
    let server = server([Reply::text("yes")]);
    let home = only_haiku(&server);
    for arguments in [
        vec!["-p", "hi", "--model", "claude-opus-4-5"],
        vec!["-p", "hi", "--fallback-model", "claude-opus-4-5"],
    ] {
        let output = home.run(arguments.clone(), "");
        assert_ne!(output.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.contains("availableModels"), "{output:#?}");
    }
    let output = home.run(["-p", "hi", "--model", "claude-haiku-4-5"], "");
    assert_eq!(output.code(), Some(0), "{output:#?}");
    assert_eq!(server.requests()[0].body["model"], "claude-haiku-4-5");
    let home = home.variable("ANTHROPIC_MODEL", "claude-opus-4-5");
    assert_ne!(home.run(["-p", "hi"], "").code(), Some(0));
    server.finish();
}

#[test]
fn available_models_hold_for_hosts_commands_and_agents() {
    let agent = json!({"description": "d", "prompt": "p", "subagent_type": "general-purpose",
        "model": "opus", "run_in_background": false});
    let server = server([
        Reply::tool_use("Agent", agent),
        Reply::text("from the agent"),
        Reply::text("done"),
    ]);
    let home = only_haiku(&server);
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    let answer = session.control(&json!({"subtype": "initialize", "hooks": null}));
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    let answer = session.control(&json!({"subtype": "set_model", "model": "claude-opus-4-5"}));
    assert_eq!(answer["response"]["subtype"], "error", "{answer}");
    session.prompt("/model claude-opus-4-5");
    let result = session.wait_for_result();
    assert!(
        result["result"]
            .as_str()
            .unwrap()
            .contains("availableModels"),
        "{result}"
    );
    session.prompt("ask an agent");
    assert_eq!(session.wait_for_result()["result"], "done");
    assert_eq!(session.close().code(), Some(0));
    for request in server.message_requests() {
        assert_eq!(request.body["model"], "claude-haiku-4-5");
    }
    server.finish();
}

#[test]
fn instruction_files_of_sources_that_were_not_selected_are_not_loaded() {
    for (sources, user, project, local) in [
        ("user,project,local", true, true, true),
        ("project", false, true, false),
        ("user", true, false, false),
        ("project,local", false, true, true),
        ("", false, false, false),
    ] {
        let server = server([Reply::text("yes")]);
        let home = TestHome::with_server(&server);
        home.write(home.config().join("AGENTS.md"), "words of the user\n");
        home.write("AGENTS.md", "words of the project\n");
        home.write("AGENTS.local.md", "words of the folder's owner\n");
        let output = home.run(["-p", "hi", "--setting-sources", sources], "");
        assert_eq!(output.code(), Some(0), "{sources}: {output:#?}");
        let body = server.requests()[0].body.to_string();
        let has = |words: &str| body.contains(words);
        assert_eq!(
            (
                has("words of the user"),
                has("words of the project"),
                has("words of the folder's owner")
            ),
            (user, project, local),
            "{sources:?}"
        );
        server.finish();
    }
}

#[test]
fn a_mode_that_settings_disable_while_the_session_runs_is_left_at_once() {
    let server = server([Reply::text("one")]);
    let home = TestHome::with_server(&server).variable("IS_SANDBOX", "1");
    let mut session = StreamJson::start(&home, ["--dangerously-skip-permissions"]);
    session.prompt("hi");
    session.wait_for_result();
    let settings = json!({"permissions": {"disableBypassPermissionsMode": "disable"}});
    home.write(home.config().join("settings.json"), settings.to_string());
    session.wait_for(|frame| {
        frame["content"]
            .as_str()
            .is_some_and(|text| text.contains("disable the mode bypassPermissions"))
    });
    let asked = json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"});
    let answer = session.control(&asked);
    assert_eq!(answer["response"]["subtype"], "error", "{answer}");
    assert_eq!(session.close().code(), Some(0));
    server.finish();
}
