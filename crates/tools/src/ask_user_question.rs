//! AskUserQuestion: a few questions to the user, with answers to choose from.
//!
//! The tool itself asks nobody. Its subject is [`Subject::Person`], so every call becomes a permission
//! question (`Event::PermissionRequested` with this tool's name and input), and whichever face is
//! there shows it: a terminal as a dialog, an SDK host in its `can_use_tool`. The face replies
//! *allow* with the input plus `answers` ([`answer`] makes that reply), or *deny* with what the user
//! said instead. Where nobody can answer, the call is refused and the model told to decide itself.

use crate::context::{CallContext, ToolContext};
use crate::tool::{CallTraits, InterruptBehavior, Tool, ToolError, ToolOutput};
use lathe_protocol::Extra;
use lathe_protocol::display::Display;
use lathe_protocol::permission::{PermissionReply, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The tool's name: a face that gets a permission request for it shows a dialog of questions.
pub const NAME: &str = "AskUserQuestion";
/// Questions of one call.
pub const MOST_QUESTIONS: usize = 4;
/// Answers of one question.
pub const MOST_OPTIONS: usize = 4;

/// Asks the user.
pub struct AskUserQuestion {
    description: String,
}

impl AskUserQuestion {
    /// The tool, for a face that shows previews as they are, or for one that renders HTML.
    #[must_use]
    pub fn new(previews_are_html: bool) -> Self {
        const DESCRIPTION: &str = include_str!("ask_user_question.md");
        const PLAIN: &str = "plain text or code";
        const HTML: &str =
            "a self-contained fragment of HTML: styles inline, no html, head, body or script";
        let description = if previews_are_html {
            DESCRIPTION.replacen(PLAIN, HTML, 1)
        } else {
            DESCRIPTION.to_owned()
        };
        Self { description }
    }
}

/// The questions, and later the answers.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct Input {
    /// One to four questions.
    pub questions: Vec<Question>,
    /// Filled in when the user answers; leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, Value>>,
    /// Notes of the user; leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, Value>>,
    /// Where the question comes from. Not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Value>>,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The whole question, with a question mark.
    pub question: String,
    /// One or two words for it, at most 12 characters ("Database").
    pub header: String,
    /// Two to four answers.
    pub options: Vec<QuestionOption>,
    /// Whether several answers may be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

/// An answer to choose.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct QuestionOption {
    /// The answer in one to five words.
    pub label: String,
    /// The consequence of the choice.
    #[serde(default)]
    pub description: String,
    /// A preview to show beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

/// The questions of a call's input; `None` when it isn't one of this tool.
#[must_use]
pub fn questions(input: &Value) -> Option<Vec<Question>> {
    Input::deserialize(input).ok().map(|input| input.questions)
}

/// The reply that carries the user's answers: for each question its text and what was chosen. Several
/// choices of one question are joined by a comma; words of the user's own are given as they are.
#[must_use]
pub fn answer(input: &Value, answers: &[(String, String)]) -> PermissionReply {
    let mut input = input.clone();
    if let Some(fields) = input.as_object_mut() {
        let answers: serde_json::Map<String, Value> = answers
            .iter()
            .map(|(question, answer)| (question.clone(), answer.as_str().into()))
            .collect();
        fields.insert("answers".to_owned(), answers.into());
    }
    PermissionReply::Allow {
        updated_input: Some(input),
        updated_permissions: Vec::new(),
        extra: Extra::new(),
    }
}

impl Tool for AskUserQuestion {
    type Input = Input;

    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits {
            interrupt: InterruptBehavior::Cancel,
            ..CallTraits::READS
        }
    }

    fn subject(&self, _input: &Input, _context: &ToolContext) -> Subject {
        Subject::Person
    }

    fn activity(&self, input: &Input) -> String {
        match input.questions.as_slice() {
            [question] => format!("Asking: {}", question.question),
            questions => format!("Asking {} questions", questions.len()),
        }
    }

    async fn validate(&self, input: &Input, _context: &ToolContext) -> Result<(), ToolError> {
        check(&input.questions).map_err(|error| ToolError::invalid(error.to_string()))
    }

    async fn call(&self, input: Input, _context: CallContext) -> Result<ToolOutput, ToolError> {
        let answers: BTreeMap<String, String> = input
            .answers
            .iter()
            .flatten()
            .map(|(question, answer)| (question.clone(), words(answer)))
            .filter(|(_, answer)| !answer.trim().is_empty())
            .collect();
        if answers.is_empty() {
            return Err(ToolError::failed(
                "The user gave no answer. Continue with the option that you recommend and say which it is, or ask in the conversation.",
            ));
        }
        let mut text = "The user answered:".to_owned();
        for question in &input.questions {
            if let Some(answer) = answers.get(&question.question) {
                let _ = write!(text, "\n- {} → {answer}", question.question);
                if let Some(note) = note(input.annotations.as_ref(), &question.question) {
                    let _ = write!(text, " (their note: {note})");
                }
            } else {
                let _ = write!(text, "\n- {} → (not answered)", question.question);
            }
        }
        // A host may answer in words of its own, under a text that isn't one of the questions.
        for (question, answer) in &answers {
            if !input
                .questions
                .iter()
                .any(|known| known.question == *question)
            {
                let _ = write!(text, "\n- {question} → {answer}");
            }
        }
        // For people without the words that introduce it to the model.
        let shown = text.lines().skip(1).collect::<Vec<_>>().join("\n");
        let display = Display::Text { text: shown };
        let mut structured = json!({"questions": input.questions, "answers": answers});
        if let Some(annotations) = input.annotations {
            structured["annotations"] = json!(annotations);
        }
        Ok(ToolOutput::new(text, structured, display))
    }
}

