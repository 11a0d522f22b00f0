//! The third step of opening: the prompt, the session's services and the main conversation.

use super::agents as main_agent;
use super::equipped::Equipped;
use super::loaded::Loaded;
use super::model::{cache_markers, chosen_model, thinking};
use super::options::{OpenError, SessionOptions};
use super::parts::{Transcript, offered, output_config, writer_options};
use super::restore::{kept_totals, restore};
use super::web::WebTools;
use super::{Prepared, Start, task_tools};
use crate::agents::ToolFilter;
use crate::call::tool_search::{self, DeferredTools};
use crate::context::KeptPrompt;
use crate::context::prompt::{
    PromptParts, Surroundings, attribution_text, git_branch, instructions_text,
};
use crate::conversation::coordinator;
use crate::conversation::hook_model::SessionHookModel;
use crate::conversation::questions::Questions;
use crate::conversation::records::{RecordFactory, reminder};
use crate::conversation::{Choices, Conversation, Fixed, Integrations, Parts, Role, Toolbox};
use crate::session::purse::Purse;
use crate::session::{Carried, Session, SessionSettings, live};
use crate::turn::decide::Limits;
use lathe_extensions::AgentCatalog;
use lathe_memory::AutoMemory;
use lathe_memory::extraction::Extraction;
use lathe_model::{ResolvedModel, search};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::event::SessionInit;
use lathe_settings::instructions::{InstructionOptions, Instructions, ReadCheck, largest_file};
use lathe_settings::schema::MemoryExtraction;
use lathe_settings::{Environment, Places, Resolved, Source, Variable};
use lathe_tools::bash::Bash;
use lathe_tools::structured_output::StructuredOutput;
use lathe_tools::{DynTool, Erased, ToolRegistry};
use parking_lot::RwLock;
use std::sync::Arc;

/// The beta of the API for token budgets of a whole task.
const TASK_BUDGET_BETA: &str = "task-budgets-2026-03-13";

/// The prompt of the main conversation and what it was made from.
struct Prompt {
    parts: PromptParts,
    /// As agents get it: without the agent that the main conversation runs as.
    surrounding: PromptParts,
    instructions: Instructions,
    branch: Option<String>,
}

/// The model and the effort that a resumed session continues with.
pub(super) fn kept_choice(transcript: &Transcript) -> Option<&(String, Option<String>)> {
    let facts = &transcript.history.as_ref()?.facts;
    facts.model_choice.as_ref()
}

/// The model that the session begins with.
fn model_of(equipped: &Equipped) -> Result<ResolvedModel, OpenError> {
    let loaded = &equipped.loaded;
    chosen_model(
        &loaded.options,
        &loaded.environment,
        &loaded.settings,
        &equipped.catalog,
        kept_choice(&equipped.transcript).map(|(model, _)| model.as_str()),
    )
}

