//! The post of a team: messages are in the recipient's inbox before anything else happens, then they are delivered.

use super::{LEADER, Team, ask, process, refused, seat};
use crate::agents::message::{Waking, give_prompt, wake};
use crate::agents::{AgentError, notice};
use crate::conversation::ConversationShared;
use lathe_protocol::event::NoticeLevel;
use lathe_protocol::ids::{AgentId, RecordId};
use lathe_protocol::op::Prompt;
use lathe_tools::ToolError;
use lathe_tools::send_message::{Form, Letter};
use lathe_tools::task_store::{Seat, Task};
use lathe_tools::team::{MemberState, MessageKind, TeamConfig, TeamError, TeamMessage};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where a prompt names the messages that it carries.
const MESSAGES: &str = "teamMessages";
/// The main conversation, as agents call it.
const MAIN: &str = "main";
/// The sender of the user's own words, which no member can be called.
const USER: &str = "user";

/// Sends a message for a member or the leader. `None` if the sender is neither, or means an agent that is no member.
pub(crate) fn send(
    shared: &Arc<ConversationShared>,
    to: &str,
    letter: &Letter,
) -> Option<Result<String, ToolError>> {
    // Another session of the user is no member.
    if to.starts_with("session:") {
        return None;
    }
    let team = shared.session.team.read().clone()?;
    let seat = seat(shared)?;
    let config = match team.store.config() {
        Ok(config) => config,
        Err(error) => return Some(Err(refused(&error))),
    };
    let is_leader = to == MAIN || to == LEADER;
    if seat.leads && !is_leader && to != "*" && config.member(to).is_none() {
        return None;
    }
    Some(send_as(&shared.root(), &team, &config, &seat, to, letter))
}

fn send_as(
    root: &Arc<ConversationShared>,
    team: &Arc<Team>,
    config: &TeamConfig,
    seat: &Seat,
    to: &str,
    letter: &Letter,
) -> Result<String, ToolError> {
    let recipients = recipients(config, seat, to)?;
    let message = |name: &str| match letter {
        Letter::Text(text) => {
            let kind = match to {
                "*" => MessageKind::Broadcast,
                _ => MessageKind::Message,
            };
            Ok(TeamMessage::new(&seat.name, name, kind, text))
        }
        Letter::Form(form) => form_message(team, seat, name, form),
    };
    if to == "*" && matches!(letter, Letter::Form(_)) {
        return Err(ToolError::invalid("Such a message goes to one member."));
    }
    for name in &recipients {
        post(root, team, &message(name)?)?;
    }
    Ok(format!(
        "In the inbox of {}. A member that is idle is woken by it; one that works gets it with its next step.",
        recipients.join(", ")
    ))
}

/// Who gets a message.
fn recipients(config: &TeamConfig, seat: &Seat, to: &str) -> Result<Vec<String>, ToolError> {
    if to == "*" {
        let living = config.members.iter();
        let living = living.filter(|member| member.state != MemberState::Stopped);
        let mut names: Vec<String> = living.map(|member| member.name.clone()).collect();
        names.push(LEADER.to_owned());
        names.retain(|name| *name != seat.name);
        if names.is_empty() {
            return Err(ToolError::failed("The team has no other member."));
        }
        return Ok(names);
    }
    let name = if to == MAIN { LEADER } else { to };
    let name = match config.member(name) {
        Some(member) if member.state == MemberState::Stopped => {
            return Err(ToolError::failed(format!(
                "{} was ended. Start another member with Agent.",
                member.name
            )));
        }
        Some(member) => member.name.clone(),
        None if name == LEADER => LEADER.to_owned(),
        None => {
            return Err(ToolError::failed(format!(
                "The team has no member {to}. Members: {}.",
                config.names()
            )));
        }
    };
    if name == seat.name {
        return Err(ToolError::failed("That is you."));
    }
    Ok(vec![name])
}

