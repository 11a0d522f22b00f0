//! Answers of hooks have the effect that their page states.

use super::{Run, hook, run_with};
use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome, server};
use serde_json::{Value, json};

/// A command that prints an answer.
fn answering(answer: &Value) -> String {
    format!("cat > /dev/null; echo '{answer}'")
}

/// A turn with one call, which is allowed.
fn turn_with_call(settings: &Value) -> Run {
    let replies = vec![
        Reply::tool_use("Bash", json!({"command": "echo secret"})),
        Reply::text("done").forever().optional(),
    ];
    let usual = ["--output-format", "stream-json", "--verbose"];
    let flags = [&usual[..], &["--allowedTools", "Bash"]].concat();
    run_with(&[], settings, replies, &flags)
}

fn result(run: &Run) -> Value {
    let frames = run.output.frames();
    let result = frames.into_iter().find(|frame| frame["type"] == "result");
    result.unwrap()
}

#[test]
fn hooks_of_a_batch_add_context_and_end_the_turn() {
    let with = |answer: &Value| turn_with_call(&hook("PostToolBatch", &answering(answer)));
    let added = json!({"hookSpecificOutput": {"hookEventName": "PostToolBatch",
        "additionalContext": "All calls were seen."}});
    let run = with(&added);
    assert_eq!(run.requests.len(), 2);
    let told = run.requests[1].body["messages"].to_string();
    assert!(told.contains("All calls were seen."), "{told}");
    for answer in [
        json!({"decision": "block", "reason": "enough"}),
        json!({"continue": false, "stopReason": "enough"}),
    ] {
        let run = with(&answer);
        assert_eq!(run.requests.len(), 1, "{answer}");
        assert_eq!(result(&run)["terminal_reason"], "hook_stopped");
    }
}

#[test]
fn the_objection_of_a_prompt_hook_ends_the_turn_unless_it_may_continue() {
    let requests = |event: &str, continues: Option<bool>| {
        let mut definition = json!({"type": "prompt", "prompt": "JUDGE"});
        if let Some(continues) = continues {
            definition["continueOnBlock"] = continues.into();
        }
        let settings = json!({"hooks": {event: [{"hooks": [definition]}]}});
        let scenario = Scenario::new().responder(|request| {
            let last = request.messages().last().unwrap().to_string();
            if request
                .body
                .get("tools")
                .is_none_or(|tools| tools.as_array().unwrap().is_empty())
            {
                let ok = !last.contains("echo once");
                Reply::text(json!({"ok": ok, "reason": "not that"}).to_string())
            } else if request.last_results().is_empty() {
                Reply::tool_use("Bash", json!({"command": "echo once"}))
            } else {
                Reply::text("done")
            }
        });
        let server = BlockingServer::start(scenario).unwrap();
        let home = TestHome::with_server(&server);
        home.write(home.config().join("settings.json"), settings.to_string());
        let output = home.run(["-p", "go", "--allowedTools", "Bash"], "");
        assert_eq!(output.code(), Some(0), "{}", output.stderr);
        let all = server.message_requests();
        let asked = all
            .iter()
            .filter(|request| !request.last_results().is_empty());
        asked
            .map(lathe_scripted::RecordedRequest::last_tool_result)
            .collect::<Vec<String>>()
    };
    // The model is not asked again, or it gets the reason.
    assert_eq!(requests("PreToolUse", None), [] as [&str; 0]);
    assert_eq!(requests("PreToolUse", Some(false)), [] as [&str; 0]);
    assert_eq!(requests("PreToolUse", Some(true)), ["not that"]);
    assert_eq!(requests("PostToolUse", None), [] as [&str; 0]);
    assert_eq!(requests("PostToolUse", Some(true)), ["once"]);
}

