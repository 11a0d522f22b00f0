//! `lathe sessions`.

use super::print;
use crate::arguments::{ExportFormat, SessionsCommand};
use crate::{complain, in_runtime};
use lathe_headless::exit::Exit;
use lathe_session::checkpoint::RewindMode;
use lathe_session::cli::{self, RewindWhat};
use lathe_session::store::Scope;
use lathe_session::{SessionError, SessionStore};
use lathe_settings::Environment;
use lathe_settings::paths::config_home;

fn fail(error: &SessionError) -> Exit {
    complain(&match error.hint() {
        Some(hint) => format!("{error}\n  {hint}"),
        None => error.to_string(),
    });
    Exit::Failure
}

/// `lathe sessions`.
pub(crate) fn run(environment: &Environment, command: SessionsCommand) -> Exit {
    let store = SessionStore::new(config_home(environment));
    let cwd = std::fs::canonicalize(&environment.cwd).unwrap_or_else(|_| environment.cwd.clone());
    let cwd = cwd.as_path();
    let outcome = match command {
        SessionsCommand::List { all, json } => {
            let scope = if all {
                Scope::Everywhere
            } else {
                Scope::Project(cwd)
            };
            let sessions = cli::list(&store, scope, None);
            Ok(if json {
                cli::list_json(&sessions)
            } else {
                cli::list_table(
                    &sessions,
                    terminal_width(environment),
                    jiff::Timestamp::now(),
                )
            })
        }
        SessionsCommand::Show { session, json } => cli::show(&store, &session, cwd).map(|detail| {
            if json {
                cli::show_json(&detail)
            } else {
                cli::show_text(&detail)
            }
        }),
        SessionsCommand::Export {
            session,
            format,
            output,
        } => {
            let format = match format {
                ExportFormat::Markdown => lathe_session::export::ExportFormat::Markdown,
                ExportFormat::Text => lathe_session::export::ExportFormat::Text,
                ExportFormat::Json => lathe_session::export::ExportFormat::Json,
            };
            match (cli::export(&store, &session, cwd, format), output) {
                (Ok(text), Some(path)) => {
                    if let Err(error) = std::fs::write(&path, text) {
                        complain(&format!("{} can't be written: {error}", path.display()));
                        return Exit::Failure;
                    }
                    Ok(String::new())
                }
                (outcome, _) => outcome,
            }
        }
        SessionsCommand::Delete { sessions, json } => delete(&store, &sessions, cwd, json),
        SessionsCommand::Rename { session, title } => {
            cli::rename(&store, &session, cwd, &title).map(|info| format!("{} {title}\n", info.id))
        }
        SessionsCommand::Tag { session, tag } => {
            cli::tag(&store, &session, cwd, &tag).map(|info| format!("{} {tag}\n", info.id))
        }
        SessionsCommand::Rewind {
            session,
            to,
            files,
            conversation,
            preview,
            force,
            json,
        } => {
            let what = match (files, conversation) {
                (true, false) => RewindWhat::Files,
                (false, true) => RewindWhat::Conversation,
                _ => RewindWhat::Both,
            };
            let mode = match (preview, force) {
                (true, _) => RewindMode::Preview,
                (_, true) => RewindMode::Overwrite,
                _ => RewindMode::Apply,
            };
            let mut text = Err(None);
            let exit = in_runtime(async {
                match cli::rewind(&store, &session, cwd, &to, what, mode).await {
                    Ok(outcome) => {
                        let refused = mode == RewindMode::Apply
                            && outcome
                                .files
                                .as_ref()
                                .is_some_and(|files| !files.conflicts.is_empty());
                        text = Ok(if json {
                            cli::rewind_json(&outcome)
                        } else {
                            cli::rewind_text(&outcome, mode)
                        });
                        if refused {
                            Exit::Failure
                        } else {
                            Exit::Success
                        }
                    }
                    Err(error) => {
                        text = Err(Some(error));
                        Exit::Failure
                    }
                }
            });
            match text {
                Ok(text) => {
                    print(&text);
                    return exit;
                }
                Err(Some(error)) => Err(error),
                Err(None) => return exit,
            }
        }
    };
    match outcome {
        Ok(text) => print(&text),
        Err(error) => fail(&error),
    }
}

/// Deletes what can be deleted; the first that can't be is the error.
fn delete(
    store: &SessionStore,
    sessions: &[String],
    cwd: &std::path::Path,
    json: bool,
) -> Result<String, SessionError> {
    // Found first, so that a wrong name deletes nothing.
    for session in sessions {
        store.resolve(session, cwd)?;
    }
    let mut gone = Vec::new();
    for session in sessions {
        gone.push(cli::delete(store, session, cwd)?);
    }
    Ok(if json {
        cli::list_json(&gone)
    } else {
        gone.iter()
            .map(|info| format!("deleted {}\n", info.id))
            .collect()
    })
}

/// How many columns a table may have.
fn terminal_width(environment: &Environment) -> usize {
    environment
        .variable("COLUMNS")
        .and_then(|text| text.parse().ok())
        .unwrap_or(120)
}
