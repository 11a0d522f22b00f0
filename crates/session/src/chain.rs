//! From the tree that a transcript is to the one conversation that continues.
//!
//! Records point to their parent. The newest leaf of the main conversation is its tip (unless a
//! [`Fact::Rewound`] moved it), and walking up from there gives the conversation. Calls that ran in
//! parallel branch off: each result hangs off its own call's record, so those that the walk misses
//! are recovered by the id of the message that their calls belong to.

use crate::error::SessionError;
use crate::load::Loaded;
use lathe_protocol::content::{ContentBlock, ToolResultBlock, ToolUseBlock};
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_protocol::record::{
    Fact, INTERRUPTED_BY_USER, MessageRecord, Record, RecordKind, RecordMessage, TURN_DURATION,
};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How the last turn of a conversation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interruption {
    /// As it should, or the user stopped it, or there was none.
    None,
    /// The prompt is the last thing there is: the model never answered.
    DuringPrompt {
        /// The prompt.
        prompt: RecordId,
    },
    /// The model was cut off: before it said anything to keep, or in the middle of its answer.
    DuringReply,
    /// Calls are without a result.
    DuringTools {
        /// Those calls.
        unanswered: Vec<ToolUseId>,
    },
    /// All calls have results, and the model hasn't seen them.
    AfterTools,
}

/// A record that is part of a conversation.
pub(crate) fn as_message(record: &Record) -> Option<&MessageRecord> {
    match record {
        Record::Message(message) => Some(message),
        Record::Fact(_) | Record::Other(_) => None,
    }
}

/// True if the records of a sub-agent are the conversation: only in a file of its own, which has no others.
fn sidechain_counts(records: &[Arc<Record>]) -> bool {
    let mut messages = records
        .iter()
        .filter_map(|record| as_message(record))
        .peekable();
    messages.peek().is_some() && messages.all(|record| record.is_sidechain)
}

/// Compactions that never came to their summary: the process ended between the two. They are ignored, so
/// that the conversation before them continues. One that has nothing before it stays.
fn unfinished_compactions(records: &[Arc<Record>]) -> HashSet<RecordId> {
    let messages = || records.iter().filter_map(|record| as_message(record));
    let mut unfinished: HashSet<RecordId> = messages()
        .filter(|message| message.is_compact_boundary() && message.logical_parent_uuid.is_some())
        .map(|message| message.uuid)
        .collect();
    if unfinished.is_empty() {
        return unfinished;
    }
    for summary in messages().filter(|message| message.is_compact_summary) {
        if let Some(boundary) = summary.parent_uuid {
            unfinished.remove(&boundary);
        }
    }
    unfinished
}

pub(crate) fn tip(records: &[Arc<Record>]) -> Option<RecordId> {
    let sidechain = sidechain_counts(records);
    let unfinished = unfinished_compactions(records);
    let mut tip = None;
    for record in records {
        match &**record {
            Record::Message(message) => {
                let counts =
                    message.kind != RecordKind::Progress && (sidechain || !message.is_sidechain);
                if counts && !unfinished.contains(&message.uuid) {
                    tip = Some(message.uuid);
                }
            }
            Record::Fact(Fact::Rewound { to, .. }) => tip = *to,
            Record::Fact(_) | Record::Other(_) => {}
        }
    }
    tip
}

/// Whether the walk from the tip ends within these records (newest first).
pub(crate) fn is_complete(newest_first: &[Arc<Record>]) -> bool {
    let records: Vec<Arc<Record>> = newest_first.iter().rev().cloned().collect();
    let Some(tip) = tip(&records) else {
        return false;
    };
    let walk = Walk::new(&records);
    let mut seen = HashSet::new();
    let mut at = tip;
    while let Some(position) = walk.positions.get(&at) {
        let Some(message) = as_message(&records[*position]) else {
            return false;
        };
        let parent = match walk.is_beginning(message) {
            true => return true,
            false => walk.parent(message),
        };
        match parent {
            Some(parent) if seen.insert(at) => at = parent,
            _ => return true,
        }
    }
    false
}

struct Walk<'a> {
    records: &'a [Arc<Record>],
    positions: HashMap<RecordId, usize>,
    sidechain: bool,
    unfinished: HashSet<RecordId>,
}

