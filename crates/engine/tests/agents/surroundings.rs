//! The surroundings of an agent: servers of its own, instructions of folders, a review of its work; and how
//! it is asked for.

use crate::support::{Place, begins, whole};
use lathe_protocol::command::Invocation;
use lathe_protocol::event::{Event, NoticeLevel, TaskNotice};
use lathe_protocol::op::Op;
use lathe_protocol::permission::PermissionMode;
use lathe_scripted::{Position, RecordedRequest, Reply, Scenario};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn order(kind: &str, prompt: &str) -> Reply {
    Reply::tool_use(
        "Agent",
        json!({
            "description": "a job", "prompt": prompt, "subagent_type": kind,
            "run_in_background": false,
        }),
    )
}

/// A local server with habits, written in Python.
fn server(habits: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/fixtures/server.py");
    let mut args = vec![script.canonicalize().unwrap().display().to_string()];
    args.extend(habits.iter().map(|habit| (*habit).to_owned()));
    json!({"command": "python3", "args": args})
}

fn offered(request: &RecordedRequest) -> Vec<String> {
    request
        .tool_names()
        .into_iter()
        .filter(|name| name.starts_with("mcp__"))
        .map(str::to_owned)
        .collect()
}

/// Answers an agent that asks its server for its process, and then says it.
fn with_server(server: &'static str) -> Scenario {
    Scenario::new().responder(move |request| {
        if begins(request, "use your server") {
            if request.last_results().is_empty() {
                Reply::tool_use(format!("mcp__{server}__pid"), json!({}))
            } else {
                Reply::text(format!("pid {}", request.last_tool_result()))
            }
        } else if request.last_results().is_empty() {
            order("served", "use your server")
        } else {
            Reply::text("ok")
        }
    })
}

#[tokio::test]
async fn a_server_of_an_agents_own_lives_as_long_as_the_agent() {
    let place = Place::new(with_server("own")).await;
    let servers = json!([{"own": server(&[]), "broken": {"command": "/nowhere/at-all"}}]);
    place.agent(
        "served",
        &format!("tools: Read\ndisallowedTools: mcp__own__die\nmcpServers: {servers}"),
        "You have a server.",
    );
    let mut talk = place.open().await;
    talk.send("go");
    let mut warnings = Vec::new();
    loop {
        match talk.event().await {
            Event::Notice {
                level: NoticeLevel::Warning,
                text,
                ..
            } => warnings.push(text),
            Event::TurnFinished(_) => break,
            _ => {}
        }
    }
    assert!(
        warnings
            .iter()
            .any(|text| text.contains("works without the MCP server broken")),
        "{warnings:?}"
    );
    let agent = place.requests_of("use your server");
    let tools = offered(&agent[0]);
    assert!(tools.contains(&"mcp__own__echo".to_owned()), "{tools:?}");
    assert!(!tools.contains(&"mcp__own__die".to_owned()), "{tools:?}");
    assert!(
        whole(&agent[0]).contains("The MCP server broken can't be used"),
        "the agent knows, too"
    );
    for request in place.requests_of("go") {
        assert_eq!(
            offered(&request),
            Vec::<String>::new(),
            "nobody else has it"
        );
    }
    let result = talk.session.tasks().agents()[0].result.clone();
    let pid = result.trim_start_matches("pid ").trim();
    assert!(pid.parse::<u32>().is_ok(), "{result}");
    assert!(
        !PathBuf::from(format!("/proc/{pid}")).exists(),
        "the server ends with its agent"
    );
    assert_eq!(place.server.problems(), Vec::<String>::new());
    talk.finish().await;
}

