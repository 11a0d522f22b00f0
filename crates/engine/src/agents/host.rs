//! What tools see of the session: agents by order, messages, plans, monitoring.

use crate::agents::run::{self, Ready};
use crate::agents::start::{self, Start, StartFrom};
use crate::agents::worktree::Worktree;
use crate::agents::{Entry, FORBIDDEN, ForkPoint, MOST_DEPTH, NewEntry, fork, listed, monitor};
use crate::conversation::ConversationShared;
use futures::future::BoxFuture;
use lathe_extensions::AgentDefinition;
use lathe_extensions::agents::Isolation;
use lathe_extensions::expand::{expand, without_running};
use lathe_hooks::{HookSource, SourceHandle};
use lathe_protocol::event::{Event, NoticeLevel};
use lathe_protocol::ids::{AgentId, RecordId, ToolUseId};
use lathe_protocol::op::Prompt;
use lathe_protocol::permission::PermissionMode;
use lathe_settings::Variable;
use lathe_tools::agent::{self, FORK, GENERAL};
use lathe_tools::host::{
    AgentOrder, AgentReport, AgentStatus, AgentTask, MonitorOrder, PlanState, SessionHost,
    TaskChange,
};
use lathe_tools::task_store::Task;
use lathe_tools::{CallContext, ToolError};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A conversation, as its tools see it.
pub(crate) struct Host {
    shared: Weak<ConversationShared>,
}

impl Host {
    pub(crate) fn new(shared: &Arc<ConversationShared>) -> Self {
        Self {
            shared: Arc::downgrade(shared),
        }
    }

    fn shared(&self) -> Result<Arc<ConversationShared>, ToolError> {
        self.shared
            .upgrade()
            .ok_or_else(|| ToolError::failed("The session is over."))
    }
}

impl SessionHost for Host {
    fn run_agent(
        &self,
        order: AgentOrder,
        call: CallContext,
    ) -> BoxFuture<'_, Result<AgentReport, ToolError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            run_agent(&shared, order, &call).await
        })
    }

    fn send_message(
        &self,
        to: String,
        message: String,
        call: CallContext,
    ) -> BoxFuture<'_, Result<String, ToolError>> {
        Box::pin(async move {
            let shared = self.shared()?;
            send_message(&shared, &to, &message, &call).await
        })
    }

    fn agent(&self, id: &str) -> Option<AgentTask> {
        let shared = self.shared.upgrade()?;
        shared.session.agents.find(id).map(|entry| entry.view())
    }

    fn agents(&self) -> Vec<AgentTask> {
        let all = self
            .shared
            .upgrade()
            .map(|shared| shared.session.agents.all());
        let all = all.unwrap_or_default();
        all.iter().map(|entry| entry.view()).collect()
    }

    fn agent_output(&self, id: &str) -> String {
        let entry = self
            .shared
            .upgrade()
            .and_then(|it| it.session.agents.find(id));
        entry.map(|entry| entry.new_output()).unwrap_or_default()
    }

    fn wait_for_agent(&self, id: &str, limit: Duration) -> BoxFuture<'_, ()> {
        let entry = self
            .shared
            .upgrade()
            .and_then(|it| it.session.agents.find(id));
        Box::pin(async move {
            if let Some(entry) = entry {
                // Working on past the limit is an answer too.
                drop(tokio::time::timeout(limit, entry.over()).await);
            }
        })
    }

    fn stop_agent(&self, id: &str) -> BoxFuture<'_, ()> {
        let entry = self
            .shared
            .upgrade()
            .and_then(|it| it.session.agents.find(id));
        Box::pin(async move {
            if let Some(entry) = entry {
                // The model ends it itself: it needn't be told.
                entry.set_known(true);
                entry.cancel.cancel();
                entry.over().await;
            }
        })
    }

    fn end_is_known(&self, task: &str) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        shared.forget_notices(task);
        if let Some(entry) = shared.session.agents.find(task) {
            entry.set_known(true);
            shared.session.agents.keep(&entry);
        } else {
            shared.toolbox.known_ends.lock().insert(task.to_owned());
        }
    }

    fn plan(&self) -> PlanState {
        self.shared
            .upgrade()
            .map(|shared| shared.plan_state())
            .unwrap_or_default()
    }

    fn enter_plan_mode(&self) -> Result<PlanState, String> {
        let shared = self.shared.upgrade().ok_or("The session is over.")?;
        shared.enter_plan_mode()
    }

    fn leave_plan_mode(&self) -> PermissionMode {
        match self.shared.upgrade() {
            Some(shared) => shared.leave_plan_mode(),
            None => PermissionMode::Default,
        }
    }

    fn task_changed(&self, task: Task, change: TaskChange) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let shared = self.shared.upgrade()?;
            shared.hooks.task_changed(&task, change).await
        })
    }

    fn why_missing(&self, tool: &str) -> Option<String> {
        let shared = self.shared.upgrade()?;
        let place = shared.role.place()?;
        if tool == agent::NAME || tool == agent::ALIAS {
            return (place.depth >= MOST_DEPTH).then(|| {
                format!(
                    "Agents may start agents only {MOST_DEPTH} deep, and you are at that depth. Do it yourself."
                )
            });
        }
        FORBIDDEN
            .contains(&tool)
            .then(|| format!("Agents don't have {tool}: it is for the main conversation."))
    }

    fn monitor(&self, order: MonitorOrder) {
        if let Some(shared) = self.shared.upgrade() {
            monitor::start(&shared, order);
        }
    }
}

