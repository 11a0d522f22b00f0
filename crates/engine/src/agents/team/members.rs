//! Members of a team: who may be started, and what happens when one has nothing to do.

use super::post::{deliver_later, to_leader};
use super::{LEADER, Team, launch, membership, refused, seat};
use crate::agents::{AgentEntry, notice};
use crate::conversation::ConversationShared;
use lathe_protocol::hook::HookEvent;
use lathe_protocol::permission::PermissionMode;
use lathe_tools::ToolError;
use lathe_tools::agent::FORK;
use lathe_tools::host::{AgentOrder, AgentStatus};
use lathe_tools::team::{Member, MemberProcess, MemberState, MessageKind, TeamMessage};
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How much a mode lets pass.
fn width(mode: PermissionMode) -> u8 {
    match mode {
        PermissionMode::Plan => 0,
        PermissionMode::Default | PermissionMode::DontAsk => 1,
        PermissionMode::AcceptEdits => 2,
        PermissionMode::Auto => 3,
        PermissionMode::BypassPermissions => 4,
    }
}

/// The team that an order is for; `None` for an agent without one.
pub(crate) fn check_order(
    shared: &ConversationShared,
    order: &AgentOrder,
) -> Result<Option<Arc<Team>>, ToolError> {
    let Some(wanted) = &order.team else {
        return Ok(None);
    };
    let Some(team) = shared.session.team.read().clone() else {
        return Err(ToolError::failed(format!(
            "There is no team {wanted}: TeamCreate makes one."
        )));
    };
    if !seat(shared).is_some_and(|seat| seat.leads) {
        return Err(ToolError::failed(
            "Only the leader starts members of the team; without team_name you start an agent of your own.",
        ));
    }
    if team.store.name() != wanted {
        return Err(ToolError::failed(format!(
            "You lead the team {}, not {wanted}.",
            team.store.name()
        )));
    }
    if order.name.is_none() {
        return Err(ToolError::invalid(
            "A member needs a name by which messages reach it.",
        ));
    }
    if order.agent_type.as_deref() == Some(FORK) {
        return Err(ToolError::failed(
            "A fork can't be a member: a member has a context of its own.",
        ));
    }
    let own = shared.permissions.mode();
    if let Some(mode) = order.mode
        && width(mode) > width(own)
    {
        return Err(ToolError::failed(format!(
            "A member can't have more rights than you: mode {} is wider than your {}.",
            mode.name(),
            own.name()
        )));
    }
    Ok(Some(team))
}

/// Makes an agent a member.
pub(crate) fn join(
    shared: &ConversationShared,
    team: &Team,
    entry: &AgentEntry,
    order: &AgentOrder,
) -> Result<(), ToolError> {
    let name = order.name.clone().unwrap_or_default();
    let backend = launch::backend(shared)?;
    let member = Member {
        name: name.clone(),
        agent_id: entry.id.0.clone(),
        agent_type: entry.agent_type.clone(),
        model: String::new(),
        color: String::new(),
        cwd: shared.tools.working_folder.read().clone(),
        state: MemberState::Working,
        mode: order.mode,
        open_request: None,
        backend,
        process: backend.is_process().then(|| MemberProcess {
            session_id: lathe_protocol::ids::SessionId::random().to_string(),
            begun: None,
            pid: None,
        }),
    };
    team.store
        .change(|config| config.add(member))
        .map_err(|error| refused(&error))?;
    team.names.lock().insert(entry.id.0.clone(), name);
    entry.update(|state| state.mode = order.mode);
    Ok(())
}

/// Takes a member back that could not be started, or notes the model of one that was.
pub(crate) fn leave(team: &Team, entry: &AgentEntry, started: bool) {
    let changed = team.store.change(|config| {
        if started {
            config.member_mut(entry.id.as_str())?.model = entry.state().model;
        } else {
            config
                .members
                .retain(|member| member.agent_id != entry.id.as_str());
        }
        Ok(())
    });
    if !started {
        team.names.lock().remove(entry.id.as_str());
    }
    if let Err(error) = changed {
        tracing::warn!(%error, "the file of the team can't be written");
    }
}

/// The text that a new member gets beside its order.
pub(crate) fn briefing(shared: &ConversationShared, entry: &AgentEntry) -> Option<String> {
    let (team, name) = membership(&shared.session, &entry.id)?;
    let config = team.store.config().ok()?;
    let mut text = include_str!("../../../prompts/teammate.md")
        .trim_end()
        .replace("{name}", &name)
        .replace("{team}", team.store.name())
        .replace("{members}", &config.names());
    if entry.state().mode == Some(PermissionMode::Plan) {
        text.push_str("\n- You plan first: look around, change nothing, and end your turn with your plan as the last message. The leader approves it or says what to change.");
    }
    Some(text)
}

