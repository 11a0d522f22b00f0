//! Compaction: older conversation is replaced by a summary that the model writes of it.
//!
//! The summary is asked for with the same prefix as any other request, so the provider's cache still
//! hits. When even that request is too long, images and long blocks are shortened first, then the
//! oldest rounds are left out of it. Nothing is changed unless a summary came that makes the
//! conversation shorter; what a summary can't hold (files, the task list, what runs) is put after it.

use crate::context::meter;
use crate::context::summary::{cut, gap_share, next_skip, slim, with_directive, without_scratch};
use crate::conversation::Conversation;
use crate::conversation::records::reminder;
use crate::turn::decide::OutputCap;
use futures::StreamExt as _;
use lathe_memory::notes;
use lathe_model::{Delivery, MessageAssembler, ModelError, ModelRequest, estimate};
use lathe_protocol::content::{ContentBlock, joined_text};
use lathe_protocol::event::Event;
use lathe_protocol::ids::RecordId;
use lathe_protocol::message::Role;
use lathe_protocol::record::{
    COMPACT_BOUNDARY, Fact, MessageRecord, Record, RecordKind, RecordMessage,
};
use serde_json::json;
use std::collections::HashMap;
use tokio_util::sync::CancellationToken;

/// How often the oldest rounds are left out of the request for a summary.
const MAX_TRIES: u32 = 3;
/// Tokens that a summary may have.
const MOST_SUMMARY_TOKENS: u32 = 20_000;
/// How much of the person's last words stays word for word.
const MOST_LAST_WORDS: usize = 20_000;

/// Why a compaction did not happen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompactionError {
    #[error("there is nothing to compact")]
    Nothing,
    #[error("the model gave an empty summary")]
    Empty,
    #[error("the summary would not make the conversation shorter by enough")]
    NoProgress,
    #[error("{0}")]
    Model(#[from] ModelError),
    #[error("a hook prevented it: {0}")]
    Prevented(String),
    #[error("the transcript could not be written: {0}")]
    Transcript(#[from] lathe_session::SessionError),
    #[error("there is no message {0} in the present conversation")]
    UnknownMessage(RecordId),
}

/// Records that stay, and what was decided about their results.
#[derive(Default)]
struct Kept {
    kept: Vec<MessageRecord>,
    decisions: Vec<Fact>,
}

/// What a compaction is to do.
#[derive(Default)]
struct Plan<'a> {
    trigger: &'a str,
    instructions: Option<&'a str>,
    /// What stays as it is, after the summary.
    kept: Kept,
    /// Notes that take the place of a summary.
    notes: Option<String>,
}

