//! Adds and removes servers in the files of a scope. Comments, order and other content stay
//! unchanged; writes are atomic and locked.

use super::choices::{ChoiceError, Choices};
use super::entry;
use super::load::Scope;
use lathe_settings::key::KeyPath;
use lathe_settings::patch::Edit;
use lathe_settings::write::{WriteError, write, write_file};
use lathe_settings::{Places, Source};
use serde_json::Value;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error(
        "{0:?} is not a valid server name: at most 64 characters, without `:`, `\\`, `__` and control characters"
    )]
    Name(String),
    /// The scope is not writable.
    #[error("Lathe doesn't write servers of the scope {0}; choose local, project or user")]
    Scope(Scope),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Choice(#[from] ChoiceError),
}

/// # Errors
/// If the scope is not writable.
pub fn file_of(places: &Places, scope: Scope) -> Result<PathBuf, EditError> {
    match scope {
        Scope::Project => Ok(places.project.join(".mcp.json")),
        Scope::User => places
            .written_file(Source::User)
            .ok_or(EditError::Scope(scope)),
        Scope::Local => places
            .written_file(Source::Local)
            .ok_or(EditError::Scope(scope)),
        other => Err(EditError::Scope(other)),
    }
}

/// Adds or replaces a server in the file of a scope, which approves it too.
///
/// # Errors
/// If the name is invalid, or the file can't be parsed or written.
pub fn add(places: &Places, scope: Scope, name: &str, entry: &Value) -> Result<PathBuf, EditError> {
    if !entry::is_name(name) {
        return Err(EditError::Name(name.to_owned()));
    }
    let edit = Edit::Set {
        key: key(name),
        value: entry.clone(),
    };
    let file = change(places, scope, edit)?.0;
    let choices = Choices::new(places);
    choices.forget(name)?;
    match scope {
        Scope::Project => choices.decide(name, entry, true)?,
        Scope::Local => choices.own(name, entry)?,
        _ => {}
    }
    Ok(file)
}

/// Removes a server from the file of a scope. Returns the file, and whether the server was there.
///
/// # Errors
/// If the file can't be parsed or written.
pub fn remove(places: &Places, scope: Scope, name: &str) -> Result<(PathBuf, bool), EditError> {
    let (file, changed) = change(places, scope, Edit::Unset { key: key(name) })?;
    if changed {
        Choices::new(places).forget(name)?;
    }
    Ok((file, changed))
}

fn key(name: &str) -> KeyPath {
    KeyPath(vec!["mcpServers".to_owned(), name.to_owned()])
}

fn change(places: &Places, scope: Scope, edit: Edit) -> Result<(PathBuf, bool), EditError> {
    let removes = matches!(edit, Edit::Unset { .. });
    let file = file_of(places, scope)?;
    if removes && !file.exists() {
        return Ok((file, false));
    }
    let written = match scope {
        Scope::User => write(places, Source::User, &[edit], None)?,
        Scope::Local => write(places, Source::Local, &[edit], None)?,
        _ => write_file(&file, &[edit], 0o644, None)?,
    };
    Ok((written.file, written.changed))
}
