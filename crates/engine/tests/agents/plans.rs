//! Plan mode, and questions to the user.

use crate::support::{Place, whole};
use lathe_engine::Answerer;
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::{PermissionMode, PermissionReply};
use lathe_scripted::{Reply, Scenario};
use lathe_tools::{ask_user_question, plan_mode};
use serde_json::json;

fn plan_file(request: &lathe_scripted::RecordedRequest) -> String {
    let all = whole(request);
    let at = all.find("/plans/").expect("the plan's file is named");
    let from = all[..at].rfind(' ').unwrap() + 1;
    let to = at + all[at..].find(".md").unwrap() + 3;
    all[from..to].to_owned()
}

#[tokio::test]
async fn a_plan_is_written_agreed_to_and_carried_out() {
    let scenario = Scenario::new().responder(|request| {
        let done: Vec<String> = request.answered_tools();
        let step = whole(request).matches("\"type\":\"tool_use\"").count();
        match step {
            0 => Reply::tool_use("EnterPlanMode", json!({})),
            1 => Reply::tool_use("Write", json!({"file_path": "a.txt", "content": "a"})),
            2 => Reply::tool_use(
                "Write",
                json!({"file_path": plan_file(request), "content": "# Plan\n1. write a.txt\n"}),
            ),
            3 => Reply::tool_use("ExitPlanMode", json!({})),
            4 => Reply::tool_use("ExitPlanMode", json!({})),
            5 => Reply::tool_use("Write", json!({"file_path": "a.txt", "content": "a"})),
            _ => Reply::text(format!("done {}", done.len())),
        }
    });
    let place = Place::new(scenario).await;
    let mut options = place.options();
    options.permissions.mode = Some(PermissionMode::Default);
    options.permissions.answerer = Answerer::Face;
    let mut talk = place.open_with(options).await;
    talk.send("plan it");
    let question = talk.question().await;
    assert_eq!(question.tool_name, plan_mode::EXIT);
    assert!(
        plan_mode::plan_of(&question.input)
            .unwrap()
            .contains("write a.txt")
    );
    assert!(
        !place.project().join("a.txt").exists(),
        "plan mode writes nothing else"
    );
    assert_eq!(talk.session.permissions().mode(), PermissionMode::Plan);
    assert!(talk.session.tasks().plan().active);
    talk.reply(&question, plan_mode::keep_planning("shorter, please"));
    let question = talk.question().await;
    talk.reply(&question, plan_mode::approve(PermissionMode::AcceptEdits));
    let result = talk.result().await;
    assert!(!result.is_error, "{result:?}");
    assert_eq!(
        talk.session.permissions().mode(),
        PermissionMode::AcceptEdits
    );
    assert!(place.project().join("a.txt").exists());
    let all = whole(&place.server.message_requests().pop().unwrap());
    assert!(all.contains("Their feedback: shorter, please"));
    assert!(all.contains("not permitted in plan mode"));
    assert!(all.contains("Plan mode is off"));
    let file = talk.session.tasks().plan().file;
    assert!(file.starts_with(place.config().join("plans")));
    talk.finish().await;
    // The plan is still the session's when it is taken up.
    let talk = place.resume().await;
    assert_eq!(talk.session.tasks().plan().file, file);
    assert!(talk.session.tasks().plan().text.contains("write a.txt"));
    talk.finish().await;
    assert_eq!(place.server.problems(), Vec::<String>::new());
}

#[tokio::test]
async fn the_mode_of_the_command_line_tells_the_model_and_only_appends() {
    let scenario = Scenario::new().responder(|request| {
        if whole(request).contains("\"type\":\"tool_use\"") {
            Reply::text("here is the plan")
        } else {
            Reply::tool_use("ExitPlanMode", json!({"plan": "my plan"}))
        }
    });
    let place = Place::new(scenario).await;
    let mut options = place.options();
    options.permissions.mode = Some(PermissionMode::Plan);
    let mut talk = place.open_with(options).await;
    let result = talk.say("plan it").await;
    assert_eq!(result.text, "here is the plan");
    talk.say("again").await;
    let requests = place.server.message_requests();
    let first = whole(&requests[0]);
    assert!(first.contains("Plan mode is on"), "{first}");
    assert!(requests[0].last_user_text().contains("plan it"));
    let last = whole(requests.last().unwrap());
    assert_eq!(last.matches("Plan mode is on: read and think").count(), 1);
    assert!(
        last.contains("There is no user to approve the plan"),
        "{last}"
    );
    talk.finish().await;
}

