//! Building an agent's conversation.
//!
//! It is a [`Conversation`] of the same session with parts of its own: history, inbox, working folder,
//! memory of files, counters of denials, transcript. It shares the parent's hooks, the shell's environment,
//! undo, and (unless the agent's rights differ) the permissions.

use crate::agents::fork;
use crate::agents::{
    AgentEntry, AgentError, AgentPlace, ForkPoint, Host, Seed, ToolFilter, listed,
};
use crate::context::prompt::PromptParts;
use crate::conversation::hook_points::HookPoints;
use crate::conversation::language::Language;
use crate::conversation::questions::Questions;
use crate::conversation::records::RecordFactory;
use crate::conversation::{
    Choices, Conversation, ConversationShared, Fixed, Integrations, Parts, Role, Toolbox,
};
use crate::session::events::{self, EventSink, EventStream};
use crate::turn::decide::Limits;
use crate::worktree::Worktree;
use lathe_extensions::{AgentDefinition, AgentMemory};
use lathe_memory::{AgentHomes, AgentScope, AutoMemory, SnapshotState};
use lathe_permissions::{PermissionContext, Permissions, Rule};
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_protocol::permission::{Behavior, PermissionMode, RuleSource};
use lathe_protocol::record::Record;
use lathe_session::TranscriptWriter;
use lathe_settings::instructions::Instructions;
use lathe_tools::agent::{self, Agent};
use lathe_tools::structured_output::StructuredOutput;
use lathe_tools::{ToolContext, ToolRegistry};
use parking_lot::Mutex;
use std::sync::Arc;

/// Model calls of an agent whose definition says nothing.
const USUAL_TURNS: u32 = 200;

/// The history that an agent starts with.
pub(crate) enum StartFrom {
    /// Nothing.
    New,
    /// Where its parent stands.
    Fork(Arc<ForkPoint>),
    /// Its own history.
    Again(Vec<Arc<Record>>),
}

/// An agent to be built.
pub(crate) struct Start<'a> {
    pub(crate) parent: &'a Arc<ConversationShared>,
    pub(crate) entry: &'a Arc<AgentEntry>,
    /// Who it is; a fork has no definition.
    pub(crate) definition: Option<&'a AgentDefinition>,
    pub(crate) model: String,
    pub(crate) worktree: Option<&'a Worktree>,
    pub(crate) history: StartFrom,
    pub(crate) turn: lathe_protocol::ids::RecordId,
}

/// Builds the conversation of an agent.
///
/// # Errors
/// When its transcript can't be written.
pub(crate) fn build(start: Start<'_>) -> Result<(Conversation, EventStream), AgentError> {
    let Start {
        parent,
        entry,
        definition,
        model,
        worktree,
        history,
        turn,
    } = start;
    let root = parent.root();
    let seed = parent.seed.clone();
    let depth = parent.depth() + 1;
    let (sink, stream) = events::channel();
    let memory = definition.and_then(|definition| memory_of(&root, definition));
    let own_mode = entry.state().mode;
    let permissions = permissions(parent, definition, own_mode, worktree, memory.as_ref());
    let (tools, language) = tool_context(parent, worktree);
    let folder = tools.working_folder.read().clone();
    let filter = definition.map(ToolFilter::of_agent).unwrap_or_default();
    let mut registry = match &history {
        StartFrom::Fork(point) => point.tools.clone(),
        _ => registry(parent, &root, &filter, entry.is_background(), depth),
    };
    let shape = shape_of(entry);
    let hooks = hooks(parent, &root, entry, &tools, &permissions, &sink);
    let questions = Arc::new(Questions::for_agent(&parent.questions, &root, entry));
    let is_fork = matches!(history, StartFrom::Fork(_)) || entry.agent_type == agent::FORK;
    let (mut fixed, child_seed) = fixed(&seed, &root, definition, &model, &folder, memory.as_ref());
    if let Some(tool) = shape {
        registry.add_dyn(Arc::new(tool));
        fixed.limits.structured_output = true;
    }
    let place = AgentPlace {
        id: entry.id.clone(),
        depth,
        types: filter.types.clone(),
        turn,
        reminder: definition.and_then(|definition| definition.run.critical_reminder.clone()),
        root: Arc::downgrade(&root),
        entry: entry.clone(),
    };
    let parts = Parts {
        events: sink,
        permissions,
        hooks,
        questions,
        tools: tools.clone(),
        toolbox: Toolbox::of(registry, parent.toolbox.undo.clone()),
        integrations: Integrations {
            mcp: Arc::new(crate::mcp::Mcp::for_agent(&root.integrations.mcp, filter)),
            language,
            extensions: parent.integrations.extensions.for_inner(),
            editor: parent.integrations.editor.clone(),
        },
        choices: choices(parent, &root, definition, &history, model),
        instructions: own_instructions(&root, definition, &folder),
        transcript: transcript(parent, entry, &history)?,
        records: RecordFactory {
            session_id: parent.session.id,
            cwd: folder,
            git_branch: worktree.map_or_else(
                || seed.git_branch.clone(),
                |worktree| worktree.branch.clone(),
            ),
            agent_id: Some(entry.id.clone()),
        },
        parent_tool_use_id: entry.tool_use_id.clone(),
        fixed,
        seed: Arc::new(child_seed),
    };
    let role = if is_fork {
        Role::Fork(place)
    } else {
        Role::Agent(place)
    };
    let mut conversation = Conversation::new(parent.session.clone(), role, parts);
    let shared = &conversation.shared;
    tools.set_host(Arc::new(Host::new(shared)));
    shared.questions.take_classifier(shared);
    take_start(&mut conversation, parent, history);
    entry.update(|state| {
        state.model.clone_from(&conversation.model);
        state.conversation = Arc::downgrade(&conversation.shared);
        state.turn = Some(turn);
    });
    Ok((conversation, stream))
}

