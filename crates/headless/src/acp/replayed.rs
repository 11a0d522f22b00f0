//! A conversation that is loaded: its records in the order in which they happened, those of agents inside the calls
//! that ran them.

use lathe_protocol::content::ContentBlock;
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::record::{MessageRecord, Record, RecordMessage};
use lathe_session::Loaded;
use lathe_session::paths::SessionPaths;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A record of a conversation that is loaded.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The record.
    pub record: MessageRecord,
    /// The call of the agent that it belongs to.
    pub parent: Option<ToolUseId>,
}

impl From<MessageRecord> for Replayed {
    fn from(record: MessageRecord) -> Self {
        Self {
            record,
            parent: None,
        }
    }
}

/// The part of an agent's file that says which call ran it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    tool_use_id: Option<ToolUseId>,
}

/// The messages of a resumed session. What can't be read is left out.
pub(super) fn conversation(history: Loaded, transcript: &Path) -> Vec<Replayed> {
    let Ok(loaded) = history.whole() else {
        return Vec::new();
    };
    let mut agents = agents(&SessionPaths::of_transcript(transcript).subagents());
    let mut all = Vec::new();
    weave(messages(&loaded, false), None, &mut agents, &mut all);
    all
}

/// The transcripts of a session's agents, by the call that ran each.
fn agents(folder: &Path) -> HashMap<ToolUseId, PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let path = entry.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".meta.json")?;
            let meta: Meta = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
            Some((
                meta.tool_use_id?,
                path.with_file_name(format!("{name}.jsonl")),
            ))
        })
        .collect()
}

fn messages(loaded: &Loaded, of_agent: bool) -> Vec<MessageRecord> {
    let history = loaded.history().into_iter();
    history
        .filter_map(|record| match &*record {
            Record::Message(message) if of_agent || !message.is_sidechain => {
                Some((**message).clone())
            }
            _ => None,
        })
        .collect()
}

/// Puts the records of agents before the results of the calls that ran them. Each agent is shown once.
fn weave(
    records: Vec<MessageRecord>,
    parent: Option<&ToolUseId>,
    agents: &mut HashMap<ToolUseId, PathBuf>,
    all: &mut Vec<Replayed>,
) {
    for record in records {
        let blocks = record.message.as_ref().map(RecordMessage::blocks);
        let results = blocks.iter().flat_map(|blocks| blocks.iter());
        let calls: Vec<ToolUseId> = results
            .filter_map(ContentBlock::as_tool_result)
            .map(|result| result.tool_use_id.clone())
            .collect();
        for call in calls {
            let Some(transcript) = agents.remove(&call) else {
                continue;
            };
            if let Ok(loaded) = lathe_session::load::load(&transcript) {
                weave(messages(&loaded, true), Some(&call), agents, all);
            }
        }
        all.push(Replayed {
            record,
            parent: parent.cloned(),
        });
    }
}