#[tokio::test]
async fn an_agent_names_a_server_of_the_session_and_keeps_it_whatever_else_it_lists() {
    let place = Place::new(with_server("db")).await;
    place.agent(
        "served",
        "tools: Read\nmcpServers: db, unheard-of",
        "You use the database.",
    );
    let mut options = place.options();
    options.mcp.configs =
        vec![json!({"mcpServers": {"db": server(&[]), "other": server(&[])}}).to_string()];
    let mut talk = place.open_with(options).await;
    talk.say("go").await;
    let agent = place.requests_of("use your server");
    let tools = offered(&agent[0]);
    assert!(tools.contains(&"mcp__db__pid".to_owned()), "{tools:?}");
    assert!(
        tools.iter().all(|name| name.starts_with("mcp__db__")),
        "{tools:?}"
    );
    assert!(whole(&agent[0]).contains("unheard-of can't be used"));
    assert!(talk.session.tasks().agents()[0].result.starts_with("pid "));
    talk.finish().await;
}

#[tokio::test]
async fn the_main_conversations_agent_brings_its_servers_too() {
    let place = Place::new(Scenario::new().responder(|_| Reply::text("ok"))).await;
    place.agent(
        "served",
        &format!("mcpServers: {}", json!([{"own": server(&[])}])),
        "You have a server.",
    );
    let mut options = place.options();
    options.extensions.agent = Some("served".to_owned());
    let mut talk = place.open_with(options).await;
    talk.say("go").await;
    let tools = offered(&place.server.message_requests()[0]);
    assert!(tools.contains(&"mcp__own__echo".to_owned()), "{tools:?}");
    talk.finish().await;
}

#[tokio::test]
async fn an_agent_that_is_asked_for_by_name_is_an_order_to_the_model() {
    let place = Place::new(Scenario::new().responder(|_| Reply::text("ok"))).await;
    let mut talk = place.open().await;
    talk.say("let @agent-Explore look at it, not mail@agent-Plan.example")
        .await;
    let request = whole(place.server.message_requests().last().unwrap());
    assert!(
        request.contains("The user asks for the agent Explore by name"),
        "{request}"
    );
    assert!(!request.contains("asks for the agent Plan"));
    talk.send("@agent-Explor please");
    loop {
        if let Event::Notice { text, .. } = talk.event().await {
            assert!(text.contains("Did you mean @agent-Explore?"), "{text}");
            break;
        }
    }
    talk.result().await;
    talk.finish().await;
}

#[tokio::test]
async fn agents_whose_files_change_are_told_at_the_end_and_the_prefix_stays() {
    let place = Place::new(Scenario::new().responder(|_| Reply::text("ok"))).await;
    place.agent("old", "", "You are old.");
    let mut talk = place.open().await;
    talk.say("one").await;
    place.agent("young", "", "You are young.");
    std::fs::remove_file(place.config().join("agents/old.md")).unwrap();
    talk.session.extensions().reload(None);
    talk.say("two").await;
    let requests = place.server.message_requests();
    let last = requests.last().unwrap();
    assert_eq!(requests[0].body["tools"], last.body["tools"]);
    let text = whole(last);
    assert!(
        text.contains("new or changed since the Agent tool was described:\\n- young: for tests"),
        "{text}"
    );
    assert!(text.contains("Removed types of agents:\\n- old"), "{text}");
    talk.say("three").await;
    let all = whole(place.server.message_requests().last().unwrap());
    assert_eq!(all.matches("- young: for tests").count(), 1, "once");
    assert!(talk.session.extensions().agents().get("young").is_some());
    assert_eq!(place.server.problems(), Vec::<String>::new());
    talk.finish().await;
}

#[tokio::test]
async fn a_new_agent_file_is_noticed_while_the_session_runs() {
    let place = Place::new(Scenario::new().responder(|_| Reply::text("ok"))).await;
    place.agent("first", "", "You are first.");
    let mut talk = place.open().await;
    talk.say("one").await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut tries = 0;
    while talk.session.extensions().agents().get("second").is_none() {
        assert!(std::time::Instant::now() < deadline, "it is never noticed");
        // Watching is set up beside everything else, so the first change may come too early.
        tries += 1;
        place.agent("second", "", &format!("You are second ({tries})."));
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    }
    talk.say("two").await;
    let text = whole(place.server.message_requests().last().unwrap());
    assert!(text.contains("- second: for tests"), "{text}");
    talk.finish().await;
}

