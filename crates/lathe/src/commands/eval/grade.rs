//! Whether a run did what its case wants. Judged by calls and files, never by the style of words.

use super::case::{CallPattern, Case, FileState, Grader};
use crate::commands::recording::{Call, Recording};
use lathe_process::{Command, Ending, Job};
use regex::Regex;
use std::path::Path;
use std::time::Duration;

/// How long a command of a grader may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// A run to be graded.
pub(super) struct Run<'a> {
    pub(super) case: &'a Case,
    pub(super) project: &'a Path,
    pub(super) recording: &'a Recording,
    /// The last answer.
    pub(super) answer: &'a str,
}

impl Run<'_> {
    /// The conditions that do not hold, in words.
    pub(super) async fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for grader in &self.case.graders {
            failures.extend(self.failure(grader).await);
        }
        failures
    }

    async fn failure(&self, grader: &Grader) -> Option<String> {
        match grader {
            Grader::Called(call) => (self.position(call).is_none())
                .then(|| format!("there is no call of {}", words(call))),
            Grader::NotCalled(call) => self
                .position(call)
                .map(|index| format!("call {} is of {}", index + 1, words(call))),
            Grader::Order { first, then } => {
                let then_at = self.position(then)?;
                let fine = self.position(first).is_some_and(|first| first < then_at);
                (!fine).then(|| format!("{} does not come before {}", words(first), words(then)))
            }
            Grader::CallsAtMost(most) => {
                let count = self.recording.calls().count();
                (count > *most).then(|| format!("{count} calls, at most {most}"))
            }
            Grader::RepeatsAtMost(most) => {
                let calls: Vec<&Call> = self.recording.calls().collect();
                let same =
                    |one: &Call, other: &Call| one.tool == other.tool && one.input == other.input;
                let repeats = calls
                    .iter()
                    .map(|one| calls.iter().filter(|it| same(one, it)).count());
                let repeats = repeats.max().unwrap_or_default();
                (repeats > *most).then(|| format!("the same call {repeats} times, at most {most}"))
            }
            Grader::File(file) => self.file(file),
            Grader::Unchanged(paths) => paths.iter().find_map(|path| {
                let now = std::fs::read_to_string(self.project.join(path)).ok();
                let changed = now.as_ref() != self.case.files.get(path);
                changed.then(|| format!("{} was changed", path.display()))
            }),
            Grader::Command(command) => {
                let shell = Command::new("sh")
                    .arguments(["-c", command])
                    .directory(self.project);
                let outcome = lathe_process::run(Job::new(shell, COMMAND_LIMIT)).await;
                match outcome.map(|finished| finished.ending) {
                    Ok(Ending::Exited(0)) => None,
                    Ok(ending) => Some(format!("`{command}` failed: {ending:?}")),
                    Err(error) => Some(format!("`{command}` can't be run: {error}")),
                }
            }
            Grader::Answer(pattern) => {
                (!matches(pattern, self.answer)).then(|| format!("the answer lacks {pattern}"))
            }
        }
    }

    /// Where the first such call is.
    fn position(&self, pattern: &CallPattern) -> Option<usize> {
        self.recording.calls().position(|call| {
            let failed = call.result.as_ref().is_some_and(|result| result.is_error);
            matches(&format!("^(?:{})$", pattern.tool), &call.tool)
                && pattern
                    .input
                    .as_ref()
                    .is_none_or(|input| matches(input, &call.input.to_string()))
                && pattern.failed.is_none_or(|wanted| wanted == failed)
        })
    }

    fn file(&self, file: &FileState) -> Option<String> {
        let path = file.path.display();
        let text = std::fs::read_to_string(self.project.join(&file.path)).ok();
        let Some(text) = text else {
            return file.exists.then(|| format!("{path} does not exist"));
        };
        if !file.exists {
            return Some(format!("{path} exists"));
        }
        let lacking = file.has.iter().find(|pattern| !matches(pattern, &text));
        let present = file.lacks.iter().find(|pattern| matches(pattern, &text));
        lacking
            .map(|pattern| format!("{path} lacks {pattern}"))
            .or_else(|| present.map(|pattern| format!("{path} has {pattern}")))
    }
}

fn words(call: &CallPattern) -> String {
    match &call.input {
        Some(input) => format!("{} with {input}", call.tool),
        None => call.tool.clone(),
    }
}

/// Patterns were checked when the case was read.
fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}
