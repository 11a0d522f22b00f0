//! Runs each built-in command and makes its answer.

use crate::goal;
use crate::lists::{
    agents_text, context_text, cost_text, help_text, hooks_text, memory_text, permissions_text,
    servers_text, skills_text, stats_text, status_text, tasks_text, todos_text,
};
use crate::loops;
use crate::review;
use crate::workflows;
use crate::{CommandError, CommandOutcome, diagnose_session};
use lathe_doctor::TerminalFacts;
use lathe_engine::context::git::GitError;
use lathe_engine::{SessionHandle, SwitchSource};
use lathe_protocol::command::BuiltinCommand;
use lathe_protocol::permission::PermissionMode;
use lathe_session::export::ExportFormat;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The changelog.
const CHANGES: &str = include_str!("../../../CHANGELOG.md");
/// Lines of a difference that are shown.
const MOST_LINES: usize = 400;

/// Answers every built-in command: the one exhaustive match.
pub(crate) async fn answer(
    session: &SessionHandle,
    command: BuiltinCommand,
    arguments: &str,
) -> Result<CommandOutcome, CommandError> {
    use BuiltinCommand as C;
    let answer = match command {
        C::Clear => return Ok(CommandOutcome::Clear),
        C::Compact => {
            let instructions = Some(arguments.to_owned()).filter(|words| !words.is_empty());
            return Ok(CommandOutcome::Compact(instructions));
        }
        C::Help => help_text(session, arguments)?,
        C::Context => context_text(session),
        C::Cost => cost_text(session),
        C::Stats => stats_text(session),
        C::Config => config_text(session, arguments)?,
        C::Model => model_text(session, arguments).await,
        C::Fallback => fallback_text(session, arguments),
        C::Effort => effort_text(session, arguments)?,
        C::Permissions => permissions_text(session),
        C::Mode => mode_text(session, arguments)?,
        C::Plan => mode_text(session, "plan")?,
        C::Sandbox => sandbox_text(session, arguments)?,
        C::Hooks => hooks_text(session),
        C::Mcp => servers_text(session),
        C::Agents => agents_text(session),
        C::Skills => skills_text(session),
        C::Plugin => lathe_extensions::plugins::cli::list(&session.plugins().loaded()),
        C::ReloadPlugins => reload_plugins_text(session),
        C::Tools => session.context().tool_names().join(", "),
        C::Memory => memory_text(session),
        C::OutputStyle => style_text(session, arguments)?,
        C::Rename => rename_text(session, arguments)?,
        C::Tag => tag_text(session, arguments)?,
        C::Diff => diff_text(session).await?,
        C::Export => export_text(session, arguments).await?,
        C::AddDir => add_folder_text(session, arguments)?,
        C::Cd => change_folder_text(session, arguments)?,
        C::Tasks => tasks_text(session),
        C::Todos => todos_text(session),
        C::Loop => loops::start(session, arguments)?,
        C::Loops => loops::list(session, arguments)?,
        C::Goal => goal::answer(session, arguments)?,
        C::Coordinator => coordinator_text(session, arguments)?,
        C::Workflows => workflows::answer(session, arguments)?,
        C::CodeReview => review::start(session, arguments)?,
        C::Status => status_text(session),
        C::Doctor => Box::pin(diagnose_session(session, TerminalFacts::default()))
            .await
            .to_text(),
        C::Version => format!("lathe {}", env!("CARGO_PKG_VERSION")),
        C::ReleaseNotes => release_notes(),
        C::ReloadSkills => {
            session.extensions().reload(None);
            format!(
                "Reloaded: {}",
                counted(session.extensions().skills().len(), "skill")
            )
        }
        C::Resume => {
            return needs_terminal(command, "Start with --resume or --continue instead.");
        }
        C::Fork => {
            return needs_terminal(command, "Start with --resume and --fork-session instead.");
        }
        C::Login | C::Logout => {
            return needs_terminal(
                command,
                "The key comes from ANTHROPIC_API_KEY or apiKeyHelper in settings.json.",
            );
        }
        C::Statusline => {
            return needs_terminal(command, "Set statusLine in settings.json instead.");
        }
        C::Theme | C::Vim => {
            return needs_terminal(command, "Set it with `lathe config set` instead.");
        }
        C::Rewind
        | C::Queue
        | C::FewerPermissionPrompts
        | C::Copy
        | C::Btw
        | C::Tree
        | C::Insights
        | C::Ide
        | C::Feedback
        | C::Exit
        | C::Bg => {
            return needs_terminal(command, "");
        }
    };
    Ok(CommandOutcome::Answer(answer))
}

