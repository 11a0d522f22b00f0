//! The interactive terminal: `lathe` without `-p`.
//!
//! | folder | contents |
//! |---|---|
//! | `terminal/` | modes that are restored on every way out, bytes to keys, the inline screen and the alternate screen |
//! | `render/` | from state to lines: Markdown, code, diffs, cells of the conversation, the live area; pure |
//! | `prompt/` | the editor with vim keys, key bindings, completion, history, draft, suggestions |
//! | `layers/` | everything that opens above the prompt: dialogs, questions, pages, the transcript |
//! | `commands/` | the slash commands, one file each |
//! | `app/` | the loop, and the parts it drives: engine, session, conversation, queue, screen, settings |
//! | `plain/` | the line mode where nothing can be drawn: `TERM=dumb`, a pipe, a screen reader |
//!
//! The prompt is painted before anything is loaded: settings, trust and the session are loaded in the
//! background, and prompts that are entered meanwhile wait for them. Start with [`run`], then `app/mod.rs`.
#![forbid(unsafe_code)]

mod app;
mod commands;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod layers;
mod plain;
mod prompt;
mod render;
mod terminal;

pub use crate::app::hosting::{Announce, Hosting};
use crate::app::{App, Leave};
use crate::render::style;
use crate::terminal::inline_screen;
use futures::FutureExt as _;
use lathe_engine::{Answerer, EndReason, SessionOptions};
use lathe_protocol::op::Op;
use lathe_settings::{Environment, Variable};
use std::io::IsTerminal as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

/// How long a session may take to end after a crash.
const SHUTDOWN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// How long clients may take to read that the session is over.
const CLOSING: std::time::Duration = std::time::Duration::from_millis(500);

/// The files with prompts of a project that were typed and not sent.
#[must_use]
pub fn draft_files(config_home: &Path, project: &Path) -> Vec<PathBuf> {
    prompt::draft::Draft::files(config_home, project)
}

/// How many prompts of a project the history has; `forget` removes them.
///
/// # Errors
/// If the history can't be written.
pub fn history_of(config_home: &Path, project: &Path, forget: bool) -> std::io::Result<usize> {
    prompt::history::of_project(config_home, project, forget)
}

/// How the terminal session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The user left.
    Left,
    /// SIGTERM or SIGHUP.
    Terminated,
    /// There is no key for the model API.
    NoCredentials(String),
    /// The command line is wrong.
    Usage(String),
    /// Something failed.
    Failed(String),
    /// The user chose another command of the program.
    Run(&'static str),
}

/// How it is to be opened.
#[derive(Debug, Default)]
pub struct TerminalOptions {
    /// A first prompt, sent as soon as the session is open.
    pub prompt: Option<String>,
    /// Choose a session from a list first.
    pub pick_session: bool,
    /// Plain lines instead of a drawn screen, for screen readers.
    pub screen_reader: bool,
    /// How the session is reached from elsewhere; not in plain lines.
    pub hosting: Option<Hosting>,
}

/// Whether an environment asks for plain lines, where nothing is drawn.
#[must_use]
pub fn is_plain(environment: &Environment) -> bool {
    let dumb = environment
        .foreign("TERM")
        .is_none_or(|term| term == "dumb" || term.is_empty());
    dumb || environment.is_on(Variable::ScreenReader)
}

