//! `/theme` chooses the theme.

use crate::app::{App, settings};
use crate::layers::{Item, Picker, Purpose};
use crate::render::diff;
use crate::render::markdown::Look;
use crate::render::style::{Line, Style};
use crate::render::theme::Theme;
use std::path::Path;

pub(crate) fn run(app: &mut App, wanted: &str) {
    if !wanted.is_empty() {
        settings::set_theme(app, wanted);
        settings::save(app, "theme", wanted.into());
        return;
    }
    let mut items: Vec<Item> = crate::render::theme::BUILT_IN
        .iter()
        .map(|(name, what)| Item::new(*name, *name, *what))
        .collect();
    let files = settings::theme_files(app).into_iter();
    items.extend(files.map(|file| Item::new(file.name, file.label, file.origin)));
    let picker = Picker::new(Purpose::Theme, "Theme", items)
        .explained(sample(&app.look.theme))
        .marked(&app.look.theme_name);
    app.layers.open(picker);
}

/// A few lines of a conversation, to see a theme by.
fn sample(theme: &Theme) -> Vec<Line> {
    let hunks = diff::hunks("let total = 1;\n", "let total = 2; // two\n");
    let look = Look {
        theme,
        columns: 60,
        keys: crate::prompt::keymap::Keymap::standard(),
    };
    let mut lines = vec![
        Line::styled("❯ ", theme.prompt)
            .with("Fix the sum", Style::PLAIN)
            .over(theme.modes.said)
            .filled(theme.modes.said),
        Line::styled("● ", theme.success)
            .with("Edit", Style::PLAIN.bold())
            .with(" src/sum.rs", Style::PLAIN),
    ];
    lines.extend(diff::lines(Path::new("sum.rs"), &hunks, look, 8));
    lines.push(
        Line::styled("Muted", theme.muted)
            .with(" accent", theme.accent)
            .with(" warning", theme.warning)
            .with(" error", theme.error)
            .with(" code", theme.code)
            .with(" link", theme.link),
    );
    lines
}

pub(crate) fn chosen(app: &mut App, name: &str) {
    settings::set_theme(app, name);
    settings::save(app, "theme", name.into());
    app.remark(format!("theme: {name}"));
}

/// Shows the theme that is selected in the list, until something is chosen or the list is closed.
pub(crate) fn preview(app: &mut App, name: &str) {
    let (theme, _) = Theme::load(name, app.look.light_background, &settings::theme_files(app));
    if let Some(picker) = app.layers.shown_mut::<Picker>() {
        picker.explanation = sample(&theme);
    }
    app.look.theme = theme;
    app.screen.changed_now();
}
