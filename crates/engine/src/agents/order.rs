//! Starting an agent that the model orders.

use crate::agents::run::{self, Ready};
use crate::agents::start::{self, Start, StartFrom};
use crate::agents::{AgentEntry, ForkPoint, MOST_DEPTH, NewAgent, fork, listed, team};
use crate::conversation::{Conversation, ConversationShared};
use crate::session::events::EventStream;
use crate::turn::models;
use crate::worktree::{self, Worktree, WorktreeError};
use lathe_extensions::AgentDefinition;
use lathe_extensions::agents::Isolation;
use lathe_extensions::expand::{expand, without_running};
use lathe_hooks::{HookSource, SourceHandle};
use lathe_protocol::event::{Event, NoticeLevel};
use lathe_protocol::ids::{AgentId, RecordId, ToolUseId};
use lathe_protocol::op::Prompt;
use lathe_settings::Variable;
use lathe_tools::agent::{FORK, GENERAL};
use lathe_tools::host::{AgentOrder, AgentReport, AgentStatus};
use lathe_tools::{CallContext, ToolError};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Whether background work is possible here.
fn may_go_on(shared: &ConversationShared) -> bool {
    let environment = &shared.tools.environment;
    !environment.is_on(Variable::DisableBackgroundTasks)
}

/// The definition that an order names; `None` is a fork.
fn definition_of(
    shared: &Arc<ConversationShared>,
    order: &AgentOrder,
) -> Result<Option<AgentDefinition>, ToolError> {
    let wanted = order.agent_type.as_deref().unwrap_or(GENERAL);
    let types = shared.role.place().and_then(|place| place.types.as_deref());
    let main_types = shared
        .role
        .filter()
        .and_then(|filter| filter.types.as_deref());
    let types = types.or(main_types);
    let catalog = shared.session.agents.catalog();
    let coordinated = shared.root().coordinates();
    let known = || {
        let names: Vec<String> = listed(&catalog, types, !coordinated)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.join(", ")
    };
    if wanted == FORK && catalog.get(FORK).is_none() {
        if coordinated {
            return Err(ToolError::failed(format!(
                "Forks are off in coordinator mode: give a worker its own order. Agents: {}.",
                known()
            )));
        }
        if shared.role.is_fork() {
            return Err(ToolError::failed(
                "A fork can't be forked again. Do it yourself, or start another type of agent.",
            ));
        }
        if types.is_some_and(|types| !types.iter().any(|name| name == FORK)) {
            return Err(ToolError::failed(format!(
                "You may not start forks. Agents that you may start: {}.",
                known()
            )));
        }
        return Ok(None);
    }
    let Some(definition) = catalog.get(wanted) else {
        return Err(ToolError::invalid(format!(
            "There is no agent {wanted}. Agents: {}.",
            known()
        )));
    };
    if types.is_some_and(|types| !types.contains(&definition.name)) {
        return Err(ToolError::failed(format!(
            "You may not start the agent {wanted}. Agents that you may start: {}.",
            known()
        )));
    }
    Ok(Some(definition.clone()))
}

/// The model of an agent: the environment's word, the call's, the definition's, the parent's.
fn model_of(
    shared: &ConversationShared,
    order: &AgentOrder,
    definition: &AgentDefinition,
) -> String {
    let environment = &shared.tools.environment;
    let forced = environment.get(Variable::SubagentModel).map(str::to_owned);
    let parents = || shared.choices.read().model.clone();
    let wanted = forced
        .or_else(|| order.model.clone())
        .or_else(|| definition.model.clone());
    match wanted.as_deref() {
        None | Some("inherit") => parents(),
        Some("small") => shared.session.catalog.small_fast_model().id,
        Some(name) => models::choose_model_or(shared, name, parents),
    }
}

