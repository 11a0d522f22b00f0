//! A conversation that was held before: read from its records, its end printed again.

use super::Conversation;
use crate::app::events::{LONG_TURN, turn_took};
use crate::prompt::keymap::{Action, Context};
use crate::render::cell::Cell;
use crate::render::markdown::Look;
use crate::render::style::Line;
use lathe_protocol::record::{INTERRUPTED_BY_USER, MessageRecord, RecordKind, TURN_DURATION};
use std::time::Duration;

/// How many cells are printed again.
const REPRINTED: usize = 30;

/// Whether a record marks an interruption, with or without a running tool.
fn is_interruption(record: &MessageRecord) -> bool {
    let message = record.message.as_ref();
    record.kind == RecordKind::User
        && message.is_some_and(|message| message.text().starts_with(INTERRUPTED_BY_USER))
}

/// How long a turn took and how many tokens were written in it, if a record says so.
fn duration_of(record: &MessageRecord) -> Option<(Duration, u64)> {
    if record.subtype.as_deref() != Some(TURN_DURATION) {
        return None;
    }
    let tokens = record.extra.get("outputTokens");
    let tokens = tokens.and_then(serde_json::Value::as_u64);
    Some((record.duration()?, tokens.unwrap_or(0)))
}

impl Conversation {
    /// Takes up a conversation that was held before and prints its end, below whatever was said since
    /// and is not on the screen yet. Says whether it shows calls that never ended.
    pub(crate) fn resume(&mut self, records: &[MessageRecord], look: Look<'_>) -> bool {
        // In a conversation of its own: what is going on here, and what is about to be printed, stays.
        let mut earlier = Self::new(&self.cwd);
        let has_unfinished = earlier.load(records, look);
        let newer = std::mem::replace(&mut self.cells, earlier.cells);
        self.todos = earlier.todos;
        self.reprint(look);
        self.cells.extend(newer);
        has_unfinished
    }

    /// Reads records. Nothing is printed.
    fn load(&mut self, records: &[MessageRecord], look: Look<'_>) -> bool {
        self.quiet = true;
        for record in records {
            if record.is_compact_boundary() {
                self.push(
                    Cell::Remark("── the conversation before this was summarised ──".to_owned()),
                    look,
                );
            } else if let Some((took, tokens)) = duration_of(record) {
                if took >= LONG_TURN {
                    self.push(Cell::Remark(turn_took(took, tokens)), look);
                }
            } else if is_interruption(record) {
                self.push(Cell::Remark("── interrupted ──".to_owned()), look);
            } else if record.is_prompt() {
                if let Some(message) = &record.message {
                    let text = message.text();
                    let cell = crate::app::shell::parse_note(&text).unwrap_or(Cell::User(text));
                    self.push(cell, look);
                }
            } else if !record.is_meta && !record.is_compact_summary {
                self.record(record, look);
            }
        }
        self.end_turn(look);
        self.unfinished(look)
    }

    /// Prints the end of the conversation for a screen that shows nothing of it: the last cells, and what was written
    /// so far of the answer that is being written.
    pub(crate) fn show_again(&mut self, look: Look<'_>) {
        self.out.clear();
        self.gap = false;
        self.reprint(look);
        self.write_again(look);
    }

