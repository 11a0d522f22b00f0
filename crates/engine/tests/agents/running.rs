//! Agents from their start to their end: in the foreground, in the background, woken, interrupted.

use crate::support::{Place, begins, whole};
use lathe_engine::Answerer;
use lathe_protocol::event::{Event, TaskNotice, TaskStatus};
use lathe_protocol::op::Op;
use lathe_protocol::permission::{PermissionMode, PermissionReply};
use lathe_scripted::{Position, Reply, Scenario};
use lathe_tools::host::AgentStatus;
use serde_json::json;

#[allow(
    clippy::needless_pass_by_value,
    reason = "written as a literal at every call"
)]
fn order(prompt: &str, more: serde_json::Value) -> Reply {
    let mut input = json!({"description": "a test", "prompt": prompt});
    if let (Some(input), Some(more)) = (input.as_object_mut(), more.as_object()) {
        input.extend(more.clone());
    }
    Reply::tool_use("Agent", input)
}

#[tokio::test]
async fn a_foreground_agent_has_its_own_conversation_and_its_last_words_come_back() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "look into it") {
            if request.last_results().is_empty() {
                Reply::tool_use("Read", json!({"file_path": "a.txt"}))
            } else {
                Reply::text("the file says hello")
            }
        } else if request.last_results().is_empty() {
            order(
                "look into it",
                json!({"subagent_type": "looker", "run_in_background": false}),
            )
        } else {
            Reply::text("done")
        }
    });
    let place = Place::new(scenario).await;
    place.agent("looker", "tools: Read, Glob", "You look at files.");
    std::fs::write(place.project().join("a.txt"), "hello\n").unwrap();
    let mut talk = place.open().await;
    talk.send("please");
    let (mut started, mut tools, mut nested) = (None, Vec::new(), 0);
    let result = loop {
        match talk.event().await {
            Event::Task(TaskNotice::Started {
                is_backgrounded,
                task_type,
                extra,
                ..
            }) => {
                started = Some((is_backgrounded, task_type, extra["subagent_type"].clone()));
            }
            Event::Task(TaskNotice::Progress { last_tool_name, .. }) => {
                tools.extend(last_tool_name);
            }
            Event::Record {
                parent_tool_use_id: Some(_),
                record,
            } => {
                assert!(record.is_sidechain && record.agent_id.is_some());
                nested += 1;
            }
            Event::TurnFinished(result) => break result,
            _ => {}
        }
    };
    assert_eq!(result.text, "done");
    assert_eq!(
        started,
        Some((false, "local_agent".into(), json!("looker")))
    );
    assert_eq!(tools, ["Read"]);
    // The prompt, the call, its result, the last words.
    assert!(nested >= 4, "{nested}");
    let requests = place.requests_of("look into it");
    assert_eq!(requests.len(), 2);
    assert!(requests[0].system_text().contains("You look at files."));
    assert_eq!(requests[0].tool_names(), ["Glob", "Read"]);
    let main = place.requests_of("please");
    let back = whole(main.last().unwrap());
    assert!(back.contains("the file says hello"), "{back}");
    assert!(back.contains("1 tool call,"), "{back}");
    // The session's totals have both, split by part.
    let totals = serde_json::to_value(talk.session.history().totals()).unwrap();
    assert_eq!(totals["parts"]["agents"]["calls"], 2, "{totals}");
    assert_eq!(totals["parts"]["main"]["calls"], 2, "{totals}");
    let agent = &talk.session.tasks().agents()[0];
    assert_eq!(agent.status, AgentStatus::Completed);
    assert_eq!(agent.usage.tool_uses, 1);
    // Its transcript and what is said about it lie where hosts look for them.
    let paths = lathe_session::SessionPaths::of_transcript(talk.session.transcript());
    let id = lathe_protocol::ids::AgentId(agent.id.0.clone());
    let meta: serde_json::Value =
        serde_json::from_slice(&std::fs::read(paths.agent_meta(&id)).unwrap()).unwrap();
    assert_eq!(meta["agentType"], "looker");
    assert_eq!(meta["status"], "completed");
    assert!(meta["toolUseId"].is_string());
    let loaded = lathe_session::load(&paths.agent_transcript(&id)).unwrap();
    assert!(loaded.messages().all(|record| record.is_sidechain));
    assert_eq!(loaded.chain().len(), loaded.messages().count());
    talk.finish().await;
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_background_agent_returns_at_once_and_its_end_wakes_the_idle_session() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "work on it") {
            Reply::text("the result").gate(Position::Start, "agent")
        } else if request.last_user_text().contains("<task-notification>") {
            Reply::text("I heard of it")
        } else if request.last_results().is_empty() {
            order("work on it", json!({}))
        } else {
            Reply::text("it works in the background")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    let first = talk.say("start it").await;
    assert_eq!(first.text, "it works in the background");
    assert_eq!(first.origin, None);
    place.server.gate("agent").release();
    let results = talk.quiet().await;
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].text, "I heard of it");
    assert_eq!(
        results[0].origin,
        Some(json!({"kind": "task-notification"}))
    );
    let last = place.requests_of("start it").pop().unwrap();
    let told = last.last_user_text();
    for part in [
        "<status>completed</status>",
        "<result>the result</result>",
        "total_tokens",
    ] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    talk.finish().await;
}