fn reload_plugins_text(session: &SessionHandle) -> String {
    let plugins = session.plugins().reload();
    let remarks: Vec<String> = plugins.remarks().iter().map(ToString::to_string).collect();
    format!(
        "Reloaded: {}\n{}",
        counted(plugins.plugins.len(), "plugin"),
        remarks.join("\n")
    )
}

fn coordinator_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let tasks = session.tasks();
    let on = match arguments.trim() {
        "" => {
            return Ok(if tasks.coordinates() {
                "Coordinator mode is on: the main conversation only directs workers. /coordinator off ends it."
            } else {
                "Coordinator mode is off. /coordinator on lets the main conversation only direct workers."
            }
            .to_owned());
        }
        "on" => true,
        "off" => false,
        _ => {
            return Err(CommandError::MissingArgument {
                command: BuiltinCommand::Coordinator,
                what: "state, on or off",
            });
        }
    };
    tasks.coordinate(on).map_err(CommandError::session)?;
    Ok(if on {
        "Coordinator mode is on: from the next step on, the main conversation only directs workers."
    } else {
        "Coordinator mode is off: the main conversation has its tools again."
    }
    .to_owned())
}

async fn model_text(session: &SessionHandle, arguments: &str) -> String {
    if arguments.is_empty() {
        let known: Vec<String> = session
            .model()
            .known()
            .into_iter()
            .map(|(name, words)| format!("  {name}: {words}"))
            .collect();
        return format!(
            "The model is {}.\n{}",
            session.model().current(),
            known.join("\n")
        );
    }
    let name = Some(arguments).filter(|name| *name != "default");
    match session.model().switch(name, SwitchSource::Command).await {
        Ok(model) => format!("The model is now {model}."),
        Err(refused) => format!("The model stays as it was: {refused}."),
    }
}

fn fallback_text(session: &SessionHandle, arguments: &str) -> String {
    let models = match arguments {
        "" => Ok(session.model().fallbacks()),
        "off" | "none" => session.model().set_fallbacks([]),
        names => {
            let names = names.split([',', ' ']).filter(|name| !name.is_empty());
            session.model().set_fallbacks(names)
        }
    };
    match models {
        Err(refused) => format!("Nothing was changed: {refused}."),
        Ok(models) if models.is_empty() => "No fallback model is set. /fallback <model> sets one for this session, fallbackModel in settings.json for all.".to_owned(),
        Ok(models) => format!(
            "{} is used when the model is overloaded or does not answer.",
            models.join(", then ")
        ),
    }
}

fn effort_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    if !arguments.is_empty() && session.model().set_effort(Some(arguments)).is_ok() {
        return Ok(format!("The effort is {arguments} from now on."));
    }
    let tokens = match arguments {
        "" => {
            return Ok(match session.model().effort() {
                Some(effort) => format!("The effort is {effort}."),
                None => "The model's default effort is used. Set it with /effort low, medium, high, xhigh or max; /effort <tokens> limits thinking, /effort off disables it.".to_owned(),
            });
        }
        "off" => Some(0),
        "default" => {
            session
                .model()
                .set_effort(None)
                .map_err(CommandError::session)?;
            None
        }
        word => {
            let number = word.replace(['_', ','], "").parse::<u32>();
            Some(number.map_err(|_| CommandError::UnknownEffort {
                word: word.to_owned(),
            })?)
        }
    };
    session.model().set_max_thinking_tokens(tokens);
    Ok(match tokens {
        None => "Effort and thinking are reset to the start of the session.".to_owned(),
        Some(0) => "Thinking is off.".to_owned(),
        Some(tokens) => format!("The thinking budget is {tokens} tokens."),
    })
}