/// A member is about to go idle. Gives the reason of a hook that objects; `None` also for an agent that is no member.
pub(crate) async fn idle_objection(
    shared: &ConversationShared,
    last_text: &str,
    cancel: &CancellationToken,
) -> Option<String> {
    let (team, name) = match shared.role.place() {
        Some(place) => membership(&shared.session, &place.id)?,
        None => {
            let team = shared.session.team.read().clone()?;
            let name = team.own.as_ref()?.name().to_owned();
            (team, name)
        }
    };
    let fields = || {
        json!({
            "teammate_name": name, "team_name": team.store.name(),
            "last_assistant_message": last_text,
        })
    };
    let hooks = &shared.hooks;
    let fired = hooks.fire(HookEvent::TeammateIdle, Some(&name), fields, cancel);
    fired.await?.block
}

/// A member is woken.
pub(crate) fn woken(shared: &ConversationShared, entry: &AgentEntry) {
    if let Some((team, name)) = membership(&shared.session, &entry.id) {
        team.set_state(&name, MemberState::Working);
    }
}

/// An agent has nothing left to do or was stopped. A member tells the leader, once. Returns whether it is one.
pub(crate) fn ended(
    root: &Arc<ConversationShared>,
    entry: &Arc<AgentEntry>,
    status: AgentStatus,
    result: &str,
) -> bool {
    let Some((team, name)) = membership(&root.session, &entry.id) else {
        return false;
    };
    let member = team.store.config().ok();
    let member = member.as_ref().and_then(|config| config.member(&name));
    let is_process = member.is_some_and(|member| member.backend.is_process());
    if is_process && status == AgentStatus::Completed {
        // It has told the leader itself.
        to_leader(root, &team, false);
        return true;
    }
    let stopped = member.is_some_and(|member| member.state == MemberState::Stopped);
    let plans = member.is_some_and(|member| member.mode == Some(PermissionMode::Plan));
    let is_ending = root.session.agents.is_ending();
    // The session's own end is no end of the member: it is woken when the session is resumed.
    let stays = is_ending || (status != AgentStatus::Killed && !stopped);
    let goes = status != AgentStatus::Completed || stopped;
    let released = match goes {
        true => root.tools.tasks.change(|list| Ok(list.release(&name))),
        false => Ok(Vec::new()),
    };
    let released = released.unwrap_or_else(|error| {
        tracing::warn!(%error, "the tasks of a member can't be returned");
        Vec::new()
    });
    team.forget_under_way(&name);
    team.set_state(
        &name,
        if stays {
            MemberState::Idle
        } else {
            MemberState::Stopped
        },
    );
    if is_ending {
        return true;
    }
    let message = if status == AgentStatus::Completed && plans && !stopped {
        let request = crate::agents::order::new_id('p');
        let asked = team.store.change(|config| {
            config.member_mut(&name)?.open_request = Some(request.clone());
            Ok(())
        });
        if let Err(error) = asked {
            tracing::warn!(%error, "the question about a plan can't be kept");
        }
        TeamMessage::new(&name, LEADER, MessageKind::PlanApprovalRequest, result)
            .about(&request, None)
    } else {
        let text = idle_text(root, &name, status, &released, result);
        TeamMessage::new(&name, LEADER, MessageKind::IdleNotification, &text)
    };
    if let Err(error) = team.store.inbox(LEADER).append(&message) {
        tracing::warn!(%error, "the leader can't be told that a member is idle");
    }
    to_leader(root, &team, status == AgentStatus::Killed);
    if stays && !is_process {
        deliver_later(root, &team, &name);
    }
    true
}

/// The state of a member and its tasks, in words.
pub(super) fn idle_text(
    root: &ConversationShared,
    name: &str,
    status: AgentStatus,
    released: &[String],
    result: &str,
) -> String {
    let mut text = match status {
        AgentStatus::Completed => "It is idle.".to_owned(),
        AgentStatus::Failed => "It failed and is idle.".to_owned(),
        AgentStatus::Killed | AgentStatus::Running => "It was stopped.".to_owned(),
    };
    if let Ok(list) = root.tools.tasks.read() {
        let own = list.tasks().iter();
        let own = own.filter(|task| task.owner.as_deref() == Some(name));
        let (done, open): (Vec<_>, Vec<_>) = own.partition(|task| task.status.is_finished());
        for (what, tasks) in [("Finished", done), ("Still its own", open)] {
            let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
            if !ids.is_empty() {
                let _ = write!(text, " {what}: #{}.", ids.join(", #"));
            }
        }
    }
    if !released.is_empty() {
        let _ = write!(text, " Free again: #{}.", released.join(", #"));
    }
    if !result.trim().is_empty() {
        let _ = write!(text, "\nIts last message:\n{}", notice::cut(result.trim()));
    }
    text
}