/// Makes the main conversation.
pub(super) async fn ready(mut equipped: Equipped) -> Result<Prepared, OpenError> {
    let model = model_of(&equipped)?;
    // Agents and styles are read on another thread meanwhile.
    let instructions = instructions(&equipped, &model);
    for left_out in instructions.skipped().filter(|it| it.needs_approval) {
        equipped.loaded.remarks.push(Diagnostic::warning(format!(
            "{} is outside the project, so its import was skipped; `lathe trust add --imports` allows it",
            left_out.path.display()
        )));
    }
    let branch = git_branch(&equipped.loaded.places.environment.cwd);
    let loaded = &mut equipped.loaded;
    let (agents, styles) = loaded.agents.wait().await?;
    loaded.extensions.take_agents(agents.clone(), styles);
    let (registry, deferred) = tools(&mut equipped, &agents, &model.id)?;
    let prompt = prompt(&mut equipped, &model, instructions, branch, &registry);
    let loaded_files = prompt.instructions.files().to_vec();
    let fixed = fixed(&equipped, &prompt, &model);
    let choices = choices(&equipped, &model)?;
    let session = session(&equipped, agents, &fixed.betas);
    let Equipped {
        mut loaded,
        events,
        stream,
        transcript,
        permissions,
        undo,
        tools,
        language,
        hooks,
        ..
    } = equipped;
    let questions = Questions::new(loaded.options.permissions.answerer, events.clone());
    questions.take_settings(&loaded.settings);
    let parts = Parts {
        events,
        permissions,
        hooks: hooks.clone(),
        questions: Arc::new(questions),
        tools,
        toolbox: Toolbox {
            deferred,
            ..Toolbox::of(registry, undo)
        },
        integrations: Integrations {
            mcp: Arc::default(),
            language,
            extensions: Arc::new(loaded.extensions),
            editor: Arc::default(),
        },
        choices,
        instructions: Some(prompt.instructions),
        transcript: transcript.writer,
        records: RecordFactory {
            session_id: transcript.session_id,
            cwd: loaded.places.environment.cwd.clone(),
            git_branch: prompt.branch.clone().unwrap_or_default(),
            agent_id: None,
        },
        parent_tool_use_id: None,
        seed: main_agent::seed(&fixed, &prompt.surrounding, prompt.branch.as_deref()),
        fixed,
    };
    let role = Role::Main {
        filter: loaded.main.as_ref().map(ToolFilter::of),
    };
    let mut conversation = Conversation::new(session, role, parts);
    connect_models(&conversation);
    switch_on(
        &mut conversation,
        &loaded.environment,
        &loaded.settings,
        &loaded.options,
        &mut loaded.remarks,
    );
    let source = source(&loaded.options, transcript.history.is_some());
    begin(
        &mut conversation,
        &loaded.options,
        transcript.history.as_ref(),
        &mut loaded.remarks,
    )?;
    first_words(&mut conversation, loaded.main.as_ref());
    Ok(Prepared {
        conversation,
        events: stream,
        remarks: loaded.remarks,
        history: transcript.history,
        start: Start {
            hooks,
            source,
            loaded_files,
            places: loaded.places,
            load_options: loaded.load_options,
            settings: loaded.settings,
            own_writes: loaded.own_writes,
            mcp: loaded.options.mcp,
            environment: loaded.environment,
        },
    })
}

/// Takes over the state of the session before this one, and the history of a resumed one.
fn begin(
    conversation: &mut Conversation,
    options: &SessionOptions,
    history: Option<&lathe_session::Loaded>,
    remarks: &mut Vec<Diagnostic>,
) -> Result<(), OpenError> {
    if let Some(carried) = &options.history.carried {
        take_over(conversation, carried, remarks);
    }
    if let Some(history) = history {
        restore(conversation, history, options, remarks)?;
    }
    let kept = history.and_then(|history| history.facts.coordinator);
    coordinator::begin(conversation, options, kept)
        .map_err(|error| OpenError::Usage(format!("coordinator mode: {error}")))
}

/// Tools that do nothing but ask the user.
const ASKING: [&str; 3] = [
    lathe_tools::ask_user_question::NAME,
    "EnterPlanMode",
    lathe_tools::plan_mode::EXIT,
];

/// The tools that the model may call, and those that are loaded on demand.
fn tools(
    equipped: &mut Equipped,
    agents: &AgentCatalog,
    model: &str,
) -> Result<(ToolRegistry, Arc<DeferredTools>), OpenError> {
    let Equipped {
        loaded,
        language,
        permissions,
        catalog,
        ..
    } = equipped;
    let web = WebTools::of(
        &loaded.environment,
        &loaded.settings,
        permissions,
        search::has_search(catalog, model).then_some(model),
        &mut loaded.remarks,
    );
    let mut registry = offered(
        &loaded.options,
        agents,
        &loaded.environment,
        language,
        web,
        model,
    )?;
    let sandbox = permissions.snapshot().sandbox.clone();
    if registry.find("Bash").is_some() && (sandbox.stays || !sandbox.bash_sandboxed) {
        let kept: Arc<dyn DynTool> = Arc::new(Erased::new(Bash {
            can_leave_sandbox: false,
        }));
        registry.replace(|tool| tool.name() == "Bash", vec![kept]);
    }
    if lathe_permissions::settings::denies_questions(&loaded.settings) {
        registry.retain(|tool| !ASKING.contains(&tool.name()));
    }
    let deferred = Arc::new(DeferredTools::default());
    if loaded.environment.switch(Variable::EnableToolSearch) != Some(false) {
        tool_search::add(&mut registry, &deferred);
    }
    if let Some(schema) = &loaded.options.tools.output_schema {
        let schema = lathe_schema::Schema::new(schema.clone())
            .map_err(|error| OpenError::Usage(format!("--json-schema: {error}")))?;
        registry.add_dyn(Arc::new(StructuredOutput::new(schema)));
    }
    Ok((registry, deferred))
}

