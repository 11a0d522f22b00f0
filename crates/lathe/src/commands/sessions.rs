//! `lathe sessions`.

use super::{exit_if, print};
use crate::arguments::{ExportFormat, RewindArguments, SearchArguments, SessionsCommand};
use crate::error::{CliError, Outcome};
use crate::in_runtime;
use lathe_session::checkpoint::{RewindMode, WriteGuard};
use lathe_session::cli::{self, Privacy, RewindWhat};
use lathe_session::export::ExportFormat as Format;
use lathe_session::link::Verification;
use lathe_session::search::{self, Query, QueryError};
use lathe_session::store::Scope;
use lathe_session::{SessionError, SessionStore, insights};
use lathe_settings::Environment;
use lathe_settings::paths::config_home;
use std::path::Path;

/// `lathe sessions`.
pub(crate) fn run(environment: &Environment, command: SessionsCommand) -> Outcome {
    let store = SessionStore::new(config_home(environment));
    let cwd = std::fs::canonicalize(&environment.cwd).unwrap_or_else(|_| environment.cwd.clone());
    let cwd = cwd.as_path();
    match command {
        SessionsCommand::List { all, json } => {
            let scope = if all {
                Scope::Everywhere
            } else {
                Scope::Project(cwd)
            };
            let sessions = cli::list(&store, scope, None);
            if json {
                return print(&cli::list_json(&sessions));
            }
            let width = terminal_width(environment);
            print(&cli::list_table(&sessions, width, jiff::Timestamp::now()))
        }
        SessionsCommand::Show { session, json } => {
            let detail = cli::show(&store, &session, cwd)?;
            print(&if json {
                cli::show_json(&detail)
            } else {
                cli::show_text(&detail)
            })
        }
        SessionsCommand::Export {
            session,
            format,
            output,
            sanitize,
        } => {
            let privacy = if sanitize {
                Privacy::Sanitized(environment.home.as_deref())
            } else {
                Privacy::Whole
            };
            let named = output.as_deref().map(Format::of_file);
            let format = format.map(Format::from).or(named);
            let format = format.unwrap_or(Format::Markdown);
            let text = cli::export(&store, &session, cwd, format, privacy)?;
            let Some(path) = output else {
                return print(&text);
            };
            write(&path, text)
        }
        SessionsCommand::Import { file } => {
            let id = lathe_session::import::import(&store, &environment.cwd.join(file), cwd)?;
            print(&format!("{id}\n"))
        }
        SessionsCommand::Verify { session, json } => {
            let found = cli::verify(&store, &session, cwd)?;
            print(&if json {
                cli::verify_json(&found)
            } else {
                found.iter().map(Verification::text).collect()
            })?;
            Ok(exit_if(found.iter().all(|it| it.findings.is_empty())))
        }
        SessionsCommand::Search(arguments) => search(environment, &store, cwd, arguments),
        SessionsCommand::Insights { here, after, html } => {
            let scope = if here {
                Scope::Project(cwd)
            } else {
                Scope::Everywhere
            };
            if let Some(day) = &after
                && day.parse::<jiff::civil::Date>().is_err()
            {
                return Err(CliError::usage(QueryError::NotADay(day.clone())).about("--after"));
            }
            let catalog = lathe_model::Catalog::built_in();
            let price = |model: &str, usage: &_| catalog.cost(model, usage);
            let insights = insights::gather(&store, scope, after.as_deref(), &price);
            let Some(path) = html else {
                return print(&insights.text(terminal_width(environment)));
            };
            write(&path, insights.html())
        }
        SessionsCommand::Delete { sessions, json } => print(&delete(&store, &sessions, cwd, json)?),
        SessionsCommand::Rename { session, title } => {
            let info = cli::rename(&store, &session, cwd, &title)?;
            print(&format!("{} {title}\n", info.id))
        }
        SessionsCommand::Tag { session, tag } => {
            let info = cli::tag(&store, &session, cwd, &tag)?;
            print(&format!("{} {tag}\n", info.id))
        }
        SessionsCommand::Rewind(arguments) => {
            let guard = guard(environment);
            in_runtime(rewind(&store, cwd, arguments, guard))
        }
    }
}

