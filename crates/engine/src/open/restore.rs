//! Restoring a conversation from its transcript.

use super::options::{OpenError, SessionOptions};
use super::task_tools::take_over;
use crate::call::tool_search;
use crate::context::{KeptPrompt, surgery};
use crate::conversation::Conversation;
use crate::session::ledger::{Ledger, Totals};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::display::TodoItem;
use lathe_protocol::permission::PermissionMode;
use lathe_protocol::record::{MessageRecord, Record, RecordMessage};
use lathe_session::{Interruption, Loaded, SessionPaths};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

/// The usage that is kept with a session.
pub(super) fn kept_totals(history: Option<&Loaded>) -> Option<Totals> {
    serde_json::from_value(history?.facts.cost.clone()?).ok()
}

/// Takes a history up.
pub(super) fn restore(
    conversation: &mut Conversation,
    history: &Loaded,
    options: &SessionOptions,
    remarks: &mut Vec<Diagnostic>,
) -> Result<(), OpenError> {
    let chain = match options.history.resume_at {
        Some(record) => history.chain_to(record)?,
        None => history.chain(),
    };
    let unfinished = match history.interruption() {
        Interruption::DuringTools { unanswered } => unanswered,
        _ => Vec::new(),
    };
    for record in &chain {
        conversation.history.push(record);
        if let Record::Message(message) = &**record {
            conversation.context.meter.replay(message);
            let shared = &conversation.shared;
            let hidden = |skill: &lathe_extensions::Skill| shared.hidden_file_of(skill).is_some();
            shared.integrations.extensions.replay(message, &hidden);
            if let Some(RecordMessage::Assistant(message)) = &message.message {
                for call in message.content.iter().filter_map(ContentBlock::as_tool_use) {
                    tool_search::note_used_tool(conversation, &call.name);
                    if unfinished.contains(&call.id) {
                        remove_leftover(conversation, &call.input);
                    }
                }
            }
        }
    }
    restore_reads(conversation, &chain);
    conversation.tip = chain.iter().rev().find_map(|record| match &**record {
        Record::Message(message) if !message.is_sidechain => Some(message.uuid),
        _ => None,
    });
    if conversation.context.kept_prompt == KeptPrompt::Wanted
        && let Some(system) = &history.facts.system_prompt
    {
        conversation.fixed.system = system.to_string().into();
        conversation.context.kept_prompt = KeptPrompt::Kept;
    }
    surgery::take_up(conversation, &history.records);
    conversation
        .context
        .kept_choice
        .clone_from(&history.facts.model_choice);
    if history.facts.title().is_some() {
        conversation.context.title_wanted = false;
    }
    if let Some(totals) = kept_totals(Some(history)) {
        *conversation.shared.spending.totals.lock() = totals.clone();
        conversation.ledger = Ledger::resume(totals);
    }
    if let Some(todos) = &history.facts.todos
        && let Ok(todos) = serde_json::from_value::<Vec<TodoItem>>(todos.clone())
    {
        let registry = conversation.shared.toolbox.registry.read();
        let keeps = registry.find(lathe_tools::todo_write::NAME).is_some();
        let tools = &conversation.shared.tools;
        if keeps || !take_over(&todos, &tools.tasks) {
            *tools.todos.lock() = todos;
        }
    }
    if let Some(goal) = &history.facts.goal {
        crate::conversation::goal::restore(&conversation.shared, goal, &history.path);
    }
    let paths = SessionPaths::of_transcript(&history.path);
    if let Ok(notes) = std::fs::read_to_string(paths.notes()) {
        conversation.shared.state.notes.kept.resume(notes);
    }
    if !history.damaged.is_empty() {
        remarks.push(Diagnostic::warning(format!(
            "{} damaged line(s) of the transcript {} were skipped",
            history.damaged.len(),
            history.path.display()
        )));
    }
    if options.permissions.mode.is_none() && options.history.carried.is_none() {
        restore_mode(conversation, history, remarks);
    }
    if options.interactive {
        remarks.extend(interrupted(history));
    }
    Ok(())
}

/// Continues in the mode that the session was in, as far as the gates allow it now. Leave to do everything is
/// given anew every time.
fn restore_mode(conversation: &Conversation, history: &Loaded, remarks: &mut Vec<Diagnostic>) {
    let mode = history
        .facts
        .mode
        .as_deref()
        .and_then(|mode| mode.parse().ok());
    let Some(mode) = mode.filter(|mode| *mode != PermissionMode::BypassPermissions) else {
        return;
    };
    let permissions = &conversation.shared.permissions;
    if mode != permissions.mode()
        && let Err(error) = permissions.set_mode(mode)
    {
        remarks.push(Diagnostic::warning(format!(
            "the session was in mode {}, which can't be restored: {error}",
            mode.name()
        )));
    }
}

