//! Auto mode: a small model answers the questions.
//!
//! Calls that acceptEdits allows and calls that only read never get here. For the rest, the classifier is
//! asked with the user's own words, the action and the user's notes, and must answer in strict JSON
//! within a time limit. Everything else — a timeout, an error, an answer that isn't one, too many
//! refusals — falls back to a question. Secrets, safety checks and ask rules are never its to answer:
//! those want the user.

use futures::future::BoxFuture;
use lathe_protocol::permission::{Decision, DecisionReason};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Refusals in a row after which people are asked again.
pub const MOST_DENIALS_IN_A_ROW: u32 = 3;
/// Refusals in a session after which people are asked again.
pub const MOST_DENIALS: u32 = 20;
/// How long the model may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

const PROMPT: &str = include_str!("../prompts/classifier.md");
const REVIEW_PROMPT: &str = include_str!("../prompts/review.md");
/// The most of one text (a message, an input) that is sent, in characters: enough to judge, and no
/// way to drown the rest.
const LONGEST_TEXT: usize = 8_000;
/// The most messages of the user that are sent, the latest ones.
const MOST_MESSAGES: usize = 20;

/// Why the model behind the classifier gave no answer.
pub type ModelFailure = Box<dyn std::error::Error + Send + Sync>;

/// Why an action was not judged.
#[derive(Debug, thiserror::Error)]
enum ClassifierError {
    #[error("the classifier gave no answer in {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the classifier could not be called: {0}")]
    Model(ModelFailure),
    #[error("the classifier's answer is invalid: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// The model behind the classifier; the engine has one.
pub trait ClassifierModel: Send + Sync {
    /// Asks once, without tools.
    fn ask<'a>(
        &'a self,
        system: &'a str,
        user: &'a str,
    ) -> BoxFuture<'a, Result<String, ModelFailure>>;
}

/// The user's descriptions for auto mode in settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Guide {
    /// Descriptions of allowed actions.
    pub allow: Vec<String>,
    /// Descriptions of actions that are refused unless the user asks for exactly that.
    pub soft_deny: Vec<String>,
    /// Descriptions of actions that are always refused.
    pub hard_deny: Vec<String>,
    /// Descriptions of the environment.
    pub environment: Vec<String>,
}

/// The action to judge.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a> {
    /// The tool.
    pub tool_name: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// Why it would be asked.
    pub question: &'a str,
    /// The folder of the session.
    pub cwd: &'a str,
    /// The user's messages in this session, oldest first.
    pub messages: &'a [String],
    /// Where the agent has read text from outside, such as hosts of pages.
    pub outside: &'a [String],
}

/// The classifier's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// Let it run.
    Allow {
        /// Why.
        reason: String,
    },
    /// Don't.
    Deny {
        /// Why.
        reason: String,
    },
    /// Ask the user.
    Ask {
        /// Why the classifier didn't decide.
        reason: String,
    },
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    in_a_row: u32,
    total: u32,
}

/// The classifier of a session.
pub struct Classifier {
    model: Arc<dyn ClassifierModel>,
    system: Mutex<String>,
    limit: Duration,
    denials: Mutex<Count>,
}

/// Whether a question may be answered by the classifier at all. Hard checks, secrets, ask rules and
/// questions to the user may not.
#[must_use]
pub fn may_answer(decision: &Decision) -> bool {
    match decision {
        Decision::Ask {
            reason,
            hard: false,
            ..
        } => !matches!(
            reason,
            DecisionReason::SafetyCheck { .. }
                | DecisionReason::Rule { .. }
                | DecisionReason::Hook { .. }
        ),
        _ => false,
    }
}

impl Classifier {
    /// A classifier with the user's notes.
    #[must_use]
    pub fn new(model: Arc<dyn ClassifierModel>, guide: &Guide) -> Self {
        Self {
            model,
            system: Mutex::new(system_prompt(guide)),
            limit: TIME_LIMIT,
            denials: Mutex::default(),
        }
    }

    /// Judges by other notes of the user from now on.
    pub fn set_guide(&self, guide: &Guide) {
        *self.system.lock() = system_prompt(guide);
    }

