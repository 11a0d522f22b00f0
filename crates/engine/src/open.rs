//! Opening a session: from what the caller chose and what the surroundings say to a running actor.
//!
//! The order matters and is written down here once: settings, provider, transcript, permissions, tools,
//! hooks, instructions, and only then the conversation. Nothing here prints; what a face should tell
//! the person is in [`Opened::remarks`].

use crate::context::KeptPrompt;
use crate::conversation::{Choices, Conversation, Fixed, Integrations, Parts, Role, Toolbox};
use crate::decide::Limits;
use crate::events::{self, EventStream};
use crate::hook_model::{SessionClassifierModel, SessionHookModel};
use crate::hook_points::HookPoints;
use crate::language::Language;
use crate::ledger::{Ledger, Totals};
use crate::live;
use crate::open_agents;
use crate::open_model::{cache_markers, catalog, chosen_model, provider, thinking};
use crate::open_parts::{
    offered, output_config, permissions, tool_context, transcript, undo, writer_options,
};
use crate::options::{OpenError, SessionOptions, Setup};
use crate::plugins::Plugins;
use crate::prompt::{PromptParts, Surroundings, attribution_text, git_branch, instructions_text};
use crate::questions::Questions;
use crate::records::{RecordFactory, reminder};
use crate::session::{self, SessionHandle};
use crate::session::{Session, SessionSettings};
use crate::tool_search::{self, DeferredTools};
use futures::future::BoxFuture;
use lathe_hooks::HookRegistry;
use lathe_memory::AutoMemory;
use lathe_memory::extraction::Extraction;
use lathe_model::{CacheMarkers, RecoveryPolicy};
use lathe_permissions::classifier::Classifier;
use lathe_permissions::settings::{SettingsStore, guide_of};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::event::SessionInit;
use lathe_protocol::ids::RecordId;
use lathe_protocol::record::{Record, RecordMessage};
use lathe_session::Loaded;
use lathe_settings::instructions::{InstructionOptions, Instructions};
use lathe_settings::schema::MemoryExtraction;
use lathe_settings::trust_store::TrustStore;
use lathe_settings::write::OwnWrites;
use lathe_settings::{Environment, LoadOptions, Places, Resolved, Source, Trust, Variable};
use lathe_tools::structured_output::StructuredOutput;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// What the API calls a budget of tokens for a whole task.
const TASK_BUDGET_BETA: &str = "task-budgets-2026-03-13";

