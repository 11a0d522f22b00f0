//! `/plan` switches plan mode on, or shows the plan.

use crate::app::App;
use crate::app::queue::submit_content;
use crate::commands::mode;
use crate::render::style::Line;
use lathe_protocol::command::BuiltinCommand;
use lathe_protocol::permission::PermissionMode;

/// Plan mode; the plan, when it is on already.
pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let plan = session.tasks().plan();
    if !plan.active {
        mode::set(app, PermissionMode::Plan);
        return;
    }
    let theme = app.theme();
    let mut lines = vec![Line::styled(
        format!("The plan ({})", plan.file.display()),
        theme.heading,
    )];
    if plan.text.trim().is_empty() {
        lines.push(Line::styled("  nothing written yet", theme.muted));
    } else {
        let look = crate::render::markdown::Look {
            theme: &theme,
            columns: app.screen.width(),
            keys: &app.prompt.keymap,
        };
        lines.extend(crate::render::markdown::render(&plan.text, look));
    }
    app.answer(lines);
}

/// Begins a new conversation that knows the plan and nothing else, as soon as this turn has ended.
pub(crate) fn start_fresh(app: &mut App, plan: &str) {
    mode::set(app, PermissionMode::AcceptEdits);
    app.queue.hold(&BuiltinCommand::Clear.qualified_name(), "");
    let text = format!("Carry out this plan:\n\n{plan}");
    submit_content(app, &text, text.clone().into());
}
