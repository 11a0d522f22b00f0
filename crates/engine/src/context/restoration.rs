//! Restores what a summary loses and the model needs: the files it works on, the task list, what runs, the
//! instructions of the folders it works in.

use crate::context::KeptPrompt;
use crate::context::prompt;
use crate::context::room;
use crate::conversation::Conversation;
use crate::conversation::plan;
use lathe_model::estimate;
use lathe_protocol::display::TodoStatus;
use lathe_protocol::record::Fact;
use lathe_settings::instructions::Reason;
use lathe_shell::run::BackgroundStatus;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

/// Files that are shown again.
const MOST_FILES: usize = 5;
/// Tokens of one of them.
const TOKENS_PER_FILE: u64 = 5_000;
/// Tokens of everything that comes back.
const TOKENS_IN_ALL: u64 = 50_000;
/// Agents that are named again, the newest ones.
const MOST_AGENTS: usize = 20;
/// More of a file than could ever be shown.
const MOST_BYTES_READ: u64 = 256 * 1024;

/// The texts for the conversation after a compaction, each for itself.
pub(crate) fn restored(conversation: &Conversation) -> Vec<String> {
    let mut left = TOKENS_IN_ALL.min(room::windows(conversation).compact_at() / 5);
    let mut pieces = Vec::new();
    pieces.extend(conversation.fixed.prompt.told_apart());
    if let Some(list) = todo_text(conversation) {
        pieces.push(list);
    }
    pieces.extend(task_text(conversation));
    if let Some(tasks) = running_tasks(conversation) {
        pieces.push(tasks);
    }
    pieces.extend(agents_text(conversation));
    pieces.extend(plan::plan_text(conversation));
    pieces.extend(touched_texts(conversation));
    pieces.extend(conversation.shared.integrations.extensions.restored());
    let pinned = conversation.history.pinned_texts().into_iter();
    pieces.extend(pinned.map(|text| format!("The user keeps this in view:\n{text}")));
    for piece in &pieces {
        left = left.saturating_sub(estimate::text(piece));
    }
    for path in conversation.shared.tools.file_cache.recent(MOST_FILES) {
        if conversation.shared.permissions.why_hidden(&path).is_some() {
            continue;
        }
        let Some(text) = shown_again(&path, TOKENS_PER_FILE.min(left)) else {
            continue;
        };
        left = left.saturating_sub(estimate::text(&text));
        pieces.push(text);
    }
    pieces
}

/// The task list in words; `None` when there is nothing to do.
pub(crate) fn todo_text(conversation: &Conversation) -> Option<String> {
    let todos = conversation.shared.tools.todos.lock();
    if todos.iter().all(|item| item.status.is_finished()) {
        return None;
    }
    let mut text = "The current task list:".to_owned();
    for item in todos.iter() {
        let mark = match item.status {
            TodoStatus::Completed => "done",
            TodoStatus::InProgress => "now",
            TodoStatus::Pending => "open",
            TodoStatus::Failed => "failed",
            TodoStatus::Cancelled => "cancelled",
        };
        let _ = write!(text, "\n- [{mark}] {}", item.content);
    }
    Some(text)
}

/// The list of tasks with ids in words; `None` when nothing of it is open.
pub(crate) fn task_text(conversation: &Conversation) -> Option<String> {
    let list = conversation.shared.tools.tasks.read().ok()?;
    if list.is_finished() {
        return None;
    }
    let text = lathe_tools::task_list::text_of(&list)?;
    Some(format!("The current task list:\n{text}"))
}

/// The agents of this conversation in words, as far as they can still be of use.
fn agents_text(conversation: &Conversation) -> Option<String> {
    let own = conversation.shared.role.place().map(|place| &place.id);
    let mut text = "Agents that you started (SendMessage reaches each of them):".to_owned();
    let mut any = false;
    let all = conversation.shared.session.agents.all();
    let mine = all.iter().filter(|entry| entry.parent.as_ref() == own);
    for entry in mine.rev().take(MOST_AGENTS) {
        any = true;
        let view = entry.view();
        let _ = write!(
            text,
            "\n- {} ({}, {}): {}",
            view.id,
            view.agent_type,
            view.description,
            view.status.word()
        );
    }
    any.then_some(text)
}

