//! The log of a job: the lines of its transcript, the calls that began, and its attempts.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Records above this size are stored as blobs.
pub(crate) const LARGEST_RECORD: usize = 512 << 10;

/// A record of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum LogRecord {
    /// A worker took the job. Appends of the worker before it fail from here on.
    Begin {
        /// The epoch of the claim.
        epoch: u64,
        /// The worker.
        worker: String,
        /// When, in milliseconds.
        at: i64,
        /// True if the session starts anew, so that lines before this record are not part of it.
        fresh: bool,
    },
    /// A line of the transcript, byte for byte.
    Line {
        /// The line, without its end.
        line: String,
    },
    /// A line of a file beside the transcript: of the transcript of a sub-agent, or of the journal of a workflow.
    Beside {
        /// The name of the file.
        name: String,
        /// The line, without its end.
        line: String,
    },
    /// A file beside the transcript that is written as a whole.
    Whole {
        /// The name of the file.
        name: String,
        /// Its content.
        text: String,
    },
    /// A call is about to run.
    Call {
        /// The id of the call.
        id: String,
        /// The tool.
        tool: String,
        /// The input.
        input: Value,
    },
    /// A remark about the job.
    Note {
        /// The text.
        text: String,
    },
    /// A record that is too large for the log.
    Blob {
        /// The hash of its bytes.
        hash: String,
    },
}

/// A conversation as the log has it, for a restart elsewhere.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conversation {
    /// The lines of the transcript.
    pub lines: Vec<String>,
    /// The files beside the transcript, by name: sub-agents, and runs of workflows.
    pub beside: BTreeMap<String, String>,
    /// Calls that began after a position and whose results may be unknown or lost.
    pub calls: Vec<(String, Value)>,
}

impl Conversation {
    /// Collects the lines of the newest session in a log, and the calls after the position of the last snapshot.
    #[must_use]
    pub fn of(records: &[(u64, LogRecord)], snapshot: u64) -> Self {
        let mut conversation = Self::default();
        for (position, record) in records {
            match record {
                LogRecord::Begin { fresh: true, .. } => conversation = Self::default(),
                LogRecord::Line { line } => conversation.lines.push(line.clone()),
                LogRecord::Beside { name, line } => {
                    let text = conversation.beside.entry(name.clone()).or_default();
                    text.push_str(line);
                    text.push('\n');
                }
                LogRecord::Whole { name, text } => {
                    conversation.beside.insert(name.clone(), text.clone());
                }
                LogRecord::Call { tool, input, .. } if *position > snapshot => {
                    conversation.calls.push((tool.clone(), input.clone()));
                }
                _ => {}
            }
        }
        conversation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_conversation_is_the_newest_session_with_the_calls_after_the_snapshot() {
        let begin = |fresh| LogRecord::Begin {
            epoch: 1,
            worker: "w".to_owned(),
            at: 0,
            fresh,
        };
        let line = |text: &str| LogRecord::Line {
            line: text.to_owned(),
        };
        let beside = |line: &str| LogRecord::Beside {
            name: "agent-1.jsonl".to_owned(),
            line: line.to_owned(),
        };
        let whole = |text: &str| LogRecord::Whole {
            name: "agent-1.meta.json".to_owned(),
            text: text.to_owned(),
        };
        let call = |id: &str| LogRecord::Call {
            id: id.to_owned(),
            tool: "Bash".to_owned(),
            input: json!(id),
        };
        let records = [
            begin(true),
            line("old"),
            beside("old"),
            begin(true),
            line("a"),
            call("x"),
            beside("one"),
            whole("running"),
            begin(false),
            beside("two"),
            whole("completed"),
            line("b"),
            call("y"),
        ];
        let records: Vec<_> = (1..).zip(records).collect();
        let found = Conversation::of(&records, 6);
        assert_eq!(found.lines, ["a", "b"]);
        let files = ["agent-1.jsonl", "agent-1.meta.json"].map(|name| found.beside[name].as_str());
        assert_eq!(files, ["one\ntwo\n", "completed"]);
        assert_eq!(found.calls, [("Bash".to_owned(), json!("y"))]);
    }
}
