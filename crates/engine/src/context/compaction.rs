//! Compaction: older conversation is replaced by a summary that the model writes of it.
//!
//! The summary is asked for with the same prefix as any other request, so the provider's cache still
//! hits. When even that request is too long, images and long blocks are shortened first, then the
//! oldest rounds are left out of it. Nothing is changed unless a summary came that makes the
//! conversation shorter; what a summary can't hold (files, the task list, what runs) is put after it.

use crate::context::meter;
use crate::context::restoration;
use crate::context::room;
use crate::context::summary::{cut, gap_share, next_skip, slim, with_directive, without_scratch};
use crate::conversation::Conversation;
use crate::conversation::plan;
use crate::conversation::records::reminder;
use crate::open::agents;
use crate::turn::decide::OutputCap;
use crate::turn::frozen;
use futures::StreamExt as _;
use lathe_memory::notes;
use lathe_model::{Delivery, MessageAssembler, ModelError, ModelRequest, estimate};
use lathe_protocol::content::{ContentBlock, joined_text};
use lathe_protocol::event::Event;
use lathe_protocol::ids::RecordId;
use lathe_protocol::message::{Message, Role};
use lathe_protocol::record::{
    COMPACT_BOUNDARY, Fact, MessageRecord, Record, RecordKind, RecordMessage,
};
use serde_json::json;
use std::collections::HashMap;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often the oldest rounds are left out of the request for a summary.
const MAX_TRIES: u32 = 3;
/// Tokens that a summary may have.
const MOST_SUMMARY_TOKENS: u32 = 20_000;
/// The text before the user's last message in a summary, and the text that may follow it.
const LAST_WORDS: &str = "\n\nThe user's last message, verbatim:\n";
const GO_ON: &str = "\n\nContinue the work where it stopped, without asking and without commenting on this summary.";

/// Why a compaction did not happen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompactionError {
    #[error("there is nothing to compact")]
    Nothing,
    #[error("the model gave an empty summary")]
    Empty,
    #[error("the summary would not shorten the conversation enough")]
    NoProgress,
    #[error("{0}")]
    Model(#[from] ModelError),
    #[error("a hook prevented it: {0}")]
    Prevented(String),
    #[error("the transcript could not be written: {0}")]
    Transcript(#[from] lathe_session::SessionError),
    #[error("the last prompt alone is about {tokens} tokens, and the model's window is {window}")]
    PromptTooLarge { tokens: u64, window: u64 },
    #[error("there is no message {0} in the present conversation")]
    UnknownMessage(RecordId),
}

/// Records that stay, and what was decided about their results.
#[derive(Default)]
struct Kept {
    kept: Vec<MessageRecord>,
    decisions: Vec<Fact>,
}

/// The plan of a compaction.
#[derive(Default)]
struct Plan<'a> {
    trigger: &'a str,
    instructions: Option<&'a str>,
    /// The records that stay as they are, after the summary.
    kept: Kept,
    /// Notes that take the place of a summary.
    notes: Option<String>,
}

/// Replaces the conversation by its summary. Nothing is changed unless it succeeds.
pub(crate) async fn compact(
    conversation: &mut Conversation,
    trigger: &str,
    instructions: Option<&str>,
    cancel: &CancellationToken,
) -> Result<(), CompactionError> {
    let plan = Plan {
        trigger,
        instructions,
        ..Plan::default()
    };
    let outcome = compact_now(conversation, plan, cancel).await;
    room::note_compaction(conversation, &outcome);
    outcome
}

/// As [`compact`], but what came after a record stays as it is.
pub(crate) async fn compact_up_to(
    conversation: &mut Conversation,
    record: RecordId,
    instructions: Option<&str>,
    cancel: &CancellationToken,
) -> Result<(), CompactionError> {
    let kept = records_after(conversation, record, false).await?;
    let plan = Plan {
        trigger: "manual",
        instructions,
        kept,
        notes: None,
    };
    compact_now(conversation, plan, cancel).await
}

/// Replaces the conversation up to about a record by notes that know of everything up to it.
pub(crate) async fn compact_with_notes(
    conversation: &mut Conversation,
    checkpoint: RecordId,
    notes: String,
    cancel: &CancellationToken,
) -> Result<(), CompactionError> {
    let kept = records_after(conversation, checkpoint, true).await?;
    let plan = Plan {
        trigger: "auto",
        instructions: None,
        kept,
        notes: Some(notes),
    };
    compact_now(conversation, plan, cancel).await
}

