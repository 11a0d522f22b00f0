//! Adds and removes servers in the files of a scope. Comments, order and everything else in a file stay
//! as they are, writing is atomic and locked.

use super::choices::{ChoiceError, Choices};
use super::entry;
use super::load::Scope;
use lathe_settings::key::KeyPath;
use lathe_settings::patch::Edit;
use lathe_settings::write::{WriteError, write, write_file};
use lathe_settings::{Places, Source};
use serde_json::Value;
use std::path::PathBuf;

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The name can't be used.
    #[error("{0:?} can't be a server's name: letters, digits, `_` and `-`, at most 64")]
    Name(String),
    /// The scope has no file that we write.
    #[error("servers of the scope {0} are not written by Lathe; choose local, project or user")]
    Scope(Scope),
    /// The file.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What is remembered about the folder.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
}

/// The file of a scope.
///
/// # Errors
/// When the scope has no file that we write.
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

/// Puts a server into the file of a scope, in place of one with the same name. Whoever adds a server to
/// the folder has approved it by that.
///
/// # Errors
/// When the name can't be used, the file is broken, or can't be written.
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

/// Takes a server out of the file of a scope. Gives the file, and whether the server was there.
///
/// # Errors
/// When the file is broken or can't be written.
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
