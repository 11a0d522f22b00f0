//! `/tasks` lists agents and commands in the background.

use crate::app::jobs::{JobResult, Report};
use crate::app::{App, agents};
use crate::layers::{Item, Page, Picker, Purpose};
use crate::prompt::keymap::{Action, Context, Keymap};
use crate::render::style::{Line, Style};
use crate::render::theme::Theme;
use lathe_shell::run::{BackgroundCommand, BackgroundStatus};
use lathe_tools::host::AgentTask;
use std::time::{Duration, Instant};

/// Lists agents and commands that run, or ran, in the background.
pub(crate) fn run(app: &mut App) {
    list(app, None);
}

pub(crate) fn list(app: &mut App, selected: Option<&str>) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let (agents, commands) = (session.tasks().agents(), session.tasks().commands());
    if agents.is_empty() && commands.is_empty() {
        app.layers.close_dialogs();
        app.remark("Nothing is running in the background.");
        return;
    }
    let mut picker = tasks_picker(agents, commands, &app.look.theme, &app.prompt.keymap);
    if let Some(selected) = selected {
        picker = picker.at(selected);
    }
    app.layers.open(picker);
}

/// Opens an agent, or shows the output of a command.
pub(crate) fn show(app: &mut App, id: &str) {
    if !agents::open(app, id) {
        show_output(app, id);
    }
}

/// How often output that is looked at is read again.
const FOLLOW: Duration = Duration::from_secs(1);

/// Whether output of a task is looked at that may grow.
pub(crate) fn follows(app: &App) -> bool {
    let Some(Purpose::TaskOutput { id }) = app.layers.purpose() else {
        return false;
    };
    let Some(session) = &app.engine.handle else {
        return false;
    };
    let commands = session.tasks().commands();
    let command = commands.iter().find(|command| command.id.as_str() == id);
    command.is_some_and(|command| command.status == BackgroundStatus::Running)
}

/// Reads output that is looked at again.
pub(crate) fn follow(app: &mut App, now: Instant) {
    if !follows(app) {
        return;
    }
    let Some(Purpose::TaskOutput { id }) = app.layers.purpose().cloned() else {
        return;
    };
    let lines = output_lines(app, &id);
    if let Some(page) = app.layers.shown_mut::<Page>()
        && page.is_older_than(now, FOLLOW)
    {
        page.replace(lines, now);
    }
}

/// Shows the output of a task, from its end.
pub(crate) fn show_output(app: &mut App, id: &str) {
    if app.engine.handle.is_none() {
        return;
    }
    let lines = output_lines(app, id);
    let purpose = Purpose::TaskOutput { id: id.to_owned() };
    let page = Page::of_lines(purpose, format!("Output of {id}"), lines)
        .with_key('r', "read again")
        .with_key('x', "stop")
        .at_the_end();
    app.layers.open(page);
}

fn output_lines(app: &App, id: &str) -> Vec<Line> {
    let muted = app.look.theme.muted;
    let output = app.engine.handle.as_ref();
    let output = output.map(|session| session.tasks().output(id, 200_000));
    let lines: Vec<Line> = match output {
        Some(Ok((text, _, _))) => crate::render::ansi::lines(text.trim_end(), Style::PLAIN),
        // A task without output has no file yet; one that is gone is reported.
        Some(Err(error)) => vec![Line::styled(
            crate::render::text::clean(&error.to_string()),
            muted,
        )],
        None => Vec::new(),
    };
    if lines.iter().all(|line| line.spans.is_empty()) {
        return vec![Line::styled("  nothing yet", muted)];
    }
    lines
}

/// Stops an agent that is shown.
pub(crate) fn stop_agent(app: &App, id: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let stop = session.tasks().stop_later(id);
    let stopped = id.to_owned();
    app.jobs.task(async move {
        let stopped = stop.await.map(|()| format!("{stopped} was stopped"));
        Some(JobResult::Stopped(stopped.into()))
    });
}

/// Stops a command or an agent in the background, and shows what still runs.
pub(crate) fn stop(app: &mut App, id: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let (id, stopped) = (id.to_owned(), id.to_owned());
    let stop = session.tasks().stop_later(&id);
    app.jobs.task(async move {
        let stopped = stop.await.map(|()| format!("{stopped} was stopped"));
        Some(JobResult::Stopped(stopped.into()))
    });
    list(app, Some(&id));
}

/// Keeps a command when the session ends, or no longer.
pub(crate) fn keep(app: &mut App, id: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let tasks = session.tasks();
    let is_kept = tasks
        .commands()
        .iter()
        .any(|command| command.id.as_str() == id && command.is_kept);
    if let Err(error) = tasks.keep(id, !is_kept) {
        app.warn(error.to_string());
    }
    list(app, Some(id));
}

/// A task was stopped: the list shows it, if it is still looked at.
pub(crate) fn stopped(app: &mut App, report: Report) {
    app.report(report);
    if app.layers.purpose() == Some(&Purpose::Tasks) {
        let selected = app.layers.shown::<Picker>().and_then(Picker::selected);
        list(app, selected.as_deref());
    }
}

/// Agents and commands in the background.
pub(crate) fn tasks_picker(
    agents: Vec<AgentTask>,
    commands: Vec<BackgroundCommand>,
    theme: &Theme,
    keys: &Keymap,
) -> Picker {
    let stops = keys.key(Context::Prompt, Action::StopAgents);
    let stops = stops.map_or_else(String::new, |key| {
        format!(" {key} in the prompt stops all agents.")
    });
    let mut items: Vec<Item> = agents
        .into_iter()
        .map(|agent| {
            let mut facts = vec![
                agent.id.to_string(),
                agent.status.word().to_owned(),
                agent.agent_type.clone(),
                crate::render::text::duration(Duration::from_millis(agent.usage.duration_ms)),
                format!(
                    "{} tokens",
                    crate::render::text::tokens(agent.usage.total_tokens)
                ),
            ];
            if agent.cost_usd > 0.0 {
                facts.push(crate::app::spending::dollars(agent.cost_usd));
            }
            facts.extend(agent.last_tool.clone());
            let mut item = Item::new(
                agent.id.to_string(),
                agent.description.lines().next().unwrap_or_default(),
                facts.join(" · "),
            );
            item.preview = if agent.result.is_empty() {
                tail_of(&agent.output_file)
            } else {
                agent.result.lines().take(5).map(str::to_owned).collect()
            };
            item
        })
        .collect();
    items.extend(commands.into_iter().map(|task| {
        let what = if task.description.is_empty() {
            task.command.clone()
        } else {
            task.description.clone()
        };
        let mut item = Item::new(
            task.id.to_string(),
            what.lines().next().unwrap_or_default(),
            format!(
                "{} · {} · {}{}",
                task.id,
                task.status.word(),
                crate::render::text::duration(task.elapsed),
                if task.is_kept { " · kept at exit" } else { "" }
            ),
        );
        item.preview = tail_of(&task.output_file);
        item
    }));
    Picker::new(Purpose::Tasks, "In the background", items)
        .explained(vec![Line::styled(
            format!("Enter opens an agent or shows the output of a command.{stops}"),
            theme.muted,
        )])
        .with_key('x', "stop")
        .with_key('k', "keep at exit")
}

/// The last lines of a file.
fn tail_of(path: &std::path::Path) -> Vec<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let Ok(mut file) = std::fs::File::open(path) else {
        return Vec::new();
    };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(2000)));
    let mut bytes = Vec::new();
    let _ = file.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = crate::render::text::terminal_lines(&text);
    lines
        .into_iter()
        .rev()
        .take(5)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect()
}
