//! Options of SDK hosts.

use super::chatty;
use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{StreamJson, TestHome};
use serde_json::{Value, json};

/// The first request of a session that a host sets up.
fn told(initialize: &Value, flags: &[&str]) -> (Value, TestHome) {
    let server = chatty();
    let home = TestHome::with_server(&server);
    let mut session = StreamJson::start(&home, flags);
    let answer = session.control(initialize);
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    session.prompt("hi");
    session.wait_for_result();
    let _ = session.close();
    (server.message_requests()[0].body.clone(), home)
}

#[test]
fn a_host_appends_to_the_system_prompt() {
    let initialize = json!({"subtype": "initialize", "appendSystemPrompt": "And this."});
    let (body, _) = told(&initialize, &[]);
    let last = body["system"].as_array().unwrap().last().unwrap();
    assert_eq!(last["text"], "And this.");
    assert!(body["system"].to_string().contains("You are Lathe"));
}

#[test]
fn a_host_may_keep_the_system_prompt_as_it_was_first_sent() {
    let systems = |keep: bool| {
        let server = chatty();
        let home = TestHome::with_server(&server);
        let initialize = json!({"subtype": "initialize", "systemPromptSnapshot": keep});
        for (words, flags) in [("First.", &[][..]), ("Second.", &["--continue"])] {
            home.write("AGENTS.md", words);
            let mut session = StreamJson::start(&home, flags);
            session.control(&initialize);
            session.prompt("hi");
            session.wait_for_result();
            let _ = session.close();
        }
        let requests = server.message_requests();
        (requests[0].system_text(), requests[1].system_text())
    };
    let (first, second) = systems(true);
    assert_eq!(first, second);
    let (first, second) = systems(false);
    assert!(first.contains("First.") && second.contains("Second."));
}

#[test]
fn the_words_of_agents_are_forwarded_where_flag_or_host_ask_for_them() {
    let forwarded = |flags: &[&str]| {
        let order = json!({"description": "look", "prompt": "LOOK-AROUND",
            "subagent_type": "general-purpose", "run_in_background": false});
        let scenario = Scenario::new().responder(move |request| {
            if request.messages()[0].to_string().contains("LOOK-AROUND") {
                Reply::text("words of the agent")
            } else if request.last_results().is_empty() {
                Reply::tool_use("Agent", order.clone())
            } else {
                Reply::text("done")
            }
        });
        let server = BlockingServer::start(scenario).unwrap();
        let home = TestHome::with_server(&server);
        let usual = ["-p", "go", "--output-format", "stream-json", "--verbose"];
        let output = home.run([&usual[..], flags].concat(), "");
        let frames = output.frames();
        frames.iter().any(|frame| {
            frame["type"] == "assistant"
                && frame["parent_tool_use_id"].is_string()
                && frame["message"]["content"]
                    .to_string()
                    .contains("words of the agent")
        })
    };
    assert!(!forwarded(&[]));
    assert!(forwarded(&["--forward-subagent-text"]));
}

#[test]
fn suggestions_are_asked_for_by_flag() {
    let asked = |flags: &[&str]| {
        let server = chatty();
        let home = TestHome::with_server(&server);
        let mut session = StreamJson::start(&home, flags);
        session.control(&json!({"subtype": "initialize"}));
        for _ in 0..2 {
            session.prompt("hi");
            session.wait_for_result();
        }
        if !flags.is_empty() {
            session.wait_for(|frame| frame["type"] == "prompt_suggestion");
        }
        let _ = session.close();
        server.message_requests().len()
    };
    assert_eq!(asked(&[]), 2);
    assert_eq!(asked(&["--prompt-suggestions"]), 3);
}

