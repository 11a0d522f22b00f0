//! Messages to agents: to those that run, and to those that are over, which continue with the message.

use crate::agents::notice;
use crate::agents::order::{add_hooks, child_token, new_worktree, order_prompt};
use crate::agents::run::Ready;
use crate::agents::start::{self, Start, StartFrom};
use crate::agents::{AgentEntry, NewAgent, REMOTE, State, WORKFLOW, team};
use crate::context::git::Git;
use crate::conversation::ConversationShared;
use crate::worktree::Worktree;
use lathe_extensions::AgentDefinition;
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_protocol::op::Prompt;
use lathe_tools::agent::{FORK, GENERAL};
use lathe_tools::host::AgentStatus;
use lathe_tools::{CallContext, ToolError};
use std::sync::Arc;

/// Sends a message to a running agent, or wakes one that is over.
pub(super) async fn send_message(
    shared: &Arc<ConversationShared>,
    to: &str,
    message: &str,
    call: &CallContext,
) -> Result<String, ToolError> {
    if let Some(session) = to.strip_prefix("session:") {
        return crate::session::messages::send(shared, session.trim(), message).await;
    }
    if to == MAIN {
        return to_main(shared, message);
    }
    if to == "*" {
        let mut reached = Vec::new();
        for entry in shared.session.agents.all() {
            let own = shared.role.place().is_some_and(|it| it.id == entry.id);
            if !own && entry.is_running() && deliver(shared, &entry, message) {
                reached.push(entry.id.0.clone());
            }
        }
        if reached.is_empty() {
            return Err(ToolError::failed(
                "No agent is running, so the message was not delivered.",
            ));
        }
        return Ok(format!("Sent to {}.", reached.join(", ")));
    }
    let Some(entry) = shared.session.agents.find(to) else {
        let all = shared.session.agents.all();
        let known: Vec<String> = all
            .iter()
            .map(|entry| match &entry.name {
                Some(name) => format!("{} ({name})", entry.id),
                None => entry.id.0.clone(),
            })
            .collect();
        return Err(ToolError::failed(if known.is_empty() {
            format!("There is no agent {to}: none was started in this session.")
        } else {
            format!("There is no agent {to}. There are: {}.", known.join(", "))
        }));
    };
    if shared.role.place().is_some_and(|it| it.id == entry.id) {
        return Err(ToolError::failed("That is you."));
    }
    if deliver(shared, &entry, message) {
        return Ok(format!(
            "Agent {} works; it gets the message with its next step.",
            entry.id
        ));
    }
    // It may be about to end; then it is woken when it has.
    tokio::select! {
        () = entry.over() => {}
        () = call.cancel.cancelled() => {
            return Err(ToolError::Cancelled("The message was not sent.".to_owned()));
        }
    }
    let waking = Waking {
        tool_use_id: Some(call.tool_use_id.clone()),
        turn: shared.role.place().map_or(call.turn, |place| place.turn),
    };
    wake(shared, &entry, order_prompt(message), waking).await
}

/// Sends the user's own words to an agent: a running one gets them with its next step, one that is over continues with
/// them. `shared` is the main conversation.
pub(crate) async fn write_to(
    shared: &Arc<ConversationShared>,
    entry: &Arc<AgentEntry>,
    message: &str,
) -> Result<(), ToolError> {
    if let Some(written) = team::write_as_user(shared, &entry.id, message) {
        return written;
    }
    if give(entry, format!("A message from the user:\n{message}")) {
        return Ok(());
    }
    entry.over().await;
    let waking = Waking {
        // Its work continues in the same place of every face.
        tool_use_id: entry.tool_use_id.clone(),
        turn: entry.state().turn.unwrap_or_else(RecordId::random),
    };
    wake(shared, entry, order_prompt(message), waking)
        .await
        .map(drop)
}

/// The name of the main conversation.
const MAIN: &str = "main";

/// The words that name the conversation that sends a message.
fn sender(shared: &ConversationShared) -> String {
    shared.role.place().map_or_else(
        || "the agent that started you".to_owned(),
        |place| match &place.entry.name {
            Some(name) => format!("agent {} ({name})", place.id),
            None => format!("agent {}", place.id),
        },
    )
}