impl<'a> Walk<'a> {
    fn new(records: &'a [Arc<Record>]) -> Self {
        let mut positions = HashMap::with_capacity(records.len());
        for (position, record) in records.iter().enumerate() {
            if let Some(id) = record.uuid() {
                positions.entry(id).or_insert(position);
            }
        }
        Self {
            records,
            positions,
            sidechain: sidechain_counts(records),
            unfinished: unfinished_compactions(records),
        }
    }

    /// Whether the model's conversation begins with this record: a compaction.
    fn is_beginning(&self, message: &MessageRecord) -> bool {
        message.is_compact_boundary() && !self.unfinished.contains(&message.uuid)
    }

    /// The predecessor of a record, across compactions.
    fn parent(&self, message: &MessageRecord) -> Option<RecordId> {
        if message.is_compact_boundary() {
            message.logical_parent_uuid.or(message.parent_uuid)
        } else {
            message.parent_uuid
        }
    }

    fn message(&self, position: usize) -> Option<&'a MessageRecord> {
        as_message(&self.records[position])
    }

    fn counts(&self, position: usize) -> bool {
        self.message(position)
            .is_some_and(|message| self.sidechain || !message.is_sidechain)
    }

    /// Positions from the tip up, oldest first. `past_compactions`: to the very beginning, not only to
    /// the last compaction.
    fn up_from(&self, tip: RecordId, past_compactions: bool) -> Vec<usize> {
        let mut chain = Vec::new();
        let mut seen = HashSet::new();
        let mut next = self.positions.get(&tip).copied();
        while let Some(position) = next {
            if !seen.insert(position) {
                break;
            }
            let Some(message) = self.message(position) else {
                break;
            };
            if !self.unfinished.contains(&message.uuid) {
                chain.push(position);
            }
            let parent = if past_compactions || !self.is_beginning(message) {
                self.parent(message)
            } else {
                None
            };
            let Some(parent) = parent else {
                break;
            };
            next = match self.positions.get(&parent) {
                Some(parent) if !seen.contains(parent) => Some(*parent),
                // The parent's line is lost, or points back here: what stood before it in the file
                // is what it most likely followed.
                _ => (0..position)
                    .rev()
                    .find(|at| self.counts(*at) && !seen.contains(at)),
            };
        }
        chain.reverse();
        chain
    }

    /// Adds calls and results that ran beside those of the chain, right after them.
    fn with_parallel(&self, chain: &[usize]) -> Vec<usize> {
        let on_chain: HashSet<usize> = chain.iter().copied().collect();
        let first = chain.first().copied().unwrap_or(0);
        let mut by_message: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut results: HashMap<RecordId, Vec<usize>> = HashMap::new();
        for position in first..self.records.len() {
            let Some(message) = self.message(position) else {
                continue;
            };
            if let Some(id) = model_message_id(message) {
                by_message.entry(id).or_default().push(position);
            } else if tool_results(message).next().is_some() {
                let call = message.source_tool_assistant_uuid.or(message.parent_uuid);
                if let Some(call) = call {
                    results.entry(call).or_default().push(position);
                }
            }
        }
        let mut last_of_message: HashMap<&str, usize> = HashMap::new();
        for (index, position) in chain.iter().enumerate() {
            if let Some(id) = self.message(*position).and_then(model_message_id) {
                last_of_message.insert(id, index);
            }
        }
        let mut whole = Vec::with_capacity(chain.len());
        let mut done: HashSet<usize> = HashSet::new();
        for (index, position) in chain.iter().enumerate() {
            if done.insert(*position) {
                whole.push(*position);
            }
            let Some(id) = self.message(*position).and_then(model_message_id) else {
                continue;
            };
            if last_of_message.get(id) != Some(&index) {
                continue;
            }
            let members = by_message.get(id).map(Vec::as_slice).unwrap_or_default();
            let missed: Vec<usize> = members
                .iter()
                .copied()
                .filter(|member| !on_chain.contains(member))
                .collect();
            whole.extend(missed.into_iter().filter(|member| done.insert(*member)));
            for member in members {
                let Some(call) = self.message(*member) else {
                    continue;
                };
                for result in results
                    .get(&call.uuid)
                    .map(Vec::as_slice)
                    .unwrap_or_default()
                {
                    if !on_chain.contains(result) && done.insert(*result) {
                        whole.push(*result);
                    }
                }
            }
        }
        whole
    }
}

