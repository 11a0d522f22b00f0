//! The file beside an agent's transcript: its identity and its state.
//!
//! The first fields have the names that SDK hosts read; the rest is ours. The file is written when the
//! agent starts and when it ends, whole each time, so that a session that is taken up after a crash
//! knows each agent's state.

use crate::agents::{AgentEntry, Agents};
use lathe_protocol::ids::{RecordId, ToolUseId};
use lathe_protocol::record::Record;
use lathe_tools::host::AgentStatus;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An agent's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta {
    pub(crate) agent_type: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_use_id: Option<ToolUseId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent_agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) prompt: String,
    #[serde(default)]
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) background: bool,
    /// Whether the model knows how it ended.
    #[serde(default)]
    pub(crate) known: bool,
    #[serde(default)]
    pub(crate) result: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worktree_path: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worktree_note: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) isolated: bool,
    /// The record that a fork continues from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forked_from: Option<RecordId>,
    #[serde(default)]
    pub(crate) total_tokens: u64,
    #[serde(default)]
    pub(crate) tool_uses: u64,
    #[serde(default)]
    pub(crate) duration_ms: u64,
}

impl Meta {
    pub(crate) fn of(entry: &AgentEntry) -> Self {
        let state = entry.state();
        let usage = entry.usage();
        Self {
            agent_type: entry.agent_type.clone(),
            description: entry.description.clone(),
            tool_use_id: entry.tool_use_id.clone(),
            parent_agent_id: entry.parent.as_ref().map(|id| id.0.clone()),
            name: entry.name.clone(),
            prompt: entry.prompt.clone(),
            status: state.status.word().to_owned(),
            background: entry.is_background(),
            known: entry.is_known(),
            result: state.result,
            model: state.model,
            worktree_path: state.worktree,
            worktree_note: state.worktree_note,
            isolated: state.isolated,
            forked_from: state.forked_from,
            total_tokens: usage.total_tokens,
            tool_uses: usage.tool_uses,
            duration_ms: usage.duration_ms,
        }
    }

    /// How it ended, as far as the file knows: one that worked when the process died was killed by that.
    pub(crate) fn status(&self) -> AgentStatus {
        match self.status.as_str() {
            "completed" => AgentStatus::Completed,
            "failed" => AgentStatus::Failed,
            _ => AgentStatus::Killed,
        }
    }
}

impl Agents {
    /// Keeps an agent's state. A full disk must not end an agent, so trouble is only noted.
    pub(crate) fn keep(&self, entry: &AgentEntry) {
        let Some(options) = &self.writer else { return };
        let meta = Meta::of(entry);
        let path = self.paths.agent_meta(&entry.id);
        let bytes = serde_json::to_vec(&meta).unwrap_or_default();
        if let Err(error) = lathe_session::paths::write_private_file(&path, &bytes) {
            tracing::warn!(%error, "an agent's state could not be kept");
        }
        if let Some(observer) = &options.observer
            && let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(&meta)
        {
            fields.insert("type".to_owned(), "agent_metadata".into());
            let record = Arc::new(Record::Other(fields.into()));
            observer(&self.paths.agent_transcript(&entry.id), &[record]);
        }
    }

    /// Writes to an agent's output.
    pub(crate) fn note_output(entry: &AgentEntry, text: &str) {
        Self::append_output(&entry.output_file, text);
    }

    /// The same by its file.
    pub(crate) fn append_output(file: &Path, text: &str) {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        if let Some(folder) = file.parent() {
            let _ = lathe_session::paths::create_private_folder(folder);
        }
        let written = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(file)
            .and_then(|mut file| file.write_all(format!("{}\n", text.trim_end()).as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, "an agent's output could not be written");
        }
    }
}