/// Gives the main conversation a message of an agent. It is the agent's word, never the user's.
fn to_main(shared: &Arc<ConversationShared>, message: &str) -> Result<String, ToolError> {
    let Some(place) = shared.role.place() else {
        return Err(ToolError::failed("That is you."));
    };
    let text = format!(
        "<agent-message>\nA message from {}, which is not the user: \"{}\" ({})\n{message}\n</agent-message>",
        sender(shared),
        place.entry.description,
        place.entry.agent_type,
    );
    let prompt = notice::prompt(place.id.as_str(), text);
    shared.root().enqueue(prompt);
    Ok("Sent to the main conversation, which gets it with its next step.".to_owned())
}

/// Gives a working agent a message. Returns whether it works.
fn deliver(shared: &ConversationShared, entry: &AgentEntry, message: &str) -> bool {
    let from = sender(shared);
    give(entry, format!("A message from {from}:\n{message}"))
}

/// Puts words into the inbox of a working agent. Returns whether it works.
fn give(entry: &AgentEntry, words: String) -> bool {
    let mut prompt = Prompt::new(words);
    prompt.verbatim = true;
    give_prompt(entry, prompt)
}

/// The same with a prompt.
pub(super) fn give_prompt(entry: &AgentEntry, prompt: Prompt) -> bool {
    let state = entry.state.lock();
    let Some(conversation) = state.conversation.upgrade() else {
        return false;
    };
    conversation.enqueue(prompt);
    true
}

/// The call and the turn that an agent is woken for.
pub(super) struct Waking {
    pub(super) tool_use_id: Option<ToolUseId>,
    pub(super) turn: RecordId,
}

/// Wakes an agent that is over: the same agent, with all it knew, in the background.
pub(super) async fn wake(
    shared: &Arc<ConversationShared>,
    old: &Arc<AgentEntry>,
    prompt: Prompt,
    waking: Waking,
) -> Result<String, ToolError> {
    let state = old.state();
    let (definition, other_type) = definition_again(shared, old)?;
    let records = history(shared, old, state.forked_from).await?;
    let entry = entry_again(shared, old, &state, waking.tool_use_id);
    shared.session.agents.replace(old, entry.clone())?;
    let folder = folder_again(shared, &entry, &state).await;
    let model = if state.model.is_empty() {
        shared.choices.read().model.clone()
    } else {
        state.model.clone()
    };
    let built = start::build(Start {
        parent: shared,
        entry: &entry,
        definition: definition.as_ref(),
        model,
        worktree: folder.worktree.as_ref(),
        history: StartFrom::Again(records),
        turn: waking.turn,
    });
    let (conversation, stream) = match built {
        Ok(built) => built,
        Err(error) => {
            shared.session.agents.put_back(&entry, old.clone());
            return Err(error.into());
        }
    };
    team::woken(shared, &entry);
    Ready {
        entry: entry.clone(),
        conversation,
        stream,
        parent: shared.clone(),
        prompt,
        worktree: folder.worktree,
        hooks: definition.as_ref().and_then(|it| add_hooks(shared, it)),
        briefing: folder.briefing,
        definition,
    }
    .spawn();
    let mut text = format!(
        "Agent {} was {} and continues in the background with your message; you get a notification when it is done.",
        entry.id,
        state.status.word()
    );
    for note in other_type.into_iter().chain(folder.note) {
        text.push(' ');
        text.push_str(&note);
    }
    Ok(text)
}

/// The definition of an agent that is woken, `None` for a fork, and what to say if it is not the one that it had.
fn definition_again(
    shared: &ConversationShared,
    old: &AgentEntry,
) -> Result<(Option<AgentDefinition>, Option<String>), ToolError> {
    let catalog = shared.session.agents.catalog();
    let definition = catalog.get(&old.agent_type).cloned();
    if old.agent_type == WORKFLOW {
        return Err(ToolError::failed(format!(
            "{} is a workflow: Workflow with resumeFromRunId continues it.",
            old.id
        )));
    }
    if old.agent_type == REMOTE {
        return Err(ToolError::failed(format!(
            "{} was a job of the fleet and can't be continued here.",
            old.id
        )));
    }
    if definition.is_some() || old.agent_type == FORK {
        return Ok((definition, None));
    }
    let Some(general) = catalog.get(GENERAL).cloned() else {
        return Err(ToolError::failed(format!(
            "Agent {} can't continue: its type {} no longer exists.",
            old.id, old.agent_type
        )));
    };
    let note = format!(
        "Its type {} no longer exists, so it continues as {GENERAL}.",
        old.agent_type
    );
    Ok((Some(general), Some(note)))
}