#[test]
fn a_resumed_session_may_drop_the_end_of_a_turn_and_nothing_else() {
    let server = chatty();
    let home = TestHome::with_server(&server);
    let mut session = StreamJson::start(&home, ["--replay-user-messages"]);
    let mut ids = Vec::new();
    for words in ["one-marker", "two-marker"] {
        session.prompt(words);
        let user = session.wait_for(|frame| frame["type"] == "user");
        let assistant = session.wait_for(|frame| frame["type"] == "assistant");
        session.wait_for_result();
        ids.push((user["uuid"].clone(), assistant["uuid"].clone()));
    }
    let _ = session.close();
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let (keep, second) = (id(&ids[0].1), id(&ids[1].0));
    let usual = ["-p", "three", "--continue", "--resume-session-at", &keep];
    let refused = home.run(
        [&usual[..], &["--resume-drops-turn", &id(&ids[0].0)]].concat(),
        "",
    );
    assert_ne!(refused.code(), Some(0), "{refused:?}");
    let before = server.message_requests().len();
    let output = home.run([&usual[..], &["--resume-drops-turn", &second]].concat(), "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let sent = server.message_requests()[before].body["messages"].to_string();
    assert!(
        sent.contains("one-marker") && !sent.contains("two-marker"),
        "{sent}"
    );
}

#[test]
fn states_and_checkpoints_are_given_to_hosts_that_say_so() {
    let server = chatty();
    let states = |name: &str| {
        let home = TestHome::with_server(&server).variable(name, "1");
        let flags = ["-p", "go", "--output-format", "stream-json", "--verbose"];
        let frames = home.run(flags, "").frames();
        frames
            .iter()
            .any(|frame| frame["subtype"] == "session_state_changed")
    };
    assert!(states("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"));
    assert!(states("CLAUDE_CODE_SDK_READS_SESSION_STATE"));
    assert!(!states("UNRELATED"));
    let rewinds = |home: TestHome| {
        let mut session = StreamJson::start(&home, [] as [&str; 0]);
        session.control(&json!({"subtype": "initialize"}));
        let unknown = "00000000-0000-4000-8000-000000000000";
        let asked = json!({"subtype": "rewind_files", "user_message_id": unknown});
        let answer = session.control(&asked).to_string();
        let _ = session.close();
        !answer.contains("not enabled")
    };
    assert!(!rewinds(TestHome::with_server(&server)));
    let name = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING";
    assert!(rewinds(TestHome::with_server(&server).variable(name, "1")));
}

#[test]
fn an_edit_that_a_person_changed_says_so() {
    let edit =
        |old: &str, new: &str| json!({"file_path": "a", "old_string": old, "new_string": new});
    let server = lathe_testkit::server([
        Reply::tool_use("Read", json!({"file_path": "a"})),
        Reply::tool_use("Edit", edit("one", "two")),
        Reply::tool_use("Edit", edit("three", "four")),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    home.write("a", "one\n");
    let mut host = StreamJson::start(&home, ["--permission-prompt-tool", "stdio"]);
    host.control(&json!({"subtype": "initialize"}));
    host.prompt("go");
    let mut said = Vec::new();
    let mut wait = |host: &mut StreamJson, fits: &dyn Fn(&Value) -> bool| {
        host.wait_for(|frame| {
            said.extend(frame["tool_use_result"]["userModified"].as_bool());
            fits(frame)
        })
    };
    for change in [Some(edit("one", "three")), None] {
        let asked = wait(&mut host, &|frame| {
            frame["request"]["subtype"] == "can_use_tool"
        });
        let input = change.unwrap_or_else(|| asked["request"]["input"].clone());
        host.send(&json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": asked["request_id"],
            "response": {"behavior": "allow", "updatedInput": input},
        }}));
    }
    wait(&mut host, &|frame| frame["type"] == "result");
    let _ = host.close();
    assert_eq!(said, [true, false]);
    assert_eq!(home.read("a"), "four\n");
}

#[test]
fn results_and_first_messages_name_the_prompts_that_they_answer() {
    let server = chatty();
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--include-partial-messages"]);
    let id = "0b1f2c6e-1111-4222-8333-444455556666";
    host.send(&json!({"type": "user", "uuid": id, "message": {"role": "user", "content": "hi"}}));
    let piece = host.wait_for(|frame| frame["type"] == "stream_event");
    assert_eq!(piece["user_message_uuid"], id);
    assert!(piece["ttft_ms"].is_u64(), "{piece}");
    let next = host.wait_for(|frame| frame["type"] == "stream_event");
    assert_eq!(next.get("user_message_uuid"), None);
    let message = host.wait_for(|frame| frame["type"] == "assistant");
    assert_eq!(message["user_message_uuids"], json!([id]));
    let result = host.wait_for_result();
    assert_eq!(result["user_message_uuid"], id);
    assert_eq!(
        (&result["result_index"], &result["queued_turn_count"]),
        (&json!(0), &json!(0))
    );
    let times = ["time_to_request_ms", "ttft_stream_ms", "ttft_ms"];
    let times = times.map(|name| result[name].as_u64().unwrap());
    assert!(times.is_sorted(), "{times:?}");
    // A prompt without an id, and a command.
    host.prompt("hi");
    let result = host.wait_for_result();
    assert_eq!(result.get("user_message_uuid"), None);
    assert_eq!(result["result_index"], 1);
    host.prompt("/context");
    let result = host.wait_for_result();
    assert_eq!(result["local_command"], "context");
    assert_eq!(result["result_index"], 2);
    let _ = host.close();
}