/// The tool by which an agent gives an answer of a shape that was asked for.
fn shape_of(entry: &AgentEntry) -> Option<StructuredOutput> {
    let schema = entry.state().schema?;
    let schema = lathe_schema::Schema::new(schema);
    schema.ok().map(StructuredOutput::new)
}

/// The context of an agent's tools, in its worktree or in its parent's folder.
fn tool_context(
    parent: &ConversationShared,
    worktree: Option<&Worktree>,
) -> (Arc<ToolContext>, Language) {
    let mut roots = parent.tools.roots.read().clone();
    let folder = match worktree {
        Some(worktree) => {
            roots.insert(0, worktree.path.clone());
            worktree.path.clone()
        }
        None => parent.tools.working_folder.read().clone(),
    };
    let mut tools = parent.tools.for_agent(folder, roots);
    let language = parent.integrations.language.beside();
    language.observe(&mut tools, parent.toolbox.undo.clone());
    (Arc::new(tools), language)
}

/// Gives a new conversation the history that it starts from.
fn take_start(conversation: &mut Conversation, parent: &ConversationShared, history: StartFrom) {
    match history {
        StartFrom::New => {}
        StartFrom::Fork(point) => {
            fork::take_fork_point(conversation, &point);
            let extensions = &conversation.shared.integrations.extensions;
            extensions.know_as(&parent.integrations.extensions);
        }
        StartFrom::Again(records) => take_history(conversation, &records),
    }
}

/// An agent's hooks: its parent's, with its own tools, permissions and events.
fn hooks(
    parent: &ConversationShared,
    root: &ConversationShared,
    entry: &AgentEntry,
    tools: &Arc<ToolContext>,
    permissions: &Arc<Permissions>,
    events: &EventSink,
) -> Arc<HookPoints> {
    Arc::new(HookPoints {
        registry: parent.hooks.registry.clone(),
        late: Mutex::new(tokio::sync::mpsc::unbounded_channel().1),
        session_id: parent.session.id,
        transcript: root.transcript.path().to_owned(),
        project: parent.hooks.project.clone(),
        tools: tools.clone(),
        permissions: permissions.clone(),
        events: events.clone(),
        environment_file: None,
        agent: Some((entry.id.clone(), entry.agent_type.clone())),
        watched: crate::conversation::watched_files::WatchedFiles::default(),
        moment: Mutex::new(parent.hooks.moment.lock().for_agent()),
    })
}

/// Restores what an agent said and did before.
fn take_history(conversation: &mut Conversation, records: &[Arc<Record>]) {
    for record in records {
        conversation.history.push(record);
        if let Record::Message(message) = &**record {
            conversation.context.meter.replay(message);
            let shared = &conversation.shared;
            let hidden = |skill: &lathe_extensions::Skill| shared.hidden_file_of(skill).is_some();
            shared.integrations.extensions.replay(message, &hidden);
            conversation.tip = Some(message.uuid);
        }
    }
}

