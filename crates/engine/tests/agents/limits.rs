//! Many agents, runaway agents, and agents whose session ends.

use crate::support::{Place, begins, whole};
use lathe_protocol::event::{Event, SessionState, TaskNotice};
use lathe_protocol::op::Op;
use lathe_scripted::{Position, Reply, Scenario};
use lathe_tools::host::AgentStatus;
use serde_json::json;
use std::collections::BTreeMap;

fn agents(prompts: impl IntoIterator<Item = String>) -> Reply {
    let mut reply = Reply::text("I start them.");
    for prompt in prompts {
        reply = reply.with_tool_use(
            "Agent",
            json!({"description": prompt.clone(), "prompt": prompt}),
        );
    }
    reply
}

#[tokio::test]
async fn sixteen_background_agents_finish_fail_and_are_killed_and_none_is_lost() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "job ok") {
            Reply::text("fine").wait_before_headers(lathe_scripted::Wait::Gate("ok".to_owned()))
        } else if begins(request, "job bad") {
            Reply::error_with(400, "invalid_request_error", "no")
                .wait_before_headers(lathe_scripted::Wait::Gate("ok".to_owned()))
        } else if begins(request, "job stuck") {
            Reply::never_answer()
        } else if request.last_user_text().contains("start them")
            && request.last_results().is_empty()
        {
            let kinds = (0..17).map(|number| match number % 3 {
                0 => format!("job ok {number}"),
                1 => format!("job bad {number}"),
                _ => format!("job stuck {number}"),
            });
            agents(kinds)
        } else {
            Reply::text("noted")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.send("start them");
    for _ in 0..16 {
        talk.task_start().await;
    }
    // The seventeenth has been refused when retrying the model request: before any of the others ends.
    while place.requests_of("start them").len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(talk.session.tasks().agents().len(), 16);
    place.server.gate("ok").release();
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let mut killed = false;
    let mut left = 16;
    while left > 0 {
        if let Event::Task(TaskNotice::Finished { status, .. }) = talk.event().await {
            *ends.entry(format!("{status:?}")).or_default() += 1;
            left -= 1;
        }
        if left == 5 && !killed {
            killed = true;
            assert_eq!(talk.session.tasks().kill_agents(), 5);
        }
    }
    assert_eq!(
        ends,
        BTreeMap::from([
            ("Completed".to_owned(), 6),
            ("Failed".to_owned(), 5),
            ("Stopped".to_owned(), 5)
        ])
    );
    loop {
        if let Event::StateChanged(SessionState::Idle) = talk.event().await {
            break;
        }
    }
    talk.say("what became of them?").await;
    // Every end is in the conversation, each exactly once.
    let all = whole(&place.requests_of("start them").pop().unwrap());
    assert!(
        all.contains("16 agents are running already"),
        "the seventeenth is refused"
    );
    for agent in talk.session.tasks().agents() {
        assert_ne!(agent.status, AgentStatus::Running);
        let tag = format!("<task-id>{}</task-id>", agent.id);
        assert_eq!(all.matches(&tag).count(), 1, "{}", agent.description);
    }
    let paths = lathe_session::SessionPaths::of_transcript(talk.session.transcript());
    for agent in talk.session.tasks().agents() {
        let id = lathe_protocol::ids::AgentId(agent.id.0.clone());
        let loaded = lathe_session::load(&paths.agent_transcript(&id)).unwrap();
        assert!(loaded.damaged.is_empty() && !loaded.torn_tail);
    }
    talk.finish().await;
}

