//! The agents of a session that is taken up again.
//!
//! Their files say who they were and how they ended. One that worked when the process died was killed by
//! that; it can be woken with SendMessage like any other. What the model doesn't know yet comes with
//! the next words.

use crate::agents::disk::Meta;
use crate::agents::{AgentEntry, Agents, NewAgent};
use crate::context::git::Git;
use crate::worktree::{Conclusion, Worktree};
use lathe_protocol::ids::AgentId;
use lathe_tools::host::AgentStatus;
use std::fmt::Write as _;
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// Agents that are named one by one.
const MOST_NAMED: usize = 32;
/// How much of a result the model gets.
const MOST_RESULT: usize = 4_000;

impl Agents {
    /// Finds the agents of the session. Gives what the model should be told, if anything, and the number
    /// of agents that were interrupted. `was_told` says whether the conversation has an agent's end: the
    /// process may have died after that was written and before the agent's own file was.
    pub(crate) async fn restore(
        &self,
        results_folder: &Path,
        git: Option<&Git>,
        was_told: impl Fn(&AgentId) -> bool,
    ) -> (Option<String>, usize) {
        let mut found: Vec<(AgentId, Meta)> = Vec::new();
        for file in std::fs::read_dir(self.paths.subagents())
            .into_iter()
            .flatten()
        {
            let Ok(file) = file else { continue };
            let name = file.file_name().to_string_lossy().into_owned();
            let id = name
                .strip_prefix("agent-")
                .and_then(|rest| rest.strip_suffix(".meta.json"));
            let Some(id) = id else { continue };
            let Ok(bytes) = std::fs::read(file.path()) else {
                continue;
            };
            match serde_json::from_slice::<Meta>(&bytes) {
                Ok(meta) => found.push((AgentId::from(id), meta)),
                Err(error) => tracing::warn!(%error, id, "an agent's state can't be read"),
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let mut untold = Vec::new();
        let mut interrupted = 0;
        for (id, mut meta) in found {
            let learned = !meta.known && meta.status != "running" && was_told(&id);
            meta.known |= learned;
            let entry = self.take_up(id, &meta, results_folder);
            if learned {
                self.keep(&entry);
            }
            if meta.status == "running" {
                interrupted += 1;
                let note = match (&meta.worktree_path, git) {
                    (Some(path), Some(git)) => conclude(git, path).await,
                    _ => None,
                };
                let gone = meta
                    .worktree_path
                    .as_ref()
                    .is_some_and(|path| !path.exists());
                entry.update(|state| {
                    state.result = "It was interrupted when the session ended.".to_owned();
                    state.worktree_note = note;
                    if gone {
                        state.worktree = None;
                    }
                });
                self.keep(&entry);
            }
            if !meta.known && (meta.background || meta.status == "running") {
                untold.push(entry);
            }
        }
        let text = told(&untold);
        // They count as known when the model has been told: a session that ends before that tells again.
        *self.untold.lock() = untold;
        (text, interrupted)
    }

    fn take_up(
        &self,
        id: AgentId,
        meta: &Meta,
        results_folder: &Path,
    ) -> std::sync::Arc<AgentEntry> {
        let entry = AgentEntry::new(NewAgent {
            output_file: results_folder.join(format!("agent-{id}.output")),
            id,
            name: meta.name.clone(),
            agent_type: meta.agent_type.clone(),
            description: meta.description.clone(),
            prompt: meta.prompt.clone(),
            tool_use_id: meta.tool_use_id.clone(),
            parent: meta.parent_agent_id.clone().map(AgentId),
            background: meta.background,
            cancel: CancellationToken::new(),
            status: meta.status(),
        });
        entry.update(|state| {
            state.result.clone_from(&meta.result);
            state.model.clone_from(&meta.model);
            state.worktree.clone_from(&meta.worktree_path);
            state.worktree_note.clone_from(&meta.worktree_note);
            state.isolated = meta.isolated;
            state.forked_from = meta.forked_from;
            state.usage.total_tokens = meta.total_tokens;
            state.usage.tool_uses = meta.tool_uses;
            state.usage.duration_ms = meta.duration_ms;
        });
        entry.set_known(meta.known);
        self.remember(entry.clone());
        entry
    }
}

/// Removes the worktree of an interrupted agent if it has no changes; otherwise returns a note about it.
async fn conclude(git: &Git, path: &Path) -> Option<String> {
    match Worktree::find(git, path).await?.conclude(None).await {
        Conclusion::Removed => None,
        Conclusion::Kept(note) => Some(note),
    }
}

fn told(untold: &[std::sync::Arc<AgentEntry>]) -> Option<String> {
    if untold.is_empty() {
        return None;
    }
    let mut text =
        "Agents of this session that have not reported since it was interrupted:".to_owned();
    for entry in untold.iter().take(MOST_NAMED) {
        let view = entry.view();
        let _ = write!(
            text,
            "\n- {} ({}): {}.",
            entry.id,
            entry.description,
            view.status.word()
        );
        if view.status != AgentStatus::Killed && !view.result.is_empty() {
            let result: String = view.result.chars().take(MOST_RESULT).collect();
            let _ = write!(text, " Its result: {result}");
        }
        if let Some(note) = view.worktree {
            let _ = write!(text, " {note}");
        }
    }
    if untold.len() > MOST_NAMED {
        let _ = write!(text, "\n- and {} more.", untold.len() - MOST_NAMED);
    }
    text.push_str("\nSendMessage resumes one where it stopped.");
    Some(text)
}
