//! Waiting for a rate or usage limit to end: `waitForLimits`.
//!
//! Short waits are the recovery's. A limit whose end is known and further away ends the turn, unless someone agrees to
//! wait: the user who is asked, or settings. Where nobody watches, the turn waits by itself, up to six hours.

use crate::conversation::questions::{Answer, Answerer, HookMay};
use crate::conversation::{Conversation, ConversationShared, RunningTurn};
use jiff::{SignedDuration, Timestamp};
use lathe_model::ModelError;
use lathe_protocol::event::{Event, NoticeLevel};
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::permission::{PermissionReply, PermissionRequest};
use lathe_tools::ask_user_question;
use serde_json::{Value, json};
use std::time::Duration;

/// The shortest wait that counts: the recovery has tried shorter ones.
const SHORTEST: Duration = Duration::from_secs(60);
/// The longest wait that nobody is asked about.
const LONGEST_ALONE: Duration = Duration::from_secs(6 * 60 * 60);
/// How often one turn waits.
pub(crate) const MOST_WAITS: u32 = 8;
/// Added to the time that the provider names: clocks differ.
const MARGIN: Duration = Duration::from_secs(5);

/// The setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Ask,
    Always,
    Never,
}

fn wish(shared: &ConversationShared) -> Wish {
    let settings = shared.session.settings.value.read();
    match settings.get("waitForLimits").and_then(Value::as_str) {
        Some("always") => Wish::Always,
        Some("never") => Wish::Never,
        _ => Wish::Ask,
    }
}

/// Waits until a limit ends, if that is known and wanted. Returns whether the request should be made again.
pub(crate) async fn wait(
    conversation: &Conversation,
    turn: &RunningTurn,
    error: Option<&ModelError>,
    waits: u32,
) -> bool {
    let shared = &conversation.shared;
    let Some(error @ ModelError::RateLimited(_)) = error else {
        return false;
    };
    let named = error.retry_after();
    let Some(delay) = named.filter(|delay| *delay >= SHORTEST && waits < MOST_WAITS) else {
        return false;
    };
    let wish = wish(shared);
    if wish == Wish::Never {
        return false;
    }
    let attended =
        shared.questions.answerer() == Answerer::Face && shared.session.settings.is_interactive;
    let asks = wish == Wish::Ask && attended;
    if !asks && delay > LONGEST_ALONE {
        let hours = LONGEST_ALONE.as_secs() / 3600;
        shared.events.notice(
            NoticeLevel::Warning,
            format!(
                "The limit ends only in {}; Lathe waits at most {hours} hours.",
                words(delay)
            ),
        );
        return false;
    }
    let clock = shared.session.schedule.clock();
    let wait = SignedDuration::try_from(delay + MARGIN).unwrap_or(SignedDuration::MAX);
    let Ok(end) = clock.now().checked_add(wait) else {
        return false;
    };
    let at = local_time(shared, end);
    if asks && !agrees(conversation, turn, &at, delay).await {
        return false;
    }
    shared.events.notice(
        NoticeLevel::Warning,
        format!(
            "A limit of the provider is reached. The turn continues automatically at {at}, in {}.",
            words(delay)
        ),
    );
    shared.events.send(Event::Retrying {
        attempt: waits + 1,
        max_retries: MOST_WAITS,
        delay: delay + MARGIN,
        status: error.status(),
        error: error.to_string(),
    });
    tokio::select! {
        () = clock.until(end) => true,
        () = turn.cancel.cancelled() => false,
    }
}

/// Asks the user.
async fn agrees(
    conversation: &Conversation,
    turn: &RunningTurn,
    at: &str,
    delay: Duration,
) -> bool {
    let shared = &conversation.shared;
    let question = format!(
        "A limit of the provider is reached until {at} ({}). Wait and continue then?",
        words(delay)
    );
    let input = json!({"questions": [{
        "question": question, "header": "Limit",
        "options": [
            {"label": "Wait", "description": format!("The turn continues automatically at {at}; esc ends the wait.")},
            {"label": "Stop", "description": "The turn ends now."},
        ],
    }]});
    let tool_use_id = ToolUseId::from("wait-for-limit");
    let request = PermissionRequest::new(ask_user_question::NAME, input, tool_use_id);
    let asking = shared
        .questions
        .ask(request, &shared.hooks, HookMay::Refuse, None, &turn.cancel);
    let Answer::Reply(PermissionReply::Allow { updated_input, .. }) = asking.await else {
        return false;
    };
    let chosen = updated_input.and_then(|input| {
        let answers = input.get("answers")?.as_object()?;
        answers.values().next()?.as_str().map(str::to_owned)
    });
    chosen.as_deref() == Some("Wait")
}

/// A duration in words.
fn words(wait: Duration) -> String {
    let minutes = wait.as_secs().div_ceil(60);
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

fn local_time(shared: &ConversationShared, at: Timestamp) -> String {
    let variables = &shared.tools.environment.variables;
    let variable = |name: &str| variables.get(name).map(String::as_str);
    let zone = lathe_tools::schedule::zone(variable("TZ"), variable("TZDIR"));
    at.to_zoned(zone).strftime("%H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_said_in_hours_and_minutes() {
        for (seconds, expected) in [
            (30, "1 min"),
            (600, "10 min"),
            (3_600, "1 h"),
            (9_061, "2 h 32 min"),
        ] {
            assert_eq!(words(Duration::from_secs(seconds)), expected);
        }
    }
}
