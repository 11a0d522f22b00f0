//! The session of a member that is a process of its own.
//!
//! It is a session as any other: its user may look at it and write to it. Others reach it through its inbox. It ends with
//! its leader: it waits for the lock that the leader's process holds.

use super::ask::Line;
use super::members::{idle_objection, idle_text};
use super::post::{note_delivered, prompt_of, users_prompt};
use super::{LEADER, Team, use_task_list};
use crate::agents::{Agents, FORBIDDEN};
use crate::conversation::ConversationShared;
use crate::conversation::records::reminder;
use crate::open::options::{OpenError, SessionChoice, SessionOptions};
use crate::session::ledger::Totals;
use lathe_protocol::content::ContentBlock;
use lathe_protocol::event::{Event, NoticeLevel, TurnResult};
use lathe_protocol::ids::SessionId;
use lathe_protocol::op::Prompt;
use lathe_protocol::permission::{PermissionMode, PermissionUpdate, RuleSource};
use lathe_protocol::record::{RecordKind, RecordMessage};
use lathe_session::SessionStore;
use lathe_settings::{Environment, Source, paths};
use lathe_tools::host::AgentStatus;
use lathe_tools::team::{MemberOrder, MemberState, MessageKind, TeamMessage, TeamStore};
use nix::sys::signal::{Signal, raise};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio_util::sync::CancellationToken;

/// How often hooks may keep a member from going idle, one time after another.
const MOST_OBJECTIONS: u32 = 8;

/// A place in a team that this process has taken, for as long as it lives.
#[derive(Debug)]
pub struct MemberSeat {
    store: Arc<TeamStore>,
    name: String,
    order: MemberOrder,
}

impl MemberSeat {
    /// Takes the place that the leader ordered: `TEAM/NAME`.
    ///
    /// # Errors
    /// When there is no such order, the member runs already, or nobody leads the team.
    pub fn take(environment: &Environment, seat: &str) -> Result<Arc<Self>, OpenError> {
        let (team, name) = seat.split_once('/').ok_or_else(|| {
            OpenError::Usage(format!("{seat:?} is no member: TEAM/NAME is expected"))
        })?;
        let home = paths::config_home(environment);
        let joined = TeamStore::join(&home, team, name);
        let (store, order) = joined.map_err(|error| OpenError::Usage(error.to_string()))?;
        Ok(Arc::new(Self {
            store: Arc::new(store),
            name: name.to_owned(),
            order,
        }))
    }

    /// Lets a session begin with what the leader ordered.
    ///
    /// # Errors
    /// When the order can't be carried out here.
    pub fn apply(
        self: &Arc<Self>,
        environment: &Environment,
        options: &mut SessionOptions,
    ) -> Result<(), OpenError> {
        let order = &self.order;
        let id: SessionId = order
            .session_id
            .parse()
            .map(SessionId)
            .map_err(|_| OpenError::Usage("the member's order has no session".to_owned()))?;
        let home = paths::config_home(environment);
        if SessionStore::new(home).find_anywhere(id).is_some() {
            options.history.session = SessionChoice::Resume(order.session_id.clone());
        } else {
            options.history.session_id = Some(id);
        }
        options.history.title = Some(format!("{}/{}", self.store.name(), self.name));
        options.model.name = Some(order.model.clone());
        options.model.effort.clone_from(&order.effort);
        options.prompt.append = Some(order.briefing.clone());
        options.extensions.agent = Some(order.agent_type.clone());
        options.worktree.clone_from(&order.worktree);
        let around = &order.surroundings;
        options
            .extensions
            .plugin_folders
            .clone_from(&around.plugins);
        options.settings.flags.clone_from(&around.settings);
        options.settings.managed.clone_from(&around.managed);
        if let Some(names) = &around.sources {
            let sources = Source::parse_list(&names.join(","));
            options.settings.sources =
                Some(sources.map_err(|error| OpenError::Usage(error.to_string()))?);
        }
        options.permissions.mode = Some(self.mode());
        options.permissions.allow_bypass = around.bypass;
        options.permissions.folders.clone_from(&around.folders);
        options.permissions.no_sandbox = around.no_sandbox;
        options.limits.max_budget_usd = around.dollars;
        options.limits.max_session_tokens = around.tokens;
        options.team.member = Some(self.clone());
        self.keep_output(options);
        Ok(())
    }

    /// The mode that it begins in: the leader's, or a narrower one of its own.
    fn mode(&self) -> PermissionMode {
        let config = self.store.config().ok();
        let member = config.as_ref().and_then(|it| it.member(&self.name));
        member.and_then(|it| it.mode).unwrap_or(self.order.mode)
    }