fn write(path: &Path, text: String) -> Outcome {
    std::fs::write(path, text).map_err(|error| {
        CliError::failure(format!("{} can't be written: {error}", path.display()))
    })?;
    Ok(exit_if(true))
}

/// `lathe sessions search`.
fn search(
    environment: &Environment,
    store: &SessionStore,
    cwd: &Path,
    arguments: SearchArguments,
) -> Outcome {
    // Filters may also stand among the words, as in the terminal.
    let typed = Query::parse(&arguments.words.join(" "));
    let folder = arguments.folder.or(typed.folder);
    let here = folder.as_deref() == Some(".");
    let query = Query {
        words: typed.words,
        folder: folder.filter(|_| !here),
        branch: arguments.branch.or(typed.branch),
        tag: arguments.tag.or(typed.tag),
        after: arguments.after.or(typed.after),
        before: arguments.before.or(typed.before),
        tool: arguments.tool.or(typed.tool),
        file: arguments.file.or(typed.file),
    };
    let scope = if here {
        Scope::Project(cwd)
    } else {
        Scope::Everywhere
    };
    let found = search::search(store, scope, &query, arguments.limit)
        .map_err(|error| CliError::usage(error.to_string()))?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&found).unwrap_or_default();
        return print(&(json + "\n"));
    }
    print(&search::text(&found, terminal_width(environment)))?;
    Ok(exit_if(!found.is_empty()))
}

/// Judges the files of a rewind as a session here would.
fn guard(environment: &Environment) -> WriteGuard {
    let context = std::sync::Arc::new(super::permissions::context_here(environment.clone()));
    lathe_engine::write_guard(move || context.clone())
}

/// `lathe sessions rewind`. Fails if files were left alone because they changed outside the session.
async fn rewind(
    store: &SessionStore,
    cwd: &Path,
    arguments: RewindArguments,
    guard: WriteGuard,
) -> Outcome {
    let what = match (arguments.files, arguments.conversation) {
        (true, false) => RewindWhat::Files,
        (false, true) => RewindWhat::Conversation,
        _ => RewindWhat::Both,
    };
    let mode = match (arguments.preview, arguments.force) {
        (true, _) => RewindMode::Preview,
        (_, true) => RewindMode::Overwrite,
        _ => RewindMode::Apply,
    };
    let session = &arguments.session;
    let done = cli::rewind(store, session, cwd, &arguments.to, what, mode, guard).await?;
    let has_conflicts = done
        .files
        .as_ref()
        .is_some_and(|files| !files.conflicts.is_empty());
    print(&if arguments.json {
        cli::rewind_json(&done)
    } else {
        cli::rewind_text(&done, mode)
    })?;
    Ok(exit_if(!(has_conflicts && mode == RewindMode::Apply)))
}

/// Deletes sessions; the first one that can't be deleted is the error.
fn delete(
    store: &SessionStore,
    sessions: &[String],
    cwd: &Path,
    json: bool,
) -> Result<String, SessionError> {
    // All are looked up first, so that a wrong name deletes nothing.
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

/// The number of columns that a table may have.
fn terminal_width(environment: &Environment) -> usize {
    environment
        .foreign("COLUMNS")
        .and_then(|text| text.parse().ok())
        .unwrap_or(120)
}

impl From<ExportFormat> for Format {
    fn from(format: ExportFormat) -> Self {
        match format {
            ExportFormat::Markdown => Self::Markdown,
            ExportFormat::Text => Self::Text,
            ExportFormat::Json => Self::Json,
            ExportFormat::Html => Self::Html,
        }
    }
}
