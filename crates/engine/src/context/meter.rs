//! How many tokens the conversation has: the provider's last count, and a guess for what came since.
//!
//! Each record is measured once, when it comes in. A response's usage replaces every guess that its
//! request held, so the error is only that of what came after. Going back to an earlier record takes
//! the guesses after it back.

use lathe_model::estimate;
use lathe_protocol::content::Content;
use lathe_protocol::ids::RecordId;
use lathe_protocol::record::{MessageRecord, RecordKind, RecordMessage};
use lathe_protocol::usage::Usage;
use serde::Deserialize as _;

/// Counts a conversation.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// The provider's last count, the fixed part included.
    counted: Option<u64>,
    /// Guesses for what came since, oldest first.
    since: Vec<Guess>,
    /// How many of them the request that runs holds.
    sent: usize,
    /// The tokens taken out of the counted part since.
    taken_out: u64,
    /// The message of the model whose usage was taken on resume.
    resumed_from: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Guess {
    record: RecordId,
    tokens: u64,
    spoken: bool,
}

impl Meter {
    /// Measures a record that came in.
    pub(crate) fn note(&mut self, record: &MessageRecord) {
        if record.is_compact_boundary() {
            self.reset();
        }
        let tokens = tokens_of(record);
        if tokens > 0 {
            self.since.push(Guess {
                record: record.uuid,
                tokens,
                spoken: record.kind == RecordKind::Assistant,
            });
        }
    }

    /// Measures a record of a transcript by the usage that it carries.
    pub(crate) fn replay(&mut self, record: &MessageRecord) {
        if record.kind == RecordKind::Assistant
            && let Some(RecordMessage::Assistant(message)) = &record.message
            && message.usage.total_input() > 0
            && self.resumed_from.as_ref() != Some(&message.id)
        {
            self.resumed_from = Some(message.id.clone());
            self.counted = Some(message.usage.total_input());
            self.taken_out = 0;
            self.since.clear();
        }
        self.note(record);
    }

    /// A request goes out with everything so far.
    pub(crate) fn sending(&mut self) {
        self.sent = self.since.len();
    }

    /// The response's usage: what was sent and what the model said are counted now.
    pub(crate) fn answered(&mut self, usage: &Usage) {
        if usage.total_input() == 0 {
            return;
        }
        self.counted = Some(usage.total_input() + usage.output_tokens);
        self.taken_out = 0;
        self.since.drain(..self.sent.min(self.since.len()));
        self.since.retain(|guess| !guess.spoken);
        self.sent = 0;
    }

    /// The provider counted everything so far.
    pub(crate) fn counted(&mut self, tokens: u64) {
        self.counted = Some(tokens);
        self.taken_out = 0;
        self.since.clear();
    }

    /// Something was taken out of the conversation.
    pub(crate) fn take_out(&mut self, tokens: u64) {
        self.taken_out += tokens;
    }

    /// Everything after a record is taken back.
    pub(crate) fn rewind_to(&mut self, record: Option<RecordId>) {
        let keep = match record {
            None => 0,
            // A record that isn't here was counted before all of these.
            Some(record) => self
                .since
                .iter()
                .rposition(|guess| guess.record == record)
                .map_or(0, |index| index + 1),
        };
        self.since.truncate(keep);
        self.sent = self.sent.min(keep);
    }

    /// Starts afresh, as after a compaction.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Tokens of the next request; `fixed` is a guess for what stands before the messages.
    pub(crate) fn tokens(&self, fixed: u64) -> u64 {
        (self.counted.unwrap_or(fixed) + self.guessed()).saturating_sub(self.taken_out)
    }

    /// How many of those are guesses.
    pub(crate) fn guessed(&self) -> u64 {
        self.since.iter().map(|guess| guess.tokens).sum()
    }

    /// Whether the provider has counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted.is_some()
    }
}

/// A guess for what a record adds to a request.
pub(crate) fn tokens_of(record: &MessageRecord) -> u64 {
    if record.is_virtual || record.is_api_error_message {
        return 0;
    }
    match record.kind {
        RecordKind::User | RecordKind::Assistant => match &record.message {
            Some(RecordMessage::Assistant(message)) => {
                message.content.iter().map(estimate::block).sum()
            }
            Some(RecordMessage::Plain(message)) => estimate::content(&message.content),
            None => 0,
        },
        RecordKind::Attachment => record
            .attachment
            .as_ref()
            .and_then(|attachment| Content::deserialize(attachment.get("content")?).ok())
            .map_or(0, |content| estimate::content(&content)),
        RecordKind::System | RecordKind::Progress => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::records::RecordFactory;
    use lathe_protocol::content::ContentBlock;
    use lathe_protocol::ids::SessionId;
    use lathe_protocol::message::AssistantMessage;

    fn factory() -> RecordFactory {
        RecordFactory {
            session_id: SessionId::random(),
            cwd: "/w".into(),
            git_branch: String::new(),
            agent_id: None,
        }
    }

    fn usage(input: u64, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            ..Usage::default()
        }
    }

    #[test]
    fn a_response_replaces_the_guesses_and_results_that_came_meanwhile_stay() {
        let factory = factory();
        let mut meter = Meter::default();
        meter.note(&factory.user(None, "word ".repeat(500)));
        assert!(!meter.is_counted());
        assert!(meter.tokens(1_000) > 1_400);
        meter.sending();
        let header = AssistantMessage::synthetic("");
        meter.note(&factory.assistant(None, &header, ContentBlock::text("x".repeat(400))));
        let result = ContentBlock::tool_result("t".into(), "word ".repeat(100), false);
        meter.note(&factory.user(None, vec![result]));
        meter.answered(&usage(2_000, 90));
        let tokens = meter.tokens(1_000);
        assert!((2_190..2_290).contains(&tokens), "{tokens}");
        assert!(meter.guessed() < 200);
    }

    #[test]
    fn going_back_takes_the_guesses_back() {
        let factory = factory();
        let mut meter = Meter::default();
        let first = factory.user(None, "one");
        meter.note(&first);
        let before = meter.tokens(0);
        meter.note(&factory.user(None, "word ".repeat(100)));
        meter.rewind_to(Some(first.uuid));
        assert_eq!(meter.tokens(0), before);
        meter.counted(700);
        meter.note(&factory.user(None, "word ".repeat(100)));
        meter.rewind_to(Some(first.uuid));
        assert_eq!(meter.tokens(0), 700);
        meter.take_out(100);
        assert_eq!(meter.tokens(0), 600);
    }

    #[test]
    fn a_resumed_conversation_is_counted_by_its_last_response() {
        let factory = factory();
        let mut meter = Meter::default();
        let header = AssistantMessage {
            id: "m1".into(),
            usage: usage(5_000, 1),
            ..AssistantMessage::synthetic("")
        };
        meter.replay(&factory.user(None, "word ".repeat(9_000)));
        meter.replay(&factory.assistant(None, &header, ContentBlock::text("a")));
        meter.replay(&factory.assistant(None, &header, ContentBlock::text("b")));
        let tokens = meter.tokens(0);
        assert!((5_000..5_040).contains(&tokens), "{tokens}");
    }

    #[test]
    fn what_the_model_does_not_see_counts_nothing() {
        let factory = factory();
        let mut meter = Meter::default();
        let mut hidden = factory.user(None, "secret plan");
        hidden.is_virtual = true;
        meter.note(&hidden);
        assert_eq!(meter.tokens(0), 0);
    }
}