#[test]
fn commands_are_confirmed_to_hosts_that_want_it() {
    let server = chatty();
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, ["--replay-user-messages"]);
    for (index, command) in ["/context", "/clear"].into_iter().enumerate() {
        let id = format!("0b1f2c6e-1111-4222-8333-44445555000{index}");
        host.send(
            &json!({"type": "user", "uuid": id, "message": {"role": "user", "content": command}}),
        );
        if command == "/clear" {
            let reset = host.wait_for(|frame| frame["type"] == "conversation_reset");
            assert_eq!(reset["trigger"], "clear");
            assert_eq!(reset["user_message_uuid"], *id);
            assert!(reset["timestamp"].is_string());
        }
        let echo = host.wait_for(|frame| frame["type"] == "user");
        assert_eq!(
            (&echo["uuid"], &echo["isReplay"]),
            (&json!(id), &json!(true))
        );
        assert_eq!(echo["message"]["content"], command);
        let result = host.wait_for_result();
        assert_eq!(result["user_message_uuid"], *id);
        assert_eq!(echo["session_id"], result["session_id"]);
    }
    let _ = host.close();
}

#[test]
fn a_host_hears_of_thinking_and_of_a_refusal() {
    let thinking = Reply::thinking("hm ".repeat(100)).with_text("so");
    let refusal = Reply::text("").stop_reason("refusal");
    let server = lathe_testkit::server([thinking, refusal]);
    let home = TestHome::with_server(&server);
    let mut host = StreamJson::start(&home, [""; 0]);
    host.prompt("think");
    let (mut told, mut sum) = (0, 0);
    loop {
        let frame = host.next_frame();
        if frame["type"] == "result" {
            break;
        }
        if frame["subtype"] == "thinking_tokens" {
            told = frame["estimated_tokens"].as_u64().unwrap();
            sum += frame["estimated_tokens_delta"].as_u64().unwrap();
        }
    }
    assert_eq!((told, sum), (75, 75));
    host.prompt("refuse");
    let refused = host.wait_for(|frame| frame["subtype"] == "model_refusal_no_fallback");
    assert!(
        refused["content"]
            .as_str()
            .unwrap()
            .contains("refused to answer")
    );
    assert!(refused["original_model"].is_string() && refused["request_id"].is_string());
    assert!(refused["refused_user_message_uuid"].is_string());
    assert_eq!(host.wait_for_result()["stop_reason"], "refusal");
    let _ = host.close();
}

#[test]
fn a_host_gets_the_list_of_commands_when_it_changes() {
    let server = chatty();
    let home = TestHome::with_server(&server);
    home.write(".lathe/commands/sweep.md", "Sweep.");
    let mut host = StreamJson::start(&home, [""; 0]);
    host.control(&json!({"subtype": "initialize"}));
    host.prompt("hi");
    host.wait_for_result();
    home.write(".lathe/commands/polish.md", "Polish.");
    let changed = host.wait_for(|frame| frame["subtype"] == "commands_changed");
    let commands = changed["commands"].as_array().unwrap();
    for name in ["sweep", "polish"] {
        let listed = commands.iter().find(|command| command["name"] == name);
        assert!(listed.unwrap()["argumentHint"].is_string(), "{name}");
    }
    let _ = host.close();
}

#[test]
fn a_call_of_a_tool_that_was_not_loaded_is_told_how_to_load_it() {
    let server = lathe_testkit::server([
        Reply::tool_use("NotebookEdit", json!({"bogus": 1})),
        Reply::text("ok"),
    ]);
    let home = TestHome::with_server(&server);
    let output = home.run(["-p", "go"], "");
    assert_eq!(output.code(), Some(0), "{}", output.stderr);
    let requests = server.message_requests();
    let offered = requests[0].tool_names();
    assert!(!offered.contains(&"NotebookEdit"), "{offered:?}");
    let told = requests[1].messages().last().unwrap().to_string();
    let hint = "load it first with ToolSearch, query \\\"select:NotebookEdit\\\"";
    assert!(told.contains(hint), "{told}");
}

