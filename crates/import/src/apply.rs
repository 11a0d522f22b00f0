//! Carrying out a plan. Nothing that is there is replaced.

use crate::plan::{Action, Fate, Line, Plan, Report, Step};
use lathe_settings::document::Document;
use lathe_settings::patch::Edit;
use lathe_settings::write::{WriteError, write};
use lathe_settings::{KeyPath, Places, Source};
use serde_json::Value;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Why an import stopped. What was written before is whole, and an import can be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A settings file can't be changed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A server can't be added.
    #[error(transparent)]
    Server(#[from] lathe_mcp::config::edit::EditError),
    /// A file can't be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: std::io::Error,
    },
    /// A settings file of ours is broken.
    #[error("{} is broken, so nothing was imported into it: {message}", .path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Where and why.
        message: String,
    },
}

/// Whether something is there.
enum Present {
    No,
    Same,
    Other,
    /// A link in the project leads out of it.
    Astray,
}

/// Carries out a plan, or only says what it would do.
///
/// # Errors
/// When a file of ours is broken or can't be written.
pub fn apply(plan: &Plan, places: &Places, dry_run: bool) -> Result<Report, ImportError> {
    let mut lines = Vec::new();
    // In a dry run nothing is written, so what the plan says twice is remembered.
    let mut planned: Vec<&Action> = Vec::new();
    for step in &plan.steps {
        match step {
            Step::Say(line) => lines.push(line.clone()),
            Step::Do {
                what,
                fate,
                change,
                action,
            } => {
                let present = if planned.contains(&action) {
                    Present::Same
                } else {
                    look(action, places)?
                };
                planned.push(action);
                let (fate, why) = match present {
                    Present::Same => (Fate::There, String::new()),
                    Present::Other => (Fate::Left, elsewhere(action, plan)),
                    Present::Astray => (Fate::Left, ASTRAY.to_owned()),
                    Present::No => {
                        if !dry_run {
                            carry_out(action, places)?;
                        }
                        (*fate, change.clone())
                    }
                };
                lines.push(Line {
                    fate,
                    what: what.clone(),
                    why,
                });
            }
        }
    }
    Ok(Report {
        agent: plan.agent,
        lines,
    })
}

const ASTRAY: &str = "a link of the project leads out of it, so nothing is written there";

/// Whether a file of the project would be written somewhere else. A folder could link its own settings to the user's.
fn leads_out(path: &Path, places: &Places) -> bool {
    if !path.starts_with(&places.project) || path.starts_with(&places.config_home) {
        return false;
    }
    let Ok(real) = std::fs::canonicalize(&places.project) else {
        return true;
    };
    let there = path
        .ancestors()
        .find(|part| std::fs::symlink_metadata(part).is_ok());
    // A link to nothing can't be resolved.
    !there
        .and_then(|part| std::fs::canonicalize(part).ok())
        .is_some_and(|part| part.starts_with(real))
}

/// The file that an action writes.
fn target(action: &Action, places: &Places) -> Result<Option<PathBuf>, ImportError> {
    Ok(match action {
        Action::Set { source, .. } | Action::Add { source, .. } => places.written_file(*source),
        Action::Server { source, .. } => {
            Some(lathe_mcp::config::edit::file_of(places, scope(*source))?)
        }
        Action::File { path, .. } => Some(path.clone()),
    })
}

/// Why something is left for what is there.
fn elsewhere(action: &Action, plan: &Plan) -> String {
    match action {
        Action::Set { key, .. } => format!("your settings have another {key}"),
        Action::Add { .. } => "your settings have it".to_owned(),
        Action::Server { name, .. } => format!("there is another MCP server {name}"),
        Action::File { path, .. } => format!("{} has another content", plan.shown(path)),
    }
}

