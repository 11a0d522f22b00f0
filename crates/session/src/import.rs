//! Taking in a session from elsewhere: a transcript of JSON lines, or an export as JSON.

use crate::error::SessionError;
use crate::line::{Line, LineReader};
use crate::link::linked;
use crate::paths::{create_private_folder, write_private_file};
use crate::store::SessionStore;
use lathe_protocol::ids::SessionId;
use lathe_protocol::record::Record;
use serde_json::Value;
use std::path::Path;

/// Copies a session into the project of `cwd`. It keeps its id unless another session has it.
///
/// # Errors
/// If the file can't be read or holds no conversation, or the copy can't be written.
pub fn import(store: &SessionStore, file: &Path, cwd: &Path) -> Result<SessionId, SessionError> {
    let bytes = std::fs::read(file).map_err(SessionError::io("read", file))?;
    let mut records = records(file, &bytes);
    let own = records.iter().find_map(|record| match record {
        Record::Message(message) => Some(message.session_id),
        _ => None,
    });
    let own = own.ok_or_else(|| SessionError::Empty {
        path: file.to_owned(),
    })?;
    let id = if store.find_anywhere(own).is_some() {
        SessionId::random()
    } else {
        own
    };
    let mut lines = Vec::new();
    for record in &mut records {
        if let Record::Message(message) = record {
            message.session_id = id;
            message.cwd = cwd.to_string_lossy().into_owned();
        }
        // Records came from JSON, so they can be written as JSON.
        let mut value = serde_json::to_value(&*record).unwrap_or_default();
        if let Some(session) = value.get_mut("sessionId") {
            *session = Value::from(id.to_string());
        }
        lines.extend_from_slice(value.to_string().as_bytes());
        lines.push(b'\n');
    }
    let paths = store.paths(cwd, id);
    create_private_folder(paths.project_folder())?;
    write_private_file(&paths.transcript(), &linked(&lines))?;
    Ok(id)
}

/// The records of a file: of an export, or of its lines. Lines that hold none are left out.
fn records(file: &Path, bytes: &[u8]) -> Vec<Record> {
    if let Ok(Value::Object(mut export)) = serde_json::from_slice::<Value>(bytes)
        && let Some(Value::Array(messages)) = export.remove("messages")
    {
        return messages.into_iter().map(Record::from_value).collect();
    }
    let mut reader = LineReader::new(file);
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| match reader.read(line) {
            Line::Record(record) | Line::Salvaged(record, _) => Some(record),
            Line::Blank | Line::Damaged(_) => None,
        })
        .collect()
}
