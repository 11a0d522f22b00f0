//! The task list with ids, watched commands, and the agent that leads a conversation.

use crate::support::{Place, begins, whole};
use lathe_protocol::permission::PermissionMode;
use lathe_scripted::{Reply, Scenario};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn a_task_list_outlives_the_session_and_hooks_may_object() {
    let scenario = Scenario::new().responder(|request| {
        let text = request.last_user_text();
        if !request.last_results().is_empty() {
            return Reply::text(request.last_tool_result());
        }
        if text.contains("add two") {
            Reply::tool_use(
                "TaskCreate",
                json!({"subject": "first", "description": "d"}),
            )
            .with_tool_use(
                "TaskCreate",
                json!({"subject": "second", "description": "d"}),
            )
            .with_tool_use("TaskUpdate", json!({"taskId": "2", "addBlockedBy": ["1"]}))
        } else if text.contains("finish") {
            Reply::tool_use("TaskUpdate", json!({"taskId": "1", "status": "completed"}))
        } else {
            Reply::tool_use("TaskList", json!({}))
        }
    });
    let mut place = Place::new(scenario).await;
    place.variables = vec![("LATHE_ENABLE_TASKS".to_owned(), "1".to_owned())];
    let mut talk = place.open().await;
    let result = talk.say("add two").await;
    assert!(
        result.text.contains("Task #2 updated: blockedBy"),
        "{}",
        result.text
    );
    let names = talk.session.context().tool_names();
    assert!(names.contains(&"TaskCreate".to_owned()) && !names.contains(&"TodoWrite".to_owned()));
    talk.finish().await;
    let mut talk = place.resume().await;
    let list = talk.say("show them").await;
    assert!(
        list.text.contains("#2 [pending] second [waits for #1]"),
        "{}",
        list.text
    );
    talk.finish().await;
    place.settings = json!({"hooks": {"TaskCompleted": [{"hooks": [
        {"type": "command", "command": "echo tests fail >&2; exit 2"}
    ]}]}});
    let mut talk = place.resume().await;
    let refused = talk.say("finish").await;
    assert!(
        refused
            .text
            .contains("A hook rejected the completion of task #1: tests fail"),
        "{}",
        refused.text
    );
    talk.finish().await;
    place.settings = json!({});
    let mut talk = place.resume().await;
    talk.say("finish").await;
    let list = talk.say("show them").await;
    assert!(list.text.contains("#1 [completed] first"), "{}", list.text);
    assert!(list.text.contains("#2 [pending] second\n") || list.text.ends_with("second"));
    talk.finish().await;
}