/// Starts the agent of an order, and waits for it unless it works in the background.
pub(super) async fn run_agent(
    shared: &Arc<ConversationShared>,
    order: AgentOrder,
    call: &CallContext,
) -> Result<AgentReport, ToolError> {
    if shared.depth() >= MOST_DEPTH {
        return Err(ToolError::failed(format!(
            "Agents may start agents only {MOST_DEPTH} deep, and you are at that depth. Do it yourself."
        )));
    }
    let definition = definition_of(shared, &order)?;
    let team = team::check_order(shared, &order)?;
    let usual = shared.role.place().is_none();
    let background = order
        .background
        .or_else(|| definition.as_ref().and_then(|it| it.run.background))
        .unwrap_or(usual)
        && may_go_on(shared);
    if team.is_some() && !may_go_on(shared) {
        return Err(ToolError::failed(
            "Background work is off here, and members of a team work in the background.",
        ));
    }
    let background = background || team.is_some();
    let entry = new_entry(shared, &order, definition.as_ref(), background, call);
    shared.session.agents.admit(entry.clone())?;
    // From here on it is listed as running, so every failure must end it.
    let joined = match &team {
        Some(team) => team::join(shared, team, &entry, &order),
        None => Ok(()),
    };
    let started = match joined {
        Ok(()) => {
            start_member(
                shared,
                &order,
                definition.as_ref(),
                &entry,
                team.as_ref(),
                call,
            )
            .await
        }
        Err(error) => Err(error),
    };
    if let Some(team) = &team {
        team::leave(team, &entry, started.is_ok());
    }
    if let Err(error) = started {
        entry.update(|state| {
            state.status = AgentStatus::Failed;
            state.result = error.to_string();
        });
        entry.set_known(true);
        entry.over.send_replace(true);
        return Err(error);
    }
    if background {
        return Ok(AgentReport::Started(Box::new(entry.view())));
    }
    tokio::select! {
        biased;
        () = entry.over() => Ok(AgentReport::Finished(Box::new(entry.view()))),
        () = call.cancel.cancelled() => {
            entry.cancel.cancel();
            entry.over().await;
            Err(ToolError::Cancelled(format!(
                "The agent was stopped. SendMessage with to: \"{}\" continues it.",
                entry.id
            )))
        }
        () = call.to_background.cancelled() => {
            send_to_background(shared, &entry);
            Ok(AgentReport::Started(Box::new(entry.view())))
        }
    }
}

/// Starts an agent: as a process of its own, if it is a member of a team that is to be one.
async fn start_member(
    shared: &Arc<ConversationShared>,
    order: &AgentOrder,
    definition: Option<&AgentDefinition>,
    entry: &Arc<AgentEntry>,
    team: Option<&Arc<team::Team>>,
    call: &CallContext,
) -> Result<(), ToolError> {
    if let (Some(team), Some(definition)) = (team, definition)
        && team.runs_as_process(entry)
    {
        let model = model_of(shared, order, definition);
        return team::begin_process(shared, team, order, definition, entry, model).await;
    }
    start_agent(shared, order, definition, entry, call).await
}

/// Lets an agent continue without its call.
fn send_to_background(shared: &Arc<ConversationShared>, entry: &AgentEntry) {
    entry.set_background();
    // Faces that keep a list of what works in the background learn of it as of one that began there.
    let root = shared.root();
    root.events.send(Event::Task(run::started(entry)));
    shared.session.agents.keep(entry);
    if let Some(conversation) = entry.state().conversation.upgrade() {
        conversation.questions.send_to_background();
    }
}

/// Cancelled with the agent or session that starts an agent.
pub(super) fn child_token(shared: &ConversationShared) -> CancellationToken {
    match shared.role.place() {
        Some(place) => place.entry.cancel.child_token(),
        None => shared.session.agents.cancel.child_token(),
    }
}

/// The entry of an agent that a conversation starts: one of a definition, or a fork.
fn new_entry(
    shared: &Arc<ConversationShared>,
    order: &AgentOrder,
    definition: Option<&AgentDefinition>,
    background: bool,
    call: &CallContext,
) -> Arc<AgentEntry> {
    AgentEntry::new(NewAgent {
        name: order.name.clone(),
        agent_type: definition.map_or_else(|| FORK.to_owned(), |it| it.name.clone()),
        parent: shared.role.place().map(|place| place.id.clone()),
        background,
        cancel: child_token(shared),
        ..nameless(shared, order, call)
    })
}

