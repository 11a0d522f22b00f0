//! Lines of the transcript that only its readers see: commands that the user gave and the session answered by itself,
//! and the summary for the user who had been away. They are `system` records, so no request carries them.

use crate::conversation::records::RecordFactory;
use lathe_protocol::ids::RecordId;
use lathe_protocol::record::{AWAY_SUMMARY, LOCAL_COMMAND, MessageRecord};

/// A line for the transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Aside {
    subtype: &'static str,
    content: String,
}

/// A command, and its answer if that is text.
pub(super) fn of_command(name: &str, arguments: &str, answer: Option<&str>) -> Vec<Aside> {
    let given = format!(
        "<command-name>/{name}</command-name>\n<command-message>{name}</command-message>\n<command-args>{arguments}</command-args>"
    );
    let answer = answer.filter(|answer| !answer.is_empty());
    let answer = answer.map(|text| format!("<local-command-stdout>{text}</local-command-stdout>"));
    std::iter::once(given)
        .chain(answer)
        .map(|content| Aside {
            subtype: LOCAL_COMMAND,
            content,
        })
        .collect()
}

/// A summary for the user who had been away.
pub(super) fn of_absence(text: &str) -> Aside {
    Aside {
        subtype: AWAY_SUMMARY,
        content: text.to_owned(),
    }
}

impl Aside {
    pub(super) fn record(self, records: &RecordFactory, parent: Option<RecordId>) -> MessageRecord {
        let mut record = records.system(parent, self.subtype, &self.content);
        record.extra.insert("level".to_owned(), "info".into());
        record
    }
}