fn instructions(equipped: &Equipped, model: &ResolvedModel) -> Instructions {
    let loaded = &equipped.loaded;
    let excludes = &loaded.settings.settings.instruction_excludes;
    let sources = loaded.options.settings.sources.as_ref();
    let left_out = |source| sources.is_some_and(|sources| !sources.contains(&source));
    Instructions::discover(
        &loaded.places,
        InstructionOptions {
            read_check: ReadCheck::new({
                let permissions = equipped.permissions.clone();
                move |path| permissions.why_hidden(path)
            }),
            roots: equipped.tools.roots.read().clone(),
            outside_imports: loaded.outside_imports,
            excludes: excludes.clone().unwrap_or_default(),
            largest_file: largest_file(model.info.context_window),
            without_project: left_out(Source::Project),
            without_user: left_out(Source::User),
            without_local: left_out(Source::Local),
        },
    )
}

/// The system prompt: output style, surroundings, instructions and memory.
fn prompt(
    equipped: &mut Equipped,
    model: &ResolvedModel,
    instructions: Instructions,
    branch: Option<String>,
    registry: &ToolRegistry,
) -> Prompt {
    let tools = &equipped.tools;
    let loaded = &mut equipped.loaded;
    let settings = &loaded.settings.settings;
    let styles = loaded.extensions.styles();
    let preset = loaded.plugins.style(&styles);
    let style = styles
        .forced()
        .map(|style| style.name.as_str())
        .or(settings.output_style.as_deref())
        .or(preset.as_deref());
    let style = loaded.extensions.choose_style(style, &mut loaded.remarks);
    let variables = &loaded.places.environment.variables;
    let variable = |name: &str| variables.get(name).map(String::as_str);
    let replaced = loaded.options.prompt.system.is_some();
    let surrounding = PromptParts {
        // How to talk is said by who brings a prompt of their own.
        style: if replaced {
            String::new()
        } else {
            style.prompt
        },
        style_alone: !style.keep_coding_instructions,
        replacement: loaded.options.prompt.system.clone(),
        appended: loaded.options.prompt.append.clone(),
        surroundings: Surroundings {
            cwd: loaded.places.environment.cwd.clone(),
            other_roots: tools.roots.read().iter().skip(1).cloned().collect(),
            git_branch: branch.clone(),
            platform: std::env::consts::OS.to_owned(),
            shell: tools
                .shell
                .program()
                .map_or_else(|| "none".to_owned(), |program| program.name().to_owned()),
            // Only workers of a coordinator have one; the mode may be switched later.
            scratch: None,
            date: crate::context::today::date(
                jiff::Timestamp::now(),
                variable("TZ"),
                variable("TZDIR"),
            ),
            model: model.id.clone(),
        },
        instructions: instructions_text(&instructions),
        memory: memory_text(&loaded.places, &loaded.settings, &mut loaded.remarks),
        language: settings.language.clone(),
        attribution: match settings.include_git_instructions {
            Some(false) => String::new(),
            _ => attribution_text(settings),
        },
        // A caller's prompt replaces ours; instructions, memory and surroundings stay.
        varying_apart: loaded.options.prompt.varying_apart || replaced,
        planning: loaded.options.prompt.plan_mode_instructions.clone(),
        lean: crate::context::lean::applies(model.info.context_window),
        task_tool: task_tools::named(registry, &equipped.permissions),
        coordinator: None,
        cache: cache_markers(&loaded.environment, &loaded.settings, &model.id),
    };
    let parts = match &loaded.main {
        Some(main) => main_agent::main_prompt(surrounding.clone(), main),
        None => surrounding.clone(),
    };
    Prompt {
        parts,
        surrounding,
        instructions,
        branch,
    }
}

