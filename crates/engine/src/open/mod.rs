//! Opening a session: from the caller's options and the surroundings to a running actor.
//!
//! Three steps, each a function of the one before: `loaded` reads settings, plugins and extensions;
//! `equipped` adds provider, transcript, permissions, tools and hooks; `ready` makes the conversation.
//! Then servers, hooks and watchers start. Nothing here prints; remarks for the user are in
//! [`Opened::remarks`].

pub(crate) mod agents;
pub(crate) mod change_text;
mod claude_home;
pub(crate) mod confined;
mod equipped;
mod loaded;
pub(crate) mod model;
pub mod options;
mod parts;
pub(crate) mod preview;
mod ready;
pub(crate) mod restore;
mod resumed;
pub(crate) mod sandbox;
pub(crate) mod schedule;
mod session_tools;
mod task_tools;
mod web;

pub(crate) use loaded::with_settings;
pub(crate) use parts::command_variables;

pub use self::session_tools::{SessionTools, ToolAnswer};

use self::options::{OpenError, SessionOptions, Setup};
use crate::conversation::Conversation;
use crate::conversation::goal::{self, Goal};
use crate::conversation::hook_points::HookPoints;
use crate::conversation::records::reminder;
use crate::session::events::EventStream;
use crate::session::{self, SessionHandle, live, monitors};
use crate::worktree;
use futures::future::BoxFuture;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_session::Loaded;
use lathe_session::cleanup;
use lathe_settings::write::OwnWrites;
use lathe_settings::{Environment, LoadOptions, Places, Resolved};
use lathe_tools::host::WorktreeWish;
use std::sync::Arc;

/// An open session.
pub struct Opened {
    /// The handle of the face.
    pub session: SessionHandle,
    /// Its events.
    pub events: EventStream,
    /// Problems of the configuration, and what was skipped because of them.
    pub remarks: Vec<Diagnostic>,
    /// The transcript of a resumed session as it was read, for faces that show it.
    pub history: Option<Loaded>,
}

/// Opens a session.
///
/// # Errors
/// When the caller's choice is wrong, there is no key, or the session's files can't be used.
pub fn open(
    environment: Environment,
    options: SessionOptions,
) -> BoxFuture<'static, Result<Opened, OpenError>> {
    // A large future: who opens a session should neither carry it nor compile it again.
    Box::pin(begin(environment, options))
}

async fn begin(environment: Environment, options: SessionOptions) -> Result<Opened, OpenError> {
    let setup = options.history.setup;
    let interactive = options.interactive;
    let history = &options.history;
    // A session that follows another in the same process has its own name.
    let title = history.title.clone().filter(|_| history.carried.is_none());
    let editor = history.carried.as_ref().and_then(|carried| carried.editor);
    let wish = worktree_wish(&options);
    let seat = options.team.member.clone();
    let goal = match &options.limits.goal {
        // A session that follows another in the same process has its own goal.
        Some(condition) if history.carried.is_none() => {
            let goal = Goal::new(condition);
            Some(goal.map_err(|error| OpenError::Usage(format!("--goal: {error}")))?)
        }
        _ => None,
    };
    let prepared = prepare(environment, options).await?;
    let Prepared {
        mut conversation,
        events,
        mut remarks,
        history,
        start,
    } = prepared;
    let Start {
        hooks,
        source,
        loaded_files,
        places,
        load_options,
        settings,
        own_writes,
        mcp,
        environment,
    } = start;
    let kept = history.as_ref().and_then(|it| it.facts.worktree.as_ref());
    let remark = worktree::session::open(&mut conversation, wish, kept).await;
    let remark = remark.map_err(|error| OpenError::Usage(format!("--worktree: {error}")))?;
    remarks.extend(remark.map(Diagnostic::note));
    // First, so that servers start while everything else is got ready.
    let shared = conversation.shared.clone();
    remarks.extend(shared.integrations.mcp.start(
        &shared,
        &crate::mcp::Start {
            options: &mcp,
            places: &places,
            settings: &settings,
            load_options: &load_options,
            environment: &environment,
            max_session_usd: conversation.fixed.limits.max_session_usd(),
        },
    ));
    if interactive {
        crate::editor::connect_by_itself(&shared, &environment, &settings, editor);
    }
    let shared = conversation.shared.clone();
    remarks.extend(agents::connect(&mut conversation, &shared, source == "resume").await);
    crate::agents::team::attach_own(&shared, seat.as_ref());
    hooks.watched.tell(&hooks);
    let resumed = history.as_ref().filter(|_| source != "startup");
    let resumed = resumed.and_then(|history| resumed::facts(history, &conversation.shared));
    start_hooks(&mut conversation, &hooks, source, resumed, setup).await;
    hooks.instructions_loaded(&loaded_files).await;
    if source == "startup" {
        let folder = conversation.shared.tools.working_folder.read().clone();
        let permissions = conversation.shared.permissions.snapshot();
        conversation
            .context
            .reminders
            .ask_git(&permissions, &folder);
    }
    conversation.measure_context();
    clean_up(&conversation, &places, &settings);
    live::watch_background(&conversation.shared);
    monitors::start(&conversation.shared);
    session::schedule::start(&conversation.shared);
    crate::skills::watch(&conversation.shared);
    live::watch_settings(
        &conversation.shared,
        places,
        load_options,
        Arc::new(settings),
        own_writes,
    );
    // Last, because it takes all skills to be read.
    remarks.extend(conversation.shared.integrations.extensions.remarks());
    let session = session::start(conversation);
    if let Some(title) = title {
        session.history().rename(&title);
    }
    if let Some(goal) = goal {
        goal::set(&session.shared, Some(goal));
    }
    Ok(Opened {
        session,
        events,
        remarks,
        history,
    })
}

