//! `/tools` lists the tools.

use crate::app::App;
use crate::render::style::Line;

pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let theme = app.theme();
    let mut lines = vec![Line::styled("Tools", theme.heading)];
    lines.extend(
        session
            .context()
            .tool_names()
            .into_iter()
            .map(|name| Line::plain(format!("  {name}"))),
    );
    app.answer(lines);
}