/// The parts of requests that stay the same.
fn fixed(equipped: &Equipped, prompt: &Prompt, model: &ResolvedModel) -> Fixed {
    let Loaded {
        options,
        environment,
        settings,
        ..
    } = &equipped.loaded;
    let mut betas = options.model.betas.clone();
    betas.extend(model.betas.iter().cloned());
    if options.model.task_budget.is_some() {
        betas.push(TASK_BUDGET_BETA.to_owned());
    }
    let max_output_tokens = environment
        .get(Variable::MaxOutputTokens)
        .and_then(|text| text.parse().ok());
    let spent_in_run = options
        .history
        .carried
        .as_ref()
        .map_or(0.0, |it| it.spent_usd);
    let spent_in_session = kept_totals(equipped.transcript.history.as_ref());
    Fixed {
        system: prompt.parts.encode(),
        prompt: prompt.parts.clone(),
        limits: Limits {
            max_turns: options.limits.max_turns,
            max_budget_usd: options
                .limits
                .max_budget_usd
                .or(settings.settings.max_budget_usd),
            spent_before_usd: spent_in_session.map_or(0.0, |totals| totals.cost_usd())
                - spent_in_run,
            max_tokens: options
                .limits
                .max_session_tokens
                .or_else(|| {
                    let text = environment.get(Variable::MaxSessionTokens)?;
                    text.parse().ok()
                })
                .or(settings.settings.max_session_tokens),
            auto_compact: settings.settings.auto_compact.unwrap_or(true),
            fixed_output_cap: max_output_tokens.is_some(),
            structured_output: options.tools.output_schema.is_some(),
            token_budget: options.limits.token_budget,
        },
        policy: equipped.policy.clone(),
        betas,
        max_output_tokens,
        extra: output_config(options),
        cache: cache_markers(environment, settings, &model.id),
        keeps_durations: options.interactive,
    }
}

fn choices(equipped: &Equipped, model: &ResolvedModel) -> Result<Choices, OpenError> {
    let Loaded {
        options,
        environment,
        settings,
        ..
    } = &equipped.loaded;
    let mut fallbacks = options.model.fallbacks.clone();
    if fallbacks.is_empty()
        && let Some(list) = &settings.settings.fallback_model
    {
        fallbacks = list.list();
    }
    let available = settings.settings.available_models.as_deref();
    let fallbacks = fallbacks
        .iter()
        .map(|name| crate::turn::models::choose(&equipped.catalog, available, name))
        .map(|chosen| chosen.map(|model| model.id))
        .collect::<Result<_, _>>()
        .map_err(|refused| OpenError::Usage(refused.to_string()))?;
    // What the settings say is what a new session begins with.
    let of_settings = settings
        .settings
        .effort
        .map(lathe_settings::schema::Effort::name);
    let effort = match kept_choice(&equipped.transcript) {
        Some((_, Some(kept))) if options.model.effort.as_deref() == of_settings => {
            Some(kept.clone())
        }
        _ => options.model.effort.clone(),
    };
    let named = options.model.name.as_deref();
    let named = named.or(settings.settings.model.as_deref());
    Ok(Choices {
        planning: named.and_then(|name| crate::turn::models::planner_of(&equipped.catalog, name)),
        model: model.id.clone(),
        thinking: thinking(options, environment, settings, model),
        effort,
        fallbacks,
    })
}

/// The services that all conversations of the session share.
fn session(equipped: &Equipped, agents: Arc<AgentCatalog>, betas: &[String]) -> Arc<Session> {
    let Loaded {
        options,
        environment,
        settings,
        places,
        load_options,
        ..
    } = &equipped.loaded;
    let transcript = &equipped.transcript;
    let writer = options
        .history
        .persist
        .then(|| writer_options(options, &equipped.events));
    let output_style = settings.settings.output_style.clone();
    Arc::new(Session {
        id: transcript.session_id,
        provider: equipped.provider.clone(),
        catalog: equipped.catalog.clone(),
        settings: SessionSettings {
            value: RwLock::new(settings.value.clone()),
            layers: RwLock::new(live::layers(settings)),
            loader: live::SettingsLoader::new(
                places.clone(),
                load_options.clone(),
                live::folders_of_settings(settings, places, &options.permissions.folders),
            ),
            key_source: equipped.key_source.clone(),
            no_sandbox: options.permissions.no_sandbox,
            is_interactive: options.interactive,
            program: options.team.program.clone(),
            model_is_pinned: options.model.name.is_some()
                || environment.get(Variable::Model).is_some(),
        },
        plugins: equipped.loaded.plugins.clone(),
        agents: main_agent::agents(
            agents,
            transcript.paths.clone(),
            writer,
            environment,
            options,
        ),
        team: RwLock::default(),
        schedule: super::schedule::schedule(&equipped.loaded),
        purse: Purse::new(
            kept_totals(transcript.history.as_ref()).map_or(0.0, |totals| totals.cost_usd()),
        ),
        background: Arc::default(),
        mcp_servers: RwLock::default(),
        tool_aliases: options.tools.aliases.clone(),
        senders: crate::session::messages::Senders::default(),
        init: SessionInit {
            api_key_source: equipped.key_source.clone(),
            output_style: output_style.unwrap_or_else(|| "default".into()),
            betas: betas.to_vec(),
            ..SessionInit::default()
        },
    })
}