/// An agent's choices: its parent's, but for what its definition says.
fn choices(
    parent: &ConversationShared,
    root: &ConversationShared,
    definition: Option<&AgentDefinition>,
    history: &StartFrom,
    model: String,
) -> Choices {
    let effort = definition.and_then(|definition| definition.run.effort);
    let thinking = match history {
        StartFrom::Fork(point) => point.thinking,
        _ => root.choices.read().thinking,
    };
    let of_parent = parent.choices.read();
    Choices {
        model,
        thinking,
        effort: effort
            .map(|effort| effort.name().to_owned())
            .or_else(|| of_parent.effort.clone()),
        // An agent works with the model that was chosen for it.
        planning: None,
        fallbacks: of_parent.fallbacks.clone(),
    }
}

/// The instruction files that come when an agent touches their folders. Those that hold from the start are in the
/// prompt.
fn own_instructions(
    root: &ConversationShared,
    definition: Option<&AgentDefinition>,
    folder: &std::path::Path,
) -> Option<Instructions> {
    if definition.is_some_and(|definition| definition.run.omit_instructions) {
        return None;
    }
    let all = root.state.instructions.lock();
    all.as_ref().map(|all| all.for_folder(folder))
}

fn transcript(
    parent: &ConversationShared,
    entry: &AgentEntry,
    history: &StartFrom,
) -> Result<TranscriptWriter, AgentError> {
    let path = parent.session.agents.paths.agent_transcript(&entry.id);
    let Some(options) = parent.session.agents.writer.clone() else {
        return Ok(TranscriptWriter::disabled(&path));
    };
    let writer = match history {
        StartFrom::New | StartFrom::Fork(_) => TranscriptWriter::create(&path, options),
        StartFrom::Again(_) => TranscriptWriter::open_append(&path, options),
    };
    Ok(writer?)
}

/// The tools of an agent: the session's, filtered, with the agents that it may start itself.
fn registry(
    parent: &ConversationShared,
    root: &ConversationShared,
    filter: &ToolFilter,
    background: bool,
    depth: u32,
) -> ToolRegistry {
    let all = root.toolbox.registry.read().clone();
    let mut tools = filter.apply(&all, background, depth);
    // An agent has no more tools than the one that starts it, unless that one's definition names it.
    if let Some(place) = parent.role.place().filter(|place| place.types.is_none()) {
        let own = parent.toolbox.registry.read();
        let in_background = place.entry.is_background();
        tools.retain(|tool| {
            own.find(tool.name()).is_some()
                || tool.name().starts_with("mcp__")
                || (in_background && !crate::agents::filter::works_in_background(tool.name()))
        });
    }
    if tools.find(agent::NAME).is_some() {
        let list = listed(
            &parent.session.agents.catalog(),
            filter.types.as_deref(),
            !root.coordinates(),
        );
        tools.retain(|tool| tool.name() != agent::NAME);
        tools.add(Agent::new(
            list.iter()
                .map(|(name, purpose)| (name.as_str(), purpose.as_str())),
        ));
    }
    tools
}

/// Whose memory an agent keeps.
fn memory_of(root: &ConversationShared, definition: &AgentDefinition) -> Option<AutoMemory> {
    let scope = match definition.run.memory? {
        AgentMemory::User => AgentScope::User,
        AgentMemory::Project => AgentScope::Project,
        AgentMemory::Local => AgentScope::Local,
    };
    let places = &root.session.settings.loader.places;
    let homes = AgentHomes {
        config_home: &places.config_home,
        claude_home: places.claude_home.as_deref(),
        project: &places.project,
    };
    let memory = AutoMemory::of_agent(homes, &definition.name, scope);
    if memory.take_snapshot(&definition.name) == SnapshotState::Newer {
        root.events.news(News::new(Priority::Low),
            NoticeLevel::Info,
            format!(
                "The project has another snapshot of the memory of agent {}; delete {} to begin with it.",
                definition.name,
                memory.folder().display()
            ),
        );
    }
    Some(memory)
}

/// The permissions of an agent: its parent's own, unless something differs.
fn permissions(
    parent: &Arc<ConversationShared>,
    definition: Option<&AgentDefinition>,
    own_mode: Option<PermissionMode>,
    worktree: Option<&Worktree>,
    memory: Option<&AutoMemory>,
) -> Arc<Permissions> {
    let of_definition = definition.and_then(|definition| {
        let wanted = definition.permission_mode?;
        // A parent that may do more, or only plan, doesn't hand out another mode.
        (parent.permissions.mode() == PermissionMode::Default && wanted != PermissionMode::Default)
            .then_some(wanted)
    });
    let mode = own_mode.or(of_definition);
    let filter = definition.map(ToolFilter::of_agent).unwrap_or_default();
    let reads_only = definition.is_some_and(|definition| definition.read_only);
    let others = definition.is_some() && !parent.permissions.snapshot().limits.only.is_empty();
    let narrows = others || reads_only || !filter.denied.is_empty() || !filter.only.is_empty();
    if mode.is_none() && worktree.is_none() && memory.is_none() && !narrows {
        return parent.permissions.clone();
    }
    Arc::new(parent.permissions.for_agent(|context| {
        if let Some(mode) = mode {
            context.mode = mode;
        }
        if let Some(worktree) = worktree {
            context.enter_worktree(&worktree.repository, &worktree.path, true);
        }
        if let Some(memory) = memory {
            context.files.session_paths.push(memory.folder().to_owned());
        }
        let folder = memory.map(AutoMemory::folder);
        narrow(context, &filter, reads_only, folder);
    }))
}