    /// Writes what it does where the leader's lists show the output of agents.
    fn keep_output(&self, options: &mut SessionOptions) {
        let others = options.observe.clone();
        let file = self.order.output_file.clone();
        let begin: crate::session::observe::BeginObserving =
            Arc::new(move |settings, environment| {
                let others = others.begin(settings, environment);
                let file = file.clone();
                Some(Arc::new(move |event: &Event| {
                    note_output(&file, event);
                    if let Some(others) = &others {
                        others(event);
                    }
                }))
            });
        options.observe = crate::session::observe::ObserveOptions(Some(begin));
    }
}

fn note_output(file: &Path, event: &Event) {
    match event {
        Event::CallStarted { activity, .. } => {
            Agents::append_output(file, &format!("· {activity}"));
        }
        Event::Record {
            record,
            parent_tool_use_id: None,
        } if record.kind == RecordKind::Assistant && !record.is_meta => {
            for block in record.message.iter().flat_map(RecordMessage::blocks) {
                if let ContentBlock::Text(text) = block {
                    Agents::append_output(file, &text.text);
                }
            }
        }
        _ => {}
    }
}

/// The member that a session is.
pub(super) struct Own {
    seat: Arc<MemberSeat>,
    line: Line,
    /// How the last turn ended, and its last words.
    last: Mutex<(bool, String)>,
    objections: Mutex<u32>,
}

impl Own {
    pub(super) fn name(&self) -> &str {
        &self.seat.name
    }
}

/// Makes the session the member whose seat the process has taken, if it has.
pub(crate) fn attach(shared: &Arc<ConversationShared>, seat: Option<&Arc<MemberSeat>>) {
    let Some(seat) = seat else { return };
    let name = seat.name.clone();
    let team = Arc::new_cyclic(|team| {
        let line = Line {
            team: team.clone(),
            name: name.clone(),
            waiting: Arc::default(),
        };
        Team::new(
            seat.store.clone(),
            Some(Own {
                seat: seat.clone(),
                line,
                last: Mutex::default(),
                objections: Mutex::default(),
            }),
        )
    });
    use_task_list(shared, seat.store.tasks());
    let mut registry = shared.toolbox.registry.write();
    registry.retain(|tool| !FORBIDDEN.contains(&tool.name()));
    drop(registry);
    note_delivered(&team, &name, shared.transcript.path());
    if let Some(own) = &team.own {
        shared.questions.ask_leader(own.line.clone());
    }
    *shared.session.team.write() = Some(team.clone());
    let begun = seat.store.change(|config| {
        let member = config.member_mut(&name)?;
        member.model.clone_from(&seat.order.model);
        if member.state == MemberState::Idle {
            member.state = MemberState::Working;
        }
        if let Some(process) = &mut member.process {
            process.begun = Some(seat.order.start.clone());
            process.pid = i32::try_from(std::process::id()).ok();
        }
        Ok(())
    });
    if let Err(error) = begun {
        let text = format!("The team can't be told that this member has begun: {error}");
        shared.events.notice(NoticeLevel::Error, text);
    }
    end_with_leader(seat);
    take_messages(shared, &team);
}

/// Ends this process when the leader's has ended.
fn end_with_leader(seat: &MemberSeat) {
    let leader = seat.store.leader();
    drop(lathe_spawn::blocking(move || {
        if let Err(error) = leader.wait() {
            tracing::warn!(%error, "the end of the leader can't be waited for");
        }
        end_process();
    }));
}

/// Ends this process as its user would: what runs is stopped and saved.
fn end_process() {
    if let Err(error) = raise(Signal::SIGTERM) {
        tracing::error!(%error, "the process of a member can't be ended");
    }
}

