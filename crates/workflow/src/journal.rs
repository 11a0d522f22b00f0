//! The answers of finished agents, so that a run continues where it stopped.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, VecDeque};

/// A call of `agent`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCall {
    #[serde(skip)]
    pub prompt: String,
    pub label: Option<String>,
    pub phase: Option<String>,
    pub schema: Option<Value>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub isolation: Option<String>,
    pub agent_type: Option<String>,
}

impl AgentCall {
    /// The identity of the call: the prompt and the options, but not how the tree shows them.
    #[must_use]
    pub fn key(&self) -> String {
        let parts = serde_json::json!([
            self.prompt,
            self.schema,
            self.model,
            self.effort,
            self.isolation,
            self.agent_type,
        ]);
        let digest = Sha256::digest(parts.to_string());
        digest
            .iter()
            .take(16)
            .fold(String::new(), |mut text, byte| {
                use std::fmt::Write as _;
                let _ = write!(text, "{byte:02x}");
                text
            })
    }
}

/// The answer of an agent that finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    pub value: Value,
    /// Tokens that it used.
    #[serde(default)]
    pub tokens: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    #[serde(flatten)]
    recorded: Recorded,
}

/// A line of a journal, with its line break.
#[must_use]
pub fn journal_line(call: &AgentCall, recorded: &Recorded) -> String {
    let line = Line {
        key: call.key(),
        recorded: recorded.clone(),
    };
    let mut text = serde_json::to_string(&line).unwrap_or_default();
    text.push('\n');
    text
}

/// A journal that can be continued: a last line that was cut off when the process died is gone, so that the next answer
/// begins a line of its own.
#[must_use]
pub fn continuable(journal: &[u8]) -> String {
    let begin = journal.iter().rposition(|byte| *byte == b'\n');
    let (whole, last) = journal.split_at(begin.map_or(0, |at| at + 1));
    let mut text = String::from_utf8_lossy(whole).into_owned();
    if let Ok(Value::Object(_)) = serde_json::from_slice(last) {
        text.push_str(&String::from_utf8_lossy(last));
        text.push('\n');
    }
    text
}

/// The answers of an earlier run, each given out once.
#[derive(Debug, Default)]
pub struct Journal {
    answers: HashMap<String, VecDeque<(usize, Recorded)>>,
}

impl Journal {
    /// Reads a journal. A last line that was cut off when the process died is left out.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut journal = Self::default();
        for (number, line) in text.lines().enumerate() {
            if let Ok(Line { key, recorded }) = serde_json::from_str(line) {
                let answers = journal.answers.entry(key).or_default();
                answers.push_back((number, recorded));
            }
        }
        journal
    }

    /// The answer to a call, and its place in the order of answers: the first call gets the first one, and so on.
    pub fn take(&mut self, call: &AgentCall) -> Option<(usize, Recorded)> {
        self.answers.get_mut(&call.key())?.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_journal_that_was_cut_off_anywhere_is_continued_with_whole_lines() {
        let call = |prompt: &str| AgentCall {
            prompt: prompt.to_owned(),
            ..AgentCall::default()
        };
        let recorded = |value: Value| Recorded { value, tokens: 3 };
        let first = journal_line(&call("a"), &recorded(json!("ä")));
        let whole = first.clone() + &journal_line(&call("b"), &recorded(json!({"two": 2})));
        // In the middle of a letter too.
        for cut in 0..=whole.len() {
            let continued = continuable(&whole.as_bytes()[..cut])
                + &journal_line(&call("c"), &recorded(json!(3)));
            let mut journal = Journal::read(&continued);
            assert!(journal.take(&call("c")).is_some(), "cut at {cut}");
            assert_eq!(journal.take(&call("a")).is_some(), cut + 1 >= first.len());
            assert_eq!(journal.take(&call("b")).is_some(), cut + 1 >= whole.len());
        }
    }

    #[test]
    fn equal_calls_get_their_answers_in_order_and_each_once() {
        let call = |prompt: &str, label: &str| AgentCall {
            prompt: prompt.to_owned(),
            label: Some(label.to_owned()),
            ..AgentCall::default()
        };
        let recorded = |value: Value| Recorded { value, tokens: 3 };
        let mut text = String::new();
        text += &journal_line(&call("a", "x"), &recorded(json!(1)));
        text += &journal_line(&call("b", "x"), &recorded(json!({"two": 2})));
        text += &journal_line(&call("a", "x"), &recorded(json!(3)));
        text += "{\"key\":\"cut";
        let mut journal = Journal::read(&text);
        assert_eq!(journal.take(&call("a", "y")).unwrap().1.value, json!(1));
        assert_eq!(journal.take(&call("a", "")), Some((2, recorded(json!(3)))));
        assert_eq!(journal.take(&call("a", "")), None);
        let mut changed = call("b", "x");
        changed.model = Some("other".to_owned());
        assert_eq!(journal.take(&changed), None);
        assert_eq!(
            journal.take(&call("b", "")).unwrap().1.value,
            json!({"two": 2})
        );
    }
}