#[test]
fn what_tools_give_to_programs_has_the_fields_that_hosts_declare() {
    let server = lathe_testkit::server([
        Reply::tool_use("Read", json!({"file_path": "a.ipynb"})),
        Reply::tool_use(
            "NotebookEdit",
            json!({"notebook_path": "a.ipynb", "cell_id": "one", "new_source": "2"}),
        ),
        Reply::tool_use("Write", json!({"file_path": "new.txt", "content": "x\n"})),
        Reply::tool_use(
            "CronCreate",
            json!({"cron": "0 9 * * 1", "prompt": "look", "recurring": true, "durable": true}),
        ),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    let notebook = json!({
        "cells": [{"cell_type": "code", "id": "one", "metadata": {}, "source": ["1"],
            "outputs": [], "execution_count": 3}],
        "metadata": {"language_info": {"name": "julia"}}, "nbformat": 4, "nbformat_minor": 5,
    });
    home.write("a.ipynb", notebook.to_string());
    assert_eq!(home.run(["trust", "add"], "").code(), Some(0));
    let usual = [
        "-p",
        "go",
        "--output-format",
        "stream-json",
        "--verbose",
        "--allowedTools",
        "NotebookEdit,Write,CronCreate",
    ];
    let output = home.run(usual, "");
    let frames = output.frames();
    let outputs: Vec<&Value> = frames
        .iter()
        .filter(|frame| frame["type"] == "user")
        .map(|frame| &frame["tool_use_result"])
        .collect();
    let [read, edit, write, cron] = outputs[..] else {
        panic!("{output:#?}");
    };
    let cell = &read["file"]["cells"][0];
    assert_eq!(
        cell,
        &json!({"cellType": "code", "cell_id": "one", "source": "1", "language": "julia", "execution_count": 3})
    );
    assert_eq!(edit["cell_type"], "code");
    assert_eq!(edit["language"], "julia");
    assert_eq!(edit["old_source"], "1");
    assert_eq!(edit["original_file"], notebook.to_string());
    assert_eq!(edit["updated_file"], home.read("a.ipynb"));
    assert_eq!(write["userModified"], false);
    assert!(cron["nextFireAt"].as_i64().is_some(), "{cron}");
    let words = cron["humanSchedule"].as_str().unwrap();
    assert!(words.starts_with("0 9 * * 1, next Mon "), "{words}");
}

#[test]
fn a_notification_hook_runs_to_its_end_however_soon_the_question_is_answered() {
    let server = lathe_testkit::server([
        Reply::tool_use("Write", json!({"file_path": "new.txt", "content": "x\n"})),
        Reply::text("done"),
    ]);
    let home = TestHome::with_server(&server);
    let gate = home.project().join("gate");
    let told = home.project().join("told");
    let command = format!(
        "until [ -e '{}' ]; do sleep 0.02; done; echo told > '{}'",
        gate.display(),
        told.display()
    );
    let hook = json!([{"hooks": [{"type": "command", "command": command}]}]);
    let settings = json!({"hooks": {"Notification": hook}});
    home.write(home.config().join("settings.json"), settings.to_string());
    let flags = ["--permission-prompt-tool", "stdio", "--include-hook-events"];
    let mut session = StreamJson::start(&home, flags);
    session.prompt("go");
    // The hook starts and the question is asked at the same time.
    let (mut question, mut started) = (Value::Null, false);
    session.wait_for(|frame| {
        started |= frame["subtype"] == "hook_started";
        if frame["request"]["subtype"] == "can_use_tool" {
            question = frame.clone();
        }
        started && !question.is_null()
    });
    let allow = json!({"behavior": "allow", "updatedInput": question["request"]["input"]});
    session.send(&json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": question["request_id"], "response": allow,
    }}));
    session.wait_for_result();
    home.write("gate", "");
    let ended = session.wait_for(|frame| frame["subtype"] == "hook_response");
    assert_eq!(ended["outcome"], "success", "{ended}");
    assert_eq!(home.read("told"), "told\n");
    let _ = session.close();
}
