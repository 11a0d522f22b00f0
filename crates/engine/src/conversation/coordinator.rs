//! Coordinator mode: the main conversation directs workers and does none of the work itself.
//!
//! Only the main conversation is limited. Workers are agents as always, with the tools of the session; forks are off,
//! because a copy of the coordinator has its tools. All share a scratch folder.

use crate::context::KeptPrompt;
use crate::conversation::{Conversation, ConversationShared};
use crate::open::options::SessionOptions;
use lathe_protocol::record::{Fact, Record};
use lathe_session::paths::create_private_folder;
use lathe_tools::{
    agent, ask_user_question, send_message, structured_output, task_list, todo_write,
};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};

/// The text of the system prompt.
pub(crate) const PROMPT: &str = include_str!("../../prompts/coordinator.md");

/// The mode of a conversation.
#[derive(Default)]
pub(crate) struct Coordination {
    pub(super) on: AtomicBool,
    /// Whether the scratch folder was made, so that it is removed at the end.
    used: AtomicBool,
}

/// Why the mode can't be switched on.
#[derive(Debug, thiserror::Error)]
#[error("the scratch folder for the workers can't be made: {0}")]
pub struct NoScratch(#[source] lathe_session::SessionError);

/// Whether the coordinator itself has a tool.
pub(crate) fn has(tool: &str) -> bool {
    task_list::NAMES.contains(&tool)
        || [
            agent::NAME,
            send_message::NAME,
            "TaskStop",
            "TaskOutput",
            todo_write::NAME,
            ask_user_question::NAME,
            structured_output::NAME,
        ]
        .contains(&tool)
}

/// Switches the mode, also in the transcript. The next step of the conversation has its tools and its prompt.
pub(crate) fn set(shared: &ConversationShared, on: bool) -> Result<(), NoScratch> {
    switch(shared, on)?;
    shared.transcript.append(Record::Fact(Fact::Coordinator {
        on,
        session_id: shared.session.id,
    }));
    Ok(())
}

fn switch(shared: &ConversationShared, on: bool) -> Result<(), NoScratch> {
    if on {
        let folder = shared.scratch_folder();
        create_private_folder(&folder).map_err(NoScratch)?;
        shared
            .state
            .coordination
            .used
            .store(true, Ordering::Relaxed);
        shared.permissions.update_context(|context| {
            if !context.files.session_paths.contains(&folder) {
                context.files.session_paths.push(folder.clone());
            }
        });
    }
    shared.state.coordination.on.store(on, Ordering::Relaxed);
    Ok(())
}

/// The mode that a session begins with. `kept` is that of the transcript. A session that follows another in the same
/// process knows better than the flag that the process began with.
pub(crate) fn begin(
    conversation: &mut Conversation,
    options: &SessionOptions,
    kept: Option<bool>,
) -> Result<(), NoScratch> {
    let wanted = options.extensions.coordinator;
    let setting = {
        let settings = conversation.shared.session.settings.value.read();
        settings.get("coordinator") == Some(&Value::Bool(true))
    };
    let on = match &options.history.carried {
        Some(carried) if carried.cleared => carried.coordinator,
        Some(_) => kept.unwrap_or(wanted || setting),
        None => wanted || kept.unwrap_or(setting),
    };
    if on {
        switch(&conversation.shared, true)?;
        if kept != Some(true) {
            conversation.append_fact(Fact::Coordinator {
                on,
                session_id: conversation.shared.session.id,
            });
        }
    }
    Ok(())
}

/// Lets the prompt and the description of the Agent tool follow the mode.
pub(crate) fn follow_mode(conversation: &mut Conversation) {
    let shared = &conversation.shared;
    let now = shared.coordinates().then(|| shared.scratch_folder());
    if conversation.fixed.prompt.coordinator == now {
        return;
    }
    conversation.fixed.prompt.coordinator = now;
    crate::open::agents::describe_agents(conversation);
    // The prompt that a resumed session kept has the mode already; once a request was sent, it is another one.
    if conversation.context.kept_prompt == KeptPrompt::Kept {
        if !conversation.context.prefix.has_seen_one() {
            return;
        }
        conversation.context.kept_prompt = KeptPrompt::Wanted;
    }
    conversation.fixed.system = conversation.fixed.prompt.encode();
    conversation
        .context
        .prefix
        .expect("coordinator mode was switched");
}

/// Removes the scratch folder at the end of the session, unless settings keep it.
pub(crate) fn close(shared: &ConversationShared) {
    let keeps = shared.session.settings.value.read().get("keepScratch") == Some(&Value::Bool(true));
    if keeps || !shared.state.coordination.used.load(Ordering::Relaxed) {
        return;
    }
    let folder = shared.scratch_folder();
    if let Err(error) = std::fs::remove_dir_all(&folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, folder = %folder.display(), "the scratch folder can't be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_of_the_coordinator_is_small() {
        assert!(PROMPT.len() <= 1_600, "{} bytes", PROMPT.len());
    }

    #[test]
    fn the_coordinator_has_no_tool_that_works() {
        for tool in [
            "Bash",
            "Read",
            "Edit",
            "Grep",
            "Skill",
            "Workflow",
            "mcp__a__b",
            "ToolSearch",
        ] {
            assert!(!has(tool), "{tool}");
        }
        assert!(has("Agent") && has("TaskUpdate") && has("StructuredOutput"));
    }
}