pub(crate) fn chain(records: &[Arc<Record>], tip: Option<RecordId>) -> Vec<Arc<Record>> {
    let Some(tip) = tip else { return Vec::new() };
    let walk = Walk::new(records);
    let chain = walk.with_parallel(&walk.up_from(tip, false));
    with_replacements(records, &chain)
}

/// As [`chain()`], from the very beginning: what the user sees, before compactions too.
pub(crate) fn history(records: &[Arc<Record>], tip: Option<RecordId>) -> Vec<Arc<Record>> {
    let Some(tip) = tip else { return Vec::new() };
    let walk = Walk::new(records);
    let history = walk.with_parallel(&walk.up_from(tip, true));
    history
        .into_iter()
        .map(|position| Arc::clone(&records[position]))
        .collect()
}

/// Puts each decision about a result, or about refused media, behind the records that came before it.
fn with_replacements(records: &[Arc<Record>], chain: &[usize]) -> Vec<Arc<Record>> {
    let mut decisions = records
        .iter()
        .enumerate()
        .filter_map(|(position, record)| match &**record {
            Record::Fact(
                Fact::Replacement { tool_use_id, .. } | Fact::Pinned { tool_use_id, .. },
            ) => Some((position, Some(tool_use_id))),
            // Known by its content: it holds wherever the content stands.
            Record::Fact(Fact::MediaDropped { .. }) => Some((position, None)),
            _ => None,
        })
        .peekable();
    let mut whole = Vec::with_capacity(chain.len());
    let mut answered: HashSet<&ToolUseId> = HashSet::new();
    let here: HashSet<RecordId> = match decisions.peek() {
        Some(_) => chain.iter().filter_map(|at| records[*at].uuid()).collect(),
        None => HashSet::new(),
    };
    let is_here = |id: &ToolUseId| id.as_str().parse().is_ok_and(|id| here.contains(&id));
    for position in chain {
        while let Some((at, call)) = decisions.next_if(|(at, _)| *at < *position) {
            if call.is_none_or(|call| answered.contains(call) || is_here(call)) {
                whole.push(Arc::clone(&records[at]));
            }
        }
        let record = &records[*position];
        if let Some(message) = as_message(record) {
            answered.extend(tool_results(message).map(|result| &result.tool_use_id));
        }
        whole.push(Arc::clone(record));
    }
    for (at, call) in decisions {
        if call.is_none_or(|call| answered.contains(call) || is_here(call)) {
            whole.push(Arc::clone(&records[at]));
        }
    }
    whole
}

/// The API's id of the message that a record is a part of.
fn model_message_id(record: &MessageRecord) -> Option<&str> {
    match &record.message {
        Some(RecordMessage::Assistant(message)) if record.kind == RecordKind::Assistant => {
            Some(&message.id)
        }
        _ => None,
    }
}

/// The blocks of a record's message, where it has a list of them.
pub(crate) fn blocks(record: &MessageRecord) -> &[ContentBlock] {
    match &record.message {
        Some(RecordMessage::Assistant(message)) => &message.content,
        Some(RecordMessage::Plain(message)) => match &message.content {
            lathe_protocol::content::Content::Blocks(blocks) => blocks,
            lathe_protocol::content::Content::Text(_) => &[],
        },
        None => &[],
    }
}

/// The results that a record carries.
pub(crate) fn tool_results(record: &MessageRecord) -> impl Iterator<Item = &ToolResultBlock> {
    blocks(record)
        .iter()
        .filter_map(ContentBlock::as_tool_result)
}

/// The calls that a record asks for.
pub(crate) fn tool_calls(record: &MessageRecord) -> impl Iterator<Item = &ToolUseBlock> {
    blocks(record).iter().filter_map(ContentBlock::as_tool_use)
}

