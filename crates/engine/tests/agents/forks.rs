//! Forks read their parent's cache.

use crate::support::{Place, Talk, whole};
use lathe_scripted::{RecordedRequest, Reply, Scenario};
use serde_json::{Value, json};

fn is_fork(request: &RecordedRequest) -> bool {
    request.last_user_text().contains("Your order: part")
}

pub(crate) fn bare(value: &Value) -> String {
    let mut text = value.to_string();
    for marker in [
        r#","cache_control":{"type":"ephemeral"}"#,
        r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
    ] {
        text = text.replace(marker, "");
    }
    text
}

/// Which part of each agent's first request the provider found in its cache, as its own transcript has it.
pub(crate) fn shares(talk: &Talk) -> Vec<f64> {
    let paths = lathe_session::SessionPaths::of_transcript(talk.session.transcript());
    let mut shares = Vec::new();
    for agent in talk.session.tasks().agents() {
        let id = lathe_protocol::ids::AgentId(agent.id.0.clone());
        let loaded = lathe_session::load(&paths.agent_transcript(&id)).unwrap();
        let usage = loaded
            .messages()
            .find_map(|record| match &record.message {
                Some(lathe_protocol::record::RecordMessage::Assistant(message)) => {
                    Some(message.usage.clone())
                }
                _ => None,
            })
            .unwrap();
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let share = usage.cache_read_input_tokens as f64 / usage.total_input() as f64;
        shares.push(share);
    }
    shares
}

#[tokio::test]
async fn ten_forks_of_a_long_conversation_are_read_from_the_cache() {
    let scenario = Scenario::new()
        .cache_minimum_tokens(0)
        .responder(|request| {
            let text = request.last_user_text();
            if is_fork(request) {
                Reply::text("a part of it is done")
            } else if text.contains("in ten parts") && request.last_results().is_empty() {
                let mut reply = Reply::text("I split it.");
                for number in 0..10 {
                    reply = reply.with_tool_use(
                        "Agent",
                        json!({
                            "description": "a part", "prompt": format!("part {number}"),
                            "subagent_type": "fork", "run_in_background": false,
                        }),
                    );
                }
                reply
            } else {
                Reply::text("a longer answer of a model that likes to talk ".repeat(32))
            }
        });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    for number in 0..150 {
        let words = format!("{} {number}", "what a person has to say ".repeat(32));
        assert!(!talk.say(&words).await.is_error);
    }
    let before = place.server.message_requests().len();
    let result = talk.say("do it in ten parts").await;
    assert!(!result.is_error, "{result:?}");
    assert_eq!(place.server.problems(), Vec::<String>::new());
    let requests = place.server.message_requests();
    let parent = &requests[before];
    assert!(parent.messages().len() >= 300);
    let forks: Vec<&RecordedRequest> = requests.iter().filter(|it| is_fork(it)).collect();
    assert_eq!(forks.len(), 10);
    for fork in &forks {
        for part in ["model", "system", "tools", "thinking"] {
            assert_eq!(bare(&fork.body[part]), bare(&parent.body[part]), "{part}");
        }
        let old = parent.messages();
        for (index, message) in old.iter().enumerate() {
            assert_eq!(bare(message), bare(&fork.messages()[index]), "{index}");
        }
        // Only what they are told last differs.
        let last = fork.messages().len() - 1;
        assert_eq!(
            bare(&fork.messages()[last - 1]),
            bare(&forks[0].messages()[last - 1])
        );
        let results = fork.last_results();
        assert_eq!(results.len(), 10);
        assert!(
            results
                .iter()
                .all(|one| one["content"] == results[0]["content"])
        );
    }
    let mut shares = shares(&talk);
    // Which of them was first is up to the machine; nine must have read.
    shares.sort_by(f64::total_cmp);
    assert!(shares[1] >= 0.99, "{shares:?}");
    let back = whole(requests.last().unwrap());
    assert_eq!(back.matches("a part of it is done").count() % 10, 0);
    talk.finish().await;
}