/// The entry of an agent that is woken.
pub(super) fn entry_again(
    shared: &ConversationShared,
    old: &AgentEntry,
    state: &State,
    tool_use_id: Option<ToolUseId>,
) -> Arc<AgentEntry> {
    let entry = AgentEntry::new(NewAgent {
        id: old.id.clone(),
        name: old.name.clone(),
        agent_type: old.agent_type.clone(),
        description: old.description.clone(),
        prompt: old.prompt.clone(),
        tool_use_id,
        parent: shared.role.place().map(|place| place.id.clone()),
        output_file: old.output_file.clone(),
        background: true,
        cancel: child_token(shared),
        status: AgentStatus::Running,
    });
    entry.update(|new| {
        new.worktree.clone_from(&state.worktree);
        new.isolated = state.isolated;
        new.forked_from = state.forked_from;
        new.usage.tool_uses = state.usage.tool_uses;
        new.mode = team::mode_of(&shared.session, &old.id);
    });
    entry
}

/// The folder of an agent that is woken.
#[derive(Default)]
struct Folder {
    worktree: Option<Worktree>,
    /// Text for the agent.
    briefing: Option<String>,
    /// Text for the conversation that wakes it.
    note: Option<String>,
}

/// Finds the worktree of an agent that is woken, or makes a new one if it was removed because it was empty.
async fn folder_again(shared: &ConversationShared, entry: &AgentEntry, state: &State) -> Folder {
    if let Some(path) = &state.worktree {
        let here = shared.tools.working_folder.read().clone();
        let taken = match Git::new(&shared.permissions.snapshot(), &here) {
            Ok(git) => Worktree::take_up(&git, path).await,
            Err(_) => None,
        };
        return match taken {
            Some(worktree) => Folder {
                worktree: Some(worktree),
                ..Folder::default()
            },
            None => Folder {
                worktree: None,
                briefing: Some(
                    "Your worktree no longer exists; you now work in the original folder."
                        .to_owned(),
                ),
                note: Some(format!(
                    "Its worktree {} no longer exists, so it now works in your folder.",
                    path.display()
                )),
            },
        };
    }
    if !state.isolated {
        return Folder::default();
    }
    match new_worktree(shared, entry).await {
        Ok(made) => {
            let folder = shared.tools.working_folder.read().clone();
            Folder {
                briefing: Some(format!(
                    "Your worktree was empty and had been removed. {}",
                    made.briefing(&folder)
                )),
                worktree: Some(made),
                note: None,
            }
        }
        Err(error) => {
            let why = format!("Its worktree no longer exists ({error})");
            Folder {
                worktree: None,
                briefing: Some(format!("{why}; you work in the original folder now.")),
                note: Some(format!("{why}, so it works in your folder now.")),
            }
        }
    }
}

/// The history of an agent: its transcript, after its parent's up to where a fork began.
async fn history(
    shared: &Arc<ConversationShared>,
    entry: &AgentEntry,
    forked_from: Option<RecordId>,
) -> Result<Vec<Arc<lathe_protocol::record::Record>>, ToolError> {
    if shared.session.agents.writer.is_none() {
        return Err(ToolError::failed(
            "This session keeps no transcripts, so a finished agent can't be resumed. Start a new one.",
        ));
    }
    let own = shared.session.agents.paths.agent_transcript(&entry.id);
    let root = shared.root();
    let main = root.transcript.path().to_owned();
    if forked_from.is_some() {
        let _ = root.transcript.flush().await;
    }
    let loading = lathe_spawn::blocking(move || {
        let mut records = Vec::new();
        if let Some(record) = forked_from {
            records.extend(lathe_session::load_to(&main, record)?.chain_to(record)?);
        }
        records.extend(lathe_session::load_tail(&own)?.chain());
        Ok::<_, lathe_session::SessionError>(records)
    });
    loading
        .await
        .map_err(|error| ToolError::failed(format!("Its transcript can't be read: {error}.")))?
        .map_err(|error| ToolError::failed(format!("Its transcript can't be read: {error}.")))
}
