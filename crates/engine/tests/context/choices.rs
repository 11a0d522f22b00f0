//! What a caller may choose about what is sent and what it may cost.

use crate::support::Place;
use lathe_scripted::{Reply, Scenario};
use serde_json::{Value, json};

fn messages_of(place: &Place, index: usize) -> String {
    let requests = place.server.message_requests();
    Value::from(requests[index].messages().to_vec()).to_string()
}

#[tokio::test]
async fn a_budget_of_tokens_is_a_choice_a_variable_or_a_setting_in_this_order() {
    let scenario = Scenario::new().responder(|_| Reply::text("word ".repeat(200)));
    let mut place = Place::new(scenario, 200_000).await;
    place.settings = json!({"maxSessionTokens": 30_000, "maxBudgetUsd": 1_000.0});
    let ended = async |place: &Place, own: Option<u64>| {
        let mut options = place.options();
        options.max_session_tokens = own;
        let mut talk = place.open_with(options).await;
        loop {
            let result = talk.say("go on").await;
            if result.is_error {
                talk.finish().await;
                return result.errors[0].clone();
            }
        }
    };
    assert!(ended(&place, None).await.contains("30000 tokens"));
    place
        .variables
        .push(("LATHE_MAX_SESSION_TOKENS".to_owned(), "20000".to_owned()));
    assert!(ended(&place, None).await.contains("20000 tokens"));
    assert!(ended(&place, Some(10_000)).await.contains("10000 tokens"));
    place.settings = json!({"maxBudgetUsd": 0.0001});
    assert!(
        ended(&place, Some(9_999_999))
            .await
            .contains("maximum budget")
    );
}

#[tokio::test]
async fn what_varies_of_the_prompt_may_be_told_in_the_conversation() {
    let scenario = Scenario::new().responder(|_| Reply::text("fine"));
    let mut place = Place::new(scenario, 200_000).await;
    place.settings = json!({"attribution": {"commit": "Signed-off-by: Us"}});
    let mut options = place.options();
    options.varying_apart = true;
    let mut talk = place.open_with(options).await;
    talk.say("one").await;
    talk.say("two").await;
    talk.finish().await;
    let requests = place.server.message_requests();
    assert!(!requests[0].system_text().contains("Working folder"));
    let first = messages_of(&place, 1);
    assert_eq!(first.matches("Working folder").count(), 1, "{first}");
    assert!(first.contains("Signed-off-by: Us"));
    // It is part of the conversation: a resume finds it there.
    let mut options = place.options();
    options.varying_apart = true;
    options.session = lathe_engine::SessionChoice::Continue;
    let mut talk = place.open_with(options).await;
    talk.say("three").await;
    talk.finish().await;
    assert_eq!(messages_of(&place, 2).matches("Working folder").count(), 1);
}

#[tokio::test]
async fn a_tool_answers_to_another_name_where_the_host_says_so() {
    let scenario = Scenario::new()
        .reply(Reply::tool_use(
            "Shell",
            json!({"command": "echo it is me"}),
        ))
        .reply(Reply::text("done"));
    let place = Place::new(scenario, 200_000).await;
    let mut options = place.options();
    options.tool_aliases = [("Shell".to_owned(), "Bash".to_owned())].into();
    let mut talk = place.open_with(options).await;
    talk.say("go").await;
    talk.finish().await;
    assert!(messages_of(&place, 1).contains("it is me"));
    assert_eq!(place.server.problems(), Vec::<String>::new());
}