/// How the last turn ended. `notes_ends` says that the writer of the chain records why an answer ended, or that
/// its turn did.
pub(crate) fn interruption(chain: &[Arc<Record>], notes_ends: bool) -> Interruption {
    let mut answered: HashSet<&ToolUseId> = HashSet::new();
    let mut ends_are_noted = notes_ends;
    for message in chain.iter().rev().filter_map(|record| as_message(record)) {
        if message.is_virtual || message.is_meta {
            answered.extend(tool_results(message).map(|result| &result.tool_use_id));
            continue;
        }
        match message.kind {
            RecordKind::User if tool_results(message).next().is_some() => {
                answered.extend(tool_results(message).map(|result| &result.tool_use_id));
            }
            RecordKind::User if message.is_compact_summary => return Interruption::None,
            RecordKind::User => {
                let text = message
                    .message
                    .as_ref()
                    .map(RecordMessage::text)
                    .unwrap_or_default();
                return if text.starts_with(INTERRUPTED_BY_USER) {
                    Interruption::None
                } else if answered.is_empty() {
                    Interruption::DuringPrompt {
                        prompt: message.uuid,
                    }
                } else {
                    Interruption::AfterTools
                };
            }
            RecordKind::Assistant => {
                return after_assistant(chain, message, &answered, ends_are_noted);
            }
            RecordKind::System if message.is_compact_boundary() => return Interruption::None,
            // The turn ended, whatever its answer says.
            RecordKind::System if message.subtype.as_deref() == Some(TURN_DURATION) => {
                ends_are_noted = false;
            }
            RecordKind::System | RecordKind::Attachment | RecordKind::Progress => {}
        }
    }
    Interruption::None
}

fn after_assistant(
    chain: &[Arc<Record>],
    last: &MessageRecord,
    answered: &HashSet<&ToolUseId>,
    ends_are_noted: bool,
) -> Interruption {
    if last.is_api_error_message {
        return Interruption::None;
    }
    let same_message: Vec<&MessageRecord> = chain
        .iter()
        .filter_map(|record| as_message(record))
        .filter(|message| {
            message.uuid == last.uuid
                || (model_message_id(last).is_some()
                    && model_message_id(message) == model_message_id(last))
        })
        .collect();
    let all_answered: HashSet<&ToolUseId> = chain
        .iter()
        .filter_map(|record| as_message(record))
        .flat_map(tool_results)
        .map(|result| &result.tool_use_id)
        .collect();
    let calls: Vec<&ToolUseId> = same_message
        .iter()
        .flat_map(|message| tool_calls(message))
        .map(|call| &call.id)
        .collect();
    let unanswered: Vec<ToolUseId> = calls
        .iter()
        .filter(|id| !all_answered.contains(*id))
        .map(|id| (*id).clone())
        .collect();
    let says_nothing = same_message
        .iter()
        .flat_map(|message| blocks(message))
        .all(|block| block.is_thinking() || block.is_blank());
    let has_no_end = || {
        same_message.iter().all(|record| match &record.message {
            Some(RecordMessage::Assistant(message)) => message.stop_reason.is_none(),
            _ => true,
        })
    };
    if !unanswered.is_empty() {
        Interruption::DuringTools { unanswered }
    } else if !calls.is_empty() || !answered.is_empty() {
        Interruption::AfterTools
    } else if says_nothing || (ends_are_noted && has_no_end()) {
        Interruption::DuringReply
    } else {
        Interruption::None
    }
}

/// The last task list that the model wrote, for files without a fact about it.
pub(crate) fn last_todo_list(loaded: &Loaded) -> Option<Value> {
    loaded
        .messages()
        .rev()
        .filter(|record| !record.is_sidechain)
        .flat_map(|record| tool_calls(record).collect::<Vec<_>>().into_iter().rev())
        .find(|call| call.name == "TodoWrite")
        .and_then(|call| call.input.get("todos").cloned())
}

pub(crate) fn check_dropped_turn(
    whole: &[Arc<Record>],
    kept: &[Arc<Record>],
    turn: RecordId,
) -> Result<(), SessionError> {
    let kept: HashSet<RecordId> = kept.iter().filter_map(|record| record.uuid()).collect();
    let mut current = None;
    for message in whole.iter().filter_map(|record| as_message(record)) {
        if message.is_prompt() && !message.is_virtual {
            current = Some(message.uuid);
        }
        if !kept.contains(&message.uuid) && current != Some(turn) {
            let reason = match current {
                Some(other) => format!(
                    "message {} belongs to the turn of prompt {other}, not to that of {turn}",
                    message.uuid
                ),
                None => format!("message {} comes before the first prompt", message.uuid),
            };
            return Err(SessionError::DropsOtherTurns { reason });
        }
    }
    Ok(())
}