/// An open session.
pub struct Opened {
    /// The face's hold on it.
    pub session: SessionHandle,
    /// What it tells.
    pub events: EventStream,
    /// What the person should know: problems with settings, what was skipped.
    pub remarks: Vec<String>,
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
    let setup = options.setup;
    let prepared = prepare(environment, options).await?;
    let Prepared {
        mut conversation,
        events,
        mut remarks,
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
    let shared = conversation.shared.clone();
    remarks.extend(open_agents::connect(&mut conversation, &shared, source == "resume").await);
    hooks.instructions_loaded(loaded_files).await;
    hooks.watched.tell(&hooks);
    start_hooks(&mut conversation, &hooks, source, setup).await;
    if source == "startup" && conversation.shared.permissions.snapshot().may_run_git {
        let folder = conversation.shared.tools.working_folder.read().clone();
        conversation.context.reminders.ask_git(folder);
    }
    conversation.measure_context();
    live::watch_background(&conversation.shared);
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
    Ok(Opened {
        session: session::start(conversation),
        events,
        remarks,
    })
}

/// A session with everything in place that has not begun.
pub(crate) struct Prepared {
    pub(crate) conversation: Conversation,
    pub(crate) events: EventStream,
    pub(crate) remarks: Vec<String>,
    start: Start,
}

/// What beginning it takes.
struct Start {
    hooks: Arc<HookPoints>,
    source: &'static str,
    loaded_files: serde_json::Value,
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
    mut options: SessionOptions,
) -> Result<Prepared, OpenError> {
    let mut remarks = Vec::new();
    let mut places = Places::new(environment);
    if let Some(folder) = &options.project_root {
        let folder = places.environment.resolve(&folder.to_string_lossy());
        places = places.with_project(std::fs::canonicalize(&folder).unwrap_or(folder));
    }
    let trust_store = TrustStore::new(&places);
    let trust = trust_store.headless_trust(&places.project, options.setting_sources.as_deref());
    let (settings, load_options) = load_settings(&places, &options, &trust, &mut remarks)?;
    let own_writes = OwnWrites::default();
    let plugins = Arc::new(Plugins::load(&places, &settings, &options));
    plugins.equip(&mut options, &mut remarks);
    let (extensions, agents) = load_extensions(&places, &trust, &options);
    let environment = with_settings(&places.environment, &settings);
    // Waited for here only if the conversation may run as one of them.
    let mut agents = Reading::Begun(agents);
    let main = if plugins.may_choose_agent(&settings, &options) {
        let (known, _) = agents.wait().await?;
        plugins.choose_agent(&known, &settings, &mut options, &mut remarks);
        open_agents::main_agent(&known, &mut options)?
    } else {
        None
    };
    if options.effort.is_none() {
        let effort = settings.settings.effort;
        options.effort = effort.map(|effort| effort.name().to_owned());
    }
    let catalog = catalog(&environment, &settings, &mut remarks);
    let (provider, key_source) = provider(&environment, &settings, &places)?;
    let policy = RecoveryPolicy::of(&environment)?;

    let (events, stream) = events::channel();
    let opened = transcript(&places, &options, &events)?;
    let session_id = opened.session_id;
    let store = SettingsStore::new(places.clone(), own_writes.clone());
    let permissions = Arc::new(permissions(
        &places,
        &settings,
        &trust,
        &options,
        &opened.paths,
        store,
        &mut remarks,
    )?);
    let undo = if settings.settings.file_checkpointing_enabled == Some(false) {
        None
    } else {
        undo(&opened, &events, &mut remarks)
    };
    let mut tools = tool_context(&places, &environment, &permissions, &opened);
    let mut language = Language::new(
        &settings,
        &plugins.loaded(),
        &environment,
        &permissions,
        &events,
        &mut remarks,
    );
    language.observe(&mut tools, undo.clone());
    tools.tasks = open_agents::task_store(&places, &environment, &opened.paths, options.persist);
    let tools = Arc::new(tools);
    let (hook_registry, late) = HookRegistry::new();
    hook_registry.set_settings(&settings);
    remarks.extend(hook_registry.problems().iter().map(ToString::to_string));
    let of_plugins = plugins.register_hooks(&hook_registry);
    remarks.extend(of_plugins.iter().map(ToString::to_string));
    if let Some(main) = &main {
        open_agents::main_hooks(&hook_registry, main, &mut remarks);
        open_agents::narrow_main(&permissions, main);
    }
    let hooks = Arc::new(HookPoints {
        registry: hook_registry,
        late: Mutex::new(late),
        session_id,
        transcript: opened.paths.transcript(),
        project: places.project.clone(),
        tools: tools.clone(),
        permissions: permissions.clone(),
        events: events.clone(),
        environment_file: Some(opened.paths.session_folder().join("hook-environment.sh")),
        agent: None,
        watched: crate::watched_files::WatchedFiles::default(),
    });

    let model = chosen_model(&options, &environment, &settings, &catalog);
    let thinking = thinking(&options, &environment, &settings, &model);
    let fallback_model = options
        .fallback_model
        .clone()
        .or_else(|| {
            settings
                .settings
                .fallback_model
                .as_ref()
                .and_then(|list| list.list().into_iter().next())
        })
        .map(|name| catalog.resolve(&name).id);
    let branch = git_branch(&places.environment.cwd);
    let instructions = Instructions::discover(
        &places,
        InstructionOptions {
            roots: tools.roots.read().clone(),
            outside_imports: trust_store
                .entry(&places.project)
                .and_then(|entry| entry.outside_imports)
                .unwrap_or(false),
            excludes: settings
                .settings
                .instruction_excludes
                .clone()
                .unwrap_or_default(),
            without_project: options
                .setting_sources
                .as_ref()
                .is_some_and(|sources| !sources.contains(&Source::Project)),
        },
    );
    let cache = cache_markers(&environment);
    let loaded_files = serde_json::to_value(instructions.files()).unwrap_or_default();
    let (agents, styles) = agents.wait().await?;
    let mut registry = offered(&options, &agents, &environment, &mut language)?;
    let deferred = Arc::new(DeferredTools::default());
    if environment.switch(Variable::EnableToolSearch) != Some(false) {
        tool_search::add(&mut registry, &deferred);
    }
    if let Some(schema) = &options.json_schema {
        let schema = lathe_schema::Schema::new(schema.clone())
            .map_err(|error| OpenError::Usage(format!("--json-schema: {error}")))?;
        registry.add_dyn(Arc::new(StructuredOutput::new(schema)));
    }
    extensions.take_agents(agents.clone(), styles);
    let styles = extensions.styles();
    let preset = plugins.style(&styles);
    let style = styles
        .forced()
        .map(|style| style.name.as_str())
        .or(settings.settings.output_style.as_deref())
        .or(preset.as_deref());
    let style = extensions.choose_style(style, &mut remarks);
    let extensions = Arc::new(extensions);
    let variable = |name: &str| {
        let variables = &places.environment.variables;
        variables.get(name).map(String::as_str)
    };
    let prompt = PromptParts {
        style: style.prompt,
        style_alone: !style.keep_coding_instructions,
        replacement: options.system_prompt.clone(),
        appended: options.append_system_prompt.clone(),
        surroundings: Surroundings {
            cwd: places.environment.cwd.clone(),
            other_roots: tools.roots.read().iter().skip(1).cloned().collect(),
            git_branch: branch.clone(),
            platform: std::env::consts::OS.to_owned(),
            shell: tools
                .shell
                .program()
                .map_or_else(|| "none".to_owned(), |program| program.name().to_owned()),
            date: crate::today::date(jiff::Timestamp::now(), variable("TZ"), variable("TZDIR")),
            model: model.id.clone(),
        },
        instructions: instructions_text(&instructions),
        memory: memory_text(&places, &settings, &mut remarks),
        language: settings.settings.language.clone(),
        attribution: attribution_text(&settings.settings),
        varying_apart: options.varying_apart,
        planning: options.plan_mode_instructions.clone(),
        long_cache: cache == CacheMarkers::OneHour,
    };
    let surrounding = prompt.clone();
    let prompt = match &main {
        Some(main) => open_agents::main_prompt(prompt, main),
        None => prompt,
    };
    let mut betas = options.betas.clone();
    betas.extend(model.betas.iter().cloned());
    let max_output_tokens = environment
        .get(Variable::MaxOutputTokens)
        .and_then(|text| text.parse().ok());
    if options.task_budget.is_some() {
        betas.push(TASK_BUDGET_BETA.to_owned());
    }
    let fixed = Fixed {
        system: prompt.encode(),
        prompt,
        limits: Limits {
            max_turns: options.max_turns,
            max_budget_usd: options.max_budget_usd.or(settings.settings.max_budget_usd),
            spent_before_usd: kept_totals(opened.history.as_ref())
                .map_or(0.0, |totals| totals.cost_usd())
                - options.spent_usd,
            max_tokens: options
                .max_session_tokens
                .or_else(|| {
                    let text = environment.get(Variable::MaxSessionTokens)?;
                    text.parse().ok()
                })
                .or(settings.settings.max_session_tokens),
            auto_compact: settings.settings.auto_compact.unwrap_or(true),
            fixed_output_cap: max_output_tokens.is_some(),
            structured_output: options.json_schema.is_some(),
        },
        policy,
        betas: betas.clone(),
        max_output_tokens,
        extra: output_config(&options),
        cache,
    };
    let questions = Arc::new(Questions::new(options.answerer, events.clone()));
    questions.set_guide(guide_of(&settings));
    let writer = options.persist.then(|| writer_options(&options, &events));
    let session = Arc::new(Session {
        id: session_id,
        provider,
        catalog,
        settings: SessionSettings {
            value: RwLock::new(settings.value.clone()),
            layers: RwLock::new(live::layers(&settings)),
            loader: live::SettingsLoader::new(places.clone(), load_options.clone()),
            key_source: key_source.clone(),
            model_is_pinned: options.model.is_some() || environment.get(Variable::Model).is_some(),
        },
        plugins,
        agents: open_agents::agents(agents, opened.paths.clone(), writer, &environment, &options),
        background: Arc::default(),
        mcp_servers: RwLock::default(),
        tool_aliases: options.tool_aliases.clone(),
        init: SessionInit {
            api_key_source: key_source.clone(),
            output_style: settings
                .settings
                .output_style
                .clone()
                .unwrap_or_else(|| "default".into()),
            betas,
            ..SessionInit::default()
        },
    });
    let parts = Parts {
        events: events.clone(),
        permissions,
        hooks: hooks.clone(),
        questions,
        tools: tools.clone(),
        toolbox: Toolbox {
            deferred,
            ..Toolbox::of(registry, undo)
        },
        integrations: Integrations {
            mcp: Arc::default(),
            language,
            extensions,
        },
        choices: Choices {
            model: model.id.clone(),
            thinking,
            effort: options.effort.clone(),
            fallback: fallback_model,
        },
        instructions: Some(instructions),
        transcript: opened.writer,
        records: RecordFactory {
            session_id,
            cwd: places.environment.cwd.clone(),
            git_branch: branch.clone().unwrap_or_default(),
            agent_id: None,
        },
        parent_tool_use_id: None,
        seed: open_agents::seed(&fixed, &surrounding, branch.as_deref()),
        fixed,
    };
    let role = Role::Main {
        filter: main.as_ref().map(crate::agents::ToolFilter::of),
    };
    let mut conversation = Conversation::new(session, role, parts);
    let shared = conversation.shared.clone();
    shared.questions.set_classifier(Arc::new(Classifier::new(
        Arc::new(SessionClassifierModel {
            shared: Arc::downgrade(&shared),
        }),
        &guide_of(&settings),
    )));
    hooks.registry.set_model(Arc::new(SessionHookModel {
        shared: Arc::downgrade(&shared),
    }));
    shared.state.notes.kept.enable(switched_on(
        &environment,
        Variable::SessionNotes,
        settings.settings.session_notes,
    ));
    shared.session.background.wait_at_end(!options.interactive);
    conversation.context.magic_docs.kept.enabled = switched_on(
        &environment,
        Variable::MagicDocs,
        settings.settings.magic_docs,
    );
    conversation.context.title_wanted = options.persist
        && switched_on(
            &environment,
            Variable::SessionTitles,
            settings
                .settings
                .session_titles
                .map(|on| on && options.interactive)
                .or(Some(options.interactive)),
        );
    if options.keep_system_prompt {
        conversation.context.kept_prompt = KeptPrompt::Wanted;
    }
    conversation.context.extracting.extractor.mode =
        extraction(&environment, &settings, &options, &mut remarks);
    let source = match (&opened.history, options.fork) {
        (None, _) if options.after_clear => "clear",
        (Some(_), true) => "fork",
        (Some(_), false) => "resume",
        (None, _) => "startup",
    };
    if let Some(history) = opened.history {
        restore(&mut conversation, &history, options.resume_at, &mut remarks)?;
    }
    if conversation.tip.is_none()
        && let Some(main) = &main
    {
        open_agents::brief_main(&mut conversation, main);
    }
    if conversation.tip.is_none()
        && let Some(text) = conversation.fixed.prompt.told_apart()
    {
        let record = conversation.records.meta(None, reminder(&text));
        conversation.append(record);
    }
    let start = Start {
        hooks,
        source,
        loaded_files,
        places,
        load_options,
        settings,
        own_writes,
        mcp: options.mcp,
        environment,
    };
    Ok(Prepared {
        conversation,
        events: stream,
        remarks,
        start,
    })
}

/// Something that is read on a thread of its own, and known once it was waited for.
enum Reading<T> {
    Begun(tokio::task::JoinHandle<T>),
    Known(T),
}

impl<T: Clone> Reading<T> {
    async fn wait(&mut self) -> Result<T, OpenError> {
        let known = match self {
            Self::Known(known) => return Ok(known.clone()),
            Self::Begun(reading) => reading
                .await
                .map_err(|error| OpenError::Usage(error.to_string()))?,
        };
        *self = Self::Known(known.clone());
        Ok(known)
    }
}

/// What is read of agents and output styles.
type AgentsAndStyles = (
    Arc<lathe_extensions::AgentCatalog>,
    Arc<lathe_extensions::OutputStyles>,
);

/// Starts to read what users added as files, on threads beside the rest of the opening.
fn load_extensions(
    places: &Places,
    trust: &Trust,
    options: &SessionOptions,
) -> (
    crate::skills::Extensions,
    tokio::task::JoinHandle<AgentsAndStyles>,
) {
    let added = options
        .add_dirs
        .iter()
        .map(|folder| places.environment.resolve(&folder.to_string_lossy()))
        .collect();
    let mut chosen = crate::skills::ExtensionOptions::new(
        places,
        trust,
        options.setting_sources.as_deref(),
        added,
        options.plugins.clone(),
    );
    chosen.agents.clone_from(&options.agents);
    chosen.only_skills.clone_from(&options.skills);
    let extensions = crate::skills::Extensions::begin(chosen.clone());
    let agents = lathe_spawn::blocking(move || {
        let styles = Arc::new(chosen.load_styles());
        (Arc::new(chosen.load_agents()), styles)
    });
    (extensions, agents)
}

/// What the system prompt says about kept memory.
fn memory_text(places: &Places, settings: &Resolved, remarks: &mut Vec<String>) -> String {
    if settings.settings.auto_memory == Some(false) {
        return String::new();
    }
    let memory = AutoMemory::of(&places.config_home, &places.project);
    if let Some(warning) = memory.index().and_then(|index| index.warning) {
        remarks.push(warning);
    }
    memory.prompt()
}

/// Whether something worth remembering is looked for. In print mode only where the variable asks.
fn extraction(
    environment: &Environment,
    settings: &Resolved,
    options: &SessionOptions,
    remarks: &mut Vec<String>,
) -> Extraction {
    if settings.settings.auto_memory == Some(false) || !options.persist {
        return Extraction::Off;
    }
    if let Some(name) = environment.get(Variable::MemoryExtraction) {
        return Extraction::named(name).unwrap_or_else(|| {
            remarks.push(format!(
                "LATHE_MEMORY_EXTRACTION: {name:?} is none of off, propose and keep"
            ));
            Extraction::Off
        });
    }
    match (options.interactive, settings.settings.memory_extraction) {
        (false, _) => Extraction::Off,
        (true, None | Some(MemoryExtraction::Propose)) => Extraction::Propose,
        (true, Some(MemoryExtraction::Keep)) => Extraction::Keep,
        (true, Some(MemoryExtraction::Off)) => Extraction::Off,
    }
}

fn load_settings(
    places: &Places,
    options: &SessionOptions,
    trust: &Trust,
    remarks: &mut Vec<String>,
) -> Result<(Resolved, LoadOptions), OpenError> {
    let load = LoadOptions {
        flags: options.settings_flags.clone(),
        managed_flags: options.managed_settings.clone(),
        sources: options.setting_sources.clone(),
        trust: trust.clone(),
    };
    let settings = lathe_settings::load(places, &load);
    if let Some(problem) = settings.flag_errors().first() {
        return Err(OpenError::Usage(problem.to_string()));
    }
    remarks.extend(settings.problems.iter().map(ToString::to_string));
    let own = lathe_mcp::config::own_servers(places);
    let mut withheld = settings.withheld();
    withheld.retain(|bring| {
        !own.iter()
            .any(|name| bring.key == format!("mcpServers.{name}"))
    });
    if !withheld.is_empty() {
        let what: Vec<String> = withheld.iter().map(ToString::to_string).collect();
        remarks.push(format!(
            "this folder is not trusted, so what its own settings bring was skipped: {}. Trust it with `lathe trust add`, or name its sources with --setting-sources.",
            what.join(", ")
        ));
    }
    Ok((settings, load))
}

/// The environment with the variables that settings add. What the process has wins.
fn with_settings(environment: &Environment, settings: &Resolved) -> Environment {
    let mut environment = environment.clone();
    for (name, value) in settings.environment() {
        environment.variables.entry(name).or_insert(value);
    }
    environment
}

/// Whether something is on that is off by itself: a variable decides, else a setting.
fn switched_on(environment: &Environment, variable: Variable, setting: Option<bool>) -> bool {
    environment.switch(variable).or(setting).unwrap_or(false)
}

/// What a session used before.
fn kept_totals(history: Option<&Loaded>) -> Option<Totals> {
    serde_json::from_value(history?.facts.cost.clone()?).ok()
}

/// Takes a history up.
fn restore(
    conversation: &mut Conversation,
    history: &Loaded,
    resume_at: Option<RecordId>,
    remarks: &mut Vec<String>,
) -> Result<(), OpenError> {
    let chain = match resume_at {
        Some(record) => history.chain_to(record)?,
        None => history.chain(),
    };
    for record in &chain {
        conversation.history.push(record);
        if let Record::Message(message) = &**record {
            conversation.context.meter.replay(message);
            conversation.shared.integrations.extensions.replay(message);
            if let Some(RecordMessage::Assistant(message)) = &message.message {
                for call in message.content.iter().filter_map(ContentBlock::as_tool_use) {
                    conversation.note_used_tool(&call.name);
                }
            }
        }
    }
    conversation.tip = chain.iter().rev().find_map(|record| match &**record {
        Record::Message(message) if !message.is_sidechain => Some(message.uuid),
        _ => None,
    });
    if conversation.context.kept_prompt == KeptPrompt::Wanted
        && let Some(system) = &history.facts.system_prompt
    {
        conversation.fixed.system = system.to_string().into();
        conversation.context.kept_prompt = KeptPrompt::Kept;
    }
    if history.facts.title().is_some() {
        conversation.context.title_wanted = false;
    }
    if let Some(totals) = kept_totals(Some(history)) {
        *conversation.shared.spending.totals.lock() = totals.clone();
        conversation.ledger = Ledger::resume(totals);
    }
    if let Some(todos) = &history.facts.todos
        && let Ok(todos) = serde_json::from_value(todos.clone())
    {
        *conversation.shared.tools.todos.lock() = todos;
    }
    if !history.damaged.is_empty() {
        remarks.push(format!(
            "{} damaged line(s) of the transcript {} were skipped",
            history.damaged.len(),
            history.path.display()
        ));
    }
    Ok(())
}

async fn start_hooks(
    conversation: &mut Conversation,
    hooks: &HookPoints,
    source: &str,
    setup: Option<Setup>,
) {
    let mut context = match setup {
        Some(setup) => hooks.setup(setup.name()).await,
        None => Vec::new(),
    };
    let verdict = hooks.session_start(source).await;
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
        // What is wrong with the files is told; a reader that fails leaves what was known.
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
