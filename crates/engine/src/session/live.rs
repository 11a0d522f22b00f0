//! Changes beside the turns: settings that change while the session runs, and background commands that begin
//! and end.

use crate::agents::notice::{self, Notice};
use crate::conversation::ConversationShared;
use crate::open::{command_variables, with_settings};
use crate::turn::models::{self, NotAvailable};
use lathe_permissions::PermissionContext;
use lathe_permissions::sandbox::Wish;
use lathe_protocol::event::{
    Event, News, NoticeLevel, Priority, TaskNotice, TaskStatus, TaskUsage,
};
use lathe_protocol::permission::{PermissionUpdate, RuleSource};
use lathe_sandbox::Tier;
use lathe_settings::watch::SettingsWatcher;
use lathe_settings::write::OwnWrites;
use lathe_settings::{LoadOptions, Places, Problem, Resolved, Source};
use lathe_shell::run::{BackgroundCommand, BackgroundEvent, BackgroundStatus};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;

/// Why settings of a running session can't be changed.
#[derive(Debug, thiserror::Error)]
pub enum FlagError {
    /// A value is invalid.
    #[error("{0}")]
    Settings(Box<Problem>),
    /// The model may not be used.
    #[error(transparent)]
    Model(#[from] NotAvailable),
}

/// Loads settings again when a face changes them.
pub(crate) struct SettingsLoader {
    pub(crate) places: Places,
    state: Mutex<LoaderState>,
}

struct LoaderState {
    /// The options that the session was opened with.
    options: LoadOptions,
    /// Changes of a face since, on top of `--settings`.
    changed: serde_json::Map<String, Value>,
    /// Working folders that only settings name.
    folders: Vec<PathBuf>,
    /// Tells the watcher to load with other options from now on.
    watcher: Option<mpsc::UnboundedSender<LoadOptions>>,
}

impl SettingsLoader {
    pub(crate) fn new(places: Places, options: LoadOptions, folders: Vec<PathBuf>) -> Self {
        Self {
            places,
            state: Mutex::new(LoaderState {
                options,
                changed: serde_json::Map::new(),
                folders,
                watcher: None,
            }),
        }
    }

    /// Where settings come from, and how they are loaded.
    pub(crate) fn parts(&self) -> (Places, LoadOptions) {
        (self.places.clone(), self.state.lock().options.clone())
    }

    /// How settings are loaded now, with what a face has changed.
    pub(crate) fn now(&self) -> LoadOptions {
        let state = self.state.lock();
        let mut options = state.options.clone();
        if !state.changed.is_empty() {
            options
                .flags
                .push(Value::Object(state.changed.clone()).to_string());
        }
        options
    }

    /// The settings as they are now.
    pub(crate) fn current(&self) -> Resolved {
        lathe_settings::load(&self.places, &self.now())
    }

    fn attach(&self) -> mpsc::UnboundedReceiver<LoadOptions> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.state.lock().watcher = Some(sender);
        receiver
    }

    /// Puts changes on top of the flag settings; `null` takes a key back. Gives the settings with them.
    fn change(&self, changes: &serde_json::Map<String, Value>) -> Result<Resolved, FlagError> {
        let mut state = self.state.lock();
        let mut changed = state.changed.clone();
        for (key, value) in changes {
            if value.is_null() {
                changed.shift_remove(key);
            } else {
                changed.insert(key.clone(), value.clone());
            }
        }
        let mut options = state.options.clone();
        if !changed.is_empty() {
            options
                .flags
                .push(Value::Object(changed.clone()).to_string());
        }
        let resolved = lathe_settings::load(&self.places, &options);
        if let Some(problem) = resolved.flag_errors().first() {
            return Err(FlagError::Settings(Box::new((*problem).clone())));
        }
        state.changed = changed;
        if let Some(watcher) = &state.watcher {
            let _ = watcher.send(options);
        }
        Ok(resolved)
    }
}