fn words(answer: &Value) -> String {
    match answer {
        Value::String(text) => text.clone(),
        Value::Array(several) => several.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn note(annotations: Option<&BTreeMap<String, Value>>, question: &str) -> Option<String> {
    let note = annotations?.get(question)?.get("notes")?.as_str()?.trim();
    (!note.is_empty()).then(|| note.to_owned())
}

/// Why questions can't be asked. The texts are for the model.
#[derive(Debug, thiserror::Error)]
enum QuestionError {
    #[error("questions: give one to {MOST_QUESTIONS} questions, not {0}.")]
    WrongCount(usize),
    #[error("{0} is empty.")]
    Empty(String),
    #[error("{0}.question occurs twice in this call.")]
    Repeated(String),
    #[error("{at}.options: give two to {MOST_OPTIONS} options, not {count}.")]
    WrongOptionCount { at: String, count: usize },
    #[error("{at}.options: the label {label:?} occurs twice.")]
    RepeatedLabel { at: String, label: String },
}

fn check(questions: &[Question]) -> Result<(), QuestionError> {
    if questions.is_empty() || questions.len() > MOST_QUESTIONS {
        return Err(QuestionError::WrongCount(questions.len()));
    }
    for (index, question) in questions.iter().enumerate() {
        let at = format!("questions[{index}]");
        if question.question.trim().is_empty() {
            return Err(QuestionError::Empty(format!("{at}.question")));
        }
        let earlier = &questions[..index];
        if earlier
            .iter()
            .any(|other| other.question == question.question)
        {
            return Err(QuestionError::Repeated(at));
        }
        check_options(question, at)?;
    }
    Ok(())
}

fn check_options(question: &Question, at: String) -> Result<(), QuestionError> {
    let options = &question.options;
    if options.len() < 2 || options.len() > MOST_OPTIONS {
        return Err(QuestionError::WrongOptionCount {
            at,
            count: options.len(),
        });
    }
    for (number, option) in options.iter().enumerate() {
        if option.label.trim().is_empty() {
            return Err(QuestionError::Empty(format!(
                "{at}.options[{number}].label"
            )));
        }
        if options[..number]
            .iter()
            .any(|other| other.label == option.label)
        {
            return Err(QuestionError::RepeatedLabel {
                at,
                label: option.label.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> Value {
        json!({"questions": [{
            "question": "Which store?", "header": "Store",
            "options": [{"label": "SQLite", "description": "a file"}, {"label": "Postgres", "description": "a server"}],
        }]})
    }

    #[test]
    fn an_answer_goes_back_with_the_whole_input() {
        let reply = answer(&input(), &[("Which store?".into(), "SQLite".into())]);
        let PermissionReply::Allow {
            updated_input: Some(updated),
            ..
        } = reply
        else {
            panic!("{reply:?}");
        };
        let updated = Input::deserialize(&updated).unwrap();
        assert_eq!(updated.questions, questions(&input()).unwrap());
        assert_eq!(updated.answers.unwrap()["Which store?"], "SQLite");
    }

    #[test]
    fn wrong_questions_are_named() {
        let mut asked = questions(&input()).unwrap();
        assert!(check(&asked).is_ok());
        assert!(check(&[]).unwrap_err().to_string().contains("not 0"));
        asked[0].options.truncate(1);
        assert!(check(&asked).unwrap_err().to_string().contains("not 1"));
        let mut asked = questions(&input()).unwrap();
        asked[0].options[1].label = "SQLite".into();
        assert!(check(&asked).unwrap_err().to_string().contains("twice"));
        let one = questions(&input()).unwrap();
        let twice = [one[0].clone(), one[0].clone()];
        assert!(
            check(&twice)
                .unwrap_err()
                .to_string()
                .contains("question occurs twice")
        );
    }
}
