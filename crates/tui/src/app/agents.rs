//! Agents at work: opening one, going from one to the next, writing to it.

use crate::app::App;
use crate::app::jobs::JobResult;
use crate::commands::results::CommandResult;
use crate::commands::tasks;
use crate::layers::agent::AgentView;
use crate::layers::{Layer as _, Outcome};
use crate::render::cell::Fold;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, one_line};
use crate::render::theme::named_color;
use crate::terminal::key::Key;
use lathe_engine::TaskError;
use lathe_protocol::ids::ToolUseId;
use lathe_protocol::permission::AskingAgent;
use lathe_protocol::record::Record;
use lathe_tools::host::{AgentStatus, AgentTask};
use std::sync::Arc;

/// The colours of agents whose definition names none, in the order in which they were started.
const COLORS: [&str; 6] = ["cyan", "purple", "green", "yellow", "blue", "pink"];

/// The colour of an agent: that of its definition, or one by its place among the agents.
pub(crate) fn color(named: Option<&str>, place: usize) -> Style {
    let by_place = COLORS[place % COLORS.len()];
    let style = named.and_then(named_color);
    style.or_else(|| named_color(by_place)).unwrap_or_default()
}

/// The line of a question that says which agent asks, a member of a team in its colour.
pub(crate) fn asked_by(agent: &AskingAgent, muted: Style) -> Line {
    let mut line = Line::styled("asked by ", muted);
    let words = one_line(&clean(&agent.line()));
    match (&agent.agent_name, agent.agent_color.as_deref()) {
        (Some(name), Some(color)) => {
            let name = one_line(&clean(name));
            let rest = words.strip_prefix(&format!("agent {name}, "));
            line.push(name, named_color(color).unwrap_or(muted).bold());
            line.push(format!(", {}", rest.unwrap_or(&words)), muted);
        }
        _ => line.push(words, muted),
    }
    line
}

/// The agents of the session: those at work first, then the newest.
fn listed(app: &App) -> Vec<AgentTask> {
    let Some(session) = &app.engine.handle else {
        return Vec::new();
    };
    let agents = session.tasks().agents();
    let (mut running, mut over): (Vec<_>, Vec<_>) = agents
        .into_iter()
        .partition(|agent| agent.status == AgentStatus::Running);
    over.reverse();
    running.append(&mut over);
    running
}

fn color_of(app: &App, task: &AgentTask) -> Style {
    let Some(session) = &app.engine.handle else {
        return Style::PLAIN;
    };
    let catalog = session.extensions().agents();
    let named = catalog
        .get(&task.agent_type)
        .and_then(|agent| agent.color.clone());
    let all = session.tasks().agents();
    let place = all.iter().position(|agent| agent.id == task.id);
    color(named.as_deref(), place.unwrap_or(0))
}

/// Opens an agent, if the session has it.
pub(crate) fn open(app: &mut App, id: &str) -> bool {
    let agents = listed(app);
    let Some(at) = agents.iter().position(|agent| agent.id.as_str() == id) else {
        return false;
    };
    let task = agents[at].clone();
    let known = task.tool_use_id.as_ref();
    if known.is_some_and(|call| app.conversation.agent(call).is_none()) {
        load(app, &task);
    }
    let view = AgentView::new(task, (at + 1, agents.len()), color_of(app, &agents[at]));
    app.layers.open(view);
    true
}

/// Reads what an agent of an earlier run said and did.
fn load(app: &App, task: &AgentTask) {
    let (Some(session), Some(call)) = (&app.engine.handle, task.tool_use_id.clone()) else {
        return;
    };
    let reading = session.tasks().agent_records(task.id.as_str());
    app.jobs.task(async move {
        let records = reading.await;
        Some(JobResult::Command(CommandResult::AgentRecords {
            call,
            records,
        }))
    });
}