/// Takes what comes into the member's inbox, until the session ends.
fn take_messages(shared: &Arc<ConversationShared>, team: &Arc<Team>) {
    team.changes.begin(&team.store);
    let mut changes = team.changes.subscribe();
    let (shared, team) = (Arc::downgrade(shared), Arc::downgrade(team));
    lathe_spawn::task(async move {
        loop {
            {
                let (Some(shared), Some(team)) = (shared.upgrade(), team.upgrade()) else {
                    return;
                };
                changes.mark_unchanged();
                take(&shared, &team);
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    });
}

fn take(shared: &Arc<ConversationShared>, team: &Arc<Team>) {
    let Some(own) = &team.own else { return };
    for message in team.take_waiting(own.name()) {
        if message.kind.is_for_program() {
            own.line.answered(&message);
            team.done_with(own.name(), &message);
            continue;
        }
        if message.kind == MessageKind::PlanApprovalResponse && message.approve == Some(true) {
            plan_approved(shared, own);
        }
        let prompt = users_prompt(&message);
        shared.enqueue(prompt.unwrap_or_else(|| prompt_of(std::slice::from_ref(&message))));
    }
}

/// The leader approved the plan, and noted it in the team's file: now the member has the leader's mode.
fn plan_approved(shared: &ConversationShared, own: &Own) {
    let mode = own.seat.mode();
    let update = PermissionUpdate::SetMode {
        mode,
        destination: RuleSource::Session,
    };
    match shared.permissions.apply(&update) {
        Ok(()) => shared.events.send(Event::ModeChanged(mode)),
        Err(error) => {
            let text = format!("The permission mode can't be changed: {error}");
            shared.events.notice(NoticeLevel::Warning, text);
        }
    }
}

/// The team that a session is a member of.
fn team_of(shared: &ConversationShared) -> Option<Arc<Team>> {
    let team = shared.session.team.read().clone()?;
    team.own.is_some().then_some(team)
}

/// A turn of the session begins.
pub(crate) fn turn_begins(shared: &ConversationShared) {
    if let Some(team) = team_of(shared) {
        let name = team.own_name();
        let config = team.store.config().ok();
        let state = config.as_ref().and_then(|it| it.member(name));
        if state.is_some_and(|member| member.state == MemberState::Idle) {
            team.set_state(name, MemberState::Working);
        }
    }
}

/// A turn of the session has ended.
pub(crate) fn turn_ended(shared: &ConversationShared, result: &TurnResult) {
    if let Some(own) = team_of(shared).as_ref().and_then(|team| team.own.as_ref()) {
        let text = match result.errors.as_slice() {
            [] => result.text.clone(),
            errors => errors.join("; "),
        };
        *own.last.lock() = (result.is_error, text);
    }
}

/// The session of a member spent something, which its leader pays for. Returns whether it is one.
pub(crate) fn spent(shared: &ConversationShared, fresh: impl FnOnce() -> Totals) -> bool {
    let Some(team) = team_of(shared) else {
        return false;
    };
    let fresh = fresh();
    if !fresh.models.is_empty() {
        let line = serde_json::to_value(&fresh).unwrap_or_default();
        if let Err(error) = team.store.note_spending(team.own_name(), &line) {
            tracing::warn!(%error, "the leader can't be told what was spent");
        }
    }
    true
}

/// The session has nothing left to do: a hook may object, then the leader is told.
pub(crate) fn went_idle(shared: &Arc<ConversationShared>) {
    let Some(team) = team_of(shared) else { return };
    let shared = shared.clone();
    lathe_spawn::task(async move { idle(&shared, &team).await });
}

async fn idle(shared: &Arc<ConversationShared>, team: &Arc<Team>) {
    let Some(own) = &team.own else { return };
    let name = own.name();
    let (failed, text) = own.last.lock().clone();
    let objections = *own.objections.lock();
    if !failed && objections < MOST_OBJECTIONS {
        let cancel = CancellationToken::new();
        if let Some(reason) = idle_objection(shared, &text, &cancel).await {
            *own.objections.lock() += 1;
            let mut prompt =
                Prompt::new(reminder(&format!("A hook wants you to continue: {reason}")));
            prompt.is_meta = true;
            prompt.verbatim = true;
            return shared.enqueue(prompt);
        }
    }
    *own.objections.lock() = 0;
    // Its user, or a message, may have been faster.
    if shared.inbox.busy.load(Ordering::Relaxed) || !shared.inbox.queue.lock().is_empty() {
        return;
    }
    let config = team.store.config().ok();
    let member = config.as_ref().and_then(|config| config.member(name));
    let stopped = member.is_some_and(|member| member.state == MemberState::Stopped);
    let plans = member.is_some_and(|member| member.mode == Some(PermissionMode::Plan));
    let status = match failed {
        true => AgentStatus::Failed,
        false => AgentStatus::Completed,
    };
    let released = match failed || stopped {
        true => shared.tools.tasks.change(|list| Ok(list.release(name))),
        false => Ok(Vec::new()),
    };
    let message = if plans && !failed && !stopped {
        plan_request(team, name, &text)
    } else {
        let text = idle_text(shared, name, status, &released.unwrap_or_default(), &text);
        TeamMessage::new(name, LEADER, MessageKind::IdleNotification, &text)
    };
    if let Err(error) = team.store.inbox(LEADER).append(&message) {
        tracing::warn!(%error, "the leader can't be told that this member is idle");
    }
    if stopped {
        return end_process();
    }
    let noted = team.store.change(|config| {
        // Who writes to a member sets it to work after that, under the same lock: nothing is overlooked.
        if team.store.inbox(name).unread()?.is_empty() {
            config.member_mut(name)?.state = MemberState::Idle;
        }
        Ok(())
    });
    if let Err(error) = noted {
        tracing::warn!(%error, "the state of a member can't be kept");
    }
}

/// The question whether a plan is approved.
fn plan_request(team: &Team, name: &str, plan: &str) -> TeamMessage {
    let request = crate::agents::order::new_id('p');
    let asked = team.store.change(|config| {
        config.member_mut(name)?.open_request = Some(request.clone());
        Ok(())
    });
    if let Err(error) = asked {
        tracing::warn!(%error, "the question about a plan can't be kept");
    }
    TeamMessage::new(name, LEADER, MessageKind::PlanApprovalRequest, plan).about(&request, None)
}