impl Conversation {
    /// Replaces the conversation by its summary. Nothing is changed unless it succeeds.
    pub(crate) async fn compact(
        &mut self,
        trigger: &str,
        instructions: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<(), CompactionError> {
        let plan = Plan {
            trigger,
            instructions,
            ..Plan::default()
        };
        let outcome = self.compact_now(plan, cancel).await;
        self.note_compaction(&outcome);
        outcome
    }

    /// As [`Self::compact`], but what came after a record stays as it is.
    pub(crate) async fn compact_up_to(
        &mut self,
        record: RecordId,
        instructions: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<(), CompactionError> {
        let kept = self.records_after(record, false).await?;
        let plan = Plan {
            trigger: "manual",
            instructions,
            kept,
            notes: None,
        };
        self.compact_now(plan, cancel).await
    }

    /// Replaces the conversation up to about a record by notes that know of everything up to it.
    pub(crate) async fn compact_with_notes(
        &mut self,
        checkpoint: RecordId,
        notes: String,
        cancel: &CancellationToken,
    ) -> Result<(), CompactionError> {
        let kept = self.records_after(checkpoint, true).await?;
        let plan = Plan {
            trigger: "auto",
            instructions: None,
            kept,
            notes: Some(notes),
        };
        self.compact_now(plan, cancel).await
    }

    async fn compact_now(
        &mut self,
        plan: Plan<'_>,
        cancel: &CancellationToken,
    ) -> Result<(), CompactionError> {
        let Plan {
            trigger,
            instructions,
            kept,
            notes,
        } = plan;
        if self.history.is_empty() {
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
        let before = self.context_tokens();
        let messages = self.message_tokens();
        let summary = match notes {
            Some(notes) => notes,
            None => {
                self.summary(instructions, kept.kept.first(), cancel)
                    .await?
            }
        };
        let restored = self.restored();
        let kept_tokens: u64 = kept.kept.iter().map(meter::tokens_of).sum();
        self.check_progress(trigger, &summary, &restored, kept_tokens, messages)?;

        let last_prompt = if kept.kept.is_empty() {
            self.last_prompt()
        } else {
            None
        };
        let mut boundary = self
            .records
            .system(None, COMPACT_BOUNDARY, "Conversation compacted");
        boundary.logical_parent_uuid = self.tip;
        boundary.extra.insert(
            "compactMetadata".into(),
            json!({"trigger": trigger, "preTokens": before}),
        );
        let boundary_id = boundary.uuid;
        self.append_synced(boundary).await?;
        let mut text = format!(
            "{}{}",
            include_str!("../../prompts/continued.md"),
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
        for piece in restored {
            let record = self.records.meta(self.tip, reminder(&piece));
            self.append(record);
        }
        self.keep_after(kept);
        self.after_compaction(trigger, before, &summary).await;
        Ok(())
    }

    /// A summary must be worth it: an automatic one frees a fifth, any other at least something.
    fn check_progress(
        &self,
        trigger: &str,
        summary: &str,
        restored: &[String],
        kept: u64,
        before: u64,
    ) -> Result<(), CompactionError> {
        if summary.trim().is_empty() {
            return Err(CompactionError::Empty);
        }
        let summary = estimate::text(summary);
        let enough = if trigger == "auto" {
            let restored: u64 = restored.iter().map(|piece| estimate::text(piece)).sum();
            (summary + restored + kept) * 5 <= before * 4
        } else {
            summary < before
        };
        if enough {
            Ok(())
        } else {
            Err(CompactionError::NoProgress)
        }
    }

    /// What follows from a new beginning: nothing that was shown is in the conversation any more.
    async fn after_compaction(&mut self, trigger: &str, before: u64, summary: &str) {
        self.last_usage = None;
        self.context.sent_results.clear();
        self.context.prefix.expect("the conversation was compacted");
        self.shared.tools.file_cache.forget_answers();
        self.shared.toolbox.deferred.forget_told();
        self.shared.integrations.extensions.forget_told();
        self.describe_agents();
        self.forget_plan_reminders();
        self.shared.state.notes.kept.start_again();
        self.refresh_instructions();
        if self.shared.permissions.snapshot().may_run_git {
            let folder = self.shared.tools.working_folder.read().clone();
            self.context.reminders.ask_git(folder);
        }
        let verdict = self.shared.hooks.session_start("compact").await;
        if !verdict.additional_context.is_empty() {
            let record = self
                .records
                .meta(self.tip, reminder(&verdict.additional_context.join("\n\n")));
            self.append(record);
        }
        self.measure_context();
        let after = self.context_tokens();
        self.shared.events.send(Event::Compacted {
            trigger: trigger.to_owned(),
            pre_tokens: before,
            post_tokens: Some(after),
        });
        self.shared.hooks.post_compact(trigger, summary).await;
    }

    /// The records of the present conversation after one of them, as the transcript has them.
    /// With `recent`, enough of what came before it stays too, and not too much in all.
    async fn records_after(
        &mut self,
        record: RecordId,
        recent: bool,
    ) -> Result<Kept, CompactionError> {
        self.transcript.flush().await?;
        let unknown = || CompactionError::UnknownMessage(record);
        let path = self.transcript.path().to_owned();
        let tip = self.tip.ok_or_else(unknown)?;
        let loaded = lathe_spawn::blocking(move || lathe_session::load_tail(&path))
            .await
            .map_err(|_| unknown())??;
        let chain = loaded.chain_to(tip)?;
        let messages: Vec<&MessageRecord> = chain
            .iter()
            .filter_map(|record| match &**record {
                Record::Message(message) => Some(&**message),
                _ => None,
            })
            .collect();
        let mut from = messages
            .iter()
            .position(|other| other.uuid == record)
            .ok_or_else(unknown)?
            + 1;
        if recent {
            from = recent_from(&messages, from).ok_or(CompactionError::NoProgress)?;
        }
        let mut kept: Vec<MessageRecord> = messages[from..]
            .iter()
            .map(|record| (*record).clone())
            .collect();
        // A result needs its call: what is kept begins with words.
        let first = kept
            .iter()
            .position(MessageRecord::is_prompt)
            .unwrap_or(kept.len());
        kept.drain(..first);
        if kept.is_empty() {
            return Err(unknown());
        }
        let decisions = chain
            .iter()
            .filter_map(|record| match &**record {
                Record::Fact(fact @ (Fact::Replacement { .. } | Fact::MediaDropped { .. })) => {
                    Some(fact.clone())
                }
                _ => None,
            })
            .collect();
        Ok(Kept { kept, decisions })
    }

    /// Takes kept records over into the new beginning, under ids of their own, and with them what was
    /// decided about their results.
    fn keep_after(&mut self, Kept { kept, decisions }: Kept) {
        let mut ids: HashMap<RecordId, RecordId> = HashMap::new();
        for mut record in kept {
            let id = RecordId::random();
            ids.insert(record.uuid, id);
            record
                .extra
                .insert("keptFrom".into(), record.uuid.to_string().into());
            record.uuid = id;
            record.parent_uuid = self.tip;
            record.source_tool_assistant_uuid = record
                .source_tool_assistant_uuid
                .map(|call| ids.get(&call).copied().unwrap_or(call));
            self.take_in(Record::Message(Box::new(record)));
            self.tip = Some(id);
        }
        // A decision about a result that isn't here changes nothing.
        for decision in decisions {
            self.append_fact(decision);
        }
    }

    /// The last words of the person that are in the conversation.
    fn last_prompt(&mut self) -> Option<String> {
        let messages = self.history.messages();
        messages
            .iter()
            .rev()
            .filter(|message| message.role == Role::User)
            .find_map(|message| {
                let blocks = message.content.clone().into_blocks();
                let words: Vec<ContentBlock> = blocks
                    .into_iter()
                    .filter(|block| {
                        matches!(block, ContentBlock::Text(text)
                        if !text.text.starts_with("<system-reminder>")
                            && text.text != lathe_session::history::CONTINUE_TEXT)
                    })
                    .collect();
                let text = joined_text(&words);
                if text.trim().is_empty() {
                    return None;
                }
                // After an earlier compaction the last words may be its summary, which holds the words.
                if text.starts_with(include_str!("../../prompts/continued.md").trim_end()) {
                    return text
                        .split_once("\n\nThe person's last message, word for word:\n")
                        .map(|(_, words)| cut(words, MOST_LAST_WORDS));
                }
                Some(cut(&text, MOST_LAST_WORDS))
            })
    }

    async fn summary(
        &mut self,
        instructions: Option<&str>,
        kept: Option<&MessageRecord>,
        cancel: &CancellationToken,
    ) -> Result<String, CompactionError> {
        let mut directive = include_str!("../../prompts/compact.md").to_owned();
        if let Some(instructions) = instructions
            && !instructions.trim().is_empty()
        {
            directive.push_str("\nThe person asks for this in particular: ");
            directive.push_str(instructions.trim());
        }
        if let Some(first) = kept {
            let words = first
                .message
                .as_ref()
                .map(|message| cut(&message.text(), 200))
                .unwrap_or_default();
            directive.push_str("\nSum up only what came before this message of the person, which stays in the conversation with all that follows it: ");
            directive.push_str(&words);
        }
        let mut request = self.request(OutputCap::Large);
        if !matches!(
            request.thinking,
            Some(lathe_model::Thinking {
                mode: lathe_model::ThinkingMode::Budget(_),
                ..
            })
        ) {
            request.max_tokens = request.max_tokens.min(MOST_SUMMARY_TOKENS);
        }
        let mut whole = std::mem::take(&mut request.messages).to_vec();
        let mut skip = 0;
        let mut slimmed = false;
        let mut tries = 0;
        loop {
            request.messages = with_directive(&whole, skip, &directive);
            let error = match self.ask_for_text(request.clone(), cancel).await {
                Ok(text) => return Ok(without_scratch(&text)),
                Err(
                    error @ (ModelError::PromptTooLong { .. }
                    | ModelError::RequestTooLarge(_)
                    | ModelError::ImageTooLarge { .. }
                    | ModelError::PdfTooLarge { .. }),
                ) => error,
                Err(error) => return Err(error.into()),
            };
            if !slimmed && slim(&mut whole) {
                slimmed = true;
                continue;
            }
            slimmed = true;
            let share = gap_share(&error).unwrap_or(0.2);
            let next = next_skip(&whole, skip, share);
            tries += 1;
            if tries > MAX_TRIES || next >= whole.len() {
                return Err(error.into());
            }
            skip = next;
        }
    }

    /// A model call whose words are wanted, not its tool calls.
    pub(crate) async fn ask_for_text(
        &mut self,
        request: ModelRequest,
        cancel: &CancellationToken,
    ) -> Result<String, ModelError> {
        let mut deliveries = lathe_model::run(
            self.shared.session.provider.clone(),
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
            self.ledger.note_part(
                crate::session::ledger::Part::Compaction,
                &header.model,
                &header.usage,
                &self.shared.session.catalog,
            );
        }
        Ok(text)
    }
}

/// Where the part begins that stays beside notes which know of everything before `from`: with enough
/// tokens and words in it. `None` when that would be too much.
fn recent_from(messages: &[&MessageRecord], from: usize) -> Option<usize> {
    let (mut tokens, mut words) = (0, 0);
    let mut start = messages.len();
    for (index, record) in messages.iter().enumerate().rev() {
        if index < from && tokens >= notes::KEEP_TOKENS && words >= notes::KEEP_MESSAGES {
            break;
        }
        tokens += meter::tokens_of(record);
        let speaks = record.kind == RecordKind::Assistant || record.is_prompt();
        let text = record.message.as_ref().map(RecordMessage::text);
        words += usize::from(speaks && text.is_some_and(|text| !text.trim().is_empty()));
        start = index;
    }
    (tokens <= notes::KEEP_AT_MOST && start > 0).then_some(start)
}
