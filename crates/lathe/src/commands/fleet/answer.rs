//! `lathe fleet answer`.

use super::super::print_line;
use super::{find, refuse_sessions};
use crate::error::{CliError, Kinded as _, Outcome};
use clap::{Args, ValueEnum};
use lathe_fleet::Fleet;
use lathe_fleet::backend::Answer;
use lathe_settings::Places;

/// An answer on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Word {
    Allow,
    Deny,
}

// `lathe fleet answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArguments {
    /// The job: its id or a prefix of it.
    id: String,
    /// The answer.
    #[arg(value_enum)]
    answer: Word,
    /// A message for the model.
    message: Option<String>,
    /// The question, if several are open (`lathe fleet show ID` lists them).
    #[arg(long, value_name = "ID")]
    question: Option<String>,
    /// A replacement for the call's input, as JSON: the answers to a question of the model.
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
}

/// Who answers on this machine.
const BY: &str = "the command line";

pub(super) async fn run(places: &Places, fleet: &Fleet, arguments: AnswerArguments) -> Outcome {
    refuse_sessions(places, fleet).await?;
    let key = find(fleet, &arguments.id).await?;
    let asks = fleet.asks(&key).await.or_failure()?;
    let open: Vec<_> = asks.iter().filter(|ask| ask.answer.is_none()).collect();
    let ask = match (&arguments.question, open.as_slice()) {
        (Some(wanted), _) => asks.iter().find(|ask| ask.id == *wanted).ok_or_else(|| {
            CliError::usage(format!("{} has no question {wanted:?}", key.id))
                .hint(format!("lathe fleet show {}", key.id))
        })?,
        (None, [ask]) => *ask,
        (None, []) => {
            return Err(CliError::failure(format!(
                "{} has no open question",
                key.id
            )));
        }
        (None, several) => {
            return Err(
                CliError::usage(format!("{} questions are open", several.len())).hint(format!(
                    "choose one with --question; `lathe fleet show {}` lists them",
                    key.id
                )),
            );
        }
    };
    let input = match &arguments.input {
        Some(text) => Some(
            serde_json::from_str(text).map_err(|error| CliError::usage(error).about("--input"))?,
        ),
        None => None,
    };
    let answer = Answer {
        allow: arguments.answer == Word::Allow,
        message: arguments.message,
        input,
        by: BY.to_owned(),
    };
    if fleet.answer(&key, &ask.id, &answer).await.or_failure()? {
        return print_line(&format!("answered: {}", ask.title));
    }
    Err(CliError::failure("the question was answered before"))
}

/// The answer in a line that a user typed: y, n, or n and a message.
pub(super) fn of_line(line: &str) -> Option<Answer> {
    let line = line.trim();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let allow = match word {
        "y" | "yes" | "allow" => true,
        "n" | "no" | "deny" => false,
        _ => return None,
    };
    Some(Answer {
        allow,
        message: Some(rest.trim().to_owned()).filter(|text| !text.is_empty()),
        input: None,
        by: BY.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_line_is_an_answer_or_nothing() {
        assert!(of_line("y").unwrap().allow);
        let denied = of_line("n use the other file").unwrap();
        assert_eq!(
            (denied.allow, denied.message.as_deref()),
            (false, Some("use the other file"))
        );
        assert_eq!(of_line("perhaps"), None);
    }
}
