//! Where a replay differs from its recording.

use crate::commands::recording::{Call, CallOutcome, Recording};
use regex::Regex;
use std::path::Path;
use std::sync::LazyLock;

/// A call whose result differs.
#[derive(Debug, PartialEq)]
pub(super) struct Divergence {
    /// The number of the call, from 1.
    pub(super) number: usize,
    pub(super) tool: String,
    pub(super) recorded: String,
    pub(super) replayed: String,
}

/// A path that stands for another one.
pub(super) struct Places<'a> {
    pub(super) recorded: &'a Path,
    pub(super) scratch: &'a Path,
}

impl Places<'_> {
    /// A text of the recording, with the path of the scratch copy.
    pub(super) fn to_scratch(&self, text: &str) -> String {
        swap(text, self.recorded, self.scratch)
    }

    /// A text of the replay, with the path of the recording.
    pub(super) fn to_recorded(&self, text: &str) -> String {
        swap(text, self.scratch, self.recorded)
    }
}

fn swap(text: &str, from: &Path, to: &Path) -> String {
    match (from.to_str(), to.to_str()) {
        (Some(from), Some(to)) if !from.is_empty() => text.replace(from, to),
        _ => text.to_owned(),
    }
}

/// Compares the calls that `runs` says were run again, in order.
pub(super) fn compare(
    recorded: &Recording,
    replayed: &Recording,
    places: &Places<'_>,
    runs: impl Fn(&Call) -> bool,
) -> Vec<Divergence> {
    let mut differences = Vec::new();
    let again: Vec<&Call> = replayed.calls().collect();
    for (index, call) in recorded.calls().enumerate() {
        let Some(before) = call.result.as_ref().filter(|_| runs(call)) else {
            continue;
        };
        let now = again.get(index).and_then(|call| call.result.as_ref());
        let told = |outcome: &CallOutcome| {
            let text = steady(&places.to_recorded(&outcome.text));
            (text, outcome.is_error)
        };
        let same = now.is_some_and(|now| told(now) == told(before));
        if !same {
            let now = now.map_or("(no result)", |now| &now.text);
            let (before, now) = first_difference(&before.text, &places.to_recorded(now));
            differences.push(Divergence {
                number: index + 1,
                tool: call.tool.clone(),
                recorded: before,
                replayed: now,
            });
        }
    }
    differences
}

/// A text without what differs from run to run: durations, times, process ids and addresses.
fn steady(text: &str) -> String {
    static VARYING: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?x) \d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d[.\d]*Z? | \b\d\d:\d\d:\d\d\b
            | \b\d+(\.\d+)?\s?(ns|µs|us|ms|s|sec|secs|seconds|m|min)\b | 0x[0-9a-f]+ | \bpid\ \d+\b",
        )
        .ok()
    });
    match &*VARYING {
        Some(varying) => varying.replace_all(text, "…").into_owned(),
        None => text.to_owned(),
    }
}

/// The first line that differs, of both.
fn first_difference(one: &str, other: &str) -> (String, String) {
    let (mut ones, mut others) = (one.lines(), other.lines());
    loop {
        match (ones.next(), others.next()) {
            (None, None) => return (String::new(), String::new()),
            (one, other) if one.map(steady) != other.map(steady) => {
                let line = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
                return (line(one), line(other));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_do_not_count_as_differences() {
        let one = "Finished in 0.12s at 2026-01-01T10:00:00Z\nok";
        let other = "Finished in 3.4 s at 2027-02-03T11:12:13.5Z\nok";
        assert_eq!(steady(one), steady(other));
        assert_eq!(first_difference(one, other), (String::new(), String::new()));
        let (one, other) = first_difference("a\n3 passed", "a\n2 passed");
        assert_eq!((one.as_str(), other.as_str()), ("3 passed", "2 passed"));
        let (_, other) = first_difference("a\nb", "a");
        assert_eq!(other, "(nothing)");
    }
}
