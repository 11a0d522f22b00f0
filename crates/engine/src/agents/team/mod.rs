//! Teams: members with names, inboxes and a shared task list, led by the main conversation.
//!
//! A member is an agent that goes idle instead of ending: what it said last goes to the leader's inbox, and a message
//! wakes it with all it knew. Messages are in the recipient's inbox on disk before they are delivered (`post`), so a
//! killed process loses none. Its questions are the session's questions, asked in its name; it has no way to answer one.
//!
//! A member may also be a process of its own (`process` is the leader's side of it, `own` the member's): a session that
//! others reach through their inboxes alone, with its questions (`ask`) among the messages.

mod ask;
mod launch;
mod members;
pub(crate) mod own;
mod post;
mod process;
mod watch;

pub(crate) use ask::Line;
pub(crate) use members::{briefing, check_order, ended, idle_objection, join, leave, woken};
pub(crate) use own::{attach as attach_own, spent, turn_begins, turn_ended, went_idle};
pub(crate) use post::{join_prompts, read, send, task_given, write_as_user};
pub(crate) use process::begin as begin_process;

use crate::agents::AgentEntry;
use crate::conversation::{ConversationShared, Role};
use crate::session::Session;
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::ids::AgentId;
use lathe_protocol::permission::PermissionMode;
use lathe_tools::ToolError;
use lathe_tools::host::TeamMade;
use lathe_tools::task_list;
use lathe_tools::task_store::Seat;
use lathe_tools::team::{LEADER, Member, MemberState, TeamError, TeamStore};
use lathe_tools::todo_write;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// A team that the session leads, or that it is a member of.
pub(crate) struct Team {
    pub(crate) store: Arc<TeamStore>,
    /// The member that the session is; `None` if it leads.
    own: Option<own::Own>,
    /// The names of the members, by their agents.
    names: Mutex<HashMap<String, String>>,
    /// Messages that wait in the queue of a conversation.
    under_way: Mutex<HashSet<String>>,
    /// Deliveries that were begun; the session is not idle before they are done.
    delivering: AtomicUsize,
    /// One delivery at a time for each member.
    lanes: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Changes of the team's files, where other processes make some.
    changes: watch::Changes,
    /// Members that are processes and run, or are started.
    followed: Mutex<HashSet<String>>,
    /// Questions of members that are open here, by their ids.
    asked: Mutex<HashMap<String, CancellationToken>>,
}