    /// The same with another time limit.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Judges an action.
    pub async fn rule(&self, action: &Action<'_>) -> Ruling {
        let count = *self.denials.lock();
        if count.in_a_row >= MOST_DENIALS_IN_A_ROW || count.total >= MOST_DENIALS {
            let reason = format!(
                "auto mode refused {} actions ({} in a row), so confirmation is needed",
                count.total, count.in_a_row
            );
            return Ruling::Ask { reason };
        }
        let user = user_message(action);
        let system = self.system.lock().clone();
        let ruling = match self.ask(&system, &user).await {
            Ok(Answer {
                verdict: Verdict::Allow,
                reason,
            }) => Ruling::Allow { reason },
            Ok(Answer {
                verdict: Verdict::Deny,
                reason,
            }) => Ruling::Deny { reason },
            Err(error) => Ruling::Ask {
                reason: error.to_string(),
            },
        };
        let mut denials = self.denials.lock();
        match &ruling {
            Ruling::Allow { .. } => denials.in_a_row = 0,
            Ruling::Deny { .. } => {
                denials.in_a_row += 1;
                denials.total += 1;
            }
            Ruling::Ask { .. } => {}
        }
        ruling
    }

    /// The user answered a question: the row of refusals is broken.
    pub fn person_answered(&self) {
        self.denials.lock().in_a_row = 0;
    }

    /// Looks over what a sub-agent did when it hands over. Gives a warning to attach, if there is
    /// something to warn about; if the review itself fails, the warning says so.
    pub async fn review(
        &self,
        order: &str,
        actions: &[(String, Value)],
        result: &str,
    ) -> Option<String> {
        let actions: Vec<Value> = actions
            .iter()
            .map(|(tool, input)| json!({"tool": tool, "input": bounded(&input.to_string())}))
            .collect();
        let user = json!({"order": bounded(order), "actions": actions, "result": bounded(result)})
            .to_string();
        match self.ask(REVIEW_PROMPT, &user).await {
            Ok(Answer {
                verdict: Verdict::Allow,
                ..
            }) => None,
            Ok(Answer {
                verdict: Verdict::Deny,
                reason,
            }) => Some(format!("Careful with this agent's work: {reason}")),
            Err(error) => Some(format!(
                "This agent's work was not reviewed ({error}); check it before relying on it."
            )),
        }
    }

    async fn ask(&self, system: &str, user: &str) -> Result<Answer, ClassifierError> {
        let asked = tokio::time::timeout(self.limit, self.model.ask(system, user));
        let text = asked
            .await
            .map_err(|_| ClassifierError::TimedOut(self.limit))?
            .map_err(ClassifierError::Model)?;
        Ok(parse(&text)?)
    }
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    verdict: Verdict,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Allow,
    Deny,
}

/// Reads an answer: one JSON object, alone or in one code fence, and nothing around it.
fn parse(text: &str) -> Result<Answer, serde_json::Error> {
    let mut body = text.trim();
    if let Some(inner) = body
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
    {
        body = inner.strip_prefix("json").unwrap_or(inner).trim();
    }
    let answer: Answer = serde_json::from_str(body)?;
    if answer.verdict == Verdict::Deny && answer.reason.trim().is_empty() {
        return Ok(Answer {
            reason: "the classifier gave no reason".to_owned(),
            ..answer
        });
    }
    Ok(answer)
}

fn system_prompt(guide: &Guide) -> String {
    let list = |entries: &[String]| {
        // Files of this ecosystem include the built-in entries by this word; here they always apply.
        let entries: Vec<&String> = entries.iter().filter(|it| *it != "$defaults").collect();
        if entries.is_empty() {
            return "- (nothing)".to_owned();
        }
        entries
            .into_iter()
            .map(|entry| format!("- {}", entry.replace('\n', " ")))
            .collect::<Vec<_>>()
            .join("\n")
    };
    // Each place is cut out first, so that a note that contains a placeholder's name stays text.
    let mut prompt = String::with_capacity(PROMPT.len());
    let mut rest = PROMPT;
    while let Some((front, back)) = rest.split_once("{{") {
        prompt.push_str(front);
        let Some((name, after)) = back.split_once("}}") else {
            break;
        };
        prompt.push_str(&match name {
            "allow" => list(&guide.allow),
            "soft_deny" => list(&guide.soft_deny),
            "hard_deny" => list(&guide.hard_deny),
            "environment" => list(&guide.environment),
            _ => String::new(),
        });
        rest = after;
    }
    prompt.push_str(rest);
    prompt
}