/// Changes the flag settings of a running session.
///
/// # Errors
/// When they are wrong; then nothing changes.
pub(crate) fn change_flags(
    shared: &ConversationShared,
    changes: &serde_json::Map<String, Value>,
) -> Result<(), FlagError> {
    let resolved = shared.session.settings.loader.change(changes)?;
    apply(shared, &resolved);
    if let Some(effort) = changes.get("effort") {
        shared.choices.set_effort(effort.as_str());
    }
    // This change is newer than the choice of the command line.
    if let Some(model) = changes.get("model") {
        let wanted = model.as_str().unwrap_or(&shared.choices.first.model);
        let chosen = models::choose_model(shared, wanted)?;
        shared.choices.write().model = chosen;
    }
    Ok(())
}

/// The settings by source, weakest first.
pub(crate) fn layers(settings: &Resolved) -> Vec<Value> {
    settings
        .layers
        .iter()
        .map(|layer| {
            json!({
                "source": RuleSource::from(layer.source),
                "path": layer.path, "settings": layer.value,
            })
        })
        .collect()
}

/// Watches the settings files until the session ends. What changes takes effect immediately: rules, hooks,
/// the model.
pub(crate) fn watch_settings(
    shared: &Arc<ConversationShared>,
    places: Places,
    options: LoadOptions,
    current: Arc<Resolved>,
    own: OwnWrites,
) {
    let mut reconfigured = shared.session.settings.loader.attach();
    let shared = Arc::downgrade(shared);
    lathe_spawn::task(async move {
        let again = places.clone();
        let starting =
            lathe_spawn::blocking(move || SettingsWatcher::start(places, options, current, own));
        let (watcher, mut changes) = match starting.await {
            Ok(Ok(started)) => started,
            Ok(Err(error)) => {
                tracing::warn!(%error, "settings are not watched");
                return;
            }
            Err(_) => return,
        };
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                Some(options) = reconfigured.recv() => {
                    watcher.reconfigure(again.clone(), options);
                    continue;
                }
            };
            let (Some(change), Some(shared)) = (change, Weak::upgrade(&shared)) else {
                break;
            };
            for problem in &change.problems {
                shared.events.news(
                    News::new(Priority::High),
                    NoticeLevel::Warning,
                    problem.to_string(),
                );
            }
            if change.keys.is_empty() {
                continue;
            }
            apply(&shared, &watcher.current());
            let summaries: Vec<String> = change
                .keys
                .iter()
                .map(lathe_settings::watch::KeyChange::summary)
                .collect();
            shared.events.news(
                News::of("settings", Priority::Low),
                NoticeLevel::Info,
                format!("Settings changed: {}", summaries.join(", ")),
            );
            let files: Vec<String> = change
                .files
                .iter()
                .map(|(_, path)| path.display().to_string())
                .collect();
            let source = change
                .files
                .first()
                .map_or("settings", |(source, _)| hook_name_of(*source))
                .to_owned();
            shared.hooks.config_change(&source, &files).await;
        }
    });
}

/// The name of a source in the input of hooks.
fn hook_name_of(source: Source) -> &'static str {
    match source {
        Source::User => "user_settings",
        Source::Project => "project_settings",
        Source::Local => "local_settings",
        Source::Flag => "flag_settings",
        Source::Managed => "policy_settings",
    }
}