#[tokio::test]
async fn forks_of_a_conversation_of_few_words_read_all_but_their_orders_from_the_cache() {
    let scenario = Scenario::new()
        .cache_minimum_tokens(0)
        .responder(|request| {
            if is_fork(request) {
                Reply::text("done")
            } else if request.last_user_text().contains("in ten parts")
                && request.last_results().is_empty()
            {
                (0..10).fold(Reply::text("So."), |reply, number| {
                    reply.with_tool_use(
                        "Agent",
                        json!({
                            "description": "a part", "prompt": format!("part {number}"),
                            "subagent_type": "fork", "run_in_background": false,
                        }),
                    )
                })
            } else {
                Reply::text("yes")
            }
        });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    for number in 0..150 {
        assert!(!talk.say(&number.to_string()).await.is_error);
    }
    talk.say("do it in ten parts").await;
    assert_eq!(place.server.problems(), Vec::<String>::new());
    let mut shares = shares(&talk);
    shares.sort_by(f64::total_cmp);
    assert_eq!(shares.len(), 10);
    assert!(shares[1] >= 0.99, "{shares:?}");
    talk.finish().await;
}

#[tokio::test]
async fn a_fork_can_be_woken_and_never_forks_again() {
    let scenario = Scenario::new().responder(|request| {
        let text = request.last_user_text();
        let all = whole(request);
        if text.contains("Your order: split again") && request.last_results().len() == 1 {
            Reply::tool_use(
                "Agent",
                json!({"description": "x", "prompt": "part 1", "subagent_type": "fork"}),
            )
        } else if text.contains("a second time") {
            Reply::text(if all.contains("the secret word is plum") {
                "plum, still"
            } else {
                "forgotten"
            })
        } else if text.contains("<task-notification>") {
            Reply::text("heard")
        } else if all.contains("Your order: split again") {
            Reply::text(format!("refused: {}", request.last_tool_result()))
        } else if text.contains("ask it") && request.last_results().is_empty() {
            Reply::tool_use(
                "SendMessage",
                json!({"to": "copy", "message": "a second time"}),
            )
        } else if text.contains("fork") && request.last_results().is_empty() {
            Reply::tool_use(
                "Agent",
                json!({
                    "description": "x", "prompt": "split again", "subagent_type": "fork",
                    "run_in_background": false, "name": "copy",
                }),
            )
        } else {
            Reply::text("ok")
        }
    });
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    talk.say("the secret word is plum").await;
    talk.say("fork").await;
    let agents = talk.session.tasks().agents();
    assert!(
        agents[0].result.contains("can't be forked again"),
        "{agents:?}"
    );
    talk.send("ask it");
    talk.quiet().await;
    assert_eq!(talk.session.tasks().agents()[0].result, "plum, still");
    assert_eq!(place.server.problems(), Vec::<String>::new());
    talk.finish().await;
}

#[tokio::test]
async fn a_fork_gets_a_worktree_of_its_own_and_keeps_its_parents_prefix() {
    let scenario = Scenario::new().responder(|request| {
        let is_done = request.last_tool_result().contains("part.txt");
        if whole(request).contains("Your order: part") {
            return if is_done {
                Reply::text("written")
            } else {
                Reply::tool_use("Write", json!({"file_path": "part.txt", "content": "x"}))
            };
        }
        if request.last_results().is_empty() {
            return Reply::tool_use(
                "Agent",
                json!({
                    "description": "a part", "prompt": "part one", "subagent_type": "fork",
                    "isolation": "worktree", "run_in_background": false,
                }),
            );
        }
        Reply::text("ok")
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
    talk.say("fork it").await;
    assert!(!place.project().join("part.txt").exists());
    let note = talk.session.tasks().agents()[0].worktree.clone().unwrap();
    assert!(note.contains(".lathe/worktrees/agent-"), "{note}");
    let requests = place.server.message_requests();
    let (parent, fork) = (&requests[0], &requests[1]);
    assert!(
        whole(fork).contains("your own git worktree"),
        "{}",
        whole(fork)
    );
    assert_eq!(bare(&parent.body["system"]), bare(&fork.body["system"]));
    assert_eq!(bare(&parent.body["tools"]), bare(&fork.body["tools"]));
    talk.finish().await;
    assert_eq!(place.server.problems(), Vec::<String>::new());
}