/// The entry of an agent that a run of a workflow starts.
pub(super) fn child_of(
    shared: &Arc<ConversationShared>,
    order: &AgentOrder,
    definition: &AgentDefinition,
    run: &AgentEntry,
    call: &CallContext,
) -> Arc<AgentEntry> {
    AgentEntry::new(NewAgent {
        agent_type: definition.name.clone(),
        parent: Some(run.id.clone()),
        cancel: run.cancel.child_token(),
        ..nameless(shared, order, call)
    })
}

/// The facts that an order alone decides.
fn nameless(shared: &ConversationShared, order: &AgentOrder, call: &CallContext) -> NewAgent {
    let id = AgentId(new_id('a'));
    let results = &shared.tools.results_folder;
    NewAgent {
        output_file: results.join(format!("agent-{id}.output")),
        id,
        name: None,
        agent_type: String::new(),
        description: order.description.clone(),
        prompt: order.prompt.clone(),
        tool_use_id: Some(call.tool_use_id.clone()),
        parent: None,
        background: false,
        cancel: CancellationToken::new(),
        status: AgentStatus::Running,
    }
}

/// An id that begins with a letter.
pub(super) fn new_id(kind: char) -> String {
    let letters = RecordId::random().to_string();
    let unique = letters.chars().filter(|letter| *letter != '-').take(16);
    std::iter::once(kind).chain(unique).collect()
}

pub(super) async fn start_agent(
    shared: &Arc<ConversationShared>,
    order: &AgentOrder,
    definition: Option<&AgentDefinition>,
    entry: &Arc<AgentEntry>,
    call: &CallContext,
) -> Result<(), ToolError> {
    let turn = shared.role.place().map_or(call.turn, |place| place.turn);
    let Some(definition) = definition else {
        return start_fork(shared, order, entry, call, turn).await;
    };
    let isolated = order.worktree || definition.run.isolation == Some(Isolation::Worktree);
    let worktree = if isolated {
        Some(new_worktree(shared, entry).await?)
    } else {
        None
    };
    let mut briefing = preloaded(shared, definition);
    briefing.extend(team::briefing(shared, entry));
    if let Some(worktree) = &worktree {
        let folder = shared.tools.working_folder.read().clone();
        briefing.push(worktree.briefing(&folder));
    }
    let briefing = (!briefing.is_empty()).then(|| briefing.join("\n\n"));
    entry.update(|state| {
        state.schema.clone_from(&order.schema);
        state.phase.clone_from(&order.phase);
    });
    let start = Start {
        parent: shared,
        entry,
        definition: Some(definition),
        model: model_of(shared, order, definition),
        worktree: worktree.as_ref(),
        history: StartFrom::New,
        turn,
    };
    let (conversation, stream) = build(start, worktree.as_ref()).await?;
    if let Some(effort) = &order.effort {
        let choices = &conversation.shared.choices;
        choices.write().effort = Some(effort.clone());
    }
    Ready {
        entry: entry.clone(),
        conversation,
        stream,
        parent: shared.clone(),
        prompt: order_prompt(&order.prompt),
        worktree,
        hooks: add_hooks(shared, definition),
        briefing,
        definition: Some(definition.clone()),
    }
    .spawn();
    Ok(())
}

/// Starts a copy of the conversation, in a worktree of its own if that is wanted.
async fn start_fork(
    shared: &Arc<ConversationShared>,
    order: &AgentOrder,
    entry: &Arc<AgentEntry>,
    call: &CallContext,
    turn: RecordId,
) -> Result<(), ToolError> {
    let point = fork_point(shared, &call.tool_use_id, call).await?;
    entry.update(|state| state.forked_from = point.tip);
    let worktree = match order.worktree {
        true => Some(new_worktree(shared, entry).await?),
        false => None,
    };
    let folder = shared.tools.working_folder.read().clone();
    let start = Start {
        parent: shared,
        entry,
        definition: None,
        model: point.model.clone(),
        worktree: worktree.as_ref(),
        history: StartFrom::Fork(point),
        turn,
    };
    let (conversation, stream) = build(start, worktree.as_ref()).await?;
    Ready {
        entry: entry.clone(),
        conversation,
        stream,
        parent: shared.clone(),
        prompt: order_prompt(&fork::directive(&order.prompt)),
        briefing: worktree.as_ref().map(|worktree| worktree.briefing(&folder)),
        worktree,
        hooks: None,
        definition: None,
    }
    .spawn();
    Ok(())
}