fn user_message(action: &Action<'_>) -> String {
    let skipped = action.messages.len().saturating_sub(MOST_MESSAGES);
    let messages: Vec<String> = action
        .messages
        .iter()
        .skip(skipped)
        .map(|text| bounded(text))
        .collect();
    let input = action.input.to_string();
    let input = if input.chars().count() > LONGEST_TEXT {
        Value::String(bounded(&input))
    } else {
        action.input.clone()
    };
    json!({
        "what_the_person_said": messages,
        "action": {"tool": action.tool_name, "input": input, "folder": action.cwd},
        "why_it_is_asked": action.question,
        "outside_text_read_from": action.outside,
    })
    .to_string()
}

/// A text, its middle left out if it is long: both ends can matter.
fn bounded(text: &str) -> String {
    let length = text.chars().count();
    if length <= LONGEST_TEXT {
        return text.to_owned();
    }
    let half = LONGEST_TEXT / 2;
    let front: String = text.chars().take(half).collect();
    let back: String = text.chars().skip(length - half).collect();
    format!(
        "{front} […{} characters omitted…] {back}",
        length - 2 * half
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_protocol::permission::{Behavior, RuleSource};
    use std::collections::VecDeque;

    /// Answers from a list, and remembers what it was asked.
    #[derive(Default)]
    struct Scripted {
        answers: Mutex<VecDeque<Result<String, String>>>,
        asked: Mutex<Vec<(String, String)>>,
    }

    impl ClassifierModel for Scripted {
        fn ask<'a>(
            &'a self,
            system: &'a str,
            user: &'a str,
        ) -> BoxFuture<'a, Result<String, ModelFailure>> {
            self.asked.lock().push((system.to_owned(), user.to_owned()));
            let answer = self.answers.lock().pop_front();
            Box::pin(async move {
                match answer {
                    Some(answer) => answer.map_err(Into::into),
                    None => std::future::pending().await,
                }
            })
        }
    }

    fn scripted(answers: &[&str]) -> (Arc<Scripted>, Classifier) {
        let model = Arc::new(Scripted::default());
        model
            .answers
            .lock()
            .extend(answers.iter().map(|answer| Ok((*answer).to_owned())));
        let guide = Guide {
            allow: vec!["running tests {{environment}}".into()],
            ..Guide::default()
        };
        (model.clone(), Classifier::new(model, &guide))
    }

    const ALLOW: &str = r#"{"verdict":"allow","reason":"asked for"}"#;
    const DENY: &str = r#"{"verdict":"deny","reason":"too far"}"#;

    async fn rule(classifier: &Classifier) -> Ruling {
        let input = json!({"command": "npm install x"});
        let messages = ["please add x".to_owned()];
        let action = Action {
            tool_name: "Bash",
            input: &input,
            question: "not known",
            cwd: "/p",
            messages: &messages,
            outside: &[],
        };
        classifier.rule(&action).await
    }

    #[tokio::test]
    async fn the_model_sees_the_persons_words_the_action_and_the_notes() {
        let (model, classifier) = scripted(&[ALLOW]);
        assert_eq!(
            rule(&classifier).await,
            Ruling::Allow {
                reason: "asked for".into()
            }
        );
        let asked = model.asked.lock();
        let (system, user) = &asked[0];
        assert!(
            system.contains("- running tests {{environment}}"),
            "{system}"
        );
        assert!(!system.contains("{{allow}}"));
        let user: Value = serde_json::from_str(user).unwrap();
        assert_eq!(user["what_the_person_said"][0], "please add x");
        assert_eq!(user["action"]["input"]["command"], "npm install x");
    }

    #[tokio::test]
    async fn three_refusals_in_a_row_bring_the_person_back() {
        let (_, classifier) = scripted(&[DENY, DENY, ALLOW, DENY, DENY, DENY, ALLOW]);
        for wanted in [
            "deny", "deny", "allow", "deny", "deny", "deny", "ask", "ask",
        ] {
            let found = match rule(&classifier).await {
                Ruling::Allow { .. } => "allow",
                Ruling::Deny { .. } => "deny",
                Ruling::Ask { .. } => "ask",
            };
            assert_eq!(found, wanted);
        }
        classifier.person_answered();
        assert!(matches!(rule(&classifier).await, Ruling::Allow { .. }));
    }

    #[tokio::test]
    async fn twenty_refusals_end_it_for_the_session() {
        let answers: Vec<&str> = (0..20).flat_map(|_| [DENY, ALLOW]).collect();
        let (_, classifier) = scripted(&answers);
        for _ in 0..20 {
            assert!(matches!(rule(&classifier).await, Ruling::Deny { .. }));
            classifier.person_answered();
            if classifier.denials.lock().total < MOST_DENIALS {
                assert!(matches!(rule(&classifier).await, Ruling::Allow { .. }));
            }
        }
        classifier.person_answered();
        assert!(matches!(rule(&classifier).await, Ruling::Ask { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_and_errors_become_a_question() {
        let (model, classifier) = scripted(&[]);
        let Ruling::Ask { reason } = rule(&classifier).await else {
            panic!()
        };
        assert!(reason.contains("30 s"), "{reason}");
        model.answers.lock().push_back(Err("overloaded".into()));
        let Ruling::Ask { reason } = rule(&classifier).await else {
            panic!()
        };
        assert!(reason.contains("overloaded"), "{reason}");
    }

    #[test]
    fn only_one_strict_object_is_an_answer() {
        assert!(parse(ALLOW).is_ok());
        assert!(parse(&format!("```json\n{DENY}\n```")).is_ok());
        for bad in [
            "",
            "allow",
            "Sure! {\"verdict\":\"allow\"}",
            r#"{"verdict":"maybe"}"#,
            r#"{"verdict":"allow","extra":1}"#,
            r#"{"verdict":"ALLOW"}"#,
            r#"[{"verdict":"allow"}]"#,
            r#"{"verdict":"allow"}{"verdict":"deny"}"#,
            "{}",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_wants_a_person_is_not_the_classifiers() {
        let ask = |reason, hard| Decision::Ask {
            reason,
            suggestions: Vec::new(),
            blocked_path: None,
            hard,
        };
        let other = || DecisionReason::Other {
            reason: String::new(),
        };
        assert!(may_answer(&ask(other(), false)));
        assert!(!may_answer(&ask(other(), true)));
        assert!(!may_answer(&ask(
            DecisionReason::SafetyCheck {
                reason: String::new()
            },
            false
        )));
        let rule = DecisionReason::Rule {
            rule: "Bash".into(),
            behavior: Behavior::Ask,
            source: RuleSource::UserSettings,
        };
        assert!(!may_answer(&ask(rule, false)));
        assert!(!may_answer(&Decision::Deny { reason: other() }));
    }

    #[tokio::test]
    async fn a_suspicious_agent_comes_with_a_warning() {
        let (_, classifier) = scripted(&[ALLOW, DENY, "nonsense"]);
        let actions = [("Bash".to_owned(), json!({"command": "ls"}))];
        assert_eq!(classifier.review("look", &actions, "done").await, None);
        assert!(
            classifier
                .review("look", &actions, "done")
                .await
                .unwrap()
                .contains("too far")
        );
        assert!(
            classifier
                .review("look", &actions, "done")
                .await
                .unwrap()
                .contains("not reviewed")
        );
    }

    #[test]
    fn long_texts_are_cut_in_the_middle() {
        let text = "a".repeat(5_000) + &"b".repeat(5_000);
        let cut = bounded(&text);
        assert!(
            cut.starts_with('a') && cut.ends_with('b') && cut.contains("2000 characters omitted")
        );
    }
}