fn mode_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    if arguments.is_empty() {
        let modes: Vec<&str> = PermissionMode::ALL.iter().map(|mode| mode.name()).collect();
        return Ok(format!(
            "The permission mode is {}. Modes: {}.",
            session.permissions().mode().name(),
            modes.join(", ")
        ));
    }
    let mode: PermissionMode = arguments.parse().map_err(CommandError::session)?;
    session
        .permissions()
        .set_mode(mode)
        .map_err(CommandError::session)?;
    Ok(format!("The permission mode is now {}.", mode.name()))
}

fn config_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let settings = session.settings().json();
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    if arguments.is_empty() {
        return Ok(pretty(&settings));
    }
    if let Some((key, value)) = arguments.split_once('=') {
        let (key, value) = (key.trim(), value.trim());
        let mut steps = key.split('.').rev();
        let mut value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        let first = loop {
            match steps.next() {
                Some(step) if steps.clone().next().is_some() => {
                    value = serde_json::json!({step: value});
                }
                step => break step.unwrap_or_default(),
            }
        };
        check_key(first)?;
        let mut changes = Map::new();
        changes.insert(first.to_owned(), value);
        session
            .settings()
            .change_flags(&changes)
            .map_err(CommandError::session)?;
        return Ok(format!(
            "{key} is set for this session. `lathe config set` keeps it."
        ));
    }
    let pointer = format!("/{}", arguments.replace('.', "/"));
    settings.pointer(&pointer).map(pretty).ok_or_else(|| {
        match check_key(arguments.split('.').next().unwrap_or_default()) {
            Ok(()) => CommandError::NotSet {
                key: arguments.to_owned(),
            },
            Err(error) => error,
        }
    })
}

/// A setting, or the text for its absence.
/// The state of the sandbox in this session, after switching it if requested.
fn sandbox_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let permissions = session.permissions();
    match arguments.trim() {
        "" => {}
        "on" => permissions.switch_sandbox(true),
        "off" => permissions.switch_sandbox(false),
        _ => {
            return Err(CommandError::MissingArgument {
                command: BuiltinCommand::Sandbox,
                what: "state, on or off",
            });
        }
    }
    Ok(permissions.sandbox_text())
}

fn style_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    if !arguments.is_empty() {
        let name = session
            .extensions()
            .set_output_style(arguments)
            .map_err(CommandError::session)?;
        return Ok(format!(
            "The output style is {name} from the next turn on. outputStyle in settings.json keeps it."
        ));
    }
    let (styles, chosen) = session.extensions().output_styles();
    let lines: Vec<String> = styles
        .iter()
        .map(|style| {
            let mark = if style.name == chosen { "*" } else { " " };
            format!("{mark} {}: {}", style.name, style.description)
        })
        .collect();
    Ok(lines.join("\n"))
}

fn rename_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    if arguments.is_empty() {
        return Err(CommandError::MissingArgument {
            command: BuiltinCommand::Rename,
            what: "title",
        });
    }
    session.history().rename(arguments);
    Ok(format!("The session is now named {arguments:?}."))
}

fn tag_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let is_tag = !arguments.is_empty() && !arguments.contains(char::is_whitespace);
    if !is_tag {
        return Err(CommandError::NoTag);
    }
    session.history().tag(arguments);
    Ok(format!("The session has the tag {arguments:?} now."))
}