#[tokio::test]
async fn questions_reach_the_person_and_the_answers_come_back() {
    let scenario = Scenario::new().responder(|request| {
        if request.last_results().is_empty() {
            Reply::tool_use(
                "AskUserQuestion",
                json!({"questions": [{
                    "question": "Which store?", "header": "Store", "multiSelect": false,
                    "options": [{"label": "SQLite", "description": "a file"}, {"label": "Postgres", "description": "a server"}],
                }]}),
            )
        } else {
            Reply::text(request.last_tool_result())
        }
    });
    let place = Place::new(scenario).await;
    let mut options = place.options();
    options.permissions.answerer = Answerer::Face;
    let mut talk = place.open_with(options).await;
    talk.send("build it");
    // Even where every permission is given, a question to the user is asked.
    let question = talk.question().await;
    assert_eq!(question.tool_name, ask_user_question::NAME);
    let asked = ask_user_question::questions(&question.input).unwrap();
    assert_eq!(asked[0].options[1].label, "Postgres");
    let answers = [("Which store?".to_owned(), "Postgres".to_owned())];
    talk.reply(
        &question,
        ask_user_question::answer(&question.input, &answers),
    );
    let result = talk.result().await;
    assert!(
        result.text.contains("Which store? → Postgres"),
        "{}",
        result.text
    );
    let in_tools = talk.session.history().totals().tool_duration_ms;
    talk.send("again");
    let question = talk.question().await;
    // The user takes their time, and that is not the tool's.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    talk.reply(&question, PermissionReply::deny("neither, use a text file"));
    let result = talk.result().await;
    assert!(result.text.contains("use a text file"), "{}", result.text);
    assert_eq!(talk.session.history().totals().tool_duration_ms, in_tools);
    talk.finish().await;
    // Without anyone to ask, the model is told to decide.
    let mut talk = place.open().await;
    let result = talk.say("build it").await;
    assert!(result.text.contains("Choose the answer"), "{}", result.text);
    talk.finish().await;
}

#[tokio::test]
async fn plans_lie_where_settings_say_but_never_outside_the_project() {
    for (folder, inside) in [("docs/plans", true), ("../elsewhere", false)] {
        let scenario = Scenario::new().responder(|request| {
            if whole(request).contains("\"type\":\"tool_use\"") {
                Reply::text(request.last_tool_result())
            } else {
                Reply::tool_use(
                    "Write",
                    json!({"file_path": plan_file(request), "content": "# Plan\n"}),
                )
            }
        });
        let mut place = Place::new(scenario).await;
        place.settings = json!({"plansDirectory": folder});
        let mut options = place.options();
        options.permissions.mode = Some(PermissionMode::Plan);
        let mut talk = place.open_with(options).await;
        let result = talk.say("plan it").await;
        let plan = talk.session.tasks().plan();
        assert_eq!(plan.text, "# Plan\n", "{folder}: {}", result.text);
        let expected = if inside {
            place.project().join(folder)
        } else {
            place.config().join("plans")
        };
        assert_eq!(plan.file.parent().unwrap(), expected);
        talk.finish().await;
    }
}

#[tokio::test]
async fn a_prompt_that_is_taken_back_before_it_arrives_is_not_answered() {
    let scenario = Scenario::new().responder(|request| Reply::text(request.last_user_text()));
    let place = Place::new(scenario).await;
    let mut talk = place.open().await;
    let prompt = Prompt::new("never mind");
    let uuid = prompt.uuid;
    // Nothing is awaited in between: the session can't have heard of it yet.
    assert!(talk.session.send(Op::Prompt(prompt)));
    assert!(talk.session.history().cancel_queued(uuid));
    assert!(!talk.session.history().cancel_queued(uuid), "it is gone");
    let result = talk.say("something else").await;
    assert!(result.text.contains("something else"), "{}", result.text);
    assert_eq!(place.server.message_requests().len(), 1);
    talk.finish().await;
}