async fn compact_now(
    conversation: &mut Conversation,
    plan: Plan<'_>,
    cancel: &CancellationToken,
) -> Result<(), CompactionError> {
    let Plan {
        trigger,
        instructions,
        kept,
        notes,
    } = plan;
    let began = Instant::now();
    if conversation.history.is_empty() {
        return Err(CompactionError::Nothing);
    }
    if let Some(reason) = conversation
        .shared
        .hooks
        .pre_compact(trigger, instructions, cancel)
        .await
    {
        return Err(CompactionError::Prevented(reason));
    }
    let last_words = if kept.kept.is_empty() {
        last_words(conversation)?
    } else {
        None
    };
    conversation.shared.events.send(Event::Compacting);
    let before = room::context_tokens(conversation);
    let messages = room::message_tokens(conversation);
    let summary = match notes {
        Some(notes) => notes,
        None => summary(conversation, instructions, kept.kept.first(), cancel).await?,
    };
    let restored = restoration::restored(conversation);
    let kept_tokens: u64 = kept.kept.iter().map(meter::tokens_of).sum::<u64>()
        + last_words.as_deref().map_or(0, estimate::text);
    check_progress(trigger, &summary, &restored, kept_tokens, messages)?;

    let mut boundary =
        conversation
            .records
            .system(None, COMPACT_BOUNDARY, "Conversation compacted");
    boundary.logical_parent_uuid = conversation.tip;
    boundary.extra.insert(
        "compactMetadata".into(),
        json!({"trigger": trigger, "preTokens": before}),
    );
    let boundary_id = boundary.uuid;
    let mut text = format!(
        "{}{}",
        include_str!("../../prompts/continued.md"),
        summary.trim()
    );
    if let Some(words) = last_words {
        text.push_str(LAST_WORDS);
        text.push_str(&words);
    }
    if trigger == "auto" {
        text.push_str(GO_ON);
    }
    let mut record = conversation.records.user(Some(boundary_id), text);
    record.is_compact_summary = true;
    conversation
        .append_all_synced(vec![boundary, record])
        .await?;
    for piece in restored {
        let record = conversation
            .records
            .meta(conversation.tip, reminder(&piece));
        conversation.append(record);
    }
    keep_after(conversation, kept);
    after_compaction(conversation, trigger, before, &summary, began).await;
    Ok(())
}

/// A summary must be worth it: an automatic one frees a fifth, any other at least something.
fn check_progress(
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

/// Says in further requests how much of the task's budget remains: the API counts what a request carries, and a summary
/// hides what came before.
fn spend_task_budget(extra: &mut serde_json::Map<String, serde_json::Value>, used: u64) {
    let Some(budget) = extra
        .get_mut("output_config")
        .and_then(|config| config.get_mut("task_budget"))
    else {
        return;
    };
    let left = budget.get("remaining").or_else(|| budget.get("total"));
    if let Some(left) = left.and_then(serde_json::Value::as_u64) {
        budget["remaining"] = left.saturating_sub(used).into();
    }
}

/// Resets the state that depends on what is in the conversation.
async fn after_compaction(
    conversation: &mut Conversation,
    trigger: &str,
    before: u64,
    summary: &str,
    began: Instant,
) {
    conversation.last_usage = None;
    spend_task_budget(&mut conversation.fixed.extra, before);
    conversation.context.sent_results.clear();
    conversation
        .context
        .prefix
        .expect("the conversation was compacted");
    conversation.shared.tools.file_cache.forget_answers();
    conversation.shared.toolbox.deferred.forget_told();
    conversation.shared.integrations.extensions.forget_told();
    agents::describe_agents(conversation);
    plan::forget_plan_reminders(conversation);
    conversation.shared.state.notes.kept.start_again();
    restoration::refresh_instructions(conversation);
    crate::worktree::session::follow(conversation, true);
    let folder = conversation.shared.tools.working_folder.read().clone();
    let permissions = conversation.shared.permissions.snapshot();
    conversation
        .context
        .reminders
        .ask_git(&permissions, &folder);
    let verdict = conversation
        .shared
        .hooks
        .session_start("compact", None)
        .await;
    if !verdict.additional_context.is_empty() {
        let record = conversation.records.meta(
            conversation.tip,
            reminder(&verdict.additional_context.join("\n\n")),
        );
        conversation.append(record);
    }
    conversation.measure_context();
    let after = room::context_tokens(conversation);
    conversation.shared.events.send(Event::Compacted {
        trigger: trigger.to_owned(),
        pre_tokens: before,
        post_tokens: Some(after),
        duration: began.elapsed(),
    });
    conversation
        .shared
        .hooks
        .post_compact(trigger, summary)
        .await;
}

/// The records of the present conversation after one of them, as the transcript has them.
/// With `recent`, enough of what came before it stays too, and not too much in all.
async fn records_after(
    conversation: &mut Conversation,
    record: RecordId,
    recent: bool,
) -> Result<Kept, CompactionError> {
    conversation.transcript.flush().await?;
    let unknown = || CompactionError::UnknownMessage(record);
    let path = conversation.transcript.path().to_owned();
    let tip = conversation.tip.ok_or_else(unknown)?;
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
            Record::Fact(
                fact @ (Fact::Replacement { .. } | Fact::MediaDropped { .. } | Fact::Pinned { .. }),
            ) => Some(fact.clone()),
            _ => None,
        })
        .collect();
    Ok(Kept { kept, decisions })
}

