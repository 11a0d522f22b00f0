//! The files of a session: collected for an archive, and put in place from one.

use crate::archive::{Content, Manifest, TRANSCRIPT};
use crate::error::{Refusal, TeleportError};
use lathe_protocol::ids::SessionId;
use lathe_protocol::message::Message;
use lathe_protocol::record::{Fact, Record};
use lathe_session::paths::{create_private_folder, write_private_file};
use lathe_session::sanitize::{has_secret, sanitize, sanitize_value};
use lathe_session::{Loaded, RecordTemplate, SessionPaths, SessionStore};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// The mode that nothing brings along.
const BYPASS: &str = "bypassPermissions";

/// How secrets are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    /// Refuse to pack them.
    Refuse,
    /// Hide them in the conversation.
    Redact,
    /// Carry them.
    Carry,
}

/// Files with their names in an archive, and the names of those that were left out.
pub(crate) type Collected = (Vec<(String, Content)>, Vec<String>);

/// The files of a session for an archive, and the names of those with secrets that were left out.
pub(crate) fn collect(transcript: &Path, secrets: Secrets) -> Result<Collected, TeleportError> {
    let paths = SessionPaths::of_transcript(transcript);
    let mut found = vec![(TRANSCRIPT.to_owned(), transcript.to_owned())];
    for (folder, prefix) in [
        (paths.subagents(), "agents"),
        (paths.blobs(), "blobs"),
        (paths.tool_results(), "tool-results"),
    ] {
        found.extend(files_in(&folder, prefix)?);
    }
    if paths.notes().is_file() {
        found.push(("notes.md".to_owned(), paths.notes()));
    }
    let (mut contents, mut with_secrets, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for (name, path) in found {
        if secrets == Secrets::Carry {
            contents.push((name, Content::File(path)));
            continue;
        }
        let bytes = fs::read(&path).map_err(TeleportError::io("read", &path))?;
        let has = has_secret(&String::from_utf8_lossy(&bytes));
        match secrets {
            Secrets::Refuse if has => with_secrets.push(name),
            // Content that is named by its hash can't be changed.
            Secrets::Redact if has && name.starts_with("blobs/") => left_out.push(name),
            Secrets::Redact if !name.starts_with("blobs/") => {
                contents.push((name, Content::Bytes(redacted(&bytes))));
            }
            _ => contents.push((name, Content::Bytes(bytes))),
        }
    }
    if with_secrets.is_empty() {
        return Ok((contents, left_out));
    }
    with_secrets.truncate(5);
    Err(Refusal::Secrets(with_secrets).into())
}

fn files_in(folder: &Path, prefix: &str) -> Result<Vec<(String, PathBuf)>, TeleportError> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(TeleportError::io("read", folder))?;
        // Temporary files of a writer begin with a dot.
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() && !name.starts_with('.') {
            files.push((format!("{prefix}/{name}"), entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

/// A text without secrets. Lines of JSON stay lines of JSON.
fn redacted(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        match serde_json::from_str::<Value>(line) {
            Ok(mut value @ Value::Object(_)) => {
                sanitize_value(&mut value, None);
                if let Some(fields) = value.as_object_mut() {
                    // The line is another one now.
                    fields.shift_remove("latheLink");
                }
                lines.extend_from_slice(value.to_string().as_bytes());
                if line.ends_with('\n') {
                    lines.push(b'\n');
                }
            }
            _ => lines.extend_from_slice(sanitize(line, None).as_bytes()),
        }
    }
    lines
}

/// The lines that a session gets on arrival: where its folders are now, and what it does not bring along.
pub(crate) fn arrival(
    manifest: &Manifest,
    loaded: &Loaded,
    id: SessionId,
    root: &Path,
    cwd: &Path,
    branch: Option<&str>,
) -> Vec<Record> {
    let mut records = vec![Record::Fact(Fact::Roots {
        roots: json!({manifest.root.to_string_lossy(): root}),
        from: manifest.host.clone(),
        session_id: id,
    })];
    if loaded.facts.mode.as_deref() == Some(BYPASS) {
        records.push(Record::Fact(Fact::Mode {
            mode: "default".to_owned(),
            session_id: id,
        }));
    }
    if loaded
        .facts
        .worktree
        .as_ref()
        .is_some_and(|it| !it.is_null())
    {
        records.push(Record::Fact(Fact::WorktreeState {
            worktree_session: Value::Null,
            session_id: id,
        }));
    }
    let template = RecordTemplate {
        session_id: id,
        cwd: cwd.to_string_lossy().into_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git_branch: branch.unwrap_or_default().to_owned(),
        agent_id: None,
    };
    let text = format!(
        "<system-reminder>This session was moved from another machine. Paths below {} are below {} now; the working \
         folder is {}. Ignored files, running processes and background commands were not moved. Read files again before \
         relying on what you saw of things outside of the repository.</system-reminder>",
        manifest.root.display(),
        root.display(),
        cwd.display()
    );
    let mut note = template.user(loaded.tip(), Message::user(text));
    note.is_meta = true;
    records.push(Record::Message(Box::new(note)));
    records
}

/// Puts a session in place: everything that belongs to it first, the transcript last and at once.
pub(crate) fn install(
    from: &SessionPaths,
    to: &SessionPaths,
    arrival: &[Record],
) -> Result<(), TeleportError> {
    let (source, target) = (from.session_folder(), to.session_folder());
    create_private_folder(to.project_folder())?;
    for (folder, prefix) in [
        (from.blobs(), "blobs"),
        (from.subagents(), "subagents"),
        (from.tool_results(), "tool-results"),
    ] {
        for (name, path) in files_in(&folder, prefix)? {
            put(&path, &target.join(name))?;
        }
    }
    if source.join("notes.md").is_file() {
        put(&source.join("notes.md"), &to.notes())?;
    }
    let transcript = from.transcript();
    let mut lines = fs::read(&transcript).map_err(TeleportError::io("read", &transcript))?;
    if lines.last().is_some_and(|last| *last != b'\n') {
        lines.push(b'\n');
    }
    for record in arrival {
        // Records can be written as JSON.
        lines.extend(serde_json::to_vec(record).unwrap_or_default());
        lines.push(b'\n');
    }
    write_private_file(&to.transcript(), &lines)?;
    Ok(())
}

fn put(from: &Path, to: &Path) -> Result<(), TeleportError> {
    let content = fs::read(from).map_err(TeleportError::io("read", from))?;
    write_private_file(to, &content)?;
    Ok(())
}

/// A session of the same id that is here already may be replaced if it left from here and the arriving one continues
/// it. Gives its transcript.
pub(crate) fn replaceable(
    store: &SessionStore,
    id: SessionId,
    arriving: &Path,
) -> Result<Option<PathBuf>, TeleportError> {
    let Some(here) = store.find_anywhere(id) else {
        return Ok(None);
    };
    let refused = || Refusal::AlreadyHere(id.to_string());
    if here.moved.is_none() {
        return Err(refused().into());
    }
    let read = |path: &Path| fs::read(path).map_err(TeleportError::io("read", path));
    let (own, arriving) = (read(&here.path)?, read(arriving)?);
    let (mut at, mut stayed) = (0, own.len());
    for line in own.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(br#"{"type":"moved""#) {
            stayed = at;
        }
        at += line.len();
    }
    if arriving.starts_with(&own[..stayed]) {
        Ok(Some(here.path))
    } else {
        Err(refused().into())
    }
}
