//! `/status` shows session, model, folder and settings.

use crate::app::App;
use crate::render::style::{Line, Style};
use crate::render::text::{clean, one_line};

pub(crate) fn run(app: &mut App) {
    let theme = app.theme();
    let mut facts = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("folder", app.places.environment.cwd.display().to_string()),
    ];
    if let Some(session) = &app.engine.handle {
        facts.push(("session", session.session_id().to_string()));
        facts.push(("transcript", session.transcript().display().to_string()));
        facts.push(("model", app.session.model.clone()));
        facts.push(("key from", session.settings().key_source().to_owned()));
        facts.push(("mode", app.session.mode.to_string()));
        facts.push(("tools", session.context().tool_names().len().to_string()));
    } else {
        facts.push(("session", "opening".to_owned()));
    }
    facts.push(("settings", app.places.config_home.display().to_string()));
    facts.push(("theme", app.look.theme_name.clone()));
    facts.push((
        "terminal",
        format!(
            "{}×{}, {}",
            app.screen.columns,
            app.screen.rows,
            app.look.depth.words()
        ),
    ));
    let mut lines = vec![Line::styled("Status", theme.heading)];
    lines.extend(facts.into_iter().map(|(name, value)| {
        Line::styled(format!("  {name:<11}"), theme.muted).with(value, Style::PLAIN)
    }));
    let past: Vec<String> = app.alarms.notices.past().map(clean).collect();
    if !past.is_empty() {
        lines.push(Line::styled("Notices", theme.heading));
    }
    for text in past {
        lines.push(Line::plain(format!("  {}", one_line(&text))));
    }
    app.answer(lines);
}
