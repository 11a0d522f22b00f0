//! `/keybindings` lists the keys.

use crate::app::App;
use crate::commands;
use crate::prompt::keymap::ACTIONS;
use crate::render::style::{Line, Style};

pub(crate) fn run(app: &mut App) {
    let theme = app.theme();
    let file = app.places.config_home.join("keybindings.json");
    let mut lines = Vec::new();
    for (keys, context, what) in app.prompt.keymap.listing() {
        lines.push(
            Line::styled(format!("  {keys:<36} "), theme.accent)
                .with(format!("{what} "), Style::PLAIN)
                .with(format!("({context})"), theme.muted),
        );
    }
    lines.push(Line::styled(
        format!(
            "Change them in {}: {{\"prompt\": {{\"ctrl+k ctrl+s\": \"stash\"}}}}",
            file.display()
        ),
        theme.muted,
    ));
    let names: Vec<&str> = ACTIONS.iter().map(|(_, name, _)| *name).collect();
    lines.push(Line::styled(
        format!("Actions: {}", names.join(", ")),
        theme.muted,
    ));
    commands::show_page(app, "Keys", lines);
}