#[test]
fn a_hook_replaces_an_output_in_the_shape_that_it_got() {
    let replaced = json!({"hookSpecificOutput": {"hookEventName": "PostToolUse",
        "updatedToolOutput": {"stdout": "replaced", "stderr": "", "interrupted": false}}});
    let run = turn_with_call(&hook("PostToolUse", &answering(&replaced)));
    assert_eq!(run.last_result(), "replaced");
    // Nobody gets the original, not the host and not the transcript.
    assert!(
        !run.output.stdout.contains("\"stdout\":\"secret"),
        "{}",
        run.output.stdout
    );
    let transcripts = lathe_testkit::transcript::of_home(&run.home);
    assert!(!transcripts.is_empty());
    for path in transcripts {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(!text.contains("\"stdout\":\"secret"), "{text}");
    }
}

#[test]
fn hosts_are_told_what_hooks_say_to_the_user() {
    let said = |settings: &Value| {
        let run = turn_with_call(settings);
        let frames = run.output.frames();
        let told = frames
            .iter()
            .filter(|frame| frame["subtype"] == "informational");
        told.map(|frame| (frame["level"].clone(), frame["content"].clone()))
            .collect::<Vec<_>>()
    };
    let message = answering(&json!({"systemMessage": "Mind the step."}));
    assert_eq!(
        said(&hook("UserPromptSubmit", &message)),
        [(json!("notice"), json!("Mind the step."))]
    );
    let objection = "grep -q '\"stop_hook_active\":true' || { echo 'not done' >&2; exit 2; }";
    let told = said(&hook("Stop", objection));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].1.as_str().unwrap().contains("not done"));
}

#[test]
fn a_refused_prompt_is_told_back_unless_the_hook_hides_it() {
    let refused = |hides: bool| {
        let answer = json!({"decision": "block", "reason": "no", "hookSpecificOutput": {
            "hookEventName": "UserPromptSubmit", "suppressOriginalPrompt": hides}});
        let settings = hook("UserPromptSubmit", &answering(&answer));
        run_with(&[], &settings, vec![], &[]).output.stdout
    };
    assert!(refused(false).contains("Original prompt: go"));
    assert!(!refused(true).contains("Original prompt"));
}

#[test]
fn a_host_sees_the_output_of_a_hook_that_runs() {
    let server = server([Reply::text("fine")]);
    let waits = "echo begun; echo odd >&2; while [ ! -e go ]; do sleep 0.02; done; echo ended";
    let home = TestHome::with_server(&server);
    let settings = hook("UserPromptSubmit", waits).to_string();
    let mut host = StreamJson::start(&home, ["--include-hook-events", "--settings", &settings]);
    host.prompt("hi");
    let progress = host.wait_for(|frame| frame["subtype"] == "hook_progress");
    assert_eq!(progress["stdout"], "begun\n");
    assert_eq!(progress["stderr"], "odd\n");
    assert_eq!(progress["output"], "begun\nodd\n");
    assert_eq!(progress["hook_event"], "UserPromptSubmit");
    home.write("go", "");
    let response = host.wait_for(|frame| frame["subtype"] == "hook_response");
    assert_eq!(response["stdout"], "begun\nended\n");
    assert_eq!(response["hook_id"], progress["hook_id"]);
    host.wait_for_result();
    let _ = host.close();
}

#[test]
fn a_notification_of_a_hook_reaches_the_terminal_and_nothing_else_does() {
    let server = server([Reply::text("fine")]);
    let home = TestHome::with_server(&server);
    let answer =
        json!({"terminalSequence": "\u{1b}]52;c;YQ==\u{7}\u{1b}]777;notify;Tower;swept\u{7}"});
    let answer = answer.to_string().replace('\\', "\\\\");
    let settings = hook("Stop", &format!("cat > /dev/null; printf '{answer}'"));
    home.write(home.config().join("settings.json"), settings.to_string());
    let mut terminal = home.terminal([] as [&str; 0], 100, 30);
    terminal.say("hi");
    terminal.wait_for_bytes("\u{1b}]777;notify;Tower;swept\u{7}");
    terminal.leave();
    assert!(!terminal.raw().contains("\u{1b}]52;c;YQ==\u{7}\u{1b}]777"));
}