/// Opens the interactive terminal and returns when the user leaves.
pub async fn run(
    environment: Environment,
    mut options: SessionOptions,
    terminal_options: TerminalOptions,
) -> Ended {
    options.permissions.answerer = Answerer::Face;
    let in_background = terminal_options.hosting.as_ref();
    let in_background = in_background.is_some_and(|hosting| hosting.console.is_some());
    let plain = terminal_options.screen_reader || is_plain(&environment);
    if (plain && !in_background)
        || !std::io::stdin().is_terminal()
        || !std::io::stdout().is_terminal()
    {
        return plain::run(environment, options, terminal_options.prompt).await;
    }
    terminal::panic_guard::install();
    if let Err(error) = terminal::enter() {
        return Ended::Failed(format!("can't use the terminal: {error}"));
    }
    let mut app = App::new(environment, options, terminal_options.prompt);
    let (inputs, control) = match terminal::start_reader() {
        Ok(started) => started,
        Err(error) => {
            terminal::restore();
            return Ended::Failed(format!("can't read keys: {error}"));
        }
    };
    app.screen.reader = Some(control);
    app.engine.hosting = terminal_options.hosting;
    app.engine.pick_session = terminal_options.pick_session;
    let outcome = AssertUnwindSafe(app.run(inputs)).catch_unwind().await;
    let Ok(leave) = outcome else {
        return crashed(&mut app).await;
    };
    leave_screen(&mut app);
    app.prompt.suggestion.cancel();
    app.alarms.away.cancel();
    if app.engine.opening {
        // The one before it is being ended by the same job, and its own start hooks may have run.
        let opened = app.jobs.opened();
        let opened = tokio::time::timeout(SHUTDOWN_TIMEOUT, opened).await;
        app.engine.handle = opened.ok().flatten();
    }
    if let Some(session) = app.engine.handle.take() {
        if leave == Leave::Asked {
            session.ends_by(EndReason::PromptInputExit);
        }
        session.send(Op::Interrupt { drop_queued: true });
        session.finish().await;
    }
    if let Some(hosting) = app.engine.hosting.take() {
        hosting.hub.close("the session ended");
        // Somebody who does not read does not keep the process.
        let _ = tokio::time::timeout(CLOSING, hosting.hub.drained()).await;
    }
    match leave {
        Leave::Asked => Ended::Left,
        Leave::Terminated | Leave::HungUp => Ended::Terminated,
        Leave::NoCredentials => Ended::NoCredentials(app.exit.failure.unwrap_or_default()),
        Leave::Usage => Ended::Usage(app.exit.failure.unwrap_or_default()),
        Leave::Run(command) => Ended::Run(command),
        Leave::Failed => Ended::Failed(app.exit.failure.unwrap_or_default()),
    }
}

/// Lathe crashed: restores the terminal, saves the draft and ends the session.
async fn crashed(app: &mut App) -> Ended {
    terminal::restore();
    let message = terminal::panic_guard::message();
    // The state may be anything now: what still works is done, what doesn't is left.
    let tidied = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let _ = terminal::write(&app.screen.inline.clear());
        app.prompt.save_draft();
    }));
    if tidied.is_err() {
        tracing::error!("the screen could not be tidied after a panic");
    }
    app.prompt.suggestion.cancel();
    app.alarms.away.cancel();
    if let Some(session) = app.engine.handle.take() {
        session.send(Op::Interrupt { drop_queued: true });
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, session.finish())
            .await
            .is_err()
        {
            tracing::error!("the session did not end after a panic");
        }
    }
    Ended::Failed(message)
}

/// Takes the live area away, puts the terminal back and says how to continue.
fn leave_screen(app: &mut App) {
    app.prompt.save_draft();
    if app.screen.full.is_some() {
        app.close_transcript();
    }
    app.end_conversation();
    app::pictures::give_up(app);
    let before = std::mem::take(&mut app.screen.pending);
    let finished = app.conversation.take_finished();
    let mut out = app
        .screen
        .inline
        .draw(&before, &finished, &inline_screen::Frame::default());
    let said = app
        .engine
        .handle
        .as_ref()
        .filter(|_| !app.conversation.cells.is_empty() || app.session.last_result.is_some());
    if let Some(session) = said {
        let mut line = String::new();
        let hint = style::Line::styled(
            format!("Resume with: lathe --resume {}", session.session_id()),
            app.look.theme.muted,
        );
        app.screen.inline.encoder().line(&hint, &mut line);
        out.push_str(&format!("\r\n{line}\r\n"));
    }
    for words in commands::exit::last_words(app) {
        let mut line = String::new();
        let words = style::Line::styled(words, app.look.theme.muted);
        app.screen.inline.encoder().line(&words, &mut line);
        out.push_str(&format!("{line}\r\n"));
    }
    let _ = terminal::write(&out);
    terminal::restore();
}