/// Lets the classifier and the hooks ask models through the conversation.
fn connect_models(conversation: &Conversation) {
    let shared = &conversation.shared;
    shared.questions.take_classifier(shared);
    shared.hooks.registry.set_model(Arc::new(SessionHookModel {
        shared: Arc::downgrade(shared),
    }));
}

/// Switches on the work beside the turns that options, settings and variables ask for.
fn switch_on(
    conversation: &mut Conversation,
    environment: &Environment,
    settings: &Resolved,
    options: &SessionOptions,
    remarks: &mut Vec<Diagnostic>,
) {
    let of_settings = &settings.settings;
    let shared = &conversation.shared;
    shared.state.notes.kept.enable(switched_on(
        environment,
        Variable::SessionNotes,
        of_settings.session_notes,
    ));
    shared.session.background.wait_at_end(!options.interactive);
    let context = &mut conversation.context;
    context.upkeep.magic_docs.kept.enabled =
        switched_on(environment, Variable::MagicDocs, of_settings.magic_docs);
    let titles = of_settings.session_titles.unwrap_or(true) && options.interactive;
    context.title_wanted =
        options.history.persist && switched_on(environment, Variable::SessionTitles, Some(titles));
    if options.prompt.keep {
        context.kept_prompt = KeptPrompt::Wanted;
    }
    context.upkeep.extracting.extractor.mode = extraction(environment, settings, options, remarks);
}

/// Where the session comes from, as `SessionStart` hooks get it.
fn source(options: &SessionOptions, has_history: bool) -> &'static str {
    let cleared = options
        .history
        .carried
        .as_ref()
        .is_some_and(|it| it.cleared);
    match (has_history, options.history.fork) {
        (false, _) if cleared => "clear",
        (true, true) => "fork",
        (true, false) => "resume",
        (false, _) => "startup",
    }
}

/// Takes over what the session before this one had.
fn take_over(conversation: &Conversation, carried: &Carried, remarks: &mut Vec<Diagnostic>) {
    let shared = &conversation.shared;
    shared.choices.write().model.clone_from(&carried.model);
    if carried.mode != shared.permissions.mode()
        && let Err(error) = shared.permissions.set_mode(carried.mode)
    {
        remarks.push(Diagnostic::warning(error.to_string()));
    }
}

/// The beginning of a new conversation: the prompt of the agent that it runs as, and the varying part of the
/// prompt where that goes into the conversation.
fn first_words(conversation: &mut Conversation, main: Option<&lathe_extensions::AgentDefinition>) {
    if conversation.tip.is_some() {
        return;
    }
    if let Some(text) = conversation.fixed.prompt.told_apart() {
        let record = conversation.records.meta(None, reminder(&text));
        conversation.append(record);
    }
    if let Some(main) = main {
        main_agent::brief_main(conversation, main);
    }
}

/// The part of the system prompt about kept memory.
fn memory_text(places: &Places, settings: &Resolved, remarks: &mut Vec<Diagnostic>) -> String {
    if settings.settings.auto_memory == Some(false) {
        return String::new();
    }
    let memory = AutoMemory::of(&places.config_home, &places.project);
    if let Some(warning) = memory.index().and_then(|index| index.warning) {
        remarks.push(Diagnostic::warning(warning));
    }
    memory.prompt()
}

/// Whether something worth remembering is looked for. In print mode only where the variable asks.
fn extraction(
    environment: &Environment,
    settings: &Resolved,
    options: &SessionOptions,
    remarks: &mut Vec<Diagnostic>,
) -> Extraction {
    if settings.settings.auto_memory == Some(false) || !options.history.persist {
        return Extraction::Off;
    }
    if let Some(name) = environment.get(Variable::MemoryExtraction) {
        return Extraction::named(name).unwrap_or_else(|| {
            remarks.push(
                Diagnostic::error(format!("{name:?} is not one of off, propose, keep"))
                    .about("LATHE_MEMORY_EXTRACTION"),
            );
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

/// Whether something is on that is off by itself: a variable decides, else a setting.
fn switched_on(environment: &Environment, variable: Variable, setting: Option<bool>) -> bool {
    environment.switch(variable).or(setting).unwrap_or(false)
}