fn running_tasks(conversation: &Conversation) -> Option<String> {
    let mut text = "Commands still running in the background:".to_owned();
    let mut any = false;
    for command in conversation.shared.tools.shell.background().list() {
        if matches!(command.status, BackgroundStatus::Running) {
            any = true;
            let _ = write!(
                text,
                "\n- {}: {} (output in {})",
                command.id.as_str(),
                command.command,
                command.output_file.display()
            );
        }
    }
    any.then_some(text)
}

/// Instructions that came with files that were touched: they stood in the conversation.
fn touched_texts(conversation: &Conversation) -> Vec<String> {
    let instructions = conversation.shared.state.instructions.lock();
    instructions
        .as_ref()
        .map(|instructions| {
            instructions
                .files()
                .iter()
                .filter(|file| matches!(file.reason, Reason::Folder { .. } | Reason::Rule { .. }))
                .map(|file| {
                    format!(
                        "Instructions for a part of the project, from {}:\n{}",
                        file.path.display(),
                        file.text_with_notice()
                    )
                })
                .collect()
        })
        .unwrap_or_default()
}

/// Keeps the system prompt with the session, where that is wanted and not done.
pub(crate) fn keep_system_prompt(conversation: &mut Conversation) {
    if conversation.context.kept_prompt != KeptPrompt::Wanted {
        return;
    }
    let Ok(system) = serde_json::from_slice(&conversation.fixed.system) else {
        return;
    };
    conversation.context.kept_prompt = KeptPrompt::Kept;
    conversation.append_fact(Fact::SystemPrompt {
        system,
        session_id: conversation.shared.session.id,
    });
}

/// Keeps a system prompt that was edited in the place of the one that was kept.
pub(crate) fn replace_system_prompt(conversation: &mut Conversation) {
    if conversation.context.kept_prompt == KeptPrompt::Kept {
        conversation.context.kept_prompt = KeptPrompt::Wanted;
        keep_system_prompt(conversation);
    }
}

/// Takes over instruction files that changed on disk. The prefix is new after a compaction anyway.
pub(crate) fn refresh_instructions(conversation: &mut Conversation) {
    if conversation.context.kept_prompt == KeptPrompt::Kept {
        conversation.fixed.system = conversation.fixed.prompt.encode();
        conversation.context.kept_prompt = KeptPrompt::Wanted;
    }
    let text = {
        let mut instructions = conversation.shared.state.instructions.lock();
        let Some(instructions) = instructions.as_mut() else {
            return;
        };
        if instructions.changed().is_empty() {
            return;
        }
        prompt::instructions_text(instructions)
    };
    conversation.fixed.prompt.instructions = text;
    conversation.fixed.system = conversation.fixed.prompt.encode();
}

/// A file's beginning, as far as it fits.
fn shown_again(path: &Path, tokens: u64) -> Option<String> {
    if tokens < 100 {
        return None;
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(MOST_BYTES_READ).read_to_end(&mut bytes).ok()?;
    if bytes.contains(&0) {
        return None;
    }
    let whole = String::from_utf8_lossy(&bytes);
    let (mut shown, mut used, mut cut) = (String::new(), 0, false);
    for line in whole.split_inclusive('\n') {
        used += estimate::text(line);
        if used > tokens {
            cut = true;
            break;
        }
        shown.push_str(line);
    }
    if shown.trim().is_empty() {
        return None;
    }
    let lines = shown.lines().count();
    let note = if cut {
        format!(" (the first {lines} lines; read the rest if you need it)")
    } else {
        String::new()
    };
    Some(format!(
        "{} as it is now{note}:\n{}",
        path.display(),
        shown.trim_end()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_cut_at_a_line_and_a_binary_one_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "some words on a line\n".repeat(2_000)).unwrap();
        let text = shown_again(&path, 500).unwrap();
        assert!(text.contains("the first "), "{text}");
        assert!(estimate::text(&text) < 600);
        assert!(text.ends_with("on a line"));
        std::fs::write(&path, b"a\0b").unwrap();
        assert_eq!(shown_again(&path, 500), None);
        assert_eq!(shown_again(folder.path(), 500), None);
        std::fs::write(&path, "short").unwrap();
        assert!(shown_again(&path, 500).unwrap().ends_with(":\nshort"));
        assert_eq!(shown_again(&path, 50), None);
    }
}