/// Whether background work is possible here.
fn may_go_on(shared: &ConversationShared) -> bool {
    let environment = &shared.tools.environment;
    !environment.is_on(Variable::DisableBackgroundTasks)
}

/// The definition that an order names; `None` is a fork.
fn definition_of(
    shared: &ConversationShared,
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
    let known = || {
        let names: Vec<String> = listed(&catalog, types, true)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        names.join(", ")
    };
    if wanted == FORK && catalog.get(FORK).is_none() {
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
        Some(name) => shared.session.catalog.resolve(name).id,
    }
}

async fn run_agent(
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
    let usual = shared.role.place().is_none();
    let background = order
        .background
        .or_else(|| definition.as_ref().and_then(|it| it.run.background))
        .unwrap_or(usual)
        && may_go_on(shared);
    let entry = new_entry(shared, &order, definition.as_ref(), background, call);
    shared
        .session
        .agents
        .admit(entry.clone())
        .map_err(ToolError::failed)?;
    // From here on it counts as working, so whatever fails must end it.
    let started = start_agent(shared, &order, definition.as_ref(), &entry, call).await;
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
                "The agent was stopped. SendMessage with to: \"{}\" goes on with it.",
                entry.id
            )))
        }
        () = call.to_background.cancelled() => {
            send_to_background(shared, &entry);
            Ok(AgentReport::Started(Box::new(entry.view())))
        }
    }
}

/// Lets an agent go on without its call. From now on nobody can be asked for it.
fn send_to_background(shared: &Arc<ConversationShared>, entry: &Entry) {
    entry.set_background();
    // Faces that keep a list of what works in the background learn of it as of one that began there.
    let root = shared.root();
    root.events.send(Event::Task(run::started(entry)));
    shared.session.agents.keep(entry);
    if let Some(conversation) = entry.state().conversation.upgrade() {
        conversation.questions.detach();
    }
}

fn new_entry(
    shared: &Arc<ConversationShared>,
    order: &AgentOrder,
    definition: Option<&AgentDefinition>,
    background: bool,
    call: &CallContext,
) -> Arc<Entry> {
    let unique: String = RecordId::random()
        .to_string()
        .chars()
        .filter(|letter| *letter != '-')
        .take(16)
        .collect();
    let id = AgentId(format!("a{unique}"));
    let cancel = match shared.role.place() {
        Some(place) => place.entry.cancel.child_token(),
        None => shared.session.agents.cancel.child_token(),
    };
    Entry::new(NewEntry {
        output_file: shared
            .tools
            .results_folder
            .join(format!("agent-{id}.output")),
        id,
        name: order.name.clone(),
        agent_type: definition.map_or_else(|| FORK.to_owned(), |it| it.name.clone()),
        description: order.description.clone(),
        prompt: order.prompt.clone(),
        tool_use_id: Some(call.tool_use_id.clone()),
        parent: shared.role.place().map(|place| place.id.clone()),
        background,
        cancel,
        status: AgentStatus::Running,
    })
}