/// The transcript of an agent was read.
pub(crate) fn loaded(
    app: &mut App,
    call: &ToolUseId,
    records: Result<Vec<Arc<Record>>, TaskError>,
) {
    match records {
        Ok(records) => {
            app.with_look(|conversation, look| conversation.load_agent(call, &records, look));
        }
        Err(error) => {
            if let Some(view) = app.layers.shown_mut::<AgentView>() {
                view.say(error.to_string());
            }
        }
    }
}

/// Goes to the next agent, or to the one before; before the first is the conversation itself.
pub(crate) fn turn(app: &mut App, forward: bool) {
    let agents = listed(app);
    let shown = app
        .layers
        .shown::<AgentView>()
        .map(|view| view.task.id.clone());
    let at = shown.and_then(|id| agents.iter().position(|agent| agent.id == id));
    let next = match (at, forward) {
        (None, true) => 0,
        (None, false) => agents.len().saturating_sub(1),
        (Some(at), true) => at + 1,
        (Some(0), false) => agents.len(),
        (Some(at), false) => at - 1,
    };
    if at.is_some() {
        app.layers.close_dialog();
    }
    match agents.get(next) {
        Some(agent) => {
            open(app, agent.id.as_str());
        }
        None if at.is_none() => app.alarms.show("no agents in this session yet"),
        None => {}
    }
}

/// Offers a key to the agent that is shown. Returns whether one is.
pub(crate) fn key(app: &mut App, key: Key) -> bool {
    let Some(view) = app.layers.shown_mut::<AgentView>() else {
        return false;
    };
    let id = view.task.id.to_string();
    match view.key(key) {
        Outcome::Cancelled => {
            app.layers.close_dialog();
            app.next_question();
        }
        Outcome::Chosen(text) => write(app, id, text),
        Outcome::Other { key: 'x', .. } => tasks::stop_agent(app, &id),
        Outcome::Other { key, .. } => turn(app, key == 'j'),
        _ => {}
    }
    true
}

fn write(app: &mut App, id: String, text: String) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let writing = session.tasks().write_to_agent(&id, &text);
    app.jobs.task(async move {
        let sent = writing.await;
        Some(JobResult::Command(CommandResult::AgentWritten {
            id,
            text,
            sent,
        }))
    });
    if let Some(view) = app.layers.shown_mut::<AgentView>() {
        view.say("sent: it reads this with its next step".to_owned());
    }
}

/// Words for an agent were delivered, or not.
pub(crate) fn written(app: &mut App, id: &str, text: &str, sent: Result<(), TaskError>) {
    let view = app.layers.shown_mut::<AgentView>();
    let view = view.filter(|view| view.task.id.as_str() == id);
    match (sent, view) {
        (Ok(()), _) => {}
        (Err(error), Some(view)) => {
            view.say(error.to_string());
            view.give_back(text);
        }
        (Err(error), None) => app.warn(error.to_string()),
    }
}

/// Brings the agent that is shown up to date, before it is drawn.
pub(crate) fn refresh(app: &mut App) {
    let Some(id) = app
        .layers
        .shown::<AgentView>()
        .map(|view| view.task.id.clone())
    else {
        return;
    };
    let agents = listed(app);
    let at = agents.iter().position(|agent| agent.id == id);
    let theme = app.theme();
    let look = Look {
        theme: &theme,
        columns: app.screen.width(),
        keys: &app.prompt.keymap,
    };
    let work = at
        .and_then(|at| agents[at].tool_use_id.as_ref())
        .and_then(|call| app.conversation.agent(call));
    let Some(view) = app.layers.shown_mut::<AgentView>() else {
        return;
    };
    if let Some(at) = at {
        view.task = agents[at].clone();
        view.place = (at + 1, agents.len());
    }
    let Some(work) = work else {
        return;
    };
    let made_for = (work.version(), look.columns, theme.name.clone());
    if view.body.made_for.as_ref() != Some(&made_for) {
        view.body.lines = work.lines(look, Fold::Folded);
        view.body.made_for = Some(made_for);
    }
    view.body.writing = work.writing(look);
}