/// A form as a message, with its effect. Who may send which, and answers to open questions only, are decided here.
fn form_message(team: &Team, seat: &Seat, to: &str, form: &Form) -> Result<TeamMessage, ToolError> {
    match form {
        Form::ShutdownRequest { reason } => {
            if !seat.leads {
                return Err(ToolError::failed("Only the leader asks members to end."));
            }
            let id = crate::agents::order::new_id('s');
            let asked = team.store.change(|config| {
                config.member_mut(to)?.open_request = Some(id.clone());
                Ok(())
            });
            asked.map_err(|error| refused(&error))?;
            let text = match reason.trim() {
                "" => "The leader asks you to end.",
                reason => reason,
            };
            Ok(
                TeamMessage::new(&seat.name, to, MessageKind::ShutdownRequest, text)
                    .about(&id, None),
            )
        }
        Form::ShutdownResponse {
            request_id,
            approve,
            reason,
        } => {
            if seat.leads || to != LEADER {
                return Err(ToolError::failed(
                    "A member answers the leader who asked it to end.",
                ));
            }
            take_request(team, &seat.name, request_id, |member| {
                if *approve {
                    member.state = MemberState::Stopped;
                }
            })?;
            let kind = MessageKind::ShutdownResponse;
            let message = TeamMessage::new(&seat.name, to, kind, reason);
            Ok(message.about(request_id, Some(*approve)))
        }
        Form::PlanApprovalResponse {
            request_id,
            approve,
            feedback,
        } => {
            if !seat.leads {
                return Err(ToolError::failed(
                    "Only the leader approves plans, and nobody their own.",
                ));
            }
            take_request(team, to, request_id, |member| {
                if *approve {
                    member.mode = None;
                }
            })?;
            let text = match (approve, feedback.trim()) {
                (true, "") => "Your plan is approved: carry it out.".to_owned(),
                (true, more) => format!("Your plan is approved: carry it out. {more}"),
                (false, more) => format!("Your plan is not approved; change it: {more}"),
            };
            let kind = MessageKind::PlanApprovalResponse;
            let message = TeamMessage::new(&seat.name, to, kind, &text);
            Ok(message.about(request_id, Some(*approve)))
        }
    }
}

/// Takes the open question of a member, once. An answer to another one is stale.
fn take_request(
    team: &Team,
    name: &str,
    request: &str,
    effect: impl FnOnce(&mut lathe_tools::team::Member),
) -> Result<(), ToolError> {
    let taken = team.store.change(|config| {
        let member = config.member_mut(name)?;
        if member.open_request.as_deref() != Some(request) {
            return Ok(false);
        }
        member.open_request = None;
        effect(member);
        Ok(true)
    });
    match taken.map_err(|error| refused(&error))? {
        true => Ok(()),
        false => Err(ToolError::failed(format!(
            "{name} has no open request {request}: it was answered already, or is somebody else's."
        ))),
    }
}

/// Tells a member that a task was given to it.
pub(crate) fn task_given(shared: &Arc<ConversationShared>, task: &Task) {
    let (Some(seat), Some(team)) = (seat(shared), shared.session.team.read().clone()) else {
        return;
    };
    let Some(owner) = task.owner.as_ref().filter(|owner| **owner != seat.name) else {
        return;
    };
    let known = team.store.config().ok();
    if known.is_none_or(|config| config.member(owner).is_none()) {
        return;
    }
    let text = format!(
        "Task #{} is yours: {}\n{}",
        task.id, task.subject, task.description
    );
    let kind = MessageKind::TaskAssignment;
    let message = TeamMessage::new(&seat.name, owner, kind, text.trim_end());
    if let Err(error) = post(&shared.root(), &team, &message) {
        let text = format!("{owner} was not told of task #{}: {error}", task.id);
        shared.events.notice(NoticeLevel::Warning, text);
    }
}

/// Puts a message into an inbox, and has it delivered.
fn post(
    root: &Arc<ConversationShared>,
    team: &Arc<Team>,
    message: &TeamMessage,
) -> Result<(), ToolError> {
    let inbox = team.store.inbox(&message.to);
    inbox.append(message).map_err(|error| refused(&error))?;
    let is_process = note_work(team, &message.to).map_err(|error| refused(&error))?;
    if team.own.is_some() {
        // Another process has the inbox, and sees it.
    } else if message.to == LEADER {
        to_leader(root, team, false);
    } else if is_process {
        process::supervise(root, team);
    } else {
        deliver_later(root, team, &message.to);
    }
    Ok(())
}

