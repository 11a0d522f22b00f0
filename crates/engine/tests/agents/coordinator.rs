//! Coordinator mode: the main conversation directs, workers work.

use crate::forks::{bare, shares};
use crate::support::{Place, begins, whole};
use lathe_protocol::permission::PermissionMode;
use lathe_scripted::{RecordedRequest, Reply, Scenario};
use serde_json::json;
use std::path::PathBuf;

/// The tools that a coordinator has, in the order of requests.
const DIRECTING: [&str; 6] = [
    "Agent",
    "AskUserQuestion",
    "SendMessage",
    "TaskOutput",
    "TaskStop",
    "TodoWrite",
];

fn tools(request: &RecordedRequest) -> Vec<String> {
    let mut names = request.tool_names();
    names.sort();
    names.into_iter().map(str::to_owned).collect()
}

/// The folder that a worker's prompt names.
fn scratch(request: &RecordedRequest) -> PathBuf {
    let text = request.system_text();
    let line = text
        .lines()
        .find(|line| line.contains("Scratch folder"))
        .unwrap_or_else(|| panic!("{text}"));
    PathBuf::from(line.rsplit(": ").next().unwrap().trim())
}

fn directed() -> Scenario {
    Scenario::new()
        .cache_minimum_tokens(0)
        .responder(|request| {
            if begins(request, "part ") {
                if request.last_results().is_empty() {
                    let file = scratch(request).join("found.txt");
                    return Reply::tool_use("Write", json!({"file_path": file, "content": "42"}));
                }
                return Reply::text("a part is found");
            }
            if request.last_user_text().contains("<task-notification>") {
                return Reply::text("both parts are found");
            }
            if request.last_results().is_empty() {
                let order = |text: &str, kind: &str| {
                    json!({
                        "description": "a part", "prompt": text, "subagent_type": kind,
                        "run_in_background": false,
                    })
                };
                return Reply::text("I ask two workers.")
                    .with_tool_use("Agent", order("part one", "general-purpose"))
                    .with_tool_use("Agent", order("part two", "general-purpose"))
                    .with_tool_use("Agent", order("part three", "fork"))
                    .with_tool_use("Bash", json!({"command": "ls"}));
            }
            Reply::text("said")
        })
}

#[tokio::test]
async fn a_coordinator_has_the_tools_to_direct_and_workers_have_those_of_the_session() {
    let place = Place::new(directed()).await;
    let mut options = place.options();
    options.permissions.mode = Some(PermissionMode::Default);
    options.extensions.coordinator = true;
    let mut talk = place.open_with(options).await;
    let result = talk.say("begin").await;
    assert!(!result.is_error, "{result:?}");
    assert!(
        result.permission_denials.is_empty(),
        "the scratch folder needs no question"
    );
    let main = place.requests_of("begin");
    assert_eq!(tools(&main[0]), DIRECTING);
    assert!(main[0].system_text().contains("You direct workers"));
    assert!(
        !main[0]
            .system_text()
            .contains("Use the tool made for the purpose")
    );
    let told = whole(main.last().unwrap());
    assert!(told.contains("Forks are off"), "{told}");
    assert!(
        told.contains("You coordinate, so you don't have Bash"),
        "{told}"
    );
    assert!(
        !main[0].body["tools"]
            .to_string()
            .contains("A copy of yourself")
    );
    let workers: Vec<RecordedRequest> = ["part one", "part two"]
        .iter()
        .map(|words| place.requests_of(words).remove(0))
        .collect();
    for worker in &workers {
        let names = tools(worker);
        for tool in ["Bash", "Edit", "Grep", "Read", "Write"] {
            assert!(names.iter().any(|name| name == tool), "{names:?}");
        }
        assert!(!worker.system_text().contains("You direct workers"));
    }
    for part in ["system", "tools", "model"] {
        assert_eq!(bare(&workers[0].body[part]), bare(&workers[1].body[part]));
    }
    // The second worker reads all but its order from what the first one sent.
    let mut shares = shares(&talk);
    shares.sort_by(f64::total_cmp);
    assert!(shares[shares.len() - 1] >= 0.9, "{shares:?}");
    let folder = scratch(&workers[0]);
    assert_eq!(
        std::fs::read_to_string(folder.join("found.txt")).unwrap(),
        "42"
    );
    talk.finish().await;
    assert!(!folder.exists(), "it goes with the session");
    // A resumed session continues in the mode, until it is disabled.
    let mut talk = place.resume().await;
    assert!(talk.session.tasks().coordinates());
    talk.say("and now").await;
    let requests = place.server.message_requests();
    assert_eq!(tools(requests.last().unwrap()), DIRECTING);
    talk.session.tasks().coordinate(false).unwrap();
    talk.say("yourself").await;
    let requests = place.server.message_requests();
    let last = requests.last().unwrap();
    assert!(tools(last).contains(&"Bash".to_owned()));
    assert!(!last.system_text().contains("You direct workers"));
    talk.finish().await;
    let talk = place.resume().await;
    assert!(!talk.session.tasks().coordinates());
    talk.finish().await;
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn settings_switch_the_mode_on_and_keep_the_scratch_folder() {
    let mut place = Place::new(directed()).await;
    place.settings = json!({"coordinator": true, "keepScratch": true});
    let mut talk = place.open().await;
    assert!(talk.session.tasks().coordinates());
    talk.say("begin").await;
    let folder = scratch(&place.requests_of("part one")[0]);
    talk.finish().await;
    assert!(folder.join("found.txt").exists());
}
