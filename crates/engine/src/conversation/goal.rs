//! The goal of a session: a condition that is judged when the model says that it is done.
//!
//! Words are judged by the small model from the end of the conversation, a command (`!cargo test`) by its exit code.
//! Where the goal isn't reached, the turn continues with the reason, a limited number of times; what ends a turn
//! otherwise (budgets, an interruption) ends it with a goal too, and the goal stays for the next one.

use crate::conversation::{Conversation, ConversationShared, Role, RunningTurn};
use crate::session::background::ask_beside;
use crate::session::ledger::Part;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::record::{Fact, Record};
use lathe_shell::run::{Exit, RunOptions};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// How often a turn continues for a goal, unless settings say otherwise.
const USUAL_ROUNDS: u32 = 20;
/// How long the command of a goal may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);
/// Messages that the judge gets, and how much of each.
const MOST_MESSAGES: usize = 24;
const MOST_OF_ONE: usize = 3_000;
/// The end of a command's output that the model gets.
const MOST_OUTPUT: usize = 4_000;
/// The longest condition.
const LONGEST: usize = 4_000;

/// A goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Goal {
    /// The condition as written; a command begins with `!`.
    pub condition: String,
    /// Why it wasn't reached when it was judged last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl Goal {
    /// Reads a condition.
    ///
    /// # Errors
    /// When there is nothing to judge, or too much.
    pub fn new(condition: &str) -> Result<Self, BadGoal> {
        let condition = condition.trim();
        if condition.trim_start_matches('!').trim().is_empty() {
            return Err(BadGoal::Empty);
        }
        if condition.chars().count() > LONGEST {
            return Err(BadGoal::TooLong);
        }
        Ok(Self {
            condition: condition.to_owned(),
            missing: None,
        })
    }

    /// The command that judges it, if one does.
    #[must_use]
    pub fn command(&self) -> Option<&str> {
        self.condition.strip_prefix('!').map(str::trim)
    }
}

/// Why words are no goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadGoal {
    /// There are none.
    #[error("a goal needs a condition, or a command after `!`")]
    Empty,
    /// There are too many.
    #[error("a goal has at most {LONGEST} characters; put the rest into the prompt")]
    TooLong,
}

/// The goal of a conversation, if it has one.
pub(crate) type GoalCell = Mutex<Option<Goal>>;

/// The answer to whether a goal is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Reached,
    Missing(String),
    /// Going on is no use.
    Stop(String),
}

/// Sets or ends the goal, also in the transcript.
pub(crate) fn set(shared: &ConversationShared, goal: Option<Goal>) {
    let value = serde_json::to_value(&goal).unwrap_or_default();
    *shared.state.goal.lock() = goal;
    shared.transcript.append(Record::Fact(Fact::Goal {
        goal: value,
        session_id: shared.session.id,
    }));
}

/// Takes up the goal of a resumed session. A command runs without a question because the user typed it, so it is taken
/// only from a transcript among Lathe's own.
pub(crate) fn restore(shared: &ConversationShared, kept: &Value, transcript: &Path) {
    let Ok(goal) = serde_json::from_value::<Goal>(kept.clone()) else {
        return;
    };
    let own = &shared.session.settings.loader.places.config_home;
    let is_own = |path: &Path| {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        real(path).starts_with(real(own))
    };
    if goal.command().is_some() && !is_own(transcript) {
        shared.events.notice(
            NoticeLevel::Warning,
            format!(
                "The goal {} comes from a transcript of another program, so it was not restored; /goal sets it again.",
                goal.condition
            ),
        );
        return;
    }
    *shared.state.goal.lock() = Some(goal);
}

/// How often a turn may continue for a goal.
fn most_rounds(shared: &ConversationShared) -> u32 {
    let settings = shared.session.settings.value.read();
    let rounds = settings.get("goalMaxRounds").and_then(Value::as_u64);
    rounds.map_or(USUAL_ROUNDS, |rounds| {
        u32::try_from(rounds).unwrap_or(u32::MAX)
    })
}

/// Judges the goal at the end of a turn. Gives the words with which the turn continues. `rounds` is how often it has.
pub(crate) async fn judge(
    conversation: &mut Conversation,
    turn: &RunningTurn,
    rounds: u32,
) -> Option<String> {
    let shared = conversation.shared.clone();
    if !matches!(shared.role, Role::Main { .. }) {
        return None;
    }
    let mut goal = shared.state.goal.lock().clone()?;
    let verdict = match goal.command() {
        Some(command) => by_command(&shared, command, turn).await,
        None => by_model(conversation, &goal.condition, turn).await,
    };
    if turn.cancel.is_cancelled() {
        return None;
    }
    let say = |level, text: String| shared.events.notice(level, text);
    let most = most_rounds(&shared);
    let condition = &goal.condition;
    let (ended, reason) = match verdict {
        Ok(Verdict::Reached) => {
            say(
                NoticeLevel::Info,
                format!("The goal is reached: {condition}"),
            );
            set(&shared, None);
            return None;
        }
        Ok(Verdict::Missing(reason)) if rounds < most => {
            let round = rounds + 1;
            say(
                NoticeLevel::Info,
                format!(
                    "The goal is not reached (round {round} of {most}): {}",
                    first_line(&reason)
                ),
            );
            (false, reason)
        }
        Ok(Verdict::Missing(reason)) => {
            say(
                NoticeLevel::Warning,
                format!(
                    "The goal is not reached after {most} rounds, so the turn ends: {condition}. Missing: {}. Your next prompt continues with it; /goal clear ends it.",
                    first_line(&reason)
                ),
            );
            (true, reason)
        }
        Ok(Verdict::Stop(reason)) => {
            say(
                NoticeLevel::Warning,
                format!(
                    "The goal can't be reached without you, so the turn ends: {condition}. {}",
                    first_line(&reason)
                ),
            );
            (true, reason)
        }
        Err(error) => {
            say(
                NoticeLevel::Warning,
                format!("The goal could not be judged, so the turn ends: {error}"),
            );
            return None;
        }
    };
    goal.missing = Some(reason.clone());
    let words = format!(
        "The goal of this session is not reached yet: {}\nWhat is missing: {reason}\nContinue until it is reached. If it can't be, say why.",
        goal.condition
    );
    set(&shared, Some(goal));
    (!ended).then_some(words)
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(300).collect()
}