/// The worktree that the caller wants. A session that follows another stays where that was, unless it continues one that
/// knows where it was itself.
fn worktree_wish(options: &SessionOptions) -> Option<WorktreeWish> {
    match &options.history.carried {
        None => options.worktree.clone().map(WorktreeWish::Named),
        Some(carried) if carried.cleared => carried.worktree.clone().map(WorktreeWish::At),
        Some(_) => None,
    }
}

/// Deletes sessions that nobody used for as long as settings say, beside the conversation. The folder of
/// another program is cleaned up only if settings name a time.
fn clean_up(conversation: &Conversation, places: &Places, settings: &Resolved) {
    let is_own = places.config_home.file_name() != Some(".claude".as_ref());
    let usual = is_own.then_some(cleanup::DEFAULT_DAYS);
    let Some(days) = settings.settings.cleanup_period_days.or(usual) else {
        return;
    };
    let (home, own) = (
        places.config_home.clone(),
        conversation.transcript.path().to_owned(),
    );
    conversation.shared.session.background.spawn(async move {
        let cleaning = lathe_spawn::blocking(move || cleanup::clean_if_due(&home, days, &own));
        if let Ok(Err(error)) = cleaning.await {
            tracing::info!(%error, "old sessions are not deleted");
        }
    });
}

/// A session with everything in place that has not begun.
pub(crate) struct Prepared {
    pub(crate) conversation: Conversation,
    pub(crate) events: EventStream,
    pub(crate) remarks: Vec<Diagnostic>,
    history: Option<Loaded>,
    start: Start,
}

/// The inputs of its start.
struct Start {
    hooks: Arc<HookPoints>,
    source: &'static str,
    loaded_files: Vec<lathe_settings::instructions::InstructionFile>,
    places: Places,
    load_options: LoadOptions,
    settings: Resolved,
    own_writes: OwnWrites,
    mcp: crate::mcp::McpOptions,
    environment: Environment,
}

/// Puts a session together: everything but what runs.
///
/// In a box, so that it is compiled here and not again in every crate that waits for it.
pub(crate) fn prepare(
    environment: Environment,
    options: SessionOptions,
) -> BoxFuture<'static, Result<Prepared, OpenError>> {
    Box::pin(prepare_now(environment, options))
}

async fn prepare_now(
    environment: Environment,
    options: SessionOptions,
) -> Result<Prepared, OpenError> {
    let loaded = loaded::load(environment, options).await?;
    ready::ready(equipped::equip(loaded).await?).await
}

async fn start_hooks(
    conversation: &mut Conversation,
    hooks: &HookPoints,
    source: &str,
    resumed: Option<serde_json::Value>,
    setup: Option<Setup>,
) {
    let mut context = match setup {
        Some(setup) => hooks.setup(setup.name()).await,
        None => Vec::new(),
    };
    let choices = conversation.shared.choices.read().clone();
    hooks.note_choices(&choices.model, choices.effort.as_deref());
    let verdict = hooks.session_start(source, resumed).await;
    context.extend(verdict.additional_context.clone());
    if !context.is_empty() {
        let record = conversation
            .records
            .meta(conversation.tip, reminder(&context.join("\n\n")));
        conversation.append(record);
    }
    if verdict.reloads_skills() {
        let shared = conversation.shared.clone();
        let reading = lathe_spawn::blocking(move || shared.extensions_changed());
        // Problems of the files become notices; a reader that fails leaves the known extensions.
        let _ = reading.await;
    }
    if let Some(title) = verdict.session_title {
        conversation.context.title_wanted = false;
        conversation.append_fact(lathe_protocol::record::Fact::AiTitle {
            ai_title: title,
            session_id: conversation.shared.session.id,
        });
    }
    if let Some(words) = verdict.initial_user_message {
        conversation
            .shared
            .inbox
            .queue
            .lock()
            .push_back(lathe_protocol::op::Prompt::new(words));
    }
}
