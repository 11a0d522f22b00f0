//! Hooks hear of what they are said to hear of, and what they answer counts.

use super::{chatty, heard, hook, run_in, run_with, wait_for_settings};
use lathe_scripted::Reply;
use lathe_testkit::{StreamJson, TestHome, server};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

const LOG: &str = "cat >> \"$LATHE_PROJECT_DIR/log\"";

/// The settings of hooks that only log, for several events.
fn logs(events: &[&str]) -> Value {
    let all: serde_json::Map<String, Value> = events
        .iter()
        .map(|event| {
            let group = json!([{"hooks": [{"type": "command", "command": LOG}]}]);
            ((*event).to_owned(), group)
        })
        .collect();
    json!({"hooks": all})
}

/// A home with settings for the user.
fn home_with(settings: &Value) -> TestHome {
    let home = TestHome::new();
    home.write(home.config().join("settings.json"), settings.to_string());
    home
}

fn events(heard: &[Value]) -> Vec<&str> {
    let names = heard.iter().map(|input| input["hook_event_name"].as_str());
    names.map(Option::unwrap).collect()
}

#[test]
fn hooks_hear_of_a_switch_of_the_model_and_may_refuse_it() {
    let refusal = r#"{"hookSpecificOutput": {"hookEventName": "PreModelSwitch", "permissionDecision": "deny", "permissionDecisionReason": "opus costs too much"}}"#;
    let command = format!("{LOG}; echo '{refusal}'");
    let note = r#"{"hookSpecificOutput": {"hookEventName": "PostModelSwitch", "additionalContext": "You took over."}}"#;
    let after = format!("{LOG}; echo '{note}'");
    let of = |matcher: &str, command: &str| json!([{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]);
    let settings = json!({"hooks": {
        "PreModelSwitch": of("claude-opus-5-5", &command),
        "PostModelSwitch": of("", &after),
    }});
    let server = chatty();
    let home = home_with(&settings).server(&server);
    let mut session = StreamJson::start(&home, ["--model", "claude-sonnet-4-5"]);
    session.control(&json!({"subtype": "initialize"}));
    let refused = session.control(&json!({"subtype": "set_model", "model": "opus"}));
    assert_eq!(refused["response"]["subtype"], "error", "{refused}");
    assert!(refused.to_string().contains("costs too much"), "{refused}");
    let done = session.control(&json!({"subtype": "set_model", "model": "claude-haiku-4-5"}));
    assert_eq!(done["response"]["subtype"], "success", "{done}");
    session.prompt("hi");
    session.wait_for_result();
    let _ = session.close();
    let heard = heard(&home);
    assert_eq!(events(&heard), ["PreModelSwitch", "PostModelSwitch"]);
    let (before, after) = (&heard[0], &heard[1]);
    assert_eq!(before["from_model"], "claude-sonnet-4-5");
    assert_eq!(before["to_model"], "claude-opus-5-5");
    assert_eq!(
        (&before["requested_model"], &before["source"]),
        (&json!("opus"), &json!("sdk"))
    );
    assert_eq!(after["to_model"], "claude-haiku-4-5");
    assert_eq!(after["cache_ttl"], "5m");
    let request = &server.message_requests()[0];
    assert_eq!(request.model(), "claude-haiku-4-5");
    assert!(
        request.body["messages"]
            .to_string()
            .contains("You took over.")
    );
}

#[test]
fn hooks_hear_of_a_model_that_takes_over_by_itself() {
    let run = run_with(
        &[("LATHE_RETRY_BASE_MS", "1")],
        &logs(&["PreModelSwitch", "PostModelSwitch"]),
        vec![Reply::error(529).times(3), Reply::text("fine")],
        &["--model", "opus", "--fallback-model", "haiku"],
    );
    let heard = heard(&run.home);
    assert_eq!(events(&heard), ["PostModelSwitch"]);
    assert_eq!(heard[0]["source"], "auto");
    assert_eq!(heard[0]["requested_model"], Value::Null);
}

#[test]
fn hooks_hear_of_tasks_and_of_a_changed_working_folder() {
    let home = home_with(&logs(&["TaskCreated", "CwdChanged"])).variable("LATHE_ENABLE_TASKS", "1");
    std::fs::create_dir_all(home.project().join("inner")).unwrap();
    let task = json!({"subject": "Sweep", "description": "the floor"});
    let replies = vec![
        Reply::tool_use("TaskCreate", task),
        Reply::tool_use("Bash", json!({"command": "cd inner && touch x"})),
        Reply::text("done"),
    ];
    let run = run_in(home, replies, &["--allowedTools", "Bash,TaskCreate"]);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    let heard = heard(&run.home);
    assert_eq!(events(&heard), ["TaskCreated", "CwdChanged"]);
    assert_eq!(heard[0]["task_subject"], "Sweep");
    assert_eq!(heard[1]["old_cwd"], json!(run.home.project()));
    assert_eq!(heard[1]["new_cwd"], json!(run.home.project().join("inner")));
}

#[test]
fn hooks_hear_of_folders_that_commands_add_and_enter() {
    let server = chatty();
    let home = home_with(&logs(&["DirectoryAdded", "CwdChanged"])).server(&server);
    std::fs::create_dir_all(home.project().join("inner")).unwrap();
    std::fs::create_dir_all(home.root().join("beside")).unwrap();
    let beside = home.root().join("beside");
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    session.prompt(&format!("/add-dir {}", beside.display()));
    session.wait_for_result();
    session.prompt("/cd inner");
    session.wait_for_result();
    session.prompt("hi");
    session.wait_for_result();
    let _ = session.close();
    let mut heard = heard(&home);
    heard.sort_by_key(|input| input["hook_event_name"].to_string());
    assert_eq!(events(&heard), ["CwdChanged", "DirectoryAdded"]);
    assert_eq!(heard[0]["new_cwd"], json!(home.project().join("inner")));
    assert_eq!(heard[1]["directory"], json!(beside));
    assert_eq!(heard[1]["source"], "slash_command");
}

#[test]
fn hooks_hear_of_settings_that_change() {
    let settings = logs(&["ConfigChange"]);
    let server = chatty();
    let home = home_with(&settings).server(&server);
    let mut session = StreamJson::start(&home, [] as [&str; 0]);
    session.prompt("hi");
    session.wait_for_result();
    let mut changed = settings;
    changed["language"] = "Latin".into();
    home.write(home.config().join("settings.json"), changed.to_string());
    wait_for_settings(&mut session, "Latin");
    session.prompt("once more");
    session.wait_for_result();
    let _ = session.close();
    let heard = heard(&home);
    assert_eq!(events(&heard), ["ConfigChange"]);
    assert_eq!(heard[0]["source"], "user_settings");
    assert_eq!(
        heard[0]["file_path"],
        json!(home.config().join("settings.json"))
    );
}

/// A run in which the model starts an agent in a worktree of its own.
fn isolated(settings: &Value) -> super::Run {
    let home = home_with(settings);
    home.write("file", "content");
    home.git_init();
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let order = json!({"description": "look", "prompt": "Look.", "isolation": "worktree",
        "subagent_type": "general-purpose", "run_in_background": false});
    let replies = vec![
        Reply::tool_use("Agent", order),
        Reply::tool_use("Bash", json!({"command": "pwd"})),
        Reply::text("looked"),
        Reply::text("done"),
    ];
    run_in(home, replies, &["--allowedTools", "Bash,Agent"])
}

#[test]
fn hooks_hear_of_worktrees() {
    let run = isolated(&logs(&["WorktreeCreate", "WorktreeRemove"]));
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    let heard = heard(&run.home);
    assert_eq!(events(&heard), ["WorktreeCreate", "WorktreeRemove"]);
    let name = heard[0]["name"].as_str().unwrap();
    assert!(name.starts_with("agent-"), "{name}");
    let path = heard[1]["worktree_path"].as_str().unwrap();
    assert!(path.ends_with(name), "{path}");
}

#[test]
fn a_hook_makes_the_worktree_itself() {
    let said = r#"made="$LATHE_PROJECT_DIR/../made"; mkdir -p "$made"; echo "{\"hookSpecificOutput\": {\"hookEventName\": \"WorktreeCreate\", \"worktreePath\": \"$made\"}}""#;
    let printed = r#"made="$LATHE_PROJECT_DIR/../made"; mkdir -p "$made"; echo "$made""#;
    for command in [said, printed] {
        let run = isolated(&hook("WorktreeCreate", command));
        assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
        let folder = run.requests[2].last_tool_result();
        assert!(folder.trim_end().ends_with("/made"), "{folder}");
        assert!(!run.home.project().join(".lathe/worktrees").exists());
        assert!(run.home.root().join("made").is_dir(), "it stays");
    }
    let run = isolated(&hook("WorktreeCreate", "echo 'no room' >&2; exit 2"));
    let told = run.requests[1].last_tool_result();
    assert!(told.contains("no room"), "{told}");
}

#[test]
fn a_hook_lets_the_model_try_a_refused_call_again() {
    let refused = |command: &str| {
        let run = run_with(
            &[],
            &hook("PermissionDenied", command),
            vec![
                Reply::tool_use("Bash", json!({"command": "touch made"})),
                Reply::text("done"),
            ],
            &["--permission-mode", "dontAsk"],
        );
        run.last_result()
    };
    let again = "A hook allows you to retry this call";
    let answer =
        r#"echo '{"hookSpecificOutput": {"hookEventName": "PermissionDenied", "retry": true}}'"#;
    assert!(refused(answer).contains(again));
    assert!(!refused("true").contains(again));
}

#[test]
fn output_that_a_hook_suppresses_is_not_reported() {
    let reported = |command: &str| {
        let settings = hook("UserPromptSubmit", command);
        let flags = [
            "--output-format",
            "stream-json",
            "--verbose",
            "--include-hook-events",
        ];
        let run = run_with(&[], &settings, vec![Reply::text("fine")], &flags);
        let frames = run.output.frames();
        let response = frames
            .iter()
            .find(|frame| frame["subtype"] == "hook_response");
        response.unwrap()["stdout"].as_str().unwrap().to_owned()
    };
    assert!(reported(r#"echo '{"systemMessage": "seen"}'"#).contains("seen"));
    let quiet = r#"echo '{"systemMessage": "seen", "suppressOutput": true}'"#;
    assert_eq!(reported(quiet), "");
}

#[test]
fn a_failing_hook_blocks_or_not_as_it_says() {
    let outcome = |on_failure: Option<&str>| {
        let mut definition = json!({"type": "command", "command": "exit 7"});
        if let Some(word) = on_failure {
            definition["onFailure"] = word.into();
        }
        let settings = json!({"hooks": {"PreToolUse": [{"hooks": [definition]}]}});
        let replies = vec![
            Reply::tool_use("Bash", json!({"command": "touch made"})),
            Reply::text("done"),
        ];
        let run = run_with(&[], &settings, replies, &["--allowedTools", "Bash"]);
        run.home.project().join("made").exists()
    };
    assert!(outcome(None));
    assert!(outcome(Some("continue")));
    assert!(!outcome(Some("block")));
}

#[test]
fn a_hook_names_its_shell() {
    // A shell of the test's own, which says that it was asked.
    let home = home_with(&json!({}));
    let shell = home.write(
        "own-shell",
        "#!/bin/sh\necho asked > asked\nexec sh \"$@\"\n",
    );
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let definition = json!({"type": "command", "shell": shell, "command": "echo ran > ran"});
    let settings = json!({"hooks": {"SessionStart": [{"hooks": [definition]}]}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let run = run_in(home, vec![Reply::text("fine")], &[]);
    assert_eq!(run.home.read("ran"), "ran\n");
    assert_eq!(run.home.read("asked"), "asked\n");
}

#[test]
fn hooks_do_not_run_where_settings_or_a_policy_disable_them() {
    let ran = |more: Value, arguments: &[&str]| {
        let mut settings = hook("SessionStart", "echo ran > ran");
        let object = settings.as_object_mut().unwrap();
        object.extend(more.as_object().unwrap().clone());
        let run = run_with(&[], &settings, vec![Reply::text("fine")], arguments);
        run.home.project().join("ran").exists()
    };
    assert!(ran(json!({}), &[]));
    assert!(!ran(json!({"disableAllHooks": true}), &[]));
    let policy = r#"{"allowManagedHooksOnly": true}"#;
    assert!(!ran(json!({}), &["--managed-settings", policy]));
}

#[test]
fn a_stop_failure_hook_is_matched_by_the_kind_of_the_error() {
    let group = |matcher: &str| {
        let command = format!("{LOG}; echo {matcher} >> matched");
        json!({"matcher": matcher, "hooks": [{"type": "command", "command": command}]})
    };
    let settings = json!({"hooks": {"StopFailure": [group("billing_error"), group("rate_limit")]}});
    let home = home_with(&settings);
    let run = run_in(home, vec![Reply::error(402)], &[]);
    assert_eq!(run.output.code(), Some(1));
    assert_eq!(run.home.read("matched"), "billing_error\n");
    let heard = heard(&run.home);
    assert_eq!(heard[0]["error"], "billing_error");
    assert!(heard[0]["last_assistant_message"].is_string());
}

#[test]
fn an_expansion_hook_is_matched_by_the_name_of_the_command() {
    let group = |matcher: &str| {
        let command = format!("cat > /dev/null; echo {matcher} >> matched");
        json!({"matcher": matcher, "hooks": [{"type": "command", "command": command}]})
    };
    let settings = json!({"hooks": {"UserPromptExpansion": [group("sweep"), group("polish")]}});
    let server = server([Reply::text("fine")]);
    let home = home_with(&settings).server(&server);
    home.write(".lathe/commands/sweep.md", "Sweep the floor.");
    home.write(".lathe/commands/polish.md", "Polish the table.");
    let output = home.run(["-p", "/polish"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    assert_eq!(home.read("matched"), "polish\n");
}

#[test]
fn a_hook_with_arguments_runs_without_a_shell() {
    let definition = json!({"type": "command", "command": "touch", "args": ["$HOME", "a b"]});
    let settings = json!({"hooks": {"SessionStart": [{"hooks": [definition]}]}});
    let run = run_with(&[], &settings, vec![Reply::text("fine")], &[]);
    assert!(run.home.project().join("$HOME").is_file());
    assert!(run.home.project().join("a b").is_file());
}

/// A server whose tool asks the user something and tells the answer.
const CURIOUS: &str = "import sys, json
call = None
def send(message):
    print(json.dumps({'jsonrpc': '2.0', **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get('method'), message.get('id')
    if method == 'initialize':
        send({'id': id, 'result': {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},
              'serverInfo': {'name': 'curious', 'version': '1'}}})
    elif method == 'tools/list':
        send({'id': id, 'result': {'tools': [{'name': 'ask', 'inputSchema': {'type': 'object'}}]}})
    elif method == 'tools/call':
        call = id
        send({'id': 99, 'method': 'elicitation/create', 'params': {'message': 'Which clock?',
              'requestedSchema': {'type': 'object', 'properties': {'clock': {'type': 'string'}}}}})
    elif id == 99:
        send({'id': call, 'result': {'content': [{'type': 'text', 'text': json.dumps(message['result'])}]}})
    elif id is not None:
        send({'id': id, 'result': {}})
";

#[test]
fn a_hook_changes_the_answer_that_a_server_gets() {
    let answer = |event: &str, clock: &str| {
        let output = json!({"hookSpecificOutput": {"hookEventName": event, "action": "accept",
            "content": {"clock": clock}}});
        json!([{"hooks": [{"type": "command", "command": format!("{LOG}; echo '{output}'")}]}])
    };
    let settings = json!({"hooks": {
        "Elicitation": answer("Elicitation", "cuckoo"),
        "ElicitationResult": answer("ElicitationResult", "sundial"),
    }});
    let home = home_with(&settings);
    home.write("curious.py", CURIOUS);
    let servers =
        json!({"mcpServers": {"curious": {"command": "python3", "args": ["curious.py"]}}});
    let servers = servers.to_string();
    let replies = vec![
        Reply::tool_use("mcp__curious__ask", json!({})),
        Reply::text("done"),
    ];
    let flags = [
        "--mcp-config",
        &servers,
        "--allowedTools",
        "mcp__curious__ask",
    ];
    let run = run_in(home, replies, &flags);
    assert_eq!(run.output.code(), Some(0), "{}", run.output.stderr);
    assert!(
        run.last_result().contains("sundial"),
        "{}",
        run.last_result()
    );
    let heard = heard(&run.home);
    assert_eq!(events(&heard), ["Elicitation", "ElicitationResult"]);
    assert_eq!(heard[1]["action"], "accept");
    assert_eq!(heard[1]["content"]["clock"], "cuckoo");
}

#[test]
fn what_a_hook_shows_instead_is_in_messages_and_results_and_not_in_the_transcript() {
    let answer = r#"cat > /dev/null; echo '{"hookSpecificOutput": {"hookEventName": "MessageDisplay", "displayContent": "[hidden]"}}'"#;
    let settings = hook("MessageDisplay", answer);
    let stop = hook("Stop", LOG)["hooks"]["Stop"].clone();
    let mut settings = settings;
    settings["hooks"]["Stop"] = stop;
    let arguments = ["--output-format", "stream-json", "--verbose"];
    let run = run_with(&[], &settings, vec![Reply::text("the secret")], &arguments);
    let frames = run.output.frames();
    let message = frames.iter().find(|it| it["type"] == "assistant").unwrap();
    assert_eq!(message["message"]["content"][0]["text"], "[hidden]");
    assert_eq!(run.output.result()["result"], "[hidden]");
    assert_eq!(heard(&run.home)[0]["last_assistant_message"], "the secret");
    let file = lathe_testkit::transcript::of_home(&run.home).remove(0);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("the secret") && !text.contains("[hidden]"));
}

#[test]
fn hooks_are_told_how_old_and_large_a_resumed_conversation_is() {
    let server = chatty();
    let home = home_with(&logs(&["SessionStart"])).server(&server);
    for flags in [&[][..], &["--continue"], &["--continue", "--fork-session"]] {
        let output = home.run([&["-p", "hi"], flags].concat(), "");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
    }
    let heard = heard(&home);
    let sources: Vec<&Value> = heard.iter().map(|input| &input["source"]).collect();
    assert_eq!(sources, ["startup", "resume", "fork"]);
    assert_eq!(heard[0].get("context_tokens"), None);
    for input in &heard[1..] {
        assert!(input["context_tokens"].as_u64().unwrap() > 1000, "{input}");
        assert!(input["seconds_since_last_response"].as_u64().unwrap() < 300);
        assert_eq!(input["prompt_cache_likely_expired"], false);
        assert!(input["estimated_cache_write_usd"].as_f64().unwrap() > 0.0);
    }
}
