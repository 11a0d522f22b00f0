//! `/goal` and `/code-review` as a user types them.

use super::Stage;
use lathe_scripted::{Reply, Scenario};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_goal_is_set_shown_worked_on_and_ended() {
    let judged = AtomicUsize::new(0);
    let scenario = Scenario::new().responder(move |request| {
        let system = request.body["system"].to_string();
        if system.contains("whether a goal") {
            return match judged.fetch_add(1, Ordering::SeqCst) {
                0 => Reply::text(r#"{"ok": false, "reason": "the parser has no tests"}"#),
                _ => Reply::text(r#"{"ok": true}"#),
            };
        }
        let said = request.last_user_text();
        if said.contains("the parser has no tests") {
            Reply::text("tests are written")
        } else if said.contains("the command `true`") {
            Reply::text("there is nothing to do")
        } else {
            Reply::text("the parser is done")
        }
    });
    let stage = Stage::new(scenario);
    let terminal = stage.open_sized(110, 30);
    terminal.say("/goal ");
    terminal.wait_for("There is no goal.");
    terminal.say("/goal the parser works and has tests");
    terminal.wait_for("The goal is set: the parser works and has tests.");
    terminal.wait_for("● the parser is done");
    terminal.wait_for("● tests are written");
    let requests = stage.server.message_requests();
    let mut bodies = requests.iter().map(|request| request.body.to_string());
    assert!(
        bodies.any(|body| body.contains("the parser has no tests")),
        "the reason goes to the model"
    );
    // Reached: there is none any more.
    terminal.wait_gone("esc to interrupt");
    terminal.say("/goal ");
    terminal.wait_everything("two answers that there is none", |text| {
        text.matches("There is no goal.").count() == 2
    });
    terminal.say("/goal !true ");
    terminal.wait_for("The goal is set: !true.");
    terminal.wait_for("● there is nothing to do");
    terminal.wait_gone("esc to interrupt");
    terminal.say("/goal clear");
    terminal.wait_everything("nothing is left to end", |text| {
        text.matches("There is no goal.").count() == 3
    });
}

#[test]
fn a_review_runs_beside_the_conversation_and_reports_to_it() {
    let scenario = Scenario::new().responder(|request| {
        let system = request.body["system"].to_string();
        let is_reviewer =
            system.contains("You review a change") || system.contains("try to refute it");
        if !is_reviewer {
            return Reply::text("the review has one finding");
        }
        if !request.last_results().is_empty() {
            return Reply::text("done");
        }
        Reply::tool_use(
            "ReportFindings",
            json!({"findings": [{
                "file": "app.py", "line": 2, "category": "correctness", "verdict": "CONFIRMED",
                "summary": "The sum is off by one", "failure_scenario": "add(1, 1) gives 3",
            }]}),
        )
    });
    let stage = Stage::new(scenario);
    stage
        .home
        .write("app.py", "def add(a, b):\n    return a + b\n");
    stage.home.git_init();
    let trusted = stage.home.run(["trust", "add"], "");
    assert_eq!(trusted.code(), Some(0), "{trusted:?}");
    stage
        .home
        .write("app.py", "def add(a, b):\n    return a + b + 1\n");
    let terminal = stage.open_sized(110, 30);
    terminal.say("/code-review --effort most");
    terminal.wait_for("most");
    terminal.say("/code-review low");
    terminal.wait_for("The review has begun.");
    terminal.wait_for("The sum is off by one");
    terminal.wait_for("● the review has one finding");
    let requests = stage.server.message_requests();
    let reported = requests.iter().any(|request| {
        let said = request.last_user_text();
        said.contains("app.py:2") && said.contains("The sum is off by one")
    });
    assert!(reported, "the conversation gets the findings");
}