    /// Prints the last cells again: after a resume, or where nothing of it is on the screen.
    fn reprint(&mut self, look: Look<'_>) {
        let from = self.cells.len().saturating_sub(REPRINTED);
        if from > 0 {
            self.line_gap();
            let how = look
                .keys
                .hint(Context::Prompt, Action::Transcript, "shows them");
            let how = how.map_or_else(String::new, |how| format!(" ({how})"));
            let earlier = crate::render::text::counted(from, "message");
            self.out.push(Line::styled(
                format!("… {earlier} earlier{how}"),
                look.theme.muted,
            ));
        }
        let cells: Vec<Cell> = self.cells.drain(from..).collect();
        for cell in cells {
            self.print(cell, look);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::theme::Theme;
    use serde_json::{Value, json};
    use std::path::Path;

    fn record(kind: &str, message: &Value) -> MessageRecord {
        serde_json::from_value(json!({
            "type": kind,
            "parentUuid": null,
            "isSidechain": false,
            "sessionId": "00000000-0000-4000-8000-000000000001",
            "uuid": "00000000-0000-4000-8000-000000000002",
            "timestamp": "2026-01-01T00:00:00Z",
            "message": message,
        }))
        .unwrap()
    }

    fn held() -> Vec<MessageRecord> {
        let answer = |content: &Value| {
            record(
                "assistant",
                &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                       "content": content, "stop_reason": null, "stop_sequence": null,
                       "usage": {"input_tokens": 1, "output_tokens": 1}}),
            )
        };
        vec![
            record("user", &json!({"role": "user", "content": "do it"})),
            answer(
                &json!([{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]),
            ),
            record(
                "user",
                &json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}]}),
            ),
            answer(&json!([{"type": "text", "text": "done"}])),
        ]
    }

    fn printed(conversation: &mut Conversation) -> Vec<String> {
        conversation
            .take_finished()
            .iter()
            .map(|line| line.text().trim_end().to_owned())
            .collect()
    }

    #[test]
    fn pending_lines_are_printed_before_the_resumed_conversation() {
        let theme = Theme::built_in("dark", false);
        let look = Look {
            theme: &theme,
            columns: 80,
            keys: crate::prompt::keymap::Keymap::standard(),
        };
        let mut conversation = Conversation::new(Path::new("/p"));
        conversation.push(Cell::Remark("as it now stands".to_owned()), look);
        conversation.resume(&held(), look);
        let lines = printed(&mut conversation);
        assert_eq!(lines[..4], ["as it now stands", "", "❯ do it", ""]);
        assert_eq!(lines.last().unwrap(), "● done");
    }

    #[test]
    fn a_resumed_command_shows_how_long_it_ran_not_how_long_a_question_waited() {
        let theme = Theme::built_in("dark", false);
        let look = Look {
            theme: &theme,
            columns: 80,
            keys: crate::prompt::keymap::Keymap::standard(),
        };
        let shown = |ran_for: u64| {
            let mut records = held();
            records[2].timestamp = "2026-01-01T00:10:00Z".to_owned();
            let extra = &mut records[2].extra;
            extra.insert("durationMs".to_owned(), ran_for.into());
            let mut conversation = Conversation::new(Path::new("/p"));
            conversation.resume(&records, look);
            let lines = printed(&mut conversation);
            lines.into_iter().find(|line| line.contains("Bash"))
        };
        assert_eq!(shown(20).unwrap(), "● Bash ls");
        assert_eq!(shown(9_000).unwrap(), "● Bash ls · 9s");
    }

    #[test]
    fn how_long_a_turn_took_is_shown_again_on_resume() {
        let theme = Theme::built_in("dark", false);
        let look = Look {
            theme: &theme,
            columns: 80,
            keys: crate::prompt::keymap::Keymap::standard(),
        };
        let took = |milliseconds: u64| {
            let mut record = record("system", &Value::Null);
            record.message = None;
            record.subtype = Some(TURN_DURATION.to_owned());
            let extra = &mut record.extra;
            extra.insert("durationMs".to_owned(), milliseconds.into());
            extra.insert("outputTokens".to_owned(), 1_500.into());
            record
        };
        let mut conversation = Conversation::new(Path::new("/p"));
        let records = [held(), vec![took(65_000), took(900)]].concat();
        conversation.resume(&records, look);
        let lines = printed(&mut conversation);
        assert_eq!(lines.last().unwrap(), "✻ 1m 5s · 1.5k tokens");
    }

    #[test]
    fn shell_commands_and_interruptions_are_shown_again_on_resume() {
        let theme = Theme::built_in("dark", false);
        let look = Look {
            theme: &theme,
            columns: 80,
            keys: crate::prompt::keymap::Keymap::standard(),
        };
        let said = |text: &str| record("user", &json!({"role": "user", "content": text}));
        let records = [
            said("[Request interrupted by user for tool use]"),
            said(
                "The user ran a shell command.\n<bash-input>ls</bash-input>\n<bash-output>a.txt</bash-output>",
            ),
        ];
        let mut conversation = Conversation::new(Path::new("/p"));
        conversation.resume(&records, look);
        let expected = ["── interrupted ──", "", "! ls", "  a.txt"];
        assert_eq!(printed(&mut conversation), expected);
    }

    #[test]
    fn calls_that_were_shown_before_are_shown_again() {
        let theme = Theme::built_in("dark", false);
        let look = Look {
            theme: &theme,
            columns: 80,
            keys: crate::prompt::keymap::Keymap::standard(),
        };
        let mut conversation = Conversation::new(Path::new("/p"));
        conversation.resume(&held(), look);
        let first = printed(&mut conversation);
        conversation.cells.clear();
        conversation.resume(&held(), look);
        let second = printed(&mut conversation);
        assert!(
            first.iter().any(|line| line.contains("Bash ls")),
            "{first:?}"
        );
        assert_eq!(second[0], "", "a blank line stands between the two");
        assert_eq!(second[1..], first);
    }
}