/// A member that is a process works from the moment that a message is in its inbox: it looks there, under the same lock,
/// before it says that it is idle. Returns whether it is one.
fn note_work(team: &Team, name: &str) -> Result<bool, TeamError> {
    let config = team.store.config()?;
    if !config
        .member(name)
        .is_some_and(|it| it.backend.is_process())
    {
        return Ok(false);
    }
    team.store.change(|config| {
        let member = config.member_mut(name)?;
        if member.state == MemberState::Idle {
            member.state = MemberState::Working;
        }
        Ok(true)
    })
}

/// Writes the user's own words to a member that is a process. Returns whether the agent is one.
pub(crate) fn write_as_user(
    root: &Arc<ConversationShared>,
    agent: &AgentId,
    words: &str,
) -> Option<Result<(), ToolError>> {
    let (team, name) = super::membership(&root.session, agent)?;
    let config = team.store.config().ok()?;
    let member = config.member(&name)?;
    if !member.backend.is_process() {
        return None;
    }
    if member.state == MemberState::Stopped {
        return Some(Err(ToolError::failed(format!("{name} was ended."))));
    }
    let message = TeamMessage::new(USER, &name, MessageKind::Message, words);
    Some(post(root, &team, &message))
}

impl Team {
    /// A message that the program itself has read.
    pub(super) fn done_with(&self, name: &str, message: &TeamMessage) {
        let ids = [message.id.clone()];
        if let Err(error) = self.store.inbox(name).mark_read(&ids) {
            tracing::warn!(%error, "a delivered message can't be marked");
        }
        self.under_way.lock().remove(&message.id);
    }

    /// The messages of an inbox that are on nobody's way; they are from now on.
    pub(super) fn take_waiting(&self, name: &str) -> Vec<TeamMessage> {
        let mut under_way = self.under_way.lock();
        let mut unread = self.store.inbox(name).unread().unwrap_or_else(|error| {
            tracing::warn!(%error, "an inbox can't be read");
            Vec::new()
        });
        unread.retain(|message| under_way.insert(message.id.clone()));
        unread
    }

    /// The conversation that messages were on their way into is over.
    pub(super) fn forget_under_way(&self, name: &str) {
        let unread = self.store.inbox(name).unread().unwrap_or_default();
        let mut under_way = self.under_way.lock();
        for message in unread {
            under_way.remove(&message.id);
        }
    }
}

/// The user's words as a prompt; `None` for a message of anybody else.
pub(super) fn users_prompt(message: &TeamMessage) -> Option<Prompt> {
    if message.from != USER {
        return None;
    }
    let mut prompt = Prompt::new(message.text.as_str());
    prompt.verbatim = true;
    let ids = vec![Value::from(message.id.as_str())];
    prompt.extra.insert(MESSAGES.to_owned(), ids.into());
    Some(prompt)
}

/// Messages as one prompt, which names them.
pub(super) fn prompt_of(messages: &[TeamMessage]) -> Prompt {
    let texts: Vec<String> = messages.iter().map(TeamMessage::for_model).collect();
    let first = messages.first().map_or("", |message| message.id.as_str());
    let mut prompt = notice::prompt(first, texts.join("\n\n"));
    let ids: Vec<Value> = messages.iter().map(|it| it.id.as_str().into()).collect();
    prompt.extra.insert(MESSAGES.to_owned(), ids.into());
    prompt
}

/// Gives the leader what waits in its inbox. `quietly` begins no turn for it.
pub(super) fn to_leader(root: &Arc<ConversationShared>, team: &Arc<Team>, quietly: bool) {
    for message in team.take_waiting(LEADER) {
        if message.kind.is_for_program() {
            ask::received(root, team, &message);
            team.done_with(LEADER, &message);
            continue;
        }
        let mut prompt = prompt_of(std::slice::from_ref(&message));
        prompt.context_only = quietly;
        root.enqueue(prompt);
    }
}

/// Gives a member what waits in its inbox, as soon as it can take it.
pub(super) fn deliver_later(root: &Arc<ConversationShared>, team: &Arc<Team>, name: &str) {
    let (root, team, name) = (root.clone(), team.clone(), name.to_owned());
    team.delivering.fetch_add(1, Ordering::Relaxed);
    lathe_spawn::task(async move {
        deliver(&root, &team, &name).await;
        team.delivering.fetch_sub(1, Ordering::Relaxed);
        root.inbox.wake.notify_one();
    });
}