async fn diff_text(session: &SessionHandle) -> Result<String, CommandError> {
    let git = session.context().git().map_err(GitError::from)?;
    let status = git.run(&["status", "--short"]).await?;
    if status.trim().is_empty() {
        return Ok("No changes.".to_owned());
    }
    // A repository without a commit has nothing to compare with.
    let difference = git
        .run(&["diff", "--no-ext-diff", "--no-textconv", "HEAD"])
        .await
        .unwrap_or_default();
    let lines: Vec<&str> = difference.lines().collect();
    let shown = lines[..lines.len().min(MOST_LINES)].join("\n");
    let rest = match lines.len().saturating_sub(MOST_LINES) {
        0 => String::new(),
        more => format!("\n({more} more lines)"),
    };
    Ok(format!("{status}\n{shown}{rest}"))
}

async fn export_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let transcript = session.transcript().to_owned();
    let name = if arguments.is_empty() {
        let id = session.session_id().to_string();
        format!("conversation-{}.md", id.chars().take(8).collect::<String>())
    } else {
        arguments.to_owned()
    };
    let target = session.context().resolve_path(&name);
    let format = ExportFormat::of_file(&target);
    session.history().flush().await?;
    let written = lathe_spawn::blocking(move || {
        let info = lathe_session::store::info(&transcript).ok_or(CommandError::NothingToExport)?;
        let loaded = lathe_session::load(&transcript)?;
        let text = lathe_session::export::export(&info, &loaded, format);
        match std::fs::write(&target, text) {
            Ok(()) => Ok(target),
            Err(source) => Err(CommandError::Write {
                path: target,
                source,
            }),
        }
    });
    let target = written.await.map_err(CommandError::session)??;
    Ok(format!("Written to {}.", target.display()))
}

fn add_folder_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let folder = folder_of(session, BuiltinCommand::AddDir, arguments)?;
    session.permissions().add_root(&folder, "slash_command");
    Ok(format!(
        "{} is now a working folder of this session.",
        folder.display()
    ))
}

fn change_folder_text(session: &SessionHandle, arguments: &str) -> Result<String, CommandError> {
    let folder = folder_of(session, BuiltinCommand::Cd, arguments)?;
    if !session
        .permissions()
        .roots()
        .iter()
        .any(|root| folder.starts_with(root))
    {
        return Err(CommandError::OutsideRoots { path: folder });
    }
    session.context().set_working_folder(folder.clone());
    Ok(format!("The working folder is {} now.", folder.display()))
}

fn folder_of(
    session: &SessionHandle,
    command: BuiltinCommand,
    arguments: &str,
) -> Result<PathBuf, CommandError> {
    if arguments.is_empty() {
        return Err(CommandError::MissingArgument {
            command,
            what: "folder",
        });
    }
    let path = session.context().resolve_path(arguments);
    match std::fs::canonicalize(&path) {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(path) => Err(CommandError::NotAFolder { path }),
        Err(source) => Err(CommandError::Folder { path, source }),
    }
}

/// Refuses a command that only a terminal can run, and names the alternative.
fn needs_terminal(
    command: BuiltinCommand,
    instead: &'static str,
) -> Result<CommandOutcome, CommandError> {
    Err(CommandError::NeedsTerminal { command, instead })
}

/// Whether settings have a key.
fn check_key(key: &str) -> Result<(), CommandError> {
    let known = lathe_settings::schema::json_schema()["properties"].as_object();
    let names = || known.into_iter().flatten().map(|(name, _)| name.as_str());
    if names().any(|name| name == key) {
        return Ok(());
    }
    Err(CommandError::UnknownSetting {
        key: key.to_owned(),
        near: lathe_settings::nearest::nearest(key, names()).map(str::to_owned),
    })
}

/// The newest part of the list of changes.
fn release_notes() -> String {
    let mut sections = CHANGES.split("\n## ").skip(1);
    let newest = sections.next().unwrap_or_default().trim();
    format!("# Lathe {}\n\n## {newest}", env!("CARGO_PKG_VERSION"))
}

/// `1 skill`, `2 skills`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 {
        format!("1 {what}.")
    } else {
        format!("{count} {what}s.")
    }
}
