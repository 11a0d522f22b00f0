//! A limit for the results of one round together.

use crate::support::Place;
use lathe_scripted::{Reply, Scenario};
use serde_json::json;

fn results_of(request: &lathe_scripted::RecordedRequest) -> Vec<String> {
    request
        .messages()
        .iter()
        .flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
        .filter(|block| block["type"] == "tool_result")
        .map(|mut block| {
            block.as_object_mut().unwrap().remove("cache_control");
            block.to_string()
        })
        .collect()
}

#[tokio::test]
async fn the_largest_of_many_results_go_to_files_and_stay_there_byte_for_byte() {
    let bash =
        |count: usize| json!({"command": format!("yes 'result of {count}' | head -n {count}")});
    let scenario = Scenario::new()
        .reply(
            Reply::tool_use("Bash", bash(1_700))
                .with_tool_use("Bash", bash(700))
                .with_tool_use("Bash", bash(1_200))
                .with_tool_use("Bash", bash(100)),
        )
        .reply(Reply::text("seen"))
        .reply(Reply::text("again"))
        .reply(Reply::text("after the resume"));
    let place = Place::new(scenario, 40_000).await;
    let mut talk = place.open().await;
    talk.say("make much output").await;
    talk.say("more").await;
    talk.finish().await;
    let mut talk = place.resume().await;
    talk.say("and more").await;
    talk.finish().await;
    place.server.finish();
    let requests = place.server.message_requests();
    let first = results_of(&requests[1]);
    assert_eq!(first.len(), 4);
    let replaced: Vec<bool> = first
        .iter()
        .map(|text| text.contains("too large to show"))
        .collect();
    assert_eq!(replaced, [true, false, false, false], "{first:?}");
    let path = first[0].split("All of it is in ").nth(1).unwrap();
    let path = path.split(';').next().unwrap();
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(kept.lines().count(), 1_700);
    // What was decided once is sent again as it was, live and after a resume.
    for later in &requests[2..] {
        assert_eq!(results_of(later), first);
    }
}

#[tokio::test]
async fn results_that_fit_together_are_sent_whole() {
    let bash = json!({"command": "seq 1 1000"});
    let scenario = Scenario::new()
        .reply(Reply::tool_use("Bash", bash.clone()).with_tool_use("Bash", bash))
        .reply(Reply::text("seen"));
    let place = Place::new(scenario, 40_000).await;
    let mut talk = place.open().await;
    talk.say("count").await;
    talk.finish().await;
    let results = results_of(&place.server.message_requests()[1]);
    assert!(results.iter().all(|text| text.contains("\\n1000")));
}