#[tokio::test]
async fn a_background_command_that_ends_starts_a_turn_too() {
    let scenario = Scenario::new().responder(|request| {
        if request.last_user_text().contains("<task-notification>") {
            Reply::text("it ended")
        } else if request.last_results().is_empty() {
            Reply::tool_use(
                "Bash",
                json!({"command": "read line < fifo; exit 3", "run_in_background": true}),
            )
        } else {
            Reply::text("started")
        }
    });
    let place = Place::new(scenario).await;
    let fifo = place.project().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let mut talk = place.open().await;
    assert_eq!(talk.say("start it").await.text, "started");
    tokio::task::spawn_blocking(move || std::fs::write(fifo, "go\n").unwrap())
        .await
        .unwrap();
    let result = talk.result().await;
    assert_eq!(result.text, "it ended");
    let told = place
        .requests_of("start it")
        .pop()
        .unwrap()
        .last_user_text();
    assert!(
        told.contains("<status>failed</status>") && told.contains("exit code 3"),
        "{told}"
    );
    talk.finish().await;
}

#[tokio::test]
async fn a_finished_agent_is_woken_by_a_message_and_knows_what_it_knew() {
    let scenario = Scenario::new().responder(|request| {
        let text = request.last_user_text();
        if begins(request, "count the doors") {
            if text.contains("and the windows") {
                Reply::text("nine windows")
            } else {
                Reply::text("seven doors")
            }
        } else if text.contains("<task-notification>") {
            Reply::text("nice")
        } else if text.contains("wake it") && request.last_results().is_empty() {
            Reply::tool_use(
                "SendMessage",
                json!({"to": "counter", "message": "and the windows"}),
            )
        } else if request.last_results().is_empty() {
            order(
                "count the doors",
                json!({"name": "counter", "run_in_background": false}),
            )
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.say("start it").await;
    talk.send("wake it");
    let results = talk.quiet().await;
    assert_eq!(results.last().unwrap().text, "nice");
    let woken = place.requests_of("count the doors").pop().unwrap();
    let all = whole(&woken);
    assert!(
        all.contains("seven doors") && all.contains("and the windows"),
        "{all}"
    );
    assert_eq!(talk.session.tasks().agents().len(), 1);
    assert_eq!(talk.session.tasks().agents()[0].result, "nine windows");
    talk.finish().await;
    // The session is taken up by another process: the agent is still there.
    let mut talk = place.resume().await;
    assert_eq!(talk.remarks, Vec::new());
    assert_eq!(
        talk.session.tasks().agents()[0].status,
        AgentStatus::Completed
    );
    talk.send("wake it again");
    talk.quiet().await;
    let woken = place.requests_of("count the doors").pop().unwrap();
    assert_eq!(woken.messages().len(), 5, "{}", whole(&woken));
    talk.finish().await;
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_foreground_agent_can_be_sent_to_the_background() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "work on it") {
            Reply::text("late result").gate(Position::Start, "agent")
        } else if request.last_user_text().contains("<task-notification>") {
            Reply::text("heard")
        } else if request.last_results().is_empty() {
            order("work on it", json!({"run_in_background": false}))
        } else {
            Reply::text("goes on without it")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.send("start it");
    talk.task_start().await;
    talk.session.send(Op::Background { tool_use_id: None });
    assert_eq!(talk.result().await.text, "goes on without it");
    place.server.gate("agent").release();
    assert_eq!(talk.quiet().await[0].text, "heard");
    talk.finish().await;
}

/// A model whose agents each write a file named in their prompt, and say what came of it.
fn writers() -> Scenario {
    Scenario::new().responder(|request| {
        let prompt = request.messages()[0].to_string();
        let wanted = ["one.txt", "two.txt", "three.txt"]
            .into_iter()
            .find(|name| begins(request, &format!("write {name}")));
        if let Some(name) = wanted {
            if request.last_results().is_empty() {
                Reply::tool_use("Write", json!({"file_path": name, "content": "x"}))
            } else {
                Reply::text(format!("then: {}", request.last_tool_result()))
            }
        } else if request.last_user_text().contains("<task-notification>") {
            Reply::text("heard")
        } else if request.last_results().is_empty() && prompt.contains("both") {
            let call = |name: &str| json!({"description": format!("write {name}"), "prompt": format!("write {name}"), "name": name});
            Reply::tool_use("Agent", call("one.txt")).with_tool_use("Agent", call("two.txt"))
        } else if request.last_results().is_empty() {
            let background = request.last_user_text().contains("background");
            order("write three.txt", json!({"run_in_background": background}))
        } else {
            Reply::text("ok")
        }
    })
}

fn asking(place: &Place) -> lathe_engine::SessionOptions {
    let mut options = place.options();
    options.permissions.mode = Some(PermissionMode::Default);
    options.permissions.answerer = Answerer::Face;
    options
}

#[tokio::test]
async fn questions_of_agents_reach_the_person_in_the_foreground_and_in_the_background() {
    let place = Place::new(writers()).await;
    let mut talk = place.open_with(asking(&place)).await;
    for (number, words) in ["in the foreground", "in the background"]
        .into_iter()
        .enumerate()
    {
        talk.send(words);
        let question = talk.question().await;
        assert_eq!(question.tool_name, "Write");
        let agent = talk.session.tasks().agents()[number].id.0.clone();
        assert_eq!(question.agent_id.as_ref().unwrap().0, agent);
        let asked_by = question.agent.as_ref().unwrap();
        assert_eq!(asked_by.agent_type, "general-purpose");
        assert_eq!(asked_by.agent_task, "a test");
        talk.reply(&question, PermissionReply::allow());
        talk.quiet().await;
        std::fs::remove_file(place.project().join("three.txt")).unwrap();
    }
    talk.finish().await;
}

#[tokio::test]
async fn one_agent_waits_for_its_answer_while_another_goes_on() {
    let place = Place::new(writers()).await;
    let mut talk = place.open_with(asking(&place)).await;
    talk.send("both");
    let (first, second) = (talk.question().await, talk.question().await);
    let name = |question: &lathe_protocol::permission::PermissionRequest| {
        question.agent.as_ref().unwrap().agent_name.clone().unwrap()
    };
    let mut names = [name(&first), name(&second)];
    names.sort();
    assert_eq!(names, ["one.txt", "two.txt"]);
    // The later one is answered first, and its agent comes to its end.
    talk.reply(&second, PermissionReply::allow());
    let (ended, status) = talk.task_end().await;
    assert_eq!(status, TaskStatus::Completed);
    assert_eq!(second.agent_id.as_ref().unwrap().0, ended);
    assert!(place.project().join(name(&second)).exists());
    assert!(!place.project().join(name(&first)).exists());
    let deny = PermissionReply::Deny {
        message: "not this one".to_owned(),
        interrupt: false,
        extra: lathe_protocol::Extra::new(),
    };
    talk.reply(&first, deny);
    talk.quiet().await;
    let agents = talk.session.tasks().agents();
    let refused = agents
        .iter()
        .find(|agent| agent.id.0 == first.agent_id.as_ref().unwrap().0);
    assert!(refused.unwrap().result.contains("not this one"));
    talk.finish().await;
}

#[tokio::test]
async fn without_anybody_to_ask_the_refusal_names_the_rule_that_would_allow_it() {
    let place = Place::new(writers()).await;
    let mut nobody = asking(&place);
    nobody.permissions.answerer = Answerer::Nobody;
    let mut denying = asking(&place);
    let settings = json!({"permissions": {"denyInsteadOfPrompting": true}});
    denying.settings.flags.push(settings.to_string());
    for options in [nobody, denying] {
        let mut talk = place.open_with(options).await;
        talk.send("in the background");
        let results = talk.quiet().await;
        assert_eq!(results.last().unwrap().text, "heard");
        let told = talk.session.tasks().agents()[0].result.clone();
        assert!(told.contains("there is no user to ask"), "{told}");
        assert!(told.contains(r#"--allowedTools "Edit""#), "{told}");
        talk.finish().await;
    }
    assert!(!place.project().join("three.txt").exists());
}

#[tokio::test]
async fn an_agent_that_is_stopped_takes_its_question_back() {
    let place = Place::new(writers()).await;
    let mut talk = place.open_with(asking(&place)).await;
    talk.send("in the background");
    let question = talk.question().await;
    let agent = question.agent_id.as_ref().unwrap();
    assert_eq!(talk.session.tasks().kill_agents(), 1, "{agent}");
    loop {
        if let Event::PermissionResolved {
            request_id, reply, ..
        } = talk.event().await
        {
            assert_eq!((request_id, reply), (question.request_id.clone(), None));
            break;
        }
    }
    let (ended, status) = talk.task_end().await;
    assert_eq!(
        (ended.as_str(), status),
        (agent.0.as_str(), TaskStatus::Stopped)
    );
    talk.finish().await;
}

#[tokio::test]
async fn an_agent_writes_to_the_main_conversation_and_is_not_taken_for_the_user() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "report early") {
            if request.last_results().is_empty() {
                let message =
                    json!({"to": "main", "message": "half of it is done", "summary": "half"});
                Reply::tool_use("SendMessage", message)
            } else {
                Reply::text(format!("sent: {}", request.last_tool_result()))
            }
        } else if request.last_user_text().contains("half of it is done") {
            Reply::text("noted")
        } else if request.last_user_text().contains("<task-notification>") {
            Reply::text("heard")
        } else if request.last_results().is_empty() {
            order("report early", json!({"name": "early"}))
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.send("go");
    talk.quiet().await;
    let told = talk.session.tasks().agents()[0].result.clone();
    assert!(told.contains("Sent to the main conversation"), "{told}");
    let requests = place.requests_of("go");
    let got = requests
        .iter()
        .map(whole)
        .find(|text| text.contains("half of it is done"));
    let got = got.unwrap();
    assert!(
        got.contains("<agent-message>") && got.contains("(early), which is not the user"),
        "{got}"
    );
    talk.finish().await;
}

#[tokio::test]
async fn an_agent_is_reminded_with_every_request_of_what_its_definition_says() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "look") {
            match request.messages().len() {
                1 | 2 => Reply::tool_use("Glob", json!({"pattern": "*"})),
                _ => Reply::text("looked"),
            }
        } else if request.last_results().is_empty() {
            order(
                "look",
                json!({"subagent_type": "careful", "run_in_background": false}),
            )
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    place.agent(
        "careful",
        "criticalSystemReminder: never touch vendor/",
        "You are careful.",
    );
    let mut talk = place.open().await;
    talk.say("go").await;
    let requests = place.requests_of("look");
    for (number, request) in requests.iter().enumerate() {
        let found = whole(request).matches("never touch vendor/").count();
        assert_eq!(found, number + 1);
    }
    assert!(requests.len() >= 2);
    let main = whole(place.requests_of("go").last().unwrap());
    assert!(!main.contains("never touch vendor/"));
    talk.finish().await;
}

#[tokio::test]
async fn an_agent_whose_type_is_gone_continues_as_the_general_one_and_that_is_said() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "count") {
            Reply::text("three")
        } else if request.last_user_text().contains("again") && request.last_results().is_empty() {
            Reply::tool_use(
                "SendMessage",
                json!({"to": "counter", "message": "once more"}),
            )
        } else if request.last_user_text().contains("start") && request.last_results().is_empty() {
            order(
                "count",
                json!({"subagent_type": "abacus", "name": "counter", "run_in_background": false}),
            )
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    place.agent("abacus", "tools: Read", "You count.");
    let mut talk = place.open().await;
    talk.say("start").await;
    talk.finish().await;
    std::fs::remove_file(place.config().join("agents/abacus.md")).unwrap();
    let mut talk = place.resume().await;
    talk.send("again");
    talk.quiet().await;
    let main = whole(place.requests_of("start").last().unwrap());
    let note = "Its type abacus no longer exists, so it continues as general-purpose.";
    assert!(main.contains(note), "{main}");
    let woken = place.requests_of("count").pop().unwrap();
    assert!(whole(&woken).contains("once more"));
    assert!(woken.tool_names().len() > 3, "{:?}", woken.tool_names());
    talk.finish().await;
}

#[tokio::test]
async fn an_agent_with_a_worktree_changes_nothing_in_the_project() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "change it") {
            match request.last_results().len() {
                0 => Reply::tool_use("Write", json!({"file_path": "new.txt", "content": "x"})),
                _ => Reply::text("changed"),
            }
        } else if request.last_results().is_empty() {
            order(
                "change it",
                json!({"isolation": "worktree", "run_in_background": false}),
            )
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(arguments)
            .current_dir(place.project())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "one"]);
    let mut talk = place.open_with(place.trusting_options()).await;
    talk.say("start it").await;
    assert!(!place.project().join("new.txt").exists());
    let note = talk.session.tasks().agents()[0].worktree.clone().unwrap();
    assert!(note.contains(".lathe/worktrees/agent-"), "{note}");
    let first = whole(&place.requests_of("change it")[0]);
    assert!(first.contains("your own git worktree"), "{first}");
    talk.finish().await;
}