async fn deliver(root: &Arc<ConversationShared>, team: &Arc<Team>, name: &str) {
    let lane = team.lane(name);
    let _alone = lane.lock().await;
    let agents = &root.session.agents;
    loop {
        let Ok(config) = team.store.config() else {
            return;
        };
        let member = config.member(name);
        let Some(member) = member
            .filter(|member| member.state != MemberState::Stopped && !member.backend.is_process())
        else {
            return;
        };
        let Some(entry) = agents.find(&member.agent_id) else {
            return;
        };
        if agents.is_ending() {
            return;
        }
        let messages = team.take_waiting(name);
        if messages.is_empty() {
            return;
        }
        let prompt = prompt_of(&messages);
        if give_prompt(&entry, prompt.clone()) {
            return;
        }
        entry.over().await;
        let waking = Waking {
            tool_use_id: entry.tool_use_id.clone(),
            turn: entry.state().turn.unwrap_or_else(RecordId::random),
        };
        let Err(error) = wake(root, &entry, prompt, waking).await else {
            return;
        };
        {
            let mut under_way = team.under_way.lock();
            for message in &messages {
                under_way.remove(&message.id);
            }
        }
        // The message stays in the inbox. With all places taken, it is tried again when one is free.
        let busy = agents.all().into_iter().find(|entry| entry.takes_place());
        match busy {
            Some(other) if error.to_string() == AgentError::TooMany.to_string() => {
                other.over().await;
            }
            _ => {
                let text = format!("{name} could not be woken; its messages wait: {error}");
                root.events.notice(NoticeLevel::Warning, text);
                return;
            }
        }
    }
}

/// Notes the messages that a prompt brought into a conversation as delivered.
pub(crate) fn read(shared: &ConversationShared, prompt: &Prompt) {
    let Some(Value::Array(ids)) = prompt.extra.get(MESSAGES) else {
        return;
    };
    let Some(team) = shared.session.team.read().clone() else {
        return;
    };
    let name = match shared.role.place() {
        Some(place) => team.name_of(&place.id),
        None => Some(team.own_name().to_owned()),
    };
    let Some(name) = name else { return };
    let ids: Vec<String> = ids
        .iter()
        .filter_map(|id| id.as_str().map(str::to_owned))
        .collect();
    if let Err(error) = team.store.inbox(&name).mark_read(&ids) {
        tracing::warn!(%error, "delivered messages can't be marked");
    }
    let mut under_way = team.under_way.lock();
    for id in &ids {
        under_way.remove(id);
    }
}

/// Adds the messages of one prompt to another that is joined with it.
pub(crate) fn join_prompts(first: &mut Prompt, more: &Prompt) {
    let Some(Value::Array(ids)) = more.extra.get(MESSAGES) else {
        return;
    };
    let known = first
        .extra
        .entry(MESSAGES.to_owned())
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(known) = known {
        known.extend(ids.iter().cloned());
    }
}

/// Takes up the inboxes of a session that is resumed. What reached a transcript before the process died was delivered.
pub(super) fn take_up(shared: &Arc<ConversationShared>, team: &Arc<Team>, config: &TeamConfig) {
    let paths = &shared.session.agents.paths;
    note_delivered(team, LEADER, shared.transcript.path());
    // A member that is a process does the same when it begins.
    for member in config.members.iter().filter(|it| !it.backend.is_process()) {
        let id = AgentId(member.agent_id.clone());
        note_delivered(team, &member.name, &paths.agent_transcript(&id));
    }
    // The leader gets them with the next words of the user.
    to_leader(shared, team, true);
}

pub(super) fn note_delivered(team: &Team, name: &str, transcript: &Path) {
    let inbox = team.store.inbox(name);
    let Ok(unread) = inbox.unread() else { return };
    if unread.is_empty() {
        return;
    }
    let Ok(bytes) = std::fs::read(transcript) else {
        return;
    };
    let ids: Vec<String> = unread
        .into_iter()
        .map(|message| message.id)
        .filter(|id| memchr::memmem::find(&bytes, id.as_bytes()).is_some())
        .collect();
    if !ids.is_empty()
        && let Err(error) = inbox.mark_read(&ids)
    {
        tracing::warn!(%error, "delivered messages can't be marked");
    }
}
