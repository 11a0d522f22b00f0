//! `/theme` chooses the theme.

use crate::app::{App, settings};
use crate::layers::{Item, Picker, Purpose};
use crate::render::theme::Theme;

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
    for entry in std::fs::read_dir(app.places.config_home.join("themes"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            items.push(Item::new(name, name, "your own"));
        }
    }
    let picker = Picker::new(Purpose::Theme, "Theme", items).marked(&app.look.theme_name);
    app.layers.open(picker);
}

pub(crate) fn chosen(app: &mut App, name: &str) {
    settings::set_theme(app, name);
    settings::save(app, "theme", name.into());
    app.remark(format!("theme: {name}"));
}

/// Shows the theme that is selected in the list, until something is chosen or the list is closed.
pub(crate) fn preview(app: &mut App, name: &str) {
    let (theme, _) = Theme::load(name, app.look.light_background, &app.places.config_home);
    app.look.theme = theme;
    app.screen.changed_now();
}
