//! `/exit` leaves.

use crate::app::{App, Leave};
use crate::layers::{Item, Picker, Purpose};
use crate::render::style::Line;
use crate::render::text::clean;
use lathe_shell::run::BackgroundCommand;

/// Leaves, or asks first where work continues in the background.
pub(crate) fn run(app: &mut App) {
    if !app.session.works_in_background() {
        app.exit.leave = Some(Leave::Asked);
        return;
    }
    let agents = app.session.agents.iter().map(|agent| &agent.description);
    let agents: Vec<String> = agents.cloned().collect();
    let commands = running(app);
    app.layers.open(leave_picker(&agents, &commands));
}

/// The commands that would end with the session.
fn running(app: &App) -> Vec<BackgroundCommand> {
    let session = app.engine.handle.as_ref();
    let mut commands = session.map_or_else(Vec::new, |session| session.tasks().commands());
    commands.retain(BackgroundCommand::ends_with_session);
    commands
}

/// The fate of commands at the end of the session, a line each.
pub(crate) fn last_words(app: &App) -> Vec<String> {
    running(app)
        .iter()
        .filter_map(BackgroundCommand::at_session_end)
        .map(|text| clean(&text))
        .collect()
}

/// Asks what becomes of the work in the background.
pub(crate) fn leave_picker(agents: &[String], commands: &[BackgroundCommand]) -> Picker {
    let mut lines: Vec<Line> = agents
        .iter()
        .map(|agent| Line::plain(format!("  agent: {}", clean(agent))))
        .collect();
    lines.extend(commands.iter().map(|command| {
        let remark = match command {
            command if command.in_sandbox => ", in the sandbox; it ends with Lathe",
            command if command.is_kept => ", kept",
            _ => "",
        };
        Line::plain(format!(
            "  command: {}{remark}",
            clean(&command.in_a_line())
        ))
    }));
    let mut items = vec![Item::new("end", "Exit and end it", "")];
    if commands.iter().any(|command| !command.in_sandbox) {
        let detail = "agents and commands in the sandbox end";
        items.push(Item::new("keep", "Exit and keep the commands", detail));
    }
    items.push(Item::new("stay", "Stay", ""));
    Picker::new(Purpose::Leave, "Background work is still running", items).explained(lines)
}

/// The answer to that.
pub(crate) fn answered(app: &mut App, value: &str) {
    match (value, &app.engine.handle) {
        ("keep", Some(session)) => session.tasks().keep_all(),
        ("stay", _) => return,
        _ => {}
    }
    app.exit.leave = Some(Leave::Asked);
}
