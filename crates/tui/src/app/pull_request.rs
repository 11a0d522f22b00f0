//! The pull request of the branch, for the user's own status line. `gh` is asked in the background, where the folder is
//! trusted, and not again for a minute.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::app::status_line;
use lathe_process::{Command, Job};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(60);

/// How long `gh` may take.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct PullRequest {
    /// Its number, address and state.
    pub(crate) known: Option<Value>,
    /// The branch that was asked about last, and when.
    asked: Option<(String, Instant)>,
}

/// Asks for the pull request of the branch, unless the answer is known.
pub(crate) fn look(app: &mut App) {
    let Some(branch) = app.session.branch.clone() else {
        app.status_line.pull_request = PullRequest::default();
        return;
    };
    let asked = app.status_line.pull_request.asked.as_ref();
    if asked.is_some_and(|(known, at)| *known == branch && at.elapsed() < FRESH) {
        return;
    }
    let Some(session) = &app.engine.handle else {
        return;
    };
    // `gh` runs git, which a repository that nobody trusts could make run anything.
    if session.context().git().is_err() {
        return;
    }
    let command = command(&session.context().working_folder());
    let is_other = asked.is_some_and(|(known, _)| *known != branch);
    let request = &mut app.status_line.pull_request;
    if is_other {
        request.known = None;
    }
    request.asked = Some((branch.clone(), Instant::now()));
    app.jobs.task(async move {
        let run = lathe_process::run(Job::new(command, LIMIT)).await;
        // Without `gh`, or without a pull request, there is none.
        let found = run.ok().and_then(|finished| read(&finished.stdout));
        Some(JobResult::PullRequest { branch, found })
    });
}

fn command(folder: &Path) -> Command {
    Command::new("gh")
        .arguments([
            "pr",
            "view",
            "--json",
            "number,url,state,isDraft,reviewDecision",
        ])
        .variable("GH_PROMPT_DISABLED", "1")
        .directory(folder)
}

/// `gh` answered.
pub(crate) fn found(app: &mut App, branch: &str, found: Option<Value>) {
    let request = &mut app.status_line.pull_request;
    let is_asked = request
        .asked
        .as_ref()
        .is_some_and(|(asked, _)| asked == branch);
    if is_asked && request.known != found {
        request.known = found;
        status_line::soon(app);
    }
}

/// The open pull request that `gh` printed.
fn read(text: &str) -> Option<Value> {
    let printed: Value = serde_json::from_str(text).ok()?;
    let text = |key: &str| printed.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("state") != "OPEN" {
        return None;
    }
    let review_state = match text("reviewDecision") {
        _ if printed.get("isDraft") == Some(&Value::Bool(true)) => "draft",
        "APPROVED" => "approved",
        "CHANGES_REQUESTED" => "changes_requested",
        _ => "pending",
    };
    let number = printed.get("number")?.as_u64()?;
    Some(json!({"number": number, "url": text("url"), "review_state": review_state}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_pull_request_is_read_with_its_review() {
        let printed = |state: &str, draft: bool, decision: &str| {
            let printed = json!({"number": 7, "url": "https://x/7", "state": state, "isDraft": draft, "reviewDecision": decision});
            read(&printed.to_string()).map(|found| found["review_state"].clone())
        };
        assert_eq!(printed("OPEN", false, ""), Some("pending".into()));
        assert_eq!(printed("OPEN", true, "APPROVED"), Some("draft".into()));
        assert_eq!(printed("OPEN", false, "APPROVED"), Some("approved".into()));
        let changes = printed("OPEN", false, "CHANGES_REQUESTED");
        assert_eq!(changes, Some("changes_requested".into()));
        assert_eq!(printed("MERGED", false, "APPROVED"), None);
        assert_eq!(read("no pull requests found"), None);
    }
}
