//! Editing the context: results, messages and instruction files that the user drops, condenses, brings back, or keeps
//! over compactions.
//!
//! An edit is a fact of the transcript at once, so a resumed session has it; the conversation takes it in before
//! its next request. All edits since the last request break the provider's cache once.

use crate::context::KeptPrompt;
use crate::context::prompt::{instructions_always, instructions_text};
use crate::context::restoration;
use crate::conversation::{Conversation, ConversationShared};
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::record::{Fact, Record};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The words in the place of a result that the user dropped.
pub const DROPPED: &str = "[The user removed this result from the context. Make the call again if it is needed and does no harm.]";

/// How the text of a condensed result begins.
pub const CONDENSED: &str = "[The user had this result condensed. A summary of it:]\n";

/// The words in the place of a message that the user dropped.
pub const DROPPED_MESSAGE: &str = "[The user removed this message from the context.]";

/// How the text of a condensed message begins.
pub const CONDENSED_MESSAGE: &str = "[The user had this message condensed. A summary of it:]\n";

/// The words in the place of an instruction file that the user dropped.
pub const DROPPED_FILE: &str = "[The user removed this file from the context.]";

/// How the text of a condensed instruction file begins.
pub const CONDENSED_FILE: &str = "[The user had this file condensed. A summary of it:]\n";

/// The beginning of the id of an instruction file; its path follows.
pub const FILE_ID: &str = "memory:";

/// Puts another text in the place of a result, a message or an instruction file, from the next request on. Without a
/// text an instruction file is itself again.
pub(crate) fn replace(shared: &ConversationShared, id: ToolUseId, text: String) {
    edit(
        shared,
        Fact::Replacement {
            tool_use_id: id,
            replacement: text,
            session_id: shared.session.id,
        },
    );
}

/// Keeps a result or a message over compactions, or no longer.
pub(crate) fn pin(shared: &ConversationShared, id: ToolUseId, pinned: bool) {
    edit(
        shared,
        Fact::Pinned {
            tool_use_id: id,
            pinned,
            session_id: shared.session.id,
        },
    );
}

fn edit(shared: &ConversationShared, fact: Fact) {
    let record = Record::Fact(fact);
    shared.transcript.append(record.clone());
    shared.state.surgery.lock().push(record);
}

/// Takes in the edits since the last request.
pub(crate) fn apply(conversation: &mut Conversation) {
    let edits = std::mem::take(&mut *conversation.shared.state.surgery.lock());
    let replaces = |record: &Record| matches!(record, Record::Fact(Fact::Replacement { .. }));
    if !edits.iter().any(replaces) {
        edits
            .iter()
            .for_each(|edit| conversation.history.push(edit));
        return;
    }
    let before = conversation.history.estimated_bytes();
    for edit in &edits {
        conversation.history.push(edit);
    }
    let freed = before.saturating_sub(conversation.history.estimated_bytes());
    conversation.context.meter.take_out(freed as u64 / 4);
    let system = conversation.fixed.system.len();
    if take_files(conversation, &edits) {
        conversation.fixed.system = conversation.fixed.prompt.encode();
        let shorter = system.saturating_sub(conversation.fixed.system.len());
        conversation.context.meter.take_out(shorter as u64 / 4);
        restoration::replace_system_prompt(conversation);
    }
    conversation.context.prefix.expect("the context was edited");
    // A file that is read again must be shown again.
    conversation.shared.tools.file_cache.forget_answers();
}

/// Takes up the edits of instruction files of a session that is resumed.
pub(crate) fn take_up(conversation: &mut Conversation, records: &[Arc<Record>]) {
    let edits = records.iter().map(|record| &**record);
    if take_files(conversation, edits) && conversation.context.kept_prompt != KeptPrompt::Kept {
        conversation.fixed.system = conversation.fixed.prompt.encode();
    }
}

/// Puts the texts of edits in the place of instruction files. Says whether there are any.
fn take_files<'a>(
    conversation: &mut Conversation,
    edits: impl IntoIterator<Item = &'a Record>,
) -> bool {
    let edits: Vec<(&Path, &str)> = edits.into_iter().filter_map(file_edit).collect();
    let text = {
        let mut instructions = conversation.shared.state.instructions.lock();
        let Some(instructions) = instructions.as_mut().filter(|_| !edits.is_empty()) else {
            return false;
        };
        for (path, words) in edits {
            instructions.replace(path, (!words.is_empty()).then(|| words.to_owned()));
        }
        instructions_text(instructions)
    };
    conversation.fixed.prompt.instructions = text;
    true
}

fn file_edit(record: &Record) -> Option<(&Path, &str)> {
    let Record::Fact(Fact::Replacement {
        tool_use_id,
        replacement,
        ..
    }) = record
    else {
        return None;
    };
    let path = tool_use_id.as_str().strip_prefix(FILE_ID)?;
    Some((Path::new(path), replacement))
}

/// An instruction file in the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInContext {
    /// Where it is.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// The text that the model gets in its place.
    pub replacement: Option<String>,
}

/// The instruction files in the system prompt.
pub(crate) fn files(shared: &ConversationShared) -> Vec<FileInContext> {
    let instructions = shared.state.instructions.lock();
    let files = instructions.iter().flat_map(|instructions| {
        let always = instructions_always(instructions);
        always.map(|file| FileInContext {
            path: file.path.clone(),
            text: file.text_with_notice(),
            replacement: instructions.replacement(&file.path).map(str::to_owned),
        })
    });
    files.collect()
}