#[tokio::test]
async fn hooks_hear_of_every_update_and_may_refuse_it() {
    let scenario = Scenario::new().responder(|request| {
        let text = request.last_user_text();
        if !request.last_results().is_empty() {
            return Reply::text(request.last_tool_result());
        }
        let update = |input| Reply::tool_use("TaskUpdate", input);
        if text.contains("add") {
            Reply::tool_use("TaskCreate", json!({"subject": "a", "description": "d"}))
                .with_tool_use("TaskCreate", json!({"subject": "b", "description": "d"}))
                .with_tool_use("TaskUpdate", json!({"taskId": "2", "addBlockedBy": ["1"]}))
        } else if text.contains("fail") {
            update(json!({"taskId": "1", "status": "failed", "owner": "ana"}))
        } else if text.contains("cancel") {
            update(json!({"taskId": "1", "status": "cancelled"}))
        } else if text.contains("nobody") {
            update(json!({"taskId": "9", "status": "cancelled"}))
        } else {
            Reply::tool_use("TaskList", json!({}))
        }
    });
    let mut place = Place::new(scenario).await;
    place.variables = vec![("LATHE_ENABLE_TASKS".to_owned(), "1".to_owned())];
    let heard = place.project().join("heard");
    let refuse = format!(
        "cat > {0}; grep -q cancelled {0} && {{ echo keep it >&2; exit 2; }}; cat {0} >> {0}.all; echo >> {0}.all",
        heard.display()
    );
    place.settings = json!({"hooks": {"TaskUpdated": [{"hooks": [
        {"type": "command", "command": refuse}
    ]}]}});
    let mut talk = place.open().await;
    talk.say("add two").await;
    talk.say("it did fail").await;
    let list = talk.say("show them").await;
    assert!(
        list.text.contains("#1 [failed] a (ana)")
            && list.text.contains("#2 [pending] b [waits for #1]"),
        "{}",
        list.text
    );
    let refused = talk.say("cancel it").await;
    assert!(
        refused
            .text
            .contains("A hook rejected the change of task #1: keep it"),
        "{}",
        refused.text
    );
    let list = talk.say("show them").await;
    assert!(list.text.contains("#1 [failed] a"), "{}", list.text);
    let unknown = talk.say("nobody").await;
    assert!(
        unknown.text.contains("There is no task 9"),
        "{}",
        unknown.text
    );
    talk.finish().await;
    let lines = std::fs::read_to_string(format!("{}.all", heard.display())).unwrap();
    let inputs: Vec<serde_json::Value> = lines
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(inputs.len(), 2, "{lines}");
    assert_eq!(inputs[0]["updated_fields"], json!(["blockedBy"]));
    assert_eq!(inputs[0]["blocked_by"], json!(["1"]));
    assert_eq!(inputs[1]["previous_status"], "pending");
    assert_eq!(inputs[1]["status"], "failed");
    assert_eq!(inputs[1]["owner"], "ana");
    place.settings = json!({});
    let mut talk = place.resume().await;
    talk.say("cancel it").await;
    let list = talk.say("show them").await;
    assert!(
        list.text.contains("#1 [cancelled] a") && list.text.ends_with("#2 [pending] b"),
        "what is cancelled holds nothing up: {}",
        list.text
    );
    talk.finish().await;
}

#[tokio::test]
async fn a_list_of_todos_goes_on_as_tasks_and_agents_that_name_either_have_it() {
    let scenario = Scenario::new().responder(|request| {
        let text = request.last_user_text();
        if !request.last_results().is_empty() {
            return Reply::text(request.last_tool_result());
        }
        if begins(request, "which tools") {
            Reply::text(request.tool_names().join(" "))
        } else if text.contains("note") {
            let todos = json!({"todos": [
                {"content": "Saw it", "status": "completed", "activeForm": "Sawing"},
                {"content": "Glue it", "status": "in_progress", "activeForm": "Gluing"},
            ]});
            Reply::tool_use("TodoWrite", todos)
        } else if text.contains("agent") {
            Reply::tool_use(
                "Agent",
                json!({"description": "d", "prompt": "which tools", "subagent_type": "keeper", "run_in_background": false}),
            )
        } else {
            Reply::tool_use("TaskList", json!({}))
        }
    });
    let mut place = Place::new(scenario).await;
    place.agent("keeper", "tools: Read, TodoWrite", "You keep.");
    let mut talk = place.open().await;
    talk.say("note it").await;
    talk.finish().await;
    place.variables = vec![("LATHE_ENABLE_TASKS".to_owned(), "1".to_owned())];
    let mut talk = place.resume().await;
    let list = talk.say("show them").await;
    assert!(
        list.text
            .contains("#1 [completed] Saw it\n#2 [in_progress] Glue it"),
        "{}",
        list.text
    );
    let told = talk.say("ask the agent").await;
    assert!(
        told.text
            .contains("Read TaskCreate TaskGet TaskList TaskUpdate"),
        "{}",
        told.text
    );
    talk.finish().await;
}