async fn start_agent(
    shared: &Arc<ConversationShared>,
    order: &AgentOrder,
    definition: Option<&AgentDefinition>,
    entry: &Arc<Entry>,
    call: &CallContext,
) -> Result<(), ToolError> {
    let turn = shared.role.place().map_or(call.turn, |place| place.turn);
    let Some(definition) = definition else {
        let point = fork_point(shared, &call.tool_use_id, call).await?;
        entry.update(|state| state.forked_from = point.tip);
        let start = Start {
            parent: shared,
            entry,
            definition: None,
            model: point.model.clone(),
            worktree: None,
            history: StartFrom::Fork(point),
            turn,
        };
        let (conversation, stream) = start::build(start).map_err(ToolError::failed)?;
        Ready {
            entry: entry.clone(),
            conversation,
            stream,
            parent: shared.clone(),
            prompt: order_prompt(&fork::directive(&order.prompt)),
            worktree: None,
            hooks: None,
            briefing: None,
            definition: None,
        }
        .spawn();
        return Ok(());
    };
    let isolated = order.worktree || definition.run.isolation == Some(Isolation::Worktree);
    let worktree = if isolated {
        Some(
            new_worktree(shared, entry)
                .await
                .map_err(ToolError::failed)?,
        )
    } else {
        None
    };
    let mut briefing = preloaded(shared, definition);
    if let Some(worktree) = &worktree {
        let folder = shared.tools.working_folder.read().clone();
        briefing.push(worktree.briefing(&folder));
    }
    let briefing = (!briefing.is_empty()).then(|| briefing.join("\n\n"));
    let start = Start {
        parent: shared,
        entry,
        definition: Some(definition),
        model: model_of(shared, order, definition),
        worktree: worktree.as_ref(),
        history: StartFrom::New,
        turn,
    };
    let (conversation, stream) = match start::build(start) {
        Ok(built) => built,
        Err(error) => {
            if let Some(worktree) = &worktree {
                worktree.conclude(Some(&[])).await;
            }
            return Err(ToolError::failed(error));
        }
    };
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

/// Makes an agent's worktree, from where its parent stands.
async fn new_worktree(shared: &Arc<ConversationShared>, entry: &Entry) -> Result<Worktree, String> {
    let folder = shared.tools.working_folder.read().clone();
    let made = Worktree::create(&folder, &format!("agent-{}", entry.id)).await?;
    shared
        .hooks
        .worktree_created(&made.path, entry.id.as_str())
        .await;
    entry.update(|state| {
        state.worktree = Some(made.path.clone());
        state.isolated = true;
    });
    Ok(made)
}

/// The skills that an agent knows from the start.
pub(crate) fn preloaded(shared: &ConversationShared, definition: &AgentDefinition) -> Vec<String> {
    let skills = shared.integrations.extensions.skills();
    let mut texts = Vec::new();
    for name in &definition.skills {
        match skills.get(name).map(|skill| (skill, skill.body())) {
            Some((skill, Ok(body))) => {
                // Filled in, but nothing of it is run: nobody asked for it now.
                let session_id = shared.session.id.to_string();
                let segments = expand(&body, &skill.values("", &session_id));
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

fn order_prompt(text: &str) -> Prompt {
    let mut prompt = Prompt::new(text);
    prompt.verbatim = true;
    prompt
}

/// The hooks of a definition, while its agent runs. Its `Stop` is the agent's own end.
fn add_hooks(shared: &ConversationShared, definition: &AgentDefinition) -> Option<SourceHandle> {
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

async fn send_message(
    shared: &Arc<ConversationShared>,
    to: &str,
    message: &str,
    call: &CallContext,
) -> Result<String, ToolError> {
    if to == "*" {
        let mut reached = Vec::new();
        for entry in shared.session.agents.all() {
            let own = shared.role.place().is_some_and(|it| it.id == entry.id);
            if !own && entry.is_running() && deliver(shared, &entry, message) {
                reached.push(entry.id.0.clone());
            }
        }
        if reached.is_empty() {
            return Err(ToolError::failed("No agent works, so nobody was reached."));
        }
        return Ok(format!("Sent to {}.", reached.join(", ")));
    }
    let Some(entry) = shared.session.agents.find(to) else {
        let all = shared.session.agents.all();
        let known: Vec<String> = all
            .iter()
            .map(|entry| match &entry.name {
                Some(name) => format!("{} ({name})", entry.id),
                None => entry.id.0.clone(),
            })
            .collect();
        return Err(ToolError::failed(if known.is_empty() {
            format!("There is no agent {to}: none was started in this session.")
        } else {
            format!("There is no agent {to}. There are: {}.", known.join(", "))
        }));
    };
    if shared.role.place().is_some_and(|it| it.id == entry.id) {
        return Err(ToolError::failed("That is you."));
    }
    if deliver(shared, &entry, message) {
        return Ok(format!(
            "Agent {} works; it gets the message with its next step.",
            entry.id
        ));
    }
    // It may be about to end; then it is woken when it has.
    tokio::select! {
        () = entry.over() => {}
        () = call.cancel.cancelled() => {
            return Err(ToolError::Cancelled("The message was not sent.".to_owned()));
        }
    }
    wake(shared, &entry, message, call).await
}

/// Gives a working agent a message. Returns whether it works.
fn deliver(shared: &ConversationShared, entry: &Entry, message: &str) -> bool {
    let from = shared.role.place().map_or_else(
        || "the agent that started you".to_owned(),
        |place| format!("agent {}", place.id),
    );
    let state = entry.state.lock();
    let Some(conversation) = state.conversation.upgrade() else {
        return false;
    };
    let mut prompt = Prompt::new(format!("A message from {from}:\n{message}"));
    prompt.verbatim = true;
    conversation.enqueue(prompt);
    true
}

/// Wakes an agent that is over: the same agent, with all it knew, in the background.
async fn wake(
    shared: &Arc<ConversationShared>,
    old: &Arc<Entry>,
    message: &str,
    call: &CallContext,
) -> Result<String, ToolError> {
    let state = old.state();
    let definition = shared
        .session
        .agents
        .catalog()
        .get(&old.agent_type)
        .cloned();
    let is_fork = old.agent_type == FORK && definition.is_none();
    if definition.is_none() && !is_fork {
        return Err(ToolError::failed(format!(
            "Agent {} can't go on: its type {} is not there any more.",
            old.id, old.agent_type
        )));
    }
    let records = history(shared, old, state.forked_from).await?;
    let (mut worktree, mut lost) = start::old_worktree(state.worktree.clone()).await;
    let cancel = match shared.role.place() {
        Some(place) => place.entry.cancel.child_token(),
        None => shared.session.agents.cancel.child_token(),
    };
    let entry = Entry::new(NewEntry {
        id: old.id.clone(),
        name: old.name.clone(),
        agent_type: old.agent_type.clone(),
        description: old.description.clone(),
        prompt: old.prompt.clone(),
        tool_use_id: Some(call.tool_use_id.clone()),
        parent: shared.role.place().map(|place| place.id.clone()),
        output_file: old.output_file.clone(),
        background: true,
        cancel,
        status: AgentStatus::Running,
    });
    entry.update(|new| {
        new.worktree.clone_from(&state.worktree);
        new.isolated = state.isolated;
        new.forked_from = state.forked_from;
        new.usage.tool_uses = state.usage.tool_uses;
    });
    shared
        .session
        .agents
        .replace(old, entry.clone())
        .map_err(ToolError::failed)?;
    let mut briefing = lost
        .as_ref()
        .map(|_| "Your worktree is gone; you work in the original folder now.".to_owned());
    if state.isolated && state.worktree.is_none() {
        // It was removed because nothing was in it. What goes on now must not touch the original either.
        match new_worktree(shared, &entry).await {
            Ok(made) => {
                let folder = shared.tools.working_folder.read().clone();
                briefing = Some(format!(
                    "Your worktree was empty and had been removed. {}",
                    made.briefing(&folder)
                ));
                worktree = Some(made);
            }
            Err(error) => {
                let why = format!("There is no worktree for it any more ({error})");
                briefing = Some(format!("{why}; you work in the original folder now."));
                lost = Some(format!("{why}, so it works in your folder now."));
            }
        }
    }
    let model = if state.model.is_empty() {
        shared.choices.read().model.clone()
    } else {
        state.model.clone()
    };
    let turn = shared.role.place().map_or(call.turn, |place| place.turn);
    let built = start::build(Start {
        parent: shared,
        entry: &entry,
        definition: definition.as_ref(),
        model,
        worktree: worktree.as_ref(),
        history: StartFrom::Again(records),
        turn,
    });
    let (conversation, stream) = match built {
        Ok(built) => built,
        Err(error) => {
            shared.session.agents.put_back(&entry, old.clone());
            return Err(ToolError::failed(error));
        }
    };
    let hooks = definition.as_ref().and_then(|it| add_hooks(shared, it));
    Ready {
        entry: entry.clone(),
        conversation,
        stream,
        parent: shared.clone(),
        prompt: order_prompt(message),
        worktree,
        hooks,
        briefing,
        definition,
    }
    .spawn();
    let mut text = format!(
        "Agent {} was {} and goes on in the background with your message; a notification comes when it is done.",
        entry.id,
        state.status.word()
    );
    if let Some(lost) = lost {
        text.push(' ');
        text.push_str(&lost);
    }
    Ok(text)
}

/// What an agent said and did: its transcript, after its parent's up to where a fork began.
async fn history(
    shared: &Arc<ConversationShared>,
    entry: &Entry,
    forked_from: Option<RecordId>,
) -> Result<Vec<Arc<lathe_protocol::record::Record>>, ToolError> {
    if shared.session.agents.writer.is_none() {
        return Err(ToolError::failed(
            "This session keeps no transcripts, so a finished agent can't go on. Start a new one.",
        ));
    }
    let own = shared.session.agents.paths.agent_transcript(&entry.id);
    let root = shared.root();
    let main = root.transcript.path().to_owned();
    if forked_from.is_some() {
        let _ = root.transcript.flush().await;
    }
    let loading = lathe_spawn::blocking(move || {
        let mut records = Vec::new();
        if let Some(record) = forked_from {
            records.extend(lathe_session::load_to(&main, record)?.chain_to(record)?);
        }
        records.extend(lathe_session::load_tail(&own)?.chain());
        Ok::<_, lathe_session::SessionError>(records)
    });
    loading
        .await
        .map_err(|error| ToolError::failed(format!("Its transcript can't be read: {error}.")))?
        .map_err(|error| ToolError::failed(format!("Its transcript can't be read: {error}.")))
}