/// Applies reloaded settings to the running session.
fn apply(shared: &ConversationShared, settings: &Resolved) {
    let context: Arc<PermissionContext> = shared.permissions.snapshot();
    let (rules, problems) = lathe_permissions::settings::rules_of(settings, &context);
    for problem in problems {
        shared.events.news(
            News::new(Priority::High),
            NoticeLevel::Warning,
            problem.to_string(),
        );
    }
    let before = std::mem::replace(
        &mut *shared.session.settings.value.write(),
        settings.value.clone(),
    );
    *shared.session.settings.layers.write() = layers(settings);
    let outside = lathe_permissions::settings::outside_of(settings);
    shared.questions.take_settings(settings);
    let left = shared.permissions.mode();
    let instead = shared.permissions.restrict_modes(settings);
    shared.permissions.reload(&rules, outside);
    let switched_off = shared.session.settings.no_sandbox;
    let wish = Wish::of(settings, switched_off, &shared.tools.environment)
        .in_session(settings, shared.session.settings.is_interactive);
    let sandbox = shared.tools.programs.sandbox.as_ref();
    let mut facts = crate::open::sandbox::facts(settings, wish, sandbox);
    shared.permissions.update_context(|context| {
        if let Some(on) = context.sandbox.switched {
            facts.switch(on, sandbox.map_or(Tier::None, |sandbox| sandbox.tier()));
        }
        context.set_sandbox(facts);
    });
    let network = &shared.toolbox.network;
    network.refresh(&shared.permissions.snapshot());
    if let Some(mode) = instead {
        shared.events.send(Event::ModeChanged(mode));
        shared.events.news(
            News::new(Priority::High),
            NoticeLevel::Warning,
            format!(
                "Settings disable the mode {}; the session continues in mode {}.",
                left.name(),
                mode.name()
            ),
        );
    }
    shared.hooks.registry.set_settings(settings);
    take_folders(shared, settings);
    take_choices(shared, settings, &before);
    crate::conversation::language::reconfigure(shared, settings);
    shared.integrations.mcp.settings_changed(shared, settings);
}

/// Takes over model and effort of changed settings, and the variables of commands.
fn take_choices(shared: &ConversationShared, settings: &Resolved, before: &Value) {
    if let Some(model) = &settings.settings.model
        && !shared.session.settings.model_is_pinned
    {
        let present = || shared.choices.read().model.clone();
        let chosen = models::choose_model_or(shared, model, present);
        shared.choices.write().model = chosen;
    }
    let effort = |value: &Value| value.get("effort")?.as_str().map(str::to_owned);
    let (old, new) = (effort(before), effort(&settings.value));
    let mut choices = shared.choices.write();
    // An effort that a flag, a variable or the user chose stays.
    if old != new && choices.effort == old {
        choices.effort = new;
    }
    let effort = choices.effort.clone();
    drop(choices);
    let places = &shared.session.settings.loader.places;
    let environment = with_settings(&places.environment, settings);
    let variables = command_variables(&environment, shared.session.id, effort.as_deref());
    let variables = variables
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()));
    shared.tools.shell.set_environment(variables);
}

/// The working folders that settings name and the caller doesn't.
pub(crate) fn folders_of_settings(
    settings: &Resolved,
    places: &Places,
    of_caller: &[PathBuf],
) -> Vec<PathBuf> {
    let of_caller: Vec<PathBuf> = of_caller
        .iter()
        .map(|folder| places.environment.resolve(&folder.to_string_lossy()))
        .collect();
    settings
        .directories(places)
        .into_iter()
        .map(|(folder, _)| folder)
        .filter(|folder| !of_caller.contains(folder))
        .collect()
}

/// Takes over the working folders of changed settings.
fn take_folders(shared: &ConversationShared, settings: &Resolved) {
    let loader = &shared.session.settings.loader;
    let folders = folders_of_settings(settings, &loader.places, &[]);
    let before = {
        let mut state = loader.state.lock();
        std::mem::replace(&mut state.folders, folders.clone())
    };
    let not_in = |some: &[PathBuf], others: &[PathBuf]| -> Vec<PathBuf> {
        let kept = some.iter().filter(|folder| !others.contains(folder));
        kept.cloned().collect()
    };
    let (gone, new) = (not_in(&before, &folders), not_in(&folders, &before));
    if gone.is_empty() && new.is_empty() {
        return;
    }
    let destination = RuleSource::Session;
    let updates = [
        PermissionUpdate::RemoveDirectories {
            directories: gone,
            destination,
        },
        PermissionUpdate::AddDirectories {
            directories: new.clone(),
            destination,
        },
    ];
    for update in &updates {
        if let Err(error) = shared.permissions.apply(update) {
            shared.events.news(
                News::new(Priority::High),
                NoticeLevel::Warning,
                error.to_string(),
            );
        }
    }
    *shared.tools.roots.write() = shared.permissions.snapshot().roots.clone();
    shared.integrations.mcp.roots_changed();
    let hooks = shared.hooks.clone();
    lathe_spawn::task(async move {
        for folder in new {
            hooks.directory_added(&folder, "settings").await;
        }
    });
}