#[tokio::test]
async fn an_agent_whose_empty_worktree_was_removed_gets_a_new_one_when_it_is_woken() {
    let scenario = Scenario::new().responder(|request| {
        let text = request.last_user_text();
        if begins(request, "only look") {
            if text.contains("now write") {
                Reply::tool_use("Write", json!({"file_path": "new.txt", "content": "x"}))
            } else if request.last_results().is_empty() {
                Reply::text("looked")
            } else {
                Reply::text("written")
            }
        } else if text.contains("<task-notification>") {
            Reply::text("heard")
        } else if text.contains("wake it") && request.last_results().is_empty() {
            Reply::tool_use(
                "SendMessage",
                json!({"to": "looker", "message": "now write"}),
            )
        } else if request.last_results().is_empty() {
            order(
                "only look",
                json!({"name": "looker", "isolation": "worktree", "run_in_background": false}),
            )
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    for arguments in [
        &["init", "--quiet"][..],
        &["commit", "--quiet", "--allow-empty", "-m", "one"],
    ] {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(arguments)
            .current_dir(place.project())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let mut talk = place.open_with(place.trusting_options()).await;
    talk.say("start it").await;
    let id = talk.session.tasks().agents()[0].id.0.clone();
    let worktree = place.project().join(format!(".lathe/worktrees/agent-{id}"));
    assert!(!worktree.exists(), "nothing was in it");
    talk.finish().await;
    // Another process takes it up: the agent is still one that works for itself.
    let mut talk = place.resume().await;
    talk.send("wake it");
    let results = talk.quiet().await;
    assert_eq!(results.last().unwrap().text, "heard");
    assert!(!place.project().join("new.txt").exists());
    assert!(worktree.join("new.txt").exists());
    let told = whole(&place.requests_of("only look").pop().unwrap());
    assert!(told.contains("had been removed"), "{told}");
    talk.finish().await;
}

#[tokio::test]
async fn hooks_hear_of_an_agents_start_and_end_and_its_own_hooks_hold_only_there() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "do it") {
            if request.last_results().is_empty() {
                Reply::tool_use("Read", json!({"file_path": "a.txt"}))
            } else {
                Reply::text("did it")
            }
        } else {
            match request.last_results().len() {
                0 => order(
                    "do it",
                    json!({"subagent_type": "hooked", "run_in_background": false}),
                ),
                _ if whole(request).contains("read here") => Reply::text("ok"),
                _ => Reply::tool_use("Read", json!({"file_path": "a.txt", "limit": 1}))
                    .with_text("read here"),
            }
        }
    });
    let mut place = Place::new(scenario).await;
    let log = place.root().join("log");
    let note = |word: &str| {
        json!([{"hooks": [{"type": "command",
            "command": format!("printf '%s %s\\n' {word} \"$(cat | grep -o '\"agent_type\":\"[a-z]*\"' | head -n 1)\" >> {}", log.display())}]}])
    };
    place.settings = json!({"hooks": {
        "SubagentStart": note("start"), "SubagentStop": note("stop"), "Stop": note("main"),
    }});
    place.agent(
        "hooked",
        &format!(
            "hooks:\n  PreToolUse:\n    - matcher: Read\n      hooks:\n        - type: command\n          command: echo own >> {}",
            log.display()
        ),
        "You do it.",
    );
    std::fs::write(place.project().join("a.txt"), "a\nb\n").unwrap();
    let mut talk = place.open().await;
    talk.say("start it").await;
    talk.finish().await;
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "start \"agent_type\":\"hooked\"",
            "own",
            "stop \"agent_type\":\"hooked\"",
            "main"
        ]
    );
}