/// Narrows what may be done to what a definition says.
pub(crate) fn narrow(
    context: &mut PermissionContext,
    filter: &ToolFilter,
    reads_only: bool,
    memory: Option<&std::path::Path>,
) {
    let anchors = context.anchors(RuleSource::Session);
    let compiled = |text: &str, behavior| {
        lathe_permissions::parse_rule(text)
            .and_then(|rule| Rule::new(rule, behavior, RuleSource::Session, &anchors))
            .inspect_err(|error| tracing::warn!(%error, "an agent's rule means nothing"))
            .ok()
    };
    for text in &filter.denied {
        if let Some(rule) = compiled(text, Behavior::Deny) {
            context.rules.add(rule);
        }
    }
    context.limits.reads_only |= reads_only;
    // An agent that is limited can't start one that isn't.
    let outer = std::mem::take(&mut context.limits.only);
    if !outer.is_empty() {
        context.limits.inherited.push(outer);
    }
    let for_memory = filter.for_memory.iter().filter_map(|tool| {
        let folder = memory?.display();
        Some(format!("{tool}(/{folder}/**)"))
    });
    for text in filter.only.iter().cloned().chain(for_memory) {
        if let Some(rule) = compiled(&text, Behavior::Allow) {
            context.limits.only.push(rule);
        } else if let Some(rule) = compiled(tool_of(&text), Behavior::Deny) {
            // A use that can't be understood is none.
            context.rules.add(rule);
        }
    }
}

/// The tool of a rule as written.
fn tool_of(rule: &str) -> &str {
    rule.split('(').next().unwrap_or(rule)
}

/// The parts of an agent that don't change.
fn fixed(
    seed: &Arc<Seed>,
    root: &Arc<ConversationShared>,
    definition: Option<&AgentDefinition>,
    model: &str,
    folder: &std::path::Path,
    memory: Option<&AutoMemory>,
) -> (Fixed, Seed) {
    let mut child = Seed::clone(seed);
    child.limits = Limits {
        max_turns: Some(
            definition
                .and_then(|definition| definition.run.max_turns)
                .unwrap_or(USUAL_TURNS),
        ),
        structured_output: false,
        token_budget: None,
        ..seed.limits
    };
    if let Some(definition) = definition {
        let mut around = seed.prompt.clone();
        around.surroundings.scratch = root.scratch();
        child.prompt = prompt(around, definition, model, folder, memory);
    }
    child.betas.extend(
        root.session
            .catalog
            .resolve(model)
            .betas
            .into_iter()
            .filter(|beta| !seed.betas.contains(beta)),
    );
    let fixed = Fixed {
        system: child.prompt.encode(),
        prompt: child.prompt.clone(),
        limits: child.limits,
        policy: child.policy.clone(),
        betas: child.betas.clone(),
        max_output_tokens: child.max_output_tokens,
        extra: child.extra.clone(),
        cache: child.cache,
        keeps_durations: false,
    };
    // Agents that it starts get the session's surroundings, not its own.
    child.prompt = seed.prompt.clone();
    (fixed, child)
}

/// An agent's system prompt: its definition's, what holds for all agents, and where it works.
fn prompt(
    mut around: PromptParts,
    definition: &AgentDefinition,
    model: &str,
    folder: &std::path::Path,
    memory: Option<&AutoMemory>,
) -> PromptParts {
    around.surroundings.cwd = folder.to_owned();
    model.clone_into(&mut around.surroundings.model);
    around.memory = memory.map(AutoMemory::prompt).unwrap_or_default();
    if definition.run.omit_instructions {
        around.instructions = String::new();
    }
    let varying = around.varying();
    PromptParts {
        replacement: Some(format!(
            "{}\n\n{}",
            definition.prompt.trim_end(),
            include_str!("../../prompts/agent.md").trim_end()
        )),
        appended: Some(varying),
        varying_apart: false,
        ..around
    }
}
