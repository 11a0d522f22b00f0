//! A step uses the configuration that it began with.

use crate::support::Place;
use lathe_protocol::op::Prompt;
use lathe_protocol::permission::{Behavior, PermissionUpdate, RuleSource, RuleValue};
use lathe_scripted::{Ending, Position, Reply, Scenario};
use serde_json::{Value, json};

fn effort(body: &Value) -> Option<&str> {
    body["output_config"]["effort"].as_str()
}

#[tokio::test]
async fn a_choice_during_a_step_takes_effect_with_the_next_step() {
    let call = || Reply::tool_use("Bash", json!({"command": "echo done", "description": "d"}));
    // The first answer breaks off after the choices changed, so its request is repeated.
    let scenario = Scenario::new()
        .reply(
            Reply::text("half a sentence")
                .gate(Position::MidBlock(0), "answering")
                .cut(Position::MidBlock(0), Ending::Drop),
        )
        .reply(call())
        .reply(Reply::text("done"));
    let mut place = Place::new(scenario, 200_000).await;
    place.variables = vec![("LATHE_MAX_RETRIES".to_owned(), "3".to_owned())];
    let mut talk = place.open().await;
    talk.send(Prompt::new("go"));
    place.server.gate("answering").wait_reached(1).await;
    let model = talk.session.model();
    let switching = model.switch(Some("other-house"), lathe_engine::SwitchSource::Sdk);
    switching.await.unwrap();
    model.set_effort(Some("low")).unwrap();
    place.server.gate("answering").release();
    let result = talk.result().await;
    assert!(!result.is_error, "{result:?}");
    talk.finish().await;
    let requests = place.server.message_requests();
    let sent: Vec<(&str, Option<&str>)> = requests
        .iter()
        .map(|request| (request.model(), effort(&request.body)))
        .collect();
    assert_eq!(
        sent,
        [
            ("house", None),
            ("house", None),
            ("other-house", Some("low"))
        ]
    );
    assert_eq!(requests[0].body["tools"], requests[1].body["tools"]);
}

#[tokio::test]
async fn a_rule_that_is_given_during_a_step_is_in_effect_for_its_next_call() {
    let scenario = Scenario::new()
        .reply(
            Reply::tool_use("Bash", json!({"command": "echo one", "description": "d"}))
                .with_tool_use("Bash", json!({"command": "echo two", "description": "d"}))
                .gate(Position::AfterBlock(0), "between"),
        )
        .reply(Reply::text("done"));
    let place = Place::new(scenario, 200_000).await;
    let mut talk = place.open().await;
    talk.send(Prompt::new("go"));
    place.server.gate("between").wait_reached(1).await;
    talk.session
        .permissions()
        .apply(&PermissionUpdate::AddRules {
            rules: vec![RuleValue {
                tool_name: "Bash".to_owned(),
                rule_content: Some("echo two".to_owned()),
            }],
            behavior: Behavior::Deny,
            destination: RuleSource::Session,
        })
        .unwrap();
    place.server.gate("between").release();
    let result = talk.result().await;
    talk.finish().await;
    assert_eq!(result.permission_denials.len(), 1, "{result:?}");
    let requests = place.server.message_requests();
    assert_eq!(requests[1].last_results().len(), 2);
    assert_eq!(requests[0].body["tools"], requests[1].body["tools"]);
}
