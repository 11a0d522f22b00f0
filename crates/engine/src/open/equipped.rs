//! The second step of opening: the provider, the transcript, permissions, tools and hooks.

use super::agents as main_agent;
use super::loaded::Loaded;
use super::model::{chosen_model, directory_catalog, provider};
use super::options::OpenError;
use super::parts::{Transcript, permissions, tool_context, transcript, undo};
use super::ready::kept_choice;
use crate::conversation::hook_points::{HookPoints, Moment};
use crate::conversation::language::Language;
use crate::conversation::undo::Undo;
use crate::conversation::watched_files::WatchedFiles;
use crate::session::events::{self, EventSink, EventStream};
use lathe_hooks::HookRegistry;
use lathe_model::{Catalog, Provider, RecoveryPolicy};
use lathe_permissions::Permissions;
use lathe_permissions::sandbox::Wish;
use lathe_permissions::settings::SettingsStore;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::event::Event;
use lathe_settings::Variable;
use lathe_tools::ToolContext;
use parking_lot::Mutex;
use std::sync::Arc;

/// A session with its services.
pub(super) struct Equipped {
    pub(super) loaded: Loaded,
    pub(super) catalog: Arc<Catalog>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) key_source: String,
    pub(super) policy: RecoveryPolicy,
    pub(super) events: EventSink,
    pub(super) stream: EventStream,
    pub(super) transcript: Transcript,
    pub(super) permissions: Arc<Permissions>,
    pub(super) undo: Option<Arc<Undo>>,
    pub(super) tools: Arc<ToolContext>,
    pub(super) language: Language,
    pub(super) hooks: Arc<HookPoints>,
}

/// Equips a session with what was loaded.
pub(super) async fn equip(mut loaded: Loaded) -> Result<Equipped, OpenError> {
    let Loaded {
        places,
        environment,
        settings,
        options,
        trust,
        own_writes,
        plugins,
        remarks,
        observer,
        ..
    } = &mut loaded;
    let wish = Wish::of(settings, options.permissions.no_sandbox, environment)
        .in_session(settings, options.interactive);
    let sandbox = super::sandbox::sandbox(places, wish);
    let (events, stream) = events::observed_channel(observer.clone());
    let transcript = transcript(places, options, &events)?;
    let mut catalog = directory_catalog(environment, settings, remarks);
    let kept = kept_choice(&transcript).map(|(model, _)| model.as_str());
    let model = chosen_model(options, environment, settings, &catalog, kept)?.id;
    catalog.set_main_model(&model);
    let catalog = Arc::new(catalog);
    let (provider, key_source) = provider(environment, settings, places, &catalog, &model)?;
    let learnt = provider.learn(&model).await;
    remarks.extend(learnt.into_iter().map(Diagnostic::warning));
    let policy = RecoveryPolicy::of(environment)?;
    if let Some(carried) = &options.history.carried {
        events.send(Event::ConversationReset {
            previous: carried.previous,
            next: transcript.session_id,
        });
    }
    let store = SettingsStore::new(places.clone(), own_writes.clone());
    let permissions = Arc::new(permissions(
        places,
        settings,
        trust,
        options,
        &transcript.paths,
        store,
        remarks,
    )?);
    let undo = if settings.settings.file_checkpointing_enabled == Some(false) {
        None
    } else {
        undo(&transcript, &permissions, &events, remarks)
    };
    let mut tools = tool_context(
        places,
        environment,
        &permissions,
        &transcript,
        options.model.effort.as_deref(),
    );
    let facts = super::sandbox::facts(settings, wish, sandbox.as_ref());
    let config_home = &places.config_home;
    super::sandbox::check(&facts, wish, sandbox.as_ref(), config_home, remarks)?;
    tools.programs.confine = super::confined::confine(sandbox.as_ref(), &permissions);
    tools.programs.sandbox = sandbox;
    tools.editor = options.tools.editor.as_ref().map(|lent| lent.0.clone());
    permissions.update_context(|context| context.set_sandbox(facts));
    let language = Language::new(
        settings,
        &plugins.loaded(),
        &tools,
        &permissions,
        &events,
        remarks,
    );
    language.observe(&mut tools, undo.clone());
    tools.tasks = main_agent::task_store(
        places,
        environment,
        &transcript.paths,
        options.history.persist,
    );
    let keys = environment.withheld.iter();
    tools.shell.withhold(keys.map(Into::into));
    let tools = Arc::new(tools);
    let hooks = hooks(&mut loaded, &transcript, &permissions, &tools, &events);
    Ok(Equipped {
        loaded,
        catalog,
        provider,
        key_source,
        policy,
        events,
        stream,
        transcript,
        permissions,
        undo,
        tools,
        language,
        hooks,
    })
}

/// The hooks of settings, plugins and the agent that the conversation runs as.
fn hooks(
    loaded: &mut Loaded,
    transcript: &Transcript,
    permissions: &Arc<Permissions>,
    tools: &Arc<ToolContext>,
    events: &EventSink,
) -> Arc<HookPoints> {
    let (registry, late) = HookRegistry::new();
    registry.set_settings(&loaded.settings);
    let remarks = &mut loaded.remarks;
    remarks.extend(registry.problems());
    let of_plugins = loaded.plugins.register_hooks(&registry);
    remarks.extend(of_plugins);
    if let Some(main) = &loaded.main {
        main_agent::main_hooks(&registry, main, remarks);
        main_agent::narrow_main(permissions, main);
    }
    Arc::new(HookPoints {
        registry,
        late: Mutex::new(late),
        session_id: transcript.session_id,
        transcript: transcript.paths.transcript(),
        project: loaded.places.project.clone(),
        tools: tools.clone(),
        permissions: permissions.clone(),
        events: events.clone(),
        environment_file: Some(
            transcript
                .paths
                .session_folder()
                .join("hook-environment.sh"),
        ),
        agent: None,
        watched: WatchedFiles::default(),
        moment: Mutex::new(Moment::new(entrypoint(loaded))),
    })
}

/// How the program was started: as a host says, else by its face.
fn entrypoint(loaded: &Loaded) -> String {
    let own = if loaded.options.interactive {
        "cli"
    } else {
        "sdk-cli"
    };
    let said = loaded.environment.get(Variable::Entrypoint);
    said.unwrap_or(own).to_owned()
}
