//! Members that are processes of their own, as their leader sees them.
//!
//! Such a member is an agent in every list. What it does it says in the team's files: its state, what it spent, its
//! messages. Its process holds a lock, so its end is noticed however it came.

use super::post::{deliver_later, to_leader};
use super::{LEADER, Team, launch, refused};
use crate::agents::message::entry_again;
use crate::agents::{AgentEntry, Agents, run};
use crate::conversation::ConversationShared;
use crate::session::ledger::{Part, Totals};
use lathe_extensions::AgentDefinition;
use lathe_extensions::agents::Isolation;
use lathe_protocol::event::{Event, NoticeLevel};
use lathe_protocol::permission::{Behavior, RuleSource};
use lathe_tools::ToolError;
use lathe_tools::host::{AgentOrder, AgentStatus};
use lathe_tools::team::{
    Backend, Member, MemberOrder, MemberState, MessageKind, Surroundings, TeamMessage,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// How long a member has to end before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// Starts a new member as a process. Its order is the first message in its inbox.
pub(crate) async fn begin(
    shared: &Arc<ConversationShared>,
    team: &Arc<Team>,
    order: &AgentOrder,
    definition: &AgentDefinition,
    entry: &Arc<AgentEntry>,
    model: String,
) -> Result<(), ToolError> {
    let name = order.name.clone().unwrap_or_default();
    let config = team.store.config().map_err(|error| refused(&error))?;
    let member = config.member(&name).cloned();
    let member = member.ok_or_else(|| ToolError::failed("The member is gone."))?;
    let process = member.process.as_ref();
    let isolated = order.worktree || definition.run.isolation == Some(Isolation::Worktree);
    let effort = definition.run.effort.map(|effort| effort.name().to_owned());
    let written = MemberOrder {
        start: String::new(),
        session_id: process.map_or_else(String::new, |it| it.session_id.clone()),
        agent_type: entry.agent_type.clone(),
        model: model.clone(),
        effort: order.effort.clone().or(effort),
        mode: shared.permissions.mode(),
        briefing: super::briefing(shared, entry).unwrap_or_default(),
        output_file: entry.output_file.clone(),
        worktree: isolated.then(|| format!("{}-{name}", team.store.name())),
        surroundings: surroundings(shared),
    };
    entry.update(|state| state.model = model);
    let message = TeamMessage::new(LEADER, &name, MessageKind::Message, &order.prompt);
    let inbox = team.store.inbox(&name);
    inbox.append(&message).map_err(|error| refused(&error))?;
    watch(&shared.root(), team);
    team.followed.lock().insert(name.clone());
    // Before there is a process: a resumed session finds the agent that it is.
    shared.session.agents.keep(entry);
    let started = start(&shared.root(), team, &member, written).await;
    if let Err(error) = started {
        team.followed.lock().remove(&name);
        // Nobody is to get it.
        if let Err(error) = inbox.mark_read(&[message.id]) {
            tracing::warn!(%error, "the order of a member that did not start can't be taken back");
        }
        return Err(error);
    }
    let root = shared.root();
    root.events.send(Event::Task(run::started(entry)));
    let agents = root.session.agents.clone();
    agents
        .tracker
        .spawn(follow(root, team.clone(), name, entry.clone()));
    Ok(())
}

/// Starts the process of a member with an order.
async fn start(
    root: &Arc<ConversationShared>,
    team: &Arc<Team>,
    member: &Member,
    mut order: MemberOrder,
) -> Result<(), ToolError> {
    order.start = crate::agents::order::new_id('n');
    let store = &team.store;
    store
        .write_order(&member.name, &order)
        .map_err(|error| refused(&error))?;
    launch::launch(root, team, &member.name).await?;
    if member.backend == Backend::Tmux {
        match launch::show_in_tmux(root, team, &member.name).await {
            Ok(told) => {
                if let Some(told) = told {
                    root.events.notice(NoticeLevel::Info, told);
                }
            }
            // The member works; it is only not seen.
            Err(error) => root.events.notice(
                NoticeLevel::Warning,
                format!("{} has no pane: {error}", member.name),
            ),
        }
    }
    Ok(())
}

/// The flags of the leader and its rights, beside the files that a member reads itself.
fn surroundings(shared: &ConversationShared) -> Surroundings {
    let options = shared.session.settings.loader.now();
    let context = shared.permissions.snapshot();
    let rules = |behavior: Behavior| -> Vec<String> {
        let rules = context.rules.iter();
        let rules = rules.filter(|rule| {
            rule.behavior == behavior
                && matches!(
                    rule.source,
                    RuleSource::CliArg | RuleSource::Session | RuleSource::Command
                )
        });
        rules.map(lathe_permissions::Rule::text).collect()
    };
    let permissions = json!({"permissions": {
        "allow": rules(Behavior::Allow), "ask": rules(Behavior::Ask), "deny": rules(Behavior::Deny),
    }});
    let mut settings = options.flags;
    settings.push(permissions.to_string());
    let sources = options.sources.map(|sources| {
        let names = sources.iter().map(|source| source.name().to_owned());
        names.collect()
    });
    let (dollars, tokens) = left(shared);
    Surroundings {
        settings,
        managed: options.managed_flags,
        sources,
        folders: context.roots.clone(),
        plugins: shared.session.plugins.folders(),
        bypass: context.bypass_available,
        no_sandbox: shared.session.settings.no_sandbox,
        dollars,
        tokens,
    }
}

/// The dollars and tokens that the session has spent, agents included.
fn spent_of(shared: &ConversationShared) -> (f64, u64) {
    let waiting = shared.spending.waiting.lock();
    let totals = shared.spending.totals.lock();
    let mut spent = (totals.cost_usd(), totals.tokens());
    for (_, used) in waiting.iter() {
        spent.0 += used.cost_usd();
        spent.1 += used.tokens();
    }
    spent
}

/// The money and the tokens that are left of the session's budget.
fn left(shared: &ConversationShared) -> (Option<f64>, Option<u64>) {
    let limits = &shared.seed.limits;
    let (dollars, tokens) = spent_of(shared);
    let dollars = limits
        .max_session_usd()
        .map(|most| (most - dollars).max(0.0));
    let tokens = limits.max_tokens.map(|most| most.saturating_sub(tokens));
    (dollars, tokens)
}

/// Takes the messages, the changes and the questions of members that are processes, until the session ends.
pub(super) fn watch(root: &Arc<ConversationShared>, team: &Arc<Team>) {
    if !team.changes.begin(&team.store) {
        return;
    }
    let mut changes = team.changes.subscribe();
    let (root, team) = (Arc::downgrade(root), Arc::downgrade(team));
    lathe_spawn::task(async move {
        loop {
            {
                let (Some(root), Some(team)) = (root.upgrade(), team.upgrade()) else {
                    return;
                };
                if root.session.agents.is_ending() {
                    return;
                }
                changes.mark_unchanged();
                // Held back while the session is taken up: the leader gets what waited with the user's words.
                to_leader(&root, &team, false);
                supervise(&root, &team);
                deliver_to_agents(&root, &team);
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    });
}

/// A process may have written to a member that is an agent of this one.
fn deliver_to_agents(root: &Arc<ConversationShared>, team: &Arc<Team>) {
    let Ok(config) = team.store.config() else {
        return;
    };
    for member in &config.members {
        if member.backend.is_process() || member.state == MemberState::Stopped {
            continue;
        }
        let unread = team.store.inbox(&member.name).unread();
        let under_way = team.under_way.lock();
        let is_new = unread.is_ok_and(|unread| unread.iter().any(|it| !under_way.contains(&it.id)));
        drop(under_way);
        if is_new {
            deliver_later(root, team, &member.name);
        }
    }
}

/// Starts the processes of members that have something to do and do not run.
pub(super) fn supervise(root: &Arc<ConversationShared>, team: &Arc<Team>) {
    let Ok(config) = team.store.config() else {
        return;
    };
    watch(root, team);
    for member in config.members {
        if !member.backend.is_process() || member.state != MemberState::Working {
            continue;
        }
        if root.session.agents.is_ending() || !team.followed.lock().insert(member.name.clone()) {
            continue;
        }
        let (root, team) = (root.clone(), team.clone());
        let agents = root.session.agents.clone();
        agents.tracker.spawn(async move {
            let name = member.name.clone();
            match start_again(&root, &team, &member).await {
                Ok(entry) => follow(root, team, name, entry).await,
                Err(error) => {
                    team.set_state(&name, MemberState::Idle);
                    team.followed.lock().remove(&name);
                    let text = format!("{name} could not be woken; its messages wait: {error}");
                    root.events.notice(NoticeLevel::Warning, text);
                    root.inbox.wake.notify_one();
                }
            }
        });
    }
}

/// Starts a member again whose process has ended: the same session, with all that it knew.
async fn start_again(
    root: &Arc<ConversationShared>,
    team: &Arc<Team>,
    member: &Member,
) -> Result<Arc<AgentEntry>, ToolError> {
    let agents = &root.session.agents;
    let old = agents.find(&member.agent_id);
    let old = old.ok_or_else(|| ToolError::failed("It is no agent of this session."))?;
    let entry = works_again(root, agents, &old);
    let order = team.store.order(&member.name);
    let started = match order {
        Ok(mut order) => {
            order.mode = root.permissions.mode();
            order.surroundings = surroundings(root);
            start(root, team, member, order).await
        }
        Err(error) => Err(refused(&error)),
    };
    match started {
        Ok(()) => Ok(entry),
        Err(error) => {
            agents.put_back(&entry, old);
            Err(error)
        }
    }
}

/// The entry of a member that works again.
fn works_again(
    root: &Arc<ConversationShared>,
    agents: &Agents,
    old: &Arc<AgentEntry>,
) -> Arc<AgentEntry> {
    let state = old.state();
    let entry = entry_again(root, old, &state, old.tool_use_id.clone());
    entry.update(|new| {
        new.model.clone_from(&state.model);
        new.usage = state.usage;
        new.cost_usd = state.cost_usd;
        new.turn = state.turn;
    });
    agents.put_back(old, entry.clone());
    agents.keep(&entry);
    root.events.send(Event::Task(run::started(&entry)));
    entry
}

/// The end of a process.
enum Over {
    /// It ended by itself, or was killed by somebody else.
    Gone,
    /// It was stopped here.
    Stopped,
}

/// Follows the process of a member to its end.
async fn follow(
    root: Arc<ConversationShared>,
    team: Arc<Team>,
    name: String,
    mut entry: Arc<AgentEntry>,
) {
    let process = team.store.process(&name);
    let mut gone = lathe_spawn::blocking(move || process.wait());
    let mut changes = team.changes.subscribe();
    let agents = root.session.agents.clone();
    let mut counted = 0;
    let over = loop {
        changes.mark_unchanged();
        count(&root, &team, &name, &entry, &mut counted);
        match state_of(&team, &name) {
            Some(MemberState::Idle) if entry.is_running() => {
                // Its notice is in the inbox: the leader has it before the member counts as idle.
                to_leader(&root, &team, false);
                run::finish(&agents, &root, &root, &entry, AgentStatus::Completed);
            }
            Some(MemberState::Working) if !entry.is_running() => {
                entry = works_again(&root, &agents, &entry);
            }
            _ => {}
        }
        tokio::select! {
            biased;
            () = entry.cancel.cancelled() => {
                stop(&team, &name, &mut gone).await;
                break Over::Stopped;
            }
            _ = &mut gone => break Over::Gone,
            changed = changes.changed() => if changed.is_err() { break Over::Gone },
        }
    };
    count(&root, &team, &name, &entry, &mut counted);
    team.withdraw_questions(&name);
    let state = state_of(&team, &name);
    if entry.is_running() {
        let (status, words) = match (over, state) {
            (Over::Stopped, _) => (AgentStatus::Killed, "It was stopped before it was done."),
            (Over::Gone, Some(MemberState::Stopped) | None) => (AgentStatus::Completed, ""),
            (Over::Gone, _) => (AgentStatus::Failed, "Its process ended while it worked."),
        };
        if !words.is_empty() {
            entry.update(|state| words.clone_into(&mut state.result));
        }
        run::finish(&agents, &root, &root, &entry, status);
    } else if matches!(over, Over::Stopped) && !agents.is_ending() {
        team.set_state(&name, MemberState::Stopped);
    }
    team.followed.lock().remove(&name);
    // Something may have come for it while it ended.
    if !agents.is_ending() {
        supervise(&root, &team);
    }
}

fn state_of(team: &Team, name: &str) -> Option<MemberState> {
    let config = team.store.config().ok()?;
    config.member(name).map(|member| member.state)
}

/// Counts what a member spent to the session that pays for it, and stops it when the budget is used up.
fn count(
    root: &ConversationShared,
    team: &Team,
    name: &str,
    entry: &AgentEntry,
    counted: &mut u64,
) {
    let Ok((lines, at)) = team.store.spending(name, *counted) else {
        return;
    };
    *counted = at;
    for line in lines {
        let Ok(totals) = serde_json::from_value::<Totals>(line) else {
            continue;
        };
        entry.update(|state| {
            state.usage.total_tokens += totals.tokens();
            state.cost_usd += totals.cost_usd();
        });
        root.spending.waiting.lock().push((Part::Agents, totals));
    }
    let (dollars, tokens) = left(root);
    let is_used_up = dollars.is_some_and(|left| left <= 0.0) || tokens == Some(0);
    if is_used_up && !entry.cancel.is_cancelled() {
        let text = format!("The session's budget is used up, so {name} is stopped.");
        root.events.notice(NoticeLevel::Warning, text);
        entry.cancel.cancel();
    }
}

/// Asks a process to end, and kills it when it does not.
async fn stop<T>(team: &Team, name: &str, gone: &mut JoinHandle<T>) {
    signal(team, name, Signal::SIGTERM);
    if tokio::time::timeout(GRACE, &mut *gone).await.is_err() {
        signal(team, name, Signal::SIGKILL);
        let _ = gone.await;
    }
}

/// Sends a signal to the process of a member, which runs.
fn signal(team: &Team, name: &str, signal: Signal) {
    let config = team.store.config().ok();
    let member = config.as_ref().and_then(|config| config.member(name));
    let pid = member.and_then(|it| it.process.as_ref()?.pid);
    if let Some(pid) = pid {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Ends the processes of a team that is deleted: those that are left are idle.
pub(super) fn end_all(agents: &Agents, team: &Team) {
    for name in team.followed.lock().iter() {
        signal(team, name, Signal::SIGTERM);
    }
    for entry in agents.all() {
        if team.name_of(&entry.id).is_some() {
            entry.cancel.cancel();
        }
    }
}