/// Reports background commands to the faces.
pub(crate) fn watch_background(shared: &Arc<ConversationShared>) {
    let mut changes = shared.tools.shell.background().subscribe();
    let shared = Arc::downgrade(shared);
    lathe_spawn::task(async move {
        while let Some(change) = changes.recv().await {
            let Some(shared) = Weak::upgrade(&shared) else {
                break;
            };
            let (BackgroundEvent::Started(command) | BackgroundEvent::Ended(command)) = &change;
            if command.is_service {
                continue;
            }
            shared.events.send(Event::Task(match change {
                BackgroundEvent::Started(command) => TaskNotice::Started {
                    task_id: command.id.clone(),
                    description: description(&command),
                    tool_use_id: command.tool_use_id.clone(),
                    task_type: "local_bash".to_owned(),
                    is_backgrounded: true,
                    extra: lathe_protocol::Extra::new(),
                },
                BackgroundEvent::Ended(command) => {
                    tell_end(&shared, &command);
                    finished(&command)
                }
            }));
        }
    });
}

/// Tells the conversation that started a command that it is over, unless it knows.
fn tell_end(shared: &Arc<ConversationShared>, command: &BackgroundCommand) {
    // The user's own command is the user's business.
    let Some(call) = &command.tool_use_id else {
        return;
    };
    if shared.session.agents.is_ending() {
        return;
    }
    let agent = shared
        .session
        .agents
        .all()
        .into_iter()
        .find(|entry| entry.state().calls.contains(call));
    let conversation = match agent {
        Some(agent) => match agent.state().conversation.upgrade() {
            Some(conversation) => conversation,
            None => return,
        },
        None => shared.clone(),
    };
    if conversation
        .toolbox
        .known_ends
        .lock()
        .remove(command.id.as_str())
    {
        return;
    }
    let TaskNotice::Finished {
        summary,
        output_file,
        ..
    } = finished(command)
    else {
        return;
    };
    let text = Notice {
        task_id: command.id.as_str(),
        tool_use_id: Some(call.as_str()),
        status: command.status.word(),
        summary: &summary,
        result: None,
        output_file: &output_file,
        usage: None,
    }
    .text();
    let mut prompt = notice::prompt(command.id.as_str(), text);
    // A command that was stopped from outside needs no answer; the model learns of it with the next prompt.
    prompt.context_only = command.status == BackgroundStatus::Stopped;
    conversation.enqueue(prompt);
}

fn description(command: &BackgroundCommand) -> String {
    if command.description.is_empty() {
        command.command.clone()
    } else {
        command.description.clone()
    }
}

fn finished(command: &BackgroundCommand) -> TaskNotice {
    let status = match &command.status {
        BackgroundStatus::Stopped => TaskStatus::Stopped,
        BackgroundStatus::Completed | BackgroundStatus::Running => TaskStatus::Completed,
        BackgroundStatus::Failed(_) => TaskStatus::Failed,
    };
    let code = command
        .status
        .exit_code()
        .map_or_else(String::new, |code| format!(" (exit code {code})"));
    TaskNotice::Finished {
        task_id: command.id.clone(),
        tool_use_id: command.tool_use_id.clone(),
        status,
        output_file: command.output_file.display().to_string(),
        summary: format!("{}: {}{code}", description(command), command.status.word()),
        usage: Some(TaskUsage {
            total_tokens: 0,
            tool_uses: 0,
            duration_ms: u64::try_from(command.elapsed.as_millis()).unwrap_or(u64::MAX),
        }),
    }
}