#[tokio::test]
async fn an_agent_that_is_stopped_or_fails_says_so() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "never ends") {
            Reply::never_answer()
        } else if begins(request, "breaks") {
            Reply::error_with(400, "invalid_request_error", "no such thing")
        } else if request.last_user_text().contains("let one break")
            && request.last_results().is_empty()
        {
            // The end of the stopped one came with these words.
            order("breaks", json!({}))
        } else if request.last_user_text().contains("<task-notification>") {
            Reply::text("heard")
        } else if request.last_results().is_empty() {
            order("never ends", json!({}))
        } else {
            Reply::text("started")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.say("start it").await;
    let id = talk.session.tasks().agents()[0].id.0.clone();
    talk.session.tasks().stop(&id).await.unwrap();
    assert_eq!(talk.task_end().await, (id.clone(), TaskStatus::Stopped));
    assert_eq!(talk.session.tasks().agents()[0].status, AgentStatus::Killed);
    assert!(
        talk.session
            .tasks()
            .stop(&id)
            .await
            .unwrap_err()
            .to_string()
            .contains("is no longer running")
    );
    talk.send("let one break");
    let results = talk.quiet().await;
    assert_eq!(results.last().unwrap().text, "heard");
    let failed = &talk.session.tasks().agents()[1];
    assert_eq!(failed.status, AgentStatus::Failed);
    assert!(failed.result.contains("no such thing"), "{}", failed.result);
    // The model learnt of both.
    let all = whole(&place.requests_of("start it").pop().unwrap());
    assert!(all.contains("<status>killed</status>") && all.contains("<status>failed</status>"));
    talk.finish().await;
}