/// The beginning of the remark on a turn that never ended, for faces that show by themselves what was interrupted.
pub const LAST_TURN_INTERRUPTED: &str = "The last turn was interrupted ";

/// A remark on a turn that never ended.
fn interrupted(history: &Loaded) -> Option<Diagnostic> {
    let what = match history.interruption() {
        Interruption::None => return None,
        Interruption::DuringPrompt { .. } => "before an answer was complete".to_owned(),
        Interruption::DuringReply => "while the model was answering".to_owned(),
        Interruption::AfterTools => "before the model saw the last results".to_owned(),
        Interruption::DuringTools { unanswered } => {
            let calls = history
                .messages()
                .filter_map(|record| record.message.as_ref());
            let calls = calls.flat_map(RecordMessage::blocks);
            let names: Vec<String> = calls
                .filter_map(|block| match block {
                    ContentBlock::ToolUse(call) if unanswered.contains(&call.id) => {
                        Some(described(&call.name, &call.input))
                    }
                    _ => None,
                })
                .collect();
            format!("while this was running: {}", names.join("; "))
        }
    };
    Some(Diagnostic::note(format!(
        "{LAST_TURN_INTERRUPTED}{what}. Nothing is run again automatically; send \"continue\" to resume."
    )))
}

/// A call in a few words.
fn described(name: &str, input: &Value) -> String {
    let about = [
        "command",
        "file_path",
        "notebook_path",
        "pattern",
        "url",
        "description",
    ]
    .iter()
    .find_map(|key| input.get(key)?.as_str());
    match about {
        Some(about) => {
            let line = about.lines().next().unwrap_or_default();
            let short: String = line.chars().take(80).collect();
            format!("{name} {short}")
        }
        None => name.to_owned(),
    }
}

/// How many files count as read again at most.
const MOST_FILES: usize = 200;

/// A file that the conversation read or wrote whole.
struct KnownFile {
    /// When, by its record.
    at: SystemTime,
    /// Its content at that time, if it was recorded.
    content: Option<String>,
}

/// Counts files as read that the conversation read or wrote, if they are as it knows them: not written since,
/// or with the same content. All others must be read again before they are changed, and so must files that are not
/// read without a question: a transcript is only a file, and those that count as read are shown when they change.
fn restore_reads(conversation: &Conversation, chain: &[Arc<Record>]) {
    let mut known: Vec<(PathBuf, KnownFile)> = Vec::new();
    for record in chain {
        let Record::Message(message) = &**record else {
            continue;
        };
        let result = message.tool_use_result.as_ref();
        if let Some((path, file)) = result.and_then(|result| known_file(result, message)) {
            known.retain(|(other, _)| *other != path);
            known.push((path, file));
        }
    }
    let cache = &conversation.shared.tools.file_cache;
    known.retain(|(path, _)| conversation.shared.permissions.reads_freely(path));
    for (path, file) in known.iter().rev().take(MOST_FILES).rev() {
        if !cache.seed(path, file.at)
            && let Some(content) = &file.content
            && std::fs::read_to_string(path)
                .is_ok_and(|now| now.trim_end_matches('\n') == content.trim_end_matches('\n'))
        {
            cache.seed(path, SystemTime::now());
        }
    }
}

/// The file that a result of Read, Write or Edit is about. A part of a file is not the file.
fn known_file(result: &Value, record: &MessageRecord) -> Option<(PathBuf, KnownFile)> {
    let file = match result.get("file") {
        Some(file) => {
            let whole = result["type"] == "text"
                && file["startLine"] == 1
                && file["numLines"] == file["totalLines"];
            whole.then_some(file)?
        }
        None => result,
    };
    let at: jiff::Timestamp = record.timestamp.parse().ok()?;
    let content = file.get("content").and_then(Value::as_str);
    let known = KnownFile {
        at: at.into(),
        content: content.map(str::to_owned),
    };
    Some((PathBuf::from(file.get("filePath")?.as_str()?), known))
}

/// Removes what a call that was killed left beside the file that it was writing.
fn remove_leftover(conversation: &Conversation, input: &Value) {
    let path = ["file_path", "notebook_path"]
        .iter()
        .find_map(|name| input.get(name)?.as_str());
    if let Some(path) = path {
        let folder = conversation.shared.tools.working_folder.read();
        lathe_tools::files::remove_leftover(&folder.join(path));
    }
}