#[tokio::test]
async fn instructions_of_a_folder_reach_an_agent_that_works_there() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "look there") {
            if request.last_results().is_empty() {
                Reply::tool_use("Read", json!({"file_path": "part/a.txt"}))
            } else {
                Reply::text("seen")
            }
        } else if request.last_results().is_empty() {
            let kind = if request.last_user_text().contains("start a bare one") {
                "Explore"
            } else {
                "general-purpose"
            };
            order(kind, "look there")
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    let part = place.project().join("part");
    std::fs::create_dir(&part).unwrap();
    std::fs::write(part.join("a.txt"), "a\n").unwrap();
    std::fs::write(part.join("CLAUDE.md"), "Tabs, never blanks.\n").unwrap();
    let mut talk = place.open().await;
    talk.say("start it").await;
    let request = whole(place.requests_of("look there").last().unwrap());
    assert!(request.contains("Tabs, never blanks."), "{request}");
    talk.say("start a bare one").await;
    let request = whole(place.requests_of("look there").last().unwrap());
    assert!(!request.contains("Tabs, never blanks."), "{request}");
    talk.finish().await;
}

#[tokio::test]
async fn in_auto_mode_an_agents_work_is_looked_over_before_it_is_handed_on() {
    let scenario = Scenario::new().responder(|request| {
        let system = request.body["system"].to_string();
        if system.contains("sub-agent") && whole(request).contains("actions") {
            Reply::text(r#"{"verdict": "deny", "reason": "it read a key that nobody asked for"}"#)
        } else if begins(request, "tidy up") {
            if request.last_results().is_empty() {
                Reply::tool_use("Read", json!({"file_path": "a.txt"}))
            } else {
                Reply::text("tidy")
            }
        } else if request.last_results().is_empty() {
            order("general-purpose", "tidy up")
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    std::fs::write(place.project().join("a.txt"), "a\n").unwrap();
    let mut options = place.options();
    options.permissions.mode = Some(PermissionMode::Auto);
    let mut talk = place.open_with(options).await;
    let result = talk.say("start it").await;
    assert!(!result.is_error, "{result:?}");
    let told = whole(&place.requests_of("start it").pop().unwrap());
    assert!(
        told.contains("Careful with this agent's work: it read a key that nobody asked for"),
        "{told}"
    );
    assert!(told.contains("tidy"));
    talk.finish().await;
}

#[tokio::test]
async fn faces_learn_that_an_agent_went_to_the_background_and_lists_show_it() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "work on it") {
            Reply::text("late result").gate(Position::Start, "agent")
        } else if request.last_results().is_empty()
            && !request.last_user_text().contains("<task-notification>")
        {
            order("general-purpose", "work on it")
        } else {
            Reply::text("goes on")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.send("start it");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        if let Event::Task(TaskNotice::Started {
            task_id,
            is_backgrounded,
            ..
        }) = talk.event().await
        {
            if seen.is_empty() {
                talk.session.send(Op::Background { tool_use_id: None });
            }
            seen.push((task_id, is_backgrounded));
        }
    }
    assert_eq!(seen[0].0, seen[1].0);
    assert_eq!((seen[0].1, seen[1].1), (false, true));
    talk.result().await;
    let listed = {
        let command = Invocation::parse("/tasks").unwrap();
        lathe_commands::run(&talk.session, &command).await
    };
    let lathe_commands::CommandOutcome::Answer(text) = listed else {
        panic!("{listed:?}");
    };
    assert!(
        text.contains("running agent general-purpose: a job"),
        "{text}"
    );
    place.server.gate("agent").release();
    talk.quiet().await;
    talk.finish().await;
}

/// Lets an agent of a kind make calls, one after the other, in a session that allows everything. Gives
/// what came back of each.
async fn tried(kind: &'static str, front: &str, calls: Vec<(&'static str, Value)>) -> Vec<String> {
    let most = calls.len();
    let scenario = Scenario::new().responder(move |request| {
        let done = request
            .messages()
            .iter()
            .filter(|message| message["role"] == "assistant")
            .count();
        if !begins(request, "try it") {
            if request.last_results().is_empty() {
                order(kind, "try it")
            } else {
                Reply::text("ok")
            }
        } else if done < most {
            let (tool, input) = calls[done].clone();
            Reply::tool_use(tool, input)
        } else {
            Reply::text("tried")
        }
    });
    let place = Place::new(scenario).await;
    if !front.is_empty() {
        place.agent(kind, front, "You try.");
    }
    let mut talk = place.open().await;
    talk.say("go").await;
    let mut requests = place.requests_of("try it");
    requests.remove(0);
    let results = requests.iter().map(RecordedRequest::last_tool_result);
    let results = results.collect();
    talk.finish().await;
    results
}

#[tokio::test]
async fn agents_that_only_read_do_so_where_everything_is_allowed() {
    let calls = || {
        vec![
            ("Bash", json!({"command": "echo x > written.txt"})),
            ("Bash", json!({"command": "ls"})),
        ]
    };
    for kind in ["Explore", "Plan"] {
        let results = tried(kind, "", calls()).await;
        assert!(results[0].contains("only reads"), "{kind}: {results:?}");
        assert_eq!(results[1], "(no output)", "{kind}: nothing was written");
    }
    let results = tried("reader", "readOnly: true", calls()).await;
    assert!(results[0].contains("only reads"), "{results:?}");
}

#[tokio::test]
async fn the_small_model_is_the_one_that_settings_name() {
    let scenario = Scenario::new().responder(|request| {
        if !begins(request, "look") && request.last_results().is_empty() {
            order("Explore", "look")
        } else {
            Reply::text("ok")
        }
    });
    let mut place = Place::new(scenario).await;
    place.settings = json!({"smallModel": "tiny"});
    let mut talk = place.open().await;
    talk.say("go").await;
    assert_eq!(place.requests_of("look")[0].body["model"], "tiny");
    talk.finish().await;
}

#[tokio::test]
async fn uses_of_a_tool_that_a_definition_names_are_all_that_an_agent_has() {
    let results = tried(
        "careful",
        "tools: Bash(mkdir *), Read\nmemory: user",
        vec![
            ("Bash", json!({"command": "touch a"})),
            ("Bash", json!({"command": "mkdir b"})),
            ("Write", json!({"file_path": "c.txt", "content": "c"})),
            ("Bash", json!({"command": "ls"})),
        ],
    )
    .await;
    assert!(results[0].contains("Bash(mkdir *)"), "{results:?}");
    assert!(
        results[2].contains("of Write this agent has only"),
        "what it has for its memory is for that alone: {results:?}"
    );
    assert_eq!(results[3], "b");
}

#[tokio::test]
async fn an_agent_with_a_memory_can_write_it_whatever_tools_it_lists() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "keep it") {
            if request.last_results().is_empty() {
                let system = request.system_text();
                let folder = system.split("is kept in ").nth(1).unwrap();
                let folder = folder.split(". ").next().unwrap();
                let file = format!("{folder}/MEMORY.md");
                Reply::tool_use(
                    "Write",
                    json!({"file_path": file, "content": "- pears are green\n"}),
                )
            } else {
                Reply::text(request.last_tool_result())
            }
        } else if request.last_results().is_empty() {
            order("keeper", "keep it")
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    place.agent("keeper", "tools: Grep\nmemory: user", "You keep.");
    let mut options = place.options();
    options.permissions.mode = Some(PermissionMode::Default);
    let mut talk = place.open_with(options).await;
    talk.say("go").await;
    let kept = place.config().join("agent-memory/keeper/MEMORY.md");
    assert_eq!(
        std::fs::read_to_string(kept)
            .unwrap_or_else(|_| talk.session.tasks().agents()[0].result.clone()),
        "- pears are green\n"
    );
    talk.finish().await;
}