#[tokio::test]
async fn a_task_that_is_not_there_is_said_with_those_that_are() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "look") {
            Reply::text("looked")
        } else {
            match whole(request).matches("\"type\":\"tool_use\"").count() {
                0 => order(
                    "look",
                    json!({"name": "looker", "run_in_background": false}),
                ),
                1 => Reply::tool_use("TaskOutput", json!({"task_id": "nobody"})),
                2 => Reply::tool_use("TaskStop", json!({"task_id": "nobody"})),
                _ => Reply::text("ok"),
            }
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.say("start it").await;
    let requests = place.requests_of("start it");
    for request in &requests[2..] {
        let said = request.last_tool_result();
        assert!(
            said.contains("no background task \"nobody\"") && said.contains("(looker)"),
            "{said}"
        );
    }
    assert_eq!(requests.len(), 4);
    talk.finish().await;
}

#[tokio::test]
async fn a_session_that_died_knows_its_agents_when_it_is_taken_up() {
    let scenario = Scenario::new().responder(|request| {
        let text = request.last_user_text();
        if begins(request, "never ends") {
            if text.contains("go on") {
                Reply::text("finished after all")
            } else {
                Reply::never_answer()
            }
        } else if text.contains("<task-notification>") {
            Reply::text("heard")
        } else if text.contains("wake it") && request.last_results().is_empty() {
            assert!(
                whole(request).contains("SendMessage resumes one"),
                "the model was told"
            );
            Reply::tool_use("SendMessage", json!({"to": "sleeper", "message": "go on"}))
        } else if request.last_results().is_empty() {
            order("never ends", json!({"name": "sleeper"}))
        } else {
            Reply::text("started")
        }
    });
    let place = Place::new(scenario).await;
    let mut options = place.options();
    // The user leaves: nobody waits for the agent.
    options.interactive = true;
    let mut talk = place.open_with(options).await;
    talk.say("start it").await;
    let paths = lathe_session::SessionPaths::of_transcript(talk.session.transcript());
    let id = lathe_protocol::ids::AgentId(talk.session.tasks().agents()[0].id.0.clone());
    talk.finish().await;
    // As the file stands when the process is killed: it still says that the agent works.
    let meta = paths.agent_meta(&id);
    let text = std::fs::read_to_string(&meta).unwrap();
    assert!(text.contains(r#""status":"killed""#), "{text}");
    let text = text.replace(r#""status":"killed""#, r#""status":"running""#);
    std::fs::write(&meta, text).unwrap();

    let mut talk = place.resume().await;
    assert!(
        talk.remarks[0].text.contains("1 agent(s)"),
        "{:?}",
        talk.remarks
    );
    assert_eq!(talk.session.tasks().agents()[0].status, AgentStatus::Killed);
    talk.send("wake it");
    let results = talk.quiet().await;
    assert_eq!(results.last().unwrap().text, "heard");
    assert_eq!(
        talk.session.tasks().agents()[0].result,
        "finished after all"
    );
    talk.finish().await;
    // It is told only once.
    let talk = place.resume().await;
    assert_eq!(talk.remarks, Vec::new());
    talk.finish().await;
    assert_eq!(place.server.problems(), Vec::<String>::new());
}