#[tokio::test]
async fn agents_die_with_their_session_and_leave_no_process() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "job") {
            if request.last_results().is_empty() {
                Reply::tool_use(
                    "Bash",
                    json!({"command": "echo $$ >> pids; exec sleep 600"}),
                )
            } else {
                Reply::text("woken?")
            }
        } else if request.last_results().is_empty() {
            agents((0..4).map(|number| format!("job {number}")))
        } else {
            Reply::text("started")
        }
    });
    let place = Place::new(scenario).await;
    let mut options = place.options();
    // The user leaves: nobody waits for the agents.
    options.interactive = true;
    let mut talk = place.open_with(options).await;
    talk.say("start them").await;
    let pids = || -> Vec<u32> {
        let text = std::fs::read_to_string(place.project().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while pids().len() < 4 {
        assert!(
            std::time::Instant::now() < deadline,
            "the commands don't start"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    talk.finish().await;
    for pid in pids() {
        let alive = std::path::Path::new(&format!("/proc/{pid}")).exists();
        assert!(!alive, "{pid} is still there");
    }
    let talk = place.resume().await;
    let all = talk.session.tasks().agents();
    assert!(
        all.iter().all(|agent| agent.status == AgentStatus::Killed),
        "{all:?}"
    );
    talk.finish().await;
}

#[tokio::test]
async fn a_runaway_agent_stops_at_the_depth_and_says_why() {
    let scenario = Scenario::new().responder(|request| {
        if request.last_results().is_empty() {
            Reply::tool_use(
                "Agent",
                json!({"description": "deeper", "prompt": "deeper", "run_in_background": false}),
            )
        } else {
            Reply::text(request.last_tool_result())
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    let result = talk.say("go").await;
    assert!(result.text.contains("only 3 deep"), "{}", result.text);
    assert_eq!(talk.session.tasks().agents().len(), 3);
    talk.finish().await;
}

#[tokio::test]
async fn agents_spend_the_sessions_budget_and_stop_when_it_is_spent() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "spend") {
            // Never ends by itself: another file each time.
            let count = request.messages().len();
            Reply::tool_use("Read", json!({"file_path": format!("f{count}")}))
                .usage("input_tokens", 200_000)
        } else if request.last_results().is_empty() {
            Reply::tool_use(
                "Agent",
                json!({"description": "spend", "prompt": "spend", "run_in_background": false}),
            )
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    let mut options = place.options();
    options.limits.max_budget_usd = Some(1.0);
    let mut talk = place.open_with(options).await;
    let result = talk.say("go").await;
    let agent = &talk.session.tasks().agents()[0];
    assert_eq!(agent.status, AgentStatus::Failed);
    assert!(agent.result.contains("agents share it"), "{}", agent.result);
    // The main conversation stops for the same reason, and the user can read it.
    assert!(result.is_error);
    assert!(
        result.errors[0].contains("maximum budget ($1)"),
        "{result:?}"
    );
    assert!(
        result.total_cost_usd >= 1.0 && result.total_cost_usd < 1.5,
        "{result:?}"
    );
    talk.finish().await;
}

#[tokio::test]
async fn an_agents_own_limit_of_steps_holds() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "step") {
            let count = request.messages().len();
            Reply::tool_use("Read", json!({"file_path": format!("f{count}")}))
        } else if request.last_results().is_empty() {
            Reply::tool_use(
                "Task",
                json!({"description": "s", "prompt": "step", "subagent_type": "short", "run_in_background": false}),
            )
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    place.agent("short", "maxTurns: 3", "You take steps.");
    let mut talk = place.open().await;
    talk.say("go").await;
    assert_eq!(place.requests_of("step").len(), 3);
    let agent = &talk.session.tasks().agents()[0];
    assert!(agent.result.contains("limit of steps"), "{}", agent.result);
    talk.finish().await;
}

#[tokio::test]
async fn a_session_that_nobody_watches_ends_after_its_agents() {
    let scenario = Scenario::new().responder(|request| {
        if begins(request, "job") {
            Reply::text("fine").gate(Position::Start, "ok")
        } else if request.last_user_text().contains("<task-notification>") {
            Reply::text("now I am done")
        } else if request.last_results().is_empty() {
            agents(["job".to_owned()])
        } else {
            Reply::text("started")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.say("start it").await;
    talk.session.send(Op::Shutdown);
    place.server.gate("ok").release();
    let result = talk.result().await;
    assert_eq!(result.text, "now I am done");
    loop {
        if let Event::SessionEnded = talk.event().await {
            break;
        }
    }
    talk.finish().await;
}