/// Why a goal could not be judged.
#[derive(Debug, thiserror::Error)]
enum JudgeError {
    #[error(transparent)]
    Shell(#[from] lathe_shell::run::RunError),
    #[error(transparent)]
    Ask(#[from] lathe_model::ask::AskError),
    #[error("the model gave no verdict: {0}")]
    NoVerdict(String),
}

/// Judges by the exit code of the user's own command.
async fn by_command(
    shared: &ConversationShared,
    command: &str,
    turn: &RunningTurn,
) -> Result<Verdict, JudgeError> {
    let options = RunOptions {
        timeout: COMMAND_LIMIT,
        cancel: turn.cancel.clone(),
        directory: Some(shared.tools.working_folder.read().clone()),
        ..RunOptions::default()
    };
    let finished = shared.tools.shell.run(command, options).await?;
    let how = match finished.exit {
        Exit::Exited(0) => return Ok(Verdict::Reached),
        Exit::Exited(code) => format!("exit code {code}"),
        _ => "it did not end by itself".to_owned(),
    };
    let output = &finished.output.text;
    let from = output
        .char_indices()
        .rev()
        .nth(MOST_OUTPUT)
        .map_or(0, |(at, _)| at);
    Ok(Verdict::Missing(format!(
        "`{command}` failed ({how}). The end of its output:\n{}",
        output[from..].trim()
    )))
}

/// Judges by the small model.
async fn by_model(
    conversation: &mut Conversation,
    condition: &str,
    turn: &RunningTurn,
) -> Result<Verdict, JudgeError> {
    let mut prompt =
        format!("The goal:\n{condition}\n\nThe end of the conversation, a message a line:\n");
    let messages = conversation.request_messages();
    let from = messages.len().saturating_sub(MOST_MESSAGES);
    for message in messages.iter().skip(from) {
        let text = String::from_utf8_lossy(&message.bytes);
        let cut: String = text.chars().take(MOST_OF_ONE).collect();
        let _ = writeln!(prompt, "{cut}");
    }
    let shared = &conversation.shared;
    let model = shared.session.catalog.small_fast_model().id;
    let system = include_str!("../../prompts/goal.md");
    let answer = ask_beside(shared, Part::Inner, model, system, prompt, &turn.cancel).await?;
    verdict_of(&answer).ok_or_else(|| JudgeError::NoVerdict(first_line(&answer)))
}

/// The verdict in an answer: the first JSON object that is one.
fn verdict_of(text: &str) -> Option<Verdict> {
    text.match_indices('{').find_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        let value = values.next()?.ok()?;
        let is_reached = value.get("ok")?.as_bool()?;
        let reason = value.get("reason").and_then(Value::as_str).unwrap_or("");
        let reason = reason.trim().to_owned();
        let stops = value.get("stop").and_then(Value::as_bool) == Some(true);
        Some(match (is_reached, stops) {
            (true, _) => Verdict::Reached,
            (false, true) => Verdict::Stop(reason),
            (false, false) => Verdict::Missing(reason),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_found_in_whatever_stands_around_it() {
        assert_eq!(verdict_of("{\"ok\": true}"), Some(Verdict::Reached));
        assert_eq!(
            verdict_of("Well. {x} ```json\n{\"ok\": false, \"reason\": \"no tests\"}\n```"),
            Some(Verdict::Missing("no tests".to_owned()))
        );
        assert_eq!(
            verdict_of(r#"{"ok": false, "stop": true, "reason": "no key"}"#),
            Some(Verdict::Stop("no key".to_owned()))
        );
        for nothing in ["", "yes", "{\"ok\": \"true\"}", "{"] {
            assert_eq!(verdict_of(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_goal_is_words_or_a_command() {
        assert_eq!(Goal::new(" tests pass ").unwrap().command(), None);
        assert_eq!(
            Goal::new("! cargo test").unwrap().command(),
            Some("cargo test")
        );
        assert_eq!(Goal::new(" ! "), Err(BadGoal::Empty));
        assert_eq!(Goal::new(""), Err(BadGoal::Empty));
        assert_eq!(Goal::new(&"x".repeat(5_000)), Err(BadGoal::TooLong));
    }
}