/// Builds a conversation. If that fails, its worktree goes.
async fn build(
    start: Start<'_>,
    worktree: Option<&Worktree>,
) -> Result<(Conversation, EventStream), ToolError> {
    match start::build(start) {
        Ok(built) => Ok(built),
        Err(error) => {
            if let Some(worktree) = worktree {
                worktree.conclude(Some(&[])).await;
            }
            Err(error.into())
        }
    }
}

/// Makes an agent's worktree, from where its parent stands.
pub(super) async fn new_worktree(
    shared: &ConversationShared,
    entry: &AgentEntry,
) -> Result<Worktree, WorktreeError> {
    let made = worktree::make(shared, &format!("agent-{}", entry.id)).await?;
    entry.update(|state| {
        state.worktree = Some(made.path.clone());
        state.isolated = true;
    });
    Ok(made)
}

/// The skills that an agent knows from the start.
pub(crate) fn preloaded(shared: &ConversationShared, definition: &AgentDefinition) -> Vec<String> {
    let skills = shared.integrations.extensions.skills();
    let effort = definition
        .run
        .effort
        .map_or_else(|| shared.hooks.effort(), |effort| effort.name().to_owned());
    let mut texts = Vec::new();
    for name in &definition.skills {
        let skill = skills
            .get(name)
            .filter(|skill| shared.hidden_file_of(skill).is_none());
        match skill.map(|skill| (skill, skill.body())) {
            Some((skill, Ok(body))) => {
                // Filled in, but nothing of it is run: nobody asked for it now.
                let session_id = shared.session.id.to_string();
                let segments = expand(&body, &skill.values("", &session_id, &effort));
                let words = without_running(&segments);
                texts.push(format!("The skill {name}:\n{}", words.trim_end()));
            }
            Some((_, Err(problem))) => shared
                .events
                .notice(NoticeLevel::Warning, problem.to_string()),
            None => shared.events.notice(
                NoticeLevel::Warning,
                format!("agent {}: there is no skill {name}", definition.name),
            ),
        }
    }
    texts
}

pub(super) fn order_prompt(text: &str) -> Prompt {
    let mut prompt = Prompt::new(text);
    prompt.verbatim = true;
    prompt
}

/// The hooks of a definition, while its agent runs. Its `Stop` is the agent's own end.
pub(super) fn add_hooks(
    shared: &ConversationShared,
    definition: &AgentDefinition,
) -> Option<SourceHandle> {
    if definition.hooks.is_empty() {
        return None;
    }
    let mut groups = definition.hooks.clone();
    if let Some(stop) = groups.remove("Stop") {
        groups
            .entry("SubagentStop".to_owned())
            .or_default()
            .extend(stop);
    }
    let source = HookSource::Agent(definition.name.clone());
    let root = definition.path.as_ref().and_then(|path| path.parent());
    let (handle, problems) = shared.hooks.registry.add(&source, root, &groups);
    for problem in problems {
        shared
            .events
            .notice(NoticeLevel::Warning, problem.to_string());
    }
    Some(handle)
}

/// Waits until the answer that asks for a fork is complete.
async fn fork_point(
    shared: &ConversationShared,
    call_id: &ToolUseId,
    call: &CallContext,
) -> Result<Arc<ForkPoint>, ToolError> {
    let mut points = shared.state.fork_point.subscribe();
    let found = async {
        loop {
            let point = points.borrow_and_update().clone();
            if let Some(point) = point
                && point.calls.contains(call_id)
            {
                return Some(point);
            }
            if points.changed().await.is_err() {
                return None;
            }
        }
    };
    tokio::select! {
        point = found => point.ok_or_else(|| ToolError::failed("The session is over.")),
        () = call.cancel.cancelled() => Err(ToolError::Cancelled("The fork was stopped before it began.".to_owned())),
    }
}
