//! Forks: the same conversation so far, under a new id.
//!
//! The source isn't touched. Records keep their ids (they are the same messages, and checkpoints are
//! keyed by them) and say where they come from in `forkedFrom`. The totals of what the source has
//! cost stay with the source; its title is taken over with `(fork)` behind it.

use crate::chain;
use crate::error::SessionError;
use crate::link::linked;
use crate::load::{Loaded, load, load_tail};
use crate::paths::{SessionPaths, create_private_folder, write_private_file};
use lathe_protocol::ids::{RecordId, SessionId};
use lathe_protocol::record::{Fact, Record};
use serde_json::json;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Larger sources are forked from their last compaction on, which is all that continues.
const WHOLE_UP_TO: u64 = 64 << 20;

/// Copies the conversation of a transcript, up to and including a record or its tip, to a new
/// transcript.
///
/// # Errors
/// [`SessionError::AlreadyExists`] when the target is taken, [`SessionError::Empty`] when there is
/// nothing to fork, [`SessionError::NoSuchRecord`], or when files can't be read or written.
pub fn fork(
    source: &Path,
    target: &SessionPaths,
    new_id: SessionId,
    up_to: Option<RecordId>,
) -> Result<(), SessionError> {
    let transcript = target.transcript();
    if fs::metadata(&transcript).is_ok_and(|found| found.len() > 0) {
        return Err(SessionError::AlreadyExists {
            id: new_id.to_string(),
            path: transcript,
        });
    }
    let size = fs::metadata(source)
        .map_err(SessionError::io("read", source))?
        .len();
    let loaded = if size > WHOLE_UP_TO {
        load_tail(source)?
    } else {
        load(source)?
    };
    let lines = forked_lines(&loaded, new_id, up_to)?;
    link_blobs(
        &SessionPaths::of_transcript(source).blobs(),
        &target.blobs(),
    )?;
    write_private_file(&transcript, &linked(&lines))
}

fn forked_lines(
    loaded: &Loaded,
    new_id: SessionId,
    up_to: Option<RecordId>,
) -> Result<Vec<u8>, SessionError> {
    let tip = match up_to {
        Some(record) if loaded.message(record).is_none() => {
            return Err(loaded.no_such_record(record));
        }
        Some(record) => Some(record),
        None => loaded.tip(),
    };
    let wanted: HashSet<RecordId> = chain::history(&loaded.records, tip)
        .iter()
        .filter_map(|record| record.uuid())
        .collect();
    if wanted.is_empty() {
        return Err(SessionError::Empty {
            path: loaded.path.clone(),
        });
    }
    let source_id = loaded.session_id();
    let mut lines = Vec::new();
    let mut write = |record: &Record| {
        // Records came from JSON, so they can be written as JSON.
        if serde_json::to_writer(&mut lines, record).is_ok() {
            lines.push(b'\n');
        }
    };
    let mut written = HashSet::new();
    for record in &loaded.records {
        match &**record {
            Record::Message(message)
                if wanted.contains(&message.uuid) && written.insert(message.uuid) =>
            {
                let mut copy = message.clone();
                copy.session_id = new_id;
                copy.extra.insert(
                    "forkedFrom".to_owned(),
                    json!({"sessionId": source_id, "messageUuid": message.uuid}),
                );
                write(&Record::Message(copy));
            }
            Record::Fact(fact) => {
                if let Some(fact) = forked_fact(fact, new_id) {
                    write(&Record::Fact(fact));
                }
            }
            Record::Message(_) | Record::Other(_) => {}
        }
    }
    if let Some(title) = loaded.facts.title() {
        let custom_title = format!("{title} (fork)");
        write(&Record::Fact(Fact::CustomTitle {
            custom_title,
            session_id: new_id,
        }));
    }
    Ok(lines)
}

/// The facts that a fork takes over.
fn forked_fact(fact: &Fact, new_id: SessionId) -> Option<Fact> {
    match fact.clone() {
        Fact::Mode { mode, .. } => Some(Fact::Mode {
            mode,
            session_id: new_id,
        }),
        Fact::TodoList { todos, .. } => Some(Fact::TodoList {
            todos,
            session_id: new_id,
        }),
        Fact::Replacement {
            tool_use_id,
            replacement,
            ..
        } => Some(Fact::Replacement {
            tool_use_id,
            replacement,
            session_id: new_id,
        }),
        Fact::Pinned {
            tool_use_id,
            pinned,
            ..
        } => Some(Fact::Pinned {
            tool_use_id,
            pinned,
            session_id: new_id,
        }),
        Fact::Label { record, label, .. } => Some(Fact::Label {
            record,
            label,
            session_id: new_id,
        }),
        Fact::MediaDropped { media, .. } => Some(Fact::MediaDropped {
            media,
            session_id: new_id,
        }),
        Fact::SystemPrompt { system, .. } => Some(Fact::SystemPrompt {
            system,
            session_id: new_id,
        }),
        Fact::ModelChoice { model, effort, .. } => Some(Fact::ModelChoice {
            model,
            effort,
            session_id: new_id,
        }),
        Fact::WorktreeState {
            worktree_session, ..
        } => Some(Fact::WorktreeState {
            worktree_session,
            session_id: new_id,
        }),
        Fact::Goal { goal, .. } => Some(Fact::Goal {
            goal,
            session_id: new_id,
        }),
        Fact::Coordinator { on, .. } => Some(Fact::Coordinator {
            on,
            session_id: new_id,
        }),
        Fact::Roots { roots, from, .. } => Some(Fact::Roots {
            roots,
            from,
            session_id: new_id,
        }),
        fact @ Fact::FileHistorySnapshot { .. } => Some(fact),
        Fact::CustomTitle { .. }
        | Fact::AiTitle { .. }
        | Fact::Tag { .. }
        | Fact::LastPrompt { .. }
        | Fact::Summary { .. }
        | Fact::Rewound { .. }
        | Fact::Moved { .. }
        | Fact::WaitingPrompts { .. }
        | Fact::Cost { .. } => None,
    }
}

/// Gives the fork its own names for the stored content, so that deleting one session leaves the
/// other whole.
fn link_blobs(source: &Path, target: &Path) -> Result<(), SessionError> {
    let Ok(entries) = fs::read_dir(source) else {
        return Ok(());
    };
    create_private_folder(target)?;
    for entry in entries.filter_map(Result::ok) {
        let to = target.join(entry.file_name());
        if to.exists() {
            continue;
        }
        fs::hard_link(entry.path(), &to)
            .or_else(|_| fs::copy(entry.path(), &to).map(drop))
            .map_err(SessionError::io("copy", &to))?;
    }
    Ok(())
}
