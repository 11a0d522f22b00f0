//! Compaction: older conversation is replaced by a summary that the model writes of it.
//!
//! The summary is asked for with the same prefix as any other request, so the provider's cache still
//! hits. When even that request is too long, the oldest rounds are left out of it, a fifth at a time.

use crate::core::Core;
use crate::decide::OutputCap;
use futures::StreamExt as _;
use lathe_model::{Delivery, MessageAssembler, ModelError, ModelRequest};
use lathe_protocol::content::{ContentBlock, joined_text};
use lathe_protocol::encoded::EncodedMessage;
use lathe_protocol::event::Event;
use lathe_protocol::message::Role;
use lathe_protocol::record::COMPACT_BOUNDARY;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// How often a summary is asked for before it is given up.
const MAX_TRIES: u32 = 3;

/// Why a compaction did not happen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompactionError {
    #[error("there is nothing to compact")]
    Nothing,
    #[error("the model gave an empty summary")]
    Empty,
    #[error("the summary is not shorter than the conversation")]
    NoProgress,
    #[error("{0}")]
    Model(#[from] ModelError),
    #[error("a hook prevented it: {0}")]
    Prevented(String),
    #[error("the transcript could not be written: {0}")]
    Transcript(#[from] lathe_session::SessionError),
}

impl Core {
    /// Replaces the conversation by its summary. Nothing is changed unless it succeeds.
    pub(crate) async fn compact(
        &mut self,
        trigger: &str,
        instructions: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<(), CompactionError> {
        if self.conversation.is_empty() {
            return Err(CompactionError::Nothing);
        }
        if let Some(reason) = self
            .shared
            .hooks
            .pre_compact(trigger, instructions, cancel)
            .await
        {
            return Err(CompactionError::Prevented(reason));
        }
        self.shared.events.send(Event::Compacting);
        let before_bytes = self.conversation.estimated_bytes();
        let before_tokens = self.last_usage.as_ref().map_or_else(
            || bytes_as_tokens(before_bytes),
            |usage| usage.total_input() + usage.output_tokens,
        );
        let summary = self.summary(instructions, cancel).await?;
        if summary.trim().is_empty() {
            return Err(CompactionError::Empty);
        }
        if summary.len() >= before_bytes {
            return Err(CompactionError::NoProgress);
        }

        let last_prompt = self.last_prompt();
        let mut boundary = self
            .records
            .system(None, COMPACT_BOUNDARY, "Conversation compacted");
        boundary.logical_parent_uuid = self.tip;
        boundary.extra.insert(
            "compactMetadata".into(),
            json!({"trigger": trigger, "preTokens": before_tokens}),
        );
        let boundary_id = boundary.uuid;
        self.append_synced(boundary).await?;
        let mut text = format!(
            "{}{}",
            include_str!("../prompts/continued.md"),
            summary.trim()
        );
        if let Some(prompt) = last_prompt {
            text.push_str("\n\nThe person's last message, word for word:\n");
            text.push_str(&prompt);
        }
        if trigger == "auto" {
            text.push_str(
                "\n\nGo on with the work where it stood, without asking and without commenting on this summary.",
            );
        }
        let mut record = self.records.user(Some(boundary_id), text);
        record.is_compact_summary = true;
        self.append_synced(record).await?;
        self.without_media.clear();
        self.last_usage = None;
        let after_tokens = bytes_as_tokens(self.conversation.estimated_bytes());
        self.shared.events.send(Event::Compacted {
            trigger: trigger.to_owned(),
            pre_tokens: before_tokens,
            post_tokens: Some(after_tokens),
        });
        self.shared.hooks.post_compact(trigger, &summary).await;
        Ok(())
    }

    /// The last words of the person that are in the conversation.
    fn last_prompt(&mut self) -> Option<String> {
        let messages = self.conversation.messages();
        messages.iter().rev().filter(|message| message.role == Role::User).find_map(|message| {
            let blocks = message.content.clone().into_blocks();
            let words: Vec<ContentBlock> = blocks
                .into_iter()
                .filter(|block| {
                    matches!(block, ContentBlock::Text(text) if !text.text.starts_with("<system-reminder>"))
                })
                .collect();
            let text = joined_text(&words);
            (!text.trim().is_empty()).then(|| text.chars().take(20_000).collect())
        })
    }

    async fn summary(
        &mut self,
        instructions: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<String, CompactionError> {
        let mut directive = include_str!("../prompts/compact.md").to_owned();
        if let Some(instructions) = instructions
            && !instructions.trim().is_empty()
        {
            directive.push_str("\nThe person asks for this in particular: ");
            directive.push_str(instructions.trim());
        }
        let mut request = self.request(OutputCap::Large);
        let whole = std::mem::take(&mut request.messages);
        let mut skip = 0;
        let mut failure = None;
        for _ in 0..MAX_TRIES {
            request.messages = with_directive(&whole, skip, &directive);
            match self.ask_for_text(request.clone(), cancel).await {
                Ok(text) => return Ok(text),
                Err(
                    error @ (ModelError::PromptTooLong { .. } | ModelError::RequestTooLarge(_)),
                ) => {
                    let share = gap_share(&error).unwrap_or(0.2);
                    skip = next_skip(&whole, skip, share);
                    failure = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(failure.map_or(CompactionError::Nothing, CompactionError::Model))
    }

    /// A model call whose words are wanted, not its tool calls.
    pub(crate) async fn ask_for_text(
        &mut self,
        request: ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<String, ModelError> {
        let mut deliveries = lathe_model::run(
            self.shared.provider.clone(),
            request,
            self.recovery_policy(),
            cancel.clone(),
        );
        let mut assembler = MessageAssembler::default();
        while let Some(delivery) = deliveries.next().await {
            match delivery? {
                Delivery::Event(event) => {
                    assembler.feed(&event.event)?;
                }
                Delivery::Retracted { .. } => assembler = MessageAssembler::default(),
                Delivery::Retrying {
                    attempt,
                    max_retries,
                    delay,
                    status,
                    error,
                    ..
                } => {
                    self.shared.events.send(Event::Retrying {
                        attempt,
                        max_retries,
                        delay,
                        status,
                        error,
                    });
                }
                Delivery::Requesting { .. } | Delivery::FellBack { .. } => {}
            }
        }
        let text = assembler.text();
        if let Some(header) = assembler.header() {
            self.ledger
                .note_response(&header.model, &header.usage, &self.shared.catalog);
        }
        Ok(text)
    }
}

/// A rough count for what no provider has counted yet.
fn bytes_as_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes / 4).unwrap_or(u64::MAX)
}

/// By what share the request is too long, when the API said so.
fn gap_share(error: &ModelError) -> Option<f64> {
    match error {
        #[allow(
            clippy::cast_precision_loss,
            reason = "token counts are far below 2^52"
        )]
        ModelError::PromptTooLong {
            tokens: Some(tokens),
            limit: Some(limit),
            ..
        } if tokens > limit && *tokens > 0 => {
            Some(((tokens - limit) as f64 / *tokens as f64 + 0.05).min(0.9))
        }
        _ => None,
    }
}

/// How many of the oldest messages to leave out so that about a share of the bytes goes.
fn next_skip(messages: &[EncodedMessage], skip: usize, share: f64) -> usize {
    let total: usize = messages
        .iter()
        .skip(skip)
        .map(|message| message.bytes.len())
        .sum();
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a size that fits in memory"
    )]
    let wanted = (total as f64 * share) as usize;
    let mut gone = 0;
    let mut next = skip;
    for message in messages.iter().skip(skip) {
        if gone >= wanted && next > skip {
            break;
        }
        gone += message.bytes.len();
        next += 1;
    }
    next
}

/// The messages from `skip` on, with the directive at the end, in a shape that the API accepts.
fn with_directive(
    messages: &[EncodedMessage],
    skip: usize,
    directive: &str,
) -> Vec<EncodedMessage> {
    let mut kept: Vec<EncodedMessage> = messages.get(skip..).unwrap_or_default().to_vec();
    if skip > 0 {
        // A conversation begins with the person, and a result needs its call.
        while kept
            .first()
            .is_some_and(|first| first.role == Role::Assistant || starts_with_result(first))
        {
            kept.remove(0);
        }
    }
    let note = ContentBlock::text(directive);
    match kept.pop() {
        Some(last) if last.role == Role::User => {
            let decoded: Option<lathe_protocol::message::Message> =
                serde_json::from_slice(&last.bytes).ok();
            let mut blocks = decoded
                .map(|message| message.content.into_blocks())
                .unwrap_or_default();
            blocks.push(note);
            kept.extend(EncodedMessage::new(Role::User, &blocks).ok());
        }
        Some(last) => {
            kept.push(last);
            kept.extend(EncodedMessage::new(Role::User, &[note]).ok());
        }
        None => kept.extend(EncodedMessage::new(Role::User, &[note]).ok()),
    }
    kept
}

fn starts_with_result(message: &EncodedMessage) -> bool {
    message
        .bytes
        .starts_with(br#"{"role":"user","content":[{"type":"tool_result""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, text: &str) -> EncodedMessage {
        EncodedMessage::new(role, &[ContentBlock::text(text)]).unwrap()
    }

    #[test]
    fn what_is_left_begins_with_the_person_and_ends_with_the_directive() {
        let result = EncodedMessage::new(
            Role::User,
            &[ContentBlock::tool_result("t".into(), "r", false)],
        )
        .unwrap();
        let messages = [
            message(Role::User, "first"),
            message(Role::Assistant, "call"),
            result,
            message(Role::Assistant, "words"),
            message(Role::User, "second"),
        ];
        let kept = with_directive(&messages, 1, "sum up");
        assert_eq!(kept.len(), 1);
        let text = std::str::from_utf8(&kept[0].bytes).unwrap();
        assert!(text.contains("second") && text.contains("sum up"));
        assert_eq!(with_directive(&messages, 0, "sum up").len(), 5);
        assert_eq!(with_directive(&messages, 99, "sum up").len(), 1);
    }

    #[test]
    fn a_share_of_the_bytes_goes_and_always_something() {
        let messages: Vec<_> = (0..10).map(|_| message(Role::User, "0123456789")).collect();
        assert_eq!(next_skip(&messages, 0, 0.2), 2);
        assert_eq!(next_skip(&messages, 2, 0.0), 3);
        assert_eq!(next_skip(&messages, 10, 0.5), 10);
    }
}