/// Takes kept records over into the new beginning, under ids of their own, and with them what was
/// decided about their results.
fn keep_after(conversation: &mut Conversation, Kept { kept, decisions }: Kept) {
    let mut ids: HashMap<RecordId, RecordId> = HashMap::new();
    for mut record in kept {
        let id = RecordId::random();
        ids.insert(record.uuid, id);
        record
            .extra
            .insert("keptFrom".into(), record.uuid.to_string().into());
        record.uuid = id;
        record.parent_uuid = conversation.tip;
        record.source_tool_assistant_uuid = record
            .source_tool_assistant_uuid
            .map(|call| ids.get(&call).copied().unwrap_or(call));
        conversation.take_in(Record::Message(Box::new(record)));
        conversation.tip = Some(id);
    }
    // A decision about a result that isn't here changes nothing.
    for mut decision in decisions {
        if let Fact::Replacement { tool_use_id, .. } | Fact::Pinned { tool_use_id, .. } =
            &mut decision
            && let Some(id) = tool_use_id
                .as_str()
                .parse()
                .ok()
                .and_then(|id| ids.get(&id))
        {
            *tool_use_id = id.to_string().into();
        }
        conversation.append_fact(decision);
    }
}

/// The last words of the user that are in the conversation, for the new beginning: whole, or not at all.
/// Words that are more than half of the window stay only in the summary, and that only if the model has
/// answered them.
fn last_words(conversation: &mut Conversation) -> Result<Option<String>, CompactionError> {
    let window = room::windows(conversation).window;
    let messages = conversation.history.messages();
    let mut answered = false;
    for message in messages.iter().rev() {
        if message.role == Role::Assistant {
            answered = true;
            continue;
        }
        let Some(words) = words_of(message) else {
            continue;
        };
        let tokens = estimate::text(&words);
        return match (tokens <= window / 2, answered) {
            (true, _) => Ok(Some(words)),
            (false, true) => Ok(None),
            (false, false) => Err(CompactionError::PromptTooLarge { tokens, window }),
        };
    }
    Ok(None)
}

/// The user's text in a message. After an earlier compaction it may be in the summary.
fn words_of(message: &Message) -> Option<String> {
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
    if text.starts_with(include_str!("../../prompts/continued.md").trim_end()) {
        let (_, words) = text.split_once(LAST_WORDS)?;
        return Some(words.strip_suffix(GO_ON).unwrap_or(words).to_owned());
    }
    Some(text)
}

async fn summary(
    conversation: &mut Conversation,
    instructions: Option<&str>,
    kept: Option<&MessageRecord>,
    cancel: &CancellationToken,
) -> Result<String, CompactionError> {
    let mut directive = include_str!("../../prompts/compact.md").to_owned();
    if let Some(instructions) = instructions
        && !instructions.trim().is_empty()
    {
        directive.push_str("\nThe user asks for this in particular: ");
        directive.push_str(instructions.trim());
    }
    if let Some(first) = kept {
        let words = first
            .message
            .as_ref()
            .map(|message| cut(&message.text(), 200))
            .unwrap_or_default();
        directive.push_str("\nSummarise only what came before this message of the user, which stays in the conversation with all that follows it: ");
        directive.push_str(&words);
    }
    let mut request = conversation.request(OutputCap::Large);
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
    conversation.hand_over().await?;
    loop {
        request.messages = with_directive(&whole, skip, &directive);
        let error = match ask_for_text(conversation, request.clone(), cancel).await {
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
    conversation: &mut Conversation,
    request: ModelRequest,
    cancel: &CancellationToken,
) -> Result<String, ModelError> {
    let mut deliveries = lathe_model::run(
        conversation.shared.session.provider.clone(),
        request,
        conversation.recovery_policy(&frozen::choices(conversation)),
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
                conversation.shared.events.send(Event::Retrying {
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
        conversation.ledger.note_part(
            crate::session::ledger::Part::Compaction,
            &header.model,
            &header.usage,
            &conversation.shared.session.catalog,
        );
    }
    Ok(text)
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