impl Team {
    fn new(store: Arc<TeamStore>, own: Option<own::Own>) -> Self {
        Self {
            store,
            own,
            names: Mutex::default(),
            under_way: Mutex::default(),
            delivering: AtomicUsize::new(0),
            lanes: Mutex::default(),
            changes: watch::Changes::default(),
            followed: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    /// The name of the session's main conversation in the team.
    fn own_name(&self) -> &str {
        self.own.as_ref().map_or(LEADER, |own| own.name())
    }

    /// The member that an agent is.
    fn name_of(&self, agent: &AgentId) -> Option<String> {
        self.names.lock().get(agent.as_str()).cloned()
    }

    /// Whether the member that an agent is runs as a process of its own.
    pub(crate) fn runs_as_process(&self, entry: &AgentEntry) -> bool {
        let config = self.store.config().ok();
        let member = config.as_ref().and_then(|it| it.member(entry.id.as_str()));
        member.is_some_and(|member| member.backend.is_process())
    }

    /// Whether a message is on its way to a member.
    pub(crate) fn delivers(&self) -> bool {
        self.delivering.load(Ordering::Relaxed) > 0
    }

    fn lane(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        self.lanes
            .lock()
            .entry(name.to_owned())
            .or_default()
            .clone()
    }

    fn set_state(&self, name: &str, state: MemberState) {
        let changed = self.store.change(|config| {
            config.member_mut(name)?.state = state;
            Ok(())
        });
        if let Err(error) = changed {
            tracing::warn!(%error, name, "the state of a member can't be kept");
        }
    }
}

fn refused(error: &TeamError) -> ToolError {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    ToolError::failed(format!(
        "{}{}.",
        first.unwrap_or_default(),
        letters.as_str()
    ))
}

/// The team that a session leads, and the member of it that an agent is.
pub(crate) fn membership(session: &Session, agent: &AgentId) -> Option<(Arc<Team>, String)> {
    let team = session.team.read().clone()?;
    let name = team.name_of(agent)?;
    Some((team, name))
}

/// The place of a conversation in the team.
pub(crate) fn seat(shared: &ConversationShared) -> Option<Seat> {
    let team = shared.session.team.read().clone()?;
    match &shared.role {
        Role::Main { .. } => Some(Seat {
            name: team.own_name().to_owned(),
            leads: team.own.is_none(),
        }),
        Role::Agent(place) => team
            .name_of(&place.id)
            .map(|name| Seat { name, leads: false }),
        Role::Fork(_) | Role::Hook => None,
    }
}

/// The colour of a member's name.
pub(crate) fn color_of(session: &Session, entry: &AgentEntry) -> Option<String> {
    let (team, name) = membership(session, &entry.id)?;
    let config = team.store.config().ok()?;
    config.member(&name).map(|member| member.color.clone())
}

/// The permission mode of a member, where it has its own.
pub(crate) fn mode_of(session: &Session, agent: &AgentId) -> Option<PermissionMode> {
    let (team, name) = membership(session, agent)?;
    team.store.config().ok()?.member(&name)?.mode
}

/// Makes a team that the main conversation leads.
pub(crate) fn create(
    shared: &Arc<ConversationShared>,
    name: &str,
    description: &str,
) -> Result<TeamMade, ToolError> {
    if !matches!(shared.role, Role::Main { .. }) {
        return Err(ToolError::failed(
            "Only the main conversation leads a team. Write to it with SendMessage to \"main\".",
        ));
    }
    if shared.session.agents.writer.is_none() {
        return Err(ToolError::failed(
            "This session keeps no transcripts, so members couldn't be woken. Start agents without a team.",
        ));
    }
    launch::backend(shared)?;
    let mut slot = shared.session.team.write();
    if let Some(team) = &*slot {
        if team.own.is_some() {
            return Err(ToolError::failed(format!(
                "You are a member of the team {}; only its leader makes teams.",
                team.store.name()
            )));
        }
        return Err(ToolError::failed(format!(
            "You lead the team {} already; TeamDelete ends it.",
            team.store.name()
        )));
    }
    let home = &shared.session.settings.loader.places.config_home;
    let store = TeamStore::create(home, name, description, &shared.session.id.to_string())
        .map_err(|error| refused(&error))?;
    let made = TeamMade {
        name: store.name().to_owned(),
        config: store.file(),
        tasks: store.tasks().to_owned(),
    };
    use_task_list(shared, store.tasks());
    *slot = Some(Arc::new(Team::new(Arc::new(store), None)));
    Ok(made)
}

/// Lets the session's conversations use the list of the team, with the tools for it.
fn use_task_list(shared: &ConversationShared, folder: &Path) {
    shared.tools.tasks.use_team(folder.to_owned());
    let mut registry = shared.toolbox.registry.write();
    registry.relist(|tool| task_list::NAMES.contains(&tool.name()));
    if registry.find("TaskUpdate").is_some() {
        registry.unlist(|tool| tool.name() == todo_write::NAME);
    }
}

/// Ends the team. Members that work must end first.
pub(crate) fn delete(shared: &Arc<ConversationShared>) -> Result<String, ToolError> {
    if !matches!(shared.role, Role::Main { .. }) {
        return Err(ToolError::failed("Only the leader ends the team."));
    }
    let mut slot = shared.session.team.write();
    let Some(team) = slot.clone() else {
        return Err(ToolError::failed("There is no team."));
    };
    if team.own.is_some() {
        return Err(ToolError::failed("Only the leader ends the team."));
    }
    let working: Vec<String> = shared
        .session
        .agents
        .all()
        .iter()
        .filter(|entry| entry.is_running())
        .filter_map(|entry| team.name_of(&entry.id))
        .collect();
    if !working.is_empty() {
        return Err(ToolError::failed(format!(
            "Members still work: {}. Ask them to end with {{\"type\": \"shutdown_request\"}}, or stop them with TaskStop.",
            working.join(", ")
        )));
    }
    process::end_all(&shared.session.agents, &team);
    team.store.remove().map_err(|error| refused(&error))?;
    shared.tools.tasks.leave_team();
    *slot = None;
    Ok(team.store.name().to_owned())
}

/// Takes up the team of a session that is resumed: members that worked are idle, their tasks are free, and what was not
/// delivered still is to be.
pub(crate) async fn attach(shared: &Arc<ConversationShared>) -> Option<Diagnostic> {
    let home = shared.session.settings.loader.places.config_home.clone();
    let id = shared.session.id.to_string();
    // It may have to wait for the end of members that are processes.
    let attaching = lathe_spawn::blocking(move || TeamStore::attach(&home, &id));
    let store = match attaching.await {
        Ok(Ok(store)) => store?,
        Ok(Err(error)) => return Some(Diagnostic::warning(error.to_string())),
        Err(error) => return Some(Diagnostic::warning(error.to_string())),
    };
    let mut lost = Vec::new();
    let config = store.change(|config| {
        // The leader was killed before the member began: there is no agent that could be woken.
        let agents = &shared.session.agents;
        let gone = |member: &mut Member| agents.find(&member.agent_id).is_none();
        lost.extend(config.members.extract_if(.., gone).map(|it| it.name));
        for member in &mut config.members {
            if member.state == MemberState::Working {
                member.state = MemberState::Idle;
            }
            if let Some(process) = &mut member.process {
                process.begun = None;
                process.pid = None;
            }
        }
        Ok(config.clone())
    });
    let config = match config {
        Ok(config) => config,
        Err(error) => return Some(Diagnostic::warning(error.to_string())),
    };
    use_task_list(shared, store.tasks());
    let released = shared.tools.tasks.change(|list| {
        let names = config.members.iter().map(|member| member.name.as_str());
        let names = names.chain(lost.iter().map(String::as_str));
        Ok(names.flat_map(|name| list.release(name)).count())
    });
    let team = Arc::new(Team::new(Arc::new(store), None));
    for member in &config.members {
        let mut names = team.names.lock();
        names.insert(member.agent_id.clone(), member.name.clone());
    }
    *shared.session.team.write() = Some(team.clone());
    post::take_up(shared, &team, &config);
    if config.members.iter().any(|it| it.backend.is_process()) {
        process::watch(shared, &team);
    }
    Some(match released {
        Ok(released) => Diagnostic::note(format!(
            "The team {} is taken up: {} member(s) are idle, {released} task(s) are free again; SendMessage wakes a member",
            config.name,
            config.members.len()
        )),
        Err(error) => Diagnostic::warning(error.to_string()),
    })
}