#[tokio::test]
async fn the_prompt_names_the_task_list_that_is_there() {
    let scenario = Scenario::new().responder(|_| Reply::text("ok"));
    let mut place = Place::new(scenario).await;
    let mut told = Vec::new();
    for (switch, only) in [("0", None), ("1", None), ("1", Some("Read"))] {
        place.variables = vec![("LATHE_ENABLE_TASKS".to_owned(), switch.to_owned())];
        let mut options = place.options();
        options.tools.only = only.map(|name| vec![name.to_owned()]);
        let mut talk = place.open_with(options).await;
        talk.say("go").await;
        talk.finish().await;
        let request = place.server.message_requests().pop().unwrap();
        let text = request.system_text();
        let line = text.lines().find(|line| line.contains("task list"));
        told.push(line.map(|line| line.rsplit("current with ").next().unwrap().to_owned()));
    }
    assert_eq!(
        told,
        [
            Some("TodoWrite.".to_owned()),
            Some("TaskCreate and TaskUpdate.".to_owned()),
            None
        ]
    );
}

#[tokio::test]
async fn lines_of_a_watched_command_reach_the_conversation() {
    let scenario = Scenario::new().responder(|request| {
        let text = request.last_user_text();
        if text.contains("<task-notification>") {
            return Reply::text("noted");
        }
        if request.last_results().is_empty() {
            Reply::tool_use(
                "Monitor",
                json!({
                    "command": "echo nothing; echo error one; echo error two",
                    "pattern": "error", "description": "errors",
                }),
            )
        } else {
            Reply::text("watching")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.send("watch it");
    // The lines, and the end of the command, in one turn or two.
    let mut all = String::new();
    while !(all.contains("error two") && all.contains("<status>completed</status>")) {
        talk.result().await;
        all = whole(&place.requests_of("watch it").pop().unwrap());
    }
    assert!(!all.contains("nothing\\nerror"), "{all}");
    talk.finish().await;
}

#[tokio::test]
async fn a_watched_command_that_only_seems_to_read_is_confined() {
    let scenario = Scenario::new().responder(|request| {
        if request.last_user_text().contains("<task-notification>") {
            return Reply::text("noted");
        }
        if request.last_results().is_empty() {
            Reply::tool_use("Monitor", json!({"command": "wc -l notes.txt"}))
        } else {
            Reply::text("watching")
        }
    });
    let mut place = Place::new(scenario).await;
    // It is not what the analyser takes it for.
    let tools = place.root().join("tools");
    std::fs::create_dir_all(&tools).unwrap();
    let program = tools.join("wc");
    std::fs::write(
        &program,
        "#!/bin/sh\necho gone > notes.txt || exit 1\necho \"key: $SOME_API_KEY\"\n",
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(place.project().join("notes.txt"), "notes\n").unwrap();
    place.variables = vec![
        (
            "PATH".to_owned(),
            format!("{}:/usr/bin:/bin", tools.display()),
        ),
        ("SOME_API_KEY".to_owned(), "canary".to_owned()),
    ];
    let mut options = place.options();
    options.permissions.mode = Some(PermissionMode::Default);
    let mut talk = place.open_with(options).await;
    talk.send("watch it");
    let mut all = String::new();
    while !(all.contains("<status>completed") || all.contains("<status>failed")) {
        talk.result().await;
        all = whole(&place.requests_of("watch it").pop().unwrap());
    }
    assert!(!all.contains("canary"), "{all}");
    let notes = std::fs::read_to_string(place.project().join("notes.txt")).unwrap();
    assert_eq!(notes, "notes\n", "{all}");
    talk.finish().await;
}

#[tokio::test]
async fn the_main_conversation_runs_as_an_agent() {
    let scenario = Scenario::new().responder(|_| Reply::text("ok"));
    let place = Place::new(scenario).await;
    place.agent("lead", "tools: Read, Agent(helper)", "You lead.");
    place.agent("helper", "", "You help.");
    let mut options = place.options();
    options.extensions.agent = Some("lead".to_owned());
    let mut talk = place.open_with(options).await;
    talk.say("go").await;
    let request = place.server.message_requests().pop().unwrap();
    assert!(request.system_text().starts_with("You lead."));
    assert_eq!(request.tool_names(), ["Agent", "Read"]);
    assert!(
        !whole(&request).contains("Skill tool"),
        "what it doesn't have isn't spoken of"
    );
    talk.finish().await;
    let mut options = place.options();
    options.extensions.agent = Some("nobody".to_owned());
    let error = lathe_engine::open(place.environment(), options).await;
    let error = error.err().unwrap().to_string();
    assert!(
        error.contains("there is no agent nobody") && error.contains("helper"),
        "{error}"
    );
}

#[tokio::test]
async fn an_agent_of_the_main_conversation_has_its_limits_and_its_skills_too() {
    let scenario = Scenario::new().responder(|request| {
        if request.last_results().is_empty() {
            Reply::blocks(vec![
                json!({"type": "tool_use", "name": "Bash", "input": {"command": "mkdir made"}}),
                json!({"type": "tool_use", "name": "Bash", "input": {"command": "touch touched"}}),
            ])
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    let skill = place.config().join("skills/paint");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: paint\ndescription: paints\n---\nTwo coats.\n",
    )
    .unwrap();
    place.agent(
        "lead",
        "tools: Bash(mkdir *)\nskills: [paint]\ninitialPrompt: Mind the step.",
        "You lead.",
    );
    let mut options = place.options();
    options.extensions.agent = Some("lead".to_owned());
    let mut talk = place.open_with(options).await;
    talk.say("go").await;
    let first = whole(&place.server.message_requests()[0]);
    assert!(
        first.contains("Two coats.") && first.contains("Mind the step."),
        "{first}"
    );
    assert!(place.project().join("made").exists());
    assert!(!place.project().join("touched").exists());
    talk.finish().await;
}

#[tokio::test]
async fn agents_that_a_caller_defines_count_and_their_model_is_chosen_in_order() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "who are you") {
            Reply::text("me")
        } else if request.last_results().is_empty() {
            let mut input = json!({
                "description": "d", "prompt": "who are you", "subagent_type": "mine",
                "run_in_background": false,
            });
            if request.last_user_text().contains("other") {
                input["model"] = json!("other-model");
            }
            Reply::tool_use("Agent", input)
        } else {
            Reply::text("ok")
        }
    });
    let mut place = Place::new(scenario).await;
    let definition =
        json!({"mine": {"description": "d", "prompt": "You are mine.", "model": "own-model"}});
    let mut options = place.options();
    options.extensions.agents = vec![definition.clone()];
    let mut talk = place.open_with(options).await;
    talk.say("go").await;
    talk.say("with the other model").await;
    talk.finish().await;
    place.variables = vec![("CLAUDE_CODE_SUBAGENT_MODEL".to_owned(), "forced".to_owned())];
    let mut options = place.options();
    options.extensions.agents = vec![definition];
    let mut talk = place.open_with(options).await;
    talk.say("with the other model").await;
    talk.finish().await;
    let models: Vec<String> = place
        .requests_of("who are you")
        .iter()
        .map(|request| request.model().to_owned())
        .collect();
    assert_eq!(models, ["own-model", "other-model", "forced"]);
}

#[tokio::test]
async fn an_agent_keeps_its_memory() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "recall it now") {
            Reply::text("I do")
        } else if request.last_results().is_empty() {
            Reply::tool_use(
                "Agent",
                json!({
                    "description": "d", "prompt": "recall it now", "subagent_type": "keeper",
                    "run_in_background": false,
                }),
            )
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    place.agent("keeper", "memory: user", "You keep.");
    let folder = place.config().join("agent-memory/keeper");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("MEMORY.md"), "- plums are blue\n").unwrap();
    let mut talk = place.open().await;
    talk.say("go").await;
    let request = place.requests_of("recall it now").pop().unwrap();
    assert!(request.system_text().contains("plums are blue"));
    talk.finish().await;
}