/// The file of a source as it is.
fn current(places: &Places, source: Source) -> Result<Value, ImportError> {
    let Some(path) = places.written_file(source) else {
        return Ok(Value::Null);
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) if text.trim().is_empty() => return Ok(Value::Null),
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Value::Null),
        Err(error) => return Err(ImportError::Io { path, error }),
    };
    match Document::parse(&text) {
        Ok(document) => Ok(document.value),
        Err(error) => Err(ImportError::Broken {
            path,
            message: format!("line {}: {}", error.position.line, error.message),
        }),
    }
}

fn at<'a>(value: &'a Value, key: &KeyPath) -> Option<&'a Value> {
    key.0.iter().try_fold(value, |value, part| value.get(part))
}

fn look(action: &Action, places: &Places) -> Result<Present, ImportError> {
    let compare = |found: Option<&Value>, wanted: &Value| match found {
        None => Present::No,
        Some(found) if found == wanted => Present::Same,
        Some(_) => Present::Other,
    };
    if target(action, places)?.is_some_and(|path| leads_out(&path, places)) {
        return Ok(Present::Astray);
    }
    Ok(match action {
        Action::Set { source, key, value } => compare(at(&current(places, *source)?, key), value),
        Action::Add { source, key, item } => {
            let found = current(places, *source)?;
            let list = at(&found, key).and_then(Value::as_array);
            if list.is_some_and(|list| list.contains(item)) {
                Present::Same
            } else {
                Present::No
            }
        }
        Action::Server {
            source,
            name,
            entry,
        } => {
            let file = lathe_mcp::config::edit::file_of(places, scope(*source))?;
            let found = match std::fs::read_to_string(&file) {
                Ok(text) => Document::parse(&text).map(|document| document.value).ok(),
                Err(_) => None,
            };
            let servers = found.as_ref().and_then(|found| found.get("mcpServers"));
            compare(servers.and_then(|servers| servers.get(name)), entry)
        }
        Action::File { path, text } => match std::fs::read(path) {
            Ok(bytes) if bytes == text.as_bytes() => Present::Same,
            Ok(_) => Present::Other,
            Err(error) if error.kind() == ErrorKind::NotFound => Present::No,
            Err(error) => {
                return Err(ImportError::Io {
                    path: path.clone(),
                    error,
                });
            }
        },
    })
}

fn scope(source: Source) -> lathe_mcp::config::Scope {
    if source == Source::User {
        lathe_mcp::config::Scope::User
    } else {
        lathe_mcp::config::Scope::Project
    }
}

fn carry_out(action: &Action, places: &Places) -> Result<(), ImportError> {
    match action {
        Action::Set { source, key, value } => {
            let edit = Edit::Set {
                key: key.clone(),
                value: value.clone(),
            };
            write(places, *source, &[edit], None)?;
        }
        Action::Add { source, key, item } => {
            let edit = Edit::Add {
                key: key.clone(),
                items: vec![item.clone()],
            };
            write(places, *source, &[edit], None)?;
        }
        // Not through `edit::add`: that would also approve the server of a project.
        Action::Server {
            source,
            name,
            entry,
        } => {
            let file = lathe_mcp::config::edit::file_of(places, scope(*source))?;
            let edit = Edit::Set {
                key: KeyPath(vec!["mcpServers".to_owned(), name.clone()]),
                value: entry.clone(),
            };
            let mode = if *source == Source::User {
                0o600
            } else {
                0o644
            };
            lathe_settings::write::write_file(&file, &[edit], mode, None)?;
        }
        Action::File { path, text } => create(path, text).map_err(|error| ImportError::Io {
            path: path.clone(),
            error,
        })?,
    }
    Ok(())
}

/// Writes a file that is not there yet, whole or not at all.
fn create(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    let unfinished = folder.join(format!(".import-{}", std::process::id()));
    let mut file = std::fs::File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&unfinished)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        // A link, unlike a rename, never replaces a file that came in between.
        .and_then(|()| std::fs::hard_link(&unfinished, path));
    let _ = std::fs::remove_file(&unfinished);
    written
}
